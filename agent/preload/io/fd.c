/*
 * Wrappers of calls that create, copy, connect and close descriptors.
 *
 * The ends of channels are identified when they are created, so that the slave
 * knows which channels a process has open at a fork. A close is recorded before
 * the real call, so its time is earlier than the end of file that it causes.
 */
#include "agent/preload/at.h"
#include "agent/preload/sync.h"
#include "agent/preload/tries.h"

/* glibc declares the socket calls with transparent unions of all address
 * types; in the ABI they are the plain pointers written here. */
#pragma GCC diagnostic ignored "-Wpedantic"

#include <linux/close_range.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <utmp.h>

#include "agent/record/sys.h"

static void clear_and_identify_new_fd(int fd, const struct ips_chan_hint *hint)
{
    ips_fd_clear(fd);
    ips_chan_identify_and_record(fd, ips_fd_get(fd), hint);
}

/* --- closing descriptors -------------------------------------------------- */

/* True once the program has set SO_LINGER on any socket. The close of such a
 * socket waits until the other end has received all data. No other close waits.
 */
static atomic_bool lingers;

void ips_store_linger_option_used(void)
{
    atomic_store_explicit(&lingers, true, memory_order_relaxed);
}

static __attribute__((noinline)) int
close_lingering_socket_and_record(int fd, uint64_t site)
{
    IPS_CALL_MARK;
    struct ips_moment call = ips_take_call_moment();
    IPS_CALL_BEGINS(IPS_BEGUN(IPS_REC_BLOCK, IPS_OP_OTHER, 0), site, call);
    int r = REAL(close)(fd), saved = errno;
    ips_record_wait_if_blocked_or_ready(IPS_OP_OTHER, call, r, saved, site, 0);
    errno = saved;
    return r;
}

int ips_close_at(int fd, uint64_t site)
{
    if (!ips_wrap_start_library_and_check_recording())
        return REAL(close)(fd);
    bool waits = atomic_load_explicit(&lingers, memory_order_relaxed) &&
                 ips_fd_get(fd) & IPS_FD_TCP;
    ips_chan_record_close_and_clear(fd, site);
    return unlikely(waits) ? close_lingering_socket_and_record(fd, site)
                           : REAL(close)(fd);
}

IPS_EXPORT int close(int fd)
{
    return ips_close_at(fd, IPS_SITE);
}
int __close(int) IPS_ALIAS(close);

/* Records the close of the descriptors in [first, last] that may be channels:
 * those up to the greatest one that this process or a parent ever identified.
 */
static void record_close_range(unsigned first, unsigned last, uint64_t site)
{
    unsigned top = (unsigned)ips_fd_upper_bound();
    if (top == 0)
        return;
    for (unsigned fd = first; fd <= last && fd < top; fd++)
        ips_chan_record_close_and_clear((int)fd, site);
}

int ips_close_range_at(unsigned first, unsigned last, int flags, uint64_t site)
{
    /* With CLOSE_RANGE_CLOEXEC nothing is closed; the kernel refuses flags that
     * it does not know. */
    if (ips_wrap_start_library_and_check_recording() &&
        !((unsigned)flags & ~CLOSE_RANGE_UNSHARE))
        record_close_range(first, last, site);
    return REAL(close_range)(first, last, flags);
}

IPS_EXPORT int close_range(unsigned first, unsigned last, int flags)
{
    return ips_close_range_at(first, last, flags, IPS_SITE);
}

IPS_EXPORT void closefrom(int first)
{
    if (ips_wrap_start_library_and_check_recording())
        record_close_range(first < 0 ? 0 : (unsigned)first, ~0u, IPS_SITE);
    REAL(closefrom)(first);
}

