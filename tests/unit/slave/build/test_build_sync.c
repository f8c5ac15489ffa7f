/* Locks and their like: which release let whom go. Each case says what it would
 * catch. */
#include <errno.h>

#include "recorder.h"

#define LOCK 0x1000u

/* Threads 10 (main), 11 and 12 of one process; all begin at time 0, CPU 0. */
struct three {
    struct recorder *r;
    rs t[3];
};
static struct three three(void)
{
    struct three v = {.r = rec_new()};
    for (uint32_t i = 0; i < 3; i++) {
        v.t[i] = rec_stream(v.r, 10, 10 + i, 1);
        rec_start(v.t[i], i ? IPS_START_THREAD : IPS_START_IMAGE, 1, 0);
    }
    return v;
}

static struct ips_rec_sync *acquire(rs s, enum ips_sync kind, uint64_t t,
                                    uint64_t t_ret, uint64_t cpu)
{
    return rec_sync(s, IPS_REC_ACQUIRE, kind, t, t_ret, cpu, cpu + 10, LOCK);
}
static struct ips_rec_sync *release(rs s, enum ips_sync kind, uint64_t t,
                                    uint64_t cpu)
{
    return rec_sync(s, IPS_REC_RELEASE, kind, t, t + 4, cpu, cpu + 4, LOCK);
}
#define AUX(b, tid, n) rec_kind(b, tid, IPS_NODE_AUX, n)

static uint32_t nodes_of(const struct ips_built *b, uint32_t tid)
{
    return b->g.chains[rec_chain(b, tid)].count;
}

/* Would catch: an older release taken, the waiter's own, one after its return;
 * nodes for releases that let nobody go; the wait's CPU before the arc; the
 * wait not counted as one for a lock, the arc not marked as one's. */
static void test_build_sync__newest_release_of_another(void **state)
{
    (void)state;
    struct three v = three();
    release(v.t[0], IPS_SYNC_MUTEX, 1000, 100);
    release(v.t[0], IPS_SYNC_MUTEX, 5000, 500);
    release(v.t[0], IPS_SYNC_MUTEX, 9000, 900);
    acquire(v.t[1], IPS_SYNC_MUTEX, 2000, 6000, 50);
    release(v.t[1], IPS_SYNC_MUTEX, 6100, 70);
    struct ips_built *b = rec_build(v.r);
    assert_int_equal(nodes_of(b, 10), 3);
    assert_int_equal(nodes_of(b, 11), 3);
    assert_arc(b, AUX(b, 11, 0), AUX(b, 10, 0), IPS_X_RESOURCE);
    assert_int_equal(b->g.xlen[AUX(b, 11, 0)], IPS_THING_LOCK);
    assert_int_equal(rec_coord(b, AUX(b, 10, 0)), 504); /* at its return */
    assert_int_equal(rec_coord(b, AUX(b, 11, 0)), 50);  /* at its call */
    const struct ips_thread_row *row = &b->threads[rec_chain(b, 11)];
    assert_int_equal(row->wait_ns[IPS_WAIT_LOCK], 3990);
    assert_int_equal(row->wait_count[IPS_WAIT_LOCK], 1);
    assert_int_equal(b->counts.order_dependent, 1);
    assert_int_equal(b->counts.any_unmatched, 0);
    assert_int_equal(b->counts.ambiguous, 0);
    rec_free(v.r);
}

/* Would catch: a release that was over before the waiter asked taken for the
 * cause; a wait without one counted as matched, or given a node. */
static void test_build_sync__nobody_let_go(void **state)
{
    (void)state;
    struct three v = three();
    release(v.t[0], IPS_SYNC_MUTEX, 1000, 100);
    acquire(v.t[1], IPS_SYNC_MUTEX, 2000, 6000, 50);
    struct ips_built *b = rec_build(v.r);
    assert_int_equal(nodes_of(b, 11), 2);
    assert_int_equal(b->counts.order_dependent, 0);
    assert_int_equal(b->counts.any_unmatched, 1);
    assert_int_equal(b->threads[rec_chain(b, 11)].wait_ns[IPS_WAIT_LOCK], 3990);
    rec_free(v.r);
}

/* Would catch: an arc for a wait that ran out of time. */
static void test_build_sync__ran_out(void **state)
{
    (void)state;
    struct three v = three();
    release(v.t[0], IPS_SYNC_SEMAPHORE, 3000, 100);
    acquire(v.t[1], IPS_SYNC_SEMAPHORE, 2000, 6000, 50)->err = ETIMEDOUT;
    struct ips_built *b = rec_build(v.r);
    assert_int_equal(b->counts.order_dependent, 0);
    assert_int_equal(b->counts.any_unmatched, 0);
    assert_int_equal(b->counts.idle, 1);
    assert_int_equal(b->threads[rec_chain(b, 11)].wait_ns[IPS_WAIT_TIMER],
                     3990);
    rec_free(v.r);
}

