/*
 * What all the others do while the critical path goes on. Of a graph in the
 * weighting `wall`, where EST(v) is when v was passed: every moment of the
 * path's chain arcs is told by how many threads are busy then, and by what
 * those wait for that could work.
 *
 * A moment counts as wanting where at most half of the cores that could be used
 * are: the lesser of the cores there are, and of the threads that are busy or
 * might be. It then belongs to one class, of these the first that fits:
 *   LOCK   somebody waits for a lock
 *   ALIKE  a thread of the path's own role waits, or has ended since this one
 *          began
 *   PEER   somebody waits for a message
 *   OTHER  somebody waits for a barrier, a condition, a child, a token
 * A thread counts among those that could work (`worker`) where the caller says
 * so: a shell that waits for its child wants no core.
 *
 * `spread_ns` is what would be left out were the work of these moments spread
 * over all that could do it: ns * (1 - busy / wanted).
 *
 * What a thread did not run of an arc (others had the core) explains first why
 * it is late: only what such moments have beyond that counts.
 * Source: IPS-15 (idle time by cause); ALGORITHMS 1 (`wall`), 4.
 */
#ifndef IPS_ANALYSIS_BESIDE_H
#define IPS_ANALYSIS_BESIDE_H

#include "analysis/path.h"

enum ips_beside_class {
    IPS_BESIDE_LOCK,
    IPS_BESIDE_ALIKE,
    IPS_BESIDE_PEER,
    IPS_BESIDE_OTHER,
    IPS_BESIDE_CLASSES
};

struct ips_beside_ask {
    const struct ips_graph *g; /* view of `wall`, merged, with at and wait */
    const struct ips_est *est;
    const uint8_t *thing; /* [node_count] enum ips_thing of RESOURCE arcs */
    const uint64_t *cpu;  /* [node_count] CPU of the chain arc */
    const uint32_t *role; /* [chain_count] equal: alike; < role_count */
    uint32_t role_count;
    const bool *worker;    /* [chain_count] */
    const uint32_t *cores; /* [machine_count]; by ips_chain.machine */
    uint32_t machine_count;
};

/* Part of the path's chain arc into `node` that belongs to a class. Each (node,
 * class) comes once; in order of the path. */
struct ips_beside_part {
    uint32_t node;
    uint32_t chain;
    enum ips_beside_class of;
    uint32_t waiter; /* chain that waits, or has ended */
    uint64_t ns, spread_ns;
};
struct ips_beside {
    struct ips_beside_part *part;
    size_t count, cap;
    uint64_t over_ns;  /* of the path: some machine had more busy than cores */
    uint64_t alone_ns; /* of the path: nobody else was busy */
    uint32_t peak;     /* most threads busy at once, of a machine */
    uint32_t peak_machine;
    uint64_t busy_ns; /* of all threads: not asleep */
};

/* O(n log n) for n nodes that waited; 64 bytes each. */
int ips_beside(const struct ips_beside_ask *ask, struct ips_beside *out,
               struct ips_err *err) IPS_MUST_USE;
void ips_beside_release(struct ips_beside *b);

#endif
