/* Whole commands against a master that says what the test wants: exit status,
 * JSON keys, and what happens when the master is wrong, dies or refuses. */
#include "scripted_master.h"

/* ---- a master with a script ------------------------------------------- */

enum script {
    GOOD,
    INCOMPLETE,
    NO_CERTIFICATE,
    EMPTY_PATH,
    ERROR,
    WRONG_KIND,
    DIES,
    GARBAGE,
    STRAY,      /* an answer to a question that nobody asked, then nothing */
    UNRECORDED, /* one gap, which says that processes ran unrecorded */
    MORE_GAPS,  /* that and another one */
    OTHER_GAP,  /* the other one alone */
};

static char text_of[32][64]; /* texts of replies: protobuf-c wants char * */
static unsigned text_count;

static char *text(const char *from)
{
    char *to = text_of[text_count++ % 32];
    snprintf(to, sizeof(text_of[0]), "%s", from);
    return to;
}

/* Two processes that were not recorded, and the gaps. */
static void add_unrecorded(Ips__Certificate *c, enum script script)
{
    static Ips__Untraced u, *untraced[] = {&u};
    static char *gaps[2];
    ips__untraced__init(&u);
    u.cause = text("static");
    u.program = text("/bin/busybox");
    u.count = 2;
    c->complete = false;
    c->untraced = untraced;
    c->n_untraced = 1;
    c->gaps = gaps;
    if (script != UNRECORDED)
        gaps[c->n_gaps++] = text("the run goes on");
    if (script != OTHER_GAP)
        gaps[c->n_gaps++] = text("2 processes" IPS_GAP_UNRECORDED);
}

static Ips__Certificate *certificate(enum script script)
{
    static Ips__Certificate c;
    static char *machines[1];
    c = (Ips__Certificate)IPS__CERTIFICATE__INIT;
    c.complete = script != INCOMPLETE;
    c.events = 99;
    machines[0] = text("m1");
    c.machines = machines;
    c.n_machines = 1;
    c.probe_ns = UINT64_MAX;
    c.message_times = text("0 (not calibrated)");
    if (script >= UNRECORDED)
        add_unrecorded(&c, script);
    return script == NO_CERTIFICATE ? NULL : &c;
}

static void answer_runs(int fd, uint64_t id)
{
    Ips__RunRow one = IPS__RUN_ROW__INIT, two = IPS__RUN_ROW__INIT;
    Ips__RunRow *rows[] = {&one, &two};
    Ips__RunsAnswer a = IPS__RUNS_ANSWER__INIT;
    Ips__Reply r = IPS__REPLY__INIT;
    one.run = text("older");
    one.created_real_ns = 1000000000;
    two.run = text("newer");
    two.created_real_ns = 2000000000;
    two.lost = UINT64_MAX;
    a.runs = rows;
    a.n_runs = 2;
    r.answer_case = IPS__REPLY__ANSWER_RUNS;
    r.runs = &a;
    reply(fd, id, &r, true);
}

static void answer_path(int fd, const Ips__Request *rq, enum script script)
{
    Ips__Segment seg = IPS__SEGMENT__INIT, *segs[] = {&seg};
    Ips__Share share = IPS__SHARE__INIT, *shares[] = {&share};
    Ips__PathAnswer a = IPS__PATH_ANSWER__INIT;
    Ips__Reply r = IPS__REPLY__INIT;
    r.answer_case = IPS__REPLY__ANSWER_PATH;
    r.path = &a;
    seg.kind = text("compute");
    seg.machine = text("m1");
    seg.process = text("sort.7");
    seg.thread = text("7");
    a.segments = segs;
    a.n_segments = 1;
    for (uint64_t i = 1; i <= 3 && script != EMPTY_PATH; i++) {
        seg.to_node = i;
        seg.ns = i == 2 ? 30 : 10;
        bool wanted = rq->path->top == 0 || rq->path->top >= 3 || i == 2 ||
                      (rq->path->top == 2 && i == 1);
        if (wanted) /* three pieces, or the longest */
            reply(fd, rq->id, &r, false);
        seg.from_node = i;
    }
    a.segment_count = script == EMPTY_PATH ? 0 : 3;
    a.n_segments = 0;
    a.weighting = rq->path->weighting;
    a.engine = rq->path->engine;
    a.t_max_ns = script == EMPTY_PATH ? 0 : 50;
    a.total_cpu_ns = 100;
    a.parallelism = 2;
    a.p_max = IPS_UNMEASURED_REAL;
    share.object = text("m1");
    share.ns = 50;
    a.window_ns = a.t_max_ns;
    a.by_machine = shares;
    a.n_by_machine = script != EMPTY_PATH;
    a.certificate = certificate(script);
    a.elapsed_ns =
        rq->path->lane->message_time_base_ns; /* for the test to see */
    /* not measured in one of the runs */
    a.run_delay_ns = strcmp(rq->run, "older") == 0 ? IPS_UNMEASURED : 5;
    reply(fd, rq->id, &r, true);
}

