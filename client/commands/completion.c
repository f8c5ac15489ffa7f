#include <string.h>

#include "client/base/command.h"
#include "common/nearest.h"

const char *const ipsq_completion_shells[] = {"bash", "zsh", "fish", NULL};

static int run_completion(const struct ipsq_command *self,
                          const struct ipsq_options *o, struct ipsq_session *s,
                          struct ips_err *err)
{
    const char *const scripts[] = {ipsq_completion_bash, ipsq_completion_zsh,
                                   ipsq_completion_fish};
    const char *shell = o->arg_count ? o->args[0] : "";
    struct ips_nearest near;
    (void)self;
    (void)s;
    ips_nearest_start_search(&near, shell);
    for (int i = 0; ipsq_completion_shells[i]; i++) {
        if (strcmp(shell, ipsq_completion_shells[i]) == 0) {
            fputs(scripts[i], stdout);
            return IPSQ_OK;
        }
        ips_nearest_consider_candidate(&near, ipsq_completion_shells[i]);
    }
    return ips_err_set(
        err, IPS_E_USAGE, "%s%.40s%s the shell must be bash, zsh or fish%s",
        *shell ? "'" : "", shell,
        *shell ? "':" : "no shell:", ips_nearest_format_suggestion(&near));
}

const struct ipsq_command ipsq_cmd_completion = {
    .name = "completion",
    .usage = "bash|zsh|fish",
    .summary = "shell completion for bash, zsh or fish",
    .group = IPSQ_ADMIN,
    .examples = "  ipsq completion bash > ~/.ipsq.bash && source ~/.ipsq.bash\n"
                "  ipsq completion fish | source\n",
    .help =
        "The script completes the commands, options, runs and objects of ipsq, "
        "the options and the command of ipsrun, and the values of options. An "
        "installed IPS has the scripts where bash-completion, zsh and fish "
        "look for them. Runs and objects come from the master; the script "
        "starts no daemon and waits at most two seconds.\n",
    .formats = IPSQ_FORMAT_BIT(TABLE),
    .max_args = 1,
    .local = true,
    .run = run_completion,
};
