/*
 * The master at its limits: as many clients as it takes and one more, names as
 * long as they may be, silence as long as is allowed, with times that are set
 * and not waited for; and what it tells of runs on several machines and of its
 * slaves, against what was put in. Catches: a limit that is off by one, a slave
 * that is given up too early or never, a sum that leaves a machine out, a run
 * that is another's in the list or forgotten in a restart.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "master/query/query.h"
#include "tests/support/cluster.h"
#include "tests/support/fake_slave.h"
#include "tests/support/random_graph.h"

#define SECOND 1000000000ull
#define SAME(a, b) assert_string_equal(a, b)

static struct cluster c;

/* ---- clients ------------------------------------------------------------- */

struct caller {
    struct ips_peer *peer;
    bool admitted, closed;
    char error[200];
};

static void on_hello(struct ips_peer *peer, const Ips__Envelope *env, void *arg)
{
    struct caller *k = arg;
    (void)peer;
    if (env->body_case != IPS__ENVELOPE__BODY_HELLO)
        return;
    snprintf(k->error, sizeof(k->error), "%s", env->hello->error);
    k->admitted = !*k->error;
}

static void on_close(struct ips_peer *peer, const char *why, void *arg)
{
    struct caller *k = arg;
    (void)peer;
    k->closed = true;
    snprintf(k->error, sizeof(k->error), "%s", why);
}

static const struct ips_peer_ops ops = {on_hello, on_close};

/* Whether it is taken. */
static bool call(struct caller *k)
{
    struct ips_err err = {0};
    Ips__Hello hello = ips_make_hello(IPS__HELLO__ROLE__CLIENT);
    memset(k, 0, sizeof(*k));
    if (ips_peer_connect(c.base, c.master.address, &k->peer, &err) < 0)
        fail_msg("%s", err.msg);
    ips_peer_set_ops(k->peer, &ops, k);
    ips_send_hello(k->peer, &hello);
    for (unsigned ms = 0; !k->admitted && !*k->error && !k->closed; ms++) {
        assert_true(ms < CLUSTER_PATIENCE_MS);
        cluster_turn(&c, 1);
    }
    return k->admitted;
}

static void test_limits__clients(void **state)
{
    static struct caller k[MASTER_MAX_CLIENTS + 1];
    (void)state;
    cluster_start(&c);
    for (unsigned i = 0; i < MASTER_MAX_CLIENTS; i++)
        assert_true(call(&k[i]));
    assert_int_equal(c.master.client_count, MASTER_MAX_CLIENTS);
    assert_false(call(&k[MASTER_MAX_CLIENTS]));
    SAME(k[MASTER_MAX_CLIENTS].error,
         "refused by the other side: too many clients are connected: try "
         "again later");
    assert_int_equal(c.master.client_count, MASTER_MAX_CLIENTS);
    ips_peer_close_and_free_later(k[7].peer); /* there is room for one again */
    while (c.master.client_count == MASTER_MAX_CLIENTS)
        cluster_turn(&c, 1);
    assert_true(call(&k[7]));
    while (!k[MASTER_MAX_CLIENTS].closed) /* it was dismissed, too */
        cluster_turn(&c, 1);
    for (unsigned i = 0; i < MASTER_MAX_CLIENTS; i++)
        ips_peer_close_and_free_later(k[i].peer);
    while (c.master.client_count > 0)
        cluster_turn(&c, 1);
    cluster_stop(&c);
}

static int ask_of(const char *run, char message[200])
{
    struct answer got;
    Ips__LsAsk ls = IPS__LS_ASK__INIT;
    Ips__Request request = IPS__REQUEST__INIT;
    request.run = ips_unconst_text(run);
    request.ask_case = IPS__REQUEST__ASK_LS;
    request.ls = &ls;
    cluster_ask(&c, &request, &got);
    int error = (int)answer_last(&got)->error;
    snprintf(message, 200, "%s", answer_last(&got)->message);
    answer_release(&got);
    return error;
}

