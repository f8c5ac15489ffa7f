/*
 * Reduces the graph of a run to the graph that is replayed.
 *  - Nodes without cross arcs are merged with the next node of their chain, so
 *    the work between two remaining nodes is one arc. Processor sharing does
 *    not see the difference, so every answer stays the same.
 *  - Time in a chain arc that took no CPU and that no cross arc explains (a
 *    timed wait that expired, a wait for something not recorded) becomes an
 *    IDLE cross arc after the arc's work w, from an added node a to node i:
 *    i-1 --w--> a --0, IDLE--> i. If i has a cross arc already, one more node
 *    is added before i.
 *  - A chain arc may be cut in two, where a thread is to move to another
 *    machine.
 *
 * The reduced graph is valid for any scenario, since all cross arcs are kept.
 * Pure. Source: ALGORITHMS 5.
 */
#ifndef IPS_ANALYSIS_REPLAY_GRAPH_H
#define IPS_ANALYSIS_REPLAY_GRAPH_H

#include "analysis/graph/graph.h"

struct ips_replay_graph {
    struct ips_graph g; /* has w, kind, xpred, xkind, xlen, chains, and t_ns of
                           the whole graph's nodes; other columns are 0 */
    /* [g.node_count] node of the whole graph that node k stands for. The arc
     * into k consists of the whole graph's arcs into of[k-1]+1 .. of[k]; of
     * none if of[k-1] equals of[k] */
    uint32_t *of;
    uint32_t
        *to; /* [node count of the whole graph] node of `g` that corresponds to
                each node, or IPS_NO_NODE if the node was merged */
    /* [g.node_count] 1: the node's cross arc is an added IDLE arc */
    uint8_t *made;
};

/* Cuts the arc into `node` (not the first of its chain) after w ns of work. */
struct ips_replay_cut {
    uint32_t node;
    uint64_t w;
    /* result: node of ips_replay_graph.g at the end of the part after the cut;
     * the node before it ends the part before the cut */
    uint32_t at;
};

/* Makes the reduced graph. `idle` [node_count]: ns of the chain arc into each
 * node that become an IDLE arc, or NULL. Cuts must be sorted by node and w.
 * Keeps the number and order of chains. O(nodes). */
int ips_replay_graph_make_reduced(const struct ips_graph *whole,
                                  const uint64_t *idle,
                                  struct ips_replay_cut *cut, size_t cuts,
                                  struct ips_replay_graph *out,
                                  struct ips_err *err) IPS_MUST_USE;
/* Sets *cut to the place where chain `c` of a graph with times (`at`, `wait`)
 * is at local raw time t, assuming that work is spread evenly between two
 * nodes. If the chain has not begun, cut->node is its first node. Returns false
 * if the chain has ended. O(log nodes). */
bool ips_replay_find_cut_of_chain_at_time(const struct ips_graph *g,
                                          const struct ips_chain *c, uint64_t t,
                                          struct ips_replay_cut *cut);
void ips_replay_graph_release(struct ips_replay_graph *r);

#endif
