/*
 * Error reports: a code and a sentence.
 *
 * A function that can fail returns 0 or a negative `enum ips_errcode` and fills
 * the caller's `struct ips_err`. The innermost function states the fact. Each
 * caller puts its context in front with ips_err_wrap(), so the user reads "run
 * tsp: segment 12.12.3f.seg: header version 9, expected 1". Any `struct ips_err
 * *` may be NULL: the code is returned all the same.
 */
#ifndef IPS_COMMON_ERR_H
#define IPS_COMMON_ERR_H

#include <stdarg.h>

#define IPS_ERRORS(X)                                                          \
    X(IO, 1, "input/output error")                                             \
    X(CORRUPT, 2, "data is damaged")                                           \
    X(VERSION, 3, "version not supported")                                     \
    X(USAGE, 4, "wrong usage")                                                 \
    X(NOT_FOUND, 5, "no such object")                                          \
    X(NO_MEMORY, 6, "out of memory")                                           \
    X(LIMIT, 7, "a limit was exceeded")                                        \
    X(UNREACHABLE, 8, "peer unreachable")                                      \
    X(PROTOCOL, 9, "protocol error")                                           \
    X(STALLED, 10, "graph has a cycle or a missing send")                      \
    X(REFUSED, 11, "refused")                                                  \
    X(BUSY, 12, "busy")                                                        \
    X(DB, 13, "database error")                                                \
    X(INCOMPLETE, 14, "answer incomplete")

enum ips_errcode {
#define X(name, number, text) IPS_E_##name = -(number),
    IPS_ERRORS(X)
#undef X
};

#define IPS_MUST_USE __attribute__((warn_unused_result))

struct ips_err {
    int code;
    char msg[1024];
};

/* Sets `e` (may be NULL) and returns `code`, so that callers can write `return
 * ips_err_set(...)`. */
int ips_err_set(struct ips_err *e, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts context before the message in `e` (may be NULL): "context: message".
 * Returns `code`, the code of the failure. */
int ips_err_wrap(struct ips_err *e, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Sets `e` (may be NULL) to IPS_E_IO and the formatted message, followed by ":
 * " and strerror(errno). Returns IPS_E_IO; keeps errno. */
int ips_err_errno(struct ips_err *e, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Returns a general text for a code; "success" for 0. Never NULL. */
const char *ips_err_text_of_code(int code);

#endif
