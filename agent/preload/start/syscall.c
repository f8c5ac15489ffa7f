/*
 * The wrapper of syscall(). If we have a wrapper for the function of a system
 * call, that wrapper makes the call: libc's function makes the same system call
 * and reports errors in the same way. Raw forms that differ from libc's (size
 * of signal sets, error numbers) are recorded around the raw call. vfork and
 * clones that share memory never come here, because they would return twice
 * into a frame of ours (preload/start/entry.S handles them).
 */
#include "agent/preload/at.h"

#include <linux/seccomp.h>
#include <sys/file.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>

#include "agent/preload/sample/sample.h"
#include "agent/preload/sync.h"
#include "agent/record/own_table.h"

int prctl(int, ...);
long ips_call_fork_syscall_and_record(long n, const long args[6],
                                      uint64_t site);
int eventfd(unsigned, int);

#define CAST_ARGUMENT(type, x) ((type)(uintptr_t)(x))

/* Shortens the timeout in `args` before a wait is repeated. For ppoll, pselect6
 * and select nothing is done: the kernel has stored the time that is left. */
static void shorten_timeout(long n, const long asked[6], long args[6],
                            const struct ips_moment *call,
                            struct timespec *room)
{
    int at = n == SYS_nanosleep                                        ? 0
             : n == SYS_rt_sigtimedwait                                ? 2
             : n == SYS_clock_nanosleep && !(asked[1] & TIMER_ABSTIME) ? 2
             : n == SYS_epoll_pwait2                                   ? 3
                                                                       : -1;
    if (at >= 0)
        args[at] = (long)(uintptr_t)ips_timeout_left(
            CAST_ARGUMENT(const struct timespec *, asked[at]), call, room);
    if (n == SYS_epoll_pwait)
        args[3] = ips_timeout_left_ms((int)asked[3], call);
#ifdef SYS_epoll_wait
    if (n == SYS_epoll_wait)
        args[3] = ips_timeout_left_ms((int)asked[3], call);
#endif
#ifdef SYS_poll
    if (n == SYS_poll)
        args[2] = ips_timeout_left_ms((int)asked[2], call);
#endif
}

static long call_wait_syscall_and_record(enum ips_op op, long n,
                                         const long asked[6], uint64_t site)
{
    long args[6], r;
    memcpy(args, asked, sizeof(args));
    struct timespec room;
    IPS_WAIT_MARK;
    struct ips_moment call = ips_take_call_moment();
    IPS_CALL_BEGINS(IPS_BEGUN(IPS_REC_BLOCK, op, 0), site, call);
    IPS_REPEAT_AFTER_SAMPLE(
        r,
        REAL(syscall)(n, args[0], args[1], args[2], args[3], args[4], args[5]),
        r == -1, errno, shorten_timeout(n, asked, args, &call, &room));
    int saved = errno;
    uint64_t ready = ips_pack_first_ready_of_syscall(op, asked, r);
    if (ready)
        ips_poll_record_with_ready_fd(&call, mark_, op, (int)r, site, ready);
    else
        ips_record_wait_if_blocked_or_ready(op, call, r, saved, site, 0);
    errno = saved;
    return r;
}

