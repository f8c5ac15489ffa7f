/*
 * i_netns: the same addresses in several network namespaces at once.
 *
 * i_netns CASE: cells of a server and a client each, each cell in a namespace
 * of its own where they exchange messages. All have connected before any
 * accepts, and they accept in the opposite order. Prints "PID CELL" of each
 * process that sends or receives. Exit status 77: no namespace can be made.
 */
#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define CELLS 4
#define MESSAGES 3
#define BYTES 50
#define NO_NAMESPACE 77

static const char *what;
static int connected[2], accepts[CELLS][2];

static void need(int good, const char *call)
{
    if (!good) {
        perror(call);
        _exit(2);
    }
}

static union name {
    struct sockaddr any;
    struct sockaddr_in in;
    struct sockaddr_un un;
} name_of(int port)
{
    union name n;
    memset(&n, 0, sizeof(n));
    if (what[0] == 'a') {
        n.un.sun_family = AF_UNIX;
        snprintf(n.un.sun_path + 1, sizeof(n.un.sun_path) - 1, "i_netns-%d",
                 port);
        return n;
    }
    n.in.sin_family = AF_INET;
    n.in.sin_port = htons((uint16_t)port);
    n.in.sin_addr.s_addr =
        htonl(strcmp(what, "own") ? INADDR_LOOPBACK : 0x0a090909u);
    return n;
}

static socklen_t length_of(const union name *n)
{
    return n->any.sa_family == AF_UNIX ? sizeof(n->un) : sizeof(n->in);
}

static bool is_dgram(void)
{
    return !strcmp(what, "udp") || !strcmp(what, "abstract-dgram");
}

static void enter_new(void)
{
    struct ifreq q;
    if (unshare(CLONE_NEWNET))
        _exit(NO_NAMESPACE);
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    memset(&q, 0, sizeof(q));
    strcpy(q.ifr_name, "lo");
    need(ioctl(fd, SIOCGIFFLAGS, &q) == 0, "SIOCGIFFLAGS");
    q.ifr_flags |= IFF_UP;
    need(ioctl(fd, SIOCSIFFLAGS, &q) == 0, "SIOCSIFFLAGS");
    if (!strcmp(what, "own")) {
        union name n = name_of(0);
        memcpy(&q.ifr_addr, &n.in, sizeof(n.in));
        need(ioctl(fd, SIOCSIFADDR, &q) == 0, "SIOCSIFADDR");
    }
    close(fd);
}

static int bound(int port)
{
    union name n = name_of(port);
    int one = 1,
        fd = socket(n.any.sa_family, is_dgram() ? SOCK_DGRAM : SOCK_STREAM, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    need(bind(fd, &n.any, length_of(&n)) == 0, "bind");
    return fd;
}

static void say(int cell)
{
    printf("%d %d\n", (int)getpid(), cell);
    fflush(stdout);
}

static void client(int cell)
{
    char buf[BYTES] = {0};
    union name to = name_of(7000);
    int fd = bound(7001);
    if (!strcmp(what, "moved")) /* the socket stays */
        enter_new();
    need(connect(fd, &to.any, length_of(&to)) == 0, "connect");
    say(cell);
    need(write(connected[1], "c", 1) == 1, "write");
    for (int i = 0; i < MESSAGES; i++)
        need(send(fd, buf, sizeof(buf), 0) == sizeof(buf), "send");
    _exit(0);
}

static void server(int cell)
{
    char buf[BYTES], c;
    int status;
    enter_new();
    int fd = bound(7000);
    need(is_dgram() || listen(fd, 5) == 0, "listen");
    pid_t pid = fork();
    if (pid == 0)
        client(cell);
    need(read(accepts[cell][0], &c, 1) == 1, "read");
    int from = is_dgram() ? fd : accept(fd, NULL, NULL);
    say(cell);
    for (int i = 0; i < MESSAGES; i++)
        need(recv(from, buf, sizeof(buf), MSG_WAITALL) == sizeof(buf), "recv");
    if (cell)
        need(write(accepts[cell - 1][1], "a", 1) == 1, "write");
    need(wait(&status) == pid, "wait");
    _exit(status ? 2 : 0);
}

int main(int argc, char **argv)
{
    int status, bad = 0;
    char c[CELLS];
    what = argc > 1 ? argv[1] : "tcp";
    /* Whoever asks once for all finds the namespace of this process. */
    int first = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in nobody = {.sin_family = AF_INET, .sin_port = htons(9)};
    sendto(first, c, 1, 0, (struct sockaddr *)&nobody, sizeof(nobody));
    need(pipe(connected) == 0, "pipe");
    for (int i = 0; i < CELLS; i++)
        need(pipe(accepts[i]) == 0, "pipe");
    for (int i = 0; i < CELLS; i++)
        if (fork() == 0)
            server(i);
    close(connected[1]);
    for (int i = 0; i < CELLS; i++)
        if (read(connected[0], c, 1) != 1)
            break;
    need(write(accepts[CELLS - 1][1], "a", 1) == 1, "write");
    while (wait(&status) > 0)
        bad |= WEXITSTATUS(status);
    return bad;
}
