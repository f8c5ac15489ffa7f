/* Signals that the kernel sends because something is ready, polls of signalfds
 * and message queues, reads of watched directories: who made it so. 10 does
 * what ends the waits of 20. Each case says what it would catch. */
#include "rec_signal.h"

#define SIGNALFD                                                               \
    IPS_READY_SIGNALFD(1u << SIGTERM | 1u << SIGUSR1 | 1u << SIGCHLD)
#define QUEUE IPS_READY_NUMBER(IPS_READY_QUEUE(77))

static struct ips_rec_io *polled(rs s, uint64_t t, uint64_t t_ret, uint64_t cpu,
                                 uint32_t ready)
{
    struct ips_rec_io *p = put_block(s, IPS_OP_POLL, t, t_ret, cpu, cpu + 5, 1);
    p->h.a = IPS_READY_IN;
    p->ready = ready;
    return p;
}

static struct ips_rec_sync *put_object(rs s, enum ips_rec_type type,
                                       enum ips_sync kind, uint64_t t,
                                       uint64_t t_ret, uint64_t cpu,
                                       uint64_t ino)
{
    struct ips_rec_sync *r = rec_put(s, type, sizeof(*r), kind, t);
    r->t_ret = t_ret;
    r->cpu = cpu;
    r->cpu_ret = cpu + 1;
    r->ino = ino;
    r->value = 1;
    return r;
}

/* Node AUX n of 20 slept `slept` ns at coordinate `coord` until 10's only node,
 * which is at coordinate `sent`. */
static void assert_ended_by(const struct ips_built *b, uint32_t n,
                            uint64_t coord, uint64_t slept, uint64_t sent)
{
    assert_int_equal(b->g.xpred[AUX(b, 20, n)], AUX(b, 10, 0));
    assert_int_equal(rec_coord(b, AUX(b, 20, n)), coord);
    assert_int_equal(b->g.wait[AUX(b, 20, n)], slept);
    assert_int_equal(rec_coord(b, AUX(b, 10, 0)), sent);
    assert_int_equal(b->counts.unended_ns, 0);
}

/* Would catch: a poll of a signalfd that nobody reads without an arc, or with
 * that of a kill before its call, for another process, or later than the first;
 * a wait that ended without a kill taken for explained. */
static void test_build_notice__signalfd_not_read(void **state)
{
    (void)state;
    for (int killed = 0; killed < 2; killed++) {
        struct recorder *r = rec_new();
        rs a = process(r, 10), p = process(r, 20);
        put_kill(a, SIGUSR1, 900, 10, 20);
        put_kill(a, SIGUSR1, 4000, 40, 30);
        put_kill(a, SIGUSR2, 4500, 45, 20); /* not in the signalfd's set */
        put_kill(a, SIGRTMIN, 4600, 46, 20);
        if (killed) {
            put_kill(a, SIGUSR1, 5000, 50, 20);
            put_kill(a, SIGUSR1, 5500, 55, 20);
        }
        polled(p, 1000, 6000, 20, SIGNALFD);
        rec_end(p, IPS_END_EXIT, 20000, 60, 0);
        struct ips_built *b = rec_alone(r);
        if (killed)
            assert_ended_by(b, 0, 20, 4995, 50);
        else
            assert_int_equal(b->counts.unended_ns, 4995);
        assert_int_equal(b->threads[rec_chain(b, 20)].wait_ns[IPS_WAIT_SIGNAL],
                         4995);
        rec_free(r);
    }
}

/* Would catch: the end of a child of somebody else; no arc from that of its
 * own, whose SIGCHLD made the signalfd ready. */
static void test_build_notice__signalfd_and_child(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs p = process(r, 20), other = process(r, 40);
    rec_fork(p, IPS_FORK_FORK, 300, 310, 5, 6, 30, 1);
    rec_fork(other, IPS_FORK_FORK, 300, 310, 5, 6, 50, 1);
    rs child = rec_stream(r, 30, 30, 320), nephew = rec_stream(r, 50, 50, 320);
    rec_start(child, IPS_START_FORK, 320, 1)->ppid = 20;
    rec_start(nephew, IPS_START_FORK, 320, 1)->ppid = 40;
    rec_end(nephew, IPS_END_EXIT, 3000, 200, 0);
    rec_end(child, IPS_END_EXIT, 5000, 400, 0);
    polled(p, 1000, 6000, 20, SIGNALFD);
    rec_end(p, IPS_END_EXIT, 20000, 60, 0);
    struct ips_built *b = rec_alone(r);
    const struct ips_chain *c = &b->g.chains[rec_chain(b, 30)];
    uint32_t found = 0;
    for (uint32_t n = 0; n < 2 && !found; n++)
        found = b->g.wait[AUX(b, 20, n)] == 4995 ? AUX(b, 20, n) : 0;
    assert_int_not_equal(found, 0);
    assert_arc(b, found, c->first + c->count - 1, IPS_X_SIGNAL);
    assert_int_equal(b->counts.unended_ns, 0);
    rec_free(r);
}

