/* Threads that share locks: each turn is work of its own and work inside a
 * lock, the turns' locks drawn with a seed; a barrier every so many turns. */
#include "net.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static const char usage[] =
    "usage: locks [options]\n"
    "  --threads N  (4)\n"
    "  --turns N    of each thread (100)\n"
    "  --own N      work outside the locks in a turn, in us or so (100)\n"
    "  --inside N   work inside (50)\n"
    "  --locks N    (2)\n"
    "  --barrier N  turns from barrier to barrier, 0 none (25)\n"
    "  --alone      one thread does all of it: the known answer\n";

#define MAX_THREADS 64
#define MAX_LOCKS 64

static uint32_t threads = 4, turns = 100, own = 100, inside = 50, locks = 2,
                each = 25;
static pthread_mutex_t lock[MAX_LOCKS];
static uint64_t shared[MAX_LOCKS]; /* each under its lock */
static pthread_barrier_t barrier;
static bool alone;

static void *work(void *number)
{
    const uint32_t *me = number;
    uint64_t state = *me;
    for (uint32_t turn = 0; turn < turns; turn++) {
        uint64_t value = net_work(state, own);
        uint32_t which = net_random(&state) % locks;
        pthread_mutex_lock(&lock[which]);
        shared[which] += net_work(value, inside);
        pthread_mutex_unlock(&lock[which]);
        if (!alone && each && (turn + 1) % each == 0)
            pthread_barrier_wait(&barrier);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    static uint32_t number[MAX_THREADS];
    pthread_t thread[MAX_THREADS];
    uint64_t sum = 0;
    const struct net_option options[] = {
        {.name = "--threads", .number = &threads, .min = 1, .max = MAX_THREADS},
        {.name = "--turns", .number = &turns, .min = 1, .max = 1000000},
        {.name = "--own", .number = &own, .max = 10000000},
        {.name = "--inside", .number = &inside, .max = 10000000},
        {.name = "--locks", .number = &locks, .min = 1, .max = MAX_LOCKS},
        {.name = "--barrier", .number = &each, .max = 1000000},
        {.name = "--alone", .flag = &alone},
        {0}};
    net_options(usage, options, argc, argv);
    for (uint32_t i = 0; i < locks; i++)
        pthread_mutex_init(&lock[i], NULL);
    pthread_barrier_init(&barrier, NULL, threads);
    for (uint32_t i = 0; i < threads; i++) {
        number[i] = i + 1;
        if (alone)
            work(&number[i]);
        else if (pthread_create(&thread[i], NULL, work, &number[i]))
            net_die("no thread");
    }
    for (uint32_t i = 0; i < threads && !alone; i++)
        pthread_join(thread[i], NULL);
    for (uint32_t i = 0; i < locks; i++)
        sum += shared[i] * (i + 1);
    printf("threads %u sum %016" PRIx64 "\n", threads, sum);
    return 0;
}
