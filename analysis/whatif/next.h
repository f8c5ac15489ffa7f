/*
 * Finds the k longest paths of a graph. The search is best first and backwards:
 * the priority of a partial path is EST of its first node + the length of what
 * follows. Since EST is the exact length of the rest, paths are found in exact
 * order of length, and no other paths are walked.
 *
 * Paths close to the longest one often differ from it trivially (one of a
 * thousand round trips goes another way). So paths are grouped, and only the
 * longest path of every group is returned, in order of length:
 *  - PATHS: every path is its own group.
 *  - SEQUENCE: by the sequence of labels along the path.
 *  - SET: by the set of labels on the path, however often and in whatever
 *    order: all loops through the same processes are one group.
 *
 * The label of a node is the procedure of the arc into it (IPS_NO_LABEL: none),
 * or without node labels the process of its chain. Two partial paths from the
 * same node with the same labels after it have the same continuations, so the
 * shorter one is dropped at once. The cost of a group does not depend on the
 * number of its paths.
 *
 * Paths start at nodes without an in-arc and end at ENDs. Paths of equal length
 * come in a fixed order.
 *
 * Memory: with PATHS 64 bytes for each path wanted; else about 60 bytes for
 * each pair (node with two in-arcs, group) met. The limit is `limit_bytes`. If
 * the search needs more, it stops: the paths found so far are exact, and
 * *complete is false. Source: ALGORITHMS 4; priority search after Hart,
 * Nilsson, Raphael 1968.
 */
#ifndef IPS_ANALYSIS_WHATIF_NEXT_H
#define IPS_ANALYSIS_WHATIF_NEXT_H

#include "analysis/graph/path.h"

enum ips_next_group { IPS_NEXT_PATHS, IPS_NEXT_SEQUENCE, IPS_NEXT_SET };

#define IPS_NO_LABEL UINT32_MAX

struct ips_next_ask {
    enum ips_next_group group;
    uint32_t k;                  /* greatest number of paths, 1 or more */
    const uint32_t *chain_label; /* [chain_count] label of each chain */
    const uint32_t *node_label;  /* [node_count] label of each node, or NULL:
                                    use the chain's */
    uint64_t limit_bytes;        /* greatest memory; 0 means
                                    IPS_NEXT_LIMIT_BYTES */
};
#define IPS_NEXT_LIMIT_BYTES (128ULL << 20)

struct ips_next_path {
    uint64_t ns;
    uint32_t end; /* the END of the path */
    /* [label_count] labels from the start of the path to its end; with SET in
     * ascending order */
    uint32_t *label;
    uint32_t label_count;
    struct ips_path path; /* the longest path of the group */
};
struct ips_next_paths {
    struct ips_next_path *path; /* longest first */
    uint32_t count;
    bool complete; /* false: the memory limit was reached; there may be more
                      paths */
};
void ips_next_paths_release(struct ips_next_paths *n);

/* Finds the longest paths. `e` is the result of ips_longest_path_compute_ests()
 * for this graph, which must have no remote references, and this scenario. */
int ips_find_longest_paths(const struct ips_graph *g,
                           const struct ips_scenario *scenario,
                           const struct ips_est *e,
                           const struct ips_next_ask *ask,
                           struct ips_next_paths *out,
                           struct ips_err *err) IPS_MUST_USE;

#endif
