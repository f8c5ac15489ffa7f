/*
 * Stands behind the agent in LD_PRELOAD, in place of the C library's send,
 * recv, epoll_wait and rseq area, for tests/bench/run count: calls that move
 * nothing and make no system call, and a mark that a "blocked" call takes away
 * as the kernel would. So what the agent does around a call is the same each
 * time, also where the kernel knows no rseq (under an emulator). Stores into
 * `bench_behind_mark` say in a trace where a call begins, is in the C library,
 * and ends.
 */
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/types.h>
#include <time.h>

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

__attribute__((constructor)) static void begin(void)
{
    __rseq_offset = (char *)&area - (char *)__builtin_thread_pointer();
}

static void may_block(void)
{
    const struct timespec nap = {0, 20000000};
    if (!bench_behind_blocks)
        return;
    nanosleep(&nap, NULL);
    area.rseq_cs = 0;
}

EXPORT ssize_t send(int fd, const void *bytes, size_t n, int flags);
ssize_t send(int fd, const void *bytes, size_t n, int flags)
{
    bench_behind_mark[1]++;
    (void)fd;
    (void)bytes;
    (void)flags;
    bench_behind_mark[2]++;
    return (ssize_t)n;
}

EXPORT ssize_t recv(int fd, void *bytes, size_t n, int flags);
ssize_t recv(int fd, void *bytes, size_t n, int flags)
{
    bench_behind_mark[1]++;
    (void)fd;
    (void)bytes;
    (void)flags;
    may_block();
    bench_behind_mark[2]++;
    return (ssize_t)n;
}

EXPORT int epoll_wait(int epfd, struct epoll_event *events, int most,
                      int timeout);
int epoll_wait(int epfd, struct epoll_event *events, int most, int timeout)
{
    bench_behind_mark[1]++;
    (void)epfd;
    (void)most;
    (void)timeout;
    may_block();
    events[0] = (struct epoll_event){.events = EPOLLIN};
    bench_behind_mark[2]++;
    return 1;
}
