/* Contraction and merge: the same answer bit for bit as from the whole graph,
 * whatever lies on which machine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/distributed/joins.h"
#include "analysis/graph/contract.h"
#include "tests/support/random_graph.h"
#include "tests/support/shrink.h"

#define SEEDS 600

static const struct ips_scenario lanes[] = {
    {.message_time = {0, 0, 1, 1},
     .external = IPS_EXTERNAL_REPLY,
     .order_dependent_off = false},
    {.message_time = {7, 1ULL << 31, 1, 1},
     .external = IPS_EXTERNAL_REPLY,
     .order_dependent_off = false},
    {.message_time = {7, 1ULL << 31, 1, 2},
     .external = IPS_EXTERNAL_ALL,
     .order_dependent_off = false},
    {.message_time = {7, 1ULL << 31, 1, 1},
     .external = IPS_EXTERNAL_REPLY,
     .order_dependent_off = true},
    {.message_time = {7, 1ULL << 31, 2, 1},
     .external = IPS_EXTERNAL_OFF,
     .order_dependent_off = false},
    {.message_time = {7, 1ULL << 31, 0, 1},
     .external = IPS_EXTERNAL_OFF,
     .order_dependent_off = false},
};
enum { LANES = sizeof(lanes) / sizeof(*lanes) };

static const char *same_path(const struct ips_path *a, const struct ips_path *b)
{
    const char *wrong = NULL;
    RG_HOLD(a->count == b->count);
    for (uint64_t k = 0; k < a->count && !wrong; k++) {
        RG_HOLD(a->seg[k].kind == b->seg[k].kind);
        RG_HOLD(a->seg[k].xkind == b->seg[k].xkind);
        RG_HOLD(a->seg[k].chain == b->seg[k].chain);
        RG_HOLD(a->seg[k].from == b->seg[k].from);
        RG_HOLD(a->seg[k].to == b->seg[k].to);
        RG_HOLD(a->seg[k].ns == b->seg[k].ns);
    }
    return wrong;
}

static const char *same_answers(const struct rg *r,
                                const struct ips_scenario *lane, uint64_t *kept)
{
    const char *wrong = NULL;
    const struct ips_graph *g = &r->whole;
    struct ips_est e;
    struct ips_path p;
    struct rg_answer a;
    struct ips_err err;
    uint32_t stop;
    assert_int_equal(0, ips_longest_path_compute_ests(g, lane, NULL, &e, NULL));
    assert_int_equal(
        0, ips_path_walk_back_and_store(g, lane, &e, e.end, &p, &stop, NULL));
    if (rg_contract(r, lane, &a, &err) < 0)
        fail_msg("%s", err.msg);
    RG_HOLD(a.t_max == e.t_max);
    RG_HOLD(a.end == e.end);
    RG_HOLD(a.total == e.total);
    RG_HOLD(a.unmatched == r->unmatched);
    RG_HOLD(memcmp(a.est, e.est, g->node_count * sizeof(*e.est)) == 0);
    RG_HOLD(memcmp(a.crossed, e.crossed, g->node_count) == 0);
    RG_HOLD(same_path(&a.path, &p) == NULL);
    *kept += a.kept;
    uint64_t most, all = 0;
    for (uint32_t m = 0; m < r->machines; m++) {
        assert_int_equal(
            0, ips_joins_compute_node_bound(&r->part[m], &most, NULL));
        all += most;
    }
    RG_HOLD(a.kept <= all && all <= g->node_count);
    rg_answer_release(&a);
    ips_path_release(&p);
    ips_est_release(&e);
    return wrong;
}

static uint64_t kept_of_all, nodes_of_all;

static const char *equals_whole(struct rg *r, uint64_t seed)
{
    const char *wrong = NULL;
    (void)seed;
    for (int k = 0; k < LANES && !wrong; k++)
        wrong = same_answers(r, &lanes[k], &kept_of_all);
    nodes_of_all += LANES * (uint64_t)r->whole.node_count;
    return wrong;
}

/* EVIDENCE-OF: ALGORITHMS-7.3: `contract` gives every value, winner, END, T
 * and segment that the kernel gives on the whole, over partitions and lanes.
 * Would catch a lost boundary node, a tie decided elsewhere, a folded value
 * that a path runs through, an absent arc that is kept. */
