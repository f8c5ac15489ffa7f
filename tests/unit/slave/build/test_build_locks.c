/* Locks as a replay needs them (slave/build/locks.c): of which records one has
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

/* Catches: the call that gave a lock back known of another release than the one
 * that ended the wait, or of one that nobody waited for. */
static void test_build_locks__from_where_it_was_given(void **state)
{
    (void)state;
    struct three v = three();
    release(&v, 0, IPS_SYNC_MUTEX, 9000)->site = 0x4711;
    acquire(&v, 1, IPS_SYNC_MUTEX, 6000, 9000)->site = 0x4712;
    release(&v, 1, IPS_SYNC_MUTEX, 12000)->site = 0x4713;
    const struct ips_wait_rows *rows = locks_of(&v);
    const struct ips_graph *g = &v.r->built.g;
    assert_int_equal(1, rows->release_count);
    assert_int_equal(0x4711, rows->release[0].site);
    assert_int_equal(rec_chain(&v.r->built, 10),
                     ips_chain_of(g, rows->release[0].node));
    assert_int_equal(1, rows->count);
    assert_true(rows->row[0].of_node);
    assert_int_equal(rows->release[0].node, g->xpred[rows->row[0].arc]);
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

static void range(struct three *v, uint32_t thread, enum ips_rec_type type,
                  uint64_t t, uint64_t start, uint64_t length)
{
    struct ips_rec_sync *r =
        rec_put(v->t[thread], type, sizeof(*r) + IPS_REC_LENGTH_BYTES,
                IPS_SYNC_RECORD_LOCK, t);
    r->t_ret = type == IPS_REC_ACQUIRE ? t + 3000 : t;
    r->cpu = r->cpu_ret = t / 10;
    r->object = start;
    r->value = type == IPS_REC_RELEASE;
    memcpy(r + 1, &length, sizeof(length));
}

/* 10 unlocks bytes for some of which 11 waits; then 12 waits for 11. Would
 * catch: locks of different bytes of a file replayed as one lock, or as two
 * that have nothing to do with each other. */
static void test_build_locks__bytes_of_a_file(void **state)
{
    (void)state;
    for (uint64_t more = 0; more < 2; more++) {
        struct three v = three();
        range(&v, 0, IPS_REC_RELEASE, 8900, 100 - more, 10 + more);
        range(&v, 1, IPS_REC_ACQUIRE, 6000, 100, 10);
        range(&v, 1, IPS_REC_RELEASE, 9900, 100, 10);
        range(&v, 2, IPS_REC_ACQUIRE, 7000, 100, 10);
        range(&v, 2, IPS_REC_RELEASE, 11000, 100, 10);
        assert_int_equal(locks_of(&v)->lock_count, more ? 0 : 6);
        rec_free(v.r);
    }
}

/* 11 gives its mutex back as it waits for a condition; 10, which had waited for
 * 12 until 3000, takes it free, signals at 5500 and gives it at 6000. Would
 * catch: a mutex that is taken to be asked for since the wait for the condition
 * began, so that 10 had it before it had waited for 12 itself - who signals
 * only when it had the mutex: they would wait for each other for ever (xz, its
 * blocks handed from thread to thread). */
static void test_build_locks__asked_for_when_signalled(void **state)
{
    (void)state;
    struct three v = three();
    release(&v, 0, IPS_SYNC_MUTEX, 5900)->object = 7;
    release(&v, 0, IPS_SYNC_COND, 5500);
    acquire(&v, 1, IPS_SYNC_COND, 1000, 6100);
    again(&v, 1, 1000, 6100);
    release(&v, 1, IPS_SYNC_MUTEX, 7000)->object = 7;
    const struct ips_wait_rows *rows = locks_of(&v);
    assert_int_equal(4, rows->lock_count);
    assert_row(&v, 0, 10, 5100, false, false);
    assert_row(&v, 1, 10, 5900, true, true);
    rec_free(v.r);
}

/* As before, but 10 waited for a semaphore of 12's until 5400, and had the
 * mutex for longer than that. Would catch: a guess that it had the mutex while
 * it waited for somebody, who may need the mutex. */
static void test_build_locks__had_since_it_last_waited(void **state)
{
    (void)state;
    struct three v = three();
    acquire(&v, 0, IPS_SYNC_SEMAPHORE, 2000, 5400)->object = 9;
    release(&v, 2, IPS_SYNC_SEMAPHORE, 5300)->object = 9;
    release(&v, 0, IPS_SYNC_MUTEX, 9000);
    acquire(&v, 1, IPS_SYNC_MUTEX, 6000, 9000);
    release(&v, 1, IPS_SYNC_MUTEX, 12000);
    const struct ips_wait_rows *rows = locks_of(&v);
    const struct ips_graph *g = &v.r->built.g;
    const struct ips_lock_row *took = NULL;
    for (uint32_t k = 0; k < rows->lock_count; k++)
        if (!took && rows->lock[k].units &&
            ips_chain_of(g, rows->lock[k].node) == rec_chain(&v.r->built, 10))
            took = &rows->lock[k];
    assert_non_null(took);
    assert_false(took->gives);
    assert_int_equal(0, took->w);
    assert_int_equal(IPS_THING_SEMAPHORE, g->xlen[took->node - 1]);
    rec_free(v.r);
}

/* 11 gives the mutex back at 8000 and comes to a barrier at 8010, as the last
 * one; 10 leaves it at 8050, of which it ran 30, and was runnable for 30 before
 * that, as the kernel has it. So the arrival is passed at 7990, no later than
 * what hangs on it. Would catch: what was done before a node put
 * behind it, because of its bent time (a lock held while its thread waits at a
 * barrier for those who need it). */
static void test_build_locks__by_order_not_by_bent_times(void **state)
{
    (void)state;
    struct three v = three();
    v.r->control.locks = IPS_LOCKS_ALL;
    rec_delay(v.t[0], 1500, 0);
    struct ips_rec_sync *left = acquire(&v, 0, IPS_SYNC_BARRIER, 2000, 8050);
    left->object = 5;
    left->cpu_ret += 30;
    v.waited[0] -= 30;
    rec_delay(v.t[0], 8060, 30);
    rec_lock(v.t[1], IPS_REC_ACQUIRE_SHORT, IPS_SYNC_MUTEX, 7000, 7000, LOCK);
    rec_lock(v.t[1], IPS_REC_RELEASE_SHORT, IPS_SYNC_MUTEX, 8000, 8000, LOCK);
    acquire(&v, 1, IPS_SYNC_BARRIER, 8010, 8011)->object = 5;
    rec_lock(v.t[2], IPS_REC_ACQUIRE_SHORT, IPS_SYNC_MUTEX, 100, 100, LOCK);
    rec_lock(v.t[2], IPS_REC_RELEASE_SHORT, IPS_SYNC_MUTEX, 200, 200, LOCK);
    const struct ips_wait_rows *rows = locks_of(&v);
    const struct ips_graph *g = &v.r->built.g;
    assert_int_equal(4, rows->lock_count);
    assert_row(&v, 0, 11, 7000, false, false);
    assert_row(&v, 1, 11, 8000, false, true);
    const struct ips_lock_row *gives = &rows->lock[1];
    assert_int_equal(IPS_THING_BARRIER, g->xlen[gives->node]);
    assert_true(g->at[gives->node] < 8000); /* what the test is about */
    rec_free(v.r);
}

/* What nobody waited for, with --locks=all: from the taking to the giving back;
 * one that is never given back, and one that one thread alone has, are left
 * out. Would catch: free takings left out, nodes made for them (the graph would
 * be another), places by the time alone (11 did not run from 20000 to 30000)
 * and a wait that takes one of them for its cause though it was long over. */
static void test_build_locks__all(void **state)
{
    (void)state;
    struct three v = three();
    v.r->control.locks = IPS_LOCKS_ALL;
    rec_lock(v.t[0], IPS_REC_ACQUIRE_SHORT, IPS_SYNC_SPIN, 2000, 2000, LOCK);
    rec_lock(v.t[0], IPS_REC_RELEASE_SHORT, IPS_SYNC_SPIN, 3000, 3000, LOCK);
    rec_lock(v.t[0], IPS_REC_ACQUIRE_SHORT, IPS_SYNC_SPIN, 4000, 4000, LOCK);
    v.waited[1] = 10000;
    rec_lock(v.t[1], IPS_REC_ACQUIRE_SHORT, IPS_SYNC_SPIN, 5000, 5000, LOCK);
    rec_lock(v.t[1], IPS_REC_RELEASE_SHORT, IPS_SYNC_SPIN, 31000, 21000, LOCK);
    rec_lock(v.t[2], IPS_REC_ACQUIRE_SHORT, IPS_SYNC_MUTEX, 6000, 6000, 99);
    rec_lock(v.t[2], IPS_REC_RELEASE_SHORT, IPS_SYNC_MUTEX, 7000, 7000, 99);
    const struct ips_wait_rows *rows = locks_of(&v);
    assert_int_equal(4, rows->lock_count);
    assert_row(&v, 0, 10, 2000, false, false);
    assert_row(&v, 1, 10, 3000, false, true);
    assert_row(&v, 2, 11, 5000, false, false);
    assert_row(&v, 3, 11, 21000, false, true);
    assert_int_equal(6, v.r->built.g.node_count);
    rec_free(v.r);
}

/* A release that nobody was seen to wait for let somebody go all the same: its
 * waiter came in between. Would catch: a wait without an arc though all is
 * recorded. */
static void test_build_locks__a_short_release_lets_go(void **state)
{
    (void)state;
    struct three v = three();
    v.r->control.locks = IPS_LOCKS_ALL;
    rec_lock(v.t[0], IPS_REC_ACQUIRE_SHORT, IPS_SYNC_MUTEX, 4000, 4000, LOCK);
    rec_lock(v.t[0], IPS_REC_RELEASE_SHORT, IPS_SYNC_MUTEX, 9000, 9000, LOCK);
    acquire(&v, 1, IPS_SYNC_MUTEX, 8990, 12000);
    release(&v, 1, IPS_SYNC_MUTEX, 13000);
    const struct ips_wait_rows *rows = locks_of(&v);
    assert_int_equal(4, rows->lock_count);
    assert_row(&v, 0, 10, 4000, false, false);
    assert_row(&v, 1, 10, 9000, true, true);
    assert_row(&v, 2, 11, 8990, true, false);
    assert_int_equal(0, v.r->built.counts.any_unmatched);
    rec_free(v.r);
}

/* Behind a wait for a condition that ran out the mutex is taken again. Would
 * catch: a mutex that is held, in a replay, while its thread waits. */
static void test_build_locks__after_a_timeout(void **state)
{
    (void)state;
    struct three v = three();
    v.r->control.locks = IPS_LOCKS_ALL;
    rec_lock(v.t[0], IPS_REC_ACQUIRE_SHORT, IPS_SYNC_MUTEX, 1000, 1000, 7);
    rec_lock(v.t[0], IPS_REC_RELEASE_SHORT, IPS_SYNC_MUTEX, 2000, 2000, 7);
    acquire(&v, 0, IPS_SYNC_COND, 2000, 9000)->err = ETIMEDOUT;
    rec_lock(v.t[0], IPS_REC_ACQUIRE_SHORT, IPS_SYNC_MUTEX, 9000, 2000, 7);
    rec_lock(v.t[0], IPS_REC_RELEASE_SHORT, IPS_SYNC_MUTEX, 9500, 2500, 7);
    rec_lock(v.t[1], IPS_REC_ACQUIRE_SHORT, IPS_SYNC_MUTEX, 4000, 4000, 7);
    rec_lock(v.t[1], IPS_REC_RELEASE_SHORT, IPS_SYNC_MUTEX, 5000, 5000, 7);
    const struct ips_wait_rows *rows = locks_of(&v);
    assert_int_equal(4, rows->lock_count);
    assert_row(&v, 0, 10, 1000, false, false);
    assert_row(&v, 1, 10, 2000, false, true);
    assert_row(&v, 2, 11, 4000, false, false);
    assert_row(&v, 3, 11, 5000, false, true);
    rec_free(v.r);
}

/* Two units to begin with: both are taken, one is given back and taken again.
 * Would catch: units that come from nowhere, so that a replay waits for ever,
 * and too many, so that nobody ever waits. */
static void test_build_locks__units_at_the_begin(void **state)
{
    static const enum ips_rec_type take = IPS_REC_ACQUIRE_SHORT,
                                   give = IPS_REC_RELEASE_SHORT;
    (void)state;
    struct three v = three();
    v.r->control.locks = IPS_LOCKS_ALL;
    rec_lock(v.t[0], take, IPS_SYNC_SEMAPHORE, 1000, 1000, LOCK);
    rec_lock(v.t[1], take, IPS_SYNC_SEMAPHORE, 2000, 2000, LOCK);
    rec_lock(v.t[0], give, IPS_SYNC_SEMAPHORE, 3000, 3000, LOCK);
    rec_lock(v.t[2], take, IPS_SYNC_SEMAPHORE, 4000, 4000, LOCK);
    rec_lock(v.t[2], give, IPS_SYNC_SEMAPHORE, 5000, 5000, LOCK);
    rec_lock(v.t[1], give, IPS_SYNC_SEMAPHORE, 6000, 6000, LOCK);
    const struct ips_wait_rows *rows = locks_of(&v);
    assert_int_equal(6, rows->lock_count);
    for (uint32_t k = 0; k < 6; k++)
        assert_int_equal(2, rows->lock[k].units);
    assert_row(&v, 0, 10, 1000, false, false);
    assert_row(&v, 1, 10, 3000, false, true);
    assert_row(&v, 4, 12, 4000, false, false);
    rec_free(v.r);
}

/* 11 and 12 read, 10 writes: who wants the lock has the gate (lock 0) while he
 * takes his units (lock 1) - the writer both. 12 never gives back what it took
 * last. Would catch: a writer beside a reader, two writers that have half of
 * the units each, units that are not given back, and an order of rows at one
 * place in which the gate is given before the units are there. */
static void test_build_locks__readers_and_writers(void **state)
{
    static const enum ips_rec_type take = IPS_REC_ACQUIRE_SHORT,
                                   give = IPS_REC_RELEASE_SHORT;
    static const struct {
        uint32_t lock, tid;
        uint64_t cpu;
        bool gives;
    } want[] = {
        {0, 10, 1000, false}, {1, 10, 1000, false}, {1, 10, 1000, false},
        {0, 10, 1000, true},  {1, 10, 2000, true},  {1, 10, 2000, true},
        {0, 11, 3000, false}, {1, 11, 3000, false}, {0, 11, 3000, true},
        {1, 11, 5000, true},  {0, 12, 4000, false}, {1, 12, 4000, false},
        {0, 12, 4000, true},  {1, 12, 6000, true}};
    (void)state;
    struct three v = three();
    v.r->control.locks = IPS_LOCKS_ALL;
    rec_lock(v.t[0], take, IPS_SYNC_WRLOCK, 1000, 1000, LOCK);
    rec_lock(v.t[0], give, IPS_SYNC_WRLOCK, 2000, 2000, LOCK);
    rec_lock(v.t[1], take, IPS_SYNC_RDLOCK, 3000, 3000, LOCK);
    rec_lock(v.t[1], give, IPS_SYNC_RDLOCK, 5000, 5000, LOCK);
    rec_lock(v.t[2], take, IPS_SYNC_RDLOCK, 4000, 4000, LOCK);
    rec_lock(v.t[2], give, IPS_SYNC_RDLOCK, 6000, 6000, LOCK);
    rec_lock(v.t[2], take, IPS_SYNC_RDLOCK, 7000, 7000, LOCK);
    const struct ips_wait_rows *rows = locks_of(&v);
    assert_int_equal(sizeof(want) / sizeof(want[0]), rows->lock_count);
    for (uint32_t k = 0; k < rows->lock_count; k++) {
        assert_row(&v, k, want[k].tid, want[k].cpu, false, want[k].gives);
        assert_int_equal(want[k].lock, rows->lock[k].lock);
        assert_int_equal(1 + want[k].lock, rows->lock[k].units);
    }
    rec_free(v.r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_build_locks__a_mutex),
        cmocka_unit_test(test_build_locks__from_where_it_was_given),
        cmocka_unit_test(test_build_locks__no_earlier_than_free),
        cmocka_unit_test(test_build_locks__left_out),
        cmocka_unit_test(test_build_locks__a_condition),
        cmocka_unit_test(test_build_locks__a_semaphore),
        cmocka_unit_test(test_build_locks__readers),
        cmocka_unit_test(test_build_locks__bytes_of_a_file),
        cmocka_unit_test(test_build_locks__asked_for_when_signalled),
        cmocka_unit_test(test_build_locks__had_since_it_last_waited),
        cmocka_unit_test(test_build_locks__by_order_not_by_bent_times),
        cmocka_unit_test(test_build_locks__all),
        cmocka_unit_test(test_build_locks__a_short_release_lets_go),
        cmocka_unit_test(test_build_locks__after_a_timeout),
        cmocka_unit_test(test_build_locks__units_at_the_begin),
        cmocka_unit_test(test_build_locks__readers_and_writers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
