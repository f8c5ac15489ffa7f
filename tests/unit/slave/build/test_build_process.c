/* Processes, threads, forks, waits and what END is settled at. Each case says
 * what it would catch. Times in ns; "blocked" is 2000 ns or more. */
#include "recorder.h"

/* The root: ipsrun's own records, then the command's image. */
static rs root(struct recorder *r)
{
    rs run = rec_stream(r, 10, 10, 1);
    rec_start(run, IPS_START_ROOT, 100, 7000);
    rec_name(run, 100, "ipsrun -- /bin/cmd a");
    rec_exec(run, 200, 7300, false);
    rs s = rec_stream(r, 10, 10, 2);
    rec_start(s, IPS_START_IMAGE, 900, 7800);
    rec_name(s, 900, "/bin/cmd a");
    return s;
}

/* Would catch: ipsrun and the command as two processes; CPU before the run
 * charged to it; the command's exec and loader not charged. */
static void test_build_process__root_goes_on_over_exec(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs s = root(r);
    rec_end(s, IPS_END_EXIT, 2000, 9000, 3);
    struct ips_built *b = rec_build(r);
    assert_int_equal(b->proc_count, 1);
    assert_int_equal(b->g.chain_count, 1);
    assert_string_equal(b->procs[0].name, "cmd.10");
    assert_string_equal(b->procs[0].command, "/bin/cmd a");
    assert_string_equal(b->procs[0].end, "exit 3");
    assert_true(b->procs[0].root);
    assert_false(b->procs[0].open);
    assert_int_equal(b->procs[0].cpu_ns, 2000);
    assert_int_equal(b->goal_elapsed_ns, 1900);
    assert_int_equal(b->g.w[0], 0);
    assert_int_equal(b->g.kind[rec_last(b, 10)], IPS_NODE_END);
    rec_free(r);
}

/* Would catch: an exec that failed taken for one; a reused pid glued to the
 * process before. */
static void test_build_process__exec_that_failed_and_pid_reuse(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs s = rec_stream(r, 10, 10, 1);
    rec_start(s, IPS_START_FORK, 100, 0);
    rec_exec(s, 200, 10, false);
    rec_exec(s, 210, 10, true);
    rs t = rec_stream(r, 10, 10, 2);
    rec_start(t, IPS_START_IMAGE, 900, 5);
    struct ips_built *b = rec_build(r);
    assert_int_equal(b->proc_count, 2);
    assert_string_equal(b->procs[0].name, "comm.10");
    assert_string_equal(b->procs[1].name, "comm.10#2");
    assert_false(b->procs[0].open); /* its pid is another's */
    assert_true(b->procs[1].open);
    assert_string_equal(b->procs[1].end, "running");
    rec_free(r);
}

/* Would catch: exec by a thread that is not the first losing that thread's
 * chain; the dead main thread kept as the main one. */
static void test_build_process__exec_by_another_thread(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs s = rec_stream(r, 10, 10, 1);
    rec_start(s, IPS_START_ROOT, 100, 0);
    rec_fork(s, IPS_FORK_THREAD, 150, 150, 20, 20, 0, 1);
    rs t = rec_stream(r, 10, 11, 1);
    rec_start(t, IPS_START_THREAD, 160, 0)->fork_seq = 1;
    rec_exec(t, 300, 40, false);
    rs u = rec_stream(r, 10, 10, 2);
    rec_start(u, IPS_START_IMAGE, 400, 90);
    rec_end(u, IPS_END_EXIT, 500, 140, 0);
    struct ips_built *b = rec_build(r);
    assert_int_equal(b->proc_count, 1);
    assert_int_equal(b->g.chain_count, 2);
    assert_int_equal(b->g.chains[0].thread, 0);
    assert_int_equal(b->threads[0].cpu_ns, 140); /* the thread that survived */
    assert_int_equal(b->threads[1].cpu_ns, 20);
    assert_arc(b, b->g.chains[0].first, b->g.chains[1].first + 1,
               IPS_X_LIFETIME);
    rec_free(r);
}

/* Would catch: FORK at the wrong coordinate (its CPU copies the child's memory:
 * the child cannot run before it, nor wait for what comes after). */
