/*
 * Message times: the curve by hand (interpolation, what is not monotone, a line
 * that an outlier does not move), the table's text with every way to get it
 * wrong, rounds to a point, and the exchange itself over real sockets - what it
 * counts, whom it refuses, never how long it takes.
 * EVIDENCE-OF: DPM-3, DRO-2
 */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/graph/message_time.h"
#include "analysis/graph/view.h"
#include "master/base/message_times.h"
#include "master/base/message_times_doubt.h"
#include "master/base/message_times_wire.h"
#include "proto/message.h"
#include "slave/calibrate/net.h"
#include "slave/calibrate/ready.h"

#define COUNT(array) ((uint32_t)(sizeof(array) / sizeof(*(array))))

/* ---- curves -------------------------------------------------------------- */

/* Would catch a wrong neighbour, rounding up, a jump at a point. */
static void test_message_time__between_and_beyond(void **state)
{
    (void)state;
    const uint64_t bytes[] = {1001, 1, 2001}, ns[] = {300, 100, 1300};
    struct ips_curve c;
    assert_int_equal(ips_curve_build_from_points(bytes, ns, 3, &c, NULL), 0);
    assert_int_equal(ips_curve_compute_message_ns(&c, 0), 100);
    assert_int_equal(ips_curve_compute_message_ns(&c, 1), 100);
    assert_int_equal(ips_curve_compute_message_ns(&c, 501), 200);
    assert_int_equal(ips_curve_compute_message_ns(&c, 504), 200); /* 200.6 */
    assert_int_equal(ips_curve_compute_message_ns(&c, 1001), 300);
    assert_int_equal(ips_curve_compute_message_ns(&c, 2001), 1300);
    /* Slopes 0.2, 1 and, of all, 0.6, which counts twice: the median. */
    assert_int_equal(c.beta_q32, (3ULL << 32) / 5);
    assert_int_equal(ips_curve_compute_message_ns(&c, 3001),
                     1899); /* rounded down */
    const struct ips_curve none = {0};
    assert_int_equal(ips_curve_compute_message_ns(&none, 5), 0);
}

/* Isotonic: neighbours that fall have their mean; it never falls. */
static void test_message_time__made_monotone(void **state)
{
    (void)state;
    const uint64_t bytes[] = {1, 2, 3, 4, 5};
    const uint64_t ns[] = {50, 10, 30, 20, 100};
    struct ips_curve c, again;
    assert_int_equal(ips_curve_build_from_points(bytes, ns, 5, &c, NULL), 0);
    const uint64_t want[] = {27, 27, 27, 27, 100};
    for (int i = 0; i < 5; i++)
        assert_int_equal(c.ns[i], want[i]);
    /* What a slave makes of the master's points is the same. */
    assert_int_equal(
        ips_curve_build_from_points(c.bytes, c.ns, 5, &again, NULL), 0);
    assert_memory_equal(&c, &again, sizeof(c));
}

static void test_message_time__the_line_is_robust(void **state)
{
    (void)state;
    const uint64_t bytes[] = {0, 1000, 2000, 3000, 4000, 5000};
    uint64_t ns[] = {500, 1500, 2500, 3500, 4500, 5500};
    struct ips_curve c;
    assert_int_equal(ips_curve_build_from_points(bytes, ns, 6, &c, NULL), 0);
    assert_int_equal(c.alpha_ns, 500);
    assert_int_equal(c.beta_q32, 1ULL << 32);
    ns[5] = 900000; /* one of six is off */
    assert_int_equal(ips_curve_build_from_points(bytes, ns, 6, &c, NULL), 0);
    assert_true(c.alpha_ns <= 1000);
    assert_true(c.beta_q32 <= 2ULL << 32);
}

