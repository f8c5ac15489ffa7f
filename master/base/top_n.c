#include "master/base/top_n.h"

#include <stdlib.h>
#include <string.h>

#include "common/rank.h"

static bool is_comparable_field(const ProtobufCFieldDescriptor *f)
{
    return f && f->label != PROTOBUF_C_LABEL_REPEATED &&
           (f->type == PROTOBUF_C_TYPE_UINT64 ||
            f->type == PROTOBUF_C_TYPE_DOUBLE ||
            f->type == PROTOBUF_C_TYPE_BOOL ||
            f->type == PROTOBUF_C_TYPE_STRING);
}

bool top_n_init(struct top_n *s, const Ips__Select *ask,
                const ProtobufCMessageDescriptor *row,
                const char *const *shown_otherwise, const char *fallback)
{
    memset(s, 0, sizeof(*s));
    if (!ask || ask->top == 0)
        return false;
    const char *name = *ask->sort ? ask->sort : fallback;
    for (size_t i = 0; shown_otherwise && shown_otherwise[i]; i++)
        if (strcmp(name, shown_otherwise[i]) == 0)
            return false;
    s->top = ask->top;
    s->back = ask->back;
    s->per_machine = ask->per_machine;
    s->per_level = ask->per_level;
    s->sort = protobuf_c_message_descriptor_get_field_by_name(row, name);
    s->object = protobuf_c_message_descriptor_get_field_by_name(row, "object");
    s->level_field =
        protobuf_c_message_descriptor_get_field_by_name(row, "level");
    return is_comparable_field(s->sort) && (!s->per_machine || s->object) &&
           (!s->per_level || s->level_field);
}

static const void *field_address(const void *row,
                                 const ProtobufCFieldDescriptor *f)
{
    return (const char *)row + f->offset;
}

static const char *text_field_of_row(const void *row,
                                     const ProtobufCFieldDescriptor *f)
{
    return *(const char *const *)field_address(row, f);
}

static int compare_rows(const struct top_n *s, const void *a, const void *b)
{
    const void *x = field_address(a, s->sort), *y = field_address(b, s->sort);
    double p, q;
    switch ((int)s->sort->type) {
    case PROTOBUF_C_TYPE_STRING:
        return ips_rank_compare_texts(text_field_of_row(a, s->sort),
                                      text_field_of_row(b, s->sort), s->back);
    case PROTOBUF_C_TYPE_DOUBLE:
        p = *(const double *)x;
        q = *(const double *)y;
        return ips_rank_compare_reals(p, q, p == p, q == q, s->back);
    case PROTOBUF_C_TYPE_BOOL:
        return ips_rank_compare_integers(*(const protobuf_c_boolean *)x,
                                         *(const protobuf_c_boolean *)y,
                                         s->back);
    default:
        return ips_rank_compare_counts(*(const uint64_t *)x,
                                       *(const uint64_t *)y, s->back);
    }
}

/* ---- the first rows of each group ---------------------------------------- */

/* The rows of one machine and level that are selected so far, as a heap. Its
 * root is the last row in the client's order, which is dropped first. */
struct group {
    const char *machine; /* machine_len bytes, not zero-terminated */
    size_t machine_len;
    int row_level;
    uint64_t seen;
    size_t *heap; /* indices of the selected rows */
    size_t count, capacity;
};

struct top_n_selection {
    const struct top_n *s;
    void *const *rows;
    struct group *groups;
    size_t group_count, group_capacity, last;
};

/* Whether the row at x comes before the row at y in the client's order. */
static bool row_ranks_before(const struct top_n_selection *c, size_t x,
                             size_t y)
{
    int d = compare_rows(c->s, c->rows[x], c->rows[y]);
    return d ? d < 0 : x < y;
}

static void sift_row_down(const struct top_n_selection *c, struct group *g,
                          size_t at)
{
    for (;;) {
        size_t most = at, left = 2 * at + 1, right = left + 1;
        if (left < g->count &&
            row_ranks_before(c, g->heap[most], g->heap[left]))
            most = left;
        if (right < g->count &&
            row_ranks_before(c, g->heap[most], g->heap[right]))
            most = right;
        if (most == at)
            return;
        size_t swap = g->heap[at];
        g->heap[at] = g->heap[most];
        g->heap[most] = swap;
        at = most;
    }
}

