/* Wrappers of mutexes of every kind (POSIX and C11) and of spin locks. */
#include "agent/preload/sync.h"

#include <sys/single_threaded.h>

/* Bits of __kind in the C library's pthread_mutex_t. */
#define KIND_TYPE 3
#define KIND_ROBUST 16
#define KIND_INHERIT 32
#define KIND_PROTECT 64
/* bits of __lock in a robust mutex: thread id of the holder */
#define OWNER_TID 0x3fffffff

bool ips_mutex_check_waiters_and_clear_mark(const pthread_mutex_t *m)
{
    if (unlikely(!ips_sync_known.mutex))
        return true;
    int kind = __atomic_load_n(&m->__data.__kind, __ATOMIC_RELAXED);
    uint32_t lock =
        (uint32_t)__atomic_load_n(&m->__data.__lock, __ATOMIC_RELAXED);
    if ((kind & KIND_TYPE) == PTHREAD_MUTEX_RECURSIVE_NP &&
        m->__data.__count > 1)
        return false; /* not the last release of a recursive mutex */
    bool waited = kind & (KIND_ROBUST | KIND_INHERIT) ? lock >> 31
                  : kind & KIND_PROTECT               ? (lock & 3) == 2
                                                      : lock == 2;
    return waited || ips_test_and_clear_tried_mark(m);
}

/* Makes and records the real call for a lock that was not free; it waits, or
 * fails. `error`: an expression for the error number that its result `r` means.
 * `robust_mutex_holder_tid`: thread id of the holder of a robust mutex. */
#define WAIT(at, shared, robust_mutex_holder_tid, error, site, real_call)      \
    do {                                                                       \
        bool in_shared = shared;                                               \
        int held_by = robust_mutex_holder_tid;                                 \
        IPS_WAIT_MARK;                                                         \
        struct ips_moment call = ips_take_call_moment();                       \
        IPS_SYNC_BEGINS(IPS_SYNC_MUTEX, at, mutex_holder_tid(at), site, call); \
        int r = real_call;                                                     \
        struct ips_moment ret = ips_return_moment(&call);                      \
        if (ips_was_blocked(&call, &ret)) {                                    \
            struct ips_sync_object thing =                                     \
                ips_compute_sync_object_name(at, in_shared);                   \
            int err = error;                                                   \
            ips_record_acquire(IPS_SYNC_MUTEX, &thing, call, ret,              \
                               err == EOWNERDEAD ? held_by : IPS_GOT_SLEPT,    \
                               err, site);                                     \
        } else if (unlikely(ips_sync_all) && !(error)) {                       \
            ips_record_uncontended_acquire(IPS_SYNC_MUTEX, at, in_shared,      \
                                           ret);                               \
        }                                                                      \
        return r;                                                              \
    } while (0)

/* A trylock of an unrecoverable robust mutex has side effects (glibc 2.36
 * leaves it locked by the caller). So robust mutexes are not tried; their
 * holder is read instead. */
static inline bool is_robust(const pthread_mutex_t *m)
{
    return ips_sync_known.mutex &&
           __atomic_load_n(&m->__data.__kind, __ATOMIC_RELAXED) & KIND_ROBUST;
}
/* Returns the thread id of the holder of a robust mutex; 0 if it is free, if
 * the mutex is not robust, or if the layout of mutexes is unknown. */
static int robust_mutex_holder_tid(const pthread_mutex_t *m)
{
    return is_robust(m) ? __atomic_load_n(&m->__data.__lock, __ATOMIC_RELAXED) &
                              OWNER_TID
                        : 0;
}

/* Returns the thread id of the mutex's holder; 0: unknown. */
static uint32_t mutex_holder_tid(const void *at)
{
    const pthread_mutex_t *m = at;
    return ips_sync_known.mutex
               ? (uint32_t)__atomic_load_n(&m->__data.__owner, __ATOMIC_RELAXED)
               : 0;
}

/* Whether another thread seems to hold the mutex. If so, the wrapper makes the
 * real call at once: a try before it would give the holder time to release the
 * mutex, so that a contended lock would succeed without sleeping more often
 * than it does without recording. A recursive mutex may be held by the caller,
 * so it is tried. */
static inline bool is_nonrecursive_mutex_held(const pthread_mutex_t *m)
{
    return ips_sync_known.mutex &&
           __atomic_load_n(&m->__data.__lock, __ATOMIC_RELAXED) != 0 &&
           (m->__data.__kind & KIND_TYPE) != PTHREAD_MUTEX_RECURSIVE_NP;
}

