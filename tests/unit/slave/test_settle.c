/* What the slave does with a segment and with an archive after the commit,
 * where something went before it that did not go well. Time is ours here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka last of these */
#include <cmocka.h>

#include <dirent.h>
#include <sys/file.h>

#include "agent/pool/pool.h"
#include "common/log.h"
#include "slave/drain/drain.h"
#include "tests/support/fault.h"
#include "tests/unit/help/pool_maker.h"

static struct maker maker;
static struct slave_drain d;
static uint64_t now;

static void slave_begins(uint64_t limit)
{
    struct ips_err err = {0};
    const struct slave_drain_options opt = {
        .pool = maker.pool, .state = maker.state, .archive_max_bytes = limit};
    if (slave_drain_open(&d, &opt, &err) < 0)
        fail_msg("%s", err.msg);
}

static int setup(void **state)
{
    (void)state;
    maker_open(&maker);
    fault_clock(now = 5000 * SLAVE_SECOND_NS);
    slave_begins(0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    slave_drain_close(&d);
    fault_clock(0);
    maker_close(&maker);
    return 0;
}

static void turns(uint64_t ms)
{
    for (uint64_t end = now + ms * SLAVE_MS_NS; now < end;) {
        fault_clock(now += 20 * SLAVE_MS_NS);
        (void)slave_drain_turn(&d, now);
    }
}

static struct slave_run *run_of(const char *name)
{
    return slave_drain_find_run(&d, name);
}

/* How often each number below `most` is in the run's archive. */
static uint64_t count_marks(const char *name, uint8_t *seen, size_t most)
{
    struct slave_unpacked_archive map;
    struct ips_err err = {0};
    const struct slave_run *run = run_of(name);
    const struct slave_frame *f;
    size_t at = 0;
    uint64_t total = 0;
    memset(seen, 0, most);
    assert_non_null(run);
    if (slave_archive_unpack(run->dir, -1, run->row.archive_bytes, &map, &err) <
        0)
        fail_msg("%s", err.msg);
    while ((f = slave_archive_next_frame(&map, &at)))
        for (size_t i = 0, n; i < f->bytes; i += n) {
            const uint8_t *p = (const uint8_t *)(f + 1) + i;
            n = ips_rec_check_and_get_length(p, f->bytes - i);
            assert_true(n > 0);
            unsigned long v = strtoul(
                ((const struct ips_rec_text *)(const void *)p)->text, NULL, 10);
            assert_true(v < most);
            seen[v]++;
            total++;
        }
    slave_archive_free_unpacked(&map);
    return total;
}

static void expect_marks(const char *name, uint64_t count)
{
    uint8_t seen[1000];
    assert_int_equal(count_marks(name, seen, sizeof(seen)), count);
    for (uint64_t i = 0; i < count; i++)
        assert_int_equal(seen[i], 1);
}

static void until_closed(const char *name)
{
    for (int i = 0; i < 3000; i++) {
        turns(20);
        if (run_of(name) && run_of(name)->row.closed)
            return;
    }
    fail_msg("run %s is not closed", name);
}

/* A signal handler interrupted the writer between reserving and publishing, and
 * the segment was closed meanwhile. Would catch: the segment handed back, by
 * this slave or the next one: zeroes where the writer then publishes. */
static void test_settle__stepped_over_is_never_handed_back(void **state)
{
    (void)state;
    struct maker_segment s;
    char was[1024], is[1024];
    maker_run(&maker, "torn");
    maker_segment(&s, &maker, "torn", maker.child, 1, 0);
    maker_mark(&s, 0, 1);
    maker_mark(&s, 77, 0); /* reserved */
    maker_mark(&s, 1, 1);
    maker_state(&s, IPS_SEGMENT_CLOSED);
    turns(1500);
    assert_int_equal(run_of("torn")->row.torn, 0); /* it is waited for */
    assert_int_equal(run_of("torn")->row.events, 1);
    maker_check(pread(s.fd, was, sizeof(was), sizeof(s.head)) == sizeof(was),
                "read");
    turns(3000);
    assert_int_equal(run_of("torn")->row.torn, 1);
    assert_int_equal(run_of("torn")->row.lost[IPS_LOST_TORN], 1);
    expect_marks("torn", 2);
    for (int again = 0; again < 2; again++) {
        assert_int_equal(maker_read_state(&s), IPS_SEGMENT_CLOSED);
        assert_int_equal(access(s.path, F_OK), 0);
        maker_check(pread(s.fd, is, sizeof(is), sizeof(s.head)) == sizeof(is),
                    "read");
        assert_memory_equal(is, was, sizeof(is));
        slave_drain_close(&d);
        slave_begins(0);
        turns(4000);
    }
    maker_kill(&maker.child);
    until_closed("torn");
    expect_marks("torn", 2);
    assert_int_equal(run_of("torn")->row.torn, 1);
}

static void a_run(const char *name, uint64_t marks)
{
    struct maker_segment s;
    maker_run(&maker, name);
    maker_segment(&s, &maker, name, maker.child, 1, 0);
    for (uint64_t i = 0; i < marks; i++)
        maker_mark(&s, i, 1);
    turns(100);
    maker_kill(&maker.child);
    until_closed(name);
    close(s.fd);
    maker.child = maker_process();
}

/* Would catch: an archive that grows without end; the newest run removed where
 * it alone is above the limit, or an older one kept. */
static void test_settle__limit_below_one_run(void **state)
{
    (void)state;
    char path[300];
    a_run("old", 100);
    a_run("newer", 100);
    a_run("newest", 100);
    uint64_t all = 0;
    for (const struct slave_run *r = d.runs; r; r = r->next) {
        assert_true(r->row.archive_bytes > 100);
        all += r->row.archive_bytes;
    }
    d.archive_max_bytes = all; /* not above it */
    slave_run_remove_oldest_over_limits(&d);
    assert_non_null(run_of("old"));
    d.archive_max_bytes = all - 1; /* one run too many */
    slave_run_remove_oldest_over_limits(&d);
    assert_null(run_of("old"));
    assert_non_null(run_of("newer"));
    d.archive_max_bytes = 1; /* below the size of each */
    run_of("newer")->pins = 1;
    slave_run_remove_oldest_over_limits(&d);
    assert_non_null(run_of("newer")); /* somebody asks about it just now */
    run_of("newer")->pins = 0;
    slave_run_remove_oldest_over_limits(&d);
    assert_null(run_of("newer"));
    expect_marks("newest", 100);
    slave_drain_close(&d);
    slave_begins(1);
    turns(100);
    expect_marks("newest", 100);
    assert_null(run_of("old"));
    snprintf(path, sizeof(path), "%s/runs/newer", maker.state);
    assert_int_equal(access(path, F_OK), -1);
}

/* The packed archive was committed and could not be renamed; then the run goes
 * on. Would catch: the old archive cut to the new one's length. */
static void test_settle__joined_after_a_failed_rename(void **state)
{
    (void)state;
    struct maker_segment s;
    maker_run(&maker, "joined");
    maker_segment(&s, &maker, "joined", maker.child, 1, 0);
    for (uint64_t i = 0; i < 100; i++) { /* small blocks, to be packed again */
        maker_mark(&s, i, 1);
        if (i % 10 == 9)
            turns(60);
    }
    maker_kill(&maker.child);
    uint64_t renames = 0;
    for (int i = 0; i < 3000 && !run_of("joined")->row.closed; i++) {
        fault_arm_name("rename");
        turns(20);
        renames += fault_end();
    }
    assert_int_equal(renames, 1);
    assert_true(run_of("joined")->row.closed);
    close(s.fd);
    maker.child = maker_process();
    maker_run(&maker, "joined");
    maker_segment(&s, &maker, "joined", maker.child, 2, 0);
    for (uint64_t i = 100; i < 130; i++)
        maker_mark(&s, i, 1);
    fault_arm_name("rename"); /* and cannot be renamed now either */
    turns(100);
    assert_int_equal(fault_end(), 1);
    turns(12000);
    expect_marks("joined", 130);
    maker_kill(&maker.child);
    until_closed("joined");
    expect_marks("joined", 130);
    assert_int_equal(run_of("joined")->row.given_up, 0);
    close(s.fd);
}

/* A segment is refused in a turn that is not committed. Would catch: one that
 * the next turn does not count, for it is refused already. */
static void test_settle__refused_in_a_turn_that_failed(void **state)
{
    (void)state;
    struct maker_segment good, bad;
    maker_run(&maker, "refused");
    turns(100); /* what is written now is the archive */
    maker_segment(&good, &maker, "refused", maker.child, 1, 0);
    maker_mark(&good, 0, 1);
    maker_segment(&bad, &maker, "refused", maker.child, 2, 0);
    bad.head.version = 99;
    maker_put_header(&bad);
    fault_arm_name("pwrite");
    turns(200);
    assert_int_equal(fault_end(), 1);
    assert_true(d.failing_since_ns != 0);
    assert_int_equal(run_of("refused")->row.given_up, 0);
    turns(3000);
    assert_true(d.failing_since_ns == 0);
    assert_int_equal(run_of("refused")->row.given_up, 1);
    expect_marks("refused", 1);
    slave_drain_close(&d);
    slave_begins(0);
    turns(100);
    assert_int_equal(run_of("refused")->row.given_up, 2); /* looked at anew */
    close(good.fd);
    close(bad.fd);
}

static unsigned open_descriptors(void)
{
    unsigned n = 0;
    DIR *dir = opendir("/proc/self/fd");
    assert_non_null(dir);
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

/* Catches: a descriptor of the pool, of its events or of its watch that stays
 * open when the drain is closed. */
static void test_settle__closing_leaves_no_descriptor(void **state)
{
    (void)state;
    turns(100);
    unsigned before = open_descriptors();
    for (int again = 0; again < 3; again++) {
        slave_drain_close(&d);
        slave_begins(0);
        turns(100);
    }
    assert_int_equal(open_descriptors(), before);
}

/* So many runs are over at once. Catches: /proc read once for each of them, as
 * long as 10 us a process and run. */
static void test_settle__environments_are_read_once_for_all(void **state)
{
    (void)state;
    char run[32], pool[sizeof(maker.pool) + 16];
    static char sleep_path[] = "/bin/sleep", seconds[] = "1000";
    char *argv[] = {sleep_path, seconds, NULL}, *env[] = {run, pool, NULL};
    snprintf(run, sizeof(run), "IPS_RUN=carried");
    snprintf(pool, sizeof(pool), "IPS_POOL=%s", maker.pool);
    pid_t pid = fork();
    if (pid == 0) {
        execve(argv[0], argv, env);
        _exit(127);
    }
    /* /proc has the new environment once it is executed. */
    for (bool seen = false; !seen;) {
        turns(60);
        seen = slave_liveness_is_run_in_environments(&d, "carried");
    }
    turns(60);
    fault_watch(FAULT_CALL);
    assert_true(slave_liveness_is_run_in_environments(&d, "carried"));
    assert_int_not_equal(fault_end(), 0);
    fault_watch(FAULT_CALL);
    assert_false(slave_liveness_is_run_in_environments(&d, "another"));
    assert_true(slave_liveness_is_run_in_environments(&d, "carried"));
    assert_false(slave_liveness_is_run_in_environments(&d, "carrie"));
    assert_int_equal(fault_end(), 0);
    maker_kill(&pid);
    assert_true(slave_liveness_is_run_in_environments(
        &d, "carried")); /* as it was read */
    turns(60);
    assert_false(slave_liveness_is_run_in_environments(&d, "carried"));
}

/* Who makes a run holds the pool's lock. Catches: a run closed all the same,
 * the lock kept by the slave, or never tried again. */
static void test_settle__closed_when_the_pool_is_free(void **state)
{
    (void)state;
    struct maker_segment here, there;
    char path[sizeof(maker.pool) + 32];
    static const char *const runs[] = {"here", "there"};
    maker_run(&maker, "here");
    maker_segment(&here, &maker, "here", maker.child, 1, 0);
    maker_mark(&here, 0, 1);
    maker_run(&maker, "there");
    maker_segment(&there, &maker, "there", maker.child, 2, 0);
    maker_mark(&there, 0, 1);
    turns(100);
    maker_kill(&maker.child);
    snprintf(path, sizeof(path), "%s/" IPS_POOL_LOCK, maker.pool);
    int lock = open(path, O_RDWR | O_CREAT, 0600);
    assert_int_equal(flock(lock, LOCK_EX | LOCK_NB), 0);
    turns(3000);
    for (unsigned i = 0; i < 2; i++)
        assert_false(run_of(runs[i])->row.closed);
    assert_int_equal(flock(lock, LOCK_UN), 0);
    for (unsigned i = 0; i < 2; i++)
        until_closed(runs[i]);
    close(here.fd);
    close(there.fd);
    assert_int_equal(flock(lock, LOCK_EX | LOCK_NB), 0);
    close(lock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        T(test_settle__stepped_over_is_never_handed_back),
        T(test_settle__limit_below_one_run),
        T(test_settle__joined_after_a_failed_rename),
        T(test_settle__refused_in_a_turn_that_failed),
        T(test_settle__environments_are_read_once_for_all),
        T(test_settle__closed_when_the_pool_is_free),
        T(test_settle__closing_leaves_no_descriptor),
#undef T
    };
    setenv("IPS_LOG", "error", 0);
    ips_log_init("test");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
