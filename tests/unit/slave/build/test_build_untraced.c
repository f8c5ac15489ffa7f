/* What was seen to begin, or to go on, untraced. Each case says what it would
 * catch. */
#include <stdio.h>

#include "recorder.h"

static void unseen(rs s, uint64_t t, const char *text)
{
    size_t len = strlen(text);
    struct ips_rec_text *r =
        rec_put(s, IPS_REC_UNSEEN, sizeof(*r) + len + 1, (uint32_t)len, t);
    memcpy(r->text, text, len + 1);
}

static rs root(struct recorder *r)
{
    rs s = rec_stream(r, 10, 10, 1);
    rec_start(s, IPS_START_ROOT, 100, 0);
    return s;
}

static void assert_row(const struct ips_built *b, const char *cause,
                       const char *program, uint32_t pid, uint64_t count)
{
    for (uint32_t i = 0; i < b->untraced_count; i++) {
        const struct ips_untraced *u = &b->untraced[i];
        if (strcmp(u->cause, cause) || strcmp(u->program, program))
            continue;
        assert_int_equal(u->count, count);
        assert_int_equal(u->pid, pid);
        return;
    }
    fail_msg("no row %s %s", cause, program);
}

/* Would catch: a child named twice, or once by name and once as unknown; the
 * name given to another child; two of a kind in two rows. */
static void test_build_untraced__children(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs s = root(r);
    rec_fork(s, IPS_FORK_SPAWN, 1000, 1100, 0, 0, 20, 1);
    unseen(s, 1200, "untraced 20 static /bin/a b"); /* a blank in the name */
    rec_fork(s, IPS_FORK_VFORK, 2000, 2100, 0, 0, 21, 2);
    rec_fork(s, IPS_FORK_SPAWN, 3000, 3100, 0, 0, 22, 3);
    unseen(s, 3200, "untraced 22 static /bin/a b");
    unseen(s, 3300, "untraced 22 static /bin/a b");
    unseen(s, 3400, "untraced 99 static /bin/other");
    unseen(s, 3500, "io_uring");
    struct ips_built *b = rec_build(r);
    assert_int_equal(b->counts.untraced, 3);
    assert_int_equal(b->untraced_count, 2);
    assert_row(b, "static", "/bin/a b", 22, 2);
    assert_row(b, "unknown", "", 21, 1);
    rec_free(r);
}

/* Would catch: an exec that failed counted; a set-user-id program that spoke
 * after all (no new rights by its file system) counted; a static program that
 * went on to be traced not counted. */
static void test_build_untraced__execs(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs s = root(r);
    unseen(s, 150, "untraced 10 32-bit /bin/no");
    rec_exec(s, 200, 0, false);
    rec_exec(s, 210, 0, true);
    rec_fork(s, IPS_FORK_SPAWN, 1000, 1100, 0, 0, 20, 1);
    rec_fork(s, IPS_FORK_SPAWN, 2000, 2100, 0, 0, 21, 2);
    rec_fork(s, IPS_FORK_SPAWN, 3000, 3100, 0, 0, 22, 3);
    rec_join(s, IPS_JOIN_WAIT, 3200, 9000, 0, 20, 0);
    rec_join(s, IPS_JOIN_WAIT, 3200, 9000, 0, 21, 0);
    rec_join(s, IPS_JOIN_WAIT, 3200, 9000, 0, 22, 0);
    rec_end(s, IPS_END_EXIT, 9500, 0, 0);
    const char *names[] = {"static", "set-user-id", "32-bit"};
    for (uint32_t i = 0; i < 3; i++) {
        char text[64];
        snprintf(text, sizeof(text), "untraced %u %s /bin/p%u", 20 + i,
                 names[i], i);
        rs c = rec_stream(r, 20 + i, 20 + i, 50);
        rec_start(c, IPS_START_IMAGE, 4000, 10);
        unseen(c, 4100, text);
        rec_exec(c, 4200, 0, false);
        if (i == 2)
            break;
        rs d = rec_stream(r, 20 + i, 20 + i, 60);
        rec_start(d, IPS_START_IMAGE, 5000, 10);
        rec_end(d, IPS_END_EXIT, 6000, 0, 0);
    }
    struct ips_built *b = rec_build(r);
    assert_int_equal(b->counts.untraced, 2);
    assert_row(b, "static", "/bin/p0", 20, 1);
    assert_row(b, "32-bit", "/bin/p2", 22, 1);
    rec_free(r);
}

