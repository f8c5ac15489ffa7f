#include "client/base/diff.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/types.h"

/* if the runs can be assigned to the two sides in at most this many ways, all
 * ways are tried */
#define WAYS_ALL 20000u
/* number of random assignments tried if there are more than WAYS_ALL */
#define WAYS_DRAWN 9999u
#define RESAMPLES 2000u /* bootstrap resamples for an interval */

/* ---- items --------------------------------------------------------------- */

int diff_init(struct diff *d, unsigned first_side, unsigned second_side,
              struct ips_err *err)
{
    memset(d, 0, sizeof(*d));
    if (first_side == 0 || second_side == 0 ||
        first_side > DIFF_RUNS_MAX - second_side)
        return ips_err_set(
            err, IPS_E_USAGE,
            "%u runs against %u: each side needs at least one, and "
            "both together at most %u",
            first_side, second_side, DIFF_RUNS_MAX);
    d->runs = first_side + second_side;
    d->first = first_side;
    return 0;
}

void diff_release(struct diff *d)
{
    for (size_t i = 0; i < d->count; i++) {
        free(d->item[i].kind);
        free(d->item[i].name);
        free(d->item[i].v);
    }
    free(d->item);
    memset(d, 0, sizeof(*d));
}

static struct diff_item *find_item(struct diff *d, const char *kind,
                                   const char *name)
{
    for (size_t i = 0; i < d->count; i++) {
        struct diff_item *x = &d->item[i];
        if (strcmp(x->name, name) == 0 && strcmp(x->kind, kind) == 0)
            return x;
    }
    return NULL;
}

static struct diff_item *append_item(struct diff *d, const char *kind,
                                     const char *name)
{
    if (d->count == d->capacity) {
        size_t room = d->capacity ? d->capacity * 2 : 64;
        void *more = realloc(d->item, room * sizeof(*d->item));
        if (!more)
            return NULL;
        d->item = more;
        d->capacity = room;
    }
    struct diff_item *x = &d->item[d->count];
    *x = (struct diff_item){.kind = strdup(kind),
                            .name = strdup(name),
                            .v = calloc(d->runs, sizeof(*x->v))};
    d->count++; /* the new item may be incomplete; diff_release frees it */
    return x->kind && x->name && x->v ? x : NULL;
}

int diff_add_value_of_run(struct diff *d, const char *kind, const char *name,
                          unsigned run, uint64_t v, struct ips_err *err)
{
    struct diff_item *x = find_item(d, kind, name);
    if (!x && v > 0)
        x = append_item(d, kind, name);
    if (v == 0)
        return 0;
    if (!x)
        return ips_err_set(err, IPS_E_NO_MEMORY, "out of memory");
    /* limits `v`, so that sums over all runs cannot overflow */
    v = ips_min_u64(v, (uint64_t)INT64_MAX / DIFF_RUNS_MAX / 4);
    x->v[run] = ips_add_sat(x->v[run], v);
    d->total[run] = ips_add_sat(d->total[run], v);
    return 0;
}

/* ---- means --------------------------------------------------------------- */

/* Sums the values of each side's runs. */
static void sum_sides(const struct diff *d, const uint64_t *v, ips_i128 *a,
                      ips_i128 *b)
{
    *a = *b = 0;
    for (unsigned r = 0; r < d->runs; r++)
        *(r < d->first ? a : b) += v[r];
}

/* Returns the change of the mean from the first side to the second, multiplied
 * by the numbers of runs of both sides to make it a whole number. */
static ips_i128 scaled_change(const struct diff *d, const uint64_t *v)
{
    ips_i128 a, b;
    sum_sides(d, v, &a, &b);
    return b * d->first - a * (d->runs - d->first);
}

static int64_t round_quotient(ips_i128 n, ips_i128 by)
{
    return (int64_t)((n >= 0 ? n + by / 2 : n - by / 2) / by);
}

static void fill_means_and_change(const struct diff *d, const uint64_t *v,
                                  struct diff_item *x)
{
    ips_i128 a, b, by = (ips_i128)d->first * (d->runs - d->first);
    sum_sides(d, v, &a, &b);
    x->a = round_quotient(a, d->first);
    x->b = round_quotient(b, d->runs - d->first);
    x->change = round_quotient(scaled_change(d, v), by);
}

/* Returns the rounding error of an item's change, multiplied by the numbers of
 * runs of both sides. */
