#include "client/base/complete.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIMIT_S 2 /* longest time that `ipsq complete` may take, in seconds */
#define FORMAT_OPTIONS (IPSQ_HAS(FORMAT) | IPSQ_HAS(JSON) | IPSQ_HAS(TSV))
/* Options that say where the master is. */
#define SESSION_OPTIONS                                                        \
    (IPSQ_HAS(MASTER) | IPSQ_HAS(STATE) | IPSQ_HAS(TLS) | IPSQ_HAS(INSECURE))
/* Options that determine the columns of an answer. */
#define COLUMN_OPTIONS (FORMAT_OPTIONS | IPSQ_HAS(BY) | IPSQ_HAS(LEVEL))

/* ---- candidates for one word -------------------------------------------- */

static void keep_text_before_last_comma(struct ipsq_word *w)
{
    const char *comma = strrchr(w->whole + w->kept_bytes, ',');
    if (comma)
        w->kept_bytes = (size_t)(comma + 1 - w->whole);
}

static void offer_commands(const char *text, struct ipsq_names *out)
{
    struct ipsq_word w = {text, 0, out};
    for (int i = 0; ipsq_commands[i]; i++)
        ipsq_add_completion_if_it_fits_word(&w, ipsq_commands[i]->name,
                                            ipsq_commands[i]->summary);
}

static void offer_options(const struct ipsq_word *w, uint64_t mask)
{
    char name[64];
    for (unsigned i = 0; i < IPSQ_OPT_COUNT; i++) {
        const struct ipsq_option_row *row = &ipsq_option_table[i];
        snprintf(name, sizeof(name), "--%s", row->name);
        if (mask & UINT64_C(1) << i)
            ipsq_add_completion_if_it_fits_word(w, name, row->help);
    }
    ipsq_add_completion_if_it_fits_word(w, "--help", "print help");
}

/* ---- the words before the word to complete ----------------------------- */

struct typed_line {
    char *const *words; /* words before the word to complete */
    size_t count;
    const struct ipsq_command *command;
    int args;
    const char *first; /* first argument of the command; NULL: none */
    bool ended;        /* "--" was seen, so no options follow */
    /* the option whose value is the next word; IPSQ_OPT_COUNT: none */
    enum ipsq_option pending;
};

static void note_pending_option_or_end(struct typed_line *l, const char *word)
{
    size_t len = strcspn(word + 2, "=");
    enum ipsq_option option = ipsq_option_find(word + 2, len);
    if (word[2] == '\0')
        l->ended = true;
    else if (option != IPSQ_OPT_COUNT && ipsq_option_table[option].value &&
             word[2 + len] == '\0')
        l->pending = option;
}

static struct typed_line parse_words_before_cursor(char *const *words,
                                                   size_t count)
{
    struct typed_line l = {
        .words = words, .count = count, .pending = IPSQ_OPT_COUNT};
    for (size_t i = 0; i < count; i++) {
        if (l.pending != IPSQ_OPT_COUNT)
            l.pending = IPSQ_OPT_COUNT;
        else if (!l.ended && strncmp(words[i], "--", 2) == 0)
            note_pending_option_or_end(&l, words[i]);
        else if (!l.ended && words[i][0] == '-')
            ;
        else if (!l.command) {
            l.command = ipsq_command_find(words[i]);
            if (!l.command)
                /* the command is unknown: offer no arguments */
                l.args = IPSQ_ARGS_MAX;
        } else if (l.args++ == 0) {
            l.first = words[i];
        }
    }
    return l;
}

