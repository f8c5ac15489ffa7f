#include "client/shell/shell.h"

static int run_shell(const struct ipsq_command *self,
                     const struct ipsq_options *o, struct ipsq_session *s,
                     struct ips_err *err)
{
    (void)self;
    (void)s;
    (void)err;
    return ipsq_shell(o);
}

const struct ipsq_command ipsq_cmd_shell = {
    .name = "shell",
    .usage = "",
    .summary = "read commands from standard input",
    .group = IPSQ_ADMIN,
    .examples = "  ipsq shell\n"
                "  ipsq shell < commands\n",
    .help = "The same prompt appears when ipsq is started on a "
            "terminal without a command. Each line is a command "
            "without 'ipsq'. The run, object and time of the focus are "
            "added to a command that accepts them unless the line has "
            "its own. The prompt also knows these words: zoom OBJECT, "
            "zoom FROM..TO, zoom phase N, up, run RUN, focus, format "
            "F, history, quit. Without a terminal there is no prompt "
            "and no pager. The exit status is that of the last "
            "command.\n",
    .formats = IPSQ_FORMATS_USUAL,
    .local = true,
    .run = run_shell,
};