static ips_i128 scaled_rounding_error(const struct diff *d,
                                      const struct diff_item *x)
{
    ips_i128 by = (ips_i128)d->first * (d->runs - d->first);
    return (ips_i128)x->change * by - scaled_change(d, x->v);
}

/* Adjusts the changes of the items by at most 1 each, so that they add up to
 * the change of the totals. */
static void adjust_changes_to_add_up_to_total(struct diff *d)
{
    int64_t left = d->sum.change;
    for (size_t i = 0; i < d->count; i++)
        left -= d->item[i].change;
    while (left != 0 && d->count > 0) {
        int step = left > 0 ? 1 : -1;
        size_t best = 0;
        for (size_t i = 1; i < d->count; i++) {
            ips_i128 x = scaled_rounding_error(d, &d->item[i]) * step;
            if (x < scaled_rounding_error(d, &d->item[best]) * step)
                best = i;
        }
        d->item[best].change += step;
        left -= step;
    }
}

/* ---- p-values ------------------------------------------------------------ */

static uint64_t next_random_number(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed * 0x2545F4914F6CDD1DULL >> 11;
}

/* Returns the number of ways to choose the `k` runs of the first side from `n`
 * runs. Stops counting beyond WAYS_ALL. */
static uint64_t count_ways_to_choose_first_side(unsigned n, unsigned k)
{
    uint64_t w = 1;
    for (unsigned i = 1; i <= k && w <= WAYS_ALL; i++)
        w = w * (n - k + i) / i;
    return w;
}

/* Replaces `set`, which has `k` of the numbers below `n`, by the next such set
 * in lexical order. Returns false if it was the last. */
static bool advance_to_next_combination(unsigned *set, unsigned k, unsigned n)
{
    for (unsigned i = k; i-- > 0;) {
        if (set[i] == n - k + i)
            continue;
        set[i]++;
        for (unsigned j = i + 1; j < k; j++)
            set[j] = set[j - 1] + 1;
        return true;
    }
    return false;
}

static void draw_random_subset(unsigned *set, unsigned k, unsigned n,
                               uint64_t *seed)
{
    unsigned all[DIFF_RUNS_MAX];
    for (unsigned i = 0; i < n; i++)
        all[i] = i;
    for (unsigned i = 0; i < k; i++) {
        unsigned j = i + (unsigned)(next_random_number(seed) % (n - i)),
                 keep = all[j];
        all[j] = all[i];
        set[i] = all[i] = keep;
    }
}

/* Returns the distance between the means of the two sides in units of their
 * spread (Welch's t), if the runs in `set` are the first side. A spread below a
 * hundredth of the mean counts as that much. */
static double compute_welch_t_of_sides(const struct diff *d, const uint64_t *v,
                                       const unsigned *set)
{
    double n[2] = {d->first, d->runs - d->first}, sum[2] = {0}, sq[2] = {0};
    bool in[DIFF_RUNS_MAX] = {false};
    for (unsigned i = 0; i < d->first; i++)
        in[set[i]] = true;
    for (unsigned r = 0; r < d->runs; r++) {
        double x = (double)v[r];
        sum[!in[r]] += x;
        sq[!in[r]] += x * x;
    }
    double mean = (sum[0] + sum[1]) / d->runs, spread = 0;
    if (mean == 0)
        return 0;
    for (int side = 0; side < 2; side++) {
        double m = sum[side] / n[side];
        double var = (sq[side] - n[side] * m * m) / (n[side] - 1);
        spread += fmax(var, mean * mean * 1e-4) / n[side];
    }
    return fabs(sum[1] / n[1] - sum[0] / n[0]) / sqrt(spread);
}

/* Whether the values of an item differ by at least 1/50 of the mean total, so
 * that a change could matter. The test ignores which runs are on which side, so
 * it does not bias p. */
static bool has_relevant_spread(const struct diff *d, const uint64_t *v)
{
    uint64_t low = UINT64_MAX, high = 0;
    double all = 0;
    for (unsigned r = 0; r < d->runs; r++) {
        low = ips_min_u64(low, v[r]);
        high = ips_max_u64(high, v[r]);
        all += (double)d->total[r];
    }
    return (double)(high - low) * 50 >= all / d->runs;
}

