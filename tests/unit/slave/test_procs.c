/*
 * Which code the CPU went to (slave/symbols/procs.h, codemap.h, proc_table.h),
 * on records written by hand: every figure below is computed on paper.
 */
#include "tests/unit/help/procs_help.h"

#include <math.h>

/* Catches: weights that depend on where in its period a sample was, weights
 * that are not all of the CPU, totals that count a recursion twice, return
 * addresses looked up at the instruction after the call. */
static void test_procs__weights_add_up_to_the_cpu(void **state)
{
    (void)state;
    rs s;
    struct costs k;
    struct recorder *r = one(&s);
    const uint64_t f = 0x10100, g = 0x10200, main_ret = 0x10301;
    sample(s, 2000, 10 * MS, 2, f, main_ret);
    sample(s, 3000, 22 * MS, 3, g, (uint64_t)0x10101, main_ret);
    sample(s, 4000, 31 * MS, 3, f, (uint64_t)0x10101, main_ret); /* f in f */
    rec_end(s, IPS_END_EXIT, 5000, 36 * MS, 0);
    costs_make(&k, r);
    assert_int_equal(row(&k, "a+0x100")->self_ns, 24 * MS);
    assert_int_equal(row(&k, "a+0x100")->samples, 2);
    assert_int_equal(row(&k, "a+0x100")->total_ns, 36 * MS);
    assert_int_equal(row(&k, "a+0x200")->self_ns, 12 * MS);
    assert_int_equal(row(&k, "a+0x200")->total_ns, 12 * MS);
    assert_int_equal(row(&k, "a+0x300")->self_ns, 0);
    assert_int_equal(row(&k, "a+0x300")->total_ns, 36 * MS);
    assert_int_equal(row(&k, "a+0x300")->calls, IPS_CPU_UNKNOWN);
    assert_int_equal(k.t.totals.samples, 3);
    assert_int_equal(k.t.totals.sampled_ns, 36 * MS);
    assert_int_equal(k.t.totals.unsampled_ns, 0);
    assert_int_equal(k.t.totals.cpu_ns, 36 * MS);
    assert_int_equal(k.t.totals.asked_ns, 30 * MS);
    assert_true(fabs(k.t.totals.squares / (3 * 144.0 * MS * MS) - 1) < 1e-9);
    costs_free(&k);
}

/* Catches: CPU of a thread that should have had samples given to the others;
 * that of a thread too short for one called unsampled; a late sample that
 * counts as much as the others for the interval. */
static void test_procs__samples_that_are_missing(void **state)
{
    (void)state;
    rs s, t[2];
    struct costs k;
    struct recorder *r = one(&s);
    struct ips_rec_sample *late = sample(s, 2000, 5 * MS, 1, (uint64_t)0x10100);
    late->h.word |= IPS_REC_F_LATE << 16;
    for (uint32_t i = 0; i < 2; i++) {
        t[i] = rec_stream(r, 10, 11 + i, 100 + i);
        t[i]->head.stream_stamp = 2600 + i;
        rec_fork(s, IPS_FORK_THREAD, 2500 + i, 2600, 9 * MS, 9 * MS, 0, 7 + i);
        rec_start(t[i], IPS_START_THREAD, 2600 + i, 0)->fork_seq = 7 + i;
        rec_end(t[i], IPS_END_THREAD, 2800, i ? 60 * MS : 4 * MS, 0);
    }
    rec_end(s, IPS_END_EXIT, 5000, 10 * MS, 0);
    costs_make(&k, r);
    assert_int_equal(row(&k, "a+0x100")->self_ns, 24 * MS);
    assert_int_equal(k.t.totals.unsampled_ns, 50 * MS);
    assert_int_equal(k.t.totals.sampled_ns, (10 + 4 + 10) * MS);
    assert_true(fabs(k.t.totals.squares / (4 * 576.0 * MS * MS) - 1) < 1e-9);
    costs_free(&k);
}

