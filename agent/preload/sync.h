/*
 * Locks and their like (wrap_sync*.c): what the wrappers of mutexes,
 * conditions, rwlocks, semaphores, barriers, spin locks and once share.
 *
 * Invariants:
 *  - The program sees exactly what the real call gives: what looks free is
 *    taken by an attempt that cannot wait (trylock), which is what the real
 * call begins with; where it looks held, or the attempt did not get it, the
 * real call is made.
 *  - Who did not wait is not recorded, and costs one attempt. Who lets go is
 *    recorded where somebody may be waiting, which is read from the object
 *    before the call: after it, the object may be gone. With --locks=all
 *    (`ips_sync_all`) both leave a short record else: mutexes, rwlocks,
 *    semaphores, spin locks.
 *  - RELEASE's stamp is taken before the real call, so it lies before the
 *    stamp of whom it lets go.
 *  - Nothing is held over the real call; cancellation and longjmp leave
 *    nothing behind.
 *
 * Where the C library keeps who waits is its own business; ips_sync_begin
 * tries on objects of our own whether it is where we think (`known`), when a
 * program calls one of these for the first time; where it is not, every release
 * is recorded.
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
/* To call one that may wait. */
#define SREAL_WAIT(name)                                                       \
    (ips_sample_leave((uint64_t)(uintptr_t)ips_sync_real.name),                \
     ips_sync_real.name)

/* First thing in every wrapper. Unlike ips_wrap_on it never begins the
 * library: the lock may be that of a malloc which that would call. */
extern bool ips_sync_ready IPS_HIDDEN;
/* May a lock call be tried first? A checker of races and of the order of locks
 * has to see the call that the program made: it draws other conclusions from an
 * attempt, or none (helgrind from sem_trywait). */
extern bool ips_sync_attempts IPS_HIDDEN;
bool ips_sync_begin(void);
static inline bool ips_sync_on(void)
{
    if (likely(ips_sync_ready))
        return !ips_me.in_vfork;
    return ips_sync_begin();
}

/* The layouts that were found as expected; none under a checker of races, to
 * which a look at an object is a read beside its writers. Nothing is read of an
 * object whose layout is not known. */
struct ips_sync_known {
    bool mutex, cond, rwlock, sem, barrier;
};
extern struct ips_sync_known ips_sync_known IPS_HIDDEN;

/* An object as the records name it. `shared`: it may be in memory that other
 * processes have too. */
struct ips_sync_object {
    uint64_t dev, ino, object;
};
void ips_name_shared_object(const volatile void *at,
                            struct ips_sync_object *out);
static inline struct ips_sync_object
ips_name_sync_object(const volatile void *at, bool shared)
{
    struct ips_sync_object t = {0, 0, (uint64_t)(uintptr_t)at};
    if (unlikely(shared))
        ips_name_shared_object(at, &t);
    return t;
}

/* A wait for what is at `at`, or has that number, is about to begin; `holder`
 * is the thread that has it, 0 not known. Behind IPS_WAIT_MARK. */
static inline void ips_sync_begins(uint32_t mark, enum ips_sync kind,
                                   uint64_t at, uint32_t holder, uint64_t site,
                                   const struct ips_moment *call)
{
    struct ips_begun *begun = mark == 0 ? ips_begun_at(&ips_me) : NULL;
    if (begun) {
        begun->object = at;
        begun->holder = holder;
    }
    ips_call_begins(&ips_me, mark, IPS_BEGUN(IPS_REC_ACQUIRE, 0, kind), site,
                    call);
}
#define IPS_SYNC_BEGINS(kind, at, holder, site, call)                          \
    ips_sync_begins(mark_, kind, (uint64_t)(uintptr_t)(at), holder, site,      \
                    &(call))

/* ACQUIRE's `value` for a mutex and what is tried. */
enum {
    IPS_GOT_SLEPT = 0,
    IPS_GOT_AFTER_COND = 1,
    IPS_GOT_SPUN = 2,
    IPS_GOT_FREE = 3
};

