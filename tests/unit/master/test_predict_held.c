/* Messages that TCP held back (master/predict/delayed_messages.c), in runs of a
 * few nodes whose times are worked out by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka last of these */
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "master/predict/query.h"
#include "master/query/machine_share.h"

#define MS 1000000u
#define NODES 64u
#define CHAINS 4u
#define MACHINES 2u
#define OTHER_BYTES 7777u /* of every node that is no case's */

static struct world {
    struct ips_graph g;                     /* of all machines */
    struct engine_machine engine[MACHINES]; /* their own graphs */
    struct machine_share part[MACHINES], *active[MACHINES];
    struct query q;
    struct predict_query d;
    struct whatif_data w;
    struct whatif_solving s;
    struct predict_run run;
    struct predict_recorded_machine own[MACHINES];
    struct ips_err err;
    uint32_t base[MACHINES];
    /* Columns of the whole graph; a machine's begin at its base. */
    struct ips_chain chain[CHAINS];
    uint8_t kind[NODES], xkind[NODES];
    uint64_t xlen[NODES], at[NODES], wait[NODES], delay[NODES], idle[NODES];
    uint32_t xpred[NODES];
} v;

static void add_chain(uint32_t machine, uint32_t count)
{
    uint32_t first = v.g.node_count;
    v.chain[v.g.chain_count++] = (struct ips_chain){
        .first = first, .count = count, .machine = (uint16_t)machine};
    for (uint32_t i = first; i < first + count; i++) {
        v.kind[i] = IPS_NODE_SEND;
        v.xkind[i] = IPS_X_NONE;
        v.xpred[i] = IPS_NO_NODE;
        v.xlen[i] = OTHER_BYTES;
    }
    v.kind[first] = IPS_NODE_START;
    v.kind[first + count - 1] = IPS_NODE_END;
    v.g.node_count += count;
    v.engine[machine].g.node_count += count;
}

/* 1 ms, and 1 us a byte. */
static void begin(uint32_t machines)
{
    memset(&v, 0, sizeof(v));
    v.g = (struct ips_graph){.chains = v.chain,
                             .kind = v.kind,
                             .xkind = v.xkind,
                             .xlen = v.xlen,
                             .xpred = v.xpred};
    v.run.scenario.message_time =
        (struct ips_message_time){MS, 1000ULL << 32, 1, 1};
    v.run.own = v.own;
    v.w.path.node_base = v.base;
    v.s = (struct whatif_solving){.d = &v.w, .g = &v.g, .err = &v.err};
    v.q.data = &v.d;
    v.q.gather.active = v.active;
    v.q.gather.count = machines;
    for (uint32_t m = 0; m < machines; m++) {
        v.own[m].name = m ? "b" : "a";
        v.active[m] = &v.part[m];
        v.part[m].own = &v.engine[m];
    }
}

/* Chains are all there. */
static void end_machines(void)
{
    for (uint32_t m = 0, base = 0; m < v.q.gather.count; m++) {
        struct ips_graph *g = &v.engine[m].g;
        v.base[m] = base;
        g->at = v.at + base;
        g->wait = v.wait + base;
        g->delay = v.delay + base;
        base += g->node_count;
    }
}

struct message {
    uint32_t from, to;
    uint64_t sent, came, slept, delay, bytes;
};

static void put(struct message m)
{
    v.at[m.from] = m.sent;
    v.at[m.to] = m.came;
    v.wait[m.to] = m.slept;
    v.delay[m.to] = m.delay;
    v.xlen[m.to] = m.bytes;
    v.kind[m.to] = IPS_NODE_RECV;
    v.xkind[m.to] = IPS_X_DATA;
    v.xpred[m.to] = m.from;
}

static void solve(void)
{
    assert_int_equal(predict_add_held_back_delays(&v.q, &v.s, &v.run, v.idle),
                     0);
}

/* Of one machine. Times in ns: on its way, slept, waited for a core after the
 * wake-up; held is what is left of the lesser of the first two without the
 * third and without 1 ms + 1 us a byte. */
static const struct {
    uint64_t way, slept, delay, bytes, held;
} cases[] = {
    {41100000, 100000000, 0, 100, 40000000},
    {80000000, 50000000, 0, 1000, 48000000},
    {60000000, 200000000, 10000000, 0, 49000000},
    {31000000, 31000000, 0, 0, 30000000}, /* the least that TCP waits */
    {30999999, 31000000, 0, 0, 0},
    {90000000, 29999999, 0, 0, 0},
    {211000000, 900000000, 0, 0, 210000000}, /* and the most */
    {211000001, 900000000, 0, 0, 0},
    {100000000, 100000000, 0, 65536, 33464000},
    {100000000, 100000000, 0, 65537, 0},
};
#define CASES (sizeof(cases) / sizeof(*cases))

/* Would catch: the size or the times of another node, a limit that is off by
 * one, what the thread waited for a core taken for TCP's, time on the way that
 * nobody slept for. */
