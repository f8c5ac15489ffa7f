/* Waits: pending polls, sleeps, external and idle arcs. Each case says what it
 * would catch. */
#include <errno.h>
#include <signal.h>

#include "common/large.h"
#include "recorder.h"

/* One thread with the read end (id 1) of a pipe nobody else has, and both
 * ends (ids 2, 3) of a TCP connection to an untraced peer. */
static rs lone(struct recorder *r)
{
    rs s = rec_stream(r, 10, 10, 1);
    rec_start(s, IPS_START_IMAGE, 1, 0);
    rec_pipe(s, 1, 2, IPS_SIDE_READ, 5);
    rec_inet(s, 2, 2, IPS_CHAN_TCP, 9, LOOPBACK, 4000, LOOPBACK, 80);
    return s;
}
static struct ips_rec_io *poll_wait(rs s, uint64_t t, uint64_t t_ret,
                                    uint64_t cpu, int64_t result,
                                    uint32_t ready)
{
    struct ips_rec_io *p =
        rec_io(s, IPS_REC_BLOCK, 0, t, t_ret, cpu, cpu + 5, result);
    p->op = IPS_OP_EPOLL;
    p->ready = ready;
    return p;
}
#define RECV(b, n) rec_kind(b, 10, IPS_NODE_RECV, n)
#define POLL(b, n) rec_kind(b, 10, IPS_NODE_POLL, n)
#define WAITED(b, cause) ((b)->threads[0].wait_ns[cause])

/* Would catch: the CPU between poll's return and the read lying before the
 * message; the sleep not counted, or counted twice. */
static void test_build_wait__receive_takes_the_poll(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs s = lone(r);
    poll_wait(s, 100, 5100, 50, 1, 2);
    rec_recv(s, 2, 5200, 5200, 90, 10);
    rec_recv(s, 2, 5300, 5300, 95, 10);
    struct ips_built *b = rec_alone(r);
    assert_int_equal(rec_coord(b, RECV(b, 0)), 50);
    assert_int_equal(rec_coord(b, RECV(b, 1)), 95);
    assert_int_equal(WAITED(b, IPS_WAIT_PEER), 4995);
    /* Nobody we know sent it and we asked nothing: idle. */
    assert_arc(b, RECV(b, 0), RECV(b, 0) - 1, IPS_X_IDLE);
    assert_int_equal(b->g.xlen[RECV(b, 0)], 4995);
    assert_no_arc(b, RECV(b, 1));
    assert_int_equal(b->counts.idle, 1);
    rec_free(r);
}

/* Would catch: a wait taken by a receive on another channel, and not kept by
 * the poll's own node; one carried past an attempt that got nothing or past the
 * next wait. */
static void test_build_wait__poll_that_got_nothing_for_us(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs s = lone(r);
    poll_wait(s, 100, 5100, 50, 1, 2);
    rec_recv(s, 1, 5200, 5200, 90, 10); /* not the one that was ready */
    rec_recv(s, 2, 5300, 5300, 95, 10); /* this one */
    poll_wait(s, 6000, 9000, 100, 1, 0);
    rec_io(s, IPS_REC_RECVCALL, 2, 9100, 9100, 110, 110, -1)->err = EAGAIN;
    rec_recv(s, 2, 9200, 9200, 120, 10);
    poll_wait(s, 10000, 14000, 130, 1, 0);
    poll_wait(s, 15000, 15000, 140, 1, 0);
    rec_recv(s, 2, 15100, 15100, 150, 10);
    poll_wait(s, 16000, 20000, 160, 0, 0); /* ran out */
    struct ips_built *b = rec_alone(r);
    assert_int_equal(rec_coord(b, POLL(b, 0)), 50);
    assert_arc(b, POLL(b, 0), POLL(b, 0) - 1, IPS_X_IDLE);
    assert_int_equal(rec_coord(b, RECV(b, 0)), 90);
    assert_int_equal(rec_coord(b, RECV(b, 1)), 95);
    assert_int_equal(rec_coord(b, RECV(b, 2)), 120);
    assert_int_equal(rec_coord(b, RECV(b, 3)), 150);
    for (uint32_t i = 0; i < 4; i++)
        assert_no_arc(b, RECV(b, i));
    assert_int_equal(WAITED(b, IPS_WAIT_PEER), 4995);
    assert_int_equal(WAITED(b, IPS_WAIT_IDLE), 2995 + 3995);
    assert_int_equal(WAITED(b, IPS_WAIT_TIMER), 3995);
    assert_int_equal(b->counts.idle, 1 + 2 + 1);
    rec_free(r);
}

