/*
 * Calls on paths: tests whether a file exists, and calls that create or remove
 * one.
 *
 * A thread that repeatedly tests one path, with sleeps between, waits until the
 * file is created. When it finds the file, a BLOCK record with op FOUND
 * (similar to RETRY) names the file by device and inode. When a thread creates
 * a file, a BLOCK record with op MADE does the same. MADE is written by rename,
 * mkdir, mkfifo, mknod, link and symlink, the calls that make a temporary file
 * or directory, the bind of a Unix socket, and an open that may have created an
 * empty file. If no earlier test of the thread failed, a test leaves no record
 * and costs only a check of its result.
 *
 * A thread that watches a directory (inotify) waits for a thread that changes
 * it. So a call that creates, removes or renames a file also writes a RELEASE
 * of kind WATCH for the file's name, and a read of inotify events an ACQUIRE.
 */
#include "agent/preload/at.h"

#pragma GCC diagnostic ignored "-Wpedantic" /* transparent unions: see fd.c */

#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "agent/preload/sync.h"
#include "agent/record/sys.h"

/* ---- tests --------------------------------------------------------------- */

static uint64_t path_key(int at, const char *path)
{
    uint64_t key = ips_fnv1a(IPS_FNV_SEED, &at, sizeof(at));
    return ips_fnv1a(key, path, strlen(path));
}

static void record_file_found_or_made(enum ips_op op, const struct stat *st,
                                      struct ips_moment call,
                                      struct ips_moment ret, uint64_t site)
{
    ips_record_io(IPS_REC_BLOCK, (uint32_t)st->st_dev, op, call, ret,
                  (int64_t)st->st_ino, 0, site, 0);
}

static void record_file_found_after_tests(int at, const char *path,
                                          uint64_t site)
{
    struct stat st;
    struct ips_retry_series run;
    if (!ips_retry_end_run(IPS_RETRY_PATH, path_key(at, path), &run) ||
        ips_sys6(SYS_newfstatat, at, (long)path, (long)&st, 0, 0, 0) < 0)
        return;
    record_file_found_or_made(
        IPS_OP_FOUND, &st, (struct ips_moment){.t = run.first, .cpu = run.cpu},
        ips_call_moment(), site);
}

int ips_note_file_existence_test(int at, const char *path, int r, uint64_t site)
{
    int saved = errno;
    bool runs = ips_me.extra && ips_me.extra->retry[IPS_RETRY_PATH].count;
    if (likely(r >= 0 && !runs))
        return r;
    if (!ips_wrap_must_record() || ips_sys_quiet)
        return r;
    if (r >= 0)
        record_file_found_after_tests(at, path, site);
    else if (saved == ENOENT && path)
        ips_retry_note_failure(IPS_RETRY_PATH, path_key(at, path),
                               ips_call_moment());
    errno = saved;
    return r;
}

IPS_EXPORT int stat(const char *restrict path, struct stat *restrict st)
{
    return ips_note_file_existence_test(
        AT_FDCWD, path, (ips_wrap_must_record(), REAL(stat)(path, st)),
        IPS_SITE);
}

IPS_EXPORT int lstat(const char *restrict path, struct stat *restrict st)
{
    return ips_note_file_existence_test(
        AT_FDCWD, path, (ips_wrap_must_record(), REAL(lstat)(path, st)),
        IPS_SITE);
}

IPS_EXPORT int fstatat(int at, const char *restrict path,
                       struct stat *restrict st, int flags)
{
    return ips_note_file_existence_test(
        at, path, (ips_wrap_must_record(), REAL(fstatat)(at, path, st, flags)),
        IPS_SITE);
}
/* struct stat64 is another type with the same layout */
int stat64(const char *restrict, struct stat64 *restrict)
    __attribute__((visibility("default"), alias("stat")));
int lstat64(const char *restrict, struct stat64 *restrict)
    __attribute__((visibility("default"), alias("lstat")));
int fstatat64(int, const char *restrict, struct stat64 *restrict, int)
    __attribute__((visibility("default"), alias("fstatat")));

IPS_EXPORT int statx(int at, const char *restrict path, int flags,
                     unsigned mask, struct statx *restrict st)
{
    return ips_note_file_existence_test(
        at, path,
        (ips_wrap_must_record(), REAL(statx)(at, path, flags, mask, st)),
        IPS_SITE);
}

IPS_EXPORT int access(const char *path, int mode)
{
    return ips_note_file_existence_test(
        AT_FDCWD, path, (ips_wrap_must_record(), REAL(access)(path, mode)),
        IPS_SITE);
}

IPS_EXPORT int faccessat(int at, const char *path, int mode, int flags)
{
    return ips_note_file_existence_test(
        at, path,
        (ips_wrap_must_record(), REAL(faccessat)(at, path, mode, flags)),
        IPS_SITE);
}

