/* Programs that come to wait for ever, and some that only look so; by name of
 * the way (ways[]). For tests/system/answers/test_hang.py. */
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#define PHILOSOPHERS 5
static pthread_mutex_t fork_of[PHILOSOPHERS];
static pthread_barrier_t seated;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static sem_t semaphore;
static char bytes[1 << 20];

static void join_all(pthread_t *thread, int n)
{
    for (int i = 0; i < n; i++)
        pthread_join(thread[i], NULL);
}

static void *dine(void *arg)
{
    pthread_mutex_t *left = arg;
    pthread_mutex_t *right = &fork_of[(left - fork_of + 1) % PHILOSOPHERS];
    pthread_mutex_lock(left);
    pthread_barrier_wait(&seated);
    pthread_mutex_lock(right);
    return NULL;
}

static void philosophers(void)
{
    pthread_t thread[PHILOSOPHERS];
    for (int i = 0; i < PHILOSOPHERS; i++)
        pthread_create(&thread[i], NULL, dine, &fork_of[i]);
    join_all(thread, PHILOSOPHERS);
}

static void itself(void)
{
    pthread_mutex_lock(&fork_of[0]);
    pthread_mutex_lock(&fork_of[0]);
}

static void *lock_first(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&fork_of[0]);
    return NULL;
}

/* Joins a thread that waits for its mutex. */
static void join(void)
{
    pthread_t thread;
    pthread_mutex_lock(&fork_of[0]);
    pthread_create(&thread, NULL, lock_first, NULL);
    pthread_join(thread, NULL);
}

static void upgrade(void)
{
    pthread_rwlock_rdlock(&rwlock);
    pthread_rwlock_wrlock(&rwlock);
}

static void *consume(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&fork_of[0]);
    pthread_cond_wait(&condition, &fork_of[0]);
    return NULL;
}

static void *take(void *arg)
{
    (void)arg;
    sem_wait(&semaphore);
    return NULL;
}

static void in_thread(void *(*wait_for)(void *))
{
    pthread_t thread;
    pthread_create(&thread, NULL, wait_for, NULL);
    pthread_join(thread, NULL);
}

static void signalled_before(void)
{
    pthread_cond_signal(&condition);
    in_thread(consume);
}

static void no_post(void)
{
    in_thread(take);
}

/* Parent and child: each writes more than a pipe holds before it reads. */
static void write_first(void)
{
    int down[2], up[2];
    if (pipe(down) || pipe(up))
        return;
    const int child = fork() == 0;
    if (write(child ? up[1] : down[1], bytes, sizeof(bytes)) < 0 ||
        read(child ? down[0] : up[0], bytes, sizeof(bytes)) < 0)
        return;
    if (!child)
        wait(NULL);
}

/* No hang: somebody computes. */
static void busy(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, take, NULL);
    for (volatile long i = 0;; i++)
        ;
}

/* No hang: from outside somebody may come. */
static void idle(void)
{
    struct epoll_event event;
    epoll_wait(epoll_create1(0), &event, 1, -1);
}

static void asleep(void)
{
    sleep(1000);
}

static const struct {
    const char *name;
    void (*run)(void);
} ways[] = {
    {"philosophers", philosophers},
    {"itself", itself},
    {"join", join},
    {"upgrade", upgrade},
    {"condition", signalled_before},
    {"semaphore", no_post},
    {"write-first", write_first},
    {"busy", busy},
    {"idle", idle},
    {"asleep", asleep},
};

int main(int argc, char **argv)
{
    for (int i = 0; i < PHILOSOPHERS; i++)
        pthread_mutex_init(&fork_of[i], NULL);
    pthread_barrier_init(&seated, NULL, PHILOSOPHERS);
    sem_init(&semaphore, 0, 0);
    for (size_t i = 0; argc == 2 && i < sizeof(ways) / sizeof(*ways); i++)
        if (strcmp(argv[1], ways[i].name) == 0)
            ways[i].run();
    return 2;
}
