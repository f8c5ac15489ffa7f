/* `ipsq check`: checks a run against limits, for use in scripts. The exit
 * status is the result. */
#include "client/base/command.h"

static const struct ipsq_column columns[] = {
    {"what", "WHAT", IPSQ_TEXT},    {"measured_ns", "TIME", IPSQ_NS},
    {"limit_ns", "LIMIT", IPSQ_NS}, {"measured", "COUNT", IPSQ_COUNT},
    {"limit", "LIMIT", IPSQ_COUNT}, {"within", "WITHIN", IPSQ_TEXT},
};

/* The measured values of a run. IPS_UNMEASURED: unknown. */
struct measures {
    uint64_t wall_ns, cpu_ns, path_ns, lost;
    bool complete;
};

static void store_loss_and_completeness(struct measures *m,
                                        const Ips__Certificate *c)
{
    m->complete = m->complete && c && c->complete;
    m->lost = c ? 0 : IPS_UNMEASURED;
    for (size_t i = 0; c && i < c->n_lost; i++)
        m->lost += c->lost[i]->count;
}

static int ask_metrics(struct ipsq_session *s, const struct ipsq_options *o,
                       const char *run, struct measures *m, struct ips_err *err)
{
    static char everything[] = "/", level[] = "run";
    Ips__Request rq = IPS__REQUEST__INIT;
    Ips__MetricsAsk ask = IPS__METRICS_ASK__INIT;
    const Ips__Reply *last = NULL;
    rq.ask_case = IPS__REQUEST__ASK_METRICS;
    rq.metrics = &ask;
    rq.run = ips_unconst_text(run);
    ask.object = everything;
    ask.level = level;
    ask.from_ns = o->from_ns;
    ask.to_ns = o->to_ns;
    ask.phase = o->phase;
    int rc = ipsq_session_ask(s, &rq, false, NULL, NULL, &last, err);
    if (rc == 0)
        rc = ipsq_check_answer_kind(last, IPS__REPLY__ANSWER_METRICS, err);
    if (rc < 0)
        return rc;
    const Ips__MetricsAnswer *a = last->metrics;
    m->wall_ns = a->n_rows ? a->rows[0]->elapsed_ns : IPS_UNMEASURED;
    m->cpu_ns = a->n_rows ? a->rows[0]->cpu_ns : IPS_UNMEASURED;
    store_loss_and_completeness(m, a->certificate);
    return 0;
}

static int ask_path_and_store_measures(struct ipsq_session *s,
                                       const struct ipsq_options *o,
                                       const char *run, struct measures *m,
                                       struct ips_err *err)
{
    static char engine[] = "auto", weighting[] = "cpu";
    Ips__Request rq = IPS__REQUEST__INIT;
    Ips__PathAsk ask = IPS__PATH_ASK__INIT;
    Ips__Lane scenario = IPS__LANE__INIT;
    const Ips__Reply *last = NULL;
    rq.ask_case = IPS__REQUEST__ASK_PATH;
    rq.path = &ask;
    rq.run = ips_unconst_text(run);
    ask.engine = engine;
    ask.weighting = weighting;
    ask.lane = &scenario;
    ask.from_ns = o->from_ns;
    ask.to_ns = o->to_ns;
    ask.phase = o->phase;
    scenario.scale_num = scenario.scale_den = 1;
    int rc = ipsq_session_ask(s, &rq, false, NULL, NULL, &last, err);
    if (rc == 0)
        rc = ipsq_check_answer_kind(last, IPS__REPLY__ANSWER_PATH, err);
    if (rc < 0)
        return rc;
    /* A path of length 0 means that no path is known, so it cannot show that
     * the limit is kept. */
    m->path_ns = last->path->window_ns ? last->path->window_ns : IPS_UNMEASURED;
    store_loss_and_completeness(m, last->path->certificate);
    return 0;
}

enum verdict { WITHIN, CANNOT_TELL, BEYOND };
static const char *const verdicts[] = {"yes", "cannot tell", "no"};

/* Compares a measured value with its limit. An incomplete answer may have too
 * small a value but never too large a one, so only a value beyond the limit is
 * certain. */
static enum verdict judge_measure(const struct measures *m, uint64_t measured,
                                  uint64_t limit)
{
    if (measured != IPS_UNMEASURED && measured > limit)
        return BEYOND;
    return measured == IPS_UNMEASURED || !m->complete ? CANNOT_TELL : WITHIN;
}

