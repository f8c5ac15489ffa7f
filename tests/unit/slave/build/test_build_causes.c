/* Waits by cause: spinning, disk, terminal, eventfd, file locks, tokens. Each
 * case says what it would catch. */
#include <errno.h>

#include "recorder.h"

static struct ips_rec_io *put(rs s, enum ips_op op, uint64_t t, uint64_t t_ret,
                              uint64_t cpu, uint64_t cpu_ret, int64_t result)
{
    struct ips_rec_io *r =
        rec_io(s, IPS_REC_BLOCK, 0, t, t_ret, cpu, cpu_ret, result);
    r->op = (uint16_t)op;
    return r;
}
static void put_sync(rs s, enum ips_rec_type type, enum ips_sync kind,
                     uint64_t t, uint64_t t_ret, uint64_t cpu, uint64_t cpu_ret)
{
    struct ips_rec_sync *r = rec_put(s, type, sizeof(*r), kind, t);
    r->t_ret = t_ret;
    r->cpu = cpu;
    r->cpu_ret = cpu_ret;
    r->ino = 5;
    r->value = 1;
}
static rs process(struct recorder *r, uint32_t pid)
{
    rs s = rec_stream(r, pid, pid, pid);
    rec_start(s, IPS_START_IMAGE, pid, 0);
    return s;
}
/* The two ends of a pipe: 10 writes, 20 reads. */
static void piped(struct recorder *r, rs *w, rs *p)
{
    *w = process(r, 10);
    *p = process(r, 20);
    rec_pipe(*w, 1, 30, IPS_SIDE_WRITE, 5);
    rec_pipe(*p, 1, 30, IPS_SIDE_READ, 5);
}
#define RECV(b, n) rec_kind(b, 20, IPS_NODE_RECV, n)
#define WAITED(b, tid, cause) ((b)->threads[rec_chain(b, tid)].wait_ns[cause])

/* Would catch: CPU burnt by trying counted as work or put before the message.
 * 20 works 50, tries from 1000 to 9000 (burning 7000), receives with 10 and
 * works 40 more: 100 in all. 10 works 300, then sends: 300 + 10 + 40. */
static void test_build_causes__receive(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs w, p;
    piped(r, &w, &p);
    rec_send(w, 1, 8900, 300, 10);
    rec_end(w, IPS_END_EXIT, 20000, 310, 0);
    rec_io(p, IPS_REC_RECVCALL, 1, 1000, 1001, 50, 51, -1)->err = EAGAIN;
    put(p, IPS_OP_SPIN, 1000, 9000, 50, 7050, 4000)->h.a = 1;
    rec_io(p, IPS_REC_RECV, 1, 9000, 9010, 7050, 7060, 10);
    rec_end(p, IPS_END_EXIT, 20000, 7100, 0);
    struct ips_built *b = rec_alone(r);
    assert_int_equal(rec_coord(b, RECV(b, 0)), 50);
    assert_arc(b, RECV(b, 0), rec_kind(b, 10, IPS_NODE_SEND, 0), IPS_X_DATA);
    struct rec_answer a = rec_longest(b, 0, IPS_EXTERNAL_REPLY);
    assert_int_equal(a.t_max, 350);
    assert_int_equal(a.total, 310 + 100);
    assert_int_equal(b->counts.spin_ns, 7000);
    assert_int_equal(WAITED(b, 20, IPS_WAIT_SPIN), 8000);
    assert_int_equal(WAITED(b, 20, IPS_WAIT_IDLE), 0);
    rec_free(r);
}

/* Would catch: spinning by polls lost between the poll that got something and
 * the receive; CPU between those two (20) taken for spinning. The last poll
 * slept as well. */
