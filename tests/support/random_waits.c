#include "tests/support/random_waits.h"

#include <stdlib.h>

#include "common/types.h"

#define ARC_WAITS 3u /* at most so many in an arc */

static void give_damage(struct ips_graph *g, uint64_t *s)
{
    for (uint32_t c = 0; c < g->chain_count; c++) {
        uint64_t off = (uint64_t)g->chains[c].machine * rg_below(s, 30);
        for (uint32_t k = 0; k < g->chains[c].count; k++) {
            uint32_t i = g->chains[c].first + k;
            g->at[i] += off;
            if (rg_below(s, 10) == 0)
                g->wait[i] += rg_below(s, 20);
            if (rg_below(s, 20) == 0)
                g->at[i] -= ips_min_u64(g->at[i], rg_below(s, 8));
        }
    }
}

uint64_t rw_make(struct ips_graph *g, uint64_t seed, bool damage,
                 struct ips_wait **waits)
{
    uint64_t s = seed ^ 0x5eedull, n = 0;
    struct ips_wait *w =
        calloc((size_t)g->node_count * ARC_WAITS + 1, sizeof(*w));
    if (!w)
        abort();
    rg_give_times(g, seed);
    if (damage)
        give_damage(g, &s);
    for (uint32_t c = 0; c < g->chain_count; c++) {
        uint32_t first = g->chains[c].first;
        for (uint32_t i = first + 1; i < first + g->chains[c].count; i++) {
            uint32_t count = rg_below(&s, ARC_WAITS + 1);
            uint64_t end = g->at[i - 1];
            for (uint32_t k = 0; k < count; k++) {
                struct ips_wait *x = &w[n++];
                x->arc = i;
                x->cause = (uint8_t)rg_below(&s, RW_CAUSES);
                x->of_node = k + 1 == count && rg_below(&s, 2);
                x->ns =
                    x->of_node ? g->wait[i] + rg_below(&s, 3) : rg_below(&s, 7);
                end += x->ns + rg_below(&s, 3);
                x->end_ns = end;
            }
        }
    }
    *waits = w;
    return n;
}
