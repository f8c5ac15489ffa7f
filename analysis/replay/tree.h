/*
 * Private to the replay: which of many comes first. A tournament: leaves hold
 * items, every node above the lesser of its two, the root the first of all.
 * What a leaf holds is changed in log2(room) steps whose addresses the leaf
 * gives and whose way depends on no comparison: nothing for a processor to
 * guess wrong, where a heap has one guess a level.
 *
 * Order: by key, then by id; of equals of both it is open which comes first.
 * Leaves are given out anew in the order that they were given back; the room
 * doubles when all are taken, and never shrinks. Pure.
 */
#ifndef IPS_ANALYSIS_REPLAY_TREE_H
#define IPS_ANALYSIS_REPLAY_TREE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "common/types.h"

#define RP_NEVER UINT64_MAX /* key of a leaf that holds nothing */

struct rp_item {
    uint64_t key;
    uint64_t who; /* id, and below it the leaf: what decides between equals */
};
struct rp_tree {
    struct rp_item *at; /* [2 * room]; at[1] the first, at[room + k] leaf k */
    uint32_t capacity;  /* a power of two, at least 1 */
    uint32_t used;      /* leaves that were ever given out */
    uint32_t free_leaf; /* leaves given back, linked by their `who` */
};
#define RP_NO_LEAF UINT32_MAX

static inline uint32_t rp_item_id(const struct rp_item *i)
{
    return (uint32_t)(i->who >> 32);
}
static inline uint32_t rp_item_leaf(const struct rp_item *i)
{
    return (uint32_t)i->who;
}
static inline uint64_t rp_tree_key(const struct rp_tree *t)
{
    return t->at[1].key;
}

/* One number of 128 bits: compared by one subtraction, chosen without a
 * branch. */
static inline ips_u128 rp_item_wide(const struct rp_item *i)
{
    return (ips_u128)i->key << 64 | i->who;
}

/* From now on leaf `leaf` holds (key, id). */
static inline void rp_tree_set(struct rp_tree *t, uint32_t leaf, uint64_t key,
                               uint32_t id)
{
    ips_u128 least = (ips_u128)key << 64 | (uint64_t)id << 32 | leaf;
    /* Offsets, not indices: each level is a dozen instructions. */
    size_t at = ((size_t)t->capacity + leaf) * sizeof(struct rp_item);
    char *base = (char *)t->at;
    for (;;) {
        struct rp_item *to = (struct rp_item *)(void *)(base + at);
        to->key = (uint64_t)(least >> 64);
        to->who = (uint64_t)least;
        if (at <= sizeof(*to))
            break;
        ips_u128 other =
            rp_item_wide((struct rp_item *)(void *)(base + (at ^ sizeof(*to))));
        least = other < least ? other : least;
        at = at / 2 & ~(sizeof(*to) - 1);
    }
}

/* `leaf` holds nothing, and may be given out again. */
static inline void rp_tree_drop(struct rp_tree *t, uint32_t leaf)
{
    rp_tree_set(t, leaf, RP_NEVER, t->free_leaf);
    t->free_leaf = leaf;
}

/* All empty. False: no memory. */
bool rp_tree_init(struct rp_tree *t, uint32_t room);
void rp_tree_release(struct rp_tree *t);
/* Twice the room. False: no memory, and it is as it was. */
bool rp_tree_reserve(struct rp_tree *t);

/* A leaf that holds nothing, or RP_NO_LEAF: no memory. */
static inline uint32_t rp_tree_leaf(struct rp_tree *t)
{
    uint32_t leaf = t->free_leaf;
    if (leaf != RP_NO_LEAF) {
        t->free_leaf = rp_item_id(&t->at[t->capacity + leaf]);
        return leaf;
    }
    if (t->used == t->capacity && !rp_tree_reserve(t))
        return RP_NO_LEAF;
    return t->used++;
}

#endif