static void answer_graph(int fd, uint64_t id)
{
    Ips__GraphNode node = IPS__GRAPH_NODE__INIT, *nodes[] = {&node};
    Ips__GraphAnswer a = IPS__GRAPH_ANSWER__INIT;
    Ips__Reply r = IPS__REPLY__INIT;
    r.answer_case = IPS__REPLY__ANSWER_GRAPH;
    r.graph = &a;
    a.nodes = nodes;
    a.n_nodes = 1;
    node.machine = text("m1");
    node.kind = text("START");
    node.xkind = text("none");
    node.pred = node.xpred = node.arc_cpu_ns = node.xarc_cpu_ns = UINT64_MAX;
    node.bytes = UINT64_MAX;
    node.arc_sched_ns = node.xarc_sched_ns = UINT64_MAX;
    node.arc_wall_ns = node.xarc_wall_ns = UINT64_MAX;
    node.arc_probe_ns = UINT64_MAX;
    reply(fd, id, &r, false);
    node.id = 1;
    node.kind = text("END");
    node.pred = 0;
    node.arc_cpu_ns = 5;
    reply(fd, id, &r, false);
    a.n_nodes = 0;
    reply(fd, id, &r, true);
}

static void answer_ls(int fd, uint64_t id, enum script script)
{
    Ips__ObjectRow machine = IPS__OBJECT_ROW__INIT;
    Ips__ObjectRow process = IPS__OBJECT_ROW__INIT;
    Ips__ObjectRow *rows[] = {&machine, &process};
    Ips__LsAnswer a = IPS__LS_ANSWER__INIT;
    Ips__Reply r = IPS__REPLY__INIT;
    machine.object = text("/m1");
    machine.level = text("machine");
    process.object = text("/m1/sort.7");
    process.level = text("process");
    process.name = text("sort -n");
    process.pid = 7;
    process.parent_pid = 6;
    r.answer_case = IPS__REPLY__ANSWER_LS;
    r.ls = &a;
    a.rows = rows;
    a.n_rows = 1;
    reply(fd, id, &r, false); /* long answers come in pieces */
    a.rows = rows + 1;
    a.certificate = certificate(script);
    reply(fd, id, &r, true);
}

/* The estimate is 1 ns longer than the run, if that was measured. */
static void answer_estimate(int fd, const Ips__Request *rq)
{
    Ips__EstimateAnswer a = IPS__ESTIMATE_ANSWER__INIT;
    Ips__Reply r = IPS__REPLY__INIT;
    r.answer_case = IPS__REPLY__ANSWER_ESTIMATE;
    r.estimate = &a;
    a.estimate_ns = 11;
    a.wall_ns = strcmp(rq->run, "older") == 0 ? IPS_UNMEASURED : 10;
    a.certificate = certificate(GOOD);
    reply(fd, rq->id, &r, true);
}

static void answer_metrics(int fd, uint64_t id)
{
    Ips__MetricsRow row = IPS__METRICS_ROW__INIT, *rows[] = {&row};
    Ips__MetricsAnswer a = IPS__METRICS_ANSWER__INIT;
    Ips__Reply r = IPS__REPLY__INIT;
    r.answer_case = IPS__REPLY__ANSWER_METRICS;
    r.metrics = &a;
    row.level = text("run");
    a.rows = rows;
    a.n_rows = 1;
    reply(fd, id, &r, true);
}

/* Two phases of 21 and 19 ns in bins of 10. Of the older run one series is
 * shorter than the others. */
