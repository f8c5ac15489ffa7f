/* i_matrix WAY ENDER CHANNEL WHERE [MS]: one cell of the table of waits.
 *
 * The main thread waits by WAY for an end of CHANNEL. The ender, in WHERE,
 * computes for MS ms (50) and ends that wait as ENDER says; then the main
 * thread computes for MS ms and reads nothing. So the longest path is 2 * MS.
 * Waits for a directory's events read them, as all who watch one do.
 * `i_matrix list`: one line for each cell that there is. `i_matrix compute MS`:
 * what the command does whose output wordexp waits for.
 *
 * Of WHERE `machine` there are two programs: the waiter says "PORT PID", and
 * the other is `i_matrix WAY ENDER tcp machine MS PORT PID`. The test's
 * machines have one kernel, so it can see there whether the waiter sleeps. */
#include <aio.h>
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <wordexp.h>

#include "asleep.h"
#include "compute.h"

static const char *way, *ender, *channel, *where, *program;
static long ms = 50;
static int mine, other; /* descriptors of the waiter and of the ender */
static pid_t waiter, child = -1;
static sigset_t usr1;
static char block[1 << 20];
static char dir[] = "/tmp/i_matrix.XXXXXX", file[64], file2[64], queue[64];

static bool is(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

static int fail(const char *what)
{
    perror(what);
    exit(9);
}

/* ---- channels ---- */

static int listener(struct sockaddr_in *a)
{
    socklen_t n = sizeof(*a);
    int l = socket(AF_INET, SOCK_STREAM, 0);
    *a = (struct sockaddr_in){.sin_family = AF_INET,
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (bind(l, (struct sockaddr *)a, n) || listen(l, 1) ||
        getsockname(l, (struct sockaddr *)a, &n))
        fail("listen");
    return l;
}

static int dial(const struct sockaddr_in *a)
{
    int s = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(s, (const struct sockaddr *)a, sizeof(*a)))
        fail("connect");
    return s;
}

static void tcp_pair(int p[2])
{
    struct sockaddr_in a;
    int l = listener(&a);
    p[1] = dial(&a);
    p[0] = accept(l, NULL, NULL);
    close(l);
}

static int accept_one(void)
{
    struct sockaddr_in a;
    int l = listener(&a);
    printf("%d %d\n", ntohs(a.sin_port), waiter);
    fflush(stdout);
    return accept(l, NULL, NULL);
}

/* A directory that is watched: `mine`; in it is the file that goes, or gets
 * another name. */
static void make_directory(void)
{
    if (!mkdtemp(dir))
        fail("mkdtemp");
    snprintf(file, sizeof(file), "%s/a", dir);
    snprintf(file2, sizeof(file2), "%s/b", dir);
    if (!is(ender, "create"))
        close(open(file, O_CREAT | O_RDWR, 0600));
    mine = inotify_init();
    other = -1;
    if (inotify_add_watch(mine, dir,
                          is(ender, "create")   ? IN_CREATE
                          : is(ender, "modify") ? IN_MODIFY
                          : is(ender, "remove") ? IN_DELETE
                                                : IN_MOVED_TO) < 0)
        fail("inotify_add_watch");
}

static void make_queue(void)
{
    struct mq_attr attr = {.mq_maxmsg = 1, .mq_msgsize = 8};
    snprintf(queue, sizeof(queue), "/i_matrix.%d", (int)getpid());
    mine = other = mq_open(queue, O_CREAT | O_RDWR, 0600, &attr);
    if (mine < 0)
        fail("mq_open");
    mq_unlink(queue);
}

static void make_channel(void)
{
    int p[2] = {-1, -1};
    if (is(channel, "directory")) {
        make_directory();
        return;
    }
    if (is(channel, "queue")) {
        make_queue();
        return;
    }
    if (is(channel, "pipe") && pipe(p))
        fail("pipe");
    if (is(channel, "unix") && socketpair(AF_UNIX, SOCK_STREAM, 0, p))
        fail("socketpair");
    if (is(channel, "tcp"))
        tcp_pair(p);
    if (is(channel, "eventfd"))
        p[0] = p[1] = eventfd(0, is(way, "read") ? 0 : EFD_NONBLOCK);
    bool writes = is(ender, "room") || is(ender, "reader-gone");
    if (is(way, "linger")) /* it has to wait for its peer's reads */
        setsockopt(p[0], SOL_SOCKET, SO_RCVBUF, &(int){4096}, sizeof(int));
    mine = p[writes && is(channel, "pipe")];
    other = p[!(writes && is(channel, "pipe"))];
}

/* Until no more goes in: then the wait is for room. */
static void fill(void)
{
    ssize_t n = 1;
    int flags = MSG_DONTWAIT;
    if (is(channel, "pipe")) {
        struct pollfd f = {.fd = mine, .events = POLLOUT};
        while (poll(&f, 1, 0) == 1)
            if (write(mine, block, 4096) != 4096)
                fail("write");
        return;
    }
    while (n > 0)
        n = send(mine, block, sizeof(block), flags);
}

/* ---- who ends it ---- */

static void drain(void)
{
    ssize_t n = 1;
    if (is(way, "linger")) { /* until all is through */
        while (recv(other, block, sizeof(block), 0) > 0)
            ;
        return;
    }
    if (is(channel, "pipe")) {
        struct pollfd f = {.fd = other, .events = POLLIN};
        while (poll(&f, 1, 0) == 1 && read(other, block, sizeof(block)) > 0)
            ;
        return;
    }
    while (n > 0)
        n = recv(other, block, sizeof(block), MSG_DONTWAIT);
}

static void change_directory(void)
{
    int fd = -1;
    if (is(ender, "rename"))
        (void)!rename(file, file2);
    else if (is(ender, "remove"))
        unlink(file);
    else
        fd = open(file, O_CREAT | O_RDWR, 0600);
    if (is(ender, "modify"))
        (void)!write(fd, "x", 1);
}

static void end_it(void)
{
    const struct linger reset = {1, 0};
    const uint64_t one = 1;
    compute(ms);
    until_asleep(waiter);
    if (is(ender, "byte"))
        (void)!write(other, "x", 1);
    else if (is(ender, "event"))
        (void)!write(other, &one, sizeof(one));
    else if (is(ender, "close") || is(ender, "reader-gone"))
        close(other);
    else if (is(ender, "shutdown"))
        shutdown(other, SHUT_WR);
    else if (is(ender, "own-shutdown"))
        shutdown(mine, SHUT_RDWR);
    else if (is(ender, "reset")) {
        setsockopt(other, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
        close(other);
    } else if (is(ender, "room")) {
        drain();
    } else if (is(ender, "kill")) {
        kill(waiter, SIGUSR1);
    } else if (is(ender, "message")) {
        mq_send(other, "x", 1, 0);
    } else if (is(channel, "directory")) {
        change_directory();
    }
}

static void *end_thread(void *unused)
{
    end_it();
    return unused;
}

/* A process that ends the wait by anything but its death goes on a while. */
static void begin_ender(pthread_t *t)
{
    if (is(where, "thread")) {
        if (pthread_create(t, NULL, end_thread, NULL))
            fail("pthread_create");
        return;
    }
    child = fork();
    if (child == 0) {
        if (mine != other)
            close(mine);
        end_it();
        if (!is(ender, "death") && !is(ender, "ignored"))
            pause();
        _exit(0);
    }
    if (mine != other)
        close(other);
}

/* ---- ways to wait ---- */

static int wait_select(int fd, bool writes)
{
    fd_set set, *rd = writes ? NULL : &set, *wr = writes ? &set : NULL;
    FD_ZERO(&set);
    FD_SET(fd, &set);
    return is(way, "select") ? select(fd + 1, rd, wr, NULL, NULL)
                             : pselect(fd + 1, rd, wr, NULL, NULL, NULL);
}

static int wait_epoll(int fd, bool writes)
{
    struct epoll_event e = {.events = is(ender, "reader-gone") ? 0
                                      : writes                 ? EPOLLOUT
                                                               : EPOLLIN};
    int ep = epoll_create1(0);
    if (is(way, "epoll-edge"))
        e.events |= EPOLLET;
    if (ep < 0 || epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e))
        fail("epoll_ctl");
    if (is(way, "epoll-nested")) {
        struct epoll_event in = {.events = EPOLLIN};
        int outer = epoll_create1(0);
        if (outer < 0 || epoll_ctl(outer, EPOLL_CTL_ADD, ep, &in) ||
            epoll_wait(outer, &in, 1, -1) != 1)
            fail("outer epoll");
    }
    return is(way, "epoll-pwait") ? epoll_pwait(ep, &e, 1, -1, NULL)
                                  : epoll_wait(ep, &e, 1, -1);
}

/* Children and signals. */
static int wait_apart(void)
{
    struct signalfd_siginfo info;
    siginfo_t i;
    int sig, fd;
    bool gone = is(ender, "ignored"); /* then there is none to wait for */
    if (is(way, "wait"))
        return (wait(NULL) < 0) == gone;
    if (is(way, "waitpid"))
        return (waitpid(child, NULL, 0) < 0) == gone;
    if (is(way, "waitid-look"))
        return (waitid(P_ALL, 0, &i, WEXITED | WNOWAIT) < 0) == gone;
    if (is(way, "sigwait"))
        return sigwait(&usr1, &sig) == 0;
    if (is(way, "pause") || is(way, "sigsuspend")) {
        sigset_t none;
        sigemptyset(&none);
        return (is(way, "pause") ? ppoll(NULL, 0, NULL, &none)
                                 : sigsuspend(&none)) < 0;
    }
    fd = signalfd(-1, &usr1, 0);
    if (is(way, "signalfd"))
        return read(fd, &info, sizeof(info)) == sizeof(info);
    return poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, -1);
}

