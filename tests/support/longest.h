/* The longest path's length, for unit tests that ask for no more. */
#ifndef IPS_TESTS_LONGEST_H
#define IPS_TESTS_LONGEST_H

#include "analysis/graph/path.h"

/* Messages take no time, and the outside what it took. */
static const struct ips_scenario plain = {.message_time = {0, 0, 1, 1},
                                          .external = IPS_EXTERNAL_REPLY,
                                          .order_dependent_off = false};

static inline uint64_t t_max_of(const struct ips_graph *g,
                                const struct ips_scenario *lane)
{
    struct ips_est e;
    struct ips_err err;
    if (ips_longest_path_compute_ests(g, lane, NULL, &e, &err) < 0)
        fail_msg("%s", err.msg);
    uint64_t t_max = e.t_max;
    ips_est_release(&e);
    return t_max;
}

#endif
