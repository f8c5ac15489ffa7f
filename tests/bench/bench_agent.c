/*
 * bench_agent [RECORDS]: what recording costs in the calling thread, in ns per
 * record: nothing (the loop), a stamp, a stamp with the thread's CPU time, the
 * CPU clock itself, a mark, records with one and with two moments, an entry and
 * exit - the pool's pages made for them, and in segments used again -, and a
 * call where no run is recorded. CPU time of the thread, medians of 15 batches;
 * no pass or fail.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/cpu.h"
#include "agent/io_event.h"
#include "agent/ips_api.h"
#include "agent/pool.h"

enum { BATCHES = 15 };

static char dir[600];

static uint64_t now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
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
    (void)ips_io_event(IPS_REC_SEND, 1, IPS_OP_DATA, &call, &ret, 1, 0, 1, 0);
}

static void mark(void)
{
    ips_mark_record("a mark");
}

static void procedure(void)
{
    for (int i = 0; i < 2; i++) {
        struct ips_moment m;
        uint64_t left = ips_proc_event_short(
            i ? IPS_REC_EXIT_SHORT : IPS_REC_ENTER_SHORT, 1);
        if (!left)
            continue;
        ips_short_undo(left, sizeof(struct ips_rec_head));
        (void)ips_proc_event_long(i ? IPS_REC_EXIT : IPS_REC_ENTER, 1, &m);
    }
}

/* What a slave does with closed segments. */
static void drain(void)
{
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));) {
        struct ips_segment_header head;
        struct ips_err err;
        int fd = openat(dirfd(d), e->d_name, O_RDWR);
        if (strstr(e->d_name, IPS_SEGMENT_SUFFIX) && fd >= 0 &&
            pread(fd, &head, sizeof(head), 0) == (ssize_t)sizeof(head) &&
            head.state == IPS_SEGMENT_CLOSED &&
            ips_segment_set_drained(fd, &err) < 0)
            fprintf(stderr, "bench_agent: %s\n", err.msg);
        if (fd >= 0)
            close(fd);
    }
    if (d)
        closedir(d);
}

static int by_value(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static void measure(const char *what, void (*one)(void), long records,
                    bool drained)
{
    double ns[BATCHES];
    for (int b = drained ? -3 : 0; b < BATCHES; b++) {
        if (drained)
            drain();
        uint64_t start = now_ns();
        for (long i = 0; i < records; i++)
            one();
        uint64_t took = now_ns() - start;
        if (b >= 0)
            ns[b] = (double)took / (double)records;
    }
    qsort(ns, BATCHES, sizeof(ns[0]), by_value);
    printf("%-34s %8.1f ns (%.1f to %.1f)\n", what, ns[BATCHES / 2], ns[0],
           ns[BATCHES - 1]);
    fflush(stdout);
}

/* Each in a process of its own: attached once, and a fresh quota. */
static void in_child(const char *what, void (*one)(void), long records,
                     bool recording, bool drained)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        if (recording && !ips_core_init(IPS_START_IMAGE)) {
            fprintf(stderr, "bench_agent: not recording\n");
            _exit(1);
        }
        measure(what, one, records, drained);
        _exit(0);
    }
    waitpid(pid, NULL, 0);
}

int main(int argc, char **argv)
{
    long records = argc > 1 ? atol(argv[1]) : 50000;
    char root[] = "/dev/shm/ips-bench-XXXXXX", command[700];
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
    in_child("loop", nothing, records, true, false);
    in_child("stamp (the processor's counter)", stamp, records, true, false);
    in_child("moment: stamp and CPU time", moment, records, true, false);
    in_child("read the thread's CPU clock", cpu_clock, records, true, false);
    in_child("mark", mark, records, true, false);
    in_child("mark, pages there", mark, records, true, true);
    in_child("record, one moment", event, records, true, false);
    in_child("record, one moment, pages there", event, records, true, true);
    in_child("record, call and return", call, records, true, false);
    in_child("the same, pages there", call, records, true, true);
    in_child("entry and exit", procedure, records, true, false);
    in_child("entry and exit, pages there", procedure, records, true, true);
    in_child("call and return, no run", call, records, false, false);
    snprintf(command, sizeof(command), "rm -rf %s", root);
    return system(command) != 0;
}
