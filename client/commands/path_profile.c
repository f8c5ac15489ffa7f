#include "client/commands/path_profile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/top_n.h"
#include "client/base/units.h"
#include "common/types.h"

#define PLACE_BYTES 256
#define DEFAULT_BY                                                             \
    (IPSQ_IS_BY(MACHINE) | IPSQ_IS_BY(PROCESS) | IPSQ_IS_BY(PROCEDURE) |       \
     IPSQ_IS_BY(MESSAGE) | IPSQ_IS_BY(EXTERNAL))

static unsigned grouping_mask_of(const struct ipsq_options *o)
{
    return o->by_mask ? o->by_mask : DEFAULT_BY;
}

size_t ipsq_fill_path_groupings(const struct ipsq_options *o,
                                char *by[IPSQ_BY_COUNT])
{
    static const char *const words[] = {
#define X(name, word) word,
        IPSQ_BYS(X)
#undef X
    };
    size_t n = 0;
    for (int i = 0; i < IPSQ_BY_COUNT; i++)
        if (grouping_mask_of(o) & 1u << i)
            by[n++] = ips_unconst_text(words[i]);
    return n;
}

int ipsq_path_rows_append_answer(struct ipsq_path_rows *rows,
                                 const Ips__PathAnswer *a, struct ips_err *err)
{
    const Ips__WholeGraph *w = a->whole;
    int rc = ipsq_rows_append_array(&rows->procedures, a->by_procedure,
                                    a->n_by_procedure, err);
    if (rc == 0)
        rc = ipsq_rows_append_array(&rows->source_lines, a->by_line,
                                    a->n_by_line, err);
    if (rc == 0 && w)
        rc = ipsq_rows_append_array(&rows->whole_procedures, w->by_procedure,
                                    w->n_by_procedure, err);
    if (rc == 0 && w)
        rc = ipsq_rows_append_array(&rows->whole_lines, w->by_line,
                                    w->n_by_line, err);
    return rc;
}

void ipsq_path_rows_release(struct ipsq_path_rows *rows)
{
    ipsq_rows_release(&rows->procedures);
    ipsq_rows_release(&rows->source_lines);
    ipsq_rows_release(&rows->whole_procedures);
    ipsq_rows_release(&rows->whole_lines);
}

static struct ipsq_cell cell_of_share(uint64_t part, uint64_t whole)
{
    return ipsq_real_cell(whole ? (double)part / (double)whole
                                : IPS_UNMEASURED_REAL);
}

static void write_table_and_release(struct ipsq_out *out, struct ipsq_table *t,
                                    const char *heading, uint64_t left_out)
{
    if (t->row_count || out->format != IPSQ_TABLE)
        ipsq_out_write_table(out, t, heading);
    ipsq_put_left_out_count(out, t->name, left_out);
    ipsq_table_release(t);
}

/* ---- shares ---- */

static const struct ipsq_column share_columns[] = {
    {"share", "SHARE", IPSQ_SHARE},  {"ns", "TIME", IPSQ_NS},
    {"count", "PIECES", IPSQ_COUNT}, {"stable", "STABLE", IPSQ_BOOL},
    {"ns_low", "FROM", IPSQ_NS},     {"ns_high", "TO", IPSQ_NS},
    {"object", "OBJECT", IPSQ_TEXT},
};

static void put_shares(struct ipsq_out *out, const char *name,
                       const char *heading, Ips__Share **shares, size_t count,
                       uint64_t whole, uint64_t top)
{
    struct ipsq_table t;
    ipsq_table_init(&t, name, share_columns, IPSQ_COUNT_OF(share_columns));
    t.spare_columns = "ns_low+ns_high stable count";
    for (size_t i = 0; i < count; i++) {
        struct ipsq_cell *cell = ipsq_table_add_row(&t);
        *cell++ = cell_of_share(shares[i]->ns, whole);
        *cell++ = ipsq_count_cell(shares[i]->ns);
        *cell++ = ipsq_count_cell(shares[i]->count);
        *cell++ = ipsq_bool_cell(shares[i]->stable);
        *cell++ = ipsq_count_cell(shares[i]->ns_low);
        *cell++ = ipsq_count_cell(shares[i]->ns_high);
        *cell++ = ipsq_text_cell(shares[i]->object);
    }
    uint64_t left_out = ipsq_table_sort_and_keep_top(&t, 1, top);
    write_table_and_release(out, &t, heading, left_out);
}

/* ---- procedures and lines ---- */

