/* i_sync CASE: locks and their like. Most cases have one waiter (a second
 * thread, or with "process-" before the case's name a child process) that
 * really waits, and the main thread, which lets it go once it sleeps. Nothing
 * that differs from run to run is printed. */
#include "i_sync.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static once_flag once11 = ONCE_FLAG_INIT;
static sem_t *named;

/* --- the cases: what the main thread takes, what the waiter does, and how the
 * main thread lets it go --- */

static void barrier_init(void)
{
    pthread_barrierattr_t a;
    pthread_barrierattr_init(&a);
    pthread_barrierattr_setpshared(&a, shared ? PTHREAD_PROCESS_SHARED
                                              : PTHREAD_PROCESS_PRIVATE);
    DO(pthread_barrier_init(&o->barrier, &a, 2));
}
static void named_begin(void)
{
    char name[64];
    snprintf(name, sizeof(name), "/i_sync.%d", (int)getpid());
    named = sem_open(name, O_CREAT | O_EXCL, 0600, 0);
    sem_unlink(name);
}
static void mtx_begin_recursive(void)
{
    DO(mtx_init(&o->mtx, mtx_timed | mtx_recursive));
}
static void cnd_begin(void)
{
    mtx_begin();
    DO(cnd_init(&o->cnd));
}
static void nothing(void)
{
}

static void hold_mutex(void)
{
    DO(pthread_mutex_lock(&o->mutex));
}
static void hold_twice(void)
{
    DO(pthread_mutex_lock(&o->mutex));
    DO(pthread_mutex_lock(&o->mutex));
}
static void wait_mutex(void)
{
    DO(pthread_mutex_lock(&o->mutex));
    DO(pthread_mutex_unlock(&o->mutex));
}
static void wait_timed(void)
{
    struct timespec t = later(CLOCK_REALTIME);
    DO(pthread_mutex_timedlock(&o->mutex, &t));
    DO(pthread_mutex_unlock(&o->mutex));
}
static void wait_clock(void)
{
    struct timespec t = later(CLOCK_MONOTONIC);
    DO(pthread_mutex_clocklock(&o->mutex, CLOCK_MONOTONIC, &t));
    DO(pthread_mutex_unlock(&o->mutex));
}
static void try_mutex(void)
{
    while (pthread_mutex_trylock(&o->mutex) == EBUSY)
        atomic_fetch_add(&o->tries, 1);
    DO(pthread_mutex_unlock(&o->mutex));
}
static void try_slowly(void)
{
    while (pthread_mutex_trylock(&o->mutex) == EBUSY) {
        atomic_fetch_add(&o->tries, 1);
        usleep(3000);
    }
    DO(pthread_mutex_unlock(&o->mutex));
}
static void let_tried(void)
{
    let_it_try();
    DO(pthread_mutex_unlock(&o->mutex));
}
static void let_mutex(void)
{
    DO(pthread_mutex_unlock(&o->mutex));
}
static void wait_dead(void)
{
    int r = pthread_mutex_lock(&o->mutex);
    printf("owner dead %d\n", r == EOWNERDEAD);
    DO(pthread_mutex_consistent(&o->mutex));
    DO(pthread_mutex_unlock(&o->mutex));
}
static void *dies_holding(void *unused)
{
    hold_mutex();
    let_it_wait(true);
    return unused;
}
static pthread_t dying;
static void hold_and_die(void)
{
    DO(pthread_create(&dying, NULL, dies_holding, NULL));
    while (pthread_mutex_trylock(&o->mutex) == 0) {
        pthread_mutex_unlock(&o->mutex);
        usleep(1000);
    }
}
static void let_die(void)
{
    DO(pthread_join(dying, NULL));
}
static void let_twice(void)
{
    DO(pthread_mutex_unlock(&o->mutex));
    DO(pthread_mutex_unlock(&o->mutex));
}