static void test_contract__equals_whole(void **state)
{
    (void)state;
    const char *wrong = rg_hold(equals_whole, SEEDS);
    if (wrong)
        fail_msg("%s", wrong);
    assert_true(kept_of_all < nodes_of_all); /* it does reduce something */
}

/* Machines without processes, or with nothing that anybody awaits. */
static void test_contract__lone_machines(void **state)
{
    (void)state;
    for (uint32_t chains = 1; chains <= 3; chains++) {
        for (uint64_t seed = 1; seed <= 50; seed++) {
            struct rg_options opt = {.seed = seed,
                                     .machines = RG_MACHINES,
                                     .chains = chains,
                                     .steps = (uint32_t)seed,
                                     .weight_max = 2,
                                     .external = true};
            struct rg r;
            uint64_t kept = 0;
            rg_make(&opt, &r);
            assert_null(same_answers(&r, &lanes[0], &kept));
            rg_release(&r);
        }
    }
}

/* A machine that awaits nobody has no joins: its outs and its best END. */
static void test_contract__folds(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        struct rg_options opt = rg_options_of(seed);
        struct rg r;
        struct ips_joins j;
        opt.machines = 1;
        rg_make(&opt, &r);
        assert_int_equal(
            0, ips_joins_compute_and_encode(&r.part[0], &lanes[1], &j, NULL));
        assert_int_equal(j.count, 0);
        assert_int_equal(j.arcs.len, 0);
        ips_joins_release(&j);
        rg_release(&r);
    }
}

static void merge_full(const struct rg *r, struct ips_graph *g)
{
    struct ips_machine_graph parts[RG_MACHINES];
    uint32_t base[RG_MACHINES];
    uint64_t unmatched;
    for (uint32_t m = 0; m < r->machines; m++)
        parts[m] = (struct ips_machine_graph){&r->part[m], r->peer[m],
                                              r->end_count[m]};
    assert_int_equal(0, ips_graph_merge(parts, r->machines,
                                        &(struct ips_scenario){0}, g, base,
                                        &unmatched, NULL));
    assert_int_equal(unmatched, r->unmatched);
    for (uint32_t m = 0; m < r->machines; m++)
        assert_int_equal(base[m], r->base[m]);
}

/* Merging the full subgraphs gives the whole graph itself. */
static void test_contract__merge_is_whole(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct rg_options opt = rg_options_of(seed);
        struct rg r;
        struct ips_graph g;
        rg_make(&opt, &r);
        merge_full(&r, &g);
        assert_int_equal(0, ips_graph_check_invariants(&g, NULL));
        size_t n = r.whole.node_count;
        assert_int_equal(g.node_count, n);
        assert_int_equal(g.chain_count, r.whole.chain_count);
        assert_memory_equal(g.chains, r.whole.chains,
                            g.chain_count * sizeof(*g.chains));
        assert_memory_equal(g.kind, r.whole.kind, n);
        assert_memory_equal(g.w, r.whole.w, n * sizeof(*g.w));
        assert_memory_equal(g.xpred, r.whole.xpred, n * sizeof(*g.xpred));
        assert_memory_equal(g.xkind, r.whole.xkind, n);
        assert_memory_equal(g.xlen, r.whole.xlen, n * sizeof(*g.xlen));
        assert_memory_equal(g.t_ns, r.whole.t_ns, n * sizeof(*g.t_ns));
        assert_memory_equal(g.site, r.whole.site, n * sizeof(*g.site));
        ips_graph_release(&g);
        rg_release(&r);
    }
}

