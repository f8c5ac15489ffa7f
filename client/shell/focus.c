#include "client/shell/focus.h"

#include <inttypes.h>
#include <string.h>

/* Copies one word from *at to *to, and moves both after it. */
static int unquote_and_copy_next_word(const char **at, char **to,
                                      struct ips_err *err)
{
    const char *p = *at;
    char quote = 0;
    for (; *p && (quote || !strchr(" \t\n", *p)); p++) {
        if (*p == '\\' && quote != '\'' && p[1]) {
            *(*to)++ = *++p;
        } else if (!quote && (*p == '\'' || *p == '"')) {
            quote = *p;
        } else if (quote && *p == quote) {
            quote = 0;
        } else {
            *(*to)++ = *p;
        }
    }
    *(*to)++ = '\0';
    *at = p;
    if (quote)
        return ips_err_set(err, IPS_E_USAGE, "missing closing %c", quote);
    return 0;
}

int ipsq_words_split(const char *line, struct ipsq_words *out,
                     struct ips_err *err)
{
    char *to = out->text;
    out->count = 0;
    out->word[0] = NULL;
    /* All words with their NULs take no more space than the line with its NUL,
     * so they fit into out->text. */
    if (strlen(line) >= sizeof(out->text))
        return ips_err_set(err, IPS_E_USAGE, "line longer than %zu bytes",
                           sizeof(out->text) - 1);
    for (const char *at = line;;) {
        at += strspn(at, " \t\n");
        if (!*at || *at == '#')
            return 0;
        if (out->count == IPSQ_WORDS_MAX)
            return ips_err_set(err, IPS_E_USAGE, "more than %d words",
                               IPSQ_WORDS_MAX);
        out->word[out->count++] = to;
        out->word[out->count] = NULL;
        int rc = unquote_and_copy_next_word(&at, &to, err);
        if (rc < 0)
            return rc;
    }
}

void ipsq_focus_prompt_text(const struct ipsq_focus *f, char *out, size_t room)
{
    bool timed = *f->from || *f->to;
    if (!*f->run && !*f->object && !timed && !*f->phase)
        snprintf(out, room, "ipsq");
    else if (*f->phase)
        snprintf(out, room, "ipsq %s%s%s@phase %s",
                 *f->run ? f->run : "(newest)", *f->object ? ":" : "",
                 f->object, f->phase);
    else
        snprintf(out, room, "ipsq %s%s%s%s%s%s%s",
                 *f->run ? f->run : "(newest)", *f->object ? ":" : "",
                 f->object, timed ? "@" : "", f->from, timed ? ".." : "",
                 f->to);
}

bool ipsq_focus_write_full_object_name(const struct ipsq_focus *f,
                                       const char *word,
                                       char out[IPSQ_FOCUS_BYTES])
{
    int n;
    if (*word == '/')
        n = snprintf(out, IPSQ_FOCUS_BYTES, "%s", word);
    else
        n = snprintf(out, IPSQ_FOCUS_BYTES, "%s/%s", f->object, word);
    if (n <= 0 || n >= IPSQ_FOCUS_BYTES)
        return false;
    while (n > 0 && out[n - 1] == '/') /* "/" becomes "", the whole run */
        out[--n] = '\0';
    return true;
}

bool ipsq_focus_set_window_if_word_is_one(struct ipsq_focus *f,
                                          const char *word, struct ips_err *err)
{
    struct ipsq_focus next = *f;
    const char *dots = strstr(word, "..");
    uint64_t from = 0, to = 0;
    memset(err, 0, sizeof(*err));
    if (!dots || strchr(word, '/') || strlen(word) >= IPSQ_UNIT_BYTES)
        return false;
    snprintf(next.from, sizeof(next.from), "%.*s", (int)(dots - word), word);
    snprintf(next.to, sizeof(next.to), "%s", dots + 2);
    int rc = 0;
    if (*next.from)
        rc = ipsq_parse_duration(next.from, &from, err);
    if (rc == 0 && *next.to)
        rc = ipsq_parse_duration(next.to, &to, err);
    if (rc == 0 && ((*next.to && from >= to) || (!*next.from && !*next.to)))
        rc = ips_err_set(err, IPS_E_USAGE,
                         "'%.40s': a window must end after it begins", word);
    *next.phase = '\0';
    if (rc == 0)
        *f = next;
    return true;
}

