/*
 * An order in which all nodes of a graph can be computed, kept so that many
 * passes over the same graph need not look for one again: forwards for the
 * scenarios of a what-if, backwards for tails. It is a list of runs, pieces of
 * one chain whose cross predecessors are all computed before.
 *
 * A forward pass needs the value of a node only until the last cross arc that
 * leaves it is taken. `slot` says where it may be kept until then: places are
 * used again, so a pass needs slot_count values, not node_count.
 *
 * Made once, O(nodes); 4 bytes a node are kept, 8 more while it is made, 12 a
 * run. Source: ALGORITHMS 2, 4.
 */
#ifndef IPS_ANALYSIS_WHATIF_ORDER_H
#define IPS_ANALYSIS_WHATIF_ORDER_H

#include "analysis/graph/graph.h"

struct ips_run {
    uint32_t chain;
    uint32_t first; /* node */
    uint32_t count; /* at least 1 */
};
struct ips_order {
    struct ips_run *run; /* of one chain in its order */
    uint64_t run_count;
    uint32_t *slot; /* [node_count] IPS_NO_NODE: no cross arc leaves it */
    uint32_t slot_count;
};
void ips_order_release(struct ips_order *o);

/* Of a checked graph without remote references, with the cross arcs that are
 * present in `scenario`. A cycle: IPS_E_STALLED. */
int ips_order_make(const struct ips_graph *g,
                   const struct ips_scenario *scenario, struct ips_order *out,
                   struct ips_err *err) IPS_MUST_USE;

#endif
