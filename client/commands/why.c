#include <stdlib.h>
#include <string.h>

#include "client/base/command.h"
#include "client/base/units.h"
#include "client/commands/why.h"

static const struct ipsq_column columns[] = {
    {"kind", NULL, IPSQ_TEXT},
    {"gain_ns", NULL, IPSQ_NS},
    {"gain_share", NULL, IPSQ_SHARE},
    {"bound_ns", NULL, IPSQ_NS},
    {"path_ns", NULL, IPSQ_NS},
    {"says", NULL, IPSQ_TEXT},
    {"evidence", NULL, IPSQ_TEXT},
    {"supposes", NULL, IPSQ_TEXT},
    {"sure", NULL, IPSQ_TEXT},
    {"sure_why", NULL, IPSQ_TEXT},
    {"object", NULL, IPSQ_TEXT},
    {"other", NULL, IPSQ_TEXT},
    {"procedure", NULL, IPSQ_TEXT},
    {"module", NULL, IPSQ_TEXT},
    {"file", NULL, IPSQ_TEXT},
    {"line", NULL, IPSQ_COUNT},
    {"wait_procedure", NULL, IPSQ_TEXT},
    {"wait_file", NULL, IPSQ_TEXT},
    {"wait_line", NULL, IPSQ_COUNT},
    {"command", NULL, IPSQ_TEXT},
    {"phase", NULL, IPSQ_COUNT},
    {"from_ns", NULL, IPSQ_NS},
    {"to_ns", NULL, IPSQ_NS},
};

static void put_row(struct ipsq_table *t, const Ips__WhyRow *r)
{
    struct ipsq_cell *cell = ipsq_table_add_row(t);
    *cell++ = ipsq_text_cell(r->kind);
    *cell++ = ipsq_count_cell(r->gain_ns);
    *cell++ = ipsq_real_cell((double)r->gain_ppm / 1e6);
    *cell++ = ipsq_count_cell(r->bound_ns);
    *cell++ = ipsq_count_cell(r->path_ns);
    *cell++ = ipsq_text_cell(r->says);
    *cell++ = ipsq_text_cell(r->evidence);
    *cell++ = ipsq_text_cell(r->supposes);
    *cell++ = ipsq_text_cell(r->sure);
    *cell++ = ipsq_text_cell(r->sure_why);
    *cell++ = ipsq_text_cell(r->object);
    *cell++ = ipsq_text_cell(r->other);
    *cell++ = ipsq_text_cell(r->procedure);
    *cell++ = ipsq_text_cell(r->module);
    *cell++ = ipsq_text_cell(r->file);
    *cell++ = ipsq_count_cell(r->line ? r->line : IPS_UNMEASURED);
    *cell++ = ipsq_text_cell(r->wait_procedure);
    *cell++ = ipsq_text_cell(r->wait_file);
    *cell++ = ipsq_count_cell(r->wait_line ? r->wait_line : IPS_UNMEASURED);
    *cell++ = ipsq_text_cell(r->command);
    *cell++ = ipsq_count_cell(r->phase ? r->phase : IPS_UNMEASURED);
    *cell++ = ipsq_count_cell(r->phase ? r->from_ns : IPS_UNMEASURED);
    *cell++ = ipsq_count_cell(r->phase ? r->to_ns : IPS_UNMEASURED);
}

static void put_table(struct ipsq_out *out, const char *name,
                      Ips__WhyRow **rows, size_t count)
{
    struct ipsq_table t;
    ipsq_table_init(&t, name, columns, IPSQ_COUNT_OF(columns));
    for (size_t i = 0; i < count; i++)
        put_row(&t, rows[i]);
    ipsq_out_write_table(out, &t, NULL);
    ipsq_table_release(&t);
}

/* ---- findings in the table format --------------------------------------- */

/* Writes the command on one line, never folded, so that it can be copied. */
static void put_command_for_details(struct ipsq_out *out, const char *command)
{
    const struct ipsq_cell cell = ipsq_text_cell(command);
    char *clean = ipsq_cell_text(IPSQ_TEXT, &cell);
    ipsq_out_write_line_if_table(out, "    more:  %s", clean);
    free(clean);
}

