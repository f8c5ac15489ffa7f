/* Well-formed records in any order with any fields: the build must answer
 * with a valid graph that has a longest path, and never crash or hang. Would
 * catch: an index taken from a record, a cycle, a quadratic corner. */
#include "common/large.h"
#include "recorder.h"

static uint64_t seed;

static uint64_t next_random(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}
static uint64_t below(uint64_t n)
{
    return next_random() % n;
}
/* Mostly small and likely to meet another, now and then absurd. */
static uint64_t any(uint64_t likely)
{
    uint64_t k = below(50);
    return k == 0   ? next_random()
           : k == 1 ? UINT64_MAX - below(3)
                    : below(likely);
}

static uint64_t clock_ns;

static uint64_t any_time(void)
{
    clock_ns += below(3000);
    return below(20) == 0 ? any(1u << 20) : clock_ns;
}

static void put_io(rs s)
{
    static const enum ips_rec_type types[] = {IPS_REC_SEND,     IPS_REC_SEND,
                                              IPS_REC_RECV,     IPS_REC_RECV,
                                              IPS_REC_RECVCALL, IPS_REC_BLOCK};
    static const uint16_t ops[] = {0, 0, 0, 0, 1, 2, 3, 16, 18, 19, 21, 99};
    static const uint16_t errs[] = {0, 0, 0, 0, 0, 11, 32, 104, 115};
    uint64_t t = any_time(), cpu = any(100000);
    struct ips_rec_io *r =
        rec_io(s, types[below(6)], (uint32_t)any(12), t, t + any(5000), cpu,
               cpu + any(500), (int64_t)any(200));
    r->op = ops[below(12)];
    r->err = errs[below(9)];
    r->ready = (uint32_t)any(12);
    if (below(10) == 0)
        r->result = 0;
    if (below(30) == 0)
        r->h.word |= IPS_REC_F_NS << 16;
}

static struct ips_addr any_addr(void)
{
    static const uint32_t ips[] = {LOOPBACK, 0x0a000001, 0x0a000002, 0};
    return rec_addr(ips[below(4)], (uint16_t)below(4));
}

static void put_chan(rs s)
{
    struct ips_rec_chan *r = rec_chan(s, (uint32_t)any(12), any_time(),
                                      (enum ips_chan_kind)(1 + below(8)),
                                      (enum ips_chan_side)below(4), any(10));
    r->kind = (uint8_t)any(10);
    r->peer_ino = any(10);
    r->cookie = any(6);
    r->netns = any(2);
    r->name_hash = any(3);
    r->peer_pid = (uint32_t)any(6);
    r->flags = (uint8_t)below(16);
    r->sent_before = any(100);
    r->recv_before = any(100);
    r->local = any_addr();
    r->remote = any_addr();
}

static void put_sync(rs s)
{
    uint64_t t = any_time(), cpu = any(100000);
    struct ips_rec_sync *r = rec_sync(
        s, below(2) ? IPS_REC_ACQUIRE : IPS_REC_RELEASE, (enum ips_sync)any(14),
        t, t + any(6000), cpu, cpu + any(500), any(3));
    r->value = (int32_t)any(5) - 1;
    r->err = below(8) ? 0 : (uint32_t)any(200);
    r->ino = below(4) ? 0 : any(2);
    if (below(2))
        rec_lock(s, below(2) ? IPS_REC_ACQUIRE_SHORT : IPS_REC_RELEASE_SHORT,
                 (enum ips_sync)any(9), t, cpu, any(3));
}

