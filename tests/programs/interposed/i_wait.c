/* i_wait CASE: waiting, and signals that come in between. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#include "asleep.h"

static char buf[100];
static int p[2];

static void writer(void) /* a child that writes 5 bytes in a while */
{
    if (pipe(p))
        exit(1);
    if (fork() == 0) {
        until_asleep(getppid());
        usleep(20000);
        _exit(write(p[1], buf, 5) != 5);
    }
}

static void ready(void)
{
    writer();
    struct pollfd pfd = {p[0], POLLIN, 0};
    printf("no %d\n", poll(&pfd, 1, 0));
    printf("poll %d\n", poll(&pfd, 1, 60000));
    printf("read %zd\n", read(p[0], buf, sizeof(buf)));
    writer();
    fd_set set;
    FD_ZERO(&set);
    FD_SET(p[0], &set);
    printf("select %d\n", select(p[0] + 1, &set, NULL, NULL, NULL));
    printf("read %zd\n", read(p[0], buf, sizeof(buf)));
    writer();
    int ep = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 12345};
    epoll_ctl(ep, EPOLL_CTL_ADD, p[0], &event);
    printf("epoll %d\n", epoll_wait(ep, &event, 1, 60000));
    printf("read %zd\n", read(p[0], buf, sizeof(buf)));
    while (wait(NULL) > 0)
        ;
}

static void special(void)
{
    uint64_t value = 0;
    int e = eventfd(0, 0);
    eventfd_write(e, 3);
    printf("eventfd %d", eventfd_read(e, &value));
    printf(" %d\n", (int)value);
    int i = inotify_init();
    inotify_add_watch(i, ".", IN_OPEN);
    close(open(".", O_RDONLY));
    printf("inotify %d\n", read(i, buf, sizeof(buf)) > 0);
    close(i);
    int t = timerfd_create(CLOCK_MONOTONIC, 0);
    struct itimerspec when = {.it_value = {0, 10000000}};
    timerfd_settime(t, 0, &when, NULL);
    printf("timerfd %zd\n", read(t, &value, sizeof(value)));
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    int s = signalfd(-1, &set, 0);
    struct signalfd_siginfo info;
    raise(SIGUSR1);
    printf("signalfd %zd\n", read(s, &info, sizeof(info)));
    raise(SIGUSR1);
    int sig = 0;
    printf("sigwait %d", sigwait(&set, &sig));
    printf(" %d\n", sig == SIGUSR1);
    struct timespec ts = {0, 10000000};
    printf("sigtimedwait %d", sigtimedwait(&set, NULL, &ts));
    printf(" %s\n", strerror(errno));
    printf("nanosleep %d\n", nanosleep(&ts, NULL));
    printf("clock_nanosleep %d\n",
           clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, NULL));
    printf("usleep %d\n", usleep(10000));
    printf("sleep %u\n", sleep(0));
}

static volatile sig_atomic_t handled;
static sigjmp_buf back;

static void on_write(int sig) /* records while main may be recording */
{
    (void)sig;
    int saved = errno;
    if (write(p[1], "h", 1) == 1)
        handled++;
    errno = saved;
}
static void on_jump(int sig)
{
    (void)sig;
    handled++;
    siglongjmp(back, 1);
}

static void handler(void)
{
    struct itimerval tick = {{0, 200}, {0, 200}}, off = {{0, 0}, {0, 0}};
    struct sigaction sa = {.sa_handler = on_write, .sa_flags = SA_RESTART};
    if (pipe(p))
        exit(1);
    sigaction(SIGALRM, &sa, NULL);
    setitimer(ITIMER_REAL, &tick, NULL);
    long mine = 0, got = 0;
    while (handled < 200) {
        if (write(p[1], buf, 7) == 7)
            mine += 7;
        sigset_t set, old; /* what is there, all of it */
        sigemptyset(&set);
        sigaddset(&set, SIGALRM);
        sigprocmask(SIG_BLOCK, &set, &old);
        long want = mine + handled - got;
        char in[200];
        while (want > 0) {
            ssize_t n = read(p[0], in, sizeof(in));
            if (n <= 0)
                exit(1);
            got += n;
            want -= n;
        }
        sigprocmask(SIG_SETMASK, &old, NULL);
    }
    setitimer(ITIMER_REAL, &off, NULL);
    close(p[1]);
    ssize_t n;
    while ((n = read(p[0], buf, sizeof(buf))) > 0)
        got += n;
    printf("all bytes %d\n", got == mine + handled);
}

static void jump(void)
{
    struct itimerval tick = {{0, 0}, {0, 500}};
    struct sigaction sa = {.sa_handler = on_jump};
    char in[100];
    sigaction(SIGALRM, &sa, NULL);
    if (pipe(p))
        exit(1);
    while (handled < 100) {
        if (sigsetjmp(back, 1) == 0) {
            setitimer(ITIMER_REAL, &tick, NULL);
            for (;;) /* out of a wrapper, wherever it is; or a read */
                if (write(p[1], buf, 7) != 7 || read(p[0], in, 7) < 0 ||
                    (handled % 2 && read(p[0], in, 100) < 0))
                    exit(1);
        }
    }
    printf("jumped 100\n");
}