static void wait_cond_by(int how)
{
    struct timespec t = later(how == 2 ? CLOCK_MONOTONIC : CLOCK_REALTIME);
    DO(pthread_mutex_lock(&o->mutex));
    while (!atomic_load(&o->ready)) {
        if (how == 0)
            DO(pthread_cond_wait(&o->cond, &o->mutex));
        else if (how == 1)
            DO(pthread_cond_timedwait(&o->cond, &o->mutex, &t));
        else
            DO(pthread_cond_clockwait(&o->cond, &o->mutex, CLOCK_MONOTONIC,
                                      &t));
    }
    DO(pthread_mutex_unlock(&o->mutex));
}
static void wait_cond(void)
{
    wait_cond_by(0);
}
static void wait_cond_timed(void)
{
    wait_cond_by(1);
}
static void wait_cond_clock(void)
{
    wait_cond_by(2);
}
static void let_cond(void)
{
    DO(pthread_mutex_lock(&o->mutex));
    atomic_store(&o->ready, 1);
    DO(pthread_mutex_unlock(&o->mutex));
    DO(pthread_cond_signal(&o->cond));
}
static void let_all(void)
{
    atomic_store(&o->ready, 1);
    DO(pthread_cond_broadcast(&o->cond));
}
/* The signal comes long before the mutex is free. */
static void let_late(void)
{
    DO(pthread_mutex_lock(&o->mutex));
    atomic_store(&o->ready, 1);
    DO(pthread_cond_signal(&o->cond));
    until_asleep(atomic_load(&o->waiter));
    usleep(20000);
    DO(pthread_mutex_unlock(&o->mutex));
}
/* The mutex is free while we wait for the condition. */
static void let_by_wait(void)
{
    while (!atomic_load(&o->ready))
        DO(pthread_cond_wait(&o->cond, &o->mutex));
    DO(pthread_mutex_unlock(&o->mutex));
}
static void wait_and_signal(void)
{
    DO(pthread_mutex_lock(&o->mutex));
    until_asleep(getpid());
    usleep(5000);
    atomic_store(&o->ready, 1);
    DO(pthread_cond_signal(&o->cond));
    DO(pthread_mutex_unlock(&o->mutex));
}

static void hold_write(void)
{
    DO(pthread_rwlock_wrlock(&o->rwlock));
}
static void hold_read(void)
{
    DO(pthread_rwlock_rdlock(&o->rwlock));
}
static void wait_read(void)
{
    DO(pthread_rwlock_rdlock(&o->rwlock));
    DO(pthread_rwlock_unlock(&o->rwlock));
}
static void wait_read_timed(void)
{
    struct timespec t = later(CLOCK_REALTIME);
    DO(pthread_rwlock_timedrdlock(&o->rwlock, &t));
    DO(pthread_rwlock_unlock(&o->rwlock));
}
static void wait_read_clock(void)
{
    struct timespec t = later(CLOCK_MONOTONIC);
    DO(pthread_rwlock_clockrdlock(&o->rwlock, CLOCK_MONOTONIC, &t));
    DO(pthread_rwlock_unlock(&o->rwlock));
}
static void wait_write(void)
{
    DO(pthread_rwlock_wrlock(&o->rwlock));
    DO(pthread_rwlock_unlock(&o->rwlock));
}
static void wait_write_timed(void)
{
    struct timespec t = later(CLOCK_REALTIME);
    DO(pthread_rwlock_timedwrlock(&o->rwlock, &t));
    DO(pthread_rwlock_unlock(&o->rwlock));
}
static void wait_write_clock(void)
{
    struct timespec t = later(CLOCK_MONOTONIC);
    DO(pthread_rwlock_clockwrlock(&o->rwlock, CLOCK_MONOTONIC, &t));
    DO(pthread_rwlock_unlock(&o->rwlock));
}
static void let_rwlock(void)
{
    DO(pthread_rwlock_unlock(&o->rwlock));
}

