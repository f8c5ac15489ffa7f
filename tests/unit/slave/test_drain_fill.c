/* How full a slave's pool is, and how many runs are open: what it says and ends
 * by. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "slave/drain/drain.h"

static struct slave_run runs[4];
static struct slave_drain drain;

static int setup(void **state)
{
    (void)state;
    memset(runs, 0, sizeof(runs));
    memset(&drain, 0, sizeof(drain));
    for (unsigned i = 0; i + 1 < sizeof(runs) / sizeof(*runs); i++)
        runs[i].next = &runs[i + 1];
    drain.runs = &runs[0];
    return 0;
}

static void fill(unsigned i, uint64_t quota, uint64_t used, uint64_t spare,
                 uint64_t released)
{
    struct ips_control *c = &runs[i].row.control;
    runs[i].in_pool = true;
    c->quota_bytes = quota;
    c->used_bytes = used;
    c->spare_bytes = spare;
    c->released_bytes = released;
}

/* Would catch: the last run's fill or the sum of all in place of the highest, a
 * run that left the pool, spares that do not count, released bytes that do, and
 * a product that wraps in a pool of some exbibytes. */
static void test_drain_fill__highest(void **state)
{
    const uint64_t huge = UINT64_MAX / 2;
    (void)state;
    assert_int_equal(slave_drain_fullest_run_permille(&drain), 0);
    fill(0, 1000000, 250000, 0, 0);
    assert_in_range(slave_drain_fullest_run_permille(&drain), 249, 250);
    fill(1, 1000000, 900000, 100000, 400000);
    assert_in_range(slave_drain_fullest_run_permille(&drain), 599, 600);
    fill(2, 1000000, 300000, 0, 0);
    assert_in_range(slave_drain_fullest_run_permille(&drain), 599, 600);
    fill(3, 0, 5, 0, 0); /* its control is not read yet */
    assert_in_range(slave_drain_fullest_run_permille(&drain), 599, 600);
    fill(3, huge, huge / 10 * 7, 0, 0);
    assert_in_range(slave_drain_fullest_run_permille(&drain), 699, 700);
    fill(3, 1000, 1001, 0, 0);
    assert_int_equal(slave_drain_fullest_run_permille(&drain), 1000);
    runs[3].in_pool = runs[1].in_pool = false;
    assert_in_range(slave_drain_fullest_run_permille(&drain), 299, 300);
}

/* Would catch: a slave that ends though a run is in its pool, or one that
 * cannot be opened; one that stays because of runs that are over. */
static void test_drain_fill__open_runs(void **state)
{
    (void)state;
    assert_int_equal(slave_drain_count_open_runs(&drain), 0);
    runs[3].in_pool = true;
    assert_int_equal(slave_drain_count_open_runs(&drain), 1);
    strcpy(runs[1].unopened, "why");
    assert_int_equal(slave_drain_count_open_runs(&drain), 2);
    strcpy(runs[3].unopened, "why");
    assert_int_equal(slave_drain_count_open_runs(&drain), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_drain_fill__highest, setup),
        cmocka_unit_test_setup(test_drain_fill__open_runs, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
