/* Polls: the node of their return, and what made the first descriptor ready.
 * Each case says what it would catch. */
#include <errno.h>

#include "recorder.h"

#define TCP_PORT 80

static rs process(struct recorder *r, uint32_t pid)
{
    rs s = rec_stream(r, pid, pid, pid);
    rec_start(s, IPS_START_IMAGE, pid, 0);
    return s;
}

/* The two ends of a pipe, channel 1: 10 writes, 20 reads. */
static void piped(struct recorder *r, rs *w, rs *p)
{
    *w = process(r, 10);
    *p = process(r, 20);
    rec_pipe(*w, 1, 30, IPS_SIDE_WRITE, 5);
    rec_pipe(*p, 1, 30, IPS_SIDE_READ, 5);
}

static struct ips_rec_io *polled(rs s, uint64_t t, uint64_t t_ret, uint64_t cpu,
                                 uint32_t ready, uint32_t why)
{
    struct ips_rec_io *p =
        rec_io(s, IPS_REC_BLOCK, why, t, t_ret, cpu, cpu + 5, 1);
    p->op = IPS_OP_POLL;
    p->ready = ready;
    return p;
}
#define RECV(b, n) rec_kind(b, 20, IPS_NODE_RECV, n)
#define POLL(b) rec_kind(b, 20, IPS_NODE_POLL, 0)
#define SEND(b, n) rec_kind(b, 10, IPS_NODE_SEND, n)
#define AUX(b, tid, n) rec_kind(b, tid, IPS_NODE_AUX, n)
#define WAITED(b, cause) ((b)->threads[rec_chain(b, 20)].wait_ns[cause])

/* Would catch: no arc to a poll whose byte is read late or never; its sleep
 * counted again with the read; what had been read before the call taken for the
 * waker. */
static void test_build_poll__nobody_reads(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs w, p;
    piped(r, &w, &p);
    rec_send(w, 1, 500, 100, 10);
    rec_send(w, 1, 8000, 300, 10);
    rec_send(w, 1, 8500, 320, 10);
    rec_recv(p, 1, 600, 610, 10, 10);
    polled(p, 1000, 9000, 20, 1, IPS_READY_IN);
    rec_send(p, 9, 9100, 900, 10); /* something else is done first */
    rec_recv(p, 1, 20000, 20010, 1000, 20);
    struct ips_built *b = rec_alone(r);
    assert_int_equal(rec_coord(b, POLL(b)), 20);
    assert_arc(b, POLL(b), SEND(b, 1), IPS_X_DATA);
    assert_int_equal(b->g.wait[POLL(b)], 8000 - 5);
    assert_int_equal(rec_coord(b, RECV(b, 1)), 1000);
    assert_arc(b, RECV(b, 1), SEND(b, 2), IPS_X_DATA);
    assert_int_equal(b->g.wait[RECV(b, 1)], 0);
    assert_int_equal(WAITED(b, IPS_WAIT_PEER), 8000 - 5);
    assert_int_equal(b->counts.unended_ns, 0);
    rec_free(r);
}

/* Would catch: bytes that were sent after the poll had returned taken for what
 * ended it, where the program worked between the two. */
static void test_build_poll__work_before_the_read(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs w, p;
    piped(r, &w, &p);
    rec_send(w, 1, 4000, 100, 10);
    rec_send(w, 1, 200000, 150000, 10);
    polled(p, 1000, 5000, 20, 1, IPS_READY_IN);
    rec_recv(p, 1, 300000, 300010, 90000, 20);
    struct ips_built *b = rec_alone(r);
    assert_arc(b, POLL(b), SEND(b, 0), IPS_X_DATA);
    assert_int_equal(rec_coord(b, POLL(b)), 20);
    assert_arc(b, RECV(b, 0), SEND(b, 1), IPS_X_DATA);
    assert_int_equal(rec_coord(b, RECV(b, 0)), 90000);
    rec_free(r);
}

/* Would catch: a node for the poll beside that of the receive that follows at
 * once; the receive on another channel taken for it. */
static void test_build_poll__read_at_once(void **state)
{
    (void)state;
    for (uint32_t other = 0; other < 2; other++) {
        struct recorder *r = rec_new();
        rs w, p;
        piped(r, &w, &p);
        rec_inet(p, 2, 40, IPS_CHAN_TCP, 9, LOOPBACK, 4000, LOOPBACK, TCP_PORT);
        rec_send(w, 1, 4000, 100, 10);
        polled(p, 1000, 5000, 20, 1, IPS_READY_IN);
        rec_recv(p, 1 + other, 5010, 5020, 30, 10);
        struct ips_built *b = rec_alone(r);
        assert_int_equal(b->g.chains[rec_chain(b, 20)].count, 3 + other);
        uint32_t at = other ? POLL(b) : RECV(b, 0);
        assert_int_equal(rec_coord(b, at), 20);
        assert_arc(b, at, SEND(b, 0), IPS_X_DATA);
        assert_int_equal(WAITED(b, IPS_WAIT_PEER), 4000 - 5);
        rec_free(r);
    }
}

