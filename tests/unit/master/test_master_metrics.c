/*
 * Table 2 from hand-made tables. Catches: a matrix whose rows and columns are
 * not the totals, an unmeasured value printed as 0, T of the run taken from
 * the wrong machine, a process counted alive after its end, threads counted
 * under the wrong process.
 * EVIDENCE-OF: IPS-3, IPS-8
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "master/tables/metrics.h"

#define PROCS 3
#define THREADS 4
#define CHANNELS 4

/* Machine 0: a (2 threads), b; machine 1: c. a and b talk here, b to c there,
 * c to somebody not traced. */
struct world {
    struct machine_share part[2], *parts[2];
    Ips__SyncAnswer sync[2];
    Ips__RunState state[2];
    Ips__ProcessRow proc[PROCS], *procs[PROCS];
    Ips__ThreadRow thread[THREADS], *threads[THREADS];
    Ips__WaitCause wait, *waits;
    Ips__ChannelRow chan[CHANNELS + 1], *chans[CHANNELS + 1];
    struct ips_peer_end peer0[4], peer1[4];
    struct arena a;
    Ips__MetricsAnswer out;
    uint64_t cut;
};

static void process(struct world *w, uint32_t i, uint32_t index,
                    const char *name, uint64_t start, uint64_t end)
{
    Ips__ProcessRow *p = &w->proc[i];
    ips__process_row__init(p);
    p->index = index;
    p->name = ips_unconst_text(name);
    p->start_ns = start;
    p->end_ns = end;
    w->procs[i] = p;
}

static void thread(struct world *w, uint32_t i, uint32_t chain, uint32_t proc,
                   uint64_t start, uint64_t end, uint64_t cpu, uint64_t wait)
{
    Ips__ThreadRow *t = &w->thread[i];
    ips__thread_row__init(t);
    t->chain = chain;
    t->process = proc;
    t->tid = 100 + i;
    t->start_ns = start;
    t->end_ns = end;
    t->cpu_ns = cpu;
    t->wait_ns = wait;
    w->threads[i] = t;
}

static void channel(struct world *w, uint32_t i, uint32_t end, uint32_t proc,
                    int64_t peer, uint64_t sent, uint64_t sent_bytes,
                    uint64_t got, uint64_t got_bytes)
{
    Ips__ChannelRow *c = &w->chan[i];
    ips__channel_row__init(c);
    c->end = end;
    c->process = proc;
    c->peer_process = peer;
    c->sent_messages = sent;
    c->sent_bytes = sent_bytes;
    c->recv_messages = got;
    c->recv_bytes = got_bytes;
    w->chans[i] = c;
}

static void make_world(struct world *w)
{
    memset(w, 0, sizeof(*w));
    for (uint32_t m = 0; m < 2; m++) {
        w->parts[m] = &w->part[m];
        w->part[m].number = m;
        w->part[m].sync = &w->sync[m];
        ips__sync_answer__init(&w->sync[m]);
        ips__run_state__init(&w->state[m]);
        w->sync[m].state = &w->state[m];
        w->sync[m].cores = 2 + m;
    }
    strcpy(w->part[0].machine, "m1");
    strcpy(w->part[1].machine, "m2");
    w->state[0].has_root = true;
    w->sync[0].goal_elapsed_ns = 50;
    process(w, 0, 0, "a.1", 1000, 1100);
    process(w, 1, 1, "b.2", 1010, 1040);
    process(w, 2, 0, "c.9", 5000, 0); /* still lives */
    thread(w, 0, 0, 0, 1000, 1100, 30, 20);
    thread(w, 1, 1, 1, 1010, 1040, 10, 5);
    thread(w, 2, 2, 0, 1020, 1060, 7, 0);
    thread(w, 3, 0, 0, 5000, 5200, 60, 0);
    ips__wait_cause__init(&w->wait);
    w->wait.cause = ips_unconst_text("peer");
    w->wait.ns = 20;
    w->wait.count = 2;
    w->waits = &w->wait;
    w->thread[0].delay_ns = 12; /* of which 4 after wake-ups */
    w->thread[0].woken_ns = 4;
    w->thread[1].unknown_ns = 3;
    w->proc[0].rusage_cpu_ns = 37;
    w->proc[1].rusage_cpu_ns = 11;
    w->proc[2].rusage_cpu_ns = UINT64_MAX;
    w->thread[0].n_waits = 1;
    w->thread[0].waits = &w->waits;
    channel(w, 0, 0, 0, 1, 3, 300, 0, 0); /* a -> b, here */
    channel(w, 1, 1, 1, 0, 1, 10, 3, 300);
    channel(w, 2, 2, 1, -1, 5, 500, 2, 20); /* b -> c, there */
    channel(w, 3, 0, 0, -1, 2, 20, 4, 500); /* c's end of it */
    channel(w, 4, 1, 0, -1, 6, 60, 7, 70);  /* c and somebody */
    w->part[0].t = (struct machine_tables){.procs = w->procs,
                                           .proc_count = 2,
                                           .threads = w->threads,
                                           .thread_count = 3,
                                           .channels = w->chans,
                                           .channel_count = 3};
    w->part[1].t = (struct machine_tables){.procs = w->procs + 2,
                                           .proc_count = 1,
                                           .threads = w->threads + 3,
                                           .thread_count = 1,
                                           .channels = w->chans + 3,
                                           .channel_count = 2};
    memset(w->peer0, 0xff, sizeof(w->peer0));
    memset(w->peer1, 0xff, sizeof(w->peer1));
    w->peer0[2] = (struct ips_peer_end){.machine = 1, .end = 0};
    w->peer1[0] = (struct ips_peer_end){.machine = 0, .end = 2};
    w->part[0].peer = w->peer0;
    w->part[1].peer = w->peer1;
    w->part[0].peer_count = w->part[1].peer_count = 3;
}

