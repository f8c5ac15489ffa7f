/* Two sets of runs against each other (client/base/diff.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

#include "client/base/diff.h"

static uint64_t seed;
static uint64_t draw(uint64_t below)
{
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    return (seed >> 33) % below;
}

static struct diff d;

static void begin(unsigned a, unsigned b)
{
    struct ips_err err = {0};
    diff_release(&d);
    assert_int_equal(diff_init(&d, a, b, &err), 0);
}

static void add(const char *name, unsigned run, uint64_t v)
{
    struct ips_err err = {0};
    assert_int_equal(diff_add_value_of_run(&d, "k", name, run, v, &err), 0);
}

/* Solved, and whole: changes of the items add up to that of the totals. */
static void solve(void)
{
    struct ips_err err = {0};
    int64_t sum = 0;
    assert_int_equal(diff_compute_changes(&d, &err), 0);
    for (size_t i = 0; i < d.count; i++)
        sum += d.item[i].change;
    assert_int_equal(sum, d.sum.change);
}

static const struct diff_item *item(const char *name)
{
    for (size_t i = 0; i < d.count; i++)
        if (strcmp(d.item[i].name, name) == 0)
            return &d.item[i];
    fail_msg("no %s", name);
    return NULL;
}

/* Would catch a wrong sign, a wrong order, and a cause named of two runs. */
static void test_diff__two_runs(void **state)
{
    (void)state;
    begin(1, 1);
    add("a", 0, 100);
    add("b", 0, 50);
    add("a", 1, 90);
    add("c", 1, 200);
    solve();
    assert_int_equal(d.sum.change, 140);
    assert_string_equal(d.item[0].name, "c");
    assert_int_equal(d.item[0].change, 200);
    assert_int_equal(item("b")->change, -50);
    assert_int_equal(item("a")->change, -10);
    for (size_t i = 0; i < d.count; i++) {
        assert_true(isnan(d.item[i].p) && isnan(d.item[i].low));
        assert_false(d.item[i].cause);
    }
    assert_false(d.sum.cause);
}

/* Would catch parts that do not add up to the difference because means were
 * rounded: many items, sides of 3 and 7. */
static void test_diff__parts_add_up(void **state)
{
    (void)state;
    seed = 1;
    for (unsigned trial = 0; trial < 200; trial++) {
        begin(1 + trial % 4, 1 + trial % 9);
        for (unsigned r = 0; r < d.runs; r++)
            for (unsigned i = 0; i < 20; i++) {
                char name[8];
                snprintf(name, sizeof(name), "%u", i);
                add(name, r, draw(i % 3 ? 1000 : 3));
            }
        solve();
    }
}

/* Runs of one kind: noise in every item. */
static void draw_runs(unsigned a, unsigned b, uint64_t more)
{
    begin(a, b);
    for (unsigned r = 0; r < d.runs; r++) {
        add("big and noisy", r, 300000 + draw(200000));
        add("steady", r, 100000 + draw(2000) + (r >= a ? more : 0));
        add("rare", r, draw(4) ? 0 : 50000);
        add("tiny", r, draw(10));
    }
    solve();
}

/* Would catch a p that chance beats more often than it says: 5 runs against 5
 * of the same, 300 times. */
static void test_diff__the_same_twice(void **state)
{
    (void)state;
    unsigned differ = 0, chance = 0;
    seed = 7;
    for (unsigned trial = 0; trial < 300; trial++) {
        draw_runs(5, 5, 0);
        differ += d.sum.cause;
        bool any = false;
        for (size_t i = 0; i < d.count; i++) {
            any = any || d.item[i].p <= DIFF_CHANCE;
            assert_true(d.sum.cause || !d.item[i].cause);
        }
        chance += any;
    }
    assert_true(differ <= 300 * 8 / 100);
    assert_true(chance <= 300 * 8 / 100);
}

/* Would catch a cause that is not seen behind noise greater than itself, and
 * one that is named in place of it. */
static void test_diff__a_cause_is_named(void **state)
{
    (void)state;
    seed = 11;
    for (unsigned trial = 0; trial < 20; trial++) {
        draw_runs(6, 5, 400000);
        assert_true(d.sum.cause);
        assert_true(item("steady")->cause);
        assert_true(item("steady")->p <= 0.05);
        assert_true(item("steady")->low > 390000);
        assert_true(item("steady")->high < 410000);
        assert_false(item("tiny")->cause);
        assert_true(isnan(item("tiny")->p));
    }
    /* With one run less on a side: the same differences, and no word of why. */
    draw_runs(6, 4, 400000);
    assert_false(item("steady")->cause);
    assert_true(item("steady")->change > 390000);
}

