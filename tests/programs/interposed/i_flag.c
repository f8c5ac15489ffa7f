/* i_flag WHAT NAP WHERE [MS]: a thread that naps, and what it does between.
 *
 * `flag`: until another one, in WHERE, has computed for MS ms (50) and set a
 * flag in memory; then it computes for MS ms itself. The other one computes
 * only when the first naps. `locked`: the same with the flag behind a mutex.
 * `tick`: 8 naps, before each of which it computes for 2 ms. `record`: 8 naps,
 * with a byte to a pipe before each. `once`, `twice`: so many naps of MS ms. */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#include "asleep.h"
#include "compute.h"

static const char *what, *how, *where;
static long ms = 50;
static pid_t waiter;
static struct shared {
    pthread_mutex_t mutex;
    atomic_bool flag;
} * shared;

static bool is(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

static int fail(const char *text)
{
    perror(text);
    exit(9);
}

static void nap(long us)
{
    struct timespec ts = {us / 1000000, us % 1000000 * 1000};
    struct timeval tv = {us / 1000000, us % 1000000};
    if (is(how, "usleep"))
        usleep((useconds_t)us);
    else if (is(how, "nanosleep"))
        nanosleep(&ts, NULL);
    else if (is(how, "clock_nanosleep"))
        clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, NULL);
    else if (is(how, "thrd_sleep"))
        thrd_sleep(&ts, NULL);
    else if (is(how, "poll"))
        poll(NULL, 0, (int)(us / 1000));
    else if (is(how, "ppoll"))
        ppoll(NULL, 0, &ts, NULL);
    else if (is(how, "select"))
        select(0, NULL, NULL, NULL, &tv);
    else if (is(how, "pselect"))
        pselect(0, NULL, NULL, NULL, &ts, NULL);
    else
        fail(how);
}

static void *set_flag(void *unused)
{
    until_asleep(waiter);
    compute(ms);
    if (is(what, "locked"))
        pthread_mutex_lock(&shared->mutex);
    atomic_store(&shared->flag, true);
    if (is(what, "locked"))
        pthread_mutex_unlock(&shared->mutex);
    if (is(where, "process"))
        pause();
    return unused;
}

static bool is_set(void)
{
    if (is(what, "flag"))
        return atomic_load(&shared->flag);
    pthread_mutex_lock(&shared->mutex);
    bool set = atomic_load(&shared->flag);
    pthread_mutex_unlock(&shared->mutex);
    return set;
}

static void wait_for_flag(void)
{
    pthread_t t;
    pid_t child = -1;
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        fail("mmap");
    pthread_mutex_init(&shared->mutex, NULL);
    nap(0); /* so that the first look is no longer than another */
    if (is(where, "thread") ? pthread_create(&t, NULL, set_flag, NULL) != 0
                            : (child = fork()) < 0)
        fail(where);
    if (child == 0) {
        set_flag(NULL);
        _exit(0);
    }
    while (!is_set())
        nap(1000);
    compute(ms);
    if (child > 0) /* the path ends here */
        kill(child, SIGKILL);
}

int main(int argc, char **argv)
{
    int p[2];
    if (argc < 4)
        return 2;
    what = argv[1], how = argv[2], where = argv[3];
    ms = argc > 4 ? atol(argv[4]) : ms;
    waiter = getpid();
    if (is(what, "flag") || is(what, "locked")) {
        wait_for_flag();
        return 0;
    }
    if (pipe(p))
        fail("pipe");
    int naps = is(what, "once") ? 1 : is(what, "twice") ? 2 : 8;
    for (int i = 0; i < naps; i++) {
        if (is(what, "tick"))
            compute(2);
        if (is(what, "record") && write(p[1], "x", 1) != 1)
            fail("write");
        nap(ms * 1000);
    }
    return 0;
}