static bool call_wrapper_if_transfer_syscall(long *r, long n,
                                             const long args[6], uint64_t site)
{
    int fd = (int)args[0];
    long b = args[1], c = args[2], d = args[3], e = args[4], f = args[5];
    switch (n) {
    case SYS_read:
        *r = ips_read_slow(fd, CAST_ARGUMENT(void *, b), (size_t)c, site);
        return true;
    case SYS_write:
        *r = ips_write_slow(fd, CAST_ARGUMENT(void *, b), (size_t)c, site);
        return true;
    case SYS_readv:
        *r = ips_readv_slow(fd, CAST_ARGUMENT(struct iovec *, b), (int)c, site);
        return true;
    case SYS_writev:
        *r =
            ips_writev_slow(fd, CAST_ARGUMENT(struct iovec *, b), (int)c, site);
        return true;
    case SYS_sendto:
        *r = ips_sendto_slow(fd, CAST_ARGUMENT(void *, b), (size_t)c, (int)d,
                             CAST_ARGUMENT(struct sockaddr *, e), (socklen_t)f,
                             site);
        return true;
    case SYS_recvfrom:
        *r = ips_recvfrom_slow(fd, CAST_ARGUMENT(void *, b), (size_t)c, (int)d,
                               CAST_ARGUMENT(struct sockaddr *, e),
                               CAST_ARGUMENT(socklen_t *, f), site);
        return true;
    case SYS_preadv2: /* the arguments of preadv, then an unused word and the
                         flags */
        *r = ips_call_preadv2_and_record(fd, CAST_ARGUMENT(struct iovec *, b),
                                         (int)c, d, (int)f, site);
        return true;
    case SYS_pwritev2:
        *r = ips_pwritev2_at(fd, CAST_ARGUMENT(struct iovec *, b), (int)c, d,
                             (int)f, site);
        return true;
    case SYS_sendmsg:
        *r = ips_sendmsg_slow(fd, CAST_ARGUMENT(struct msghdr *, b), (int)c,
                              site);
        return true;
    case SYS_recvmsg:
        *r =
            ips_recvmsg_at(fd, CAST_ARGUMENT(struct msghdr *, b), (int)c, site);
        return true;
    case SYS_sendmmsg:
        *r = ips_sendmmsg_at(fd, CAST_ARGUMENT(struct mmsghdr *, b),
                             (unsigned)c, (int)d, site);
        return true;
    case SYS_recvmmsg:
        *r =
            ips_recvmmsg_at(fd, CAST_ARGUMENT(struct mmsghdr *, b), (unsigned)c,
                            (int)d, CAST_ARGUMENT(struct timespec *, e), site);
        return true;
    case SYS_sendfile:
        *r = ips_sendfile_at(fd, (int)b, CAST_ARGUMENT(off_t *, c), (size_t)d,
                             site);
        return true;
    case SYS_splice:
        *r = ips_splice_at(fd, CAST_ARGUMENT(off64_t *, b), (int)c,
                           CAST_ARGUMENT(off64_t *, d), (size_t)e, (unsigned)f,
                           site);
        return true;
    case SYS_tee:
        *r = ips_tee_at(fd, (int)b, (size_t)c, (unsigned)d, site);
        return true;
    case SYS_vmsplice:
        *r = ips_vmsplice_at(fd, CAST_ARGUMENT(struct iovec *, b), (size_t)c,
                             (unsigned)d, site);
        return true;
    default:
        return false;
    }
}

static bool call_wrapper_if_file_syscall(long *r, long n, const long args[6],
                                         uint64_t site)
{
    int fd = (int)args[0];
    long b = args[1], c = args[2], d = args[3], e = args[4], f = args[5];
    switch (n) {
    case SYS_pread64:
        *r = ips_pread_at(fd, CAST_ARGUMENT(void *, b), (size_t)c, d, site);
        return true;
    case SYS_pwrite64:
        *r = ips_pwrite_at(fd, CAST_ARGUMENT(void *, b), (size_t)c, d, site);
        return true;
    case SYS_fsync:
        *r = ips_fsync_at(fd, site);
        return true;
    case SYS_fdatasync:
        *r = ips_fdatasync_at(fd, site);
        return true;
    case SYS_preadv: /* the kernel uses only one word of the offset */
        *r = ips_preadv_at(fd, CAST_ARGUMENT(struct iovec *, b), (int)c, d,
                           site);
        return true;
    case SYS_pwritev:
        *r = ips_pwritev_at(fd, CAST_ARGUMENT(struct iovec *, b), (int)c, d,
                            site);
        return true;
    case SYS_copy_file_range:
        *r = ips_copy_file_range_at(fd, CAST_ARGUMENT(off64_t *, b), (int)c,
                                    CAST_ARGUMENT(off64_t *, d), (size_t)e,
                                    (unsigned)f, site);
        return true;
    case SYS_syncfs:
        *r = ips_syncfs_at(fd, site);
        return true;
    case SYS_sync_file_range:
        *r = ips_sync_file_range_at(fd, b, c, (unsigned)d, site);
        return true;
    case SYS_msync:
        *r = ips_msync_at(CAST_ARGUMENT(void *, args[0]), (size_t)b, (int)c,
                          site);
        return true;
    case SYS_flock:
        *r = ips_flock_at(fd, (int)b, site);
        return true;
    default:
        return false;
    }
}

static bool call_wrapper_if_ipc_syscall(long *r, long n, const long args[6],
                                        uint64_t site)
{
    int id = (int)args[0];
    long b = args[1], c = args[2], d = args[3], e = args[4];
    switch (n) {
    case SYS_semop:
        *r = ips_semtimedop_at(id, CAST_ARGUMENT(struct sembuf *, b), (size_t)c,
                               NULL, site);
        return true;
    case SYS_semtimedop:
        *r = ips_semtimedop_at(id, CAST_ARGUMENT(struct sembuf *, b), (size_t)c,
                               CAST_ARGUMENT(struct timespec *, d), site);
        return true;
    case SYS_msgsnd:
        *r = ips_msgsnd_at(id, CAST_ARGUMENT(void *, b), (size_t)c, (int)d,
                           site);
        return true;
    case SYS_msgrcv:
        *r = ips_msgrcv_at(id, CAST_ARGUMENT(void *, b), (size_t)c, d, (int)e,
                           site);
        return true;
    case SYS_mq_timedsend:
        *r =
            ips_mq_send_at(id, CAST_ARGUMENT(char *, b), (size_t)c, (unsigned)d,
                           CAST_ARGUMENT(struct timespec *, e), site);
        return true;
    case SYS_mq_timedreceive:
        *r = ips_mq_receive_at(id, CAST_ARGUMENT(char *, b), (size_t)c,
                               CAST_ARGUMENT(unsigned *, d),
                               CAST_ARGUMENT(struct timespec *, e), site);
        return true;
    case SYS_mq_notify:
        if (b)
            ips_own_fd_table_use_process_not_threads();
        return false;
    default:
        return false;
    }
}

