/* A certificate in its three forms, word for word, of numbers that are all
 * different: each is where it belongs, in its unit. And what is nothing, or
 * was not measured, is left out in words. Catches: a figure under another's
 * name, a line that is missing or said of nothing, a machine's own load taken
 * for other programs', a limit that is off by one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/base/out.h"
#include "proto/message.h"

/* Beside enum ipsq_format, whose table has all lines. */
enum { LINE = 100, LIMITS, ALL_LIMITS };

static __attribute__((noinline)) char *written(const Ips__Certificate *c,
                                               int format)
{
    char *buffer = NULL;
    size_t length = 0;
    FILE *f = open_memstream(&buffer, &length);
    if (format == IPSQ_TSV) {
        ipsq_certificate_write_tsv(f, c);
    } else if (format == IPSQ_TABLE) {
        ipsq_certificate_write_text(f, c, true);
    } else if (format == LIMITS) {
        ipsq_certificate_write_limitations(f, c, false);
    } else if (format == ALL_LIMITS) {
        ipsq_certificate_write_limitations(f, c, true);
    } else if (format == LINE) {
        ipsq_certificate_write_text(f, c, false);
    } else {
        struct ipsq_json j;
        ipsq_json_init(&j, f, false);
        ipsq_certificate_write_json(&j, c);
    }
    fclose(f);
    return buffer;
}

static void check(const Ips__Certificate *c, int format, const char *want)
{
    char *got = written(c, format);
    assert_string_equal(got, want);
    free(got);
}

struct made {
    Ips__Certificate c;
    Ips__Count lost[2], *losts[2];
    Ips__Untraced untraced, *untraceds[1];
    Ips__MachineLoad load[2], *loads[2];
    Ips__LaneResult lane[2], *lanes[2];
    char *machines[2], *missing[1], *unseen[1], *notes[1], *details[1], *gap[1];
};

static void make_rows(struct made *m)
{
    for (int i = 0; i < 2; i++) {
        ips__count__init(&m->lost[i]);
        m->lost[i].name = ips_unconst_text(i ? "torn" : "pool full");
        m->lost[i].count = i ? 5 : 3;
        m->losts[i] = &m->lost[i];
        ips__machine_load__init(&m->load[i]);
        m->load[i].machine = ips_unconst_text(i ? "m2" : "m1");
        m->load[i].milli = i ? 4000 : 2249;
        m->load[i].own_milli = 2000;
        m->load[i].samples = i ? 8 : 6;
        m->loads[i] = &m->load[i];
        ips__lane_result__init(&m->lane[i]);
        m->lane[i].lane = ips_unconst_text(i ? "external off" : "x2");
        m->lane[i].t_max_ns = i ? 2000 : 3000000;
        m->lane[i].same_order = !i;
        m->lanes[i] = &m->lane[i];
    }
    ips__untraced__init(&m->untraced);
    m->untraced.machine = ips_unconst_text("m1");
    m->untraced.cause = ips_unconst_text("static");
    m->untraced.program = ips_unconst_text("/bin/x");
    m->untraced.count = 2;
    m->untraced.pid = 77;
    m->untraceds[0] = &m->untraced;
}

static void make(struct made *m)
{
    memset(m, 0, sizeof(*m));
    make_rows(m);
    ips__certificate__init(&m->c);
    m->machines[0] = ips_unconst_text("m1");
    m->machines[1] = ips_unconst_text("m2");
    m->missing[0] = ips_unconst_text("m3");
    m->gap[0] = ips_unconst_text("m3 is missing");
    m->unseen[0] = ips_unconst_text("raw futexes");
    m->notes[0] = ips_unconst_text("a note");
    m->details[0] = ips_unconst_text("a detail");
#define LIST(field, from, count)                                               \
    m->c.field = m->from;                                                      \
    m->c.n_##field = (count)
    LIST(lost, losts, 2);
    LIST(machines, machines, 2);
    LIST(missing_machines, missing, 1);
    LIST(gaps, gap, 1);
    LIST(unseen, unseen, 1);
    LIST(notes, notes, 1);
    LIST(details, details, 1);
    LIST(untraced, untraceds, 1);
    LIST(loads, loads, 2);
    LIST(lanes, lanes, 2);
#undef LIST
    m->c.events = 1001;
    m->c.records_read = 1002;
    m->c.unmatched = 11;
    m->c.ambiguous = 12;
    m->c.pending = 13;
    m->c.external = 14;
    m->c.idle = 15;
    m->c.any = 16;
    m->c.any_on_path = 17;
    m->c.any_unmatched = 18;
    m->c.spin_ns = 19000;
    m->c.run_delay_unknown_ns = 20000;
    m->c.unended_ns = 20001;
    m->c.untraced_processes = 21;
    m->c.clock = ips_unconst_text("none used");
    m->c.engine = ips_unconst_text("contract");
    m->c.probe_ns = 22;
    m->c.overhead_ns = 23000;
    m->c.probe_arc_ns = 24;
    m->c.dilation_ppm = 25600;
    m->c.cpu_ns = 50000;
    m->c.guessed_cpu_ns = 5000;
    m->c.guesses_settled = 4;
    m->c.guess_off_ns = 104;
    m->c.guess_off_max_ns = 99;
    m->c.message_times = ips_unconst_text("1 us");
    m->c.unattributed_cpu_ns = 27000;
    m->c.category = 3;
    m->c.plan = ips_unconst_text("the slaves' graphs");
    m->c.took_ns = 28000000;
}