/* Would catch: two waiters let go by one post, while another post lets nobody
 * go. The first to return has the first post. */
static void test_build_sync__a_post_lets_one_go(void **state)
{
    (void)state;
    struct three v = three();
    release(v.t[0], IPS_SYNC_SEMAPHORE, 3000, 100);
    release(v.t[0], IPS_SYNC_SEMAPHORE, 3100, 200);
    acquire(v.t[1], IPS_SYNC_SEMAPHORE, 2000, 6000, 50);
    acquire(v.t[2], IPS_SYNC_SEMAPHORE, 2000, 5000, 50);
    struct ips_built *b = rec_build(v.r);
    assert_arc(b, AUX(b, 12, 0), AUX(b, 10, 0), IPS_X_RESOURCE);
    assert_arc(b, AUX(b, 11, 0), AUX(b, 10, 1), IPS_X_RESOURCE);
    assert_int_equal(b->g.xlen[AUX(b, 11, 0)], IPS_THING_SEMAPHORE);
    rec_free(v.r);
}

/* Would catch: a broadcast that lets only one go. */
static void test_build_sync__a_broadcast_lets_all_go(void **state)
{
    (void)state;
    struct three v = three();
    release(v.t[0], IPS_SYNC_COND, 3000, 100)->value = -1;
    acquire(v.t[1], IPS_SYNC_COND, 2000, 6000, 50);
    acquire(v.t[2], IPS_SYNC_COND, 2000, 5000, 50);
    struct ips_built *b = rec_build(v.r);
    assert_arc(b, AUX(b, 12, 0), AUX(b, 10, 0), IPS_X_RESOURCE);
    assert_arc(b, AUX(b, 11, 0), AUX(b, 10, 0), IPS_X_RESOURCE);
    rec_free(v.r);
}

/* The mutex of a wait for a condition, let go at `t` by `thread`. */
static struct recorder *after_signal(uint64_t t, uint32_t thread)
{
    struct three v = three();
    if (t < 3000)
        release(v.t[thread], IPS_SYNC_MUTEX, t, 90)->object = 7;
    release(v.t[0], IPS_SYNC_COND, 3000, 100);
    if (t >= 3000)
        release(v.t[thread], IPS_SYNC_MUTEX, t, 300)->object = 7;
    acquire(v.t[1], IPS_SYNC_COND, 2000, 6000, 50);
    struct ips_rec_sync *mutex =
        acquire(v.t[1], IPS_SYNC_MUTEX, 2000, 6000, 50);
    mutex->object = 7;
    mutex->value = 1;
    return v.r;
}

/* Would catch: a waiter that goes with the signal though the mutex was held for
 * long after; an arc from an unlock that came before the signal; the wait
 * counted twice. */
static void test_build_sync__mutex_after_the_signal(void **state)
{
    (void)state;
    struct recorder *r = after_signal(5000, 2);
    struct ips_built *b = rec_build(r);
    assert_arc(b, AUX(b, 11, 0), AUX(b, 10, 0), IPS_X_RESOURCE);
    assert_arc(b, AUX(b, 11, 1), AUX(b, 12, 0), IPS_X_RESOURCE);
    assert_int_equal(b->threads[rec_chain(b, 11)].wait_count[IPS_WAIT_LOCK], 1);
    rec_free(r);
    r = after_signal(2500, 2);
    b = rec_build(r);
    assert_arc(b, AUX(b, 11, 0), AUX(b, 10, 0), IPS_X_RESOURCE);
    assert_int_equal(nodes_of(b, 11), 3);
    assert_int_equal(nodes_of(b, 12), 2);
    assert_int_equal(b->counts.any_unmatched, 0);
    rec_free(r);
}

/* Two rounds of three; thread 10 is back before 11 and 12 have left the first.
 * Would catch: rounds mixed, the last arrival not the one awaited, arrivals
 * that are no chain, a cycle. */
