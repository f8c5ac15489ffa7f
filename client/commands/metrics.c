#include <string.h>

#include "client/base/top_n.h"
#include "client/commands/metrics.h"

static const struct ipsq_column columns[] = {
    {"object", "OBJECT", IPSQ_TEXT},
    {"level", NULL, IPSQ_TEXT},
    {"processes_started", "PROCESSES", IPSQ_COUNT},
    {"processes_alive_max", NULL, IPSQ_COUNT},
    {"machines", NULL, IPSQ_COUNT},
    {"elapsed_ns", "ELAPSED", IPSQ_NS},
    {"cpu_ns", "CPU", IPSQ_NS},
    {"wait_ns", "WAIT", IPSQ_NS},
    {"wait_cpu_ns", "QUEUED", IPSQ_NS},
    {"lifetimes_ns", NULL, IPSQ_NS},
    {"response", NULL, IPSQ_REAL},
    {"load", NULL, IPSQ_REAL},
    {"parallelism", "PARALLELISM", IPSQ_REAL},
    {"rho", "UTILISATION", IPSQ_REAL},
    {"rho_dpm", NULL, IPSQ_REAL},
    {"messages_out", "SENT", IPSQ_COUNT},
    {"bytes_out", "BYTES", IPSQ_BYTES},
    {"messages_in", "RECEIVED", IPSQ_COUNT},
    {"bytes_in", "BYTES", IPSQ_BYTES},
    {"message_bytes_mean", NULL, IPSQ_BYTES},
    {"message_rate", "MESSAGES/S", IPSQ_REAL},
    {"byte_rate", NULL, IPSQ_REAL},
    {"progress_ratio", NULL, IPSQ_REAL},
    {"blocked_ns", NULL, IPSQ_NS},
    {"other_ns", NULL, IPSQ_NS},
    {"excess_ns", NULL, IPSQ_NS},
    {"wait_cpu_unknown_ns", NULL, IPSQ_NS},
    {"rusage_cpu_ns", NULL, IPSQ_NS},
    {"rusage_own_cpu_ns", NULL, IPSQ_NS},
    {"rusage_processes", NULL, IPSQ_COUNT},
};
enum { CPU_COLUMN = 6 };

static bool is_by_procedure(const struct ipsq_options *o)
{
    return o->level && strcmp(o->level, "procedure") == 0;
}

static struct ipsq_columns
list_metrics_sort_columns(const struct ipsq_options *o)
{
    return is_by_procedure(o)
               ? ipsq_metrics_procedure_columns
               : (struct ipsq_columns){columns, IPSQ_COUNT_OF(columns)};
}

static const struct ipsq_column wait_columns[] = {
    {"object", "OBJECT", IPSQ_TEXT},
    {"cause", "WAITED FOR", IPSQ_TEXT},
    {"ns", "TIME", IPSQ_NS},
    {"count", "TIMES", IPSQ_COUNT},
};
static const struct ipsq_column cell_columns[] = {
    {"from", "FROM", IPSQ_TEXT},
    {"to", "TO", IPSQ_TEXT},
    {"messages", "MESSAGES", IPSQ_COUNT},
    {"bytes", "BYTES", IPSQ_BYTES},
};

static const struct ipsq_column total_columns[] = {
    {"object", "OBJECT", IPSQ_TEXT},    {"messages_out", "SENT", IPSQ_COUNT},
    {"bytes_out", "BYTES", IPSQ_BYTES}, {"messages_in", "RECEIVED", IPSQ_COUNT},
    {"bytes_in", "BYTES", IPSQ_BYTES},
};

