/*
 * Calls on paths: tests whether a file exists, and calls that create or remove
 * one.
 *
 * A thread that repeatedly tests one path, with sleeps between, waits until the
 * file is created. When it finds the file, a BLOCK record with op FOUND names
 * the file by device and inode. When a thread creates a file, a BLOCK record
 * with op MADE names it in the same way. MADE is written by rename,
 * mkdir, mkfifo, mknod, link and symlink, the calls that make a temporary file
 * or directory, the bind of a Unix socket, and an open that may have created an
 * empty file.
 *
 * A thread may also test a path until the file is gone, or try to create a file
 * that another one has created and will remove (a lock file). Then the last try
 * writes a BLOCK record with op RETRY, and an ACQUIRE of kind WATCH of the
 * file's name. A test of /proc/PID, or of a path below it, counts as a test
 * whether that process exists.
 *
 * A thread that watches a directory (inotify) waits for a thread that changes
 * it. So a call that creates, removes or renames a file also writes a RELEASE
 * of kind WATCH for the file's name, and a read of inotify events an ACQUIRE.
 */
#include "agent/preload/at.h"
#include "agent/preload/tries.h"

#pragma GCC diagnostic ignored "-Wpedantic" /* transparent unions: see fd.c */

#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "agent/preload/sync.h"
#include "agent/record/sys.h"

/* ---- hashes of names ----------------------------------------------------- */

/* Returns the length of the path (of `len` bytes) without its last component.
 */
static size_t length_of_directory(const char *path, size_t len)
{
    while (len > 1 && path[len - 1] == '/')
        len--;
    while (len > 0 && path[len - 1] != '/')
        len--;
    return len;
}

/* Returns the object that WATCH records have for the last component of a path
 * of `len` bytes. */
static struct ips_sync_object sync_object_of_watched_file(const char *path,
                                                          size_t len)
{
    while (len > 1 && path[len - 1] == '/')
        len--;
    size_t from = length_of_directory(path, len);
    uint64_t name = ips_fnv1a(IPS_FNV_SEED, path + from, len - from);
    return (struct ips_sync_object){0, name | 1, 0};
}

/* Returns a hash of device and inode of the directory that contains the last
 * component of `path`; 0: not known. */
static uint64_t hash_id_of_parent_directory(int at, const char *path)
{
    char directory[256];
    struct stat st;
    size_t len = length_of_directory(path, strlen(path));
    if (len >= sizeof(directory))
        return 0;
    memcpy(directory, len ? path : ".", len ? len : 1);
    directory[len ? len : 1] = 0;
    if (ips_sys6(SYS_newfstatat, at, (long)directory, (long)&st, 0, 0, 0) < 0)
        return 0;
    const uint64_t id[] = {st.st_dev, st.st_ino};
    return ips_fnv1a(IPS_FNV_SEED, id, sizeof(id)) | 1;
}

/* ---- tests whether a file exists ----------------------------------------- */

/* Returns a hash of `at` and `path`. It hashes 8 bytes at a time, because every
 * test for a file needs it. */
static uint64_t hash_directory_fd_and_path(int at, const char *path)
{
    size_t len = strlen(path), done = 0;
    uint64_t key = (uint64_t)(unsigned)at << 32 ^ len, word;
    if (len < sizeof(word))
        return ips_fnv1a(key, path, len);
    for (; done < len; done += sizeof(word)) {
        /* the last word overlaps with the one before */
        memcpy(&word, path + ips_min_u64(done, len - sizeof(word)),
               sizeof(word));
        key = (key ^ word) * 0x9e3779b97f4a7c15u;
        key ^= key >> 29;
    }
    return key;
}

static void record_file_found_or_made(enum ips_op op, const struct stat *st,
                                      struct ips_moment call,
                                      struct ips_moment ret, uint64_t site)
{
    ips_record_io_call(IPS_REC_BLOCK, (uint32_t)st->st_dev, op, call, ret,
                       (int64_t)st->st_ino, 0, site, 0);
}

