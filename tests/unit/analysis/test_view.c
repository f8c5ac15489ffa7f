/* The weightings `sched` and `wall` as views of a graph: golden graphs made by
 * hand, and what must hold of every graph. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/graph/path.h"
#include "analysis/graph/view.h"
#include "tests/support/random_graph.h"
#include "tests/support/row_graph.h"
#include "tests/support/shrink.h"

#define SEEDS 600

static void solve(const struct ips_graph *g, const struct ips_scenario *lane,
                  uint64_t t_max, uint64_t total)
{
    struct ips_view v;
    struct ips_est e;
    assert_int_equal(0, ips_graph_make_view(g, lane, &v, NULL));
    assert_int_equal(0,
                     ips_longest_path_compute_ests(&v.g, lane, NULL, &e, NULL));
    assert_int_equal(t_max, e.t_max);
    assert_int_equal(total, e.total);
    ips_est_release(&e);
    assert_int_equal(
        0, ips_longest_path_by_label_correcting(&v.g, lane, &e, NULL));
    assert_int_equal(t_max, e.t_max);
    ips_est_release(&e);
    ips_view_release(&v);
}

#define START IPS_NODE_START
#define SEND IPS_NODE_SEND
#define RECV IPS_NODE_RECV
#define AUX IPS_NODE_AUX
#define END IPS_NODE_END
#define MTIME(ns)                                                              \
    {                                                                          \
        (ns), 0, 1, 1                                                          \
    }

/* W1. A: 10 send m; 5 end. B begins at 2, asks at 5, sleeps 9, has m at 14; 20
 * of CPU and 6 in the queue, end at 40. MTIME 4. Would catch a wait that is in
 * the chain and in the message, queueing that is lost, and a chain that nobody
 * began counted from 0. */
static const struct row w1[] = {{START, 0, 0, 0, 0, IPS_X_NONE, 0, 0},
                                {SEND, 10, 10, 0, 0, IPS_X_NONE, 0, 0},
                                {END, 5, 15, 0, 0, IPS_X_NONE, 0, 0},
                                {START, 0, 2, 0, 0, IPS_X_NONE, 0, 0},
                                {RECV, 3, 14, 9, 0, IPS_X_DATA, 1, 7},
                                {END, 20, 40, 0, 6, IPS_X_NONE, 0, 0}};

static void test_view__golden_message(void **state)
{
    (void)state;
    struct ips_graph g;
    struct ips_scenario lane = {.message_time = MTIME(4)};
    row_graph(w1, 6, &g);
    solve(&g, &lane, 34, 38);
    lane.weighting = IPS_WEIGH_SCHED;
    solve(&g, &lane, 40, 44);
    lane.weighting = IPS_WEIGH_WALL;
    solve(&g, &lane, 40, 44);        /* 10 + 5 + 3 + 26 */
    lane.message_time.scale_num = 0; /* messages take no time: 10 + 26 */
    solve(&g, &lane, 36, 44);
    lane.message_time.scale_num = 2;
    solve(&g, &lane, 44, 44);
    lane.message_time.scale_num = 1;
    lane.has_goal = true;
    lane.goal = 2;
    solve(&g, &lane, 15, 44);
    ips_graph_release(&g);
}

/* W2. As W1, but B asks at 12 and has m at once; MTIME 5 is more than it can
 * have taken. Would catch a path longer than the clock. */
static void test_view__golden_nobody_waits(void **state)
{
    (void)state;
    struct ips_graph g;
    struct row row[6];
    struct ips_scenario lane = {.message_time = MTIME(5),
                                .weighting = IPS_WEIGH_WALL};
    memcpy(row, w1, sizeof(row));
    row[4].at = 12;
    row[4].wait = 0;
    row[4].w = 10;
    row_graph(row, 6, &g);
    solve(&g, &lane, 40, 53); /* 10 + 5 + 10 + 28 */
    ips_graph_release(&g);
}

/* W3. 3, then a call that takes 1 and sleeps 19 for a timer, woken and 2 in the
 * queue, 5, end at 30. (What runs inside the call is beside its sleep.) Would
 * catch a delay that is in the sleep and in the queue. */
static void test_view__golden_sleep(void **state)
{
    (void)state;
    static const struct row row[] = {
        {START, 0, 100, 0, 0, IPS_X_NONE, 0, 0},
        {AUX, 3, 103, 0, 0, IPS_X_NONE, 0, 0},
        {AUX, 1, 123, 19, 0, IPS_X_EXTERNAL, 1, 21},
        {END, 5, 130, 0, 2, IPS_X_NONE, 0, 0}};
    struct ips_graph g;
    struct ips_scenario lane = {.clock = {.from = 100}};
    row_graph(row, 4, &g);
    solve(&g, &lane, 29, 9);
    lane.weighting = IPS_WEIGH_SCHED;
    solve(&g, &lane, 29, 11);
    lane.weighting = IPS_WEIGH_WALL;
    solve(&g, &lane, 30, 11);
    lane.external = IPS_EXTERNAL_OFF;
    solve(&g, &lane, 11, 11);
    ips_graph_release(&g);
}