/* ACQUIRE of a wait that is over, with err 0 or why it ended without. */
void ips_sync_acquired(enum ips_sync kind, const struct ips_sync_object *thing,
                       struct ips_moment call, struct ips_moment ret, int value,
                       int err, uint64_t site);
/* RELEASE of a call that began at `call` and is over. */
void ips_sync_released(enum ips_sync kind, const struct ips_sync_object *thing,
                       struct ips_moment call, int value, uint64_t site);

/* --- what nobody waited for (--locks=all) -----------------------------------
 */

extern bool ips_sync_all IPS_HIDDEN;
/* It was free and is ours since `got`. */
void ips_sync_took(enum ips_sync kind, const volatile void *at, bool shared,
                   struct ips_moment got);
static inline void ips_sync_took_now(enum ips_sync kind,
                                     const volatile void *at, bool shared)
{
    ips_sync_took(kind, at, shared, ips_at_call());
}
/* `at` may be gone: it is a name. */
void ips_sync_gave(enum ips_sync kind, const volatile void *at, bool shared,
                   struct ips_moment call);

/* --- spinning --------------------------------------------------------------
 */

/* Who tries again and again waits; whoever lets go learns of it here, by a
 * small table hashed by address (a neighbour's waiter costs a record). */
void ips_try_failed(const volatile void *at);
void ips_try_got_slow(enum ips_sync kind, const volatile void *at, bool shared,
                      uint64_t site);
/* What this thread tries for: `extra->tries` says more. */
extern IPS_TLS const volatile void *ips_try_at IPS_HIDDEN;
static inline void ips_try_got(enum ips_sync kind, const volatile void *at,
                               bool shared, uint64_t site)
{
    if (unlikely(ips_try_at == at || ips_sync_all))
        ips_try_got_slow(kind, at, shared, site);
}

#define IPS_TRIED 512u
extern _Atomic uint64_t ips_tried[IPS_TRIED] IPS_HIDDEN; /* stamp of the last */
extern _Atomic uint32_t ips_spinning[IPS_TRIED] IPS_HIDDEN; /* in spin_lock */
static inline uint32_t ips_tried_slot(const volatile void *at)
{
    return (uint32_t)((uint64_t)(uintptr_t)at * 0x9e3779b97f4a7c15ull >> 55);
}
bool ips_tried_slow(uint32_t slot);
/* Did somebody try for it just now? Asked once of each unlock: the answer is
 * taken away. ips_maybe_tried_for leaves it there. */
static inline bool ips_maybe_tried_for(const volatile void *at)
{
    return atomic_load_explicit(&ips_tried[ips_tried_slot(at)],
                                memory_order_relaxed) != 0;
}
static inline bool ips_tried_for(const volatile void *at)
{
    return unlikely(ips_maybe_tried_for(at)) &&
           ips_tried_slow(ips_tried_slot(at));
}

/* --- mutexes, for conditions too (preload/sync/mutex.c) ------------------- */

#define IPS_MUTEX_SHARED 128 /* in __kind, as the others in mutex_waited */
static inline bool ips_mutex_shared(const pthread_mutex_t *m)
{
    return !ips_sync_known.mutex || (m->__data.__kind & IPS_MUTEX_SHARED);
}
/* Taken more than once by this thread, which has it: neither the taking nor the
 * giving back of more than the first is one. */
static inline bool ips_mutex_nested(const pthread_mutex_t *m)
{
    return ips_sync_known.mutex &&
           (m->__data.__kind & 3) == PTHREAD_MUTEX_RECURSIVE_NP &&
           m->__data.__count > 1;
}
/* May somebody be waiting for this mutex, which we hold? */
bool ips_mutex_waited(const pthread_mutex_t *m);

/* What pthread_mutex_clocklock and its like accept; what they do not is left
 * to them. */
static inline bool ips_sync_time_ok(clockid_t clock, const struct timespec *t)
{
    return (clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC) &&
           t->tv_nsec >= 0 && t->tv_nsec < 1000000000;
}

/* by syscall(), at `site` */
long ips_futex(long n, const long args[6], uint64_t site);

#endif
