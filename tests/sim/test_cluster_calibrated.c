/*
 * Message times by measurement, over whole clusters: a table of them is taken,
 * kept over a restart, edited, refused where it is damaged, measured pair by
 * pair; and whatever it says, every engine gives what the kernel gives on the
 * uncut graph whose messages weigh so, bit for bit. Catches the curve of
 * another pair, times that reach one engine and not the other, a byte position
 * matched by ns, a question that silently goes without.
 * EVIDENCE-OF: DPM-3, DRO-1, DRO-2, DRO-4, IPS-11
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/cluster.h"
#include "tests/support/random_graph.h"

static const char *const machines[] = {"m1", "m2", "m3", "m4"};
static const char *const engines[] = {"contract", "central", "cm-async",
                                      "cm-sync"};

/* ---- asking -------------------------------------------------------------- */

static void ask_path(struct cluster *c, const char *engine, bool calibrated,
                     struct answer *out)
{
    Ips__Lane wire = IPS__LANE__INIT;
    Ips__PathAsk ask = IPS__PATH_ASK__INIT;
    Ips__Request request = IPS__REQUEST__INIT;
    wire.scale_num = wire.scale_den = 1;
    wire.calibrated = calibrated;
    ask.engine = ips_unconst_text(engine);
    ask.lane = &wire;
    ask.segments = true;
    request.run = ips_unconst_text("r");
    request.ask_case = IPS__REQUEST__ASK_PATH;
    request.path = &ask;
    cluster_ask(c, &request, out);
}

static bool with_force;

static void ask_table(struct cluster *c, Ips__CalibrateAsk__What what,
                      const char *text, struct answer *out)
{
    Ips__CalibrateAsk ask = IPS__CALIBRATE_ASK__INIT;
    Ips__Request request = IPS__REQUEST__INIT;
    uint64_t lengths[] = {1, 1000};
    ask.what = what;
    ask.force = with_force;
    ask.text = ips_unconst_text(text);
    if (what == IPS__CALIBRATE_ASK__WHAT__MEASURE) {
        ask.lengths = lengths;
        ask.n_lengths = 2;
        ask.rounds = 7;
    }
    request.ask_case = IPS__REQUEST__ASK_CALIBRATE;
    request.calibrate = &ask;
    cluster_ask(c, &request, out);
}

static void import(struct cluster *c, const char *text)
{
    struct answer got;
    ask_table(c, IPS__CALIBRATE_ASK__WHAT__IMPORT, text, &got);
    if (answer_last(&got)->error)
        fail_msg("%s", answer_last(&got)->message);
    answer_release(&got);
}

/* ---- tables -------------------------------------------------------------- */

/* The curve from machine a to b as the test knows it. */
static void times_of(uint64_t seed, uint32_t a, uint32_t b, uint64_t ns[3])
{
    uint64_t state = seed * 1000 + a * 10 + b;
    ns[0] = rg_below(&state, 20);
    ns[1] = ns[0] + rg_below(&state, 20);
    ns[2] = ns[1] + rg_below(&state, 2000);
}

static const uint64_t lengths[3] = {1, 16, 1024};

static char *table_of(uint64_t seed, uint32_t count)
{
    char *text = calloc(1, 65536);
    size_t at = 0;
    assert_non_null(text);
    at += (size_t)snprintf(text, 65536, "ips-message-times 1\n");
    for (uint32_t a = 0; a < count; a++) {
        for (uint32_t b = 0; b < count; b++) {
            uint64_t ns[3];
            times_of(seed, a, b, ns);
            at += (size_t)snprintf(text + at, 65536 - at,
                                   "pair %s %s tcp 2026-01-02T03:04:05Z\n",
                                   machines[a], machines[b]);
            for (int i = 0; i < 3; i++)
                at += (size_t)snprintf(
                    text + at, 65536 - at, "point %llu %llu\n",
                    (unsigned long long)lengths[i], (unsigned long long)ns[i]);
        }
    }
    return text;
}

