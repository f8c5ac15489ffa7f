#include "analysis/explain/phases.h"

#include <stdlib.h>
#include <string.h>

#include "common/types.h"

struct work {
    uint32_t n, rows;
    uint16_t *below; /* [n + 1][rows]: how many of the first i bins are below
                        the level of the row */
    uint64_t *xlogx; /* [n + 1]: i * log2(i) * 2^20 */
    uint64_t *best;  /* [n + 1] cost of the cheapest cut of the first i bins */
    uint32_t *from; /* [n + 1] where the last segment of the cheapest cut of the
                       first i bins begins */
    uint64_t *sorted;
    uint64_t penalty;
};

/* ---- logarithms ---- */

/* Returns log2(x) * 2^20, rounded down; x > 0. Finds the bits one by one:
 * squares a number between 1 and 2; if the square is 2 or more, the next bit is
 * 1. */
static uint64_t log2_q20(uint64_t x)
{
    unsigned whole = 63u - (unsigned)__builtin_clzll(x);
    uint64_t m = whole >= 31 ? x >> (whole - 31) : x << (31 - whole);
    uint64_t out = whole;
    for (int i = 0; i < 20; i++) {
        m = m * m >> 31;
        out <<= 1;
        if (m >> 32) {
            m >>= 1;
            out |= 1;
        }
    }
    return out;
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* ---- levels ---- */

/* Returns the k-th level, which divides the values: those below it are on one
 * side, the others on the other. Equal values are on the same side. Upper
 * levels are just above the value of the k-th quantile, lower levels equal it,
 * as long as some values remain on each side. */
static uint64_t threshold_at_quantile(const uint64_t *sorted, uint32_t n,
                                      uint32_t k)
{
    uint64_t least = sorted[0], most = sorted[n - 1];
    uint64_t q = sorted[(uint64_t)k * n / (IPS_PHASES_LEVELS + 1)];
    bool above = q == least || (k > IPS_PHASES_LEVELS / 2 && q != most);
    return above && q != UINT64_MAX ? q + 1 : q;
}

static void fill_prefix_counts_below_levels(
    struct work *w, const struct ips_phase_series *series, uint32_t count)
{
    uint32_t n = w->n;
    for (uint32_t s = 0; s < count; s++) {
        memcpy(w->sorted, series[s].v, n * sizeof(*w->sorted));
        qsort(w->sorted, n, sizeof(*w->sorted), by_value);
        for (uint32_t k = 1; k <= IPS_PHASES_LEVELS; k++) {
            uint64_t cut = threshold_at_quantile(w->sorted, n, k);
            uint32_t row = s * IPS_PHASES_LEVELS + k - 1;
            for (uint32_t i = 0; i < n; i++) {
                uint16_t *at = &w->below[(size_t)i * w->rows + row];
                at[w->rows] = (uint16_t)(at[0] + (series[s].v[i] < cut));
            }
        }
    }
}

/* ---- the cheapest cut ---- */

static uint64_t cost_of_segment(const struct work *w, uint32_t from,
                                uint32_t to)
{
    const uint16_t *a = &w->below[(size_t)from * w->rows];
    const uint16_t *b = &w->below[(size_t)to * w->rows];
    uint32_t m = to - from;
    uint64_t sum = (uint64_t)w->rows * w->xlogx[m], less = 0;
    for (uint32_t r = 0; r < w->rows; r++) {
        uint32_t c = (uint32_t)b[r] - a[r];
        less += w->xlogx[c] + w->xlogx[m - c];
    }
    return ips_sub_sat(sum, less); /* saturating: rounded logarithms may make
                                      the difference negative */
}

static void find_cheapest_cuts(struct work *w)
{
    w->best[0] = 0;
    for (uint32_t to = 1; to <= w->n; to++) {
        w->best[to] = UINT64_MAX;
        for (uint32_t from = 0; from < to; from++) {
            uint64_t cost = w->best[from] + (from ? w->penalty : 0);
            if (cost >= w->best[to])
                continue;
            cost += cost_of_segment(w, from, to);
            if (cost < w->best[to]) {
                w->best[to] = cost;
                w->from[to] = from;
            }
        }
    }
}

static void store_phase_ends_of_cheapest_cut(const struct work *w,
                                             struct ips_phases *out)
{
    out->count = 0;
    for (uint32_t to = w->n; to > 0; to = w->from[to])
        out->end[out->count++] = to;
    for (uint32_t i = 0; i < out->count / 2; i++) {
        uint32_t swap = out->end[i];
        out->end[i] = out->end[out->count - 1 - i];
        out->end[out->count - 1 - i] = swap;
    }
}

/* ---- irrelevant changes ---- */

static uint64_t sum_of_bins(const uint64_t *v, uint32_t from, uint32_t to)
{
    uint64_t sum = 0;
    for (uint32_t i = from; i < to; i++)
        sum = ips_add_sat(sum, v[i]);
    return sum;
}

static bool means_differ(const struct ips_phase_series *series, uint32_t count,
                         uint32_t from, uint32_t mid, uint32_t to)
{
    for (uint32_t s = 0; s < count; s++) {
        /* Compare both means multiplied by both lengths, to avoid a
         * division. */
        ips_u128 lengths = (ips_u128)(mid - from) * (to - mid);
        ips_u128 a = (ips_u128)sum_of_bins(series[s].v, from, mid) * (to - mid);
        ips_u128 b = (ips_u128)sum_of_bins(series[s].v, mid, to) * (mid - from);
        ips_u128 more = a > b ? a : b, less = a > b ? b : a;
        if ((more - less) * 8 >= more && more > less &&
            more - less >= series[s].least * lengths)
            return true;
    }
    return false;
}

/* Merges similar neighbours. The pair whose separation saves the least cost is
 * merged first. */
static void merge_similar_phases(const struct work *w,
                                 const struct ips_phase_series *series,
                                 uint32_t count, struct ips_phases *p)
{
    for (;;) {
        uint64_t least = UINT64_MAX;
        uint32_t at = 0;
        for (uint32_t i = 0; i + 1 < p->count; i++) {
            uint32_t from = i ? p->end[i - 1] : 0;
            uint32_t mid = p->end[i], to = p->end[i + 1];
            if (means_differ(series, count, from, mid, to))
                continue;
            uint64_t saved = ips_sub_sat(cost_of_segment(w, from, to),
                                         cost_of_segment(w, from, mid) +
                                             cost_of_segment(w, mid, to));
            if (saved < least) {
                least = saved;
                at = i;
            }
        }
        if (least == UINT64_MAX)
            return;
        memmove(&p->end[at], &p->end[at + 1],
                (p->count - at - 1) * sizeof(*p->end));
        p->count--;
    }
}

/* ---- the whole computation ---- */

static void free_work_arrays(struct work *w)
{
    free(w->below);
    free(w->xlogx);
    free(w->best);
    free(w->from);
    free(w->sorted);
}

static int alloc_work_arrays(struct work *w, uint32_t count, uint32_t bins,
                             struct ips_err *err)
{
    *w = (struct work){.n = bins, .rows = count * IPS_PHASES_LEVELS};
    if (bins > IPS_PHASES_BINS || count == 0 || count > IPS_PHASES_SERIES)
        return ips_err_set(err, IPS_E_LIMIT, "%u series of %u bins", count,
                           bins);
    size_t n = (size_t)bins + 1;
    w->below = calloc(n * w->rows, sizeof(*w->below));
    w->xlogx = calloc(n, sizeof(*w->xlogx));
    w->best = calloc(n, sizeof(*w->best));
    w->from = calloc(n, sizeof(*w->from));
    w->sorted = calloc(n, sizeof(*w->sorted));
    if (!w->below || !w->xlogx || !w->best || !w->from || !w->sorted) {
        free_work_arrays(w);
        return ips_err_set(err, IPS_E_NO_MEMORY, "no memory for phases");
    }
    for (uint32_t i = 1; i <= bins; i++)
        w->xlogx[i] = i * log2_q20(i);
    w->penalty = bins ? 2 * IPS_PHASES_LEVELS * log2_q20(bins) : 0;
    return 0;
}

int ips_phases_find_in_series(const struct ips_phase_series *series,
                              uint32_t count, uint32_t bins,
                              struct ips_phases *out, struct ips_err *err)
{
    struct work w;
    out->count = 0;
    int rc = alloc_work_arrays(&w, count, bins, err);
    if (rc < 0)
        return rc;
    if (bins > 0) {
        fill_prefix_counts_below_levels(&w, series, count);
        find_cheapest_cuts(&w);
        store_phase_ends_of_cheapest_cut(&w, out);
        merge_similar_phases(&w, series, count, out);
    }
    free_work_arrays(&w);
    return 0;
}
