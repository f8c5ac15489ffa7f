/* A directory has one daemon at a time. */
#include <errno.h>
#include <fcntl.h>
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
static unsigned flocks, pauses;

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

/* A wait of its own length; nobody else runs meanwhile. */
int usleep(useconds_t us)
{
    assert_int_equal(us, 20000);
    pauses++;
    return 0;
}

static int take(struct ips_lock *lock, struct ips_err *err)
{
    *err = (struct ips_err){0};
    return ips_lock_directory_and_store_pid(dir, "lock", "--state", 0, NULL,
                                            lock, err);
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
    assert_int_equal(ips_lock_directory_and_store_pid(way, "other", "--pool", 0,
                                                      &first, &second, &err),
                     0);
    assert_int_equal(ips_lock_directory_and_store_pid(dir, "lock", "--state", 0,
                                                      &first, &third, &err),
                     IPS_E_BUSY);
    assert_int_equal(ips_lock_directory_and_store_pid(dir, "third", "--state",
                                                      0, NULL, &third, &err),
                     IPS_E_BUSY);
    ips_lock_release(&second);
    ips_lock_release(&first);
    /* a lock that is not held */
    assert_int_equal(ips_lock_directory_and_store_pid(dir, "other", "--pool", 0,
                                                      &first, &second, &err),
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
        assert_int_equal(ips_lock_directory_and_store_pid(
                             dir, "lock", "--state", 60000, NULL, &first, &err),
                         0);
        assert_int_equal(flocks, 2);
        assert_int_equal(take(&second, &err), IPS_E_BUSY);
        ips_lock_release(&first);
        file_fails = fails[i];
        flocks = 0;
        assert_int_equal(ips_lock_directory_and_store_pid(
                             dir, "lock", "--state", 60000, NULL, &first, &err),
                         IPS_E_IO);
        assert_int_equal(flocks, 2);
        assert_non_null(strstr(err.msg, strerror(fails[i])));
    }
}

static void read_lock_file(char *text, size_t room)
{
    FILE *f = fopen(file, "r");
    assert_non_null(f);
    text[fread(text, 1, room - 1, f)] = '\0';
    fclose(f);
}

/* Would catch: another pid than the holder's, or one that stays and misleads
 * people; a file that others read. */
static void test_lock__says_who(void **state)
{
    (void)state;
    struct ips_lock lock, second;
    struct ips_err err;
    struct stat st;
    char text[64], pid[64], want[300];
    FILE *f = fopen(file, "w");
    fputs("12345678901234567890\n", f); /* an old one, longer */
    fclose(f);
    assert_int_equal(chmod(file, 0600), 0);
    assert_int_equal(take(&lock, &err), 0);
    snprintf(pid, sizeof(pid), "%d\n", (int)getpid());
    read_lock_file(text, sizeof(text));
    assert_string_equal(text, pid);
    assert_true(fcntl(lock.dir_fd, F_GETFD) & FD_CLOEXEC);
    assert_true(fcntl(lock.file_fd, F_GETFD) & FD_CLOEXEC);
    static const char *const holders[] = {"12\n", "12\nmore", "12", ""};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(truncate(file, 0), 0);
        assert_int_equal(
            pwrite(lock.file_fd, holders[i], strlen(holders[i]), 0),
            strlen(holders[i]));
        assert_int_equal(take(&second, &err), IPS_E_BUSY);
        snprintf(want, sizeof(want),
                 "%s is in use by another daemon (pid %s): end it first, or "
                 "name another directory (--state)",
                 dir, i < 3 ? "12" : "unknown");
        assert_string_equal(err.msg, want);
    }
    ips_lock_release(&lock);
    assert_true(lock.dir_fd == -1 && lock.file_fd == -1);
    ips_lock_release(&lock);
    read_lock_file(text, sizeof(text));
    assert_string_equal(text, "");
    assert_int_equal(unlink(file), 0);
    mode_t mask = umask(0);
    assert_int_equal(take(&lock, &err), 0);
    umask(mask);
    assert_int_equal(stat(file, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    ips_lock_release(&lock);
}

/* Would catch: a daemon that gives up too early, or waits for more than it
 * should, for one that is about to end. */
static void test_lock__waits(void **state)
{
    (void)state;
    static const struct {
        unsigned ms, pauses;
    } cases[] = {{0, 0}, {1, 1}, {20, 1}, {21, 2}, {81, 5}, {100, 5}};
    struct ips_lock lock, second;
    struct ips_err err;
    char want[200];
    assert_int_equal(take(&lock, &err), 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        pauses = 0;
        assert_int_equal(
            ips_lock_directory_and_store_pid(dir, "lock", "--state",
                                             cases[i].ms, NULL, &second, &err),
            IPS_E_BUSY);
        assert_int_equal(pauses, cases[i].pauses);
    }
    ips_lock_release(&lock);
    pauses = 0;
    dir_fails = EINTR; /* a signal: once more */
    assert_int_equal(ips_lock_directory_and_store_pid(dir, "lock", "--state",
                                                      40, NULL, &second, &err),
                     IPS_E_IO);
    snprintf(want, sizeof(want), "%s cannot be locked: %s", dir,
             strerror(EINTR));
    assert_string_equal(err.msg, want);
    assert_int_equal(pauses, 2);
    assert_true(second.dir_fd == -1 && second.file_fd == -1);
}

/* Would catch: a lock of another directory that counts as one of this. */
static void test_lock__own_is_of_another(void **state)
{
    (void)state;
    struct ips_lock own, lock, second;
    struct ips_err err;
    char other[80], want[200], inside[100];
    assert_int_equal(take(&own, &err), 0);
    snprintf(other, sizeof(other), "%s/sub", dir);
    snprintf(inside, sizeof(inside), "%s/lock", other);
    assert_int_equal(ips_lock_directory_and_store_pid(other, "lock", "--pool",
                                                      0, &own, &lock, &err),
                     IPS_E_IO);
    snprintf(want, sizeof(want), "%s: No such file or directory", other);
    assert_string_equal(err.msg, want);
    assert_true(lock.dir_fd == -1 && lock.file_fd == -1);
    assert_int_equal(mkdir(other, 0700), 0);
    assert_int_equal(ips_lock_directory_and_store_pid(other, "lock", "--pool",
                                                      0, &own, &lock, &err),
                     0);
    assert_int_equal(unlink(inside), 0);
    assert_int_equal(ips_lock_directory_and_store_pid(other, "lock", "--pool",
                                                      0, NULL, &second, &err),
                     IPS_E_BUSY);
    ips_lock_release(&lock);
    assert_int_equal(unlink(inside), 0);
    assert_int_equal(symlink(file, inside), 0); /* not followed */
    assert_int_equal(ips_lock_directory_and_store_pid(other, "lock", "--pool",
                                                      0, NULL, &second, &err),
                     IPS_E_IO);
    assert_int_equal(strncmp(err.msg, inside, strlen(inside)), 0);
    int before = dup(0);
    assert_int_equal(take(&second, &err), IPS_E_BUSY);
    int after = dup(0);
    assert_int_equal(after, before + 1); /* no descriptor stays */
    close(before);
    close(after);
    assert_int_equal(unlink(inside), 0);
    assert_int_equal(rmdir(other), 0);
    ips_lock_release(&own);
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
        cmocka_unit_test_setup_teardown(test_lock__says_who, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lock__waits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lock__own_is_of_another, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
