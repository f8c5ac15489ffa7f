/* The longest path of graphs: golden graphs, ties, remote values, and what is
 * no graph. What must hold of any graph: test_path_properties.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/graph/path.h"
#include "tests/support/golden.h"
#include "tests/support/longest.h"
#include "tests/support/random_graph.h"

#define SEEDS 300

struct want_segment {
    enum ips_segment_kind kind;
    uint32_t from, to;
    uint64_t ns;
};

static void check_path(const struct ips_graph *g,
                       const struct ips_scenario *lane,
                       const struct want_segment *want, uint64_t count)
{
    struct ips_est e;
    struct ips_path p;
    uint32_t stop;
    assert_int_equal(0, ips_longest_path_compute_ests(g, lane, NULL, &e, NULL));
    assert_int_equal(
        0, ips_path_walk_back_and_store(g, lane, &e, e.end, &p, &stop, NULL));
    assert_int_equal(stop, IPS_NO_NODE);
    assert_int_equal(p.count, count);
    for (uint64_t k = 0; k < count; k++) {
        assert_int_equal(p.seg[k].kind, want[k].kind);
        assert_int_equal(p.seg[k].from, want[k].from);
        assert_int_equal(p.seg[k].to, want[k].to);
        assert_int_equal(p.seg[k].ns, want[k].ns);
    }
    ips_path_release(&p);
    ips_est_release(&e);
}

/* Would catch a wrong maximum, a wrong T or P_max, a path other than the one
 * computed by hand, and a tie decided for the message (G7). */
static void test_path__golden(void **state)
{
    (void)state;
#define C IPS_SEG_COMPUTE
#define M IPS_SEG_MESSAGE
#define E IPS_SEG_EXTERNAL
    static const struct want_segment paths[GOLDEN_COUNT][6] = {
        {{C, 0, 1, 10}, {M, 1, 4, 4}, {C, 4, 5, 20}},
        {{C, 0, 1, 2}, {M, 1, 5, 5}, {C, 5, 6, 8}, {M, 6, 2, 5}, {C, 2, 3, 3}},
        {{C, 0, 1, 4}, {E, 1, 2, 30}, {C, 2, 4, 9}},
        {{C, 0, 2, 6}, {M, 2, 8, 0}, {C, 8, 9, 12}, {M, 9, 4, 0}, {C, 4, 5, 4}},
        {{C, 0, 1, 6}, {M, 1, 4, 5}, {C, 4, 5, 6}},
        {{C, 0, 2, 2}, {M, 2, 9, 2}, {C, 9, 11, 11}},
        {{C, 3, 5, 9}, {M, 5, 8, 1}, {C, 8, 9, 7}},
    };
#undef C
#undef M
#undef E
    for (int k = 0; k < GOLDEN_COUNT; k++) {
        struct ips_graph g;
        struct ips_est e;
        struct ips_scenario lane = golden_lane(&golden[k]);
        golden_make(&golden[k], &g);
        assert_int_equal(0, ips_graph_check_invariants(&g, NULL));
        assert_int_equal(
            0, ips_longest_path_compute_ests(&g, &lane, NULL, &e, NULL));
        assert_int_equal(e.t_max, golden[k].t_max);
        assert_int_equal(e.total, golden[k].total);
        ips_est_release(&e);
        uint64_t count = 0;
        while (count < 6 && paths[k][count].to)
            count++;
        check_path(&g, &lane, paths[k], count);
        lane.message_time.scale_num = 0;
        assert_int_equal(t_max_of(&g, &lane), golden[k].t_max_free);
        ips_graph_release(&g);
    }
}

/* G3 with external arcs off goes over B's message; G4's zeroed children. */
static void test_path__golden_variants(void **state)
{
    (void)state;
    struct ips_graph g;
    struct ips_scenario lane = golden_lane(&golden[2]);
    static const struct want_segment off[] = {
        {IPS_SEG_COMPUTE, 5, 6, 20},
        {IPS_SEG_MESSAGE, 6, 3, 2},
        {IPS_SEG_COMPUTE, 3, 4, 3},
    };
    golden_make(&golden[2], &g);
    lane.external = IPS_EXTERNAL_OFF;
    assert_int_equal(t_max_of(&g, &lane), 25);
    check_path(&g, &lane, off, 3);
    g.xkind[2] = IPS_X_IDLE; /* weighs in `all` alone */
    assert_int_equal(t_max_of(&g, &lane), 25);
    lane.external = IPS_EXTERNAL_REPLY;
    assert_int_equal(t_max_of(&g, &lane), 25);
    lane.external = IPS_EXTERNAL_ALL;
    assert_int_equal(t_max_of(&g, &lane), 43);
    ips_graph_release(&g);

    lane = golden_lane(&golden[3]);
    golden_make(&golden[3], &g);
    g.w[9] = 0; /* c2 */
    assert_int_equal(t_max_of(&g, &lane), 19);
    g.w[9] = 12;
    g.w[7] = 0; /* c1 */
    assert_int_equal(t_max_of(&g, &lane), 22);
    ips_graph_release(&g);
}

