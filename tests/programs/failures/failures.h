/*
 * Calls that fail, are refused, run out of time or are interrupted, and rarer
 * calls that succeed (paths.c, numbers.c), one after the other: what each
 * leaves is in tests/system/recording/failures.txt.
 *
 * Each case is a function of its own, case_NAME, that makes ready what it needs
 * and then makes one call by CALL(). What that call gave is printed; what it
 * recorded stands between two sends on the pipe `marks`, of 1 and of 2 bytes,
 * which are also what ends a row of fruitless attempts. errno is UNTOUCHED
 * before the call, so a call that succeeds must leave it so.
 */
#ifndef FAILURES_H
#define FAILURES_H

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#define UNTOUCHED 77
#define CLOSED 900 /* no descriptor */

typedef void case_fn(void);
struct one_case {
    const char *name;
    case_fn *fn;
};
/* Each file's cases, the last one without a name. */
extern const struct one_case bytes_cases[], descriptor_cases[], wait_cases[],
    lock_cases[], process_cases[], together_cases[], path_cases[],
    number_cases[], rare_cases[], notice_cases[], left_cases[], exec_cases[],
    memory_cases[];
/* What the group "execs" executes. */
int show_environment(void);
#define CASE(name)                                                             \
    {                                                                          \
#name, case_##name                                                     \
    }

void call_begins(void);
/* Prints the result, and the errno, by its name, that the call left. */
void call_ends(long result, int error);
#define CALL(call)                                                             \
    do {                                                                       \
        call_begins();                                                         \
        errno = UNTOUCHED;                                                     \
        long call_result = (long)(call);                                       \
        int call_error = errno;                                                \
        call_ends(call_result, call_error);                                    \
    } while (0)

/* Prints what a record's channel can be told by: the end's inode and side. */
void name_end(const char *name, int fd, const char *side);
void must(bool good); /* else the program ends */
void fill(int fd);    /* until a write would wait */
void no_wait(int fd); /* O_NONBLOCK */
/* SIGALRM to this thread every 20 ms until ended: a call may not have begun
 * when the first one comes. */
void alarms_begin(void);
void alarms_end(void);
struct timespec from_now(clockid_t clock, long ms);

extern char buf[70000];
/* Ends that many cases use, both without waiting: a pipe, a pair of sockets;
 * a full pipe, whose reading end is kept; a full socket. */
extern int empty[2], pair[2], full[2], full_socket[2];
extern int broken;      /* a writing end without a reader */
extern int broken_sock; /* a socket without a peer */

#endif
