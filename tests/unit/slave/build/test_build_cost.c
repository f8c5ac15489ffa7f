/* What recording cost, as the slave adds it up: slave/build/cost.c. */
#include "recorder.h"

/* Prices of which every sum tells what it was made of (ps). */
#define PRICE(probe) (1000000ull << 4 * (probe))

static struct recorder *priced(void)
{
    struct recorder *r = rec_new();
    for (int i = 0; i < IPS_PROBE_LAST; i++)
        if (i < IPS_PROBE_FIRST)
            r->control.probe_cost_ps[i] = PRICE(i);
        else
            r->control.probe_more_ps[i - IPS_PROBE_FIRST] = PRICE(i);
    r->control.probe_spawn_ps = 7000;
    r->control.probe_late_ps[IPS_PROBE_FILE - IPS_PROBE_LATE] = 3000;
    r->control.probe_late_ps[IPS_PROBE_SPARE_IMAGE - IPS_PROBE_LATE] = 50000;
    r->control.probe_late_ps[IPS_PROBE_SPARE_FORK - IPS_PROBE_LATE] = 900000;
    r->control.probe_late_ps[IPS_PROBE_POLL - IPS_PROBE_LATE] = 11000;
    r->control.probe_late_ps[IPS_PROBE_THREAD - IPS_PROBE_LATE] = 70000;
    return r;
}

static void assert_cost(struct recorder *r, uint64_t ps)
{
    struct ips_built *b = rec_alone(r);
    assert_int_equal(b->counts.overhead_ns, ps / 1000);
    rec_free(r);
}

/* Would catch: a start, a fork child or a stack that is priced as a plain
 * event, a spawn priced as any call, and a record that is not priced at all. */
static void test_build_cost__each_record_has_its_price(void **state)
{
    (void)state;
    struct recorder *r = priced();
    rs s = rec_stream(r, 10, 10, 1);
    rec_start(s, IPS_START_IMAGE, 1, 0);
    rec_pipe(s, 1, 2, IPS_SIDE_READ, 5);
    rec_recv(s, 1, 100, 100, 20, 10);
    rec_put(s, IPS_REC_STACK, sizeof(struct ips_rec_stack) + 8, 1, 100);
    rs child = rec_stream(r, 11, 11, 2);
    rec_start(child, IPS_START_FORK, 50, 0);
    rec_exec(child, 60, 10, false);
    rs spawner = rec_stream(r, 12, 12, 3);
    rec_start(spawner, IPS_START_IMAGE, 70, 0);
    rec_fork(spawner, IPS_FORK_SPAWN, 80, 90, 10, 10, 13, 1);
    rec_exec(spawner, 85, 10, false);
    assert_cost(r, 7000 + 2 * PRICE(IPS_PROBE_IMAGE) + PRICE(IPS_PROBE_FORK) +
                       2 * PRICE(IPS_PROBE_CALL) + PRICE(IPS_PROBE_STACK) +
                       3 * PRICE(IPS_PROBE_EVENT)); /* the CHAN, two EXECs */
}

/* Would catch: an image that begins in a spare segment and is priced as one
 * that makes its own, and calls on files that are not priced, or as one event;
 * what stacks took beyond their prices left out.
 */
static void test_build_cost__spares_and_files(void **state)
{
    (void)state;
    struct recorder *r = priced();
    rs s = rec_stream(r, 10, 10, 1);
    rec_start(s, IPS_START_IMAGE, 1, 0)->h.word |= IPS_REC_F_SPARE << 16;
    struct ips_rec_calls *calls =
        rec_put(s, IPS_REC_CALLS, sizeof(*calls), 0, 20);
    calls->calls = 100;
    calls->h.a = 700;
    rs child = rec_stream(r, 11, 11, 2);
    rec_start(child, IPS_START_FORK, 50, 0)->h.word |= IPS_REC_F_SPARE << 16;
    assert_cost(r, 50000 + 900000 + 100 * 3000 + 700 * 1000);
}

/* Would catch: a thread that is priced as an event, a poll that found something
 * at once as a call, or as one that was switched out, and the attempts of a
 * spin left out, which have no records. */
