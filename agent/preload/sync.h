/*
 * Shared by the wrappers of mutexes, conditions, rwlocks, semaphores, barriers,
 * spin locks and once (preload/sync/).
 *
 * Invariants:
 * - The program sees exactly what the real call does. If a lock looks free, the
 *   wrapper first tries to take it without waiting (trylock), as the real call
 *   does; if it looks held, or the try fails, the wrapper makes the real call.
 * - An acquire that did not wait is not recorded and costs one try. A release
 *   is recorded if a thread may be waiting. The wrapper reads that from the
 *   object before the call, because after the call the object may be gone. With
 *   --locks=all (`ips_sync_all`) uncontended acquires and releases of mutexes,
 *   rwlocks, semaphores and spin locks leave a short record each.
 * - The stamp of a RELEASE is taken before the real call, so it is earlier than
 *   the stamp of the waiter that it wakes.
 * - During the real call a wrapper holds no lock or other state, so
 *   cancellation and longjmp leave nothing behind.
 *
 * The C library does not document where an object keeps its waiters. When a
 * program first calls one of these functions, ips_sync_init_and_check_layouts
 * tries on objects of our own whether the layout is the expected one (`known`).
 * If not, every release is recorded.
 */
#ifndef IPS_AGENT_PRELOAD_SYNC_H
#define IPS_AGENT_PRELOAD_SYNC_H

#include <semaphore.h>

#include "agent/preload/wrap.h"

struct ips_sync_real {
#define X(type, name, parameters) type(*name) parameters;
#include "agent/preload/sync.def"
#undef X
};
extern struct ips_sync_real ips_sync_real IPS_HIDDEN;
#define SREAL(name) (ips_sync_real.name)
/* For a real call that may wait: stops the exact sampling timer first. */
#define SREAL_WAIT(name)                                                       \
    (ips_sample_pause_timer((uint64_t)(uintptr_t)ips_sync_real.name),          \
     ips_sync_real.name)

/* True once ips_sync_init_and_check_layouts has checked the layouts. Every
 * wrapper of a lock calls ips_sync_init_and_check_recording first. Unlike
 * ips_wrap_start_library_and_check_recording, it never starts the library: the
 * lock may belong to a malloc that the start would call. */
extern bool ips_sync_ready IPS_HIDDEN;
/* Whether a wrapper may try a lock before the real call. False under a checker
 * of races and lock order (helgrind, ThreadSanitizer): the checker must see the
 * call that the program made, because it concludes something else from a try,
 * or nothing (from sem_trywait). */
extern bool ips_sync_attempts IPS_HIDDEN;
bool ips_sync_init_and_check_layouts(void);
static inline bool ips_sync_init_and_check_recording(void)
{
    if (likely(ips_sync_ready))
        return !ips_me.in_vfork;
    return ips_sync_init_and_check_layouts();
}

/* The types of object whose layout is as expected. If a type's layout is
 * unknown, nothing is read from its objects. All are false under valgrind,
 * whose checkers would report that we read an object while the program writes
 * it. */
struct ips_sync_known {
    bool mutex, cond, rwlock, sem, barrier;
};
extern struct ips_sync_known ips_sync_known IPS_HIDDEN;

/* The name of an object in records: its address or, with `shared`, its place in
 * the shared memory or file, because other processes may map it too. */
struct ips_sync_object {
    uint64_t dev, ino, object;
};
void ips_compute_name_of_shared_sync_object(const volatile void *at,
                                            struct ips_sync_object *out);
static inline struct ips_sync_object
ips_compute_sync_object_name(const volatile void *at, bool shared)
{
    struct ips_sync_object t = {0, 0, (uint64_t)(uintptr_t)at};
    if (unlikely(shared))
        ips_compute_name_of_shared_sync_object(at, &t);
    return t;
}

/* Notes that a wait for the object at address (or with number) `at` is about to
 * start; `holder` is the id of the thread that holds it, 0: unknown. To be
 * called in a scope that has IPS_WAIT_MARK. */
