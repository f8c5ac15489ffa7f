/* Positions, matching and end-of-file; who is whose peer: test_build_peer.c.
 * Each case says what it would catch. */
#include "rec_ends.h"

/* Would catch: a receive given the first send it has bytes of, not the last;
 * one send that serves two receives matched once only. */
static void test_build_channel__bytes_of_a_pipe(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs w = process(r, 10), p = process(r, 20);
    rec_pipe(w, 1, 2, IPS_SIDE_WRITE, 5);
    rec_pipe(p, 1, 2, IPS_SIDE_READ, 5);
    rec_send(w, 1, 10, 10, 10);
    rec_send(w, 1, 20, 20, 10);
    rec_send(w, 1, 30, 30, 100);
    rec_recv(p, 1, 5, 40, 1, 15);
    rec_recv(p, 1, 41, 41, 2, 5);
    rec_recv(p, 1, 42, 42, 3, 40);
    rec_recv(p, 1, 43, 43, 4, 60);
    struct ips_built *b = rec_build(r);
    assert_arc(b, RECV(b, 20, 0), SEND(b, 10, 1), IPS_X_DATA);
    assert_arc(b, RECV(b, 20, 1), SEND(b, 10, 1), IPS_X_DATA);
    assert_arc(b, RECV(b, 20, 2), SEND(b, 10, 2), IPS_X_DATA);
    assert_arc(b, RECV(b, 20, 3), SEND(b, 10, 2), IPS_X_DATA);
    assert_int_equal(b->g.xlen[RECV(b, 20, 0)], 15);
    uint32_t end = b->g.site[RECV(b, 20, 0)];
    assert_string_equal(b->ends[end].name, "pipe 13:5");
    assert_int_equal(b->ends[end].recv_bytes, 120);
    assert_int_equal(b->ends[b->ends[end].peer_end].sent_messages, 3);
    assert_int_equal(b->traffic_count, 2);
    assert_int_equal(b->threads[rec_chain(b, 10)].bytes_out, 120);
    assert_int_equal(b->threads[rec_chain(b, 20)].messages_in, 4);
    rec_free(r);
}

/* Would catch: a send that lies after the arrival of its bytes, or at its call
 * where it had CPU to spend before. */
static void test_build_channel__send_at_its_return(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs w = process(r, 10), p = process(r, 20);
    rec_pipe(w, 1, 2, IPS_SIDE_WRITE, 5);
    rec_pipe(p, 1, 2, IPS_SIDE_READ, 5);
    rec_io(w, IPS_REC_SEND, 1, 100, 1000, 50, 900, 10);
    rec_io(w, IPS_REC_SEND, 1, 2000, 2900, 1000, 1800, 10);
    rec_recv(p, 1, 5, 400, 1, 10);
    rec_recv(p, 1, 405, 9000, 2, 10);
    struct ips_built *b = rec_build(r);
    assert_int_equal(rec_coord(b, SEND(b, 10, 0)), 50 + 300);
    assert_int_equal(rec_coord(b, SEND(b, 10, 1)), 1800);
    rec_free(r);
}

/* Would catch: a blocked send as one node (a cycle), its return without the
 * receive that made room, or with a later one. */
static void test_build_channel__blocked_send_has_two_nodes(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs w = process(r, 10), p = process(r, 20);
    rec_pipe(w, 1, 2, IPS_SIDE_WRITE, 5);
    rec_pipe(p, 1, 2, IPS_SIDE_READ, 5);
    rec_io(w, IPS_REC_SEND, 1, 100, 9000, 50, 150, 30000);
    rec_recv(p, 1, 200, 300, 1, 10000);
    rec_recv(p, 1, 8000, 8900, 2, 10000);
    rec_recv(p, 1, 9100, 9200, 3, 10000);
    struct ips_built *b = rec_build(r);
    uint32_t send = SEND(b, 10, 0);
    assert_int_equal(rec_coord(b, send), 50);
    assert_int_equal(b->g.kind[send + 1], IPS_NODE_AUX);
    assert_int_equal(rec_coord(b, send + 1), 150);
    assert_arc(b, send + 1, RECV(b, 20, 1), IPS_X_ROOM);
    for (uint32_t k = 0; k < 3; k++)
        assert_arc(b, RECV(b, 20, k), send, IPS_X_DATA);
    assert_int_equal(b->counts.ambiguous, 0);
    assert_int_equal(b->threads[rec_chain(b, 10)].wait_ns[IPS_WAIT_PEER], 8800);
    rec_free(r);
}

