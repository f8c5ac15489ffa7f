/* Work queues: found in a graph, settled by a replay, and a graph made of
 * another order. By a simulation of the program itself, in fractions:
 * tests/system/answers/test_oracle_replay.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/replay/queue.h"
#include "analysis/replay/replay.h"
#include "tests/support/random_graph.h"
#include "tests/support/random_queue.h"

#define GRAPHS 300u
#define MACHINES 3u

static const struct ips_scenario lane = {.message_time = {3, 1ULL << 30, 1, 1}};

struct places {
    struct ips_replay_machine machine[MACHINES];
    uint32_t map[RQ_WORKERS + 1];
    struct ips_message_time message_time[MACHINES * MACHINES];
    uint32_t medium[MACHINES * MACHINES];
    uint64_t burst_ns;
    struct ips_replay_load load;
    struct ips_replay_ask ask;
};

static void draw_places(uint64_t *s, uint32_t weight, bool burst,
                        struct places *p)
{
    uint32_t n = 1 + rg_below(s, MACHINES);
    memset(p, 0, sizeof(*p));
    for (uint32_t m = 0; m < n; m++)
        p->machine[m] = (struct ips_replay_machine){
            .cores = 1 + rg_below(s, 3),
            .speed = {1 + rg_below(s, 3), 2},
            .load = {rg_below(s, 3), 1},
            .turn_ns = rg_below(s, 2) * 2ULL * weight};
    for (uint32_t k = 0; k < n * n; k++) {
        p->message_time[k] = (struct ips_message_time){
            rg_below(s, 30), (uint64_t)rg_below(s, 3) << 29, 1, 1};
        p->medium[k] = rg_below(s, 2) ? 0 : IPS_REPLAY_NO_MEDIUM;
    }
    for (uint32_t c = 0; c <= RQ_WORKERS; c++)
        p->map[c] = rg_below(s, n);
    p->burst_ns = rg_below(s, 1000);
    p->load = (struct ips_replay_load){500, rg_below(s, n), {1, 1}};
    p->ask = (struct ips_replay_ask){.machine_count = n,
                                     .machine = p->machine,
                                     .map = p->map,
                                     .load_count = rg_below(s, 2),
                                     .load = &p->load,
                                     .message_time = p->message_time,
                                     .medium_count = rg_below(s, 2),
                                     .medium = p->medium,
                                     .burst_ns = burst ? &p->burst_ns : NULL};
}

static void find(const struct rq *q, struct ips_queues *out)
{
    assert_int_equal(0, ips_queues_find(&q->g, q->any, out, NULL));
}

/* Every turn's piece of a queue that was found is the one that was taken; in
 * the order as recorded the graph is the same, node by node. Would catch a
 * result, a piece or an end that is cut in the wrong place. */
static void test_queue__found(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= GRAPHS; seed++) {
        struct rq q;
        struct ips_queues found;
        struct ips_queued_graph same;
        uint32_t took[RQ_PIECES];
        rq_make(seed, 100, &q);
        assert_int_equal(0, ips_graph_check_invariants(&q.g, NULL));
        find(&q, &found);
        assert_int_equal(1, found.queue_count);
        assert_int_equal(q.workers, found.worker_count);
        assert_int_equal(q.pieces, found.turn_count);
        for (uint32_t t = 0; t < found.turn_count; t++) {
            took[t] = found.turn[t].taken_block;
            assert_int_equal(q.took[t], rq_piece_of(&q, &found.block[took[t]]));
        }
        assert_int_equal(0, ips_queued_graph_make_reordered(&q.g, &found, took,
                                                            NULL, &same, NULL));
        for (uint32_t i = 0; i < q.g.node_count; i++) {
            assert_int_equal(i, same.of[i]);
            assert_int_equal(q.g.w[i], same.g.w[i]);
            assert_int_equal(q.g.xpred[i], same.g.xpred[i]);
        }
        ips_queued_graph_release(&same);
        ips_queues_release(&found);
        rq_release(&q);
    }
}

