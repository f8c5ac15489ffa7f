/* Spare segments ("spares"): empty segments made in advance for runs whose
 * processes start and end often (agent/pool/format.h defines them,
 * agent/record/spare_segments.c takes them).
 *
 * Invariants:
 *  - a spare gets its name only when it is complete, and is unlinked only after
 *    it was withdrawn and then seen not to be taken: no record is lost.
 *  - a spare that was taken becomes a segment: it is renamed to a segment's
 *    name and read like any other. A slave that starts takes over the spares of
 *    its predecessor.
 *  - spares are counted in spare_bytes of `control` and, like every segment, in
 *    released_bytes when they are unlinked.
 *  - no spares are made if less than half of the run's quota is free, or in a
 *    run with --on-full=ring, whose segments are reused in turn. */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/pool/pool.h"
#include "common/log.h"
#include "slave/drain/drain.h"
#include "slave/drain/poolfs.h"

/* Number of segment files that must appear within CHURN_WINDOW_NS (watch.c)
 * before spares are made: for fewer processes they do not pay. */
#define BEGIN_FILES 8u
/* polling interval after a process took a spare; it doubles while none is
 * taken */
#define LOOK_NS (5 * SLAVE_MS_NS)
#define LOOK_MAX_NS (500 * SLAVE_MS_NS)
/* spares that no process took during this time are removed */
#define UNUSED_NS (30 * SLAVE_SECOND_NS)

struct slave_spare_segments {
    /* [number of the spare] its descriptor; -1: no spare of this number */
    int fd[IPS_SPARES];
    uint32_t count;
    uint64_t next_ns, wait_ns;
    uint64_t taken_ns; /* time at which a process last took a spare */
    uint64_t made_ever;
};

static struct slave_spare_segments *
get_or_make_spare_segments(struct slave_run *run)
{
    if (run->spare_segments)
        return run->spare_segments;
    run->spare_segments = calloc(1, sizeof(*run->spare_segments));
    for (uint32_t i = 0; run->spare_segments && i < IPS_SPARES; i++)
        run->spare_segments->fd[i] = -1;
    if (run->spare_segments)
        run->spare_segments->taken_ns = slave_now_ns();
    return run->spare_segments;
}

static void register_spare(struct slave_drain *d,
                           struct slave_spare_segments *sp, uint32_t n, int fd)
{
    sp->fd[n] = fd;
    sp->count++;
    d->open_fds++;
}

static void close_spare(struct slave_drain *d, struct slave_spare_segments *sp,
                        uint32_t n)
{
    if (sp->fd[n] < 0)
        return;
    close(sp->fd[n]);
    sp->fd[n] = -1;
    sp->count--;
    d->open_fds--;
}

/* Whether spares may be made: descriptors and quota are left, and the run is
 * not recorded with --on-full=ring. Reads the control file into *c. */
static bool may_make_spare_segments(const struct slave_drain *d,
                                    struct slave_run *run,
                                    struct ips_control *c)
{
    return d->open_fds + IPS_SPARES < d->max_fds &&
           slave_poolfs_read_control(run->dirfd, c, NULL) == 0 &&
           c->on_full != IPS_ON_FULL_RING &&
           c->segment_bytes == run->row.control.segment_bytes &&
           ips_control_bytes_in_use(c) < c->quota_bytes / 2;
}

static void make_missing_spare_segments(struct slave_drain *d,
                                        struct slave_run *run)
{
    struct ips_control c;
    if (run->spare_segments->count == IPS_SPARES ||
        !may_make_spare_segments(d, run, &c))
        return;
    /* All spares together take at most a sixteenth of the quota. */
    uint64_t most = c.quota_bytes / 16 / IPS_SPARE_FIRST_BYTES;
    for (uint32_t n = 0; n < IPS_SPARES && n < most; n++) {
        if (run->spare_segments->fd[n] >= 0)
            continue;
        uint64_t bytes;
        int fd = ips_spare_segment_make(run->dirfd, n, &c, &bytes);
        if (fd < 0)
            break;
        register_spare(d, run->spare_segments, n, fd);
        run->uncounted_spare += bytes;
    }
    slave_run_flush_byte_counts_to_control(d, run);
}

static bool is_spare_taken(int fd)
{
    uint32_t taken = 0;
    return pread(fd, &taken, sizeof(taken),
                 offsetof(struct ips_segment_header, taken)) !=
               (ssize_t)sizeof(taken) ||
           taken != 0;
}

/* Makes spare number `n`, to which a process writes, an ordinary segment:
 * renames its file and adds it to the run's segments. */
static void convert_spare_to_ordinary_segment(struct slave_drain *d,
                                              struct slave_run *run, uint32_t n,
                                              uint64_t now_ns)
{
    char old[32], name[64];
    struct slave_spare_segments *sp = run->spare_segments;
    ips_spare_segment_format_name(old, n);
    snprintf(name, sizeof(name), "spare.%u.%llx" IPS_SEGMENT_SUFFIX, n,
             (unsigned long long)(now_ns + sp->made_ever++));
    if (renameat2(run->dirfd, old, run->dirfd, name, RENAME_NOREPLACE) < 0) {
        if (errno == EEXIST)
            /* the name exists already: the next turn tries another one */
            return;
        ips_log_warn("run %s: %s: %s", run->row.name, old, strerror(errno));
        if (errno == ENOENT) { /* another program removed the file and the
                                  records in it */
            slave_run_mark_dirty(run);
            run->row.given_up++;
        }
        close_spare(d, sp, n);
        return;
    }
    close_spare(d, sp, n);
    struct slave_segment *s = run->segment_map.count < SLAVE_SEGMENTS_MAX
                                  ? slave_run_add_segment(run, name)
                                  /* too many segments, or no memory: a later
                                   * listing finds the file */
                                  : NULL;
    if (s)
        s->scan = run->scan;
    else
        run->scan_now = true;
}

