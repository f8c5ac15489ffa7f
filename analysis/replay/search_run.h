/*
 * Private to the placement search: its state, and what the local search
 * (search_local.c) uses from search.c.
 */
#ifndef IPS_ANALYSIS_REPLAY_SEARCH_RUN_H
#define IPS_ANALYSIS_REPLAY_SEARCH_RUN_H

#include "analysis/replay/search.h"
#include "common/types.h"

/* not an error: the search has ended; out->end says why */
#define SEARCH_STOP 1

struct search {
    const struct ips_search_ask *ask;
    struct ips_placement_search *out;
    uint32_t items, machines, free_count;
    uint32_t open_count;
    uint32_t *open;   /* [open_count] machines that are not closed */
    uint32_t *order;  /* [free_count] free items, heaviest first */
    uint32_t *before; /* [machines] the next lower machine of the same class
                         (alike), or IPS_SEARCH_FREE */
    uint32_t *next; /* [machines] the next higher machine of the same class, or
                       IPS_SEARCH_FREE */
    /* [machines] scratch: number of items on each machine while all maps are
     * listed; also used by compute_canonical_form_of_map() */
    uint32_t *users;
    uint32_t *renamed; /* [machines] scratch of several functions */
    uint32_t *canon;   /* [items] scratch: a map in canonical form (see
                          may_place_item_on()) */
    uint32_t *map;     /* [items] the current map */
    struct ips_placement_value worth; /* value of the current map */
    /* [known_capacity] values of the maps that were evaluated */
    struct ips_placement_value *known;
    uint16_t *maps; /* [known_capacity * items] the maps that were evaluated, in
                       canonical form */
    uint32_t known_count, known_capacity;
    uint32_t *table; /* hash table of maps: index into `known` + 1, or 0 */
    uint32_t table_capacity;
    uint64_t rng;
};

static inline bool search_machine_is_closed(const struct ips_search_ask *ask,
                                            uint32_t machine)
{
    return ask->closed && ask->closed[machine];
}

static inline uint32_t search_fixed_machine_of(const struct search *s,
                                               uint32_t item)
{
    return s->ask->fixed ? s->ask->fixed[item] : IPS_SEARCH_FREE;
}

/* Sets *worth to the value of s->map. Evaluates the map only if it is new. May
 * return SEARCH_STOP. */
int search_get_or_evaluate_current_map(struct search *s,
                                       struct ips_placement_value *worth,
                                       struct ips_err *err) IPS_MUST_USE;

/* Runs the local search from its start maps, then from random changes of the
 * best map. Sets out->end to IPS_SEARCH_SETTLED if it ends because no new map
 * is found. */
int search_local(struct search *s, struct ips_err *err) IPS_MUST_USE;

#endif