static inline void ips_store_wait_in_progress(uint32_t mark, enum ips_sync kind,
                                              uint64_t at, uint32_t holder,
                                              uint64_t site,
                                              const struct ips_moment *call)
{
    struct ips_current_call *begun =
        mark == 0 ? ips_current_call_note(&ips_me) : NULL;
    if (begun) {
        begun->object = at;
        begun->holder = holder;
    }
    ips_note_outermost_call_begin(
        &ips_me, mark, IPS_BEGUN(IPS_REC_ACQUIRE, 0, kind), site, call);
}
#define IPS_SYNC_BEGINS(kind, at, holder, site, call)                          \
    ips_store_wait_in_progress(mark_, kind, (uint64_t)(uintptr_t)(at), holder, \
                               site, &(call))

/* How the thread got the lock: `value` in the ACQUIRE record of a mutex or of a
 * lock that was tried. */
enum {
    IPS_GOT_SLEPT = 0,      /* slept until it was released */
    IPS_GOT_AFTER_COND = 1, /* relocked a mutex at the end of a cond wait */
    IPS_GOT_SPUN = 2,       /* got by repeated tries that did not wait */
    IPS_GOT_FREE = 3        /* the lock was free */
};

/* How a call changed a name in a directory: `value` in the RELEASE record of
 * kind WATCH. */
enum ips_name_change { IPS_NAME_TAKEN = 1, IPS_NAME_FREED = 2 };

/* Writes an ACQUIRE record for a wait from `call` to `ret`. `err`: 0, or the
 * error that ended the wait without the lock. */
void ips_record_acquire(enum ips_sync kind, const struct ips_sync_object *thing,
                        struct ips_moment call, struct ips_moment ret,
                        int value, int err, uint64_t site);
/* Writes a RELEASE record for a call that began at `call` and has returned. */
void ips_record_release(enum ips_sync kind, const struct ips_sync_object *thing,
                        struct ips_moment call, int value, uint64_t site);

/* Write ACQUIRE and RELEASE records of an fcntl lock (RECORD_LOCK) on `length`
 * bytes of a file from offset thing->object on; 0: all bytes from there on. */
void ips_record_range_acquire(const struct ips_sync_object *thing,
                              uint64_t length, struct ips_moment call,
                              struct ips_moment ret, int value, int err,
                              uint64_t site);
void ips_record_range_release(const struct ips_sync_object *thing,
                              uint64_t length, struct ips_moment call,
                              uint64_t site);

/* --- uncontended locks (--locks=all) -------------------------------------- */

extern bool ips_sync_all IPS_HIDDEN;
/* Records that this thread took a free lock or semaphore at the moment `got`.
 */
void ips_record_uncontended_acquire(enum ips_sync kind, const volatile void *at,
                                    bool shared, struct ips_moment got);
static inline void ips_record_uncontended_acquire_now(enum ips_sync kind,
                                                      const volatile void *at,
                                                      bool shared)
{
    ips_record_uncontended_acquire(kind, at, shared, ips_take_call_moment());
}
/* Records the release of a lock or semaphore for which no thread waits. The
 * object may be freed already: its address `at` is used as a name only. */
void ips_record_uncontended_release(enum ips_sync kind, const volatile void *at,
                                    bool shared, struct ips_moment call);

/* Fetches the cache line of a lock for writing, before the wrapper reads the
 * lock. Otherwise the read gets the line shared, and the atomic operation that
 * follows has to ask for it once more; meanwhile the other threads that use the
 * lock have it, so that a contended lock changes hands less often than without
 * recording. */
static inline void ips_prefetch_for_write(const volatile void *at)
{
#ifdef __x86_64__
    __asm__ volatile("prefetchw %0" : : "m"(*(const volatile char *)at));
#else
    __builtin_prefetch((const void *)(uintptr_t)at, 1);
#endif
}

