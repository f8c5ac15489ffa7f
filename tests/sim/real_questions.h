/*
 * A run on two slaves and one question of each kind, for tests that ask them
 * all while something is wrong. Header only; each test program includes it once
 * and defines try_question(name, request) before QUESTIONS_MAIN.
 */
#ifndef IPS_TESTS_REAL_QUESTIONS_H
#define IPS_TESTS_REAL_QUESTIONS_H

#include "tests/sim/real_cluster.h"

static struct real_cluster real;

static inline int questions_setup(void **state)
{
    (void)state;
    struct synth_options o = synth_default(SYNTH_STENCIL);
    o.nodes = 400;
    o.slaves = REAL_SLAVES;
    o.threads = 6;
    real_start(&real, &o);
    return 0;
}

static inline int questions_teardown(void **state)
{
    (void)state;
    real_stop(&real);
    return 0;
}

/* The slaves have nothing of the run but its records. */
static inline void forget_all(void)
{
    real_settle(&real);
    for (int i = 0; i < REAL_SLAVES; i++)
        real_slave_forget(real.slave[i], "r");
}

/* X(field of the request, name, Type, TYPE, what is asked for) */
#define QUESTIONS(X)                                                           \
    X(path, path_contract, Path, PATH,                                         \
      (ask.engine = ips_unconst_text("contract"), ask.segments = true,         \
       ask.sequences = true))                                                  \
    X(path, path_central, Path, PATH,                                          \
      ask.engine = ips_unconst_text("central"))                                \
    X(path, path_cm, Path, PATH, ask.engine = ips_unconst_text("cm-sync"))     \
    X(graph, graph, Graph, GRAPH, (void)0)                                     \
    X(why, why, Why, WHY, (void)0)                                             \
    X(waits, waits, Waits, WAITS, (void)0)                                     \
    X(phases, phases, Phases, PHASES, (void)0)                                 \
    X(metrics, metrics, Metrics, METRICS, (void)0)                             \
    X(ls, ls, Ls, LS, (void)0)                                                 \
    X(events, events, Events, EVENTS, (void)0)                                 \
    X(sql, sql, Sql, SQL,                                                      \
      ask.text = ips_unconst_text("SELECT * FROM threads"))                    \
    X(whatif, whatif, Whatif, WHATIF,                                          \
      (ask.rank = true, ask.rank_ppm = 500000))                                \
    X(predict, predict, Predict, PREDICT, (void)0)

#define QUESTION_TEST(number, name, Type, INIT, set)                           \
    static void test_question__##name(void **state)                            \
    {                                                                          \
        (void)state;                                                           \
        Ips__##Type##Ask ask = IPS__##INIT##_ASK__INIT;                        \
        Ips__Request request = IPS__REQUEST__INIT;                             \
        request.ask_case = IPS__REQUEST__ASK_##INIT;                           \
        request.number = &ask;                                                 \
        request.run = ips_unconst_text("r");                                   \
        set;                                                                   \
        try_question(#name, &request);                                         \
    }
#define QUESTION_CASE(number, name, Type, INIT, set)                           \
    cmocka_unit_test(test_question__##name),

/* main() of such a test. */
#define QUESTIONS_MAIN                                                         \
    QUESTIONS(QUESTION_TEST)                                                   \
    int main(void)                                                             \
    {                                                                          \
        const struct CMUnitTest tests[] = {QUESTIONS(QUESTION_CASE)};          \
        return cmocka_run_group_tests(tests, questions_setup,                  \
                                      questions_teardown);                     \
    }

#endif