/* Would catch: a poll of a queue without an arc; that of a message of another
 * queue, or of one that lay there before; a poll that takes the message from
 * the receive that follows, which did not wait. */
static void test_build_notice__poll_of_a_queue(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs a = process(r, 10), p = process(r, 20);
    put_object(a, IPS_REC_RELEASE, IPS_SYNC_SEMAPHORE, 800, 810, 10, QUEUE);
    put_object(a, IPS_REC_RELEASE, IPS_SYNC_SEMAPHORE, 4000, 4010, 40,
               QUEUE + 1);
    put_object(a, IPS_REC_RELEASE, IPS_SYNC_SEMAPHORE, 5000, 5010, 50, QUEUE);
    put_object(a, IPS_REC_RELEASE, IPS_SYNC_SEMAPHORE, 5500, 5510, 55, QUEUE);
    polled(p, 1000, 6000, 20, IPS_READY_QUEUE(77));
    rec_end(p, IPS_END_EXIT, 20000, 60, 0);
    struct ips_built *b = rec_alone(r);
    assert_ended_by(b, 0, 20, 4995, 51);
    assert_int_equal(b->g.xkind[AUX(b, 20, 0)], IPS_X_RESOURCE);
    rec_free(r);
}

/* Would catch: a poll for space in a queue that ends with a message, or has no
 * arc from the receive that made the space. */
static void test_build_notice__poll_for_space(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs a = process(r, 10), p = process(r, 20);
    put_object(a, IPS_REC_RELEASE, IPS_SYNC_SEMAPHORE, 4000, 4010, 40, QUEUE);
    put_object(a, IPS_REC_RELEASE, IPS_SYNC_SEMAPHORE, 5000, 5010, 50, QUEUE)
        ->object = IPS_SYNC_OF_SPACE;
    polled(p, 1000, 6000, 20, IPS_READY_QUEUE(77))->h.a = IPS_READY_OUT;
    rec_end(p, IPS_END_EXIT, 20000, 60, 0);
    struct ips_built *b = rec_alone(r);
    assert_ended_by(b, 0, 20, 4995, 51);
    rec_free(r);
}

/* Would catch: the poll of a signalfd within an epoll that slept: its signal
 * taken for the next one that the thread takes, whose arc is then wrong. */
static void test_build_notice__nested_poll_of_a_signalfd(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs a = process(r, 10), p = process(r, 20);
    put_kill(a, SIGUSR1, 8000, 50, 20);
    put_kill(a, SIGTERM, 15000, 150, 20);
    polled(p, 1000, 4000, 10, IPS_READY_EPOLL)->op = IPS_OP_EPOLL;
    polled(p, 4010, 9000, 20, SIGNALFD)->op = IPS_OP_EPOLL;
    put_block(p, IPS_OP_SIGWAIT, 10000, 16000, 30, 35, SIGTERM);
    put_taken(p, SIGTERM, 16000, 35, 10)->how = IPS_SIGNAL_WAIT;
    rec_end(p, IPS_END_EXIT, 20000, 60, 0);
    struct ips_built *b = rec_alone(r);
    assert_arc(b, AUX(b, 20, 0), AUX(b, 10, 0), IPS_X_SIGNAL);
    assert_arc(b, AUX(b, 20, 1), AUX(b, 10, 1), IPS_X_SIGNAL);
    assert_int_equal(rec_coord(b, AUX(b, 20, 1)), 30);
    assert_int_equal(b->g.wait[AUX(b, 20, 0)], 2995 + 4985);
    assert_int_equal(b->counts.unended_ns, 0);
    rec_free(r);
}

