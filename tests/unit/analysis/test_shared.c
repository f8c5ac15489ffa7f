/* The longest path where messages share a medium: G6 by hand, and what must
 * hold of any graph. EVIDENCE-OF: DRO-1 DRO-5 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "analysis/graph/path.h"
#include "analysis/replay/replay.h"
#include "analysis/replay/shared.h"
#include "tests/support/golden.h"
#include "tests/support/random_graph.h"

#define UNIT 1000u /* ns of a golden graph's unit */

static const uint32_t apart[] = {0, 1, 2}, a_b_together[] = {0, 0, 1};
static const uint64_t latency[] = {0, 500, 500, 500, 0, 500, 500, 500, 0};

/* G6: A sends a at 1 and b at 2, each takes 2. On one medium: b comes when a
 * has 1 left, which takes 2 then, to 4; b's last unit is alone, to 5. B, which
 * is ready at 5, sees nothing of it; C is reached at 5 instead of 4, and ends
 * at
 * 16. Where A and B are one machine only b and c are on the medium, each alone:
 * 15. With half a unit of the 2 before the medium is taken: a needs 1.5, of
 * which 0.5 is left when b comes, to 3 (+ 0.5); b then has 1 left, to 4 (+
 * 0.5), so C ends at 4.5 + 10 + 1. Would catch messages that do not share, that
 * share inside a machine, or whose latency shares. */
static void test_shared__by_hand(void **state)
{
    (void)state;
    static const struct {
        const uint32_t *map;
        uint32_t machines;
        const uint64_t *least;
        uint64_t end, busy, compute, message;
    } expected[] = {
        {apart, 3, NULL, 16000, 6000, 13000, 3000},
        {a_b_together, 2, NULL, 15000, 4000, 13000, 2000},
        {apart, 3, latency, 15500, 4500, 13000, 2500},
    };
    for (size_t k = 0; k < sizeof(expected) / sizeof(*expected); k++) {
        struct ips_graph g;
        struct ips_shared_medium_path got;
        struct ips_err err = {0};
        const struct ips_scenario lane = {
            .message_time = {0, 1ULL << 32, 1, 1}};
        const struct ips_shared_medium_ask ask = {
            expected[k].machines, expected[k].map, expected[k].least};
        golden_make(&golden[5], &g);
        for (uint32_t i = 0; i < g.node_count; i++) {
            g.w[i] *= UNIT;
            if (g.xkind[i] == IPS_X_DATA)
                g.xlen[i] = 2 * UNIT;
        }
        if (ips_compute_shared_medium_path(&g, &lane, &ask, &got, &err) < 0)
            fail_msg("%s", err.msg);
        assert_int_equal(got.end_ns, expected[k].end);
        assert_int_equal(got.busy_ns, expected[k].busy);
        assert_int_equal(got.compute_ns, expected[k].compute);
        assert_int_equal(got.message_ns, expected[k].message);
        assert_int_equal(got.messages, 1);
        ips_graph_release(&g);
    }
}

/* A message of 100 bytes, sent at 1000, that its receiver reads in two pieces,
 * takes the medium once: both are there at 1110. Would catch a transfer for
 * each piece. */
static void test_shared__message_in_pieces(void **state)
{
    static const uint32_t medium[] = {0, 0, 0, 0}, map[] = {0, 1};
    const struct ips_scenario lane = {.message_time = {10, 1ULL << 32, 1, 1}};
    struct ips_replay_machine two[] = {{.cores = 1}, {.cores = 1}};
    const struct ips_replay_ask ask = {.machine_count = 2,
                                       .machine = two,
                                       .map = map,
                                       .medium_count = 1,
                                       .medium = medium};
    struct ips_replay r;
    struct ips_graph g;
    (void)state;
    assert_int_equal(0, ips_graph_alloc(&g, 7, 2, NULL));
    g.chains[0] = (struct ips_chain){.first = 0, .count = 3};
    g.chains[1] = (struct ips_chain){.first = 3, .count = 4};
    g.kind[1] = IPS_NODE_SEND;
    g.w[1] = 1000;
    g.kind[2] = g.kind[6] = IPS_NODE_END;
    for (uint32_t i = 4; i < 6; i++) {
        g.kind[i] = IPS_NODE_RECV;
        g.xkind[i] = IPS_X_DATA;
        g.xpred[i] = 1;
        g.xlen[i] = 100;
    }
    g.w[5] = 20;
    assert_int_equal(0, ips_graph_check_invariants(&g, NULL));
    assert_int_equal(0, ips_replay(&g, &lane, &ask, &r, NULL));
    assert_int_equal(1110, r.reach[4]);
    assert_int_equal(1130, r.reach[5]);
    assert_int_equal(1130 - 100, r.idle_ns[2]);
    ips_replay_release(&r);
    ips_graph_release(&g);
}

/* Never below the longest path, and that path itself on one machine, or where
 * messages take nothing; the parts are the whole. */
static void test_shared__any_graph(void **state)
{
    (void)state;
    uint32_t slower = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct rg_options opt = rg_options_of(seed);
        struct rg r;
        struct ips_est est;
        struct ips_shared_medium_path got, one;
        struct ips_err err = {0};
        const struct ips_scenario lane = {
            .message_time = {30, 1ULL << 33, 1, 1}};
        rg_make(&opt, &r);
        struct ips_graph *g = &r.whole;
        uint32_t *map = calloc((size_t)g->chain_count + 1, sizeof(*map));
        assert_non_null(map);
        struct ips_shared_medium_ask ask = {1, map, NULL};
        if (ips_compute_shared_medium_path(g, &lane, &ask, &one, &err) < 0)
            fail_msg("seed %llu: %s", (unsigned long long)seed, err.msg);
        for (uint32_t c = 0; c < g->chain_count; c++)
            map[c] = c % 3;
        ask.machine_count = 3;
        assert_int_equal(
            ips_compute_shared_medium_path(g, &lane, &ask, &got, NULL), 0);
        assert_int_equal(
            ips_longest_path_compute_ests(g, &lane, NULL, &est, NULL), 0);
        assert_int_equal(one.end_ns, est.t_max);
        assert_int_equal(one.busy_ns, 0);
        assert_true(got.end_ns >= est.t_max);
        slower += got.end_ns > est.t_max;
        assert_int_equal(got.compute_ns + got.message_ns + got.external_ns,
                         got.end_ns);
        free(map);
        ips_est_release(&est);
        rg_release(&r);
    }
    assert_true(slower > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shared__by_hand),
        cmocka_unit_test(test_shared__message_in_pieces),
        cmocka_unit_test(test_shared__any_graph),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