static void test_build_causes__polls(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs w, p;
    piped(r, &w, &p);
    rec_send(w, 1, 12900, 300, 10);
    put(p, IPS_OP_SPIN, 1000, 9000, 50, 7050, 4000);
    put(p, IPS_OP_POLL, 9000, 13000, 7050, 7051, 1)->ready = 1;
    rec_recv(p, 1, 13010, 13010, 7070, 10);
    rec_end(p, IPS_END_EXIT, 20000, 7100, 0);
    struct ips_built *b = rec_alone(r);
    assert_int_equal(rec_coord(b, RECV(b, 0)), 50);
    assert_int_equal(rec_longest(b, 0, IPS_EXTERNAL_REPLY).total, 300 + 100);
    assert_int_equal(b->counts.spin_ns, 7000);
    assert_int_equal(b->counts.idle, 0);
    assert_int_equal(WAITED(b, 20, IPS_WAIT_SPIN), 8000);
    assert_int_equal(WAITED(b, 20, IPS_WAIT_PEER), 3999);
    rec_free(r);
}

/* Would catch: attempts that something else came after taken for a wait of
 * what came later. */
static void test_build_causes__other_success(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs w, p;
    piped(r, &w, &p);
    rec_send(w, 1, 12900, 300, 10);
    put(p, IPS_OP_SPIN, 1000, 9000, 50, 7050, 4000);
    rec_recv(p, 1, 13010, 13010, 7070, 10); /* not asked for at 9000 */
    struct ips_built *b = rec_alone(r);
    assert_int_equal(rec_coord(b, RECV(b, 0)), 7070);
    assert_int_equal(b->counts.spin_ns, 0);
    rec_free(r);
}

/* Would catch: a wait for the disk without its elapsed time, or its CPU lost; a
 * terminal's read leaving its poll to somebody else. */
static void test_build_causes__disk_and_terminal(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs p = process(r, 20);
    put(p, IPS_OP_DISK, 1000, 9000, 50, 150, 0);
    put(p, IPS_OP_POLL, 10000, 15000, 160, 161, 1);
    put(p, IPS_OP_TERMINAL, 15010, 15020, 170, 180, 6);
    rec_end(p, IPS_END_EXIT, 20000, 200, 0);
    struct ips_built *b = rec_alone(r);
    uint32_t a = rec_kind(b, 20, IPS_NODE_AUX, 0);
    assert_arc(b, a + 1, a, IPS_X_EXTERNAL);
    assert_int_equal(b->g.xlen[a + 1], 7900);
    assert_int_equal(rec_coord(b, a + 1), 150);
    assert_int_equal(rec_longest(b, 0, IPS_EXTERNAL_REPLY).t_max, 8000);
    assert_int_equal(rec_longest(b, 0, IPS_EXTERNAL_OFF).t_max, 200);
    assert_int_equal(WAITED(b, 20, IPS_WAIT_DISK), 7900);
    assert_int_equal(WAITED(b, 20, IPS_WAIT_TERMINAL), 4999);
    assert_int_equal(b->counts.idle, 0);
    rec_free(r);
}

/* Would catch: a sleep for pages that covers the sleep of a call or CPU time
 * before it; one that is too long for a fault; the run delay counted as the
 * disk's; a poll that lost its receive because a page fault came in between. */
static void test_build_causes__page_faults(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs p, w;
    piped(r, &w, &p);
    rec_send(w, 1, 9200, 300, 10);
    rec_delay(p, 900, 0);
    put(p, IPS_OP_DISK, 1000, 5000, 980, 990, 0); /* slept for 3990 */
    rec_page_faults(p, 9000, 2, 1490); /* computed for 500, slept for 3500 */
    put(p, IPS_OP_POLL, 9010, 9500, 1495, 1500, 1);
    rec_page_faults(p, 9900, 1, 1505); /* the poll waits for its receive */
    rec_recv(p, 1, 9910, 9915, 1510, 10);
    rec_page_faults(p, 9920, 1, 1515);      /* did not sleep */
    rec_page_faults(p, 300009920, 1, 1525); /* for something else */
    rec_delay(p, 300010000, 1000);
    rec_end(p, IPS_END_EXIT, 300020000, 200000, 0);
    struct ips_built *b = rec_alone(r);
    assert_int_equal(WAITED(b, 20, IPS_WAIT_DISK), 3990 + 3500 - 1000);
    uint32_t call = rec_kind(b, 20, IPS_NODE_AUX, 2);
    assert_arc(b, call + 1, call, IPS_X_EXTERNAL);
    assert_int_equal(b->g.t_ns[call + 1] - b->g.t_ns[call], 3500 - 1000);
    assert_int_equal(rec_coord(b, call), rec_coord(b, call + 1));
    assert_int_equal(b->g.xlen[call + 1], 3500 - 1000);
    assert_true(b->g.xpred[RECV(b, 0)] != IPS_NO_NODE);
    assert_int_equal(b->g.xlen[call + 1], 3500 - 1000);
    rec_free(r);
}