/* Would catch: samples in a loop that waits for memory taken together with
 * others of the same stack, so that either all or none of them spin. */
static void test_procs__some_samples_spin(void **state)
{
    (void)state;
    rs s;
    struct costs k;
    struct recorder *r = one(&s);
    for (uint64_t i = 1; i <= 3; i++) {
        struct ips_rec_sample *x =
            sample(s, 1000 * (i + 1), 10 * i * MS, 1, (uint64_t)0x10100);
        x->h.word |= i == 2 ? 0 : IPS_REC_F_SPINS << 16;
    }
    rec_end(s, IPS_END_EXIT, 5000, 30 * MS, 0);
    costs_make(&k, r);
    uint64_t spun = 0;
    for (uint32_t i = 0; i < k.c.p.sampled_count; i++)
        if (k.c.p.stacks[k.c.p.sampled[i].stack].spins)
            spun += k.c.p.sampled[i].ns;
    assert_int_equal(k.c.p.stack_count, 2);
    assert_int_equal(spun, 20 * MS);
    costs_free(&k);
}

/* Catches: what ran before the timers were there, or after the last record,
 * called sampled; a thread without timers that counts as too short. */
static void test_procs__timers_come_and_go(void **state)
{
    (void)state;
    rs s, t;
    struct costs k;
    struct recorder *r = one(&s);
    sample(s, 1500, 3 * MS, 0);
    sample(s, 2000, 9 * MS, 1, (uint64_t)0x10100);
    t = rec_stream(r, 10, 11, 100);
    t->head.stream_stamp = 2600;
    rec_fork(s, IPS_FORK_THREAD, 2500, 2600, 9 * MS, 9 * MS, 0, 7);
    rec_start(t, IPS_START_THREAD, 2600, 0)->fork_seq = 7;
    rec_end(t, IPS_END_THREAD, 2800, 4 * MS, 0);
    rec_end(s, IPS_END_EXIT, 5000, 10 * MS, 0);
    costs_make(&k, r);
    assert_int_equal(row(&k, "a+0x100")->self_ns, 7 * MS);
    assert_int_equal(row(&k, "a+0x100")->samples, 1);
    assert_int_equal(k.t.totals.unsampled_ns, (3 + 4) * MS);
    assert_int_equal(k.t.totals.cpu_ns, 14 * MS);
    costs_free(&k);
}

/* Catches: the CPU of samples that were lost given to the one after the gap. */
static void test_procs__a_gap_is_unsampled(void **state)
{
    (void)state;
    rs s;
    struct costs k;
    struct recorder *r = one(&s);
    sample(s, 2000, 10 * MS, 1, (uint64_t)0x10100);
    struct ips_rec_lost *lost =
        rec_put(s, IPS_REC_LOST, sizeof(*lost), IPS_LOST_POOL_FULL, 2100);
    lost->count = 50;
    sample(s, 3000, 510 * MS, 1, (uint64_t)0x10200);
    sample(s, 3100, 515 * MS, 1, (uint64_t)0x10200);
    rec_end(s, IPS_END_EXIT, 5000, 515 * MS, 0);
    costs_make(&k, r);
    assert_in_range(row(&k, "a+0x100")->self_ns, 13 * MS, 14 * MS);
    assert_int_equal(k.t.totals.unsampled_ns, (515 - 40) * MS);
    assert_in_range(row(&k, "a+0x200")->self_ns, 26 * MS, 27 * MS);
    costs_free(&k);
}

/* Catches: inlined procedures taken for their host, hosts that lose them from
 * their total, lines mixed up with procedures. */
