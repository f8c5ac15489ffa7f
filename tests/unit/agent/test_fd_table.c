/* The interposer's descriptor table: names never outlive their descriptor, and
 * never cross a fork. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/preload/fd_table.h"
#include "agent/record/core.h"
#include "agent/record/sys.h"
#include "tests/unit/help/emulated.h"

/* The core's page that a fork child finds emptied: none here. */
void *ips_core_get_memory_wiped_on_fork(void)
{
    return NULL;
}
bool ips_sys_quiet; /* the core's */
struct ips_core ips_core;

static void test_fd_table__keeps_what_was_learnt(void **state)
{
    (void)state;
    assert_int_equal(ips_fd_class(ips_fd_get(7)), IPS_FD_UNKNOWN);
    ips_fd_store_if_unchanged(7, ips_fd_get(7), IPS_FD_STREAM, 42, IPS_FD_TCP);
    uint64_t word = ips_fd_get(7);
    assert_int_equal(ips_fd_class(word), IPS_FD_STREAM);
    assert_int_equal(ips_fd_channel_id(word), 42);
    assert_true(word & IPS_FD_TCP);
    assert_false(word & IPS_FD_CONNECTED);
    assert_true(ips_fd_upper_bound() >= 8);
    ips_fd_clear(7);
    assert_int_equal(ips_fd_class(ips_fd_get(7)), IPS_FD_UNKNOWN);
    assert_int_equal(ips_fd_channel_id(ips_fd_get(7)), 0);
}

/* Catches a name taken before a close and stored after it: the number may be
 * another thread's new descriptor by then. */
static void test_fd_table__late_name_is_refused(void **state)
{
    (void)state;
    uint64_t seen = ips_fd_get(9);
    ips_fd_store_if_unchanged(9, seen, IPS_FD_STREAM, 1, 0);
    ips_fd_clear(9);
    uint64_t got = ips_fd_store_if_unchanged(9, seen, IPS_FD_STREAM, 2, 0);
    assert_int_equal(ips_fd_class(got), IPS_FD_NONE);
    assert_int_equal(ips_fd_class(ips_fd_get(9)), IPS_FD_UNKNOWN);
    for (int i = 0; i < 1000; i++) /* closing again does not bring it back */
        ips_fd_clear(9);
    got = ips_fd_store_if_unchanged(9, seen, IPS_FD_STREAM, 3, 0);
    assert_int_equal(ips_fd_class(got), IPS_FD_NONE);
}

/* Catches two ids for one descriptor: the second would never be closed. */
static void test_fd_table__first_name_wins(void **state)
{
    (void)state;
    uint64_t seen = ips_fd_get(600);
    ips_fd_store_if_unchanged(600, seen, IPS_FD_STREAM, 5, 0);
    uint64_t got = ips_fd_store_if_unchanged(600, seen, IPS_FD_STREAM, 6, 0);
    assert_int_equal(ips_fd_channel_id(got), 5);
    assert_int_equal(ips_fd_channel_id(ips_fd_get(600)), 5);
}

static void test_fd_table__what_it_cannot_hold(void **state)
{
    (void)state;
    const int fds[] = {-1, INT32_MIN, (int)IPS_FD_MAX, INT32_MAX};
    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
        assert_int_equal(ips_fd_class(ips_fd_get(fds[i])), IPS_FD_NONE);
        ips_fd_store_if_unchanged(fds[i], 0, IPS_FD_STREAM, 1, 0);
        ips_fd_clear(fds[i]);
        assert_int_equal(ips_fd_class(ips_fd_get(fds[i])), IPS_FD_NONE);
    }
}

/* Catches a fork child that goes on with its parent's channel ids. */
static void test_fd_table__fork_child_starts_anew(void **state)
{
    (void)state;
    SKIP_IF_EMULATED("MADV_WIPEONFORK");
    uint32_t before = ips_fd_allocate_channel_id();
    assert_true(ips_fd_allocate_channel_id() > before);
    ips_fd_store_if_unchanged(20, ips_fd_get(20), IPS_FD_STREAM, 11, 0);
    int top = ips_fd_upper_bound();
    pid_t pid = fork();
    if (pid == 0)
        _exit(ips_fd_get(20) != 0 || ips_fd_allocate_channel_id() != 1 ||
              ips_fd_upper_bound() != top);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(ips_fd_channel_id(ips_fd_get(20)), 11);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fd_table__keeps_what_was_learnt),
        cmocka_unit_test(test_fd_table__late_name_is_refused),
        cmocka_unit_test(test_fd_table__first_name_wins),
        cmocka_unit_test(test_fd_table__what_it_cannot_hold),
        cmocka_unit_test(test_fd_table__fork_child_starts_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
