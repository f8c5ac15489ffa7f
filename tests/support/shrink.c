#include "tests/support/shrink.h"

#include <stdio.h>
#include <stdlib.h>

void rg_goal(const struct ips_graph *g, struct ips_scenario *lane,
             uint64_t *rng)
{
    uint32_t c = rg_below(rng, g->chain_count);
    lane->has_goal = rg_below(rng, 2);
    lane->goal = g->chains[c].first + g->chains[c].count - 1;
}

static const char *try_one(rg_property *property, const struct rg_options *opt)
{
    struct rg r;
    rg_make(opt, &r);
    const char *what = property(&r, opt->seed);
    rg_release(&r);
    return what;
}

/* One value smaller, if it fails then too. */
static bool less(rg_property *property, struct rg_options *opt, uint32_t *value,
                 uint32_t by, uint32_t least)
{
    uint32_t old = *value;
    if (old < least + by)
        return false;
    *value = old - by;
    if (try_one(property, opt))
        return true;
    *value = old;
    return false;
}

static void shrink(rg_property *property, struct rg_options *opt)
{
    bool smaller = true;
    while (smaller) {
        smaller = false;
        for (uint32_t by = 128; by > 0; by /= 2)
            smaller |= less(property, opt, &opt->steps, by, 0);
        smaller |= less(property, opt, &opt->machines, 1, 1);
        if (opt->chains > opt->machines)
            smaller |= less(property, opt, &opt->chains, 1, 1);
        smaller |= less(property, opt, &opt->weight_max,
                        opt->weight_max - opt->weight_max / 2, 1);
    }
}

const char *rg_hold(rg_property *property, uint64_t seeds)
{
    static char text[400];
    const char *more = getenv("IPS_SEEDS");
    if (more)
        seeds = strtoull(more, NULL, 10);
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        struct rg_options opt = rg_options_of(seed);
        if (!try_one(property, &opt))
            continue;
        shrink(property, &opt);
        snprintf(text, sizeof(text),
                 "%s: seed %llu, %u machines, %u chains, %u steps, weights to "
                 "%u%s%s",
                 try_one(property, &opt), (unsigned long long)opt.seed,
                 opt.machines, opt.chains, opt.steps, opt.weight_max,
                 opt.external ? ", external" : "",
                 opt.unmatched ? ", unmatched" : "");
        return text;
    }
    return NULL;
}
