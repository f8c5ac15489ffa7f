#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/command.h"
#include "client/base/diff.h"
#include "client/base/top_n.h"
#include "client/base/units.h"
#include "common/types.h"

#define TABLE_TOP 10
#define NAME_BYTES 1024
/* There are fewer than 10 fixed figures, and one for each of the 13 causes
 * of waits. */
#define FIGURES_MAX 48
#define TEXT_BYTES 160u

static const struct ipsq_column run_columns[] = {
    {"side", "SIDE", IPSQ_COUNT},        {"run", "RUN", IPSQ_TEXT},
    {"elapsed_ns", "ELAPSED", IPSQ_NS},  {"path_ns", "PATH", IPSQ_NS},
    {"complete", "COMPLETE", IPSQ_BOOL},
};
static const struct ipsq_column figure_columns[] = {
    {"figure", "FIGURE", IPSQ_TEXT},
    {"first", NULL, IPSQ_REAL},
    {"second", NULL, IPSQ_REAL},
    {"low", NULL, IPSQ_REAL},
    {"high", NULL, IPSQ_REAL},
    /* columns from here are in the table format only */
    {"first_text", "FIRST", IPSQ_FIGURE},
    {"second_text", "SECOND", IPSQ_FIGURE},
    {"change_text", "CHANGE", IPSQ_FIGURE},
    {"interval_text", "95% INTERVAL", IPSQ_FIGURE},
};
#define FIGURE_RAW 5 /* number of columns in JSON and TSV */
static const struct ipsq_column item_columns[] = {
    {"kind", "KIND", IPSQ_TEXT},
    {"name", "WHAT", IPSQ_TEXT},
    {"first_ns", "FIRST", IPSQ_NS},
    {"second_ns", "SECOND", IPSQ_NS},
    {"longer_ns", NULL, IPSQ_NS},
    {"shorter_ns", NULL, IPSQ_NS},
    {"share", "OF ALL", IPSQ_SHARE},
    {"p", "P VALUE", IPSQ_REAL},
    {"low_ns", NULL, IPSQ_REAL},
    {"high_ns", NULL, IPSQ_REAL},
    {"cause", "CAUSE", IPSQ_BOOL},
    /* this column is in the table format only */
    {"change_text", "CHANGE", IPSQ_FIGURE},
};
#define ITEM_RAW 11 /* number of columns in JSON and TSV */

struct figure {
    char name[80];
    enum ipsq_kind kind;     /* kind of the values: NS, COUNT or BYTES */
    double v[DIFF_RUNS_MAX]; /* NaN: not measured in this run */
};
struct texts { /* storage for texts that tables borrow */
    char (*text)[TEXT_BYTES];
    size_t count;
};
struct compared_run { /* one of the runs that are compared */
    const char *run;
    uint64_t elapsed_ns, path_ns;
    bool complete;
};
struct diff_state {
    unsigned runs, first;
    struct compared_run run[DIFF_RUNS_MAX];
    /* breakdown of the path by procedure, waiting for a CPU, message ... */
    struct diff what;
    struct diff whose; /* breakdown of the path by process, message ... */
    struct diff cpu;   /* CPU time of the run by procedure */
    struct figure figure[FIGURES_MAX];
    unsigned figures;
    struct ipsq_rows rows; /* rows of the answer that is being received */
};

/* ---- figures (single numbers of a run) ---------------------------------- */

/* Sets the value of a figure in one run. A run for which this function is not
 * called has the value 0: a run without waits of some cause has no row for that
 * cause. */
static void store_figure(struct diff_state *w, const char *name,
                         enum ipsq_kind kind, unsigned run, uint64_t value)
{
    unsigned i = 0;
    while (i < w->figures && strcmp(w->figure[i].name, name) != 0)
        i++;
    if (i == FIGURES_MAX)
        return;
    struct figure *f = &w->figure[i];
    if (i == w->figures) {
        w->figures++;
        memset(f, 0, sizeof(*f));
        snprintf(f->name, sizeof(f->name), "%s", name);
        f->kind = kind;
    }
    f->v[run] = value == IPS_UNMEASURED ? IPS_UNMEASURED_REAL : (double)value;
}

