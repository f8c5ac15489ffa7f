/* Polls one segment, reads its records (with drain/segment_reader.c), or gives
 * it up as damaged. drain/reclaim.c hands segments back and removes them. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/pool/pool.h"
#include "common/log.h"
#include "slave/drain/drain.h"
#include "slave/drain/poolfs.h"
#include "slave/drain/segment_reader.h"

#define POLL_MIN_NS (10 * SLAVE_MS_NS)
#define POLL_MAX_NS (500 * SLAVE_MS_NS)
/* How long space that a writer reserved for a record may stay unpublished
 * before the slave skips it: in a closed segment (a signal handler interrupted
 * its writer), and in an open one in which later records exist. */
#define PENDING_CLOSED_NS (2 * SLAVE_SECOND_NS)
#define PENDING_OPEN_NS (10 * SLAVE_SECOND_NS)
#define GAP_NS (2 * SLAVE_SECOND_NS)
#define NEW_NS (5 * SLAVE_SECOND_NS)

void slave_segment_close_fd_and_mapping(struct slave_drain *d,
                                        struct slave_segment *seg)
{
    slave_guarded_close(&seg->mapping);
    if (seg->fd >= 0) {
        close(seg->fd);
        d->open_fds--;
    }
    seg->fd = -1;
}

int slave_ingest_open_segment_fd(struct slave_drain *d, struct slave_run *run,
                                 struct slave_segment *seg, struct ips_err *err)
{
    if (seg->fd >= 0)
        return seg->fd;
    int fd = slave_poolfs_open_segment(run->dirfd, seg->row.file, err);
    if (fd < 0)
        return fd;
    seg->fd = fd;
    d->open_fds++;
    return fd;
}

void slave_ingest_schedule_poll(struct slave_segment *seg, uint64_t now_ns,
                                bool news)
{
    seg->wait_ns = news ? POLL_MIN_NS : seg->wait_ns + seg->wait_ns / 2;
    if (seg->wait_ns < POLL_MIN_NS)
        seg->wait_ns = POLL_MIN_NS;
    if (seg->wait_ns > POLL_MAX_NS)
        seg->wait_ns = POLL_MAX_NS;
    seg->next_poll_ns = now_ns + seg->wait_ns;
}

bool slave_ingest_is_writer_gone(const struct slave_segment *seg)
{
    enum slave_image_state s = seg->stream->image->state;
    return s == SLAVE_IMAGE_DEAD || s == SLAVE_IMAGE_REPLACED;
}

void slave_ingest_refuse_segment(struct slave_run *run,
                                 struct slave_segment *seg, const char *why)
{
    ips_log_warn("run %s: segment %s: %s; not read", run->row.name,
                 seg->row.file, why);
    slave_run_mark_dirty(run);
    slave_segment_mark_dirty(seg);
    run->row.given_up++;
    slave_segment_set_state(seg, SLAVE_SEG_BAD, why);
}

/* ---- a new file, or one that its writer reuses -------- */

void slave_ingest_reset_segment(struct slave_segment *seg,
                                const struct ips_segment_header *head)
{
    slave_segment_mark_dirty(seg);
    seg->size = head->segment_bytes;
    seg->row.seq = head->seq;
    seg->row.at = head->header_bytes;
    seg->row.done = false;
    seg->row.given_up = false;
    memset(seg->row.lost, 0, sizeof(seg->row.lost));
    seg->row.skipped = false;
    seg->since_ns = 0;
    slave_segment_set_state(seg, SLAVE_SEG_WAITING, "has a header");
}

/* Continues with a segment whose cursor an earlier slave stored in the
 * database. Refuses the segment if the file does not match the stored row any
 * more. */
static void resume_segment(struct slave_run *run, struct slave_segment *seg,
                           const struct ips_segment_header *head)
{
    seg->size = head->segment_bytes;
    if (seg->row.stream != seg->stream->row.number ||
        (!seg->row.done && head->seq != seg->row.seq) ||
        seg->row.at > head->segment_bytes)
        slave_ingest_refuse_segment(run, seg, "not the segment it was before");
    else if (!seg->row.done)
        slave_segment_set_state(seg, SLAVE_SEG_WAITING, "resumed");
    else if (head->seq != seg->row.seq)
        slave_ingest_reset_segment(seg, head);
    else if (head->state == IPS_SEGMENT_DRAINED)
        slave_segment_set_state(seg, SLAVE_SEG_DRAINED, "was handed back");
    else
        slave_segment_set_state(seg, SLAVE_SEG_DONE, "was read");
}

