/*
 * A flight recorder's segments (agent/record/ring.c), read after their writer
 * has ended. Would catch: records read from a segment that the digest holds
 * already, a stream that begins behind its digest, losses that are counted
 * twice or not at all, a ring that is read while its writer still goes round.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka last of these */
#include <cmocka.h>

#include "agent/pool/pool.h"
#include "slave/drain/drain.h"
#include "tests/unit/help/pool_maker.h"

#define SEGMENTS 6u

static struct maker maker;
static struct slave_drain drain;
static struct maker_segment seg[SEGMENTS];
static uint64_t image_stamp;

static int setup(void **state)
{
    struct ips_err err = {0};
    char path[400];
    const uint32_t ring = IPS_ON_FULL_RING;
    (void)state;
    maker_open(&maker);
    image_stamp = 0;
    const struct slave_drain_options opt = {.pool = maker.pool,
                                            .state = maker.state};
    if (slave_drain_open(&drain, &opt, &err) < 0)
        fail_msg("%s", err.msg);
    maker_run(&maker, "run");
    snprintf(path, sizeof(path), "%s/run/control", maker.pool);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    maker_check(fd >= 0 && pwrite(fd, &ring, sizeof(ring),
                                  offsetof(struct ips_control, on_full)) ==
                               sizeof(ring),
                path);
    close(fd);
    for (unsigned i = 0; i < SEGMENTS; i++)
        seg[i].fd = -1;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    slave_drain_close(&drain);
    for (unsigned i = 0; i < SEGMENTS; i++)
        if (seg[i].fd >= 0)
            close(seg[i].fd);
    maker_close(&maker);
    return 0;
}

/* Segment i of the stream: its number in the stream, its state, the marks
 * `first` to `last` (none where last < first) and how many records it lost. */
static void put(unsigned i, uint32_t seq, uint32_t state, uint32_t flags,
                uint64_t first, uint64_t last, uint64_t lost)
{
    struct maker_segment *s = &seg[i];
    maker_segment(s, &maker, "run", maker.child, (uint32_t)maker.child,
                  100 * i + seq);
    s->head.seq = seq;
    if (!image_stamp)
        image_stamp = s->head.image_stamp;
    s->head.image_stamp = image_stamp;
    s->head.state = state;
    s->head.flags = flags;
    s->head.lost[IPS_LOST_OVERWRITTEN] = lost;
    for (uint64_t n = first; n <= last; n++)
        maker_mark(s, n, 1);
    maker_put_header(s);
}

/* Turns until `condition`, or for a minute; then it must hold. */
#define TURNS_UNTIL(condition)                                                 \
    do {                                                                       \
        for (uint64_t end_ = slave_now_ns() + 60 * SLAVE_SECOND_NS;            \
             !(condition) && slave_now_ns() < end_; usleep(2000))              \
            (void)slave_drain_turn(&drain, slave_now_ns());                    \
        assert_true(condition);                                                \
    } while (0)

static struct slave_run *run(void)
{
    return slave_drain_find_run(&drain, "run");
}

/* As the writer leaves it if it dies while it condenses: the digest of all up
 * to 4 is complete, what it replaces is not cleared, and one is empty. */
static void put_ring(void)
{
    const uint32_t digest = IPS_SEGMENT_DIGEST;
    put(0, 4, IPS_SEGMENT_CLOSED, digest, 1, 2, 5);
    put(1, 4, IPS_SEGMENT_CLOSED, 0, 90, 93, 1);
    put(2, 2, IPS_SEGMENT_CLOSED, digest, 80, 81, 3);
    put(3, 5, IPS_SEGMENT_CLOSED, 0, 3, 4, 0);
    put(4, 6, IPS_SEGMENT_OPEN, 0, 5, 6, 0);
    put(5, 7, IPS_SEGMENT_DRAINED, 0, 1, 0, 2);
}

static void check_archived(uint64_t marks)
{
    struct slave_unpacked_archive map;
    struct ips_err err = {0};
    const struct slave_frame *f;
    size_t at = 0;
    uint64_t next = 1;
    struct slave_run *r = run();
    if (slave_archive_unpack(r->dir, -1, r->row.archive_bytes, &map, &err) < 0)
        fail_msg("%s", err.msg);
    while ((f = slave_archive_next_frame(&map, &at))) {
        const uint8_t *p = (const uint8_t *)(f + 1);
        for (size_t i = 0, len; i < f->bytes; i += len) {
            const struct ips_rec_text *rec =
                (const struct ips_rec_text *)(const void *)(p + i);
            len = ips_rec_check_and_get_length(p + i, f->bytes - i);
            assert_true(len > 0);
            assert_int_equal(strtoull(rec->text, NULL, 10), next++);
        }
    }
    slave_archive_free_unpacked(&map);
    assert_int_equal(next - 1, marks);
    assert_int_equal(r->row.events, marks);
    assert_int_equal(r->row.lost[IPS_LOST_OVERWRITTEN], 5);
    assert_int_equal(r->row.given_up, 0);
}

static void test_ingest_ring__writer_died(void **state)
{
    (void)state;
    put_ring();
    TURNS_UNTIL(run() && run()->stream_count == 1);
    for (int i = 0; i < 20; i++) {
        drain.scan_now = true;
        (void)slave_drain_turn(&drain, slave_now_ns());
    }
    assert_int_equal(run()->row.events, 0);
    maker_kill(&maker.child);
    TURNS_UNTIL(run()->row.closed);
    check_archived(6);
}

/* The thread ended, and its process goes on. It gives up its digest last. */
static void test_ingest_ring__thread_ended(void **state)
{
    (void)state;
    put_ring();
    maker_state(&seg[4], IPS_SEGMENT_CLOSED);
    for (unsigned i = SEGMENTS - 1; i > 0; i--)
        maker_abandon(&seg[i]);
    TURNS_UNTIL(run() && run()->stream_count == 1);
    for (int i = 0; i < 20; i++) {
        drain.scan_now = true;
        (void)slave_drain_turn(&drain, slave_now_ns());
    }
    assert_int_equal(run()->row.events, 0);
    maker_abandon(&seg[0]);
    TURNS_UNTIL(run()->row.events == 6);
    check_archived(6);
}

/* A ring that was never full: no digest. */
static void test_ingest_ring__not_full(void **state)
{
    (void)state;
    put(0, 1, IPS_SEGMENT_CLOSED, 0, 4, 6, 0);
    put(1, 0, IPS_SEGMENT_CLOSED, 0, 1, 3, 5);
    put(2, 2, IPS_SEGMENT_OPEN, 0, 7, 8, 0);
    TURNS_UNTIL(run() && run()->stream_count == 1);
    maker_kill(&maker.child);
    TURNS_UNTIL(run()->row.closed);
    check_archived(8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name)                                                                \
    cmocka_unit_test_setup_teardown(test_ingest_ring__##name, setup, teardown)
        T(writer_died),
        T(thread_ended),
        T(not_full),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
