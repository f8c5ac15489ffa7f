/*
 * Questions that a client may not ask so, one of each reason, and beside each
 * limit the greatest value that it allows. Would catch: a limit off by one, a
 * condition that is not looked at any more or refuses what is sound, a refusal
 * with another code, a text that names another value or object than was asked.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analysis/replay/replay.h"
#include "tests/sim/real_questions.h"

#define TEXT(t) ips_unconst_text(t)
#define MILLION 1000000u

static Ips__Request request;

/* Asks; an error with that code and just that text must come, or none: NULL. */
static void expect(int code, const char *text, int line)
{
    struct real_answer a;
    request.run = TEXT("r");
    real_ask(&real, &request, &a);
    free(a.data);
    if (a.closed || a.error != code || strcmp(a.message, text) != 0)
        fail_msg("line %d: %d, \"%s\"", line, a.error, a.message);
}

#define REFUSED(text) expect(IPS_E_USAGE, text, __LINE__)
#define UNKNOWN(text) expect(IPS_E_NOT_FOUND, text, __LINE__)
#define LIMITED(text) expect(IPS_E_LIMIT, text, __LINE__)
#define ALLOWED() expect(0, "", __LINE__)

#define ASK(number, name, Type, INIT)                                          \
    Ips__##Type##Ask name = IPS__##INIT##_ASK__INIT;                           \
    (void)state;                                                               \
    ips__request__init(&request);                                              \
    request.ask_case = IPS__REQUEST__ASK_##INIT;                               \
    request.number = &name

/* ---- path ---------------------------------------------------------------- */

static void test_refused__path(void **state)
{
    static char by_thread[] = "thread", by_luck[] = "luck";
    char *by[] = {by_thread, by_luck};
    ASK(path, a, Path, PATH);
    a.weighting = TEXT("gold");
    REFUSED("weighting gold: cpu, sched or wall");
    a.weighting = TEXT("sched");
    ALLOWED();
    a.engine = TEXT("steam");
    REFUSED("engine steam: auto, contract, central, cm-async or cm-sync");
    a.engine = TEXT("auto");
    a.from_ns = a.to_ns = 5;
    REFUSED("the window is empty");
    a.from_ns = 6;
    REFUSED("the window is empty");
    a.from_ns = 0;
    a.to_ns = 1000000000;
    ALLOWED();
    a.by = by;
    a.n_by = 1;
    ALLOWED();
    a.n_by = 2;
    REFUSED("by luck: machine, process, thread, procedure, line, message or "
            "external");
    a.n_by = 0;
    a.to_ns = 0;
    a.goal = TEXT("/m0/nobody.1");
    UNKNOWN("--goal: no object /m0/nobody.1 in run r");
}

static void test_refused__scenarios(void **state)
{
    Ips__Lane lane = IPS__LANE__INIT;
    ASK(path, a, Path, PATH);
    a.lane = &lane;
    lane.external = 3;
    REFUSED("external 3: 0, 1 or 2");
    lane.external = 2;
    ALLOWED();
    lane.scale_num = MILLION + 1;
    lane.scale_den = 1;
    REFUSED("message times scaled by 1000001/1: at most 1000000");
    lane.scale_num = MILLION;
    ALLOWED();
    lane.scale_den = MILLION + 1;
    REFUSED("message times scaled by 1000000/1000001: at most 1000000");
    lane.scale_den = MILLION;
    ALLOWED();
}