static void test_build_process__fork_and_wait(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs s = root(r);
    rec_fork(s, IPS_FORK_FORK, 1000, 9000, 8000, 9500, 20, 1);
    rs c = rec_stream(r, 20, 20, 50);
    struct ips_rec_start *start = rec_start(c, IPS_START_FORK, 1600, 0);
    start->fork_seq = 1;
    start->ppid = 10;
    start->parent_image = 2;
    rec_end(c, IPS_END_EXIT, 20000, 700, 0);
    struct ips_rec_join *j =
        rec_join(s, IPS_JOIN_WAIT, 10000, 21000, 9600, 20, 0);
    j->status = 2 << 8;
    rec_end(s, IPS_END_EXIT, 22000, 9700, 0);
    struct ips_built *b = rec_build(r);
    uint32_t fork = rec_kind(b, 10, IPS_NODE_FORK, 0);
    uint32_t join = rec_kind(b, 10, IPS_NODE_JOIN, 0);
    assert_int_equal(rec_coord(b, fork), 1000 + 600);
    assert_arc(b, rec_node(b, 20, 0), fork, IPS_X_LIFETIME);
    assert_arc(b, join, rec_last(b, 20), IPS_X_LIFETIME);
    assert_int_equal(rec_coord(b, join), 2600);
    assert_int_equal(rec_proc(b, 20)->parent, 0);
    assert_string_equal(rec_proc(b, 20)->end, "exit 2");
    assert_string_equal(rec_proc(b, 20)->command, "/bin/cmd a");
    uint32_t main = rec_chain(b, 10);
    assert_int_equal(b->threads[main].wait_ns[IPS_WAIT_CHILD], 11000);
    assert_int_equal(b->counts.untraced, 0);
    rec_free(r);
}

/* Would catch: a vforked or spawned child without parent or arcs; the parent's
 * return not waiting for the child's exec; CPU of exec and loader lost. */
static void test_build_process__spawned_child(void **state)
{
    (void)state;
    const enum ips_fork_kind kinds[] = {IPS_FORK_VFORK, IPS_FORK_SPAWN};
    for (int k = 0; k < 2; k++) {
        struct recorder *r = rec_new();
        rs s = root(r);
        rec_fork(s, kinds[k], 1000, 5000, 8000, 8200, 20, 1);
        rec_end(s, IPS_END_EXIT, 90000, 8300, 0);
        rs c = rec_stream(r, 20, 20, 50);
        rec_start(c, IPS_START_IMAGE, 6000, 4500)->ppid = 10;
        rec_end(c, IPS_END_EXIT, 80000, 9000, 0);
        struct ips_built *b = rec_build(r);
        uint32_t fork = rec_kind(b, 10, IPS_NODE_FORK, 0);
        assert_int_equal(rec_coord(b, fork), 1000);
        assert_int_equal(b->g.kind[fork + 1], IPS_NODE_AUX);
        assert_int_equal(rec_coord(b, fork + 1), 1200);
        assert_arc(b, rec_node(b, 20, 0), fork, IPS_X_LIFETIME);
        uint32_t aux = rec_node(b, 20, 1);
        assert_int_equal(b->g.kind[aux], IPS_NODE_AUX);
        assert_int_equal(rec_coord(b, aux), 4000); /* not after the return */
        assert_arc(b, fork + 1, aux, IPS_X_LIFETIME);
        assert_int_equal(b->threads[rec_chain(b, 20)].cpu_ns, 9000);
        assert_int_equal(rec_proc(b, 20)->parent, 0);
        rec_free(r);
    }
}

/* The process `pid` of that pid namespace, and its chain's ends. */
static uint32_t proc_in(const struct ips_built *b, uint64_t pidns, uint32_t pid)
{
    for (uint32_t i = 0; i < b->proc_count; i++)
        if (b->procs[i].pidns == pidns && b->procs[i].pid == pid)
            return i;
    fail_msg("no process %u of namespace %llu", pid, (unsigned long long)pidns);
    return 0;
}
static uint32_t node_of(const struct ips_built *b, uint32_t proc,
                        enum ips_node_kind kind)
{
    const struct ips_chain *c = &b->g.chains[b->procs[proc].first_chain];
    for (uint32_t i = c->first; i < c->first + c->count; i++)
        if (b->g.kind[i] == kind)
            return i;
    fail_msg("process %u has no node of kind %d", proc, (int)kind);
    return 0;
}

