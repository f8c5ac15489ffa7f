/*
 * System calls of the agent that fail, are interrupted or come late at random:
 * linked with the agent's own sources into a library of its own
 * (ips-preload-faults), in place of the calls of agent/record/sys.h.
 *
 * IPS_TEST_FAULTS=PPM:SEED in the environment: so many of a million calls.
 * Left alone are calls that no kernel refuses to who makes them as we do: who
 * it is, its mask of signals, the time, the end of a thread. A process is held
 * up MOST_LATE times, up to 2 ms each: without a limit, one that makes
 * thousands of calls would take minutes.
 */
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "agent/record/sys.h"

extern char **environ;

static uint64_t number_at(const char **c)
{
    uint64_t n = 0;
    for (; **c >= '0' && **c <= '9'; (*c)++)
        n = n * 10 + (uint64_t)(**c - '0');
    return n;
}

static uint64_t rate, state;

static void begin(void)
{
    static const char name[] = "IPS_TEST_FAULTS=";
    for (char **e = environ; e && *e; e++)
        if (strncmp(*e, name, sizeof(name) - 1) == 0) {
            const char *c = *e + sizeof(name) - 1;
            uint64_t ppm = number_at(&c);
            c += *c == ':';
            /* Another row in each process. */
            state = number_at(&c) * 1000003 +
                    (uint64_t)ips_sys_raw(SYS_getpid, 0, 0, 0, 0, 0, 0);
            __atomic_store_n(&rate, ppm + 1, __ATOMIC_RELEASE);
            return;
        }
    if (environ)
        __atomic_store_n(&rate, 1, __ATOMIC_RELEASE);
}

static uint64_t draw(void)
{
    uint64_t x =
        __atomic_add_fetch(&state, 0x9e3779b97f4a7c15u, __ATOMIC_RELAXED);
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static bool never_fails(long n)
{
    switch (n) {
    case SYS_rt_sigprocmask:
    case SYS_rt_sigaction:
    case SYS_rt_sigreturn:
    case SYS_sigaltstack:
    case SYS_exit:
    case SYS_exit_group:
    case SYS_getpid:
    case SYS_gettid:
    case SYS_getppid:
    case SYS_getuid:
    case SYS_geteuid:
    case SYS_clock_gettime:
    case SYS_sched_yield:
    case SYS_tgkill:
        return true;
    default:
        return false;
    }
}

static int error_of(long n, uint64_t which)
{
    static const int opening[] = {EMFILE, ENFILE, EACCES, EINTR,
                                  ENOMEM, ENOENT, ENOSPC, ELOOP},
                     memory[] = {ENOMEM, EAGAIN}, waiting[] = {EINTR, EAGAIN},
                     other[] = {EINTR, ENOMEM, EIO, EPERM, ENOSPC, ENOSYS};
    switch (n) {
    case SYS_openat:
        return opening[which % 8];
    case SYS_mmap:
    case SYS_mremap:
    case SYS_mprotect:
    case SYS_madvise:
    case SYS_clone:
        return memory[which % 2];
    case SYS_futex:
    case SYS_nanosleep:
        return waiting[which % 2];
    default:
        return other[which % 6];
    }
}

enum { MOST_LATE = 500 };

static void come_late(uint64_t which)
{
    static uint64_t times;
    if (__atomic_add_fetch(&times, 1, __ATOMIC_RELAXED) > MOST_LATE)
        return;
    struct timespec t = {0, (long)(which % 2000000)};
    ips_sys_raw(SYS_nanosleep, (long)&t, 0, 0, 0, 0, 0);
}

long ips_sys_faulty(long n, long a, long b, long c, long d, long e, long f)
{
    if (!__atomic_load_n(&rate, __ATOMIC_ACQUIRE))
        begin();
    uint64_t ppm = __atomic_load_n(&rate, __ATOMIC_RELAXED);
    uint64_t x = ppm > 1 ? draw() : 0;
    if (ppm <= 1 || x % 1000000 >= ppm - 1)
        return ips_sys_raw(n, a, b, c, d, e, f);
    x /= 1000000;
    if (x % 4 == 0 || never_fails(n)) {
        come_late(x / 4);
        return ips_sys_raw(n, a, b, c, d, e, f);
    }
    if (n == SYS_close) /* the descriptor is gone all the same */
        ips_sys_raw(n, a, b, c, d, e, f);
    return -error_of(n, x / 4);
}