static void put_finding_as_text(struct ipsq_out *out, size_t number,
                                const Ips__WhyRow *r)
{
    char head[160], gain[IPSQ_UNIT_BYTES], share[IPSQ_UNIT_BYTES];
    snprintf(head, sizeof(head), "\n%2zu. ", number);
    ipsq_out_switch_bold(out, true);
    ipsq_out_write_prose_if_table(out, head, r->says, 4);
    ipsq_out_switch_bold(out, false);
    ipsq_out_write_prose_if_table(out, "    seen:  ", r->evidence, 11);
    if (r->gain_ns) {
        ipsq_format_ns(r->gain_ns, gain);
        ipsq_format_share((double)r->gain_ppm / 1e6, share);
        snprintf(head, sizeof(head), "    gain:  %s (%s) if ", gain, share);
        ipsq_out_write_prose_if_table(out, head, r->supposes, 11);
    }
    snprintf(head, sizeof(head), "    sure:  %.20s%s", r->sure,
             *r->sure_why ? ": " : "");
    if (*r->sure_why)
        ipsq_out_write_prose_if_table(out, head, r->sure_why, 11);
    else
        ipsq_out_write_line_if_table(out, "%s", head);
    put_command_for_details(out, r->command);
}

static void put_no_findings(struct ipsq_out *out, const Ips__WhyAnswer *a)
{
    char gain[IPSQ_UNIT_BYTES], share[IPSQ_UNIT_BYTES], head[160];
    ipsq_out_write_line_if_table(out, "\nNothing stands out.");
    if (!a->nearest)
        return;
    ipsq_format_ns(a->nearest->gain_ns, gain);
    ipsq_format_share((double)a->nearest->gain_ppm / 1e6, share);
    snprintf(head, sizeof(head), "The largest gain (%s, %s): ", gain, share);
    ipsq_out_write_prose_if_table(out, head, a->nearest->says, 4);
}

static void put_findings_as_text(struct ipsq_out *out, const Ips__WhyAnswer *a)
{
    for (size_t i = 0; i < a->n_findings; i++)
        put_finding_as_text(out, i + 1, a->findings[i]);
    if (a->n_findings == 0)
        put_no_findings(out, a);
    if (a->left_out)
        ipsq_out_write_line_if_table(out, "\n%llu more finding%s (--top N)",
                                     (unsigned long long)a->left_out,
                                     a->left_out == 1 ? "" : "s");
}

/* ---- the whole answer --------------------------------------------------- */

/* Writes a time; in the table format only if it was measured. */
static void print_time_if_measured(struct ipsq_out *out, const char *key,
                                   const char *title, uint64_t ns)
{
    ipsq_out_write_or_collect_value(out, IPSQ_NS, key,
                                    ns == IPS_UNMEASURED ? NULL : title,
                                    ipsq_count_cell(ns));
}

/* Writes the parts of the path (on CPU, waiting for a CPU ...). In the table
 * format they are one line, without the parts that are 0. */
static void put_path_breakdown(struct ipsq_out *out, const Ips__WhyAnswer *a)
{
    const struct {
        const char *key, *text;
        uint64_t ns;
    } part[] = {
        {"on_cpu_ns", "on CPU", a->on_cpu_ns},
        {"run_delay_ns", "waiting for a CPU", a->run_delay_ns},
        {"outside_ns", "waiting for something not recorded", a->outside_ns},
        {"crossing_ns", "between threads", a->crossing_ns},
        {"other_ns", "unattributed", a->other_ns},
    };
    char line[400] = "", ns[IPSQ_UNIT_BYTES];
    for (size_t i = 0; i < IPSQ_COUNT_OF(part); i++) {
        size_t at = strlen(line);
        ipsq_out_write_or_collect_value(out, IPSQ_NS, part[i].key, NULL,
                                        ipsq_count_cell(part[i].ns));
        if (part[i].ns == IPS_UNMEASURED || !part[i].ns)
            continue;
        ipsq_format_ns(part[i].ns, ns);
        snprintf(line + at, sizeof(line) - at, "%s%s %s", at ? ", " : "", ns,
                 part[i].text);
    }
    if (*line)
        ipsq_out_write_prose_if_table(out, "the path        ", line, 16);
}