static bool call_wrapper_if_descriptor_syscall(long *r, long n,
                                               const long args[6],
                                               uint64_t site)
{
    long a = args[0], b = args[1], c = args[2], d = args[3];
    int fd = (int)a;
    switch (n) {
    case SYS_openat:
        *r = ips_openat_at(fd, CAST_ARGUMENT(char *, b), (int)c, (mode_t)d,
                           site);
        return true;
    case SYS_close:
        *r = ips_close_at(fd, site);
        return true;
    case SYS_close_range:
        *r = ips_close_range_at((unsigned)a, (unsigned)b, (int)c, site);
        return true;
    case SYS_dup:
        *r = dup(fd);
        return true;
    case SYS_dup3:
        *r = ips_dup3_at(fd, (int)b, (int)c, site);
        return true;
    case SYS_fcntl:
        *r = ips_fcntl_at(fd, (int)b, CAST_ARGUMENT(void *, c), site);
        return true;
    case SYS_pipe2:
        *r = pipe2(CAST_ARGUMENT(int *, a), (int)b);
        return true;
    case SYS_socket:
        *r = socket(fd, (int)b, (int)c);
        return true;
    case SYS_socketpair:
        *r = socketpair(fd, (int)b, (int)c, CAST_ARGUMENT(int *, d));
        return true;
    case SYS_connect:
        *r = ips_connect_at(fd, CAST_ARGUMENT(struct sockaddr *, b),
                            (socklen_t)c, site);
        return true;
    case SYS_accept:
        *r = ips_accept_at(fd, CAST_ARGUMENT(struct sockaddr *, b),
                           CAST_ARGUMENT(socklen_t *, c), site);
        return true;
    case SYS_accept4:
        *r = ips_accept4_at(fd, CAST_ARGUMENT(struct sockaddr *, b),
                            CAST_ARGUMENT(socklen_t *, c), (int)d, site);
        return true;
    case SYS_listen:
        *r = ips_call_listen_and_record(fd, (int)b, site);
        return true;
    case SYS_setsockopt:
        *r = setsockopt(fd, (int)b, (int)c, CAST_ARGUMENT(void *, d),
                        (socklen_t)args[4]);
        return true;
    case SYS_shutdown:
        *r = ips_shutdown_at(fd, (int)b, site);
        return true;
#ifdef SYS_open
    case SYS_open:
        *r = ips_openat_at(AT_FDCWD, CAST_ARGUMENT(char *, a), (int)b,
                           (mode_t)c, site);
        return true;
#endif
#ifdef SYS_dup2
    case SYS_dup2:
        *r = ips_dup2_at(fd, (int)b, site);
        return true;
    case SYS_pipe:
        *r = pipe(CAST_ARGUMENT(int *, a));
        return true;
#endif
    default:
        return false;
    }
}

/* Makes a system call that sets up an I/O interface (named `what`) whose use no
 * wrapper sees. If it succeeds, writes an UNSEEN record, so that the
 * certificate reports it. Returns the result. */
static long call_setup_and_report_unrecorded(long n, const long args[6],
                                             const char *what)
{
    long r =
        REAL(syscall)(n, args[0], args[1], args[2], args[3], args[4], args[5]);
    int saved = errno;
    if (r >= 0)
        ips_report_unrecorded_with_length(what, strlen(what));
    errno = saved;
    return r;
}

/* Makes and records system call `n` if it is about processes, or sets up an
 * interface that leaves no records. True: the call was made, *r is its result.
 * False: it is another call, or the caller must still make it (exit and
 * exit_group). */
