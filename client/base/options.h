/*
 * The options and words of a command line. Options may come before or after the
 * command. The parser knows all options; a command refuses those that it does
 * not use.
 */
#ifndef IPS_CLIENT_BASE_OPTIONS_H
#define IPS_CLIENT_BASE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "client/base/out.h"
#include "common/err.h"
#include "common/paths.h"

#define IPSQ_ARGS_MAX 2

/* Options that every command accepts. */
#define IPSQ_COMMON                                                            \
    (IPSQ_HAS(MASTER) | IPSQ_HAS(TLS) | IPSQ_HAS(INSECURE) | IPSQ_HAS(STATE) | \
     IPSQ_HAS(FORMAT) | IPSQ_HAS(JSON) | IPSQ_HAS(TSV) | IPSQ_HAS(VERBOSE) |   \
     IPSQ_HAS(WIDE))

/* Every option: X(NAME, "name", "VALUE", "what it does"); VALUE NULL: the
 * option takes no value. */
#define IPSQ_OPTIONS(X)                                                        \
    X(MASTER, "master", "ADDR",                                                \
      "ask the master at unix:PATH, tcp:HOST:PORT or\n"                        \
      "tls:HOST:PORT; default: that of the state directory,\n"                 \
      "started if necessary")                                                  \
    X(TLS, "tls", "DIR",                                                       \
      "directory of keys for tls: addresses, as deploy/keys\n"                 \
      "makes them ($IPS_TLS)")                                                 \
    X(INSECURE, "insecure", NULL,                                              \
      "allow tcp: addresses that are not loopback: others on\n"                \
      "the network can read and change everything")                            \
    X(STATE, "state", "DIR",                                                   \
      "state directory ($IPS_STATE, else ~/.local/state/ips)")                 \
    X(FORMAT, "format", "F",                                                   \
      "table (default), tsv or json; events and graph also\n"                  \
      "jsonl")                                                                 \
    X(JSON, "json", NULL, "short for --format json")                           \
    X(TSV, "tsv", NULL, "short for --format tsv")                              \
    X(VERBOSE, "verbose", NULL,                                                \
      "-v: how complete the answer is, in every detail, and how\n"             \
      "it was computed")                                                       \
    X(WIDE, "wide", NULL,                                                      \
      "tables wider than the terminal: all columns, no text\n"                 \
      "cut")                                                                   \
    X(TOP, "top", "N", "at most N rows")                                       \
    X(OBJECT, "object", "OBJECT",                                              \
      "only below /machine, /machine/process or\n"                             \
      "/machine/process/thread; parts may contain * and ?")                    \
    X(LEVEL, "level", "LEVEL",                                                 \
      "only rows of this level: run, machine, process, thread\n"               \
      "or procedure")                                                          \
    X(ENGINE, "engine", "E",                                                   \
      "how to compute the path: auto (default), contract,\n"                   \
      "central, cm-sync or cm-async")                                          \
    X(WEIGHTING, "weighting", "W",                                             \
      "cpu (default), sched (CPU time and time waiting for a\n"                \
      "CPU) or wall (elapsed time up to the goal)")                            \
    X(GOAL, "goal", "OBJECT",                                                  \
      "the path ends with this process or thread; default:\n"                  \
      "with wall the command of the run, else the last end")                   \
    X(MTIME, "mtime", "SPEC",                                                  \
      "message times: BASE or BASE+PER_BYTE, in ns or with us,\n"              \
      "ms, s; none: 0. Default: as measured by `ipsq\n"                        \
      "calibrate`, 0 without it")                                              \
    X(EXTERNAL, "external", "WHICH",                                           \
      "waits for something not recorded that count: reply\n"                   \
      "(default), all or off")                                                 \
    X(FROM, "from", "TIME",                                                    \
      "start of the window, since the machine's first event\n"                 \
      "(1.5s, 20ms)")                                                          \
    X(TO, "to", "TIME", "end of the window, counted the same way")             \
    X(PHASE, "phase", "N", "only phase N of `ipsq phases`")                    \
    X(BY, "by", "WHAT",                                                        \
      "procedures: procedure (default), process, machine, line;\n"             \
      "path: also thread, message, external; several: a,b;\n"                  \
      "waits: place (default), cause, peer, process, thread;\n"                \
      "requests: connection, mark, mark:NAME, task, task:NAME")                \
    X(SITES, "sites", NULL, "print the call site of each event")               \
    X(STACKS, "stacks", NULL, "also print the call stacks of blocking calls")  \
    X(PROCEDURE, "procedure", "NAME",                                          \
      "assume that these procedures take less time; NAME may\n"                \
      "contain * and ?")                                                       \
    X(PROCESS, "process", "NAME",                                              \
      "assume that these processes take less time: a, a.123,\n"                \
      "/m1/a.123, a*")                                                         \
    X(MESSAGE, "message", "'A->B'",                                            \
      "assume that messages from process A to B (or external)\n"               \
      "take less time")                                                        \
    X(FASTER, "faster", "BY", "how much less: 30%, or 2x (twice as fast)")     \
    X(GONE, "gone", NULL, "the same as --faster 100% (default)")               \
    X(RANK, "rank", NULL, "list what would help most (default without edits)") \
    X(FRESH, "fresh", NULL,                                                    \
      "compute the answer again, do not use a cached one")                     \
    X(SLACK, "slack", NULL,                                                    \
      "how much each object may grow before the path grows")                   \
    X(NEXT, "next", "K",                                                       \
      "the K longest paths, grouped by the processes on them")                 \
    X(SEQUENCES, "sequences", NULL, "the most common sequences on the path")   \
    X(WHOLE, "whole", NULL, "also the shares of all work, on the path or not") \
    X(FOR, "for", "WHAT",                                                      \
      "turnaround: where the elapsed time goes; for a service:\n"              \
      "latency (what requests wait for) or throughput (what\n"                 \
      "limits their rate)")                                                    \
    X(SORT, "sort", "COLUMN",                                                  \
      "sort by a column, named as in JSON, numbers descending;\n"              \
      "-COLUMN: ascending")                                                    \
    X(PER, "per", "machine",                                                   \
      "apply --sort and --top to each machine separately")                     \
    X(MAX_WALL, "max-wall", "TIME",                                            \
      "exit status 4 if the elapsed time is longer")                           \
    X(MAX_CPU, "max-cpu", "TIME", "exit status 4 if the CPU time is more")     \
    X(MAX_PATH, "max-path", "TIME",                                            \
      "exit status 4 if the longest path is longer")                           \
    X(MAX_LOST, "max-lost", "N", "exit status 4 if more events were lost")     \
    X(POP, "pop", NULL, "the efficiencies of the POP methodology")             \
    X(MACHINES, "machines", "SPEC",                                            \
      "the machines: 'one:cores=2,speed=1.5,load=0;two'")                      \
    X(MAP, "map", "MAP",                                                       \
      "placement of processes: 'a.3=one,b*=two', or a file\n"                  \
      "of such lines")                                                         \
    X(SEARCH, "search", NULL,                                                  \
      "look for the best placement on --machines; --map fixes\n"               \
      "processes; --top N: the N best placements")                             \
    X(TRIES, "tries", "N",                                                     \
      "with --search: replay at most N maps (default: for some\n"              \
      "tens of seconds)")                                                      \
    X(SEED, "seed", "N", "with --search: random seed (default 0)")             \
    X(SHOW, "show", NULL, "print the known message times, measure nothing")    \
    X(EXPORT, "export", "FILE", "write the table to FILE (- standard output)") \
    X(IMPORT, "import", "FILE",                                                \
      "add the table in FILE (- standard input) to the known\n"                \
      "message times")                                                         \
    X(FORCE, "force", NULL,                                                    \
      "also keep doubtful message times, marked as such")                      \
    X(REPLACE, "replace", NULL,                                                \
      "with --import: first remove all known message times")                   \
    X(FORGET, "forget", NULL,                                                  \
      "remove the table, or its entries for these machines")                   \
    X(LENGTHS, "lengths", "LIST",                                              \
      "message lengths in bytes, ascending: 1,64,4k,1m\n"                      \
      "(default: 1 B to 1 MiB)")                                               \
    X(ROUNDS, "rounds", "N", "round trips for each length (default 200)")      \
    X(SHARED_MEDIUM, "shared-medium", NULL,                                    \
      "all messages between machines share one link")                          \
    X(SYSTEM_SHARE, "system-share", "S",                                       \
      "share of the CPU time that the operating system uses and\n"             \
      "IPS does not measure (5%): computing takes 1/(1-S) times\n"             \
      "as long")                                                               \
    X(NETWORK, "network", "SPEC",                                              \
      "message times: 'one<>two=100us+8ns@bus;*>*=x0.5', a\n"                  \
      "time or a factor; @NAME: these pairs share a medium")                   \
    X(MOVE, "move", "MOVES", "move processes: 'a.3@1.5s=two,b*@20ms=one'")

