/*
 * Aligns the clocks of two machines by the messages between them. A message is
 * received after it was sent. So a message from A to B bounds the offset (B's
 * clock less A's) from above at the moment of the send, and one from B to A
 * bounds it from below at the moment of the receive. Each message is a point
 * (A's time, offset). The true offset is a line below all points of the first
 * kind and above all of the second, so it is between the lower hull of the
 * first and the upper hull of the second. The set of such lines is a convex
 * polygon in (slope, offset); its corners of least and greatest slope are the
 * two internal tangents of the hulls. The code keeps the polygon's corners,
 * because they show for every time how far the computed offset can be from the
 * true one.
 *
 * If no line fits, a clock has stepped (or a match of messages is false). The
 * points are then cut, in order of time, into pieces that each have a line. The
 * longest piece is used, and the bound covers how far the points of the other
 * pieces exceed it.
 *
 * Pure. The line is computed in floating point; the result is integers
 * (clock_map.h), so every engine sees the same weights.
 * Source: ALGORITHMS 6; IPS-13 (phases across machines need one clock).
 */
#ifndef IPS_ANALYSIS_GRAPH_CLOCK_ALIGN_H
#define IPS_ANALYSIS_GRAPH_CLOCK_ALIGN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/graph/clock_map.h"
#include "common/err.h"

struct ips_clock_point {
    uint64_t a, b; /* ns of A's clock and of B's: one is the send, the other the
                      receive */
    bool from_a;
};

struct ips_clock_fit {
    uint64_t from; /* A's time of the first point; B = A + offset_ns + (A -
                      from) * drift_q40 / 2^40 */
    int64_t offset_ns;
    int64_t drift_q40;
    uint64_t bound_ns; /* greatest possible error of the offset in the requested
                          span */
    /* True: there were messages in both directions. False: bound_ns is
     * UINT64_MAX, and the fastest message is assumed to have taken 0 ns. */
    bool bounded;
    uint32_t pieces; /* number of pieces: 1, or more if a clock has stepped */
};

/* A span of A's clock, ns. bound_ns holds from the first to the last point, and
 * beyond them from `from` to `to`, where the possible lines diverge. `from`
 * UINT64_MAX and `to` 0: only between the points. */
struct ips_clock_span {
    uint64_t from, to;
};
#define IPS_CLOCK_BETWEEN ((struct ips_clock_span){UINT64_MAX, 0})

/* Aligns two clocks; sorts `points`. IPS_E_NOT_FOUND if there are no points.
 * O(n log n). */
int ips_clock_compute_fit(struct ips_clock_point *points, size_t count,
                          struct ips_clock_span span, struct ips_clock_fit *out,
                          struct ips_err *err) IPS_MUST_USE;

/* Maps the clocks of all machines to the run's origin along a spanning tree
 * that starts at machine `root` and adds the machine of least bound next.
 * fit[i * count + k] aligns machine i (A) to machine k (B); pieces 0: no
 * messages between them. The caller sets map[root]; map[i] is set for every
 * other machine that messages connect to the root, directly or through
 * others. linked[i] is set to whether they do; if not, map[i] is not
 * changed. bound[i] is the sum of the bounds on the way to the root,
 * UINT64_MAX: unknown. */
void ips_clock_compute_maps_to_root(const struct ips_clock_fit *fit,
                                    uint32_t count, uint32_t root,
                                    struct ips_clock_map *map, uint64_t *bound,
                                    bool *linked);

#endif
