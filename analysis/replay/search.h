/*
 * Placement search: finds on which machine to run each item (process) of a
 * program so that the program ends soonest. A map assigns each item to a
 * machine. The search asks the caller once for the value of each new map. So it
 * needs no graph, and its results are as precise as the caller's replay.
 * ips_search_compute_bound() computes from the graph alone a bound that no map
 * can beat.
 *
 * If the number of maps does not exceed the allowed evaluations (nor 2^24), all
 * are tried and the result is optimal. Else a local search starts from several
 * maps (a given one; the heaviest item first to the emptiest machine; all on
 * one machine). It moves one item or swaps two as long as that shortens the
 * makespan, or keeps the makespan and improves the second measure. Then it
 * changes the best map at random and continues from there.
 *
 * Machines that are alike in everything that affects a map's value are
 * interchangeable: of maps that differ only by exchanging such machines, the
 * search tries one.
 *
 * Deterministic: the same request gives the same answer, unless `progress`
 * stops it. Maps are ordered by makespan, number of machines used, then machine
 * numbers by item. Memory: (2 * items + 32) bytes an evaluation. Pure.
 * Source: DPM-7, DPM-8.
 */
#ifndef IPS_ANALYSIS_REPLAY_SEARCH_H
#define IPS_ANALYSIS_REPLAY_SEARCH_H

#include "analysis/replay/replay.h"

#define IPS_SEARCH_FREE UINT32_MAX
#define IPS_SEARCH_TOP_MAX 100u

struct ips_placement_value {
    uint64_t makespan_ns;
    uint64_t second; /* of maps with equal makespan the one with the lesser
                        value is better; for example the sum of the times at
                        which the chains ended */
};

struct ips_search_ask {
    uint32_t item_count;    /* number of items, at least 1 */
    uint32_t machine_count; /* number of machines, 1 to
                               IPS_REPLAY_MACHINES_MAX */
    const uint32_t *fixed;  /* [item_count] machine, or IPS_SEARCH_FREE; NULL:
                               all are free */
    const uint32_t *start_map; /* [item_count] a map to start from, or NULL */
    /* [machine_count] true: the machine is only for items fixed to it; NULL: no
     * machine is closed. */
    const bool *closed;
    /* [machine_count] the lowest machine that is like this one, or this one if
     * none is lower; NULL: no two are alike. */
    const uint32_t *alike;
    const uint64_t *weight;   /* [item_count] CPU ns of the item */
    const uint64_t *capacity; /* [machine_count] work per time, in any unit */
    uint64_t bound_ns;        /* makespan that no map can beat; 0: unknown */
    uint64_t evaluations;     /* greatest number of evaluations, at least 1 */
    uint64_t seed;
    uint32_t top; /* number of maps wanted, 1 to IPS_SEARCH_TOP_MAX */
    /* true: use local search even if all maps could be tried */
    bool local_only;
    int (*value)(void *ctx, const uint32_t *map,
                 struct ips_placement_value *out, struct ips_err *err);
    /* Called after each evaluation; may be NULL. False: stop the search. */
    bool (*progress)(void *ctx, uint64_t evaluations, uint64_t best_ns);
    void *ctx;
};

enum ips_search_end {
    IPS_SEARCH_ALL,     /* every map was tried: the result is optimal */
    IPS_SEARCH_BOUND,   /* the bound was reached: the result is optimal */
    IPS_SEARCH_SETTLED, /* local search ended: its last starts found no new map
                         */
    IPS_SEARCH_BUDGET,  /* the allowed evaluations are used up */
    IPS_SEARCH_STOPPED, /* `progress` returned false */
};

struct ips_search_map {
    uint64_t makespan_ns;
    uint32_t used;     /* number of machines used */
    uint32_t *machine; /* [item_count] machine of each item */
};
struct ips_placement_search {
    struct ips_search_map *best; /* different maps, best first */
    uint32_t count; /* number of maps, at most `top`; 0 if the search stopped
                       before the first evaluation */
    enum ips_search_end end;
    uint64_t evaluations;
    uint64_t starts; /* number of maps from which local search started; 0: all
                        maps were tried */
};

/* Runs the search. IPS_E_USAGE: an invalid request; IPS_E_LIMIT: a limit above
 * is exceeded; or the error that `value` returned. */
int ips_placement_search(const struct ips_search_ask *ask,
                         struct ips_placement_search *out,
                         struct ips_err *err) IPS_MUST_USE;
void ips_search_release(struct ips_placement_search *s);

/* Bounds that no map can beat. Each is a lower bound of the makespan of
 * ips_replay() of `g` with any map that respects `fixed`. */
struct ips_search_compute_bound {
    /* The longest path with a core for each chain on the fastest machine, and
     * each message between the nearest machines. */
    uint64_t path_ns;
    uint64_t capacity_ns; /* time of all work if all machines were busy until
                             the end */
    uint64_t item_ns; /* greatest time of one item's work on the best machine
                         for that item */
    uint32_t item;    /* the item of item_ns; IPS_SEARCH_FREE: none */
    uint64_t ns;      /* the greatest of these bounds */
};
/* Computes the bounds. `ask` gives the machines, loads and message times. It
 * must have no moves; its map is not used, and its media are ignored. `item`
 * [g->chain_count]: item of each chain. `of` has the search's items, and the
 * machines that they may use. Takes O((nodes + chains * machines) + machines^2)
 * and the memory of three numbers a node. */
int ips_search_compute_bound(const struct ips_graph *g,
                             const struct ips_scenario *scenario,
                             const struct ips_replay_ask *ask,
                             const uint32_t *item,
                             const struct ips_search_ask *of,
                             struct ips_search_compute_bound *out,
                             struct ips_err *err) IPS_MUST_USE;

/* Sets alike[m] for every machine of `ask`. Two machines are alike if they have
 * equal cores, speed, loads, message times and media, to all others and to each
 * other, are not closed, and no item of `of` is fixed to either.
 * O(machines^3). */
void ips_search_find_alike_machines(const struct ips_replay_ask *ask,
                                    const struct ips_search_ask *of,
                                    uint32_t *alike);

#endif
