#include "client/base/command.h"

#include <string.h>
#include <strings.h>

#include "client/base/fold.h"
#include "common/nearest.h"

#define COLUMNS 80

const char *ipsq_copy_term_of_paragraph(const char *paragraph,
                                        char out[IPSQ_TERM_BYTES])
{
    const char *end = strstr(paragraph + 2, "** - ");
    if (strncmp(paragraph, "**", 2) != 0 || !end)
        return NULL;
    snprintf(out, IPSQ_TERM_BYTES, "%.*s", (int)(end - paragraph - 2),
             paragraph + 2);
    return out;
}

static bool print_term(const char *word)
{
    char term[IPSQ_TERM_BYTES];
    for (int i = 0; ipsq_glossary[i]; i++) {
        if (!ipsq_copy_term_of_paragraph(ipsq_glossary[i], term) ||
            strcasecmp(term, word) != 0)
            continue;
        ipsq_print_wrapped_text(stdout, ipsq_glossary[i] + strlen(term) + 7,
                                COLUMNS, 0);
        fputc('\n', stdout);
        return true;
    }
    return false;
}

static int set_unknown_help_topic_error(const char *word, struct ips_err *err)
{
    char term[IPSQ_TERM_BYTES];
    struct ips_nearest near;
    ips_nearest_start_search(&near, word);
    for (int i = 0; ipsq_commands[i]; i++)
        ips_nearest_consider_candidate(&near, ipsq_commands[i]->name);
    for (int i = 0; ipsq_glossary[i]; i++)
        if (ipsq_copy_term_of_paragraph(ipsq_glossary[i], term))
            ips_nearest_consider_candidate(&near, term);
    return ips_err_set(err, IPS_E_USAGE, "no such command or term: '%.80s'%s",
                       word, ips_nearest_format_suggestion(&near));
}

static int run_help(const struct ipsq_command *self,
                    const struct ipsq_options *o, struct ipsq_session *s,
                    struct ips_err *err)
{
    char word[IPSQ_TERM_BYTES];
    (void)self;
    (void)s;
    if (o->arg_count == 0) {
        ipsq_print_usage(stdout);
        return IPSQ_OK;
    }
    snprintf(word, sizeof(word), "%s%s%s", o->args[0],
             o->arg_count > 1 ? " " : "", o->arg_count > 1 ? o->args[1] : "");
    const struct ipsq_command *c = ipsq_command_find(word);
    if (!c)
        return print_term(word) ? IPSQ_OK
                                : set_unknown_help_topic_error(word, err);
    ipsq_print_command_usage(stdout, c);
    return IPSQ_OK;
}

const struct ipsq_command ipsq_cmd_help = {
    .name = "help",
    .usage = "[COMMAND | TERM]",
    .summary = "list the commands, describe one, or explain a term",
    .group = IPSQ_ADMIN,
    .examples = "  ipsq help\n"
                "  ipsq help critical path\n",
    .help = "",
    .formats = IPSQ_FORMAT_BIT(TABLE),
    .max_args = 2,
    .local = true,
    .run = run_help,
};
