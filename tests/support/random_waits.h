/*
 * Times and waits for random graphs, for tests of analysis/explain/waits.h and
 * idle.h: those that a run could have had, and with `damage` also some that
 * none has (clocks of machines apart, waits longer than there was time for).
 * The same seed gives the same.
 */
#ifndef IPS_TESTS_RANDOM_WAITS_H
#define IPS_TESTS_RANDOM_WAITS_H

#include "analysis/explain/waits.h"
#include "tests/support/random_graph.h"

#define RW_CAUSES 6u

/* The graph must have no times yet. *waits is malloc'd, by arc. */
uint64_t rw_make(struct ips_graph *g, uint64_t seed, bool damage,
                 struct ips_wait **waits);

#endif
