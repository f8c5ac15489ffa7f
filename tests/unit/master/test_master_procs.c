/* Rows of procedures merged, and the intervals of their shares
 * (master/tables/procs.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "master/tables/procs.h"

static void near_to(double is, double should)
{
    if (!(is > should - 0.00005 && is < should + 0.00005))
        fail_msg("%f is not %f", is, should);
}

/* Catches: an interval that is not Wilson's 95%; the figures are those of the
 * tables for 25 of 100, 0 of 10, 10 of 10. */
static void test_master_procs__intervals_are_wilsons(void **state)
{
    (void)state;
    double low, high;
    procs_wilson_interval(0.25, 100, &low, &high);
    near_to(low, 0.1755);
    near_to(high, 0.3430);
    procs_wilson_interval(0, 10, &low, &high);
    near_to(low, 0);
    near_to(high, 0.2775);
    procs_wilson_interval(1, 10, &low, &high);
    near_to(low, 0.7225);
    near_to(high, 1);
    procs_wilson_interval(0.5, 0, &low, &high); /* nothing is known */
    near_to(low, 0);
    near_to(high, 1);
}

static Ips__ProcedureRow row(const char *object, const char *procedure,
                             uint32_t line, uint64_t self, uint64_t samples)
{
    Ips__ProcedureRow r = IPS__PROCEDURE_ROW__INIT;
    r.object = ips_unconst_text(object);
    r.procedure = ips_unconst_text(procedure);
    r.module = ips_unconst_text("/bin/x");
    r.line = line;
    r.self_ns = self;
    r.total_ns = self + 5;
    r.samples = samples;
    r.calls = IPS_UNMEASURED;
    return r;
}

/* Catches: equal procedures of two machines as two rows, different lines or
 * processes as one, calls that were not counted added up as all ones. */
static void test_master_procs__equal_rows_are_one(void **state)
{
    (void)state;
    Ips__ProcedureRow rows[] = {row("", "f", 3, 10, 1), row("", "g", 9, 100, 4),
                                row("", "f", 3, 20, 2), row("", "f", 4, 15, 1),
                                row("/m/p", "f", 3, 1, 1)};
    Ips__ProcedureRow *list[5];
    for (int i = 0; i < 5; i++)
        list[i] = &rows[i];
    rows[2].calls = 7;
    rows[2].counted_from_ns = 50;
    assert_int_equal(procs_merge(list, 5), 4);
    assert_string_equal(list[0]->procedure, "g"); /* the greatest first */
    assert_int_equal(list[0]->calls, IPS_UNMEASURED);
    assert_string_equal(list[1]->procedure, "f");
    assert_int_equal(list[1]->self_ns, 30);
    assert_int_equal(list[1]->total_ns, 40);
    assert_int_equal(list[1]->samples, 3);
    assert_int_equal(list[1]->calls, 7);
    assert_int_equal(list[1]->counted_from_ns, 50);
    assert_int_equal(list[2]->line, 4);
    assert_string_equal(list[3]->object, "/m/p");
    assert_int_equal(procs_merge(list, 0), 0);
}

/* Catches: an interval not scaled to the sampled CPU; one as narrow as if few
 * heavy samples were many light ones; one for what was measured exactly or not
 * at all; a hostile slave's totals. */
static void test_master_procs__intervals_follow_the_weights(void **state)
{
    (void)state;
    Ips__ProcedureTotals t = IPS__PROCEDURE_TOTALS__INIT;
    Ips__ProcedureRow f = row("", "f", 1, 250, 25),
                      exact = row("", "e", 1, 9, 0),
                      idle = row("", "i", 1, 0, 0);
    Ips__ProcedureRow *list[] = {&f, &exact, &idle};
    exact.exact = true;
    t.sampled_ns = 1009; /* 100 samples of 10 ns, and 9 ns exact */
    t.exact_ns = 9;
    t.samples = 100;
    t.squares = 100 * 10 * 10;
    f.total_ns = 250;
    idle.total_ns = 250; /* of what it called */
    exact.total_ns = 12;
    procs_compute_intervals(list, 3, &t);
    assert_int_equal(f.total_low_ns, 175);
    assert_int_equal(f.total_high_ns, 343);
    assert_int_equal(idle.total_low_ns, 175);
    assert_int_equal(idle.total_high_ns, 343);
    assert_int_equal(exact.total_low_ns, 12);
    assert_int_equal(f.self_low_ns, 175); /* 0.17546 * 1000 */
    assert_int_equal(f.self_high_ns, 343);
    assert_int_equal(exact.self_low_ns, 9);
    assert_int_equal(exact.self_high_ns, 9);
    assert_int_equal(idle.self_low_ns, IPS_UNMEASURED);
    assert_int_equal(idle.self_high_ns, IPS_UNMEASURED);
    t.unsampled_ns = 50; /* may be f's */
    procs_compute_intervals(list, 3, &t);
    assert_int_equal(f.self_low_ns, 175);
    assert_int_equal(f.self_high_ns, 393);
    assert_int_equal(idle.total_high_ns, 393);
    assert_int_equal(exact.total_high_ns, 12);
    t.unsampled_ns = 0;
    t.squares = 100 * 10 * 10 * 10; /* as good as 10 samples */
    procs_compute_intervals(list, 3, &t);
    double low, high;
    procs_wilson_interval(0.25, 10, &low, &high);
    assert_true(f.self_low_ns == (uint64_t)(low * 1000 + 0.5));
    assert_true(f.self_high_ns == (uint64_t)(high * 1000 + 0.5));
    t.squares = (double)NAN;
    procs_compute_intervals(list, 3, &t);
    assert_int_equal(f.self_low_ns, 0);
    assert_int_equal(f.self_high_ns, 1000);
    t.squares = 1;
    t.sampled_ns = UINT64_MAX;
    f.self_ns = UINT64_MAX;
    procs_compute_intervals(list, 3, &t);
    assert_true(f.self_low_ns <= f.self_ns && f.self_high_ns >= f.self_ns);
}

/* Catches: advice to sample where samples were taken, or to take more where no
 * more can be had. */
static void test_master_procs__what_helps_where_none_is_known(void **state)
{
    (void)state;
    char text[PROCS_NONE_BYTES];
    procs_explain_missing_procedures(0, text);
    assert_non_null(strstr(text, "--procedures=sample"));
    procs_explain_missing_procedures(100000000, text);
    assert_non_null(strstr(text, "every 100 ms (ipsrun --rate 1 samples"));
    procs_explain_missing_procedures(1000000, text);
    assert_non_null(strstr(text, "every 1 ms"));
    assert_null(strstr(text, "ipsrun"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_master_procs__what_helps_where_none_is_known),
        cmocka_unit_test(test_master_procs__intervals_are_wilsons),
        cmocka_unit_test(test_master_procs__equal_rows_are_one),
        cmocka_unit_test(test_master_procs__intervals_follow_the_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
