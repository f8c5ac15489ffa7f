/* Finds, restores, closes and removes runs. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "agent/pool/pool.h"
#include "common/log.h"
#include "slave/drain/drain.h"
#include "slave/drain/poolfs.h"

/* A run is closed only if nothing changed in it for QUIET_NS, or for EMPTY_NS
 * if no thread of it ever wrote a segment. */
#define QUIET_NS (100 * SLAVE_MS_NS)
#define EMPTY_NS (10 * SLAVE_SECOND_NS)
#define LOCK_TRIES 20u
#define LOCK_PAUSE_NS 100000
#define CLOSE_TRY_NS (50 * SLAVE_MS_NS)
/* An archive with more bytes per event than this is repacked before the run is
 * closed. */
#define REPACK_EVENT_BYTES 8u

void slave_run_mark_dirty(struct slave_run *run)
{
    if (!run->dirty)
        run->saved = run->row;
    run->dirty = true;
    run->version++;
}

void slave_segment_mark_dirty(struct slave_segment *seg)
{
    if (!seg->dirty) {
        seg->saved = seg->row;
        seg->saved_state = seg->state;
    }
    seg->dirty = true;
}

void slave_stream_mark_dirty(struct slave_stream *st)
{
    if (!st->dirty)
        st->saved = st->row;
    st->dirty = true;
}

#define BIT(s) (1u << SLAVE_SEG_##s)
static const unsigned segment_from[] = {
    [SLAVE_SEG_NEW] = 0,
    [SLAVE_SEG_WAITING] = BIT(NEW) | BIT(DRAINED),
    [SLAVE_SEG_READING] = BIT(WAITING),
    [SLAVE_SEG_DONE] = BIT(READING) | BIT(NEW),
    [SLAVE_SEG_DRAINED] = BIT(DONE) | BIT(NEW),
    [SLAVE_SEG_BAD] = BIT(NEW) | BIT(WAITING) | BIT(DRAINED),
    [SLAVE_SEG_GONE] = BIT(NEW) | BIT(WAITING) | BIT(READING) | BIT(DONE) |
                       BIT(DRAINED) | BIT(BAD),
};
static const char *const segment_names[] = {
    "new", "waiting", "reading", "done", "drained", "bad", "gone"};

void slave_segment_set_state(struct slave_segment *seg,
                             enum slave_segment_state next, const char *why)
{
    if (!(segment_from[next] & 1u << seg->state))
        ips_log_error("segment %s: %s -> %s is not foreseen", seg->row.file,
                      segment_names[seg->state], segment_names[next]);
    ips_log_debug("segment %s: %s -> %s (%s)", seg->row.file,
                  segment_names[seg->state], segment_names[next], why);
    seg->state = next;
}

/* ---- parts of a run ---- */

static uint64_t hash_text(const char *text)
{
    return ips_fnv1a(IPS_FNV_SEED, text, strlen(text));
}

struct slave_segment *slave_run_find_segment(struct slave_run *run,
                                             const char *file)
{
    uint64_t hash = hash_text(file);
    struct slave_hashmap_entry *l =
        slave_hashmap_find_first(&run->segment_map, hash);
    for (; l; l = slave_hashmap_next_match(l->next, hash)) {
        struct slave_segment *s = (struct slave_segment *)(void *)l;
        if (strcmp(s->row.file, file) == 0)
            return s;
    }
    return NULL;
}

struct slave_segment *slave_run_add_segment(struct slave_run *run,
                                            const char *file)
{
    struct slave_segment *s = calloc(1, sizeof(*s));
    if (!s)
        return NULL;
    snprintf(s->row.file, sizeof(s->row.file), "%s", file);
    s->fd = -1;
    s->state = SLAVE_SEG_NEW;
    if (slave_hashmap_put(&run->segment_map, &s->link, hash_text(file)) < 0) {
        free(s);
        return NULL;
    }
    s->next = run->segments;
    run->segments = s;
    run->changed_ns = slave_now_ns();
    return s;
}

