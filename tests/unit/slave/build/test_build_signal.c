/* Signals: arcs from kill or child's end to the taking, coordinates of what a
 * signal ended. Each case says what it would catch. */
#include "rec_signal.h"

/* 10 works 100 and kills 20, whose handler has it at 25 of CPU: 20. */
static rs handles(struct recorder *r)
{
    rs a = process(r, 10), p = process(r, 20);
    put_kill(a, SIGUSR1, 9000, 100, 20);
    rec_end(a, IPS_END_EXIT, 20000, 110, 0);
    put_taken(p, SIGUSR1, 9050, 25, 10);
    return p;
}

/* Would catch: no arc; the CPU of the interrupted call put before the signal;
 * the wait counted as idle or not at all. 10 works 100 and kills; 20 has
 * worked 20, sleeps, and works 40 more after the signal. */
static void test_build_signal__handler(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs p = handles(r);
    put_block(p, IPS_OP_SIGWAIT, 1000, 9100, 20, 30, -1);
    rec_end(p, IPS_END_EXIT, 20000, 60, 0);
    struct ips_built *b = rec_alone(r);
    assert_arc(b, AUX(b, 20, 0), AUX(b, 10, 0), IPS_X_SIGNAL);
    assert_int_equal(rec_coord(b, AUX(b, 20, 0)), 20);
    assert_int_equal(rec_coord(b, AUX(b, 10, 0)), 100);
    assert_int_equal(rec_longest(b, 7, IPS_EXTERNAL_REPLY).t_max, 140);
    uint32_t c = rec_chain(b, 20);
    assert_int_equal(b->threads[c].wait_ns[IPS_WAIT_SIGNAL], 8090);
    assert_int_equal(b->counts.idle, 0);
    rec_free(r);
}

/* Would catch: a sleep that the signal ended left without its cause where the
 * handler makes calls of its own, as a server's does that waits for its
 * children in it; or taken for the handler's. */
static void test_build_signal__calls_in_the_handler(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs p = handles(r);
    put_block(p, IPS_OP_DISK, 9060, 9070, 26, 27, 1);
    put_block(p, IPS_OP_SELECT, 1000, 9100, 20, 30, -1);
    rec_end(p, IPS_END_EXIT, 20000, 60, 0);
    struct ips_built *b = rec_alone(r);
    assert_arc(b, AUX(b, 20, 0), AUX(b, 10, 0), IPS_X_SIGNAL);
    assert_int_equal(b->g.wait[AUX(b, 20, 0)], 8050);
    assert_int_equal(rec_coord(b, AUX(b, 20, 0)), 20);
    rec_free(r);
}

/* Would catch: an arc from a kill that is older, of another signal, to another
 * process or thread, with another value, or later than the taking; nodes for
 * kills that nobody took. */
static void test_build_signal__newest_that_fits(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs a = process(r, 10), p = process(r, 20);
    put_kill(a, SIGUSR1, 1000, 10, 20);
    put_kill(a, SIGUSR1, 2000, 20, 20); /* this one */
    put_kill(a, SIGUSR2, 3000, 30, 20);
    put_kill(a, SIGUSR1, 4000, 40, 30);
    put_kill(a, SIGUSR1, 4500, 45, 20)->tid = 21;
    put_kill(a, SIGUSR1, 6000, 60, 20);
    put_kill(a, SIGRTMIN, 7000, 70, 20)->value = 5; /* this one */
    put_kill(a, SIGRTMIN, 7100, 71, 20)->value = 6;
    put_kill(a, SIGHUP, 8000, 80, -10); /* its group: this one */
    put_taken(p, SIGUSR1, 5000, 50, 10);
    put_taken(p, SIGRTMIN, 7500, 51, 10)->value = 5;
    put_taken(p, SIGHUP, 8500, 52, 10);
    put_taken(p, SIGUSR1, 8600, 53, 99); /* not traced */
    put_taken(p, SIGALRM, 8700, 54, 0);
    struct ips_built *b = rec_alone(r);
    uint32_t from = rec_chain(b, 10), to = rec_chain(b, 20);
    assert_int_equal(b->g.chains[from].count, 2 + 3);
    assert_int_equal(b->g.chains[to].count, 2 + 3);
    for (uint32_t k = 0; k < 3; k++)
        assert_arc(b, AUX(b, 20, k), AUX(b, 10, k), IPS_X_SIGNAL);
    assert_int_equal(rec_coord(b, AUX(b, 10, 0)), 20);
    assert_int_equal(rec_coord(b, AUX(b, 10, 1)), 70);
    assert_int_equal(rec_coord(b, AUX(b, 10, 2)), 80);
    rec_free(r);
}