/* Writes the window of the answer; null: the whole run. */
static void put_window(struct ipsq_out *out, uint32_t phase,
                       const Ips__WhyAnswer *a)
{
    bool given = a->from_ns || a->to_ns;
    ipsq_out_write_or_collect_value(
        out, IPSQ_COUNT, "phase", phase ? "phase" : NULL,
        ipsq_count_cell(phase ? phase : IPS_UNMEASURED));
    ipsq_out_write_or_collect_value(
        out, IPSQ_NS, "from_ns", given ? "window from" : NULL,
        ipsq_count_cell(given ? a->from_ns : IPS_UNMEASURED));
    ipsq_out_write_or_collect_value(
        out, IPSQ_NS, "to_ns", a->to_ns ? "window to" : NULL,
        ipsq_count_cell(a->to_ns ? a->to_ns : IPS_UNMEASURED));
}

/* Writes the innermost procedure that has, with its callees, at least half of
 * the samples of the path; null: there is none. */
static void put_procedure_common_to_samples(struct ipsq_out *out,
                                            const Ips__WhyCommon *c)
{
    char text[512] = "", share[3][IPSQ_UNIT_BYTES];
    const uint64_t ns[] = {c ? c->ns : 0, c ? c->low_ns : 0,
                           c ? c->high_ns : 0};
    for (int i = 0; c && i < 3; i++)
        ipsq_format_share((double)ns[i] / (double)(c->of_ns ? c->of_ns : 1),
                          share[i]);
    if (c)
        snprintf(text, sizeof(text), "%.300s, %s of its samples [%s, %s]",
                 c->procedure, share[0], share[1], share[2]);
    ipsq_out_write_or_collect_value(out, IPSQ_TEXT, "common_says",
                                    c ? "  mostly in" : NULL,
                                    ipsq_text_cell(c ? text : NULL));
    ipsq_out_write_or_collect_value(out, IPSQ_TEXT, "common_procedure", NULL,
                                    ipsq_text_cell(c ? c->procedure : NULL));
    ipsq_out_write_or_collect_value(out, IPSQ_TEXT, "common_module", NULL,
                                    ipsq_text_cell(c ? c->module : NULL));
    ipsq_out_write_or_collect_value(
        out, IPSQ_NS, "common_ns", NULL,
        ipsq_count_cell(c ? c->ns : IPS_UNMEASURED));
    ipsq_out_write_or_collect_value(
        out, IPSQ_NS, "common_low_ns", NULL,
        ipsq_count_cell(c ? c->low_ns : IPS_UNMEASURED));
    ipsq_out_write_or_collect_value(
        out, IPSQ_NS, "common_high_ns", NULL,
        ipsq_count_cell(c ? c->high_ns : IPS_UNMEASURED));
    ipsq_out_write_or_collect_value(
        out, IPSQ_NS, "common_of_ns", NULL,
        ipsq_count_cell(c ? c->of_ns : IPS_UNMEASURED));
}

