/*
 * Decides which processes are alive. A pidfd for each image reports a death at
 * once, and a reused pid cannot mislead it, unless the pid was reused before
 * the slave opened it. is_pid_reused_since_image() detects that case by two
 * independent signs, because either may be wrong (stamps of a test clock; a
 * clock that was set in between).
 *
 * Processes in other pid namespaces: the slave searches /proc for the pid that
 * the process has in its own namespace (NSpid). A slave in the initial
 * namespace sees all processes, so a process that it does not find is dead. A
 * slave in a container may not see it; then the process counts as dead when a
 * final END was read and no data came for IDLE_ENDED_NS, or when no data came
 * for IDLE_SILENT_NS. If data comes afterwards, the run is opened again.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "agent/pool/pool.h"
#include "common/log.h"
#include "slave/build/build.h"
#include "slave/drain/drain.h"

#define IDLE_ENDED_NS (2 * SLAVE_SECOND_NS)
#define IDLE_SILENT_NS (600 * SLAVE_SECOND_NS)
#define LOOK_NS (100 * SLAVE_MS_NS)
/* longest time to wait for a zombie's exit status */
#define STATUS_NS (50 * SLAVE_MS_NS)
#define PROC_SCAN_NS SLAVE_SECOND_NS
/* The environments are read again after this time. It must be less than
 * QUIET_NS (run.c), for which a run is quiet before they are checked. */
#define ENVIRONMENT_NS (50 * SLAVE_MS_NS)

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec ts;
    clock_gettime(clock, &ts);
    return (uint64_t)ts.tv_sec * SLAVE_SECOND_NS + (uint64_t)ts.tv_nsec;
}

void slave_liveness_read_own_pid_namespace(struct slave_drain *d)
{
    struct stat st;
    d->pidns = stat("/proc/self/ns/pid", &st) == 0 ? st.st_ino : 0;
    d->pidns_initial = d->pidns == IPS_PIDNS_INITIAL;
}

/* Returns this machine's clock as the agent's stamps show it: test options
 * shift the agent's stamps, so the same shift is applied here. */
static uint64_t now_on_agent_clock_ns(const struct ips_control *c)
{
    int64_t since =
        (int64_t)(clock_ns(CLOCK_MONOTONIC_RAW) - c->created_raw_ns);
    ips_i128 t = (ips_i128)c->created_raw_ns + since + c->test_offset_ns +
                 (ips_i128)since * c->test_drift_ppm / 1000000;
    if (c->test_step_ns && since >= (int64_t)c->test_step_at_ns)
        t += c->test_step_ns;
    return t > 0 ? (uint64_t)t : 0;
}

static void mark_image_ended(struct slave_image *image,
                             enum slave_image_state state)
{
    slave_liveness_close_pidfd(image);
    image->state = state;
    image->next_look_ns = 0;
    if (state == SLAVE_IMAGE_DEAD)
        image->dead_t_ns = now_on_agent_clock_ns(&image->run->row.control);
    image->run->changed_ns = slave_now_ns();
    for (struct slave_segment *s = image->run->segments; s; s = s->next)
        if (s->stream && s->stream->image == image)
            s->next_poll_ns = 0;
    ips_log_debug("run %s: pid %u %s", image->run->row.name, image->pid,
                  state == SLAVE_IMAGE_DEAD ? "is dead" : "has another image");
}

void slave_liveness_close_pidfd(struct slave_image *image)
{
    if (image->pidfd >= 0)
        close(image->pidfd); /* close() also removes it from the epoll set */
    image->pidfd = -1;
}

/* Returns the start time of a process, field 22 of /proc/PID/stat, in ns since
 * boot; 0: unknown. */