static unsigned convert_taken_spare_segments(struct slave_drain *d,
                                             struct slave_run *run,
                                             uint64_t now_ns)
{
    unsigned taken = 0;
    for (uint32_t n = 0; n < IPS_SPARES; n++)
        if (run->spare_segments->fd[n] >= 0 &&
            is_spare_taken(run->spare_segments->fd[n])) {
            convert_spare_to_ordinary_segment(d, run, n, now_ns);
            taken++;
        }
    return taken;
}

void slave_spare_segments_convert_and_refill(struct slave_drain *d,
                                             struct slave_run *run,
                                             uint64_t now_ns)
{
    if (!run->spare_segments && run->appeared < BEGIN_FILES)
        return;
    struct slave_spare_segments *sp = get_or_make_spare_segments(run);
    if (!sp || (now_ns < sp->next_ns && !run->want_sync))
        return;
    unsigned taken = convert_taken_spare_segments(d, run, now_ns);
    run->appeared += taken;
    if (taken)
        sp->taken_ns = now_ns;
    sp->wait_ns = taken ? LOOK_NS : ips_min_u64(2 * sp->wait_ns, LOOK_MAX_NS);
    sp->wait_ns = ips_max_u64(sp->wait_ns, LOOK_NS);
    sp->next_ns = now_ns + sp->wait_ns;
    if (ips_sub_sat(now_ns, sp->taken_ns) < UNUSED_NS)
        make_missing_spare_segments(d, run);
    else
        (void)slave_spare_segments_remove_or_convert_all(d, run);
}

uint64_t slave_spare_segments_next_ns(const struct slave_run *run)
{
    return run->spare_segments ? run->spare_segments->next_ns : UINT64_MAX;
}

/* Withdraws a spare, so that no process takes it afterwards. Returns false if a
 * process has taken it, or may have. */
static bool withdraw_spare(int fd)
{
    const uint32_t yes = 1;
    if (pwrite(fd, &yes, sizeof(yes),
               offsetof(struct ips_segment_header, withdrawn)) !=
        (ssize_t)sizeof(yes))
        return false;
    /* Pairs with the fence in ips_spare_segment_take. */
    atomic_thread_fence(memory_order_seq_cst);
    return !is_spare_taken(fd);
}

unsigned slave_spare_segments_remove_or_convert_all(struct slave_drain *d,
                                                    struct slave_run *run)
{
    struct slave_spare_segments *sp = run->spare_segments;
    unsigned taken = 0;
    for (uint32_t n = 0; sp && n < IPS_SPARES; n++) {
        char name[32];
        struct stat st = {0};
        if (sp->fd[n] < 0)
            continue;
        if (!withdraw_spare(sp->fd[n])) {
            convert_spare_to_ordinary_segment(d, run, n, slave_now_ns());
            taken++;
            continue;
        }
        ips_spare_segment_format_name(name, n);
        if (fstat(sp->fd[n], &st) == 0 && unlinkat(run->dirfd, name, 0) == 0)
            run->uncounted_released += (uint64_t)st.st_blocks * 512;
        close_spare(d, sp, n);
    }
    slave_run_flush_byte_counts_to_control(d, run);
    slave_spare_segments_free(d, run);
    return taken;
}

void slave_spare_segments_free(struct slave_drain *d, struct slave_run *run)
{
    for (uint32_t n = 0; run->spare_segments && n < IPS_SPARES; n++)
        close_spare(d, run->spare_segments, n);
    free(run->spare_segments);
    run->spare_segments = NULL;
}

void slave_spare_segments_reopen_by_name(struct slave_drain *d,
                                         struct slave_run *run,
                                         const char *name)
{
    struct ips_err err = {0};
    struct stat st;
    char same[32];
    char *end;
    unsigned long n = strtoul(name + strlen(IPS_SPARE_PREFIX), &end, 10);
    if (n >= IPS_SPARES || *end ||
        (run->spare_segments && run->spare_segments->fd[n] >= 0))
        return;
    ips_spare_segment_format_name(same, (uint32_t)n);
    if (strcmp(same, name) != 0)
        return;
    int fd = slave_poolfs_open_segment(run->dirfd, name, &err);
    if (fd < 0)
        return;
    /* Takes over only a file of the slave's own user: processes do not take
     * another user's file as a spare, either. */
    if (fstat(fd, &st) < 0 || st.st_uid != geteuid() ||
        st.st_size < (off_t)IPS_SPARE_FIRST_BYTES ||
        !get_or_make_spare_segments(run)) {
        close(fd);
        return;
    }
    register_spare(d, run->spare_segments, (uint32_t)n, fd);
}
