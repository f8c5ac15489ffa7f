/*
 * `ipsq metrics --level procedure`: prints the metrics of Table 2 (in the paper
 * on IPS) that are defined for a procedure of a process: CPU time in the
 * procedure, CPU time including its callees, calls. The rows are like those of
 * the other levels. Threads are summed, so "/m1/a.3/.../main" is written
 * "/m1/a.3//main", with an empty thread. Source: IPS-3, IPS-7.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/top_n.h"
#include "client/commands/metrics.h"

static const struct ipsq_column columns[] = {
    {"object", "OBJECT", IPSQ_TEXT}, {"level", NULL, IPSQ_TEXT},
    {"cpu_ns", "CPU", IPSQ_NS},      {"total_ns", "TOTAL", IPSQ_NS},
    {"calls", "CALLS", IPSQ_COUNT},  {"samples", "SAMPLES", IPSQ_COUNT},
    {"exact", NULL, IPSQ_BOOL},      {"process", NULL, IPSQ_TEXT},
    {"procedure", NULL, IPSQ_TEXT},  {"module", NULL, IPSQ_TEXT},
    {"file", NULL, IPSQ_TEXT},       {"line", NULL, IPSQ_COUNT},
};
enum { CPU_COLUMN = 2 };
const struct ipsq_columns ipsq_metrics_procedure_columns = {
    columns, IPSQ_COUNT_OF(columns)};

struct whole {
    struct ipsq_rows rows;
    char **names; /* [rows.count] name of each row, such as
                     "/m1/a.3//main"; malloc'd */
};

static int collect_procedure_metrics(const Ips__Reply *reply, void *arg,
                                     struct ips_err *err)
{
    struct whole *w = arg;
    if (reply->answer_case != IPS__REPLY__ANSWER_PROCEDURES)
        return 0; /* ipsq_check_answer_kind later reports the wrong kind of
                     answer */
    return ipsq_rows_append_array(&w->rows, reply->procedures->rows,
                                  reply->procedures->n_rows, err);
}

static void add_row(struct ipsq_table *t, const Ips__ProcedureRow *r,
                    const char *name)
{
    struct ipsq_cell *cell = ipsq_table_add_row(t);
    *cell++ = ipsq_text_cell(name);
    *cell++ = ipsq_text_cell("procedure");
    *cell++ = ipsq_count_cell(r->self_ns);
    *cell++ = ipsq_count_cell(r->total_ns);
    *cell++ = ipsq_count_cell(r->calls);
    *cell++ = ipsq_count_cell(r->samples);
    *cell++ = ipsq_bool_cell(r->exact);
    *cell++ = ipsq_text_cell(r->object);
    *cell++ = ipsq_text_cell(r->procedure);
    *cell++ = ipsq_text_cell(r->module);
    *cell++ = ipsq_text_cell(r->file);
    *cell++ = ipsq_count_cell(r->line ? r->line : IPS_UNMEASURED);
}

static int print_procedures(const struct ipsq_options *o, const char *run_name,
                            const Ips__ProceduresAnswer *a, struct whole *w,
                            struct ips_err *err)
{
    struct ipsq_table t;
    struct ipsq_out out;
    uint64_t left_out = 0;
    w->names = calloc(w->rows.count + 1, sizeof(*w->names));
    if (!w->names)
        return ips_err_set(err, IPS_E_NO_MEMORY, "out of memory");
    ipsq_table_init(&t, "metrics", columns, IPSQ_COUNT_OF(columns));
    for (size_t i = 0; i < w->rows.count; i++) {
        const Ips__ProcedureRow *r = w->rows.row[i];
        if (asprintf(&w->names[i], "%s//%s", r->object, r->procedure) < 0)
            w->names[i] = NULL;
        add_row(&t, r, w->names[i]);
    }
    int rc = ipsq_sort_and_keep_top(&t, o, CPU_COLUMN, &left_out, err);
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
    ipsq_out_write_table(&out, &t, "");
    if (a->totals &&
        w->rows.count < a->totals->rows) /* the master left out some rows */
        left_out += a->totals->rows - w->rows.count;
    ipsq_put_left_out_count(&out, "metrics", left_out);
    ipsq_table_release(&t);
    return ipsq_out_end(&out, err);
}

int ipsq_run_procedure_metrics(const struct ipsq_options *o,
                               struct ipsq_session *s, struct ips_err *err)
{
    Ips__Request rq = IPS__REQUEST__INIT;
    Ips__ProceduresAsk ask = IPS__PROCEDURES_ASK__INIT;
    const Ips__Reply *last = NULL;
    struct whole w = {0};
    Ips__Select select;
    rq.ask_case = IPS__REQUEST__ASK_PROCEDURES;
    rq.procedures = &ask;
    ask.object = ips_unconst_text(o->object ? o->object : "/");
    ask.by = ips_unconst_text("process");
    ask.from_ns = o->from_ns;
    ask.to_ns = o->to_ns;
    ask.phase = o->phase;
    ask.select = ipsq_top_n_fill_procedure_request(o, &select);
    int rc = ipsq_find_and_set_run_of_request(s, o, &rq, err);
    if (rc == 0)
        rc = ipsq_session_ask(s, &rq, false, collect_procedure_metrics, &w,
                              &last, err);
    if (rc == 0)
        rc = ipsq_check_answer_kind(last, IPS__REPLY__ANSWER_PROCEDURES, err);
    if (rc == 0)
        rc = print_procedures(o, rq.run, last->procedures, &w, err);
    for (size_t i = 0; w.names && i < w.rows.count; i++)
        free(w.names[i]);
    free(w.names);
    ipsq_rows_release(&w.rows);
    return rc < 0 ? rc
                  : ipsq_certificate_exit_status(last->procedures->certificate);
}
