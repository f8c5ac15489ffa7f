/*
 * Rows of objects and of metrics (master/tables/tables.h) from tables made by
 * hand, every field of each row against what was put in. Would catch: a field
 * that is another's or left out, a process that still runs without its time
 * until now, one outside of the window that is listed, a thread below another
 * process, rows that are left out without being counted, a limit off by one.
 */
#include "answer_help.h"
#include "each_allocation.h"
#include "master/base/top_n.h"
#include "master/tables/metrics.h"
#include "master/tables/tables.h"

/* ---- objects ------------------------------------------------------------- */

enum { PROCESSES = 4, THREADS = 4 };

struct made {
    struct query q;
    Ips__Request request;
    Ips__LsAsk ls;
    struct machine_share part[2], *active[2];
    Ips__SyncAnswer sync[2];
    Ips__RunState state[2];
    Ips__ProcessRow process[PROCESSES], *processes[PROCESSES];
    Ips__ThreadRow thread[THREADS], *threads[THREADS];
};

static Ips__ProcessRow *set_process(struct made *m, uint32_t i, uint32_t index,
                                    const char *name, uint32_t pid,
                                    uint64_t start, uint64_t end)
{
    Ips__ProcessRow *p = m->processes[i] = &m->process[i];
    ips__process_row__init(p);
    p->index = index;
    p->name = ips_unconst_text(name);
    p->command = ips_unconst_text("with words");
    p->pid = pid;
    p->parent = -1;
    p->start_ns = start;
    p->end_ns = end;
    p->open = end == 0;
    p->end = ips_unconst_text(end ? "exit 3" : "running");
    p->cpu_ns = pid;
    return p;
}

static void set_thread(struct made *m, uint32_t i, uint32_t chain,
                       uint32_t process, uint32_t tid, uint64_t start,
                       uint64_t end)
{
    Ips__ThreadRow *t = m->threads[i] = &m->thread[i];
    ips__thread_row__init(t);
    t->chain = chain;
    t->process = process;
    t->tid = tid;
    t->name = ips_unconst_text("worker");
    t->start_ns = start;
    t->end_ns = end;
    t->open = end == 0;
    t->cpu_ns = tid;
}

static void set_part(struct made *m, uint32_t i, const char *name,
                     struct machine_tables t)
{
    struct machine_share *p = m->active[i] = &m->part[i];
    snprintf(p->machine, sizeof(p->machine), "%s", name);
    ips__sync_answer__init(&m->sync[i]);
    ips__run_state__init(&m->state[i]);
    m->sync[i].state = &m->state[i];
    p->sync = &m->sync[i];
    p->number = i;
    p->t = t;
}

/* Two processes on each machine; of m1 the second still runs, and its thread
 * is the first of the table; the run's command is on m2. */
static void make(struct made *m)
{
    memset(m, 0, sizeof(*m));
    set_process(m, 0, 0, "a.10", 10, 1000, 1500);
    set_process(m, 1, 1, "b.11", 11, 1200, 0)->parent = 0;
    set_process(m, 2, 0, "c.7", 7, 40, 90)->parent = 2; /* there is none */
    set_process(m, 3, 1, "d.8", 8, 50, 60)->parent = 1;
    set_thread(m, 0, 0, 1, 21, 1250, 1900);
    set_thread(m, 1, 1, 0, 10, 1000, 1500);
    set_thread(m, 2, 2, 0, 22, 1100, 0);
    set_thread(m, 3, 0, 0, 7, 45, 90);
    set_part(m, 0, "m1",
             (struct machine_tables){.procs = m->processes,
                                     .proc_count = 2,
                                     .threads = m->threads,
                                     .thread_count = 3});
    set_part(m, 1, "m2",
             (struct machine_tables){.procs = m->processes + 2,
                                     .proc_count = 2,
                                     .threads = m->threads + 3,
                                     .thread_count = 1});
    m->state[0].command = ips_unconst_text("not this");
    m->state[0].open = true;
    m->state[1].command = ips_unconst_text("the command");
    m->state[1].has_root = true;
    m->sync[1].goal_elapsed_ns = 4321;
    ips__request__init(&m->request);
    ips__ls_ask__init(&m->ls);
    m->request.ask_case = IPS__REQUEST__ASK_LS;
    m->request.ls = &m->ls;
    m->q.request = &m->request;
    m->q.gather.active = m->active;
    m->q.gather.count = 2;
}