struct permutation_test {
    bool *in; /* [items] whether the item is tested */
    /* [items + 1] distance of each item between the sides as the user gave
     * them; the last entry is for the totals */
    double *seen;
    /* [items + 1] number of ways in which the greatest distance of any item is
     * at least `seen`; the last entry counts the ways in which the distance of
     * the totals is at least its `seen` */
    uint64_t *as_far;
};

/* Whether x >= seen; values that differ only by rounding count as equal. */
static bool reaches_observed_distance(double x, double seen)
{
    return x >= seen * (1 - 1e-9);
}

static void add_permutation_to_counts(const struct diff *d, const unsigned *set,
                                      struct permutation_test *c)
{
    double most = 0;
    for (size_t i = 0; i < d->count; i++) {
        if (c->in[i])
            most = fmax(most, compute_welch_t_of_sides(d, d->item[i].v, set));
    }
    for (size_t i = 0; i < d->count; i++)
        c->as_far[i] += reaches_observed_distance(most, c->seen[i]);
    c->as_far[d->count] += reaches_observed_distance(
        compute_welch_t_of_sides(d, d->total, set), c->seen[d->count]);
}

static uint64_t test_permutations(const struct diff *d, unsigned *set,
                                  struct permutation_test *c)
{
    uint64_t seed = 0x9e3779b97f4a7c15ULL,
             n = count_ways_to_choose_first_side(d->runs, d->first);
    if (n <= WAYS_ALL) {
        do
            add_permutation_to_counts(d, set, c);
        while (advance_to_next_combination(set, d->first, d->runs));
        return n;
    }
    /* the sides as the user gave them are one of the ways */
    add_permutation_to_counts(d, set, c);
    for (n = 1; n <= WAYS_DRAWN; n++) {
        draw_random_subset(set, d->first, d->runs, &seed);
        add_permutation_to_counts(d, set, c);
    }
    return n;
}

static int compute_p_values(struct diff *d, struct ips_err *err)
{
    unsigned set[DIFF_RUNS_MAX];
    struct permutation_test c = {calloc(d->count + 1, sizeof(*c.in)),
                                 calloc(d->count + 1, sizeof(*c.seen)),
                                 calloc(d->count + 1, sizeof(*c.as_far))};
    int rc = 0;
    for (unsigned i = 0; i < d->first; i++)
        set[i] = i;
    if (!c.in || !c.seen || !c.as_far) {
        rc = ips_err_set(err, IPS_E_NO_MEMORY, "out of memory");
    } else {
        for (size_t i = 0; i < d->count; i++) {
            c.in[i] = has_relevant_spread(d, d->item[i].v);
            c.seen[i] = compute_welch_t_of_sides(d, d->item[i].v, set);
        }
        c.seen[d->count] = compute_welch_t_of_sides(d, d->total, set);
        double n = (double)test_permutations(d, set, &c);
        for (size_t i = 0; i < d->count; i++)
            if (c.in[i])
                d->item[i].p = (double)c.as_far[i] / n;
        d->sum.p = (double)c.as_far[d->count] / n;
    }
    free(c.in);
    free(c.seen);
    free(c.as_far);
    return rc;
}

/* ---- confidence intervals ----------------------------------------------- */

static int compare_reals(const void *va, const void *vb)
{
    double a = *(const double *)va, b = *(const double *)vb;
    return (a > b) - (a < b);
}

static void sort_and_get_interval_95(double *v, double *low, double *high)
{
    qsort(v, RESAMPLES, sizeof(*v), compare_reals);
    *low = v[RESAMPLES / 40];
    *high = v[RESAMPLES - 1 - RESAMPLES / 40];
}

static double resampled_mean(const uint64_t *v, unsigned n, uint64_t *seed)
{
    double sum = 0;
    for (unsigned i = 0; i < n; i++)
        sum += (double)v[next_random_number(seed) % n];
    return sum / n;
}

static void compute_interval_of_change(const struct diff *d, const uint64_t *v,
                                       struct diff_item *x)
{
    static double change[RESAMPLES];
    uint64_t seed = 0x9e3779b97f4a7c15ULL;
    for (unsigned k = 0; k < RESAMPLES; k++) {
        double a = resampled_mean(v, d->first, &seed);
        change[k] = resampled_mean(v + d->first, d->runs - d->first, &seed) - a;
    }
    sort_and_get_interval_95(change, &x->low, &x->high);
}

/* Copies the values that were measured; returns their number. */
static unsigned copy_measured(const double *v, unsigned n,
                              double out[DIFF_RUNS_MAX])
{
    unsigned count = 0;
    for (unsigned i = 0; i < n; i++)
        if (!isnan(v[i]))
            out[count++] = v[i];
    return count;
}