/* Would catch: the run delay of a call, or of long ago, taken for one of the
 * page faults that follow. */
static void test_build_causes__delay_before_page_faults(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs p = process(r, 20);
    rec_delay(p, 1000, 0);
    put(p, IPS_OP_DISK, 2000, 902000, 1980, 1990, 0);
    rec_delay(p, 903000, 300000);
    put(p, IPS_OP_DISK, 904000, 1904000, 2990, 3000, 0);
    rec_delay(p, 1904001, 700000); /* read at the return */
    rec_page_faults(p, 2004000, 1, 3000);
    rec_delay(p, 2004001, 700400);
    rec_end(p, IPS_END_EXIT, 2010000, 9000, 0);
    struct ips_built *b = rec_alone(r);
    assert_int_equal(WAITED(b, 20, IPS_WAIT_DISK),
                     899990 + 999990 + 100000 - 400);
    rec_free(r);
}

/* Would catch: no arc to a read of an eventfd whose wait was a poll; an arc to
 * one that nobody waited for; its sleep called idle. */
static void test_build_causes__eventfd(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs w = process(r, 10), p = process(r, 20);
    put_sync(w, IPS_REC_RELEASE, IPS_SYNC_EVENTFD, 4900, 4910, 100, 101);
    put_sync(w, IPS_REC_RELEASE, IPS_SYNC_EVENTFD, 8000, 8010, 120, 121);
    put_sync(w, IPS_REC_RELEASE, IPS_SYNC_EVENTFD, 14900, 14910, 200, 201);
    put(p, IPS_OP_EPOLL, 1000, 5000, 20, 25, 1);
    put_sync(p, IPS_REC_ACQUIRE, IPS_SYNC_EVENTFD, 5010, 5020, 30, 31);
    put_sync(p, IPS_REC_ACQUIRE, IPS_SYNC_EVENTFD, 9000, 9010, 40, 41);
    put_sync(p, IPS_REC_ACQUIRE, IPS_SYNC_EVENTFD, 11000, 15000, 50, 55);
    struct ips_built *b = rec_alone(r);
#define AUX(tid, n) rec_kind(b, tid, IPS_NODE_AUX, n)
    assert_int_equal(b->g.chains[rec_chain(b, 20)].count, 2 + 2);
    assert_int_equal(b->g.chains[rec_chain(b, 10)].count, 2 + 2);
    assert_arc(b, AUX(20, 0), AUX(10, 0), IPS_X_RESOURCE);
    assert_arc(b, AUX(20, 1), AUX(10, 1), IPS_X_RESOURCE);
    assert_int_equal(rec_coord(b, AUX(20, 0)), 20);
    assert_int_equal(rec_coord(b, AUX(20, 1)), 50);
    assert_int_equal(WAITED(b, 20, IPS_WAIT_EVENT), 3995 + 3995);
    assert_int_equal(b->counts.idle, 0);
    assert_int_equal(b->counts.any_unmatched, 0);
    rec_free(r);
}

/* Would catch: a wait for a file's lock called a lock of threads. */
static void test_build_causes__file_lock(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs w = process(r, 10), p = process(r, 20);
    put_sync(w, IPS_REC_RELEASE, IPS_SYNC_FLOCK, 4900, 4910, 100, 101);
    put_sync(p, IPS_REC_ACQUIRE, IPS_SYNC_FLOCK, 1000, 5000, 20, 25);
    struct ips_built *b = rec_alone(r);
    assert_arc(b, AUX(20, 0), AUX(10, 0), IPS_X_RESOURCE);
    assert_int_equal(WAITED(b, 20, IPS_WAIT_FILE_LOCK), 3995);
    assert_int_equal(WAITED(b, 20, IPS_WAIT_LOCK), 0);
    rec_free(r);
}