static void on_signal(int sig)
{
    (void)sig;
}

/* A signal that the kernel sends when the descriptor is ready. Only while the
 * thread waits for it is it taken. */
static int wait_async(void)
{
    siginfo_t i;
    sigset_t none;
    sigemptyset(&none);
    if (is(way, "notify") || is(way, "notify-wait")) {
        struct sigevent e = {.sigev_notify = SIGEV_SIGNAL,
                             .sigev_signo = SIGUSR1};
        if (mq_notify(mine, &e))
            fail("mq_notify");
        /* One that fails leaves the first as it was. */
        if (mq_notify((mqd_t)-1, &e) == 0)
            fail("mq_notify of no queue");
    } else if (fcntl(mine, F_SETOWN, getpid()) ||
               (!is(way, "sigio-plain") && fcntl(mine, F_SETSIG, SIGUSR1)) ||
               fcntl(mine, F_SETFL, O_RDWR | O_ASYNC)) {
        fail("fcntl");
    }
    return strstr(way, "-wait") ? sigwaitinfo(&usr1, &i) : -sigsuspend(&none);
}

static int wait_aio(void)
{
    struct aiocb a = {.aio_fildes = mine, .aio_buf = block, .aio_nbytes = 1};
    struct aiocb *list = &a;
    const struct aiocb *const one[] = {&a};
    a.aio_lio_opcode = LIO_READ;
    if (is(way, "lio") ? lio_listio(LIO_WAIT, &list, 1, NULL)
                       : aio_read(&a) || aio_suspend(one, 1, NULL))
        fail("aio");
    return 1;
}