int ips_shutdown_at(int fd, int how, uint64_t site)
{
    static const enum ips_close_how hows[] = {
        IPS_CLOSE_SHUT_RD, IPS_CLOSE_SHUT_WR, IPS_CLOSE_SHUT_RDWR};
    if (!ips_wrap_start_library_and_check_recording())
        return REAL(shutdown)(fd, how);
    uint64_t stamp = ips_core_stamp_now();
    int r = REAL(shutdown)(fd, how);
    if (r == 0 && how >= SHUT_RD && how <= SHUT_RDWR) {
        uint64_t word = ips_fd_get_or_identify(fd);
        if (ips_fd_class(word) == IPS_FD_STREAM)
            ips_chan_record_close(fd, word, hows[how], stamp, site);
    }
    return r;
}

IPS_EXPORT int shutdown(int fd, int how)
{
    return ips_shutdown_at(fd, how, IPS_SITE);
}

/* --- examining descriptors (fstat) ---------------------------------------- */

/* Most programs call fstat after opening a file. Its result contains the type
 * of the descriptor, so the first read, or the close, need not ask the kernel
 * for it. */
IPS_EXPORT int fstat(int fd, struct stat *st)
{
    if (!ips_wrap_start_library_and_check_recording())
        return REAL(fstat)(fd, st);
    /* read before fstat, so that a change of `fd` in between is noticed */
    uint64_t word = ips_fd_get(fd);
    int r = REAL(fstat)(fd, st);
    if (r == 0 && S_ISREG(st->st_mode) && ips_fd_must_be_identified(word) &&
        ips_fd_has_chunk(fd)) {
        int saved = errno;
        ips_fd_store_if_unchanged(fd, word, IPS_FD_FILE, 0, 0);
        errno = saved;
    }
    return r;
}
/* struct stat64 is another type with the same layout */
_Static_assert(sizeof(struct stat) == sizeof(struct stat64), "fstat64");
int fstat64(int, struct stat64 *)
    __attribute__((visibility("default"), alias("fstat")));

/* --- copying descriptors -------------------------------------------------- */

/* Notes that `made`, if it is not negative, is now a copy of `fd`. Returns
 * `made`. */
static int identify_or_clear_fd_copy(int fd, int made)
{
    if (made < 0 || made == fd || !ips_wrap_start_library_and_check_recording())
        return made;
    int saved = errno;
    uint64_t word = ips_fd_get_or_identify_unless_opened_by_path(fd);
    if (ips_fd_channel_id(word))
        clear_and_identify_new_fd(made, NULL);
    else
        ips_fd_clear(made);
    errno = saved;
    return made;
}

/* Records the close of `to`, which is about to be replaced by a copy of `fd`,
 * if `fd` is open. */
static void record_close_of_replaced_fd(int fd, int to, uint64_t site)
{
    if (ips_wrap_start_library_and_check_recording() && fd != to &&
        ips_sys3(SYS_fcntl, fd, F_GETFD, 0) >= 0)
        ips_chan_record_close_and_clear(to, site);
}

IPS_EXPORT int dup(int fd)
{
    ips_wrap_start_library_and_check_recording();
    return identify_or_clear_fd_copy(fd, REAL(dup)(fd));
}

int ips_dup2_at(int fd, int to, uint64_t site)
{
    record_close_of_replaced_fd(fd, to, site);
    return identify_or_clear_fd_copy(fd, REAL(dup2)(fd, to));
}

IPS_EXPORT int dup2(int fd, int to)
{
    return ips_dup2_at(fd, to, IPS_SITE);
}
int __dup2(int, int) IPS_ALIAS(dup2);

int ips_dup3_at(int fd, int to, int flags, uint64_t site)
{
    /* with any other flag, dup3 fails */
    if (!((unsigned)flags & ~(unsigned)O_CLOEXEC))
        record_close_of_replaced_fd(fd, to, site);
    return identify_or_clear_fd_copy(fd, REAL(dup3)(fd, to, flags));
}

IPS_EXPORT int dup3(int fd, int to, int flags)
{
    return ips_dup3_at(fd, to, flags, IPS_SITE);
}

/* The third argument is a pointer or an int; both are passed in one
 * register. */
