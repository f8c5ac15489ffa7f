/* Stopped processes: arcs from who sent SIGCONT to the threads, from who sent
 * SIGSTOP to who is told. Each case says what it would catch. */
#include "rec_signal.h"

#define SIGNAL_WAIT(b, tid)                                                    \
    (b)->threads[rec_chain(b, tid)].wait_ns[IPS_WAIT_SIGNAL]

/* 10 stops 20 at 10,000 and lets it go on at 60,000, having worked 900. */
static rs stopper(struct recorder *r)
{
    rs a = process(r, 10);
    put_kill(a, SIGSTOP, 10000, 400, 20);
    put_kill(a, SIGCONT, 60000, 900, 20);
    rec_end(a, IPS_END_EXIT, 100000, 910, 0);
    return a;
}

/* Would catch: a stop between two records without its arc, as work or in no
 * wait; one thread of two left out; the work before the stop put behind it. */
static void test_build_stop__while_it_computes(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    stopper(r);
    rs p = process(r, 20), q = rec_stream(r, 20, 21, 20);
    put_block(p, IPS_OP_OTHER, 1000, 1000, 500, 500, 1);
    put_block(p, IPS_OP_OTHER, 70000, 70000, 18500, 18500, 1);
    rec_end(p, IPS_END_EXIT, 70100, 18600, 0);
    put_block(q, IPS_OP_OTHER, 2000, 2000, 10, 10, 1);
    put_block(q, IPS_OP_OTHER, 62000, 62000, 30, 30, 1);
    struct ips_built *b = rec_alone(r);
    assert_arc(b, AUX(b, 20, 0), AUX(b, 10, 0), IPS_X_SIGNAL);
    assert_arc(b, AUX(b, 21, 0), AUX(b, 10, 0), IPS_X_SIGNAL);
    assert_int_equal(b->g.chains[rec_chain(b, 10)].count, 3);
    assert_int_equal(rec_coord(b, AUX(b, 20, 0)), 500 + 9000);
    assert_int_equal(b->g.wait[AUX(b, 20, 0)], 50000);
    assert_int_equal(SIGNAL_WAIT(b, 20), 50000);
    assert_int_equal(SIGNAL_WAIT(b, 21), 50000);
    assert_int_equal(rec_longest(b, 0, IPS_EXTERNAL_REPLY).t_max, 18600);
    rec_free(r);
}

/* Would catch: a read that was stopped hanging on its sender alone, though the
 * bytes lay there; what came after SIGCONT put before it; the stop counted as
 * the call's own wait. */
static void test_build_stop__in_a_call(void **state)
{
    (void)state;
    for (int late = 0; late < 2; late++) {
        struct recorder *r = rec_new();
        stopper(r);
        rs w = process(r, 30), p = process(r, 20);
        rec_pipe(w, 1, 35, IPS_SIDE_WRITE, 5);
        rec_send(w, 1, late ? 70000 : 30000, 200, 1);
        rec_pipe(p, 1, 25, IPS_SIDE_READ, 5);
        rec_io(p, IPS_REC_RECV, 1, 2000, late ? 70010 : 60010, 50, 60, 1);
        rec_end(p, IPS_END_EXIT, 80000, 1060, 0);
        struct ips_built *b = rec_alone(r);
        uint32_t go_on = AUX(b, 20, 0), got = rec_kind(b, 20, IPS_NODE_RECV, 0);
        assert_int_equal(got, go_on + 1);
        assert_arc(b, go_on, AUX(b, 10, 0), IPS_X_SIGNAL);
        assert_arc(b, got, rec_kind(b, 30, IPS_NODE_SEND, 0), IPS_X_DATA);
        assert_int_equal(rec_coord(b, go_on), 50);
        assert_int_equal(b->g.wait[go_on], 58000);
        assert_int_equal(b->g.wait[got] > 0, late);
        assert_int_equal(SIGNAL_WAIT(b, 20), 50000);
        assert_int_equal(b->threads[rec_chain(b, 20)].wait_ns[IPS_WAIT_PEER],
                         late ? 18000 : 8000);
        /* SIGCONT comes after 900 of work, the byte after 200. */
        assert_int_equal(rec_longest(b, 0, IPS_EXTERNAL_REPLY).t_max, 1910);
        rec_free(r);
    }
}

/* Would catch: a sleep as long as the stop weighed as if the timer had run so
 * long, or the part behind the stop added to it; a stop before a sleep's begin.
 */
static void test_build_stop__in_a_sleep(void **state)
{
    (void)state;
    for (int late = 0; late < 2; late++) {
        struct recorder *r = rec_new();
        stopper(r);
        rs p = process(r, 20);
        uint64_t ret = late ? 9000000 : 60020;
        put_block(p, IPS_OP_SLEEP, 2000, ret, 50, 60, 0);
        struct ips_built *b = rec_alone(r);
        assert_arc(b, AUX(b, 20, 1), AUX(b, 10, 0), IPS_X_SIGNAL);
        assert_arc(b, AUX(b, 20, 2), AUX(b, 20, 0), IPS_X_EXTERNAL);
        assert_int_equal(b->g.xlen[AUX(b, 20, 2)], late ? ret - 2010 : 8010);
        assert_int_equal(SIGNAL_WAIT(b, 20), 50000);
        rec_free(r);
    }
}

/* Would catch: a send that the stop interrupted held back with what it had
 * written before. */
