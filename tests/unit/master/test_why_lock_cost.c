/*
 * What contended locks cost (master/why/lock_cost.c), from samples made by
 * hand: who takes a lock, from where, and how much of it is on the path. Would
 * catch: a lock that nobody else wants and that is counted, or the other way
 * round; time of another procedure or of another caller; a part of the path
 * that is scaled by the wrong sum; a proof that is off by one sample.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "each_allocation.h"
#include "master/why/facts.h"

#define SAME(a, b) assert_string_equal(a, b)
#define COUNT(a) (sizeof(a) / sizeof(*(a)))

enum { TAKE, GIVE, YIELD, QUEUE, LOG, MAIN, SERVE, RARE, SYMBOLS };
enum { CONTENDED = 1, GIVEN = 2, LIBRARY = 4, YIELDS = 8 }; /* PortionsAnswer */
enum { PROCEDURES = 3, FEATURES = 4, NODES = 6, CHAINS = 2 };

static struct {
    struct why_solving y;
    struct why_data d;
    struct machine_entities machine[2];
    struct arc_profile profile[2];
    struct entity_symbol symbol[SYMBOLS], procedure[PROCEDURES];
    struct entity_feature feature[FEATURES];
    uint64_t share[FEATURES], w[NODES], unknown[NODES];
    struct ips_chain chain[CHAINS];
    uint32_t process_of[CHAINS];
    struct ips_graph g;
    struct ips_err err;
    uint32_t leaf[3], caller[3];
    uint64_t caller_ns[3];
    struct arc_lock_time lock[8];
} x;

/* Nodes 1, 2 and 5 have 100 ns of TAKE and 50 of GIVE, 3 has time of a process.
 * Nodes 4 and 5 are another thread's. */
static const uint64_t first[NODES + 1] = {0, 0, 2, 4, 5, 5, 7};
static const struct ips_arc_share arc_share[] = {
    {.feature = 0, .ns = 100}, {.feature = 1, .ns = 50},
    {.feature = 0, .ns = 100}, {.feature = 1, .ns = 50},
    {.feature = 3, .ns = 900}, {.feature = 0, .ns = 100},
    {.feature = 1, .ns = 50}};

/* On the first machine it was sampled for 2000 and 1000 ns, of which 1000 and
 * 500 are on the path, in two procedures that take and release locks. */
static void begin(void)
{
    static const char *const names[SYMBOLS] = {
        "a_take", "b_give", "c_yield", "queue", "log", "main", "serve", "rare"};
    free(x.y.lock_ppm);
    free(x.y.lock_cpu);
    free((void *)x.y.yields);
    free(x.y.reads_memory);
    free(x.y.spins);
    arena_release(&x.d.a);
    memset(&x, 0, sizeof(x));
    for (uint32_t i = 0; i < SYMBOLS; i++)
        x.symbol[i] = (struct entity_symbol){names[i], "/bin/m", "m.c", 10 + i};
    for (uint32_t i = 0; i < FEATURES; i++)
        x.feature[i] = (struct entity_feature){
            .kind = i < PROCEDURES ? ENTITY_PROCEDURE : ENTITY_PROCESS,
            .procedure = i};
    memcpy(x.procedure, x.symbol, sizeof(x.procedure));
    const uint64_t share[FEATURES] = {1000, 500, 70, 9999};
    memcpy(x.share, share, sizeof(share));
    const uint32_t leaf[] = {TAKE, GIVE, TAKE}, caller[] = {TAKE, GIVE, MAIN};
    const uint64_t ns[] = {2000, 1000, 555}; /* the last: of a caller */
    memcpy(x.leaf, leaf, sizeof(leaf));
    memcpy(x.caller, caller, sizeof(caller));
    memcpy(x.caller_ns, ns, sizeof(ns));
    x.profile[0] = (struct arc_profile){.symbol = x.symbol,
                                        .symbol_count = SYMBOLS,
                                        .leaf = x.leaf,
                                        .caller = x.caller,
                                        .caller_ns = x.caller_ns,
                                        .callers = 3,
                                        .lock = x.lock};
    x.d.w.arc_profile = x.profile;
    x.d.w.t = (struct entities){
        .machine = x.machine,
        .machine_count = 2,
        .f = {.count = FEATURES, .first = first, .arc_share = arc_share},
        .feature = x.feature,
        .procedure = x.procedure,
        .procedure_count = PROCEDURES};
    x.d.facts.sample_ns = 100;
    x.g.node_count = NODES;
    x.g.w = x.w;
    x.w[1] = 60; /* less than its shares say */
    x.w[2] = 1300;
    x.w[3] = 900;
    x.w[5] = 1000;
    x.chain[0].count = 4;
    x.chain[1] = (struct ips_chain){.first = 4, .count = 2};
    x.g.chains = x.chain;
    x.g.chain_count = CHAINS;
    x.y.process_of = x.process_of;
    x.y.processes = 2;
    x.y.d = &x.d;
    x.y.s.g = &x.g;
    x.y.s.share = x.share;
    x.y.s.err = &x.err;
    x.y.procedures = PROCEDURES;
    x.y.unknown = x.unknown;
    x.y.cpu = x.w;
}

