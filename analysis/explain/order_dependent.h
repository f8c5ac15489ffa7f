/*
 * Where a run's behaviour may have depended on the order of things that nothing
 * ordered, so that on other machines the program may do other work, or the same
 * in other places. A replay keeps what each thread did; here is told where that
 * is an assumption. Patterns, by the threads concerned and the nodes that show
 * them:
 *
 *   READERS    two threads took from one channel, and neither take had to come
 *              before the other: who took what was order (a work queue)
 *   WRITERS    two threads' sends went into one channel, and neither had to be
 *              first: a receiver met them in the order in which they came
 *   SOURCES    a thread whose polls were ended now by one channel, now by
 *              another (`choices`), took from one, then from another of another
 *              sender, and what it took second did not need the first: it could
 *              have been first
 *   ACCEPTS    the same of connections: a thread accepted one, then another's,
 *              which did not wait for the first to be accepted
 *   CHILDREN   a process took its children's ends as they ended, not as they
 *              were begun
 *   EMPTY      polls that found nothing, or gave up (`empty`): what was done
 *              instead depends on when the others came
 *   RESOURCES  waits for locks and the like: who had them first was incidental
 *   SIGNALS    signals taken while something else was done: where, is chance
 *
 * "Had to" is by the graph without RESOURCE arcs. What a graph cannot show is
 * not claimed: memory that threads share, which of several processes accepted
 * on one socket, what was tested without a system call.
 *
 * Pure. Source: DPM-14.
 */
#ifndef IPS_ANALYSIS_EXPLAIN_ORDER_DEPENDENT_H
#define IPS_ANALYSIS_EXPLAIN_ORDER_DEPENDENT_H

#include "analysis/graph/graph.h"

#define IPS_ORDER_PATTERNS(X)                                                  \
    X(READERS, "readers")                                                      \
    X(WRITERS, "writers")                                                      \
    X(SOURCES, "sources")                                                      \
    X(ACCEPTS, "accepts")                                                      \
    X(CHILDREN, "children")                                                    \
    X(EMPTY, "empty-polls")                                                    \
    X(RESOURCES, "resources")                                                  \
    X(SIGNALS, "signals")
enum ips_order_pattern {
#define X(name, text) IPS_ORDER_##name,
    IPS_ORDER_PATTERNS(X)
#undef X
        IPS_ORDER_PATTERN_COUNT
};

struct ips_order_ask {
    const struct ips_graph *g; /* checked, whole; with `site` and `t_ns` */
    /* [chain_count] polls that another channel ended than the last one at the
     * same place; NULL: not known, so SOURCES is not looked for. */
    const uint64_t *choices;
    const uint64_t *empty; /* [chain_count]; NULL: not known */
    /* At most so many nodes are gone through to tell what had to be before
     * what; pairs beyond that are `unchecked` and shown as free. */
    uint64_t steps;
};

struct ips_order_dependent {
    uint64_t count[IPS_ORDER_PATTERN_COUNT]; /* nodes; EMPTY: polls */
    uint32_t chains[IPS_ORDER_PATTERN_COUNT];
    uint32_t *of_chain; /* [chain_count] bits 1 << pattern: it is concerned;
                           writers are by their receiver, and themselves */
    uint64_t arcs;      /* all cross arcs of the graph */
    uint64_t marked;    /* of them, those of marked nodes */
    uint64_t unchecked; /* pairs */
    bool sources_known; /* `choices` was there, and the graph had `site` */
};

/* O(nodes), and nodes once more for each thread that has something to be told
 * of, up to `steps`. IPS_E_STALLED: a cycle. */
int ips_order_dependent(const struct ips_order_ask *ask,
                        struct ips_order_dependent *out,
                        struct ips_err *err) IPS_MUST_USE;
void ips_order_dependent_release(struct ips_order_dependent *o);

/* "readers"; static. */
const char *ips_order_name(enum ips_order_pattern pattern);

#endif
