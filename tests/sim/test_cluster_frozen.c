/*
 * Questions with all their options to a master and two slaves with fixed runs
 * (tests/bench/native/synth.h, tests/unit/help/model_world.h): each answer,
 * field by field, is in tests/sim/frozen/QUESTION.txt. Would catch: a figure
 * that is another one, in whichever field, under whichever option: a window, a
 * goal, a weighting, a scenario, an order, a number of rows.
 *
 * With IPS_FREEZE=1 the files are written anew: read what git then shows.
 */
#include "message_text.h"
#include "model_world.h"

#include <stdlib.h>

#include "tests/sim/real_questions.h"

#define M0 "/m0/synth.1073741824"
#define M1 "/m1/synth.1073742848/1073742849" /* a thread of it */
#define P1 "/m1/comm.8#2"                    /* of the models */
#define P2 "/m0/comm.7"
#define TEXT(t) ips_unconst_text(t)
/* Of one answer; what is behind is known by a check alone. */
#define SHOWN 2000u
/* Not fixed: how long it took, how it was come by, and the machine's load. */
#define SKIP                                                                   \
    " id took_ns file records_read plan category clock loads cost "            \
    "created_real_ns probe_ns "

static const enum synth_pattern patterns[] = {SYNTH_STENCIL, SYNTH_MASTER,
                                              SYNTH_PIPELINE};
#define PATTERNS (sizeof(patterns) / sizeof(*patterns))
/* And programs with locks, pipes, children and signals, one on each machine. */
#define WORLDS (PATTERNS + 2)

static struct {
    struct real_cluster real;
} run[WORLDS];
static const char *const run_name[WORLDS] = {"stencil", "master", "pipeline",
                                             "model 1", "model 2"};

/* ---- a model's records in a pool ------------------------------------------
 */

static int put_file(const char *path, const void *head, size_t head_bytes,
                    const void *data, size_t bytes, struct ips_err *err)
{
    FILE *f = fopen(path, "wxe");
    bool fine = f && fwrite(head, 1, head_bytes, f) == head_bytes &&
                fwrite(data, 1, bytes, f) == bytes;
    return f && fclose(f) == 0 && fine ? 0
                                       : ips_err_set(err, IPS_E_IO, "%s", path);
}

/* The seed in `arg`, and another one on each slave. */
static int make_model_pool(const void *arg, uint32_t slave, const char *pool,
                           struct ips_err *err)
{
    static struct world w;
    char dir[300], path[400];
    make_world(&w, *(const uint64_t *)arg + slave);
    struct ips_control c = w.r->control;
    c.magic = IPS_CONTROL_MAGIC;
    c.version = IPS_POOL_VERSION;
    c.control_bytes = sizeof(c);
    c.clock = (struct ips_clock){IPS_CLOCK_RAW, 0, 0, 0, 1ULL << 32};
    c.quota_bytes = UINT64_MAX;
    snprintf(c.run, sizeof(c.run), "r");
    snprintf(c.machine, sizeof(c.machine), "m%u", slave);
    snprintf(c.command, sizeof(c.command), "model");
    c.cpus = 2 + slave;
    c.root_pid = slave == 0 ? w.r->s[0].head.pid : 0;
    snprintf(dir, sizeof(dir), "%s/r", pool);
    int rc = mkdir(dir, 0700) < 0 ? ips_err_errno(err, "%s", dir) : 0;
    for (uint32_t i = 0; i < w.r->count && rc == 0; i++) {
        struct rec_stream *s = &w.r->s[i];
        struct ips_segment_header h;
        memcpy(&h, &s->head, sizeof(h));
        h.magic = IPS_SEGMENT_MAGIC;
        h.version = IPS_POOL_VERSION;
        h.header_bytes = sizeof(h);
        h.segment_bytes = (uint32_t)(sizeof(h) + s->len);
        h.clock = c.clock;
        h.state = IPS_SEGMENT_CLOSED;
        snprintf(path, sizeof(path), "%s/%u.0.seg", dir, i);
        rc = put_file(path, &h, sizeof(h), s->data, s->len, err);
    }
    snprintf(path, sizeof(path), "%s/control", dir);
    if (rc == 0)
        rc = put_file(path, &c, sizeof(c), "", 0, err);
    rec_free(w.r);
    return rc;
}

/* ---- answers ----------------------------------------------------------------
 */

