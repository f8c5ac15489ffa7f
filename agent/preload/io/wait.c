/* Wrappers of calls that wait: poll, select, epoll, sleeps, waits for signals.
 */
#include "agent/preload/wrap.h"

#include "agent/preload/sample/sample.h"

/* --- ready descriptors ---------------------------------------------------- */

/* Returns the field `ready` of a BLOCK record for the ready descriptor `fd`. A
 * pipe or connection that was not used before gets its channel id here, so that
 * the following receive has the same id. */
static __attribute__((noinline, cold)) uint32_t
identify_fd_and_encode_readiness(int fd)
{
    int saved = errno;
    uint64_t word = ips_fd_get_or_identify(fd);
    uint32_t number = (uint32_t)word, what = ips_fd_channel_id(word);
    if (ips_fd_class(word) == IPS_FD_PIDFD && number)
        what = IPS_READY(IPS_READY_PIDFD, number);
    else if (ips_fd_class(word) == IPS_FD_EVENTFD)
        what =
            IPS_READY(IPS_READY_EVENTFD, IPS_READY_KIND(number) ? 0 : number);
    else if (ips_fd_class(word) == IPS_FD_TIMERFD)
        what = IPS_READY_TIMERFD;
    else if (ips_fd_class(word) == IPS_FD_EPOLL)
        what = IPS_READY_EPOLL;
    else if (ips_fd_class(word) == IPS_FD_SIGNALFD)
        what = IPS_READY_SIGNALFD(number);
    else if (ips_fd_class(word) == IPS_FD_FILE && number)
        what = IPS_READY(IPS_READY_OTHER, number); /* a message queue */
    errno = saved;
    return what;
}

static inline uint64_t pack_ready_fd(int fd, uint32_t why)
{
    uint64_t word = ips_fd_get(fd);
    bool known = ips_fd_class(word) >= IPS_FD_STREAM &&
                 ips_fd_class(word) <= IPS_FD_LISTEN;
    return ips_pack_ready_object_and_events(
        likely(known) ? (uint32_t)word : identify_fd_and_encode_readiness(fd),
        why);
}

/* Converts events of poll or epoll (the bits are the same) to bits of enum
 * ips_ready_why. */
static inline uint32_t ready_bits_of_events(uint32_t events)
{
    _Static_assert(POLLIN == EPOLLIN && POLLOUT == EPOLLOUT &&
                       POLLHUP == EPOLLHUP && POLLERR == EPOLLERR &&
                       POLLRDHUP == EPOLLRDHUP && POLLPRI == EPOLLPRI,
                   "bits");
    return (events & (POLLIN | POLLRDNORM | POLLPRI) ? IPS_READY_IN : 0) |
           (events & (POLLOUT | POLLWRNORM) ? IPS_READY_OUT : 0) |
           (events & (POLLHUP | POLLRDHUP) ? IPS_READY_HUP : 0) |
           (events & POLLERR ? IPS_READY_ERR : 0);
}

uint64_t ips_pack_ready_events(int fd, uint32_t events)
{
    return pack_ready_fd(fd, ready_bits_of_events(events));
}

static uint64_t pack_first_ready_of_poll(const struct pollfd *fds, nfds_t n,
                                         int r)
{
    for (nfds_t i = 0; r > 0 && i < n; i++)
        if (likely(fds[i].revents && fds[i].fd >= 0))
            return pack_ready_fd(
                fds[i].fd, ready_bits_of_events((uint16_t)fds[i].revents));
    return 0;
}

/* FD_SETSIZE is not checked, because programs use longer sets. */
static bool is_in_fd_set(const fd_set *set, unsigned fd)
{
    const unsigned bits = 8 * sizeof(__fd_mask);
    const __fd_mask *words = (const __fd_mask *)set;
    return set && (unsigned long)words[fd / bits] >> fd % bits & 1;
}

/* `n` may exceed the length of the sets, because the kernel lowers it to the
 * size of its table of descriptors. Therefore nothing is read after the first
 * descriptor that is ready. */
