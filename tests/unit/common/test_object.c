/*
 * Which objects a pattern selects. Catches: a name that begins like another
 * taken for it, a star that crosses a slash, a pattern that needs more time
 * than anybody has, a machine that is not asked though it has what is wanted.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/object.h"

static void test_object__selects(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *object;
        bool in;
    } cases[] = {
        {"", "/m1/a.3", true},
        {"/", "/", true},
        {"/m1", "/m1", true},
        {"/m1", "/m1/a.3/7", true},
        {"/m1", "/m10/a.3", false},
        {"m1/a.3", "/m1/a.3", true},
        {"/m1/a.3", "/m1/a.31", false},
        {"/m1/a.3", "/m1", false},
        {"/m1/a*", "/m1/a.3/7", true},
        {"/*/a.?", "/m2/a.3", true},
        {"/*/a.?", "/m2/a.31", false},
        {"*", "/m1/a.3", true},
        {"m1/*/7", "/m1/a.3/7", true},
        {"m1/*/7", "/m1/a.3", false},
        {"m*3", "/m1/a.3", false},
        {"/m1/", "/m1/a.3", true},
        {"/m1/*3*", "/m1/a.3", true},
        {"//m1", "/m1", true},
        {"/ab*bc", "/abc", false}, /* no character stands for two */
        {"/ab*bc", "/abbc", true},
        {"/x*ab", "/xaab", true},
        {"/*b*d", "/abcd", true},
        {"/*b*d", "/abcde", false},
        {"/?", "/", false},
        {"/**", "/a", true},
        {"/a**", "/a", true},
        {"/a*b", "/a", false},
        {"m1/redis*/*", "/m1/redis-server.812/812", true},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        if (ips_object_matches_pattern(cases[i].pattern, cases[i].object) !=
            cases[i].in)
            fail_msg("%s of %s", cases[i].pattern, cases[i].object);
}

static void test_object__many_stars_end(void **state)
{
    char pattern[512], text[4096];
    (void)state;
    for (size_t i = 0; i + 1 < sizeof(pattern); i++)
        pattern[i] = i % 2 ? 'a' : '*';
    pattern[sizeof(pattern) - 2] = 'b';
    pattern[sizeof(pattern) - 1] = '\0';
    memset(text, 'a', sizeof(text) - 1);
    text[0] = '/';
    text[sizeof(text) - 1] = '\0';
    assert_false(ips_object_matches_pattern(pattern, text));
}

static void test_object__machines_and_parts(void **state)
{
    (void)state;
    assert_true(ips_object_pattern_matches_machine("", "m1"));
    assert_true(ips_object_pattern_matches_machine("/m?/x", "m1"));
    assert_false(ips_object_pattern_matches_machine("/m1/x", "m10"));
    assert_int_equal(ips_object_count_components("/"), 0);
    assert_int_equal(ips_object_count_components("m1/*/7/"), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_object__selects),
        cmocka_unit_test(test_object__many_stars_end),
        cmocka_unit_test(test_object__machines_and_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
