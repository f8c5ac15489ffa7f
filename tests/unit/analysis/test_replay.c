/* Replay with processor sharing: the golden rows by hand, what must hold of any
 * replay, and questions that are refused. The arithmetic is held against an
 * exact simulator by tests/system/answers/test_oracle_replay.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/graph/path.h"
#include "analysis/replay/replay.h"
#include "tests/support/golden.h"
#include "tests/support/random_graph.h"

#define UNIT 1000u /* ns of a golden graph's unit, so that halves are exact */

static void golden_scaled(int number, struct ips_graph *g,
                          struct ips_scenario *lane)
{
    golden_make(&golden[number - 1], g);
    *lane = golden_lane(&golden[number - 1]);
    lane->message_time.base_ns *= UNIT;
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
        struct ips_scenario lane;
        struct ips_replay r;
        struct ips_replay_machine one = {
            by_hand[i].cores,
            {by_hand[i].speed_num, by_hand[i].speed_den},
            {by_hand[i].load_num, by_hand[i].load_den},
            0};
        struct ips_replay_ask ask = {.machine_count = 1, .machine = &one};
        golden_scaled(by_hand[i].number, &g, &lane);
        if (by_hand[i].free)
            lane.message_time.base_ns = 0;
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
    struct ips_scenario lane;
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
    struct ips_scenario lane;
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

/* G5's A moves before its second arc to a machine of half the speed, its B to
 * one of a third: A takes 6 and 8, B 2 and, from 11 on, 18. Would catch a chain
 * that makes the move of the chain before it. */
static void test_replay__each_chain_moves(void **state)
{
    struct ips_graph g;
    struct ips_scenario lane;
    struct ips_replay r;
    const struct ips_replay_machine three[] = {{.cores = 2},
                                               {.cores = 1, .speed = {1, 2}},
                                               {.cores = 1, .speed = {1, 3}}};
    const struct ips_replay_move moves[] = {{2, 1}, {5, 2}};
    struct ips_replay_ask ask = {
        .machine_count = 3, .machine = three, .move_count = 2, .move = moves};
    (void)state;
    golden_scaled(5, &g, &lane);
    assert_int_equal(0, ips_replay(&g, &lane, &ask, &r, NULL));
    assert_int_equal(6000 + 8000, r.chain[0].run_ns);
    assert_int_equal(2000 + 18000, r.chain[1].run_ns);
    assert_int_equal(11000 + 18000, r.makespan_ns);
    ips_replay_release(&r);
    ips_graph_release(&g);
}

/* Two senders on machine 0 and two receivers on machine 1, MTIME = 10 + length.
 * Each alone takes 110 ns; on one medium the first, sent at 1000, has 50 of its
 * 100 bytes over when the second is sent at 1050, both go on at half the rate,
 * and from 1150 on the second has it all: 1160 and 1210. A receiver that comes
 * late waits for nothing, and its message took the medium all the same. Would
 * catch transfers that do not slow each other, that take the medium only when
 * somebody waits for them, and MTIME(0) that is shared as well. */
static void test_replay__shared_medium(void **state)
{
    static const uint32_t media[] = {
        IPS_REPLAY_NO_MEDIUM, 0, IPS_REPLAY_NO_MEDIUM, IPS_REPLAY_NO_MEDIUM};
    static const uint32_t map[] = {0, 0, 1, 1};
    static const uint32_t place[] = {1, 4, 7, 10}; /* send send recv recv */
    static const struct {
        uint32_t media, bytes;
        uint64_t late, first, second, idle;
    } expected[] = {{0, 100, 0, 1110, 1160, 0},
                    {1, 100, 0, 1160, 1210, 1010},
                    {1, 0, 0, 1010, 1060, 1060},
                    {1, 100, 5000, 5000, 1210, 4800}};
    struct ips_replay_machine two[] = {{.cores = 4}, {.cores = 4}};
    struct ips_message_time message_time[4];
    struct ips_graph g;
    (void)state;
    assert_int_equal(0, ips_graph_alloc(&g, 12, 4, NULL));
    for (uint32_t p = 0; p < 4; p++)
        message_time[p] = (struct ips_message_time){10, 1ULL << 32, 1, 1};
    for (uint32_t c = 0; c < 4; c++) {
        g.chains[c] = (struct ips_chain){.first = 3 * c, .count = 3};
        g.kind[3 * c + 1] = c < 2 ? IPS_NODE_SEND : IPS_NODE_RECV;
        g.kind[3 * c + 2] = IPS_NODE_END;
    }
    for (uint32_t k = 0; k < sizeof(expected) / sizeof(*expected); k++) {
        struct ips_scenario lane = {.message_time = message_time[0]};
        struct ips_replay_ask ask = {.machine_count = 2,
                                     .machine = two,
                                     .map = map,
                                     .message_time =
                                         k % 2 ? message_time : NULL,
                                     .medium_count = expected[k].media,
                                     .medium = media};
        struct ips_replay r;
        g.w[place[0]] = 1000;
        g.w[place[1]] = 1050;
        g.w[place[2]] = expected[k].late;
        for (uint32_t i = 2; i < 4; i++) {
            g.xkind[place[i]] = IPS_X_DATA;
            g.xpred[place[i]] = place[i - 2];
            g.xlen[place[i]] = expected[k].bytes;
        }
        assert_int_equal(0, ips_graph_check_invariants(&g, NULL));
        assert_int_equal(0, ips_replay(&g, &lane, &ask, &r, NULL));
        assert_int_equal(expected[k].first, r.reach[place[2]]);
        assert_int_equal(expected[k].second, r.reach[place[3]]);
        if (expected[k].media)
            assert_int_equal(expected[k].idle, r.idle_ns[2]);
        ips_replay_release(&r);
    }
    ips_graph_release(&g);
}

/* Messages of 0, 50, 100 and 1500 bytes by a curve through (0, 10), (100, 50),
 * (1000, 140), twice as long, sent at 1000. Would catch the line instead of the
 * curve (its slope is 0.13), and a scale that the curve does not have. */
static void test_replay__curve(void **state)
{
    static const uint64_t bytes[] = {0, 100, 1000}, ns[] = {10, 50, 140};
    static const uint64_t sent[] = {0, 50, 100, 1500};
    static const uint64_t takes[] = {20, 60, 100, 2 * (140 + 64)};
    static const uint32_t map[] = {0, 1};
    struct ips_curve c;
    struct ips_graph g;
    struct ips_scenario lane = {.message_time = {7, 0, 1, 1}};
    struct ips_message_time way[4] = {{0, 0, 1, 1}, {0, 0, 2, 1}, {9, 9, 1, 1}};
    (void)state;
    assert_int_equal(0, ips_curve_build_from_points(bytes, ns, 3, &c, NULL));
    const struct ips_curve *curve[4] = {NULL, &c, NULL, NULL};
    struct ips_replay_machine two[] = {{.cores = 1}, {.cores = 1}};
    struct ips_replay_ask ask = {.machine_count = 2,
                                 .machine = two,
                                 .map = map,
                                 .message_time = way,
                                 .curve = curve};
    assert_int_equal(0, ips_graph_alloc(&g, 6, 2, NULL));
    for (uint32_t i = 0; i < 2; i++) {
        g.chains[i] = (struct ips_chain){.first = 3 * i, .count = 3};
        g.kind[3 * i + 2] = IPS_NODE_END;
    }
    g.kind[1] = IPS_NODE_SEND;
    g.kind[4] = IPS_NODE_RECV;
    g.w[1] = 1000;
    g.xkind[4] = IPS_X_DATA;
    g.xpred[4] = 1;
    for (size_t k = 0; k < 4; k++) {
        struct ips_replay r;
        g.xlen[4] = sent[k];
        assert_int_equal(0, ips_replay(&g, &lane, &ask, &r, NULL));
        assert_int_equal(1000 + takes[k], r.reach[4]);
        ips_replay_release(&r);
    }
    struct ips_message_time below = ips_curve_lower_bound_line(&c),
                            above = ips_curve_upper_bound_line(&c);
    for (uint64_t len = 0; len < 3000; len += 7) {
        assert_true(ips_message_time_compute_message_ns(&below, len) <=
                    ips_curve_compute_message_ns(&c, len));
        assert_true(ips_message_time_compute_message_ns(&above, len) >=
                    ips_curve_compute_message_ns(&c, len));
    }
    ips_graph_release(&g);
}

/* ---- any graph ------------------------------------------------------------
 */

#define GRAPHS 400

struct drawn {
    struct rg graph;
    struct ips_scenario lane;
    struct ips_est est;
    uint64_t rng;
};

static void draw(uint64_t seed, bool external, struct drawn *d)
{
    struct rg_options opt = rg_options_of(seed);
    d->rng = seed;
    opt.unmatched = false;
    opt.external = opt.external && external;
    d->lane = (struct ips_scenario){
        .message_time = {rg_below(&d->rng, 20),
                         (uint64_t)rg_below(&d->rng, 2) << 31, 1, 1},
        .external = (enum ips_external)rg_below(&d->rng, 3),
        .order_dependent_off = rg_below(&d->rng, 2)};
    rg_make(&opt, &d->graph);
    assert_int_equal(0, ips_longest_path_compute_ests(&d->graph.whole, &d->lane,
                                                      NULL, &d->est, NULL));
}

static void discard(struct drawn *d)
{
    ips_est_release(&d->est);
    rg_release(&d->graph);
}

/* Property 10: every chain on a machine of its own gives EST exactly, at every
 * node; and so does one machine with a core for each. Would catch any time that
 * is not in the graph. */
static void test_replay__alone_is_est(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= GRAPHS; seed++) {
        struct drawn d;
        struct ips_replay r;
        draw(seed, true, &d);
        const struct ips_graph *g = &d.graph.whole;
        uint32_t n = g->chain_count;
        struct ips_replay_machine *machine = calloc(n, sizeof(*machine));
        uint32_t *map = calloc(n, sizeof(*map));
        for (uint32_t c = 0; c < n; c++) {
            machine[c].cores = 1;
            map[c] = n - 1 - c;
        }
        struct ips_replay_ask ask = {
            .machine_count = n, .machine = machine, .map = map};
        struct ips_replay_machine all = {.cores = n};
        struct ips_replay_ask together = {.machine_count = 1, .machine = &all};
        for (int k = 0; k < 2; k++) {
            assert_int_equal(
                0, ips_replay(g, &d.lane, k ? &together : &ask, &r, NULL));
            assert_memory_equal(d.est.est, r.reach, g->node_count * 8);
            assert_int_equal(d.est.t_max, r.makespan_ns);
            assert_int_equal(d.est.end, r.end);
            for (uint32_t c = 0; c < n; c++)
                assert_int_equal(0, r.chain[c].queued_ns);
            ips_replay_release(&r);
        }
        free(machine);
        free(map);
        discard(&d);
    }
}

