/* When nodes were passed, what their threads slept, and how long they queued.
 * Each case says what it would catch. */
#include "analysis/graph/view.h"
#include "recorder.h"

#define US(n) ((uint64_t)(n)*1000)

static uint64_t longest(const struct ips_built *b, enum ips_weighting w,
                        uint64_t from)
{
    struct ips_scenario lane = {.weighting = w, .clock = {.from = from}};
    struct ips_view v;
    struct ips_est e;
    assert_int_equal(0, ips_graph_make_view(&b->g, &lane, &v, NULL));
    assert_int_equal(
        0, ips_longest_path_compute_ests(&v.g, &lane, NULL, &e, NULL));
    uint64_t t_max = e.t_max;
    ips_est_release(&e);
    ips_view_release(&v);
    return t_max;
}

/* 10 writes to a pipe at 11 us that 20 reads from: asked for at 5 us, back at
 * 14 us. */
static struct recorder *pipe_of_two(rs *a, rs *z)
{
    struct recorder *r = rec_new();
    *a = rec_stream(r, 10, 10, 1);
    rec_start(*a, IPS_START_IMAGE, US(1), 0);
    rec_pipe(*a, 1, US(1), IPS_SIDE_WRITE, 5);
    rec_send(*a, 1, US(11), US(10), 8);
    rec_end(*a, IPS_END_EXIT, US(16), US(15), 0);
    *z = rec_stream(r, 20, 20, 1);
    rec_start(*z, IPS_START_IMAGE, US(2), 0);
    rec_pipe(*z, 1, US(2), IPS_SIDE_READ, 5);
    return r;
}

/* Would catch: a delay after the wake-up that stays in the wait, or that begins
 * before the message; a sum that is taken from the thread's birth; time after
 * the last reading called run delay. */
static void test_build_wall__a_wake_up_that_queued(void **state)
{
    (void)state;
    rs a, z;
    struct recorder *r = pipe_of_two(&a, &z);
    rec_delay(z, US(4), US(500));
    rec_recv(z, 1, US(5), US(14), US(3), 8);
    rec_delay(z, US(15), US(502));
    rec_end(z, IPS_END_EXIT, US(30), US(17), 0);
    struct ips_built *b = rec_build(r);
    uint32_t recv = rec_kind(b, 20, IPS_NODE_RECV, 0), end = recv + 1;
    uint32_t send = rec_kind(b, 10, IPS_NODE_SEND, 0);
    assert_arc(b, recv, send, IPS_X_DATA);
    assert_int_equal(b->g.at[send], US(11));
    assert_int_equal(b->g.at[recv], US(12));
    assert_int_equal(b->g.wait[recv], US(7));
    assert_int_equal(b->g.delay[end], US(2));
    assert_int_equal(b->counts.delay_ns, US(2));
    assert_int_equal(b->counts.delay_unknown_ns, US(2));
    /* The reader's life: 17 us of CPU, 9 in the read, of which 2 queued after
     * the wake-up, and 2 that nobody explains. */
    const struct ips_thread_row *t = &b->threads[rec_chain(b, 20)];
    assert_int_equal(t->delay_ns, US(2));
    assert_int_equal(t->woken_ns, US(2));
    assert_int_equal(t->unknown_ns, US(2));
    assert_int_equal(t->wait_ns[IPS_WAIT_PEER], US(9));
    assert_int_equal(t->end_ns - t->start_ns,
                     t->cpu_ns + t->wait_ns[IPS_WAIT_PEER] + t->unknown_ns);
    assert_int_equal(longest(b, IPS_WEIGH_CPU, 0), US(24));
    assert_int_equal(longest(b, IPS_WEIGH_SCHED, 0), US(26));
    assert_int_equal(longest(b, IPS_WEIGH_WALL, US(1)), US(29));
    rec_free(r);
}

/* Would catch: a read that was taken off its core, long after the message was
 * there, counted as a slow message. */
static void test_build_wall__it_was_there(void **state)
{
    (void)state;
    rs a, z;
    struct recorder *r = pipe_of_two(&a, &z);
    rec_recv(z, 1, US(100), US(150), US(90), 8);
    rec_end(z, IPS_END_EXIT, US(160), US(100), 0);
    struct ips_built *b = rec_build(r);
    uint32_t recv = rec_kind(b, 20, IPS_NODE_RECV, 0);
    assert_int_equal(b->g.wait[recv], 0);
    assert_int_equal(b->g.at[recv], US(150));
    assert_int_equal(longest(b, IPS_WEIGH_WALL, US(1)), US(159));
    rec_free(r);
}

/* A read in a handler took the first half of a message, the read that it came
 * in the rest, and says by its CPU that all was there long before. Would catch:
 * the first one's wait judged before all receives of the send are known. */
