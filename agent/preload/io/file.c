/*
 * Wrappers of calls on files: waits for the disk and for file locks. Also
 * eventfds and pseudo terminals.
 *
 * A read or write of a file that does not wait must stay cheap: it costs two
 * stamps and leaves no record. A call that takes SLOW_NS or more is examined:
 * it was a wait if the thread was off the CPU for that long and gave up the CPU
 * itself. Copying a large buffer runs on the CPU, and a preempted thread did
 * not give the CPU up, so neither is a wait.
 *
 * Both tests need values from before the call. Reading them costs system calls,
 * too many for every read, so each thread keeps one reading, `anchor`, which is
 * at most ANCHOR_NS old when a call starts. CPU used since the anchor counts as
 * used in the call, so a wait may be recorded as shorter than it was, by up to
 * that much, but never as longer.
 *
 * SLOW_NS, 50 us, is less than most disks need for one block, and more than
 * nearly all copies out of the page cache take; call stacks are recorded from
 * the same threshold on. Shorter waits are off-CPU time without a record; they
 * cannot change the path by more than their sum.
 *
 * flock and fcntl locks: ACQUIRE if the call waited, RELEASE at the unlock.
 * RELEASE is also recorded at the close of a descriptor by which this process
 * took a lock, and at the end of the process. The release of a lock by exec, by
 * SIGKILL, by closing another descriptor of the file (fcntl), or by changing a
 * write lock to a read lock is not recorded.
 */
#include "agent/preload/at.h"
#include "agent/preload/tries.h"

#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>

#include "agent/preload/sample/sample.h"
#include "agent/preload/sync.h"
#include "agent/record/sys.h"

#define SLOW_NS 50000u
#define ANCHOR_NS 200000u

static IPS_TLS struct anchor {
    uint64_t t, cpu;
    long switches; /* voluntary context switches of the thread */
} anchor;

static bool get_thread_rusage(struct rusage *ru)
{
    return ips_sys3(SYS_getrusage, RUSAGE_THREAD, (long)ru, 0) == 0;
}

static uint64_t ns_to_coarse_stamps(uint64_t ns)
{
    return ips_wrap_blocked * (ns / 2000);
}

/* Sets the anchor (readings of CPU time and context switches) at the start of a
 * call. Page faults up to now happened before the call and are recorded now,
 * unless a signal handler makes this call within another one. `depth`: the
 * value of open_depth if no handler does. */
static __attribute__((noinline)) void
refresh_cpu_and_switch_readings(uint32_t depth)
{
    IPS_APART;
    struct rusage ru;
    anchor = (struct anchor){ips_core_stamp_now(), ips_core_thread_cpu_ns(), 0};
    if (!get_thread_rusage(&ru))
        return;
    anchor.switches = ru.ru_nvcsw;
    if (ips_me.open_depth == depth)
        ips_page_faults_write_if_new_in_counts(&ru, anchor.t, anchor.cpu);
}

struct ips_moment ips_file_call_take_start_moment(bool exact)
{
    uint64_t t = ips_core_stamp_now();
    if (exact || unlikely(t - anchor.t > ns_to_coarse_stamps(ANCHOR_NS))) {
        /* fsync and the like are not in the list of open calls */
        refresh_cpu_and_switch_readings(exact ? 0 : 1);
        t = ips_core_stamp_now();
    }
    return (struct ips_moment){.t = t, .cpu = anchor.cpu};
}

static __attribute__((noinline)) void
record_disk_wait_if_slept(const struct ips_moment *call, uint64_t t_ret,
                          int64_t result, int err, uint64_t site)
{
    IPS_APART;
    struct ips_moment ret = {.t = t_ret, .cpu = ips_core_thread_cpu_ns()};
    struct rusage ru;
    if (!get_thread_rusage(&ru))
        return;
    /* page faults within the call need no record: its wait contains them */
    ips_page_faults_store_seen_counts(&ru);
    bool gave_up = ru.ru_nvcsw != anchor.switches;
    anchor = (struct anchor){ips_core_stamp_now(), ret.cpu, ru.ru_nvcsw};
    /* If CPU time went backwards, the anchor is from before a fork, so it
     * belongs to another thread. */
    if (!gave_up || ret.cpu < call->cpu)
        return;
    uint64_t asleep =
        ips_sub_sat(ips_wrap_stamps_to_ns(ips_sub_sat(t_ret, call->t)),
                    ret.cpu - call->cpu);
    if (asleep >= SLOW_NS)
        ips_record_io_call(IPS_REC_BLOCK, 0, IPS_OP_DISK, *call, ret, result,
                           result < 0 ? err : 0,
                           ips_site_look_up_if_deferred(site), 0);
}