static int metrics(struct world *w, const char *object, const char *level)
{
    make_world(w);
    ips__metrics_answer__init(&w->out);
    return metrics_make_rows_and_matrices(w->parts, 2, false, object, level,
                                          &w->a, &w->out, &w->cut, NULL);
}

static const Ips__MetricsRow *row(const struct world *w, const char *object)
{
    for (size_t i = 0; i < w->out.n_rows; i++) {
        if (strcmp(w->out.rows[i]->object, object) == 0)
            return w->out.rows[i];
    }
    fail_msg("no row %s", object);
    return NULL;
}

static bool unmeasured(double x)
{
    return x != x;
}

static void test_master_metrics__run_and_machines(void **state)
{
    (void)state;
    struct world w;
    assert_int_equal(metrics(&w, "/", ""), 0);
    assert_int_equal(w.out.n_rows, 3);
    const Ips__MetricsRow *r = w.out.rows[0];
    assert_string_equal(r->object, "/");
    assert_int_equal(r->processes_started, 3);
    assert_int_equal(r->processes_alive_max, IPS_UNMEASURED); /* two clocks */
    assert_int_equal(r->machines, 2);
    assert_int_equal(r->elapsed_ns, 50); /* the goal's */
    assert_int_equal(r->cpu_ns, 107);
    assert_int_equal(r->wait_ns, 25);
    assert_int_equal(r->wait_cpu_ns, 12);
    assert_int_equal(r->lifetimes_ns, 100 + 30 + 40 + 200);
    assert_true(r->response == 370.0 / 107);
    assert_true(r->load == (107.0 + 12) / 107);
    assert_true(r->parallelism == 107.0 / 50);
    assert_true(r->rho == 107.0 / (2 * 100 + 3 * 200));
    assert_true(r->rho_dpm == 107.0 / 50 / 2);
    assert_true(r->progress_ratio == 107.0 / 25);
    assert_int_equal(r->n_waits, 1);
    assert_string_equal(r->waits[0]->cause, "peer");
    r = row(&w, "/m1");
    assert_int_equal(r->processes_alive_max, 2);
    assert_int_equal(r->elapsed_ns, 100);
    assert_true(unmeasured(r->parallelism));
    assert_true(r->rho == 47.0 / 200);
    assert_true(r->rho_dpm == 47.0 / 100);
    arena_release(&w.a);
}

