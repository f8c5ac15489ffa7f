/* The machine's load: its file, and what is kept of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "slave/drain/load.h"
#include "slave/store/store.h"

/* Would catch: the number of all threads taken for those that are runnable,
 * ourselves counted, decimals read as a whole number, and a file of another
 * kind believed. */
static void test_load__parse(void **state)
{
    static const char *const wrong[] = {"",
                                        "0.52",
                                        "a 0.5 0.5 1/2 3",
                                        "0.52 0.58 0.59 x/613",
                                        "0.5 0.5 2",
                                        "0.5,0.5,0.5 1/2",
                                        "99999999 0 0 1/2 3"};
    struct slave_load l;
    (void)state;
    assert_true(slave_load_parse("0.52 0.58 12.07 7/613 12345\n", &l));
    assert_int_equal(6, l.runnable);
    assert_int_equal(520, l.average_milli);
    assert_true(slave_load_parse("103.07 0.00 0.00 0/1 1", &l));
    assert_int_equal(0, l.runnable);
    assert_int_equal(103070, l.average_milli);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
        assert_false(slave_load_parse(wrong[i], &l));
}

/* Would catch: a look that replaces the ones before, sums of two runs mixed,
 * and sums that stay when a run is forgotten (its number is used again). */
static void test_load__sums(void **state)
{
    static const struct slave_load_row look = {1, 100000, 300000, 50000};
    char db[] = "/tmp/ips-load-XXXXXX";
    struct slave_store *store;
    struct slave_load_row row;
    (void)state;
    int fd = mkstemp(db);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(0, slave_store_open(db, &store, NULL));
    assert_int_equal(0, slave_store_get_load(store, 7, &row, NULL));
    assert_int_equal(0, row.samples);
    for (int k = 0; k < 3; k++)
        assert_int_equal(0, slave_store_add_load(store, 7, &look, NULL));
    assert_int_equal(0, slave_store_add_load(store, 8, &look, NULL));
    assert_int_equal(0, slave_store_get_load(store, 7, &row, NULL));
    assert_int_equal(3, row.samples);
    assert_int_equal(300000, row.us);
    assert_int_equal(900000, row.runnable_us);
    assert_int_equal(150000, row.average_us);
    assert_int_equal(0, slave_store_drop_run(store, 7, NULL));
    assert_int_equal(0, slave_store_get_load(store, 7, &row, NULL));
    assert_int_equal(0, row.samples);
    assert_int_equal(0, slave_store_get_load(store, 8, &row, NULL));
    assert_int_equal(1, row.samples);
    slave_store_close(store);
    unlink(db);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_load__parse),
        cmocka_unit_test(test_load__sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
