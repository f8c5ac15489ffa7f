/* The archive's file: what was committed is there, what was not is not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka last of these */
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "slave/archive.h"

static char dir[64];

static int setup(void **state)
{
    (void)state;
    snprintf(dir, sizeof(dir), "/dev/shm/slave-archive-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    char path[80];
    snprintf(path, sizeof(path), "%s/archive", dir);
    unlink(path);
    return rmdir(dir);
}

struct one {
    struct slave_frame frame;
    uint64_t data[4];
};

static struct one make(uint32_t stream, uint64_t number)
{
    struct one o = {.data = {number, 2, 3, number}};
    slave_frame_seal(&o.frame, stream, sizeof(o.data), 1);
    return o;
}

static unsigned count(uint64_t committed, uint64_t *last)
{
    struct slave_archive_map m;
    const struct slave_frame *f;
    size_t at = 0;
    unsigned n = 0;
    assert_int_equal(slave_archive_map(dir, committed, &m, NULL), 0);
    while (slave_archive_next(&m, &at, &f, NULL) > 0) {
        memcpy(last, f + 1, sizeof(*last));
        n++;
    }
    slave_archive_unmap(&m);
    return n;
}

/* Would catch: records of a turn that was never committed, or half of one. */
static void test_archive__uncommitted_is_cut(void **state)
{
    (void)state;
    struct slave_archive a;
    uint64_t missing, last = 0, committed;
    assert_int_equal(slave_archive_open(&a, dir, 0, &missing, NULL), 0);
    for (uint64_t i = 0; i < 10; i++) {
        struct one o = make(1, i);
        assert_int_equal(slave_archive_stage(&a, &o, sizeof(o), NULL), 0);
    }
    slave_archive_commit(&a);
    committed = a.length;
    struct one torn = make(1, 99);
    assert_int_equal(slave_archive_stage(&a, &torn, sizeof(torn) / 2, NULL), 0);
    slave_archive_close(&a); /* killed here */
    assert_int_equal(slave_archive_open(&a, dir, committed, &missing, NULL), 0);
    assert_int_equal(missing, 0);
    assert_int_equal(lseek(a.fd, 0, SEEK_END), committed);
    torn = make(1, 10);
    assert_int_equal(slave_archive_stage(&a, &torn, sizeof(torn), NULL), 0);
    slave_archive_rollback(&a);
    torn = make(1, 11);
    assert_int_equal(slave_archive_stage(&a, &torn, sizeof(torn), NULL), 0);
    slave_archive_commit(&a);
    assert_int_equal(count(a.length, &last), 11);
    assert_int_equal(last, 11);
    slave_archive_close(&a);
}

/* Would catch: a machine that lost power, taken for an empty or a whole run. */
static void test_archive__shorter_than_committed(void **state)
{
    (void)state;
    struct slave_archive a;
    uint64_t missing, last;
    assert_int_equal(slave_archive_open(&a, dir, 0, &missing, NULL), 0);
    struct one o = make(1, 1);
    assert_int_equal(slave_archive_stage(&a, &o, sizeof(o), NULL), 0);
    slave_archive_commit(&a);
    slave_archive_close(&a);
    assert_int_equal(slave_archive_open(&a, dir, 1000, &missing, NULL), 0);
    assert_int_equal(missing, 1000 - sizeof(o));
    assert_int_equal(count(a.length, &last), 1);
    slave_archive_close(&a);
    struct slave_archive_map m;
    assert_int_equal(slave_archive_map(dir, 1000, &m, NULL), IPS_E_CORRUPT);
}

/* Would catch: a byte that changed on disk and is believed. Every bit of the
 * file in turn. */
static void test_archive__damage_is_noticed(void **state)
{
    (void)state;
    struct slave_archive a;
    uint64_t missing, last;
    struct one o = make(7, 5);
    assert_int_equal(slave_archive_open(&a, dir, 0, &missing, NULL), 0);
    for (size_t bit = 0; bit < sizeof(o) * 8; bit++) {
        struct one bad = o;
        ((uint8_t *)&bad)[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(pwrite(a.fd, &bad, sizeof(bad), 0),
                         (ssize_t)sizeof(bad));
        assert_int_equal(count(sizeof(bad), &last), 0);
    }
    assert_int_equal(pwrite(a.fd, &o, sizeof(o), 0), (ssize_t)sizeof(o));
    assert_int_equal(count(sizeof(o), &last), 1);
    slave_archive_close(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        T(test_archive__uncommitted_is_cut),
        T(test_archive__shorter_than_committed),
        T(test_archive__damage_is_noticed),
#undef T
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