/* Would catch: a send of a few bytes that was only preempted taken for one that
 * waited for room, so that its CPU falls off the path. */
static void test_build_channel__preempted_send_had_room(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs w = process(r, 10), p = process(r, 20);
    rec_pipe(w, 1, 2, IPS_SIDE_WRITE, 5);
    rec_pipe(p, 1, 2, IPS_SIDE_READ, 5);
    rec_io(w, IPS_REC_SEND, 1, 100, 9000, 50, 150, 4096);
    rec_recv(p, 1, 200, 8000, 1, 4096);
    struct ips_built *b = rec_build(r);
    uint32_t send = SEND(b, 10, 0);
    assert_int_equal(rec_coord(b, send), 150);
    assert_int_equal(b->g.xpred[send + 1], IPS_NO_NODE);
    assert_int_equal(b->threads[rec_chain(b, 10)].wait_ns[IPS_WAIT_PEER], 0);
    rec_free(r);
}

/* Would catch: sends that were preempted while the reader, preempted in its
 * read, had not returned yet, taken for waits for the space that this read
 * made, although it got what they and later ones sent (seen on a busy machine:
 * a cycle, and the arcs of all receives after it were dropped). A socket's
 * reader may make space and go on: there the arc begins where it came to its
 * call. */
static void test_build_channel__reader_returns_late(void **state)
{
    (void)state;
    for (int socket = 0; socket < 2; socket++) {
        struct recorder *r = rec_new();
        rs w = process(r, 10), p = process(r, 20);
        if (socket) {
            rec_inet(w, 1, 2, IPS_CHAN_TCP, 7, LOOPBACK, 80, LOOPBACK, 4000);
            rec_inet(p, 1, 2, IPS_CHAN_TCP, 8, LOOPBACK, 4000, LOOPBACK, 80);
        } else {
            rec_pipe(w, 1, 2, IPS_SIDE_WRITE, 5);
            rec_pipe(p, 1, 2, IPS_SIDE_READ, 5);
        }
        rec_send(w, 1, 90, 40, 4000);
        rec_io(w, IPS_REC_SEND, 1, 100, 9000, 50, 150, 4000);
        rec_io(w, IPS_REC_SEND, 1, 10000, 18000, 160, 260, 4000);
        rec_io(p, IPS_REC_RECV, 1, 95, 90000, 10, 60, 12000);
        struct ips_built *b = rec_build(r);
        uint32_t second = SEND(b, 10, 1), third = SEND(b, 10, 2);
        assert_arc(b, RECV(b, 20, 0), third, IPS_X_DATA);
        assert_int_equal(b->counts.ambiguous, 0);
        if (socket) {
            assert_arc(b, second + 1, RECV(b, 20, 0) - 1, IPS_X_ROOM);
            assert_arc(b, third + 1, RECV(b, 20, 0), IPS_X_ROOM);
        } else {
            assert_int_equal(b->g.xpred[second + 1], IPS_NO_NODE);
            assert_int_equal(b->g.xpred[third + 1], IPS_NO_NODE);
        }
        rec_free(r);
    }
}

/* Would catch: a send that the reader's end or close cut short without an arc
 * from it; a reader that closes while a small send is preempted, that made room
 * during the send, or that another process with the end outlives, taken for the
 * cause. */
