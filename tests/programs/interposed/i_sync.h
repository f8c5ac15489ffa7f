/* What i_sync.c and i_sync_result.c share: one object of each kind, in memory
 * that a child process shares, and how to see that somebody waits. */
#ifndef IPS_TESTS_PROGRAMS_INTERPOSED_I_SYNC_H
#define IPS_TESTS_PROGRAMS_INTERPOSED_I_SYNC_H

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#include "asleep.h"

static struct objects { /* in memory that a child shares */
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    pthread_rwlock_t rwlock;
    pthread_barrier_t barrier;
    sem_t sem;
    pthread_spinlock_t spin;
    mtx_t mtx;
    cnd_t cnd;
    atomic_int flag, ready, waiter;
    atomic_int tries; /* failed ones */
} * o;
static bool shared; /* with a child process */

static inline struct timespec later(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    t.tv_sec += 60;
    return t;
}

static inline int check(const char *what, int err)
{
    if (err)
        printf("%s: %d\n", what, err);
    return err;
}
#define DO(call) check(#call, call)

/* CPU time of a thread of ours. */
static inline long cpu_us_of(int tid)
{
    struct timespec t = {0, 0};
    clock_gettime((clockid_t)(~(unsigned)tid << 3 | 6), &t);
    return t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* Until the waiter sleeps in its call or, where it spins, has spun in it for
 * 3 ms of CPU time, however long that takes. The naps between leave no records:
 * they are tries of a flag, so an answer would admit them. */
static inline void let_it_wait(bool sleeps)
{
    struct timespec nap = {0, 1000000};
    int tid;
    while ((tid = atomic_load(&o->waiter)) == 0)
        unseen_call(SYS_nanosleep, (long)&nap, 0, 0, 0);
    if (sleeps)
        until_asleep(tid);
    for (long from = sleeps ? 0 : cpu_us_of(tid);
         !sleeps && cpu_us_of(tid) - from < 3000;)
        unseen_call(SYS_nanosleep, (long)&nap, 0, 0, 0);
    usleep(5000);
}

/* Until the waiter has tried often enough for a run of tries, on a busy
 * machine, too. */
static inline void let_it_try(void)
{
    struct timespec nap = {0, 1000000};
    while (atomic_load(&o->tries) < 10)
        unseen_call(SYS_nanosleep, (long)&nap, 0, 0, 0);
}

static inline void here(void)
{
    atomic_store(&o->waiter, (int)syscall(SYS_gettid));
}

static inline void mutex_init(int type, int robust, int protocol)
{
    pthread_mutexattr_t a;
    pthread_mutexattr_init(&a);
    pthread_mutexattr_settype(&a, type);
    pthread_mutexattr_setrobust(&a, robust);
    DO(pthread_mutexattr_setprotocol(&a, protocol));
    pthread_mutexattr_setpshared(&a, shared ? PTHREAD_PROCESS_SHARED
                                            : PTHREAD_PROCESS_PRIVATE);
    DO(pthread_mutex_init(&o->mutex, &a));
}
static inline void normal(void)
{
    mutex_init(PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_STALLED, PTHREAD_PRIO_NONE);
}
static inline void recursive(void)
{
    mutex_init(PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_STALLED,
               PTHREAD_PRIO_NONE);
}
static inline void errorcheck(void)
{
    mutex_init(PTHREAD_MUTEX_ERRORCHECK, PTHREAD_MUTEX_STALLED,
               PTHREAD_PRIO_NONE);
}
static inline void adaptive(void)
{
    mutex_init(PTHREAD_MUTEX_ADAPTIVE_NP, PTHREAD_MUTEX_STALLED,
               PTHREAD_PRIO_NONE);
}
static inline void robust(void)
{
    mutex_init(PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_ROBUST, PTHREAD_PRIO_NONE);
}
static inline void inherit(void)
{
    mutex_init(PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_STALLED,
               PTHREAD_PRIO_INHERIT);
}
static inline void cond_init(void)
{
    pthread_condattr_t a;
    pthread_condattr_init(&a);
    pthread_condattr_setpshared(&a, shared ? PTHREAD_PROCESS_SHARED
                                           : PTHREAD_PROCESS_PRIVATE);
    normal();
    DO(pthread_cond_init(&o->cond, &a));
}
static inline void rwlock_init(void)
{
    pthread_rwlockattr_t a;
    pthread_rwlockattr_init(&a);
    pthread_rwlockattr_setpshared(&a, shared ? PTHREAD_PROCESS_SHARED
                                             : PTHREAD_PROCESS_PRIVATE);
    DO(pthread_rwlock_init(&o->rwlock, &a));
}
static inline void sem_begin(void)
{
    DO(sem_init(&o->sem, shared, 0));
}
static inline void spin_begin(void)
{
    DO(pthread_spin_init(&o->spin, shared));
}
static inline void mtx_begin(void)
{
    DO(mtx_init(&o->mtx, mtx_timed));
}

static inline bool begin(void)
{
    o = mmap(NULL, sizeof(*o), PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return o != MAP_FAILED;
}

#endif