static void test_refused__windows(void **state)
{
    ASK(graph, g, Graph, GRAPH);
    Ips__PhasesAsk p = IPS__PHASES_ASK__INIT;
    Ips__RequestsAsk r = IPS__REQUESTS_ASK__INIT;
    Ips__ProceduresAsk c = IPS__PROCEDURES_ASK__INIT;
    g.from_ns = g.to_ns = 7;
    REFUSED("the window is empty");
    g.from_ns = 0;
    ALLOWED();
    request.ask_case = IPS__REQUEST__ASK_PROCEDURES;
    request.procedures = &c;
    c.from_ns = c.to_ns = 7;
    REFUSED("the window is empty");
    request.ask_case = IPS__REQUEST__ASK_REQUESTS;
    request.requests = &r;
    r.from_ns = r.to_ns = 7;
    REFUSED("the window is empty");
    r.to_ns = 8;
    ALLOWED();
    request.ask_case = IPS__REQUEST__ASK_PHASES;
    request.phases = &p;
    p.from_ns = p.to_ns = 7;
    REFUSED("run r: the window is empty, or there are two");
    p.from_ns = 0;
    p.phase = 1;
    REFUSED("run r: the window is empty, or there are two");
    p.from_ns = 3;
    p.to_ns = 0;
    REFUSED("run r: the window is empty, or there are two");
    p.from_ns = 0;
    ALLOWED();
    p.phase = 0;
    p.to_ns = 1000000000;
    ALLOWED();
}

/* ---- what if ------------------------------------------------------------- */

static void test_refused__whatif_edits(void **state)
{
    static Ips__WhatifEdit edit[65];
    static Ips__WhatifEdit *edits[65];
    ASK(whatif, a, Whatif, WHATIF);
    REFUSED("nothing was asked");
    for (size_t i = 0; i < 65; i++) {
        ips__whatif_edit__init(&edit[i]);
        edit[i].process = TEXT("*");
        edit[i].ppm = 1;
        edits[i] = &edit[i];
    }
    a.edits = edits;
    a.n_edits = 65;
    REFUSED("65 edits: at most 64");
    a.n_edits = 64;
    ALLOWED();
    a.n_edits = 1;
    edit[0].ppm = 0;
    REFUSED("faster by 0 millionths: 1 to 1000000");
    edit[0].ppm = MILLION + 1;
    REFUSED("faster by 1000001 millionths: 1 to 1000000");
    edit[0].ppm = MILLION;
    ALLOWED();
    edit[0].process = TEXT("");
    REFUSED("what should be faster? Name a procedure, a process, messages or "
            "an object");
    edit[0].object = TEXT("/m0");
    ALLOWED();
    edit[0].message = TEXT("*->*");
    edit[0].procedure = TEXT("f");
    REFUSED("messages '*->*' do not belong to a procedure: make them two "
            "edits");
    edit[0].procedure = TEXT("");
    ALLOWED();
    edit[0].message = TEXT("a>b");
    REFUSED("messages 'a>b': not of the form 'FROM -> TO'; each is a process "
            "name or a pattern");
}

static void test_refused__whatif(void **state)
{
    ASK(whatif, a, Whatif, WHATIF);
    a.next = 1001;
    REFUSED("1001 next paths: at most 1000");
    a.next = 1000;
    ALLOWED();
    a.rank = true;
    REFUSED("faster by 0 millionths: 1 to 1000000");
    a.rank_ppm = MILLION + 1;
    REFUSED("faster by 1000001 millionths: 1 to 1000000");
    a.rank_ppm = MILLION;
    a.near_ppm = MILLION + 1;
    REFUSED("near: 1000001 millionths of the path");
    a.near_ppm = MILLION;
    a.next = 1;
    ALLOWED();
    a.to_ns = 9;
    REFUSED("slack and next paths are of whole runs: ask for them without a "
            "window");
    a.to_ns = 0;
    a.from_ns = 9;
    REFUSED("slack and next paths are of whole runs: ask for them without a "
            "window");
    a.next = 0;
    a.slack = true;
    REFUSED("slack and next paths are of whole runs: ask for them without a "
            "window");
    a.slack = false;
    a.to_ns = 9;
    REFUSED("the window is empty");
    a.from_ns = a.to_ns = 0;
    a.weighting = TEXT("gold");
    REFUSED("weighting gold: cpu, sched or wall");
}

/* ---- waits, requests, why ------------------------------------------------ */

