/* The run's counters against the blocks that its files have, and losses against
 * the records that are not there, after each way in which room is refused,
 * handed back, gone round with or left. */
#include "agent/record/stream.h"
#include "tests/unit/help/core_help.h"
#include "tests/unit/help/emulated.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define KIB 1024u

struct shared {
    uint64_t tried, refused; /* by all processes */
    uint64_t segments;       /* that the last writer had begun */
};

static struct pool_dir pool;
static struct shared *shared;
static struct ips_control *control;

static int setup(void **state)
{
    (void)state;
    pool_help_make(&pool, NULL);
    control = pool_help_control(&pool);
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return shared == MAP_FAILED;
}

static int teardown(void **state)
{
    (void)state;
    munmap(control, sizeof(*control));
    munmap(shared, sizeof(*shared));
    pool_help_remove(&pool);
    return 0;
}

/* --- what is there ---------------------------------------------------------
 */

struct found {
    uint64_t records; /* of write_one() */
    uint64_t lost[IPS_LOST_COUNT], said[IPS_LOST_COUNT];
    unsigned segments, open, closed, abandoned;
    uint32_t newest, newest_abandoned, oldest_kept;
};

static void see(const struct pool_segment *seg, const void *rec, size_t len,
                void *arg)
{
    struct found *f = arg;
    const struct ips_rec_lost *lost = rec;
    (void)seg;
    (void)len;
    f->records += ips_rec_type(rec) == IPS_REC_BLOCK;
    if (ips_rec_type(rec) == IPS_REC_LOST)
        f->said[lost->h.a] += lost->count;
}

static void see_end(const struct pool_segment *seg, void *arg)
{
    struct found *f = arg;
    const struct ips_segment_header *h = &seg->head;
    bool given_up = atomic_load(&h->abandoned);
    f->segments++;
    f->open += atomic_load(&h->state) == IPS_SEGMENT_OPEN;
    f->closed += atomic_load(&h->state) == IPS_SEGMENT_CLOSED;
    f->abandoned += given_up;
    if (h->seq > f->newest)
        f->newest = h->seq;
    if (given_up && h->seq > f->newest_abandoned)
        f->newest_abandoned = h->seq;
    if (!given_up && h->seq < f->oldest_kept)
        f->oldest_kept = h->seq;
    for (unsigned i = 0; i < IPS_LOST_COUNT; i++)
        f->lost[i] += h->lost[i];
}

/* What nobody released is there; what is not there was counted, by `cause`. */
static struct found check(enum ips_lost_cause cause)
{
    struct found f = {.oldest_kept = UINT32_MAX};
    unsigned files = 0;
    pool_help_read(&pool, see, see_end, &f);
    uint64_t there = pool_help_blocks(&pool, &files);
    if (!emulated()) /* it does not follow MADV_POPULATE_WRITE */
        assert_int_equal(control->used_bytes, there);
    assert_int_equal(files, f.segments);
    assert_int_equal(f.records, shared->tried - shared->refused);
    for (unsigned i = 0; i < IPS_LOST_COUNT; i++)
        assert_int_equal(f.lost[i] + control->lost[i],
                         i == cause ? shared->refused : 0);
    return f;
}

static void write_many(unsigned count)
{
    uint64_t refused = 0;
    for (unsigned i = 0; i < count; i++)
        refused += !write_one(0, i);
    __atomic_add_fetch(&shared->tried, count, __ATOMIC_RELAXED);
    __atomic_add_fetch(&shared->refused, refused, __ATOMIC_RELAXED);
}