static uint64_t pack_first_ready_of_select(int n, const fd_set *rd,
                                           const fd_set *wr, const fd_set *ex,
                                           int r)
{
    const fd_set *sets[] = {rd, wr, ex};
    const uint32_t why[] = {IPS_READY_IN, IPS_READY_OUT, IPS_READY_IN};
    for (int fd = 0; r > 0 && fd < n; fd++)
        for (int s = 0; s < 3; s++)
            if (is_in_fd_set(sets[s], (unsigned)fd))
                return pack_ready_fd(fd, why[s]);
    return 0;
}

/* epoll_wait returns the data that the program registered, not the descriptor.
 * The table epoll_slots maps (epoll descriptor, data) to the descriptor. It is
 * lossy: a new entry replaces an old one in its slot, and a slot that is being
 * written is not used. */
#define EPOLL_SLOTS 4096u
static struct find_epoll_slot {
    _Atomic uint64_t key; /* 0 = empty */
    _Atomic uint64_t fd;
} epoll_slots[EPOLL_SLOTS] IPS_TABLE;

static struct find_epoll_slot *find_epoll_slot(int epfd, uint64_t data,
                                               uint64_t *key)
{
    *key = (data ^ (uint64_t)(unsigned)epfd << 48 ^ 0x9e37u) *
               0x9e3779b97f4a7c15ull |
           1;
    return &epoll_slots[*key >> 52];
}

static IPS_HOT uint64_t
pack_first_ready_of_epoll(int epfd, const struct epoll_event *events, int r)
{
    uint64_t key;
    if (r <= 0)
        return 0;
    struct find_epoll_slot *slot =
        find_epoll_slot(epfd, events[0].data.u64, &key);
    if (unlikely(atomic_load(&slot->key) != key))
        return 0;
    int fd = (int)atomic_load(&slot->fd);
    return likely(atomic_load(&slot->key) == key)
               ? pack_ready_fd(fd, ready_bits_of_events(events[0].events))
               : 0;
}

uint64_t ips_pack_first_ready_of_syscall(enum ips_op op, const long args[6],
                                         long r)
{
    const void *at[4] = {NULL};
    for (int i = 0; i < 4; i++)
        at[i] = (const void *)(uintptr_t)args[i];
    return op == IPS_OP_POLL
               ? pack_first_ready_of_poll(at[0], (nfds_t)args[1], (int)r)
           : op == IPS_OP_EPOLL
               ? pack_first_ready_of_epoll((int)args[0], at[1], (int)r)
           : op == IPS_OP_SELECT
               ? pack_first_ready_of_select((int)args[0], at[1], at[2], at[3],
                                            (int)r)
               : 0;
}

IPS_EXPORT int epoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
    if (!ips_wrap_start_library_and_check_recording())
        return REAL(epoll_ctl)(epfd, op, fd, event);
    uint64_t key, data = 0;
    bool adds = op == EPOLL_CTL_ADD || op == EPOLL_CTL_MOD;
    int r = REAL(epoll_ctl)(epfd, op, fd, event);
    if (r == 0 && adds) {
        data = event->data.u64;
        struct find_epoll_slot *slot = find_epoll_slot(epfd, data, &key);
        if (atomic_load(&slot->key) != key ||
            atomic_load(&slot->fd) != (uint64_t)(unsigned)fd) {
            atomic_store(&slot->key, 0);
            atomic_store(&slot->fd, (uint64_t)(unsigned)fd);
            atomic_store(&slot->key, key);
        }
    }
    return r;
}

/* --- wrappers of the calls that wait -------------------------------------- */

/* Body of a wrapper that waits: writes a BLOCK record if the call blocked or
 * returned more than 0. `real_call`: the real call; `ready`: an expression that
 * may use its result `r`; `again`: executed before the call is repeated after a
 * sampling signal (preload/sample/sample.h). */
