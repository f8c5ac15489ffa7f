/* Waiting: poll, select, epoll, sleeps, signals. */
#include "agent/wrap.h"

/* --- ready descriptors
 * -------------------------------------------------------- */

/* The channel of a descriptor that was found ready; a pipe or connection not
 * used yet is named now, so that the receive to come can be told. */
static uint32_t channel(int fd)
{
    return ips_fd_chan(ips_chan_of(fd));
}

static uint32_t poll_ready(const struct pollfd *fds, nfds_t n, int r)
{
    for (nfds_t i = 0; r > 0 && i < n; i++)
        if (fds[i].revents && fds[i].fd >= 0)
            return channel(fds[i].fd);
    return 0;
}

static uint32_t select_ready(int n, fd_set *rd, fd_set *wr, fd_set *ex, int r)
{
    const fd_set *sets[] = {rd, wr, ex};
    for (int s = 0; r > 0 && s < 3; s++)
        for (int fd = 0; sets[s] && fd < n; fd++) {
            const unsigned bits = 8 * sizeof(__fd_mask);
            /* programs use sets longer than FD_SETSIZE: no bound here */
            const __fd_mask *words = (const __fd_mask *)sets[s];
            if ((unsigned long)words[(unsigned)fd / bits] >>
                    ((unsigned)fd % bits) &
                1)
                return channel(fd);
        }
    return 0;
}

/* epoll gives back what the program registered: which descriptor that was, by
 * (epoll descriptor, data). A lossy table: the newest wins, and a slot that is
 * being written answers nothing. */
#define EPOLL_SLOTS 4096u
static struct epoll_slot {
    _Atomic uint64_t key; /* 0 = empty */
    _Atomic uint64_t fd;
} epoll_slots[EPOLL_SLOTS];

static struct epoll_slot *epoll_slot(int epfd, uint64_t data, uint64_t *key)
{
    *key = (data ^ (uint64_t)(unsigned)epfd << 48 ^ 0x9e37u) *
               0x9e3779b97f4a7c15ull |
           1;
    return &epoll_slots[*key >> 52];
}

static uint32_t epoll_ready(int epfd, const struct epoll_event *events, int r)
{
    uint64_t key;
    if (r <= 0)
        return 0;
    struct epoll_slot *slot = epoll_slot(epfd, events[0].data.u64, &key);
    if (atomic_load(&slot->key) != key)
        return 0;
    int fd = (int)atomic_load(&slot->fd);
    return atomic_load(&slot->key) == key ? channel(fd) : 0;
}

IPS_EXPORT int epoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
    if (!ips_wrap_on())
        return REAL(epoll_ctl)(epfd, op, fd, event);
    uint64_t key, data = 0;
    bool adds = op == EPOLL_CTL_ADD || op == EPOLL_CTL_MOD;
    int r = REAL(epoll_ctl)(epfd, op, fd, event);
    if (r == 0 && adds) {
        data = event->data.u64;
        struct epoll_slot *slot = epoll_slot(epfd, data, &key);
        if (atomic_load(&slot->key) != key ||
            atomic_load(&slot->fd) != (uint64_t)(unsigned)fd) {
            atomic_store(&slot->key, 0);
            atomic_store(&slot->fd, (uint64_t)(unsigned)fd);
            atomic_store(&slot->key, key);
        }
    }
    return r;
}

/* --- the calls
 * ------------------------------------------------------------------ */

/* `call` is the real call, `ready` an expression of its result `r`. */
#define WAIT(type, op, real_call, ready)                                       \
    do {                                                                       \
        if (!ips_wrap_on())                                                    \
            return real_call;                                                  \
        IPS_CALL_MARK;                                                         \
        struct ips_moment call = ips_at_call();                                \
        type r = real_call;                                                    \
        int saved = errno;                                                     \
        ips_record_wait(op, call, (int64_t)r, saved, IPS_SITE, ready);         \
        errno = saved;                                                         \
        return r;                                                              \
    } while (0)

IPS_EXPORT int poll(struct pollfd *fds, nfds_t n, int ms)
{
    WAIT(int, IPS_OP_POLL, REAL(poll)(fds, n, ms), poll_ready(fds, n, r));
}
int __poll(struct pollfd *, nfds_t, int) IPS_ALIAS(poll);

int __poll_chk(struct pollfd *fds, nfds_t n, int ms, size_t size);
IPS_EXPORT int __poll_chk(struct pollfd *fds, nfds_t n, int ms, size_t size)
{
    WAIT(int, IPS_OP_POLL, REAL(__poll_chk)(fds, n, ms, size),
         poll_ready(fds, n, r));
}

IPS_EXPORT int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *ts,
                     const sigset_t *set)
{
    WAIT(int, IPS_OP_POLL, REAL(ppoll)(fds, n, ts, set), poll_ready(fds, n, r));
}

int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *ts,
                const sigset_t *set, size_t size);
IPS_EXPORT int __ppoll_chk(struct pollfd *fds, nfds_t n,
                           const struct timespec *ts, const sigset_t *set,
                           size_t size)
{
    WAIT(int, IPS_OP_POLL, REAL(__ppoll_chk)(fds, n, ts, set, size),
         poll_ready(fds, n, r));
}

IPS_EXPORT int select(int n, fd_set *rd, fd_set *wr, fd_set *ex,
                      struct timeval *tv)
{
    WAIT(int, IPS_OP_SELECT, REAL(select)(n, rd, wr, ex, tv),
         select_ready(n, rd, wr, ex, r));
}
int __select(int, fd_set *, fd_set *, fd_set *, struct timeval *)
    IPS_ALIAS(select);

