/* A daemon lives for months: what a question needed is given back when it is
 * over, in the master and in the slaves, whether it was answered or refused.
 * Every allocation of the process is counted; the same question asked again
 * leaves as many as there were, and as many descriptors. Would catch: a step
 * that is not undone where a question ends, the way that it fails, too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>

#include "tests/sim/real_questions.h"
#include "tests/support/live_blocks.h"

static long descriptors(void)
{
    long n = 0;
    DIR *d = opendir("/proc/self/fd");
    assert_non_null(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

static bool ask_once(Ips__Request *request)
{
    struct real_answer a;
    request->run = ips_unconst_text("r");
    real_ask(&real, request, &a);
    if (a.closed)
        fail_msg("%s", a.message);
    bool good = !a.error;
    free(a.data);
    real_settle(&real);
    return good;
}

/* What is made once, or kept up to a limit, is there after so many. Then each
 * of the next that leaves a block makes so many more; the buffers of a
 * connection between slaves may still grow by one or two. */
#define WARM 3
#define ASKED 8
#define TURNS 3000 /* a connection that was closed is freed a little later */

struct before {
    long blocks, fds;
};

static struct before count_all(void)
{
    return (struct before){live_blocks(), descriptors()};
}

static void check_no_more(const char *what, struct before was)
{
    for (int i = 0; i < TURNS; i++) {
        if (live_blocks() < was.blocks + ASKED && descriptors() <= was.fds)
            return;
        cluster_turn(&real.c, 1);
    }
    fail_msg("%s: %ld blocks and %ld descriptors more after %d times", what,
             live_blocks() - was.blocks, descriptors() - was.fds, ASKED);
}

static void try_again(const char *what, Ips__Request *request, bool refused)
{
    for (int i = 0; i < WARM; i++)
        assert_true(ask_once(request) != refused);
    struct before was = count_all();
    for (int i = 0; i < ASKED; i++)
        assert_true(ask_once(request) != refused);
    check_no_more(what, was);
}