static void store_run_figures(struct diff_state *w, unsigned run, bool windowed,
                              const Ips__MetricsAnswer *a)
{
    for (size_t i = 0; i < a->n_rows; i++) {
        const Ips__MetricsRow *r = a->rows[i];
        char name[80];
        if (strcmp(r->level, "run") != 0)
            continue;
        if (windowed) {
            w->run[run].elapsed_ns = r->elapsed_ns;
            store_figure(w, "elapsed", IPSQ_NS, run, r->elapsed_ns);
        }
        store_figure(w, "CPU time", IPSQ_NS, run, r->cpu_ns);
        store_figure(w, "processes", IPSQ_COUNT, run, r->processes_started);
        store_figure(w, "messages", IPSQ_COUNT, run, r->messages_out);
        store_figure(w, "bytes sent", IPSQ_BYTES, run, r->bytes_out);
        for (size_t k = 0; k < r->n_waits; k++) {
            snprintf(name, sizeof(name), "waiting: %.60s", r->waits[k]->cause);
            store_figure(w, name, IPSQ_NS, run, r->waits[k]->ns);
        }
    }
}

/* ---- asking the master about a run -------------------------------------- */

static int collect_answer_rows(const Ips__Reply *reply, void *arg,
                               struct ips_err *err)
{
    struct diff_state *w = arg;
    if (reply->answer_case == IPS__REPLY__ANSWER_PATH)
        return ipsq_rows_append_array(&w->rows, reply->path->by_procedure,
                                      reply->path->n_by_procedure, err);
    if (reply->answer_case == IPS__REPLY__ANSWER_PROCEDURES)
        return ipsq_rows_append_array(&w->rows, reply->procedures->rows,
                                      reply->procedures->n_rows, err);
    return 0; /* ipsq_check_answer_kind reports a wrong kind of answer later */
}

static int ask_and_collect_rows(struct diff_state *w, struct ipsq_session *s,
                                Ips__Request *rq, Ips__Reply__AnswerCase answer,
                                const Ips__Reply **last, struct ips_err *err)
{
    w->rows.count = 0;
    int rc = ipsq_session_ask(s, rq, false, collect_answer_rows, w, last, err);
    return rc < 0 ? rc : ipsq_check_answer_kind(*last, answer, err);
}

/* Formats the name of a procedure with its file, such as "f (a.out)":
 * procedures of the same name in different files are distinct. */
static void format_procedure_name(const Ips__ProcedureRow *r,
                                  char out[NAME_BYTES])
{
    const char *base = strrchr(r->module, '/');
    base = base ? base + 1 : r->module;
    if (*base)
        snprintf(out, NAME_BYTES, "%.700s (%.300s)", r->procedure, base);
    else
        snprintf(out, NAME_BYTES, "%.1000s", r->procedure);
}

/* Adds the own time of each procedure (without what it called) and `unsampled`
 * to `d`, and stores their sum in *sum. */
static int add_procedure_times_and_sum(struct diff *d,
                                       const struct ipsq_rows *rows,
                                       uint64_t unsampled, unsigned run,
                                       uint64_t *sum, struct ips_err *err)
{
    int rc = diff_add_value_of_run(d, "procedure", "[unsampled]", run,
                                   unsampled, err);
    *sum = unsampled;
    for (size_t i = 0; rc == 0 && i < rows->count; i++) {
        const Ips__ProcedureRow *r = rows->row[i];
        char name[NAME_BYTES];
        format_procedure_name(r, name);
        rc = diff_add_value_of_run(d, "procedure", name, run, r->self_ns, err);
        *sum = ips_add_sat(*sum, r->self_ns);
    }
    return rc;
}

static int add_object_times_and_deduct(struct diff *d, const char *kind,
                                       Ips__Share **rows, size_t n,
                                       unsigned run, uint64_t *left,
                                       struct ips_err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < n; i++) {
        char name[NAME_BYTES];
        uint64_t ns = ips_min_u64(rows[i]->ns, *left);
        diff_strip_process_ids(rows[i]->object, name, sizeof(name));
        rc = diff_add_value_of_run(d, kind, name, run, ns, err);
        *left -= ns;
    }
    return rc;
}

