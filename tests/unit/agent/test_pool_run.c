/* Making a run (agent/pool/run.c): what its control file says, field by field,
 * and what a run or a change that was refused leaves behind: no file, no
 * directory, no descriptor. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/help/pool_help.h"

static struct pool_dir pool;
static int rename_fails;

/* Instead of the C library's. */
int renameat2(int from_dir, const char *from, int to_dir, const char *to,
              unsigned flags)
{
    if (!rename_fails)
        return (int)syscall(SYS_renameat2, from_dir, from, to_dir, to, flags);
    errno = rename_fails;
    return -1;
}

static int setup(void **state)
{
    (void)state;
    unsetenv("IPS_TEST_CLOCK");
    unsetenv("IPS_TEST_PROBE_NS");
    pool_help_make(&pool, NULL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    unsetenv("IPS_TEST_CLOCK");
    unsetenv("IPS_TEST_PROBE_NS");
    pool_help_remove(&pool);
    return 0;
}

static const char *path_data_of(const char *run, const char *file)
{
    static char path[700];
    snprintf(path, sizeof(path), "%s/%s%s", pool.root, run, file);
    return path;
}

static int make_run(const char *run, struct ips_run_options opt,
                    struct ips_err *err)
{
    char dir[700];
    memset(err, 0, sizeof(*err));
    opt.pool_root = pool.root;
    opt.run = run;
    return ips_pool_make_or_join_run(&opt, dir, sizeof(dir), err);
}

/* Of a run that these options make; it is gone again. */
static struct ips_control control_of(struct ips_run_options opt)
{
    struct ips_err err;
    const struct ips_control *c = NULL;
    if (make_run("made", opt, &err) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(
        ips_control_read_and_check_copy(path_data_of("made", ""), &c, &err), 0);
    struct ips_control copy;
    memcpy(&copy, c, sizeof(copy));
    ips_control_free(c);
    assert_int_equal(unlink(path_data_of("made", "/control")), 0);
    assert_int_equal(rmdir(path_data_of("made", "")), 0); /* nothing else */
    return copy;
}

/* Would catch: an option that is lost or taken for another on its way to the
 * agent, and a run that says it has a command where it was joined. */
static void test_pool_run__control_says_what_was_asked(void **state)
{
    (void)state;
    struct ips_control c =
        control_of((struct ips_run_options){.machine = "box",
                                            .command = "sleep 1",
                                            .tags = "a=1\0b=2\0",
                                            .procedures = IPS_PROCEDURES_EXACT,
                                            .sample_us = 1234,
                                            .budget_ppm = 5678,
                                            .on_full = IPS_ON_FULL_BLOCK,
                                            .quota_bytes = 123456,
                                            .cpu_mode = IPS_CPU_EXACT,
                                            .receive_stamps = true,
                                            .locks = IPS_LOCKS_ALL});
    assert_string_equal(c.run, "made");
    assert_string_equal(c.machine, "box");
    assert_string_equal(c.command, "sleep 1");
    assert_memory_equal(c.tags, "a=1\0b=2\0\0", 10);
    assert_int_equal(c.procedures, IPS_PROCEDURES_EXACT);
    assert_int_equal(c.sample_us, 1234);
    assert_int_equal(c.budget_ppm, 5678);
    assert_int_equal(c.on_full, IPS_ON_FULL_BLOCK);
    assert_int_equal(c.quota_bytes, 123456);
    assert_int_equal(c.cpu_mode, IPS_CPU_EXACT);
    assert_true(c.receive_stamps && !c.delays);
    assert_int_equal(c.locks, IPS_LOCKS_ALL);
    assert_int_equal(c.root_pid, getpid());
    assert_int_equal(c.uid, geteuid());
    assert_int_equal(c.segment_bytes, IPS_SEGMENT_BYTES);
    cpu_set_t set;
    assert_int_equal(sched_getaffinity(0, sizeof(set), &set), 0);
    assert_int_equal(c.cpus, CPU_COUNT(&set));
    assert_true(c.created_raw_ns > 0 && c.created_real_ns > c.created_raw_ns);
    c = control_of((struct ips_run_options){.delays = true, .join = true});
    assert_true(c.delays && !c.receive_stamps);
    assert_int_equal(c.root_pid, 0);
    assert_string_equal(c.machine, "");
    assert_string_equal(c.command, "");
    assert_int_equal(c.tags[0], 0);
}

/* 255 bytes with their ends, and one more to end the list. */
static void test_pool_run__tags_that_just_fit(void **state)
{
    char tags[300] = "k=";
    struct ips_err err;
    (void)state;
    memset(tags + 2, 'x', 252);
    struct ips_control c = control_of((struct ips_run_options){.tags = tags});
    assert_memory_equal(c.tags, tags, 256);
    tags[254] = 'x';
    assert_int_equal(
        make_run("long", (struct ips_run_options){.tags = tags}, &err),
        IPS_E_LIMIT);
    assert_int_equal(access(path_data_of("long", ""), F_OK), -1);
}

/* A ring has four segments in a quarter of its quota, of 64 KiB at least:
 * 16 MiB / 16 is a whole segment of 1 MiB; of 15 MiB it is 15 * 64 KiB. */
static void test_pool_run__rings_have_smaller_segments(void **state)
{
    static const struct {
        uint64_t quota;
        uint32_t ring;
    } cases[] = {{16u << 20, 1u << 20},
                 {(16u << 20) - 1, 15u << 16},
                 {4u << 20, 4u << 16},
                 {100000, 1u << 16}};
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct ips_run_options opt = {.quota_bytes = cases[i].quota,
                                      .on_full = IPS_ON_FULL_RING};
        struct ips_control c = control_of(opt);
        if (c.quota_bytes < cases[i].quota) /* a small /dev/shm */
            continue;
        assert_int_equal(c.segment_bytes, cases[i].ring);
        opt.on_full = IPS_ON_FULL_BLOCK;
        assert_int_equal(control_of(opt).segment_bytes, 1u << 20);
    }
}

/* Would catch: a run that gets what others hold already, or nothing since what
 * they have given back still counts. */
static void test_pool_run__quota_is_what_others_leave(void **state)
{
    (void)state;
    struct ips_control *r = pool_help_control(&pool);
    atomic_store(&r->used_bytes, 1ULL << 60);
    assert_int_equal(control_of((struct ips_run_options){0}).quota_bytes, 0);
    atomic_store(&r->released_bytes, 1ULL << 60);
    uint64_t all = control_of((struct ips_run_options){0}).quota_bytes;
    assert_true(all > 0 && all < 1ULL << 58);
    munmap(r, sizeof(*r));
}

static bool measure(const struct ips_clock *clock,
                    struct ips_probe_measurements *m)
{
    (void)clock;
    m->marks = IPS_MARKS_FAIL;
    for (unsigned i = 0; i < IPS_PROBE_COSTS; i++)
        m->cost_ps[i] = 100 * i + 41;
    m->cost_ps[IPS_PROBE_CALL] = 1499;
    return true;
}

/* Records that each kind of probe writes: events, calls and the like one; a
 * procedure its beginning and its end; an image, a fork child and a thread
 * START or CALLS, and END. */
static unsigned records_of(unsigned probe)
{
    switch (probe) {
    case IPS_PROBE_EVENT:
    case IPS_PROBE_CALL:
    case IPS_PROBE_SAMPLE:
    case IPS_PROBE_SYNC:
    case IPS_PROBE_STACK:
    case IPS_PROBE_POLL:
        return 1;
    case IPS_PROBE_PROC:
    case IPS_PROBE_IMAGE:
    case IPS_PROBE_FORK:
    case IPS_PROBE_SPARE_IMAGE:
    case IPS_PROBE_SPARE_FORK:
    case IPS_PROBE_THREAD:
        return 2;
    default:
        return 0;
    }
}

/* Would catch: a cost in another's place, a burnt time that is not part of the
 * cost, a record counted for a probe that writes none; a mode that relies on
 * marks which do not work here. */
static void test_pool_run__probe_costs(void **state)
{
    static const struct {
        const char *extra;
        bool plain;
        uint64_t ns;
    } cases[] = {{"3", false, 3},
                 {"3", true, 0},
                 {"1000001", false, 1000000},
                 {NULL, false, 0}};
    (void)state;
    assert_int_equal(unlink(path_data_of("clock", "")), 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        if (cases[i].extra)
            setenv("IPS_TEST_PROBE_NS", cases[i].extra, 1);
        else
            unsetenv("IPS_TEST_PROBE_NS");
        struct ips_control c =
            control_of((struct ips_run_options){.measure = measure,
                                                .cpu_mode = IPS_CPU_FAST,
                                                .plain = cases[i].plain});
        assert_int_equal(c.cpu_mode, IPS_CPU_CLOCK);
        assert_int_equal(c.probe_extra_ns, cases[i].ns);
        for (unsigned k = 0; k < IPS_PROBE_COSTS; k++)
            assert_int_equal(ips_probe_cost_ps(&c, (enum ips_probe)k),
                             (k == IPS_PROBE_CALL ? 1499 : 100 * k + 41) +
                                 records_of(k) * 1000 * cases[i].ns);
        assert_int_equal(c.probe_ns, 1 + cases[i].ns); /* 1.499 rounds down */
    }
}

/* Would catch: a test's clock that is off in another way than was asked, or
 * one below zero, whose run would stay as an empty directory. */
static void test_pool_run__test_clock(void **state)
{
    struct ips_err err;
    (void)state;
    setenv("IPS_TEST_CLOCK", "-5,7,11,-3", 1);
    struct ips_control c = control_of((struct ips_run_options){0});
    assert_int_equal(c.test_offset_ns, -5);
    assert_int_equal(c.test_drift_ppm, 7);
    assert_int_equal(c.test_step_at_ns, 11);
    assert_int_equal(c.test_step_ns, -3);
    c = control_of((struct ips_run_options){.plain = true});
    assert_int_equal(c.test_offset_ns | c.test_drift_ppm | c.test_step_ns, 0);
    setenv("IPS_TEST_CLOCK", "0,0,9,-9000000000000000000", 1);
    assert_int_equal(make_run("below", (struct ips_run_options){0}, &err),
                     IPS_E_USAGE);
    assert_int_equal(access(path_data_of("below", ""), F_OK), -1);
    setenv("IPS_TEST_CLOCK", "0,0,9,9000000000000000000", 1);
    assert_true(control_of((struct ips_run_options){0}).test_step_ns > 0);
    setenv("IPS_TEST_CLOCK", "fast", 1);
    assert_int_equal(control_of((struct ips_run_options){0}).test_offset_ns, 0);
}

/* ---- who may do what ---- */

static unsigned mode_of(const char *path)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return st.st_mode & 07777;
}

