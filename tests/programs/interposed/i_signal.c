/* i_signal CASE: handlers in all their forms, and who sends what to whom. What
 * is printed must not depend on who watches. */
/* The old calls are the point. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#pragma GCC diagnostic ignored "-Wrestrict"
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "asleep.h"

static volatile sig_atomic_t seen, count, sender, code, value, on_stack, masked;
static char *alternate;

static void plain(int sig)
{
    seen = sig;
    count++;
    sigset_t now;
    sigprocmask(SIG_BLOCK, NULL, &now);
    masked = sigismember(&now, sig) + 2 * sigismember(&now, SIGUSR2) +
             4 * sigismember(&now, SIGWINCH);
    errno = EDOM;
}
static void other(int sig)
{
    seen = -sig;
    count++;
}
static void info(int sig, siginfo_t *si, void *context)
{
    char here;
    seen = sig;
    count++;
    sender = si->si_pid == getpid() ? 1 : si->si_pid == getppid() ? 2 : 3;
    code = si->si_code;
    value = si->si_value.sival_int;
    on_stack = alternate && &here > alternate && &here < alternate + 65536;
    if (!context)
        abort();
}

static void show(const char *what)
{
    printf("%s: signal %d count %d mask %d", what, (int)seen, (int)count,
           (int)masked);
    printf(" code %d value %d stack %d\n", (int)code, (int)value,
           (int)on_stack);
    seen = count = masked = code = value = on_stack = 0;
}

static const char *name_of(const struct sigaction *a)
{
    return a->sa_handler == SIG_DFL   ? "default"
           : a->sa_handler == SIG_IGN ? "ignore"
           : a->sa_handler == plain   ? "plain"
           : a->sa_handler == other   ? "other"
           : a->sa_sigaction == info  ? "info"
                                      : "strange";
}

static void tell(int sig)
{
    struct sigaction a;
    memset(&a, 0x55, sizeof(a));
    printf("  %d %d:", sig, sigaction(sig, NULL, &a));
    printf(" %s flags %x mask", name_of(&a), (unsigned)a.sa_flags);
    for (int s = 1; s < NSIG; s++)
        if (sigismember(&a.sa_mask, s) == 1)
            printf(" %d", s);
    printf("\n");
}

static const char *old_name(void (*h)(int))
{
    struct sigaction a = {.sa_handler = h};
    return h == SIG_ERR ? "error" : h == SIG_HOLD ? "hold" : name_of(&a);
}

static void by_flags(void)
{
    static const int flags[] = {0,
                                SA_RESTART,
                                SA_SIGINFO,
                                SA_SIGINFO | SA_NODEFER,
                                (int)SA_RESETHAND,
                                SA_NODEFER,
                                SA_ONSTACK | SA_SIGINFO,
                                SA_ONSTACK,
                                SA_NOCLDSTOP | SA_SIGINFO};
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
        struct sigaction a = {.sa_flags = flags[i]}, old;
        if (flags[i] & SA_SIGINFO)
            a.sa_sigaction = info;
        else
            a.sa_handler = plain;
        sigaddset(&a.sa_mask, SIGUSR2);
        if (sigaction(SIGUSR1, &a, &old))
            printf("error %d\n", errno);
        printf("was %s %x\n", name_of(&old), (unsigned)old.sa_flags);
        tell(SIGUSR1);
        errno = 0;
        raise(SIGUSR1);
        printf("errno %d ", errno);
        show("raised");
        tell(SIGUSR1);
        union sigval v = {.sival_int = 42};
        if (!(flags[i] & (int)SA_RESETHAND))
            sigqueue(getpid(), SIGUSR1, v);
        show("queued");
    }
}

static void actions(void)
{
    alternate = mmap(NULL, 65536, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    stack_t st = {.ss_sp = alternate, .ss_size = 65536};
    sigaltstack(&st, NULL);
    by_flags();
    printf("signal %s\n", old_name(signal(SIGHUP, plain)));
    tell(SIGHUP);
    printf("signal %s\n", old_name(signal(SIGHUP, other)));
    raise(SIGHUP);
    show("signal");
    siginterrupt(SIGHUP, 1);
    tell(SIGHUP);
    printf("signal %s\n", old_name(signal(SIGHUP, plain)));
    tell(SIGHUP);
    siginterrupt(SIGHUP, 0);
    printf("signal %s\n", old_name(signal(SIGHUP, SIG_IGN)));
    tell(SIGHUP);
    raise(SIGHUP);
    show("ignored");
    printf("signal %s\n", old_name(signal(SIGHUP, SIG_DFL)));
    printf("sysv %s\n", old_name(sysv_signal(SIGTERM, plain)));
    tell(SIGTERM);
    raise(SIGTERM);
    show("sysv");
    tell(SIGTERM);
    printf("sigset %s\n", old_name(sigset(SIGINT, plain)));
    printf("sigset %s\n", old_name(sigset(SIGINT, SIG_HOLD)));
    printf("sigset %s\n", old_name(sigset(SIGINT, other)));
    tell(SIGINT);
    raise(SIGINT);
    show("sigset");
    printf("bad %d %d\n", sigaction(SIGKILL, NULL, NULL), errno);
    struct sigaction a = {.sa_handler = plain};
    printf("bad %d %d\n", sigaction(SIGKILL, &a, NULL), errno);
    printf("bad %d %d\n", sigaction(0, &a, NULL), errno);
    printf("bad %d %d\n", sigaction(65, &a, NULL), errno);
    printf("bad %d %d\n", sigaction(-3, &a, &a), errno);
    printf("bad %s %d\n", old_name(signal(SIGSTOP, plain)), errno);
    printf("bad %s %d\n", old_name(signal(100, plain)), errno);
    printf("bad %s\n", old_name(signal(SIGUSR2, SIG_ERR)));
    sigaction(SIGUSR2, &a, &a); /* old into new */
    printf("same place %s\n", name_of(&a));
    tell(SIGUSR2);
    /* what the kernel's own call tells */
    struct {
        void (*handler)(int);
        unsigned long flags, restorer, mask;
    } raw = {0};
    printf("raw %ld", syscall(SYS_rt_sigaction, SIGUSR2, NULL, &raw, 8));
    printf(" %s %lx\n", old_name(raw.handler), raw.flags & 0xffUL);
    fflush(NULL);
    pid_t pid = fork(); /* inherits */
    if (pid == 0) {
        tell(SIGUSR2);
        raise(SIGUSR2);
        show("child");
        fflush(NULL);
        _exit(0);
    }
    waitpid(pid, NULL, 0);
    pid = vfork(); /* its own table, our memory */
    if (pid == 0) {
        struct sigaction d = {.sa_handler = other};
        sigaction(SIGUSR2, &d, NULL);
        signal(SIGHUP, other);
        sigaction(SIGUSR2, NULL, &d);
        kill(getpid(), SIGUSR2);
        _exit(d.sa_handler == other && seen == -SIGUSR2 ? 7 : 8);
    }
    int status;
    waitpid(pid, &status, 0);
    printf("vfork child %d\n", WEXITSTATUS(status));
    seen = count = 0;
    tell(SIGUSR2);
    tell(SIGHUP);
    raise(SIGUSR2);
    show("parent");
    printf("%d\n", system("kill -USR1 $$; exit 3"));
    tell(SIGINT);
}

