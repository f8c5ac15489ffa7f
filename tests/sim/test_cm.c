/*
 * cm-async and cm-sync against the kernel: golden graphs, random graphs under
 * any partition, delay and batch size, and networks that lie. A failure is
 * shrunk and printed as the options that make it.
 *
 * IPS_CM_SEEDS=110000 test_cm: the long form.
 * EVIDENCE-OF: IPS-11, ALGORITHMS-7.3
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/graph/view.h"
#include "tests/support/cut_graph.h"
#include "tests/support/golden.h"
#include "tests/support/random_graph.h"
#include "tests/support/run_cm.h"
#include "tests/support/shrink.h"

static const struct ips_scenario cpu = {.message_time = {0, 0, 1, 1}};

static uint64_t setting(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : otherwise;
}

/* ---- golden graphs ------------------------------------------------------- */

static void check_golden(const struct golden *k, uint32_t machines, bool async)
{
    struct ips_graph g;
    struct cut cut;
    struct cm_answer a;
    struct ips_err err = {0};
    uint32_t of[16];
    const struct ips_scenario lane = golden_lane(k);
    golden_make(k, &g);
    for (uint32_t c = 0; c < g.chain_count; c++)
        of[c] = c % machines;
    cut_make(&g, of, machines, &cut);
    const struct cm_options o = {.seed = machines, .async = async};
    if (cm_cluster_run(cut.part, machines, &lane, &o, &a, &err) < 0)
        fail_msg("%s on %u machines: %s", k->name, machines, err.msg);
    assert_int_equal(a.t_max, k->t_max);
    assert_int_equal(a.total, k->total);
    assert_int_equal(a.links, cut.crossing);
    const char *what = cm_answer_differs(&a, &cut.merged, &lane, 0);
    if (what)
        fail_msg("%s on %u machines: %s differs", k->name, machines, what);
    cm_answer_release(&a);
    cut_release(&cut);
    ips_graph_release(&g);
}

/* G1-G7 cut over one, two and three machines, a machine a chain included.
 * Catches a wrong tie, a lost weight of a message, a path that stops at a
 * machine's border. */
static void test_cm__golden_graphs(void **state)
{
    (void)state;
    for (int i = 0; i < GOLDEN_COUNT; i++) {
        for (uint32_t machines = 1; machines <= 3; machines++) {
            check_golden(&golden[i], machines, true);
            check_golden(&golden[i], machines, false);
        }
    }
}

/* ---- random graphs ------------------------------------------------------- */

static struct ips_scenario lane_of(uint64_t seed)
{
    uint64_t s = seed * 13 + 5;
    return (struct ips_scenario){
        .message_time = {.base_ns = rg_below(&s, 3) * rg_below(&s, 20),
                         .per_byte_q32 = (uint64_t)rg_below(&s, 2) << 31,
                         .scale_num = 1 + rg_below(&s, 2),
                         .scale_den = 1},
        .external = (enum ips_external)rg_below(&s, 3),
        .order_dependent_off = rg_below(&s, 4) == 0};
}

static const char *run_parts(const struct ips_machine_graph *parts, uint32_t n,
                             const struct ips_graph *merged, uint64_t unmatched,
                             uint64_t seed, struct ips_err *err)
{
    const struct ips_scenario lane = lane_of(seed);
    uint64_t s = seed + 99;
    const char *what = NULL;
    for (int async = 0; async < 2 && !what; async++) {
        struct cm_answer a;
        const struct cm_options o = {.seed = seed,
                                     .async = async,
                                     .lockstep = rg_below(&s, 8) == 0,
                                     .batch_values = rg_below(&s, 6)};
        if (cm_cluster_run(parts, n, &lane, &o, &a, err) < 0)
            return async ? "cm-async gives no answer"
                         : "cm-sync gives no answer";
        what = cm_answer_differs(&a, merged, &lane, unmatched);
        if (!what && !async && a.counts.values != a.links)
            what = "one value for each message";
        if (!what && !async && a.counts.computed != merged->node_count)
            what = "each node computed once";
        cm_answer_release(&a);
    }
    return what;
}

