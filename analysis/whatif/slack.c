#include "analysis/whatif/slack.h"

#include <stdlib.h>

#include "common/types.h"

static void add_slack_to_feature(struct ips_slack *s, uint64_t slack,
                                 uint64_t ns, uint64_t near_ns)
{
    s->least = ips_min_u64(s->least, slack);
    s->total_ns = ips_add_sat(s->total_ns, ns);
    if (slack <= near_ns)
        s->near_ns = ips_add_sat(s->near_ns, ns);
    s->arcs++;
}

static void add_arc_slack(const struct ips_graph *g,
                          const struct ips_features *f, uint32_t chain,
                          uint32_t node, uint64_t slack, uint64_t near_ns,
                          struct ips_slack *out)
{
    uint64_t count, rest = g->w[node];
    const struct ips_arc_share *p =
        ips_feature_shares_of_chain_arc(f, node, &count);
    for (uint64_t k = 0; k < count; k++) {
        add_slack_to_feature(&out[p[k].feature], slack, p[k].ns, near_ns);
        rest -= p[k].ns;
    }
    /* An arc without weight can be delayed too: it counts for its chain's
     * feature. */
    if (f->chain[chain] != IPS_NO_FEATURE && (rest || count == 0))
        add_slack_to_feature(&out[f->chain[chain]], slack, rest, near_ns);
}

int ips_compute_slacks_of_features(
    const struct ips_graph *g, const struct ips_scenario *scenario,
    const struct ips_est *e, const uint64_t *tail, const struct ips_features *f,
    uint64_t near_ns, struct ips_slack *out, struct ips_err *err)
{
    uint64_t *share = malloc(((size_t)f->count + 1) * sizeof(*share));
    if (!share)
        return ips_err_set(err, IPS_E_NO_MEMORY, "%u shares", f->count);
    for (uint32_t i = 0; i < f->count; i++)
        out[i] = (struct ips_slack){.least = IPS_NO_SLACK};
    for (uint32_t c = 0; c < g->chain_count; c++) {
        uint32_t first = g->chains[c].first;
        for (uint32_t i = first; i < first + g->chains[c].count; i++) {
            bool present;
            uint64_t slack = ips_slack_of_chain_arc(g, e, tail, i, i == first);
            if (slack != IPS_NO_SLACK)
                add_arc_slack(g, f, c, i, slack, near_ns, out);
            if (!f->cross || f->cross[i] == IPS_NO_FEATURE)
                continue;
            slack = ips_slack_of_cross_arc(g, scenario, e, tail, i);
            if (slack != IPS_NO_SLACK)
                add_slack_to_feature(
                    &out[f->cross[i]], slack,
                    ips_feature_ns_of_cross_arc(
                        f, i, ips_cross_arc_weight(g, i, scenario, &present)),
                    near_ns);
        }
    }
    (void)ips_sum_path_time_by_feature(g, scenario, e, f, share);
    for (uint32_t i = 0; i < f->count; i++)
        out[i].path_ns = share[i];
    free(share);
    return 0;
}
