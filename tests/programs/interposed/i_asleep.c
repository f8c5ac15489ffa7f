/*
 * Is a timer set that would wake a thread that sleeps? The main thread computes
 * for a while and then sleeps, in each of the calls below by turns; another
 * thread looks, whenever it finds it asleep, at the main thread's timers on
 * CLOCK_MONOTONIC (/proc/self/timers) and prints the call if one of them runs.
 *
 * usage: i_asleep ROUNDS
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SLEEP_MS 12

static pid_t main_tid;
static const char *volatile now_in; /* NULL: the main thread computes */
static _Atomic bool over;
static _Atomic long looks, wrong;

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec ts;
    clock_gettime(clock, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static volatile uint64_t sink;
static void compute(uint64_t us)
{
    uint64_t end = clock_ns(CLOCK_THREAD_CPUTIME_ID) + us * 1000u;
    while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < end)
        for (int i = 0; i < 1000; i++)
            sink += (uint64_t)i;
}

/* --- the one that looks ----------------------------------------------------
 */

/* How often the main thread has gone to sleep, if it is asleep and a signal of
 * the samples (33) would wake it; else 0. */
static unsigned long long asleep(void)
{
    char name[64], line[256];
    unsigned long long blocked = 0, switches = 0;
    bool sleeps = false;
    snprintf(name, sizeof(name), "/proc/self/task/%d/status", (int)main_tid);
    FILE *f = fopen(name, "re");
    while (f && fgets(line, sizeof(line), f)) {
        sleeps = sleeps || strncmp(line, "State:\tS", 8) == 0;
        if (strncmp(line, "SigBlk:", 7) == 0)
            blocked = strtoull(line + 7, NULL, 16);
        if (strncmp(line, "voluntary_ctxt_switches:", 24) == 0)
            switches = strtoull(line + 24, NULL, 10);
    }
    if (f)
        fclose(f);
    return sleeps && !(blocked >> 32 & 1) ? switches : 0;
}

static bool runs(int id)
{
    struct itimerspec left = {{0, 0}, {0, 0}};
    return syscall(SYS_timer_gettime, id, &left) == 0 &&
           (left.it_value.tv_sec || left.it_value.tv_nsec);
}

/* A timer of the main thread's on CLOCK_MONOTONIC that runs. */
static bool would_wake(void)
{
    char line[128], target[32];
    int id = -1, clock = -1;
    bool ours = false, found = false;
    FILE *f = fopen("/proc/self/timers", "re");
    snprintf(target, sizeof(target), "/tid.%d\n", (int)main_tid);
    while (f && fgets(line, sizeof(line), f)) {
        if (sscanf(line, "ID: %d", &id) == 1)
            ours = false;
        ours = ours || strstr(line, target);
        if (sscanf(line, "ClockID: %d", &clock) == 1 && clock == 1 && ours)
            found = found || runs(id);
    }
    if (f)
        fclose(f);
    return found;
}

static void *look(void *arg)
{
    while (!atomic_load(&over)) {
        const char *call = now_in;
        const struct timespec pause = {0, 1000000};
        unsigned long long sleep = call ? asleep() : 0;
        if (sleep) {
            bool bad = would_wake();
            /* It must be the same sleep. */
            if (asleep() == sleep && now_in == call) {
                atomic_fetch_add(&looks, 1);
                if (bad && atomic_fetch_add(&wrong, 1) < 20)
                    printf("asleep in %s with a timer that runs\n", call);
            }
        }
        nanosleep(&pause, NULL);
    }
    return arg;
}

/* --- the calls --------------------------------------------------------------
 */

static int pipe_fd[2], epoll_fd, sem_id, pair[2];
static sem_t sem;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static const struct timespec pause_ts = {0, SLEEP_MS * 1000000};

static struct timespec later(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    ts.tv_nsec += pause_ts.tv_nsec;
    if (ts.tv_nsec >= 1000000000) {
        ts.tv_nsec -= 1000000000;
        ts.tv_sec++;
    }
    return ts;
}

