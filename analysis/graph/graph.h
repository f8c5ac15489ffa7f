/*
 * The program activity graph. Each thread has one chain of nodes. A node has at
 * most two in-arcs: from its chain predecessor and from one cross predecessor.
 * The graph is a struct of arrays in which the nodes of a chain are adjacent
 * and in order, so the chain predecessor of node i is i - 1. All weights are
 * unsigned nanoseconds; no floating point.
 *
 * A graph is either one slave's subgraph, whose cross predecessors on other
 * machines are `remote` references, or the graph of the whole run, which has no
 * remote references.
 *
 * Pure: no I/O, no clock, no libevent, no SQL.
 * Source: ALGORITHMS 1-2; DPM-2, DPM-4, IPS-11.
 */
#ifndef IPS_ANALYSIS_GRAPH_GRAPH_H
#define IPS_ANALYSIS_GRAPH_GRAPH_H

#include <stdbool.h>
#include <stdint.h>

#include "analysis/graph/clock_map.h"
#include "common/err.h"
#include "common/types.h"

#define IPS_NODE_KINDS(X)                                                      \
    X(START, 0)                                                                \
    X(SEND, 1)                                                                 \
    X(RECV, 2)                                                                 \
    X(FORK, 3)                                                                 \
    X(JOIN, 4)                                                                 \
    X(END, 5)                                                                  \
    X(AUX, 6)                                                                  \
    X(POLL, 7) /* a wait for descriptors (poll, select) returned */
enum ips_node_kind {
#define X(name, number) IPS_NODE_##name = (number),
    IPS_NODE_KINDS(X)
#undef X
};

/* The kind of a node's cross in-arc. */
#define IPS_XKINDS(X)                                                          \
    X(NONE, 0, "none")                                                         \
    X(DATA, 1, "data")         /* weight MTIME(xlen) */                        \
    X(LIFETIME, 2, "lifetime") /* weight 0 */                                  \
    X(ROOM, 3, "room")         /* from the receive that freed buffer space to  \
                                  the blocked send (AUX), weight 0 */          \
    X(EXTERNAL, 4,                                                             \
      "external")          /* weight xlen: elapsed ns (reply, disk, sleep) */  \
    X(IDLE, 5, "idle")     /* like EXTERNAL, but with a weight only if         \
                              --external=all */                                \
    X(SIGNAL, 6, "signal") /* from the kill() to the delivery, weight 0 */     \
    X(RESOURCE, 7, "resource") /* from the release to the acquisition; weight  \
                                  0; a replay may change the order */
enum ips_xkind {
#define X(name, number, text) IPS_X_##name = (number),
    IPS_XKINDS(X)
#undef X
};
#define IPS_X_LAST IPS_X_RESOURCE

/* The kind of resource of a RESOURCE arc. */
enum ips_resource_kind {
    IPS_THING_UNKNOWN = 0,
    IPS_THING_LOCK, /* mutex, rwlock, spin lock, once, file lock */
    IPS_THING_CONDITION,
    IPS_THING_BARRIER,
    IPS_THING_SEMAPHORE,
    IPS_THING_EVENT, /* eventfd */
    IPS_THING_TOKEN, /* a token of a make jobserver */
    IPS_THING_FUTEX,
};
#define IPS_THING_LAST IPS_THING_FUTEX

#define IPS_NO_NODE UINT32_MAX

struct ips_message_time_map; /* defined in analysis/graph/message_time.h */

struct ips_chain {
    uint32_t first;   /* first node; chains follow each other without gaps */
    uint32_t count;   /* number of nodes; the first is START, the last END */
    uint32_t machine; /* index of the machine, in order of machine names */
    uint32_t process; /* index within the graph's process table */
    uint32_t pid;
    uint32_t tid;
    uint32_t thread; /* ordinal of the thread within its process */
};

/* A remote receive ("in"): the cross predecessor of `node` is on another
 * machine: the node that wrote position `pos` at the peer of the local channel
 * end `end`. Sorted by node. */
struct ips_remote_in {
    uint32_t node;
    uint32_t end; /* index of the local channel end */
    uint64_t pos; /* the awaited position, see IPS_POS_* */
};

/* A remote send ("out"): a node on another machine may wait for `node`, which
 * wrote the positions up to and including `pos` at channel end `end`. Sorted by
 * (end, pos). */
struct ips_remote_out {
    uint32_t node;
    uint32_t end;
    uint64_t pos;
    uint32_t len; /* bytes of this message, for its message time */
};