/* --- faults, jumps, many -------------------------------------------------- */

static sigjmp_buf back;
static void jump(int sig)
{
    siglongjmp(back, sig);
}
static void fault(int sig, siginfo_t *si, void *context)
{
    (void)context;
    siglongjmp(back, si->si_code > 0 ? sig : -1);
}

#define H(n)                                                                   \
    static void h##n(int sig)                                                  \
    {                                                                          \
        count += sig > 0 ? 0x##n : 0;                                          \
    }
#define H16(n)                                                                 \
    H(n##0)                                                                    \
    H(n##1)                                                                    \
    H(n##2)                                                                    \
    H(n##3)                                                                    \
    H(n##4)                                                                    \
    H(n##5)                                                                    \
    H(n##6)                                                                    \
    H(n##7)                                                                    \
    H(n##8)                                                                    \
    H(n##9)                                                                    \
    H(n##a)                                                                    \
    H(n##b)                                                                    \
    H(n##c)                                                                    \
    H(n##d)                                                                    \
    H(n##e)                                                                    \
    H(n##f)
#define R16(n)                                                                 \
    h##n##0, h##n##1, h##n##2, h##n##3, h##n##4, h##n##5, h##n##6, h##n##7,    \
        h##n##8, h##n##9, h##n##a, h##n##b, h##n##c, h##n##d, h##n##e, h##n##f
/* clang-format off */
H16(0) H16(1) H16(2) H16(3) H16(4) H16(5) H16(6) H16(7) H16(8) H16(9)
    /* clang-format on */
    static void (*const handlers[])(int) = {R16(0), R16(1), R16(2), R16(3),
                                            R16(4), R16(5), R16(6), R16(7),
                                            R16(8), R16(9)};

static void never(void)
{
    static int i;
    static char *page;
    signal(SIGUSR1, jump);
    for (i = 0; i < 3; i++)
        if (sigsetjmp(back, 1) == 0)
            raise(SIGUSR1);
        else
            printf("jumped\n");
    struct sigaction a = {.sa_flags = SA_SIGINFO}, now;
    a.sa_sigaction = fault;
    sigaction(SIGSEGV, &a, NULL);
    sigaction(SIGSEGV, NULL, &now);
    printf("fault handler %d\n", now.sa_sigaction == fault);
    page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int got = sigsetjmp(back, 1);
    if (got == 0)
        *(volatile char *)page = 1;
    printf("fault %d\n", got == SIGSEGV);
    size_t good = 0, n = sizeof(handlers) / sizeof(handlers[0]);
    for (size_t k = 0; k < n; k++) { /* more than there are stubs */
        void (*was)(int) = signal(SIGUSR2, handlers[k]);
        good += k == 0 || was == handlers[k - 1];
        raise(SIGUSR2);
    }
    printf("many %zu of %zu, %d\n", good, n, (int)count);
    fflush(NULL);
    signal(SIGALRM, _exit);
    raise(SIGALRM); /* ends here, with the signal's number */
}

/* --- senders and takers --------------------------------------------------- */

static int go[2];
static void started(void)
{
    char c = 1;
    if (write(go[1], &c, 1) != 1)
        _exit(9);
}
static void await(void)
{
    char c;
    while (read(go[0], &c, 1) != 1)
        ;
}

/* A child that waits in `how` for SIGUSR1 from us, and says who sent it. */
static void taker(int how)
{
    sigset_t set, none;
    siginfo_t si = {0};
    struct signalfd_siginfo sf = {0};
    struct sigaction a = {.sa_flags = SA_SIGINFO};
    a.sa_sigaction = info;
    sigemptyset(&none);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    sigaction(SIGUSR1, &a, NULL);
    int sig = 0, r = 0;
    int fd = signalfd(-1, &set, 0);
    started();
    switch (how) {
    case 0:
        r = sigsuspend(&none);
        si.si_pid = sender == 2 ? getppid() : 0;
        break;
    case 1:
        r = sigwait(&set, &sig);
        si.si_pid = getppid();
        break;
    case 2:
        r = sigwaitinfo(&set, &si) == SIGUSR1;
        break;
    case 3:
        r = sigwaitinfo(&set, NULL) == SIGUSR1;
        si.si_pid = getppid();
        break;
    default:
        r = (int)read(fd, &sf, sizeof(sf));
        si.si_pid = (pid_t)sf.ssi_pid;
        break;
    }
    printf("take %d: %d from parent %d\n", how, r, si.si_pid == getppid());
    fflush(NULL);
    _exit(0);
}

static void kills(void)
{
    if (pipe(go))
        exit(1);
    for (int how = 0; how < 5; how++) {
        fflush(NULL);
        pid_t pid = fork();
        if (pid == 0)
            taker(how);
        await();
        until_asleep(pid);
        usleep(2000);
        union sigval v = {.sival_int = how};
        int pidfd = how == 4 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
        int r = how == 0   ? kill(pid, SIGUSR1)
                : how == 1 ? sigqueue(pid, SIGUSR1, v)
                : how == 2 ? (int)syscall(SYS_tgkill, pid, pid, SIGUSR1)
                : how == 3 ? (int)syscall(SYS_kill, pid, SIGUSR1)
                           : (int)syscall(SYS_pidfd_send_signal, pidfd, SIGUSR1,
                                          NULL, 0);
        printf("kill %d: %d\n", how, r);
        waitpid(pid, NULL, 0);
    }
}

static int send_death(int how, pid_t pid)
{
    union sigval v = {.sival_int = how};
    return how == 0   ? kill(pid, SIGTERM)
           : how == 1 ? kill(-pid, SIGTERM)
           : how == 2 ? killpg(pid, SIGKILL)
           : how == 3 ? sigqueue(pid, SIGUSR2, v)
           : how == 4 ? (int)syscall(SYS_tgkill, pid, pid, SIGKILL)
                      : (int)syscall(SYS_pidfd_send_signal,
                                     syscall(SYS_pidfd_open, pid, 0), SIGKILL,
                                     NULL, 0);
}

/* A child ends another one by a signal, and we wait for the end of both. */
static void deaths(void)
{
    for (int how = 0; how < 6; how++) {
        pid_t victim = fork();
        if (victim == 0)
            for (setpgid(0, 0);;)
                how % 2 ? (int)sleep(1000) : pause();
        setpgid(victim, victim);
        pid_t killer = fork();
        if (killer == 0) {
            until_asleep(victim);
            usleep(2000);
            _exit(send_death(how, victim) != 0);
        }
        int status = 0, sent = 0;
        waitpid(victim, &status, 0);
        waitpid(killer, &sent, 0);
        printf("death %d: signal %d, sent %d\n", how, WTERMSIG(status), sent);
    }
}

static _Atomic long sleeps; /* thread id */
static void *sleeper(void *arg)
{
    (void)arg;
    sleeps = syscall(SYS_gettid);
    started();
    struct timespec ts = {60, 0};
    int r = nanosleep(&ts, NULL);
    printf("sleep %d %s\n", r, r < 0 ? strerror(errno) : "");
    return NULL;
}
static void threads(void)
{
    struct sigaction a = {.sa_handler = other};
    pthread_t t[2];
    if (pipe(go))
        exit(1);
    sigaction(SIGUSR1, &a, NULL);
    for (int i = 0; i < 2; i++) {
        pthread_create(&t[i], NULL, sleeper, NULL);
        await();
        until_asleep(sleeps);
        usleep(2000);
        pthread_kill(t[i], SIGUSR1);
        pthread_join(t[i], NULL);
    }
    raise(SIGUSR1);
    printf("%d handled\n", (int)count);
}

/* Computes, waits for a byte, or stops itself; a thread beside sleeps. */
static void *sleeps_on(void *arg)
{
    char c;
    sleeps = syscall(SYS_gettid);
    return read(*(int *)arg, &c, 1) < 0 ? arg : NULL;
}
static void stopped(int how, int from, const int aside[2])
{
    char c = 0;
    pthread_t t;
    int fd = aside[0];
    setpgid(0, 0);
    sleeps = 0;
    pthread_create(&t, NULL, sleeps_on, &fd);
    while (!sleeps)
        sched_yield();
    until_asleep(sleeps);
    started();
    if (how == 0) {
        struct timespec begin, now;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
        do
            clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
        while ((now.tv_sec - begin.tv_sec) * 1000000000L +
                   (now.tv_nsec - begin.tv_nsec) <
               20000000);
    } else if (how == 1) {
        if (read(from, &c, 1) != 1)
            exit(1);
    } else {
        raise(SIGSTOP);
    }
    if (write(aside[1], "x", 1) != 1)
        exit(1);
    pthread_join(t, NULL);
    _exit(5);
}
static void stops(void)
{
    int to[2], aside[2], status;
    siginfo_t si;
    if (pipe(go) || pipe(to) || pipe(aside))
        exit(1);
    for (int how = 0; how < 3; how++) {
        fflush(NULL);
        pid_t pid = fork();
        if (pid == 0)
            stopped(how, to[0], aside);
        await();
        if (how == 1)
            until_asleep(pid);
        usleep(2000);
        if (how != 2)
            kill(pid, SIGSTOP);
        if (how == 1) {
            memset(&si, 0, sizeof(si));
            int r = waitid(P_PID, (id_t)pid, &si, WSTOPPED);
            printf("waitid %d: %d %d\n", r, si.si_code == CLD_STOPPED,
                   si.si_status);
            if (write(to[1], "x", 1) != 1)
                exit(1);
        } else {
            pid_t r = waitpid(pid, &status, WUNTRACED);
            printf("stopped %d by %d\n", r == pid, WSTOPSIG(status));
        }
        usleep(50000);
        kill(how == 2 ? -pid : pid, SIGCONT);
        pid_t r = waitpid(pid, &status, WCONTINUED);
        if (r == pid && !WIFEXITED(status))
            r = waitpid(pid, &status, 0);
        printf("ended %d with %d\n", r == pid, WEXITSTATUS(status));
    }
}

static void on_child(int sig)
{
    int saved = errno, status;
    (void)sig;
    while (waitpid(-1, &status, WNOHANG) > 0)
        count++;
    errno = saved;
}
/* As an event loop of a server has it. */
static void children(void)
{
    sigset_t set, old;
    struct sigaction a = {.sa_handler = on_child, .sa_flags = SA_RESTART};
    sigaction(SIGCHLD, &a, NULL);
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, &old);
    for (int i = 0; i < 3; i++) {
        if (fork() == 0) {
            until_asleep(getppid());
            usleep(2000);
            _exit(0);
        }
        while (count == i)
            sigsuspend(&old);
    }
    printf("%d children\n", (int)count);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    setvbuf(stdout, NULL, _IOFBF, 65536);
    if (!strcmp(what, "actions"))
        actions();
    else if (!strcmp(what, "never"))
        never();
    else if (!strcmp(what, "kills"))
        kills();
    else if (!strcmp(what, "deaths"))
        deaths();
    else if (!strcmp(what, "threads"))
        threads();
    else if (!strcmp(what, "children"))
        children();
    else if (!strcmp(what, "stops"))
        stops();
    else
        return 2;
    return 0;
}