static void test_limits__names_of_runs(void **state)
{
    char run[QUERY_RUN_BYTES + 1], message[200];
    (void)state;
    cluster_start(&c);
    memset(run, 'r', sizeof(run));
    run[QUERY_RUN_BYTES] = '\0';
    assert_int_equal(ask_of(run, message), IPS_E_USAGE);
    SAME(message, "run name is too long");
    run[QUERY_RUN_BYTES - 1] = '\0';
    assert_int_equal(ask_of(run, message), IPS_E_NOT_FOUND);
    assert_int_equal(ask_of("", message), IPS_E_NOT_FOUND);
    SAME(message, "the master knows no run yet: record one with ipsrun");
    cluster_stop(&c);
}

/* ---- silence ------------------------------------------------------------- */

enum who { HEARD_NOW, SILENT, STOPPED };

/* A question whose slave m2 does not answer its first ask; then it is `ago`
 * since the slave was heard of about it, and since the slave was asked. The
 * note that the answer has on m2, "" if it is still waited for. */
static void silence(enum who who, uint64_t ago, bool heard_once, char note[200])
{
    struct answer got;
    Ips__LsAsk ls = IPS__LS_ASK__INIT;
    Ips__Request request = IPS__REQUEST__INIT;
    struct fake_slave *s = &c.slave[1];
    request.run = ips_unconst_text("r");
    request.ask_case = IPS__REQUEST__ASK_LS;
    request.ls = &ls;
    s->asks = 0;
    s->fault = FAULT_SILENT;
    s->fault_at = 1;
    struct ips_peer *peer = cluster_begin(&c, &request, &got);
    while (s->asks == 0 || c.master.queries->waiting > 1)
        cluster_turn(&c, 1);
    s->fault = FAULT_NONE;
    struct machine_share *p = &c.master.queries->machines[1];
    SAME(p->machine, "m2");
    assert_true(p->ask_id != 0);
    uint64_t then = master_now_ns() - ago;
    p->heard_ns = then;
    p->asked_ns = then - heard_once;
    p->was_silent = who == STOPPED;
    p->slave->seen_ns = who == HEARD_NOW ? master_now_ns() : then;
    query_tick(&c.master);
    note[0] = '\0';
    if (c.master.queries &&
        c.master.queries->machines[1].state == MACHINE_ACTIVE) {
        assert_int_equal(c.master.queries->waiting, 1);
        ips_peer_close_and_free_later(peer); /* patience ends */
        while (c.master.queries)
            cluster_turn(&c, 1);
    } else {
        cluster_wait(&c, &got);
        const Ips__Certificate *x = answer_last(&got)->ls->certificate;
        assert_false(x->complete);
        SAME(x->missing_machines[0], "m2");
        assert_int_equal(x->n_gaps, 1);
        snprintf(note, 200, "%s", x->gaps[0]);
    }
    answer_release(&got);
    cluster_settle(&c);
}

/* Allowed are 10 s of a slave that was silent when it was asked, 20 s of
 * silence, and 40 s without a word about the question. */
static void test_limits__silence(void **state)
{
    struct rg r;
    char note[200];
    const struct rg_options o = {
        .seed = 3, .machines = 3, .chains = 3, .steps = 20, .weight_max = 9};
    static const struct {
        enum who who;
        unsigned ago;
        bool heard_once;
        const char *note;
    } t[] = {{HEARD_NOW, 30, true, ""},
             {HEARD_NOW, 41, true, "machine m2: no answer for 40 s"},
             {SILENT, 10, true, ""},
             {SILENT, 21, true, "machine m2: no message for 20 s"},
             {SILENT, 50, true, "machine m2: no message for 20 s"},
             {STOPPED, 3, false, ""},
             {STOPPED, 11, false, "machine m2: no message for 10 s"},
             {STOPPED, 11, true, ""},
             {STOPPED, 21, true, "machine m2: no message for 20 s"},
             {SILENT, 11, false, ""}};
    (void)state;
    if (master_now_ns() < 60 * SECOND)
        skip(); /* the clock has no moments so long ago */
    static const char *const names[] = {"m1", "m2", "m3"};
    rg_make(&o, &r);
    cluster_start(&c);
    c.master.stopped_ns = 10 * SECOND;
    c.master.silence_ns = 20 * SECOND;
    c.master.limit_ns = 40 * SECOND;
    for (uint32_t m = 0; m < 3; m++)
        cluster_add(&c, names[m], "r", &r.part[m], r.peer[m], r.end_count[m]);
    cluster_settle(&c);
    for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++) {
        silence(t[i].who, t[i].ago * SECOND, t[i].heard_once, note);
        if (strcmp(note, t[i].note) != 0)
            fail_msg("row %zu: \"%s\"", i, note);
    }
    cluster_stop(&c);
    rg_release(&r);
}