/* Would catch: rows without bound; records of others that break it. */
static void test_build_untraced__many_and_broken(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs s = root(r);
    char text[600];
    for (uint32_t i = 0; i < 200; i++) {
        rec_fork(s, IPS_FORK_SPAWN, 1000 + i, 1000 + i, 0, 0, 100 + i, i);
        snprintf(text, sizeof(text), "untraced %u static /bin/p%u", 100 + i, i);
        unseen(s, 1000 + i, text);
    }
    unseen(s, 3000, "untraced ");
    unseen(s, 3000, "untraced 18446744073709551615 a");
    memset(text, 'x', 500);
    memcpy(text, "untraced 10 ", 12);
    text[500] = '\0';
    unseen(s, 3000, text);
    rec_exec(s, 3100, 0, false);
    rec_fork(s, IPS_FORK_SPAWN, 4000, 4000, 0, 0, 5000, 777);
    struct ips_built *b = rec_build(r);
    assert_int_equal(b->untraced_count, 64);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < b->untraced_count; i++)
        sum += b->untraced[i].count;
    assert_int_equal(sum, 201);
    assert_int_equal(b->counts.untraced, 201);
    assert_string_equal(b->untraced[63].cause, "various");
    rec_free(r);
}

/* Would catch: the run's time taken from a main thread that ended, or slept,
 * long before another thread called exit (Java). */
static void test_build_untraced__time_of_a_run_that_a_thread_ends(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs s = root(r), t = rec_stream(r, 10, 11, 1);
    rec_fork(s, IPS_FORK_THREAD, 200, 200, 20, 20, 0, 1);
    rec_start(t, IPS_START_THREAD, 300, 0)->fork_seq = 1;
    rec_end(t, IPS_END_EXIT, 9100, 600, 0);
    struct ips_built *b = rec_build(r);
    assert_int_equal(b->goal_elapsed_ns, 9000);
    rec_free(r);
}

/* The threads of which only a join is left, in a process that has ended or is
 * `open`, where one record was lost for `cause`. */
static uint64_t missing_threads(bool open, enum ips_lost_cause cause)
{
    struct recorder *r = rec_new();
    rs s = root(r), t = rec_stream(r, 10, 11, 1);
    for (uint32_t i = 1; i <= 3; i++)
        rec_fork(s, IPS_FORK_THREAD, 200, 200, 20, 20, 0, i);
    rec_start(t, IPS_START_THREAD, 300, 0)->fork_seq = 1;
    rec_end(t, IPS_END_THREAD, 900, 600, 0);
    rec_join(s, IPS_JOIN_THREAD, 400, 1000, 30, 0, 1);
    rec_join(s, IPS_JOIN_THREAD, 1100, 1200, 40, 0, 2);
    if (!open)
        rec_end(s, IPS_END_EXIT, 2000, 60, 0);
    r->control.lost[cause] = 1;
    struct ips_built *b = rec_build(r);
    assert_int_equal(b->counts.untraced, 0);
    assert_int_equal(b->procs[0].recorded_end, !open);
    uint64_t missing = b->counts.missing_threads;
    rec_free(r);
    return missing;
}

/* Would catch: a thread all of whose segments were removed, so that a join is
 * all that is left of it; a thread that was cut off by the end of the process,
 * or that may still be found, or whose records are among the lost ones, counted
 * as such. */
static void test_build_untraced__joined_thread_without_records(void **state)
{
    (void)state;
    assert_int_equal(missing_threads(false, IPS_LOST_NESTED), 1);
    assert_int_equal(missing_threads(true, IPS_LOST_NESTED), 0);
    assert_int_equal(missing_threads(false, IPS_LOST_QUOTA), 0);
    assert_int_equal(missing_threads(false, IPS_LOST_POOL_FULL), 0);
    assert_int_equal(missing_threads(false, IPS_LOST_NO_SEGMENT), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_build_untraced__children),
        cmocka_unit_test(test_build_untraced__execs),
        cmocka_unit_test(test_build_untraced__many_and_broken),
        cmocka_unit_test(test_build_untraced__time_of_a_run_that_a_thread_ends),
        cmocka_unit_test(test_build_untraced__joined_thread_without_records),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
