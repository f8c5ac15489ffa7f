/*
 * The master's engines over whole clusters: random graphs cut over several
 * slaves that answer late and in any order, and every engine must give what
 * the kernel gives on the uncut graph: the same length, the same pieces, node
 * by node. Catches a wrong join of ends, wrong numbering, a lane that mixes
 * with another, values handed to the wrong slave, a lost first piece.
 * EVIDENCE-OF: IPS-6, IPS-11, DPM-5, DPM-8
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/cluster.h"
#include "tests/support/golden.h"
#include "tests/support/random_graph.h"

static const char *const machines[] = {"m1", "m2", "m3", "m4"};

static void ask_path(struct cluster *c, const char *engine,
                     const struct ips_scenario *lane, struct answer *out)
{
    Ips__Lane wire = IPS__LANE__INIT;
    Ips__PathAsk ask = IPS__PATH_ASK__INIT;
    Ips__Request request = IPS__REQUEST__INIT;
    wire.message_time_base_ns = lane->message_time.base_ns;
    wire.message_time_per_byte_q32 = lane->message_time.per_byte_q32;
    wire.scale_num = lane->message_time.scale_num;
    wire.scale_den = lane->message_time.scale_den;
    wire.external = (uint32_t)lane->external;
    ask.engine = ips_unconst_text(engine);
    ask.lane = &wire;
    ask.segments = true;
    request.run = ips_unconst_text("r");
    request.ask_case = IPS__REQUEST__ASK_PATH;
    request.path = &ask;
    cluster_ask(c, &request, out);
}

static void check_sum(const Ips__PathAnswer *a, Ips__Share *const *list,
                      size_t count)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += list[i]->ns;
        assert_true(list[i]->ns_low <= list[i]->ns);
        assert_true(list[i]->ns_high >= list[i]->ns);
        if (i > 0)
            assert_true(list[i - 1]->ns >= list[i]->ns);
    }
    for (size_t i = 0; i < a->n_by_message; i++)
        sum += a->by_message[i]->ns;
    for (size_t i = 0; i < a->n_by_external; i++)
        sum += a->by_external[i]->ns;
    assert_int_equal(sum, a->t_max_ns);
}

/* All pieces of the answer against the kernel's walk of the whole graph. */
static void check_segments(const struct answer *got,
                           const struct ips_path *path)
{
    uint64_t at = 0;
    for (uint32_t i = 0; i < got->count; i++) {
        const Ips__PathAnswer *a = got->env[i]->reply->path;
        for (size_t k = 0; k < a->n_segments; k++, at++) {
            const Ips__Segment *s = a->segments[k];
            assert_true(at < path->count);
            const struct ips_path_segment *want = &path->seg[at];
            static const char *const kinds[] = {"compute", "message",
                                                "external"};
            assert_string_equal(s->kind, kinds[want->kind]);
            assert_int_equal(s->from_node, want->from);
            assert_int_equal(s->to_node, want->to);
            assert_int_equal(s->ns, want->ns);
        }
    }
    assert_int_equal(at, path->count);
}

static void check_engine(struct cluster *c, const char *engine,
                         const struct rg *r, const struct ips_scenario *lane)
{
    struct answer got;
    struct ips_est est;
    struct ips_path path = {0};
    uint32_t stop;
    assert_int_equal(
        ips_longest_path_compute_ests(&r->whole, lane, NULL, &est, NULL), 0);
    ask_path(c, engine, lane, &got);
    const Ips__Reply *reply = answer_last(&got);
    if (est.t_max == 0) {
        assert_int_equal(reply->error, IPS_E_INCOMPLETE);
    } else {
        if (reply->error)
            fail_msg("%s: %s", engine, reply->message);
        const Ips__PathAnswer *a = reply->path;
        assert_int_equal(a->t_max_ns, est.t_max);
        assert_int_equal(a->total_cpu_ns, est.total);
        assert_int_equal(a->certificate->unmatched, r->unmatched);
        assert_true(a->certificate->complete);
        assert_int_equal(ips_path_walk_back_and_store(&r->whole, lane, &est,
                                                      est.end, &path, &stop,
                                                      NULL),
                         0);
        check_segments(&got, &path);
        check_sum(a, a->by_machine, a->n_by_machine);
        check_sum(a, a->by_process, a->n_by_process);
        ips_path_release(&path);
    }
    ips_est_release(&est);
    answer_release(&got);
}

