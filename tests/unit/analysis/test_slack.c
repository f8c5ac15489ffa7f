/* Tails and slacks: by hand on the golden graphs, and what must hold of them
 * on any graph. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/whatif/slack.h"
#include "tests/support/golden.h"
#include "tests/support/shrink.h"

struct solved {
    struct ips_graph g;
    struct ips_scenario lane;
    struct ips_est e;
    struct ips_computation_order order;
    uint64_t *tail;
};

static void solve(struct solved *s)
{
    struct ips_err err;
    if (ips_longest_path_compute_ests(&s->g, &s->lane, NULL, &s->e, &err) < 0 ||
        ips_computation_order_make(&s->g, &s->lane, &s->order, &err) < 0 ||
        ips_compute_tails(&s->g, &s->lane, &s->order, &s->tail, &err) < 0)
        fail_msg("%s", err.msg);
}

static void solve_golden(int number, struct solved *s)
{
    golden_make(&golden[number - 1], &s->g);
    s->lane = golden_lane(&golden[number - 1]);
    solve(s);
}

static void forget(struct solved *s)
{
    ips_graph_release(&s->g);
    ips_est_release(&s->e);
    ips_computation_order_release(&s->order);
    free(s->tail);
}

/* Slacks computed by hand: (graph, node, of its cross arc?, slack). */
static const struct {
    int number;
    uint32_t node;
    bool cross;
    uint64_t slack;
} by_hand[] = {
    {1, 2, false, 19}, {1, 4, false, 11}, {1, 4, true, 0},   {1, 5, false, 0},
    {2, 5, false, 6},  {2, 7, false, 7},  {2, 2, false, 18}, {2, 2, true, 0},
    {3, 2, false, 29}, {3, 2, true, 0},   {3, 3, true, 18},  {3, 7, false, 21},
    {3, 6, false, 18}, {4, 7, false, 3},  {4, 9, false, 0},  {4, 3, false, 10},
    {4, 3, true, 3},   {5, 2, false, 7},  {5, 4, false, 9},  {6, 9, false, 3},
    {6, 5, false, 6},  {6, 10, true, 6},  {6, 5, true, 8},   {6, 9, true, 0},
    {7, 4, true, 0},   {7, 4, false, 0},  {7, 1, false, 0},  {7, 2, false, 13},
    {7, 6, false, 8},  {7, 8, false, 8},
};

/* EVIDENCE-OF: ALGORITHMS-8: would catch a tail that misses a branch, or a
 * slack with a weight left out or counted twice. */
static void test_slack__golden(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(by_hand) / sizeof(*by_hand); i++) {
        struct solved s;
        solve_golden(by_hand[i].number, &s);
        uint64_t slack = by_hand[i].cross
                             ? ips_slack_of_cross_arc(&s.g, &s.lane, &s.e,
                                                      s.tail, by_hand[i].node)
                             : ips_slack_of_chain_arc(&s.g, &s.e, s.tail,
                                                      by_hand[i].node, false);
        if (slack != by_hand[i].slack)
            fail_msg("G%d node %u%s: slack %llu, not %llu", by_hand[i].number,
                     by_hand[i].node, by_hand[i].cross ? " (cross)" : "",
                     (unsigned long long)slack,
                     (unsigned long long)by_hand[i].slack);
        forget(&s);
    }
}

/* Slack by process (feature = chain) and of the messages as one feature, on G6;
 * would catch sums that leave out arcs or take the wrong least. */
static void test_slack__by_feature(void **state)
{
    (void)state;
    struct solved s;
    struct ips_slack out[4];
    uint32_t chain[3] = {0, 1, 2}, cross[12];
    solve_golden(6, &s);
    for (uint32_t i = 0; i < 12; i++)
        cross[i] = s.g.xpred[i] == IPS_NO_NODE ? IPS_NO_FEATURE : 3;
    struct ips_features f = {.count = 4, .chain = chain, .cross = cross};
    assert_int_equal(0, ips_features_check(&s.g, &f, NULL));
    assert_int_equal(0, ips_compute_slacks_of_features(
                            &s.g, &s.lane, &s.e, s.tail, &f, 3, out, NULL));
    assert_int_equal(out[0].least, 0);
    assert_int_equal(out[0].total_ns, 3);
    assert_int_equal(out[0].path_ns, 2);
    /* B: 5 recv a has slack 6, 1 send c 6, 1 end 8. */
    assert_int_equal(out[1].least, 6);
    assert_int_equal(out[1].near_ns, 0);
    assert_int_equal(out[1].total_ns, 7);
    assert_int_equal(out[2].least, 0);
    assert_int_equal(out[2].near_ns, 12); /* its head has slack 3 */
    assert_int_equal(out[2].path_ns, 11);
    assert_int_equal(out[3].least, 0);
    assert_int_equal(out[3].total_ns, 6);
    assert_int_equal(out[3].path_ns, 2);
    forget(&s);
}