/* Two containers side by side, all pids equal. Would catch: a child or the end
 * of a wait taken from the other namespace, and a child of the one in whose way
 * the other's is. */
static void test_build_process__equal_pids_in_two_namespaces(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    for (uint64_t ns = 1; ns <= 2; ns++) { /* the second is ahead in all */
        rs s = rec_stream(r, 10, 10, 100 + ns);
        s->head.pidns = ns;
        rec_start(s, IPS_START_IMAGE, 900 + ns, 0);
        rec_fork(s, IPS_FORK_SPAWN, 1000 + 50 * ns, 1060 + 50 * ns, 10, 10, 20,
                 1);
        rec_join(s, IPS_JOIN_WAIT, 2200, 15000, 20, 20, 0);
        rec_end(s, IPS_END_EXIT, 16000, 30, 0);
    }
    for (uint64_t ns = 1; ns <= 2; ns++) {
        rs c = rec_stream(r, 20, 20, 200 + ns);
        c->head.pidns = ns;
        rec_start(c, IPS_START_IMAGE, ns == 1 ? 1500 : 1250, 10);
        rec_end(c, IPS_END_EXIT, ns == 1 ? 9000 : 14000, 500 * ns, 0);
    }
    struct ips_built *b = rec_build(r);
    assert_int_equal(b->proc_count, 4);
    for (uint64_t ns = 1; ns <= 2; ns++) {
        uint32_t parent = proc_in(b, ns, 10), child = proc_in(b, ns, 20);
        const struct ips_chain *c = &b->g.chains[b->procs[child].first_chain];
        assert_int_equal(b->procs[child].parent, parent);
        assert_arc(b, c->first, node_of(b, parent, IPS_NODE_FORK),
                   IPS_X_LIFETIME);
        assert_arc(b, node_of(b, parent, IPS_NODE_JOIN),
                   c->first + c->count - 1, IPS_X_LIFETIME);
    }
    rec_free(r);
}

/* Would catch: a pid used twice joined to the wrong FORK or wait. */
static void test_build_process__two_children_of_one_pid(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs s = root(r);
    rec_fork(s, IPS_FORK_SPAWN, 1000, 1100, 8000, 8000, 20, 1);
    rec_join(s, IPS_JOIN_WAIT, 1200, 9000, 8000, 20, 0);
    rec_fork(s, IPS_FORK_SPAWN, 10000, 10100, 8000, 8000, 20, 2);
    rec_join(s, IPS_JOIN_WAIT, 10200, 19000, 8000, 20, 0);
    rs c = rec_stream(r, 20, 20, 50), d = rec_stream(r, 20, 20, 60);
    rec_start(c, IPS_START_IMAGE, 1150, 10);
    rec_end(c, IPS_END_EXIT, 8000, 500, 0);
    rec_start(d, IPS_START_IMAGE, 10150, 10);
    rec_end(d, IPS_END_EXIT, 18000, 600, 0);
    struct ips_built *b = rec_build(r);
    for (uint32_t k = 0; k < 2; k++) {
        uint32_t chain = b->procs[1 + k].first_chain;
        const struct ips_chain *c2 = &b->g.chains[chain];
        assert_arc(b, c2->first, rec_kind(b, 10, IPS_NODE_FORK, k),
                   IPS_X_LIFETIME);
        assert_arc(b, rec_kind(b, 10, IPS_NODE_JOIN, k),
                   c2->first + c2->count - 1, IPS_X_LIFETIME);
    }
    rec_free(r);
}