double diff_median_of_measured(const double *v, unsigned n)
{
    double copy[DIFF_RUNS_MAX];
    n = copy_measured(v, n, copy);
    if (n == 0)
        return (double)NAN;
    qsort(copy, n, sizeof(*copy), compare_reals);
    return (copy[n / 2] + copy[(n - 1) / 2]) / 2;
}

static double resampled_median(const double *v, unsigned n, uint64_t *seed)
{
    double copy[DIFF_RUNS_MAX];
    for (unsigned i = 0; i < n; i++)
        copy[i] = v[next_random_number(seed) % n];
    return diff_median_of_measured(copy, n);
}

void diff_interval_of_median_change(const double *a, unsigned na,
                                    const double *b, unsigned nb, double *low,
                                    double *high)
{
    static double change[RESAMPLES];
    double first[DIFF_RUNS_MAX], second[DIFF_RUNS_MAX];
    uint64_t seed = 0x9e3779b97f4a7c15ULL;
    *low = *high = (double)NAN;
    na = copy_measured(a, na, first);
    nb = copy_measured(b, nb, second);
    if (na < DIFF_RUNS_MIN || nb < DIFF_RUNS_MIN)
        return;
    for (unsigned k = 0; k < RESAMPLES; k++) {
        double was = resampled_median(first, na, &seed);
        change[k] = resampled_median(second, nb, &seed) - was;
    }
    sort_and_get_interval_95(change, low, high);
}

/* ---- computing the differences ------------------------------------------ */

static int compare_items_by_change(const void *va, const void *vb)
{
    const struct diff_item *a = va, *b = vb;
    uint64_t x = (uint64_t)llabs(a->change), y = (uint64_t)llabs(b->change);
    if (x != y)
        return x < y ? 1 : -1;
    int order = strcmp(a->kind, b->kind);
    return order ? order : strcmp(a->name, b->name);
}

int diff_compute_changes(struct diff *d, struct ips_err *err)
{
    bool enough =
        d->first >= DIFF_RUNS_MIN && d->runs - d->first >= DIFF_RUNS_MIN;
    int rc = 0;
    fill_means_and_change(d, d->total, &d->sum);
    d->sum.p = d->sum.low = d->sum.high = (double)NAN;
    for (size_t i = 0; i < d->count; i++) {
        struct diff_item *x = &d->item[i];
        fill_means_and_change(d, x->v, x);
        x->p = x->low = x->high = (double)NAN;
    }
    adjust_changes_to_add_up_to_total(d);
    if (enough) {
        rc = compute_p_values(d, err);
        compute_interval_of_change(d, d->total, &d->sum);
    }
    d->sum.cause = enough && rc == 0 && d->sum.p <= DIFF_CHANCE;
    for (size_t i = 0; enough && rc == 0 && i < d->count; i++) {
        struct diff_item *x = &d->item[i];
        compute_interval_of_change(d, x->v, x);
        x->cause = d->sum.cause && x->p <= DIFF_CHANCE &&
                   (x->change > 0) == (d->sum.change > 0) &&
                   llabs(x->change) >= llabs(d->sum.change) / DIFF_PART;
    }
    if (d->count)
        qsort(d->item, d->count, sizeof(*d->item), compare_items_by_change);
    return rc;
}

/* ---- names without process ids ------------------------------------------ */

/* Returns the length of the process id at `text` (".812", ".7#2"), or 0 if
 * there is none. */
static size_t process_id_length(const char *text)
{
    size_t n = 1;
    if (text[0] != '.' || !isdigit((unsigned char)text[1]))
        return 0;
    while (isdigit((unsigned char)text[n]))
        n++;
    if (text[n] == '#' && isdigit((unsigned char)text[n + 1]))
        for (n++; isdigit((unsigned char)text[n]);)
            n++;
    return text[n] == '\0' || text[n] == ' ' || text[n] == '/' ? n : 0;
}

void diff_strip_process_ids(const char *text, char *out, size_t size)
{
    size_t at = 0;
    for (size_t i = 0; text[i] && at + 1 < size;) {
        size_t skip = process_id_length(text + i);
        if (skip)
            i += skip;
        else
            out[at++] = text[i++];
    }
    if (size)
        out[at] = '\0';
}