static void run(void (*body)(void *), void *arg)
{
    int status = in_child(&pool, body, arg);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void body_writes(void *count)
{
    write_many((unsigned)(uintptr_t)count);
}
static void *many(unsigned count)
{
    return (void *)(uintptr_t)count;
}

/* --- refused ---------------------------------------------------------------
 */

/* A writer has 4 KiB, then 20, 52, 116, 180: as much more as he has, in 16 KiB,
 * but 64 at most. Would catch: a refused step that stays counted, one that is
 * granted though it passes the quota by a byte, or refused though it just fits.
 */
static void test_agent_quota__steps_that_fit(void **state)
{
    static const struct {
        uint64_t quota, used;
    } cases[] = {{256u * KIB, 244u * KIB},     {244u * KIB, 244u * KIB},
                 {244u * KIB - 1, 180u * KIB}, {52u * KIB, 52u * KIB},
                 {52u * KIB - 1, 20u * KIB},   {20u * KIB, 20u * KIB},
                 {20u * KIB - 1, 4u * KIB},    {4u * KIB, 4u * KIB}};
    SKIP_IF_EMULATED("MADV_POPULATE_WRITE");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (i) {
            teardown(state);
            setup(state);
        }
        control->quota_bytes = cases[i].quota;
        run(body_writes, many(10000));
        struct found f = check(IPS_LOST_QUOTA);
        assert_int_equal(control->used_bytes, cases[i].used);
        assert_true(shared->refused > 0 && f.records > 0);
        assert_int_equal(f.segments, 1);
        /* none of the room was left unused */
        assert_true(f.records >= (cases[i].used - 1024u) / 64);
    }
}

/* Not even a first page: no file is left behind. */
static void test_agent_quota__no_room_at_all(void **state)
{
    (void)state;
    control->quota_bytes = 4095;
    run(body_writes, many(500));
    struct found f = check(IPS_LOST_QUOTA);
    assert_int_equal(f.segments, 0);
    assert_int_equal(shared->refused, 500);
    assert_int_equal(control->used_bytes, 0);
}

/* Room that is granted counts with what spares have, and without what was
 * released. */
static void test_agent_quota__what_counts_as_used(void **state)
{
    (void)state;
    SKIP_IF_EMULATED("MADV_POPULATE_WRITE");
    control->quota_bytes = 64u * KIB;
    control->spare_bytes = 1000u * KIB;
    control->released_bytes = 1000u * KIB - 12u * KIB;
    run(body_writes, many(3000));
    check(IPS_LOST_QUOTA);
    assert_int_equal(control->used_bytes, 52u * KIB);
    assert_true(shared->refused > 0);
}

static void body_limited(void *arg)
{
    struct rlimit limit = {4095, 4095};
    (void)arg;
    setrlimit(RLIMIT_FSIZE, &limit);
    pthread_t t;
    pthread_create(&t, NULL, core_thread_body, (void *)1);
    pthread_join(t, NULL);
    __atomic_add_fetch(&shared->tried, CORE_EACH, __ATOMIC_RELAXED);
    __atomic_add_fetch(&shared->refused, CORE_EACH, __ATOMIC_RELAXED);
}

/* A thread that may make no file. Its main thread's first page stays. Beyond
 * its records, its END and what it said after it are lost, too. */
static void test_agent_quota__no_file_is_allowed(void **state)
{
    (void)state;
    run(body_limited, NULL);
    shared->refused = control->lost[IPS_LOST_NO_SEGMENT];
    shared->tried = shared->refused;
    check(IPS_LOST_NO_SEGMENT);
    assert_in_range(shared->refused, CORE_EACH, CORE_EACH + 3);
}

/* --- ended -----------------------------------------------------------------
 */

static void *thread_writes(void *count)
{
    ips_core_begin_thread_stream(1, 1);
    write_many((unsigned)(uintptr_t)count);
    ips_core_end_thread_stream();
    return NULL;
}

static void body_threads(void *arg)
{
    pthread_t t[8];
    (void)arg;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 8; i++)
            pthread_create(&t[i], NULL, thread_writes,
                           many(100u * (unsigned)i + 1));
        for (int i = 0; i < 8; i++)
            pthread_join(t[i], NULL);
    }
}

/* Threads at once, and each one's segment closed and left at its end. */
static void test_agent_quota__threads_that_end(void **state)
{
    (void)state;
    run(body_threads, NULL);
    struct found f = check(IPS_LOST_QUOTA);
    assert_int_equal(shared->refused, 0);
    assert_int_equal(shared->tried, 3 * (8 + 100 * 28));
    assert_int_equal(f.segments, 25);
    assert_int_equal(f.closed, 24);
    assert_int_equal(f.abandoned, 24);
    assert_int_equal(f.open, 1);
}

