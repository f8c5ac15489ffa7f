/* What blocks cost, guessed and settled (agent/record/cpu_guess.h): a thread
 * whose true CPU time is known runs and blocks; its time is handed out as
 * agent/record/cpu.c does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "agent/record/cpu_guess.h"

static uint64_t random_state;
static uint64_t below(uint64_t n)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (random_state >> 33) % n;
}

/* What was handed out over `elapsed` is not more; returns the new total. */
static uint64_t hand_out(uint64_t sum, uint64_t ns, uint64_t elapsed)
{
    assert_true(ns <= elapsed);
    return sum + ns;
}

/* Blocks that take `base` to 2 * base, of `length` and more; readings at a
 * block (the last of each window) and, where `late`, also some time after one.
 * Returns how far the handed out is from the true after the last reading, at
 * most. */
static uint64_t live(struct ips_guess *g, uint64_t base, uint64_t length,
                     bool late, unsigned blocks)
{
    uint64_t true_cpu = 0, sum = 0, worst = 0;
    for (unsigned i = 1; i <= blocks; i++) {
        uint64_t ran = below(20000), elapsed = length + below(length);
        uint64_t took = ips_min_u64(base + below(base), elapsed);
        true_cpu += ran + took;
        sum = hand_out(sum, ran, ran);
        uint64_t cost;
        if (!g->block_ns || ips_guess_reading_is_due(g)) { /* as return_read */
            int64_t more = (int64_t)(true_cpu - sum);
            uint64_t each = ips_guess_learn_cpu_of_block(
                g, g->blocks + 1, more + (int64_t)g->given_ns - g->off_read);
            cost = ips_guess_add_error_share(g, each, elapsed);
            g->given_ns += cost;
            sum = hand_out(sum, cost, elapsed);
            ips_guess_start_next_window_and_cap_error(
                g, (int64_t)(true_cpu - sum));
            if (i > blocks / 2) {
                uint64_t off = true_cpu > sum ? true_cpu - sum : sum - true_cpu;
                worst = ips_max_u64(worst, off);
            }
        } else {
            cost = ips_guess_and_account_cpu_of_block(g, elapsed);
            sum = hand_out(sum, cost, elapsed);
            if (elapsed > took + 2 * IPS_BLOCKED_NS)
                assert_true(elapsed - cost >= IPS_BLOCKED_NS);
        }
        if (late && i % 100 == 0)
            /* The line has become old. */
            ips_guess_start_next_window_and_cap_error(
                g, (int64_t)(true_cpu - sum));
    }
    return worst;
}

/* Would catch: errors of guesses that add up over windows instead of being
 * given out, a settling that makes a thread have more CPU than time went by
 * (t_max would pass the elapsed time), a block that no longer looks like one.
 */
static void test_cpu_guess__settles_in_blocks(void **state)
{
    (void)state;
    static const uint64_t bases[] = {500, 1500, 4000, 20000};
    for (unsigned i = 0; i < sizeof(bases) / sizeof(bases[0]); i++)
        for (unsigned late = 0; late < 2; late++) {
            struct ips_guess g = {0};
            random_state = 4711 + i;
            uint64_t worst = live(&g, bases[i], 50 * bases[i], late, 10000);
            /* A window's guesses are off by less than they are. */
            assert_true(worst <= IPS_GUESS_WINDOW_MAX * bases[i]);
        }
}

/* Would catch: what blocks cost learnt in one direction only: after a change
 * the time handed out would stay behind, or ahead, for good. */
static void test_cpu_guess__follows_a_change(void **state)
{
    (void)state;
    struct ips_guess g = {0};
    random_state = 7;
    live(&g, 20000, 400000, false, 1000);
    ips_guess_start_next_window_and_cap_error(&g, 0);
    uint64_t worst = live(&g, 1000, 400000, false, 2000);
    assert_true(worst <= IPS_GUESS_WINDOW_MAX * 1000);
    ips_guess_start_next_window_and_cap_error(&g, 0);
    worst = live(&g, 20000, 400000, false, 2000);
    assert_true(worst <= IPS_GUESS_WINDOW_MAX * 20000);
}

/* Would catch: a clock that is read ever less often though guesses are wrong,
 * or as often as at first though they are good. */