static struct slave_image *find_or_add_image(struct slave_run *run,
                                             const struct ips_segment_header *h)
{
    for (struct slave_image *i = run->images; i; i = i->next)
        if (i->pid == h->pid && i->pidns == h->pidns &&
            i->stamp == h->image_stamp)
            return i;
    struct slave_image *i = calloc(1, sizeof(*i)), *same = run->images;
    if (!i)
        return NULL;
    while (same && (same->pid != h->pid || same->pidns != h->pidns))
        same = same->next;
    run->process_count += same == NULL;
    i->run = run;
    i->pid = h->pid;
    i->pidns = h->pidns;
    i->stamp = h->image_stamp;
    i->pidfd = -1;
    i->next = run->images;
    run->images = i;
    return i;
}

static uint64_t stream_hash(const struct ips_segment_header *h)
{
    const uint64_t key[] = {h->pidns, (uint64_t)h->pid << 32 | h->tid,
                            h->image_stamp, h->stream_stamp};
    return ips_fnv1a(IPS_FNV_SEED, key, sizeof(key));
}

static bool same_stream(const struct ips_segment_header *a,
                        const struct ips_segment_header *b)
{
    return a->pidns == b->pidns && a->pid == b->pid && a->tid == b->tid &&
           a->image_stamp == b->image_stamp &&
           a->stream_stamp == b->stream_stamp;
}

/* Adds a stream and, if needed, its image to the run. The caller sets the
 * stream's number; the row is not stored yet. */
static struct slave_stream *add_stream(struct slave_run *run,
                                       const struct ips_segment_header *head)
{
    struct slave_stream *st = calloc(1, sizeof(*st));
    struct slave_image *image = st ? find_or_add_image(run, head) : NULL;
    if (!image ||
        slave_hashmap_put(&run->stream_map, &st->link, stream_hash(head)) < 0) {
        free(st);
        return NULL;
    }
    st->image = image;
    st->row.head = *head;
    /* `begun` is taken only from the newest segment (note_call_in_progress) */
    st->row.head.begun = (struct ips_current_call){.t = 0};
    if (run->streams_tail)
        run->streams_tail->next = st;
    else
        run->streams = st;
    run->streams_tail = st;
    return st;
}

struct slave_stream *
slave_run_find_or_add_stream(struct slave_run *run,
                             const struct ips_segment_header *head)
{
    uint64_t hash = stream_hash(head);
    struct slave_hashmap_entry *l =
        slave_hashmap_find_first(&run->stream_map, hash);
    for (; l; l = slave_hashmap_next_match(l->next, hash)) {
        struct slave_stream *st = (struct slave_stream *)(void *)l;
        if (same_stream(&st->row.head, head))
            return st;
    }
    struct slave_stream *st = add_stream(run, head);
    if (!st)
        return NULL;
    st->row.number = run->stream_count++;
    slave_stream_mark_dirty(st);
    slave_run_mark_dirty(run);
    return st;
}

/* ---- restored from the database ---- */

static void free_streams_segments_and_images(struct slave_drain *d,
                                             struct slave_run *run)
{
    slave_spare_segments_free(d, run);
    while (run->segments) {
        struct slave_segment *s = run->segments;
        run->segments = s->next;
        slave_segment_close_fd_and_mapping(d, s);
        free(s);
    }
    while (run->streams) {
        struct slave_stream *st = run->streams;
        run->streams = st->next;
        free(st);
    }
    while (run->images) {
        struct slave_image *i = run->images;
        run->images = i->next;
        slave_liveness_close_pidfd(i);
        free(i);
    }
    run->streams_tail = NULL;
    run->stream_count = run->process_count = 0;
    slave_hashmap_release(&run->segment_map);
    slave_hashmap_release(&run->stream_map);
}

struct restore {
    struct slave_drain *d;
    struct slave_run *run;
    struct ips_err *err;
};

static int restore_stream(const struct slave_stream_row *row, void *arg)
{
    struct restore *r = arg;
    struct slave_stream *st = add_stream(r->run, &row->head);
    if (!st)
        return ips_err_set(r->err, IPS_E_NO_MEMORY, "out of memory");
    st->row = *row;
    st->stored = true;
    if (row->number >= r->run->stream_count)
        r->run->stream_count = row->number + 1;
    if (row->dead) {
        st->image->state = SLAVE_IMAGE_DEAD;
        st->image->dead_status = row->dead_status;
        st->image->dead_t_ns = row->dead_t_ns;
        st->image->death_marked = true;
        st->image->last_ns = 1;
    }
    return 0;
}

