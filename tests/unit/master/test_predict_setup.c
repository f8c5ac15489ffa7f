/*
 * Machines, placements and moves of a prediction (master/predict/setup.c), from
 * a run made by hand, every field of the setup and every sentence about it.
 * Would catch: a value of one machine that is another's or the run's, a pattern
 * that fits too much or nothing, a load in other units than it was recorded in,
 * a move that is left out, a default that is not said.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "each_allocation.h"
#include "master/predict/predict.h"
#include "proto/message.h"

#define SAME(a, b) assert_string_equal(a, b)
#define TEXT(t) ips_unconst_text(t)

enum { CHAINS = 4, MACHINES = 3, PLACES = 4, MOVES = 3 };

static struct {
    struct ips_graph whole;
    struct ips_chain chain[CHAINS];
    struct entities t;
    struct predict_recorded_machine own[2];
    struct predict_thread thread[CHAINS];
    struct predict_cut cut[4];
    struct predict_run run;
    struct predict_machine fitted[2];
    struct predict_setup as_own, out;
    struct arena a;
    struct predict_assumptions said;
    struct ips_err err;
    Ips__PredictAsk ask;
    Ips__PredictMachine machine[MACHINES], *machines[MACHINES];
    Ips__PredictPlace place[PLACES], *places[PLACES];
    Ips__PredictMove move[MOVES], *moves[MOVES];
    Ips__PredictSearch search;
} w;

static void begin(void)
{
    predict_setup_release(&w.out);
    arena_release(&w.a);
    memset(&w, 0, sizeof(w));
    w.thread[0] = (struct predict_thread){"front.10", "main", 0, 10, 10};
    w.thread[1] = (struct predict_thread){"front.10", "io", 0, 10, 11};
    w.thread[2] = (struct predict_thread){"back.7", "", 1, 7, 7};
    w.thread[3] = (struct predict_thread){"back.8", "io", 1, 8, 8};
    for (uint32_t i = 0; i < CHAINS; i++)
        w.chain[i].machine = w.thread[i].own;
    w.whole.chains = w.chain;
    w.whole.chain_count = CHAINS;
    w.own[0] = (struct predict_recorded_machine){
        .name = "m1", .cores = 4, .load_samples = 3, .load_milli = 2345};
    w.own[1] = (struct predict_recorded_machine){.name = "m2"};
    w.fitted[1].is.load = (struct ips_ratio){7, 4};
    w.as_own.machine = w.fitted;
    w.as_own.machine_count = 2;
    w.run.whole = &w.whole;
    w.run.t = &w.t;
    w.run.own = w.own;
    w.run.own_count = 2;
    w.run.thread = w.thread;
    w.run.cut = w.cut;
    w.said.a = &w.a;
    ips__predict_ask__init(&w.ask);
    w.ask.machines = w.machines;
    w.ask.map = w.places;
    w.ask.moves = w.moves;
    for (uint32_t i = 0; i < MACHINES; i++) {
        w.machines[i] = &w.machine[i];
        ips__predict_machine__init(&w.machine[i]);
    }
    for (uint32_t i = 0; i < PLACES; i++) {
        w.places[i] = &w.place[i];
        ips__predict_place__init(&w.place[i]);
    }
    for (uint32_t i = 0; i < MOVES; i++) {
        w.moves[i] = &w.move[i];
        ips__predict_move__init(&w.move[i]);
    }
}

static void map(const char *what, const char *machine)
{
    w.place[w.ask.n_map].what = ips_unconst_text(what);
    w.place[w.ask.n_map++].machine = ips_unconst_text(machine);
}

static int make(void)
{
    predict_setup_release(&w.out);
    w.said.count = 0;
    w.err = (struct ips_err){0};
    return predict_setup_make(&w.run, &w.as_own, &w.ask, &w.said, &w.out,
                              &w.err);
}

static void made(void)
{
    if (make() < 0)
        fail_msg("%s", w.err.msg);
}

static void said(const char *const *text, size_t count)
{
    for (size_t i = 0; i < w.said.count; i++)
        if (i >= count || strcmp(w.said.text[i], text[i]) != 0)
            fail_msg("%zu: %s", i, w.said.text[i]);
    assert_int_equal(w.said.count, count);
}

static void ratio(struct ips_ratio r, uint32_t num, uint32_t den)
{
    assert_int_equal(r.num, num);
    assert_int_equal(r.den, den);
}

/* ---- machines ------------------------------------------------------------ */

