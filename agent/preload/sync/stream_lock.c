/*
 * Wrappers of flockfile() and the like: the lock of a stdio stream is recorded
 * as a mutex. The C library's other functions take the same lock by internal
 * calls, which no wrapper sees. So a wait for another thread's printf has no
 * release, and a printf that waits has no record.
 *
 * flockfile() may be called again by the thread that holds the lock; only its
 * first call and the last funlockfile() count.
 */
#include "agent/preload/sync.h"

#include <sys/single_threaded.h>

#include "agent/record/valgrind.h"

/* The C library's _IO_lock_t, which no header declares. `count` counts the
 * calls of the holder. It depends on the version whether the first call counts.
 */
struct stream_lock {
    int word; /* 0: free; 1: held; 2: held, and a thread may be waiting */
    int count;
    void *owner; /* pthread_self() of the holder */
};

static enum { UNCHECKED, UNKNOWN, KNOWN } layout;
static int first_count; /* `count` after the holder's first call */

static void check_stream_lock_layout(void)
{
    FILE f;
    struct stream_lock lock = {0};
    void *self = (void *)pthread_self();
    memset(&f, 0, sizeof(f));
    f._lock = (void *)&lock;
    SREAL(flockfile)(&f);
    int first = lock.count;
    bool good = lock.word == 1 && lock.owner == self;
    SREAL(flockfile)(&f);
    good = good && lock.count == first + 1;
    SREAL(funlockfile)(&f);
    good = good && lock.count == first && lock.word == 1;
    SREAL(funlockfile)(&f);
    good = good && lock.word == 0 && lock.owner == NULL;
    good = SREAL(ftrylockfile)(&f) == 0 && lock.count == first && good;
    SREAL(funlockfile)(&f);
    good = good && lock.word == 0;
    first_count = first;
    __atomic_store_n(&layout, good && !ips_in_valgrind() ? KNOWN : UNKNOWN,
                     __ATOMIC_RELEASE);
}

/* Every wrapper calls this first. False: nothing is recorded. */
static bool check_recording_and_learn_lock_layout(const FILE *f)
{
    if (unlikely(!ips_sync_init_and_check_recording()) || !f->_lock)
        return false;
    if (unlikely(__atomic_load_n(&layout, __ATOMIC_ACQUIRE) == UNCHECKED))
        check_stream_lock_layout();
    return true;
}

static const struct stream_lock *stream_lock_of_file(const FILE *f)
{
    return (const struct stream_lock *)(const void *)f->_lock;
}

static bool may_stream_lock_be_held_by_another(const FILE *f)
{
    const struct stream_lock *lock = stream_lock_of_file(f);
    return layout != KNOWN ||
           (__atomic_load_n(&lock->word, __ATOMIC_RELAXED) != 0 &&
            __atomic_load_n(&lock->owner, __ATOMIC_RELAXED) !=
                (void *)pthread_self());
}

/* Whether this thread, which holds the stream's lock, has taken it only once.
 */
static bool is_stream_lock_held_once(const FILE *f)
{
    return layout != KNOWN || stream_lock_of_file(f)->count == first_count;
}

/* Whether locks for which no thread waits must be recorded (--locks=all). */
static inline bool must_record_uncontended(void)
{
    return unlikely(ips_sync_all) && !__libc_single_threaded;
}

static void record_uncontended_stream_lock_if_asked(const FILE *f)
{
    if (must_record_uncontended() && is_stream_lock_held_once(f))
        ips_record_uncontended_acquire_now(IPS_SYNC_MUTEX, f->_lock, false);
}

/* The next two functions are fast tests for the usual case.
 * take_stream_lock_if_free takes the lock if it is free, and returns whether it
 * did. If another thread takes it between test and try, the try fails; the
 * caller then waits and records that. */