static int wait_tee(void)
{
    int p[2];
    return pipe(p) == 0 && tee(mine, p[1], 1, 0) >= 0;
}

static int wait_wordexp(void)
{
    char words[1000];
    wordexp_t result;
    snprintf(words, sizeof(words), "$(%s compute %ld)", program, ms);
    return wordexp(words, &result, 0) == 0;
}

static int wait_linger(void)
{
    const struct linger l = {1, 60};
    setsockopt(mine, SOL_SOCKET, SO_LINGER, &l, sizeof(l));
    return close(mine) == 0;
}

static int wait_watch(void)
{
    struct pollfd f = {.fd = mine, .events = POLLIN};
    char events[4096];
    if (is(way, "poll") && poll(&f, 1, -1) != 1)
        fail("poll");
    return read(mine, events, sizeof(events)) > 0;
}

static int wait_for_it(void)
{
    bool writes = is(ender, "room") || is(ender, "reader-gone");
    struct pollfd f = {.fd = mine, .events = writes ? POLLOUT : POLLIN};
    char c[8];
    if (is(ender, "reader-gone"))
        f.events = 0;
    if (is(channel, "directory"))
        return wait_watch();
    if (strncmp(way, "sigio", 5) == 0 || strncmp(way, "notify", 6) == 0)
        return wait_async();
    if (is(way, "aio") || is(way, "lio"))
        return wait_aio();
    if (is(way, "tee"))
        return wait_tee();
    if (is(way, "wordexp"))
        return wait_wordexp();
    if (is(way, "linger"))
        return wait_linger();
    if (is(way, "receive"))
        return (int)mq_receive(mine, c, sizeof(c), NULL);
    if (is(way, "poll"))
        return poll(&f, 1, -1);
    if (is(way, "ppoll"))
        return ppoll(&f, 1, NULL, NULL);
    if (strncmp(way, "epoll", 5) == 0)
        return wait_epoll(mine, writes);
    if (is(way, "peek"))
        return recv(mine, c, 1, MSG_PEEK) >= 0 || errno == ECONNRESET;
    if (is(way, "read"))
        return read(mine, c, sizeof(c)) >= 0 || errno == ECONNRESET;
    if (is(way, "write"))
        return write(mine, block, 65536) >= 0 || errno == EPIPE;
    if (is(channel, "child") || is(channel, "signal"))
        return wait_apart();
    return wait_select(mine, writes);
}