/* Positions in one direction of a stream: 0 is the connect (SYN), data bytes
 * are 1..n, and end-of-file (the last close) is IPS_POS_EOF. For datagrams see
 * slave/build/channel.h. */
#define IPS_POS_SYN 0
#define IPS_POS_EOF UINT64_MAX

struct ips_graph {
    uint32_t node_count;
    uint32_t chain_count;
    struct ips_chain *chains;
    uint8_t *kind; /* [node_count] enum ips_node_kind */
    /* [node_count] weight of the arc from the chain predecessor, ns of the
     * weighting `cpu`. A chain's first node has no such arc; its entry is its
     * earliest time (EST, path.h) */
    uint64_t *w;
    uint32_t *xpred; /* [node_count] cross predecessor: a node, or
                        IPS_NO_NODE */
    uint8_t *xkind;  /* [node_count] enum ips_xkind. Data from another machine
                        is DATA with xpred IPS_NO_NODE and an entry in `in`. */
    /* [node_count] DATA: bytes of the message; EXTERNAL and IDLE: elapsed ns;
     * RESOURCE: enum ips_resource_kind (no weight) */
    uint64_t *xlen;
    uint64_t *t_ns; /* [node_count] local CLOCK_MONOTONIC_RAW, for display
                       only */
    uint32_t *site; /* [node_count] index of the node's channel end, or
                       UINT32_MAX */
    /* The weightings `sched` and `wall` need the three arrays at, wait and
     * delay (analysis/graph/view.h). A graph that is used with `cpu` alone
     * may have none of them. */
    uint64_t *at; /* [node_count] when the thread passed the node, ns: by the
                     machine's CLOCK_MONOTONIC_RAW; in a view of `wall` since
                     the run's origin */
    /* [node_count] ns that the thread slept before `at`, until the node's cross
     * arc (or a waker without an arc) woke it. Does not include the delay from
     * the wake-up until the thread ran */
    uint64_t *wait;
    uint64_t *delay; /* [node_count] ns of the arc from the chain predecessor in
                        which the thread was runnable but not running */
    /* [node_count] or NULL: the share of w that the recording itself took, at
     * most w and UINT32_MAX; 0 at a chain's first node */
    uint32_t *probe;
    /* [node_count] or NULL: ns asleep in the arc from the chain predecessor
     * where no arc shows what ended the sleep */
    uint64_t *unended;
    uint32_t in_count;
    struct ips_remote_in *in;
    uint32_t out_count;
    struct ips_remote_out *out;
    /* Measured message times (analysis/graph/message_time.h), for scenarios
     * with `calibrated`. The map is borrowed. NULL: there is no map, or this is
     * a view (view.h) in which the map was applied already. In such a view xlen
     * of a DATA arc is ns instead of bytes, and `out_ns` is set. */
    const struct ips_message_time_map *message_times;
    uint64_t *out_ns; /* [out_count] or NULL; if set, the message time of out[k]
                         is computed from out_ns[k], not from out[k].len */
    uint64_t *bytes; /* [node_count] or NULL: lengths of messages in bytes: xlen
                        before the map was applied */
};

/* Returns the length from which a scenario computes the message time of out[k]:
 * bytes, or ns if a map was applied. */
static inline uint64_t ips_remote_send_bytes_or_ns(const struct ips_graph *g,
                                                   uint32_t k)
{
    return g->out_ns ? g->out_ns[k] : g->out[k].len;
}

void ips_graph_init(struct ips_graph *g);
void ips_graph_release(struct ips_graph *g);
/* Allocates `nodes` nodes and `chains` chains (zeroed; xpred and site are
 * UINT32_MAX) and sets the counts. */
int ips_graph_alloc(struct ips_graph *g, uint32_t nodes, uint32_t chains,
                    struct ips_err *err) IPS_MUST_USE;
/* Like ips_graph_alloc(), but leaves all columns uninitialised, for callers
 * that write every column. */
int ips_graph_alloc_uncleared(struct ips_graph *g, uint32_t nodes,
                              uint32_t chains,
                              struct ips_err *err) IPS_MUST_USE;
/* Frees the memory after the first `nodes` nodes and sets node_count. */
void ips_graph_shrink(struct ips_graph *g, uint32_t nodes);
/* Allocates `at`, `wait` and `delay`, zeroed. */
int ips_graph_alloc_times(struct ips_graph *g,
                          struct ips_err *err) IPS_MUST_USE;
