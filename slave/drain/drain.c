/* The drain's turn: finds new data in the pool, reads it, commits it, hands
 * segments back. Invariants in drain.h. */
#include "slave/drain/drain.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/log.h"
#include "slave/drain/load.h"
#include "slave/drain/poolfs.h"
#include "slave/drain/segment_reader.h"
#include "slave/drain/unrecorded.h"

#define SCAN_NS (5 * SLAVE_SECOND_NS)
/* interval of pool scans if inotify is not available */
#define SCAN_BLIND_NS SLAVE_SECOND_NS
#define LIMITS_NS (30 * SLAVE_SECOND_NS)
#define CONTROL_NS SLAVE_SECOND_NS
#define RETRY_NS SLAVE_SECOND_NS
#define TURN_BUSY_NS SLAVE_MS_NS
#define TURN_LIVE_NS (10 * SLAVE_MS_NS)
#define TURN_IDLE_NS (500 * SLAVE_MS_NS)
/* Maximum time for closing runs in one turn (closing a run waits for the disk).
 * If many runs end at once, later turns close the rest, so that requests can be
 * answered in between. */
#define TURN_CLOSES_NS (20 * SLAVE_MS_NS)

static uint64_t clock_now_ns(clockid_t clock)
{
    struct timespec ts;
    clock_gettime(clock, &ts);
    return (uint64_t)ts.tv_sec * SLAVE_SECOND_NS + (uint64_t)ts.tv_nsec;
}

uint64_t slave_now_ns(void)
{
    return clock_now_ns(CLOCK_MONOTONIC);
}

uint64_t slave_real_ns(void)
{
    return clock_now_ns(CLOCK_REALTIME);
}

struct slave_run *slave_drain_find_run(const struct slave_drain *d,
                                       const char *name)
{
    for (struct slave_run *r = d->runs; r; r = r->next)
        if (strcmp(r->row.name, name) == 0)
            return r;
    return NULL;
}

/* ---- start and end ---- */

/* Raises the limit of open descriptors to its maximum: the slave needs a
 * descriptor for each process and each segment. Returns the maximum number of
 * descriptors for segments: half of all, at most 100,000. */
static uint32_t raise_fd_limit_and_get_segment_limit(void)
{
    struct rlimit r;
    if (getrlimit(RLIMIT_NOFILE, &r) < 0)
        return 256;
    r.rlim_cur = r.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &r) < 0 && getrlimit(RLIMIT_NOFILE, &r) < 0)
        return 256;
    return r.rlim_cur > 200000 ? 100000 : (uint32_t)r.rlim_cur / 2;
}

/* Removes run directories without a row in the database: an earlier slave was
 * removing these runs. */
static void remove_orphaned_run_directories(struct slave_drain *d)
{
    char runs[IPS_PATH_BYTES + 8], path[IPS_PATH_BYTES + 300];
    snprintf(runs, sizeof(runs), "%s/runs", d->state);
    DIR *dir = opendir(runs);
    struct dirent *e;
    while (dir && (e = readdir(dir))) {
        if (!slave_poolfs_is_run_name(e->d_name) ||
            slave_drain_find_run(d, e->d_name))
            continue;
        static const char *const files[] = {"archive", "archive.new", "graph",
                                            "graph.new"};
        for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
            snprintf(path, sizeof(path), "%s/%s/%s", runs, e->d_name, files[i]);
            (void)unlink(path);
        }
        snprintf(path, sizeof(path), "%s/%s", runs, e->d_name);
        /* rmdir() fails, as intended, if the directory has copies of damaged
         * segments */
        (void)rmdir(path);
    }
    if (dir)
        closedir(dir);
}