static int restore_segment(const struct slave_segment_row *row, void *arg)
{
    struct restore *r = arg;
    struct slave_segment *s = slave_run_add_segment(r->run, row->file);
    if (!s)
        return ips_err_set(r->err, IPS_E_NO_MEMORY, "out of memory");
    s->row = *row;
    s->stored = true;
    return 0;
}

/* Loads the run's streams and segments with their cursors from the database.
 * They are needed only while the run is in the pool. */
static int load_streams_and_segments(struct slave_drain *d,
                                     struct slave_run *run, struct ips_err *err)
{
    struct restore r = {d, run, err};
    if (run->streams || !run->row.id)
        return 0;
    int rc = slave_store_for_each_stream(d->store, run->row.id, restore_stream,
                                         &r, err);
    if (rc == 0)
        rc = slave_store_for_each_segment(d->store, run->row.id,
                                          restore_segment, &r, err);
    /* free what was loaded, because the next try loads everything again */
    if (rc < 0)
        free_streams_segments_and_images(d, run);
    return rc;
}

static struct slave_run *append_new_run(struct slave_drain *d, const char *name)
{
    struct slave_run *run = calloc(1, sizeof(*run));
    if (!run)
        return NULL;
    snprintf(run->row.name, sizeof(run->row.name), "%s", name);
    int n = snprintf(run->dir, sizeof(run->dir), "%s/runs/%s", d->state, name);
    if (n < 0 || n >= (int)sizeof(run->dir)) {
        free(run);
        return NULL;
    }
    run->dirfd = run->watch = run->archive.fd = -1;
    struct slave_run **p = &d->runs;
    while (*p)
        p = &(*p)->next;
    *p = run;
    return run;
}

static int restore_run(const struct slave_run_row *row, void *arg)
{
    struct restore *r = arg;
    if (!slave_poolfs_is_run_name(row->name))
        return 0;
    struct ips_err why = {0};
    struct slave_run *run = append_new_run(r->d, row->name);
    if (!run)
        return ips_err_set(r->err, IPS_E_NO_MEMORY, "out of memory");
    run->row = *row;
    if (slave_repack_recover(run->dir, row->archive_bytes, &why) < 0)
        ips_log_error("run %s: %s", row->name, why.msg);
    return 0;
}

int slave_run_restore_all(struct slave_drain *d, struct ips_err *err)
{
    struct restore r = {d, NULL, err};
    return slave_store_for_each_run(d->store, restore_run, &r, err);
}

/* ---- found in the pool ---- */

/* Updates the run's row from its control file. A run may be continued after
 * this slave closed it (another command of the run was started here). Then its
 * new control file counts losses from zero, so the counts seen so far are
 * reset. */
static void merge_control_file(struct slave_run *run,
                               const struct ips_control *control)
{
    struct ips_control *kept = &run->row.control;
    if (run->row.id == 0) {
        *kept = *control;
        for (int i = 0; i < IPS_LOST_COUNT; i++)
            /* slave_run_update_row_from_control then adds all losses of the
             * control file */
            kept->lost[i] = 0;
        return;
    }
    if (kept->created_raw_ns == control->created_raw_ns &&
        kept->created_real_ns == control->created_real_ns)
        return;
    if (kept->root_pid == 0)
        *kept = *control;
    for (int i = 0; i < IPS_LOST_COUNT; i++)
        kept->lost[i] = 0;
}

/* Opens the run's archive; *missing: number of committed bytes that the file
 * lacks. */
static int open_archive_and_load_rows(struct slave_drain *d,
                                      struct slave_run *run, uint64_t *missing,
                                      struct ips_err *err)
{
    int rc = ips_path_make_directories(run->dir, 0700, err);
    /* Must come before slave_archive_open_and_cut_to_committed(), which cuts
     * the file to its committed length. */
    if (rc == 0)
        rc = slave_repack_recover(run->dir, run->row.archive_bytes, err);
    if (rc == 0)
        rc = load_streams_and_segments(d, run, err);
    if (rc == 0 && run->archive.fd < 0)
        rc = slave_archive_open_and_cut_to_committed(
            &run->archive, run->dir, run->row.archive_bytes, missing, err);
    return rc;
}

