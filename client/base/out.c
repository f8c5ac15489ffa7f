#include "client/base/out.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/fold.h"
#include "client/base/terminal.h"

void ipsq_out_begin(struct ipsq_out *o, FILE *file, enum ipsq_format format,
                    bool several)
{
    memset(o, 0, sizeof(*o));
    o->file = file;
    o->format = format;
    o->several = several;
    o->columns = format == IPSQ_TABLE ? ipsq_terminal_width(file) : 0;
    o->color = o->columns && ipsq_has_color(file);
    ipsq_set_cells_ascii(o->columns && !ipsq_is_utf8());
    ipsq_json_init(&o->json, file, format == IPSQ_JSON);
    if (format == IPSQ_JSON)
        ipsq_json_open_container(&o->json, '{');
}

/* Writes `before` and `text` on one line, folded on a terminal. */
static void write_folded_line(struct ipsq_out *o, const char *before,
                              const char *text, unsigned indent)
{
    size_t size = strlen(before) + strlen(text) + 1;
    char *line = malloc(size);
    if (!line)
        return;
    snprintf(line, size, "%s%s", before, text);
    ipsq_print_wrapped_text(o->file, line, o->columns, indent);
    fputc('\n', o->file);
    free(line);
}

/* Writes the collected values with their texts aligned in one column. */
static void write_collected_values_aligned(struct ipsq_out *o)
{
    unsigned wide = 15;
    for (unsigned i = 0; i < o->value_count; i++) {
        const char *title = o->value[i].title;
        unsigned w = ipsq_text_width(title, strlen(title));
        wide = w > wide ? w : wide;
    }
    for (unsigned i = 0; i < o->value_count; i++) {
        char head[80];
        snprintf(head, sizeof(head), "%-*s ", (int)wide, o->value[i].title);
        write_folded_line(o, head, o->value[i].text, wide + 1);
        free(o->value[i].text);
    }
    o->value_count = 0;
}

void ipsq_out_write_or_collect_value(struct ipsq_out *o, enum ipsq_kind kind,
                                     const char *key, const char *title,
                                     struct ipsq_cell value)
{
    switch (o->format) {
    case IPSQ_TABLE:
        if (!title)
            return;
        if (o->value_count == sizeof(o->value) / sizeof(*o->value))
            write_collected_values_aligned(o);
        o->value[o->value_count].title = title;
        o->value[o->value_count++].text = ipsq_cell_text(kind, &value);
        return;
    case IPSQ_TSV:
        fprintf(o->file, "#%s\t", key);
        ipsq_tsv_write_cell(o->file, kind, &value);
        fputc('\n', o->file);
        return;
    case IPSQ_JSON:
        ipsq_json_write_key(&o->json, key);
        ipsq_json_write_cell(&o->json, kind, &value);
        return;
    case IPSQ_JSONL:
        return;
    }
}

void ipsq_out_write_formatted_value_if_table(struct ipsq_out *o,
                                             const char *title, const char *fmt,
                                             ...)
{
    char text[256];
    va_list ap;
    if (o->format != IPSQ_TABLE)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    ipsq_out_write_or_collect_value(o, IPSQ_TEXT, NULL, title,
                                    ipsq_text_cell(text));
}

void ipsq_out_begin_group_if_json(struct ipsq_out *o, const char *name)
{
    if (o->format != IPSQ_JSON)
        return;
    ipsq_json_write_key(&o->json, name);
    ipsq_json_open_container(&o->json, '{');
}

void ipsq_out_end_group_if_json(struct ipsq_out *o)
{
    if (o->format == IPSQ_JSON)
        ipsq_json_close_container(&o->json, '}');
}

static void write_wrapped_text_and_free(struct ipsq_out *o, char *text)
{
    ipsq_print_wrapped_text(o->file, text, o->columns, 4);
    free(text);
}

void ipsq_out_table_begin(struct ipsq_out *o, struct ipsq_table *t,
                          const char *heading)
{
    write_collected_values_aligned(o);
    switch (o->format) {
    case IPSQ_TABLE:
        if (!ipsq_table_has_titles(t))
            return;
        if (o->parts_written)
            fputc('\n', o->file);
        if (heading)
            write_folded_line(o, heading, "", 0);
        break;
    case IPSQ_TSV:
        if (o->several)
            fprintf(o->file, "#%s\n", t->name);
        break;
    case IPSQ_JSON:
        ipsq_json_write_key(&o->json, t->name);
        ipsq_json_open_container(&o->json, '[');
        break;
    case IPSQ_JSONL:
        break;
    }
    o->parts_written++;
}