static int call_fcntl_and_record(int (*real)(int, int, ...), int fd,
                                 int command, void *arg, uint64_t site)
{
    if (ips_wrap_start_library_and_check_recording() &&
        (command == F_SETLK || command == F_SETLKW || command == F_OFD_SETLK ||
         command == F_OFD_SETLKW))
        return ips_call_fcntl_lock_and_record(real, fd, command, arg, site);
    int r = real(fd, command, arg);
    if (command == F_DUPFD || command == F_DUPFD_CLOEXEC)
        return identify_or_clear_fd_copy(fd, r);
    if (command == F_SETFL && r == 0 &&
        ips_wrap_start_library_and_check_recording())
        ips_store_or_clear_async_fd(fd, (uintptr_t)arg & O_ASYNC);
    return r;
}

int ips_fcntl_at(int fd, int command, void *arg, uint64_t site)
{
    ips_wrap_start_library_and_check_recording();
    return call_fcntl_and_record(REAL(fcntl), fd, command, arg, site);
}

IPS_EXPORT int fcntl(int fd, int command, ...)
{
    va_list ap;
    va_start(ap, command);
    void *arg = va_arg(ap, void *);
    va_end(ap);
    return ips_fcntl_at(fd, command, arg, IPS_SITE);
}
int __fcntl(int, int, ...) IPS_ALIAS(fcntl);

IPS_EXPORT int fcntl64(int fd, int command, ...)
{
    va_list ap;
    va_start(ap, command);
    void *arg = va_arg(ap, void *);
    va_end(ap);
    ips_wrap_start_library_and_check_recording();
    return call_fcntl_and_record(REAL(fcntl64), fd, command, arg, IPS_SITE);
}

/* --- creating descriptors ------------------------------------------------- */

static int identify_pipe_ends(int r, const int *fds)
{
    if (r == 0 && ips_wrap_start_library_and_check_recording()) {
        clear_and_identify_new_fd(fds[0], NULL);
        clear_and_identify_new_fd(fds[1], NULL);
    }
    return r;
}

IPS_EXPORT int pipe(int fds[2])
{
    ips_wrap_start_library_and_check_recording();
    return identify_pipe_ends(REAL(pipe)(fds), fds);
}
int __pipe(int[2]) IPS_ALIAS(pipe);

IPS_EXPORT int pipe2(int fds[2], int flags)
{
    ips_wrap_start_library_and_check_recording();
    return identify_pipe_ends(REAL(pipe2)(fds, flags), fds);
}

IPS_EXPORT int socketpair(int domain, int type, int protocol, int fds[2])
{
    ips_wrap_start_library_and_check_recording();
    int r = REAL(socketpair)(domain, type, protocol, fds);
    if (r == 0 && ips_wrap_start_library_and_check_recording()) {
        struct stat st[2];
        for (int i = 0; i < 2; i++)
            if (ips_sys_fstat(fds[i], &st[i]) < 0)
                st[i].st_ino = 0;
        for (int i = 0; i < 2; i++) {
            const struct ips_chan_hint hint = {.peer_ino = st[!i].st_ino};
            clear_and_identify_new_fd(fds[i], &hint);
        }
    }
    return r;
}

/* Notes that the new descriptor `fd`, if it is not negative, has class `klass`.
 * UNKNOWN: its first use asks the kernel. Returns `fd`. */
static int store_class_of_new_fd(int fd, enum ips_fd_class klass)
{
    if (fd >= 0 && ips_wrap_start_library_and_check_recording()) {
        ips_fd_clear(fd);
        if (klass != IPS_FD_UNKNOWN)
            ips_fd_store_if_unchanged(fd, ips_fd_get(fd), klass, 0, 0);
    }
    return fd;
}