static void test_cpu_guess__window(void **state)
{
    (void)state;
    struct ips_guess g = {0};
    ips_guess_learn_cpu_of_block(&g, 1, 1000);
    unsigned guessed[6];
    for (int i = 0; i < 6; i++) {
        for (guessed[i] = 0; !ips_guess_reading_is_due(&g); guessed[i]++)
            ips_guess_and_account_cpu_of_block(&g, 100000);
        int64_t off = i == 4 ? 10000 : (int64_t)guessed[i];
        assert_int_equal(ips_guess_start_next_window_and_cap_error(&g, off),
                         off);
    }
    static const unsigned wanted[6] = {15, 31, 63, 63, 63, 15};
    assert_memory_equal(guessed, wanted, sizeof(wanted));
}

/* Would catch: time that the hypervisor took (the clock says less than was
 * handed out while the thread ran) taken for a guess's error: blocks would have
 * to give it back, and cost nothing for long. */
static void test_cpu_guess__keeps_no_more_than_it_guessed(void **state)
{
    (void)state;
    struct ips_guess g = {0};
    assert_int_equal(ips_guess_start_next_window_and_cap_error(&g, -5000), 0);
    assert_int_equal(ips_guess_start_next_window_and_cap_error(&g, 5000), 0);
    ips_guess_learn_cpu_of_block(&g, 1, 1000);
    assert_int_equal(ips_guess_and_account_cpu_of_block(&g, 100000), 1000);
    assert_int_equal(ips_guess_start_next_window_and_cap_error(&g, -700000),
                     -1000);
    /* Given back by the blocks that come, and each costs something. */
    uint64_t sum = 0;
    for (int i = 0; i < 100; i++) {
        uint64_t cost = ips_guess_and_account_cpu_of_block(&g, 100000);
        assert_in_range(cost, 1, 1000);
        sum += cost;
    }
    assert_int_equal(sum, 100 * 1000 - 1000);
    assert_int_equal(g.off, 0);
}

/* Would catch: what is off given to a block that did not last long enough for
 * it; a call too short to be a block that is given other than its own length.
 */
static void test_cpu_guess__short_ones_ran(void **state)
{
    (void)state;
    struct ips_guess g = {0};
    ips_guess_learn_cpu_of_block(&g, 1, 1000);
    for (uint64_t elapsed = 0; elapsed <= IPS_BLOCKED_NS + 2; elapsed++)
        assert_int_equal(ips_guess_and_account_cpu_of_block(&g, elapsed),
                         elapsed);
    for (uint64_t elapsed = 3000; elapsed < 6000; elapsed++) {
        g.off = 1000000;
        assert_in_range(ips_guess_and_account_cpu_of_block(&g, elapsed), 1,
                        elapsed - IPS_BLOCKED_NS);
    }
    /* By the clock it was none: it has what it took. */
    g.off = 1000000;
    assert_int_equal(ips_guess_add_error_share(&g, 4900, 5000), 4900);
    g.off = -50000;
    assert_true(ips_guess_and_account_cpu_of_block(&g, 0) == 0);
    assert_in_range(ips_guess_and_account_cpu_of_block(&g, 1500), 1, 1500);
}

/* Would catch: an account of guesses that leaves out a window or its sign, that
 * counts readings which had nothing to settle, or time not guessed. */
static void test_cpu_guess__accounts_for_itself(void **state)
{
    (void)state;
    struct ips_guess g = {0};
    ips_guess_learn_cpu_of_block(&g, 1, 1000);
    static const int64_t offs[] = {300, -200, 0, 500};
    uint64_t given = 0;
    for (unsigned i = 0; i < sizeof(offs) / sizeof(offs[0]); i++) {
        for (int k = 0; k < 5; k++)
            given += ips_guess_and_account_cpu_of_block(&g, 100000);
        assert_int_equal(ips_guess_start_next_window_and_cap_error(&g, offs[i]),
                         offs[i]);
        ips_guess_start_next_window_and_cap_error(
            &g, 0); /* nothing was guessed since */
    }
    assert_int_equal(g.corrected_ns, 4);
    assert_int_equal(g.all_ns, given);
    assert_int_equal(g.off_sum_ns, 300 + 200 + 500);
    assert_int_equal(g.off_max_ns, 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cpu_guess__settles_in_blocks),
        cmocka_unit_test(test_cpu_guess__follows_a_change),
        cmocka_unit_test(test_cpu_guess__window),
        cmocka_unit_test(test_cpu_guess__keeps_no_more_than_it_guessed),
        cmocka_unit_test(test_cpu_guess__short_ones_ran),
        cmocka_unit_test(test_cpu_guess__accounts_for_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