static void put_record(rs s)
{
    uint64_t t = any_time(), cpu = any(100000);
    struct ips_rec_start *start;
    switch (below(24)) {
    case 0:
    case 1:
    case 2:
        put_chan(s);
        break;
    case 3:
        rec_close(s, (uint32_t)any(12), t, cpu, (enum ips_close_how)below(6));
        break;
    case 4:
        rec_fork(s, (enum ips_fork_kind)below(9), t, t + any(4000), cpu,
                 any(100000), (uint32_t)any(6), any(6))
            ->err = below(8) == 0;
        break;
    case 5: {
        struct ips_rec_join *j =
            rec_join(s, (enum ips_join_kind)below(6), t, t + any(4000), cpu,
                     (uint32_t)any(6), any(6));
        j->child_cpu_ns = any(100000);
        j->status = (uint32_t)any(70000);
        break;
    }
    case 6:
        rec_exec(s, t, cpu, below(2));
        break;
    case 7:
        start = rec_start(s, (enum ips_start_kind)any(7), t, cpu);
        start->fork_seq = any(6);
        start->ppid = (uint32_t)any(6);
        start->parent_image = any(4);
        break;
    case 8:
        rec_end(s, (enum ips_end_kind)any(7), t, cpu, any(300));
        break;
    case 9:
        rec_threadcpu(s, t, (uint32_t)any(6), any(1000000));
        break;
    case 10:
        rec_name(s, t, below(2) ? "/a/b c" : "");
        break;
    case 11:
        rec_dgram(s, (uint32_t)any(12), t, any(3), any_addr(), any_addr());
        break;
    case 12:
        rec_put(s, (enum ips_rec_type)(1 + below(254)), 1024, (uint32_t)any(9),
                t);
        break;
    case 13:
    case 14:
    case 15:
        put_sync(s);
        break;
    default:
        put_io(s);
        break;
    }
}

/* Everything that holds of a good answer. */
static void check_built(struct recorder *r)
{
    struct ips_err err = {0};
    struct ips_built *b = rec_build(r);
    struct ips_peer_row rows[64];
    uint32_t n = 0;
    for (uint32_t i = 0; i < b->end_count; i++) {
        const struct ips_end *e = &b->ends[i];
        assert_true(e->peer != IPS_PEER_LOCAL || e->peer_end < b->end_count);
        if (e->peer == IPS_PEER_UNKNOWN && n < 64)
            rows[n++] = (struct ips_peer_row){.end = i,
                                              .traced = below(2),
                                              .peer_sent_bytes = any(1000),
                                              .peer_closed = below(2)};
    }
    for (uint32_t p = 0; p < b->proc_count; p++)
        assert_true(b->procs[p].parent == IPS_NONE || b->procs[p].parent < p);
    for (uint32_t t = 0; t < b->traffic_count; t++)
        assert_true(b->traffic[t].end < b->end_count &&
                    b->traffic[t].process < b->proc_count);
    rec_longest(b, 3, IPS_EXTERNAL_ALL);
    uint64_t *unended = ips_make_ns_without_waker_by_node(b, &err);
    ips_u128 sum = 0;
    assert_non_null(unended);
    for (uint32_t i = 0; i < b->g.node_count; i++)
        sum += unended[i];
    assert_true(sum < (ips_u128)1 << 58); /* as all weights */
    ips_free_large(unended);
    if (ips_built_set_peers_and_remake_arcs(b, rows, n, &err) < 0 ||
        ips_graph_check_invariants(&b->g, &err) < 0)
        fail_msg("%s", err.msg);
    uint64_t *values = calloc(b->g.in_count + 1, sizeof(*values));
    struct ips_scenario lane = {
        .message_time = {.scale_num = 1, .scale_den = 1}};
    struct ips_est est;
    if (ips_longest_path_compute_ests(&b->g, &lane, values, &est, &err) < 0)
        fail_msg("%s", err.msg);
    ips_est_release(&est);
    free(values);
    /* The last call alone counts. */
    assert_int_equal(ips_built_set_peers_and_remake_arcs(b, NULL, 0, NULL), 0);
    assert_int_equal(b->g.in_count, 0);
    assert_int_equal(b->g.out_count, 0);
}

static void run(uint64_t with, uint32_t streams, uint32_t records)
{
    seed = with * 0x9e3779b97f4a7c15ull + 1;
    clock_ns = 1000;
    struct recorder *r = rec_new();
    r->control.root_pid = (uint32_t)any(5);
    r->control.locks = (uint32_t)any(2);
    for (uint32_t i = 0; i < streams; i++) {
        uint32_t pid = 1 + (uint32_t)below(4);
        rs s = rec_stream(r, pid, pid + (uint32_t)below(3) % 2, any(4));
        s->head.stream_stamp = any(5000);
        s->head.pidns = below(10) == 0;
        s->head.flags = below(6) == 0 ? IPS_SEGMENT_TASK : 0;
        s->dead = below(2);
        s->dead_t_ns = any(100000);
        s->dead_status =
            below(2) ? IPS_DEAD_KNOWN | (uint32_t)below(20) : (uint32_t)any(9);
        s->begun = (struct ips_current_call){
            .t = any(100000),
            .cpu = any(100000),
            .site = any(100000),
            .what = IPS_BEGUN(any(45), any(40), any(20)),
            .object = any(8),
            .holder = any(6)};
    }
    for (uint32_t i = 0; i < records; i++)
        put_record(&r->s[below(streams)]);
    check_built(r);
    rec_free(r);
}