int slave_run_add_or_reopen(struct slave_drain *d, const char *name, int dirfd,
                            const struct ips_control *control,
                            struct ips_err *err)
{
    struct slave_run *run = slave_drain_find_run(d, name);
    uint64_t missing = 0;
    if (!run)
        run = append_new_run(d, name);
    if (!run)
        return ips_err_set(err, IPS_E_NO_MEMORY, "out of memory");
    int rc = open_archive_and_load_rows(d, run, &missing, err);
    if (rc < 0) {
        if (!run->unopened[0])
            d->version++;
        snprintf(run->unopened, sizeof(run->unopened), "%.199s", err->msg);
        run->tried = d->listings;
        free_streams_segments_and_images(d, run);
        merge_control_file(run, control);
        return rc;
    }
    run->unopened[0] = '\0';
    /* An image whose segments are all gone is not found by listing files, so
     * start to track it here. */
    for (struct slave_image *i = run->images; i; i = i->next)
        if (i->last_ns == 0)
            slave_liveness_track(d, i, 0);
    if (missing) {
        ips_log_error("run %s: %llu bytes of its archive are missing (did the "
                      "machine stop before they reached the disk?)",
                      name, (unsigned long long)missing);
        run->row.archive_bytes = run->archive.length;
        run->row.given_up++;
    }
    merge_control_file(run, control);
    run->row.closed = false;
    /* Mark the row dirty only here: if the commit fails, the row is restored to
     * its contents at this point. */
    slave_run_mark_dirty(run);
    run->dirfd = dirfd;
    run->in_pool = true;
    run->scan_now = true;
    run->changed_ns = slave_now_ns();
    d->version++;
    d->runs_found++;
    ips_log_info("run %s: found (%s)", name, run->row.control.command);
    return 0;
}

/* ---- closed ---- */

void slave_run_free(struct slave_drain *d, struct slave_run *run)
{
    slave_watch_stop_watching_run(d, run);
    free_streams_segments_and_images(d, run);
    slave_repack_free_and_remove_file(run->repack);
    slave_archive_close(&run->archive);
    if (run->dirfd >= 0)
        close(run->dirfd);
    free(run);
}

static bool is_run_dead_and_all_reclaimed(const struct slave_run *run)
{
    for (const struct slave_image *i = run->images; i; i = i->next)
        if (i->state != SLAVE_IMAGE_DEAD || !i->death_marked)
            return false;
    for (const struct slave_segment *s = run->segments; s; s = s->next)
        if (s->state != SLAVE_SEG_BAD && s->state != SLAVE_SEG_GONE)
            return false;
    return !run->dirty;
}

/* Removes everything in the run's pool directory except non-empty directories,
 * then the directory itself. */
static void remove_pool_directory(struct slave_drain *d, struct slave_run *run)
{
    int fd = dup(run->dirfd);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *e;
    if (dir) {
        rewinddir(dir);
        while ((e = readdir(dir)))
            if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
                (void)(unlinkat(run->dirfd, e->d_name, 0) == 0 ||
                       unlinkat(run->dirfd, e->d_name, AT_REMOVEDIR) == 0);
        closedir(dir);
    } else if (fd >= 0) {
        close(fd);
    }
    if (unlinkat(d->pool_fd, run->row.name, AT_REMOVEDIR) < 0 &&
        errno != ENOENT)
        ips_log_warn("run %s: cannot remove its pool directory: %s",
                     run->row.name, strerror(errno));
}

/* Closes a run that is over: marks it as closed in the database, removes its
 * pool directory, and frees its streams and segments. Called with pool.lock
 * held, so no process can join the run meanwhile. */