/* Would catch: the shells of popen and system without parent, or exchanged. */
static void test_build_process__popen_and_system_by_order(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs s = root(r);
    /* The first never speaks: it has returned before the next begins. */
    rec_fork(s, IPS_FORK_SYSTEM, 1000, 1000, 8000, 8000, 0, 1);
    rec_join(s, IPS_JOIN_SYSTEM, 1000, 3000, 8000, 0, 1);
    rec_fork(s, IPS_FORK_SYSTEM, 4000, 4000, 8100, 8100, 0, 2);
    rec_join(s, IPS_JOIN_SYSTEM, 4000, 9000, 8100, 0, 2);
    rec_fork(s, IPS_FORK_POPEN, 10000, 11000, 8200, 8300, 0, 3);
    rec_join(s, IPS_JOIN_SYSTEM, 12000, 15000, 8400, 0, 3);
    rs c = rec_stream(r, 20, 20, 50), d = rec_stream(r, 21, 21, 60);
    rec_start(c, IPS_START_IMAGE, 5000, 10)->ppid = 10;
    rec_end(c, IPS_END_EXIT, 8000, 500, 0);
    rec_start(d, IPS_START_IMAGE, 11100, 10)->ppid = 10;
    rec_end(d, IPS_END_EXIT, 14000, 500, 0);
    struct ips_built *b = rec_build(r);
    assert_arc(b, rec_node(b, 20, 0), rec_kind(b, 10, IPS_NODE_FORK, 1),
               IPS_X_LIFETIME);
    assert_arc(b, rec_kind(b, 10, IPS_NODE_JOIN, 1), rec_last(b, 20),
               IPS_X_LIFETIME);
    assert_no_arc(b, rec_kind(b, 10, IPS_NODE_JOIN, 0));
    uint32_t popen = rec_kind(b, 10, IPS_NODE_FORK, 2);
    assert_arc(b, rec_node(b, 21, 0), popen, IPS_X_LIFETIME);
    assert_arc(b, popen + 1, rec_node(b, 21, 1), IPS_X_LIFETIME);
    assert_arc(b, rec_kind(b, 10, IPS_NODE_JOIN, 2), rec_last(b, 21),
               IPS_X_LIFETIME);
    assert_int_equal(b->counts.untraced, 1);
    rec_free(r);
}

/* Would catch: the daemon of a double fork lost when its parent is gone. */
static void test_build_process__double_fork(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs s = root(r);
    rec_fork(s, IPS_FORK_FORK, 1000, 1100, 8000, 8000, 20, 1);
    rs c = rec_stream(r, 20, 20, 50), d = rec_stream(r, 21, 21, 60);
    struct ips_rec_start *start = rec_start(c, IPS_START_FORK, 1050, 0);
    start->fork_seq = 1;
    start->parent_image = 2;
    start->ppid = 10;
    rec_fork(c, IPS_FORK_FORK, 2000, 2100, 100, 100, 21, 1);
    rec_end(c, IPS_END_EXIT, 2200, 150, 0);
    start = rec_start(d, IPS_START_FORK, 2300, 0);
    start->fork_seq = 1;
    start->parent_image = 50;
    start->ppid = 20;
    struct ips_built *b = rec_build(r);
    assert_int_equal(rec_proc(b, 21)->parent,
                     (uint32_t)(rec_proc(b, 20) - b->procs));
    assert_arc(b, rec_node(b, 21, 0), rec_kind(b, 20, IPS_NODE_FORK, 0),
               IPS_X_LIFETIME);
    assert_true(rec_proc(b, 21)->open);
    assert_true(b->open);
    rec_free(r);
}

/* Would catch: threads joined to the wrong START or END. */
static void test_build_process__threads(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs s = root(r);
    rec_fork(s, IPS_FORK_THREAD, 1000, 1010, 8000, 8004, 0, 5);
    rec_fork(s, IPS_FORK_THREAD, 1020, 1030, 8010, 8014, 0, 6);
    rec_join(s, IPS_JOIN_THREAD, 2000, 30000, 8100, 0, 6);
    rec_join(s, IPS_JOIN_THREAD, 30000, 30000, 8100, 0, 5);
    rec_end(s, IPS_END_EXIT, 31000, 8200, 0);
    for (uint32_t k = 0; k < 2; k++) {
        rs t = rec_stream(r, 10, 12 - k, 2);
        struct ips_rec_start *st = rec_start(t, IPS_START_THREAD, 1040 + k, 0);
        if (k) /* a signal's handler came first */
            st = rec_start(t, IPS_START_KNOWN, 1045, 1);
        st->fork_seq = 6 - k;
        rec_name(t, 1050, k ? "one" : "two");
        rec_end(t, IPS_END_THREAD, 29000 - k, 100 + k, 0);
    }
    struct ips_built *b = rec_build(r);
    for (uint32_t k = 0; k < 2; k++) {
        assert_arc(b, rec_node(b, 11 + k, 0), rec_kind(b, 10, IPS_NODE_FORK, k),
                   IPS_X_LIFETIME);
        assert_arc(b, rec_kind(b, 10, IPS_NODE_JOIN, 1 - k),
                   rec_last(b, 11 + k), IPS_X_LIFETIME);
    }
    assert_string_equal(b->threads[rec_chain(b, 11)].name, "one");
    assert_int_equal(b->procs[0].chain_count, 3);
    assert_int_equal(b->procs[0].cpu_ns, 1200 + 100 + 101);
    assert_int_equal(b->counts.untraced, 0);
    rec_free(r);
}

