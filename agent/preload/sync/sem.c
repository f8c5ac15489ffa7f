/* Wrappers of semaphores (also named ones, which are in a mapped file),
 * barriers and pthread_once. */
#include "agent/preload/sample/sample.h"
#include "agent/preload/sync.h"

/* --- semaphores ----------------------------------------------------------- */

/* Whether a thread may be waiting for the semaphore. Clears the mark of failed
 * tries. The C library's layout is a 64-bit word, with the value below and the
 * count of waiters above; then a word that shows whether the semaphore is
 * process-shared. */
static bool sem_check_waiters_and_clear_mark(const sem_t *s)
{
    if (!ips_sync_known.sem)
        return true;
    const uint64_t *word = (const uint64_t *)(const void *)s;
    return __atomic_load_n(word, __ATOMIC_RELAXED) >> 32 != 0 ||
           ips_test_and_clear_tried_mark(s);
}

static bool is_sem_shared(const sem_t *s)
{
    uint32_t shared;
    memcpy(&shared, (const char *)s + 8, sizeof(shared));
    return !ips_sync_known.sem || shared != 0;
}

/* Whether the semaphore's value seems to be 0. If so, the real call is made at
 * once, for the reason given at is_mutex_held in preload/sync/mutex.c. */
static inline bool is_sem_zero(const sem_t *s)
{
    const uint64_t *word = (const uint64_t *)(const void *)s;
    return ips_sync_known.sem &&
           (uint32_t)__atomic_load_n(word, __ATOMIC_RELAXED) == 0;
}

/* Body of a wrapper that waits for a semaphore. A free semaphore is taken at
 * once, but only after a test for cancellation: these calls are cancellation
 * points even if they do not wait. */
#define SEM_WAIT(real_call)                                                    \
    do {                                                                       \
        ips_prefetch_for_write(s);                                             \
        int saved = errno;                                                     \
        pthread_testcancel();                                                  \
        if (likely(!is_sem_zero(s) && ips_sync_attempts &&                     \
                   SREAL(sem_trywait)(s) == 0)) {                              \
            if (unlikely(ips_sync_all))                                        \
                ips_record_uncontended_acquire_now(IPS_SYNC_SEMAPHORE, s,      \
                                                   is_sem_shared(s));          \
            return 0;                                                          \
        }                                                                      \
        errno = saved;                                                         \
        bool shared = is_sem_shared(s);                                        \
        IPS_WAIT_MARK;                                                         \
        struct ips_moment call = ips_take_call_moment();                       \
        IPS_SYNC_BEGINS(IPS_SYNC_SEMAPHORE, s, 0, IPS_SITE, call);             \
        int r;                                                                 \
        IPS_REPEAT_AFTER_SAMPLE(r, real_call, r != 0, errno, (void)0);         \
        saved = errno;                                                         \
        struct ips_moment ret = ips_return_moment(&call);                      \
        if (ips_was_blocked(&call, &ret)) {                                    \
            struct ips_sync_object thing =                                     \
                ips_compute_sync_object_name(s, shared);                       \
            ips_record_acquire(IPS_SYNC_SEMAPHORE, &thing, call, ret,          \
                               IPS_GOT_SLEPT, r ? saved : 0, IPS_SITE);        \
        } else if (unlikely(ips_sync_all) && r == 0) {                         \
            ips_record_uncontended_acquire(IPS_SYNC_SEMAPHORE, s, shared,      \
                                           ret);                               \
        }                                                                      \
        errno = saved;                                                         \
        return r;                                                              \
    } while (0)

IPS_EXPORT int sem_wait(sem_t *s)
{
    if (unlikely(!ips_sync_init_and_check_recording()))
        return SREAL_WAIT(sem_wait)(s);
    SEM_WAIT(SREAL_WAIT(sem_wait)(s));
}

IPS_EXPORT int sem_timedwait(sem_t *s, const struct timespec *until)
{
    if (unlikely(!ips_sync_init_and_check_recording() ||
                 !ips_sync_are_clock_and_time_valid(CLOCK_REALTIME, until)))
        return SREAL_WAIT(sem_timedwait)(s, until);
    SEM_WAIT(SREAL_WAIT(sem_timedwait)(s, until));
}

IPS_EXPORT int sem_clockwait(sem_t *s, clockid_t clock,
                             const struct timespec *until)
{
    if (unlikely(!ips_sync_init_and_check_recording() ||
                 !ips_sync_are_clock_and_time_valid(clock, until)))
        return SREAL_WAIT(sem_clockwait)(s, clock, until);
    SEM_WAIT(SREAL_WAIT(sem_clockwait)(s, clock, until));
}

