/*
 * TAIL(v): the longest way from a node to an END, EST run backwards. With it
 * every arc has a slack, the time by which it could grow, alone, before the
 * longest path grew:
 *
 *   slack(u -> v) = t_max - EST(u) - w - TAIL(v) >= 0
 *
 * 0 exactly on longest paths. EST + TAIL <= t_max, equal exactly on critical
 * nodes. Integers throughout; O(nodes), no recursion, 8 bytes a node.
 * Source: ALGORITHMS 4, IPS-12.
 */
#ifndef IPS_ANALYSIS_WHATIF_TAIL_H
#define IPS_ANALYSIS_WHATIF_TAIL_H

#include "analysis/graph/path.h"
#include "analysis/whatif/order.h"

#define IPS_NO_TAIL UINT64_MAX  /* no END can be reached from it */
#define IPS_NO_SLACK UINT64_MAX /* no such arc, or it leads to no END */

/* tail[] has g->node_count values, malloc'd, for free(). `order` was made of
 * this graph and scenario; ips_longest_path() found its times in range. */
int ips_tail(const struct ips_graph *g, const struct ips_scenario *scenario,
             const struct ips_order *order, uint64_t **tail,
             struct ips_err *err) IPS_MUST_USE;

/* Of the arc from a node's chain predecessor, and of its cross arc. */
uint64_t ips_slack_chain(const struct ips_graph *g, const struct ips_est *e,
                         const uint64_t *tail, uint32_t node, bool first);
uint64_t ips_slack_cross(const struct ips_graph *g,
                         const struct ips_scenario *scenario,
                         const struct ips_est *e, const uint64_t *tail,
                         uint32_t node);

#endif