static void wait_barrier(void)
{
    int r = pthread_barrier_wait(&o->barrier);
    DO(r == PTHREAD_BARRIER_SERIAL_THREAD ? 0 : r);
}

static void wait_sem(void)
{
    DO(sem_wait(&o->sem));
}
static void wait_sem_timed(void)
{
    struct timespec t = later(CLOCK_REALTIME);
    DO(sem_timedwait(&o->sem, &t));
}
static void wait_sem_clock(void)
{
    struct timespec t = later(CLOCK_MONOTONIC);
    DO(sem_clockwait(&o->sem, CLOCK_MONOTONIC, &t));
}
static void try_sem(void)
{
    while (sem_trywait(&o->sem))
        atomic_fetch_add(&o->tries, 1);
}
static void let_tried_sem(void)
{
    let_it_try();
    DO(sem_post(&o->sem));
}
static void let_sem(void)
{
    DO(sem_post(&o->sem));
}
static void on_signal(int number)
{
    (void)number;
    sem_post(&o->sem);
}
static void let_sem_by_handler(void)
{
    signal(SIGUSR1, on_signal);
    raise(SIGUSR1);
}
static void wait_named(void)
{
    DO(sem_wait(named));
}
static void let_named(void)
{
    DO(sem_post(named));
}

static void hold_spin(void)
{
    DO(pthread_spin_lock(&o->spin));
}
static void wait_spin(void)
{
    DO(pthread_spin_lock(&o->spin));
    DO(pthread_spin_unlock(&o->spin));
}
static void let_spin(void)
{
    DO(pthread_spin_unlock(&o->spin));
}

static void hold_mtx(void)
{
    DO(mtx_lock(&o->mtx));
}
static void wait_mtx(void)
{
    DO(mtx_lock(&o->mtx));
    DO(mtx_unlock(&o->mtx));
}
static void wait_mtx_timed(void)
{
    struct timespec t = later(CLOCK_REALTIME);
    DO(mtx_timedlock(&o->mtx, &t));
    DO(mtx_unlock(&o->mtx));
}
static void let_mtx(void)
{
    DO(mtx_unlock(&o->mtx));
}
static void wait_cnd(void)
{
    DO(mtx_lock(&o->mtx));
    while (!atomic_load(&o->ready))
        DO(cnd_wait(&o->cnd, &o->mtx));
    DO(mtx_unlock(&o->mtx));
}
static void wait_cnd_timed(void)
{
    struct timespec t = later(CLOCK_REALTIME);
    DO(mtx_lock(&o->mtx));
    while (!atomic_load(&o->ready))
        DO(cnd_timedwait(&o->cnd, &o->mtx, &t));
    DO(mtx_unlock(&o->mtx));
}
static void let_cnd(void)
{
    atomic_store(&o->ready, 1);
    DO(cnd_signal(&o->cnd));
}
static void let_cnd_all(void)
{
    atomic_store(&o->ready, 1);
    DO(cnd_broadcast(&o->cnd));
}

static FILE *stream;
static void stream_begin(void)
{
    DO((stream = tmpfile()) == NULL);
}
static void hold_stream(void)
{
    flockfile(stream);
    flockfile(stream); /* again: only the last unlock lets go */
}
static void wait_stream(void)
{
    flockfile(stream);
    funlockfile(stream);
}
static void try_stream(void)
{
    while (ftrylockfile(stream))
        atomic_fetch_add(&o->tries, 1);
    funlockfile(stream);
}
static void let_stream(void)
{
    funlockfile(stream);
    funlockfile(stream);
}
static void let_tried_stream(void)
{
    let_it_try();
    let_stream();
}

static void initialise(void)
{
    atomic_store(&o->ready, 1);
    let_it_wait(true);
}
static void wait_once(void)
{
    while (!atomic_load(&o->ready))
        usleep(1000);
    here();
    DO(pthread_once(&once, initialise));
}
static void let_once(void)
{
    DO(pthread_once(&once, initialise));
}
static void wait_once11(void)
{
    while (!atomic_load(&o->ready))
        usleep(1000);
    here();
    call_once(&once11, initialise);
}
static void let_once11(void)
{
    call_once(&once11, initialise);
}