static inline bool take_stream_lock_if_free(FILE *f)
{
    return layout == KNOWN && !ips_sync_all && ips_sync_attempts &&
           __atomic_load_n(&stream_lock_of_file(f)->word, __ATOMIC_RELAXED) ==
               0 &&
           SREAL(ftrylockfile)(f) == 0;
}
static inline bool has_certainly_no_stream_waiter(const FILE *f)
{
    return layout == KNOWN && !ips_sync_all &&
           __atomic_load_n(&stream_lock_of_file(f)->word, __ATOMIC_RELAXED) <=
               1 &&
           !ips_may_have_tried_mark(f->_lock);
}

static void lock_stream_and_record_if_blocked(FILE *f, uint64_t site)
{
    IPS_WAIT_MARK;
    struct ips_sync_object thing =
        ips_compute_sync_object_name(f->_lock, false);
    struct ips_moment call = ips_take_call_moment();
    IPS_SYNC_BEGINS(IPS_SYNC_MUTEX, f->_lock, 0, site, call);
    SREAL_WAIT(flockfile)(f);
    struct ips_moment ret = ips_return_moment(&call);
    if (ips_was_blocked(&call, &ret))
        ips_record_acquire(IPS_SYNC_MUTEX, &thing, call, ret, IPS_GOT_SLEPT, 0,
                           site);
    else
        record_uncontended_stream_lock_if_asked(f);
}

static __attribute__((noinline)) void lock_stream_slow(FILE *f, uint64_t site)
{
    if (!check_recording_and_learn_lock_layout(f)) {
        SREAL(flockfile)(f);
        return;
    }
    if (!may_stream_lock_be_held_by_another(f) && ips_sync_attempts &&
        SREAL(ftrylockfile)(f) == 0)
        record_uncontended_stream_lock_if_asked(f);
    else
        lock_stream_and_record_if_blocked(f, site);
}

IPS_EXPORT void flockfile(FILE *f)
{
    if (unlikely(!take_stream_lock_if_free(f)))
        lock_stream_slow(f, IPS_SITE);
}
void _IO_flockfile(FILE *) IPS_ALIAS(flockfile);

IPS_EXPORT int ftrylockfile(FILE *f)
{
    /* must come first: it also finds the real function */
    bool on = check_recording_and_learn_lock_layout(f);
    int r = SREAL(ftrylockfile)(f);
    if (!on)
        return r;
    if (r != 0)
        ips_store_failed_try_of_lock(f->_lock);
    else if (is_stream_lock_held_once(f) &&
             (!ips_sync_all || must_record_uncontended()))
        ips_record_try_if_earlier_failed(IPS_SYNC_MUTEX, f->_lock, false,
                                         IPS_SITE);
    return r;
}
int _IO_ftrylockfile(FILE *) IPS_ALIAS(ftrylockfile);

static void unlock_stream_and_record(FILE *f, bool waited, uint64_t site)
{
    const void *lock = f->_lock; /* after the unlock the stream may be closed */
    struct ips_sync_object thing = ips_compute_sync_object_name(lock, false);
    struct ips_moment call = ips_take_call_moment();
    SREAL(funlockfile)(f);
    if (waited)
        ips_record_release(IPS_SYNC_MUTEX, &thing, call, 1, site);
    else
        ips_record_uncontended_release(IPS_SYNC_MUTEX, lock, false, call);
}

static __attribute__((noinline)) void unlock_stream_slow(FILE *f, uint64_t site)
{
    bool last =
        check_recording_and_learn_lock_layout(f) && is_stream_lock_held_once(f);
    bool waited = last && (layout != KNOWN ||
                           __atomic_load_n(&stream_lock_of_file(f)->word,
                                           __ATOMIC_RELAXED) > 1 ||
                           ips_test_and_clear_tried_mark(f->_lock));
    if (unlikely(waited || (last && must_record_uncontended())))
        unlock_stream_and_record(f, waited, site);
    else
        SREAL(funlockfile)(f);
}

IPS_EXPORT void funlockfile(FILE *f)
{
    if (likely(has_certainly_no_stream_waiter(f)))
        SREAL(funlockfile)(f);
    else
        unlock_stream_slow(f, IPS_SITE);
}
void _IO_funlockfile(FILE *) IPS_ALIAS(funlockfile);
