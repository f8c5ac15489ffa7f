/*
 * Contraction: a slave's subgraph reduced in series to the nodes that matter
 * to others, with summed weights - its local partial longest paths. The
 * master merges the reduced graphs, resolves the remote references, runs
 * ips_longest_path() on the whole, and expands what lies on the path.
 *
 * Kept: START and END of chains that depend on a remote arc, remote in and out
 * nodes, and both ends of every local cross arc whose outcome depends on a
 * remote arc. What depends on nothing remote is computed here and folded: the
 * chain's first kept node then carries the value (and the local winner stays
 * known here, for expansion). The reduced graph is an ordinary ips_graph whose
 * `in`/`out` lists are the old ones, renumbered; `origin` maps back.
 *
 * Equal to the unreduced graph bit for bit, ties included (property 3).
 * Source: IPS-6, IPS-11, ALGORITHMS 3 `contract`.
 */
#ifndef IPS_ANALYSIS_CONTRACT_H
#define IPS_ANALYSIS_CONTRACT_H

#include "analysis/graph.h"

struct ips_reduced {
    struct ips_graph g;
    uint32_t *origin; /* [g.node_count] node of the full graph */
    uint64_t total;   /* T of the full graph */
};
void ips_reduced_release(struct ips_reduced *r);

int ips_contract(const struct ips_graph *full, const struct ips_lane *lane,
                 struct ips_reduced *out, struct ips_err *err) IPS_MUST_USE;

/* Merges subgraphs (full or reduced), machines in order of `parts`, into one
 * graph without remote references. `peer[p][end]` names, for end `end` of part
 * p, the part and end on the other machine (part UINT32_MAX: none). A remote
 * in whose position nobody wrote stays without a cross arc and is counted in
 * *unmatched. node_base[p] is where part p's nodes begin. */
struct ips_peer_end {
    uint32_t part;
    uint32_t end;
};
struct ips_part {
    const struct ips_graph *g;
    const struct ips_peer_end *peer; /* [end_count] */
    uint32_t end_count;
};
int ips_graph_merge(const struct ips_part *parts, uint32_t part_count,
                    struct ips_graph *out, uint32_t *node_base,
                    uint64_t *unmatched, struct ips_err *err) IPS_MUST_USE;

#endif
