/* Wrappers of read-write locks. */
#include "agent/preload/sync.h"

/* Bits of __readers in the C library's pthread_rwlock_t, below the count of
 * readers. */
#define WRITING 1u
#define WRITER 2u
#define READERS_WAIT 4u
#define READER_SHIFT 3
/* bit of __writers: not part of the count of waiting writers */
#define WRITER_HANDS_OVER (1u << 31)
/* Bit of a futex word: threads may sleep on it. */
#define FUTEX_USED 2u

static bool is_rwlock_shared(const pthread_rwlock_t *l)
{
    return !ips_sync_known.rwlock || l->__data.__shared;
}

/* Whether a thread may be waiting for this lock, which the caller holds to read
 * or write. Clears the mark of failed tries. If other readers still hold the
 * lock, a reader's unlock wakes no thread; the last reader's unlock does, and
 * the waiter is matched with that one. */
static bool rwlock_check_waiters_and_clear_mark(const pthread_rwlock_t *l)
{
    if (!ips_sync_known.rwlock)
        return true;
    uint32_t readers = __atomic_load_n(&l->__data.__readers, __ATOMIC_RELAXED);
    uint32_t writers = __atomic_load_n(&l->__data.__writers, __ATOMIC_RELAXED);
    if ((readers & READERS_WAIT) || (writers & ~WRITER_HANDS_OVER))
        return true;
    if (readers & WRITING ? readers >> READER_SHIFT : readers & WRITER)
        return true;
    uint32_t slept_on =
        __atomic_load_n(&l->__data.__writers_futex, __ATOMIC_RELAXED) |
        __atomic_load_n(&l->__data.__wrphase_futex, __ATOMIC_RELAXED);
    if (slept_on & FUTEX_USED)
        return true;
    return ips_test_and_clear_tried_mark(l);
}

/* Whether the lock seems to be held so that a lock of `kind` must wait
 * (is_mutex_held in preload/sync/mutex.c gives the reason for this test).
 * WRITING together with WRITER excludes readers; readers also exclude writers.
 */
static inline bool must_wait_for_rwlock(const pthread_rwlock_t *l,
                                        enum ips_sync kind)
{
    if (!ips_sync_known.rwlock)
        return false;
    uint32_t readers = __atomic_load_n(&l->__data.__readers, __ATOMIC_RELAXED);
    return kind == IPS_SYNC_WRLOCK
               ? readers != 0 && readers != WRITING
               : (readers & (WRITING | WRITER)) == (WRITING | WRITER);
}

/* Returns the thread id of the writer that holds the lock; 0: none, or unknown.
 */
static uint32_t rwlock_writer_tid(const pthread_rwlock_t *l)
{
    return ips_sync_known.rwlock
               ? (uint32_t)__atomic_load_n(&l->__data.__cur_writer,
                                           __ATOMIC_RELAXED)
               : 0;
}

#define LOCK(kind, try_call, real_call)                                        \
    do {                                                                       \
        ips_prefetch_for_write(l);                                             \
        if (likely(!must_wait_for_rwlock(l, kind) && ips_sync_attempts &&      \
                   try_call == 0)) {                                           \
            ips_me.locks++;                                                    \
            if (unlikely(ips_sync_all))                                        \
                ips_record_uncontended_acquire_now(kind, l,                    \
                                                   is_rwlock_shared(l));       \
            return 0;                                                          \
        }                                                                      \
        bool shared = is_rwlock_shared(l);                                     \
        IPS_WAIT_MARK;                                                         \
        struct ips_moment call = ips_take_call_moment();                       \
        IPS_SYNC_BEGINS(kind, l, rwlock_writer_tid(l), IPS_SITE, call);        \
        int r = real_call;                                                     \
        struct ips_moment ret = ips_return_moment(&call);                      \
        if (ips_was_blocked(&call, &ret)) {                                    \
            struct ips_sync_object thing =                                     \
                ips_compute_sync_object_name(l, shared);                       \
            ips_record_acquire(kind, &thing, call, ret, IPS_GOT_SLEPT, r,      \
                               IPS_SITE);                                      \
        } else if (unlikely(ips_sync_all) && r == 0) {                         \
            ips_record_uncontended_acquire(kind, l, shared, ret);              \
        }                                                                      \
        return r;                                                              \
    } while (0)
#define READ(real_call)                                                        \
    LOCK(IPS_SYNC_RDLOCK, SREAL(pthread_rwlock_tryrdlock)(l), real_call)
#define WRITE(real_call)                                                       \
    LOCK(IPS_SYNC_WRLOCK, SREAL(pthread_rwlock_trywrlock)(l), real_call)

