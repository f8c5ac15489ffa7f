/* i_sync_result CASE: what calls on locks return, with and without waiting;
 * threads cancelled while they wait, and threads that nobody joins. */
#include "i_sync.h"

/* --- results --- */

#define SHOW(call)                                                             \
    do {                                                                       \
        errno = 77;                                                            \
        int r_ = (call);                                                       \
        printf("%s = %d, errno %d\n", #call, r_, errno);                       \
    } while (0)

static void *dies_holding(void *unused)
{
    pthread_mutex_lock(&o->mutex);
    return unused;
}

static void die_holding(void)
{
    pthread_t t;
    pthread_create(&t, NULL, dies_holding, NULL);
    pthread_join(t, NULL);
}

static void *holds_a_while(void *unused)
{
    pthread_mutex_lock(&o->mutex);
    pthread_rwlock_wrlock(&o->rwlock);
    mtx_lock(&o->mtx);
    flockfile(stdin);
    sem_post(&o->sem);
    while (!atomic_load(&o->flag))
        usleep(1000);
    pthread_mutex_unlock(&o->mutex);
    pthread_rwlock_unlock(&o->rwlock);
    mtx_unlock(&o->mtx);
    funlockfile(stdin);
    return unused;
}

static int results(void)
{
    struct timespec past = {1, 0}, bad = {1, -1};
    errorcheck();
    rwlock_init();
    sem_begin();
    mtx_begin();
    SHOW(pthread_mutex_unlock(&o->mutex));
    SHOW(pthread_mutex_lock(&o->mutex));
    SHOW(pthread_mutex_lock(&o->mutex));
    SHOW(pthread_mutex_trylock(&o->mutex));
    SHOW(pthread_mutex_timedlock(&o->mutex, &past));
    SHOW(pthread_mutex_unlock(&o->mutex));
    recursive();
    SHOW(pthread_mutex_lock(&o->mutex));
    SHOW(pthread_mutex_trylock(&o->mutex));
    SHOW(pthread_mutex_timedlock(&o->mutex, &bad));
    SHOW(pthread_mutex_clocklock(&o->mutex, 99, &past));
    SHOW(pthread_mutex_clocklock(&o->mutex, CLOCK_MONOTONIC, &past));
    for (int i = 0; i < 4; i++)
        SHOW(pthread_mutex_unlock(&o->mutex));
    SHOW(pthread_mutex_unlock(&o->mutex));
    normal();
    pthread_t t;
    pthread_create(&t, NULL, holds_a_while, NULL);
    sem_wait(&o->sem);
    SHOW(pthread_mutex_trylock(&o->mutex));
    SHOW(pthread_mutex_timedlock(&o->mutex, &past));
    SHOW(pthread_mutex_timedlock(&o->mutex, &bad));
    SHOW(pthread_mutex_clocklock(&o->mutex, CLOCK_MONOTONIC, &past));
    SHOW(pthread_rwlock_tryrdlock(&o->rwlock));
    SHOW(pthread_rwlock_trywrlock(&o->rwlock));
    SHOW(pthread_rwlock_timedrdlock(&o->rwlock, &past));
    SHOW(pthread_rwlock_timedwrlock(&o->rwlock, &past));
    SHOW(pthread_rwlock_timedwrlock(&o->rwlock, &bad));
    SHOW(pthread_rwlock_clockrdlock(&o->rwlock, 99, &past));
    SHOW(pthread_rwlock_clockwrlock(&o->rwlock, CLOCK_MONOTONIC, &past));
    SHOW(mtx_trylock(&o->mtx));
    SHOW(mtx_timedlock(&o->mtx, &past));
    SHOW(ftrylockfile(stdin));
    flockfile(stderr);
    SHOW(ftrylockfile(stderr));
    funlockfile(stderr);
    funlockfile(stderr);
    atomic_store(&o->flag, 1);
    pthread_join(t, NULL);
    SHOW(pthread_rwlock_timedrdlock(&o->rwlock, &bad));
    SHOW(pthread_rwlock_rdlock(&o->rwlock));
    SHOW(pthread_rwlock_tryrdlock(&o->rwlock));
    SHOW(pthread_rwlock_trywrlock(&o->rwlock));
    SHOW(pthread_rwlock_unlock(&o->rwlock));
    SHOW(pthread_rwlock_unlock(&o->rwlock));
    SHOW(pthread_rwlock_wrlock(&o->rwlock));
    SHOW(pthread_rwlock_wrlock(&o->rwlock));
    SHOW(pthread_rwlock_rdlock(&o->rwlock));
    SHOW(pthread_rwlock_unlock(&o->rwlock));
    SHOW(sem_trywait(&o->sem));
    SHOW(sem_timedwait(&o->sem, &past));
    SHOW(sem_timedwait(&o->sem, &bad));
    SHOW(sem_clockwait(&o->sem, 99, &past));
    SHOW(sem_clockwait(&o->sem, CLOCK_MONOTONIC, &past));
    SHOW(sem_post(&o->sem));
    SHOW(sem_timedwait(&o->sem, &bad));
    SHOW(sem_clockwait(&o->sem, 99, &past));
    SHOW(sem_wait(&o->sem));
    robust();
    die_holding();
    SHOW(pthread_mutex_lock(&o->mutex));
    SHOW(pthread_mutex_consistent(&o->mutex));
    SHOW(pthread_mutex_unlock(&o->mutex));
    die_holding();
    SHOW(pthread_mutex_trylock(&o->mutex));
    SHOW(pthread_mutex_unlock(&o->mutex));
    SHOW(pthread_mutex_lock(&o->mutex));
    cond_init();
    SHOW(pthread_mutex_lock(&o->mutex));
    SHOW(pthread_cond_timedwait(&o->cond, &o->mutex, &past));
    SHOW(pthread_cond_timedwait(&o->cond, &o->mutex, &bad));
    SHOW(pthread_cond_clockwait(&o->cond, &o->mutex, CLOCK_MONOTONIC, &past));
    SHOW(pthread_cond_clockwait(&o->cond, &o->mutex, 99, &past));
    SHOW(pthread_cond_signal(&o->cond));
    SHOW(pthread_mutex_unlock(&o->mutex));
    spin_begin();
    SHOW(pthread_spin_trylock(&o->spin));
    SHOW(pthread_spin_trylock(&o->spin));
    SHOW(pthread_spin_unlock(&o->spin));
    pthread_barrier_init(&o->barrier, NULL, 1);
    SHOW(pthread_barrier_wait(&o->barrier));
    return 0;
}

/* --- cancelled while waiting --- */

static void unlock(void *m)
{
    printf("cleanup: unlock %d\n", pthread_mutex_unlock(m));
}
static void *in_cond(void *unused)
{
    here();
    pthread_mutex_lock(&o->mutex);
    pthread_cleanup_push(unlock, &o->mutex);
    for (;;)
        pthread_cond_wait(&o->cond, &o->mutex);
    pthread_cleanup_pop(0);
    return unused;
}
static void *in_sem(void *unused)
{
    here();
    sem_wait(&o->sem);
    return unused;
}
static void *
in_free_sem(void *unused) /* cancelled before it takes what is free */
{
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    here();
    while (!atomic_load(&o->flag))
        usleep(1000);
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
    sem_wait(&o->sem);
    return unused;
}
static void *sleeps(void *unused)
{
    for (;;)
        pause();
    return unused;
}
static pthread_t sleeper;
static void *in_join(void *unused)
{
    here();
    pthread_join(sleeper, NULL);
    return unused;
}

static void cancel(void *(*fn)(void *), bool asleep)
{
    pthread_t t;
    void *value = NULL;
    atomic_store(&o->flag, 0);
    atomic_store(&o->waiter, 0);
    pthread_create(&t, NULL, fn, NULL);
    let_it_wait(asleep);
    pthread_cancel(t);
    atomic_store(&o->flag, 1);
    DO(pthread_join(t, &value));
    printf("cancelled %d\n", value == PTHREAD_CANCELED);
}

static int cancelled(void)
{
    int value = -1;
    cond_init();
    sem_begin();
    cancel(in_cond, true);
    cancel(in_sem, true);
    sem_post(&o->sem);
    cancel(in_free_sem, false);
    sem_getvalue(&o->sem, &value);
    printf("left %d\n", value);
    pthread_create(&sleeper, NULL, sleeps, NULL);
    cancel(in_join, true);
    pthread_cancel(sleeper);
    DO(pthread_join(sleeper, NULL));
    SHOW(pthread_mutex_trylock(&o->mutex));
    return 0;
}

/* --- threads that nobody joins --- */

static void *detached(void *unused)
{
    DO(pthread_detach(pthread_self()));
    sem_post(&o->sem);
    return unused;
}
static void *last(void *unused)
{
    usleep(5000);
    puts("the last thread ends the process");
    return unused;
}
static int main_leaves(void)
{
    pthread_t t;
    sem_begin();
    pthread_create(&t, NULL, detached, NULL);
    sem_wait(&o->sem);
    pthread_create(&t, NULL, last, NULL);
    pthread_detach(t);
    pthread_exit(NULL);
}

int main(int argc, char **argv)
{
    if (argc != 2 || !begin())
        return 2;
    const char *name = argv[1];
    return strcmp(name, "results") == 0     ? results()
           : strcmp(name, "cancelled") == 0 ? cancelled()
                                            : main_leaves();
}