static void test_procs__inlined_procedures_have_rows(void **state)
{
    (void)state;
    rs s;
    struct costs k;
    struct recorder *r = one(&s);
    sample(s, 2000, 10 * MS, 1, (uint64_t)0x10100);
    sample(s, 3000, 15 * MS, 1, (uint64_t)0x10140);
    rec_end(s, IPS_END_EXIT, 5000, 20 * MS, 0);
    costs_make(&k, r);
    name(&k, 0x100, "small\ta.c\t3\ta.c\t4\nlarge\ta.c\t8\ta.c\t9\n");
    name(&k, 0x140, "large\ta.c\t8\ta.c\t11\n");
    assert_int_equal(row(&k, "small")->self_ns, 10 * MS);
    assert_int_equal(row(&k, "small")->total_ns, 10 * MS);
    assert_int_equal(row(&k, "large")->self_ns, 10 * MS);
    assert_int_equal(row(&k, "large")->total_ns, 20 * MS);
    assert_int_equal(k.t.row_count, 2);
    table(&k, "", SLAVE_BY_LINE);
    assert_int_equal(k.t.row_count, 3); /* small:4, large:9, large:11 */
    costs_free(&k);
}

/* Catches: samples of two threads taken as one clock; an object that filters
 * nothing; the second image after exec charged with what the first used. */
static void
test_procs__threads_and_images_have_clocks_of_their_own(void **state)
{
    (void)state;
    rs s, t, e;
    struct costs k;
    struct recorder *r = one(&s);
    sample(s, 2000, 10 * MS, 1, (uint64_t)0x10100);
    rec_fork(s, IPS_FORK_THREAD, 2500, 2600, 11 * MS, 11 * MS, 0, 7);
    t = rec_stream(r, 10, 11, 100);
    t->head.stream_stamp = 2600;
    rec_start(t, IPS_START_THREAD, 2600, 0)->fork_seq = 7;
    sample(t, 2700, 10 * MS, 1, (uint64_t)0x10100);
    rec_end(t, IPS_END_THREAD, 2800, 10 * MS, 0);
    rec_exec(s, 3000, 14 * MS, false);
    e = rec_stream(r, 10, 10, 3100);
    rec_start(e, IPS_START_IMAGE, 3100, 15 * MS);
    module(e, 3100, 0x10000, 0x20000, 0x10000, "/bin/b", false);
    sample(e, 3500, 23 * MS, 1, (uint64_t)0x10100);
    rec_end(e, IPS_END_EXIT, 4000, 24 * MS, 0);
    costs_make(&k, r);
    assert_in_range(row(&k, "a+0x100")->self_ns, 68 * MS / 3, 68 * MS / 3 + 1);
    assert_in_range(row(&k, "b+0x100")->self_ns, 34 * MS / 3, 34 * MS / 3 + 1);
    assert_int_equal(k.t.totals.threads, 2);
    assert_int_equal(k.t.totals.sampled_ns, 34 * MS);
    assert_int_equal(k.t.totals.unsampled_ns, 0);
    char object[128];
    snprintf(object, sizeof(object), "/m/%s/11", k.r->built.procs[0].name);
    table(&k, object, SLAVE_BY_PROCEDURE);
    assert_int_equal(k.t.totals.threads, 1);
    assert_int_equal(row(&k, "a+0x100")->self_ns, 10 * MS);
    assert_int_equal(k.t.row_count, 1);
    table(&k, "/m/nobody", SLAVE_BY_PROCEDURE);
    assert_int_equal(k.t.totals.threads, 0);
    costs_free(&k);
}

/* Catches: exclusive time that misses callees, recursion counted twice in the
 * inclusive time, an exit by longjmp that leaves calls open, an exit of what
 * was never entered, entries that are still open at the end. */
