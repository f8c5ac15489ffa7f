/*
 * Finds where the behaviour of a run may have depended on an order that nothing
 * enforced. On other machines the program may then do other work, or the same
 * work in other threads. A replay assumes that each thread does the same as in
 * the recorded run; these patterns show where that assumption may not hold. The
 * patterns, each with the threads concerned and the nodes that show it:
 *  - READERS: two threads received from one channel, and neither receive had to
 *    come before the other: which thread received what was a matter of order (a
 *    work queue).
 *  - WRITERS: two threads sent into one channel, and neither had to be first:
 *    the receiver met the messages in the order in which they came.
 *  - SOURCES: a thread whose polls were ended by varying channels (`choices`)
 *    received from one channel, then from another channel of another sender,
 *    and the second message did not depend on the first: it could have been
 *    first.
 *  - ACCEPTS: the same for connections: a thread accepted one connection, then
 *    another thread's, which did not wait for the first to be accepted.
 *  - CHILDREN: a process waited for its children in the order in which they
 *    ended, not in which they were started.
 *  - EMPTY: polls that found nothing or timed out (`empty`): what the thread
 *    did instead depends on when messages of other threads came.
 *  - RESOURCES: waits for locks and similar resources: which thread got the
 *    resource first was chance.
 *  - SIGNALS: signals delivered while the thread did something else: at which
 *    point it was interrupted is chance.
 *
 * "Had to" refers to the graph without RESOURCE arcs. A graph does not show
 * every dependence on order. Not reported are accesses to shared memory, the
 * choice between several processes that accept on one socket, and tests without
 * a system call.
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
    const struct ips_graph *g; /* checked, without remote references; has `site`
                                  and `t_ns` */
    /* [chain_count] number of polls that a different channel ended than the
     * previous poll at the same call site. NULL: unknown, so SOURCES is not
     * looked for. */
    const uint64_t *choices;
    const uint64_t *empty; /* [chain_count] number of polls that found
                              nothing; NULL: unknown */
    /* Visits at most this many nodes to decide which nodes had to come before
     * which others. Pairs beyond that are counted in `unchecked` and reported
     * as if unordered. */
    uint64_t steps;
};

struct ips_order_dependence {
    /* number of nodes that show the pattern; for EMPTY number of polls */
    uint64_t count[IPS_ORDER_PATTERN_COUNT];
    uint32_t chains[IPS_ORDER_PATTERN_COUNT];
    /* [chain_count] bits 1 << pattern: the chain is concerned. WRITERS concerns
     * the receiver and the writers. */
    uint32_t *of_chain;
    uint64_t arcs;   /* number of cross arcs in the graph */
    uint64_t marked; /* number of cross arcs into nodes that show a pattern */
    /* number of pairs beyond `steps`, which were not checked */
    uint64_t unchecked;
    bool sources_known; /* `choices` was given, and the graph has `site` */
};

/* Finds the patterns. O(nodes), plus O(nodes) for each thread about which a
 * question remains, up to `steps`. IPS_E_STALLED: the graph has a cycle. */
int ips_find_order_dependence(const struct ips_order_ask *ask,
                              struct ips_order_dependence *out,
                              struct ips_err *err) IPS_MUST_USE;
void ips_order_dependence_release(struct ips_order_dependence *o);

/* Returns the pattern's name, a static string such as "readers". */
const char *ips_order_pattern_name(enum ips_order_pattern pattern);

#endif
