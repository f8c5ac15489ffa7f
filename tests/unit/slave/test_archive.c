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

#include "agent/pool/format.h"
#include "slave/archive/archive.h"

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
    snprintf(path, sizeof(path), "%s/archive.new", dir);
    unlink(path);
    return rmdir(dir);
}

static struct slave_pack *pack;

struct one {
    struct slave_frame frame;
    struct ips_rec_lost rec;
};

/* A frame of one record; `number` is in it. */
static int stage(struct slave_archive *a, uint32_t stream, uint64_t number)
{
    struct one o = {
        .frame = {.stream = stream, .bytes = sizeof(o.rec), .records = 1},
        .rec = {.h = {.word = IPS_REC_LOST | sizeof(o.rec) / 8 << 8},
                .count = number}};
    return slave_archive_pack_and_stage_frames(a, pack, 1ULL << 32, &o,
                                               sizeof(o), NULL);
}

/* Records in the committed part, -1 damaged; the last one's number. */
static int count(uint64_t committed, uint64_t *last)
{
    struct slave_unpacked_archive m;
    const struct slave_frame *f;
    size_t at = 0;
    int n = 0;
    if (slave_archive_unpack(dir, -1, committed, &m, NULL) < 0)
        return -1;
    while ((f = slave_archive_next_frame(&m, &at))) {
        *last = ((const struct ips_rec_lost *)(const void *)(f + 1))->count;
        n++;
    }
    slave_archive_free_unpacked(&m);
    return n;
}

/* Would catch: records of a turn that was never committed, or half of one. */
static void test_archive__uncommitted_is_cut(void **state)
{
    (void)state;
    struct slave_archive a;
    uint64_t missing, last = 0, committed;
    assert_int_equal(
        slave_archive_open_and_cut_to_committed(&a, dir, 0, &missing, NULL), 0);
    for (uint64_t i = 0; i < 10; i++) {
        assert_int_equal(stage(&a, 1, i), 0);
    }
    slave_archive_accept_staged_bytes(&a);
    committed = a.length;
    assert_int_equal(stage(&a, 1, 99), 0);
    assert_int_equal(ftruncate(a.fd, (off_t)(committed + a.staged / 2)), 0);
    slave_archive_close(&a); /* killed here */
    assert_int_equal(slave_archive_open_and_cut_to_committed(&a, dir, committed,
                                                             &missing, NULL),
                     0);
    assert_int_equal(missing, 0);
    assert_int_equal(lseek(a.fd, 0, SEEK_END), committed);
    assert_int_equal(stage(&a, 1, 10), 0);
    slave_archive_drop_staged_bytes(&a);
    assert_int_equal(stage(&a, 1, 11), 0);
    slave_archive_accept_staged_bytes(&a);
    assert_int_equal(count(a.length, &last), 11);
    assert_int_equal(last, 11);
    slave_archive_close(&a);
}

/* Would catch: a machine that lost power, taken for an empty or a whole run. */
static void test_archive__shorter_than_committed(void **state)
{
    (void)state;
    struct slave_archive a;
    uint64_t missing, last = 0;
    assert_int_equal(
        slave_archive_open_and_cut_to_committed(&a, dir, 0, &missing, NULL), 0);
    assert_int_equal(stage(&a, 1, 1), 0);
    slave_archive_accept_staged_bytes(&a);
    uint64_t length = a.length;
    slave_archive_close(&a);
    assert_int_equal(
        slave_archive_open_and_cut_to_committed(&a, dir, 1000, &missing, NULL),
        0);
    assert_int_equal(missing, 1000 - length);
    assert_int_equal(count(a.length, &last), 1);
    slave_archive_close(&a);
    struct slave_unpacked_archive m;
    assert_int_equal(slave_archive_unpack(dir, -1, 1000, &m, NULL),
                     IPS_E_CORRUPT);
}

/* Would catch: a byte that changed on disk and is believed. Every bit of the
 * file in turn. */
