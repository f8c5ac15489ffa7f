/* What-if: zeroing on the golden graphs by hand, lanes against the graph really
 * edited, and what must hold of gains on any graph. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/whatif/oversubscription.h"
#include "analysis/whatif/whatif.h"
#include "tests/support/golden.h"
#include "tests/support/shrink.h"

/* Features: every chain one, and the messages of each sending chain one. */
struct asked {
    const struct ips_graph *g;
    struct ips_scenario lane;
    struct ips_est e;
    struct ips_computation_order order;
    struct ips_features f;
    uint32_t *chain, *cross;
    uint64_t *share;
    struct ips_whatif_base base;
};

static void begin(struct asked *a, const struct ips_graph *g,
                  struct ips_scenario lane)
{
    memset(a, 0, sizeof(*a));
    a->g = g;
    a->lane = lane;
    a->chain = calloc(g->chain_count + 1, sizeof(*a->chain));
    a->cross = calloc(g->node_count + 1, sizeof(*a->cross));
    a->share = calloc(2 * (size_t)g->chain_count + 1, sizeof(*a->share));
    for (uint32_t c = 0; c < g->chain_count; c++)
        a->chain[c] = c;
    for (uint32_t i = 0; i < g->node_count; i++)
        a->cross[i] = g->xpred[i] == IPS_NO_NODE
                          ? IPS_NO_FEATURE
                          : g->chain_count + ips_chain_of(g, g->xpred[i]);
    a->f = (struct ips_features){
        .count = 2 * g->chain_count, .chain = a->chain, .cross = a->cross};
    if (ips_features_check(g, &a->f, NULL) < 0 ||
        ips_longest_path_compute_ests(g, &a->lane, NULL, &a->e, NULL) < 0 ||
        ips_computation_order_make(g, &a->lane, &a->order, NULL) < 0)
        abort();
    (void)ips_sum_path_time_by_feature(g, &a->lane, &a->e, &a->f, a->share);
    a->base = (struct ips_whatif_base){g,     &a->lane, &a->order,
                                       &a->e, &a->f,    a->share};
}

static void end(struct asked *a)
{
    ips_est_release(&a->e);
    ips_computation_order_release(&a->order);
    free(a->chain);
    free(a->cross);
    free(a->share);
}

/* By hand: graph, feature, faster by, t_max then, bound. Features of a graph
 * with n chains: 0..n-1 chains, n.. the messages they send. */
static const struct {
    int number;
    uint32_t feature, ppm;
    uint64_t t_max, bound;
} by_hand[] = {
    {1, 0, 1000000, 24, 10}, {1, 1, 1000000, 15, 20}, {2, 1, 1000000, 15, 8},
    {4, 2, 1000000, 19, 12}, {4, 1, 1000000, 22, 0},  {4, 2, 500000, 19, 6},
    {4, 2, 250000, 19, 3},   {4, 2, 100000, 21, 1},   {5, 0, 1000000, 11, 6},
    {6, 2, 1000000, 8, 11},  {6, 1, 1000000, 15, 0},  {6, 0, 1000000, 13, 2},
    {6, 3, 1000000, 13, 2},  {7, 0, 1000000, 17, 0},  {7, 1, 1000000, 13, 9},
    {3, 0, 0, 43, 0},
};

/* EVIDENCE-OF: ALGORITHMS-8: zeroing c2 of G4 gives 19, c1 22. Would catch a
 * gain read off the share, as logical zeroing must not be. */
static void test_whatif__golden(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(by_hand) / sizeof(*by_hand); i++) {
        const struct golden *from = &golden[by_hand[i].number - 1];
        struct ips_graph g;
        struct asked a;
        struct ips_whatif out;
        struct ips_edit edit = {by_hand[i].feature, by_hand[i].ppm};
        struct ips_change change = {&edit, 1};
        golden_make(from, &g);
        begin(&a, &g, golden_lane(from));
        assert_int_equal(0, ips_whatif(&a.base, &change, 1, &out, NULL));
        if (out.t_max != by_hand[i].t_max || out.bound != by_hand[i].bound ||
            out.gain != from->t_max - out.t_max)
            fail_msg(
                "G%d feature %u: %llu, bound %llu, gain %llu",
                by_hand[i].number, edit.feature, (unsigned long long)out.t_max,
                (unsigned long long)out.bound, (unsigned long long)out.gain);
        end(&a);
        ips_graph_release(&g);
    }
}

