/* Locks of the pool; see lock.h. */
#include "slave/base/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/pool/pool.h"
#include "common/paths.h"

int slave_make_and_check_pool_directory(const char *pool, struct ips_err *err)
{
    struct stat st;
    if (lstat(pool, &st) < 0) {
        /* Set the mode despite the umask: root's pool needs its execute bits,
         * so that programs of other users in a run can reach their files. */
        mode_t mode = geteuid() == 0 ? 0711 : 0700;
        int rc = ips_path_make_directories(pool, mode, err);
        if (rc < 0)
            return ips_err_wrap(err, rc, "pool");
        if (chmod(pool, mode) < 0 || lstat(pool, &st) < 0)
            return ips_err_errno(err, "pool %s", pool);
    }
    if (!S_ISDIR(st.st_mode))
        return ips_err_set(err, IPS_E_USAGE, "pool %s is not a directory",
                           pool);
    if (st.st_uid != geteuid())
        return ips_err_set(
            err, IPS_E_REFUSED,
            "pool %s belongs to user %u: a slave drains only pools of "
            "its own user; name another one with --pool",
            pool, (unsigned)st.st_uid);
    return 0;
}

static int open_lock(const char *pool, const char *name, struct ips_err *err)
{
    char path[IPS_PATH_BYTES + 32];
    snprintf(path, sizeof(path), "%s/%s", pool, name);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        (void)ips_err_errno(err, "%s", path);
    return fd;
}

/* If this process is in the initial pid namespace, takes a second lock on the
 * file. Recorded programs in the initial namespace find that lock, and so know
 * their namespace (ips_pid_namespace_inode, agent/record/quota.c). */
static void take_file_lock_if_in_initial_pid_namespace(int fd)
{
    struct stat st;
    const struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (stat("/proc/self/ns/pid", &st) == 0 && st.st_ino == IPS_PIDNS_INITIAL)
        /* if the lock fails, programs ask /proc for their namespace instead */
        (void)!fcntl(fd, F_SETLK, &lock);
}

int slave_lock_take_drain_lock(const char *pool, struct ips_lock *out,
                               struct ips_err *err)
{
    /* Retries, because ipsrun and recorded programs take this lock for a moment
     * to see whether a slave runs. */
    int rc = ips_lock_directory_and_store_pid(pool, IPS_POOL_SLAVE_LOCK,
                                              "--pool", 300, NULL, out, err);
    if (rc == 0)
        take_file_lock_if_in_initial_pid_namespace(out->file_fd);
    return rc;
}

int slave_lock_try_pool_lock(const char *pool)
{
    int fd = open_lock(pool, IPS_POOL_LOCK, NULL);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}