int ipsq_focus_set_phase(struct ipsq_focus *f, const char *word,
                         struct ips_err *err)
{
    uint64_t number;
    int rc = ipsq_parse_positive_count(word, &number, err);
    if (rc < 0)
        return rc;
    snprintf(f->phase, sizeof(f->phase), "%" PRIu64, number);
    *f->from = *f->to = '\0';
    return 0;
}

bool ipsq_focus_widen(struct ipsq_focus *f)
{
    char *slash = strrchr(f->object, '/');
    if (*f->from || *f->to || *f->phase)
        *f->from = *f->to = *f->phase = '\0';
    else if (slash)
        *slash = '\0';
    else if (*f->run)
        *f->run = '\0';
    else
        return false;
    return true;
}

/* Whether the command takes a run as its first argument. */
static bool command_takes_run(const struct ipsq_command *c)
{
    return strncmp(c->usage, "RUN", 3) == 0 ||
           strncmp(c->usage, "[RUN", 4) == 0;
}

/* Whether --object restricts the command to an object. In whatif, the only
 * command that has --faster, the option names what is assumed to be faster. */
static bool command_can_be_limited_to_object(const struct ipsq_command *c)
{
    return (c->options & IPSQ_HAS(OBJECT)) && !(c->options & IPSQ_HAS(FASTER));
}

static void append_argument(char **argv, int *argc, const char *word)
{
    argv[(*argc)++] = (char *)(uintptr_t)word;
    argv[*argc] = NULL;
}

static void append_focus_options(const struct ipsq_focus *f,
                                 const struct ipsq_command *c,
                                 const struct ipsq_options *o, char **argv,
                                 int *argc, unsigned *unused)
{
    if (*f->object && command_can_be_limited_to_object(c)) {
        if (!(o->options_set & IPSQ_HAS(OBJECT))) {
            append_argument(argv, argc, "--object");
            append_argument(argv, argc, f->object);
        }
    } else if (*f->object && command_takes_run(c)) {
        *unused |= IPSQ_UNUSED_OBJECT;
    }
    bool timed = *f->from || *f->to || *f->phase;
    uint64_t takes = *f->phase ? IPSQ_HAS(PHASE) : IPSQ_HAS(FROM);
    if (timed && (c->options & takes)) {
        if (o->options_set & IPSQ_WINDOW)
            return;
        if (*f->phase) {
            append_argument(argv, argc, "--phase");
            append_argument(argv, argc, f->phase);
        }
        if (*f->from) {
            append_argument(argv, argc, "--from");
            append_argument(argv, argc, f->from);
        }
        if (*f->to) {
            append_argument(argv, argc, "--to");
            append_argument(argv, argc, f->to);
        }
    } else if (timed && command_takes_run(c)) {
        *unused |= IPSQ_UNUSED_TIME;
    }
}

int ipsq_focus_build_argv(const struct ipsq_focus *f, char *const *before,
                          const struct ipsq_words *words, char **argv,
                          unsigned *unused)
{
    static char own[] = "ipsq";
    struct ipsq_options o;
    struct ips_err ignored;
    int argc = 0;
    *unused = 0;
    append_argument(argv, &argc, own);
    for (; before && *before && argc < IPSQ_WORDS_MAX / 2; before++)
        append_argument(argv, &argc, *before);
    int first = argc;
    for (int i = 0; i < words->count; i++)
        append_argument(argv, &argc, words->word[i]);
    /* parse a copy, because getopt may reorder its arguments */
    char *copy[IPSQ_ARGV_MAX + 1];
    memcpy(copy, argv, ((size_t)argc + 1) * sizeof(*argv));
    if (ipsq_options_parse(&o, argc, copy, &ignored) < 0 || !o.command ||
        o.help)
        return argc;
    const struct ipsq_command *c = ipsq_command_find(o.command);
    if (!c || c->local)
        return argc;
    if (command_takes_run(c) && *f->run && o.arg_count < c->max_args) {
        /* position of the command; the run is inserted after it */
        int at = first;
        while (argv[at] != o.command)
            at++;
        memmove(&argv[at + 2], &argv[at + 1],
                (size_t)(argc - at) * sizeof(*argv));
        argv[at + 1] = (char *)(uintptr_t)f->run;
        argc++;
    }
    append_focus_options(f, c, &o, argv, &argc, unused);
    return argc;
}
