#include "client/base/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *exit_if_out_of_memory(void *memory)
{
    if (!memory) {
        fputs("ipsq: out of memory\n", stderr);
        exit(1);
    }
    return memory;
}

void ipsq_table_init(struct ipsq_table *t, const char *name,
                     const struct ipsq_column *columns, size_t column_count)
{
    memset(t, 0, sizeof(*t));
    t->name = name;
    t->columns = columns;
    t->column_count = column_count;
    t->widths = exit_if_out_of_memory(calloc(column_count, sizeof(*t->widths)));
    t->figure_widths =
        exit_if_out_of_memory(calloc(column_count, sizeof(*t->widths)));
    t->hidden = exit_if_out_of_memory(calloc(column_count, sizeof(*t->hidden)));
    t->cuts = exit_if_out_of_memory(calloc(column_count, sizeof(*t->cuts)));
    for (size_t c = 0; c < column_count; c++)
        t->cuts[c] = columns[c].kind == IPSQ_TEXT ||
                     columns[c].kind == IPSQ_LIST ||
                     columns[c].kind == IPSQ_VALUE;
}

bool ipsq_table_has_titles(const struct ipsq_table *t)
{
    for (size_t c = 0; c < t->column_count; c++) {
        if (t->columns[c].title)
            return true;
    }
    return false;
}

void ipsq_table_release(struct ipsq_table *t)
{
    free(t->cells);
    free(t->widths);
    free(t->figure_widths);
    free(t->hidden);
    free(t->cuts);
    memset(t, 0, sizeof(*t));
}

struct ipsq_cell *ipsq_table_add_row(struct ipsq_table *t)
{
    if (t->row_count == t->row_capacity) {
        t->row_capacity = t->row_capacity ? t->row_capacity * 2 : 16;
        t->cells = exit_if_out_of_memory(realloc(
            t->cells, t->row_capacity * t->column_count * sizeof(*t->cells)));
    }
    struct ipsq_cell *row = t->cells + t->row_count++ * t->column_count;
    memset(row, 0, t->column_count * sizeof(*row));
    return row;
}

void ipsq_table_clear(struct ipsq_table *t)
{
    t->row_count = 0;
}

struct ranked {
    uint64_t value; /* value to sort by; 0 if not measured */
    size_t row;
};

static int compare_ranked_by_value(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    if (x->value != y->value)
        return x->value < y->value ? 1 : -1;
    return x->row < y->row ? -1 : 1;
}

uint64_t ipsq_table_sort_and_keep_top(struct ipsq_table *t, size_t column,
                                      uint64_t n)
{
    size_t width = t->column_count * sizeof(*t->cells);
    uint64_t left_out = n && n < t->row_count ? t->row_count - n : 0;
    if (t->row_count < 2)
        return 0;
    struct ranked *rank =
        exit_if_out_of_memory(malloc(t->row_count * sizeof(*rank)));
    struct ipsq_cell *cells =
        exit_if_out_of_memory(malloc(t->row_count * width));
    for (size_t i = 0; i < t->row_count; i++) {
        uint64_t value = t->cells[i * t->column_count + column].n;
        rank[i] = (struct ranked){value == UINT64_MAX ? 0 : value, i};
    }
    qsort(rank, t->row_count, sizeof(*rank), compare_ranked_by_value);
    for (size_t i = 0; i < t->row_count; i++)
        memcpy(cells + i * t->column_count,
               t->cells + rank[i].row * t->column_count, width);
    free(rank);
    free(t->cells);
    t->cells = cells;
    t->row_capacity = t->row_count;
    t->row_count -= (size_t)left_out;
    return left_out;
}
