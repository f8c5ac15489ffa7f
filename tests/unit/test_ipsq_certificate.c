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

#include "client/out.h"
#include "proto/message.h"

static char *written(const Ips__Certificate *c, enum ipsq_format format)
{
    char *buffer;
    size_t length;
    FILE *f = open_memstream(&buffer, &length);
    if (format == IPSQ_TSV) {
        ipsq_certificate_tsv(f, c);
    } else if (format == IPSQ_TABLE) {
        ipsq_certificate_text(f, c);
    } else {
        struct ipsq_json j;
        ipsq_json_init(&j, f, false);
        ipsq_certificate_json(&j, c);
    }
    fclose(f);
    return buffer;
}

static void check(const Ips__Certificate *c, enum ipsq_format format,
                  const char *want)
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
    char *machines[2], *missing[1], *unseen[1], *notes[1], *gap[1];
};

static void make_rows(struct made *m)
{
    for (int i = 0; i < 2; i++) {
        ips__count__init(&m->lost[i]);
        m->lost[i].name = ips_wire_text(i ? "torn" : "pool full");
        m->lost[i].count = i ? 5 : 3;
        m->losts[i] = &m->lost[i];
        ips__machine_load__init(&m->load[i]);
        m->load[i].machine = ips_wire_text(i ? "m2" : "m1");
        m->load[i].milli = i ? 4000 : 2249;
        m->load[i].own_milli = 2000;
        m->load[i].samples = i ? 8 : 6;
        m->loads[i] = &m->load[i];
        ips__lane_result__init(&m->lane[i]);
        m->lane[i].lane = ips_wire_text(i ? "external off" : "x2");
        m->lane[i].t_max_ns = i ? 2000 : 3000000;
        m->lane[i].same_order = !i;
        m->lanes[i] = &m->lane[i];
    }
    ips__untraced__init(&m->untraced);
    m->untraced.machine = ips_wire_text("m1");
    m->untraced.cause = ips_wire_text("static");
    m->untraced.program = ips_wire_text("/bin/x");
    m->untraced.count = 2;
    m->untraced.pid = 77;
    m->untraceds[0] = &m->untraced;
}

static void make(struct made *m)
{
    memset(m, 0, sizeof(*m));
    make_rows(m);
    ips__certificate__init(&m->c);
    m->machines[0] = ips_wire_text("m1");
    m->machines[1] = ips_wire_text("m2");
    m->missing[0] = ips_wire_text("m3");
    m->gap[0] = ips_wire_text("m3 is missing");
    m->unseen[0] = ips_wire_text("raw futexes");
    m->notes[0] = ips_wire_text("a note");
#define LIST(field, from, count)                                               \
    m->c.field = m->from;                                                      \
    m->c.n_##field = (count)
    LIST(lost, losts, 2);
    LIST(machines, machines, 2);
    LIST(missing_machines, missing, 1);
    LIST(gaps, gap, 1);
    LIST(unseen, unseen, 1);
    LIST(notes, notes, 1);
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
    m->c.clock = ips_wire_text("none used");
    m->c.engine = ips_wire_text("contract");
    m->c.probe_ns = 22;
    m->c.overhead_ns = 23000;
    m->c.probe_arc_ns = 24;
    m->c.dilation_ppm = 25600;
    m->c.cpu_ns = 50000;
    m->c.guessed_cpu_ns = 5000;
    m->c.guesses_settled = 4;
    m->c.guess_off_ns = 104;
    m->c.guess_off_max_ns = 99;
    m->c.message_times = ips_wire_text("1 us");
    m->c.unattributed_cpu_ns = 27000;
    m->c.category = 3;
    m->c.plan = ips_wire_text("the slaves' graphs");
    m->c.took_ns = 28000000;
}

static void test_certificate__in_words(void **state)
{
    struct made m;
    (void)state;
    make(&m);
    check(&m.c, IPSQ_TABLE,
          "certificate: INCOMPLETE; 1001 events, 3 LOST (pool full), 5 LOST "
          "(torn), 11 unmatched, 12 ambiguous, 13 pending, 14 external, 15 "
          "idle, 21 untraced processes; machines m1,m2; MISSING m3\n"
          "  incomplete: m3 is missing\n"
          "  answered in 28.00 ms from the slaves' graphs (category 3)\n"
          "  message times 1 us; clocks of machines compared: none used; "
          "measuring cost 23.00 us CPU, 2.56% of the program's (22 ns a "
          "recorded call)\n"
          "  10.00% of the CPU time was guessed, after short waits; 4 readings "
          "of the clock found it off by 26 ns in the mean, 99 ns at most, and "
          "settled that\n"
          "  waits for locks and other resources: 16, the path crosses 17 (in "
          "another order it may be another)\n"
          "  waits for locks and other resources that nobody was seen to end: "
          "18\n"
          "  19.00 us CPU was burnt by spinning; it counts nowhere\n"
          "  threads were off the CPU for 20.00 us between waits, and it is "
          "not known whether they queued\n"
          "  other programs of m2 had 2.0 threads that wanted a core\n"
          "  would be 3.000 ms with x2, 2.000 us with external off (another "
          "order)\n"
          "  27.00 us CPU that wait() reports belongs to no thread's record\n"
          "  untraced: m1: 2 static: /bin/x (pid 77)\n"
          "  not seen: raw futexes\n"
          "  note: a note\n");
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
          "28000000, \"notes\": [\"a note\"]}");
}