static bool call_wrapper_if_process_syscall(long *r, long n, const long args[6],
                                            uint64_t site)
{
    switch (n) {
    case SYS_execve:
        *r = execve(CAST_ARGUMENT(char *, args[0]),
                    CAST_ARGUMENT(char **, args[1]),
                    CAST_ARGUMENT(char **, args[2]));
        return true;
    case SYS_execveat:
        *r = execveat((int)args[0], CAST_ARGUMENT(char *, args[1]),
                      CAST_ARGUMENT(char **, args[2]),
                      CAST_ARGUMENT(char **, args[3]), (int)args[4]);
        return true;
    case SYS_wait4:
        *r = ips_wait4_at((pid_t)args[0], CAST_ARGUMENT(int *, args[1]),
                          (int)args[2], CAST_ARGUMENT(struct rusage *, args[3]),
                          site);
        return true;
    case SYS_waitid:
        *r = args[4] ? ips_waitid_with_usage_at(args, site)
                     : ips_waitid_at((idtype_t)args[0], (id_t)args[1],
                                     CAST_ARGUMENT(siginfo_t *, args[2]),
                                     (int)args[3], site);
        return true;
    case SYS_io_uring_setup:
        *r = call_setup_and_report_unrecorded(n, args, "io_uring");
        return true;
    case SYS_io_setup:
        *r = call_setup_and_report_unrecorded(n, args, "kernel AIO");
        return true;
    case SYS_exit_group:
        ips_close_calls_and_record_process_end(IPS_END_EXIT, (int)args[0]);
        return false;
    case SYS_exit:
        ips_core_end_thread_stream();
        return false;
    case SYS_clone:
        *r = ips_call_fork_syscall_and_record(n, args, site);
        return true;
#ifdef SYS_fork
    case SYS_fork:
        *r = ips_call_fork_syscall_and_record(n, args, site);
        return true;
#endif
    default:
        return false;
    }
}

static enum ips_op wait_op_of_syscall(long n)
{
    switch (n) {
    case SYS_ppoll:
#ifdef SYS_poll
    case SYS_poll:
#endif
        return IPS_OP_POLL;
    case SYS_pselect6:
#ifdef SYS_select
    case SYS_select:
#endif
        return IPS_OP_SELECT;
    case SYS_epoll_pwait:
    case SYS_epoll_pwait2:
#ifdef SYS_epoll_wait
    case SYS_epoll_wait:
#endif
        return IPS_OP_EPOLL;
    case SYS_nanosleep:
    case SYS_clock_nanosleep:
        return IPS_OP_SLEEP;
    case SYS_rt_sigtimedwait:
    case SYS_rt_sigsuspend:
#ifdef SYS_pause
    case SYS_pause:
#endif
        return IPS_OP_SIGWAIT;
#ifdef SYS_futex_waitv
    case SYS_futex_waitv: /* several futexes: the waker is unknown */
        return IPS_OP_OTHER;
#endif
    default:
        return IPS_OP_DATA; /* the system call is not a wait */
    }
}

/* Called by `syscall` in preload/start/entry.S after a raw call that it made
 * itself failed with `result`: sets errno and returns -1. */
long ips_syscall_set_errno(long result)
{
    errno = (int)-result;
    return -1;
}

/* Called by `syscall` in preload/start/entry.S for every system call that it
 * does not make itself. */
long ips_syscall(long n, long a, long b, long c, long d, long e, long f)
{
    long r = 0;
    const long args[6] = {a, b, c, d, e, f};
    bool on = ips_wrap_start_library_and_check_recording();
    /* prctl and seccomp must be handled in a vfork child, too */
    if (n == SYS_prctl)
        return prctl((int)a, b, c, d, e);
    if (n == SYS_seccomp) {
        enum ips_forbids what =
            ips_classify_seccomp_operation((unsigned long)a);
        bool before = ips_limit_recording_for_forbidden_calls(what);
        r = REAL(syscall)(n, a, b, c, d, e, f);
        /* a positive result is a descriptor (success) or the tid of a thread
         * (failure) */
        if (r < 0 ||
            (r > 0 && !((unsigned long)b & SECCOMP_FILTER_FLAG_NEW_LISTENER)))
            ips_undo_limit_for_forbidden_calls(what, before);
        return r;
    }
    if (!on)
        return REAL(syscall)(n, a, b, c, d, e, f);
    if (n == SYS_futex)
        return ips_call_futex_and_record(n, args, IPS_SITE);
    if (call_wrapper_if_transfer_syscall(&r, n, args, IPS_SITE) ||
        call_wrapper_if_descriptor_syscall(&r, n, args, IPS_SITE) ||
        call_wrapper_if_file_syscall(&r, n, args, IPS_SITE) ||
        call_wrapper_if_ipc_syscall(&r, n, args, IPS_SITE) ||
        call_wrapper_if_process_syscall(&r, n, args, IPS_SITE) ||
        ips_record_kill_or_make_sigaction(&r, n, args, IPS_SITE))
        return r;
    enum ips_op op = wait_op_of_syscall(n);
    if (op != IPS_OP_DATA)
        return call_wait_syscall_and_record(op, n, args, IPS_SITE);
    IPS_REPEAT_AFTER_SAMPLE(r, REAL(syscall)(n, a, b, c, d, e, f), r == -1,
                            errno, (void)0);
    return r;
}
