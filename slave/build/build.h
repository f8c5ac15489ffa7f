/*
 * From records to the graph: one machine's archived streams of one run become
 * processes, threads, channel ends, matched arcs and an ips_graph. A pure
 * function of its input: no clock, no file, no SQL; the same records give the
 * same result, whenever and however often it runs.
 *
 * Files: build.c has the order of the passes, build/internal.h says what each
 * does; slave/build/channel.h says what keys and positions of ends mean.
 * The rules: ALGORITHMS 1, docs/design/build.md.
 */
#ifndef IPS_SLAVE_BUILD_BUILD_H
#define IPS_SLAVE_BUILD_BUILD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/pool/format.h"
#include "analysis/graph/graph.h"
#include "common/err.h"

/* ---- input ---------------------------------------------------------- */

struct ips_chunk {
    const uint8_t *data; /* whole checked records (ips_rec_check) */
    size_t len;
};
#define IPS_DEAD_KNOWN 0x10000u
struct ips_stream_in {
    struct ips_segment_header head; /* of its first segment, but for `begun` */
    struct ips_begun begun;         /* that its thread is in, or was */
    const struct ips_chunk *chunks; /* in order */
    uint32_t chunk_count;
    uint64_t lost[IPS_LOST_COUNT]; /* sum of the segments' headers */
    bool dead;                     /* its process is known to have ended */
    uint32_t dead_status; /* as wait has it | IPS_DEAD_KNOWN, or 0: not known */
    uint64_t dead_t_ns;   /* local raw time at which the slave saw that; 0 */
    const uint64_t *types; /* [4] bit set: others its records do not have; or
                              NULL, not known */
};
/* `permille` of an input: shares of the time that a build takes, measured with
 * a run of 6 million records (`bench_calls pingpong 1500000`, two cores) whose
 * records were not in memory. Reading them comes first. */
enum {
    B_BUILT_READ = 250,
    B_BUILT_NODES = 600,
    B_BUILT_MATCH = 740,
    B_BUILT_WEIGHTS = 820,
    B_BUILT_ALL = 1000
};
struct ips_build_input {
    const struct ips_control *control;
    const struct ips_stream_in *streams; /* any order */
    uint32_t stream_count;
    uint32_t machine; /* index written into the chains: 0, master renumbers */
    struct ips_wait_rows *waits; /* build/waits.h: filled; NULL: not wanted */
    struct ips_traffic_window *traffic; /* filled; NULL: not wanted */
    atomic_uint *permille; /* how far it is, for other threads; NULL */
    bool general; /* for tests: no short cuts, neither for plain records */
};

/* ---- output --------------------------------------------------------- */

#define IPS_CPU_UNKNOWN UINT64_MAX
#define IPS_NONE UINT32_MAX

enum ips_wait_cause {
    IPS_WAIT_PEER = 0, /* receive, send without room, poll ended by a peer */
    IPS_WAIT_CHILD,
    IPS_WAIT_TIMER, /* sleep, timed wait that ran out, timerfd */
    IPS_WAIT_SIGNAL,
    IPS_WAIT_EVENT, /* eventfd */
    IPS_WAIT_IDLE,  /* poll that got nothing for us */
    IPS_WAIT_RESOLVE,
    IPS_WAIT_OTHER,
    IPS_WAIT_LOCK, /* locks and their like: ACQUIRE */
    IPS_WAIT_DISK,
    IPS_WAIT_FILE_LOCK,
    IPS_WAIT_TERMINAL,
    IPS_WAIT_SPIN, /* fruitless attempts: elapsed, to the one that got it */
    IPS_WAIT_COUNT
};
/* "peer"; static. */
const char *ips_wait_name(enum ips_wait_cause cause);

