/*
 * The program activity graph: one chain of nodes per thread, at most two
 * in-arcs a node (its chain predecessor, and one cross predecessor). Struct of
 * arrays, nodes of a chain adjacent and in order, so a chain predecessor is
 * i - 1. All weights are unsigned nanoseconds; no floating point.
 *
 * A graph is one slave's subgraph (cross predecessors on other machines are
 * `remote` references) or the whole run's (no remote references left).
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
    X(POLL, 7) /* return of a wait for a descriptor */
enum ips_node_kind {
#define X(name, number) IPS_NODE_##name = (number),
    IPS_NODE_KINDS(X)
#undef X
};

/* What the cross in-arc of a node is. */
#define IPS_XKINDS(X)                                                          \
    X(NONE, 0, "none")                                                         \
    X(DATA, 1, "data")         /* weight MTIME(xlen) */                        \
    X(LIFETIME, 2, "lifetime") /* weight 0 */                                  \
    X(ROOM, 3, "room")         /* receive that made room -> AUX, weight 0 */   \
    X(EXTERNAL, 4,                                                             \
      "external")          /* weight xlen: elapsed ns (reply, disk, sleep)*/   \
    X(IDLE, 5, "idle")     /* external, but weight only in --external=all */   \
    X(SIGNAL, 6, "signal") /* kill -> its taking, weight 0 */                  \
    X(RESOURCE, 7, "resource") /* release -> acquisition, weight 0: `any`, the \
                                  order was incidental */
enum ips_xkind {
#define X(name, number, text) IPS_X_##name = (number),
    IPS_XKINDS(X)
#undef X
};
#define IPS_X_LAST IPS_X_RESOURCE

/* What a RESOURCE arc is of. */
enum ips_resource_kind {
    IPS_THING_UNKNOWN = 0,
    IPS_THING_LOCK, /* mutex, rwlock, spin lock, once, file lock */
    IPS_THING_CONDITION,
    IPS_THING_BARRIER,
    IPS_THING_SEMAPHORE,
    IPS_THING_EVENT, /* eventfd */
    IPS_THING_TOKEN, /* of a jobserver */
    IPS_THING_FUTEX,
};
#define IPS_THING_LAST IPS_THING_FUTEX

#define IPS_NO_NODE UINT32_MAX

struct ips_mtime_map; /* analysis/graph/mtime.h */

struct ips_chain {
    uint32_t first;   /* first node; chains follow each other without gaps */
    uint32_t count;   /* nodes; the first is START, the last END */
    uint32_t machine; /* index, in order of machine name */
    uint32_t process; /* index within the graph's process table */
    uint32_t pid;
    uint32_t tid;
    uint32_t thread; /* ordinal of the thread within its process */
};

/* A cross predecessor on another machine: the node that wrote position `pos`
 * of direction `dir` of channel end `end`'s peer. Sorted by node. */
struct ips_remote_in {
    uint32_t node;
    uint32_t end; /* local channel end (index) */
    uint64_t pos; /* the position awaited, see ips_pos_* */
};

/* A node that something on another machine may await: it wrote positions up
 * to and including `pos` on its end. Sorted by (end, pos). */
struct ips_remote_out {
    uint32_t node;
    uint32_t end;
    uint64_t pos;
    uint32_t len; /* bytes of this message, for MTIME */
};

/* Positions in one direction of a stream: 0 is the connect (SYN), data bytes
 * are 1..n, and end-of-file is IPS_POS_EOF (the last close). Datagrams: see
 * slave/build/channel.h. */
#define IPS_POS_SYN 0
#define IPS_POS_EOF UINT64_MAX

struct ips_graph {
    uint32_t node_count;
    uint32_t chain_count;
    struct ips_chain *chains;
    uint8_t *kind;   /* [node_count] enum ips_node_kind */
    uint64_t *w;     /* [node_count] arc from the chain predecessor, ns of the
                        weighting `cpu`; for a chain's first node its EST */
    uint32_t *xpred; /* [node_count] node, or IPS_NO_NODE */
    uint8_t *xkind;  /* [node_count] enum ips_xkind; remote data: DATA with
                        xpred IPS_NO_NODE and an entry in `in` */
    uint64_t *xlen;  /* [node_count] DATA: bytes of the message; EXTERNAL and
                        IDLE: elapsed ns; RESOURCE: enum ips_resource_kind (which
                        weighs nothing) */
    uint64_t *t_ns;  /* [node_count] local CLOCK_MONOTONIC_RAW, for people */
    uint32_t *site;  /* [node_count] channel end (index) or UINT32_MAX */
    /* What the weightings `sched` and `wall` need (analysis/graph/view.h); all
     * three or, in a graph that nobody may weigh so, none. */
    uint64_t *at;    /* [node_count] when the node was passed: local raw ns; in
                        a view of `wall` ns since the run's origin */
    uint64_t *wait;  /* [node_count] of the time before `at`: asleep for what
                        its cross arc brought, without the delay after the
                        wake-up */
    uint64_t *delay; /* [node_count] of the arc from the chain predecessor:
                        runnable, but not running */
    uint32_t *probe; /* [node_count] or NULL: of w, what recording itself took,
                        at most w and UINT32_MAX; a chain's first node 0 */
    uint64_t *unended; /* [node_count] or NULL: asleep in the arc from the
                          chain predecessor for what left no arc */
    uint32_t in_count;
    struct ips_remote_in *in;
    uint32_t out_count;
    struct ips_remote_out *out;
    /* Message times by measurement (analysis/graph/mtime.h), for scenarios that
     * say `calibrated`. The map is borrowed, or NULL: none, or used already. In
     * a view by it DATA has ns for bytes in `xlen`, and so has `out_ns`. */
    const struct ips_mtime_map *mtimes;
    uint64_t *out_ns; /* [out_count] or NULL: MTIME is of out[k].len */
    uint64_t *bytes;  /* [node_count] or NULL: what `xlen` is without the map */
};

