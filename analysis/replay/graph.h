/*
 * The graph that is replayed, made of the whole one: what the replay needs and
 * no more.
 *
 *  - Nodes that no cross arc enters or leaves are merged with what follows in
 *    their chain: the work between two others is one arc. Processor sharing
 *    does not see the difference, so every answer stays what it was.
 *  - Time in a chain arc that took no CPU and no cross arc explains (a timed
 *    wait that ran out, a wait for what nobody traced) is put behind the arc's
 *    work, as an IDLE cross arc from a node of its own:
 *
 *        i-1 --w--> i   with idle o:   i-1 --w--> a --0, IDLE o--> i
 *
 *    or, where i has a cross arc already, a node more before i.
 *
 *  - An arc may be cut after some of its work, where a thread is to move.
 *
 * Works for any scenario: all cross arcs are kept. Pure. Source: ALGORITHMS 5.
 */
#ifndef IPS_ANALYSIS_REPLAY_GRAPH_H
#define IPS_ANALYSIS_REPLAY_GRAPH_H

#include "analysis/graph/graph.h"

struct ips_replay_graph {
    struct ips_graph g; /* w, kind, xpred, xkind, xlen, chains; t_ns of the
                           node that it stands for; other columns 0 */
    uint32_t *of;       /* [g.node_count] node of the whole graph: the arc into
                           k is those into of[k-1]+1 .. of[k]; equal: none */
    uint32_t *to;       /* [whole node_count] the node that stands for it, or
                           IPS_NO_NODE where it was merged */
    uint8_t *made;      /* [g.node_count] its cross arc is an idle of ours */
};

/* The arc into `node`, which is no chain's first, is cut after w ns of it. */
struct ips_replay_cut {
    uint32_t node;
    uint64_t w;
    uint32_t at; /* out: node of replay.g that the second part leads to; the
                    one before it, of its own, has the first */
};

/* `idle` [node_count] ns in the arc into each node, or NULL: none; cuts sorted
 * by node and w. O(nodes). Chains stay as they are, in number and order. */
int ips_replay_graph_make(const struct ips_graph *whole, const uint64_t *idle,
                          struct ips_replay_cut *cut, size_t cuts,
                          struct ips_replay_graph *out,
                          struct ips_err *err) IPS_MUST_USE;
/* Where chain `c` of a graph with times (`at`, `wait`) is at local raw time t.
 * A thread computes evenly between two nodes, as far as anybody knows. False:
 * it has ended. A first node: it has not begun. O(log nodes). */
bool ips_replay_cut_at(const struct ips_graph *g, const struct ips_chain *c,
                       uint64_t t, struct ips_replay_cut *cut);
void ips_replay_graph_release(struct ips_replay_graph *r);

#endif