/* Would catch: the coordinate of what sigwait or a signalfd gave at its return,
 * or, where a poll waited for it, at the read. */
static void test_build_signal__wait_and_signalfd(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs a = process(r, 10), p = process(r, 20);
    put_kill(a, SIGUSR1, 5000, 100, 20);
    put_kill(a, SIGUSR2, 15000, 200, 20);
    put_block(p, IPS_OP_SIGWAIT, 1000, 5100, 20, 30, SIGUSR1);
    put_taken(p, SIGUSR1, 5100, 30, 10)->how = IPS_SIGNAL_WAIT;
    put_block(p, IPS_OP_EPOLL, 10000, 15100, 40, 45, 1);
    put_block(p, IPS_OP_SIGNALFD, 15200, 15210, 50, 55, 128);
    put_taken(p, SIGUSR2, 15210, 55, 10)->how = IPS_SIGNAL_FD;
    struct ips_built *b = rec_alone(r);
    assert_arc(b, AUX(b, 20, 0), AUX(b, 10, 0), IPS_X_SIGNAL);
    assert_arc(b, AUX(b, 20, 1), AUX(b, 10, 1), IPS_X_SIGNAL);
    assert_int_equal(rec_coord(b, AUX(b, 20, 0)), 20);
    assert_int_equal(rec_coord(b, AUX(b, 20, 1)), 40);
    assert_int_equal(b->g.wait[AUX(b, 20, 0)], 4090);
    assert_int_equal(b->g.wait[AUX(b, 20, 1)], 5095); /* what the poll slept */
    uint32_t c = rec_chain(b, 20);
    assert_int_equal(b->threads[c].wait_ns[IPS_WAIT_SIGNAL], 4090 + 5095);
    assert_int_equal(b->counts.idle, 0);
    rec_free(r);
}

/* Would catch: a poll of a pidfd that is idle, or that hangs on its child's end
 * at its return; its sleep taken by a receive that follows. */
static void test_build_signal__poll_of_a_pidfd(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs p = process(r, 10);
    rs child = rec_stream(r, 20, 20, 1000);
    rec_start(child, IPS_START_FORK, 1000, 0)->ppid = 10;
    rec_end(child, IPS_END_EXIT, 9000, 300, 0);
    put_block(p, IPS_OP_POLL, 2000, 9200, 20, 25, 1)->ready =
        IPS_READY(IPS_READY_PIDFD, 20);
    put(p, IPS_REC_SIGNAL, IPS_SIGNAL_PIDFD, SIGCHLD, 9200, 25, 20, CLD_EXITED);
    struct ips_built *b = rec_alone(r);
    const struct ips_chain *c = &b->g.chains[rec_chain(b, 20)];
    assert_arc(b, AUX(b, 10, 0), c->first + c->count - 1, IPS_X_SIGNAL);
    assert_int_equal(rec_coord(b, AUX(b, 10, 0)), 20);
    assert_int_equal(b->g.wait[AUX(b, 10, 0)], 7195);
    assert_int_equal(b->threads[rec_chain(b, 10)].wait_ns[IPS_WAIT_CHILD],
                     7195);
    assert_int_equal(b->counts.idle, 0);
    rec_free(r);
}

/* Would catch: SIGCHLD without an arc from the child's end, or from the end of
 * an earlier process of the same pid. */
