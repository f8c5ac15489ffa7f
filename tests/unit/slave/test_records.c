/* Records kept unpacked between questions. Would catch: a record lost, doubled
 * or out of its place where an archive is read in turns; a question about an
 * earlier moment that sees later records; another archive of the same name
 * taken for the one that was read; a type of record that is said to be absent;
 * damage in a new block that goes unsaid. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka last of these */
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/pool/format.h"
#include "slave/build/internal.h"
#include "slave/graphs/graphs.h"

#define STREAMS 7u
#define TURNS 40u

static atomic_uint permille;

static char dir[64], path[80];
static struct slave_pack *pack;

static int setup(void **state)
{
    (void)state;
    snprintf(dir, sizeof(dir), "/dev/shm/slave-records-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    snprintf(path, sizeof(path), "%s/archive", dir);
    pack = slave_pack_new();
    return pack ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    slave_pack_free(pack);
    unlink(path);
    return rmdir(dir);
}

static uint64_t seed;

static uint32_t below(uint32_t n)
{
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    return (uint32_t)(seed >> 33) % n;
}

struct made { /* what the archive has, and when it had it */
    struct slave_archive a;
    uint64_t length[TURNS + 1];
    uint32_t records[TURNS + 1][STREAMS]; /* so many of each stream */
    uint32_t turn;
};

static void begin(struct made *m)
{
    uint64_t missing;
    memset(m, 0, sizeof(*m)); /* the file stays, empty */
    assert_int_equal(
        slave_archive_open_and_cut_to_committed(&m->a, dir, 0, &missing, NULL),
        0);
}

/* Some records of some streams, in some blocks: the number of each is its place
 * in its stream. */
static void add_turn(struct made *m)
{
    struct {
        struct slave_frame frame;
        struct ips_rec_lost rec;
    } o;
    uint32_t *n = m->records[m->turn + 1];
    memcpy(n, m->records[m->turn], sizeof(m->records[0]));
    for (uint32_t k = below(30); k > 0; k--) {
        uint32_t stream = below(STREAMS - (m->turn < TURNS / 2 ? 3 : 0));
        memset(&o, 0, sizeof(o));
        o.frame = (struct slave_frame){
            .stream = stream, .bytes = sizeof(o.rec), .records = 1};
        o.rec.h.word = IPS_REC_LOST | sizeof(o.rec) / 8 << 8;
        o.rec.count = n[stream]++;
        assert_int_equal(slave_archive_pack_and_stage_frames(
                             &m->a, pack, 1ULL << 32, &o, sizeof(o), NULL),
                         0);
    }
    slave_archive_accept_staged_bytes(&m->a);
    m->length[++m->turn] = m->a.length;
}

static struct slave_snapshot at_turn(const struct made *m, uint32_t turn,
                                     struct slave_stream_row rows[STREAMS])
{
    memset(rows, 0, STREAMS * sizeof(*rows));
    for (uint32_t i = 0; i < STREAMS; i++) {
        rows[i].number = i;
        rows[i].bytes = m->records[turn][i] * sizeof(struct ips_rec_lost);
    }
    struct slave_snapshot s = {.archive_fd = -1,
                               .archive_bytes = m->length[turn],
                               .streams = rows,
                               .stream_count = STREAMS};
    snprintf(s.run, sizeof(s.run), "r");
    snprintf(s.dir, sizeof(s.dir), "%s", dir);
    return s;
}

static void look(struct slave_records **list, const struct made *m,
                 uint32_t turn)
{
    struct slave_stream_row rows[STREAMS];
    struct slave_snapshot s = at_turn(m, turn, rows);
    struct slave_records *r;
    struct ips_rec_lost rec;
    struct ips_err err;
    if (slave_records_get_or_unpack(list, &s, &permille, &r, &err) < 0)
        fail_msg("turn %u: %s", turn, err.msg);
    if (s.archive_bytes)
        assert_int_equal(atomic_load(&permille), B_BUILT_READ);
    for (uint32_t i = 0; i < STREAMS; i++) {
        const struct ips_chunk *c;
        uint32_t chunks = slave_records_get_chunks(r, i, s.archive_bytes, &c);
        uint32_t seen = 0;
        for (uint32_t k = 0; k < chunks; k++)
            for (size_t at = 0; at < c[k].len; at += sizeof(rec)) {
                memcpy(&rec, c[k].data + at, sizeof(rec));
                assert_int_equal(rec.count, seen++);
            }
        assert_int_equal(seen, m->records[turn][i]);
        struct ips_stream_in in = {.types =
                                       chunks ? r->streams[i].types : NULL};
        assert_true(b_may_hold_type(&in, IPS_REC_LOST));
        assert_true(!chunks || !b_may_hold_type(&in, IPS_REC_SAMPLE));
    }
    slave_records_keep_or_free(list, r);
}

static void test_records__in_turns(void **state)
{
    (void)state;
    for (uint32_t round = 1; round < 30; round++) {
        struct slave_records *list = NULL;
        static struct made m;
        seed = round;
        begin(&m);
        look(&list, &m, 0);
        while (m.turn < TURNS) {
            add_turn(&m);
            if (below(3) == 0)
                look(&list, &m, m.turn);
            if (below(5) == 0)
                look(&list, &m, below(m.turn + 1)); /* from before */
            if (below(20) == 0)
                slave_records_drop(&list, below(2) ? "r" : NULL);
        }
        look(&list, &m, m.turn);
        assert_non_null(list);
        slave_records_drop(&list, "other");
        assert_non_null(list);
        slave_records_drop(&list, "r");
        assert_null(list);
        slave_archive_close(&m.a);
    }
}

static void test_records__another_archive(void **state)
{
    (void)state;
    struct slave_records *list = NULL;
    static struct made m;
    for (uint32_t round = 0; round < 20; round++) {
        seed = round;
        begin(&m);
        for (uint32_t i = 0; i < 8; i++)
            add_turn(&m);
        look(&list, &m, m.turn);
        slave_archive_close(&m.a);
    }
    slave_records_drop(&list, NULL);
}

static void test_records__damage(void **state)
{
    (void)state;
    struct slave_records *list = NULL, *r = NULL;
    struct slave_stream_row rows[STREAMS];
    static struct made m;
    struct ips_err err = {0};
    uint8_t byte;
    seed = 11;
    begin(&m);
    for (uint32_t i = 0; i < 6; i++)
        add_turn(&m);
    look(&list, &m, 3);
    off_t at = (off_t)m.length[6] - 1;
    assert_int_equal(pread(m.a.fd, &byte, 1, at), 1);
    byte ^= 4;
    assert_int_equal(pwrite(m.a.fd, &byte, 1, at), 1);
    struct slave_snapshot s = at_turn(&m, 6, rows);
    assert_int_equal(
        slave_records_get_or_unpack(&list, &s, &permille, &r, &err),
        IPS_E_CORRUPT);
    byte ^= 4;
    assert_int_equal(pwrite(m.a.fd, &byte, 1, at), 1);
    look(&list, &m, 6);
    look(&list, &m, 2);
    slave_records_drop(&list, NULL);
    slave_archive_close(&m.a);
}

/* ---- graphs ---- */

static uint64_t asked_about(struct slave_graphs *gs, const struct made *m,
                            const char *run)
{
    struct slave_graph *g;
    struct slave_stream_row rows[STREAMS];
    struct slave_snapshot *s = malloc(sizeof(*s));
    assert_non_null(s);
    *s = at_turn(m, TURNS, rows);
    s->streams = malloc(sizeof(rows)); /* the graph's from now on */
    assert_non_null(s->streams);
    memcpy(s->streams, rows, sizeof(rows));
    snprintf(s->run, sizeof(s->run), "%s", run);
    s->key = slave_snapshot_compute_key(s);
    assert_int_equal(slave_graphs_get_or_build(gs, s, &g, NULL), 0);
    uint64_t generation = g->generation;
    slave_graphs_release_graph_and_evict(gs, g);
    return generation;
}

/* Two questions about two runs, step by step in turns, where no memory is left.
 * Would catch graphs that drive each other out, so that both questions begin
 * again until they give up. */
static void test_graphs__questions_beside_each_other(void **state)
{
    (void)state;
    struct made m;
    struct slave_graphs gs;
    struct slave_graph *g;
    begin(&m);
    while (m.turn < TURNS)
        add_turn(&m);
    ips_large_set_limit_and_file_directory(4u << 20, dir);
    void *most = ips_alloc_large(8u << 20, 1); /* in a file: beyond */
    assert_non_null(most);
    slave_graphs_init(&gs, "", "");
    uint64_t first = asked_about(&gs, &m, "first"),
             second = asked_about(&gs, &m, "second");
    for (int step = 0; step < 3; step++) {
        assert_int_equal(
            slave_graphs_acquire_by_generation(&gs, "first", first, &g, NULL),
            0);
        slave_graphs_release_graph_and_evict(&gs, g);
        assert_int_equal(
            slave_graphs_acquire_by_generation(&gs, "second", second, &g, NULL),
            0);
        slave_graphs_release_graph_and_evict(&gs, g);
    }
    slave_graphs_release(&gs);
    ips_free_large(most);
    ips_large_set_limit_and_file_directory(UINT64_MAX, "");
    slave_archive_close(&m.a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_records__in_turns),
        cmocka_unit_test(test_records__another_archive),
        cmocka_unit_test(test_records__damage),
        cmocka_unit_test(test_graphs__questions_beside_each_other),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