static void test_build_channel__send_cut_short(void **state)
{
    (void)state;
    static const struct {
        int64_t len;
        bool reads, held, cut;
    } cases[] = {{65536, false, false, true},
                 {30000, false, false, false},
                 {65536, true, false, false},
                 {65536, false, true, false}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct recorder *r = rec_new();
        rs w = process(r, 10), p = process(r, 20);
        rec_pipe(w, 1, 2, IPS_SIDE_WRITE, 5);
        rec_pipe(p, 1, 2, IPS_SIDE_READ, 5);
        rec_io(w, IPS_REC_SEND, 1, 100, 9000, 50, 150, cases[i].len);
        if (cases[i].reads)
            rec_recv(p, 1, 8000, 8700, 390, 100);
        rec_close(p, 1, 8900, 400, IPS_CLOSE_FD);
        rec_end(p, IPS_END_EXIT, 9500, 410, 0);
        if (cases[i].held) {
            rs q = process(r, 30);
            rec_pipe(q, 1, 2, IPS_SIDE_READ, 5);
            rec_end(q, IPS_END_EXIT, 9900, 5, 0);
        }
        struct ips_built *b = rec_build(r);
        uint32_t back = SEND(b, 10, 0) + 1;
        if (cases[i].cut)
            assert_int_equal(b->g.t_ns[b->g.xpred[back]], 8900);
        else
            assert_int_not_equal(b->g.xkind[back], IPS_X_LIFETIME);
        rec_free(r);
    }
}

/* Would catch: several writers of one end taken for one after the other by
 * process; overlapping ones not counted. */
static void test_build_channel__two_writers(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs v = process(r, 10), w = process(r, 11), p = process(r, 20);
    rec_pipe(v, 1, 2, IPS_SIDE_WRITE, 5);
    rec_pipe(w, 7, 2, IPS_SIDE_WRITE, 5);
    rec_pipe(p, 1, 2, IPS_SIDE_READ, 5);
    rec_send(v, 1, 10, 10, 10);
    rec_send(w, 7, 20, 10, 10);
    rec_send(v, 1, 30, 20, 10);
    for (uint32_t k = 0; k < 3; k++)
        rec_recv(p, 1, 40 + k, 40 + k, 1 + k, 10);
    struct ips_built *b = rec_build(r);
    assert_arc(b, RECV(b, 20, 0), SEND(b, 10, 0), IPS_X_DATA);
    assert_arc(b, RECV(b, 20, 1), SEND(b, 11, 0), IPS_X_DATA);
    assert_arc(b, RECV(b, 20, 2), SEND(b, 10, 1), IPS_X_DATA);
    assert_int_equal(b->counts.ambiguous, 0);
    rec_io(v, IPS_REC_SEND, 1, 50, 60, 30, 30, 1);
    rec_io(w, IPS_REC_SEND, 7, 55, 65, 30, 30, 1);
    b = rec_build(r);
    assert_int_equal(b->counts.ambiguous, 1);
    rec_free(r);
}

/* Two readers asleep at once: who was served first matters only where their
 * bytes came from different sends. */

static void test_build_channel__two_readers(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs w = process(r, 10), p = process(r, 20), q = process(r, 21);
    rec_pipe(w, 1, 2, IPS_SIDE_WRITE, 5);
    rec_pipe(p, 1, 2, IPS_SIDE_READ, 5);
    rec_pipe(q, 1, 2, IPS_SIDE_READ, 5);
    rec_send(w, 1, 10, 10, 20);
    rec_recv(p, 1, 5, 20, 1, 10);
    rec_recv(q, 1, 6, 30, 1, 10);
    struct ips_built *b = rec_build(r);
    assert_int_equal(b->counts.ambiguous, 0);
    rec_send(w, 1, 40, 20, 10);
    rec_send(w, 1, 50, 30, 10);
    rec_recv(p, 1, 35, 60, 2, 10);
    rec_recv(q, 1, 36, 61, 2, 10);
    b = rec_build(r);
    assert_arc(b, RECV(b, 20, 1), SEND(b, 10, 1), IPS_X_DATA);
    assert_arc(b, RECV(b, 21, 1), SEND(b, 10, 2), IPS_X_DATA);
    assert_int_equal(b->counts.ambiguous, 1);
    rec_free(r);
}

