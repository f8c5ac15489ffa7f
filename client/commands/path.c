#include <math.h>
#include <string.h>

#include "client/base/command.h"
#include "client/base/path_more.h"
#include "client/base/units.h"
#include "client/commands/path_profile.h"

/* rows of each list that the table shows without --top */
#define TABLE_TOP 10

static const struct ipsq_column segment_columns[] = {
    {"kind", "KIND", IPSQ_TEXT},        {"arc", "ARC", IPSQ_TEXT},
    {"machine", "MACHINE", IPSQ_TEXT},  {"process", "PROCESS", IPSQ_TEXT},
    {"thread", "THREAD", IPSQ_TEXT},    {"from_node", "FROM NODE", IPSQ_COUNT},
    {"to_node", "TO NODE", IPSQ_COUNT}, {"ns", "TIME", IPSQ_NS},
};

struct path_tables {
    struct ipsq_table segments;
    struct ipsq_path_rows rows;
};

static int collect_path_rows(const Ips__Reply *reply, void *arg,
                             struct ips_err *err)
{
    struct path_tables *all = arg;
    struct ipsq_table *t = &all->segments;
    if (reply->answer_case != IPS__REPLY__ANSWER_PATH)
        return ipsq_check_answer_kind(reply, IPS__REPLY__ANSWER_PATH, err);
    for (size_t i = 0; i < reply->path->n_segments; i++) {
        const Ips__Segment *seg = reply->path->segments[i];
        struct ipsq_cell *cell = ipsq_table_add_row(t);
        *cell++ = ipsq_text_cell(seg->kind);
        *cell++ = ipsq_text_cell(seg->arc);
        *cell++ = ipsq_text_cell(seg->machine);
        *cell++ = ipsq_text_cell(seg->process);
        *cell++ = ipsq_text_cell(seg->thread);
        *cell++ = ipsq_count_cell(seg->from_node);
        *cell++ = ipsq_count_cell(seg->to_node);
        *cell++ = ipsq_count_cell(seg->ns);
    }
    return ipsq_path_rows_append_answer(&all->rows, reply->path, err);
}

/* Writes how much of its time the path spent on a CPU, waiting for a CPU, or
 * neither (IPS-14). */
static void put_cpu_and_run_delay(struct ipsq_out *out,
                                  const Ips__PathAnswer *a)
{
    bool known = a->run_delay_ns != IPS_UNMEASURED;
    double share =
        known && a->window_ns /* without a window, window_ns is t_max_ns */
            ? (double)a->run_delay_ns / (double)a->window_ns
            : IPS_UNMEASURED_REAL;
    ipsq_out_write_or_collect_value(out, IPSQ_NS, "on_cpu_ns",
                                    known ? "  on CPU" : NULL,
                                    ipsq_count_cell(a->on_cpu_ns));
    ipsq_out_write_or_collect_value(out, IPSQ_NS, "run_delay_ns",
                                    known ? "  waiting for a CPU" : NULL,
                                    ipsq_count_cell(a->run_delay_ns));
    ipsq_out_write_or_collect_value(out, IPSQ_SHARE, "run_delay_share",
                                    known ? "  share of it" : NULL,
                                    ipsq_real_cell(share));
    ipsq_out_write_or_collect_value(out, IPSQ_NS, "other_ns",
                                    known ? "  unattributed" : NULL,
                                    ipsq_count_cell(a->other_ns));
}

/* Whether processes continued after the command of the run ended (by more than
 * 1% of the command's elapsed time) and made the path longer than that elapsed
 * time. */
static bool do_processes_outlive_command(const Ips__PathAnswer *a)
{
    return a->elapsed_ns != IPS_UNMEASURED && a->lasted_ns != IPS_UNMEASURED &&
           a->lasted_ns > a->elapsed_ns + a->elapsed_ns / 100 &&
           a->t_max_ns > a->elapsed_ns;
}

