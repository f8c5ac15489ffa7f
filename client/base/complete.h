/*
 * Completion of command lines: what a word may become, from the tables that
 * --help prints and, for runs, objects and machines, from the master. The
 * prompt and the scripts of `ipsq completion` both ask here.
 */
#ifndef IPS_CLIENT_BASE_COMPLETE_H
#define IPS_CLIENT_BASE_COMPLETE_H

#include "client/base/command.h"

/* Candidates. Zeroed to begin with; ipsq_names_release at the end. */
struct ipsq_names {
    char **name; /* NULL at the end; NULL where there is none */
    size_t count;
    bool described; /* "NAME\tTEXT" for commands and options */
};
/* Adds `name` if memory allows it; `about` NULL: no text. */
void ipsq_names_add(struct ipsq_names *names, const char *name,
                    const char *about);
void ipsq_names_release(struct ipsq_names *names);

/* Whom to ask for names. */
struct ipsq_name_source {
    const struct ipsq_options *session; /* --master, --state and --format */
    const char *run; /* whose objects; "" or NULL: the newest run's */
    bool start;      /* start a master and a slave where none answers */
};

/* The word at hand. Its first `kept` bytes stay as they are: of "--by=cause"
 * those before "cause", of "run1,run" those before the last "run". */
struct ipsq_word {
    const char *whole;
    size_t kept_bytes;
    struct ipsq_names *out;
};
/* Adds the word with `name` behind what is kept of it, if it begins like that.
 */
void ipsq_word_offer(const struct ipsq_word *w, const char *name,
                     const char *about);
/* The same for each of `values`, NULL at the end; NULL: none. */
void ipsq_word_offer_all(const struct ipsq_word *w, const char *const *values);
typedef void ipsq_name_lister(const struct ipsq_name_source *from,
                              const char *text, struct ipsq_names *out);
void ipsq_word_offer_names(const struct ipsq_word *w,
                           const struct ipsq_name_source *from,
                           ipsq_name_lister *list);

/* client/base/complete_names.c: all names that begin with `text`; none if no
 * master answers. */
void ipsq_complete_runs(const struct ipsq_name_source *from, const char *text,
                        struct ipsq_names *out);
void ipsq_complete_objects(const struct ipsq_name_source *from,
                           const char *text, struct ipsq_names *out);
void ipsq_complete_machines(const struct ipsq_name_source *from,
                            const char *text, struct ipsq_names *out);

/* What may complete the word: the names that were added, or file names as well.
 */
enum ipsq_completes { IPSQ_COMPLETES_NAMES, IPSQ_COMPLETES_FILES };

/* `text` is the word at hand, after `count` whole words that follow the
 * program's name. `common`: are the options of all commands offered, too? */
enum ipsq_completes ipsq_complete(const struct ipsq_name_source *from,
                                  char *const *words, size_t count,
                                  const char *text, bool common,
                                  struct ipsq_names *out);

/*
 * `ipsq complete PROGRAM WORD... WORD`: prints the candidates for the last
 * word, one a line. It starts no daemon, prints no error, and ends after two
 * seconds whatever happens. Returns the exit status: 0, or one of these.
 */
enum {
    IPSQ_COMPLETE_FILES = 10,
    /* The words from some index on are another command's. It prints the index;
     * PROGRAM is 0. */
    IPSQ_COMPLETE_COMMAND = 11,
};
int ipsq_complete_print(int argc, char **argv);

/* client/base/complete_ipsrun.c: the same for a command line of ipsrun. Returns
 * the exit status; *command is the index in `words` of what ipsrun runs. */
int ipsq_complete_ipsrun(const struct ipsq_name_source *from,
                         char *const *words, size_t count, const char *text,
                         size_t *command, struct ipsq_names *out);

#endif