/* Takes a sample if one is due at the return of a file call. The CPU time in
 * `call` is only an estimate: it is first raised to the least value that is
 * possible. */
static __attribute__((noinline, cold)) void
take_sample_if_due_after_file_call(const struct ips_moment *call, uint64_t t)
{
    int saved = errno;
    struct ips_moment ret = {.t = t, .cpu = ips_core_thread_cpu_ns()},
                      from = *call;
    uint64_t least =
        ips_sub_sat(ret.cpu, ips_wrap_stamps_to_ns(ips_sub_sat(t, call->t)));
    from.cpu = ips_max_u64(from.cpu, least);
    ips_sample_check_call_return(&from, &ret);
    errno = saved;
}

void ips_file_call_count_and_record_if_slow(const struct ips_moment *call,
                                            int64_t result, uint64_t site)
{
    uint64_t t = ips_core_stamp_now();
    if (unlikely(t >= ~ips_me.sample_off))
        take_sample_if_due_after_file_call(call, t);
    bool quick = t - call->t < ns_to_coarse_stamps(SLOW_NS) || t < call->t;
    if (likely(++ips_me.file_calls < IPS_CALLS_EVERY && quick))
        return;
    int saved = errno;
    ips_write_calls_record_if_enough(IPS_CALLS_EVERY);
    if (!quick)
        record_disk_wait_if_slept(call, t, result, saved, site);
    errno = saved;
}

/* --- calls on files only -------------------------------------------------- */

/* Starts the record of a pread or similar call. False: `fd` is not a file, so
 * the call will fail. */
static inline bool begin_io_and_check_fd_is_file(struct ips_io *io, int fd,
                                                 uint64_t site)
{
    return ips_io_open_call_if_recorded(io, IPS_REC_RECV, fd, site) &&
           io->klass == IPS_FD_FILE;
}

#define ON_FILE(type, fd, place, real_call)                                    \
    do {                                                                       \
        IPS_IO(io);                                                            \
        if (!begin_io_and_check_fd_is_file(&io, fd, place))                    \
            return ips_wrap_start_library_and_check_recording(), real_call;    \
        type r = real_call;                                                    \
        ips_file_call_count_and_record_if_slow(&io.call, (int64_t)r, io.site); \
        return r;                                                              \
    } while (0)

ssize_t ips_pread_at(int fd, void *buf, size_t n, off_t at, uint64_t site)
{
    ON_FILE(ssize_t, fd, site, REAL(pread)(fd, buf, n, at));
}

IPS_EXPORT ssize_t pread(int fd, void *buf, size_t n, off_t at)
{
    return ips_pread_at(fd, buf, n, at, IPS_SITE);
}
ssize_t pread64(int, void *, size_t, off64_t) IPS_ALIAS(pread);
ssize_t __pread64(int, void *, size_t, off64_t) IPS_ALIAS(pread);

ssize_t __pread_chk(int fd, void *buf, size_t n, off_t at, size_t size);
IPS_EXPORT ssize_t __pread_chk(int fd, void *buf, size_t n, off_t at,
                               size_t size)
{
    ON_FILE(ssize_t, fd, IPS_SITE, REAL(__pread_chk)(fd, buf, n, at, size));
}
ssize_t __pread64_chk(int, void *, size_t, off_t, size_t)
    IPS_ALIAS(__pread_chk);

ssize_t ips_pwrite_at(int fd, const void *buf, size_t n, off_t at,
                      uint64_t site)
{
    ON_FILE(ssize_t, fd, site, REAL(pwrite)(fd, buf, n, at));
}

IPS_EXPORT ssize_t pwrite(int fd, const void *buf, size_t n, off_t at)
{
    return ips_pwrite_at(fd, buf, n, at, IPS_SITE);
}
ssize_t pwrite64(int, const void *, size_t, off64_t) IPS_ALIAS(pwrite);
ssize_t __pwrite64(int, const void *, size_t, off64_t) IPS_ALIAS(pwrite);

