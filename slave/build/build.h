/*
 * Turns records into the graph: the archived streams of one run on one machine
 * become processes, threads, channel ends, matched arcs and an ips_graph. This
 * is a pure function of its input: it reads no clock, no file and no database,
 * so the same records always give the same result.
 *
 * Files: build.c has the order of the passes, build/internal.h describes each
 * pass, slave/build/channel.h defines the keys and positions of channel ends.
 * docs/design/build.md has the rules.
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
    const uint8_t
        *data; /* complete records, checked by ips_rec_check_and_get_length() */
    size_t len;
};
#define IPS_DEAD_KNOWN 0x10000u
struct ips_stream_in {
    /* header of the stream's first segment, with `begun` zeroed */
    struct ips_segment_header head;
    /* the call that the thread is in, or was in when the stream ended */
    struct ips_current_call begun;
    const struct ips_chunk *chunks; /* in the order of writing */
    uint32_t chunk_count;
    uint64_t lost[IPS_LOST_COUNT]; /* number of lost records in all segments of
                                      the stream, by cause */
    bool dead; /* the stream's process is known to have ended */
    /* exit status of the process as wait() reports it | IPS_DEAD_KNOWN; 0: not
     * known */
    uint32_t dead_status;
    /* when the slave noticed that the process had ended: ns of this machine's
     * CLOCK_MONOTONIC_RAW; 0: not known */
    uint64_t dead_t_ns;
    /* [4] bit set of the record types that may occur in the stream; NULL: any
     * type may occur */
    const uint64_t *types;
};
/* Values of ips_build_input.permille: the share of the build's time, in
 * thousandths, that has passed when a step is done. Measured with a run of 6
 * million records (`bench_calls pingpong 1500000`, two cores) whose records
 * were not in memory, so that reading them is the first step. */
enum {
    B_BUILT_READ = 250,
    B_BUILT_NODES = 600,
    B_BUILT_MATCH = 740,
    B_BUILT_WEIGHTS = 820,
    B_BUILT_ALL = 1000
};
struct ips_build_input {
    const struct ips_control *control;
    const struct ips_stream_in *streams; /* in any order */
    uint32_t stream_count;
    /* machine index to write into the chains; a slave uses 0, and the master
     * renumbers the machines */
    uint32_t machine;
    /* output: rows of single waits (build/waits.h); NULL: not wanted */
    struct ips_wait_rows *waits;
    struct ips_traffic_window *traffic; /* output: traffic in a time window */
    /* output, progress for other threads to read; NULL: not wanted */
    atomic_uint *permille;
    /* for tests: use no fast path, not even for plain records
     * (build/plain.h)
     */
    bool general;
};

/* ---- output --------------------------------------------------------- */

#define IPS_CPU_UNKNOWN UINT64_MAX
#define IPS_NONE UINT32_MAX

enum ips_wait_cause {
    /* receive; send into a full buffer; poll that an action of a peer ended */
    IPS_WAIT_PEER = 0,
    IPS_WAIT_CHILD,
    IPS_WAIT_TIMER, /* sleep, timed wait that expired, timerfd */
    IPS_WAIT_SIGNAL,
    IPS_WAIT_EVENT, /* eventfd */
    IPS_WAIT_IDLE,  /* poll after which nothing was read */
    IPS_WAIT_RESOLVE,
    IPS_WAIT_OTHER,
    IPS_WAIT_LOCK, /* a lock or another synchronisation object (ACQUIRE) */
    IPS_WAIT_DISK,
    IPS_WAIT_FILE_LOCK,
    IPS_WAIT_TERMINAL,
    /* spinning (elapsed time up to the success) and naps between tries */
    IPS_WAIT_SPIN,
    IPS_WAIT_COUNT
};
/* Returns a static string such as "peer". */
const char *ips_wait_name(enum ips_wait_cause cause);

struct ips_proc {
    uint32_t pid;
    uint64_t pidns;
    uint32_t parent; /* index in procs; IPS_NONE: not known */
    char name[64];   /* "redis-server.812"; a repeated name gets "#2" */
    char command[512];
    /* ns of CLOCK_MONOTONIC_RAW; end_ns is 0 while the process runs */
    uint64_t start_ns, end_ns;
    bool open; /* the end of the process is not known */
    bool root;
    char end[32];    /* "exit 0", "signal 9", "running", "unknown" */
    uint64_t cpu_ns; /* CPU time of all threads of the process, ns */
    /* CPU time of the process without its children, ns, as the parent's wait()
     * reported it; IPS_CPU_UNKNOWN: not known */
    uint64_t rusage_cpu_ns;
    /* CPU time in rusage_cpu_ns that no thread recorded, beyond what fits
     * between the main thread's last record and the return of the parent's
     * wait */
    uint64_t unattributed_ns;
    uint64_t events;
    uint32_t first_chain, chain_count;
    uint64_t image_stamp; /* image_stamp of the process's last image: identifies
                             the program it ran last */
    bool left_image;   /* the process's last image ends with an EXEC record */
    bool recorded_end; /* the process recorded its own end */
};
struct ips_thread_row {
    uint32_t process, tid, chain;
    char name[32];
    uint64_t start_ns, end_ns;
    bool open;
    /* the thread recorded its own end: no signal killed it, and no exec ended
     * it */
    bool ended;
    uint64_t base_cpu_ns; /* the thread's CPU clock at its START node, ns */
    uint64_t cpu_ns;
    /* Time off the CPU in calls, by cause. These times and cpu_ns together do
     * not exceed the thread's lifetime. */
    uint64_t wait_ns[IPS_WAIT_COUNT];
    uint32_t wait_count[IPS_WAIT_COUNT];
    /* run delay: time that the thread was runnable but not running, as the
     * kernel reported it; without the delay before its START */
    uint64_t delay_ns;
    /* the part of delay_ns that followed wake-ups; wait_ns counts it, too */
    uint64_t woken_ns;
    /* time off the CPU outside of calls, for times when the kernel's run delay
     * was not read */
    uint64_t unknown_ns;
    uint64_t messages_out, bytes_out, messages_in, bytes_in;
    /* choices: polls that found several channels ready, or another channel than
     * the previous poll at the same call site did. empty_polls: polls that
     * timed out after a sleep, and spins. */
    uint64_t choices, empty_polls;
};

