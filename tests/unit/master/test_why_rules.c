/* Each rule of `ipsq why` at its threshold (docs/why.md): just where it holds,
 * and one step beyond. Numbers are worked out by hand. Catches: a comparison
 * that is off by one; a doubt that is not said; more findings than the list
 * has places for.
 *
 * EVIDENCE-OF: IPS-17. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "master/why/why.h"

#define MS 1000000u
#define S 1000000000ull
#define SAME(a, b) assert_string_equal(a, b)

static struct arena arena;

/* 10 s on a quiet machine, which is also what the program takes alone. */
static struct why_facts facts(void)
{
    return (struct why_facts){.elapsed_ns = 11 * S,
                              .t_max_wall_ns = 10 * S,
                              .quiet_ns = 8 * S,
                              .oversubscription_ns = 2 * S,
                              .sampled = true,
                              .sampled_ns = 10 * S,
                              .top_ns = 10 * S,
                              .events = 1000,
                              .run = "r1"};
}

static struct why_findings find(const struct why_facts *f)
{
    struct why_findings out;
    arena_release(&arena);
    memset(&arena, 0, sizeof(arena));
    assert_true(why_apply_rules(f, &arena, &out));
    return out;
}

/* 4 s of the path, half of which would go; who waits is "/m/b.2". */
static struct why_amount amount(void)
{
    return (struct why_amount){
        .ns = 4 * S,
        .gain_ns = 2 * S,
        .bound_ns = 3 * S,
        .location = {"/m/a.1", "f", "/bin/p", "p.c", 12, 0},
        .other = "/m/b.2",
        .other_ns = 7 * S,
        .count = 2000,
        .bytes = 2000 * 30 + 1999, /* a mean is rounded down */
        .threads = 5,
        .cores = 2,
        .wait_at = {"", "g", "/lib/q", "", 0, 0},
        .cause = "disk"};
}

/* ---- the thresholds ------------------------------------------------------
 */

static void test_rules__phase(void **state)
{
    (void)state;
    struct why_facts f = facts();
    /* All three just as docs/why.md has them: two fifths, a tenth, 2 of 3. */
    struct why_phase p = {.amount = amount(),
                          .number = 1,
                          .phases = 2,
                          .to_ns = 4 * S,
                          .busy_ppm = 1000000,
                          .others_ppm = 1500000,
                          .others_ns = 1 * S};
    p.amount.phase = f.phase = &p;
    f.phases = 1;
    assert_int_equal(find(&f).count, 1);
    p.busy_ppm = WHY_PHASE_BUSY_PPM;
    p.others_ppm = 1000000;
    assert_int_equal(find(&f).count, 1);
    p.busy_ppm++;
    assert_int_equal(find(&f).count, 0);
    p.busy_ppm--;
    p.others_ns--;
    assert_int_equal(find(&f).count, 0);
    p.others_ns++;
    p.amount.ns -= 1;
    assert_int_equal(find(&f).count, 0);
    p.amount.ns += 1;
    p.amount.gain_ns = 500 * MS; /* a twentieth */
    assert_int_equal(find(&f).count, 1);
    p.amount.gain_ns--;
    struct why_findings x = find(&f);
    assert_int_equal(x.count, 0);
    assert_int_equal(x.nearest.kind, WHY_PHASE);
    assert_int_equal(x.nearest.gain_ns, 500 * MS - 1);
    /* The kind decides between equal gains, not the order. */
    p.amount.gain_ns = 2 * S;
    f.amount[WHY_OUTSIDE] = amount();
    x = find(&f);
    assert_int_equal(x.count, 2);
    assert_int_equal(x.finding[0].kind, WHY_PHASE);
    assert_int_equal(x.finding[1].kind, WHY_OUTSIDE);
    /* Two findings name three tenths each of it: together they name it. */
    f.amount[WHY_LOCK] = amount();
    p.named_ns[WHY_LOCK] = p.named_ns[WHY_OUTSIDE] = 1200 * MS;
    x = find(&f);
    assert_int_equal(x.count, 2);
    assert_int_equal(x.finding[0].kind, WHY_LOCK);
    p.named_ns[WHY_LOCK] -= 10;
    assert_int_equal(find(&f).count, 3);
}

/* Would catch: a procedure that others wait for, because it holds a lock,
 * before the lock, where their gains differ by chance; other findings in
 * another order than that of their gains. */
