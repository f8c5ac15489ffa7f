/* Procedures with known shares of the CPU, and what sampling could disturb.
 *
 *   i_procedures hot MS          hot_three takes three times what hot_one does,
 *                                each called by its own caller_*
 *   i_procedures deep            the known chain, through qsort, waits in read
 *   i_procedures plugin PATH     PATH is loaded, computes 300 ms and writes,
 *                                is closed; and again, writing alone
 *
 * Prints, for each procedure that a test asks about, "NAME START END" in hex:
 * its addresses here. */

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "asleep.h"
#include "compute.h"

#define NOINLINE __attribute__((noinline, noclone))

static uint64_t cpu_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Each in a section of its own, whose bounds the linker names. */
#define PROCEDURE(name)                                                        \
    extern const char __start_in_##name[], __stop_in_##name[];                 \
    NOINLINE __attribute__((section("in_" #name)))
#define SAY(name)                                                              \
    printf(#name " %lx %lx\n", (unsigned long)__start_in_##name,               \
           (unsigned long)__stop_in_##name)

static volatile uint64_t sink;

PROCEDURE(hot_one) static void hot_one(uint64_t n)
{
    COMPUTE_TURNS(n);
}
PROCEDURE(hot_three) static void hot_three(uint64_t n)
{
    COMPUTE_TURNS(n);
}
PROCEDURE(caller_one) static void caller_one(uint64_t n)
{
    hot_one(n);
    sink++; /* no tail call */
}
PROCEDURE(caller_three) static void caller_three(uint64_t n)
{
    hot_three(3 * n);
    sink++;
}

static int hot(uint64_t ms)
{
    uint64_t end = cpu_ns() + ms * 1000000u;
    SAY(hot_one);
    SAY(hot_three);
    SAY(caller_one);
    SAY(caller_three);
    do {
        caller_one(20000);
        caller_three(20000);
    } while (cpu_ns() < end);
    return 0;
}

/* --- a known chain with a wait at its end ----------------------------------
 */

static int pipe_fd[2];

PROCEDURE(chain_wait) static void chain_wait(void)
{
    char c;
    if (read(pipe_fd[0], &c, 1) != 1)
        exit(1);
    sink++;
}
PROCEDURE(chain_compare) static int chain_compare(const void *a, const void *b)
{
    static int waited;
    if (!waited++)
        chain_wait();
    return memcmp(a, b, 1);
}
PROCEDURE(chain_sort) static void chain_sort(size_t bytes)
{
    volatile char *room = __builtin_alloca(bytes);
    memset((void *)(uintptr_t)room, 7, bytes);
    qsort((void *)(uintptr_t)room, bytes, 1, chain_compare);
    sink += (uint64_t)room[0];
}

static int deep(void)
{
    SAY(chain_wait);
    SAY(chain_compare);
    SAY(chain_sort);
    fflush(stdout);
    if (pipe(pipe_fd) < 0)
        return 1;
    if (fork() == 0) {
        until_asleep(getppid());
        usleep(20000);
        _exit(write(pipe_fd[1], "x", 1) != 1);
    }
    chain_sort(64);
    return 0;
}

/* --- code that comes and goes -----------------------------------------------
 */

static int plugin_once(const char *path, uint64_t ms)
{
    int (*run)(int, uint64_t);
    void *handle = dlopen(path, RTLD_NOW);
    void *found = handle ? dlsym(handle, "plugin_run") : NULL;
    if (!found)
        return 1;
    memcpy(&run, &found, sizeof(run));
    int good = run(pipe_fd[1], ms);
    sink++;
    return dlclose(handle) != 0 || !good;
}

static int plugin(const char *path)
{
    return pipe(pipe_fd) < 0 || plugin_once(path, 300) || plugin_once(path, 0);
}

int main(int argc, char **argv)
{
    if (argc == 3 && !strcmp(argv[1], "hot"))
        return hot(strtoull(argv[2], NULL, 10));
    if (argc == 2 && !strcmp(argv[1], "deep"))
        return deep();
    if (argc == 3 && !strcmp(argv[1], "plugin"))
        return plugin(argv[2]);
    fputs("usage: see the head of i_procedures.c\n", stderr);
    return 2;
}