#define WAIT(type, op, real_call, ready, again)                                \
    do {                                                                       \
        if (!ips_wrap_start_library_and_check_recording())                     \
            return real_call;                                                  \
        IPS_WAIT_MARK;                                                         \
        struct ips_moment call = ips_moment_of_call();                         \
        IPS_CALL_BEGINS(IPS_BEGUN(IPS_REC_BLOCK, op, 0), IPS_SITE, call);      \
        type r;                                                                \
        IPS_REPEAT_AFTER_SAMPLE(r, real_call, r == (type)-1, errno, again);    \
        int saved = errno;                                                     \
        ips_record_wait_if_blocked_or_ready(op, call, (int64_t)r, saved,       \
                                            IPS_SITE, ready);                  \
        errno = saved;                                                         \
        return r;                                                              \
    } while (0)

/* Like WAIT, for poll, select and epoll. `no_wait`: the timeout was 0;
 * `only_time`: there are no descriptors, so a timeout is a sleep. */
#define POLL(op, real_call, ready, no_wait, only_time, again)                  \
    do {                                                                       \
        struct ips_moment call;                                                \
        uint32_t mark;                                                         \
        if (unlikely(                                                          \
                !ips_poll_open_call_if_recorded(&call, &mark, op, IPS_SITE)))  \
            return real_call;                                                  \
        bool asks = no_wait; /* read now: the call may change the timeout */   \
        int r;                                                                 \
        IPS_REPEAT_AFTER_SAMPLE(r, real_call, r == -1, errno, again);          \
        if (unlikely(r <= 0))                                                  \
            return record_poll_without_ready(                                  \
                &call, mark, r == 0 && (only_time) ? IPS_OP_SLEEP : op, r,     \
                IPS_SITE, asks);                                               \
        return ips_poll_record_with_ready_fd(&call, mark, op, r, IPS_SITE,     \
                                             ready);                           \
    } while (0)

static __attribute__((noinline)) int
record_poll_without_ready(const struct ips_moment *call, uint32_t mark,
                          enum ips_op op, int r, uint64_t site, bool asks)
{
    int saved = errno;
    ips_record_poll_or_count_failed_poll(op, *call, r, saved, site, 0, asks);
    ips_close_open_call(&ips_me, mark);
    errno = saved;
    return r;
}

static bool is_zero_timeout(const struct timespec *ts)
{
    return ts && ts->tv_sec == 0 && ts->tv_nsec == 0;
}

int ips_timeout_left_ms(int asked, const struct ips_moment *call)
{
    if (asked <= 0)
        return asked;
    uint64_t past =
        ips_wrap_stamps_to_ns(ips_core_stamp_now() - call->t) / 1000000u;
    return past < (uint64_t)asked ? asked - (int)past : 0;
}

const struct timespec *ips_timeout_left(const struct timespec *asked,
                                        const struct ips_moment *call,
                                        struct timespec *room)
{
    if (!asked)
        return NULL;
    uint64_t past = ips_wrap_stamps_to_ns(ips_core_stamp_now() - call->t);
    *room = *asked;
    room->tv_sec -= (time_t)(past / 1000000000u);
    room->tv_nsec -= (long)(past % 1000000000u);
    if (room->tv_nsec < 0) {
        room->tv_nsec += 1000000000;
        room->tv_sec--;
    }
    if (room->tv_sec < 0)
        *room = (struct timespec){0, 0};
    return room;
}

#define LEFT_MS ms = ips_timeout_left_ms(asked, &call)
#define LEFT_TS ts = ips_timeout_left(asked, &call, &room)
/* The kernel stored the remaining time in *left: the repeated call waits for
 * that. */
#define LEFT_REST (room = *left, ts = &room)

IPS_EXPORT IPS_HOT int poll(struct pollfd *fds, nfds_t n, int ms)
{
    const int asked = ms;
    POLL(IPS_OP_POLL, REAL(poll)(fds, n, ms),
         pack_first_ready_of_poll(fds, n, r), ms == 0, n == 0, LEFT_MS);
}
int __poll(struct pollfd *, nfds_t, int) IPS_ALIAS(poll);

