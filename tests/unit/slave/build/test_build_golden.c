/* The golden graphs of ALGORITHMS 8, written as the API's records on one
 * machine and built. Would catch: a node at the wrong coordinate, a message
 * matched to the wrong send, a fork or join without its arc.
 * EVIDENCE-OF: DPM-5 */
#include "recorder.h"

#define U 1000000u /* one unit of the golden graphs, ns */

/* A task: CPU in units; the clock runs along, far enough apart for every
 * receive that has to wait. */
struct task {
    rs s;
    uint64_t cpu, t;
    uint32_t next_id;
};

static struct task task_start(struct recorder *r, uint32_t number)
{
    struct task k = {.s = rec_stream(r, 7, number, 5), .t = 1000 * (uint64_t)U};
    k.s->head.flags = IPS_SEGMENT_TASK;
    k.s->head.stream_stamp = number;
    k.next_id = number * 1000;
    rec_start(k.s, IPS_START_TASK, k.t, 0);
    return k;
}
static void burn(struct task *k, uint64_t units)
{
    k->cpu += units * U;
    k->t += units * U;
}
static void send_on(struct task *k, uint64_t burnt, const char *name)
{
    burn(k, burnt);
    rec_user(k->s, ++k->next_id, k->t, IPS_SIDE_WRITE, name);
    rec_send(k->s, k->next_id, k->t, k->cpu, 1);
}
/* The receive returns `wait` units after its call. */
static void recv_on(struct task *k, uint64_t burnt, const char *name,
                    uint64_t wait)
{
    burn(k, burnt);
    rec_user(k->s, ++k->next_id, k->t, IPS_SIDE_READ, name);
    rec_recv(k->s, k->next_id, k->t, k->t + wait * U, k->cpu, 1);
    k->t += wait * U;
}
static void end(struct task *k, uint64_t burnt)
{
    burn(k, burnt);
    rec_end(k->s, IPS_END_TASK, k->t, k->cpu, 0);
}

static void expect(struct recorder *r, uint64_t message_time, uint64_t t_max,
                   uint64_t total)
{
    struct ips_built *b = rec_build(r);
    struct rec_answer a = rec_longest(b, message_time * U, IPS_EXTERNAL_REPLY);
    assert_int_equal(a.t_max, t_max * U);
    assert_int_equal(a.total, total * U);
    assert_int_equal(b->counts.unmatched, 0);
    assert_int_equal(b->counts.ambiguous, 0);
}

static void test_build_golden__g1(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    struct task a = task_start(r, 1), b = task_start(r, 2);
    send_on(&a, 10, "m");
    end(&a, 5);
    recv_on(&b, 3, "m", 11);
    end(&b, 20);
    expect(r, 4, 34, 38);
    expect(r, 0, 30, 38);
    rec_free(r);
}

static void test_build_golden__g2(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    struct task c = task_start(r, 1), s = task_start(r, 2);
    send_on(&c, 2, "q");
    recv_on(&c, 0, "r", 18);
    end(&c, 3);
    recv_on(&s, 1, "q", 6);
    send_on(&s, 8, "r");
    end(&s, 1);
    expect(r, 5, 23, 15);
    expect(r, 0, 13, 15);
    rec_free(r);
}

static void test_build_golden__g3_external(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    struct task a = task_start(r, 1), b = task_start(r, 2);
    send_on(&a, 4, "ext"); /* clock 100 */
    uint64_t sent = a.t;
    burn(&a, 1);
    rec_user(a.s, ++a.next_id, a.t, IPS_SIDE_READ, "ext");
    rec_recv(a.s, a.next_id, a.t, sent + 30 * (uint64_t)U, a.cpu, 1);
    a.t = sent + 30 * (uint64_t)U; /* clock 130 */
    recv_on(&a, 6, "m", 1);
    end(&a, 3);
    send_on(&b, 20, "m");
    end(&b, 2);
    struct ips_built *built = rec_build(r);
    /* Nobody said yet who has the other end. */
    uint32_t ext = IPS_NONE;
    for (uint32_t i = 0; i < built->end_count; i++)
        if (built->ends[i].peer == IPS_PEER_UNKNOWN) {
            assert_int_equal(ext, IPS_NONE);
            ext = i;
        }
    assert_int_not_equal(ext, IPS_NONE);
    assert_int_equal(built->counts.pending, 1);
    struct ips_peer_row row = {.end = ext, .traced = false};
    assert_int_equal(ips_built_set_peers_and_remake_arcs(built, &row, 1, NULL),
                     0);
    assert_int_equal(built->counts.pending, 0);
    assert_int_equal(built->counts.external, 1);
    struct rec_answer x = rec_longest(built, 2 * U, IPS_EXTERNAL_REPLY);
    assert_int_equal(x.t_max, 43 * (uint64_t)U);
    assert_int_equal(x.total, 36 * (uint64_t)U);
    x = rec_longest(built, 2 * U, IPS_EXTERNAL_OFF);
    assert_int_equal(x.t_max, 25 * (uint64_t)U);
    rec_free(r);
}

