/*
 * The longest paths of a graph, not only the first: best first, backwards, a
 * partial path's priority being EST of where it begins + the length of what
 * follows. EST is the exact remainder, so paths come out in order of length,
 * exactly, and nothing is walked that is not asked for.
 *
 * Neighbours of the longest path differ from it trivially (one round trip of a
 * thousand done the other way), so paths are grouped, and of every group comes
 * the longest, in order of length:
 *
 *   PATHS     every path is its own group
 *   SEQUENCE  by the labels that the path meets one after the other
 *   SET       by which labels it meets, however often and in whatever order: a
 *             loop through the same processes is one group
 *
 * A label is that of a node (the procedure of the arc that leads to it; none:
 * IPS_NO_LABEL), or else of its chain (its process). Two partial paths with one
 * node and the same labels behind them can only be continued in the same way:
 * the shorter one is dropped at once, so grouping costs nothing per path of a
 * group.
 *
 * Paths begin at nodes without an in-arc and end at ENDs. Paths of equal
 * length come in a fixed order.
 *
 * Memory: 64 bytes for each path asked for with PATHS; else some 60 for each
 * (node with two in-arcs, group) met, at most `limit_bytes` in all. Where the
 * search would need more it stops: what it found before is exact, and *complete
 * is false. Source: ALGORITHMS 4; priority search after Hart, Nilsson, Raphael
 * 1968.
 */
#ifndef IPS_ANALYSIS_WHATIF_NEXT_H
#define IPS_ANALYSIS_WHATIF_NEXT_H

#include "analysis/graph/path.h"

enum ips_next_group { IPS_NEXT_PATHS, IPS_NEXT_SEQUENCE, IPS_NEXT_SET };

#define IPS_NO_LABEL UINT32_MAX

struct ips_next_ask {
    enum ips_next_group group;
    uint32_t k;                  /* at most so many, 1 or more */
    const uint32_t *chain_label; /* [chain_count] */
    const uint32_t *node_label;  /* [node_count], or NULL */
    uint64_t limit_bytes;        /* 0: IPS_NEXT_LIMIT_BYTES */
};
#define IPS_NEXT_LIMIT_BYTES (128ULL << 20)

struct ips_next_path {
    uint64_t ns;
    uint32_t end;    /* the END */
    uint32_t *label; /* [label_count] from the path's beginning on */
    uint32_t label_count;
    struct ips_path path; /* of the longest of the group */
};
struct ips_next {
    struct ips_next_path *path; /* longest first */
    uint32_t count;
    bool complete; /* false: the limit was reached; there may be more */
};
void ips_next_release(struct ips_next *n);

/* `e` is what ips_longest_path() gave for this graph without remote
 * references, and scenario. */
int ips_next_paths(const struct ips_graph *g,
                   const struct ips_scenario *scenario, const struct ips_est *e,
                   const struct ips_next_ask *ask, struct ips_next *out,
                   struct ips_err *err) IPS_MUST_USE;

#endif
