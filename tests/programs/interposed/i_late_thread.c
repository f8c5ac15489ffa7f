/*
 * A thread that is still there when the process ends, though its last round of
 * destructors is over: the kernel takes a while to remove one, here it is made
 * to last. Our key comes after any that a library made first.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

static pthread_key_t key;
static _Atomic int over;

static void linger(void *round)
{
    uintptr_t n = (uintptr_t)round;
    if (n < 4) { /* PTHREAD_DESTRUCTOR_ITERATIONS */
        pthread_setspecific(key, (void *)(n + 1));
        return;
    }
    over = 1;
    for (;;)
        pause();
}

static void *thread_main(void *arg)
{
    pthread_setspecific(key, (void *)1);
    return arg;
}

int main(void)
{
    pthread_t thread;
    if (pthread_key_create(&key, linger) ||
        pthread_create(&thread, NULL, thread_main, NULL))
        return 1;
    while (!over)
        usleep(1000);
    return 0;
}
