/* A series as a line of characters (client/base/strip.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/base/strip.h"
#include "client/base/terminal.h"

static char out[IPSQ_STRIP_BYTES];

/* Would catch a height that is not the value's share of the greatest, and
 * values that are little but not nothing shown as nothing. */
static void test_strip__heights(void **state)
{
    (void)state;
    const uint64_t v[] = {0, 1, 100, 200, 400, 799, 800};
    uint64_t top;
    assert_int_equal(ipsq_draw_sparkline(v, 7, false, out, &top), 7);
    assert_string_equal(out, " ..:=@@");
    assert_int_equal(top, 800);
    ipsq_draw_sparkline(v, 7, true, out, &top);
    assert_string_equal(out, " ▁▁▂▄██");
}

/* Would catch columns that leave values out, and overflow. */
static void test_strip__more_values_than_columns(void **state)
{
    (void)state;
    static uint64_t v[512];
    uint64_t top;
    for (size_t i = 0; i < 512; i++)
        v[i] = i < 256 ? 0 : 3;
    v[3] = 2; /* alone in its column: not nothing */
    assert_int_equal(ipsq_draw_sparkline(v, 512, false, out, &top),
                     IPSQ_STRIP_WIDTH);
    assert_int_equal(strlen(out), IPSQ_STRIP_WIDTH);
    assert_int_equal(out[0], '.');
    assert_int_equal(out[1], ' ');
    assert_int_equal(out[23], ' ');
    assert_int_equal(out[24], '@');
    assert_int_equal(top, 3);
    for (size_t i = 0; i < 512; i++)
        v[i] = UINT64_MAX;
    ipsq_draw_sparkline(v, 512, true, out, &top);
    assert_int_equal(strlen(out), IPSQ_STRIP_WIDTH * 3);
}

static void test_strip__nothing(void **state)
{
    (void)state;
    const uint64_t none[] = {0, 0, 0};
    uint64_t top;
    assert_int_equal(ipsq_draw_sparkline(none, 3, false, out, &top), 3);
    assert_string_equal(out, "   ");
    assert_int_equal(top, 0);
    assert_int_equal(ipsq_draw_sparkline(none, 0, false, out, &top), 0);
    assert_string_equal(out, "");
}

/* Would catch a number that is at another place than its stretch, or that runs
 * into the next one. */
static void test_strip__numbers(void **state)
{
    (void)state;
    const size_t ends[] = {8, 9, 16};
    ipsq_draw_interval_numbers(ends, 3, 16, out);
    assert_string_equal(out, "|1      ||3     ");
    const size_t fine[] = {256, 267, 512};
    ipsq_draw_interval_numbers(fine, 3, 512, out);
    assert_int_equal(strlen(out), IPSQ_STRIP_WIDTH);
    assert_memory_equal(out + 24, "||3", 3);
    ipsq_draw_interval_numbers(ends, 0, 0, out);
    assert_string_equal(out, "");
}

static void test_strip__utf8(void **state)
{
    (void)state;
    setenv("LC_ALL", "", 1);
    setenv("LC_CTYPE", "", 1);
    setenv("LANG", "de_DE.utf8", 1);
    assert_true(ipsq_is_utf8());
    setenv("LC_CTYPE", "C", 1);
    assert_false(ipsq_is_utf8());
    setenv("LC_ALL", "C.UTF-8", 1);
    assert_true(ipsq_is_utf8());
    unsetenv("LC_ALL");
    unsetenv("LC_CTYPE");
    unsetenv("LANG");
    assert_false(ipsq_is_utf8());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_strip__heights),
        cmocka_unit_test(test_strip__more_values_than_columns),
        cmocka_unit_test(test_strip__nothing),
        cmocka_unit_test(test_strip__numbers),
        cmocka_unit_test(test_strip__utf8),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