/* Adds the time that the path spent in messages and external waits, which are
 * parts of both breakdowns of the path. Subtracts that time from *left. */
static int add_messages_and_externals(struct diff *d, const Ips__PathAnswer *a,
                                      unsigned run, uint64_t *left,
                                      struct ips_err *err)
{
    int rc = add_object_times_and_deduct(d, "message", a->by_message,
                                         a->n_by_message, run, left, err);
    return rc < 0
               ? rc
               : add_object_times_and_deduct(d, "outside", a->by_external,
                                             a->n_by_external, run, left, err);
}

/* Adds both breakdowns of the path. Time of the path that belongs to no
 * procedure, message or external wait was spent off the CPU: the run delay that
 * the kernel reported, and for the rest waits that were not recorded. */
static int add_path_breakdowns(struct diff_state *w, const Ips__PathAnswer *a,
                               unsigned run, struct ips_err *err)
{
    uint64_t left = a->window_ns, sum = 0;
    uint64_t unsampled =
        a->procedure_totals ? a->procedure_totals->unsampled_ns : 0;
    int rc = add_messages_and_externals(&w->what, a, run, &left, err);
    if (rc == 0)
        rc = add_procedure_times_and_sum(&w->what, &w->rows, unsampled, run,
                                         &sum, err);
    uint64_t off = ips_sub_sat(left, sum);
    uint64_t queue = a->run_delay_ns == IPS_UNMEASURED
                         ? 0
                         : ips_min_u64(a->run_delay_ns, off);
    if (rc == 0)
        rc = diff_add_value_of_run(&w->what, "queue", "[waiting for a core]",
                                   run, queue, err);
    if (rc == 0)
        rc = diff_add_value_of_run(&w->what, "wait",
                                   "[waiting, cause not traced]", run,
                                   off - queue, err);
    left = a->window_ns;
    if (rc == 0)
        rc = add_messages_and_externals(&w->whose, a, run, &left, err);
    if (rc == 0)
        rc = add_object_times_and_deduct(&w->whose, "process", a->by_process,
                                         a->n_by_process, run, &left, err);
    return rc < 0 ? rc
                  : diff_add_value_of_run(&w->whose, "process", "[others]", run,
                                          left, err);
}

static int ask_and_store_path_of_run(struct diff_state *w,
                                     const struct ipsq_options *o,
                                     struct ipsq_session *s, unsigned run,
                                     struct ips_err *err)
{
    Ips__Request rq = IPS__REQUEST__INIT;
    Ips__PathAsk ask_and_store_path_of_run = IPS__PATH_ASK__INIT;
    Ips__Lane scenario = IPS__LANE__INIT;
    const Ips__Reply *last = NULL;
    char *by[] = {ips_unconst_text("procedure")};
    scenario.scale_num = scenario.scale_den = 1;
    ask_and_store_path_of_run.weighting = ips_unconst_text("wall");
    ask_and_store_path_of_run.lane = &scenario;
    ask_and_store_path_of_run.by = by;
    ask_and_store_path_of_run.n_by = 1;
    ask_and_store_path_of_run.from_ns = o->from_ns;
    ask_and_store_path_of_run.to_ns = o->to_ns;
    ask_and_store_path_of_run.phase = o->phase;
    rq.run = ips_unconst_text(w->run[run].run);
    rq.ask_case = IPS__REQUEST__ASK_PATH;
    rq.path = &ask_and_store_path_of_run;
    int rc =
        ask_and_collect_rows(w, s, &rq, IPS__REPLY__ANSWER_PATH, &last, err);
    if (rc < 0)
        return rc;
    const Ips__PathAnswer *a = last->path;
    if (a->t_max_ns && !a->window_ns)
        return ips_err_set(
            err, IPS_E_NOT_FOUND,
            "the path of run %.120s has nothing in that window: `ipsq "
            "phases` shows what the run did when",
            w->run[run].run);
    /* window_ns is the path inside the window; without a window, all of it */
    w->run[run].path_ns = a->window_ns;
    w->run[run].elapsed_ns = a->elapsed_ns;
    w->run[run].complete = a->certificate && a->certificate->complete;
    if (!ipsq_has_window(
            o)) /* with a window, the metrics give the elapsed time */
        store_figure(w, "elapsed", IPSQ_NS, run, a->elapsed_ns);
    store_figure(w, "critical path", IPSQ_NS, run, a->window_ns);
    store_figure(w, "of it on a CPU", IPSQ_NS, run, a->on_cpu_ns);
    store_figure(w, "of it in run queues", IPSQ_NS, run, a->run_delay_ns);
    store_figure(w, "messages on it", IPSQ_COUNT, run, a->messages);
    return add_path_breakdowns(w, a, run, err);
}