/* Property 10: one core, no load, messages that take no time and no external
 * arcs give T exactly, without idle time. Would catch work that is lost or done
 * twice when chains come and go, a rounding at a time. */
static void test_replay__one_core_is_total(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= GRAPHS; seed++) {
        struct drawn d;
        struct ips_replay r;
        struct ips_replay_machine one = {.cores = 1};
        struct ips_replay_ask ask = {.machine_count = 1, .machine = &one};
        draw(seed, false, &d);
        d.lane.message_time = (struct ips_message_time){0, 0, 1, 1};
        assert_int_equal(0,
                         ips_replay(&d.graph.whole, &d.lane, &ask, &r, NULL));
        assert_int_equal(d.est.total, r.makespan_ns);
        assert_int_equal(0, r.idle_ns[0]);
        ips_replay_release(&r);
        discard(&d);
    }
}

/* Three chains of six days' work each, so that little room is left for
 * fractions, and one that comes 20000 times, each time in the middle of a unit
 * of their virtual time: still T to the ns. Would catch an advance that loses
 * what it rounds off (half a unit or more a time). */
static void test_replay__no_work_is_lost(void **state)
{
    enum { TIMES = 20000, LONG = 3 };
    struct ips_graph g;
    struct ips_replay r;
    struct ips_scenario lane = {.external = IPS_EXTERNAL_REPLY};
    struct ips_replay_machine one = {.cores = 1};
    struct ips_replay_ask ask = {.machine_count = 1, .machine = &one};
    uint64_t total = 0;
    (void)state;
    assert_int_equal(0,
                     ips_graph_alloc(&g, 2 * LONG + TIMES + 2, LONG + 1, NULL));
    for (uint32_t c = 0; c <= LONG; c++)
        g.chains[c] = (struct ips_chain){.first = 2 * c,
                                         .count = c < LONG ? 2 : TIMES + 2};
    for (uint32_t c = 0; c <= LONG; c++) {
        uint32_t first = g.chains[c].first,
                 last = first + g.chains[c].count - 1;
        for (uint32_t i = first + 1; i < last; i++) {
            g.kind[i] = IPS_NODE_AUX;
            g.w[i] = 7;
            g.xkind[i] = IPS_X_EXTERNAL;
            g.xpred[i] = i - 1;
            g.xlen[i] = 1001;
        }
        g.kind[last] = IPS_NODE_END;
        g.w[last] = c < LONG ? 1ULL << 49 : 1;
    }
    for (uint32_t i = 0; i < g.node_count; i++)
        total += g.w[i];
    assert_int_equal(0, ips_graph_check_invariants(&g, NULL));
    for (uint32_t speed = 1; speed <= 3; speed += 2) {
        one.speed = (struct ips_ratio){speed, 1};
        assert_int_equal(0, ips_replay(&g, &lane, &ask, &r, NULL));
        assert_int_equal((total + speed - 1) / speed, r.makespan_ns);
        assert_int_equal(0, r.idle_ns[0]);
        ips_replay_release(&r);
    }
    ips_graph_release(&g);
}