/* Would catch: a pool that others can write in, and one that is refused though
 * it is its user's alone; a message that does not say what is wrong. */
static void test_pool_run__root_is_its_users_alone(void **state)
{
    (void)state;
    struct ips_err err;
    char root[700], want[800];
    snprintf(root, sizeof(root), "%s/new/er", pool.root);
    umask(077);
    assert_int_equal(ips_pool_make_or_check_root(root, &err), 0);
    assert_int_equal(mode_of(root), geteuid() == 0 ? 0711 : 0700);
    static const unsigned good[] = {0700, 0755, 0711},
                          bad[] = {0720, 0702, 0722};
    for (size_t i = 0; i < 3; i++) { /* what is there keeps its mode */
        assert_int_equal(chmod(root, good[i]), 0);
        assert_int_equal(ips_pool_make_or_check_root(root, &err), 0);
        assert_int_equal(mode_of(root), good[i]);
        assert_int_equal(chmod(root, bad[i]), 0);
        assert_int_equal(ips_pool_make_or_check_root(root, &err),
                         IPS_E_REFUSED);
        snprintf(want, sizeof(want), "%s is not yours alone: owner %u, mode %o",
                 root, (unsigned)geteuid(), bad[i]);
        assert_string_equal(err.msg, want);
    }
    assert_int_equal(chmod(root, 0700), 0);
    if (geteuid() == 0) {
        assert_int_equal(chown(root, 1, 1), 0);
        assert_int_equal(ips_pool_make_or_check_root(root, &err),
                         IPS_E_REFUSED);
    }
    assert_int_equal(rmdir(root), 0);
    assert_int_equal(symlink(pool.root, root), 0); /* not followed */
    assert_int_equal(ips_pool_make_or_check_root(root, &err), IPS_E_REFUSED);
    snprintf(want, sizeof(want), "%s is not a directory", root);
    assert_string_equal(err.msg, want);
    assert_int_equal(unlink(root), 0);
    *strrchr(root, '/') = '\0';
    assert_int_equal(rmdir(root), 0);
}

