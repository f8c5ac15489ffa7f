/* The run that is followed (slave/graphs/live_tables.h,
 * slave/archive/record_queue.h): its records come to an archive in turns, some
 * streams later than others, and are handed over - or not, or only in part, or
 * taken back and packed again, or the slave is another one since. Would catch:
 * tables that are not, row by row and bit for bit, those of a whole build of
 * the same records after any turn; records unpacked again that were handed
 * over, or handed over though they were never committed; more memory waiting
 * than was allowed; rows in SQLite that are not of the key stored with them. */
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

#include "slave/graphs/graphs.h"
#include "tests/bench/native/synth_streams.h"

#define THREADS 9u
#define RUN_ID 7
#define TURN_NS 2000000u

struct run { /* all there is, and how much of it is in the archive */
    struct synth_streams *all;
    struct ips_segment_header head[THREADS];
    const uint8_t *data[THREADS];
    size_t len[THREADS], at[THREADS];
    uint8_t *buffer; /* frames, as the drain has them */
    size_t used;
    struct slave_archive archive;
    struct slave_pack *pack;
    struct slave_record_queue *handover;
    struct slave_graphs gs;
    char dir[64], db[80];
    uint64_t seed, t, first;
};

static uint32_t below(struct run *r, uint32_t n)
{
    r->seed = r->seed * 6364136223846793005ULL + 1442695040888963407ULL;
    return (uint32_t)(r->seed >> 33) % n;
}

static void begin_slave(struct run *r)
{
    slave_graphs_init(&r->gs, r->db, "");
    r->handover = slave_record_queue_new(SLAVE_HANDOVER_ROOMS);
    assert_non_null(r->handover);
}

static void end_slave(struct run *r)
{
    slave_graphs_release(&r->gs);
    slave_record_queue_free(r->handover);
}

static void begin_run(struct run *r, enum synth_pattern pattern)
{
    struct synth_options o = synth_default(pattern);
    struct ips_err err;
    uint64_t missing;
    *r = (struct run){.seed = pattern};
    o.nodes = 40000;
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
    snprintf(r->dir, sizeof(r->dir), "/dev/shm/follow-XXXXXX");
    assert_non_null(mkdtemp(r->dir));
    snprintf(r->db, sizeof(r->db), "%s/slave.db", r->dir);
    r->pack = slave_pack_new();
    r->buffer = malloc(SLAVE_FRAMES_BYTES);
    assert_true(r->pack && r->buffer);
    assert_int_equal(slave_archive_open_and_cut_to_committed(
                         &r->archive, r->dir, 0, &missing, &err),
                     0);
    begin_slave(r);
}

static void end_run(struct run *r)
{
    char command[100];
    end_slave(r);
    slave_archive_close(&r->archive);
    slave_pack_free(r->pack);
    free(r->buffer);
    synth_streams_free(r->all);
    snprintf(command, sizeof(command), "rm -r %s", r->dir);
    assert_int_equal(system(command), 0);
}

/* ---- the ingest ---- */

static void add_frame(struct run *r, uint32_t i, uint64_t until)
{
    struct slave_frame *f = (struct slave_frame *)(void *)(r->buffer + r->used);
    uint8_t *to = (uint8_t *)(f + 1);
    *f = (struct slave_frame){.stream = i};
    while (r->at[i] < r->len[i]) {
        struct ips_rec_head h;
        memcpy(&h, r->data[i] + r->at[i], sizeof(h));
        uint32_t n = (h.word >> 8 & 0xffu) * 8;
        if (h.t > until || (h.word & 0xffu) == IPS_REC_END)
            break;
        memcpy(to + f->bytes, r->data[i] + r->at[i], n);
        f->bytes += n;
        f->records++;
        r->at[i] += n;
    }
    if (f->records)
        r->used += sizeof(*f) + f->bytes;
    assert_true(r->used < SLAVE_FRAMES_BYTES);
}