/* Lengths of all ways from a START to node i, by trying each. */
static void all_paths(const struct ips_graph *g,
                      const struct ips_scenario *lane, uint32_t i,
                      uint64_t after, uint64_t *length, uint32_t *count)
{
    bool present;
    uint64_t xw = ips_cross_arc_weight(g, i, lane, &present);
    if (g->kind[i] == IPS_NODE_START && !present)
        length[(*count)++] = after;
    if (g->kind[i] != IPS_NODE_START)
        all_paths(g, lane, i - 1, after + g->w[i], length, count);
    if (present)
        all_paths(g, lane, g->xpred[i], after + xw, length, count);
}

static int greater_first(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x < y) - (x > y);
}

/* Would catch a golden graph that is not the one the design describes. */
static void test_path__golden_all_lengths(void **state)
{
    (void)state;
    static const uint64_t g1[] = {34, 23, 15}, g6[] = {15, 12, 9, 7, 7, 5, 3};
    const struct {
        int which;
        const uint64_t *want;
        uint32_t count;
    } lists[] = {{0, g1, 3}, {5, g6, 7}};
    for (int k = 0; k < 2; k++) {
        struct ips_graph g;
        struct ips_scenario lane = golden_lane(&golden[lists[k].which]);
        uint64_t length[64];
        uint32_t count = 0;
        golden_make(&golden[lists[k].which], &g);
        for (uint32_t i = 0; i < g.node_count; i++) {
            if (g.kind[i] == IPS_NODE_END)
                all_paths(&g, &lane, i, 0, length, &count);
        }
        assert_int_equal(count, lists[k].count);
        qsort(length, count, sizeof(*length), greater_first);
        assert_memory_equal(length, lists[k].want, count * sizeof(*length));
        ips_graph_release(&g);
    }
}

/* Among equal ENDs the lowest node, whatever the order of computing. */
static void test_path__equal_ends(void **state)
{
    (void)state;
    struct ips_graph g;
    struct ips_est e;
    golden_make(&golden[0], &g);
    struct ips_scenario lane = golden_lane(&golden[0]);
    g.w[2] = 24; /* A's END at 34 too */
    assert_int_equal(0,
                     ips_longest_path_compute_ests(&g, &lane, NULL, &e, NULL));
    assert_int_equal(e.end, 2);
    ips_est_release(&e);
    assert_int_equal(0,
                     ips_longest_path_by_label_correcting(&g, &lane, &e, NULL));
    assert_int_equal(e.end, 2);
    ips_est_release(&e);
    ips_graph_release(&g);
}

static void test_path__empty_graph(void **state)
{
    (void)state;
    struct ips_graph g;
    struct ips_est e;
    ips_graph_init(&g);
    assert_int_equal(0, ips_graph_check_invariants(&g, NULL));
    assert_int_equal(0,
                     ips_longest_path_compute_ests(&g, &plain, NULL, &e, NULL));
    assert_int_equal(e.end, IPS_NO_NODE);
    assert_int_equal(e.t_max, 0);
    ips_est_release(&e);
    assert_int_equal(
        0, ips_longest_path_by_label_correcting(&g, &plain, &e, NULL));
    assert_int_equal(e.end, IPS_NO_NODE);
    ips_est_release(&e);
}

static void check_stalled(const struct ips_graph *g)
{
    struct ips_est e;
    struct ips_err err;
    assert_int_equal(IPS_E_STALLED,
                     ips_longest_path_compute_ests(g, &plain, NULL, &e, &err));
    assert_non_null(strstr(err.msg, "awaits node"));
    assert_null(e.est);
    assert_int_equal(IPS_E_STALLED,
                     ips_longest_path_by_label_correcting(g, &plain, &e, NULL));
}

