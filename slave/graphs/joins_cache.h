/*
 * Caches the joins of a graph: the graph contracted to the nodes that matter to
 * other machines (analysis/distributed/joins.h). The cache has the joins of the
 * last scenario asked for, in memory and in the graph's file, so that a
 * repeated question need not compute them, even after a restart. They take a
 * twentieth of the graph's size.
 *
 * Invariants: the cached joins belong to the peers that are set (setting others
 * drops them) and to one scenario. Nothing is cached for a scenario with
 * message times from PeersAsk (`calibrated`). The joins of another scenario do
 * not replace the cached ones while a reply is being sent from the cache.
 *
 * Runs on the worker thread.
 */
#ifndef IPS_SLAVE_GRAPHS_JOINS_CACHE_H
#define IPS_SLAVE_GRAPHS_JOINS_CACHE_H

#include "analysis/distributed/joins.h"

#define SLAVE_SCENARIO_WORD_COUNT 15

/* A scenario as an array without padding, so that memcmp compares scenarios. */
struct slave_scenario_words {
    uint64_t v[SLAVE_SCENARIO_WORD_COUNT];
};
struct slave_scenario_words
slave_scenario_make_cache_key(const struct ips_scenario *scenario);

struct slave_joins_cached { /* all members 0: nothing is cached */
    bool there;
    /* the joins are in the mapped graph file, so the cache does not free
     * them */
    bool mapped;
    /* number of jobs that still send these joins, or joins that were in this
     * cache before */
    uint32_t users;
    struct slave_scenario_words of;
    struct ips_joins joins;
};
/* Empties the cache. */
void slave_joins_clear_cache(struct slave_joins_cached *k);

struct slave_graph;
/* Gets the joins of `g` for this scenario. Sets *out to the cached joins, which
 * it makes first if needed. If they cannot be cached, makes them in *own and
 * sets *out to `own`. If *used is set, call slave_joins_end_use afterwards. */
int slave_joins_get_or_compute(struct slave_graph *g,
                               const struct ips_scenario *scenario,
                               struct ips_joins *own,
                               const struct ips_joins **out, bool *used,
                               struct ips_err *err) IPS_MUST_USE;
/* Call when the job no longer needs the joins from
 * slave_joins_get_or_compute(). */
void slave_joins_end_use(struct slave_joins_cached *k);

#endif
