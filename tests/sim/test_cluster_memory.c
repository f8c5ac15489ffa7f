/* Questions while memory lacks, in the master and in the slaves: each answer
 * is an error in words, one that names the machine it lacks, or exactly the
 * right one; and the same question asked again is answered as before. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/sim/real_cluster.h"

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

/* The question without a failure, and then with one of each way to an
 * allocation, `most` at most. Cold: the slaves have nothing of the run but its
 * records. */
static void try_question(const char *what, Ips__Request *request, size_t most)
{
    struct real_answer want, got;
    size_t count, struck = 0, whole = 0;
    request->run = ips_wire_text("r");
    real_ask(&real, request, &want);
    if (want.error || want.closed)
        fail_msg("%s: %s", what, want.message);
    assert_true(want.len > 20);
    real_settle(&real);
    for (int i = 0; i < REAL_SLAVES; i++)
        real_slave_forget(real.slave[i], "r");
    fault_watch(FAULT_ALLOC);
    real_ask(&real, request, &got);
    uint64_t calls = fault_end();
    real_check_same(&got, &want, what, 0);
    free(got.data);
    uint64_t *pick = fault_pick(most, &count);
    assert_non_null(pick);
    for (size_t i = 0; i < count; i++) {
        real_settle(&real);
        for (int k = 0; k < REAL_SLAVES; k++)
            real_slave_forget(real.slave[k], "r");
        fault_arm(FAULT_ALLOC, pick[i]);
        real_ask(&real, request, &got);
        struck += fault_end();
        real_check_honest(&got, &want, what, pick[i]);
        whole += !got.error && !got.closed && !got.incomplete;
        free(got.data);
        real_settle(&real);
        real_ask(&real, request, &got);
        real_check_same(&got, &want, what, pick[i]);
        free(got.data);
    }
    print_message(
        "%s: %zu of %llu allocations failed, %zu answers were whole\n", what,
        struck, (unsigned long long)calls, whole);
    assert_true(count > 5 && struck > count / 2);
    real_settle(&real);
    free(pick);
    free(want.data);
}

#define MOST 8

#define ASK(number, name, Type, INIT, set)                                     \
    static void test_cluster_memory__##name(void **state)                      \
    {                                                                          \
        (void)state;                                                           \
        Ips__##Type##Ask ask = IPS__##INIT##_ASK__INIT;                        \
        Ips__Request request = IPS__REQUEST__INIT;                             \
        request.ask_case = IPS__REQUEST__ASK_##INIT;                           \
        request.number = &ask;                                                 \
        set;                                                                   \
        try_question(#name, &request, MOST);                                   \
    }

ASK(path, path_contract, Path, PATH,
    (ask.engine = ips_wire_text("contract"), ask.segments = true,
     ask.sequences = true))
ASK(path, path_central, Path, PATH, ask.engine = ips_wire_text("central"))
ASK(path, path_cm, Path, PATH, ask.engine = ips_wire_text("cm-sync"))
ASK(graph, graph, Graph, GRAPH, (void)0)
ASK(why, why, Why, WHY, (void)0)
ASK(waits, waits, Waits, WAITS, (void)0)
ASK(phases, phases, Phases, PHASES, (void)0)
ASK(metrics, metrics, Metrics, METRICS, (void)0)
ASK(ls, ls, Ls, LS, (void)0)
ASK(events, events, Events, EVENTS, (void)0)
ASK(sql, sql, Sql, SQL, ask.text = ips_wire_text("SELECT * FROM threads"))
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
