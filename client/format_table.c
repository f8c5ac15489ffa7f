/* Tables for people: aligned, in human units, no colours. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/fold.h"
#include "client/out.h"
#include "client/units.h"

static char *copy(const char *text)
{
    char *out = strdup(text);
    if (!out) {
        fputs("ipsq: out of memory\n", stderr);
        exit(1);
    }
    return out;
}

/* Control characters would move the cursor or worse; bytes that are no UTF-8
 * would spoil the alignment. Each becomes '?'. */
static char *clean(const char *text)
{
    char *out = copy(text && *text ? text : "-");
    for (char *p = out; *p;) {
        size_t n = ipsq_utf8_length(p, strlen(p));
        unsigned char c = (unsigned char)*p;
        /* U+0080 to U+009F are control characters too. */
        bool c1 = n == 2 && c == 0xc2 && (unsigned char)p[1] < 0xa0;
        if (n == 0 || c < 0x20 || c == 0x7f || c1)
            *p = '?';
        if (c1)
            p[1] = '?';
        p += n ? n : 1;
    }
    return out;
}

static char *join(char **item, size_t count)
{
    size_t len = 1;
    for (size_t i = 0; i < count; i++)
        len += strlen(item[i]) + 1;
    char *out = calloc(len, 1);
    if (!out)
        return copy("-");
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
        return clean(cell->text);
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
        if (cell->i != -1)
            snprintf(unit, sizeof(unit), "%" PRId64, cell->i);
        break;
    case IPSQ_REAL:
        ipsq_format_real(cell->r, unit);
        break;
    case IPSQ_SHARE:
        ipsq_format_share(cell->r, unit);
        break;
    case IPSQ_BOOL:
        return copy(cell->b ? "yes" : "no");
    case IPSQ_VALUE:
        if (cell->value.type == 't')
            return clean(cell->value.text);
        if (cell->value.type == 'i')
            snprintf(unit, sizeof(unit), "%" PRId64, cell->value.i);
        else if (cell->value.type == 'r')
            snprintf(unit, sizeof(unit), "%.6g", cell->value.r);
        break;
    case IPSQ_LIST: {
        char *joined = join(cell->list.item, cell->list.count);
        char *out = clean(joined);
        free(joined);
        return out;
    }
    }
    return copy(unit);
}

static unsigned width_of(const char *text)
{
    return ipsq_width(text, strlen(text));
}

static bool to_the_left(enum ipsq_kind kind)
{
    return kind == IPSQ_TEXT || kind == IPSQ_BOOL || kind == IPSQ_LIST;
}

static void put(FILE *f, const char *text, unsigned width, bool left, bool last)
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

void ipsq_table_write_text(FILE *f, struct ipsq_table *t)
{
    size_t last = 0, cells = t->row_count * t->column_count;
    char **text = calloc(cells + 1, sizeof(*text));
    if (!text)
        return;
    for (size_t c = 0; c < t->column_count; c++) {
        if (!t->columns[c].title)
            continue;
        last = c;
        unsigned title = width_of(t->columns[c].title);
        t->widths[c] = t->widths[c] > title ? t->widths[c] : title;
        for (size_t i = c; i < cells; i += t->column_count) {
            text[i] = ipsq_cell_text(t->columns[c].kind, &t->cells[i]);
            unsigned w = width_of(text[i]);
            t->widths[c] = t->widths[c] > w ? t->widths[c] : w;
        }
    }
    for (size_t c = 0; !t->begun && c <= last; c++) {
        if (t->columns[c].title)
            put(f, t->columns[c].title, t->widths[c],
                to_the_left(t->columns[c].kind), c == last);
    }
    t->begun = true;
    for (size_t i = 0; i < cells; i++) {
        size_t c = i % t->column_count;
        if (text[i])
            put(f, text[i], t->widths[c], to_the_left(t->columns[c].kind),
                c == last);
        free(text[i]);
    }
    free(text);
}
