/*
 * Message times of one ordered pair of machines: MTIME(len) as points
 * (bytes, ns) between which it is linear, and as alpha + beta * len.
 *
 *  - A curve never falls: a longer message takes no less time. Measured points
 *    that say otherwise are brought together (the mean of neighbours that are
 *    the wrong way round), which is what fits them best.
 *  - Integers only: the same curve gives the same ns on every machine, so the
 *    engines stay equal bit for bit.
 *  - Below the first point it is the first point's time; beyond the last it
 *    goes on with the slope of the line.
 *  - The line is one that outliers do not move: beta is the median of the
 *    slopes between all pairs of points, each counted by how far apart they
 *    lie; alpha the median of what beta leaves.
 *
 * A map says which curve a message of a graph goes by: every channel end has
 * one. ips_graph_view() turns bytes into ns by it (analysis/graph/view.h).
 *
 * Pure. Source: DPM-3, DRO-2; ALGORITHMS 1.
 */
#ifndef IPS_ANALYSIS_GRAPH_MTIME_H
#define IPS_ANALYSIS_GRAPH_MTIME_H

#include "analysis/graph/graph.h"

#define IPS_CURVE_POINTS 64u
#define IPS_CURVE_MAX_BYTES (1ULL << 40)
#define IPS_CURVE_MAX_NS 3600000000000ULL /* of a point: an hour */

struct ips_curve {
    uint32_t count; /* points, by bytes; 0: no curve, every time is 0 */
    uint64_t bytes[IPS_CURVE_POINTS];
    uint64_t ns[IPS_CURVE_POINTS];
    uint64_t alpha_ns, beta_q32; /* the line */
};

/* Sorts, makes it monotone, fits the line. IPS_E_USAGE: no points or too many,
 * the same length twice, a value beyond the limits above. */
int ips_curve_make(const uint64_t *bytes, const uint64_t *ns, uint32_t count,
                   struct ips_curve *out, struct ips_err *err) IPS_MUST_USE;

/* MTIME of a message of so many bytes; O(log points). At most
 * IPS_TIME_LIMIT (kernel.h). */
uint64_t ips_curve_ns(const struct ips_curve *c, uint64_t bytes);

/* Lines that no time of the curve is below, or above. */
struct ips_mtime ips_curve_below(const struct ips_curve *c);
struct ips_mtime ips_curve_above(const struct ips_curve *c);

/* What a scenario has as message time whose graph has ns for bytes already. */
static inline struct ips_mtime ips_mtime_identity(void)
{
    return (struct ips_mtime){0, 1ULL << 32, 1, 1};
}

/* `which` of an end that has no curve: its messages take no time. */
#define IPS_NO_CURVE UINT32_MAX

struct ips_mtime_map {
    struct ips_curve *curve; /* [curve_count] */
    uint32_t curve_count;
    uint32_t *which; /* [end_count] the curve of messages that leave or reach
                        this end; beyond it and without an end: `other` */
    uint32_t end_count;
    uint32_t other;
};
void ips_mtime_map_release(struct ips_mtime_map *m);
uint64_t ips_mtime_map_ns(const struct ips_mtime_map *m, uint32_t end,
                          uint64_t bytes);

/* What g->out_ns is in a view by the graph's map: [out_count],
 * ips_free_large()d by the caller. */
int ips_mtime_outs(const struct ips_graph *g, uint64_t **out,
                   struct ips_err *err) IPS_MUST_USE;

/* ---- from rounds to a point ------------------------------------------- */

/* What a length's rounds say: half of each round trip less both ends' CPU. */
struct ips_half_trips {
    uint32_t rounds;
    uint64_t median_ns;
    uint64_t low_ns, high_ns; /* a tenth lies below, a tenth above */
};
/* trip_ns, near_ns and far_ns: [count] round trip, CPU of both ends; a round
 * whose ends took longer than it (they overlapped) is 0. Orders trip_ns anew.
 */
struct ips_half_trips ips_half_trips(uint64_t *trip_ns, const uint64_t *near_ns,
                                     const uint64_t *far_ns, uint32_t count);

/* ---- waking -------------------------------------------------------------- */

/* What waking a peer on another processor costs a send in CPU time: the median
 * of sends that do (apart) less that of sends to a sleeping peer on the same
 * processor (together), not below 0. [count] each; both are ordered anew. */
uint64_t ips_wake_ns(uint64_t *together_ns, uint64_t *apart_ns, uint32_t count);

#endif
