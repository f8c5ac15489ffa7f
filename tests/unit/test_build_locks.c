/* Locks as a replay needs them (slave/build_locks.c): of which records one has
 * what from when to when. Each case says what it would catch. */
#include <errno.h>

#include "recorder.h"

#define LOCK 0x1000u

/* Threads 10 (main), 11 and 12 of one process, that compute all the time (CPU
 * is time, but for waits) until 50000. */
struct three {
    struct recorder *r;
    rs t[3];
    uint64_t waited[3];
};
static struct three three(void)
{
    struct three v = {.r = rec_new()};
    for (uint32_t i = 0; i < 3; i++) {
        v.t[i] = rec_stream(v.r, 10, 10 + i, 1);
        rec_start(v.t[i], i ? IPS_START_THREAD : IPS_START_IMAGE, 1, 1);
    }
    return v;
}
static const struct ips_wait_rows *locks_of(struct three *v)
{
    for (uint32_t i = 0; i < 3; i++)
        rec_end(v->t[i], i ? IPS_END_THREAD : IPS_END_EXIT, 50000,
                50000 - v->waited[i], 0);
    rec_build(v->r);
    return &v->r->waits;
}

static struct ips_rec_sync *acquire(struct three *v, uint32_t i,
                                    enum ips_sync kind, uint64_t t,
                                    uint64_t t_ret)
{
    uint64_t cpu = t - v->waited[i];
    v->waited[i] += t_ret - t;
    return rec_sync(v->t[i], IPS_REC_ACQUIRE, kind, t, t_ret, cpu, cpu, LOCK);
}
/* The mutex that a wait for a condition, the record before, gave back. */
static void again(struct three *v, uint32_t i, uint64_t t, uint64_t t_ret)
{
    v->waited[i] -= t_ret - t;
    struct ips_rec_sync *r = acquire(v, i, IPS_SYNC_MUTEX, t, t_ret);
    r->object = 7;
    r->value = 1;
}
static struct ips_rec_sync *release(struct three *v, uint32_t i,
                                    enum ips_sync kind, uint64_t t)
{
    uint64_t cpu = t - v->waited[i];
    return rec_sync(v->t[i], IPS_REC_RELEASE, kind, t, t, cpu, cpu, LOCK);
}

/* Row `at` is at that CPU time of thread `tid`: at a node, or so far into an
 * arc. */
static void assert_row(const struct three *v, uint32_t at, uint32_t tid,
                       uint64_t cpu, bool at_node, bool gives)
{
    const struct ips_lock_row *r = &v->r->waits.lock[at];
    const struct ips_built *b = &v->r->built;
    uint64_t is = rec_coord(b, r->node);
    assert_true(at < v->r->waits.lock_count);
    if (r->w != IPS_LOCK_AT_NODE)
        is -= b->g.w[r->node] - r->w;
    assert_int_equal(rec_chain(b, tid), ips_chain_of(&b->g, r->node));
    assert_int_equal(gives, r->gives);
    assert_int_equal(at_node, r->w == IPS_LOCK_AT_NODE);
    assert_in_range(is, cpu - 1, cpu); /* the START has 1 ns, or not */
}

/* 10 had it when 11 asked at 6000, gave it at 9000, and so had it since 3000;
 * 11 gives it at 12000, when nobody waits. 12 takes it free, without a record.
 * Would catch: the holder's part left out, a release that nobody waited for
 * left out (it has no node), and a wait that is no end of anybody's part. */
static void test_build_locks__a_mutex(void **state)
{
    (void)state;
    struct three v = three();
    release(&v, 0, IPS_SYNC_MUTEX, 9000);
    acquire(&v, 1, IPS_SYNC_MUTEX, 6000, 9000);
    release(&v, 1, IPS_SYNC_MUTEX, 12000);
    const struct ips_wait_rows *rows = locks_of(&v);
    assert_int_equal(4, rows->lock_count);
    assert_row(&v, 0, 10, 3000, false, false);
    assert_row(&v, 1, 10, 9000, true, true);
    assert_row(&v, 2, 11, 6000, true, false);
    assert_row(&v, 3, 11, 9000, false, true);
    for (uint32_t k = 0; k < 4; k++) {
        assert_int_equal(1, rows->lock[k].units);
        assert_int_equal(0, rows->lock[k].lock);
    }
    rec_free(v.r);
}

/* 12 gave it at 5000, so 10 had it no earlier; and 11 after 10. Another mutex,
 * of 12 and 11. Would catch: parts that overlap, two objects taken for one, and
 * rows of one that push out the other's. */
static void test_build_locks__no_earlier_than_free(void **state)
{
    (void)state;
    struct three v = three();
    release(&v, 2, IPS_SYNC_MUTEX, 5000);
    release(&v, 0, IPS_SYNC_MUTEX, 9000);
    acquire(&v, 1, IPS_SYNC_MUTEX, 6000, 9000);
    release(&v, 1, IPS_SYNC_MUTEX, 12000);
    acquire(&v, 1, IPS_SYNC_MUTEX, 20000, 21000)->object = 7;
    release(&v, 2, IPS_SYNC_MUTEX, 21000)->object = 7;
    release(&v, 1, IPS_SYNC_MUTEX, 22000)->object = 7;
    const struct ips_wait_rows *rows = locks_of(&v);
    assert_int_equal(8, rows->lock_count);
    assert_row(&v, 0, 10, 5000, false, false);
    assert_row(&v, 4, 11, 17000, true, false);
    assert_row(&v, 6, 12, 19000, false, false);
    assert_true(rows->lock[4].lock == rows->lock[6].lock);
    assert_true(rows->lock[4].lock != rows->lock[0].lock);
    rec_free(v.r);
}

