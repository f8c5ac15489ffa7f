/*
 * Signals that the kernel sends because something became ready: a descriptor
 * with O_ASYNC, a message queue with mq_notify. The SIGNAL record names what
 * became ready, so that the signal depends on who made it so.
 *
 * Async-signal-safe: handlers are recorded by it.
 */
#include "agent/preload/wrap.h"

#include <poll.h>
#include <signal.h>

#include "agent/record/sys.h"

/* The descriptor with O_ASYNC, plus 1. SIGIO without F_SETSIG does not name its
 * descriptor. */
#define SEVERAL UINT32_MAX
static _Atomic uint32_t async_fd;

/* For each signal: `ino` of the ACQUIREs of the queue for which mq_notify sent
 * it last; 0: none. */
static _Atomic uint64_t queue_of[_NSIG] IPS_TABLE;

void ips_notice_async(int fd, bool on)
{
    uint32_t one = (uint32_t)fd + 1, old = atomic_load(&async_fd);
    if (on && old != one)
        atomic_store(&async_fd, old ? SEVERAL : one);
    else if (!on && old == one)
        atomic_store(&async_fd, 0);
}

void ips_notice_queue(int q, int sig)
{
    struct stat st;
    int saved = errno;
    if (sig > 0 && sig < _NSIG && !ips_sys_quiet && ips_sys_fstat(q, &st) == 0)
        atomic_store(&queue_of[sig],
                     IPS_READY_NUMBER(IPS_READY_QUEUE(st.st_ino)));
    errno = saved;
}

/* Signals whose positive si_code has another meaning than poll's. */
static bool is_fault_or_child(int sig)
{
    return sig == SIGILL || sig == SIGTRAP || sig == SIGBUS || sig == SIGFPE ||
           sig == SIGSEGV || sig == SIGCHLD || sig == SIGSYS;
}

uint64_t ips_notice_value(int sig, int code, int fd, long band, uint64_t value)
{
    uint32_t async = atomic_load(&async_fd);
    if (code == SI_QUEUE || code == SI_TIMER)
        return value;
    if (code == SI_MESGQ)
        return sig > 0 && sig < _NSIG ? atomic_load(&queue_of[sig]) : 0;
    if (code >= POLL_IN && code <= POLL_HUP && !is_fault_or_child(sig))
        return ips_ready_of(fd, (uint32_t)band);
    if (code == SI_KERNEL && sig == SIGIO && async && async != SEVERAL)
        return ips_ready_of((int)async - 1, POLLIN);
    return 0;
}
