/* What a thread that is sampled does at the signals of its timers, and at the
 * returns of its calls (agent/preload/sample/pace.c). Catches: a moment that is
 * missed, sampled twice or not postponed, a timer not stopped before a call, a
 * sample of a sleep. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka last of these */
#include <cmocka.h>

#include "tests/unit/help/pace_machine.h"

/* ---- signals ---- */

static void test_pace__ended_syscalls(void **state)
{
    (void)state;
    static const struct {
        int64_t result;
        bool off, at, is;
    } cases[] = {{-EINTR, false, true, true},  {-EINTR, false, false, false},
                 {0, true, true, true},        {0, false, true, false},
                 {5, true, true, true},        {5, true, false, false},
                 {-EAGAIN, true, true, false}, {-1, true, true, false}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        set_result(cases[i].result);
        m.at_syscall = cases[i].at;
        assert_int_equal(did_signal_end_syscall(&uc, cases[i].off),
                         cases[i].is);
    }
}

static void exact_at(uint64_t cpu)
{
    m.cpu = cpu;
    ips_pace_sample_or_rearm_on_signal(IPS_PACE_EXACT, &uc, in_call);
}
static void watch_at(uint64_t cpu)
{
    m.cpu = cpu;
    ips_pace_sample_or_rearm_on_signal(IPS_PACE_WATCH, &uc, in_call);
}

static void test_pace__exact_signal(void **state)
{
    (void)state;
    set_result(-EAGAIN);
    exact_at(45000000); /* a late one: it was stopped */
    assert_int_equal(m.written + m.sets, 0);
    /* 2 us are waited for by nobody; more is the thread's sleep */
    ips_me.sample_watch = IPS_SAMPLE_SET;
    exact_at(45000000 - 2001);
    assert_int_equal(m.written, 0);
    assert_true(is_set());
    assert_timer(6, 5000, 0);
    pace.budget = 0;
    exact_at(45000000 - 2000);
    assert_int_equal(m.written, 1);
    assert_false(m.late);
    assert_int_equal(m.sample_cpu, 45000000 - 2000);
    assert_int_equal(pace.budget, BUDGET);
    assert_in_range(pace.at, 50000000, 59999999);
    assert_true(is_set());
    assert_false(atomic_load(&sleeps_unseen));
    /* it ended a sleep that we do not see: no exact timer from now on */
    pace.at = 55000000;
    m.at_syscall = true;
    set_result(-EINTR);
    m.sets = 0;
    exact_at(54000000);
    assert_true(atomic_load(&sleeps_unseen));
    assert_int_equal(m.sets, 0);
    assert_false(is_set());
    assert_int_equal(m.written, 1);
}

/* The moment was put off to 300 us after a return at 46 ms. */
static void put_off(void)
{
    pace.postponed_timer_set = true;
    pace.back = 46000000;
    pace.offset = 300000;
    pace.at = 60000000;
    ips_me.sample_watch = IPS_SAMPLE_SET;
}

static void test_pace__exact_signal_put_off(void **state)
{
    (void)state;
    set_result(-EAGAIN);
    put_off();
    exact_at(46300000 - 2001); /* too early: set for the rest */
    assert_timer(6, 5000, 0);
    assert_true(is_set() && pace.postponed_timer_set);
    exact_at(46200000);
    assert_timer(6, 100000, 0);
    is_in_call = true; /* in the wrapper: a later return */
    pace.skip = 99;
    exact_at(46300000);
    assert_false(is_set() || pace.postponed_timer_set);
    assert_in_range(pace.skip, 0, 3);
    assert_int_equal(atomic_load(&signal_ns), -100);
    assert_int_equal(m.written, 0);
    is_in_call = false;
    put_off();
    pace.budget = 0;
    exact_at(46300000);
    assert_int_equal(m.written, 1);
    assert_false(m.late || pace.postponed_timer_set || pace.offset || is_set());
    assert_int_equal(pace.budget, BUDGET); /* gaps are long enough */
    assert_int_equal(pace.at, 60000000);   /* the next one, drawn before */
    assert_int_equal(examined_from(), m.now + 60000000 - 46300000 - PERIOD);
    put_off();
    pace.offset = 100000;
    exact_at(46100000);
    assert_int_equal(m.written, 2);
    assert_int_equal(pace.budget, 0);
    put_off();
    pace.offset = 100001;
    exact_at(46900000); /* it is over */
    assert_int_equal(m.written, 3);
    assert_int_equal(m.sample_cpu, 46900000);
    assert_int_equal(pace.budget, BUDGET);
}