/* r->whole with ns for the bytes of its messages. */
static void weigh_whole(struct rg *r, uint64_t seed)
{
    struct ips_graph *g = &r->whole;
    for (uint32_t i = 0; i < g->node_count; i++) {
        struct ips_curve c;
        uint64_t ns[3];
        if (g->xkind[i] != IPS_X_DATA || g->xpred[i] == IPS_NO_NODE)
            continue;
        uint32_t from = g->chains[ips_chain_of(g, g->xpred[i])].machine;
        uint32_t to = g->chains[ips_chain_of(g, i)].machine;
        times_of(seed, from, to, ns);
        assert_int_equal(0,
                         ips_curve_build_from_points(lengths, ns, 3, &c, NULL));
        g->xlen[i] = ips_curve_compute_message_ns(&c, g->xlen[i]);
    }
}

/* ---- paths --------------------------------------------------------------- */

static void check_path(struct cluster *c, const char *engine, bool calibrated,
                       const struct rg *r, const struct ips_scenario *lane,
                       const char *says)
{
    struct answer got;
    struct ips_est est;
    struct ips_path path = {0};
    uint32_t stop;
    uint64_t at = 0;
    assert_int_equal(
        ips_longest_path_compute_ests(&r->whole, lane, NULL, &est, NULL), 0);
    ask_path(c, engine, calibrated, &got);
    const Ips__Reply *reply = answer_last(&got);
    if (est.t_max == 0) {
        assert_int_equal(reply->error, IPS_E_INCOMPLETE);
        goto out;
    }
    if (reply->error)
        fail_msg("%s: %s", engine, reply->message);
    assert_int_equal(reply->path->t_max_ns, est.t_max);
    assert_int_equal(reply->path->certificate->unmatched, r->unmatched);
    if (!strstr(reply->path->certificate->message_times, says))
        fail_msg("%s: '%s' has no '%s'", engine,
                 reply->path->certificate->message_times, says);
    assert_int_equal(ips_path_walk_back_and_store(&r->whole, lane, &est,
                                                  est.end, &path, &stop, NULL),
                     0);
    for (uint32_t i = 0; i < got.count; i++) {
        const Ips__PathAnswer *a = got.env[i]->reply->path;
        for (size_t k = 0; k < a->n_segments; k++, at++) {
            assert_true(at < path.count);
            assert_int_equal(a->segments[k]->from_node, path.seg[at].from);
            assert_int_equal(a->segments[k]->to_node, path.seg[at].to);
            assert_int_equal(a->segments[k]->ns, path.seg[at].ns);
        }
    }
    assert_int_equal(at, path.count);
    ips_path_release(&path);
out:
    ips_est_release(&est);
    answer_release(&got);
}

static void begin(struct cluster *c, struct rg *r, uint64_t seed)
{
    struct rg_options o = rg_options_of(seed);
    rg_make(&o, r);
    cluster_start(c);
    for (uint32_t m = 0; m < r->machines; m++) {
        struct fake_slave *s = cluster_add(c, machines[m], "r", &r->part[m],
                                           r->peer[m], r->end_count[m]);
        s->delay_ms = seed % 2 ? 3 : 0;
    }
    cluster_settle(c);
}

static void
test_cluster_calibrated__every_engine_equals_the_kernel(void **state)
{
    (void)state;
    const struct ips_scenario lane = {.message_time = {0, 1ULL << 32, 1, 1}};
    const struct ips_scenario none = {.message_time = {0, 0, 1, 1}};
    for (uint64_t seed = 1; seed <= 25; seed++) {
        struct cluster c;
        struct rg r;
        begin(&c, &r, seed);
        char *table = table_of(seed, r.machines);
        /* Nothing is known yet; then it is, and may be left. */
        check_path(&c, "contract", true, &r, &none, "0 (not calibrated)");
        import(&c, table);
        for (int e = 0; e < 4; e++)
            check_path(&c, engines[e], false, &r, &none, "0 (not calibrated)");
        weigh_whole(&r, seed);
        for (int e = 0; e < 4; e++)
            check_path(&c, engines[e], true, &r, &lane,
                       "as measured 2026-01-02T03:04:05Z");
        free(table);
        cluster_stop(&c);
        rg_release(&r);
    }
}

