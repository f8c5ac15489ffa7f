#include "analysis/replay/tree.h"

#include <string.h>

bool rp_tree_init(struct rp_tree *t, uint32_t room)
{
    *t = (struct rp_tree){.capacity = 1, .free_leaf = RP_NO_LEAF};
    while (t->capacity < room)
        t->capacity *= 2;
    t->at = malloc(2 * (size_t)t->capacity * sizeof(*t->at));
    if (t->at) /* 0xff.. sets all keys to RP_NEVER */
        memset(t->at, 0xff, 2 * (size_t)t->capacity * sizeof(*t->at));
    return t->at != NULL;
}

void rp_tree_release(struct rp_tree *t)
{
    free(t->at);
    t->at = NULL;
}

bool rp_tree_double_capacity(struct rp_tree *t)
{
    struct rp_tree more;
    if (t->capacity > UINT32_MAX / 4 || !rp_tree_init(&more, 2 * t->capacity))
        return false;
    memcpy(&more.at[more.capacity], &t->at[t->capacity],
           t->capacity * sizeof(*t->at));
    for (size_t i = more.capacity - 1; i > 0; i--) {
        struct rp_item *kid = &more.at[2 * i];
        more.at[i] = kid[rp_item_as_u128(&kid[1]) < rp_item_as_u128(&kid[0])];
    }
    more.used = t->used;
    more.free_leaf = t->free_leaf;
    rp_tree_release(t);
    *t = more;
    return true;
}