static void check_objects(const struct made *m, size_t count,
                          const char *const *want)
{
    static struct answer_text text;
    struct tables *t = tables_new();
    assert_non_null(t);
    assert_int_equal(tables_make_objects(t, &m->q, NULL), 0);
    for (size_t i = 0; i < t->object_count; i++) {
        memset(&text, 0, sizeof(text));
        answer_dump(&text, &t->objects[i]->base, "");
        if (i >= count || strcmp(text.v, want[i]) != 0)
            fail_msg("row %zu: %s", i, text.v);
    }
    assert_int_equal(t->object_count, count);
    tables_free(t);
}

static void test_tables__objects(void **state)
{
    static const char *const want[] = {
        "object='/' level='run' name='the command' children=2 elapsed_ns=4321 "
        "cpu_ns=36 open=1 ",
        "object='/m1' level='machine' name='m1' children=2 elapsed_ns=900 "
        "cpu_ns=21 open=1 ",
        "object='/m1/a.10' level='process' name='with words' pid=10 children=2 "
        "elapsed_ns=500 cpu_ns=10 end='exit 3' ",
        "object='/m1/a.10/10' level='thread' name='worker' pid=10 tid=10 "
        "elapsed_ns=500 cpu_ns=10 ",
        "object='/m1/a.10/22' level='thread' name='worker' pid=10 tid=22 "
        "start_ns=100 elapsed_ns=800 cpu_ns=22 open=1 ",
        "object='/m1/b.11' level='process' name='with words' pid=11 children=1 "
        "start_ns=200 elapsed_ns=700 cpu_ns=11 open=1 end='running' "
        "parent_pid=10 ",
        "object='/m1/b.11/21' level='thread' name='worker' pid=11 tid=21 "
        "start_ns=250 elapsed_ns=650 cpu_ns=21 ",
        "object='/m2' level='machine' name='m2' children=2 elapsed_ns=50 "
        "cpu_ns=15 ",
        "object='/m2/c.7' level='process' name='with words' pid=7 children=1 "
        "elapsed_ns=50 cpu_ns=7 end='exit 3' ",
        "object='/m2/c.7/7' level='thread' name='worker' pid=7 tid=7 "
        "start_ns=5 elapsed_ns=45 cpu_ns=7 ",
        "object='/m2/d.8' level='process' name='with words' pid=8 start_ns=10 "
        "elapsed_ns=10 cpu_ns=8 end='exit 3' parent_pid=8 ",
    };
    struct made m;
    (void)state;
    make(&m);
    check_objects(&m, sizeof(want) / sizeof(*want), want);
}

/* In a window times are since the run's first event there, and what was not
 * alive in it is not listed, nor counted. */
static void test_tables__objects_of_a_window(void **state)
{
    static const char *const want[] = {
        "object='/' level='run' name='not this' children=1 elapsed_ns=-1 "
        "cpu_ns=11 open=1 ",
        "object='/m1' level='machine' name='m1' children=1 elapsed_ns=700 "
        "cpu_ns=11 open=1 ",
        "object='/m1/b.11' level='process' name='with words' pid=11 children=1 "
        "start_ns=300 elapsed_ns=700 cpu_ns=11 open=1 end='running' "
        "parent_pid=10 ",
        "object='/m1/b.11/21' level='thread' name='worker' pid=11 tid=21 "
        "start_ns=350 elapsed_ns=650 cpu_ns=21 ",
    };
    struct made m;
    (void)state;
    make(&m);
    m.ls.from_ns = 1;
    m.sync[0].first_ns = 900;
    m.process[0].outside = m.thread[1].outside = m.thread[2].outside = true;
    m.process[0].cpu_ns = 0;
    m.q.gather.count = 1; /* no machine has the run's command */
    check_objects(&m, sizeof(want) / sizeof(*want), want);
}

