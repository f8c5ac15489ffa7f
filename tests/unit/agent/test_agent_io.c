/* Sends and receives, written short where they can be: what the slave reads is
 * what was called, its CPU time to a few ns. */
#include "tests/unit/help/core_help.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/record/io_event.h"
#include "slave/build/proc_line.h"

enum { CALLS = 30000 };

/* What the child said, for us to compare. */
struct said {
    struct ips_moment call, ret;
    int64_t result;
    uint64_t site;
    uint32_t type, chan, op, err, ready;
};
struct shared {
    uint32_t shorts_at_best; /* 1: at least one was short where it had to be */
    uint32_t handled;
    struct said said[CALLS];
};

static struct pool_dir pool;
static bool go_round; /* as handlers may, within a call */
static struct shared *shared;

static int setup(void **state)
{
    (void)state;
    pool_help_make(&pool, NULL);
    small_segments(&pool);
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return shared == MAP_FAILED;
}

static int teardown(void **state)
{
    (void)state;
    munmap(shared, sizeof(*shared));
    pool_help_remove(&pool);
    return 0;
}

static void one(struct said *s, uint32_t i)
{
    static const int64_t results[] = {
        64, 0, UINT32_MAX, 1 + (int64_t)UINT32_MAX, 1, 4096};
    *s = (struct said){.type = i % 3 ? IPS_REC_SEND : IPS_REC_RECV,
                       .chan = i % 7 + 1,
                       .op = i % 2 ? IPS_OP_STDIO : IPS_OP_DATA,
                       .result = results[i % 6],
                       .site = 0x500000000000u + i};
    if (i % 50 == 20 || i % 50 == 30) {
        s->result = -1;
        s->err = 32;
    }
    if (i % 50 == 21) {
        s->type = IPS_REC_BLOCK;
        s->ready = 3;
        s->chan = 0;
    }
    s->call = ips_moment_now();
    if (i % 50 == 22)
        *ips_cpu_mark_address() = 0; /* switched out within the call */
    if (i % 997 == 23)
        usleep(100);
    if (go_round && i % 1000 == 30) {
        usleep(1000);
        for (int n = 0; n < 1000 && *ips_cpu_mark_address() != s->call.mark;
             n++)
            ips_cpu_read_clock_and_end_guesses();
    }
    s->ret = ips_moment_of_return(&s->call);
    if (!ips_io_write_record((enum ips_rec_type)s->type, s->chan,
                             (enum ips_op)s->op, &s->call, &s->ret, s->result,
                             (int)s->err, s->site, s->ready))
        _exit(1);
}

static void body_calls(void *arg)
{
    (void)arg;
    for (uint32_t i = 0; i < CALLS; i++)
        one(&shared->said[i], i);
    shared->shorts_at_best = ips_core.cpu_marks;
}

struct heard {
    struct slave_record_expander line;
    uint32_t seq, n, shorts, longs, others;
    const char *wrong; /* the last */
    uint32_t told;
};

static bool near(uint64_t a, uint64_t b)
{
    return a - b + 4 <= 8; /* roundings */
}

static void hear(const struct pool_segment *seg, const void *rec, size_t len,
                 void *arg)
{
    struct heard *h = arg;
    uint32_t type = ips_rec_type(rec), bytes = (uint32_t)len;
    if (h->seq != seg->head.seq) /* its long one is in the same */
        slave_reset_expander(&h->line);
    h->seq = seg->head.seq;
    bool is_short = type == IPS_REC_SEND_SHORT || type == IPS_REC_RECV_SHORT;
    const struct ips_rec_io *r =
        (const struct ips_rec_io *)(const void *)slave_expand_record_if_short(
            &h->line, &seg->head.clock, rec, &type, &bytes);
    if (!r)
        h->wrong = "short one of nothing";
    if (!r ||
        (type != IPS_REC_SEND && type != IPS_REC_RECV && type != IPS_REC_BLOCK))
        return;
    if (r->site == 1) { /* a handler's */
        h->others++;
        return;
    }
    h->shorts += is_short;
    h->longs += !is_short;
    const struct said *s = &shared->said[h->n++ % CALLS];
    if (type != s->type || r->h.a != s->chan || r->op != s->op ||
        r->site != s->site || r->result != s->result || r->err != s->err ||
        r->ready != s->ready)
        h->wrong = "what was called";
    else if (r->h.t != s->call.t || r->t_ret != s->ret.t)
        h->wrong = "stamps";
    else if (!near(r->cpu, s->call.cpu) || !near(r->cpu_ret, s->ret.cpu))
        h->wrong = "CPU time";
    if (h->wrong && !h->told++)
        print_message("call %u: %s (short: %d, CPU %ld, %ld)\n", h->n - 1,
                      h->wrong, is_short, (long)(r->cpu - s->call.cpu),
                      (long)(r->cpu_ret - s->ret.cpu));
}

