/* Calls that are left while they wait, by argument: "longjmp" and "exit" in a
 * signal handler, "cancel". Each is for a semaphore that nobody posts, and is
 * left when its thread waits for it. */
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

static union {
    sem_t semaphore;
    volatile uint64_t word; /* the C library: above 32 bits, who waits */
} u;
static sigjmp_buf out;
static int leaves_by_exit;

static void on_signal(int sig)
{
    (void)sig;
    if (leaves_by_exit)
        _exit(0);
    siglongjmp(out, 1);
}

static void *take(void *arg)
{
    sem_wait(&u.semaphore);
    return arg;
}

static void until_it_waits(void)
{
    while (u.word >> 32 == 0)
        usleep(1000);
    usleep(20000);
}

static void *interrupt(void *thread)
{
    until_it_waits();
    pthread_kill(*(pthread_t *)thread, SIGUSR1);
    return NULL;
}

static int cancel(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, take, NULL);
    until_it_waits();
    pthread_cancel(thread);
    return pthread_join(thread, NULL);
}

int main(int argc, char **argv)
{
    pthread_t other, self = pthread_self();
    if (argc != 2 || sem_init(&u.semaphore, 0, 0))
        return 2;
    if (strcmp(argv[1], "cancel") == 0)
        return cancel();
    leaves_by_exit = strcmp(argv[1], "exit") == 0;
    signal(SIGUSR1, on_signal);
    if (sigsetjmp(out, 1) == 0) {
        pthread_create(&other, NULL, interrupt, &self);
        take(NULL);
        return 3;
    }
    return pthread_join(other, NULL);
}
