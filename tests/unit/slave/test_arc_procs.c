/*
 * What arcs were spent on (slave/symbols/arc_procs.h, arc_sum.h), on records
 * written by hand: every figure is computed on paper; and on random ones, where
 * only sums are known. EVIDENCE-OF: IPS-12
 */
#include "tests/unit/help/procs_help.h"

#include "slave/profile/arc_sum.h"

#define F 0x10100
#define G 0x10200
#define H 0x10300

/* Splits of one arc, by symbol; the last is nobody's. */
struct split {
    const struct slave_proc_names *names;
    uint64_t f, g, h, other, unsampled, sum;
};

static void put(void *arg, uint32_t symbol, uint64_t ns)
{
    struct split *s = arg;
    s->sum += ns;
    assert_true(ns > 0);
    if (symbol == IPS_NONE) {
        s->unsampled += ns;
        return;
    }
    const struct slave_proc_symbol *y = &s->names->symbols[symbol];
    uint64_t *of = memcmp(y->name, "a+0x100", 7) == 0   ? &s->f
                   : memcmp(y->name, "a+0x200", 7) == 0 ? &s->g
                   : memcmp(y->name, "a+0x300", 7) == 0 ? &s->h
                                                        : &s->other;
    *of += ns;
}

/* Names and mixes of costs, for splits of single arcs. */
struct splitter {
    struct costs *k;
    struct slave_proc_names names;
    struct slave_arc_pool_profiles mixes;
};

static void splitter_make(struct splitter *p, struct costs *k)
{
    struct ips_err err = {0};
    p->k = k;
    assert_int_equal(slave_proc_names_number_procedures(
                         &k->c, SLAVE_BY_PROCEDURE, &p->names, &err),
                     0);
    assert_int_equal(
        slave_arc_pool_profiles_make(&k->c, &p->names, &p->mixes, &err), 0);
}

static void splitter_free(struct splitter *p)
{
    slave_arc_pool_profiles_release(&p->mixes);
    slave_proc_names_release(&p->names);
}

/* Of the arc into the n-th node of a thread. */
static struct split split_of(const struct splitter *p, uint32_t tid, uint32_t n)
{
    const struct ips_graph *g = &p->k->r->built.g;
    uint32_t chain = rec_chain(&p->k->r->built, tid);
    uint32_t node = g->chains[chain].first + n;
    struct split s = {.names = &p->names};
    slave_arc_split_by_procedure(&p->k->c, &p->names, &p->mixes, g, chain, node,
                                 g->w[node], SLAVE_WINDOW_ALL, put, &s);
    assert_int_equal(s.sum, g->w[node]);
    return s;
}

/* The name of the procedure that took most of the arc; "": none did. */
static const char *main_of(const struct splitter *p, uint32_t tid, uint32_t n)
{
    const struct ips_graph *g = &p->k->r->built.g;
    uint32_t chain = rec_chain(&p->k->r->built, tid);
    uint32_t symbol = slave_arc_find_main_procedure(
        &p->k->c, &p->names, &p->mixes, g, chain, g->chains[chain].first + n);
    return symbol == IPS_NONE ? "" : p->names.symbols[symbol].name;
}

static uint64_t add(struct slave_arc_sum *sum, uint32_t tid, uint32_t n,
                    struct slave_window window)
{
    uint32_t chain = rec_chain(sum->b, tid);
    return slave_arc_sum_add_window_cpu_of_arc(
        sum, chain, sum->b->g.chains[chain].first + n, window);
}

static void sum_of(struct slave_arc_sum *sum, struct costs *k)
{
    struct ips_err err = {0};
    assert_int_equal(slave_arc_sum_init(sum, &k->c, &k->r->built, &err), 0);
}

/* The table of what was added to `sum`, which is released; its rows and what
 * nobody claims add up. */
