#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/top_n.h"
#include "client/base/units.h"
#include "client/commands/path_profile.h"
#include "common/types.h"

static const struct ipsq_column columns[] = {
    {"object", "OBJECT", IPSQ_TEXT},
    {"self_ns", "SELF", IPSQ_NS},
    {"self_share", "SHARE", IPSQ_SHARE},
    {"self_low_ns", "LOW", IPSQ_NS},
    {"self_high_ns", "HIGH", IPSQ_NS},
    {"total_ns", "TOTAL", IPSQ_NS},
    {"total_low_ns", "LOW", IPSQ_NS},
    {"total_high_ns", "HIGH", IPSQ_NS},
    {"samples", "SAMPLES", IPSQ_COUNT},
    {"calls", "CALLS", IPSQ_COUNT},
    {"counted_from_ns", NULL, IPSQ_NS},
    {"exact", NULL, IPSQ_BOOL},
    {"procedure", "PROCEDURE", IPSQ_TEXT},
    {"module", NULL, IPSQ_TEXT},
    {"file", NULL, IPSQ_TEXT},
    {"line", NULL, IPSQ_COUNT},
    {"place", "PLACE", IPSQ_TEXT}, /* this column is in the table format only */
};
#define PLACE_BYTES 256

static bool has_object_column(const struct ipsq_options *o)
{
    return o->by &&
           (strcmp(o->by, "process") == 0 || strcmp(o->by, "machine") == 0);
}

static struct ipsq_columns columns_for_options(const struct ipsq_options *o)
{
    size_t first = has_object_column(o) ? 0 : 1;
    bool table = o->format == IPSQ_TABLE;
    return (struct ipsq_columns){columns + first,
                                 IPSQ_COUNT_OF(columns) - first - !table};
}

static struct ipsq_cell cell_of_share(uint64_t part, uint64_t whole)
{
    return ipsq_real_cell(whole ? (double)part / (double)whole
                                : IPS_UNMEASURED_REAL);
}

/* Adds the row of a procedure. `text`: buffer for the source location; NULL:
 * the column is not shown. */
static void add_row(struct ipsq_table *t, const Ips__ProcedureRow *r,
                    uint64_t cpu_ns, bool with_object, char *text)
{
    struct ipsq_cell *cell = ipsq_table_add_row(t);
    if (with_object)
        *cell++ = ipsq_text_cell(r->object);
    *cell++ = ipsq_count_cell(r->self_ns);
    *cell++ = cell_of_share(r->self_ns, cpu_ns);
    *cell++ = ipsq_count_cell(r->self_low_ns);
    *cell++ = ipsq_count_cell(r->self_high_ns);
    *cell++ = ipsq_count_cell(r->total_ns);
    *cell++ = ipsq_count_cell(r->total_low_ns);
    *cell++ = ipsq_count_cell(r->total_high_ns);
    *cell++ = ipsq_count_cell(r->samples);
    *cell++ = ipsq_count_cell(r->calls);
    *cell++ = ipsq_count_cell(r->counted_from_ns ? r->counted_from_ns
                                                 : IPS_UNMEASURED);
    *cell++ = ipsq_bool_cell(r->exact);
    *cell++ = ipsq_text_cell(r->procedure);
    *cell++ = ipsq_text_cell(r->module);
    *cell++ = ipsq_text_cell(r->file);
    *cell++ = ipsq_count_cell(r->line ? r->line : IPS_UNMEASURED);
    if (text) {
        ipsq_format_source_location(r, text, PLACE_BYTES);
        *cell++ = ipsq_text_cell(text);
    }
}

static void add_unsampled(struct ipsq_table *t,
                          const Ips__ProcedureTotals *totals, bool with_object,
                          char *text)
{
    Ips__ProcedureRow r = IPS__PROCEDURE_ROW__INIT;
    r.procedure = ips_unconst_text("[unsampled]");
    r.self_ns = totals->unsampled_ns;
    r.self_low_ns = r.self_high_ns = r.total_ns = IPS_UNMEASURED;
    r.total_low_ns = r.total_high_ns = IPS_UNMEASURED;
    r.calls = IPS_UNMEASURED;
    add_row(t, &r, totals->cpu_ns, with_object, text);
}