static void add_row(struct ipsq_table *t, const Ips__MetricsRow *row,
                    bool windowed)
{
    struct ipsq_cell *cell = ipsq_table_add_row(t);
    *cell++ = ipsq_text_cell(row->object);
    *cell++ = ipsq_text_cell(row->level);
    *cell++ = ipsq_count_cell(row->processes_started);
    *cell++ = ipsq_count_cell(row->processes_alive_max);
    *cell++ = ipsq_count_cell(row->machines);
    *cell++ = ipsq_count_cell(row->elapsed_ns);
    *cell++ = ipsq_count_cell(row->cpu_ns);
    *cell++ = ipsq_count_cell(row->wait_ns);
    *cell++ = ipsq_count_cell(row->wait_cpu_ns);
    *cell++ = ipsq_count_cell(row->lifetimes_ns);
    *cell++ = ipsq_real_cell(row->response);
    *cell++ = ipsq_real_cell(row->load);
    *cell++ = ipsq_real_cell(row->parallelism);
    *cell++ = ipsq_real_cell(row->rho);
    *cell++ = ipsq_real_cell(row->rho_dpm);
    *cell++ = ipsq_count_cell(row->messages_out);
    *cell++ = ipsq_count_cell(row->bytes_out);
    *cell++ = ipsq_count_cell(row->messages_in);
    *cell++ = ipsq_count_cell(row->bytes_in);
    *cell++ = ipsq_count_cell(row->message_bytes_mean);
    *cell++ = ipsq_real_cell(row->message_rate);
    *cell++ = ipsq_real_cell(row->byte_rate);
    *cell++ = ipsq_real_cell(row->progress_ratio);
    *cell++ = ipsq_count_cell(row->blocked_ns);
    uint64_t other = row->other_ns > 0 ? (uint64_t)row->other_ns : 0;
    uint64_t excess = row->other_ns < 0 ? 0 - (uint64_t)row->other_ns : 0;
    *cell++ = ipsq_count_cell(windowed ? IPS_UNMEASURED : other);
    *cell++ = ipsq_count_cell(windowed ? IPS_UNMEASURED : excess);
    *cell++ = ipsq_count_cell(row->wait_cpu_unknown_ns);
    *cell++ = ipsq_count_cell(row->rusage_cpu_ns);
    *cell++ = ipsq_count_cell(row->rusage_own_cpu_ns);
    *cell++ = ipsq_count_cell(row->rusage_processes);
}

/* Writes the `top` rows (0: all) of the table that have the greatest values in
 * `column`. Releases the table. `left_out`: number of rows that the master
 * already left out. */
static void write_top_rows_and_release_table(struct ipsq_out *out,
                                             struct ipsq_table *t,
                                             size_t column, uint64_t top,
                                             uint64_t left_out,
                                             const char *heading)
{
    if (top)
        left_out += ipsq_table_sort_and_keep_top(t, column, top);
    if (t->row_count || out->format != IPSQ_TABLE)
        ipsq_out_write_table(out, t, heading);
    ipsq_put_left_out_count(out, t->name, left_out);
    ipsq_table_release(t);
}

static void append_wait_row(struct ipsq_table *t, const char *object,
                            const char *cause, uint64_t ns, uint64_t count)
{
    struct ipsq_cell *cell = ipsq_table_add_row(t);
    *cell++ = ipsq_text_cell(object);
    *cell++ = ipsq_text_cell(cause);
    *cell++ = ipsq_count_cell(ns);
    *cell++ = ipsq_count_cell(count);
}

static void put_waits(struct ipsq_out *out, const Ips__MetricsAnswer *a,
                      uint64_t top)
{
    struct ipsq_table t;
    ipsq_table_init(&t, "waits", wait_columns, IPSQ_COUNT_OF(wait_columns));
    for (size_t i = 0; a->left_out && i < a->n_waits; i++)
        append_wait_row(&t, a->waits[i]->object, a->waits[i]->cause,
                        a->waits[i]->ns, a->waits[i]->count);
    for (size_t i = 0; !a->left_out && i < a->n_rows; i++) {
        for (size_t k = 0; k < a->rows[i]->n_waits; k++) {
            const Ips__WaitCause *wait = a->rows[i]->waits[k];
            append_wait_row(&t, a->rows[i]->object, wait->cause, wait->ns,
                            wait->count);
        }
    }
    write_top_rows_and_release_table(
        out, &t, 2, top, a->left_out ? a->left_out->waits : 0, "waits");
}