static void record_file_found_if_tested_before(int at, const char *path,
                                               uint64_t key, uint64_t site)
{
    struct stat st;
    struct ips_retry_series run;
    if (!ips_retry_end_and_get_series(IPS_RETRY_PATH, key, &run) ||
        ips_sys6(SYS_newfstatat, at, (long)path, (long)&st, 0, 0, 0) < 0)
        return;
    record_file_found_or_made(
        IPS_OP_FOUND, &st, (struct ips_moment){.t = run.first, .cpu = run.cpu},
        ips_take_call_moment(), site);
}

/* Returns the pid if the path is /proc/PID or below it; else 0. */
static pid_t parse_pid_of_proc_path(const char *path)
{
    static const char proc[] = "/proc/";
    uint64_t pid = 0;
    if (likely(path[0] != '/' || path[1] != 'p') ||
        strncmp(path, proc, sizeof(proc) - 1) != 0)
        return 0;
    for (path += sizeof(proc) - 1; *path >= '0' && *path <= '9'; path++)
        pid = ips_min_u64(pid * 10 + (uint64_t)(*path - '0'), UINT32_MAX);
    return pid <= INT32_MAX && (*path == '/' || !*path) ? (pid_t)pid : 0;
}

/* If the thread has waited for this: records that no file has the name `path`
 * any more. */
static void record_file_gone_if_tested_before(int at, const char *path,
                                              uint64_t key,
                                              struct ips_moment call,
                                              uint64_t site)
{
    struct ips_retry_series run;
    if (!ips_retry_end_and_get_series(IPS_RETRY_GONE, key, &run))
        return;
    struct ips_sync_object name =
        sync_object_of_watched_file(path, strlen(path));
    name.object = hash_id_of_parent_directory(at, path);
    const struct ips_moment asked = {.t = run.last, .cpu = call.cpu};
    ips_retry_write_series_record(&run, call, site);
    ips_record_acquire(IPS_SYNC_WATCH, &name, asked, call, IPS_GOT_SPUN, 0,
                       site);
}

int ips_record_or_count_existence_test(int at, const char *path, int r,
                                       uint64_t site)
{
    int saved = errno;
    if (!path || (r < 0 && saved != ENOENT) ||
        !ips_wrap_start_library_and_check_recording() || ips_sys_quiet)
        return r;
    struct ips_moment call = ips_take_call_moment();
    pid_t process = parse_pid_of_proc_path(path);
    uint64_t key = process ? 0 : hash_directory_fd_and_path(at, path);
    if (process) {
        bool exists = r >= 0 || ips_sys3(SYS_kill, process, 0, 0) != -ESRCH;
        ips_record_or_count_process_test(process, exists, call, site);
    } else if (r >= 0) {
        record_file_found_if_tested_before(at, path, key, site);
        ips_retry_count_failed_try(IPS_RETRY_GONE, key, &call);
    } else {
        record_file_gone_if_tested_before(at, path, key, call, site);
        ips_retry_count_failed_try(IPS_RETRY_PATH, key, &call);
    }
    errno = saved;
    return r;
}

IPS_EXPORT int stat(const char *restrict path, struct stat *restrict st)
{
    return ips_record_or_count_existence_test(
        AT_FDCWD, path,
        (ips_wrap_start_library_and_check_recording(), REAL(stat)(path, st)),
        IPS_SITE);
}

IPS_EXPORT int lstat(const char *restrict path, struct stat *restrict st)
{
    return ips_record_or_count_existence_test(
        AT_FDCWD, path,
        (ips_wrap_start_library_and_check_recording(), REAL(lstat)(path, st)),
        IPS_SITE);
}