static void test_build_signal__child(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs p = process(r, 10);
    rs old = rec_stream(r, 20, 20, 15);
    rec_start(old, IPS_START_FORK, 15, 0)->ppid = 10;
    rec_end(old, IPS_END_EXIT, 100, 5, 0);
    rs child = rec_stream(r, 20, 20, 1000);
    rec_start(child, IPS_START_FORK, 1000, 0)->ppid = 10;
    rec_end(child, IPS_END_EXIT, 9000, 300, 0);
    put(p, IPS_REC_SIGNAL, IPS_SIGNAL_HANDLER, SIGCHLD, 9100, 22, 20,
        CLD_EXITED);
    put_block(p, IPS_OP_SIGWAIT, 2000, 9200, 20, 25, -1);
    put(p, IPS_REC_SIGNAL, IPS_SIGNAL_HANDLER, SIGCHLD, 9500, 26, 20,
        CLD_STOPPED); /* no end */
    rec_end(p, IPS_END_EXIT, 9900, 30, 0);
    struct ips_built *b = rec_alone(r);
    const struct ips_chain *chains = b->g.chains;
    uint32_t first = rec_chain(b, 20), second = first + 1;
    assert_int_equal(chains[second].tid, 20);
    uint32_t end = chains[second].first + chains[second].count - 1;
    assert_arc(b, AUX(b, 10, 0), end, IPS_X_SIGNAL);
    assert_int_equal(chains[rec_chain(b, 10)].count, 3);
    assert_int_equal(rec_longest(b, 0, IPS_EXTERNAL_REPLY).t_max, 310);
    rec_free(r);
}

/* Would catch: a sleep cut short by a traced process weighed as an external
 * action; one that an alarm ended left out. */
static void test_build_signal__sleep_cut_short(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs a = process(r, 10), p = process(r, 20);
    put_kill(a, SIGUSR1, 6000, 100, 20);
    put_taken(p, SIGUSR1, 6050, 25, 10);
    put_block(p, IPS_OP_SLEEP, 1000, 6100, 20, 30, -1);
    put_taken(p, SIGALRM, 16050, 35, 0);
    put_block(p, IPS_OP_SLEEP, 11000, 16100, 35, 40, -1);
    struct ips_built *b = rec_alone(r);
    assert_arc(b, AUX(b, 20, 0), AUX(b, 10, 0), IPS_X_SIGNAL);
    assert_arc(b, AUX(b, 20, 2), AUX(b, 20, 1), IPS_X_EXTERNAL);
    assert_int_equal(b->g.chains[rec_chain(b, 20)].count, 2 + 3);
    assert_int_equal(b->counts.external, 1);
    uint32_t c = rec_chain(b, 20);
    assert_int_equal(b->threads[c].wait_ns[IPS_WAIT_SIGNAL], 5090);
    assert_int_equal(b->threads[c].wait_ns[IPS_WAIT_TIMER], 5095);
    rec_free(r);
}

/* Would catch: a signal taken before the call, or in one that did not sleep,
 * moved back to it; a read that a handler ended counted idle. */
static void test_build_signal__not_in_the_call(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs a = process(r, 10), p = process(r, 20);
    rec_pipe(p, 1, 25, IPS_SIDE_READ, 5);
    put_kill(a, SIGUSR1, 500, 5, 20);
    put_taken(p, SIGUSR1, 900, 18, 10);
    put_block(p, IPS_OP_SIGWAIT, 1000, 6100, 20, 30, -1);
    put_kill(a, SIGUSR1, 7000, 8, 20);
    put_taken(p, SIGUSR1, 7100, 60, 10);
    rec_io(p, IPS_REC_RECVCALL, 1, 7050, 7200, 40, 150, -1)->err = EINTR;
    rec_io(p, IPS_REC_RECVCALL, 1, 8000, 18000, 160, 170, -1)->err = EINTR;
    struct ips_built *b = rec_alone(r);
    assert_int_equal(rec_coord(b, AUX(b, 20, 0)), 18);
    assert_int_equal(rec_coord(b, AUX(b, 20, 1)), 60);
    uint32_t c = rec_chain(b, 20);
    assert_int_equal(b->threads[c].wait_ns[IPS_WAIT_IDLE], 0);
    assert_int_equal(b->threads[c].wait_ns[IPS_WAIT_SIGNAL], 5090 + 9990);
    rec_free(r);
}

/* Would catch: a wait that somebody outside of the run ended admitted as one of
 * which nobody knows who ended it, so that every service that is stopped from a
 * shell is incomplete; or such a wait passed over where the sender may be a
 * process of the run: it has or had the pid, it is in another pid namespace, or
 * an unrecorded process may have children. 0 as sender: none that the taker's
 * namespace has. */