static void print_why_summary(struct ipsq_out *out, const char *run_name,
                              uint32_t phase, const Ips__WhyAnswer *a)
{
    bool known = a->elapsed_ns && a->elapsed_ns != IPS_UNMEASURED;
    bool goal = *a->goal;
    ipsq_out_write_or_collect_value(out, IPSQ_TEXT, "run", "run",
                                    ipsq_text_cell(run_name));
    ipsq_out_write_or_collect_value(out, IPSQ_BOOL, "open",
                                    a->open ? "still open" : NULL,
                                    ipsq_bool_cell(a->open));
    put_window(out, phase, a);
    ipsq_out_write_or_collect_value(out, IPSQ_TEXT, "answers", NULL,
                                    ipsq_text_cell(a->answers));
    ipsq_out_write_or_collect_value(out, IPSQ_TEXT, "shape", NULL,
                                    ipsq_text_cell(a->shape));
    ipsq_out_write_or_collect_value(out, IPSQ_TEXT, "shape_says", "question",
                                    ipsq_text_cell(a->shape_says));
    ipsq_out_write_or_collect_value(out, IPSQ_TEXT, "goal",
                                    goal ? "goal" : NULL,
                                    ipsq_text_cell(goal ? a->goal : NULL));
    ipsq_out_write_or_collect_value(out, IPSQ_TEXT, "category", NULL,
                                    ipsq_text_cell(a->category));
    ipsq_out_write_or_collect_value(
        out, IPSQ_NS, "elapsed_ns", NULL,
        ipsq_count_cell(known ? a->elapsed_ns : IPS_UNMEASURED));
    ipsq_out_write_or_collect_value(out, IPSQ_NS, "wall_ns", NULL,
                                    ipsq_count_cell(a->wall_ns));
    print_time_if_measured(out, "own_ns", "ideal time", a->own_ns);
    ipsq_out_write_or_collect_value(out, IPSQ_NS, "quiet_ns", NULL,
                                    ipsq_count_cell(a->quiet_ns));
    ipsq_out_write_or_collect_value(out, IPSQ_NS, "sched_ns", NULL,
                                    ipsq_count_cell(a->sched_ns));
    ipsq_out_write_or_collect_value(out, IPSQ_NS, "cpu_ns", NULL,
                                    ipsq_count_cell(a->cpu_ns));
    print_time_if_measured(out, "total_cpu_ns", "total CPU", a->total_cpu_ns);
    put_path_breakdown(out, a);
    put_procedure_common_to_samples(out, a->common);
    ipsq_out_write_or_collect_value(out, IPSQ_TEXT, "sure", "sure",
                                    ipsq_text_cell(a->sure));
    ipsq_out_write_or_collect_value(out, IPSQ_TEXT, "sure_why",
                                    *a->sure_why ? "because" : NULL,
                                    ipsq_text_cell(a->sure_why));
    ipsq_out_write_or_collect_value(out, IPSQ_COUNT, "left_out", NULL,
                                    ipsq_count_cell(a->left_out));
    ipsq_out_write_or_collect_value(out, IPSQ_NS, "took_ns", NULL,
                                    ipsq_count_cell(a->took_ns));
}

static int print_why(const struct ipsq_options *o, const char *run_name,
                     const Ips__WhyAnswer *a, struct ips_err *err)
{
    struct ipsq_out out;
    Ips__WhyRow *nearest[] = {a->nearest};
    ipsq_progress_stop_and_erase_line();
    ipsq_out_begin(&out, stdout, o->format, true);
    ipsq_out_set_certificate_write_limitations(&out, a->certificate,
                                               o->verbose);
    print_why_summary(&out, run_name, o->phase, a);
    if (o->format == IPSQ_TABLE) {
        put_findings_as_text(&out, a);
    } else {
        put_table(&out, "findings", a->findings, a->n_findings);
        put_table(&out, "nearest", nearest, a->nearest != NULL);
    }
    int rc = ipsq_out_end(&out, err);
    return rc < 0 ? rc : ipsq_certificate_exit_status(a->certificate);
}

static int ask_why_with_answer_kind(struct ipsq_session *s, Ips__Request *rq,
                                    const char *what,
                                    const Ips__WhyAnswer **out,
                                    struct ips_err *err)
{
    const Ips__Reply *last = NULL;
    rq->why->answer = ips_unconst_text(what);
    int rc = ipsq_session_ask(s, rq, false, NULL, NULL, &last, err);
    if (rc == 0)
        rc = ipsq_check_answer_kind(last, IPS__REPLY__ANSWER_WHY, err);
    if (rc == 0)
        *out = last->why;
    return rc;
}