static void test_build_sync__barrier(void **state)
{
    (void)state;
    struct three v = three();
    static const uint64_t arrive[2][3] = {{3000, 1000, 2000},
                                          {3200, 9000, 8000}};
    static const uint64_t leave[2][3] = {{3010, 4000, 4100},
                                         {9500, 9010, 9600}};
    for (unsigned round = 0; round < 2; round++)
        for (unsigned i = 0; i < 3; i++)
            acquire(v.t[i], IPS_SYNC_BARRIER, arrive[round][i], leave[round][i],
                    100 * (round + 1))
                ->value = leave[round][i] == arrive[round][i] + 10;
    struct ips_built *b = rec_build(v.r);
    /* An arrival and a leaving of each round. First: 11, 12, 10. */
    assert_no_arc(b, AUX(b, 11, 0));
    assert_arc(b, AUX(b, 12, 0), AUX(b, 11, 0), IPS_X_RESOURCE);
    assert_arc(b, AUX(b, 10, 0), AUX(b, 12, 0), IPS_X_RESOURCE);
    assert_arc(b, AUX(b, 11, 1), AUX(b, 10, 0), IPS_X_RESOURCE);
    assert_arc(b, AUX(b, 12, 1), AUX(b, 10, 0), IPS_X_RESOURCE);
    assert_int_equal(b->g.xlen[AUX(b, 12, 0)], IPS_THING_BARRIER);
    assert_int_equal(b->g.xlen[AUX(b, 12, 1)], IPS_THING_BARRIER);
    assert_no_arc(b, AUX(b, 10, 1));
    /* Second: 10, 12, 11. */
    assert_no_arc(b, AUX(b, 10, 2));
    assert_arc(b, AUX(b, 12, 2), AUX(b, 10, 2), IPS_X_RESOURCE);
    assert_arc(b, AUX(b, 11, 2), AUX(b, 12, 2), IPS_X_RESOURCE);
    assert_arc(b, AUX(b, 10, 3), AUX(b, 11, 2), IPS_X_RESOURCE);
    assert_arc(b, AUX(b, 12, 3), AUX(b, 11, 2), IPS_X_RESOURCE);
    assert_int_equal(b->counts.ambiguous, 0);
    rec_free(v.r);
}

/* Would catch: an address of one process taken for another's; a shared object
 * that only one process may use. */
static void test_build_sync__private_and_shared(void **state)
{
    (void)state;
    for (unsigned shared = 0; shared < 2; shared++) {
        struct recorder *r = rec_new();
        rs a = rec_stream(r, 10, 10, 1), z = rec_stream(r, 20, 20, 1);
        rec_start(a, IPS_START_IMAGE, 1, 0);
        rec_start(z, IPS_START_IMAGE, 1, 0);
        struct ips_rec_sync *let = release(a, IPS_SYNC_MUTEX, 3000, 100);
        let->dev = shared ? 1 : 0;
        let->ino = shared ? 77 : 0;
        struct ips_rec_sync *got = acquire(z, IPS_SYNC_MUTEX, 2000, 6000, 50);
        got->dev = let->dev;
        got->ino = let->ino;
        struct ips_built *b = rec_build(r);
        assert_int_equal(b->counts.order_dependent, shared);
        assert_int_equal(b->counts.any_unmatched, !shared);
        if (shared)
            assert_arc(b, AUX(b, 20, 0), AUX(b, 10, 0), IPS_X_RESOURCE);
        rec_free(r);
    }
}

/* Would catch: a guess between two threads that let go at once, not counted;
 * both sides of a rwlock taken for two objects. */
static void test_build_sync__two_at_once(void **state)
{
    (void)state;
    struct three v = three();
    release(v.t[0], IPS_SYNC_RDLOCK, 5000, 100);
    release(v.t[2], IPS_SYNC_RDLOCK, 5002, 100);
    acquire(v.t[1], IPS_SYNC_WRLOCK, 2000, 6000, 50);
    struct ips_built *b = rec_build(v.r);
    assert_arc(b, AUX(b, 11, 0), AUX(b, 12, 0), IPS_X_RESOURCE);
    assert_int_equal(b->counts.ambiguous, 1);
    rec_free(v.r);
}

