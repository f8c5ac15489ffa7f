/*
 * Joins the graphs of several machines: finds the node that sent what a node on
 * another machine awaited, and merges the graphs for questions that need all
 * nodes in one place. The path alone needs less than the merged graph:
 * analysis/distributed/joins.h.
 * Source: IPS-11, ALGORITHMS 3.
 */
#ifndef IPS_ANALYSIS_GRAPH_CONTRACT_H
#define IPS_ANALYSIS_GRAPH_CONTRACT_H

#include "analysis/graph/graph.h"

/* Sets *most to the number of nodes of `g` that are at an end of a cross arc,
 * local or remote, or last in their chain. In every scenario this number is an
 * upper bound of the arcs and values of `g` that can matter to other machines,
 * and so of the size of the output of ips_joins_compute_and_encode(). O(nodes).
 */
int ips_joins_compute_node_bound(const struct ips_graph *g, uint64_t *most,
                                 struct ips_err *err) IPS_MUST_USE;

/* The machine and channel end to which a channel end is connected; machine
 * UINT32_MAX: none. */
struct ips_peer_end {
    uint32_t machine;
    uint32_t end;
};
struct ips_machine_graph {
    const struct ips_graph *g;
    const struct ips_peer_end *peer; /* [end_count] the end to which each local
                                        channel end is connected */
    uint32_t end_count;
};
/* Merges subgraphs, machines in order of `parts`, into one graph without remote
 * references. chains[].machine becomes the index in `parts`; process indices
 * are not changed.
 *
 * A remote receive that awaits position SYN or EOF is matched with the remote
 * send of exactly that position. A receive that awaits data byte `pos` is
 * matched with the first send that wrote this byte (out.pos >= pos and out.pos
 * - out.len < pos). The arc's xlen is the length of the send, its xkind that of
 * the receive. In `wall` xlen is the arc's weight; the parts must then be views
 * of `scenario` that share one origin. If no node wrote the position that a
 * node awaits, the node gets no cross arc and is counted in *unmatched.
 *
 * `parts[p].peer[end]` is the machine and end to which end `end` of part p is
 * connected (machine UINT32_MAX: none). node_base[p] is set to the number that
 * the first node of part p has in `out`. */
int ips_graph_merge(const struct ips_machine_graph *parts, uint32_t part_count,
                    const struct ips_scenario *scenario, struct ips_graph *out,
                    uint32_t *node_base, uint64_t *unmatched,
                    struct ips_err *err) IPS_MUST_USE;

/* Returns the remote send of `g` that wrote position `pos` on end `end`, by the
 * rules of ips_graph_merge(), or NULL. O(log sends). */
const struct ips_remote_out *
ips_graph_find_send_of_position(const struct ips_graph *g, uint32_t end,
                                uint64_t pos);

#endif
