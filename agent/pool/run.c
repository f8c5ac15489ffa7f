/* Makes a run: the pool root, the run's directory, `control`. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "agent/pool/internal.h"
#include "common/types.h"

static uint64_t read_clock_ns(clockid_t id)
{
    struct timespec ts;
    clock_gettime(id, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static int check_run_name(const char *run, struct ips_err *err)
{
    size_t n = strspn(run, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                           "abcdefghijklmnopqrstuvwxyz0123456789._-");
    if (run[n] != '\0' || n == 0 || n > 63 || run[0] == '.')
        return ips_err_set(err, IPS_E_USAGE,
                           "run name '%.80s': 1 to 63 letters, digits, '.', "
                           "'_' or '-', not beginning with '.'",
                           run);
    return 0;
}

int ips_pool_make_or_check_root(const char *root, struct ips_err *err)
{
    mode_t mode = geteuid() == 0 ? 0711 : 0700;
    struct stat st;
    bool fresh = lstat(root, &st) < 0;
    if (fresh) {
        int rc = ips_path_make_directories(root, mode, err);
        if (rc < 0)
            return rc;
        if (lstat(root, &st) < 0)
            return ips_err_errno(err, "%s", root);
    }
    if (!S_ISDIR(st.st_mode))
        return ips_err_set(err, IPS_E_REFUSED, "%s is not a directory", root);
    if (st.st_uid != geteuid() || (st.st_mode & 022))
        return ips_err_set(err, IPS_E_REFUSED,
                           "%s is not yours alone: owner %u, mode %o", root,
                           (unsigned)st.st_uid, (unsigned)st.st_mode & 07777);
    /* Restore bits of the mode that the umask removed. Do so only after the
     * checks above, since another user may have put a link there meanwhile. */
    if (fresh && chmod(root, mode) < 0)
        return ips_err_errno(err, "%s", root);
    return 0;
}

static int read_test_clock_option(struct ips_control *c, struct ips_err *err)
{
    long long v[4] = {0, 0, 0, 0};
    const char *text = getenv("IPS_TEST_CLOCK");
    if (!text ||
        sscanf(text, "%lld,%lld,%lld,%lld", &v[0], &v[1], &v[2], &v[3]) < 1)
        return 0;
    /* No machine has stamps below zero; readers would treat them as damage. */
    if ((ips_i128)c->created_raw_ns + v[0] + (v[3] < 0 ? v[3] : 0) < 0)
        return ips_err_set(err, IPS_E_USAGE,
                           "IPS_TEST_CLOCK=%s: the clock would be below zero: "
                           "this machine booted %" PRIu64 " s ago",
                           text, c->created_raw_ns / 1000000000);
    c->test_offset_ns = v[0];
    c->test_drift_ppm = v[1];
    c->test_step_at_ns = (uint64_t)v[2];
    c->test_step_ns = v[3];
    return 0;
}

/* Returns the bytes that all runs of the pool use. */
static uint64_t sum_pool_bytes_in_use(const char *root)
{
    DIR *dir = opendir(root);
    struct dirent *e;
    uint64_t sum = 0;
    while (dir && (e = readdir(dir))) {
        char path[IPS_PATH_BYTES + 300];
        const struct ips_control *c;
        snprintf(path, sizeof(path), "%s/%s", root, e->d_name);
        if (e->d_name[0] == '.' || e->d_type == DT_REG ||
            ips_control_read_and_check_copy(path, &c, NULL) < 0)
            continue;
        sum = ips_add_sat(sum, ips_control_bytes_in_use(c));
        ips_control_free(c);
    }
    if (dir)
        closedir(dir);
    return sum;
}

/* Computes the quota of a new run. All runs of a pool together may use a
 * quarter of the space that would be free without them. The caller holds
 * pool.lock, so that two new runs do not count the same space. */
static int compute_quota(const struct ips_run_options *opt, const char *dir,
                         uint64_t *bytes, struct ips_err *err)
{
    struct statvfs fs;
    if (statvfs(dir, &fs) < 0)
        return ips_err_errno(err, "%s", dir);
    uint64_t used = sum_pool_bytes_in_use(opt->pool_root);
    uint64_t free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
    *bytes = ips_sub_sat(ips_add_sat(free_bytes, used) / 4, used);
    if (opt->quota_bytes && opt->quota_bytes < *bytes)
        *bytes = opt->quota_bytes;
    return 0;
}

/* Fills the probe costs and the CPU mode of `c`. With the test option
 * IPS_TEST_PROBE_NS the agent burns that many ns for every record; the costs
 * include them. */
