/*
 * The prompt of ipsq: the commands of the command line, applied to a focus
 * (client/shell/focus.h), with history, completion and a pager. Each command
 * runs in a child process, so an interrupt ends only the command, and its
 * memory is freed when it ends. Source: IPS-18.
 */
#ifndef IPS_CLIENT_SHELL_SHELL_H
#define IPS_CLIENT_SHELL_SHELL_H

#include "client/base/complete.h"
#include "client/shell/focus.h"

/* Reads lines from standard input up to its end or "quit"; line editing and
 * pager are used if standard input and output are terminals. The options of `o`
 * that all commands have (--master, --state, --format) are passed to each
 * command. Returns the exit status of the last command. */
int ipsq_shell(const struct ipsq_options *o);

struct ipsq_shell {
    struct ipsq_focus focus;
    char *before[6]; /* options passed to every command; NULL at the end */
    /* "--format=F"; the last option in `before`, unless F is table */
    char format[24];
    /* where the master is, for completion: see struct ipsq_name_source */
    struct ipsq_options session;
    bool terminal, leave;
    int status;
};

/* Words that only the prompt knows, such as "zoom"; NULL at the end. */
extern const char *const ipsq_shell_words[];

/* Returns the source from which the shell gets names for completion. */
struct ipsq_name_source ipsq_shell_get_name_source(const struct ipsq_shell *s);

/* client/shell/complete.c: installs completion in the line editor. */
void ipsq_install_completion(struct ipsq_shell *s);

#endif
