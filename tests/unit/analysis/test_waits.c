/* Waits and whose doing they were; idle time of machines: golden examples made
 * by hand, and what must hold of every graph. */
#include "each_allocation.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/explain/idle.h"
#include "common/large.h"
#include "common/types.h"
#include "tests/support/random_waits.h"
#include "tests/support/row_graph.h"

#define SEEDS 400

/* ---- what is blamed ---- */

#define PARTS 64
struct parts {
    struct ips_blame part[PARTS];
    uint32_t count;
    uint64_t sum;
};

static void on_part(void *arg, const struct ips_blame *b)
{
    struct parts *p = arg;
    assert_true(b->ns > 0);
    p->sum += b->ns;
    if (p->count < PARTS)
        p->part[p->count++] = *b;
}

static uint64_t part(const struct parts *p, enum ips_blame_kind kind,
                     uint32_t chain, uint32_t cause)
{
    uint64_t ns = 0;
    for (uint32_t i = 0; i < p->count; i++)
        if (p->part[i].kind == kind && p->part[i].chain == chain &&
            p->part[i].cause == cause)
            ns += p->part[i].ns;
    return ns;
}

static struct parts blamed(const struct ips_waits *w, uint64_t number,
                           uint64_t from, uint64_t to)
{
    struct parts p = {.count = 0};
    struct ips_blamer b = {
        .w = w, .put = on_part, .arg = &p, .budget = UINT64_MAX};
    uint64_t ns;
    assert_int_equal(0,
                     ips_blame_wait(&b, &w->wait[number], from, to, &ns, NULL));
    assert_int_equal(ns, p.sum);
    ips_blamer_release(&b);
    return p;
}

#define START IPS_NODE_START
#define SEND IPS_NODE_SEND
#define RECV IPS_NODE_RECV
#define AUX IPS_NODE_AUX
#define END IPS_NODE_END
#define NO IPS_X_NONE
enum { PEER, DISK, LOCK, SPIN };

/* H1. A chain of waits. C (chain 0) asks B's answer at 10 and has it at 100.
 * B (1) waited from 5 for A's message, has it at 60, computes 25 and is 5 off
 * its core, sends at 90. A (2) computes 20, is 10 in the queue, waits for its
 * disk from 30 to 48 and computes 2 more: sends at 50.
 *
 * C's 90 ns from 10: 10 on the way (90..100); B computed 25 and was off 5
 * (60..90); 10 on the way from A (50..60); A's from 10 to 50: from 10 to 30 a
 * share of 20/32 and 10/32 of its 32 awake ns up to 50, of which 2 lie behind
 * the disk: 22 awake ns of 32: computed 22*22/32 = 15, queued 22*10/32 = 6,
 * left 1; disk 18. */
static const struct row h1[] = {{START, 0, 0, 0, 0, NO, 0, 0},
                                {RECV, 10, 100, 90, 0, IPS_X_DATA, 5, 0},
                                {END, 0, 110, 0, 0, NO, 0, 0},
                                {START, 0, 0, 0, 0, NO, 0, 0},
                                {RECV, 5, 60, 55, 0, IPS_X_DATA, 8, 0},
                                {SEND, 25, 90, 0, 0, NO, 0, 0},
                                {END, 0, 95, 0, 0, NO, 0, 0},
                                {START, 0, 0, 0, 0, NO, 0, 0},
                                {SEND, 22, 50, 0, 10, NO, 0, 0},
                                {END, 0, 50, 0, 0, NO, 0, 0}};
static struct ips_wait h1_waits[] = {
    {.arc = 1, .cause = PEER, .of_node = true, .ns = 93},
    {.arc = 4, .cause = PEER, .of_node = true, .ns = 55},
    {.arc = 8, .cause = DISK, .ns = 18, .end_ns = 48}};

/* EVIDENCE-OF: IPS-15. Would catch blame that stops at the first thread, looks
 * beyond what was sent, or does not add up to the wait. */
