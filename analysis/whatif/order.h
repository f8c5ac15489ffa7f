/*
 * Finds an order in which all nodes of a graph can be computed, and stores it
 * for many passes over the same graph: forwards for the scenarios of a what-if,
 * backwards for tails. The order is a list of runs. Each run is a piece of one
 * chain whose cross predecessors are all computed before.
 *
 * A forward pass needs the value of a node only until it has used the last
 * cross arc that leaves the node. `slot` says where to store it until then.
 * Slots are reused, so a pass needs slot_count values, not node_count.
 *
 * Made once in O(nodes). Memory: 4 bytes a node and 12 bytes a run; 8 bytes a
 * node more while it is made.
 * Source: ALGORITHMS 2, 4.
 */
#ifndef IPS_ANALYSIS_WHATIF_ORDER_H
#define IPS_ANALYSIS_WHATIF_ORDER_H

#include "analysis/graph/graph.h"

struct ips_chain_run {
    uint32_t chain;
    uint32_t first; /* first node */
    uint32_t count; /* number of nodes, at least 1 */
};
struct ips_computation_order {
    struct ips_chain_run *run; /* runs of one chain are in the chain's order */
    uint64_t run_count;
    uint32_t *slot; /* [node_count] slot of the node's value; IPS_NO_NODE: no
                       cross arc leaves the node */
    uint32_t slot_count;
};
void ips_computation_order_release(struct ips_computation_order *o);

/* Makes the order of a checked graph without remote references, for the cross
 * arcs that are present in `scenario`. IPS_E_STALLED: the graph has a cycle. */
int ips_computation_order_make(const struct ips_graph *g,
                               const struct ips_scenario *scenario,
                               struct ips_computation_order *out,
                               struct ips_err *err) IPS_MUST_USE;

#endif
