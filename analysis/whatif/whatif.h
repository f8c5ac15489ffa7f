/*
 * What if a thing were faster: w' = w - theta * w_f, the longest path again,
 * and what that gains. IPS_WHATIF_LANES questions are answered in one pass over
 * the graph, each its own scenario of values.
 *
 * theta is given in ppm, 0 to 1000000; 1000000 is logical zeroing. Of every
 * portion floor(w_f * theta) is taken away, so
 *  - t_max never grows with theta, and the gain is understated by less than
 *    1 ns a portion: t_max(theta) is convex but for that;
 *  - gain <= floor(sum over edits of theta * share on the longest path) = bound
 *    holds exactly, without an allowance.
 *
 * It supposes a processor for every thread that could run, and that locks are
 * taken in the order that was seen: `resources` counts the arcs of that kind
 * on the new path.
 *
 * A pass: O(nodes + portions); memory: a byte a node, 64 bytes for each place
 * of the order and each chain, 40 bytes a feature.
 * Source: ALGORITHMS 4; logical zeroing: IPS-12.
 */
#ifndef IPS_ANALYSIS_WHATIF_WHATIF_H
#define IPS_ANALYSIS_WHATIF_WHATIF_H

#include "analysis/whatif/feature.h"
#include "analysis/whatif/order.h"

#define IPS_WHATIF_LANES 8
#define IPS_WHATIF_GONE 1000000u /* ppm */

struct ips_edit {
    uint32_t feature;
    uint32_t ppm; /* faster by; of a feature named twice, one after the other */
};
/* One question: all its edits at once. */
struct ips_change {
    const struct ips_edit *edit;
    uint32_t count;
};
struct ips_whatif {
    uint64_t t_max; /* with the edits */
    uint64_t gain;  /* what t_max lost */
    uint64_t bound; /* it cannot be more */
    uint32_t end;
    uint64_t resources; /* RESOURCE arcs on the longest path with the edits */
    bool computed;      /* ips_whatif_rank: false where the bound sufficed */
};

struct ips_whatif_base {
    const struct ips_graph *g;
    const struct ips_scenario *scenario;
    const struct ips_order *order; /* of g and scenario */
    const struct ips_est *est;     /* of g and scenario */
    const struct ips_features *f;  /* checked */
    const uint64_t *share;         /* ips_feature_shares */
};

/* out[count]. Any number of changes, IPS_WHATIF_LANES a pass. */
int ips_whatif(const struct ips_whatif_base *b, const struct ips_change *change,
               size_t count, struct ips_whatif *out,
               struct ips_err *err) IPS_MUST_USE;

/* What would help most: order[] gets the indices of the `keep` changes with the
 * greatest gains (of equal ones the lower index), greatest first, and *kept how
 * many those are: no change without a gain is among them. Changes are computed
 * by falling bound until no bound reaches the least gain kept, so the answer is
 * that of computing all of them. order[] has room for `count`. */
int ips_whatif_rank(const struct ips_whatif_base *b,
                    const struct ips_change *change, size_t count, size_t keep,
                    struct ips_whatif *out, uint32_t *order, size_t *kept,
                    struct ips_err *err) IPS_MUST_USE;

/* floor(ns * ppm / 1000000), ppm at most a million. */
uint64_t ips_ppm_of(uint64_t ns, uint32_t ppm);

#endif
