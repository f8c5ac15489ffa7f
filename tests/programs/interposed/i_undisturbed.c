/* What a program may notice of being sampled, if the agent is not careful. Run
 * bare and sampled it must print the same and end with 0.
 *
 *   i_undisturbed calls     a thread storms us with signals that look like
 *                           samples (33, SI_TIMER, the agent's mark; only if
 *                           IPS_RUN is set: bare, 33 ends the program) while
 *                           every call of signal(7)'s "never restarted" list
 *                           waits: none may say EINTR, none may be early or
 *                           much too late
 *   i_undisturbed alarm     as before, with a real signal in each call: every
 *                           one must say EINTR
 *   i_undisturbed busy MS   short waits and computing in turn, one timer
 *   i_undisturbed blocked MS  a thread with all signals blocked computes
 *   i_undisturbed sigwait   sigwait and signalfd on the full set, the masks and
 *                           handlers as the program sees them
 *   i_undisturbed setuid N  threads compute while seteuid goes to all of them
 *   i_undisturbed exec      execs itself with a sample pending (blocked by a
 *                           raw system call): it must not kill the new image
 *   i_undisturbed altstack  a thread with the smallest alternate stack there
 * is, and a handler that needs nearly all of a larger one i_undisturbed threads
 * N N threads one after the other and N at once
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#define SAMPLE_SIGNAL 33
#define SAMPLE_MARK 0x53706d61u
#define WAIT_MS 30

static int failures;
#define CHECK(what, good)                                                      \
    do {                                                                       \
        if (!(good)) {                                                         \
            printf("%s: %s (errno %d)\n", what, #good, errno);                 \
            failures++;                                                        \
        }                                                                      \
    } while (0)

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec ts;
    clock_gettime(clock, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static volatile uint64_t sink;
static void compute(uint64_t ms)
{
    uint64_t end = clock_ns(CLOCK_THREAD_CPUTIME_ID) + ms * 1000000u;
    while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < end)
        for (int i = 0; i < 10000; i++)
            sink += (uint64_t)i;
}

/* --- the storm ---------------------------------------------------------------
 */

static _Atomic int storming;
static pid_t main_tid;

static void *storm(void *arg)
{
    (void)arg;
    siginfo_t info;
    memset(&info, 0, sizeof(info));
    info.si_code = SI_TIMER;
    info.si_value.sival_ptr = (void *)(uintptr_t)SAMPLE_MARK;
    const struct timespec pause = {0, 500000};
    sigset_t all;
    sigfillset(&all); /* the real ones are the main thread's */
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    while (atomic_load(&storming)) {
        if (getenv("IPS_RUN"))
            syscall(SYS_rt_tgsigqueueinfo, getpid(), main_tid, SAMPLE_SIGNAL,
                    &info);
        nanosleep(&pause, NULL);
    }
    return NULL;
}

/* Each wait: 0 = the time was over (or what it waited for came), else errno.
 * `ms` to wait. */
static struct timespec in_ms(int ms)
{
    return (struct timespec){ms / 1000, ms % 1000 * 1000000l};
}
static int pipe_fd[2], epoll_fd, sem_id, msg_id;