static void *longer(void *array, uint32_t count, size_t size)
{
    void *out = realloc(array, (count + 1u) * size);
    assert_non_null(out);
    return out;
}

/* A new pair of ends, one on machine a, one on b; their numbers. */
static void new_ends(struct rg *r, uint32_t a, uint32_t b, uint32_t *on_a,
                     uint32_t *on_b)
{
    *on_a = r->end_count[a];
    *on_b = r->end_count[b];
    r->peer[a] = longer(r->peer[a], *on_a, sizeof(*r->peer[a]));
    r->peer[b] = longer(r->peer[b], *on_b, sizeof(*r->peer[b]));
    r->peer[a][r->end_count[a]++] = (struct ips_peer_end){b, *on_b};
    r->peer[b][r->end_count[b]++] = (struct ips_peer_end){a, *on_a};
}

static void await(struct ips_graph *g, uint32_t node, uint32_t end)
{
    uint32_t at = g->in_count;
    g->in = longer(g->in, g->in_count++, sizeof(*g->in));
    for (; at > 0 && g->in[at - 1].node > node; at--)
        g->in[at] = g->in[at - 1];
    g->in[at] = (struct ips_remote_in){node, end, 1};
    g->xkind[node] = IPS_X_DATA;
}

/* Machine `mine` receives from somebody: lets that sender in turn await the
 * END of the receiver's chain. False where the graph does not offer it. */
static bool await_each_other(struct rg *r, uint32_t mine)
{
    struct ips_graph *p = &r->part[mine];
    if (p->in_count == 0)
        return false;
    struct ips_peer_end far = r->peer[mine][p->in[0].end];
    if (far.machine == UINT32_MAX)
        return false;
    struct ips_graph *q = &r->part[far.machine];
    uint32_t k = 0, c = 0, on_p, on_q;
    while (k < q->out_count && q->out[k].end != far.end)
        k++;
    if (k == q->out_count || q->xkind[q->out[k].node] != IPS_X_NONE)
        return false;
    while (p->chains[c].first + p->chains[c].count <= p->in[0].node)
        c++;
    new_ends(r, mine, far.machine, &on_p, &on_q);
    await(q, q->out[k].node, on_q);
    p->out = longer(p->out, p->out_count, sizeof(*p->out));
    p->out[p->out_count++] = (struct ips_remote_out){
        p->chains[c].first + p->chains[c].count - 1, on_p, 1, 1};
    return true;
}

/* Two machines that await each other, and a cycle within one: the reduced
 * graph stalls just where the whole does. */
static void test_contract__stalled(void **state)
{
    (void)state;
    uint32_t across = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct rg_options opt = rg_options_of(seed);
        struct rg r;
        struct rg_answer a;
        struct ips_graph g;
        struct ips_est e;
        opt.machines = RG_MACHINES;
        opt.chains = RG_MACHINES;
        rg_make(&opt, &r);
        struct ips_graph *p = &r.part[seed % RG_MACHINES];
        bool within = seed % 2 == 0;
        if (within) {
            uint32_t c = (uint32_t)(seed % p->chain_count);
            uint32_t first = p->chains[c].first;
            p->xpred[first] = first + p->chains[c].count - 1;
            p->xkind[first] = IPS_X_ROOM;
        } else if (!await_each_other(&r, seed % RG_MACHINES)) {
            rg_release(&r);
            continue;
        }
        assert_int_equal(0, ips_graph_check_invariants(p, NULL));
        merge_full(&r, &g);
        int whole =
            ips_longest_path_compute_ests(&g, &lanes[0], NULL, &e, NULL);
        int reduced = rg_contract(&r, &lanes[0], &a, NULL);
        assert_int_equal(whole, reduced);
        assert_true(whole == IPS_E_STALLED || (whole == 0 && !within));
        across += !within && whole == IPS_E_STALLED;
        if (whole == 0) { /* that receive was of another message */
            ips_est_release(&e);
            rg_answer_release(&a);
        }
        ips_graph_release(&g);
        rg_release(&r);
    }
    assert_true(across > SEEDS / 10);
}

