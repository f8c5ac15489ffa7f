/* When a thread is sampled (agent/preload/sample/pace.c): the moments that are
 * drawn and the timers that are set for them. Catches: a timer set for another
 * time, a moment drawn in another period, a limit that is off by one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka last of these */
#include <cmocka.h>

#include "tests/unit/help/pace_machine.h"

/* ---- helpers ---- */

static void test_pace__numbers(void **state)
{
    (void)state;
    assert_int_equal(tick_ns, TICK);
    assert_int_equal(period_ns, PERIOD);
    assert_int_equal(watch_lead_ns(), TICK + 100000);
    /* the same numbers from another program: splitmix64 of clock, thread and
     * moment */
    m.now = 1000000;
    pace.at = 50000000;
    assert_int_equal(random_below(1000000), 124167);
    m.now = 1;
    pace.at = 0;
    assert_int_equal(random_below(1000000), 272008);
    m.now = 123456789123;
    pace.at = 3;
    assert_int_equal(random_below(1000000), 202497);
    assert_int_equal(random_below(0), 0);
    assert_int_equal(random_below(1), 0);
    ips_core.mult = (uint64_t)1 << 31; /* two stamps a ns */
    assert_int_equal(ns_to_stamps(7), 14);
    assert_int_equal(ns_to_stamps((uint64_t)1 << 31), (uint64_t)1 << 32);
    assert_int_equal(ns_to_stamps((uint64_t)1 << 40), (uint64_t)1 << 32);
    ips_core.mult = 0;
    assert_int_equal(ns_to_stamps(7), 7);
    set_kernel_timer(9, 3000000007, 1000000005);
    assert_timer(9, 3000000007, 1000000005);
}

static void test_pace__timers_that_are_made(void **state)
{
    (void)state;
    m.new_id = INT16_MAX;
    assert_int_equal(create_kernel_timer(CLOCK_MONOTONIC, 12), INT16_MAX);
    assert_int_equal(m.clock[0], CLOCK_MONOTONIC);
    assert_int_equal(m.cookie[0], 12);
    assert_int_equal(m.signo, 33);
    assert_int_equal(m.notify, SIGEV_THREAD_ID);
    assert_int_equal(m.tid, 77);
    assert_int_equal(m.deleted, 0);
    assert_int_equal(create_kernel_timer(CLOCK_MONOTONIC, 12),
                     -1); /* too great an id */
    assert_int_equal(m.deleted, 1);
    assert_int_equal(m.deleted_id[0], INT16_MAX + 1);
    m.new_id = -1;
    assert_int_equal(create_kernel_timer(CLOCK_MONOTONIC, 12), -1);
    assert_int_equal(m.deleted, 1);
}

static void test_pace__exact_timer(void **state)
{
    (void)state;
    stop_exact_timer();
    assert_int_equal(m.sets, 0);
    start_exact_timer(4999);
    assert_timer(6, 5000, 0);
    start_exact_timer(5001);
    assert_timer(6, 5001, 0);
    assert_true(is_set());
    assert_false(may_set_exact_timer());
    ips_me.sample_watch |= IPS_SAMPLE_CLOSE;
    stop_exact_timer();
    assert_timer(6, 0, 0);
    assert_int_equal(m.sets, 3);
    assert_int_equal(ips_me.sample_watch, IPS_SAMPLE_CLOSE);
    assert_true(may_set_exact_timer());
    pace.exact = 0; /* an id as any other */
    assert_true(may_set_exact_timer());
    pace.exact = -1;
    assert_false(may_set_exact_timer());
    pace.exact = 6;
    atomic_store(&sleeps_unseen, true);
    assert_false(may_set_exact_timer());
}

/* The timer is set late, and what is left is waited for; the time that setting
 * takes is learnt: 700 ns, then a seventh of what is new. */
static void test_pace__exact_timer_after(void **state)
{
    (void)state;
    static const struct {
        uint64_t step, ns; /* 20000 + 1.5 of what was learnt + 1250 */
        uint32_t back;     /* what was waited */
    } turns[] = {{700, 21250, 1400},
                 {1500, 22300, 3000},   /* learnt: 700; ahead 2300 */
                 {16000, 22450, 32000}, /* 800; a step is 10 us at most */
                 {100, 24175, 4200}};   /* (800 * 7 + 10000) / 8 = 1950 */
    for (size_t i = 0; i < sizeof(turns) / sizeof(*turns); i++) {
        ips_me.sample_watch = 0;
        m.step = turns[i].step;
        pace.back = 1000;
        set_exact_timer_to_expire_after_return(20000);
        assert_true(is_set());
        assert_timer(6, turns[i].ns, 0);
        assert_int_equal(pace.back - 1000, turns[i].back);
    }
    /* signals that come late are waited for as much longer */
    atomic_store(&signal_ns, 2000);
    m.step = 100;
    pace.back = 0;
    set_exact_timer_to_expire_after_return(20000);
    assert_int_equal(pace.back, 5900);
}