static void add_row_and_update_worst_verdict(
    struct ipsq_table *t, const char *what, uint64_t measured, uint64_t limit,
    bool is_time, const struct measures *m, enum verdict *worst)
{
    enum verdict v = judge_measure(m, measured, limit);
    struct ipsq_cell *cell = ipsq_table_add_row(t);
    *cell++ = ipsq_text_cell(what);
    *cell++ = ipsq_count_cell(is_time ? measured : IPS_UNMEASURED);
    *cell++ = ipsq_count_cell(is_time ? limit : IPS_UNMEASURED);
    *cell++ = ipsq_count_cell(is_time ? IPS_UNMEASURED : measured);
    *cell++ = ipsq_count_cell(is_time ? IPS_UNMEASURED : limit);
    *cell++ = ipsq_text_cell(verdicts[v]);
    *worst = v > *worst ? v : *worst;
}

static int print_check(const struct ipsq_options *o, const char *run,
                       const struct measures *m, enum verdict *worst,
                       struct ips_err *err)
{
    struct ipsq_table t;
    struct ipsq_out out;
    *worst = WITHIN;
    ipsq_progress_stop_and_erase_line();
    ipsq_table_init(&t, "limits", columns, IPSQ_COUNT_OF(columns));
    if (o->options_set & IPSQ_HAS(MAX_WALL))
        add_row_and_update_worst_verdict(&t, "wall", m->wall_ns, o->max_wall_ns,
                                         true, m, worst);
    if (o->options_set & IPSQ_HAS(MAX_CPU))
        add_row_and_update_worst_verdict(&t, "cpu", m->cpu_ns, o->max_cpu_ns,
                                         true, m, worst);
    if (o->options_set & IPSQ_HAS(MAX_PATH))
        add_row_and_update_worst_verdict(&t, "path", m->path_ns, o->max_path_ns,
                                         true, m, worst);
    if (o->options_set & IPSQ_HAS(MAX_LOST))
        add_row_and_update_worst_verdict(&t, "lost", m->lost, o->max_lost,
                                         false, m, worst);
    ipsq_out_begin(&out, stdout, o->format, true);
    ipsq_out_write_or_collect_value(&out, IPSQ_TEXT, "run", "run",
                                    ipsq_text_cell(run));
    ipsq_put_asked_window(&out, o);
    ipsq_out_write_or_collect_value(&out, IPSQ_TEXT, "within", "within limits",
                                    ipsq_text_cell(verdicts[*worst]));
    ipsq_out_write_or_collect_value(&out, IPSQ_BOOL, "complete", "complete",
                                    ipsq_bool_cell(m->complete));
    ipsq_out_write_table(&out, &t, "");
    ipsq_table_release(&t);
    return ipsq_out_end(&out, err);
}

static int run_check(const struct ipsq_command *self,
                     const struct ipsq_options *o, struct ipsq_session *s,
                     struct ips_err *err)
{
    struct measures m = {.complete = true, .path_ns = IPS_UNMEASURED};
    Ips__Request rq = IPS__REQUEST__INIT;
    enum verdict worst = WITHIN;
    if (!(o->options_set & self->options & ~IPSQ_WINDOW))
        return ips_err_set(err, IPS_E_USAGE,
                           "name at least one limit, such as --max-wall 10s");
    int rc = ipsq_find_and_set_run_of_request(s, o, &rq, err);
    if (rc == 0)
        rc = ask_metrics(s, o, rq.run, &m, err);
    if (rc == 0 && (o->options_set & IPSQ_HAS(MAX_PATH)))
        rc = ask_path_and_store_measures(s, o, rq.run, &m, err);
    if (rc == 0)
        rc = print_check(o, rq.run, &m, &worst, err);
    if (rc < 0)
        return rc;
    return worst == BEYOND        ? IPSQ_PASSED_LIMIT
           : worst == CANNOT_TELL ? IPSQ_INCOMPLETE
                                  : IPSQ_OK;
}

const struct ipsq_command ipsq_cmd_check = {
    .name = "check",
    .usage =
        "[RUN] [--max-wall T] [--max-cpu T] [--max-path T]\n"
        "                  [--max-lost N] [--from TIME] [--to TIME] [--phase "
        "N]",
    .summary = "check a run against limits (for scripts)",
    .group = IPSQ_COMPARE,
    .examples = "  ipsq check run3 --max-wall 10s\n"
                "  ipsq check run3 --max-cpu 60s --max-lost 0\n",
    .help = "Checks the elapsed time, the CPU time, the longest path (cpu) and "
            "the lost events. Exit status 0: within all limits; 4: a limit was "
            "exceeded; 3: cannot tell, because the answer is incomplete (the "
            "run is still open, events were lost, a program ran unrecorded; "
            "`ipsq ls` says why). In a window (--from, --to, --phase) times "
            "are those of the window, lost events those of the run.\n",
    .options = IPSQ_HAS(MAX_WALL) | IPSQ_HAS(MAX_CPU) | IPSQ_HAS(MAX_PATH) |
               IPSQ_HAS(MAX_LOST) | IPSQ_WINDOW,
    .formats = IPSQ_FORMATS_USUAL,
    .max_args = 1,
    .run = run_check,
};
