/* Completion at the prompt: of the shell's own words, and of commands and their
 * arguments. */
#include <editline/readline.h>
#include <stdlib.h>
#include <string.h>

#include "client/shell/shell.h"

static struct ipsq_shell *shell;
/* candidates for the word that is being completed */
static struct ipsq_names offered;
static size_t offer_at; /* index of the next candidate to return */

static char *next_candidate(const char *text, int state)
{
    (void)text;
    if (state == 0)
        offer_at = 0;
    return offer_at < offered.count ? strdup(offered.name[offer_at++]) : NULL;
}

static void offer_name_if_it_begins_with(const char *name, const char *text)
{
    if (strncmp(name, text, strlen(text)) == 0)
        ipsq_names_add(&offered, name, NULL);
}

/* Offers the objects whose names begin with `text`. A `text` that does not
 * begin with "/" is relative to the object in focus, and so are its
 * candidates. */
static void offer_objects_below_focus(const struct ipsq_name_source *from,
                                      const char *text)
{
    char object[2 * IPSQ_FOCUS_BYTES];
    snprintf(object, sizeof(object), "%s%s%s",
             *text == '/' ? "" : shell->focus.object, *text == '/' ? "" : "/",
             text);
    ipsq_list_objects_beginning_with(from, object, &offered);
    size_t skip = *text == '/' ? 0 : strlen(shell->focus.object) + 1;
    for (size_t i = 0; i < offered.count; i++) {
        size_t len = strlen(offered.name[i]);
        size_t cut = skip < len ? skip : len;
        memmove(offered.name[i], offered.name[i] + cut, len - cut + 1);
    }
}

static char **complete_word(const char *text, int start, int end)
{
    struct ipsq_words words;
    struct ips_err ignored;
    struct ipsq_name_source from = ipsq_shell_get_name_source(shell);
    char line[IPSQ_LINE_BYTES];
    (void)end;
    rl_attempted_completion_over = 1; /* do not fall back to file names */
    ipsq_names_release(&offered);
    snprintf(line, sizeof(line), "%.*s", start, rl_line_buffer);
    if (ipsq_words_split(line, &words, &ignored) < 0)
        return NULL;
    size_t count = (size_t)words.count;
    const char *first = count ? words.word[0] : "";
    if (strcmp(first, "zoom") == 0) {
        offer_objects_below_focus(&from, text);
    } else if (strcmp(first, "run") == 0) {
        ipsq_list_runs_beginning_with(&from, text, &offered);
    } else if (strcmp(first, "format") == 0) {
        const char *const *formats = ipsq_option_values(IPSQ_OPT_FORMAT);
        for (int i = 0; i <= IPSQ_JSON; i++)
            offer_name_if_it_begins_with(formats[i], text);
    } else {
        ipsq_complete_word(&from, words.word, count, text, false, &offered);
        for (int i = 0; count == 0 && ipsq_shell_words[i]; i++)
            offer_name_if_it_begins_with(ipsq_shell_words[i], text);
    }
    return offered.count ? rl_completion_matches(text, next_candidate) : NULL;
}

void ipsq_install_completion(struct ipsq_shell *s)
{
    static char name[] = "ipsq", breaks[] = " \t\n";
    shell = s;
    rl_readline_name = name;
    rl_completer_word_break_characters = breaks;
    rl_attempted_completion_function = complete_word;
}