static void test_pace__postponed(void **state)
{
    (void)state;
    pace.back = 44000000;
    assert_false(postpone_sample_if_possible()); /* the return is not known */
    pace.back_known = true;
    pace.tries = 9;
    assert_true(postpone_sample_if_possible());
    assert_int_equal(pace.offset, 1000001); /* odd: never 0 */
    assert_in_range(pace.skip, 1, 4);
    assert_int_equal(pace.tries, 0);
    assert_false(postpone_sample_if_possible()); /* once */
    pace.offset = 0;
    pace.back = 45000001; /* a return behind the moment */
    assert_false(postpone_sample_if_possible());
    pace.back = 45000000;
    assert_true(postpone_sample_if_possible());
    assert_int_equal(pace.offset, 1);
    pace.offset = 0;
    ips_me.sample_watch = IPS_SAMPLE_SET;
    assert_false(postpone_sample_if_possible());
}

static void test_pace__watch_signal(void **state)
{
    (void)state;
    /* before the moment: sets the exact timer, not in a call */
    pace.postponed_timer_set = true;
    watch_at(44000000);
    assert_true(is_set());
    assert_false(pace.postponed_timer_set);
    assert_timer(6, 1000000, 0);
    m.sets = 0;
    watch_at(45000000 + TICK - 1); /* the exact timer's turn */
    assert_int_equal(m.sets + m.written, 0);
    watch_at(45000000 + TICK); /* which did not come */
    assert_int_equal(m.written, 1);
    assert_true(m.late);
    assert_int_equal(m.sample_cpu, 45000000 + TICK);
    assert_in_range(pace.at, 50000000, 59999999);
    assert_true(is_set());
    begin(NULL);
    is_in_call = true;
    watch_at(44000000);
    assert_false(is_set());
    is_in_call = false;
    pace.nested = 1001;
    set_sp(1000 << 4);
    watch_at(44000000);
    assert_false(is_set());
    set_sp(1002 << 4);
    watch_at(44999999);
    assert_true(is_set());
    assert_timer(6, 5000, 0);
    /* behind it: late, or put off */
    begin(NULL);
    is_in_call = true;
    watch_at(45000000);
    assert_int_equal(m.written, 1);
    assert_false(is_set());
    begin(NULL);
    pace.back_known = true;
    pace.back = 44000000;
    watch_at(45000000);
    assert_int_equal(m.written, 0);
    assert_int_equal(pace.offset, 1000001);
    assert_true(is_close());
}

/* Would catch: a signal that comes while a return is handled, and one after the
 * end. */
static void test_pace__signals_that_do_nothing(void **state)
{
    (void)state;
    ips_me.sample_watch = IPS_SAMPLE_SET;
    pace.busy = true;
    exact_at(46000000);
    assert_false(is_set());
    assert_true(pace.busy);
    ips_me.sample_watch = IPS_SAMPLE_SET;
    watch_at(46000000); /* a jump left the function */
    assert_true(is_set());
    assert_false(pace.busy);
    pace.on = false;
    watch_at(60000000);
    exact_at(60000000);
    assert_int_equal(m.sets + m.written, 0);
}

/* ---- calls ---- */

