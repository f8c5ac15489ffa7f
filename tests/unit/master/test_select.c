/*
 * What the master leaves out of an answer, against putting all rows in order
 * and taking the first: rows, order of what is left, and the number left out.
 * Would catch: a heap that loses a row, ties given to the later row, what was
 * not measured put first, machines or levels counted together.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/rank.h"
#include "common/types.h"
#include "master/base/top_n.h"

#define ROWS 300

static uint64_t state = 7;
static uint64_t draw(uint64_t below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % below;
}

static Ips__MetricsRow rows[ROWS];
static void *list[ROWS];
static char names[ROWS][40];

static void make(void)
{
    static const char *const levels[] = {"run", "machine", "process", "thread"};
    for (size_t i = 0; i < ROWS; i++) {
        ips__metrics_row__init(&rows[i]);
        snprintf(names[i], sizeof(names[i]), "/m%d/p.%d", (int)draw(3),
                 (int)draw(40));
        rows[i].object = names[i];
        rows[i].level = (char *)(uintptr_t)levels[draw(4)];
        rows[i].cpu_ns = draw(6) ? draw(20) : IPS_UNMEASURED;
        rows[i].response = draw(6) ? (double)draw(9) / 3 : NAN;
        list[i] = &rows[i];
    }
}

static int compare(const Ips__Select *ask, const Ips__MetricsRow *a,
                   const Ips__MetricsRow *b)
{
    int c = 0;
    if (!*ask->sort || strcmp(ask->sort, "cpu_ns") == 0)
        c = ips_rank_compare_counts(a->cpu_ns, b->cpu_ns, ask->back);
    else if (strcmp(ask->sort, "response") == 0)
        c = ips_rank_compare_reals(a->response, b->response,
                                   !isnan(a->response), !isnan(b->response),
                                   ask->back);
    else
        c = ips_rank_compare_texts(a->object, b->object, ask->back);
    return c ? c : (a > b) - (a < b);
}

static bool same_group(const Ips__Select *ask, const Ips__MetricsRow *a,
                       const Ips__MetricsRow *b)
{
    return (!ask->per_machine || strncmp(a->object, b->object, 3) == 0) &&
           (!ask->per_level || strcmp(a->level, b->level) == 0);
}

/* Is the row among the first of its group? */
static bool shown(const Ips__Select *ask, size_t row)
{
    uint64_t before = 0;
    for (size_t i = 0; i < ROWS; i++)
        before += same_group(ask, &rows[i], &rows[row]) &&
                  compare(ask, &rows[i], &rows[row]) < 0;
    return before < ask->top;
}

static void check(Ips__Select *ask)
{
    struct arena a = {0};
    struct top_n s;
    void **chosen = NULL;
    uint64_t left[SELECT_LEVELS] = {0}, sum = 0;
    size_t at = 0;
    assert_true(
        top_n_init(&s, ask, &ips__metrics_row__descriptor, NULL, "cpu_ns"));
    size_t n = top_n_select_rows(&s, &a, list, ROWS, &chosen, left);
    for (size_t i = 0; i < ROWS; i++)
        if (shown(ask, i)) {
            assert_true(at < n);
            assert_ptr_equal(chosen[at], &rows[i]);
            at++;
        }
    assert_int_equal(at, n);
    for (size_t i = 0; i < SELECT_LEVELS; i++)
        sum += left[i];
    assert_int_equal(sum, ROWS - n);
    arena_release(&a);
}

static void test_select__is_sort_and_cut(void **unused)
{
    static const char *const sorts[] = {"", "response", "object"};
    static const uint64_t tops[] = {1, 3, 17, ROWS, 100 * ROWS};
    (void)unused;
    for (unsigned round = 0; round < 3 * 2 * 2 * 2 * 5; round++) {
        Ips__Select ask = IPS__SELECT__INIT;
        make();
        ask.sort = (char *)(uintptr_t)sorts[round % 3];
        ask.back = round / 3 % 2;
        ask.per_machine = round / 6 % 2;
        ask.per_level = round / 12 % 2;
        ask.top = tops[round / 24];
        check(&ask);
    }
}

static void test_select__leaves_the_rest_to_the_client(void **unused)
{
    static const char *const not [] = {"rho", NULL};
    static const char *const bad[] = {"nothing", "waits", "other_ns", "rho"};
    Ips__Select ask = IPS__SELECT__INIT;
    struct top_n s;
    (void)unused;
    assert_false(
        top_n_init(&s, NULL, &ips__metrics_row__descriptor, not, "cpu_ns"));
    assert_false(
        top_n_init(&s, &ask, &ips__metrics_row__descriptor, not, "cpu_ns"));
    ask.top = 1;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        ask.sort = (char *)(uintptr_t)bad[i];
        assert_false(
            top_n_init(&s, &ask, &ips__metrics_row__descriptor, not, "cpu_ns"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_select__is_sort_and_cut),
        cmocka_unit_test(test_select__leaves_the_rest_to_the_client),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
