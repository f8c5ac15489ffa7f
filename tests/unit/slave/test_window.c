/* Arcs cut to windows of time. Each case says what it would catch. */
#include "analysis/graph/view.h"
#include "recorder.h"
#include "slave/profile/window.h"

#define US(n) ((uint64_t)(n)*1000)
#define BEGIN US(1) /* of the run: its first event and its origin */

/* 10 computes, sleeps from 20 to 25 us (5), writes to a pipe at 31; 20 reads
 * from it: asked at 5 us, back at 34, 2 us of that in the queue. */
static struct ips_built *program(struct recorder **r)
{
    *r = rec_new();
    rs a = rec_stream(*r, 10, 10, 1), z;
    rec_start(a, IPS_START_IMAGE, US(1), 0);
    rec_pipe(a, 1, US(1), IPS_SIDE_WRITE, 5);
    rec_io(a, IPS_REC_BLOCK, 0, US(20), US(25), US(10), US(10), 0)->op =
        IPS_OP_SLEEP;
    rec_send(a, 1, US(31), US(14), 8);
    rec_end(a, IPS_END_EXIT, US(36), US(18), 0);
    z = rec_stream(*r, 20, 20, 1);
    rec_start(z, IPS_START_IMAGE, US(2), 0);
    rec_pipe(z, 1, US(2), IPS_SIDE_READ, 5);
    rec_delay(z, US(4), US(500));
    rec_recv(z, 1, US(5), US(34), US(3), 8);
    rec_delay(z, US(35), US(502));
    rec_end(z, IPS_END_EXIT, US(50), US(17), 0);
    return rec_build(*r);
}

struct window {
    struct ips_scenario lane;
    struct ips_view view;
    struct ips_est est;
    struct ips_path path;
};

static void solve(struct window *w, const struct ips_built *b,
                  enum ips_weighting weighting)
{
    uint32_t stop;
    memset(w, 0, sizeof(*w));
    w->lane =
        (struct ips_scenario){.weighting = weighting, .clock = {.from = BEGIN}};
    assert_int_equal(0, ips_graph_make_view(&b->g, &w->lane, &w->view, NULL));
    assert_int_equal(0, ips_longest_path_compute_ests(&w->view.g, &w->lane,
                                                      NULL, &w->est, NULL));
    assert_int_equal(0, ips_path_walk_back_and_store(&w->view.g, &w->lane,
                                                     &w->est, w->est.end,
                                                     &w->path, &stop, NULL));
}

static void drop(struct window *w)
{
    ips_path_release(&w->path);
    ips_est_release(&w->est);
    ips_view_release(&w->view);
}

/* What the window has of the path. */
static uint64_t within(const struct window *w, const struct ips_built *b,
                       uint64_t from, uint64_t to)
{
    const struct slave_arcs none = {0};
    struct slave_arc_clip cut;
    uint64_t sum = 0;
    assert_int_equal(
        0, slave_arc_clip_init(&cut, &none, b, &w->lane, from, to, NULL));
    for (uint64_t i = 0; i < w->path.count; i++) {
        const struct ips_path_segment *s = &w->path.seg[i];
        if (s->kind != IPS_SEG_COMPUTE || s->from == IPS_NO_NODE)
            sum += slave_arc_clip_cross_arc_ns(&cut, s->to, s->ns);
        else
            for (uint32_t n = s->from + 1; n <= s->to; n++)
                sum += slave_arc_clip_chain_arc_ns(&cut, s->chain, n);
    }
    slave_arc_clip_release(&cut);
    return sum;
}

/* Would catch: time of a path that no window has, or two; an arc counted whole
 * where it ends. */
static void test_window__side_by_side_they_have_all(void **state)
{
    (void)state;
    struct recorder *r;
    struct ips_built *b = program(&r);
    for (int w = IPS_WEIGH_CPU; w <= IPS_WEIGH_LAST; w++) {
        for (uint64_t step = 700; step < US(60); step += 1300) {
            struct window x;
            uint64_t sum = 0, t = 0;
            solve(&x, b, (enum ips_weighting)w);
            for (; t < US(60); t += step) {
                uint64_t one = within(&x, b, t, t + step);
                assert_true(one <= x.est.t_max);
                sum += one;
            }
            assert_int_equal(sum, x.est.t_max);
            assert_int_equal(within(&x, b, t, 0), 0);
            assert_int_equal(within(&x, b, 0, 0), x.est.t_max);
            drop(&x);
        }
    }
    rec_free(r);
}