/* A cycle, of zero weight too, is reported by both engines and hangs none. */
static void test_path__stalled(void **state)
{
    (void)state;
    struct ips_graph g;
    golden_make(&golden[1], &g);
    g.xpred[5] = 3; /* S awaits C's END, C awaits S */
    check_stalled(&g);
    memset(g.w, 0, g.node_count * sizeof(*g.w));
    check_stalled(&g);
    ips_graph_release(&g);

    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct rg_options opt = rg_options_of(seed);
        struct rg r;
        rg_make(&opt, &r);
        uint32_t c = (uint32_t)(seed % r.whole.chain_count);
        uint32_t first = r.whole.chains[c].first;
        uint32_t last = first + r.whole.chains[c].count - 1;
        r.whole.xpred[first] = last;
        r.whole.xkind[first] = IPS_X_ROOM;
        check_stalled(&r.whole);
        rg_release(&r);
    }
}

/* Weights that add up beyond 2^62 are refused, not wrapped. */
static void test_path__overflow(void **state)
{
    (void)state;
    const uint64_t huge[] = {UINT64_MAX, 1ULL << 63, 1ULL << 62,
                             (1ULL << 62) - 5};
    for (int k = 0; k < 4; k++) {
        struct ips_graph g;
        struct ips_est e;
        struct ips_scenario lane = golden_lane(&golden[2]);
        golden_make(&golden[2], &g);
        g.w[1] = huge[k];
        assert_int_equal(IPS_E_LIMIT, ips_longest_path_compute_ests(
                                          &g, &lane, NULL, &e, NULL));
        assert_int_equal(IPS_E_LIMIT, ips_longest_path_by_label_correcting(
                                          &g, &lane, &e, NULL));
        g.w[1] = 4;
        g.xlen[2] = huge[k];
        assert_int_equal(IPS_E_LIMIT, ips_longest_path_compute_ests(
                                          &g, &lane, NULL, &e, NULL));
        assert_int_equal(IPS_E_LIMIT, ips_longest_path_by_label_correcting(
                                          &g, &lane, &e, NULL));
        ips_graph_release(&g);
    }
}

/* Message times: bytes, scale, an unset scale, and saturation. */
static void test_path__message_time(void **state)
{
    (void)state;
    struct ips_message_time m = {100, 3ULL << 31, 1, 1}; /* 1.5 ns a byte */
    assert_int_equal(ips_message_time_compute_message_ns(&m, 0), 100);
    assert_int_equal(ips_message_time_compute_message_ns(&m, 3), 104);
    m.scale_den = 2;
    assert_int_equal(ips_message_time_compute_message_ns(&m, 3), 52);
    m.scale_num = 0;
    assert_int_equal(ips_message_time_compute_message_ns(&m, 3), 0);
    m.scale_den = 0;
    assert_int_equal(ips_message_time_compute_message_ns(&m, 3), 104);
    m = (struct ips_message_time){UINT64_MAX, UINT64_MAX, 2, 1};
    assert_true(ips_message_time_compute_message_ns(&m, UINT64_MAX) ==
                UINT64_MAX);
}

/* Would catch a lane whose messages weigh their bytes as they are, that has
 * more to it and is taken for one that has not: a base, a scale, another rate.
 */
static void test_path__messages_as_they_are(void **state)
{
    (void)state;
    static const struct {
        struct ips_message_time m;
        uint64_t want;
    } lanes[] = {{{0, 1ULL << 32, 1, 1}, 10}, {{0, 1ULL << 32, 0, 0}, 10},
                 {{7, 1ULL << 32, 1, 1}, 17}, {{0, 1ULL << 32, 1, 2}, 5},
                 {{0, 1ULL << 33, 1, 1}, 20}, {{0, 0, 1, 1}, 0}};
    for (size_t n = 0; n < sizeof(lanes) / sizeof(*lanes); n++) {
        struct ips_scenario lane = {.message_time = lanes[n].m};
        struct ips_graph g;
        struct ips_est e;
        assert_int_equal(0, ips_graph_alloc(&g, 2, 2, NULL));
        g.chains[0] = (struct ips_chain){.first = 0, .count = 1};
        g.chains[1] = (struct ips_chain){.first = 1, .count = 1};
        g.xpred[1] = 0;
        g.xkind[1] = IPS_X_DATA;
        g.xlen[1] = 10;
        assert_int_equal(
            0, ips_longest_path_compute_ests(&g, &lane, NULL, &e, NULL));
        assert_int_equal(e.est[1], lanes[n].want);
        ips_est_release(&e);
        ips_graph_release(&g);
    }
}

