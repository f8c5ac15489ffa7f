/*
 * What tests/bench/run count traces.
 *
 * Usage: bench_count make POOL RUN SLOWER EXACT   makes a run whose clock is so
 *        many times slower than the counter: an emulator does not seem to take
 *        time; EXACT 1: procedures are recorded, 0: they are not
 *        bench_count calls ROUNDS   sends and receives, bench_behind.so behind
 *        the agent: ROUNDS that do not block, ROUNDS whose receive does, as
 *        many of epoll_wait, what an event loop does for ROUNDS requests, and
 *        ROUNDS marks. Prints where bench_behind_mark is.
 *        bench_count cold ROUNDS [LINES]   ns that a send and a receive take
 *        beside what is behind the agent, where that leaves nothing in the
 *        first-level caches, or after work on so many lines of memory; then
 *        where the receive blocks, too, and what an event loop does for a
 *        request
 *        bench_count hot ROUNDS CALLS PAUSE   ns of the thread's CPU time that
 *        a send, a receive, a mark, the hooks of a procedure and a stamp take
 *        in loops of so many calls, with pauses of so many us between loops;
 *        the calls do nothing
 *
 * Exit status: 0, 1 where something is missing, 2 wrong usage.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "agent/pool/counter.h"
#include "agent/pool/pool.h"

static int make(const char *root, const char *run, unsigned slower, bool exact)
{
    struct ips_err err = {0};
    char dir[600], path[620];
    const struct ips_run_options options = {
        .pool_root = root, .run = run, .machine = "m", .command = "count"};
    if (ips_pool_make_or_join_run(&options, dir, sizeof(dir), &err) < 0) {
        fprintf(stderr, "bench_count: %s\n", err.msg);
        return 1;
    }
    snprintf(path, sizeof(path), "%s/control", dir);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    struct ips_control *c =
        fd < 0
            ? MAP_FAILED
            : mmap(NULL, sizeof(*c), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (c == MAP_FAILED) {
        perror(path);
        return 1;
    }
    c->clock.mult_q32 /= slower;
    c->cpu_mode = IPS_CPU_FAST;
    c->procedures = exact ? IPS_PROCEDURES_EXACT : IPS_PROCEDURES_OFF;
    c->budget_ppm = 1000 * 1000000u; /* never counters */
    munmap(c, sizeof(*c));
    close(fd);
    return 0;
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void *find(const char *name)
{
    return dlsym(RTLD_DEFAULT, name);
}

/* The library behind the agent, and what the calls are made on. */
struct behind {
    volatile uint32_t *mark;
    int *blocks, *empty, *cold;
    const volatile uint64_t *at;
    void (*work)(int);
    int fd[2], epoll;
};

static int find_behind(struct behind *b)
{
    struct epoll_event event = {.events = EPOLLIN};
    void *found = find("bench_behind_work");
    memcpy(&b->work, &found, sizeof(b->work));
    b->mark = find("bench_behind_mark");
    b->blocks = find("bench_behind_blocks");
    b->empty = find("bench_behind_empty");
    b->cold = find("bench_behind_cold");
    b->at = find("bench_behind_at");
    if (!b->at || !b->blocks || !b->empty || !b->cold || !b->mark || !found) {
        fprintf(stderr, "bench_count: bench_behind.so is not preloaded\n");
        return -1;
    }
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, b->fd) < 0 ||
        (b->epoll = epoll_create1(EPOLL_CLOEXEC)) < 0 ||
        epoll_ctl(b->epoll, EPOLL_CTL_ADD, b->fd[1], &event) < 0) {
        perror("bench_count");
        return -1;
    }
    return 0;
}

/* What a call takes beside what is behind the agent: counts from before it to
 * its start there, and from its end there to after it. */
static uint64_t beside(const struct behind *b, uint64_t from)
{
    uint64_t to = ips_counter_read();
    return b->at[0] - from + (to - b->at[1]);
}

