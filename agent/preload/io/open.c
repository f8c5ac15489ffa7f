/*
 * Wrappers of calls that open a file by its path. The open of one end of a FIFO
 * waits for the open of the other end. fopen opens its file inside the C
 * library, where the wrapper of open does not see it, so it has its own.
 *
 * Each open of a FIFO is a RELEASE for threads that wait in the open of the
 * other end (`object` is that end's enum ips_chan_side), and an ACQUIRE if it
 * waited itself. The RELEASE comes first, so that two opens that wait for each
 * other form no cycle.
 *
 * A FIFO is recognised by fcntl(F_GETPIPE_SZ), which fails for any other file
 * and costs half as much as fstat. The fstat is left to the first use of the
 * file; often the program calls fstat itself.
 */
#include "agent/preload/wrap.h"

#include "agent/preload/at.h"
#include "agent/preload/sync.h"
#include "agent/record/sys.h"

static void record_open_if_fifo(int fd, struct ips_moment call, uint64_t site)
{
    struct stat st;
    struct ips_moment ret = ips_return_moment(&call);
    long flags = ips_sys3(SYS_fcntl, fd, F_GETFL, 0);
    if (flags < 0 || ips_sys_fstat(fd, &st) < 0 || !S_ISFIFO(st.st_mode))
        return;
    bool reads = (flags & O_ACCMODE) != O_WRONLY;
    bool writes = (flags & O_ACCMODE) != O_RDONLY;
    struct ips_sync_object thing = {st.st_dev, st.st_ino, IPS_SIDE_WRITE};
    if (reads)
        ips_record_release(IPS_SYNC_FIFO, &thing, call, -1, site);
    thing.object = IPS_SIDE_READ;
    if (writes)
        ips_record_release(IPS_SYNC_FIFO, &thing, call, -1, site);
    if (reads != writes && !(flags & O_NONBLOCK) &&
        ips_was_blocked(&call, &ret)) {
        thing.object = reads ? IPS_SIDE_READ : IPS_SIDE_WRITE;
        ips_record_acquire(IPS_SYNC_FIFO, &thing, call, ret, 0, 0, site);
    }
}

/* Records an open that returned `fd`, and returns `fd`. `stream`: the C library
 * opened it for a stdio stream, which uses it at once by internal calls, so the
 * kernel is asked now what kind of file it is. */
static int register_opened_fd_and_record_fifo(int fd, bool stream,
                                              struct ips_moment call,
                                              uint64_t site)
{
    if (fd < 0 || (unsigned)fd >= IPS_FD_MAX)
        return fd;
    int saved = errno;
    ips_me.opens++;
    ips_fd_clear(fd);
    uint64_t word = ips_fd_get(fd);
    if (!stream && ips_sys3(SYS_fcntl, fd, F_GETPIPE_SZ, 0) == -EBADF)
        ips_fd_store_if_unchanged(fd, word, IPS_FD_OPENED, 0, 0);
    else if (ips_fd_class(ips_chan_identify_and_record(fd, word, NULL)) ==
             IPS_FD_STREAM)
        record_open_if_fifo(fd, call, site);
    errno = saved;
    return fd;
}

/* Records whether an open that returned `fd` may have created the file at its
 * path, or showed that the file does not exist. Returns `fd`. */
static int record_created_or_missing_at_open(int fd, int at, const char *path,
                                             int flags, struct ips_moment call,
                                             uint64_t site)
{
    int saved = errno;
    if (!(flags & O_CREAT))
        return ips_record_or_count_existence_test(at, path, fd, site);
    ips_record_open_to_create(at, path, fd, flags, call, site);
    errno = saved;
    return fd;
}

int ips_openat_at(int at, const char *path, int flags, mode_t mode,
                  uint64_t site)
{
    if (!ips_wrap_start_library_and_check_recording())
        return REAL(openat)(at, path, flags, mode);
    IPS_WAIT_MARK;
    struct ips_moment call = ips_take_call_moment();
    IPS_SYNC_BEGINS(IPS_SYNC_FIFO, 0, 0, site, call);
    int fd = REAL(openat)(at, path, flags, mode);
    return record_created_or_missing_at_open(
        register_opened_fd_and_record_fifo(fd, false, call, site), at, path,
        flags, call, site);
}

/* Body of a wrapper that opens `path`: makes and records `real_call`, which
 * returns a descriptor or -1. */