/* What is wrong, with what was said about it. */
static const char *with_reason(const char *what, const struct ips_err *err)
{
    static char text[300];
    if (!what)
        return NULL;
    snprintf(text, sizeof(text), "%s (%.200s)", what, err->msg);
    return text;
}

/* As the slaves have them: streams, several receives of one send, ends of
 * streams, positions that nobody wrote. */
static const char *on_their_machines(struct rg *r, uint64_t seed)
{
    struct ips_machine_graph parts[RG_MACHINES];
    struct ips_graph merged;
    uint32_t base[RG_MACHINES];
    uint64_t unmatched;
    struct ips_err err = {0};
    for (uint32_t m = 0; m < r->machines; m++)
        parts[m] = (struct ips_machine_graph){&r->part[m], r->peer[m],
                                              r->end_count[m]};
    if (ips_graph_merge(parts, r->machines, &cpu, &merged, base, &unmatched,
                        &err) < 0)
        abort();
    const char *what =
        run_parts(parts, r->machines, &merged, unmatched, seed, &err);
    ips_graph_release(&merged);
    return with_reason(what, &err);
}

/* The same program cut anew: any number of machines, chains anywhere. */
static const char *under_any_partition(struct rg *r, uint64_t seed)
{
    struct cut cut;
    struct ips_err err = {0};
    uint64_t s = seed ^ 0x5555;
    uint32_t n = 1 + rg_below(&s, r->whole.chain_count + 1);
    uint32_t *of = calloc(r->whole.chain_count, sizeof(*of));
    assert_non_null(of);
    for (uint32_t c = 0; c < r->whole.chain_count; c++)
        of[c] = rg_below(&s, n);
    cut_make(&r->whole, of, n, &cut);
    const char *what = run_parts(cut.part, n, &cut.merged, 0, seed, &err);
    free(of);
    cut_release(&cut);
    return with_reason(what, &err);
}

/* Clocks that no alignment made: whatever the maps say, all engines must say
 * the same of it. */
static struct ips_clock_map any_clock(uint64_t *s, uint64_t off, bool true_one)
{
    struct ips_clock_map map = {.from = off};
    if (true_one)
        return map;
    map.drift_q40 = (int64_t)rg_below(s, 1u << 30) - (1 << 29);
    map.shift_ns = (int64_t)rg_below(s, 41) - 20;
    return map;
}

/* One weighting, on clocks of the machines' own; half of the times up to some
 * END. `aligned`: the maps are true, so the whole graph's path is as long. */
static const char *weighed(struct rg *r, struct ips_scenario *lane,
                           const uint64_t *off, bool aligned, uint64_t *s,
                           struct ips_err *err)
{
    struct ips_machine_graph parts[RG_MACHINES], seen[RG_MACHINES];
    struct ips_view view[RG_MACHINES];
    struct ips_scenario own[RG_MACHINES];
    struct ips_graph merged;
    uint32_t base[RG_MACHINES], at = rg_below(s, r->machines);
    uint64_t unmatched;
    const char *what = NULL;
    for (uint32_t m = 0; m < r->machines; m++) {
        own[m] = *lane;
        own[m].clock = any_clock(s, off[m], aligned);
        if (ips_graph_make_view(&r->part[m], &own[m], &view[m], err) < 0)
            abort();
        parts[m] = (struct ips_machine_graph){&r->part[m], r->peer[m],
                                              r->end_count[m]};
        seen[m] =
            (struct ips_machine_graph){&view[m].g, r->peer[m], r->end_count[m]};
    }
    if (ips_graph_merge(seen, r->machines, lane, &merged, base, &unmatched,
                        err) < 0)
        abort();
    if (r->part[at].chain_count)
        rg_goal(&r->part[at], &own[at], s);
    lane->has_goal = own[at].has_goal;
    lane->goal = base[at] + own[at].goal;
    for (uint32_t m = 0; m < r->machines; m++)
        if (m != at) {
            own[m].has_goal = lane->has_goal;
            own[m].goal = IPS_NO_NODE;
        }
    for (int async = 0; async < 2 && !what; async++) {
        struct cm_answer a;
        const struct cm_options o = {.seed = rg_random(s),
                                     .async = async,
                                     .batch_values = rg_below(s, 6),
                                     .lanes = own};
        if (cm_cluster_run(parts, r->machines, lane, &o, &a, err) < 0) {
            what =
                async ? "cm-async gives no answer" : "cm-sync gives no answer";
            break;
        }
        what = cm_answer_differs(&a, &merged, lane, unmatched);
        cm_answer_release(&a);
    }
    struct rg as_seen = *r;
    struct rg_answer contracted;
    struct ips_est e;
    for (uint32_t m = 0; m < r->machines; m++)
        as_seen.part[m] = view[m].g;
    if (!what && !lane->has_goal) {
        if (rg_contract(&as_seen, lane, &contracted, err) < 0 ||
            ips_longest_path_compute_ests(&merged, lane, NULL, &e, err) < 0)
            abort();
        if (contracted.t_max != e.t_max || contracted.end != e.end ||
            memcmp(contracted.est, e.est, merged.node_count * sizeof(*e.est)) !=
                0)
            what = "contract";
        ips_est_release(&e);
        rg_answer_release(&contracted);
    }
    for (uint32_t m = 0; m < r->machines; m++)
        ips_view_release(&view[m]);
    ips_graph_release(&merged);
    return what;
}