/* Would catch: a path in `wall` that stands still or jumps on the clock; its
 * length is 49 us, and every window within has as much as it is long. */
static void test_window__wall_is_the_clock(void **state)
{
    (void)state;
    struct recorder *r;
    struct ips_built *b = program(&r);
    struct window x;
    solve(&x, b, IPS_WEIGH_WALL);
    assert_int_equal(x.est.t_max, US(49));
    for (uint64_t from = 0; from < US(49); from += 777)
        for (uint64_t to = from + 1; to < US(60); to += 1111)
            assert_int_equal(within(&x, b, from, to),
                             ips_min_u64(to, US(49)) - from);
    drop(&x);
    rec_free(r);
}

/* Would catch: run delay laid where the thread slept or after it ran on. The
 * reader's 2 us in the queue lie between its wake-up and its end; its path in
 * `sched` has just these more than the one in `cpu`. */
static void test_window__run_delay_lies_in_its_arc(void **state)
{
    (void)state;
    struct recorder *r;
    struct ips_built *b = program(&r);
    struct window cpu, sched;
    solve(&cpu, b, IPS_WEIGH_CPU);
    solve(&sched, b, IPS_WEIGH_SCHED);
    uint32_t recv = rec_kind(b, 20, IPS_NODE_RECV, 0);
    uint64_t woke = b->g.at[recv] - BEGIN;
    assert_int_equal(sched.est.t_max, cpu.est.t_max + US(2));
    assert_int_equal(within(&sched, b, 0, woke), within(&cpu, b, 0, woke));
    assert_int_equal(within(&sched, b, woke, US(60)),
                     within(&cpu, b, woke, US(60)) + US(2));
    /* What of it is told apart, in `wall` too. */
    for (int w = IPS_WEIGH_CPU; w <= IPS_WEIGH_LAST; w++) {
        const struct slave_arcs none = {0};
        const uint64_t cuts[] = {0, woke + US(1), US(60)};
        struct ips_scenario lane = sched.lane;
        uint64_t sum = 0;
        lane.weighting = (enum ips_weighting)w;
        for (int k = 0; k < 2; k++) {
            struct slave_arc_clip cut;
            assert_int_equal(0,
                             slave_arc_clip_init(&cut, &none, b, &lane, cuts[k],
                                                 cuts[k + 1], NULL));
            for (uint32_t n = 1; n < b->g.node_count; n++)
                if (b->g.kind[n] != IPS_NODE_START)
                    sum += slave_arc_clip_run_delay_ns(&cut, n);
            slave_arc_clip_release(&cut);
        }
        assert_int_equal(sum, US(2));
    }
    drop(&cpu);
    drop(&sched);
    rec_free(r);
}

/* Would catch: a window of another machine's clock that is not this one's.
 * Drift and shift as an alignment gives them. */
static void test_window__clocks_are_mapped_back(void **state)
{
    (void)state;
    const struct ips_clock_map maps[] = {{0, 0, 0},
                                         {5000, 0, 0},
                                         {5000, 1ll << 30, -777},
                                         {5000, -(1ll << 30), 123456},
                                         {1ull << 40, 3, -(1ll << 30)}};
    for (size_t i = 0; i < sizeof(maps) / sizeof(*maps); i++)
        for (uint64_t y = 1; y < 1ull << 41; y = y * 3 + 1) {
            uint64_t t = ips_clock_unmap_ns(&maps[i], y);
            if (ips_clock_map_ns(&maps[i], 0) > y)
                continue; /* before this clock began */
            assert_true(ips_clock_map_ns(&maps[i], t) <= y);
            assert_true(ips_clock_map_ns(&maps[i], t + 1) > y);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_window__side_by_side_they_have_all),
        cmocka_unit_test(test_window__wall_is_the_clock),
        cmocka_unit_test(test_window__run_delay_lies_in_its_arc),
        cmocka_unit_test(test_window__clocks_are_mapped_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
