/*
 * The words of a command line. Options may stand before or after the command;
 * each is known to all, but refused where the command has no use for it.
 */
#ifndef IPS_CLIENT_OPTIONS_H
#define IPS_CLIENT_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "client/out.h"
#include "common/err.h"
#include "common/paths.h"

#define IPSQ_ARGS_MAX 2

/* Options that every command has. */
#define IPSQ_COMMON                                                            \
    (IPSQ_HAS(MASTER) | IPSQ_HAS(TLS) | IPSQ_HAS(INSECURE) | IPSQ_HAS(STATE) | \
     IPSQ_HAS(FORMAT) | IPSQ_HAS(JSON) | IPSQ_HAS(TSV) | IPSQ_HAS(VERBOSE))

/* Every option: X(NAME, "name", "VALUE", "what it does"); VALUE NULL: it takes
 * none. */
#define IPSQ_OPTIONS(X)                                                        \
    X(MASTER, "master", "ADDR",                                                \
      "ask the master at unix:PATH, tcp:HOST:PORT or\n"                        \
      "tls:HOST:PORT; else the one of the state directory,\n"                  \
      "started if need be")                                                    \
    X(TLS, "tls", "DIR",                                                       \
      "keys for tls: addresses, as deploy/keys makes them\n"                   \
      "($IPS_TLS)")                                                            \
    X(INSECURE, "insecure", NULL,                                              \
      "allow tcp: addresses that are not loopback: others on\n"                \
      "the network can read and change everything")                            \
    X(STATE, "state", "DIR",                                                   \
      "state directory ($IPS_STATE, else ~/.local/state/ips)")                 \
    X(FORMAT, "format", "F",                                                   \
      "table (default), tsv, json; events and graph:\n"                        \
      "jsonl")                                                                 \
    X(JSON, "json", NULL, "short for --format json")                           \
    X(TSV, "tsv", NULL, "short for --format tsv")                              \
    X(VERBOSE, "verbose", NULL,                                                \
      "-v: the whole certificate, and how the answer was\n"                    \
      "computed")                                                              \
    X(TOP, "top", "N", "only the N greatest, newest or first")                 \
    X(OBJECT, "object", "OBJECT",                                              \
      "only below /machine, /machine/process or\n/machine/process/thread; "    \
      "parts may have * ?")                                                    \
    X(LEVEL, "level", "LEVEL", "run, machine, process, thread or procedure")   \
    X(ENGINE, "engine", "E",                                                   \
      "auto (default), contract, central, cm-sync or cm-async")                \
    X(WEIGHTING, "weighting", "W",                                             \
      "cpu (default), sched (and the time runnable but not\n"                  \
      "running) or wall (elapsed time up to the goal)")                        \
    X(GOAL, "goal", "OBJECT",                                                  \
      "the path ends with this process or thread; default\n"                   \
      "with wall the run's command, else what ends the path\n"                 \
      "latest")                                                                \
    X(MTIME, "mtime", "SPEC",                                                  \
      "message times: BASE or BASE+PER_BYTE, in ns or with us,\n"              \
      "ms, s; none: 0. Default: as `ipsq calibrate` measured\n"                \
      "them, 0 where it did not")                                              \
    X(EXTERNAL, "external", "WHICH",                                           \
      "waits for what is not traced: reply (default), all, off")               \
    X(FROM, "from", "TIME", "since the machine's first event (1.5s, 20ms)")    \
    X(TO, "to", "TIME", "the same")                                            \
    X(PHASE, "phase", "N", "only phase N of `ipsq phases`")                    \
    X(BY, "by", "WHAT",                                                        \
      "procedure (default), process or line; path: also\n"                     \
      "machine, thread, message, external, or several: a,b;\n"                 \
      "waits: place (default), cause, peer, process or thread;\n"              \
      "requests: connection, mark, mark:NAME, task, task:NAME")                \
    X(SITES, "sites", NULL, "name the place each event was called from")       \
    X(STACKS, "stacks", NULL, "and the call stacks of what blocked")           \
    X(PROCEDURE, "procedure", "NAME",                                          \
      "what if procedures NAME (may have * ?)")                                \
    X(PROCESS, "process", "NAME",                                              \
      "what if processes NAME: a, a.123, /m1/a.123, a*")                       \
    X(MESSAGE, "message", "'A->B'",                                            \
      "what if messages of process A to B (or external)")                      \
    X(FASTER, "faster", "BY", "were faster by 30%, or 2x")                     \
    X(GONE, "gone", NULL, "took no time at all")                               \
    X(RANK, "rank", NULL, "what would help most (without edits: default)")     \
    X(FRESH, "fresh", NULL, "compute it again, although an answer is kept")    \
    X(SLACK, "slack", NULL, "how far everything is from being critical")       \
    X(NEXT, "next", "K", "the K longest paths, grouped by who is on them")     \
    X(SEQUENCES, "sequences", NULL, "the most common sequences on the path")   \
    X(WHOLE, "whole", NULL, "the same of all work, beside the path")           \
    X(FOR, "for", "WHAT",                                                      \
      "turnaround: what the elapsed time goes to;\n"                           \
      "of a service: latency, what requests wait for, or\n"                    \
      "throughput, what bounds their rate")                                    \
    X(SORT, "sort", "COLUMN",                                                  \
      "by a column as JSON names it, numbers greatest first;\n"                \
      "-COLUMN the other way round")                                           \
    X(PER, "per", "machine", "--sort and --top for each machine by itself")    \
    X(MAX_WALL, "max-wall", "TIME", "the elapsed time is no longer")           \
    X(MAX_CPU, "max-cpu", "TIME", "the CPU time is no more")                   \
    X(MAX_PATH, "max-path", "TIME", "the longest path (cpu) is no longer")     \
    X(MAX_LOST, "max-lost", "N", "no more events were lost")                   \
    X(POP, "pop", NULL, "the efficiencies of the POP methodology")             \
    X(MACHINES, "machines", "SPEC",                                            \
      "what if there were 'one:cores=2,speed=1.5,load=0;two'")                 \
    X(MAP, "map", "MAP",                                                       \
      "and processes were there: 'a.3=one,b*=two', or a file\nof such lines")  \
    X(SEARCH, "search", NULL,                                                  \
      "the best places of processes on --machines; --map\n"                    \
      "fixes what it names; --top N: the N best")                              \
    X(TRIES, "tries", "N", "at most so many maps (default: some seconds)")     \
    X(SEED, "seed", "N", "where the search goes from (default 0)")             \
    X(SHOW, "show", NULL, "what is known, without measuring anything")         \
    X(EXPORT, "export", "FILE", "write the table to FILE (- standard output)") \
    X(IMPORT, "import", "FILE",                                                \
      "take a table from FILE (- standard input), beside what\n"               \
      "is there")                                                              \
    X(FORCE, "force", NULL, "keep message times that are in doubt, marked")    \
    X(REPLACE, "replace", NULL, "with --import: instead of what is there")     \
    X(FORGET, "forget", NULL, "forget it, or what is of these machines")       \
    X(LENGTHS, "lengths", "LIST",                                              \
      "bytes, rising: 1,64,4k,1m (default: 1 B to 1 MiB)")                     \
    X(ROUNDS, "rounds", "N", "round trips of each length (default 200)")       \
    X(SHARED_MEDIUM, "shared-medium", NULL,                                    \
      "messages between machines divide one medium")                           \
    X(SYSTEM_SHARE, "system-share", "S",                                       \
      "so much of the CPU time is the operating system's own\n"                \
      "and not measured (5%): computing takes 1/(1-S)")                        \
    X(NETWORK, "network", "SPEC",                                              \
      "and messages took 'one<>two=100us+8ns@bus;*>*=x0.5':\n"                 \
      "a time, or times as long; @: they share a medium")                      \
    X(MOVE, "move", "MOVES", "and processes moved: 'a.3@1.5s=two,b*@20ms=one'")