IPS_EXPORT int fstatat(int at, const char *restrict path,
                       struct stat *restrict st, int flags)
{
    return ips_record_or_count_existence_test(
        at, path,
        (ips_wrap_start_library_and_check_recording(),
         REAL(fstatat)(at, path, st, flags)),
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
    return ips_record_or_count_existence_test(
        at, path,
        (ips_wrap_start_library_and_check_recording(),
         REAL(statx)(at, path, flags, mask, st)),
        IPS_SITE);
}

IPS_EXPORT int access(const char *path, int mode)
{
    return ips_record_or_count_existence_test(
        AT_FDCWD, path,
        (ips_wrap_start_library_and_check_recording(),
         REAL(access)(path, mode)),
        IPS_SITE);
}

IPS_EXPORT int faccessat(int at, const char *path, int mode, int flags)
{
    return ips_record_or_count_existence_test(
        at, path,
        (ips_wrap_start_library_and_check_recording(),
         REAL(faccessat)(at, path, mode, flags)),
        IPS_SITE);
}

IPS_EXPORT int euidaccess(const char *path, int mode)
{
    return ips_record_or_count_existence_test(
        AT_FDCWD, path,
        (ips_wrap_start_library_and_check_recording(),
         REAL(euidaccess)(path, mode)),
        IPS_SITE);
}
int eaccess(const char *, int) IPS_ALIAS(euidaccess);

/* ---- watched directories ------------------------------------------------- */

/* Records for threads that watch the directory (inotify) that a call made at
 * `call` created or removed the file at `path`: writes a RELEASE record of kind
 * WATCH. */
static void record_name_change_for_watchers(int at, const char *path,
                                            enum ips_name_change change,
                                            struct ips_moment call,
                                            uint64_t site)
{
    struct ips_sync_object name =
        sync_object_of_watched_file(path, strlen(path));
    name.object = hash_id_of_parent_directory(at, path);
    ips_record_release(IPS_SYNC_WATCH, &name, call, (int)change, site);
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

static void record_file_made(int at, const char *path, const struct stat *st,
                             struct ips_moment call, uint64_t site)
{
    record_name_change_for_watchers(at, path, IPS_NAME_TAKEN, call, site);
    record_file_found_or_made(IPS_OP_MADE, st, call, call, site);
}

void ips_record_open_to_create(int at, const char *path, int fd, int flags,
                               struct ips_moment call, uint64_t site)
{
    struct stat st;
    if (ips_sys_quiet || !ips_wrap_start_library_and_check_recording())
        return;
    if (fd < 0) {
        if (errno == EEXIST)
            ips_retry_count_failed_try(
                IPS_RETRY_GONE, hash_directory_fd_and_path(at, path), &call);
        return;
    }
    if (flags & O_EXCL)
        record_file_gone_if_tested_before(
            at, path, hash_directory_fd_and_path(at, path), call, site);
    if (ips_sys_fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == 0)
        record_file_made(at, path, &st, call, site);
}

/* Records a call that returned `r` and, if that is 0, put a file at `path`.
 * `call` is the moment just before the call. Returns `r`. */
static int record_file_put_at_path(int at, const char *path, int r,
                                   struct ips_moment call, uint64_t site)
{
    struct stat st;
    int saved = errno;
    if (r == 0 && !ips_sys_quiet &&
        ips_sys6(SYS_newfstatat, at, (long)path, (long)&st, AT_SYMLINK_NOFOLLOW,
                 0, 0) == 0)
        record_file_made(at, path, &st, call, site);
    errno = saved;
    return r;
}

/* Like record_file_put_at_path, for a call that fails if there is a file at
 * `path` already: notes such a failed try, or that earlier tries have ended. */
static int record_file_created_or_failed_try(int at, const char *path, int r,
                                             struct ips_moment call,
                                             uint64_t site)
{
    int saved = errno;
    if (r < 0 && saved == EEXIST && path && !ips_sys_quiet)
        ips_retry_count_failed_try(IPS_RETRY_GONE,
                                   hash_directory_fd_and_path(at, path), &call);
    if (r == 0 && !ips_sys_quiet)
        record_file_gone_if_tested_before(
            at, path, hash_directory_fd_and_path(at, path), call, site);
    errno = saved;
    return record_file_put_at_path(at, path, r, call, site);
}

static int record_file_removed(int at, const char *path, int r,
                               struct ips_moment call, uint64_t site)
{
    int saved = errno;
    if (r == 0) {
        ips_retry_drop_series(IPS_RETRY_GONE,
                              hash_directory_fd_and_path(at, path));
        record_name_change_for_watchers(at, path, IPS_NAME_FREED, call, site);
    }
    errno = saved;
    return r;
}

/* Body of a wrapper: `real_call` creates a file, directory, link or FIFO at
 * `path`. */
#define MAKE(at, path, real_call)                                              \
    do {                                                                       \
        if (!ips_wrap_start_library_and_check_recording())                     \
            return real_call;                                                  \
        struct ips_moment call = ips_take_call_moment();                       \
        return record_file_created_or_failed_try(at, path, real_call, call,    \
                                                 IPS_SITE);                    \
    } while (0)

/* Body of a wrapper: `real_call` removes the file at `path`. */
#define REMOVE(at, path, real_call)                                            \
    do {                                                                       \
        if (!ips_wrap_start_library_and_check_recording())                     \
            return real_call;                                                  \
        struct ips_moment call = ips_take_call_moment();                       \
        return record_file_removed(at, path, real_call, call, IPS_SITE);       \
    } while (0)

/* Body of a wrapper: `real_call` gives the file at `from` the path `to`. */
#define RENAME(from_at, from, at, to, flags, real_call)                        \
    do {                                                                       \
        if (!ips_wrap_start_library_and_check_recording())                     \
            return real_call;                                                  \
        struct ips_moment call = ips_take_call_moment();                       \
        int r = real_call;                                                     \
        if (!((flags)&RENAME_EXCHANGE))                                        \
            (void)record_file_removed(from_at, from, r, call, IPS_SITE);       \
        return (flags)&RENAME_NOREPLACE                                        \
                   ? record_file_created_or_failed_try(at, to, r, call,        \
                                                       IPS_SITE)               \
                   : record_file_put_at_path(at, to, r, call, IPS_SITE);       \
    } while (0)

IPS_EXPORT int rename(const char *from, const char *to)
{
    RENAME(AT_FDCWD, from, AT_FDCWD, to, 0u, REAL(rename)(from, to));
}

IPS_EXPORT int renameat(int from_at, const char *from, int at, const char *to)
{
    RENAME(from_at, from, at, to, 0u, REAL(renameat)(from_at, from, at, to));
}

IPS_EXPORT int renameat2(int from_at, const char *from, int at, const char *to,
                         unsigned flags)
{
    RENAME(from_at, from, at, to, flags,
           REAL(renameat2)(from_at, from, at, to, flags));
}

IPS_EXPORT int unlink(const char *path)
{
    REMOVE(AT_FDCWD, path, REAL(unlink)(path));
}

IPS_EXPORT int unlinkat(int at, const char *path, int flags)
{
    REMOVE(at, path, REAL(unlinkat)(at, path, flags));
}

IPS_EXPORT int rmdir(const char *path)
{
    REMOVE(AT_FDCWD, path, REAL(rmdir)(path));
}

IPS_EXPORT int remove(const char *path)
{
    REMOVE(AT_FDCWD, path, REAL(remove)(path));
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
        if (!ips_wrap_start_library_and_check_recording())                     \
            return real_call;                                                  \
        struct ips_moment call = ips_take_call_moment();                       \
        type made = real_call;                                                 \
        (void)record_file_created_or_failed_try(                               \
            AT_FDCWD, path, made == (failed) ? -1 : 0, call, IPS_SITE);        \
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
    if (!ips_wrap_start_library_and_check_recording())
        return REAL(bind)(fd, name, len);
    struct ips_moment call = ips_take_call_moment();
    int r = REAL(bind)(fd, name, len);
    struct sockaddr_un un = {0};
    if (r || !name || len < sizeof(un.sun_family) || len > sizeof(un) ||
        name->sa_family != AF_UNIX)
        return r;
    memcpy(&un, name, len);
    char path[sizeof(un.sun_path) + 1] = {0};
    memcpy(path, un.sun_path, sizeof(un.sun_path));
    return path[0] ? record_file_created_or_failed_try(AT_FDCWD, path, r, call,
                                                       IPS_SITE)
                   : r;
}
