/*
 * Contraction: a slave's subgraph reduced in series to the nodes that matter
 * to others, with summed weights - its local partial longest paths. The
 * master merges the reduced graphs, resolves the remote references, runs
 * ips_longest_path() on the whole, and expands what lies on the path.
 *
 * Kept: remote in and out nodes, ENDs that depend on a remote arc, the best of
 * the other ENDs, and both ends of every local cross arc whose outcome depends
 * on a remote arc. What depends on nothing remote is computed here and folded:
 * such a kept node is a chain of its own whose `w` is its EST; the rest of its
 * chain is one chain whose first node's `w` is the value the folded part
 * brings. So a reduced chain need not begin with START or end with END, a path
 * that comes to a reduced chain's first node along its `w` goes on in the
 * slave (ips_path_between from IPS_NO_NODE), and several reduced chains may
 * be one chain of the full graph (same process and thread), in its order. The
 * reduced graph is else an ordinary ips_graph whose `in`/`out` lists are the
 * old ones, renumbered; `origin` maps back.
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

/* `full` must have passed ips_graph_check(); a cycle in it shows in the merged
 * graph as IPS_E_STALLED. O(nodes). */
int ips_contract(const struct ips_graph *full, const struct ips_lane *lane,
                 struct ips_reduced *out, struct ips_err *err) IPS_MUST_USE;

/* So many nodes has the reduced graph of `g` at most, in whatever lane: those
 * at the ends of arcs, local or remote, and every chain's last. O(nodes). */
int ips_contract_most(const struct ips_graph *g, uint64_t *most,
                      struct ips_err *err) IPS_MUST_USE;

/* Merges subgraphs (full or reduced), machines in order of `parts`, into one
 * graph without remote references; chains[].machine becomes the part, the
 * process index stays the part's own. An in of position SYN or EOF takes the
 * out of just that position; one of data byte `pos` the first out with
 * out.pos >= pos that wrote it (out.pos - out.len < pos); the arc's xlen is
 * out.len (in `wall` its weight: the parts must be views of `lane` that
 * share one origin), its xkind the in's. `peer[p][end]` names, for end `end` of
 * part p, the part and end on the other machine (part UINT32_MAX: none). A
 * remote in whose position nobody wrote stays without a cross arc and is
 * counted in *unmatched. node_base[p] is where part p's nodes begin. */
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
                    const struct ips_lane *lane, struct ips_graph *out,
                    uint32_t *node_base, uint64_t *unmatched,
                    struct ips_err *err) IPS_MUST_USE;

/* The out of `g` that wrote position `pos` on end `end` (the rules are
 * ips_graph_merge's), or NULL. O(log). */
const struct ips_remote_out *ips_graph_find_out(const struct ips_graph *g,
                                                uint32_t end, uint64_t pos);

#endif