static int of(int r)
{
    return r < 0 ? errno : 0;
}
static int w_poll(int ms)
{
    struct pollfd p = {pipe_fd[0], POLLIN, 0};
    return of(poll(&p, 1, ms));
}
static int w_ppoll(int ms)
{
    struct pollfd p = {pipe_fd[0], POLLIN, 0};
    struct timespec ts = in_ms(ms);
    sigset_t none;
    sigemptyset(&none);
    return of(ppoll(&p, 1, &ts, &none));
}
static int w_select(int ms)
{
    fd_set set;
    FD_ZERO(&set);
    FD_SET(pipe_fd[0], &set);
    struct timeval tv = {0, ms * 1000};
    return of(select(pipe_fd[0] + 1, &set, NULL, NULL, &tv));
}
static int w_pselect(int ms)
{
    fd_set set;
    FD_ZERO(&set);
    FD_SET(pipe_fd[0], &set);
    struct timespec ts = in_ms(ms);
    return of(pselect(pipe_fd[0] + 1, &set, NULL, NULL, &ts, NULL));
}
static int w_epoll(int ms)
{
    struct epoll_event e;
    return of(epoll_wait(epoll_fd, &e, 1, ms));
}
static int w_epoll_pwait(int ms)
{
    struct epoll_event e;
    return of(epoll_pwait(epoll_fd, &e, 1, ms, NULL));
}
static int w_epoll_pwait2(int ms)
{
    struct epoll_event e;
    struct timespec ts = in_ms(ms);
    return of(epoll_pwait2(epoll_fd, &e, 1, &ts, NULL));
}
static int w_nanosleep(int ms)
{
    struct timespec ts = in_ms(ms);
    return of(nanosleep(&ts, NULL));
}
static int w_clock_nanosleep(int ms)
{
    struct timespec ts = in_ms(ms);
    return clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, NULL);
}
static int w_clock_abstime(int ms)
{
    uint64_t t = clock_ns(CLOCK_MONOTONIC) + (uint64_t)ms * 1000000u;
    struct timespec ts = {(time_t)(t / 1000000000u), (long)(t % 1000000000u)};
    return clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
}
static int w_usleep(int ms)
{
    return of(usleep((useconds_t)ms * 1000));
}
static int w_thrd_sleep(int ms)
{
    struct timespec ts = in_ms(ms);
    return thrd_sleep(&ts, NULL) ? EINTR : 0;
}
static int w_sigtimedwait(int ms)
{
    sigset_t set;
    struct timespec ts = in_ms(ms);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    int e = of(sigtimedwait(&set, NULL, &ts));
    return e == EAGAIN ? 0 : e;
}
static int w_semtimedop(int ms)
{
    struct sembuf op = {0, -1, 0};
    struct timespec ts = in_ms(ms);
    int e = of(semtimedop(sem_id, &op, 1, &ts));
    return e == EAGAIN ? 0 : e;
}
static int w_sem_timedwait(int ms)
{
    static sem_t sem; /* 0 */
    uint64_t t = clock_ns(CLOCK_REALTIME) + (uint64_t)ms * 1000000u;
    struct timespec ts = {(time_t)(t / 1000000000u), (long)(t % 1000000000u)};
    int e = of(sem_timedwait(&sem, &ts));
    return e == ETIMEDOUT ? 0 : e;
}
#if defined(SYS_poll) && defined(SYS_epoll_wait) /* not on aarch64 */
static int w_syscall_poll(int ms)
{
    struct pollfd p = {pipe_fd[0], POLLIN, 0};
    return of((int)syscall(SYS_poll, &p, 1, ms));
}
static int w_syscall_epoll(int ms)
{
    struct epoll_event e;
    return of((int)syscall(SYS_epoll_wait, epoll_fd, &e, 1, ms));
}
#endif
static int w_syscall_nanosleep(int ms)
{
    struct timespec ts = in_ms(ms);
    return of((int)syscall(SYS_nanosleep, &ts, NULL));
}

static const struct {
    const char *name;
    int (*wait)(int ms);
} waits[] = {
    {"poll", w_poll},
    {"ppoll", w_ppoll},
    {"select", w_select},
    {"pselect", w_pselect},
    {"epoll_wait", w_epoll},
    {"epoll_pwait", w_epoll_pwait},
    {"epoll_pwait2", w_epoll_pwait2},
    {"nanosleep", w_nanosleep},
    {"clock_nanosleep", w_clock_nanosleep},
    {"clock_nanosleep abstime", w_clock_abstime},
    {"usleep", w_usleep},
    {"thrd_sleep", w_thrd_sleep},
    {"sigtimedwait", w_sigtimedwait},
    {"semtimedop", w_semtimedop},
    {"sem_timedwait", w_sem_timedwait},
#if defined(SYS_poll) && defined(SYS_epoll_wait)
    {"syscall poll", w_syscall_poll},
    {"syscall epoll_wait", w_syscall_epoll},
#endif
    {"syscall nanosleep", w_syscall_nanosleep},
};
#define WAITS (sizeof(waits) / sizeof(waits[0]))

static void prepare(void)
{
    struct epoll_event e = {.events = EPOLLIN};
    if (pipe(pipe_fd) < 0 || (epoll_fd = epoll_create1(0)) < 0 ||
        epoll_ctl(epoll_fd, EPOLL_CTL_ADD, pipe_fd[0], &e) < 0 ||
        (sem_id = semget(IPC_PRIVATE, 1, 0600)) < 0 ||
        (msg_id = msgget(IPC_PRIVATE, 0600)) < 0)
        exit(3);
}

static void *later_message(void *arg)
{
    struct {
        long type;
        char text[8];
    } m = {1, "x"};
    struct timespec ts = in_ms(WAIT_MS);
    (void)arg;
    nanosleep(&ts, NULL);
    msgsnd(msg_id, &m, 1, 0);
    return NULL;
}

