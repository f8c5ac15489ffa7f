/* Processes that a signal ended: arcs from the KILL. Each case says what it
 * would catch. Times are in us of the clock. */
#include "rec_signal.h"

#define US 1000ull
#define WAIT(b, tid, cause) (b)->threads[rec_chain(b, tid)].wait_ns[cause]

/* 10 waits for its child 20, which sleeps, until `t_ret`, and works 50 more. */
static rs parent_of_sleeper(struct recorder *r, uint64_t t_ret, uint32_t status,
                            rs *child)
{
    rs a = process(r, 10);
    rs p = rec_stream(r, 20, 20, 100);
    rec_fork(a, IPS_FORK_FORK, 50, 120, 5, 5, 20, 1);
    rec_start(p, IPS_START_FORK, 100, 0)->ppid = 10;
    p->begun = (struct ips_current_call){
        .t = 2000 * US,
        .cpu = 30,
        .what = IPS_BEGUN(IPS_REC_BLOCK, IPS_OP_SLEEP, 0)};
    p->dead = true;
    p->dead_t_ns = t_ret + 5;
    rec_join(a, IPS_JOIN_WAIT, 3000 * US, t_ret, 10, 20, 0)->status = status;
    rec_end(a, IPS_END_EXIT, t_ret + 100, 60, 0);
    *child = p;
    return a;
}

/* Would catch: no arc from the process that killed to the end of the victim;
 * the sleep that the signal ended taken for a wait for a timer; the victim
 * alive until its parent waited for it. 30 works 100 and kills. */
static void test_build_deaths__killed_in_a_sleep(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs p, k = process(r, 30);
    parent_of_sleeper(r, 9000 * US, SIGTERM, &p);
    put_kill(k, SIGTERM, 8000 * US, 100, 20);
    rec_end(k, IPS_END_EXIT, 8001 * US, 101, 0);
    struct ips_built *b = rec_alone(r);
    uint32_t died = AUX(b, 20, 0), join = rec_kind(b, 10, IPS_NODE_JOIN, 0);
    assert_arc(b, died, AUX(b, 30, 0), IPS_X_SIGNAL);
    assert_int_equal(died + 1, rec_last(b, 20));
    assert_arc(b, join, rec_last(b, 20), IPS_X_LIFETIME);
    assert_int_equal(b->g.wait[died], 6000 * US + 1);
    assert_int_equal(WAIT(b, 20, IPS_WAIT_SIGNAL), 6000 * US + 1);
    assert_int_equal(WAIT(b, 20, IPS_WAIT_TIMER), 0);
    assert_int_equal(b->procs[2].end_ns, 8000 * US + 1);
    assert_string_equal(b->procs[2].end, "signal 15");
    assert_int_equal(rec_longest(b, 0, IPS_EXTERNAL_REPLY).t_max, 100 + 50);
    rec_free(r);
}

/* Would catch: a KILL of another signal, of another process, of a process
 * before that had the pid, or after the death taken for the cause; the wait of
 * a victim of its own fault (SIGSEGV) changed. */
static void test_build_deaths__no_kill_that_fits(void **state)
{
    (void)state;
    static const struct {
        int status, sig, target;
        uint64_t t;
    } cases[] = {
        {SIGTERM, SIGKILL, 20, 8000 * US},  {SIGTERM, SIGTERM, 21, 8000 * US},
        {SIGTERM, SIGTERM, 20, 60},         {SIGTERM, SIGTERM, 20, 9100 * US},
        {SIGSEGV, SIGTERM, 20, 8000 * US},  {9 << 8, 9, 20, 8000 * US},
        {SIGTERM, SIGTERM, -30, 8000 * US},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct recorder *r = rec_new();
        rs p, k = process(r, 30);
        parent_of_sleeper(r, 9000 * US, (uint32_t)cases[i].status, &p);
        put_kill(k, cases[i].sig, cases[i].t, 100, cases[i].target);
        rec_end(k, IPS_END_EXIT, 9200 * US, 101, 0);
        struct ips_built *b = rec_alone(r);
        assert_int_equal(b->g.chains[rec_chain(b, 20)].count, 2);
        assert_int_equal(b->g.chains[rec_chain(b, 30)].count, 2);
        assert_int_equal(b->g.xkind[rec_last(b, 20)], IPS_X_NONE);
        assert_int_equal(WAIT(b, 20, IPS_WAIT_TIMER), 7000 * US);
        assert_int_equal(b->unended_count, 0);
        rec_free(r);
    }
}