static struct arc_lock_time *sampled(uint32_t leaf, uint32_t site,
                                     uint32_t caller, uint32_t how, uint64_t ns)
{
    struct arc_lock_time *l = &x.lock[x.profile[0].locks++];
    *l = (struct arc_lock_time){leaf, site, caller, how, ns};
    return l;
}

static const struct why_lock_cost *cost(void)
{
    free(x.y.lock_ppm);
    free(x.y.lock_cpu);
    free((void *)x.y.yields);
    free(x.y.reads_memory);
    free(x.y.spins);
    x.y.lock_ppm = NULL;
    x.y.lock_cpu = NULL;
    x.y.yields = NULL;
    x.y.reads_memory = NULL;
    x.y.spins = NULL;
    x.d.facts.amount[WHY_LOCK].lock = NULL;
    assert_int_equal(why_estimate_lock_cost_and_spinning(&x.y), 0);
    return x.d.facts.amount[WHY_LOCK].lock;
}

/* One lock that is wanted, asked for by two and given by one; one that is not.
 */
static struct arc_lock_time *one_of_two(void)
{
    begin();
    sampled(TAKE, LOG, MAIN, 0, 1000);
    sampled(TAKE, QUEUE, MAIN, CONTENDED, 600);
    sampled(TAKE, QUEUE, SERVE, CONTENDED, 300);
    sampled(RARE, QUEUE, SERVE, CONTENDED, 7000); /* in no arc */
    return sampled(GIVE, QUEUE, MAIN, GIVEN, 400);
}

static void test_lock_cost__of_the_path(void **state)
{
    (void)state;
    one_of_two();
    const struct why_lock_cost *c = cost();
    assert_non_null(c);
    /* 900 of 2000 ns of what takes 1000 of the path, 400 of 1000 of 500 */
    assert_int_equal(c->ns, 450 + 200);
    assert_int_equal(c->samples, 7);
    assert_false(c->library);
    assert_int_equal(c->unknown_ns, 0);
    SAME(c->site.procedure, "queue");
    SAME(c->site.module, "/bin/m");
    SAME(c->site.file, "m.c");
    assert_int_equal(c->site.source_line, 10 + QUEUE);
    assert_int_equal(c->site.procedure_ns, 300 + 150 + 200);
    SAME(c->caller.procedure, "main");
    assert_int_equal(c->caller.procedure_ns, 300 + 200);
    SAME(c->giver.procedure, "queue");
    assert_int_equal(c->giver.procedure_ns, 200);
    assert_int_equal(x.y.lock_ppm[TAKE], 450000);
    assert_int_equal(x.y.lock_ppm[GIVE], 400000);
    assert_int_equal(x.y.lock_ppm[YIELD], 0);
    const uint64_t cpu[NODES] = {0, 60, 65, 0, 0, 65};
    assert_memory_equal(x.y.lock_cpu, cpu, sizeof(cpu));
    assert_null(x.y.yields);
}

/* Locks inside the C library: nobody is named who gives them, and sleep in
 * arcs that take them may be theirs, as long as others that take them compute.
 */
static void test_lock_cost__of_the_library(void **state)
{
    (void)state;
    one_of_two();
    for (size_t i = 0; i < x.profile[0].locks; i++)
        x.lock[i].how |= x.lock[i].site == QUEUE ? LIBRARY : 0;
    x.unknown[1] = 30;
    x.unknown[2] = 800; /* the lock has 65 of 1300: just enough */
    x.unknown[3] = 8000;
    const struct why_lock_cost *c = cost();
    assert_true(c->library);
    assert_null(c->giver.procedure);
    SAME(c->site.procedure, "queue");
    assert_int_equal(c->unknown_ns, 30 + 800);
    x.w[2] = 1301;
    assert_int_equal(cost()->unknown_ns, 30);
    x.w[2] = 1300;
    x.unknown[2] = 980; /* the other thread computes for 1000 */
    x.unknown[5] = 7;
    assert_int_equal(cost()->unknown_ns, 1000 + 7);
    x.unknown[5] = 9000; /* as this one does for 60 and 1300 */
    assert_int_equal(cost()->unknown_ns, 1000 + 1360);
    x.w[5] = 1301; /* the lock is too little of it */
    assert_int_equal(cost()->unknown_ns, 0);
    x.w[5] = 1000;
    x.process_of[1] = 1; /* nobody else has the lock */
    assert_int_equal(cost()->unknown_ns, 0);
}