static void answer_phases(int fd, const Ips__Request *rq)
{
    static uint64_t cpu[] = {10, 20, 0, 5}, messages[] = {1, 2, 3, 4},
                    bytes[] = {5, 6, 7, 8}, waits[] = {9, 10, 11, 12},
                    ends[] = {121, 130};
    Ips__PhaseRow row[2], *rows[] = {&row[0], &row[1]};
    Ips__PhasesAnswer a = IPS__PHASES_ANSWER__INIT;
    Ips__Reply r = IPS__REPLY__INIT;
    r.answer_case = IPS__REPLY__ANSWER_PHASES;
    r.phases = &a;
    for (uint32_t i = 0; i < 2; i++) {
        ips__phase_row__init(&row[i]);
        row[i].number = i + 1;
        row[i].from_ns = i ? 121 : 100;
        row[i].to_ns = i ? 140 : 121;
        row[i].cpu_ns = 42;
        row[i].messages = 3;
        row[i].bytes = 4;
        row[i].wait_ns = 63;
    }
    row[0].process = text("/m1/a.3");
    row[0].process_ns = 17;
    row[0].procedure = text("f");
    row[0].module = text("/bin/a");
    row[0].procedure_ns = 16;
    a.phases = rows;
    a.n_phases = 2;
    a.from_ns = 100;
    a.to_ns = 140;
    a.bin_ns = rq->phases->phase == 9 ? 0 : 10;
    a.cpu_ns = cpu;
    a.messages = messages;
    a.bytes = bytes;
    a.wait_ns = waits;
    a.n_cpu_ns = a.n_messages = a.n_bytes = 4;
    a.n_wait_ns = strcmp(rq->run, "older") == 0 ? 3 : 4;
    a.cpu_phase_ends = ends;
    a.n_cpu_phase_ends = 1;
    a.message_phase_ends = ends;
    a.n_message_phase_ends = 2;
    a.cores = 6;
    a.certificate = certificate(GOOD);
    reply(fd, rq->id, &r, true);
}

static void answer(int fd, const Ips__Request *rq, int script)
{
    Ips__Reply r = IPS__REPLY__INIT;
    if (rq->ask_case == IPS__REQUEST__ASK_RUNS) {
        answer_runs(fd, rq->id);
        return;
    }
    if (script == ERROR) {
        r.error = IPS_E_REFUSED;
        r.message = text("not today");
        reply(fd, rq->id, &r, true);
    } else if (script == WRONG_KIND) {
        answer_runs(fd, rq->id);
    } else if (script == DIES) {
        _exit(0);
    } else if (script == GARBAGE) {
        if (write(fd, "\4\0\0\0\xff\xff\xff\xff", 8) != 8)
            _exit(1);
    } else if (script == STRAY) {
        reply(fd, rq->id + 4711, &r, true);
    } else if (rq->ask_case == IPS__REQUEST__ASK_PATH) {
        reply(fd, rq->id - 1, &r, true); /* to be passed over */
        answer_path(fd, rq, script);
    } else if (rq->ask_case == IPS__REQUEST__ASK_GRAPH) {
        answer_graph(fd, rq->id);
    } else if (rq->ask_case == IPS__REQUEST__ASK_LS) {
        answer_ls(fd, rq->id, script);
    } else if (rq->ask_case == IPS__REQUEST__ASK_ESTIMATE) {
        answer_estimate(fd, rq);
    } else if (rq->ask_case == IPS__REQUEST__ASK_METRICS) {
        answer_metrics(fd, rq->id);
    } else if (rq->ask_case == IPS__REQUEST__ASK_PHASES) {
        answer_phases(fd, rq);
    } else if (rq->ask_case == IPS__REQUEST__ASK_PROCEDURES) {
        r.error = IPS_E_NOT_FOUND;
        r.message = text("no samples");
        reply(fd, rq->id, &r, true);
    }
}

/* ---- asking it --------------------------------------------------------- */

static void ask(const char *line, enum script script, struct answered *a)
{
    ask_scripted(line, answer, (int)script, a);
}

static void has(const struct answered *a, const char *part)
{
    if (!strstr(a->out, part))
        fail_msg("no '%s' in: %s", part, a->out);
}

