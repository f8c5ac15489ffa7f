/* i_unended WHAT: the main thread waits for 100 ms of a child's computing, of
 * which nothing tells it afterwards whose doing it was; then it computes for 50
 * ms itself. `read`: the same with a byte that is read. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int p[2];
static char block[65536];

static void compute(int ms)
{
    struct timespec t, first;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &first);
    do
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    while ((t.tv_sec - first.tv_sec) * 1000 +
               (t.tv_nsec - first.tv_nsec) / 1000000 <
           ms);
}

static void nothing(int sig)
{
    (void)sig;
}

/* What ends the wait; the child's last deed. */
static int child(const char *what)
{
    compute(100);
    ssize_t n = 0;
    if (strcmp(what, "idle") == 0 || strcmp(what, "read") == 0)
        n = write(p[1], "x", 1);
    else if (strcmp(what, "room") == 0)
        n = read(p[0], block, sizeof(block));
    return n < 0;
}

static int wait_for_it(const char *what)
{
    struct pollfd f = {.fd = p[0], .events = POLLIN};
    if (strcmp(what, "room") == 0)
        f = (struct pollfd){.fd = p[1], .events = POLLOUT};
    if (strcmp(what, "no-child") == 0) {
        while (waitpid(-1, NULL, 0) >= 0)
            ;
        return errno != ECHILD;
    }
    if (strcmp(what, "handler") == 0)
        return read(p[0], block, 1) >= 0 || errno != EINTR;
    if (poll(&f, 1, -1) != 1)
        return 1;
    return strcmp(what, "read") == 0 && read(p[0], block, 1) != 1;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    struct sigaction sa = {.sa_handler = nothing};
    if (pipe(p))
        return 1;
    if (strcmp(what, "room") == 0 && write(p[1], block, sizeof(block)) < 0)
        return 1;
    if (strcmp(what, "no-child") == 0)
        signal(SIGCHLD, SIG_IGN);
    sigaction(SIGUSR1, &sa, NULL);
    if (strcmp(what, "handler") == 0) { /* somebody from outside sends it */
        puts("ready");
        fflush(stdout);
    } else if (fork() == 0) {
        _exit(child(what));
    }
    if (strcmp(what, "hang-up") == 0)
        close(p[1]);
    int r = wait_for_it(what);
    compute(50);
    return r;
}