/* Nothing, and not measured: the same words, which are next to none. */
static void test_certificate__nothing_is_not_said(void **state)
{
    Ips__Certificate c = IPS__CERTIFICATE__INIT;
    (void)state;
    c.complete = true;
    check(&c, IPSQ_TABLE,
          "certificate: complete; 0 events, none lost; machines -\n");
    c.unmatched = c.ambiguous = c.pending = c.external = UINT64_MAX;
    c.idle = c.any = c.any_unmatched = c.spin_ns = UINT64_MAX;
    c.run_delay_unknown_ns = c.overhead_ns = UINT64_MAX;
    c.guessed_cpu_ns = c.unattributed_cpu_ns = UINT64_MAX;
    c.untraced_processes = c.dilation_ppm = UINT64_MAX;
    c.cpu_ns = c.guesses_settled = 7;
    check(&c, IPSQ_TABLE,
          "certificate: complete; 0 events, none lost; machines -\n");
    char *none = written(NULL, IPSQ_TABLE);
    assert_string_equal(none, "certificate: INCOMPLETE, none lost; machines "
                              "-\n  note: the answer came without a "
                              "certificate\n");
    free(none);
}

/* Each line alone, at the least that is said. */
static void test_certificate__one_is_said(void **state)
{
#define BEGIN "certificate: complete; 0 events, none lost"
    static const struct {
        size_t field;
        const char *text;
    } one[] = {
        {offsetof(Ips__Certificate, unmatched), ", 1 unmatched; machines -\n"},
        {offsetof(Ips__Certificate, any),
         "; machines -\n  waits for locks and other resources: 1, the path "
         "crosses 0\n"},
        {offsetof(Ips__Certificate, any_unmatched),
         "; machines -\n  waits for locks and other resources that nobody was "
         "seen to end: 1\n"},
        {offsetof(Ips__Certificate, spin_ns),
         "; machines -\n  1 ns CPU was burnt by spinning; it counts nowhere\n"},
        {offsetof(Ips__Certificate, run_delay_unknown_ns),
         "; machines -\n  threads were off the CPU for 1 ns between waits, and "
         "it is not known whether they queued\n"},
        {offsetof(Ips__Certificate, unattributed_cpu_ns),
         "; machines -\n  1 ns CPU that wait() reports belongs to no thread's "
         "record\n"},
        {offsetof(Ips__Certificate, overhead_ns),
         "; machines -\n  measuring cost 1 ns CPU, 0.00% of the program's (0 a "
         "recorded call)\n"},
        {offsetof(Ips__Certificate, guessed_cpu_ns), "; machines -\n"}};
    (void)state;
    for (size_t i = 0; i < sizeof(one) / sizeof(*one); i++) {
        Ips__Certificate c = IPS__CERTIFICATE__INIT;
        const uint64_t n = 1;
        char want[400];
        c.complete = true;
        memcpy((uint8_t *)&c + one[i].field, &n, sizeof(n));
        snprintf(want, sizeof(want), "%s%s", BEGIN, one[i].text);
        check(&c, IPSQ_TABLE, want);
    }
    Ips__Certificate c = IPS__CERTIFICATE__INIT;
    c.complete = true;
    c.overhead_ns = 1;
    c.dilation_ppm = UINT64_MAX;
    check(&c, IPSQ_TABLE,
          BEGIN "; machines -\n  measuring cost 1 ns CPU (0 a recorded "
                "call)\n");
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
                {5250, 5000, "had 0.2 threads"},
                {3000, 5000, NULL},
                {9000, 1500, "had 7.5 threads"}};
    for (size_t i = 0; i < sizeof(load) / sizeof(*load); i++) {
        make(&m);
        m.c.n_loads = 1;
        m.load[0].milli = load[i].milli;
        m.load[0].own_milli = load[i].own;
        char *text = written(&m.c, IPSQ_TABLE);
        const char *at = strstr(text, "other programs of m1 ");
        assert_int_equal(at != NULL, load[i].text != NULL);
        if (at)
            assert_memory_equal(at + strlen("other programs of m1 "),
                                load[i].text, strlen(load[i].text));
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_certificate__in_words),
        cmocka_unit_test(test_certificate__in_tsv),
        cmocka_unit_test(test_certificate__in_json),
        cmocka_unit_test(test_certificate__nothing_is_not_said),
        cmocka_unit_test(test_certificate__one_is_said),
        cmocka_unit_test(test_certificate__other_programs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