static void put_fifo(rs s, enum ips_rec_type type, enum ips_chan_side side,
                     uint64_t t, uint64_t t_ret, uint64_t cpu, uint64_t cpu_ret)
{
    struct ips_rec_sync *r =
        rec_sync(s, type, IPS_SYNC_FIFO, t, t_ret, cpu, cpu_ret, side);
    r->ino = 5;
    r->value = type == IPS_REC_RELEASE ? -1 : 0;
}

/* Would catch: an open of a FIFO that hangs on another open of its own end, or
 * on none; the two that met waiting for each other in a circle; only one of two
 * readers let go by a writer; such a wait counted as a lock's. */
static void test_build_causes__fifo(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs w = process(r, 10), p = process(r, 20), q = process(r, 30);
    /* Both readers asked first; the writer was preempted in its open. */
    put_fifo(p, IPS_REC_RELEASE, IPS_SIDE_WRITE, 1000, 9000, 20, 25);
    put_fifo(p, IPS_REC_ACQUIRE, IPS_SIDE_READ, 1000, 9000, 20, 25);
    put_fifo(q, IPS_REC_RELEASE, IPS_SIDE_WRITE, 2000, 9100, 30, 35);
    put_fifo(q, IPS_REC_ACQUIRE, IPS_SIDE_READ, 2000, 9100, 30, 35);
    put_fifo(w, IPS_REC_RELEASE, IPS_SIDE_READ, 5000, 9200, 400, 410);
    put_fifo(w, IPS_REC_ACQUIRE, IPS_SIDE_WRITE, 5000, 9200, 400, 410);
    struct ips_built *b = rec_alone(r);
    uint32_t opened = AUX(10, 0);
    assert_int_equal(b->g.xkind[AUX(10, 1)], IPS_X_RESOURCE);
    assert_arc(b, AUX(20, b->g.xpred[AUX(10, 1)] == AUX(20, 0)), opened,
               IPS_X_RESOURCE);
    assert_arc(b, AUX(30, b->g.xpred[AUX(10, 1)] == AUX(30, 0)), opened,
               IPS_X_RESOURCE);
    assert_int_equal(WAITED(b, 20, IPS_WAIT_PEER), 7995);
    assert_int_equal(WAITED(b, 20, IPS_WAIT_LOCK), 0);
    assert_int_equal(rec_longest(b, 0, IPS_EXTERNAL_REPLY).t_max, 415);
    rec_free(r);
}

static void both_ends(rs s, uint64_t t)
{
    rec_pipe(s, 1, t, IPS_SIDE_READ, 5);
    rec_pipe(s, 2, t, IPS_SIDE_WRITE, 5);
}

/* Would catch: a jobserver's tokens taken for data, and one that was there when
 * asked for given an arc. */
static void test_build_causes__tokens(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs a = process(r, 10), p = process(r, 20);
    both_ends(a, 30);
    both_ends(p, 30);
    rec_send(a, 2, 100, 10, 1);
    rec_recv(a, 1, 200, 200, 20, 1);  /* was there */
    rec_recv(p, 1, 300, 5000, 30, 1); /* waits for 10's */
    rec_send(a, 2, 4900, 100, 1);     /* gives it back */
    rec_recv(a, 1, 6000, 9000, 110, 1);
    rec_send(p, 2, 8900, 200, 1);
    struct ips_built *b = rec_alone(r);
    uint32_t first = rec_kind(b, 10, IPS_NODE_RECV, 0);
    assert_no_arc(b, first);
    assert_arc(b, rec_kind(b, 20, IPS_NODE_RECV, 0),
               rec_kind(b, 10, IPS_NODE_SEND, 1), IPS_X_RESOURCE);
    assert_arc(b, rec_kind(b, 10, IPS_NODE_RECV, 1),
               rec_kind(b, 20, IPS_NODE_SEND, 0), IPS_X_RESOURCE);
    assert_int_equal(b->counts.order_dependent, 2);
    rec_free(r);
}

