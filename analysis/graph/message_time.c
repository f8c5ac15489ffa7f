#include "analysis/graph/message_time.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/graph/kernel.h"
#include "common/large.h"

/* ---- making a curve ----------------------------------------------------- */

struct point {
    uint64_t bytes, ns;
};

static int compare_points_by_bytes(const void *a, const void *b)
{
    const struct point *x = a, *y = b;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* Isotonic regression: while a value is less than the one before it, both are
 * replaced by their mean. The result consists of runs of points with equal ns.
 */
static void make_monotone(struct point *p, uint32_t count)
{
    uint64_t sum[IPS_CURVE_POINTS];
    uint32_t size[IPS_CURVE_POINTS], runs = 0, at = 0;
    for (uint32_t i = 0; i < count; i++) {
        sum[runs] = p[i].ns;
        size[runs++] = 1;
        /* while the previous run's mean exceeds the last run's (compared
         * without a division) */
        while (runs > 1 && (ips_u128)sum[runs - 2] * size[runs - 1] >
                               (ips_u128)sum[runs - 1] * size[runs - 2]) {
            sum[runs - 2] += sum[runs - 1];
            size[runs - 2] += size[runs - 1];
            runs--;
        }
    }
    for (uint32_t r = 0; r < runs; r++)
        for (uint32_t k = 0; k < size[r]; k++)
            p[at++].ns = sum[r] / size[r];
}

struct slope {
    uint64_t q32, weight;
};

static int compare_slopes(const void *a, const void *b)
{
    const struct slope *x = a, *y = b;
    return (x->q32 > y->q32) - (x->q32 < y->q32);
}

static int compare_times_in_ns(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Returns the weighted median of the slopes between all pairs of points, which
 * must be monotone. */
static uint64_t median_slope(const struct ips_curve *c)
{
    static const uint32_t most = IPS_CURVE_POINTS * (IPS_CURVE_POINTS - 1) / 2;
    struct slope s[IPS_CURVE_POINTS * (IPS_CURVE_POINTS - 1) / 2];
    uint32_t n = 0;
    uint64_t all = 0, below = 0;
    for (uint32_t i = 0; i < c->count; i++) {
        for (uint32_t k = i + 1; k < c->count && n < most; k++) {
            uint64_t wide = c->bytes[k] - c->bytes[i];
            s[n++] = (struct slope){
                (uint64_t)(((ips_u128)(c->ns[k] - c->ns[i]) << 32) / wide),
                wide};
            all += wide;
        }
    }
    qsort(s, n, sizeof(*s), compare_slopes);
    for (uint32_t i = 0; i < n; i++) {
        below += s[i].weight;
        if (below >= all - all / 2)
            return s[i].q32;
    }
    return 0;
}

static void fit_line(struct ips_curve *c)
{
    uint64_t rest[IPS_CURVE_POINTS];
    c->beta_q32 = median_slope(c);
    for (uint32_t i = 0; i < c->count; i++)
        rest[i] = ips_sub_sat(c->ns[i], ips_mul_q32(c->bytes[i], c->beta_q32));
    qsort(rest, c->count, sizeof(*rest), compare_times_in_ns);
    c->alpha_ns = rest[(c->count - 1) / 2];
}

int ips_curve_build_from_points(const uint64_t *bytes, const uint64_t *ns,
                                uint32_t count, struct ips_curve *out,
                                struct ips_err *err)
{
    struct point p[IPS_CURVE_POINTS];
    memset(out, 0, sizeof(*out));
    if (count == 0 || count > IPS_CURVE_POINTS)
        return ips_err_set(err, IPS_E_USAGE,
                           "%u points: a curve has 1 to %u of them", count,
                           IPS_CURVE_POINTS);
    for (uint32_t i = 0; i < count; i++) {
        p[i] = (struct point){bytes[i], ns[i]};
        if (bytes[i] > IPS_CURVE_MAX_BYTES || ns[i] > IPS_CURVE_MAX_NS)
            return ips_err_set(err, IPS_E_USAGE,
                               "%" PRIu64 " bytes in %" PRIu64
                               " ns: at most 2^40 bytes and an hour",
                               bytes[i], ns[i]);
    }
    qsort(p, count, sizeof(*p), compare_points_by_bytes);
    for (uint32_t i = 1; i < count; i++) {
        if (p[i].bytes == p[i - 1].bytes)
            return ips_err_set(err, IPS_E_USAGE,
                               "two points of %" PRIu64 " bytes", p[i].bytes);
    }
    make_monotone(p, count);
    for (uint32_t i = 0; i < count; i++) {
        out->bytes[i] = p[i].bytes;
        out->ns[i] = p[i].ns;
    }
    out->count = count;
    fit_line(out);
    return 0;
}

/* ---- using a curve ------------------------------------------------------ */

uint64_t ips_curve_compute_message_ns(const struct ips_curve *c, uint64_t bytes)
{
    /* binary search: `low` becomes the first point beyond `bytes` */
    uint32_t low = 0, high = c->count;
    if (c->count == 0)
        return 0;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (c->bytes[mid] <= bytes)
            low = mid + 1;
        else
            high = mid;
    }
    if (low == 0)
        return c->ns[0];
    uint64_t over = bytes - c->bytes[low - 1];
    if (low == c->count) {
        uint64_t more = ips_mul_q32(over, c->beta_q32);
        return ips_min_u64(ips_add_sat(c->ns[low - 1], more), IPS_TIME_LIMIT);
    }
    uint64_t wide = c->bytes[low] - c->bytes[low - 1];
    uint64_t rise = c->ns[low] - c->ns[low - 1];
    return c->ns[low - 1] + (uint64_t)((ips_u128)rise * over / wide);
}

/* The line starts at 0 bytes with the first point's ns. Its slope is the least
 * of beta and the slopes from that start to all points. The curve is straight
 * between points and continues with beta beyond them, so the line is nowhere
 * above the curve. */
struct ips_message_time ips_curve_lower_bound_line(const struct ips_curve *c)
{
    uint64_t slope = c->count ? c->beta_q32 : 0;
    for (uint32_t i = 0; i < c->count; i++) {
        ips_u128 rise = (ips_u128)(c->ns[i] - c->ns[0]) << 32;
        if (c->bytes[i])
            slope = ips_min_u64(slope, (uint64_t)(rise / c->bytes[i]));
    }
    return (struct ips_message_time){c->count ? c->ns[0] : 0, slope, 1, 1};
}

struct ips_message_time ips_curve_upper_bound_line(const struct ips_curve *c)
{
    if (c->count == 0)
        return (struct ips_message_time){0, 0, 1, 1};
    return (struct ips_message_time){c->ns[c->count - 1], c->beta_q32, 1, 1};
}

void ips_message_time_map_release(struct ips_message_time_map *m)
{
    free(m->curve);
    free(m->which);
    memset(m, 0, sizeof(*m));
    m->other = IPS_NO_CURVE;
}

uint64_t ips_message_time_of_bytes_at_end(const struct ips_message_time_map *m,
                                          uint32_t end, uint64_t bytes)
{
    uint32_t which = end < m->end_count ? m->which[end] : m->other;
    return which < m->curve_count
               ? ips_curve_compute_message_ns(&m->curve[which], bytes)
               : 0;
}

int ips_compute_message_times_of_remote_sends(const struct ips_graph *g,
                                              uint64_t **out,
                                              struct ips_err *err)
{
    *out = ips_calloc_large((size_t)g->out_count + 1, sizeof(**out));
    if (!*out)
        return ips_err_set(err, IPS_E_NO_MEMORY, "message times of %u sends",
                           g->out_count);
    for (uint32_t k = 0; k < g->out_count; k++)
        (*out)[k] = ips_message_time_of_bytes_at_end(
            g->message_times, g->out[k].end, g->out[k].len);
    return 0;
}

/* ---- round trips --------------------------------------------------------- */

struct ips_compute_half_round_trip_statistics
ips_compute_half_round_trip_statistics(uint64_t *trip_ns,
                                       const uint64_t *near_ns,
                                       const uint64_t *far_ns, uint32_t count)
{
    struct ips_compute_half_round_trip_statistics h = {.rounds = count};
    if (count == 0)
        return h;
    for (uint32_t i = 0; i < count; i++)
        trip_ns[i] =
            ips_sub_sat(trip_ns[i], ips_add_sat(near_ns[i], far_ns[i])) / 2;
    qsort(trip_ns, count, sizeof(*trip_ns), compare_times_in_ns);
    h.low_ns = trip_ns[count / 10];
    h.median_ns = trip_ns[(count - 1) / 2];
    h.high_ns = trip_ns[count - 1 - count / 10];
    return h;
}

uint64_t ips_estimate_wake_cost_ns(uint64_t *together_ns, uint64_t *apart_ns,
                                   uint32_t count)
{
    if (count == 0)
        return 0;
    qsort(together_ns, count, sizeof(*together_ns), compare_times_in_ns);
    qsort(apart_ns, count, sizeof(*apart_ns), compare_times_in_ns);
    return ips_sub_sat(apart_ns[(count - 1) / 2], together_ns[(count - 1) / 2]);
}