static void test_build_signal__from_outside(void **state)
{
    (void)state;
    enum { SAME, OTHER_NAMESPACE, UNTRACED };
    static const struct {
        int sig, from, code, others;
        bool outside;
    } cases[] = {
        {SIGUSR1, 99, SI_USER, SAME, true},
        {SIGUSR1, 99, SI_QUEUE, SAME, true},
        {SIGUSR1, 0, SI_USER, SAME, true},
        {SIGINT, 0, SI_KERNEL, SAME, true},
        {SIGINT, 0, SI_KERNEL, OTHER_NAMESPACE, true},
        {SIGUSR1, 99, SI_USER, OTHER_NAMESPACE, true},
        {SIGALRM, 0, SI_TIMER, UNTRACED, true},
        {SIGUSR1, 10, SI_USER, SAME, false},
        {SIGUSR1, 0, SI_USER, OTHER_NAMESPACE, false},
        {SIGUSR1, 99, SI_USER, UNTRACED, false},
        {SIGIO, 0, SI_KERNEL, SAME, false},
        {SIGHUP, 0, SI_KERNEL, SAME, false},
        {SIGUSR1, 99, SI_MESGQ, SAME, false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct recorder *r = rec_new();
        rs a = process(r, 10), p = process(r, 20);
        if (cases[i].others == OTHER_NAMESPACE)
            a->head.pidns++;
        if (cases[i].others == UNTRACED)
            rec_fork(a, IPS_FORK_FORK, 700, 800, 3, 4, 12, 1);
        rec_end(a, IPS_END_EXIT, 900, 5, 0);
        put(p, IPS_REC_SIGNAL, IPS_SIGNAL_HANDLER, cases[i].sig, 6000, 30,
            cases[i].from, cases[i].code);
        put_block(p, IPS_OP_SIGWAIT, 1000, 6100, 20, 30, -1);
        put_block(p, IPS_OP_SIGWAIT, 7000, 16000, 40, 40, 0);
        put(p, IPS_REC_SIGNAL, IPS_SIGNAL_WAIT, cases[i].sig, 16000, 40,
            cases[i].from, cases[i].code);
        rec_end(p, IPS_END_EXIT, 17000, 60, 0);
        struct ips_built *b = rec_alone(r);
        print_message("case %zu\n", i);
        assert_int_equal(b->counts.unended_ns,
                         cases[i].outside ? 0 : 5090 + 9000);
        rec_free(r);
    }
}

/* Would catch: a signal that a process of the run queued without its pid
 * (rt_sigqueueinfo by number) taken for one from outside, so that the wait that
 * it ended is idle and the answer complete. If nobody in the run sent such a
 * signal, it did come from outside. */
static void test_build_signal__queued_without_a_pid(void **state)
{
    (void)state;
    for (int sent = 0; sent < 2; sent++) {
        struct recorder *r = rec_new();
        rs a = process(r, 10), p = process(r, 20);
        put_kill(a, sent ? SIGUSR1 : SIGUSR2, 900, 5, 20);
        rec_end(a, IPS_END_EXIT, 950, 5, 0);
        put_block(p, IPS_OP_SIGWAIT, 1000, 10000, 20, 20, 0);
        put(p, IPS_REC_SIGNAL, IPS_SIGNAL_WAIT, SIGUSR1, 10000, 20, 0,
            SI_QUEUE);
        rec_end(p, IPS_END_EXIT, 11000, 60, 0);
        struct ips_built *b = rec_alone(r);
        assert_int_equal(b->counts.unended_ns, sent ? 9000 : 0);
        rec_free(r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_build_signal__handler),
        cmocka_unit_test(test_build_signal__calls_in_the_handler),
        cmocka_unit_test(test_build_signal__newest_that_fits),
        cmocka_unit_test(test_build_signal__wait_and_signalfd),
        cmocka_unit_test(test_build_signal__poll_of_a_pidfd),
        cmocka_unit_test(test_build_signal__child),
        cmocka_unit_test(test_build_signal__sleep_cut_short),
        cmocka_unit_test(test_build_signal__not_in_the_call),
        cmocka_unit_test(test_build_signal__from_outside),
        cmocka_unit_test(test_build_signal__queued_without_a_pid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