/* Rows and columns of both matrices are the totals of the rows. */
static void check_marginals(const struct world *w, Ips__MatrixCell *const *c,
                            size_t n, const char *object)
{
    const Ips__MetricsRow *r = row(w, object);
    uint64_t out = 0, in = 0, bytes_out = 0, bytes_in = 0;
    for (size_t i = 0; i < n; i++) {
        if (strcmp(c[i]->from, object) == 0) {
            out += c[i]->messages;
            bytes_out += c[i]->bytes;
        }
        if (strcmp(c[i]->to, object) == 0) {
            in += c[i]->messages;
            bytes_in += c[i]->bytes;
        }
    }
    assert_int_equal(r->messages_out, out);
    assert_int_equal(r->messages_in, in);
    assert_int_equal(r->bytes_out, bytes_out);
    assert_int_equal(r->bytes_in, bytes_in);
}

static void test_master_metrics__matrices(void **state)
{
    (void)state;
    struct world w;
    assert_int_equal(metrics(&w, "", "process"), 0);
    assert_int_equal(w.out.n_rows, 3);
    assert_int_equal(w.out.n_process_matrix, 6);
    check_marginals(&w, w.out.process_matrix, 6, "/m1/a.1");
    check_marginals(&w, w.out.process_matrix, 6, "/m1/b.2");
    check_marginals(&w, w.out.process_matrix, 6, "/m2/c.9");
    const Ips__MetricsRow *c = row(&w, "/m2/c.9");
    assert_int_equal(c->messages_out, 8);
    assert_int_equal(c->messages_in, 5 + 7); /* as b sent, as c received */
    assert_int_equal(c->bytes_in, 500 + 70);
    assert_int_equal(c->elapsed_ns, 200); /* as long as was seen */
    arena_release(&w.a);
    assert_int_equal(metrics(&w, "", "machine"), 0);
    check_marginals(&w, w.out.machine_matrix, w.out.n_machine_matrix, "/m1");
    check_marginals(&w, w.out.machine_matrix, w.out.n_machine_matrix, "/m2");
    arena_release(&w.a);
}

static void test_master_metrics__shared_end_loses_nothing(void **state)
{
    (void)state;
    struct world w;
    make_world(&w);
    /* c's end is shared with a second process that got a third of it. */
    process(&w, 2, 0, "c.9", 5000, 5100);
    Ips__ProcessRow *two[] = {&w.proc[2], &w.proc[1]};
    w.part[1].t.procs = two;
    w.part[1].t.proc_count = 2;
    channel(&w, 4, 0, 1, -1, 0, 0, 2, 250);
    ips__metrics_answer__init(&w.out);
    assert_int_equal(metrics_make_rows_and_matrices(w.parts, 2, false, "",
                                                    "process", &w.a, &w.out,
                                                    &w.cut, NULL),
                     0);
    const Ips__MetricsRow *b = row(&w, "/m1/b.2");
    uint64_t sent = 0;
    for (size_t i = 0; i < w.out.n_process_matrix; i++) {
        const Ips__MatrixCell *c = w.out.process_matrix[i];
        if (strcmp(c->from, "/m1/b.2") == 0 && strncmp(c->to, "/m2", 3) == 0)
            sent += c->bytes;
    }
    assert_int_equal(sent, 500);
    assert_int_equal(b->bytes_out, 510);
    arena_release(&w.a);
}

/* Would catch that what goes between processes of one machine over an end that
 * several of them hold (a child that inherited it) is called external. */
static void test_master_metrics__end_shared_on_one_machine(void **state)
{
    (void)state;
    struct world w;
    make_world(&w);
    process(&w, 2, 2, "d.3", 1020, 1040);
    w.part[0].t.proc_count = 3;
    w.parts[0]->t.channel_count = 3;
    channel(&w, 0, 0, 0, 1, 3, 31, 0, 0); /* a asks b ... */
    channel(&w, 1, 0, 2, 1, 0, 0, 2, 40); /* ... and its child d reads */
    channel(&w, 2, 1, 1, -1, 2, 40, 3, 31);
    w.chan[2].peer_shared = 1;
    ips__metrics_answer__init(&w.out);
    w.part[0].peer_count = 0;
    assert_int_equal(metrics_make_rows_and_matrices(w.parts, 1, false, "",
                                                    "process", &w.a, &w.out,
                                                    &w.cut, NULL),
                     0);
    assert_int_equal(w.out.n_process_matrix, 2);
    const Ips__MatrixCell *c = w.out.process_matrix[0];
    assert_string_equal(c->from, "/m1/a.1");
    assert_string_equal(c->to, "/m1/b.2");
    assert_int_equal(c->bytes, 31);
    c = w.out.process_matrix[1];
    assert_string_equal(c->from, "/m1/b.2");
    assert_string_equal(c->to, "/m1/d.3");
    assert_int_equal(c->bytes, 40);
    arena_release(&w.a);
}