static void test_procs__entries_and_exits_are_a_call_stack(void **state)
{
    (void)state;
    rs s;
    struct costs k;
    struct recorder *r = one(&s);
    const uint64_t f = 0x10100, g = 0x10200, h = 0x10300;
    EXIT(s, 1, h);   /* entered before anything was recorded */
    ENTER(s, 10, f); /* f 10..100 */
    ENTER(s, 20, g); /*   g 20..50: f again within */
    ENTER(s, 30, f);
    EXIT(s, 40, f);
    EXIT(s, 50, g);
    ENTER(s, 60, g); /*   g 60..80 left by longjmp, with h in it */
    ENTER(s, 70, h);
    EXIT(s, 100, f);                            /* ends h and g too */
    ENTER(s, 110, h);                           /* still there at the end */
    sample(s, 1150, 115, 1, (uint64_t)0x10200); /* would count twice */
    rec_end(s, IPS_END_EXIT, 2000, 130, 0);
    costs_make(&k, r);
    assert_int_equal(row(&k, "a+0x100")->self_ns, 10 + 10 + 10);
    assert_int_equal(row(&k, "a+0x100")->total_ns, 90);
    assert_int_equal(row(&k, "a+0x100")->calls, 2);
    assert_int_equal(row(&k, "a+0x200")->self_ns, 10 + 10 + 10);
    assert_int_equal(row(&k, "a+0x200")->total_ns, 30 + 40);
    assert_int_equal(row(&k, "a+0x300")->self_ns, 30 + 20);
    assert_int_equal(row(&k, "a+0x300")->total_ns, 30 + 20);
    assert_int_equal(row(&k, "a+0x300")->calls, 2);
    assert_true(row(&k, "a+0x300")->exact);
    assert_int_equal(k.t.totals.exact_threads, 1);
    assert_int_equal(k.t.totals.samples, 0);
    assert_int_equal(k.t.totals.exact_ns, 110);
    assert_int_equal(k.t.totals.unsampled_ns, 20);
    costs_free(&k);
}

/* Catches: a short entry or exit that is not the long one it stands for: its
 * CPU time from the wrong record, or an address with the wrong upper half; one
 * that refers to nothing and is believed. */
static void test_procs__short_ones_stand_for_long_ones(void **state)
{
    (void)state;
    rs s;
    struct costs k;
    struct recorder *r = one(&s);
    const size_t bytes = sizeof(struct ips_rec_head);
    const uint64_t f = 0x10100, g = 0x10200, far = 0x500000000;
    rec_put(s, IPS_REC_ENTER_SHORT, bytes, (uint32_t)g, 1005);
    ENTER(s, 10, far);
    proc(s, IPS_REC_ENTER, 1500, 20, f); /* slept before */
    rec_put(s, IPS_REC_ENTER_SHORT, bytes, (uint32_t)g, 1530);
    rec_put(s, IPS_REC_EXIT_SHORT, bytes, (uint32_t)g, 1570);
    proc(s, IPS_REC_EXIT, 1900, 100, f); /* and again */
    rec_end(s, IPS_END_EXIT, 2000, 100, 0);
    costs_make(&k, r);
    assert_int_equal(row(&k, "a+0x200")->calls, 1);
    assert_int_equal(row(&k, "a+0x200")->self_ns, 40);
    assert_int_equal(row(&k, "a+0x100")->self_ns, 40);
    assert_int_equal(row(&k, "a+0x100")->total_ns, 80);
    costs_free(&k);
}

/* Catches: calls that are not added up, a fall back to counters that is not
 * told, one told where samples were all there was. */
