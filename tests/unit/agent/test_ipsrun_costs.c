/* How ipsrun measures what the interposer adds to a call or a start, with a
 * clock that only wrapped calls advance: every result is a number known before.
 * Catches: one call's cost stored as another's, a cost that is counted twice or
 * for too many calls, a wrong unit, a subject that is recorded, or not, against
 * its purpose, or left behind. The test is its own subject and empty image. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka last of these */
#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "agent/record/sys.h"
#include "tests/unit/help/pool_help.h"

/* ---- a clock that wrapped calls advance by so many ns ---- */

enum {
    WRITE = 7,
    READ = 11,
    PREAD = 13,
    OPEN = 17,
    CLOSE = 19,
    EPOLL = 23,
    SLEEP = 29,
    LOCK = 31,
    UNLOCK = 37,
    FORK = 500,
    SPAWN = 700,
    THREAD = 900
};
#define CHILDREN_NS 2001002000 /* CPU of each child: both kinds of it */
#define OVERHEAD_NS 9000       /* what each image says that it took */
#define IMAGE_NS 10000         /* the same in its exit status */

static uint64_t now_ns;
static long children;

static uint64_t fake_clock(int clock)
{
    assert_true(clock == CLOCK_THREAD_CPUTIME_ID ||
                clock == CLOCK_PROCESS_CPUTIME_ID || clock == CLOCK_MONOTONIC);
    return now_ns;
}

static int fake_usage(int who, struct rusage *out)
{
    assert_int_equal(who, RUSAGE_CHILDREN);
    memset(out, 0, sizeof(*out));
    out->ru_utime.tv_sec = children;
    out->ru_utime.tv_usec = children * 2;
    out->ru_stime.tv_sec = children;
    out->ru_stime.tv_usec = children * 1000;
    children++;
    return 0;
}

uint32_t ips_reported_overhead_ns(void);
uint32_t ips_reported_overhead_ns(void)
{
    return OVERHEAD_NS;
}

#pragma GCC diagnostic ignored "-Waddress" /* it is defined here */
#define ips_sys_clock_ns fake_clock
#define getrusage fake_usage
#define write(...) (now_ns += WRITE, write(__VA_ARGS__))
#define read(...) (now_ns += READ, read(__VA_ARGS__))
#define pread(...) (now_ns += PREAD, pread(__VA_ARGS__))
#define epoll_wait(...) (now_ns += EPOLL, epoll_wait(__VA_ARGS__))
#define nanosleep(...) (now_ns += SLEEP, nanosleep(__VA_ARGS__))
#define pthread_mutex_lock(m) (now_ns += LOCK, pthread_mutex_lock(m))
#define pthread_mutex_unlock(m) (now_ns += UNLOCK, pthread_mutex_unlock(m))
#define fork() (now_ns += FORK, fork())
#define posix_spawn(...) (now_ns += SPAWN, posix_spawn(__VA_ARGS__))
#include "agent/ipsrun/probe_costs.c"
/* here, since the pool of probes is made by others */
#define open(...) (now_ns += OPEN, open(__VA_ARGS__))
#define close(fd) (now_ns += CLOSE, close(fd))
#undef LIBRARY
#include "agent/ipsrun/subject.c"
#define pthread_create(...) (now_ns += THREAD, pthread_create(__VA_ARGS__))
#include "agent/ipsrun/starts.c"
#undef pthread_create
#undef open
#undef close
#undef posix_spawn
#undef fork
#undef pthread_mutex_unlock
#undef pthread_mutex_lock
#undef nanosleep
#undef epoll_wait
#undef pread
#undef read
#undef write

/* ---- sums ---- */

