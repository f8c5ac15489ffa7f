/*
 * An answer being written, in the format the user asked for: what limits it,
 * some named values, tables, and the certificate. Commands say what they have
 * and in which order; how it looks is decided here and in format_*.c.
 *
 * JSON: one object, or with `jsonl` one row a line and nothing else. TSV: a
 * header line and rows; where there are several parts, each is preceded by a
 * line "#name"; the certificate is lines "#certificate TAB key TAB value".
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
    bool several;           /* TSV: the answer has more than one part */
    unsigned parts_written; /* written so far */
    unsigned columns;       /* of the terminal; 0: none */
    bool color;
    struct {
        const char *title;
        char *text;
    } value[24]; /* of the table format, to be written below one another */
    unsigned value_count;
    bool certified, verbose;
    const Ips__Certificate *certificate; /* of ipsq_out_certificate() */
    struct ipsq_json json;
};

void ipsq_out_begin(struct ipsq_out *o, FILE *file, enum ipsq_format format,
                    bool several);
/* A named value; `title` NULL: not in the table format. */
void ipsq_out_value(struct ipsq_out *o, enum ipsq_kind kind, const char *key,
                    const char *title, struct ipsq_cell value);
/* A named text of up to 255 bytes, in the table format alone. */
void ipsq_out_text(struct ipsq_out *o, const char *title, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* A group of tables in JSON ({"name": {...}}); nothing elsewhere. */
void ipsq_out_group(struct ipsq_out *o, const char *name);
void ipsq_out_group_end(struct ipsq_out *o);
/* A whole table. `heading` stands above it in the table format; NULL none. */
void ipsq_out_table(struct ipsq_out *o, struct ipsq_table *t,
                    const char *heading);
/* The same in several goes: begin, any number of rows (each writes what the
 * table holds and clears it), end. */
void ipsq_out_table_begin(struct ipsq_out *o, struct ipsq_table *t,
                          const char *heading);
void ipsq_out_table_rows(struct ipsq_out *o, struct ipsq_table *t);
void ipsq_out_table_end(struct ipsq_out *o, struct ipsq_table *t);
/* Right after ipsq_out_begin(): in the table format writes what limits the
 * answer. ipsq_out_end() writes the certificate (NULL, of an answer without
 * one, as incomplete). */
void ipsq_out_certificate(struct ipsq_out *o, const Ips__Certificate *c,
                          bool verbose);
/* Prose, in the table format alone: `before` as it is, then `text` with control
 * characters replaced, folded on a terminal, `indent` columns to the right. */
void ipsq_out_prose(struct ipsq_out *o, const char *before, const char *text,
                    unsigned indent);
/* What follows stands out, until false; on a terminal with colours alone. */
void ipsq_out_bold(struct ipsq_out *o, bool bold);
/* A line, in the table format alone. */
void ipsq_out_line(struct ipsq_out *o, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* 0, or a negative code where the stream could not be written. */
int ipsq_out_end(struct ipsq_out *o, struct ips_err *err) IPS_MUST_USE;

/* ---- format_*.c ------------------------------------------------------- */

/* The rows, and before the first ones the titles. `columns`: as wide as the
 * table may be, 0 any; `color`: the titles stand out. */
void ipsq_table_write_text(FILE *f, struct ipsq_table *t, unsigned columns,
                           bool color);
/* After the last row: which columns were left out. */
void ipsq_table_say_hidden(FILE *f, const struct ipsq_table *t);
/* Tables from now on are as wide as they are (--wide). */
void ipsq_tables_wide(bool wide);
/* Characters beyond ASCII become '?'. */
void ipsq_cells_ascii(bool ascii);
void ipsq_table_write_tsv(FILE *f, struct ipsq_table *t);
void ipsq_json_cell(struct ipsq_json *j, enum ipsq_kind kind,
                    const struct ipsq_cell *cell);
void ipsq_json_row(struct ipsq_json *j, const struct ipsq_table *t, size_t row);

/* A cell as a person reads it, malloc'd; control characters replaced. */
char *ipsq_cell_text(enum ipsq_kind kind, const struct ipsq_cell *cell);
/* As TSV has it: raw numbers, \t \n \r \\ escaped, "" where not measured. */
void ipsq_tsv_cell(FILE *f, enum ipsq_kind kind, const struct ipsq_cell *cell);

/* `verbose`: all of it; else one line. */
void ipsq_certificate_text(FILE *f, const Ips__Certificate *c, bool verbose);
/* The lines that say what limits an answer; none where nothing does. Without
 * `verbose` one of each kind, with the number of the others. */
void ipsq_certificate_limits(FILE *f, const Ips__Certificate *c, bool verbose);
void ipsq_certificate_tsv(FILE *f, const Ips__Certificate *c);
void ipsq_certificate_json(struct ipsq_json *j, const Ips__Certificate *c);
/* `c`, or the certificate of an answer that has none: not complete. */
const Ips__Certificate *ipsq_certificate_or_none(const Ips__Certificate *c);
/* "recording overhead 1.2% CPU"; false: not known. */
#define IPSQ_OVERHEAD_BYTES 64
bool ipsq_overhead_text(char out[IPSQ_OVERHEAD_BYTES],
                        const Ips__Certificate *c);
/* Why a process was not recorded, in words, of an Untraced's `cause`. */
const char *ipsq_untraced_why(const char *cause);

#endif
