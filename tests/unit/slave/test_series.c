/*
 * Series over time (slave/graphs/series.h) and what windows of it hold
 * (slave/profile/code_window.h), from records written by hand.
 * EVIDENCE-OF: IPS-16
 */
#include "tests/unit/help/procs_help.h"

#include "analysis/explain/phases.h"
#include "common/large.h"
#include "slave/graphs/series.h"
#include "slave/profile/code_window.h"

#define T0 1000u

static struct slave_series s;

static void make(struct recorder *r, const uint64_t *edges, uint32_t bins,
                 const uint32_t *row, uint32_t rows)
{
    struct ips_stream_in in[REC_STREAMS];
    struct ips_err err = {0};
    memset(in, 0, sizeof(in));
    for (uint32_t i = 0; i < r->count; i++) {
        memcpy(&in[i].head, &r->s[i].head, sizeof(in[i].head));
        r->s[i].chunk = (struct ips_chunk){r->s[i].data, r->s[i].len};
        in[i].chunks = &r->s[i].chunk;
        in[i].chunk_count = 1;
    }
    const struct ips_build_input input = {
        .control = &r->control, .streams = in, .stream_count = r->count};
    const struct slave_series_ask ask = {edges, bins, row, rows};
    slave_series_release(&s);
    if (slave_series_make(&input, &r->built, &ask, &s, &err) < 0)
        fail_msg("%s", err.msg);
}

static uint64_t sum(const uint64_t *v)
{
    uint64_t total = 0;
    for (uint32_t i = 0; i < s.rows * s.bins; i++)
        total += v[i];
    return total;
}

/* Would catch CPU that is not between the readings it was spent between, and
 * messages and waits in the wrong bin. */
static void test_series__a_thread(void **state)
{
    (void)state;
    struct recorder *r = rec_one_thread(T0);
    const uint64_t edges[] = {T0,        T0 + 50,    T0 + 100,  T0 + 120,
                              T0 + 5120, T0 + 10120, T0 + 10201};
    make(r, edges, 6, NULL, 1);
    const uint64_t cpu[] = {50, 50, 20, 5, 5, 20};
    const uint64_t messages[] = {0, 0, 1, 0, 0, 0};
    const uint64_t waits[] = {0, 0, 0, 4995, 4995, 0};
    assert_memory_equal(s.cpu_ns, cpu, sizeof(cpu));
    assert_memory_equal(s.messages, messages, sizeof(messages));
    assert_memory_equal(s.wait_ns, waits, sizeof(waits));
    assert_int_equal(s.bytes[2], 64);
    assert_int_equal(sum(s.cpu_ns), r->built.threads[0].cpu_ns);
    assert_int_equal(slave_last_event_ns(&r->built), T0 + 10200);
    rec_free(r);
}

/* Would catch parts that do not add up: whatever the bins are, neighbours that
 * are joined have the sum of both, and all together the thread's CPU. */
static void test_series__any_bins_add_up(void **state)
{
    (void)state;
    struct recorder *r = rec_one_thread(T0);
    uint64_t edges[200];
    for (uint32_t width = 53; width < 11000; width = width * 5 / 3) {
        uint32_t n = 10201 / width + 1;
        if (n > 199)
            continue;
        for (uint32_t i = 0; i <= n; i++)
            edges[i] = T0 + (uint64_t)i * width;
        make(r, edges, n, NULL, 1);
        assert_int_equal(sum(s.cpu_ns), 150);
        assert_int_equal(sum(s.messages), 1);
        assert_int_equal(sum(s.wait_ns), 9990);
    }
    /* Beyond the window is not in it. */
    const uint64_t part[] = {T0 + 25, T0 + 75};
    make(r, part, 1, NULL, 1);
    assert_int_equal(sum(s.cpu_ns), 50);
    assert_int_equal(sum(s.messages), 0);
    const uint64_t later[] = {T0 + 20000, T0 + 30000};
    make(r, later, 1, NULL, 1);
    assert_int_equal(sum(s.cpu_ns) + sum(s.wait_ns) + sum(s.messages), 0);
    rec_free(r);
}

/* Would catch CPU that is lost where no record tells of it: the kernel's own
 * figure for a child, known when it was waited for. */
static void test_series__what_is_settled_at_the_end(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs a = rec_stream(r, 10, 10, 100);
    rec_start(a, IPS_START_ROOT, T0, 0);
    rec_fork(a, IPS_FORK_FORK, T0 + 100, T0 + 100, 100, 100, 11, 1);
    rs b = rec_stream(r, 11, 11, 200);
    struct ips_rec_start *st = rec_start(b, IPS_START_FORK, T0 + 100, 0);
    st->ppid = 10;
    st->parent_image = 100;
    st->fork_seq = 1;
    rec_end(b, IPS_END_EXIT, T0 + 50100, 40000, 0);
    rec_join(a, IPS_JOIN_WAIT, T0 + 100, T0 + 60100, 100, 11, 1)->child_cpu_ns =
        45000;
    rec_end(a, IPS_END_EXIT, T0 + 60200, 200, 0);
    rec_build(r);
    const uint64_t edges[] = {T0, T0 + 100000};
    const uint32_t row[] = {0, 1};
    make(r, edges, 1, row, 2);
    assert_int_equal(s.cpu_ns[0], 200);
    assert_int_equal(s.cpu_ns[1], r->built.threads[1].cpu_ns);
    assert_true(s.cpu_ns[1] >= 40000);
    const uint32_t one[] = {IPS_NONE, 0};
    make(r, edges, 1, one, 1);
    assert_int_equal(s.cpu_ns[0], r->built.threads[1].cpu_ns);
    rec_free(r);
}

