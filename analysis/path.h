/*
 * Longest path of a graph without remote references left open (ALGORITHMS 2):
 * EST(v) = max(EST(pred) + w, EST(xpred) + xw); run each chain until it needs a
 * value that is not there, then switch. No recursion, no topological sort.
 *
 * Ties: the chain arc wins; among equal ENDs the lowest (machine, process,
 * thread, index), which is the lowest node index where chains are sorted so.
 * Source: DPM-5, IPS-11.
 */
#ifndef IPS_ANALYSIS_PATH_H
#define IPS_ANALYSIS_PATH_H

#include "analysis/graph.h"

struct ips_est {
    uint64_t *est;    /* [node_count] ns */
    uint8_t *crossed; /* [node_count] 1 where the cross arc won */
    uint64_t t_max;   /* greatest EST of an END */
    uint32_t end;     /* that END, IPS_NO_NODE in an empty graph */
    uint64_t total;   /* T: sum of all chain arcs */
};
void ips_est_release(struct ips_est *e);

/* `in_value` [g->in_count] gives the weight-included value that each remote
 * reference delivers (EST of the sender + xw), or is NULL where g->in_count is
 * 0. Nodes that can never be reached: IPS_E_STALLED, message names up to ten
 * awaited nodes. O(nodes). */
int ips_longest_path(const struct ips_graph *g, const struct ips_lane *lane,
                     const uint64_t *in_value, struct ips_est *out,
                     struct ips_err *err) IPS_MUST_USE;

/* The same answer by label correcting with a deque (Pape, d'Esopo, Moore), as
 * the paper's central algorithm. Slower; for `central` and for tests. */
int ips_longest_path_pdm(const struct ips_graph *g, const struct ips_lane *lane,
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

/* Walks back from `from_end` along the winning arcs; stops at a START, or, in
 * a slave's subgraph, at a node whose remote arc won (its index in *stop,
 * else IPS_NO_NODE). */
int ips_path_walk(const struct ips_graph *g, const struct ips_lane *lane,
                  const struct ips_est *e, uint32_t from_end,
                  struct ips_path *out, uint32_t *stop, struct ips_err *err)
    IPS_MUST_USE;

#endif
