/* The words of `ipsq why`, of findings made by hand. Catches: a
 * sentence about the wrong process, or with a figure of another unit or of
 * another amount; a place that is not known and printed as if it were.
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

/* ---- the words -----------------------------------------------------------
 */

struct words {
    enum why_kind kind;
    bool same; /* it is the same process that waits */
    uint64_t count;
    const char *says, *evidence, *supposes, *command;
};

static const struct words all[] = {
    {WHY_LOCK, false, 2000,
     "Lock contention: /m/b.2 waits for a lock that /m/a.1 holds in f "
     "(p.c:12).",
     "2000 waits for locks, 7.00 s over all threads, most in g (/lib/q)",
     "no lock makes a thread wait, and the work is spread over the cores",
     "ipsq waits r1 --by place"},
    {WHY_IMBALANCE, false, 0,
     "Uneven work: /m/a.1 is still working in f (p.c:12) while others like it "
     "wait or have finished.",
     "4.00 s of the path, with at most half of the cores busy while /m/b.2 "
     "could work",
     "that part of the work is spread evenly over them",
     "ipsq metrics r1 --level process"},
    {WHY_IMBALANCE, true, 0,
     "Uneven work: a thread of /m/a.1 is still working in f (p.c:12) while "
     "others like it wait or have finished.",
     "4.00 s of the path, with at most half of the cores busy while other "
     "threads of /m/a.1 could work",
     "that part of the work is spread evenly over them",
     "ipsq metrics r1 --object '/m/a.1' --level thread"},
    {WHY_LATE, false, 0,
     "/m/a.1 is slow to send: it computes in f (p.c:12) while /m/b.2 is "
     "blocked receiving from it.",
     "4.00 s of the path, with most cores idle",
     "the sender computes half as long",
     "ipsq whatif r1 --process '/m/a.1' --faster 50% --weighting wall"},
    {WHY_LATE, true, 0,
     "A thread of /m/a.1 is slow to send: it computes in f (p.c:12) while "
     "another thread of /m/a.1 is blocked receiving from it in g (/lib/q).",
     "4.00 s of the path, with most cores idle",
     "the sender computes half as long",
     "ipsq whatif r1 --process '/m/a.1' --faster 50% --weighting wall"},
    {WHY_SERIAL, false, 0,
     "Serial section: one thread of /m/a.1 works in f (p.c:12) while /m/b.2 "
     "waits.",
     "4.00 s of the path, with most cores idle",
     "that work is spread over the threads that wait",
     "ipsq path r1 --weighting wall --by thread --by procedure"},
    {WHY_SERIAL, true, 0,
     "Serial section: one thread of /m/a.1 works in f (p.c:12) while its other "
     "threads wait.",
     "4.00 s of the path, with most cores idle",
     "that work is spread over the threads that wait",
     "ipsq path r1 --weighting wall --by thread --by procedure"},
    {WHY_SERIAL, false, 7,
     "Sequential processes: /m/b.2 starts 7 processes like /m/a.1 one after "
     "another, and nothing else runs meanwhile.",
     "4.00 s of the path, with most cores idle",
     "they are independent and run at the same time on all cores",
     "ipsq path r1 --weighting wall --by process"},
    {WHY_QUEUE, false, 0,
     "/m/a.1 serves one request at a time in f (p.c:12): messages on other "
     "connections, for example from /m/b.2, wait for that thread while cores "
     "are idle.",
     "4.00 s of the path, with most cores idle",
     "as many threads or processes serve as there are cores",
     "ipsq requests r1"},
    {WHY_CORES, false, 0,
     "Too few cores: up to 5 threads are ready to run on 2 cores.",
     "7.00 s of the path ready to run, waiting for a CPU",
     "a core for each thread", "ipsq path r1 --weighting wall"},
    {WHY_BUSY, false, 0,
     "/m/a.1 waits for CPU used by other programs, or may not use all of the "
     "2 cores.",
     "7.00 s of the path ready to run, waiting for a CPU",
     "nothing else runs there", "ipsq path r1 --weighting wall"},
    {WHY_OUTSIDE, false, 0, "/m/a.1 waits, mostly for the disk in g (/lib/q).",
     "4.00 s of the path (40%)", "these waits end at once",
     "ipsq path r1 --weighting wall --by external"},
    {WHY_TRANSIT, false, 2000,
     "Messages between /m/a.1 and /m/b.2 take long to arrive: the network or "
     "something on the way is slow.",
     "4.00 s of the path in 2000 messages of 30 bytes on average, 2.00 ms each",
     "messages take half as long",
     "ipsq path r1 --weighting wall --by message"},
};