static void s_nanosleep(void)
{
    nanosleep(&pause_ts, NULL);
}
static void s_clock_nanosleep(void)
{
    clock_nanosleep(CLOCK_MONOTONIC, 0, &pause_ts, NULL);
}
static void s_poll(void)
{
    struct pollfd p = {pipe_fd[0], POLLIN, 0};
    poll(&p, 1, SLEEP_MS);
}
static void s_select(void)
{
    struct timeval tv = {0, SLEEP_MS * 1000};
    select(0, NULL, NULL, NULL, &tv);
}
static void s_epoll(void)
{
    struct epoll_event e;
    epoll_wait(epoll_fd, &e, 1, SLEEP_MS);
}
static void s_recv(void)
{
    char c;
    if (recv(pair[0], &c, 1, 0) != -1)
        exit(7);
}
static void s_sem(void)
{
    struct timespec until = later();
    sem_timedwait(&sem, &until);
}
static void s_cond(void)
{
    struct timespec until = later();
    pthread_mutex_lock(&lock);
    pthread_cond_timedwait(&cond, &lock, &until);
    pthread_mutex_unlock(&lock);
}
static void *holds(void *arg)
{
    sem_t *has = (sem_t *)arg;
    pthread_mutex_lock(&lock);
    sem_post(has);
    nanosleep(&pause_ts, NULL);
    pthread_mutex_unlock(&lock);
    return arg;
}
static void s_mutex(void)
{
    pthread_t t;
    sem_t has;
    sem_init(&has, 0, 0);
    pthread_create(&t, NULL, holds, &has);
    while (sem_wait(&has))
        ;
    pthread_mutex_lock(&lock);
    pthread_mutex_unlock(&lock);
    pthread_join(t, NULL);
}
static void *sleeps(void *arg)
{
    nanosleep(&pause_ts, NULL);
    return arg;
}
static void s_join(void)
{
    pthread_t t;
    pthread_create(&t, NULL, sleeps, NULL);
    pthread_join(t, NULL);
}
static void s_wait(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        nanosleep(&pause_ts, NULL);
        _exit(0);
    }
    waitpid(pid, NULL, 0);
}
static void s_sigtimedwait(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    sigtimedwait(&set, NULL, &pause_ts);
}
static void s_semtimedop(void)
{
    struct sembuf take = {0, -1, 0};
    semtimedop(sem_id, &take, 1, &pause_ts);
}
static void s_futex(void)
{
    static uint32_t word;
    syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &pause_ts, NULL, 0);
}
static void s_syscall(void)
{
    syscall(SYS_nanosleep, &pause_ts, NULL);
}
static void s_system(void)
{
    if (system("sleep 0.01"))
        exit(7);
}
/* The C library's own reads and writes, and its wait for a popened command. */
static void s_getc(void)
{
    FILE *f = popen("sleep 0.02; echo", "r");
    compute(4000);
    if (!f || getc(f) != '\n')
        exit(7);
    now_in = NULL;
    pclose(f);
}
static void s_fwrite(void)
{
    static char much[200000];
    FILE *f = popen("sleep 0.02; cat >/dev/null", "w");
    compute(4000);
    if (!f || fwrite(much, sizeof(much), 1, f) != 1)
        exit(7);
    now_in = NULL;
    pclose(f);
}
static void s_pclose(void)
{
    now_in = NULL;
    FILE *f = popen("exec sleep 0.02 >&-", "r");
    compute(4000);
    now_in = "pclose";
    if (!f || pclose(f) == -1)
        exit(7);
}
static void *holds_stdin(void *arg)
{
    sem_t *has = (sem_t *)arg;
    flockfile(stdin);
    sem_post(has);
    nanosleep(&pause_ts, NULL);
    funlockfile(stdin);
    return arg;
}
static void s_flockfile(void)
{
    pthread_t t;
    sem_t has;
    sem_init(&has, 0, 0);
    pthread_create(&t, NULL, holds_stdin, &has);
    while (sem_wait(&has))
        ;
    flockfile(stdin);
    funlockfile(stdin);
    pthread_join(t, NULL);
}
static void alarmed(int sig)
{
    const struct pollfd none = {-1, 0, 0};
    struct pollfd p = none;
    int saved = errno;
    (void)sig;
    compute(4000);
    poll(&p, 1, 0);
    compute(4000);
    errno = saved;
}
/* A read that a handler interrupts, which computes and makes calls, and that
 * the kernel then makes again. */
static void s_read_restarted(void)
{
    const struct itimerval soon = {{0, 0}, {0, 4000}};
    char c;
    pid_t pid = fork();
    if (pid == 0) {
        const struct timespec long_ts = {0, 40000000};
        nanosleep(&long_ts, NULL);
        _exit(write(pipe_fd[1], "x", 1) != 1);
    }
    setitimer(ITIMER_REAL, &soon, NULL);
    if (read(pipe_fd[0], &c, 1) != 1)
        exit(7);
    waitpid(pid, NULL, 0);
}

#define CALL(name)                                                             \
    {                                                                          \
#name, s_##name                                                        \
    }
static const struct {
    const char *name;
    void (*sleep)(void);
} calls[] = {
    CALL(nanosleep),
    CALL(clock_nanosleep),
    CALL(poll),
    CALL(select),
    CALL(epoll),
    CALL(recv),
    CALL(sem),
    CALL(cond),
    CALL(mutex),
    CALL(join),
    CALL(wait),
    CALL(sigtimedwait),
    CALL(semtimedop),
    CALL(futex),
    CALL(syscall),
    CALL(system),
    CALL(getc),
    CALL(fwrite),
    CALL(pclose),
    CALL(flockfile),
    CALL(read_restarted),
};
#define CALLS (sizeof(calls) / sizeof(calls[0]))

int main(int argc, char **argv)
{
    const struct timeval tv = {0, SLEEP_MS * 1000};
    struct sigaction act = {.sa_handler = alarmed, .sa_flags = SA_RESTART};
    pthread_t t;
    sigset_t set;
    unsigned seed = 1;
    main_tid = (pid_t)syscall(SYS_gettid);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    sigaddset(&set, SIGALRM); /* that is the main thread's */
    epoll_fd = epoll_create1(0);
    sem_id = semget(IPC_PRIVATE, 1, 0600 | IPC_CREAT);
    if (pipe(pipe_fd) || socketpair(AF_UNIX, SOCK_STREAM, 0, pair) ||
        epoll_fd < 0 || sem_id < 0 || sem_init(&sem, 0, 0) ||
        setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)) ||
        sigaction(SIGALRM, &act, NULL))
        return 8;
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    pthread_create(&t, NULL, look, NULL);
    sigdelset(&set, SIGUSR2);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    long rounds = argc > 1 ? atol(argv[1]) : 1;
    for (long i = 0; i < rounds * (long)CALLS; i++) {
        compute((uint64_t)(rand_r(&seed) % 5000));
        now_in = calls[i % (long)CALLS].name;
        calls[i % (long)CALLS].sleep();
        now_in = NULL;
    }
    atomic_store(&over, true);
    pthread_join(t, NULL);
    semctl(sem_id, 0, IPC_RMID);
    printf("%s\n", atomic_load(&wrong) ? "wrong" : "right");
    fprintf(stderr, "%ld looks, %ld wrong\n", atomic_load(&looks),
            atomic_load(&wrong));
    return atomic_load(&wrong) ? 1 : 0;
}