static bool make_run_as_a_user(void)
{
    char top[] = "/tmp/ips-user-XXXXXX", root[80], dir[200], command[100];
    struct ips_err err;
    const struct ips_run_options opt = {.pool_root = root, .run = "r"};
    umask(0);
    if ((geteuid() == 0 && seteuid(65534) < 0) || !mkdtemp(top))
        return false;
    snprintf(root, sizeof(root), "%s/pool", top);
    bool good = ips_pool_make_or_join_run(&opt, dir, sizeof(dir), &err) == 0 &&
                mode_of(root) == 0700 && mode_of(dir) == 0700 &&
                mode_of(strcat(dir, "/control")) == 0600;
    snprintf(command, sizeof(command), "rm -r %s", top);
    return system(command) == 0 && good;
}

/* Would catch: runs of a user who is not root that others can see. */
static void test_pool_run__modes_of_a_user(void **state)
{
    (void)state;
    int status;
    pid_t pid = fork();
    if (pid == 0)
        _exit(!make_run_as_a_user());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* Would catch: times of another unit or clock; all answers print them. */
static void test_pool_run__when_it_began(void **state)
{
    (void)state;
    static const clockid_t clocks[] = {CLOCK_REALTIME, CLOCK_MONOTONIC_RAW};
    struct timespec at[2][2];
    for (int i = 0; i < 2; i++)
        clock_gettime(clocks[i], &at[0][i]);
    struct ips_control c = control_of((struct ips_run_options){0});
    for (int i = 0; i < 2; i++)
        clock_gettime(clocks[i], &at[1][i]);
    const uint64_t is[2] = {c.created_real_ns, c.created_raw_ns};
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 2; k++) {
            uint64_t ns = (uint64_t)at[k][i].tv_sec * 1000000000 +
                          (uint64_t)at[k][i].tv_nsec;
            assert_true(k ? is[i] <= ns : is[i] >= ns);
        }
}

