/*
 * What all the others do while the critical path goes on: every moment of the
 * path's chain arcs is told by how many threads are busy then, and by what
 * those wait for that could work. Times are those of EST: a thread is busy for
 * the weight of an arc and waits from its end to the next node's EST; so what
 * is found is the program's own, whatever else its machines did.
 *
 * A moment counts as wanting where at most half of the cores that could be used
 * are: the lesser of the cores there are, and of the threads that are busy or
 * might be. It then belongs to one class, of these the first that fits:
 *   LOCK   somebody waits for a lock
 *   ALIKE  a thread of the path's own role waits, or has ended since this one
 *          began. One that waits for messages of another role, to be told what
 *          to do, counts where the path's own has more to do in all than that
 *          one (by IPS_BESIDE_MORE_PPM): else it is nobody's unevenness
 *   QUEUE  on another connection a message is there for the path's own thread,
 *          which is at something else, and no worker alike is there
 *   PEER   somebody waits for a message, or to get rid of one
 *   OTHER  somebody waits for a barrier, a condition, a child, a token
 *   ALONE  nobody waits, but at most half of all cores are used
 * A thread counts among those that could work (`worker`) where the caller says
 * so: a shell that waits for its child wants no core.
 *
 * `spread_ns` is what would be left out were the work of these moments spread
 * over all that could do it: ns * (1 - busy / wanted). `oversubscription_ns` is
 * what the moments with more busy threads than cores would take longer, if the
 * cores were shared evenly: ns * (busy / cores - 1), of the path's machine.
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
    const struct ips_scenario *scenario; /* that est was computed with */
    const uint8_t
        *resource_kind; /* [node_count] enum ips_resource_kind of RESOURCE and
                   SIGNAL arcs; LOCK: one lets the other go on */
    const uint64_t *outside; /* [node_count] of the end of its chain arc: slept
                                for what nobody traced */
    const uint32_t *role;    /* [chain_count] equal: alike; < role_count */
    uint32_t role_count;
    const bool *worker;    /* [chain_count] */
    const bool *serves;    /* [chain_count] whose messages may stand in line, as
                              those of who accepted connections; NULL: all */
    const uint32_t *cores; /* [machine_count]; by ips_chain.machine */
    uint32_t machine_count;
};

/* Part of the path's chain arc into `node` that belongs to a class. Each (node,
 * class) comes once; in order of the path. */
struct ips_concurrent_share {
    uint32_t node;
    uint32_t chain;
    enum ips_concurrent_class of;
    uint32_t waiter;   /* chain that waits, or has ended, or sent (QUEUE);
                          UINT32_MAX ALONE */
    bool awaits_space; /* PEER: the waiter could not send, for want of room */
    uint64_t ns, spread_ns;
};
struct ips_concurrent {
    struct ips_concurrent_share *share;
    size_t count, cap;
    uint64_t oversubscription_ns;
    uint64_t *oversubscription; /* [chain_count] of it, in arcs of each */
    uint32_t peak;              /* most threads busy at once, of a machine */
    uint32_t peak_machine;
};

/* O(n log n) for n nodes that waited; 64 bytes each. */
int ips_find_concurrent(const struct ips_concurrent_ask *ask,
                        struct ips_concurrent *out,
                        struct ips_err *err) IPS_MUST_USE;
void ips_concurrent_release(struct ips_concurrent *b);

#endif
