/*
 * The prompt of ipsq: the commands of the command line, about a focus
 * (client/shell/focus.h), with history, completion and a pager. Each command
 * runs in a child of its own, so an interrupt ends it and nothing else, and
 * what it kept is gone when it ends. Source: IPS-18.
 */
#ifndef IPS_CLIENT_SHELL_SHELL_H
#define IPS_CLIENT_SHELL_SHELL_H

#include "client/base/complete.h"
#include "client/shell/focus.h"

/* Reads lines from standard input until its end or "quit"; edits and pages
 * where that and standard output are a terminal. Of `o` what concerns all
 * commands is kept for each: --master, --state, --format. Returns the exit
 * status of the last command. */
int ipsq_shell(const struct ipsq_options *o);

struct ipsq_shell {
    struct ipsq_focus focus;
    char *before[6]; /* options given to every command; NULL at the end */
    char format[24]; /* the last of them, unless it is table */
    struct ipsq_options session; /* of completion: struct ipsq_name_source */
    bool terminal, leave;
    int status;
};

/* The shell's own words beside the commands, NULL at the end. */
extern const char *const ipsq_shell_words[];

/* Whom the shell asks for names. */
struct ipsq_name_source ipsq_shell_source(const struct ipsq_shell *s);

/* client/shell/complete.c: completion for the line editor. */
void ipsq_complete_begin(struct ipsq_shell *s);

#endif