/* Would catch: the tokens of a jobserver whose maker put several there at once
 * taken for data. */
static void test_build_causes__tokens_put_there_at_once(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs a = process(r, 10), p = process(r, 20);
    both_ends(a, 30);
    both_ends(p, 30);
    rec_send(a, 2, 100, 10, 2);
    rec_recv(a, 1, 200, 200, 20, 1);
    rec_recv(p, 1, 250, 250, 20, 1);
    rec_recv(p, 1, 300, 5000, 30, 1); /* waits for what 10 gives back */
    rec_send(a, 2, 4900, 100, 1);
    rec_send(p, 2, 6000, 200, 1);
    struct ips_built *b = rec_alone(r);
    assert_no_arc(b, rec_kind(b, 10, IPS_NODE_RECV, 0));
    assert_no_arc(b, rec_kind(b, 20, IPS_NODE_RECV, 0));
    assert_arc(b, rec_kind(b, 20, IPS_NODE_RECV, 1),
               rec_kind(b, 10, IPS_NODE_SEND, 1), IPS_X_RESOURCE);
    assert_int_equal(b->counts.order_dependent, 1);
    rec_free(r);
}

/* Would catch: a pipe of single bytes between two processes, or one that one
 * process alone writes, taken for a jobserver. */
static void test_build_causes__no_tokens(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs a = process(r, 10), p = process(r, 20);
    both_ends(a, 30);
    both_ends(p, 30);
    rs q = process(r, 40); /* gives, but takes nothing, as 20 gives nothing */
    both_ends(q, 30);
    rec_send(q, 2, 6000, 10, 1);
    rec_send(a, 2, 100, 10, 1);
    rec_recv(a, 1, 200, 200, 20, 1);
    rec_send(a, 2, 400, 30, 1);
    rec_recv(p, 1, 300, 5000, 30, 1);
    struct ips_built *b = rec_alone(r);
    assert_arc(b, rec_kind(b, 10, IPS_NODE_RECV, 0),
               rec_kind(b, 10, IPS_NODE_SEND, 0), IPS_X_DATA);
    assert_arc(b, rec_kind(b, 20, IPS_NODE_RECV, 0),
               rec_kind(b, 10, IPS_NODE_SEND, 1), IPS_X_DATA);
    rec_free(r);
}

static void put_listen(rs s, enum ips_rec_type type, uint64_t t, uint64_t t_ret,
                       uint64_t cpu)
{
    put_sync(s, type, IPS_SYNC_LISTEN, t, t_ret, cpu, cpu);
}

/* 20 tries from 1000 on and has what it tried for at 9000; it computes 30 then.
 */
static rs naps(struct recorder *r, uint64_t cpu)
{
    rs p = process(r, 20);
    put(p, IPS_OP_SLEEP, 1100, 5000, 20, 20, 0);
    put(p, IPS_OP_POLL, 5100, 8900, cpu, cpu, 0);
    put(p, IPS_OP_RETRY, 1000, 9000, 20, cpu, 2);
    return p;
}

/* Would catch: a connect that succeeded when a server listened, after naps,
 * without the arc from its listen; naps that weigh as sleeps; an arc to a
 * connect that failed for other reasons: who listened before it was tried; naps
 * of a loop that works between its tries taken for a wait. */