static void test_waits__golden_chain(void **state)
{
    (void)state;
    struct ips_graph g;
    struct ips_waits w;
    row_graph(h1, 10, &g);
    assert_int_equal(
        0, ips_waits_set_begin_and_end_times(&g, h1_waits, 3, &w, NULL));
    struct parts p = blamed(&w, 0, 0, UINT64_MAX);
    assert_int_equal(93, p.sum);
    assert_int_equal(3, part(&p, IPS_BLAME_WOKEN, 0, 0));
    assert_int_equal(10, part(&p, IPS_BLAME_DELIVERY, 1, 0));
    assert_int_equal(25, part(&p, IPS_BLAME_COMPUTE, 1, 0));
    assert_int_equal(5, part(&p, IPS_BLAME_OFF_CPU, 1, 0));
    assert_int_equal(10, part(&p, IPS_BLAME_DELIVERY, 2, 0));
    assert_int_equal(18, part(&p, IPS_BLAME_WAITED, 2, DISK));
    assert_int_equal(15, part(&p, IPS_BLAME_COMPUTE, 2, 0));
    assert_int_equal(6, part(&p, IPS_BLAME_RUNNABLE, 2, 0));
    assert_int_equal(1, part(&p, IPS_BLAME_OFF_CPU, 2, 0));
    p = blamed(&w, 2, 0, UINT64_MAX);
    assert_int_equal(18, p.sum);
    assert_int_equal(18, part(&p, IPS_BLAME_WAITED, 2, DISK));
    /* Only from 55 to 70: A's message was on the way, then B computed. */
    p = blamed(&w, 0, 55, 70);
    assert_int_equal(15, p.sum);
    assert_int_equal(5, part(&p, IPS_BLAME_DELIVERY, 2, 0));
    assert_int_equal(8, part(&p, IPS_BLAME_COMPUTE, 1, 0));
    assert_int_equal(2, part(&p, IPS_BLAME_OFF_CPU, 1, 0));
    ips_waits_release(&w);
    ips_graph_release(&g);
}

/* C (chain 0) waits for B (1), which waits for messages of A (2) again and
 * again: more than the blamer first has room for. */
#define MESSAGES 70u
static struct ips_wait many_waits[MESSAGES + 1];

static void make_many_waits(struct ips_graph *g)
{
    enum { B = 3, A = B + MESSAGES + 3, END_A = A + MESSAGES + 1 };
    struct row rows[END_A + 1] = {{START, 0, 0, 0, 0, NO, 0, 0},
                                  {RECV, 0, 710, 710, 0, IPS_X_DATA, A - 2, 0},
                                  {END, 0, 710, 0, 0, NO, 0, 0},
                                  [B] = {START, 0, 0, 0, 0, NO, 0, 0},
                                  [A - 2] = {SEND, 5, 705, 0, 0, NO, 0, 0},
                                  [A - 1] = {END, 0, 705, 0, 0, NO, 0, 0},
                                  [A] = {START, 0, 0, 0, 0, NO, 0, 0},
                                  [END_A] = {END, 0, 700, 0, 0, NO, 0, 0}};
    many_waits[0] =
        (struct ips_wait){.arc = 1, .cause = PEER, .of_node = true, .ns = 710};
    for (uint32_t k = 1; k <= MESSAGES; k++) {
        rows[B + k] = (struct row){RECV, 5, 10 * k, 5, 0, IPS_X_DATA, A + k, 0};
        rows[A + k] = (struct row){SEND, 9, 10 * k - 1, 0, 0, NO, 0, 0};
        many_waits[k] = (struct ips_wait){
            .arc = B + k, .cause = PEER, .of_node = true, .ns = 5};
    }
    row_graph(rows, END_A + 1, g);
}

static int blame_first(void *arg)
{
    struct parts p = {.count = 0};
    struct ips_blamer b = {.put = on_part, .arg = &p, .budget = UINT64_MAX};
    struct ips_waits w;
    uint64_t ns;
    int rc = ips_waits_set_begin_and_end_times(arg, many_waits, MESSAGES + 1,
                                               &w, NULL);
    if (rc < 0)
        return rc;
    b.w = &w;
    rc = ips_blame_wait(&b, &w.wait[0], 0, UINT64_MAX, &ns, NULL);
    ips_blamer_release(&b);
    ips_waits_release(&w);
    return rc;
}

/* Would catch: waits that are followed no further, and nothing says so, where
 * memory lacks. */
static void test_waits__memory(void **state)
{
    struct ips_graph g;
    (void)state;
    make_many_waits(&g);
    assert_true(each_allocation(blame_first, &g) >= 4);
    ips_graph_release(&g);
}

/* H2. The one waited for was not there yet: P waits from 0 for what a child
 * that it has not made itself sends at 40; Q made it at 15, it began at 18. */
