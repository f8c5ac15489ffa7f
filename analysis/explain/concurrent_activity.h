/*
 * Finds what all other threads do while the critical path runs. For every
 * moment of the path's chain arcs it finds how many threads are busy, and what
 * the other threads that could work wait for. Times are EST (the earliest time
 * of each node, analysis/graph/path.h): a thread is busy for the weight of an
 * arc and waits from the arc's end to the EST of the next node. So the result
 * shows the program's own behaviour, whatever else ran on its machines.
 *
 * A moment counts as underused if at most half of the usable cores are used;
 * the number of usable cores is the lesser of the number of cores and the
 * number of threads that are busy or could be. An underused moment belongs to
 * the first of these classes that fits:
 *  - LOCK: a thread waits for a lock.
 *  - ALIKE: a thread of the role of the path's thread waits, or has ended since
 *    the path's thread began. A thread that waits for a message of another
 *    role, to get work, counts only if the path's thread has more work in all
 *    (by IPS_BESIDE_MORE_PPM): else the work is spread evenly enough. The class
 *    does not fit if the threads of the role take turns: they hardly ever work
 *    at the same time although several have work, so something else prevents
 *    it. Threads that wait mostly at barriers do not count as taking turns,
 *    because uneven work may be the reason.
 *  - QUEUE: a message for the path's thread has arrived on another connection,
 *    but the thread is busy, and there is no other worker of its role.
 *  - PEER: a thread waits for a message, or for buffer space to send one. If
 *    there are several, one that waits for the path's thread is reported.
 *  - OTHER: a thread waits for a barrier, a condition, a child or a token.
 * A moment that is not underused in this sense belongs to one more class:
 *  - ALONE: at most half of all cores are used, because too few threads could
 *    work.
 *
 * A thread counts among those that could work only if the caller says so
 * (`worker`): a shell that waits for its child needs no core.
 *
 * `spread_ns` is the time that would be saved if the work of these moments were
 * spread over all threads that could do it: ns * (1 - busy / usable cores).
 * `oversubscription_ns` is how much longer the moments with more busy threads
 * than cores would take if the cores of the path's machine were shared evenly:
 * ns * (busy / cores - 1).
 * Source: IPS-15 (idle time by cause); ALGORITHMS 4, 5.
 */
#ifndef IPS_ANALYSIS_EXPLAIN_CONCURRENT_ACTIVITY_H
#define IPS_ANALYSIS_EXPLAIN_CONCURRENT_ACTIVITY_H

#include "analysis/graph/path.h"

enum ips_concurrent_class {
    IPS_BESIDE_LOCK,
    IPS_BESIDE_ALIKE,
    IPS_BESIDE_QUEUE,
    IPS_BESIDE_PEER,
    IPS_BESIDE_OTHER,
    IPS_BESIDE_ALONE,
    IPS_BESIDE_CLASSES
};

#define IPS_BESIDE_MORE_PPM 250000u

struct ips_concurrent_ask {
    const struct ips_graph *g;
    const struct ips_est *est;
    const struct ips_scenario *scenario; /* `est` was computed for it */
    const uint8_t
        /* [node_count] enum ips_resource_kind of RESOURCE and SIGNAL arcs; a
         * SIGNAL arc with LOCK is a lock that one thread passes to another */
        *resource_kind;
    const uint64_t *outside; /* [node_count] ns that the thread slept at the
                                end of the node's chain arc, waiting for
                                something not recorded */
    const uint32_t *role;    /* [chain_count] threads of equal role do the same
                                work; < role_count */
    uint32_t role_count;
    const bool *worker; /* [chain_count] the thread could do some of the
                           program's work */
    /* [chain_count] messages to this thread may queue, for example because it
     * accepted connections; NULL: true for all */
    const bool *serves;
    const uint32_t *cores; /* [machine_count] cores of each machine, by
                              ips_chain.machine */
    uint32_t machine_count;
};

/* The part of the path's chain arc into `node` that belongs to the class `of`.
 * Each (node, class) occurs at most once; sorted in order of the path. */
struct ips_concurrent_share {
    uint32_t node;
    uint32_t chain;
    enum ips_concurrent_class of;
    uint32_t waiter; /* chain that waits, has ended, or sent the message
                        (QUEUE); UINT32_MAX: ALONE */
    /* the node at which the waiter's wait ends; IPS_NO_NODE: the waiter does
     * not wait */
    uint32_t wait_node;
    bool direct;       /* the waiter waits for `chain` itself */
    bool awaits_space; /* PEER: the waiter could not send for lack of buffer
                          space */
    uint64_t ns, spread_ns;
};
struct ips_concurrent_activity {
    struct ips_concurrent_share *share;
    size_t count, cap;
    uint64_t oversubscription_ns;
    uint64_t *oversubscription; /* [chain_count] the part of oversubscription_ns
                                   while the path is in each chain */
    uint32_t peak;              /* the most threads busy at once on one
                                   machine */
    uint32_t peak_machine;
};

/* Finds what other threads do while the path of ask->est runs. O(n log n) time
 * and 64 bytes a node, for n nodes that waited. */
int ips_classify_core_underuse_along_path(const struct ips_concurrent_ask *ask,
                                          struct ips_concurrent_activity *out,
                                          struct ips_err *err) IPS_MUST_USE;
void ips_concurrent_release(struct ips_concurrent_activity *b);

#endif
