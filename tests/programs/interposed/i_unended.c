/* i_unended WHAT: the main thread waits for 100 ms of a child's computing, of
 * which nothing says afterwards whose doing it was; then it computes for 50 ms
 * itself. `read`: the same with a byte that is read. `outside`: nobody in the
 * program ends the wait, but a SIGUSR1 that the test sends does. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "compute.h"

static int p[2];
static char dir[] = "/tmp/i_unended.XXXXXX";

static void nothing(int sig)
{
    (void)sig;
}

/* kill() by an instruction of its own, which no library of a recorder sees. */
static int unrecorded_kill(long pid, long sig)
{
#ifdef __x86_64__
    long r;
    __asm__ volatile("syscall"
                     : "=a"(r)
                     : "a"((long)SYS_kill), "D"(pid), "S"(sig)
                     : "rcx", "r11", "memory");
    return (int)r;
#else
    register long x8 __asm__("x8") = SYS_kill;
    register long x0 __asm__("x0") = pid;
    register long x1 __asm__("x1") = sig;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1) : "memory");
    return (int)x0;
#endif
}

/* A signal that does not say who sent it: what is in its siginfo is the
 * sender's affair. */
static int nameless_signal(void)
{
    siginfo_t info = {.si_signo = SIGUSR1, .si_code = SI_QUEUE};
    return (int)syscall(SYS_rt_sigqueueinfo, getppid(), SIGUSR1, &info);
}

/* What ends the wait; the child's last deed. */
static int child(const char *what)
{
    compute(100);
    if (strcmp(what, "read") == 0)
        return write(p[1], "x", 1) != 1;
    if (strcmp(what, "signalfd") == 0)
        return kill(getppid(), SIGUSR2);
    if (strcmp(what, "handler") == 0)
        return unrecorded_kill(getppid(), SIGUSR1);
    if (strcmp(what, "nameless") == 0)
        return nameless_signal();
    return rmdir(dir);
}

static int wait_for_it(const char *what, int fd)
{
    struct pollfd f = {.fd = fd, .events = POLLIN};
    char c;
    if (strcmp(what, "handler") == 0 || strcmp(what, "outside") == 0 ||
        strcmp(what, "nameless") == 0)
        return read(p[0], &c, 1) >= 0 || errno != EINTR;
    if (poll(&f, 1, -1) != 1)
        return 1;
    return strcmp(what, "read") == 0 && read(p[0], &c, 1) != 1;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    struct sigaction sa = {.sa_handler = nothing};
    sigset_t usr2;
    if (pipe(p))
        return 1;
    int fd = p[0];
    sigaction(SIGUSR1, &sa, NULL);
    sigemptyset(&usr2);
    sigaddset(&usr2, SIGUSR2);
    sigprocmask(SIG_BLOCK, &usr2, NULL);
    if (strcmp(what, "signalfd") == 0)
        fd = signalfd(-1, &usr2, 0);
    if (strcmp(what, "inotify") == 0) {
        if (!mkdtemp(dir))
            return 1;
        fd = inotify_init();
        inotify_add_watch(fd, dir, IN_DELETE_SELF);
    }
    if (strcmp(what, "outside") == 0) {
        puts("ready");
        fflush(stdout);
    } else if (fork() == 0) {
        _exit(child(what));
    }
    int r = wait_for_it(what, fd);
    compute(50);
    return r;
}
