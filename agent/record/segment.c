/* The writer's side of segments: makes, extends, closes and reuses them. All of
 * this is the slow path and runs with all signals blocked. */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "agent/record/cpu.h"
#include "agent/record/own_table.h"
#include "agent/record/stream.h"
#include "agent/record/sys.h"
#include "agent/record/valgrind.h"
#include "common/types.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* The architecture's largest page size; growth steps are multiples of it. */
#if defined(__x86_64__)
#define PAGE_BYTES 4096u
#else
#define PAGE_BYTES 65536u
#endif

static uint64_t round_up(uint64_t value, uint64_t to)
{
    return (value + to - 1) / to * to;
}

char *ips_format_number(char *out, uint64_t value, unsigned base)
{
    char digits[24];
    unsigned n = 0;
    do {
        digits[n++] = "0123456789abcdef"[value % base];
        value /= base;
    } while (value);
    while (n)
        *out++ = digits[--n];
    return out;
}

static int populate_pages(uint64_t from, uint64_t bytes)
{
    int rc = -EAGAIN;
    for (int i = 0; i < 8 && (rc == -EINTR || rc == -EAGAIN); i++)
        rc = ips_sys_madvise(from, bytes, MADV_POPULATE_WRITE);
    return rc;
}

int ips_segment_populate(struct ips_segment_map *m, uint64_t target)
{
    uint64_t from = m->limit;
    target = ips_min_u64(round_up(target, PAGE_BYTES), m->end);
    if (target <= from)
        return 0;
    if (!ips_quota_take(target - from))
        return ips_encode_lost_cause(IPS_LOST_QUOTA);
    if (populate_pages(from, target - from) < 0) {
        ips_quota_give_back(target - from);
        return ips_encode_lost_cause(IPS_LOST_POOL_FULL);
    }
    m->limit = target;
    return 0;
}

int ips_stream_populate_segment_up_to(struct ips_stream *s, uint64_t need_end)
{
    uint64_t from = s->seg.limit;
    if (need_end <= from)
        return 0;
    /* Most processes need one page of records. The steps of longer-lived ones
     * grow with the populated size. */
    uint64_t step = round_up(from - s->seg.base, IPS_GROW_FIRST_BYTES);
    uint64_t target =
        from + (step < IPS_GROW_STEP_BYTES ? step : IPS_GROW_STEP_BYTES);
    int rc = ips_segment_populate(&s->seg, ips_max_u64(target, need_end));
    s->limit = s->seg.limit;
    return rc;
}

/* Writes the path POOL/RUN/PID.TID.STAMP.seg into `out`. */
static void format_segment_path(char *out, const struct ips_stream *s,
                                uint64_t stamp)
{
    size_t n = strlen(ips_core.dir);
    memcpy(out, ips_core.dir, n);
    out += n;
    *out++ = '/';
    out = ips_format_number(out, ips_core.pid, 10);
    *out++ = '.';
    out = ips_format_number(out, s->tid, 10);
    *out++ = '.';
    out = ips_format_number(out, stamp, 16);
    memcpy(out, IPS_SEGMENT_SUFFIX, sizeof(IPS_SEGMENT_SUFFIX));
}

/* Returns `bytes`, reduced to RLIMIT_FSIZE: a longer file would raise SIGXFSZ
 * in the program. Returns 0, so that no file is made, if the limit cannot be
 * read. */
static uint64_t bytes_within_file_limit(uint64_t bytes)
{
    struct {
        uint64_t cur, max;
    } limit;
    if (ips_sys6(SYS_prlimit64, 0, RLIMIT_FSIZE, 0, (long)&limit, 0, 0) < 0 &&
        ips_sys3(SYS_getrlimit, RLIMIT_FSIZE, (long)&limit, 0) < 0)
        return 0;
    if (limit.cur < bytes)
        bytes = limit.cur / PAGE_BYTES * PAGE_BYTES;
    return bytes;
}