/* Would catch: CPU burnt by spinning counted as work, in T or on the path. */
static void test_build_sync__spin(void **state)
{
    (void)state;
    struct three v = three();
    release(v.t[0], IPS_SYNC_SPIN, 7000, 6000);
    rec_end(v.t[0], IPS_END_THREAD, 7100, 6100, 0);
    rec_sync(v.t[1], IPS_REC_ACQUIRE, IPS_SYNC_SPIN, 2000, 7005, 50, 5055,
             LOCK);
    rec_end(v.t[1], IPS_END_THREAD, 7105, 5155, 0);
    struct ips_built *b = rec_build(v.r);
    assert_arc(b, AUX(b, 11, 0), AUX(b, 10, 0), IPS_X_RESOURCE);
    assert_int_equal(b->counts.spin_ns, 5005);
    assert_int_equal(rec_coord(b, rec_last(b, 11)), 150);
    assert_int_equal(b->threads[rec_chain(b, 11)].cpu_ns, 150);
    assert_int_equal(b->threads[rec_chain(b, 11)].wait_ns[IPS_WAIT_LOCK], 5005);
    struct rec_answer a = rec_longest(b, 0, IPS_EXTERNAL_REPLY);
    assert_int_equal(a.t_max, 6104); /* to the release, then 100 */
    assert_int_equal(a.total, 6100 + 150);
    rec_free(v.r);
}

/* Would catch: a release's own CPU after the waiter ran on (it was preempted in
 * the call) making the path longer than the time that passed. */
static void test_build_sync__no_quicker_than_the_clock(void **state)
{
    (void)state;
    struct three v = three();
    rec_sync(v.t[0], IPS_REC_RELEASE, IPS_SYNC_MUTEX, 5000, 9000, 5000, 9000,
             LOCK)
        ->value = 1;
    rec_end(v.t[0], IPS_END_THREAD, 9000, 9000, 0);
    rec_sync(v.t[1], IPS_REC_ACQUIRE, IPS_SYNC_MUTEX, 1000, 5100, 50, 90, LOCK);
    rec_end(v.t[1], IPS_END_THREAD, 8000, 2990, 0);
    struct ips_built *b = rec_build(v.r);
    /* 100 ns passed: 40 of them the waiter's, so 60 the release's. */
    assert_int_equal(rec_coord(b, AUX(b, 10, 0)), 5060);
    struct rec_answer a = rec_longest(b, 0, IPS_EXTERNAL_REPLY);
    assert_int_equal(a.t_max, 9000);
    rec_free(v.r);
}

/* Would catch: a cycle made by records that cannot be true, or an index out of
 * range: two threads that each let the other go before it asked. */
static void test_build_sync__impossible(void **state)
{
    (void)state;
    struct three v = three();
    for (unsigned i = 0; i < 2; i++) {
        struct ips_rec_sync *got =
            acquire(v.t[i], IPS_SYNC_MUTEX, 1000, 9000, 50);
        got->object = i;
        rec_sync(v.t[i], IPS_REC_RELEASE, IPS_SYNC_MUTEX, 2000, 9500, 60, 70,
                 1 - i);
    }
    struct ips_rec_sync *odd =
        acquire(v.t[2], (enum ips_sync)4711, 10, UINT64_MAX, 5);
    odd->value = INT32_MIN;
    odd->err = UINT32_MAX;
    acquire(v.t[2], IPS_SYNC_MUTEX, 20, 30, UINT64_MAX - 20)->value = 1;
    struct ips_built *b = rec_build(v.r);
    assert_int_equal(b->counts.ambiguous > 0, 1);
    (void)rec_longest(b, 0, IPS_EXTERNAL_REPLY);
    rec_free(v.r);
}

/* Would catch: a thread that waits for a condition with short limits, and finds
 * what it waited for when one is over, said to have waited for the clock
 * (Python gets its lock so); an end ascribed to a release that the thread
 * waited on after, to its own, or to one long before a single wait was over. */
static void test_build_sync__found_when_the_limit_is_over(void **state)
{
    enum {
        ENDED,
        WAITED_ON,
        NO_RELEASE,
        OWN,
        SINGLE_LATE,
        SINGLE_EARLY,
        CASES
    };
    (void)state;
    for (int k = 0; k < CASES; k++) {
        const bool single = k == SINGLE_LATE || k == SINGLE_EARLY;
        const uint64_t ms = 1000000;
        struct three v = three();
        if (!single)
            acquire(v.t[1], IPS_SYNC_COND, 1 * ms, 6 * ms, 50)->err = ETIMEDOUT;
        release(v.t[1], IPS_SYNC_MUTEX, 6 * ms, 60);
        if (k == OWN) /* in a signal handler */
            release(v.t[1], IPS_SYNC_COND, 8 * ms, 60);
        acquire(v.t[1], IPS_SYNC_COND, 6 * ms, 11 * ms, 60)->err = ETIMEDOUT;
        if (k == WAITED_ON)
            acquire(v.t[1], IPS_SYNC_COND, 11 * ms, 16 * ms, 70)->err =
                ETIMEDOUT;
        if (k != NO_RELEASE && k != OWN)
            release(v.t[0], IPS_SYNC_COND,
                    k == SINGLE_LATE ? 10 * ms + ms / 2 : 8 * ms, 100);
        struct ips_built *b = rec_build(v.r);
        const struct ips_thread_row *row = &b->threads[rec_chain(b, 11)];
        const bool ended = k == ENDED || k == SINGLE_LATE;
        assert_int_equal(row->wait_count[IPS_WAIT_LOCK], ended);
        assert_int_equal(nodes_of(b, 11), 2 + ended);
        if (ended)
            assert_arc(b, AUX(b, 11, 0), AUX(b, 10, 0), IPS_X_RESOURCE);
        rec_free(v.r);
    }
}

