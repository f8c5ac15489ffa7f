/* Completion for ipsrun. Reads its options from `ipsrun --help`, where each
 * starts a line: "  --name NAME  text" or "  --cpu=HOW  text". */
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/base/complete.h"
#include "common/ipsrun_values.h"

#define HELP_BYTES (16u << 10)

extern char **environ;

/* Reads the output of `ipsrun --help`; "" if ipsrun cannot be run. */
static void read_help(char out[HELP_BYTES])
{
    char program[IPS_PATH_BYTES], option[] = "--help";
    char *argv[] = {program, option, NULL};
    posix_spawn_file_actions_t to;
    struct ips_err ignored;
    size_t have = 0;
    int pipes[2];
    pid_t pid;
    *out = '\0';
    if (ips_path_find_program("ipsrun", program, &ignored) < 0 ||
        pipe2(pipes, O_CLOEXEC) < 0)
        return;
    posix_spawn_file_actions_init(&to);
    posix_spawn_file_actions_adddup2(&to, pipes[1], STDOUT_FILENO);
    if (posix_spawn(&pid, program, &to, NULL, argv, environ) == 0) {
        close(pipes[1]);
        for (ssize_t n = 1; n > 0 && have < HELP_BYTES - 1;) {
            n = read(pipes[0], out + have, HELP_BYTES - 1 - have);
            have += n > 0 ? (size_t)n : 0;
        }
        close(pipes[0]); /* or a longer text would block ipsrun */
        waitpid(pid, NULL, 0);
    } else {
        close(pipes[0]);
        close(pipes[1]);
    }
    posix_spawn_file_actions_destroy(&to);
    out[have] = '\0';
}

struct ipsrun_option {
    char name[48], value[16]; /* value "": the option takes no value */
};

/* Finds the next option in the help text at *at, and moves *at after it. */
static bool parse_next_option_of_help(const char **at, struct ipsrun_option *o)
{
    const char *line = strstr(*at, "\n  --");
    if (!line)
        return false;
    line += 3;
    size_t n = strcspn(line, " =\n");
    snprintf(o->name, sizeof(o->name), "%.*s", (int)n, line);
    *at = line + n;
    *o->value = '\0';
    if ((line[n] == ' ' || line[n] == '=') && line[n + 1] != ' ')
        snprintf(o->value, sizeof(o->value), "%.*s",
                 (int)strcspn(line + n + 1, " \n"), line + n + 1);
    return true;
}

static bool find_option(const char *help, const char *word,
                        struct ipsrun_option *o)
{
    size_t len = strcspn(word, "=");
    for (const char *at = help; parse_next_option_of_help(&at, o);)
        if (strncmp(o->name, word, len) == 0 && o->name[len] == '\0')
            return true;
    return false;
}

static int complete_value(const struct ipsq_name_source *from,
                          const struct ipsrun_option *o,
                          const struct ipsq_word *w)
{
    ipsq_add_completions_that_fit_word(w, ipsrun_values_of_option(o->name + 2));
    if (strcmp(o->value, "RUN") == 0)
        ipsq_add_listed_names_that_fit_word(w, from,
                                            ipsq_list_runs_beginning_with);
    return strcmp(o->value, "DIR") == 0 ? IPSQ_COMPLETE_FILES : 0;
}

int ipsq_complete_ipsrun(const struct ipsq_name_source *from,
                         char *const *words, size_t count, const char *text,
                         size_t *command, struct ipsq_names *out)
{
    static char help[HELP_BYTES];
    struct ipsrun_option o;
    struct ipsq_word w = {text, 0, out};
    size_t i = 0;
    read_help(help);
    for (; i < count && words[i][0] == '-'; i++) {
        if (strcmp(words[i], "--") == 0) {
            *command = i + 1;
            return IPSQ_COMPLETE_COMMAND;
        }
        if (!find_option(help, words[i], &o) || !*o.value ||
            strchr(words[i], '='))
            continue;
        if (i + 1 == count)
            return complete_value(from, &o, &w);
        i++;
    }
    *command = i;
    if (i < count || *text != '-')
        return IPSQ_COMPLETE_COMMAND;
    w.kept_bytes = strcspn(text, "=");
    if (text[w.kept_bytes]) { /* an option with its value: --option=value */
        w.kept_bytes++;
        return find_option(help, text, &o) && *o.value
                   ? complete_value(from, &o, &w)
                   : 0;
    }
    w.kept_bytes = 0;
    for (const char *at = help; parse_next_option_of_help(&at, &o);)
        ipsq_add_completion_if_it_fits_word(&w, o.name, NULL);
    return 0;
}
