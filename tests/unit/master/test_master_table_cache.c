/*
 * The tables that the master keeps of the last run (master/tables/cache.h),
 * without slaves: questions made by hand, and what they are answered from.
 * Would catch: kept tables given though the run, its events, its machines or
 * the question are others; none given though all is the same; tables that are
 * freed while a question uses them; a long answer of which a piece is missing,
 * comes twice or does not fit a frame.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "master/query/gather.h"
#include "master/query/machine_share.h"
#include "master/tables/cache.h"
#include "master/tables/metrics.h"
#include "master/tables/tables.h"
#include "proto/message.h"
#include "tests/support/live_blocks.h"

#define BOTH (GATHER_TABLE | GATHER_PEERS)
enum { ROWS = 3 };

static struct {
    struct master m;
    char dir[64];
    char peer; /* its address stands for connections */
    struct slave *slave;
    Ips__SyncAnswer sync;
    Ips__RunState state;
    Ips__ProcessRow *process;
    char *command;
} w;

/* ---- what is sent -------------------------------------------------------- */

static struct {
    uint32_t replies, pieces, rows;
    size_t largest;
    uint64_t last_pid;
    bool in_order, last;
    char plan[80];
} sent;

static void note_rows(const Ips__LsAnswer *a)
{
    for (size_t i = 0; i < a->n_rows; i++) {
        const Ips__ObjectRow *r = a->rows[i];
        if (strcmp(r->level, "process") != 0)
            continue;
        sent.in_order = sent.in_order && r->pid == sent.last_pid + 1;
        sent.last_pid = r->pid;
    }
    sent.rows += (uint32_t)a->n_rows;
}

void __wrap_ips_send_reply(struct ips_peer *peer, const Ips__Reply *reply);
void __wrap_ips_send_reply(struct ips_peer *peer, const Ips__Reply *reply)
{
    size_t size = ips__reply__get_packed_size(reply);
    const Ips__Certificate *c = NULL;
    assert_ptr_equal(peer, &w.peer);
    assert_false(sent.last);
    sent.replies++;
    sent.largest = size > sent.largest ? size : sent.largest;
    sent.last = reply->last;
    if (reply->answer_case == IPS__REPLY__ANSWER_LS) {
        note_rows(reply->ls);
        c = reply->ls->certificate;
    } else if (reply->answer_case == IPS__REPLY__ANSWER_METRICS) {
        sent.rows += (uint32_t)reply->metrics->n_rows;
        c = reply->metrics->certificate;
    }
    assert_int_equal(c != NULL, reply->last);
    if (c)
        snprintf(sent.plan, sizeof(sent.plan), "%s", c->plan);
}

/* ---- a run on one machine ------------------------------------------------ */

static void put_run_of(uint64_t created_real_ns, uint64_t events, bool open)
{
    Ips__RunState s = IPS__RUN_STATE__INIT, *list = &s;
    s.run = ips_unconst_text("r");
    s.created_real_ns = created_real_ns;
    s.events = events;
    s.open = open;
    assert_int_equal(
        catalogue_store_changed_runs(w.m.catalogue, "m1", &list, 1, NULL), 0);
}

static void put_run(uint64_t events, bool open)
{
    put_run_of(5, events, open);
}

static int setup(void **state)
{
    struct ips_err err = {0};
    struct ips_peer *old;
    Ips__Hello hello = ips_make_hello(IPS__HELLO__ROLE__SLAVE);
    (void)state;
    memset(&w, 0, sizeof(w));
    memset(&sent, 0, sizeof(sent));
    snprintf(w.dir, sizeof(w.dir), "/tmp/ips-test-cache-XXXXXX");
    assert_non_null(mkdtemp(w.dir));
    assert_int_equal(catalogue_open(w.dir, &w.m.catalogue, &err), 0);
    hello.machine = ips_unconst_text("m1");
    assert_int_equal(roster_admit(&w.m.roster, &hello, (void *)&w.peer,
                                  master_now_ns(), &old, &w.slave, &err),
                     0);
    ips__sync_answer__init(&w.sync);
    ips__run_state__init(&w.state);
    w.sync.state = &w.state;
    w.state.events = 70;
    w.state.created_real_ns = 5;
    put_run(70, false);
    return 0;
}