/* What-if and slack see the same graph. */
static void test_cluster_calibrated__whatif_too(void **state)
{
    (void)state;
    const struct ips_scenario lane = {.message_time = {0, 1ULL << 32, 1, 1}};
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct cluster c;
        struct rg r;
        struct answer got;
        struct ips_est est;
        Ips__WhatifAsk ask = IPS__WHATIF_ASK__INIT;
        Ips__Lane wire = IPS__LANE__INIT;
        Ips__Request request = IPS__REQUEST__INIT;
        begin(&c, &r, seed);
        char *table = table_of(seed, r.machines);
        import(&c, table);
        weigh_whole(&r, seed);
        assert_int_equal(
            ips_longest_path_compute_ests(&r.whole, &lane, NULL, &est, NULL),
            0);
        wire.calibrated = true;
        wire.scale_num = wire.scale_den = 1;
        ask.lane = &wire;
        ask.slack = true;
        request.run = ips_unconst_text("r");
        request.ask_case = IPS__REQUEST__ASK_WHATIF;
        request.whatif = &ask;
        cluster_ask(&c, &request, &got);
        if (!answer_last(&got)->error)
            assert_int_equal(answer_last(&got)->whatif->t_max_ns, est.t_max);
        else
            assert_int_equal(est.t_max, 0);
        answer_release(&got);
        ips_est_release(&est);
        free(table);
        cluster_stop(&c);
        rg_release(&r);
    }
}

/* An estimate is the path of the graph whose chain arcs are stretched. */
static void test_cluster_calibrated__estimate(void **state)
{
    (void)state;
    const struct ips_scenario lane = {.message_time = {0, 1ULL << 32, 1, 1}};
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct cluster c;
        struct rg r;
        struct answer got;
        struct ips_est est, plain;
        Ips__EstimateAsk ask = IPS__ESTIMATE_ASK__INIT;
        Ips__Lane wire = IPS__LANE__INIT;
        Ips__Request request = IPS__REQUEST__INIT;
        begin(&c, &r, seed);
        char *table = table_of(seed, r.machines);
        struct ips_graph *g = &r.whole;
        import(&c, table);
        weigh_whole(&r, seed);
        assert_int_equal(
            ips_longest_path_compute_ests(g, &lane, NULL, &plain, NULL), 0);
        for (uint32_t k = 0; k < g->chain_count; k++) /* a fifth: 1/(1-S) */
            for (uint32_t i = 1; i < g->chains[k].count; i++)
                g->w[g->chains[k].first + i] =
                    g->w[g->chains[k].first + i] * 5 / 4;
        assert_int_equal(
            ips_longest_path_compute_ests(g, &lane, NULL, &est, NULL), 0);
        wire.calibrated = true;
        wire.scale_num = wire.scale_den = 1;
        ask.lane = &wire;
        ask.system_ppm = 200000;
        request.run = ips_unconst_text("r");
        request.ask_case = IPS__REQUEST__ASK_ESTIMATE;
        request.estimate = &ask;
        cluster_ask(&c, &request, &got);
        const Ips__Reply *reply = answer_last(&got);
        if (est.t_max == 0) {
            assert_int_equal(reply->error, IPS_E_INCOMPLETE);
        } else {
            const Ips__EstimateAnswer *a = reply->estimate;
            assert_int_equal(reply->error, 0);
            assert_int_equal(a->estimate_ns, est.t_max);
            assert_int_equal(a->t_max_ns, plain.t_max);
            assert_int_equal(a->compute_ns + a->message_ns + a->external_ns,
                             est.t_max);
        }
        answer_release(&got);
        ips_est_release(&est);
        ips_est_release(&plain);
        free(table);
        cluster_stop(&c);
        rg_release(&r);
    }
}

/* ---- the table ----------------------------------------------------------- */

static void test_cluster_calibrated__pairs_that_are_assumed(void **state)
{
    (void)state;
    struct cluster c;
    struct rg r;
    struct answer got;
    uint64_t seed = 1;
    while (rg_options_of(seed).machines < 2)
        seed++;
    begin(&c, &r, seed);
    /* Of other machines: as if there were none. */
    import(&c, "ips-message-times 1\npair x y tcp d\npoint 1 5\n");
    ask_path(&c, "central", true, &got);
    assert_string_equal(answer_last(&got)->path->certificate->message_times,
                        "0 (not calibrated)");
    answer_release(&got);
    /* Of one of ours: the others are as the nearest that is known. */
    import(&c, "ips-message-times 1\npair m2 m2 tcp 2026-05-06T00:00:00Z\n"
               "point 1 5\n");
    ask_path(&c, "central", true, &got);
    const char *says = answer_last(&got)->path->certificate->message_times;
    assert_non_null(strstr(says, "as measured 2026-05-06T00:00:00Z (inside "
                                 "m2); assumed: inside m1 as inside m2"));
    assert_non_null(strstr(says, " as x -> y"));
    answer_release(&got);
    cluster_stop(&c);
    rg_release(&r);
}

