/* Threads and loads by turns in a replay: by hand, with turns of 4 ns. The same
 * rules in exact fractions, over random graphs:
 * tests/system/answers/test_oracle_replay.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "analysis/replay/replay.h"

#define TURN 4u

static const struct ips_scenario lane = {.message_time = {0, 0, 1, 1}};

/* Two chains of two arcs each; 0: not there. The second arc of the first may
 * begin when the first of the second is done. */
static void make(struct ips_graph *g, const uint64_t w[2][2], bool waits)
{
    uint32_t second = w[0][1] ? 3 : 2;
    uint32_t n = second + (w[1][0] ? 2 : 0);
    assert_int_equal(0, ips_graph_alloc(g, n, w[1][0] ? 2 : 1, NULL));
    g->chains[0] = (struct ips_chain){.first = 0, .count = second};
    if (w[1][0])
        g->chains[1] = (struct ips_chain){.first = second, .count = 2};
    g->w[1] = w[0][0];
    if (w[0][1])
        g->w[2] = w[0][1];
    g->kind[1] = IPS_NODE_AUX;
    g->kind[second - 1] = IPS_NODE_END;
    if (w[1][0]) {
        g->w[second + 1] = w[1][0];
        g->kind[second + 1] = IPS_NODE_END;
    }
    if (waits) {
        g->xkind[1] = IPS_X_DATA;
        g->xpred[1] = second + 1;
    }
    assert_int_equal(0, ips_graph_check_invariants(g, NULL));
}

struct expected {
    const char *what;
    uint64_t w[2][2];
    bool waits; /* the second chain is on a machine of its own then */
    struct ips_replay_machine is;
    uint64_t end[2];
};

static void check(const struct expected *e)
{
    struct ips_graph g;
    struct ips_replay r;
    struct ips_replay_machine machine[2] = {e->is, {.cores = 1}};
    const uint32_t map[2] = {0, e->waits};
    struct ips_replay_ask ask = {
        .machine_count = 2, .machine = machine, .map = map, .relabel = true};
    make(&g, e->w, e->waits);
    assert_int_equal(0, ips_replay(&g, &lane, &ask, &r, NULL));
    for (uint32_t c = 0; c < g.chain_count; c++)
        if (r.chain[c].end_ns != e->end[c])
            fail_msg("%s: chain %u ends at %llu, not %llu", e->what, c,
                     (unsigned long long)r.chain[c].end_ns,
                     (unsigned long long)e->end[c]);
    ips_replay_release(&r);
    ips_graph_release(&g);
}

/* Would catch a turn of loads that comes too soon, that what ends with a turn
 * waits for, that takes another time than theirs, or that only one of two
 * chains is kept from; and loads that are forgiven what they are owed where
 * there are two, or not where there is one. */
static void test_replay_turns__one_core(void **state)
{
    static const struct expected all[] = {
        /* 4, stands 4, 4, stands 4, 2 */
        {"one load", {{10, 0}}, false, {1, {1, 1}, {1, 1}, TURN}, {18, 0}},
        {"two loads", {{10, 0}}, false, {1, {1, 1}, {2, 1}, TURN}, {26, 0}},
        {"half a load", {{10, 0}}, false, {1, {1, 1}, {1, 2}, TURN}, {14, 0}},
        {"ends with a turn", {{8, 0}}, false, {1, {1, 1}, {1, 1}, TURN}, {12}},
        /* a turn is 8 of its work */
        {"twice as fast", {{10, 0}}, false, {1, {2, 1}, {1, 1}, TURN}, {9, 0}},
        /* 8 for 4 each, stands 4, 8, stands 4, 4 */
        {"two chains",
         {{10, 0}, {10, 0}},
         false,
         {1, {1, 1}, {1, 1}, TURN},
         {28, 28}},
        /* From 3 to 11 it waits: of its turn 1 is left, and 2 more; so it ends
         * with the turn. */
        {"waited, one load",
         {{3, 3}, {11, 0}},
         true,
         {1, {1, 1}, {1, 1}, TURN},
         {14, 11}},
        /* 1 is left: to 12, stands until 20, 3 more */
        {"waited, two loads",
         {{3, 4}, {11, 0}},
         true,
         {1, {1, 1}, {2, 1}, TURN},
         {23, 11}},
        {"no load", {{10, 0}}, false, {1, {1, 1}, {0, 1}, TURN}, {10, 0}},
        {"evenly", {{10, 0}}, false, {1, {1, 1}, {1, 1}, 0}, {20, 0}},
    };
    (void)state;
    for (size_t k = 0; k < sizeof(all) / sizeof(*all); k++)
        check(&all[k]);
}

