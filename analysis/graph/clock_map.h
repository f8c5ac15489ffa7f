/*
 * Maps one machine's clock to ns since the run's origin. If the origin is on
 * another machine's clock, the map comes from the alignment of the two clocks
 * (analysis/graph/clock_align.h). Integers only, so that every engine computes
 * the same weights.
 */
#ifndef IPS_ANALYSIS_GRAPH_CLOCK_MAP_H
#define IPS_ANALYSIS_GRAPH_CLOCK_MAP_H

#include <stdint.h>

#include "common/types.h"

/* Maps t to (t - from) * (1 + drift / 2^40) + shift, at least 0. If all members
 * are 0, maps t to itself. */
struct ips_clock_map {
    uint64_t from;     /* time of the local raw clock, ns */
    int64_t drift_q40; /* within +-IPS_DRIFT_MAX_Q40 */
    int64_t shift_ns;
};
/* 0.1 %: a greater drift means a damaged clock. */
#define IPS_DRIFT_MAX_Q40 1099511627LL

static inline uint64_t ips_clock_map_ns(const struct ips_clock_map *m,
                                        uint64_t t)
{
    if (!m->from && !m->drift_q40 && !m->shift_ns)
        return t;
    ips_i128 x = (ips_i128)t - (ips_i128)m->from;
    ips_i128 y = x + x * m->drift_q40 / ((ips_i128)1 << 40) + m->shift_ns;
    if (y < 0)
        return 0;
    return y > INT64_MAX ? (uint64_t)INT64_MAX : (uint64_t)y;
}

/* The inverse of ips_clock_map_ns(): returns the latest time of the local clock
 * that is mapped to y or less, or 0 if there is none. */
static inline uint64_t ips_clock_unmap_ns(const struct ips_clock_map *m,
                                          uint64_t y)
{
    uint64_t low = 0, high = INT64_MAX;
    while (low < high) {
        uint64_t mid = high - (high - low) / 2;
        if (ips_clock_map_ns(m, mid) <= y)
            low = mid;
        else
            high = mid - 1;
    }
    return low;
}

#endif