/* Three samples and a tenth are proof, of one place by itself. */
static void test_lock_cost__proof(void **state)
{
    (void)state;
    begin();
    struct arc_lock_time *proof = sampled(TAKE, QUEUE, MAIN, CONTENDED, 300);
    struct arc_lock_time *rest = sampled(TAKE, QUEUE, SERVE, 0, 2700);
    sampled(TAKE, LOG, MAIN, CONTENDED, 299);
    assert_non_null(cost());
    assert_int_equal(cost()->site.procedure_ns, (300 + 2700) / 2);
    SAME(cost()->caller.procedure, "serve");
    rest->ns++;
    assert_null(cost());
    rest->ns--;
    proof->ns--;
    assert_null(cost());
    x.d.facts.sample_ns = 0;
    rest->ns = 0;
    assert_non_null(cost());
    assert_int_equal(cost()->samples, 0);
    x.profile[0].locks = 0;
    assert_null(cost());
}

/* Another file of the same name is another place. */
static void test_lock_cost__places(void **state)
{
    (void)state;
    begin();
    x.symbol[LOG].name = x.symbol[QUEUE].name;
    x.symbol[LOG].file = "n.c";
    sampled(TAKE, LOG, MAIN, CONTENDED, 500);
    sampled(GIVE, LOG, MAIN, CONTENDED | GIVEN, 100);
    sampled(TAKE, QUEUE, MAIN, CONTENDED, 400);
    sampled(GIVE, QUEUE, MAIN, CONTENDED | GIVEN, 200);
    const struct why_lock_cost *c = cost();
    assert_int_equal(c->ns, 450 + 150);
    SAME(c->site.file, "m.c"); /* 200 + 100; the other's are 250 + 50 */
    assert_int_equal(c->site.procedure_ns, 300);
    SAME(c->giver.file, "m.c");
    assert_int_equal(c->giver.procedure_ns, 100);
    x.lock[0].ns += 2;
    assert_int_equal(cost()->site.procedure_ns, 301);
    SAME(cost()->site.file, "n.c");
    SAME(cost()->giver.file, "m.c");
}

/* Who yields most is remembered, and yielding is no lock. */
static void test_lock_cost__yields(void **state)
{
    (void)state;
    begin();
    sampled(YIELD, LOG, MAIN, YIELDS | CONTENDED, 500);
    sampled(YIELD, QUEUE, MAIN, YIELDS | CONTENDED, 800);
    sampled(YIELD, SERVE, MAIN, YIELDS | CONTENDED, 800);
    assert_null(cost());
    assert_non_null(x.y.yields);
    SAME(x.y.yields[YIELD]->name, "queue");
    assert_null(x.y.yields[TAKE]);
    sampled(TAKE, QUEUE, MAIN, CONTENDED, 400);
    assert_int_equal(cost()->ns, 200);
    assert_int_equal(x.y.lock_ppm[YIELD], 0);
    begin();
    /* samples whose caller is unknown do not hide the known caller */
    sampled(YIELD, YIELD, MAIN, YIELDS, 900);
    assert_null(cost());
    SAME(x.y.yields[YIELD]->name, "c_yield");
    sampled(YIELD, LOG, MAIN, YIELDS, 100);
    sampled(YIELD, YIELD, LOG, YIELDS, 900);
    assert_null(cost());
    SAME(x.y.yields[YIELD]->name, "log");
    begin();
}

static int cost_again(void *arg)
{
    (void)arg;
    int rc = why_estimate_lock_cost_and_spinning(&x.y);
    free(x.y.lock_ppm);
    free(x.y.lock_cpu);
    free((void *)x.y.yields);
    free(x.y.reads_memory);
    free(x.y.spins);
    x.y.lock_ppm = NULL;
    x.y.lock_cpu = NULL;
    x.y.yields = NULL;
    x.y.reads_memory = NULL;
    x.y.spins = NULL;
    arena_release(&x.d.a);
    memset(&x.d.a, 0, sizeof(x.d.a));
    return rc;
}

static void test_lock_cost__no_memory(void **state)
{
    (void)state;
    one_of_two();
    sampled(YIELD, LOG, MAIN, YIELDS, 500);
    assert_true(each_allocation(cost_again, NULL) > 7);
    begin();
}

#define CASE(name) cmocka_unit_test(test_lock_cost__##name)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(of_the_path), CASE(of_the_library), CASE(proof),
        CASE(places),      CASE(yields),         CASE(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
