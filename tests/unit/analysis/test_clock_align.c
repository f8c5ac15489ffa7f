/* Clocks of machines, from messages: the bounds must contain what was put in.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "analysis/graph/clock_align.h"
#include "common/types.h"
#include "tests/support/random_graph.h"

#define SEEDS 200
#define POINTS 400

/* A's clock is the true time; B's is off by an offset, a drift and a step. */
struct truth {
    int64_t offset, drift_ppm, step;
    uint64_t step_at;
};

static uint64_t b_clock(const struct truth *w, uint64_t t)
{
    int64_t drift = (int64_t)((ips_i128)t * w->drift_ppm / 1000000);
    int64_t step = t >= w->step_at ? w->step : 0;
    return (uint64_t)((int64_t)t + w->offset + drift + step);
}

/* Messages over `span` ns; `ways` 1: from A, 2: from B, 3: both. */
static size_t talk(uint64_t seed, const struct truth *w, uint64_t span,
                   unsigned ways, struct ips_clock_point *out)
{
    uint64_t s = seed, base = 1000000000000ULL;
    size_t n = 0;
    for (size_t i = 0; i < POINTS; i++) {
        uint64_t t = base + span / POINTS * i + rg_below(&s, 1000);
        uint64_t took = 5000 + rg_below(&s, 1u << rg_below(&s, 22));
        bool from_a = ways == 3 ? rg_below(&s, 2) : ways == 1;
        out[n++] =
            from_a ? (struct ips_clock_point){t, b_clock(w, t + took), true}
                   : (struct ips_clock_point){t + took, b_clock(w, t), false};
    }
    return n;
}

static uint64_t off_by(const struct ips_clock_fit *f, const struct truth *w,
                       uint64_t t)
{
    ips_i128 x = (ips_i128)t - (ips_i128)f->from;
    ips_i128 b = (ips_i128)t + f->offset_ns + x * f->drift_q40 / (1LL << 40);
    ips_i128 d = b - (ips_i128)b_clock(w, t);
    return (uint64_t)(d < 0 ? -d : d);
}

static struct truth some_truth(uint64_t *s)
{
    return (struct truth){.offset =
                              (int64_t)(rg_random(s) >> 14) - 900000000000,
                          .drift_ppm = (int64_t)rg_below(s, 400) - 200,
                          .step_at = UINT64_MAX};
}

/* Would catch a bound that is too good: a point on the wrong side, a tangent of
 * the wrong hull, a rounding that loses the line. And one that says nothing:
 * with messages of 5 us now and then, the clocks are known to some 100 us. */
static void test_clock_align__bounds_contain_the_truth(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct ips_clock_point p[POINTS];
        struct ips_clock_fit f;
        uint64_t s = seed;
        struct truth w = some_truth(&s);
        uint64_t span = 1000000ULL << rg_below(&s, 24);
        size_t n = talk(seed, &w, span, 3, p);
        assert_int_equal(
            0, ips_clock_compute_fit(p, n, IPS_CLOCK_BETWEEN, &f, NULL));
        assert_true(f.bounded);
        assert_int_equal(1, f.pieces);
        for (size_t i = 0; i < n; i++)
            assert_true(off_by(&f, &w, p[i].a) <= f.bound_ns);
        assert_true(f.bound_ns < 10000000);
        if (span > 1000000000)
            assert_true(f.bound_ns < 200000);
    }
}

/* Would catch a bound of the time between the messages that is said of all: of
 * machines that talk for a moment in the midst of a run. */
static void test_clock_align__beyond_the_points(void **state)
{
    (void)state;
    unsigned wider = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct ips_clock_point p[POINTS];
        struct ips_clock_fit f, inside;
        uint64_t s = seed;
        struct truth w = some_truth(&s);
        uint64_t span = 1000000ULL << rg_below(&s, 12);
        size_t n = 12; /* of the first 3% of the time */
        (void)talk(seed, &w, span, 3, p);
        struct ips_clock_span asked = {1000000000000ULL - span,
                                       1000000000000ULL + span};
        assert_int_equal(
            0, ips_clock_compute_fit(p, n, IPS_CLOCK_BETWEEN, &inside, NULL));
        assert_int_equal(0, ips_clock_compute_fit(p, n, asked, &f, NULL));
        assert_true(f.offset_ns == inside.offset_ns &&
                    f.drift_q40 == inside.drift_q40);
        assert_true(off_by(&f, &w, asked.from) <= f.bound_ns);
        assert_true(off_by(&f, &w, asked.to) <= f.bound_ns);
        assert_true(f.bound_ns >= inside.bound_ns);
        wider += off_by(&f, &w, asked.from) > inside.bound_ns ||
                 off_by(&f, &w, asked.to) > inside.bound_ns;
    }
    assert_true(wider > SEEDS / 10); /* the bound inside would not do */
}

