/* Makes sure that the loader of every process of the run can load our library.
 */
#include "agent/ipsrun/ipsrun.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/types.h"

/* Can any user enter every directory above `path`? */
static bool is_reachable_by_all_users(const char *path)
{
    char dir[IPS_PATH_BYTES];
    struct stat st;
    snprintf(dir, sizeof(dir), "%s", path);
    for (char *slash; (slash = strrchr(dir, '/')) != NULL;) {
        *slash = '\0';
        if (stat(*dir ? dir : "/", &st) < 0 || !(st.st_mode & S_IXOTH))
            return false;
    }
    return true;
}

/* Can any user open the file `path`? */
static bool is_readable_by_all_users(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && (st.st_mode & S_IROTH) &&
           is_reachable_by_all_users(path);
}

static int copy_fd_contents(int from, int to)
{
    char buffer[65536];
    ssize_t n;
    while ((n = read(from, buffer, sizeof(buffer))) > 0)
        for (ssize_t at = 0, m; at < n; at += m)
            if ((m = write(to, buffer + at, (size_t)(n - at))) < 0)
                return -1;
    return n < 0 ? -1 : 0;
}

/* Copies a file atomically (a temporary file, then rename), because another
 * ipsrun may make the same copy at the same time. Returns 0, or -1 and errno.
 */
static int copy_library(const char *path, const char *to)
{
    char part[IPS_PATH_BYTES + 16];
    snprintf(part, sizeof(part), "%s.%ld", to, (long)getpid());
    int from = open(path, O_RDONLY | O_CLOEXEC);
    int fd =
        from < 0
            ? -1
            : open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
                   0600);
    int rc = fd < 0 || copy_fd_contents(from, fd) < 0 || fchmod(fd, 0755) < 0 ||
                     rename(part, to) < 0
                 ? -1
                 : 0;
    int why = errno;
    if (fd >= 0)
        close(fd);
    if (from >= 0)
        close(from);
    if (rc < 0 && fd >= 0)
        (void)unlink(part);
    errno = why;
    return rc;
}

/* Makes a directory for `library` in the pool's root and fills `out` with the
 * path that the library will have there. The file keeps its name, by which a
 * recorded ipsrun recognises it in LD_PRELOAD. Returns false if the directory
 * cannot be made. */
static bool make_library_directory(const char *library, const char *pool,
                                   mode_t mode, char out[IPS_PATH_BYTES])
{
    struct stat st;
    uint64_t hash = ips_fnv1a(IPS_FNV_SEED, library, strlen(library));
    if (stat(library, &st) == 0) { /* so each build has its own directory */
        hash = ips_fnv1a(hash, &st.st_mtim, sizeof(st.st_mtim));
        hash = ips_fnv1a(hash, &st.st_size, sizeof(st.st_size));
    }
    int n =
        snprintf(out, IPS_PATH_BYTES, "%s/.preload-%016" PRIx64, pool, hash);
    if (n < 0 || n >= IPS_PATH_BYTES - 64 || strpbrk(out, ": "))
        return false;
    if (mkdir(out, 0700) < 0 && errno != EEXIST)
        return false;
    if (lstat(out, &st) < 0 || !S_ISDIR(st.st_mode) || st.st_uid != geteuid())
        return false; /* in root's pool, other users may create files */
    (void)chmod(out, mode);
    snprintf(out + n, (size_t)(IPS_PATH_BYTES - n), "%s",
             strrchr(library, '/'));
    return true;
}

/* Changes `library` to a symbolic link whose path has no blank and no colon,
 * which separate the entries of LD_PRELOAD. */
static int link_library_without_blanks(char library[IPS_PATH_BYTES],
                                       const char *pool)
{
    char link[IPS_PATH_BYTES];
    if (!make_library_directory(library, pool, 0700, link))
        return ipsrun_print_failure(
            "%s: the loader takes no path with a blank or a "
            "colon; install IPS elsewhere, or give --pool a "
            "plain path",
            library);
    if (symlink(library, link) < 0 && errno != EEXIST)
        return ipsrun_print_failure("link %s: %s", link, strerror(errno));
    snprintf(library, IPS_PATH_BYTES, "%s", link);
    return 0;
}

/* Copies the library into the pool, so that other users can load it, and
 * changes `library` to that path. A program that root starts may switch to
 * another user. Its loader could then not read a library in a private directory
 * of root, and would print an error. If other users cannot enter the pool
 * either, they are not recorded, so a copy would only take memory of the pool.
 */
static void copy_library_for_other_users(char library[IPS_PATH_BYTES],
                                         const char *pool)
{
    char own[IPS_PATH_BYTES], inside[IPS_PATH_BYTES + 2];
    struct statvfs fs;
    snprintf(inside, sizeof(inside), "%s/.", pool);
    if (is_reachable_by_all_users(inside) && statvfs(pool, &fs) == 0 &&
        !(fs.f_flag & ST_NOEXEC) &&
        make_library_directory(library, pool, 0711, own) &&
        (access(own, F_OK) == 0 || copy_library(library, own) == 0) &&
        is_readable_by_all_users(own))
        snprintf(library, IPS_PATH_BYTES, "%s", own);
}

int ipsrun_make_library_loadable(char library[IPS_PATH_BYTES], const char *pool)
{
    int rc =
        strpbrk(library, ": ") ? link_library_without_blanks(library, pool) : 0;
    if (rc == 0 && geteuid() == 0 && !is_readable_by_all_users(library))
        copy_library_for_other_users(library, pool);
    return rc;
}
