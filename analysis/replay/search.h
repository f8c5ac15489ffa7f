/*
 * Placement: which machine for each of a program's items (its processes), so
 * that it ends soonest. What a map is worth is asked of the caller, once for
 * each map that is new; so this knows nothing of graphs, and whatever a replay
 * takes into account is taken into account here. ips_search_bound() says what
 * no map can pass, from the graph alone.
 *
 * Where all maps are no more than the evaluations allowed (nor 2^24), all are
 * tried, and the answer is the best there is. Else a local search: from several
 * starts (a given map; the heaviest first to the emptiest machine; all on one
 * machine) one item is moved, or two are exchanged, as long as that makes the
 * makespan less, or keeps it and is better by the second measure; then the best
 * map is disturbed and the search goes on from there.
 *
 * Machines that are alike in all that a map's value depends on are not told
 * apart: of maps that differ by their exchange only one is tried.
 *
 * Deterministic: same question, same answer, progress apart. Order of maps:
 * makespan, number of machines used, then machine numbers by item.
 * Memory: (2 * items + 32) bytes an evaluation. Pure. Source: DPM-7, DPM-8.
 */
#ifndef IPS_ANALYSIS_REPLAY_SEARCH_H
#define IPS_ANALYSIS_REPLAY_SEARCH_H

#include "analysis/replay/replay.h"

#define IPS_SEARCH_FREE UINT32_MAX
#define IPS_SEARCH_TOP_MAX 100u

struct ips_search_worth {
    uint64_t makespan_ns;
    uint64_t second; /* among equals the lesser is nearer: the sum of the
                        times at which the chains ended, say */
};

struct ips_search_ask {
    uint32_t item_count;    /* at least 1 */
    uint32_t machine_count; /* 1 to IPS_REPLAY_MACHINES_MAX */
    const uint32_t *fixed;  /* [item_count] machine, or FREE; NULL: all free */
    const uint32_t *start_map; /* [item_count] a map to begin with, or NULL */
    /* [machine_count] only for what is fixed to it; NULL: none is. */
    const bool *closed;
    /* [machine_count] the lowest machine that is alike; NULL: none is. */
    const uint32_t *alike;
    const uint64_t *weight;   /* [item_count] its CPU ns */
    const uint64_t *capacity; /* [machine_count] work per time, of any unit */
    uint64_t bound_ns;        /* what no map can pass; 0: not known */
    uint64_t evaluations;     /* at most, at least 1 */
    uint64_t seed;
    uint32_t top;    /* maps wanted, 1 to IPS_SEARCH_TOP_MAX */
    bool local_only; /* do not try all, even where it could be done */
    int (*value)(void *ctx, const uint32_t *map, struct ips_search_worth *out,
                 struct ips_err *err);
    /* After each evaluation; NULL: none. False: stop here. */
    bool (*progress)(void *ctx, uint64_t evaluations, uint64_t best_ns);
    void *ctx;
};

enum ips_search_end {
    IPS_SEARCH_ALL,     /* every map was tried: the best there is */
    IPS_SEARCH_BOUND,   /* the bound was reached: the best there is */
    IPS_SEARCH_SETTLED, /* nothing new was met any more */
    IPS_SEARCH_BUDGET,  /* the evaluations are used up */
    IPS_SEARCH_STOPPED, /* `progress` said so */
};

struct ips_search_map {
    uint64_t makespan_ns;
    uint32_t used;     /* machines */
    uint32_t *machine; /* [item_count] */
};
struct ips_search {
    struct ips_search_map *best; /* the best first, all different */
    uint32_t count;              /* at most `top`; 0 where stopped at once */
    enum ips_search_end end;
    uint64_t evaluations;
    uint64_t starts; /* of the local search; 0: all were tried */
};

/* IPS_E_USAGE: the question is wrong; IPS_E_LIMIT: bounds above; or what
 * `value` returned. */
int ips_search(const struct ips_search_ask *ask, struct ips_search *out,
               struct ips_err *err) IPS_MUST_USE;
void ips_search_release(struct ips_search *s);

/* What no map can pass. Each is a lower bound of the makespan of ips_replay()
 * of `g` with any map that keeps `fixed`. */
struct ips_search_bound {
    /* The longest path with a core for each chain, on the quickest machine, and
     * with each message between the nearest machines. */
    uint64_t path_ns;
    uint64_t capacity_ns; /* all work, all machines busy to the end */
    uint64_t item_ns;     /* an item's work on the machine best for it */
    uint32_t item;        /* that one, IPS_SEARCH_FREE: none */
    uint64_t ns;          /* the greatest */
};
/* `ask`: its machines, loads and message times; without moves, its map is not
 * looked at, and no message waits for others on its medium. `item`:
 * [g->chain_count] of each chain. Three numbers a node. O((nodes + chains *
 * machines) + machines^2). */
int ips_search_bound(const struct ips_graph *g,
                     const struct ips_scenario *scenario,
                     const struct ips_replay_ask *ask, const uint32_t *item,
                     const struct ips_search_ask *of,
                     struct ips_search_bound *out,
                     struct ips_err *err) IPS_MUST_USE;

/* alike[m] of every machine of `ask`: equal machines, loads, message times and
 * media, to all others as to each other, not closed, and nothing of `of` fixed
 * to either. O(machines^3). */
void ips_search_alike(const struct ips_replay_ask *ask,
                      const struct ips_search_ask *of, uint32_t *alike);

#endif