int slave_drain_open(struct slave_drain *d,
                     const struct slave_drain_options *opt, struct ips_err *err)
{
    char path[IPS_PATH_BYTES + 16];
    *d = (struct slave_drain){
        .pool_fd = -1, .epoll_fd = -1, .inotify_fd = -1, .pool_lock = -1};
    snprintf(d->pool, sizeof(d->pool), "%s", opt->pool);
    snprintf(d->state, sizeof(d->state), "%s", opt->state);
    d->archive_max_bytes = opt->archive_max_bytes;
    d->archive_age_s = opt->archive_age_s;
    d->max_fds = raise_fd_limit_and_get_segment_limit();
    slave_liveness_read_own_pid_namespace(d);
    /* Open the state directory before the pool, because data from the pool goes
     * there. */
    snprintf(path, sizeof(path), "%s/runs", d->state);
    int rc = ips_path_make_directories(path, 0700, err);
    if (rc == 0 && access(path, W_OK) < 0)
        rc = ips_err_errno(err, "state directory %s", path);
    if (rc == 0) {
        d->pool_fd = slave_poolfs_open_trusted_dir(AT_FDCWD, d->pool, err);
        rc = d->pool_fd < 0 ? ips_err_wrap(err, d->pool_fd, "pool") : 0;
    }
    d->frames = malloc(SLAVE_FRAMES_BYTES);
    d->peek = malloc(SLAVE_READ_BYTES);
    d->pack = slave_pack_new();
    if (rc == 0 && (!d->frames || !d->peek || !d->pack))
        rc = ips_err_set(err, IPS_E_NO_MEMORY, "out of memory");
    if (rc == 0) {
        snprintf(path, sizeof(path), "%s/slave.db", d->state);
        rc = slave_store_open(path, &d->store, err);
    }
    if (rc == 0)
        rc = slave_run_restore_all(d, err);
    if (rc == 0) {
        remove_orphaned_run_directories(d);
        rc = slave_watch_open(d, err);
    }
    if (rc < 0)
        slave_drain_close(d);
    return rc;
}

void slave_drain_close(struct slave_drain *d)
{
    while (d->runs) {
        struct slave_run *next = d->runs->next;
        slave_run_free(d, d->runs);
        d->runs = next;
    }
    slave_store_close(d->store);
    d->store = NULL;
    free(d->frames);
    free(d->peek);
    free(d->carried);
    d->carried = NULL;
    d->frames = d->peek = NULL;
    slave_pack_free(d->pack);
    d->pack = NULL;
    int *const fds[] = {&d->pool_fd, &d->epoll_fd, &d->inotify_fd};
    for (size_t i = 0; i < sizeof(fds) / sizeof(*fds); i++) {
        if (*fds[i] >= 0)
            close(*fds[i]);
        *fds[i] = -1;
    }
}

/* ---- the turn ---- */

/* Marks the streams of processes that have ended as dead, in their rows. */
static void mark_dead_streams(struct slave_run *run)
{
    bool any = false;
    for (struct slave_image *i = run->images; i && !any; i = i->next)
        any = i->state == SLAVE_IMAGE_DEAD && !i->death_marked;
    if (!any)
        return;
    for (struct slave_stream *st = run->streams; st; st = st->next) {
        if (st->image->state != SLAVE_IMAGE_DEAD || st->image->death_marked)
            continue;
        slave_stream_mark_dirty(st);
        st->row.dead = true;
        st->row.dead_status = st->image->dead_status;
        st->row.dead_t_ns = st->image->dead_t_ns;
    }
    slave_run_mark_dirty(run);
}

void slave_run_update_row_from_control(struct slave_run *run)
{
    struct ips_control c;
    if (slave_poolfs_read_control(run->dirfd, &c, NULL) < 0)
        return;
    run->row.control.used_bytes = c.used_bytes;
    run->row.control.released_bytes = c.released_bytes;
    run->row.control.spare_bytes = c.spare_bytes;
    for (int i = 0; i < IPS_LOST_COUNT; i++) {
        uint64_t lost = c.lost[i], seen = run->row.control.lost[i];
        if (lost <= seen)
            continue;
        slave_run_mark_dirty(run);
        run->row.lost[i] = ips_add_sat(run->row.lost[i], lost - seen);
        run->row.control.lost[i] = lost;
    }
}

