/* The run's archive; invariants in archive.h. */
#include "slave/archive.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/paths.h"
#include "slave/wordhash.h"

static int archive_path(const char *dir, char out[IPS_PATH_BYTES],
                        struct ips_err *err)
{
    int n = snprintf(out, IPS_PATH_BYTES, "%s/archive", dir);
    if (n < 0 || n >= IPS_PATH_BYTES)
        return ips_err_set(err, IPS_E_LIMIT, "path too long: %s", dir);
    return 0;
}

int slave_archive_open(struct slave_archive *a, const char *dir,
                       uint64_t committed, uint64_t *missing,
                       struct ips_err *err)
{
    char path[IPS_PATH_BYTES];
    struct stat st;
    *missing = 0;
    *a = (struct slave_archive){.fd = -1};
    int rc = archive_path(dir, path, err);
    if (rc < 0)
        return rc;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return ips_err_errno(err, "open %s", path);
    if (fstat(fd, &st) < 0) {
        rc = ips_err_errno(err, "stat %s", path);
        close(fd);
        return rc;
    }
    uint64_t size = (uint64_t)st.st_size;
    if (size < committed) {
        *missing = committed - size;
        committed = size & ~7ULL;
    }
    if (size > committed && ftruncate(fd, (off_t)committed) < 0) {
        rc = ips_err_errno(err, "cut %s", path);
        close(fd);
        return rc;
    }
    a->fd = fd;
    a->length = committed;
    return 0;
}

void slave_archive_close(struct slave_archive *a)
{
    if (a->fd >= 0)
        close(a->fd);
    a->fd = -1;
}

static uint64_t frame_check(const struct slave_frame *f)
{
    uint64_t h = slave_wordhash(0, f, offsetof(struct slave_frame, check));
    return slave_wordhash(h, f + 1, f->bytes);
}

void slave_frame_seal(struct slave_frame *frame, uint32_t stream,
                      uint32_t bytes, uint32_t records)
{
    frame->magic = SLAVE_FRAME_MAGIC;
    frame->stream = stream;
    frame->bytes = bytes;
    frame->records = records;
    frame->check = frame_check(frame);
}

int slave_archive_stage(struct slave_archive *a, const void *frames, size_t len,
                        struct ips_err *err)
{
    const uint8_t *p = (const uint8_t *)frames;
    size_t done = 0;
    while (done < len) {
        ssize_t n = pwrite(a->fd, p + done, len - done,
                           (off_t)(a->length + a->staged + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return ips_err_errno(err, "write of %zu bytes to the archive",
                                 len - done);
        done += (size_t)n;
    }
    a->staged += len;
    return 0;
}

void slave_archive_commit(struct slave_archive *a)
{
    a->length += a->staged;
    a->staged = 0;
}

void slave_archive_rollback(struct slave_archive *a)
{
    a->staged = 0;
}

int slave_archive_sync(struct slave_archive *a, struct ips_err *err)
{
    if (a->fd >= 0 && fdatasync(a->fd) < 0)
        return ips_err_errno(err, "fdatasync of the archive");
    return 0;
}

int slave_archive_map(const char *dir, uint64_t committed,
                      struct slave_archive_map *out, struct ips_err *err)
{
    char path[IPS_PATH_BYTES];
    struct stat st;
    *out = (struct slave_archive_map){0};
    if (committed == 0)
        return 0;
    int rc = archive_path(dir, path, err);
    if (rc < 0)
        return rc;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return ips_err_errno(err, "open %s", path);
    if (fstat(fd, &st) < 0) {
        rc = ips_err_errno(err, "stat %s", path);
    } else if ((uint64_t)st.st_size < committed) {
        rc = ips_err_set(
            err, IPS_E_CORRUPT, "%s has %llu bytes, %llu were committed", path,
            (unsigned long long)st.st_size, (unsigned long long)committed);
    } else {
        void *p = mmap(NULL, (size_t)committed, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p == MAP_FAILED) {
            rc = ips_err_errno(err, "map %s", path);
        } else {
            /* Only a hint: the archive is read once, front to back. */
            (void)madvise(p, (size_t)committed, MADV_SEQUENTIAL);
            out->data = (const uint8_t *)p;
            out->length = (size_t)committed;
        }
    }
    close(fd);
    return rc;
}

void slave_archive_unmap(struct slave_archive_map *m)
{
    if (m->data)
        munmap((void *)(uintptr_t)m->data, m->length);
    *m = (struct slave_archive_map){0};
}

int slave_archive_next(const struct slave_archive_map *m, size_t *at,
                       const struct slave_frame **frame, struct ips_err *err)
{
    size_t left = m->length - *at;
    if (left == 0)
        return 0;
    const struct slave_frame *f =
        (const struct slave_frame *)(const void *)(m->data + *at);
    if (left < sizeof(*f) || f->magic != SLAVE_FRAME_MAGIC ||
        f->bytes % 8 != 0 || f->bytes > left - sizeof(*f) ||
        frame_check(f) != f->check)
        return ips_err_set(err, IPS_E_CORRUPT,
                           "archive is damaged at byte %zu of %zu", *at,
                           m->length);
    *at += sizeof(*f) + f->bytes;
    *frame = f;
    return 1;
}