/* Each machine's clock is off by its own; every weighting, with the clocks
 * aligned truly and with maps that are far from it. */
static const char *in_every_weighting(struct rg *r, uint64_t seed)
{
    struct ips_err err = {0};
    uint64_t s = seed * 31 + 7, off[RG_MACHINES];
    const char *what = NULL;
    rg_give_times(&r->whole, seed);
    for (uint32_t m = 0; m < r->machines; m++) {
        off[m] = 1 + rg_below(&s, 1u << 31);
        rg_split_times(r, m, off[m]);
    }
    for (int w = IPS_WEIGH_CPU; w <= IPS_WEIGH_LAST && !what; w++)
        for (int aligned = 0; aligned < 2 && !what; aligned++) {
            struct ips_scenario lane = lane_of(seed);
            lane.weighting = (enum ips_weighting)w;
            what = weighed(r, &lane, off, aligned, &s, &err);
        }
    return with_reason(what, &err);
}

static void hold(rg_property *property)
{
    const char *what = rg_hold(property, setting("IPS_CM_SEEDS", 1000));
    if (what)
        fail_msg("differs: %s", what);
}

/* Catches a value sent too early or not at all, an END of the wrong machine
 * among equals, a receive given to the wrong send. */
static void test_cm__random_graphs_on_their_machines(void **state)
{
    (void)state;
    hold(on_their_machines);
}

/* Catches what depends on how the program lies on the machines. */
static void test_cm__random_graphs_under_any_partition(void **state)
{
    (void)state;
    hold(under_any_partition);
}

/* Would catch: a stamp taken of the wrong send, or not mapped by its machine's
 * clock; an arc that weighs otherwise where it was cut; the beginning of a
 * chain that nobody began, lost on the way back; an END of a machine that does
 * not have the goal. */
static void test_cm__random_graphs_in_every_weighting(void **state)
{
    (void)state;
    hold(in_every_weighting);
}

/* ---- networks that lie --------------------------------------------------- */

/* Whatever is done to one message: the right answer (where it was an
 * acknowledgement that the count can bear) or an error that says something,
 * never a wrong answer, a crash or a hang. Catches a batch believed
 * unchecked, an engine that ends early, memory left behind (under ASan). */