/* Property 10: at speed 1 the makespan is never below t_max, and the longest
 * path of the relabelled graph is the replay, node by node; on any number of
 * machines, cores and loads. Would catch a rate above 1 and a block that is
 * counted as work. */
static void test_replay__relabelled(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= GRAPHS; seed++) {
        struct drawn d;
        struct ips_replay r;
        struct ips_est again;
        struct ips_replay_machine machine[4];
        draw(seed, true, &d);
        struct ips_graph *g = &d.graph.whole;
        uint32_t n = 1 + rg_below(&d.rng, 4);
        uint32_t *map = calloc(g->chain_count, sizeof(*map));
        for (uint32_t m = 0; m < n; m++)
            machine[m] =
                (struct ips_replay_machine){.cores = 1 + rg_below(&d.rng, 3),
                                            .load = {rg_below(&d.rng, 7), 3}};
        for (uint32_t c = 0; c < g->chain_count; c++)
            map[c] = rg_below(&d.rng, n);
        struct ips_replay_ask ask = {.machine_count = n,
                                     .machine = machine,
                                     .map = map,
                                     .relabel = true};
        assert_int_equal(0, ips_replay(g, &d.lane, &ask, &r, NULL));
        assert_true(r.makespan_ns >= d.est.t_max);
        uint64_t *w = g->w;
        g->w = r.weight;
        assert_int_equal(
            0, ips_longest_path_compute_ests(g, &d.lane, NULL, &again, NULL));
        assert_memory_equal(again.est, r.reach, g->node_count * 8);
        assert_int_equal(again.t_max, r.makespan_ns);
        assert_int_equal(again.end, r.end);
        g->w = w;
        ips_est_release(&again);
        ips_replay_release(&r);
        free(map);
        discard(&d);
    }
}