/* Where the peer of a channel end is: on this machine, on another one, or
 * unknown. */
enum ips_end_peer {
    IPS_PEER_LOCAL, /* the peer is `peer_end` */
    /* the peer is on another machine, see ips_built_set_peers_and_remake_arcs
     */
    IPS_PEER_REMOTE,
    IPS_PEER_UNTRACED, /* no recorded process has the peer: receives get
                          external or idle arcs */
    /* other machines were not asked yet, or the channel is still open */
    IPS_PEER_UNKNOWN,
};
/* One end of a channel on this machine. A local channel has two; the write end
 * and the read end of a pipe are two ends. */
struct ips_end {
    uint8_t kind; /* enum ips_chan_kind */
    uint8_t side; /* of a pipe: IPS_SIDE_READ or IPS_SIDE_WRITE */
    enum ips_end_peer peer;
    uint32_t peer_end;
    char name[128]; /* for example "tcp 10.0.0.1:80-10.0.0.2:4000", "pipe
                       13:771" */
    /* compared bytewise; slave/build/channel.h has the format */
    uint8_t key_local[40], key_remote[40];
    uint8_t key_len;
    uint32_t ordinal; /* distinguishes this machine's ends that have equal keys:
                         0, 1, ... */
    uint64_t sent_bytes, recv_bytes, sent_messages, recv_messages;
    /* time of the first and the last event on this end, ns of
     * CLOCK_MONOTONIC_RAW */
    uint64_t first_ns, last_ns;
    bool closed, connected, accepted;
};
/* Traffic of one process on one end: input of the message matrix and of the
 * protocol's ChannelRow. */
struct ips_traffic {
    uint32_t end, process;
    uint64_t sent_messages, sent_bytes, recv_messages, recv_bytes;
};

/* Traffic before and in a window of time, one row for each struct ips_traffic.
 * A message counts as sent at the call of the send, and as received at the
 * return of the receive. */
struct ips_traffic_cut {
    uint64_t sent_messages_before, sent_bytes_before;
    uint64_t sent_messages, sent_bytes, recv_messages, recv_bytes;
};
struct ips_traffic_window {
    /* the window is from_ns <= t < to_ns, in ns of CLOCK_MONOTONIC_RAW */
    uint64_t from_ns, to_ns;
    struct ips_traffic_cut *row; /* [count], freed by ips_free_large() */
    uint32_t count, capacity;
};

/* Processes that were not traced, or traced only up to an exec; one row for
 * each pair of cause and program. If there are more pairs than rows, the last
 * row has the cause "various", no program, and counts the rest. */
struct ips_untraced {
    char cause[24]; /* a cause word of agent/record/exec_target.h, or "unknown"
                     */
    char program[200]; /* "": not known */
    /* pid of one of the processes that the row counts; 0: not known */
    uint32_t pid;
    uint64_t count;
};

/* The agent reported that this process does something that leaves no record. */
struct ips_unrecorded {
    uint32_t process;
    /* `what` names a runtime whose threads wait without recorded calls */
    bool runtime;
    char what[59]; /* "io_uring", "seccomp filter: new channels, ..." */
};

/* Returns the name of the runtime whose library has this path, such as "OpenMP
 * (libgomp)". NULL: `path` is not the library of a known runtime. */
const char *ips_find_runtime_of_library(const char *path, size_t len);
/* Go's runtime is recognised by an ELF note of the program, not by the name of
 * a library. */
#define IPS_GO_RUNTIME "Go's runtime"

/* CPU burnt by spinning, at the start of the arc into `node`. The weight of
 * that arc does not contain it. So a node's position on its thread's CPU clock
 * is the base plus all weights and spun ns of its chain up to the node. */
struct ips_spun {
    uint64_t node, ns;
};