static void test_cluster_path__random_graphs_equal_the_kernel(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct cluster c;
        struct rg r;
        struct rg_options o = rg_options_of(seed);
        rg_make(&o, &r);
        cluster_start(&c);
        for (uint32_t m = 0; m < r.machines; m++) {
            struct fake_slave *s = cluster_add(&c, machines[m], "r", &r.part[m],
                                               r.peer[m], r.end_count[m]);
            s->delay_ms = seed % 2 ? 3 : 0;
        }
        cluster_settle(&c);
        const struct ips_scenario lanes[] = {
            {.message_time = {.scale_num = 1, .scale_den = 1}},
            {.message_time = {.base_ns = 3, .scale_num = 1, .scale_den = 1},
             .external = IPS_EXTERNAL_ALL},
            {.message_time = {.per_byte_q32 = 1ULL << 31,
                              .base_ns = 1,
                              .scale_num = 3,
                              .scale_den = 2},
             .external = IPS_EXTERNAL_OFF}};
        const struct ips_scenario *lane = &lanes[seed % 3];
        check_engine(&c, "contract", &r, lane);
        check_engine(&c, "central", &r, lane);
        check_engine(&c, "cm-sync", &r, lane);
        check_engine(&c, "cm-async", &r, lane);
        cluster_stop(&c);
        rg_release(&r);
    }
}

/* ---- G1 cut in two ------------------------------------------------------ */

struct cut {
    struct ips_graph a, b;
    struct ips_peer_end peer_a, peer_b;
};

static void cut_g1(struct cut *k)
{
    const struct golden *g1 = &golden[0];
    struct ips_graph *g[] = {&k->a, &k->b};
    for (uint32_t m = 0; m < 2; m++) {
        assert_int_equal(ips_graph_alloc(g[m], 3, 1, NULL), 0);
        g[m]->chains[0] =
            (struct ips_chain){.count = 3, .pid = m + 1, .tid = m + 1};
        for (uint32_t i = 0; i < 3; i++) {
            g[m]->kind[i] = (uint8_t)g1->node[3 * m + i].kind;
            g[m]->w[i] = g1->node[3 * m + i].w;
        }
    }
    k->a.out_count = k->b.in_count = 1;
    k->a.out = calloc(1, sizeof(*k->a.out));
    k->b.in = calloc(1, sizeof(*k->b.in));
    k->a.out[0] = (struct ips_remote_out){.node = 1, .pos = 7, .len = 7};
    k->b.in[0] = (struct ips_remote_in){.node = 1, .pos = 7};
    k->b.xkind[1] = IPS_X_DATA;
    k->peer_a = (struct ips_peer_end){.machine = 1, .end = 0};
    k->peer_b = (struct ips_peer_end){.machine = 0, .end = 0};
}

