/*
 * Raw system calls for code that runs inside a recorded program.
 *
 * The agent's core must not call a libc function that the preload library, the
 * program or another preloaded library may have replaced: bash has its own
 * getenv, libfaketime its own clock_gettime, and we ourselves replace close and
 * syscall. So these functions make the system calls directly. Every function
 * returns the kernel's result, -errno on failure, and never touches `errno`.
 * Async-signal-safe; the only state is ips_sys_quiet.
 */
#ifndef IPS_AGENT_RECORD_SYS_H
#define IPS_AGENT_RECORD_SYS_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#include "agent/record/valgrind.h"

#if defined(__x86_64__)
static inline long ips_sys_raw(long n, long a, long b, long c, long d, long e,
                               long f)
{
    long ret;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(ret)
                     : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8),
                       "r"(r9)
                     : "rcx", "r11", "memory");
    return ret;
}
#elif defined(__aarch64__)
static inline long ips_sys_raw(long n, long a, long b, long c, long d, long e,
                               long f)
{
    register long x8 __asm__("x8") = n;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc 0"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                     : "memory");
    return x0;
}
#else
#error "agent/record/sys.h: no raw system call for this architecture yet"
#endif

/* Quiet mode: true when the program has forbidden itself system calls
 * (seccomp), so that a call of ours might end the program. Every function here
 * then fails, and its callers do without it. (preload/process/seccomp.c) */
extern bool ips_sys_quiet __attribute__((visibility("hidden")));

#ifdef IPS_FAULTS /* tests/support/agent_faults.c */
long ips_sys_faulty(long n, long a, long b, long c, long d, long e, long f)
    __attribute__((visibility("hidden")));
#endif

static inline long ips_sys6(long n, long a, long b, long c, long d, long e,
                            long f)
{
    if (__builtin_expect(ips_sys_quiet, 0))
        return -ENOSYS;
#ifdef IPS_FAULTS
    return ips_sys_faulty(n, a, b, c, d, e, f);
#else
    return ips_sys_raw(n, a, b, c, d, e, f);
#endif
}

static inline long ips_sys3(long n, long a, long b, long c)
{
    return ips_sys6(n, a, b, c, 0, 0, 0);
}

static inline int ips_sys_open(const char *path, int flags, unsigned mode)
{
    return (int)ips_sys6(SYS_openat, AT_FDCWD, (long)path, flags, (long)mode, 0,
                         0);
}
static inline int ips_sys_close(int fd)
{
    return (int)ips_sys3(SYS_close, fd, 0, 0);
}
static inline long ips_sys_read(int fd, void *buf, size_t len)
{
    return ips_sys3(SYS_read, fd, (long)buf, (long)len);
}
static inline int ips_sys_unlink(const char *path)
{
    return (int)ips_sys3(SYS_unlinkat, AT_FDCWD, (long)path, 0);
}
static inline int ips_sys_fchmod(int fd, unsigned mode)
{
    return (int)ips_sys3(SYS_fchmod, fd, (long)mode, 0);
}
static inline int ips_sys_ftruncate(int fd, uint64_t bytes)
{
    return (int)ips_sys3(SYS_ftruncate, fd, (long)bytes, 0);
}
static inline int ips_sys_fallocate(int fd, uint64_t bytes)
{
    return (int)ips_sys6(SYS_fallocate, fd, 0, 0, (long)bytes, 0, 0);
}
/* fstat and stat: the kernel's structure equals libc's on both architectures.
 */
static inline int ips_sys_fstat(int fd, struct stat *st)
{
    return (int)ips_sys3(SYS_fstat, fd, (long)st, 0);
}
static inline int ips_sys_stat(const char *path, struct stat *st)
{
    return (int)ips_sys6(SYS_newfstatat, AT_FDCWD, (long)path, (long)st, 0, 0,
                         0);
}
static inline int ips_sys_is_error(uint64_t address)
{
    return address > (uint64_t)-4096;
}
/* Returns the address, or -errno: test it with ips_sys_is_error(). The mapping
 * is left out of the program's core files. */