static int ask_and_store_metrics_and_procedures(struct diff_state *w,
                                                const struct ipsq_options *o,
                                                struct ipsq_session *s,
                                                unsigned run,
                                                struct ips_err *err)
{
    Ips__Request rq = IPS__REQUEST__INIT;
    Ips__MetricsAsk metrics = IPS__METRICS_ASK__INIT;
    Ips__ProceduresAsk procedures = IPS__PROCEDURES_ASK__INIT;
    const Ips__Reply *last = NULL;
    uint64_t sum;
    rq.run = ips_unconst_text(w->run[run].run);
    rq.ask_case = IPS__REQUEST__ASK_METRICS;
    rq.metrics = &metrics;
    metrics.from_ns = procedures.from_ns = o->from_ns;
    metrics.to_ns = procedures.to_ns = o->to_ns;
    metrics.phase = procedures.phase = o->phase;
    int rc =
        ask_and_collect_rows(w, s, &rq, IPS__REPLY__ANSWER_METRICS, &last, err);
    if (rc < 0)
        return rc;
    store_run_figures(w, run, ipsq_has_window(o), last->metrics);
    procedures.by = ips_unconst_text("procedure");
    rq.ask_case = IPS__REQUEST__ASK_PROCEDURES;
    rq.procedures = &procedures;
    rc = ask_and_collect_rows(w, s, &rq, IPS__REPLY__ANSWER_PROCEDURES, &last,
                              err);
    if (rc == IPS_E_NOT_FOUND) { /* the run has no samples: this is no error */
        *err = (struct ips_err){0};
        return 0;
    }
    if (rc < 0)
        return rc;
    const Ips__ProcedureTotals *t = last->procedures->totals;
    return add_procedure_times_and_sum(&w->cpu, &w->rows,
                                       t ? t->unsampled_ns : 0, run, &sum, err);
}

/* ---- printing ------------------------------------------------------------ */

static void format_value(enum ipsq_kind kind, double v,
                         char out[IPSQ_UNIT_BYTES])
{
    if (kind == IPSQ_NS)
        ipsq_format_ns(ipsq_count_cell_of_double(v).n, out);
    else if (kind == IPSQ_BYTES)
        ipsq_format_bytes(ipsq_count_cell_of_double(v).n, out);
    else
        ipsq_format_real(v, out);
}

static void format_change(enum ipsq_kind kind, double change, char out[64])
{
    char text[IPSQ_UNIT_BYTES];
    const char *sign = isnan(change) ? "" : change < 0 ? "-" : "+";
    format_value(kind, fabs(change), text);
    snprintf(out, 64, "%s%s", sign, text);
}

static struct ipsq_cell store_text_and_make_cell(struct texts *t,
                                                 const char *text)
{
    char *to = t->text[t->count++];
    snprintf(to, TEXT_BYTES, "%.*s", (int)TEXT_BYTES - 1, text);
    return ipsq_text_cell(to);
}