static void test_ipsrun_costs__means(void **state)
{
    (void)state;
    int64_t a[] = {5, 1, 900, 7, 2, 6, 8, -4}; /* 2 5 6 7 in the middle */
    assert_int_equal(sort_and_average_middle_half(a, 8), 5);
    int64_t b[] = {4, 1, 9}; /* too few to leave any out */
    assert_int_equal(sort_and_average_middle_half(b, 3), 4);
    int64_t c[] = {1, 2, 9, 90};
    assert_int_equal(sort_and_average_middle_half(c, 4), 5);
    assert_int_equal(compute_mean(b, 3), 4);
    assert_int_equal(compute_mean(c, 2), 1);
    assert_true(ipsrun_compare_i64(&c[0], &c[1]) < 0);
    assert_true(ipsrun_compare_i64(&c[1], &c[0]) > 0);
    assert_int_equal(ipsrun_compare_i64(&c[1], &c[1]), 0);
    assert_true(ipsrun_compare_i64(&(int64_t){INT64_MIN}, &c[0]) < 0);

    /* the quickest 2 of 8: 100 past it, 130 through it; all past it take 200 on
     * average, so 30 becomes 60 ns */
    int64_t took[2][STARTS] = {{101, 99, 150, 150, 200, 250, 300, 350},
                               {900, 900, 140, 120, 900, 900, 900, 900}};
    assert_int_equal(compute_recording_cost_ps(took, 8), 60000);
    int64_t none[2][STARTS] = {{0}, {5, 5, 5, 5}};
    assert_int_equal(compute_recording_cost_ps(none, 4), 0);
    int64_t less[2][STARTS] = {{10, 10, 10, 10}, {4, 9, 9, 9}};
    assert_int_equal(compute_recording_cost_ps(less, 4), -6000);
}

static unsigned ones[2], bad_at;
static bool one_call(bool wrapped)
{
    ones[wrapped]++;
    now_ns += wrapped ? 40 : 10;
    return ones[0] + ones[1] != bad_at;
}

/* Would catch: the first call, which warms up, counted; a mean of other calls
 * than were made; a call that failed believed. */
static void test_ipsrun_costs__of_a_batch(void **state)
{
    (void)state;
    bool good = true;
    memset(ones, 0, sizeof(ones));
    bad_at = 0;
    assert_int_equal(measure_added_call_ps(one_call, 5, 8, &good), 30000);
    assert_true(good);
    assert_int_equal(ones[0], 5 * 9);
    assert_int_equal(ones[1], 5 * 9);
    static const unsigned fails[] = {1, 2, 9, 10, 90};
    for (size_t i = 0; i < sizeof(fails) / sizeof(*fails); i++) {
        memset(ones, 0, sizeof(ones));
        bad_at = fails[i];
        good = true;
        assert_int_equal(measure_added_call_ps(one_call, 5, 8, &good), 0);
        assert_false(good);
    }
}

/* ---- each step, in a child: it pins itself to its core ---- */

static void check_step(enum ipsrun_step step, int64_t ps)
{
    bool good = true;
    int64_t is = measure_step_ps(step, &good);
    if (is != ps || !good) {
        dprintf(2, "step %d: %lld, not %lld\n", (int)step, (long long)is,
                (long long)ps);
        _exit(1);
    }
}

static int measure_steps(void)
{
    /* of a start: what the parent's call took, less what was said */
    const int64_t fork_ps = (FORK - OVERHEAD_NS) * 1000LL;
    if (!pin_subject_and_open_descriptors())
        return 2;
    pid_t peer = fork();
    if (peer == 0)
        reply_to_messages();
    check_step(IPSRUN_CALL, (WRITE + READ) * 1000 / 2);
    check_step(IPSRUN_COLD, (WRITE + READ) * 1000 / 2);
    check_step(IPSRUN_FILE, PREAD * 1000);
    check_step(IPSRUN_OPEN, (OPEN + CLOSE) * 1000);
    check_step(IPSRUN_PASS, WRITE * 1000);
    check_step(IPSRUN_POLL, EPOLL * 1000);
    check_step(IPSRUN_FORK, fork_ps);
    check_step(IPSRUN_FORKED_IMAGE, fork_ps);
    check_step(IPSRUN_SPAWNED_IMAGE, SPAWN * 1000);
    check_step(IPSRUN_STACK, SLEEP * 1000);
    check_step(IPSRUN_THREE_BLOCKED, (WRITE + EPOLL + READ) * 1000);
    check_step(IPSRUN_LOCK, (LOCK + UNLOCK) * 1000);
    check_step(IPSRUN_STEPS, 0);
    kill(peer, SIGKILL);
    /* what is there for the image does not stay open in it */
    static const int *const fds[] = {
        &channel[0], &channel[1], &pair[0],    &pair[1], &full[0],
        &full[1],    &epoll_fd,   &full_epoll, &file,    &null};
    for (size_t i = 0; i < sizeof(fds) / sizeof(*fds); i++)
        if (!(fcntl(*fds[i], F_GETFD) & FD_CLOEXEC))
            return 3;
    return 0;
}