static void calls(void)
{
    for (unsigned i = 0; i < WAITS; i++) {
        uint64_t start = clock_ns(CLOCK_MONOTONIC);
        int e = waits[i].wait(WAIT_MS);
        uint64_t ms = (clock_ns(CLOCK_MONOTONIC) - start) / 1000000u;
        errno = e;
        CHECK(waits[i].name, e == 0);
        CHECK(waits[i].name, ms >= WAIT_MS && ms < 5000);
    }
    struct {
        long type;
        char text[8];
    } m;
    pthread_t t;
    pthread_create(&t, NULL, later_message, NULL);
    CHECK("msgrcv", msgrcv(msg_id, &m, 8, 0, 0) == 1);
    pthread_join(t, NULL);
    CHECK("sleep", sleep(1) == 0);
}

static volatile sig_atomic_t alarms;
static void on_alarm(int sig)
{
    (void)sig;
    alarms++;
}

/* One shot a call: it must end that call, well before its ten seconds. */
static void alarm_calls(int sig, const char *what)
{
    struct sigaction action = {.sa_handler = on_alarm};
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = sig};
    const struct itimerspec soon = {.it_value = {0, 10000000}};
    timer_t timer;
    sigaction(sig, &action, NULL);
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) < 0)
        exit(3);
    for (unsigned i = 0; i < WAITS; i++) {
        alarms = 0;
        timer_settime(timer, 0, &soon, NULL);
        int e = waits[i].wait(10000);
        errno = e;
        if (e != EINTR || alarms != 1)
            printf("%s ", what);
        CHECK(waits[i].name, e == EINTR);
        CHECK(waits[i].name, alarms == 1);
    }
    alarms = 0;
    timer_settime(timer, 0, &soon, NULL);
    CHECK("pause", pause() == -1 && errno == EINTR && alarms == 1);
    timer_delete(timer);
}

static void stormed(int with_alarms)
{
    pthread_t t;
    main_tid = (pid_t)syscall(SYS_gettid);
    prepare();
    atomic_store(&storming, 1);
    pthread_create(&t, NULL, storm, NULL);
    if (!with_alarms) {
        calls();
    } else {
        alarm_calls(SIGALRM, "lower signal");
        alarm_calls(SIGRTMAX - 1, "higher signal");
    }
    atomic_store(&storming, 0);
    pthread_join(t, NULL);
    semctl(sem_id, 0, IPC_RMID);
    msgctl(msg_id, IPC_RMID, NULL);
}

/* --- the rest ------------------------------------------------------------- */

static void busy(uint64_t ms)
{
    uint64_t end = clock_ns(CLOCK_THREAD_CPUTIME_ID) + ms * 1000000u;
    prepare();
    while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < end)
        for (unsigned i = 0; i < WAITS; i++) {
            for (int k = 0; k < 100000; k++)
                sink += (uint64_t)k;
            int e = waits[i].wait(1);
            errno = e;
            CHECK(waits[i].name, e == 0);
        }
    semctl(sem_id, 0, IPC_RMID);
    msgctl(msg_id, IPC_RMID, NULL);
}

static void *blocked_thread(void *ms)
{
    sigset_t all, now;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    compute((uintptr_t)ms);
    pthread_sigmask(SIG_SETMASK, NULL, &now);
    for (int s = 1; s < 65; s++)
        CHECK("mask", sigismember(&all, s) == sigismember(&now, s) ||
                          s == SIGKILL || s == SIGSTOP);
    return NULL;
}

static void blocked(uint64_t ms)
{
    pthread_t t;
    pthread_create(&t, NULL, blocked_thread, (void *)(uintptr_t)ms);
    pthread_join(t, NULL);
}

static void *wait_thread(void *set)
{
    int sig = 0;
    compute(20);
    CHECK("sigwait", sigwait(set, &sig) == 0 && sig == SIGUSR1);
    return NULL;
}

static void wait_full(void)
{
    sigset_t all, pending;
    pthread_t t;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    pthread_create(&t, NULL, wait_thread, &all);
    compute(30);
    pthread_kill(t, SIGUSR1);
    pthread_join(t, NULL);
    int fd = signalfd(-1, &all, SFD_NONBLOCK);
    compute(30);
    struct signalfd_siginfo info;
    CHECK("signalfd", read(fd, &info, sizeof(info)) < 0 && errno == EAGAIN);
    sigpending(&pending);
    for (int s = 1; s < 65; s++) {
        struct sigaction a;
        CHECK("pending", sigismember(&pending, s) <= 0);
        if (sigaction(s, NULL, &a) == 0)
            CHECK("handler", a.sa_handler == SIG_DFL);
    }
}

static _Atomic int computing;
static void *compute_thread(void *arg)
{
    while (atomic_load(&computing))
        compute(1);
    return arg;
}