static void put_runs(struct ipsq_out *out, const struct diff_state *w)
{
    struct ipsq_table t;
    ipsq_table_init(&t, "runs", run_columns, IPSQ_COUNT_OF(run_columns));
    for (unsigned i = 0; i < w->runs; i++) {
        struct ipsq_cell *cell = ipsq_table_add_row(&t);
        cell[0] = ipsq_count_cell(i < w->first ? 1 : 2);
        cell[1] = ipsq_text_cell(w->run[i].run);
        cell[2] = ipsq_count_cell(w->run[i].elapsed_ns);
        cell[3] = ipsq_count_cell(w->run[i].path_ns);
        cell[4] = ipsq_bool_cell(w->run[i].complete);
    }
    ipsq_out_write_table(out, &t, NULL);
    ipsq_table_release(&t);
}

/* Adds the row of a figure, unless no run measured it. */
static void put_figure_row(struct ipsq_table *t, const struct diff_state *w,
                           const struct figure *f, struct texts *texts)
{
    double a = diff_median_of_measured(f->v, w->first), low, high;
    double b = diff_median_of_measured(f->v + w->first, w->runs - w->first);
    char text[160], from[64], to[64];
    if (isnan(a) && isnan(b))
        return;
    diff_interval_of_median_change(f->v, w->first, f->v + w->first,
                                   w->runs - w->first, &low, &high);
    struct ipsq_cell *cell = ipsq_table_add_row(t);
    *cell++ = ipsq_text_cell(f->name);
    *cell++ = ipsq_real_cell(a);
    *cell++ = ipsq_real_cell(b);
    *cell++ = ipsq_real_cell(low);
    *cell++ = ipsq_real_cell(high);
    if (!texts)
        return;
    format_value(f->kind, a, text);
    *cell++ = store_text_and_make_cell(texts, text);
    format_value(f->kind, b, text);
    *cell++ = store_text_and_make_cell(texts, text);
    format_change(f->kind, b - a, text);
    *cell++ = store_text_and_make_cell(texts, text);
    text[0] = '\0';
    if (!isnan(low)) {
        format_change(f->kind, low, from);
        format_change(f->kind, high, to);
        snprintf(text, sizeof(text), "%s .. %s", from, to);
    }
    *cell++ = store_text_and_make_cell(texts, text);
}

static void put_figures(struct ipsq_out *out, const struct diff_state *w,
                        struct texts *texts)
{
    struct ipsq_table t;
    ipsq_table_init(&t, "figures", figure_columns,
                    texts ? IPSQ_COUNT_OF(figure_columns) : FIGURE_RAW);
    for (unsigned i = 0; i < w->figures; i++)
        put_figure_row(&t, w, &w->figure[i], texts);
    ipsq_out_write_table(out, &t, "medians");
    ipsq_table_release(&t);
}

static void put_items(struct ipsq_out *out, const struct diff *d,
                      const char *name, const char *heading, uint64_t top,
                      struct texts *texts)
{
    struct ipsq_table t;
    ipsq_table_init(&t, name, item_columns,
                    texts ? IPSQ_COUNT_OF(item_columns) : ITEM_RAW);
    for (size_t i = 0; i < d->count && (!top || i < top); i++) {
        const struct diff_item *x = &d->item[i];
        struct ipsq_cell *cell = ipsq_table_add_row(&t);
        char text[64];
        *cell++ = ipsq_text_cell(x->kind);
        *cell++ = ipsq_text_cell(x->name);
        *cell++ = ipsq_count_cell((uint64_t)x->a);
        *cell++ = ipsq_count_cell((uint64_t)x->b);
        *cell++ = ipsq_count_cell(x->change > 0 ? (uint64_t)x->change : 0);
        *cell++ = ipsq_count_cell(x->change < 0 ? (uint64_t)-x->change : 0);
        *cell++ = ipsq_real_cell(d->sum.change
                                     ? (double)x->change / (double)d->sum.change
                                     : IPS_UNMEASURED_REAL);
        *cell++ = ipsq_real_cell(x->p);
        *cell++ = ipsq_real_cell(x->low);
        *cell++ = ipsq_real_cell(x->high);
        *cell++ = ipsq_bool_cell(x->cause);
        if (!texts)
            continue;
        format_change(IPSQ_NS, (double)x->change, text);
        *cell++ = store_text_and_make_cell(texts, text);
    }
    size_t shown = t.row_count;
    ipsq_out_write_table(out, &t, heading);
    ipsq_put_left_out_count(out, name, d->count - shown);
    ipsq_table_release(&t);
}