/* A stream's records are only as trustworthy as the least trusted user who
 * wrote its segments: a program of root's may have become another user, or
 * another user may have planted a segment. Sets the stream's uid
 * accordingly. */
static void set_least_trusted_uid_of_stream(struct slave_stream *stream,
                                            uint32_t uid)
{
    uint32_t *own = &stream->row.head.uid;
    if (uid == *own || uid == 0)
        return;
    *own = *own == 0 ? uid : SLAVE_UID_NOBODY;
    slave_stream_mark_dirty(stream);
}

/* Handles a file that cannot be read as a segment. In a run of root's any user
 * may add files: a file that is no plain file, or that belongs to another user,
 * is only ignored and does not count as damage to the run. */
static void refuse_or_ignore_segment(struct slave_run *run,
                                     struct slave_segment *seg, int fd,
                                     int code, const char *why)
{
    struct stat st;
    bool planted = code == IPS_E_REFUSED ||
                   (fd >= 0 && fstat(fd, &st) == 0 && st.st_uid != geteuid());
    if (!planted) {
        slave_ingest_refuse_segment(run, seg, why);
        return;
    }
    ips_log_warn("run %s: %s: %s; left unchanged", run->row.name, seg->row.file,
                 why);
    slave_segment_set_state(seg, SLAVE_SEG_BAD, "not of this run");
}

/* Whether a file without a valid header contains records: then its header was
 * overwritten. In a spare segment, a copy of the control file follows the space
 * for the header until the process that took the segment has written the
 * header. */
static bool has_segment_records(int fd)
{
    uint64_t words[512];
    off_t at = sizeof(struct ips_segment_header), end = at;
    for (ssize_t n; at < (off_t)IPS_SEGMENT_MAX_BYTES &&
                    (n = pread(fd, words, sizeof(words), at)) > 0;
         at += n) {
        if (at == end && words[0] == IPS_CONTROL_MAGIC)
            return false;
        for (size_t i = 0; i < (size_t)n / sizeof(*words); i++)
            if (words[i])
                return true;
        /* parts of the file that were never written are holes: skip them */
        off_t data = lseek(fd, at + n, SEEK_DATA);
        if (data < 0)
            return false;
        at = data - n;
    }
    return false;
}

/* Handles a file that has no header. A writer that died before it wrote the
 * header leaves an empty file. A writer that takes a spare segment first clears
 * the copy of the control file, then writes the header. So the file counts as
 * empty or damaged only after NEW_NS. */
static void give_up_segment_without_header_if_old(struct slave_run *run,
                                                  struct slave_segment *seg,
                                                  int fd, uint64_t now_ns)
{
    struct ips_segment_header head;
    if (ips_sub_sat(now_ns, seg->since_ns) <= NEW_NS)
        return;
    /* Check the records before the header, because a writer may store both in
     * the meantime. */
    if (!has_segment_records(fd))
        slave_segment_set_state(seg, SLAVE_SEG_BAD, "never got a header");
    else if (slave_poolfs_read_header(fd, &head, NULL) == IPS_E_INCOMPLETE)
        refuse_or_ignore_segment(run, seg, fd, IPS_E_CORRUPT,
                                 "its header was overwritten");
}

/* Whether the header belongs to the thread that the name of the file states
 * (PID.TID.STAMP.seg). The name of a spare segment states no thread. */
static bool
is_header_of_thread_in_file_name(const struct slave_segment *seg,
                                 const struct ips_segment_header *head)
{
    unsigned pid, tid;
    unsigned long long stamp;
    return sscanf(seg->row.file, "%u.%u.%llx", &pid, &tid, &stamp) != 3 ||
           (pid == head->pid && tid == head->tid);
}

