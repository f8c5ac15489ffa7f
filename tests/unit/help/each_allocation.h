/*
 * Lets each allocation of a story fail in turn. Header only; a test that
 * includes it links ips_test_fault, and its target has ENABLE_EXPORTS.
 */
#ifndef IPS_TESTS_UNIT_HELP_EACH_ALLOCATION_H
#define IPS_TESTS_UNIT_HELP_EACH_ALLOCATION_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/err.h"
#include "tests/support/fault.h"
#include "tests/support/live_blocks.h"

/* `story` returns 0 or a negative code, and frees what it made: IPS_E_NO_MEMORY
 * where an allocation failed, else 0; no block of memory may be left then. How
 * many allocations there were. */
static inline uint64_t each_allocation(int (*story)(void *arg), void *arg)
{
    fault_watch(0); /* what is allocated once is there */
    fault_end();
    assert_int_equal(story(arg), 0);
    long blocks = live_blocks();
    for (uint64_t nth = 1;; nth++) {
        fault_arm(FAULT_ALLOC, nth);
        int rc = story(arg);
        bool struck = fault_end() > 0;
        if (rc != (struck ? IPS_E_NO_MEMORY : 0))
            fail_msg("allocation %llu %s: %d", (unsigned long long)nth,
                     struck ? "fails" : "is not there", rc);
        if (live_blocks() != blocks)
            fail_msg("allocation %llu: %ld blocks are left",
                     (unsigned long long)nth, live_blocks() - blocks);
        if (!struck)
            return nth - 1;
    }
}

#endif