/* Would catch: accept not taking the wait on the listening socket; eventfd
 * and timerfd reads leaving it for somebody else. */
static void test_build_wait__accept_and_eventfd_take_it(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs s = lone(r);
    rec_inet(s, 3, 3, IPS_CHAN_TCP_LISTEN, 20, LOOPBACK, 90, 0, 0);
    poll_wait(s, 100, 5100, 50, 1, 3);
    rec_inet(s, 4, 5150, IPS_CHAN_TCP, 21, LOOPBACK, 90, LOOPBACK, 5000)
        ->flags = IPS_CHAN_ACCEPTED;
    rec_recv(s, 4, 5200, 5200, 90, 0)->op = IPS_OP_ACCEPT;
    poll_wait(s, 6000, 9000, 100, 1, 0);
    struct ips_rec_io *e = rec_io(s, IPS_REC_BLOCK, 0, 9100, 9100, 110, 110, 8);
    e->op = IPS_OP_EVENTFD;
    rec_recv(s, 2, 9200, 9200, 120, 10);
    struct ips_built *b = rec_alone(r);
    assert_int_equal(rec_coord(b, RECV(b, 0)), 50);
    assert_arc(b, RECV(b, 0), RECV(b, 0) - 1, IPS_X_IDLE);
    assert_int_equal(rec_coord(b, RECV(b, 1)), 120);
    assert_int_equal(WAITED(b, IPS_WAIT_EVENT), 2995);
    rec_free(r);
}

/* Would catch: a reply of an untraced server not weighed from our request; a
 * receive that was ready when asked given an arc. */
static void test_build_wait__reply_and_request(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs s = lone(r);
    rec_recv(s, 2, 1000, 5000, 10, 10);   /* unsolicited: idle */
    rec_send(s, 2, 6000, 20, 10);         /* asks */
    rec_recv(s, 2, 6500, 9000, 30, 10);   /* is answered */
    rec_recv(s, 2, 9100, 9100, 40, 10);   /* was there already */
    rec_recv(s, 1, 10000, 20000, 50, 10); /* another channel: idle */
    rec_recv(s, 1, 20000, 30000, 60, 0);  /* its end: idle too */
    struct ips_built *b = rec_alone(r);
    uint32_t send = rec_kind(b, 10, IPS_NODE_SEND, 0);
    assert_arc(b, RECV(b, 0), RECV(b, 0) - 1, IPS_X_IDLE);
    assert_arc(b, RECV(b, 1), send, IPS_X_EXTERNAL);
    assert_int_equal(b->g.xlen[RECV(b, 1)], 3000);
    assert_no_arc(b, RECV(b, 2));
    assert_arc(b, RECV(b, 3), RECV(b, 3) - 1, IPS_X_IDLE);
    assert_arc(b, RECV(b, 4), RECV(b, 4) - 1, IPS_X_IDLE);
    assert_int_equal(b->counts.external, 1);
    assert_int_equal(b->counts.idle, 3);
    assert_int_equal(b->counts.pending, 0);
    assert_int_equal(rec_longest(b, 0, IPS_EXTERNAL_REPLY).t_max,
                     3000 + 20 + 30);
    assert_int_equal(rec_longest(b, 0, IPS_EXTERNAL_OFF).t_max, 60);
    rec_free(r);
}

/* Would catch: the wait for a server's client weighed as a wait for an answer,
 * because the server has sent - the answer before - on that connection. */
