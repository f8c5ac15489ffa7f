/*
 * Caches the joins of a graph (analysis/distributed/joins.h) for the last
 * scenario asked for, in memory and in the graph's file, so that repeated
 * questions are answered without computing them, also after a restart. They
 * take a twentieth of the graph's size.
 *
 * Invariants: the cached joins belong to the peers that are set (setting others
 * drops them) and to one scenario. Nothing is cached for a scenario with
 * message times from PeersAsk (`calibrated`). While a reply is being sent from
 * the cache, it is not replaced.
 *
 * Thread: the worker's.
 */
#ifndef IPS_SLAVE_GRAPHS_JOINS_CACHE_H
#define IPS_SLAVE_GRAPHS_JOINS_CACHE_H

#include "analysis/distributed/joins.h"

#define SLAVE_LANE_WORDS 15

/* A scenario as an array without padding, so that memcmp compares scenarios. */
struct slave_scenario_words {
    uint64_t v[SLAVE_LANE_WORDS];
};
struct slave_scenario_words
slave_scenario_words(const struct ips_scenario *scenario);

struct slave_joins_cached { /* if all 0, nothing is cached */
    bool there;
    /* the joins are in the mapped graph file, so they are not freed here */
    bool mapped;
    /* number of replies being sent from the cached joins, or from earlier
     * ones */
    uint32_t users;
    struct slave_scenario_words of;
    struct ips_joins joins;
};
void slave_joins_drop(struct slave_joins_cached *k);

struct slave_graph;
/* Gets the joins of `g` in that scenario. *out points to the cached ones, after
 * making and caching them if needed; if they cannot be cached, to *own. If
 * *used is set, call slave_joins_end_use afterwards. */
int slave_joins_get(struct slave_graph *g, const struct ips_scenario *scenario,
                    struct ips_joins *own, const struct ips_joins **out,
                    bool *used, struct ips_err *err) IPS_MUST_USE;
void slave_joins_end_use(struct slave_joins_cached *k);

#endif
