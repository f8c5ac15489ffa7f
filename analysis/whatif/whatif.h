/*
 * What-if: computes the gain if something were faster. Weights become w' = w -
 * theta * w_f, where w_f is the feature's share of w, and the longest path is
 * computed again. One pass over the graph answers IPS_WHATIF_SCENARIOS
 * questions, each with its own set of values.
 *
 * theta is given in ppm, 0 to 1000000; 1000000 is logical zeroing. Each share
 * is reduced by floor(w_f * theta). Therefore
 *  - t_max never grows with theta, and the gain is understated by less than 1
 *    ns a share: but for this rounding t_max(theta) is convex;
 *  - gain <= floor(sum over the edits of theta * share on the longest path) =
 *    bound holds exactly, without a tolerance.
 *
 * A what-if assumes a core for every thread that could run, and that locks are
 * taken in the recorded order: `resources` counts the RESOURCE arcs on the new
 * path.
 *
 * A pass takes O(nodes + shares). Memory: 1 byte a node, 64 bytes for each slot
 * of the order and each chain, 33 bytes a feature.
 * Source: ALGORITHMS 4; logical zeroing: IPS-12.
 */
#ifndef IPS_ANALYSIS_WHATIF_WHATIF_H
#define IPS_ANALYSIS_WHATIF_WHATIF_H

#include "analysis/whatif/feature.h"
#include "analysis/whatif/order.h"

#define IPS_WHATIF_SCENARIOS 8
#define IPS_WHATIF_GONE 1000000u /* ppm: the whole time is removed */

struct ips_edit {
    uint32_t feature;
    uint32_t ppm; /* share of the feature's time that is removed. Edits of one
                     feature apply one after the other, each to the time that
                     the previous one left. */
};
/* One question: all its edits apply at once. */
struct ips_change {
    const struct ips_edit *edit;
    uint32_t count;
};
struct ips_whatif {
    uint64_t t_max; /* longest path with the edits */
    uint64_t gain;  /* by how much t_max decreased */
    uint64_t bound; /* upper bound of the gain */
    uint32_t end;
    uint64_t resources; /* RESOURCE arcs on the longest path with the edits */
    bool computed;      /* false: ips_whatif_rank_changes() did not compute the
                           change, since      its bound was too small */
};

struct ips_whatif_base {
    const struct ips_graph *g;
    const struct ips_scenario *scenario;
    const struct ips_computation_order *order; /* made from g and scenario */
    /* result of ips_longest_path_compute_ests() for g and scenario */
    const struct ips_est *est;
    const struct ips_features *f; /* passed ips_features_check() */
    const uint64_t *share;        /* from ips_sum_path_time_by_feature() */
};

/* Answers any number of changes into out[count], IPS_WHATIF_SCENARIOS in each
 * pass. */
int ips_whatif(const struct ips_whatif_base *b, const struct ips_change *change,
               size_t count, struct ips_whatif *out,
               struct ips_err *err) IPS_MUST_USE;

/* Ranks changes by gain. order[], with room for `count`, gets the indices of
 * the `keep` changes with the greatest gains, in descending order, the lower
 * index first at equal gains; *kept is their number. Changes without a gain are
 * left out. The function computes changes in descending order of their bounds,
 * until no bound reaches the least gain kept. So the answer is the same as if
 * it computed all changes. */
int ips_whatif_rank_changes(const struct ips_whatif_base *b,
                            const struct ips_change *change, size_t count,
                            size_t keep, struct ips_whatif *out,
                            uint32_t *order, size_t *kept,
                            struct ips_err *err) IPS_MUST_USE;

/* Returns floor(ns * ppm / 1000000); ppm is at most a million. */
uint64_t ips_scale_by_ppm(uint64_t ns, uint32_t ppm);

#endif
