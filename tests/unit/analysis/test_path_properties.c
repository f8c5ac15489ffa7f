/* What must hold of the longest path of any graph, over random ones; what does
 * not is told of the smallest graph found. IPS_SEEDS=100000
 * test_path_properties: the long form, a minute. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/graph/path.h"
#include "tests/support/longest.h"
#include "tests/support/shrink.h"

#define SEEDS 300

/* The graph backwards: every arc turned, so EST there is TAIL here. A node
 * that serves several receives becomes as many AUX nodes of weight 0. last[v]
 * is the node that has v's TAIL. Cross weights are made EXTERNAL. */
static void turn_round(const struct ips_graph *g,
                       const struct ips_scenario *lane, struct ips_graph *r,
                       uint32_t *last)
{
    uint32_t *out_count = calloc(g->node_count, sizeof(*out_count));
    uint32_t nodes = 0, at = 0;
    bool present;
    assert_non_null(out_count);
    for (uint32_t i = 0; i < g->node_count; i++) {
        ips_cross_arc_weight(g, i, lane, &present);
        if (present && g->xpred[i] != IPS_NO_NODE)
            out_count[g->xpred[i]]++;
    }
    for (uint32_t i = 0; i < g->node_count; i++)
        nodes += out_count[i] ? out_count[i] : 1;
    assert_int_equal(0, ips_graph_alloc(r, nodes, g->chain_count, NULL));
    for (uint32_t c = 0; c < g->chain_count; c++) {
        r->chains[c].first = at;
        uint32_t n = g->chains[c].count, first = g->chains[c].first;
        for (uint32_t v = first + n; v-- > first;) {
            r->w[at] = v + 1 < first + n ? g->w[v + 1] : 0;
            at += out_count[v] ? out_count[v] : 1;
            last[v] = at - 1;
        }
        memset(r->kind + r->chains[c].first, IPS_NODE_AUX,
               at - r->chains[c].first);
        r->kind[r->chains[c].first] = IPS_NODE_START;
        r->kind[at - 1] = IPS_NODE_END;
        r->chains[c].count = at - r->chains[c].first;
    }
    for (uint32_t i = 0; i < g->node_count; i++) {
        uint64_t xw = ips_cross_arc_weight(g, i, lane, &present);
        if (!present || g->xpred[i] == IPS_NO_NODE)
            continue;
        uint32_t to = last[g->xpred[i]] - --out_count[g->xpred[i]];
        r->xpred[to] = last[i];
        r->xkind[to] = IPS_X_EXTERNAL;
        r->xlen[to] = xw;
    }
    free(out_count);
}

static struct ips_scenario random_lane(uint64_t *s)
{
    return (struct ips_scenario){
        .message_time = {rg_below(s, 3) * rg_below(s, 20),
                         (uint64_t)rg_below(s, 2) << 31, 1, 1},
        .external = (enum ips_external)rg_below(s, 3),
        .order_dependent_off = rg_below(s, 2)};
}

/* EVIDENCE-OF: ALGORITHMS-7.6: the path is contiguous and sums to t_max;
 * EST + TAIL <= t_max, equal on the path; backwards the same t_max; and 7.7:
 * an arc with slack can go. */
