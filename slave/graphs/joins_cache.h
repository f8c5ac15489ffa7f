/*
 * The joins of a graph (analysis/distributed/joins.h), as they were asked for
 * last, kept beside it and in its file: who asks again, or after the slave was
 * started anew, is sent what is there. They are a twentieth of the graph.
 *
 * Invariants: what is kept is of the peers that are set (others drop it) and of
 * one scenario. Of a scenario by message times that PeersAsk brought
 * (`calibrated`) nothing is kept. While a reply is sent from it, it is not
 * replaced.
 *
 * Thread: the worker's.
 */
#ifndef IPS_SLAVE_GRAPHS_JOINS_CACHE_H
#define IPS_SLAVE_GRAPHS_JOINS_CACHE_H

#include "analysis/distributed/joins.h"

#define SLAVE_LANE_WORDS 15

/* A scenario as words without gaps: equal words, equal scenario. */
struct slave_scenario_words {
    uint64_t v[SLAVE_LANE_WORDS];
};
struct slave_scenario_words
slave_scenario_words(const struct ips_scenario *scenario);

struct slave_joins_cached { /* all 0: nothing is kept */
    bool there;
    bool mapped;    /* in the graph's file: not ours to release */
    uint32_t users; /* replies being sent from it, or from what it was */
    struct slave_scenario_words of;
    struct ips_joins joins;
};
void slave_joins_drop(struct slave_joins_cached *k);

struct slave_graph;
/* The joins of `g` in that scenario: those kept, or made now and kept, or,
 * where that cannot be, made in *own. *used: slave_joins_put is to be called.
 */
int slave_joins_get(struct slave_graph *g, const struct ips_scenario *scenario,
                    struct ips_joins *own, const struct ips_joins **out,
                    bool *used, struct ips_err *err) IPS_MUST_USE;
void slave_joins_put(struct slave_joins_cached *k);

#endif