/* Would catch: a KILL before or after the one that ended the process taken for
 * the cause: one whose signal a handler took before the last record, and one
 * that came when only the wait of the parent was missing. */
static void test_build_deaths__first_after_the_last_record(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs p, k = process(r, 30);
    parent_of_sleeper(r, 9000 * US, SIGTERM, &p);
    put_kill(k, SIGTERM, 500 * US, 10, 20);
    put_taken(p, SIGTERM, 600 * US, 5, 30);
    put_kill(k, SIGTERM, 7000 * US, 100, 20);
    put_kill(k, SIGTERM, 8000 * US, 200, 20);
    rec_end(k, IPS_END_EXIT, 8001 * US, 201, 0);
    struct ips_built *b = rec_alone(r);
    assert_arc(b, AUX(b, 20, 0), AUX(b, 30, 0), IPS_X_SIGNAL);
    assert_arc(b, AUX(b, 20, 1), AUX(b, 30, 1), IPS_X_SIGNAL);
    assert_int_equal(rec_coord(b, AUX(b, 30, 1)), 100);
    rec_free(r);
}

/* Would catch: an arc missing where the KILL was sent to the group of the
 * victim (20: it leads the group; 10: its parent does), to a thread by number,
 * or long before by one that had the signal blocked; an arc where it may not be
 * a member (40: its sibling leads the group; -1, 0: of a stranger). */
static void test_build_deaths__groups_and_threads(void **state)
{
    (void)state;
    static const int targets[] = {-20, -10, 20, -40, -1, 0};
    for (size_t i = 0; i <= sizeof(targets) / sizeof(targets[0]); i++) {
        struct recorder *r = rec_new();
        rs p, k = process(r, 30), a;
        bool early = i == sizeof(targets) / sizeof(targets[0]);
        a = parent_of_sleeper(r, 9000 * US, SIGKILL, &p);
        rec_fork(a, IPS_FORK_FORK, 130, 140, 5, 5, 40, 2);
        rs q = rec_stream(r, 40, 40, 135);
        rec_start(q, IPS_START_FORK, 135, 0)->ppid = 10;
        rec_end(q, IPS_END_EXIT, 9500 * US, 1, 0);
        struct ips_rec_signal *kill =
            put_kill(k, SIGKILL, early ? 300 * US : 8000 * US, 100,
                     early ? 20 : targets[i]);
        if (i == 2) { /* by tkill */
            kill->pid = 0;
            kill->tid = 20;
        }
        rec_end(k, IPS_END_EXIT, 9800 * US, 101, 0);
        struct ips_built *b = rec_alone(r);
        if (i >= 3 && !early) {
            assert_no_arc(b, rec_last(b, 20));
            assert_int_equal(b->g.chains[rec_chain(b, 20)].count, 2);
            rec_free(r);
            continue;
        }
        uint32_t victim = early ? rec_last(b, 20) : AUX(b, 20, 0);
        assert_arc(b, victim, AUX(b, 30, 0), IPS_X_SIGNAL);
        assert_int_equal(WAIT(b, 20, IPS_WAIT_TIMER), early ? 7000 * US : 0);
        rec_free(r);
    }
}

/* Would catch: a victim that computed until it was killed left without an arc,
 * or its CPU time since its last record put after the signal or lost; a thread
 * of the same process that sent the signal made to depend on itself. */