static const struct ipsq_column procedure_columns[] = {
    {"share", "SHARE", IPSQ_SHARE}, {"ns", "SELF", IPSQ_NS},
    {"ns_low", "LOW", IPSQ_NS},     {"ns_high", "HIGH", IPSQ_NS},
    {"total_ns", "TOTAL", IPSQ_NS}, {"samples", "SAMPLES", IPSQ_COUNT},
    {"exact", NULL, IPSQ_BOOL},     {"procedure", "PROCEDURE", IPSQ_TEXT},
    {"module", NULL, IPSQ_TEXT},    {"file", NULL, IPSQ_TEXT},
    {"line", NULL, IPSQ_COUNT},     {"place", "PLACE", IPSQ_TEXT},
};
static const struct ipsq_column whole_procedure_columns[] = {
    {"share", "SHARE", IPSQ_SHARE},
    {"ns", "SELF", IPSQ_NS},
    {"path_ns", "ON PATH", IPSQ_NS},
    {"on_path", "OF IT", IPSQ_SHARE},
    {"ns_low", "LOW", IPSQ_NS},
    {"ns_high", "HIGH", IPSQ_NS},
    {"samples", "SAMPLES", IPSQ_COUNT},
    {"exact", NULL, IPSQ_BOOL},
    {"procedure", "PROCEDURE", IPSQ_TEXT},
    {"module", NULL, IPSQ_TEXT},
    {"file", NULL, IPSQ_TEXT},
    {"line", NULL, IPSQ_COUNT},
    {"place", "PLACE", IPSQ_TEXT},
};

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

void ipsq_format_source_location(const Ips__ProcedureRow *r, char *out,
                                 size_t room)
{
    if (*r->file && r->line)
        snprintf(out, room, "%s:%u (%s)", base_name(r->file), r->line,
                 base_name(r->module));
    else
        snprintf(out, room, "%s%s%s", *r->module ? "(" : "",
                 base_name(r->module), *r->module ? ")" : "");
}

static void fill_sample_and_source_cells(struct ipsq_cell *cell,
                                         const Ips__ProcedureRow *r,
                                         char *place)
{
    *cell++ = ipsq_count_cell(r->samples);
    *cell++ = ipsq_bool_cell(r->exact);
    *cell++ = ipsq_text_cell(r->procedure);
    *cell++ = ipsq_text_cell(r->module);
    *cell++ = ipsq_text_cell(r->file);
    *cell++ = ipsq_count_cell(r->line ? r->line : IPS_UNMEASURED);
    if (place) {
        ipsq_format_source_location(r, place, PLACE_BYTES);
        *cell = ipsq_text_cell(place);
    }
}

struct procedures {
    const char *name, *heading;
    const struct ipsq_rows *rows;
    const Ips__ProcedureTotals *totals;
    uint64_t of; /* total time of which the shares are fractions */
    /* only if `whole`: the part of unsampled_ns that is on the path */
    uint64_t path_unsampled;
    /* time of the path off the CPU; always 0 with the weighting cpu */
    uint64_t off_cpu_ns;
    bool whole; /* true: the rows cover all work, not only the path */
};

static void add_procedure_row(struct ipsq_table *t, const Ips__ProcedureRow *r,
                              const struct procedures *p, char *place)
{
    struct ipsq_cell *cell = ipsq_table_add_row(t);
    *cell++ = cell_of_share(r->self_ns, p->of);
    *cell++ = ipsq_count_cell(r->self_ns);
    if (p->whole) {
        *cell++ = ipsq_count_cell(r->path_ns);
        *cell++ = cell_of_share(r->path_ns, r->self_ns);
    }
    *cell++ = ipsq_count_cell(r->self_low_ns);
    *cell++ = ipsq_count_cell(r->self_high_ns);
    if (!p->whole)
        *cell++ = ipsq_count_cell(r->total_ns);
    fill_sample_and_source_cells(cell, r, place);
}

/* Adds a row for time that belongs to no procedure. */
static void add_unattributed_row(struct ipsq_table *t, const char *what,
                                 uint64_t ns, uint64_t path_ns,
                                 const struct procedures *p, char *place)
{
    Ips__ProcedureRow rest = IPS__PROCEDURE_ROW__INIT;
    if (!ns)
        return;
    rest.procedure = ips_unconst_text(what);
    rest.self_ns = ns;
    rest.path_ns = path_ns;
    rest.self_low_ns = rest.self_high_ns = rest.total_ns = IPS_UNMEASURED;
    add_procedure_row(t, &rest, p, place);
}

/* Writes rows for all procedures and for the time that belongs to none, so that
 * the rows add up to the total. */
