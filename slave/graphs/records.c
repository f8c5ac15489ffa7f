/* Keeps unpacked records of runs; see records.h. */
#include "slave/graphs/records.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "slave/build/internal.h"
#include "slave/graphs/graphs.h"

#define KEPT_MAX 2u

static void records_free(struct slave_records *r)
{
    for (uint32_t i = 0; i < r->piece_count; i++)
        slave_archive_free_unpacked(&r->pieces[i].map);
    for (uint32_t i = 0; i < r->stream_count; i++) {
        ips_free_large(r->streams[i].chunks);
        ips_free_large(r->streams[i].piece);
    }
    ips_free_large(r->pieces);
    ips_free_large(r->streams);
    free(r);
}

/* ---- is it the same archive? ---- */

static bool read_block_checksum(int fd, uint64_t at, uint64_t *check)
{
    struct slave_block b;
    if (pread(fd, &b, sizeof(b), (off_t)at) != sizeof(b))
        return false;
    *check = b.check;
    return true;
}

static bool is_same_archive(const struct slave_records *r, int fd,
                            const struct stat *st)
{
    uint64_t first, last;
    return r->dev == st->st_dev && r->ino == st->st_ino &&
           read_block_checksum(fd, 0, &first) && first == r->first &&
           read_block_checksum(fd, r->last_at, &last) && last == r->last;
}

/* Returns true if one of the unpacked pieces ends exactly at archive offset
 * `bytes`. */
static bool has_piece_that_ends_at(const struct slave_records *r,
                                   uint64_t bytes)
{
    for (uint32_t i = r->piece_count; i > 0; i--)
        if (r->pieces[i - 1].until <= bytes)
            return r->pieces[i - 1].until == bytes;
    return bytes == 0;
}

/* ---- unpacking ---- */

static void collect_record_types(uint64_t types[4], const uint8_t *p,
                                 uint32_t len)
{
    for (uint32_t at = 0; at + 8 <= len;) {
        uint32_t word;
        memcpy(&word, p + at, sizeof(word));
        uint32_t bytes = (word >> 8 & 0xffu) * 8;
        types[(word & 0xffu) / 64] |= 1ULL << (word & 63u);
        at += bytes ? bytes : 8;
    }
}

/* Adds a frame to the records of its stream, as part of the piece that is being
 * unpacked (number r->piece_count). */
static int add_archive_frame_to_stream(void *arg, const struct slave_frame *f,
                                       struct ips_err *err)
{
    struct slave_records *r = arg;
    if (f->stream >= r->stream_count)
        return ips_err_set(err, IPS_E_CORRUPT,
                           "the archive has an unknown stream %u", f->stream);
    struct slave_records_stream *s = &r->streams[f->stream];
    uint32_t room = s->capacity;
    int rc = 0;
    if (s->count == s->capacity) {
        rc = b_array_reserve((void **)&s->chunks, s->count, &room,
                             sizeof(*s->chunks), err);
        if (rc == 0)
            rc = b_array_reserve((void **)&s->piece, s->count, &s->capacity,
                                 sizeof(*s->piece), err);
    }
    if (rc < 0)
        return rc;
    s->chunks[s->count] =
        (struct ips_chunk){(const uint8_t *)(f + 1), f->bytes};
    s->piece[s->count++] = r->piece_count;
    r->seen_bytes += f->bytes;
    if (r->all_bytes && r->seen_bytes <= r->all_bytes)
        atomic_store_explicit(
            r->permille,
            (unsigned)(r->seen_bytes * B_BUILT_READ / r->all_bytes),
            memory_order_relaxed);
    collect_record_types(s->types, (const uint8_t *)(f + 1), f->bytes);
    return 0;
}

static int reserve_record_streams(struct slave_records *r, uint32_t count,
                                  struct ips_err *err)
{
    if (count <= r->stream_count)
        return 0;
    struct slave_records_stream *v = ips_calloc_large(count, sizeof(*v));
    if (!v)
        return ips_err_set(err, IPS_E_NO_MEMORY, "%u streams", count);
    if (r->stream_count)
        memcpy(v, r->streams, r->stream_count * sizeof(*v));
    ips_free_large(r->streams);
    r->streams = v;
    r->stream_count = count;
    return 0;
}

/* Returns the offset of the last of the blocks that begin in [from, to). */
static uint64_t find_last_archive_block_offset(int fd, uint64_t from,
                                               uint64_t to)
{
    struct slave_block b;
    uint64_t last = from;
    for (uint64_t at = from; at < to; at += sizeof(b) + b.bytes) {
        last = at;
        if (pread(fd, &b, sizeof(b), (off_t)at) != sizeof(b))
            break;
    }
    return last;
}

/* Reads the archive's bytes [r->bytes, s->archive_bytes) and adds their records
 * to `r`. */
