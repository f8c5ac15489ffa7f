/* `ipsq estimate`: estimates the elapsed time on a dedicated system (no other
 * programs). */
#include "client/base/command.h"

static struct ipsq_cell share_cell(uint64_t of, uint64_t all)
{
    return ipsq_real_cell(all && all != IPS_UNMEASURED && of != IPS_UNMEASURED
                              ? (double)of / (double)all
                              : IPS_UNMEASURED_REAL);
}

static int print_estimate(const struct ipsq_options *o, const char *run_name,
                          const Ips__EstimateAnswer *a, struct ips_err *err)
{
    struct ipsq_out out;
    bool wall = a->wall_ns != IPS_UNMEASURED;
    int64_t over = wall ? (int64_t)(a->wall_ns - a->estimate_ns) : IPSQ_NO_INT;
    ipsq_progress_stop_and_erase_line();
    ipsq_out_begin(&out, stdout, o->format, false);
    ipsq_out_set_certificate_write_limitations(&out, a->certificate,
                                               o->verbose);
    ipsq_out_write_or_collect_value(&out, IPSQ_TEXT, "run", "run",
                                    ipsq_text_cell(run_name));
    ipsq_out_write_or_collect_value(&out, IPSQ_NS, "estimate_ns",
                                    "on a dedicated system",
                                    ipsq_count_cell(a->estimate_ns));
    ipsq_out_write_or_collect_value(&out, IPSQ_NS, "compute_ns",
                                    "  of it computing",
                                    ipsq_count_cell(a->compute_ns));
    ipsq_out_write_or_collect_value(&out, IPSQ_NS, "message_ns", "  messages",
                                    ipsq_count_cell(a->message_ns));
    ipsq_out_write_or_collect_value(&out, IPSQ_NS, "external_ns",
                                    "  waiting for something not recorded",
                                    ipsq_count_cell(a->external_ns));
    ipsq_out_write_or_collect_value(&out, IPSQ_COUNT, "messages",
                                    "messages on the path",
                                    ipsq_count_cell(a->messages));
    ipsq_out_write_or_collect_value(&out, IPSQ_NS, "elapsed_ns", "elapsed",
                                    ipsq_count_cell(a->wall_ns));
    /* Negative if the estimate is longer than the elapsed time. */
    ipsq_out_write_or_collect_value(&out, IPSQ_INT, "elapsed_less_estimate_ns",
                                    NULL, ipsq_int_cell(over));
    ipsq_out_write_or_collect_value(&out, IPSQ_SHARE, "estimate_of_elapsed",
                                    "estimate of elapsed",
                                    share_cell(a->estimate_ns, a->wall_ns));
    ipsq_out_write_or_collect_value(&out, IPSQ_NS, "t_max_ns",
                                    a->system_ppm ? "without the system's share"
                                                  : NULL,
                                    ipsq_count_cell(a->t_max_ns));
    ipsq_out_write_or_collect_value(
        &out, IPSQ_SHARE, "system_share",
        a->system_ppm ? "system's share" : NULL,
        ipsq_real_cell((double)a->system_ppm / 1e6));
    if (o->shared_medium) {
        ipsq_out_write_or_collect_value(&out, IPSQ_NS, "unshared_ns",
                                        "without sharing the medium",
                                        ipsq_count_cell(a->unshared_ns));
        ipsq_out_write_or_collect_value(&out, IPSQ_NS, "medium_busy_ns",
                                        "the medium was busy",
                                        ipsq_count_cell(a->medium_busy_ns));
    }
    ipsq_out_write_or_collect_value(&out, IPSQ_NS, "total_cpu_ns", "total CPU",
                                    ipsq_count_cell(a->total_cpu_ns));
    ipsq_out_write_or_collect_value(&out, IPSQ_BOOL, "open", NULL,
                                    ipsq_bool_cell(a->open));
    if (a->open)
        ipsq_out_write_line_if_table(
            &out, "the run is still open: this estimate covers it up to now");
    int rc = ipsq_out_end(&out, err);
    return rc < 0 ? rc : ipsq_certificate_exit_status(a->certificate);
}

static int run_estimate(const struct ipsq_command *self,
                        const struct ipsq_options *o, struct ipsq_session *s,
                        struct ips_err *err)
{
    Ips__Request rq = IPS__REQUEST__INIT;
    Ips__EstimateAsk ask = IPS__ESTIMATE_ASK__INIT;
    Ips__Lane scenario = IPS__LANE__INIT;
    const Ips__Reply *last = NULL;
    (void)self;
    ipsq_fill_scenario(o, &scenario);
    ask.lane = &scenario;
    ask.system_ppm = o->system_ppm;
    ask.shared_medium = o->shared_medium;
    ask.goal = ips_unconst_text(o->goal ? o->goal : "");
    rq.ask_case = IPS__REQUEST__ASK_ESTIMATE;
    rq.estimate = &ask;
    int rc = ipsq_find_and_set_run_of_request(s, o, &rq, err);
    if (rc == 0)
        rc = ipsq_session_ask(s, &rq, false, NULL, NULL, &last, err);
    if (rc == 0)
        rc = ipsq_check_answer_kind(last, IPS__REPLY__ANSWER_ESTIMATE, err);
    return rc < 0 ? rc : print_estimate(o, rq.run, last->estimate, err);
}

const struct ipsq_command ipsq_cmd_estimate = {
    .name = "estimate",
    .usage = "[RUN] [--system-share S] [--shared-medium] [--mtime SPEC]\n"
             "                     [--external WHICH] [--goal OBJECT]",
    .summary = "the elapsed time if nothing else ran on the machines",
    .group = IPSQ_PREDICT,
    .examples = "  ipsq estimate run3\n"
                "  ipsq estimate run3 --shared-medium\n",
    .help = "Prints the longest path of CPU time and message times, and the "
            "elapsed time of the run's command. The difference is the time "
            "lost to other programs on the machines; their load does not "
            "change the estimate. Message times come from `ipsq calibrate`. "
            "The estimate assumes a core for each thread. With --shared-medium "
            "concurrent messages between machines share its bandwidth.\n",
    .options = IPSQ_HAS(SYSTEM_SHARE) | IPSQ_HAS(SHARED_MEDIUM) |
               IPSQ_HAS(MTIME) | IPSQ_HAS(EXTERNAL) | IPSQ_HAS(GOAL),
    .formats = IPSQ_FORMATS_USUAL,
    .max_args = 1,
    .run = run_estimate,
};