static const char *tails(struct rg *r, uint64_t seed)
{
    const char *wrong = NULL;
    struct ips_graph back;
    struct ips_est e, tail;
    struct ips_path p;
    uint32_t stop;
    uint64_t s = seed, sum = 0;
    struct ips_scenario lane = random_lane(&s);
    const struct ips_graph *g = &r->whole;
    uint32_t *last = calloc(g->node_count, sizeof(*last));
    turn_round(g, &lane, &back, last);
    assert_int_equal(0, ips_graph_check_invariants(&back, NULL));
    assert_int_equal(0,
                     ips_longest_path_compute_ests(g, &lane, NULL, &e, NULL));
    assert_int_equal(
        0, ips_longest_path_compute_ests(&back, &plain, NULL, &tail, NULL));
    RG_HOLD(e.t_max == tail.t_max);
    for (uint32_t i = 0; i < g->node_count; i++)
        RG_HOLD(e.est[i] + tail.est[last[i]] <= e.t_max);
    assert_int_equal(
        0, ips_path_walk_back_and_store(g, &lane, &e, e.end, &p, &stop, NULL));
    for (uint64_t k = 0; k < p.count; k++) {
        sum += p.seg[k].ns;
        if (k)
            RG_HOLD(p.seg[k].from == p.seg[k - 1].to);
        RG_HOLD(e.est[p.seg[k].to] + tail.est[last[p.seg[k].to]] == e.t_max);
    }
    RG_HOLD(sum == e.t_max);
    RG_HOLD(e.est[p.count ? p.seg[0].from : e.end] == 0);
    for (uint32_t i = 0; i < g->node_count; i++) {
        bool present;
        uint64_t xw = ips_cross_arc_weight(g, i, &lane, &present);
        uint32_t x = g->xpred[i];
        if (present && x != IPS_NO_NODE &&
            e.est[x] + xw + tail.est[last[i]] < e.t_max)
            r->whole.xpred[i] = IPS_NO_NODE;
    }
    RG_HOLD(t_max_of(g, &lane) == e.t_max);
    free(last);
    ips_path_release(&p);
    ips_est_release(&e);
    ips_est_release(&tail);
    ips_graph_release(&back);
    return wrong;
}

static void test_path_properties__tails(void **state)
{
    (void)state;
    const char *wrong = rg_hold(tails, SEEDS);
    if (wrong)
        fail_msg("%s", wrong);
}

/* EVIDENCE-OF: ALGORITHMS-7.1, 7.2, 7.3: bounds of t_max; P <= P_max <= N; and
 * the deque engine agrees in every value, winner and END. */
static const char *bounds(struct rg *r, uint64_t seed)
{
    const char *wrong = NULL;
    struct ips_est e, pdm;
    uint64_t s = seed ^ 99, cross = 0, most = 0;
    struct ips_scenario lane = random_lane(&s);
    const struct ips_graph *g = &r->whole;
    assert_int_equal(0,
                     ips_longest_path_compute_ests(g, &lane, NULL, &e, NULL));
    assert_int_equal(
        0, ips_longest_path_by_label_correcting(g, &lane, &pdm, NULL));
    RG_HOLD(memcmp(e.est, pdm.est, g->node_count * sizeof(*e.est)) == 0);
    RG_HOLD(memcmp(e.crossed, pdm.crossed, g->node_count) == 0);
    RG_HOLD(e.t_max == pdm.t_max);
    RG_HOLD(e.end == pdm.end);
    RG_HOLD(e.total == pdm.total);
    for (uint32_t c = 0; c < g->chain_count; c++) {
        uint64_t t_proc = 0;
        for (uint32_t i = 0; i < g->chains[c].count; i++)
            t_proc += g->w[g->chains[c].first + i];
        most = ips_max_u64(most, t_proc);
    }
    for (uint32_t i = 0; i < g->node_count; i++) {
        bool present;
        uint64_t xw = ips_cross_arc_weight(g, i, &lane, &present);
        cross += present ? xw : 0;
    }
    RG_HOLD(most <= e.t_max && e.t_max <= e.total + cross);
    lane.external = IPS_EXTERNAL_OFF;
    uint64_t with = t_max_of(g, &lane);
    lane.message_time.scale_num = 0;
    uint64_t without = t_max_of(g, &lane);
    RG_HOLD(without <= with); /* P <= P_max */
    RG_HOLD(e.total <= without * g->chain_count);
    ips_est_release(&e);
    ips_est_release(&pdm);
    return wrong;
}

static void test_path_properties__bounds_and_engines(void **state)
{
    (void)state;
    const char *wrong = rg_hold(bounds, SEEDS);
    if (wrong)
        fail_msg("%s", wrong);
}