/* Bytes to each of two processes that read an end, 1 and 2 of 3, of a window in
 * which `sent` were sent with `before` sent earlier. */
static void shared_window(struct world *w, uint64_t before, uint64_t sent,
                          uint64_t got[2])
{
    make_world(w);
    process(w, 2, 2, "d.3", 1020, 1040);
    w->part[0].t.proc_count = 3;
    w->parts[0]->t.channel_count = 3;
    channel(w, 0, 0, 0, -1, 1, sent, 0, 0);
    w->chan[0].peer_shared = 2;
    channel(w, 1, 1, 1, -1, 0, 0, 1, 1);
    channel(w, 2, 1, 2, -1, 0, 0, 2, 2);
    w->chan[0].windowed = w->chan[1].windowed = w->chan[2].windowed = true;
    w->chan[0].sent_bytes_before = before;
    ips__metrics_answer__init(&w->out);
    w->part[0].peer_count = 0;
    assert_int_equal(metrics_make_rows_and_matrices(w->parts, 1, false, "",
                                                    "process", &w->a, &w->out,
                                                    &w->cut, NULL),
                     0);
    got[0] = got[1] = 0;
    for (size_t i = 0; i < w->out.n_process_matrix; i++) {
        const Ips__MatrixCell *c = w->out.process_matrix[i];
        got[strcmp(c->to, "/m1/d.3") == 0] += c->bytes;
    }
    arena_release(&w->a);
}

/* Would catch windows side by side whose cells do not add up to the whole's,
 * where shares are rounded: each alone would lose what is below one. */
static void test_master_metrics__windows_of_a_shared_end(void **state)
{
    (void)state;
    struct world w;
    uint64_t whole[2], sum[2] = {0, 0};
    shared_window(&w, 0, 10, whole);
    assert_int_equal(whole[0], 3);
    assert_int_equal(whole[1], 7);
    for (uint64_t before = 0; before < 10; before++) {
        uint64_t got[2];
        shared_window(&w, before, 1, got);
        assert_int_equal(got[0] + got[1], 1);
        sum[0] += got[0];
        sum[1] += got[1];
    }
    assert_int_equal(sum[0], whole[0]);
    assert_int_equal(sum[1], whole[1]);
}

/* Would catch: run delay after a wake-up counted twice, as blocked and as
 * runnable; a sum that is not that of what it is made of; a delay that nobody
 * told shown as none; the kernel's figure of some processes compared with the
 * CPU of others.
 * EVIDENCE-OF: IPS-3 */
static void test_master_metrics__lives_add_up(void **state)
{
    (void)state;
    struct world w;
    static const char *const levels[] = {"run", "machine", "process", "thread"};
    uint64_t cpu[4] = {0}, wait_cpu[4] = {0}, rusage[4] = {0};
    for (int l = 0; l < 4; l++) {
        assert_int_equal(metrics(&w, "", levels[l]), 0);
        for (size_t i = 0; i < w.out.n_rows; i++) {
            const Ips__MetricsRow *r = w.out.rows[i];
            bool known = r->wait_cpu_ns != IPS_UNMEASURED;
            uint64_t queued = known ? r->wait_cpu_ns : 0;
            assert_int_equal(r->lifetimes_ns, r->cpu_ns + r->blocked_ns +
                                                  queued +
                                                  (uint64_t)r->other_ns);
            cpu[l] += r->cpu_ns;
            wait_cpu[l] += queued;
            bool thread = l == 3; /* the kernel tells of processes alone */
            assert_true((r->rusage_processes == IPS_UNMEASURED) == thread);
            if (!thread && r->rusage_processes)
                rusage[l] += r->rusage_cpu_ns;
        }
        arena_release(&w.a);
        assert_int_equal(cpu[l], 107);
        assert_int_equal(wait_cpu[l], 12);
        assert_int_equal(rusage[l], l == 3 ? 0 : 48);
    }
    assert_int_equal(metrics(&w, "/m1", "thread"), 0);
    const Ips__MetricsRow *t = row(&w, "/m1/a.1/100");
    assert_int_equal(t->blocked_ns, 16);
    assert_int_equal(t->other_ns, 100 - 30 - 16 - 12);
    t = row(&w, "/m1/b.2/101");
    assert_int_equal(t->wait_cpu_ns, IPS_UNMEASURED);
    assert_int_equal(t->wait_cpu_unknown_ns, 3);
    assert_true(unmeasured(t->load));
    arena_release(&w.a);
    assert_int_equal(metrics(&w, "", "run"), 0);
    const Ips__MetricsRow *r = row(&w, "/");
    assert_int_equal(r->rusage_own_cpu_ns, 47);
    assert_int_equal(r->rusage_processes, 2);
    arena_release(&w.a);
}