IPS_EXPORT int pthread_rwlock_rdlock(pthread_rwlock_t *l)
{
    if (unlikely(!ips_sync_init_and_check_recording()))
        return SREAL_WAIT(pthread_rwlock_rdlock)(l);
    READ(SREAL_WAIT(pthread_rwlock_rdlock)(l));
}

IPS_EXPORT int pthread_rwlock_timedrdlock(pthread_rwlock_t *l,
                                          const struct timespec *until)
{
    if (unlikely(!ips_sync_init_and_check_recording() ||
                 !ips_sync_are_clock_and_time_valid(CLOCK_REALTIME, until)))
        return SREAL_WAIT(pthread_rwlock_timedrdlock)(l, until);
    READ(SREAL_WAIT(pthread_rwlock_timedrdlock)(l, until));
}

IPS_EXPORT int pthread_rwlock_clockrdlock(pthread_rwlock_t *l, clockid_t clock,
                                          const struct timespec *until)
{
    if (unlikely(!ips_sync_init_and_check_recording() ||
                 !ips_sync_are_clock_and_time_valid(clock, until)))
        return SREAL_WAIT(pthread_rwlock_clockrdlock)(l, clock, until);
    READ(SREAL_WAIT(pthread_rwlock_clockrdlock)(l, clock, until));
}

IPS_EXPORT int pthread_rwlock_wrlock(pthread_rwlock_t *l)
{
    if (unlikely(!ips_sync_init_and_check_recording()))
        return SREAL_WAIT(pthread_rwlock_wrlock)(l);
    WRITE(SREAL_WAIT(pthread_rwlock_wrlock)(l));
}

IPS_EXPORT int pthread_rwlock_timedwrlock(pthread_rwlock_t *l,
                                          const struct timespec *until)
{
    if (unlikely(!ips_sync_init_and_check_recording() ||
                 !ips_sync_are_clock_and_time_valid(CLOCK_REALTIME, until)))
        return SREAL_WAIT(pthread_rwlock_timedwrlock)(l, until);
    WRITE(SREAL_WAIT(pthread_rwlock_timedwrlock)(l, until));
}

IPS_EXPORT int pthread_rwlock_clockwrlock(pthread_rwlock_t *l, clockid_t clock,
                                          const struct timespec *until)
{
    if (unlikely(!ips_sync_init_and_check_recording() ||
                 !ips_sync_are_clock_and_time_valid(clock, until)))
        return SREAL_WAIT(pthread_rwlock_clockwrlock)(l, clock, until);
    WRITE(SREAL_WAIT(pthread_rwlock_clockwrlock)(l, clock, until));
}

static int record_rwlock_try_or_store_failure(pthread_rwlock_t *l,
                                              enum ips_sync kind, int r,
                                              uint64_t site)
{
    if (likely(r == 0))
        ips_record_try_if_earlier_failed(kind, l, is_rwlock_shared(l), site);
    else if (r == EBUSY)
        ips_store_failed_try_of_lock(l);
    return r;
}

IPS_EXPORT int pthread_rwlock_tryrdlock(pthread_rwlock_t *l)
{
    bool on = ips_sync_init_and_check_recording();
    int r = SREAL(pthread_rwlock_tryrdlock)(l);
    return on ? record_rwlock_try_or_store_failure(l, IPS_SYNC_RDLOCK, r,
                                                   IPS_SITE)
              : r;
}

IPS_EXPORT int pthread_rwlock_trywrlock(pthread_rwlock_t *l)
{
    bool on = ips_sync_init_and_check_recording();
    int r = SREAL(pthread_rwlock_trywrlock)(l);
    return on ? record_rwlock_try_or_store_failure(l, IPS_SYNC_WRLOCK, r,
                                                   IPS_SITE)
              : r;
}

IPS_EXPORT int pthread_rwlock_unlock(pthread_rwlock_t *l)
{
    if (unlikely(!ips_sync_init_and_check_recording()))
        return SREAL(pthread_rwlock_unlock)(l);
    ips_prefetch_for_write(l);
    bool waited = rwlock_check_waiters_and_clear_mark(l);
    if (likely(!waited && !ips_sync_all))
        return SREAL(pthread_rwlock_unlock)(l);
    bool shared = is_rwlock_shared(l);
    struct ips_sync_object thing =
        ips_compute_sync_object_name(l, waited && shared);
    enum ips_sync kind = ips_sync_known.rwlock && l->__data.__readers & WRITING
                             ? IPS_SYNC_WRLOCK
                             : IPS_SYNC_RDLOCK;
    struct ips_moment call = ips_take_call_moment();
    int r = SREAL(pthread_rwlock_unlock)(l);
    if (!waited)
        return ips_record_uncontended_release(kind, l, shared, call), r;
    ips_record_release(kind, &thing, call, 1, IPS_SITE);
    return r;
}