static void test_commands__path_json(void **state)
{
    (void)state;
    static struct answered a;
    ask("path --format json --engine central --mtime 3us", GOOD, &a);
    assert_int_equal(a.status, IPSQ_OK);
    static const char *const parts[] = {
        "\"run\": \"newer\"",
        "\"weighting\": \"cpu\"",
        "\"engine\": \"central\"",
        "\"t_max_ns\": 50",
        "\"total_cpu_ns\": 100",
        "\"parallelism_factor\": 2,",
        "\"p_max\": null",
        "\"elapsed_ns\": 3000",
        "\"shares\": {",
        "\"machines\": [",
        "\"processes\": []",
        "\"procedures\": []",
        "\"messages\": []",
        "\"externals\": []",
        "\"share\": 1,",
        "\"kind\": \"compute\", \"arc\": null, \"machine\": \"m1\", "
        "\"process\": \"sort.7\", \"thread\": \"7\", \"from_node\": 1, "
        "\"to_node\": 2, \"ns\": 30}",
        "\"certificate\": {",
        "\"probe_ns\": null",
        "\"complete\": true",
    };
    for (size_t i = 0; i < IPSQ_COUNT_OF(parts); i++)
        has(&a, parts[i]);
    ask("path old --format json", GOOD, &a);
    has(&a, "\"run\": \"older\"");
}

/* --top is asked for: the master sends the longest segments alone. */
static void test_commands__path_top(void **state)
{
    (void)state;
    static struct answered a;
    ask("path --format tsv --top 2", GOOD, &a);
    has(&a, "#segments\nkind\tarc\tmachine\tprocess\tthread\tfrom_node\t"
            "to_node\tns\ncompute\t\tm1\tsort.7\t7\t0\t1\t10\n"
            "compute\t\tm1\tsort.7\t7\t1\t2\t30\n#certificate");
    ask("path --top 1", GOOD, &a);
    has(&a, "the 1 longest segments");
    has(&a, "critical path        50 ns");
    has(&a, "complete; 99 events; 1 machine");
}

/* An answer that is not whole says so, by its status too; an empty path is
 * never printed as if nothing was wrong. */
static void test_commands__not_whole(void **state)
{
    (void)state;
    static struct answered a;
    ask("path", INCOMPLETE, &a);
    assert_int_equal(a.status, IPSQ_INCOMPLETE);
    has(&a, "INCOMPLETE");
    ask("path --format json", NO_CERTIFICATE, &a);
    assert_int_equal(a.status, IPSQ_INCOMPLETE);
    has(&a, "\"complete\": false");
    ask("path", EMPTY_PATH, &a);
    assert_int_equal(a.status, IPSQ_INCOMPLETE);
    has(&a, "NO PATH");
    ask("path --format json", EMPTY_PATH, &a);
    assert_int_equal(a.status, IPSQ_INCOMPLETE);
    has(&a, "\"segments\": []");
    ask("ls", INCOMPLETE, &a);
    assert_int_equal(a.status, IPSQ_INCOMPLETE);
}

static void test_commands__failures(void **state)
{
    (void)state;
    static struct answered a;
    static const char *const commands[] = {"path",  "ls",     "metrics",
                                           "graph", "events", "status"};
    for (size_t i = 0; i < IPSQ_COUNT_OF(commands); i++) {
        ask(commands[i], ERROR, &a);
        assert_int_equal(a.status, IPS_E_REFUSED);
        assert_non_null(strstr(a.err.msg, "not today"));
        assert_string_equal(a.out, "");
        ask(commands[i], WRONG_KIND, &a);
        assert_int_equal(a.status, IPS_E_PROTOCOL);
        ask(commands[i], DIES, &a);
        assert_int_equal(a.status, IPS_E_UNREACHABLE);
        assert_non_null(strstr(a.err.msg, "closed"));
        ask(commands[i], GARBAGE, &a);
        assert_int_equal(a.status, IPS_E_PROTOCOL);
        ask(commands[i], STRAY, &a); /* it waited for ever once */
        assert_int_equal(a.status, IPS_E_PROTOCOL);
        assert_non_null(strstr(a.err.msg, "answers no question"));
    }
    ask("path nosuch", GOOD, &a);
    assert_int_equal(a.status, IPS_E_NOT_FOUND);
    assert_non_null(strstr(a.err.msg, "nosuch"));
}