/* Hostile or torn graphs are refused before an engine sees them. */
static void test_path__check_refuses(void **state)
{
    (void)state;
    struct ips_graph g;
    struct ips_remote_in in[2] = {{4, 0, 1}, {4, 0, 2}};
    struct ips_remote_out out[2] = {{1, 0, 5, 1}, {1, 0, 4, 1}};
#define REFUSED(change, undo)                                                  \
    do {                                                                       \
        change;                                                                \
        assert_int_equal(IPS_E_CORRUPT, ips_graph_check_invariants(&g, NULL)); \
        undo;                                                                  \
        assert_int_equal(0, ips_graph_check_invariants(&g, NULL));             \
    } while (0)
    golden_make(&golden[0], &g);
    REFUSED(g.kind[1] = IPS_NODE_POLL + 1, g.kind[1] = IPS_NODE_SEND);
    REFUSED(g.kind[1] = IPS_NODE_END, g.kind[1] = IPS_NODE_SEND);
    REFUSED(g.kind[1] = IPS_NODE_START, g.kind[1] = IPS_NODE_SEND);
    REFUSED(g.xkind[4] = IPS_X_LAST + 1, g.xkind[4] = IPS_X_DATA);
    REFUSED(g.xkind[4] = IPS_X_NONE, g.xkind[4] = IPS_X_DATA);
    REFUSED(g.xpred[4] = 6, g.xpred[4] = 1);
    REFUSED(g.xpred[4] = 4, g.xpred[4] = 1);
    REFUSED(g.chains[1].first = 2, g.chains[1].first = 3);
    REFUSED(g.chains[1].count = 2, g.chains[1].count = 3);
    REFUSED(g.chains[1].count = UINT32_MAX, g.chains[1].count = 3);
    REFUSED(g.chain_count = 1, g.chain_count = 2);
    REFUSED(g.chain_count = 7, g.chain_count = 2);
    REFUSED(g.in_count = 1, g.in_count = 0); /* no array */
    g.in = in;
    REFUSED(g.in_count = 1, g.in_count = 0); /* node 4 has a local arc */
    g.xpred[4] = IPS_NO_NODE;
    REFUSED(g.in_count = 2, g.in_count = 1); /* twice the same node */
    REFUSED(in[0].node = 6, in[0].node = 4);
    REFUSED(g.xkind[4] = IPS_X_NONE, g.xkind[4] = IPS_X_DATA);
    g.out = out;
    REFUSED(g.out_count = 2, g.out_count = 1); /* not in order */
    REFUSED(out[0].node = 6, out[0].node = 1);
    g.in = NULL;
    g.out = NULL;
    g.in_count = g.out_count = 0;
    ips_graph_release(&g);
#undef REFUSED
}

/* A remote in takes its value, ties to the chain, or has no arc at all. */
static void test_path__remote_values(void **state)
{
    (void)state;
    struct ips_graph g;
    struct ips_est e;
    struct ips_remote_in in = {4, 0, 1};
    struct ips_path p;
    uint32_t stop;
    golden_make(&golden[0], &g);
    g.xpred[4] = IPS_NO_NODE;
    g.in = &in;
    g.in_count = 1;
    assert_int_equal(IPS_E_USAGE,
                     ips_longest_path_compute_ests(&g, &plain, NULL, &e, NULL));
    const struct {
        uint64_t value, t_max;
        uint32_t stop;
    } cases[] = {{14, 34, 4},
                 {3, 23, IPS_NO_NODE},
                 {4, 24, 4},
                 {0, 23, IPS_NO_NODE},
                 {IPS_IN_ABSENT, 23, IPS_NO_NODE}};
    for (size_t k = 0; k < sizeof(cases) / sizeof(*cases); k++) {
        assert_int_equal(0, ips_longest_path_compute_ests(
                                &g, &plain, &cases[k].value, &e, NULL));
        assert_int_equal(e.t_max, cases[k].t_max);
        assert_int_equal(0, ips_path_walk_back_and_store(&g, &plain, &e, e.end,
                                                         &p, &stop, NULL));
        assert_int_equal(stop, cases[k].stop);
        ips_path_release(&p);
        ips_est_release(&e);
    }
    uint64_t huge = 1ULL << 62;
    assert_int_equal(IPS_E_LIMIT, ips_longest_path_compute_ests(
                                      &g, &plain, &huge, &e, NULL));
    g.in = NULL;
    g.in_count = 0;
    ips_graph_release(&g);
}