static void wait_futex(void)
{
    while (!atomic_load(&o->flag))
        syscall(SYS_futex, &o->flag,
                shared ? FUTEX_WAIT : FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 0, NULL,
                NULL, 0);
}
static void let_futex(void)
{
    atomic_store(&o->flag, 1);
    syscall(SYS_futex, &o->flag,
            shared ? FUTEX_WAKE : FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1, NULL,
            NULL, 0);
}

/* HOLDER: who holds it looks whether the waiter sleeps, and lets it go: another
 * who looked could come when it has ended. */
enum { SLEEPS, SPINS, HOLDER, ONCE };
static const struct one {
    const char *name;
    void (*begin)(void), (*hold)(void), (*wait)(void), (*let)(void);
    int how;
} cases[] = {
    {"mutex", normal, hold_mutex, wait_mutex, let_mutex, SLEEPS},
    {"mutex-recursive", recursive, hold_twice, wait_mutex, let_twice, SLEEPS},
    {"mutex-errorcheck", errorcheck, hold_mutex, wait_mutex, let_mutex, SLEEPS},
    {"mutex-adaptive", adaptive, hold_mutex, wait_mutex, let_mutex, SLEEPS},
    {"mutex-robust", robust, hold_mutex, wait_mutex, let_mutex, SLEEPS},
    {"mutex-dead", robust, hold_and_die, wait_dead, let_die, HOLDER},
    {"mutex-inherit", inherit, hold_mutex, wait_mutex, let_mutex, SLEEPS},
    {"mutex-timed", normal, hold_mutex, wait_timed, let_mutex, SLEEPS},
    {"mutex-clock", normal, hold_mutex, wait_clock, let_mutex, SLEEPS},
    {"mutex-try", normal, hold_mutex, try_mutex, let_tried, SPINS},
    {"mutex-try-slowly", normal, hold_mutex, try_slowly, let_tried, SLEEPS},
    {"mtx", mtx_begin, hold_mtx, wait_mtx, let_mtx, SLEEPS},
    {"mtx-recursive", mtx_begin_recursive, hold_mtx, wait_mtx, let_mtx, SLEEPS},
    {"mtx-timed", mtx_begin, hold_mtx, wait_mtx_timed, let_mtx, SLEEPS},
    {"cond", cond_init, nothing, wait_cond, let_cond, SLEEPS},
    {"cond-timed", cond_init, nothing, wait_cond_timed, let_cond, SLEEPS},
    {"cond-clock", cond_init, nothing, wait_cond_clock, let_cond, SLEEPS},
    {"cond-broadcast", cond_init, nothing, wait_cond, let_all, SLEEPS},
    {"cond-late", cond_init, nothing, wait_cond, let_late, SLEEPS},
    {"cond-lets", cond_init, hold_mutex, wait_and_signal, let_by_wait, SLEEPS},
    {"cnd", cnd_begin, nothing, wait_cnd, let_cnd, SLEEPS},
    {"cnd-timed", cnd_begin, nothing, wait_cnd_timed, let_cnd, SLEEPS},
    {"cnd-broadcast", cnd_begin, nothing, wait_cnd, let_cnd_all, SLEEPS},
    {"read", rwlock_init, hold_write, wait_read, let_rwlock, SLEEPS},
    {"read-timed", rwlock_init, hold_write, wait_read_timed, let_rwlock,
     SLEEPS},
    {"read-clock", rwlock_init, hold_write, wait_read_clock, let_rwlock,
     SLEEPS},
    {"write", rwlock_init, hold_read, wait_write, let_rwlock, SLEEPS},
    {"write-write", rwlock_init, hold_write, wait_write, let_rwlock, SLEEPS},
    {"write-timed", rwlock_init, hold_read, wait_write_timed, let_rwlock,
     SLEEPS},
    {"write-clock", rwlock_init, hold_read, wait_write_clock, let_rwlock,
     SLEEPS},
    {"sem", sem_begin, nothing, wait_sem, let_sem, SLEEPS},
    {"sem-timed", sem_begin, nothing, wait_sem_timed, let_sem, SLEEPS},
    {"sem-clock", sem_begin, nothing, wait_sem_clock, let_sem, SLEEPS},
    {"sem-handler", sem_begin, nothing, wait_sem, let_sem_by_handler, SLEEPS},
    {"sem-named", named_begin, nothing, wait_named, let_named, SLEEPS},
    {"sem-try", sem_begin, nothing, try_sem, let_tried_sem, SPINS},
    {"barrier", barrier_init, nothing, wait_barrier, wait_barrier, SLEEPS},
    {"spin", spin_begin, hold_spin, wait_spin, let_spin, SPINS},
    {"once", nothing, nothing, wait_once, let_once, ONCE},
    {"once11", nothing, nothing, wait_once11, let_once11, ONCE},
    {"stream", stream_begin, hold_stream, wait_stream, let_stream, SLEEPS},
    {"stream-try", stream_begin, hold_stream, try_stream, let_tried_stream,
     SPINS},
    {"futex", nothing, nothing, wait_futex, let_futex, SLEEPS},
};

