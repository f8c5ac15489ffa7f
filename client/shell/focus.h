/*
 * What the shell's commands are about: a run, an object of it and a piece of
 * its time. Pure: how a line becomes words, how a focus moves, and what it adds
 * to a command that does not say otherwise. Source: IPS-18 (zooming), DESIGN.
 */
#ifndef IPS_CLIENT_SHELL_FOCUS_H
#define IPS_CLIENT_SHELL_FOCUS_H

#include "client/base/command.h"
#include "client/base/units.h"

#define IPSQ_LINE_BYTES 4096
#define IPSQ_WORDS_MAX 64
#define IPSQ_FOCUS_BYTES 512

struct ipsq_focus {
    char run[64]; /* "": the newest whenever something is asked */
    char object[IPSQ_FOCUS_BYTES]; /* "": all of the run, else "/..." */
    char from[IPSQ_UNIT_BYTES];    /* as --from and --to take them; "": all */
    char to[IPSQ_UNIT_BYTES];
    char phase[IPSQ_UNIT_BYTES]; /* as --phase takes it, instead of the two */
};

/* A line in pieces, which live in `text`. */
struct ipsq_words {
    char text[IPSQ_LINE_BYTES];
    char *word[IPSQ_WORDS_MAX + 1]; /* NULL at the end */
    int count;
};

/* Blanks part words; '...' and "..." keep them together, a backslash the next
 * character (not within '...'); a word that begins with # ends the line.
 * IPS_E_USAGE: a quote that is not closed, too much. */
int ipsq_words_split(const char *line, struct ipsq_words *out,
                     struct ips_err *err) IPS_MUST_USE;

/* "ipsq", "ipsq RUN:/m1/p.7@1s..2s": what stands before the "> ". */
void ipsq_focus_text(const struct ipsq_focus *f, char *out, size_t room);

/* "/a/b" or below where we are: "b". The end of `path` is cut off where it is
 * too long (then false). */
bool ipsq_focus_object(const struct ipsq_focus *f, const char *word,
                       char out[IPSQ_FOCUS_BYTES]);
/* "1s..2s", "1s.." and "..2s". False: that is no piece of time; IPS_E_USAGE in
 * `err` (code != 0) where it is one, but a wrong one. */
bool ipsq_focus_window(struct ipsq_focus *f, const char *word,
                       struct ips_err *err);
/* Phase "2" of the run, as `ipsq phases` numbers them. IPS_E_USAGE. */
int ipsq_focus_phase(struct ipsq_focus *f, const char *word,
                     struct ips_err *err) IPS_MUST_USE;
/* One step out: the time, then the object, then the run. False: we were there.
 */
bool ipsq_focus_up(struct ipsq_focus *f);

/* Why something of the focus was left out; bits. */
enum ipsq_unused { IPSQ_UNUSED_OBJECT = 1, IPSQ_UNUSED_TIME = 2 };

/* A command line: "ipsq", `before` (options of all commands), then `words` with
 * what the focus adds. `argv` has room for IPSQ_ARGV_MAX; the words are
 * borrowed from everything given. Returns argc, and in *unused what `command`
 * has no use for. A command that is not known, or wrong words, get nothing
 * added: running it says what is wrong. */
#define IPSQ_ARGV_MAX (2 * IPSQ_WORDS_MAX)
int ipsq_focus_apply(const struct ipsq_focus *f, char *const *before,
                     const struct ipsq_words *words, char **argv,
                     unsigned *unused);

#endif