static const struct row h2[] = {{START, 0, 0, 0, 0, NO, 0, 0},
                                {RECV, 0, 40, 40, 0, IPS_X_DATA, 7, 0},
                                {END, 0, 40, 0, 0, NO, 0, 0},
                                {START, 0, 2, 0, 0, NO, 0, 0},
                                {IPS_NODE_FORK, 13, 15, 0, 0, NO, 0, 0},
                                {END, 0, 15, 0, 0, NO, 0, 0},
                                {START, 0, 18, 0, 0, IPS_X_LIFETIME, 4, 0},
                                {SEND, 22, 40, 0, 0, NO, 0, 0},
                                {END, 0, 41, 0, 0, NO, 0, 0}};

/* Would catch time before a thread's begin that is nobody's, or lost. */
static void test_waits__golden_not_begun(void **state)
{
    (void)state;
    struct ips_wait wait = {.arc = 1, .of_node = true, .ns = 40};
    struct ips_graph g;
    struct ips_waits w;
    row_graph(h2, 9, &g);
    assert_int_equal(0,
                     ips_waits_set_begin_and_end_times(&g, &wait, 1, &w, NULL));
    struct parts p = blamed(&w, 0, 0, UINT64_MAX);
    assert_int_equal(40, p.sum);
    assert_int_equal(22, part(&p, IPS_BLAME_COMPUTE, 2, 0));
    assert_int_equal(3, part(&p, IPS_BLAME_DELIVERY, 1, 0));
    assert_int_equal(13, part(&p, IPS_BLAME_COMPUTE, 1, 0));
    assert_int_equal(2, part(&p, IPS_BLAME_NOT_BEGUN, 1, 0));
    ips_waits_release(&w);
    ips_graph_release(&g);
}

/* H3. Who is late: a receive waits for its sender, a send for room; a lock for
 * neither, and a send that nobody made room for. */
static void test_waits__lateness(void **state)
{
    (void)state;
    static const struct row row[] = {{START, 0, 0, 0, 0, NO, 0, 0},
                                     {SEND, 1, 1, 0, 0, NO, 0, 0},
                                     {AUX, 0, 9, 8, 0, IPS_X_ROOM, 6, 0},
                                     {AUX, 0, 9, 0, 0, NO, 0, 0},
                                     {END, 0, 9, 0, 0, NO, 0, 0},
                                     {START, 0, 0, 0, 0, NO, 0, 0},
                                     {RECV, 8, 9, 0, 0, IPS_X_DATA, 1, 0},
                                     {AUX, 0, 9, 0, 0, IPS_X_RESOURCE, 1, 0},
                                     {END, 0, 9, 0, 0, NO, 0, 0}};
    struct ips_wait wait[] = {{.arc = 2, .of_node = true, .ns = 8},
                              {.arc = 3, .of_node = true, .ns = 1},
                              {.arc = 6, .of_node = true, .ns = 1},
                              {.arc = 7, .of_node = true, .ns = 1},
                              {.arc = 6, .ns = 1}};
    static const enum ips_lateness late[] = {IPS_LATE_RECEIVER, IPS_LATE_NONE,
                                             IPS_LATE_SENDER, IPS_LATE_NONE,
                                             IPS_LATE_NONE};
    struct ips_graph g;
    row_graph(row, 9, &g);
    for (int i = 0; i < 5; i++)
        assert_int_equal(late[i], ips_wait_late_side(&g, &wait[i]));
    ips_graph_release(&g);
}

/* ---- idle time ---- */

static uint64_t idle_sum(const struct ips_idle *o)
{
    uint64_t sum = o->running + o->spun + o->others + o->unknown + o->nobody +
                   o->before + o->after;
    for (uint32_t c = 0; c < IPS_IDLE_CAUSES; c++)
        sum += o->cause[c];
    return sum;
}

/* Shares of a moment are whole ns; what they leave comes with the next. */
static void about(uint64_t ns, uint64_t got)
{
    assert_in_range(got, ns ? ns - 1 : 0, ns + 1);
}

/* H4. H1's machine, as if it had 3 cores, from 0 to 120: 360. A computes 22 and
 * is queued 10 of its 32 awake ns, 0..30 and 48..50.
 *
 *    0..5    C 5, B 5, A 3 7/16 run; A queued 1 9/16: others'; nothing left
 *    5..10   C 5, A 3 7/16 run; 1 9/16 others'; 5 left: B waits (peer)
 *   10..30   A 13 3/4 runs; 6 1/4 others'; 40 left: C and B wait (peer)
 *   30..48   54 left for C, B (peer 36) and A (disk 18)
 *   48..50   A 1 3/8 runs; 5/8 others'; 4 left (peer)
 *   50..60   A has ended; 30 left (peer)
 *   60..90   B runs 25, off its core 5: unknown; 60 left: C waits (peer)
 *   90..95   B off its core 5; 10 left (peer)
 *   95..100  15 left (peer)
 *  100..110  C off its core 10; 20 left, and nobody waits
 *  110..120  all have ended: 30 */
