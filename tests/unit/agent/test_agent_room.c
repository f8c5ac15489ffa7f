/* The recording core where there is no room: quota, full file system, no
 * directory, a limit on the size of files. */
#include "agent/record/stream.h"
#include "tests/unit/help/core_help.h"
#include "tests/unit/help/emulated.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* --- no room ------------------------------------------------------- */

struct attempts {
    struct ips_control *control;
    const char *filler;
    uint64_t tried, refused;
};

static void write_past_the_end(struct attempts *a, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        a->refused += !write_one(0, a->tried++);
}

static void over_quota(void *arg)
{
    struct attempts *a = arg;
    write_past_the_end(a, 10000);
    if (a->refused == 0 || a->refused == a->tried)
        _exit(93);
    a->control->released_bytes += 1u << 20; /* the slave freed some */
    pause_ms(3);
    uint64_t before = a->refused;
    write_past_the_end(a, 100);
    _exit(a->refused == before ? 0 : 94);
}

static struct attempts *shared_attempts(void)
{
    void *m = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(m != MAP_FAILED);
    return m;
}

static void check_losses(const struct pool_dir *p, const struct attempts *a,
                         enum ips_lost_cause cause)
{
    struct seen s = read_all(p, false);
    assert_int_equal(s.count[0] + a->refused, a->tried);
    assert_int_equal(s.lost_counted[cause], a->refused);
    assert_int_equal(s.lost_said, a->refused);
    assert_int_equal(s.torn, 0);
    unsigned files = 0;
    uint64_t there = pool_help_blocks(p, &files);
    if (!emulated()) /* it does not follow MADV_POPULATE_WRITE */
        assert_int_equal(a->control->used_bytes, there);
    assert_true(files > 0);
}

/* Would catch: losses not counted, counted twice, not said in the stream, or
 * recording that does not go on when there is room again. */
static void test_agent_room__quota_refuses_and_counts(void **state)
{
    (void)state;
    struct pool_dir p;
    pool_help_make(&p, NULL);
    struct attempts *a = shared_attempts();
    a->control = pool_help_control(&p);
    a->control->quota_bytes = 256u << 10;
    assert_int_equal(in_child(&p, over_quota, a), 0);
    check_losses(&p, a, IPS_LOST_QUOTA);
    assert_true(a->control->used_bytes <=
                a->control->quota_bytes + a->control->released_bytes);
    munmap(a->control, sizeof(*a->control));
    munmap(a, 4096);
    pool_help_remove(&p);
}

static void fill_tmpfs(void *arg)
{
    struct attempts *a = arg;
    write_past_the_end(a, 10000);
    if (a->refused == 0 || a->refused == a->tried)
        _exit(93);
    unlink(a->filler);
    pause_ms(3);
    uint64_t before = a->refused;
    write_past_the_end(a, 100);
    _exit(a->refused == before ? 0 : 94);
}

/* A process of its own, since it changes its mount namespace, and a test of its
 * own there, since assertions do not cross a fork. */
static void in_small_tmpfs(void **state)
{
    struct pool_dir p;
    const char *mount_point = *state;
    char filler[64];
    pool_help_make(&p, mount_point);
    struct attempts *a = shared_attempts();
    a->control = pool_help_control(&p);
    a->control->quota_bytes = 1u << 30; /* the file system is the limit */
    snprintf(filler, sizeof(filler), "%s/filler", mount_point);
    a->filler = filler;
    int fd = open(filler, O_WRONLY | O_CREAT, 0600);
    assert_int_equal(posix_fallocate(fd, 0, 640 << 10), 0);
    close(fd);
    assert_int_equal(in_child(&p, fill_tmpfs, a), 0);
    check_losses(&p, a, IPS_LOST_POOL_FULL);
}

static int small_tmpfs_main(void)
{
    char mount_point[] = "/tmp/ips-test-XXXXXX";
    if (!mkdtemp(mount_point))
        return 1;
    if (unshare(CLONE_NEWNS) < 0 ||
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("none", mount_point, "tmpfs", 0, "size=1024k") < 0) {
        rmdir(mount_point);
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(in_small_tmpfs, mount_point)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    umount2(mount_point, MNT_DETACH);
    rmdir(mount_point);
    return failed;
}

/* Would catch: SIGBUS (the child's status), a growth step believed though it
 * was refused. */
static void test_agent_room__full_tmpfs_is_no_sigbus(void **state)
{
    (void)state;
    SKIP_IF_EMULATED("MADV_POPULATE_WRITE");
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execl("/proc/self/exe", "test_agent_room", "tmpfs", (char *)NULL);
        _exit(1);
    }
    int status;
    waitpid(pid, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
        print_message("not permitted to mount a tmpfs: skipped\n");
        skip();
    }
    assert_int_equal(status, 0);
}

