/*
 * From where procedures were called, by the stacks of samples: of the time that
 * was seen in one (the leaf) how much had which other procedure below it on the
 * stack, recursion counted once, and how many calls lay between. Of the whole
 * run, all threads together. Pure.
 * Source: IPS-12.
 */
#ifndef IPS_SLAVE_PROFILE_CALLERS_H
#define IPS_SLAVE_PROFILE_CALLERS_H

#include "slave/profile/proc_names.h"

/* Time in the C library's procedures that take and give locks
 * (slave/profile/lock_code.h), by the innermost one, who called, and how. */
#define SLAVE_LOCK_IS_CONTENDED 1u
#define SLAVE_LOCK_IS_GIVEN 2u
#define SLAVE_LOCK_OF_LIBRARY 4u
#define SLAVE_LOCK_IS_YIELD 8u /* none: sched_yield() */
struct slave_lock_time {
    uint32_t leaf, site, caller; /* symbols of the names */
    uint32_t how;                /* SLAVE_LOCK_*: bits */
    uint64_t ns;
};
struct slave_callers { /* by (leaf, caller); the leaf is its own caller, too */
    uint32_t *leaf, *caller; /* symbols of the names */
    uint64_t *ns;
    uint64_t *steps; /* sum of ns times the calls between the two */
    uint32_t count;
    struct slave_lock_time *lock;
    uint32_t lock_count;
};

/* O(frames of all stacks), at most SLAVE_CALLERS_MOST of them: what comes after
 * is left out. */
#define SLAVE_CALLERS_MOST (1u << 22)
int slave_callers_make(const struct slave_profile_cache *costs,
                       const struct slave_proc_names *names,
                       struct slave_callers *out,
                       struct ips_err *err) IPS_MUST_USE;
void slave_callers_release(struct slave_callers *c);

#endif