static void put_matrix(struct ipsq_out *out, const char *name,
                       const char *heading, Ips__MatrixCell **cells,
                       size_t count, uint64_t top, uint64_t left_out)
{
    struct ipsq_table t;
    ipsq_table_init(&t, name, cell_columns, IPSQ_COUNT_OF(cell_columns));
    for (size_t i = 0; i < count; i++) {
        struct ipsq_cell *cell = ipsq_table_add_row(&t);
        *cell++ = ipsq_text_cell(cells[i]->from);
        *cell++ = ipsq_text_cell(cells[i]->to);
        *cell++ = ipsq_count_cell(cells[i]->messages);
        *cell++ = ipsq_count_cell(cells[i]->bytes);
    }
    write_top_rows_and_release_table(out, &t, 3, top, left_out, heading);
}

/* Writes the totals of each object, and their sum as the row "all". With `top`
 * the row "all" is sorted and counted like the others. */
static void put_message_totals(struct ipsq_out *out, const char *name,
                               const char *heading, Ips__MatrixTotal **totals,
                               size_t count, uint64_t top, uint64_t left_out)
{
    struct ipsq_table t;
    ipsq_table_init(&t, name, total_columns, IPSQ_COUNT_OF(total_columns));
    for (size_t i = 0; i < count; i++) {
        const Ips__MatrixTotal *m = totals[i];
        struct ipsq_cell *cell = ipsq_table_add_row(&t);
        *cell++ = ipsq_text_cell(*m->object ? m->object : "all");
        *cell++ = ipsq_count_cell(m->messages_out);
        *cell++ = ipsq_count_cell(m->bytes_out);
        *cell++ = ipsq_count_cell(m->messages_in);
        *cell++ = ipsq_count_cell(m->bytes_in);
    }
    write_top_rows_and_release_table(out, &t, 2, top, left_out, heading);
}

static const Ips__MetricsRow *find_run_row(const Ips__MetricsAnswer *a)
{
    for (size_t i = 0; i < a->n_rows; i++)
        if (strcmp(a->rows[i]->level, "run") == 0)
            return a->rows[i];
    return NULL;
}

static double compute_ratio(uint64_t a, uint64_t b)
{
    if (a == IPS_UNMEASURED || b == IPS_UNMEASURED || b == 0)
        return IPS_UNMEASURED_REAL;
    return (double)a / (double)b;
}

/* Writes the POP efficiencies (master/tables/pop_efficiencies.h). `ideal_ns`:
 * length of the critical path if messages took no time. */
static void put_pop_efficiencies(struct ipsq_out *out, const Ips__MetricsRow *r,
                                 uint64_t ideal_ns)
{
    static const struct ipsq_column pop_columns[] = {
        {"threads", "THREADS", IPSQ_COUNT},
        {"parallel", "PARALLEL", IPSQ_SHARE},
        {"load_balance", "LOAD BALANCE", IPSQ_SHARE},
        {"communication", "COMMUNICATION", IPSQ_SHARE},
        {"serialisation", "SERIALISATION", IPSQ_SHARE},
        {"transfer", "TRANSFER", IPSQ_SHARE},
        {"cpu_max_ns", NULL, IPSQ_NS},
        {"ideal_ns", NULL, IPSQ_NS},
    };
    struct ipsq_table t;
    bool is = r && r->pop_threads > 0;
    ipsq_table_init(&t, "pop", pop_columns, IPSQ_COUNT_OF(pop_columns));
    if (is) {
        struct ipsq_cell *cell = ipsq_table_add_row(&t);
        *cell++ = ipsq_count_cell(r->pop_threads);
        *cell++ = ipsq_real_cell(r->pop_parallel);
        *cell++ = ipsq_real_cell(r->pop_load_balance);
        *cell++ = ipsq_real_cell(r->pop_communication);
        *cell++ = ipsq_real_cell(compute_ratio(r->pop_cpu_max_ns, ideal_ns));
        *cell++ = ipsq_real_cell(compute_ratio(ideal_ns, r->elapsed_ns));
        *cell++ = ipsq_count_cell(r->pop_cpu_max_ns);
        *cell++ = ipsq_count_cell(ideal_ns);
    }
    if (is || out->format != IPSQ_TABLE)
        ipsq_out_write_table(out, &t, "efficiencies (POP)");
    else
        ipsq_out_write_line_if_table(
            out, "no POP efficiencies: fewer than two threads last for half "
                 "of the run,\nor the other threads use more than a tenth "
                 "of the CPU time");
    ipsq_table_release(&t);
}

