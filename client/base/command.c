#include "client/base/command.h"

#include <string.h>

#include "client/base/fold.h"
#include "common/nearest.h"

#define HELP_COLUMNS 80

const struct ipsq_command *const ipsq_commands[] = {
    // clang-format off
    &ipsq_cmd_why,
    &ipsq_cmd_path,
    &ipsq_cmd_waits,
    &ipsq_cmd_procedures,
    &ipsq_cmd_metrics,
    &ipsq_cmd_requests,
    &ipsq_cmd_bottleneck,
    &ipsq_cmd_summary,
    &ipsq_cmd_ls,
    &ipsq_cmd_events,
    &ipsq_cmd_phases,
    &ipsq_cmd_graph,
    &ipsq_cmd_sql,
    &ipsq_cmd_whatif,
    &ipsq_cmd_predict,
    &ipsq_cmd_estimate,
    &ipsq_cmd_calibrate,
    &ipsq_cmd_diff,
    &ipsq_cmd_check,
    &ipsq_cmd_runs,
    &ipsq_cmd_status,
    &ipsq_cmd_shell,
    &ipsq_cmd_completion,
    &ipsq_cmd_help,
    &ipsq_cmd_version,
    NULL,
    // clang-format on
};

const struct ipsq_command *ipsq_command_find(const char *name)
{
    for (int i = 0; ipsq_commands[i]; i++) {
        if (strcmp(ipsq_commands[i]->name, name) == 0)
            return ipsq_commands[i];
    }
    return NULL;
}

int ipsq_set_unknown_command_error(const char *name, const char *const *more,
                                   struct ips_err *err)
{
    struct ips_nearest near;
    ips_nearest_start_search(&near, name);
    for (int i = 0; ipsq_commands[i]; i++)
        ips_nearest_consider_candidate(&near, ipsq_commands[i]->name);
    for (int i = 0; more && more[i]; i++)
        ips_nearest_consider_candidate(&near, more[i]);
    return ips_err_set(err, IPS_E_USAGE, "no such command: '%.80s'%s", name,
                       ips_nearest_format_suggestion(&near));
}

void ipsq_print_usage(FILE *f)
{
    static const char *const groups[] = {
#define X(name, text) text,
        IPSQ_GROUPS(X)
#undef X
    };
    fputs(
        "usage: ipsq [OPTIONS] COMMAND [RUN]\n"
        "Shows where the time of a recorded program goes. Record one with "
        "ipsrun.\n"
        "RUN is a run's name or a unique beginning of it; default: the newest "
        "run.\n",
        f);
    for (int i = 0; ipsq_commands[i]; i++) {
        const struct ipsq_command *c = ipsq_commands[i];
        if (i == 0 || c->group != ipsq_commands[i - 1]->group)
            fprintf(f, "%s:\n", groups[c->group]);
        fprintf(f, "  %-12s %s\n", c->name, c->summary);
    }
    fputs("options of all commands:\n"
          "  --master ADDR unix:PATH, tls:HOST:PORT (--tls DIR), "
          "tcp:HOST:PORT (--insecure)\n"
          "  --state DIR   state directory ($IPS_STATE, else "
          "~/.local/state/ips)\n"
          "  --format F    table (--wide: uncut), tsv (--tsv), json (--json); "
          "some "
          "jsonl\n"
          "  -v, --verbose how complete the answer is, in every detail\n"
          "  --help        after a command: its own options and examples\n"
          "exit status: 0 answered, 1 failed, 2 wrong usage, 3 incomplete, "
          "4 limit passed\n",
          f);
}

void ipsq_print_command_usage(FILE *f, const struct ipsq_command *c)
{
    fprintf(f, "usage: ipsq %s%s%s\n%s\n\n", c->name, *c->usage ? " " : "",
            c->usage, c->summary);
    ipsq_print_wrapped_text(f, c->help, HELP_COLUMNS, 0);
    fprintf(f, "%sexamples:\n%s", *c->help ? "\n" : "", c->examples);
    if (c->options) {
        fputs("\noptions:\n", f);
        ipsq_options_print(f, c->options);
    }
    fputs("\nipsq --help lists the options of all commands.\n", f);
}

int ipsq_find_run_or_newest(struct ipsq_session *s, const char *word,
                            const char **run, struct ips_err *err)
{
    int rc = ipsq_session_find_run(s, word, run, err);
    if (rc == 0 && !word) {
        ipsq_progress_stop_and_erase_line();
        fprintf(stderr, "ipsq: run %s, the newest\n", *run);
        ipsq_progress_start_on_terminal();
    }
    return rc;
}

int ipsq_find_and_set_run_of_request(struct ipsq_session *s,
                                     const struct ipsq_options *o,
                                     Ips__Request *rq, struct ips_err *err)
{
    const char *run;
    int rc =
        ipsq_find_run_or_newest(s, o->arg_count ? o->args[0] : NULL, &run, err);
    if (rc == 0)
        rq->run = ips_unconst_text(run);
    rq->fresh = o->fresh;
    return rc;
}

void ipsq_fill_scenario(const struct ipsq_options *o, Ips__Lane *scenario)
{
    scenario->message_time_base_ns = o->message_time_base_ns;
    scenario->message_time_per_byte_q32 = o->message_time_per_byte_q32;
    scenario->calibrated = !(o->options_set & IPSQ_HAS(MTIME));
    scenario->scale_num = scenario->scale_den = 1;
    scenario->external = o->external;
}

void ipsq_put_asked_window(struct ipsq_out *out, const struct ipsq_options *o)
{
    ipsq_out_write_or_collect_value(
        out, IPSQ_COUNT, "phase", o->phase ? "phase" : NULL,
        ipsq_count_cell(o->phase ? o->phase : IPS_UNMEASURED));
    ipsq_out_write_or_collect_value(
        out, IPSQ_NS, "from_ns", o->from_ns ? "window from" : NULL,
        ipsq_count_cell(o->from_ns ? o->from_ns : IPS_UNMEASURED));
    ipsq_out_write_or_collect_value(
        out, IPSQ_NS, "to_ns", o->to_ns ? "window to" : NULL,
        ipsq_count_cell(o->to_ns ? o->to_ns : IPS_UNMEASURED));
}

int ipsq_check_answer_kind(const Ips__Reply *last,
                           Ips__Reply__AnswerCase answer, struct ips_err *err)
{
    if (last && last->answer_case == answer)
        return 0;
    return ips_err_set(
        err, IPS_E_PROTOCOL,
        "the master sent another kind of answer than was asked for");
}

int ipsq_certificate_exit_status(const Ips__Certificate *c)
{
    return c && c->complete ? IPSQ_OK : IPSQ_INCOMPLETE;
}
