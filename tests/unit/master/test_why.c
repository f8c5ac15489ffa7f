/* The rules of `ipsq why`: facts in, findings out, worked out by hand. Catches:
 * a threshold that is not the documented one, a ranking by something else than
 * the gain, a problem called by the name of another, a finding said twice, a
 * healthy program blamed, certainty without grounds, a command that a shell
 * would take apart.
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
#define SAME(a, b) assert_string_equal(a, b)

static struct arena arena;

/* 10 s, in which nothing is wrong; well sampled. */
static struct why_facts healthy(void)
{
    return (struct why_facts){.elapsed_ns = 10000ull * MS,
                              .t_max_wall_ns = 10000ull * MS,
                              .quiet_ns = 10000ull * MS,
                              .t_max_sched_ns = 10000ull * MS,
                              .t_max_cpu_ns = 10000ull * MS,
                              .total_cpu_ns = 20000ull * MS,
                              .path_cpu_ns = 10000ull * MS,
                              .sampled = true,
                              .sample_ns = 1 * MS,
                              .sampled_ns = 10000ull * MS,
                              .top_ns = 10000ull * MS,
                              .half_count = 4,
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

static struct why_amount amount(uint64_t ms, uint64_t gain_ms,
                                const char *object, const char *other)
{
    return (struct why_amount){.ns = ms * MS,
                               .gain_ns = gain_ms * MS,
                               .bound_ns = gain_ms * MS,
                               .location = {.object = object,
                                            .procedure = "f",
                                            .module = "/bin/p",
                                            .file = "p.c",
                                            .source_line = 12},
                               .other = other,
                               .samples = 1000};
}

/* ---- nothing ---- */

static void test_why__nothing_stands_out_of_a_healthy_program(void **state)
{
    (void)state;
    struct why_facts f = healthy();
    struct why_amount p[8];
    for (int i = 0; i < 8; i++)
        p[i] = amount(1250, 625, "/m/p.1", NULL); /* 6.25%, if halved */
    f.procedure = p;
    f.procedures = 8;
    struct why_findings x = find(&f);
    assert_int_equal(x.count, 0);
    assert_true(x.has_nearest);
    assert_int_equal(x.nearest.kind, WHY_PROCEDURE);
    assert_int_equal(x.nearest.gain_ppm, 62500);
    assert_int_equal(x.sure, WHY_HIGH);
    assert_false(x.service);
    assert_non_null(strstr(x.shape_text, "a batch program"));
}

/* Would catch a hang that is hidden by a larger gain, or that is as sure where
 * a time limit may end it as where nothing can. */
static void test_why__a_hang_comes_first(void **state)
{
    (void)state;
    for (int circle = 0; circle < 2; circle++) {
        struct why_facts f = healthy();
        f.amount[WHY_OUTSIDE] = amount(6000, 5000, "/m/a.1", NULL);
        f.amount[WHY_HANG] = amount(1, 1, "/m/a.1", "/m/a.1/3");
        f.hang = (struct why_hang){.ns = MS,
                                   .since_ns = 40 * MS,
                                   .threads = 2,
                                   .circle = circle == 1,
                                   .waits = "a waits for b"};
        struct why_findings x = find(&f);
        assert_int_equal(x.count, 2);
        assert_int_equal(x.finding[0].kind, WHY_HANG);
        assert_int_equal(x.finding[0].sure, circle ? WHY_HIGH : WHY_FAIR);
        assert_true(!strstr(x.finding[0].text, "Deadlock") == !circle);
        assert_non_null(strstr(x.finding[0].evidence, "a waits for b"));
    }
}

static void test_why__a_gain_below_a_twentieth_is_not_said(void **state)
{
    (void)state;
    for (int k = 0; k < WHY_KIND_COUNT; k++) {
        struct why_facts f = healthy();
        if (k == WHY_CHATTY || k == WHY_PHASE || k == WHY_PROCEDURE ||
            k == WHY_SPREAD || k == WHY_HANG)
            continue;
        /* Uneven by chance is more than that. */
        uint64_t least = k == WHY_IMBALANCE ? 1500 : 500;
        f.amount[k] = amount(6000, least - 1, "/m/a.1", "/m/b.2");
        assert_int_equal(find(&f).count, 0);
        f.amount[k] = amount(6000, least, "/m/a.1", "/m/b.2");
        struct why_findings x = find(&f);
        assert_int_equal(x.count, 1);
        assert_int_equal((int)x.finding[0].kind, k);
        assert_int_equal(x.finding[0].gain_ppm, least * 100);
    }
}

/* ---- each by its name ---- */

static void test_why__a_procedure_is_hot_from_a_quarter_on(void **state)
{
    (void)state;
    struct why_facts f = healthy();
    struct why_amount p = amount(2500, 1250, "/m/p.1", NULL);
    f.procedure = &p;
    f.procedures = 1;
    struct why_findings x = find(&f);
    assert_int_equal(x.count, 1);
    assert_int_equal(x.finding[0].kind, WHY_PROCEDURE);
    SAME(x.finding[0].text, "/m/p.1 spends its time in f (p.c:12).");
    SAME(x.finding[0].evidence, "2.50 s of the path (25%); about 1000 samples");
    SAME(x.finding[0].command,
         "ipsq path r1 --weighting wall --by procedure --by line");
    assert_int_equal(x.finding[0].sure, WHY_HIGH);
    p.ns -= MS;
    assert_int_equal(find(&f).count, 0);
}

/* Catches: a caller named that is all there is beside many small requests, or
 * beside its own hot procedure; one that rests on chance. */
static void test_why__few_requests_that_are_much_work(void **state)
{
    (void)state;
    struct why_facts f = healthy();
    struct why_amount p = amount(2500, 1250, "/m/p.1", NULL);
    f.asked = 9000;
    f.common = (struct why_common){.location = {.procedure = "f"},
                                   .ns = 6000ull * MS,
                                   .low_ns = 4500ull * MS,
                                   .high_ns = 7000ull * MS,
                                   .of_ns = 9000ull * MS,
                                   .amount = amount(6000, 3000, "/m/p.1", "")};
    struct why_findings x = find(&f);
    assert_int_equal(x.count, 1);
    assert_int_equal(x.finding[0].kind, WHY_PROCEDURE);
    SAME(x.finding[0].text,
         "Each request to /m/p.1 is expensive (1.00 ms), mostly in f (p.c:12) "
         "and what it calls. Do less for each request (an index, a cache, "
         "another plan); no single procedure is worth optimising.");
    SAME(x.finding[0].evidence, "6.00 s of the path (60%); 9000 requests, 1.00 "
                                "ms of the path for each");
    SAME(x.finding[0].command, "ipsq procedures r1 --sort total_ns");
    f.asked = 9001;
    assert_int_equal(find(&f).count, 0);
    f.asked = 0; /* nobody did */
    assert_int_equal(find(&f).count, 0);
    f.asked = 10;
    f.common.low_ns -= MS;
    assert_int_equal(find(&f).count, 0);
    f.common.low_ns += MS;
    f.common.amount.named_ns = 3600ull * MS;
    assert_int_equal(find(&f).count, 0);
    f.common.amount.named_ns = 0;
    f.common.amount.ns = 2499ull * MS;
    assert_int_equal(find(&f).count, 0);
    f.common.amount.ns = 6000ull * MS;
    f.procedure = &p; /* hot itself */
    f.procedures = 1;
    x = find(&f);
    assert_int_equal(x.count, 1);
    assert_int_equal(x.finding[0].ns, 2500ull * MS);
}

/* 4.5 of 10 s with one core busy, in others two. */
static struct why_phase slow_phase(void)
{
    return (struct why_phase){.amount = amount(4500, 2250, "/m/p.1", NULL),
                              .number = 2,
                              .phases = 4,
                              .from_ns = 1000ull * MS,
                              .to_ns = 5000ull * MS,
                              .busy_ppm = 1000000,
                              .others_ppm = 2000000,
                              .others_ns = 5500ull * MS};
}

static size_t count_with(struct why_facts *f, struct why_phase *p)
{
    p->amount.phase = f->phase = p;
    f->phases = 1;
    return find(f).count;
}

static void test_why__a_phase_dominates_from_two_fifths_on(void **state)
{
    (void)state;
    struct why_facts f = healthy();
    struct why_phase p = slow_phase();
    assert_int_equal(count_with(&f, &p), 1);
    struct why_findings x = find(&f);
    assert_int_equal(x.finding[0].kind, WHY_PHASE);
    assert_int_equal(x.finding[0].phase, 2);
    assert_int_equal(x.finding[0].from_ns, 1000ull * MS);
    assert_int_equal(x.finding[0].to_ns, 5000ull * MS);
    SAME(x.finding[0].text,
         "Phase 2 of 4 (1.00 s to 5.00 s after the start) takes most of the "
         "time, and fewer cores are busy in it than in the rest: mostly /m/p.1 "
         "in f (p.c:12).");
    SAME(x.finding[0].evidence,
         "4.50 s of the path (45%); 1.0 cores busy, 2.0 in other phases");
    SAME(x.finding[0].command, "ipsq why r1 --phase 2");
    p.amount.ns = 4000ull * MS - 1;
    assert_int_equal(count_with(&f, &p), 0);
    p = slow_phase();
    p.busy_ppm = 1400000; /* of another kind it is not */
    assert_int_equal(count_with(&f, &p), 0);
    p = slow_phase();
    p.others_ns = 1000ull * MS - 1; /* there is next to nothing else */
    assert_int_equal(count_with(&f, &p), 0);
}

static void test_why__a_phase_that_others_name_is_not_said(void **state)
{
    (void)state;
    struct why_facts f = healthy();
    struct why_phase p = slow_phase();
    f.amount[WHY_OUTSIDE] = amount(2700, 2700, "/m/p.1", NULL);
    p.named_ns[WHY_OUTSIDE] = 2700ull * MS - 1;
    assert_int_equal(count_with(&f, &p), 2);
    p.named_ns[WHY_OUTSIDE]++;
    assert_int_equal(count_with(&f, &p), 1);
    p.named_ns[WHY_OUTSIDE] = 0; /* a kind that is not said names nothing */
    p.named_ns[WHY_LOCK] = 4500ull * MS;
    assert_int_equal(count_with(&f, &p), 2);
}

static void test_why__a_phase_has_its_procedure(void **state)
{
    (void)state;
    struct why_facts f = healthy();
    struct why_phase p = slow_phase();
    struct why_amount hot = amount(4500, 2250, "/m/p.1", NULL);
    f.procedure = &hot;
    f.procedures = 1;
    hot.phase_ns[0] = 2700ull * MS - 1;
    assert_int_equal(count_with(&f, &p), 2);
    hot.phase_ns[0]++;
    assert_int_equal(count_with(&f, &p), 1);
    assert_int_equal(find(&f).finding[0].kind, WHY_PHASE);
}

static struct why_facts chatty(uint64_t count, uint64_t bytes, uint64_t path_ms)
{
    struct why_facts f = healthy();
    f.amount[WHY_CHATTY] = amount(6000, 5000, "/m/a.1", "/m/b.2");
    f.amount[WHY_CHATTY].count = count;
    f.amount[WHY_CHATTY].bytes = bytes;
    f.chatty_path_ns = path_ms * MS;
    f.amount[WHY_TRANSIT] = amount(9000, 4500, "/m/b.2", "/m/a.1");
    f.amount[WHY_TRANSIT].chatty = true;
    return f;
}

static void test_why__chatty_messages_are_many_small_and_quick(void **state)
{
    (void)state;
    struct why_facts f = chatty(100000, 100000ull * 4096, 10000);
    struct why_findings x = find(&f);
    assert_int_equal(x.count, 1); /* and not that they are slow */
    assert_int_equal(x.finding[0].kind, WHY_CHATTY);
    SAME(x.finding[0].evidence, "100000 messages on the path, 4096 bytes on "
                                "average, one every 100.00 us");
    SAME(x.finding[0].command, "ipsq whatif r1 --message '/m/a.1 -> /m/b.2' "
                               "--weighting wall");
    f = chatty(100000, 100000ull * 4097, 10000); /* large */
    assert_int_equal(find(&f).finding[0].kind, WHY_TRANSIT);
    f = chatty(99000, 99000, 10000); /* with work between */
    assert_int_equal(find(&f).finding[0].kind, WHY_TRANSIT);
    f = chatty(199, 199, 1); /* few */
    assert_int_equal(find(&f).finding[0].kind, WHY_TRANSIT);
}

static void test_why__others_may_be_slow_beside_chatter(void **state)
{
    (void)state;
    struct why_facts f = chatty(100000, 100000, 5000);
    f.amount[WHY_TRANSIT].chatty = false;
    struct why_findings x = find(&f);
    assert_int_equal(x.count, 2);
    assert_int_equal(x.finding[1].kind, WHY_TRANSIT);
}

static void test_why__a_lock_names_the_holder(void **state)
{
    (void)state;
    struct why_facts f = healthy();
    f.amount[WHY_LOCK] = amount(8000, 5000, "/m/p.1", "/m/p.1");
    f.amount[WHY_LOCK].count = 300;
    f.amount[WHY_LOCK].other_ns = 30000ull * MS;
    f.amount[WHY_LOCK].wait_at = (struct why_location){
        .procedure = "g", .file = "p.c", .source_line = 9};
    struct why_findings x = find(&f);
    SAME(x.finding[0].text, "Lock contention: /m/p.1 waits for a lock that "
                            "/m/p.1 holds in f (p.c:12).");
    SAME(x.finding[0].evidence,
         "300 waits for locks, 30.00 s over all threads, most in g (p.c:9)");
    assert_int_equal(x.finding[0].sure, WHY_FAIR);
}

/* Catches: a lock that only samples show called a lock that somebody holds, or
 * sure on a few samples; the library's functions that take it said to be the
 * problem beside it, or left out where no lock is said. */
static void test_why__a_lock_that_samples_show(void **state)
{
    (void)state;
    struct why_facts f = healthy();
    struct why_amount p = amount(5000, 2500, "/m/p.1", NULL);
    struct why_lock_cost cost = {.ns = 4000ull * MS,
                                 .samples = 4000,
                                 .unknown_ns = 1000ull * MS,
                                 .library = true};
    p.location.procedure = "lll_lock_wake";
    p.lock_code = true;
    f.procedure = &p;
    f.procedures = 1;
    f.amount[WHY_LOCK] = amount(5000, 4000, "/m/p.1", "/m/p.1");
    f.amount[WHY_LOCK].lock = &cost;
    f.amount[WHY_LOCK].wait_at = (struct why_location){
        .procedure = "g", .file = "p.c", .source_line = 9};
    struct why_findings x = find(&f);
    assert_int_equal(x.count, 1);
    SAME(x.finding[0].text,
         "Lock contention: threads of /m/p.1 wait for a lock inside the C "
         "library in f (p.c:12), called in g (p.c:9).");
    SAME(x.finding[0].evidence,
         "4.00 s of the path's CPU time to take and give it (about 4000 "
         "samples), 1.00 s asleep meanwhile");
    assert_int_equal(x.finding[0].sure, WHY_FAIR);
    f.amount[WHY_LOCK].samples = WHY_SURE_SAMPLES - 1;
    assert_int_equal(find(&f).finding[0].sure, WHY_LOW);
    cost.library = false;
    cost.unknown_ns = 0;
    SAME(find(&f).finding[0].text,
         "Lock contention: threads of /m/p.1 want the same lock at the same "
         "time in f (p.c:12).");
    f.amount[WHY_LOCK].count = 300;
    f.amount[WHY_LOCK].other_ns = 30000ull * MS;
    SAME(find(&f).finding[0].evidence,
         "300 waits for locks, 30.00 s over all threads, most in g (p.c:9); "
         "4.00 s of the path's CPU time to take and give them");
    f.amount[WHY_LOCK].gain_ns = 0;
    x = find(&f);
    assert_int_equal(x.count, 1);
    assert_int_equal(x.finding[0].kind, WHY_PROCEDURE);
}

/* Catches: a thread that yields in a loop said to work, or without doubt. */
static void test_why__a_thread_that_yields_spins(void **state)
{
    (void)state;
    struct why_facts f = healthy();
    struct why_amount p = amount(5000, 2500, "/m/p.1", NULL);
    p.yields = true;
    f.procedure = &p;
    f.procedures = 1;
    struct why_findings x = find(&f);
    SAME(x.finding[0].text,
         "/m/p.1 spins in f (p.c:12): it calls sched_yield() again and again, "
         "as threads do that wait until another one changes something in "
         "memory.");
    assert_int_equal(x.finding[0].sure, WHY_FAIR);
    f.amount[WHY_BUSY] = amount(20000, 20000, "/m/p.1", NULL);
    for (int i = 0; i < 2; i++, p.yields = false) {
        x = find(&f); /* with a spin, a busy machine may not be why */
        assert_int_equal(x.finding[0].sure, i ? WHY_HIGH : WHY_FAIR);
    }
}

/* Catches: a thread that reads memory until it changes said to work, or without
 * doubt; not said as it is beside the path and nothing else is found, or said
 * although something else is. */
static void test_why__a_thread_that_reads_memory_spins(void **state)
{
    (void)state;
    struct why_facts f = healthy();
    struct why_amount p = amount(5000, 2500, "/m/p.1", NULL);
    p.reads_memory = true;
    f.procedure = &p;
    f.procedures = 1;
    struct why_findings x = find(&f);
    SAME(x.finding[0].text,
         "/m/p.1 spins in f (p.c:12): it reads memory again and again until "
         "another thread changes it.");
    assert_int_equal(x.finding[0].sure, WHY_FAIR);
    SAME(x.finding[0].supposes, "what it waits for comes after half the time");
    f.spinning = amount(4000, 2000, "/m/p.2", NULL);
    f.spinning.reads_memory = true;
    assert_int_equal(find(&f).count, 1);
    f.procedures = 0;
    x = find(&f);
    assert_int_equal(x.count, 1);
    SAME(x.finding[0].text,
         "/m/p.2 spins in f (p.c:12): it reads memory again and again until "
         "another thread changes it.");
    assert_non_null(strstr(x.finding[0].evidence, "not on the path"));
}

static void test_why__cores_are_short_by_its_own_or_by_others(void **state)
{
    (void)state;
    struct why_facts f = healthy();
    f.t_max_wall_ns = 40000ull * MS;
    f.oversubscription_ns = 10000ull * MS;
    f.path_delay_ns = 30000ull * MS;
    f.amount[WHY_CORES] = amount(10000, 10000, "/m/p.1", NULL);
    f.amount[WHY_CORES].threads = 4;
    f.amount[WHY_CORES].cores = 2;
    f.amount[WHY_BUSY] = amount(20000, 20000, "/m/p.1", NULL);
    struct why_findings x = find(&f);
    assert_int_equal(x.count, 2);
    /* Compared by equal shares: half of what it takes alone (20 s), half of
     * 40 s; told as shares of these 40. */
    assert_int_equal(x.finding[0].gain_ppm, 250000);
    assert_int_equal(x.finding[1].gain_ppm, 500000);
    assert_int_equal(x.finding[0].kind, WHY_CORES);
    assert_int_equal(x.finding[1].kind, WHY_BUSY);
    SAME(x.finding[0].text,
         "Too few cores: up to 4 threads are ready to run on 2 cores.");
}

static void test_why__a_busy_machine_hides_nothing(void **state)
{
    (void)state;
    struct why_facts f = healthy();
    struct why_amount p = amount(2500, 1250, "/m/p.1", NULL);
    f.t_max_wall_ns = 100000ull * MS; /* ten times what it takes alone */
    f.procedure = &p;
    f.procedures = 1;
    struct why_findings x = find(&f);
    assert_int_equal(x.count, 1);
    assert_int_equal(x.finding[0].gain_ppm, 12500);
}

static void test_why__cost_is_spread_where_none_has_a_tenth(void **state)
{
    (void)state;
    struct why_facts f = healthy();
    struct why_amount p = amount(999, 499, "/m/p.1", NULL);
    f.procedure = &p;
    f.procedures = 1;
    f.top_ns = 4900ull * MS;
    f.half_count = 21;
    struct why_findings x = find(&f);
    assert_int_equal(x.count, 1);
    assert_int_equal(x.finding[0].kind, WHY_SPREAD);
    SAME(
        x.finding[0].evidence,
        "half of the path's CPU time is in 21 procedures; the top 10 have 49%");
    p.ns = 1000 * MS;
    assert_int_equal(find(&f).count, 0);
    p.ns = 999 * MS;
    f.sampled_ns = 4999ull * MS; /* most of the path is something else */
    f.top_ns = 1000ull * MS;
    assert_int_equal(find(&f).count, 0);
}

/* ---- the list ---- */

static void test_why__the_greatest_gain_stands_first(void **state)
{
    (void)state;
    struct why_facts f = healthy();
    f.amount[WHY_SERIAL] = amount(3000, 1500, "/m/a.1", "/m/b.2");
    f.amount[WHY_OUTSIDE] = amount(2000, 2000, "/m/a.1", NULL);
    f.amount[WHY_OUTSIDE].cause = "disk";
    f.amount[WHY_LATE] = amount(3000, 1500, "/m/c.1", "/m/d.2");
    struct why_findings x = find(&f);
    assert_int_equal(x.count, 3);
    assert_int_equal(x.finding[0].kind, WHY_OUTSIDE);
    assert_int_equal(x.finding[1].kind, WHY_LATE); /* equal: the kind */
    assert_int_equal(x.finding[2].kind, WHY_SERIAL);
    assert_non_null(strstr(x.finding[0].text, "mostly for the disk"));
}

static void test_why__a_procedure_that_is_named_is_not_said_twice(void **state)
{
    (void)state;
    struct why_facts f = healthy();
    struct why_amount p[2] = {amount(5000, 2500, "/m/a.1", NULL),
                              amount(3000, 1500, "/m/a.1", NULL)};
    f.procedure = p;
    f.procedures = 2;
    p[1].location.procedure = "g";
    f.amount[WHY_LATE] = amount(4000, 2000, "/m/a.1", "/m/b.2");
    p[0].named_ns = 3000ull * MS; /* 60% of it */
    p[1].named_ns = 3000ull * MS; /* all, but its place is another */
    struct why_findings x = find(&f);
    assert_int_equal(x.count, 2);
    assert_int_equal(x.finding[0].kind, WHY_LATE);
    SAME(x.finding[1].location.procedure, "g");
    p[0].named_ns -= MS;
    assert_int_equal(find(&f).count, 3);
}

/* Catches: one form of a serial section that hides the other; time of a phase
 * that both together name, counted twice. */
static void test_why__both_forms_of_a_serial_section_are_said(void **state)
{
    (void)state;
    struct why_facts f = healthy();
    struct why_phase p = slow_phase();
    f.amount[WHY_SERIAL] = amount(3000, 1500, "/m/a.1", "/m/b.2");
    f.one_by_one = amount(2000, 1000, "/m/c.1", "/m/d.2");
    f.one_by_one.count = 6;
    struct why_findings x = find(&f);
    assert_int_equal(x.count, 2);
    assert_int_equal(x.finding[0].kind, WHY_SERIAL);
    assert_int_equal(x.finding[1].kind, WHY_SERIAL);
    SAME(x.finding[0].location.object, "/m/a.1");
    SAME(x.finding[1].location.object, "/m/c.1");
    p.named_ns[WHY_SERIAL] = 2000ull * MS; /* 44% of it */
    assert_int_equal(count_with(&f, &p), 3);
}

/* ---- how sure, and the shape ---- */

static void test_why__doubts_are_said(void **state)
{
    (void)state;
    struct why_facts f = healthy();
    struct why_amount p = amount(2500, 1250, "/m/p.1", NULL);
    f.procedure = &p;
    f.procedures = 1;
    p.samples = 29;
    struct why_findings x = find(&f);
    assert_int_equal(x.finding[0].sure, WHY_LOW);
    SAME(x.finding[0].sure_why, "only about 29 samples");
    assert_int_equal(x.sure, WHY_HIGH); /* of the others it is no doubt */
    f.exact = true;
    assert_int_equal(find(&f).finding[0].sure, WHY_HIGH);
    f.lost = 10;
    assert_int_equal(find(&f).sure, WHY_FAIR);
    f.lost = 11;
    assert_int_equal(find(&f).sure, WHY_LOW);
    f.lost = 0;
    f.overhead_ns = 910 * MS; /* of 10 s: the rest is 10.01% longer by it */
    assert_int_equal(find(&f).sure, WHY_FAIR);
    f.overhead_ns = UINT64_MAX; /* not known */
    assert_int_equal(find(&f).sure, WHY_HIGH);
    f.overhead_ns = 0;
    f.sampled = false;
    f.sample_ns = 0;
    x = find(&f);
    assert_int_equal(x.sure, WHY_FAIR);
    assert_non_null(strstr(x.sure_why, "--procedures=sample"));
    f.sample_ns = 10 * MS; /* sampling was on: that is no advice */
    x = find(&f);
    assert_int_equal(x.sure, WHY_FAIR);
    assert_null(strstr(x.sure_why, "--procedures=sample"));
    assert_non_null(strstr(x.sure_why, "--rate 1"));
    f.path_cpu_ns = 2499ull * MS; /* too little for a procedure to be hot */
    assert_int_equal(find(&f).sure, WHY_HIGH);
    f = healthy();
    f.procedure = &p;
    f.procedures = 1;
    f.t_max_wall_ns = 99 * MS;
    assert_int_equal(find(&f).sure, WHY_LOW);
    f = healthy();
    f.path_other_ns = f.t_max_wall_ns / 4;
    x = find(&f);
    assert_int_equal(x.sure, WHY_FAIR);
    assert_non_null(strstr(x.sure_why, "are unattributed"));
    f.path_other_ns -= 10;
    assert_int_equal(find(&f).sure, WHY_HIGH);
    f = healthy();
    f.open = true;
    f.missing_machines = true;
    SAME(find(&f).sure_why, "machines are missing; the run is still going on");
}

static void test_why__a_service_accepts_and_waits(void **state)
{
    (void)state;
    struct why_facts f = healthy();
    f.accepted = 3;
    assert_false(find(&f).service);
    f.path_outside_ns = 2500ull * MS;
    struct why_findings x = find(&f);
    assert_true(x.service);
    assert_non_null(strstr(x.shape_text, "--for latency"));
    f.accepted = 0;
    assert_false(find(&f).service);
}

/* Catches: a batch program taken for a service since it has one in it; a few
 * messages from elsewhere that make one of it. */
static void test_why__a_service_is_asked_from_outside(void **state)
{
    (void)state;
    struct why_facts f = healthy();
    f.accepted = 3;
    f.asked = 1000;
    f.asked_outside = WHY_SERVICE_ASKED;
    assert_false(why_is_service(&f));
    assert_non_null(strstr(find(&f).shape_text, "a batch program"));
    f.asked_outside = 500;
    assert_true(why_is_service(&f));
    assert_true(find(&f).service);
    assert_non_null(strstr(find(&f).shape_text, "from unrecorded clients"));
    f.asked = f.asked_outside = WHY_SERVICE_ASKED - 1;
    assert_false(why_is_service(&f));
}

static void test_why__names_are_quoted_for_a_shell(void **state)
{
    (void)state;
    arena_release(&arena);
    memset(&arena, 0, sizeof(arena));
    SAME(why_quote_for_shell(&arena, "/m/a b.1"), "'/m/a b.1'");
    SAME(why_quote_for_shell(&arena, "it's; $(x)"), "'it'\\''s; $(x)'");
}

/* Catches: a command about all of the run, a window that is not told, one that
 * is called a short run. */
static void test_why__of_a_window(void **state)
{
    (void)state;
    struct why_facts f = healthy();
    f.windowed = true;
    f.from_ns = 1000ull * MS;
    f.to_ns = 3000ull * MS;
    f.amount[WHY_OUTSIDE] = amount(5000, 5000, "/m/a.1", "");
    struct why_findings x = find(&f);
    SAME(x.finding[0].command, "ipsq path r1 --from 1000000000ns --to "
                               "3000000000ns --weighting wall --by external");
    assert_non_null(strstr(x.shape_text, "1.00 s to 3.00 s after"));
    f.window_phase = 2;
    f.t_max_wall_ns = 50 * MS;
    x = find(&f);
    SAME(x.finding[0].command,
         "ipsq path r1 --phase 2 --weighting wall --by external");
    assert_non_null(strstr(x.shape_text, "phase 2, "));
    assert_non_null(strstr(x.sure_why, "the window is shorter"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_why__of_a_window),
        cmocka_unit_test(test_why__nothing_stands_out_of_a_healthy_program),
        cmocka_unit_test(test_why__a_hang_comes_first),
        cmocka_unit_test(test_why__a_gain_below_a_twentieth_is_not_said),
        cmocka_unit_test(test_why__a_procedure_is_hot_from_a_quarter_on),
        cmocka_unit_test(test_why__chatty_messages_are_many_small_and_quick),
        cmocka_unit_test(test_why__others_may_be_slow_beside_chatter),
        cmocka_unit_test(test_why__a_lock_names_the_holder),
        cmocka_unit_test(test_why__a_lock_that_samples_show),
        cmocka_unit_test(test_why__a_thread_that_yields_spins),
        cmocka_unit_test(test_why__a_thread_that_reads_memory_spins),
        cmocka_unit_test(test_why__cores_are_short_by_its_own_or_by_others),
        cmocka_unit_test(test_why__a_busy_machine_hides_nothing),
        cmocka_unit_test(test_why__cost_is_spread_where_none_has_a_tenth),
        cmocka_unit_test(test_why__few_requests_that_are_much_work),
        cmocka_unit_test(test_why__a_phase_dominates_from_two_fifths_on),
        cmocka_unit_test(test_why__a_phase_that_others_name_is_not_said),
        cmocka_unit_test(test_why__a_phase_has_its_procedure),
        cmocka_unit_test(test_why__the_greatest_gain_stands_first),
        cmocka_unit_test(test_why__a_procedure_that_is_named_is_not_said_twice),
        cmocka_unit_test(test_why__both_forms_of_a_serial_section_are_said),
        cmocka_unit_test(test_why__doubts_are_said),
        cmocka_unit_test(test_why__a_service_accepts_and_waits),
        cmocka_unit_test(test_why__a_service_is_asked_from_outside),
        cmocka_unit_test(test_why__names_are_quoted_for_a_shell),
    };
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    arena_release(&arena);
    return rc;
}