enum ipsq_option {
#define X(name, text, value, help) IPSQ_OPT_##name,
    IPSQ_OPTIONS(X)
#undef X
        IPSQ_OPT_COUNT
};
/* Words of --by, and bits of by_mask. */
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
#define IPSQ_SPECS_MAX 16 /* of --machines, --map, --network, --move, each */
#define IPSQ_LENGTHS_MAX 32

/* What is to be faster, and by how much. */
struct ipsq_edit {
    const char *procedure, *process, *message, *object;
    uint32_t ppm; /* 0: not said yet */
};

struct ipsq_options {
    const char *command; /* NULL: none was given */
    const char *args[IPSQ_ARGS_MAX];
    int arg_count;
    bool help, version, sites, stacks, sequences, whole, pop, fresh;
    bool per_machine, verbose;
    uint64_t given; /* IPSQ_HAS bits */
    const char *master, *state, *object, *level, *engine, *weighting, *goal;
    const char *answer; /* --for; NULL: by the program's shape */
    const char *by;     /* as given last; NULL: not */
    unsigned by_mask;   /* all that were given */
    const char *sort;   /* a column, "-" before it; NULL: not */
    enum ipsq_format format;
    uint64_t top; /* 0: all */
    uint64_t mtime_base_ns, mtime_per_byte_q32;
    uint32_t external; /* enum ips_external on the wire */
    uint64_t from_ns, to_ns;
    uint32_t phase; /* 0: none */
    uint64_t max_wall_ns, max_cpu_ns, max_path_ns, max_lost;
    bool rank, slack;
    bool show, forget, replace, force, shared_medium;
    const char *export_file, *import_file; /* "-": standard streams */
    uint64_t lengths[IPSQ_LENGTHS_MAX];
    unsigned length_count;
    uint64_t rounds; /* 0: not given */
    uint32_t system_ppm;
    uint32_t next;                         /* paths */
    struct ipsq_edit edit[IPSQ_EDITS_MAX]; /* in order */
    unsigned edit_count;
    uint32_t faster_ppm; /* said last; 0 never */
    const char *machines[IPSQ_SPECS_MAX], *map[IPSQ_SPECS_MAX],
        *network[IPSQ_SPECS_MAX], *move[IPSQ_SPECS_MAX]; /* in order */
    unsigned machines_count, map_count, network_count, move_count;
    bool search;
    uint64_t tries, seed; /* tries 0: not said */
};

/* Fills `o`; texts are borrowed from argv. IPS_E_USAGE with the reason;
 * IPS_E_REFUSED for what IPS will know but does not yet. */
int ipsq_options_parse(struct ipsq_options *o, int argc, char **argv,
                       struct ips_err *err) IPS_MUST_USE;

/* Was a piece of the run's time asked about? */
static inline bool ipsq_windowed(const struct ipsq_options *o)
{
    return o->from_ns || o->to_ns || o->phase;
}

struct ipsq_option_row {
    const char *name;  /* without "--" */
    const char *value; /* its name in the help; NULL: the option has none */
    const char *help;
};
extern const struct ipsq_option_row ipsq_option_table[IPSQ_OPT_COUNT];

/* The option called `name` of `len` bytes, without "--"; IPSQ_OPT_COUNT: none.
 */
enum ipsq_option ipsq_option_find(const char *name, size_t len);
/* All values of an option that has a fixed set of them, NULL at the end; NULL:
 * it has not. --by: those of all commands; the command's `bys` says which. */
const char *const *ipsq_option_values(enum ipsq_option option);

/* The options of `mask` as --help lists them. */
void ipsq_options_print(FILE *f, uint64_t mask);

#endif