static void test_build_cost__threads_and_polls(void **state)
{
    (void)state;
    struct recorder *r = priced();
    rs s = rec_stream(r, 10, 10, 1);
    rec_start(s, IPS_START_THREAD, 1, 0);
    rec_io(s, IPS_REC_BLOCK, 0, 100, 200, 100, 200, 1)->op = IPS_OP_EPOLL;
    rec_io(s, IPS_REC_BLOCK, 0, 300, 400, 300, 400, 9)->op = IPS_OP_SPIN;
    assert_cost(r, 70000 + 11000 + 10 * 11000);
}

static struct ips_rec_io *wait_of(rs s, uint64_t t, uint64_t lasted,
                                  uint64_t cpu, uint64_t cost, enum ips_op op)
{
    struct ips_rec_io *p =
        rec_io(s, IPS_REC_BLOCK, 0, t, t + lasted, cpu, cpu + cost, 1);
    p->op = (uint16_t)op;
    return p;
}

/* Would catch: a call that comes long after the last priced as one that comes
 * at once, and one that blocked for long counted as done something else. */
static void test_build_cost__after_something_else(void **state)
{
    (void)state;
    struct recorder *r = priced();
    const uint64_t cold = 900000000, call = PRICE(IPS_PROBE_CALL);
    r->control.probe_late_ps[IPS_PROBE_COLD - IPS_PROBE_LATE] = cold;
    rs s = rec_stream(r, 10, 10, 1);
    rec_start(s, IPS_START_IMAGE, 1, 0);
    rec_pipe(s, 1, 2, IPS_SIDE_WRITE, 5);
    rec_io(s, IPS_REC_SEND, 1, 5000, 5100, 5000, 5100, 8); /* the first */
    uint64_t t = 5100 + IPS_COLD_NS - 1;                   /* just not */
    rec_io(s, IPS_REC_SEND, 1, t, t + 900, t, t + 900, 8);
    t += 900 + IPS_COLD_NS;
    rec_io(s, IPS_REC_SEND, 1, t, t + 100, t, t + 100, 8);
    wait_of(s, t + 200, 90000, t + 200, 100, IPS_OP_EPOLL);
    rec_io(s, IPS_REC_SEND, 1, t + 90300, t + 90400, t + 400, t + 500, 8);
    assert_cost(r, PRICE(IPS_PROBE_IMAGE) + PRICE(IPS_PROBE_EVENT) + 5 * call +
                       2 * cold + PRICE(IPS_PROBE_BLOCK));
}

/* WAITS waits, each so long, each `cpu_ns` after the last and of a `cost` in
 * CPU time; what they cost beyond so many blocked calls, in readings of the
 * clock.
 */
#define WAITS 130u
static uint64_t readings(uint32_t mode, uint64_t lasted, uint64_t cpu_ns,
                         uint64_t cost, enum ips_op op)
{
    struct recorder *r = priced();
    r->control.cpu_mode = mode;
    rs s = rec_stream(r, 10, 10, 1);
    rec_start(s, IPS_START_IMAGE, 1, 0);
    for (uint64_t i = 0; i < WAITS; i++)
        wait_of(s, 1000000 * (i + 1), lasted, cpu_ns * i, cost, op);
    struct ips_built *b = rec_alone(r);
    uint64_t ps = b->counts.overhead_ns * 1000 - PRICE(IPS_PROBE_IMAGE) -
                  WAITS * (PRICE(IPS_PROBE_CALL) + PRICE(IPS_PROBE_BLOCK));
    rec_free(r);
    assert_int_equal(ps % PRICE(IPS_PROBE_READ), 0);
    return ps / PRICE(IPS_PROBE_READ);
}

/* Would catch: readings counted by another rule than the agent's (every 64th
 * block, or 16th and more where they cost 100 us, or 500 us of CPU; long ones
 * of calls that may have worked first). */
static void test_build_cost__readings_by_the_agents_rule(void **state)
{
    (void)state;
    assert_int_equal(readings(IPS_CPU_FAST, 5000, 10, 5, IPS_OP_EPOLL), 2);
    assert_int_equal(readings(IPS_CPU_FAST, 90000, 10, 5, IPS_OP_EPOLL), 2);
    assert_int_equal(readings(IPS_CPU_FAST, 90000, 9000, 8000, IPS_OP_EPOLL),
                     8);
    assert_int_equal(readings(IPS_CPU_FAST, 90000, 10, 5, IPS_OP_TERMINAL),
                     130);
    assert_int_equal(readings(IPS_CPU_FAST, 5000, 600000, 5, IPS_OP_EPOLL),
                     129);
    assert_int_equal(readings(IPS_CPU_EXACT, 5000, 10, 5, IPS_OP_EPOLL), 130);
}

