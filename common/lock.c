#include "common/lock.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "common/paths.h"

#define RETRY_MS 20u

static void read_pid(int fd, char *out, size_t size)
{
    ssize_t n = pread(fd, out, size - 1, 0);
    out[n > 0 ? n : 0] = '\0';
    out[strcspn(out, "\n")] = '\0';
    if (!*out)
        snprintf(out, size, "unknown");
}

int ips_lock_directory(const char *dir, const char *name, const char *option,
                       unsigned wait_ms, struct ips_err *err)
{
    char path[IPS_PATH_BYTES + 32], pid[32];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return ips_err_errno(err, "%s", path);
    int busy = flock(fd, LOCK_EX | LOCK_NB);
    for (unsigned ms = 0; busy < 0 && ms < wait_ms; ms += RETRY_MS) {
        usleep(RETRY_MS * 1000);
        busy = flock(fd, LOCK_EX | LOCK_NB);
    }
    if (busy < 0) {
        read_pid(fd, pid, sizeof(pid));
        close(fd);
        return ips_err_set(
            err, IPS_E_BUSY,
            "%s is in use by another daemon (pid %s): end it first, or "
            "name another directory (%s)",
            dir, pid, option);
    }
    int n = snprintf(pid, sizeof(pid), "%d\n", (int)getpid());
    if (ftruncate(fd, 0) < 0 || pwrite(fd, pid, (size_t)n, 0) != n) {
        int rc = ips_err_errno(err, "%s cannot be written", path);
        close(fd);
        return rc;
    }
    return fd;
}
