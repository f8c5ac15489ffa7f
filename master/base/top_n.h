/*
 * Of many rows those that a client with --top shows: exactly the ones that
 * come first in its order (common/rank.h), rows that are equal in theirs; so
 * the rest need not be packed, sent and unpacked. Rows stay in the order they
 * were in: the client puts them in its own. Pure.
 */
#ifndef IPS_MASTER_BASE_TOP_N_H
#define IPS_MASTER_BASE_TOP_N_H

#include "master/base/arena.h"
#include "proto/message.h"

#define SELECT_LEVELS 4

struct top_n {
    uint64_t top;
    bool back, per_machine, per_level;
    /* The rows' fields; `object` and `level` only where they count. */
    const ProtobufCFieldDescriptor *sort, *object, *level_field;
};

/* False: all rows are to be sent, for nothing is to be left out (`ask` NULL or
 * without a top) or `row` has no such field that would do. `shown_otherwise`:
 * names of fields, NULL at the end, of which the client shows something else;
 * `fallback`: by which one where none was asked for. */
bool top_n_init(struct top_n *s, const Ips__Select *ask,
                const ProtobufCMessageDescriptor *row,
                const char *const *shown_otherwise, const char *fallback);

/* Those of the `count` rows that go; *list in the arena, `rows` stays as it
 * is. left_out[level] (one without per_level) is raised. O(count log top).
 * 0 with a->failed: no memory. */
size_t top_n_rows(const struct top_n *s, struct arena *a, void *const *rows,
                  size_t count, void ***list, uint64_t left_out[SELECT_LEVELS]);

#endif