static void print_path_summary(struct ipsq_out *out, const char *run_name,
                               const Ips__PathAnswer *a, bool verbose)
{
    bool known = a->elapsed_ns && a->elapsed_ns != IPS_UNMEASURED;
    ipsq_out_write_or_collect_value(out, IPSQ_TEXT, "run", "run",
                                    ipsq_text_cell(run_name));
    ipsq_out_write_or_collect_value(out, IPSQ_BOOL, "open",
                                    a->open ? "still open" : NULL,
                                    ipsq_bool_cell(a->open));
    ipsq_out_write_or_collect_value(out, IPSQ_TEXT, "weighting", "weighting",
                                    ipsq_text_cell(a->weighting));
    bool goal = a->goal && *a->goal;
    ipsq_out_write_or_collect_value(out, IPSQ_TEXT, "goal",
                                    goal ? "goal" : NULL,
                                    ipsq_text_cell(goal ? a->goal : NULL));
    ipsq_out_write_or_collect_value(out, IPSQ_TEXT, "engine",
                                    verbose ? "engine" : NULL,
                                    ipsq_text_cell(a->engine));
    ipsq_out_write_or_collect_value(out, IPSQ_TEXT, "category", NULL,
                                    ipsq_text_cell(a->category));
    ipsq_out_write_or_collect_value(out, IPSQ_NS, "t_max_ns", "critical path",
                                    ipsq_count_cell(a->t_max_ns));
    ipsq_out_write_or_collect_value(
        out, IPSQ_NS, "elapsed_ns", "elapsed",
        ipsq_count_cell(known ? a->elapsed_ns : IPS_UNMEASURED));
    ipsq_out_write_or_collect_value(
        out, IPSQ_NS, "lasted_ns",
        do_processes_outlive_command(a) ? "went on for" : NULL,
        ipsq_count_cell(a->lasted_ns));
    ipsq_out_write_or_collect_value(
        out, IPSQ_NS, "total_cpu_ns",
        strcmp(a->weighting, "cpu") == 0 ? "total CPU" : "total time",
        ipsq_count_cell(a->total_cpu_ns));
    put_cpu_and_run_delay(out, a);
    ipsq_out_write_or_collect_value(out, IPSQ_REAL, "parallelism_factor", NULL,
                                    ipsq_real_cell(a->parallelism));
    ipsq_out_write_or_collect_value(out, IPSQ_REAL, "p_max", NULL,
                                    ipsq_real_cell(a->p_max));
    char p[IPSQ_UNIT_BYTES], p_max[IPSQ_UNIT_BYTES];
    ipsq_format_real(a->parallelism, p);
    ipsq_format_real(a->p_max, p_max);
    ipsq_out_write_formatted_value_if_table(
        out, "parallelism", "%s (%s if messages took no time)", p, p_max);
    ipsq_out_write_or_collect_value(out, IPSQ_REAL, "rho",
                                    isnan(a->rho) ? NULL : "utilisation",
                                    ipsq_real_cell(a->rho));
    ipsq_out_write_or_collect_value(out, IPSQ_COUNT, "messages",
                                    "messages on the path",
                                    ipsq_count_cell(a->messages));
    ipsq_out_write_or_collect_value(out, IPSQ_COUNT, "segment_count",
                                    "segments",
                                    ipsq_count_cell(a->segment_count));
    ipsq_out_write_or_collect_value(out, IPSQ_NS, "took_ns", NULL,
                                    ipsq_count_cell(a->took_ns));
}

