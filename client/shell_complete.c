/* What a tab offers: words, options, runs, objects. */
#include <editline/readline.h>
#include <stdlib.h>
#include <string.h>

#include "client/shell.h"

#define OBJECTS_MAX 100000u

/* ---- names from the master ---------------------------------------------- */

static void add_name(char ***names, size_t *count, const char *name)
{
    if (*count % 64 == 0) { /* room for one more and the NULL */
        char **grown = realloc(*names, (*count + 65) * sizeof(**names));
        if (!grown)
            return;
        *names = grown;
    }
    char *copy = strdup(name);
    if (copy)
        (*names)[(*count)++] = copy;
    (*names)[*count] = NULL;
}

void ipsq_names_free(char **names)
{
    for (size_t i = 0; names && names[i]; i++)
        free(names[i]);
    free(names);
}

char **ipsq_shell_runs(const struct ipsq_shell *s, const char *text)
{
    struct ipsq_session session;
    struct ips_err ignored;
    Ips__RunRow **rows = NULL;
    char **names = NULL;
    size_t count = 0, found = 0;
    uint64_t left_out;
    if (ipsq_session_open(&session, &s->session, &ignored) == 0 &&
        ipsq_session_runs(&session, &rows, &count, &left_out, &ignored) == 0) {
        for (size_t i = 0; i < count; i++) {
            if (strncmp(rows[i]->run, text, strlen(text)) == 0)
                add_name(&names, &found, rows[i]->run);
        }
    }
    free(rows);
    ipsq_session_close(&session);
    return names;
}

struct beginning {
    const char *text;
    char **names;
    size_t count;
};

static int take_objects(const Ips__Reply *reply, void *arg, struct ips_err *err)
{
    struct beginning *b = arg;
    (void)err;
    if (reply->answer_case != IPS__REPLY__ANSWER_LS)
        return 0;
    for (size_t i = 0; i < reply->ls->n_rows && b->count < OBJECTS_MAX; i++) {
        const char *object = reply->ls->rows[i]->object;
        if (object[0] == '/' && object[1] &&
            strncmp(object, b->text, strlen(b->text)) == 0)
            add_name(&b->names, &b->count, object);
    }
    return 0;
}

char **ipsq_shell_objects(const struct ipsq_shell *s, const char *text)
{
    static char everything[] = "/";
    struct ipsq_session session;
    struct ips_err ignored;
    struct beginning b = {.text = text};
    Ips__Request rq = IPS__REQUEST__INIT;
    Ips__LsAsk ask = IPS__LS_ASK__INIT;
    const char *run;
    rq.ask_case = IPS__REQUEST__ASK_LS;
    rq.ls = &ask;
    ask.object = everything;
    int rc = ipsq_session_open(&session, &s->session, &ignored);
    if (rc == 0)
        rc = ipsq_session_run(&session, *s->focus.run ? s->focus.run : NULL,
                              &run, &ignored);
    if (rc == 0) {
        rq.run = ips_wire_text(run);
        rc = ipsq_session_ask(&session, &rq, true, take_objects, &b, NULL,
                              &ignored);
    }
    ipsq_session_close(&session);
    return b.names;
}

/* ---- the line editor's side --------------------------------------------- */

static struct ipsq_shell *shell;
static char **offered; /* what begins with the word */
static size_t offer_at;

static char *next_offer(const char *text, int state)
{
    (void)text;
    if (state == 0)
        offer_at = 0;
    return offered && offered[offer_at] ? strdup(offered[offer_at++]) : NULL;
}

static void offer(size_t *count, const char *name, const char *text)
{
    if (strncmp(name, text, strlen(text)) == 0)
        add_name(&offered, count, name);
}

static void offer_commands(size_t *count, const char *text)
{
    for (int i = 0; ipsq_commands[i]; i++) {
        if (ipsq_commands[i] != &ipsq_cmd_shell)
            offer(count, ipsq_commands[i]->name, text);
    }
}

static void offer_options(size_t *count, const struct ipsq_command *c,
                          const char *text)
{
    static const char *const names[] = {
#define X(name, word, value, help) "--" word,
        IPSQ_OPTIONS(X)
#undef X
    };
    for (unsigned i = 0; i < IPSQ_OPT_COUNT; i++) {
        if (c->options & UINT64_C(1) << i)
            offer(count, names[i], text);
    }
}

/* Objects below the focus, as names without what the focus says already. */
static void offer_below(const char *text)
{
    char object[2 * IPSQ_FOCUS_BYTES];
    snprintf(object, sizeof(object), "%s%s%s",
             *text == '/' ? "" : shell->focus.object, *text == '/' ? "" : "/",
             text);
    offered = ipsq_shell_objects(shell, object);
    size_t skip = *text == '/' ? 0 : strlen(shell->focus.object) + 1;
    for (size_t i = 0; offered && offered[i]; i++) {
        size_t len = strlen(offered[i]);
        size_t cut = skip < len ? skip : len;
        memmove(offered[i], offered[i] + cut, len - cut + 1);
    }
}

static char **complete(const char *text, int start, int end)
{
    struct ipsq_words words;
    struct ips_err ignored;
    char line[IPSQ_LINE_BYTES];
    size_t count = 0;
    (void)end;
    rl_attempted_completion_over = 1; /* never file names */
    ipsq_names_free(offered);
    offered = NULL;
    snprintf(line, sizeof(line), "%.*s", start, rl_line_buffer);
    if (ipsq_words_split(line, &words, &ignored) < 0)
        return NULL;
    const char *first = words.count ? words.word[0] : "";
    const char *last = words.count ? words.word[words.count - 1] : "";
    const struct ipsq_command *c = ipsq_command_find(first);
    if (words.count == 0) {
        offer_commands(&count, text);
        for (int i = 0; ipsq_shell_words[i]; i++)
            offer(&count, ipsq_shell_words[i], text);
    } else if (strcmp(first, "zoom") == 0) {
        offer_below(text);
    } else if (strcmp(first, "format") == 0) {
        static const char *const formats[] = {"table", "tsv", "json"};
        for (int i = 0; i < 3; i++)
            offer(&count, formats[i], text);
    } else if (strcmp(first, "help") == 0) {
        offer_commands(&count, text);
    } else if (c && strncmp(text, "--", 2) == 0) {
        offer_options(&count, c, text);
    } else if (strcmp(last, "--object") == 0 || strcmp(last, "--goal") == 0) {
        offered = ipsq_shell_objects(shell, text);
    } else if (strcmp(first, "run") == 0 || (c && !c->local)) {
        offered = ipsq_shell_runs(shell, text);
    }
    return offered ? rl_completion_matches(text, next_offer) : NULL;
}

void ipsq_complete_begin(struct ipsq_shell *s)
{
    static char name[] = "ipsq", breaks[] = " \t\n";
    shell = s;
    rl_readline_name = name;
    rl_completer_word_break_characters = breaks;
    rl_attempted_completion_function = complete;
}