/* Would catch: mq_notify's signal without an arc from the message, to a handler
 * or to sigwait; the message of a queue that it is not for. */
static void test_build_notice__of_a_message(void **state)
{
    (void)state;
    for (int handled = 0; handled < 2; handled++) {
        struct recorder *r = rec_new();
        rs a = process(r, 10), p = process(r, 20);
        put_object(a, IPS_REC_RELEASE, IPS_SYNC_SEMAPHORE, 5000, 5010, 50,
                   QUEUE);
        put_object(a, IPS_REC_RELEASE, IPS_SYNC_SEMAPHORE, 5500, 5510, 55,
                   QUEUE + 1);
        if (!handled)
            put_block(p, IPS_OP_SIGWAIT, 1000, 6000, 20, 25, SIGUSR1);
        put(p, IPS_REC_SIGNAL, handled ? IPS_SIGNAL_HANDLER : IPS_SIGNAL_WAIT,
            SIGUSR1, 6000, 25, 10, SI_MESGQ)
            ->value = QUEUE;
        if (handled)
            put_block(p, IPS_OP_SIGWAIT, 1000, 6010, 20, 26, -1);
        rec_end(p, IPS_END_EXIT, 20000, 60, 0);
        struct ips_built *b = rec_alone(r);
        assert_ended_by(b, 0, 20, handled ? 5000 : 4995, 51);
        rec_free(r);
    }
}

/* Would catch: SIGIO without an arc from the send that made its descriptor
 * ready; with that of a send whose bytes were read before. */
static void test_build_notice__descriptor_is_ready(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs a = process(r, 10), p = process(r, 20);
    rec_pipe(a, 1, 30, IPS_SIDE_WRITE, 5);
    rec_pipe(p, 1, 30, IPS_SIDE_READ, 5);
    rec_send(a, 1, 400, 10, 8);
    rec_recv(p, 1, 500, 510, 10, 8);
    rec_send(a, 1, 5000, 50, 8);
    put(p, IPS_REC_SIGNAL, IPS_SIGNAL_HANDLER, SIGIO, 6000, 25, 0, POLL_IN)
        ->value = 1 | (uint64_t)IPS_READY_IN << 32;
    put_block(p, IPS_OP_SIGWAIT, 1000, 6010, 20, 26, -1);
    rec_end(p, IPS_END_EXIT, 20000, 60, 0);
    struct ips_built *b = rec_alone(r);
    uint32_t node = rec_kind(b, 20, IPS_NODE_POLL, 0);
    assert_arc(b, node, rec_kind(b, 10, IPS_NODE_SEND, 1), IPS_X_DATA);
    assert_int_equal(rec_coord(b, node), 20);
    assert_int_equal(b->g.wait[node], 5000);
    assert_int_equal(b->counts.unended_ns, 0);
    rec_free(r);
}

/* Would catch: a read of inotify without an arc from the call that changed the
 * name it reports; that of another name; a poll before it whose wait is lost.
 */
static void test_build_notice__watched_name(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs a = process(r, 10), p = process(r, 20);
    put_object(a, IPS_REC_RELEASE, IPS_SYNC_WATCH, 4000, 4010, 40, 9);
    put_object(a, IPS_REC_RELEASE, IPS_SYNC_WATCH, 5000, 5010, 50, 7);
    polled(p, 1000, 6000, 20, 0);
    put_object(p, IPS_REC_ACQUIRE, IPS_SYNC_WATCH, 6100, 6110, 30, 7);
    rec_end(p, IPS_END_EXIT, 20000, 60, 0);
    struct ips_built *b = rec_alone(r);
    assert_ended_by(b, 0, 20, 4995, 51);
    assert_int_equal(b->threads[rec_chain(b, 20)].wait_ns[IPS_WAIT_EVENT],
                     4995);
    rec_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_build_notice__signalfd_not_read),
        cmocka_unit_test(test_build_notice__signalfd_and_child),
        cmocka_unit_test(test_build_notice__poll_of_a_queue),
        cmocka_unit_test(test_build_notice__poll_for_space),
        cmocka_unit_test(test_build_notice__nested_poll_of_a_signalfd),
        cmocka_unit_test(test_build_notice__of_a_message),
        cmocka_unit_test(test_build_notice__descriptor_is_ready),
        cmocka_unit_test(test_build_notice__watched_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
