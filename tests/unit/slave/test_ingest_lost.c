/*
 * What happens to segments from outside while a run is open is told: each of
 * these runs would otherwise count as complete. And runs that cannot be
 * archived are.
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

static struct maker maker;
static struct slave_drain drain;
static struct maker_segment seg;

static int setup(void **state)
{
    struct ips_err err = {0};
    (void)state;
    maker_open(&maker);
    const struct slave_drain_options opt = {.pool = maker.pool,
                                            .state = maker.state};
    if (slave_drain_open(&drain, &opt, &err) < 0)
        fail_msg("%s", err.msg);
    maker_run(&maker, "run");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    slave_drain_close(&drain);
    close(seg.fd);
    maker_close(&maker);
    return 0;
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

static void expect_closed(uint64_t given_up)
{
    maker_kill(&maker.child);
    TURNS_UNTIL(run()->row.closed);
    assert_int_equal(run()->row.given_up, given_up);
}

static void zero(off_t at, size_t bytes)
{
    static const char none[MAKER_SEGMENT_BYTES];
    maker_check(pwrite(seg.fd, none, bytes, at) == (ssize_t)bytes, "zero");
}

/* Would catch: a segment with records but without its header, which is taken
 * for one whose writer died before it wrote anything. */
static void test_ingest_lost__header_zeroed_before_it_was_seen(void **state)
{
    (void)state;
    struct maker_segment other;
    maker_segment(&other, &maker, "run", maker.child, 1, 0);
    maker_mark(&other, 0, 1);
    maker_segment(&seg, &maker, "run", maker.child, 2, 0);
    for (int i = 0; i < 300; i++)
        maker_mark(&seg, 1, 1);
    zero(0, 4096); /* and the first records */
    TURNS_UNTIL(run() && run()->row.given_up);
    expect_closed(1);
    close(other.fd);
}

/* Would catch: a writer that was killed before it wrote its header, or a spare
 * that was taken and not used, counted as damage. */
static void test_ingest_lost__never_begun_is_no_loss(void **state)
{
    (void)state;
    struct maker_segment other, spare;
    struct ips_control c = {.magic = IPS_CONTROL_MAGIC};
    maker_segment(&other, &maker, "run", maker.child, 1, 0);
    maker_mark(&other, 0, 1);
    maker_segment(&seg, &maker, "run", maker.child, 2, 0);
    zero(0, sizeof(seg.head));
    maker_segment(&spare, &maker, "run", maker.child, 3, 0);
    spare.head = (struct ips_segment_header){.taken = 1};
    maker_put_header(&spare);
    maker_raw(&spare, &c, sizeof(c));
    TURNS_UNTIL(run() && run()->row.events == 1);
    expect_closed(0);
    close(other.fd);
    close(spare.fd);
}

/* Would catch: a file without a header that another user put into root's run
 * directory, and that makes the run INCOMPLETE. */
static void test_ingest_lost__planted_by_another_user(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    struct maker_segment other;
    maker_segment(&other, &maker, "run", maker.child, 1, 0);
    maker_mark(&other, 0, 1);
    maker_segment(&seg, &maker, "run", maker.child, 2, 0);
    maker_mark(&seg, 1, 1);
    zero(0, sizeof(seg.head));
    maker_check(fchown(seg.fd, 1000, 0) == 0, "fchown");
    TURNS_UNTIL(run() && run()->row.events == 1);
    expect_closed(0);
    assert_int_equal(run()->row.events, 1);
    close(other.fd);
}

/* Would catch: a spare that is just being taken (the copy of `control` is
 * cleared in part) refused for ever, with all that its writer records. The
 * clock is the test's: the header comes 4 s after the file was seen first. */
static void test_ingest_lost__spare_that_is_being_taken(void **state)
{
    (void)state;
    const struct ips_control half = {.version = IPS_POOL_VERSION};
    uint64_t now_ns = slave_now_ns();
    maker_segment(&seg, &maker, "run", maker.child, 1, 0);
    const struct ips_segment_header made = seg.head;
    seg.head = (struct ips_segment_header){.taken = 1};
    maker_put_header(&seg);
    maker_raw(&seg, &half, sizeof(half));
    TURNS_UNTIL(run() && run()->segments && run()->segments->since_ns);
    for (uint64_t end_ns = now_ns + 4 * SLAVE_SECOND_NS; now_ns < end_ns;
         now_ns += SLAVE_SECOND_NS / 4)
        (void)slave_drain_turn(&drain, now_ns);
    assert_int_equal(run()->segments->state, SLAVE_SEG_NEW);
    zero(sizeof(seg.head), sizeof(half));
    seg.at = sizeof(seg.head);
    maker_mark(&seg, 0, 1);
    seg.head = made;
    maker_put_header(&seg);
    TURNS_UNTIL(run()->row.events == 1);
    expect_closed(0);
}

/* Would catch: a header that names another thread, so that its records make a
 * thread that never was, and nobody misses those of its own. */
static void test_ingest_lost__header_of_another_thread(void **state)
{
    (void)state;
    struct maker_segment other;
    maker_segment(&other, &maker, "run", maker.child, 1, 0);
    maker_segment(&seg, &maker, "run", maker.child, 2, 0);
    maker_mark(&seg, 0, 1);
    seg.head.tid = 7;
    maker_put_header(&seg);
    TURNS_UNTIL(run() && run()->row.given_up);
    expect_closed(1);
    assert_int_equal(run()->row.threads, 1);
    close(other.fd);
}

