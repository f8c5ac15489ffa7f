/* Takes spare segments instead of making files. agent/pool/format.h describes
 * them.
 *
 * Recording a short process takes 100 us. 35 us of these go into reading
 * `control` and making the first segment: file, length, first page and quota.
 * In a run that starts many processes, the slave does this in advance
 * (slave/drain/spare_segments.c).
 *
 * A spare segment must be as trustworthy as a file that we make ourselves: it
 * must belong to our user, be writable by no other user, and have one name. In
 * a run of root, any user may create files in the same directory. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "agent/record/stream.h"
#include "agent/record/sys.h"

static_assert(sizeof(struct ips_segment_header) + sizeof(struct ips_control) <=
                  IPS_SPARE_FIRST_BYTES,
              "the copy lies in the first page");

static void format_spare_path(char *out, uint32_t id)
{
    static const char name[] = "/" IPS_SPARE_PREFIX;
    size_t n = strlen(ips_core.dir);
    memcpy(out, ips_core.dir, n);
    memcpy(out + n, name, sizeof(name) - 1);
    *ips_format_number(out + n + sizeof(name) - 1, id % IPS_SPARES, 10) = '\0';
}

/* Returns the size of the spare segment; 0: it is not trustworthy. */
static uint64_t get_trusted_spare_size(int fd)
{
    struct stat st;
    return ips_sys_fstat(fd, &st) == 0 && st.st_mode == (S_IFREG | 0600) &&
                   st.st_uid == ips_sys_geteuid() && st.st_nlink == 1 &&
                   st.st_size >= (off_t)IPS_SPARE_FIRST_BYTES &&
                   st.st_size <= (off_t)IPS_SEGMENT_MAX_BYTES
               ? (uint64_t)st.st_size
               : 0;
}

/* Is the copy of `control` in the spare segment valid? Copies it to `copy`, if
 * that is not NULL. This first access to the page is a read, so that the kernel
 * also maps the other pages of the file that exist. */
static bool copy_and_check_spare_control(const struct ips_control *there,
                                         uint64_t bytes,
                                         struct ips_control *copy)
{
    if (!copy)
        return bytes == ips_core.control->segment_bytes &&
               ips_control_is_valid(there);
    memcpy(copy, there, sizeof(*copy));
    return ips_control_is_valid(copy) && copy->segment_bytes == bytes;
}

bool ips_spare_segment_take(uint32_t id, struct ips_control *copy,
                            struct ips_segment_map *out)
{
    /* The process has changed its user id, and the spare segments belong to the
     * former user. */
    static bool not_ours;
    char path[sizeof(ips_core.dir) + 32];
    if (not_ours)
        return false;
    format_spare_path(path, id);
    int fd =
        ips_sys_open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0);
    not_ours = fd == -EACCES;
    if (fd < 0)
        return false;
    uint64_t bytes = get_trusted_spare_size(fd);
    uint64_t base = bytes ? ips_sys_mmap(0, bytes + IPS_GAP_BYTES,
                                         PROT_READ | PROT_WRITE, MAP_SHARED, fd)
                          : (uint64_t)-1;
    ips_sys_close(fd);
    if (ips_sys_is_error(base))
        return false;
    struct ips_segment_header *h = (struct ips_segment_header *)base;
    struct ips_control *there = (struct ips_control *)(h + 1);
    uint32_t none = 0;
    /* Partner: withdraw_spare() in slave/drain/spare_segments.c stores
     * `withdrawn`, then checks `taken`. We store `taken`, then check
     * `withdrawn`, so at least one of the two notices the other. */
    if (!copy_and_check_spare_control(there, bytes, copy) ||
        !atomic_compare_exchange_strong(&h->taken, &none, 1) ||
        atomic_load(&h->withdrawn)) {
        ips_sys_munmap(base, bytes + IPS_GAP_BYTES);
        return false;
    }
    /* No reader reads the segment before its header has the magic. */
    memset(there, 0, sizeof(*there));
    ips_segment_hide_from_forks(base, bytes);
    *out = (struct ips_segment_map){base, base + IPS_SPARE_FIRST_BYTES,
                                    base + bytes, 0};
    return true;
}