static void test_setup__as_recorded(void **state)
{
    static const char *const text[] = {
        "one core each: m2 (neither recorded nor given)"};
    (void)state;
    begin();
    made();
    said(text, 1);
    assert_int_equal(w.out.machine_count, 2);
    assert_int_equal(w.out.chain_count, CHAINS);
    for (uint32_t i = 0; i < CHAINS; i++) {
        assert_int_equal(w.out.map[i], w.thread[i].own);
        assert_false(w.out.placed[i]);
    }
    for (uint32_t m = 0; m < 2; m++) {
        const struct predict_machine *x = &w.out.machine[m];
        SAME(x->name, w.own[m].name);
        assert_int_equal(x->is.cores, m ? 1 : 4);
        assert_int_equal(x->unknown, m == 1);
        assert_true(x->recorded);
        assert_false(x->named || x->one_core);
    }
    struct predict_setup own;
    assert_int_equal(predict_make_own_setup(&w.run, &own, NULL), 0);
    assert_int_equal(own.machine_count, 2);
    assert_int_equal(own.map[3], 1);
    predict_setup_release(&own);
}

static void test_setup__machines(void **state)
{
    static const char *const text[] = {
        "one core each: new (cores= was not given)",
        "no process is on machine new"};
    (void)state;
    begin();
    w.machine[0].name = TEXT("m2");
    w.machine[0].cores = 6;
    w.machine[0].speed_num = 3;
    w.machine[0].speed_den = 2;
    w.machine[0].load_num = 1;
    w.machine[0].load_den = 4;
    w.machine[0].taken_num = 10;
    w.machine[0].taken_den = 100;
    w.machine[0].turn_said = true;
    w.machine[0].turn_ns = 5;
    w.machine[1].name = TEXT("new");
    w.ask.n_machines = 2;
    map("front", "m2");
    made();
    said(text, 2);
    assert_int_equal(w.out.machine_count, 3);
    const struct predict_machine *m = w.out.machine;
    assert_false(m[0].named);
    assert_int_equal(m[0].is.cores, 4);
    assert_true(m[1].named && m[1].recorded);
    assert_false(m[1].unknown || m[1].one_core);
    assert_int_equal(m[1].is.cores, 6);
    ratio(m[1].is.speed, 3, 2);
    ratio(m[1].is.load, 1, 4);
    ratio(m[1].load, 10, 100);
    assert_int_equal(m[1].is.turn_ns, 5);
    SAME(m[2].name, "new");
    assert_true(m[2].named && m[2].one_core);
    assert_false(m[2].recorded || m[2].unknown);
    assert_int_equal(m[2].is.cores, 1);
    assert_int_equal(m[2].is.turn_ns, PREDICT_TURN_NS);
    const uint32_t placed[CHAINS] = {1, 1, 1, 1};
    assert_memory_equal(w.out.map, placed, sizeof(placed));
    assert_true(w.out.placed[0] && w.out.placed[1]);
    assert_false(w.out.placed[2] || w.out.placed[3]);
    w.ask.n_map = 0; /* a new machine is for something */
    assert_int_equal(make(), IPS_E_USAGE);
    SAME(w.err.msg, "no process is on machine new: name some with --map, as in "
                    "--map '*=new'");
    assert_null(w.out.machine); /* nothing is left of it */
}

static struct ips_ratio recorded_load(uint64_t milli)
{
    w.own[0].load_milli = milli;
    made();
    return w.out.machine[0].is.load;
}

static void test_setup__recorded_load(void **state)
{
    static const char *const text[] = {
        "the load of m1 is 2.35: its load average while the run was on (3 "
        "samples) less that of the run's own threads",
        "the load of m2 is 1.75: with it the threads wait for cores as long as "
        "the kernel recorded (the load average was not recorded)",
        "one core each: m2 (neither recorded nor given)"};
    (void)state;
    begin();
    w.machine[0].name = TEXT("m1");
    w.machine[1].name = TEXT("m2");
    w.machine[0].load_recorded = w.machine[1].load_recorded = true;
    w.ask.n_machines = 2;
    made();
    said(text, 3);
    ratio(w.out.machine[0].is.load, 235, 100); /* to the nearest hundredth */
    ratio(w.out.machine[1].is.load, 7, 4);
    ratio(recorded_load(2344), 234, 100);
    ratio(recorded_load(100004), 10000, 100);
    ratio(recorded_load(100010), 100, 1);
    ratio(recorded_load(9999990), 9999, 1);
    ratio(recorded_load(10000000), 10000, 1);
    ratio(recorded_load(UINT64_C(1) << 50), 10000, 1);
}

/* ---- who fits ------------------------------------------------------------ */