static void test_tables__fit(void **state)
{
    struct made m;
    (void)state;
    make(&m);
    m.part[0].t.proc_count = TABLES_OBJECTS_MOST - 4;
    m.part[0].t.thread_count = 1;
    assert_true(tables_have_few_enough_objects(
        &m.q)); /* with three rows of the other machine */
    m.part[0].t.thread_count = 2;
    assert_false(tables_have_few_enough_objects(&m.q));
}

/* ---- metrics ------------------------------------------------------------- */

/* An answer with so many of each list. */
struct lists {
    Ips__MetricsAnswer m;
    struct arena a;
    Ips__MatrixTotal total[METRICS_MAX_CELLS + 3],
        *totals[METRICS_MAX_CELLS + 3];
};

static void make_lists(struct lists *l, size_t rows, size_t machine_cells,
                       size_t cells, size_t totals)
{
    ips__metrics_answer__init(&l->m);
    l->m.n_rows = rows;
    l->m.n_machine_matrix = machine_cells;
    l->m.n_process_matrix = cells;
    l->m.n_process_totals = totals;
    l->m.process_totals = l->totals;
    for (size_t i = 0; i < METRICS_MAX_CELLS + 3; i++)
        l->totals[i] = &l->total[i];
}

static void test_tables__cut(void **state)
{
    struct lists *l = calloc(1, sizeof(*l));
    (void)state;
    assert_non_null(l);
    make_lists(l, METRICS_MAX_ROWS, METRICS_MAX_CELLS, METRICS_MAX_CELLS,
               METRICS_MAX_CELLS + 1);
    assert_int_equal(tables_cut_metrics_to_limits(&l->a, &l->m), 0);
    assert_int_equal(l->m.n_rows, METRICS_MAX_ROWS);
    assert_ptr_equal(l->m.process_totals, l->totals);
    make_lists(l, METRICS_MAX_ROWS + 5, METRICS_MAX_CELLS + 40,
               METRICS_MAX_CELLS + 300, METRICS_MAX_CELLS + 3);
    assert_int_equal(tables_cut_metrics_to_limits(&l->a, &l->m),
                     5 + 40 + 300 + 2);
    assert_int_equal(l->m.n_rows, METRICS_MAX_ROWS);
    assert_int_equal(l->m.n_machine_matrix, METRICS_MAX_CELLS);
    assert_int_equal(l->m.n_process_matrix, METRICS_MAX_CELLS);
    assert_int_equal(l->m.n_process_totals, METRICS_MAX_CELLS + 1);
    for (size_t i = 0; i < METRICS_MAX_CELLS; i++)
        assert_ptr_equal(l->m.process_totals[i], &l->total[i]);
    /* that of all stays */
    assert_ptr_equal(l->m.process_totals[METRICS_MAX_CELLS],
                     &l->total[METRICS_MAX_CELLS + 2]);
    arena_release(&l->a);
    free(l);
}