static void
fill_probe_costs_and_cpu_mode(const struct ips_run_options *opt,
                              const struct ips_probe_measurements *m,
                              struct ips_control *c)
{
    const char *text = opt->plain ? NULL : getenv("IPS_TEST_PROBE_NS");
    unsigned long extra = text ? strtoul(text, NULL, 10) : 0;
    c->probe_extra_ns = extra < 1000000 ? (uint32_t)extra : 1000000;
    c->cpu_mode = m->marks == IPS_MARKS_FAIL ? IPS_CPU_CLOCK : opt->cpu_mode;
    /* Number of records per probe. An image or fork child counts 2, CALLS and
     * END: it reports the cost of the records of its start itself. */
    static const uint64_t records[IPS_PROBE_COSTS] = {
        [IPS_PROBE_EVENT] = 1,       [IPS_PROBE_CALL] = 1,
        [IPS_PROBE_SAMPLE] = 1,      [IPS_PROBE_PROC] = 2,
        [IPS_PROBE_SYNC] = 1,        [IPS_PROBE_STACK] = 1,
        [IPS_PROBE_IMAGE] = 2,       [IPS_PROBE_FORK] = 2,
        [IPS_PROBE_SPARE_IMAGE] = 2, [IPS_PROBE_SPARE_FORK] = 2,
        [IPS_PROBE_POLL] = 1,        [IPS_PROBE_THREAD] = 2,
    };
    for (int i = 0; i < IPS_PROBE_COSTS; i++) {
        uint64_t ps = m->cost_ps[i] + records[i] * 1000u * c->probe_extra_ns;
        if (i < IPS_PROBE_FIRST)
            c->probe_cost_ps[i] = ps;
        else if (i < IPS_PROBE_LAST)
            c->probe_more_ps[i - IPS_PROBE_FIRST] = ps;
        else if (i < IPS_PROBE_LATE)
            c->probe_spawn_ps = ps;
        else
            c->probe_late_ps[i - IPS_PROBE_LATE] = ps;
    }
    c->probe_ns = (c->probe_cost_ps[IPS_PROBE_CALL] + 500) / 1000;
}

static int fill_control_of_new_run(const struct ips_run_options *opt,
                                   const char *dir, struct ips_control *c,
                                   struct ips_err *err)
{
    memset(c, 0, sizeof(*c));
    c->magic = IPS_CONTROL_MAGIC;
    c->version = IPS_POOL_VERSION;
    c->control_bytes = sizeof(*c);
    snprintf(c->run, sizeof(c->run), "%s", opt->run);
    snprintf(c->machine, sizeof(c->machine), "%s",
             opt->machine ? opt->machine : "");
    snprintf(c->command, sizeof(c->command), "%s",
             opt->command ? opt->command : "");
    struct ips_probe_measurements measured;
    int rc = ips_pool_read_boot_id(c->boot_id, err);
    if (rc == 0)
        rc = ips_pool_load_or_measure_clock_and_costs(
            opt->pool_root, c->boot_id, &c->clock, &measured, opt->measure,
            err);
    if (rc < 0)
        return rc;
    fill_probe_costs_and_cpu_mode(opt, &measured, c);
    c->created_raw_ns = read_clock_ns(CLOCK_MONOTONIC_RAW);
    c->created_real_ns = read_clock_ns(CLOCK_REALTIME);
    rc = compute_quota(opt, dir, &c->quota_bytes, err);
    if (rc < 0)
        return rc;
    c->on_full = opt->on_full;
    c->receive_stamps = opt->receive_stamps;
    c->delays = opt->delays;
    c->locks = opt->locks;
    /* A command that joins a run is part of the run, not its root. */
    c->root_pid = opt->join ? 0 : (uint32_t)getpid();
    cpu_set_t set;
    c->cpus = sched_getaffinity(0, sizeof(set), &set) == 0
                  ? (uint32_t)CPU_COUNT(&set)
                  : 1;
    c->segment_bytes = IPS_SEGMENT_BYTES;
    /* A thread's ring may take a quarter of the quota and needs at least four
     * segments. */
    if (c->on_full == IPS_ON_FULL_RING &&
        c->quota_bytes / 16 < c->segment_bytes)
        c->segment_bytes =
            (uint32_t)ips_max_u64(c->quota_bytes >> 20 << 16, 1u << 16);
    c->uid = (uint32_t)geteuid();
    c->procedures = opt->procedures;
    c->sample_us = opt->sample_us;
    c->budget_ppm = opt->budget_ppm;
    size_t at = 0;
    for (const char *t = opt->tags; t && *t; t += strlen(t) + 1) {
        size_t n = strlen(t) + 1;
        if (at + n + 1 > sizeof(c->tags))
            return ips_err_set(err, IPS_E_LIMIT,
                               "tags longer than %zu bytes together",
                               sizeof(c->tags) - 2);
        memcpy(c->tags + at, t, n);
        at += n;
    }
    return opt->plain ? 0 : read_test_clock_option(c, err);
}