IPS_EXPORT int socket(int domain, int type, int protocol)
{
    ips_wrap_start_library_and_check_recording();
    return store_class_of_new_fd(REAL(socket)(domain, type, protocol),
                                 IPS_FD_UNKNOWN);
}
IPS_EXPORT int eventfd(unsigned value, int flags)
{
    ips_wrap_start_library_and_check_recording();
    /* its first use asks the kernel for its eventfd-id */
    return store_class_of_new_fd(REAL(eventfd)(value, flags), IPS_FD_UNKNOWN);
}
IPS_EXPORT int timerfd_create(clockid_t clock, int flags)
{
    ips_wrap_start_library_and_check_recording();
    return store_class_of_new_fd(REAL(timerfd_create)(clock, flags),
                                 IPS_FD_TIMERFD);
}
IPS_EXPORT int signalfd(int fd, const sigset_t *set, int flags)
{
    ips_wrap_start_library_and_check_recording();
    int r =
        store_class_of_new_fd(REAL(signalfd)(fd, set, flags), IPS_FD_SIGNALFD);
    if (r >= 0 && ips_wrap_start_library_and_check_recording()) {
        uint64_t mask; /* bit 0 is signal 1 */
        memcpy(&mask, set, sizeof(mask));
        uint32_t signals = (uint32_t)(mask << 1) & (IPS_READY_SIGNALFD_BIT - 1);
        ips_fd_store_if_unchanged(r, ips_fd_get(r), IPS_FD_SIGNALFD,
                                  signals | (mask >> 27 ? 1 : 0), 0);
    }
    return r;
}

/* In this call the C library replaces descriptors 0, 1 and 2 by its own dup2,
 * which no wrapper sees. */
IPS_EXPORT int login_tty(int fd)
{
    if (ips_wrap_start_library_and_check_recording())
        record_close_range(0, 2, IPS_SITE);
    return REAL(login_tty)(fd);
}

/* --- connecting and accepting --------------------------------------------- */

/* Records that the socket `fd` now listens: writes a RELEASE record for its
 * address. Threads that repeated a connect to this address until it succeeded
 * waited for this call. */
static void record_listen(int fd, struct ips_moment call, uint64_t site)
{
    struct ips_listen_name_of_socket at;
    if (!ips_listen_name_of_socket(fd, false, &at))
        return;
    const struct ips_sync_object thing = {at.dev, at.ino, at.object};
    ips_record_release(IPS_SYNC_LISTEN, &thing, call, -1, site);
}

int ips_call_listen_and_record(int fd, int backlog, uint64_t site)
{
    if (!ips_wrap_start_library_and_check_recording())
        return REAL(listen)(fd, backlog);
    struct ips_moment call = ips_take_call_moment();
    int r = REAL(listen)(fd, backlog), saved = errno;
    if (r == 0 && ips_fd_class(ips_fd_get(fd)) != IPS_FD_LISTEN) {
        clear_and_identify_new_fd(fd, NULL);
        record_listen(fd, call, site);
    }
    errno = saved;
    return r;
}

IPS_EXPORT int listen(int fd, int backlog)
{
    return ips_call_listen_and_record(fd, backlog, IPS_SITE);
}

/* Returns a key for the target of a connect, by which repeated tries of one
 * thread are recognised; 0: unknown. It is the port (or the hash of the Unix
 * name) without the address, since for "localhost" a thread tries both
 * addresses. */
static uint64_t connect_target_key(int fd, const struct sockaddr *to,
                                   socklen_t len)
{
    struct ips_listen_name_of_socket at;
    return to && ips_listen_name_of_address(fd, to, len, &at) ? at.ino : 0;
}

/* Whether a connect that failed with `err` may succeed later, for example once
 * a process listens there or the listener's queue has space. */
static bool may_connect_retry_succeed(int err)
{
    return err == ECONNREFUSED || err == ENOENT || err == EAGAIN ||
           err == ECONNRESET || err == ETIMEDOUT || err == ENETUNREACH ||
           err == EHOSTUNREACH;
}

/* The connect made at `call` reached a listener. If this thread had tried
 * before and slept in between, writes a BLOCK record with op RETRY, and an
 * ACQUIRE of the listening address. */
