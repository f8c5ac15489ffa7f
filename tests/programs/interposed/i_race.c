/* i_race [race]: four threads share a counter under each kind of lock; with
 * "race" one under none. What a checker of data races says of it is known. */
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 4, ROUNDS = 40 };

static pthread_mutex_t plain = PTHREAD_MUTEX_INITIALIZER, recursive, checked,
                       robust;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_spinlock_t spin;
static pthread_barrier_t all;
static pthread_cond_t turned = PTHREAD_COND_INITIALIZER;
static sem_t one;
static int token[2]; /* a pipe with one byte */
static long counts[7], raced, turn;

static void with(pthread_mutex_t *m, long *count)
{
    if (pthread_mutex_lock(m))
        abort();
    ++*count;
    pthread_mutex_unlock(m);
}

static void by_locks(void)
{
    with(&plain, &counts[0]);
    with(&checked, &counts[1]);
    with(&robust, &counts[2]);
    pthread_mutex_lock(&recursive);
    with(&recursive, &counts[3]);
    pthread_mutex_unlock(&recursive);
    while (pthread_mutex_trylock(&plain))
        usleep(100);
    counts[0]++;
    pthread_mutex_unlock(&plain);
}

static void by_others(long me)
{
    pthread_rwlock_wrlock(&rwlock);
    counts[4]++;
    pthread_rwlock_unlock(&rwlock);
    /* Never contended: helgrind 3.19 then reports a bug in the C library. */
    pthread_mutex_lock(&checked);
    pthread_spin_lock(&spin);
    counts[5]++;
    pthread_spin_unlock(&spin);
    pthread_mutex_unlock(&checked);
    sem_wait(&one);
    counts[6]++;
    sem_post(&one);
    pthread_mutex_lock(&plain);
    while (turn % THREADS != me)
        pthread_cond_wait(&turned, &plain);
    turn++;
    pthread_cond_broadcast(&turned);
    pthread_mutex_unlock(&plain);
}

static void *work(void *arg)
{
    char byte;
    for (int i = 0; i < ROUNDS; i++) {
        pthread_barrier_wait(&all);
        by_locks();
        pthread_barrier_wait(&all);
        by_others((long)arg);
        if (read(token[0], &byte, 1) != 1 || write(token[1], &byte, 1) != 1)
            abort();
    }
    return arg;
}

static void *race(void *arg)
{
    for (int i = 0; i < ROUNDS; i++) {
        raced++;
        usleep(1);
    }
    return arg;
}

static void make(pthread_mutex_t *m, int type, int is_robust)
{
    pthread_mutexattr_t a;
    pthread_mutexattr_init(&a);
    pthread_mutexattr_settype(&a, type);
    if (is_robust)
        pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
    if (pthread_mutex_init(m, &a))
        abort();
}

int main(int argc, char **argv)
{
    pthread_t t[THREADS];
    int races = argc > 1 && strcmp(argv[1], "race") == 0;
    make(&recursive, PTHREAD_MUTEX_RECURSIVE, 0);
    make(&checked, PTHREAD_MUTEX_ERRORCHECK, 0);
    make(&robust, PTHREAD_MUTEX_NORMAL, 1);
    pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE);
    pthread_barrier_init(&all, NULL, THREADS);
    if (sem_init(&one, 0, 1) || pipe(token) || write(token[1], "x", 1) != 1)
        return 1;
    for (long i = 0; i < THREADS; i++)
        if (pthread_create(&t[i], NULL, races ? race : work, (void *)i))
            return 1;
    for (int i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
    for (int i = 1; i < 7; i++)
        counts[0] += counts[i];
    printf("counted %ld\n", counts[0]);
    return 0;
}