static void read_header_and_admit_segment(struct slave_drain *d,
                                          struct slave_run *run,
                                          struct slave_segment *seg,
                                          uint64_t now_ns)
{
    struct ips_err err = {0};
    struct ips_segment_header head;
    struct stat st = {0};
    bool gone = seg->stream && slave_ingest_is_writer_gone(seg);
    int fd = slave_ingest_open_segment_fd(d, run, seg, &err);
    int rc = fd < 0 ? fd : slave_poolfs_read_header(fd, &head, &err);
    slave_ingest_schedule_poll(seg, now_ns, false);
    if (!seg->since_ns)
        seg->since_ns = now_ns;
    if (rc == IPS_E_LIMIT) {
        ips_log_warn("run %s: %s", run->row.name, err.msg);
        return;
    }
    if (rc == IPS_E_INCOMPLETE) {
        give_up_segment_without_header_if_old(run, seg, fd, now_ns);
        return;
    }
    if (rc == IPS_E_NOT_FOUND) {
        slave_segment_set_state(seg, SLAVE_SEG_GONE, "removed again");
        seg->drop_row = seg->stored;
        return;
    }
    if (rc == 0 && !is_header_of_thread_in_file_name(seg, &head))
        rc = ips_err_set(&err, IPS_E_CORRUPT,
                         "its header is not that of its thread");
    if (rc < 0) {
        refuse_or_ignore_segment(run, seg, fd, rc, err.msg);
        return;
    }
    uint32_t known = run->stream_count;
    if (fstat(fd, &st) < 0)
        return; /* the segment stays NEW and is tried again later */
    /* take the user from the file's owner, because a writer can forge the
     * header */
    head.uid = st.st_uid;
    struct slave_stream *stream = slave_run_find_or_add_stream(run, &head);
    if (!stream)
        return; /* out of memory: the segment is tried again later */
    set_least_trusted_uid_of_stream(stream, st.st_uid);
    seg->stream = stream;
    seg->since_ns = 0;
    seg->next_poll_ns = 0;
    run->changed_ns = now_ns;
    /* the first segment of this image: start to track its process */
    if (stream->image->last_ns == 0) {
        slave_liveness_track(d, stream->image,
                             (uint64_t)st.st_mtim.tv_sec * SLAVE_SECOND_NS +
                                 (uint64_t)st.st_mtim.tv_nsec);
    }
    if (run->stream_count != known)
        d->version++;
    if (run->row.control.on_full == IPS_ON_FULL_RING &&
        !slave_ingest_admit_ring_segment_if_final(run, seg, &head, gone))
        return;
    if (seg->stored) {
        resume_segment(run, seg, &head);
        return;
    }
    seg->row.stream = stream->row.number;
    if (head.seq < stream->row.next_seq)
        slave_ingest_refuse_segment(run, seg,
                                    "its part of the stream was read already");
    else
        slave_ingest_reset_segment(seg, &head);
}

/* ---- damage ----- */

/* Returns the disk usage of the copies of damaged segments that are in this
 * directory already. */
