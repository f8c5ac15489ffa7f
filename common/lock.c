#include "common/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "common/paths.h"

#define RETRY_MS 20u

static void read_pid(int fd, char *out, size_t size)
{
    ssize_t n = fd < 0 ? 0 : pread(fd, out, size - 1, 0);
    out[n > 0 ? n : 0] = '\0';
    out[strcspn(out, "\n")] = '\0';
    if (!*out)
        snprintf(out, size, "unknown");
}

/* Tries for `wait_ms`. Returns false if another daemon holds the lock. */
static bool take_lock(int fd, unsigned wait_ms)
{
    for (unsigned ms = 0;; ms += RETRY_MS) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0)
            return true;
        if (ms >= wait_ms)
            return false;
        usleep(RETRY_MS * 1000);
    }
}

static int take_both(const char *dir, const char *option, unsigned wait_ms,
                     const struct ips_lock *lock, struct ips_err *err)
{
    char pid[32];
    /* the file system may be unable to lock a directory */
    bool busy = !take_lock(lock->dir_fd, wait_ms) && errno == EWOULDBLOCK;
    if (!busy && take_lock(lock->file_fd, wait_ms))
        return 0;
    read_pid(lock->file_fd, pid, sizeof(pid));
    return ips_err_set(err, IPS_E_BUSY,
                       "%s is in use by another daemon (pid %s): end it first, "
                       "or name another directory (%s)",
                       dir, pid, option);
}

static void close_both(struct ips_lock *lock)
{
    if (lock->file_fd >= 0)
        close(lock->file_fd);
    if (lock->dir_fd >= 0)
        close(lock->dir_fd);
    *lock = IPS_LOCK_NONE;
}

int ips_lock_directory(const char *dir, const char *name, const char *option,
                       unsigned wait_ms, struct ips_lock *out,
                       struct ips_err *err)
{
    char path[IPS_PATH_BYTES + 32], pid[32];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    *out = IPS_LOCK_NONE;
    out->dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (out->dir_fd < 0)
        return ips_err_errno(err, "%s", dir);
    out->file_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    int rc = out->file_fd < 0 ? ips_err_errno(err, "%s", path)
                              : take_both(dir, option, wait_ms, out, err);
    int n = snprintf(pid, sizeof(pid), "%d\n", (int)getpid());
    if (rc == 0 && (ftruncate(out->file_fd, 0) < 0 ||
                    pwrite(out->file_fd, pid, (size_t)n, 0) != n))
        rc = ips_err_errno(err, "%s cannot be written", path);
    if (rc < 0)
        close_both(out);
    return rc;
}

void ips_lock_release(struct ips_lock *lock)
{
    /* an old pid in the file would mislead people */
    if (lock->file_fd >= 0)
        (void)!ftruncate(lock->file_fd, 0);
    close_both(lock);
}