static void test_pace__before_a_call(void **state)
{
    (void)state;
    static const struct {
        uint64_t real;
        int32_t kept;
    } cases[] = {{LIBC + 0x7fffffff, 0x7fffffff},
                 {LIBC + 0x80000000ull, 0},
                 {LIBC - 0x80000000ull, INT32_MIN},
                 {LIBC - 0x80000001ull, 0},
                 {LIBC + 16, 16}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        ips_me.sample_watch = IPS_SAMPLE_SET;
        ips_sample_stop_timer_before_call(cases[i].real);
        assert_false(is_set());
        assert_int_equal(pace.real, cases[i].kept);
    }
    write_sample_of_call(true);
    assert_true(m.late && m.here == 1);
    assert_int_equal(m.real, LIBC + 16);
    pace.real = 0;
    write_sample_of_call(false);
    assert_false(m.late);
    assert_int_equal(m.real, 0);
    pace.real = -16;
    write_sample_of_call(false);
    assert_int_equal(m.real, LIBC - 16);
    /* the moment gives way by the CPU time that stopping the timer takes, but
     * not if it has passed */
    for (int passed = 0; passed < 2; passed++) {
        pace.at = 45000000;
        m.cpu = passed ? 45000000 : 44999999;
        m.cpu_step = 7000;
        ips_me.sample_watch = IPS_SAMPLE_SET;
        ips_sample_stop_timer_before_call(LIBC + 16);
        assert_int_equal(pace.at, passed ? 45000000 : 45007000);
        ips_sample_stop_timer_before_call(LIBC +
                                          16); /* nothing is to be stopped */
        assert_int_equal(pace.at, passed ? 45000000 : 45007000);
    }
    m.cpu_step = 0;
    pace.real = -16;
    for (int i = 0; i < 2; i++) { /* another's timers */
        ips_me.sample_watch = IPS_SAMPLE_SET;
        ips_me.in_vfork = i;
        ips_me.own_table = !i;
        ips_sample_stop_timer_before_call(LIBC + 32);
        assert_true(is_set());
        assert_int_equal(pace.real, -16);
    }
}

static void test_pace__postponed_return(void **state)
{
    (void)state;
    struct ips_moment call = at_cpu(46299999);
    pace.skip = 2;
    assert_false(update_postponed_sample_at_return(&call));
    assert_true(update_postponed_sample_at_return(&call));
    assert_true(update_postponed_sample_at_return(&call));
    /* set, but the next call came before */
    put_off();
    assert_false(update_postponed_sample_at_return(&call));
    assert_int_equal(atomic_load(&signal_ns), 0);
    assert_int_equal(pace.tries, 1);
    assert_in_range(pace.skip, 1, 4);
    assert_false(pace.postponed_timer_set);
    put_off();
    call = at_cpu(46300000); /* the timer was late */
    assert_false(update_postponed_sample_at_return(&call));
    assert_int_equal(atomic_load(&signal_ns), 100);
    put_off();
    call = at_cpu(45999999); /* before the return */
    assert_false(update_postponed_sample_at_return(&call));
    assert_int_equal(atomic_load(&signal_ns), 100);
    assert_int_equal(pace.tries, 3);
    pace.tries = TRIES - 2;
    put_off();
    assert_false(update_postponed_sample_at_return(&call));
    assert_int_equal(m.here, 0);
    put_off();
    assert_false(update_postponed_sample_at_return(&call));
    assert_int_equal(m.here, 1);
    assert_true(m.late);
    assert_int_equal(pace.offset, 0);
    assert_int_equal(pace.budget, BUDGET);
}

