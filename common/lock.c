#include "common/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/paths.h"

#define RETRY_MS 20u

static void read_lock_holder_pid(int fd, char *out, size_t size)
{
    ssize_t n = fd < 0 ? 0 : pread(fd, out, size - 1, 0);
    out[n > 0 ? n : 0] = '\0';
    out[strcspn(out, "\n")] = '\0';
    if (!*out)
        snprintf(out, size, "unknown");
}

/* Takes the lock on `fd`, trying for up to `wait_ms`. Returns 0 or an errno;
 * EWOULDBLOCK: another daemon holds the lock. */
static int take_lock(int fd, unsigned wait_ms)
{
    for (unsigned ms = 0;; ms += RETRY_MS) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0)
            return 0;
        if ((errno != EWOULDBLOCK && errno != EINTR) || ms >= wait_ms)
            return errno;
        usleep(RETRY_MS * 1000);
    }
}

static bool is_directory_of_own_lock(int fd, const struct ips_lock *own)
{
    struct stat a, b;
    return own && own->dir_fd >= 0 && fstat(fd, &a) == 0 &&
           fstat(own->dir_fd, &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}

static int lock_directory_and_file(const char *dir, const char *option,
                                   unsigned wait_ms, const struct ips_lock *own,
                                   const struct ips_lock *lock,
                                   struct ips_err *err)
{
    char pid[32];
    int why = is_directory_of_own_lock(lock->dir_fd, own)
                  ? 0
                  : take_lock(lock->dir_fd, wait_ms);
    if (why != EWOULDBLOCK && why != EINTR)
        /* `why` is 0, or the file system cannot lock a directory */
        why = take_lock(lock->file_fd, wait_ms);
    if (why == 0)
        return 0;
    if (why != EWOULDBLOCK) {
        errno = why;
        return ips_err_errno(err, "%s cannot be locked", dir);
    }
    read_lock_holder_pid(lock->file_fd, pid, sizeof(pid));
    return ips_err_set(err, IPS_E_BUSY,
                       "%s is in use by another daemon (pid %s): end it first, "
                       "or name another directory (%s)",
                       dir, pid, option);
}

static void close_lock_descriptors(struct ips_lock *lock)
{
    if (lock->file_fd >= 0)
        close(lock->file_fd);
    if (lock->dir_fd >= 0)
        close(lock->dir_fd);
    *lock = IPS_LOCK_NONE;
}

int ips_lock_directory_and_store_pid(const char *dir, const char *name,
                                     const char *option, unsigned wait_ms,
                                     const struct ips_lock *own,
                                     struct ips_lock *out, struct ips_err *err)
{
    char path[IPS_PATH_BYTES + 32], pid[32];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    *out = IPS_LOCK_NONE;
    out->dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (out->dir_fd < 0)
        return ips_err_errno(err, "%s", dir);
    out->file_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    int rc = out->file_fd < 0
                 ? ips_err_errno(err, "%s", path)
                 : lock_directory_and_file(dir, option, wait_ms, own, out, err);
    int n = snprintf(pid, sizeof(pid), "%d\n", (int)getpid());
    if (rc == 0 && (ftruncate(out->file_fd, 0) < 0 ||
                    pwrite(out->file_fd, pid, (size_t)n, 0) != n))
        rc = ips_err_errno(err, "%s cannot be written", path);
    if (rc < 0)
        close_lock_descriptors(out);
    return rc;
}

void ips_lock_release(struct ips_lock *lock)
{
    /* a pid left in the file would mislead people */
    if (lock->file_fd >= 0)
        (void)!ftruncate(lock->file_fd, 0);
    close_lock_descriptors(lock);
}