static void test_rules__the_reason_comes_first(void **state)
{
    (void)state;
    static const struct {
        enum why_kind kind;
        uint64_t gain, named;
        bool first;
    } cases[] = {
        {WHY_LOCK, 1900 * MS, 2400 * MS, true},
        {WHY_LOCK, 1899 * MS, 2400 * MS, false},
        {WHY_LOCK, 1900 * MS, 2399 * MS, false},
        {WHY_SERIAL, 1900 * MS, 2400 * MS, true},
        {WHY_IMBALANCE, 1900 * MS, 2400 * MS, true},
        {WHY_OUTSIDE, 1900 * MS, 2400 * MS, false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct why_facts f = facts();
        struct why_amount p = amount();
        p.location.procedure = "held";
        p.named_ns = cases[i].named;
        f.procedure = &p;
        f.procedures = 1;
        f.amount[cases[i].kind] = amount();
        f.amount[cases[i].kind].gain_ns = cases[i].gain;
        struct why_findings x = find(&f);
        assert_int_equal(x.count, 2);
        assert_int_equal(x.finding[!cases[i].first].kind, cases[i].kind);
    }
    /* past two procedures */
    struct why_facts f = facts();
    struct why_amount p[2] = {amount(), amount()};
    p[0].named_ns = p[1].named_ns = 2400 * MS;
    p[0].location.procedure = "held";
    p[1].location.procedure = "held, too";
    f.procedure = p;
    f.procedures = 2;
    f.amount[WHY_LOCK] = amount();
    f.amount[WHY_LOCK].gain_ns = 1950 * MS;
    assert_int_equal(find(&f).finding[0].kind, WHY_LOCK);
}

static struct why_facts chatty(void)
{
    struct why_facts f = facts();
    f.amount[WHY_CHATTY] = amount();
    f.amount[WHY_CHATTY].count = WHY_CHATTY_COUNT;
    f.amount[WHY_CHATTY].bytes = 200 * 4096 + 199;
    f.amount[WHY_CHATTY].gain_ns = 1500 * MS;
    f.chatty_path_ns = 200 * 100000 + 199;
    return f;
}

static void test_rules__chatty(void **state)
{
    (void)state;
    struct why_facts f = chatty();
    struct why_findings x = find(&f);
    assert_int_equal(x.count, 1);
    SAME(x.finding[0].text, "/m/a.1 and /m/b.2 exchange many small messages; "
                            "fewer, larger ones would take less time.");
    SAME(
        x.finding[0].evidence,
        "200 messages on the path, 4096 bytes on average, one every 100.00 us");
    SAME(x.finding[0].supposes, "ten messages are sent as one");
    f.amount[WHY_CHATTY].count--;
    assert_int_equal(find(&f).count, 0);
    f = chatty();
    f.amount[WHY_CHATTY].bytes++;
    assert_int_equal(find(&f).count, 0);
    f = chatty();
    f.chatty_path_ns++;
    assert_int_equal(find(&f).count, 0);
    f = chatty();
    f.amount[WHY_CHATTY].gain_ns--; /* 15% */
    assert_int_equal(find(&f).count, 0);
    /* write() of those that chat is no finding; of others it is. */
    struct why_amount call = amount();
    call.ns = 3 * S;
    call.call = true;
    f = chatty();
    f.procedure = &call;
    f.procedures = 1;
    assert_int_equal(find(&f).count, 1);
    f.amount[WHY_CHATTY].gain_ns--;
    assert_int_equal(find(&f).count, 1);
    assert_int_equal(find(&f).finding[0].kind, WHY_PROCEDURE);
}

static void test_rules__spread(void **state)
{
    (void)state;
    struct why_facts f = facts();
    struct why_amount p[2] = {amount(), amount()};
    f.procedure = p;
    f.procedures = 2;
    p[0].gain_ns = p[1].gain_ns = 1;
    p[0].ns = 900 * MS;
    p[1].ns = 1 * S - 100000; /* the greatest need not be the first */
    f.sampled_ns = 5 * S;
    f.top_ns = 2500 * MS - 1;
    struct why_findings x = find(&f);
    assert_int_equal(x.count, 1);
    assert_int_equal(x.finding[0].kind, WHY_SPREAD);
    SAME(x.finding[0].text, "The cost is spread over many procedures; no "
                            "single one is worth optimising. Look for a common "
                            "cause: a caller, a library, a data structure.");
    SAME(x.finding[0].supposes, "");
    SAME(x.finding[0].command,
         "ipsq path r1 --weighting wall --by procedure --sequences");
    f.top_ns++;
    assert_int_equal(find(&f).count, 0);
    f.top_ns--;
    p[1].ns = 1 * S;
    assert_int_equal(find(&f).count, 0);
    p[1].ns = 900 * MS;
    f.sampled_ns = 5 * S - 1; /* less than half of the path, then */
    assert_int_equal(find(&f).count, 0);
    f.sampled_ns = 5 * S;
    f.sampled = false;
    assert_int_equal(find(&f).count, 0);
}

/* A procedure needs both its share and its gain; of those that have not both
 * the one that would gain most came nearest. */
static void test_rules__procedure(void **state)
{
    (void)state;
    struct why_facts f = facts();
    struct why_amount p[3] = {amount(), amount(), amount()};
    f.procedure = p;
    f.procedures = 3;
    p[0].ns = 2500 * MS;
    p[0].gain_ns = 500 * MS;
    p[1].ns = 2500 * MS - 10;
    p[1].gain_ns = 700 * MS;
    p[2].ns = 2500 * MS;
    p[2].gain_ns = 500 * MS - 10;
    struct why_findings x = find(&f);
    assert_int_equal(x.count, 1);
    assert_int_equal(x.finding[0].gain_ns, 500 * MS);
    SAME(x.finding[0].evidence, "2.50 s of the path (25%)");
    SAME(x.finding[0].supposes, "it takes half as long");
    assert_true(x.has_nearest);
    assert_int_equal(x.nearest.gain_ns, 700 * MS);
    p[1].gain_ns = 300 * MS;
    assert_int_equal(find(&f).nearest.gain_ns, 500 * MS - 10);
    p[1].gain_ns = 500 * MS - 10; /* of equal ones the first */
    assert_int_equal(find(&f).nearest.ns, 2500 * MS - 10);
    /* A service's request is no second name for a hot procedure, even if what
     * halving that one gains is too little. */
    f.asked = 1;
    f.common = (struct why_common){
        .low_ns = 4 * S, .of_ns = 8 * S, .amount = amount()};
    f.common.amount.ns = 2500 * MS;
    p[0].gain_ns = p[2].gain_ns = 1;
    assert_int_equal(find(&f).count, 0);
    p[0].ns = p[2].ns = 2500 * MS - 10;
    assert_int_equal(find(&f).count, 1);
    f.windowed = true; /* of a whole run */
    assert_int_equal(find(&f).count, 0);
}

/* 13 kinds at most are said by a share each, so procedures fill the list. */
static void test_rules__the_list_has_ten_places(void **state)
{
    (void)state;
    struct why_facts f = facts();
    struct why_amount p[WHY_TOP + 2];
    f.procedure = p;
    for (uint32_t i = 0; i < WHY_TOP + 2; i++) {
        p[i] = amount();
        p[i].gain_ns = (500 + i) * MS; /* the last is the greatest */
    }
    f.procedures = WHY_TOP - 1;
    struct why_findings x = find(&f);
    assert_int_equal(x.count, WHY_TOP - 1);
    assert_int_equal(x.left_out, 0);
    f.procedures = WHY_TOP;
    x = find(&f);
    assert_int_equal(x.count, WHY_TOP);
    assert_int_equal(x.left_out, 0);
    f.procedures = WHY_TOP + 2;
    x = find(&f);
    assert_int_equal(x.count, WHY_TOP);
    assert_int_equal(x.left_out, 2);
    for (uint32_t i = 0; i < WHY_TOP; i++)
        assert_int_equal(x.finding[i].gain_ns, (511 - i) * (uint64_t)MS);
}

/* ---- how sure ------------------------------------------------------------
 */

struct doubt {
    enum why_confidence sure;
    const char *why;
};

static void check_run(const struct why_facts *f, struct doubt want)
{
    struct why_findings x = find(f);
    assert_int_equal((int)x.sure, (int)want.sure);
    SAME(x.sure_why, want.why);
}

static void test_doubts__of_the_run(void **state)
{
    (void)state;
    struct why_facts f = facts();
    check_run(&f, (struct doubt){WHY_HIGH, ""});
    f.lost = 10; /* of 1000 */
    check_run(&f, (struct doubt){WHY_FAIR, "10 events were lost"});
    f.lost = 11;
    f.lost_for_space = 1;
    check_run(&f,
              (struct doubt){
                  WHY_LOW,
                  "11 events were lost (record with ipsrun --on-full=block)"});
    f = facts();
    f.t_max_wall_ns = 1100 * MS;
    f.overhead_ns = 100 * MS;
    check_run(&f, (struct doubt){WHY_HIGH, ""});
    f.overhead_ns = 120 * MS;
    check_run(&f,
              (struct doubt){WHY_FAIR, "recording made the path 12% longer"});
    f.overhead_ns = 1100 * MS;
    check_run(&f,
              (struct doubt){WHY_FAIR, "recording made the path 100% longer"});
    f = facts();
    f.t_max_wall_ns = 100 * MS;
    check_run(&f, (struct doubt){WHY_HIGH, ""});
    f.t_max_wall_ns--;
    check_run(&f, (struct doubt){WHY_LOW, "the run is shorter than 100 ms"});
    f.windowed = true;
    check_run(&f, (struct doubt){WHY_LOW, "the window is shorter than 100 ms"});
    f = facts();
    f.untraced = 3;
    check_run(&f, (struct doubt){WHY_FAIR, "3 processes were not recorded"});
    f.sampled = false;
    f.sample_ns = 0;
    check_run(&f,
              (struct doubt){WHY_FAIR,
                             "3 processes were not recorded; procedures were "
                             "not recorded: use ipsrun --procedures=sample"});
    f = facts();
    f.path_other_ns = 2500 * MS;
    check_run(&f, (struct doubt){WHY_FAIR,
                                 "2.50 s of the path are unattributed: what "
                                 "ended these waits was not recorded"});
    f.path_other_ns -= 10;
    check_run(&f, (struct doubt){WHY_HIGH, ""});
    /* Low stays low, whatever comes after it. */
    f.missing_machines = true;
    f.untraced = 1;
    check_run(
        &f, (struct doubt){WHY_LOW,
                           "machines are missing; 1 process was not recorded"});
    SAME(why_confidence_name(WHY_LOW), "low");
    SAME(why_confidence_name(WHY_FAIR), "fair");
    SAME(why_confidence_name(WHY_HIGH), "high");
}

static void check_first(const struct why_facts *f, struct doubt want)
{
    struct why_findings x = find(f);
    assert_int_equal(x.count, 1);
    assert_int_equal((int)x.finding[0].sure, (int)want.sure);
    SAME(x.finding[0].sure_why, want.why);
    assert_int_equal((int)x.sure, WHY_HIGH);
}

static void test_doubts__of_a_finding(void **state)
{
    (void)state;
    struct why_facts f = facts();
    f.amount[WHY_LATE] = amount();
    f.clock_bound_ns = 1 * S; /* half of what it gains */
    check_first(&f, (struct doubt){WHY_HIGH, ""});
    f.clock_bound_ns++;
    check_first(
        &f, (struct doubt){WHY_LOW,
                           "the error of the machines' clocks is as large"});
    static const enum why_kind cores[] = {WHY_CORES, WHY_BUSY};
    for (int i = 0; i < 2; i++) {
        f = facts();
        f.amount[cores[i]] = amount();
        f.delay_unknown_ns = 4 * S;
        check_first(&f, (struct doubt){WHY_HIGH, ""});
        f.delay_unknown_ns++;
        check_first(
            &f,
            (struct doubt){
                WHY_FAIR,
                "threads were off the CPU for longer without a known reason"});
    }
    f = facts();
    f.amount[WHY_LATE] = amount(); /* which says nothing of cores */
    f.delay_unknown_ns = 9 * S;
    check_first(&f, (struct doubt){WHY_HIGH, ""});
    f = facts();
    f.amount[WHY_LOCK] = amount();
    check_first(
        &f,
        (struct doubt){WHY_FAIR, "threads may take the lock in another order"});
    f = facts();
    struct why_amount p = amount();
    f.procedure = &p;
    f.procedures = 1;
    p.samples = 30;
    check_first(&f, (struct doubt){WHY_HIGH, ""});
    p.samples = 29;
    check_first(&f, (struct doubt){WHY_LOW, "only about 29 samples"});
    f.exact = true;
    check_first(&f, (struct doubt){WHY_HIGH, ""});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rules__phase),
        cmocka_unit_test(test_rules__chatty),
        cmocka_unit_test(test_rules__spread),
        cmocka_unit_test(test_rules__procedure),
        cmocka_unit_test(test_rules__the_reason_comes_first),
        cmocka_unit_test(test_rules__the_list_has_ten_places),
        cmocka_unit_test(test_doubts__of_the_run),
        cmocka_unit_test(test_doubts__of_a_finding),
    };
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    arena_release(&arena);
    return rc;
}