/* As a finding of a run, and beside nothing else. */
static void test_words__of_each_finding(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
        const struct words *w = &all[i];
        struct why_facts f = facts();
        struct why_amount *a = &f.amount[w->kind];
        *a = amount();
        a->count = w->count;
        a->other = w->same ? "/m/a.1" : a->other;
        struct why_findings x = find(&f);
        assert_int_equal(x.count, 1);
        assert_int_equal((int)x.finding[0].kind, (int)w->kind);
        SAME(x.finding[0].text, w->says);
        SAME(x.finding[0].evidence, w->evidence);
        SAME(x.finding[0].supposes, w->supposes);
        SAME(x.finding[0].command, w->command);
        SAME(x.finding[0].location.object, "/m/a.1");
        assert_int_equal(x.finding[0].ns, 4 * S);
        assert_int_equal(x.finding[0].gain_ns, 2 * S);
        assert_int_equal(x.finding[0].bound_ns, 3 * S);
        assert_int_equal(x.finding[0].gain_ppm, 200000);
        assert_int_equal(x.finding[0].phase, 0);
        assert_false(x.has_nearest);
        /* Less than what is gained is no bound. */
        a->bound_ns = 1 * S;
        assert_int_equal(find(&f).finding[0].bound_ns, 2 * S);
    }
}

/* Where nothing is known of the place, who waits, or what for. */
static void test_words__of_what_is_not_known(void **state)
{
    (void)state;
    struct why_facts f = facts();
    f.amount[WHY_LOCK] = f.amount[WHY_OUTSIDE] = amount();
    f.amount[WHY_LOCK].location = (struct why_location){.procedure = "f"};
    f.amount[WHY_LOCK].other = "";
    f.amount[WHY_LOCK].wait_at = (struct why_location){0};
    f.amount[WHY_OUTSIDE].location = (struct why_location){.object = ""};
    f.amount[WHY_OUTSIDE].wait_at = (struct why_location){.object = "x"};
    f.amount[WHY_OUTSIDE].cause = NULL;
    struct why_findings x = find(&f);
    assert_int_equal(x.count, 2);
    SAME(x.finding[0].text, "Lock contention: another thread waits for a lock "
                            "that the program holds in f (?).");
    SAME(x.finding[0].evidence,
         "2000 waits for locks, 7.00 s over all threads");
    SAME(x.finding[1].text,
         "the program waits; what ends the wait was not recorded.");
    assert_null(x.finding[1].other);
    /* A file without a line says less than the module. */
    f.amount[WHY_LOCK].location =
        (struct why_location){"/m/a.1", "f", "/bin/p", "p.c", 0, 0};
    assert_non_null(strstr(find(&f).finding[0].text, " in f (/bin/p)."));
}

/* Would catch: a wait said to be for the busy process when it is for another.
 */
static void test_words__of_who_waits_for_others(void **state)
{
    (void)state;
    struct why_facts f = facts();
    f.amount[WHY_LATE] = amount();
    f.amount[WHY_LATE].count = 0;
    f.amount[WHY_LATE].awaits_others = true;
    SAME(find(&f).finding[0].text,
         "/m/a.1 is slow to send: it computes in f (p.c:12) while /m/b.2 is "
         "blocked receiving from other threads.");
    f.amount[WHY_LATE].awaits_space = true;
    SAME(find(&f).finding[0].text,
         "/m/a.1 is slow to read: it computes in f (p.c:12) while /m/b.2 is "
         "blocked writing to other threads.");
}

/* Would catch: certainty about a timer beside which the process computes, and
 * about threads of which one waits for the other. */
