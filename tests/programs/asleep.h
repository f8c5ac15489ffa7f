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

/* The state of a thread as /proc says it; 0: there is none. */
static inline char state_of(long tid)
{
    char path[64], text[400] = "";
    snprintf(path, sizeof(path), "/proc/%ld/stat", tid);
    long fd =
        unseen_call(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return 0;
    long n = unseen_call(SYS_read, fd, (long)text, sizeof(text) - 1, 0);
    unseen_call(SYS_close, fd, 0, 0, 0);
    const char *end = n > 0 ? strrchr(text, ')') : NULL;
    return end ? end[2] : 0;
}

/* Until thread `tid` sleeps. Whoever was woken before the call (a byte was
 * written to its pipe) does not sleep until it sleeps anew. */
static inline void until_asleep(long tid)
{
    struct timespec t = {0, 1000000};
    do
        unseen_call(SYS_nanosleep, (long)&t, 0, 0, 0);
    while (state_of(tid) != 'S');
}

#endif
