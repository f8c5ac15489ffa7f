/* Takes spare segments instead of making files. agent/pool/format.h describes
 * them.
 *
 * Making a file, its length, its first page and the quota for them, and reading
 * `control` before that, take 35 of the 100 us that a short process pays. The
 * slave does this ahead, where processes come and go
 * (slave/drain/spare_segments.c).
 *
 * A spare is trusted as much as the files that we make ourselves: it must
 * belong to our user, be writable by no other, and have one name. In a run of
 * root, any user may put files beside ours. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "agent/record/stream.h"
#include "agent/record/sys.h"

static_assert(sizeof(struct ips_segment_header) + sizeof(struct ips_control) <=
                  IPS_SPARE_FIRST_BYTES,
              "the copy lies in the first page");

static void spare_path(char *out, uint32_t id)
{
    static const char name[] = "/" IPS_SPARE_PREFIX;
    size_t n = strlen(ips_core.dir);
    memcpy(out, ips_core.dir, n);
    memcpy(out + n, name, sizeof(name) - 1);
    *ips_put_number(out + n + sizeof(name) - 1, id % IPS_SPARES, 10) = '\0';
}

/* Size of the spare; 0: it is not ours to take. */
static uint64_t spare_bytes(int fd)
{
    struct stat st;
    return ips_sys_fstat(fd, &st) == 0 && st.st_mode == (S_IFREG | 0600) &&
                   st.st_uid == ips_sys_geteuid() && st.st_nlink == 1 &&
                   st.st_size >= (off_t)IPS_SPARE_FIRST_BYTES &&
                   st.st_size <= (off_t)IPS_SEGMENT_MAX_BYTES
               ? (uint64_t)st.st_size
               : 0;
}

/* Is the copy of `control` in the spare good? This is the first access to the
 * page. It is a read, so that the kernel also maps the other pages of the file
 * that exist. */
static bool spare_good(const struct ips_control *there, uint64_t bytes,
                       struct ips_control *copy)
{
    if (!copy)
        return bytes == ips_core.control->segment_bytes &&
               ips_control_good(there);
    memcpy(copy, there, sizeof(*copy));
    return ips_control_good(copy) && copy->segment_bytes == bytes;
}

bool ips_spare_take(uint32_t id, struct ips_control *copy,
                    struct ips_segment_map *out)
{
    /* The process has changed its user: the spares belong to the former one. */
    static bool not_ours;
    char path[sizeof(ips_core.dir) + 32];
    if (not_ours)
        return false;
    spare_path(path, id);
    int fd =
        ips_sys_open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0);
    not_ours = fd == -EACCES;
    if (fd < 0)
        return false;
    uint64_t bytes = spare_bytes(fd);
    uint64_t base = bytes ? ips_sys_mmap(0, bytes + IPS_GAP_BYTES,
                                         PROT_READ | PROT_WRITE, MAP_SHARED, fd)
                          : (uint64_t)-1;
    ips_sys_close(fd);
    if (ips_sys_is_error(base))
        return false;
    struct ips_segment_header *h = (struct ips_segment_header *)base;
    struct ips_control *there = (struct ips_control *)(h + 1);
    uint32_t none = 0;
    /* Partner: withdraw_spare() in slave/drain/spare_segments.c stores and
     * checks in the opposite order, so one of the two sees the other. */
    if (!spare_good(there, bytes, copy) ||
        !atomic_compare_exchange_strong(&h->taken, &none, 1) ||
        atomic_load(&h->withdrawn)) {
        ips_sys_munmap(base, bytes + IPS_GAP_BYTES);
        return false;
    }
    /* No reader looks at the segment before its header has the magic. */
    memset(there, 0, sizeof(*there));
    ips_sys_madvise(base, bytes + IPS_GAP_BYTES, MADV_DONTFORK);
    ips_sys_madvise(base, bytes + IPS_GAP_BYTES, MADV_DONTDUMP);
    *out = (struct ips_segment_map){base, base + IPS_SPARE_FIRST_BYTES,
                                    base + bytes, 0};
    return true;
}
