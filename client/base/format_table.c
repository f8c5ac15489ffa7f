/* Writes tables for people: columns aligned, values with units. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/fold.h"
#include "client/base/out.h"
#include "client/base/table_fit.h"
#include "client/base/terminal.h"
#include "client/base/units.h"

static char *copy_text(const char *text)
{
    char *out = strdup(text);
    if (!out) {
        fputs("ipsq: out of memory\n", stderr);
        exit(1);
    }
    return out;
}

static bool is_wide, is_ascii;

void ipsq_set_tables_wide(bool wide)
{
    is_wide = wide;
}

void ipsq_set_cells_ascii(bool ascii)
{
    is_ascii = ascii;
}

/* Copies `text`, or "-" if it is empty. Replaces with '?' control characters,
 * which could move the cursor or worse, and bytes that are not UTF-8, which
 * would break the alignment. */
static char *copy_printable_text_or_dash(const char *text)
{
    char *out = copy_text(text && *text ? text : "-");
    for (char *p = out; *p;) {
        size_t n = ipsq_utf8_length_of_first_char(p, strlen(p));
        unsigned char c = (unsigned char)*p;
        /* U+0080 to U+009F are control characters too. */
        bool c1 = n == 2 && c == 0xc2 && (unsigned char)p[1] < 0xa0;
        if (n == 0 || c < 0x20 || c == 0x7f || c1)
            *p = '?';
        if (is_ascii && n > 1) {
            *p = '?';
            memmove(p + 1, p + n, strlen(p + n) + 1);
            n = 1;
        } else if (c1) {
            p[1] = '?';
        }
        p += n ? n : 1;
    }
    return out;
}

static char *join_items(char **item, size_t count)
{
    size_t len = 1;
    for (size_t i = 0; i < count; i++)
        len += strlen(item[i]) + 1;
    char *out = calloc(len, 1);
    if (!out)
        return copy_text("-");
    for (size_t i = 0, at = 0; i < count; i++)
        at +=
            (size_t)snprintf(out + at, len - at, "%s%s", i ? "," : "", item[i]);
    return out;
}

char *ipsq_cell_text(enum ipsq_kind kind, const struct ipsq_cell *cell)
{
    char unit[IPSQ_UNIT_BYTES] = "-";
    switch (kind) {
    case IPSQ_TEXT:
    case IPSQ_FIGURE:
        return copy_printable_text_or_dash(cell->text);
    case IPSQ_COUNT:
        if (cell->n != UINT64_MAX)
            snprintf(unit, sizeof(unit), "%" PRIu64, cell->n);
        break;
    case IPSQ_NS:
        ipsq_format_ns(cell->n, unit);
        break;
    case IPSQ_BYTES:
        ipsq_format_bytes(cell->n, unit);
        break;
    case IPSQ_INT:
        if (cell->i != IPSQ_NO_INT)
            snprintf(unit, sizeof(unit), "%" PRId64, cell->i);
        break;
    case IPSQ_REAL:
        ipsq_format_real(cell->r, unit);
        break;
    case IPSQ_SHARE:
        ipsq_format_share(cell->r, unit);
        break;
    case IPSQ_BOOL:
        return copy_text(cell->b ? "yes" : "no");
    case IPSQ_VALUE:
        if (cell->value.type == 't')
            return copy_printable_text_or_dash(cell->value.text);
        if (cell->value.type == 'i')
            snprintf(unit, sizeof(unit), "%" PRId64, cell->value.i);
        else if (cell->value.type == 'r')
            snprintf(unit, sizeof(unit), "%.6g", cell->value.r);
        break;
    case IPSQ_LIST: {
        char *joined = join_items(cell->list.item, cell->list.count);
        char *out = copy_printable_text_or_dash(joined);
        free(joined);
        return out;
    }
    }
    return copy_text(unit);
}

static unsigned width_of(const char *text)
{
    return ipsq_text_width(text, strlen(text));
}

static bool is_left_aligned(enum ipsq_kind kind)
{
    return kind == IPSQ_TEXT || kind == IPSQ_FIGURE || kind == IPSQ_BOOL ||
           kind == IPSQ_LIST;
}

