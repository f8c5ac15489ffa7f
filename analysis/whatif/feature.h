/*
 * What the weights of a graph belong to. A feature is the finest thing that
 * can be asked about: the rest of a process, a procedure in a process, a class
 * of messages between two processes. Every nanosecond of every arc belongs to
 * at most one feature, so objects (a machine, a procedure wherever it ran) are
 * sets of features, and their times add up.
 *
 * A chain arc is cut into portions (procedures, each with its part of the
 * weight); what no portion names belongs to the feature of its chain.
 * Portions of an arc never add up to more than its weight: ips_features_check.
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
    const uint32_t *chain; /* [chain_count] of its arcs' rest, or NO_FEATURE */
    const uint64_t *first; /* [node_count + 1] where a node's portions begin;
                              NULL: there are none */
    const struct ips_arc_share *arc_share; /* [first[node_count]] */
    const uint32_t *cross; /* [node_count] of a node's cross arc, or NO_FEATURE;
                              NULL: of none */
    const uint64_t *cross_ns; /* [node_count] what of that arc is the feature's;
                                 NULL: all */
};

/* IPS_E_CORRUPT where indices or sums are not as above. O(nodes). */
int ips_features_check(const struct ips_graph *g, const struct ips_features *f,
                       struct ips_err *err) IPS_MUST_USE;

/* Portions of the arc into `node`; none: NULL, *count 0. */
static inline const struct ips_arc_share *
ips_arc_shares(const struct ips_features *f, uint32_t node, uint64_t *count)
{
    if (!f->first) {
        *count = 0;
        return NULL;
    }
    *count = f->first[node + 1] - f->first[node];
    return f->arc_share + f->first[node];
}

/* Of a cross arc into `node` that takes xw ns. */
static inline uint64_t ips_cross_part(const struct ips_features *f,
                                      uint32_t node, uint64_t xw)
{
    return f->cross_ns && f->cross_ns[node] < xw ? f->cross_ns[node] : xw;
}

/* share[f->count]: what each feature has of the longest path that `e` found.
 * Returns the cross arcs of kind RESOURCE on it. O(nodes of the path). */
uint64_t ips_feature_shares(const struct ips_graph *g,
                            const struct ips_scenario *scenario,
                            const struct ips_est *e,
                            const struct ips_features *f, uint64_t *share);

#endif
