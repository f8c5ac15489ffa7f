/*
 * What threads waited for: every wait is blamed on what the others did
 * meanwhile, along chains of waits, and the parts of the blame add up to the
 * wait exactly.
 *
 * A wait lies in the arc into one node of its chain. Where that node's cross
 * arc ended it (`of_node`), it is laid at the end of the arc, within what the
 * graph says the thread slept for it ([at - wait, at]); else it is laid where
 * it was, before that. What of its length has no room on the clock - it was
 * woken and had no core yet, or what it waited for was there already - is
 * WOKEN: its own.
 *
 * A wait from `lo` to `hi` that node u of another chain ended is blamed so:
 *
 *   DELIVERY   from at(u) to hi: on the way, or the wake-up
 *   before     what u's chain did from lo to at(u), looking at nodes up to u
 *              alone: COMPUTE, RUNNABLE, OFF_CPU (off its core outside of
 *              waits; nobody knows why) in the proportions of the arc; its own
 *              waits that no traced thread ended are WAITED, with their cause;
 *              for one that some thread did end, the same again with that
 *              thread. Before the chain began, with what made it; NOT_BEGUN
 *              where nobody seen did.
 *
 * Only causal predecessors are looked at, so this ends whatever the clocks say;
 * what a budget of steps did not reach is CUT, and said.
 *
 * Times are `at` of the graph: for one machine local ns, for several on one
 * scale (analysis/graph/clock_align.h), with the error of that scale in where
 * the parts end, never in their sum. Pure. Source: IPS-15; ALGORITHMS 1.
 */
#ifndef IPS_ANALYSIS_EXPLAIN_WAITS_H
#define IPS_ANALYSIS_EXPLAIN_WAITS_H

#include "analysis/graph/graph.h"

/* A cause that nobody named. The others are the caller's numbers. */
#define IPS_WAITS_NO_CAUSE 255u

struct ips_wait {
    uint32_t arc;    /* the wait lies in the arc into this node */
    uint8_t cause;   /* the caller's */
    bool of_node;    /* that node is what it waited for */
    uint64_t ns;     /* how long: what is blamed */
    uint64_t end_ns; /* it was over then; of_node: not looked at */
    /* ips_waits_lay: [from, to) of the clock, at most ns; equal: nothing. */
    uint64_t from, to;
};

struct ips_waits {
    const struct ips_graph *g; /* borrowed, with times; complete */
    struct ips_wait *wait;     /* borrowed; by arc */
    uint64_t count;
    uint64_t *at;    /* [nodes] never running backwards within a chain */
    uint64_t *first; /* [nodes + 1] waits of each node's arc */
};

/* Lays all waits. They must be sorted by arc, within an arc in the order in
 * which they were. IPS_E_USAGE: no times, or out of order. O(nodes). */
int ips_waits_lay(const struct ips_graph *g, struct ips_wait *wait,
                  uint64_t count, struct ips_waits *out,
                  struct ips_err *err) IPS_MUST_USE;
void ips_waits_release(struct ips_waits *w);

/* When node i's thread began to sleep for it; at[i] where it did not, and where
 * it has neither a cross arc nor a wait. */
uint64_t ips_waits_asleep(const struct ips_waits *w, uint32_t i);

/* The arc into node i without its waits, as parts that add up: `length` ns of
 * which so much was computed and so much runnable; the rest is off the CPU. */
struct ips_arc_time {
    uint64_t length, cpu, delay;
};
struct ips_arc_time ips_waits_arc(const struct ips_waits *w, uint32_t i);

/* ---- blame -------------------------------------------------------------- */

#define IPS_BLAMES(X)                                                          \
    X(COMPUTE, "computing")                                                    \
    X(RUNNABLE, "waiting for a core")                                          \
    X(DELIVERY, "on the way")                                                  \
    X(WAITED, "waiting")                                                       \
    X(OFF_CPU, "off its core")                                                 \
    X(WOKEN, "woken, not running yet")                                         \
    X(NOT_BEGUN, "not begun")                                                  \
    X(CUT, "not followed further")
enum ips_blame_kind {
#define X(name, text) IPS_BLAME_##name,
    IPS_BLAMES(X)
#undef X
        IPS_BLAME_KINDS
};

struct ips_blame {
    enum ips_blame_kind kind;
    uint32_t chain; /* whose doing; of DELIVERY the sender, WOKEN the waiter */
    uint32_t node;  /* the arc into it; of DELIVERY the node that was sent */
    uint32_t cause; /* WAITED */
    uint64_t ns;    /* > 0 */
};

/* Where blame is being made; zeroed but for what is said. */
struct ips_blamer {
    const struct ips_waits *w;
    void (*put)(void *arg, const struct ips_blame *part);
    void *arg;
    uint64_t budget; /* steps left, for all waits of this blamer */
    struct ips_blame_task *task;
    uint32_t task_count, task_capacity;
    uint32_t chain; /* found last */
};
/* Calls `put` with parts that add up to the wait's ns, or as much of it as lies
 * between from_ns and to_ns; WOKEN lies at its end (with to_ns UINT64_MAX and
 * from_ns 0 all is blamed). The sum is put in *ns. Cost: as many steps as the
 * others had nodes meanwhile, at most the budget. */
int ips_blame_wait(struct ips_blamer *b, const struct ips_wait *wait,
                   uint64_t from_ns, uint64_t to_ns, uint64_t *ns,
                   struct ips_err *err) IPS_MUST_USE;
void ips_blamer_release(struct ips_blamer *b);

/* Who made the receiver wait: the one who had to send, or the one who had to
 * take. */
enum ips_lateness {
    IPS_LATE_NONE,
    IPS_LATE_SENDER,   /* a receive waited for what was sent */
    IPS_LATE_RECEIVER, /* a send waited for room */
};
enum ips_lateness ips_wait_lateness(const struct ips_graph *g,
                                    const struct ips_wait *wait);

#endif