static int print_metrics(const struct ipsq_options *o, const char *run_name,
                         const Ips__MetricsAnswer *a, uint64_t ideal_ns,
                         struct ips_err *err)
{
    struct ipsq_table t;
    struct ipsq_out out;
    uint64_t left_out = 0;
    Ips__LeftOut none = IPS__LEFT_OUT__INIT;
    const Ips__LeftOut *left = a->left_out ? a->left_out : &none;
    ipsq_table_init(&t, "metrics", columns, IPSQ_COUNT_OF(columns));
    t.spare_columns = "message_rate messages_in+bytes_in";
    for (size_t i = 0; i < a->n_rows; i++)
        add_row(&t, a->rows[i], ipsq_has_window(o));
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
    ipsq_put_left_out_count(&out, "metrics",
                            left_out + (left->n_rows ? left->rows[0] : 0));
    ipsq_table_release(&t);
    put_waits(&out, a, o->top);
    put_matrix(&out, "machine_matrix", "messages between machines",
               a->machine_matrix, a->n_machine_matrix, o->top,
               left->machine_matrix);
    put_matrix(&out, "process_matrix", "messages between processes",
               a->process_matrix, a->n_process_matrix, o->top,
               left->process_matrix);
    if (o->level || o->format != IPSQ_TABLE) {
        put_message_totals(&out, "machine_totals", "messages of each machine",
                           a->machine_totals, a->n_machine_totals, o->top,
                           left->machine_totals);
        put_message_totals(&out, "process_totals", "messages of each process",
                           a->process_totals, a->n_process_totals, o->top,
                           left->process_totals);
    }
    if (o->pop_efficiencies)
        put_pop_efficiencies(&out, find_run_row(a), ideal_ns);
    return ipsq_out_end(&out, err);
}

struct whole {
    struct ipsq_rows rows, machines, processes;
};

static int collect_metrics_rows(const Ips__Reply *reply, void *arg,
                                struct ips_err *err)
{
    struct whole *w = arg;
    if (reply->answer_case != IPS__REPLY__ANSWER_METRICS)
        return 0; /* ipsq_check_answer_kind later reports the wrong kind of
                     answer */
    const Ips__MetricsAnswer *a = reply->metrics;
    int rc = ipsq_rows_append_array(&w->rows, a->rows, a->n_rows, err);
    if (rc == 0)
        rc = ipsq_rows_append_array(&w->machines, a->machine_matrix,
                                    a->n_machine_matrix, err);
    if (rc == 0)
        rc = ipsq_rows_append_array(&w->processes, a->process_matrix,
                                    a->n_process_matrix, err);
    return rc;
}

static int join_reply_rows_and_print_metrics(const struct ipsq_options *o,
                                             const char *run_name,
                                             const Ips__MetricsAnswer *last,
                                             const struct whole *w,
                                             uint64_t ideal_ns,
                                             struct ips_err *err)
{
    Ips__MetricsAnswer a = *last;
    a.rows = (Ips__MetricsRow **)w->rows.row;
    a.n_rows = w->rows.count;
    a.machine_matrix = (Ips__MatrixCell **)w->machines.row;
    a.n_machine_matrix = w->machines.count;
    a.process_matrix = (Ips__MatrixCell **)w->processes.row;
    a.n_process_matrix = w->processes.count;
    return print_metrics(o, run_name, &a, ideal_ns, err);
}

/* Asks the master for the length of the critical path in CPU time, with message
 * times 0. */
static int ask_path_length_without_messages(struct ipsq_session *s,
                                            char *run_name, uint64_t *ideal_ns,
                                            struct ips_err *err)
{
    Ips__Request rq = IPS__REQUEST__INIT;
    Ips__PathAsk ask = IPS__PATH_ASK__INIT;
    Ips__Lane scenario = IPS__LANE__INIT;
    const Ips__Reply *last = NULL;
    scenario.scale_num = scenario.scale_den = 1;
    ask.weighting = ips_unconst_text("cpu");
    ask.engine = ips_unconst_text("auto");
    ask.lane = &scenario;
    rq.run = run_name;
    rq.ask_case = IPS__REQUEST__ASK_PATH;
    rq.path = &ask;
    int rc = ipsq_session_ask(s, &rq, false, NULL, NULL, &last, err);
    if (rc == 0)
        rc = ipsq_check_answer_kind(last, IPS__REPLY__ANSWER_PATH, err);
    if (rc == 0)
        *ideal_ns = last->path->t_max_ns;
    return rc;
}