/* Allocates the first page of the file `fd`, mapped at `base`. With pages of 4
 * KB, writing one byte does it in two thirds of the time of populating. The
 * MADV_POPULATE_WRITE of 0 bytes before it tests whether the segment can be
 * extended later: it returns -EINVAL before Linux 5.14. Returns 0 or -errno. */
static int allocate_first_page(int fd, uint64_t base, uint64_t bytes)
{
    const char zero = 0;
    if (PAGE_BYTES > 4096)
        return populate_pages(base, bytes);
    int rc = ips_sys_madvise(base, 0, MADV_POPULATE_WRITE);
    if (rc < 0)
        return rc;
    long n = ips_sys6(SYS_pwrite64, fd, (long)&zero, 1, 0, 0, 0);
    return n == 1 ? 0 : n < 0 ? (int)n : -EIO;
}

void ips_segment_hide_from_forks(uint64_t base, uint64_t bytes)
{
    /* Valgrind assumes that a fork child has the mapping, too. Memcheck's
     * search for leaks reads all readable memory and would die of SIGBUS in the
     * gap. So under valgrind the child keeps the mapping, and the gap is made
     * unreadable. A child does not use the mapping, except as in
     * ips_core_prepare_fork_and_get_seq(). */
    if (ips_in_valgrind())
        ips_sys3(SYS_mprotect, (long)(base + bytes), IPS_GAP_BYTES, PROT_NONE);
    else
        ips_sys_madvise(base, bytes + IPS_GAP_BYTES, MADV_DONTFORK);
}

/* Sets the size of the open file `fd`, maps it into *out and allocates its
 * first page. Returns 0, or the cause of failure by ips_encode_lost_cause(). */
static int size_and_map_segment(int fd, uint64_t bytes,
                                struct ips_segment_map *out)
{
    uint64_t first = PAGE_BYTES;
    struct stat st;
    if (first > bytes)
        first = bytes;
    /* The umask may have changed the mode. */
    if (ips_sys_fstat(fd, &st) < 0 || (st.st_mode & 07777) != 0600)
        ips_sys_fchmod(fd, 0600);
    if (ips_sys_ftruncate(fd, bytes) < 0)
        return ips_encode_lost_cause(IPS_LOST_NO_SEGMENT);
    /* The gap is beyond the end of the file, so it never takes memory. */
    uint64_t base = ips_sys_mmap(0, bytes + IPS_GAP_BYTES,
                                 PROT_READ | PROT_WRITE, MAP_SHARED, fd);
    if (ips_sys_is_error(base))
        return ips_encode_lost_cause(IPS_LOST_NO_SEGMENT);
    int rc = 0;
    if (!ips_quota_take(first)) {
        rc = ips_encode_lost_cause(IPS_LOST_QUOTA);
        goto out;
    }
    int err = allocate_first_page(fd, base, first);
    if (err == -EINVAL) {
        /* Before Linux 5.14, a segment cannot be extended later, so all of it
         * is allocated now, while the file is open. */
        ips_quota_give_back(first);
        first = bytes;
        if (!ips_quota_take(first)) {
            rc = ips_encode_lost_cause(IPS_LOST_QUOTA);
            goto out;
        }
        err = ips_sys_fallocate(fd, bytes);
    }
    if (err < 0) {
        ips_quota_give_back(first);
        rc = ips_encode_lost_cause(IPS_LOST_POOL_FULL);
        goto out;
    }
    ips_segment_hide_from_forks(base, bytes);
    *out = (struct ips_segment_map){base, base + first, base + bytes, 0};
    base = 0;
out:
    if (base)
        ips_sys_munmap(base, bytes + IPS_GAP_BYTES);
    return rc;
}

/* Takes a spare segment for the first segment of a thread or fork child. An
 * image has tried to take one already (record/core.c). */
static bool take_spare_for_first_segment(const struct ips_stream *s,
                                         struct ips_segment_map *out)
{
    return s->seq == 0 && s->start_kind != IPS_START_IMAGE && !ips_ring_on() &&
           ips_spare_segment_take(2 * s->tid, NULL, out);
}