static int ingest_run(struct slave_drain *d, struct slave_run *run,
                      uint64_t now_ns, struct ips_err *err)
{
    struct ips_err why = {0};
    d->frames_len = 0;
    if (run->want_sync || run->scan_now ||
        (run->churns && now_ns >= run->list_ns))
        (void)slave_watch_scan_run_directory(d, run, now_ns);
    slave_spare_segments_convert_and_refill(d, run, now_ns);
    if (run->want_sync)
        slave_run_update_row_from_control(run);
    uint64_t before = d->moved_bytes;
    for (struct slave_segment *s = run->segments; s; s = s->next) {
        slave_ingest_advance_segment_if_due(d, run, s, now_ns, &why);
        if (why.code)
            break;
        if (d->moved_bytes - before > SLAVE_RUN_TURN_BYTES)
            break;
    }
    mark_dead_streams(run);
    int rc = why.code;
    if (rc == 0)
        rc = slave_segment_reader_stage_frames_in_archive(d, run, &why);
    d->frames_len = 0;
    if (rc < 0) {
        *err = why;
        return ips_err_wrap(err, rc, "run %s", run->row.name);
    }
    /* A live run always has new data, so it counts as synced after a few turns
     * that read all published records. */
    if (d->moved_bytes == before)
        run->synced = SLAVE_SYNCED;
    else if (d->moved_bytes - before < SLAVE_RUN_TURN_BYTES)
        run->synced++;
    if (run->dirty) {
        run->row.archive_bytes = run->archive.length + run->archive.staged;
        run->row.threads = run->stream_count;
        run->row.processes = run->process_count;
    }
    return 0;
}

static int store_changed_rows_of_run(struct slave_drain *d,
                                     struct slave_run *run, struct ips_err *err)
{
    int rc = 0;
    if (run->dirty || !run->row.id)
        rc = slave_store_insert_or_update_run(d->store, &run->row, err);
    for (struct slave_stream *st = run->streams; rc == 0 && st; st = st->next)
        if (st->dirty)
            rc = slave_store_insert_or_replace_stream(d->store, run->row.id,
                                                      &st->row, err);
    for (struct slave_segment *s = run->segments; rc == 0 && s; s = s->next) {
        if (s->drop_row)
            rc = slave_store_drop_segment(d->store, run->row.id, s->row.file,
                                          err);
        else if (s->dirty && s->state != SLAVE_SEG_GONE &&
                 s->state != SLAVE_SEG_BAD)
            rc = slave_store_insert_or_replace_segment(d->store, run->row.id,
                                                       &s->row, err);
    }
    return rc;
}

static bool run_has_changes(const struct slave_run *run)
{
    if (run->dirty)
        return true;
    for (const struct slave_segment *s = run->segments; s; s = s->next)
        if (s->dirty || s->drop_row)
            return true;
    return false;
}

static void finish_commit_of_run(struct slave_drain *d, struct slave_run *run)
{
    slave_archive_accept_staged_bytes(&run->archive);
    run->dirty = false;
    for (struct slave_image *i = run->images; i; i = i->next)
        if (i->state == SLAVE_IMAGE_DEAD)
            i->death_marked = true;
    for (struct slave_stream *st = run->streams; st; st = st->next) {
        st->stored |= st->dirty;
        st->dirty = false;
    }
    for (struct slave_segment **p = &run->segments; *p;) {
        struct slave_segment *s = *p;
        s->stored |= s->dirty && s->state != SLAVE_SEG_BAD;
        s->dirty = false;
        if (s->state == SLAVE_SEG_GONE && (s->drop_row || !s->stored)) {
            *p = s->next;
            slave_hashmap_remove(&run->segment_map, &s->link);
            slave_segment_close_fd_and_mapping(d, s);
            free(s);
            continue;
        }
        p = &s->next;
    }
}