static void flush(struct run *r, bool hand)
{
    uint64_t from = r->archive.length + r->archive.staged;
    if (r->used)
        assert_int_equal(
            slave_archive_pack_and_stage_frames(
                &r->archive, r->pack, 1ULL << 32, r->buffer, r->used, NULL),
            0);
    if (r->used && hand)
        slave_record_queue_append_if_room(
            r->handover, &r->buffer, r->used, from,
            r->archive.length + r->archive.staged);
    r->used = 0;
}

/* One turn of the drain: streams are late, each by something else; one flush
 * or several. Some turns cannot be committed: all of it again. */
static void ingest(struct run *r, bool hand)
{
    size_t before[THREADS];
    r->t += TURN_NS;
    for (bool again = true; again;) {
        memcpy(before, r->at, sizeof(before));
        for (uint32_t i = 0; i < THREADS; i++) {
            add_frame(r, i, r->t - below(r, 1000000));
            if (below(r, 4) == 0)
                flush(r, hand);
        }
        flush(r, hand);
        again = below(r, 6) == 0;
        if (!again)
            break;
        slave_archive_drop_staged_bytes(&r->archive);
        slave_record_queue_drop_batches_after_length(r->handover,
                                                     r->archive.length);
        memcpy(r->at, before, sizeof(before));
    }
    slave_archive_accept_staged_bytes(&r->archive);
}

/* ---- the worker ---- */

struct question {
    struct slave_stream_row rows[THREADS];
    struct ips_stream_in in[THREADS];
    struct ips_chunk chunk[THREADS];
    struct slave_snapshot s;
    struct ips_build_input whole;
};