/* The chains of `g` in the opposite order. */
static void turn_round(const struct ips_graph *g, struct ips_graph *out)
{
    uint32_t *to = calloc((size_t)g->node_count + 1, sizeof(*to)), at = 0;
    assert_int_equal(0,
                     ips_graph_alloc(out, g->node_count, g->chain_count, NULL));
    for (uint32_t k = 0; k < g->chain_count; k++) {
        const struct ips_chain *from = &g->chains[g->chain_count - 1 - k];
        out->chains[k] = *from;
        out->chains[k].first = at;
        for (uint32_t i = from->first; i < from->first + from->count; i++)
            to[i] = at++;
    }
    for (uint32_t i = 0; i < g->node_count; i++) {
        uint32_t x = g->xpred[i];
        out->kind[to[i]] = g->kind[i];
        out->w[to[i]] = g->w[i];
        out->xkind[to[i]] = g->xkind[i];
        out->xlen[to[i]] = g->xlen[i];
        out->xpred[to[i]] = x == IPS_NO_NODE ? x : to[x];
    }
    free(to);
}

/* The numbers of chains decide nothing: the same machines and the chains in the
 * opposite order give the same times, and so does asking twice. Would catch an
 * answer that hangs on the order in which events of one time are taken. */
static void test_replay__renumbered(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= GRAPHS; seed++) {
        struct drawn d;
        struct ips_graph round;
        struct ips_replay r[2];
        static const struct ips_replay_machine machine[] = {
            {.cores = 1}, {.cores = 2, .load = {1, 2}}};
        draw(seed, true, &d);
        const struct ips_graph *g = &d.graph.whole;
        uint32_t n = g->chain_count;
        uint32_t *map = calloc(2 * (size_t)n, sizeof(*map));
        for (uint32_t c = 0; c < n; c++)
            map[c] = map[2 * n - 1 - c] = rg_below(&d.rng, 2);
        turn_round(g, &round);
        struct ips_replay_ask ask = {
            .machine_count = 2, .machine = machine, .map = map};
        assert_int_equal(0, ips_replay(g, &d.lane, &ask, &r[0], NULL));
        assert_int_equal(0, ips_replay(g, &d.lane, &ask, &r[1], NULL));
        assert_memory_equal(r[0].reach, r[1].reach, g->node_count * 8);
        ips_replay_release(&r[1]);
        ask.map = map + n;
        assert_int_equal(0, ips_replay(&round, &d.lane, &ask, &r[1], NULL));
        assert_int_equal(r[0].makespan_ns, r[1].makespan_ns);
        for (uint32_t c = 0; c < n; c++)
            assert_int_equal(r[0].chain[c].end_ns,
                             r[1].chain[n - 1 - c].end_ns);
        ips_replay_release(&r[0]);
        ips_replay_release(&r[1]);
        ips_graph_release(&round);
        free(map);
        discard(&d);
    }
}

