/* After the commit: returns a fully read segment to its writer, or removes it;
 * checks whether the writer uses a returned segment again. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/pool/pool.h"
#include "common/log.h"
#include "slave/drain/drain.h"
#include "slave/drain/segment_reader.h"

void slave_run_flush_byte_counts_to_control(const struct slave_drain *d,
                                            struct slave_run *run)
{
    struct ips_err err = {0};
    char dir[IPS_PATH_BYTES + 80];
    if (!run->uncounted_released && !run->uncounted_spare)
        return;
    snprintf(dir, sizeof(dir), "%s/%s", d->pool, run->row.name);
    if (run->uncounted_spare &&
        ips_control_add_spare_bytes(dir, run->uncounted_spare, &err) == 0)
        run->uncounted_spare = 0;
    if (run->uncounted_released &&
        ips_control_add_released_bytes(dir, run->uncounted_released, &err) == 0)
        run->uncounted_released = 0;
    if (err.code)
        ips_log_debug("run %s: %s", run->row.name, err.msg);
}

static void remove_segment(struct slave_drain *d, struct slave_run *run,
                           struct slave_segment *seg, const char *why)
{
    struct stat st = {0};
    if (fstatat(run->dirfd, seg->row.file, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        if (unlinkat(run->dirfd, seg->row.file, 0) < 0 && errno != ENOENT) {
            ips_log_warn("run %s: remove %s: %s", run->row.name, seg->row.file,
                         strerror(errno));
            seg->next_poll_ns = slave_now_ns() + SLAVE_SECOND_NS;
            return;
        }
        run->uncounted_released += (uint64_t)st.st_blocks * 512;
        slave_run_flush_byte_counts_to_control(d, run);
    }
    slave_segment_close_fd_and_mapping(d, seg);
    slave_segment_set_state(seg, SLAVE_SEG_GONE, why);
    seg->drop_row = seg->stored;
}

bool slave_ingest_admit_ring_segment_if_final(
    struct slave_run *run, struct slave_segment *seg,
    const struct ips_segment_header *head, bool gone)
{
    struct slave_stream *st = seg->stream;
    uint32_t upto = 0;
    bool any = false;
    if (!gone && !head->abandoned)
        return false;
    seg->final = true;
    seg->row.seq = head->seq;
    seg->digest =
        head->flags & IPS_SEGMENT_DIGEST && head->state != IPS_SEGMENT_DRAINED;
    seg->next_poll_ns = 0;
    for (struct slave_segment *s = run->segments; s; s = s->next) {
        if (s->stream != st)
            continue;
        if (s->state == SLAVE_SEG_NEW && !s->final)
            return false;
        if (s->digest && (!any || s->row.seq > upto)) {
            upto = s->row.seq;
            any = true;
        }
    }
    if (seg->stored)
        return true;
    bool covered =
        any && (seg->row.seq < upto || (seg->row.seq == upto && !seg->digest));
    if (covered || head->state == IPS_SEGMENT_DRAINED) {
        slave_segment_set_state(seg, SLAVE_SEG_DRAINED, "in the ring's digest");
        return false;
    }
    if (any && st->row.next_seq < upto) {
        slave_stream_mark_dirty(st);
        st->row.next_seq = upto;
    }
    return true;
}

static void reclaim_fully_read_segment(struct slave_drain *d,
                                       struct slave_run *run,
                                       struct slave_segment *seg,
                                       uint64_t now_ns)
{
    struct ips_err err = {0};
    struct ips_segment_header head;
    slave_ingest_schedule_poll(seg, now_ns, false);
    if (slave_ingest_is_writer_gone(seg)) {
        remove_segment(d, run, seg, "its writer is gone");
        return;
    }
    int fd = slave_ingest_open_segment_fd(d, run, seg, &err);
    if (fd < 0 || slave_segment_reader_read_header(seg, &head, &err) < 0)
        /* a later turn tries again; when the writer is gone, the segment is
         * removed in any case */
        return;
    if (head.abandoned) {
        remove_segment(d, run, seg, "abandoned");
    } else if (head.state == IPS_SEGMENT_CLOSED && !seg->row.skipped) {
        /* Zero the records first, set DRAINED last: once the segment is
         * DRAINED, its writer may append records, and relies on zeroes after
         * its last record. */
        bool zero = seg->mapping.data &&
                    slave_guarded_zero_bytes(&seg->mapping, head.header_bytes,
                                             seg->row.at);
        if (ips_segment_zero_and_set_drained(fd, zero ? seg->row.at : 0, &err) <
            0)
            ips_log_warn("run %s: segment %s: %s", run->row.name, seg->row.file,
                         err.msg);
        else
            slave_segment_set_state(seg, SLAVE_SEG_DRAINED, "handed back");
    }
}

static void poll_drained_segment_for_reuse_or_remove(struct slave_drain *d,
                                                     struct slave_run *run,
                                                     struct slave_segment *seg,
                                                     uint64_t now_ns)
{
    struct ips_err err = {0};
    struct ips_segment_header head;
    slave_ingest_schedule_poll(seg, now_ns, false);
    /* Check for death before reading the header: else the writer might use the
     * segment again and die between the two. */
    bool gone = slave_ingest_is_writer_gone(seg);
    int fd = slave_ingest_open_segment_fd(d, run, seg, &err);
    int rc = fd < 0 ? fd : slave_segment_reader_read_header(seg, &head, &err);
    if (rc == IPS_E_CORRUPT || rc == IPS_E_INCOMPLETE || rc == IPS_E_VERSION)
        slave_ingest_refuse_segment(run, seg, err.msg);
    if (rc < 0)
        return;
    if (head.seq != seg->row.seq && head.state != IPS_SEGMENT_DRAINED) {
        if (head.seq < seg->stream->row.next_seq)
            slave_ingest_refuse_segment(run, seg,
                                        "used again with an old number");
        else
            slave_ingest_reset_segment(seg, &head);
        seg->next_poll_ns = 0;
        run->changed_ns = now_ns;
    } else if (gone || head.abandoned) {
        remove_segment(d, run, seg, gone ? "its writer is gone" : "abandoned");
    }
}

void slave_ingest_reclaim_committed_segment(struct slave_drain *d,
                                            struct slave_run *run,
                                            struct slave_segment *seg,
                                            uint64_t now_ns)
{
    if (seg->state == SLAVE_SEG_READING && seg->row.done && !seg->dirty)
        slave_segment_set_state(seg, SLAVE_SEG_DONE, "all of it committed");
    else if (now_ns < seg->next_poll_ns && !run->want_sync)
        return;
    if (seg->state == SLAVE_SEG_DONE)
        reclaim_fully_read_segment(d, run, seg, now_ns);
    else if (seg->state == SLAVE_SEG_DRAINED)
        poll_drained_segment_for_reuse_or_remove(d, run, seg, now_ns);
    if (d->open_fds > d->max_fds)
        slave_segment_close_fd_and_mapping(d, seg);
}