/* A lock (`type` ACQUIRE) or unlock of `length` bytes from `start` on; 0: all
 * from there on; -1: a record of an old agent, without a length. */
static void range(rs s, enum ips_rec_type type, uint64_t t, uint64_t t_ret,
                  uint64_t cpu, uint64_t start, int64_t length)
{
    struct ips_rec_sync *r =
        rec_put(s, type, sizeof(*r) + (length < 0 ? 0 : IPS_REC_LENGTH_BYTES),
                IPS_SYNC_RECORD_LOCK, t);
    r->t_ret = t_ret;
    r->cpu = r->cpu_ret = cpu;
    r->dev = 1;
    r->ino = 2;
    r->object = start;
    r->value = type == IPS_REC_RELEASE;
    if (length >= 0)
        memcpy(r + 1, &length, sizeof(length));
}

/* Would catch: a wait for bytes of a file whose unlock covers more or fewer
 * bytes left without an arc; an unlock of other bytes, or of bytes that only
 * touch them, taken for the cause or called ambiguous; old records, whose
 * length is not known, not matched by their start. */
static void test_build_sync__bytes_of_a_file(void **state)
{
    (void)state;
    static const struct {
        uint64_t wanted;
        int64_t want_length;
        uint64_t unlocked;
        int64_t unlock_length;
        bool ends;
    } cases[] = {
        {50, 10, 0, 100, true},  {0, 100, 50, 10, true},
        {50, 10, 0, 0, true},    {50, 0, 70, 5, true},
        {50, 10, 50, 10, true},  {50, 10, 59, 1, true},
        {50, 10, 60, 10, false}, {50, 10, 40, 10, false},
        {50, 10, 70, 0, false},  {70, 0, 50, 20, false},
        {50, -1, 50, -1, true},  {50, -1, 40, -1, false},
        {50, -1, 50, 3, true},   {1, 2, UINT64_MAX, 2, false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct three v = three();
        range(v.t[0], IPS_REC_RELEASE, 5000, 5004, 500, cases[i].unlocked,
              cases[i].unlock_length);
        range(v.t[2], IPS_REC_RELEASE, 5001, 5005, 600, 5000, 7);
        range(v.t[1], IPS_REC_ACQUIRE, 2000, 6000, 50, cases[i].wanted,
              cases[i].want_length);
        struct ips_built *b = rec_build(v.r);
        /* of two unlocks that fit, the newest is the cause */
        bool both = cases[i].want_length == 0;
        if (!both)
            assert_int_equal(b->counts.any_unmatched, !cases[i].ends);
        if (cases[i].ends && !both)
            assert_arc(b, AUX(b, 11, 0), AUX(b, 10, 0), IPS_X_RESOURCE);
        if (both)
            assert_arc(b, AUX(b, 11, 0), AUX(b, 12, 0), IPS_X_RESOURCE);
        assert_int_equal(b->counts.ambiguous, both && cases[i].ends);
        rec_free(v.r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_build_sync__newest_release_of_another),
        cmocka_unit_test(test_build_sync__nobody_let_go),
        cmocka_unit_test(test_build_sync__ran_out),
        cmocka_unit_test(test_build_sync__a_post_lets_one_go),
        cmocka_unit_test(test_build_sync__a_broadcast_lets_all_go),
        cmocka_unit_test(test_build_sync__mutex_after_the_signal),
        cmocka_unit_test(test_build_sync__barrier),
        cmocka_unit_test(test_build_sync__private_and_shared),
        cmocka_unit_test(test_build_sync__two_at_once),
        cmocka_unit_test(test_build_sync__spin),
        cmocka_unit_test(test_build_sync__no_quicker_than_the_clock),
        cmocka_unit_test(test_build_sync__impossible),
        cmocka_unit_test(test_build_sync__found_when_the_limit_is_over),
        cmocka_unit_test(test_build_sync__bytes_of_a_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