/* Two of them want what is left for one. */
static void test_agent_quota__threads_that_are_refused(void **state)
{
    (void)state;
    SKIP_IF_EMULATED("MADV_POPULATE_WRITE");
    control->quota_bytes = 80u * KIB;
    run(body_threads, NULL);
    /* of a thread without a segment START and END are lost with its records */
    struct found f = {.oldest_kept = UINT32_MAX};
    unsigned files = 0;
    pool_help_read(&pool, see, see_end, &f);
    assert_int_equal(control->used_bytes, pool_help_blocks(&pool, &files));
    assert_true(control->used_bytes <= control->quota_bytes);
    assert_true(control->quota_bytes - control->used_bytes < 64u * KIB);
    assert_int_equal(f.records, shared->tried - shared->refused);
    assert_true(f.lost[IPS_LOST_QUOTA] + control->lost[IPS_LOST_QUOTA] >=
                shared->refused);
    assert_true(shared->refused > 0 && f.records > 0);
}

static void body_forks(void *arg)
{
    (void)arg;
    write_many(300);
    for (int i = 0; i < 5; i++) {
        uint64_t seq = ips_core_prepare_fork_and_get_seq();
        uint32_t parent = (uint32_t)getpid();
        pid_t pid = fork();
        if (pid == 0) {
            ips_core_reset_and_start_in_fork_child(seq, parent, parent,
                                                   ips_core_image_stamp());
            write_many(200);
            ips_core_record_process_end(IPS_END_EXIT, 0);
            _exit(0);
        }
        int status;
        if (waitpid(pid, &status, 0) != pid || status != 0)
            _exit(97);
        write_many(10);
    }
}

static void test_agent_quota__fork_children(void **state)
{
    (void)state;
    run(body_forks, NULL);
    struct found f = check(IPS_LOST_QUOTA);
    assert_int_equal(shared->tried, 300 + 5 * 210);
    assert_int_equal(shared->refused, 0);
    assert_int_equal(f.segments, 6);
}

/* --- one after the other ---------------------------------------------------
 */

/* Records until the segment of number `seq` is begun. */
static void write_until(uint32_t seq)
{
    while (ips_me.stream.seq <= seq)
        write_many(50);
}

static void body_twelve(void *arg)
{
    (void)arg;
    write_until(12);
}

/* The last eight that are full are kept mapped, to be used again. */
static void test_agent_quota__older_ones_are_left(void **state)
{
    (void)state;
    control->segment_bytes = 64u * KIB;
    run(body_twelve, NULL);
    struct found f = check(IPS_LOST_QUOTA);
    assert_int_equal(f.segments, 13);
    assert_int_equal(f.open, 1);
    assert_int_equal(f.closed, 12);
    assert_int_equal(f.newest, 12);
    assert_int_equal(f.abandoned, 12 - 8);
    assert_int_equal(f.newest_abandoned, 3);
    assert_int_equal(f.oldest_kept, 4);
}

/* The last alone where more than half of the quota is in use. */
static void test_agent_quota__more_is_left_where_room_is_short(void **state)
{
    (void)state;
    control->segment_bytes = 64u * KIB;
    control->quota_bytes = 13u * 64u * KIB;
    run(body_twelve, NULL);
    struct found f = check(IPS_LOST_QUOTA);
    assert_int_equal(shared->refused, 0);
    assert_int_equal(f.segments, 13);
    assert_int_equal(f.abandoned, 11);
    assert_int_equal(f.oldest_kept, 11);
}

/* As the slave does with one that it has read. */
static void hand_back(struct ips_segment_map *m)
{
    struct ips_segment_header *h = (struct ips_segment_header *)m->base;
    if (!m->base || h->state != IPS_SEGMENT_CLOSED)
        _exit(98);
    memset(h + 1, 0, m->used_end - m->base - sizeof(*h));
    atomic_store(&h->state, IPS_SEGMENT_DRAINED);
}

static void body_handed_back(void *arg)
{
    (void)arg;
    for (uint32_t seq = 1; seq < 20; seq++) {
        write_until(seq);
        hand_back(&ips_me.stream.prev);
    }
    shared->segments = ips_me.stream.seq;
}