static struct slave_arc_totals sum_table(struct slave_arc_sum *sum,
                                         struct slave_proc_table *t)
{
    struct slave_profile_cache costs;
    struct slave_arc_totals totals;
    struct ips_err err = {0};
    uint64_t self = 0;
    assert_int_equal(slave_arc_sum_make_profile(sum, &costs, &err), 0);
    slave_arc_sum_compute_totals(sum, &totals);
    assert_int_equal(slave_proc_table_make(&costs, sum->b, "m", "",
                                           SLAVE_BY_PROCEDURE, t, &err),
                     0);
    for (uint32_t i = 0; i < t->row_count; i++)
        self += t->rows[i].self_ns;
    assert_int_equal(self, totals.sampled_ns + totals.exact_ns);
    assert_int_equal(self + totals.unsampled_ns, totals.ns);
    assert_true(t->totals.squares == totals.squares);
    slave_arc_profile_free(&costs);
    slave_arc_sum_release(sum);
    return totals;
}

static uint64_t self_of(const struct slave_proc_table *t, const char *what)
{
    for (uint32_t i = 0; i < t->row_count; i++) {
        const struct slave_proc_symbol *s =
            &t->names.symbols[t->rows[i].symbol];
        if (memcmp(s->name, what, strlen(what)) == 0)
            return t->rows[i].self_ns;
    }
    return 0;
}

/* Catches: a sample that speaks for the arc before it, in which the CPU it
 * weighs began; an arc whose parts are not its weight; an arc without a sample
 * given to a neighbour's procedure.
 *
 *   CPU ms  0      10      20      30
 *           START  send    send    END
 *   samples  f4 f9  g13 h18                weights 10 each
 */
static void test_arc_procs__a_sample_speaks_for_its_arc(void **state)
{
    (void)state;
    rs s;
    struct costs k;
    struct splitter p;
    struct slave_arc_sum sum;
    struct slave_proc_table t;
    struct recorder *r = one(&s);
    rec_user(s, 1, 1001, IPS_SIDE_WRITE, "c");
    sample(s, 2000, 4 * MS, 1, (uint64_t)F);
    sample(s, 2100, 9 * MS, 1, (uint64_t)F);
    rec_send(s, 1, 2200, 10 * MS, 8);
    sample(s, 2300, 13 * MS, 1, (uint64_t)G);
    sample(s, 2400, 18 * MS, 2, (uint64_t)H, (uint64_t)(G + 1));
    rec_send(s, 1, 2500, 20 * MS, 8);
    rec_end(s, IPS_END_EXIT, 5000, 30 * MS, 0);
    costs_make(&k, r);
    splitter_make(&p, &k);
    struct split first = split_of(&p, 10, 1);
    assert_int_equal(first.f, 10 * MS);
    struct split second = split_of(&p, 10, 2);
    assert_int_equal(second.g, 5 * MS);
    assert_int_equal(second.h, 5 * MS);
    struct split last = split_of(&p, 10, 3);
    assert_int_equal(last.unsampled, 10 * MS);

    sum_of(&sum, &k);
    assert_int_equal(add(&sum, 10, 2, SLAVE_WINDOW_ALL), 10 * MS);
    assert_int_equal(add(&sum, 10, 3, SLAVE_WINDOW_ALL), 10 * MS);
    struct slave_arc_totals totals = sum_table(&sum, &t);
    assert_int_equal(totals.ns, 20 * MS);
    assert_int_equal(totals.unsampled_ns, 10 * MS);
    assert_int_equal(totals.samples, 2);
    assert_int_equal(self_of(&t, "a+0x100"), 0); /* f is in the first alone */
    assert_int_equal(self_of(&t, "a+0x200"), 5 * MS);
    for (uint32_t i = 0; i < t.row_count; i++) /* h was called by g */
        if (memcmp(t.names.symbols[t.rows[i].symbol].name, "a+0x200", 7) == 0)
            assert_int_equal(t.rows[i].total_ns, 10 * MS);
    slave_proc_table_release(&t);
    splitter_free(&p);
    costs_free(&k);
}

/* Catches: short arcs given to whatever sample comes next, which may be of
 * other code. A loop of 1 ms of f before each send on one channel, 1 ms of g
 * before each on another, one sample each 7 ms: 70 turns, of which few have
 * a sample, and yet f and g are told apart without error. */