static void test_idle__golden(void **state)
{
    (void)state;
    struct ips_graph g;
    struct ips_waits w;
    struct ips_idle o;
    row_graph(h1, 10, &g);
    assert_int_equal(
        0, ips_waits_set_begin_and_end_times(&g, h1_waits, 3, &w, NULL));
    assert_int_equal(0,
                     ips_idle_account_core_time(&w, 0, 3, 0, 120, 0, &o, NULL));
    assert_int_equal(360, idle_sum(&o));
    about(62, o.running);
    assert_int_equal(0, o.over);
    about(10, o.others);
    about(20, o.unknown);
    about(200, o.cause[PEER]);
    about(18, o.cause[DISK]);
    about(20, o.nobody);
    assert_int_equal(0, o.before);
    about(30, o.after);
    /* Only a third machine's worth: nobody is there. */
    assert_int_equal(0,
                     ips_idle_account_core_time(&w, 7, 3, 0, 120, 0, &o, NULL));
    assert_int_equal(360, o.before + o.after);
    ips_waits_release(&w);
    ips_graph_release(&g);
}

/* H5. Two cores: one thread is there from 5 on and waits from 10 to 40 for a
 * lock; another waits 10..20 for a peer, spins 20..30, and for its disk to 40.
 */
static void test_idle__spin_and_split(void **state)
{
    (void)state;
    static const struct row row[] = {
        {START, 0, 5, 0, 0, NO, 0, 0}, {AUX, 5, 40, 30, 0, NO, 0, 0},
        {END, 0, 40, 0, 0, NO, 0, 0},  {START, 0, 10, 0, 0, NO, 0, 0},
        {AUX, 0, 40, 30, 0, NO, 0, 0}, {END, 0, 40, 0, 0, NO, 0, 0}};
    struct ips_wait wait[] = {
        {.arc = 1, .cause = LOCK, .of_node = true, .ns = 30},
        {.arc = 4, .cause = PEER, .of_node = true, .ns = 10},
        {.arc = 4, .cause = SPIN, .of_node = true, .ns = 10},
        {.arc = 4, .cause = DISK, .of_node = true, .ns = 10}};
    struct ips_graph g;
    struct ips_waits w;
    struct ips_idle o;
    row_graph(row, 6, &g);
    assert_int_equal(0,
                     ips_waits_set_begin_and_end_times(&g, wait, 4, &w, NULL));
    assert_int_equal(
        0, ips_idle_account_core_time(&w, 0, 2, 0, 50, 1u << SPIN, &o, NULL));
    assert_int_equal(100, idle_sum(&o));
    assert_int_equal(10, o.before);
    assert_int_equal(5, o.running);
    assert_int_equal(5, o.nobody);       /* 5..10, the second core */
    assert_int_equal(10, o.spun);        /* 20..30 */
    assert_int_equal(20, o.after);       /* 40..50 */
    assert_int_equal(10, o.cause[PEER]); /* half of 2 x 10..20 */
    assert_int_equal(10, o.cause[DISK]); /* half of 2 x 30..40 */
    assert_int_equal(30, o.cause[LOCK]); /* the other halves, and 20..30 */
    ips_waits_release(&w);
    ips_graph_release(&g);
}

/* More threads than cores computed: it counts as soon as there is room, and
 * what finds none is said. */
static void test_idle__more_than_cores(void **state)
{
    (void)state;
    static const struct row row[] = {
        {START, 0, 0, 0, 0, NO, 0, 0}, {END, 10, 10, 0, 0, NO, 0, 0},
        {START, 0, 0, 0, 0, NO, 0, 0}, {END, 10, 10, 0, 0, NO, 0, 0},
        {START, 0, 0, 0, 0, NO, 0, 0}, {END, 0, 14, 0, 14, NO, 0, 0}};
    struct ips_graph g;
    struct ips_waits w;
    struct ips_idle o;
    row_graph(row, 6, &g);
    assert_int_equal(0,
                     ips_waits_set_begin_and_end_times(&g, NULL, 0, &w, NULL));
    assert_int_equal(0,
                     ips_idle_account_core_time(&w, 0, 1, 0, 14, 0, &o, NULL));
    assert_int_equal(14, o.running);
    assert_int_equal(6, o.over);
    assert_int_equal(14, idle_sum(&o));
    assert_int_equal(0,
                     ips_idle_account_core_time(&w, 0, 1, 0, 30, 0, &o, NULL));
    assert_int_equal(20, o.running);
    assert_int_equal(0, o.over);
    assert_int_equal(10, o.after);
    assert_int_equal(30, idle_sum(&o));
    ips_waits_release(&w);
    ips_graph_release(&g);
}

