/* Opens files whose owners are not trusted; the rules are in poolfs.h. */
#include "slave/drain/poolfs.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/paths.h"

bool slave_poolfs_is_run_name(const char *name)
{
    return ips_is_valid_run_name(name);
}

static bool is_owner_allowed(const struct stat *st)
{
    uid_t me = geteuid();
    return me == 0 || st->st_uid == me;
}

int slave_poolfs_open_trusted_dir(int at, const char *name, struct ips_err *err)
{
    struct stat st;
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return ips_err_errno(err, "directory %s", name);
    if (fstat(fd, &st) < 0) {
        int rc = ips_err_errno(err, "directory %s", name);
        close(fd);
        return rc;
    }
    if (st.st_uid != geteuid() && st.st_uid != 0) {
        close(fd);
        return ips_err_set(err, IPS_E_REFUSED,
                           "directory %s belongs to user %u", name,
                           (unsigned)st.st_uid);
    }
    return fd;
}

/* Opens a regular file with one link and an allowed owner. O_NONBLOCK, because
 * opening a FIFO must not block the slave. */
static int open_regular(int dirfd, const char *file, int flags, struct stat *st,
                        struct ips_err *err)
{
    int fd = openat(dirfd, file,
                    flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) {
        int code = errno == ENOENT                     ? IPS_E_NOT_FOUND
                   : errno == ELOOP || errno == EISDIR ? IPS_E_REFUSED
                   : errno == EMFILE || errno == ENFILE || errno == ENOMEM
                       ? IPS_E_LIMIT
                       : IPS_E_IO;
        ips_err_errno(err, "open %s", file);
        if (err)
            err->code = code;
        return code;
    }
    int known = fstat(fd, st);
    /* the writer has unlinked the file since it was opened here */
    if (known == 0 && st->st_nlink == 0) {
        close(fd);
        return ips_err_set(err, IPS_E_NOT_FOUND, "%s is gone", file);
    }
    if (known < 0 || !S_ISREG(st->st_mode) || st->st_nlink != 1 ||
        !is_owner_allowed(st)) {
        close(fd);
        return ips_err_set(err, IPS_E_REFUSED, "%s is not a plain file of ours",
                           file);
    }
    return fd;
}

static int read_fully_at(int fd, void *out, size_t len, off_t at)
{
    size_t done = 0;
    while (done < len) {
        ssize_t n = pread(fd, (char *)out + done, len - done, at + (off_t)done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -1;
        done += (size_t)n;
    }
    return 0;
}

int slave_poolfs_read_control(int dirfd, struct ips_control *out,
                              struct ips_err *err)
{
    struct stat st;
    int fd = open_regular(dirfd, "control", O_RDONLY, &st, err);
    if (fd < 0)
        return fd;
    int rc = 0;
    if (read_fully_at(fd, out, sizeof(*out), 0) < 0)
        rc = ips_err_set(err, IPS_E_CORRUPT, "control is too short");
    else if (out->magic != IPS_CONTROL_MAGIC)
        rc = ips_err_set(err, IPS_E_CORRUPT, "control is not ours");
    else if (out->version != IPS_POOL_VERSION ||
             out->control_bytes != sizeof(*out))
        rc = ips_err_set(err, IPS_E_VERSION,
                         "control has version %u, expected %u", out->version,
                         IPS_POOL_VERSION);
    close(fd);
    out->run[sizeof(out->run) - 1] = '\0';
    out->machine[sizeof(out->machine) - 1] = '\0';
    out->boot_id[sizeof(out->boot_id) - 1] = '\0';
    out->command[sizeof(out->command) - 1] = '\0';
    out->tags[sizeof(out->tags) - 1] = '\0';
    out->tags[sizeof(out->tags) - 2] = '\0';
    return rc;
}

int slave_poolfs_open_segment(int dirfd, const char *file, struct ips_err *err)
{
    struct stat st;
    return open_regular(dirfd, file, O_RDWR, &st, err);
}

int slave_poolfs_read_header(int fd, struct ips_segment_header *out,
                             struct ips_err *err)
{
    uint32_t state = 0;
    struct stat st;
    /* The state is read separately and first, as poolfs.h promises; system
     * calls keep their order. */
    if (read_fully_at(fd, &state, sizeof(state),
                      offsetof(struct ips_segment_header, state)) < 0 ||
        read_fully_at(fd, out, sizeof(*out), 0) < 0)
        return ips_err_set(err, IPS_E_INCOMPLETE, "no header yet");
    out->state = state;
    int rc = slave_poolfs_check_header(out, err);
    if (rc == 0 &&
        (fstat(fd, &st) < 0 || st.st_size < (off_t)out->segment_bytes))
        return ips_err_set(err, IPS_E_CORRUPT,
                           "file is shorter than the %u bytes its header says",
                           out->segment_bytes);
    return rc;
}

int slave_poolfs_check_header(struct ips_segment_header *out,
                              struct ips_err *err)
{
    if (out->magic == 0)
        return ips_err_set(err, IPS_E_INCOMPLETE, "no header yet");
    if (out->magic != IPS_SEGMENT_MAGIC)
        return ips_err_set(err, IPS_E_CORRUPT, "not a segment");
    if (out->version != IPS_POOL_VERSION)
        return ips_err_set(err, IPS_E_VERSION, "header version %u, expected %u",
                           out->version, IPS_POOL_VERSION);
    if (out->header_bytes != sizeof(*out) ||
        out->segment_bytes <= sizeof(*out) ||
        out->segment_bytes > IPS_SEGMENT_MAX_BYTES ||
        out->segment_bytes % 8 != 0)
        return ips_err_set(err, IPS_E_CORRUPT,
                           "impossible header: %u of %u bytes",
                           out->header_bytes, out->segment_bytes);
    out->comm[sizeof(out->comm) - 1] = '\0';
    return 0;
}

int slave_poolfs_get_filesystem_usage(const char *root, uint64_t *used,
                                      uint64_t *size)
{
    struct statvfs vfs;
    if (statvfs(root, &vfs) < 0)
        return -1;
    *size = (uint64_t)vfs.f_blocks * vfs.f_frsize;
    *used = *size - (uint64_t)vfs.f_bfree * vfs.f_frsize;
    return 0;
}