#define ASK(number, name, Type, INIT, refused, set)                            \
    static void test_cluster_leaks__##name(void **state)                       \
    {                                                                          \
        (void)state;                                                           \
        Ips__##Type##Ask ask = IPS__##INIT##_ASK__INIT;                        \
        Ips__Request request = IPS__REQUEST__INIT;                             \
        request.ask_case = IPS__REQUEST__ASK_##INIT;                           \
        request.number = &ask;                                                 \
        set;                                                                   \
        try_again(#name, &request, refused);                                   \
    }
#define TEXT(t) ips_unconst_text(t)

static char by_thread[] = "thread", by_procedure[] = "procedure";
static char *by[] = {by_thread, by_procedure};

ASK(path, path_contract, Path, PATH, false,
    (ask.engine = TEXT("contract"), ask.segments = true, ask.sequences = true,
     ask.whole = true, ask.by = by, ask.n_by = 2))
ASK(path, path_central, Path, PATH, false,
    (ask.engine = TEXT("central"), ask.weighting = TEXT("wall")))
ASK(path, path_cm_sync, Path, PATH, false, ask.engine = TEXT("cm-sync"))
ASK(path, path_cm_async, Path, PATH, false,
    (ask.engine = TEXT("cm-async"), ask.weighting = TEXT("sched")))
ASK(path, path_window, Path, PATH, false,
    (ask.weighting = TEXT("wall"), ask.to_ns = 1000000000))
ASK(path, path_no_engine, Path, PATH, true, ask.engine = TEXT("steam"))
ASK(path, path_no_goal, Path, PATH, true, ask.goal = TEXT("/m0/nobody"))
ASK(graph, graph, Graph, GRAPH, false, (void)0)
ASK(graph, graph_window, Graph, GRAPH, false, ask.to_ns = 100000000)
ASK(why, why, Why, WHY, false, (void)0)
ASK(why, why_window, Why, WHY, false, ask.to_ns = 1000000000)
ASK(why, why_no_phase, Why, WHY, true, ask.phase = 99)
ASK(why, why_no_goal, Why, WHY, true, ask.goal = TEXT("/m0/nobody"))
ASK(waits, waits, Waits, WAITS, false, ask.stacks = true)
ASK(waits, waits_by, Waits, WAITS, false,
    (ask.by = TEXT("peer"), ask.order = TEXT("-count"), ask.top = 2))
ASK(waits, waits_no_order, Waits, WAITS, true, ask.order = TEXT("luck"))
ASK(phases, phases, Phases, PHASES, false, (void)0)
ASK(phases, phases_window, Phases, PHASES, false, ask.to_ns = 1000000000)
ASK(metrics, metrics, Metrics, METRICS, false, (void)0)
ASK(metrics, metrics_threads, Metrics, METRICS, false,
    ask.level = TEXT("thread"))
ASK(metrics, metrics_window, Metrics, METRICS, false,
    (ask.to_ns = 1000000000, ask.level = TEXT("process")))
ASK(metrics, metrics_nobody, Metrics, METRICS, true,
    ask.object = TEXT("/nowhere"))
ASK(ls, ls, Ls, LS, false, (void)0)
ASK(ls, ls_window, Ls, LS, false, ask.to_ns = 1000000000)
ASK(ls, ls_nobody, Ls, LS, true, ask.object = TEXT("/nowhere"))
ASK(events, events, Events, EVENTS, false, ask.sites = true)
ASK(events, events_nobody, Events, EVENTS, true,
    ask.object = TEXT("/m0/nobody"))
ASK(procedures, procedures_off, Procedures, PROCEDURES, true, (void)0)
ASK(procedures, procedures_nobody, Procedures, PROCEDURES, true,
    ask.object = TEXT("/nowhere"))
ASK(sql, sql, Sql, SQL, false, ask.text = TEXT("SELECT * FROM threads"))
ASK(sql, sql_wrong, Sql, SQL, true, ask.text = TEXT("SELECT FROM"))
ASK(whatif, whatif_rank, Whatif, WHATIF, false,
    (ask.rank = true, ask.rank_ppm = 500000))
ASK(whatif, whatif_slack, Whatif, WHATIF, false,
    (ask.slack = true, ask.near_ppm = 10000, ask.next = 3))
ASK(whatif, whatif_nothing, Whatif, WHATIF, true, (void)0)
ASK(predict, predict, Predict, PREDICT, false, (void)0)
ASK(requests, requests, Requests, REQUESTS, false, ask.top = 3)
ASK(estimate, estimate, Estimate, ESTIMATE, false, (void)0)
ASK(estimate, estimate_no_goal, Estimate, ESTIMATE, true,
    ask.goal = TEXT("/m0/nobody"))
ASK(runs, runs, Runs, RUNS, false, (void)0)
ASK(status, status, Status, STATUS, false, (void)0)
ASK(calibrate, calibrate_show, Calibrate, CALIBRATE, false, (void)0)
ASK(calibrate, calibrate_damaged, Calibrate, CALIBRATE, true,
    (ask.what = IPS__CALIBRATE_ASK__WHAT__IMPORT,
     ask.text = TEXT("ips-message-times 1\npair a b tcp\n")))

static Ips__PredictMachine some = IPS__PREDICT_MACHINE__INIT;
static Ips__PredictMachine *machines[] = {&some};
static Ips__PredictPlace place = IPS__PREDICT_PLACE__INIT;
static Ips__PredictPlace *places[] = {&place};
static Ips__PredictSearch search = IPS__PREDICT_SEARCH__INIT;
static Ips__WhatifEdit edit = IPS__WHATIF_EDIT__INIT;
static Ips__WhatifEdit *edits[] = {&edit};

static void set_machines(Ips__PredictAsk *ask, const char *where)
{
    some.name = TEXT("fast");
    some.cores = 2;
    ask->machines = machines;
    ask->n_machines = 1;
    place.what = TEXT("*");
    place.machine = ips_unconst_text(where);
    ask->map = places;
    ask->n_map = 1;
}

static void set_edit(Ips__WhatifAsk *ask, const char *process)
{
    edit.process = ips_unconst_text(process);
    edit.ppm = 1000000;
    ask->edits = edits;
    ask->n_edits = 1;
}

ASK(predict, predict_map, Predict, PREDICT, false, set_machines(&ask, "fast"))
ASK(predict, predict_nowhere, Predict, PREDICT, true,
    set_machines(&ask, "nowhere"))
ASK(predict, predict_search, Predict, PREDICT, false,
    (search.seed = 1, search.tries = 3, ask.search = &search))
ASK(whatif, whatif_edit, Whatif, WHATIF, false, set_edit(&ask, "*"))
ASK(whatif, whatif_no_edit, Whatif, WHATIF, true, set_edit(&ask, "nobody"))

/* Answers that are kept and given again, between others that are not. */
static void test_cluster_leaks__kept_answers(void **state)
{
    Ips__PathAsk path = IPS__PATH_ASK__INIT;
    Ips__MetricsAsk metrics = IPS__METRICS_ASK__INIT;
    Ips__Request one = IPS__REQUEST__INIT, two = IPS__REQUEST__INIT;
    struct before was = {0};
    (void)state;
    one.ask_case = IPS__REQUEST__ASK_PATH;
    one.path = &path;
    two.ask_case = IPS__REQUEST__ASK_METRICS;
    two.metrics = &metrics;
    for (int i = 0; i < WARM + ASKED; i++) {
        if (i == WARM)
            was = count_all();
        for (int k = 0; k < 4; k++) {
            real.c.keeps = k != 1;
            assert_true(ask_once(&one) && ask_once(&two));
        }
    }
    real.c.keeps = false;
    check_no_more("kept answers", was);
}

/* The master ends and begins again, the slaves and their run stay. Would catch:
 * a part of the daemon that is not taken down with it; what slaves leave of
 * each connection. */
static void test_cluster_leaks__masters(void **state)
{
    Ips__PathAsk path = IPS__PATH_ASK__INIT;
    Ips__Request request = IPS__REQUEST__INIT;
    struct before was = {0};
    (void)state;
    request.ask_case = IPS__REQUEST__ASK_PATH;
    request.path = &path;
    for (int i = 0; i < WARM + ASKED; i++) {
        if (i == WARM)
            was = count_all();
        cluster_restart_master(&real.c);
        real_settle(&real);
        assert_true(ask_once(&request));
    }
    check_no_more("masters", was);
}

#define CASE(name) cmocka_unit_test(test_cluster_leaks__##name)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(path_contract),
        CASE(path_central),
        CASE(path_cm_sync),
        CASE(path_cm_async),
        CASE(path_window),
        CASE(path_no_engine),
        CASE(path_no_goal),
        CASE(graph),
        CASE(graph_window),
        CASE(why),
        CASE(why_window),
        CASE(why_no_phase),
        CASE(why_no_goal),
        CASE(waits),
        CASE(waits_by),
        CASE(waits_no_order),
        CASE(phases),
        CASE(phases_window),
        CASE(metrics),
        CASE(metrics_threads),
        CASE(metrics_window),
        CASE(metrics_nobody),
        CASE(ls),
        CASE(ls_window),
        CASE(ls_nobody),
        CASE(events),
        CASE(events_nobody),
        CASE(procedures_off),
        CASE(procedures_nobody),
        CASE(sql),
        CASE(sql_wrong),
        CASE(whatif_rank),
        CASE(whatif_slack),
        CASE(whatif_nothing),
        CASE(whatif_edit),
        CASE(whatif_no_edit),
        CASE(predict),
        CASE(predict_map),
        CASE(predict_nowhere),
        CASE(predict_search),
        CASE(requests),
        CASE(estimate),
        CASE(estimate_no_goal),
        CASE(runs),
        CASE(status),
        CASE(calibrate_show),
        CASE(calibrate_damaged),
        CASE(kept_answers),
        CASE(masters),
    };
    return cmocka_run_group_tests(tests, questions_setup, questions_teardown);
}