/* A child that a spawn began: 500 of CPU until its image runs, a pipe's message
 * at 1000, one at 1010 that leaves no room for what it cost, the end at 9000.
 */
static struct ips_built *spawned(struct recorder *r)
{
    rs p = rec_stream(r, 10, 10, 1), s = rec_stream(r, 11, 11, 50);
    rec_start(p, IPS_START_ROOT, 1, 0);
    rec_fork(p, IPS_FORK_SPAWN, 40, 900, 10, 20, 11, 1);
    struct ips_rec_start *start = rec_start(s, IPS_START_IMAGE, 60, 500);
    start->fork_seq = 1;
    start->ppid = 10;
    start->parent_image = 1;
    rec_pipe(s, 1, 500, IPS_SIDE_WRITE, 5);
    rec_send(s, 1, 1000, 1000, 8);
    rec_send(s, 1, 1010, 1010, 8);
    rec_end(s, IPS_END_EXIT, 9000, 9000, 0);
    return rec_alone(r);
}

/* Would catch a cost in the arc before its record, or in another thread's; an
 * arc that has more of it than it weighs; a first image's cost in what the
 * program did after it; a sum that is not the arcs'. */
static void test_build_cost__lies_behind_its_record(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    r->control.probe_cost_ps[IPS_PROBE_CALL] = 70000;
    r->control.probe_cost_ps[IPS_PROBE_EVENT] = 30500;
    r->control.probe_more_ps[IPS_PROBE_IMAGE - IPS_PROBE_FIRST] = 400000;
    const struct ips_built *b = spawned(r);
    const struct ips_graph *g = &b->g;
    uint64_t sum = 0;
    uint32_t sent = rec_kind(b, 11, IPS_NODE_SEND, 0);
    assert_int_equal(g->probe[rec_node(b, 11, 0)], 0);
    assert_int_equal(g->probe[rec_node(b, 11, 1)], 400); /* its image began */
    assert_int_equal(g->kind[rec_node(b, 11, 1)], IPS_NODE_AUX);
    assert_int_equal(g->probe[sent], 30); /* the CHAN */
    assert_int_equal(g->w[sent + 1], 10);
    assert_int_equal(g->probe[sent + 1], 10);
    /* The message's, its own END's, and the CHAN's rest. */
    assert_int_equal(g->probe[rec_last(b, 11)], 101);
    for (uint32_t i = 0; i < g->node_count; i++)
        sum += g->probe[i];
    assert_int_equal(b->counts.probe_arc_ns, sum);
    assert_true(sum <= b->counts.overhead_ns);
    rec_free(r);
}

/* Would catch: what a thread said of its guesses added up over its records,
 * each of which says all up to it, or of one thread only; a greatest error that
 * is a sum. */
static void test_build_cost__guesses_of_all_threads(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs a = rec_stream(r, 10, 10, 1), b = rec_stream(r, 10, 11, 2);
    rec_start(a, IPS_START_IMAGE, 1, 0);
    rec_guessed(a, 100, 3, 3000, 500, 400);
    rec_guessed(a, 200, 5, 7000, 900, 400);
    rec_start(b, IPS_START_THREAD, 2, 0);
    rec_guessed(b, 150, 2, 100, 60, 50);
    const struct ips_built *built = rec_alone(r);
    assert_int_equal(built->counts.guessed_ns, 7100);
    assert_int_equal(built->counts.guess_corrected, 7);
    assert_int_equal(built->counts.guess_off_ns, 960);
    assert_int_equal(built->counts.guess_off_max_ns, 400);
    rec_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_build_cost__each_record_has_its_price),
        cmocka_unit_test(test_build_cost__spares_and_files),
        cmocka_unit_test(test_build_cost__threads_and_polls),
        cmocka_unit_test(test_build_cost__after_something_else),
        cmocka_unit_test(test_build_cost__readings_by_the_agents_rule),
        cmocka_unit_test(test_build_cost__lies_behind_its_record),
        cmocka_unit_test(test_build_cost__guesses_of_all_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