static void test_arc_procs__arcs_alike_speak_for_each_other(void **state)
{
    (void)state;
    rs s;
    struct costs k;
    struct splitter p;
    struct slave_arc_sum sum;
    struct slave_proc_table t;
    struct recorder *r = one(&s);
    uint64_t cpu = 0, due = 7 * MS - MS / 2;
    rec_user(s, 1, 1001, IPS_SIDE_WRITE, "c");
    rec_user(s, 2, 1001, IPS_SIDE_WRITE, "d");
    for (uint32_t i = 0; i < 140; i++) {
        if (due <= cpu + MS) {
            sample(s, 2000 + 10 * i, due, 1, (uint64_t)(i % 2 ? G : F));
            due += 7 * MS;
        }
        cpu += MS;
        rec_send(s, 1 + i % 2, 2005 + 10 * i, cpu, 8);
    }
    rec_end(s, IPS_END_EXIT, 5000, cpu, 0);
    costs_make(&k, r);
    splitter_make(&p, &k);
    for (uint32_t i = 2; i <= 140; i++) {
        struct split one_arc = split_of(&p, 10, i);
        assert_int_equal(i % 2 ? one_arc.f : one_arc.g, MS);
    }
    sum_of(&sum, &k);
    for (uint32_t i = 3; i <= 139; i += 2) /* f alone is on the path */
        assert_int_equal(add(&sum, 10, i, SLAVE_WINDOW_ALL), MS);
    struct slave_arc_totals totals = sum_table(&sum, &t);
    assert_int_equal(totals.ns, 69 * MS);
    assert_int_equal(totals.unsampled_ns, 0);
    assert_true(totals.alike_ns >= 50 * MS);
    assert_int_equal(self_of(&t, "a+0x100"), 69 * MS);
    assert_int_equal(self_of(&t, "a+0x200"), 0);
    assert_in_range(totals.samples, 9, 11); /* what it rests on */
    slave_proc_table_release(&t);
    splitter_free(&p);
    costs_free(&k);
}

/* Catches: CPU burnt by spinning taken for work of the arc, or moving all that
 * comes after it on the clock by what was taken out. */
static void test_arc_procs__spinning_is_nobodys(void **state)
{
    (void)state;
    rs s, t;
    struct costs k;
    struct splitter p;
    struct recorder *r = one(&s);
    rec_fork(s, IPS_FORK_THREAD, 1100, 1200, 0, 0, 0, 7);
    t = rec_stream(r, 10, 11, 100);
    t->head.stream_stamp = 1200;
    rec_start(t, IPS_START_THREAD, 1200, 0)->fork_seq = 7;
    rec_sync(s, IPS_REC_RELEASE, IPS_SYNC_SPIN, 70 * MS, 70 * MS, 60 * MS,
             60 * MS, 0x9000);
    rec_end(s, IPS_END_THREAD, 71 * MS, 61 * MS, 0);
    sample(t, 10 * MS, 4 * MS, 1, (uint64_t)F);
    rec_sync(t, IPS_REC_ACQUIRE, IPS_SYNC_SPIN, 20 * MS, 70 * MS + 5, 5 * MS,
             45 * MS, 0x9000);
    rec_user(t, 1, 70 * MS + 6, IPS_SIDE_WRITE, "c");
    /* What was sampled in the wait comes first in the stream, in truth. */
    rec_send(t, 1, 72 * MS, 49 * MS, 8);
    sample(t, 73 * MS, 52 * MS, 1, (uint64_t)G);
    rec_end(t, IPS_END_THREAD, 75 * MS, 55 * MS, 0);
    costs_make(&k, r);
    splitter_make(&p, &k);
    const struct ips_built *b = &k.r->built;
    assert_int_equal(b->counts.spin_ns, 40 * MS);
    assert_int_equal(b->spun_count, 1);
    struct split before = split_of(&p, 11, 1);
    assert_int_equal(before.f, 5 * MS);
    struct split after = split_of(&p, 11, 2);
    assert_int_equal(after.sum, 4 * MS);
    assert_int_equal(after.unsampled, 4 * MS);
    struct split last = split_of(&p, 11, 3);
    assert_int_equal(last.g, 6 * MS);
    splitter_free(&p);
    costs_free(&k);
}