IPS_EXPORT int sem_trywait(sem_t *s)
{
    bool on = ips_sync_init_and_check_recording();
    int r = SREAL(sem_trywait)(s), saved = errno;
    if (on && likely(r == 0))
        ips_record_try_if_earlier_failed(IPS_SYNC_SEMAPHORE, s,
                                         is_sem_shared(s), IPS_SITE);
    else if (on && errno == EAGAIN)
        ips_store_failed_try_of_lock(s);
    errno = saved;
    return r;
}

/* Must be async-signal-safe: sem_post is also called in signal handlers. */
IPS_EXPORT int sem_post(sem_t *s)
{
    if (unlikely(!ips_sync_init_and_check_recording()))
        return SREAL(sem_post)(s);
    ips_prefetch_for_write(s);
    bool waited = sem_check_waiters_and_clear_mark(s);
    if (likely(!waited && !ips_sync_all))
        return SREAL(sem_post)(s);
    bool shared = is_sem_shared(s);
    int saved = errno;
    struct ips_sync_object thing =
        ips_compute_sync_object_name(s, waited && shared);
    struct ips_moment call = ips_take_call_moment();
    errno = saved;
    int r = SREAL(sem_post)(s);
    saved = errno;
    if (r == 0 && !waited)
        ips_record_uncontended_release(IPS_SYNC_SEMAPHORE, s, shared, call);
    else if (r == 0)
        ips_record_release(IPS_SYNC_SEMAPHORE, &thing, call, 1, IPS_SITE);
    errno = saved;
    return r;
}

/* --- barriers ------------------------------------------------------------- */

/* Records every arrival at the barrier: the last one releases the others. */
IPS_EXPORT int pthread_barrier_wait(pthread_barrier_t *b)
{
    if (unlikely(!ips_sync_init_and_check_recording()))
        return SREAL_WAIT(pthread_barrier_wait)(b);
    uint32_t shared = 1;
    if (ips_sync_known.barrier)
        memcpy(&shared, (const char *)b + 12, sizeof(shared));
    struct ips_sync_object thing = ips_compute_sync_object_name(b, shared != 0);
    IPS_WAIT_MARK;
    struct ips_moment call = ips_take_call_moment();
    IPS_SYNC_BEGINS(IPS_SYNC_BARRIER, b, 0, IPS_SITE, call);
    int r = SREAL_WAIT(pthread_barrier_wait)(b);
    bool serial = r == PTHREAD_BARRIER_SERIAL_THREAD;
    if (r == 0 || serial)
        ips_record_acquire(IPS_SYNC_BARRIER, &thing, call,
                           ips_return_moment(&call), serial, 0, IPS_SITE);
    return r;
}

/* --- pthread_once --------------------------------------------------------- */

/* Bit in the control word of pthread_once: the function has run. */
#define ONCE_DONE 2

/* The real pthread_once runs `run_once_function_and_mark_ran` in place of the
 * program's function, so `ran` shows whether this thread ran it. A pthread_once
 * within that function uses another struct. */
struct once {
    void (*fn)(void);
    bool ran;
};
static IPS_TLS struct once *once_now;

static void run_once_function_and_mark_ran(void)
{
    struct once *o = once_now;
    o->fn();
    o->ran = true;
}

#define ONCE(control, real_call)                                               \
    do {                                                                       \
        struct once o = {fn, false};                                           \
        struct ips_sync_object thing =                                         \
            ips_compute_sync_object_name(control, false);                      \
        struct ips_moment call = ips_take_call_moment();                       \
        once_now = &o;                                                         \
        real_call;                                                             \
        struct ips_moment ret = ips_return_moment(&call);                      \
        if (ips_sub_sat(ret.t, call.t) < ips_wrap_blocked)                     \
            break; /* no thread slept in so short a time */                    \
        if (o.ran)                                                             \
            ips_record_release(IPS_SYNC_ONCE, &thing, call, -1, IPS_SITE);     \
        else if (ips_was_blocked(&call, &ret))                                 \
            ips_record_acquire(IPS_SYNC_ONCE, &thing, call, ret, 0, 0,         \
                               IPS_SITE);                                      \
    } while (0)

static bool is_once_done(const int *control)
{
    return __atomic_load_n(control, __ATOMIC_ACQUIRE) & ONCE_DONE;
}

IPS_EXPORT int pthread_once(pthread_once_t *control, void (*fn)(void))
{
    if (unlikely(!ips_sync_init_and_check_recording()) ||
        likely(is_once_done(control)))
        return SREAL_WAIT(pthread_once)(control, fn);
    int r = 0;
    ONCE(control,
         r = SREAL_WAIT(pthread_once)(control, run_once_function_and_mark_ran));
    return r;
}

IPS_EXPORT void call_once(once_flag *flag, void (*fn)(void))
{
    if (unlikely(!ips_sync_init_and_check_recording()) ||
        likely(is_once_done((const int *)(const void *)flag)))
        SREAL_WAIT(call_once)(flag, fn);
    else
        ONCE(flag, SREAL_WAIT(call_once)(flag, run_once_function_and_mark_ran));
}