static int teardown(void **state)
{
    char command[80];
    (void)state;
    table_cache_release(&w.m);
    catalogue_close(w.m.catalogue);
    roster_release(&w.m.roster);
    free(w.process);
    free(w.command);
    snprintf(command, sizeof(command), "rm -r %s", w.dir);
    return system(command);
}

/* Rows of so many processes, each of a command of so many bytes. */
static void make_processes(uint32_t count, size_t bytes)
{
    w.process = calloc(count, sizeof(*w.process));
    w.command = calloc(1, bytes + 1);
    assert_true(w.process && w.command);
    memset(w.command, 'x', bytes);
    for (uint32_t i = 0; i < count; i++) {
        ips__process_row__init(&w.process[i]);
        w.process[i].index = i;
        w.process[i].name = ips_unconst_text("p");
        w.process[i].command = w.command;
        w.process[i].parent = -1;
        w.process[i].pid = i + 1;
    }
}

/* A question that has gathered the tables; it owns their lists. */
static struct query *gathered(Ips__Request *request, uint32_t count,
                              unsigned want)
{
    struct query *q = calloc(1, sizeof(*q));
    assert_non_null(q);
    q->m = &w.m;
    q->request = request;
    q->client = (void *)&w.peer;
    q->kind = query_kind_of(request);
    snprintf(q->run, sizeof(q->run), "r");
    q->machines = calloc(1, sizeof(*q->machines));
    q->gather.active = calloc(1, sizeof(*q->gather.active));
    assert_true(q->machines && q->gather.active);
    q->machine_count = q->gather.count = 1;
    q->gather.want = want;
    q->gather.ambiguous = 8;
    q->gather.untraced_ends = 9;
    q->gather.active[0] = q->machines;
    struct machine_share *p = q->machines;
    snprintf(p->machine, sizeof(p->machine), "m1");
    p->slave = w.slave;
    p->expected = true;
    p->sync = &w.sync;
    p->t.procs = calloc(count, sizeof(*p->t.procs));
    assert_non_null(p->t.procs);
    p->t.proc_count = count;
    for (uint32_t i = 0; i < count; i++)
        p->t.procs[i] = &w.process[i];
    return q;
}

/* One that has just come. */
static struct query *asked(Ips__Request *request)
{
    struct query *q = calloc(1, sizeof(*q));
    assert_non_null(q);
    q->m = &w.m;
    q->request = request;
    q->client = (void *)&w.peer;
    q->kind = query_kind_of(request);
    snprintf(q->run, sizeof(q->run), "r");
    return q;
}

static void done(struct query *q)
{
    gather_release(q);
    machine_shares_release(q);
    assert_null(q->table_cache);
    free(q);
}

static bool used(Ips__Request *request, unsigned want)
{
    struct query *q = asked(request);
    bool is = table_cache_lend_if_current(q, want);
    assert_int_equal(q->from_cache, is);
    assert_int_equal(q->gather.count, is);
    if (is) {
        const struct machine_share *p = q->gather.active[0];
        assert_string_equal(p->machine, "m1");
        assert_ptr_equal(p->slave, w.slave);
        assert_ptr_equal(p->sync, &w.sync);
        assert_true(p->expected && p->state == MACHINE_ACTIVE);
        assert_int_equal(p->t.proc_count, ROWS);
        bool joins = want & GATHER_PEERS;
        assert_int_equal(q->gather.ambiguous, joins ? 8 : 0);
        assert_int_equal(q->gather.untraced_ends, 9);
    }
    done(q);
    return is;
}

static Ips__LsAsk ls;
static Ips__MetricsAsk metrics;

static Ips__Request ls_request(void)
{
    Ips__Request r = IPS__REQUEST__INIT;
    ips__ls_ask__init(&ls);
    r.ask_case = IPS__REQUEST__ASK_LS;
    r.ls = &ls;
    return r;
}