/* Allocates `probe`, zeroed; ips_graph_alloc_unended_wait_column() allocates
 * `unended`. */
int ips_graph_alloc_probe_column(struct ips_graph *g,
                                 struct ips_err *err) IPS_MUST_USE;
int ips_graph_alloc_unended_wait_column(struct ips_graph *g,
                                        struct ips_err *err) IPS_MUST_USE;
/* Checks the invariants of this header: indices in range, legal kinds, START
 * only first and END only last in a chain. Returns 0 or IPS_E_CORRUPT. For
 * graphs that arrive over the wire or from disk. Does not find cycles:
 * ips_longest_path_compute_ests() does. */
int ips_graph_check_invariants(const struct ips_graph *g,
                               struct ips_err *err) IPS_MUST_USE;

/* Returns the chain that contains node i; O(log chains). */
uint32_t ips_chain_of(const struct ips_graph *g, uint32_t i);

/* Message time MTIME(len) = base_ns + len * per_byte_q32 / 2^32, times
 * scale_num/scale_den, rounded down. scale_den 0: not set, means 1/1.
 * Source: DPM-3, DRO-2. */
struct ips_message_time {
    uint64_t base_ns;
    uint64_t per_byte_q32;
    /* scale of the message time: 1/1; in other scenarios 1/2, 2/1, or 0/1
     * (messages take no time) */
    uint32_t scale_num;
    uint32_t scale_den;
};
/* Which time the weight of an arc measures (ALGORITHMS 1). The default is
 * IPS_WEIGH_CPU, CPU time. */
enum ips_weighting {
    IPS_WEIGH_CPU = 0,
    IPS_WEIGH_SCHED, /* CPU time, and the time runnable but not running */
    IPS_WEIGH_WALL,  /* elapsed time, less the sleep for a recorded cause */
};
#define IPS_WEIGH_LAST IPS_WEIGH_WALL
enum ips_external {
    IPS_EXTERNAL_REPLY = 0, /* only EXTERNAL arcs have a weight (default) */
    IPS_EXTERNAL_ALL,       /* EXTERNAL and IDLE arcs both have their weight */
    IPS_EXTERNAL_OFF,       /* EXTERNAL and IDLE arcs are both absent */
};
/* One way of weighting the same graph. */
struct ips_scenario {
    struct ips_message_time message_time;
    enum ips_external external;
    bool
        calibrated; /* message times come from the graph's `message_times`;
                       `message_time` is then the identity (1 ns for each ns) */
    bool order_dependent_off; /* RESOURCE arcs are absent, because the threads
                                 could have run in another order */
    bool probe_off; /* only with cpu and sched: the cost of recording is
                       subtracted from chain arcs */
    /* only with cpu and sched: `unended` is added to chain arcs */
    bool unended;
    /* The weighting of the graph. A weighting other than `cpu` needs a view of
     * the graph (analysis/graph/view.h) that was made for this scenario. */
    enum ips_weighting weighting;
    /* only with wall: maps the clock of this graph's machine to ns since the
     * run's origin */
    struct ips_clock_map clock;
    /* The path ends at `goal`: an END of this graph, or IPS_NO_NODE if the goal
     * is on another machine. Without a goal it ends at the END with the
     * greatest EST. */
    bool has_goal;
    uint32_t goal;
};

uint64_t ips_message_time_compute_message_ns(const struct ips_message_time *m,
                                             uint64_t len);
/* Returns the message time for the weighting `wall`. There the argument of
 * MTIME is a measured time in ns instead of a length in bytes, so the message
 * time only applies the scenario's scale. */
static inline struct ips_message_time
ips_message_time_model_of_wall_weighting(const struct ips_scenario *scenario)
{
    return (struct ips_message_time){0, 1ULL << 32,
                                     scenario->message_time.scale_num,
                                     scenario->message_time.scale_den};
}
/* Returns the weight of node i's cross arc in a scenario. Sets *present to
 * false if the arc is absent there: NONE, EXTERNAL with external off, IDLE
 * unless all external arcs count, RESOURCE with order_dependent_off. In `wall`
 * IDLE is always absent, and the weight is the view's xlen, scaled by the
 * scenario for messages. */
uint64_t ips_cross_arc_weight(const struct ips_graph *g, uint32_t i,
                              const struct ips_scenario *scenario,
                              bool *present);

#endif
