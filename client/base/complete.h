/*
 * Completion of command lines: finds candidates for the word that the user is
 * typing. They come from the tables that --help prints and, for runs, objects
 * and machines, from the master. The prompt and the scripts of `ipsq
 * completion` both use these functions.
 */
#ifndef IPS_CLIENT_BASE_COMPLETE_H
#define IPS_CLIENT_BASE_COMPLETE_H

#include "client/base/command.h"

/* The candidates that may complete a word. Zero it to start; free it with
 * ipsq_names_release. */
struct ipsq_names {
    char **name; /* NULL at the end; NULL if there are none */
    size_t count;
    /* true: a name with a description is added as "NAME\tDESCRIPTION" */
    bool described;
};
/* Adds `name` with its description `about`; NULL: none. Adds nothing if memory
 * is short. */
void ipsq_names_add(struct ipsq_names *names, const char *name,
                    const char *about);
void ipsq_names_release(struct ipsq_names *names);

/* Where the names of runs, objects and machines come from. */
struct ipsq_name_source {
    /* options whose --master, --state and --format apply */
    const struct ipsq_options *session;
    /* the run whose objects are listed; "" or NULL: the newest */
    const char *run;
    bool start; /* start a master and a slave if no master answers */
};

/* The word to complete. Its first `kept_bytes` bytes stay unchanged: in
 * "--by=cause" the bytes before "cause", in "run1,run" the bytes before the
 * last "run". */
struct ipsq_word {
    const char *whole;
    size_t kept_bytes;
    struct ipsq_names *out;
};
/* Adds the kept bytes followed by `name` to the candidates, if `name` begins
 * with the rest of the word. `about`: description of `name`, or NULL. */
void ipsq_add_completion_if_it_fits_word(const struct ipsq_word *w,
                                         const char *name, const char *about);
/* Offers each of `values` as a candidate. `values` ends with NULL; NULL: there
 * are none. */
void ipsq_add_completions_that_fit_word(const struct ipsq_word *w,
                                        const char *const *values);
/* A function that adds the names of one kind (runs, objects, machines) that
 * begin with `text`. */
typedef void ipsq_name_lister(const struct ipsq_name_source *from,
                              const char *text, struct ipsq_names *out);
/* Calls `list` with the word, without its kept bytes, and offers the names
 * found as candidates. */
void ipsq_add_listed_names_that_fit_word(const struct ipsq_word *w,
                                         const struct ipsq_name_source *from,
                                         ipsq_name_lister *list);

/* These functions (client/base/complete_names.c) add all names that begin with
 * `text`, and none if no master answers. */
void ipsq_list_runs_beginning_with(const struct ipsq_name_source *from,
                                   const char *text, struct ipsq_names *out);
void ipsq_list_objects_beginning_with(const struct ipsq_name_source *from,
                                      const char *text, struct ipsq_names *out);
void ipsq_list_machines_beginning_with(const struct ipsq_name_source *from,
                                       const char *text,
                                       struct ipsq_names *out);

/* Whether file names may complete the word, besides the added candidates. */
enum ipsq_completion_kind { IPSQ_COMPLETES_NAMES, IPSQ_COMPLETES_FILES };

/* Adds the candidates for the word `text` to `out`; returns whether file
 * names may complete it as well. `words` are the `count` whole words between
 * the name of the program and `text`. `common`: also offer the options that
 * all commands accept. */
enum ipsq_completion_kind
ipsq_complete_word(const struct ipsq_name_source *from, char *const *words,
                   size_t count, const char *text, bool common,
                   struct ipsq_names *out);

/* Exit statuses of `ipsq complete` besides 0. */
enum {
    IPSQ_COMPLETE_FILES = 10, /* file names may complete the word, too */
    /* The words from some index on are the command line of another command.
     * `ipsq complete` prints that index; PROGRAM has index 0. */
    IPSQ_COMPLETE_COMMAND = 11,
};
/* `ipsq complete PROGRAM WORD... WORD`: prints the candidates for the last
 * word, one a line. It starts no daemon, prints no error, and ends after two
 * seconds at the latest. Returns the exit status: 0 or IPSQ_COMPLETE_*. */
int ipsq_print_completions(int argc, char **argv);

/* Adds the candidates for a word of a command line of ipsrun
 * (client/base/complete_ipsrun.c). Returns the exit status of `ipsq complete`.
 * With IPSQ_COMPLETE_COMMAND, *command is the index in `words` of the command
 * that ipsrun runs. */
int ipsq_complete_ipsrun(const struct ipsq_name_source *from,
                         char *const *words, size_t count, const char *text,
                         size_t *command, struct ipsq_names *out);

#endif