/* Two go round: nothing more is taken for the second time. */
static void test_agent_quota__handed_back_ones_cost_nothing(void **state)
{
    (void)state;
    control->segment_bytes = 64u * KIB;
    control->quota_bytes = 2u * 64u * KIB;
    run(body_handed_back, NULL);
    struct found f = {.oldest_kept = UINT32_MAX};
    unsigned files = 0;
    pool_help_read(&pool, see, see_end, &f);
    assert_int_equal(control->used_bytes, pool_help_blocks(&pool, &files));
    assert_int_equal(control->used_bytes, 2u * 64u * KIB);
    assert_int_equal(files, 2);
    assert_int_equal(shared->refused, 0);
    assert_int_equal(shared->segments, 20);
    assert_int_equal(f.newest, 19);
    assert_int_equal(f.abandoned, 0);
}

/* --- round and round -------------------------------------------------------
 */

static void body_ring(void *arg)
{
    (void)arg;
    write_many(60000);
}

/* A ring has as many segments as fit a quarter of the quota, 4 at least; of 8
 * the last one is for when the other 7 are in use.
 * Would catch: one too many or too few, room that is not counted, a record that
 * is neither there nor counted as overwritten. */
static void test_agent_quota__rings(void **state)
{
    static const struct {
        uint64_t quota;
        unsigned segments;
    } cases[] = {{2048u * KIB, 7}, {1024u * KIB, 4}, {512u * KIB, 4}};
    SKIP_IF_EMULATED("MADV_POPULATE_WRITE");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (i) {
            teardown(state);
            setup(state);
        }
        control->on_full = IPS_ON_FULL_RING;
        control->segment_bytes = 64u * KIB;
        control->quota_bytes = cases[i].quota;
        run(body_ring, NULL);
        struct found f = {.oldest_kept = UINT32_MAX};
        unsigned files = 0;
        pool_help_read(&pool, see, see_end, &f);
        assert_int_equal(control->used_bytes, pool_help_blocks(&pool, &files));
        assert_true(control->used_bytes <= cases[i].quota);
        assert_int_equal(files, cases[i].segments);
        assert_int_equal(shared->refused, 0);
        uint64_t gone = 60000 - f.records;
        assert_true(f.records > 1000 && gone > 1000);
        assert_int_equal(f.lost[IPS_LOST_OVERWRITTEN], gone);
        assert_int_equal(f.said[IPS_LOST_OVERWRITTEN], gone);
    }
}

/* --- waited for ------------------------------------------------------------
 */

static void body_blocks(void *arg)
{
    (void)arg;
    write_many(2000); /* finds no slave: gives up */
    if (shared->refused == 0)
        _exit(99);
    control->released_bytes += 64u * KIB;
    pause_ms(3);
    uint64_t before = shared->refused;
    write_many(100);
    _exit(shared->refused == before ? 0 : 96);
}

/* Would catch: a writer that gave up and does not go on where there is room
 * again; the segment that it closed counted twice. */
static void test_agent_quota__waited_in_vain(void **state)
{
    (void)state;
    SKIP_IF_EMULATED("MADV_POPULATE_WRITE");
    control->on_full = IPS_ON_FULL_BLOCK;
    control->quota_bytes = 64u * KIB;
    run(body_blocks, NULL);
    struct found f = check(IPS_LOST_QUOTA);
    assert_int_equal(f.said[IPS_LOST_QUOTA], shared->refused);
    /* 52 KiB and three pages that fit besides; then 4 and 16 more */
    assert_int_equal(f.segments, 5);
    assert_int_equal(control->used_bytes, 84u * KIB);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name)                                                                \
    cmocka_unit_test_setup_teardown(test_agent_quota__##name, setup, teardown)
        T(steps_that_fit),
        T(no_room_at_all),
        T(what_counts_as_used),
        T(no_file_is_allowed),
        T(threads_that_end),
        T(threads_that_are_refused),
        T(fork_children),
        T(older_ones_are_left),
        T(more_is_left_where_room_is_short),
        T(handed_back_ones_cost_nothing),
        T(rings),
        T(waited_in_vain),
#undef T
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