/* ---- the table ---- */

static const char *const ways[] = {
    "poll",        "ppoll",       "select",       "pselect",       "epoll",
    "epoll-pwait", "epoll-edge",  "epoll-nested", "peek",          "read",
    "write",       "wait",        "waitpid",      "waitid-look",   "sigwait",
    "pause",       "sigsuspend",  "signalfd",     "poll-signalfd", "sigio",
    "sigio-wait",  "sigio-plain", "aio",          "linger",        "receive",
    "notify",      "notify-wait", "lio",          "tee",           "wordexp"};
static const char *const enders[] = {
    "byte",   "event",       "close",  "death",   "shutdown", "own-shutdown",
    "reset",  "reader-gone", "room",   "ignored", "kill",     "create",
    "modify", "rename",      "remove", "message"};
static const char *const channels[] = {
    "pipe", "unix", "tcp", "eventfd", "child", "signal", "directory", "queue"};
static const char *const places[] = {"thread", "process", "machine"};
#define COUNT(a) (sizeof(a) / sizeof(*(a)))

/* Ways to wait for children, and for signals. */
static bool of_child(void)
{
    return strncmp(way, "wait", 4) == 0;
}

static bool of_signal(void)
{
    return strncmp(way, "sig", 3) == 0 || is(way, "pause") ||
           is(way, "poll-signalfd");
}

/* Ways that only some channels have. */
static bool is_special(void)
{
    return strncmp(way, "sigio", 5) == 0 || is(way, "aio") || is(way, "lio") ||
           is(way, "tee") || is(way, "wordexp") || is(way, "linger") ||
           is(way, "receive") || strncmp(way, "notify", 6) == 0 ||
           is(channel, "directory") || is(channel, "queue") ||
           is(ender, "create") || is(ender, "modify") || is(ender, "rename") ||
           is(ender, "remove") || is(ender, "message");
}

static bool there_is_special(void)
{
    bool stream =
        is(channel, "pipe") || is(channel, "unix") || is(channel, "tcp");
    if (is(where, "machine"))
        return false;
    if (is(channel, "directory"))
        return (is(way, "poll") || is(way, "read")) &&
               (is(ender, "create") || is(ender, "modify") ||
                is(ender, "rename") || is(ender, "remove"));
    if (is(channel, "queue"))
        return is(ender, "message") && (is(way, "receive") || is(way, "poll") ||
                                        strncmp(way, "notify", 6) == 0);
    if (is(way, "linger")) /* a process's copy would make it none */
        return is(channel, "tcp") && is(ender, "room") && is(where, "thread");
    if (is(way, "wordexp")) /* the ender is its command */
        return is(channel, "child") && is(ender, "death") &&
               is(where, "process");
    if (is(way, "tee"))
        return is(channel, "pipe") &&
               (is(ender, "byte") || is(ender, "close") ||
                (is(ender, "death") && is(where, "process")));
    if (is(way, "aio") || is(way, "lio"))
        return stream && (is(ender, "byte") || is(ender, "close"));
    return stream && is(ender, "byte") && strncmp(way, "sigio", 5) == 0;
}

