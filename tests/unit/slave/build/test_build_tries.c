/* Tries that end when something is gone, and tries that children make. Each
 * case says what it would catch. */
#include <errno.h>

#include "recorder.h"

#define WAITED(b, tid, cause) ((b)->threads[rec_chain(b, tid)].wait_ns[cause])
#define AUX_OF(b, tid, n) rec_kind(b, tid, IPS_NODE_AUX, n)
#define TRIED 2 /* value of an ACQUIRE */
enum { TAKEN = 1, FREED = 2 };

static struct ips_rec_io *put(rs s, enum ips_op op, uint64_t t, uint64_t t_ret,
                              uint64_t cpu, int64_t result)
{
    struct ips_rec_io *r =
        rec_io(s, IPS_REC_BLOCK, 0, t, t_ret, cpu, cpu, result);
    r->op = (uint16_t)op;
    return r;
}

static rs process(struct recorder *r, uint32_t pid)
{
    rs s = rec_stream(r, pid, pid, pid);
    rec_start(s, IPS_START_IMAGE, pid, 0);
    return s;
}

/* A record about `name` in `directory`. */
static void put_name(rs s, enum ips_rec_type type, uint64_t t, uint64_t cpu,
                     uint64_t name, uint64_t directory, int value)
{
    struct ips_rec_sync *r = rec_put(s, type, sizeof(*r), IPS_SYNC_WATCH, t);
    r->t_ret = t + 10;
    r->cpu = r->cpu_ret = cpu;
    r->ino = name;
    r->object = directory;
    r->value = value;
}

/* The try that succeeds at 9000: name 5 in directory 70 is free. The last one
 * that failed was at 8000. */
static void put_success(rs s)
{
    put_name(s, IPS_REC_ACQUIRE, 8000, 30, 5, 70, TRIED);
    ((struct ips_rec_sync *)(void *)(s->data + s->len -
                                     sizeof(struct ips_rec_sync)))
        ->t_ret = 9000;
}

/* 20 tries from 1000 on and succeeds at 9000, with a nap between. */
static rs tries(struct recorder *r)
{
    rs p = process(r, 20);
    put(p, IPS_OP_SLEEP, 1100, 8900, 20, 0);
    rec_io(p, IPS_REC_BLOCK, 0, 1000, 9000, 20, 30, 2)->op = IPS_OP_RETRY;
    return p;
}

/* Would catch: tries until a name is free without the arc from who freed it;
 * naps that weigh as sleeps; an arc from a removal of the same name in another
 * directory, of another name, from a creation, or from before the last try. */