static uint64_t process_start_boot_ns(uint32_t pid)
{
    char path[64], text[1024];
    snprintf(path, sizeof(path), "/proc/%u/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t n = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (n <= 0)
        return 0;
    text[n] = '\0';
    /* skip the process name, which may contain anything */
    char *p = strrchr(text, ')');
    if (!p)
        return 0;
    int field = 2;
    for (; *p && field < 22; p++)
        field += *p == ' ';
    long hz = sysconf(_SC_CLK_TCK);
    uint64_t ticks = strtoull(p, NULL, 10);
    return hz > 0 ? ticks * (SLAVE_SECOND_NS / (uint64_t)hz) : 0;
}

/* Returns true if the process that has the pid now started after the image's
 * segment was made: then the pid was reused. Both the image's stamp and the
 * segment file's time (0: there is no file) must be more than 2 s before the
 * start. */
static bool is_pid_reused_since_image(const struct slave_image *image,
                                      uint32_t pid,
                                      const struct ips_clock *clock,
                                      uint64_t message_time_real_ns)
{
    uint64_t start = process_start_boot_ns(pid);
    if (start == 0)
        return false;
    uint64_t age = ips_sub_sat(clock_ns(CLOCK_BOOTTIME), start);
    uint64_t slack = 2 * SLAVE_SECOND_NS;
    uint64_t now = now_on_agent_clock_ns(&image->run->row.control);
    uint64_t image_age =
        ips_sub_sat(now, ips_clock_convert_stamp_to_ns(clock, image->stamp));
    uint64_t file_age = message_time_real_ns
                            ? ips_sub_sat(slave_real_ns(), message_time_real_ns)
                            : UINT64_MAX;
    return image_age > age + slack && file_age > age + slack;
}

/* PIDFD_GET_INFO, Linux 6.15 and later; the headers of Debian 12 lack it. */
struct pidfd_status {
    uint64_t mask, cgroup;
    uint32_t pid, tgid, ppid, ids[8];
    int32_t exit_code; /* exit status, coded as wait() reports it */
};
#define PIDFD_GET_STATUS _IOWR(0xFF, 11, struct pidfd_status)
#define PIDFD_STATUS_EXIT (1u << 3)

/* Reads the exit status. Returns false if the kernel may report one later: it
 * reports a zombie's status only once its parent has waited for it. */
static bool read_exit_status(struct slave_image *image)
{
    struct pidfd_status s = {.mask = PIDFD_STATUS_EXIT};
    if (ioctl(image->pidfd, PIDFD_GET_STATUS, &s) < 0)
        /* true on an older kernel, which never reports the status */
        return errno != ESRCH;
    if (s.mask & PIDFD_STATUS_EXIT)
        image->dead_status = IPS_DEAD_KNOWN | ((uint32_t)s.exit_code & 0xffffu);
    return s.mask & PIDFD_STATUS_EXIT;
}

static int pidfd_open_raw(uint32_t pid)
{
    return (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
}

/* Marks the image as dead, and also the older images of the same process, which
 * execs replaced. */
static void mark_process_dead(struct slave_image *image)
{
    struct slave_run *run = image->run;
    if (image->state == SLAVE_IMAGE_DEAD)
        return; /* already handled: a second event from the same epoll_wait */
    for (struct slave_image *i = run->images; i; i = i->next)
        if (i == image ||
            (i->pid == image->pid && i->pidns == image->pidns &&
             i->state == SLAVE_IMAGE_REPLACED && i->stamp < image->stamp))
            mark_image_ended(i, SLAVE_IMAGE_DEAD);
}

/* Handles a pidfd event: the process has ended. If its parent is not recorded,
 * only the pidfd gives its exit status, and only after the parent has waited
 * for it: allows the parent STATUS_NS for that. */
static void mark_process_dead_or_await_status(struct slave_drain *d,
                                              struct slave_image *image,
                                              uint32_t events)
{
    if (image->pidfd >= 0 && !read_exit_status(image) && !(events & EPOLLHUP)) {
        struct epoll_event hang_up_only = {.data.ptr = image};
        image->dying = true;
        image->next_look_ns = slave_now_ns() + STATUS_NS;
        if (epoll_ctl(d->epoll_fd, EPOLL_CTL_MOD, image->pidfd,
                      &hang_up_only) == 0)
            return;
    }
    mark_process_dead(image);
}

/* Starts to watch for the end of the image's process: by a pidfd or, if none
 * can be had, by checking the pid every LOOK_NS. `pid`: its pid in the slave's
 * namespace. If there is no such process, marks the image as dead. */
static void watch_process(struct slave_drain *d, struct slave_image *image,
                          uint32_t pid)
{
    int fd = pidfd_open_raw(pid);
    if (fd < 0 && errno == ESRCH) {
        mark_process_dead(image);
        return;
    }
    image->state = SLAVE_IMAGE_ALIVE;
    image->pid_here = pid;
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = image};
    if (fd >= 0 && epoll_ctl(d->epoll_fd, EPOLL_CTL_ADD, fd, &ev) == 0) {
        image->pidfd = fd;
        return;
    }
    /* Out of descriptors: check the pid from time to time instead. */
    if (fd >= 0)
        close(fd);
    image->next_look_ns = slave_now_ns() + LOOK_NS;
}

/* Marks the older images of the process as replaced: an exec made a new image
 * in the same process, so they write no more. If `image` itself is older than
 * another one, marks `image`. */
static void mark_older_images_replaced(struct slave_image *image)
{
    for (struct slave_image *i = image->run->images; i; i = i->next) {
        if (i == image || i->pid != image->pid || i->pidns != image->pidns)
            continue;
        if (i->state == SLAVE_IMAGE_DEAD || i->state == SLAVE_IMAGE_REPLACED)
            continue;
        struct slave_image *old = i->stamp < image->stamp ? i : image;
        mark_image_ended(old, SLAVE_IMAGE_REPLACED);
        if (old == image)
            return;
    }
}

void slave_liveness_track(struct slave_drain *d, struct slave_image *image,
                          uint64_t message_time_real_ns)
{
    struct slave_stream *st = image->run->streams;
    while (st && st->image != image)
        st = st->next;
    image->last_ns = slave_now_ns();
    mark_older_images_replaced(image);
    if (image->state == SLAVE_IMAGE_REPLACED)
        return;
    if (image->pidns != d->pidns && image->pidns != 0) {
        image->state = SLAVE_IMAGE_UNSEEN;
        d->next_proc_scan_ns = 0;
        return;
    }
    if (st && is_pid_reused_since_image(image, image->pid, &st->row.head.clock,
                                        message_time_real_ns)) {
        mark_process_dead(image);
        return;
    }
    watch_process(d, image, image->pid);
}

void slave_liveness_dispatch_epoll_events(struct slave_drain *d,
                                          uint64_t now_ns)
{
    struct epoll_event ev[64];
    int n;
    do {
        n = epoll_wait(d->epoll_fd, ev, 64, 0);
        for (int i = 0; i < n; i++) {
            if (!ev[i].data.ptr)
                slave_watch_handle_events(d, now_ns);
            else
                mark_process_dead_or_await_status(d, ev[i].data.ptr,
                                                  ev[i].events);
        }
    } while (n == 64);
}

/* ---- other pid namespaces ---- */

/* Returns the last number of the NSpid line in /proc/PID/status: the process's
 * pid in its innermost namespace; 0 if the process is in no namespace below the
 * slave's. */
static uint32_t read_innermost_pid(const char *pid)
{
    char path[64], line[512];
    uint32_t last = 0;
    snprintf(path, sizeof(path), "/proc/%.20s/status", pid);
    FILE *f = fopen(path, "re");
    if (!f)
        return 0;
    while (fgets(line, sizeof(line), f)) {
        if (strncmp(line, "NSpid:", 6) != 0)
            continue;
        int numbers = 0;
        for (char *p = line + 6; *p;) {
            char *end;
            unsigned long v = strtoul(p, &end, 10);
            if (end == p)
                break;
            last = (uint32_t)v;
            numbers++;
            p = end;
        }
        if (numbers < 2)
            last = 0;
        break;
    }
    fclose(f);
    return last;
}

/* Whether process `pid` is in the pid namespace `pidns`. If its namespace
 * cannot be read (another user's process), the answer is yes, so the pid alone
 * decides; at worst a dead process counts as alive. */
static bool is_in_pid_namespace(const char *pid, uint64_t pidns)
{
    char path[64];
    struct stat st;
    snprintf(path, sizeof(path), "/proc/%.20s/ns/pid", pid);
    return stat(path, &st) < 0 || st.st_ino == pidns;
}

static void watch_images_of_process(struct slave_drain *d, const char *pid)
{
    uint32_t inner = read_innermost_pid(pid);
    if (inner == 0)
        return;
    for (struct slave_run *r = d->runs; r; r = r->next)
        for (struct slave_image *i = r->images; i; i = i->next)
            if (i->state == SLAVE_IMAGE_UNSEEN && i->pid == inner &&
                is_in_pid_namespace(pid, i->pidns))
                watch_process(d, i, (uint32_t)strtoul(pid, NULL, 10));
}

static bool
for_each_process_until_true(bool (*each)(const char *pid, void *arg), void *arg)
{
    DIR *proc = opendir("/proc");
    struct dirent *e;
    bool found = false;
    while (proc && !found && (e = readdir(proc)))
        if (e->d_name[0] >= '1' && e->d_name[0] <= '9')
            found = each(e->d_name, arg);
    if (proc)
        closedir(proc);
    return found;
}

static bool watch_images_of_proc_entry(const char *pid, void *arg)
{
    watch_images_of_process(arg, pid);
    return false;
}

static void mark_unfound_image_dead_or_wait_for_idle(struct slave_drain *d,
                                                     struct slave_image *i,
                                                     uint64_t now_ns)
{
    uint64_t idle = ips_sub_sat(now_ns, i->last_ns);
    if (d->pidns_initial || (i->ended && idle > IDLE_ENDED_NS) ||
        idle > IDLE_SILENT_NS)
        mark_process_dead(i);
}

void slave_liveness_check_processes_if_due(struct slave_drain *d,
                                           uint64_t now_ns)
{
    bool unseen = false;
    for (struct slave_run *r = d->runs; r; r = r->next)
        for (struct slave_image *i = r->images; i; i = i->next) {
            unseen |= i->state == SLAVE_IMAGE_UNSEEN;
            if (i->state != SLAVE_IMAGE_ALIVE || !i->next_look_ns ||
                i->next_look_ns > now_ns)
                continue;
            i->next_look_ns = now_ns + LOOK_NS;
            if (i->dying)
                mark_process_dead(i);
            else if (kill((pid_t)i->pid_here, 0) < 0 && errno == ESRCH)
                mark_process_dead(i);
        }
    if (!unseen || now_ns < d->next_proc_scan_ns)
        return;
    d->next_proc_scan_ns = now_ns + PROC_SCAN_NS;
    for_each_process_until_true(watch_images_of_proc_entry, d);
    for (struct slave_run *r = d->runs; r; r = r->next)
        for (struct slave_image *i = r->images; i; i = i->next)
            if (i->state == SLAVE_IMAGE_UNSEEN)
                mark_unfound_image_dead_or_wait_for_idle(d, i, now_ns);
}

/* ---- before a run is closed ---- */

/* Whether the process is one of IPS's own programs. They may have been started
 * with the environment of the run, but are not part of it. */
static bool is_ips_program(const char *pid)
{
    char path[64], exe[4096];
    snprintf(path, sizeof(path), "/proc/%.20s/exe", pid);
    ssize_t n = readlink(path, exe, sizeof(exe) - 1);
    if (n <= 0)
        return false;
    exe[n] = '\0';
    const char *base = strrchr(exe, '/');
    base = base ? base + 1 : exe;
    return strncmp(base, "ips-slave", 9) == 0 ||
           strncmp(base, "ips-master", 10) == 0 ||
           strncmp(base, "ipsq", 4) == 0;
}

static bool is_run_in_environments(const struct slave_drain *d, const char *run)
{
    for (size_t i = 0; i < d->carried_count; i++)
        if (strcmp(d->carried[i].run, run) == 0)
            return true;
    return false;
}

static bool add_run_of_environment(struct slave_drain *d, const char *run)
{
    if (d->carried_count == d->carried_capacity) {
        size_t room = 2 * d->carried_capacity + 16;
        struct slave_environment_run *more =
            realloc(d->carried, room * sizeof(*more));
        if (!more)
            return false;
        d->carried = more;
        d->carried_capacity = room;
    }
    snprintf(d->carried[d->carried_count++].run, sizeof(d->carried->run), "%s",
             run);
    return true;
}

/* Adds the run named in the environment of process `pid`, if it uses this pool,
 * to d->carried. Returns true if out of memory. */
static bool collect_run_of_process(const char *pid, void *arg)
{
    struct slave_drain *d = arg;
    char path[64], pool[IPS_PATH_BYTES + 16];
    static char text[256 * 1024];
    snprintf(path, sizeof(path), "/proc/%.20s/environ", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    size_t len = 0;
    ssize_t n;
    while (len < sizeof(text) - 1 &&
           (n = read(fd, text + len, sizeof(text) - 1 - len)) > 0)
        len += (size_t)n;
    close(fd);
    text[len] = '\0';
    snprintf(pool, sizeof(pool), "IPS_POOL=%s", d->pool);
    bool here = false, failed = false;
    for (char *p = text; p < text + len && !here; p += strlen(p) + 1)
        here = strcmp(p, pool) == 0;
    if (!here || is_ips_program(pid))
        return false;
    for (char *p = text; p < text + len && !failed; p += strlen(p) + 1)
        if (strncmp(p, "IPS_RUN=", 8) == 0 && ips_is_valid_run_name(p + 8) &&
            !is_run_in_environments(d, p + 8))
            failed = !add_run_of_environment(d, p + 8);
    return failed;
}

bool slave_liveness_is_run_in_environments(struct slave_drain *d,
                                           const char *run)
{
    uint64_t now_ns = slave_now_ns();
    if (!d->carried_ns || now_ns >= d->carried_ns + ENVIRONMENT_NS) {
        d->carried_count = 0;
        d->carried_ns = now_ns;
        if (for_each_process_until_true(collect_run_of_process, d))
            d->carried_ns = 0;
    }
    /* carried_ns is 0 if memory was short; then assume that some process has
     * the run */
    return !d->carried_ns || is_run_in_environments(d, run);
}

bool slave_run_are_all_processes_dead(const struct slave_run *run)
{
    /* Skip the images that an exec replaced: only the last image of a process
     * counts. */
    for (const struct slave_image *i = run->images; i; i = i->next)
        if (i->state != SLAVE_IMAGE_DEAD && i->state != SLAVE_IMAGE_REPLACED &&
            !i->dying)
            return false;
    /* Images of dead processes are freed (drain/run_removal.c), so the list may
     * be empty. */
    return run->images || (run->scan && run->process_count);
}