static bool there_is_stream(void)
{
    bool pipes = is(channel, "pipe"), thread = is(where, "thread");
    bool writes = is(ender, "room") || is(ender, "reader-gone");
    if (is(way, "read") || is(way, "write"))
        if (writes != is(way, "write"))
            return false;
    if (is(where, "machine")) /* of room there: docs/limits.md */
        return is(channel, "tcp") && !writes && !is(ender, "own-shutdown");
    if (is(way, "peek") && (pipes || is(ender, "room")))
        return false;
    if (is(ender, "death"))
        return !thread;
    if (is(ender, "own-shutdown"))
        return thread && !pipes;
    if (is(ender, "shutdown"))
        return !pipes;
    if (is(ender, "reset"))
        return is(channel, "tcp");
    if (is(ender, "reader-gone")) /* select waits for no error alone */
        return pipes && !strstr(way, "select");
    return true;
}

static bool there_is(void)
{
    if (is_special())
        return there_is_special();
    if (of_child() || is(channel, "child") || is(ender, "ignored"))
        return is(channel, "child") && is(where, "process") &&
               ((of_child() && is(ender, "ignored")) ||
                ((of_child() || is(way, "poll-signalfd")) &&
                 is(ender, "death")));
    if (of_signal() || is(channel, "signal") || is(ender, "kill"))
        return of_signal() && is(channel, "signal") && is(ender, "kill") &&
               !is(where, "machine");
    if (is(channel, "eventfd") || is(ender, "event"))
        return is(channel, "eventfd") && is(ender, "event") &&
               !is(where, "machine") && !is(way, "peek") && !is(way, "write");
    return there_is_stream();
}

static void list(void)
{
    for (size_t w = 0; w < COUNT(ways); w++)
        for (size_t e = 0; e < COUNT(enders); e++)
            for (size_t c = 0; c < COUNT(channels); c++)
                for (size_t p = 0; p < COUNT(places); p++) {
                    way = ways[w], ender = enders[e];
                    channel = channels[c], where = places[p];
                    if (there_is())
                        printf("%s %s %s %s\n", way, ender, channel, where);
                }
}

int main(int argc, char **argv)
{
    pthread_t t;
    if (argc == 2 && is(argv[1], "list")) {
        list();
        return 0;
    }
    if (argc == 3 && is(argv[1], "compute")) {
        compute(atol(argv[2]));
        return 0;
    }
    if (argc < 5)
        return 2;
    program = argv[0];
    way = argv[1], ender = argv[2], channel = argv[3], where = argv[4];
    ms = argc > 5 ? atol(argv[5]) : ms;
    signal(SIGPIPE, SIG_IGN);
    signal(SIGUSR1, on_signal);
    signal(SIGIO, on_signal);
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    sigaddset(&usr1, is(way, "sigio-plain") ? SIGIO : SIGCHLD);
    if (is(channel, "signal") || is(way, "poll-signalfd") ||
        strncmp(way, "sigio", 5) == 0 || strncmp(way, "notify", 6) == 0)
        sigprocmask(SIG_BLOCK, &usr1, NULL);
    if (is(ender, "ignored"))
        signal(SIGCHLD, SIG_IGN);
    waiter = getpid();
    if (argc > 7) {
        struct sockaddr_in a = {.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)atoi(argv[6])),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        other = dial(&a);
        waiter = atoi(argv[7]);
        end_it();
        return 0;
    }
    if (is(where, "machine")) {
        mine = accept_one();
    } else {
        make_channel();
        if (is(ender, "room") || is(way, "write"))
            fill(); /* a close that lingers has what is left to send */
        if (!is(way, "wordexp"))
            begin_ender(&t);
    }
    if (wait_for_it() < 1)
        fail(way);
    compute(ms);
    if (child > 0 && !is(channel, "child")) /* the path ends here */
        kill(child, SIGKILL);
    if (is(channel, "directory")) {
        unlink(file);
        unlink(file2);
        rmdir(dir);
    }
    return 0;
}
