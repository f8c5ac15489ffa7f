#include "tests/support/random_waits.h"

#include <stdlib.h>

#include "common/types.h"

#define ARC_WAITS 3u /* at most so many in an arc */

/* A thread computes for w, sits in the queue and off its core, and sleeps until
 * what it waits for is there. */
static void give_times(struct ips_graph *g, uint64_t seed)
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
                uint64_t lag = rg_below(&s, 6), queue = rg_below(&s, 5),
                         off = rg_below(&s, 12), began = rg_below(&s, 40);
                uint64_t asked =
                    i == first ? began : g->at[i - 1] + g->w[i] + queue + off;
                uint64_t at = asked;
                if (x != IPS_NO_NODE && g->at[x] + lag > at)
                    at = g->at[x] + lag;
                g->delay[i] = i == first ? 0 : queue;
                g->wait[i] = i == first ? 0 : at - asked;
                changed = changed || g->at[i] != at;
                g->at[i] = at;
            }
        }
    }
}

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
    give_times(g, seed);
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