/* Would catch: the file of the one who comes second, left in the run; an error
 * that is taken for that. */
static void test_pool_run__another_was_first(void **state)
{
    (void)state;
    struct ips_err err;
    char want[900];
    rename_fails = EEXIST;
    assert_int_equal(make_run("late", (struct ips_run_options){0}, &err), 0);
    assert_int_equal(rmdir(path_data_of("late", "")), 0);
    rename_fails = EXDEV;
    assert_int_equal(make_run("late", (struct ips_run_options){0}, &err),
                     IPS_E_IO);
    snprintf(want, sizeof(want), "run late: %s: Invalid cross-device link",
             path_data_of("late", "/control"));
    assert_string_equal(err.msg, want);
    assert_int_equal(access(path_data_of("late", ""), F_OK), -1);
    rename_fails = 0;
}

/* Would catch: a name or a path that is cut, or refused without need. */
static void test_pool_run__names_and_places(void **state)
{
    (void)state;
    struct ips_err err;
    char name[65], dir[8], want[300];
    memset(name, 'n', 64);
    name[64] = '\0';
    snprintf(want, sizeof(want),
             "run name '%s': 1 to 63 letters, digits, '.', '_' or '-', not "
             "beginning with '.'",
             name);
    assert_int_equal(make_run(name, (struct ips_run_options){0}, &err),
                     IPS_E_USAGE);
    assert_string_equal(err.msg, want);
    assert_int_equal(make_run(name + 1, (struct ips_run_options){0}, &err), 0);
    assert_int_equal(unlink(path_data_of(name + 1, "/control")), 0);
    assert_int_equal(rmdir(path_data_of(name + 1, "")), 0);
    const struct ips_run_options relative = {.pool_root = "p", .run = "r"},
                                 root = {.pool_root = "/proc", .run = "r"};
    assert_int_equal(
        ips_pool_make_or_join_run(&relative, dir, sizeof(dir), &err),
        IPS_E_USAGE);
    assert_string_equal(err.msg, "pool 'p': the path must begin with '/'");
    for (size_t n = 7; n <= 8; n++) { /* "/proc/r" and its end */
        assert_true(ips_pool_make_or_join_run(&root, dir, n, &err) < 0);
        assert_int_equal(strcmp(err.msg, "pool path too long") == 0, n == 7);
    }
}

