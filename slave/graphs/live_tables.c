/* Keeps tables of an open run up to date; see graphs/live_tables.h. */
#include "slave/graphs/live_tables.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/log.h"
#include "slave/graphs/graphs.h"

void slave_live_tables_free(struct slave_live_tables *f)
{
    ips_build_incremental_free(f->tables);
    f->tables = NULL;
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* If `f` belongs to another run or archive than the snapshot, drops its state
 * and begins an empty state for the snapshot's run. Returns false if there is
 * no archive. */
static bool reset_tables_if_other_run(struct slave_live_tables *f,
                                      const struct slave_snapshot *s)
{
    struct stat st;
    if (s->archive_fd < 0 || fstat(s->archive_fd, &st) < 0)
        return false;
    if (f->run_id == s->run_id && strcmp(f->run, s->run) == 0 &&
        f->dev == st.st_dev && f->ino == st.st_ino && f->at <= s->archive_bytes)
        return true;
    slave_live_tables_free(f);
    *f = (struct slave_live_tables){
        .run_id = s->run_id, .dev = st.st_dev, .ino = st.st_ino};
    snprintf(f->run, sizeof(f->run), "%s", s->run);
    return true;
}

/* ---- from the start of the run ---- */

static int
build_tables_of_run_so_far_if_worth_it(struct slave_graphs *gs,
                                       const struct slave_snapshot *s,
                                       struct ips_err *err)
{
    struct slave_live_tables *f = &gs->live_tables;
    struct slave_input in;
    struct ips_build_effort took;
    if (s->archive_bytes < SLAVE_INCREMENTAL_MIN_BYTES ||
        s->archive_bytes < 2 * f->tried || slave_incremental_is_memory_short())
        return 0;
    f->tried = s->archive_bytes;
    f->begun++;
    int rc = slave_input_fill_from_snapshot(gs, s, &in, err);
    if (rc == 0 && slave_incremental_fits_memory(&in.in))
        rc = ips_build_tables_of_whole_run(&f->tables, &in.in, IPS_BUILD_LAG_NS,
                                           &took, err);
    slave_input_release(gs, &in);
    f->at = s->archive_bytes;
    ips_log_debug("run %s: its tables %s", s->run,
                  f->tables ? "can go on" : "cannot go on");
    return rc;
}

/* ---- new records -------- */

struct new_records {
    /* [streams of the snapshot] each stream with its new records */
    struct ips_stream_in *streams;
    struct ips_chunk *chunks;
    uint32_t *slot; /* [slots] index + 1 of each stream, by stream number */
    uint32_t slots;
};

static void new_records_release(struct new_records *n)
{
    free(n->streams);
    free(n->chunks);
    free(n->slot);
}

/* Makes an entry for each of the snapshot's streams, still without records. */
static bool add_entry_for_each_snapshot_stream(struct new_records *n,
                                               const struct slave_snapshot *s)
{
    for (uint32_t i = 0; i < s->stream_count; i++)
        if (s->streams[i].number >= n->slots)
            n->slots = s->streams[i].number + 1;
    n->streams = calloc((size_t)s->stream_count + 1, sizeof(*n->streams));
    n->slot = calloc((size_t)n->slots + 1, sizeof(*n->slot));
    if (!n->streams || !n->slot)
        return false;
    for (uint32_t i = 0; i < s->stream_count; i++) {
        const struct slave_stream_row *r = &s->streams[i];
        struct ips_stream_in *to = &n->streams[i];
        slave_input_fill_stream_from_row(to, r);
        n->slot[r->number] = i + 1;
    }
    return true;
}

/* Returns the next frame of the list of batches *b, or NULL at the end. The
 * batches come from the drain's queue, or were unpacked from the archive. */
static const struct slave_frame *
next_frame_of_batches(const struct slave_batch **b, size_t *at)
{
    while (*b && *at >= (*b)->len) {
        *b = (*b)->next;
        *at = 0;
    }
    if (!*b)
        return NULL;
    const struct slave_unpacked_archive m = {(*b)->data, (*b)->len};
    return slave_archive_next_frame(&m, at);
}

/* Sorts the new frames by stream. IPS_E_CORRUPT: a frame of a stream that the
 * snapshot lacks. */
static int sort_new_frames_by_stream(struct new_records *n,
                                     const struct slave_snapshot *s,
                                     const struct slave_batch *first,
                                     struct ips_err *err)
{
    const struct slave_batch *b = first;
    const struct slave_frame *f;
    uint32_t count = 0, place = 0;
    size_t at = 0;
    for (; (f = next_frame_of_batches(&b, &at)); count++) {
        if (f->stream >= n->slots || !n->slot[f->stream])
            return ips_err_set(err, IPS_E_CORRUPT,
                               "the archive has an unknown stream %u",
                               f->stream);
        n->streams[n->slot[f->stream] - 1].chunk_count++;
    }
    n->chunks = calloc((size_t)count + 1, sizeof(*n->chunks));
    if (!n->chunks)
        return ips_err_set(err, IPS_E_NO_MEMORY, "out of memory");
    for (uint32_t i = 0; i < s->stream_count; i++) {
        n->streams[i].chunks = n->chunks + place;
        place += n->streams[i].chunk_count;
        n->streams[i].chunk_count = 0;
    }
    b = first;
    at = 0;
    while ((f = next_frame_of_batches(&b, &at))) {
        struct ips_stream_in *to = &n->streams[n->slot[f->stream] - 1];
        size_t i = (size_t)(to->chunks - n->chunks) + to->chunk_count++;
        n->chunks[i] = (struct ips_chunk){(const uint8_t *)(f + 1), f->bytes};
    }
    return 0;
}

static int extend_tables(struct slave_graphs *gs,
                         const struct slave_snapshot *s,
                         const struct slave_batch *frames, struct ips_err *err)
{
    struct slave_live_tables *f = &gs->live_tables;
    struct new_records n = {0};
    struct ips_build_effort took;
    bool done = false;
    int rc = add_entry_for_each_snapshot_stream(&n, s)
                 ? sort_new_frames_by_stream(&n, s, frames, err)
                 : ips_err_set(err, IPS_E_NO_MEMORY, "out of memory");
    const struct ips_build_input in = {.control = &s->control,
                                       .streams = n.streams,
                                       .stream_count = s->stream_count};
    if (rc == 0)
        rc = ips_add_new_records_to_tables(&f->tables, &in, &took, &done, err);
    f->at = s->archive_bytes;
    if (rc == 0 && !done)
        ips_log_debug("run %s: its tables cannot go on", s->run);
    new_records_release(&n);
    return rc;
}

static int extend_tables_from_archive(struct slave_graphs *gs,
                                      const struct slave_snapshot *s,
                                      struct ips_err *err)
{
    struct slave_unpacked_archive map = {0};
    int rc = slave_archive_unpack_from_offset(
        s->dir, s->archive_fd, gs->live_tables.at, s->archive_bytes, &map, NULL,
        NULL, err);
    const struct slave_batch all = {.len = map.length,
                                    .data = (uint8_t *)(uintptr_t)map.data};
    gs->live_tables.unpacked++;
    if (rc == 0)
        rc = extend_tables(gs, s, &all, err);
    slave_archive_free_unpacked(&map);
    return rc;
}

static int extend_tables_from_queue_or_archive(struct slave_graphs *gs,
                                               const struct slave_snapshot *s,
                                               struct slave_record_queue *h,
                                               struct ips_err *err)
{
    struct slave_batch *b = h ? slave_record_queue_take_batches_of_range(
                                    h, gs->live_tables.at, s->archive_bytes)
                              : NULL;
    if (!b && gs->live_tables.at < s->archive_bytes)
        return extend_tables_from_archive(gs, s, err);
    gs->live_tables.queued += b != NULL;
    int rc = extend_tables(gs, s, b, err);
    ips_log_debug("run %s: tables of %llu bytes, %s", s->run,
                  (unsigned long long)s->archive_bytes,
                  b ? "handed over" : "with nothing new");
    if (b)
        slave_record_queue_recycle_batches(h, b);
    return rc;
}

/* ---- in SQLite ---- */

int slave_live_tables_store_if_changed(struct slave_graphs *gs,
                                       struct ips_err *err)
{
    struct slave_live_tables *f = &gs->live_tables;
    uint64_t t = now_ns();
    if (!f->tables || f->stored == f->key || !gs->db[0] || !f->run_id)
        return 0;
    if (!slave_graphs_get_or_open_store(gs, err))
        return err->code;
    int rc = slave_store_replace_summary_tables(
        gs->store, f->run_id, f->key, ips_get_incremental_tables(f->tables),
        err);
    uint64_t now = now_ns(), rest = (now - t) * SLAVE_LIVE_TABLES_STORE_SHARE;
    f->store_due_ns = now + ips_max_u64(rest, SLAVE_LIVE_TABLES_STORE_NS);
    if (rc == 0)
        f->stored = f->key;
    return rc;
}

int slave_live_tables_update_and_store_if_due(struct slave_graphs *gs,
                                              const struct slave_snapshot *s,
                                              struct slave_record_queue *h,
                                              struct ips_err *err)
{
    struct slave_live_tables *f = &gs->live_tables;
    if (s->closed || !reset_tables_if_other_run(f, s)) {
        slave_live_tables_free(f);
        return 0;
    }
    int rc = f->tables ? extend_tables_from_queue_or_archive(gs, s, h, err)
                       : build_tables_of_run_so_far_if_worth_it(gs, s, err);
    if (rc < 0 || slave_incremental_is_memory_short())
        slave_live_tables_free(f);
    if (rc < 0 || !f->tables)
        return rc;
    f->key = s->key;
    return now_ns() >= f->store_due_ns
               ? slave_live_tables_store_if_changed(gs, err)
               : 0;
}
