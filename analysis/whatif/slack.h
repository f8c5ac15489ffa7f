/*
 * Computes the slack of each feature: how near the feature is to the longest
 * path.
 *
 * An arc is near-critical if its slack is at most `near_ns`: an improvement of
 * the path makes such arcs critical next. For each feature:
 *  - least: the least slack of its arcs; IPS_NO_SLACK: it has no arc
 *  - total_ns: its time in the whole graph
 *  - near_ns: its time in near-critical arcs, those on the path included
 *  - path_ns: its time on the longest path itself
 *
 * least > 0 means that none of the feature's arcs is on a longest path, and
 * that delaying one of them by up to `least` does not change the path's length.
 * Source: ALGORITHMS 4, IPS-12.
 */
#ifndef IPS_ANALYSIS_WHATIF_SLACK_H
#define IPS_ANALYSIS_WHATIF_SLACK_H

#include "analysis/whatif/feature.h"
#include "analysis/whatif/tail.h"

struct ips_slack {
    uint64_t least;
    uint64_t total_ns, near_ns, path_ns;
    uint64_t arcs; /* number of arcs of which the feature has a share */
};

/* Computes the slack of each feature into out[f->count]. O(nodes + shares). */
int ips_compute_slacks_of_features(
    const struct ips_graph *g, const struct ips_scenario *scenario,
    const struct ips_est *e, const uint64_t *tail, const struct ips_features *f,
    uint64_t near_ns, struct ips_slack *out, struct ips_err *err) IPS_MUST_USE;

#endif