/* Whether the process has one thread, and the mutex is private and free. Then
 * no other thread can hold it, and the C library saves the atomic operation
 * that a try would cost. (If the mutex is held, a second lock waits for ever.)
 */
static inline bool is_free_in_single_thread(const pthread_mutex_t *m)
{
    return __libc_single_threaded && !ips_mutex_is_shared(m) &&
           !is_nonrecursive_mutex_held(m);
}

/* With --locks=all, records that a free lock was taken. `r` is the result of
 * the lock call; returns `r`. */
static inline int
record_uncontended_mutex_lock_if_asked(const pthread_mutex_t *m, int r)
{
    if (unlikely(ips_sync_all) && (r == 0 || r == EOWNERDEAD) &&
        !ips_mutex_is_nested(m))
        ips_record_uncontended_acquire_now(IPS_SYNC_MUTEX, m,
                                           ips_mutex_is_shared(m));
    return r;
}

#define LOCK(real_call)                                                        \
    do {                                                                       \
        if (is_free_in_single_thread(m))                                       \
            return real_call;                                                  \
        if (unlikely(is_robust(m))) {                                          \
            if (robust_mutex_holder_tid(m) == 0)                               \
                return record_uncontended_mutex_lock_if_asked(m, real_call);   \
        } else if (likely(!is_nonrecursive_mutex_held(m) &&                    \
                          ips_sync_attempts &&                                 \
                          SREAL(pthread_mutex_trylock)(m) == 0)) {             \
            return record_uncontended_mutex_lock_if_asked(m, 0);               \
        }                                                                      \
        WAIT(m, ips_mutex_is_shared(m), robust_mutex_holder_tid(m), r,         \
             IPS_SITE, real_call);                                             \
    } while (0)

static __attribute__((noinline)) int
record_free_mutex_lock(const pthread_mutex_t *m)
{
    return record_uncontended_mutex_lock_if_asked(m, 0);
}

/* The slow path of pthread_mutex_lock: the mutex is robust or held, or must not
 * be tried. */
static __attribute__((noinline)) int
lock_mutex_slow_and_record(pthread_mutex_t *m, uint64_t site)
{
    if (is_robust(m) && robust_mutex_holder_tid(m) == 0)
        return record_uncontended_mutex_lock_if_asked(
            m, SREAL_WAIT(pthread_mutex_lock)(m));
    WAIT(m, ips_mutex_is_shared(m), robust_mutex_holder_tid(m), r, site,
         SREAL_WAIT(pthread_mutex_lock)(m));
}

/* Nearly all locks are free, and programs make millions of such calls. So this
 * fast path does only what a free lock needs. */
IPS_EXPORT int pthread_mutex_lock(pthread_mutex_t *m)
{
    ips_prefetch_for_write(m);
    if (unlikely(!ips_sync_init_and_check_recording()) ||
        is_free_in_single_thread(m))
        return SREAL_WAIT(pthread_mutex_lock)(m);
    if (unlikely(is_robust(m) || is_nonrecursive_mutex_held(m) ||
                 !ips_sync_attempts) ||
        unlikely(SREAL(pthread_mutex_trylock)(m) != 0))
        return lock_mutex_slow_and_record(m, IPS_SITE);
    ips_me.locks++;
    return unlikely(ips_sync_all) ? record_free_mutex_lock(m) : 0;
}

IPS_EXPORT int pthread_mutex_timedlock(pthread_mutex_t *m,
                                       const struct timespec *until)
{
    if (unlikely(!ips_sync_init_and_check_recording()))
        return SREAL_WAIT(pthread_mutex_timedlock)(m, until);
    LOCK(SREAL_WAIT(pthread_mutex_timedlock)(m, until));
}

IPS_EXPORT int pthread_mutex_clocklock(pthread_mutex_t *m, clockid_t clock,
                                       const struct timespec *until)
{
    if (unlikely(!ips_sync_init_and_check_recording() ||
                 !ips_sync_are_clock_and_time_valid(clock, until)))
        return SREAL_WAIT(pthread_mutex_clocklock)(m, clock, until);
    LOCK(SREAL_WAIT(pthread_mutex_clocklock)(m, clock, until));
}

