/*
 * Two of something at once: questions of several clients with the same
 * numbers, machines of other runs, slaves that leave and come in the middle of
 * every kind of question, answers that are kept. The oracle is the answer of a
 * master that was started for one question and has no other machine: byte for
 * byte, but for how long it took and which way it came. Catches: an answer made
 * of two questions, a machine that is counted though it has no part, one that
 * is missing in silence, a kept table or answer that is another one's, a stop
 * that ends another client's question.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <event2/event.h>

#include "master/tables/cache.h"
#include "tests/support/fake_slave.h"
#include "tests/support/random_graph.h"

/* ---- the kinds of questions ---------------------------------------------- */

struct question { /* one request and what it points to */
    Ips__Request request;
    Ips__Lane lane;
    Ips__PathAsk path;
    Ips__MetricsAsk metrics;
    Ips__LsAsk ls;
    Ips__WhatifAsk whatif;
    Ips__PhasesAsk phases;
    Ips__GraphAsk graph;
    Ips__RunsAsk runs;
};

enum kind {
    CONTRACT,
    CENTRAL,
    CM_SYNC,
    CM_ASYNC,
    PROCESSES,
    ALL,
    LS,
    WHATIF,
    PHASES,
    GRAPH,
    KINDS
};

static const char *const engine[] = {"contract", "central", "cm-sync",
                                     "cm-async"};

static void make_question(struct question *q, enum kind kind, const char *run)
{
    memset(q, 0, sizeof(*q));
    ips__request__init(&q->request);
    q->request.run = ips_unconst_text(run);
    switch (kind) {
    case PROCESSES:
    case ALL:
        ips__metrics_ask__init(&q->metrics);
        q->metrics.level = ips_unconst_text(kind == ALL ? "" : "process");
        q->request.ask_case = IPS__REQUEST__ASK_METRICS;
        q->request.metrics = &q->metrics;
        return;
    case LS:
        ips__ls_ask__init(&q->ls);
        q->request.ask_case = IPS__REQUEST__ASK_LS;
        q->request.ls = &q->ls;
        return;
    case WHATIF:
        ips__whatif_ask__init(&q->whatif);
        q->whatif.rank = q->whatif.slack = true;
        q->whatif.rank_ppm = 500000;
        q->whatif.next = 2;
        q->request.ask_case = IPS__REQUEST__ASK_WHATIF;
        q->request.whatif = &q->whatif;
        return;
    case PHASES:
        ips__phases_ask__init(&q->phases);
        q->request.ask_case = IPS__REQUEST__ASK_PHASES;
        q->request.phases = &q->phases;
        return;
    case GRAPH:
        ips__graph_ask__init(&q->graph);
        q->request.ask_case = IPS__REQUEST__ASK_GRAPH;
        q->request.graph = &q->graph;
        return;
    case CONTRACT:
    case CENTRAL:
    case CM_SYNC:
    case CM_ASYNC:
    case KINDS:
        break;
    }
    ips__lane__init(&q->lane);
    ips__path_ask__init(&q->path);
    q->lane.message_time_base_ns = 2;
    q->path.engine = ips_unconst_text(engine[kind]);
    q->path.lane = &q->lane;
    q->path.segments = true;
    q->request.ask_case = IPS__REQUEST__ASK_PATH;
    q->request.path = &q->path;
}

/* ---- answers as bytes ---------------------------------------------------- */

struct bytes {
    uint8_t *of;
    size_t len;
    int error;
    char message[512];
    bool complete; /* and the machines that the certificate has, by comma */
    char machines[128], missing[128];
};

static void bytes_release(struct bytes *b)
{
    free(b->of);
    memset(b, 0, sizeof(*b));
}

/* Where an answer has that field, NULL where it has none. All answers are one
 * union of pointers to messages. */
static void *field_of(const Ips__Reply *r, const char *name)
{
    uint8_t *m = (uint8_t *)r->path;
    if (r->answer_case == IPS__REPLY__ANSWER__NOT_SET)
        return NULL;
    const ProtobufCFieldDescriptor *f =
        protobuf_c_message_descriptor_get_field_by_name(
            ((const ProtobufCMessage *)(void *)m)->descriptor, name);
    return f ? m + f->offset : NULL;
}

