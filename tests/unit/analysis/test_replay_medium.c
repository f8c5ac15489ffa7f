/* Messages of a replay whose medium has times of its own, by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/graph/path.h"
#include "analysis/replay/replay.h"

#define SENDS 2u

/* Two threads of machine 0 send 100 bytes each, at 1000 and at `second`, to two
 * that wait on machine 1. */
static void make_graph(uint64_t second, struct ips_graph *g)
{
    assert_int_equal(0, ips_graph_alloc(g, 6 * SENDS, 2 * SENDS, NULL));
    for (uint32_t c = 0; c < 2 * SENDS; c++) {
        g->chains[c] = (struct ips_chain){.first = 3 * c, .count = 3};
        g->kind[3 * c + 1] = c < SENDS ? IPS_NODE_SEND : IPS_NODE_RECV;
        g->kind[3 * c + 2] = IPS_NODE_END;
    }
    g->w[1] = 1000;
    g->w[4] = second;
    for (uint32_t c = SENDS; c < 2 * SENDS; c++) {
        g->xkind[3 * c + 1] = IPS_X_DATA;
        g->xpred[3 * c + 1] = 3 * (c - SENDS) + 1;
        g->xlen[3 * c + 1] = 100;
    }
    assert_int_equal(0, ips_graph_check_invariants(g, NULL));
}

/* A message of 100 bytes has the medium for 30 ns, twice as long by `scale`,
 * and arrives MTIME(0) after that. Alone the first is there at 1040. Sent at
 * 1010, the second shares the medium with it: the first has 20 of 30 left,
 * which take 40; the second has 10 left then.
 * What an idle medium saves is full at first. Of 50 the first needs 30, and at
 * 1010 there are 30 again; of 40 there are 20, so that the second takes 10. Of
 * 20 nothing is left, and 5 are saved from 1010, when the first is over, to
 * 1015. Would catch: the message time of bytes in place of the medium's, a
 * scale that is left out, saved time that is lost, used twice or beyond what
 * was saved. */
static void test_replay_medium__wire_and_burst(void **state)
{
    static const uint64_t bytes[] = {0, 100, 1000}, ns[] = {0, 30, 300};
    static const uint32_t map[] = {0, 0, 1, 1};
    static const uint32_t media[] = {IPS_REPLAY_NO_MEDIUM, 0, 0,
                                     IPS_REPLAY_NO_MEDIUM};
    static const struct ips_replay_machine two[] = {{.cores = 2}, {.cores = 2}};
    static const struct {
        uint64_t second, burst;
        uint32_t scale;
        uint64_t first_there, second_there;
    } rows[] = {{5000, 0, 1, 1040, 5040},  {1010, 0, 1, 1060, 1070},
                {1020, 0, 2, 1120, 1140},  {1010, 50, 1, 1010, 1020},
                {1010, 40, 1, 1010, 1030}, {5000, 20, 1, 1020, 5020},
                {1015, 20, 1, 1020, 1050}};
    struct ips_curve curve;
    (void)state;
    assert_int_equal(0,
                     ips_curve_build_from_points(bytes, ns, 3, &curve, NULL));
    const struct ips_curve *wire[] = {NULL, &curve, &curve, NULL};
    for (size_t k = 0; k < sizeof(rows) / sizeof(*rows); k++) {
        const struct ips_message_time one = {10, 1ULL << 32, rows[k].scale, 1};
        const struct ips_message_time message_time[] = {one, one, one, one};
        struct ips_scenario lane = {.message_time = one};
        struct ips_replay_ask ask = {.machine_count = 2,
                                     .machine = two,
                                     .map = map,
                                     .message_time = message_time,
                                     .medium_count = 1,
                                     .medium = media,
                                     .wire = wire,
                                     .burst_ns =
                                         rows[k].burst ? &rows[k].burst : NULL};
        struct ips_graph g;
        struct ips_replay r;
        make_graph(rows[k].second, &g);
        assert_int_equal(0, ips_replay(&g, &lane, &ask, &r, NULL));
        if (r.reach[7] != rows[k].first_there ||
            r.reach[10] != rows[k].second_there)
            fail_msg("row %zu: %llu, %llu", k, (unsigned long long)r.reach[7],
                     (unsigned long long)r.reach[10]);
        ips_replay_release(&r);
        ips_graph_release(&g);
    }
}

/* A thread of machine 0 sends 100 bytes at 1000 to one on machine 1, which
 * computes until 1005 and then moves to machine 0, where no medium is between
 * them. The transfer ends on its own medium at 1020 all the same, since 10 of
 * 30 ns were saved. Would catch: what the medium saved looked up for the pair
 * of machines at the end of the transfer, outside of the array. */
static void test_replay_medium__receiver_moves(void **state)
{
    static const uint64_t bytes[] = {0, 100, 1000}, ns[] = {0, 30, 300};
    static const uint32_t map[] = {0, 1};
    static const uint32_t media[] = {IPS_REPLAY_NO_MEDIUM, 0, 0,
                                     IPS_REPLAY_NO_MEDIUM};
    static const struct ips_replay_machine two[] = {{.cores = 2}, {.cores = 2}};
    static const struct ips_replay_move move = {.node = 5, .machine = 0};
    static const uint64_t burst = 10;
    const struct ips_message_time one = {0, 1ULL << 32, 1, 1};
    const struct ips_message_time message_time[] = {one, one, one, one};
    struct ips_scenario lane = {.message_time = one};
    struct ips_curve curve;
    struct ips_graph g;
    struct ips_replay r;
    (void)state;
    assert_int_equal(0,
                     ips_curve_build_from_points(bytes, ns, 3, &curve, NULL));
    const struct ips_curve *wire[] = {NULL, &curve, &curve, NULL};
    struct ips_replay_ask ask = {.machine_count = 2,
                                 .machine = two,
                                 .map = map,
                                 .move_count = 1,
                                 .move = &move,
                                 .message_time = message_time,
                                 .medium_count = 1,
                                 .medium = media,
                                 .wire = wire,
                                 .burst_ns = &burst};
    assert_int_equal(0, ips_graph_alloc(&g, 7, 2, NULL));
    g.chains[0] = (struct ips_chain){.first = 0, .count = 3};
    g.chains[1] = (struct ips_chain){.first = 3, .count = 4};
    g.kind[1] = IPS_NODE_SEND;
    g.kind[4] = IPS_NODE_AUX;
    g.kind[5] = IPS_NODE_RECV;
    g.kind[2] = g.kind[6] = IPS_NODE_END;
    g.w[1] = 1000;
    g.w[4] = 1005;
    g.xkind[5] = IPS_X_DATA;
    g.xpred[5] = 1;
    g.xlen[5] = 100;
    assert_int_equal(0, ips_graph_check_invariants(&g, NULL));
    assert_int_equal(0, ips_replay(&g, &lane, &ask, &r, NULL));
    assert_int_equal(r.reach[5], 1020);
    ips_replay_release(&r);
    ips_graph_release(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replay_medium__receiver_moves),
        cmocka_unit_test(test_replay_medium__wire_and_burst),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