IPS_EXPORT int euidaccess(const char *path, int mode)
{
    return ips_note_file_existence_test(
        AT_FDCWD, path, (ips_wrap_must_record(), REAL(euidaccess)(path, mode)),
        IPS_SITE);
}
int eaccess(const char *, int) IPS_ALIAS(euidaccess);

/* ---- watched directories ------------------------------------------------- */

/* Returns the object of kind WATCH for the last component of a path of `len`
 * bytes. */
static struct ips_sync_object sync_object_of_watched_file(const char *path,
                                                          size_t len)
{
    while (len > 1 && path[len - 1] == '/')
        len--;
    size_t from = len;
    while (from > 0 && path[from - 1] != '/')
        from--;
    uint64_t name = ips_fnv1a(IPS_FNV_SEED, path + from, len - from);
    return (struct ips_sync_object){0, name | 1, 0};
}

/* Records that a call made at `call` created or removed the file at `path`:
 * writes a RELEASE record of kind WATCH. */
static void record_name_change_for_watchers(const char *path,
                                            struct ips_moment call,
                                            uint64_t site)
{
    struct ips_sync_object name =
        sync_object_of_watched_file(path, strlen(path));
    ips_record_release(IPS_SYNC_WATCH, &name, call, 1, site);
}

bool ips_record_inotify_read(const struct ips_io *io, const void *events,
                             size_t bytes, struct ips_moment ret)
{
    struct inotify_event first;
    if ((uint32_t)ips_fd_get(io->fd) != IPS_WATCH_INOTIFY ||
        bytes <= sizeof(first))
        return false;
    memcpy(&first, events, sizeof(first));
    const char *name = (const char *)events + sizeof(first);
    size_t most = ips_min_u64(first.len, bytes - sizeof(first));
    if (!(first.mask & (IN_CREATE | IN_DELETE | IN_MOVE)) || !most || !*name)
        return false;
    struct ips_sync_object object =
        sync_object_of_watched_file(name, strnlen(name, most));
    ips_record_acquire(IPS_SYNC_WATCH, &object, io->call, ret, 1, 0, io->site);
    return true;
}

/* ---- calls that create or remove a file ---------------------------------- */

void ips_record_file_created_by_open(const char *path, int fd, int flags,
                                     struct ips_moment call, uint64_t site)
{
    struct stat st;
    bool may_make = flags & O_CREAT && !ips_sys_quiet;
    if (may_make && ips_sys_fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
        st.st_size == 0) {
        record_name_change_for_watchers(path, call, site);
        record_file_found_or_made(IPS_OP_MADE, &st, call, call, site);
    }
}

/* Records a call that returned `r` and, if that is 0, created a file at `path`.
 * `call` is the moment just before the call. Returns `r`. */
static int record_file_created(int at, const char *path, int r,
                               struct ips_moment call, uint64_t site)
{
    struct stat st;
    int saved = errno;
    if (r == 0 && !ips_sys_quiet &&
        ips_sys6(SYS_newfstatat, at, (long)path, (long)&st, AT_SYMLINK_NOFOLLOW,
                 0, 0) == 0) {
        record_name_change_for_watchers(path, call, site);
        record_file_found_or_made(IPS_OP_MADE, &st, call, call, site);
    }
    errno = saved;
    return r;
}

static int record_file_removed(const char *path, int r, struct ips_moment call,
                               uint64_t site)
{
    int saved = errno;
    if (r == 0)
        record_name_change_for_watchers(path, call, site);
    errno = saved;
    return r;
}

/* Body of a wrapper: `real_call` creates a file, directory, link or FIFO at
 * `path`. */
#define MAKE(at, path, real_call)                                              \
    do {                                                                       \
        if (!ips_wrap_must_record())                                           \
            return real_call;                                                  \
        struct ips_moment call = ips_call_moment();                            \
        return record_file_created(at, path, real_call, call, IPS_SITE);       \
    } while (0)

/* Body of a wrapper: `real_call` removes the file at `path`. */
#define REMOVE(path, real_call)                                                \
    do {                                                                       \
        if (!ips_wrap_must_record())                                           \
            return real_call;                                                  \
        struct ips_moment call = ips_call_moment();                            \
        return record_file_removed(path, real_call, call, IPS_SITE);           \
    } while (0)

/* Body of a wrapper: `real_call` gives the file at `from` the path `to`. */
#define RENAME(from, at, to, real_call)                                        \
    do {                                                                       \
        if (!ips_wrap_must_record())                                           \
            return real_call;                                                  \
        struct ips_moment call = ips_call_moment();                            \
        int r = record_file_removed(from, real_call, call, IPS_SITE);          \
        return record_file_created(at, to, r, call, IPS_SITE);                 \
    } while (0)

IPS_EXPORT int rename(const char *from, const char *to)
{
    RENAME(from, AT_FDCWD, to, REAL(rename)(from, to));
}

IPS_EXPORT int renameat(int from_at, const char *from, int at, const char *to)
{
    RENAME(from, at, to, REAL(renameat)(from_at, from, at, to));
}