/* Where label correcting would take for ever it says so and stops: a ladder
 * whose every rung corrects the whole rest. */
static void test_path__pdm_gives_up(void **state)
{
    (void)state;
    struct ips_graph g;
    struct ips_est e;
    enum { LONG = 6000 };
    assert_int_equal(0, ips_graph_alloc(&g, 2 * LONG, 2, NULL));
    g.chains[0] = (struct ips_chain){.first = 0, .count = LONG};
    g.chains[1] = (struct ips_chain){.first = LONG, .count = LONG};
    for (uint32_t i = 0; i < 2 * LONG; i++) {
        g.kind[i] = IPS_NODE_AUX;
        g.w[i] = i < LONG ? 2 : 1;
    }
    /* Chain 1 runs ahead on its own; chain 0's n-th node corrects node n/2, so
     * all of chain 1 that was already reached. */
    for (uint32_t i = 1; i < LONG / 2; i++) {
        g.xpred[LONG + i] = 2 * i;
        g.xkind[LONG + i] = IPS_X_EXTERNAL;
        g.xlen[LONG + i] = 1;
    }
    g.kind[0] = g.kind[LONG] = IPS_NODE_START;
    g.kind[LONG - 1] = g.kind[2 * LONG - 1] = IPS_NODE_END;
    assert_int_equal(0,
                     ips_longest_path_compute_ests(&g, &plain, NULL, &e, NULL));
    ips_est_release(&e);
    assert_int_equal(IPS_E_LIMIT, ips_longest_path_by_label_correcting(
                                      &g, &plain, &e, NULL));
    ips_graph_release(&g);
}

/* Would catch chains that are lost from a list of several that wait for the
 * same node, or from the queue as it is moved back to its beginning: each node
 * of the first chain has all others wait for it, and waits for one of them. */
static void test_path__taking_turns(void **state)
{
    (void)state;
    enum { CHAINS = 5, TURNS = 1000 };
    struct ips_graph g;
    struct ips_est e;
    static uint64_t want[CHAINS][TURNS];
    assert_int_equal(0, ips_graph_alloc(&g, CHAINS * TURNS, CHAINS, NULL));
    for (uint32_t t = 0; t < TURNS; t++)
        for (uint32_t c = 0; c < CHAINS; c++) {
            uint32_t i = c * TURNS + t, from = 1 + t % (CHAINS - 1);
            g.chains[c] = (struct ips_chain){.first = c * TURNS, TURNS};
            g.kind[i] = t == 0           ? IPS_NODE_START
                        : t == TURNS - 1 ? IPS_NODE_END
                                         : IPS_NODE_AUX;
            g.w[i] = c * (t % 7);
            want[c][t] = (t ? want[c][t - 1] : 0) + g.w[i];
            if (t == 0)
                continue;
            g.xkind[i] = IPS_X_SIGNAL;
            g.xpred[i] = c ? t : from * TURNS + t - 1;
            want[c][t] =
                ips_max_u64(want[c][t], c ? want[0][t] : want[from][t - 1]);
        }
    assert_int_equal(0, ips_graph_check_invariants(&g, NULL));
    assert_int_equal(0,
                     ips_longest_path_compute_ests(&g, &plain, NULL, &e, NULL));
    assert_memory_equal(e.est, want, sizeof(want));
    ips_est_release(&e);
    ips_graph_release(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_path__golden),
        cmocka_unit_test(test_path__golden_variants),
        cmocka_unit_test(test_path__golden_all_lengths),
        cmocka_unit_test(test_path__equal_ends),
        cmocka_unit_test(test_path__empty_graph),
        cmocka_unit_test(test_path__stalled),
        cmocka_unit_test(test_path__overflow),
        cmocka_unit_test(test_path__message_time),
        cmocka_unit_test(test_path__check_refuses),
        cmocka_unit_test(test_path__remote_values),
        cmocka_unit_test(test_path__pdm_gives_up),
        cmocka_unit_test(test_path__messages_as_they_are),
        cmocka_unit_test(test_path__taking_turns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
