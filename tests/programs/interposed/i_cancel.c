/* Threads that are cancelled: each waits for ever in another call, and a thread
 * that has computed for a while cancels it. The last of them cannot be
 * cancelled and returns. Then one is cancelled that has ended; another, which
 * gets its handle, leaves by pthread_exit. */
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "asleep.h"

static int ends[2];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static sem_t sem;
static volatile int tid, stop;

static void unlock(void *unused)
{
    (void)unused;
    pthread_mutex_unlock(&mutex);
}

static void *reads(void *unused)
{
    char byte;
    tid = gettid();
    while (read(ends[0], &byte, 1) >= 0)
        ;
    return unused;
}

static void *polls(void *unused)
{
    struct pollfd fd = {ends[0], POLLIN, 0};
    tid = gettid();
    poll(&fd, 1, -1);
    return unused;
}

static void *waits(void *unused)
{
    pthread_mutex_lock(&mutex);
    pthread_cleanup_push(unlock, NULL);
    tid = gettid();
    while (!stop)
        pthread_cond_wait(&cond, &mutex);
    pthread_cleanup_pop(1);
    return unused;
}

static void *takes(void *unused)
{
    tid = gettid();
    sem_wait(&sem);
    return unused;
}

static void *sleeps(void *unused)
{
    struct timespec day = {86400, 0};
    tid = gettid();
    nanosleep(&day, NULL);
    return unused;
}

static void *returns(void *unused)
{
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    tid = gettid();
    while (!stop)
        usleep(1000);
    return unused;
}

static void *cancels(void *target)
{
    struct timespec now;
    do
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    while (now.tv_nsec < 30000000);
    pthread_cancel(*(pthread_t *)target);
    return NULL;
}

static void *exits(void *unused)
{
    tid = gettid();
    pthread_exit(unused);
}

static void cancelled_when_over(void)
{
    pthread_t first, second;
    tid = 0;
    pthread_create(&first, NULL, exits, NULL);
    while (!tid || state_of(tid))
        usleep(1000);
    pthread_cancel(first);
    pthread_join(first, NULL);
    pthread_create(&second, NULL, exits, NULL);
    pthread_join(second, NULL);
    printf("the same handle: %d\n", pthread_equal(first, second));
}

int main(void)
{
    void *(*const all[])(void *) = {reads, polls,  waits,
                                    takes, sleeps, returns};
    if (pipe(ends) || sem_init(&sem, 0, 0))
        return 2;
    for (unsigned i = 0; i < sizeof(all) / sizeof(*all); i++) {
        pthread_t target, other;
        void *result;
        tid = stop = 0;
        pthread_create(&target, NULL, all[i], NULL);
        while (!tid)
            usleep(1000);
        until_asleep(tid);
        pthread_create(&other, NULL, cancels, &target);
        if (all[i] == returns) {
            pthread_join(other, NULL);
            stop = 1;
        }
        pthread_join(target, &result);
        if (all[i] != returns)
            pthread_join(other, NULL);
        printf("%u: %d\n", i, result == PTHREAD_CANCELED);
    }
    cancelled_when_over();
    return 0;
}