enum ipsq_option {
#define X(name, text, value, help) IPSQ_OPT_##name,
    IPSQ_OPTIONS(X)
#undef X
        IPSQ_OPT_COUNT
};
/* The values of --by; value number i has bit 1 << i in by_mask. */
#define IPSQ_BYS(X)                                                            \
    X(PROCEDURE, "procedure")                                                  \
    X(PROCESS, "process")                                                      \
    X(LINE, "line")                                                            \
    X(MACHINE, "machine")                                                      \
    X(THREAD, "thread")                                                        \
    X(MESSAGE, "message")                                                      \
    X(EXTERNAL, "external")                                                    \
    X(PLACE, "place")                                                          \
    X(CAUSE, "cause")                                                          \
    X(PEER, "peer")                                                            \
    X(CONNECTION, "connection")                                                \
    X(MARK, "mark")                                                            \
    X(TASK, "task")
enum ipsq_by {
#define X(name, text) IPSQ_BY_##name,
    IPSQ_BYS(X)
#undef X
        IPSQ_BY_COUNT
};
#define IPSQ_IS_BY(name) (1u << IPSQ_BY_##name)

#define IPSQ_HAS(option) (UINT64_C(1) << IPSQ_OPT_##option)

#define IPSQ_WINDOW (IPSQ_HAS(FROM) | IPSQ_HAS(TO) | IPSQ_HAS(PHASE))