/* Several edits in one question: c1 and c2 of G4 gone leaves P alone, 12; one
 * named twice by half is a quarter of it, not nothing. */
static void test_whatif__several_edits(void **state)
{
    (void)state;
    struct ips_graph g;
    struct asked a;
    struct ips_whatif out[2];
    struct ips_edit gone[] = {{1, 1000000}, {2, 1000000}};
    struct ips_edit twice[] = {{0, 500000}, {0, 500000}};
    struct ips_change change[] = {{gone, 2}, {twice, 2}};
    golden_make(&golden[3], &g);
    begin(&a, &g, golden_lane(&golden[3]));
    assert_int_equal(0, ips_whatif(&a.base, change, 2, out, NULL));
    assert_int_equal(out[0].t_max, 12);
    /* P: 5 1 2 0 4 less 3/4 of each, rounded down: 2 1 1 0 1. */
    assert_int_equal(out[1].t_max, 2 + 1 + 12 + 1);
    assert_int_equal(out[1].bound, 7);
    gone[0].feature = 99;
    assert_int_equal(IPS_E_USAGE, ips_whatif(&a.base, change, 1, out, NULL));
    gone[0] = (struct ips_edit){0, 1000001};
    assert_int_equal(IPS_E_USAGE, ips_whatif(&a.base, change, 1, out, NULL));
    end(&a);
    ips_graph_release(&g);
}

/* A path that crosses a lock says so, with and without the edit. */
static void test_whatif__across_any(void **state)
{
    (void)state;
    struct ips_graph g;
    struct asked a;
    struct ips_whatif out[2];
    struct ips_edit edit[] = {{0, 900000}, {0, 1000000}};
    struct ips_change change[] = {{&edit[0], 1}, {&edit[1], 1}};
    golden_make(&golden[0], &g); /* A: 10 send m; B: 3 recv m; 20 end */
    g.xkind[4] = IPS_X_RESOURCE; /* as if m were a lock */
    begin(&a, &g, golden_lane(&golden[0]));
    uint64_t share[4];
    assert_int_equal(
        1, ips_sum_path_time_by_feature(&g, &a.lane, &a.e, &a.f, share));
    assert_int_equal(0, ips_whatif(&a.base, change, 2, out, NULL));
    assert_int_equal(out[0].resources, 0); /* 1 < 3: B comes first */
    assert_int_equal(out[1].resources, 0);
    edit[0].ppm = 500000;
    assert_int_equal(0, ips_whatif(&a.base, change, 1, out, NULL));
    assert_int_equal(out[0].resources, 1);
    end(&a);
    ips_graph_release(&g);
}

/* ---- over random graphs -------------------------------------------------- */

/* t_max of a graph whose weights are really changed. */
static uint64_t edited(const struct asked *a, const struct ips_change *change)
{
    struct ips_graph g;
    struct ips_est e;
    const struct ips_graph *old = a->g;
    if (ips_graph_alloc(&g, old->node_count, old->chain_count, NULL) < 0)
        abort();
    memcpy(g.chains, old->chains, old->chain_count * sizeof(*g.chains));
    memcpy(g.kind, old->kind, old->node_count);
    memcpy(g.xpred, old->xpred, old->node_count * sizeof(*g.xpred));
    /* Every cross arc weighs what its xlen says. */
    for (uint32_t i = 0; i < old->node_count; i++) {
        bool present;
        uint64_t xw = ips_cross_arc_weight(old, i, &a->lane, &present);
        uint64_t w = old->w[i];
        uint32_t chain = ips_chain_of(old, i);
        for (uint32_t k = 0; k < change->count; k++) {
            struct ips_edit d = change->edit[k];
            if (a->chain[chain] == d.feature)
                w -= w * d.ppm / 1000000;
            if (a->cross[i] == d.feature)
                xw -= xw * d.ppm / 1000000;
        }
        g.w[i] = w;
        g.xlen[i] = xw;
        g.xkind[i] = present ? IPS_X_EXTERNAL : IPS_X_NONE;
        if (!present)
            g.xpred[i] = IPS_NO_NODE;
    }
    if (ips_longest_path_compute_ests(&g, &a->lane, NULL, &e, NULL) < 0)
        abort();
    uint64_t t_max = e.t_max;
    ips_est_release(&e);
    ips_graph_release(&g);
    return t_max;
}