static void test_refused__waits(void **state)
{
    ASK(waits, a, Waits, WAITS);
    a.by = TEXT("luck");
    REFUSED("waits: no such thing 'luck'");
    a.by = TEXT("thread");
    a.order = TEXT("-luck");
    REFUSED("waits: no order 'luck'");
    a.order = TEXT("-count");
    ALLOWED();
    a.from_ns = a.to_ns = 4;
    REFUSED("the window ends before it starts");
    a.from_ns = a.to_ns = 0;
    a.object = TEXT("m0");
    REFUSED("object 'm0' does not begin with /");
    a.object = TEXT("/m0");
    ALLOWED();
    a.object = TEXT("/m7");
    UNKNOWN("no object /m7 in run r; did you mean '/m0'?");
    a.object = TEXT("/*/*/*/walk");
    UNKNOWN("object /*/*/*/walk: run r has no wait in procedure walk; `ipsq "
            "waits` lists them");
}

static void test_refused__requests(void **state)
{
    ASK(requests, a, Requests, REQUESTS);
    a.top = 10001;
    REFUSED("10001 requests: at most 10000");
    a.top = 10000;
    ALLOWED();
    a.by = TEXT("connection");
    ALLOWED();
    a.by = TEXT("luck");
    REFUSED("--by luck: expected connection, mark, mark:NAME, task or "
            "task:NAME");
    a.by = TEXT("marks:a");
    REFUSED("--by marks:a: expected connection, mark, mark:NAME, task or "
            "task:NAME");
    a.by = TEXT("mark:");
    REFUSED("--by mark:: the name must be one word, as in mark:order");
    a.by = TEXT("task:two words");
    REFUSED("--by task:two words: the name must be one word, as in "
            "mark:order");
    a.by = TEXT("mark:order");
    UNKNOWN("run r: no thread set ips_mark(\"begin order\"): `ipsq events r` "
            "shows its marks");
    a.by = TEXT("mark");
    UNKNOWN("run r: no thread set ips_mark(\"begin NAME\"): `ipsq events r` "
            "shows its marks");
    a.by = TEXT("task:job");
    UNKNOWN("run r: no task job of the API (ips_task_start)");
    a.by = TEXT("task");
    UNKNOWN("run r: no task of the API (ips_task_start)");
}

static void test_refused__why(void **state)
{
    ASK(why, a, Why, WHY);
    Ips__EstimateAsk e = IPS__ESTIMATE_ASK__INIT;
    a.answer = TEXT("luck");
    REFUSED("--for luck: turnaround, latency or throughput");
    a.answer = TEXT("turnaround");
    ALLOWED();
    request.ask_case = IPS__REQUEST__ASK_ESTIMATE;
    request.estimate = &e;
    e.system_ppm = MILLION;
    REFUSED("a system share of 1000000 millionths: must be below 1000000");
    e.system_ppm = MILLION - 1;
    ALLOWED();
}

/* ---- tables -------------------------------------------------------------- */

#define QUERY_BYTES 65536u

static void test_refused__tables(void **state)
{
    ASK(metrics, a, Metrics, METRICS);
    Ips__SqlAsk sql = IPS__SQL_ASK__INIT;
    a.level = TEXT("galaxy");
    REFUSED("level galaxy: run, machine, process or thread");
    a.level = TEXT("thread");
    ALLOWED();
    a.object = TEXT("/m9/none");
    UNKNOWN("no object /m9/none in run r");
    char *text = malloc(QUERY_BYTES + 1);
    assert_non_null(text);
    memset(text, ' ', QUERY_BYTES);
    memcpy(text, "SELECT 1", 8);
    text[QUERY_BYTES] = '\0';
    request.ask_case = IPS__REQUEST__ASK_SQL;
    request.sql = &sql;
    sql.text = text;
    LIMITED("the query is longer than 65536 bytes");
    text[QUERY_BYTES - 1] = '\0';
    ALLOWED();
    free(text);
}

/* ---- predict ------------------------------------------------------------- */

static Ips__PredictMachine some, other, *machines[] = {&some, &other};
static Ips__PredictPlace place, *places[] = {&place};
static Ips__PredictNet net, *nets[] = {&net};