static void put_totals(struct ipsq_out *out, const Ips__ProcedureTotals *t)
{
    uint64_t sampled = ips_sub_sat(t->sampled_ns, t->exact_ns);
    ipsq_out_write_or_collect_value(out, IPSQ_NS, "cpu_ns", "cpu",
                                    ipsq_count_cell(t->cpu_ns));
    ipsq_out_write_or_collect_value(out, IPSQ_NS, "sampled_ns", NULL,
                                    ipsq_count_cell(sampled));
    ipsq_out_write_or_collect_value(out, IPSQ_NS, "exact_ns", NULL,
                                    ipsq_count_cell(t->exact_ns));
    ipsq_out_write_or_collect_value(out, IPSQ_NS, "unsampled_ns", NULL,
                                    ipsq_count_cell(t->unsampled_ns));
    ipsq_out_write_or_collect_value(out, IPSQ_COUNT, "samples", "samples",
                                    ipsq_count_cell(t->samples));
    ipsq_out_write_or_collect_value(
        out, IPSQ_NS, "period_ns", "one each",
        ipsq_count_cell(t->samples ? sampled / t->samples : IPS_UNMEASURED));
    ipsq_out_write_or_collect_value(
        out, IPSQ_NS, "asked_period_ns", "asked for",
        ipsq_count_cell(t->samples ? t->asked_ns / t->samples
                                   : IPS_UNMEASURED));
    ipsq_out_write_or_collect_value(
        out, IPSQ_COUNT, "calls", t->called ? "calls" : NULL,
        ipsq_count_cell(t->called ? t->calls : IPS_UNMEASURED));
    ipsq_out_write_or_collect_value(out, IPSQ_COUNT, "procedure_count", NULL,
                                    ipsq_count_cell(t->rows));
}

#define FALLBACKS_MAX 10

/* Reports the procedures whose calls were timed at first and later only
 * counted, because timing them exceeded the budget for recording overhead. */
static void put_procedures_no_longer_timed(struct ipsq_out *out,
                                           const struct ipsq_rows *rows)
{
    unsigned said = 0;
    for (size_t i = 0; i < rows->count && said < FALLBACKS_MAX; i++) {
        const Ips__ProcedureRow *r = rows->row[i];
        char when[IPSQ_UNIT_BYTES];
        if (!r->counted_from_ns)
            continue;
        const struct ipsq_cell cell = ipsq_text_cell(r->procedure);
        /* the name, with control characters replaced */
        char *name = ipsq_cell_text(IPSQ_TEXT, &cell);
        ipsq_format_ns(r->counted_from_ns, when);
        ipsq_out_write_line_if_table(
            out, "%s: from %s on its calls were only counted", name, when);
        free(name);
        said++;
    }
}

struct whole {
    struct ipsq_rows rows;
    char *texts;
};

/* Whether ipsq itself sorts and selects the rows (--sort, --per). Otherwise the
 * master sends the --top rows with the most CPU time. */
static bool sorts_rows_in_client(const struct ipsq_options *o)
{
    return o->sort || o->per_machine;
}

static int print_procedures(const struct ipsq_options *o, const char *run_name,
                            const Ips__ProceduresAnswer *a, struct whole *w,
                            struct ips_err *err)
{
    struct ipsq_table t;
    struct ipsq_out out;
    bool table = o->format == IPSQ_TABLE;
    bool with_object = has_object_column(o);
    const struct ipsq_columns shown = columns_for_options(o);
    w->texts = calloc(w->rows.count + 1, PLACE_BYTES);
    if (!w->texts)
        return ips_err_set(err, IPS_E_NO_MEMORY, "out of memory");
    ipsq_table_init(&t, "procedures", shown.column, shown.count);
    t.spare_columns = "calls samples total_low_ns+total_high_ns "
                      "self_low_ns+self_high_ns total_ns";
    for (size_t i = 0; i < w->rows.count; i++)
        add_row(&t, w->rows.row[i], a->totals->cpu_ns, with_object,
                table ? w->texts + i * PLACE_BYTES : NULL);
    if (a->totals->unsampled_ns > 0)
        add_unsampled(&t, a->totals, with_object,
                      table ? w->texts + w->rows.count * PLACE_BYTES : NULL);
    uint64_t left_out = 0;
    int rc =
        sorts_rows_in_client(o)
            ? ipsq_sort_and_keep_top(&t, o, with_object ? 1 : 0, &left_out, err)
            : 0;
    if (rc < 0) {
        ipsq_table_release(&t);
        return rc;
    }
    ipsq_progress_stop_and_erase_line();
    ipsq_out_begin(&out, stdout, o->format, true);
    ipsq_out_set_certificate_write_limitations(&out, a->certificate,
                                               o->verbose);
    ipsq_out_write_or_collect_value(&out, IPSQ_TEXT, "run", "run",
                                    ipsq_text_cell(run_name));
    ipsq_out_write_or_collect_value(
        &out, IPSQ_TEXT, "object", NULL,
        ipsq_text_cell(o->object ? o->object : "/"));
    ipsq_out_write_or_collect_value(
        &out, IPSQ_TEXT, "by", NULL,
        ipsq_text_cell(o->by ? o->by : "procedure"));
    put_totals(&out, a->totals);
    ipsq_out_write_table(&out, &t, "");
    ipsq_table_release(&t);
    if (w->rows.count < a->totals->rows) /* the master left out some rows */
        left_out += a->totals->rows - w->rows.count;
    ipsq_put_left_out_count(&out, "procedures", left_out);
    put_procedures_no_longer_timed(&out, &w->rows);
    return ipsq_out_end(&out, err);
}