/* ---- every graph ---- */

static void hold_blame(const struct ips_waits *w, uint64_t seed)
{
    uint64_t middle = seed * 7 % 200;
    for (uint64_t i = 0; i < w->count; i++) {
        const struct ips_wait *x = &w->wait[i];
        struct parts all = blamed(w, i, 0, UINT64_MAX);
        assert_int_equal(x->ns, all.sum);
        assert_true(x->to - x->from <= x->ns);
        struct parts a = blamed(w, i, 0, middle);
        struct parts b = blamed(w, i, middle, UINT64_MAX);
        assert_int_equal(x->ns, a.sum + b.sum);
        struct parts none = {.count = 0};
        struct ips_blamer poor = {.w = w, .put = on_part, .arg = &none};
        uint64_t ns;
        assert_int_equal(0, ips_blame_wait(&poor, x, 0, UINT64_MAX, &ns, NULL));
        assert_int_equal(x->ns, none.sum);
        ips_blamer_release(&poor);
    }
}

/* EVIDENCE-OF: IPS-15. Whatever the times are, and cut wherever: the parts add
 * up to the wait, waits do not lie on each other, and a machine's cores are
 * accounted for to the ns. */
static void test_waits__sums(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct rg_options opt = rg_options_of(seed);
        struct rg r;
        struct ips_wait *wait;
        struct ips_waits w;
        struct ips_idle o;
        rg_make(&opt, &r);
        uint64_t n = rw_make(&r.whole, seed, seed % 3 == 0, &wait);
        assert_int_equal(
            0, ips_waits_set_begin_and_end_times(&r.whole, wait, n, &w, NULL));
        for (uint64_t i = 1; i < n; i++)
            if (wait[i].arc == wait[i - 1].arc)
                assert_true(wait[i].from >= wait[i - 1].to);
        hold_blame(&w, seed);
        for (uint32_t m = 0; m < r.machines; m++) {
            uint64_t from = seed % 50, to = 400 + seed % 900;
            uint32_t cores = 1 + (uint32_t)(seed % 5);
            assert_int_equal(0, ips_idle_account_core_time(&w, m, cores, from,
                                                           to, 2, &o, NULL));
            assert_int_equal(cores * (to - from), idle_sum(&o));
        }
        ips_waits_release(&w);
        free(wait);
        rg_release(&r);
    }
}

static void test_waits__bad_input(void **state)
{
    (void)state;
    struct ips_graph g;
    struct ips_waits w;
    struct ips_idle o;
    row_graph(h1, 10, &g);
    struct ips_wait out_of_order[] = {{.arc = 4}, {.arc = 1}};
    assert_int_equal(IPS_E_USAGE, ips_waits_set_begin_and_end_times(
                                      &g, out_of_order, 2, &w, NULL));
    struct ips_wait beyond = {.arc = 10};
    assert_int_equal(IPS_E_USAGE, ips_waits_set_begin_and_end_times(
                                      &g, &beyond, 1, &w, NULL));
    assert_int_equal(0,
                     ips_waits_set_begin_and_end_times(&g, NULL, 0, &w, NULL));
    assert_int_equal(IPS_E_LIMIT,
                     ips_idle_account_core_time(&w, 0, 1u << 20, 0, UINT64_MAX,
                                                0, &o, NULL));
    ips_waits_release(&w);
    ips_free_large(g.at);
    g.at = NULL;
    assert_int_equal(IPS_E_USAGE,
                     ips_waits_set_begin_and_end_times(&g, NULL, 0, &w, NULL));
    ips_graph_release(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_waits__golden_chain),
        cmocka_unit_test(test_waits__memory),
        cmocka_unit_test(test_waits__golden_not_begun),
        cmocka_unit_test(test_waits__lateness),
        cmocka_unit_test(test_idle__golden),
        cmocka_unit_test(test_idle__spin_and_split),
        cmocka_unit_test(test_idle__more_than_cores),
        cmocka_unit_test(test_waits__sums),
        cmocka_unit_test(test_waits__bad_input),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
