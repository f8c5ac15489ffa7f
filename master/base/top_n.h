/*
 * Selects the rows that a client with --top shows: exactly those that come
 * first in the client's order (common/rank.h), including its order of equal
 * rows. The other rows need not be packed, sent and unpacked. The selected
 * rows keep their relative order here; the client sorts them. Pure.
 */
#ifndef IPS_MASTER_BASE_TOP_N_H
#define IPS_MASTER_BASE_TOP_N_H

#include "master/base/arena.h"
#include "proto/message.h"

#define SELECT_LEVELS 4

struct top_n {
    uint64_t top;
    bool back, per_machine, per_level;
    /* Fields of a row: the one to sort by, and those with its object and its
     * level. `object` is used only with per_machine, `level_field` only with
     * per_level. */
    const ProtobufCFieldDescriptor *sort, *object, *level_field;
};

/* Sets up *s to select what `ask` asks for from rows of type `row`. Returns
 * false if all rows must be sent: `ask` is NULL or has no top, or `row` has no
 * suitable field to sort by. `shown_otherwise`: names of fields for which the
 * client displays a different value, so the master cannot sort by them; NULL
 * ends the list. `fallback`: the field to sort by if the client named none. */
bool top_n_init(struct top_n *s, const Ips__Select *ask,
                const ProtobufCMessageDescriptor *row,
                const char *const *shown_otherwise, const char *fallback);

/* Puts the selected ones of the `count` rows into *list (in the arena) and
 * returns their number; `rows` is unchanged. Adds the number of other rows to
 * left_out[level]; without per_level to left_out[0]. O(count log top). Returns
 * 0 with a->failed set if there is no memory. */
size_t top_n_select_rows(const struct top_n *s, struct arena *a,
                         void *const *rows, size_t count, void ***list,
                         uint64_t left_out[SELECT_LEVELS]);

#endif
