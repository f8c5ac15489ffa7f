/*
 * The focus: the run, object and time window to which the shell restricts its
 * commands. Pure: splits a line into words, moves the focus, and adds the focus
 * to commands that name no run, object or window of their own. Source: IPS-18
 * (zooming), DESIGN.
 */
#ifndef IPS_CLIENT_SHELL_FOCUS_H
#define IPS_CLIENT_SHELL_FOCUS_H

#include "client/base/command.h"
#include "client/base/units.h"

#define IPSQ_LINE_BYTES 4096
#define IPSQ_WORDS_MAX 64
#define IPSQ_FOCUS_BYTES 512

struct ipsq_focus {
    char run[64]; /* "": the newest run at the time of each command */
    char object[IPSQ_FOCUS_BYTES]; /* "": the whole run */
    char from[IPSQ_UNIT_BYTES];    /* values of --from and --to; "": no limit */
    char to[IPSQ_UNIT_BYTES];
    /* value of --phase, used instead of from and to; "": none */
    char phase[IPSQ_UNIT_BYTES];
};

/* The words of a line, stored in `text`. */
struct ipsq_words {
    char text[IPSQ_LINE_BYTES];
    char *word[IPSQ_WORDS_MAX + 1]; /* the words; NULL at the end */
    int count;
};

/* Splits a line at blanks. '...' and "..." keep words together; a backslash
 * protects the next character (not within '...'); a word that starts with #
 * ends the line. IPS_E_USAGE: a quote is not closed, or the line has too
 * many bytes or words. */
int ipsq_words_split(const char *line, struct ipsq_words *out,
                     struct ips_err *err) IPS_MUST_USE;

/* Writes the text that the prompt shows before "> ": "ipsq", "ipsq
 * RUN:/m1/p.7@1s..2s". */
void ipsq_focus_prompt_text(const struct ipsq_focus *f, char *out, size_t room);

/* Writes to `out` the full name of the object that `word` names: "/a/b" is a
 * full name, "b" is relative to the object in focus. False: the name is too
 * long and `out` is truncated. */
bool ipsq_focus_write_full_object_name(const struct ipsq_focus *f,
                                       const char *word,
                                       char out[IPSQ_FOCUS_BYTES]);
/* Sets the window from "1s..2s", "1s.." or "..2s". False: `word` is not of this
 * form. True with err->code != 0 (IPS_E_USAGE): `word` is of this form, but its
 * times are wrong, and the window is unchanged. */
bool ipsq_focus_set_window_if_word_is_one(struct ipsq_focus *f,
                                          const char *word,
                                          struct ips_err *err);
/* Sets the phase to the number `word`, such as "2", as `ipsq phases` numbers
 * them. IPS_E_USAGE: `word` is no number. */
int ipsq_focus_set_phase(struct ipsq_focus *f, const char *word,
                         struct ips_err *err) IPS_MUST_USE;
/* Widens the focus by one step: removes the time, else the object, else the
 * run. False: there was nothing to remove. */
bool ipsq_focus_widen(struct ipsq_focus *f);

/* Bits for the parts of the focus that a command cannot use. */
enum ipsq_unused { IPSQ_UNUSED_OBJECT = 1, IPSQ_UNUSED_TIME = 2 };

#define IPSQ_ARGV_MAX (2 * IPSQ_WORDS_MAX)
/* Makes a command line: "ipsq", `before` (options of all commands; NULL at the
 * end), then `words` with the additions of the focus. `argv` has space for
 * IPSQ_ARGV_MAX strings and NULL; its strings are borrowed from the arguments.
 * Returns argc. Sets *unused to the parts of the focus that the command cannot
 * use. Adds nothing to an unknown command or to wrong words: the error is
 * reported when the line runs. */
int ipsq_focus_build_argv(const struct ipsq_focus *f, char *const *before,
                          const struct ipsq_words *words, char **argv,
                          unsigned *unused);

#endif
