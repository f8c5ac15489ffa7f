#include "client/command.h"

static int run(const struct ipsq_command *self, const struct ipsq_options *o,
               struct ipsq_session *s, struct ips_err *err)
{
    (void)self;
    (void)s;
    if (o->arg_count == 0) {
        ipsq_usage(stdout);
        return IPSQ_OK;
    }
    const struct ipsq_command *c = ipsq_command_find(o->args[0]);
    if (!c)
        return ipsq_no_command(o->args[0], err);
    ipsq_command_usage(stdout, c);
    return IPSQ_OK;
}

const struct ipsq_command ipsq_cmd_help = {
    .name = "help",
    .usage = "[COMMAND]",
    .summary = "this text, or one command in full",
    .group = IPSQ_ADMIN,
    .examples = "  ipsq help\n"
                "  ipsq help why\n",
    .help = "",
    .formats = IPSQ_FORMAT_BIT(TABLE),
    .max_args = 1,
    .local = true,
    .run = run,
};
