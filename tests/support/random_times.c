/* Clock times for random graphs. */
#include "tests/support/random_graph.h"

#include <stdlib.h>

void rg_give_times(struct ips_graph *g, uint64_t seed)
{
    bool changed = true;
    if (ips_graph_alloc_times(g, NULL) < 0)
        abort();
    while (changed) {
        uint64_t s = seed;
        changed = false;
        for (uint32_t c = 0; c < g->chain_count; c++) {
            uint32_t first = g->chains[c].first;
            for (uint32_t i = first; i < first + g->chains[c].count; i++) {
                uint32_t x = g->xpred[i];
                uint64_t lag = rg_below(&s, 5), extra = rg_below(&s, 4);
                uint64_t asked = i == first ? rg_below(&s, 9)
                                            : g->at[i - 1] + g->w[i] + extra;
                uint64_t at = asked;
                if (x != IPS_NO_NODE && g->at[x] + lag > at)
                    at = g->at[x] + lag;
                g->delay[i] = i == first ? 0 : rg_below(&s, 4) & extra;
                g->wait[i] = i == first ? 0 : at - asked;
                changed = changed || g->at[i] != at;
                g->at[i] = at;
            }
        }
    }
}

void rg_split_times(struct rg *r, uint32_t m, uint64_t off)
{
    struct ips_graph *p = &r->part[m];
    const struct ips_graph *g = &r->whole;
    if (ips_graph_alloc_times(p, NULL) < 0)
        abort();
    for (uint32_t i = 0; i < p->node_count; i++) {
        p->at[i] = g->at[r->base[m] + i] + off;
        p->wait[i] = g->wait[r->base[m] + i];
        p->delay[i] = g->delay[r->base[m] + i];
    }
}