/* Catches: a procedure that spans arcs charged to one of them; instrumented
 * code's samples counted besides; what is outside it given to somebody, or less
 * than a procedure in an arc of which it is most. */
static void test_arc_procs__entries_overlap_arcs(void **state)
{
    (void)state;
    rs s;
    struct costs k;
    struct splitter p;
    struct slave_arc_sum sum;
    struct slave_proc_table t;
    struct recorder *r = one(&s);
    rec_user(s, 1, 1001, IPS_SIDE_WRITE, "c");
    ENTER(s, 2000, F);
    sample(s, 3500, 2500, 1, (uint64_t)H); /* does not count */
    rec_send(s, 1, 5000, 5000, 8);         /* within f */
    ENTER(s, 6000, G);
    EXIT(s, 9000, G);
    rec_send(s, 1, 11000, 10000, 8); /* within f */
    EXIT(s, 12000, F);
    rec_end(s, IPS_END_EXIT, 50000, 20000, 0);
    costs_make(&k, r);
    splitter_make(&p, &k);
    struct split a = split_of(&p, 10, 1);
    assert_int_equal(a.f, 3000);
    assert_int_equal(a.unsampled, 2000);
    struct split b = split_of(&p, 10, 2);
    assert_int_equal(b.f, 2000);
    assert_int_equal(b.g, 3000);
    struct split c = split_of(&p, 10, 3);
    assert_int_equal(c.f, 2000);
    assert_int_equal(c.unsampled, 8000);
    assert_memory_equal(main_of(&p, 10, 1), "a+0x100", 7);
    assert_memory_equal(main_of(&p, 10, 2), "a+0x200", 7);
    assert_string_equal(main_of(&p, 10, 3), ""); /* most of it is outside */
    sum_of(&sum, &k);
    add(&sum, 10, 2, SLAVE_WINDOW_ALL);
    struct slave_arc_totals totals = sum_table(&sum, &t);
    assert_int_equal(totals.exact_ns, 5000);
    assert_int_equal(self_of(&t, "a+0x200"), 3000);
    assert_int_equal(t.rows[0].calls, IPS_CPU_UNKNOWN);
    slave_proc_table_release(&t);
    splitter_free(&p);
    costs_free(&k);
}

/* Catches: a window that takes whole arcs, that knows nothing of what the
 * samples say of when CPU was spent, or that tells of samples outside it. The
 * thread sleeps from 2000 to 8000 in its one arc. */
static void test_arc_procs__a_window_cuts_arcs(void **state)
{
    (void)state;
    rs s;
    struct costs k;
    struct slave_arc_sum sum;
    struct slave_proc_table t;
    struct recorder *r = one(&s);
    sample(s, 2000, 10000, 1, (uint64_t)F);
    sample(s, 8000, 10010, 1, (uint64_t)G);
    sample(s, 9000, 20000, 1, (uint64_t)G);
    rec_end(s, IPS_END_EXIT, 10000, 30000, 0);
    costs_make(&k, r);
    sum_of(&sum, &k);
    assert_int_equal(add(&sum, 10, 1, (struct slave_window){0, 1500}), 5000);
    struct slave_arc_totals totals = sum_table(&sum, &t);
    assert_int_equal(totals.ns, 5000); /* no sample in it: all of the arc's */
    slave_proc_table_release(&t);
    sum_of(&sum, &k);
    assert_int_equal(add(&sum, 10, 1, (struct slave_window){1500, 8000}), 5010);
    slave_arc_sum_release(&sum);
    sum_of(&sum, &k);
    assert_int_equal(add(&sum, 10, 1, (struct slave_window){8000, 9500}),
                     9990 + 5000);
    sum_table(&sum, &t);
    assert_int_equal(self_of(&t, "a+0x100"), 0);
    assert_int_equal(self_of(&t, "a+0x200"), 14990);
    slave_proc_table_release(&t);
    costs_free(&k);
}

/* ---- random records ---- */

static uint64_t some(uint64_t limit)
{
    return (uint64_t)rand() % limit;
}