/* The first chain has the core without load, and ends at 10. The second runs 4,
 * stands 4, runs 4 until 12, and stands; at 14 the other core has been empty
 * for a turn, takes it, and the last 2 are done at 16. With two loads there is
 * no such core: both end at 18. Would catch chains that are put beside each
 * other while a core is free, or one that stays beside a load for ever. */
static void test_replay_turns__two_cores(void **state)
{
    static const struct expected all[] = {
        {"one load",
         {{10, 0}, {10, 0}},
         false,
         {2, {1, 1}, {1, 1}, TURN},
         {10, 16}},
        {"two loads",
         {{10, 0}, {10, 0}},
         false,
         {2, {1, 1}, {2, 1}, TURN},
         {18, 18}},
    };
    (void)state;
    for (size_t k = 0; k < sizeof(all) / sizeof(*all); k++)
        check(&all[k]);
}

/* A load on each of two cores. The first and the third chain share a core
 * until, at 6, the other has been without a chain for a turn: it takes the
 * first, has 3 of its turn left (2 and a fourth of 4), stands from 9 to 13, and
 * it ends at
 * 17. The third has had 3 then and 1 more until 7, stands, 4 from 11, stands,
 * and ends at 21. Would catch chains that stay together beside a load while
 * another core has nothing but its own load. */
static void test_replay_turns__two_loads_and_three_chains(void **state)
{
    static const uint64_t w[] = {10, 2, 10}, ends[] = {17, 2, 21};
    const uint32_t map[3] = {0};
    struct ips_replay_machine machine = {2, {1, 1}, {2, 1}, TURN};
    struct ips_replay_ask ask = {
        .machine_count = 1, .machine = &machine, .map = map};
    struct ips_graph g;
    struct ips_replay r;
    (void)state;
    assert_int_equal(0, ips_graph_alloc(&g, 6, 3, NULL));
    for (uint32_t c = 0; c < 3; c++) {
        g.chains[c] = (struct ips_chain){.first = 2 * c, .count = 2};
        g.w[2 * c + 1] = w[c];
        g.kind[2 * c + 1] = IPS_NODE_END;
    }
    assert_int_equal(0, ips_replay(&g, &lane, &ask, &r, NULL));
    for (uint32_t c = 0; c < 3; c++)
        assert_true(r.chain[c].end_ns == ends[c]);
    ips_replay_release(&r);
    ips_graph_release(&g);
}

/* From 5 on there is a load, whose first turn comes when the chain has had one
 * of its own: it runs until 9, stands until 13, has one more to do. From 11 on
 * there is none: the turn that has begun ends as it would have. Would catch a
 * load that is looked at when the replay begins only. */
static void test_replay_turns__load_comes(void **state)
{
    static const struct ips_replay_load load[] = {{5, 0, {1, 1}},
                                                  {11, 0, {0, 1}}};
    static const uint64_t w[2][2] = {{14, 0}};
    struct ips_replay_machine one = {1, {1, 1}, {0, 1}, TURN};
    struct ips_replay_ask ask = {
        .machine_count = 1, .machine = &one, .load_count = 2, .load = load};
    struct ips_graph g;
    struct ips_replay r;
    (void)state;
    make(&g, w, false);
    assert_int_equal(0, ips_replay(&g, &lane, &ask, &r, NULL));
    assert_int_equal(18, r.makespan_ns);
    ips_replay_release(&r);
    one.turn_ns = IPS_REPLAY_TURN_MAX + 1;
    assert_int_equal(IPS_E_LIMIT, ips_replay(&g, &lane, &ask, &r, NULL));
    ips_graph_release(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replay_turns__one_core),
        cmocka_unit_test(test_replay_turns__two_cores),
        cmocka_unit_test(test_replay_turns__two_loads_and_three_chains),
        cmocka_unit_test(test_replay_turns__load_comes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