static char got[1 << 20];
static size_t got_bytes;

static void add(const char *text, size_t n)
{
    assert_true(got_bytes + n < sizeof(got));
    memcpy(got + got_bytes, text, n);
    got_bytes += n;
}

static uint64_t read_varint(const uint8_t *data, size_t len, size_t *at)
{
    uint64_t v = 0;
    for (unsigned shift = 0; *at < len; shift += 7) {
        uint8_t byte = data[(*at)++];
        v |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            break;
    }
    return v;
}

/* The length of the first of the replies, which are behind each other: up to
 * the answer in it, or all. */
static size_t reply_length(const uint8_t *data, size_t len)
{
    size_t at = 0;
    while (at < len) {
        uint64_t tag = read_varint(data, len, &at);
        uint64_t value = read_varint(data, len, &at);
        if ((tag & 7) == 2)
            at += value;
        if ((tag & 7) == 2 && tag >> 3 >= 10)
            break;
    }
    return at;
}

/* An inner message a line. */
static void add_replies(const struct real_answer *a)
{
    static struct answer_text text;
    char rest[60];
    uint64_t check = 14695981039346656037u;
    text.len = 0;
    for (size_t at = 0, n; at < a->len; at += n) {
        n = reply_length(a->data + at, a->len - at);
        Ips__Reply *r = ips__reply__unpack(NULL, n, a->data + at);
        assert_non_null(r);
        answer_dump(&text, &r->base, SKIP);
        ips__reply__free_unpacked(r, NULL);
    }
    for (size_t i = SHOWN; i < text.len; i++)
        check = (check ^ (uint8_t)text.v[i]) * 1099511628211u;
    for (size_t i = 0; i < text.len; i++)
        if (text.v[i] == '{' || text.v[i] == '}')
            text.v[i + (text.v[i] == '}')] = '\n';
    add(text.v, text.len < SHOWN ? text.len : SHOWN);
    if (text.len > SHOWN) {
        snprintf(rest, sizeof(rest), "\nand %zu bytes, check %llx",
                 text.len - SHOWN, (unsigned long long)check);
        add(rest, strlen(rest));
    }
    add("\n", 1);
}

static void ask(const char *what, Ips__Request *request)
{
    for (size_t i = 0; i < WORLDS; i++) {
        struct real_answer a;
        char head[200];
        request->run = TEXT("r");
        real_ask(&run[i].real, request, &a);
        if (a.closed)
            fail_msg("%s: %s", what, a.message);
        snprintf(head, sizeof(head), "==== %s, %s\n", what, run_name[i]);
        add(head, strlen(head));
        add_replies(&a);
        free(a.data);
    }
}

static void compare(const char *name)
{
    static char want[sizeof(got)];
    char path[400];
    snprintf(path, sizeof(path), FROZEN "/%s.txt", name);
    FILE *f = fopen(path, getenv("IPS_FREEZE") ? "we" : "re");
    assert_non_null(f);
    if (getenv("IPS_FREEZE")) {
        assert_int_equal(fwrite(got, 1, got_bytes, f), got_bytes);
        assert_int_equal(fclose(f), 0);
        return;
    }
    size_t n = fread(want, 1, sizeof(want), f), at = 0, line = 1;
    fclose(f);
    while (at < n && at < got_bytes && got[at] == want[at])
        line += got[at++] == '\n';
    if (at == n && at == got_bytes)
        return;
    size_t from = at > 100 ? at - 100 : 0;
    fail_msg("%s.txt, line %zu differs: '%.*s' instead of '%.*s'", name, line,
             (int)(got_bytes - from < 200 ? got_bytes - from : 200), got + from,
             (int)(n - from < 200 ? n - from : 200), want + from);
}

/* ---- what is asked --------------------------------------------------------
 */

static Ips__Lane lane;

static void use_lane(uint64_t base_ns, uint64_t per_byte_ns)
{
    ips__lane__init(&lane);
    lane.scale_num = lane.scale_den = 1;
    lane.message_time_base_ns = base_ns;
    lane.message_time_per_byte_q32 = per_byte_ns << 32;
}