static void test_build_wait__who_accepted_serves(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs s = lone(r);
    rec_inet(s, 4, 50, IPS_CHAN_TCP, 21, LOOPBACK, 90, LOOPBACK, 5000)->flags =
        IPS_CHAN_ACCEPTED;
    rec_recv(s, 4, 100, 100, 10, 10);
    rec_send(s, 4, 200, 20, 10);
    rec_recv(s, 4, 300, 9300, 30, 10); /* the next request */
    struct ips_built *b = rec_alone(r);
    assert_arc(b, RECV(b, 1), RECV(b, 1) - 1, IPS_X_IDLE);
    assert_int_equal(b->counts.external, 0);
    assert_int_equal(b->counts.idle, 1);
    rec_free(r);
}

/* Would catch: a sleep lost because the program asks once more, without
 * waiting, before it reads (curl does). */
static void test_build_wait__asking_again_is_no_wait(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs s = lone(r);
    rec_send(s, 2, 90, 40, 10);
    poll_wait(s, 100, 5100, 50, 1, 2);
    poll_wait(s, 5200, 5200, 60, 1, 2);
    rec_recv(s, 2, 5300, 5300, 90, 10);
    poll_wait(s, 6000, 9000, 100, 1, 2);
    poll_wait(s, 9100, 9100, 110, 0, 0); /* nothing is ready any more */
    rec_recv(s, 2, 9200, 9200, 120, 10);
    struct ips_built *b = rec_alone(r);
    assert_int_equal(rec_coord(b, RECV(b, 0)), 50);
    assert_arc(b, RECV(b, 0), rec_kind(b, 10, IPS_NODE_SEND, 0),
               IPS_X_EXTERNAL);
    assert_int_equal(rec_coord(b, POLL(b, 0)), 100);
    assert_int_equal(rec_coord(b, RECV(b, 1)), 120);
    rec_free(r);
}

/* Would catch: an answer to set_peers that depends on the one before. */
static void test_build_wait__peers_may_be_settled_again(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs s = rec_stream(r, 10, 10, 1);
    rec_start(s, IPS_START_IMAGE, 1, 0);
    rec_inet(s, 1, 2, IPS_CHAN_TCP, 9, 0x0a000001, 4000, 0x0a000002, 80);
    rec_send(s, 1, 3, 5, 10);
    rec_recv(s, 1, 10, 9010, 10, 10);
    struct ips_built *b = rec_build(r);
    struct ips_peer_row row = {.end = 0, .traced = false};
    for (int k = 0; k < 3; k++) {
        assert_int_equal(b->counts.pending, 1);
        row.traced = false;
        assert_int_equal(ips_built_set_peers_and_remake_arcs(b, &row, 1, NULL),
                         0);
        assert_arc(b, RECV(b, 0), RECV(b, 0) - 1, IPS_X_EXTERNAL);
        assert_int_equal(b->counts.external, 1);
        row = (struct ips_peer_row){
            .end = 0, .traced = true, .peer_sent_bytes = 10};
        assert_int_equal(ips_built_set_peers_and_remake_arcs(b, &row, 1, NULL),
                         0);
        assert_int_equal(b->counts.external, 0);
        assert_int_equal(b->g.in_count, 1);
        assert_int_equal(b->g.out_count, 1); /* the send; not closed: no EOF */
        assert_int_equal(b->g.xkind[RECV(b, 0)], IPS_X_DATA);
        assert_int_equal(ips_built_set_peers_and_remake_arcs(b, NULL, 0, NULL),
                         0);
        assert_int_equal(b->g.in_count, 0);
        assert_no_arc(b, RECV(b, 0));
    }
    rec_free(r);
}

/* Would catch: a sleep of no length given nodes; its CPU lost; a sleep that
 * weighs when external actions are off. */
