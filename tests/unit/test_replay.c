/* Replay with processor sharing: the golden rows by hand, what must hold of any
 * replay, and questions that are refused. The arithmetic is held against an
 * exact simulator by tests/system/test_oracle_replay.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/path.h"
#include "analysis/replay.h"
#include "tests/support/golden.h"
#include "tests/support/random_graph.h"

#define UNIT 1000u /* ns of a golden graph's unit, so that halves are exact */

static void golden_scaled(int number, struct ips_graph *g,
                          struct ips_lane *lane)
{
    golden_make(&golden[number - 1], g);
    *lane = golden_lane(&golden[number - 1]);
    lane->mtime.base_ns *= UNIT;
    for (uint32_t i = 0; i < g->node_count; i++)
        g->w[i] *= UNIT;
}

static const struct {
    int number;
    uint32_t cores, load_num, load_den, speed_num, speed_den;
    bool free; /* MTIME 0 */
    uint64_t makespan;
} by_hand[] = {
    {4, 1, 0, 1, 1, 1, false, 34000}, {4, 2, 0, 1, 1, 1, false, 23000},
    {4, 3, 0, 1, 1, 1, false, 22000}, {5, 1, 0, 1, 1, 1, false, 19000},
    {5, 2, 0, 1, 1, 1, false, 17000}, {5, 1, 1, 1, 1, 1, false, 32500},
    {5, 1, 0, 1, 2, 1, false, 12000}, {5, 1, 0, 1, 1, 1, true, 18000},
    {6, 1, 0, 1, 1, 1, false, 22000}, {6, 2, 0, 1, 1, 1, false, 15500},
    {6, 3, 0, 1, 1, 1, false, 15000},
};

/* EVIDENCE-OF: ALGORITHMS-8: the replay rows of G4, G5, G6. Would catch a wrong
 * rate, a chain that shares the processor while it waits, and rounding. */
static void test_replay__golden(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(by_hand) / sizeof(*by_hand); i++) {
        struct ips_graph g;
        struct ips_lane lane;
        struct ips_replay r;
        struct ips_replay_machine one = {
            by_hand[i].cores,
            {by_hand[i].speed_num, by_hand[i].speed_den},
            {by_hand[i].load_num, by_hand[i].load_den}};
        struct ips_replay_ask ask = {.machine_count = 1, .machine = &one};
        golden_scaled(by_hand[i].number, &g, &lane);
        if (by_hand[i].free)
            lane.mtime.base_ns = 0;
        assert_int_equal(0, ips_replay(&g, &lane, &ask, &r, NULL));
        if (r.makespan_ns != by_hand[i].makespan)
            fail_msg("row %zu, G%d: %llu, by hand %llu", i, by_hand[i].number,
                     (unsigned long long)r.makespan_ns,
                     (unsigned long long)by_hand[i].makespan);
        ips_replay_release(&r);
        ips_graph_release(&g);
    }
}

/* EVIDENCE-OF: ALGORITHMS-8: G5 on one core is relabelled A 8,4; B 4,6, and the
 * machine idles from 12 to 13. Would catch time that is counted as running
 * where it was blocked or shared, or the other way about. */
static void test_replay__g5_account(void **state)
{
    static const uint64_t weight[] = {0, 8000, 4000, 0, 4000, 6000};
    static const uint64_t reach[] = {0, 8000, 12000, 0, 13000, 19000};
    struct ips_graph g;
    struct ips_lane lane;
    struct ips_replay r;
    struct ips_replay_machine one = {.cores = 1};
    struct ips_replay_ask ask = {
        .machine_count = 1, .machine = &one, .relabel = true};
    (void)state;
    golden_scaled(5, &g, &lane);
    assert_int_equal(0, ips_replay(&g, &lane, &ask, &r, NULL));
    assert_memory_equal(weight, r.weight, sizeof(weight));
    assert_memory_equal(reach, r.reach, sizeof(reach));
    assert_int_equal(5, r.end);
    assert_int_equal(1000, r.idle_ns[0]);
    assert_int_equal(19000, r.last_ns);
    static const struct ips_replay_chain chain[] = {
        {0, 12000, 10000, 2000, 0}, {0, 19000, 8000, 2000, 9000}};
    assert_memory_equal(chain, r.chain, sizeof(chain));
    ips_replay_release(&r);
    ips_graph_release(&g);
}

/* G5's B moves before its second arc to a machine of half the speed, which is
 * 5 away: 2 + wait until 6+5 = 11, then 12. And a load that comes at 3 and goes
 * at 9, on one core. Would catch moves or changes one arc or event off. */
static void test_replay__moves_and_loads(void **state)
{
    struct ips_graph g;
    struct ips_lane lane;
    struct ips_replay r;
    struct ips_replay_machine two[] = {
        {.cores = 2}, {.cores = 1, .speed = {1, 2}, .load = {0, 1}}};
    struct ips_replay_move move = {5, 1};
    struct ips_replay_ask ask = {
        .machine_count = 2, .machine = two, .move_count = 1, .move = &move};
    (void)state;
    golden_scaled(5, &g, &lane);
    assert_int_equal(0, ips_replay(&g, &lane, &ask, &r, NULL));
    assert_int_equal(11000 + 12000, r.makespan_ns);
    assert_int_equal(2000 + 12000, r.chain[1].run_ns);
    assert_int_equal(11000, r.idle_ns[1]);
    ips_replay_release(&r);
    /* A 6, B 2 at 1/2 each; from 3 on at 1/3 each: B's 0.5 left takes 1.5, so
     * 4.5; A has 6 - 2 = 4 left at 1/2 until 9: 2.25; the rest, 1.75, alone:
     * 10.75. A ends 14.75, B goes on at 15.75, and ends at 21.75. */
    struct ips_replay_load load[] = {{3000, 0, {1, 1}}, {9000, 0, {0, 1}}};
    two[0].cores = 1;
    ask = (struct ips_replay_ask){
        .machine_count = 1, .machine = two, .load_count = 2, .load = load};
    assert_int_equal(0, ips_replay(&g, &lane, &ask, &r, NULL));
    assert_int_equal(10750, r.reach[1]);
    assert_int_equal(21750, r.makespan_ns);
    ips_replay_release(&r);
    ips_graph_release(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replay__golden),
        cmocka_unit_test(test_replay__g5_account),
        cmocka_unit_test(test_replay__moves_and_loads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