static void test_commands__graph(void **state)
{
    (void)state;
    static struct answered a;
    ask("graph --format jsonl", GOOD, &a);
    assert_int_equal(a.status, IPSQ_OK);
    assert_string_equal(
        a.out,
        "{\"id\": 0, \"machine\": \"m1\", \"pid\": 0, \"tid\": 0, \"kind\": "
        "\"START\", \"pred\": null, \"arc_cpu_ns\": null, \"arc_sched_ns\": "
        "null, \"arc_wall_ns\": null, \"arc_probe_ns\": null, \"xpred\": null, "
        "\"xarc_cpu_ns\": null, "
        "\"xarc_sched_ns\": null, \"xarc_wall_ns\": null, \"xkind\": null, "
        "\"t_ns\": 0, \"bytes\": null, \"channel\": null, "
        "\"arc_cut\": null, \"xarc_cut\": null}\n"
        "{\"id\": 1, \"machine\": \"m1\", \"pid\": 0, \"tid\": 0, \"kind\": "
        "\"END\", \"pred\": 0, \"arc_cpu_ns\": 5, \"arc_sched_ns\": null, "
        "\"arc_wall_ns\": null, \"arc_probe_ns\": null, \"xpred\": null, "
        "\"xarc_cpu_ns\": null, "
        "\"xarc_sched_ns\": null, \"xarc_wall_ns\": null, \"xkind\": null, "
        "\"t_ns\": 0, \"bytes\": null, \"channel\": null, "
        "\"arc_cut\": null, \"xarc_cut\": null}\n");
    ask("graph --format tsv", GOOD, &a);
    has(&a, "id\tmachine\t");
    assert_null(strstr(strstr(a.out, "\n") + 1, "machine")); /* one header */
}

static void test_commands__ls(void **state)
{
    (void)state;
    static struct answered a;
    ask("ls --format json", GOOD, &a);
    assert_int_equal(a.status, IPSQ_OK);
    has(&a, "\"machines\": [\n    {\"object\": \"/m1\", \"level\": "
            "\"machine\", \"name\": \"m1\", \"pid\": null");
    has(&a, "\"processes\": [\n    {\"object\": \"/m1/sort.7\", \"level\": "
            "\"process\", \"name\": \"sort.7\", \"pid\": 7, \"parent_pid\": "
            "6, \"tid\": null");
    has(&a, "\"command\": \"sort -n\"");
    has(&a, "\"threads\": []");
}

static void test_commands__runs(void **state)
{
    (void)state;
    static struct answered a;
    ask("runs --format tsv --top 1", GOOD, &a);
    assert_int_equal(a.status, IPSQ_OK);
    has(&a, "\nnewer\tfalse\t1970-01-01T00:00:02Z\t2000000000\t");
    assert_null(strstr(a.out, "older"));
    ask("runs --format json", GOOD, &a);
    has(&a, "\"lost\": null");
    has(&a, "\"run\": \"older\"");
}

/* Would catch: a gap that is not printed, or one that is printed twice. */
static void test_commands__summary(void **state)
{
    (void)state;
    static struct answered a;
    ask("summary", UNRECORDED, &a);
    assert_string_equal(a.out,
                        "1 process; 2 processes not recorded (busybox: linked "
                        "statically); INCOMPLETE\n");
    ask("summary", MORE_GAPS, &a);
    assert_string_equal(a.out,
                        "1 process; 2 processes not recorded (busybox: linked "
                        "statically); INCOMPLETE: the run goes on\n");
    ask("summary", OTHER_GAP, &a);
    assert_string_equal(a.out,
                        "1 process; 2 processes not recorded (busybox: linked "
                        "statically); INCOMPLETE: the run goes on\n");
}

/* Would catch: a difference of -1 ns taken for one that was not measured. */
static void test_commands__estimate(void **state)
{
    (void)state;
    static struct answered a;
    ask("estimate newer --format json", GOOD, &a);
    has(&a, "\"elapsed_less_estimate_ns\": -1,");
    ask("estimate older --format json", GOOD, &a);
    has(&a, "\"elapsed_less_estimate_ns\": null,");
}

/* Would catch: a figure that was not measured in a run taken for 0. */
static void test_commands__diff(void **state)
{
    (void)state;
    static struct answered a;
    ask("diff older newer --format json", GOOD, &a);
    assert_int_equal(a.status, IPSQ_OK);
    has(&a, "{\"figure\": \"of it in run queues\", \"first\": null, "
            "\"second\": 5,");
    has(&a, "{\"figure\": \"critical path\", \"first\": 50, \"second\": 50,");
    ask("diff older newer", GOOD, &a);
    has(&a, "of it in run queues  -      5 ns    -       -");
}