int __poll_chk(struct pollfd *fds, nfds_t n, int ms, size_t size);
IPS_EXPORT int __poll_chk(struct pollfd *fds, nfds_t n, int ms, size_t size)
{
    const int asked = ms;
    POLL(IPS_OP_POLL, REAL(__poll_chk)(fds, n, ms, size),
         pack_first_ready_of_poll(fds, n, r), ms == 0, n == 0, LEFT_MS);
}

IPS_EXPORT int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *ts,
                     const sigset_t *set)
{
    const struct timespec *asked = ts;
    struct timespec room;
    POLL(IPS_OP_POLL, REAL(ppoll)(fds, n, ts, set),
         pack_first_ready_of_poll(fds, n, r), is_zero_timeout(ts), n == 0,
         LEFT_TS);
}

int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *ts,
                const sigset_t *set, size_t size);
IPS_EXPORT int __ppoll_chk(struct pollfd *fds, nfds_t n,
                           const struct timespec *ts, const sigset_t *set,
                           size_t size)
{
    const struct timespec *asked = ts;
    struct timespec room;
    POLL(IPS_OP_POLL, REAL(__ppoll_chk)(fds, n, ts, set, size),
         pack_first_ready_of_poll(fds, n, r), is_zero_timeout(ts), n == 0,
         LEFT_TS);
}

IPS_EXPORT int select(int n, fd_set *rd, fd_set *wr, fd_set *ex,
                      struct timeval *tv)
{
    /* the kernel writes the remaining time to `tv`: a repeat needs no change */
    POLL(IPS_OP_SELECT, REAL(select)(n, rd, wr, ex, tv),
         pack_first_ready_of_select(n, rd, wr, ex, r),
         tv && tv->tv_sec == 0 && tv->tv_usec == 0, !rd && !wr && !ex, (void)0);
}
int __select(int, fd_set *, fd_set *, fd_set *, struct timeval *)
    IPS_ALIAS(select);

IPS_EXPORT int pselect(int n, fd_set *rd, fd_set *wr, fd_set *ex,
                       const struct timespec *ts, const sigset_t *set)
{
    const struct timespec *asked = ts;
    struct timespec room;
    POLL(IPS_OP_SELECT, REAL(pselect)(n, rd, wr, ex, ts, set),
         pack_first_ready_of_select(n, rd, wr, ex, r), is_zero_timeout(ts),
         !rd && !wr && !ex, LEFT_TS);
}

IPS_EXPORT IPS_HOT int epoll_wait(int epfd, struct epoll_event *events, int n,
                                  int ms)
{
    const int asked = ms;
    POLL(IPS_OP_EPOLL, REAL(epoll_wait)(epfd, events, n, ms),
         pack_first_ready_of_epoll(epfd, events, r), ms == 0, false, LEFT_MS);
}

IPS_EXPORT IPS_HOT int epoll_pwait(int epfd, struct epoll_event *events, int n,
                                   int ms, const sigset_t *set)
{
    const int asked = ms;
    POLL(IPS_OP_EPOLL, REAL(epoll_pwait)(epfd, events, n, ms, set),
         pack_first_ready_of_epoll(epfd, events, r), ms == 0, false, LEFT_MS);
}

IPS_EXPORT int epoll_pwait2(int epfd, struct epoll_event *events, int n,
                            const struct timespec *ts, const sigset_t *set)
{
    const struct timespec *asked = ts;
    struct timespec room;
    struct ips_moment call;
    uint32_t mark;
    int r;
    if (unlikely(!ips_poll_open_call_if_recorded(&call, &mark, IPS_OP_EPOLL,
                                                 IPS_SITE)))
        return REAL(epoll_pwait2)(epfd, events, n, ts, set);
    IPS_REPEAT_AFTER_SAMPLE(r, REAL(epoll_pwait2)(epfd, events, n, ts, set),
                            r == -1, errno, LEFT_TS);
    if (r > 0)
        return ips_poll_record_with_ready_fd(
            &call, mark, IPS_OP_EPOLL, r, IPS_SITE,
            pack_first_ready_of_epoll(epfd, events, r));
    /* The timeout may be unreadable if the call failed. */
    return record_poll_without_ready(&call, mark, IPS_OP_EPOLL, r, IPS_SITE,
                                     r == 0 && is_zero_timeout(asked));
}