static void test_build_wait__sleep(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs s = lone(r);
    rec_io(s, IPS_REC_BLOCK, 0, 100, 10100, 50, 70, 0)->op = IPS_OP_SLEEP;
    rec_io(s, IPS_REC_BLOCK, 0, 11000, 11100, 80, 90, 0)->op = IPS_OP_SLEEP;
    rec_end(s, IPS_END_EXIT, 12000, 100, 0);
    struct ips_built *b = rec_alone(r);
    uint32_t a = rec_kind(b, 10, IPS_NODE_AUX, 0);
    assert_int_equal(rec_coord(b, a), 50);
    assert_arc(b, a + 1, a, IPS_X_EXTERNAL);
    assert_int_equal(b->g.xlen[a + 1], 9980);
    assert_int_equal(rec_coord(b, a + 1), 70);
    assert_int_equal(b->g.chains[0].count, 4);
    assert_int_equal(b->counts.external, 1);
    assert_int_equal(rec_longest(b, 0, IPS_EXTERNAL_REPLY).t_max,
                     50 + 9980 + 30);
    assert_int_equal(rec_longest(b, 0, IPS_EXTERNAL_OFF).t_max, 100);
    rec_free(r);
}

/* A thread that may set a flag in the memory of the process of lone(). */
static void other_thread(struct recorder *r)
{
    rec_start(rec_stream(r, 10, 11, 1), IPS_START_THREAD, 2, 0);
}

/* From `t` on a nap of `ns` after `gap` of computing, called at `site`. */
static void nap(rs s, uint64_t *t, uint64_t *cpu, uint64_t gap, uint64_t ns,
                uint64_t site)
{
    *t += gap;
    *cpu += gap;
    struct ips_rec_io *r =
        rec_io(s, IPS_REC_BLOCK, 0, *t, *t + ns, *cpu, *cpu, 0);
    r->op = IPS_OP_SLEEP;
    r->site = site;
    *t += ns;
}

/* Sleeps that weigh, and those of a condition that is not recorded. */
struct naps {
    uint64_t external, unended;
};
/* 20 naps of 1 ms, each after `gap`, and each `every` of them after `long_gap`
 * (0: none), with a record of that type after each `apart` (0: none). */
static struct naps naps_of(uint64_t gap, uint32_t every, uint64_t long_gap,
                           uint32_t apart, uint32_t type)
{
    struct recorder *r = rec_new();
    rs s = lone(r);
    other_thread(r);
    uint64_t t = 1000, cpu = 1000;
    for (uint32_t i = 1; i <= 20; i++) {
        bool is_long = every && i % every == 0;
        nap(s, &t, &cpu, is_long ? long_gap : gap, 1000000, 0x77);
        if (apart && i % apart == 0 && type == IPS_REC_SEND)
            rec_send(s, 2, t, cpu, 10);
        else if (apart && i % apart == 0)
            nap(s, &t, &cpu, gap, 1000000, 0x78);
    }
    rec_end(s, IPS_END_EXIT, t + 10, cpu + 10, 0);
    struct ips_built *b = rec_alone(r);
    struct naps found = {b->counts.external, 0};
    for (uint32_t i = 0; i < b->unended_count; i++)
        found.unended += b->unended[i].ns;
    rec_free(r);
    return found;
}

/* Would catch: naps between tries of a flag that weigh as sleeps, or that
 * nothing admits; those of a thread that computes between them, or leaves
 * records, or calls from several places, taken for tries; one long look that
 * makes sleeps of tries. */