/* Would catch totals that leave out the outside, or count one side twice. */
static void test_master_metrics__totals_are_marginals(void **state)
{
    (void)state;
    struct world w;
    assert_int_equal(metrics(&w, "", "process"), 0);
    size_t n = w.out.n_process_totals;
    assert_int_equal(n, 5); /* a, b, c, external, all */
    const Ips__MatrixTotal *all = w.out.process_totals[n - 1];
    uint64_t messages = 0, bytes = 0;
    for (size_t i = 0; i < w.out.n_process_matrix; i++) {
        messages += w.out.process_matrix[i]->messages;
        bytes += w.out.process_matrix[i]->bytes;
    }
    assert_string_equal(all->object, "");
    assert_int_equal(all->messages_out, messages);
    assert_int_equal(all->messages_in, messages);
    assert_int_equal(all->bytes_out, bytes);
    assert_int_equal(all->bytes_in, bytes);
    for (size_t i = 0; i + 1 < n; i++) {
        const Ips__MatrixTotal *t = w.out.process_totals[i];
        if (strcmp(t->object, "external") == 0)
            continue;
        const Ips__MetricsRow *r = row(&w, t->object);
        assert_int_equal(t->messages_out, r->messages_out);
        assert_int_equal(t->messages_in, r->messages_in);
        assert_int_equal(t->bytes_out, r->bytes_out);
        assert_int_equal(t->bytes_in, r->bytes_in);
    }
    arena_release(&w.a);
}

/* Would catch: efficiencies that do not multiply, threads that lived for a
 * moment counted as workers, a program of many short processes given them. */
static void test_master_metrics__pop(void **state)
{
    (void)state;
    struct world w;
    make_world(&w);
    w.sync[0].goal_elapsed_ns = 100;
    w.thread[1].cpu_ns = 0;  /* 30 of 100 ns: no worker */
    w.thread[2].cpu_ns = 10; /* 40 */
    ips__metrics_answer__init(&w.out);
    assert_int_equal(metrics_make_rows_and_matrices(w.parts, 2, false, "",
                                                    "run", &w.a, &w.out, &w.cut,
                                                    NULL),
                     0);
    const Ips__MetricsRow *r = row(&w, "/");
    assert_int_equal(r->pop_threads, 2);
    assert_int_equal(r->pop_cpu_max_ns, 60);
    assert_true(r->pop_load_balance == 45.0 / 60);
    assert_true(r->pop_communication == 60.0 / 100);
    assert_true(r->pop_parallel == 45.0 / 100);
    arena_release(&w.a);
    w.thread[2].cpu_ns = 11; /* others have more than a tenth */
    ips__metrics_answer__init(&w.out);
    assert_int_equal(metrics_make_rows_and_matrices(w.parts, 2, false, "",
                                                    "run", &w.a, &w.out, &w.cut,
                                                    NULL),
                     0);
    r = row(&w, "/");
    assert_int_equal(r->pop_threads, 0);
    assert_true(unmeasured(r->pop_parallel));
    arena_release(&w.a);
}

static void test_master_metrics__threads(void **state)
{
    (void)state;
    struct world w;
    assert_int_equal(metrics(&w, "/m1/a.1", ""), 0);
    assert_int_equal(w.out.n_rows, 3);
    const Ips__MetricsRow *p = row(&w, "/m1/a.1");
    assert_int_equal(p->cpu_ns, 37);
    assert_int_equal(p->lifetimes_ns, 140);
    assert_int_equal(p->machines, IPS_UNMEASURED);
    const Ips__MetricsRow *t = row(&w, "/m1/a.1/102");
    assert_int_equal(t->cpu_ns, 7);
    assert_int_equal(t->elapsed_ns, 40);
    assert_true(t->response == 40.0 / 7);
    assert_int_equal(t->processes_started, IPS_UNMEASURED);
    assert_true(unmeasured(t->progress_ratio));
    arena_release(&w.a);
}