static void test_words__of_doubts_about_threads(void **state)
{
    (void)state;
    struct why_facts f = facts();
    f.amount[WHY_OUTSIDE] = amount();
    assert_int_equal(find(&f).finding[0].sure, WHY_HIGH);
    f.amount[WHY_OUTSIDE].computes_meanwhile = true;
    assert_int_equal(find(&f).finding[0].sure, WHY_FAIR);
    SAME(find(&f).finding[0].sure_why,
         "other threads of the process compute meanwhile");
    f = facts();
    f.amount[WHY_IMBALANCE] = amount();
    assert_int_equal(find(&f).finding[0].sure, WHY_HIGH);
    f.amount[WHY_IMBALANCE].hands_on = true;
    assert_int_equal(find(&f).finding[0].sure, WHY_FAIR);
    SAME(find(&f).finding[0].sure_why,
         "one thread waits for the other, so they may do different work");
}

/* Would catch: all waits of a run credited to one process. */
static void test_words__of_several_that_wait(void **state)
{
    static const struct {
        uint32_t ppm;
        const char *words;
    } cases[] = {{0, "/m/a.1 waits, "},
                 {1000000, "/m/a.1 waits, "},
                 {900000, "/m/a.1 waits, "},
                 {899999, "/m/a.1 (90%) and other processes wait, "},
                 {504999, "/m/a.1 (50%) and other processes wait, "},
                 {9999, "/m/a.1 (less than 1%) and other processes wait, "}};
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct why_facts f = facts();
        f.amount[WHY_OUTSIDE] = amount();
        f.amount[WHY_OUTSIDE].object_ppm = cases[i].ppm;
        const char *text = find(&f).finding[0].text;
        assert_int_equal(strncmp(text, cases[i].words, strlen(cases[i].words)),
                         0);
        f = facts();
        f.amount[WHY_BUSY] = amount();
        f.amount[WHY_BUSY].object_ppm = cases[i].ppm;
        text = find(&f).finding[0].text;
        assert_int_equal(
            strncmp(text, cases[i].words, strlen(cases[i].words) - 2), 0);
    }
}

static void test_words__of_what_is_outside(void **state)
{
    /* name, in words, as JSON has it where that is not the same */
    static const char *const causes[][3] = {
        {"peer", "a program or machine that is not recorded",
         "a program or machine that was not traced"},
        {"child", "a child process that is not recorded",
         "a child that was not traced"},
        {"timer", "a timer or sleep"},
        {"signal", "a signal"},
        {"event", "an event"},
        {"idle", "more work", "something to do"},
        {"resolve", "the resolver"},
        {"disk", "the disk"},
        {"lock", "a lock whose release was not recorded",
         "a lock, nobody saw it let go"},
        {"file lock", "a file lock whose release was not recorded",
         "a file lock, nobody saw it let go"},
        {"terminal", "the terminal"},
        {"moon", "moon"}};
    (void)state;
    for (size_t i = 0; i < sizeof(causes) / sizeof(*causes); i++) {
        struct why_facts f = facts();
        f.amount[WHY_OUTSIDE] = amount();
        f.amount[WHY_OUTSIDE].cause = causes[i][0];
        f.amount[WHY_OUTSIDE].wait_at = (struct why_location){0};
        struct why_findings x = find(&f);
        const char *at = strstr(x.finding[0].text, "mostly for ");
        assert_non_null(at);
        at += strlen("mostly for ");
        assert_memory_equal(at, causes[i][1], strlen(causes[i][1]));
        SAME(at + strlen(causes[i][1]), ".");
        SAME(x.finding[0].other, causes[i][causes[i][2] ? 2 : 1]);
    }
}

static void test_words__of_times_and_windows(void **state)
{
    static const struct {
        uint64_t ns;
        const char *text;
    } t[] = {{0, "0 ns"},
             {999, "999 ns"},
             {1000, "1.00 us"},
             {999994, "999.99 us"},
             {1000000, "1.00 ms"},
             {999994000, "999.99 ms"},
             {1000000000, "1.00 s"},
             {90 * S, "90.00 s"}};
    (void)state;
    struct why_facts f = facts();
    arena_release(&arena);
    memset(&arena, 0, sizeof(arena));
    for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++)
        SAME(why_format_ns(&arena, t[i].ns), t[i].text);
    SAME(why_run_and_window_options(&f, &arena), "r1");
    f.windowed = true;
    f.from_ns = 5;
    SAME(why_run_and_window_options(&f, &arena), "r1 --from 5ns");
    SAME(why_window_text(&f, &arena), "5 ns to its end after the run's start");
    f.from_ns = 0;
    f.to_ns = 7;
    SAME(why_run_and_window_options(&f, &arena), "r1 --to 7ns");
    SAME(why_window_text(&f, &arena), "0 ns to 7 ns after the run's start");
    assert_int_equal(why_share_ppm(1, 0), 0);
    assert_int_equal(why_share_ppm(9, 9), 1000000);
    assert_int_equal(why_share_ppm(10, 9), 1000000);
    assert_int_equal(why_share_ppm(UINT64_MAX / 2, UINT64_MAX), 499999);
}