IPS_EXPORT int pthread_mutex_trylock(pthread_mutex_t *m)
{
    bool on = ips_sync_init_and_check_recording();
    int r = SREAL(pthread_mutex_trylock)(m);
    if (!on)
        return r;
    if (likely(r == 0 || r == EOWNERDEAD) && !ips_mutex_is_nested(m))
        ips_record_try_if_earlier_failed(IPS_SYNC_MUTEX, m,
                                         ips_mutex_is_shared(m), IPS_SITE);
    else if (r == EBUSY)
        ips_store_failed_try_of_lock(m);
    return r;
}

/* Whether --locks=all must record this uncontended release. */
static inline bool must_record_uncontended_unlock(const pthread_mutex_t *m)
{
    return unlikely(ips_sync_all) && !is_free_in_single_thread(m) &&
           !ips_mutex_is_nested(m);
}

#define UNLOCK(mutex, good, site, real_call)                                   \
    do {                                                                       \
        if (likely(!ips_mutex_check_waiters_and_clear_mark(mutex))) {          \
            if (likely(!must_record_uncontended_unlock(mutex)))                \
                return real_call;                                              \
            bool in_shared = ips_mutex_is_shared(mutex);                       \
            struct ips_moment at = ips_take_call_moment();                     \
            int done = real_call;                                              \
            if (done == (good))                                                \
                ips_record_uncontended_release(IPS_SYNC_MUTEX, mutex,          \
                                               in_shared, at);                 \
            return done;                                                       \
        }                                                                      \
        struct ips_sync_object thing =                                         \
            ips_compute_sync_object_name(mutex, ips_mutex_is_shared(mutex));   \
        struct ips_moment call = ips_take_call_moment();                       \
        int r = real_call;                                                     \
        if (r == (good))                                                       \
            ips_record_release(IPS_SYNC_MUTEX, &thing, call, 1, site);         \
        return r;                                                              \
    } while (0)

static __attribute__((noinline)) int
unlock_mutex_slow_and_record(pthread_mutex_t *m, uint64_t site)
{
    UNLOCK(m, 0, site, SREAL(pthread_mutex_unlock)(m));
}

/* Whether certainly no thread waits for the mutex: a fast test for the common
 * kinds of mutex. False: unknown, or --locks=all; call
 * ips_mutex_check_waiters_and_clear_mark. */
static inline bool has_certainly_no_waiter(const pthread_mutex_t *m)
{
    return likely(ips_sync_known.mutex && !ips_sync_all) &&
           !(__atomic_load_n(&m->__data.__kind, __ATOMIC_RELAXED) &
             (KIND_ROBUST | KIND_INHERIT | KIND_PROTECT)) &&
           __atomic_load_n(&m->__data.__lock, __ATOMIC_RELAXED) != 2 &&
           !ips_may_have_tried_mark(m);
}

IPS_EXPORT int pthread_mutex_unlock(pthread_mutex_t *m)
{
    ips_prefetch_for_write(m);
    if (unlikely(!ips_sync_init_and_check_recording()) ||
        likely(has_certainly_no_waiter(m)))
        return SREAL(pthread_mutex_unlock)(m);
    return unlock_mutex_slow_and_record(m, IPS_SITE);
}

/* --- C11 mutexes (the same object) ---------------------------------------- */

static pthread_mutex_t *mtx_to_pthread_mutex(mtx_t *m)
{
    return (pthread_mutex_t *)(void *)m;
}

#define MTX_LOCK(real_call)                                                    \
    do {                                                                       \
        if (is_free_in_single_thread(mtx_to_pthread_mutex(m)))                 \
            return real_call;                                                  \
        if (likely(!is_nonrecursive_mutex_held(mtx_to_pthread_mutex(m)) &&     \
                   ips_sync_attempts &&                                        \
                   SREAL(mtx_trylock)(m) == thrd_success))                     \
            return record_uncontended_mutex_lock_if_asked(                     \
                       mtx_to_pthread_mutex(m), 0),                            \
                   thrd_success;                                               \
        WAIT(m, ips_mutex_is_shared(mtx_to_pthread_mutex(m)), 0,               \
             r == thrd_success    ? 0                                          \
             : r == thrd_timedout ? ETIMEDOUT                                  \
                                  : EINVAL,                                    \
             IPS_SITE, real_call);                                             \
    } while (0)

IPS_EXPORT int mtx_lock(mtx_t *m)
{
    if (unlikely(!ips_sync_init_and_check_recording()))
        return SREAL_WAIT(mtx_lock)(m);
    MTX_LOCK(SREAL_WAIT(mtx_lock)(m));
}

