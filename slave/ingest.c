/*
 * One segment: polled, read, given up. (settle.c hands back and removes.)
 *
 * What is read twice: the first copy tells how far records are published, the
 * second is the one that is kept - in the first a record's body may have been
 * copied before its writer stored it. The second copy is private, so checking
 * it is final, whatever the writer does.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/pool.h"
#include "common/log.h"
#include "slave/drain.h"
#include "slave/poolfs.h"

#define POLL_MIN_NS (10 * SLAVE_MS_NS)
#define POLL_MAX_NS (500 * SLAVE_MS_NS)
#define FIRST_READ_BYTES 4096u
/* How long a reservation may stand unpublished: in a closed segment (an
 * interrupted writer below a signal handler), and in an open one with later
 * records behind it. */
#define PENDING_CLOSED_NS (2 * SLAVE_SECOND_NS)
#define PENDING_OPEN_NS (10 * SLAVE_SECOND_NS)
#define GAP_NS (2 * SLAVE_SECOND_NS)
#define NEW_NS (5 * SLAVE_SECOND_NS)

enum stop { STOP_ZERO, STOP_PENDING, STOP_MORE, STOP_WRONG };

void slave_segment_close_fd(struct slave_drain *d, struct slave_segment *seg)
{
    if (seg->fd >= 0) {
        close(seg->fd);
        d->open_fds--;
    }
    seg->fd = -1;
}

int slave_ingest_fd(struct slave_drain *d, struct slave_run *run,
                    struct slave_segment *seg, struct ips_err *err)
{
    if (seg->fd >= 0)
        return seg->fd;
    int fd = slave_poolfs_segment(run->dirfd, seg->row.file, err);
    if (fd < 0)
        return fd;
    seg->fd = fd;
    d->open_fds++;
    return fd;
}

void slave_ingest_back_off(struct slave_segment *seg, uint64_t now_ns,
                           bool news)
{
    seg->wait_ns = news ? POLL_MIN_NS : seg->wait_ns + seg->wait_ns / 2;
    if (seg->wait_ns < POLL_MIN_NS)
        seg->wait_ns = POLL_MIN_NS;
    if (seg->wait_ns > POLL_MAX_NS)
        seg->wait_ns = POLL_MAX_NS;
    seg->next_poll_ns = now_ns + seg->wait_ns;
}

bool slave_ingest_writer_gone(const struct slave_segment *seg)
{
    enum slave_image_state s = seg->stream->image->state;
    return s == SLAVE_IMAGE_DEAD || s == SLAVE_IMAGE_REPLACED;
}

void slave_ingest_refuse(struct slave_run *run, struct slave_segment *seg,
                         const char *why)
{
    ips_log_warn("run %s: segment %s: %s; not read", run->row.name,
                 seg->row.file, why);
    slave_run_touch(run);
    run->row.given_up++;
    slave_segment_set_state(seg, SLAVE_SEG_BAD, why);
}

/* ---- a new file, or one that its writer uses again ---- */

void slave_ingest_begin(struct slave_segment *seg,
                        const struct ips_segment_header *head)
{
    slave_segment_touch(seg);
    seg->size = head->segment_bytes;
    seg->row.seq = head->seq;
    seg->row.at = head->header_bytes;
    seg->row.done = false;
    seg->row.given_up = false;
    memset(seg->row.lost, 0, sizeof(seg->row.lost));
    seg->skipped = false;
    seg->since_ns = 0;
    slave_segment_set_state(seg, SLAVE_SEG_WAITING, "has a header");
}

/* A segment whose row was there before we were: is it still the same? */
static void resume(struct slave_run *run, struct slave_segment *seg,
                   const struct ips_segment_header *head)
{
    seg->size = head->segment_bytes;
    if (seg->row.stream != seg->stream->row.number ||
        (!seg->row.done && head->seq != seg->row.seq) ||
        seg->row.at > head->segment_bytes)
        slave_ingest_refuse(run, seg, "not the segment it was before");
    else if (!seg->row.done)
        slave_segment_set_state(seg, SLAVE_SEG_WAITING, "resumed");
    else if (head->seq != seg->row.seq)
        slave_ingest_begin(seg, head);
    else if (head->state == IPS_SEGMENT_DRAINED)
        slave_segment_set_state(seg, SLAVE_SEG_DRAINED, "was handed back");
    else
        slave_segment_set_state(seg, SLAVE_SEG_DONE, "was read");
}