/* ---- what is refused -------------------------------------------------------
 */

static void refuse(int code, const char *word, const struct ips_graph *g,
                   const struct ips_scenario *lane,
                   const struct ips_replay_ask *ask)
{
    struct ips_replay r;
    struct ips_err err = {0};
    assert_int_equal(code, ips_replay(g, lane, ask, &r, &err));
    if (!strstr(err.msg, word))
        fail_msg("\"%s\" does not say \"%s\"", err.msg, word);
    assert_null(r.reach);
    assert_int_equal(IPS_NO_NODE, r.end);
}

/* Wrong questions get an error that says what is wrong, never a wrong answer
 * and never a wild index. */
static void test_replay__refuses(void **state)
{
    struct ips_graph g;
    struct ips_scenario lane;
    (void)state;
    golden_scaled(5, &g, &lane);
    struct ips_scenario wall = lane, goal = lane;
    wall.weighting = IPS_WEIGH_WALL;
    goal.has_goal = true;
    goal.goal = 6;
    struct ips_replay_machine fine = {.cores = 1}, none = {0},
                              still = {.cores = 1, .speed = {0, 1}},
                              huge = {.cores = 1, .load = {10001, 1}};
    const uint32_t map[] = {0, 1};
    const struct ips_replay_move back[] = {{4, 0}, {4, 0}}, off = {6, 0};
    const struct ips_replay_load earlier[] = {{2, 0, {1, 1}}, {1, 0, {1, 1}}},
                                 nowhere = {0, 1, {1, 1}},
                                 slow = {1, 0, {10000, 1}};
    struct ips_replay_ask ask = {.machine_count = 1, .machine = &fine}, bad;
    refuse(IPS_E_USAGE, "cpu", &g, &wall, &ask);
    refuse(IPS_E_USAGE, "goal", &g, &goal, &ask);
#define BAD(code, word, ...)                                                   \
    bad = (struct ips_replay_ask){                                             \
        .machine_count = 1, .machine = &fine, __VA_ARGS__};                    \
    refuse(code, word, &g, &lane, &bad)
    BAD(IPS_E_USAGE, "chain 1 is mapped to machine 1 of 1", .map = map);
    BAD(IPS_E_USAGE, "move 1", .move_count = 2, .move = back);
    BAD(IPS_E_USAGE, "node 6 of 6", .move_count = 1, .move = &off);
    BAD(IPS_E_USAGE, "load change 1", .load_count = 2, .load = earlier);
    BAD(IPS_E_USAGE, "load change 0", .load_count = 1, .load = &nowhere);
#undef BAD
    ask.machine_count = 0;
    refuse(IPS_E_LIMIT, "0 machines", &g, &lane, &ask);
    ask = (struct ips_replay_ask){.machine_count = 1, .machine = &none};
    refuse(IPS_E_USAGE, "0 cores", &g, &lane, &ask);
    ask.machine = &still;
    refuse(IPS_E_USAGE, "speed 0", &g, &lane, &ask);
    ask.machine = &huge;
    refuse(IPS_E_LIMIT, "load 10001/1", &g, &lane, &ask);
    ask.machine = &fine;
    g.w[3] = 1;
    refuse(IPS_E_USAGE, "reduced", &g, &lane, &ask);
    g.w[3] = 0;
    g.w[1] = 1ULL << 54;
    refuse(IPS_E_LIMIT, "104 days", &g, &lane, &ask);
    g.w[1] = 1ULL << 50; /* in time as the machine is, not with the load */
    bad = (struct ips_replay_ask){
        .machine_count = 1, .machine = &fine, .load_count = 1, .load = &slow};
    refuse(IPS_E_LIMIT, "104 days", &g, &lane, &bad);
    g.w[1] = UINT64_MAX;
    refuse(IPS_E_LIMIT, "104 days", &g, &lane, &ask);
    g.w[1] = 1;
    lane.message_time.base_ns = UINT64_MAX;
    refuse(IPS_E_LIMIT, "104 days", &g, &lane, &ask);
    ips_graph_release(&g);
}