static void put_engine_cost(struct ipsq_out *out, const Ips__EngineCost *c,
                            bool verbose)
{
    static const Ips__EngineCost unknown = IPS__ENGINE_COST__INIT;
    bool known = c != NULL;
    c = known ? c : &unknown;
    ipsq_out_write_or_collect_value(out, IPSQ_COUNT, "cost_rounds", NULL,
                                    ipsq_count_cell(c->rounds));
    ipsq_out_write_or_collect_value(out, IPSQ_COUNT, "cost_values", NULL,
                                    ipsq_count_cell(c->values));
    ipsq_out_write_or_collect_value(out, IPSQ_COUNT, "cost_messages", NULL,
                                    ipsq_count_cell(c->messages));
    ipsq_out_write_or_collect_value(out, IPSQ_BYTES, "cost_bytes", NULL,
                                    ipsq_count_cell(c->bytes));
    ipsq_out_write_or_collect_value(out, IPSQ_COUNT, "cost_relayed", NULL,
                                    ipsq_count_cell(c->relayed));
    char bytes[IPSQ_UNIT_BYTES];
    ipsq_format_bytes(c->bytes, bytes);
    if (known && verbose)
        ipsq_out_write_line_if_table(out,
                                     "%-15s %llu values in %llu messages, %s",
                                     "exchanged", (unsigned long long)c->values,
                                     (unsigned long long)c->messages, bytes);
}

/* Explains why there is no path to show. */
static void explain_empty_path(struct ipsq_out *out,
                               const struct ipsq_options *o,
                               const Ips__PathAnswer *a)
{
    const Ips__Certificate *c = a->certificate;
    if (ipsq_has_window(o) && a->t_max_ns)
        ipsq_out_write_line_if_table(
            out, "\nNO PATH in this window. A window counts from each "
                 "machine's first event.");
    else if (a->t_max_ns == 0 && c && c->events == 0)
        ipsq_out_write_line_if_table(
            out, "\nNO PATH: no event of this run is known.");
    else
        ipsq_out_write_line_if_table(
            out, "\nNO PATH: nothing in this run took CPU time; -v says "
                 "what was recorded.");
}

/* Returns how many rows of each list, and how many segments, are shown; 0:
 * all. */
static uint64_t row_limit_of(const struct ipsq_options *o)
{
    return o->format == IPSQ_TABLE && o->top == 0 ? TABLE_TOP : o->top;
}

static int print_path(const struct ipsq_options *o, const char *run_name,
                      const Ips__PathAnswer *a, struct path_tables *taken,
                      const Ips__WhatifAnswer *more, struct ips_err *err)
{
    struct ipsq_table *segments = &taken->segments;
    struct ipsq_out out;
    uint64_t top = row_limit_of(o);
    bool empty = segments->row_count == 0;
    ipsq_progress_stop_and_erase_line();
    ipsq_out_begin(&out, stdout, o->format, true);
    ipsq_out_set_certificate_write_limitations(&out, a->certificate,
                                               o->verbose);
    print_path_summary(&out, run_name, a, o->verbose);
    put_engine_cost(&out, a->cost, o->verbose);
    if (empty)
        explain_empty_path(&out, o, a);
    ipsq_put_path_profile(&out, o, a, &taken->rows, top);
    char heading[96];
    snprintf(heading, sizeof(heading),
             segments->row_count < a->segment_count
                 ? "the %zu longest segments, in order of time"
                 : "all segments, in order of time",
             segments->row_count);
    if (!empty || o->format != IPSQ_TABLE)
        ipsq_out_write_table(&out, segments, heading);
    if (more)
        ipsq_put_slacks_and_next_paths(&out, o, more, top);
    int rc = ipsq_out_end(&out, err);
    if (rc < 0)
        return rc;
    return empty ? IPSQ_INCOMPLETE
                 : ipsq_certificate_exit_status(a->certificate);
}

