#include "analysis/whatif/feature.h"

#include <string.h>

#include "common/types.h"

static int check_arc_shares(const struct ips_graph *g,
                            const struct ips_features *f, struct ips_err *err)
{
    for (uint32_t i = 0; f->first && i < g->node_count; i++) {
        uint64_t sum = 0;
        if (f->first[i + 1] < f->first[i])
            return ips_err_set(err, IPS_E_CORRUPT,
                               "node %u: the shares of its arc end before they "
                               "begin",
                               i);
        for (uint64_t p = f->first[i]; p < f->first[i + 1]; p++) {
            if (f->arc_share[p].feature >= f->count)
                return ips_err_set(err, IPS_E_CORRUPT,
                                   "node %u: feature %u of %u", i,
                                   f->arc_share[p].feature, f->count);
            sum = ips_add_sat(sum, f->arc_share[p].ns);
        }
        if (sum > g->w[i])
            return ips_err_set(err, IPS_E_CORRUPT,
                               "node %u: the shares of its arc add up to %llu "
                               "ns, the arc has %llu ns",
                               i, (unsigned long long)sum,
                               (unsigned long long)g->w[i]);
    }
    return 0;
}

int ips_features_check(const struct ips_graph *g, const struct ips_features *f,
                       struct ips_err *err)
{
    for (uint32_t c = 0; c < g->chain_count; c++) {
        if (f->chain[c] >= f->count && f->chain[c] != IPS_NO_FEATURE)
            return ips_err_set(err, IPS_E_CORRUPT, "chain %u: feature %u of %u",
                               c, f->chain[c], f->count);
    }
    for (uint32_t i = 0; f->cross && i < g->node_count; i++) {
        if (f->cross[i] >= f->count && f->cross[i] != IPS_NO_FEATURE)
            return ips_err_set(err, IPS_E_CORRUPT, "node %u: feature %u of %u",
                               i, f->cross[i], f->count);
    }
    return check_arc_shares(g, f, err);
}

static void add_chain_arc_time_to_features(const struct ips_graph *g,
                                           const struct ips_features *f,
                                           uint32_t chain, uint32_t node,
                                           uint64_t *share)
{
    uint64_t count, rest = g->w[node];
    const struct ips_arc_share *p =
        ips_feature_shares_of_chain_arc(f, node, &count);
    for (uint64_t k = 0; k < count; k++) {
        share[p[k].feature] += p[k].ns;
        rest -= p[k].ns;
    }
    if (f->chain[chain] != IPS_NO_FEATURE)
        share[f->chain[chain]] += rest;
}

uint64_t ips_sum_path_time_by_feature(const struct ips_graph *g,
                                      const struct ips_scenario *scenario,
                                      const struct ips_est *e,
                                      const struct ips_features *f,
                                      uint64_t *share)
{
    uint64_t resources = 0;
    memset(share, 0, (size_t)f->count * sizeof(*share));
    if (e->end == IPS_NO_NODE)
        return 0;
    uint32_t i = e->end, chain = ips_chain_of(g, i);
    for (;;) {
        if (e->crossed[i]) {
            bool present;
            uint64_t xw = ips_cross_arc_weight(g, i, scenario, &present);
            if (f->cross && f->cross[i] != IPS_NO_FEATURE)
                share[f->cross[i]] += ips_feature_ns_of_cross_arc(f, i, xw);
            resources += g->xkind[i] == IPS_X_RESOURCE;
            i = g->xpred[i];
            chain = ips_chain_of(g, i);
        } else {
            if (i == g->chains[chain].first)
                return resources; /* the path starts here: the time before this
                                     node belongs to no feature */
            add_chain_arc_time_to_features(g, f, chain, i, share);
            i--;
        }
    }
}