static uint64_t one_send(const struct behind *b)
{
    static const char bytes[64] = "the same sixty-four bytes every time";
    uint64_t from = ips_counter_read();
    send(b->fd[0], bytes, sizeof(bytes), 0);
    return beside(b, from);
}

static uint64_t one_receive(const struct behind *b)
{
    char bytes[64];
    uint64_t from = ips_counter_read();
    recv(b->fd[1], bytes, sizeof(bytes), 0);
    return beside(b, from);
}

static uint64_t one_wait(const struct behind *b)
{
    struct epoll_event got[1];
    uint64_t from = ips_counter_read();
    epoll_wait(b->epoll, got, 1, -1);
    return beside(b, from);
}

/* What an event loop does for a request: a receive that finds nothing, a wait
 * that blocks, a receive, a send. */
static uint64_t one_request(const struct behind *b)
{
    *b->empty = 1;
    uint64_t took = one_receive(b);
    *b->empty = 0;
    *b->blocks = 1;
    took += one_wait(b);
    *b->blocks = 0;
    return took + one_receive(b) + one_send(b);
}

/* Between two stores that a trace is cut at. */
static void marked(struct behind *b, uint64_t (*call)(const struct behind *))
{
    b->mark[0] = 1;
    call(b);
    b->mark[3]++;
}

static int calls(uint64_t rounds)
{
    struct behind b;
    void (*mark)(const char *) = NULL;
    void *found = find("ips_mark");
    memcpy(&mark, &found, sizeof(mark));
    if (find_behind(&b) < 0)
        return 1;
    printf("%p\n", (void *)(uintptr_t)b.mark);
    fflush(stdout);
    for (*b.blocks = 0; *b.blocks < 2; ++*b.blocks)
        for (uint64_t i = 0; i < rounds; i++) {
            marked(&b, one_send);
            marked(&b, one_receive);
        }
    for (*b.blocks = 0; *b.blocks < 2; ++*b.blocks)
        for (uint64_t i = 0; i < rounds; i++)
            marked(&b, one_wait);
    for (uint64_t i = 0; i < rounds; i++)
        marked(&b, one_request);
    for (uint64_t i = 0; i < rounds; i++) {
        b.mark[0] = 1;
        if (mark)
            mark("a mark");
        b.mark[3]++;
    }
    return 0;
}

/* The quarter point: calls that were disturbed are not in it. */
static uint64_t quarter(uint64_t *took, uint64_t n)
{
    qsort(took, n, sizeof(*took), by_value);
    return took[n / 4];
}

static double ns_per_step(void)
{
    struct timespec a, b;
    const struct timespec nap = {0, 50000000};
    clock_gettime(CLOCK_MONOTONIC, &a);
    uint64_t from = ips_counter_read();
    nanosleep(&nap, NULL);
    clock_gettime(CLOCK_MONOTONIC, &b);
    uint64_t steps = ips_counter_read() - from;
    return ((double)(b.tv_sec - a.tv_sec) * 1e9 +
            (double)(b.tv_nsec - a.tv_nsec)) /
           (double)steps;
}

static int cold(uint64_t rounds, int lines)
{
    uint64_t *sent = calloc(rounds, sizeof(*sent));
    uint64_t *received = calloc(rounds, sizeof(*received));
    struct behind b;
    if (find_behind(&b) < 0 || !sent || !received || !rounds)
        return 1;
    *b.cold = lines ? 2 : 1;
    const double per_step = ns_per_step();
    for (*b.blocks = 0; *b.blocks < 2; ++*b.blocks) {
        for (uint64_t i = 0; i < rounds; i++) {
            b.work(lines);
            sent[i] = one_send(&b);
            b.work(lines);
            received[i] = one_receive(&b);
        }
        printf("%.1f %.1f\n", per_step * (double)quarter(sent, rounds),
               per_step * (double)quarter(received, rounds));
    }
    for (uint64_t i = 0; i < rounds; i++) {
        b.work(lines);
        sent[i] = one_request(&b);
    }
    printf("%.1f\n", per_step * (double)quarter(sent, rounds));
    free(sent);
    free(received);
    return 0;
}