static int run_path(const struct ipsq_command *self,
                    const struct ipsq_options *o, struct ipsq_session *s,
                    struct ips_err *err)
{
    Ips__Request rq = IPS__REQUEST__INIT;
    Ips__PathAsk ask = IPS__PATH_ASK__INIT;
    Ips__Lane scenario = IPS__LANE__INIT;
    const Ips__Reply *last = NULL;
    const Ips__WhatifAnswer *more = NULL;
    struct path_tables taken = {0};
    char *by[IPSQ_BY_COUNT];
    (void)self;
    ipsq_fill_scenario(o, &scenario);
    ask.weighting = ips_unconst_text(o->weighting);
    ask.goal = ips_unconst_text(o->goal);
    ask.engine = ips_unconst_text(o->engine);
    ask.lane = &scenario;
    ask.segments = true;
    ask.top = row_limit_of(o);
    ask.n_by = ipsq_fill_path_groupings(o, by);
    ask.by = by;
    ask.sequences = o->sequences;
    ask.whole = o->whole;
    ask.from_ns = o->from_ns;
    ask.to_ns = o->to_ns;
    ask.phase = o->phase;
    rq.ask_case = IPS__REQUEST__ASK_PATH;
    rq.path = &ask;
    int rc = ipsq_find_and_set_run_of_request(s, o, &rq, err);
    if (rc < 0)
        return rc;
    ipsq_table_init(&taken.segments, "segments", segment_columns,
                    IPSQ_COUNT_OF(segment_columns));
    taken.segments.spare_columns = "from_node+to_node arc";
    rc = ipsq_session_ask(s, &rq, false, collect_path_rows, &taken, &last, err);
    if (rc == 0)
        rc = ipsq_check_answer_kind(last, IPS__REPLY__ANSWER_PATH, err);
    if (rc == 0 && (o->slack || o->next))
        rc =
            ipsq_ask_slacks_and_next_paths(s, o, &scenario, rq.run, &more, err);
    if (rc == 0)
        rc = print_path(o, rq.run, last->path, &taken, more, err);
    ipsq_table_release(&taken.segments);
    ipsq_path_rows_release(&taken.rows);
    return rc;
}

const struct ipsq_command ipsq_cmd_path = {
    .name = "path",
    .usage =
        "[RUN] [--weighting W] [--goal OBJECT] [--by WHAT,...]\n"
        "                 [--sequences] [--whole] [--slack] [--next K] [--from "
        "TIME]\n"
        "                 [--to TIME] [--phase N] [--engine E] [--mtime SPEC]\n"
        "                 [--external WHICH] [--fresh] [--top N]",
    .summary = "the critical path: what determined the elapsed time",
    .group = IPSQ_ASK,
    .examples = "  ipsq path run3 --top 5\n"
                "  ipsq path run3 --weighting wall --by line\n",
    .help = "The critical path is the longest chain of dependent activities of "
            "the run: computing, messages and waits. It determines the elapsed "
            "time; making anything else faster has no effect. STABLE says "
            "whether a share keeps its rank if message times are halved or "
            "doubled or external waits are left out; FROM and TO are the range "
            "of the share in these scenarios. The parallelism factor is total "
            "CPU time divided by the length of the path; the second figure "
            "assumes messages of length 0.\n"
            "LOW and HIGH are the 95% interval of a procedure's share, "
            "computed from the samples. --whole also shows all work of the run "
            "and how much of it is on the path. In a window (--from, --to) "
            "shares are shares of the path inside the window.\n"
            "The table shows the 10 greatest rows of each list, or with --top "
            "at most N.\n" IPSQ_PATH_MORE_HELP,
    .options = IPSQ_HAS(FRESH) | IPSQ_HAS(ENGINE) | IPSQ_HAS(WEIGHTING) |
               IPSQ_HAS(GOAL) | IPSQ_HAS(MTIME) | IPSQ_HAS(EXTERNAL) |
               IPSQ_HAS(TOP) | IPSQ_HAS(BY) | IPSQ_HAS(SEQUENCES) |
               IPSQ_HAS(WHOLE) | IPSQ_HAS(FROM) | IPSQ_HAS(TO) |
               IPSQ_HAS(PHASE) | IPSQ_HAS(SLACK) | IPSQ_HAS(NEXT),
    .formats = IPSQ_FORMATS_USUAL,
    .bys = IPSQ_IS_BY(MACHINE) | IPSQ_IS_BY(PROCESS) | IPSQ_IS_BY(THREAD) |
           IPSQ_IS_BY(PROCEDURE) | IPSQ_IS_BY(LINE) | IPSQ_IS_BY(MESSAGE) |
           IPSQ_IS_BY(EXTERNAL),
    .several_bys = true,
    .max_args = 1,
    .run = run_path,
};