static int status_of(int (*body)(void))
{
    int status = -1;
    pid_t pid = fork();
    if (pid == 0)
        _exit(body());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void test_ipsrun_costs__of_each_step(void **state)
{
    (void)state;
    assert_int_equal(status_of(measure_steps), 0);
}

/* Would catch: CPU time of a child that is counted in another unit, or what it
 * reported left in; a child that failed believed. */
static void test_ipsrun_costs__of_a_start(void **state)
{
    (void)state;
    bool good = true;
    setenv("LD_PRELOAD", "", 1);
    assert_true(ipsrun_prepare_start_measuring());
    unsetenv("LD_PRELOAD");
    for (char **e = bare; *e; e++)
        assert_int_not_equal(strncmp(*e, "LD_PRELOAD=", 11), 0);
    assert_string_equal(bare[0], environ[0]);
    assert_true(ipsrun_is_itself_recorded());
    static const struct {
        bool wrapped;
        enum ipsrun_start_kind child;
        int64_t ns;
    } cases[] = {
        {false, IPSRUN_CHILD_FORK, 0},
        {true, IPSRUN_CHILD_FORK, FORK - OVERHEAD_NS},
        {false, IPSRUN_CHILD_IMAGE, -IMAGE_NS},
        {true, IPSRUN_CHILD_IMAGE, FORK - OVERHEAD_NS - IMAGE_NS},
        {false, IPSRUN_CHILD_SPAWNED, -IMAGE_NS},
        {true, IPSRUN_CHILD_SPAWNED, SPAWN - IMAGE_NS},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        int64_t ns = measure_start_cpu(cases[i].wrapped, cases[i].child, &good);
        assert_int_equal(ns, CHILDREN_NS + cases[i].ns);
        assert_true(good);
    }
    assert_int_equal(ipsrun_run_if_called_as_empty_program("other"), -1);
    good = false;
    assert_int_equal(
        ipsrun_measure_start_added_ps(IPSRUN_CHILD_FORK, true, &good), 0);
    assert_int_equal(ipsrun_measure_thread_added_ps(&good), 0);
    assert_false(good);
    good = true;
    /* past it a thread takes no time of this clock: nothing to compare with */
    assert_int_equal(ipsrun_measure_thread_added_ps(&good), 0);
    assert_true(good);
}

static unsigned remove_spares(const struct pool_dir *p)
{
    char name[32];
    unsigned removed = 0;
    int at = open(p->dir, O_RDONLY | O_DIRECTORY);
    for (unsigned i = 0; i <= IPS_SPARES; i++) {
        ips_spare_segment_format_name(name, i);
        removed += unlinkat(at, name, 0) == 0;
    }
    close(at);
    return removed;
}

/* Would catch: spare segments in another place or number than a slave makes. */
static void test_ipsrun_costs__spare_segments(void **state)
{
    (void)state;
    struct pool_dir p;
    pool_help_make(&p, NULL);
    unsetenv("IPS_POOL");
    setenv("IPS_RUN", "none", 1);
    assert_false(make_spare_segments());
    setenv("IPS_POOL", p.root, 1);
    assert_false(make_spare_segments());
    unsetenv("IPS_RUN");
    assert_false(make_spare_segments());
    setenv("IPS_RUN", strrchr(p.dir, '/') + 1, 1);
    const int before = dup(0);
    assert_true(make_spare_segments());
    const int after = dup(0); /* no descriptor stays */
    assert_int_equal(before + 1, after);
    close(before);
    close(after);
    assert_int_equal(remove_spares(&p), IPS_SPARES);
    pool_help_remove(&p);
    unsetenv("IPS_RUN");
    unsetenv("IPS_POOL");
}

/* The subject itself, into a pipe: its reports, and its exit status. */
static int reports[2];
static int report_all(void)
{
    dup2(reports[1], 1);
    return measure_and_write_step_costs();
}

/* Would catch: a step left out or said twice, a report after one that failed.
 */
static void test_ipsrun_costs__of_a_subject(void **state)
{
    (void)state;
    struct pool_dir p;
    struct ipsrun_step_costs said;
    pool_help_make(&p, NULL);
    setenv("IPS_POOL", p.root, 1);
    for (int again = 0; again < 2; again++) { /* the second has no run */
        if (again)
            unsetenv("IPS_RUN");
        else
            setenv("IPS_RUN", strrchr(p.dir, '/') + 1, 1);
        assert_int_equal(pipe2(reports, O_CLOEXEC), 0);
        assert_int_equal(status_of(report_all), again ? 1 << 8 : 0);
        close(reports[1]);
        const int steps = again ? IPSRUN_SPARE_FORK : IPSRUN_STEPS;
        for (int i = 0; i < steps; i++) {
            assert_int_equal(read(reports[0], &said, sizeof(said)),
                             sizeof(said));
            assert_int_equal(said.steps, i + 1);
        }
        assert_int_equal(read(reports[0], &said, sizeof(said)), 0);
        assert_int_equal(said.ps[IPSRUN_CALL], (WRITE + READ) * 1000 / 2);
        assert_int_equal(said.ps[IPSRUN_FORK], (FORK - OVERHEAD_NS) * 1000);
        close(reports[0]);
    }
    (void)remove_spares(&p);
    pool_help_remove(&p);
    unsetenv("IPS_POOL");
}

/* ---- the subjects ---- */

#define BARE_FORK 40 /* what the C library's own fork adds */
#define STOPS 0123   /* by its umask: it says three steps and waits */

/* This process as a subject: its environment says whether it is recorded. */
static int be_subject(void)
{
    struct ipsrun_step_costs said = {0};
    struct stat a, b;
    const char *preload = getenv("LD_PRELOAD"), *run = getenv("IPS_RUN");
    char control_path[200] = "";
    if (run)
        snprintf(control_path, sizeof(control_path), "%s/%s/control",
                 getenv("IPS_POOL"), run);
    bool good = stat("/dev/null", &a) == 0 && fstat(0, &b) == 0 &&
                a.st_rdev == b.st_rdev && fstat(2, &b) == 0 &&
                a.st_rdev == b.st_rdev && fcntl(3, F_GETFD) < 0;
    if (run)
        good = good && strcmp(run, "probe") == 0 && preload &&
               strcmp(preload, getenv("IPS_PRELOAD")) == 0 &&
               access(preload, R_OK) == 0 && access(control_path, F_OK) == 0;
    else
        good = good && !*environ;
    const mode_t stops = umask(0);
    for (int i = 0; good && i < IPSRUN_STEPS; i++) {
        if (stops == STOPS && i == 3)
            pause();
        said.steps++;
        said.ps[i] = run ? 1000 * (i + 1) : i == IPSRUN_FORK ? BARE_FORK : -9;
        good = write(1, &said, sizeof(said)) == sizeof(said);
    }
    return 0;
}

static unsigned probe_pools(void)
{
    unsigned n = 0;
    DIR *d = opendir("/dev/shm");
    for (struct dirent *e; d && (e = readdir(d));)
        n += strncmp(e->d_name, "ips-probe-", 10) == 0;
    closedir(d);
    return n;
}

/* Would catch: a result stored as another's, or with too much of others' left
 * in. */
static void test_ipsrun_costs__of_subjects(void **state)
{
    (void)state;
    struct ips_probe_measurements m = {0};
    struct ipsrun_step_costs all[SUBJECTS] = {{0}};
    for (int i = 0; i < SUBJECTS; i++)
        all[i] = (struct ipsrun_step_costs){IPSRUN_STEPS,
                                            {1000, 2000, 3000, 4000, 5000, 6000,
                                             7000 - BARE_FORK, 8000 - BARE_FORK,
                                             9000, 10000 - BARE_FORK, 11000,
                                             12000, 13000, 14000}};
    m.cost_ps[IPS_PROBE_EVENT] = 100;
    m.cost_ps[IPS_PROBE_READ] = 6400;
    m.cost_ps[IPS_PROBE_LOCK] = 1000;
    compute_and_store_probe_costs(all, m.cost_ps);
    static const struct {
        enum ips_probe probe;
        uint64_t ps;
    } costs[] = {
        {IPS_PROBE_EVENT, 100},
        {IPS_PROBE_READ, 6400},
        {IPS_PROBE_CALL, 1000},
        {IPS_PROBE_COLD, 1000}, /* 2000 - 1000 */
        {IPS_PROBE_FILE, 3000},
        {IPS_PROBE_OPEN, 4000},
        {IPS_PROBE_PASS, 5000},
        {IPS_PROBE_POLL, 6000},
        {IPS_PROBE_FORK, 6960},
        {IPS_PROBE_IMAGE, 1000},       /* 7960 - 6960 */
        {IPS_PROBE_SPAWN, 7000},       /* 9000 - 1000 - 1000 */
        {IPS_PROBE_SPARE_IMAGE, 1000}, /* as an image */
        {IPS_PROBE_SPARE_FORK, 6960},  /* never more than a fork */
        {IPS_PROBE_BLOCK, 8900},       /* 12000 - 3 * 1000 - 100 */
        {IPS_PROBE_STACK, 1000},       /* 11000 - 1000 - 8900 - 100 */
        {IPS_PROBE_LOCK, 14000},
        {IPS_PROBE_THREAD, 11000}, /* 13000 - 2 * 1000 */
    };
    for (size_t i = 0; i < sizeof(costs) / sizeof(*costs); i++)
        if (m.cost_ps[costs[i].probe] != costs[i].ps)
            fail_msg("probe %d: %llu", (int)costs[i].probe,
                     (unsigned long long)m.cost_ps[costs[i].probe]);
}

/* The least that each may cost: noise may have measured nothing, or less. */
static void test_ipsrun_costs__at_least(void **state)
{
    (void)state;
    struct ipsrun_step_costs all[SUBJECTS] = {{0}};
    uint64_t ps[IPS_PROBE_COSTS];
    for (int steps = 0; steps <= IPSRUN_STEPS; steps += IPSRUN_STEPS) {
        all[2].steps = steps;
        memset(all[2].ps, 0xff, sizeof(all[2].ps)); /* -1 each */
        for (unsigned i = 0; i < IPS_PROBE_COSTS; i++)
            ps[i] = 5000 + i;
        ps[IPS_PROBE_EVENT] = 100;
        compute_and_store_probe_costs(all, ps);
        assert_int_equal(ps[IPS_PROBE_CALL], 5000 + IPS_PROBE_CALL);
        assert_int_equal(ps[IPS_PROBE_LOCK], 5000 + IPS_PROBE_LOCK);
        if (!steps) { /* no result: nothing changes but what follows others */
            assert_int_equal(ps[IPS_PROBE_COLD], 5000 + IPS_PROBE_COLD);
            assert_int_equal(ps[IPS_PROBE_STACK], 5000 + IPS_PROBE_STACK);
            assert_int_equal(ps[IPS_PROBE_POLL], ps[IPS_PROBE_CALL]);
            assert_int_equal(ps[IPS_PROBE_SPARE_IMAGE], ps[IPS_PROBE_IMAGE]);
            assert_int_equal(ps[IPS_PROBE_SPARE_FORK], ps[IPS_PROBE_FORK]);
            continue;
        }
        static const enum ips_probe none[] = {IPS_PROBE_COLD, IPS_PROBE_FILE,
                                              IPS_PROBE_OPEN, IPS_PROBE_PASS,
                                              IPS_PROBE_BLOCK};
        static const enum ips_probe event[] = {
            IPS_PROBE_POLL,  IPS_PROBE_FORK,       IPS_PROBE_IMAGE,
            IPS_PROBE_SPAWN, IPS_PROBE_SPARE_FORK, IPS_PROBE_THREAD};
        for (size_t i = 0; i < sizeof(none) / sizeof(*none); i++)
            assert_int_equal(ps[none[i]], 0);
        for (size_t i = 0; i < sizeof(event) / sizeof(*event); i++)
            assert_int_equal(ps[event[i]], 100);
        assert_int_equal(ps[IPS_PROBE_STACK], 200);
    }
}

/* Of those that came so far, the middle one, or the mean of the two. */
static void test_ipsrun_costs__median(void **state)
{
    (void)state;
    struct ipsrun_step_costs all[SUBJECTS] = {
        {3, {0, 0, 70}}, {2, {0, 0, 1}}, {3, {0, 0, 20}}, {4, {0, 0, 30}}};
    int64_t ps = -1;
    assert_true(median_over_subjects(all, (enum ipsrun_step)2, &ps));
    assert_int_equal(ps, 30);
    all[4] = (struct ipsrun_step_costs){5, {0, 0, 40}};
    assert_true(median_over_subjects(all, (enum ipsrun_step)2, &ps));
    assert_int_equal(ps, 35);
    assert_true(median_over_subjects(all, (enum ipsrun_step)4, &ps));
    assert_int_equal(ps, 0);
    ps = -1;
    assert_false(median_over_subjects(all, (enum ipsrun_step)5, &ps));
    assert_int_equal(ps, -1);
}

/* Would catch: a subject without its pool or library, or with another's; a
 * fork's own cost left in; a process or a pool that stays. */
static void test_ipsrun_costs__measured(void **state)
{
    (void)state;
    struct ips_clock clock = {.kind = IPS_CLOCK_RAW, .mult_q32 = 1ull << 32};
    struct ips_probe_measurements m = {0};
    const unsigned before = probe_pools();
    struct ipsrun_step_costs said = {0};
    run_subject_and_read_step_costs(NULL, 12000, &said);
    assert_int_equal(said.steps, IPSRUN_STEPS);
    assert_int_equal(said.ps[IPSRUN_FORK], BARE_FORK);
    said.steps = 0;
    run_subject_and_read_step_costs(NULL, now_ms(),
                                    &said); /* no time is left */
    assert_int_equal(said.steps, 0);
    mode_t mask = umask(STOPS);
    run_subject_and_read_step_costs(NULL, now_ms() + 1,
                                    &said); /* it is ended */
    umask(mask);
    assert_true(said.steps <= 3);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* a sanitized program is not recorded */
#endif
    m.cost_ps[IPS_PROBE_EVENT] = 100;
    m.cost_ps[IPS_PROBE_READ] = 6400;
    ipsrun_measure_interposer_probe_costs(&clock, &m);
    assert_int_equal(m.cost_ps[IPS_PROBE_CALL], 1000 * (IPSRUN_CALL + 1));
    assert_int_equal(m.cost_ps[IPS_PROBE_OPEN], 1000 * (IPSRUN_OPEN + 1));
    assert_int_equal(m.cost_ps[IPS_PROBE_FORK],
                     1000 * (IPSRUN_FORK + 1) - BARE_FORK);
    assert_int_equal(m.cost_ps[IPS_PROBE_IMAGE], 1000);
    assert_int_equal(m.cost_ps[IPS_PROBE_LOCK], 1000 * (IPSRUN_LOCK + 1));
    assert_int_equal(probe_pools(), before);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

int main(int argc, char **argv)
{
    (void)argc;
    if (strcmp(argv[0], IPSRUN_SUBJECT) == 0)
        return be_subject();
    int status = ipsrun_run_if_subject(argv[0]);
    if (status >= 0)
        return status;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ipsrun_costs__means),
        cmocka_unit_test(test_ipsrun_costs__of_a_batch),
        cmocka_unit_test(test_ipsrun_costs__of_each_step),
        cmocka_unit_test(test_ipsrun_costs__of_a_start),
        cmocka_unit_test(test_ipsrun_costs__spare_segments),
        cmocka_unit_test(test_ipsrun_costs__of_a_subject),
        cmocka_unit_test(test_ipsrun_costs__of_subjects),
        cmocka_unit_test(test_ipsrun_costs__at_least),
        cmocka_unit_test(test_ipsrun_costs__median),
        cmocka_unit_test(test_ipsrun_costs__measured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