enum { CHANGES = 21, EDITS = 3 };

static const char *lanes_property(struct rg *r, uint64_t seed)
{
    uint64_t rng = seed ^ 3;
    struct asked a;
    struct ips_edit edit[CHANGES][EDITS];
    struct ips_change change[CHANGES];
    struct ips_whatif out[CHANGES];
    const char *wrong = NULL;
    /* off: the graph that is really edited has no other external arcs */
    struct ips_scenario lane = {
        .message_time = {rg_below(&rng, 30), 0, 1, 1},
        .external = rg_below(&rng, 2) ? IPS_EXTERNAL_REPLY : IPS_EXTERNAL_ALL,
        .order_dependent_off = rg_below(&rng, 2)};
    rg_goal(&r->whole, &lane, &rng);
    begin(&a, &r->whole, lane);
    for (int i = 0; i < CHANGES; i++) {
        uint32_t n = 1 + rg_below(&rng, EDITS),
                 from = rg_below(&rng, a.f.count);
        for (uint32_t k = 0; k < n; k++) { /* all different */
            edit[i][k].feature = (from + k) % a.f.count;
            edit[i][k].ppm =
                rg_below(&rng, 3) ? rg_below(&rng, 1000001) : IPS_WHATIF_GONE;
        }
        n = n < a.f.count ? n : a.f.count;
        change[i] = (struct ips_change){edit[i], n};
    }
    if (ips_whatif(&a.base, change, CHANGES, out, NULL) < 0)
        wrong = "an error";
    for (int i = 0; i < CHANGES && !wrong; i++) {
        if (out[i].t_max != edited(&a, &change[i]))
            wrong = "not the path of the edited graph";
        if (out[i].gain > out[i].bound)
            wrong = "a gain beyond its bound";
        if (out[i].gain != a.e.t_max - out[i].t_max)
            wrong = "a gain that is not the difference";
    }
    end(&a);
    return wrong;
}

/* Would catch lanes that mix, places used again too early, a tie decided
 * otherwise, and a bound that is none. */
static void test_whatif__as_edited(void **state)
{
    (void)state;
    const char *wrong = rg_hold(lanes_property, 400);
    if (wrong)
        fail_msg("%s", wrong);
}

enum { EIGHTHS = 9 };

static const char *convex_property(struct rg *r, uint64_t seed)
{
    uint64_t rng = seed ^ 8;
    struct asked a;
    struct ips_edit edit[EIGHTHS];
    struct ips_change change[EIGHTHS];
    struct ips_whatif out[EIGHTHS];
    const char *wrong = NULL;
    for (uint32_t i = 0; i < r->whole.node_count; i++) {
        r->whole.w[i] *= 8; /* so that eighths are exact */
        r->whole.xlen[i] *= 8;
    }
    begin(&a, &r->whole,
          (struct ips_scenario){
              .message_time = {8 * rg_below(&rng, 30), 0, 1, 1}});
    uint32_t feature = rg_below(&rng, a.f.count);
    for (uint32_t i = 0; i < EIGHTHS; i++) {
        edit[i] = (struct ips_edit){feature, i * 125000};
        change[i] = (struct ips_change){&edit[i], 1};
    }
    if (ips_whatif(&a.base, change, EIGHTHS, out, NULL) < 0)
        wrong = "an error";
    if (!wrong && out[0].gain != 0)
        wrong = "a gain of nothing";
    for (int i = 1; i < EIGHTHS && !wrong; i++) {
        if (out[i].t_max > out[i - 1].t_max)
            wrong = "faster, and longer";
        if (i + 1 < EIGHTHS &&
            out[i - 1].t_max + out[i + 1].t_max < 2 * out[i].t_max)
            wrong = "not convex";
        if (out[i].bound != a.share[feature] / 8 * (uint64_t)i)
            wrong = "a bound that is not theta times the share";
    }
    end(&a);
    return wrong;
}

/* EVIDENCE-OF: ALGORITHMS-7.8. */
static void test_whatif__convex(void **state)
{
    (void)state;
    const char *wrong = rg_hold(convex_property, 400);
    if (wrong)
        fail_msg("%s", wrong);
}