/* W4. 6 of work, then 40 asleep for somebody untraced (idle), then 4: `cpu` has
 * 10, the user waited for 50. */
static void test_view__golden_idle(void **state)
{
    (void)state;
    static const struct row row[] = {{START, 0, 0, 0, 0, IPS_X_NONE, 0, 0},
                                     {RECV, 6, 46, 40, 0, IPS_X_IDLE, 0, 40},
                                     {END, 4, 50, 0, 0, IPS_X_NONE, 0, 0}};
    struct ips_graph g;
    struct ips_scenario lane = {0};
    row_graph(row, 3, &g);
    solve(&g, &lane, 10, 10);
    lane.weighting = IPS_WEIGH_WALL;
    solve(&g, &lane, 50, 50);
    lane.external = IPS_EXTERNAL_OFF;
    solve(&g, &lane, 10, 10);
    ips_graph_release(&g);
}

/* W5. A lock: A lets go at 12; B asked at 4, has it at 13. Without `any` arcs
 * it would not have waited: 4 + 6. */
static void test_view__golden_lock(void **state)
{
    (void)state;
    static const struct row row[] = {{START, 0, 0, 0, 0, IPS_X_NONE, 0, 0},
                                     {AUX, 12, 12, 0, 0, IPS_X_NONE, 0, 0},
                                     {END, 1, 13, 0, 0, IPS_X_NONE, 0, 0},
                                     {START, 0, 0, 0, 0, IPS_X_NONE, 0, 0},
                                     {AUX, 4, 13, 9, 0, IPS_X_RESOURCE, 1, 0},
                                     {END, 6, 19, 0, 0, IPS_X_NONE, 0, 0}};
    struct ips_graph g;
    struct ips_scenario lane = {.weighting = IPS_WEIGH_WALL};
    row_graph(row, 6, &g);
    solve(&g, &lane, 19, 23);
    lane.order_dependent_off = true;
    solve(&g, &lane, 13, 23);
    ips_graph_release(&g);
}

static void test_view__needs_times(void **state)
{
    (void)state;
    struct ips_graph g;
    struct ips_view v;
    struct ips_scenario lane = {.weighting = IPS_WEIGH_SCHED};
    assert_int_equal(0, ips_graph_alloc(&g, 1, 1, NULL));
    g.chains[0].count = 1;
    assert_int_equal(IPS_E_USAGE, ips_graph_make_view(&g, &lane, &v, NULL));
    lane.weighting = IPS_WEIGH_CPU;
    assert_int_equal(0, ips_graph_make_view(&g, &lane, &v, NULL));
    ips_view_release(&v);
    ips_graph_release(&g);
}

/* W6. W1, where recording cost 4 of the 10, all of A's end, 1 and 6. Would
 * catch a cost that is not taken off, or off the delay, and a `wall` that is.
 */
static void test_view__golden_without_recording(void **state)
{
    (void)state;
    static const uint32_t probe[] = {0, 4, 5, 0, 1, 6};
    struct ips_graph g;
    struct ips_view v;
    struct ips_scenario lane = {.message_time = MTIME(4)};
    row_graph(w1, 6, &g);
    lane.probe_off = true;
    assert_int_equal(IPS_E_USAGE, ips_graph_make_view(&g, &lane, &v, NULL));
    assert_int_equal(0, ips_graph_alloc_probe_column(&g, NULL));
    memcpy(g.probe, probe, sizeof(probe));
    solve(&g, &lane, 24, 22);
    lane.weighting = IPS_WEIGH_SCHED;
    solve(&g, &lane, 30, 28);
    lane.weighting = IPS_WEIGH_WALL;
    assert_int_equal(IPS_E_USAGE, ips_graph_make_view(&g, &lane, &v, NULL));
    lane.probe_off = false;
    solve(&g, &lane, 40, 44);
    ips_graph_release(&g);
}

/* W7. W1, where nobody was seen to end 7 ns of A's only arc and 100 of B's
 * first. Would catch a bound without those of another thread, or one in
 * `wall`, where they are in the path as they are. */
