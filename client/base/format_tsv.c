#include <inttypes.h>
#include <math.h>

#include "client/base/out.h"

static void write_tsv_text(FILE *f, const char *text)
{
    for (; text && *text; text++) {
        switch (*text) {
        case '\t':
            fputs("\\t", f);
            break;
        case '\n':
            fputs("\\n", f);
            break;
        case '\r':
            fputs("\\r", f);
            break;
        case '\\':
            fputs("\\\\", f);
            break;
        default:
            fputc(*text, f);
        }
    }
}

void ipsq_tsv_write_cell(FILE *f, enum ipsq_kind kind,
                         const struct ipsq_cell *cell)
{
    switch (kind) {
    case IPSQ_TEXT:
    case IPSQ_FIGURE:
        write_tsv_text(f, cell->text);
        return;
    case IPSQ_COUNT:
    case IPSQ_NS:
    case IPSQ_BYTES:
        if (cell->n != UINT64_MAX)
            fprintf(f, "%" PRIu64, cell->n);
        return;
    case IPSQ_INT:
        if (cell->i != IPSQ_NO_INT)
            fprintf(f, "%" PRId64, cell->i);
        return;
    case IPSQ_REAL:
    case IPSQ_SHARE:
        if (isfinite(cell->r))
            fprintf(f, "%.17g", cell->r);
        return;
    case IPSQ_BOOL:
        fputs(cell->b ? "true" : "false", f);
        return;
    case IPSQ_VALUE:
        if (cell->value.type == 'i')
            fprintf(f, "%" PRId64, cell->value.i);
        else if (cell->value.type == 'r' && isfinite(cell->value.r))
            fprintf(f, "%.17g", cell->value.r);
        else if (cell->value.type == 't')
            write_tsv_text(f, cell->value.text);
        return;
    case IPSQ_LIST:
        for (size_t i = 0; i < cell->list.count; i++) {
            if (i)
                fputc(',', f);
            write_tsv_text(f, cell->list.item[i]);
        }
        return;
    }
}

void ipsq_table_write_tsv(FILE *f, struct ipsq_table *t)
{
    for (size_t c = 0; !t->begun && c < t->column_count; c++)
        fprintf(f, "%s%c", t->columns[c].key,
                c + 1 < t->column_count ? '\t' : '\n');
    t->begun = true;
    for (size_t i = 0; i < t->row_count; i++) {
        const struct ipsq_cell *row = t->cells + i * t->column_count;
        for (size_t c = 0; c < t->column_count; c++) {
            if (c)
                fputc('\t', f);
            ipsq_tsv_write_cell(f, t->columns[c].kind, &row[c]);
        }
        fputc('\n', f);
    }
}