static void test_certificate__in_words(void **state)
{
    struct made m;
    (void)state;
    make(&m);
    check(
        &m.c, IPSQ_TABLE,
        "note: a note\n"
        "certificate: INCOMPLETE; 1,001 events\n"
        "  machines: m1,m2\n"
        "  machines missing: m3\n"
        "  events lost (pool full): 3\n"
        "  events lost (torn): 5\n"
        "  receives whose send was not recorded: 11\n"
        "  receives that several sends explain: 12\n"
        "  receives on channels that are still open: 13\n"
        "  waits for something not recorded (disk, timer, unrecorded peer): "
        "14\n"
        "  timed waits that ran out: 15\n"
        "  answered in 28.00 ms from the slaves' graphs (category 3)\n"
        "  computed by: contract\n"
        "  message times: 1 us\n"
        "  comparison of the machines' clocks: none used\n"
        "  recording overhead: 23.00 us CPU, 2.56% of the program's; 22 ns a "
        "call\n"
        "  10.00% of the CPU time was estimated instead of read; 4 later "
        "readings of the clock showed errors of 26 ns on average and 99 ns at "
        "most\n"
        "  waits for locks and similar resources: 16, on the path: 17 "
        "(another order could change the path)\n"
        "  waits for locks and similar resources, release not recorded: 18\n"
        "  19.00 us CPU spent spinning, in no total\n"
        "  threads were off the CPU for 20.00 us between waits; whether they "
        "waited for a CPU is not known\n"
        "  27.00 us of the CPU time that the kernel counted is in no thread's "
        "record\n"
        "  other programs wanted 2.0 cores of m2\n"
        "  longest path with x2: 3.000 ms\n"
        "  longest path with external off: 2.000 us (through other events)\n"
        "  note: a detail\n");
    check(&m.c, LINE,
          "note: a note\n"
          "INCOMPLETE; 1,001 events; recording overhead 2.6% CPU; 2 machines; "
          "other programs wanted 2.0 cores of m2; another lock order could "
          "change the path\n");
}

/* What limits an answer: all with -v, else one of each kind. What no record of
 * any run has is not said of each. */
static void test_certificate__limits(void **state)
{
    struct made m;
    char *gaps[] = {ips_unconst_text("m3 is missing"),
                    ips_unconst_text("it goes on")};
    char *unseen[] = {ips_unconst_text("io_uring"), ips_unconst_text("any")};
    Ips__Untraced *two[2];
    (void)state;
    make(&m);
    two[0] = two[1] = &m.untraced;
    m.c.gaps = gaps;
    m.c.n_gaps = 2;
    m.c.unseen = unseen;
    m.c.n_unseen = 2;
    m.c.untraced = two;
    m.c.n_untraced = 2;
    check(&m.c, LIMITS,
          "INCOMPLETE: m3 is missing (and 1 more: -v)\n"
          "not recorded: 2 processes on m1, linked statically: /bin/x (pid 77) "
          "(and 1 more: -v)\n"
          "not seen: io_uring\n");
    check(
        &m.c, ALL_LIMITS,
        "INCOMPLETE: m3 is missing\nINCOMPLETE: it goes on\n"
        "not recorded: 2 processes on m1, linked statically: /bin/x (pid 77)\n"
        "not recorded: 2 processes on m1, linked statically: /bin/x (pid 77)\n"
        "not seen: io_uring\nnot seen: any\n");
    m.c.n_gaps = 0;
    m.c.complete = true;
    m.c.n_untraced = 0;
    m.c.n_unseen = 1;
    check(&m.c, LIMITS, "");
    check(NULL, LIMITS, "INCOMPLETE: the answer came without a certificate\n");
}

