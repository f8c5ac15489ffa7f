/* Packs a quiet run's archive again into full blocks; see archive.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/paths.h"
#include "slave/archive/archive.h"

/* A step stops after reading this number of packed bytes, so that it takes only
 * a few ms. */
#define STEP_BYTES (128u << 10)

struct slave_repack {
    struct slave_archive to;
    uint64_t from_length; /* length of the archive to be repacked, in bytes */
    uint64_t at;
    uint8_t *frames; /* buffer of SLAVE_PACK_RAW_MAX bytes */
    size_t len;
    uint8_t *packed; /* buffer of SLAVE_PACK_OUT_MAX bytes */
    char dir[IPS_PATH_BYTES];
};

static void format_new_archive_path(const char *dir, char *out, size_t size)
{
    snprintf(out, size, "%s/archive.new", dir);
}

void slave_repack_free_and_remove_file(struct slave_repack *r)
{
    char path[IPS_PATH_BYTES + 16];
    if (!r)
        return;
    slave_archive_close(&r->to);
    if (r->dir[0]) {
        format_new_archive_path(r->dir, path, sizeof(path));
        (void)unlink(path);
    }
    free(r->frames);
    free(r->packed);
    free(r);
}

struct slave_repack *slave_repack_new(const struct slave_archive *a,
                                      const char *dir, struct ips_err *err)
{
    char path[IPS_PATH_BYTES + 16];
    struct slave_repack *r = calloc(1, sizeof(*r));
    if (r) {
        r->to.fd = -1;
        r->from_length = a->length;
        r->frames = malloc(SLAVE_PACK_RAW_MAX);
        r->packed = malloc(SLAVE_PACK_OUT_MAX);
    }
    if (!r || !r->frames || !r->packed) {
        slave_repack_free_and_remove_file(r);
        ips_err_set(err, IPS_E_NO_MEMORY, "out of memory");
        return NULL;
    }
    format_new_archive_path(dir, path, sizeof(path));
    r->to.fd =
        open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (r->to.fd < 0) {
        ips_err_errno(err, "open %s", path);
        slave_repack_free_and_remove_file(r);
        return NULL;
    }
    snprintf(r->dir, sizeof(r->dir), "%s", dir);
    return r;
}

static int stage_collected_frames(struct slave_repack *r,
                                  struct slave_pack *pack, uint64_t mult,
                                  struct ips_err *err)
{
    int rc = slave_archive_pack_and_stage_frames(&r->to, pack, mult, r->frames,
                                                 r->len, err);
    r->len = 0;
    return rc;
}

int slave_repack_step(struct slave_repack *r, const struct slave_archive *a,
                      struct slave_pack *pack, uint64_t mult_q32,
                      struct ips_err *err)
{
    uint64_t stop = r->at + STEP_BYTES;
    int rc = a->length == r->from_length
                 ? 0
                 : ips_err_set(err, IPS_E_BUSY, "the archive has grown");
    while (rc == 0 && r->at < r->from_length && r->at < stop) {
        struct slave_packed p;
        rc = slave_archive_read_block(a, r->at, r->packed, &p, err);
        if (rc == 0 && r->len + p.raw_bytes > SLAVE_PACK_RAW_MAX)
            rc = stage_collected_frames(r, pack, mult_q32, err);
        if (rc == 0)
            rc = slave_pack_decode(pack, &p, r->frames + r->len, err);
        r->len += p.raw_bytes;
        r->at += sizeof(struct slave_block) + p.bytes;
    }
    if (rc < 0 || r->at < r->from_length)
        return rc;
    rc = stage_collected_frames(r, pack, mult_q32, err);
    if (rc == 0)
        rc = slave_archive_sync(&r->to, err);
    slave_archive_accept_staged_bytes(&r->to);
    return rc < 0 ? rc : 1;
}

uint64_t slave_repack_new_archive_bytes(const struct slave_repack *r)
{
    return r->to.length;
}

int slave_repack_replace_archive(struct slave_repack *r,
                                 struct slave_archive *a, struct ips_err *err)
{
    char old[IPS_PATH_BYTES + 16], new[IPS_PATH_BYTES + 16];
    snprintf(old, sizeof(old), "%s/archive", r->dir);
    format_new_archive_path(r->dir, new, sizeof(new));
    int rc = rename(new, old) < 0 ? ips_err_errno(err, "rename %s", new) : 0;
    /* with an empty `dir` slave_repack_free_and_remove_file() does not remove
     * archive.new: if the rename failed, the slave's next start repeats it */
    r->dir[0] = '\0';
    if (rc == 0) {
        slave_archive_close(a);
        *a = r->to;
        r->to.fd = -1;
    }
    slave_repack_free_and_remove_file(r);
    return rc;
}

int slave_repack_recover(const char *dir, uint64_t committed,
                         struct ips_err *err)
{
    char old[IPS_PATH_BYTES + 16], new[IPS_PATH_BYTES + 16];
    struct stat st;
    snprintf(old, sizeof(old), "%s/archive", dir);
    format_new_archive_path(dir, new, sizeof(new));
    if (stat(new, &st) < 0)
        return 0;
    if ((uint64_t)st.st_size == committed)
        return rename(new, old) < 0 ? ips_err_errno(err, "rename %s", new) : 0;
    (void)unlink(new);
    return 0;
}