static int extend_records(struct slave_records *r,
                          const struct slave_snapshot *s, int fd,
                          struct ips_err *err)
{
    uint32_t slots = 0;
    r->all_bytes = 0;
    for (uint32_t i = 0; i < s->stream_count; i++) {
        r->all_bytes += s->streams[i].bytes;
        if (s->streams[i].number >= slots)
            slots = s->streams[i].number + 1;
    }
    int rc = reserve_record_streams(r, slots, err);
    if (rc == 0 && r->piece_count == r->piece_capacity)
        rc = b_array_reserve((void **)&r->pieces, r->piece_count,
                             &r->piece_capacity, sizeof(*r->pieces), err);
    if (rc < 0)
        return rc;
    struct slave_records_piece *part = &r->pieces[r->piece_count];
    rc = slave_archive_unpack_from_offset(s->dir, fd, r->bytes,
                                          s->archive_bytes, &part->map,
                                          add_archive_frame_to_stream, r, err);
    if (rc < 0)
        return rc; /* the caller frees `r`, which is incomplete */
    part->until = s->archive_bytes;
    r->piece_count++;
    r->last_at = find_last_archive_block_offset(fd, r->bytes, s->archive_bytes);
    r->bytes = s->archive_bytes;
    (void)read_block_checksum(fd, 0, &r->first);
    (void)read_block_checksum(fd, r->last_at, &r->last);
    return 0;
}

/* ---- which records are kept ---- */

static struct slave_records *detach_records(struct slave_records **list,
                                            const char *run)
{
    for (struct slave_records **p = list; *p; p = &(*p)->next)
        if (strcmp((*p)->run, run) == 0) {
            struct slave_records *r = *p;
            *p = r->next;
            return r;
        }
    return NULL;
}

void slave_records_drop(struct slave_records **list, const char *run)
{
    for (struct slave_records **p = list; *p;) {
        struct slave_records *r = *p;
        if (run && strcmp(r->run, run) != 0) {
            p = &r->next;
            continue;
        }
        *p = r->next;
        records_free(r);
    }
}

static struct slave_records *records_new(const char *run, const struct stat *st,
                                         bool kept)
{
    struct slave_records *r = calloc(1, sizeof(*r));
    if (!r)
        return NULL;
    r->is_shared = kept;
    r->dev = st->st_dev;
    r->ino = st->st_ino;
    snprintf(r->run, sizeof(r->run), "%s", run);
    return r;
}

static int take_cached_records_and_extend(struct slave_records **list,
                                          const struct slave_snapshot *s,
                                          atomic_uint *permille, int fd,
                                          struct slave_records **out,
                                          struct ips_err *err)
{
    struct stat st = {0};
    struct slave_records *r = detach_records(list, s->run);
    bool kept = true;
    if (fd >= 0 && fstat(fd, &st) < 0) {
        if (r)
            records_free(r);
        return ips_err_errno(err, "stat %s/archive", s->dir);
    }
    if (r && r->bytes && !is_same_archive(r, fd, &st)) {
        records_free(r);
        r = NULL;
    }
    if (r && r->bytes > s->archive_bytes &&
        !has_piece_that_ends_at(r, s->archive_bytes)) {
        /* The snapshot is older than the kept records: leave these in the list
         * and read the archive for this use only. */
        r->next = *list;
        *list = r;
        r = NULL;
        kept = false;
    }
    if (!r)
        r = records_new(s->run, &st, kept);
    if (!r)
        return ips_err_set(err, IPS_E_NO_MEMORY, "out of memory");
    r->permille = permille;
    int rc = r->bytes < s->archive_bytes ? extend_records(r, s, fd, err) : 0;
    if (rc < 0) {
        records_free(r);
        return rc;
    }
    *out = r;
    return 0;
}

int slave_records_get_or_unpack(struct slave_records **list,
                                const struct slave_snapshot *s,
                                atomic_uint *permille,
                                struct slave_records **out, struct ips_err *err)
{
    int own = s->archive_fd < 0 ? slave_archive_open_for_reading(s->dir) : -1;
    int fd = s->archive_fd < 0 ? own : s->archive_fd;
    int rc =
        fd < 0 && s->archive_bytes
            ? ips_err_errno(err, "open %s/archive", s->dir)
            : take_cached_records_and_extend(list, s, permille, fd, out, err);
    if (own >= 0)
        close(own);
    return rc;
}

uint32_t slave_records_get_chunks(const struct slave_records *r,
                                  uint32_t stream, uint64_t bytes,
                                  const struct ips_chunk **out)
{
    *out = NULL;
    if (stream >= r->stream_count)
        return 0;
    const struct slave_records_stream *s = &r->streams[stream];
    uint32_t n = s->count;
    while (n > 0 && r->pieces[s->piece[n - 1]].until > bytes)
        n--;
    *out = s->chunks;
    return n;
}

void slave_records_keep_or_free(struct slave_records **list,
                                struct slave_records *r)
{
    uint32_t kept = 0;
    if (!r)
        return;
    struct ips_large_use use = ips_large_get_use();
    if (!r->is_shared || use.files || use.memory > use.limit / 2) {
        records_free(r);
        return;
    }
    r->next = *list;
    *list = r;
    for (struct slave_records **p = list; *p;) {
        struct slave_records *old = *p;
        if (++kept <= KEPT_MAX) {
            p = &old->next;
            continue;
        }
        *p = old->next;
        records_free(old);
    }
}