static int run_metrics(const struct ipsq_command *self,
                       const struct ipsq_options *o, struct ipsq_session *s,
                       struct ips_err *err)
{
    Ips__Request rq = IPS__REQUEST__INIT;
    Ips__MetricsAsk ask = IPS__METRICS_ASK__INIT;
    const Ips__Reply *last = NULL;
    struct whole whole = {0};
    uint64_t ideal_ns = IPS_UNMEASURED;
    Ips__Select select;
    (void)self;
    if (is_by_procedure(o))
        return ipsq_run_procedure_metrics(o, s, err);
    if (o->pop_efficiencies && ipsq_has_window(o))
        return ips_err_set(
            err, IPS_E_USAGE,
            "--pop covers the whole run: it cannot be used with a "
            "window");
    if (o->pop_efficiencies &&
        (o->level ? strcmp(o->level, "run") != 0
                  : o->object && strcmp(o->object, "/") != 0))
        return ips_err_set(err, IPS_E_USAGE,
                           "--pop covers the whole run: it cannot be used with "
                           "--object or --level");
    rq.ask_case = IPS__REQUEST__ASK_METRICS;
    rq.metrics = &ask;
    ask.object = ips_unconst_text(o->object ? o->object : "/");
    ask.level = ips_unconst_text(o->level);
    ask.select = ipsq_top_n_fill_select(o, &select);
    ask.from_ns = o->from_ns;
    ask.to_ns = o->to_ns;
    ask.phase = o->phase;
    int rc = ipsq_find_and_set_run_of_request(s, o, &rq, err);
    if (rc == 0)
        rc = ipsq_session_ask(s, &rq, false, collect_metrics_rows, &whole,
                              &last, err);
    if (rc == 0)
        rc = ipsq_check_answer_kind(last, IPS__REPLY__ANSWER_METRICS, err);
    if (rc == 0 && o->pop_efficiencies)
        rc = ask_path_length_without_messages(s, rq.run, &ideal_ns, err);
    if (rc == 0)
        rc = join_reply_rows_and_print_metrics(o, rq.run, last->metrics, &whole,
                                               ideal_ns, err);
    ipsq_rows_release(&whole.rows);
    ipsq_rows_release(&whole.machines);
    ipsq_rows_release(&whole.processes);
    return rc < 0 ? rc
                  : ipsq_certificate_exit_status(last->metrics->certificate);
}

const struct ipsq_command ipsq_cmd_metrics = {
    .name = "metrics",
    .usage = "[RUN] [--object OBJECT] [--level LEVEL] [--sort COLUMN]\n"
             "                    [--top N] [--pop] [--per machine]\n"
             "                    [--phase N | --from TIME --to TIME]",
    .summary = "CPU use, waits and traffic at each level",
    .group = IPSQ_ASK,
    .examples = "  ipsq metrics run3\n"
                "  ipsq metrics run3 --level thread --sort cpu_ns --top 10\n",
    .help =
        "PARALLELISM is CPU time divided by elapsed time, UTILISATION is "
        "that divided by the number of usable cores. JSON and TSV contain all "
        "metrics, the table the common ones; docs/metrics.md defines them. "
        "--top N shows the N rows with the most CPU time, those with the most "
        "waiting, and those with the most bytes.\n",
    .options = IPSQ_HAS(OBJECT) | IPSQ_HAS(LEVEL) | IPSQ_HAS(SORT) |
               IPSQ_HAS(PER) | IPSQ_HAS(TOP) | IPSQ_HAS(POP) | IPSQ_HAS(FROM) |
               IPSQ_HAS(TO) | IPSQ_HAS(PHASE),
    .formats = IPSQ_FORMATS_USUAL,
    .sort_columns = list_metrics_sort_columns,
    .max_args = 1,
    .run = run_metrics,
};