/* Would catch: a phase drawn over bins that are not its own, a rate by another
 * length, a figure of nobody printed as 0. */
static void test_commands__phases(void **state)
{
    (void)state;
    static struct answered a;
    ask("phases", GOOD, &a);
    assert_int_equal(a.status, IPSQ_OK);
    has(&a, "phase     |1 |\n");
    has(&a, "phases of CPU use alone: 1, of messages alone: 2");
    ask("phases --format tsv", GOOD, &a);
    has(&a,
        "\n1\t100\t121\t21\t42\t2\t3\t142857142.85714284\t4\t190476190\t63\t3\t"
        "/m1/a.3\t17\tf\t/bin/a\t16\n2\t121\t140\t19\t42\t");
    has(&a, "\t63\t3.3157894736842106\t\t\t\t\t\n");
    has(&a, "#bins\nfrom_ns\tcpu_ns\tmessages\tbytes\twait_ns\n"
            "100\t10\t1\t5\t9\n110\t20\t2\t6\t10\n120\t0\t3\t7\t11\n"
            "130\t5\t4\t8\t12\n");
    has(&a, "#cpu_phases\nto_ns\n121\n");
    has(&a, "#message_phases\nto_ns\n121\n130\n");
    ask("phases older", GOOD, &a);
    assert_int_equal(a.status, IPS_E_PROTOCOL);
    ask("phases newer --phase 9", GOOD, &a); /* bins of nothing */
    assert_int_equal(a.status, IPS_E_PROTOCOL);
    assert_string_equal(a.err.msg,
                        "the master sent series of different lengths");
}

/* Would catch: options together that exclude each other, or one without the
 * other that it needs. */
static void test_commands__together(void **state)
{
    static const struct {
        const char *line, *why;
    } t[] = {
        {"calibrate --show --forget",
         "give only one of --show, --export, --import and --forget"},
        {"calibrate --export x --import y",
         "give only one of --show, --export, --import and --forget"},
        {"calibrate --show --rounds 3",
         "--lengths and --rounds apply only when measuring"},
        {"calibrate --forget --lengths 64",
         "--lengths and --rounds apply only when measuring"},
        {"calibrate --show --force", "--force applies only when measuring"},
        {"calibrate --replace", "--replace needs --import"},
        {"calibrate m1 --show",
         "machine names apply only when measuring and with --forget"},
        {"calibrate --rounds 4294967296", "--rounds: too many"},
        {"metrics --pop --from 1s",
         "--pop covers the whole run: it cannot be used with a window"},
        {"metrics --pop --level machine",
         "--pop covers the whole run: it cannot be used with --object or "
         "--level"},
        {"metrics --pop --object /m1",
         "--pop covers the whole run: it cannot be used with --object or "
         "--level"},
        {"predict --tries 3", "--tries and --seed need --search"},
        {"predict --seed 3", "--tries and --seed need --search"},
        {"check", "name at least one limit, such as --max-wall 10s"},
    };
    (void)state;
    static struct answered a;
    for (size_t i = 0; i < IPSQ_COUNT_OF(t); i++) {
        ask(t[i].line, GOOD, &a);
        if (a.status != IPS_E_USAGE || strcmp(a.err.msg, t[i].why) != 0)
            fail_msg("%s: %d %s", t[i].line, a.status, a.err.msg);
    }
    ask("metrics --pop --level run --object /", GOOD, &a);
    assert_true(a.status >= 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_commands__phases),
        cmocka_unit_test(test_commands__together),
        cmocka_unit_test(test_commands__path_json),
        cmocka_unit_test(test_commands__path_top),
        cmocka_unit_test(test_commands__not_whole),
        cmocka_unit_test(test_commands__failures),
        cmocka_unit_test(test_commands__graph),
        cmocka_unit_test(test_commands__ls),
        cmocka_unit_test(test_commands__runs),
        cmocka_unit_test(test_commands__summary),
        cmocka_unit_test(test_commands__estimate),
        cmocka_unit_test(test_commands__diff),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