/* Would catch a step that is smoothed away: the bound must say it. */
static void test_clock_align__a_step_is_seen(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct ips_clock_point p[POINTS];
        struct ips_clock_fit f;
        uint64_t s = seed, span = 20000000000ULL;
        struct truth w = some_truth(&s);
        w.step_at = 1000000000000ULL + span / 3;
        w.step = rg_below(&s, 2) ? 700000000 : -700000000;
        size_t n = talk(seed, &w, span, 3, p);
        assert_int_equal(
            0, ips_clock_compute_fit(p, n, IPS_CLOCK_BETWEEN, &f, NULL));
        assert_true(f.pieces > 1);
        for (size_t i = 0; i < n; i++)
            assert_true(off_by(&f, &w, p[i].a) <= f.bound_ns);
    }
}

/* Would catch a bound claimed of messages one way alone. */
static void test_clock_align__one_way_has_no_bound(void **state)
{
    (void)state;
    struct ips_clock_point p[POINTS];
    struct ips_clock_fit f;
    struct truth w = {.offset = -5000000000, .step_at = UINT64_MAX};
    for (unsigned way = 1; way <= 2; way++) {
        size_t n = talk(way, &w, 1000000000, way, p);
        assert_int_equal(
            0, ips_clock_compute_fit(p, n, IPS_CLOCK_BETWEEN, &f, NULL));
        assert_false(f.bounded);
        assert_true(off_by(&f, &w, p[0].a) < 5000000);
    }
    assert_int_equal(IPS_E_NOT_FOUND,
                     ips_clock_compute_fit(p, 0, IPS_CLOCK_BETWEEN, &f, NULL));
}

/* Would catch a composition that takes an offset or a drift the wrong way
 * round: machine 2 reaches the root through machine 1 alone. */
static void test_clock_align__along_a_tree(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct ips_clock_point p[POINTS];
        struct ips_clock_fit fit[16] = {0};
        struct ips_clock_map map[4] = {{0}};
        uint64_t bound[4], s = seed;
        bool linked[4];
        /* 0 = root (true time), 1: w1 ahead of it; 2: w2 ahead of 1. */
        struct truth w1 = some_truth(&s), w2 = some_truth(&s);
        w1.offset = 0; /* so that the times of both talks are the same */
        size_t n = talk(seed, &w1, 1000000000, 3, p);
        for (size_t i = 0; i < n; i++) /* A is machine 1, B the root */
            p[i] = (struct ips_clock_point){p[i].b, p[i].a, !p[i].from_a};
        assert_int_equal(0, ips_clock_compute_fit(p, n, IPS_CLOCK_BETWEEN,
                                                  &fit[1 * 4 + 0], NULL));
        n = talk(seed + 1, &w2, 1000000000, 3, p);
        for (size_t i = 0; i < n; i++)
            p[i] = (struct ips_clock_point){b_clock(&w2, p[i].a), p[i].a, true};
        /* Exact pairs, both ways: machine 2's clock is w2 of machine 1's. */
        for (size_t i = 0; i < n; i += 2)
            p[i].from_a = false;
        assert_int_equal(0, ips_clock_compute_fit(p, n, IPS_CLOCK_BETWEEN,
                                                  &fit[2 * 4 + 1], NULL));
        map[0].from = 1000000000000ULL;
        ips_clock_compute_maps_to_root(fit, 4, 0, map, bound, linked);
        assert_true(linked[1] && linked[2] && !linked[3]);
        assert_true(bound[2] >= bound[1] && bound[3] == UINT64_MAX);
        for (uint64_t t = map[0].from; t < map[0].from + 1000000000;
             t += 100000000) {
            uint64_t one = ips_clock_map_ns(&map[1], b_clock(&w1, t));
            uint64_t want = t - map[0].from;
            uint64_t d = one > want ? one - want : want - one;
            assert_true(d <= bound[1] + 2);
            uint64_t two =
                ips_clock_map_ns(&map[2], b_clock(&w2, b_clock(&w1, t)));
            d = two > want ? two - want : want - two;
            assert_true(d <= bound[2] + 10);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clock_align__bounds_contain_the_truth),
        cmocka_unit_test(test_clock_align__beyond_the_points),
        cmocka_unit_test(test_clock_align__a_step_is_seen),
        cmocka_unit_test(test_clock_align__one_way_has_no_bound),
        cmocka_unit_test(test_clock_align__along_a_tree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