static inline uint64_t ips_sys_mmap(uint64_t at, size_t len, int prot,
                                    int flags, int fd)
{
    uint64_t got =
        (uint64_t)ips_sys6(SYS_mmap, (long)at, (long)len, prot, flags, fd, 0);
    if (ips_sys_is_error(got))
        return got;
    ips_sys3(SYS_madvise, (long)got, (long)len, MADV_DONTDUMP);
    ips_valgrind_ignore(got, len);
    return got;
}
static inline int ips_sys_munmap(uint64_t address, size_t len)
{
    return (int)ips_sys3(SYS_munmap, (long)address, (long)len, 0);
}
static inline int ips_sys_madvise(uint64_t address, size_t len, int advice)
{
    return (int)ips_sys3(SYS_madvise, (long)address, (long)len, advice);
}
static inline uint32_t ips_sys_getpid(void)
{
    return (uint32_t)ips_sys3(SYS_getpid, 0, 0, 0);
}
static inline uint32_t ips_sys_getppid(void)
{
    return (uint32_t)ips_sys3(SYS_getppid, 0, 0, 0);
}
static inline uint32_t ips_sys_gettid(void)
{
    return (uint32_t)ips_sys3(SYS_gettid, 0, 0, 0);
}
static inline uint32_t ips_sys_geteuid(void)
{
    return (uint32_t)ips_sys3(SYS_geteuid, 0, 0, 0);
}
/* Returns the clock's value in ns; 0 if the kernel does not know the clock. */
static inline uint64_t ips_sys_clock_ns(int clock)
{
    struct timespec ts;
    if (ips_sys3(SYS_clock_gettime, clock, (long)&ts, 0) < 0)
        return 0;
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Faults like a store if `at` cannot be written, but changes nothing: a
 * coroutine's stack may be small, and the memory below it another object of the
 * program. */
static inline void ips_touch_byte(volatile char *at)
{
#if defined(__x86_64__)
    __asm__ volatile("lock orb $0, %0" : "+m"(*at) : : "cc");
#elif defined(__aarch64__)
    uint32_t byte, failed;
    __asm__ volatile("1: ldxrb %w0, %2\n"
                     "   stxrb %w1, %w0, %2\n"
                     "   cbnz %w1, 1b\n"
                     : "=&r"(byte), "=&r"(failed), "+Q"(*at));
#endif
}

/* Touches the stack that the following agent code needs. A program may use up
 * its stack and handle the SIGSEGV on another stack. That signal must come
 * here, before signals are blocked: the kernel would end a program that blocks
 * SIGSEGV. The code after this call needs less than 4 KB of stack. */
static __attribute__((noinline)) void ips_touch_stack(void)
{
    char room[4096];
    __asm__ volatile("" : : "r"(room) : "memory");
    ips_touch_byte(room);
}

/* Like ips_touch_stack, for code that needs less than 1 KB of stack, above all
 * the handler of a sample: it may run on a coroutine's stack of 8 KB, of which
 * the kernel's signal frame takes half. */
static __attribute__((noinline)) void ips_touch_stack_small(void)
{
    char room[1024];
    __asm__ volatile("" : : "r"(room) : "memory");
    ips_touch_byte(room);
}

/* Blocks all signals that can be blocked; returns the old mask (the kernel's
 * signal set: 64 bits). */
static inline uint64_t ips_sys_block_signals_without_stack_touch(void)
{
    uint64_t all = ~(uint64_t)0, old = 0;
    ips_sys6(SYS_rt_sigprocmask, 2 /* SIG_SETMASK */, (long)&all, (long)&old,
             sizeof(old), 0, 0);
    return old;
}
static inline uint64_t ips_sys_block_signals(void)
{
    ips_touch_stack();
    return ips_sys_block_signals_without_stack_touch();
}
static inline uint64_t ips_sys_block_signals_small_stack(void)
{
    ips_touch_stack_small();
    return ips_sys_block_signals_without_stack_touch();
}
static inline void ips_sys_restore_signals(uint64_t old)
{
    ips_sys6(SYS_rt_sigprocmask, 2 /* SIG_SETMASK */, (long)&old, 0,
             sizeof(old), 0, 0);
}

#endif