/* Would catch: a hang-up without an arc; a close of long ago taken for it, when
 * nobody was seen to close meanwhile; a readable end without bytes taken for
 * the end while somebody may still write. */
static void test_build_poll__closed(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs w, p;
    piped(r, &w, &p);
    rec_close(w, 1, 4000, 100, IPS_CLOSE_FD);
    polled(p, 1000, 5000, 20, 1, IPS_READY_HUP);
    struct ips_built *b = rec_alone(r);
    assert_arc(b, POLL(b), AUX(b, 10, 0), IPS_X_LIFETIME);
    rec_free(r);

    r = rec_new();
    piped(r, &w, &p);
    rec_close(w, 1, 500, 100, IPS_CLOSE_FD);
    polled(p, 1000, 5000, 20, 1, IPS_READY_HUP);
    b = rec_alone(r);
    assert_no_arc(b, POLL(b));
    assert_int_equal(b->counts.unended_ns, 4000 - 5);
    rec_free(r);

    r = rec_new();
    piped(r, &w, &p);
    rs v = process(r, 11); /* writes too, and goes on */
    rec_pipe(v, 1, 30, IPS_SIDE_WRITE, 5);
    rec_send(v, 1, 90000, 10, 10);
    rec_close(w, 1, 4000, 100, IPS_CLOSE_FD);
    polled(p, 1000, 5000, 20, 1, IPS_READY_IN);
    b = rec_alone(r);
    assert_no_arc(b, POLL(b));
    rec_free(r);
}

/* Would catch: room in a pipe without an arc; the read before the call, or one
 * that began after the return, taken for what made it. */
static void test_build_poll__room(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs w = process(r, 20), p = process(r, 10);
    rec_pipe(w, 1, 30, IPS_SIDE_WRITE, 5);
    rec_pipe(p, 1, 30, IPS_SIDE_READ, 5);
    rec_send(w, 1, 100, 10, 65536);
    rec_recv(p, 1, 200, 210, 20, 4096);
    rec_send(w, 1, 300, 15, 4096);
    polled(w, 1000, 9000, 20, 1, IPS_READY_OUT);
    rec_recv(p, 1, 8000, 8010, 200, 4096);
    rec_recv(p, 1, 9500, 9510, 300, 4096);
    struct ips_built *b = rec_alone(r);
    assert_arc(b, POLL(b), rec_kind(b, 10, IPS_NODE_RECV, 1), IPS_X_ROOM);
    assert_int_equal(rec_coord(b, POLL(b)), 20);
    rec_free(r);
}

/* Would catch: a connection that another thread of the process shuts down; a
 * shutdown after the return taken for its end. */
static void test_build_poll__own_shutdown(void **state)
{
    (void)state;
    for (uint64_t late = 0; late < 2; late++) {
        struct recorder *r = rec_new();
        rs p = process(r, 20), other = rec_stream(r, 20, 21, 20);
        rec_inet(p, 2, 40, IPS_CHAN_TCP, 9, LOOPBACK, 4000, LOOPBACK, TCP_PORT);
        polled(p, 1000, 5000, 20, 2, IPS_READY_IN | IPS_READY_HUP);
        rec_close(other, 2, late ? 6000 : 4000, 100, IPS_CLOSE_SHUT_RDWR);
        struct ips_built *b = rec_build(r);
        if (late)
            assert_no_arc(b, POLL(b));
        else
            assert_arc(b, POLL(b), AUX(b, 21, 0), IPS_X_LIFETIME);
        rec_free(r);
    }
}

/* Would catch: the peer elsewhere asked for another byte than the first that
 * was not read; its end-of-file for bytes that it sent. */
static void test_build_poll__elsewhere(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs p = process(r, 20);
    rec_inet(p, 2, 40, IPS_CHAN_TCP, 9, 0x0a000001, 4000, 0x0a000002, TCP_PORT);
    rec_recv(p, 2, 500, 510, 10, 10);
    polled(p, 1000, 5000, 20, 2, IPS_READY_IN);
    struct ips_built *b = rec_build(r);
    for (int ended = 0; ended < 2; ended++) {
        struct ips_peer_row row = {.end = 0,
                                   .traced = true,
                                   .peer_closed = true,
                                   .peer_sent_bytes = ended ? 10 : 30};
        assert_int_equal(ips_built_set_peers_and_remake_arcs(b, &row, 1, NULL),
                         0);
        assert_int_equal(b->g.in_count, 2);
        assert_int_equal(b->g.in[1].node, POLL(b));
        assert_int_equal(b->g.in[1].pos, ended ? IPS_POS_EOF : 11);
        assert_int_equal(b->g.xkind[POLL(b)],
                         ended ? IPS_X_LIFETIME : IPS_X_DATA);
    }
    rec_free(r);
}