static void test_build_tries__until_a_name_is_free(void **state)
{
    (void)state;
    static const struct {
        uint64_t name, directory, t;
        int value;
        bool frees;
    } cases[] = {
        {5, 70, 8800, FREED, true},  {5, 0, 8800, FREED, true},
        {5, 71, 8800, FREED, false}, {6, 70, 8800, FREED, false},
        {5, 70, 8800, TAKEN, false}, {5, 70, 7900, FREED, false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct recorder *r = rec_new();
        rs w = process(r, 10), p = tries(r);
        put_name(w, IPS_REC_RELEASE, cases[i].t, 400, cases[i].name,
                 cases[i].directory, cases[i].value);
        put_name(w, IPS_REC_RELEASE, 8850, 401, 5, 72, FREED);
        rec_end(w, IPS_END_EXIT, 9900, 402, 0);
        put_success(p);
        rec_end(p, IPS_END_EXIT, 20000, 60, 0);
        struct ips_built *b = rec_alone(r);
        const bool frees = cases[i].frees;
        assert_int_equal(b->counts.external, !frees);
        assert_int_equal(WAITED(b, 20, IPS_WAIT_SPIN), frees ? 7800 : 0);
        assert_int_equal(WAITED(b, 20, IPS_WAIT_TIMER), frees ? 0 : 7800);
        if (frees) {
            assert_arc(b, AUX_OF(b, 20, 0), AUX_OF(b, 10, 0), IPS_X_RESOURCE);
            assert_int_equal(rec_longest(b, 0, IPS_EXTERNAL_REPLY).t_max, 430);
        }
        rec_free(r);
    }
}

/* A child of `parent`, forked at `t`, that has `cpu` of CPU time. */
static rs child(struct recorder *r, rs parent, uint32_t pid, uint64_t t)
{
    rec_fork(parent, IPS_FORK_FORK, t, t + 10, 20, 20, pid, pid);
    rs c = rec_stream(r, pid, pid, pid);
    struct ips_rec_start *s = rec_start(c, IPS_START_FORK, t + 5, 0);
    s->fork_seq = pid;
    s->parent_image = parent->head.image_stamp;
    return c;
}

/* Would catch: a test that a process is gone without an arc from its end, or
 * from its parent's wait if that came later; an arc from a wait that came only
 * after the test, or from a process that lived on (then it had the pid later).
 */
static void test_build_tries__until_a_process_is_gone(void **state)
{
    (void)state;
    enum { ENDED, REAPED, REAPED_LATE, LIVES, WAYS };
    for (int way = 0; way < WAYS; way++) {
        struct recorder *r = rec_new();
        rs a = process(r, 10), c = child(r, a, 30, 50), p = tries(r);
        rec_end(c, IPS_END_EXIT, way == LIVES ? 9600 : 6000, 300, 0);
        if (way == REAPED || way == REAPED_LATE) {
            uint64_t t = way == REAPED ? 8000 : 9500;
            rec_join(a, IPS_JOIN_WAIT, t, t + 10, 500, 30, 0);
        }
        rec_end(a, IPS_END_EXIT, 9900, 510, 0);
        rec_join(p, IPS_JOIN_GONE, 9000, 9010, 30, 30, 0);
        rec_end(p, IPS_END_EXIT, 20000, 60, 0);
        struct ips_built *b = rec_alone(r);
        uint32_t gone = AUX_OF(b, 20, 0);
        if (way == LIVES) {
            assert_int_equal(b->g.xkind[rec_last(b, 20) - 1], IPS_X_NONE);
            assert_int_equal(WAITED(b, 20, IPS_WAIT_SPIN), 0);
            rec_free(r);
            continue;
        }
        assert_arc(b, gone,
                   way == REAPED ? rec_kind(b, 10, IPS_NODE_JOIN, 0)
                                 : rec_last(b, 30),
                   IPS_X_LIFETIME);
        assert_int_equal(WAITED(b, 20, IPS_WAIT_SPIN), 7800);
        assert_int_equal(b->counts.external, 0);
        rec_free(r);
    }
}

/* Would catch: naps of a thread that itself set in motion what it then waits
 * for (by a signal, a fork, a message, a close), which count as naps although
 * nobody worked on it yet; those after it not counted; a signal or message to
 * another process, or a fork of another one, taken for that. 20 naps twice, and
 * acts in between; 10, or its child 30, frees the name. */
static void test_build_tries__own_part(void **state)
{
    (void)state;
    /* LAST: the successful try is itself such a record, as a connect is */
    enum { KILLS, FORKS, SENDS, CLOSES, LAST, ACTS };
    for (int act = 0; act < ACTS; act++)
        for (int concerns = 0; concerns < 2; concerns++) {
            bool counts = concerns && act != LAST;
            struct recorder *r = rec_new();
            rs w = process(r, 10), other = process(r, 40), p = process(r, 20);
            rec_pipe(p, 1, 5, IPS_SIDE_WRITE, 7);
            rec_pipe(concerns ? w : other, 1, 5, IPS_SIDE_READ, 7);
            put(p, IPS_OP_SLEEP, 1100, 4900, 20, 0);
            if (act == KILLS) {
                struct ips_rec_signal *k =
                    rec_put(p, IPS_REC_KILL, sizeof(*k), 10, 5000);
                k->pid = concerns ? 10 : 40;
                k->cpu = 20;
            }
            if (act == SENDS)
                rec_send(p, 1, 5000, 20, 5);
            if (act == CLOSES)
                rec_close(p, 1, 5000, 20, IPS_CLOSE_FD);
            rs c = act == FORKS ? child(r, p, 30, 5000) : NULL;
            put(p, IPS_OP_SLEEP, 5200, 8900, 20, 0);
            rec_io(p, IPS_REC_BLOCK, 0, 1000, 9000, 20, 30, 2)->op =
                IPS_OP_RETRY;
            put_success(p);
            if (act == LAST)
                rec_send(p, 1, 9000, 30, 5);
            rec_end(p, IPS_END_EXIT, 20000, 60, 0);
            put_name(c && concerns ? c : w, IPS_REC_RELEASE, 8800, 10, 5, 70,
                     FREED);
            rec_end(w, IPS_END_EXIT, 9900, 402, 0);
            rec_end(other, IPS_END_EXIT, 9900, 402, 0);
            if (c)
                rec_end(c, IPS_END_EXIT, 9900, 402, 0);
            struct ips_built *b = rec_alone(r);
            assert_int_equal(b->counts.external, counts);
            assert_int_equal(WAITED(b, 20, IPS_WAIT_SPIN),
                             counts ? 3700 : 3700 + 3800);
            rec_free(r);
        }
}

/* ---- tries by children ---- */

struct loop {
    struct recorder *r;
    rs shell;
    uint64_t t;
    uint32_t pid;
};

/* The shell runs `command` from y->t to y->t + 100, which ends with `status`.
 */
static rs run(struct loop *y, const char *command, uint32_t status)
{
    rs c = child(y->r, y->shell, y->pid, y->t);
    if (*command)
        rec_name(c, y->t + 6, command);
    rec_end(c, IPS_END_EXIT, y->t + 90, 3, status);
    rec_join(y->shell, IPS_JOIN_WAIT, y->t + 20, y->t + 100, 20, y->pid++, 0)
        ->status = status << 8;
    y->t += 100;
    return c;
}

/* The shell runs sleep(1), for 10000. */
static void nap(struct loop *y)
{
    rs c = child(y->r, y->shell, y->pid, y->t);
    rec_name(c, y->t + 6, "sleep 1");
    put(c, IPS_OP_SLEEP, y->t + 10, y->t + 9990, 2, 0);
    rec_end(c, IPS_END_EXIT, y->t + 9995, 3, 0);
    rec_join(y->shell, IPS_JOIN_WAIT, y->t + 20, y->t + 10000, 20, y->pid++, 0);
    y->t += 10000;
}

static struct loop begin_loop(void)
{
    struct loop y = {.r = rec_new(), .t = 100, .pid = 100};
    y.shell = process(y.r, 20);
    return y;
}

static struct ips_built *end_loop(struct loop *y)
{
    rec_end(y->shell, IPS_END_EXIT, y->t + 1000, 60, 0);
    return rec_alone(y->r);
}

/* Would catch: naps between tries by children that count as sleeps, or that
 * nobody reports; a loop of other work, whose results stay the same, or whose
 * commands differ or are not known, taken for tries; a pipeline whose parts end
 * in another order. */
static void test_build_tries__by_children(void **state)
{
    (void)state;
    static const struct {
        const char *first, *second; /* commands of a round */
        uint32_t failed, done;      /* status of `second` */
        const char *last;           /* what `second` is in the last round */
        bool tries;
    } cases[] = {
        {NULL, "curl x", 7, 0, "curl x", true},
        {NULL, "pgrep x", 0, 1, "pgrep x", true},
        {NULL, "work", 0, 0, "work", false},
        {NULL, "a", 1, 0, "b", false},
        {NULL, "", 1, 0, "", false},
        {"curl x", "grep y", 1, 0, "grep y", true},
        {"curl x", "grep y", 0, 0, "grep y", false},
        {"date", "grep y", 1, 0, "grep y", true},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct loop y = begin_loop();
        for (int round = 0; round < 3; round++) {
            /* in the last round, date does not run any more */
            bool logs = cases[i].first && strcmp(cases[i].first, "date") == 0;
            if (cases[i].first && round == 0)
                run(&y, cases[i].first, 0);
            run(&y, round < 2 ? cases[i].second : cases[i].last,
                round < 2 ? cases[i].failed : cases[i].done);
            if (cases[i].first && round > 0 && !(logs && round == 2))
                run(&y, cases[i].first, 0);
            if (round < 2)
                nap(&y);
        }
        struct ips_built *b = end_loop(&y);
        assert_int_equal(b->unended_count, cases[i].tries ? 2 : 0);
        assert_int_equal(b->counts.idle, cases[i].tries ? 2 : 0);
        assert_int_equal(b->counts.external, cases[i].tries ? 0 : 2);
        for (uint32_t k = 0; k < b->unended_count; k++)
            assert_int_equal(b->unended[k].ns, 9980);
        rec_free(y.r);
    }
}

/* Would catch: periodic work taken for tries because the result of a command
 * changes once, although the command goes on to run after each sleep. */
static void test_build_tries__that_go_on(void **state)
{
    (void)state;
    struct loop y = begin_loop();
    for (int round = 0; round < 5; round++) {
        run(&y, "check", round == 2);
        nap(&y);
    }
    struct ips_built *b = end_loop(&y);
    assert_int_equal(b->unended_count, 0);
    assert_int_equal(b->counts.external, 5);
    rec_free(y.r);
}

/* Would catch: the directory that serves as a lock without an arc from its
 * removal to the child that made it; an arc from a removal before the last try
 * that failed, or in another directory; naps reported although their end is
 * known. */
static void test_build_tries__for_a_lock_directory(void **state)
{
    (void)state;
    enum { FREES, EARLY, ELSEWHERE, WAYS };
    for (int way = 0; way < WAYS; way++) {
        struct loop y = begin_loop();
        rs w = process(y.r, 10);
        run(&y, "mkdir L", 1);
        nap(&y);
        put_name(w, IPS_REC_RELEASE, way == EARLY ? 50 : y.t - 5, 400, 5, 70,
                 FREED);
        put_name(w, IPS_REC_RELEASE, y.t - 4, 401, 6, 70, FREED);
        rec_end(w, IPS_END_EXIT, y.t + 100, 402, 0);
        rs c = child(y.r, y.shell, y.pid, y.t);
        rec_name(c, y.t + 6, "mkdir L");
        put_name(c, IPS_REC_RELEASE, y.t + 50, 2, 5, way == ELSEWHERE ? 71 : 70,
                 TAKEN);
        rec_end(c, IPS_END_EXIT, y.t + 90, 3, 0);
        rec_join(y.shell, IPS_JOIN_WAIT, y.t + 20, y.t + 100, 20, y.pid, 0);
        y.t += 100;
        const uint32_t maker = y.pid;
        struct ips_built *b = end_loop(&y);
        assert_int_equal(b->unended_count, way != FREES);
        assert_int_equal(b->counts.idle, 1);
        assert_int_equal(WAITED(b, maker - 1, IPS_WAIT_SPIN),
                         way == FREES ? 9980 : 0);
        if (way == FREES)
            assert_arc(b, AUX_OF(b, maker, 0), AUX_OF(b, 10, 0),
                       IPS_X_RESOURCE);
        rec_free(y.r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_build_tries__until_a_name_is_free),
        cmocka_unit_test(test_build_tries__until_a_process_is_gone),
        cmocka_unit_test(test_build_tries__own_part),
        cmocka_unit_test(test_build_tries__by_children),
        cmocka_unit_test(test_build_tries__that_go_on),
        cmocka_unit_test(test_build_tries__for_a_lock_directory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