static void test_pace__signal_delay(void **state)
{
    (void)state;
    adjust_signal_delay_estimate(4999);
    assert_int_equal(atomic_load(&signal_ns), 4999);
    adjust_signal_delay_estimate(1);
    assert_int_equal(atomic_load(&signal_ns), 4999);
    adjust_signal_delay_estimate(-9998);
    assert_int_equal(atomic_load(&signal_ns), -4999);
    adjust_signal_delay_estimate(-1);
    assert_int_equal(atomic_load(&signal_ns), -4999);
}

static void test_pace__inside_an_interrupted_call(void **state)
{
    (void)state;
    const uint64_t sp = 0x7fff12345670;
    assert_true(is_outside_interrupted_call(sp));
    m.at_syscall = false;
    set_sp(sp);
    ips_sample_store_sp_of_interrupted_syscall(&uc);
    assert_int_equal(pace.nested, 0);
    m.at_syscall = true;
    pace.on = false;
    ips_sample_store_sp_of_interrupted_syscall(&uc);
    assert_int_equal(pace.nested, 0);
    pace.on = true;
    ips_sample_store_sp_of_interrupted_syscall(&uc);
    assert_int_equal(pace.nested, (uint32_t)(sp >> 4) | 1);
    set_sp(sp + 4096);
    ips_sample_store_sp_of_interrupted_syscall(&uc); /* the outermost stays */
    assert_int_equal(pace.nested, (uint32_t)(sp >> 4) | 1);
    assert_false(is_outside_interrupted_call(sp - 16));
    assert_false(is_outside_interrupted_call(sp + ((uint64_t)16 << 22) + 16));
    assert_int_equal(pace.nested, (uint32_t)(sp >> 4) | 1);
    assert_true(is_outside_interrupted_call(sp + 16));
    assert_int_equal(pace.nested, 0);
    pace.nested = 1001;
    assert_true(is_outside_interrupted_call(1001 << 4)); /* its own */
    pace.nested = 1001;
    assert_true(is_outside_interrupted_call((1001ull + (1u << 22) - 1) << 4));
    pace.nested = 1001;
    assert_false(is_outside_interrupted_call((1001ull + (1u << 22)) << 4));
}

/* ---- moments ---- */

static void test_pace__examined_before(void **state)
{
    (void)state;
    static const uint64_t ns[] = {30000,  60000,   120000,  240000,  480000,
                                  960000, 1920000, 3840000, 7680000, PERIOD};
    for (uint8_t i = 0; i < 10; i++) {
        pace.near = i;
        assert_int_equal(get_call_return_check_window_ns(), ns[i]);
    }
    period_ns = 1000; /* a tick is longer */
    assert_int_equal(get_call_return_check_window_ns(), TICK + 100000);
}

static void test_pace__drawn(void **state)
{
    (void)state;
    pace.arms = pace.returns = 5;
    pace.budget = 0;
    choose_next_sample_time(46000000);
    assert_in_range(pace.at, 50000000, 59999999); /* the next period */
    assert_int_equal(pace.budget, 0 + BUDGET);    /* few returns */
    assert_int_equal(pace.arms, 0);
    assert_int_equal(pace.returns, 0);
    pace.returns = RETURNS_FEW;
    pace.budget = 1;
    choose_next_sample_time(80000000); /* a later one */
    assert_in_range(pace.at, 80000001, 89999999);
    assert_int_equal(pace.budget, 1);
    pace.returns = RETURNS_FEW - 1;
    choose_next_sample_time(pace.at);
    assert_int_equal(pace.budget, BUDGET);
    assert_in_range(pace.at, 90000000, 99999999);
    period_ns = 1; /* each moment is in its period's only ns */
    pace.at = 5;
    choose_next_sample_time(6);
    assert_int_equal(pace.at, 7);
}

static void test_pace__returns_are_examined(void **state)
{
    (void)state;
    pace.near = 0;
    pace.back_known = true;
    pace.real = 9;
    ips_me.io_baseline.span = 5;
    plan_return_checks(44969999, 5000); /* a ns before it is near */
    assert_int_equal(examined_from(), 5001);
    assert_int_equal(ips_me.io_baseline.span, 0);
    assert_false(is_close() || pace.back_known || pace.real);
    pace.back_known = true;
    pace.real = 9;
    plan_return_checks(44970000, 5000);
    assert_int_equal(examined_from(), 0);
    assert_true(is_close() && pace.back_known && pace.real == 9);
    plan_return_checks(46000000, 5000); /* it is over */
    assert_true(is_close());
    pace.offset = 1; /* postponed: all returns are */
    plan_return_checks(10000000, 5000);
    assert_true(is_close());
    pace.offset = 0;
    ips_core.mult = (uint64_t)1 << 31;
    plan_return_checks(44000000, 5000);
    assert_int_equal(examined_from(), 5000 + 2 * 970000);
    assert_false(is_close());
}

