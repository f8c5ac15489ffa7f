/*
 * Private to the placement search: its state, and what the local search
 * (search_local.c) takes of the rest (search.c).
 */
#ifndef IPS_ANALYSIS_REPLAY_SEARCH_RUN_H
#define IPS_ANALYSIS_REPLAY_SEARCH_RUN_H

#include "analysis/replay/search.h"
#include "common/types.h"

#define SEARCH_STOP 1 /* no error: the search is over, out->end says why */

struct search {
    const struct ips_search_ask *ask;
    struct ips_search *out;
    uint32_t items, machines, free_count;
    uint32_t open_count;
    uint32_t *open;    /* [open_count] machines that are not closed */
    uint32_t *order;   /* [free_count] free items, heaviest first */
    uint32_t *before;  /* [machines] the next lower of its class, or FREE */
    uint32_t *next;    /* [machines] the next higher of its class, or FREE */
    uint32_t *users;   /* [machines] scratch */
    uint32_t *renamed; /* [machines] scratch */
    uint32_t *canon;   /* [items] scratch */
    uint32_t *map;     /* [items] the map at hand */
    struct ips_search_worth worth;  /* its */
    struct ips_search_worth *known; /* of maps that were evaluated */
    uint16_t *maps; /* [known_capacity * items] these, in canonical form */
    uint32_t known_count, known_capacity;
    uint32_t *table; /* index of known + 1, 0 none */
    uint32_t table_capacity;
    uint64_t rng;
};

static inline bool search_closed(const struct ips_search_ask *ask,
                                 uint32_t machine)
{
    return ask->closed && ask->closed[machine];
}

static inline uint32_t search_fixed(const struct search *s, uint32_t item)
{
    return s->ask->fixed ? s->ask->fixed[item] : IPS_SEARCH_FREE;
}

/* What s->map is worth, asked only where it is not known; or SEARCH_STOP. */
int search_worth(struct search *s, struct ips_search_worth *worth,
                 struct ips_err *err) IPS_MUST_USE;

/* From all starts, until the end; sets out->end where that is SETTLED. */
int search_local(struct search *s, struct ips_err *err) IPS_MUST_USE;

#endif