/* --- in a loop ----------------------------------------------------------- */

enum { SEND, RECEIVE, MARK, PAIR, STAMP, KINDS };

/* The C library has hooks that do nothing, and so does who is not recorded. */
void __cyg_profile_func_enter(void *procedure, void *site);
void __cyg_profile_func_exit(void *procedure, void *site);

static uint64_t thread_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t batch(int kind, uint64_t n, const int fd[2],
                      void (*mark)(const char *))
{
    char bytes[64] = "the same sixty-four bytes every time";
    void *procedure = (void *)(uintptr_t)thread_ns; /* any */
    uint64_t from = thread_ns();
    for (uint64_t i = 0; i < n; i++) {
        if (kind == SEND)
            send(fd[0], bytes, sizeof(bytes), 0);
        else if (kind == RECEIVE)
            recv(fd[1], bytes, sizeof(bytes), 0);
        else if (kind == MARK && mark)
            mark("a mark");
        else if (kind == PAIR) {
            __cyg_profile_func_enter(procedure, NULL);
            __cyg_profile_func_exit(procedure, NULL);
        } else if (kind == STAMP)
            __asm__ volatile("" : : "r"(ips_counter_read()) : "memory");
        __asm__ volatile("" ::: "memory");
    }
    return thread_ns() - from;
}

/* The first half of the rounds is for segments to come back in. */
static int hot(uint64_t rounds, uint64_t n, uint64_t pause_us)
{
    const struct timespec pause = {(time_t)(pause_us / 1000000),
                                   (long)(pause_us % 1000000) * 1000};
    uint64_t *took[KINDS];
    int fd[2];
    void (*mark)(const char *) = NULL;
    void *found = find("ips_mark");
    memcpy(&mark, &found, sizeof(mark));
    if (!rounds || !n || socketpair(AF_UNIX, SOCK_STREAM, 0, fd) < 0)
        return 1;
    for (int kind = 0; kind < KINDS; kind++)
        if (!(took[kind] = calloc(rounds, sizeof(uint64_t))))
            return 1;
    for (uint64_t i = 0; i < rounds; i++)
        for (int kind = 0; kind < KINDS; kind++) {
            took[kind][i] = batch(kind, n, fd, mark);
            if (pause_us)
                nanosleep(&pause, NULL);
        }
    for (int kind = 0; kind < KINDS; kind++) {
        const uint64_t half = rounds / 2;
        printf("%.2f ",
               (double)quarter(took[kind] + half, rounds - half) / (double)n);
        free(took[kind]);
    }
    putchar('\n');
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 6 && strcmp(argv[1], "make") == 0 && atoi(argv[4]) > 0)
        return make(argv[2], argv[3], (unsigned)atoi(argv[4]),
                    atoi(argv[5]) != 0);
    if (argc == 3 && strcmp(argv[1], "calls") == 0)
        return calls(strtoull(argv[2], NULL, 10));
    if (argc == 3 && strcmp(argv[1], "cold") == 0)
        return cold(strtoull(argv[2], NULL, 10), 0);
    if (argc == 4 && strcmp(argv[1], "cold") == 0)
        return cold(strtoull(argv[2], NULL, 10), atoi(argv[3]));
    if (argc == 5 && strcmp(argv[1], "hot") == 0)
        return hot(strtoull(argv[2], NULL, 10), strtoull(argv[3], NULL, 10),
                   strtoull(argv[4], NULL, 10));
    fprintf(
        stderr,
        "usage: bench_count make POOL RUN SLOWER EXACT | calls ROUNDS | cold "
        "ROUNDS [LINES] | hot ROUNDS CALLS PAUSE\n");
    return 2;
}