static void test_archive__damage_is_noticed(void **state)
{
    (void)state;
    struct slave_archive a;
    uint64_t missing, last = 0;
    uint8_t whole[512], bad[512];
    assert_int_equal(
        slave_archive_open_and_cut_to_committed(&a, dir, 0, &missing, NULL), 0);
    assert_int_equal(stage(&a, 7, 4), 0);
    assert_int_equal(stage(&a, 7, 5), 0);
    slave_archive_accept_staged_bytes(&a);
    size_t n = a.length;
    assert_true(n <= sizeof(whole));
    assert_int_equal(pread(a.fd, whole, n, 0), (ssize_t)n);
    for (size_t bit = 0; bit < n * 8; bit++) {
        memcpy(bad, whole, n);
        bad[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(pwrite(a.fd, bad, n, 0), (ssize_t)n);
        assert_int_equal(count(n, &last), -1);
    }
    assert_int_equal(pwrite(a.fd, whole, n, 0), (ssize_t)n);
    assert_int_equal(count(n, &last), 2);
    assert_int_equal(last, 5);
    slave_archive_close(&a);
}

/* Would catch: an archive of the version before, answered with "damaged" or
 * nothing. */
static void test_archive__old_version_is_named(void **state)
{
    (void)state;
    struct slave_archive a;
    struct slave_unpacked_archive m;
    struct ips_err err = {0};
    uint64_t missing;
    assert_int_equal(
        slave_archive_open_and_cut_to_committed(&a, dir, 0, &missing, NULL), 0);
    assert_int_equal(pwrite(a.fd, "PSF1\0\0\0\0abcdefghijklmnop", 24, 0), 24);
    slave_archive_close(&a);
    assert_int_equal(slave_archive_unpack(dir, -1, 24, &m, &err),
                     IPS_E_VERSION);
    assert_non_null(strstr(err.msg, "earlier version"));
}

/* An archive of `n` blocks, committed; then packed again, to its last step. */
static struct slave_repack *repacked(struct slave_archive *a, uint64_t n)
{
    uint64_t missing;
    assert_int_equal(
        slave_archive_open_and_cut_to_committed(a, dir, 0, &missing, NULL), 0);
    for (uint64_t i = 0; i < n; i++)
        assert_int_equal(stage(a, (uint32_t)i % 7, i), 0);
    slave_archive_accept_staged_bytes(a);
    struct slave_repack *r = slave_repack_new(a, dir, NULL);
    int rc = 0;
    assert_non_null(r);
    while (rc == 0)
        rc = slave_repack_step(r, a, pack, 1, NULL);
    assert_int_equal(rc, 1);
    return r;
}

/* Numbers of each stream's records must go up by the count of streams. */
static void expect_all(uint64_t committed, uint64_t n)
{
    struct slave_unpacked_archive m;
    const struct slave_frame *f;
    uint64_t next[7] = {0, 1, 2, 3, 4, 5, 6}, seen = 0;
    size_t at = 0;
    assert_int_equal(slave_archive_unpack(dir, -1, committed, &m, NULL), 0);
    while ((f = slave_archive_next_frame(&m, &at))) {
        const struct ips_rec_lost *rec = (const void *)(f + 1);
        assert_int_equal(f->bytes, f->records * sizeof(*rec));
        for (uint32_t i = 0; i < f->records; i++, seen++) {
            assert_int_equal(rec[i].count, next[f->stream]);
            next[f->stream] += 7;
        }
    }
    assert_int_equal(seen, n);
    slave_archive_free_unpacked(&m);
}

/* Would catch: records lost, doubled or in another order by the second
 * packing; one that does not pay. */
static void test_archive__repack_keeps_all(void **state)
{
    (void)state;
    struct slave_archive a;
    struct slave_repack *r = repacked(&a, 70000);
    uint64_t length = slave_repack_new_archive_bytes(r);
    assert_true(length < a.length / 10);
    assert_int_equal(slave_repack_replace_archive(r, &a, NULL), 0);
    assert_int_equal(a.length, length);
    expect_all(length, 70000);
    assert_int_equal(stage(&a, 0, 70000), 0); /* and goes on */
    slave_archive_accept_staged_bytes(&a);
    expect_all(a.length, 70001);
    slave_archive_close(&a);
}

/* Would catch: a slave killed at any point of the exchange that then has the
 * new length and the old file, or the other way round. */
static void test_archive__repack_killed(void **state)
{
    (void)state;
    struct slave_archive a;
    char path[80], kept[80];
    struct slave_repack *r = repacked(&a, 300);
    uint64_t old = a.length, new = slave_repack_new_archive_bytes(r);
    snprintf(path, sizeof(path), "%s/archive.new", dir);
    snprintf(kept, sizeof(kept), "%s/archive.kept", dir);
    assert_int_equal(link(path, kept), 0);
    slave_repack_free_and_remove_file(r); /* given up: the old one counts */
    assert_int_equal(access(path, F_OK), -1);
    expect_all(old, 300);
    assert_int_equal(link(kept, path), 0);
    /* before the commit */
    assert_int_equal(slave_repack_recover(dir, old, NULL), 0);
    assert_int_equal(access(path, F_OK), -1);
    expect_all(old, 300);
    assert_int_equal(rename(kept, path), 0);
    /* after it */
    assert_int_equal(slave_repack_recover(dir, new, NULL), 0);
    assert_int_equal(access(path, F_OK), -1);
    expect_all(new, 300);
    slave_archive_close(&a);
}

/* Would catch: an archive that grew, replaced by what it was before. */
static void test_archive__repack_of_a_live_one(void **state)
{
    (void)state;
    struct slave_archive a;
    struct slave_repack *r = repacked(&a, 30);
    assert_int_equal(stage(&a, 2, 30), 0);
    slave_archive_accept_staged_bytes(&a);
    assert_int_equal(slave_repack_step(r, &a, pack, 1, NULL), IPS_E_BUSY);
    slave_repack_free_and_remove_file(r);
    expect_all(a.length, 31);
    slave_archive_close(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        T(test_archive__uncommitted_is_cut),
        T(test_archive__shorter_than_committed),
        T(test_archive__damage_is_noticed),
        T(test_archive__old_version_is_named),
        T(test_archive__repack_keeps_all),
        T(test_archive__repack_killed),
        T(test_archive__repack_of_a_live_one),
#undef T
    };
    pack = slave_pack_new();
    int failed = pack ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
    slave_pack_free(pack);
    return failed;
}