static void test_procs__counters_add_calls(void **state)
{
    (void)state;
    rs s, t;
    struct costs k;
    struct recorder *r = one(&s);
    sample(s, 2000, 10 * MS, 1, (uint64_t)0x10100);
    count(s, 2100, 0x10100, 40);
    count(s, 2200, 0x10100, 2);
    rec_end(s, IPS_END_EXIT, 5000, 10 * MS, 0);
    t = rec_stream(r, 11, 11, 200);
    rec_start(t, IPS_START_IMAGE, 1000, 0);
    module(t, 1000, 0x10000, 0x20000, 0x10000, "/bin/e", false);
    ENTER(t, 10, (uint64_t)0x10100);
    EXIT(t, 20, (uint64_t)0x10100);
    count(t, 2500, 0x10100, 1); /* one whose ENTER was lost */
    count(t, 3000, 0x10100, 0); /* from here on */
    count(t, 4000, 0x10100, 7);
    count(t, 4500, 0x10100, 6);
    ((struct ips_rec_head *)(void *)(t->data + t->len -
                                     sizeof(struct ips_rec_count)))
        ->a = 12; /* another thread's, written for it at the end */
    rec_fork(t, IPS_FORK_THREAD, 1500, 1600, 5, 5, 0, 7);
    rec_end(t, IPS_END_EXIT, 5000, 30, 0);
    rs u = rec_stream(r, 11, 12, 200);
    u->head.stream_stamp = 1600;
    rec_start(u, IPS_START_THREAD, 1600, 0)->fork_seq = 7;
    rec_end(u, IPS_END_THREAD, 4000, 8, 0);
    costs_make(&k, r);
    assert_int_equal(row(&k, "a+0x100")->calls, 42);
    assert_int_equal(row(&k, "a+0x100")->counted_from_ns, 0);
    assert_int_equal(row(&k, "a+0x100")->samples, 1);
    assert_false(row(&k, "a+0x100")->exact);
    assert_int_equal(row(&k, "e+0x100")->calls, 15);
    assert_int_equal(row(&k, "e+0x100")->counted_from_ns, 3000);
    char object[128];
    for (uint32_t i = 0; i < k.r->built.proc_count; i++)
        if (k.r->built.procs[i].pid == 11)
            snprintf(object, sizeof(object), "/m/%s/12",
                     k.r->built.procs[i].name);
    table(&k, object, SLAVE_BY_PROCEDURE);
    assert_int_equal(row(&k, "e+0x100")->calls, 6);
    costs_free(&k);
}

static const char *at(struct ips_codemap *m, rs s, uint64_t address, uint64_t t)
{
    struct ips_err err = {0};
    uint32_t place;
    assert_int_equal(ips_codemap_find_or_add_location(
                         m, ips_codemap_find_image_of_stream(m, &s->head),
                         address, t, false, &place, &err),
                     0);
    uint32_t module = m->locations[place].module;
    return module == IPS_NONE ? "" : m->modules[module].path;
}

/* Catches: dlclose and dlopen at the same addresses mixed up, a fork child
 * without its parent's modules or with those loaded after it was made, code
 * that runs before dlopen has returned, and the memo that keeps answers. */
static void test_procs__modules_are_told_apart_by_time(void **state)
{
    (void)state;
    rs s, c;
    struct costs k;
    struct recorder *r = one(&s);
    module(s, 2000, 0x50000, 0x60000, 0, "/lib/one", false);
    module(s, 3000, 0x50000, 0x60000, 0, "/lib/one", true);
    module(s, 4000, 0x50000, 0x58000, 0, "/lib/two", false);
    rec_fork(s, IPS_FORK_FORK, 2400, 2600, 0, 0, 20, 1);
    rec_end(s, IPS_END_EXIT, 9000, 10, 0);
    c = rec_stream(r, 20, 20, 2500);
    struct ips_rec_start *st = rec_start(c, IPS_START_FORK, 2500, 0);
    st->ppid = 10;
    st->parent_image = 100;
    st->fork_seq = 1;
    module(c, 6000, 0x50000, 0x60000, 0, "/lib/one", true);
    rec_end(c, IPS_END_EXIT, 9000, 10, 0);
    costs_make(&k, r);
    struct ips_codemap *m = &k.c.p.map;
    for (int twice = 0; twice < 2; twice++) {
        assert_string_equal(at(m, s, 0x50010, 2500), "/lib/one");
        assert_string_equal(at(m, s, 0x50010, 4500), "/lib/two");
        assert_string_equal(at(m, s, 0x50010, 3500), "/lib/two"); /* before */
        assert_string_equal(at(m, s, 0x50010, 1500), "/lib/one");
        assert_string_equal(at(m, s, 0x59000, 4500), "");
        assert_string_equal(at(m, s, 0x10010, 8000), "/bin/a");
        assert_string_equal(at(m, s, 0x20000, 8000), "");
        assert_string_equal(at(m, c, 0x50010, 5000), "/lib/one");
        assert_string_equal(at(m, c, 0x50010, 6500), "");
        assert_string_equal(at(m, c, 0x10010, 6500), "/bin/a");
    }
    costs_free(&k);
}