static void poll_new(struct slave_drain *d, struct slave_run *run,
                     struct slave_segment *seg, uint64_t now_ns)
{
    struct ips_err err = {0};
    struct ips_segment_header head;
    struct stat st = {0};
    bool gone = seg->stream && slave_ingest_writer_gone(seg);
    int fd = slave_ingest_fd(d, run, seg, &err);
    int rc = fd < 0 ? fd : slave_poolfs_header(fd, &head, &err);
    slave_ingest_back_off(seg, now_ns, false);
    if (!seg->since_ns)
        seg->since_ns = now_ns;
    if (rc == IPS_E_LIMIT) {
        ips_log_warn("run %s: %s", run->row.name, err.msg);
        return;
    }
    if (rc == IPS_E_INCOMPLETE) {
        /* Its writer died before it wrote a header: nothing is in it. */
        if (ips_sub_sat(now_ns, seg->since_ns) > NEW_NS)
            slave_segment_set_state(seg, SLAVE_SEG_BAD, "never got a header");
        return;
    }
    if (rc == IPS_E_NOT_FOUND) {
        slave_segment_set_state(seg, SLAVE_SEG_GONE, "removed again");
        seg->drop_row = seg->stored;
        return;
    }
    if (rc < 0) {
        /* Anybody may put files into a run of root's; what is no segment, or
         * not one of the run's user's, is not counted as damage to the run. */
        bool planted = rc == IPS_E_REFUSED || (fd >= 0 && fstat(fd, &st) == 0 &&
                                               st.st_uid != geteuid());
        if (!planted) {
            slave_ingest_refuse(run, seg, err.msg);
            return;
        }
        ips_log_warn("run %s: %s: %s; left alone", run->row.name, seg->row.file,
                     err.msg);
        slave_segment_set_state(seg, SLAVE_SEG_BAD, "not of this run");
        return;
    }
    uint32_t known = run->stream_count;
    struct slave_stream *stream = slave_run_stream(run, &head);
    if (!stream)
        return; /* no memory: later */
    seg->stream = stream;
    seg->since_ns = 0;
    seg->next_poll_ns = 0;
    run->changed_ns = now_ns;
    if (stream->image->last_ns == 0) { /* a new image */
        (void)fstat(fd, &st);
        slave_live_track(d, stream->image,
                         (uint64_t)st.st_mtim.tv_sec * SLAVE_SECOND_NS +
                             (uint64_t)st.st_mtim.tv_nsec);
    }
    if (run->stream_count != known)
        d->version++;
    if (run->row.control.on_full == IPS_ON_FULL_RING &&
        !slave_ingest_ring_turn(run, seg, &head, gone))
        return;
    if (seg->stored) {
        resume(run, seg, &head);
        return;
    }
    seg->row.stream = stream->row.number;
    if (head.seq < stream->row.next_seq)
        slave_ingest_refuse(run, seg,
                            "its part of the stream was read already");
    else
        slave_ingest_begin(seg, &head);
}

/* ---- records ---- */

static uint32_t word_at(const uint8_t *p)
{
    uint32_t word;
    memcpy(&word, p, sizeof(word));
    return word;
}

static size_t word_bytes(uint32_t word)
{
    return (size_t)(word >> 8 & 0xffu) * 8;
}

/* How far `len` bytes hold published records, and what stands there. */
static size_t published(const uint8_t *p, size_t len, bool is_end,
                        enum stop *stop)
{
    size_t at = 0;
    *stop = STOP_ZERO;
    while (len - at >= sizeof(struct ips_rec_head)) {
        uint32_t word = word_at(p + at);
        size_t n = word_bytes(word);
        if (word == 0)
            return at;
        if (n < sizeof(struct ips_rec_head) || (word & 0xffu) == 0 ||
            n > IPS_REC_MAX_BYTES || (is_end && n > len - at)) {
            *stop = STOP_WRONG;
            return at;
        }
        if ((word & 0xffu) == IPS_REC_RESERVED) {
            *stop = STOP_PENDING;
            return at;
        }
        if (n > len - at)
            break;
        at += n;
    }
    if (!is_end)
        *stop = STOP_MORE;
    return at;
}

