/* The processor's counter against the kernel's clock, on every architecture
 * that has one (aarch64 under an emulator too). Would catch: the wrong
 * register, a rate that is not the counter's, a counter that runs backwards. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h> /* after the four it needs */

#include "agent/pool/counter.h"

static uint64_t raw_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC_RAW, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void test_counter__never_runs_backwards(void **state)
{
    (void)state;
#if IPS_HAVE_COUNTER
    uint64_t last = ips_counter_read(), first = last;
    for (int i = 0; i < 100000; i++) {
        uint64_t now = ips_counter_read();
        assert_true(now >= last);
        last = now;
    }
    assert_true(last > first);
#else
    (void)raw_ns;
    skip();
#endif
}

/* Brackets: the counts between the two inner readings of the clock are at
 * most those between the outer ones; so the interval of rates must contain the
 * stated one, however long an interruption was. */
static void test_counter__stated_rate_is_within_the_bracket(void **state)
{
    (void)state;
#if defined(__aarch64__)
    uint64_t hz = ips_counter_hz();
    assert_true(hz >= 1000000);
    uint64_t n0 = raw_ns(), c0 = ips_counter_read(), n1 = raw_ns();
    struct timespec pause = {0, 50000000};
    nanosleep(&pause, NULL);
    uint64_t n2 = raw_ns(), c1 = ips_counter_read(), n3 = raw_ns();
    double seconds = (double)(c1 - c0) / (double)hz;
    assert_true(seconds <= (double)(n3 - n0) / 1e9 * 1.001);
    assert_true(seconds >= (double)(n2 - n1) / 1e9 * 0.999);
#else
    (void)raw_ns;
    skip(); /* nobody states the rate of a time stamp counter */
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counter__never_runs_backwards),
        cmocka_unit_test(test_counter__stated_rate_is_within_the_bracket),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
