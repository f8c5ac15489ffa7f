/* Locks that are handed on: worked out by hand. Catches: time held counted
 * before it was got or after it was given, two locks taken for one or one for
 * two, what was held while nobody waited. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "analysis/explain/lock_holds.h"
#include "tests/support/golden.h"

/* clang-format off */
#define N(kind, w) {IPS_NODE_##kind, w, IPS_X_NONE, IPS_NO_NODE, 0}
#define X(kind, w, xpred) {IPS_NODE_##kind, w, IPS_X_RESOURCE, xpred, 0}

/* A gives at 10; B gets it then and gives it at 15; C has it from 15, gives it
 * at 18, and A, who asked again at 12, has it once more until its end. */
static const struct golden handed = {"handed", 0, 20, 26, 20, 10, {
    N(START, 0), N(AUX, 10), X(AUX, 2, 9), N(END, 2),
    N(START, 0), X(AUX, 1, 1), N(AUX, 5), N(END, 1),
    N(START, 0), N(AUX, 18)}};
/* clang-format on */

static void test_held__from_getting_to_giving(void **state)
{
    (void)state;
    struct ips_graph g;
    struct ips_est est = {0};
    const struct ips_scenario lane = {0};
    struct ips_lock_holds h;
    bool is[10] = {0};
    golden_make(&handed, &g);
    is[2] = is[5] = true;
    assert_int_equal(ips_longest_path_compute_ests(&g, &lane, NULL, &est, NULL),
                     0);
    assert_int_equal(ips_sum_lock_holds_by_lock(&g, &est, is, NULL, &h, NULL),
                     0);
    /* B gives to nobody here; A has got what C gave: neither is handed on. */
    assert_int_equal(h.count, 0);
    ips_lock_holds_release(&h);
    /* Now C waits for what B gives at 15. */
    g.xkind[9] = IPS_X_RESOURCE;
    g.xpred[9] = 6;
    g.w[9] = 1;
    is[9] = true;
    ips_est_release(&est);
    assert_int_equal(ips_longest_path_compute_ests(&g, &lane, NULL, &est, NULL),
                     0);
    assert_int_equal(ips_sum_lock_holds_by_lock(&g, &est, is, NULL, &h, NULL),
                     0);
    /* C gives the moment it has it: 0. One lock, B longest. */
    assert_int_equal(h.count, 1);
    assert_int_equal(h.lock[0].ns, 5);
    assert_int_equal(h.lock[0].chain, 1);
    ips_lock_holds_release(&h);
    /* Had they slept, the lock was in use from when the first of them did,
     * once: B from 6, A from 14, C from 9 to 15. */
    uint64_t wait[10] = {[2] = 1, [5] = 4, [9] = 6};
    uint64_t *none = g.wait;
    g.wait = wait;
    assert_int_equal(ips_sum_lock_holds_by_lock(&g, &est, is, NULL, &h, NULL),
                     0);
    assert_int_equal(h.count, 1);
    assert_int_equal(h.lock[0].chain, 1);
    assert_int_equal(h.lock[0].ns, est.est[2] - 6);
    ips_lock_holds_release(&h);
    g.wait = none;
    /* A barger broke the line: C got it from nobody who is known to have had it
     * (node 2). Two locks, unless they are named alike. */
    uint64_t name[10] = {[2] = 7, [5] = 7, [9] = 7};
    g.xpred[9] = 2;
    g.xpred[2] = IPS_NO_NODE;
    g.xkind[2] = IPS_X_NONE;
    g.wait = wait;
    is[2] = false;
    ips_est_release(&est);
    assert_int_equal(ips_longest_path_compute_ests(&g, &lane, NULL, &est, NULL),
                     0);
    assert_int_equal(ips_sum_lock_holds_by_lock(&g, &est, is, NULL, &h, NULL),
                     0);
    assert_int_equal(h.count, 2);
    ips_lock_holds_release(&h);
    assert_int_equal(ips_sum_lock_holds_by_lock(&g, &est, is, name, &h, NULL),
                     0);
    assert_int_equal(h.count, 1);
    ips_lock_holds_release(&h);
    g.wait = none;
    /* Not of a lock: nothing. */
    is[2] = is[5] = is[9] = false;
    assert_int_equal(ips_sum_lock_holds_by_lock(&g, &est, is, NULL, &h, NULL),
                     0);
    assert_int_equal(h.count, 0);
    ips_lock_holds_release(&h);
    ips_est_release(&est);
    ips_graph_release(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_held__from_getting_to_giving),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