static void record_retries_of_connect_if_any(int fd, uint64_t key,
                                             struct ips_moment call,
                                             uint64_t site)
{
    struct ips_listen_name_of_socket at;
    struct ips_retry_series run;
    if (!ips_retry_end_and_get_series(IPS_RETRY_CONNECT, key, &run) ||
        !ips_listen_name_of_socket(fd, true, &at))
        return;
    ips_retry_write_series_record(&run, call, site);
    const struct ips_sync_object thing = {at.dev, at.ino, at.object};
    const struct ips_moment asked = {.t = run.last, .cpu = call.cpu};
    ips_record_acquire(IPS_SYNC_LISTEN, &thing, asked, call, 0, 0, site);
}

/* Records a connect, and identifies the socket as soon as both ends are known.
 * If the socket's word shows that its connect is recorded already, the program
 * only asks how that connect proceeds, and the call is not recorded again. If
 * such a call reports failure, the channel is closed, since another connect may
 * follow. `sent`: a send made the connect (MSG_FASTOPEN). */
static void record_connect_and_identify_socket(
    int fd, int r, int err, const struct sockaddr *to, socklen_t len,
    struct ips_moment call, struct ips_moment ret, bool sent, uint64_t site)
{
    uint64_t word = ips_fd_get(fd);
    bool before = word & IPS_FD_CONNECTED;
    bool under_way = r < 0 && (err == EINPROGRESS || err == EINTR);
    if ((before && r == 0) || (r < 0 && (err == EALREADY || err == EISCONN)))
        return;
    if (r < 0 && !under_way) {
        const bool later = may_connect_retry_succeed(err);
        const bool network = later && to && to->sa_family != AF_UNIX;
        if (before)
            ips_chan_record_close_and_clear(fd, site);
        else /* there is no channel yet to which a SEND could belong, but the
                thread may have waited */
            ips_record_wait_if_blocked_or_ready(network ? IPS_OP_CONNECT
                                                        : IPS_OP_OTHER,
                                                call, -1, err, site, 0);
        if (later)
            ips_retry_count_failed_try(IPS_RETRY_CONNECT,
                                       connect_target_key(fd, to, len), &call);
        return;
    }
    if (!to || len < sizeof(sa_family_t) || to->sa_family == AF_UNSPEC) {
        ips_fd_clear(fd);
        return;
    }
    const struct ips_chan_hint hint = {.flags = IPS_CHAN_CONNECTED,
                                       .peer = to,
                                       .peer_len = len,
                                       .sent_too = sent};
    ips_fd_clear(fd);
    word = ips_chan_identify_and_record(fd, ips_fd_get(fd), &hint);
    if (ips_fd_class(word) != IPS_FD_STREAM)
        return;
    if (!under_way)
        record_retries_of_connect_if_any(fd, connect_target_key(fd, to, len),
                                         call, site);
    ips_record_io_call(IPS_REC_SEND, ips_fd_channel_id(word), IPS_OP_CONNECT,
                       call, ret, 0, under_way ? err : 0, site, 0);
}

int ips_connect_at(int fd, const struct sockaddr *to, socklen_t len,
                   uint64_t site)
{
    if (!ips_wrap_start_library_and_check_recording())
        return REAL(connect)(fd, to, len);
    IPS_CALL_MARK;
    struct ips_moment call = ips_take_call_moment();
    IPS_CALL_BEGINS(IPS_BEGUN(IPS_REC_SEND, IPS_OP_CONNECT, 0), site, call);
    int r = REAL(connect)(fd, to, len);
    int saved = errno;
    record_connect_and_identify_socket(fd, r, saved, to, len, call,
                                       ips_return_moment(&call), false, site);
    errno = saved;
    return r;
}

/* Such a call is a connect and a send. If it sent bytes, the connect is
 * recorded with duration 0, and the send with all of the time. */