static void join_names(char out[128], char *const *name, size_t count)
{
    size_t at = 0;
    for (size_t i = 0; i < count; i++)
        at +=
            (size_t)snprintf(out + at, 128 - at, "%s%s", i ? "," : "", name[i]);
}

/* Removes what may differ: how it came about, why a machine is missing. */
static void strip(Ips__Reply *r, struct bytes *out)
{
    Ips__Certificate *c = NULL;
    void *field = field_of(r, "certificate");
    uint64_t *took = field_of(r, "took_ns");
    Ips__EngineCost **cost = field_of(r, "cost");
    size_t kept = 0;
    r->id = 0;
    if (took)
        *took = 0;
    if (cost && *cost)
        ips__engine_cost__init(*cost);
    if (field)
        memcpy(&c, field, sizeof(c));
    if (!c)
        return;
    out->complete = c->complete;
    join_names(out->machines, c->machines, c->n_machines);
    join_names(out->missing, c->missing_machines, c->n_missing_machines);
    c->took_ns = 0;
    c->category = 0;
    c->plan[0] = '\0';
    for (size_t i = 0; i < c->n_gaps; i++)
        if (strncmp(c->gaps[i], "machine m2: ", 12) == 0)
            memcpy(c->gaps[i], "machine m2", sizeof("machine m2"));
        else if (strcmp(c->gaps[i], "machine m2 is missing") == 0)
            memcpy(c->gaps[i], "machine m2", sizeof("machine m2"));
    for (size_t i = 0; i < c->n_details; i++) {
        if (strncmp(c->details[i], "a slave or its data changed", 27) == 0)
            free(c->details[i]);
        else
            c->details[kept++] = c->details[i];
    }
    c->n_details = kept;
}

static void add_reply(struct bytes *b, Ips__Reply *r)
{
    strip(r, b);
    size_t len = ips__reply__get_packed_size(r);
    b->of = realloc(b->of, b->len + len + 1);
    assert_non_null(b->of);
    b->len += ips__reply__pack(r, b->of + b->len);
    if (r->last) {
        b->error = (int)r->error;
        snprintf(b->message, sizeof(b->message), "%s", r->message);
    }
}

static bool bytes_same(const struct bytes *a, const struct bytes *b)
{
    return a->len == b->len && memcmp(a->of, b->of, a->len) == 0;
}

static void ask_kind(struct cluster *c, enum kind kind, const char *run,
                     struct bytes *out)
{
    struct question q;
    struct answer got;
    memset(out, 0, sizeof(*out));
    make_question(&q, kind, run);
    cluster_ask(c, &q.request, &got);
    for (uint32_t i = 0; i < got.count; i++)
        add_reply(out, got.env[i]->reply);
    answer_release(&got);
}

/* ---- clusters ------------------------------------------------------------ */

static struct rg r;
static struct cluster c;
static struct bytes whole[KINDS], without_m2[KINDS];

static void begin(uint32_t machines)
{
    static const char *const names[] = {"m1", "m2", "m3"};
    cluster_start(&c);
    for (uint32_t m = 0; m < machines; m++)
        cluster_add(&c, names[m], "r", &r.part[m], r.peer[m], r.end_count[m]);
    cluster_settle(&c);
}

static void wait_gone(const char *machine)
{
    while (roster_find(&c.master.roster, machine)->peer)
        cluster_turn(&c, 1);
}