static void sift_row_up(const struct top_n_selection *c, struct group *g,
                        size_t at)
{
    while (at > 0) {
        size_t up = (at - 1) / 2;
        if (!row_ranks_before(c, g->heap[up], g->heap[at]))
            return;
        size_t swap = g->heap[at];
        g->heap[at] = g->heap[up];
        g->heap[up] = swap;
        at = up;
    }
}

static bool offer_row_to_group(const struct top_n_selection *c, struct group *g,
                               size_t row)
{
    g->seen++;
    if (g->count < c->s->top) {
        if (g->count == g->capacity) {
            size_t room = g->capacity * 2 + 32;
            size_t *more = realloc(g->heap, room * sizeof(*more));
            if (!more)
                return false;
            g->heap = more;
            g->capacity = room;
        }
        g->heap[g->count++] = row;
        sift_row_up(c, g, g->count - 1);
    } else if (row_ranks_before(c, row, g->heap[0])) {
        g->heap[0] = row;
        sift_row_down(c, g, 0);
    }
    return true;
}

static int parse_level(const char *level)
{
    static const char *const names[SELECT_LEVELS] = {"run", "machine",
                                                     "process", "thread"};
    int i = 0;
    while (i < SELECT_LEVELS - 1 && strcmp(level, names[i]) != 0)
        i++;
    return i;
}

static bool group_has_key(const struct group *g, const struct group *key)
{
    return g->row_level == key->row_level &&
           g->machine_len == key->machine_len &&
           (key->machine_len == 0 ||
            memcmp(g->machine, key->machine, key->machine_len) == 0);
}

/* Finds the group of a row, or adds it. Neighbouring rows mostly belong to the
 * same group, so the last group is tried first. */
static struct group *find_or_add_group(struct top_n_selection *c,
                                       const void *row)
{
    struct group key = {.machine = ""};
    if (c->s->per_machine) {
        key.machine = text_field_of_row(row, c->s->object);
        key.machine += strspn(key.machine, "/");
        key.machine_len = strcspn(key.machine, "/");
    }
    if (c->s->per_level)
        key.row_level = parse_level(text_field_of_row(row, c->s->level_field));
    if (c->last < c->group_count && group_has_key(&c->groups[c->last], &key))
        return &c->groups[c->last];
    for (size_t i = 0; i < c->group_count; i++)
        if (group_has_key(&c->groups[i], &key)) {
            c->last = i;
            return &c->groups[i];
        }
    if (c->group_count == c->group_capacity) {
        size_t room = c->group_capacity * 2 + 16;
        struct group *more = realloc(c->groups, room * sizeof(*more));
        if (!more)
            return NULL;
        c->groups = more;
        c->group_capacity = room;
    }
    c->last = c->group_count;
    c->groups[c->group_count] = key;
    return &c->groups[c->group_count++];
}

static int compare_row_indexes(const void *a, const void *b)
{
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return (x > y) - (x < y);
}

static size_t collect_rows_in_original_order(struct top_n_selection *c,
                                             struct arena *a, void ***list,
                                             uint64_t *left_out)
{
    size_t n = 0, at = 0;
    for (size_t i = 0; i < c->group_count; i++) {
        struct group *g = &c->groups[i];
        left_out[g->row_level] += g->seen - g->count;
        n += g->count;
    }
    size_t *place = arena_alloc(a, (n + 1) * sizeof(*place));
    *list = arena_alloc(a, (n + 1) * sizeof(**list));
    if (!place || !*list)
        return 0;
    for (size_t i = 0; i < c->group_count; i++)
        for (size_t k = 0; k < c->groups[i].count; k++)
            place[at++] = c->groups[i].heap[k];
    qsort(place, n, sizeof(*place), compare_row_indexes);
    for (size_t i = 0; i < n; i++)
        (*list)[i] = c->rows[place[i]];
    return n;
}

size_t top_n_select_rows(const struct top_n *s, struct arena *a,
                         void *const *rows, size_t count, void ***list,
                         uint64_t left_out[SELECT_LEVELS])
{
    struct top_n_selection c = {.s = s, .rows = rows};
    bool fine = true;
    for (size_t i = 0; fine && i < count; i++) {
        struct group *g = find_or_add_group(&c, rows[i]);
        fine = g && offer_row_to_group(&c, g, i);
    }
    a->failed = a->failed || !fine;
    size_t n = fine ? collect_rows_in_original_order(&c, a, list, left_out) : 0;
    for (size_t i = 0; i < c.group_count; i++)
        free(c.groups[i].heap);
    free(c.groups);
    return n;
}
