/*
 * bench_agent [RECORDS]: what recording costs in the calling thread, in ns per
 * record: nothing (the loop), a stamp, a stamp with the thread's CPU time, the
 * CPU clock itself, records with one and with two of those (growth of the pool
 * included), and the latter where no run is recorded. Medians of 9 batches; no
 * pass or fail.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/cpu.h"
#include "agent/pool.h"

enum { BATCHES = 9 };

static uint64_t now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC_RAW, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void nothing(void)
{
    __asm__ volatile("" ::: "memory");
}

static void stamp(void)
{
    (void)ips_core_now();
}

static void moment(void)
{
    (void)ips_moment_now();
}

static void cpu_clock(void)
{
    (void)ips_cpu_read();
}

static void event(void)
{
    struct ips_moment m = ips_moment_now();
    struct ips_rec_proc *r = ips_rec_begin_at(IPS_REC_ENTER, sizeof(*r), m.t);
    if (!r)
        return;
    r->cpu = m.cpu;
    ips_rec_publish(r);
}

static void call(void)
{
    if (!ips_core_active())
        return;
    struct ips_moment call = ips_moment_now();
    struct ips_moment ret = ips_moment_after(&call);
    struct ips_rec_io *r = ips_rec_begin_at(IPS_REC_SEND, sizeof(*r), call.t);
    if (!r)
        return;
    r->t_ret = ret.t;
    r->cpu = call.cpu;
    r->cpu_ret = ret.cpu;
    r->result = 1;
    r->site = 1;
    ips_rec_publish(r);
}

static int by_value(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static void measure(const char *what, void (*one)(void), long records)
{
    double ns[BATCHES];
    for (int b = 0; b < BATCHES; b++) {
        uint64_t start = now_ns();
        for (long i = 0; i < records; i++)
            one();
        ns[b] = (double)(now_ns() - start) / (double)records;
    }
    qsort(ns, BATCHES, sizeof(ns[0]), by_value);
    printf("%-34s %8.1f ns (%.1f to %.1f)\n", what, ns[BATCHES / 2], ns[0],
           ns[BATCHES - 1]);
    fflush(stdout);
}

/* Each in a process of its own: attached once, and a fresh quota. */
static void in_child(const char *what, void (*one)(void), long records,
                     bool recording)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        if (recording && !ips_core_init(IPS_START_IMAGE)) {
            fprintf(stderr, "bench_agent: not recording\n");
            _exit(1);
        }
        measure(what, one, records);
        _exit(0);
    }
    waitpid(pid, NULL, 0);
}

int main(int argc, char **argv)
{
    long records = argc > 1 ? atol(argv[1]) : 50000;
    char root[] = "/dev/shm/ips-bench-XXXXXX", dir[600], command[700];
    struct ips_err err = {0};
    if (records < 1 || !mkdtemp(root))
        return 2;
    struct ips_run_options opt = {
        .pool_root = root, .run = "r", .machine = "m", .command = "bench"};
    if (ips_pool_make_run(&opt, dir, sizeof(dir), &err) < 0) {
        fprintf(stderr, "bench_agent: %s\n", err.msg);
        return 1;
    }
    setenv("IPS_POOL", root, 1);
    setenv("IPS_RUN", "r", 1);
    in_child("loop", nothing, records, true);
    in_child("stamp (the processor's counter)", stamp, records, true);
    in_child("moment: stamp and CPU time", moment, records, true);
    in_child("read the thread's CPU clock", cpu_clock, records, true);
    in_child("record, one moment", event, records, true);
    in_child("record, call and return", call, records, true);
    in_child("the same, no run", call, records, false);
    snprintf(command, sizeof(command), "rm -rf %s", root);
    return system(command) != 0;
}