static void put_cell(FILE *f, const char *text, unsigned width, bool left,
                     bool last)
{
    unsigned pad = width > width_of(text) ? width - width_of(text) : 0;
    if (!left)
        fprintf(f, "%*s", (int)pad, "");
    fputs(text, f);
    if (last)
        fputc('\n', f);
    else
        fprintf(f, "%*s", (int)(left ? pad + 2 : 2), "");
}

static bool is_number_of_sql_answer(enum ipsq_kind kind,
                                    const struct ipsq_cell *cell)
{
    return kind == IPSQ_VALUE &&
           (cell->value.type == 'i' || cell->value.type == 'r');
}

static void *allocate_zeroed(size_t count, size_t size)
{
    void *memory = calloc(count + 1, size);
    if (!memory) {
        fputs("ipsq: out of memory\n", stderr);
        exit(1);
    }
    return memory;
}

/* Returns the texts of all cells, [rows * columns], NULL in columns that are
 * not shown. Also stores the widths that the columns need in t->widths, and in
 * `empty` which columns have no value in any row. */
static char **format_and_measure_cells(struct ipsq_table *t, bool *empty)
{
    size_t n = t->column_count, cells = t->row_count * n;
    char **text = allocate_zeroed(cells, sizeof(*text));
    for (size_t c = 0; c < n; c++) {
        if (!t->columns[c].title)
            continue;
        unsigned most = width_of(t->columns[c].title);
        most = t->widths[c] > most ? t->widths[c] : most;
        empty[c] = true;
        for (size_t i = c; i < cells; i += n) {
            text[i] = ipsq_cell_text(t->columns[c].kind, &t->cells[i]);
            unsigned w = width_of(text[i]);
            most = w > most ? w : most;
            w = ipsq_width_of_last_figure(text[i]);
            t->figure_widths[c] =
                w > t->figure_widths[c] ? w : t->figure_widths[c];
            empty[c] = empty[c] && strcmp(text[i], "-") == 0;
            if (is_number_of_sql_answer(t->columns[c].kind, &t->cells[i]))
                t->cuts[c] = false;
        }
        t->widths[c] = most;
    }
    return text;
}

static void put_titles(FILE *f, const struct ipsq_table *t, size_t last,
                       bool color)
{
    fputs(color ? IPSQ_BOLD : "", f);
    for (size_t c = 0; c <= last; c++) {
        if (t->columns[c].title && !t->hidden[c])
            put_cell(f, t->columns[c].title, t->widths[c],
                     is_left_aligned(t->columns[c].kind), c == last);
    }
    fputs(color ? IPSQ_PLAIN : "", f);
}

void ipsq_table_write_text(FILE *f, struct ipsq_table *t, unsigned columns,
                           bool color)
{
    size_t n = t->column_count, last = 0, cells = t->row_count * n;
    bool *empty = allocate_zeroed(n, sizeof(*empty)), utf8 = ipsq_is_utf8();
    char **text = format_and_measure_cells(t, empty);
    if (columns && !is_wide)
        ipsq_table_fit(t, empty, columns);
    for (size_t c = 0; c < n; c++) {
        if (t->columns[c].title && !t->hidden[c])
            last = c;
    }
    if (!t->begun)
        put_titles(f, t, last, color);
    t->begun = true;
    for (size_t i = 0; i < cells; i++) {
        size_t c = i % n;
        if (text[i] && !t->hidden[c]) {
            if (t->cuts[c])
                text[i] = ipsq_shorten_text(text[i], t->widths[c], utf8);
            put_cell(f, text[i], t->widths[c],
                     is_left_aligned(t->columns[c].kind), c == last);
        }
        free(text[i]);
    }
    free(text);
    free(empty);
}

void ipsq_table_print_hidden_columns(FILE *f, const struct ipsq_table *t)
{
    bool any = false;
    for (size_t c = 0; c < t->column_count; c++) {
        bool again = false; /* another hidden column has the same title */
        for (size_t i = 0; i < c && t->hidden[c]; i++)
            again = again || (t->hidden[i] && strcmp(t->columns[i].title,
                                                     t->columns[c].title) == 0);
        if (!t->hidden[c] || again)
            continue;
        fprintf(f, "%s%s",
                any ? ", " : "(--wide also shows: ", t->columns[c].title);
        any = true;
    }
    if (any)
        fputs(")\n", f);
}