static void test_build_golden__g4_fork_join(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    struct task p = task_start(r, 1), c1 = task_start(r, 2),
                c2 = task_start(r, 3);
    ((struct ips_rec_start *)(void *)c1.s->data)->fork_seq = 11;
    ((struct ips_rec_start *)(void *)c2.s->data)->fork_seq = 12;
    burn(&p, 5);
    rec_fork(p.s, IPS_FORK_TASK, p.t, p.t, p.cpu, p.cpu, 2, 11);
    burn(&p, 1);
    rec_fork(p.s, IPS_FORK_TASK, p.t, p.t, p.cpu, p.cpu, 3, 12);
    end(&c1, 10);
    end(&c2, 12);
    burn(&p, 2);
    rec_join(p.s, IPS_JOIN_TASK, p.t, p.t + 12 * U, p.cpu, 2, 11);
    rec_join(p.s, IPS_JOIN_TASK, p.t + 12 * U, p.t + 13 * U, p.cpu, 3, 12);
    end(&p, 4);
    expect(r, 0, 22, 34);
    rec_free(r);
}

static void test_build_golden__g6(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    struct task a = task_start(r, 1), b = task_start(r, 2),
                c = task_start(r, 3);
    send_on(&a, 1, "a");
    send_on(&a, 1, "b");
    end(&a, 1);
    recv_on(&b, 5, "a", 0);
    send_on(&b, 1, "c");
    end(&b, 1);
    recv_on(&c, 1, "b", 3);
    recv_on(&c, 10, "c", 0);
    end(&c, 1);
    expect(r, 2, 15, 22);
    expect(r, 0, 13, 22);
    rec_free(r);
}

static void test_build_golden__g7_tie(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    struct task a = task_start(r, 1), b = task_start(r, 2),
                c = task_start(r, 3);
    /* Message times 2 and 1: two bytes and one, at one unit a byte. */
    burn(&a, 3);
    rec_user(a.s, 1, a.t, IPS_SIDE_WRITE, "a");
    rec_send(a.s, 1, a.t, a.cpu, 2);
    end(&a, 1);
    burn(&b, 5);
    rec_user(b.s, 2, b.t, IPS_SIDE_READ, "a");
    rec_recv(b.s, 2, b.t, b.t, b.cpu, 2);
    send_on(&b, 4, "b");
    end(&b, 0);
    recv_on(&c, 2, "b", 8);
    end(&c, 7);
    struct ips_built *built = rec_build(r);
    struct ips_scenario lane = {
        .message_time = {
            .per_byte_q32 = (uint64_t)U << 32, .scale_num = 1, .scale_den = 1}};
    struct ips_est est;
    assert_int_equal(
        ips_longest_path_compute_ests(&built->g, &lane, NULL, &est, NULL), 0);
    assert_int_equal(est.t_max, 17 * (uint64_t)U);
    assert_false(est.crossed[rec_kind(built, 2, IPS_NODE_RECV, 0)]);
    assert_true(est.crossed[rec_kind(built, 3, IPS_NODE_RECV, 0)]);
    ips_est_release(&est);
    rec_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_build_golden__g1),
        cmocka_unit_test(test_build_golden__g2),
        cmocka_unit_test(test_build_golden__g3_external),
        cmocka_unit_test(test_build_golden__g4_fork_join),
        cmocka_unit_test(test_build_golden__g6),
        cmocka_unit_test(test_build_golden__g7_tie),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
