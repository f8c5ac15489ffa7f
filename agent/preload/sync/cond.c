/*
 * Condition variables, POSIX and C11. A wait ends when the condition is
 * signalled and the mutex is free, which the signaller may still hold. So it
 * leaves two records with the same times: ACQUIRE of the condition, then
 * ACQUIRE of the mutex (value IPS_GOT_AFTER_COND). The second one has a waker
 * of its own only if the mutex was released after the signal. The wait also
 * releases the mutex at its start. With --locks=all, every wait records that it
 * holds the mutex again.
 */
#include "agent/preload/sync.h"

static bool is_cond_shared(const pthread_cond_t *c)
{
    return !ips_sync_known.cond ||
           (__atomic_load_n(&c->__data.__wrefs, __ATOMIC_RELAXED) & 1);
}

/* Whether a thread may be waiting for the condition. In __wrefs, the count of
 * waiters is above three flag bits. */
static bool cond_has_waiters(const pthread_cond_t *c)
{
    return !ips_sync_known.cond ||
           __atomic_load_n(&c->__data.__wrefs, __ATOMIC_RELAXED) >> 3 != 0;
}

struct wait {
    const pthread_cond_t *c;
    const pthread_mutex_t *m;
    /* whether the condition (index 0) and the mutex (1) are process-shared;
     * read before the call, because the condition may be destroyed after it */
    bool shared[2];
    struct ips_moment call;
    uint64_t site;
};

static void begin_cond_wait_and_record_unlock(struct wait *w,
                                              const pthread_cond_t *c,
                                              const pthread_mutex_t *m,
                                              uint64_t site)
{
    w->c = c;
    w->m = m;
    w->shared[0] = is_cond_shared(c);
    w->shared[1] = ips_mutex_is_shared(m);
    w->site = site;
    w->call = ips_take_call_moment();
    if (unlikely(ips_mutex_check_waiters_and_clear_mark(m))) {
        struct ips_sync_object thing =
            ips_compute_sync_object_name(m, w->shared[1]);
        ips_record_release(IPS_SYNC_MUTEX, &thing, w->call, 1, site);
    } else if (unlikely(ips_sync_all)) {
        ips_record_uncontended_release(IPS_SYNC_MUTEX, m, w->shared[1],
                                       w->call);
    }
}

static void record_cond_wait_and_relock(const struct wait *w, int err)
{
    struct ips_moment ret = ips_return_moment(&w->call);
    bool blocked = ips_was_blocked(&w->call, &ret);
    struct ips_sync_object thing = {0};
    if (blocked) {
        thing = ips_compute_sync_object_name(w->c, w->shared[0]);
        ips_record_acquire(IPS_SYNC_COND, &thing, w->call, ret, 0, err,
                           w->site);
    }
    if (unlikely(ips_sync_all) && (!blocked || err))
        ips_record_uncontended_acquire(IPS_SYNC_MUTEX, w->m, w->shared[1], ret);
    if (!blocked || err)
        return;
    thing = ips_compute_sync_object_name(w->m, w->shared[1]);
    ips_record_acquire(IPS_SYNC_MUTEX, &thing, w->call, ret, IPS_GOT_AFTER_COND,
                       0, w->site);
}

/* Body of a wrapper that waits for a condition. `sane`: the arguments are
 * valid; if not, the call fails at once and does not release the mutex. `good`,
 * `timed_out`: expressions for the meaning of the result `r`. */
#define WAIT(cond, mutex, sane, good, timed_out, real_call)                    \
    do {                                                                       \
        struct wait w;                                                         \
        if (unlikely(!ips_sync_init_and_check_recording() || !(sane)))         \
            return real_call;                                                  \
        IPS_WAIT_MARK;                                                         \
        begin_cond_wait_and_record_unlock(&w, cond, mutex, IPS_SITE);          \
        IPS_SYNC_BEGINS(IPS_SYNC_COND, cond, 0, IPS_SITE, w.call);             \
        int r = real_call;                                                     \
        record_cond_wait_and_relock(&w, good          ? 0                      \
                                        : (timed_out) ? ETIMEDOUT              \
                                                      : EINVAL);               \
        return r;                                                              \
    } while (0)

