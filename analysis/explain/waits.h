/*
 * Finds what threads waited for. Blames every wait on the activity of other
 * threads during the wait, along chains of waits. The parts of the blame add up
 * to the wait exactly.
 *
 * A wait belongs to the arc into one node of its chain and is placed on the
 * clock: if that node's cross arc ended it (`of_node`), at the end of the arc,
 * within the time that the thread slept for it according to the graph ([at -
 * wait, at]); else at its own moment before that. The part of a wait that does
 * not fit there is WOKEN, blamed on the waiter itself: the thread was woken but
 * had no CPU yet, or the thing that it waited for had arrived already.
 *
 * A wait from `lo` to `hi` that node u of another chain ended is blamed as
 * follows:
 *  - DELIVERY: from at(u) to hi, the message was on the way or the wake-up took
 *    that long.
 *  - Before at(u), the activity of u's chain from lo on is blamed, with only
 *    the nodes up to u: COMPUTE, RUNNABLE and OFF_CPU (off the CPU outside of
 *    waits, reason unknown), in the proportions of the arc. Waits of u's chain
 *    that no recorded thread ended are WAITED, with their cause. If a recorded
 *    thread ended such a wait, the same rules apply to that thread. For the
 *    time before u's chain began, they apply to the chain that created it; if
 *    no recorded thread did, that time is NOT_BEGUN.
 *
 * Blame follows only causal predecessors, so it ends even if clocks are wrong.
 * The time that the budget of steps does not reach is reported as CUT.
 *
 * Times are `at` of the graph: local ns for one machine, a common scale for
 * several (analysis/graph/clock_align.h). Errors of that scale move the ends of
 * the parts but never change their sum.
 * Pure. Source: IPS-15; ALGORITHMS 1.
 */
#ifndef IPS_ANALYSIS_EXPLAIN_WAITS_H
#define IPS_ANALYSIS_EXPLAIN_WAITS_H

#include "analysis/graph/graph.h"

/* Number of an unknown cause of a wait. The caller defines the numbers of all
 * other causes. */
#define IPS_WAITS_NO_CAUSE 255u

struct ips_wait {
    uint32_t arc;    /* the wait is in the arc into this node */
    uint8_t cause;   /* number of the cause, defined by the caller, or
                        IPS_WAITS_NO_CAUSE */
    bool of_node;    /* the cross arc of node `arc` ended the wait */
    uint64_t ns;     /* length of the wait; all of it is blamed */
    uint64_t end_ns; /* when the wait ended; not read if of_node is set */
    /* Set by ips_waits_set_begin_and_end_times(): the wait's place [from, to)
     * on the clock, at most `ns` long; empty if from == to. */
    uint64_t from, to;
};

struct ips_waits {
    const struct ips_graph *g; /* borrowed; has times and no remote
                                  references */
    struct ips_wait *wait;     /* borrowed; sorted by arc */
    uint64_t count;
    uint64_t *at;    /* [nodes] time of each node; within a chain it never
                        decreases */
    uint64_t *first; /* [nodes + 1] index of the first wait of each node's
                        arc */
};

/* Places all waits on the clock. They must be sorted by arc, and in order of
 * time within an arc. IPS_E_USAGE: the graph has no times, or the waits are not
 * sorted. O(nodes). */
int ips_waits_set_begin_and_end_times(const struct ips_graph *g,
                                      struct ips_wait *wait, uint64_t count,
                                      struct ips_waits *out,
                                      struct ips_err *err) IPS_MUST_USE;
void ips_waits_release(struct ips_waits *w);

/* Returns when the thread fell asleep in the wait that ended at node i; at[i]
 * if it did not sleep, or if no wait and no cross arc ends at the node. */
uint64_t ips_waits_sleep_begin_ns(const struct ips_waits *w, uint32_t i);

/* The arc into node i without its waits: `length` ns, of which the thread ran
 * for `cpu` and was runnable without a CPU for `delay`; in the rest it was off
 * the CPU. */
struct ips_arc_time {
    uint64_t length, cpu, delay;
};
struct ips_arc_time ips_waits_active_time_of_arc(const struct ips_waits *w,
                                                 uint32_t i);

/* ---- blaming waits on other threads ------------------------------------- */

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
    uint32_t chain; /* the chain to blame; DELIVERY: the sender, WOKEN: the
                       waiter */
    uint32_t node;  /* the arc into this node; DELIVERY: the node that sent */
    uint32_t cause; /* only for WAITED */
    uint64_t ns;    /* length of this part, > 0 */
};

/* State of ips_blame_wait(). The caller sets w, put, arg and budget, and zeroes
 * the rest. */
struct ips_blamer {
    const struct ips_waits *w;
    void (*put)(void *arg, const struct ips_blame *part);
    void *arg;
    uint64_t budget; /* steps left, for all waits of this blamer together */
    struct ips_blame_task *task;
    uint32_t task_count, task_capacity;
    uint32_t chain; /* chain of the node that was looked up last */
};
/* Calls `put` with parts that add up to the wait's ns, or to the part of the
 * wait between from_ns and to_ns. WOKEN counts as being at the end of the wait.
 * from_ns 0 and to_ns UINT64_MAX blame the whole wait. *ns is set to the sum.
 * Takes one step for each node that the other threads passed during the wait,
 * at most the budget. */
int ips_blame_wait(struct ips_blamer *b, const struct ips_wait *wait,
                   uint64_t from_ns, uint64_t to_ns, uint64_t *ns,
                   struct ips_err *err) IPS_MUST_USE;
void ips_blamer_release(struct ips_blamer *b);

/* Which side was late: the thread that had to send, or the thread that had to
 * receive. */
enum ips_lateness {
    IPS_LATE_NONE,
    IPS_LATE_SENDER,   /* a receive waited for a send */
    IPS_LATE_RECEIVER, /* a send waited for buffer space */
};
enum ips_lateness ips_wait_late_side(const struct ips_graph *g,
                                     const struct ips_wait *wait);

#endif