/* Would catch an answer that hangs on anything but the runs: many ways are
 * drawn, from the same seed. */
static void test_diff__the_same_answer_again(void **state)
{
    (void)state;
    double p[2], low[2];
    for (int i = 0; i < 2; i++) {
        seed = 5;
        draw_runs(20, 20, 3000);
        p[i] = d.sum.p;
        low[i] = item("steady")->low;
    }
    assert_true(p[0] == p[1] && p[0] > 0 && low[0] == low[1]);
}

static void test_diff__names(void **state)
{
    (void)state;
    static const struct {
        const char *text, *plain;
    } cases[] = {
        {"/m1/solver.812", "/m1/solver"},
        {"/m1/solver.812/813", "/m1/solver/813"},
        {"m1/a.3 -> m1/b.7#2", "m1/a -> m1/b"},
        {"m1/a.3 -> external", "m1/a -> external"},
        {"/m1/python3.11.77", "/m1/python3.11"},
        {"/m.1x/a", "/m.1x/a"},
        {"libc.so.6 x", "libc.so x"},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char out[64];
        diff_strip_process_ids(cases[i].text, out, sizeof(out));
        assert_string_equal(out, cases[i].plain);
    }
    char small[4];
    diff_strip_process_ids("abcdef", small, sizeof(small));
    assert_string_equal(small, "abc");
}

static void test_diff__medians(void **state)
{
    (void)state;
    const double a[] = {5, 1, 9, 3, 7}, b[] = {105, 101, 109, 103, 107};
    double low, high;
    assert_true(diff_median_of_measured(a, 5) == 5);
    assert_true(diff_median_of_measured(a, 4) == 4);
    assert_true(diff_median_of_measured(a, 1) == 5);
    diff_interval_of_median_change(a, 5, b, 5, &low, &high);
    assert_true(low >= 92 && low <= 100 && high >= 100 && high <= 108);
    diff_interval_of_median_change(a, 4, b, 5, &low, &high);
    assert_true(isnan(low) && isnan(high));
}

/* Runs in which a figure was not measured are left out, they do not count as
 * 0. */
static void test_diff__unmeasured(void **state)
{
    (void)state;
    const double no = (double)NAN;
    const double a[] = {no, 5, 1, no, 9, 3, 7};
    const double b[] = {105, 101, 109, 103, 107};
    double low, high, want_low, want_high;
    assert_true(diff_median_of_measured(a, 7) == 5);
    assert_true(isnan(diff_median_of_measured(&no, 1)));
    diff_interval_of_median_change(a + 1, 1, b, 5, &low, &high);
    assert_true(isnan(low) && isnan(high));
    diff_interval_of_median_change((const double[]){5, 1, 9, 3, 7}, 5, b, 5,
                                   &want_low, &want_high);
    diff_interval_of_median_change(a, 7, b, 5, &low, &high);
    assert_true(low == want_low && high == want_high);
    diff_interval_of_median_change(a, 6, b, 5, &low,
                                   &high); /* four were measured */
    assert_true(isnan(low) && isnan(high));
}

static void test_diff__limits(void **state)
{
    (void)state;
    struct ips_err err = {0};
    struct diff other;
    assert_int_equal(diff_init(&other, 0, 1, &err), IPS_E_USAGE);
    assert_int_equal(diff_init(&other, DIFF_RUNS_MAX, 1, &err), IPS_E_USAGE);
    begin(1, 1);
    add("a", 0, UINT64_MAX);
    add("b", 0, UINT64_MAX);
    solve();
    begin(1, 1);
    solve();
    assert_int_equal(d.sum.change, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_diff__two_runs),
        cmocka_unit_test(test_diff__parts_add_up),
        cmocka_unit_test(test_diff__the_same_twice),
        cmocka_unit_test(test_diff__a_cause_is_named),
        cmocka_unit_test(test_diff__the_same_answer_again),
        cmocka_unit_test(test_diff__names),
        cmocka_unit_test(test_diff__medians),
        cmocka_unit_test(test_diff__unmeasured),
        cmocka_unit_test(test_diff__limits),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    diff_release(&d);
    return failed;
}