ssize_t ips_preadv_at(int fd, const struct iovec *iov, int count, off_t at,
                      uint64_t site)
{
    ON_FILE(ssize_t, fd, site, REAL(preadv)(fd, iov, count, at));
}

IPS_EXPORT ssize_t preadv(int fd, const struct iovec *iov, int count, off_t at)
{
    return ips_preadv_at(fd, iov, count, at, IPS_SITE);
}
ssize_t preadv64(int, const struct iovec *, int, off64_t) IPS_ALIAS(preadv);

ssize_t ips_pwritev_at(int fd, const struct iovec *iov, int count, off_t at,
                       uint64_t site)
{
    ON_FILE(ssize_t, fd, site, REAL(pwritev)(fd, iov, count, at));
}

IPS_EXPORT ssize_t pwritev(int fd, const struct iovec *iov, int count, off_t at)
{
    return ips_pwritev_at(fd, iov, count, at, IPS_SITE);
}
ssize_t pwritev64(int, const struct iovec *, int, off64_t) IPS_ALIAS(pwritev);

ssize_t ips_copy_file_range_at(int from, off64_t *from_at, int to,
                               off64_t *to_at, size_t n, unsigned flags,
                               uint64_t site)
{
    ON_FILE(ssize_t, from, site,
            REAL(copy_file_range)(from, from_at, to, to_at, n, flags));
}

IPS_EXPORT ssize_t copy_file_range(int from, off64_t *from_at, int to,
                                   off64_t *to_at, size_t n, unsigned flags)
{
    return ips_copy_file_range_at(from, from_at, to, to_at, n, flags, IPS_SITE);
}

/* Body of a wrapper of a call that exists to wait for the disk (fsync): takes
 * the thread's readings of CPU time and context switches anew before the call.
 */
#define TO_DISK(type, place, real_call)                                        \
    do {                                                                       \
        if (!ips_wrap_start_library_and_check_recording())                     \
            return real_call;                                                  \
        struct ips_moment call = ips_file_call_take_start_moment(true);        \
        type r = real_call;                                                    \
        ips_file_call_count_and_record_if_slow(&call, (int64_t)r, place);      \
        return r;                                                              \
    } while (0)

int ips_fsync_at(int fd, uint64_t site)
{
    TO_DISK(int, site, REAL(fsync)(fd));
}

IPS_EXPORT int fsync(int fd)
{
    return ips_fsync_at(fd, IPS_SITE);
}

int ips_fdatasync_at(int fd, uint64_t site)
{
    TO_DISK(int, site, REAL(fdatasync)(fd));
}

IPS_EXPORT int fdatasync(int fd)
{
    return ips_fdatasync_at(fd, IPS_SITE);
}

int ips_syncfs_at(int fd, uint64_t site)
{
    TO_DISK(int, site, REAL(syncfs)(fd));
}

IPS_EXPORT int syncfs(int fd)
{
    return ips_syncfs_at(fd, IPS_SITE);
}

IPS_EXPORT void sync(void)
{
    if (!ips_wrap_start_library_and_check_recording()) {
        REAL(sync)();
        return;
    }
    struct ips_moment call = ips_file_call_take_start_moment(true);
    REAL(sync)();
    ips_file_call_count_and_record_if_slow(&call, 0, IPS_SITE);
}

int ips_sync_file_range_at(int fd, off64_t from, off64_t n, unsigned flags,
                           uint64_t site)
{
    TO_DISK(int, site, REAL(sync_file_range)(fd, from, n, flags));
}

IPS_EXPORT int sync_file_range(int fd, off64_t from, off64_t n, unsigned flags)
{
    return ips_sync_file_range_at(fd, from, n, flags, IPS_SITE);
}

int ips_msync_at(void *at, size_t n, int flags, uint64_t site)
{
    TO_DISK(int, site, REAL(msync)(at, n, flags));
}

IPS_EXPORT int msync(void *at, size_t n, int flags)
{
    return ips_msync_at(at, n, flags, IPS_SITE);
}

/* --- locks on files ------------------------------------------------------- */

/* number of file locks that this process has taken so far */
static _Atomic uint32_t locks_taken;

/* The bytes that a lock covers; length 0: all bytes from `start` on. */
struct range {
    uint64_t start, length;
};
static const struct range whole_file;

