/*
 * Private to analysis. Prepares the weights of a scenario's cross arcs once, so
 * that the inner loops do no work that the scenario does not need. Also
 * declares the longest-path computation (path.c) without the values of other
 * machines, for ips_joins_compute_and_encode().
 */
#ifndef IPS_ANALYSIS_GRAPH_KERNEL_H
#define IPS_ANALYSIS_GRAPH_KERNEL_H

#include "analysis/graph/graph.h"
#include "analysis/graph/path.h"

/* Times of this value or more are refused. So the sum of two times never wraps,
 * and the top bit of an EST is free to mean "not known yet". */
#define IPS_TIME_LIMIT (1ULL << 62)

enum ips_arc_mode { IPS_ARC_ABSENT, IPS_ARC_ZERO, IPS_ARC_XLEN, IPS_ARC_MTIME };

struct ips_cross_arc_weighting {
    /* for each kind of cross arc (enum ips_xkind): how the arc gets its weight
     * (enum ips_arc_mode) */
    uint8_t mode[IPS_X_LAST + 1];
    struct ips_message_time message_time;
};

void ips_cross_arc_weighting_init(struct ips_cross_arc_weighting *a,
                                  const struct ips_scenario *scenario);

/* Returns the weight of node i's cross arc, at most IPS_TIME_LIMIT, so that EST
 * + weight never wraps. */
static inline uint64_t
ips_cross_arc_weight_by_mode(const struct ips_cross_arc_weighting *a,
                             uint8_t mode, const uint64_t *xlen, uint32_t i)
{
    if (mode == IPS_ARC_ZERO)
        return 0;
    uint64_t ns =
        mode == IPS_ARC_XLEN
            ? xlen[i]
            : ips_message_time_compute_message_ns(&a->message_time, xlen[i]);
    return ips_min_u64(ns, IPS_TIME_LIMIT);
}

/* Whether node i has a cross arc from a node of this machine that counts in
 * this scenario. */
static inline bool
ips_has_local_cross_arc(const struct ips_graph *g,
                        const struct ips_cross_arc_weighting *a, uint32_t i)
{
    return g->xpred[i] != IPS_NO_NODE && a->mode[g->xkind[i]] != IPS_ARC_ABSENT;
}

int ips_est_alloc(struct ips_est *e, uint32_t nodes,
                  struct ips_err *err) IPS_MUST_USE;

/* Computes the EST of every chain's nodes as far as they do not depend on other
 * machines. Sets reached[c] to the first node of chain c that depends on a
 * remote receive (or on a cycle), or to one past the chain's last node. `e` has
 * the EST of all nodes before reached[c]; total, t_max and end are not set. */
int ips_compute_ests_until_remote_receives(const struct ips_graph *g,
                                           const struct ips_scenario *scenario,
                                           struct ips_est *e, uint32_t *reached,
                                           struct ips_err *err) IPS_MUST_USE;

/* Returns T, the sum of all chain arcs. A chain's first node has no chain
 * arc. */
uint64_t ips_graph_sum_chain_arcs(const struct ips_graph *g);

/* Whether a path may end at this node: an END and, in a scenario with a goal,
 * only the goal. */
static inline bool ips_may_end_path(const struct ips_graph *g,
                                    const struct ips_scenario *scenario,
                                    uint32_t node)
{
    return g->kind[node] == IPS_NODE_END &&
           (!scenario->has_goal || node == scenario->goal);
}

/* If the last node of chain c is an END, compares its EST with t_max and makes
 * it the end of the path if its EST is greater. Of several ENDs with equal EST
 * the first one stays. */
static inline void
ips_est_update_path_end_from_chain(struct ips_est *e, const struct ips_graph *g,
                                   const struct ips_scenario *scenario,
                                   uint32_t c)
{
    uint32_t last = g->chains[c].first + g->chains[c].count - 1;
    if (!ips_may_end_path(g, scenario, last))
        return;
    if (e->end == IPS_NO_NODE || e->est[last] > e->t_max) {
        e->end = last;
        e->t_max = e->est[last];
    }
}

#endif