static void test_build_wall__half_of_it_was_there(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs a = rec_stream(r, 10, 10, 1), z = rec_stream(r, 20, 20, 1);
    rec_start(a, IPS_START_IMAGE, US(1), 0);
    rec_pipe(a, 1, US(1), IPS_SIDE_WRITE, 5);
    rec_io(a, IPS_REC_SEND, 1, US(10), US(140), US(5), US(135), 8);
    rec_end(a, IPS_END_EXIT, US(200), US(140), 0);
    rec_start(z, IPS_START_IMAGE, US(1), 0);
    rec_pipe(z, 1, US(1), IPS_SIDE_READ, 5);
    rec_io(z, IPS_REC_RECV, 1, US(100), US(150), US(90), US(92), 4);
    rec_io(z, IPS_REC_RECV, 1, US(20), US(151), US(0), US(93), 4);
    rec_end(z, IPS_END_EXIT, US(200), US(140), 0);
    struct ips_built *b = rec_build(r);
    uint32_t recv = rec_kind(b, 20, IPS_NODE_RECV, 0);
    assert_int_equal(b->g.xkind[recv], IPS_X_DATA);
    assert_int_equal(b->g.wait[recv], 0);
    rec_free(r);
}

/* Would catch: a message that arrives before it was sent, since its sender's
 * call went on after the receiver woke. */
static void test_build_wall__no_arc_against_the_clock(void **state)
{
    (void)state;
    rs a, z;
    struct recorder *r = pipe_of_two(&a, &z);
    rec_recv(z, 1, US(5), US(14), US(3), 8);
    rec_io(z, IPS_REC_RECV, 1, US(15), US(41), US(4), US(6), 8);
    rec_end(z, IPS_END_EXIT, US(50), US(12), 0);
    rs c = rec_stream(r, 30, 30, 1);
    rec_start(c, IPS_START_IMAGE, US(1), 0);
    rec_pipe(c, 1, US(1), IPS_SIDE_WRITE, 5);
    rec_io(c, IPS_REC_SEND, 1, US(40), US(60), US(20), US(40), 8);
    rec_end(c, IPS_END_EXIT, US(70), US(50), 0);
    struct ips_built *b = rec_build(r);
    for (uint32_t i = 0; i < b->g.node_count; i++)
        if (b->g.xpred[i] != IPS_NO_NODE)
            assert_true(b->g.at[b->g.xpred[i]] <= b->g.at[i]);
    assert_int_equal(longest(b, IPS_WEIGH_WALL, US(1)), US(69));
    rec_free(r);
}

/* A thread that computes alone: 100 us of CPU in 200, and the kernel's sum in
 * the middle. Would catch: a window without a node that is lost, or one that
 * fills all of the gap it ends in. */
static void test_build_wall__a_hog(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs s = rec_stream(r, 10, 10, 1);
    rec_start(s, IPS_START_FORK, US(100), 0);
    rec_delay(s, US(150), US(20));
    rec_delay(s, US(200), US(60));
    rec_end(s, IPS_END_EXIT, US(300), US(100), 0);
    struct ips_built *b = rec_build(r);
    assert_int_equal(b->g.delay[rec_last(b, 10)], US(60));
    assert_int_equal(b->counts.delay_unknown_ns, US(40));
    assert_int_equal(longest(b, IPS_WEIGH_SCHED, 0), US(160));
    assert_int_equal(longest(b, IPS_WEIGH_WALL, US(100)), US(200));
    rec_free(r);
}

/* A thread that is made at 11 and begins at 20, having queued. Would catch: the
 * delay before its life counted in it, or lost from the run's sum. */
static void test_build_wall__queued_before_its_first_instruction(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs s = rec_stream(r, 10, 10, 1);
    rec_start(s, IPS_START_IMAGE, US(1), 0);
    rec_fork(s, IPS_FORK_THREAD, US(10), US(11), US(9), US(10), 0, 1);
    rec_end(s, IPS_END_EXIT, US(60), US(50), 0);
    rs t = rec_stream(r, 10, 11, 1);
    rec_start(t, IPS_START_THREAD, US(20), 0)->fork_seq = 1;
    rec_delay(t, US(20), US(9));
    rec_delay(t, US(30), US(12));
    rec_delay(t, US(40), US(12));
    rec_end(t, IPS_END_THREAD, US(40), US(14), 0);
    struct ips_built *b = rec_build(r);
    uint32_t chain = UINT32_MAX;
    for (uint32_t c = 0; c < b->g.chain_count; c++)
        if (b->g.chains[c].tid == 11)
            chain = c;
    assert_true(chain != UINT32_MAX);
    const struct ips_thread_row *row = &b->threads[chain];
    uint64_t waits = 0;
    for (int i = 0; i < IPS_WAIT_COUNT; i++)
        waits += row->wait_ns[i];
    assert_int_equal(row->delay_ns, US(3));
    assert_int_equal(row->woken_ns, 0);
    assert_int_equal(b->counts.delay_ns, US(12));
    assert_true(row->cpu_ns + waits + row->delay_ns + row->unknown_ns <=
                row->end_ns - row->start_ns);
    rec_free(r);
}

/* A send that was preempted for 18 us, then a receive that slept for 29. Would
 * catch: run delay shared between both, so that the wall path had unattributed
 * time at the send, and the receive seemed to sleep less than it did. */