static void put_procedures(struct ipsq_out *out, const struct procedures *p,
                           uint64_t top)
{
    bool table = out->format == IPSQ_TABLE;
    size_t n = p->rows->count;
    struct ipsq_table t;
    char *places = table ? calloc(n + 2, PLACE_BYTES) : NULL;
    if (table && (n == 0 || !places)) {
        free(places);
        return;
    }
    ipsq_table_init(&t, p->name,
                    p->whole ? whole_procedure_columns : procedure_columns,
                    (p->whole ? IPSQ_COUNT_OF(whole_procedure_columns)
                              : IPSQ_COUNT_OF(procedure_columns)) -
                        !table);
    t.spare_columns = "samples total_ns ns_low+ns_high";
    for (size_t i = 0; i < n; i++)
        add_procedure_row(&t, p->rows->row[i], p,
                          table ? places + i * PLACE_BYTES : NULL);
    add_unattributed_row(
        &t, "[unsampled]", p->totals ? p->totals->unsampled_ns : 0,
        p->path_unsampled, p, table ? places + n * PLACE_BYTES : NULL);
    add_unattributed_row(&t, "[off the CPU]", p->off_cpu_ns, 0, p,
                         table ? places + (n + 1) * PLACE_BYTES : NULL);
    uint64_t left_out = ipsq_table_sort_and_keep_top(&t, 1, top);
    write_table_and_release(out, &t, p->heading, left_out);
    free(places);
}

/* ---- sequences ---- */

static const struct ipsq_column sequence_columns[] = {
    {"share", "SHARE", IPSQ_SHARE},  {"ns", "TIME", IPSQ_NS},
    {"count", "TIMES", IPSQ_COUNT},  {"objects", NULL, IPSQ_LIST},
    {"procedures", NULL, IPSQ_LIST}, {"steps", "STEPS", IPSQ_TEXT},
};

/* Returns the steps of a sequence as text, such as "solver.12 sweep ->
 * solver.13 sweep"; malloc'd, NULL: out of memory. */
static char *steps_text(const Ips__Sequence *s)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    if (!f)
        return NULL;
    for (size_t i = 0; i < s->n_objects && i < s->n_procedures; i++)
        fprintf(f, "%s%s %s", i ? " -> " : "", base_name(s->objects[i]),
                s->procedures[i]);
    return fclose(f) == 0 ? text : NULL;
}

static void put_sequences(struct ipsq_out *out, const char *heading,
                          Ips__Sequence **rows, size_t n, uint64_t of,
                          uint64_t top)
{
    struct ipsq_table t;
    size_t left_out = top && top < n ? n - (size_t)top : 0;
    n -= left_out;
    char **texts = calloc(n + 1, sizeof(*texts));
    bool table = out->format == IPSQ_TABLE;
    ipsq_table_init(&t, "sequences", sequence_columns,
                    IPSQ_COUNT_OF(sequence_columns) - !table);
    for (size_t i = 0; texts && i < n; i++) {
        const Ips__Sequence *s = rows[i];
        struct ipsq_cell *cell = ipsq_table_add_row(&t);
        *cell++ = cell_of_share(s->ns, of);
        *cell++ = ipsq_count_cell(s->ns);
        *cell++ = ipsq_count_cell(s->count);
        *cell++ = ipsq_list_cell(s->objects, s->n_objects);
        *cell++ = ipsq_list_cell(s->procedures, s->n_procedures);
        if (table) {
            texts[i] = steps_text(s);
            *cell++ = ipsq_text_cell(texts[i] ? texts[i] : "");
        }
    }
    if (table && n == 0)
        ipsq_out_write_line_if_table(out, "\n%s: no sequence occurs twice",
                                     heading);
    write_table_and_release(out, &t, heading, left_out);
    for (size_t i = 0; texts && i < n; i++)
        free(texts[i]);
    free(texts);
}

/* ---- the whole graph ---- */

static const struct ipsq_column whole_columns[] = {
    {"share", "SHARE", IPSQ_SHARE},     {"ns", "TIME", IPSQ_NS},
    {"path_ns", "ON PATH", IPSQ_NS},    {"on_path", "OF IT", IPSQ_SHARE},
    {"threads", "THREADS", IPSQ_COUNT}, {"object", "OBJECT", IPSQ_TEXT},
};

static void put_shares_of_all_work(struct ipsq_out *out, const char *name,
                                   const char *heading, Ips__Share **shares,
                                   size_t count, uint64_t whole, uint64_t top)
{
    struct ipsq_table t;
    ipsq_table_init(&t, name, whole_columns, IPSQ_COUNT_OF(whole_columns));
    for (size_t i = 0; i < count; i++) {
        struct ipsq_cell *cell = ipsq_table_add_row(&t);
        *cell++ = cell_of_share(shares[i]->ns, whole);
        *cell++ = ipsq_count_cell(shares[i]->ns);
        *cell++ = ipsq_count_cell(shares[i]->path_ns);
        *cell++ = cell_of_share(shares[i]->path_ns, shares[i]->ns);
        *cell++ = ipsq_count_cell(shares[i]->count);
        *cell++ = ipsq_text_cell(shares[i]->object);
    }
    uint64_t left_out = ipsq_table_sort_and_keep_top(&t, 1, top);
    write_table_and_release(out, &t, heading, left_out);
}

