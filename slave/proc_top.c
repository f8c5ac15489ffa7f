/* The first rows of a table of procedures; see proc_top.h. */
#include "slave/proc_top.h"

#include <stdlib.h>
#include <string.h>

#include "common/rank.h"

enum column {
    BY_SELF,
    BY_TOTAL,
    BY_SAMPLES,
    BY_CALLS,
    BY_EXACT,
    BY_OBJECT,
    BY_PROCEDURE,
    BY_MODULE,
    BY_FILE,
    BY_NOTHING_KNOWN
};
static const char *const columns[] = {
    "self_ns", "total_ns",  "samples", "calls", "exact",
    "object",  "procedure", "module",  "file",
};

struct order {
    const struct slave_proc_table *t;
    const struct ips_built *b;
    enum column column;
    bool back, by_process;
};

static enum column column_of(const char *name)
{
    int c = BY_SELF;
    if (!*name)
        return BY_SELF;
    while (c < BY_NOTHING_KNOWN && strcmp(name, columns[c]) != 0)
        c++;
    return (enum column)c;
}

/* As strcmp of texts with an end. */
static int by_bytes(const char *a, uint32_t a_len, const char *b,
                    uint32_t b_len)
{
    uint32_t n = a_len < b_len ? a_len : b_len;
    int c = n ? memcmp(a, b, n) : 0;
    return c ? c : (a_len > b_len) - (a_len < b_len);
}

/* As ips_rank_text. */
static int rank_bytes(const char *a, uint32_t a_len, const char *b,
                      uint32_t b_len, bool back)
{
    if ((a_len > 0) != (b_len > 0))
        return a_len > 0 ? -1 : 1;
    int c = by_bytes(a, a_len, b, b_len);
    return back ? -c : c;
}

static const struct slave_proc_symbol *symbol(const struct order *o,
                                              const struct slave_proc_row *r)
{
    return &o->t->names.symbols[r->symbol];
}

static const char *object(const struct order *o, const struct slave_proc_row *r)
{
    return o->by_process ? o->b->procs[r->process].name : "";
}

static int by_column(const struct order *o, const struct slave_proc_row *a,
                     const struct slave_proc_row *b)
{
    const struct slave_proc_symbol *x = symbol(o, a), *y = symbol(o, b);
    switch (o->column) {
    case BY_SELF:
        return ips_rank_count(a->self_ns, b->self_ns, o->back);
    case BY_TOTAL:
        return ips_rank_count(a->total_ns, b->total_ns, o->back);
    case BY_SAMPLES:
        return ips_rank_count(a->samples, b->samples, o->back);
    case BY_CALLS:
        return ips_rank_count(a->calls, b->calls, o->back);
    case BY_EXACT:
        return ips_rank_integer(a->exact, b->exact, o->back);
    case BY_OBJECT:
        return ips_rank_text(object(o, a), object(o, b), o->back);
    case BY_PROCEDURE:
        return rank_bytes(x->name, x->name_len, y->name, y->name_len, o->back);
    case BY_MODULE:
        return ips_rank_text(x->module, y->module, o->back);
    case BY_FILE:
        return rank_bytes(x->file, x->file_len, y->file, y->file_len, o->back);
    case BY_NOTHING_KNOWN:
        break;
    }
    return 0;
}

static int compare(const struct order *o, const struct slave_proc_row *a,
                   const struct slave_proc_row *b)
{
    const struct slave_proc_symbol *x = symbol(o, a), *y = symbol(o, b);
    int d = by_column(o, a, b);
    if (d)
        return d;
    if (a->self_ns != b->self_ns)
        return a->self_ns < b->self_ns ? 1 : -1;
    if (a->total_ns != b->total_ns)
        return a->total_ns < b->total_ns ? 1 : -1;
    d = strcmp(object(o, a), object(o, b));
    if (d == 0)
        d = by_bytes(x->name, x->name_len, y->name, y->name_len);
    if (d == 0)
        d = strcmp(x->module, y->module);
    if (d == 0)
        d = by_bytes(x->file, x->file_len, y->file, y->file_len);
    return d ? d : (x->line > y->line) - (x->line < y->line);
}

static int compare_rows(const void *a, const void *b, void *arg)
{
    return compare(arg, a, b);
}

/* rows[0, n) are a heap whose first is the one that would go next. */
static void sink(const struct order *o, struct slave_proc_row *rows, size_t n,
                 size_t at)
{
    for (;;) {
        size_t last = at, left = 2 * at + 1, right = left + 1;
        if (left < n && compare(o, &rows[last], &rows[left]) < 0)
            last = left;
        if (right < n && compare(o, &rows[last], &rows[right]) < 0)
            last = right;
        if (last == at)
            return;
        struct slave_proc_row swap = rows[at];
        rows[at] = rows[last];
        rows[last] = swap;
        at = last;
    }
}

int slave_proc_table_top(struct slave_proc_table *t, const struct ips_built *b,
                         const struct slave_proc_top *how, struct ips_err *err)
{
    struct order o = {.t = t,
                      .b = b,
                      .column = column_of(how->sort),
                      .back = how->back,
                      .by_process = how->by_process};
    struct slave_proc_row *rows = t->rows;
    if (how->top == 0 || t->row_count <= how->top ||
        o.column == BY_NOTHING_KNOWN)
        return 0;
    for (uint32_t i = 0; i < t->row_count; i++)
        if (rows[i].process >= b->proc_count)
            return ips_err_set(err, IPS_E_CORRUPT,
                               "a procedure is of no process");
    size_t n = (size_t)how->top;
    for (size_t i = n / 2; i-- > 0;)
        sink(&o, rows, n, i);
    for (uint32_t i = (uint32_t)n; i < t->row_count; i++)
        if (compare(&o, &rows[i], &rows[0]) < 0) {
            rows[0] = rows[i];
            sink(&o, rows, n, 0);
        }
    qsort_r(rows, n, sizeof(*rows), compare_rows, &o);
    t->row_count = (uint32_t)n;
    return 0;
}