static void test_certificate__in_tsv(void **state)
{
    struct made m;
    (void)state;
    make(&m);
    check(&m.c, IPSQ_TSV,
          "#certificate\tcomplete\tfalse\n"
          "#certificate\tgap\tm3 is missing\n"
          "#certificate\tevents\t1001\n"
          "#certificate\tlost\t8\n"
          "#certificate\tunmatched\t11\n"
          "#certificate\tambiguous\t12\n"
          "#certificate\tpending\t13\n"
          "#certificate\texternal\t14\n"
          "#certificate\tidle\t15\n"
          "#certificate\tany\t16\n"
          "#certificate\tany_on_path\t17\n"
          "#certificate\tany_unmatched\t18\n"
          "#certificate\tmachines\tm1,m2\n"
          "#certificate\tmissing_machines\tm3\n"
          "#certificate\tuntraced_processes\t21\n"
          "#certificate\tuntraced\tm1: 2 static: /bin/x (pid 77)\n"
          "#certificate\tcategory\t3\n"
          "#certificate\tplan\tthe slaves' graphs\n"
          "#certificate\ttook_ns\t28000000\n"
          "#certificate\tmessage_times\t1 us\n"
          "#certificate\toverhead_ns\t23000\n"
          "#certificate\tprobe_arc_ns\t24\n"
          "#certificate\tdilation\t0.025600000000000001\n"
          "#certificate\tcpu_ns\t50000\n"
          "#certificate\tguessed_cpu_ns\t5000\n"
          "#certificate\tguess_off_max_ns\t99\n");
}

static void test_certificate__in_json(void **state)
{
    struct made m;
    (void)state;
    make(&m);
    check(&m.c, IPSQ_JSON,
          "{\"complete\": false, \"gaps\": [\"m3 is missing\"], \"events\": "
          "1001, \"records_read\": 1002, "
          "\"lost\": [{\"cause\": \"pool full\", \"count\": 3}, {\"cause\": "
          "\"torn\", \"count\": 5}], \"unmatched\": 11, \"ambiguous\": 12, "
          "\"pending\": 13, \"external\": 14, \"idle\": 15, \"any\": 16, "
          "\"any_on_path\": 17, \"any_unmatched\": 18, \"spin_ns\": 19000, "
          "\"run_delay_unknown_ns\": 20000, \"unended_ns\": 20001, "
          "\"machines\": [\"m1\", \"m2\"], "
          "\"missing_machines\": [\"m3\"], \"untraced_processes\": 21, "
          "\"untraced\": [{\"machine\": \"m1\", \"cause\": \"static\", "
          "\"program\": \"/bin/x\", \"count\": 2, \"pid\": 77}], \"unseen\": "
          "[\"raw futexes\"], \"clock\": \"none used\", \"engine\": "
          "\"contract\", \"probe_ns\": 22, \"overhead_ns\": 23000, "
          "\"probe_arc_ns\": 24, \"dilation\": 0.025600000000000001, "
          "\"cpu_ns\": 50000, \"guessed_cpu_ns\": 5000, \"guesses_settled\": "
          "4, \"guess_off_ns\": 104, \"guess_off_max_ns\": 99, \"loads\": "
          "[{\"machine\": \"m1\", \"load\": 2.2490000000000001, \"own_load\": "
          "2, \"samples\": 6}, {\"machine\": \"m2\", \"load\": 4, "
          "\"own_load\": 2, \"samples\": 8}], \"message_times\": \"1 us\", "
          "\"lanes\": [{\"lane\": \"x2\", \"t_max_ns\": 3000000, "
          "\"same_order\": true}, {\"lane\": \"external off\", \"t_max_ns\": "
          "2000, \"same_order\": false}], \"unattributed_cpu_ns\": 27000, "
          "\"category\": 3, \"plan\": \"the slaves' graphs\", \"took_ns\": "
          "28000000, \"notes\": [\"a note\", \"a detail\"]}");
}