static void test_build_wall__preempted_send_queued(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs a = rec_stream(r, 10, 10, 1), z = rec_stream(r, 20, 20, 1);
    rec_start(a, IPS_START_IMAGE, US(1), 0);
    rec_start(z, IPS_START_IMAGE, US(2), 0);
    rec_pipe(a, 1, US(2), IPS_SIDE_WRITE, 5);
    rec_pipe(a, 2, US(2), IPS_SIDE_READ, 6);
    rec_pipe(z, 1, US(3), IPS_SIDE_READ, 5);
    rec_pipe(z, 2, US(3), IPS_SIDE_WRITE, 6);
    rec_delay(a, US(5), 0);
    rec_io(a, IPS_REC_SEND, 1, US(20), US(40), US(19), US(21), 8);
    rec_io(a, IPS_REC_RECV, 2, US(50), US(80), US(31), US(32), 8);
    rec_delay(a, US(90), US(18));
    rec_end(a, IPS_END_EXIT, US(100), US(52), 0);
    rec_recv(z, 1, US(44), US(45), US(5), 8);
    rec_send(z, 2, US(60), US(9), 8);
    rec_end(z, IPS_END_EXIT, US(90), US(20), 0);
    struct ips_built *b = rec_build(r);
    uint32_t send = rec_kind(b, 10, IPS_NODE_SEND, 0);
    uint32_t recv = rec_kind(b, 10, IPS_NODE_RECV, 0);
    const struct ips_thread_row *row = &b->threads[rec_chain(b, 10)];
    assert_int_equal(b->g.delay[send + 1], US(18));
    assert_int_equal(b->g.wait[send + 1], 0);
    assert_int_equal(b->g.wait[recv], US(29));
    assert_int_equal(row->delay_ns, US(18));
    assert_int_equal(row->woken_ns, 0);
    assert_int_equal(row->wait_ns[IPS_WAIT_PEER], US(29));
    rec_free(r);
}

/* Records of a liar: a sum that goes back, and one of an age. */
static void test_build_wall__absurd_sums(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs s = rec_stream(r, 10, 10, 1);
    rec_start(s, IPS_START_FORK, US(100), 0);
    rec_delay(s, US(150), UINT64_MAX);
    rec_delay(s, US(200), US(1));
    rec_delay(s, US(250), UINT64_MAX);
    rec_end(s, IPS_END_EXIT, US(300), US(100), 0);
    struct ips_built *b = rec_build(r);
    assert_true(b->g.delay[rec_last(b, 10)] <= US(100));
    assert_true(longest(b, IPS_WEIGH_SCHED, 0) <= US(200));
    rec_free(r);
}

/* What the second of two reads slept, that was asked for 2 us before the first
 * one returned (its record says so), of a message that was sent then. */
static uint64_t slept_since_the_last(uint64_t sent)
{
    struct recorder *r = rec_new();
    rs a = rec_stream(r, 10, 10, 1), z = rec_stream(r, 20, 20, 1);
    rec_start(a, IPS_START_IMAGE, US(1), 0);
    rec_pipe(a, 1, US(1), IPS_SIDE_WRITE, 5);
    rec_send(a, 1, US(3), US(2), 8);
    rec_send(a, 1, sent, sent - US(1), 8);
    rec_end(a, IPS_END_EXIT, US(20), US(19), 0);
    rec_start(z, IPS_START_IMAGE, US(2), 0);
    rec_pipe(z, 1, US(2), IPS_SIDE_READ, 5);
    rec_recv(z, 1, US(2), US(10), US(1), 8);
    rec_recv(z, 1, US(8), US(14), US(1), 8);
    rec_end(z, IPS_END_EXIT, US(20), US(2), 0);
    struct ips_built *b = rec_build(r);
    uint32_t recv = rec_kind(b, 20, IPS_NODE_RECV, 1);
    assert_arc(b, recv, rec_kind(b, 10, IPS_NODE_SEND, 1), IPS_X_DATA);
    uint64_t wait = b->g.wait[recv];
    rec_free(r);
    return wait;
}

/* Would catch: a sleep that is cut to the time there was for it, and then
 * compared with the moment of another message than its own, or with none. */
static void test_build_wall__cut_and_there(void **state)
{
    (void)state;
    assert_int_equal(slept_since_the_last(US(9)), 0);
    assert_int_equal(slept_since_the_last(US(11)), US(4));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_build_wall__a_wake_up_that_queued),
        cmocka_unit_test(test_build_wall__preempted_send_queued),
        cmocka_unit_test(test_build_wall__it_was_there),
        cmocka_unit_test(test_build_wall__half_of_it_was_there),
        cmocka_unit_test(test_build_wall__no_arc_against_the_clock),
        cmocka_unit_test(test_build_wall__a_hog),
        cmocka_unit_test(test_build_wall__queued_before_its_first_instruction),
        cmocka_unit_test(test_build_wall__cut_and_there),
        cmocka_unit_test(test_build_wall__absurd_sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