/* Returns the sentence that says whether the sides differ, and whether causes
 * are named. */
static const char *difference_verdict_text(const struct diff_state *w)
{
    const struct diff_item *sum = &w->what.sum;
    if (w->first < DIFF_RUNS_MIN || w->runs - w->first < DIFF_RUNS_MIN)
        return "no cause named: with fewer than 5 runs on a side a "
               "difference may be chance";
    if (!sum->cause)
        return "no cause named: the sides do not differ by more than "
               "chance";
    for (size_t i = 0; i < w->what.count; i++)
        if (w->what.item[i].cause)
            return "rows that differ by more than chance are marked as causes";
    return "the sides differ, but no single row differs by more than "
           "chance";
}

static int print_diff(const struct ipsq_options *o, struct diff_state *w,
                      struct ips_err *err)
{
    bool table = o->format == IPSQ_TABLE;
    uint64_t top = o->top ? o->top : table ? TABLE_TOP : 0;
    struct ipsq_out out;
    struct texts texts = {0};
    const struct diff_item *sum = &w->what.sum;
    char change[64];
    if (table)
        texts.text = calloc((size_t)4 * w->figures + w->what.count +
                                w->whose.count + w->cpu.count + 1,
                            sizeof(*texts.text));
    if (table && !texts.text)
        return ips_err_set(err, IPS_E_NO_MEMORY, "out of memory");
    struct texts *kept = table ? &texts : NULL;
    format_change(IPSQ_NS, (double)sum->change, change);
    ipsq_progress_stop_and_erase_line();
    ipsq_out_begin(&out, stdout, o->format, true);
    ipsq_out_write_or_collect_value(&out, IPSQ_COUNT, "first_runs", NULL,
                                    ipsq_count_cell(w->first));
    ipsq_out_write_or_collect_value(&out, IPSQ_COUNT, "second_runs", NULL,
                                    ipsq_count_cell(w->runs - w->first));
    ipsq_put_asked_window(&out, o);
    ipsq_out_write_or_collect_value(
        &out, IPSQ_NS, "longer_ns", NULL,
        ipsq_count_cell(sum->change > 0 ? (uint64_t)sum->change : 0));
    ipsq_out_write_or_collect_value(
        &out, IPSQ_NS, "shorter_ns", NULL,
        ipsq_count_cell(sum->change < 0 ? (uint64_t)-sum->change : 0));
    ipsq_out_write_or_collect_value(&out, IPSQ_REAL, "p", NULL,
                                    ipsq_real_cell(sum->p));
    if (table)
        ipsq_out_write_or_collect_value(&out, IPSQ_TEXT, "", "critical path",
                                        ipsq_text_cell(change));
    ipsq_out_write_or_collect_value(&out, IPSQ_BOOL, "differ", NULL,
                                    ipsq_bool_cell(sum->cause));
    ipsq_out_write_or_collect_value(&out, IPSQ_TEXT, "verdict", "verdict",
                                    ipsq_text_cell(difference_verdict_text(w)));
    out.parts_written = 1;
    put_items(&out, &w->what, "path",
              "parts of the difference between the critical paths (means)", top,
              kept);
    put_items(&out, &w->whose, "processes",
              "parts of the difference by process", top, kept);
    put_items(&out, &w->cpu, "cpu",
              "CPU time of the whole run by procedure (means)", top, kept);
    put_figures(&out, w, kept);
    put_runs(&out, w);
    free(texts.text);
    return ipsq_out_end(&out, err);
}

/* ---- running the command ------------------------------------------------ */

static unsigned count_list_items(const char *list)
{
    unsigned n = 1;
    for (; *list; list++)
        n += *list == ',';
    return n;
}

/* Finds the runs that `list` names, and stores their names in w->run from index
 * `at` on. */
