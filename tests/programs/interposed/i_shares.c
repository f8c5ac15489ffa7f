/*
 * Spends known shares of its CPU time in two procedures, share_first and
 * share_second, in a pattern that may go along with the kernel's tick or the
 * period of the samples. Prints the address range of both, and the CPU time of
 * the first and of both in ns: by the thread's clock, or in the loops of
 * `pipe`, whose turns are shorter than reading it takes, by a turn's.
 *
 * usage: i_shares PATTERN PERIOD_US FIRST_US SECOND_US TURNS
 *   periodic   wakes every PERIOD_US by the clock, then both
 *   tick       wakes 0.3 ms after a multiple of 4 ms, then both
 *   alternate  wakes every PERIOD_US, then one of the two by turns
 *   random     sleeps up to PERIOD_US, then up to twice as much of both
 *   pipe       both, and a write and a read of a pipe after each
 *   cpu        both, without any call
 *   threads    a thread for each turn
 *   forks      a process for each turn
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TICK_NS 4000000

static struct sums {
    _Atomic uint64_t first, both;
} * sums;
static volatile uint64_t sink = 1;
static long first_count, second_count, turns, period_ns;
static const char *pattern;
static double loop_ns; /* an iteration */

static uint64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

#define LOOP(count)                                                            \
    do {                                                                       \
        uint64_t x_ = sink;                                                    \
        for (long i_ = 0; i_ < (count); i_++)                                  \
            x_ = x_ * 6364136223846793005u + 1442695040888963407u;             \
        sink = x_;                                                             \
    } while (0)

__attribute__((noinline)) static void share_first(long count)
{
    LOOP(count);
}
__attribute__((noinline)) static void share_first_end(void)
{
    sink++;
}
__attribute__((noinline)) static void share_second(long count)
{
    LOOP(count);
    sink++;
}
__attribute__((noinline)) static void share_second_end(void)
{
    sink += 2;
}

static void turn(long first, long second)
{
    uint64_t t0 = cpu_ns();
    if (first)
        share_first(first);
    uint64_t t1 = cpu_ns();
    if (second)
        share_second(second);
    uint64_t t2 = cpu_ns();
    atomic_fetch_add(&sums->first, t1 - t0);
    atomic_fetch_add(&sums->both, t2 - t0);
}

static void *thread(void *arg)
{
    turn(first_count, second_count);
    return arg;
}

static void sleep_until(struct timespec *t, long ns)
{
    t->tv_nsec += ns;
    while (t->tv_nsec >= 1000000000) {
        t->tv_nsec -= 1000000000;
        t->tv_sec++;
    }
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, t, NULL);
}

static int is(const char *name)
{
    return strcmp(pattern, name) == 0;
}

static void piped(int fd[2])
{
    char block[64] = "";
    share_first(first_count);
    if (write(fd[1], block, sizeof(block)) != sizeof(block) ||
        read(fd[0], block, sizeof(block)) != sizeof(block))
        exit(7);
    share_second(second_count);
    if (write(fd[1], block, sizeof(block)) != sizeof(block) ||
        read(fd[0], block, sizeof(block)) != sizeof(block))
        exit(7);
    atomic_fetch_add(&sums->first, (uint64_t)((double)first_count * loop_ns));
    atomic_fetch_add(
        &sums->both,
        (uint64_t)((double)(first_count + second_count) * loop_ns));
}

static void one(long i, struct timespec *t, int fd[2], unsigned *seed)
{
    if (is("pipe")) {
        piped(fd);
    } else if (is("threads")) {
        pthread_t id;
        if (pthread_create(&id, NULL, thread, NULL))
            exit(7);
        pthread_join(id, NULL);
    } else if (is("forks")) {
        pid_t pid = fork();
        if (pid == 0) {
            turn(first_count, second_count);
            _exit(0);
        }
        waitpid(pid, NULL, 0);
    } else if (is("alternate")) {
        sleep_until(t, period_ns);
        turn(i & 1 ? first_count : 0, i & 1 ? 0 : second_count);
    } else if (is("random")) {
        const struct timespec nap = {0, rand_r(seed) % period_ns};
        nanosleep(&nap, NULL);
        turn(rand_r(seed) % (2 * first_count),
             rand_r(seed) % (2 * second_count));
    } else {
        if (is("periodic"))
            sleep_until(t, period_ns);
        if (is("tick")) {
            clock_gettime(CLOCK_MONOTONIC, t);
            sleep_until(t, TICK_NS - t->tv_nsec % TICK_NS + 300000);
        }
        turn(first_count, second_count);
    }
}

int main(int argc, char **argv)
{
    if (argc < 6)
        return 2;
    int fd[2];
    unsigned seed = 1;
    struct timespec t;
    pattern = argv[1];
    period_ns = atol(argv[2]) * 1000;
    turns = atol(argv[5]);
    sums = mmap(NULL, sizeof(*sums), PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (sums == MAP_FAILED || pipe(fd))
        return 7;
    loop_ns = 1e9;
    for (int i = 0; i < 10; i++) { /* the quickest: undisturbed */
        uint64_t before = cpu_ns();
        LOOP(50000);
        double ns = (double)(cpu_ns() - before) / 50000;
        loop_ns = ns < loop_ns ? ns : loop_ns;
    }
    first_count = (long)(atof(argv[3]) * 1000 / loop_ns) + 1;
    second_count = (long)(atof(argv[4]) * 1000 / loop_ns) + 1;
    clock_gettime(CLOCK_MONOTONIC, &t);
    for (long i = 0; i < turns; i++)
        one(i, &t, fd, &seed);
    printf("share_first %p %p\n", (void *)(uintptr_t)share_first,
           (void *)(uintptr_t)share_first_end);
    printf("share_second %p %p\n", (void *)(uintptr_t)share_second,
           (void *)(uintptr_t)share_second_end);
    printf("%llu %llu\n", (unsigned long long)atomic_load(&sums->first),
           (unsigned long long)atomic_load(&sums->both));
    return 0;
}