int __xpg_sigpause(int); /* sigpause, as X/Open has it */

static void interrupted(void)
{
    struct itimerval tick = {{0, 0}, {0, 10000}};
    struct sigaction sa = {.sa_handler = on_write};
    sigset_t none;
    char in[10];
    int q[2];
    sigemptyset(&none);
    if (pipe(p) || pipe(q))
        exit(1);
    sigaction(SIGALRM, &sa, NULL);
    setitimer(ITIMER_REAL, &tick, NULL);
    printf("read %zd", read(q[0], in, sizeof(in)));
    printf(" %s\n", strerror(errno));
    setitimer(ITIMER_REAL, &tick, NULL);
    printf("pause %d", pause());
    printf(" %s\n", strerror(errno));
    setitimer(ITIMER_REAL, &tick, NULL);
    printf("sigsuspend %d", sigsuspend(&none));
    printf(" %s\n", strerror(errno));
    setitimer(ITIMER_REAL, &tick, NULL);
    printf("sigpause %d", __xpg_sigpause(SIGALRM));
    printf(" %s\n", strerror(errno));
}

/* Says whether the call succeeded, and which file is there now. */
static void made(const char *call, bool done, const char *path)
{
    struct stat st = {0};
    struct timespec none = {0, 0};
    nanosleep(&none, NULL); /* a record between two calls */
    if (!done || lstat(path, &st))
        exit(1);
    fprintf(stderr, "%s\n", call);
}

static void makes(void)
{
    char dir[] = "/tmp/i_wait.XXXXXX",
         temporary[4][20] = {"t.XXXXXX", "u.XXXXXX", "v.XXXXXX.s",
                             "w.XXXXXX.s"};
    made("mkdtemp", mkdtemp(dir) != NULL, dir);
    if (chdir(dir))
        exit(1);
    made("creat", creat("a", 0600) >= 0, "a");
    made("mkfifo", mkfifo("b", 0600) == 0, "b");
    made("mkfifoat", mkfifoat(AT_FDCWD, "c", 0600) == 0, "c");
    made("mkdir", mkdir("d", 0700) == 0, "d");
    made("mkdirat", mkdirat(AT_FDCWD, "e", 0700) == 0, "e");
    made("symlink", symlink("a", "f") == 0, "f");
    made("symlinkat", symlinkat("a", AT_FDCWD, "g") == 0, "g");
    made("link", link("a", "h") == 0, "h");
    made("linkat", linkat(AT_FDCWD, "a", AT_FDCWD, "i", 0) == 0, "i");
    made("mknod", mknod("j", S_IFREG | 0600, 0) == 0, "j");
    made("mknodat", mknodat(AT_FDCWD, "k", S_IFREG | 0600, 0) == 0, "k");
    made("mkstemp", mkstemp(temporary[0]) >= 0, temporary[0]);
    made("mkostemp", mkostemp(temporary[1], 0) >= 0, temporary[1]);
    made("mkstemps", mkstemps(temporary[2], 2) >= 0, temporary[2]);
    made("mkostemps", mkostemps(temporary[3], 2, 0) >= 0, temporary[3]);
    made("open", open("l", O_CREAT | O_WRONLY, 0600) >= 0, "l");
    if (mkdir("d", 0700) == 0 || creat("d", 0600) >= 0 ||
        mkfifoat(AT_FDCWD, "c", 0600) == 0 || mkstemp(dir) >= 0 ||
        errno != EINVAL)
        exit(1);
    char remove[60];
    snprintf(remove, sizeof(remove), "rm -r %s", dir);
    printf("%d\n", system(remove));
}

/* A sleep that a signal ends. */
static void woken(void)
{
    struct itimerval tick = {{0, 0}, {0, 10000}};
    struct sigaction sa = {.sa_handler = on_write};
    struct timespec second = {1, 0};
    if (pipe(p))
        exit(1);
    sigaction(SIGALRM, &sa, NULL);
    setitimer(ITIMER_REAL, &tick, NULL);
    printf("thrd_sleep %d\n", thrd_sleep(&second, NULL));
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (!strcmp(what, "ready"))
        ready();
    else if (!strcmp(what, "special"))
        special();
    else if (!strcmp(what, "handler"))
        handler();
    else if (!strcmp(what, "jump"))
        jump();
    else if (!strcmp(what, "interrupted"))
        interrupted();
    else if (!strcmp(what, "makes"))
        makes();
    else if (!strcmp(what, "woken"))
        woken();
    else
        return 2;
    return 0;
}
