/* What messages cost their ends where these are in a setup: by hand, with a
 * table of message times as a person would write it. A difference that is taken
 * of the wrong pair, put on the wrong arc, or given to who did not sleep, would
 * show. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "master/predict/predict.h"

/* Two threads; nodes START, SEND, END and START, RECV, RECV, END; both receives
 * are of the send, and the first was slept for. */
enum { SEND = 1, SENT = 2, RECV = 4, AGAIN = 5, END = 6, NODES = 7 };

static const char table[] = "ips-message-times 1\n"
                            "pair m1 m2 tcp today\n"
                            "point 100 9 8 10 5 6000\n"
                            "point 300 9 8 10 5 8000\n"
                            "pair m1 m1 tcp today\n"
                            "point 100 5 4 6 - 1000\n"
                            "pair m1 m1 unix today\n"
                            "point 100 5 4 6 5 500\n"
                            "pair m3 m3 tcp today\n"
                            "point 100 5 4 6 5\n";

struct story {
    struct message_times times;
    struct predict_recorded_machine own[2];
    struct predict_thread thread[2];
    struct predict_machine machine[3];
    struct predict_run run;
    struct predict_setup setup;
    uint32_t map[2];
    struct arena a;
    struct predict_assumptions said;
};

static int set_up(void **state)
{
    struct story *s = calloc(1, sizeof(*s));
    struct ips_err err;
    assert_non_null(s);
    assert_int_equal(0, message_times_parse(&s->times, "table", table, &err));
    struct ips_graph *g = &s->run.replay.g;
    assert_int_equal(0, ips_graph_alloc(g, NODES, 2, &err));
    g->chains[0] = (struct ips_chain){.first = 0, .count = 3};
    g->chains[1] = (struct ips_chain){.first = 3, .count = 4, .machine = 1};
    for (uint32_t i = 0; i < NODES; i++)
        g->w[i] = i == 0 || i == 3 ? 0 : 10000;
    for (uint32_t i = RECV; i <= AGAIN; i++) {
        g->xkind[i] = IPS_X_DATA;
        g->xpred[i] = SEND;
        g->xlen[i] = 200;
    }
    s->run.slept = calloc(NODES, 1);
    assert_non_null(s->run.slept);
    s->run.slept[RECV] = 1;
    s->run.times = &s->times;
    s->own[0].name = s->machine[0].name = "m1";
    s->own[1].name = s->machine[1].name = "m2";
    s->machine[2].name = "m3";
    s->thread[1].own = 1;
    s->run.own = s->own;
    s->run.own_count = 2;
    s->run.thread = s->thread;
    s->setup.machine = s->machine;
    s->setup.machine_count = 3;
    s->setup.map = s->map;
    s->map[1] = 1;
    s->said.a = &s->a;
    *state = s;
    return 0;
}

static int tear_down(void **state)
{
    struct story *s = *state;
    message_times_release(&s->times);
    ips_graph_release(&s->run.replay.g);
    free(s->run.slept);
    arena_release(&s->a);
    free(s);
    return 0;
}

static void weighs(const struct story *s, uint64_t sent, uint64_t received)
{
    const uint64_t *w = s->run.replay.g.w;
    assert_int_equal(w[SEND], 10000);
    assert_int_equal(w[SENT], sent);
    assert_int_equal(w[RECV], 10000);
    assert_int_equal(w[AGAIN], received); /* behind the first receive */
    assert_int_equal(w[END], 10000);      /* behind the second: not slept for */
}

static void test_predict_cpu__stays_where_it_was(void **state)
{
    struct story *s = *state;
    predict_adapt_message_cpu_unless_kept(&s->run, &s->setup, false, &s->said);
    weighs(s, 10000, 10000);
    assert_int_equal(s->said.count, 0);
}

/* 7000 at 200 bytes between the two, 1000 inside by TCP: both ends 3000 less,
 * and not by the Unix sockets' 500. */
static void test_predict_cpu__together(void **state)
{
    struct story *s = *state;
    s->map[1] = 0;
    predict_adapt_message_cpu_unless_kept(&s->run, &s->setup, false, &s->said);
    weighs(s, 7000, 7000);
    assert_int_equal(s->said.count, 1);
    assert_non_null(strstr(s->said.text[0], "1 messages"));
}

static void test_predict_cpu__kept_for_a_search(void **state)
{
    struct story *s = *state;
    s->map[1] = 0;
    predict_adapt_message_cpu_unless_kept(&s->run, &s->setup, true, &s->said);
    weighs(s, 10000, 10000);
    assert_int_equal(s->said.count, 1);
}

static void test_predict_cpu__never_below_none(void **state)
{
    struct story *s = *state;
    s->map[1] = 0;
    s->run.replay.g.w[SENT] = 100;
    predict_adapt_message_cpu_unless_kept(&s->run, &s->setup, false, &s->said);
    weighs(s, 0, 7000);
}

/* Inside m1 by a Unix socket, then apart: 500 to 7000. */
static void test_predict_cpu__apart(void **state)
{
    struct story *s = *state;
    s->thread[1].own = 0;
    predict_adapt_message_cpu_unless_kept(&s->run, &s->setup, false, &s->said);
    weighs(s, 13250, 13250);
}

/* Inside m3 no CPU was measured. */
static void test_predict_cpu__not_measured(void **state)
{
    struct story *s = *state;
    s->map[0] = s->map[1] = 2;
    predict_adapt_message_cpu_unless_kept(&s->run, &s->setup, false, &s->said);
    weighs(s, 10000, 10000);
    assert_int_equal(s->said.count, 0);
}

/* The table that is written is the one that is read. */
static void test_predict_cpu__table(void **state)
{
    struct story *s = *state;
    struct message_times again = {0};
    struct ips_err err;
    char *text = message_times_format_text(&s->times);
    assert_non_null(text);
    assert_int_equal(0, message_times_parse(&again, "text", text, &err));
    free(text);
    const struct message_time_pair *p =
        message_times_find_pair(&again, "m1", "m2", MTIME_TCP);
    assert_non_null(p);
    assert_int_equal(p->point[1].cpu_ns, 8000);
    assert_int_equal(ips_curve_compute_message_ns(&p->cpu, 200), 7000);
    p = message_times_find_pair(&again, "m1", "m1", MTIME_TCP);
    assert_true(p && p->point[0].rounds == 0 && p->point[0].cpu_ns == 1000);
    p = message_times_find_pair(&again, "m3", "m3", MTIME_TCP);
    assert_true(p && p->point[0].cpu_ns == 0 && p->cpu.count == 0);
    message_times_release(&again);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_predict_cpu__stays_where_it_was,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_predict_cpu__together, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_predict_cpu__kept_for_a_search,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_predict_cpu__never_below_none,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_predict_cpu__apart, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_predict_cpu__not_measured, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_predict_cpu__table, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