/* Parses only the options of `mask` and ignores all other words. */
static int parse_options_in_mask(struct ipsq_options *o, uint64_t mask,
                                 char *const *words, size_t count)
{
    static char program[] = "ipsq";
    struct ips_err ignored;
    char **argv = calloc(count + 2, sizeof(*argv));
    int argc = 0;
    if (!argv)
        return IPS_E_NO_MEMORY;
    argv[argc++] = program;
    for (size_t i = 0; i < count && strcmp(words[i], "--") != 0; i++) {
        size_t len = strcspn(words[i], "=");
        enum ipsq_option option = strncmp(words[i], "--", 2) == 0
                                      ? ipsq_option_find(words[i] + 2, len - 2)
                                      : IPSQ_OPT_COUNT;
        bool wanted = option != IPSQ_OPT_COUNT && mask & UINT64_C(1) << option;
        bool next = wanted && ipsq_option_table[option].value && !words[i][len];
        if (!wanted || (next && i + 1 == count))
            continue;
        argv[argc++] = words[i];
        if (next)
            argv[argc++] = words[++i];
    }
    int rc = ipsq_options_parse(o, argc, argv, &ignored);
    free(argv);
    return rc;
}

/* ---- candidates for values and arguments -------------------------------- */

static void offer_columns(struct ipsq_word *w, const struct typed_line *l,
                          const struct ipsq_name_source *from)
{
    struct ipsq_options o = {0};
    (void)!parse_options_in_mask(&o, COLUMN_OPTIONS, l->words, l->count);
    if (!(o.options_set & FORMAT_OPTIONS))
        o.format = from->session->format;
    const struct ipsq_columns columns = l->command->sort_columns(&o);
    /* a leading "-" of --sort's value means ascending order */
    w->kept_bytes += w->whole[w->kept_bytes] == '-';
    for (size_t i = 0; i < columns.count; i++)
        ipsq_add_completion_if_it_fits_word(w, columns.column[i].key,
                                            columns.column[i].title);
}

static enum ipsq_completion_kind
complete_value(const struct typed_line *l, enum ipsq_option option,
               struct ipsq_word *w, const struct ipsq_name_source *from)
{
    const struct ipsq_command *c = l->command;
    const char *const *values = ipsq_option_values(option);
    const char *kind = ipsq_option_table[option].value;
    if (option == IPSQ_OPT_BY && c && c->several_bys)
        keep_text_before_last_comma(w);
    for (unsigned i = 0; values && values[i]; i++) {
        bool refused =
            c && ((option == IPSQ_OPT_BY && !(c->bys & 1u << i)) ||
                  (option == IPSQ_OPT_FORMAT && !(c->formats & 1u << i)));
        if (!refused)
            ipsq_add_completion_if_it_fits_word(w, values[i], NULL);
    }
    if (option == IPSQ_OPT_SORT && c && c->sort_columns)
        offer_columns(w, l, from);
    if (strcmp(kind, "OBJECT") == 0)
        ipsq_add_listed_names_that_fit_word(w, from,
                                            ipsq_list_objects_beginning_with);
    bool files = strcmp(kind, "FILE") == 0 || strcmp(kind, "DIR") == 0 ||
                 option == IPSQ_OPT_MAP; /* --map takes a file as well */
    return files ? IPSQ_COMPLETES_FILES : IPSQ_COMPLETES_NAMES;
}

/* Offers terms of the glossary. A term of two words is completed word by
 * word. */
static void offer_glossary_terms(const struct ipsq_word *w,
                                 const struct typed_line *l)
{
    char term[IPSQ_TERM_BYTES];
    size_t skip = l->args == 1 ? strlen(l->first) + 1 : 0;
    for (int i = 0; ipsq_glossary[i]; i++) {
        if (!ipsq_copy_term_of_paragraph(ipsq_glossary[i], term) ||
            (skip &&
             (strncmp(term, l->first, skip - 1) != 0 || term[skip - 1] != ' ')))
            continue;
        ipsq_add_completion_if_it_fits_word(w, term + skip, NULL);
    }
}

/* Whether argument `n` (from 0) in the usage line of the command starts with
 * `what`. In "RUN[,RUN...] RUN" both arguments start with "RUN". */
static bool does_usage_argument_start_with(const struct ipsq_command *c, int n,
                                           const char *what)
{
    const char *at = c->usage;
    for (; n > 0 && *at; n--) {
        at += strcspn(at, " ");
        at += strspn(at, " ");
    }
    at += *at == '[';
    return strncmp(at, what, strlen(what)) == 0;
}

