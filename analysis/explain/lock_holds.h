/*
 * How long locks were in use while others stood in line for them: of every lock
 * that was handed on, while somebody slept for it (whoever had it then, as one
 * that came by and found it free), and from when one got it so until it let the
 * next one have it.
 * Those are one that hand-overs connect (who held two at once makes them one),
 * or that are named alike: who finds a lock free while others are being woken
 * for it breaks the line of hand-overs. What was held while nobody waited is
 * not seen, so the sum is at most what the lock was held, and all of it where
 * it is what bounds the program. Times are those of EST. Pure. Source:
 * ALGORITHMS 4 (throughput).
 */
#ifndef IPS_ANALYSIS_EXPLAIN_LOCK_HOLDS_H
#define IPS_ANALYSIS_EXPLAIN_LOCK_HOLDS_H

#include "analysis/graph/path.h"

struct ips_lock_hold {
    uint32_t chain; /* that held it longest */
    uint64_t ns, handed_on;
};
struct ips_lock_holds {
    struct ips_lock_hold
        *lock; /* longest first; of equal ones the lower chain */
    uint32_t count;
};
/* `is` [node_count]: the node got a lock by its cross arc. `name` [node_count]
 * of it, 0 not known; or NULL. O(n log n). */
int ips_find_lock_holds(const struct ips_graph *g, const struct ips_est *est,
                        const bool *is, const uint64_t *name,
                        struct ips_lock_holds *out,
                        struct ips_err *err) IPS_MUST_USE;
void ips_lock_holds_release(struct ips_lock_holds *h);

#endif