static void make_question(struct run *r, struct question *q)
{
    *q = (struct question){
        .s = {.run_id = RUN_ID,
              .archive_fd = slave_archive_open_for_reading(r->dir),
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
        q->rows[i].records = r->at[i];
        q->rows[i].head = q->in[i].head = r->head[i];
        q->chunk[i] = (struct ips_chunk){r->data[i], r->at[i]};
        q->in[i].chunks = &q->chunk[i];
        q->in[i].chunk_count = r->at[i] > 0;
    }
    q->s.key = slave_snapshot_compute_key(&q->s);
}

static void same_tables(const struct ips_built *a, const struct ips_built *b)
{
    assert_int_equal(a->proc_count, b->proc_count);
    assert_int_equal(a->g.chain_count, b->g.chain_count);
    assert_int_equal(a->end_count, b->end_count);
    assert_int_equal(a->traffic_count, b->traffic_count);
    assert_memory_equal(a->procs, b->procs, b->proc_count * sizeof(*b->procs));
    assert_memory_equal(a->threads, b->threads,
                        b->g.chain_count * sizeof(*b->threads));
    assert_memory_equal(a->ends, b->ends, b->end_count * sizeof(*b->ends));
    assert_memory_equal(a->traffic, b->traffic,
                        b->traffic_count * sizeof(*b->traffic));
    assert_int_equal(a->first_ns, b->first_ns);
}

/* A turn of the worker, and what came of it. True: there are tables. */
static bool follow(struct run *r, bool sealed)
{
    struct question q;
    struct ips_built b;
    struct ips_err err = {0};
    struct slave_live_tables *f = &r->gs.live_tables;
    make_question(r, &q);
    if (sealed)
        slave_record_queue_seal_last_batch(r->handover);
    if (slave_live_tables_update_and_store_if_due(&r->gs, &q.s, r->handover,
                                                  &err) < 0)
        fail_msg("%s", err.msg);
    if (f->tables) {
        struct slave_irt_row row;
        assert_int_equal(ips_build(&q.whole, &b, &err), 0);
        same_tables(ips_get_incremental_tables(f->tables), &b);
        ips_built_release(&b);
        if (below(r, 4)) /* SQLite syncs */
            goto out;
        assert_int_equal(slave_live_tables_store_if_changed(&r->gs, &err), 0);
        assert_true(
            slave_store_get_summary_tables_state(r->gs.store, RUN_ID, &row));
        assert_true(row.key == q.s.key);
    }
out:
    close(q.s.archive_fd);
    return f->tables != NULL;
}

static void test_follow__tables_of_the_whole_build(void **state)
{
    (void)state;
    for (int p = 0; p < SYNTH_PATTERN_COUNT; p++) {
        struct run r;
        uint32_t kept = 0, turns = 30;
        uint64_t handed = 0, unpacked = 0;
        begin_run(&r, (enum synth_pattern)p);
        for (uint32_t k = 0; k < turns; k++) {
            /* Sometimes nothing is handed over, or two turns' at once. */
            ingest(&r, k % 7 != 5);
            if (k % 5 != 3)
                kept += follow(&r, true);
            if (k != 20 && k + 1 != turns)
                continue;
            handed += r.gs.live_tables.queued;
            unpacked += r.gs.live_tables.unpacked;
            end_slave(&r); /* and another begins */
            begin_slave(&r);
        }
        print_message("%s: %u turns with tables, %lu handed over, %lu "
                      "unpacked\n",
                      synth_pattern_names[p], kept, (unsigned long)handed,
                      (unsigned long)unpacked);
        if (p == SYNTH_RING) /* the input is fixed */
            assert_true(kept >= 15 && handed > 5 && unpacked > 0);
        end_run(&r);
    }
}

/* ---- what waits ---- */

static void put(struct slave_record_queue *h, uint8_t **buffer, size_t len,
                uint64_t from, uint64_t until)
{
    memset(*buffer, (int)from, len);
    slave_record_queue_append_if_room(h, buffer, len, from, until);
}

static void test_follow__what_waits(void **state)
{
    struct slave_record_queue *h = slave_record_queue_new(3);
    uint8_t *buffer = malloc(SLAVE_FRAMES_BYTES), *was = buffer;
    struct slave_batch *b;
    (void)state;
    assert_true(h && buffer);
    put(h, &buffer, 1000, 0, 10);
    assert_ptr_not_equal(buffer, was); /* given away, not copied */
    put(h, &buffer, 1000, 10, 20);     /* copied behind it */
    slave_record_queue_seal_last_batch(h);
    put(h, &buffer, 1000, 20, 30); /* but not behind a snapshot */
    b = slave_record_queue_take_batches_of_range(h, 0, 20);
    assert_true(b && b->data == was && b->len == 2000 && !b->next);
    assert_true(b->data[999] == 0 && b->data[1000] == 10);
    slave_record_queue_recycle_batches(h, b);
    assert_null(slave_record_queue_take_batches_of_range(
        h, 15, 30)); /* a part is missing */
    assert_null(slave_record_queue_take_batches_of_range(
        h, 20, 30)); /* and it is gone */
    /* Taken back: what was not committed, and what it was put behind. */
    put(h, &buffer, 8, 30, 40);
    slave_record_queue_seal_last_batch(h);
    put(h, &buffer, 8, 40, 50);
    slave_record_queue_drop_batches_after_length(h, 40);
    put(h, &buffer, 8, 40, 45);
    b = slave_record_queue_take_batches_of_range(h, 30, 45);
    assert_true(b && b->until == 40 && b->next && b->next->until == 45);
    slave_record_queue_recycle_batches(h, b);
    /* All rooms wait: the rest is not taken. */
    for (uint64_t at = 100; at < 108; at++)
        put(h, &buffer, SLAVE_FRAMES_BYTES, at, at + 1);
    assert_null(slave_record_queue_take_batches_of_range(h, 100, 108));
    put(h, &buffer, SLAVE_FRAMES_BYTES, 108, 109);
    b = slave_record_queue_take_batches_of_range(h, 108, 109);
    assert_non_null(b);
    slave_record_queue_clear(h); /* what is in use stays */
    assert_true(b->data[5] == 108);
    slave_record_queue_recycle_batches(h, b);
    slave_record_queue_free(h);
    free(buffer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_follow__what_waits),
        cmocka_unit_test(test_follow__tables_of_the_whole_build),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
