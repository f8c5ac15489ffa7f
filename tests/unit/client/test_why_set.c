/* Findings of several runs put together (client/commands/why.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>

#include "client/commands/why.h"

static struct why_merged_findings w;

static void found(unsigned run, const char *kind, const char *object,
                  const char *procedure, double share)
{
    assert_int_equal(
        why_merge_finding(&w, run, kind, object, procedure, kind, share, NULL),
        0);
}
static void near(double x, double y)
{
    assert_true(fabs(x - y) < 1e-6);
}

/* Would catch: the same finding told as another one because its process has
 * another number, or two findings as one because only the kind is the same;
 * gains of runs mixed up; a run that has it twice counted twice. */
static void test_why_set__put_together(void **state)
{
    (void)state;
    double median, least, greatest;
    w = (struct why_merged_findings){.runs = 3};
    found(0, "late-sender", "/m/a.12", "f", 0.2);
    found(0, "outside", "/m/a.12", NULL, 0.1);
    found(1, "late-sender", "/m/a.7", "f", 0.4);
    found(1, "late-sender", "/m/a.8", "f", 0.1);
    found(2, "late-sender", "/m/a.901", "f", 0.3);
    found(2, "late-sender", "/m/a.901", "g", 0.95);
    why_sort_merged_findings(&w);
    assert_int_equal(w.count, 3);
    /* 0.2 + 0.4 + 0.3 of three runs; 0.95 of one is more. */
    assert_string_equal(w.seen[0].procedure, "g");
    assert_string_equal(w.seen[1].procedure, "f");
    assert_int_equal(w.seen[1].runs, 3);
    assert_string_equal(w.seen[2].kind, "outside");
    why_compute_gain_statistics(&w.seen[1], &median, &least, &greatest);
    near(median, 0.3);
    near(least, 0.2);
    near(greatest, 0.4);
    why_release_merged_findings(&w);
}

/* Of those with the same gain in all: that of more runs first, then by kind,
 * process and procedure, so that the order never changes by itself. The text is
 * that of the run with the greatest gain; a gain of 0 counts as a run. Would
 * catch: another order, a text of a smaller gain. */
static void test_why_set__order(void **state)
{
    static const char *const want[] = {"b a f of two", "a b f only",
                                       "b a g only", "b b f only", "z a f 0"};
    char text[80];
    (void)state;
    w = (struct why_merged_findings){.runs = 2};
#define ADD(run, kind, who, procedure, says, share)                            \
    assert_int_equal(                                                          \
        why_merge_finding(&w, run, kind, who, procedure, says, share, NULL),   \
        0)
    ADD(0, "z", "a", "f", "0", 0);
    ADD(1, "z", "a", "f", "0 again", 0);
    ADD(0, "b", "b", "f", "only", 0.5);
    ADD(0, "b", "a", "g", "only", 0.5);
    ADD(0, "a", "b", "f", "only", 0.5);
    ADD(0, "b", "a", "f", "of one", 0.125);
    ADD(1, "b", "a", "f", "of two", 0.375);
    ADD(1, "b", "a", "f", "the same once more", 0.375);
    why_sort_merged_findings(&w);
    assert_int_equal(w.count, 5);
    for (size_t i = 0; i < w.count; i++) {
        snprintf(text, sizeof(text), "%s %s %s %s", w.seen[i].kind,
                 w.seen[i].who, w.seen[i].procedure, w.seen[i].text);
        assert_string_equal(text, want[i]);
    }
    assert_int_equal(w.seen[0].runs, 2);
    assert_int_equal(w.seen[4].runs, 2);
    why_release_merged_findings(&w);
}

/* Would catch: certainty from few runs. Values of Wilson's formula. */
static void test_why_set__how_often(void **state)
{
    (void)state;
    double low, high;
    why_compute_frequency_interval(5, 5, &low, &high);
    near(low, 0.565518);
    near(high, 1);
    why_compute_frequency_interval(0, 5, &low, &high);
    near(low, 0);
    near(high, 0.434482);
    why_compute_frequency_interval(1, 2, &low, &high);
    near(low, 0.094531);
    near(high, 0.905469);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_why_set__put_together),
        cmocka_unit_test(test_why_set__order),
        cmocka_unit_test(test_why_set__how_often),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
