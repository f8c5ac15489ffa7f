#include "client/base/top_n.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/command.h"
#include "common/nearest.h"
#include "common/rank.h"
#include "proto/message.h"

struct order {
    const struct ipsq_table *t;
    size_t column;
    bool sorts, back;
    /* [row_count] number of the machine of each row; NULL: rows are not
     * grouped */
    size_t *group;
};

/* Compares SQL values: numbers come before texts. */
static int compare_sql_values(const struct ipsq_cell *x,
                              const struct ipsq_cell *y, bool back)
{
    char a = x->value.type, b = y->value.type;
    if (a == 't' && b == 't')
        return ips_rank_compare_texts(x->value.text, y->value.text, back);
    if (a == 'i' && b == 'i')
        return ips_rank_compare_integers(x->value.i, y->value.i, back);
    if ((a == 't') != (b == 't') && a && b)
        return a == 't' ? 1 : -1;
    double u = a == 'i' ? (double)x->value.i : x->value.r;
    double v = b == 'i' ? (double)y->value.i : y->value.r;
    return ips_rank_compare_reals(u, v, a != 0, b != 0, back);
}

static int compare_cell_values(enum ipsq_kind kind, const struct ipsq_cell *x,
                               const struct ipsq_cell *y, bool back)
{
    switch (kind) {
    case IPSQ_TEXT:
    case IPSQ_FIGURE:
        return ips_rank_compare_texts(x->text, y->text, back);
    case IPSQ_COUNT:
    case IPSQ_NS:
    case IPSQ_BYTES:
        return ips_rank_compare_counts(x->n, y->n, back);
    case IPSQ_INT:
        return ips_rank_compare_integers(x->i, y->i, back);
    case IPSQ_REAL:
    case IPSQ_SHARE:
        return ips_rank_compare_reals(x->r, y->r, x->r == x->r, y->r == y->r,
                                      back);
    case IPSQ_BOOL:
        return ips_rank_compare_integers(x->b, y->b, back);
    case IPSQ_VALUE:
        return compare_sql_values(x, y, back);
    case IPSQ_LIST:
        break;
    }
    return 0;
}

static int compare_rows(const void *a, const void *b, void *arg)
{
    const struct order *o = arg;
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    if (o->group && o->group[x] != o->group[y])
        return o->group[x] < o->group[y] ? -1 : 1;
    if (o->sorts) {
        size_t n = o->t->column_count;
        int c = compare_cell_values(o->t->columns[o->column].kind,
                                    &o->t->cells[x * n + o->column],
                                    &o->t->cells[y * n + o->column], o->back);
        if (c)
            return c;
    }
    return x < y ? -1 : 1;
}

int ipsq_find_column(const struct ipsq_columns *columns, const char *name,
                     size_t *index, struct ips_err *err)
{
    struct ips_nearest near;
    char all[700] = "";
    ips_nearest_start_search(&near, name);
    for (size_t c = 0; c < columns->count; c++) {
        const char *key = columns->column[c].key;
        size_t at = strlen(all);
        if (strcmp(name, key) == 0) {
            *index = c;
            return 0;
        }
        snprintf(all + at, sizeof(all) - at, "%s%s", c ? ", " : "", key);
        ips_nearest_consider_candidate(&near, key);
    }
    return ips_err_set(err, IPS_E_USAGE, "--sort '%.60s' is not one of %s%s",
                       name, all, ips_nearest_format_suggestion(&near));
}

/* Moves *text to the start of the machine's name in "/m1/a.3" or "m1", and
 * returns the length of the name. */
static size_t skip_to_machine_name(const char **text)
{
    while (**text == '/')
        ++*text;
    return strcspn(*text, "/");
}

static const char *text_of_cell(const struct ipsq_table *t, size_t column,
                                size_t row)
{
    const struct ipsq_cell *cell = &t->cells[row * t->column_count + column];
    const char *text = t->columns[column].kind == IPSQ_VALUE
                           ? cell->value.type == 't' ? cell->value.text : ""
                           : cell->text;
    return text ? text : "";
}

/* Stores the number of each row's machine in *out. The machines are numbered in
 * the order in which they first appear. */
static int number_machines_of_rows(const struct ipsq_table *t, size_t **out,
                                   struct ips_err *err)
{
    size_t column = t->column_count, groups = 0;
    for (size_t c = t->column_count; c-- > 0;)
        if (strcmp(t->columns[c].key, "machine") == 0 ||
            strcmp(t->columns[c].key, "object") == 0)
            column = c;
    if (column == t->column_count)
        return ips_err_set(
            err, IPS_E_USAGE,
            "--per machine: the rows of %s do not belong to machines", t->name);
    size_t *group = calloc(t->row_count + 1, sizeof(*group));
    size_t *first = calloc(t->row_count + 1, sizeof(*first));
    if (!group || !first) {
        free(group);
        free(first);
        return ips_err_set(err, IPS_E_NO_MEMORY, "out of memory");
    }
    for (size_t i = 0; i < t->row_count; i++) {
        const char *own = text_of_cell(t, column, i);
        size_t n = skip_to_machine_name(&own), g = 0;
        for (; g < groups; g++) {
            const char *other = text_of_cell(t, column, first[g]);
            if (skip_to_machine_name(&other) == n &&
                strncmp(own, other, n) == 0)
                break;
        }
        if (g == groups)
            first[groups++] = i;
        group[i] = g;
    }
    free(first);
    *out = group;
    return 0;
}