static int resolve_run_list(struct diff_state *w, struct ipsq_session *s,
                            const char *list, unsigned at, struct ips_err *err)
{
    for (const char *from = list;; at++) {
        char word[256];
        size_t len = strcspn(from, ",");
        if (len == 0 || len >= sizeof(word))
            return ips_err_set(
                err, IPS_E_USAGE,
                "'%.80s': expected names of runs separated by commas", list);
        memcpy(word, from, len);
        word[len] = '\0';
        int rc = ipsq_session_find_run(s, word, &w->run[at].run, err);
        for (unsigned i = 0; rc == 0 && i < at; i++)
            if (strcmp(w->run[i].run, w->run[at].run) == 0)
                rc = ips_err_set(err, IPS_E_USAGE, "run %.120s is named twice",
                                 w->run[at].run);
        if (rc < 0)
            return rc;
        if (!from[len])
            return 0;
        from += len + 1;
    }
}

static int init_sides_and_resolve_runs(struct diff_state *w,
                                       const struct ipsq_options *o,
                                       struct ipsq_session *s,
                                       struct ips_err *err)
{
    if (o->arg_count != 2)
        return ips_err_set(err, IPS_E_USAGE,
                           "name two runs, or two lists of runs (A1,A2 B1,B2)");
    unsigned first = count_list_items(o->args[0]),
             second = count_list_items(o->args[1]);
    int rc = diff_init(&w->what, first, second, err);
    if (rc == 0)
        rc = diff_init(&w->whose, first, second, err);
    if (rc == 0)
        rc = diff_init(&w->cpu, first, second, err);
    w->first = first;
    w->runs = w->what.runs;
    if (rc == 0)
        rc = resolve_run_list(w, s, o->args[0], 0, err);
    if (rc == 0)
        rc = resolve_run_list(w, s, o->args[1], first, err);
    return rc;
}

static int run_diff(const struct ipsq_command *self,
                    const struct ipsq_options *o, struct ipsq_session *s,
                    struct ips_err *err)
{
    struct diff_state *w = calloc(1, sizeof(*w));
    bool complete = true;
    (void)self;
    if (!w)
        return ips_err_set(err, IPS_E_NO_MEMORY, "out of memory");
    int rc = init_sides_and_resolve_runs(w, o, s, err);
    for (unsigned i = 0; rc == 0 && i < w->runs; i++) {
        rc = ask_and_store_path_of_run(w, o, s, i, err);
        if (rc == 0)
            rc = ask_and_store_metrics_and_procedures(w, o, s, i, err);
        complete = complete && w->run[i].complete;
    }
    if (rc == 0)
        rc = diff_compute_changes(&w->what, err);
    if (rc == 0)
        rc = diff_compute_changes(&w->whose, err);
    if (rc == 0)
        rc = diff_compute_changes(&w->cpu, err);
    if (rc == 0)
        rc = print_diff(o, w, err);
    diff_release(&w->what);
    diff_release(&w->whose);
    diff_release(&w->cpu);
    ipsq_rows_release(&w->rows);
    free(w);
    return rc < 0 ? rc : complete ? IPSQ_OK : IPSQ_INCOMPLETE;
}

const struct ipsq_command ipsq_cmd_diff = {
    .name = "diff",
    .usage = "RUN[,RUN...] RUN[,RUN...] [--from TIME] [--to TIME] [--phase N]\n"
             "                 [--top N]",
    .summary = "what changed between runs, and its cause",
    .group = IPSQ_COMPARE,
    .examples = "  ipsq diff run3 run4\n"
                "  ipsq diff old1,old2,old3 new1,new2,new3\n",
    .help = "Compares the critical path of the second side with that of the "
            "first in elapsed time (wall) and splits the difference into parts "
            "that add up to it. With several runs on a side it compares the "
            "means. With 5 or more runs on each side, P is the permutation "
            "p-value of each part. If the sides differ significantly, a part "
            "with P of at most 0.05 and at least a twentieth of the difference "
            "is called a cause; with fewer runs none is. Process numbers are "
            "left out of names.\n"
            "In a window (--from, --to, or --phase: phase N of each run) only "
            "that part of each run is compared.\n",
    .options = IPSQ_HAS(TOP) | IPSQ_WINDOW,
    .formats = IPSQ_FORMATS_USUAL,
    .max_args = 2,
    .run = run_diff,
};