/* Writes a temporary file and renames it, so that a reader never sees half of
 * it. */
static int control_write(const struct ips_control *c, const char *dir,
                         mode_t mode, struct ips_err *err)
{
    char path[IPS_PATH_BYTES + 96], fresh[IPS_PATH_BYTES + 128];
    snprintf(path, sizeof(path), "%s/control", dir);
    snprintf(fresh, sizeof(fresh), "%s.%d", path, (int)getpid());
    int fd =
        open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
    if (fd < 0)
        return ips_err_errno(err, "%s", fresh);
    int rc = 0;
    ssize_t n = write(fd, c, sizeof(*c));
    if (n != (ssize_t)sizeof(*c) || fchmod(fd, mode) < 0)
        rc = ips_err_errno(err, "write %s", fresh);
    close(fd);
    /* If two processes join at once, the first file stays. A rename, not link
     * and unlink: the slave refuses a control file with two names. */
    bool placed = rc == 0 && renameat2(AT_FDCWD, fresh, AT_FDCWD, path,
                                       RENAME_NOREPLACE) == 0;
    if (rc == 0 && !placed && errno != EEXIST)
        rc = ips_err_errno(err, "%s", path);
    if (!placed)
        unlink(fresh);
    return rc;
}

int ips_pool_make_or_join_run(const struct ips_run_options *opt, char *dir,
                              size_t dir_len, struct ips_err *err)
{
    int rc = check_run_name(opt->run, err);
    if (rc < 0)
        return rc;
    int n = snprintf(dir, dir_len, "%s/%s", opt->pool_root, opt->run);
    if (opt->pool_root[0] != '/')
        return ips_err_set(err, IPS_E_USAGE,
                           "pool '%s': the path must begin with '/'",
                           opt->pool_root);
    if (n < 0 || (size_t)n >= dir_len || n >= IPS_PATH_BYTES)
        return ips_err_set(err, IPS_E_LIMIT, "pool path too long");
    const struct ips_control *there = NULL;
    if (opt->join && access(dir, F_OK) == 0) {
        rc = ips_control_read_and_check_copy(dir, &there, err);
        ips_control_free(there);
        if (rc != IPS_E_NOT_FOUND)
            return rc;
    }
    rc = ips_pool_make_or_check_root(opt->pool_root, err);
    if (rc < 0)
        return rc;
    bool root = geteuid() == 0;
    mode_t mode = root ? 01733 : 0700;
    bool made = mkdir(dir, mode) == 0;
    if (!made) {
        if (errno != EEXIST)
            return ips_err_errno(err, "mkdir %s", dir);
        if (!opt->join)
            return ips_err_set(
                err, IPS_E_BUSY,
                "a run named '%s' is there already: choose another "
                "--name, or join it with --join %s",
                opt->run, opt->run);
    } else if (chmod(dir, mode) < 0) { /* the umask may have changed the mode */
        return ips_err_errno(err, "chmod %s", dir);
    }
    struct ips_control c;
    rc = fill_control_of_new_run(opt, dir, &c, err);
    if (rc == 0)
        rc = control_write(&c, dir, root ? 0666 : 0600, err);
    if (rc == 0)
        return 0;
    if (made) /* frees the run's name, unless another process joined meanwhile
               */
        (void)rmdir(dir);
    return ips_err_wrap(err, rc, "run %s", opt->run);
}

/* --- reading and changing control ------------------------------------ */

static int open_and_check_control_file(const char *dir, int flags,
                                       struct ips_err *err)
{
    char path[IPS_PATH_BYTES + 96];
    struct stat st;
    int n = snprintf(path, sizeof(path), "%s/control", dir);
    if (n < 0 || (size_t)n >= sizeof(path))
        return ips_err_set(err, IPS_E_LIMIT, "path too long");
    int fd = open(path, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT)
        return ips_err_set(err, IPS_E_NOT_FOUND, "%s: no such run", path);
    if (fd < 0)
        return ips_err_errno(err, "%s", path);
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
        st.st_size >= (off_t)sizeof(struct ips_control))
        return fd;
    close(fd);
    return ips_err_set(err, IPS_E_CORRUPT, "%s: not a run's control file",
                       path);
}