static void set_uids(int n)
{
    pthread_t t[8];
    atomic_store(&computing, 1);
    for (int i = 0; i < 8; i++)
        pthread_create(&t[i], NULL, compute_thread, NULL);
    for (int i = 0; i < n; i++)
        CHECK("setresuid", setresuid(getuid(), geteuid(), geteuid()) == 0);
    atomic_store(&computing, 0);
    for (int i = 0; i < 8; i++)
        pthread_join(t[i], NULL);
}

/* Past the agent, which would see to it that the new image is traced: there,
 * the default action of 33 ends the process. */
static void untraced_exec(char **argv, char **env)
{
#if defined(__x86_64__)
    long r = SYS_execve;
    const char *path = "/proc/self/exe";
    __asm__ volatile("syscall"
                     : "+a"(r)
                     : "D"(path), "S"(argv), "d"(env)
                     : "rcx", "r11", "memory");
#else
    execve("/proc/self/exe", argv, env);
#endif
}

static void pending_exec(char **argv)
{
    if (getenv("AGAIN")) {
        uint64_t none = 0;
        syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL, 8);
        puts("alive");
        return;
    }
    uint64_t all = ~(uint64_t)0, pending = 0;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, NULL, 8);
    compute(250);
    syscall(SYS_rt_sigpending, &pending, 8);
    if (getenv("IPS_RUN"))
        CHECK("pending", pending >> (SAMPLE_SIGNAL - 1) & 1);
    char again[] = "AGAIN=1";
    char *env[] = {again, NULL};
    untraced_exec(argv, env);
}

static void *small_alternate(void *arg)
{
    static char room[4096];
    stack_t ss = {.ss_sp = room, .ss_size = 2048 /* the kernel's minimum */};
    compute(20);
    CHECK("sigaltstack", sigaltstack(&ss, NULL) == 0);
    compute(60);
    return arg;
}

#define RESTORER 0x04000000 /* the C library adds it on x86 */
static char large[16384];
static void on_large(int sig)
{
    (void)sig;
    /* down to its last 2000 bytes: no frame of the kernel's fits */
    char here;
    size_t room = (size_t)((uintptr_t)&here - (uintptr_t)large) - 2000;
    volatile char *deep = __builtin_alloca(room);
    memset((void *)(uintptr_t)deep, 1, room);
    compute(60);
    sink += (uint64_t)deep[5];
}

static void alternate_stacks(void)
{
    pthread_t t;
    stack_t ss = {.ss_sp = large, .ss_size = sizeof(large)}, got;
    struct sigaction action = {.sa_handler = on_large, .sa_flags = SA_ONSTACK},
                     old;
    pthread_create(&t, NULL, small_alternate, NULL);
    pthread_join(t, NULL);
    CHECK("sigaltstack", sigaltstack(&ss, NULL) == 0);
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGUSR1, NULL, &old);
    CHECK("sigaction",
          old.sa_handler == on_large &&
              (old.sa_flags & 0xfffffff & ~RESTORER) == SA_ONSTACK &&
              !memcmp(&old.sa_mask, &action.sa_mask, 8));
    raise(SIGUSR1);
    CHECK("sigaltstack", sigaltstack(NULL, &got) == 0 && got.ss_sp == large &&
                             got.ss_flags == 0);
    compute(30);
}

static void *short_thread(void *arg)
{
    compute(2);
    return arg;
}

static void many_threads(int n)
{
    pthread_t t[64];
    pthread_attr_t tiny;
    pthread_attr_init(&tiny);
    pthread_attr_setstacksize(&tiny, (size_t)sysconf(_SC_THREAD_STACK_MIN));
    for (int i = 0; i < n; i++) {
        CHECK("create", !pthread_create(&t[0], NULL, short_thread, NULL));
        pthread_join(t[0], NULL);
    }
    for (int i = 0; i < n && i < 64; i++)
        CHECK("create",
              !pthread_create(&t[i], i % 2 ? &tiny : NULL, short_thread, NULL));
    for (int i = 0; i < n && i < 64; i++)
        pthread_join(t[i], NULL);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    int n = argc > 2 ? atoi(argv[2]) : 0;
    if (!strcmp(what, "calls"))
        stormed(0);
    else if (!strcmp(what, "alarm"))
        stormed(1);
    else if (!strcmp(what, "busy"))
        busy((uint64_t)n);
    else if (!strcmp(what, "blocked"))
        blocked((uint64_t)n);
    else if (!strcmp(what, "sigwait"))
        wait_full();
    else if (!strcmp(what, "setuid"))
        set_uids(n);
    else if (!strcmp(what, "exec"))
        pending_exec(argv);
    else if (!strcmp(what, "altstack"))
        alternate_stacks();
    else if (!strcmp(what, "threads"))
        many_threads(n);
    else
        return 2;
    printf("%s: %d failures\n", what, failures);
    return failures ? 1 : 0;
}
