/*
 * Longest path of a graph without remote references left open (ALGORITHMS 2):
 * EST(v) = max(EST(pred) + w, EST(xpred) + xw); run each chain until it needs a
 * value that is not there, then switch. No recursion, no topological sort.
 *
 * Ties: the chain arc wins; among equal ENDs the lowest (machine, process,
 * thread, index), which is the lowest node index where chains are sorted so.
 * Times must stay below 2^62 ns: what adds up to more is IPS_E_LIMIT, so no
 * sum here ever wraps. The graph must have passed ips_graph_check().
 * Source: DPM-5, IPS-11.
 */
#ifndef IPS_ANALYSIS_GRAPH_PATH_H
#define IPS_ANALYSIS_GRAPH_PATH_H

#include "analysis/graph/graph.h"

struct ips_est {
    uint64_t *est;    /* [node_count] ns */
    uint8_t *crossed; /* [node_count] 1 where the cross arc won */
    uint64_t t_max;   /* greatest EST of an END */
    uint32_t end;     /* that END, IPS_NO_NODE in an empty graph */
    uint64_t total;   /* T: sum of all chain arcs (first nodes have none) */
};
void ips_est_release(struct ips_est *e);

/* In `in_value`: nobody wrote that position, the node has no cross arc. */
#define IPS_IN_ABSENT UINT64_MAX

/* `in_value` [g->in_count] gives the weight-included value that each remote
 * reference delivers (EST of the sender + xw) or IPS_IN_ABSENT, or is NULL
 * where g->in_count is 0. Nodes that can never be reached: IPS_E_STALLED,
 * message names up to ten awaited nodes. O(nodes). */
int ips_longest_path(const struct ips_graph *g,
                     const struct ips_scenario *scenario,
                     const uint64_t *in_value, struct ips_est *out,
                     struct ips_err *err) IPS_MUST_USE;

/* The same answer by label correcting with a deque (Pape, d'Esopo, Moore), as
 * the paper's central algorithm; of graphs without remote references. Slower;
 * for `central` and for tests. A cycle is IPS_E_STALLED. Its worst case grows
 * exponentially: after IPS_PDM_MAX_SCANS scans a node on average (a million on
 * top) it gives up with IPS_E_LIMIT, which says nothing about the graph. Random
 * programs take 1 to 5. */
#define IPS_PDM_MAX_SCANS 64
int ips_longest_path_pdm(const struct ips_graph *g,
                         const struct ips_scenario *scenario,
                         struct ips_est *out, struct ips_err *err) IPS_MUST_USE;

enum ips_segment_kind {
    IPS_SEG_COMPUTE = 0,
    IPS_SEG_MESSAGE,  /* DATA, LIFETIME, ROOM arcs */
    IPS_SEG_EXTERNAL, /* EXTERNAL, IDLE arcs */
};
/* A piece of the path: successive chain arcs of one chain are one piece. */
struct ips_path_segment {
    enum ips_segment_kind kind;
    uint8_t xkind;
    uint32_t chain; /* chain of `to` */
    uint32_t from;  /* node */
    uint32_t to;
    uint64_t ns;
};
struct ips_path {
    struct ips_path_segment *seg; /* from a START to the END */
    uint64_t count;
};
void ips_path_release(struct ips_path *p);

/* Appends a segment; a COMPUTE that goes on where the last one, of the same
 * chain, ended is joined to it. For putting expanded pieces together. */
int ips_path_push(struct ips_path *p, const struct ips_path_segment *seg,
                  struct ips_err *err) IPS_MUST_USE;

/* Walks back from `from_end` along the winning arcs; stops at a START, or, in
 * a slave's subgraph, at a node whose remote arc won (its index in *stop,
 * else IPS_NO_NODE). In a reduced graph a path that begins at a node with a
 * folded value (one that is no START, or has w > 0) gets a first segment from
 * IPS_NO_NODE: to be expanded by the slave with ips_path_between(). */
int ips_path_walk(const struct ips_graph *g,
                  const struct ips_scenario *scenario, const struct ips_est *e,
                  uint32_t from_end, struct ips_path *out, uint32_t *stop,
                  struct ips_err *err) IPS_MUST_USE;

/* Takes the next piece of a path; an error ends the walk. */
typedef int ips_path_seen(void *arg, const struct ips_path_segment *seg,
                          struct ips_err *err);
/* Shows the pieces of ips_path_between(), the last one first. O(nodes of it),
 * without memory. */
int ips_path_each(const struct ips_graph *g, const struct ips_est *e,
                  uint32_t from, uint32_t to, ips_path_seen *seen, void *arg,
                  struct ips_err *err) IPS_MUST_USE;

/* The winning path between two nodes of a full graph: back from `to` until
 * `from`, or until a START where `from` is IPS_NO_NODE. IPS_E_NOT_FOUND where
 * `from` is not on it, or a remote arc won before. */
int ips_path_between(const struct ips_graph *g,
                     const struct ips_scenario *scenario,
                     const struct ips_est *e, uint32_t from, uint32_t to,
                     struct ips_path *out, struct ips_err *err) IPS_MUST_USE;

#endif
