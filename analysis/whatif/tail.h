/*
 * TAIL(v) is the length of the longest path from node v to an END: EST computed
 * backwards. From it follows the slack of every arc, the time by which this arc
 * alone may grow before the longest path grows: slack(u -> v) = t_max - EST(u)
 * - w - TAIL(v) >= 0.
 *
 * The slack is 0 exactly on longest paths. EST + TAIL <= t_max, with equality
 * exactly at critical nodes. Integers throughout; O(nodes), no recursion, 8
 * bytes a node.
 * Source: ALGORITHMS 4, IPS-12.
 */
#ifndef IPS_ANALYSIS_WHATIF_TAIL_H
#define IPS_ANALYSIS_WHATIF_TAIL_H

#include "analysis/graph/path.h"
#include "analysis/whatif/order.h"

#define IPS_NO_TAIL UINT64_MAX /* no END can be reached from this node */
/* the arc does not exist, or leads to no END */
#define IPS_NO_SLACK UINT64_MAX

/* Allocates tail[g->node_count]; the caller calls free(). `order` must have
 * been made of this graph and scenario, and ips_longest_path_compute_ests()
 * must have found all times in range. */
int ips_compute_tails(const struct ips_graph *g,
                      const struct ips_scenario *scenario,
                      const struct ips_computation_order *order,
                      uint64_t **tail, struct ips_err *err) IPS_MUST_USE;

/* Returns the slack of the arc from a node's chain predecessor, or IPS_NO_SLACK
 * if the node is its chain's first (`first`). ips_slack_of_cross_arc() returns
 * the slack of the node's cross arc. */
uint64_t ips_slack_of_chain_arc(const struct ips_graph *g,
                                const struct ips_est *e, const uint64_t *tail,
                                uint32_t node, bool first);
uint64_t ips_slack_of_cross_arc(const struct ips_graph *g,
                                const struct ips_scenario *scenario,
                                const struct ips_est *e, const uint64_t *tail,
                                uint32_t node);

#endif
