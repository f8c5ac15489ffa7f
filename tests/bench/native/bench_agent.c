/*
 * bench_agent [RECORDS]: what recording costs in the calling thread, in ns per
 * record: nothing (the loop), a stamp, a stamp with the thread's CPU time, the
 * CPU clock itself, a mark, records with one and with two moments, an entry and
 * exit - the pool's pages made for them, and in segments used again -, and a
 * call where no run is recorded. CPU time of the thread, medians of 15 batches,
 * the empty loop taken off; "beyond": beyond the stamps that it takes, by
 * stamps read in turn with it, 1000 and 1000: on some machines a stamp takes a
 * third more in one moment than in the next. No pass or fail.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/api/api.h"
#include "agent/pool/pool.h"
#include "agent/record/cpu.h"
#include "agent/record/io_event.h"

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
    __asm__ volatile("" : : "r"(IPS_STAMP()) : "memory");
}

static void moment(void)
{
    (void)ips_moment_now();
}

static void cpu_clock(void)
{
    (void)ips_cpu_read_clock_and_end_guesses();
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
    if (!ips_core_is_recording())
        return;
    struct ips_moment call = ips_moment_now();
    struct ips_moment ret = ips_moment_of_return(&call);
    (void)ips_io_write_record(IPS_REC_SEND, 1, IPS_OP_DATA, &call, &ret, 1, 0,
                              1, 0);
}

static void mark(void)
{
    ips_record_mark("a mark");
}

static void procedure(void)
{
    for (int i = 0; i < 2; i++) {
        struct ips_moment m;
        uint64_t left = ips_try_write_short_procedure_event(
            i ? IPS_REC_EXIT_SHORT : IPS_REC_ENTER_SHORT, 1);
        if (!left)
            continue;
        ips_short_record_give_back_if_reserved(left,
                                               sizeof(struct ips_rec_head));
        (void)ips_write_long_procedure_event(i ? IPS_REC_EXIT : IPS_REC_ENTER,
                                             1, &m);
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
            ips_segment_zero_and_set_drained(fd, 0, &err) < 0)
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

static double slice(void (*one)(void), long records)
{
    uint64_t start = now_ns();
    for (long i = 0; i < records; i++)
        one();
    return (double)(now_ns() - start);
}

static double median(double *ns)
{
    qsort(ns, BATCHES, sizeof(ns[0]), by_value);
    return ns[BATCHES / 2];
}

struct row {
    const char *what;
    void (*one)(void);
    double stamps; /* that it takes */
    bool recording, drained;
};

static void measure(const struct row *r, long records)
{
    double ns[BATCHES], beyond[BATCHES];
    for (int b = r->drained ? -3 : 0; b < BATCHES; b++) {
        double loop = 0, stamps = 0, took = 0;
        if (r->drained)
            drain();
        for (long left = records; left > 0; left -= 1000) {
            long n = left < 1000 ? left : 1000;
            loop += slice(nothing, n);
            stamps += slice(stamp, n);
            took += slice(r->one, n);
        }
        if (b < 0)
            continue;
        ns[b] = (took - loop) / (double)records;
        beyond[b] = ns[b] - r->stamps * (stamps - loop) / (double)records;
    }
    double middle = median(ns);
    printf("%-34s %7.1f ns (%.1f to %.1f)", r->what, middle, ns[0],
           ns[BATCHES - 1]);
    middle = median(beyond);
    if (r->stamps > 0)
        printf(", beyond %.0f stamp%s %.1f (%.1f to %.1f)", r->stamps,
               r->stamps > 1 ? "s" : "", middle, beyond[0],
               beyond[BATCHES - 1]);
    putchar('\n');
    fflush(stdout);
}

/* Each in a process of its own: attached once, and a fresh quota. */
static void in_child(const struct row *r, long records)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        if (r->recording &&
            !ips_core_init_and_start_main_stream(IPS_START_IMAGE)) {
            fprintf(stderr, "bench_agent: not recording\n");
            _exit(1);
        }
        measure(r, records);
        _exit(0);
    }
    waitpid(pid, NULL, 0);
}

static const struct row rows[] = {
    {"stamp (the processor's counter)", stamp, 0, true, false},
    {"moment: stamp and CPU time", moment, 1, true, false},
    {"read the thread's CPU clock", cpu_clock, 0, true, false},
    {"mark", mark, 1, true, false},
    {"mark, pages there", mark, 1, true, true},
    {"record, one moment", event, 1, true, false},
    {"record, one moment, pages there", event, 1, true, true},
    {"record, call and return", call, 2, true, false},
    {"the same, pages there", call, 2, true, true},
    {"entry and exit", procedure, 2, true, false},
    {"entry and exit, pages there", procedure, 2, true, true},
    {"call and return, no run", call, 0, false, false},
};

int main(int argc, char **argv)
{
    long records = argc > 1 ? atol(argv[1]) : 50000;
    char root[] = "/dev/shm/ips-bench-XXXXXX", command[700];
    struct ips_err err = {0};
    if (records < 1 || !mkdtemp(root))
        return 2;
    struct ips_run_options opt = {
        .pool_root = root, .run = "r", .machine = "m", .command = "bench"};
    if (ips_pool_make_or_join_run(&opt, dir, sizeof(dir), &err) < 0) {
        fprintf(stderr, "bench_agent: %s\n", err.msg);
        return 1;
    }
    setenv("IPS_POOL", root, 1);
    setenv("IPS_RUN", "r", 1);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        in_child(&rows[i], records);
    snprintf(command, sizeof(command), "rm -rf %s", root);
    return system(command) != 0;
}