static void test_build_hostile__many_small_runs(void **state)
{
    (void)state;
    for (uint64_t k = 0; k < 1500; k++)
        run(k, 1 + (uint32_t)(k % 12), (uint32_t)(k % 211));
}

static void test_build_hostile__few_large_runs(void **state)
{
    (void)state;
    for (uint64_t k = 0; k < 6; k++)
        run(k + 100000, 200, 60000);
}

static void test_build_hostile__nothing_at_all(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    struct ips_built *b = rec_build(r);
    assert_int_equal(b->g.node_count, 0);
    rec_stream(r, 1, 1, 1); /* a segment without a record */
    b = rec_build(r);
    assert_int_equal(b->g.node_count, 2);
    rec_free(r);
}

/* Cut at every byte: what is not whole is not read. */
static void test_build_hostile__torn_chunk(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs s = rec_stream(r, 1, 1, 1);
    rec_start(s, IPS_START_ROOT, 10, 0);
    rec_pipe(s, 1, 11, IPS_SIDE_WRITE, 5);
    rec_send(s, 1, 12, 1, 10);
    rec_name(s, 13, "abcdefgh");
    rec_end(s, IPS_END_EXIT, 14, 3, 0);
    size_t whole = s->len;
    uint8_t *all = s->data;
    for (size_t n = 0; n <= whole; n++) {
        s->data = malloc(n + 1); /* exact, so that a sanitizer sees */
        memcpy(s->data, all, n);
        s->len = n;
        rec_build(r);
        free(s->data);
    }
    s->data = all;
    rec_free(r);
}

#define ABSURD_MESSAGES 192u /* more than are weighed at a time */

/* Each of 192 messages claims 2^55 bytes, which no single limit forbids; as
 * weights they would be 2^62.6, and no sum may reach 2^58. Values above 2^54
 * are cut first (still 2^61.6), then those above 2^50 (2^57.6: few enough).
 * Would catch: message sizes that are left out of the sum of weights. */
static void test_build_hostile__message_sizes_that_no_sum_holds(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs from = rec_stream(r, 100, 100, 1), to = rec_stream(r, 200, 200, 1);
    const int64_t bytes = 1LL << 55;
    uint32_t found = 0;
    rec_start(from, IPS_START_IMAGE, 1000, 0);
    rec_chan(from, 1, 1001, IPS_CHAN_UNIX, IPS_SIDE_BOTH, 10)->peer_ino = 11;
    rec_start(to, IPS_START_IMAGE, 1000, 0);
    rec_chan(to, 1, 1001, IPS_CHAN_UNIX, IPS_SIDE_BOTH, 11)->peer_ino = 10;
    for (uint32_t i = 0; i < ABSURD_MESSAGES; i++) {
        uint64_t t = 2000 + 100 * i;
        rec_send(from, 1, t, t - 1000, bytes);
        rec_recv(to, 1, t + 50, t + 60, t - 940, bytes)->cpu = t - 950;
    }
    rec_end(from, IPS_END_EXIT, 90000, 89000, 0);
    rec_end(to, IPS_END_EXIT, 90000, 89000, 0);
    const struct ips_graph *g = &rec_build(r)->g;
    for (uint32_t i = 0; i < g->node_count; i++) {
        if (g->xkind[i] != IPS_X_DATA)
            continue;
        assert_true(g->xlen[i] == 1ULL << 50);
        found++;
    }
    assert_int_equal(found, ABSURD_MESSAGES);
    rec_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_build_hostile__many_small_runs),
        cmocka_unit_test(test_build_hostile__few_large_runs),
        cmocka_unit_test(test_build_hostile__nothing_at_all),
        cmocka_unit_test(test_build_hostile__torn_chunk),
        cmocka_unit_test(test_build_hostile__message_sizes_that_no_sum_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