static void test_build_deaths__while_it_computes(void **state)
{
    (void)state;
    for (int own = 0; own < 2; own++) {
        struct recorder *r = rec_new();
        rs p, k = process(r, 30), a = process(r, 10);
        rec_fork(a, IPS_FORK_FORK, 50, 120, 5, 5, 20, 1);
        p = rec_stream(r, 20, 20, 100);
        rec_start(p, IPS_START_FORK, 100, 0)->ppid = 10;
        put_kill(own ? p : k, SIGTERM, 8000 * US, 100, 20);
        struct ips_rec_join *j =
            rec_join(a, IPS_JOIN_WAIT, 3000 * US, 9000 * US, 10, 20, 0);
        j->status = SIGTERM;
        j->child_cpu_ns = 500 * US;
        rec_end(a, IPS_END_EXIT, 9100 * US, 60, 0);
        struct ips_built *b = rec_alone(r);
        uint32_t end = rec_last(b, 20);
        assert_int_equal(b->g.chains[rec_chain(b, 20)].count, own ? 3 : 2);
        assert_int_equal(rec_coord(b, end), 500 * US);
        if (own) {
            assert_int_equal(b->g.xkind[end], IPS_X_NONE);
        } else {
            assert_arc(b, end, AUX(b, 30, 0), IPS_X_SIGNAL);
            assert_true(b->g.t_ns[end] > 8000 * US);
        }
        rec_free(r);
    }
}

/* Would catch: an end-of-file that depends on the last record of the victim,
 * because its exit had not ended yet, instead of on the signal. */
static void test_build_deaths__end_of_file(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs p, k = process(r, 30), a = process(r, 10);
    rec_fork(a, IPS_FORK_FORK, 50, 120, 5, 5, 20, 1);
    p = rec_stream(r, 20, 20, 100);
    rec_start(p, IPS_START_FORK, 100, 0)->ppid = 10;
    rec_pipe(p, 1, 200, IPS_SIDE_WRITE, 5);
    rec_pipe(a, 1, 210, IPS_SIDE_READ, 5);
    p->begun = (struct ips_current_call){
        .t = 2000 * US, .cpu = 30, .what = IPS_BEGUN(IPS_REC_ACQUIRE, 0, 1)};
    put_kill(k, SIGKILL, 8000 * US, 100, 20);
    rec_end(k, IPS_END_EXIT, 8001 * US, 101, 0);
    rec_recv(a, 1, 2500 * US, 8000 * US + 50, 10, 0);
    struct ips_rec_join *j =
        rec_join(a, IPS_JOIN_WAIT, 8100 * US, 9000 * US, 10, 20, 0);
    j->status = SIGKILL;
    j->child_cpu_ns = 200 * US;
    rec_end(a, IPS_END_EXIT, 9100 * US, 60, 0);
    struct ips_built *b = rec_alone(r);
    uint32_t died = AUX(b, 20, 0);
    assert_arc(b, died, AUX(b, 30, 0), IPS_X_SIGNAL);
    assert_arc(b, rec_kind(b, 10, IPS_NODE_RECV, 0), died, IPS_X_LIFETIME);
    rec_free(r);
}

/* Would catch: an answer that is complete although a process that is not
 * recorded may have killed the victim. */
static void test_build_deaths__by_the_unrecorded(void **state)
{
    (void)state;
    for (int sig = SIGSEGV; sig <= SIGTERM; sig += SIGTERM - SIGSEGV) {
        struct recorder *r = rec_new();
        rs p, k = process(r, 30);
        parent_of_sleeper(r, 9000 * US, (uint32_t)sig, &p);
        rec_fork(k, IPS_FORK_FORK, 700, 800, 3, 4, 12, 1);
        rec_end(k, IPS_END_EXIT, 900, 5, 0);
        struct ips_built *b = rec_alone(r);
        assert_int_equal(b->unended_count, sig == SIGTERM);
        rec_free(r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_build_deaths__killed_in_a_sleep),
        cmocka_unit_test(test_build_deaths__no_kill_that_fits),
        cmocka_unit_test(test_build_deaths__first_after_the_last_record),
        cmocka_unit_test(test_build_deaths__groups_and_threads),
        cmocka_unit_test(test_build_deaths__while_it_computes),
        cmocka_unit_test(test_build_deaths__end_of_file),
        cmocka_unit_test(test_build_deaths__by_the_unrecorded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
