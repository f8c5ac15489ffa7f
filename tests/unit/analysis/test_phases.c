/*
 * Phases of series whose phases are known (analysis/explain/phases.h); what
 * they cost is held against an exact search in tests/oracle/phases_oracle.py.
 * EVIDENCE-OF: IPS-16
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/explain/phases.h"

static uint64_t seed;
static uint64_t draw(uint64_t below)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (seed * 0x2545F4914F6CDD1DULL >> 33) % below;
}

static uint64_t a[IPS_PHASES_BINS], b[IPS_PHASES_BINS];
static struct ips_phases p;

/* `noise` on each side of `level`. */
static void fill(uint64_t *v, uint32_t from, uint32_t to, uint64_t value,
                 uint64_t noise)
{
    for (uint32_t i = from; i < to; i++)
        v[i] = value + draw(2 * noise + 1) - (value < noise ? value : noise);
}

static void find(uint32_t series, uint32_t bins, uint64_t least)
{
    const struct ips_phase_series s[] = {{a, least}, {b, least}};
    struct ips_err err = {0};
    assert_int_equal(ips_phases_find_in_series(s, series, bins, &p, &err), 0);
    assert_true(bins == 0 ? p.count == 0 : p.count > 0);
    for (uint32_t i = 0; i < p.count; i++)
        assert_true(p.end[i] > (i ? p.end[i - 1] : 0));
    if (bins > 0)
        assert_int_equal(p.end[p.count - 1], bins);
}

static void near(uint32_t is, uint32_t wanted)
{
    assert_true(is + 2 >= wanted && is <= wanted + 2);
}

/* Would catch a cut where nothing changes: of constants, of one bin, of none.
 */
static void test_phases__nothing_changes(void **state)
{
    (void)state;
    for (uint32_t n = 0; n <= IPS_PHASES_BINS; n = n * 3 + 1) {
        for (uint64_t value = 0; value < 3; value++) {
            fill(a, 0, n, value ? UINT64_MAX >> (10 * value) : 0, 0);
            find(1, n, 0);
            assert_int_equal(p.count, n > 0);
        }
    }
}

/* Would catch a penalty that noise beats: seeded noise of several shapes,
 * sparse and heavy-tailed ones too, is one phase. */
static void test_phases__noise_is_one_phase(void **state)
{
    (void)state;
    unsigned several = 0, trials = 0;
    for (seed = 1; trials < 400; seed += 2) {
        uint32_t n = 64 << trials % 3;
        for (uint32_t i = 0; i < n; i++) {
            a[i] = 1000 + draw(200);
            b[i] = trials % 2 ? (draw(10) ? 0 : draw(20)) : 1u << draw(30);
        }
        uint64_t kept = seed;
        find(2, n, 0);
        several += p.count > 1;
        seed = kept;
        trials++;
    }
    assert_true(several <= 2);
}

/* Would catch a boundary at the wrong place: three levels in both series, with
 * noise, at every place a boundary may have. */
static void test_phases__steps(void **state)
{
    (void)state;
    seed = 42;
    for (uint32_t shift = 0; shift < 100; shift++) {
        uint32_t one = 100 + shift, two = 300 + shift;
        fill(a, 0, one, 100000, 3000);
        fill(a, one, two, 30000, 9000);
        fill(a, two, 512, 100, 100);
        fill(b, 0, one, 2, 2);
        fill(b, one, two, 400, 150);
        fill(b, two, 512, 0, 0);
        find(2, 512, 0);
        assert_int_equal(p.count, 3);
        near(p.end[0], one);
        near(p.end[1], two);
    }
}

/* Would catch a search that looks at less than all places: without noise the
 * boundary is exact, and moves with the step, bin by bin. */
static void test_phases__exact_without_noise(void **state)
{
    (void)state;
    for (uint32_t at = 30; at <= 226; at++) {
        fill(a, 0, at, 7, 0);
        fill(a, at, 256, 9, 0);
        find(1, 256, 0);
        assert_int_equal(p.count, 2);
        assert_int_equal(p.end[0], at);
    }
}