void ips_record_fastopen_send(int fd, ssize_t r, const struct sockaddr *to,
                              socklen_t len, struct ips_moment call,
                              uint64_t site)
{
    int saved = errno;
    struct ips_moment ret = ips_return_moment(&call);
    record_connect_and_identify_socket(fd, r < 0 ? -1 : 0, saved, to, len, call,
                                       r > 0 ? call : ret, true, site);
    uint64_t word = ips_fd_get(fd);
    if (r > 0 && ips_fd_class(word) == IPS_FD_STREAM)
        ips_record_io_call(IPS_REC_SEND, ips_fd_channel_id(word), IPS_OP_DATA,
                           call, ret, r, 0, site, 0);
    errno = saved;
}

IPS_EXPORT int connect(int fd, const struct sockaddr *to, socklen_t len)
{
    return ips_connect_at(fd, to, len, IPS_SITE);
}
int __connect(int, const struct sockaddr *, socklen_t) IPS_ALIAS(connect);

static void record_accept_and_identify_socket(int fd, int r, int err,
                                              struct ips_moment call,
                                              uint64_t site)
{
    struct ips_moment ret = ips_return_moment(&call);
    uint64_t word;
    if (r < 0) {
        word = ips_fd_get_or_identify(fd);
        bool again =
            err == EAGAIN && ips_failed_without_waiting(fd, &call, &ret);
        if (!ips_fd_channel_id(word) ||
            (again && ips_spin_start_or_continue_failures(
                          &call, &ret, ips_fd_channel_id(word), site)))
            return;
        ips_record_io_call(IPS_REC_RECVCALL, ips_fd_channel_id(word),
                           IPS_OP_ACCEPT, call, ret, -1, err, site, 0);
        if (again)
            ips_spin_restart_failure_series();
        return;
    }
    const struct ips_chan_hint hint = {.flags = IPS_CHAN_ACCEPTED};
    ips_fd_clear(r);
    ips_spin_end_and_record_failures(&ips_me, &call);
    word = ips_chan_identify_and_record(r, ips_fd_get(r), &hint);
    if (ips_fd_channel_id(word))
        ips_record_io_call(IPS_REC_RECV, ips_fd_channel_id(word), IPS_OP_ACCEPT,
                           call, ret, 0, 0, site, 0);
}

#define ACCEPT_BEGINS(fd, site, call)                                          \
    IPS_CALL_BEGINS(IPS_BEGUN(IPS_REC_RECV, IPS_OP_ACCEPT,                     \
                              ips_fd_channel_id(ips_fd_get(fd))),              \
                    site, call)

int ips_accept_at(int fd, struct sockaddr *from, socklen_t *len, uint64_t site)
{
    if (!ips_wrap_start_library_and_check_recording())
        return REAL(accept)(fd, from, len);
    IPS_CALL_MARK;
    struct ips_moment call = ips_take_call_moment();
    ACCEPT_BEGINS(fd, site, call);
    int r = REAL(accept)(fd, from, len);
    int saved = errno;
    record_accept_and_identify_socket(fd, r, saved, call, site);
    errno = saved;
    return r;
}

IPS_EXPORT int accept(int fd, struct sockaddr *from, socklen_t *len)
{
    return ips_accept_at(fd, from, len, IPS_SITE);
}

int ips_accept4_at(int fd, struct sockaddr *from, socklen_t *len, int flags,
                   uint64_t site)
{
    if (!ips_wrap_start_library_and_check_recording())
        return REAL(accept4)(fd, from, len, flags);
    IPS_CALL_MARK;
    struct ips_moment call = ips_take_call_moment();
    ACCEPT_BEGINS(fd, site, call);
    int r = REAL(accept4)(fd, from, len, flags);
    int saved = errno;
    record_accept_and_identify_socket(fd, r, saved, call, site);
    errno = saved;
    return r;
}

IPS_EXPORT int accept4(int fd, struct sockaddr *from, socklen_t *len, int flags)
{
    return ips_accept4_at(fd, from, len, flags, IPS_SITE);
}