static void test_setup__patterns(void **state)
{
    static const struct {
        const char *pattern, *threads;
    } t[] = {
        {"front", "01"},
        {"front.10", "01"},
        {"fr*", "01"},
        {"f", ""},
        {"back", "23"},
        {"back.7", "2"},
        {"*", "0123"},
        {"7", "2"},
        {"10", "01"},
        {"11", ""},
        {"/m1", "01"},
        {"/m2", "23"},
        {"/m*", "0123"},
        {"/m1/front.10", "01"},
        {"/m2/front.10", ""},
        {"m2/back.8", "3"},
        {"/m?/*", "0123"},
        {"/m1/front.10/11", "1"},
        {"/m1/front.10/io", "1"},
        {"/*/*/io", "13"},
        {"/m2/back.7/7", "2"},
        {"/m2/back.7/io", ""},
        {"/m1/front", ""},
        {"/m2/back.7/", ""},
    };
    (void)state;
    begin();
    for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++) {
        char got[8] = "";
        for (uint32_t c = 0, n = 0; c < CHAINS; c++)
            if (predict_thread_matches(&w.run, &w.thread[c], t[i].pattern))
                got[n++] = (char)('0' + c);
        if (strcmp(got, t[i].threads) != 0)
            fail_msg("%s fits \"%s\"", t[i].pattern, got);
    }
    /* The last one that fits decides. */
    map("*", "m2");
    map("io", "m1");
    assert_int_equal(make(), IPS_E_NOT_FOUND); /* that is a thread */
    w.ask.n_map = 1;
    map("/*/*/io", "m1");
    map("8", "m2");
    made();
    const uint32_t placed[CHAINS] = {1, 0, 1, 1};
    assert_memory_equal(w.out.map, placed, sizeof(placed));
}

/* ---- moves --------------------------------------------------------------- */

static void test_setup__moves(void **state)
{
    static const char *const text[] = {
        "one core each: m2 (neither recorded nor given)",
        "nothing moves to m2 1.500 s after the start: back had ended by then"};
    (void)state;
    begin();
    for (uint32_t i = 0; i < MOVES; i++) {
        w.move[i].what = TEXT("back");
        w.move[i].machine = TEXT(i == 1 ? "m1" : "m2");
    }
    w.move[2].at_ns = 1500000000;
    w.ask.n_moves = MOVES;
    const struct predict_cut cut[] = {{5, 0}, {5, 1}, {9, 0}, {12, 1}};
    memcpy(w.cut, cut, sizeof(cut));
    w.run.cut_count = 4;
    made();
    said(text, 2);
    assert_int_equal(w.out.move_count, 3);
    const struct ips_replay_move move[] = {{5, 0}, {9, 1}, {12, 0}};
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(w.out.move[i].node, move[i].node);
        assert_int_equal(w.out.move[i].machine, move[i].machine);
    }
    w.move[0].machine = TEXT("m3");
    assert_int_equal(make(), IPS_E_NOT_FOUND);
    SAME(w.err.msg,
         "--move back@...=m3: no such machine; there are m1, m2; did "
         "you mean 'm1'?");
}

/* A machine of which only moves are is used; a search shares cores evenly. */
static void test_setup__search(void **state)
{
    static const char *const text[] = {
        "threads and load of new share its cores evenly: a search ignores "
        "turn=",
        "one core each: m2 (neither recorded nor given)"};
    (void)state;
    begin();
    w.machine[0].name = TEXT("new");
    w.machine[0].cores = 2;
    w.machine[0].load_num = w.machine[0].load_den = 1;
    w.machine[0].turn_said = true;
    w.machine[0].turn_ns = 7;
    w.ask.n_machines = 1;
    w.ask.search = &w.search;
    made(); /* it need not have a process yet */
    said(text, 2);
    assert_int_equal(w.out.machine[2].is.turn_ns, 0);
    w.ask.search = NULL;
    w.move[0].what = TEXT("back");
    w.move[0].machine = TEXT("new");
    w.ask.n_moves = 1;
    w.cut[0] = (struct predict_cut){5, 0};
    w.run.cut_count = 1;
    made();
    said(text + 1, 1);
    assert_int_equal(w.out.machine[2].is.turn_ns, 7);
    begin();
}

static int make_and_release(void *arg)
{
    (void)arg;
    int rc = make();
    predict_setup_release(&w.out);
    return rc;
}

static void test_setup__no_memory(void **state)
{
    static Ips__PredictNet net, *nets[] = {&net};
    (void)state;
    begin();
    ips__predict_net__init(&net);
    net.from = net.to = TEXT("m?");
    net.medium = TEXT("bus");
    w.ask.nets = nets;
    w.ask.n_nets = 1;
    w.machine[0].name = TEXT("m3");
    w.machine[0].cores = 2;
    w.ask.n_machines = 1;
    map("back", "m3");
    w.own[1].cores = 2; /* nothing has to be said */
    assert_true(each_allocation(make_and_release, NULL) > 8);
    begin();
}

#define CASE(name) cmocka_unit_test(test_setup__##name)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(as_recorded), CASE(machines), CASE(recorded_load), CASE(patterns),
        CASE(moves),       CASE(search),   CASE(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