static void keep(Ips__Request *request, unsigned want)
{
    struct query *q = gathered(request, ROWS, want);
    table_cache_store_if_cacheable(q);
    done(q);
}

/* ---- when they are used -------------------------------------------------- */

static void test_table_cache__of_the_same(void **state)
{
    Ips__Request r = ls_request();
    (void)state;
    make_processes(ROWS, 3);
    assert_false(used(&r, GATHER_TABLE)); /* nothing is kept */
    keep(&r, GATHER_TABLE);
    assert_true(used(&r, GATHER_TABLE));
    assert_false(used(&r, BOTH)); /* nobody asked who the peers are */
    keep(&r, BOTH);               /* more of the same run */
    assert_true(used(&r, BOTH));
    keep(&r, GATHER_TABLE); /* less is not kept in its place */
    assert_true(used(&r, BOTH));
    ls.to_ns = 5;
    assert_false(used(&r, GATHER_TABLE));
    ls.to_ns = 0;
    put_run(71, false);
    assert_false(used(&r, GATHER_TABLE));
    put_run(70, true);
    assert_false(used(&r, GATHER_TABLE));
    put_run_of(6, 70, false); /* another of that name, as long */
    assert_false(used(&r, GATHER_TABLE));
    put_run(70, false);
    assert_true(used(&r, GATHER_TABLE));
    w.slave->seen_ns -= ROSTER_MISSING_NS + 1;
    assert_false(used(&r, GATHER_TABLE)); /* silent */
    w.slave->seen_ns = master_now_ns();
    w.slave->peer = NULL;
    assert_false(used(&r, GATHER_TABLE)); /* gone */
    w.slave->peer = (void *)&w.peer;
    struct query *q = asked(&r);
    q->restarts = 1;
    assert_false(table_cache_lend_if_current(q, GATHER_TABLE));
    q->restarts = 0;
    snprintf(q->run, sizeof(q->run), "other");
    assert_false(table_cache_lend_if_current(q, GATHER_TABLE));
    done(q);
}

static void test_table_cache__what_is_kept(void **state)
{
    Ips__Request r = ls_request();
    (void)state;
    make_processes(ROWS, 3);
    struct query *q = gathered(&r, ROWS, GATHER_TABLE);
    w.state.open = true;
    table_cache_store_if_cacheable(q);
    w.state.open = false;
    q->machines[0].state = MACHINE_MISSING;
    table_cache_store_if_cacheable(q);
    q->machines[0].state = MACHINE_ACTIVE;
    ls.from_ns = 1;
    table_cache_store_if_cacheable(q);
    ls.from_ns = 0;
    q->machines[0].message_bytes = KEPT_BYTES_MOST + 1;
    table_cache_store_if_cacheable(q);
    assert_null(w.m.table_cache);
    assert_null(q->table_cache);
    q->machines[0].message_bytes = KEPT_BYTES_MOST;
    table_cache_store_if_cacheable(q);
    assert_non_null(w.m.table_cache);
    assert_true(q->machines[0].borrows);
    assert_int_equal(q->machines[0].message_bytes, 0);
    const void *kept = w.m.table_cache;
    table_cache_store_if_cacheable(q); /* its own are from there now */
    assert_ptr_equal(w.m.table_cache, kept);
    done(q);
    q = gathered(&r, ROWS, GATHER_TABLE);
    w.state.events = 71; /* newer ones take their place */
    table_cache_store_if_cacheable(q);
    assert_ptr_not_equal(w.m.table_cache, kept);
    done(q);
    long blocks = live_blocks();
    for (int i = 0; i < 30; i++) {
        w.state.events++;
        keep(&r, GATHER_TABLE);
    }
    assert_true(live_blocks() < blocks + 10); /* of all but the last */
}

