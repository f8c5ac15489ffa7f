/*
 * Message times of one ordered pair of machines: a curve MTIME(len) given by
 * points (bytes, ns), linear between them, and the line alpha + beta * len.
 *  - A curve never falls: a longer message takes no less time. Adjacent
 *    measured points in the wrong order are replaced by their mean, which is
 *    the best monotone fit.
 *  - Integers only: the same curve gives the same ns on every machine, so the
 *    engines agree bit for bit.
 *  - Below the first point the time is the first point's; beyond the last point
 *    the curve continues with the slope of the line.
 *  - The line is robust against outliers: beta is the median of the slopes
 *    between all pairs of points, weighted by their distance in bytes; alpha is
 * the median of ns - beta * bytes.
 *
 * A map assigns a curve to every channel end, and so to every message of a
 * graph. ips_graph_make_view() converts bytes to ns with it
 * (analysis/graph/view.h).
 *
 * Pure.
 * Source: DPM-3, DRO-2; ALGORITHMS 1.
 */
#ifndef IPS_ANALYSIS_GRAPH_MTIME_H
#define IPS_ANALYSIS_GRAPH_MTIME_H

#include "analysis/graph/graph.h"

#define IPS_CURVE_POINTS 64u
#define IPS_CURVE_MAX_BYTES (1ULL << 40)
/* Greatest message time of a point of the curve: an hour. */
#define IPS_CURVE_MAX_NS 3600000000000ULL

struct ips_curve {
    uint32_t count; /* number of points, which are sorted by bytes; 0: there is
                       no curve, and every message time is 0 */
    uint64_t bytes[IPS_CURVE_POINTS];
    uint64_t ns[IPS_CURVE_POINTS];
    uint64_t alpha_ns, beta_q32; /* the fitted line */
};

/* Sorts the points, makes them monotone and fits the line. IPS_E_USAGE: no
 * points or too many, a length occurs twice, or a value exceeds the limits
 * above. */
int ips_curve_build_from_points(const uint64_t *bytes, const uint64_t *ns,
                                uint32_t count, struct ips_curve *out,
                                struct ips_err *err) IPS_MUST_USE;

/* Returns the message time of `bytes` bytes, at most IPS_TIME_LIMIT (kernel.h);
 * O(log points). */
uint64_t ips_curve_compute_message_ns(const struct ips_curve *c,
                                      uint64_t bytes);

/* Returns a line that is nowhere above the curve. ips_curve_upper_bound_line()
 * returns a line that is nowhere below it. */
struct ips_message_time ips_curve_lower_bound_line(const struct ips_curve *c);
struct ips_message_time ips_curve_upper_bound_line(const struct ips_curve *c);

/* Returns the message time model for a graph whose lengths are already ns
 * instead of bytes: 1 ns for each ns. */
static inline struct ips_message_time ips_message_time_identity(void)
{
    return (struct ips_message_time){0, 1ULL << 32, 1, 1};
}

/* Entry of ips_message_time_map.which for an end without a curve: its messages
 * take no time. */
#define IPS_NO_CURVE UINT32_MAX

struct ips_message_time_map {
    struct ips_curve *curve; /* [curve_count] the curves */
    uint32_t curve_count;
    /* [end_count] index of the curve for messages that leave or reach this
     * channel end. Messages without an end, or whose end is not below
     * end_count, use the curve with index `other`. */
    uint32_t *which;
    uint32_t end_count;
    uint32_t other;
};
void ips_message_time_map_release(struct ips_message_time_map *m);
uint64_t ips_message_time_of_bytes_at_end(const struct ips_message_time_map *m,
                                          uint32_t end, uint64_t bytes);

/* Computes the message time in ns of each remote send of `g` by the map
 * g->message_times, for `out_ns` of a view of `g`. Sets *out to an array
 * [g->out_count], which the caller frees with ips_free_large(). */
int ips_compute_message_times_of_remote_sends(const struct ips_graph *g,
                                              uint64_t **out,
                                              struct ips_err *err) IPS_MUST_USE;

/* ---- statistics of measured round trips --------------------------------- */

/* Statistics of all ping-pong rounds with messages of one length. Each round
 * counts with half of its round trip, after the CPU time of the two ends was
 * subtracted. */
struct ips_compute_half_round_trip_statistics {
    uint32_t rounds;
    uint64_t median_ns;
    uint64_t low_ns, high_ns; /* 10th and 90th percentile */
};
/* Computes the statistics. trip_ns: [count] round trips; near_ns, far_ns:
 * [count] CPU time of the two ends in each. A round counts as 0 if the ends'
 * CPU time exceeds the round trip (they ran at the same time). Overwrites and
 * sorts trip_ns. */
struct ips_compute_half_round_trip_statistics
ips_compute_half_round_trip_statistics(uint64_t *trip_ns,
                                       const uint64_t *near_ns,
                                       const uint64_t *far_ns, uint32_t count);

/* ---- cost of waking a peer ---------------------------------------------- */

/* Returns the CPU time that a send spends on waking a peer on another
 * processor: the median time of sends that do so (apart_ns) minus the median
 * time of sends to a sleeping peer on the same processor (together_ns), at
 * least 0. Both arrays have `count` entries and are reordered. */
uint64_t ips_estimate_wake_cost_ns(uint64_t *together_ns, uint64_t *apart_ns,
                                   uint32_t count);

#endif