static struct heard run(void (*body)(void *))
{
    struct heard h = {0};
    int status = in_child(&pool, body, NULL);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    pool_help_read(&pool, hear, NULL, &h);
    assert_null(h.wrong);
    assert_int_equal(h.n, CALLS);
    assert_true(h.seq > 0);
    return h;
}

/* Catches: bytes, errors and descriptors that do not fit and are cut, CPU time
 * on a line that a switch has ended, one with no long one in its segment. */
static void test_agent_io__short_ones_say_the_same(void **state)
{
    (void)state;
    struct heard h = run(body_calls);
    if (!shared->shorts_at_best)
        skip();
    assert_true(h.shorts > h.longs);
}

static void on_signal(int sig)
{
    struct ips_moment call = ips_moment_now();
    struct ips_moment ret = ips_moment_of_return(&call);
    (void)sig;
    (void)ips_io_write_record(IPS_REC_SEND, 1, IPS_OP_DATA, &call, &ret, 1, 0,
                              1, 0);
    shared->handled++;
}

static void body_handler(void *arg)
{
    struct itimerval every = {{0, 100}, {0, 100}};
    struct sigaction act = {.sa_handler = on_signal};
    sigaction(SIGALRM, &act, NULL);
    setitimer(ITIMER_REAL, &every, NULL);
    body_calls(arg);
    while (shared->handled < 3)
        pause_ms(1);
    setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
}

/* Catches: a short one on a line that a handler has drawn anew. */
static void test_agent_io__handlers_that_send(void **state)
{
    (void)state;
    struct heard h = run(body_handler);
    assert_int_equal(h.others, shared->handled);
}

static void body_round(void *arg)
{
    go_round = true;
    body_calls(arg);
}

/* Catches: a line for short ones from a call whose mark at its return is
 * another one in the same slot. */
static void test_agent_io__slots_come_round(void **state)
{
    (void)state;
    (void)run(body_round);
}

static void body_ring(void *arg)
{
    (void)arg;
    for (uint32_t i = 0; i < 100; i++)
        one(&shared->said[i], 0);
}
static void count_shorts(const struct pool_segment *seg, const void *rec,
                         size_t len, void *arg)
{
    uint32_t type = ips_rec_type(rec);
    (void)seg;
    (void)len;
    *(uint32_t *)arg +=
        type == IPS_REC_SEND_SHORT || type == IPS_REC_RECV_SHORT;
}
/* Catches: a ring with short ones, whose bytes no digest adds up. */
static void test_agent_io__none_in_a_ring(void **state)
{
    (void)state;
    struct ips_control *c = pool_help_control(&pool);
    c->on_full = IPS_ON_FULL_RING;
    munmap(c, sizeof(*c));
    uint32_t shorts = 0;
    int status = in_child(&pool, body_ring, NULL);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    pool_help_read(&pool, count_shorts, NULL, &shorts);
    assert_int_equal(shorts, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        T(test_agent_io__short_ones_say_the_same),
        T(test_agent_io__handlers_that_send),
        T(test_agent_io__slots_come_round),
        T(test_agent_io__none_in_a_ring),
#undef T
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