static void written(rs s, uint64_t t, uint64_t cpu)
{
    struct ips_rec_sync *r =
        rec_put(s, IPS_REC_RELEASE, sizeof(*r), IPS_SYNC_EVENTFD, t);
    r->t_ret = t + 10;
    r->cpu = cpu;
    r->cpu_ret = cpu + 1;
    r->ino = 5;
    r->value = 1;
}

/* Would catch: an eventfd that nobody reads, without an arc; the last of
 * several writes taken for the one that woke; one poll of an epoll within
 * another taken for two waits. */
static void test_build_poll__eventfd(void **state)
{
    (void)state;
    for (int nested = 0; nested < 2; nested++) {
        struct recorder *r = rec_new();
        rs w = process(r, 10), p = process(r, 20);
        written(w, 500, 50);
        written(w, 4000, 100);
        written(w, 4500, 120);
        if (nested)
            polled(p, 1000, 4800, 20, IPS_READY_EPOLL, IPS_READY_IN);
        polled(p, nested ? 4850 : 1000, 5000, nested ? 26 : 20,
               IPS_READY(IPS_READY_EVENTFD, 5), IPS_READY_IN);
        struct ips_built *b = rec_alone(r);
        assert_int_equal(b->g.chains[rec_chain(b, 20)].count, 2 + 1);
        assert_arc(b, AUX(b, 20, 0), AUX(b, 10, 0), IPS_X_RESOURCE);
        assert_int_equal(b->g.t_ns[AUX(b, 10, 0)], 4000);
        assert_int_equal(rec_coord(b, AUX(b, 20, 0)), 20);
        assert_int_equal(b->counts.unended_ns, 0);
        rec_free(r);
    }
}

/* Would catch: a timer that is polled taken for a wait that nothing explains.
 */
static void test_build_poll__timer(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs p = process(r, 20);
    polled(p, 1000, 5000, 20, IPS_READY_TIMERFD, IPS_READY_IN);
    struct ips_built *b = rec_alone(r);
    assert_int_equal(WAITED(b, IPS_WAIT_TIMER), 4000 - 5);
    assert_int_equal(b->counts.unended_ns, 0);
    rec_free(r);
}

/* Would catch: a wait in vain without the child that ended last, or with one
 * that ended later, or with another than was asked for. */
static void test_build_poll__children_in_vain(void **state)
{
    (void)state;
    for (uint32_t pid = 0; pid < 23; pid += 22) {
        struct recorder *r = rec_new();
        rs p = process(r, 20);
        for (uint32_t child = 22; child < 25; child++) {
            rec_fork(p, IPS_FORK_FORK, 10 * child, 10 * child + 5, 10, 10,
                     child, child);
            rs s = rec_stream(r, child, child, 10 * child + 1);
            struct ips_rec_start *start =
                rec_start(s, IPS_START_FORK, 10 * child + 1, 0);
            start->ppid = 20;
            start->parent_image = 20;
            start->fork_seq = child;
            rec_end(s, IPS_END_EXIT, 1000 * child, child, 0);
        }
        struct ips_rec_io *vain =
            rec_io(p, IPS_REC_BLOCK, 0, 5000, 23500, 40, 45, -1);
        vain->op = IPS_OP_CHILD;
        vain->err = ECHILD;
        vain->ready = IPS_READY(IPS_READY_PIDFD, pid);
        struct ips_built *b = rec_alone(r);
        assert_arc(b, AUX(b, 20, 0), rec_last(b, pid ? pid : 23),
                   IPS_X_LIFETIME);
        rec_free(r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_build_poll__nobody_reads),
        cmocka_unit_test(test_build_poll__work_before_the_read),
        cmocka_unit_test(test_build_poll__read_at_once),
        cmocka_unit_test(test_build_poll__closed),
        cmocka_unit_test(test_build_poll__room),
        cmocka_unit_test(test_build_poll__own_shutdown),
        cmocka_unit_test(test_build_poll__elsewhere),
        cmocka_unit_test(test_build_poll__eventfd),
        cmocka_unit_test(test_build_poll__timer),
        cmocka_unit_test(test_build_poll__children_in_vain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