/* Which out an in takes: exact SYN and EOF, the message that holds the byte,
 * nobody where a stream has a gap, ends elsewhere or nowhere. */
static void test_contract__positions(void **state)
{
    (void)state;
    struct ips_remote_out outs[] = {
        {0, 2, 9, 9},           {1, 3, IPS_POS_SYN, 0}, {2, 3, 10, 10},
        {3, 3, 30, 10},         {4, 3, 40, 10},         {5, 3, IPS_POS_EOF, 0},
        {6, 4, IPS_POS_EOF, 0},
    };
    struct ips_graph q, p, g;
    struct ips_chain qc = {.count = 7}, pc = {.count = 1};
    uint64_t zero[7] = {0};
    uint32_t none[7];
    uint8_t q_kind[7] = {IPS_NODE_SEND}, p_kind[1] = {IPS_NODE_RECV};
    uint8_t x_none[7] = {0}, x_data[1] = {IPS_X_DATA};
    struct ips_remote_in in = {0, 0, 0};
    struct ips_peer_end peers[] = {{1, 3}, {1, 4}, {UINT32_MAX, 0}, {7, 3}};
    memset(none, 0xff, sizeof(none));
    q = (struct ips_graph){.node_count = 7,
                           .chain_count = 1,
                           .chains = &qc,
                           .kind = q_kind,
                           .w = zero,
                           .xpred = none,
                           .xkind = x_none,
                           .xlen = zero,
                           .out_count = 7,
                           .out = outs};
    p = (struct ips_graph){.node_count = 1,
                           .chain_count = 1,
                           .chains = &pc,
                           .kind = p_kind,
                           .w = zero,
                           .xpred = none,
                           .xkind = x_data,
                           .xlen = zero,
                           .in_count = 1,
                           .in = &in};
    struct ips_machine_graph parts[] = {{&p, peers, 4}, {&q, NULL, 0}};
    const struct {
        uint32_t end;
        uint64_t pos;
        uint32_t node;
    } cases[] = {
        {0, IPS_POS_SYN, 1},
        {0, 1, 2},
        {0, 10, 2},
        {0, 11, IPS_NO_NODE},
        {0, 20, IPS_NO_NODE},
        {0, 21, 3},
        {0, 30, 3},
        {0, 31, 4},
        {0, 41, IPS_NO_NODE},
        {0, IPS_POS_EOF, 5},
        {1, IPS_POS_SYN, IPS_NO_NODE},
        {1, IPS_POS_EOF, 6},
        {1, 1, IPS_NO_NODE},
        {2, 1, IPS_NO_NODE},
        {3, 1, IPS_NO_NODE},
        {4, 1, IPS_NO_NODE},
    };
    for (size_t k = 0; k < sizeof(cases) / sizeof(*cases); k++) {
        uint32_t base[2];
        uint64_t unmatched;
        in.end = cases[k].end;
        in.pos = cases[k].pos;
        assert_int_equal(0, ips_graph_merge(parts, 2, &(struct ips_scenario){0},
                                            &g, base, &unmatched, NULL));
        bool found = cases[k].node != IPS_NO_NODE;
        assert_int_equal(unmatched, !found);
        assert_int_equal(g.xpred[0], found ? cases[k].node + 1 : IPS_NO_NODE);
        assert_int_equal(g.xkind[0], found ? IPS_X_DATA : IPS_X_NONE);
        if (found)
            assert_int_equal(g.xlen[0], outs[cases[k].node].len);
        ips_graph_release(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_contract__equals_whole),
        cmocka_unit_test(test_contract__lone_machines),
        cmocka_unit_test(test_contract__folds),
        cmocka_unit_test(test_contract__merge_is_whole),
        cmocka_unit_test(test_contract__stalled),
        cmocka_unit_test(test_contract__positions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