_Static_assert(IPSQ_OPT_COUNT <= 64, "a bit for each");

#define IPSQ_EDITS_MAX 64
/* greatest number of times that each of --machines, --map, --network and --move
 * may be given */
#define IPSQ_SPECS_MAX 16
#define IPSQ_LENGTHS_MAX 32

/* One edit of `ipsq whatif`: the part of the program that is assumed to be
 * faster, and by how much. */
struct ipsq_edit {
    const char *procedure, *process, *message, *object;
    uint32_t ppm; /* share of the time that is saved, ppm; 0: not given yet */
};

struct ipsq_options {
    const char *command; /* the command's name; NULL: none given */
    const char *args[IPSQ_ARGS_MAX];
    int arg_count;
    bool help, version, sites, stacks, sequences, whole, pop_efficiencies,
        fresh;
    bool per_machine, verbose, wide;
    uint64_t options_set; /* IPSQ_HAS bits of the options that were given */
    const char *master, *state, *object, *level, *engine, *weighting, *goal;
    /* value of --for; NULL: not given, so the kind of program decides */
    const char *answer;
    const char *by;   /* value of the last --by; NULL: none */
    unsigned by_mask; /* bits of all values given to --by */
    /* value of --sort: a column, or "-" and a column for the opposite order;
     * NULL: not given */
    const char *sort;
    enum ipsq_format format;
    uint64_t top; /* --top; 0: all rows */
    uint64_t message_time_base_ns, message_time_per_byte_q32;
    /* --external, as enum ips_external (analysis/graph/graph.h) */
    uint32_t external;
    uint64_t from_ns, to_ns;
    uint32_t phase; /* --phase; 0: none */
    uint64_t max_wall_ns, max_cpu_ns, max_path_ns, max_lost;
    bool rank, slack;
    bool show, forget, replace, force, shared_medium;
    /* names of files; "-": standard output or input */
    const char *export_file, *import_file;
    uint64_t lengths[IPSQ_LENGTHS_MAX];
    unsigned length_count;
    uint64_t rounds; /* --rounds; 0: not given */
    uint32_t system_ppm;
    /* --next: number of paths; 0: not given */
    uint32_t next;
    struct ipsq_edit edit[IPSQ_EDITS_MAX]; /* edits in the order given */
    unsigned edit_count;
    /* value of the last --faster or --gone; 0: none given */
    uint32_t faster_ppm;
    const char *machines[IPSQ_SPECS_MAX], *map[IPSQ_SPECS_MAX],
        *network[IPSQ_SPECS_MAX],
        *move[IPSQ_SPECS_MAX]; /* values of these options in the order
                                  given */
    unsigned machines_count, map_count, network_count, move_count;
    bool search;
    uint64_t tries, seed; /* --tries and --seed; tries 0: not given */
};

/* Fills `o`; its strings are borrowed from argv. IPS_E_USAGE: the command line
 * is wrong, and the message says why. Also returns the errors of
 * ips_tls_load_keys for --tls. */
int ipsq_options_parse(struct ipsq_options *o, int argc, char **argv,
                       struct ips_err *err) IPS_MUST_USE;

/* Whether the options restrict the answer to a window or a phase. */
static inline bool ipsq_has_window(const struct ipsq_options *o)
{
    return o->from_ns || o->to_ns || o->phase;
}

struct ipsq_option_row {
    const char *name; /* name of the option, without "--" */
    /* name of the option's value in the help; NULL: the option takes no
     * value */
    const char *value;
    const char *help;
};
extern const struct ipsq_option_row ipsq_option_table[IPSQ_OPT_COUNT];

/* Returns the option whose name is the first `len` bytes of `name`, without
 * "--"; IPSQ_OPT_COUNT if there is none. */
enum ipsq_option ipsq_option_find(const char *name, size_t len);
/* Returns all values of an option that has a fixed set of values, NULL at the
 * end; NULL if any value is possible. For --by these are the values of all
 * commands; `bys` of a command says which of them it accepts. */
const char *const *ipsq_option_values(enum ipsq_option option);

/* Prints the options in `mask` as --help does. */
void ipsq_options_print(FILE *f, uint64_t mask);

#endif