static bool fill_file_lock_sync_object(int fd, uint64_t start,
                                       struct ips_sync_object *thing)
{
    struct stat st;
    if (ips_sys_fstat(fd, &st) < 0)
        return false;
    *thing = (struct ips_sync_object){st.st_dev, st.st_ino, start};
    return true;
}

static void write_file_lock_acquire(enum ips_sync kind, int fd,
                                    struct range range, struct ips_moment call,
                                    struct ips_moment ret, int value, int err,
                                    uint64_t site)
{
    struct ips_sync_object thing;
    if (!fill_file_lock_sync_object(fd, range.start, &thing))
        return;
    if (kind == IPS_SYNC_RECORD_LOCK)
        ips_record_range_acquire(&thing, range.length, call, ret, value, err,
                                 site);
    else
        ips_record_acquire(kind, &thing, call, ret, value, err, site);
}

static void write_file_lock_release(enum ips_sync kind, int fd,
                                    struct range range, struct ips_moment call,
                                    uint64_t site)
{
    struct ips_sync_object thing;
    if (!fill_file_lock_sync_object(fd, range.start, &thing))
        return;
    if (kind == IPS_SYNC_RECORD_LOCK)
        ips_record_range_release(&thing, range.length, call, site);
    else
        ips_record_release(kind, &thing, call, 1, site);
}

/* Stores in the descriptor's table word whether this process holds a lock that
 * the close of `fd` releases. */
static void set_file_lock_flag(enum ips_sync kind, int fd, bool held)
{
    uint64_t bit =
        kind == IPS_SYNC_FLOCK ? IPS_FD_FLOCKED : IPS_FD_RECORD_LOCKED;
    uint64_t word = ips_fd_get_or_identify(fd);
    uint64_t flags = word & IPS_FD_FLAGS & ~bit;
    if (ips_fd_must_be_identified(word) || !(word & bit) == !held)
        return;
    ips_fd_store_if_unchanged(fd, word, ips_fd_class(word), (uint32_t)word,
                              held ? flags | bit : flags);
    atomic_fetch_add(&locks_taken, held);
}

void ips_record_file_lock_releases_of_fd(int fd)
{
    uint64_t word = ips_fd_get(fd);
    struct ips_moment call = ips_take_call_moment();
    if (word & IPS_FD_FLOCKED)
        write_file_lock_release(IPS_SYNC_FLOCK, fd, whole_file, call, 0);
    if (word & IPS_FD_RECORD_LOCKED)
        write_file_lock_release(IPS_SYNC_RECORD_LOCK, fd, whole_file, call, 0);
}

void ips_record_file_locks_at_exit(void)
{
    if (!atomic_load_explicit(&locks_taken, memory_order_relaxed))
        return;
    for (int fd = 0, top = ips_fd_upper_bound(); fd < top; fd++)
        if (ips_fd_get(fd) & IPS_FD_LOCKED)
            ips_record_file_lock_releases_of_fd(fd);
}

/* Whether a request for a file lock that returned `r` failed because the lock
 * is held. Wrappers first make each request without waiting. So they know
 * whether it waited, and need not guess that from the clock. (If one lock is
 * converted into another, the old one is released first either way.) */
static bool failed_because_locked(int r)
{
    return r < 0 && (errno == EAGAIN || errno == EACCES);
}

/* Notes a request for a lock that did not wait. If it failed, it may be the
 * first of several tries. If it got the lock after such tries, writes an
 * ACQUIRE record. */
static void count_or_record_nonblocking_lock_try(enum ips_sync kind, int fd,
                                                 struct range range, bool got,
                                                 struct ips_moment call,
                                                 uint64_t site)
{
    struct ips_retry_series run;
    const uint64_t key =
        range.start << 32 | (uint64_t)kind << 24 | (unsigned)fd;
    if (!got)
        ips_retry_count_failed_try(IPS_RETRY_FILE_LOCK, key, &call);
    else if (ips_retry_end_and_get_series(IPS_RETRY_FILE_LOCK, key, &run))
        write_file_lock_acquire(
            kind, fd, range,
            (struct ips_moment){.t = run.first, .cpu = run.cpu}, call,
            IPS_GOT_SPUN, 0, site);
}

/* Records a request for a lock that returned `r`: writes an ACQUIRE record if
 * it waited, and notes that the close of `fd` releases the lock. Returns `r`.
 */
