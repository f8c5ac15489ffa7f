/*
 * Two machines' clocks from the messages between them. A message was received
 * after it was sent, so one from A to B bounds B's clock less A's at the
 * sender's moment from above, and one from B to A at the receiver's from below.
 * With points (A's time, B's less A's) the offset is a line below all of the
 * first and above all of the second: the lower hull of the one and the upper
 * hull of the other. All such lines are a convex polygon in (slope, offset);
 * its corners of least and greatest slope are the hulls' two internal tangents.
 * The polygon is kept, corner by corner: it says at every moment how far the
 * offset can be off.
 *
 * Where no line fits, a clock has stepped (or a match is false): the points are
 * cut, in order of time, into pieces that each have a line; the longest one is
 * used and the bound covers how far the others' points lie beyond it.
 *
 * Pure. Doubles work out the line; what leaves is integers (clock_map.h), so
 * every engine sees the same weights.
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
    uint64_t a, b; /* ns of A's clock and B's: one sent, the other received */
    bool from_a;
};

struct ips_clock_fit {
    uint64_t from; /* B = A + offset_ns + (A - from) * drift / 2^40 */
    int64_t offset_ns;
    int64_t drift_q40;
    uint64_t bound_ns; /* the true offset is no further from it in the time that
                          was asked for */
    bool bounded;      /* messages both ways; else bound_ns says nothing, and
                          the quickest message is taken to have taken 0 */
    uint32_t pieces;   /* 1, or more where a clock has stepped */
};

/* Moments of A's clock, ns. The bound holds between the first and the last
 * point, and before and after them from `from` to `to`: there the lines that
 * the points allow diverge. UINT64_MAX and 0: only between the points. */
struct ips_clock_span {
    uint64_t from, to;
};
#define IPS_CLOCK_BETWEEN ((struct ips_clock_span){UINT64_MAX, 0})

/* Sorts `points`. IPS_E_NOT_FOUND without any. O(n log n). */
int ips_clock_align(struct ips_clock_point *points, size_t count,
                    struct ips_clock_span span, struct ips_clock_fit *out,
                    struct ips_err *err) IPS_MUST_USE;

/* A spanning tree from machine `root` over all others, by the least bound:
 * fit[i * count + k] aligns machine i (A) to machine k (B), pieces 0: no
 * messages. map[root] is given; bound[i] is UINT64_MAX where it is not known,
 * linked[i] false where no messages lead to it (map[i] is left alone). */
void ips_clock_tree(const struct ips_clock_fit *fit, uint32_t count,
                    uint32_t root, struct ips_clock_map *map, uint64_t *bound,
                    bool *linked);

#endif