static int control_read(const char *dir, struct ips_control *c,
                        struct ips_err *err)
{
    int fd = open_and_check_control_file(dir, O_RDONLY, err);
    if (fd < 0)
        return fd;
    ssize_t n = pread(fd, c, sizeof(*c), 0);
    int rc = 0;
    if (n != (ssize_t)sizeof(*c))
        rc = ips_err_set(err, IPS_E_CORRUPT, "%s/control cut off", dir);
    close(fd);
    return rc;
}

int ips_control_read_and_check_copy(const char *dir,
                                    const struct ips_control **out,
                                    struct ips_err *err)
{
    struct ips_control *c = malloc(sizeof(*c));
    if (!c)
        return ips_err_set(err, IPS_E_NO_MEMORY, "control of %s", dir);
    int rc = control_read(dir, c, err);
    if (rc < 0)
        goto out;
    if (c->magic != IPS_CONTROL_MAGIC)
        rc = ips_err_set(err, IPS_E_CORRUPT, "%s/control: not a run's", dir);
    else if (c->version != IPS_POOL_VERSION)
        rc = ips_err_set(err, IPS_E_VERSION,
                         "%s/control: version %u, expected %d", dir, c->version,
                         IPS_POOL_VERSION);
    else if (c->control_bytes != sizeof(*c) ||
             (c->clock.kind != IPS_CLOCK_RAW &&
              c->clock.kind != IPS_CLOCK_TSC) ||
             c->clock.mult_q32 == 0)
        rc = ips_err_set(err, IPS_E_CORRUPT, "%s/control: damaged", dir);
    if (rc < 0)
        goto out;
    c->run[sizeof(c->run) - 1] = '\0';
    c->machine[sizeof(c->machine) - 1] = '\0';
    c->boot_id[sizeof(c->boot_id) - 1] = '\0';
    c->command[sizeof(c->command) - 1] = '\0';
    c->tags[sizeof(c->tags) - 1] = '\0';
    c->tags[sizeof(c->tags) - 2] = '\0';
    *out = c;
    c = NULL;
out:
    free(c);
    return rc;
}

void ips_control_free(const struct ips_control *control)
{
    free((void *)(uintptr_t)control);
}

/* Adds `bytes` to a counter in the run's control file. Only the slave writes
 * these counters. */
static int add_to_control_counter(const char *dir, off_t at, uint64_t bytes,
                                  struct ips_err *err)
{
    /* Uses pread and pwrite: a mapping would raise SIGBUS if another process
     * truncates the file. There is one writer, so no update is lost in between.
     */
    int fd = open_and_check_control_file(dir, O_RDWR, err);
    if (fd < 0)
        return fd;
    uint64_t value;
    int rc = 0;
    if (pread(fd, &value, sizeof(value), at) != sizeof(value))
        rc = ips_err_set(err, IPS_E_CORRUPT, "%s/control cut off", dir);
    value += bytes;
    if (rc == 0 && pwrite(fd, &value, sizeof(value), at) != sizeof(value))
        rc = ips_err_errno(err, "write %s/control", dir);
    close(fd);
    return rc;
}

int ips_control_add_released_bytes(const char *dir, uint64_t bytes,
                                   struct ips_err *err)
{
    return add_to_control_counter(
        dir, offsetof(struct ips_control, released_bytes), bytes, err);
}

int ips_control_add_spare_bytes(const char *dir, uint64_t bytes,
                                struct ips_err *err)
{
    return add_to_control_counter(
        dir, offsetof(struct ips_control, spare_bytes), bytes, err);
}

int ips_control_store_slave_identity(const char *dir, struct ips_err *err)
{
    struct {
        uint32_t pid;
        uint64_t list;
    } own = {.pid = (uint32_t)gettid()};
    size_t bytes;
    void *list = NULL;
    if (syscall(SYS_get_robust_list, 0, &list, &bytes) < 0 || !list)
        return 0; /* programs then recognise the slave by its file lock */
    own.list = (uint64_t)(uintptr_t)list;
    int fd = open_and_check_control_file(dir, O_RDWR, err), rc = 0;
    if (fd < 0)
        return fd;
    /* The pid is written last, so that programs do not use the new list with
     * the previous slave's pid. */
    if (pwrite(fd, &own.list, sizeof(own.list),
               offsetof(struct ips_control, slave_list)) != sizeof(own.list) ||
        pwrite(fd, &own.pid, sizeof(own.pid),
               offsetof(struct ips_control, slave_pid)) != sizeof(own.pid))
        rc = ips_err_errno(err, "write %s/control", dir);
    close(fd);
    return rc;
}
