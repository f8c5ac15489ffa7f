/* A run that is asked about again and again while it goes on: its records come
 * to the archive in turns, cut anywhere, the streams in any order, and what is
 * kept unpacked from question to question is all that is read. Would catch: a
 * graph or an EST that is not, bit for bit, that of the same records given
 * whole - after any turn, and at the end; and, through the slave's graphs, a
 * question that reads again what was read for the one before. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka last of these */
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analysis/graph/path.h"
#include "slave/graphs/graphs.h"
#include "tests/bench/native/synth_streams.h"

#define THREADS 9u
#define ROUNDS 7u

static const struct ips_scenario plain = {.message_time = {0, 0, 1, 1}};

struct run { /* all there is, and how much of it is in the archive */
    struct synth_streams *all;
    struct ips_segment_header head[THREADS];
    const uint8_t *data[THREADS];
    size_t len[THREADS], at[THREADS];
    struct slave_archive archive;
    struct slave_pack *pack;
    char dir[64];
    uint64_t seed;
};

static uint32_t below(struct run *r, uint32_t n)
{
    r->seed = r->seed * 6364136223846793005ULL + 1442695040888963407ULL;
    return (uint32_t)(r->seed >> 33) % n;
}

static size_t record_at(const struct run *r, uint32_t thread, size_t at)
{
    uint32_t word;
    memcpy(&word, r->data[thread] + at, sizeof(word));
    return (word >> 8 & 0xffu) * 8;
}

/* Some records of one stream, as one frame. */
static bool add_frame(struct run *r)
{
    static struct {
        struct slave_frame frame;
        uint8_t data[1 << 16];
    } f;
    uint32_t thread = below(r, THREADS);
    uint32_t want = 1 + below(r, below(r, 4) ? 40 : 400);
    f.frame = (struct slave_frame){.stream = thread};
    while (f.frame.records < want && r->at[thread] < r->len[thread]) {
        size_t n = record_at(r, thread, r->at[thread]);
        memcpy(f.data + f.frame.bytes, r->data[thread] + r->at[thread], n);
        r->at[thread] += n;
        f.frame.bytes += (uint32_t)n;
        f.frame.records++;
    }
    if (f.frame.records)
        assert_int_equal(slave_archive_pack_and_stage_frames(
                             &r->archive, r->pack, 1ULL << 32, &f,
                             sizeof(f.frame) + f.frame.bytes, NULL),
                         0);
    return f.frame.records > 0;
}

static void same(const struct ips_built *a, const struct ips_built *b)
{
    size_t n = a->g.node_count, bytes = 0;
    assert_int_equal(n, b->g.node_count);
    assert_int_equal(a->g.chain_count, b->g.chain_count);
#define SAME(column)                                                           \
    bytes = n * sizeof(*a->g.column);                                          \
    if (bytes)                                                                 \
    assert_memory_equal(a->g.column, b->g.column, bytes)
    SAME(kind);
    SAME(w);
    SAME(xpred);
    SAME(xkind);
    SAME(xlen);
    SAME(t_ns);
    SAME(site);
    SAME(at);
    SAME(wait);
    SAME(delay);
    SAME(probe);
    assert_memory_equal(&a->counts, &b->counts, sizeof(a->counts));
    struct ips_est x, y;
    struct ips_err err;
    assert_int_equal(
        ips_longest_path_compute_ests(&a->g, &plain, NULL, &x, &err), 0);
    assert_int_equal(
        ips_longest_path_compute_ests(&b->g, &plain, NULL, &y, &err), 0);
    if (n)
        assert_memory_equal(x.est, y.est, n * sizeof(*x.est));
    assert_int_equal(x.t_max, y.t_max);
    ips_est_release(&x);
    ips_est_release(&y);
}

struct question {
    struct slave_stream_row rows[THREADS];
    struct ips_stream_in in[THREADS];
    struct ips_chunk chunk[THREADS];
    struct slave_snapshot s;
    struct ips_build_input whole;
};