/* --- repeated tries (spinning) -------------------------------------------- */

/* A thread that tries again and again is waiting, though it makes no waiting
 * call. The releasing thread learns of the tries from `ips_tried`, a small
 * table hashed by address. If another lock has the same slot, its tries cost a
 * needless record. */
void ips_store_failed_try_of_lock(const volatile void *at);
void ips_record_try_if_earlier_failed_slow(enum ips_sync kind,
                                           const volatile void *at, bool shared,
                                           uint64_t site);
/* The lock that this thread repeatedly tries to get; `extra->tries` has the
 * details. */
extern IPS_TLS const volatile void *ips_try_at IPS_HIDDEN;
static inline void ips_record_try_if_earlier_failed(enum ips_sync kind,
                                                    const volatile void *at,
                                                    bool shared, uint64_t site)
{
    if (unlikely(ips_try_at == at || ips_sync_all))
        ips_record_try_if_earlier_failed_slow(kind, at, shared, site);
}

#define IPS_TRIED 512u
/* for each hash slot: stamp of the last failed try */
extern _Atomic uint64_t ips_tried[IPS_TRIED] IPS_HIDDEN;
/* for each hash slot: number of threads that spin in pthread_spin_lock */
extern _Atomic uint32_t ips_spinning[IPS_TRIED] IPS_HIDDEN;
static inline uint32_t ips_tried_slot(const volatile void *at)
{
    return (uint32_t)((uint64_t)(uintptr_t)at * 0x9e3779b97f4a7c15ull >> 55);
}
bool ips_test_and_clear_tried_mark_slow(uint32_t slot);
/* Whether a thread recently tried to take the object and failed.
 * ips_may_have_tried_mark() only tests whether there is a mark: the mark may be
 * old, or belong to another object with the same slot.
 * ips_test_and_clear_tried_mark(), called once per unlock, also checks its age,
 * and clears it. */
static inline bool ips_may_have_tried_mark(const volatile void *at)
{
    return atomic_load_explicit(&ips_tried[ips_tried_slot(at)],
                                memory_order_relaxed) != 0;
}
static inline bool ips_test_and_clear_tried_mark(const volatile void *at)
{
    return unlikely(ips_may_have_tried_mark(at)) &&
           ips_test_and_clear_tried_mark_slow(ips_tried_slot(at));
}

/* --- mutexes, also those of conditions (preload/sync/mutex.c) ------------- */

/* Bit of __kind in the C library's pthread_mutex_t: the mutex is
 * process-shared. */
#define IPS_MUTEX_SHARED 128
static inline bool ips_mutex_is_shared(const pthread_mutex_t *m)
{
    return !ips_sync_known.mutex || (m->__data.__kind & IPS_MUTEX_SHARED);
}
/* Whether this thread holds the recursive mutex `m` more than once: only its
 * first acquire and its last release count. */
static inline bool ips_mutex_is_nested(const pthread_mutex_t *m)
{
    return ips_sync_known.mutex &&
           (m->__data.__kind & 3) == PTHREAD_MUTEX_RECURSIVE_NP &&
           m->__data.__count > 1;
}
/* Whether a thread may be waiting for this mutex, which the calling thread
 * holds. Clears the mark of failed tries, so it is called once per unlock. */
bool ips_mutex_check_waiters_and_clear_mark(const pthread_mutex_t *m);

/* Whether pthread_mutex_clocklock and its like accept these arguments. If not,
 * the wrapper only makes the real call, which refuses them. */
static inline bool ips_sync_are_clock_and_time_valid(clockid_t clock,
                                                     const struct timespec *t)
{
    return (clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC) &&
           t->tv_nsec >= 0 && t->tv_nsec < 1000000000;
}

/* Makes and records the futex call with the arguments `args`, which the program
 * made by syscall() at `site`. `n`: SYS_futex. */
long ips_call_futex_and_record(long n, const long args[6], uint64_t site);

#endif