static int take_spare_or_make_segment(const struct ips_stream *s,
                                      struct ips_segment_map *out)
{
    if (take_spare_for_first_segment(s, out))
        return 0;
    char path[sizeof(ips_core.dir) + 64];
    uint64_t stamp = ips_core_stamp_now();
    uint64_t bytes = bytes_within_file_limit(ips_core.control->segment_bytes);
    if (bytes < PAGE_BYTES)
        return ips_encode_lost_cause(IPS_LOST_NO_SEGMENT);
    int fd;
    for (int tries = 0;; tries++, stamp++) {
        format_segment_path(path, s, stamp);
        fd = ips_sys_open(
            path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd != -EEXIST || tries == 16)
            break;
    }
    if (fd == -ENOSPC)
        return ips_encode_lost_cause(IPS_LOST_POOL_FULL);
    if (fd < 0)
        return ips_encode_lost_cause(IPS_LOST_NO_SEGMENT);
    int rc = size_and_map_segment(fd, bytes, out);
    if (rc < 0)
        ips_sys_unlink(path);
    ips_sys_close(fd);
    return rc;
}

struct segment_making {
    const struct ips_stream *s;
    struct ips_segment_map *out;
    int rc;
};

static long take_spare_or_make_segment_in_helper(void *arg)
{
    struct segment_making *m = arg;
    m->rc = take_spare_or_make_segment(m->s, m->out);
    return 0;
}

int ips_segment_take_spare_or_make(const struct ips_stream *s,
                                   struct ips_segment_map *out)
{
    struct segment_making m = {s, out,
                               ips_encode_lost_cause(IPS_LOST_NO_SEGMENT)};
    if (ips_core.spare.base) { /* a spare taken at the start of the process */
        *out = ips_core.spare;
        ips_core.spare = (struct ips_segment_map){0};
        return 0;
    }
    (void)ips_run_with_own_fd_table(take_spare_or_make_segment_in_helper, &m);
    return m.rc;
}

void ips_segment_write_header(struct ips_stream *s,
                              const struct ips_segment_map *m)
{
    struct ips_segment_header *h = ips_segment_head(m);
    h->version = IPS_POOL_VERSION;
    h->header_bytes = sizeof(*h);
    h->segment_bytes = (uint32_t)(m->end - m->base);
    h->seq = s->seq;
    h->pid = ips_core.pid;
    h->tid = s->tid;
    h->pidns = ips_core.pidns;
    h->image_stamp = ips_core.image_stamp;
    h->stream_stamp = s->stamp;
    h->uid = ips_sys_geteuid();
    h->flags = s->flags;
    ips_sys3(SYS_prctl, PR_GET_NAME, (long)h->comm, 0);
    h->clock = ips_core.control->clock;
    for (unsigned i = 0; i < IPS_LOST_COUNT; i++)
        atomic_store_explicit(&h->lost[i], 0, memory_order_relaxed);
    atomic_store_explicit(&h->abandoned, 0, memory_order_relaxed);
    atomic_store_explicit(&h->begun.t, 0, memory_order_relaxed);
    /* State and magic are stored last. A reader that sees the magic sees the
     * complete header of a new segment; a reader that sees OPEN again sees the
     * complete header of a reused segment. Partners: the reader's acquire
     * loads. */
    atomic_store_explicit(&h->state, IPS_SEGMENT_OPEN, memory_order_release);
    __atomic_store_n(&h->magic, IPS_SEGMENT_MAGIC, __ATOMIC_RELEASE);
    s->seq++;
    ips_me.era++;
}

void ips_segment_move_current_call(const struct ips_segment_map *from,
                                   const struct ips_segment_map *to)
{
    if (!from->base)
        return;
    struct ips_current_call *old = &ips_segment_head(from)->begun;
    struct ips_current_call *new = &ips_segment_head(to)->begun;
    uint64_t t = atomic_load_explicit(&old->t, memory_order_relaxed);
    new->cpu = old->cpu;
    new->site = old->site;
    new->what = old->what;
    new->object = old->object;
    new->holder = old->holder;
    atomic_store_explicit(&new->t, t, memory_order_release);
    atomic_store_explicit(&old->t, 0, memory_order_relaxed);
}

