/*
 * Sums over the pieces of a path: of a scenario that shows no pieces, a slave
 * sends these instead. Pure.
 *
 * Invariant: two pieces are in one sum only where the master's shares
 * (master/path/shares.h) cannot tell them apart, whatever the order of the
 * pieces.
 */
#ifndef IPS_SLAVE_SERVE_PATH_SUMS_H
#define IPS_SLAVE_SERVE_PATH_SUMS_H

#include "analysis/graph/path.h"
#include "slave/base/intern.h"
#include "slave/build/types.h"

struct slave_path_sum {
    uint8_t kind, xkind; /* enum ips_segment_kind, enum ips_xkind */
    bool has_ns;         /* its pieces have ns */
    uint32_t before;     /* chain of the pieces before its own */
    uint32_t chain;
    uint32_t count;
    uint64_t ns;
};
struct slave_path_sums { /* zeroed to begin with */
    B_ARRAY(struct slave_path_sum) sum;
    struct slave_intern index;
};
void slave_path_sums_release(struct slave_path_sums *s);

/* Adds the pieces of ips_path_between(). O(nodes of it). */
int slave_path_sums_add(struct slave_path_sums *s, const struct ips_graph *g,
                        const struct ips_est *e, uint32_t from, uint32_t to,
                        struct ips_err *err) IPS_MUST_USE;

#endif