static void test_build_causes__naps_until_one_listens(void **state)
{
    (void)state;
    for (int way = 0; way < 3; way++) {
        struct recorder *r = rec_new();
        rs w = process(r, 10), p = naps(r, way == 2 ? 4520 : 30);
        put_listen(w, IPS_REC_RELEASE, way == 1 ? 900 : 8800,
                   way == 1 ? 950 : 8850, 400);
        put_listen(p, IPS_REC_ACQUIRE, 8000, 9000, way == 2 ? 4520 : 30);
        rec_end(p, IPS_END_EXIT, 20000, way == 2 ? 4550 : 60, 0);
        struct ips_built *b = rec_alone(r);
        uint32_t external = (uint32_t)b->counts.external;
        assert_int_equal(external, way > 0);
        assert_int_equal(WAITED(b, 20, IPS_WAIT_SPIN), way ? 0 : 3900 + 3800);
        assert_int_equal(WAITED(b, 20, IPS_WAIT_TIMER), way ? 3900 + 3800 : 0);
        assert_int_equal(b->counts.order_dependent, 0);
        assert_int_equal(b->counts.any_unmatched, 0);
        if (way != 1)
            assert_arc(b, AUX(20, way ? 2 : 0), AUX(10, 0), IPS_X_LIFETIME);
        if (way == 0)
            assert_int_equal(rec_longest(b, 0, IPS_EXTERNAL_REPLY).t_max, 430);
        rec_free(r);
    }
}

/* Would catch: naps between waits for a child with WNOHANG that weigh as
 * sleeps; a nap before the first of them, or between tries for another child,
 * left out.
 */
static void test_build_causes__naps_until_a_child_ends(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs p = process(r, 20);
    rec_fork(p, IPS_FORK_FORK, 100, 110, 10, 10, 30, 7);
    put(p, IPS_OP_SLEEP, 200, 3000, 15, 15, 0); /* before the tries */
    put(p, IPS_OP_SLEEP, 3200, 8100, 20, 20, 0);
    put(p, IPS_OP_RETRY, 3100, 9000, 20, 30, 2);
    rec_join(p, IPS_JOIN_WAIT, 9000, 9010, 30, 30, 0);
    rec_end(p, IPS_END_EXIT, 20000, 60, 0);
    rs c = rec_stream(r, 30, 30, 30);
    struct ips_rec_start *s = rec_start(c, IPS_START_FORK, 105, 0);
    s->fork_seq = 7;
    s->parent_image = 20;
    rec_end(c, IPS_END_EXIT, 8800, 500, 0);
    struct ips_built *b = rec_alone(r);
    assert_int_equal(b->counts.external, 0 + 1);
    assert_int_equal(WAITED(b, 20, IPS_WAIT_SPIN), 4900);
    assert_int_equal(WAITED(b, 20, IPS_WAIT_TIMER), 2800);
    assert_arc(b, rec_kind(b, 20, IPS_NODE_JOIN, 0), rec_last(b, 30),
               IPS_X_LIFETIME);
    assert_int_equal(rec_longest(b, 0, IPS_EXTERNAL_OFF).t_max, 10 + 500 + 30);
    rec_free(r);
}

/* Would catch: naps between receives that find nothing, or between tries for a
 * lock, that weigh as sleeps; naps of a thread that tries for something else
 * too left out; the naps of a lock's wait counted beside it. */
static void test_build_causes__naps_until_bytes_come(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs w, p;
    piped(r, &w, &p);
    rec_pipe(p, 2, 30, IPS_SIDE_READ, 6);
    rec_send(w, 1, 8900, 300, 10);
    put_sync(w, IPS_REC_RELEASE, IPS_SYNC_FLOCK, 13900, 13910, 310, 310);
    rec_end(w, IPS_END_EXIT, 20000, 310, 0);
    rec_io(p, IPS_REC_RECVCALL, 2, 500, 501, 50, 50, -1)->err = EAGAIN;
    rec_io(p, IPS_REC_RECVCALL, 1, 1000, 1001, 50, 50, -1)->err = EAGAIN;
    put(p, IPS_OP_SLEEP, 1100, 5000, 50, 50, 0);
    rec_io(p, IPS_REC_RECVCALL, 1, 5010, 5011, 50, 50, -1)->err = EAGAIN;
    put(p, IPS_OP_SLEEP, 5100, 9000, 50, 50, 0);
    rec_recv(p, 1, 9010, 9011, 50, 10);
    put(p, IPS_OP_SLEEP, 11000, 14000, 60, 60, 0);
    struct ips_rec_sync *got =
        rec_sync(p, IPS_REC_ACQUIRE, IPS_SYNC_FLOCK, 10900, 14010, 60, 60, 1);
    got->ino = 5;
    got->object = 0;
    got->value = 2;
    rec_end(p, IPS_END_EXIT, 20000, 100, 0);
    struct ips_built *b = rec_alone(r);
    assert_int_equal(b->counts.external, 0);
    assert_int_equal(WAITED(b, 20, IPS_WAIT_SPIN), 3900 + 3900);
    assert_int_equal(WAITED(b, 20, IPS_WAIT_FILE_LOCK), 3110);
    assert_arc(b, RECV(b, 0), rec_kind(b, 10, IPS_NODE_SEND, 0), IPS_X_DATA);
    assert_arc(b, AUX(20, 0), AUX(10, 0), IPS_X_RESOURCE);
    assert_int_equal(rec_longest(b, 0, IPS_EXTERNAL_REPLY).t_max, 310 + 40);
    rec_free(r);
}

