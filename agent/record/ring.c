/*
 * --on-full=ring, a flight recorder: each thread keeps its newest records.
 *
 * A thread has up to max_ring_segments() segments. When it needs another one,
 * it condenses the oldest segment and the previous *digest* into a new digest,
 * and uses the oldest segment again. A digest keeps the records that are needed
 * to understand newer ones: START, NAME, MODULE and the like, the CHAN of each
 * open channel, and the last send and receive of each channel. These two also
 * contain the sum of the bytes of earlier ones (IPS_REC_F_SUM), so that
 * positions in the byte stream stay right. All other records are counted as
 * OVERWRITTEN, in the digest's header and in a LOST record at its end.
 *
 * Invariants:
 *  - at any moment the digest with the highest seq and the segments with a
 *    higher seq hold all records, each once. The new digest is DRAINED, like
 *    every empty segment, until it is complete and becomes CLOSED. Only then
 *    are the segments that it replaces cleared. (If there is no space for a
 *    third segment, the new digest overwrites the oldest segment or the old
 *    digest; a SIGKILL meanwhile loses that one.)
 *  - a segment is not cleared while an interrupted frame of this thread will
 *    still write to it.
 *
 * The slave reads a stream only after its writer has ended.
 */
#include <string.h>

#include "agent/record/stream.h"
#include "agent/record/sys.h"
#include "common/types.h"

#define RING_MOST 32u
#define RING_LEAST 4u
#define SUMS 2048u /* most pairs of channel and direction that have a sum */
#define LOST_BYTES (IPS_LOST_COUNT * sizeof(struct ips_rec_lost))

struct channel_sum {
    uint64_t key; /* channel id << 1, plus 1 for receives; 0: empty */
    uint64_t bytes;
    uint64_t last; /* address of the last record in the sum */
    bool closed; /* the old digest already contains the close of its channel */
};

struct ips_ring {
    struct ips_segment_map digest;
    struct ips_segment_map old[RING_MOST]; /* closed segments, oldest first */
    uint32_t old_count;
    struct ips_segment_map spare[RING_MOST]; /* empty segments, not in use */
    uint32_t spare_count;
    struct channel_sum sums[SUMS];
};

static uint32_t max_ring_segments(void)
{
    const struct ips_control *c = ips_core.control;
    uint64_t n = c->quota_bytes / 4 / c->segment_bytes;
    return (uint32_t)ips_max_u64(RING_LEAST, ips_min_u64(n, RING_MOST));
}