static void restore_run_after_rollback(struct slave_run *run)
{
    slave_archive_drop_staged_bytes(&run->archive);
    if (run->record_queue)
        slave_record_queue_drop_batches_after_length(run->record_queue,
                                                     run->archive.length);
    if (run->dirty)
        run->row = run->saved;
    /* A run or stream that was never stored must be stored next time. */
    run->dirty = !run->row.id;
    for (struct slave_stream *st = run->streams; st; st = st->next) {
        if (st->dirty)
            st->row = st->saved;
        st->dirty = !st->stored;
    }
    for (struct slave_segment *s = run->segments; s; s = s->next) {
        if (s->dirty && s->state != SLAVE_SEG_GONE) {
            s->row = s->saved;
            s->state = s->saved_state;
        }
        /* After the rollback the segment before `s` in the stream is no longer
         * read to its end, so `s` must wait again. */
        if (s->state == SLAVE_SEG_READING &&
            s->row.seq != s->stream->row.next_seq)
            s->state = SLAVE_SEG_WAITING;
        s->dirty = false;
        s->next_poll_ns = 0;
    }
    for (struct slave_stream *st = run->streams; st; st = st->next)
        if (!st->stored)
            run->dirty = true;
    if (run->dirty)
        run->saved = run->row;
}

static void set_failure_text(struct slave_drain *d, const char *why)
{
    if (strcmp(d->failing, why) != 0)
        d->version++;
    snprintf(d->failing, sizeof(d->failing), "%.199s", why);
}

static void log_failure_and_delay_retry(struct slave_drain *d, uint64_t now_ns,
                                        const struct ips_err *err)
{
    if (!d->failing_since_ns)
        ips_log_error(
            "cannot archive: %s; the data stays in the pool until this "
            "is fixed; trying again every second",
            err->msg);
    if (!d->failing_since_ns)
        d->failing_since_ns = now_ns;
    set_failure_text(d, err->msg);
    d->retry_ns = now_ns + RETRY_NS;
}

static int commit_turn(struct slave_drain *d, struct ips_err *err)
{
    bool any = false;
    for (struct slave_run *r = d->runs; r; r = r->next)
        any |= r->in_pool && run_has_changes(r);
    if (!any)
        return 0;
    int rc = slave_store_begin(d->store, err);
    for (struct slave_run *r = d->runs; rc == 0 && r; r = r->next)
        if (r->in_pool && run_has_changes(r))
            rc = store_changed_rows_of_run(d, r, err);
    if (rc == 0)
        rc = slave_store_commit(d->store, err);
    if (rc < 0)
        slave_store_rollback(d->store);
    return rc;
}

static void scan_pool_and_processes(struct slave_drain *d, uint64_t now_ns)
{
    slave_liveness_dispatch_epoll_events(d, now_ns);
    slave_liveness_check_processes_if_due(d, now_ns);
    slave_unrecorded_scan_due_processes(d, now_ns);
    slave_load_sample_for_live_runs(d, now_ns);
    if (d->scan_now || now_ns >= d->next_scan_ns) {
        bool periodic = now_ns >= d->next_scan_ns;
        d->scan_now = false;
        d->next_scan_ns =
            now_ns + (d->pool_watch >= 0 ? SCAN_NS : SCAN_BLIND_NS);
        slave_watch_scan_pool_directory(d);
        for (struct slave_run *r = d->runs; periodic && r; r = r->next)
            r->scan_now = true;
    }
    if (now_ns >= d->next_control_ns) {
        d->next_control_ns = now_ns + CONTROL_NS;
        for (struct slave_run *r = d->runs; r; r = r->next)
            if (r->in_pool) {
                slave_run_flush_byte_counts_to_control(d, r);
                slave_run_update_row_from_control(r);
            }
    }
}