/* Would catch: a descriptor passed to another process, or inherited through
 * exec, taken for another end; an id named in another thread not found. */
static void test_build_channel__passed_and_inherited(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs s = process(r, 10), t = process(r, 11), c = process(r, 20);
    struct ips_rec_chan *x;
    x = rec_chan(s, 1, 2, IPS_CHAN_UNIX, IPS_SIDE_BOTH, 70);
    x->cookie = 1;
    x->peer_ino = 71;
    x = rec_chan(c, 1, 2, IPS_CHAN_UNIX, IPS_SIDE_BOTH, 71);
    x->cookie = 2;
    rec_send(s, 1, 10, 10, 5);
    x = rec_chan(t, 9, 12, IPS_CHAN_UNIX, IPS_SIDE_BOTH, 70);
    x->cookie = 1;
    rec_send(t, 9, 20, 10, 5); /* the same end, now in process 11 */
    rec_exec(t, 21, 11, false);
    rs u = rec_stream(r, 11, 11, 5000);
    rec_start(u, IPS_START_IMAGE, 30, 15);
    rs u2 = rec_stream(r, 11, 12, 5000);
    rec_start(u2, IPS_START_THREAD, 31, 0);
    x = rec_chan(u2, 1, 32, IPS_CHAN_UNIX, IPS_SIDE_BOTH, 70);
    x->cookie = 1;
    rec_send(u, 1, 40, 20, 5); /* named in the other thread */
    for (uint32_t k = 0; k < 3; k++)
        rec_recv(c, 1, 50 + k, 50 + k, 1 + k, 5);
    struct ips_built *b = rec_build(r);
    assert_int_equal(b->end_count, 2);
    assert_arc(b, RECV(b, 20, 0), SEND(b, 10, 0), IPS_X_DATA);
    assert_arc(b, RECV(b, 20, 1), SEND(b, 11, 0), IPS_X_DATA);
    assert_arc(b, RECV(b, 20, 2), SEND(b, 11, 1), IPS_X_DATA);
    rec_free(r);
}

/* Would catch: end-of-file hung on the first close where a fork child still
 * held the end; on the parent's close; or on nothing. */
static void test_build_channel__eof_waits_for_the_last_holder(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs w = process(r, 10), p = process(r, 20);
    rec_pipe(w, 1, 2, IPS_SIDE_WRITE, 5);
    rec_pipe(p, 1, 2, IPS_SIDE_READ, 5);
    rs c = child(r, w, 30, 10); /* inherits, names nothing */
    rec_close(w, 1, 20, 5, IPS_CLOSE_FD);
    rec_end(c, IPS_END_EXIT, 500, 90, 0);
    rec_recv(p, 1, 15, 600, 1, 0);
    struct ips_built *b = rec_build(r);
    assert_arc(b, RECV(b, 20, 0), rec_last(b, 30), IPS_X_LIFETIME);
    assert_int_equal(b->counts.unmatched + b->counts.ambiguous, 0);
    /* The same, but the reader saw it before the child's end: then the child
     * cannot have held it. */
    struct ips_rec_io *io =
        (struct ips_rec_io *)(void *)(p->data + p->len - sizeof(*io));
    io->t_ret = 400;
    b = rec_build(r);
    assert_arc(b, RECV(b, 20, 0), AUX(b, 10, 0), IPS_X_LIFETIME);
    rec_free(r);
}

/* Would catch: the close of one of two descriptors of a process taken for its
 * last; a process that goes on writing after it. */
