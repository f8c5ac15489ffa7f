/*
 * Computes the longest path of a graph whose remote references are all resolved
 * (ALGORITHMS 2): EST(v) = max(EST(pred) + w, EST(xpred) + xw). Each chain runs
 * until it needs a value that is not computed yet; then another chain runs. No
 * recursion, no topological sort.
 *
 * Ties: the chain arc wins; among equal ENDs the lowest (machine, process,
 * thread, index) wins, which is the lowest node index if the chains are sorted
 * so. Times must stay below 2^62 ns: a larger sum returns IPS_E_LIMIT, so no
 * sum ever wraps. The graph must have passed ips_graph_check_invariants().
 * Source: DPM-5, IPS-11.
 */
#ifndef IPS_ANALYSIS_GRAPH_PATH_H
#define IPS_ANALYSIS_GRAPH_PATH_H

#include "analysis/graph/graph.h"

struct ips_est {
    uint64_t *est;    /* [node_count] earliest time of each node, ns */
    uint8_t *crossed; /* [node_count] 1: the cross arc determined the node's
                         EST */
    /* greatest EST of an END; with a goal, the EST of the goal */
    uint64_t t_max;
    uint32_t end;   /* the END with EST t_max; IPS_NO_NODE in an empty
                       graph */
    uint64_t total; /* T: sum of all chain arcs (first nodes have none) */
};
void ips_est_release(struct ips_est *e);

/* Entry of `in_value` for a remote reference whose awaited channel position no
 * node wrote: the receiving node then has no cross arc. */
#define IPS_IN_ABSENT UINT64_MAX

/* `in_value` [g->in_count] is the value that each remote reference delivers,
 * the arc's weight included (EST of the sender + xw), or IPS_IN_ABSENT; NULL if
 * g->in_count is 0. IPS_E_STALLED if some nodes cannot be reached; the message
 * names up to ten awaited nodes. O(nodes). */
int ips_longest_path_compute_ests(const struct ips_graph *g,
                                  const struct ips_scenario *scenario,
                                  const uint64_t *in_value, struct ips_est *out,
                                  struct ips_err *err) IPS_MUST_USE;

#define IPS_PDM_MAX_SCANS 64
/* Computes the same result as ips_longest_path_compute_ests(), by label
 * correcting with a deque (Pape, d'Esopo, Moore), the paper's central
 * algorithm. Slower; for the engine `central` and for tests. Only for graphs
 * without remote references. A cycle returns IPS_E_STALLED. The worst case is
 * exponential, so the function gives up with IPS_E_LIMIT after
 * IPS_PDM_MAX_SCANS scans a node on average, and a million more, even if the
 * graph is valid. Random programs take 1 to 5 scans a node. */
int ips_longest_path_by_label_correcting(const struct ips_graph *g,
                                         const struct ips_scenario *scenario,
                                         struct ips_est *out,
                                         struct ips_err *err) IPS_MUST_USE;

enum ips_segment_kind {
    IPS_SEG_COMPUTE = 0,
    IPS_SEG_MESSAGE,  /* DATA, LIFETIME, ROOM, SIGNAL, RESOURCE arcs */
    IPS_SEG_EXTERNAL, /* EXTERNAL, IDLE arcs */
};
/* A segment of the path. Successive chain arcs of one chain form one
 * segment. */
struct ips_path_segment {
    enum ips_segment_kind kind;
    uint8_t xkind;
    uint32_t chain; /* chain of the node `to` */
    uint32_t from;  /* first node of the segment */
    uint32_t to;
    uint64_t ns;
};
struct ips_path {
    struct ips_path_segment
        *seg; /* in order, from the start of the path to its end */
    uint64_t count;
};
void ips_path_release(struct ips_path *p);

/* Appends a segment. Merges a COMPUTE segment with the last segment if it
 * continues that one on the same chain. For assembling a path from sections of
 * several machines. */
int ips_path_append_or_merge_segment(struct ips_path *p,
                                     const struct ips_path_segment *seg,
                                     struct ips_err *err) IPS_MUST_USE;

/* Walks back from `from_end` along the winning arcs (of a node's in-arcs, the
 * one that determined its EST) and stores the path in *out. Stops at a START
 * or, in a slave's subgraph, at a node whose remote arc won: *stop is then that
 * node, else IPS_NO_NODE. In a reduced graph the first node of a chain may
 * stand for a path that leads to it and was left out. Such a node is no START,
 * or has w > 0. The first segment of a path that begins there starts at
 * IPS_NO_NODE; the slave expands that segment with ips_path_find_between(). */
int ips_path_walk_back_and_store(const struct ips_graph *g,
                                 const struct ips_scenario *scenario,
                                 const struct ips_est *e, uint32_t from_end,
                                 struct ips_path *out, uint32_t *stop,
                                 struct ips_err *err) IPS_MUST_USE;

/* Callback that gets the next segment of a path; if it returns an error, the
 * walk ends. */
typedef int ips_path_segment_fn(void *arg, const struct ips_path_segment *seg,
                                struct ips_err *err);
/* Calls `seen` with each segment of ips_path_find_between(), the last segment
 * first. O(nodes on the path), allocates nothing. */
int ips_path_visit_segments_backwards(const struct ips_graph *g,
                                      const struct ips_est *e, uint32_t from,
                                      uint32_t to, ips_path_segment_fn *seen,
                                      void *arg,
                                      struct ips_err *err) IPS_MUST_USE;

/* Finds the winning path between two nodes of a full graph by walking back from
 * `to` until `from`, or until a START if `from` is IPS_NO_NODE. IPS_E_NOT_FOUND
 * if `from` is not on the path or the walk meets a remote arc that won. */
int ips_path_find_between(const struct ips_graph *g,
                          const struct ips_scenario *scenario,
                          const struct ips_est *e, uint32_t from, uint32_t to,
                          struct ips_path *out,
                          struct ips_err *err) IPS_MUST_USE;

#endif
