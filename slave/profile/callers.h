/*
 * Finds the callers of procedures in the stacks of samples. For each pair of a
 * sampled procedure (the leaf) and a procedure that called it, directly or not,
 * it gives the leaf's time under that caller (recursion counted once) and the
 * number of calls between the two. It covers the whole run, all threads
 * together. Pure. Source: IPS-12.
 */
#ifndef IPS_SLAVE_PROFILE_CALLERS_H
#define IPS_SLAVE_PROFILE_CALLERS_H

#include "slave/profile/proc_names.h"

/* bits of slave_lock_time.how */
#define SLAVE_LOCK_IS_CONTENDED 1u
#define SLAVE_LOCK_IS_RELEASED 2u
#define SLAVE_LOCK_OF_LIBRARY 4u
#define SLAVE_LOCK_IS_YIELD 8u /* not a lock: sched_yield() */
/* not a lock: a loop that only reads memory (IPS_REC_F_SPINS); `leaf`, `site`
 * and `caller` are equal */
#define SLAVE_LOCK_IS_MEMORY_LOOP 16u
/* One row of the time spent in the C library's lock functions
 * (slave/profile/lock_code.h), in sched_yield(), or in loops that only read
 * memory. There is one row for each combination of innermost procedure, callers
 * and kind. */
struct slave_lock_time {
    uint32_t leaf, site, caller; /* symbol indexes; see slave_lock_use */
    uint32_t how;                /* bits: SLAVE_LOCK_* above */
    uint64_t ns;
};
/* Rows sorted by (leaf, caller). Each leaf also has a row with itself as the
 * caller; that row has all of the leaf's time. */
struct slave_callers {
    uint32_t *leaf, *caller; /* symbol indexes */
    uint64_t *ns;
    uint64_t *steps; /* sum of ns * number of calls between leaf and caller */
    uint32_t count;
    struct slave_lock_time *lock;
    uint32_t lock_count;
};

/* Makes the rows of *out: at most SLAVE_CALLERS_MOST pairs of leaf and caller,
 * and at most as many lock times; leaves further ones out. O(frames of all
 * stacks). */
#define SLAVE_CALLERS_MOST (1u << 22)
int slave_callers_make_pairs_and_lock_times(
    const struct slave_profile_cache *costs,
    const struct slave_proc_names *names, struct slave_callers *out,
    struct ips_err *err) IPS_MUST_USE;
void slave_callers_release(struct slave_callers *c);

#endif