/* Time that the thread slept, within the arc into `node`, in calls that ended
 * without an arc from their cause: polls after which nothing was read, calls
 * that a signal handler ended, locks whose release was not recorded, and the
 * wait of a node without a cross arc. `by_node`: the call made `node` itself,
 * so the time does not count if the node gets a cross arc later (from another
 * machine). */
struct ips_unended {
    uint64_t ns;
    uint32_t node, by_node;
};

struct ips_build_counts {
    uint64_t events, lost[IPS_LOST_COUNT];
    uint64_t unmatched, ambiguous, pending, external, idle, untraced;
    /* how many of `external` and `idle` ips_built_set_peers_and_remake_arcs()
     * added */
    uint64_t external_decided, idle_decided;
    uint64_t unattributed_ns;
    uint64_t order_dependent; /* resource arcs that could be different in
                                 another order of the threads */
    /* waits for a resource whose release was not recorded */
    uint64_t any_unmatched;
    uint64_t unended_ns; /* ips_sum_ns_without_recorded_waker() summed over all
                            arcs */
    /* number of tasks: chains that the program itself declared and timed
     * through the API */
    uint64_t tasks;
    uint64_t spin_ns; /* CPU burnt by spinning waits */
    /* CPU time that recording cost, from the number and kind of the records */
    uint64_t overhead_ns;
    /* the part of overhead_ns that is in arcs of the graph (g.probe) */
    uint64_t probe_arc_ns;
    /* time that threads were runnable but not running, as the kernel reported
     * it */
    uint64_t delay_ns;
    /* time off the CPU outside of waits, where the kernel's run delay was not
     * read */
    uint64_t delay_unknown_ns;
    /* Sums over all threads of the last GUESSED record of each (struct
     * ips_rec_guessed). guess_corrected sums its `h.a`, guess_off_ns its
     * off_ns; guess_off_max_ns is the largest off_max_ns. */
    uint64_t guessed_ns, guess_corrected, guess_off_ns, guess_off_max_ns;
    /* number of SAMPLE, ENTER, EXIT and COUNT records; 0: nothing is known
     * about procedures */
    uint64_t code;
    /* threads that another thread joined, but that left no record: their
     * segments were removed before the slave read them */
    uint64_t missing_threads;
};

struct ips_built {
    struct ips_graph g;
    struct ips_proc *procs;
    uint32_t proc_count;
    struct ips_thread_row *threads; /* [g.chain_count], indexed by chain */
    struct ips_end *ends;
    uint32_t end_count;
    struct ips_traffic *traffic;
    uint32_t traffic_count;
    struct ips_untraced *untraced;
    uint32_t untraced_count;
    struct ips_unrecorded *unrecorded;
    struct ips_spun *spun;       /* ordered by node */
    struct ips_unended *unended; /* ordered by node */
    uint32_t unrecorded_count, spun_count, unended_count;
    struct ips_build_counts counts;
    uint64_t first_ns; /* time of the earliest event on this machine, ns */
    /* start of the run's command, ns of CLOCK_MONOTONIC_RAW; 0: not on this
     * machine */
    uint64_t root_start_ns;
    uint64_t goal_elapsed_ns;
    /* the last END node of all threads of the run's command; IPS_NO_NODE: not
     * on this machine */
    uint32_t goal_node;
    bool open;
    /* private data that ips_built_set_peers_and_remake_arcs() needs */
    struct ips_built_peer_data *more;
};

int ips_build(const struct ips_build_input *in, struct ips_built *out,
              struct ips_err *err) IPS_MUST_USE;
void ips_built_release(struct ips_built *b);
/* Returns how long the thread slept without a recorded waker, ns: the sum of
 * struct ips_unended over the chain arcs into the nodes from + 1 to `to`. All
 * these nodes belong to one chain. */
uint64_t ips_sum_ns_without_recorded_waker(const struct ips_built *b,
                                           uint32_t from, uint32_t to);
/* Returns, for each node, the ns of struct ips_unended in the arc into it: an
 * array [g.node_count], freed by ips_free_large(). NULL: out of memory. */
uint64_t *ips_make_ns_without_waker_by_node(const struct ips_built *b,
                                            struct ips_err *err) IPS_MUST_USE;
/* Returns the latest start or end of a process or thread, ns of
 * CLOCK_MONOTONIC_RAW. Processes and threads without a recorded end count as
 * alive up to this time. */
uint64_t ips_find_latest_start_or_end_ns(const struct ips_built *b);

/* The answer of the other machines about the peer of one end. */
struct ips_peer_row {
    uint32_t end;
    bool traced;
    uint64_t peer_sent_bytes;
    bool peer_closed;
};
/* Decides every end whose peer is UNKNOWN. If the end's row has `traced`, the
 * end becomes REMOTE, and its receives become remote ins of the graph. If not,
 * it becomes UNTRACED, and its receives that slept get external or idle arcs
 * (rule DPM-4 in docs/paper-map.md). Receives of ends without a row count as
 * pending. May be called again with other rows; the result depends only on the
 * last call. */
int ips_built_set_peers_and_remake_arcs(struct ips_built *b,
                                        const struct ips_peer_row *rows,
                                        uint32_t count,
                                        struct ips_err *err) IPS_MUST_USE;

#endif