static void test_message_time__what_is_no_curve(void **state)
{
    (void)state;
    uint64_t bytes[IPS_CURVE_POINTS + 1] = {5, 6, 5}, ns[65] = {1, 2, 3};
    struct ips_curve c;
    assert_int_equal(ips_curve_build_from_points(bytes, ns, 0, &c, NULL),
                     IPS_E_USAGE);
    assert_int_equal(ips_curve_build_from_points(bytes, ns, 65, &c, NULL),
                     IPS_E_USAGE);
    assert_int_equal(ips_curve_build_from_points(bytes, ns, 3, &c, NULL),
                     IPS_E_USAGE);
    ns[0] = IPS_CURVE_MAX_NS + 1;
    assert_int_equal(ips_curve_build_from_points(bytes, ns, 2, &c, NULL),
                     IPS_E_USAGE);
    ns[0] = 1;
    bytes[1] = IPS_CURVE_MAX_BYTES + 1;
    assert_int_equal(ips_curve_build_from_points(bytes, ns, 2, &c, NULL),
                     IPS_E_USAGE);
}

/* Half of what is left of a round; ends that overlapped leave nothing. */
static void test_message_time__rounds(void **state)
{
    (void)state;
    uint64_t trip[] = {100, 110, 120, 90000, 30};
    const uint64_t near[] = {20, 20, 20, 20, 20}, far[] = {30, 30, 30, 30, 30};
    struct ips_compute_half_round_trip_statistics h =
        ips_compute_half_round_trip_statistics(trip, near, far, 5);
    assert_int_equal(h.rounds, 5);
    assert_int_equal(h.median_ns, 30);
    assert_int_equal(h.low_ns, 0);
    assert_int_equal(h.high_ns, (90000 - 50) / 2);
    h = ips_compute_half_round_trip_statistics(trip, near, far, 0);
    assert_int_equal(h.median_ns, 0);
}

/* The difference of medians, of as many of each; never below 0. */
static void test_message_time__waking(void **state)
{
    (void)state;
    uint64_t together[] = {5000, 1000, 1100}, apart[] = {3500, 90000, 3000};
    assert_int_equal(ips_estimate_wake_cost_ns(together, apart, 3), 2400);
    assert_int_equal(ips_estimate_wake_cost_ns(apart, together, 3), 0);
    assert_int_equal(ips_estimate_wake_cost_ns(together, apart, 0), 0);
}

/* On this machine: a number, or none where it has one processor; none of the
 * two threads hangs when it is told to stop. */
static void test_message_time__ready(void **state)
{
    (void)state;
    struct slave_ready r;
    atomic_bool stop = false;
    struct ips_err err = {0};
    cpu_set_t set;
    assert_int_equal(sched_getaffinity(0, sizeof(set), &set), 0);
    if (slave_ready_measure_load_and_wake_cost(60, &stop, &r, &err) < 0)
        fail_msg("%s", err.msg);
    assert_true(r.processors >= 1);
    assert_int_equal(r.wake_ns != IPS_UNMEASURED, CPU_COUNT(&set) > 1);
    assert_int_equal(slave_ready_measure_load_and_wake_cost(0, &stop, &r, NULL),
                     IPS_E_PROTOCOL);
    stop = true;
    if (CPU_COUNT(&set) > 1)
        assert_int_equal(
            slave_ready_measure_load_and_wake_cost(60, &stop, &r, NULL),
            IPS_E_REFUSED);
}

/* ---- doubts -------------------------------------------------------------- */

static struct message_time_pair pair_of(uint64_t ns)
{
    struct message_time_pair p = {.from = "a", .to = "b", .count = 4};
    for (uint32_t i = 0; i < p.count; i++)
        p.point[i] = (struct message_time_point){i + 1, ns, ns, ns, 9, 0};
    return p;
}

/* Just within and just beyond each rule: catches a limit that moved, a rule
 * that one length of four breaks. */