IPS_EXPORT int renameat2(int from_at, const char *from, int at, const char *to,
                         unsigned flags)
{
    RENAME(from, at, to, REAL(renameat2)(from_at, from, at, to, flags));
}

IPS_EXPORT int unlink(const char *path)
{
    REMOVE(path, REAL(unlink)(path));
}

IPS_EXPORT int unlinkat(int at, const char *path, int flags)
{
    REMOVE(path, REAL(unlinkat)(at, path, flags));
}

IPS_EXPORT int rmdir(const char *path)
{
    REMOVE(path, REAL(rmdir)(path));
}

IPS_EXPORT int remove(const char *path)
{
    REMOVE(path, REAL(remove)(path));
}

IPS_EXPORT int symlink(const char *to, const char *path)
{
    MAKE(AT_FDCWD, path, REAL(symlink)(to, path));
}

IPS_EXPORT int mkfifo(const char *path, mode_t mode)
{
    MAKE(AT_FDCWD, path, REAL(mkfifo)(path, mode));
}

IPS_EXPORT int mkdir(const char *path, mode_t mode)
{
    MAKE(AT_FDCWD, path, REAL(mkdir)(path, mode));
}

IPS_EXPORT int link(const char *from, const char *to)
{
    MAKE(AT_FDCWD, to, REAL(link)(from, to));
}

IPS_EXPORT int mknod(const char *path, mode_t mode, dev_t dev)
{
    MAKE(AT_FDCWD, path, REAL(mknod)(path, mode, dev));
}

IPS_EXPORT int symlinkat(const char *to, int at, const char *path)
{
    MAKE(at, path, REAL(symlinkat)(to, at, path));
}

IPS_EXPORT int mkfifoat(int at, const char *path, mode_t mode)
{
    MAKE(at, path, REAL(mkfifoat)(at, path, mode));
}

IPS_EXPORT int mkdirat(int at, const char *path, mode_t mode)
{
    MAKE(at, path, REAL(mkdirat)(at, path, mode));
}

IPS_EXPORT int linkat(int from_at, const char *from, int at, const char *to,
                      int flags)
{
    MAKE(at, to, REAL(linkat)(from_at, from, at, to, flags));
}

IPS_EXPORT int mknodat(int at, const char *path, mode_t mode, dev_t dev)
{
    MAKE(at, path, REAL(mknodat)(at, path, mode, dev));
}

/* Body of a wrapper: `real_call` creates a file at a path that it writes to
 * `path`, and returns a value of `type`, which is `failed` on error. */
#define MAKE_TEMPORARY(type, path, failed, real_call)                          \
    do {                                                                       \
        if (!ips_wrap_must_record())                                           \
            return real_call;                                                  \
        struct ips_moment call = ips_call_moment();                            \
        type made = real_call;                                                 \
        (void)record_file_created(AT_FDCWD, path, made == (failed) ? -1 : 0,   \
                                  call, IPS_SITE);                             \
        return made;                                                           \
    } while (0)

IPS_EXPORT int mkstemp(char *path)
{
    MAKE_TEMPORARY(int, path, -1, REAL(mkstemp)(path));
}
int mkstemp64(char *) IPS_ALIAS(mkstemp);

IPS_EXPORT int mkostemp(char *path, int flags)
{
    MAKE_TEMPORARY(int, path, -1, REAL(mkostemp)(path, flags));
}
int mkostemp64(char *, int) IPS_ALIAS(mkostemp);

IPS_EXPORT int mkstemps(char *path, int suffix)
{
    MAKE_TEMPORARY(int, path, -1, REAL(mkstemps)(path, suffix));
}
int mkstemps64(char *, int) IPS_ALIAS(mkstemps);

IPS_EXPORT int mkostemps(char *path, int suffix, int flags)
{
    MAKE_TEMPORARY(int, path, -1, REAL(mkostemps)(path, suffix, flags));
}
int mkostemps64(char *, int, int) IPS_ALIAS(mkostemps);

IPS_EXPORT char *mkdtemp(char *path)
{
    MAKE_TEMPORARY(char *, path, NULL, REAL(mkdtemp)(path));
}

IPS_EXPORT int bind(int fd, const struct sockaddr *name, socklen_t len)
{
    if (!ips_wrap_must_record())
        return REAL(bind)(fd, name, len);
    struct ips_moment call = ips_call_moment();
    int r = REAL(bind)(fd, name, len);
    struct sockaddr_un un = {0};
    if (r || !name || len < sizeof(un.sun_family) || len > sizeof(un) ||
        name->sa_family != AF_UNIX)
        return r;
    memcpy(&un, name, len);
    char path[sizeof(un.sun_path) + 1] = {0};
    memcpy(path, un.sun_path, sizeof(un.sun_path));
    return path[0] ? record_file_created(AT_FDCWD, path, r, call, IPS_SITE) : r;
}