static int record_lock_if_waited_and_set_lock_flag(enum ips_sync kind, int fd,
                                                   struct range range,
                                                   bool waits,
                                                   struct ips_moment call,
                                                   int r, uint64_t site)
{
    int saved = errno;
    if (!waits && (r == 0 || failed_because_locked(r)))
        count_or_record_nonblocking_lock_try(kind, fd, range, r == 0, call,
                                             site);
    struct ips_moment ret = ips_return_moment(&call);
    if (waits && ips_was_blocked(&call, &ret))
        write_file_lock_acquire(kind, fd, range, call, ret, 1,
                                r < 0 ? saved : 0, site);
    if (r == 0)
        set_file_lock_flag(kind, fd, true);
    errno = saved;
    return r;
}

/* Records an unlock that returned `r`: writes a RELEASE record. If no part of
 * the file stays locked, a later close releases nothing. Returns `r`. */
static int record_file_unlock(enum ips_sync kind, int fd, struct range range,
                              struct ips_moment call, int r, uint64_t site)
{
    int saved = errno;
    if (r == 0)
        write_file_lock_release(kind, fd, range, call, site);
    if (r == 0 && range.start == 0 && range.length == 0)
        set_file_lock_flag(kind, fd, false);
    errno = saved;
    return r;
}

int ips_flock_at(int fd, int operation, uint64_t site)
{
    if (!ips_wrap_start_library_and_check_recording())
        return REAL(flock)(fd, operation);
    const int before = errno;
    struct ips_moment call = ips_take_call_moment();
    int r = REAL(flock)(fd, operation | LOCK_NB);
    if ((operation & ~LOCK_NB) == LOCK_UN)
        return record_file_unlock(IPS_SYNC_FLOCK, fd, whole_file, call, r,
                                  site);
    bool waits = !(operation & LOCK_NB) && failed_because_locked(r);
    IPS_WAIT_MARK;
    if (waits) {
        IPS_SYNC_BEGINS(IPS_SYNC_FLOCK, fd, 0, site, call);
        errno = before;
        r = REAL(flock)(fd, operation);
    }
    return record_lock_if_waited_and_set_lock_flag(
        IPS_SYNC_FLOCK, fd, whole_file, waits, call, r, site);
}

IPS_EXPORT int flock(int fd, int operation)
{
    return ips_flock_at(fd, operation, IPS_SITE);
}

/* Returns the bytes of the file that an fcntl lock covers. */
static struct range range_of_fcntl_lock(int fd, const struct flock *lock)
{
    int64_t start = lock->l_start;
    struct stat st;
    if (lock->l_whence == SEEK_CUR)
        start += ips_sys3(SYS_lseek, fd, 0, SEEK_CUR);
    else if (lock->l_whence == SEEK_END && ips_sys_fstat(fd, &st) == 0)
        start += st.st_size;
    int64_t length = lock->l_len;
    if (length < 0) {
        start += length;
        length = -length;
    }
    return (struct range){(uint64_t)start, (uint64_t)length};
}

/* Reads the struct flock at `arg` only after the kernel has read it, because
 * the address may be invalid. */
int ips_call_fcntl_lock_and_record(int (*real)(int, int, ...), int fd,
                                   int command, void *arg, uint64_t site)
{
    struct flock lock;
    const int before = errno;
    int try = command == F_SETLKW       ? F_SETLK
              : command == F_OFD_SETLKW ? F_OFD_SETLK
                                        : command;
    struct ips_moment call = ips_take_call_moment();
    int r = real(fd, try, arg);
    bool waits = try != command && failed_because_locked(r);
    IPS_WAIT_MARK;
    if (waits) {
        IPS_SYNC_BEGINS(IPS_SYNC_RECORD_LOCK, fd, 0, site, call);
        errno = before;
        r = real(fd, command, arg);
    }
    if (r < 0 && errno != EINTR && !failed_because_locked(r))
        return r;
    int saved = errno;
    memcpy(&lock, arg, sizeof(lock));
    struct range range = range_of_fcntl_lock(fd, &lock);
    errno = saved;
    if (lock.l_type == F_UNLCK)
        return record_file_unlock(IPS_SYNC_RECORD_LOCK, fd, range, call, r,
                                  site);
    return record_lock_if_waited_and_set_lock_flag(IPS_SYNC_RECORD_LOCK, fd,
                                                   range, waits, call, r, site);
}