static void close_run(struct slave_drain *d, struct slave_run *run)
{
    struct ips_err err = {0};
    if (slave_spare_segments_remove_or_convert_all(d, run) != 0 ||
        slave_watch_scan_run_directory(d, run, slave_now_ns()) != 0)
        return; /* a new process appeared: the run is not over */
    /* last read of the control file, which is removed with the directory */
    slave_run_update_row_from_control(run);
    struct slave_run_row row = run->row;
    row.closed = true;
    row.closed_real_ns = slave_real_ns();
    if (run->repack)
        row.archive_bytes = slave_repack_new_archive_bytes(run->repack);
    int rc = slave_archive_sync(&run->archive, &err);
    if (rc == 0)
        rc = slave_store_begin(d->store, &err);
    if (rc == 0)
        rc = slave_store_insert_or_update_run(d->store, &row, &err);
    for (struct slave_segment *s = run->segments; rc == 0 && s; s = s->next)
        if (s->stored)
            rc = slave_store_drop_segment(d->store, row.id, s->row.file, &err);
    if (rc == 0)
        rc = slave_store_commit(d->store, &err);
    if (rc < 0) {
        slave_store_rollback(d->store);
        ips_log_error("run %s: cannot close it: %s", row.name, err.msg);
        run->next_close_ns = slave_now_ns() + SLAVE_SECOND_NS;
        return;
    }
    run->row = row;
    if (run->repack &&
        slave_repack_replace_archive(run->repack, &run->archive, &err) < 0)
        ips_log_error("run %s: %s: it cannot be read until the slave restarts",
                      row.name, err.msg);
    run->repack = NULL;
    remove_pool_directory(d, run);
    slave_watch_stop_watching_run(d, run);
    free_streams_segments_and_images(d, run);
    slave_archive_close(&run->archive);
    close(run->dirfd);
    run->dirfd = -1;
    run->in_pool = false;
    run->uncounted_released = run->uncounted_spare = 0;
    run->version++;
    d->version++;
    ips_log_info("run %s: closed, %llu events in %llu bytes", row.name,
                 (unsigned long long)row.events,
                 (unsigned long long)row.archive_bytes);
}

/* Does the next step of repacking the archive, if its size per event makes that
 * worthwhile. Returns false while there is more to do, else true: also if it
 * failed or would save nothing. */
static bool advance_repack(struct slave_drain *d, struct slave_run *run)
{
    struct ips_err err = {0};
    struct slave_archive *a = &run->archive;
    if (!run->repack && (a->length <= run->row.events * REPACK_EVENT_BYTES ||
                         run->repack_in_vain == a->length))
        return true;
    if (!run->repack)
        run->repack = slave_repack_new(a, run->dir, &err);
    int rc = err.code;
    if (rc == 0)
        rc = slave_repack_step(run->repack, a, d->pack,
                               run->row.control.clock.mult_q32, &err);
    if (rc == 0)
        return false;
    if (rc < 0 && rc != IPS_E_BUSY)
        ips_log_warn("run %s: cannot repack its archive: %s", run->row.name,
                     err.msg);
    if (rc < 0 || slave_repack_new_archive_bytes(run->repack) >= a->length) {
        if (rc != IPS_E_BUSY)
            run->repack_in_vain = a->length;
        slave_repack_free_and_remove_file(run->repack);
        run->repack = NULL;
    }
    return rc != IPS_E_BUSY;
}

/* Takes pool.lock for all runs that this turn closes. If runs are created one
 * after the other, some process holds the lock nearly always; so this tries
 * several times. */
static bool try_to_take_pool_lock(struct slave_drain *d)
{
    const struct timespec pause = {0, LOCK_PAUSE_NS};
    if (d->pool_lock >= 0 || d->pool_lock_missed)
        return d->pool_lock >= 0;
    int fd = openat(d->pool_fd, IPS_POOL_LOCK,
                    O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    for (unsigned i = 0; fd >= 0 && i < LOCK_TRIES; i++) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
            d->pool_lock = fd;
            return true;
        }
        nanosleep(&pause, NULL);
    }
    if (fd >= 0)
        close(fd);
    d->pool_lock_missed = true;
    return false;
}

