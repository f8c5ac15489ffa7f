/* Copies records from a segment; see drain/segment_reader.h. */
#include "slave/drain/segment_reader.h"

#include <errno.h>
#include <stdatomic.h>
#include <unistd.h>

#include "agent/pool/pool.h"
#include "slave/drain/poolfs.h"

/* ---- how far records are published ---- */

#define LOOK_AHEAD 2048u

/* Returns how many of the `len` bytes hold published records; *stop says what
 * follows them. `is_end`: the segment ends after the `len` bytes. The bytes may
 * change meanwhile, so each record's head is read once. */
static size_t count_published_bytes(const uint8_t *p, size_t len, bool is_end,
                                    enum slave_segment_stop *stop)
{
    size_t at = 0;
    *stop = SLAVE_STOP_ZERO;
    while (len - at >= sizeof(struct ips_rec_head)) {
        uint32_t word = __atomic_load_n(
            (const uint32_t *)(const void *)(p + at), __ATOMIC_RELAXED);
        size_t n = record_bytes_from_head_word(word);
        if (word == 0)
            return at;
        if (n < sizeof(struct ips_rec_head) || (word & 0xffu) == 0 ||
            n > IPS_REC_MAX_BYTES || (is_end && n > len - at)) {
            *stop = SLAVE_STOP_WRONG;
            return at;
        }
        if ((word & 0xffu) == IPS_REC_RESERVED) {
            *stop = SLAVE_STOP_PENDING;
            return at;
        }
        if (n > len - at)
            break;
        /* A prefetch beyond the mapping does not fault. Only a record's head
         * says where the next head is, so without prefetching the memory
         * accesses could not overlap. */
        __builtin_prefetch(p + at + LOOK_AHEAD);
        at += n;
    }
    if (!is_end)
        *stop = SLAVE_STOP_MORE;
    return at;
}

struct span {
    const uint8_t *p;
    size_t len;
    struct slave_segment_look *request;
};

static void find_published_end_in_span(void *arg)
{
    const struct span *s = arg;
    s->request->extent = count_published_bytes(
        s->p, s->len, s->len == s->request->left, &s->request->stop_reason);
}

ssize_t slave_pread_without_eintr(int fd, void *out, size_t len, uint32_t at)
{
    ssize_t n;
    do
        n = pread(fd, out, len, (off_t)at);
    while (n < 0 && errno == EINTR);
    return n;
}

static void unmap_segment_and_use_pread(struct slave_segment *seg)
{
    slave_guarded_close(&seg->mapping);
    seg->cut = true;
}

/* Finds the published records through the segment's mapping, which it makes if
 * needed. Returns false if pread must be used. */
static bool find_published_by_mapping(struct slave_segment *seg, size_t len,
                                      struct slave_segment_look *look)
{
    struct slave_guarded_mapping *v = &seg->mapping;
    size_t at = seg->row.at;
    if (!v->data && (seg->cut || !slave_guarded_open(v, seg->fd, seg->size)))
        return false;
    size_t whole = slave_guarded_allocated_end(v, seg->fd, at, at + len);
    struct span s = {v->data + at, whole > at ? whole - at : 0, look};
    s.len = s.len < len ? s.len : len;
    if (!slave_guarded_call(v, find_published_end_in_span, &s)) {
        unmap_segment_and_use_pread(seg);
        return false;
    }
    return look->extent > 0 || look->stop_reason != SLAVE_STOP_MORE;
}

int slave_segment_reader_find_published_end(struct slave_drain *d,
                                            struct slave_segment *seg,
                                            struct slave_segment_look *look,
                                            struct ips_err *err)
{
    look->left = seg->size - seg->row.at;
    struct span s = {d->peek, ips_min_u64(look->left, look->most), look};
    if ((seg->mapping.data || look->most > SLAVE_LOOK_FIRST_BYTES) &&
        find_published_by_mapping(seg, s.len, look))
        return 0;
    look->extent = 0;
    look->stop_reason = SLAVE_STOP_WRONG;
    ssize_t n =
        s.len ? slave_pread_without_eintr(seg->fd, d->peek, s.len, seg->row.at)
              : 0;
    if (n < 0)
        return ips_err_errno(err, "segment %s", seg->row.file);
    if ((size_t)n == s.len) /* a short read means that the file was truncated */
        find_published_end_in_span(&s);
    return 0;
}