/* Portions belong to their features and the rest to the chain's; sums that do
 * not fit are refused. */
static void test_slack__portions(void **state)
{
    (void)state;
    struct solved s;
    struct ips_slack out[4];
    uint32_t chain[2] = {0, 1};
    uint64_t first[7] = {0, 0, 2, 2, 2, 2, 3};
    struct ips_arc_share portion[3] = {{2, 7}, {3, 2}, {2, 20}};
    solve_golden(1, &s);
    struct ips_features f = {
        .count = 4, .chain = chain, .first = first, .arc_share = portion};
    assert_int_equal(0, ips_features_check(&s.g, &f, NULL));
    assert_int_equal(0, ips_compute_slacks_of_features(
                            &s.g, &s.lane, &s.e, s.tail, &f, 0, out, NULL));
    assert_int_equal(out[0].path_ns, 1);
    assert_int_equal(out[0].total_ns, 6);
    assert_int_equal(out[1].path_ns, 0);
    assert_int_equal(out[1].least, 11);
    assert_int_equal(out[2].path_ns, 27);
    assert_int_equal(out[3].path_ns, 2);
    portion[2].ns = 21;
    assert_int_equal(IPS_E_CORRUPT, ips_features_check(&s.g, &f, NULL));
    forget(&s);
}

static struct ips_scenario random_lane(uint64_t *s)
{
    return (struct ips_scenario){
        .message_time = {rg_below(s, 3) * rg_below(s, 20),
                         (uint64_t)rg_below(s, 2) << 31, 1, 1},
        .external = (enum ips_external)rg_below(s, 3),
        .order_dependent_off = rg_below(s, 2)};
}

/* What is wrong with the tails of a graph, or NULL. */
static const char *tails_wrong(struct solved *s)
{
    const struct ips_graph *g = &s->g;
    uint64_t longest = 0;
    struct ips_path p;
    uint32_t stop;
    const char *wrong = NULL;
    for (uint32_t i = 0; i < g->node_count; i++) {
        if (s->tail[i] != IPS_NO_TAIL && s->e.est[i] + s->tail[i] > s->e.t_max)
            return "EST + TAIL > t_max";
    }
    for (uint32_t c = 0; c < g->chain_count; c++) {
        uint32_t first = g->chains[c].first;
        uint64_t whole = s->tail[first] == IPS_NO_TAIL
                             ? 0
                             : s->e.est[first] + s->tail[first];
        longest = whole > longest ? whole : longest;
    }
    if (longest != s->e.t_max)
        return "backwards another t_max";
    if (ips_path_walk_back_and_store(g, &s->lane, &s->e, s->e.end, &p, &stop,
                                     NULL) < 0)
        return "no path";
    for (uint64_t k = 0; k < p.count; k++) {
        uint32_t i = p.seg[k].to;
        if (s->e.est[i] + s->tail[i] != s->e.t_max)
            wrong = "a node of the path is not critical";
        if (p.seg[k].kind != IPS_SEG_COMPUTE &&
            ips_slack_of_cross_arc(g, &s->lane, &s->e, s->tail, i) != 0)
            wrong = "a cross arc of the path has slack";
        if (p.seg[k].kind == IPS_SEG_COMPUTE &&
            ips_slack_of_chain_arc(g, &s->e, s->tail, i, false) != 0)
            wrong = "a chain arc of the path has slack";
    }
    ips_path_release(&p);
    return wrong;
}