/* A thread that computes, is sampled, sends, and sometimes is instrumented. */
static void random_thread(rs s, uint64_t t, uint64_t cpu, bool exact)
{
    int depth = 0;
    for (int i = (int)some(60); i > 0; i--) {
        uint64_t step = some(3) ? some(50) : some(3000);
        cpu += step;
        t += step + (some(4) ? 0 : some(2000));
        switch (some(exact ? 5 : 3)) {
        case 0:
            rec_send(s, 1 + (uint32_t)some(2), t, cpu, 8);
            break;
        case 1:
        case 2:
            sample(s, t, cpu, 2, F + some(5), 0x10301 + some(9));
            break;
        case 3:
            proc(s, IPS_REC_ENTER, t, cpu, F + 16 * some(4));
            depth++;
            break;
        default:
            if (depth-- > 0)
                proc(s, IPS_REC_EXIT, t, cpu, F + 16 * some(4));
        }
    }
    rec_end(s, IPS_END_THREAD, t + some(100), cpu + some(100), 0);
}

static struct recorder *random_run(void)
{
    rs s;
    struct recorder *r = one(&s);
    uint32_t threads = (uint32_t)some(4);
    for (uint32_t id = 1; id <= 2; id++)
        rec_user(s, id, 1001, IPS_SIDE_WRITE, id == 1 ? "c" : "d");
    for (uint32_t i = 0; i < threads; i++) {
        rec_fork(s, IPS_FORK_THREAD, 1100 + i, 1100 + i, 0, 0, 0, 7 + i);
        rs x = rec_stream(r, 10, 11 + i, 100);
        x->head.stream_stamp = 1100 + i;
        rec_start(x, IPS_START_THREAD, 1100 + i, 0)->fork_seq = 7 + i;
        random_thread(x, 1200, 0, some(2));
    }
    random_thread(s, 1300, 10, some(2));
    return r;
}

/* Catches: any ns lost or made up, of any choice of arcs in any window: by
 * procedure, and of single arcs; windows side by side that do not add up to
 * the whole; a choice of everything that is not T. */
static void test_arc_procs__sums_are_exact(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 3000; seed++) {
        struct costs k;
        struct splitter p;
        struct slave_arc_sum all, some_of, early, late;
        struct slave_proc_table t;
        srand(seed);
        costs_make(&k, random_run());
        splitter_make(&p, &k);
        const struct ips_graph *g = &k.r->built.g;
        const uint64_t cut = 1000 + some(8000);
        uint64_t whole = 0, chosen = 0, halves = 0;
        sum_of(&all, &k);
        sum_of(&some_of, &k);
        sum_of(&early, &k);
        sum_of(&late, &k);
        for (uint32_t c = 0; c < g->chain_count; c++)
            for (uint32_t n = 1; n < g->chains[c].count; n++) {
                uint32_t tid = g->chains[c].tid;
                uint64_t w = g->w[g->chains[c].first + n];
                whole += w;
                assert_int_equal(add(&all, tid, n, SLAVE_WINDOW_ALL), w);
                if (some(2))
                    chosen += add(&some_of, tid, n, SLAVE_WINDOW_ALL);
                halves += add(&early, tid, n, (struct slave_window){0, cut});
                halves +=
                    add(&late, tid, n, (struct slave_window){cut, UINT64_MAX});
                (void)split_of(&p, tid, n); /* checks its own sum */
            }
        assert_int_equal(sum_table(&all, &t).ns, whole);
        slave_proc_table_release(&t);
        assert_int_equal(sum_table(&some_of, &t).ns, chosen);
        slave_proc_table_release(&t);
        uint64_t both = sum_table(&early, &t).ns;
        slave_proc_table_release(&t);
        both += sum_table(&late, &t).ns;
        slave_proc_table_release(&t);
        assert_int_equal(both, whole);
        assert_int_equal(halves, whole);
        splitter_free(&p);
        costs_free(&k);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arc_procs__a_sample_speaks_for_its_arc),
        cmocka_unit_test(test_arc_procs__arcs_alike_speak_for_each_other),
        cmocka_unit_test(test_arc_procs__spinning_is_nobodys),
        cmocka_unit_test(test_arc_procs__entries_overlap_arcs),
        cmocka_unit_test(test_arc_procs__a_window_cuts_arcs),
        cmocka_unit_test(test_arc_procs__sums_are_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