static void test_build_stop__in_a_send(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    stopper(r);
    rs w = process(r, 20), p = process(r, 30);
    rec_pipe(w, 1, 25, IPS_SIDE_WRITE, 5);
    rec_io(w, IPS_REC_SEND, 1, 2000, 90000, 50, 60, 100000);
    rec_pipe(p, 1, 35, IPS_SIDE_READ, 5);
    rec_recv(p, 1, 1000, 2100, 10, 60000);
    rec_recv(p, 1, 80000, 80000, 20, 30000);
    struct ips_built *b = rec_alone(r);
    uint32_t send = rec_kind(b, 20, IPS_NODE_SEND, 0);
    assert_arc(b, rec_kind(b, 30, IPS_NODE_RECV, 0), send, IPS_X_DATA);
    assert_arc(b, AUX(b, 20, 0), rec_kind(b, 30, IPS_NODE_RECV, 1), IPS_X_ROOM);
    assert_arc(b, AUX(b, 20, 1), AUX(b, 10, 0), IPS_X_SIGNAL);
    assert_int_equal(AUX(b, 20, 1), send + 2);
    rec_free(r);
}

/* Would catch: an arc to a thread that ran on (SIGSTOP failed), to another
 * process, from a SIGCONT for nobody who was stopped, from the second of two,
 * or to one that has ended; nodes for such a SIGCONT. */
static void test_build_stop__not_stopped(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs a = process(r, 10), p = process(r, 20), q = process(r, 30);
    put_kill(a, SIGCONT, 5000, 100, 20);
    put_kill(a, SIGSTOP, 10000, 400, 20);
    put_kill(a, SIGTSTP, 11000, 400, 30); /* may be ignored */
    put_kill(a, SIGCONT, 60000, 900, 20);
    put_kill(a, SIGCONT, 61000, 901, 20);
    put_kill(a, SIGCONT, 62000, 902, 30);
    put_kill(a, SIGSTOP, 80000, 903, 20);
    put_kill(a, SIGCONT, 90000, 904, 20);
    put_block(p, IPS_OP_OTHER, 1000, 1000, 0, 0, 1);
    put_block(p, IPS_OP_OTHER, 70000, 70000, 69000, 69000, 1);
    rec_end(p, IPS_END_EXIT, 75000, 70000, 0);
    put_block(q, IPS_OP_OTHER, 1000, 1000, 0, 0, 1);
    put_block(q, IPS_OP_OTHER, 70000, 70000, 10, 10, 1);
    struct ips_built *b = rec_alone(r);
    assert_int_equal(b->g.chains[rec_chain(b, 20)].count, 2);
    assert_int_equal(b->g.chains[rec_chain(b, 30)].count, 2);
    for (uint32_t i = 0; i < b->g.node_count; i++)
        assert_no_arc(b, i);
    rec_free(r);
}

/* Would catch: a group that goes on without the one who was stopped in it; a
 * stop that a terminal made, and a shell was told of, without its end; who is
 * told of a stop, or of its end, without who did it; the stop of before taken
 * for this one. */
static void test_build_stop__job_control(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs sh = process(r, 10), p = process(r, 20);
    put_block(sh, IPS_OP_SIGWAIT, 1000, 10000, 10, 20, 20);
    put(sh, IPS_REC_SIGNAL, IPS_SIGNAL_WAIT, SIGCHLD, 10000, 20, 20,
        CLD_STOPPED);                      /* Ctrl-Z: nobody's KILL */
    put_kill(sh, SIGCONT, 60000, 30, -20); /* fg */
    put_kill(sh, SIGSTOP, 3000000, 40, -20);
    put_block(sh, IPS_OP_SIGWAIT, 3000010, 3020000, 50, 60, 20);
    put(sh, IPS_REC_SIGNAL, IPS_SIGNAL_WAIT, SIGCHLD, 3020000, 60, 20,
        CLD_STOPPED);
    put_kill(sh, SIGCONT, 3060000, 70, 20);
    put_block(sh, IPS_OP_SIGWAIT, 3060010, 3080000, 80, 90, 20);
    put(sh, IPS_REC_SIGNAL, IPS_SIGNAL_WAIT, SIGCHLD, 3080000, 90, 20,
        CLD_CONTINUED);
    put_block(sh, IPS_OP_SIGWAIT, 5000000, 5020000, 91, 92, 20);
    put(sh, IPS_REC_SIGNAL, IPS_SIGNAL_WAIT, SIGCHLD, 5020000, 92, 20,
        CLD_STOPPED); /* Ctrl-Z again */
    rec_end(sh, IPS_END_EXIT, 6000000, 100, 0);
    put_block(p, IPS_OP_OTHER, 1000, 1000, 0, 0, 1);
    put_block(p, IPS_OP_OTHER, 70000, 70000, 9000, 9000, 1);
    put_block(p, IPS_OP_OTHER, 3070000, 3070000, 20000, 20000, 1);
    struct ips_built *b = rec_alone(r);
    uint32_t fg = AUX(b, 10, 0), stop = AUX(b, 10, 1), told = AUX(b, 10, 2),
             cont = AUX(b, 10, 3), seen = AUX(b, 10, 4);
    assert_arc(b, AUX(b, 20, 0), fg, IPS_X_SIGNAL);
    assert_arc(b, AUX(b, 20, 1), cont, IPS_X_SIGNAL);
    assert_arc(b, told, stop, IPS_X_SIGNAL);
    assert_arc(b, seen, cont, IPS_X_SIGNAL);
    assert_int_equal(b->g.chains[rec_chain(b, 10)].count, 2 + 5);
    assert_int_equal(SIGNAL_WAIT(b, 20), 50000 + 60000);
    rec_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_build_stop__while_it_computes),
        cmocka_unit_test(test_build_stop__in_a_call),
        cmocka_unit_test(test_build_stop__in_a_sleep),
        cmocka_unit_test(test_build_stop__in_a_send),
        cmocka_unit_test(test_build_stop__not_stopped),
        cmocka_unit_test(test_build_stop__job_control),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
