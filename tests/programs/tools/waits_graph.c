/*
 * Prints random activity graphs with random times and waits, and what
 * analysis/explain/waits.h and idle.h make of them, one JSON object a line, for
 * tests/oracle/waits_oracle.py:
 *
 *   seed, from, to (the window of the blame)
 *   machine   [a chain each]
 *   chains    [[[w, at, wait, delay, xkind, xpred or -1], a node each], a chain
 *             each]
 *   waits     [[arc, cause, of_node, ns, end_ns], ...]
 *   blame     [[[kind, chain, node, cause, ns], ...], a wait each] of it whole
 *   windowed  [ns, a wait each] in the window
 *   idle      [[machine, cores, from, to, spinning, {what: ns}], ...]
 *
 * Usage: waits_graph FIRST COUNT
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "analysis/explain/idle.h"
#include "tests/support/random_waits.h"

static const char *const kinds[] = {
#define X(name, text) [IPS_BLAME_##name] = #name,
    IPS_BLAMES(X)
#undef X
};
static const char *const xkinds[] = {
#define X(name, number, text) [number] = (text),
    IPS_XKINDS(X)
#undef X
};

static const char *between(uint64_t i)
{
    return i ? ", " : "";
}

static void put_graph(const struct ips_graph *g)
{
    printf(", \"machine\": [");
    for (uint32_t c = 0; c < g->chain_count; c++)
        printf("%s%u", between(c), g->chains[c].machine);
    printf("], \"chains\": [");
    for (uint32_t c = 0; c < g->chain_count; c++) {
        printf("%s[", between(c));
        for (uint32_t k = 0; k < g->chains[c].count; k++) {
            uint32_t i = g->chains[c].first + k;
            printf("%s[%" PRIu64 ", %" PRIu64 ", %" PRIu64 ", %" PRIu64
                   ", \"%s\", %" PRId64 "]",
                   between(k), g->w[i], g->at[i], g->wait[i], g->delay[i],
                   xkinds[g->xkind[i]],
                   g->xpred[i] == IPS_NO_NODE ? -1 : (int64_t)g->xpred[i]);
        }
        printf("]");
    }
    printf("]");
}

static uint64_t parts;

static void on_part(void *arg, const struct ips_blame *b)
{
    (void)arg;
    printf("%s[\"%s\", %u, %u, %u, %" PRIu64 "]", between(parts++),
           kinds[b->kind], b->chain, b->node, b->cause, b->ns);
}

static void on_nothing(void *arg, const struct ips_blame *b)
{
    (void)arg;
    (void)b;
}

static void put_blame(const struct ips_waits *w, uint64_t from, uint64_t to)
{
    struct ips_blamer b = {.w = w, .put = on_part, .budget = UINT64_MAX};
    uint64_t ns;
    printf(", \"waits\": [");
    for (uint64_t i = 0; i < w->count; i++) {
        const struct ips_wait *x = &w->wait[i];
        printf("%s[%u, %u, %d, %" PRIu64 ", %" PRIu64 "]", between(i), x->arc,
               x->cause, x->of_node, x->ns, x->end_ns);
    }
    printf("], \"blame\": [");
    for (uint64_t i = 0; i < w->count; i++) {
        parts = 0;
        printf("%s[", between(i));
        if (ips_blame_wait(&b, &w->wait[i], 0, UINT64_MAX, &ns, NULL) < 0)
            abort();
        printf("]");
    }
    printf("], \"windowed\": [");
    b.put = on_nothing;
    for (uint64_t i = 0; i < w->count; i++) {
        if (ips_blame_wait(&b, &w->wait[i], from, to, &ns, NULL) < 0)
            abort();
        printf("%s%" PRIu64, between(i), ns);
    }
    printf("]");
    ips_blamer_release(&b);
}

static void put_idle(const struct ips_waits *w, uint32_t machine, uint64_t *s)
{
    struct ips_idle o;
    uint32_t cores = 1 + rg_below(s, 4);
    uint32_t spinning = rg_below(s, 1u << RW_CAUSES);
    uint64_t from = rg_below(s, 60), to = from + rg_below(s, 900);
    if (ips_idle_account_core_time(w, machine, cores, from, to, spinning, &o,
                                   NULL) < 0)
        abort();
    printf("%s[%u, %u, %" PRIu64 ", %" PRIu64 ", %u, {\"running\": %" PRIu64
           ", \"spun\": %" PRIu64 ", \"others\": %" PRIu64
           ", \"unknown\": %" PRIu64 ", \"nobody\": %" PRIu64
           ", \"before\": %" PRIu64 ", \"after\": %" PRIu64,
           between(machine), machine, cores, from, to, spinning, o.running,
           o.spun, o.others, o.unknown, o.nobody, o.before, o.after);
    for (uint32_t c = 0; c < IPS_IDLE_CAUSES; c++)
        printf(", \"%u\": %" PRIu64, c, o.cause[c]);
    printf("}]");
}

static void one(uint64_t seed)
{
    struct rg_options opt = rg_options_of(seed);
    struct rg r;
    struct ips_wait *wait;
    struct ips_waits w;
    uint64_t s = seed, from = rg_below(&s, 200);
    uint64_t to = from + rg_below(&s, 300);
    rg_make(&opt, &r);
    uint64_t n = rw_make(&r.whole, seed, seed % 3 == 0, &wait);
    if (ips_waits_set_begin_and_end_times(&r.whole, wait, n, &w, NULL) < 0)
        abort();
    printf("{\"seed\": %" PRIu64 ", \"from\": %" PRIu64 ", \"to\": %" PRIu64,
           seed, from, to);
    put_graph(&r.whole);
    put_blame(&w, from, to);
    printf(", \"idle\": [");
    for (uint32_t m = 0; m < r.machines; m++)
        put_idle(&w, m, &s);
    printf("]}\n");
    ips_waits_release(&w);
    free(wait);
    rg_release(&r);
}

int main(int argc, char **argv)
{
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    for (uint64_t seed = first; seed < first + count; seed++)
        one(seed);
    return fflush(stdout) != 0;
}