/* Would catch: the wait for a process that a second thread ended depending on
 * its sleeping main thread. */
static void test_build_process__exit_by_another_thread(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs s = root(r);
    rec_fork(s, IPS_FORK_SPAWN, 1000, 1100, 8000, 8000, 20, 1);
    rec_join(s, IPS_JOIN_WAIT, 1200, 9000, 8000, 20, 0);
    rs c = rec_stream(r, 20, 20, 50), t = rec_stream(r, 20, 21, 50);
    rec_start(c, IPS_START_IMAGE, 1150, 10);
    rec_fork(c, IPS_FORK_THREAD, 1200, 1200, 20, 20, 0, 1);
    rec_start(t, IPS_START_THREAD, 1300, 0)->fork_seq = 1;
    rec_end(t, IPS_END_PROVISIONAL, 8000, 6000, 0);
    struct ips_built *b = rec_build(r);
    assert_arc(b, rec_kind(b, 10, IPS_NODE_JOIN, 0), rec_last(b, 21),
               IPS_X_LIFETIME);
    assert_false(rec_proc(b, 20)->open);
    rec_free(r);
}

/* Would catch: CPU after the last record lost (a killed process, a thread that
 * dies with its process), or charged where there was no time for it. */
static void test_build_process__settled_end(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs s = root(r);
    rec_fork(s, IPS_FORK_SPAWN, 1000, 1100, 8000, 8000, 20, 1);
    struct ips_rec_join *j =
        rec_join(s, IPS_JOIN_WAIT, 1200, 20000, 8000, 20, 0);
    j->child_cpu_ns = 9000;
    j->status = 9;
    rs c = rec_stream(r, 20, 20, 50), t = rec_stream(r, 20, 21, 50);
    rec_start(c, IPS_START_IMAGE, 1150, 10);
    rec_fork(c, IPS_FORK_THREAD, 1200, 1200, 20, 20, 0, 1);
    j = rec_join(c, IPS_JOIN_WAIT, 1300, 1400, 30, 77, 0);
    j->child_cpu_ns = 2000; /* what it waited for is not its own */
    rec_threadcpu(c, 1500, 21, 800);
    rec_send(c, 0, 15000, 1000, 1);
    rec_start(t, IPS_START_THREAD, 1300, 0)->fork_seq = 1;
    struct ips_built *b = rec_build(r);
    assert_string_equal(rec_proc(b, 20)->end, "signal 9");
    assert_int_equal(rec_proc(b, 20)->end_ns, 20000);
    assert_int_equal(rec_proc(b, 20)->rusage_cpu_ns, 7000);
    assert_int_equal(b->threads[rec_chain(b, 21)].cpu_ns, 800);
    /* In its call until somebody read its clock; its records end before. */
    assert_int_equal(b->threads[rec_chain(b, 21)].end_ns, 1500);
    /* 7000 - 800 = 6200; 1000 recorded; 5200 more, but 5000 ns of time. */
    assert_int_equal(b->threads[rec_chain(b, 20)].cpu_ns, 6000);
    assert_int_equal(rec_proc(b, 20)->unattributed_ns, 200);
    assert_int_equal(b->counts.unattributed_ns, 200);
    rec_free(r);
}

/* Would catch: what a writer computed since its last record left out where an
 * end-of-file depends on its death, because its parent's wait reports more CPU
 * than there was time for before the end-of-file. */
