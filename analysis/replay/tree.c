#include "analysis/replay/tree.h"

#include <string.h>

bool rp_tree_init(struct rp_tree *t, uint32_t room)
{
    *t = (struct rp_tree){.room = 1, .spare = RP_NO_LEAF};
    while (t->room < room)
        t->room *= 2;
    t->at = malloc(2 * (size_t)t->room * sizeof(*t->at));
    if (t->at) /* RP_NEVER */
        memset(t->at, 0xff, 2 * (size_t)t->room * sizeof(*t->at));
    return t->at != NULL;
}

void rp_tree_release(struct rp_tree *t)
{
    free(t->at);
    t->at = NULL;
}

bool rp_tree_grow(struct rp_tree *t)
{
    struct rp_tree more;
    if (t->room > UINT32_MAX / 4 || !rp_tree_init(&more, 2 * t->room))
        return false;
    memcpy(&more.at[more.room], &t->at[t->room], t->room * sizeof(*t->at));
    for (size_t i = more.room - 1; i > 0; i--) {
        struct rp_item *kid = &more.at[2 * i];
        more.at[i] = kid[rp_item_wide(&kid[1]) < rp_item_wide(&kid[0])];
    }
    more.used = t->used;
    more.spare = t->spare;
    rp_tree_release(t);
    *t = more;
    return true;
}
