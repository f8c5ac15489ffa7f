/* Questions while memory lacks, in the master and in the slaves: each answer
 * is an error in words, one that names the machine it lacks, or exactly the
 * right one; and the same question asked again is answered as before. No
 * failure leaves a block of memory behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/sim/real_cluster.h"
#include "tests/support/live_blocks.h"

/* Each failure so often: what one leaves adds up, other than the buffers of a
 * connection, which may grow by a block or two. */
#define FAILED 4

static struct real_cluster real;

static int setup(void **state)
{
    (void)state;
    struct synth_options o = synth_default(SYNTH_STENCIL);
    o.nodes = 400;
    o.slaves = REAL_SLAVES;
    o.threads = 6;
    real_start(&real, &o);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    real_stop(&real);
    return 0;
}

static void forget_all(void)
{
    real_settle(&real);
    for (int i = 0; i < REAL_SLAVES; i++)
        real_slave_forget(real.slave[i], "r");
}

/* A few questions that nothing fails: blocks that there are behind them. */
static long blocks_at_rest(Ips__Request *request,
                           const struct real_answer *want, const char *what)
{
    struct real_answer got;
    forget_all();
    for (int i = 0; i < 3; i++) {
        real_ask(&real, request, &got);
        real_check_same(&got, want, what, 0);
        free(got.data);
        real_settle(&real);
    }
    return live_blocks();
}

/* The nth allocation fails, so many times that it is asked; how often that was
 * reached. Then all is well again. */
static size_t fail_at(uint64_t nth, int times, Ips__Request *request,
                      const struct real_answer *want, const char *what,
                      size_t *whole)
{
    struct real_answer got;
    size_t struck = 0;
    for (int i = 0; i < times; i++) {
        forget_all();
        fault_arm(FAULT_ALLOC, nth);
        real_ask(&real, request, &got);
        struck += fault_end();
        real_check_honest(&got, want, what, nth);
        *whole += !got.error && !got.closed && !got.incomplete;
        free(got.data);
    }
    real_settle(&real);
    real_ask(&real, request, &got);
    real_check_same(&got, want, what, nth);
    free(got.data);
    return struck;
}

/* The question without a failure, and then with one of each way to an
 * allocation, `most` at most. Cold: the slaves have nothing of the run but its
 * records. */
static void try_question(const char *what, Ips__Request *request, size_t most,
                         int again)
{
    struct real_answer want, got;
    size_t count, struck = 0, whole = 0;
    request->run = ips_wire_text("r");
    real_ask(&real, request, &want);
    if (want.error || want.closed)
        fail_msg("%s: %s", what, want.message);
    assert_true(want.len > 20);
    forget_all();
    fault_watch(FAULT_ALLOC);
    real_ask(&real, request, &got);
    uint64_t calls = fault_end();
    real_check_same(&got, &want, what, 0);
    free(got.data);
    uint64_t *pick = fault_pick(most, &count);
    assert_non_null(pick);
    for (size_t i = 0; i < count; i++) /* what grows once has grown */
        struck += fail_at(pick[i], 1, request, &want, what, &whole);
    assert_true(count > 5 && struck > count / 2);
    long before = blocks_at_rest(request, &want, what);
    for (size_t i = 0; i < count; i++)
        fail_at(pick[i], again, request, &want, what, &whole);
    long more = blocks_at_rest(request, &want, what) - before;
    print_message("%s: %zu of %llu allocations failed, %zu answers were whole, "
                  "%ld blocks more\n",
                  what, struck, (unsigned long long)calls, whole, more);
    assert_true(again == 0 || more < FAILED);
    free(pick);
    free(want.data);
}

#define MOST 8

#define ASK_AGAIN(number, name, Type, INIT, again, set)                        \
    static void test_cluster_memory__##name(void **state)                      \
    {                                                                          \
        (void)state;                                                           \
        Ips__##Type##Ask ask = IPS__##INIT##_ASK__INIT;                        \
        Ips__Request request = IPS__REQUEST__INIT;                             \
        request.ask_case = IPS__REQUEST__ASK_##INIT;                           \
        request.number = &ask;                                                 \
        set;                                                                   \
        try_question(#name, &request, MOST, again);                            \
    }

#define ASK(number, name, Type, INIT, set)                                     \
    ASK_AGAIN(number, name, Type, INIT, FAILED, set)

ASK(path, path_contract, Path, PATH,
    (ask.engine = ips_wire_text("contract"), ask.segments = true,
     ask.sequences = true))
ASK(path, path_central, Path, PATH, ask.engine = ips_wire_text("central"))
/* Connections between slaves that were lost come back after a while only. */
ASK_AGAIN(path, path_cm, Path, PATH, 0, ask.engine = ips_wire_text("cm-sync"))
ASK(graph, graph, Graph, GRAPH, (void)0)
ASK(why, why, Why, WHY, (void)0)
ASK(waits, waits, Waits, WAITS, (void)0)
ASK(phases, phases, Phases, PHASES, (void)0)
ASK(metrics, metrics, Metrics, METRICS, (void)0)
ASK(ls, ls, Ls, LS, (void)0)
ASK(events, events, Events, EVENTS, (void)0)
/* A reader of the database is kept for a while. */
ASK_AGAIN(sql, sql, Sql, SQL, 0,
          ask.text = ips_wire_text("SELECT * FROM threads"))
ASK(whatif, whatif, Whatif, WHATIF, (ask.rank = true, ask.rank_ppm = 500000))
ASK(predict, predict, Predict, PREDICT, (void)0)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cluster_memory__path_contract),
        cmocka_unit_test(test_cluster_memory__path_central),
        cmocka_unit_test(test_cluster_memory__path_cm),
        cmocka_unit_test(test_cluster_memory__graph),
        cmocka_unit_test(test_cluster_memory__why),
        cmocka_unit_test(test_cluster_memory__waits),
        cmocka_unit_test(test_cluster_memory__phases),
        cmocka_unit_test(test_cluster_memory__metrics),
        cmocka_unit_test(test_cluster_memory__ls),
        cmocka_unit_test(test_cluster_memory__events),
        cmocka_unit_test(test_cluster_memory__sql),
        cmocka_unit_test(test_cluster_memory__whatif),
        cmocka_unit_test(test_cluster_memory__predict),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