static void test_build_process__computing_before_death(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs s = root(r);
    rec_pipe(s, 1, 2, IPS_SIDE_READ, 5);
    rec_fork(s, IPS_FORK_FORK, 1000, 1100, 100, 100, 20, 1);
    rec_recv(s, 1, 2000, 400030, 200, 0); /* the end-of-file */
    struct ips_rec_join *j =
        rec_join(s, IPS_JOIN_WAIT, 900000, 900100, 300200, 20, 0);
    j->child_cpu_ns = 300500;
    rs c = rec_stream(r, 20, 20, 1050);
    struct ips_rec_start *start = rec_start(c, IPS_START_FORK, 1150, 0);
    start->fork_seq = 1;
    start->ppid = 10;
    start->parent_image = s->head.image_stamp;
    rec_pipe(c, 1, 2, IPS_SIDE_WRITE, 5);
    rec_end(c, IPS_END_EXIT, 400000, 300000, 0);
    struct ips_built *b = rec_build(r);
    uint32_t eof = rec_kind(b, 10, IPS_NODE_RECV, 0), end = rec_last(b, 20);
    assert_arc(b, eof, end, IPS_X_LIFETIME);
    assert_int_equal(rec_coord(b, end), 300030);
    rec_free(r);
}

/* Would catch: a stopped child taken for one that ended. */
static void test_build_process__stopped_child_is_no_end(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs s = root(r);
    rec_fork(s, IPS_FORK_SPAWN, 1000, 1100, 8000, 8000, 20, 1);
    rec_join(s, IPS_JOIN_WAIT, 1200, 1500, 8000, 20, 0)->status = 0x137f;
    rs c = rec_stream(r, 20, 20, 50);
    rec_start(c, IPS_START_IMAGE, 1150, 10);
    struct ips_built *b = rec_build(r);
    assert_no_arc(b, rec_kind(b, 10, IPS_NODE_JOIN, 0));
    assert_true(rec_proc(b, 20)->open);
    rec_free(r);
}

/* Would catch: an image of tasks alone given a main thread, or tasks glued to
 * one chain. */
static void test_build_process__tasks_alone(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    for (uint32_t k = 1; k <= 3; k++) {
        rs t = rec_stream(r, 20, k, 50);
        t->head.flags = IPS_SEGMENT_TASK;
        rec_start(t, IPS_START_TASK, 100 + k, 5);
        rec_end(t, IPS_END_TASK, 200, 30 + k, 0);
    }
    struct ips_built *b = rec_build(r);
    assert_int_equal(b->proc_count, 1);
    assert_int_equal(b->g.chain_count, 3);
    assert_int_equal(b->procs[0].cpu_ns, 26 + 27 + 28);
    assert_int_equal(b->counts.events, 6);
    assert_int_equal(b->procs[0].events, 6);
    rec_free(r);
}

/* Would catch: an open run without ENDs, or said to be closed. */
static void test_build_process__open_run(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs s = root(r);
    rec_pipe(s, 1, 1000, IPS_SIDE_READ, 5);
    rec_pipe(s, 2, 1000, IPS_SIDE_WRITE, 5);
    rec_recv(s, 1, 1100, 1200, 8000, 10); /* its send is still in the pool */
    struct ips_built *b = rec_build(r);
    assert_true(b->open);
    assert_int_equal(b->g.kind[rec_last(b, 10)], IPS_NODE_END);
    assert_int_equal(b->counts.pending, 1);
    assert_int_equal(b->counts.unmatched, 0);
    assert_int_equal(b->procs[0].end_ns, 0);
    r->s[1].dead = true;
    b = rec_build(r);
    assert_false(b->open);
    assert_int_equal(b->counts.pending, 0);
    assert_int_equal(b->counts.unmatched, 1);
    rec_free(r);
}