/* The answer to each kind of a master that answers nothing else. */
static int make_oracle(void **state)
{
    const struct rg_options o = {
        .seed = 31, .machines = 3, .chains = 5, .steps = 60, .weight_max = 900};
    (void)state;
    rg_make(&o, &r);
    for (int k = 0; k < KINDS; k++) {
        begin(3);
        ask_kind(&c, (enum kind)k, "r", &whole[k]);
        assert_int_equal(whole[k].error, 0);
        if (k != GRAPH) {
            assert_true(whole[k].complete);
            assert_string_equal(whole[k].machines, "m1,m2,m3");
        }
        cluster_stop(&c);
        begin(3);
        cluster_disconnect(&c.slave[1]);
        wait_gone("m2");
        ask_kind(&c, (enum kind)k, "r", &without_m2[k]);
        assert_false(bytes_same(&whole[k], &without_m2[k]));
        if (k != GRAPH) {
            assert_false(without_m2[k].complete);
            assert_string_equal(without_m2[k].machines, "m1,m3");
            assert_string_equal(without_m2[k].missing, "m2");
        }
        cluster_stop(&c);
    }
    return 0;
}

static int release_oracle(void **state)
{
    (void)state;
    for (int k = 0; k < KINDS; k++) {
        bytes_release(&whole[k]);
        bytes_release(&without_m2[k]);
    }
    rg_release(&r);
    return 0;
}

static void check_whole(enum kind kind, const char *where)
{
    struct bytes got;
    ask_kind(&c, kind, "r", &got);
    if (!bytes_same(&got, &whole[kind]))
        fail_msg("kind %d, %s: not the answer of a fresh master: %s (%s)", kind,
                 where, got.message, got.machines);
    bytes_release(&got);
}

/* ---- machines of other runs ---------------------------------------------- */

/* Catches: a machine that is connected but was never part of the run, and
 * makes every answer incomplete; one that is left out as the first is. */
static void test_two__a_machine_of_another_run(void **state)
{
    (void)state;
    static const char *const names[] = {"m0", "m9"};
    struct rg other;
    const struct rg_options o = {
        .seed = 7, .machines = 1, .chains = 2, .steps = 30, .weight_max = 9};
    rg_make(&o, &other);
    for (int i = 0; i < 2; i++) {
        begin(3);
        cluster_add(&c, names[i], "other", &other.part[0], other.peer[0],
                    other.end_count[0]);
        cluster_settle(&c);
        for (int k = 0; k < KINDS; k++) {
            struct bytes own;
            check_whole((enum kind)k, names[i]);
            ask_kind(&c, (enum kind)k, "other", &own);
            assert_int_equal(own.error, 0);
            if (k != GRAPH) {
                assert_true(own.complete);
                assert_string_equal(own.machines, names[i]);
                assert_string_equal(own.missing, "");
            }
            bytes_release(&own);
        }
        /* That it goes makes nothing of the others' run incomplete. */
        cluster_disconnect(&c.slave[3]);
        wait_gone(names[i]);
        check_whole(CONTRACT, "gone");
        check_whole(LS, "gone");
        cluster_stop(&c);
    }
    rg_release(&other);
}

/* ---- overlapping questions ----------------------------------------------- */

#define IN_HAND 16 /* MASTER_MAX_QUERIES */

struct asker {
    struct ips_peer *peer;
    uint64_t first_id;
    uint32_t count, done, closed;
    struct {
        enum kind kind;
        bool over;
        struct bytes got;
    } q[IN_HAND + 1];
};

static void on_reply(struct ips_peer *peer, const Ips__Envelope *env, void *arg)
{
    struct asker *k = arg;
    (void)peer;
    if (env->body_case == IPS__ENVELOPE__BODY_HELLO)
        return;
    assert_int_equal(env->body_case, IPS__ENVELOPE__BODY_REPLY);
    uint64_t at = env->reply->id - k->first_id;
    assert_true(at < k->count && !k->q[at].over);
    k->q[at].over = env->reply->last;
    k->done += env->reply->last ? 1 : 0;
    add_reply(&k->q[at].got, env->reply);
}

static void on_close(struct ips_peer *peer, const char *why, void *arg)
{
    (void)peer;
    (void)why;
    ((struct asker *)arg)->closed++;
}

static const struct ips_peer_ops ops = {on_reply, on_close};

static void client_open(struct asker *k)
{
    struct ips_err err = {0};
    Ips__Hello hello = ips_make_hello(IPS__HELLO__ROLE__CLIENT);
    memset(k, 0, sizeof(*k));
    k->first_id = 500; /* of every client */
    assert_int_equal(ips_peer_connect(c.base, c.master.address, &k->peer, &err),
                     0);
    ips_peer_set_ops(k->peer, &ops, k);
    ips_send_hello(k->peer, &hello);
}