#define OPEN(at, path, flags, real_call)                                       \
    do {                                                                       \
        if (!ips_wrap_start_library_and_check_recording())                     \
            return real_call;                                                  \
        IPS_WAIT_MARK;                                                         \
        struct ips_moment call = ips_take_call_moment();                       \
        IPS_SYNC_BEGINS(IPS_SYNC_FIFO, 0, 0, IPS_SITE, call);                  \
        int opened = register_opened_fd_and_record_fifo(real_call, false,      \
                                                        call, IPS_SITE);       \
        return record_created_or_missing_at_open(opened, at, path, flags,      \
                                                 call, IPS_SITE);              \
    } while (0)

static mode_t mode_argument(va_list ap, int flags)
{
    bool creates = (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE;
    return creates ? va_arg(ap, mode_t) : 0;
}

IPS_EXPORT int open(const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    mode_t mode = mode_argument(ap, flags);
    va_end(ap);
    OPEN(AT_FDCWD, path, flags, REAL(open)(path, flags, mode));
}
int open64(const char *, int, ...) IPS_ALIAS(open);
int __open(const char *, int, ...) IPS_ALIAS(open);
int __open64(const char *, int, ...) IPS_ALIAS(open);

IPS_EXPORT int openat(int at, const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    mode_t mode = mode_argument(ap, flags);
    va_end(ap);
    OPEN(at, path, flags, REAL(openat)(at, path, flags, mode));
}
int openat64(int, const char *, int, ...) IPS_ALIAS(openat);

int __open_2(const char *path, int flags);
IPS_EXPORT int __open_2(const char *path, int flags)
{
    OPEN(AT_FDCWD, path, flags, REAL(__open_2)(path, flags));
}
int __open64_2(const char *, int) IPS_ALIAS(__open_2);

int __openat_2(int at, const char *path, int flags);
IPS_EXPORT int __openat_2(int at, const char *path, int flags)
{
    OPEN(at, path, flags, REAL(__openat_2)(at, path, flags));
}
int __openat64_2(int, const char *, int) IPS_ALIAS(__openat_2);

IPS_EXPORT int creat(const char *path, mode_t mode)
{
    OPEN(AT_FDCWD, path, O_CREAT, REAL(creat)(path, mode));
}
int creat64(const char *, mode_t) IPS_ALIAS(creat);

/* fopen needs its own wrapper: the C library opens the file by an internal
 * call. */
IPS_EXPORT FILE *fopen(const char *restrict path, const char *restrict mode)
{
    if (!ips_wrap_start_library_and_check_recording())
        return REAL(fopen)(path, mode);
    IPS_WAIT_MARK;
    struct ips_moment call = ips_take_call_moment();
    IPS_SYNC_BEGINS(IPS_SYNC_FIFO, 0, 0, IPS_SITE, call);
    FILE *f = REAL(fopen)(path, mode);
    int fd =
        f ? register_opened_fd_and_record_fifo(f->_fileno, true, call, IPS_SITE)
          : -1;
    int flags = !mode || mode[0] == 'r' ? 0
                : strchr(mode, 'x')     ? O_CREAT | O_EXCL
                                        : O_CREAT;
    record_created_or_missing_at_open(fd, AT_FDCWD, path, flags, call,
                                      IPS_SITE);
    return f;
}
FILE *fopen64(const char *restrict, const char *restrict) IPS_ALIAS(fopen);

/* freopen flushes the stream and closes its descriptor by internal calls, which
 * no wrapper sees. So the stream is flushed, and the close recorded, here
 * first. */
IPS_EXPORT FILE *freopen(const char *restrict path, const char *restrict mode,
                         FILE *restrict f)
{
    if (!ips_wrap_start_library_and_check_recording())
        return REAL(freopen)(path, mode, f);
    int saved = errno;
    if (f->_fileno >= 0) {
        if (f->_IO_write_ptr > f->_IO_write_base)
            fflush(f);
        ips_chan_record_close_and_clear(f->_fileno, IPS_SITE);
    }
    errno = saved;
    IPS_WAIT_MARK;
    struct ips_moment call = ips_take_call_moment();
    IPS_SYNC_BEGINS(IPS_SYNC_FIFO, 0, 0, IPS_SITE, call);
    FILE *r = REAL(freopen)(path, mode, f);
    if (r)
        register_opened_fd_and_record_fifo(r->_fileno, true, call, IPS_SITE);
    return r;
}
FILE *freopen64(const char *restrict, const char *restrict, FILE *restrict)
    IPS_ALIAS(freopen);