/* A question with the field `number` of Request; `set` fills `k`. */
#define ASK(number, Type, INIT, set)                                           \
    do {                                                                       \
        Ips__##Type##Ask k = IPS__##INIT##_ASK__INIT;                          \
        Ips__Request rq = IPS__REQUEST__INIT;                                  \
        rq.ask_case = IPS__REQUEST__ASK_##INIT;                                \
        rq.number = &k;                                                        \
        use_lane(0, 0);                                                        \
        set;                                                                   \
        ask(#set, &rq);                                                        \
    } while (0)

/* "auto" would choose by how quick the machine is. */
#define PATH(set)                                                              \
    ASK(path, Path, PATH, (k.engine = TEXT("contract"), k.lane = &lane, set))
static char by_text[][12] = {"procedure", "process", "machine", "message",
                             "external",  "thread",  "line"};
static char *all_by[] = {by_text[0], by_text[1], by_text[2], by_text[3],
                         by_text[4], by_text[5], by_text[6]};

static void ask_paths(void)
{
    PATH((k.segments = true, k.by = all_by, k.n_by = 7));
    PATH((k.engine = TEXT("central"), use_lane(700, 3)));
    PATH((k.engine = TEXT("cm-sync"), use_lane(700, 3)));
    PATH((k.segments = true, k.top = 3, use_lane(90000, 0)));
    PATH((k.weighting = TEXT("sched"), k.whole = true, k.sequences = true,
          k.by = all_by, k.n_by = 7));
    PATH((k.weighting = TEXT("wall"), k.segments = true, k.top = 5));
    PATH((k.weighting = TEXT("wall"), k.from_ns = 200000, k.to_ns = 500000,
          k.by = all_by + 1, k.n_by = 3, k.segments = true, k.top = 5));
    PATH((k.goal = TEXT(M0), k.by = all_by + 1, k.n_by = 1));
    PATH((k.weighting = TEXT("wall"), k.goal = TEXT(M1)));
    PATH((k.goal = TEXT("/nothing")));
    PATH((k.goal = TEXT(P1 "/82"), k.by = all_by, k.n_by = 7));
    PATH((k.weighting = TEXT("wall"), k.goal = TEXT(P2), k.by = all_by,
          k.n_by = 7, k.from_ns = 50000, k.to_ns = 200000));
    PATH((k.weighting = TEXT("sched"), k.goal = TEXT(P1), k.whole = true,
          k.sequences = true, lane.unended = true, lane.external = 1));
    PATH((k.weighting = TEXT("wall"), lane.external = 1, lane.probe_off = true,
          k.segments = true, k.top = 4));
    PATH((k.weighting = TEXT("wall"), k.phase = 1));
    PATH((k.phase = 9));
    PATH((lane.scale_num = 3, lane.scale_den = 2, use_lane(100, 1)));
    PATH((lane.external = 2, lane.any_off = true));
    PATH((k.by = all_by, k.n_by = 7, k.whole = true, k.sequences = true));
}

static void ask_tables(void)
{
    Ips__Select by = IPS__SELECT__INIT;
    by.sort = TEXT("elapsed_ns");
    by.top = 2;
    by.back = true;
    ASK(ls, Ls, LS, (void)0);
    ASK(ls, Ls, LS, (k.object = TEXT("/m1"), k.select = &by));
    ASK(ls, Ls, LS, (k.from_ns = 100000, k.to_ns = 300000));
    ASK(ls, Ls, LS, (k.object = TEXT("/m7")));
    ASK(metrics, Metrics, METRICS, (void)0);
    ASK(metrics, Metrics, METRICS, (k.level = TEXT("machine")));
    ASK(metrics, Metrics, METRICS, (k.level = TEXT("thread"), k.select = &by));
    by.per_machine = true;
    by.sort = TEXT("cpu_ns");
    ASK(metrics, Metrics, METRICS, (k.level = TEXT("thread"), k.select = &by));
    by.per_machine = false;
    by.per_level = true;
    ASK(metrics, Metrics, METRICS, (k.select = &by));
    ASK(ls, Ls, LS, (k.select = &by));
    ASK(metrics, Metrics, METRICS,
        (k.from_ns = 100000, k.to_ns = 300000, k.level = TEXT("process")));
    ASK(metrics, Metrics, METRICS, (k.phase = 1));
    ASK(metrics, Metrics, METRICS, (k.object = TEXT(P1)));
    ASK(metrics, Metrics, METRICS,
        (k.object = TEXT(P2 "/72"), k.from_ns = 50000, k.to_ns = 200000));
    ASK(ls, Ls, LS, (k.object = TEXT(P1), k.phase = 1));
    ASK(events, Events, EVENTS,
        (k.object = TEXT(P1), k.limit = 40, k.sites = k.stacks = true));
    ASK(procedures, Procedures, PROCEDURES, (k.by = TEXT("procedure")));
    ASK(procedures, Procedures, PROCEDURES, (k.by = TEXT("process")));
    ASK(events, Events, EVENTS,
        (k.from_ns = 100000, k.to_ns = 200000, k.limit = 9));
    ASK(events, Events, EVENTS, (k.object = TEXT("/m1"), k.limit = 5));
    ASK(graph, Graph, GRAPH, (k.from_ns = 300000, k.to_ns = 310000));
    ASK(graph, Graph, GRAPH, (void)0);
    ASK(sql, Sql, SQL, (k.text = TEXT("SELECT * FROM threads"), k.rows = 4));
    ASK(sql, Sql, SQL, (k.text = TEXT("SELECT nothing"), k.rows = 4));
    ASK(phases, Phases, PHASES, (void)0);
    ASK(phases, Phases, PHASES, (k.from_ns = 100000, k.to_ns = 300000));
    ASK(phases, Phases, PHASES, (k.phase = 1));
    ASK(runs, Runs, RUNS, (void)0);
}

static void ask_waits(void)
{
    static const char *const by[] = {"place", "cause", "peer", "process",
                                     "thread"};
    static const char *const order[] = {"total_ns", "count", "-longest_ns",
                                        "mean_ns", "-mean_ns"};
    for (size_t i = 0; i < 5; i++)
        ASK(waits, Waits, WAITS,
            (k.by = TEXT(by[i]), k.order = TEXT(order[i]), k.top = 3));
    ASK(waits, Waits, WAITS,
        (k.from_ns = 100000, k.to_ns = 300000, k.by = TEXT("thread")));
    ASK(waits, Waits, WAITS, (k.object = TEXT("/m1"), k.stacks = true));
    ASK(waits, Waits, WAITS, (k.phase = 1));
    for (size_t i = 0; i < 5; i++)
        ASK(waits, Waits, WAITS,
            (k.object = TEXT("/m*/comm.7*"), k.by = TEXT(by[i]),
             k.order = TEXT(order[4 - i]), k.from_ns = 50000,
             k.to_ns = 200000));
    ASK(waits, Waits, WAITS, (k.object = TEXT("/m7")));
    ASK(requests, Requests, REQUESTS, (k.lane = &lane));
    ASK(requests, Requests, REQUESTS, (k.lane = &lane, k.by = TEXT("mark")));
    ASK(requests, Requests, REQUESTS,
        (k.lane = &lane, k.from_ns = 100000, k.to_ns = 300000, k.top = 4));
}

static void ask_changes(void)
{
    Ips__WhatifEdit edit[2], *edits[] = {&edit[0], &edit[1]};
    ips__whatif_edit__init(&edit[0]);
    ips__whatif_edit__init(&edit[1]);
    edit[0].process = TEXT("*");
    edit[0].ppm = 300000;
    edit[1].message = TEXT("*->*");
    edit[1].ppm = 1000000;
#define WHATIF(set) ASK(whatif, Whatif, WHATIF, (k.lane = &lane, set))
    WHATIF((k.rank = true, k.rank_ppm = 500000));
    WHATIF((k.rank = true, k.rank_ppm = 1000000, k.top = 2, use_lane(700, 3)));
    WHATIF((k.edits = edits, k.n_edits = 2, use_lane(700, 3)));
    WHATIF((k.edits = edits, k.n_edits = 1, k.weighting = TEXT("sched")));
    WHATIF((k.edits = edits, k.n_edits = 1, k.from_ns = 100000,
            k.to_ns = 300000, k.weighting = TEXT("wall")));
    WHATIF((k.slack = true, k.near_ppm = 50000, k.top = 3));
    WHATIF((k.slack = true, k.near_ppm = 1000, k.next = 4));
    WHATIF((k.next = 4, k.by_procedure = true));
    WHATIF((k.edits = edits, k.n_edits = 2, k.goal = TEXT(M0)));
    edit[0].process = TEXT("comm.7*");
    edit[1].message = TEXT("m1/comm.8* -> *");
    WHATIF((k.edits = edits, k.n_edits = 2, k.goal = TEXT(P1)));
    WHATIF((k.edits = edits, k.n_edits = 2, k.weighting = TEXT("wall"),
            k.goal = TEXT(P2), k.from_ns = 50000, k.to_ns = 200000));
    WHATIF((k.rank = true, k.rank_ppm = 250000, k.weighting = TEXT("wall"),
            k.phase = 2));
    WHATIF((k.rank = true, k.rank_ppm = 250000, k.weighting = TEXT("sched"),
            lane.external = 1, k.slack = true, k.near_ppm = 200000));
    ASK(why, Why, WHY, (k.goal = TEXT(P1)));
    ASK(why, Why, WHY, (k.from_ns = 50000, k.to_ns = 200000));
    ASK(why, Why, WHY, (k.phase = 2, k.uncalibrated = true));
    ASK(estimate, Estimate, ESTIMATE,
        (k.lane = &lane, k.goal = TEXT(P1), lane.external = 1));
    ASK(why, Why, WHY, (void)0);
    ASK(why, Why, WHY, (k.answer = TEXT("turnaround"), k.top = 1));
    ASK(why, Why, WHY, (k.answer = TEXT("latency")));
    ASK(why, Why, WHY, (k.answer = TEXT("throughput")));
    ASK(why, Why, WHY, (k.from_ns = 100000, k.to_ns = 300000));
    ASK(why, Why, WHY, (k.phase = 1));
    ASK(why, Why, WHY, (k.goal = TEXT(M1)));
    ASK(estimate, Estimate, ESTIMATE, (k.lane = &lane));
    ASK(estimate, Estimate, ESTIMATE,
        (k.lane = &lane, k.system_ppm = 50000, use_lane(700, 3)));
    ASK(estimate, Estimate, ESTIMATE,
        (k.lane = &lane, k.shared_medium = true, use_lane(700, 3)));
}

static void ask_predictions(void)
{
    Ips__PredictMachine machine[2], *machines[] = {&machine[0], &machine[1]};
    Ips__PredictPlace place = IPS__PREDICT_PLACE__INIT, *places[] = {&place};
    Ips__PredictNet net[2], *nets[] = {&net[0], &net[1]};
    Ips__PredictMove move = IPS__PREDICT_MOVE__INIT, *moves[] = {&move};
    Ips__PredictSearch search = IPS__PREDICT_SEARCH__INIT;
    for (int i = 0; i < 2; i++) {
        ips__predict_machine__init(&machine[i]);
        ips__predict_net__init(&net[i]);
        machine[i].name = TEXT(i ? "b" : "a");
        machine[i].cores = (uint32_t)(1 + i);
        machine[i].speed_num = 3;
        machine[i].speed_den = (uint32_t)(2 + 2 * i);
        net[i].from = TEXT(i ? "b" : "a");
        net[i].to = TEXT(i ? "a" : "*");
    }
    machine[0].load_num = 1;
    machine[0].load_den = 2;
    machine[1].taken_num = 1;
    machine[1].taken_den = 4;
    machine[1].turn_said = true;
    machine[1].turn_ns = 5000;
    net[0].given = net[0].both = true;
    net[0].base_ns = 2000;
    net[0].per_byte_q32 = 5ULL << 32;
    net[1].scale_num = 2;
    net[1].scale_den = 1;
    net[1].medium = TEXT("bus");
    place.what = TEXT("*");
    place.machine = TEXT("b");
    move.what = TEXT("*");
    move.at_ns = 200000;
    move.machine = TEXT("a");
    search.tries = 9;
    search.top = 2;
    search.seed = 3;
#define PREDICT(set) ASK(predict, Predict, PREDICT, (k.lane = &lane, set))
#define MACHINES (k.machines = machines, k.n_machines = 2)
#define MAP (k.map = places, k.n_map = 1)
    PREDICT((k.top = 3));
    PREDICT((MACHINES, MAP, k.top = 3));
    PREDICT((MACHINES, MAP, k.nets = nets, k.n_nets = 2, k.top = 4));
    PREDICT((MACHINES, MAP, k.moves = moves, k.n_moves = 1, use_lane(700, 3)));
    PREDICT((k.goal = TEXT(M0), use_lane(700, 3), k.top = 2));
    PREDICT((MACHINES, k.search = &search, k.top = 2));
    PREDICT((MAP, k.top = 1));
    place.what = TEXT("comm.7*");
    move.what = TEXT("/m1/comm.8*");
    move.at_ns = 60000;
    PREDICT((MACHINES, MAP, k.top = 5));
    PREDICT((MACHINES, MAP, k.moves = moves, k.n_moves = 1, k.external = true));
    PREDICT((k.goal = TEXT(P1), lane.external = 1, k.external = true));
    machine[0].load_recorded = true;
    PREDICT((MACHINES, k.search = &search, MAP, k.top = 2));
}

/* The last: from now on there are measured message times. */
static void ask_calibrated(void)
{
    static char table[] = "ips-message-times 1\n"
                          "pair m0 m0 unix 2026-01-02T00:00:00Z by hand\n"
                          "point 1 300 200 400 50 120\n"
                          "point 1000 900 800 1000 50 150\n"
                          "pair m0 m1 tcp 2026-01-02T00:00:00Z by hand\n"
                          "point 1 1500 1400 1600 50 200\n"
                          "point 100 1400 1300 1500 50 210\n"
                          "point 1000 2500 2400 2600 50 260\n"
                          "pair m1 m0 tcp 2026-01-02T00:00:00Z by hand\n"
                          "point 1 1700 1600 1800 50\n"
                          "wake m0 2400 2026-01-02T00:00:00Z by hand\n"
                          "wake m1 0 2026-01-02T00:00:00Z by hand\n";
    ASK(calibrate, Calibrate, CALIBRATE,
        (k.what = IPS__CALIBRATE_ASK__WHAT__IMPORT, k.text = table));
    ASK(calibrate, Calibrate, CALIBRATE, (void)0);
    ASK(calibrate, Calibrate, CALIBRATE,
        (k.what = IPS__CALIBRATE_ASK__WHAT__EXPORT));
    ASK(calibrate, Calibrate, CALIBRATE,
        (k.what = IPS__CALIBRATE_ASK__WHAT__MEASURE, k.rounds = 2000000000));
    PATH((lane.calibrated = true, k.by = all_by, k.n_by = 7));
    PATH((lane.calibrated = true, k.weighting = TEXT("wall"), k.segments = true,
          k.top = 5));
    PATH((lane.calibrated = true, k.engine = TEXT("central"),
          k.goal = TEXT(P1)));
    ASK(why, Why, WHY, (void)0);
    ASK(why, Why, WHY, (k.uncalibrated = true));
    WHATIF((lane.calibrated = true, k.rank = true, k.rank_ppm = 500000));
    PREDICT((lane.calibrated = true, k.top = 3));
    ASK(estimate, Estimate, ESTIMATE,
        (k.lane = &lane, lane.calibrated = true, k.system_ppm = 100000));
    ASK(waits, Waits, WAITS, (k.by = TEXT("cause")));
    ASK(requests, Requests, REQUESTS,
        (k.lane = &lane, lane.calibrated = true, k.top = 3));
}

#define QUESTION(name)                                                         \
    static void test_frozen__##name(void **state)                              \
    {                                                                          \
        (void)state;                                                           \
        got_bytes = 0;                                                         \
        ask_##name();                                                          \
        compare(#name);                                                        \
    }
QUESTION(paths)
QUESTION(tables)
QUESTION(waits)
QUESTION(changes)
QUESTION(predictions)
QUESTION(calibrated)

static int start(void **state)
{
    (void)state;
    for (size_t i = 0; i < PATTERNS; i++) {
        struct synth_options o = synth_default(patterns[i]);
        o.nodes = 240;
        o.slaves = REAL_SLAVES;
        o.threads = 5 + (uint32_t)i % 2;
        o.seed = 7 + i;
        o.forms = i == 1;
        real_start(&run[i].real, &o);
    }
    for (size_t i = PATTERNS; i < WORLDS; i++) {
        const uint64_t seed = 20 + 2 * i;
        cluster_start(&run[i].real.c);
        real_slaves_start_with(&run[i].real, make_model_pool, &seed,
                               run[i].real.c.master.address);
    }
    return 0;
}

static int stop(void **state)
{
    (void)state;
    for (size_t i = 0; i < WORLDS; i++)
        real_stop(&run[i].real);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frozen__paths),
        cmocka_unit_test(test_frozen__tables),
        cmocka_unit_test(test_frozen__waits),
        cmocka_unit_test(test_frozen__changes),
        cmocka_unit_test(test_frozen__predictions),
        cmocka_unit_test(test_frozen__calibrated),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