struct ips_proc {
    uint32_t pid;
    uint64_t pidns;
    uint32_t parent; /* index, IPS_NONE */
    char name[64];   /* "redis-server.812", made unique with "#2" */
    char command[512];
    uint64_t start_ns, end_ns; /* local raw; end_ns 0 while open */
    bool open;                 /* no end known */
    bool root;
    char end[32];             /* "exit 0", "signal 9", "running", "unknown" */
    uint64_t cpu_ns;          /* sum of its threads, settled */
    uint64_t rusage_cpu_ns;   /* its own share by its parent's wait, or ~0 */
    uint64_t unattributed_ns; /* rusage less threads, not chargeable */
    uint64_t events;
    uint32_t first_chain, chain_count;
};
struct ips_thread_row {
    uint32_t process, tid, chain;
    char name[32];
    uint64_t start_ns, end_ns;
    bool open;
    bool ended; /* it said so itself: not killed, nor cut off by an exec */
    uint64_t base_cpu_ns; /* what its CPU clock showed at its START node */
    uint64_t cpu_ns;
    /* Off the core in calls, by cause. With cpu_ns no more than its life. */
    uint64_t wait_ns[IPS_WAIT_COUNT];
    uint32_t wait_count[IPS_WAIT_COUNT];
    uint64_t delay_ns;   /* runnable but not running, as the kernel told; not
                            what it queued before its START */
    uint64_t woken_ns;   /* as much of it as lies in wait_ns: after wake-ups */
    uint64_t unknown_ns; /* off the core outside of calls, and no figure */
    uint64_t messages_out, bytes_out, messages_in, bytes_in;
    /* Polls that another channel ended than the last one of the same place, or
     * more than one at once; polls that slept and gave up, and each spinning.
     */
    uint64_t choices, empty_polls;
};

/* One end of a channel on this machine (two for a local channel; a pipe's
 * write end and read end are two ends). */
enum ips_end_peer {
    IPS_PEER_LOCAL,    /* `peer_end` */
    IPS_PEER_REMOTE,   /* another machine has it, by ips_built_set_peers */
    IPS_PEER_UNTRACED, /* nobody: external */
    IPS_PEER_UNKNOWN,  /* not asked yet, or channel still open */
};
struct ips_end {
    uint8_t kind; /* enum ips_chan_kind */
    uint8_t side; /* pipes: READ or WRITE */
    enum ips_end_peer peer;
    uint32_t peer_end;
    char name[128]; /* "tcp 10.0.0.1:80-10.0.0.2:4000", "pipe 13:771" */
    uint8_t key_local[40], key_remote[40]; /* canonical, compared bytewise:
        family, port, address; user channels: the name's hash */
    uint8_t key_len;
    uint32_t ordinal; /* among this machine's ends of equal key */
    uint64_t sent_bytes, recv_bytes, sent_messages, recv_messages;
    uint64_t first_ns, last_ns; /* local raw, of its events */
    bool closed, connected, accepted;
};
/* Traffic of one process on one end (message matrix, ChannelRow). */
struct ips_traffic {
    uint32_t end, process;
    uint64_t sent_messages, sent_bytes, recv_messages, recv_bytes;
};

/* The same of a window of time, row by row: what was sent before it, and sent
 * and received in it. A message is sent at its call, received at its return. */
struct ips_traffic_cut {
    uint64_t sent_messages_before, sent_bytes_before;
    uint64_t sent_messages, sent_bytes, recv_messages, recv_bytes;
};
struct ips_traffic_window {
    uint64_t from_ns, to_ns;     /* from <= t < to, local raw */
    struct ips_traffic_cut *row; /* [count] for ips_free_large() */
    uint32_t count, capacity;
};

/* Processes that were not traced, or not from an exec on; of equal cause and
 * program one row. */
struct ips_untraced {
    char cause[24];    /* a word of agent/record/exec_target.h, or "unknown" */
    char program[200]; /* "" not known */
    uint32_t pid;      /* of one of them, 0 not known */
    uint64_t count;
};

/* Said by the agent: this process does something that leaves no record. */
struct ips_unrecorded {
    uint32_t process;
    bool runtime;  /* what it does is not lost: it is a runtime's that waits in
                      its own way */
    char what[59]; /* "io_uring", "seccomp filter: new channels, ..." */
};

/* What a library whose file this is makes of threads' waits, in words; NULL:
 * nothing that we know of. */
const char *ips_runtime_of(const char *path, size_t len);
#define IPS_GO_RUNTIME "Go's runtime" /* told by its note, not by a file */