int why_ask_and_retry_for_service(struct ipsq_session *s, Ips__Request *rq,
                                  const Ips__WhyAnswer **out,
                                  struct ips_err *err)
{
    const char *what = rq->why->answer;
    int rc = ask_why_with_answer_kind(s, rq, what, out, err);
    if (rc == 0 &&
        !*(*out)->answers) { /* the run is a service: ask about its requests */
        rc = ask_why_with_answer_kind(s, rq, "requests", out, err);
        if (rc == 0 && strcmp((*out)->shape, "service") != 0)
            rc = ask_why_with_answer_kind(
                s, rq, "turnaround", out,
                err); /* no requests are known: ask about the elapsed time */
        rq->why->answer = ips_unconst_text(what);
    }
    return rc;
}

static int run_why(const struct ipsq_command *self,
                   const struct ipsq_options *o, struct ipsq_session *s,
                   struct ips_err *err)
{
    Ips__Request rq = IPS__REQUEST__INIT;
    Ips__WhyAsk ask = IPS__WHY_ASK__INIT;
    const Ips__WhyAnswer *answer = NULL;
    (void)self;
    ask.answer = ips_unconst_text(o->answer ? o->answer : "");
    ask.goal = ips_unconst_text(o->goal ? o->goal : "");
    ask.top = o->top;
    ask.from_ns = o->from_ns;
    ask.to_ns = o->to_ns;
    ask.phase = o->phase;
    ask.uncalibrated = o->options_set & IPSQ_HAS(MTIME);
    if (o->message_time_base_ns || o->message_time_per_byte_q32)
        return ips_err_set(
            err, IPS_E_USAGE,
            "why accepts only --mtime none; without it, it uses the "
            "measured message times");
    rq.ask_case = IPS__REQUEST__ASK_WHY;
    rq.why = &ask;
    if (why_are_several_runs_named(o))
        return why_answer_several_runs(o, s, &rq, err);
    int rc = ipsq_find_and_set_run_of_request(s, o, &rq, err);
    if (rc == 0)
        rc = why_ask_and_retry_for_service(s, &rq, &answer, err);
    return rc < 0 ? rc : print_why(o, rq.run, answer, err);
}

const struct ipsq_command ipsq_cmd_why = {
    .name = "why",
    .usage = "[RUN[,RUN...]] [--for WHAT] [--goal OBJECT] [--mtime none]\n"
             "                [--top N] [--from TIME] [--to TIME] [--phase N]",
    .summary = "where a run's time goes, and what would help",
    .group = IPSQ_ASK,
    .examples = "  ipsq why\n"
                "  ipsq why run3 --phase 2\n",
    .help = "Lists the changes that would help most, the largest gain first: a "
            "procedure, a serial section, a phase, a slow sender, uneven work, "
            "small messages, locks, too few cores, waits for something not "
            "recorded, slow messages. Each finding has its evidence, the gain "
            "and the change that the gain assumes, a confidence, and the "
            "command that shows more. Findings below 5% of the elapsed time "
            "are left out. The ideal time is how long the run would take on "
            "the same machines if nothing else ran there.\n"
            "For a service with unrecorded clients the answer is what its "
            "requests wait for (--for latency) and what limits their rate "
            "(--for throughput), for any other program where the elapsed time "
            "went (--for turnaround). With several runs: how many of them have "
            "each finding, with its median, least and greatest gain. In a "
            "window (--from, --to, --phase) times and shares are those of the "
            "window.\n",
    .options = IPSQ_HAS(FRESH) | IPSQ_HAS(FOR) | IPSQ_HAS(MTIME) |
               IPSQ_HAS(GOAL) | IPSQ_HAS(TOP) | IPSQ_HAS(FROM) | IPSQ_HAS(TO) |
               IPSQ_HAS(PHASE),
    .formats = IPSQ_FORMATS_USUAL,
    .max_args = 1,
    .run = run_why,
};
