/* The log, and all that must not be recorded; see random_program.c. */
#include "program.h"

#include "tests/programs/asleep.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

const char *log_path;
_Thread_local int my_op, my_thread;
static _Thread_local struct log *my_log;

long raw(long n, long a, long b, long c, long d, long e, long f)
{
#if defined(__x86_64__)
    long r;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(r)
                     : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8),
                       "r"(r9)
                     : "rcx", "r11", "memory");
    return r;
#elif defined(__aarch64__)
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
#endif
}

void die(const char *what, long code)
{
    char text[200];
    int n = snprintf(text, sizeof(text),
                     "random_program: thread %d op %d: %s: %ld\n", my_thread,
                     my_op, what, code);
    raw(SYS_write, 2, (long)text, n, 0, 0, 0);
    raw(SYS_exit_group, 3, 0, 0, 0, 0, 0);
}

uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

void spin(uint64_t ns)
{
    for (uint64_t end = now() + ns; now() < end;)
        ;
}

void hidden_sleep(long us)
{
    struct timespec t = {us / 1000000, us % 1000000 * 1000};
    raw(SYS_nanosleep, (long)&t, 0, 0, 0, 0, 0);
}

static long hidden_read(const char *path, void *to, long bytes)
{
    long fd =
        raw(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0, 0, 0);
    if (fd < 0)
        return -1;
    long n = raw(SYS_read, fd, (long)to, bytes, 0, 0, 0);
    raw(SYS_close, fd, 0, 0, 0, 0, 0);
    return n;
}

static void log_name(char *path, int thread)
{
    snprintf(path, 400, "%s/T%d", log_path, thread);
}

/* This thread is `thread` from now on: opens its log, or goes on with it. */
void be(int thread)
{
    char path[400];
    log_name(path, thread);
    my_thread = thread;
    long fd =
        raw(SYS_openat, AT_FDCWD, (long)path, O_RDWR | O_CREAT, 0600, 0, 0);
    if (fd < 0 || raw(SYS_ftruncate, fd, LOG_BYTES, 0, 0, 0, 0) < 0)
        die(path, fd);
    long at =
        raw(SYS_mmap, 0, LOG_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    raw(SYS_close, fd, 0, 0, 0, 0, 0);
    if (at < 0 && at > -4096)
        die("mmap", at);
    raw(SYS_madvise, at, LOG_BYTES, MADV_DONTFORK, 0, 0, 0);
    my_log = (struct log *)at;
    my_log->tid = (uint64_t)raw(SYS_gettid, 0, 0, 0, 0, 0, 0);
    my_log->pid = (uint64_t)raw(SYS_getpid, 0, 0, 0, 0, 0, 0);
}

void over(int operations)
{
    my_log->over = (uint64_t)operations;
}

struct entry *begin(enum active_call code)
{
    struct entry *e = &my_log->entry[my_log->count];
    if ((char *)(e + 1) > (char *)my_log + LOG_BYTES)
        die("log is full", 0);
    e->op = (uint32_t)my_op;
    e->code = code;
    e->before_ns = now();
    my_log->count++;
    spin(4000);
    return e;
}

long finish(struct entry *e, long result, const char *what)
{
    int error = errno;
    spin(4000);
    e->result = result;
    e->after_ns = now();
    if (result < 0 && what)
        die(what, error);
    return result;
}

struct log hidden_header(int thread)
{
    char path[400];
    struct log header = {0};
    log_name(path, thread);
    for (int i = 0;; i++) {
        if (hidden_read(path, &header, sizeof(header)) == sizeof(header) &&
            header.pid)
            return header;
        if (i > 50000)
            die("no such thread", thread);
        hidden_sleep(200);
    }
}

void await_stopped(const struct log *of)
{
    for (int i = 0; state_of((long)of->tid) != 'T'; i++, hidden_sleep(200))
        if (i > 100000)
            die("was never stopped", (long)of->pid);
    hidden_sleep(1000);
}

/* Until `thread` sleeps in its operation `op`; or until that is over. */
void await(int thread, long op, int until_over)
{
    static _Thread_local char copy[LOG_BYTES];
    char path[400];
    log_name(path, thread);
    for (int i = 0; i < 100000; i++, hidden_sleep(200)) {
        if (hidden_read(path, copy, sizeof(copy)) < (long)sizeof(struct log))
            continue;
        const struct log *of = (const struct log *)(const void *)copy;
        if (until_over) {
            if (of->over > (uint64_t)op)
                return;
            continue;
        }
        const struct entry *last = &of->entry[of->count ? of->count - 1 : 0];
        if (!of->count || last->op < op)
            continue;
        if (last->op > op || last->after_ns)
            die("was not waited for", thread);
        if (is_asleep((long)of->tid)) {
            hidden_sleep(1000);
            return;
        }
    }
    die("never slept", thread);
}
