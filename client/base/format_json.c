#include "client/base/out.h"

void ipsq_json_write_cell(struct ipsq_json *j, enum ipsq_kind kind,
                          const struct ipsq_cell *cell)
{
    switch (kind) {
    case IPSQ_TEXT:
    case IPSQ_FIGURE:
        ipsq_json_write_text_or_null(j, cell->text);
        return;
    case IPSQ_COUNT:
    case IPSQ_NS:
    case IPSQ_BYTES:
        ipsq_json_write_count_or_null(j, cell->n);
        return;
    case IPSQ_INT:
        ipsq_json_write_integer_or_null(j, cell->i);
        return;
    case IPSQ_REAL:
    case IPSQ_SHARE:
        ipsq_json_write_real_or_null(j, cell->r);
        return;
    case IPSQ_BOOL:
        ipsq_json_write_bool(j, cell->b);
        return;
    case IPSQ_VALUE:
        if (cell->value.type == 'i')
            ipsq_json_write_integer(j, cell->value.i);
        else if (cell->value.type == 'r')
            ipsq_json_write_real_or_null(j, cell->value.r);
        else if (cell->value.type == 't')
            ipsq_json_write_string(j, cell->value.text);
        else
            ipsq_json_write_null(j);
        return;
    case IPSQ_LIST:
        ipsq_json_open_container(j, '[');
        for (size_t i = 0; i < cell->list.count; i++)
            ipsq_json_write_string(j, cell->list.item[i]);
        ipsq_json_close_container(j, ']');
        return;
    }
}

void ipsq_json_write_row(struct ipsq_json *j, const struct ipsq_table *t,
                         size_t row)
{
    const struct ipsq_cell *cells = t->cells + row * t->column_count;
    ipsq_json_open_container(j, '{');
    /* A row is always on one line, also in pretty output. */
    bool pretty = j->pretty;
    j->pretty = false;
    for (size_t c = 0; c < t->column_count; c++) {
        ipsq_json_write_key(j, t->columns[c].key);
        ipsq_json_write_cell(j, t->columns[c].kind, &cells[c]);
    }
    ipsq_json_close_container(j, '}');
    j->pretty = pretty;
}