/* Nothing, and not measured: the same words, which are next to none. */
static void test_certificate__nothing_is_not_said(void **state)
{
    Ips__Certificate c = IPS__CERTIFICATE__INIT;
    (void)state;
    c.complete = true;
    check(&c, IPSQ_TABLE, "certificate: complete; 0 events\n");
    check(&c, LINE, "complete; 0 events; 0 machines\n");
    c.unmatched = c.ambiguous = c.pending = c.external = UINT64_MAX;
    c.idle = c.any = c.any_unmatched = c.spin_ns = UINT64_MAX;
    c.run_delay_unknown_ns = c.overhead_ns = UINT64_MAX;
    c.guessed_cpu_ns = c.unattributed_cpu_ns = UINT64_MAX;
    c.untraced_processes = c.dilation_ppm = UINT64_MAX;
    c.cpu_ns = c.guesses_settled = 7;
    check(&c, IPSQ_TABLE, "certificate: complete; 0 events\n");
    check(&c, LINE, "complete; 0 events; 0 machines\n");
    check(NULL, IPSQ_TABLE, "certificate: INCOMPLETE\n");
}

/* Each line alone, at the least that is said. */
static void test_certificate__one_is_said(void **state)
{
    static const struct {
        size_t field;
        const char *text;
    } one[] = {
        {offsetof(Ips__Certificate, unmatched),
         "  receives whose send was not recorded: 1\n"},
        {offsetof(Ips__Certificate, any),
         "  waits for locks and similar resources: 1, on the path: 0\n"},
        {offsetof(Ips__Certificate, any_unmatched),
         "  waits for locks and similar resources, release not recorded: 1\n"},
        {offsetof(Ips__Certificate, spin_ns),
         "  1 ns CPU spent spinning, in no total\n"},
        {offsetof(Ips__Certificate, run_delay_unknown_ns),
         "  threads were off the CPU for 1 ns between waits; whether they "
         "waited for a CPU is not known\n"},
        {offsetof(Ips__Certificate, unattributed_cpu_ns),
         "  1 ns of the CPU time that the kernel counted is in no thread's "
         "record\n"},
        {offsetof(Ips__Certificate, overhead_ns),
         "  recording overhead: 1 ns CPU, 0.00% of the program's; 0 a call\n"},
        {offsetof(Ips__Certificate, guessed_cpu_ns), ""}};
    (void)state;
    for (size_t i = 0; i < sizeof(one) / sizeof(*one); i++) {
        Ips__Certificate c = IPS__CERTIFICATE__INIT;
        const uint64_t n = 1;
        char want[400];
        c.complete = true;
        memcpy((uint8_t *)&c + one[i].field, &n, sizeof(n));
        snprintf(want, sizeof(want), "certificate: complete; 0 events\n%s",
                 one[i].text);
        check(&c, IPSQ_TABLE, want);
    }
    Ips__Certificate c = IPS__CERTIFICATE__INIT;
    c.complete = true;
    c.overhead_ns = 1;
    c.dilation_ppm = UINT64_MAX;
    check(&c, IPSQ_TABLE,
          "certificate: complete; 0 events\n"
          "  recording overhead: 1 ns CPU; 0 a call\n");
    c.dilation_ppm = 499;
    check(&c, LINE,
          "complete; 0 events; recording overhead below 0.1% CPU; 0 "
          "machines\n");
    c.dilation_ppm = 500;
    check(&c, LINE,
          "complete; 0 events; recording overhead 0.1% CPU; 0 machines\n");
}

/* A run whose load is its own prints nothing of other programs; they are said
 * from a quarter of a core on. */
static void test_certificate__other_programs(void **state)
{
    struct made m;
    (void)state;
    static const struct {
        uint64_t milli, own;
        const char *text; /* NULL: nothing */
    } load[] = {{5000, 5000, NULL},
                {5249, 5000, NULL},
                {5250, 5000, "wanted 0.2 cores"},
                {3000, 5000, NULL},
                {9000, 1500, "wanted 7.5 cores"}};
    for (size_t i = 0; i < sizeof(load) / sizeof(*load); i++) {
        make(&m);
        m.c.n_loads = 1;
        m.load[0].milli = load[i].milli;
        m.load[0].own_milli = load[i].own;
        char *text = written(&m.c, IPSQ_TABLE);
        const char *at = strstr(text, "other programs ");
        assert_int_equal(at != NULL, load[i].text != NULL);
        if (at)
            assert_memory_equal(at + strlen("other programs "), load[i].text,
                                strlen(load[i].text));
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_certificate__in_words),
        cmocka_unit_test(test_certificate__limits),
        cmocka_unit_test(test_certificate__in_tsv),
        cmocka_unit_test(test_certificate__in_json),
        cmocka_unit_test(test_certificate__nothing_is_not_said),
        cmocka_unit_test(test_certificate__one_is_said),
        cmocka_unit_test(test_certificate__other_programs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
