/* What a thread adds before its END: what it guessed of its CPU time, calls
 * without a record, the CPU of the other threads - once each, in figures that
 * the test has chosen. */
#include "agent/record/cpu.h"
#include "agent/record/extra.h"
#include "agent/record/fast.h"
#include "agent/record/stream.h"
#include "tests/unit/help/core_help.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct found {
    unsigned order; /* records so far */
    unsigned guessed, calls, ends;
    unsigned guessed_at, calls_at, end_at;
    struct ips_rec_guessed last_guessed;
    struct ips_rec_calls last_calls;
};

static void see(const struct pool_segment *seg, const void *rec, size_t len,
                void *arg)
{
    struct found *f = arg;
    uint32_t type = ips_rec_type(rec);
    (void)seg, (void)len;
    f->order++;
    if (type == IPS_REC_GUESSED) {
        f->guessed++;
        f->guessed_at = f->order;
        f->last_guessed = *(const struct ips_rec_guessed *)rec;
    } else if (type == IPS_REC_CALLS) {
        f->calls++;
        f->calls_at = f->order;
        f->last_calls = *(const struct ips_rec_calls *)rec;
    } else if (type == IPS_REC_END) {
        f->ends++;
        f->end_at = f->order;
    }
}

static struct found record(void (*body)(void *))
{
    struct pool_dir p;
    struct found f = {0};
    pool_help_make(&p, NULL);
    struct ips_control *c = pool_help_control(&p);
    c->probe_late_ps[IPS_PROBE_OPEN - IPS_PROBE_LATE] = 1500000;
    c->probe_late_ps[IPS_PROBE_PASS - IPS_PROBE_LATE] = 70000;
    c->probe_late_ps[IPS_PROBE_LOCK - IPS_PROBE_LATE] = 20100;
    munmap(c, sizeof(*c));
    assert_int_equal(in_child(&p, body, NULL), 0);
    pool_help_read(&p, see, NULL, &f);
    pool_help_remove(&p);
    return f;
}

/* Three readings have settled guesses of 7 us, and one was just said: nothing
 * says them of itself any more. */
static void guessing_thread(void *arg)
{
    struct ips_cpu *c = &ips_me.cpu;
    (void)arg;
    write_one(0, 0);
    c->guessed_t = ips_core_stamp_now();
    c->guess.corrected_ns = c->guessed_said + 3;
    c->guess.all_ns = 7000;
    c->guess.off_sum_ns = 900;
    c->guess.off_max_ns = 500;
    ips_core_record_process_end(IPS_END_PROVISIONAL, 0);
    ips_core_record_process_end(IPS_END_EXIT, 0);
    _exit(0);
}

/* Would catch: an END without the last guesses (a short program would be said
 * to have none), guesses said twice, or behind END where nobody reads on. */
static void test_agent_end__the_last_guesses_are_said_once(void **state)
{
    (void)state;
    struct found f = record(guessing_thread);
    assert_int_equal(f.ends, 2);
    assert_int_equal(f.guessed, 1);
    assert_int_equal(f.last_guessed.h.a, 3);
    assert_int_equal(f.last_guessed.guessed_ns, 7000);
    assert_int_equal(f.last_guessed.off_ns, 900);
    assert_int_equal(f.last_guessed.off_max_ns, 500);
    assert_true(f.guessed_at < f.end_at - 1); /* before the first END */
}

static void guessed_nothing(void *arg)
{
    (void)arg;
    write_one(0, 0);
    ips_core_record_process_end(IPS_END_EXIT, 0);
    _exit(0);
}

static void test_agent_end__without_guesses_none_is_said(void **state)
{
    (void)state;
    struct found f = record(guessed_nothing);
    assert_int_equal(f.ends, 1);
    assert_int_equal(f.guessed, 0);
}

static void set_calls(uint32_t calls, uint32_t beyond_ns)
{
    ips_me.file_calls = calls;
    ips_me.beyond_ns = beyond_ns;
    ips_me.opens = ips_me.passes = 0;
    ips_me.locks = 0;
}

