/*
 * Graphs of several machines as one: who sent what another machine awaited, and
 * the merged graph, for questions that need all nodes in one place. The path
 * alone needs less: analysis/distributed/joins.h.
 * Source: IPS-11, ALGORITHMS 3.
 */
#ifndef IPS_ANALYSIS_GRAPH_CONTRACT_H
#define IPS_ANALYSIS_GRAPH_CONTRACT_H

#include "analysis/graph/graph.h"

/* So many arcs and values that others await has `g` at most, in whatever
 * scenario: nodes at the ends of arcs, local or remote, and every chain's last.
 * What ips_joins_make() tells of them is less; it goes with this. O(nodes). */
int ips_contract_most(const struct ips_graph *g, uint64_t *most,
                      struct ips_err *err) IPS_MUST_USE;

/* Merges subgraphs, machines in order of `parts`, into one
 * graph without remote references; chains[].machine becomes the part, the
 * process index stays the part's own. An in of position SYN or EOF takes the
 * out of just that position; one of data byte `pos` the first out with
 * out.pos >= pos that wrote it (out.pos - out.len < pos); the arc's xlen is
 * out.len (in `wall` its weight: the parts must be views of `scenario` that
 * share one origin), its xkind the in's. `peer[p][end]` names, for end `end` of
 * part p, the part and end on the other machine (part UINT32_MAX: none). A
 * remote in whose position nobody wrote stays without a cross arc and is
 * counted in *unmatched. node_base[p] is where part p's nodes begin. */
struct ips_peer_end {
    uint32_t machine;
    uint32_t end;
};
struct ips_machine_graph {
    const struct ips_graph *g;
    const struct ips_peer_end *peer; /* [end_count] */
    uint32_t end_count;
};
int ips_graph_merge(const struct ips_machine_graph *parts, uint32_t part_count,
                    const struct ips_scenario *scenario, struct ips_graph *out,
                    uint32_t *node_base, uint64_t *unmatched,
                    struct ips_err *err) IPS_MUST_USE;

/* The out of `g` that wrote position `pos` on end `end` (the rules are
 * ips_graph_merge's), or NULL. O(log). */
const struct ips_remote_out *ips_graph_find_out(const struct ips_graph *g,
                                                uint32_t end, uint64_t pos);

#endif