/* Would catch: who tests until a file is there without the arc from who made
 * it, or with that of another file, or of an earlier one; a child's sleep
 * between two tests of its parent on the path. */
static void test_build_causes__naps_until_a_file_is_there(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs w = process(r, 10), p = process(r, 20);
    put(w, IPS_OP_MADE, 900, 900, 100, 100, 7)->h.a = 3;
    put(w, IPS_OP_MADE, 8700, 8700, 400, 400, 7)->h.a = 3;
    put(w, IPS_OP_MADE, 8800, 8800, 402, 402, 8)->h.a = 3;
    put(w, IPS_OP_MADE, 9100, 9100, 405, 405, 7)->h.a = 3;
    put(p, IPS_OP_SLEEP, 1100, 5000, 20, 20, 0);
    rec_fork(p, IPS_FORK_FORK, 5100, 5110, 20, 20, 30, 9);
    rec_join(p, IPS_JOIN_WAIT, 5200, 8900, 25, 30, 0);
    put(p, IPS_OP_FOUND, 1000, 9000, 20, 30, 7)->h.a = 3;
    rec_end(p, IPS_END_EXIT, 20000, 60, 0);
    rs c = rec_stream(r, 30, 30, 30);
    struct ips_rec_start *s = rec_start(c, IPS_START_FORK, 5105, 0);
    s->fork_seq = 9;
    s->parent_image = 20;
    put(c, IPS_OP_SLEEP, 5150, 8850, 2, 2, 0);
    rec_end(c, IPS_END_EXIT, 8880, 4, 0);
    struct ips_built *b = rec_alone(r);
    assert_int_equal(b->counts.external, 0);
    assert_int_equal(WAITED(b, 20, IPS_WAIT_SPIN), 3900);
    assert_int_equal(WAITED(b, 30, IPS_WAIT_SPIN), 3700);
    assert_arc(b, AUX(20, 0), AUX(10, 0), IPS_X_LIFETIME);
    assert_int_equal(b->g.t_ns[AUX(10, 0)], 8700);
    assert_int_equal(rec_longest(b, 0, IPS_EXTERNAL_REPLY).t_max, 430);
    rec_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_build_causes__receive),
        cmocka_unit_test(test_build_causes__polls),
        cmocka_unit_test(test_build_causes__other_success),
        cmocka_unit_test(test_build_causes__disk_and_terminal),
        cmocka_unit_test(test_build_causes__page_faults),
        cmocka_unit_test(test_build_causes__delay_before_page_faults),
        cmocka_unit_test(test_build_causes__eventfd),
        cmocka_unit_test(test_build_causes__file_lock),
        cmocka_unit_test(test_build_causes__fifo),
        cmocka_unit_test(test_build_causes__tokens),
        cmocka_unit_test(test_build_causes__tokens_put_there_at_once),
        cmocka_unit_test(test_build_causes__no_tokens),
        cmocka_unit_test(test_build_causes__naps_until_one_listens),
        cmocka_unit_test(test_build_causes__naps_until_a_child_ends),
        cmocka_unit_test(test_build_causes__naps_until_bytes_come),
        cmocka_unit_test(test_build_causes__naps_until_a_file_is_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