/* Would catch levels of the wrong side of equal values: a phase of few bins
 * among very many that are alike, above them and below. */
static void test_phases__among_equal_values(void **state)
{
    (void)state;
    for (uint64_t low = 0; low < 2; low++) {
        fill(a, 0, 512, low ? 0 : 50, 0);
        fill(a, 200, 230, low ? 50 : 0, 0);
        find(1, 512, 0);
        assert_int_equal(p.count, 3);
        assert_int_equal(p.end[0], 200);
        assert_int_equal(p.end[1], 230);
    }
    /* Three values, the middle one nearly everywhere. */
    fill(a, 0, 512, 5, 0);
    fill(a, 10, 90, 0, 0);
    fill(a, 400, 480, 9, 0);
    find(1, 512, 0);
    assert_int_equal(p.count, 5);
}

/* Would catch a cost that a single value can dominate. */
static void test_phases__spikes_are_no_phase(void **state)
{
    (void)state;
    seed = 7;
    for (unsigned trial = 0; trial < 50; trial++) {
        fill(a, 0, 300, 1000, 50);
        for (unsigned k = 0; k < 5; k++)
            a[draw(300)] = (uint64_t)1 << (20 + draw(40));
        find(1, 300, 0);
        assert_int_equal(p.count, 1);
    }
}

/* Would catch a scale that matters: the cut of a series is that of the series
 * times anything. */
static void test_phases__scale_does_not_matter(void **state)
{
    (void)state;
    seed = 99;
    fill(a, 0, 150, 100, 30);
    fill(a, 150, 400, 300, 90);
    find(1, 400, 0);
    struct ips_phases one = p;
    for (uint32_t i = 0; i < 400; i++)
        a[i] *= 1000000007;
    find(1, 400, 0);
    assert_int_equal(one.count, 2);
    assert_memory_equal(one.end, p.end, one.count * sizeof(*p.end));
}

/* Would catch answers that are worth no word: a change of 5%, sure as it is;
 * and one of less than what the caller calls anything. */
static void test_phases__too_small_to_tell(void **state)
{
    (void)state;
    seed = 3;
    fill(a, 0, 256, 1000, 3);
    fill(a, 256, 512, 1050, 3);
    find(1, 512, 0);
    assert_int_equal(p.count, 1);
    fill(a, 256, 512, 2000, 3);
    find(1, 512, 990);
    assert_int_equal(p.count, 2);
    find(1, 512, 1010);
    assert_int_equal(p.count, 1);
}

/* Would catch a series that drowns in the others: what one alone shows is a
 * phase of both together. */
static void test_phases__one_of_two_changes(void **state)
{
    (void)state;
    seed = 5;
    fill(a, 0, 512, 1000, 400);
    fill(b, 0, 512, 0, 0);
    fill(b, 300, 400, 50, 20);
    find(2, 512, 0);
    assert_int_equal(p.count, 3);
    near(p.end[0], 300);
    near(p.end[1], 400);
}

static void test_phases__limits(void **state)
{
    (void)state;
    const struct ips_phase_series s[] = {{a, 0}};
    struct ips_err err = {0};
    assert_int_equal(ips_phases_find_in_series(s, 0, 10, &p, &err),
                     IPS_E_LIMIT);
    assert_int_equal(
        ips_phases_find_in_series(s, 1, IPS_PHASES_BINS + 1, &p, &err),
        IPS_E_LIMIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_phases__nothing_changes),
        cmocka_unit_test(test_phases__noise_is_one_phase),
        cmocka_unit_test(test_phases__steps),
        cmocka_unit_test(test_phases__exact_without_noise),
        cmocka_unit_test(test_phases__among_equal_values),
        cmocka_unit_test(test_phases__spikes_are_no_phase),
        cmocka_unit_test(test_phases__scale_does_not_matter),
        cmocka_unit_test(test_phases__too_small_to_tell),
        cmocka_unit_test(test_phases__one_of_two_changes),
        cmocka_unit_test(test_phases__limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