static uint64_t ns_until_next_turn(const struct slave_drain *d, uint64_t now_ns)
{
    uint64_t next = ips_min_u64(now_ns + TURN_IDLE_NS,
                                slave_load_time_of_next_measurement_ns(d));
    if (d->moved_bytes || d->more_to_close)
        return TURN_BUSY_NS;
    for (const struct slave_run *r = d->runs; r; r = r->next) {
        if (!r->in_pool)
            continue;
        next = ips_min_u64(
            next, ips_max_u64(r->next_close_ns, now_ns + TURN_LIVE_NS * 5));
        if (r->want_sync || r->repack)
            return TURN_BUSY_NS;
        next = ips_min_u64(next, slave_spare_segments_next_ns(r));
        if (r->churns || r->scan_now)
            next = ips_min_u64(next, r->list_ns);
        for (const struct slave_segment *s = r->segments; s; s = s->next)
            if (s->state != SLAVE_SEG_BAD)
                next = ips_min_u64(next, s->next_poll_ns);
    }
    return ips_max_u64(ips_sub_sat(next, now_ns), TURN_LIVE_NS);
}

static void reclaim_segments_and_close_runs(struct slave_drain *d,
                                            uint64_t now_ns)
{
    uint64_t begun_ns = slave_now_ns();
    d->more_to_close = false;
    for (struct slave_run *r = d->runs; r; r = r->next) {
        if (!r->in_pool)
            continue;
        if (run_has_changes(r))
            d->version++;
        finish_commit_of_run(d, r);
        for (struct slave_segment *s = r->segments; s; s = s->next)
            slave_ingest_reclaim_committed_segment(d, r, s, now_ns);
        slave_run_free_dead_processes(d, r, now_ns);
        d->more_to_close = slave_now_ns() - begun_ns >= TURN_CLOSES_NS;
        if (!d->more_to_close)
            slave_run_try_close(d, r, now_ns);
    }
    slave_run_release_pool_lock(d);
    if (now_ns >= d->next_limits_ns) {
        d->next_limits_ns = now_ns + LIMITS_NS;
        slave_run_remove_oldest_over_limits(d);
    }
}

uint64_t slave_drain_turn(struct slave_drain *d, uint64_t now_ns)
{
    struct ips_err err = {0};
    int rc = 0;
    if (d->failing_since_ns && now_ns < d->retry_ns)
        return d->retry_ns - now_ns;
    d->moved_bytes = 0;
    scan_pool_and_processes(d, now_ns);
    for (struct slave_run *r = d->runs; rc == 0 && r; r = r->next)
        if (r->in_pool)
            rc = ingest_run(d, r, now_ns, &err);
    if (rc == 0)
        rc = commit_turn(d, &err);
    if (rc < 0) {
        for (struct slave_run *r = d->runs; r; r = r->next)
            if (r->in_pool)
                restore_run_after_rollback(r);
        log_failure_and_delay_retry(d, now_ns, &err);
        return RETRY_NS;
    }
    if (d->failing_since_ns)
        ips_log_info("archiving again");
    d->failing_since_ns = 0;
    set_failure_text(d, d->unopened);
    reclaim_segments_and_close_runs(d, now_ns);
    return ns_until_next_turn(d, now_ns);
}

unsigned slave_drain_fullest_run_permille(const struct slave_drain *d)
{
    unsigned most = 0;
    for (const struct slave_run *r = d->runs; r; r = r->next) {
        const struct ips_control *c = &r->row.control;
        if (!r->in_pool || !c->quota_bytes)
            continue;
        uint64_t used = ips_control_bytes_in_use(c);
        uint64_t fill =
            used >= c->quota_bytes ? 1000 : used / (c->quota_bytes / 1000 + 1);
        most = fill > most ? (unsigned)fill : most;
    }
    return most;
}

unsigned slave_drain_count_open_runs(const struct slave_drain *d)
{
    unsigned n = 0;
    for (const struct slave_run *r = d->runs; r; r = r->next)
        n += r->in_pool || r->unopened[0];
    return n;
}
