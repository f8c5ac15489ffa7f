/*
 * bench_start COUNT PROGRAM [ARG...]: starts the program COUNT times, one
 * after the other, and prints the mean ns from vfork to the end of the wait,
 * and of CPU time that the kernel charged parent and children; and what the
 * quickest tenth of the children took at most, which is little disturbed by
 * what else runs, and the median of them.
 * BENCH_PRELOAD is what the children get as LD_PRELOAD (this program itself
 * does without); BENCH_CORE the core that it and they are kept on; with
 * BENCH_FORK each is a fork child before.
 */
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double cpu_ns(int who)
{
    struct rusage u;
    getrusage(who, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e9 +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e3;
}

static int by_value(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

int main(int argc, char **argv)
{
    int count = argc > 2 ? atoi(argv[1]) : 0, status;
    double *child = calloc(count > 0 ? (size_t)count : 1, sizeof(*child));
    const char *preload = getenv("BENCH_PRELOAD");
    const char *core = getenv("BENCH_CORE");
    const bool forks = getenv("BENCH_FORK");
    if (count <= 0 || !child) {
        fputs("usage: bench_start COUNT PROGRAM [ARG...]\n", stderr);
        return 2;
    }
    close_range(3, ~0u, 0); /* nothing to inherit but 0, 1 and 2 */
    if (preload)
        setenv("LD_PRELOAD", preload, 1);
    if (core) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET((unsigned)atoi(core), &set);
        (void)sched_setaffinity(0, sizeof(set), &set);
    }
    double begin = now_ns();
    double cpu = cpu_ns(RUSAGE_SELF) + cpu_ns(RUSAGE_CHILDREN);
    for (int i = 0; i < count; i++) {
        pid_t pid = forks ? fork() : vfork();
        if (pid == 0) {
            execv(argv[2], argv + 2);
            _exit(127);
        }
        struct rusage u;
        if (pid < 0 || wait4(pid, &status, 0, &u) != pid || status != 0) {
            fprintf(stderr, "bench_start: %s failed\n", argv[2]);
            return 1;
        }
        child[i] = (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e9 +
                   (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e3;
    }
    begin = now_ns() - begin;
    cpu = cpu_ns(RUSAGE_SELF) + cpu_ns(RUSAGE_CHILDREN) - cpu;
    qsort(child, (size_t)count, sizeof(*child), by_value);
    printf("start %.1f cpu %.1f median %.1f tenth %.1f\n", begin / count,
           cpu / count, child[count / 2], child[count / 10]);
    free(child);
    return 0;
}