static uint64_t record_bytes_of(const struct ips_rec_head *h)
{
    uint32_t word = atomic_load_explicit(&h->word, memory_order_relaxed);
    return (uint64_t)(word >> 8 & 0xff) * 8;
}

/* Is there a reservation in `m` to which an interrupted frame of this thread
 * may still write? Called only if recs_open is not 0, else there is none. */
static bool has_unpublished_record(const struct ips_segment_map *m)
{
    uint64_t at = m->base + sizeof(struct ips_segment_header);
    while (at + sizeof(struct ips_rec_head) <= m->used_end) {
        const struct ips_rec_head *h = (const struct ips_rec_head *)at;
        uint32_t word = atomic_load_explicit(&h->word, memory_order_relaxed);
        if ((word & 0xff) == IPS_REC_RESERVED ||
            record_bytes_of(h) < sizeof(*h))
            return true;
        at += record_bytes_of(h);
    }
    return false;
}

bool ips_segment_has_unpublished_record(const struct ips_segment_map *m)
{
    return ips_me.recs_open && has_unpublished_record(m);
}

void ips_segment_abandon_and_unmap(struct ips_segment_map *m)
{
    if (!m->base)
        return;
    atomic_store_explicit(&ips_segment_head(m)->abandoned, 1,
                          memory_order_release);
    /* If an interrupted frame will still store into the segment, never unmap
     * it: leaking the address range is better than a crash. */
    if (!ips_segment_has_unpublished_record(m))
        ips_sys_munmap(m->base, m->end - m->base + IPS_GAP_BYTES);
    *m = (struct ips_segment_map){0};
}

void ips_segment_mark_closed(struct ips_stream *s)
{
    struct ips_segment_map *m = &s->seg;
    m->used_end = s->cur < m->limit ? s->cur : m->limit;
    ips_write_missing_heads(s, m->used_end);
    /* Partner: the acquire fence after the reader's copy of `state`. */
    atomic_store_explicit(&ips_segment_head(m)->state, IPS_SEGMENT_CLOSED,
                          memory_order_release);
}

void ips_write_missing_heads(struct ips_stream *s, uint64_t upto)
{
    uint64_t at = s->tail;
    if (at < s->lo || at > upto)
        at = s->lo; /* `tail` belongs to an older segment, where an interrupted
                       frame finished its record */
    while (at < upto) {
        struct ips_rec_head *h = (struct ips_rec_head *)at;
        uint64_t bytes = record_bytes_of(h);
        if (bytes < sizeof(*h)) {
            bytes = upto - at;
            if (bytes > IPS_REC_MAX_BYTES) /* leaves at least 16 bytes for the
                                              next head */
                bytes = IPS_REC_MAX_BYTES - sizeof(*h);
            atomic_store_explicit(&h->word,
                                  IPS_REC_RESERVED | (uint32_t)(bytes / 8) << 8,
                                  memory_order_relaxed);
        }
        at += bytes;
    }
    s->tail = upto;
}

static bool is_drained(const struct ips_segment_map *m)
{
    return m->base &&
           atomic_load_explicit(&ips_segment_head(m)->state,
                                memory_order_acquire) == IPS_SEGMENT_DRAINED;
}

bool ips_segment_close_if_complete_and_park(struct ips_stream *s)
{
    struct ips_segment_map *m = &s->seg;
    m->used_end = s->cur < m->limit ? s->cur : m->limit;
    if (ips_segment_has_unpublished_record(m))
        return false;
    ips_segment_mark_closed(s);
    s->parked = true;
    s->cur = s->tail = s->lo = s->limit = 0;
    return true;
}

/* --- segments kept for reuse -----------------------------------------------
 */

static void remove_from_kept_segments(struct ips_kept_segments *k, uint32_t i)
{
    k->count--;
    memmove(&k->map[i], &k->map[i + 1], (k->count - i) * sizeof(k->map[0]));
}

/* Takes the oldest kept segment that the slave has drained. Returns a map with
 * base 0 if there is none. */