/* What a scenario's message time of out[k] is taken of: bytes, or ns. */
static inline uint64_t ips_out_xlen(const struct ips_graph *g, uint32_t k)
{
    return g->out_ns ? g->out_ns[k] : g->out[k].len;
}

void ips_graph_init(struct ips_graph *g);
void ips_graph_release(struct ips_graph *g);
/* Makes room for `nodes` nodes and `chains` chains (zeroed, xpred NO_NODE);
 * sets the counts. */
int ips_graph_alloc(struct ips_graph *g, uint32_t nodes, uint32_t chains,
                    struct ips_err *err) IPS_MUST_USE;
/* The same; all columns are undefined, for who writes them all. */
int ips_graph_alloc_bare(struct ips_graph *g, uint32_t nodes, uint32_t chains,
                         struct ips_err *err) IPS_MUST_USE;
/* Gives back the room behind the first `nodes` nodes; sets the count. */
void ips_graph_trim(struct ips_graph *g, uint32_t nodes);
/* `at`, `wait` and `delay` too, zeroed. */
int ips_graph_alloc_times(struct ips_graph *g,
                          struct ips_err *err) IPS_MUST_USE;
/* `probe` too, zeroed; `unended`. */
int ips_graph_alloc_probe(struct ips_graph *g,
                          struct ips_err *err) IPS_MUST_USE;
int ips_graph_alloc_unended(struct ips_graph *g,
                            struct ips_err *err) IPS_MUST_USE;
/* Invariants above, indices in range, kinds legal; for graphs that arrive over
 * the wire or from disk. START stands only first in a chain,
 * END only last. A cycle is found by ips_longest_path. */
int ips_graph_check(const struct ips_graph *g,
                    struct ips_err *err) IPS_MUST_USE;

/* The chain that holds node i; O(log chains). */
uint32_t ips_chain_of(const struct ips_graph *g, uint32_t i);

/* Message time MTIME(len) = base_ns + len * per_byte_q32 / 2^32, times
 * scale_num/scale_den (rounded down; scale_den 0 = never set, means 1/1).
 * Source: DPM-3, DRO-2. */
struct ips_mtime {
    uint64_t base_ns;
    uint64_t per_byte_q32;
    uint32_t scale_num; /* scenarios: 1/1, 0/1 (P_max), 1/2, 2/1 */
    uint32_t scale_den;
};
/* ALGORITHMS 1. */
enum ips_weighting {
    IPS_WEIGH_CPU = 0,
    IPS_WEIGH_SCHED, /* and the time runnable, but not running */
    IPS_WEIGH_WALL,  /* elapsed, less what was slept for a traced cause */
};
#define IPS_WEIGH_LAST IPS_WEIGH_WALL
enum ips_external {
    IPS_EXTERNAL_REPLY = 0, /* EXTERNAL weighs, IDLE 0 (default) */
    IPS_EXTERNAL_ALL,       /* both weigh */
    IPS_EXTERNAL_OFF,       /* neither; the arcs are absent */
};
/* One way to weigh the same graph. */
struct ips_scenario {
    struct ips_mtime mtime;
    enum ips_external external;
    bool calibrated; /* messages by the graph's `mtimes`; mtime is 1 ns a ns */
    bool order_dependent_off; /* RESOURCE arcs are absent */
    bool probe_off; /* cpu, sched: chain arcs weigh what recording cost less */
    bool unended;   /* cpu, sched: chain arcs weigh their `unended` more */
    /* Which weights the graph has: a view of it (analysis/graph/view.h) that
     * was made for this scenario. */
    enum ips_weighting weighting;
    struct ips_clock_map clock; /* wall: of this graph's machine */
    /* The path ends there: an END of this graph, or IPS_NO_NODE where the goal
     * is on another machine. Else at the greatest END. */
    bool has_goal;
    uint32_t goal;
};

uint64_t ips_mtime_ns(const struct ips_mtime *m, uint64_t len);
/* In `wall` a message's weight is measured: what the scenario makes of it. */
static inline struct ips_mtime
ips_wall_scale(const struct ips_scenario *scenario)
{
    return (struct ips_mtime){0, 1ULL << 32, scenario->mtime.scale_num,
                              scenario->mtime.scale_den};
}
/* Weight of node i's cross arc in a scenario; *present false where the arc is
 * absent in this scenario (external off, idle unless all). In `wall` the view's
 * xlen is the weight, and the scenario's scale goes for messages. */
uint64_t ips_xweight(const struct ips_graph *g, uint32_t i,
                     const struct ips_scenario *scenario, bool *present);

#endif
