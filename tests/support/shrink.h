/*
 * A property held against many random graphs. Where it fails, the graph is
 * made smaller as long as it still fails, so that what is reported can be
 * followed by hand.
 */
#ifndef IPS_TESTS_SHRINK_H
#define IPS_TESTS_SHRINK_H

#include "tests/support/random_graph.h"

/* NULL: it holds; else what does not. `seed` is for further choices; the graph
 * may be changed. */
typedef const char *rg_property(struct rg *r, uint64_t seed);

/* Half of the times the END of some chain as the lane's goal. */
void rg_goal(const struct ips_graph *g, struct ips_scenario *lane,
             uint64_t *rng);

/* Seeds 1 to `seeds`, or to IPS_SEEDS of the environment. NULL, or a text about
 * the smallest graph that fails and the options that make it; the text lasts
 * until the next call. */
const char *rg_hold(rg_property *property, uint64_t seeds);

/* In a property: the first that does not hold is told; all are looked at. */
#define RG_HOLD(what)                                                          \
    do {                                                                       \
        if (!(what) && !wrong)                                                 \
            wrong = #what;                                                     \
    } while (0)

#endif