static void client_ask(struct asker *k, enum kind kind)
{
    struct question q;
    make_question(&q, kind, "r");
    q.request.fresh = !c.keeps;
    q.request.id = k->first_id + k->count;
    k->q[k->count++].kind = kind;
    ips_send_request(k->peer, &q.request);
}

static void client_close(struct asker *k)
{
    if (k->peer)
        ips_peer_close_and_free_later(k->peer);
    for (uint32_t i = 0; i < k->count; i++)
        bytes_release(&k->q[i].got);
    memset(k, 0, sizeof(*k));
}

static void client_wait(struct asker *k, uint32_t done)
{
    for (unsigned ms = 0; k->done < done; ms++) {
        assert_int_equal(k->closed, 0);
        if (ms > CLUSTER_PATIENCE_MS)
            fail_msg("%u of %u questions were answered", k->done, done);
        cluster_turn(&c, 1);
    }
}

/* Four clients whose questions have the same numbers: one that wants all, one
 * that stops some, one that leaves in the middle, one too many. */
static void overlap(bool keeps)
{
    struct asker k[3];
    begin(3);
    c.keeps = keeps;
    for (int m = 0; m < 3; m++)
        c.slave[m].delay_ms = 1;
    for (uint32_t i = 0; i < 3; i++) {
        client_open(&k[i]);
        for (uint32_t n = 0; n < IN_HAND; n++)
            client_ask(&k[i], (enum kind)((n * 3 + i) % KINDS));
    }
    Ips__MoreAsk more = IPS__MORE_ASK__INIT;
    Ips__Request stop = IPS__REQUEST__INIT;
    stop.ask_case = IPS__REQUEST__ASK_MORE;
    stop.more = &more;
    static const uint32_t stopped[] = {IN_HAND - 1, 9};
    for (int i = 0; i < 2; i++) {
        stop.id = k[1].first_id + stopped[i];
        ips_send_request(k[1].peer, &stop);
    }
    client_wait(&k[2], 1);
    assert_true(k[2].done < IN_HAND);
    client_close(&k[2]);
    client_wait(&k[0], IN_HAND);
    client_wait(&k[1], IN_HAND - 2);
    cluster_turn(&c, 20);
    for (uint32_t i = 0; i < 2; i++) {
        for (uint32_t n = 0; n < IN_HAND; n++) {
            bool was_stopped = i == 1 && (n == stopped[0] || n == stopped[1]);
            assert_int_equal(k[i].q[n].over, !was_stopped);
            if (!was_stopped &&
                !bytes_same(&k[i].q[n].got, &whole[k[i].q[n].kind]))
                fail_msg("client %u, question %u of kind %d: %s", i, n,
                         k[i].q[n].kind, k[i].q[n].got.message);
        }
    }
    client_close(&k[0]);
    client_close(&k[1]);
    cluster_turn(&c, 5);
    assert_null(c.master.queries);
    cluster_stop(&c);
}

static void test_two__overlapping_questions(void **state)
{
    (void)state;
    overlap(false);
    overlap(true);
}

