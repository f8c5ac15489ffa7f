#include "analysis/whatif/tail.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/graph/kernel.h"

int ips_compute_tails(const struct ips_graph *g,
                      const struct ips_scenario *scenario,
                      const struct ips_computation_order *order,
                      uint64_t **tail, struct ips_err *err)
{
    uint64_t *t = malloc(((size_t)g->node_count + 1) * sizeof(*t));
    struct ips_cross_arc_weighting arcs;
    if (!t)
        return ips_err_set(err, IPS_E_NO_MEMORY, "tails of %u nodes",
                           g->node_count);
    ips_cross_arc_weighting_init(&arcs, scenario);
    memset(t, 0xff, (size_t)g->node_count * sizeof(*t)); /* 0xff.. is
                                                            IPS_NO_TAIL */
    /* In reverse order every successor is visited before the node itself. */
    for (uint64_t r = order->run_count; r-- > 0;) {
        const struct ips_chain_run *run = &order->run[r];
        uint32_t chain_first = g->chains[run->chain].first;
        for (uint32_t i = run->first + run->count; i-- > run->first;) {
            if (ips_may_end_path(g, scenario, i) && t[i] == IPS_NO_TAIL)
                t[i] = 0;
            if (t[i] == IPS_NO_TAIL)
                continue;
            if (i > chain_first) {
                uint64_t via = t[i] + g->w[i];
                if (t[i - 1] == IPS_NO_TAIL || via > t[i - 1])
                    t[i - 1] = via;
            }
            if (ips_has_local_cross_arc(g, &arcs, i)) {
                uint32_t x = g->xpred[i];
                uint64_t via =
                    t[i] + ips_cross_arc_weight_by_mode(
                               &arcs, arcs.mode[g->xkind[i]], g->xlen, i);
                if (t[x] == IPS_NO_TAIL || via > t[x])
                    t[x] = via;
            }
        }
    }
    *tail = t;
    return 0;
}

uint64_t ips_slack_of_chain_arc(const struct ips_graph *g,
                                const struct ips_est *e, const uint64_t *tail,
                                uint32_t node, bool first)
{
    if (first || tail[node] == IPS_NO_TAIL)
        return IPS_NO_SLACK;
    return e->t_max - e->est[node - 1] - g->w[node] - tail[node];
}

uint64_t ips_slack_of_cross_arc(const struct ips_graph *g,
                                const struct ips_scenario *scenario,
                                const struct ips_est *e, const uint64_t *tail,
                                uint32_t node)
{
    bool present;
    uint64_t xw = ips_cross_arc_weight(g, node, scenario, &present);
    if (!present || g->xpred[node] == IPS_NO_NODE || tail[node] == IPS_NO_TAIL)
        return IPS_NO_SLACK;
    return e->t_max - e->est[g->xpred[node]] - xw - tail[node];
}
