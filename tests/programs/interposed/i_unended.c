/* i_unended WHAT: the main thread waits for 100 ms of a child's computing, of
 * which nothing says afterwards whose doing it was; then it computes for 50 ms
 * itself. `read`: the same with a byte that is read. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "compute.h"

static int p[2];
static char dir[] = "/tmp/i_unended.XXXXXX";

static void nothing(int sig)
{
    (void)sig;
}

/* What ends the wait; the child's last deed. */
static int child(const char *what)
{
    compute(100);
    if (strcmp(what, "read") == 0)
        return write(p[1], "x", 1) != 1;
    if (strcmp(what, "signalfd") == 0)
        return kill(getppid(), SIGUSR2);
    return rmdir(dir);
}

static int wait_for_it(const char *what, int fd)
{
    struct pollfd f = {.fd = fd, .events = POLLIN};
    char c;
    if (strcmp(what, "handler") == 0)
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
    if (strcmp(what, "handler") == 0) { /* somebody from outside sends it */
        puts("ready");
        fflush(stdout);
    } else if (fork() == 0) {
        _exit(child(what));
    }
    int r = wait_for_it(what, fd);
    compute(50);
    return r;
}