IPS_EXPORT int mtx_timedlock(mtx_t *m, const struct timespec *until)
{
    if (unlikely(!ips_sync_init_and_check_recording()))
        return SREAL_WAIT(mtx_timedlock)(m, until);
    MTX_LOCK(SREAL_WAIT(mtx_timedlock)(m, until));
}

IPS_EXPORT int mtx_trylock(mtx_t *m)
{
    bool on = ips_sync_init_and_check_recording();
    int r = SREAL(mtx_trylock)(m);
    if (on && likely(r == thrd_success) &&
        !ips_mutex_is_nested(mtx_to_pthread_mutex(m)))
        ips_record_try_if_earlier_failed(
            IPS_SYNC_MUTEX, m, ips_mutex_is_shared(mtx_to_pthread_mutex(m)),
            IPS_SITE);
    else if (on && r == thrd_busy)
        ips_store_failed_try_of_lock(m);
    return r;
}

IPS_EXPORT int mtx_unlock(mtx_t *m)
{
    if (unlikely(!ips_sync_init_and_check_recording()))
        return SREAL(mtx_unlock)(m);
    UNLOCK(mtx_to_pthread_mutex(m), thrd_success, IPS_SITE,
           SREAL(mtx_unlock)(m));
}

/* --- spin locks ----------------------------------------------------------- */

/* A spin lock does not show whether it is process-shared. Spinning threads are
 * counted in this process only, so the lock is recorded as private to it. */

IPS_EXPORT int pthread_spin_lock(pthread_spinlock_t *lock)
{
    if (unlikely(!ips_sync_init_and_check_recording()))
        return SREAL(pthread_spin_lock)(lock);
    if (likely(ips_sync_attempts && SREAL(pthread_spin_trylock)(lock) == 0)) {
        if (unlikely(ips_sync_all))
            ips_record_uncontended_acquire_now(IPS_SYNC_SPIN, lock, false);
        return 0;
    }
    _Atomic uint32_t *spinning = &ips_spinning[ips_tried_slot(lock)];
    IPS_WAIT_MARK;
    struct ips_moment call = ips_take_call_moment();
    IPS_SYNC_BEGINS(IPS_SYNC_SPIN, lock, 0, IPS_SITE, call);
    atomic_fetch_add(spinning, 1);
    int r = SREAL(pthread_spin_lock)(lock);
    atomic_fetch_sub(spinning, 1);
    uint64_t now = ips_core_stamp_now();
    if (r == 0 && now - call.t >= ips_wrap_blocked) {
        struct ips_sync_object thing =
            ips_compute_sync_object_name(lock, false);
        struct ips_moment ret = {.t = now, .cpu = ips_core_thread_cpu_ns()};
        ips_record_acquire(IPS_SYNC_SPIN, &thing, call, ret, IPS_GOT_SPUN, 0,
                           IPS_SITE);
    } else if (unlikely(ips_sync_all) && r == 0) {
        ips_record_uncontended_acquire_now(IPS_SYNC_SPIN, lock, false);
    }
    return r;
}

IPS_EXPORT int pthread_spin_trylock(pthread_spinlock_t *lock)
{
    bool on = ips_sync_init_and_check_recording();
    int r = SREAL(pthread_spin_trylock)(lock);
    if (on && likely(r == 0))
        ips_record_try_if_earlier_failed(IPS_SYNC_SPIN, lock, false, IPS_SITE);
    else if (on && r == EBUSY)
        ips_store_failed_try_of_lock(lock);
    return r;
}

IPS_EXPORT int pthread_spin_unlock(pthread_spinlock_t *lock)
{
    uint32_t slot = ips_tried_slot(lock);
    if (unlikely(!ips_sync_init_and_check_recording()))
        return SREAL(pthread_spin_unlock)(lock);
    bool waited =
        atomic_load_explicit(&ips_spinning[slot], memory_order_relaxed) ||
        ips_test_and_clear_tried_mark(lock);
    if (likely(!waited && !ips_sync_all))
        return SREAL(pthread_spin_unlock)(lock);
    struct ips_sync_object thing = ips_compute_sync_object_name(lock, false);
    struct ips_moment call = ips_take_call_moment();
    int r = SREAL(pthread_spin_unlock)(lock);
    if (!waited)
        return ips_record_uncontended_release(IPS_SYNC_SPIN, lock, false, call),
               r;
    ips_record_release(IPS_SYNC_SPIN, &thing, call, 1, IPS_SITE);
    return r;
}
