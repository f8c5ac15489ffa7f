/* i_thread: threads that end in every way, and some that are joined. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

static int fds[2];
static pthread_key_t key;

static void at_end(void *p) /* what destructors do is still the thread's */
{
    if (write(fds[1], p, 1) != 1)
        _exit(99);
}

static void *returns(void *p)
{
    pthread_setspecific(key, "k");
    return p;
}
static void *exits(void *p)
{
    pthread_exit(p);
}
static void *waits(void *p)
{
    for (;;)
        pause();
    return p;
}
static void *reads(void *p) /* cancelled inside a wrapped read */
{
    char c;
    while (read(*(int *)p, &c, 1) >= 0)
        ;
    return NULL;
}
static int c11(void *p)
{
    return (int)strlen((const char *)p);
}

int main(void)
{
    pthread_t t[40];
    int numbers[40];
    void *value;
    char c;
    int quiet[2];
    if (pipe(fds) || pipe(quiet) || pthread_key_create(&key, at_end))
        return 1;
    for (int i = 0; i < 40; i++)
        if (pthread_create(&t[i], NULL, i % 2 ? exits : returns, &numbers[i]))
            return 1;
    int good = 0, got = 0;
    for (int i = 0; i < 40; i++)
        good += pthread_join(t[i], &value) == 0 && value == &numbers[i];
    while (got < 20 && read(fds[0], &c, 1) == 1)
        got++;
    printf("joined %d, destructors %d\n", good, got);
    pthread_create(&t[0], NULL, waits, NULL);
    pthread_create(&t[1], NULL, reads, &quiet[0]);
    struct timespec soon;
    clock_gettime(CLOCK_REALTIME, &soon);
    soon.tv_nsec += 20000000;
    if (soon.tv_nsec >= 1000000000) {
        soon.tv_sec++;
        soon.tv_nsec -= 1000000000;
    }
    printf("try %d\n", pthread_tryjoin_np(t[0], &value) != 0);
    printf("timed %d\n", pthread_timedjoin_np(t[0], &value, &soon) != 0);
    for (int i = 0; i < 2; i++) {
        pthread_cancel(t[i]);
        pthread_join(t[i], &value);
        printf("cancelled %d\n", value == PTHREAD_CANCELED);
    }
    thrd_t thread;
    int status = 0;
    char text[] = "seven c";
    printf("thrd_create %d\n", thrd_create(&thread, c11, text) == thrd_success);
    thrd_join(thread, &status);
    printf("thrd_join %d\n", status);
    return 0;
}
