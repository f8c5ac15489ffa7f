/*
 * Until somebody sleeps: what a program of the tests does instead of hoping
 * that a pause was long enough. By system calls that no wrapper sees, so that
 * they are neither waits nor files of the measured program.
 */
#ifndef IPS_TESTS_ASLEEP_H
#define IPS_TESTS_ASLEEP_H

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#include "agent/record/own_table.h"

static inline long unseen_call(long n, long a, long b, long c, long d)
{
#if defined(__x86_64__)
    long r;
    register long r10 __asm__("r10") = d;
    __asm__ volatile("syscall"
                     : "=a"(r)
                     : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10)
                     : "rcx", "r11", "memory");
    return r;
#elif defined(__aarch64__)
    register long x8 __asm__("x8") = n;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    __asm__ volatile("svc 0"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3)
                     : "memory");
    return x0;
#endif
}

/* What /proc says of a thread in that file. */
static inline void proc_text(long tid, const char *file, char *text, long bytes)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%ld/%s", tid, file);
    long fd =
        unseen_call(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0);
    long n = 0;
    if (fd >= 0) {
        n = unseen_call(SYS_read, fd, (long)text, bytes - 1, 0);
        unseen_call(SYS_close, fd, 0, 0, 0);
    }
    text[n > 0 ? n : 0] = '\0';
}

/* The state of a thread; 0: there is none. */
static inline char state_of(long tid)
{
    char text[400];
    proc_text(tid, "stat", text, sizeof(text));
    const char *end = strrchr(text, ')');
    return end ? end[2] : 0;
}

/* Does it sleep, and not in the recorder (agent/record/own_table.h), which
 * waits by a futex with a mark of its own? */
static inline int is_asleep(long tid)
{
    char text[400], mark[24];
    if (state_of(tid) != 'S')
        return 0;
    snprintf(mark, sizeof(mark), " %#x ", IPS_OWN_TABLE_BITSET);
    proc_text(tid, "syscall", text, sizeof(text));
    return !strstr(text, mark) && state_of(tid) == 'S';
}

/* Until thread `tid` sleeps. Whoever was woken before the call (a byte was
 * written to its pipe) does not sleep until it sleeps anew. */
static inline void until_asleep(long tid)
{
    struct timespec t = {0, 1000000};
    do
        unseen_call(SYS_nanosleep, (long)&t, 0, 0, 0);
    while (!is_asleep(tid));
}

#endif