static void test_message_time__doubts(void **state)
{
    (void)state;
    char why[160];
    assert_false(message_times_check_busy_and_write_reason("a", 1000, 2, why,
                                                           sizeof(why)));
    assert_false(message_times_check_busy_and_write_reason("a", UINT32_MAX, 1,
                                                           why, sizeof(why)));
    assert_true(message_times_check_busy_and_write_reason("a", 1010, 2, why,
                                                          sizeof(why)));
    assert_string_equal(why, "a was not idle: load average 1.01, 2 processors");
    struct message_time_pair p = pair_of(1000), back = pair_of(23000);
    struct message_time_trip trip[4];
    for (int i = 0; i < 4; i++)
        trip[i] = (struct message_time_trip){3000, 100, 1000};
    assert_false(
        message_times_check_trips_and_write_doubt(&p, trip, why, sizeof(why)));
    p.point[0].high_ns = p.point[1].high_ns = 1000 + 3000 + MTIMES_SLACK_NS;
    p.point[2].high_ns++; /* nothing */
    assert_false(
        message_times_check_trips_and_write_doubt(&p, trip, why, sizeof(why)));
    p.point[0].high_ns++;
    assert_false(
        message_times_check_trips_and_write_doubt(&p, trip, why, sizeof(why)));
    p.point[1].high_ns++;
    assert_true(
        message_times_check_trips_and_write_doubt(&p, trip, why, sizeof(why)));
    assert_string_equal(why, "2 of 4 lengths vary widely: 1 B take 1 to 24 us");
    trip[2].delay_ns = trip[3].delay_ns = 101;
    assert_true(
        message_times_check_trips_and_write_doubt(&p, trip, why, sizeof(why)));
    assert_string_equal(why, "its ends waited for a CPU 10% of the time");
    assert_false(
        message_times_write_doubt_if_ways_differ(&p, &back, why, sizeof(why)));
    back.point[2].ns = back.point[3].ns = 85000;
    assert_true(
        message_times_write_doubt_if_ways_differ(&p, &back, why, sizeof(why)));
    assert_string_equal(
        why, "the directions differ: 3 B take 1 us forth and 85 us back");
    back.point[2].ns = 23000;
    assert_false(
        message_times_write_doubt_if_ways_differ(&p, &back, why, sizeof(why)));
    back.count = 1; /* nothing else in common */
    back.point[0].ns = 23001;
    assert_true(
        message_times_write_doubt_if_ways_differ(&p, &back, why, sizeof(why)));
}

/* ---- a graph's messages -------------------------------------------------- */

/* Each end by its curve, what is no message as it was; twice is once. */
static void test_message_time__view_by_ends(void **state)
{
    (void)state;
    struct ips_graph g;
    struct ips_view v, w;
    struct ips_curve curve[2];
    const uint64_t one = 1, ns[] = {70, 900};
    uint32_t which[] = {1, IPS_NO_CURVE};
    const struct ips_message_time_map map = {curve, 2, which, 2, 0};
    const struct ips_scenario lane = {.message_time = {0, 1ULL << 32, 1, 1},
                                      .calibrated = true};
    const struct ips_scenario plain = {.message_time = {0, 0, 1, 1}};
    assert_int_equal(
        ips_curve_build_from_points(&one, &ns[0], 1, &curve[0], NULL), 0);
    assert_int_equal(
        ips_curve_build_from_points(&one, &ns[1], 1, &curve[1], NULL), 0);
    assert_int_equal(ips_graph_alloc(&g, 5, 1, NULL), 0);
    g.chains[0] = (struct ips_chain){.count = 5};
    g.xkind[1] = g.xkind[2] = g.xkind[3] = IPS_X_DATA;
    g.xkind[4] = IPS_X_EXTERNAL;
    g.xlen[1] = g.xlen[2] = g.xlen[3] = g.xlen[4] = 8;
    g.site[1] = 0;
    g.site[2] = 1;
    g.out = calloc(2, sizeof(*g.out));
    assert_non_null(g.out);
    g.out_count = 2;
    g.out[0] = (struct ips_remote_out){.end = 0, .len = 8};
    g.out[1] = (struct ips_remote_out){.end = 7, .len = 8};
    g.message_times = &map;
    assert_int_equal(ips_graph_make_view(&g, &lane, &v, NULL), 0);
    const uint64_t want[] = {0, 900, 0, 70, 8};
    for (int i = 0; i < 5; i++)
        assert_int_equal(v.g.xlen[i], want[i]);
    assert_int_equal(ips_remote_send_bytes_or_ns(&v.g, 0), 900);
    assert_int_equal(ips_remote_send_bytes_or_ns(&v.g, 1), 70);
    assert_int_equal(v.g.out[0].len, 8); /* positions are matched by it */
    assert_int_equal(ips_graph_make_view(&v.g, &lane, &w, NULL), 0);
    assert_int_equal(w.g.xlen[1], 900);
    ips_view_release(&w);
    ips_view_release(&v);
    assert_int_equal(ips_graph_make_view(&g, &plain, &v, NULL), 0);
    assert_int_equal(v.g.xlen[1], 8);
    assert_int_equal(ips_remote_send_bytes_or_ns(&v.g, 0), 8);
    ips_view_release(&v);
    ips_graph_release(&g);
}

