/* Which procedures take and give locks, and who called them: by the stacks that
 * samples of glibc have (slave/profile/lock_code.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "slave/profile/lock_code.h"
#include "slave/profile/proc_names.h"

#define LIBC "/lib/x86_64-linux-gnu/libc.so.6"

/* Symbols 0... are the stack itself, innermost first. */
static bool use_of(const char *const (*stack)[2], uint32_t count,
                   struct slave_lock_use *out)
{
    struct slave_proc_symbol symbol[8];
    uint32_t number[8];
    memset(symbol, 0, sizeof(symbol));
    for (uint32_t i = 0; i < count; i++) {
        symbol[i].name = stack[i][0];
        symbol[i].name_len = (uint32_t)strlen(stack[i][0]);
        symbol[i].module = stack[i][1];
        number[i] = i;
    }
    const struct slave_proc_names names = {.symbols = symbol,
                                           .symbol_count = count};
    return slave_lock_find_use_in_stack(&names, number, count, out);
}
#define USE(stack, out) use_of(stack, sizeof(stack) / sizeof(*(stack)), out)

/* Catches: a mutex of the program whose cost goes to the C library or to the
 * recording library; one that is taken without contention said to be contended.
 */
static void test_lock_code__a_mutex_is_its_callers(void **state)
{
    (void)state;
    static const char *const wakes[][2] = {
        {"__GI___lll_lock_wake", LIBC},
        {"lll_mutex_unlock_optimized", LIBC},
        {"__GI___pthread_mutex_unlock_usercnt", LIBC},
        {"[recording]", "/opt/lib/libips-preload.so"},
        {"count", "/bin/p"},
        {"main", "/bin/p"}};
    static const char *const takes[][2] = {{"___pthread_mutex_lock", LIBC},
                                           {"count", "/bin/p"}};
    struct slave_lock_use use;
    assert_true(USE(wakes, &use));
    assert_int_equal(use.site, 4);
    assert_int_equal(use.caller, 4);
    assert_true(use.contended && use.gives && !use.library);
    assert_true(USE(takes, &use));
    assert_int_equal(use.site, 1);
    assert_true(!use.contended && !use.gives);
}

/* Catches: a lock inside the C library that is not told from the program's, or
 * is named by the library's innermost function and not by the one called. */
static void test_lock_code__a_lock_of_the_library(void **state)
{
    (void)state;
    static const char *const stack[][2] = {
        {"futex_wait", LIBC},         {"__GI___lll_lock_wait_private", LIBC},
        {"_IO_new_file_write", LIBC}, {"_IO_fwrite", LIBC},
        {"put_line", "/bin/p"},       {"main", "/bin/p"}};
    struct slave_lock_use use;
    assert_true(USE(stack, &use));
    assert_int_equal(use.site, 3);
    assert_int_equal(use.caller, 4);
    assert_true(use.contended && use.library && !use.gives);
}

/* Catches: waits for conditions and semaphores, and functions of the program
 * that are called as the library's, taken for locks. */
static void test_lock_code__what_is_no_lock(void **state)
{
    (void)state;
    static const char *const cond[][2] = {
        {"futex_wait", LIBC},
        {"__futex_abstimed_wait_common64", LIBC},
        {"___pthread_cond_wait", LIBC},
        {"next_job", "/bin/p"}};
    static const char *const sem[][2] = {
        {"futex_wake", LIBC}, {"__new_sem_post", LIBC}, {"give", "/bin/p"}};
    static const char *const own[][2] = {{"lll_lock_wait", "/bin/p"},
                                         {"main", "/bin/p"}};
    static const char *const none[][2] = {{"__GI___lll_lock_wake", LIBC}};
    struct slave_lock_use use;
    assert_false(USE(cond, &use));
    assert_false(USE(sem, &use));
    assert_false(USE(own, &use));
    assert_false(USE(none, &use)); /* who called it is not known */
}

/* Catches: the mutex that a condition takes again not seen as contended. */
static void test_lock_code__the_mutex_of_a_condition(void **state)
{
    (void)state;
    static const char *const stack[][2] = {
        {"__lll_lock_wait", LIBC},
        {"__GI___pthread_mutex_cond_lock", LIBC},
        {"___pthread_cond_wait", LIBC},
        {"next_job", "/bin/p"}};
    struct slave_lock_use use;
    assert_true(USE(stack, &use));
    assert_int_equal(use.site, 3);
    assert_true(use.contended && !use.library);
}

/* Catches: a thread that yields its core in a loop taken for one that contends
 * for a lock, and a spin lock that is waited for not known. */
static void test_lock_code__threads_that_spin(void **state)
{
    (void)state;
    static const char *const yields[][2] = {{"__sched_yield", LIBC},
                                            {"await", "/bin/p"}};
    static const char *const spins[][2] = {
        {"__pthread_spin_lock", LIBC},
        {"[recording]", "/opt/lib/libips-preload.so"},
        {"count", "/bin/p"}};
    struct slave_lock_use use;
    assert_true(USE(yields, &use));
    assert_int_equal(use.site, 1);
    assert_true(use.yields && !use.contended);
    assert_true(USE(spins, &use));
    assert_int_equal(use.site, 2);
    assert_true(use.contended && !use.yields);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lock_code__a_mutex_is_its_callers),
        cmocka_unit_test(test_lock_code__a_lock_of_the_library),
        cmocka_unit_test(test_lock_code__what_is_no_lock),
        cmocka_unit_test(test_lock_code__threads_that_spin),
        cmocka_unit_test(test_lock_code__the_mutex_of_a_condition),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