static const struct one *now;

static void *waiter(void *unused)
{
    if (now->how != ONCE)
        here();
    now->wait();
    return unused;
}

static int run_case(const char *name)
{
    shared = strncmp(name, "process-", 8) == 0;
    name += shared ? 8 : 0;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        if (strcmp(cases[i].name, name) == 0)
            now = &cases[i];
    if (!now)
        return 2;
    now->begin();
    now->hold();
    pthread_t t;
    pid_t child = 0;
    if (shared && (child = fork()) == 0) {
        waiter(NULL);
        fflush(stdout);
        _exit(0);
    }
    if (!shared)
        DO(pthread_create(&t, NULL, waiter, NULL));
    if (now->how == SLEEPS || now->how == SPINS)
        let_it_wait(now->how == SLEEPS);
    now->let();
    if (shared)
        DO(waitpid(child, NULL, 0) != child);
    else
        DO(pthread_join(t, NULL));
    return 0;
}

/* --- nobody waits --- */

static void *second(void *unused)
{
    return unused;
}

static int uncontended(void)
{
    struct timespec t = later(CLOCK_REALTIME);
    recursive();
    cond_init();
    rwlock_init();
    sem_begin();
    spin_begin();
    mtx_begin();
    stream_begin();
    for (int i = 0; i < 100000; i++) {
        pthread_mutex_lock(&o->mutex);
        pthread_cond_signal(&o->cond);
        pthread_mutex_unlock(&o->mutex);
        pthread_mutex_timedlock(&o->mutex, &t);
        pthread_mutex_unlock(&o->mutex);
        pthread_rwlock_rdlock(&o->rwlock);
        pthread_rwlock_unlock(&o->rwlock);
        pthread_rwlock_wrlock(&o->rwlock);
        pthread_rwlock_unlock(&o->rwlock);
        sem_post(&o->sem);
        sem_wait(&o->sem);
        pthread_spin_lock(&o->spin);
        pthread_spin_unlock(&o->spin);
        mtx_lock(&o->mtx);
        mtx_unlock(&o->mtx);
        pthread_once(&once, nothing);
        flockfile(stream);
        ftrylockfile(stream);
        funlockfile(stream);
        funlockfile(stream);
    }
    return 0;
}

/* One thread alone, whose locks are not recorded. */
static int alone(void)
{
    stream_begin();
    flockfile(stream);
    funlockfile(stream);
    return ftrylockfile(stream) || (funlockfile(stream), 0);
}

