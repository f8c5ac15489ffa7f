/* Runs one command line: parses options, finds the command, opens a session if
 * the command needs one, and runs it. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/base/command.h"
#include "client/base/complete.h"
#include "client/shell/shell.h"
#include "common/nearest.h"

/* Prints the error. After wrong usage, also prints how to get help; `where` is
 * the command, or "" for all of ipsq. Returns the exit status. */
static int print_error_and_get_exit_status(const struct ips_err *err,
                                           const char *where)
{
    fprintf(stderr, "ipsq: %s\n", err->msg);
    if (err->code != IPS_E_USAGE)
        return IPSQ_FAILED;
    fprintf(stderr, "try: ipsq %s%s--help\n", where, *where ? " " : "");
    return IPSQ_USAGE;
}

/* Checks that the command can group its rows by the values of --by. */
static int check_by_values(const struct ipsq_command *c,
                           const struct ipsq_options *o, struct ips_err *err)
{
    const char *const *bys = ipsq_option_values(IPSQ_OPT_BY);
    unsigned given = o->by_mask;
    struct ips_nearest near;
    char all[128] = "";
    if (!c->several_bys && given & (given - 1))
        return ips_err_set(err, IPS_E_USAGE, "--by %.80s: %s takes one value",
                           o->by, c->name);
    if (!(given & ~c->bys))
        return 0;
    ips_nearest_start_search(&near, o->by);
    for (unsigned i = 0; i < IPSQ_BY_COUNT; i++) {
        size_t at = strlen(all);
        if (!(c->bys & 1u << i))
            continue;
        snprintf(all + at, sizeof(all) - at, "%s%s", at ? ", " : "", bys[i]);
        ips_nearest_consider_candidate(&near, bys[i]);
    }
    return ips_err_set(err, IPS_E_USAGE, "--by %.80s: %s takes %s%s", o->by,
                       c->name, all, ips_nearest_format_suggestion(&near));
}

/* Checks that the command accepts the options and arguments that were given. */
static int check_options_and_arguments(const struct ipsq_command *c,
                                       const struct ipsq_options *o,
                                       struct ips_err *err)
{
    uint64_t known = c->options | IPSQ_COMMON;
    for (unsigned i = 0; i < IPSQ_OPT_COUNT; i++) {
        if (o->options_set & ~known & IPSQ_WINDOW & UINT64_C(1) << i)
            return ips_err_set(
                err, IPS_E_USAGE,
                "%s does not accept --%s: its answer covers the whole run, "
                "not a window or a phase",
                c->name, ipsq_option_table[i].name);
        if (o->options_set & ~known & UINT64_C(1) << i)
            return ips_err_set(err, IPS_E_USAGE, "%s does not accept --%s",
                               c->name, ipsq_option_table[i].name);
    }
    if (!(c->formats & 1u << o->format))
        return ips_err_set(err, IPS_E_USAGE, "%s has no output format %s",
                           c->name,
                           ipsq_option_values(IPSQ_OPT_FORMAT)[o->format]);
    int rc = check_by_values(c, o, err);
    if (rc < 0)
        return rc;
    if (o->arg_count > c->max_args)
        return ips_err_set(err, IPS_E_USAGE,
                           "%s does not accept the argument '%.80s'", c->name,
                           o->args[c->max_args]);
    return 0;
}

static int connect_and_run_command(const struct ipsq_command *c,
                                   const struct ipsq_options *o)
{
    struct ipsq_session s;
    struct ips_err err = {0};
    int rc = check_options_and_arguments(c, o, &err);
    if (rc < 0)
        return print_error_and_get_exit_status(&err, c->name);
    memset(&s, 0, sizeof(s));
    ipsq_set_tables_wide(o->wide);
    if (!c->local) {
        ipsq_progress_start_on_terminal();
        rc = ipsq_session_open(&s, o, &err);
    }
    if (rc == 0)
        rc = c->run(c, o, &s, &err);
    ipsq_progress_stop_and_erase_line();
    if (rc < 0)
        rc = print_error_and_get_exit_status(&err, c->name);
    if (rc == IPSQ_FAILED)
        ipsq_session_print_slave_hint(&s, stderr);
    ipsq_session_close(&s);
    return rc;
}

int ipsq_run_command_line(int argc, char **argv)
{
    struct ipsq_options o;
    struct ips_err err = {0};
    if (argc > 2 && strcmp(argv[1], "complete") == 0)
        return ipsq_print_completions(argc - 2, argv + 2);
    if (ipsq_options_parse(&o, argc, argv, &err) < 0)
        return print_error_and_get_exit_status(
            &err, o.command && ipsq_command_find(o.command) ? o.command : "");
    if (o.version)
        return connect_and_run_command(&ipsq_cmd_version, &o);
    if (!o.command && !o.help && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO))
        return ipsq_shell(&o);
    if (!o.command) {
        ipsq_print_usage(o.help ? stdout : stderr);
        return o.help ? IPSQ_OK : IPSQ_USAGE;
    }
    const struct ipsq_command *c = ipsq_command_find(o.command);
    if (!c) {
        ipsq_set_unknown_command_error(o.command, NULL, &err);
        return print_error_and_get_exit_status(&err, "");
    }
    if (o.help) {
        ipsq_print_command_usage(stdout, c);
        return IPSQ_OK;
    }
    return connect_and_run_command(c, &o);
}