/* A wait that ran out; one without a release; a mutex that one thread alone
 * has to do with. Would catch: a lock that is held for ever in a replay. */
static void test_build_locks__left_out(void **state)
{
    (void)state;
    struct three v = three();
    release(&v, 0, IPS_SYNC_MUTEX, 9000);
    acquire(&v, 1, IPS_SYNC_MUTEX, 6000, 9000);
    acquire(&v, 2, IPS_SYNC_MUTEX, 6000, 8000)->err = ETIMEDOUT;
    release(&v, 2, IPS_SYNC_MUTEX, 30000);
    assert_int_equal(0, locks_of(&v)->lock_count);
    rec_free(v.r);
}

/* A wait for a condition asks for its mutex when it is signalled, and has it
 * from then on; the signaller gives it before or after. Would catch: a mutex
 * that is asked for before the signal came (the signaller, who needs it, would
 * never come), and one that a wait for a condition does not give back. */
static void test_build_locks__a_condition(void **state)
{
    (void)state;
    struct three v = three();
    release(&v, 1, IPS_SYNC_MUTEX, 2000)->object = 7; /* as it waits */
    acquire(&v, 0, IPS_SYNC_MUTEX, 1500, 2000)->object = 7;
    release(&v, 0, IPS_SYNC_MUTEX, 2900)->object = 7;
    release(&v, 0, IPS_SYNC_COND, 3000);
    acquire(&v, 1, IPS_SYNC_COND, 2000, 3100);
    again(&v, 1, 2000, 3100);
    release(&v, 1, IPS_SYNC_MUTEX, 4000)->object = 7;
    const struct ips_wait_rows *rows = locks_of(&v);
    assert_int_equal(6, rows->lock_count);
    assert_row(&v, 0, 10, 1500, true, false);
    assert_row(&v, 1, 10, 2400, false, true);
    assert_row(&v, 2, 11, 1000, false, false);
    assert_row(&v, 3, 11, 2000, true, true);
    const struct ips_lock_row *asks = &rows->lock[4];
    assert_int_equal(0, asks->w);
    assert_int_equal(IPS_THING_CONDITION, v.r->built.g.xlen[asks->node - 1]);
    assert_row(&v, 5, 11, 2900, false, true);
    rec_free(v.r);
}

/* Two posts let 11 and 12 go; a third that nobody waited for. Would catch: a
 * semaphore taken for a mutex, and posts without a wait. */
static void test_build_locks__a_semaphore(void **state)
{
    (void)state;
    struct three v = three();
    acquire(&v, 1, IPS_SYNC_SEMAPHORE, 2000, 3010);
    acquire(&v, 2, IPS_SYNC_SEMAPHORE, 2500, 4010);
    release(&v, 0, IPS_SYNC_SEMAPHORE, 3000);
    release(&v, 0, IPS_SYNC_SEMAPHORE, 4000);
    release(&v, 0, IPS_SYNC_SEMAPHORE, 5000);
    const struct ips_wait_rows *rows = locks_of(&v);
    assert_int_equal(4, rows->lock_count);
    assert_row(&v, 0, 10, 3000, true, true);
    assert_row(&v, 1, 10, 4000, true, true);
    assert_row(&v, 2, 11, 2000, true, false);
    assert_row(&v, 3, 12, 2500, true, false);
    assert_int_equal(0, rows->lock[0].units);
    rec_free(v.r);
}

/* A lock of a file: one unlock that lets two go was waited for by readers, who
 * have it together. Would catch: readers that wait for each other. And locks
 * for readers and writers. */
static void test_build_locks__readers(void **state)
{
    static const enum ips_sync kinds[] = {IPS_SYNC_FLOCK, IPS_SYNC_FLOCK,
                                          IPS_SYNC_WRLOCK};
    (void)state;
    for (uint32_t k = 0; k < 3; k++) {
        struct three v = three();
        release(&v, 0, kinds[k], 9000);
        acquire(&v, 1, kinds[k], 6000, 9000);
        release(&v, 1, kinds[k], 10000);
        if (k == 1) {
            acquire(&v, 2, kinds[k], 7000, 9000);
            release(&v, 2, kinds[k], 9500);
        }
        assert_int_equal(k ? 0 : 4, locks_of(&v)->lock_count);
        rec_free(v.r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_build_locks__a_mutex),
        cmocka_unit_test(test_build_locks__no_earlier_than_free),
        cmocka_unit_test(test_build_locks__left_out),
        cmocka_unit_test(test_build_locks__a_condition),
        cmocka_unit_test(test_build_locks__a_semaphore),
        cmocka_unit_test(test_build_locks__readers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