void slave_run_try_close(struct slave_drain *d, struct slave_run *run,
                         uint64_t now_ns)
{
    if (!run->in_pool || now_ns < run->next_close_ns ||
        ips_sub_sat(now_ns, run->changed_ns) < QUIET_NS ||
        !is_run_dead_and_all_reclaimed(run))
        return;
    run->next_close_ns = now_ns + CLOSE_TRY_NS;
    if (run->stream_count == 0 &&
        ips_sub_sat(now_ns, run->changed_ns) < EMPTY_NS)
        return;
    if (slave_liveness_is_run_in_environments(d, run->row.name)) {
        /* Some process has the run in its environment, but has recorded nothing
         * yet, or never will: try again later. */
        run->next_close_ns = now_ns + SLAVE_SECOND_NS / 2;
        return;
    }
    if (!advance_repack(d, run)) {
        run->next_close_ns = now_ns;
        return;
    }
    if (try_to_take_pool_lock(d))
        close_run(d, run);
}

void slave_run_release_pool_lock(struct slave_drain *d)
{
    if (d->pool_lock >= 0)
        close(d->pool_lock);
    d->pool_lock = -1;
    d->pool_lock_missed = false;
}

/* ---- limits ---- */

static void remove_tree(const char *path)
{
    DIR *dir = opendir(path);
    struct dirent *e;
    while (dir && (e = readdir(dir))) {
        char inner[IPS_PATH_BYTES + 300];
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        snprintf(inner, sizeof(inner), "%s/%s", path, e->d_name);
        if (unlink(inner) < 0 && (errno == EISDIR || errno == EPERM))
            remove_tree(inner);
    }
    if (dir)
        closedir(dir);
    (void)rmdir(path);
}

static void remove_run(struct slave_drain *d, struct slave_run **at,
                       const char *why)
{
    struct ips_err err = {0};
    struct slave_run *run = *at;
    /* Delete the rows first: if the slave is killed in between, its next start
     * removes the directory, because it has no row. */
    if (slave_store_drop_run(d->store, run->row.id, &err) < 0) {
        ips_log_error("run %s: cannot remove it: %s", run->row.name, err.msg);
        return;
    }
    ips_log_info("run %s: removed from the archive: %s", run->row.name, why);
    remove_tree(run->dir);
    *at = run->next;
    slave_run_free(d, run);
    d->version++;
}

/* Returns the run that was closed first and is not in use, but never the one
 * closed last: its user is probably about to ask about it. */
static struct slave_run **find_oldest_closed_run(struct slave_drain *d)
{
    struct slave_run **oldest = NULL;
    uint64_t newest = 0;
    for (struct slave_run *r = d->runs; r; r = r->next)
        if (r->row.closed)
            newest = ips_max_u64(newest, r->row.closed_real_ns);
    for (struct slave_run **p = &d->runs; *p; p = &(*p)->next)
        if ((*p)->row.closed && !(*p)->pins && !(*p)->unopened[0] &&
            (*p)->row.closed_real_ns < newest &&
            (!oldest ||
             (*p)->row.closed_real_ns < (*oldest)->row.closed_real_ns))
            oldest = p;
    return oldest;
}

/* Sets row.graph_bytes to the disk usage of the run's graph file. The worker
 * writes such files without reporting it to the loop. */
static void measure_graph_file(struct slave_run *run)
{
    char path[IPS_PATH_BYTES + 16];
    struct stat st;
    snprintf(path, sizeof(path), "%s/graph", run->dir);
    run->row.graph_bytes =
        stat(path, &st) == 0 ? (uint64_t)st.st_blocks * 512 : 0;
}

void slave_run_remove_oldest_over_limits(struct slave_drain *d)
{
    uint64_t sum = 0, now = slave_real_ns();
    for (struct slave_run *r = d->runs; r; r = r->next) {
        measure_graph_file(r);
        sum += r->row.archive_bytes + r->row.graph_bytes;
    }
    for (;;) {
        struct slave_run **p = find_oldest_closed_run(d);
        if (!p)
            return;
        uint64_t age = ips_sub_sat(now, (*p)->row.closed_real_ns);
        bool large = d->archive_max_bytes && sum > d->archive_max_bytes;
        bool old = d->archive_age_s && age / SLAVE_SECOND_NS > d->archive_age_s;
        if (!large && !old)
            return;
        struct slave_run *run = *p;
        uint64_t bytes = run->row.archive_bytes + run->row.graph_bytes;
        remove_run(d, p,
                   large ? "the archive is over its size limit"
                         : "older than the archive's age limit");
        if (*p == run)
            /* the database could not delete the run, so it was not removed */
            return;
        sum -= bytes;
    }
}