/* Checks the copy that is kept; notes what the slave itself wants to know. */
static size_t check_records(struct slave_image *image, const uint8_t *p,
                            size_t len, uint32_t *records)
{
    size_t at = 0;
    *records = 0;
    while (at < len) {
        size_t n = ips_rec_check(p + at, len - at);
        if (n == 0)
            break;
        if ((word_at(p + at) & 0xffu) == IPS_REC_END) {
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

static ssize_t read_some(int fd, void *out, size_t len, uint32_t at)
{
    ssize_t n;
    do
        n = pread(fd, out, len, (off_t)at);
    while (n < 0 && errno == EINTR);
    return n;
}

int slave_ingest_flush(struct slave_drain *d, struct slave_run *run,
                       struct ips_err *err)
{
    const struct slave_archive *a = &run->archive;
    uint64_t from = a->length + a->staged;
    int rc = 0;
    if (d->frames_len)
        rc = slave_archive_stage(&run->archive, d->pack,
                                 run->row.control.clock.mult_q32, d->frames,
                                 d->frames_len, err);
    if (rc == 0 && d->frames_len && run->handover)
        slave_handover_put(run->handover, &d->frames, d->frames_len, from,
                           a->length + a->staged);
    d->frames_len = 0;
    return rc;
}

/* Takes `len` published bytes at the cursor into a frame. */
static int take(struct slave_drain *d, struct slave_run *run,
                struct slave_segment *seg, size_t len, bool *wrong,
                struct ips_err *err)
{
    struct slave_stream *st = seg->stream;
    if (d->frames_len + sizeof(struct slave_frame) + len > SLAVE_FRAMES_BYTES) {
        int rc = slave_ingest_flush(d, run, err);
        if (rc < 0)
            return rc;
    }
    struct slave_frame *frame =
        (struct slave_frame *)(void *)(d->frames + d->frames_len);
    uint8_t *data = (uint8_t *)(frame + 1);
    /* Partner: the writer's release stores of the heads seen in `peek`. */
    atomic_thread_fence(memory_order_acquire);
    ssize_t n = read_some(seg->fd, data, len, seg->row.at);
    uint32_t records;
    size_t good =
        n == (ssize_t)len ? check_records(st->image, data, len, &records) : 0;
    *wrong = good != len;
    if (good == 0)
        return 0;
    *frame = (struct slave_frame){
        .stream = st->row.number, .bytes = (uint32_t)good, .records = records};
    d->frames_len += sizeof(*frame) + good;
    slave_run_touch(run);
    slave_segment_touch(seg);
    slave_stream_touch(st);
    seg->row.at += (uint32_t)good;
    st->row.records += records;
    st->row.bytes += good;
    run->row.events += records;
    d->total_records += records;
    d->moved_bytes += good;
    return 0;
}

/* ---- trouble ---- */

/* Keeps the damaged file beside the archive, for whoever wants to know. */
static void keep_aside(struct slave_run *run, struct slave_segment *seg)
{
    char path[IPS_PATH_BYTES + 160];
    snprintf(path, sizeof(path), "%s/damaged", run->dir);
    if (run->row.given_up > SLAVE_DAMAGED_MAX ||
        ips_path_make(path, 0700, NULL) < 0)
        return;
    snprintf(path, sizeof(path), "%s/damaged/%s.%u", run->dir, seg->row.file,
             seg->row.seq);
    int out =
        open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (out < 0)
        return;
    uint8_t buffer[16384];
    for (uint32_t at = 0; at < seg->size;) {
        ssize_t n = read_some(seg->fd, buffer, sizeof(buffer), at);
        if (n <= 0 || write(out, buffer, (size_t)n) != n)
            break;
        at += (uint32_t)n;
    }
    close(out);
}

static void give_up(struct slave_run *run, struct slave_segment *seg)
{
    ips_log_error("run %s: segment %s is damaged at byte %u of %u: the rest "
                  "of it is given up, a copy is kept in %s/damaged",
                  run->row.name, seg->row.file, seg->row.at, seg->size,
                  run->dir);
    slave_run_touch(run);
    slave_segment_touch(seg);
    run->row.given_up++;
    seg->row.given_up = true;
    keep_aside(run, seg);
}

static void step_over(struct slave_run *run, struct slave_segment *seg,
                      uint32_t bytes)
{
    slave_run_touch(run);
    slave_stream_touch(seg->stream);
    slave_segment_touch(seg);
    run->row.torn++;
    seg->stream->row.lost[IPS_LOST_TORN]++;
    run->row.lost[IPS_LOST_TORN]++;
    seg->row.at += bytes;
    seg->skipped = true;
    seg->since_ns = 0;
}

/* A reservation stands at the cursor. true: stepped over. */
static bool over_pending(struct slave_run *run, struct slave_segment *seg,
                         bool closed, bool gone, uint64_t now_ns)
{
    uint8_t head[IPS_REC_MAX_BYTES + 8] = {0};
    ssize_t n = read_some(seg->fd, head, sizeof(head), seg->row.at);
    uint32_t word = n >= 4 ? word_at(head) : 0;
    size_t bytes = word_bytes(word);
    if ((word & 0xffu) != IPS_REC_RESERVED || bytes < sizeof(uint64_t) * 2 ||
        bytes > seg->size - seg->row.at)
        return false; /* published meanwhile, or looked at again */
    if (!seg->since_ns)
        seg->since_ns = now_ns;
    uint64_t age = ips_sub_sat(now_ns, seg->since_ns);
    bool later = bytes + 4 <= (size_t)n && word_at(head + bytes) != 0;
    if (!gone && !(closed && age > PENDING_CLOSED_NS) &&
        !(later && age > PENDING_OPEN_NS))
        return false;
    step_over(run, seg, (uint32_t)bytes);
    return true;
}

/* Zero at the cursor of a segment that nobody writes any more: a writer killed
 * between taking its place and marking it leaves a hole before what a signal
 * handler recorded on top of it. true: stepped over such a hole. */
static bool over_hole(struct slave_run *run, struct slave_segment *seg)
{
    uint8_t buffer[2 * IPS_REC_MAX_BYTES];
    ssize_t n = read_some(seg->fd, buffer, sizeof(buffer), seg->row.at);
    for (size_t at = 8; n > 0 && at + 8 <= (size_t)n &&
                        at <= IPS_REC_MAX_BYTES && seg->row.at + at < seg->size;
         at += 8) {
        if (word_at(buffer + at) == 0)
            continue;
        if (ips_rec_check(buffer + at, (size_t)n - at) == 0)
            return false;
        step_over(run, seg, (uint32_t)at);
        return true;
    }
    return false;
}

/* ---- reading ---- */

static void add_lost(struct slave_run *run, struct slave_segment *seg,
                     const struct ips_segment_header *head)
{
    for (int i = 0; i < IPS_LOST_COUNT; i++) {
        uint64_t now = head->lost[i];
        if (now <= seg->row.lost[i])
            continue;
        slave_run_touch(run);
        slave_segment_touch(seg);
        slave_stream_touch(seg->stream);
        uint64_t more = now - seg->row.lost[i];
        uint64_t *sum = &seg->stream->row.lost[i];
        *sum = ips_add_sat(*sum, more);
        run->row.lost[i] = ips_add_sat(run->row.lost[i], more);
        seg->row.lost[i] = now;
    }
}

/* What follows has begun before this was closed, perhaps in a segment that was
 * handed back: its writer, if fast, needs this one soon. */
static void look_for_next(const struct slave_run *run,
                          const struct slave_segment *seg)
{
    for (struct slave_segment *s = run->segments; s; s = s->next)
        if (s->stream == seg->stream && s->state == SLAVE_SEG_DRAINED)
            s->next_poll_ns = s->wait_ns = 0;
}

static void segment_done(const struct slave_run *run, struct slave_segment *seg)
{
    look_for_next(run, seg);
    slave_segment_touch(seg);
    slave_stream_touch(seg->stream);
    seg->row.done = true;
    seg->stream->row.next_seq = seg->row.seq + 1;
}

/* Reads until nothing more is published. true: all of the segment was read and
 * nothing will follow. */
static int read_records(struct slave_drain *d, struct slave_run *run,
                        struct slave_segment *seg, bool closed, bool gone,
                        uint64_t now_ns, bool *finished, struct ips_err *err)
{
    size_t want = FIRST_READ_BYTES;
    uint64_t budget = SLAVE_RUN_TURN_BYTES;
    *finished = false;
    while (budget > 0) {
        enum stop stop = STOP_ZERO;
        size_t left = seg->size - seg->row.at;
        size_t len = left < want ? left : want;
        bool wrong = false;
        ssize_t n = len ? read_some(seg->fd, d->peek, len, seg->row.at) : 0;
        if (n < 0)
            return ips_err_errno(err, "segment %s", seg->row.file);
        if ((size_t)n < len) { /* cut by somebody */
            give_up(run, seg);
            return 0;
        }
        size_t extent = published(d->peek, len, len == left, &stop);
        if (extent > 0) {
            int rc = take(d, run, seg, extent, &wrong, err);
            if (rc < 0)
                return rc;
            budget -= extent < budget ? extent : budget;
            seg->since_ns = 0;
            want = SLAVE_READ_BYTES;
        }
        if (wrong || stop == STOP_WRONG) {
            give_up(run, seg);
            return 0;
        }
        if (stop == STOP_MORE)
            continue;
        if (stop == STOP_PENDING) {
            if (!over_pending(run, seg, closed, gone, now_ns))
                return 0;
            continue;
        }
        if (!closed && !gone)
            return 0;
        if (left - extent >= 16 && over_hole(run, seg))
            continue;
        *finished = true;
        return 0;
    }
    return 0;
}

static void poll_reading(struct slave_drain *d, struct slave_run *run,
                         struct slave_segment *seg, uint64_t now_ns,
                         struct ips_err *err)
{
    struct ips_err why = {0};
    struct ips_segment_header head;
    uint32_t at = seg->row.at;
    bool finished = false;
    int fd = slave_ingest_fd(d, run, seg, &why);
    /* First who is dead and what is closed, then the records. */
    bool gone = slave_ingest_writer_gone(seg);
    int rc = fd < 0 ? fd : slave_poolfs_header(fd, &head, &why);
    if (rc == IPS_E_LIMIT || rc == IPS_E_IO) {
        slave_ingest_back_off(seg, now_ns, false);
        ips_log_warn("run %s: %s", run->row.name, why.msg);
        return;
    }
    if (rc == 0 &&
        (head.segment_bytes != seg->size || head.seq != seg->row.seq))
        rc = IPS_E_CORRUPT;
    if (rc < 0) {
        if (!seg->row.given_up && fd >= 0)
            give_up(run, seg);
        if (fd < 0 || gone || run->images == NULL)
            segment_done(run, seg);
        slave_ingest_back_off(seg, now_ns, false);
        return;
    }
    bool closed = head.state != IPS_SEGMENT_OPEN;
    if (!seg->row.given_up) {
        rc = read_records(d, run, seg, closed, gone, now_ns, &finished, err);
        if (rc < 0)
            return;
    }
    add_lost(run, seg, &head);
    if (finished || (seg->row.given_up && (closed || gone)))
        segment_done(run, seg);
    if (seg->row.at != at) {
        run->changed_ns = now_ns;
        seg->stream->image->last_ns = now_ns;
    }
    slave_ingest_back_off(seg, now_ns, seg->row.at != at);
}

/* Its turn comes when what precedes it in the stream is done. */
static void poll_waiting(struct slave_run *run, struct slave_segment *seg,
                         uint64_t now_ns)
{
    struct slave_stream *st = seg->stream;
    seg->next_poll_ns = now_ns + POLL_MIN_NS;
    if (seg->row.seq == st->row.next_seq) {
        slave_segment_set_state(seg, SLAVE_SEG_READING, "its turn");
        seg->next_poll_ns = 0;
        seg->wait_ns = 0;
        st->gap_ns = 0;
        return;
    }
    if (seg->row.seq < st->row.next_seq) {
        slave_ingest_refuse(run, seg, "a second segment of the same number");
        return;
    }
    for (struct slave_segment *s = run->segments; s; s = s->next)
        if (s->stream == st && s != seg && s->row.seq < seg->row.seq &&
            (s->state == SLAVE_SEG_WAITING || s->state == SLAVE_SEG_READING)) {
            st->gap_ns = 0;
            return;
        }
    if (!st->gap_ns)
        st->gap_ns = now_ns;
    if (ips_sub_sat(now_ns, st->gap_ns) < GAP_NS)
        return;
    ips_log_error("run %s: segments %u to %u of thread %u.%u are missing",
                  run->row.name, st->row.next_seq, seg->row.seq - 1,
                  st->row.head.pid, st->row.head.tid);
    slave_run_touch(run);
    slave_stream_touch(st);
    run->row.given_up += seg->row.seq - st->row.next_seq;
    st->row.next_seq = seg->row.seq;
    st->gap_ns = 0;
}

void slave_ingest_segment(struct slave_drain *d, struct slave_run *run,
                          struct slave_segment *seg, uint64_t now_ns,
                          struct ips_err *err)
{
    if (now_ns < seg->next_poll_ns && !run->want_sync)
        return;
    if (seg->state == SLAVE_SEG_NEW)
        poll_new(d, run, seg, now_ns);
    if (seg->state == SLAVE_SEG_WAITING)
        poll_waiting(run, seg, now_ns);
    if (seg->state == SLAVE_SEG_READING && !seg->row.done)
        poll_reading(d, run, seg, now_ns, err);
    if (d->open_fds > d->max_fds)
        slave_segment_close_fd(d, seg);
}