/* ---- what is left ---- */

static unsigned entries(const char *path)
{
    unsigned n = 0;
    DIR *d = opendir(path);
    assert_non_null(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

/* Every way through the functions that open the control file. */
static void all_ways(void)
{
    struct ips_err err;
    const struct ips_control *c = NULL;
    const struct ips_run_options join = {.join = true};
    char cut[700], none[700];
    snprintf(cut, sizeof(cut), "%s", path_data_of("cut", ""));
    snprintf(none, sizeof(none), "%s", path_data_of("none", ""));
    assert_int_equal(make_run("cut", join, &err), 0);
    assert_int_equal(make_run("cut", join, &err), 0);
    assert_int_equal(make_run("cut", (struct ips_run_options){0}, &err),
                     IPS_E_BUSY);
    assert_int_equal(truncate(path_data_of("cut", "/control"), 100), 0);
    assert_int_equal(ips_control_read_and_check_copy(cut, &c, &err),
                     IPS_E_CORRUPT);
    /* would catch: a run joined of which nothing can be recorded */
    assert_int_equal(make_run("cut", join, &err), IPS_E_CORRUPT);
    assert_int_equal(ips_control_add_released_bytes(cut, 1, &err),
                     IPS_E_CORRUPT);
    assert_int_equal(ips_control_store_slave_identity(cut, &err),
                     IPS_E_CORRUPT);
    assert_int_equal(ips_control_add_spare_bytes(none, 1, &err),
                     IPS_E_NOT_FOUND);
    assert_int_equal(ips_control_store_slave_identity(none, &err),
                     IPS_E_NOT_FOUND);
    assert_int_equal(ips_control_add_released_bytes(pool.dir, 1, &err), 0);
    assert_int_equal(ips_control_add_spare_bytes(pool.dir, 1, &err), 0);
    assert_int_equal(ips_control_store_slave_identity(pool.dir, &err), 0);
    assert_int_equal(unlink(path_data_of("cut", "/control")), 0);
    assert_int_equal(rmdir(cut), 0);
}

/* Would catch: a descriptor that stays open after each run that a slave looked
 * at, until it has none left. */
static void test_pool_run__no_descriptor_stays(void **state)
{
    (void)state;
    all_ways(); /* what the C library opens once */
    unsigned before = entries("/proc/self/fd");
    all_ways();
    assert_int_equal(entries("/proc/self/fd"), before);
}

/* A directory that somebody has made is not ours to remove; one of ours whose
 * control file could not be written is. */
static void test_pool_run__only_its_own_directory_goes(void **state)
{
    static char tags[400] = "k=";
    struct ips_err err;
    (void)state;
    memset(tags + 2, 'x', 300);
    const struct ips_run_options join = {.join = true, .tags = tags};
    assert_int_equal(make_run("ours", join, &err), IPS_E_LIMIT);
    assert_int_equal(access(path_data_of("ours", ""), F_OK), -1);
    assert_int_equal(mkdir(path_data_of("theirs", ""), 0700), 0);
    assert_int_equal(make_run("theirs", join, &err), IPS_E_LIMIT);
    assert_non_null(strstr(err.msg, "run theirs"));
    assert_int_equal(rmdir(path_data_of("theirs", "")), 0);
}

/* Would catch: a signature in another field, one that no program finds, sums
 * of released and of spare bytes mixed up. */
static void test_pool_run__control_is_changed_where_it_should(void **state)
{
    struct ips_err err;
    struct ips_control before, *c = pool_help_control(&pool);
    void *list = NULL;
    size_t bytes = 0;
    (void)state;
    memcpy(&before, c, sizeof(before));
    assert_int_equal(ips_control_add_released_bytes(pool.dir, 4096, &err), 0);
    assert_int_equal(ips_control_add_released_bytes(pool.dir, 3, &err), 0);
    assert_int_equal(ips_control_add_spare_bytes(pool.dir, 70, &err), 0);
    assert_int_equal(ips_control_add_spare_bytes(pool.dir, 5, &err), 0);
    assert_int_equal(ips_control_store_slave_identity(pool.dir, &err), 0);
    assert_int_equal(c->released_bytes, 4099);
    assert_int_equal(c->spare_bytes, 75);
    assert_int_equal(c->slave_pid, syscall(SYS_gettid));
    assert_int_equal(syscall(SYS_get_robust_list, 0, &list, &bytes), 0);
    assert_true(c->slave_list == (uint64_t)(uintptr_t)list);
    atomic_store(&c->released_bytes, before.released_bytes);
    atomic_store(&c->spare_bytes, before.spare_bytes);
    c->slave_pid = before.slave_pid;
    c->slave_list = before.slave_list;
    assert_memory_equal(c, &before, sizeof(before));
    munmap(c, sizeof(*c));
}

/* ---- spare segments ---- */

/* Would catch: a spare in the place of one that is there, a half-made file that
 * stays after a refusal, one of a killed slave's that is in the way for ever.
 */
static void test_pool_run__spares_that_are_refused(void **state)
{
    struct ips_control *c = pool_help_control(&pool);
    struct ips_control small;
    uint64_t bytes = 0;
    struct stat st;
    (void)state;
    memcpy(&small, c, sizeof(small));
    munmap(c, sizeof(*c));
    int dir = open(pool.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(dir >= 0);
    unsigned before = entries("/proc/self/fd");
    int left = openat(dir, IPS_SPARE_PREFIX "new", O_CREAT | O_WRONLY, 0600);
    assert_int_equal(write(left, "half", 4), 4);
    close(left);
    int fd = ips_spare_segment_make(dir, 7, &small, &bytes);
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_size, small.segment_bytes);
    assert_int_equal(bytes, (uint64_t)st.st_blocks * 512);
    assert_int_equal(st.st_mode & 07777, 0600);
    close(fd);
    assert_int_equal(ips_spare_segment_make(dir, 7, &small, &bytes), -1);
    struct rlimit old, limit = {1 << 16, 1 << 16};
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    limit.rlim_max = old.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_int_equal(ips_spare_segment_make(dir, 8, &small, &bytes), -1);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    signal(SIGXFSZ, SIG_DFL);
    assert_int_equal(entries("/proc/self/fd"), before);
    assert_int_equal(entries(pool.dir), 2 + 2); /* control and the spare */
    close(dir);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_pool_run__control_says_what_was_asked),
        CASE(test_pool_run__tags_that_just_fit),
        CASE(test_pool_run__rings_have_smaller_segments),
        CASE(test_pool_run__quota_is_what_others_leave),
        CASE(test_pool_run__probe_costs),
        CASE(test_pool_run__test_clock),
        CASE(test_pool_run__root_is_its_users_alone),
        CASE(test_pool_run__modes_of_a_user),
        CASE(test_pool_run__when_it_began),
        CASE(test_pool_run__another_was_first),
        CASE(test_pool_run__names_and_places),
        CASE(test_pool_run__no_descriptor_stays),
        CASE(test_pool_run__only_its_own_directory_goes),
        CASE(test_pool_run__control_is_changed_where_it_should),
        CASE(test_pool_run__spares_that_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
