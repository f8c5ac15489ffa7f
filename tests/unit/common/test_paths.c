/* Errors that pass through several callers; directories that are made. Catches:
 * a failure whose code is lost where the caller wants no message, and a name
 * that is read behind its end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/paths.h"

static void test_paths__context_keeps_the_code(void **state)
{
    (void)state;
    struct ips_err err;
    ips_err_set(&err, IPS_E_LIMIT, "too long");
    assert_int_equal(ips_err_wrap(&err, IPS_E_LIMIT, "run %s", "r"),
                     IPS_E_LIMIT);
    assert_int_equal(err.code, IPS_E_LIMIT);
    assert_string_equal(err.msg, "run r: too long");
    assert_int_equal(ips_err_wrap(NULL, IPS_E_LIMIT, "run %s", "r"),
                     IPS_E_LIMIT);
}

static void test_paths__no_name_makes_no_directory(void **state)
{
    (void)state;
    struct ips_err err;
    assert_int_equal(ips_path_make_directories("", 0700, &err), IPS_E_USAGE);
    assert_string_equal(err.msg, "the name of a directory is empty");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paths__context_keeps_the_code),
        cmocka_unit_test(test_paths__no_name_makes_no_directory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
