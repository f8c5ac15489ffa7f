/*
 * Assigns the weights of a graph to features. A feature is the smallest item
 * for which a what-if can be asked: a procedure in a process, a class of
 * messages between two processes, or the rest of a process. Every nanosecond of
 * every arc belongs to at most one feature. So objects (a machine, a procedure
 * in all processes) are sets of features, and their times add up.
 *
 * A chain arc is split into shares (procedures, each with its part of the
 * weight). The part of the weight that no share covers belongs to the feature
 * of the arc's chain. The shares of an arc never add up to more than its
 * weight: ips_features_check().
 */
#ifndef IPS_ANALYSIS_WHATIF_FEATURE_H
#define IPS_ANALYSIS_WHATIF_FEATURE_H

#include "analysis/graph/path.h"

#define IPS_NO_FEATURE UINT32_MAX

struct ips_arc_share {
    uint32_t feature;
    uint64_t ns;
};
struct ips_features {
    uint32_t count;
    const uint32_t *chain; /* [chain_count] feature of the time of the chain's
                              arcs that no share covers, or IPS_NO_FEATURE */
    const uint64_t *first; /* [node_count + 1] index of the first share of each
                              node's chain arc; NULL: there are no shares */
    const struct ips_arc_share *arc_share; /* [first[node_count]] the shares of
                                              all nodes */
    const uint32_t *cross;    /* [node_count] feature of a node's cross arc, or
                                 IPS_NO_FEATURE; NULL: no cross arc has one */
    const uint64_t *cross_ns; /* [node_count] ns of the cross arc that belong to
                                 its feature; NULL: the whole arc */
};

/* Checks that indices are in range and that shares do not exceed their arcs;
 * else IPS_E_CORRUPT. O(nodes). */
int ips_features_check(const struct ips_graph *g, const struct ips_features *f,
                       struct ips_err *err) IPS_MUST_USE;

/* Returns the shares of the chain arc into `node` and sets *count to their
 * number, which may be 0. */
static inline const struct ips_arc_share *
ips_feature_shares_of_chain_arc(const struct ips_features *f, uint32_t node,
                                uint64_t *count)
{
    if (!f->first) {
        *count = 0;
        return NULL;
    }
    *count = f->first[node + 1] - f->first[node];
    return f->arc_share + f->first[node];
}

/* Returns how many ns of the cross arc into `node` belong to the arc's feature.
 * xw: the ns of the whole arc. */
static inline uint64_t ips_feature_ns_of_cross_arc(const struct ips_features *f,
                                                   uint32_t node, uint64_t xw)
{
    return f->cross_ns && f->cross_ns[node] < xw ? f->cross_ns[node] : xw;
}

/* Sets share[f->count] to the time of each feature on the longest path of `e`.
 * Returns the number of RESOURCE arcs on that path. O(nodes of the path). */
uint64_t ips_sum_path_time_by_feature(const struct ips_graph *g,
                                      const struct ips_scenario *scenario,
                                      const struct ips_est *e,
                                      const struct ips_features *f,
                                      uint64_t *share);

#endif
