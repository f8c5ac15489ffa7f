/*
 * why-locks KIND: two threads and a lock. The work is counted, not timed.
 *
 *   brief    a mutex for one addition in count_one(), work outside of it
 *   rand     rand(), which has a lock inside the C library
 *   putc     putc() to one stream, whose lock is the C library's
 *   alone    as brief, but each thread has a mutex of its own
 *   long     a mutex while hold_long() works, half as much work outside of it
 *   spin     a spin lock that is held while hold_long() works
 *   yield    a flag that is waited for with sched_yield()
 *   poll     a flag that is waited for by reading it
 *   flag     the same, but one thread waits, and the flag is on its stack
 *   nap      a mutex while hold_asleep() sleeps, work outside of it
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "work.h"

#define TURNS 3000000L
#define QUICK_TURNS 10000000L /* of rand() and putc() */
#define ROUNDS 60

static struct {
    _Alignas(128) pthread_mutex_t mutex;
    long count;
} shared[2];
static pthread_spinlock_t spin;
static _Atomic int turn;
static FILE *out;
static char kind; /* the first letter; 'o': poll */

static void count_one(int which)
{
    pthread_mutex_lock(&shared[which].mutex);
    shared[which].count++;
    pthread_mutex_unlock(&shared[which].mutex);
}

static unsigned long parse_line(unsigned long x)
{
    for (int i = 0; i < 60; i++)
        x = x * 6364136223846793005UL + 1;
    return x;
}

static void hold_long(void)
{
    WORK(1000);
}

static void work_outside(void)
{
    WORK(500);
}

static __attribute__((noinline)) void hold_asleep(void)
{
    struct timespec t = {.tv_nsec = 4000000};
    pthread_mutex_lock(&shared[0].mutex);
    nanosleep(&t, NULL);
    pthread_mutex_unlock(&shared[0].mutex);
    __asm__ volatile(""); /* no tail call */
}

static void await_yielding(int me)
{
    while (atomic_load(&turn) != me)
        sched_yield();
}

static void await_polling(int me)
{
    while (atomic_load(&turn) != me)
        continue;
}

static void *set_flag(void *flag)
{
    for (int i = 0; i < ROUNDS; i++)
        hold_long();
    atomic_store((_Atomic int *)flag, 1);
    return NULL;
}

static int await_flag(void)
{
    _Atomic int flag = 0;
    pthread_t thread;
    if (pthread_create(&thread, NULL, set_flag, &flag))
        return 1;
    while (!atomic_load(&flag))
        continue;
    return pthread_join(thread, NULL);
}

static void one_round(int me)
{
    if (kind == 'l') {
        pthread_mutex_lock(&shared[0].mutex);
        hold_long();
        pthread_mutex_unlock(&shared[0].mutex);
        work_outside();
    } else if (kind == 'n') {
        hold_asleep();
        work_outside();
    } else if (kind == 's') {
        pthread_spin_lock(&spin);
        hold_long();
        pthread_spin_unlock(&spin);
    } else {
        if (kind == 'y')
            await_yielding(me);
        else
            await_polling(me);
        hold_long();
        atomic_store(&turn, !me);
    }
}

static void one_turn(int me, unsigned long *x)
{
    if (kind == 'r') {
        *x += (unsigned long)rand();
    } else if (kind == 'p') {
        putc('x', out);
    } else {
        *x = parse_line(*x);
        count_one(kind == 'a' ? me : 0);
    }
}

static void *run(void *arg)
{
    int me = (int)(long)arg;
    unsigned long x = 1;
    bool turns = strchr("brpa", kind);
    long count = !turns ? ROUNDS : strchr("rp", kind) ? QUICK_TURNS : TURNS;
    for (long i = 0; i < count; i++) {
        if (turns)
            one_turn(me, &x);
        else
            one_round(me);
    }
    return (void *)x;
}

int main(int argc, char **argv)
{
    pthread_t thread[2];
    if (argc != 2)
        return 2;
    kind = strcmp(argv[1], "poll") == 0 ? 'o' : *argv[1];
    if (kind == 'f')
        return await_flag();
    out = fopen("/dev/null", "w");
    if (!out)
        return 1;
    pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE);
    for (int i = 0; i < 2; i++)
        pthread_mutex_init(&shared[i].mutex, NULL);
    for (long i = 0; i < 2; i++)
        if (pthread_create(&thread[i], NULL, run, (void *)i))
            return 1;
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    return fclose(out) != 0;
}