IPS_EXPORT int pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m)
{
    WAIT(c, m, true, (r == 0 || r == EOWNERDEAD), false,
         SREAL_WAIT(pthread_cond_wait)(c, m));
}

IPS_EXPORT int pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m,
                                      const struct timespec *until)
{
    WAIT(c, m, ips_sync_are_clock_and_time_valid(CLOCK_REALTIME, until),
         (r == 0 || r == EOWNERDEAD), r == ETIMEDOUT,
         SREAL_WAIT(pthread_cond_timedwait)(c, m, until));
}

IPS_EXPORT int pthread_cond_clockwait(pthread_cond_t *c, pthread_mutex_t *m,
                                      clockid_t clock,
                                      const struct timespec *until)
{
    WAIT(c, m, ips_sync_are_clock_and_time_valid(clock, until),
         (r == 0 || r == EOWNERDEAD), r == ETIMEDOUT,
         SREAL_WAIT(pthread_cond_clockwait)(c, m, clock, until));
}

static pthread_cond_t *cnd_to_pthread_cond(cnd_t *c)
{
    return (pthread_cond_t *)(void *)c;
}
static pthread_mutex_t *mtx_to_posix_mutex(mtx_t *m)
{
    return (pthread_mutex_t *)(void *)m;
}

IPS_EXPORT int cnd_wait(cnd_t *c, mtx_t *m)
{
    WAIT(cnd_to_pthread_cond(c), mtx_to_posix_mutex(m), true, r == thrd_success,
         false, SREAL_WAIT(cnd_wait)(c, m));
}

IPS_EXPORT int cnd_timedwait(cnd_t *c, mtx_t *m, const struct timespec *until)
{
    WAIT(cnd_to_pthread_cond(c), mtx_to_posix_mutex(m),
         ips_sync_are_clock_and_time_valid(CLOCK_REALTIME, until),
         r == thrd_success, r == thrd_timedout,
         SREAL_WAIT(cnd_timedwait)(c, m, until));
}

#define WAKE(cond, value, real_call)                                           \
    do {                                                                       \
        if (!ips_sync_init_and_check_recording() ||                            \
            likely(!cond_has_waiters(cond)))                                   \
            return real_call;                                                  \
        struct ips_sync_object thing =                                         \
            ips_compute_sync_object_name(cond, is_cond_shared(cond));          \
        struct ips_moment call = ips_take_call_moment();                       \
        int r = real_call;                                                     \
        ips_record_release(IPS_SYNC_COND, &thing, call, value, IPS_SITE);      \
        return r;                                                              \
    } while (0)

/* The old versions of these functions, for condition variables of glibc before
 * 2003, whose layout differs (it starts with a pointer). A library that was not
 * linked with the thread library refers to them, by references without a
 * version. Their waits are not recorded. */
#if defined(__x86_64__)
IPS_OLD(int, pthread_cond_wait, (pthread_cond_t * c, pthread_mutex_t *m),
        (c, m), (void)0)
IPS_OLD(int, pthread_cond_timedwait,
        (pthread_cond_t * c, pthread_mutex_t *m, const struct timespec *until),
        (c, m, until), (void)0)
IPS_OLD(int, pthread_cond_signal, (pthread_cond_t * c), (c), (void)0)
IPS_OLD(int, pthread_cond_broadcast, (pthread_cond_t * c), (c), (void)0)
#endif

IPS_EXPORT int pthread_cond_signal(pthread_cond_t *c)
{
    WAKE(c, 1, SREAL(pthread_cond_signal)(c));
}

IPS_EXPORT int pthread_cond_broadcast(pthread_cond_t *c)
{
    WAKE(c, -1, SREAL(pthread_cond_broadcast)(c));
}

IPS_EXPORT int cnd_signal(cnd_t *c)
{
    WAKE(cnd_to_pthread_cond(c), 1, SREAL(cnd_signal)(c));
}

IPS_EXPORT int cnd_broadcast(cnd_t *c)
{
    WAKE(cnd_to_pthread_cond(c), -1, SREAL(cnd_broadcast)(c));
}