static void test_view__golden_unended(void **state)
{
    (void)state;
    static const uint64_t unended[] = {0, 7, 0, 0, 100, 0};
    struct ips_graph g;
    struct ips_view v;
    struct ips_scenario lane = {.message_time = MTIME(4), .unended = true};
    row_graph(w1, 6, &g);
    assert_int_equal(IPS_E_USAGE, ips_graph_make_view(&g, &lane, &v, NULL));
    assert_int_equal(0, ips_graph_alloc_unended_wait_column(&g, NULL));
    memcpy(g.unended, unended, sizeof(unended));
    solve(&g, &lane, 123, 145);
    lane.weighting = IPS_WEIGH_WALL;
    assert_int_equal(IPS_E_USAGE, ips_graph_make_view(&g, &lane, &v, NULL));
    ips_graph_release(&g);
}

/* ---- every graph ---- */

/* What recording may have cost in each arc; returns the sum. */
static uint64_t give_probes(struct ips_graph *g, uint64_t seed)
{
    uint64_t sum = 0;
    assert_int_equal(0, ips_graph_alloc_probe_column(g, NULL));
    for (uint32_t c = 0; c < g->chain_count; c++) {
        uint32_t first = g->chains[c].first;
        for (uint32_t i = first + 1; i < first + g->chains[c].count; i++) {
            uint32_t most = (uint32_t)ips_min_u64(g->w[i], 1u << 30);
            g->probe[i] = (uint32_t)rg_below(&seed, most + 1);
            sum += g->probe[i];
        }
    }
    return sum;
}

static void give_unended(struct ips_graph *g, uint64_t seed)
{
    assert_int_equal(0, ips_graph_alloc_unended_wait_column(g, NULL));
    for (uint32_t c = 0; c < g->chain_count; c++) {
        uint32_t first = g->chains[c].first;
        for (uint32_t i = first + 1; i < first + g->chains[c].count; i++)
            g->unended[i] =
                rg_below(&seed, 4) ? 0 : rg_below(&seed, (uint64_t)1 << 20);
    }
}

static void split_probes(struct rg *r)
{
    for (uint32_t m = 0; m < r->machines; m++) {
        struct ips_graph *p = &r->part[m];
        assert_int_equal(0, ips_graph_alloc_probe_column(p, NULL));
        assert_int_equal(0, ips_graph_alloc_unended_wait_column(p, NULL));
        for (uint32_t i = 0; i < p->node_count; i++) {
            p->probe[i] = r->whole.probe[r->base[m] + i];
            p->unended[i] = r->whole.unended[r->base[m] + i];
        }
    }
}

/* EVIDENCE-OF: ALGORITHMS-1 IPS-14. In `wall` a node's EST is when it was
 * passed; `sched` is never below `cpu` nor above `wall`. */
static void test_view__est_is_the_clock(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct rg_options opt = rg_options_of(seed);
        struct rg r;
        struct ips_view v;
        struct ips_est cpu, sched, wall;
        struct ips_scenario lane = {.order_dependent_off = false};
        rg_make(&opt, &r);
        rg_give_times(&r.whole, seed);
        assert_int_equal(0, ips_longest_path_compute_ests(&r.whole, &lane, NULL,
                                                          &cpu, NULL));
        lane.weighting = IPS_WEIGH_SCHED;
        assert_int_equal(0, ips_graph_make_view(&r.whole, &lane, &v, NULL));
        assert_int_equal(
            0, ips_longest_path_compute_ests(&v.g, &lane, NULL, &sched, NULL));
        ips_view_release(&v);
        lane.weighting = IPS_WEIGH_WALL;
        lane.message_time.base_ns = seed % 7;
        assert_int_equal(0, ips_graph_make_view(&r.whole, &lane, &v, NULL));
        assert_int_equal(
            0, ips_longest_path_compute_ests(&v.g, &lane, NULL, &wall, NULL));
        for (uint32_t i = 0; i < r.whole.node_count; i++) {
            assert_int_equal(wall.est[i], r.whole.at[i]);
            if (!opt.external) {
                assert_true(sched.est[i] >= cpu.est[i]);
                assert_true(wall.est[i] >= sched.est[i]);
            }
        }
        ips_view_release(&v);
        ips_est_release(&cpu);
        ips_est_release(&sched);
        ips_est_release(&wall);
        rg_release(&r);
    }
}

/* Would catch a lane without recording in which anything takes longer, or from
 * which more or less is taken than the arcs say. */
static void test_view__without_recording_nothing_is_longer(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct rg_options opt = rg_options_of(seed);
        struct rg r;
        rg_make(&opt, &r);
        rg_give_times(&r.whole, seed);
        uint64_t sum = give_probes(&r.whole, seed);
        for (int w = IPS_WEIGH_CPU; w <= IPS_WEIGH_SCHED; w++) {
            struct ips_scenario lane = {.external =
                                            (enum ips_external)(seed % 3),
                                        .weighting = (enum ips_weighting)w};
            struct ips_view with, without;
            struct ips_est a, b;
            assert_int_equal(0,
                             ips_graph_make_view(&r.whole, &lane, &with, NULL));
            assert_int_equal(0, ips_longest_path_compute_ests(&with.g, &lane,
                                                              NULL, &a, NULL));
            lane.probe_off = true;
            assert_int_equal(
                0, ips_graph_make_view(&r.whole, &lane, &without, NULL));
            assert_int_equal(0, ips_longest_path_compute_ests(&without.g, &lane,
                                                              NULL, &b, NULL));
            assert_int_equal(a.total - b.total, sum);
            for (uint32_t i = 0; i < r.whole.node_count; i++)
                assert_true(b.est[i] <= a.est[i]);
            ips_est_release(&a);
            ips_est_release(&b);
            ips_view_release(&with);
            ips_view_release(&without);
        }
        rg_release(&r);
    }
}