static void test_build_wait__naps_of_tries(void **state)
{
    (void)state;
    const struct {
        uint64_t gap;
        uint32_t every;
        uint64_t long_gap;
        uint32_t apart, type;
        uint64_t external;
    } cases[] = {
        {400, 0, 0, 0, 0, 0},
        {15000, 0, 0, 0, 0, 0},
        {25000, 0, 0, 0, 0, 20},     /* it works */
        {400, 12, 300000, 0, 0, 0},  /* its CPU was guessed */
        {400, 2, 300000, 0, 0, 20},  /* it works each other time */
        {400, 10, 1200000, 0, 0, 1}, /* the last one is alone */
        {400, 3, 1200000, 0, 0, 2},  /* tries of another condition: 3 each */
        {400, 0, 0, 1, IPS_REC_SEND, 20},
        {400, 0, 0, 2, IPS_REC_SEND, 20},
        {400, 0, 0, 3, IPS_REC_SEND, 2},
        {400, 0, 0, 1, IPS_REC_BLOCK, 40},
        {400, 0, 0, 2, IPS_REC_BLOCK, 30},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct naps found =
            naps_of(cases[i].gap, cases[i].every, cases[i].long_gap,
                    cases[i].apart, cases[i].type);
        uint64_t naps = cases[i].type == IPS_REC_BLOCK && cases[i].apart
                            ? 20 + 20 / cases[i].apart
                            : 20;
        if (found.external != cases[i].external)
            print_error("case %zu\n", i);
        assert_int_equal(found.external, cases[i].external);
        assert_int_equal(found.unended, (naps - found.external) * 1000000);
    }
}

/* Would catch: sleeps of quite different lengths, as an interpreter makes them
 * from one place, taken for tries; tries not, which nap longer each time. */
static void test_build_wait__lengths_of_naps(void **state)
{
    (void)state;
    const uint64_t grows[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512},
                   differs[] = {500, 100, 1000, 200, 3000, 500};
    for (int k = 0; k < 2; k++) {
        struct recorder *r = rec_new();
        rs s = lone(r);
        other_thread(r);
        uint64_t t = 1000, cpu = 1000;
        for (int i = 0; i < (k ? 6 : 10); i++)
            nap(s, &t, &cpu, 400, (k ? differs[i] : grows[i]) * 1000000, 0x77);
        rec_end(s, IPS_END_EXIT, t + 10, cpu + 10, 0);
        struct ips_built *b = rec_alone(r);
        assert_int_equal(b->counts.external, k ? 6 : 0);
        rec_free(r);
    }
}

/* Would catch: the naps of a thread that does nothing more until its process
 * ends, as timer threads do, reported as waits of unknown end; not reported,
 * though another thread waits for the end of that thread, or it works later. */
static void test_build_wait__naps_in_vain(void **state)
{
    (void)state;
    enum { VAIN, JOINED, WORKS, WAYS };
    for (int way = 0; way < WAYS; way++) {
        struct recorder *r = rec_new();
        rs s = lone(r), y = rec_stream(r, 10, 11, 1);
        rec_fork(s, IPS_FORK_THREAD, 2, 3, 1, 1, 11, 5);
        rec_start(y, IPS_START_THREAD, 3, 0)->fork_seq = 5;
        uint64_t t = 1000, cpu = 1000;
        for (int i = 0; i < 20; i++)
            nap(y, &t, &cpu, 400, 1000000, 0x77);
        if (way == WORKS)
            rec_send(y, 2, t + 2000000, cpu + 2000000, 10);
        if (way == JOINED) {
            rec_end(y, IPS_END_THREAD, t + 10, cpu + 10, 0);
            rec_join(s, IPS_JOIN_THREAD, 100, t + 20, 10, 0, 5);
        }
        rec_end(s, IPS_END_EXIT, t + 3000000, 40, 0);
        struct ips_built *b = rec_alone(r);
        assert_int_equal(b->counts.external, 0);
        assert_int_equal(b->counts.idle, 20);
        assert_int_equal(b->unended_count, way == VAIN ? 0 : 20);
        rec_free(r);
    }
}

/* Would catch: one nap that a busy machine makes long, which ends the tries,
 * and weighs as a sleep. */
static void test_build_wait__one_long_nap(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs s = lone(r);
    other_thread(r);
    uint64_t t = 1000, cpu = 1000;
    for (int i = 0; i < 20; i++)
        nap(s, &t, &cpu, 400, i == 12 ? 200000000 : 1000000, 0x77);
    rec_end(s, IPS_END_EXIT, t + 10, cpu + 10, 0);
    struct ips_built *b = rec_alone(r);
    assert_int_equal(b->counts.external, 0);
    rec_free(r);
}

/* Would catch: sleeps of a program that nobody else can set a flag for taken
 * for tries; a long sleep that follows short ones swallowed by their run. */