/* Too few, then just enough of either; said once. */
static void calling_thread(void *arg)
{
    (void)arg;
    write_one(0, 0);
    set_calls(IPS_CALLS_LEAST - 1, IPS_BEYOND_LEAST_NS - 1);
    ips_write_calls_record_if_enough(IPS_CALLS_LEAST);
    if (ips_me.file_calls != IPS_CALLS_LEAST - 1)
        _exit(81);
    set_calls(IPS_CALLS_LEAST, 0);
    ips_write_calls_record_if_enough(IPS_CALLS_LEAST);
    if (ips_me.file_calls)
        _exit(82);
    set_calls(5, IPS_BEYOND_LEAST_NS);
    ips_write_calls_record_if_enough(IPS_CALLS_LEAST);
    if (ips_me.file_calls)
        _exit(83);
    /* 2 opens, 3 passes, 10 locks: 3000 + 210 + 201 ns. */
    set_calls(40, 1000000);
    ips_me.opens = 2;
    ips_me.passes = 3;
    ips_me.locks = 10;
    ips_write_calls_record_if_enough(IPS_CALLS_LEAST);
    if (ips_me.opens || ips_me.passes || ips_me.locks || ips_me.file_calls)
        _exit(84);
    _exit(0);
}

/* Would catch: calls without a record that are never said, or again with the
 * next; what files and locks cost left out of the dilation. */
static void test_agent_end__calls_without_a_record_are_said(void **state)
{
    (void)state;
    struct found f = record(calling_thread);
    assert_int_equal(f.calls, 3);
    assert_int_equal(f.last_calls.calls, 40);
    assert_int_equal(f.last_calls.h.a, 1000000 + 3000 + 210 + 201);
}

/* As many calls as are said only at the end. */
static void ends_with_calls(void *arg)
{
    (void)arg;
    write_one(0, 0);
    set_calls(IPS_CALLS_LEAST, 0);
    ips_core_record_process_end(IPS_END_EXIT, 0);
    _exit(0);
}

/* Would catch: an END without the calls since the last time. */
static void test_agent_end__calls_are_said_before_the_end(void **state)
{
    (void)state;
    struct found f = record(ends_with_calls);
    assert_int_equal(f.calls, 1);
    assert_int_equal(f.last_calls.calls, IPS_CALLS_LEAST);
    assert_int_equal(f.ends, 1);
    assert_true(f.calls_at < f.end_at);
}

static void *ending_thread(void *arg)
{
    unsigned char there;
    ips_core_begin_thread_stream(1, 1);
    if (!write_one(1, 0))
        _exit(81);
    struct ips_extra *extra = ips_extra_get_or_map();
    if (!extra || ips_me.extra != extra || ips_extra_get_or_map() != extra)
        _exit(82);
    ips_core_end_thread_stream();
    if (ips_me.extra || ips_extra_map())
        _exit(83);
    void *page = (void *)((uintptr_t)extra & ~(uintptr_t)4095);
    if (mincore(page, 1, &there) == 0 || errno != ENOMEM)
        _exit(84);
    return arg;
}

static void ends_threads(void *arg)
{
    (void)arg;
    for (int i = 0; i < 3; i++) {
        pthread_t t;
        pthread_create(&t, NULL, ending_thread, NULL);
        pthread_join(t, NULL);
    }
    _exit(0);
}

/* Would catch: memory of threads that have ended, more with each, and a signal
 * handler behind the end that writes where it was. */
static void test_agent_end__what_a_thread_has_mapped_goes(void **state)
{
    (void)state;
    struct found f = record(ends_threads);
    assert_int_equal(f.ends, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_agent_end__the_last_guesses_are_said_once),
        cmocka_unit_test(test_agent_end__without_guesses_none_is_said),
        cmocka_unit_test(test_agent_end__calls_without_a_record_are_said),
        cmocka_unit_test(test_agent_end__calls_are_said_before_the_end),
        cmocka_unit_test(test_agent_end__what_a_thread_has_mapped_goes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