static void make_question(struct run *r, bool all, struct question *q)
{
    *q = (struct question){.s = {.archive_fd = -1,
                                 .closed = all,
                                 .archive_bytes = r->archive.length,
                                 .streams = q->rows,
                                 .stream_count = THREADS},
                           .whole = {.control = &q->s.control,
                                     .streams = q->in,
                                     .stream_count = THREADS}};
    snprintf(q->s.run, sizeof(q->s.run), "run");
    snprintf(q->s.dir, sizeof(q->s.dir), "%s", r->dir);
    for (uint32_t i = 0; i < THREADS; i++) {
        q->rows[i].number = i;
        q->rows[i].head = q->in[i].head = r->head[i];
        q->rows[i].dead = q->in[i].dead = all;
        q->chunk[i] = (struct ips_chunk){r->data[i], r->at[i]};
        q->in[i].chunks = &q->chunk[i];
        q->in[i].chunk_count = r->at[i] > 0;
    }
}

/* The graph by way of archive and kept records, and of the same records. */
static void ask(struct run *r, struct slave_graphs *gs, bool all)
{
    struct question q;
    struct slave_input kept;
    struct ips_built a, b;
    struct ips_err err;
    make_question(r, all, &q);
    assert_int_equal(slave_input_fill_from_snapshot(gs, &q.s, &kept, &err), 0);
    if (ips_build(&kept.in, &a, &err) < 0 || ips_build(&q.whole, &b, &err) < 0)
        fail_msg("%s", err.msg);
    same(&a, &b);
    ips_built_release(&a);
    ips_built_release(&b);
    slave_input_release(gs, &kept);
}

/* The same by the slave's graphs, which keep an open run's build; how much was
 * read for it. */
static struct ips_build_effort ask_graphs(struct run *r,
                                          struct slave_graphs *gs, bool all)
{
    struct question q;
    struct slave_graph *g;
    struct ips_built b;
    struct ips_err err;
    make_question(r, all, &q);
    struct slave_snapshot *s = malloc(sizeof(*s));
    struct slave_stream_row *rows = malloc(sizeof(q.rows));
    assert_true(s && rows);
    *s = q.s;
    memcpy(rows, q.rows, sizeof(q.rows));
    s->streams = rows;
    s->key = slave_snapshot_compute_key(s);
    if (slave_graphs_get_or_build(gs, s, &g, &err) < 0 ||
        ips_build(&q.whole, &b, &err) < 0)
        fail_msg("%s", err.msg);
    same(&g->b, &b);
    struct ips_build_effort took = g->effort;
    slave_graphs_release_graph_and_evict(gs, g);
    ips_built_release(&b);
    return took;
}

static void begin_run(struct run *r, uint32_t k, uint32_t nodes)
{
    struct synth_options o =
        synth_default((enum synth_pattern)(k % SYNTH_PATTERN_COUNT));
    struct ips_err err;
    uint64_t missing;
    *r = (struct run){.seed = k};
    o.seed = k;
    o.nodes = nodes;
    o.threads = THREADS;
    r->all = synth_streams(&o, 0, 16u << 20, &err);
    assert_true(r->all && r->all->count == THREADS);
    for (uint32_t i = 0; i < THREADS; i++) {
        const struct ips_stream_in *in = &r->all->in[i];
        assert_int_equal(in->chunk_count, 1);
        r->head[i] = in->head;
        r->data[i] = in->chunks[0].data;
        r->len[i] = in->chunks[0].len;
    }
    snprintf(r->dir, sizeof(r->dir), "/dev/shm/build-turns-XXXXXX");
    assert_non_null(mkdtemp(r->dir));
    r->pack = slave_pack_new();
    assert_non_null(r->pack);
    assert_int_equal(slave_archive_open_and_cut_to_committed(
                         &r->archive, r->dir, 0, &missing, &err),
                     0);
}