static void test_build_wait__naps_that_are_sleeps(void **state)
{
    (void)state;
    for (int long_one = 0; long_one < 2; long_one++) {
        struct recorder *r = rec_new();
        rs s = lone(r);
        uint64_t t = 1000, cpu = 1000;
        if (long_one)
            other_thread(r);
        for (int i = 0; i < 20; i++)
            nap(s, &t, &cpu, 400, long_one && i == 19 ? 10000000000 : 100000000,
                0x77);
        rec_end(s, IPS_END_EXIT, t + 10, cpu + 10, 0);
        struct ips_built *b = rec_alone(r);
        assert_int_equal(b->counts.external, long_one ? 1 : 20);
        assert_int_equal(b->unended_count, long_one ? 19 : 0);
        rec_free(r);
    }
}

/* Would catch: two reads of one interrupted by a handler's own record put the
 * wrong way round: chain order is the order of returns. */
static void test_build_wait__handler_inside_a_call(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs s = lone(r);
    rec_send(s, 2, 500, 40, 10);       /* in a handler, inside the next */
    rec_recv(s, 2, 100, 5000, 20, 10); /* called before it */
    struct ips_built *b = rec_alone(r);
    assert_int_equal(rec_coord(b, RECV(b, 0)), 40);
    assert_arc(b, RECV(b, 0), RECV(b, 0) - 1, IPS_X_EXTERNAL);
    assert_int_equal(b->g.xlen[RECV(b, 0)], 4500);
    rec_free(r);
}

static void taken(rs s, int sig, int code, uint64_t t, uint64_t cpu)
{
    struct ips_rec_signal *r =
        rec_put(s, IPS_REC_SIGNAL, sizeof(*r), (uint32_t)sig, t);
    r->code = code;
    r->cpu = cpu;
}

/* Would catch: a wait that nobody was seen to end, passed over or laid in
 * another arc; one whose end is known - a timer, a time limit - among them. */
static void test_build_wait__nobody_was_seen_to_end_it(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs s = lone(r);
    poll_wait(s, 100, 3105, 10, 1, 2)->h.a = IPS_READY_OUT; /* 3000 */
    rec_send(s, 2, 3200, 20, 10);
    rec_send(s, 2, 3300, 25, 10);
    poll_wait(s, 3400, 3400, 30, 1, 2); /* the one before was for nothing */
    rec_io(s, IPS_REC_RECVCALL, 1, 3500, 5510, 40, 50, -1)->err = EINTR;
    rec_send(s, 2, 5600, 60, 10);
    rec_io(s, IPS_REC_RECVCALL, 1, 6000, 9010, 70, 80, -1)->err = EAGAIN;
    taken(s, SIGALRM, SI_KERNEL, 11000, 85);
    rec_io(s, IPS_REC_RECVCALL, 1, 10000, 12010, 85, 95, -1)->err = EINTR;
    rec_send(s, 2, 13000, 100, 10);
    struct ips_rec_io *child =
        rec_io(s, IPS_REC_BLOCK, 0, 14000, 18010, 110, 120, -1);
    child->op = IPS_OP_CHILD;
    child->err = ECHILD;
    rec_sync(s, IPS_REC_ACQUIRE, IPS_SYNC_MUTEX, 20000, 28000, 130, 130, 99);
    struct ips_built *b = rec_alone(r);
    struct ips_err err = {0};
    uint64_t *ns = ips_make_ns_without_waker_by_node(b, &err), sum = 0;
    uint32_t first = rec_kind(b, 10, IPS_NODE_SEND, 0);
    uint32_t end = rec_kind(b, 10, IPS_NODE_END, 0);
    assert_non_null(ns);
    assert_int_equal(ns[POLL(b, 0)], 3000);
    assert_int_equal(ns[first], 0);
    assert_int_equal(ns[first + 1], 0);
    assert_int_equal(ns[rec_kind(b, 10, IPS_NODE_SEND, 2)], 2000);
    assert_int_equal(ns[rec_kind(b, 10, IPS_NODE_SEND, 3)], 0);
    assert_int_equal(ns[rec_kind(b, 10, IPS_NODE_AUX, 0)], 4000);
    assert_int_equal(ns[end], 8000);
    for (uint32_t i = 0; i < b->g.node_count; i++)
        sum += ns[i];
    assert_int_equal(sum, 3000 + 2000 + 12000);
    assert_int_equal(sum, b->counts.unended_ns);
    assert_int_equal(ips_sum_ns_without_recorded_waker(b, first, end), 14000);
    ips_free_large(ns);
    rec_free(r);
}