static void check_fault(uint64_t seed, enum cm_fault fault, bool async,
                        uint64_t *met)
{
    struct rg_options o = rg_options_of(seed);
    struct rg r;
    struct ips_machine_graph parts[RG_MACHINES];
    struct ips_graph merged;
    uint32_t base[RG_MACHINES];
    uint64_t unmatched, s = seed * 7 + fault;
    struct cm_answer a;
    struct ips_err err = {0};
    const struct ips_scenario lane = lane_of(seed);
    o.machines = 2 + rg_below(&s, RG_MACHINES - 1);
    rg_make(&o, &r);
    for (uint32_t m = 0; m < r.machines; m++)
        parts[m] =
            (struct ips_machine_graph){&r.part[m], r.peer[m], r.end_count[m]};
    assert_int_equal(ips_graph_merge(parts, r.machines, &cpu, &merged, base,
                                     &unmatched, NULL),
                     0);
    const struct cm_options how = {.seed = seed,
                                   .async = async,
                                   .batch_values = rg_below(&s, 4),
                                   .fault = fault,
                                   .fault_at = rg_below(&s, 40)};
    int rc = cm_cluster_run(parts, r.machines, &lane, &how, &a, &err);
    *met += a.fault_met;
    if (rc < 0) {
        assert_true(a.fault_met);
        assert_true(rc == err.code && *err.msg);
    } else {
        const char *what = cm_answer_differs(&a, &merged, &lane, unmatched);
        if (what)
            fail_msg("seed %llu, fault %d: %s differs and nobody says so",
                     (unsigned long long)seed, (int)fault, what);
        /* What must never pass unnoticed. */
        if (a.fault_met && (fault == CM_FAULT_DROP || fault == CM_FAULT_CUT ||
                            fault == CM_FAULT_LOSE))
            fail_msg("seed %llu: fault %d passed", (unsigned long long)seed,
                     (int)fault);
        cm_answer_release(&a);
    }
    ips_graph_release(&merged);
    rg_release(&r);
}

static void test_cm__faults_are_errors(void **state)
{
    (void)state;
    uint64_t seeds = setting("IPS_CM_SEEDS", 1000) / 4;
    for (int fault = CM_FAULT_CORRUPT; fault < CM_FAULTS; fault++) {
        uint64_t met = 0;
        for (uint64_t seed = 1; seed <= seeds; seed++) {
            check_fault(seed, (enum cm_fault)fault, false, &met);
            check_fault(seed, (enum cm_fault)fault, true, &met);
        }
        assert_true(met > seeds / 4);
    }
}

/* The machine that is lost: the others alone give what the merged rest gives.
 */
static void test_cm__the_rest_without_a_lost_machine(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        struct rg_options o = rg_options_of(seed);
        struct rg r;
        struct ips_machine_graph parts[RG_MACHINES];
        struct ips_graph merged;
        uint32_t base[RG_MACHINES], n = 0;
        uint64_t unmatched;
        struct ips_err err = {0};
        o.machines = RG_MACHINES;
        rg_make(&o, &r);
        uint32_t lost = (uint32_t)(seed % RG_MACHINES);
        for (uint32_t m = 0; m < r.machines; m++) {
            for (uint32_t e = 0; e < r.end_count[m]; e++) {
                struct ips_peer_end *p = &r.peer[m][e];
                if (p->machine == lost)
                    p->machine = UINT32_MAX;
                else if (p->machine > lost && p->machine != UINT32_MAX)
                    p->machine--;
            }
            if (m != lost)
                parts[n++] = (struct ips_machine_graph){&r.part[m], r.peer[m],
                                                        r.end_count[m]};
        }
        assert_int_equal(
            ips_graph_merge(parts, n, &cpu, &merged, base, &unmatched, NULL),
            0);
        const char *what = run_parts(parts, n, &merged, unmatched, seed, &err);
        if (what)
            fail_msg("seed %llu: %s differs: %s", (unsigned long long)seed,
                     what, err.msg);
        ips_graph_release(&merged);
        rg_release(&r);
    }
}

/* ---- cycles -------------------------------------------------------------- */