/* ---- the table's text ---------------------------------------------------- */

#define HEAD "ips-message-times 1\n"

static void test_message_time__text_there_and_back(void **state)
{
    (void)state;
    static const char text[] =
        "# hello\r\n" HEAD "\n  pair b a tcp 2026-01-02T00:00:00Z\n"
        "point 64 100\npoint 1 20 10 30 7  # seven\n"
        "wake m7 2400 2026-01-02T00:00:00Z by hand\n"
        "pair a a unix yesterday by hand, mostly\ndoubt it was late\npoint 5 6 "
        "- - 3\n"
        "wake m1 0 d\n";
    struct message_times t = {0}, u = {0};
    struct ips_err err = {0};
    if (message_times_parse(&t, "x", text, &err) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(t.count, 2);
    assert_string_equal(t.pair[0]->from, "a");
    assert_string_equal(t.pair[0]->by, "by hand, mostly");
    assert_int_equal(t.pair[0]->point[0].low_ns, UINT64_MAX);
    assert_int_equal(t.pair[1]->point[1].rounds, 7);
    assert_int_equal(ips_curve_compute_message_ns(&t.pair[1]->curve, 64), 100);
    assert_string_equal(t.pair[0]->doubt, "it was late");
    assert_string_equal(t.pair[1]->doubt, "");
    assert_int_equal(t.wake_count, 2);
    assert_string_equal(t.wake[0].machine, "m1");
    assert_int_equal(message_times_find_wake(&t, "m7")->ns, 2400);
    assert_string_equal(message_times_find_wake(&t, "m7")->by, "by hand");
    assert_null(message_times_find_wake(&t, "a"));
    char *once = message_times_format_text(&t);
    assert_non_null(once);
    assert_int_equal(message_times_parse(&u, "x", once, NULL), 0);
    char *twice = message_times_format_text(&u);
    assert_string_equal(once, twice);
    /* Added to: what is named again is replaced, the rest stays. */
    assert_int_equal(
        message_times_parse(&t, "x", HEAD "pair b a tcp d\npoint 1 9\n", NULL),
        0);
    assert_int_equal(t.count, 2);
    assert_int_equal(t.pair[1]->count, 1);
    assert_int_equal(message_times_parse(&t, "x", HEAD "wake m7 5 e\n", NULL),
                     0);
    assert_int_equal(t.wake_count, 2);
    assert_int_equal(message_times_find_wake(&t, "m7")->ns, 5);
    assert_int_equal(message_times_remove_rows_of_machine_or_all(&t, "b"), 1);
    assert_int_equal(message_times_remove_rows_of_machine_or_all(&t, "m1"), 1);
    assert_int_equal(t.count, 1);
    assert_int_equal(t.wake_count, 1);
    free(once);
    free(twice);
    message_times_release(&t);
    message_times_release(&u);
}

static void test_message_time__text_that_is_wrong(void **state)
{
    (void)state;
    static const struct {
        const char *text, *line, *says;
    } bad[] = {
        {"", "line 0", "begin it with"},
        {"hello\n", "line 1", "begin it with"},
        {HEAD "point 1 2\n", "line 2", "before it"},
        {HEAD "pair a b tcp\n", "line 2", "too few words"},
        {HEAD "pair a/x b tcp d\n", "line 2", "not a valid machine name"},
        {HEAD "pair a b ib d\n", "line 2", "neither tcp nor unix"},
        {HEAD "pair a b unix d\n", "line 2", "unix between two machines"},
        {HEAD "pair a b tcp d\n", "line 2", "points"},
        {HEAD "\npair a b tcp d\npoint 1 2\npoint 1 3\n", "line 3",
         "two points of 1 bytes"},
        {HEAD "pair a b tcp d\npoint 1\n", "line 3", "two to six numbers"},
        {HEAD "pair a b tcp d\npoint 1 -5\n", "line 3", "two to six numbers"},
        {HEAD "pair a b tcp d\npoint 1 2.5\n", "line 3", "whole bytes"},
        {HEAD "pair a b tcp d\npoint 1 2 3 4 5 6 7\n", "line 3", "two to six"},
        {HEAD "pair a b tcp d\npoint 1 99999999999999999999\n", "line 3",
         "two to six"},
        {HEAD "pair a b tcp d\npoint 1 2\npair a b tcp e\npoint 1 2\n",
         "line 4", "occurs twice"},
        {HEAD "doubt it\n", "line 2", "before any pair"},
        {HEAD "pair a b tcp d\npoint 1 2\ndoubt\n", "line 4", "few words"},
        {HEAD "wake a/b 5 d\n", "line 2", "not a valid machine name"},
        {HEAD "wake a 5\n", "line 2", "write `wake MACHINE"},
        {HEAD "wake a x d\n", "line 2", "write `wake MACHINE"},
        {HEAD "wake a 5 d\nwake a 6 d\n", "line 3", "has two wakes"},
        {HEAD "wake a 5 d\npoint 5 6\n", "line 3", "before any pair"},
        {HEAD "pear a b tcp d\n", "line 2", "neither `pair` nor `point`"},
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct message_times t = {0};
        struct ips_err err = {0};
        assert_int_equal(message_times_parse(
                             &t, "x", HEAD "pair k k tcp d\npoint 1 1\n", NULL),
                         0);
        assert_int_equal(message_times_parse(&t, "file", bad[i].text, &err),
                         IPS_E_USAGE);
        if (!strstr(err.msg, bad[i].line) || !strstr(err.msg, bad[i].says) ||
            !strstr(err.msg, "file: "))
            fail_msg("%zu: '%s' says not '%s', '%s'", i, err.msg, bad[i].line,
                     bad[i].says);
        assert_int_equal(t.count, 1); /* nothing was taken */
        message_times_release(&t);
    }
}

/* For messages from one to the other those of `like` are taken. */
static void assert_chosen(const struct message_times *t, const char *from,
                          const char *to, enum message_time_transport kind,
                          const char *like_from, const char *like_to,
                          enum message_time_transport like_kind)
{
    assert_ptr_equal(message_times_find_pair_or_substitute(t, from, to, kind),
                     message_times_find_pair(t, like_from, like_to, like_kind));
}

/* A pair that is not there: the other way, the other kind, another machine. */
static void test_message_time__choosing(void **state)
{
    (void)state;
    struct message_times t = {0};
    assert_int_equal(message_times_parse(&t, "x",
                                         HEAD "pair a b tcp d\npoint 1 1\n"
                                              "pair a a unix d\npoint 1 2\n",
                                         NULL),
                     0);
    assert_chosen(&t, "a", "b", MTIME_TCP, "a", "b", MTIME_TCP);
    assert_chosen(&t, "b", "a", MTIME_TCP, "a", "b", MTIME_TCP);
    assert_chosen(&t, "c", "d", MTIME_TCP, "a", "b", MTIME_TCP);
    assert_chosen(&t, "a", "a", MTIME_TCP, "a", "a", MTIME_UNIX);
    assert_chosen(&t, "b", "b", MTIME_UNIX, "a", "a", MTIME_UNIX);
    assert_null(message_times_find_pair_or_substitute(&t, "b", "b", MTIME_TCP));
    message_times_release(&t);
    /* Where both ways are there each has its own. */
    assert_int_equal(message_times_parse(&t, "x",
                                         HEAD "pair a b tcp d\npoint 1 1\n"
                                              "pair b a tcp d\npoint 1 2\n",
                                         NULL),
                     0);
    assert_chosen(&t, "a", "b", MTIME_TCP, "a", "b", MTIME_TCP);
    assert_chosen(&t, "b", "a", MTIME_TCP, "b", "a", MTIME_TCP);
    message_times_release(&t);
}

/* ---- the exchange -------------------------------------------------------- */

static const uint8_t key[SLAVE_ECHO_KEY_BYTES] = "0123456789abcde";
static atomic_bool run_until_work;

static int open_trip(const struct slave_echo_at *at, const uint8_t *with,
                     struct slave_trip *t, struct ips_err *err)
{
    const char *list[SLAVE_ECHO_ADDRESSES];
    for (uint32_t i = 0; i < at->count; i++)
        list[i] = at->address[i];
    return slave_trip_connect(t, with, list, at->count, &run_until_work, err);
}

static void measure(bool by_unix, bool inside)
{
    static const uint64_t lengths[] = {1, 1000, 300000};
    struct slave_echo_at at;
    struct slave_trip t;
    struct ips_err err = {0};
    if (slave_echo_start(key, by_unix, inside, 60, &at, &err) < 0 ||
        open_trip(&at, key, &t, &err) < 0)
        fail_msg("%s", err.msg);
    for (size_t i = 0; i < COUNT(lengths); i++) {
        struct slave_trip_result f;
        const struct ips_compute_half_round_trip_statistics *h = &f.half;
        if (slave_trip_measure(&t, lengths[i], 60, UINT64_MAX / 4, &f, &err) <
            0)
            fail_msg("%s", err.msg);
        assert_int_equal(h->rounds, 60);
        assert_true(h->low_ns <= h->median_ns && h->median_ns <= h->high_ns);
        assert_true(f.trip_ns > 0 && h->median_ns <= f.trip_ns);
        assert_true(f.all_ns / 60 > 0 && f.all_ns >= f.trip_ns);
        /* No time at all: the least number of rounds. */
        assert_int_equal(slave_trip_measure(&t, lengths[i], 60, 0, &f, &err),
                         0);
        assert_int_equal(h->rounds, 3);
    }
    slave_trip_close(&t);
}

static void test_message_time__exchange(void **state)
{
    (void)state;
    measure(false, true);
    measure(false, false);
    measure(true, true);
}

/* Who has not the key is not served; the one who has is, after him. */
static void test_message_time__exchange_refuses(void **state)
{
    (void)state;
    const uint8_t wrong[SLAVE_ECHO_KEY_BYTES] = "another one 1234";
    struct slave_echo_at at;
    struct slave_trip t;
    struct slave_trip_result f;
    struct ips_err err = {0};
    assert_int_equal(slave_echo_start(key, false, true, 60, &at, NULL), 0);
    assert_true(open_trip(&at, wrong, &t, &err) < 0);
    assert_int_equal(open_trip(&at, key, &t, NULL), 0);
    assert_int_equal(
        slave_trip_measure(&t, SLAVE_TRIP_BYTES_MAX + 1, 1, 0, &f, NULL),
        IPS_E_USAGE);
    slave_trip_close(&t);
    at = (struct slave_echo_at){.count = 2};
    snprintf(at.address[0], sizeof(at.address[0]), "tcp:nonsense");
    snprintf(at.address[1], sizeof(at.address[1]), "unix:/no/such");
    assert_true(open_trip(&at, key, &t, &err) < 0);
    assert_non_null(strstr(err.msg, "none of 2 addresses"));
}

/* A link of 5 bytes a us with a bucket of 2000 bytes, as round trips see it:
 * half a trip is what its packets take less 400 us, 40% of it CPU of the ends,
 * which MTIME leaves out. Length 4096 tells the burst (at 1024 half a trip is
 * shorter than that). A pair whose ends' CPU is all that there is tells
 * nothing, nor do short lengths alone. Would catch a byte's time with the CPU
 * left out (40% too little), packets' headers or the burst counted in it, and a
 * burst taken where it is not used up. */
static void test_message_time__wire(void **state)
{
    static const char text[] = HEAD "pair a b tcp d\n"
                                    "point 1 800 - - - 8000\n"
                                    "point 1024 60000 - - - 48000\n"
                                    "point 4096 275280 - - - 183520\n"
                                    "point 16384 1821120 - - - 1214080\n"
                                    "point 1048576 131331120 - - - 87554080\n"
                                    "pair b a tcp d\n"
                                    "point 16384 0 - - - 17000\n"
                                    "point 1048576 0 - - - 390000\n"
                                    "pair a a tcp d\n"
                                    "point 1 800 - - - 8000\n"
                                    "point 1024 60000 - - - 48000\n"
                                    "pair b b tcp d\n"
                                    "point 16384 1821120\n"
                                    "point 1048576 131331120\n";
    struct message_times t = {0};
    struct message_time_wire w = {.burst_ns = 7};
    (void)state;
    assert_int_equal(message_times_parse(&t, "x", text, NULL), 0);
    assert_false(message_time_wire_compute(
        message_times_find_pair(&t, "b", "a", MTIME_TCP), &w));
    assert_false(message_time_wire_compute(
        message_times_find_pair(&t, "a", "a", MTIME_TCP), &w));
    assert_false(message_time_wire_compute(
        message_times_find_pair(&t, "b", "b", MTIME_TCP), &w));
    assert_true(w.burst_ns == 7);
    assert_true(message_time_wire_compute(
        message_times_find_pair(&t, "a", "b", MTIME_TCP), &w));
    assert_true(w.burst_ns == 400000);
    assert_true(ips_curve_compute_message_ns(&w.curve, 1) == 67 * 200);
    assert_true(ips_curve_compute_message_ns(&w.curve, 1448) == 1514 * 200);
    assert_true(ips_curve_compute_message_ns(&w.curve, 14480) == 15140 * 200);
    assert_true(message_time_wire_bytes_per_us(
                    message_times_find_pair(&t, "a", "b", MTIME_TCP)) == 4);
    assert_true(message_time_wire_bytes_per_us(
                    message_times_find_pair(&t, "b", "a", MTIME_TCP)) == 0);
    assert_true(message_time_wire_bytes_per_us(NULL) == 0);
    message_times_release(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_message_time__between_and_beyond),
        cmocka_unit_test(test_message_time__made_monotone),
        cmocka_unit_test(test_message_time__the_line_is_robust),
        cmocka_unit_test(test_message_time__what_is_no_curve),
        cmocka_unit_test(test_message_time__rounds),
        cmocka_unit_test(test_message_time__waking),
        cmocka_unit_test(test_message_time__ready),
        cmocka_unit_test(test_message_time__doubts),
        cmocka_unit_test(test_message_time__view_by_ends),
        cmocka_unit_test(test_message_time__text_there_and_back),
        cmocka_unit_test(test_message_time__text_that_is_wrong),
        cmocka_unit_test(test_message_time__choosing),
        cmocka_unit_test(test_message_time__wire),
        cmocka_unit_test(test_message_time__exchange),
        cmocka_unit_test(test_message_time__exchange_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
