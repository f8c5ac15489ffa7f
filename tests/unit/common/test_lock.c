/* A directory has one daemon at a time. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
/* cmocka last of these */
#include <cmocka.h>

#include "common/lock.h"

static char dir[64], file[80];

/* what locks of a directory and of a file fail with; 0: they do not fail */
static int dir_fails, file_fails;
static unsigned flocks;

/* Instead of the C library's. */
int flock(int fd, int operation)
{
    struct stat st;
    flocks++;
    assert_int_equal(fstat(fd, &st), 0);
    int fails = S_ISDIR(st.st_mode) ? dir_fails : file_fails;
    if (!fails)
        return (int)syscall(SYS_flock, fd, operation);
    errno = fails;
    return -1;
}

static int take(struct ips_lock *lock, struct ips_err *err)
{
    *err = (struct ips_err){0};
    return ips_lock_directory(dir, "lock", "--state", 0, NULL, lock, err);
}

static int setup(void **state)
{
    (void)state;
    snprintf(dir, sizeof(dir), "/tmp/ips-lock-XXXXXX");
    assert_non_null(mkdtemp(dir));
    snprintf(file, sizeof(file), "%s/lock", dir);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    dir_fails = file_fails = 0;
    (void)unlink(file);
    return rmdir(dir);
}

/* Would catch: two daemons of one state; a lock that stays after its daemon. */
static void test_lock__one_holder(void **state)
{
    (void)state;
    struct ips_lock first, second;
    struct ips_err err;
    char pid[32];
    assert_int_equal(take(&first, &err), 0);
    assert_int_equal(take(&second, &err), IPS_E_BUSY);
    snprintf(pid, sizeof(pid), "(pid %d)", (int)getpid());
    assert_non_null(strstr(err.msg, pid));
    assert_non_null(strstr(err.msg, "--state"));
    assert_true(second.dir_fd == -1 && second.file_fd == -1);
    ips_lock_release(&second);
    ips_lock_release(&first);
    assert_int_equal(take(&second, &err), 0);
    ips_lock_release(&second);
}

/* Would catch: a second daemon begins after somebody removed the lock file of
 * the first; also after others have tried before it. */
static void test_lock__file_removed(void **state)
{
    (void)state;
    struct ips_lock first, second;
    struct ips_err err;
    assert_int_equal(take(&first, &err), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(unlink(file), 0);
        assert_int_equal(take(&second, &err), IPS_E_BUSY);
        assert_int_equal(take(&second, &err), IPS_E_BUSY);
    }
    ips_lock_release(&first);
    assert_int_equal(take(&second, &err), 0);
    ips_lock_release(&second);
}

/* Would catch: a slave whose pool and state are one directory, which refuses
 * itself; two daemons of which each has such a lock. */
static void test_lock__two_names_in_one_directory(void **state)
{
    (void)state;
    struct ips_lock first, second, third;
    struct ips_err err = {0};
    char other[80], way[80];
    snprintf(other, sizeof(other), "%s/other", dir);
    snprintf(way, sizeof(way), "%s-way", dir);
    assert_int_equal(symlink(dir, way), 0);
    assert_int_equal(take(&first, &err), 0);
    assert_int_equal(
        ips_lock_directory(way, "other", "--pool", 0, &first, &second, &err),
        0);
    assert_int_equal(
        ips_lock_directory(dir, "lock", "--state", 0, &first, &third, &err),
        IPS_E_BUSY);
    assert_int_equal(
        ips_lock_directory(dir, "third", "--state", 0, NULL, &third, &err),
        IPS_E_BUSY);
    ips_lock_release(&second);
    ips_lock_release(&first);
    /* a lock that is not held */
    assert_int_equal(
        ips_lock_directory(dir, "other", "--pool", 0, &first, &second, &err),
        0);
    ips_lock_release(&second);
    assert_int_equal(unlink(way), 0);
    assert_int_equal(unlink(other), 0);
    snprintf(other, sizeof(other), "%s/third", dir);
    assert_int_equal(unlink(other), 0);
}

/* Would catch: a daemon that waits for a lock that nobody holds, because the
 * file system has no such locks, or says that another daemon holds it; one
 * that does not begin although the file can be locked. */
static void test_lock__no_locks_of_directories(void **state)
{
    (void)state;
    static const int fails[] = {EBADF, ENOLCK, EOPNOTSUPP, EINVAL};
    struct ips_lock first, second;
    struct ips_err err;
    for (size_t i = 0; i < sizeof(fails) / sizeof(*fails); i++) {
        dir_fails = fails[i];
        file_fails = 0;
        flocks = 0;
        assert_int_equal(ips_lock_directory(dir, "lock", "--state", 60000, NULL,
                                            &first, &err),
                         0);
        assert_int_equal(flocks, 2);
        assert_int_equal(take(&second, &err), IPS_E_BUSY);
        ips_lock_release(&first);
        file_fails = fails[i];
        flocks = 0;
        assert_int_equal(ips_lock_directory(dir, "lock", "--state", 60000, NULL,
                                            &first, &err),
                         IPS_E_IO);
        assert_int_equal(flocks, 2);
        assert_non_null(strstr(err.msg, strerror(fails[i])));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_lock__one_holder, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lock__file_removed, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_lock__two_names_in_one_directory,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_lock__no_locks_of_directories,
                                        setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