static void put_profile_of_all_work(struct ipsq_out *out, unsigned by,
                                    bool sequences, const Ips__PathAnswer *a,
                                    const struct ipsq_path_rows *rows,
                                    uint64_t top)
{
    const Ips__WholeGraph *w = a->whole;
    uint64_t path_unsampled =
        a->procedure_totals ? a->procedure_totals->unsampled_ns : 0;
    ipsq_out_begin_group_if_json(out, "whole");
    if (by & IPSQ_IS_BY(MACHINE))
        put_shares_of_all_work(
            out, "machines", "all work by machine, and its share on the path",
            w->by_machine, w->n_by_machine, w->total_ns, top);
    if (by & IPSQ_IS_BY(PROCESS))
        put_shares_of_all_work(out, "processes", "all work by process",
                               w->by_process, w->n_by_process, w->total_ns,
                               top);
    if (by & IPSQ_IS_BY(THREAD))
        put_shares_of_all_work(out, "threads", "all work by thread",
                               w->by_thread, w->n_by_thread, w->total_ns, top);
    struct procedures p = {.totals = w->totals,
                           .of = w->total_ns,
                           .path_unsampled = path_unsampled,
                           .whole = true};
    p.name = "procedures";
    p.heading = "all work by procedure";
    p.rows = &rows->whole_procedures;
    if (by & IPSQ_IS_BY(PROCEDURE))
        put_procedures(out, &p, top);
    p.name = "lines";
    p.heading = "all work by line";
    p.rows = &rows->whole_lines;
    if (by & IPSQ_IS_BY(LINE))
        put_procedures(out, &p, top);
    if (sequences)
        put_sequences(out, "the most common sequences of all work",
                      w->sequences, w->n_sequences, w->total_ns, top);
    ipsq_out_end_group_if_json(out);
}

/* ---- all tables ---- */

static void put_path_shares(struct ipsq_out *out, unsigned by,
                            const Ips__PathAnswer *a,
                            const struct ipsq_path_rows *rows, uint64_t top)
{
    uint64_t of = a->window_ns;
    struct procedures p = {
        .totals = a->procedure_totals, .of = of, .off_cpu_ns = a->off_cpu_ns};
    if (by & IPSQ_IS_BY(MACHINE))
        put_shares(out, "machines", "the path's time by machine", a->by_machine,
                   a->n_by_machine, of, top);
    if (by & IPSQ_IS_BY(PROCESS))
        put_shares(out, "processes", "by process", a->by_process,
                   a->n_by_process, of, top);
    if (by & IPSQ_IS_BY(THREAD))
        put_shares(out, "threads", "by thread", a->by_thread, a->n_by_thread,
                   of, top);
    p.name = "procedures";
    p.heading = "by procedure";
    p.rows = &rows->procedures;
    if (by & IPSQ_IS_BY(PROCEDURE))
        put_procedures(out, &p, top);
    p.name = "lines";
    p.heading = "by line";
    p.rows = &rows->source_lines;
    if (by & IPSQ_IS_BY(LINE))
        put_procedures(out, &p, top);
    if (by & IPSQ_IS_BY(MESSAGE))
        put_shares(out, "messages", "by message", a->by_message,
                   a->n_by_message, of, top);
    if (by & IPSQ_IS_BY(EXTERNAL))
        put_shares(out, "externals", "by wait for something not recorded",
                   a->by_external, a->n_by_external, of, top);
}

void ipsq_put_path_profile(struct ipsq_out *out, const struct ipsq_options *o,
                           const Ips__PathAnswer *a,
                           const struct ipsq_path_rows *rows, uint64_t top)
{
    unsigned by = grouping_mask_of(o);
    if (ipsq_has_window(o))
        ipsq_out_write_or_collect_value(out, IPSQ_NS, "window_ns",
                                        "in the window",
                                        ipsq_count_cell(a->window_ns));
    ipsq_out_begin_group_if_json(out, "shares");
    /* puts a blank line between the values and the first list */
    out->parts_written = 1;
    put_path_shares(out, by, a, rows, top);
    ipsq_out_end_group_if_json(out);
    if (o->sequences)
        put_sequences(out, "the most common sequences on the path",
                      a->sequences, a->n_sequences, a->window_ns, top);
    if (o->whole && a->whole)
        put_profile_of_all_work(out, by, o->sequences, a, rows, top);
}