static void test_predict_held__by_one_clock(void **state)
{
    uint64_t sum = 0, count = 0;
    (void)state;
    begin(1);
    add_chain(0, CASES + 2);     /* sends: nodes 1 to CASES */
    add_chain(0, 2 * CASES + 2); /* a receive, and another node behind it */
    end_machines();
    for (uint32_t i = 0; i < CASES; i++) {
        uint64_t sent = 1000000000ULL * (i + 1);
        put((struct message){.from = 1 + i,
                             .to = CASES + 3 + 2 * i,
                             .sent = sent,
                             .came = sent + cases[i].way,
                             .slept = cases[i].slept,
                             .delay = cases[i].delay,
                             .bytes = cases[i].bytes});
        sum += cases[i].held;
        count += cases[i].held > 0;
    }
    v.idle[CASES + 4] = 5; /* and some that ran out of itself */
    solve();
    for (uint32_t i = 0; i < CASES; i++) {
        assert_int_equal(v.idle[CASES + 3 + 2 * i], 0);
        assert_int_equal(v.idle[CASES + 4 + 2 * i],
                         cases[i].held + (i == 0 ? 5 : 0));
    }
    assert_int_equal(v.run.held_back_ns, sum);
    assert_int_equal(v.run.held_back_count, count);
}

/* Would catch: a wait for something else, or for what nobody sent, that is
 * taken for a message's. */
static void test_predict_held__nothing_but_messages(void **state)
{
    (void)state;
    begin(1);
    add_chain(0, 4);
    add_chain(0, 6);
    end_machines();
    put((struct message){1, 5, 10 * MS, 100 * MS, 90 * MS, 0, 10});
    put((struct message){2, 7, 210 * MS, 300 * MS, 90 * MS, 0, 10});
    v.xkind[5] = IPS_X_EXTERNAL;
    v.xpred[7] = IPS_NO_NODE;
    solve();
    assert_int_equal(v.run.held_back_count, 0);
    for (uint32_t i = 0; i < v.g.node_count; i++)
        assert_int_equal(v.idle[i], 0);
}

#define AHEAD 1000000000000ULL /* b's clock is 1000 s before a's */

static void measured(const char *from, const char *to, uint64_t ns)
{
    struct message_time_pair p = {.over = MTIME_TCP, .count = 2};
    snprintf(p.from, sizeof(p.from), "%s", from);
    snprintf(p.to, sizeof(p.to), "%s", to);
    for (unsigned i = 0; i < 2; i++)
        p.point[i] = (struct message_time_point){
            .bytes = i ? 65536 : 0, .ns = ns, .low_ns = ns, .high_ns = ns};
    assert_int_equal(
        message_times_insert_or_replace_pair(&v.d.times, &p, &v.err), 0);
}

/* Two chains a machine: who sends and who receives. Of each way one message of
 * 2 ms tells how the clocks are to each other, at the beginning and at the end;
 * between them one of 50 ms from a to b, and one of 45 ms from b to a. */
static void two_machines(void)
{
    begin(2);
    for (uint32_t m = 0; m < 2; m++) {
        add_chain(m, 5);
        add_chain(m, 8);
    }
    end_machines();
    for (uint32_t way = 0; way < 2; way++) {
        uint64_t by = way ? AHEAD : 0, at = way ? 0 : AHEAD;
        uint32_t from = way ? 13 : 0, to = way ? 5 : 18;
        const uint64_t took[] = {2 * MS, (way ? 45 : 50) * MS, 2 * MS};
        for (uint32_t k = 0; k < 3; k++) {
            uint64_t sent = (1 + k) * 1000 * (uint64_t)MS + way * 500 * MS;
            put((struct message){from + 1 + k, to + 1 + 2 * k, by + sent,
                                 at + sent + took[k], 60 * MS, 0, 100});
        }
    }
}

/* Would catch: a clock turned the wrong way or by the other pair's, a moment
 * looked up among the nodes of another machine, a message time of the other
 * direction. */
static void test_predict_held__by_two_clocks(void **state)
{
    (void)state;
    two_machines();
    solve(); /* of a message of 100 bytes MTIME says 1.1 ms */
    assert_int_equal(v.run.held_back_count, 2);
    assert_int_equal(v.idle[18 + 4], 48900000);
    assert_int_equal(v.idle[5 + 4], 43900000);
    assert_int_equal(v.run.held_back_ns, 48900000 + 43900000);

    two_machines();
    measured("a", "b", 3 * MS);
    measured("b", "a", 7 * MS);
    solve();
    assert_int_equal(v.idle[18 + 4], 47000000);
    assert_int_equal(v.idle[5 + 4], 38000000);
    message_times_release(&v.d.times);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_predict_held__by_one_clock),
        cmocka_unit_test(test_predict_held__nothing_but_messages),
        cmocka_unit_test(test_predict_held__by_two_clocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
