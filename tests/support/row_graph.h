/* Graphs written out by hand, a row a node, for unit tests. */
#ifndef IPS_TESTS_ROW_GRAPH_H
#define IPS_TESTS_ROW_GRAPH_H

#include "analysis/graph/path.h"

/* A node; those of a chain follow each other, IPS_NODE_START begins the next.
 */
struct row {
    enum ips_node_kind kind;
    uint64_t w, at, wait, delay; /* ns */
    enum ips_xkind xkind;
    uint32_t xpred; /* where xkind is one */
    uint64_t xlen;  /* ns */
};

/* g with times, checked; for ips_graph_release. */
static inline void row_graph(const struct row *row, uint32_t n,
                             struct ips_graph *g)
{
    assert_int_equal(0, ips_graph_alloc(g, n, n, NULL));
    assert_int_equal(0, ips_graph_alloc_times(g, NULL));
    g->chain_count = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (row[i].kind == IPS_NODE_START)
            g->chains[g->chain_count++].first = i;
        g->chains[g->chain_count - 1].count++;
        g->kind[i] = (uint8_t)row[i].kind;
        g->w[i] = row[i].w;
        g->at[i] = row[i].at;
        g->wait[i] = row[i].wait;
        g->delay[i] = row[i].delay;
        g->xkind[i] = (uint8_t)row[i].xkind;
        g->xpred[i] = row[i].xkind ? row[i].xpred : IPS_NO_NODE;
        g->xlen[i] = row[i].xlen;
    }
    assert_int_equal(0, ips_graph_check_invariants(g, NULL));
}

#endif