/* So many at once of one client, and none more; another has its own. */
static void test_two__questions_at_once(void **state)
{
    (void)state;
    struct asker k[2];
    begin(3);
    c.slave[2].delay_ms = 50;
    client_open(&k[0]);
    client_open(&k[1]);
    for (uint32_t n = 0; n < IN_HAND + 1; n++)
        client_ask(&k[0], CENTRAL);
    client_ask(&k[1], CENTRAL);
    client_wait(&k[0], 1);
    assert_true(k[0].q[IN_HAND].over);
    assert_int_equal(k[0].q[IN_HAND].got.error, IPS_E_BUSY);
    assert_non_null(strstr(k[0].q[IN_HAND].got.message, "too many questions"));
    c.slave[2].delay_ms = 0;
    client_wait(&k[0], IN_HAND + 1);
    client_wait(&k[1], 1);
    for (uint32_t n = 0; n < IN_HAND; n++)
        assert_true(bytes_same(&k[0].q[n].got, &whole[CENTRAL]));
    assert_true(bytes_same(&k[1].q[0].got, &whole[CENTRAL]));
    k[0].first_id += k[0].count; /* there is room again */
    bytes_release(&k[0].q[IN_HAND].got);
    k[0].count = k[0].done = 0;
    for (uint32_t n = 0; n < IN_HAND; n++)
        bytes_release(&k[0].q[n].got);
    memset(k[0].q, 0, sizeof(k[0].q));
    client_ask(&k[0], LS);
    client_wait(&k[0], 1);
    assert_true(bytes_same(&k[0].q[0].got, &whole[LS]));
    client_close(&k[0]);
    client_close(&k[1]);
    cluster_stop(&c);
}

/* ---- slaves that leave and come ------------------------------------------ */

/* The whole answer, or the one without m2, or a refusal that says why. */
static bool check_honest(const struct bytes *got, enum kind kind, uint32_t at)
{
    if (bytes_same(got, &whole[kind]))
        return true;
    if (got->error)
        assert_true(strlen(got->message) > 10);
    else if (!bytes_same(got, &without_m2[kind]))
        fail_msg("kind %d, ask %u: neither the whole answer nor the one "
                 "without m2: %s, missing %s",
                 kind, at, got->machines, got->missing);
    return false;
}

static void try_fault(enum kind kind, enum fault fault)
{
    struct fake_slave *s = &c.slave[1];
    uint32_t spoilt = 0, step = kind == CM_SYNC || kind == CM_ASYNC ? 7 : 1;
    for (uint32_t at = 1; at < 60; at += step) {
        struct bytes got;
        table_cache_release(&c.master); /* so that tables are asked for */
        s->asks = 0;
        s->fault = fault;
        s->fault_at = at;
        ask_kind(&c, kind, "r", &got);
        spoilt += !check_honest(&got, kind, at);
        bytes_release(&got);
        s->fault = FAULT_NONE;
        uint32_t asked = s->asks;
        if (!s->peer)
            cluster_connect(s);
        cluster_settle(&c);
        check_whole(kind, "afterwards");
        check_whole(LS, "afterwards");
        if (asked < at)
            break;
    }
    /* ALL is the master's own table, for which it may ask no slave. */
    assert_true(fault == FAULT_BUSY || kind == ALL || spoilt > 0);
}

static void test_two__slave_fails_at_each_ask(void **state)
{
    (void)state;
    static const enum fault faults[] = {FAULT_CLOSE, FAULT_ERROR, FAULT_BUSY};
    begin(3);
    for (int k = 0; k < KINDS; k++) {
        for (int i = 0; i < 3; i++)
            try_fault((enum kind)k, faults[i]);
    }
    assert_null(c.master.queries);
    cluster_stop(&c);
}

/* m2 comes when m1 was asked so many times. */
static void test_two__slave_comes_in_the_middle(void **state)
{
    (void)state;
    begin(3);
    for (int k = 0; k < KINDS; k++) {
        for (uint32_t at = 1; at <= 3; at++) {
            struct question q;
            struct answer got;
            struct bytes all = {0};
            cluster_disconnect(&c.slave[1]);
            wait_gone("m2");
            c.slave[0].asks = 0;
            c.slave[0].delay_ms = 1;
            make_question(&q, (enum kind)k, "r");
            cluster_begin(&c, &q.request, &got);
            while (c.slave[0].asks < at && !got.done)
                cluster_turn(&c, 1);
            cluster_connect(&c.slave[1]);
            cluster_wait(&c, &got);
            for (uint32_t i = 0; i < got.count; i++)
                add_reply(&all, got.env[i]->reply);
            answer_release(&got);
            (void)check_honest(&all, (enum kind)k, at);
            bytes_release(&all);
            c.slave[0].delay_ms = 0;
            cluster_settle(&c);
            check_whole((enum kind)k, "when it had come");
        }
    }
    cluster_stop(&c);
}