static void test_pace__missed(void **state)
{
    (void)state;
    struct ips_moment call = at_cpu(45000000);
    pace.budget = 0;
    sample_or_postpone_missed_moment(&call, 46000000); /* it was in the call */
    assert_int_equal(m.here, 1);
    assert_false(m.late);
    assert_int_equal(pace.budget, BUDGET);
    assert_in_range(pace.at, 50000000, 59999999);
    assert_int_equal(m.id, 5);
    begin(NULL);
    call = at_cpu(45000001); /* before it, no return known: late */
    pace.near = 5;
    sample_or_postpone_missed_moment(&call, 46000000);
    assert_int_equal(m.here, 1);
    assert_true(m.late);
    assert_int_equal(pace.near, 8);
    assert_in_range(pace.at, 50000000, 59999999);
    pace.at = 45000000;
    sample_or_postpone_missed_moment(&call, 46000000);
    assert_int_equal(pace.near, NEAR_MOST);
    begin(NULL);
    pace.near = 4; /* 480 us: a loop of calls; 3 more */
    sample_or_postpone_missed_moment(&call, 46000000);
    assert_int_equal(m.here + m.sets, 0);
    assert_int_equal(pace.near, 7);
    assert_in_range(pace.at, 46000000, 46000000 + 3839999);
    begin(NULL);
    pace.back_known = true;
    pace.back = 44000000;
    sample_or_postpone_missed_moment(&call, 46000000);
    assert_int_equal(m.here, 0);
    assert_int_equal(pace.offset, 1000001);
    assert_in_range(pace.at, 50000000, 59999999);
}

static void return_at(uint64_t cpu)
{
    struct ips_moment call = at_cpu(cpu - 1000), ret = at_cpu(cpu);
    ips_sample_check_call_return_slow(&call, &ret);
}

static void test_pace__returns_near(void **state)
{
    (void)state;
    pace.near = 1; /* 60 us */
    for (unsigned i = 0; i < BUDGET; i++) {
        return_at(44940000 + i);
        assert_true(is_set());
        assert_timer(6, 60000 - i, 0);
        assert_int_equal(pace.arms, i + 1);
        assert_int_equal(pace.returns, i + 1);
        assert_int_equal(pace.back, 44940000 + i);
        assert_true(pace.back_known && !pace.busy && !pace.postponed_timer_set);
        return_at(44950000); /* nothing while it runs */
        assert_int_equal(pace.returns, i + 1);
        ips_me.sample_watch &= (uint8_t)~IPS_SAMPLE_SET;
    }
    return_at(44941000); /* no more: nearer returns are enough */
    assert_false(is_set());
    assert_int_equal(pace.near, 0);
    assert_int_equal(pace.arms, 0);
    assert_int_equal(examined_from(), m.now + 29000);
    return_at(44970000); /* one of these */
    assert_true(is_set());
    assert_int_equal(pace.arms, 1);
    ips_me.sample_watch &= (uint8_t)~IPS_SAMPLE_SET;
    pace.arms = BUDGET;
    return_at(44970000); /* there is no nearer */
    assert_false(is_set());
    assert_int_equal(pace.arms, BUDGET);
    begin(NULL);
    pace.near = 1;
    pace.budget = 0; /* no timer may be set: fewer returns are examined all the
                        same, but after many only */
    pace.returns = RETURNS_NEAR - 2;
    return_at(44941000);
    assert_int_equal(pace.near, 1);
    return_at(44941000);
    assert_int_equal(pace.near, 0);
    assert_int_equal(pace.returns, 0);
    pace.returns = RETURNS_NEAR - 1;
    return_at(44980000);
    assert_int_equal(pace.near, 0);
    assert_int_equal(pace.returns, RETURNS_NEAR);
    begin(NULL);
    pace.near = 1;
    return_at(44939999); /* not near */
    assert_int_equal(pace.returns, 0);
    assert_false(is_set() || pace.back_known);
    /* in a call that a handler interrupted; in two */
    ips_me.open_depth = 2;
    return_at(44950000);
    assert_false(is_set());
    assert_int_equal(pace.returns, 1);
    assert_int_equal(pace.arms, 0);
    ips_me.open_depth = 0;
    return_at(44950000);
    assert_true(is_set());
}

/* The window before the moment never becomes shorter than the gaps between
 * calls. Would catch: moments in long gaps lost, so that the code in short gaps
 * has too many samples (25% where 7% were true). */