static void test_cluster_path__g1_on_two_machines(void **state)
{
    (void)state;
    static const char *const engines[] = {"contract", "central", "auto",
                                          "cm-sync", "cm-async"};
    const struct ips_scenario lane = golden_lane(&golden[0]);
    struct cluster c;
    struct cut k = {0};
    cut_g1(&k);
    cluster_start(&c);
    cluster_add(&c, "m1", "r", &k.a, &k.peer_a, 1)->has_root = true;
    cluster_add(&c, "m2", "r", &k.b, &k.peer_b, 1);
    cluster_settle(&c);
    for (int i = 0; i < 5; i++) {
        struct answer got;
        ask_path(&c, engines[i], &lane, &got);
        const Ips__Reply *reply = answer_last(&got);
        assert_int_equal(reply->error, 0);
        const Ips__PathAnswer *a = reply->path;
        assert_int_equal(a->t_max_ns, 34);
        assert_int_equal(a->total_cpu_ns, 38);
        assert_true(a->parallelism == 38.0 / 34);
        assert_true(a->p_max == 38.0 / 30);
        assert_int_equal(a->messages, 1);
        assert_int_equal(a->elapsed_ns, 1000);
        assert_int_equal(a->segment_count, 3);
        assert_string_equal(a->by_process[0]->object, "/m2/p.0");
        assert_int_equal(a->by_process[0]->ns, 20);
        assert_string_equal(a->by_message[0]->object, "m1/p.0 -> m2/p.0");
        assert_int_equal(a->by_message[0]->ns, 4);
        /* x0.5: 2 + 30; x2: 8 + 30. */
        assert_int_equal(a->by_message[0]->ns_low, 2);
        assert_int_equal(a->by_message[0]->ns_high, 8);
        assert_int_equal(a->certificate->n_lanes, 3);
        assert_int_equal(a->certificate->lanes[0]->t_max_ns, 32);
        assert_int_equal(a->certificate->lanes[1]->t_max_ns, 38);
        assert_true(a->certificate->lanes[1]->same_order);
        assert_string_equal(a->certificate->clock, "none used");
        assert_true(a->certificate->complete);
        assert_string_equal(a->engine, i == 2 ? "contract" : engines[i]);
        answer_release(&got);
    }
    cluster_stop(&c);
    ips_graph_release(&k.a);
    ips_graph_release(&k.b);
}

/* Every golden graph on one machine. */
static void test_cluster_path__golden_graphs(void **state)
{
    (void)state;
    for (int i = 0; i < GOLDEN_COUNT; i++) {
        static const char *const engines[] = {"contract", "central", "",
                                              "cm-sync", "cm-async"};
        const struct ips_scenario lane = golden_lane(&golden[i]);
        struct cluster c;
        struct ips_graph g;
        golden_make(&golden[i], &g);
        cluster_start(&c);
        cluster_add(&c, "m1", "r", &g, NULL, 0);
        cluster_settle(&c);
        for (int k = 0; k < 5; k++) {
            struct answer got;
            ask_path(&c, engines[k], &lane, &got);
            const Ips__Reply *reply = answer_last(&got);
            assert_int_equal(reply->error, 0);
            assert_int_equal(reply->path->t_max_ns, golden[i].t_max);
            assert_int_equal(reply->path->total_cpu_ns, golden[i].total);
            assert_true(reply->path->p_max ==
                        (double)golden[i].total / (double)golden[i].t_max_free);
            answer_release(&got);
        }
        cluster_stop(&c);
        ips_graph_release(&g);
    }
}

/* What the graph question gives is the graph: solved again, the same. */
static void test_cluster_path__graph_is_the_whole_graph(void **state)
{
    (void)state;
    for (uint64_t seed = 50; seed < 60; seed++) {
        struct cluster c;
        struct rg r;
        struct rg_options o = rg_options_of(seed);
        rg_make(&o, &r);
        cluster_start(&c);
        for (uint32_t m = 0; m < r.machines; m++)
            cluster_add(&c, machines[m], "r", &r.part[m], r.peer[m],
                        r.end_count[m]);
        cluster_settle(&c);
        Ips__GraphAsk ask = IPS__GRAPH_ASK__INIT;
        Ips__Request request = IPS__REQUEST__INIT;
        struct answer got;
        request.run = ips_unconst_text("r");
        request.ask_case = IPS__REQUEST__ASK_GRAPH;
        request.graph = &ask;
        cluster_ask(&c, &request, &got);
        assert_int_equal(answer_last(&got)->error, 0);
        uint32_t at = 0;
        for (uint32_t i = 0; i < got.count; i++) {
            const Ips__GraphAnswer *a = got.env[i]->reply->graph;
            for (size_t k = 0; k < a->n_nodes; k++, at++) {
                const Ips__GraphNode *n = a->nodes[k];
                assert_true(at < r.whole.node_count);
                uint32_t x = r.whole.xpred[at];
                assert_int_equal(n->id, at);
                assert_int_equal(n->xpred,
                                 x == IPS_NO_NODE ? IPS_UNMEASURED : x);
                if (n->pred == IPS_UNMEASURED)
                    assert_int_equal(r.whole.kind[at], IPS_NODE_START);
                else
                    assert_int_equal(n->arc_cpu_ns, r.whole.w[at]);
            }
        }
        assert_int_equal(at, r.whole.node_count);
        answer_release(&got);
        cluster_stop(&c);
        rg_release(&r);
    }
}

