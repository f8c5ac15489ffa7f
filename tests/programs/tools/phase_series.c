/*
 * Random series cut into phases by the C code, one JSON object a line, for
 * tests/oracle/phases_oracle.py:
 *
 *   least    what the means must differ by
 *   series   [[value, a bin each], a series each]
 *   cut      where the stretches of the cheapest cut end
 *   cost     of it, in bits
 *   found    where the phases end
 *
 * Usage: phase_series FIRST COUNT
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "analysis/explain/phases.c" /* the cut before it is merged */

#define BINS_MAX 90

static uint64_t draw(uint64_t *seed, uint64_t below)
{
    *seed = *seed * 6364136223846793005ULL + 1442695040888963407ULL;
    return (*seed >> 33) % below;
}

/* Steps at random places, of noise of a random kind. */
static void draw_series(uint64_t *seed, uint64_t *v, uint32_t bins)
{
    uint64_t kind = draw(seed, 4), level = 0;
    for (uint32_t i = 0; i < bins; i++) {
        if (i == 0 || draw(seed, 25) == 0)
            level = draw(seed, 1000);
        uint64_t noise = draw(seed, kind == 0 ? 1 : level + 1);
        if (kind == 0)
            v[i] = level % 3;
        else if (kind == 1)
            v[i] = noise % 7 ? 0 : level;
        else
            v[i] = level + noise / kind;
    }
}

static void print_ends(const char *name, const struct ips_phases *p)
{
    printf(",\"%s\":[", name);
    for (uint32_t i = 0; i < p->count; i++)
        printf("%s%u", i ? "," : "", p->end[i]);
    printf("]");
}

/* The cheapest cut before neighbours are merged, and its cost in bits *
 * COST_UNIT. */
#define COST_UNIT ((uint64_t)IPS_PHASES_LEVELS << 20)
static int find_cut(const struct ips_phase_series *series, uint32_t count,
                    uint32_t bins, struct ips_phases *out, uint64_t *cost,
                    struct ips_err *err)
{
    struct work w;
    int rc = alloc_work_arrays(&w, count, bins, err);
    if (rc < 0)
        return rc;
    fill_prefix_counts_below_levels(&w, series, count);
    find_cheapest_cuts(&w);
    store_phase_ends_of_cheapest_cut(&w, out);
    *cost = w.best[bins];
    free_work_arrays(&w);
    return 0;
}

static int one(uint64_t seed)
{
    static uint64_t v[IPS_PHASES_SERIES][BINS_MAX];
    struct ips_phase_series series[IPS_PHASES_SERIES];
    static struct ips_phases cut, found;
    struct ips_err err = {0};
    uint64_t cost = 0;
    draw(&seed, 2);
    uint32_t bins = 1 + (uint32_t)draw(&seed, BINS_MAX);
    uint32_t count = 1 + (uint32_t)draw(&seed, 3);
    uint64_t least = draw(&seed, 200);
    printf("{\"least\":%" PRIu64 ",\"series\":[", least);
    for (uint32_t s = 0; s < count; s++) {
        draw_series(&seed, v[s], bins);
        series[s] = (struct ips_phase_series){v[s], least};
        for (uint32_t i = 0; i < bins; i++)
            printf("%s%" PRIu64, i ? "," : s ? "],[" : "[", v[s][i]);
    }
    if (find_cut(series, count, bins, &cut, &cost, &err) < 0 ||
        ips_phases_find_in_series(series, count, bins, &found, &err) < 0) {
        fprintf(stderr, "phase_series: %s\n", err.msg);
        return 1;
    }
    printf("]],\"cost\":%.9f", (double)cost / (double)COST_UNIT);
    print_ends("cut", &cut);
    print_ends("found", &found);
    printf("}\n");
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: phase_series FIRST COUNT\n");
        return 2;
    }
    uint64_t first = strtoull(argv[1], NULL, 10);
    uint64_t count = strtoull(argv[2], NULL, 10);
    for (uint64_t i = 0; i < count; i++) {
        if (one(first + i))
            return 1;
    }
    return 0;
}