/* libc's own lockf uses fcntl calls that do not pass our wrapper. */
IPS_EXPORT int lockf(int fd, int command, off_t n)
{
    if (!ips_wrap_start_library_and_check_recording() || command == F_TEST)
        return REAL(lockf)(fd, command, n);
    const struct flock lock = {.l_whence = SEEK_CUR, .l_len = n};
    const int before = errno;
    struct ips_moment call = ips_take_call_moment();
    int r = REAL(lockf)(fd, command == F_LOCK ? F_TLOCK : command, n);
    bool waits = command == F_LOCK && failed_because_locked(r);
    IPS_WAIT_MARK;
    if (waits) {
        IPS_SYNC_BEGINS(IPS_SYNC_RECORD_LOCK, fd, 0, IPS_SITE, call);
        errno = before;
        r = REAL(lockf)(fd, command, n);
    }
    struct range range = range_of_fcntl_lock(fd, &lock);
    if (command == F_ULOCK)
        return record_file_unlock(IPS_SYNC_RECORD_LOCK, fd, range, call, r,
                                  IPS_SITE);
    return record_lock_if_waited_and_set_lock_flag(
        IPS_SYNC_RECORD_LOCK, fd, range, waits, call, r, IPS_SITE);
}
int lockf64(int, int, off64_t) IPS_ALIAS(lockf);

/* --- eventfd -------------------------------------------------------------- */

static bool fill_eventfd_sync_object(uint64_t word,
                                     struct ips_sync_object *thing)
{
    /* eventfd-id plus 1; 0: unknown, or the descriptor is now another file */
    uint32_t id = ips_fd_class(word) == IPS_FD_EVENTFD ? (uint32_t)word : 0;
    *thing = (struct ips_sync_object){0, id, 0};
    return id != 0;
}

void ips_record_eventfd_write(const struct ips_io *io)
{
    struct ips_sync_object thing;
    if (fill_eventfd_sync_object(ips_fd_get(io->fd), &thing))
        ips_record_release(IPS_SYNC_EVENTFD, &thing, io->call, 1, io->site);
}

bool ips_record_eventfd_read(const struct ips_io *io, struct ips_moment ret)
{
    struct ips_sync_object thing;
    bool known = fill_eventfd_sync_object(ips_fd_get(io->fd), &thing);
    if (known)
        ips_record_acquire(IPS_SYNC_EVENTFD, &thing, io->call, ret, 1, 0,
                           io->site);
    return known;
}

/* --- pseudo terminals ----------------------------------------------------- */

/* Fills in the name that records have for one direction of a pseudo terminal:
 * the data that the side of `io` writes or, with `reads`, that the other side
 * writes. False: no process of the run can have the other side. */
static bool fill_pty_direction_sync_object(const struct ips_io *io, bool reads,
                                           struct ips_sync_object *thing)
{
    const uint64_t word = ips_fd_get(io->fd);
    const uint32_t number = (uint32_t)word; /* IPS_FD_PTY */
    if (ips_fd_class(word) != IPS_FD_TERMINAL || !number)
        return false;
    /* A short process does not map the run's shared control file only for this
     * test, but uses the copy that it made at its start. */
    const struct ips_control *c = ips_core.share_later
                                      ? ips_core.control
                                      : ips_get_or_map_shared_control();
    if (!c || !atomic_load_explicit(&c->has_pty_master, memory_order_relaxed))
        return false;
    *thing = (struct ips_sync_object){0, number ^ reads, 0};
    return true;
}

bool ips_record_pty_write(const struct ips_io *io)
{
    struct ips_sync_object thing;
    bool known = fill_pty_direction_sync_object(io, false, &thing);
    if (known)
        ips_record_release(IPS_SYNC_TERMINAL, &thing, io->call, 1, io->site);
    return known;
}

bool ips_record_pty_read(const struct ips_io *io, struct ips_moment ret)
{
    struct ips_sync_object thing;
    bool known = fill_pty_direction_sync_object(io, true, &thing);
    if (known)
        ips_record_acquire(IPS_SYNC_TERMINAL, &thing, io->call, ret, 1, 0,
                           io->site);
    return known;
}

IPS_EXPORT int eventfd_write(int fd, eventfd_t value)
{
    return write(fd, &value, sizeof(value)) == (ssize_t)sizeof(value) ? 0 : -1;
}
