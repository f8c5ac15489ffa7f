/*
 * A whole graph cut into any number of machines: each chain goes where it is
 * told, and every cross arc between two machines becomes a message on a
 * channel of its own direction. For tests of engines under any partition.
 */
#ifndef IPS_TESTS_CUT_GRAPH_H
#define IPS_TESTS_CUT_GRAPH_H

#include "analysis/graph/contract.h"

struct cut {
    uint32_t count;
    struct ips_graph *g;            /* [count] */
    struct ips_peer_end **peer;     /* [count] */
    struct ips_machine_graph *part; /* [count] as ips_graph_merge takes them */
    struct ips_graph merged;        /* of the parts, again */
    uint64_t crossing;              /* arcs that were cut */
};

/* `of` [whole->chain_count]: the machine of each chain, below `count`. Aborts
 * the test program where memory is short. */
void cut_make(const struct ips_graph *whole, const uint32_t *of, uint32_t count,
              struct cut *out);
void cut_release(struct cut *c);

#endif