/* Two machines that call each other: more remote receives, values and pieces
 * of the path than one frame holds. */
#define ROUNDS 100000u

static void make_caller(struct ips_graph *g, bool first)
{
    uint32_t n = 2 * ROUNDS + 2;
    assert_int_equal(ips_graph_alloc(g, n, 1, NULL), 0);
    g->chains[0] = (struct ips_chain){.count = n, .pid = 1, .tid = 1};
    g->in = calloc(ROUNDS, sizeof(*g->in));
    g->out = calloc(ROUNDS, sizeof(*g->out));
    assert_true(g->in && g->out);
    g->kind[n - 1] = IPS_NODE_END;
    g->w[n - 1] = 5;
    for (uint32_t i = 1; i < n - 1; i++) {
        g->w[i] = i % 7;
        if ((i % 2 == 1) == first) {
            g->kind[i] = IPS_NODE_SEND;
            g->out[g->out_count] = (struct ips_remote_out){
                .node = i, .pos = g->out_count + 1, .len = 1};
            g->out_count++;
        } else {
            g->kind[i] = IPS_NODE_RECV;
            g->xkind[i] = IPS_X_DATA;
            g->in[g->in_count] =
                (struct ips_remote_in){.node = i, .pos = g->in_count + 1};
            g->in_count++;
        }
    }
}

static void test_cluster_path__long_answers_come_in_pieces(void **state)
{
    (void)state;
    struct cluster c;
    struct rg r = {.machines = 2};
    struct ips_peer_end a = {.machine = 1}, b = {.machine = 0};
    uint32_t base[2];
    uint64_t unmatched;
    make_caller(&r.part[0], true);
    make_caller(&r.part[1], false);
    const struct ips_machine_graph parts[] = {{&r.part[0], &a, 1},
                                              {&r.part[1], &b, 1}};
    assert_int_equal(ips_graph_merge(parts, 2, &(struct ips_scenario){0},
                                     &r.whole, base, &unmatched, NULL),
                     0);
    assert_int_equal(unmatched, 0);
    cluster_start(&c);
    cluster_add(&c, "m1", "r", &r.part[0], &a, 1);
    cluster_add(&c, "m2", "r", &r.part[1], &b, 1);
    cluster_settle(&c);
    const struct ips_scenario lane = {
        .message_time = {.base_ns = 2, .scale_num = 1, .scale_den = 1}};
    check_engine(&c, "contract", &r, &lane);
    check_engine(&c, "central", &r, &lane);
    cluster_stop(&c);
    ips_graph_release(&r.whole);
    ips_graph_release(&r.part[0]);
    ips_graph_release(&r.part[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cluster_path__g1_on_two_machines),
        cmocka_unit_test(test_cluster_path__golden_graphs),
        cmocka_unit_test(test_cluster_path__random_graphs_equal_the_kernel),
        cmocka_unit_test(test_cluster_path__graph_is_the_whole_graph),
        cmocka_unit_test(test_cluster_path__long_answers_come_in_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
