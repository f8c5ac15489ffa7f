/*
 * Finds run directories and segment files in the pool. inotify reports them as
 * they appear; a listing every few seconds (every second without inotify) finds
 * what inotify lost. inotify does not report stores into a mapping: ingest.c
 * polls for those, with back-off.
 *
 * A program that creates a file in a watched directory wakes the slave, and
 * pays for it (4 us of the 100 us that a process takes to start). So if
 * processes start and end in quick succession, the directory is not watched but
 * listed every 10 ms, until it is quiet again.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "agent/pool/pool.h"
#include "common/log.h"
#include "slave/drain/drain.h"
#include "slave/drain/poolfs.h"

/* Churn mode (list the directory instead of watching it) begins when at least
 * CHURN_FILES new files appear within CHURN_WINDOW_NS. It ends after a window
 * with fewer than QUIET_FILES new files. */
#define CHURN_FILES 24u
#define QUIET_FILES 4u
#define CHURN_WINDOW_NS (200 * SLAVE_MS_NS)
#define LIST_NS (10 * SLAVE_MS_NS)
/* In churn mode, the slave spends at most about 1/LIST_PART of its time on
 * listing the directory. */
#define LIST_PART 32u

int slave_watch_open(struct slave_drain *d, struct ips_err *err)
{
    d->inotify_fd = -1;
    d->pool_watch = -1;
    d->scan_now = true;
    d->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (d->epoll_fd < 0)
        return ips_err_errno(err, "epoll");
    d->inotify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (d->inotify_fd >= 0) {
        struct epoll_event ev = {.events = EPOLLIN, .data.ptr = NULL};
        if (epoll_ctl(d->epoll_fd, EPOLL_CTL_ADD, d->inotify_fd, &ev) < 0)
            return ips_err_errno(err, "epoll");
        d->pool_watch = inotify_add_watch(d->inotify_fd, d->pool,
                                          IN_CREATE | IN_MOVED_TO | IN_ONLYDIR);
    }
    if (d->pool_watch < 0)
        ips_log_warn("no inotify (%s): listing the pool every second",
                     strerror(errno));
    return 0;
}

void slave_watch_handle_events(struct slave_drain *d, uint64_t now_ns)
{
    char buffer[16384] __attribute__((aligned(8)));
    ssize_t n;
    while ((n = read(d->inotify_fd, buffer, sizeof(buffer))) > 0) {
        for (ssize_t at = 0; at < n;) {
            struct inotify_event ev;
            memcpy(&ev, buffer + at, sizeof(ev));
            at += (ssize_t)(sizeof(ev) + ev.len);
            bool of_a_run = false;
            for (struct slave_run *r = d->runs; r; r = r->next)
                if (ev.wd == r->watch || ev.mask & IN_Q_OVERFLOW)
                    of_a_run = r->scan_now = true;
            /* List the pool if inotify lost events (IN_Q_OVERFLOW), or if the
             * file appeared in the pool directory or in a directory that is not
             * known as a run yet. */
            if (ev.mask & IN_Q_OVERFLOW || !of_a_run)
                d->scan_now = true;
        }
    }
    (void)now_ns;
}

/* Adds `fresh` to the number of new files in this window, and begins or ends
 * churn mode (see CHURN_FILES). */
static void update_churn_mode(struct slave_drain *d, struct slave_run *run,
                              uint32_t fresh, uint64_t now_ns)
{
    run->appeared += fresh;
    bool over = now_ns >= run->window_ns + CHURN_WINDOW_NS;
    if (!run->churns && run->appeared >= CHURN_FILES && !over) {
        run->churns = true;
        slave_watch_stop_watching_run(d, run);
        over = true;
    } else if (run->churns && run->appeared < QUIET_FILES && over) {
        run->churns = false;
        /* forces a listing, which adds the inotify watch again */
        run->scan_now = true;
    }
    if (over) {
        run->window_ns = now_ns;
        run->appeared = 0;
    }
}

/* Reads the control file of a directory of the pool. The file appears a moment
 * after the directory. If it does not exist yet, adds an inotify watch, then
 * tries once more, because the file may have appeared in between. */
static int read_control_or_watch_directory(struct slave_drain *d, int fd,
                                           struct ips_control *control,
                                           struct ips_err *err)
{
    int rc = slave_poolfs_read_control(fd, control, err);
    if (rc != IPS_E_NOT_FOUND || d->inotify_fd < 0)
        return rc;
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (inotify_add_watch(d->inotify_fd, path, IN_CREATE | IN_MOVED_TO) < 0)
        return rc;
    return slave_poolfs_read_control(fd, control, err);
}

/* If the slave is in the initial pid namespace, stores its identity in the
 * run's control file, so that programs know at once which namespace they are
 * in. */
static void store_slave_identity_if_initial_pidns(const struct slave_drain *d,
                                                  const char *name)
{
    struct ips_err err = {0};
    char dir[IPS_PATH_BYTES + 80];
    snprintf(dir, sizeof(dir), "%s/%s", d->pool, name);
    if (d->pidns_initial && ips_control_store_slave_identity(dir, &err) < 0)
        ips_log_debug("pool: %s", err.msg);
}

