/*
 * Each command of ipsq is a struct ipsq_command, in a file of its own. Its
 * `run` gets the parsed options and an open session. It returns an exit status,
 * or a negative error code with `err` set.
 */
#ifndef IPS_CLIENT_BASE_COMMAND_H
#define IPS_CLIENT_BASE_COMMAND_H

#include "client/base/options.h"
#include "client/base/out.h"
#include "client/base/session.h"

enum ipsq_status {
    IPSQ_OK = 0,
    IPSQ_FAILED = 1,
    IPSQ_USAGE = 2,
    IPSQ_INCOMPLETE = 3,
    IPSQ_PASSED_LIMIT = 4, /* a limit of `ipsq check` was exceeded */
};

/* Groups of commands, with their headings in the help. */
#define IPSQ_GROUPS(X)                                                         \
    X(ASK, "ask")                                                              \
    X(DRILL, "drill down")                                                     \
    X(PREDICT, "predict")                                                      \
    X(COMPARE, "compare")                                                      \
    X(ADMIN, "administer")
enum ipsq_group {
#define X(name, text) IPSQ_##name,
    IPSQ_GROUPS(X)
#undef X
};

struct ipsq_command {
    const char *name;
    enum ipsq_group group;
    /* arguments in the usage line, after the command's name */
    const char *usage;
    const char *summary;  /* one line for the list of commands */
    const char *examples; /* two example command lines */
    const char *help;     /* more text for `ipsq help NAME`: paragraphs that end
                             with \n and are folded when printed */
    /* options that the command accepts besides IPSQ_COMMON, as IPSQ_HAS bits */
    uint64_t options;
    /* output formats that the command has, as bits 1 << enum ipsq_format */
    unsigned formats;
    /* values of --by that the command accepts, as IPSQ_IS_BY bits */
    unsigned bys;
    bool several_bys; /* --by may give more than one value */
    /* The columns that --sort accepts, given the other options; NULL: the
     * command has no --sort. */
    struct ipsq_columns (*sort_columns)(const struct ipsq_options *o);
    int max_args;
    bool local; /* the command needs no master; its session is not open */
    int (*run)(const struct ipsq_command *self, const struct ipsq_options *o,
               struct ipsq_session *s, struct ips_err *err);
};

#define IPSQ_FORMAT_BIT(f) (1u << IPSQ_##f)
#define IPSQ_FORMATS_USUAL                                                     \
    (IPSQ_FORMAT_BIT(TABLE) | IPSQ_FORMAT_BIT(TSV) | IPSQ_FORMAT_BIT(JSON))
#define IPSQ_FORMATS_ALL (IPSQ_FORMATS_USUAL | IPSQ_FORMAT_BIT(JSONL))

extern const struct ipsq_command ipsq_cmd_bottleneck;
extern const struct ipsq_command ipsq_cmd_calibrate;
extern const struct ipsq_command ipsq_cmd_check;
extern const struct ipsq_command ipsq_cmd_completion;
extern const struct ipsq_command ipsq_cmd_diff;
extern const struct ipsq_command ipsq_cmd_estimate;
extern const struct ipsq_command ipsq_cmd_events;
extern const struct ipsq_command ipsq_cmd_graph;
extern const struct ipsq_command ipsq_cmd_help;
extern const struct ipsq_command ipsq_cmd_ls;
extern const struct ipsq_command ipsq_cmd_metrics;
extern const struct ipsq_command ipsq_cmd_path;
extern const struct ipsq_command ipsq_cmd_phases;
extern const struct ipsq_command ipsq_cmd_predict;
extern const struct ipsq_command ipsq_cmd_procedures;
extern const struct ipsq_command ipsq_cmd_requests;
extern const struct ipsq_command ipsq_cmd_runs;
extern const struct ipsq_command ipsq_cmd_shell;
extern const struct ipsq_command ipsq_cmd_sql;
extern const struct ipsq_command ipsq_cmd_status;
extern const struct ipsq_command ipsq_cmd_summary;
extern const struct ipsq_command ipsq_cmd_version;
extern const struct ipsq_command ipsq_cmd_waits;
extern const struct ipsq_command ipsq_cmd_whatif;
extern const struct ipsq_command ipsq_cmd_why;

/* All commands in the order of the help; NULL at the end. */
extern const struct ipsq_command *const ipsq_commands[];
const struct ipsq_command *ipsq_command_find(const char *name);
/* Sets `err` to "no such command" and returns IPS_E_USAGE. The message suggests
 * the command, or the word in `more`, that is most similar to `name`. `more`
 * ends with NULL and may be NULL. */
int ipsq_set_unknown_command_error(const char *name, const char *const *more,
                                   struct ips_err *err);

/* Paragraphs of docs/glossary.md, NULL at the end. All but the title have the
 * form "**term** - text". */
extern const char *const ipsq_glossary[];
#define IPSQ_TERM_BYTES 128
/* Copies the term that a paragraph of the glossary explains to `out`, and
 * returns `out`; NULL: the paragraph explains no term. */
const char *ipsq_copy_term_of_paragraph(const char *paragraph,
                                        char out[IPSQ_TERM_BYTES]);

/* The shells that `ipsq completion` supports (NULL at the end), and their
 * scripts. */
extern const char *const ipsq_completion_shells[];
extern const char ipsq_completion_bash[], ipsq_completion_zsh[],
    ipsq_completion_fish[];

/* The body of main(): runs a command, or the shell if no command is given and
 * standard input and output are terminals. Returns an exit status. */
int ipsq_run_command_line(int argc, char **argv);

/* Print the same text as --help: for all of ipsq, or for one command. */
void ipsq_print_usage(FILE *f);
void ipsq_print_command_usage(FILE *f, const struct ipsq_command *c);

/* Finds the run that `word` names. `word` NULL: the newest run, whose name is
 * then printed to standard error. */
int ipsq_find_run_or_newest(struct ipsq_session *s, const char *word,
                            const char **run, struct ips_err *err) IPS_MUST_USE;
/* Stores in rq->run the name of the run that the first argument of the command
 * names, or else of the newest run. Stores --fresh in rq->fresh. */
int ipsq_find_and_set_run_of_request(struct ipsq_session *s,
                                     const struct ipsq_options *o,
                                     Ips__Request *rq,
                                     struct ips_err *err) IPS_MUST_USE;
/* Sets from the options which message times the scenario uses (--mtime) and
 * which external waits count (--external). The caller has initialised
 * `scenario`. */
void ipsq_fill_scenario(const struct ipsq_options *o, Ips__Lane *scenario);
/* Writes the window that the options request, as `phase`, `from_ns` and
 * `to_ns`; null: not given. */
void ipsq_put_asked_window(struct ipsq_out *out, const struct ipsq_options *o);
/* Returns IPS_E_PROTOCOL unless the last reply has an answer of the kind
 * `answer`. */
int ipsq_check_answer_kind(const Ips__Reply *last,
                           Ips__Reply__AnswerCase answer,
                           struct ips_err *err) IPS_MUST_USE;
/* Returns the exit status of a command whose answer has the certificate `c`:
 * IPSQ_OK if the certificate is complete; IPSQ_INCOMPLETE if not, or if `c` is
 * NULL. */
int ipsq_certificate_exit_status(const Ips__Certificate *c);

#define IPSQ_COUNT_OF(array) (sizeof(array) / sizeof(*(array)))

#endif