/* More rows than are sent: those of the run and of a machine, which come before
 * the rows that they sum up, are whole. */
static void test_master_metrics__most_rows(void **state)
{
    (void)state;
    static Ips__ThreadRow *many[METRICS_MAX_ROWS];
    struct world w;
    make_world(&w);
    for (size_t i = 0; i < METRICS_MAX_ROWS; i++)
        many[i] = &w.thread[0];
    w.part[0].t.threads = many;
    w.part[0].t.thread_count = METRICS_MAX_ROWS;
    ips__metrics_answer__init(&w.out);
    assert_int_equal(metrics_make_rows_and_matrices(w.parts, 2, false, "/",
                                                    NULL, &w.a, &w.out, &w.cut,
                                                    NULL),
                     0);
    assert_int_equal(w.out.n_rows, METRICS_MAX_ROWS);
    /* beside the threads: the run, m1, a, b, m2, c and its thread */
    assert_int_equal(w.cut, 7);
    assert_int_equal(row(&w, "/")->processes_started, 3);
    assert_int_equal(row(&w, "/")->cpu_ns, METRICS_MAX_ROWS * 30 + 60);
    assert_int_equal(row(&w, "/m1")->processes_started, 2);
    assert_int_equal(row(&w, "/m1")->cpu_ns, METRICS_MAX_ROWS * 30);
    arena_release(&w.a);
}

static void test_master_metrics__wrong_questions(void **state)
{
    (void)state;
    struct world w;
    assert_int_equal(metrics(&w, "/m3", ""), IPS_E_NOT_FOUND);
    arena_release(&w.a);
    assert_int_equal(metrics(&w, "/m1/a", ""), IPS_E_NOT_FOUND);
    arena_release(&w.a);
    assert_int_equal(metrics(&w, "", "procedure"), IPS_E_USAGE);
    arena_release(&w.a);
}

/* Without --level: the object's own and the one below. Would catch: a level too
 * many or too few, a level that is none taken for one. */
static void test_master_metrics__levels(void **state)
{
    static const struct {
        const char *object, *level, *want; /* run machine process thread */
    } t[] = {
        {"/", "", "1100"},         {"", "", "1100"},
        {"/m1", "", "0110"},       {"/m1/", "", "0110"},
        {"/m1/a", "", "0011"},     {"/m1/a/7", "", "0001"},
        {"/m1/a/7/f", "", "0001"}, {"/m1/a/7/f/g", "", "0001"},
        {"/m1/a", "run", "1000"},  {"/", "machine", "0100"},
        {"/", "process", "0010"},  {"/", "thread", "0001"},
    };
    bool at[METRICS_LEVELS];
    struct ips_err err = {0};
    (void)state;
    for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++) {
        memset(at, 1, sizeof(at));
        assert_int_equal(
            metrics_parse_levels(t[i].object, t[i].level, at, &err), 0);
        for (int k = 0; k < METRICS_LEVELS; k++)
            if (at[k] != (t[i].want[k] == '1'))
                fail_msg("'%s' '%s': %d", t[i].object, t[i].level, k);
    }
    assert_int_equal(metrics_parse_levels("/", "threads", at, &err),
                     IPS_E_USAGE);
    assert_string_equal(err.msg,
                        "level threads: run, machine, process or thread");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_master_metrics__run_and_machines),
        cmocka_unit_test(test_master_metrics__matrices),
        cmocka_unit_test(test_master_metrics__shared_end_loses_nothing),
        cmocka_unit_test(test_master_metrics__end_shared_on_one_machine),
        cmocka_unit_test(test_master_metrics__windows_of_a_shared_end),
        cmocka_unit_test(test_master_metrics__lives_add_up),
        cmocka_unit_test(test_master_metrics__totals_are_marginals),
        cmocka_unit_test(test_master_metrics__pop),
        cmocka_unit_test(test_master_metrics__threads),
        cmocka_unit_test(test_master_metrics__most_rows),
        cmocka_unit_test(test_master_metrics__wrong_questions),
        cmocka_unit_test(test_master_metrics__levels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