/* Arranges the rows in the order of `rank`, and keeps at most `top` (0: all) of
 * them; with --per machine, of each machine's. */
static int arrange_rows_and_keep_top(struct ipsq_table *t,
                                     const struct order *o, const size_t *rank,
                                     uint64_t top, uint64_t *left_out,
                                     struct ips_err *err)
{
    size_t width = t->column_count * sizeof(*t->cells), kept = 0;
    struct ipsq_cell *cells = malloc((t->row_count + 1) * width);
    uint64_t of_group = 0;
    if (!cells)
        return ips_err_set(err, IPS_E_NO_MEMORY, "out of memory");
    for (size_t i = 0; i < t->row_count; i++) {
        bool same =
            i > 0 && (!o->group || o->group[rank[i]] == o->group[rank[i - 1]]);
        of_group = same ? of_group + 1 : 1;
        if (top && of_group > top)
            continue;
        memcpy(cells + kept++ * t->column_count,
               t->cells + rank[i] * t->column_count, width);
    }
    *left_out = t->row_count - kept;
    free(t->cells);
    t->cells = cells;
    t->row_capacity = t->row_count + 1;
    t->row_count = kept;
    return 0;
}

int ipsq_sort_and_keep_top(struct ipsq_table *t, const struct ipsq_options *o,
                           size_t fallback, uint64_t *left_out,
                           struct ips_err *err)
{
    struct order order = {.t = t, .column = fallback, .sorts = o->top > 0};
    const char *sort = o->sort;
    size_t *rank = NULL;
    int rc = 0;
    *left_out = 0;
    if (sort) {
        order.sorts = true;
        order.back = *sort == '-';
        const struct ipsq_columns columns = {t->columns, t->column_count};
        rc = ipsq_find_column(&columns, sort + order.back, &order.column, err);
    }
    if (rc == 0 && o->per_machine)
        rc = number_machines_of_rows(t, &order.group, err);
    if (rc < 0 || t->row_count == 0 || (!order.sorts && !order.group)) {
        free(order.group);
        return rc;
    }
    rank = calloc(t->row_count, sizeof(*rank));
    if (!rank) {
        free(order.group);
        return ips_err_set(err, IPS_E_NO_MEMORY, "out of memory");
    }
    for (size_t i = 0; i < t->row_count; i++)
        rank[i] = i;
    qsort_r(rank, t->row_count, sizeof(*rank), compare_rows, &order);
    rc = arrange_rows_and_keep_top(t, &order, rank, o->top, left_out, err);
    free(rank);
    free(order.group);
    return rc;
}

void ipsq_put_left_out_count(struct ipsq_out *out, const char *name,
                             uint64_t count)
{
    char key[80];
    snprintf(key, sizeof(key), "%s_left_out", name);
    if (out->format == IPSQ_TABLE && count > 0)
        ipsq_out_write_line_if_table(out, "%" PRIu64 " more left out", count);
    else if (out->format == IPSQ_JSON || (out->format == IPSQ_TSV && count > 0))
        ipsq_out_write_or_collect_value(out, IPSQ_COUNT, key, NULL,
                                        ipsq_count_cell(count));
}

Ips__Select *ipsq_top_n_fill_select(const struct ipsq_options *o,
                                    Ips__Select *s)
{
    ips__select__init(s);
    if (o->top == 0)
        return NULL;
    s->top = o->top;
    s->per_machine = o->per_machine;
    s->back = o->sort && *o->sort == '-';
    s->sort = ips_unconst_text(o->sort ? o->sort + s->back : "");
    return s;
}

Ips__Select *ipsq_top_n_fill_procedure_request(const struct ipsq_options *o,
                                               Ips__Select *s)
{
    static const char *const fields[][2] = {
        /* pairs: column of the table, field of the master's row */
        {"", "self_ns"},        {"self_ns", "self_ns"},
        {"cpu_ns", "self_ns"},  {"total_ns", "total_ns"},
        {"samples", "samples"}, {"calls", "calls"},
        {"exact", "exact"},     {"procedure", "procedure"},
        {"process", "object"},  {"module", "module"},
        {"file", "file"},
    };
    if (!ipsq_top_n_fill_select(o, s))
        return NULL;
    for (size_t i = 0; i < IPSQ_COUNT_OF(fields); i++)
        if (strcmp(s->sort, fields[i][0]) == 0) {
            s->sort = ips_unconst_text(fields[i][1]);
            /* With --per machine, machines are listed in the order of their
             * first rows. If the master selected rows by another column, that
             * order would differ from the order in all rows. */
            return s->per_machine &&
                           (s->back || strcmp(s->sort, "self_ns") != 0)
                       ? NULL
                       : s;
        }
    return NULL;
}