/* A cycle is named and no hang; a chain behind it too. */
static void test_replay__cycle(void **state)
{
    struct ips_graph g;
    struct ips_scenario lane;
    struct ips_replay_machine one = {.cores = 1};
    struct ips_replay_ask ask = {.machine_count = 1, .machine = &one};
    (void)state;
    golden_scaled(5, &g, &lane);
    g.xkind[1] = IPS_X_DATA; /* A's send awaits B's END, which awaits it */
    g.xpred[1] = 5;
    refuse(IPS_E_STALLED, "node 1 of 1.0 awaits node 5, node 4 of 2.0 awaits",
           &g, &lane, &ask);
    ips_graph_release(&g);
    assert_int_equal(0, ips_graph_alloc(&g, 0, 0, NULL));
    struct ips_replay r;
    assert_int_equal(0, ips_replay(&g, &lane, &ask, &r, NULL));
    assert_int_equal(0, r.makespan_ns);
    assert_int_equal(IPS_NO_NODE, r.end);
    ips_replay_release(&r);
    ips_graph_release(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replay__golden),
        cmocka_unit_test(test_replay__g5_account),
        cmocka_unit_test(test_replay__moves_and_loads),
        cmocka_unit_test(test_replay__each_chain_moves),
        cmocka_unit_test(test_replay__shared_medium),
        cmocka_unit_test(test_replay__curve),
        cmocka_unit_test(test_replay__alone_is_est),
        cmocka_unit_test(test_replay__one_core_is_total),
        cmocka_unit_test(test_replay__no_work_is_lost),
        cmocka_unit_test(test_replay__relabelled),
        cmocka_unit_test(test_replay__renumbered),
        cmocka_unit_test(test_replay__refuses),
        cmocka_unit_test(test_replay__cycle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