static void test_pace__window_holds_the_longest_gap(void **state)
{
    (void)state;
    pace.near = 3; /* 240 us */
    return_at(44800000);
    ips_me.sample_watch &= (uint8_t)~IPS_SAMPLE_SET;
    pace.arms = BUDGET;
    return_at(44901000); /* its call began after a gap of 100 us */
    assert_int_equal(pace.least, 2);
    assert_int_equal(pace.near, 2); /* 120 us */
    assert_true(is_set());
    ips_me.sample_watch &= (uint8_t)~IPS_SAMPLE_SET;
    pace.arms = BUDGET;
    return_at(44930000);
    assert_int_equal(pace.near, 2);
    assert_false(is_set());
    assert_int_equal(pace.arms, BUDGET);
    pace.returns = RETURNS_FEW;
    choose_next_sample_time(46000000);
    assert_int_equal(pace.least, 1);
    pace.near = 4; /* a moment in a gap that was not examined */
    pace.back_known = false;
    struct ips_moment call = at_cpu(pace.at + 1);
    sample_or_postpone_missed_moment(&call, pace.at + 1000);
    assert_int_equal(pace.least, 5);
    assert_int_equal(pace.near, 7);
}

/* No timer is set for a moment that would come while it is being set; and if it
 * comes then all the same, the sample is not of our own code: the moment is
 * handled at the next return. */
static void test_pace__moment_while_the_timer_is_set(void **state)
{
    (void)state;
    return_at(45000000 - TAKES_MOST_NS);
    assert_false(is_set());
    assert_int_equal(pace.arms, 0);
    assert_int_equal(pace.back, 45000000 - TAKES_MOST_NS);
    m.expires = true;
    return_at(45000000 - TAKES_MOST_NS - 1);
    assert_int_equal(m.sets, 1);
    assert_false(is_set() || pace.busy);
    assert_int_equal(m.written + m.here, 0);
    m.expires = false;
    return_at(45002000); /* its call began after the moment */
    assert_int_equal(m.written + m.here, 0);
    assert_int_equal(pace.offset, TAKES_MOST_NS + 1);
    assert_in_range(pace.at, 50000000, 59999999);
}

static void test_pace__returns_that_do_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        begin(NULL);
        pace.on = i != 0;
        pace.busy = i == 1;
        ips_me.in_vfork = i == 2;
        ips_me.own_table = i == 3;
        return_at(47000000);
        assert_int_equal(m.sets + m.here, 0);
        assert_int_equal(pace.at, 45000000);
    }
    begin(NULL);
    errno = EDOM;
    return_at(47000000);
    assert_int_equal(errno, EDOM);
    assert_int_equal(m.here, 1);
}

/* A moment that was put off: a later return sets the timer for that long after
 * it. */
static void test_pace__return_put_off(void **state)
{
    (void)state;
    pace.offset = 300000;
    pace.skip = 1;
    m.step = 700;
    pace.at = 80000000;
    return_at(46000000);
    assert_true(is_set() && pace.postponed_timer_set);
    assert_int_equal(pace.arms + pace.returns, 0);
    assert_int_equal(m.id, 6);
    assert_true(m.ns >= 301250 && m.ns <= 316250);
    assert_true(pace.back > 46000000);
    begin(NULL);
    pace.offset = 300000;
    pace.skip = 2;
    pace.at = 80000000;
    return_at(46000000);
    assert_false(is_set() || pace.postponed_timer_set);
    assert_int_equal(pace.skip, 1);
    assert_int_equal(pace.back, 46000000);
    atomic_store(&sleeps_unseen, true);
    return_at(46000000);
    assert_false(is_set() || pace.postponed_timer_set);
}

#define TEST(name) cmocka_unit_test_setup(name, begin)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_pace__ended_syscalls),
        TEST(test_pace__exact_signal),
        TEST(test_pace__exact_signal_put_off),
        TEST(test_pace__postponed),
        TEST(test_pace__watch_signal),
        TEST(test_pace__signals_that_do_nothing),
        TEST(test_pace__before_a_call),
        TEST(test_pace__postponed_return),
        TEST(test_pace__missed),
        TEST(test_pace__returns_near),
        TEST(test_pace__moment_while_the_timer_is_set),
        TEST(test_pace__window_holds_the_longest_gap),
        TEST(test_pace__returns_that_do_nothing),
        TEST(test_pace__return_put_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