static int collect_procedures(const Ips__Reply *reply, void *arg,
                              struct ips_err *err)
{
    struct whole *w = arg;
    if (reply->answer_case != IPS__REPLY__ANSWER_PROCEDURES)
        return 0; /* ipsq_check_answer_kind later reports the wrong kind of
                     answer */
    return ipsq_rows_append_array(&w->rows, reply->procedures->rows,
                                  reply->procedures->n_rows, err);
}

static int run_procedures(const struct ipsq_command *self,
                          const struct ipsq_options *o, struct ipsq_session *s,
                          struct ips_err *err)
{
    Ips__Request rq = IPS__REQUEST__INIT;
    Ips__ProceduresAsk ask = IPS__PROCEDURES_ASK__INIT;
    const Ips__Reply *last = NULL;
    struct whole whole = {0};
    Ips__Select select;
    (void)self;
    rq.ask_case = IPS__REQUEST__ASK_PROCEDURES;
    rq.procedures = &ask;
    ask.object = ips_unconst_text(o->object ? o->object : "/");
    ask.by = ips_unconst_text(o->by ? o->by : "procedure");
    ask.top = sorts_rows_in_client(o) ? 0 : o->top;
    ask.select = sorts_rows_in_client(o)
                     ? ipsq_top_n_fill_procedure_request(o, &select)
                     : NULL;
    ask.from_ns = o->from_ns;
    ask.to_ns = o->to_ns;
    ask.phase = o->phase;
    int rc = ipsq_find_and_set_run_of_request(s, o, &rq, err);
    if (rc == 0)
        rc = ipsq_session_ask(s, &rq, false, collect_procedures, &whole, &last,
                              err);
    if (rc == 0)
        rc = ipsq_check_answer_kind(last, IPS__REPLY__ANSWER_PROCEDURES, err);
    if (rc == 0 && !last->procedures->totals)
        rc = ips_err_set(err, IPS_E_PROTOCOL, "the answer has no totals");
    if (rc == 0)
        rc = print_procedures(o, rq.run, last->procedures, &whole, err);
    ipsq_rows_release(&whole.rows);
    free(whole.texts);
    return rc < 0 ? rc
                  : ipsq_certificate_exit_status(last->procedures->certificate);
}

const struct ipsq_command ipsq_cmd_procedures = {
    .name = "procedures",
    .usage = "[RUN] [--object OBJECT] [--by WHAT] [--sort COLUMN]\n"
             "                       [--top N] [--per machine]\n"
             "                       [--phase N | --from TIME --to TIME]",
    .summary = "CPU time by procedure",
    .group = IPSQ_ASK,
    .examples = "  ipsq procedures run3 --top 20\n"
                "  ipsq procedures run3 --by line --object /m1/server.123\n",
    .help = "SELF is the CPU time in the procedure itself, TOTAL includes the "
            "procedures that it called. For sampled procedures LOW and HIGH "
            "are the 95% interval of SELF, and SAMPLES is the number of "
            "samples. PLACE is where the debug information says that the "
            "procedure is declared; with --by line it is the line that ran. "
            "[unsampled] is CPU time that no sample attributes to a "
            "procedure.\n",
    .options = IPSQ_HAS(OBJECT) | IPSQ_HAS(BY) | IPSQ_HAS(SORT) |
               IPSQ_HAS(PER) | IPSQ_HAS(TOP) | IPSQ_HAS(FROM) | IPSQ_HAS(TO) |
               IPSQ_HAS(PHASE),
    .formats = IPSQ_FORMATS_USUAL,
    .bys = IPSQ_IS_BY(PROCEDURE) | IPSQ_IS_BY(PROCESS) | IPSQ_IS_BY(MACHINE) |
           IPSQ_IS_BY(LINE),
    .sort_columns = columns_for_options,
    .max_args = 1,
    .run = run_procedures,
};