/* Makes a sleep() that continues after a sampling signal of ours interrupted
 * it. The remaining time is computed from the clock, because sleep() returns
 * whole seconds only. */
static unsigned sleep_through_samples(unsigned seconds)
{
    const struct timespec asked = {(time_t)seconds, 0};
    struct timespec room;
    int saved = errno;
    struct ips_moment call = {.t = ips_core_stamp_now()};
    const uint32_t handlers = ips_me.handlers_run;
    ips_me.sample_eintr = 0;
    unsigned r = REAL(sleep)(seconds);
    while (unlikely(ips_me.sample_eintr) &&
           IPS_ONLY_SAMPLE_INTERRUPTED(handlers)) {
        ips_me.sample_eintr = 0;
        errno = saved;
        ips_timeout_left(&asked, &call, &room);
        r = REAL(nanosleep)(&room, &room) == 0 ? 0 : (unsigned)room.tv_sec;
    }
    return r;
}

IPS_EXPORT unsigned sleep(unsigned seconds)
{
    WAIT(unsigned, IPS_OP_SLEEP, sleep_through_samples(seconds), 0, (void)0);
}

IPS_EXPORT int usleep(useconds_t us)
{
    const useconds_t asked = us;
    WAIT(int, IPS_OP_SLEEP, REAL(usleep)(us), 0,
         us = (useconds_t)ips_sub_sat(
             asked,
             ips_wrap_stamps_to_ns(ips_core_stamp_now() - call.t) / 1000));
}

IPS_EXPORT int nanosleep(const struct timespec *ts, struct timespec *left)
{
    struct timespec own = {0, 0}, room;
    left = left ? left : &own;
    WAIT(int, IPS_OP_SLEEP, REAL(nanosleep)(ts, left), 0, LEFT_REST);
}
int __nanosleep(const struct timespec *, struct timespec *)
    IPS_ALIAS(nanosleep);

/* Like WAIT, for calls that do not set errno. `number`: an expression for the
 * error number that the result `r` means (0: success). The record has the
 * result -1 and that number. */
#define WAIT_NUMBER(op, real_call, number, again)                              \
    do {                                                                       \
        if (!ips_wrap_start_library_and_check_recording())                     \
            return real_call;                                                  \
        IPS_WAIT_MARK;                                                         \
        struct ips_moment call = ips_moment_of_call();                         \
        IPS_CALL_BEGINS(IPS_BEGUN(IPS_REC_BLOCK, op, 0), IPS_SITE, call);      \
        int r;                                                                 \
        IPS_REPEAT_AFTER_SAMPLE(r, real_call, r != 0, number, again);          \
        int saved = errno;                                                     \
        ips_record_wait_if_blocked_or_ready(op, call, r ? -1 : 0, number,      \
                                            IPS_SITE, 0);                      \
        errno = saved;                                                         \
        return r;                                                              \
    } while (0)

IPS_EXPORT int clock_nanosleep(clockid_t clock, int flags,
                               const struct timespec *ts, struct timespec *left)
{
    struct timespec own = {0, 0}, room;
    left = left ? left : &own;
    WAIT_NUMBER(IPS_OP_SLEEP, REAL(clock_nanosleep)(clock, flags, ts, left), r,
                if (!(flags & TIMER_ABSTIME)) LEFT_REST);
}

IPS_EXPORT int thrd_sleep(const struct timespec *ts, struct timespec *left)
{
    struct timespec own = {0, 0}, room;
    left = left ? left : &own;
    WAIT_NUMBER(IPS_OP_SLEEP, REAL(thrd_sleep)(ts, left),
                r == -1 ? EINTR
                : r     ? EINVAL
                        : 0,
                LEFT_REST);
}

