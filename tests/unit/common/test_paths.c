/* Errors that pass through several callers. Catches: a failure whose code is
 * lost where the caller wants no message. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paths__context_keeps_the_code),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