static void hand_back(void)
{
    maker_segment(&seg, &maker, "run", maker.child, 1, 0);
    maker_mark(&seg, 0, 1);
    maker_state(&seg, IPS_SEGMENT_CLOSED);
    TURNS_UNTIL(maker_read_state(&seg) == IPS_SEGMENT_DRAINED);
    TURNS_UNTIL(run()->segments->state == SLAVE_SEG_DRAINED);
}

/* Would catch: a segment that was handed back is removed, its writer goes on in
 * it unseen, and the run counts as complete. */
static void test_ingest_lost__removed_after_it_was_handed_back(void **state)
{
    (void)state;
    hand_back();
    maker_check(unlink(seg.path) == 0, "unlink");
    run()->scan_now = true;
    TURNS_UNTIL(run()->row.given_up);
    expect_closed(1);
}

/* Would catch: a run that is never closed, or is called complete, because
 * nobody can see any more whether a segment was used again. */
static void test_ingest_lost__header_zeroed_after_it_was_handed_back(void **s)
{
    (void)s;
    hand_back();
    zero(0, sizeof(seg.head));
    TURNS_UNTIL(run()->row.given_up);
    expect_closed(1);
}

/* Would catch: no inodes left on the slave's disk, or no right to write there,
 * and only the log says so. */
static void test_ingest_lost__archive_cannot_be_made(void **state)
{
    (void)state;
    char path[300];
    snprintf(path, sizeof(path), "%s/runs/run", maker.state);
    int fd =
        open(path, O_WRONLY | O_CREAT, 0600); /* no directory of the name */
    maker_check(fd >= 0, path);
    maker_segment(&seg, &maker, "run", maker.child, 1, 0);
    maker_mark(&seg, 0, 1);
    drain.scan_now = true;
    uint64_t version = drain.version;
    TURNS_UNTIL(*drain.failing);
    assert_true(drain.version > version);
    assert_non_null(strstr(drain.failing, "run run: "));
    maker_check(unlink(path) == 0, path);
    drain.scan_now = true;
    TURNS_UNTIL(!*drain.failing);
    TURNS_UNTIL(run() && run()->row.events == 1);
    expect_closed(0);
    close(fd);
}

/* The writer says that it has lost so many records. */
static void lose(uint64_t count)
{
    maker_check(pwrite(seg.fd, &count, sizeof(count),
                       offsetof(struct ips_segment_header, lost) +
                           IPS_LOST_QUOTA * sizeof(count)) == sizeof(count),
                "lost");
}

static uint64_t lost(enum ips_lost_cause cause)
{
    return run()->row.lost[cause];
}

/* A segment is looked at many times. Would catch: its losses counted at each
 * look, only at the first one, or of the run alone. */
static void test_ingest_lost__records_are_counted_once(void **state)
{
    (void)state;
    maker_segment(&seg, &maker, "run", maker.child, 1, 0);
    maker_mark(&seg, 0, 1);
    TURNS_UNTIL(run() && run()->row.events == 1);
    assert_int_equal(lost(IPS_LOST_QUOTA), 0);
    lose(3);
    for (unsigned i = 1; i <= 5; i++) {
        maker_mark(&seg, i, 1);
        TURNS_UNTIL(run()->row.events == i + 1 && lost(IPS_LOST_QUOTA));
        assert_int_equal(lost(IPS_LOST_QUOTA), 3);
    }
    lose(5);
    maker_mark(&seg, 6, 1);
    TURNS_UNTIL(run()->row.events == 7 && lost(IPS_LOST_QUOTA) != 3);
    assert_int_equal(lost(IPS_LOST_QUOTA), 5);
    assert_int_equal(run()->streams->row.lost[IPS_LOST_QUOTA], 5);
    expect_closed(0);
    assert_int_equal(lost(IPS_LOST_QUOTA), 5);
}

/* What was lost where there was no segment to say so in. Would catch: a run
 * that counts as complete, and losses that are counted at each look. */
static void test_ingest_lost__counted_in_control(void **state)
{
    char path[400];
    const uint64_t counts[] = {4, 6};
    (void)state;
    snprintf(path, sizeof(path), "%s/run/control", maker.pool);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    maker_segment(&seg, &maker, "run", maker.child, 1, 0);
    maker_mark(&seg, 0, 1);
    TURNS_UNTIL(run() && run()->row.events == 1);
    for (unsigned i = 0; i < 2; i++) {
        maker_check(pwrite(fd, &counts[i], sizeof(counts[i]),
                           offsetof(struct ips_control, lost) +
                               IPS_LOST_NO_SEGMENT * sizeof(counts[i])) ==
                        sizeof(counts[i]),
                    path);
        slave_run_update_row_from_control(run());
        assert_int_equal(lost(IPS_LOST_NO_SEGMENT), counts[i]);
        slave_run_update_row_from_control(run());
        assert_int_equal(lost(IPS_LOST_NO_SEGMENT), counts[i]);
    }
    close(fd);
    expect_closed(0);
    assert_int_equal(lost(IPS_LOST_NO_SEGMENT), 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        T(test_ingest_lost__header_zeroed_before_it_was_seen),
        T(test_ingest_lost__never_begun_is_no_loss),
        T(test_ingest_lost__planted_by_another_user),
        T(test_ingest_lost__spare_that_is_being_taken),
        T(test_ingest_lost__header_of_another_thread),
        T(test_ingest_lost__removed_after_it_was_handed_back),
        T(test_ingest_lost__header_zeroed_after_it_was_handed_back),
        T(test_ingest_lost__archive_cannot_be_made),
        T(test_ingest_lost__records_are_counted_once),
        T(test_ingest_lost__counted_in_control),
#undef T
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