static void test_pace__watch(void **state)
{
    (void)state;
    const uint64_t lead = TICK + 100000;
    set_watch_timer(45000000 - lead - 1);
    assert_timer(5, 1, TICK);
    set_watch_timer(45000000 - lead);
    assert_timer(5, 1, TICK);
    set_watch_timer(45000000 - lead - 9);
    assert_timer(5, 9, TICK);
    set_watch_timer(46000000);
    assert_timer(5, 1, TICK);
    ips_me.sample_watch = IPS_SAMPLE_SET; /* the exact timer sees to it */
    set_watch_timer(44000000);
    assert_timer(5, 1000000, TICK);
    ips_me.sample_watch = 0;
    pace.exact = -1; /* nothing to be set before the moment */
    set_watch_timer(44000000);
    assert_timer(5, 1000000, TICK);
}

static void test_pace__after_a_sample(void **state)
{
    (void)state;
    choose_next_sample_and_set_timers(46000000, true);
    assert_in_range(pace.at, 50000000, 59999999);
    assert_true(is_set());
    assert_timer(5, pace.at - 46000000, TICK); /* the watch, set last */
    assert_int_equal(m.sets, 2);
    ips_me.sample_watch = 0;
    choose_next_sample_and_set_timers(pace.at, false);
    assert_false(is_set());
    assert_int_equal(m.sets, 3);
    /* in a call that a handler interrupted, it is not set */
    pace.nested = (uint32_t)((uint64_t)(uintptr_t)&state >> 4) + (1u << 20);
    choose_next_sample_and_set_timers(pace.at, true);
    assert_false(is_set());
}

/* ---- start and end of a thread ---- */

static void test_pace__thread(void **state)
{
    (void)state;
    m.cpu = 32000000;
    ips_pace_create_and_start_timers();
    assert_int_equal(m.made, 2);
    assert_int_equal(m.clock[0], CLOCK_THREAD_CPUTIME_ID);
    assert_int_equal(m.clock[1], CLOCK_MONOTONIC);
    assert_int_equal(m.cookie[0], IPS_PACE_WATCH);
    assert_int_equal(m.cookie[1], IPS_PACE_EXACT);
    assert_true(pace.on && pace.watch == 3 && pace.exact == 4);
    assert_true(pace.near == NEAR_MOST && pace.budget == BUDGET);
    assert_in_range(pace.at, 32000001, 49999999);
    assert_int_equal(m.starts, 1);
    assert_int_equal(m.sample_cpu, 32000000);
    assert_int_equal(m.id, 3);
    assert_int_equal(m.interval, TICK);
    ips_me.sample_watch = IPS_SAMPLE_SET;
    ips_me.sample_off = 5;
    ips_pace_delete_timers();
    assert_int_equal(m.deleted, 2);
    assert_true(m.deleted_id[0] == 3 && m.deleted_id[1] == 4);
    assert_false(pace.on || ips_me.sample_watch || ips_me.sample_off);
    ips_pace_delete_timers();
    assert_int_equal(m.deleted, 2);
    /* many, so that the moment falls before and behind what has passed, within
     * the lead and behind it */
    unsigned exact = 0, later = 0;
    for (unsigned i = 0; i < 64; i++) {
        m.new_id = 3;
        m.now = 1000 * i;
        m.sets = 0;
        ips_pace_create_and_start_timers();
        uint64_t left = pace.at - 32000000;
        assert_in_range(pace.at, 32000001, 49999999);
        assert_int_equal(is_set(), left <= TICK + 100000);
        assert_int_equal(m.sets, 1u + is_set());
        assert_timer(3, is_set() ? left : left - TICK - 100000, TICK);
        exact += is_set();
        later += pace.at >= 40000000;
    }
    assert_in_range(exact, 10, 54);
    assert_in_range(later, 2, 40);
}

static void test_pace__thread_without_timers(void **state)
{
    (void)state;
    m.new_id = -1;
    ips_pace_create_and_start_timers();
    assert_int_equal(m.made, 1);
    assert_false(pace.on);
    m.valgrind = true;
    ips_pace_create_and_start_timers();
    assert_int_equal(m.made, 1);
    m.valgrind = false;
    m.control.sample_us = 0;
    ips_pace_set_tick_and_period();
    ips_pace_create_and_start_timers();
    assert_int_equal(m.made, 1);
    assert_int_equal(m.starts, 0);
    assert_int_equal(pace.watch, -1);
    pace.on = true;
    pace.watch = 8; /* no exact timer */
    ips_pace_delete_timers();
    assert_int_equal(m.deleted, 1);
    assert_int_equal(m.deleted_id[0], 8);
}

#define TEST(name) cmocka_unit_test_setup(name, begin)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_pace__numbers),
        TEST(test_pace__timers_that_are_made),
        TEST(test_pace__exact_timer),
        TEST(test_pace__exact_timer_after),
        TEST(test_pace__signal_delay),
        TEST(test_pace__inside_an_interrupted_call),
        TEST(test_pace__examined_before),
        TEST(test_pace__drawn),
        TEST(test_pace__returns_are_examined),
        TEST(test_pace__watch),
        TEST(test_pace__after_a_sample),
        TEST(test_pace__thread),
        TEST(test_pace__thread_without_timers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
