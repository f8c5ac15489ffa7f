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

#include "master/why.h"

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
                              .crowd_ns = 2 * S,
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
    assert_true(why_find(f, &arena, &out));
    return out;
}

/* 4 s of the path, half of which would go; who waits is "/m/b.2". */
static struct why_amount amount(void)
{
    return (struct why_amount){.ns = 4 * S,
                               .gain_ns = 2 * S,
                               .bound_ns = 3 * S,
                               .place = {"/m/a.1", "f", "/bin/p", "p.c", 12, 0},
                               .other = "/m/b.2",
                               .other_ns = 7 * S,
                               .count = 2000,
                               .bytes = 2000 * 30 +
                                        1999, /* a mean is rounded down */
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
     "Threads stand in line for locks: /m/b.2 waits while /m/a.1 holds one in "
     "f (p.c:12).",
     "2000 waits for locks, 7.00 s in all threads together, most in g "
     "(/lib/q)",
     "no lock makes anybody wait; the work is spread over the cores there are",
     "ipsq waits r1 --by place"},
    {WHY_IMBALANCE, false, 0,
     "The work is uneven: /m/a.1 is still at it in f (p.c:12) while others "
     "like it wait or are done.",
     "4.00 s of the path: at most half of the cores are used, and /m/b.2 "
     "could work",
     "that part of the work is spread over all that are alike",
     "ipsq metrics r1 --level process"},
    {WHY_IMBALANCE, true, 0,
     "The work is uneven: a thread of /m/a.1 is still at it in f (p.c:12) "
     "while others like it wait or are done.",
     "4.00 s of the path: at most half of the cores are used, and other "
     "threads of /m/a.1 could work",
     "that part of the work is spread over all that are alike",
     "ipsq metrics r1 --object '/m/a.1' --level thread"},
    {WHY_LATE, false, 0,
     "/m/a.1 sends late: it computes in f (p.c:12) while /m/b.2 waits for its "
     "messages.",
     "4.00 s of the path, most cores unused meanwhile",
     "the sender takes half as long for that",
     "ipsq whatif r1 --process '/m/a.1' --faster 50% --weighting wall"},
    {WHY_SERIAL, false, 0,
     "A serial section: one thread of /m/a.1 works in f (p.c:12) while "
     "/m/b.2 waits.",
     "4.00 s of the path, most cores unused meanwhile",
     "that work is spread over the threads that wait",
     "ipsq path r1 --weighting wall --by thread --by procedure"},
    {WHY_SERIAL, true, 0,
     "A serial section: one thread of /m/a.1 works in f (p.c:12) while its "
     "other threads wait.",
     "4.00 s of the path, most cores unused meanwhile",
     "that work is spread over the threads that wait",
     "ipsq path r1 --weighting wall --by thread --by procedure"},
    {WHY_SERIAL, false, 7,
     "One after another: /m/b.2 begins 7 processes like /m/a.1, the next one "
     "when the last is done, and nobody else is at work.",
     "4.00 s of the path, most cores unused meanwhile",
     "they do not need each other's results, and run at the same time on all "
     "cores",
     "ipsq path r1 --weighting wall --by process"},
    {WHY_QUEUE, false, 0,
     "/m/a.1 serves one at a time in f (p.c:12): messages of other "
     "connections, as of /m/b.2, stand in line for that thread, and cores are "
     "unused.",
     "4.00 s of the path, most cores unused meanwhile",
     "as many threads or processes serve as there are cores",
     "ipsq requests r1"},
    {WHY_CORES, false, 0,
     "There are too few cores: up to 5 threads want to run on 2.",
     "7.00 s of the path runnable, but not running", "a core for each thread",
     "ipsq path r1 --weighting wall"},
    {WHY_BUSY, false, 0,
     "/m/a.1 waits for a core that others have: something else runs on the 2 "
     "cores, or it may not use them all.",
     "7.00 s of the path runnable, but not running", "nothing else runs there",
     "ipsq path r1 --weighting wall"},
    {WHY_OUTSIDE, false, 0,
     "/m/a.1 waits for the outside, mostly for the disk in g (/lib/q).",
     "4.00 s of the path, 40% of it", "what is outside answers at once",
     "ipsq path r1 --weighting wall --by external"},
    {WHY_TRANSIT, false, 2000,
     "Messages between /m/a.1 and /m/b.2 are long under way: the network, or "
     "what lies between.",
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
        SAME(x.finding[0].says, w->says);
        SAME(x.finding[0].evidence, w->evidence);
        SAME(x.finding[0].supposes, w->supposes);
        SAME(x.finding[0].command, w->command);
        SAME(x.finding[0].place.object, "/m/a.1");
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
    f.amount[WHY_LOCK].place = (struct why_place){.procedure = "f"};
    f.amount[WHY_LOCK].other = "";
    f.amount[WHY_LOCK].wait_at = (struct why_place){0};
    f.amount[WHY_OUTSIDE].place = (struct why_place){.object = ""};
    f.amount[WHY_OUTSIDE].wait_at = (struct why_place){.object = "x"};
    f.amount[WHY_OUTSIDE].cause = NULL;
    struct why_findings x = find(&f);
    assert_int_equal(x.count, 2);
    SAME(x.finding[0].says, "Threads stand in line for locks: others waits "
                            "while the program holds one in f (?).");
    SAME(x.finding[0].evidence,
         "2000 waits for locks, 7.00 s in all threads together");
    SAME(x.finding[1].says,
         "the program waits for the outside: what ends these waits was not "
         "recorded.");
    assert_null(x.finding[1].other);
    /* A file without a line says less than the module. */
    f.amount[WHY_LOCK].place =
        (struct why_place){"/m/a.1", "f", "/bin/p", "p.c", 0, 0};
    assert_non_null(strstr(find(&f).finding[0].says, " in f (/bin/p)."));
}

static void test_words__of_what_is_outside(void **state)
{
    static const char *const causes[][2] = {
        {"peer", "a program or machine that was not traced"},
        {"child", "a child that was not traced"},
        {"timer", "a timer or sleep"},
        {"signal", "a signal"},
        {"event", "an event"},
        {"idle", "something to do"},
        {"resolve", "the resolver"},
        {"disk", "the disk"},
        {"lock", "a lock, nobody saw it let go"},
        {"file lock", "a file lock, nobody saw it let go"},
        {"terminal", "the terminal"},
        {"moon", "moon"}};
    (void)state;
    for (size_t i = 0; i < sizeof(causes) / sizeof(*causes); i++) {
        struct why_facts f = facts();
        f.amount[WHY_OUTSIDE] = amount();
        f.amount[WHY_OUTSIDE].cause = causes[i][0];
        f.amount[WHY_OUTSIDE].wait_at = (struct why_place){0};
        struct why_findings x = find(&f);
        const char *at = strstr(x.finding[0].says, "mostly for ");
        assert_non_null(at);
        at += strlen("mostly for ");
        assert_memory_equal(at, causes[i][1], strlen(causes[i][1]));
        SAME(at + strlen(causes[i][1]), ".");
        SAME(x.finding[0].other, causes[i][1]);
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
        SAME(why_ns(&arena, t[i].ns), t[i].text);
    SAME(why_run_and_window(&f, &arena), "r1");
    f.windowed = true;
    f.from_ns = 5;
    SAME(why_run_and_window(&f, &arena), "r1 --from 5ns");
    SAME(why_window_says(&f, &arena), "5 ns to its end since the run began");
    f.from_ns = 0;
    f.to_ns = 7;
    SAME(why_run_and_window(&f, &arena), "r1 --to 7ns");
    SAME(why_window_says(&f, &arena), "0 ns to 7 ns since the run began");
    assert_int_equal(why_ppm(1, 0), 0);
    assert_int_equal(why_ppm(9, 9), 1000000);
    assert_int_equal(why_ppm(10, 9), 1000000);
    assert_int_equal(why_ppm(UINT64_MAX / 2, UINT64_MAX), 499999);
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
    SAME(x.finding[0].says,
         "Phase 3 of 3 (1.50 s to 6.00 s since the run began) dominates, and "
         "is of another kind than the rest: fewer cores are busy in it; /m/a.1 "
         "waits for the outside in it.");
    SAME(x.finding[0].evidence,
         "4.00 s of the path, 40% of it; 0.5 cores busy, 1.5 in other phases");
    SAME(x.finding[0].supposes,
         "in it as many cores are busy as in the other phases");
    p.outside_ns--;
    assert_non_null(strstr(find(&f).finding[0].says,
                           "in it; mostly /m/a.1 in f (p.c:12)."));
}

/* ---- the shape -----------------------------------------------------------
 */

#define FOR                                                                    \
    "--for latency tells what its single requests wait for, --for throughput " \
    "what bounds their rate"

static void check_shape(const struct why_facts *f, bool service,
                        const char *says)
{
    struct why_findings x = find(f);
    assert_int_equal(x.service, service);
    SAME(x.shape_says, says);
}

static void test_shapes(void **state)
{
    (void)state;
    struct why_facts f = facts();
    check_shape(&f, false,
                "turnaround: what the elapsed time of 10.00 s went to (a batch "
                "program: it accepted no connections)");
    f.path_outside_ns = 9 * S; /* without connections no service */
    check_shape(&f, false,
                "turnaround: what the elapsed time of 10.00 s went to (a batch "
                "program: it accepted no connections)");
    f.accepted = 3;
    f.path_outside_ns = 2500 * MS - 10;
    check_shape(&f, false,
                "turnaround: what the elapsed time of 10.00 s went to (a batch "
                "program: connections accepted: 3, of clients that are a part "
                "of it). Of what serves there " FOR);
    f.path_outside_ns += 10;
    check_shape(&f, true,
                "turnaround: what 10.00 s up to the goal went to. This looks "
                "like a service (connections accepted: 3, and it waited 2.50 s "
                "for what is outside): " FOR);
    f.accepted = 1;
    assert_true(find(&f).service);
    f.asked = 200;
    f.asked_outside = 100;
    check_shape(&f, true,
                "turnaround: what 10.00 s up to the goal went to. This is a "
                "service (its clients are not traced: 100 messages of "
                "theirs): " FOR);
    assert_true(why_serves(&f));
    f.asked = 201; /* less than half */
    assert_false(why_serves(&f));
    f.asked = f.asked_outside = 99;
    assert_false(why_serves(&f));
    f.windowed = true;
    f.window_phase = 4;
    f.from_ns = 1 * S;
    f.to_ns = 2 * S;
    check_shape(&f, true,
                "turnaround: what 10.00 s of this window went to, as if all "
                "else of the run took no time (phase 4, 1.00 s to 2.00 s since "
                "the run began)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words__of_each_finding),
        cmocka_unit_test(test_words__of_what_is_not_known),
        cmocka_unit_test(test_words__of_what_is_outside),
        cmocka_unit_test(test_words__of_times_and_windows),
        cmocka_unit_test(test_words__of_a_phase),
        cmocka_unit_test(test_shapes),
    };
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    arena_release(&arena);
    return rc;
}