void ipsq_out_write_and_clear_rows(struct ipsq_out *o, struct ipsq_table *t)
{
    switch (o->format) {
    case IPSQ_TABLE:
        ipsq_table_write_text(o->file, t, o->columns, o->color);
        break;
    case IPSQ_TSV:
        ipsq_table_write_tsv(o->file, t);
        break;
    case IPSQ_JSON:
        for (size_t i = 0; i < t->row_count; i++)
            ipsq_json_write_row(&o->json, t, i);
        break;
    case IPSQ_JSONL:
        for (size_t i = 0; i < t->row_count; i++) {
            ipsq_json_write_row(&o->json, t, i);
            ipsq_json_write_final_newline(&o->json);
        }
        break;
    }
    ipsq_table_clear(t);
}

static void write_names_of_hidden_columns(struct ipsq_out *o,
                                          const struct ipsq_table *t)
{
    char *text = NULL;
    size_t size = 0;
    FILE *line = open_memstream(&text, &size);
    if (!line)
        return;
    ipsq_table_print_hidden_columns(line, t);
    fclose(line);
    write_wrapped_text_and_free(o, text);
}

void ipsq_out_table_end(struct ipsq_out *o, struct ipsq_table *t)
{
    ipsq_out_write_and_clear_rows(o, t);
    if (o->format == IPSQ_TABLE)
        write_names_of_hidden_columns(o, t);
    if (o->format == IPSQ_JSON)
        ipsq_json_close_container(&o->json, ']');
}

void ipsq_out_write_table(struct ipsq_out *o, struct ipsq_table *t,
                          const char *heading)
{
    ipsq_out_table_begin(o, t, heading);
    ipsq_out_table_end(o, t);
}

void ipsq_out_set_certificate_write_limitations(struct ipsq_out *o,
                                                const Ips__Certificate *c,
                                                bool verbose)
{
    char *text = NULL;
    size_t size = 0;
    write_collected_values_aligned(o);
    FILE *lines = o->format == IPSQ_TABLE ? open_memstream(&text, &size) : NULL;
    o->certified = true;
    o->certificate = c;
    o->verbose = verbose;
    if (!lines)
        return;
    ipsq_certificate_write_limitations(lines, c, verbose);
    fclose(lines);
    fputs(o->color && size ? IPSQ_YELLOW : "", o->file);
    write_wrapped_text_and_free(o, text);
    fputs(o->color && size ? IPSQ_PLAIN : "", o->file);
    if (size)
        fputc('\n', o->file);
}

static void put_certificate(struct ipsq_out *o)
{
    char *text = NULL;
    size_t size = 0;
    FILE *lines;
    switch (o->format) {
    case IPSQ_TABLE:
        fputc('\n', o->file);
        lines = open_memstream(&text, &size);
        if (!lines)
            return;
        ipsq_certificate_write_text(lines, o->certificate, o->verbose);
        fclose(lines);
        write_wrapped_text_and_free(o, text);
        return;
    case IPSQ_TSV:
        ipsq_certificate_write_tsv(o->file, o->certificate);
        return;
    case IPSQ_JSON:
        ipsq_json_write_key(&o->json, "certificate");
        ipsq_certificate_write_json(&o->json, o->certificate);
        return;
    case IPSQ_JSONL:
        return;
    }
}

void ipsq_out_write_prose_if_table(struct ipsq_out *o, const char *before,
                                   const char *text, unsigned indent)
{
    const struct ipsq_cell cell = ipsq_text_cell(text);
    if (o->format != IPSQ_TABLE)
        return;
    write_collected_values_aligned(o);
    char *clean = ipsq_cell_text(IPSQ_TEXT, &cell);
    write_folded_line(o, before, clean, indent);
    free(clean);
}

void ipsq_out_switch_bold(struct ipsq_out *o, bool bold)
{
    write_collected_values_aligned(o);
    if (o->color)
        fputs(bold ? IPSQ_BOLD : IPSQ_PLAIN, o->file);
}

void ipsq_out_write_line_if_table(struct ipsq_out *o, const char *fmt, ...)
{
    va_list ap;
    if (o->format != IPSQ_TABLE)
        return;
    write_collected_values_aligned(o);
    va_start(ap, fmt);
    vfprintf(o->file, fmt, ap);
    va_end(ap);
    fputc('\n', o->file);
}

int ipsq_out_end(struct ipsq_out *o, struct ips_err *err)
{
    write_collected_values_aligned(o);
    if (o->certified)
        put_certificate(o);
    if (o->format == IPSQ_JSON) {
        ipsq_json_close_container(&o->json, '}');
        ipsq_json_write_final_newline(&o->json);
    }
    if (fflush(o->file) == EOF || ferror(o->file))
        return ips_err_errno(err, "writing the answer");
    return 0;
}