/* A phase that waits, one that computes. */
static void test_words__of_a_phase(void **state)
{
    (void)state;
    struct why_facts f = facts();
    struct why_phase p = {.amount = amount(),
                          .number = 3,
                          .phases = 3,
                          .from_ns = 1500 * MS,
                          .to_ns = 6 * S,
                          .busy_ppm = 500000,
                          .others_ppm = 1500000,
                          .others_ns = 6 * S,
                          .outside_ns = 2 * S};
    p.amount.phase = f.phase = &p;
    f.phases = 1;
    struct why_findings x = find(&f);
    assert_int_equal(x.count, 1);
    SAME(x.finding[0].text,
         "Phase 3 of 3 (1.50 s to 6.00 s after the start) takes most of the "
         "time, and fewer cores are busy in it than in the rest: /m/a.1 waits "
         "for something not recorded.");
    SAME(x.finding[0].evidence,
         "4.00 s of the path (40%); 0.5 cores busy, 1.5 in other phases");
    SAME(x.finding[0].supposes,
         "as many cores are busy in it as in the other phases");
    p.outside_ns--;
    assert_non_null(strstr(find(&f).finding[0].text,
                           "in the rest: mostly /m/a.1 in f (p.c:12)."));
}

/* ---- the shape -----------------------------------------------------------
 */

#define FOR                                                                    \
    "--for latency shows what single requests wait for, --for throughput "     \
    "what limits their rate"

static void check_shape(const struct why_facts *f, bool service,
                        const char *says)
{
    struct why_findings x = find(f);
    assert_int_equal(x.service, service);
    SAME(x.shape_text, says);
}

static void test_shapes(void **state)
{
    (void)state;
    struct why_facts f = facts();
    check_shape(&f, false,
                "turnaround: where the elapsed time of 10.00 s went (a batch "
                "program: it accepted no connections)");
    f.path_outside_ns = 9 * S; /* without connections no service */
    check_shape(&f, false,
                "turnaround: where the elapsed time of 10.00 s went (a batch "
                "program: it accepted no connections)");
    f.accepted = 3;
    f.path_outside_ns = 2500 * MS - 10;
    check_shape(&f, false,
                "turnaround: where the elapsed time of 10.00 s went (a batch "
                "program: connections accepted: 3, all from its own "
                "processes)");
    f.path_outside_ns += 10;
    check_shape(&f, true,
                "turnaround: where 10.00 s up to the goal went. This looks "
                "like a service (connections accepted: 3; 2.50 s spent waiting "
                "for something not recorded): " FOR);
    f.accepted = 1;
    assert_true(find(&f).service);
    f.asked = 200;
    f.asked_outside = 100;
    check_shape(&f, true,
                "turnaround: where 10.00 s up to the goal went. This is a "
                "service (100 messages came from unrecorded clients): " FOR);
    assert_true(why_is_service(&f));
    f.asked = 201; /* less than half */
    assert_false(why_is_service(&f));
    f.asked = f.asked_outside = 99;
    assert_false(why_is_service(&f));
    f.windowed = true;
    f.window_phase = 4;
    f.from_ns = 1 * S;
    f.to_ns = 2 * S;
    check_shape(
        &f, true,
        "turnaround: where 10.00 s of this window went, with the rest of the "
        "run taking no time (phase 4, 1.00 s to 2.00 s after the run's start)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words__of_each_finding),
        cmocka_unit_test(test_words__of_what_is_not_known),
        cmocka_unit_test(test_words__of_who_waits_for_others),
        cmocka_unit_test(test_words__of_doubts_about_threads),
        cmocka_unit_test(test_words__of_several_that_wait),
        cmocka_unit_test(test_words__of_what_is_outside),
        cmocka_unit_test(test_words__of_times_and_windows),
        cmocka_unit_test(test_words__of_a_phase),
        cmocka_unit_test(test_shapes),
    };
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    arena_release(&arena);
    return rc;
}