/* The replay that settles a queue has the times that a replay of the graph in
 * the order it found has: with sharing, loads and turns, media, and ties, which
 * small weights are full of (but for what media have saved: of two transfers of
 * one moment the one that is processed first has it). Would catch a chain that
 * goes on at a wrong node, work done twice or by nobody, and a message to where
 * its receiver was recorded. */
static void test_queue__times_of_its_graph(void **state)
{
    uint64_t s = 7;
    uint32_t other = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= GRAPHS; seed++) {
        struct rq q;
        struct places p;
        struct ips_queues found;
        struct ips_queued_graph made;
        struct ips_replay settled, again;
        uint32_t weight = seed % 2 ? 20 : 1000000;
        rq_make(seed, weight, &q);
        draw_places(&s, weight, seed % 4 == 0, &p);
        find(&q, &found);
        p.ask.queues = &found;
        assert_int_equal(0, ips_replay(&q.g, &lane, &p.ask, &settled, NULL));
        p.ask.queues = NULL;
        p.ask.relabel = true;
        assert_int_equal(0, ips_queued_graph_make_reordered(&q.g, &found,
                                                            settled.taken_block,
                                                            NULL, &made, NULL));
        assert_int_equal(0, ips_graph_check_invariants(&made.g, NULL));
        assert_int_equal(0, ips_replay(&made.g, &lane, &p.ask, &again, NULL));
        assert_int_equal(settled.makespan_ns, again.makespan_ns);
        for (uint32_t i = 0; i < q.g.node_count; i++)
            assert_int_equal(settled.reach[i], again.reach[made.to[i]]);
        for (uint32_t t = 0; t < found.turn_count; t++)
            other += settled.taken_block[t] != found.turn[t].taken_block;
        ips_replay_release(&settled);
        ips_replay_release(&again);
        ips_queued_graph_release(&made);
        ips_queues_release(&found);
        rq_release(&q);
    }
    assert_true(other > GRAPHS);
}

static uint32_t count_of(struct rq *q)
{
    struct ips_queues found;
    find(q, &found);
    uint32_t count = found.queue_count;
    ips_queues_release(&found);
    return count;
}

/* What looks like a queue, and is none: a dispatcher that took results in an
 * order of its own; one that writes to another worker while results are still
 * to come; a worker that wrote first; one that ends by itself. Would catch work
 * that goes to others where it is a thread's own. */
static void test_queue__not_found(void **state)
{
    struct rq q;
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        rq_make(seed, 100, &q);
        uint32_t worker = q.last ? 0 : 1;
        const struct ips_chain *w = &q.g.chains[worker];
        const struct ips_chain *d = &q.g.chains[q.dispatcher];
        assert_int_equal(1, count_of(&q));
        q.any[q.dispatcher] = false;
        q.any[worker] = true;
        assert_int_equal(0, count_of(&q));
        q.any[q.dispatcher] = true;
        assert_int_equal(1, count_of(&q));
        /* of the piece that the first turn gave to one: it came of the first
         * send of all, which was to another */
        for (uint32_t i = 0; i < q.g.node_count; i++)
            if (q.g.xkind[i] == IPS_X_DATA &&
                q.g.xpred[i] > q.asked[q.took[0]] &&
                q.g.xpred[i] < d->first + d->count) {
                uint32_t was = q.g.xpred[i];
                q.g.xpred[i] = q.asked[q.took[0]];
                assert_int_equal(0, count_of(&q));
                q.g.xpred[i] = was;
                break;
            }
        /* the worker's first node is awaited by the dispatcher's first */
        q.g.xkind[d->first + 1] = IPS_X_DATA;
        q.g.xpred[d->first + 1] = w->first;
        assert_int_equal(q.workers > 2, count_of(&q));
        q.g.xkind[d->first + 1] = IPS_X_NONE;
        q.g.xpred[d->first + 1] = IPS_NO_NODE;
        assert_int_equal(1, count_of(&q));
        for (uint32_t c = 0; c <= q.workers && !q.stops; c++)
            if (c != q.dispatcher)
                q.g.xkind[q.g.chains[c].first + q.g.chains[c].count - 2] =
                    IPS_X_NONE;
        assert_int_equal(q.stops, count_of(&q));
        rq_release(&q);
    }
}