/* The rows are made once, and live as long as anybody uses them. */
static void test_table_cache__rows(void **state)
{
    Ips__Request r = ls_request();
    (void)state;
    make_processes(ROWS, 3);
    keep(&r, GATHER_TABLE);
    long blocks = live_blocks();
    struct query *a = asked(&r), *b = asked(&r);
    assert_true(table_cache_lend_if_current(a, GATHER_TABLE));
    assert_true(table_cache_lend_if_current(b, GATHER_TABLE));
    struct tables *t = table_cache_get_cached_or_new_tables(a);
    assert_int_equal(tables_make_objects(t, a, NULL), 0);
    table_cache_free_tables_unless_cached(a, t);
    assert_ptr_equal(table_cache_get_cached_or_new_tables(b), t);
    const void *rows = t->objects;
    assert_int_equal(tables_make_objects(t, b, NULL), 0);
    assert_ptr_equal(t->objects, rows);
    assert_int_equal(tables_make_metrics(t, b, NULL), 0);
    rows = t->metrics.rows;
    assert_int_equal(tables_make_metrics(t, b, NULL), 0);
    assert_ptr_equal(t->metrics.rows, rows);
    table_cache_free_tables_unless_cached(b, t);
    table_cache_release(&w.m); /* the master has none any more */
    done(a);
    assert_ptr_equal(table_cache_get_cached_or_new_tables(b), t);
    assert_string_equal(t->objects[2]->name, "xxx");
    table_cache_free_tables_unless_cached(b, t);
    done(b);
    assert_true(live_blocks() <= blocks); /* 0: with sanitizers */
    /* Who has no kept ones makes and frees its own. */
    struct query *q = gathered(&r, ROWS, GATHER_TABLE);
    t = table_cache_get_cached_or_new_tables(q);
    assert_non_null(t);
    assert_null(t->objects);
    table_cache_free_tables_unless_cached(q, t);
    done(q);
}

/* ---- answers from them --------------------------------------------------- */

static void answer_at_once(Ips__Request *request)
{
    struct query *q = asked(request);
    memset(&sent, 0, sizeof(sent));
    sent.in_order = true;
    assert_true(q->kind->at_once(q));
    assert_true(q->over && sent.last);
    assert_true(sent.largest <= QUERY_REPLY_BYTES);
    q->kind->release(q);
    machine_shares_release(q);
    free(q);
}

static void test_table_cache__long_answers(void **state)
{
    enum { MANY = 20000 };
    Ips__Request r = ls_request();
    (void)state;
    make_processes(MANY, 900);
    struct query *q = gathered(&r, MANY, BOTH);
    table_cache_store_if_cacheable(q);
    done(q);
    answer_at_once(&r);
    assert_int_equal(sent.rows, MANY + 2); /* and the machine, the run */
    assert_int_equal(sent.last_pid, MANY);
    assert_true(sent.in_order);
    assert_int_equal(sent.replies, 3);
    assert_string_equal(sent.plan, "a copy of the slaves' tables");
    memset(w.command, 0, 900); /* short ones need no more than one */
    answer_at_once(&r);
    assert_int_equal(sent.rows, MANY + 2);
    assert_int_equal(sent.replies, 1);
}

static void test_table_cache__long_metrics(void **state)
{
    enum { MANY = METRICS_MAX_ROWS };
    Ips__Request r = ls_request();
    (void)state;
    make_processes(MANY, 480);
    for (uint32_t i = 0; i < MANY; i++)
        w.process[i].name = w.command;
    struct query *q = gathered(&r, MANY, BOTH);
    table_cache_store_if_cacheable(q);
    done(q);
    ips__metrics_ask__init(&metrics);
    metrics.level = ips_unconst_text("process");
    r.ask_case = IPS__REQUEST__ASK_METRICS;
    r.metrics = &metrics;
    answer_at_once(&r);
    assert_int_equal(sent.rows, MANY);
    assert_int_equal(sent.replies, 2);
    assert_string_equal(sent.plan, "a copy of the slaves' tables");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_table_cache__of_the_same, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_table_cache__what_is_kept, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_table_cache__rows, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_table_cache__long_answers, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_table_cache__long_metrics, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