/* CPU burnt by spinning, taken out of the arc into `node`, at its begin. So a
 * node's place on its thread's CPU clock is the base, and all w and spun ns of
 * its chain up to it. */
struct ips_spun {
    uint64_t node, ns;
};

/* In the arc into `node` its thread slept so long in calls whose end left no
 * arc: polls after which nothing was read, calls that a handler ended, locks
 * whose release was not seen, and what a node without an arc waited for itself.
 * `by_node`: that record made the node, and a cross arc of it is the end. */
struct ips_unended {
    uint64_t ns;
    uint32_t node, by_node;
};

struct ips_build_counts {
    uint64_t events, lost[IPS_LOST_COUNT];
    uint64_t unmatched, ambiguous, pending, external, idle, untraced;
    /* As many of `external` and `idle` as other machines' ends decided. */
    uint64_t external_decided, idle_decided;
    uint64_t unattributed_ns;
    uint64_t order_dependent; /* resource arcs: their order was incidental */
    uint64_t any_unmatched;   /* waits for resources without a release seen */
    uint64_t unended_ns;      /* ips_unended_ns of all arcs */
    uint64_t tasks;           /* chains whose times the program gave itself */
    uint64_t spin_ns;         /* CPU burnt by waiting for them */
    uint64_t overhead_ns;     /* CPU that recording cost, by its kinds */
    uint64_t probe_arc_ns;    /* as much of it as arcs of the graph hold */
    uint64_t delay_ns;        /* runnable but not running, as the kernel told */
    uint64_t delay_unknown_ns; /* off the CPU outside of waits, and no figure */
    /* struct ips_rec_guessed, of all threads; guess_corrected is its `a`. */
    uint64_t guessed_ns, guess_corrected, guess_off_ns, guess_off_max_ns;
    uint64_t code; /* samples, entries, exits, counters: none, no procedures */
};

struct ips_built {
    struct ips_graph g;
    struct ips_proc *procs;
    uint32_t proc_count;
    struct ips_thread_row *threads; /* [g.chain_count], by chain */
    struct ips_end *ends;
    uint32_t end_count;
    struct ips_traffic *traffic;
    uint32_t traffic_count;
    struct ips_untraced *untraced;
    uint32_t untraced_count;
    struct ips_unrecorded *unrecorded;
    struct ips_spun *spun;       /* by node */
    struct ips_unended *unended; /* by node */
    uint32_t unrecorded_count, spun_count, unended_count;
    struct ips_build_counts counts;
    uint64_t first_ns;      /* earliest event here */
    uint64_t root_start_ns; /* START of the run's command, 0 not here */
    uint64_t goal_elapsed_ns;
    uint32_t goal_node; /* END of the command, IPS_NO_NODE not here */
    bool open;
    struct ips_build_more *more; /* what set_peers needs again; private */
};

int ips_build(const struct ips_build_input *in, struct ips_built *out,
              struct ips_err *err) IPS_MUST_USE;
void ips_built_release(struct ips_built *b);
/* How long its threads slept for what left no arc, in the chain arcs into nodes
 * from + 1 to `to` of one chain. */
uint64_t ips_unended_ns(const struct ips_built *b, uint32_t from, uint32_t to);
/* The same of each node's arc: [g.node_count], for ips_free_large(). NULL: no
 * memory. */
uint64_t *ips_unended_of(const struct ips_built *b,
                         struct ips_err *err) IPS_MUST_USE;
/* The last moment known of the machine, local raw ns: what is open has lived
 * till then. */
uint64_t ips_built_last_ns(const struct ips_built *b);

/* Settles every end that has no local peer: remote (its receives become remote
 * ins) or untraced (external arcs by the rule of DPM-4). Ends not named stay
 * UNKNOWN and count as pending. May be called again with other answers; the
 * result depends on the last call alone. */
struct ips_peer_row {
    uint32_t end;
    bool traced;
    uint64_t peer_sent_bytes;
    bool peer_closed;
};
int ips_built_set_peers(struct ips_built *b, const struct ips_peer_row *rows,
                        uint32_t count, struct ips_err *err) IPS_MUST_USE;

#endif
