/*
 * Finds how long contended locks were in use. The use of a lock begins when a
 * thread falls asleep for it, because another thread holds it then. The use
 * ends when the sleeper, having got the lock, passes it on to the next waiter.
 *
 * Nodes belong to the same lock if hand-overs connect them, or if they have the
 * same name; names are needed because a thread that finds the lock free while
 * waiters are being woken breaks the chain of hand-overs. A thread that holds
 * two locks at once makes them appear as one. Holds while no thread waited are
 * not seen. So the sum is at most the time for which the lock was held. If the
 * lock limits the program's throughput, the two are equal. Times are EST
 * (earliest time of each node). Pure. Source: ALGORITHMS 4 (throughput).
 */
#ifndef IPS_ANALYSIS_EXPLAIN_LOCK_HOLDS_H
#define IPS_ANALYSIS_EXPLAIN_LOCK_HOLDS_H

#include "analysis/graph/path.h"

struct ips_lock_hold {
    uint32_t chain; /* the chain that held the lock longest */
    uint64_t ns, handed_on;
};
struct ips_lock_holds {
    struct ips_lock_hold
        *lock; /* longest first; at equal times the lower chain first */
    uint32_t count;
};
/* Finds how long each contended lock was in use. `is` [node_count]: the node
 * acquired a lock through its cross arc. `name` [node_count]: the lock's name,
 * 0 if unknown; or NULL. O(n log n). */
int ips_sum_lock_holds_by_lock(const struct ips_graph *g,
                               const struct ips_est *est, const bool *is,
                               const uint64_t *name, struct ips_lock_holds *out,
                               struct ips_err *err) IPS_MUST_USE;
void ips_lock_holds_release(struct ips_lock_holds *h);

#endif