/* A copy with an AUX node of weight 0 put in before node `at`. */
static void insert_node(const struct ips_graph *g, uint32_t at,
                        struct ips_graph *out)
{
    assert_int_equal(
        0, ips_graph_alloc(out, g->node_count + 1, g->chain_count, NULL));
    for (uint32_t c = 0; c < g->chain_count; c++) {
        out->chains[c] = g->chains[c];
        if (g->chains[c].first >= at)
            out->chains[c].first++;
        else if (at < g->chains[c].first + g->chains[c].count)
            out->chains[c].count++;
    }
    for (uint32_t i = 0; i < g->node_count; i++) {
        uint32_t to = i + (i >= at), x = g->xpred[i];
        out->kind[to] = g->kind[i];
        out->w[to] = g->w[i];
        out->xkind[to] = g->xkind[i];
        out->xlen[to] = g->xlen[i];
        out->xpred[to] = x == IPS_NO_NODE ? x : x + (x >= at);
    }
    out->kind[at] = IPS_NODE_AUX;
}

/* EVIDENCE-OF: ALGORITHMS-7.5, 7.7: monotone, 1-Lipschitz and scaling in the
 * weights; a node of weight 0 changes nothing. */
static const char *monotone(struct rg *r, uint64_t seed)
{
    const char *wrong = NULL;
    struct ips_graph more;
    uint64_t s = seed ^ 7;
    struct ips_scenario lane = {.message_time = {rg_below(&s, 20), 0, 1, 1},
                                .external = IPS_EXTERNAL_ALL,
                                .order_dependent_off = false};
    struct ips_graph *g = &r->whole;
    uint64_t t = t_max_of(g, &lane);
    for (int k = 0; k < 10; k++) {
        uint32_t i = rg_below(&s, g->node_count);
        uint64_t d = rg_below(&s, 50), changed;
        if (g->kind[i] == IPS_NODE_START)
            continue;
        g->w[i] += d;
        changed = t_max_of(g, &lane);
        RG_HOLD(t <= changed && changed <= t + d);
        g->w[i] -= d;
        insert_node(g, i, &more);
        RG_HOLD(t_max_of(&more, &lane) == t);
        ips_graph_release(&more);
    }
    for (uint32_t i = 0; i < g->node_count; i++) {
        g->w[i] *= 3;
        g->xlen[i] *= 3; /* base alone weighs messages here */
    }
    lane.message_time.scale_num = 3;
    RG_HOLD(t_max_of(g, &lane) == 3 * t);
    return wrong;
}

static void test_path_properties__monotone(void **state)
{
    (void)state;
    const char *wrong = rg_hold(monotone, SEEDS);
    if (wrong)
        fail_msg("%s", wrong);
}

/* EVIDENCE-OF: ALGORITHMS-7.8: t_max(theta) is convex and non-increasing as a
 * set of arcs is taken out by eighths. */
static const char *convex(struct rg *r, uint64_t seed)
{
    const char *wrong = NULL;
    uint64_t s = seed ^ 5, t[9];
    struct ips_graph *g = &r->whole;
    uint8_t *chosen = calloc(g->node_count, 1);
    for (uint32_t i = 0; i < g->node_count; i++) {
        chosen[i] = rg_below(&s, 3) == 0;
        g->w[i] *= 8;
    }
    for (int k = 0; k <= 8; k++) {
        t[k] = t_max_of(g, &plain);
        for (uint32_t i = 0; i < g->node_count && k < 8; i++) {
            if (chosen[i])
                g->w[i] -= g->w[i] / (uint64_t)(8 - k);
        }
    }
    for (int k = 1; k <= 8; k++)
        RG_HOLD(t[k] <= t[k - 1]);
    for (int k = 1; k < 8; k++)
        RG_HOLD(t[k - 1] + t[k + 1] >= 2 * t[k]);
    free(chosen);
    return wrong;
}

static void test_path_properties__convex_in_theta(void **state)
{
    (void)state;
    const char *wrong = rg_hold(convex, SEEDS);
    if (wrong)
        fail_msg("%s", wrong);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_path_properties__tails),
        cmocka_unit_test(test_path_properties__bounds_and_engines),
        cmocka_unit_test(test_path_properties__monotone),
        cmocka_unit_test(test_path_properties__convex_in_theta),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