int slave_segment_reader_read_header(struct slave_segment *seg,
                                     struct ips_segment_header *out,
                                     struct ips_err *err)
{
    struct slave_guarded_mapping *v = &seg->mapping;
    uint32_t state;
    if (!v->data)
        return slave_poolfs_read_header(seg->fd, out, err);
    bool there = slave_guarded_copy(
        v, offsetof(struct ips_segment_header, state), &state, sizeof(state));
    /* pairs with the writer's release store of `state` */
    atomic_thread_fence(memory_order_acquire);
    if (!there || !slave_guarded_copy(v, 0, out, sizeof(*out))) {
        unmap_segment_and_use_pread(seg);
        return slave_poolfs_read_header(seg->fd, out, err);
    }
    out->state = state;
    int rc = slave_poolfs_check_header(out, err);
    return rc == 0 && out->segment_bytes != v->len
               ? ips_err_set(err, IPS_E_CORRUPT,
                             "a header of %u bytes where "
                             "there were %zu",
                             out->segment_bytes, v->len)
               : rc;
}

/* ---- the copy that is kept ---- */

/* Fast path: returns the size of a record of the most common types, which
 * contain no length to check; 0 for other records. */
static size_t record_bytes_if_common_call(uint32_t word)
{
    uint32_t type = word & 0xffu;
    size_t n = record_bytes_from_head_word(word);
    if (n == sizeof(struct ips_rec_io_short))
        return type == IPS_REC_SEND_SHORT || type == IPS_REC_RECV_SHORT ? n : 0;
    return n == sizeof(struct ips_rec_io) &&
                   (type == IPS_REC_SEND || type == IPS_REC_RECV ||
                    type == IPS_REC_BLOCK || type == IPS_REC_RECVCALL)
               ? n
               : 0;
}

/* Checks the records, counts them in *records, and notes in `image` whether a
 * final END is among them. Returns the number of valid bytes. */
static size_t check_and_count_records(struct slave_image *image,
                                      const uint8_t *p, size_t len,
                                      uint32_t *records)
{
    size_t at = 0;
    *records = 0;
    while (at < len) {
        uint32_t word = slave_read_record_head_word(p + at);
        size_t n = record_bytes_if_common_call(word);
        if (n == 0 || len - at < n)
            n = ips_rec_check_and_get_length(p + at, len - at);
        if (n == 0)
            break;
        if ((word & 0xffu) == IPS_REC_END) {
            struct ips_rec_end end;
            memcpy(&end, p + at, sizeof(end));
            if (end.h.a != IPS_END_THREAD && end.h.a != IPS_END_TASK)
                image->ended = true;
        }
        at += n;
        (*records)++;
    }
    return at;
}

int slave_segment_reader_stage_frames_in_archive(struct slave_drain *d,
                                                 struct slave_run *run,
                                                 struct ips_err *err)
{
    const struct slave_archive *a = &run->archive;
    uint64_t from = a->length + a->staged;
    int rc = 0;
    if (d->frames_len)
        rc = slave_archive_pack_and_stage_frames(
            &run->archive, d->pack, run->row.control.clock.mult_q32, d->frames,
            d->frames_len, err);
    if (rc == 0 && d->frames_len && run->record_queue)
        slave_record_queue_append_if_room(run->record_queue, &d->frames,
                                          d->frames_len, from,
                                          a->length + a->staged);
    d->frames_len = 0;
    return rc;
}

static bool copy_bytes(struct slave_segment *seg, uint8_t *data, size_t len)
{
    /* Pairs with the writer's release stores of the record heads. */
    atomic_thread_fence(memory_order_acquire);
    if (seg->mapping.data) {
        if (slave_guarded_copy(&seg->mapping, seg->row.at, data, len))
            return true;
        unmap_segment_and_use_pread(seg);
    }
    return slave_pread_without_eintr(seg->fd, data, len, seg->row.at) ==
           (ssize_t)len;
}

int slave_segment_reader_copy_published(struct slave_drain *d,
                                        struct slave_run *run,
                                        struct slave_segment *seg, size_t len,
                                        bool *wrong, struct ips_err *err)
{
    struct slave_stream *st = seg->stream;
    if (d->frames_len + sizeof(struct slave_frame) + len > SLAVE_FRAMES_BYTES) {
        int rc = slave_segment_reader_stage_frames_in_archive(d, run, err);
        if (rc < 0)
            return rc;
    }
    struct slave_frame *frame =
        (struct slave_frame *)(void *)(d->frames + d->frames_len);
    uint8_t *data = (uint8_t *)(frame + 1);
    uint32_t records;
    size_t good = copy_bytes(seg, data, len)
                      ? check_and_count_records(st->image, data, len, &records)
                      : 0;
    *wrong = good != len;
    if (good == 0)
        return 0;
    *frame = (struct slave_frame){
        .stream = st->row.number, .bytes = (uint32_t)good, .records = records};
    d->frames_len += sizeof(*frame) + good;
    slave_run_mark_dirty(run);
    slave_segment_mark_dirty(seg);
    slave_stream_mark_dirty(st);
    seg->row.at += (uint32_t)good;
    st->row.records += records;
    st->row.bytes += good;
    run->row.events += records;
    d->moved_bytes += good;
    return 0;
}