/* ---- runs ---------------------------------------------------------------- */

struct told { /* of one run on one machine */
    const char *machine, *run, *command;
    const char *tags[2];
    uint64_t created, processes, threads, events, lost[2], torn, untraced;
    bool open, has_root;
};

/* One on three machines, its root on the second; one on one, and the newest,
 * which has no root. */
static const struct told all[] = {
    {"m2",
     "wide",
     "the root",
     {"a=1", "b=2"},
     500,
     3,
     30,
     300,
     {5, 6},
     7,
     8,
     false,
     true},
    {"m1",
     "wide",
     "first told",
     {"no=0", NULL},
     700,
     1,
     10,
     100,
     {1, 2},
     3,
     4,
     false,
     false},
    {"m3",
     "wide",
     "",
     {NULL, NULL},
     600,
     5,
     50,
     500,
     {0, 0},
     0,
     0,
     true,
     false},
    {"m1",
     "old",
     "sort",
     {NULL, NULL},
     100,
     1,
     2,
     3,
     {0, 0},
     0,
     0,
     false,
     true},
    {"m9", "new", "x", {"c=3", NULL}, 900, 9, 8, 7, {0, 1}, 0, 0, true, false}};

static void put(const struct told *t)
{
    struct ips_err err = {0};
    Ips__RunState s = IPS__RUN_STATE__INIT, *list = &s;
    uint64_t lost[2] = {t->lost[0], t->lost[1]};
    char *tags[2];
    s.run = ips_unconst_text(t->run);
    s.command = ips_unconst_text(t->command);
    for (; s.n_tags < 2 && t->tags[s.n_tags]; s.n_tags++)
        tags[s.n_tags] = ips_unconst_text(t->tags[s.n_tags]);
    s.tags = tags;
    s.created_real_ns = t->created;
    s.processes = t->processes;
    s.threads = t->threads;
    s.events = t->events;
    s.n_lost = 2;
    s.lost = lost;
    s.torn = t->torn;
    s.untraced = t->untraced;
    s.open = t->open;
    s.has_root = t->has_root;
    if (catalogue_store_changed_runs(c.master.catalogue, t->machine, &list, 1,
                                     &err) < 0)
        fail_msg("%s", err.msg);
}

static void check_numbers(const Ips__RunRow *r, uint64_t created,
                          uint64_t processes, uint64_t threads, uint64_t events,
                          uint64_t lost)
{
    assert_int_equal(r->created_real_ns, created);
    assert_int_equal(r->processes, processes);
    assert_int_equal(r->threads, threads);
    assert_int_equal(r->events, events);
    assert_int_equal(r->lost, lost);
}