/* Would catch: a connect that was preempted, or crossed the network until the
 * other machine's kernel refused it, taken for a wait that a program ended
 * (seen on a busy machine: the answer was not complete); and the same of a Unix
 * socket, whose listener may have closed. */
static void test_build_wait__refused_connect(void **state)
{
    (void)state;
    static const struct {
        enum ips_op op;
        bool unknown;
    } cases[] = {{IPS_OP_CONNECT, false}, {IPS_OP_OTHER, true}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct recorder *r = rec_new();
        rs s = lone(r);
        struct ips_rec_io *x =
            rec_io(s, IPS_REC_BLOCK, 0, 1000, 13000, 100, 200, -1);
        x->op = (uint8_t)cases[i].op;
        x->err = ECONNREFUSED;
        struct ips_built *b = rec_alone(r);
        assert_int_equal(b->unended_count, cases[i].unknown);
        rec_free(r);
    }
}

/* Would catch: polls of one place ended now by one channel, now by another, not
 * counted or counted of two places together; several ready at once; polls that
 * gave up. */
static void test_build_wait__choices(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs s = lone(r);
    poll_wait(s, 100, 5100, 50, 1, 2)->site = 0x10;
    poll_wait(s, 5200, 5200, 60, 1, 2)->site = 0x10; /* the same again */
    poll_wait(s, 5300, 5300, 62, 1, 1)->site = 0x20; /* another place */
    struct ips_built *b = rec_alone(r);
    assert_int_equal(b->threads[0].choices, 0);
    assert_int_equal(b->threads[0].empty_polls, 0);
    rec_free(r);
    r = rec_new();
    s = lone(r);
    poll_wait(s, 100, 5100, 50, 1, 2)->site = 0x10;
    poll_wait(s, 5200, 5200, 60, 1, 1)->site = 0x10; /* another channel */
    poll_wait(s, 5300, 5300, 62, 2, 1)->site = 0x10; /* two at once */
    poll_wait(s, 6000, 9000, 70, 0, 0)->site = 0x10; /* ran out */
    b = rec_alone(r);
    assert_int_equal(b->threads[0].choices, 2);
    assert_int_equal(b->threads[0].empty_polls, 1);
    rec_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_build_wait__receive_takes_the_poll),
        cmocka_unit_test(test_build_wait__poll_that_got_nothing_for_us),
        cmocka_unit_test(test_build_wait__refused_connect),
        cmocka_unit_test(test_build_wait__choices),
        cmocka_unit_test(test_build_wait__accept_and_eventfd_take_it),
        cmocka_unit_test(test_build_wait__reply_and_request),
        cmocka_unit_test(test_build_wait__who_accepted_serves),
        cmocka_unit_test(test_build_wait__asking_again_is_no_wait),
        cmocka_unit_test(test_build_wait__peers_may_be_settled_again),
        cmocka_unit_test(test_build_wait__sleep),
        cmocka_unit_test(test_build_wait__naps_of_tries),
        cmocka_unit_test(test_build_wait__lengths_of_naps),
        cmocka_unit_test(test_build_wait__naps_in_vain),
        cmocka_unit_test(test_build_wait__one_long_nap),
        cmocka_unit_test(test_build_wait__naps_that_are_sleeps),
        cmocka_unit_test(test_build_wait__handler_inside_a_call),
        cmocka_unit_test(test_build_wait__nobody_was_seen_to_end_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