IPS_EXPORT int pselect(int n, fd_set *rd, fd_set *wr, fd_set *ex,
                       const struct timespec *ts, const sigset_t *set)
{
    WAIT(int, IPS_OP_SELECT, REAL(pselect)(n, rd, wr, ex, ts, set),
         select_ready(n, rd, wr, ex, r));
}

IPS_EXPORT int epoll_wait(int epfd, struct epoll_event *events, int n, int ms)
{
    WAIT(int, IPS_OP_EPOLL, REAL(epoll_wait)(epfd, events, n, ms),
         epoll_ready(epfd, events, r));
}

IPS_EXPORT int epoll_pwait(int epfd, struct epoll_event *events, int n, int ms,
                           const sigset_t *set)
{
    WAIT(int, IPS_OP_EPOLL, REAL(epoll_pwait)(epfd, events, n, ms, set),
         epoll_ready(epfd, events, r));
}

IPS_EXPORT int epoll_pwait2(int epfd, struct epoll_event *events, int n,
                            const struct timespec *ts, const sigset_t *set)
{
    WAIT(int, IPS_OP_EPOLL, REAL(epoll_pwait2)(epfd, events, n, ts, set),
         epoll_ready(epfd, events, r));
}

IPS_EXPORT unsigned sleep(unsigned seconds)
{
    WAIT(unsigned, IPS_OP_SLEEP, REAL(sleep)(seconds), 0);
}

IPS_EXPORT int usleep(useconds_t us)
{
    WAIT(int, IPS_OP_SLEEP, REAL(usleep)(us), 0);
}

IPS_EXPORT int nanosleep(const struct timespec *ts, struct timespec *left)
{
    WAIT(int, IPS_OP_SLEEP, REAL(nanosleep)(ts, left), 0);
}
int __nanosleep(const struct timespec *, struct timespec *)
    IPS_ALIAS(nanosleep);

/* These return an error number, not -1: turned round for the record. */
#define WAIT_NUMBER(op, real_call)                                             \
    do {                                                                       \
        if (!ips_wrap_on())                                                    \
            return real_call;                                                  \
        IPS_CALL_MARK;                                                         \
        struct ips_moment call = ips_at_call();                                \
        int r = real_call;                                                     \
        int saved = errno;                                                     \
        ips_record_wait(op, call, r ? -1 : 0, r < 0 ? -r : r, IPS_SITE, 0);    \
        errno = saved;                                                         \
        return r;                                                              \
    } while (0)

IPS_EXPORT int clock_nanosleep(clockid_t clock, int flags,
                               const struct timespec *ts, struct timespec *left)
{
    WAIT_NUMBER(IPS_OP_SLEEP, REAL(clock_nanosleep)(clock, flags, ts, left));
}

IPS_EXPORT int thrd_sleep(const struct timespec *ts, struct timespec *left)
{
    WAIT_NUMBER(IPS_OP_SLEEP, REAL(thrd_sleep)(ts, left));
}

/* BLOCK and, where a signal was taken, SIGNAL with the moment it returned. */
static int waited_for_signal(struct ips_moment call, int r,
                             const siginfo_t *info, uint64_t site)
{
    int saved = errno;
    struct ips_moment ret =
        ips_record_wait(IPS_OP_SIGWAIT, call, r, saved, site, 0);
    if (r > 0)
        ips_record_taken(IPS_SIGNAL_WAIT, r, info->si_code, info->si_pid,
                         (uint64_t)(uintptr_t)info->si_value.sival_ptr, ret);
    errno = saved;
    return r;
}

/* libc's own is this loop, and does not tell who sent the signal. */
IPS_EXPORT int sigwait(const sigset_t *set, int *sig)
{
    siginfo_t info;
    int r, saved = errno;
    bool on = ips_wrap_on();
    struct ips_moment call = {0, 0, 0};
    if (on)
        call = ips_at_call();
    do {
        r = REAL(sigtimedwait)(set, &info, NULL);
    } while (r < 0 && errno == EINTR);
    if (on)
        waited_for_signal(call, r, &info, IPS_SITE);
    if (r < 0) /* the error is the result; errno is left as it was */
        r = errno;
    else {
        *sig = r;
        r = 0;
    }
    errno = saved;
    return r;
}

IPS_EXPORT int sigwaitinfo(const sigset_t *set, siginfo_t *info)
{
    siginfo_t own;
    if (!ips_wrap_on())
        return REAL(sigwaitinfo)(set, info);
    info = info ? info : &own;
    struct ips_moment call = ips_at_call();
    int r = REAL(sigwaitinfo)(set, info);
    return waited_for_signal(call, r, info, IPS_SITE);
}

IPS_EXPORT int sigtimedwait(const sigset_t *set, siginfo_t *info,
                            const struct timespec *ts)
{
    siginfo_t own;
    if (!ips_wrap_on())
        return REAL(sigtimedwait)(set, info, ts);
    info = info ? info : &own;
    struct ips_moment call = ips_at_call();
    int r = REAL(sigtimedwait)(set, info, ts);
    return waited_for_signal(call, r, info, IPS_SITE);
}

IPS_EXPORT int sigsuspend(const sigset_t *set)
{
    WAIT(int, IPS_OP_SIGWAIT, REAL(sigsuspend)(set), 0);
}
int __sigsuspend(const sigset_t *) IPS_ALIAS(sigsuspend);

IPS_EXPORT int pause(void)
{
    WAIT(int, IPS_OP_SIGWAIT, REAL(pause)(), 0);
}

int __xpg_sigpause(int); /* what sigpause() is called in programs */
IPS_EXPORT int __xpg_sigpause(int sig)
{
    WAIT(int, IPS_OP_SIGWAIT, REAL(__xpg_sigpause)(sig), 0);
}
