/* The graph that is replayed, against the whole one it is made of. */
#include "each_allocation.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/graph/path.h"
#include "analysis/replay/graph.h"
#include "analysis/replay/replay.h"
#include "tests/support/random_graph.h"

#define GRAPHS 400

/* Of two replays; fractions of a unit may be rounded to another ns. */
static void assert_near(uint64_t a, uint64_t b)
{
    assert_true(a > b ? a - b <= 1 : b - a <= 1);
}

static void compare(const struct ips_graph *g, const struct ips_replay_graph *s,
                    const struct ips_scenario *lane, uint64_t *rng)
{
    struct ips_replay_machine machine[3];
    struct ips_replay whole, small;
    uint32_t n = 1 + rg_below(rng, 3), *map;
    map = calloc(g->chain_count, sizeof(*map));
    for (uint32_t m = 0; m < n; m++)
        machine[m] =
            (struct ips_replay_machine){.cores = 1 + rg_below(rng, 3),
                                        .speed = {1 + rg_below(rng, 3), 2},
                                        .load = {rg_below(rng, 7), 3}};
    for (uint32_t c = 0; c < g->chain_count; c++)
        map[c] = rg_below(rng, n);
    struct ips_replay_ask ask = {
        .machine_count = n, .machine = machine, .map = map};
    assert_int_equal(0, ips_replay(g, lane, &ask, &whole, NULL));
    assert_int_equal(0, ips_replay(&s->g, lane, &ask, &small, NULL));
    assert_near(whole.makespan_ns, small.makespan_ns);
    assert_true(whole.events >= small.events);
    for (uint32_t i = 0; i < g->node_count; i++)
        if (s->to[i] != IPS_NO_NODE)
            assert_near(whole.reach[i], small.reach[s->to[i]]);
    for (uint32_t c = 0; c < g->chain_count; c++) {
        assert_near(whole.chain[c].start_ns, small.chain[c].start_ns);
        assert_near(whole.chain[c].run_ns, small.chain[c].run_ns);
    }
    ips_replay_release(&whole);
    ips_replay_release(&small);
    free(map);
}

/* Any graph, in any lane, on any machines: what is kept is reached when it was.
 * Would catch a node that is merged though somebody waits for it, an arc that
 * leads elsewhere, and work that is lost. */
static void test_replay_graph__same_replay(void **state)
{
    uint64_t kept = 0, all = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= GRAPHS; seed++) {
        struct rg_options opt = rg_options_of(seed);
        struct ips_replay_graph s;
        struct rg r;
        uint64_t rng = seed;
        opt.unmatched = false;
        rg_make(&opt, &r);
        struct ips_scenario lane = {
            .message_time = {rg_below(&rng, 20),
                             (uint64_t)rg_below(&rng, 2) << 31, 1, 1},
            .external = (enum ips_external)rg_below(&rng, 3),
            .order_dependent_off = rg_below(&rng, 2)};
        assert_int_equal(0, ips_replay_graph_make_reduced(&r.whole, NULL, NULL,
                                                          0, &s, NULL));
        assert_int_equal(0, ips_graph_check_invariants(&s.g, NULL));
        assert_true(s.g.node_count <= r.whole.node_count);
        kept += s.g.node_count;
        all += r.whole.node_count;
        compare(&r.whole, &s, &lane, &rng);
        ips_replay_graph_release(&s);
        rg_release(&r);
    }
    assert_true(kept < all);
}

/* With idle time: the longest path is that of the whole graph whose chain arcs
 * are so much longer, as long as every chain has a core. Would catch idle that
 * is lost, doubled, put beside the work instead of behind it, or that holds up
 * the wait of the node's own cross arc. */
static void test_replay_graph__idle(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= GRAPHS; seed++) {
        struct rg_options opt = rg_options_of(seed);
        struct ips_scenario lane = {.message_time = {7, 0, 1, 1},
                                    .external = IPS_EXTERNAL_ALL};
        struct ips_replay_graph s;
        struct ips_est longer, made;
        struct rg r;
        uint64_t rng = seed, work = 0;
        opt.unmatched = false;
        rg_make(&opt, &r);
        struct ips_graph *g = &r.whole;
        uint64_t *idle = calloc((size_t)g->node_count + 1, sizeof(*idle));
        for (uint32_t i = 0; i < g->node_count; i++)
            idle[i] = rg_below(&rng, 3) ? 0 : rg_below(&rng, 50);
        assert_int_equal(
            0, ips_replay_graph_make_reduced(g, idle, NULL, 0, &s, NULL));
        assert_int_equal(0, ips_graph_check_invariants(&s.g, NULL));
        for (uint32_t c = 0; c < g->chain_count; c++) {
            uint32_t first = g->chains[c].first;
            for (uint32_t k = 1; k < g->chains[c].count; k++) {
                work += g->w[first + k];
                g->w[first + k] += idle[first + k];
            }
        }
        assert_int_equal(
            0, ips_longest_path_compute_ests(g, &lane, NULL, &longer, NULL));
        assert_int_equal(
            0, ips_longest_path_compute_ests(&s.g, &lane, NULL, &made, NULL));
        assert_int_equal(longer.t_max, made.t_max);
        assert_int_equal(work, made.total);
        for (uint32_t i = 0; i < g->node_count; i++)
            if (s.to[i] != IPS_NO_NODE)
                assert_int_equal(longer.est[i], made.est[s.to[i]]);
        ips_est_release(&longer);
        ips_est_release(&made);
        ips_replay_graph_release(&s);
        free(idle);
        rg_release(&r);
    }
}

static int make_and_release(void *arg)
{
    struct ips_replay_graph s;
    int rc = ips_replay_graph_make_reduced(arg, NULL, NULL, 0, &s, NULL);
    if (rc == 0)
        ips_replay_graph_release(&s);
    return rc;
}

/* Each allocation fails once. Would catch: one that is not looked at, memory
 * that is left. */
static void test_replay_graph__no_memory(void **state)
{
    struct rg_options opt = rg_options_of(1);
    struct rg r;
    (void)state;
    opt.unmatched = false;
    rg_make(&opt, &r);
    assert_true(each_allocation(make_and_release, &r.whole) >= 3);
    rg_release(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replay_graph__same_replay),
        cmocka_unit_test(test_replay_graph__idle),
        cmocka_unit_test(test_replay_graph__no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