static void test_build_channel__two_descriptors_of_one_end(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs w = process(r, 10), p = process(r, 20);
    rec_pipe(w, 1, 2, IPS_SIDE_WRITE, 5);
    rec_pipe(w, 2, 3, IPS_SIDE_WRITE, 5);
    rec_pipe(p, 1, 2, IPS_SIDE_READ, 5);
    rec_close(w, 1, 20, 5, IPS_CLOSE_FD);
    rec_close(w, 2, 40, 6, IPS_CLOSE_FD);
    rec_send(w, 0, 60, 9, 1); /* lives on */
    rec_recv(p, 1, 15, 50, 1, 0);
    struct ips_built *b = rec_build(r);
    assert_arc(b, RECV(b, 20, 0), AUX(b, 10, 1), IPS_X_LIFETIME);
    /* dup that was named only after the close, and written through */
    rec_pipe(w, 3, 70, IPS_SIDE_WRITE, 6);
    rec_pipe(p, 3, 70, IPS_SIDE_READ, 6);
    rec_close(w, 3, 80, 10, IPS_CLOSE_FD);
    rec_pipe(w, 4, 90, IPS_SIDE_WRITE, 6);
    rec_send(w, 4, 91, 11, 5);
    rec_end(w, IPS_END_EXIT, 100, 12, 0);
    rec_recv(p, 3, 95, 95, 2, 5);
    rec_recv(p, 3, 96, 200, 3, 0);
    b = rec_build(r);
    assert_arc(b, RECV(b, 20, 2), rec_last(b, 10), IPS_X_LIFETIME);
    rec_free(r);
}

/* The shell's pipeline: dup2, close, exec. Would catch: end-of-file before the
 * program wrote; the exec not passing the end on. */

static void test_build_channel__eof_over_exec(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs sh = process(r, 10), p = process(r, 20);
    rec_pipe(p, 1, 2, IPS_SIDE_READ, 5);
    rs c = child(r, sh, 30, 10);
    rec_pipe(c, 1, 20, IPS_SIDE_WRITE, 5); /* named to be closed */
    rec_close(c, 1, 21, 5, IPS_CLOSE_FD);
    rec_exec(c, 30, 8, false);
    rs d = rec_stream(r, 30, 30, 5000);
    rec_start(d, IPS_START_IMAGE, 50, 20);
    rec_pipe(d, 1, 51, IPS_SIDE_WRITE, 5);
    rec_send(d, 1, 100, 80, 7);
    rec_end(d, IPS_END_PROVISIONAL, 150, 90, 0);
    rec_send(d, 1, 160, 99, 3); /* stdio's flush comes after */
    d->dead = true;
    rec_recv(p, 1, 60, 110, 1, 7);
    rec_recv(p, 1, 115, 170, 2, 3);
    rec_recv(p, 1, 175, 300, 3, 0);
    struct ips_built *b = rec_build(r);
    assert_arc(b, RECV(b, 20, 1), SEND(b, 30, 1), IPS_X_DATA);
    assert_arc(b, RECV(b, 20, 2), rec_last(b, 30), IPS_X_LIFETIME);
    assert_int_equal(rec_coord(b, rec_last(b, 30)), 99);
    rec_free(r);
}

/* Would catch: close-on-exec not taken for a close. */
static void test_build_channel__eof_by_close_on_exec(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs w = process(r, 10), p = process(r, 20);
    rec_chan(w, 1, 2, IPS_CHAN_PIPE, IPS_SIDE_WRITE, 5)->flags =
        IPS_CHAN_CLOEXEC;
    rec_pipe(p, 1, 2, IPS_SIDE_READ, 5);
    rec_exec(w, 30, 8, false); /* into something that never speaks */
    rec_recv(p, 1, 15, 50, 1, 0);
    struct ips_built *b = rec_build(r);
    assert_arc(b, RECV(b, 20, 0), AUX(b, 10, 0), IPS_X_LIFETIME);
    rec_free(r);
}

/* Would catch: a thread that slept until its child's end or exec had closed the
 * last descriptor, hung on its own close: that was over before it slept, but
 * has the later stamp where the child's record came some us before the close.
 */