/* Records a wait for signals that returned `r`: BLOCK and, if a signal was
 * taken, SIGNAL with the time of the return. Returns `r`. */
static int record_signal_wait(struct ips_moment call, int r,
                              const siginfo_t *info, uint64_t site)
{
    int saved = errno;
    struct ips_moment ret = ips_record_wait_if_blocked_or_ready(
        IPS_OP_SIGWAIT, call, r, saved, site, 0);
    if (r > 0)
        ips_record_signal_taken(
            IPS_SIGNAL_WAIT, r, info->si_code, info->si_pid,
            ips_choose_signal_value_by_code(
                r, info->si_code, info->si_fd, info->si_band,
                (uint64_t)(uintptr_t)info->si_value.sival_ptr),
            ret);
    errno = saved;
    return r;
}

#define SIGNAL_BEGINS(call)                                                    \
    IPS_CALL_BEGINS(IPS_BEGUN(IPS_REC_BLOCK, IPS_OP_SIGWAIT, 0), IPS_SITE, call)

/* The C library's sigwait() runs the same loop, but discards the sender, which
 * the record needs. */
IPS_EXPORT int sigwait(const sigset_t *set, int *sig)
{
    siginfo_t info;
    int r, saved = errno;
    bool on = ips_wrap_start_library_and_check_recording();
    struct ips_moment call = {.t = 0};
    IPS_WAIT_MARK;
    if (on) {
        call = ips_take_call_moment();
        SIGNAL_BEGINS(call);
    }
    do {
        r = REAL(sigtimedwait)(set, &info, NULL);
    } while (r < 0 && errno == EINTR);
    if (on)
        record_signal_wait(call, r, &info, IPS_SITE);
    if (r < 0) /* sigwait returns the error number and leaves errno unchanged */
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
    siginfo_t own = {0};
    if (!ips_wrap_start_library_and_check_recording())
        return REAL(sigwaitinfo)(set, info);
    info = info ? info : &own;
    IPS_WAIT_MARK;
    struct ips_moment call = ips_take_call_moment();
    SIGNAL_BEGINS(call);
    int r;
    IPS_REPEAT_AFTER_SAMPLE(r, REAL(sigwaitinfo)(set, info), r < 0, errno,
                            (void)0);
    return record_signal_wait(call, r, info, IPS_SITE);
}

IPS_EXPORT int sigtimedwait(const sigset_t *set, siginfo_t *info,
                            const struct timespec *ts)
{
    siginfo_t own = {0};
    const struct timespec *asked = ts;
    struct timespec room;
    if (!ips_wrap_start_library_and_check_recording())
        return REAL(sigtimedwait)(set, info, ts);
    info = info ? info : &own;
    IPS_WAIT_MARK;
    struct ips_moment call = ips_take_call_moment();
    SIGNAL_BEGINS(call);
    int r;
    IPS_REPEAT_AFTER_SAMPLE(r, REAL(sigtimedwait)(set, info, ts), r < 0, errno,
                            LEFT_TS);
    return record_signal_wait(call, r, info, IPS_SITE);
}

IPS_EXPORT int sigsuspend(const sigset_t *set)
{
    WAIT(int, IPS_OP_SIGWAIT, REAL(sigsuspend)(set), 0, (void)0);
}
int __sigsuspend(const sigset_t *) IPS_ALIAS(sigsuspend);

IPS_EXPORT int pause(void)
{
    WAIT(int, IPS_OP_SIGWAIT, REAL(pause)(), 0, (void)0);
}

int __xpg_sigpause(int); /* the symbol that sigpause() compiles to */
IPS_EXPORT int __xpg_sigpause(int sig)
{
    WAIT(int, IPS_OP_SIGWAIT, REAL(__xpg_sigpause)(sig), 0, (void)0);
}