static struct ips_ring *get_or_map_ring(struct ips_stream *s)
{
    if (!s->ring) {
        uint64_t at =
            ips_sys_mmap(0, sizeof(*s->ring), PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
        if (!ips_sys_is_error(at))
            s->ring = (struct ips_ring *)at;
    }
    return s->ring;
}

static uint32_t count_ring_segments(const struct ips_stream *s)
{
    const struct ips_ring *r = s->ring;
    return r->old_count + r->spare_count + (r->digest.base != 0) +
           (s->seg.base != 0);
}

/* --- condensing ------------------------------------------------------------
 */

struct digest_writer {
    uint64_t at, end; /* next free address and end of the output */
    uint64_t half;    /* address: forks and joins are kept only before it */
    uint64_t dropped;
    uint64_t lost[IPS_LOST_COUNT]; /* sums of LOST records so far */
    uint64_t stamp;                /* stamp of the newest record */
};

static uint32_t load_record_head_word(const struct ips_rec_head *h)
{
    return atomic_load_explicit(&h->word, memory_order_relaxed);
}

static uint64_t record_bytes(const struct ips_rec_head *h)
{
    return (uint64_t)(load_record_head_word(h) >> 8 & 0xff) * 8;
}

static struct ips_rec_head *first_record_of(const struct ips_segment_map *m)
{
    return (struct ips_rec_head *)(m->base + sizeof(struct ips_segment_header));
}

/* Returns the record after `h`, or the first record if `h` is NULL. Returns
 * NULL after the last record. */
static struct ips_rec_head *next_record_of(const struct ips_segment_map *m,
                                           struct ips_rec_head *h)
{
    uint64_t at =
        h ? (uint64_t)h + record_bytes(h) : (uint64_t)first_record_of(m);
    if (!m->base || at + sizeof(*h) > m->used_end)
        return NULL;
    h = (struct ips_rec_head *)at;
    return record_bytes(h) < sizeof(*h) ? NULL : h;
}

static struct channel_sum *find_or_add_channel_sum(struct ips_ring *r,
                                                   uint64_t key, bool add)
{
    uint64_t at = key * 0x9e3779b97f4a7c15ull >> 40;
    for (uint32_t i = 0; i < 16; i++) {
        struct channel_sum *sum = &r->sums[(at + i) % SUMS];
        if (sum->key == key)
            return sum;
        if (sum->key == 0) {
            if (add)
                sum->key = key;
            return add ? sum : NULL;
        }
    }
    return NULL;
}

/* Do the record's bytes advance the position in a channel's byte stream? (The
 * bytes of datagrams do not; sum_bytes_and_find_last_by_channel excludes them.)
 */
static bool counts_in_channel_sum(const struct ips_rec_head *h, uint32_t type)
{
    return (type == IPS_REC_SEND || type == IPS_REC_RECV) && h->a &&
           ((const struct ips_rec_io *)h)->result > 0;
}

static uint64_t channel_sum_key(const struct ips_rec_head *h, uint32_t type)
{
    return (uint64_t)h->a << 1 | (type == IPS_REC_RECV);
}

/* First pass over a segment to condense: for each channel and direction, sums
 * the bytes and notes the last record and whether the channel was closed. */
static void sum_bytes_and_find_last_by_channel(struct ips_ring *r,
                                               const struct ips_segment_map *m,
                                               bool is_digest)
{
    uint32_t dgram = 0;
    for (struct ips_rec_head *h = NULL; (h = next_record_of(m, h));) {
        uint32_t type = load_record_head_word(h) & 0xff;
        bool addressed = dgram && dgram == h->a;
        dgram = type == IPS_REC_DGRAM ? h->a : 0;
        if (counts_in_channel_sum(h, type) && !addressed) {
            struct channel_sum *sum =
                find_or_add_channel_sum(r, channel_sum_key(h, type), true);
            if (!sum)
                continue;
            sum->bytes += (uint64_t)((struct ips_rec_io *)h)->result;
            sum->last = (uint64_t)h;
        }
        /* Only a CLOSE in the digest counts: it is older than all segments of
         * the ring. */
        if (is_digest && type == IPS_REC_CLOSE &&
            ((struct ips_rec_close *)h)->how == IPS_CLOSE_FD)
            for (uint64_t side = 0; side < 2; side++) {
                struct channel_sum *sum = find_or_add_channel_sum(
                    r, (uint64_t)h->a << 1 | side, true);
                if (sum)
                    sum->closed = true;
            }
    }
}

static bool is_channel_closed(struct ips_ring *r, uint32_t chan)
{
    const struct channel_sum *sum =
        find_or_add_channel_sum(r, (uint64_t)chan << 1, false);
    return sum && sum->closed;
}

static bool digest_keeps_record(struct ips_ring *r,
                                const struct ips_rec_head *h,
                                const struct digest_writer *w)
{
    uint32_t type = load_record_head_word(h) & 0xff;
    const struct channel_sum *sum;
    switch (type) {
    case IPS_REC_START:
    case IPS_REC_NAME:
    case IPS_REC_EXEC:
    case IPS_REC_EXECFAIL:
    case IPS_REC_MODULE:
    case IPS_REC_UNSEEN:
    case IPS_REC_END:
        return true;
    case IPS_REC_FORK:
    case IPS_REC_JOIN:
        return w->at < w->half;
    case IPS_REC_CHAN:
    case IPS_REC_CLOSE:
        return !is_channel_closed(r, h->a);
    case IPS_REC_SEND:
    case IPS_REC_RECV:
        if (is_channel_closed(r, h->a))
            return false;
        sum = counts_in_channel_sum(h, type)
                  ? find_or_add_channel_sum(r, channel_sum_key(h, type), false)
                  : NULL;
        if (sum)
            return sum->last == (uint64_t)h;
        return ((const struct ips_rec_io *)h)->op == IPS_OP_CONNECT ||
               ((const struct ips_rec_io *)h)->op == IPS_OP_ACCEPT;
    default:
        return false;
    }
}

/* Returns the most bytes that copy_kept_records() may copy. */
static uint64_t count_kept_bytes(struct ips_ring *r,
                                 const struct ips_segment_map *m)
{
    const struct digest_writer w = {.half = UINT64_MAX};
    uint64_t bytes = 0;
    for (struct ips_rec_head *h = NULL; (h = next_record_of(m, h));)
        bytes += digest_keeps_record(r, h, &w) ? record_bytes(h) : 0;
    return bytes;
}

/* Second pass over a segment to condense: copies the records to keep and counts
 * the others as dropped. */
static void copy_kept_records(struct ips_ring *r,
                              const struct ips_segment_map *m,
                              struct digest_writer *w)
{
    for (struct ips_rec_head *h = NULL; (h = next_record_of(m, h));) {
        uint32_t type = load_record_head_word(h) & 0xff;
        uint64_t bytes = record_bytes(h);
        if (type == IPS_REC_LOST && h->a < IPS_LOST_COUNT) {
            w->lost[h->a] += ((const struct ips_rec_lost *)h)->count;
            continue;
        }
        if (type != IPS_REC_RESERVED)
            w->stamp = h->t;
        if (!digest_keeps_record(r, h, w) ||
            w->at + bytes + LOST_BYTES > w->end) {
            w->dropped++;
            continue;
        }
        struct ips_rec_head *out = (struct ips_rec_head *)w->at;
        memcpy(out, h, bytes);
        const struct channel_sum *sum =
            counts_in_channel_sum(h, type)
                ? find_or_add_channel_sum(r, channel_sum_key(h, type), false)
                : NULL;
        if (sum &&
            sum->bytes != (uint64_t)((const struct ips_rec_io *)h)->result) {
            ((struct ips_rec_io *)out)->result = (int64_t)sum->bytes;
            atomic_store_explicit(
                &out->word, load_record_head_word(h) | IPS_REC_F_SUM << 16,
                memory_order_relaxed);
        }
        w->at += bytes;
    }
}

static void write_lost_sums(struct digest_writer *w)
{
    w->lost[IPS_LOST_OVERWRITTEN] += w->dropped;
    for (uint32_t cause = 0; cause < IPS_LOST_COUNT; cause++) {
        if (!w->lost[cause] || w->at + sizeof(struct ips_rec_lost) > w->end)
            continue;
        struct ips_rec_lost *rec = (struct ips_rec_lost *)w->at;
        rec->h.a = cause;
        rec->h.t = w->stamp;
        rec->count = w->lost[cause];
        atomic_store_explicit(&rec->h.word,
                              IPS_REC_LOST | (uint32_t)sizeof(*rec) / 8 << 8,
                              memory_order_relaxed);
        w->at += sizeof(*rec);
    }
}

/* Empties a segment after its records were condensed into the digest. */
static void clear_segment_and_mark_drained(struct ips_segment_map *m)
{
    struct ips_segment_header *h = ips_segment_head(m);
    atomic_store_explicit(&h->state, IPS_SEGMENT_DRAINED, memory_order_release);
    memset(first_record_of(m), 0, m->used_end - (uint64_t)first_record_of(m));
    m->used_end = (uint64_t)first_record_of(m);
}

/* Fills the header of the new digest: a copy of the header of `last`, with the
 * lost records of `last` and of the old digest added up. */
static void fill_digest_header(struct ips_segment_header *h,
                               const struct ips_ring *r,
                               const struct ips_segment_map *last,
                               uint64_t dropped)
{
    const struct ips_segment_header *from = ips_segment_head(last);
    const struct ips_segment_header *before =
        r->digest.base ? ips_segment_head(&r->digest) : NULL;
    memcpy((char *)h + sizeof(h->magic),
           (const char *)from + sizeof(from->magic),
           sizeof(*h) - sizeof(h->magic));
    atomic_store_explicit(&h->state, IPS_SEGMENT_DRAINED, memory_order_relaxed);
    atomic_store_explicit(&h->abandoned, 0, memory_order_relaxed);
    h->flags |= IPS_SEGMENT_DIGEST;
    for (unsigned i = 0; i < IPS_LOST_COUNT; i++)
        h->lost[i] = from->lost[i] + (before ? before->lost[i] : 0) +
                     (i == IPS_LOST_OVERWRITTEN ? dropped : 0);
}

/* Condenses the oldest segment and the digest into a new digest; the segments
 * that become free are spare then. Without a spare segment that can be
 * populated far enough, the new digest is built in anonymous memory and then
 * overwrites the oldest segment or the old digest, whichever has more populated
 * memory. Returns 0, or the cause of failure by ips_encode_lost_cause(). */
static int condense_oldest_segment(struct ips_ring *r)
{
    struct ips_segment_map last = r->old[0], out = {0};
    if (ips_segment_has_unpublished_record(&last) ||
        (r->digest.base && ips_segment_has_unpublished_record(&r->digest)))
        return ips_encode_lost_cause(IPS_LOST_NESTED);
    memset(r->sums, 0, sizeof(r->sums));
    sum_bytes_and_find_last_by_channel(r, &r->digest, true);
    sum_bytes_and_find_last_by_channel(r, &last, false);
    bool in_place = true;
    if (r->spare_count) {
        /* A digest keeps two records a channel, so it may need more memory than
         * is populated in a new segment. */
        out = r->spare[r->spare_count - 1];
        uint64_t need = out.base + sizeof(struct ips_segment_header) +
                        count_kept_bytes(r, &r->digest) +
                        count_kept_bytes(r, &last) + LOST_BYTES;
        in_place = ips_segment_populate(&out, need) < 0;
        r->spare_count -= !in_place;
    }
    if (in_place) {
        /* The digest and the oldest segment may be populated in part only. */
        uint64_t digest_room = r->digest.limit - r->digest.base;
        out = digest_room > last.limit - last.base ? r->digest : last;
    }
    const uint64_t room = out.limit - out.base;
    uint64_t at = out.base;
    if (in_place) {
        at = ips_sys_mmap(0, room, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1);
        if (ips_sys_is_error(at))
            return ips_encode_lost_cause(IPS_LOST_NO_SEGMENT);
    }
    struct digest_writer w = {
        .at = at + sizeof(struct ips_segment_header),
        .end = at + room,
        .half = at + (in_place ? room : out.end - out.base) / 2};
    copy_kept_records(r, &r->digest, &w);
    copy_kept_records(r, &last, &w);
    write_lost_sums(&w);
    struct ips_segment_header *h = (struct ips_segment_header *)at;
    fill_digest_header(h, r, &last, w.dropped);
    if (in_place) {
        out.used_end = ips_max_u64(out.used_end, out.base + (w.at - at));
        clear_segment_and_mark_drained(&out);
        memcpy((char *)out.base + sizeof(h->magic),
               (char *)at + sizeof(h->magic), w.at - at - sizeof(h->magic));
        ips_sys_munmap(at, room);
        h = ips_segment_head(&out);
    }
    out.used_end = out.base + (w.at - at);
    h->segment_bytes = (uint32_t)(out.end - out.base);
    /* Partner: the reader's acquire load of `state`. */
    atomic_store_explicit(&h->state, IPS_SEGMENT_CLOSED, memory_order_release);
    r->old_count--;
    memmove(r->old, r->old + 1, r->old_count * sizeof(r->old[0]));
    if (last.base != out.base) {
        clear_segment_and_mark_drained(&last);
        r->spare[r->spare_count++] = last;
    }
    if (r->digest.base && r->digest.base != out.base) {
        clear_segment_and_mark_drained(&r->digest);
        r->spare[r->spare_count++] = r->digest;
    }
    r->digest = out;
    return 0;
}

/* --- the ring's version of record/segment.c --------------------------------
 */

int ips_ring_change_to_next(struct ips_stream *s)
{
    struct ips_ring *r = get_or_map_ring(s);
    struct ips_segment_map next = {0}, spare;
    if (!r)
        return ips_encode_lost_cause(IPS_LOST_NO_SEGMENT);
    int rc = ips_encode_lost_cause(IPS_LOST_QUOTA);
    uint32_t most = max_ring_segments();
    if (count_ring_segments(s) < most - 2)
        rc = ips_segment_take_spare_or_make(s, &next);
    else if (r->spare_count == 0 && count_ring_segments(s) < most &&
             ips_segment_take_spare_or_make(s, &spare) == 0) {
        /* Write a header, so that the slave knows the stream that owns the
         * file. */
        ips_segment_write_header(s, &spare);
        s->seq--;
        spare.used_end = (uint64_t)first_record_of(&spare);
        clear_segment_and_mark_drained(&spare);
        r->spare[r->spare_count++] = spare;
    }
    if (rc < 0 && count_ring_segments(s) < 2)
        return rc; /* a ring needs at least two segments */
    if (s->seg.base) {
        ips_segment_mark_closed(s);
        r->old[r->old_count++] = s->seg;
        s->prev = s->seg; /* an interrupted frame may still write there */
        s->seg = (struct ips_segment_map){0};
        s->cur = s->tail = s->lo = s->limit = 0;
    }
    /* If there are enough segments, keep one spare for the next digest. */
    while (!next.base) {
        if (r->spare_count < 2 && r->old_count > (r->spare_count ? 1 : 0))
            rc = condense_oldest_segment(r);
        else
            rc = 0;
        if (r->spare_count >= 2 ||
            (r->spare_count && (rc < 0 || r->old_count < 2)))
            next = r->spare[--r->spare_count];
        else if (rc < 0 || r->old_count == 0)
            return rc < 0 ? rc : ips_encode_lost_cause(IPS_LOST_QUOTA);
    }
    if (s->prev.base == next.base)
        s->prev = (struct ips_segment_map){0};
    next.used_end = 0;
    ips_segment_write_header(s, &next);
    ips_segment_move_current_call(&s->prev, &next);
    s->seg = next;
    s->lo = next.base + sizeof(struct ips_segment_header);
    s->limit = next.limit;
    s->cur = s->tail = s->lo;
    return 0;
}

void ips_ring_close_all(struct ips_stream *s)
{
    struct ips_ring *r = s->ring;
    s->prev = (struct ips_segment_map){0};
    for (uint32_t i = 0; i < r->spare_count; i++)
        ips_segment_abandon_and_unmap(&r->spare[i]);
    for (uint32_t i = 0; i < r->old_count; i++)
        ips_segment_abandon_and_unmap(&r->old[i]);
    if (s->seg.base) {
        ips_segment_mark_closed(s);
        ips_segment_abandon_and_unmap(&s->seg);
    }
    /* The digest is abandoned last, which shows the slave that the stream has
     * ended. */
    ips_segment_abandon_and_unmap(&r->digest);
    ips_ring_unmap_state(s);
}

void ips_ring_unmap_state(struct ips_stream *s)
{
    if (s->ring)
        ips_sys_munmap((uint64_t)(uintptr_t)s->ring, sizeof(*s->ring));
    s->ring = NULL;
}
