/*
 * Sums over the segments of a path. A slave sends the sums instead of the
 * segments for a scenario whose answer shows no segments. Pure.
 *
 * Invariant: two segments share a sum only if the master's shares
 * (master/path/shares.h) treat them alike, whatever the order of the segments.
 */
#ifndef IPS_SLAVE_SERVE_PATH_SUMS_H
#define IPS_SLAVE_SERVE_PATH_SUMS_H

#include "analysis/graph/path.h"
#include "slave/base/intern.h"
#include "slave/build/types.h"

struct slave_path_sum {
    /* kind (enum ips_segment_kind) and xkind (enum ips_xkind) of the segments
     * in this sum */
    uint8_t kind, xkind;
    bool has_ns; /* true: all segments of the sum have ns > 0; false: all have 0
                    ns */
    /* chain of the segment that precedes, on the path, each segment of the sum
     */
    uint32_t before;
    uint32_t chain;
    uint32_t count;
    uint64_t ns;
};
struct slave_path_sums { /* must be zeroed before use */
    B_ARRAY(struct slave_path_sum) sum;
    struct slave_intern index;
};
void slave_path_sums_release(struct slave_path_sums *s);

/* Adds the segments of the path that ips_path_find_between() finds. O(nodes of
 * the path). */
int slave_path_sums_add_path(struct slave_path_sums *s,
                             const struct ips_graph *g, const struct ips_est *e,
                             uint32_t from, uint32_t to,
                             struct ips_err *err) IPS_MUST_USE;

#endif