/* Rows at each level and below each object, with their waits beside them. */
static void check_rows(const struct tables *t, const char *object,
                       const char *level, const char *want)
{
    struct arena a = {0};
    Ips__MetricsAnswer out;
    char got[400] = "";
    size_t waits = 0;
    assert_int_equal(
        tables_copy_requested_metrics(t, object, level, &a, &out, NULL), 0);
    for (size_t i = 0; i < out.n_rows; i++) {
        size_t at = strlen(got);
        snprintf(got + at, sizeof(got) - at, "%s ", out.rows[i]->object);
        for (size_t k = 0; k < out.rows[i]->n_waits; k++, waits++) {
            assert_true(waits < out.n_waits);
            const Ips__WaitRow *w = out.waits[waits];
            assert_string_equal(w->object, out.rows[i]->object);
            assert_string_equal(w->cause, out.rows[i]->waits[k]->cause);
            assert_int_equal(w->ns, out.rows[i]->waits[k]->ns);
            assert_int_equal(w->count, out.rows[i]->waits[k]->count);
        }
    }
    assert_int_equal(out.n_waits, waits);
    assert_string_equal(got, want);
    arena_release(&a);
}

static void test_tables__select(void **state)
{
    static Ips__WaitCause wait[3], *waits[3] = {&wait[0], &wait[1], &wait[2]};
    struct made m;
    struct ips_err err = {0};
    struct arena a = {0};
    Ips__MetricsAnswer out;
    (void)state;
    make(&m);
    for (uint32_t i = 0; i < 3; i++) {
        ips__wait_cause__init(&wait[i]);
        wait[i].cause = ips_unconst_text(i % 2 ? "lock" : "peer");
        wait[i].ns = 5 + i;
        wait[i].count = 1 + i;
        m.thread[i].waits = &waits[i];
        m.thread[i].n_waits = i == 1 ? 2 : 1;
    }
    struct tables *t = tables_new();
    assert_non_null(t);
    assert_int_equal(tables_make_metrics(t, &m.q, NULL), 0);
    check_rows(t, "", "", "/ /m1 /m2 ");
    check_rows(t, "/", "", "/ /m1 /m2 ");
    check_rows(t, "/m1", "", "/m1 /m1/a.10 /m1/b.11 ");
    check_rows(t, "/m1/a.10", "", "/m1/a.10 /m1/a.10/10 /m1/a.10/22 ");
    check_rows(t, "", "run", "/ ");
    check_rows(t, "", "machine", "/m1 /m2 ");
    check_rows(t, "", "process", "/m1/a.10 /m1/b.11 /m2/c.7 /m2/d.8 ");
    check_rows(t, "/m2", "thread", "/m2/c.7/7 ");
    check_rows(t, "/m2/d.8", "thread", "");
    assert_int_equal(
        tables_copy_requested_metrics(t, "/m3", "", &a, &out, &err),
        IPS_E_NOT_FOUND);
    assert_string_equal(err.msg, "no object /m3 in this run");
    arena_release(&a);
    tables_free(t);
}

/* ---- while memory lacks -------------------------------------------------- */

static int make_all(void *arg)
{
    const struct made *m = arg;
    struct arena a = {0};
    Ips__MetricsAnswer out;
    struct tables *t = tables_new();
    if (!t)
        return IPS_E_NO_MEMORY;
    int rc = tables_make_objects(t, &m->q, NULL);
    if (rc == 0)
        rc = tables_make_metrics(t, &m->q, NULL);
    if (rc == 0)
        rc = tables_copy_requested_metrics(t, "/m1", "thread", &a, &out, NULL);
    arena_release(&a);
    tables_free(t);
    return rc;
}

static void test_tables__no_memory(void **state)
{
    struct made m;
    Ips__ChannelRow channel = IPS__CHANNEL_ROW__INIT, *channels[] = {&channel};
    (void)state;
    make(&m);
    channel.sent_messages = channel.sent_bytes = 3;
    m.part[0].t.channels = channels;
    m.part[0].t.channel_count = 1;
    assert_true(each_allocation(make_all, &m) > 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tables__no_memory),
        cmocka_unit_test(test_tables__objects),
        cmocka_unit_test(test_tables__objects_of_a_window),
        cmocka_unit_test(test_tables__fit),
        cmocka_unit_test(test_tables__cut),
        cmocka_unit_test(test_tables__select),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