static const char *rank_property(struct rg *r, uint64_t seed)
{
    uint64_t rng = seed ^ 12;
    struct asked a;
    const char *wrong = NULL;
    begin(&a, &r->whole,
          (struct ips_scenario){.message_time = {rg_below(&rng, 30), 0, 1, 1}});
    size_t n = a.f.count, kept, keep = 1 + rg_below(&rng, 12);
    uint32_t ppm = 1 + rg_below(&rng, 1000000);
    struct ips_edit *edit = calloc(n, sizeof(*edit));
    struct ips_change *change = calloc(n, sizeof(*change));
    struct ips_whatif *all = calloc(n, sizeof(*all));
    struct ips_whatif *some = calloc(n, sizeof(*some));
    uint32_t *order = calloc(n, sizeof(*order));
    for (uint32_t i = 0; i < n; i++) {
        edit[i] = (struct ips_edit){i, ppm};
        change[i] = (struct ips_change){&edit[i], 1};
    }
    if (ips_whatif(&a.base, change, n, all, NULL) < 0 ||
        ips_whatif_rank_changes(&a.base, change, n, keep, some, order, &kept,
                                NULL) < 0)
        wrong = "an error";
    for (size_t i = 0; i < kept && !wrong; i++) {
        size_t better = 0;
        uint64_t gain = all[order[i]].gain;
        for (size_t k = 0; k < n; k++)
            better +=
                all[k].gain > gain || (all[k].gain == gain && k < order[i]);
        if (better != i || some[order[i]].gain != gain || gain == 0)
            wrong = "not the greatest gains";
    }
    size_t gains = 0;
    for (size_t k = 0; k < n; k++)
        gains += all[k].gain > 0;
    if (!wrong && kept != (gains < keep ? gains : keep))
        wrong = "too few or too many kept";
    free(edit);
    free(change);
    free(all);
    free(some);
    free(order);
    end(&a);
    return wrong;
}

/* Would catch a ranking that gives up before the bounds say that nothing
 * better can come. */
static void test_whatif__rank(void **state)
{
    (void)state;
    const char *wrong = rg_hold(rank_property, 400);
    if (wrong)
        fail_msg("%s", wrong);
}

/* Rounded down, never beyond what there is, and without overflow. */
static void test_whatif__ppm(void **state)
{
    (void)state;
    assert_int_equal(ips_scale_by_ppm(3, 333333), 0);
    assert_int_equal(ips_scale_by_ppm(3, 333334), 1);
    assert_int_equal(ips_scale_by_ppm(7, 1000000), 7);
    uint64_t great = 1ULL << 62;
    assert_true(ips_scale_by_ppm(great, 1000000) == great);
    assert_true(ips_scale_by_ppm(great, 500000) == great / 2);
}

/* G4: P alone, then with c1 and c2 (0-5, 5-15, 6-18), then alone again: with
 * one core too many are busy from 5 to 15, with two from 6 to 8, where P
 * computes on. Would catch waits counted as work. */
static void test_whatif__crowd(void **state)
{
    (void)state;
    struct ips_graph g;
    struct asked a;
    struct ips_oversubscription crowd;
    golden_make(&golden[3], &g);
    begin(&a, &g, golden_lane(&golden[3]));
    assert_int_equal(0, ips_measure_oversubscription_of_machine(&g, &a.e, 0, 1,
                                                                &crowd, NULL));
    assert_int_equal(crowd.peak, 3);
    assert_int_equal(crowd.beyond_ns, 10);
    assert_int_equal(0, ips_measure_oversubscription_of_machine(&g, &a.e, 0, 2,
                                                                &crowd, NULL));
    assert_int_equal(crowd.beyond_ns, 2); /* 6-8: P, c1 and c2 */
    assert_int_equal(0, ips_measure_oversubscription_of_machine(&g, &a.e, 1, 2,
                                                                &crowd, NULL));
    assert_int_equal(crowd.peak, 0);
    end(&a);
    ips_graph_release(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whatif__golden),
        cmocka_unit_test(test_whatif__several_edits),
        cmocka_unit_test(test_whatif__across_any),
        cmocka_unit_test(test_whatif__as_edited),
        cmocka_unit_test(test_whatif__convex),
        cmocka_unit_test(test_whatif__rank),
        cmocka_unit_test(test_whatif__ppm),
        cmocka_unit_test(test_whatif__crowd),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