static struct ips_segment_map take_oldest_drained_segment(struct ips_stream *s)
{
    struct ips_segment_map out = {0};
    for (uint32_t i = 0; s->kept_segments && i < s->kept_segments->count; i++) {
        if (!is_drained(&s->kept_segments->map[i]))
            continue;
        out = s->kept_segments->map[i];
        remove_from_kept_segments(s->kept_segments, i);
        return out;
    }
    if (is_drained(&s->prev)) {
        out = s->prev;
        s->prev = (struct ips_segment_map){0};
    }
    return out;
}

/* Moves `prev` to the list of kept segments; if half of the quota is in use,
 * abandons it and all kept ones instead. */
static void keep_or_abandon_previous_segment(struct ips_stream *s)
{
    if (!s->prev.base)
        return;
    if (!s->kept_segments) {
        uint64_t at =
            ips_sys_mmap(0, sizeof(*s->kept_segments), PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1);
        if (!ips_sys_is_error(at))
            s->kept_segments = (struct ips_kept_segments *)at;
    }
    struct ips_kept_segments *k = s->kept_segments;
    bool keep = k && ips_quota_is_half_free();
    while (k && k->count > (keep ? IPS_KEPT_MAX - 1 : 0)) {
        ips_segment_abandon_and_unmap(&k->map[0]);
        remove_from_kept_segments(k, 0);
    }
    if (keep)
        k->map[k->count++] = s->prev;
    else
        ips_segment_abandon_and_unmap(&s->prev);
    s->prev = (struct ips_segment_map){0};
}

static bool is_range_in_segment(const struct ips_segment_map *m, uint64_t at,
                                uint64_t bytes)
{
    return m->base && at >= m->base && at + bytes <= m->used_end;
}

bool ips_segment_is_range_in_closed(const struct ips_stream *s, uint64_t at,
                                    uint64_t bytes)
{
    for (uint32_t i = 0; s->kept_segments && i < s->kept_segments->count; i++)
        if (is_range_in_segment(&s->kept_segments->map[i], at, bytes))
            return true;
    return is_range_in_segment(&s->prev, at, bytes);
}

void ips_segment_free_kept_list(struct ips_stream *s)
{
    if (s->kept_segments)
        ips_sys_munmap((uint64_t)(uintptr_t)s->kept_segments,
                       sizeof(*s->kept_segments));
    s->kept_segments = NULL;
}

int ips_segment_change_to_next(struct ips_stream *s)
{
    if (ips_ring_on())
        return ips_ring_change_to_next(s);
    struct ips_segment_map next = {0};
    if (s->parked && is_drained(&s->seg)) {
        next = s->seg;
        s->seg = (struct ips_segment_map){0};
    } else if (!(next = take_oldest_drained_segment(s)).base) {
        int rc = ips_segment_take_spare_or_make(s, &next);
        if (rc < 0)
            return rc;
    }
    ips_segment_write_header(s, &next);
    if (s->seg.base) {
        ips_segment_move_current_call(&s->seg, &next);
        if (!s->parked)
            ips_segment_mark_closed(s);
        keep_or_abandon_previous_segment(s);
        s->prev = s->seg;
    }
    s->parked = false;
    s->seg = next;
    s->lo = next.base + sizeof(struct ips_segment_header);
    s->limit = next.limit;
    s->cur = s->tail = s->lo;
    return 0;
}

void ips_segments_close_and_unmap_all(struct ips_stream *s)
{
    if (s->ring)
        ips_ring_close_all(s);
    if (s->seg.base && !s->parked)
        ips_segment_mark_closed(s);
    s->parked = false;
    ips_segment_abandon_and_unmap(&s->seg);
    ips_segment_abandon_and_unmap(&s->prev);
    for (uint32_t i = 0; s->kept_segments && i < s->kept_segments->count; i++)
        ips_segment_abandon_and_unmap(&s->kept_segments->map[i]);
    ips_segment_free_kept_list(s);
    s->cur = s->lo = s->limit = 0;
}