/* ---- what is kept -------------------------------------------------------- */

static void restart_master(void)
{
    cluster_restart_master(&c);
    for (int m = 0; m < 3; m++) {
        while (c.slave[m].peer)
            cluster_turn(&c, 1);
        cluster_connect(&c.slave[m]);
    }
    cluster_settle(&c);
}

/* A second time, after each other kind, after a slave's restart and after the
 * master's: the same; after more was recorded: as one that is made anew. */
static void test_two__kept_answers_are_the_computed_ones(void **state)
{
    (void)state;
    begin(3);
    c.keeps = true;
    for (int k = 0; k < KINDS; k++) {
        check_whole((enum kind)k, "first");
        check_whole((enum kind)k, "again");
        check_whole((enum kind)((k * 7 + 3) % KINDS), "another");
        check_whole((enum kind)k, "after another");
    }
    cluster_disconnect(&c.slave[1]);
    wait_gone("m2");
    for (int k = 0; k < KINDS; k++) {
        struct bytes got;
        if (k == ALL) /* the master's own table needs no slave */
            continue;
        ask_kind(&c, (enum kind)k, "r", &got);
        assert_true(bytes_same(&got, &without_m2[k]));
        bytes_release(&got);
    }
    cluster_connect(&c.slave[1]);
    cluster_settle(&c);
    for (int k = 0; k < KINDS; k++)
        check_whole((enum kind)k, "after a slave's restart");
    restart_master();
    for (int k = 0; k < KINDS; k++)
        check_whole((enum kind)k, "after the master's restart");
    c.slave[2].more_events = 11;
    fake_slave_report(&c.slave[2]);
    cluster_turn(&c, 30);
    for (int k = 0; k < KINDS; k++) {
        struct bytes kept, fresh;
        ask_kind(&c, (enum kind)k, "r", &kept);
        c.keeps = false;
        ask_kind(&c, (enum kind)k, "r", &fresh);
        c.keeps = true;
        assert_int_equal(kept.error, 0);
        assert_true(bytes_same(&kept, &fresh));
        if (k != GRAPH) /* its certificate tells the events */
            assert_false(bytes_same(&kept, &whole[k]));
        bytes_release(&kept);
        bytes_release(&fresh);
    }
    cluster_stop(&c);
}

/* Two runs of as many events that began at one moment: an answer about one is
 * never given for the other. */
static void test_two__kept_answers_of_two_runs(void **state)
{
    (void)state;
    struct rg other;
    const struct rg_options o = {
        .seed = 7, .machines = 1, .chains = 2, .steps = 30, .weight_max = 9};
    struct bytes first, second;
    uint64_t events = 0;
    rg_make(&o, &other);
    begin(3);
    for (uint32_t m = 0; m < 3; m++)
        events += r.part[m].node_count;
    struct fake_slave *s = cluster_add(&c, "m9", "other", &other.part[0],
                                       other.peer[0], other.end_count[0]);
    s->more_events = events - other.part[0].node_count;
    cluster_settle(&c);
    c.keeps = true;
    check_whole(CONTRACT, "before another run");
    ask_kind(&c, CONTRACT, "other", &first);
    assert_int_equal(first.error, 0);
    assert_string_equal(first.machines, "m9");
    check_whole(CONTRACT, "after another run");
    ask_kind(&c, CONTRACT, "other", &second);
    assert_true(bytes_same(&first, &second));
    bytes_release(&first);
    bytes_release(&second);
    cluster_stop(&c);
    rg_release(&other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two__a_machine_of_another_run),
        cmocka_unit_test(test_two__overlapping_questions),
        cmocka_unit_test(test_two__questions_at_once),
        cmocka_unit_test(test_two__slave_fails_at_each_ask),
        cmocka_unit_test(test_two__slave_comes_in_the_middle),
        cmocka_unit_test(test_two__kept_answers_are_the_computed_ones),
        cmocka_unit_test(test_two__kept_answers_of_two_runs),
    };
    return cmocka_run_group_tests(tests, make_oracle, release_oracle);
}