static const char *same_as_whole(struct rg *r, const struct ips_scenario *lane,
                                 const uint64_t *off)
{
    const char *wrong = NULL;
    struct ips_view whole, part[RG_MACHINES];
    struct rg seen = *r;
    struct rg_answer answer;
    struct ips_est e;
    struct ips_scenario zero = *lane;
    assert_int_equal(0, ips_graph_make_view(&r->whole, &zero, &whole, NULL));
    seen.whole = whole.g;
    for (uint32_t m = 0; m < r->machines; m++) {
        struct ips_scenario own = *lane;
        own.clock.from = off[m];
        assert_int_equal(
            0, ips_graph_make_view(&r->part[m], &own, &part[m], NULL));
        seen.part[m] = part[m].g;
    }
    assert_int_equal(
        0, ips_longest_path_compute_ests(&whole.g, lane, NULL, &e, NULL));
    assert_int_equal(0, rg_contract(&seen, lane, &answer, NULL));
    RG_HOLD(e.t_max == answer.t_max);
    RG_HOLD(e.end == answer.end);
    RG_HOLD(e.total == answer.total);
    RG_HOLD(memcmp(e.est, answer.est, r->whole.node_count * sizeof(*e.est)) ==
            0);
    RG_HOLD(memcmp(e.crossed, answer.crossed, r->whole.node_count) == 0);
    rg_answer_release(&answer);
    ips_est_release(&e);
    for (uint32_t m = 0; m < r->machines; m++)
        ips_view_release(&part[m]);
    ips_view_release(&whole);
    return wrong;
}

static const char *parts_and_clocks(struct rg *r, uint64_t seed)
{
    const char *wrong = NULL;
    uint64_t s = seed, off[RG_MACHINES];
    if (r->unmatched) /* a wait that nobody ends has no time */
        return NULL;
    rg_give_times(&r->whole, seed);
    for (uint32_t m = 0; m < r->machines; m++) {
        off[m] = 1 + rg_below(&s, 1u << 31);
        rg_split_times(r, m, off[m]);
    }
    give_probes(&r->whole, seed);
    give_unended(&r->whole, seed + 1);
    split_probes(r);
    for (int w = IPS_WEIGH_CPU; w <= IPS_WEIGH_LAST && !wrong; w++) {
        struct ips_scenario lane = {.message_time = {rg_below(&s, 6), 0, 1, 1},
                                    .external =
                                        (enum ips_external)rg_below(&s, 3),
                                    .order_dependent_off = rg_below(&s, 2),
                                    .weighting = (enum ips_weighting)w};
        wrong = same_as_whole(r, &lane, off);
        lane.probe_off = w != IPS_WEIGH_WALL;
        if (!wrong)
            wrong = same_as_whole(r, &lane, off);
        lane.unended = w != IPS_WEIGH_WALL;
        if (!wrong)
            wrong = same_as_whole(r, &lane, off);
    }
    return wrong;
}

/* EVIDENCE-OF: ALGORITHMS-7.3 ALGORITHMS-7.4. Contracted and merged, the parts'
 * views give what the whole graph's gives, bit for bit; and a constant added to
 * a machine's clock changes nothing: in `wall` because it is aligned away, in
 * `sched` and `cpu` because no clocks are compared. */
static void test_view__parts_and_clocks(void **state)
{
    (void)state;
    const char *wrong = rg_hold(parts_and_clocks, SEEDS);
    if (wrong)
        fail_msg("%s", wrong);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_view__golden_message),
        cmocka_unit_test(test_view__golden_unended),
        cmocka_unit_test(test_view__golden_nobody_waits),
        cmocka_unit_test(test_view__golden_sleep),
        cmocka_unit_test(test_view__golden_idle),
        cmocka_unit_test(test_view__golden_lock),
        cmocka_unit_test(test_view__needs_times),
        cmocka_unit_test(test_view__golden_without_recording),
        cmocka_unit_test(test_view__est_is_the_clock),
        cmocka_unit_test(test_view__without_recording_nothing_is_longer),
        cmocka_unit_test(test_view__parts_and_clocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
