/*
 * The hand-computed graphs G1-G7 of the design, for unit tests: node by node,
 * chain after chain, so a node's number is its line. "6 send m" = 6 units of
 * CPU, then the node.
 */
#ifndef IPS_TESTS_GOLDEN_H
#define IPS_TESTS_GOLDEN_H

#include "analysis/graph/graph.h"

struct golden_node {
    enum ips_node_kind kind;
    uint64_t w;
    enum ips_xkind xkind;
    uint32_t xpred;
    uint64_t xlen;
};
struct golden {
    const char *name;
    uint64_t message_time_ns;
    uint64_t t_max, total;
    uint64_t t_max_free; /* messages cost nothing: P_max = total / this */
    uint32_t node_count;
    struct golden_node node[16];
};
enum { GOLDEN_COUNT = 7 };
extern const struct golden golden[GOLDEN_COUNT];

/* Aborts the test program where memory is short. */
void golden_make(const struct golden *from, struct ips_graph *g);
struct ips_scenario golden_lane(const struct golden *from);

#endif
