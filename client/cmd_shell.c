#include "client/shell.h"

static int run(const struct ipsq_command *self, const struct ipsq_options *o,
               struct ipsq_session *s, struct ips_err *err)
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
    .help =
        "What ipsq does on a terminal when no command is named. Each line is a "
        "command as here, without 'ipsq'; the run, the object and the time of "
        "the focus are added where the command takes them and the line has "
        "none. Also: zoom OBJECT, zoom FROM..TO, zoom phase N, up, run RUN, "
        "focus, format F, history, quit. Where standard input is no terminal "
        "there is no prompt and no pager; the exit status is the last "
        "command's.\n",
    .formats = IPSQ_FORMATS_USUAL,
    .local = true,
    .run = run,
};
