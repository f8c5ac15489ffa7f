/*
 * Signals that the kernel sends because something became ready: a descriptor
 * with O_ASYNC, a message queue with mq_notify. The SIGNAL record names the
 * descriptor or queue, so that the signal depends on the thread that made it
 * ready.
 *
 * Async-signal-safe, because it is used when a handler's SIGNAL record is
 * written.
 */
#include "agent/preload/wrap.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>

#include "agent/record/sys.h"

/* async_fd: the descriptor with O_ASYNC, plus 1; 0: none; SEVERAL: more than
 * one. It is needed because a SIGIO does not name its descriptor unless the
 * program used F_SETSIG. */
#define SEVERAL UINT32_MAX
static _Atomic uint32_t async_fd;

/* For each signal: the number of the message queue for which mq_notify sends it
 * (`ino` in the queue's ACQUIRE records); 0: none; SEVERAL: more than one
 * queue. */
static _Atomic uint64_t queue_by_signal[_NSIG] IPS_TABLE;

void ips_store_or_clear_async_fd(int fd, bool on)
{
    uint32_t one = (uint32_t)fd + 1, old = atomic_load(&async_fd);
    if (on && old != one)
        atomic_store(&async_fd, old ? SEVERAL : one);
    else if (!on && old == one)
        atomic_store(&async_fd, 0);
}

uint64_t ips_store_queue_of_notify_signal(int q, int sig)
{
    struct stat st;
    int saved = errno;
    uint64_t old =
        sig > 0 && sig < _NSIG ? atomic_load(&queue_by_signal[sig]) : 0;
    if (sig > 0 && sig < _NSIG && !ips_sys_quiet &&
        ips_sys_fstat(q, &st) == 0) {
        uint64_t number = IPS_READY_NUMBER(IPS_READY_QUEUE(st.st_ino));
        atomic_store(&queue_by_signal[sig],
                     old == 0 || old == number ? number : SEVERAL);
    }
    errno = saved;
    return old;
}

void ips_restore_queue_of_notify_signal(int sig, uint64_t old)
{
    if (sig > 0 && sig < _NSIG)
        atomic_store(&queue_by_signal[sig], old);
}

static uint64_t queue_of_signal(int sig)
{
    uint64_t number =
        sig > 0 && sig < _NSIG ? atomic_load(&queue_by_signal[sig]) : 0;
    return number == SEVERAL ? 0 : number;
}

/* Returns ips_pack_ready_events of the descriptor that caused a SIGIO that does
 * not name it (no F_SETSIG): the process's only descriptor with O_ASYNC, if it
 * still has that flag and is ready; else 0. */
static uint64_t poll_and_pack_ready_async_fd(void)
{
    uint32_t async = atomic_load(&async_fd);
    struct pollfd f = {.fd = (int)async - 1, .events = POLLIN | POLLOUT};
    const struct timespec none = {0, 0};
    long flags = async && async != SEVERAL && !ips_sys_quiet
                     ? ips_sys3(SYS_fcntl, f.fd, F_GETFL, 0)
                     : -1;
    if (flags < 0 || !(flags & O_ASYNC) ||
        ips_sys6(SYS_ppoll, (long)&f, 1, (long)&none, 0, 0, 0) != 1)
        return 0;
    uint32_t events = (uint16_t)f.revents;
    bool reads = events & (POLLIN | POLLHUP | POLLERR);
    return ips_pack_ready_events(f.fd,
                                 reads ? events & ~(uint32_t)POLLOUT : POLLOUT);
}

/* Whether a positive si_code of this signal has another meaning than POLL_IN
 * and the like. */
static bool is_fault_or_child_signal(int sig)
{
    return sig == SIGILL || sig == SIGTRAP || sig == SIGBUS || sig == SIGFPE ||
           sig == SIGSEGV || sig == SIGCHLD || sig == SIGSYS;
}

uint64_t ips_choose_signal_value_by_code(int sig, int code, int fd, long band,
                                         uint64_t value)
{
    if (code == SI_QUEUE || code == SI_TIMER)
        return value;
    if (code == SI_MESGQ)
        return queue_of_signal(sig);
    if (code >= POLL_IN && code <= POLL_HUP && !is_fault_or_child_signal(sig))
        return ips_pack_ready_events(fd, (uint32_t)band);
    return code == SI_KERNEL && sig == SIGIO ? poll_and_pack_ready_async_fd()
                                             : 0;
}
