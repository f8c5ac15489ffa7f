/*
 * Slack by feature: how near each thing is to the longest path.
 *
 * An arc is near-critical where its slack is at most `near_ns`: the time in
 * such arcs is what the next improvement may run into. Of a feature:
 *
 *   least     the least slack of its arcs; IPS_NO_SLACK: it has none
 *   total_ns  its time in the whole graph
 *   near_ns   of that, in near-critical arcs (those on the path included)
 *   path_ns   of that, on the longest path itself
 *
 * least > 0: no arc of it lies on a longest path, and delaying one of them by
 * up to `least` changes nothing.
 * Source: ALGORITHMS 4, IPS-12.
 */
#ifndef IPS_ANALYSIS_WHATIF_SLACK_H
#define IPS_ANALYSIS_WHATIF_SLACK_H

#include "analysis/whatif/feature.h"
#include "analysis/whatif/tail.h"

struct ips_slack {
    uint64_t least;
    uint64_t total_ns, near_ns, path_ns;
    uint64_t arcs; /* how many it has a part in */
};

/* out[f->count]. O(nodes + portions). */
int ips_slacks(const struct ips_graph *g, const struct ips_scenario *scenario,
               const struct ips_est *e, const uint64_t *tail,
               const struct ips_features *f, uint64_t near_ns,
               struct ips_slack *out, struct ips_err *err) IPS_MUST_USE;

#endif
