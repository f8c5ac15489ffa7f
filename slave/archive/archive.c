/* The run's archive; invariants in archive.h. */
#include "slave/archive/archive.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/large.h"
#include "common/paths.h"
#include "slave/base/wordhash.h"

#define OLD_FRAME_MAGIC 0x31465350u /* "PSF1" */

static int archive_path(const char *dir, char out[IPS_PATH_BYTES],
                        struct ips_err *err)
{
    int n = snprintf(out, IPS_PATH_BYTES, "%s/archive", dir);
    if (n < 0 || n >= IPS_PATH_BYTES)
        return ips_err_set(err, IPS_E_LIMIT, "path too long: %s", dir);
    return 0;
}

/* Returns the offset at which the last complete block of a truncated file
 * ends. */
static uint64_t find_end_of_whole_blocks(int fd, uint64_t size)
{
    struct slave_block b;
    uint64_t at = 0;
    while (size - at >= sizeof(b) &&
           pread(fd, &b, sizeof(b), (off_t)at) == sizeof(b) &&
           b.magic == SLAVE_BLOCK_MAGIC && b.bytes <= size - at - sizeof(b))
        at += sizeof(b) + b.bytes;
    return at;
}

int slave_archive_open_and_cut_to_committed(struct slave_archive *a,
                                            const char *dir, uint64_t committed,
                                            uint64_t *missing,
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
        committed = find_end_of_whole_blocks(fd, size);
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

static uint64_t block_checksum(const struct slave_block *b, const uint8_t *data)
{
    uint64_t h = slave_hash_bytes(0, b, offsetof(struct slave_block, check));
    return slave_hash_bytes(h, data, b->bytes);
}

/* ---- writing ---- */

static int write_all(int fd, const void *data, size_t len, uint64_t at,
                     struct ips_err *err)
{
    const uint8_t *p = data;
    for (size_t done = 0; done < len;) {
        ssize_t n = pwrite(fd, p + done, len - done, (off_t)(at + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return ips_err_errno(err, "write of %zu bytes to the archive",
                                 len - done);
        done += (size_t)n;
    }
    return 0;
}

static int append_uncommitted_block(struct slave_archive *a,
                                    const struct slave_packed *p,
                                    struct ips_err *err)
{
    struct slave_block b = {.magic = SLAVE_BLOCK_MAGIC,
                            .bytes = p->bytes,
                            .plain_bytes = p->plain_bytes,
                            .raw_bytes = p->raw_bytes};
    b.check = block_checksum(&b, p->data);
    uint64_t at = a->length + a->staged;
    int rc = write_all(a->fd, &b, sizeof(b), at, err);
    if (rc == 0)
        rc = write_all(a->fd, p->data, p->bytes, at + sizeof(b), err);
    if (rc == 0)
        a->staged += sizeof(b) + p->bytes;
    return rc;
}

/* Returns the total size of the first frames that fit together into one block.
 * If not even the first one fits, returns its size. */
static size_t bytes_of_frames_that_fit_block(const uint8_t *p, size_t len)
{
    size_t at = 0;
    while (at < len) {
        const struct slave_frame *f =
            (const struct slave_frame *)(const void *)(p + at);
        size_t n = sizeof(*f) + f->bytes;
        if (at + n > SLAVE_PACK_RAW_MAX)
            return at ? at : n;
        at += n;
    }
    return at;
}

int slave_archive_pack_and_stage_frames(struct slave_archive *a,
                                        struct slave_pack *pack,
                                        uint64_t mult_q32, const void *frames,
                                        size_t len, struct ips_err *err)
{
    const uint8_t *p = frames;
    uint64_t staged = a->staged;
    int rc = 0;
    for (size_t n = 0; rc == 0 && len > 0; len -= n, p += n) {
        struct slave_packed packed;
        n = bytes_of_frames_that_fit_block(p, len);
        rc = slave_pack_encode(pack, p, n, mult_q32, &packed, err);
        if (rc == 0)
            rc = append_uncommitted_block(a, &packed, err);
    }
    if (rc < 0)
        a->staged = staged;
    return rc;
}

void slave_archive_accept_staged_bytes(struct slave_archive *a)
{
    a->length += a->staged;
    a->staged = 0;
}

void slave_archive_drop_staged_bytes(struct slave_archive *a)
{
    a->staged = 0;
}

int slave_archive_sync(struct slave_archive *a, struct ips_err *err)
{
    if (a->fd >= 0 && fdatasync(a->fd) < 0)
        return ips_err_errno(err, "fdatasync of the archive");
    return 0;
}

/* ---- reading ---- */

static int set_archive_damage_error(size_t at, uint64_t length,
                                    struct ips_err *err)
{
    return ips_err_set(err, IPS_E_CORRUPT,
                       "archive is damaged at byte %zu of %llu", at,
                       (unsigned long long)length);
}

/* Copies the header of the block at `at`, and verifies it and the checksum of
 * the block. */
static int verify_block_at(const uint8_t *data, size_t len, size_t at,
                           struct slave_block *b, struct ips_err *err)
{
    size_t left = len - at;
    if (left >= sizeof(*b)) {
        memcpy(b, data + at, sizeof(*b));
        if (b->magic == OLD_FRAME_MAGIC)
            return ips_err_set(
                err, IPS_E_VERSION,
                "the archive was written by an earlier version of IPS, and "
                "only that version can read it: use it, or remove the "
                "directory of the run");
        if (b->magic == SLAVE_BLOCK_MAGIC && b->bytes <= left - sizeof(*b) &&
            b->raw_bytes <= SLAVE_PACK_RAW_MAX && b->raw_bytes % 8 == 0 &&
            block_checksum(b, data + at + sizeof(*b)) == b->check)
            return 0;
    }
    return set_archive_damage_error(at, len, err);
}

int slave_archive_read_block(const struct slave_archive *a, uint64_t at,
                             uint8_t *to, struct slave_packed *out,
                             struct ips_err *err)
{
    struct slave_block b;
    *out = (struct slave_packed){0};
    if (pread(a->fd, &b, sizeof(b), (off_t)at) != sizeof(b) ||
        b.magic != SLAVE_BLOCK_MAGIC || b.bytes > SLAVE_PACK_OUT_MAX ||
        b.raw_bytes > SLAVE_PACK_RAW_MAX || b.raw_bytes % 8 != 0 ||
        pread(a->fd, to, b.bytes, (off_t)(at + sizeof(b))) !=
            (ssize_t)b.bytes ||
        block_checksum(&b, to) != b.check)
        return set_archive_damage_error(at, a->length, err);
    *out = (struct slave_packed){to, b.bytes, b.plain_bytes, b.raw_bytes};
    return 0;
}

/* The committed blocks to unpack, and the callback for each frame in them. */
struct unpacking {
    const uint8_t *data;
    size_t from, len;
    slave_frame_seen *seen;
    void *arg;
};

static int call_callback_for_each_frame(const struct unpacking *u,
                                        const uint8_t *data, size_t len,
                                        struct ips_err *err)
{
    const struct slave_unpacked_archive m = {data, len};
    const struct slave_frame *f;
    int rc = 0;
    for (size_t at = 0; rc == 0 && (f = slave_archive_next_frame(&m, &at));)
        rc = u->seen(u->arg, f, err);
    return rc;
}

static int unpack_checked_blocks(const struct unpacking *u, uint8_t *out,
                                 struct ips_err *err)
{
    struct slave_block b;
    struct slave_pack *pack = slave_pack_new();
    int rc = pack ? 0 : ips_err_set(err, IPS_E_NO_MEMORY, "out of memory");
    for (size_t at = u->from; rc == 0 && at < u->len;
         at += sizeof(b) + b.bytes) {
        memcpy(&b, u->data + at, sizeof(b));
        const struct slave_packed packed = {u->data + at + sizeof(b), b.bytes,
                                            b.plain_bytes, b.raw_bytes};
        if (slave_pack_decode(pack, &packed, out, NULL) < 0)
            rc = set_archive_damage_error(at, u->len, err);
        else if (u->seen)
            rc = call_callback_for_each_frame(u, out, b.raw_bytes, err);
        out += b.raw_bytes;
    }
    slave_pack_free(pack);
    return rc;
}

static int verify_and_unpack_blocks(const struct unpacking *u,
                                    struct slave_unpacked_archive *out,
                                    struct ips_err *err)
{
    struct slave_block b;
    size_t raw = 0;
    int rc = 0;
    for (size_t at = u->from; rc == 0 && at < u->len;
         at += sizeof(b) + b.bytes) {
        rc = verify_block_at(u->data, u->len, at, &b, err);
        raw += b.raw_bytes;
    }
    if (rc < 0 || raw == 0)
        return rc;
    uint8_t *room = ips_alloc_large(raw, 1);
    if (!room)
        return ips_err_set(err, IPS_E_NO_MEMORY,
                           "%zu bytes to unpack the archive", raw);
    out->data = room;
    out->length = raw;
    return unpack_checked_blocks(u, room, err);
}

static int open_archive(const char *dir, struct ips_err *err)
{
    char path[IPS_PATH_BYTES];
    int rc = archive_path(dir, path, err);
    if (rc < 0)
        return rc;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    return fd < 0 ? ips_err_errno(err, "open %s", path) : fd;
}

int slave_archive_open_for_reading(const char *dir)
{
    int fd = open_archive(dir, NULL);
    return fd < 0 ? -1 : fd;
}

int slave_archive_unpack_from_offset(const char *dir, int fd, uint64_t from,
                                     uint64_t committed,
                                     struct slave_unpacked_archive *out,
                                     slave_frame_seen *seen, void *arg,
                                     struct ips_err *err)
{
    struct stat st;
    *out = (struct slave_unpacked_archive){0};
    if (committed <= from)
        return 0;
    int own = fd < 0 ? open_archive(dir, err) : -1, rc = 0;
    if (fd < 0 && own < 0)
        return own;
    fd = fd < 0 ? own : fd;
    void *p = MAP_FAILED;
    if (fstat(fd, &st) < 0)
        rc = ips_err_errno(err, "stat %s/archive", dir);
    else if ((uint64_t)st.st_size < committed)
        rc = ips_err_set(err, IPS_E_CORRUPT,
                         "%s/archive has %llu bytes, %llu were committed", dir,
                         (unsigned long long)st.st_size,
                         (unsigned long long)committed);
    else if ((p = mmap(NULL, (size_t)committed, PROT_READ, MAP_PRIVATE, fd,
                       0)) == MAP_FAILED)
        rc = ips_err_errno(err, "map %s/archive", dir);
    if (own >= 0)
        close(own);
    if (rc == 0)
        rc = verify_and_unpack_blocks(
            &(struct unpacking){.data = p,
                                .from = (size_t)from,
                                .len = (size_t)committed,
                                .seen = seen,
                                .arg = arg},
            out, err);
    if (p != MAP_FAILED)
        munmap(p, (size_t)committed);
    if (rc < 0)
        slave_archive_free_unpacked(out);
    return rc;
}

int slave_archive_unpack(const char *dir, int fd, uint64_t committed,
                         struct slave_unpacked_archive *out,
                         struct ips_err *err)
{
    return slave_archive_unpack_from_offset(dir, fd, 0, committed, out, NULL,
                                            NULL, err);
}

void slave_archive_free_unpacked(struct slave_unpacked_archive *m)
{
    ips_free_large((void *)(uintptr_t)m->data);
    *m = (struct slave_unpacked_archive){0};
}

const struct slave_frame *
slave_archive_next_frame(const struct slave_unpacked_archive *m, size_t *at)
{
    if (*at >= m->length)
        return NULL;
    const struct slave_frame *f =
        (const struct slave_frame *)(const void *)(m->data + *at);
    *at += sizeof(*f) + f->bytes;
    return f;
}
