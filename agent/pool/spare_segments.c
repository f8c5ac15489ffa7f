/* Makes spare segments; agent/pool/format.h describes them. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/pool/pool.h"

#define NEW_NAME IPS_SPARE_PREFIX "new"

void ips_spare_segment_format_name(char out[32], unsigned n)
{
    snprintf(out, 32, IPS_SPARE_PREFIX "%u", n);
}

/* Fills the new file of a spare segment. Returns its allocated bytes; 0: no
 * space. */
static uint64_t
set_size_and_control_of_spare_segment(int fd, const struct ips_control *c)
{
    static unsigned char first[IPS_SPARE_FIRST_BYTES];
    struct stat st;
    memcpy(first + sizeof(struct ips_segment_header), c, sizeof(*c));
    if (fchmod(fd, 0600) < 0 || /* the umask may have changed the mode */
        ftruncate(fd, (off_t)c->segment_bytes) < 0 ||
        pwrite(fd, first, sizeof(first), 0) != (ssize_t)sizeof(first) ||
        fstat(fd, &st) < 0)
        return 0;
    return (uint64_t)st.st_blocks * 512;
}

int ips_spare_segment_make(int dirfd, unsigned n,
                           const struct ips_control *control, uint64_t *bytes)
{
    char name[32];
    const int flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    ips_spare_segment_format_name(name, n);
    int fd = openat(dirfd, NEW_NAME, flags, 0600);
    if (fd < 0 && errno == EEXIST) { /* left by a slave that was killed */
        (void)unlinkat(dirfd, NEW_NAME, 0);
        fd = openat(dirfd, NEW_NAME, flags, 0600);
    }
    if (fd < 0)
        return -1;
    *bytes = set_size_and_control_of_spare_segment(fd, control);
    if (*bytes &&
        renameat2(dirfd, NEW_NAME, dirfd, name, RENAME_NOREPLACE) == 0)
        return fd;
    (void)unlinkat(dirfd, NEW_NAME, 0);
    close(fd);
    return -1;
}