static uint64_t disk_usage_of_damaged_copies(int dirfd)
{
    uint64_t sum = 0;
    struct dirent *e;
    int fd = dup(dirfd);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    while (dir && (e = readdir(dir))) {
        struct stat st;
        if (fstatat(dirfd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(st.st_mode))
            sum += (uint64_t)st.st_blocks * 512;
    }
    if (dir)
        closedir(dir);
    else if (fd >= 0)
        close(fd);
    return sum;
}

/* Copies the segment's data, at most `room` bytes; returns false if that was
 * not enough or a write failed. Holes stay holes: the writer's quota does not
 * count them, so they must not cost disk space either. */
static bool copy_segment_data(const struct slave_segment *seg, int out,
                              uint64_t room)
{
    uint8_t buffer[16384];
    off_t at = 0, end = 0, size = (off_t)seg->size;
    for (;;) {
        if (at >= end) {
            at = lseek(seg->fd, end, SEEK_DATA);
            if (at < 0 || at >= size)
                break;
            end = lseek(seg->fd, at, SEEK_HOLE);
            end = end < 0 || end > size ? size : end;
            if (at >= end)
                break;
        }
        size_t want = ips_min_u64(sizeof(buffer), (uint64_t)(end - at));
        if (want > room)
            return false;
        ssize_t n =
            slave_pread_without_eintr(seg->fd, buffer, want, (uint32_t)at);
        if (n <= 0)
            break;
        if (pwrite(out, buffer, (size_t)n, at) != n)
            return false;
        at += n;
        room -= (uint64_t)n;
    }
    return ftruncate(out, size) == 0;
}

/* Copies a damaged file to a directory beside the archive, for later analysis.
 * Returns a text that says what was kept. */
static const char *copy_damaged_segment(struct slave_run *run,
                                        struct slave_segment *seg)
{
    char path[IPS_PATH_BYTES + 160];
    snprintf(path, sizeof(path), "%s/damaged", run->dir);
    if (run->row.given_up > SLAVE_DAMAGED_MAX ||
        ips_path_make_directories(path, 0700, NULL) < 0)
        return "no copy is kept";
    int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    uint64_t kept = dir < 0 ? 0 : disk_usage_of_damaged_copies(dir);
    snprintf(path, sizeof(path), "%s.%u", seg->row.file, seg->row.seq);
    int out = dir < 0
                  ? -1
                  : openat(dir, path,
                           O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
                           0600);
    bool whole =
        out >= 0 &&
        copy_segment_data(seg, out, ips_sub_sat(SLAVE_DAMAGED_BYTES, kept));
    if (out >= 0)
        close(out);
    if (dir >= 0)
        close(dir);
    return out < 0 ? "no copy is kept"
           : whole ? "a copy is kept"
                   : "a copy of its beginning is kept";
}

static void copy_and_give_up_damaged_segment(struct slave_run *run,
                                             struct slave_segment *seg)
{
    slave_run_mark_dirty(run);
    slave_segment_mark_dirty(seg);
    run->row.given_up++;
    seg->row.given_up = true;
    const char *copy = copy_damaged_segment(run, seg);
    ips_log_error("run %s: segment %s is damaged at byte %u of %u: the rest "
                  "of it is lost; %s in %s/damaged",
                  run->row.name, seg->row.file, seg->row.at, seg->size, copy,
                  run->dir);
}

static void skip_space_and_count_torn_record(struct slave_run *run,
                                             struct slave_segment *seg,
                                             uint32_t bytes)
{
    slave_run_mark_dirty(run);
    slave_stream_mark_dirty(seg->stream);
    slave_segment_mark_dirty(seg);
    run->row.torn++;
    seg->stream->row.lost[IPS_LOST_TORN]++;
    run->row.lost[IPS_LOST_TORN]++;
    seg->row.at += bytes;
    seg->row.skipped = true;
    seg->since_ns = 0;
}

/* Skips space at the cursor that a writer reserved for a record and has not
 * published, if the writer is dead or if that was too long ago
 * (PENDING_CLOSED_NS, PENDING_OPEN_NS). Returns true if it skipped the
 * space. */
static bool skip_reservation_if_overdue(struct slave_run *run,
                                        struct slave_segment *seg, bool closed,
                                        bool gone, uint64_t now_ns)
{
    uint8_t head[IPS_REC_MAX_BYTES + 8] = {0};
    ssize_t n =
        slave_pread_without_eintr(seg->fd, head, sizeof(head), seg->row.at);
    uint32_t word = n >= 4 ? slave_read_record_head_word(head) : 0;
    size_t bytes = record_bytes_from_head_word(word);
    if ((word & 0xffu) != IPS_REC_RESERVED || bytes < sizeof(uint64_t) * 2 ||
        bytes > seg->size - seg->row.at)
        /* the writer has published the record in the meantime, or its head is
         * incomplete: the next poll looks again */
        return false;
    if (!seg->since_ns)
        seg->since_ns = now_ns;
    uint64_t age = ips_sub_sat(now_ns, seg->since_ns);
    bool later = bytes + 4 <= (size_t)n &&
                 slave_read_record_head_word(head + bytes) != 0;
    if (!gone && !(closed && age > PENDING_CLOSED_NS) &&
        !(later && age > PENDING_OPEN_NS))
        return false;
    skip_space_and_count_torn_record(run, seg, (uint32_t)bytes);
    return true;
}

/* Skips zeroes between records at the cursor of a segment that has no writer
 * any more. A writer that was killed after it reserved space and before it
 * marked the reservation leaves zeroes, which records of a signal handler may
 * follow. Returns true if zeroes were skipped. */
static bool skip_unmarked_hole(struct slave_run *run, struct slave_segment *seg)
{
    uint8_t buffer[2 * IPS_REC_MAX_BYTES];
    ssize_t n =
        slave_pread_without_eintr(seg->fd, buffer, sizeof(buffer), seg->row.at);
    for (size_t at = 8; n > 0 && at + 8 <= (size_t)n &&
                        at <= IPS_REC_MAX_BYTES && seg->row.at + at < seg->size;
         at += 8) {
        if (slave_read_record_head_word(buffer + at) == 0)
            continue;
        if (ips_rec_check_and_get_length(buffer + at, (size_t)n - at) == 0)
            return false;
        skip_space_and_count_torn_record(run, seg, (uint32_t)at);
        return true;
    }
    return false;
}

/* ---- reading ---- */

static void add_lost_counts(struct slave_run *run, struct slave_segment *seg,
                            const struct ips_segment_header *head)
{
    for (int i = 0; i < IPS_LOST_COUNT; i++) {
        uint64_t now = head->lost[i];
        if (now <= seg->row.lost[i])
            continue;
        slave_run_mark_dirty(run);
        slave_segment_mark_dirty(seg);
        slave_stream_mark_dirty(seg->stream);
        uint64_t more = now - seg->row.lost[i];
        uint64_t *sum = &seg->stream->row.lost[i];
        *sum = ips_add_sat(*sum, more);
        run->row.lost[i] = ips_add_sat(run->row.lost[i], more);
        seg->row.lost[i] = now;
    }
}

/* Makes the next turn poll the segments of seg's stream that were handed back:
 * before the writer closed `seg`, it began its next segment, perhaps in one of
 * them. */
static void schedule_polls_of_drained_segments(const struct slave_run *run,
                                               const struct slave_segment *seg)
{
    for (struct slave_segment *s = run->segments; s; s = s->next)
        if (s->stream == seg->stream && s->state == SLAVE_SEG_DRAINED)
            s->next_poll_ns = s->wait_ns = 0;
}

/* Stores in the stream's row the call that its thread is in, or was in when it
 * ended. For a live thread the call counts only if the segment's header shows
 * it both before and after the records were read: otherwise the call may have
 * ended meanwhile, and its record may be among those read. */
static void store_call_in_progress(struct slave_run *run,
                                   struct slave_segment *seg,
                                   const struct ips_segment_header *before,
                                   bool gone)
{
    struct ips_segment_header now = *before;
    struct ips_current_call *known = &seg->stream->row.head.begun;
    const bool open = before->state == IPS_SEGMENT_OPEN && before->begun.t;
    struct ips_err err;
    if (open && !gone &&
        (slave_segment_reader_read_header(seg, &now, &err) < 0 ||
         now.begun.t != before->begun.t))
        now.begun.t = 0;
    if (!open)
        now.begun.t = 0;
    if (known->t == now.begun.t)
        return;
    slave_run_mark_dirty(run);
    slave_stream_mark_dirty(seg->stream);
    *known = now.begun;
}

static void mark_segment_done(const struct slave_run *run,
                              struct slave_segment *seg)
{
    schedule_polls_of_drained_segments(run, seg);
    slave_segment_mark_dirty(seg);
    slave_stream_mark_dirty(seg->stream);
    seg->row.done = true;
    seg->stream->row.next_seq = seg->row.seq + 1;
}

/* Reads the published records from the cursor on, up to SLAVE_RUN_TURN_BYTES,
 * and gives up a damaged segment. *finished: the whole segment was read and its
 * writer will add nothing. */
static int read_records(struct slave_drain *d, struct slave_run *run,
                        struct slave_segment *seg, bool closed, bool gone,
                        uint64_t now_ns, bool *finished, struct ips_err *err)
{
    struct slave_segment_look look = {.most = SLAVE_LOOK_FIRST_BYTES};
    uint64_t budget = SLAVE_RUN_TURN_BYTES;
    *finished = false;
    while (budget > 0) {
        bool wrong = false;
        int rc = slave_segment_reader_find_published_end(d, seg, &look, err);
        if (rc < 0)
            return rc;
        if (look.extent > 0) {
            rc = slave_segment_reader_copy_published(d, run, seg, look.extent,
                                                     &wrong, err);
            if (rc < 0)
                return rc;
            budget -= look.extent < budget ? look.extent : budget;
            seg->since_ns = 0;
            look.most = SLAVE_READ_BYTES;
        }
        if (wrong || look.stop_reason == SLAVE_STOP_WRONG) {
            copy_and_give_up_damaged_segment(run, seg);
            return 0;
        }
        if (look.stop_reason == SLAVE_STOP_MORE)
            continue;
        if (look.stop_reason == SLAVE_STOP_PENDING) {
            if (!skip_reservation_if_overdue(run, seg, closed, gone, now_ns))
                return 0;
            continue;
        }
        if (!closed && !gone)
            return 0;
        if (look.left - look.extent >= 16 && skip_unmarked_hole(run, seg))
            continue;
        *finished = true;
        return 0;
    }
    return 0;
}

static void read_and_finish_segment(struct slave_drain *d,
                                    struct slave_run *run,
                                    struct slave_segment *seg, uint64_t now_ns,
                                    struct ips_err *err)
{
    struct ips_err why = {0};
    struct ips_segment_header head;
    uint32_t at = seg->row.at;
    bool finished = false;
    int fd = slave_ingest_open_segment_fd(d, run, seg, &why);
    /* Check first whether the writer is dead and the segment closed, then read
     * the records: so none can be added after the read. */
    bool gone = slave_ingest_is_writer_gone(seg);
    int rc = fd < 0 ? fd : slave_segment_reader_read_header(seg, &head, &why);
    if (rc == IPS_E_LIMIT || rc == IPS_E_IO) {
        slave_ingest_schedule_poll(seg, now_ns, false);
        ips_log_warn("run %s: %s", run->row.name, why.msg);
        return;
    }
    if (rc == 0 &&
        (head.segment_bytes != seg->size || head.seq != seg->row.seq))
        rc = IPS_E_CORRUPT;
    if (rc < 0) {
        if (!seg->row.given_up && fd >= 0)
            copy_and_give_up_damaged_segment(run, seg);
        /* Another program removed the file before the slave read all of it. */
        if (!seg->row.given_up && fd < 0) {
            seg->row.given_up = true;
            run->row.given_up++;
            slave_run_mark_dirty(run);
        }
        if (fd < 0 || gone || run->images == NULL)
            mark_segment_done(run, seg);
        slave_ingest_schedule_poll(seg, now_ns, false);
        return;
    }
    bool closed = head.state != IPS_SEGMENT_OPEN;
    if (!seg->row.given_up) {
        rc = read_records(d, run, seg, closed, gone, now_ns, &finished, err);
        if (rc < 0)
            return;
    }
    add_lost_counts(run, seg, &head);
    if (run->want_sync || (gone && finished))
        store_call_in_progress(run, seg, &head, gone);
    if (finished || (seg->row.given_up && (closed || gone)))
        mark_segment_done(run, seg);
    if (seg->row.at != at) {
        run->changed_ns = now_ns;
        seg->stream->image->last_ns = now_ns;
    }
    slave_ingest_schedule_poll(seg, now_ns, seg->row.at != at);
}

/* Starts reading a segment when its predecessors in the stream are done. Gives
 * up predecessors that have been missing for GAP_NS. */
static void start_reading_if_due(struct slave_run *run,
                                 struct slave_segment *seg, uint64_t now_ns)
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
        slave_ingest_refuse_segment(run, seg,
                                    "a second segment of the same number");
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
    slave_run_mark_dirty(run);
    slave_stream_mark_dirty(st);
    run->row.given_up += seg->row.seq - st->row.next_seq;
    st->row.next_seq = seg->row.seq;
    st->gap_ns = 0;
}

void slave_ingest_advance_segment_if_due(struct slave_drain *d,
                                         struct slave_run *run,
                                         struct slave_segment *seg,
                                         uint64_t now_ns, struct ips_err *err)
{
    if (now_ns < seg->next_poll_ns && !run->want_sync)
        return;
    if (seg->state == SLAVE_SEG_NEW)
        read_header_and_admit_segment(d, run, seg, now_ns);
    if (seg->state == SLAVE_SEG_WAITING)
        start_reading_if_due(run, seg, now_ns);
    if (seg->state == SLAVE_SEG_READING && !seg->row.done)
        read_and_finish_segment(d, run, seg, now_ns, err);
    if (d->open_fds > d->max_fds)
        slave_segment_close_fd_and_mapping(d, seg);
}
