/*
 * Threads that take the next piece of work under a mutex: the first piece is as
 * much as ten others, so that they do not divide them evenly.
 *
 * Usage: takers [THREADS [PIECES [US]]]   (3 threads, 41 pieces of 500 us)
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define THREADS_MAX 64u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned next, pieces = 41, micros = 500, had[THREADS_MAX];

static double cpu_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void *work(void *mine)
{
    for (;;) {
        pthread_mutex_lock(&lock);
        unsigned piece = next++;
        pthread_mutex_unlock(&lock);
        if (piece >= pieces)
            return NULL;
        double until = cpu_us() + (piece ? 1.0 : 10.0) * micros;
        while (cpu_us() < until) {
        }
        ++*(unsigned *)mine;
    }
}

int main(int argc, char **argv)
{
    unsigned threads = argc > 1 ? (unsigned)atoi(argv[1]) : 3;
    pthread_t thread[THREADS_MAX];
    if (argc > 2)
        pieces = (unsigned)atoi(argv[2]);
    if (argc > 3)
        micros = (unsigned)atoi(argv[3]);
    if (threads > THREADS_MAX)
        return 2;
    for (unsigned k = 0; k < threads; k++)
        if (pthread_create(&thread[k], NULL, work, &had[k]))
            return 1;
    for (unsigned k = 0; k < threads; k++)
        pthread_join(thread[k], NULL);
    for (unsigned k = 0; k < threads; k++)
        printf("%u%s", had[k], k + 1 < threads ? " " : "\n");
    return 0;
}
