#include "client/base/command.h"

static int run_version(const struct ipsq_command *self,
                       const struct ipsq_options *o, struct ipsq_session *s,
                       struct ips_err *err)
{
    (void)self;
    (void)o;
    (void)s;
    (void)err;
    puts("ipsq " IPS_VERSION);
    return IPSQ_OK;
}

const struct ipsq_command ipsq_cmd_version = {
    .name = "version",
    .usage = "",
    .summary = "the version of ipsq",
    .group = IPSQ_ADMIN,
    .examples = "  ipsq version\n"
                "  ipsq --version\n",
    .help = "`ipsq status` says which version the master and slaves are.\n",
    .formats = IPSQ_FORMAT_BIT(TABLE),
    .local = true,
    .run = run_version,
};
