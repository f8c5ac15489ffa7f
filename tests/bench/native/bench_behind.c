/*
 * Stands behind the agent in LD_PRELOAD, in place of the C library's send,
 * recv, epoll_wait and rseq area, for tests/bench/run count: calls that move
 * nothing and make no system call, and a mark that a "blocked" call takes away
 * as the kernel would. So what the agent does around a call is the same each
 * time, also where the kernel knows no rseq (under an emulator). Stores into
 * `bench_behind_mark` say in a trace where a call begins, is in the C library,
 * and ends.
 */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/types.h>
#include <time.h>

#include "agent/pool/counter.h"

#define EXPORT __attribute__((visibility("default")))

struct area { /* of the kernel's struct rseq what the agent looks at */
    _Alignas(32) uint32_t cpu_id_start;
    int32_t cpu_id;
    uint64_t rseq_cs;
    uint32_t rest[4];
};
static __thread struct area area __attribute__((tls_model("initial-exec")));

EXPORT extern ptrdiff_t __rseq_offset;
EXPORT extern unsigned __rseq_size;
ptrdiff_t __rseq_offset;
unsigned __rseq_size = sizeof(struct area);

EXPORT extern volatile uint32_t bench_behind_mark[4];
volatile uint32_t bench_behind_mark[4] __attribute__((aligned(64)));
EXPORT extern int bench_behind_blocks; /* the next receive or wait does */
int bench_behind_blocks;
EXPORT extern int bench_behind_empty; /* a receive finds nothing */
int bench_behind_empty;
/* Not 0: each call leaves the counter of when it began and ended; 1: and takes
 * the first-level caches away, as a system call does. */
EXPORT extern int bench_behind_cold;
int bench_behind_cold;
EXPORT extern uint64_t bench_behind_at[2];
uint64_t bench_behind_at[2];

__attribute__((constructor)) static void begin(void)
{
    __rseq_offset = (char *)&area - (char *)__builtin_thread_pointer();
}

#define LINES 2048 /* of code, and of data: twice what a first level holds */
static void other_code(void)
{
#if defined(__x86_64__)
    __asm__ volatile(".balign 64\n.rept 2048\njmp 1f\n.balign 64\n1:\n.endr");
#endif
}

#define LINES_MOST 131072 /* 8 MiB */
static void touch(int lines)
{
    static volatile char data[64 * LINES_MOST];
    for (int i = 0; i < lines; i++)
        data[64 * i]++;
    other_code();
}

static void go_cold(void)
{
    touch(LINES);
}

/* What a program does between two calls that works on as many lines. */
EXPORT void bench_behind_work(int lines);
void bench_behind_work(int lines)
{
    if (lines)
        touch(lines < LINES_MOST ? lines : LINES_MOST);
}

static void may_block(void)
{
    const struct timespec nap = {0, 20000000};
    if (!bench_behind_blocks)
        return;
    if (!bench_behind_cold)
        nanosleep(&nap, NULL);
    else
        for (uint64_t from = ips_counter_read();
             ips_counter_read() - from < 10000;)
            continue; /* 2 us and more */
    area.rseq_cs = 0;
}

static void begins(void)
{
    if (bench_behind_cold)
        bench_behind_at[0] = ips_counter_read();
    bench_behind_mark[1]++;
}

static void ends(void)
{
    if (bench_behind_cold == 1)
        go_cold();
    bench_behind_mark[2]++;
    if (bench_behind_cold)
        bench_behind_at[1] = ips_counter_read();
}

EXPORT ssize_t send(int fd, const void *bytes, size_t n, int flags);
ssize_t send(int fd, const void *bytes, size_t n, int flags)
{
    begins();
    (void)fd;
    (void)bytes;
    (void)flags;
    ends();
    return (ssize_t)n;
}

EXPORT ssize_t recv(int fd, void *bytes, size_t n, int flags);
ssize_t recv(int fd, void *bytes, size_t n, int flags)
{
    begins();
    (void)fd;
    (void)bytes;
    (void)flags;
    may_block();
    ends();
    if (bench_behind_empty) {
        errno = EAGAIN;
        return -1;
    }
    return (ssize_t)n;
}

EXPORT int epoll_wait(int epfd, struct epoll_event *events, int most,
                      int timeout);
int epoll_wait(int epfd, struct epoll_event *events, int most, int timeout)
{
    begins();
    (void)epfd;
    (void)most;
    (void)timeout;
    may_block();
    events[0] = (struct epoll_event){.events = EPOLLIN};
    ends();
    return 1;
}