/* Would catch phases that are not where the records say: 100 bins of computing,
 * 80 of messages, 120 of sleep, to the bin. */
static void test_series__phases_of_records(void **state)
{
    (void)state;
    enum { BIN = 1000 };
    struct recorder *r = rec_new();
    rs a = rec_stream(r, 10, 10, 100);
    uint64_t t = T0 + 100 * BIN, cpu = 100 * BIN;
    rec_start(a, IPS_START_ROOT, T0, 0);
    rec_pipe(a, 1, T0, IPS_SIDE_WRITE, 5);
    for (; t < T0 + 180 * BIN; t += 100, cpu += 50)
        rec_io(a, IPS_REC_SEND, 1, t, t + 50, cpu, cpu + 50, 8);
    rec_io(a, IPS_REC_BLOCK, 0, t, T0 + 300 * BIN, cpu, cpu, 0)->op =
        IPS_OP_SLEEP;
    rec_end(a, IPS_END_EXIT, T0 + 300 * BIN, cpu, 0);
    rec_build(r);
    uint64_t edges[301];
    for (uint32_t i = 0; i <= 300; i++)
        edges[i] = T0 + i * (uint64_t)BIN;
    make(r, edges, 300, NULL, 1);
    const struct ips_phase_series series[] = {{s.cpu_ns, 0}, {s.messages, 0}};
    static struct ips_phases p;
    struct ips_err err = {0};
    assert_int_equal(ips_phases_find_in_series(series, 2, 300, &p, &err), 0);
    assert_int_equal(p.count, 3);
    assert_int_equal(p.end[0], 100);
    assert_int_equal(p.end[1], 180);
    rec_free(r);
}

/* Would catch samples in the wrong window, in two, or in none, and a greatest
 * one that is not. */
static void test_series__procedures_of_windows(void **state)
{
    (void)state;
    rs a;
    struct costs k;
    struct slave_proc_names names;
    struct slave_top_procedure *top;
    uint32_t count;
    struct ips_err err = {0};
    struct recorder *r = one(&a);
    sample(a, 11 * MS, 10 * MS, 1, (uint64_t)0x11000);
    sample(a, 21 * MS, 20 * MS, 1, (uint64_t)0x12000);
    sample(a, 31 * MS, 30 * MS, 1, (uint64_t)0x12000);
    rec_end(a, IPS_END_EXIT, 41 * MS, 40 * MS, 0);
    costs_make(&k, r);
    const uint64_t edges[] = {0, 11 * MS, 31 * MS, 50 * MS};
    assert_int_equal(slave_proc_names_number_procedures(
                         &k.c, SLAVE_BY_PROCEDURE, &names, &err),
                     0);
    assert_int_equal(
        slave_window_find_top_procedures_of_bins(&k.c, &r->built, &names, edges,
                                                 3, 1, &top, &count, &err),
        0);
    /* The first window has no sample, and what it has is cut to one. */
    assert_int_equal(count, 2);
    assert_int_equal(top[0].bin, 1);
    assert_int_equal(top[0].ns, 10 * MS);
    assert_int_equal(top[1].bin, 2);
    assert_memory_equal(names.symbols[top[1].symbol].name, "a+0x2000", 8);
    ips_free_large(top);
    slave_proc_names_release(&names);
    uint64_t samples = 0;
    for (uint32_t i = 0; i < 3; i++) {
        struct slave_profile_cache part;
        struct slave_proc_table t;
        assert_int_equal(
            slave_make_profile_of_time_window(&k.c, &r->built, edges[i],
                                              edges[i + 1], &part, &err),
            0);
        assert_int_equal(slave_proc_table_make(&part, &r->built, "m", "",
                                               SLAVE_BY_PROCEDURE, &t, &err),
                         0);
        samples += t.totals.samples;
        assert_int_equal(t.totals.asked_ns, t.totals.samples * 10 * MS);
        slave_proc_table_release(&t);
        slave_arc_profile_free(&part);
    }
    assert_int_equal(samples, 3);
    costs_free(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_series__a_thread),
        cmocka_unit_test(test_series__any_bins_add_up),
        cmocka_unit_test(test_series__what_is_settled_at_the_end),
        cmocka_unit_test(test_series__phases_of_records),
        cmocka_unit_test(test_series__procedures_of_windows),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    slave_series_release(&s);
    return failed;
}
