/* bench_handover KIND SECONDS: two threads on two cores take one lock in turn
 * with work of their own, and count how often it goes from one to the other.
 * Prints handovers and rounds a second. KIND: mutex or rwlock (held for one
 * addition), semaphore (likewise), held (a mutex, held for as long as the work
 * of their own takes). */
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static sem_t sem;
static int owner, held;
static unsigned long handovers, rounds;
static volatile int stop;
static void (*take)(void), (*give)(void);

static void mutex_take(void)
{
    pthread_mutex_lock(&mutex);
}
static void mutex_give(void)
{
    pthread_mutex_unlock(&mutex);
}
static void rwlock_take(void)
{
    pthread_rwlock_wrlock(&rwlock);
}
static void rwlock_give(void)
{
    pthread_rwlock_unlock(&rwlock);
}
static void sem_take(void)
{
    sem_wait(&sem);
}
static void sem_give(void)
{
    sem_post(&sem);
}

static unsigned long work(unsigned long x)
{
    for (int i = 0; i < 60; i++)
        x = x * 6364136223846793005UL + 1;
    return x;
}

static void *run(void *me)
{
    unsigned long x = 1;
    while (!stop) {
        x = work(x);
        take();
        rounds++;
        if (owner != *(int *)me) {
            owner = *(int *)me;
            handovers++;
        }
        if (held)
            x = work(x);
        give();
    }
    return (void *)x;
}

int main(int argc, char **argv)
{
    const char *kind = argc == 3 ? argv[1] : "";
    double seconds = argc == 3 ? atof(argv[2]) : 0;
    int names[2] = {1, 2};
    pthread_t threads[2];
    if (strcmp(kind, "mutex") == 0 || strcmp(kind, "held") == 0) {
        take = mutex_take;
        give = mutex_give;
        held = kind[0] == 'h';
    } else if (strcmp(kind, "rwlock") == 0) {
        take = rwlock_take;
        give = rwlock_give;
    } else if (strcmp(kind, "semaphore") == 0) {
        take = sem_take;
        give = sem_give;
        sem_init(&sem, 0, 1);
    } else {
        return 2;
    }
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, run, &names[i]);
    struct timespec t = {(time_t)seconds,
                         (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&t, NULL);
    stop = 1;
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    printf("handovers %.0f rounds %.0f\n", (double)handovers / seconds,
           (double)rounds / seconds);
    return 0;
}