static void no_directory(void *arg)
{
    struct attempts *a = arg;
    pthread_t t;
    char gone[700];
    snprintf(gone, sizeof(gone), "%s.gone", a->filler);
    if (rename(a->filler, gone) < 0)
        _exit(95);
    pthread_create(&t, NULL, core_thread_body, (void *)1);
    pthread_join(t, NULL);
    rename(gone, a->filler);
}

/* As in a chroot: no file can be made. Would catch: a crash, losses nobody
 * counts. */
static void test_agent_room__without_directory_counts_in_control(void **state)
{
    (void)state;
    struct pool_dir p;
    pool_help_make(&p, NULL);
    struct attempts *a = shared_attempts();
    a->control = pool_help_control(&p);
    a->filler = p.dir;
    assert_int_equal(in_child(&p, no_directory, a), 0);
    struct seen s = read_all(&p, true);
    assert_int_equal(s.count[1], 0);
    assert_true(a->control->lost[IPS_LOST_NO_SEGMENT] >= CORE_EACH);
    munmap(a->control, sizeof(*a->control));
    munmap(a, 4096);
    pool_help_remove(&p);
}

static void small_files(void *arg)
{
    (void)arg;
    struct rlimit limit = {100000, 100000};
    setrlimit(RLIMIT_FSIZE, &limit);
    pthread_t t;
    pthread_create(&t, NULL, core_thread_body, (void *)1);
    pthread_join(t, NULL);
    limit.rlim_cur = 1000;
    setrlimit(RLIMIT_FSIZE, &limit);
    pthread_create(&t, NULL, core_thread_body, (void *)2);
    pthread_join(t, NULL);
}

/* Would catch: SIGXFSZ (it ends the program), segments longer than allowed. */
static void test_agent_room__file_size_limit_is_no_signal(void **state)
{
    (void)state;
    struct pool_dir p;
    pool_help_make(&p, NULL);
    assert_int_equal(in_child(&p, small_files, NULL), 0);
    struct seen s = read_all(&p, true);
    assert_int_equal(s.count[1], CORE_EACH);
    assert_int_equal(s.count[2], 0);
    pool_help_remove(&p);
}

/* --- which pid namespace ------------------------------------------- */

/* As pid 1 of a namespace of its own, where the slave is said to be `pid`. */
static uint64_t namespace_seen(uint32_t pid, uint64_t more)
{
    static struct ips_control control;
    size_t bytes;
    void *list = NULL;
    syscall(SYS_get_robust_list, 0, &list, &bytes);
    control.slave_pid = pid;
    control.slave_list = (uint64_t)(uintptr_t)list + more;
    ips_core.control = &control;
    return ips_pid_namespace_inode();
}

static int namespace_main(void)
{
    int status;
    if (unshare(CLONE_NEWPID) < 0)
        return 77;
    pid_t pid = fork();
    if (pid == 0) {
        /* /proc says our parents', which is not what we look for. */
        bool good = namespace_seen(1, 0) == IPS_PIDNS_INITIAL;
        ips_core.control = NULL;
        snprintf(ips_core.dir, sizeof(ips_core.dir), "/nowhere/run");
        uint64_t known = mount("none", "/proc", "tmpfs", 0, NULL) == 0;
        _exit(good && known && namespace_seen(1, 8) == 0 &&
                      namespace_seen(2, 0) == 0 && namespace_seen(0, 0) == 0
                  ? 0
                  : 1);
    }
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status)
               ? WEXITSTATUS(status)
               : 1;
}

/* Would catch: a process that takes another with the slave's number for the
 * slave, and one that does not know the slave, so that each start asks on. */
static void test_agent_room__slave_is_known_by_its_list(void **state)
{
    size_t bytes;
    void *list;
    (void)state;
    if (syscall(SYS_get_robust_list, 0, &list, &bytes) < 0) {
        print_message("the emulator has no get_robust_list\n");
        skip();
    }
    pid_t pid = fork();
    if (pid == 0) {
        char *argv[] = {(char *)(uintptr_t) "test_agent_room",
                        (char *)(uintptr_t) "namespace", NULL};
        if (unshare(CLONE_NEWNS) < 0 ||
            mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
            _exit(77);
        execv("/proc/self/exe", argv);
        _exit(1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        skip();
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "namespace") == 0)
        _exit(namespace_main()); /* no check for leaks: it hides /proc */
    if (argc == 2 && strcmp(argv[1], "tmpfs") == 0)
        return small_tmpfs_main();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_agent_room__quota_refuses_and_counts),
        cmocka_unit_test(test_agent_room__full_tmpfs_is_no_sigbus),
        cmocka_unit_test(test_agent_room__without_directory_counts_in_control),
        cmocka_unit_test(test_agent_room__file_size_limit_is_no_signal),
        cmocka_unit_test(test_agent_room__slave_is_known_by_its_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