static void machine_refused(const char *what)
{
    char text[200];
    snprintf(text, sizeof(text), "machine fast: %s", what);
    expect(IPS_E_USAGE, text, __LINE__);
}

/* One machine, and all processes there. */
static void set_machines(Ips__PredictAsk *a)
{
    ips__predict_machine__init(&some);
    ips__predict_machine__init(&other);
    ips__predict_place__init(&place);
    some.name = TEXT("fast");
    place.what = TEXT("*");
    place.machine = TEXT("fast");
    a->machines = machines;
    a->n_machines = 1;
    a->map = places;
    a->n_map = 1;
}

static void test_refused__machines(void **state)
{
    ASK(predict, a, Predict, PREDICT);
    set_machines(&a);
    some.name = TEXT("");
    REFUSED("a machine without a name");
    some.name = TEXT("fast");
    some.cores = IPS_REPLAY_CORES_MAX + 1;
    machine_refused("65537 cores, at most 65536");
    some.cores = IPS_REPLAY_CORES_MAX;
    ALLOWED();
    some.speed_den = 1;
    machine_refused("the speed must be above 0 and at most 10000, with at most "
                    "four digits");
    some.speed_num = IPS_REPLAY_RATIO_MAX + 1;
    machine_refused("the speed must be above 0 and at most 10000, with at most "
                    "four digits");
    some.speed_num = IPS_REPLAY_RATIO_MAX;
    ALLOWED();
    some.speed_den = IPS_REPLAY_RATIO_MAX + 1;
    machine_refused("the speed must be above 0 and at most 10000, with at most "
                    "four digits");
    some.speed_den = IPS_REPLAY_RATIO_MAX;
    some.load_den = 1;
    some.load_num = IPS_REPLAY_RATIO_MAX + 1;
    machine_refused("the load must be at most 10000, with at most four "
                    "digits");
    some.load_num = IPS_REPLAY_RATIO_MAX;
    ALLOWED();
    some.load_den = IPS_REPLAY_RATIO_MAX + 1;
    machine_refused("the load must be at most 10000, with at most four "
                    "digits");
    some.load_num = some.load_den = 0;
    some.taken_num = some.taken_den = 100;
    machine_refused("a load in percent must be below 100%");
    some.taken_num = 99;
    ALLOWED();
    some.taken_den = IPS_REPLAY_RATIO_MAX + 1;
    machine_refused("a load in percent must be below 100%");
    some.taken_den = 0;
    some.turn_said = true;
    some.turn_ns = IPS_REPLAY_TURN_MAX + 1;
    machine_refused("the turn must be at most 10 s");
    some.turn_ns = IPS_REPLAY_TURN_MAX;
    ALLOWED();
    some.load_recorded = true;
    machine_refused("load=recorded applies only to machines of the run");
    some.load_recorded = false;
    other.name = TEXT("fast");
    a.n_machines = 2;
    REFUSED("machine fast is given twice");
}

static void test_refused__places(void **state)
{
    ASK(predict, a, Predict, PREDICT);
    set_machines(&a);
    place.machine = TEXT("fasd");
    UNKNOWN("--map *=fasd: no such machine; there are m0, m1, fast; did you "
            "mean 'fast'?; --machines 'fasd:cores=N' adds it");
    place.machine = TEXT("fast");
    place.what = TEXT("nobody");
    UNKNOWN("--map nobody=fast: the run has no such process; `ipsq ls` lists "
            "them");
    a.n_map = 0;
    REFUSED("no process is on machine fast: name some with --map, as in --map "
            "'*=fast'");
    a.n_machines = 0;
    ALLOWED();
    a.nets = nets;
    a.n_nets = 1;
    ips__predict_net__init(&net);
    net.from = TEXT("m0");
    net.to = TEXT("m9");
    REFUSED("messages m0>m9: no time is given for them");
    net.scale_num = MILLION + 1;
    net.scale_den = 1;
    REFUSED("messages m0>m9: scaled by 1000001/1");
    net.scale_num = 1;
    net.scale_den = MILLION + 1;
    REFUSED("messages m0>m9: scaled by 1/1000001");
    net.scale_den = MILLION;
    UNKNOWN("--network m0>m9: no such machines");
    net.to = TEXT("m1");
    ALLOWED();
    net.scale_den = 0;
    net.medium = TEXT("bus");
    ALLOWED();
}