/* Catches: code of no module (JIT) as a row an address. */
static void test_procs__code_without_a_module_is_one_row(void **state)
{
    (void)state;
    rs s;
    struct costs k;
    struct recorder *r = one(&s);
    sample(s, 2000, 10 * MS, 1, (uint64_t)0x7f0000001000);
    sample(s, 3000, 20 * MS, 1, (uint64_t)0x7f0000002000);
    rec_end(s, IPS_END_EXIT, 5000, 20 * MS, 0);
    costs_make(&k, r);
    assert_int_equal(row(&k, "[no module]")->self_ns, 20 * MS);
    assert_int_equal(k.t.row_count, 1);
    costs_free(&k);
}

/* Catches: a frame count or a path that reaches beyond its record, module
 * ranges that wrap, a build id longer than its field, fork parents in a ring:
 * bytes from a pool are anybody's. Run under the sanitizers too. */
static void test_procs__absurd_records_do_no_harm(void **state)
{
    (void)state;
    uint64_t with_rows = 0;
    for (unsigned seed = 0; seed < 200; seed++) {
        rs s;
        struct costs k;
        struct recorder *r = one(&s);
        srand(seed);
        uint64_t put = 0, told = 0;
        for (int i = 0; i < 50; i++) {
            static const enum ips_rec_type types[] = {
                IPS_REC_MODULE, IPS_REC_SAMPLE, IPS_REC_COUNT, IPS_REC_ENTER,
                IPS_REC_EXIT,   IPS_REC_STACK,  IPS_REC_START};
            size_t bytes = 80 + (size_t)(rand() % 100) * 8;
            enum ips_rec_type type = types[rand() % 7];
            uint8_t *p =
                rec_put(s, type, bytes, (uint32_t)rand(), (uint64_t)rand());
            put += type == IPS_REC_SAMPLE;
            for (size_t b = sizeof(struct ips_rec_head); b < bytes; b++)
                p[b] = (uint8_t)(rand() % 3 ? rand() : 0);
            if (rand() % 2) /* its own parent */
                ((struct ips_rec_head *)(void *)p)->a = IPS_START_FORK;
        }
        costs_make(&k, r);
        table(&k, "", SLAVE_BY_LINE);
        for (uint32_t i = 0; i < k.t.row_count; i++) {
            const struct slave_proc_row *row = &k.t.rows[i];
            told += row->samples;
            assert_true(row->total_ns >= row->self_ns);
            assert_true(row->process < k.r->built.proc_count);
            assert_true(row->symbol < k.t.names.symbol_count);
        }
        assert_true(told <= put && k.t.totals.samples <= put);
        with_rows += k.t.row_count > 0;
        costs_free(&k);
    }
    assert_true(with_rows > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_procs__weights_add_up_to_the_cpu),
        cmocka_unit_test(test_procs__samples_that_are_missing),
        cmocka_unit_test(test_procs__timers_come_and_go),
        cmocka_unit_test(test_procs__some_samples_spin),
        cmocka_unit_test(test_procs__a_gap_is_unsampled),
        cmocka_unit_test(test_procs__inlined_procedures_have_rows),
        cmocka_unit_test(
            test_procs__threads_and_images_have_clocks_of_their_own),
        cmocka_unit_test(test_procs__entries_and_exits_are_a_call_stack),
        cmocka_unit_test(test_procs__short_ones_stand_for_long_ones),
        cmocka_unit_test(test_procs__counters_add_calls),
        cmocka_unit_test(test_procs__modules_are_told_apart_by_time),
        cmocka_unit_test(test_procs__code_without_a_module_is_one_row),
        cmocka_unit_test(test_procs__absurd_records_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