static void add_run_of_directory(struct slave_drain *d, const char *name)
{
    struct ips_err err = {0};
    struct ips_control control;
    struct slave_run *run = slave_drain_find_run(d, name);
    if (run && run->in_pool)
        return;
    int fd = slave_poolfs_open_trusted_dir(d->pool_fd, name, &err);
    if (fd < 0) {
        ips_log_debug("pool: %s", err.msg);
        return;
    }
    int rc = read_control_or_watch_directory(d, fd, &control, &err);
    if (rc == 0 && strcmp(control.run, name) != 0)
        rc = ips_err_set(&err, IPS_E_CORRUPT, "control names run %s",
                         control.run);
    if (rc == 0) {
        store_slave_identity_if_initial_pidns(d, name);
        rc = slave_run_add_or_reopen(d, name, fd, &control, &err);
        if (rc == 0)
            return;
        snprintf(d->unopened, sizeof(d->unopened), "run %s: %.120s", name,
                 err.msg);
    } else if (rc == IPS_E_NOT_FOUND || rc == IPS_E_CORRUPT) {
        /* Perhaps the run is just being created: the next listing tries
         * again. */
        ips_log_debug("pool: run %s: %s", name, err.msg);
        close(fd);
        return;
    }
    ips_log_warn("pool: run %s: %s", name, err.msg);
    close(fd);
}

void slave_watch_scan_pool_directory(struct slave_drain *d)
{
    int fd = openat(d->pool_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        ips_log_warn("pool %s cannot be listed: %s", d->pool, strerror(errno));
        if (fd >= 0)
            close(fd);
        return;
    }
    struct dirent *e;
    d->unopened[0] = '\0';
    d->listings++;
    while ((e = readdir(dir)))
        if ((e->d_type == DT_DIR || e->d_type == DT_UNKNOWN) &&
            slave_poolfs_is_run_name(e->d_name))
            add_run_of_directory(d, e->d_name);
    closedir(dir);
    /* clear the failure of runs that this listing did not try to open: they are
     * no longer in the pool */
    for (struct slave_run *r = d->runs; r; r = r->next)
        if (r->unopened[0] && r->tried != d->listings) {
            r->unopened[0] = '\0';
            d->version++;
        }
}

static bool is_segment_name(const char *name)
{
    size_t len = strlen(name), suffix = strlen(IPS_SEGMENT_SUFFIX);
    return len > suffix &&
           len < sizeof(((struct slave_segment_row *)0)->file) &&
           strcmp(name + len - suffix, IPS_SEGMENT_SUFFIX) == 0;
}

/* Returns true if a segment whose file was removed may have had unread records.
 * A segment that was handed back may have been used again: its writer does not
 * notice that the file is gone. */
static bool may_have_unread_records(const struct slave_segment *s)
{
    switch (s->state) {
    case SLAVE_SEG_NEW: /* --on-full=ring: segments stay NEW until their writer
                           has ended */
        return s->stream != NULL || (s->stored && !s->row.done);
    case SLAVE_SEG_WAITING:
        return true;
    case SLAVE_SEG_READING:
        return !s->row.done;
    case SLAVE_SEG_DRAINED:
        return !s->final;
    case SLAVE_SEG_DONE:
    case SLAVE_SEG_BAD:
    case SLAVE_SEG_GONE:
        break;
    }
    return false;
}

/* Marks segments that the last listing lacks as gone: another program removed
 * them, and their unread records are lost. */
static void mark_vanished_segments_gone(struct slave_run *run)
{
    for (struct slave_segment *s = run->segments; s; s = s->next) {
        if (s->scan == run->scan || s->state == SLAVE_SEG_GONE)
            continue;
        if (may_have_unread_records(s)) {
            ips_log_warn(
                "run %s: another program removed segment %s: its unread "
                "part is lost",
                run->row.name, s->row.file);
            slave_run_mark_dirty(run);
            run->row.given_up++;
        }
        slave_segment_set_state(s, SLAVE_SEG_GONE, "not in the directory");
        s->drop_row = s->stored;
    }
}

int slave_watch_scan_run_directory(struct slave_drain *d, struct slave_run *run,
                                   uint64_t now_ns)
{
    uint64_t begun_ns = slave_now_ns();
    int fd = openat(run->dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        ips_log_warn("run %s: cannot be listed: %s", run->row.name,
                     strerror(errno));
        if (fd >= 0)
            close(fd);
        return -1;
    }
    if (d->inotify_fd >= 0 && run->watch < 0 && !run->churns) {
        /* Watch the directory by descriptor, not by path, so that the directory
         * that is watched is the one that is read. */
        char path[64];
        snprintf(path, sizeof(path), "/proc/self/fd/%d", run->dirfd);
        run->watch =
            inotify_add_watch(d->inotify_fd, path, IN_CREATE | IN_MOVED_TO);
    }
    struct dirent *e;
    int fresh = 0;
    run->scan++;
    run->scan_now = false;
    while ((e = readdir(dir))) {
        if (strncmp(e->d_name, IPS_SPARE_PREFIX, strlen(IPS_SPARE_PREFIX)) == 0)
            slave_spare_segments_reopen_by_name(d, run, e->d_name);
        if (!is_segment_name(e->d_name))
            continue;
        struct slave_segment *s = slave_run_find_segment(run, e->d_name);
        if (!s && run->segment_map.count < SLAVE_SEGMENTS_MAX) {
            s = slave_run_add_segment(run, e->d_name);
            fresh++;
        }
        if (s)
            s->scan = run->scan;
        else if (run->segment_map.count < SLAVE_SEGMENTS_MAX)
            run->scan_now = true; /* out of memory: list the directory again */
    }
    closedir(dir);
    mark_vanished_segments_gone(run);
    if (d->inotify_fd >= 0)
        update_churn_mode(d, run, (uint32_t)fresh, now_ns);
    run->list_ns =
        now_ns + ips_max_u64(LIST_NS, LIST_PART * (slave_now_ns() - begun_ns));
    return fresh;
}

void slave_watch_stop_watching_run(struct slave_drain *d, struct slave_run *run)
{
    if (run->watch >= 0)
        (void)inotify_rm_watch(d->inotify_fd, run->watch);
    run->watch = -1;
}
