/*
 * Writes an answer in the format that the user asked for: its limitations,
 * named values, tables, and the certificate. Commands decide the contents and
 * their order; this file and format_*.c decide how it looks.
 *
 * JSON: one object; with `jsonl` one row a line and nothing else. TSV: a header
 * line and rows; if there are several tables, each is preceded by a line
 * "#name"; the certificate is written as lines "#certificate TAB key TAB
 * value".
 */
#ifndef IPS_CLIENT_BASE_OUT_H
#define IPS_CLIENT_BASE_OUT_H

#include <stdio.h>

#include "client/base/json.h"
#include "client/base/table.h"
#include "proto/frame.h"

enum ipsq_format { IPSQ_TABLE, IPSQ_TSV, IPSQ_JSON, IPSQ_JSONL };

struct ipsq_out {
    FILE *file;
    enum ipsq_format format;
    bool several;           /* TSV: the answer has more than one table */
    unsigned parts_written; /* number of tables written so far */
    unsigned columns;       /* width of the terminal; 0: not a terminal */
    bool color;
    struct {
        const char *title;
        char *text;
    } value[24]; /* table format: values that are collected and later written in
                    aligned columns */
    unsigned value_count;
    bool certified, verbose;
    /* the certificate given to ipsq_out_set_certificate_write_limitations() */
    const Ips__Certificate *certificate;
    struct ipsq_json json;
};

void ipsq_out_begin(struct ipsq_out *o, FILE *file, enum ipsq_format format,
                    bool several);
/* Writes a named value. `key`: its name in JSON and TSV. `title`: its name in
 * the table format; NULL: left out there. */
void ipsq_out_write_or_collect_value(struct ipsq_out *o, enum ipsq_kind kind,
                                     const char *key, const char *title,
                                     struct ipsq_cell value);
/* Writes a named text of up to 255 bytes, in the table format only. */
void ipsq_out_write_formatted_value_if_table(struct ipsq_out *o,
                                             const char *title, const char *fmt,
                                             ...)
    __attribute__((format(printf, 3, 4)));
/* Starts and ends a group of tables in JSON ({"name": {...}}); does nothing in
 * other formats. */
void ipsq_out_begin_group_if_json(struct ipsq_out *o, const char *name);
void ipsq_out_end_group_if_json(struct ipsq_out *o);
/* Writes a whole table. `heading` is printed above it in the table format;
 * NULL: none. */
void ipsq_out_write_table(struct ipsq_out *o, struct ipsq_table *t,
                          const char *heading);
/* Writes a whole table in steps. Call _begin first. Then call _rows any number
 * of times: it writes the rows of `t` and removes them from `t`. _end writes
 * the last rows and the end of the table. */
void ipsq_out_table_begin(struct ipsq_out *o, struct ipsq_table *t,
                          const char *heading);
void ipsq_out_write_and_clear_rows(struct ipsq_out *o, struct ipsq_table *t);
void ipsq_out_table_end(struct ipsq_out *o, struct ipsq_table *t);
/* Called right after ipsq_out_begin(). In the table format, writes the
 * limitations of the answer at once; ipsq_out_end() writes the certificate. `c`
 * NULL: the answer has no certificate and counts as incomplete. */
void ipsq_out_set_certificate_write_limitations(struct ipsq_out *o,
                                                const Ips__Certificate *c,
                                                bool verbose);
/* Writes prose, in the table format only: `before` as it is, then `text` with
 * control characters replaced; folded on a terminal, with continuation lines
 * indented by `indent` columns. */
void ipsq_out_write_prose_if_table(struct ipsq_out *o, const char *before,
                                   const char *text, unsigned indent);
/* Switches bold on or off; only on a terminal with colours. */
void ipsq_out_switch_bold(struct ipsq_out *o, bool bold);
/* Writes a line, in the table format only. */
void ipsq_out_write_line_if_table(struct ipsq_out *o, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Ends the answer. Returns 0, or a negative code if the stream could not be
 * written. */
int ipsq_out_end(struct ipsq_out *o, struct ips_err *err) IPS_MUST_USE;

/* ---- format_*.c ------------------------------------------------------- */

/* Writes the rows of `t`, and before its first row the titles. `columns`:
 * greatest width of the table, 0: no limit; `color`: print the titles in
 * bold. */
void ipsq_table_write_text(FILE *f, struct ipsq_table *t, unsigned columns,
                           bool color);
/* Called after the last row: prints which columns were left out because the
 * terminal is too narrow. */
void ipsq_table_print_hidden_columns(FILE *f, const struct ipsq_table *t);
/* Sets whether tables may be wider than the terminal (--wide). */
void ipsq_set_tables_wide(bool wide);
/* Sets whether ipsq_cell_text replaces characters beyond ASCII with '?'. */
void ipsq_set_cells_ascii(bool ascii);
void ipsq_table_write_tsv(FILE *f, struct ipsq_table *t);
void ipsq_json_write_cell(struct ipsq_json *j, enum ipsq_kind kind,
                          const struct ipsq_cell *cell);
void ipsq_json_write_row(struct ipsq_json *j, const struct ipsq_table *t,
                         size_t row);

/* Returns the text of a cell as printed for people, malloc'd, with control
 * characters replaced. */
char *ipsq_cell_text(enum ipsq_kind kind, const struct ipsq_cell *cell);
/* Writes a cell as TSV: numbers without units; \t \n \r \\ are escaped; a value
 * that was not measured is empty. */
void ipsq_tsv_write_cell(FILE *f, enum ipsq_kind kind,
                         const struct ipsq_cell *cell);

/* Writes the certificate for people: all of it if `verbose`, else its notes and
 * a summary of one line. */
void ipsq_certificate_write_text(FILE *f, const Ips__Certificate *c,
                                 bool verbose);
/* Writes the limitations of an answer, if there are any, one a line. Unless
 * `verbose`, writes only the first line of each kind, with the number of the
 * others. */
void ipsq_certificate_write_limitations(FILE *f, const Ips__Certificate *c,
                                        bool verbose);
void ipsq_certificate_write_tsv(FILE *f, const Ips__Certificate *c);
void ipsq_certificate_write_json(struct ipsq_json *j,
                                 const Ips__Certificate *c);
/* Returns `c`. If `c` is NULL, returns an incomplete certificate whose gap says
 * that the answer came without a certificate. */
const Ips__Certificate *
ipsq_certificate_or_placeholder(const Ips__Certificate *c);
#define IPSQ_OVERHEAD_BYTES 64
/* Formats "recording overhead 1.2% CPU". False: the overhead is unknown. */
bool ipsq_format_overhead_text(char out[IPSQ_OVERHEAD_BYTES],
                               const Ips__Certificate *c);
/* Returns the words that say why a process was not recorded; `cause` is that of
 * an Untraced message. */
const char *ipsq_describe_untraced_cause(const char *cause);

#endif
