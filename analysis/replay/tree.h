/*
 * Private to the replay: a tournament tree that finds the first of many items.
 * Leaves hold items, each inner node is the lesser of its two children, so the
 * root is the first of all. A change of a leaf takes log2(capacity) steps whose
 * addresses depend only on the leaf and not on comparisons: no branch can be
 * mispredicted. A heap has one unpredictable branch a level.
 *
 * Order: by key, then by id; the order of items with equal key and id is
 * unspecified. Freed leaves are reused, the last freed first. The capacity
 * doubles when all leaves are used, and never shrinks. Pure.
 */
#ifndef IPS_ANALYSIS_REPLAY_TREE_H
#define IPS_ANALYSIS_REPLAY_TREE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "common/types.h"

#define RP_NEVER UINT64_MAX /* key of an empty leaf */

struct rp_item {
    uint64_t key;
    uint64_t who; /* id in the high half, leaf in the low half; orders items
                     with equal keys */
};
struct rp_tree {
    struct rp_item *at; /* [2 * capacity]; at[1] is the first item, at[capacity
                           + k] is leaf k */
    uint32_t capacity;  /* number of leaves: a power of two, at least 1 */
    uint32_t used;      /* leaves that were ever used */
    uint32_t free_leaf; /* first freed leaf; an empty leaf's id is the next
                           freed leaf */
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
static inline uint64_t rp_tree_first_key(const struct rp_tree *t)
{
    return t->at[1].key;
}

/* Returns the item as one number of 128 bits, so that items are compared by one
 * subtraction and selected without a branch. */
static inline ips_u128 rp_item_as_u128(const struct rp_item *i)
{
    return (ips_u128)i->key << 64 | i->who;
}

/* Sets leaf `leaf` to (key, id) and updates the inner nodes above it. */
static inline void rp_tree_set_leaf(struct rp_tree *t, uint32_t leaf,
                                    uint64_t key, uint32_t id)
{
    ips_u128 least = (ips_u128)key << 64 | (uint64_t)id << 32 | leaf;
    /* Byte offsets are used instead of indices, so that each level takes only a
     * dozen instructions. */
    size_t at = ((size_t)t->capacity + leaf) * sizeof(struct rp_item);
    char *base = (char *)t->at;
    for (;;) {
        struct rp_item *to = (struct rp_item *)(void *)(base + at);
        to->key = (uint64_t)(least >> 64);
        to->who = (uint64_t)least;
        if (at <= sizeof(*to))
            break;
        ips_u128 other = rp_item_as_u128(
            (struct rp_item *)(void *)(base + (at ^ sizeof(*to))));
        least = other < least ? other : least;
        at = at / 2 & ~(sizeof(*to) - 1);
    }
}

/* Empties `leaf` and frees it for reuse. */
static inline void rp_tree_free_leaf(struct rp_tree *t, uint32_t leaf)
{
    rp_tree_set_leaf(t, leaf, RP_NEVER, t->free_leaf);
    t->free_leaf = leaf;
}

/* Makes an empty tree with at least `room` leaves. Returns false if out of
 * memory. */
bool rp_tree_init(struct rp_tree *t, uint32_t room);
void rp_tree_release(struct rp_tree *t);
/* Doubles the capacity. If out of memory, returns false and leaves the tree
 * unchanged. */
bool rp_tree_double_capacity(struct rp_tree *t);

/* Returns an empty leaf, or RP_NO_LEAF if out of memory. */
static inline uint32_t rp_tree_alloc_leaf(struct rp_tree *t)
{
    uint32_t leaf = t->free_leaf;
    if (leaf != RP_NO_LEAF) {
        t->free_leaf = rp_item_id(&t->at[t->capacity + leaf]);
        return leaf;
    }
    if (t->used == t->capacity && !rp_tree_double_capacity(t))
        return RP_NO_LEAF;
    return t->used++;
}

#endif