static void end_run(struct run *r)
{
    slave_archive_close(&r->archive);
    slave_pack_free(r->pack);
    char path[80];
    snprintf(path, sizeof(path), "%s/archive", r->dir);
    unlink(path);
    snprintf(path, sizeof(path), "%s/graph", r->dir);
    unlink(path);
    rmdir(r->dir);
    synth_streams_free(r->all);
}

static void one_run(uint32_t k)
{
    struct run r;
    struct slave_graphs gs;
    uint32_t idle = 0;
    begin_run(&r, k, 1500);
    slave_graphs_init(&gs, "", "");
    while (idle < 20 * THREADS) {
        idle = add_frame(&r) ? 0 : idle + 1;
        if (below(&r, 3))
            continue;
        slave_archive_accept_staged_bytes(&r.archive);
        if (below(&r, 3) == 0)
            ask(&r, &gs, false);
    }
    slave_archive_accept_staged_bytes(&r.archive);
    for (uint32_t i = 0; i < THREADS; i++)
        assert_int_equal(r.at[i], r.len[i]);
    ask(&r, &gs, true);
    slave_graphs_release(&gs);
    end_run(&r);
}

static void test_build_turns__same_graph(void **state)
{
    (void)state;
    for (uint32_t k = 0; k < ROUNDS; k++)
        one_run(k);
}

/* Nine streams that go on one as far as the other. */
static uint64_t add_frames(struct run *r, uint32_t n)
{
    uint64_t before = 0, behind = 0;
    for (uint32_t i = 0; i < THREADS; i++)
        before += r->at[i];
    for (; n; n--)
        (void)add_frame(r);
    slave_archive_accept_staged_bytes(&r->archive);
    for (uint32_t i = 0; i < THREADS; i++)
        behind += r->at[i];
    return (behind - before) / sizeof(struct ips_rec_io);
}

static void test_build_turns__news_alone(void **state)
{
    (void)state;
    for (uint32_t k = SYNTH_RING; k <= SYNTH_RANDOM; k++) {
        struct run r;
        struct slave_graphs gs;
        struct ips_build_effort took;
        begin_run(&r, k, 120000);
        slave_graphs_init(&gs, "", "");
        (void)add_frames(&r, 600);
        took = ask_graphs(&r, &gs, false);
        assert_true(took.whole && took.records > 0);
        (void)add_frames(&r, 30);
        took = ask_graphs(&r, &gs, false); /* asked again: can go on now */
        assert_true(took.whole && gs.incremental.build);
        for (uint32_t turn = 0; turn < 8; turn++) {
            uint64_t news = add_frames(&r, 10);
            took = ask_graphs(&r, &gs, false);
            assert_false(took.whole);
            assert_int_equal(took.records, news);
            print_message("%lu %lu\n", (unsigned long)took.records,
                          (unsigned long)took.nodes);
        }
        while (add_frames(&r, 50))
            continue;
        took = ask_graphs(&r, &gs, true);
        assert_true(took.whole);
        assert_null(gs.incremental.build); /* it has ended */
        slave_graphs_release(&gs);
        end_run(&r);
    }
}

/* Would catch: an input that cannot be made, whose memory is kept, and after
 * which a build seems to go on for ever. */
static void test_build_turns__no_archive(void **state)
{
    (void)state;
    struct run r;
    struct slave_graphs gs;
    struct question q;
    struct slave_input in;
    struct ips_err err;
    begin_run(&r, SYNTH_RING, 1500);
    slave_graphs_init(&gs, "", "");
    (void)add_frames(&r, 10);
    make_question(&r, false, &q);
    snprintf(q.s.dir, sizeof(q.s.dir), "%.40s/none", r.dir);
    assert_int_equal(slave_input_fill_from_snapshot(&gs, &q.s, &in, &err),
                     IPS_E_IO);
    assert_null(in.streams);
    assert_int_equal(atomic_load(&gs.permille), 1000);
    slave_input_release(&gs, &in);
    slave_graphs_release(&gs);
    end_run(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_build_turns__same_graph),
        cmocka_unit_test(test_build_turns__news_alone),
        cmocka_unit_test(test_build_turns__no_archive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