static void test_build_channel__eof_by_no_close_of_ones_own(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs p = process(r, 10);
    rec_pipe(p, 1, 2, IPS_SIDE_READ, 5);
    rec_chan(p, 2, 3, IPS_CHAN_PIPE, IPS_SIDE_WRITE, 5)->flags =
        IPS_CHAN_CLOEXEC;
    rs c = child(r, p, 30, 10);
    rec_end(c, IPS_END_EXIT, 40, 20, 0);
    rec_close(p, 2, 45, 5, IPS_CLOSE_FD);
    rec_recv(p, 1, 50, 9000, 6, 0);
    struct ips_built *b = rec_build(r);
    assert_arc(b, RECV(b, 10, 0), rec_last(b, 30), IPS_X_LIFETIME);
    /* It was there: nothing says that the close was not the last. */
    struct ips_rec_io *io =
        (struct ips_rec_io *)(void *)(p->data + p->len - sizeof(*io));
    io->t_ret = 60;
    b = rec_build(r);
    assert_arc(b, RECV(b, 10, 0), AUX(b, 10, 0), IPS_X_LIFETIME);
    rec_free(r);
}

/* Would catch: an end-of-file whose cause nobody recorded, which hangs on a
 * close that was over before the reader slept: its own, or another one's. */
static void test_build_channel__eof_that_nobody_recorded(void **state)
{
    (void)state;
    for (int other = 0; other < 2; other++) {
        struct recorder *r = rec_new();
        rs p = process(r, 10);
        rec_pipe(p, 1, 2, IPS_SIDE_READ, 5);
        rec_chan(p, 2, 3, IPS_CHAN_PIPE, IPS_SIDE_WRITE, 5)->flags =
            IPS_CHAN_CLOEXEC;
        rs c = child(r, p, 30, 10);
        rec_close(c, other ? 2 : 1, 20, 1, IPS_CLOSE_FD);
        rec_close(c, other ? 1 : 2, 22, 1, IPS_CLOSE_FD);
        rec_end(c, IPS_END_EXIT, 9000000000, 20, 0);
        rec_close(p, 2, other ? 15 : 45, 5, IPS_CLOSE_FD);
        rec_recv(p, 1, 2000000000, 6000000000, 6, 0);
        struct ips_built *b = rec_build(r);
        assert_int_equal(b->g.xkind[RECV(b, 10, 0)], IPS_X_NONE);
        assert_int_equal(b->unended_count, 1);
        rec_free(r);
    }
}

/* Would catch: shutdown not being an end-of-file though the socket stays open;
 * EPIPE and ECONNRESET without the close they come from. */
static void test_build_channel__shutdown_and_broken_pipe(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs s = process(r, 10), c = process(r, 20);
    rec_inet(s, 1, 5, IPS_CHAN_TCP, 1, LOOPBACK, 80, LOOPBACK, 4000)->flags =
        IPS_CHAN_ACCEPTED;
    rec_inet(c, 1, 3, IPS_CHAN_TCP, 2, LOOPBACK, 4000, LOOPBACK, 80)->flags =
        IPS_CHAN_CONNECTED;
    rec_close(c, 1, 20, 5, IPS_CLOSE_SHUT_WR);
    rec_recv(s, 1, 10, 30, 1, 0);
    rec_send(s, 1, 40, 2, 9);
    rec_recv(c, 1, 25, 45, 6, 9);
    rec_close(c, 1, 50, 7, IPS_CLOSE_FD);
    rec_send(s, 1, 60, 3, -1)->err = EPIPE;
    rec_io(s, IPS_REC_RECVCALL, 1, 70, 70, 4, 4, -1)->err = ECONNRESET;
    struct ips_built *b = rec_build(r);
    assert_arc(b, RECV(b, 10, 0), AUX(b, 20, 0), IPS_X_LIFETIME);
    assert_arc(b, AUX(b, 10, 0), AUX(b, 20, 1), IPS_X_LIFETIME);
    assert_arc(b, AUX(b, 10, 1), AUX(b, 20, 1), IPS_X_LIFETIME);
    assert_int_equal(b->threads[rec_chain(b, 10)].messages_out, 1);
    rec_free(r);
}

/* Would catch: an end said to be closed while a descriptor of it is open; a
 * failed exec taken for a close; a descriptor used after the close of its
 * last known name not holding. */