static void test_refused__moves(void **state)
{
    static Ips__PredictMove move[1001];
    static Ips__PredictMove *moves[1001];
    Ips__PredictSearch search = IPS__PREDICT_SEARCH__INIT;
    ASK(predict, a, Predict, PREDICT);
    for (size_t i = 0; i < 1001; i++) {
        ips__predict_move__init(&move[i]);
        move[i].what = TEXT("*");
        move[i].machine = TEXT("m0");
        moves[i] = &move[i];
    }
    a.moves = moves;
    a.n_moves = 1001;
    REFUSED("1001 moves: at most 1000");
    a.n_moves = 1000;
    ALLOWED();
    a.n_moves = 1;
    move[0].machine = TEXT("mars");
    UNKNOWN("--move *@...=mars: no such machine; there are m0, m1");
    move[0].machine = TEXT("m1");
    move[0].what = TEXT("nobody");
    UNKNOWN(
        "--move nobody@...=m1: the run has no such process; `ipsq ls` lists "
        "them");
    move[0].what = TEXT("*");
    search.tries = 2;
    a.search = &search;
    REFUSED("--search finds one machine for each process: it cannot be "
            "combined with --move");
    a.n_moves = 0;
    ALLOWED();
    set_machines(&a);
    REFUSED("--map names every process: nothing is left to place");
}

/* ---- calibrate ----------------------------------------------------------- */

static void test_refused__measuring(void **state)
{
    static char nobody[] = "m7";
    char *names[] = {nobody};
    uint64_t lengths[33];
    ASK(calibrate, a, Calibrate, CALIBRATE);
    a.what = IPS__CALIBRATE_ASK__WHAT__MEASURE;
    a.rounds = 100001;
    REFUSED("100001 rounds: at most 100000");
    a.rounds = 100000;
    for (size_t i = 0; i < 33; i++)
        lengths[i] = i + 1;
    a.lengths = lengths;
    a.n_lengths = 33;
    REFUSED("33 lengths: at most 32");
    a.n_lengths = 3;
    lengths[0] = 0;
    REFUSED("length 0: lengths must be from 1 to 16777216 bytes and ascending");
    lengths[0] = lengths[1];
    REFUSED("length 2: lengths must be from 1 to 16777216 bytes and ascending");
    lengths[0] = 1;
    lengths[2] = 16777217;
    REFUSED("length 16777217: lengths must be from 1 to 16777216 bytes and "
            "ascending");
    /* What is allowed gets as far as the machines. */
    lengths[2] = 16777216;
    a.machines = names;
    a.n_machines = 1;
    UNKNOWN("machine m7: no slave of that name is connected; `ipsq status` "
            "lists them");
    for (size_t i = 0; i < 32; i++)
        lengths[i] = i + 1;
    a.n_lengths = 32;
    UNKNOWN("machine m7: no slave of that name is connected; `ipsq status` "
            "lists them");
    a.what = IPS__CALIBRATE_ASK__WHAT__FORGET;
    UNKNOWN("machine m7: no times are known");
    a.what = (Ips__CalibrateAsk__What)9;
    REFUSED("calibrate: unknown request");
}

#define CASE(name) cmocka_unit_test(test_refused__##name)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(path),         CASE(scenarios), CASE(windows),  CASE(waits),
        CASE(whatif_edits), CASE(whatif),    CASE(requests), CASE(why),
        CASE(tables),       CASE(machines),  CASE(places),   CASE(moves),
        CASE(measuring)};
    return cmocka_run_group_tests(tests, questions_setup, questions_teardown);
}
