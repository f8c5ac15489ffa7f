/* i_matrix WAY ENDER CHANNEL WHERE [MS]: one cell of the table of waits.
 *
 * The main thread waits by WAY for an end of CHANNEL. The ender, in WHERE,
 * computes for MS ms (50) and ends that wait as ENDER says; then the main
 * thread computes for MS ms and, where there is something, does not read it. So
 * the longest path is 2 * MS. `i_matrix list`: one line for each cell that
 * there is. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *way, *ender, *channel, *where;
static long ms = 50;
static int mine, other; /* descriptors of the waiter and of the ender */
static char block[1 << 20];

static bool is(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

static int fail(const char *what)
{
    perror(what);
    exit(9);
}

static void compute(void)
{
    struct timespec t, first;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &first);
    do
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    while ((t.tv_sec - first.tv_sec) * 1000 +
               (t.tv_nsec - first.tv_nsec) / 1000000 <
           ms);
}

/* ---- channels ---- */

static void tcp_pair(int p[2])
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof(a);
    int l = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(l, (struct sockaddr *)&a, n) || listen(l, 1) ||
        getsockname(l, (struct sockaddr *)&a, &n))
        fail("listen");
    p[1] = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(p[1], (struct sockaddr *)&a, n))
        fail("connect");
    p[0] = accept(l, NULL, NULL);
    close(l);
}

static void make_channel(void)
{
    int p[2] = {-1, -1};
    if (is(channel, "pipe") && pipe(p))
        fail("pipe");
    if (is(channel, "unix") && socketpair(AF_UNIX, SOCK_STREAM, 0, p))
        fail("socketpair");
    if (is(channel, "tcp"))
        tcp_pair(p);
    if (is(channel, "eventfd"))
        p[0] = p[1] = eventfd(is(ender, "room") ? 0 : 0, EFD_NONBLOCK);
    bool writes = is(ender, "room") || is(ender, "reader-gone");
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
    if (is(channel, "pipe")) {
        struct pollfd f = {.fd = other, .events = POLLIN};
        while (poll(&f, 1, 0) == 1 && read(other, block, sizeof(block)) > 0)
            ;
        return;
    }
    while (n > 0)
        n = recv(other, block, sizeof(block), MSG_DONTWAIT);
}

static void end_it(void)
{
    const struct linger reset = {1, 0};
    const uint64_t one = 1;
    compute();
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
    } else if (is(ender, "room"))
        drain();
}

static void *end_thread(void *unused)
{
    end_it();
    return unused;
}

/* A process that ends the wait by anything but its death goes on a while. */
static void begin_ender(pthread_t *t, pid_t *child)
{
    if (is(where, "thread")) {
        if (pthread_create(t, NULL, end_thread, NULL))
            fail("pthread_create");
        return;
    }
    *child = fork();
    if (*child == 0) {
        if (mine != other)
            close(mine);
        end_it();
        if (!is(ender, "death"))
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

static int wait_for_it(void)
{
    bool writes = is(ender, "room") || is(ender, "reader-gone");
    struct pollfd f = {.fd = mine, .events = writes ? POLLOUT : POLLIN};
    char c;
    if (is(ender, "reader-gone"))
        f.events = 0;
    if (is(way, "poll"))
        return poll(&f, 1, -1);
    if (is(way, "ppoll"))
        return ppoll(&f, 1, NULL, NULL);
    if (strncmp(way, "epoll", 5) == 0)
        return wait_epoll(mine, writes);
    if (is(way, "peek"))
        return recv(mine, &c, 1, MSG_PEEK) >= 0 || errno == ECONNRESET;
    return wait_select(mine, writes);
}

/* ---- the table ---- */

static const char *const ways[] = {"poll",       "ppoll",        "select",
                                   "pselect",    "epoll",        "epoll-pwait",
                                   "epoll-edge", "epoll-nested", "peek"};
static const char *const enders[] = {"byte",  "event",       "close",
                                     "death", "shutdown",    "own-shutdown",
                                     "reset", "reader-gone", "room"};
static const char *const channels[] = {"pipe", "unix", "tcp", "eventfd"};
static const char *const places[] = {"thread", "process"};
#define COUNT(a) (sizeof(a) / sizeof(*(a)))

static bool there_is(void)
{
    bool event = is(channel, "eventfd"), pipes = is(channel, "pipe");
    bool thread = is(where, "thread"), peek = is(way, "peek");
    bool selects = strstr(way, "select") != NULL;
    if (event != is(ender, "event"))
        return false;
    if (peek && (pipes || event || is(ender, "room")))
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
        return pipes && !selects;
    return true;
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
    pid_t child = -1;
    if (argc == 2 && is(argv[1], "list")) {
        list();
        return 0;
    }
    if (argc < 5)
        return 2;
    way = argv[1], ender = argv[2], channel = argv[3], where = argv[4];
    ms = argc > 5 ? atol(argv[5]) : ms;
    signal(SIGPIPE, SIG_IGN);
    make_channel();
    if (is(ender, "room"))
        fill();
    begin_ender(&t, &child);
    if (wait_for_it() < 1)
        fail(way);
    compute();
    if (child > 0) /* nobody waits for it: the path ends here */
        kill(child, SIGKILL);
    return 0;
}