static void test_build_channel__held_while_a_descriptor_is_open(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs w = process(r, 10), p = process(r, 20);
    rec_pipe(w, 1, 2, IPS_SIDE_WRITE, 5);
    rec_pipe(w, 2, 3, IPS_SIDE_WRITE, 5);
    rec_pipe(p, 1, 2, IPS_SIDE_READ, 5);
    rec_close(w, 1, 20, 5, IPS_CLOSE_FD);
    struct ips_built *b = rec_build(r);
    uint32_t end = b->g.site[AUX(b, 10, 0)];
    assert_false(b->ends[end].closed);
    rec_exec(w, 30, 6, false);
    rec_exec(w, 31, 6, true);
    rec_send(w, 2, 35, 8, 1);
    b = rec_build(r);
    assert_false(b->ends[end].closed);
    assert_int_equal(b->g.chains[rec_chain(b, 10)].count, 4);
    rec_close(w, 2, 40, 9, IPS_CLOSE_FD);
    b = rec_build(r);
    assert_true(b->ends[end].closed);
    rec_send(w, 2, 50, 10, 1); /* through a dup of one name */
    b = rec_build(r);
    assert_false(b->ends[end].closed);
    rec_end(w, IPS_END_EXIT, 60, 12, 0);
    rec_recv(p, 1, 55, 55, 1, 2);
    rec_recv(p, 1, 56, 70, 1, 0);
    b = rec_build(r);
    assert_arc(b, RECV(b, 20, 1), rec_last(b, 10), IPS_X_LIFETIME);
    rec_free(r);
}

/* Would catch: one writer's sends put in the order of a clock that was set
 * back; a channel id looked up by place where ids have gaps. */
static void test_build_channel__order_of_one_thread(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs w = process(r, 10), p = process(r, 20);
    rec_pipe(w, 1, 2, IPS_SIDE_WRITE, 5);
    rec_pipe(p, 1, 2, IPS_SIDE_READ, 5);
    rec_pipe(p, 9, 2, IPS_SIDE_READ, 6);
    rec_send(w, 1, 100, 1, 10);
    rec_send(w, 1, 50, 2, 20);
    rec_recv(p, 1, 200, 200, 1, 10);
    rec_recv(p, 1, 201, 201, 2, 20);
    rec_recv(p, 2, 202, 202, 3, 20); /* never named */
    struct ips_built *b = rec_build(r);
    assert_arc(b, RECV(b, 20, 0), SEND(b, 10, 0), IPS_X_DATA);
    assert_arc(b, RECV(b, 20, 1), SEND(b, 10, 1), IPS_X_DATA);
    assert_int_equal(b->g.site[RECV(b, 20, 2)], IPS_NONE);
    assert_int_equal(b->counts.unmatched, 1);
    rec_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_build_channel__bytes_of_a_pipe),
        cmocka_unit_test(test_build_channel__send_at_its_return),
        cmocka_unit_test(test_build_channel__blocked_send_has_two_nodes),
        cmocka_unit_test(test_build_channel__preempted_send_had_room),
        cmocka_unit_test(test_build_channel__reader_returns_late),
        cmocka_unit_test(test_build_channel__send_cut_short),
        cmocka_unit_test(test_build_channel__two_writers),
        cmocka_unit_test(test_build_channel__two_readers),
        cmocka_unit_test(test_build_channel__passed_and_inherited),
        cmocka_unit_test(test_build_channel__eof_waits_for_the_last_holder),
        cmocka_unit_test(test_build_channel__two_descriptors_of_one_end),
        cmocka_unit_test(test_build_channel__eof_over_exec),
        cmocka_unit_test(test_build_channel__eof_by_close_on_exec),
        cmocka_unit_test(test_build_channel__eof_by_no_close_of_ones_own),
        cmocka_unit_test(test_build_channel__eof_that_nobody_recorded),
        cmocka_unit_test(test_build_channel__shutdown_and_broken_pipe),
        cmocka_unit_test(test_build_channel__held_while_a_descriptor_is_open),
        cmocka_unit_test(test_build_channel__order_of_one_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
