/* Threads that take pieces of work under a lock: found in a graph, settled by a
 * replay, and a graph made of another order. By a simulation of the program
 * itself, in fractions: tests/system/answers/test_oracle_replay.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/replay/queue.h"
#include "tests/support/random_crew.h"
#include "tests/support/random_graph.h"

#define GRAPHS 300u
#define MACHINES 2u

static const struct ips_scenario lane = {.message_time = {0, 0, 1, 1}};

static void find(const struct rcrew *p, struct ips_queues *out)
{
    memset(out, 0, sizeof(*out));
    assert_int_equal(0, ips_graph_check_invariants(&p->g, NULL));
    assert_int_equal(0, ips_lock_queues_find(&p->g, &p->locks, p->when, NULL,
                                             &out->lock_queues, NULL));
}

/* The pieces are those of the program, in order; of the order as recorded the
 * graph is the same. Would catch a piece that begins or ends elsewhere, one of
 * another, and work that goes astray where pieces are put together. */
static void test_crew__found(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= GRAPHS; seed++) {
        struct rcrew p;
        struct ips_queues found;
        struct ips_queued_graph same;
        rcrew_make(seed, 1000, RCREW_GOOD, &p);
        find(&p, &found);
        assert_int_equal(1, found.lock_queues.lock_queue_count);
        assert_int_equal(0, found.lock_queues.lock_queue[0].lock);
        assert_int_equal(p.workers, found.lock_queues.worker_count);
        assert_int_equal(p.pieces, found.lock_queues.piece_count);
        for (uint32_t k = 0; k < p.pieces; k++) {
            assert_int_equal(p.taking[k], found.lock_queues.piece[k].first);
            assert_int_equal(p.had[k], found.lock_queues.piece[k].worker);
        }
        assert_int_equal(0, ips_queued_graph_make_reordered(
                                &p.g, &found, NULL, p.had, &same, NULL));
        for (uint32_t i = 0; i < p.g.node_count; i++) {
            assert_int_equal(i, same.of[i]);
            assert_int_equal(p.g.w[i], same.g.w[i]);
            assert_int_equal(p.g.xpred[i], same.g.xpred[i]);
        }
        ips_queued_graph_release(&same);
        ips_queues_release(&found);
        rcrew_release(&p);
    }
}

/* What looks like it, and may be turns of the threads' own, or has an order for
 * other reasons. Would catch work that goes to others where it is a thread's
 * own. */
static void test_crew__not_found(void **state)
{
    static const enum rcrew_flaw flaw[] = {RCREW_EVEN, RCREW_TWICE, RCREW_EARLY,
                                           RCREW_MESSAGE, RCREW_MAKER};
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        for (size_t k = 0; k < sizeof(flaw) / sizeof(*flaw); k++) {
            struct rcrew p;
            struct ips_queues found;
            rcrew_make(seed, 1000, flaw[k], &p);
            find(&p, &found);
            if (found.lock_queues.lock_queue_count)
                fail_msg("seed %d, flaw %d", (int)seed, (int)flaw[k]);
            ips_queues_release(&found);
            rcrew_release(&p);
        }
    }
}

/* What is much behind the last piece is another phase, with turns of its own.
 */
static void test_crew__long_end(void **state)
{
    struct rcrew p;
    struct ips_queues found;
    (void)state;
    rcrew_make(1, 1000, RCREW_GOOD, &p);
    p.g.w[p.g.node_count - 1] += 8000;
    find(&p, &found);
    assert_int_equal(0, found.lock_queues.lock_queue_count);
    ips_queues_release(&found);
    rcrew_release(&p);
}

static int by_node(const void *va, const void *vb)
{
    const struct ips_replay_lock_event *a = va, *b = vb;
    return (a->node > b->node) - (a->node < b->node);
}

/* The replay that settles a crew has the times that a replay of the graph in
 * the order it found has, with other locks, sharing, loads and turns, and ties,
 * which small weights are full of. Would catch a thread that goes on at a wrong
 * node, work done twice or by nobody, and a lock that is given to another. */
static void test_crew__times_of_its_graph(void **state)
{
    uint64_t s = 7;
    uint32_t other = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= GRAPHS; seed++) {
        struct ips_replay_machine machine[MACHINES];
        uint32_t map[RCREW_WORKERS + 1];
        struct rcrew p;
        struct ips_queues found;
        struct ips_queued_graph made;
        struct ips_replay settled, again;
        rcrew_make(seed, seed % 2 ? 40 : 1000000, RCREW_GOOD, &p);
        for (uint32_t m = 0; m < MACHINES; m++)
            machine[m] = (struct ips_replay_machine){
                .cores = 1 + rg_below(&s, 3),
                .speed = {1 + rg_below(&s, 3), 2},
                .load = {rg_below(&s, 3), 1},
                .turn_ns = rg_below(&s, 2) * 1000ULL};
        for (uint32_t c = 0; c <= p.workers; c++)
            map[c] = rg_below(&s, MACHINES);
        find(&p, &found);
        struct ips_replay_ask ask = {.machine_count = MACHINES,
                                     .machine = machine,
                                     .map = map,
                                     .locks = &p.locks,
                                     .queues = &found};
        assert_int_equal(1, found.lock_queues.lock_queue_count);
        assert_int_equal(0, ips_replay(&p.g, &lane, &ask, &settled, NULL));
        assert_int_equal(0, settled.kept_count);
        assert_int_equal(0, ips_queued_graph_make_reordered(
                                &p.g, &found, settled.taken_block,
                                settled.piece_worker, &made, NULL));
        assert_int_equal(0, ips_graph_check_invariants(&made.g, NULL));
        for (uint32_t k = 0; k < p.locks.event_count; k++)
            p.event[k].node = made.to[p.event[k].node];
        qsort(p.event, p.locks.event_count, sizeof(*p.event), by_node);
        ask.queues = NULL;
        ask.relabel = true;
        assert_int_equal(0, ips_replay(&made.g, &lane, &ask, &again, NULL));
        assert_int_equal(settled.makespan_ns, again.makespan_ns);
        for (uint32_t i = 0; i < p.g.node_count; i++)
            assert_int_equal(settled.reach[i], again.reach[made.to[i]]);
        for (uint32_t k = 0; k < p.pieces; k++)
            other += settled.piece_worker[k] != p.had[k];
        ips_replay_release(&settled);
        ips_replay_release(&again);
        ips_queued_graph_release(&made);
        ips_queues_release(&found);
        rcrew_release(&p);
    }
    assert_true(other > GRAPHS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_crew__found),
        cmocka_unit_test(test_crew__not_found),
        cmocka_unit_test(test_crew__long_end),
        cmocka_unit_test(test_crew__times_of_its_graph)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