static void complete_argument(const struct typed_line *l, struct ipsq_word *w,
                              const struct ipsq_name_source *from)
{
    const struct ipsq_command *c = l->command;
    if (l->args >= c->max_args)
        return;
    if (c == &ipsq_cmd_help) {
        if (l->args == 0)
            offer_commands(w->whole, w->out);
        offer_glossary_terms(w, l);
    } else if (c == &ipsq_cmd_completion) {
        ipsq_add_completions_that_fit_word(w, ipsq_completion_shells);
    } else if (does_usage_argument_start_with(c, 0, "MACHINE")) {
        ipsq_add_listed_names_that_fit_word(w, from,
                                            ipsq_list_machines_beginning_with);
    } else if (does_usage_argument_start_with(c, l->args, "RUN")) {
        if (does_usage_argument_start_with(c, l->args, "RUN[,"))
            keep_text_before_last_comma(w);
        ipsq_add_listed_names_that_fit_word(w, from,
                                            ipsq_list_runs_beginning_with);
    }
}

enum ipsq_completion_kind
ipsq_complete_word(const struct ipsq_name_source *from, char *const *words,
                   size_t count, const char *text, bool common,
                   struct ipsq_names *out)
{
    struct typed_line l = parse_words_before_cursor(words, count);
    struct ipsq_name_source named = *from;
    struct ipsq_word w = {text, 0, out};
    bool dashed = !l.ended && *text == '-';
    size_t len = dashed ? strcspn(text, "=") : 0;
    if (l.command && l.first &&
        does_usage_argument_start_with(l.command, 0, "RUN"))
        named.run = l.first;
    if (l.pending != IPSQ_OPT_COUNT) {
        dashed = false;
    } else if (dashed &&
               text[len]) { /* an option with its value: --option=value */
        l.pending =
            len > 2 ? ipsq_option_find(text + 2, len - 2) : IPSQ_OPT_COUNT;
        if (l.pending == IPSQ_OPT_COUNT || !ipsq_option_table[l.pending].value)
            return IPSQ_COMPLETES_NAMES;
        w.kept_bytes = len + 1;
        dashed = false;
    }
    if (dashed)
        offer_options(&w, (l.command ? l.command->options : 0) |
                              (common ? IPSQ_COMMON : 0));
    else if (l.pending != IPSQ_OPT_COUNT)
        return complete_value(&l, l.pending, &w, &named);
    else if (l.command)
        complete_argument(&l, &w, &named);
    else if (l.args == 0)
        offer_commands(text, out);
    return IPSQ_COMPLETES_NAMES;
}

/* ---- ipsq complete ------------------------------------------------------ */

static void exit_quietly_on_completion_timeout(int sig)
{
    (void)sig;
    _exit(0); /* without this handler the shell would report that a signal
                 killed ipsq */
}

int ipsq_print_completions(int argc, char **argv)
{
    struct sigaction act = {.sa_handler = exit_quietly_on_completion_timeout};
    struct ipsq_options o;
    struct ipsq_names names = {.described = true};
    struct ipsq_name_source from = {.session = &o};
    const char *slash = strrchr(argv[0], '/');
    size_t count = argc > 1 ? (size_t)argc - 2 : 0, command = 0;
    const char *text = argc > 1 ? argv[argc - 1] : "";
    int status = 0;
    sigaction(SIGALRM, &act, NULL);
    alarm(LIMIT_S);
    if (parse_options_in_mask(&o, SESSION_OPTIONS, argv + 1, count) < 0)
        return 0;
    if (strcmp(slash ? slash + 1 : argv[0], "ipsrun") == 0)
        status = ipsq_complete_ipsrun(&from, argv + 1, count, text, &command,
                                      &names);
    else if (ipsq_complete_word(&from, argv + 1, count, text, true, &names) ==
             IPSQ_COMPLETES_FILES)
        status = IPSQ_COMPLETE_FILES;
    alarm(0); /* cancel the time limit and print what was found */
    for (size_t i = 0; i < names.count; i++)
        puts(names.name[i]);
    if (status == IPSQ_COMPLETE_COMMAND)
        printf("%zu\n", command + 1);
    ipsq_names_release(&names);
    return status;
}
