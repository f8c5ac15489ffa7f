/*
 * bench_procs [CALLS]: what the hooks of -finstrument-functions cost, in ns per
 * call (entry and exit), beside hooks that do nothing, called in the same way;
 * batches of both take turns, medians of 15. Where the library is not loaded
 * the C library's own empty hooks are measured. Run it as
 *
 *   ipsrun --no-daemons --procedures=sample bench_procs           counters
 *   ipsrun --no-daemons --procedures=exact --budget 100 bench_procs    events
 *   ipsrun --no-daemons --procedures=exact bench_procs    events, then counters
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BATCHES = 15, PROCEDURES = 8 };

typedef void (*hook)(void *procedure, void *site);

static uint64_t now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

__attribute__((noinline)) static void empty(void *procedure, void *site)
{
    (void)procedure;
    (void)site;
    __asm__ volatile("" ::: "memory");
}

static double batch(hook enter, hook leave, long calls)
{
    char *at = (char *)(uintptr_t)batch;
    uint64_t start = now_ns();
    for (long i = 0; i < calls; i++) {
        char *procedure = at + i % PROCEDURES * 48;
        enter(procedure, at);
        leave(procedure, at);
    }
    return (double)(now_ns() - start) / (double)calls;
}

static int by_value(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static hook find(const char *name)
{
    void *found = dlsym(RTLD_DEFAULT, name);
    hook h = empty;
    if (found)
        memcpy(&h, &found, sizeof(h));
    return h;
}

int main(int argc, char **argv)
{
    long calls = argc > 1 ? strtol(argv[1], NULL, 10) : 20000;
    double with[BATCHES], without[BATCHES], extra[BATCHES];
    hook enter = find("__cyg_profile_func_enter");
    hook leave = find("__cyg_profile_func_exit");
    batch(enter, leave, calls); /* tables and pages */
    for (int b = 0; b < BATCHES; b++) {
        without[b] = batch(empty, empty, calls);
        with[b] = batch(enter, leave, calls);
        extra[b] = with[b] - without[b];
    }
    qsort(with, BATCHES, sizeof(*with), by_value);
    qsort(without, BATCHES, sizeof(*without), by_value);
    qsort(extra, BATCHES, sizeof(*extra), by_value);
    printf("empty_ns=%.2f hooks_ns=%.2f extra_ns=%.2f [%.2f, %.2f]\n",
           without[BATCHES / 2], with[BATCHES / 2], extra[BATCHES / 2],
           extra[0], extra[BATCHES - 1]);
    return 0;
}