/* Two workers, one of them on a core of a third of the speed, six pieces of 30
 * ns, one each to begin with; nothing else takes time. Recorded in turn, three
 * each: 270 ns. Settled, at 90 the quicker one brings its third result and the
 * slower one its first; both get a last piece, and the slower one is done at
 * 180. Would catch pieces that stay with whom they were recorded with, and one
 * that goes to who asks later. */
static void test_queue__quicker_takes_more(void **state)
{
    static const uint32_t map[] = {0, 0, 1};
    static const struct ips_scenario none = {.message_time = {0, 0, 1, 1}};
    static const bool any[] = {true, false, false};
    struct ips_replay_machine two[] = {{.cores = 2},
                                       {.cores = 1, .speed = {1, 3}}};
    struct ips_replay_ask ask = {
        .machine_count = 2, .machine = two, .map = map};
    enum { PIECES = 6, D = 1 + 2 + 4 * 2 + 2 + 2 + 1, W = 1 + 3 * 2 + 2 };
    struct ips_graph g;
    struct ips_queues found;
    struct ips_replay r;
    (void)state;
    ips_graph_init(&g);
    assert_int_equal(0, ips_graph_alloc(&g, D + 2 * W, 3, NULL));
    g.chains[0] = (struct ips_chain){.first = 0, .count = D};
    for (uint32_t v = 0; v < 2; v++) {
        uint32_t first = D + v * W;
        g.chains[1 + v] = (struct ips_chain){.first = first, .count = W};
        for (uint32_t k = 0; k < 3; k++) {
            uint32_t i = first + 1 + 2 * k, turn = 2 * k + v;
            g.kind[i] = IPS_NODE_RECV;
            g.kind[i + 1] = IPS_NODE_SEND;
            g.xkind[i] = IPS_X_DATA;
            g.xpred[i] = k == 0 ? 1 + v : 3 + 2 * (turn - 2) + 1;
            g.w[i + 1] = 30;
            uint32_t take = turn < 4 ? 3 + 2 * turn : 11 + turn - 4;
            g.kind[take] = IPS_NODE_RECV;
            g.xkind[take] = IPS_X_DATA;
            g.xpred[take] = i + 1;
        }
        g.kind[first + W - 2] = IPS_NODE_RECV;
        g.xkind[first + W - 2] = IPS_X_LIFETIME;
        g.xpred[first + W - 2] = 13 + v;
        g.kind[first + W - 1] = IPS_NODE_END;
    }
    for (uint32_t i = 1; i + 1 < D; i++)
        if (g.kind[i] != IPS_NODE_RECV)
            g.kind[i] = IPS_NODE_SEND;
    g.kind[D - 1] = IPS_NODE_END;
    assert_int_equal(0, ips_graph_check_invariants(&g, NULL));
    assert_int_equal(0, ips_replay(&g, &none, &ask, &r, NULL));
    assert_int_equal(270, r.makespan_ns);
    ips_replay_release(&r);
    assert_int_equal(0, ips_queues_find(&g, any, &found, NULL));
    assert_int_equal(1, found.queue_count);
    ask.queues = &found;
    assert_int_equal(0, ips_replay(&g, &none, &ask, &r, NULL));
    assert_int_equal(180, r.makespan_ns);
    assert_int_equal(180, r.chain[2].end_ns);
    ask.relabel = true;
    ips_replay_release(&r);
    assert_int_equal(IPS_E_USAGE, ips_replay(&g, &none, &ask, &r, NULL));
    ips_queues_release(&found);
    ips_graph_release(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_queue__found),
        cmocka_unit_test(test_queue__times_of_its_graph),
        cmocka_unit_test(test_queue__not_found),
        cmocka_unit_test(test_queue__quicker_takes_more)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