/* There was a second thread: the C library spares no atomic operations. */
static int not_alone(void)
{
    pthread_t t;
    DO(pthread_create(&t, NULL, second, NULL));
    DO(pthread_join(t, NULL));
    return uncontended();
}

/* One thread that nobody waits for, and that is not the only one. */
static void *takes_free(void *unused)
{
    struct timespec past = {0, 0}, t = later(CLOCK_REALTIME);
    for (int i = 0; i < 10; i++) {
        pthread_mutex_lock(&o->mutex);
        pthread_mutex_lock(&o->mutex); /* it is recursive: no other taking */
        pthread_mutex_unlock(&o->mutex);
        pthread_cond_timedwait(&o->cond, &o->mutex, &past);
        pthread_mutex_unlock(&o->mutex);
        pthread_mutex_timedlock(&o->mutex, &t);
        pthread_mutex_unlock(&o->mutex);
        pthread_mutex_trylock(&o->mutex);
        pthread_mutex_unlock(&o->mutex);
        mtx_lock(&o->mtx);
        mtx_unlock(&o->mtx);
        pthread_rwlock_rdlock(&o->rwlock);
        pthread_rwlock_unlock(&o->rwlock);
        pthread_rwlock_trywrlock(&o->rwlock);
        pthread_rwlock_unlock(&o->rwlock);
        sem_post(&o->sem);
        sem_wait(&o->sem);
        sem_post(&o->sem);
        sem_trywait(&o->sem);
        pthread_spin_lock(&o->spin);
        pthread_spin_unlock(&o->spin);
        pthread_spin_trylock(&o->spin);
        pthread_spin_unlock(&o->spin);
        flockfile(stream);
        flockfile(stream); /* no other taking either */
        funlockfile(stream);
        funlockfile(stream);
        ftrylockfile(stream);
        funlockfile(stream);
    }
    return unused;
}

static int free_ones(void)
{
    pthread_t thread;
    cond_init();
    recursive(); /* cond_init makes the mutex, too */
    rwlock_init();
    sem_begin();
    spin_begin();
    mtx_begin();
    stream_begin();
    return pthread_create(&thread, NULL, takes_free, NULL) ||
           pthread_join(thread, NULL);
}

/* --- many at once --- */

#define THREADS 4
#define ROUNDS 2000
static long sum;
static void *hammers(void *unused)
{
    for (int i = 0; i < ROUNDS; i++) {
        pthread_mutex_lock(&o->mutex);
        sum++;
        pthread_mutex_unlock(&o->mutex);
        if (i % 100 == 0)
            pthread_barrier_wait(&o->barrier);
    }
    return unused;
}
static int many(void)
{
    pthread_t t[THREADS];
    normal();
    pthread_barrier_init(&o->barrier, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&t[i], NULL, hammers, NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
    printf("%ld\n", sum);
    return 0;
}

/* Two threads hand the turn to each other: no arc may be missing. */
static sem_t turn[2];
static void *other_side(void *unused)
{
    for (int i = 0; i < 300; i++) {
        sem_wait(&turn[1]);
        sem_post(&turn[0]);
    }
    return unused;
}
static int turns(void)
{
    pthread_t t;
    sem_init(&turn[0], 0, 0);
    sem_init(&turn[1], 0, 0);
    pthread_create(&t, NULL, other_side, NULL);
    for (int i = 0; i < 300; i++) {
        sem_post(&turn[1]);
        sem_wait(&turn[0]);
    }
    pthread_join(t, NULL);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 2 || !begin())
        return 2;
    const char *name = argv[1];
    return strcmp(name, "uncontended") == 0 ? uncontended()
           : strcmp(name, "second") == 0    ? not_alone()
           : strcmp(name, "alone") == 0     ? alone()
           : strcmp(name, "free") == 0      ? free_ones()
           : strcmp(name, "many") == 0      ? many()
           : strcmp(name, "turns") == 0     ? turns()
                                            : run_case(name);
}
