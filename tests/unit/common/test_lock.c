/* A directory has one daemon at a time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* cmocka last of these */
#include <cmocka.h>

#include "common/lock.h"

static char dir[64], file[80];

static int take(struct ips_lock *lock, struct ips_err *err)
{
    *err = (struct ips_err){0};
    return ips_lock_directory(dir, "lock", "--state", 0, lock, err);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_lock__one_holder, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lock__file_removed, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