/* Grows one arc by just its slack, then by one more. */
static const char *slack_wrong(struct solved *s, uint64_t *rng)
{
    struct ips_graph *g = &s->g;
    for (uint32_t c = 0; c < g->chain_count; c++) {
        uint32_t first = g->chains[c].first;
        if (g->chains[c].count < 2)
            continue;
        uint32_t i = first + 1 + rg_below(rng, g->chains[c].count - 1);
        uint64_t slack = ips_slack_of_chain_arc(g, &s->e, s->tail, i, false);
        bool leads = slack != IPS_NO_SLACK; /* to the goal */
        slack = leads ? slack : 100;
        for (uint64_t more = 0; more < 2; more++) {
            struct ips_est e;
            g->w[i] += slack + more;
            if (ips_longest_path_compute_ests(g, &s->lane, NULL, &e, NULL) < 0)
                return "no path with an arc grown";
            uint64_t t_max = e.t_max;
            ips_est_release(&e);
            g->w[i] -= slack + more;
            if (t_max != s->e.t_max + (leads ? more : 0))
                return more ? "more than its slack does not show"
                            : "an arc grown by its slack shows";
        }
    }
    return NULL;
}

/* Takes away every cross arc that has slack. */
static const char *removal_wrong(struct solved *s)
{
    struct ips_est e;
    for (uint32_t i = 0; i < s->g.node_count; i++) {
        uint64_t slack =
            ips_slack_of_cross_arc(&s->g, &s->lane, &s->e, s->tail, i);
        if (slack != IPS_NO_SLACK && slack > 0)
            s->g.xpred[i] = IPS_NO_NODE;
    }
    if (ips_longest_path_compute_ests(&s->g, &s->lane, NULL, &e, NULL) < 0)
        return "no path without slack arcs";
    bool same = e.t_max == s->e.t_max;
    ips_est_release(&e);
    return same ? NULL : "arcs with slack changed t_max";
}

static const char *slack_property(struct rg *r, uint64_t seed)
{
    uint64_t rng = seed ^ 31;
    struct solved s = {.g = r->whole, .lane = random_lane(&rng)};
    rg_goal(&s.g, &s.lane, &rng);
    solve(&s);
    const char *wrong = tails_wrong(&s);
    if (!wrong)
        wrong = slack_wrong(&s, &rng);
    if (!wrong)
        wrong = removal_wrong(&s);
    ips_graph_init(&s.g); /* it is the caller's */
    forget(&s);
    return wrong;
}

/* EVIDENCE-OF: ALGORITHMS-7.6, 7.7: would catch an order in which a node comes
 * before one it needs, and a slack that is too great or too small by one. */
static void test_slack__properties(void **state)
{
    (void)state;
    const char *wrong = rg_hold(slack_property, 400);
    if (wrong)
        fail_msg("%s", wrong);
}

/* Places for values are used again: a pass over two chains that talk for ever
 * needs but a few. */
static void test_slack__few_places(void **state)
{
    (void)state;
    enum { TURNS = 1000 };
    struct ips_graph g;
    struct ips_computation_order order;
    struct ips_scenario lane = {.message_time = {0, 0, 1, 1}};
    assert_int_equal(0, ips_graph_alloc(&g, 2 * TURNS, 2, NULL));
    g.chains[0] = (struct ips_chain){.first = 0, .count = TURNS};
    g.chains[1] = (struct ips_chain){.first = TURNS, .count = TURNS};
    memset(g.kind, IPS_NODE_AUX, 2 * TURNS);
    for (uint32_t i = 1; i < TURNS; i++) {
        g.xpred[i] = TURNS + i - 1;
        g.xpred[TURNS + i] = i;
        g.xkind[i] = g.xkind[TURNS + i] = IPS_X_LIFETIME;
    }
    g.kind[0] = g.kind[TURNS] = IPS_NODE_START;
    g.kind[TURNS - 1] = g.kind[2 * TURNS - 1] = IPS_NODE_END;
    assert_int_equal(0, ips_graph_check_invariants(&g, NULL));
    assert_int_equal(0, ips_computation_order_make(&g, &lane, &order, NULL));
    assert_true(order.slot_count <= 2);
    ips_computation_order_release(&order);
    g.xpred[1] = 1500; /* a cycle */
    assert_int_equal(IPS_E_STALLED,
                     ips_computation_order_make(&g, &lane, &order, NULL));
    ips_graph_release(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slack__golden),
        cmocka_unit_test(test_slack__by_feature),
        cmocka_unit_test(test_slack__portions),
        cmocka_unit_test(test_slack__properties),
        cmocka_unit_test(test_slack__few_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