static void check_runs(const char *run, size_t count, bool look)
{
    struct answer got;
    Ips__RunsAsk ask = IPS__RUNS_ASK__INIT;
    Ips__Request request = IPS__REQUEST__INIT;
    request.run = ips_unconst_text(run);
    request.ask_case = IPS__REQUEST__ASK_RUNS;
    ask.look = look;
    request.runs = &ask;
    cluster_ask(&c, &request, &got);
    const Ips__RunsAnswer *a = answer_last(&got)->runs;
    assert_int_equal(a->n_runs, count);
    size_t wide = count == 3 ? 1 : 0;
    const Ips__RunRow *r = a->runs[wide];
    SAME(r->run, "wide");
    SAME(r->command, "the root");
    assert_true(r->open);
    check_numbers(r, 500, 9, 90, 900, 24);
    assert_int_equal(r->n_machines, 3);
    SAME(r->machines[0], "m1");
    SAME(r->machines[1], "m2");
    SAME(r->machines[2], "m3");
    assert_int_equal(r->n_missing, 3);
    assert_int_equal(r->n_tags, 2);
    SAME(r->tags[0], "a=1");
    SAME(r->tags[1], "b=2");
    if (count == 3) {
        SAME(a->runs[0]->run, "new");
        SAME(a->runs[0]->command, "x");
        SAME(a->runs[0]->tags[0], "c=3");
        check_numbers(a->runs[0], 900, 9, 8, 7, 1);
        assert_true(a->runs[0]->open);
        SAME(a->runs[2]->run, "old");
        check_numbers(a->runs[2], 100, 1, 2, 3, 0);
        assert_false(a->runs[2]->open);
        SAME(a->runs[2]->missing[0], "m1");
        assert_int_equal(a->runs[2]->n_tags, 0);
    }
    answer_release(&got);
}

static void test_limits__runs_of_several_machines(void **state)
{
    struct catalogue_run_sum known;
    struct ips_err err = {0};
    (void)state;
    cluster_start(&c);
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        put(&all[i]);
    check_runs("", 3, false);
    check_runs("wide", 1, true); /* at no slave */
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        put(&all[i]); /* as it is reported again and again */
    check_runs("", 3, false);
    cluster_restart_master(&c);
    check_runs("", 3, false);
    assert_int_equal(
        catalogue_sum_run(c.master.catalogue, "wide", &known, &err), 0);
    assert_int_equal(known.events, 900);
    assert_int_equal(known.created_real_ns, 700);
    assert_true(known.open);
    assert_int_equal(catalogue_sum_run(c.master.catalogue, "old", &known, &err),
                     0);
    assert_int_equal(known.events, 3);
    assert_false(known.open);
    cluster_stop(&c);
}

/* ---- status -------------------------------------------------------------- */

static void test_limits__status(void **state)
{
    struct answer got;
    struct ips_peer *old;
    struct slave *s;
    struct ips_err err = {0};
    Ips__StatusAsk ask = IPS__STATUS_ASK__INIT;
    Ips__Request request = IPS__REQUEST__INIT;
    Ips__Hello hello = ips_make_hello(IPS__HELLO__ROLE__SLAVE);
    (void)state;
    cluster_start(&c);
    hello.machine = ips_unconst_text("far");
    hello.version = ips_unconst_text("0.0.9");
    const uint64_t begun = master_now_ns();
    assert_int_equal(
        roster_admit(&c.master.roster, &hello, NULL, begun, &old, &s, &err), 0);
    s->runs = 11;
    s->pool_used_bytes = 12;
    s->pool_size_bytes = 13;
    s->computations = 14;
    s->questions = 15;
    request.ask_case = IPS__REQUEST__ASK_STATUS;
    request.status = &ask;
    cluster_ask(&c, &request, &got);
    const uint64_t took = master_now_ns() - begun;
    const Ips__StatusAnswer *a = answer_last(&got)->status;
    SAME(a->address, c.master.address);
    SAME(a->version, IPS_VERSION);
    assert_int_equal(a->clients, 1);
    assert_int_equal(a->kept_answers, 0);
    assert_in_range(a->uptime_ns, 1, master_now_ns() - c.master.started_ns);
    assert_int_equal(a->n_slaves, 1);
    const Ips__SlaveRow *row = a->slaves[0];
    SAME(row->machine, "far");
    SAME(row->version, "0.0.9");
    assert_false(row->connected);
    assert_in_range(row->last_seen_ns, 1, took);
    assert_int_equal(row->runs, 11);
    assert_int_equal(row->pool_used_bytes, 12);
    assert_int_equal(row->pool_size_bytes, 13);
    assert_int_equal(row->computations, 14);
    assert_int_equal(row->questions, 15);
    answer_release(&got);
    cluster_stop(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_limits__clients),
        cmocka_unit_test(test_limits__names_of_runs),
        cmocka_unit_test(test_limits__silence),
        cmocka_unit_test(test_limits__runs_of_several_machines),
        cmocka_unit_test(test_limits__status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