static void edit(const struct cluster *c, const char *text)
{
    FILE *f = fopen(c->master.message_times.path, "we");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void exported(struct cluster *c, char *out, size_t room)
{
    struct answer got;
    ask_table(c, IPS__CALIBRATE_ASK__WHAT__EXPORT, "", &got);
    assert_int_equal(answer_last(&got)->error, 0);
    snprintf(out, room, "%s", answer_last(&got)->calibrate->text);
    answer_release(&got);
}

static void test_cluster_calibrated__kept_edited_mended(void **state)
{
    (void)state;
    static const char table[] = "ips-message-times 1\n"
                                "pair m1 m1 tcp 2026-05-06T00:00:00Z by hand\n"
                                "point 1 5 4 6 9\npoint 9 50\n";
    struct cluster c;
    struct rg r;
    struct answer got;
    char before[4096], after[4096];
    begin(&c, &r, 3);
    import(&c, table);
    exported(&c, before, sizeof(before));
    assert_non_null(strstr(before, "point 1 5 4 6 9\npoint 9 50 - -\n"));
    /* What is refused changes nothing. */
    ask_table(&c, IPS__CALIBRATE_ASK__WHAT__IMPORT,
              "ips-message-times 1\n\npair m1 m1 tcp d\npoint 7\n", &got);
    assert_int_equal(answer_last(&got)->error, IPS_E_USAGE);
    assert_non_null(strstr(answer_last(&got)->message, "line 4: "));
    answer_release(&got);
    cluster_restart_master(&c);
    for (uint32_t m = 0; m < r.machines; m++)
        cluster_connect(&c.slave[m]);
    cluster_settle(&c);
    exported(&c, after, sizeof(after));
    assert_string_equal(before, after);
    /* By hand: seen at the next question; damaged: refused, with the line. */
    edit(&c, "ips-message-times 1\npair m1 m1 tcp d\npoint 1 77\n");
    exported(&c, after, sizeof(after));
    assert_non_null(strstr(after, "point 1 77 "));
    edit(&c, "ips-message-times 1\npoint 1 5\n");
    ask_path(&c, "central", true, &got);
    assert_int_equal(answer_last(&got)->error, IPS_E_USAGE);
    assert_non_null(strstr(answer_last(&got)->message, "line 2: a point"));
    assert_non_null(strstr(answer_last(&got)->message, "--mtime none"));
    answer_release(&got);
    ask_path(&c, "central", false, &got);
    assert_int_equal(answer_last(&got)->error, 0);
    answer_release(&got);
    ask_table(&c, IPS__CALIBRATE_ASK__WHAT__MEASURE, "", &got);
    assert_int_equal(answer_last(&got)->error, IPS_E_USAGE);
    answer_release(&got);
    ask_table(&c, IPS__CALIBRATE_ASK__WHAT__FORGET, "", &got);
    assert_int_equal(answer_last(&got)->error, 0);
    assert_int_equal(answer_last(&got)->calibrate->n_rows, 0);
    answer_release(&got);
    ask_path(&c, "central", true, &got);
    assert_int_equal(answer_last(&got)->error, 0);
    answer_release(&got);
    cluster_stop(&c);
    rg_release(&r);
}

/* ---- measuring ----------------------------------------------------------- */

static const Ips__MessageTimeRow *row_of(const Ips__CalibrateAnswer *a,
                                         const char *from, const char *to)
{
    for (size_t i = 0; i < a->n_rows; i++) {
        if (strcmp(a->rows[i]->from, from) == 0 &&
            strcmp(a->rows[i]->to, to) == 0 &&
            strcmp(a->rows[i]->over, "tcp") == 0)
            return a->rows[i];
    }
    return NULL;
}

static void test_cluster_calibrated__measured_pair_by_pair(void **state)
{
    (void)state;
    struct cluster c;
    struct rg r;
    struct answer got;
    uint64_t seed = 1;
    while (rg_options_of(seed).machines < 3)
        seed++;
    begin(&c, &r, seed);
    uint32_t n = r.machines;
    for (uint32_t m = 0; m < n; m++)
        c.slave[m].trip_ns = 1000 * (m + 1);
    ask_table(&c, IPS__CALIBRATE_ASK__WHAT__MEASURE, "", &got);
    const Ips__Reply *last = answer_last(&got);
    assert_int_equal(last->error, 0);
    assert_int_equal(last->calibrate->n_failed, 0);
    assert_int_equal(last->calibrate->n_rows, n * (n + 1));
    assert_int_equal(last->calibrate->done, 2 * n * (n + 1));
    /* One for every length, and the last. */
    assert_int_equal(got.count, 2 * n * (n + 1) + 1);
    /* m2 measured, at the address that m3 gave. */
    const Ips__MessageTimeRow *row = row_of(last->calibrate, "m2", "m3");
    assert_non_null(row);
    assert_int_equal(row->n_points, 2);
    assert_int_equal(row->points[1]->bytes, 1000);
    assert_int_equal(row->points[1]->ns, 1000000 + 2000 + 300000 + 1000);
    assert_int_equal(row->points[1]->rounds, 7);
    answer_release(&got);
    /* One that cannot be measured is named; the others are. */
    c.slave[1].trip_fails = true;
    c.slave[2].echo_fails = true;
    ask_table(&c, IPS__CALIBRATE_ASK__WHAT__MEASURE, "", &got);
    last = answer_last(&got);
    assert_int_equal(last->error, 0);
    assert_int_equal(last->calibrate->n_failed, 2 * n + 1);
    assert_non_null(strstr(last->calibrate->failed[0],
                           "m2 -> m1 (tcp): as the test wants it"));
    assert_int_equal(last->calibrate->n_rows, n * (n + 1)); /* older ones */
    answer_release(&got);
    cluster_stop(&c);
    rg_release(&r);
}

static void ask_measure(struct cluster *c, bool force, struct answer *got)
{
    with_force = force;
    ask_table(c, IPS__CALIBRATE_ASK__WHAT__MEASURE, "", got);
    with_force = false;
    assert_int_equal(answer_last(got)->error, 0);
}

/* m1's machine is busy, or the way from m2 to m1 takes long: what is in doubt
 * is named with why and not kept, what was known before stays; with force it is
 * kept and says why, and so does a certificate. */
static void test_cluster_calibrated__what_is_in_doubt(void **state)
{
    (void)state;
    struct cluster c;
    struct rg r;
    struct answer got;
    const Ips__CalibrateAnswer *a;
    uint64_t seed = 1;
    while (rg_options_of(seed).machines != 2)
        seed++;
    begin(&c, &r, seed);
    c.slave[0].load_milli = 1500;
    c.slave[0].wake_ns = 700;
    c.slave[1].wake_ns = 900;
    ask_measure(&c, false, &got);
    a = answer_last(&got)->calibrate;
    assert_int_equal(a->n_rows, 2); /* inside m2 */
    assert_int_equal(a->n_failed, 4);
    assert_string_equal(a->failed[0],
                        "m1 -> m1 (tcp): m1 was not idle: load average 1.50, 2 "
                        "processors; not kept: repeat it on an idle machine, "
                        "or use --force");
    assert_int_equal(a->n_wakes, 1);
    assert_string_equal(a->wakes[0]->machine, "m2");
    assert_int_equal(a->wakes[0]->ns, 900);
    answer_release(&got);
    ask_measure(&c, true, &got);
    a = answer_last(&got)->calibrate;
    assert_int_equal(a->n_rows, 6);
    assert_int_equal(a->n_failed, 0);
    assert_int_equal(a->n_wakes, 2);
    assert_non_null(strstr(row_of(a, "m2", "m1")->doubt, "m1 was not idle"));
    assert_string_equal(row_of(a, "m2", "m1")->by, "ipsq calibrate --force");
    assert_string_equal(row_of(a, "m2", "m2")->doubt, "");
    answer_release(&got);
    /* Idle now, but one way is slow; both are refused, what was, stays. */
    c.slave[0].load_milli = 0;
    c.slave[1].trip_ns = 9000000;
    ask_measure(&c, false, &got);
    a = answer_last(&got)->calibrate;
    assert_int_equal(a->n_failed, 2);
    assert_non_null(strstr(a->failed[0],
                           "m1 -> m2 (tcp): the directions differ: "
                           "1 B take 1200 us forth and 10100 us "
                           "back; not kept"));
    assert_non_null(
        strstr(a->failed[1], "m2 -> m1 (tcp): the directions differ"));
    assert_int_equal(a->n_rows, 6);
    assert_int_equal(row_of(a, "m1", "m2")->points[0]->ns, 1200001);
    assert_non_null(strstr(row_of(a, "m1", "m2")->doubt, "m1 was not idle"));
    assert_string_equal(row_of(a, "m1", "m1")->doubt, "");
    answer_release(&got);
    ask_table(&c, IPS__CALIBRATE_ASK__WHAT__FORGET, "", &got);
    answer_release(&got);
    ask_measure(&c, false, &got); /* nothing was, so nothing is */
    a = answer_last(&got)->calibrate;
    assert_int_equal(a->n_rows, 4);
    assert_null(row_of(a, "m1", "m2"));
    answer_release(&got);
    /* Late, and wide. */
    c.slave[1].trip_ns = 0;
    c.slave[1].trip_late = true;
    c.slave[0].trip_spread_ns = 9000000;
    ask_measure(&c, true, &got);
    a = answer_last(&got)->calibrate;
    assert_string_equal(row_of(a, "m2", "m1")->doubt,
                        "its ends waited for a CPU 25% of the time");
    assert_non_null(
        strstr(row_of(a, "m1", "m2")->doubt, "2 of 2 lengths vary"));
    answer_release(&got);
    ask_path(&c, "contract", true, &got);
    assert_non_null(strstr(answer_last(&got)->path->certificate->message_times,
                           "; in doubt: "));
    answer_release(&got);
    cluster_stop(&c);
    rg_release(&r);
}

/* A client that goes away stops the slave that measures, what was measured is
 * kept, and the next one may measure. */
static void test_cluster_calibrated__hung_up(void **state)
{
    (void)state;
    struct cluster c;
    struct rg r;
    struct answer got;
    Ips__CalibrateAsk ask = IPS__CALIBRATE_ASK__INIT;
    Ips__Request request = IPS__REQUEST__INIT;
    uint64_t seed = 1;
    while (rg_options_of(seed).machines < 2)
        seed++;
    begin(&c, &r, seed);
    c.slave[1].trip_waits = true;
    ask.what = IPS__CALIBRATE_ASK__WHAT__MEASURE;
    request.ask_case = IPS__REQUEST__ASK_CALIBRATE;
    request.calibrate = &ask;
    struct ips_peer *peer = cluster_begin(&c, &request, &got);
    for (unsigned ms = 0; !c.slave[1].trip_id; ms++) {
        assert_true(ms < CLUSTER_PATIENCE_MS);
        cluster_turn(&c, 1);
    }
    ips_peer_close_and_free_later(peer);
    for (unsigned ms = 0; !c.slave[1].trip_stopped; ms++) {
        assert_true(ms < CLUSTER_PATIENCE_MS);
        cluster_turn(&c, 1);
    }
    answer_release(&got);
    c.slave[1].trip_waits = false;
    ask_table(&c, IPS__CALIBRATE_ASK__WHAT__SHOW, "", &got);
    assert_non_null(row_of(answer_last(&got)->calibrate, "m1", "m2"));
    assert_null(row_of(answer_last(&got)->calibrate, "m2", "m1"));
    answer_release(&got);
    ask_table(&c, IPS__CALIBRATE_ASK__WHAT__MEASURE, "", &got);
    assert_int_equal(answer_last(&got)->error, 0);
    assert_int_equal(answer_last(&got)->calibrate->n_failed, 0);
    answer_release(&got);
    cluster_stop(&c);
    rg_release(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            test_cluster_calibrated__every_engine_equals_the_kernel),
        cmocka_unit_test(test_cluster_calibrated__whatif_too),
        cmocka_unit_test(test_cluster_calibrated__estimate),
        cmocka_unit_test(test_cluster_calibrated__pairs_that_are_assumed),
        cmocka_unit_test(test_cluster_calibrated__kept_edited_mended),
        cmocka_unit_test(test_cluster_calibrated__measured_pair_by_pair),
        cmocka_unit_test(test_cluster_calibrated__what_is_in_doubt),
        cmocka_unit_test(test_cluster_calibrated__hung_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