/* Would catch: a cycle left in, or a whole run refused for one bad arc. */
static void cycle(uint32_t early, uint32_t late)
{
    struct recorder *r = rec_new();
    rs a = rec_stream(r, early, early, 1), b1 = rec_stream(r, late, late, 2);
    rec_start(a, IPS_START_IMAGE, 1, 0);
    rec_start(b1, IPS_START_IMAGE, 1, 0);
    rec_pipe(a, 1, 2, IPS_SIDE_READ, 5);
    rec_pipe(a, 2, 2, IPS_SIDE_WRITE, 6);
    rec_pipe(b1, 1, 2, IPS_SIDE_READ, 6);
    rec_pipe(b1, 2, 2, IPS_SIDE_WRITE, 5);
    rec_recv(a, 1, 100, 100, 10, 1); /* each receives before it sends */
    rec_send(a, 2, 200, 20, 1);
    rec_recv(b1, 1, 100, 100, 10, 1);
    rec_send(b1, 2, 300, 20, 1);
    struct ips_built *b = rec_build(r);
    assert_int_equal(b->counts.ambiguous, 1);
    /* The one that goes back further in time went. */
    assert_no_arc(b, rec_kind(b, early, IPS_NODE_RECV, 0));
    assert_arc(b, rec_kind(b, late, IPS_NODE_RECV, 0),
               rec_kind(b, early, IPS_NODE_SEND, 0), IPS_X_DATA);
    rec_longest(b, 1, IPS_EXTERNAL_REPLY);
    rec_free(r);
}

static void test_build_process__cycle_costs_one_arc(void **state)
{
    (void)state;
    cycle(10, 11);
    cycle(11, 10);
}

/* Would catch: what reuses a pid joined to an older FORK, wait or exec of it.
 */
static void test_build_process__reused_pid_without_its_records(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs s = root(r);
    rec_fork(s, IPS_FORK_SPAWN, 1000, 1100, 8000, 8000, 20, 1); /* silent */
    rec_fork(s, IPS_FORK_SPAWN, 5000, 5100, 8000, 8000, 20, 2);
    rs c = rec_stream(r, 20, 20, 50), d = rec_stream(r, 20, 20, 60);
    rec_start(c, IPS_START_IMAGE, 5200, 10);
    rec_exec(c, 6000, 100, false); /* into something silent */
    struct ips_rec_start *st = rec_start(d, IPS_START_FORK, 9000, 0);
    st->ppid = 10; /* its FORK was lost */
    rs o = rec_stream(r, 30, 30, 70);
    rec_start(o, IPS_START_IMAGE, 100, 0);
    rec_join(o, IPS_JOIN_WAIT, 7000, 8000, 5, 20, 0); /* got it by adoption */
    struct ips_built *b = rec_build(r);
    assert_int_equal(b->proc_count, 4);
    const struct ips_proc *first = rec_proc(b, 20);
    uint32_t start = b->g.chains[first->first_chain].first;
    assert_int_equal(first->start_ns, 5200);
    assert_arc(b, start, rec_kind(b, 10, IPS_NODE_FORK, 1), IPS_X_LIFETIME);
    assert_arc(b, rec_kind(b, 30, IPS_NODE_JOIN, 0),
               start + b->g.chains[first->first_chain].count - 1,
               IPS_X_LIFETIME);
    for (uint32_t p = 0; p < b->proc_count; p++)
        if (b->procs[p].start_ns == 9000) {
            assert_no_arc(b, b->g.chains[b->procs[p].first_chain].first);
            assert_int_equal(b->procs[p].parent, rec_proc(b, 10) - b->procs);
        }
    assert_int_equal(b->counts.untraced, 2); /* the exec went nowhere, too */
    rec_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_build_process__root_goes_on_over_exec),
        cmocka_unit_test(test_build_process__exec_that_failed_and_pid_reuse),
        cmocka_unit_test(test_build_process__exec_by_another_thread),
        cmocka_unit_test(test_build_process__fork_and_wait),
        cmocka_unit_test(test_build_process__spawned_child),
        cmocka_unit_test(test_build_process__equal_pids_in_two_namespaces),
        cmocka_unit_test(test_build_process__two_children_of_one_pid),
        cmocka_unit_test(test_build_process__popen_and_system_by_order),
        cmocka_unit_test(test_build_process__double_fork),
        cmocka_unit_test(test_build_process__threads),
        cmocka_unit_test(test_build_process__exit_by_another_thread),
        cmocka_unit_test(test_build_process__settled_end),
        cmocka_unit_test(test_build_process__computing_before_death),
        cmocka_unit_test(test_build_process__stopped_child_is_no_end),
        cmocka_unit_test(test_build_process__tasks_alone),
        cmocka_unit_test(test_build_process__open_run),
        cmocka_unit_test(test_build_process__cycle_costs_one_arc),
        cmocka_unit_test(test_build_process__reused_pid_without_its_records),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