/* Two machines that each receive before they send: what no program does. */
static void test_cm__a_cycle_is_said(void **state)
{
    (void)state;
    for (int heavy = 0; heavy < 2; heavy++) {
        struct ips_graph whole;
        struct cut cut;
        const uint32_t of[] = {0, 1};
        assert_int_equal(ips_graph_alloc(&whole, 8, 2, NULL), 0);
        for (uint32_t c = 0; c < 2; c++) {
            whole.chains[c] = (struct ips_chain){
                .first = 4 * c, .count = 4, .pid = c + 7, .tid = c + 7};
            whole.kind[4 * c + 1] = IPS_NODE_RECV;
            whole.kind[4 * c + 2] = IPS_NODE_SEND;
            whole.kind[4 * c + 3] = IPS_NODE_END;
            whole.w[4 * c + 2] = (uint64_t)heavy;
            whole.xkind[4 * c + 1] = IPS_X_DATA;
            whole.xpred[4 * c + 1] = 4 * (1 - c) + 2;
            whole.xlen[4 * c + 1] = 3;
        }
        cut_make(&whole, of, 2, &cut);
        for (int async = 0; async < 2; async++) {
            struct cm_answer a;
            struct ips_err err = {0};
            const struct ips_scenario lane = {.message_time = {0, 0, 1, 1}};
            const struct cm_options o = {.seed = 1, .async = async};
            assert_int_equal(cm_cluster_run(cut.part, 2, &lane, &o, &a, &err),
                             IPS_E_STALLED);
            assert_non_null(strstr(err.msg, "a cycle"));
            assert_non_null(strstr(err.msg, "node 1"));
        }
        cut_release(&cut);
        ips_graph_release(&whole);
    }
}

/* ---- sizes --------------------------------------------------------------- */

/* A ring of 256 machines: all of it works at that size, and cm-sync sends one
 * value a message in as many rounds as the ring is long. */
static void test_cm__ring_of_256(void **state)
{
    (void)state;
    enum { N = 256, TURNS = 3 };
    struct ips_graph whole;
    struct cut cut;
    struct cm_answer a;
    struct ips_err err = {0};
    uint32_t of[N], per = 2 * TURNS + 2;
    const struct ips_scenario lane = {.message_time = {5, 0, 1, 1}};
    assert_int_equal(ips_graph_alloc(&whole, N * per, N, NULL), 0);
    for (uint32_t c = 0; c < N; c++) {
        of[c] = c;
        whole.chains[c] = (struct ips_chain){
            .first = c * per, .count = per, .process = c, .pid = c + 1};
        for (uint32_t t = 0; t < TURNS; t++) {
            uint32_t at = c * per + 1 + 2 * t;
            /* Machine 0 sends first and receives then; the others wait. */
            uint32_t recv = c == 0 ? at + 1 : at, before = (c + N - 1) % N;
            uint32_t send = before * per + 1 + 2 * t + (before != 0);
            whole.kind[at] = whole.kind[at + 1] = IPS_NODE_SEND;
            whole.kind[recv] = IPS_NODE_RECV;
            whole.w[at] = 1;
            whole.w[at + 1] = 2;
            whole.xkind[recv] = IPS_X_DATA;
            whole.xpred[recv] = send;
            whole.xlen[recv] = 8;
        }
        whole.kind[c * per + per - 1] = IPS_NODE_END;
    }
    cut_make(&whole, of, N, &cut);
    for (int async = 0; async < 2; async++) {
        const struct cm_options o = {
            .seed = 1, .async = async, .lockstep = true};
        if (cm_cluster_run(cut.part, N, &lane, &o, &a, &err) < 0)
            fail_msg("%s", err.msg);
        assert_null(cm_answer_differs(&a, &cut.merged, &lane, 0));
        assert_int_equal(a.hops, N * TURNS);
        if (!async)
            assert_int_equal(a.counts.values, N * TURNS);
        cm_answer_release(&a);
    }
    cut_release(&cut);
    ips_graph_release(&whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cm__golden_graphs),
        cmocka_unit_test(test_cm__random_graphs_on_their_machines),
        cmocka_unit_test(test_cm__random_graphs_under_any_partition),
        cmocka_unit_test(test_cm__random_graphs_in_every_weighting),
        cmocka_unit_test(test_cm__faults_are_errors),
        cmocka_unit_test(test_cm__the_rest_without_a_lost_machine),
        cmocka_unit_test(test_cm__a_cycle_is_said),
        cmocka_unit_test(test_cm__ring_of_256),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
