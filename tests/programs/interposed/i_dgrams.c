/*
 * i_dgrams: datagrams of which one call moves several, or which several sockets
 * receive, or of which a receive has the beginning only.
 *
 * i_dgrams CASE: this process sends, children receive. Each prints for each of
 * its receives of datagrams "PID N": it has to hang on the Nth send of this
 * process.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#define UDP_GRO 104
#endif
#define SEGMENT 1000
#define GROUP 0xefff0203u /* 239.255.2.3 */

static int sends, go[2];

static void need(int good, const char *what)
{
    if (!good) {
        perror(what);
        exit(2);
    }
}

static struct sockaddr_in at(uint32_t host, int port)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)port)};
    a.sin_addr.s_addr = htonl(host);
    return a;
}

static int udp(uint32_t host, int *port)
{
    int fd = socket(AF_INET, SOCK_DGRAM, 0), one = 1;
    struct sockaddr_in a = at(host, *port);
    socklen_t len = sizeof(a);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    need(bind(fd, (struct sockaddr *)&a, len) == 0, "bind");
    getsockname(fd, (struct sockaddr *)&a, &len);
    *port = ntohs(a.sin_port);
    return fd;
}

/* Of message `n`: every 100 bytes say so. */
static void fill(char *buf, size_t bytes, int n)
{
    for (size_t i = 0; i < bytes; i++)
        buf[i] = (char)(i % 100 ? i / 100 + i : (size_t)n);
}

static void got(int n)
{
    printf("%d %d\n", (int)getpid(), n);
    fflush(stdout);
}

/* A child that runs `receive` on `fd` once this process has begun to send. */
static void receiver(int fd, void (*receive)(int fd))
{
    pid_t pid = fork();
    need(pid >= 0, "fork");
    if (pid == 0) {
        char c;
        need(read(go[0], &c, 1) == 1, "go");
        receive(fd);
        _exit(0);
    }
}

/* Who waits for the sender, and who finds all of it there. */
static void release(int count)
{
    while (count--)
        need(write(go[1], "g", 1) == 1, "go");
}

static void end(void)
{
    int status, bad = 0;
    while (wait(&status) > 0)
        bad |= status;
    exit(bad != 0);
}

/* ---- one send, several datagrams ---- */

static void one_by_one(int fd)
{
    char buf[2 * SEGMENT];
    for (int i = 0; i < 12; i++) {
        need(recv(fd, buf, sizeof(buf), 0) > 0, "recv");
        got(buf[0]);
    }
}

/* Both at once: two messages of 4 datagrams each, the last one shorter, and
 * four of one. */
static void send_segments(int port, const char *how)
{
    int fd = socket(AF_INET, SOCK_DGRAM, 0), size = SEGMENT;
    struct sockaddr_in to = at(INADDR_LOOPBACK, port);
    static char buf[2][4 * SEGMENT];
    struct iovec iov[2];
    char control[2][CMSG_SPACE(sizeof(uint16_t))];
    struct mmsghdr m[2];
    memset(m, 0, sizeof(m));
    memset(control, 0, sizeof(control));
    need(connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0, "connect");
    if (!strcmp(how, "option"))
        need(setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &size, sizeof(size)) == 0,
             "UDP_SEGMENT");
    if (!strcmp(how, "number"))
        need(syscall(SYS_setsockopt, fd, IPPROTO_UDP, UDP_SEGMENT, &size,
                     sizeof(size)) == 0,
             "UDP_SEGMENT");
    bool by_message = !strcmp(how, "message") || !strcmp(how, "messages");
    for (int i = 0; i < 2; i++) {
        fill(buf[i], sizeof(buf[i]), ++sends);
        for (int k = 0; k < 4; k++)
            buf[i][SEGMENT * k + 1] = (char)k;
        iov[i] = (struct iovec){buf[i], sizeof(buf[i]) - 300};
        m[i].msg_hdr.msg_iov = &iov[i];
        m[i].msg_hdr.msg_iovlen = 1;
        if (!by_message)
            continue;
        m[i].msg_hdr.msg_control = control[i];
        m[i].msg_hdr.msg_controllen = sizeof(control[i]);
        struct cmsghdr *c = CMSG_FIRSTHDR(&m[i].msg_hdr);
        uint16_t segment = SEGMENT;
        c->cmsg_level = IPPROTO_UDP;
        c->cmsg_type = UDP_SEGMENT;
        c->cmsg_len = CMSG_LEN(sizeof(segment));
        memcpy(CMSG_DATA(c), &segment, sizeof(segment));
    }
    const int all = (int)iov[0].iov_len;
    if (!strcmp(how, "messages")) {
        need(sendmmsg(fd, m, 2, 0) == 2, "sendmmsg");
    } else {
        for (int i = 0; i < 2; i++)
            need((by_message ? sendmsg(fd, &m[i].msg_hdr, 0)
                             : send(fd, buf[i], iov[i].iov_len, 0)) == all,
                 "send");
    }
    char small[4][200];
    for (int i = 0; i < 4; i++) {
        fill(small[i], sizeof(small[i]), ++sends);
        need(send(fd, small[i], sizeof(small[i]), 0) == sizeof(small[i]),
             "send");
    }
}

static void segments(const char *how, bool there)
{
    int port = 0, fd = udp(INADDR_LOOPBACK, &port);
    receiver(fd, one_by_one);
    if (!there)
        release(1);
    send_segments(port, how);
    if (there)
        release(1);
}

/* ---- one receive, several datagrams ---- */

static ssize_t plain_receive(int fd, char *buf, size_t n)
{
    return recv(fd, buf, n, 0);
}

static ssize_t from_receive(int fd, char *buf, size_t n)
{
    struct sockaddr_in from;
    socklen_t len = sizeof(from);
    ssize_t r = recvfrom(fd, buf, n, 0, (struct sockaddr *)&from, &len);
    need(len == sizeof(from) && from.sin_family == AF_INET, "from");
    return r;
}

static ssize_t message_receive(int fd, char *buf, size_t n)
{
    char control[CMSG_SPACE(sizeof(int))];
    struct iovec iov = {buf, n};
    struct msghdr m = {.msg_iov = &iov,
                       .msg_iovlen = 1,
                       .msg_control = control,
                       .msg_controllen = sizeof(control)};
    return recvmsg(fd, &m, 0);
}

/* Without room for what it would be told: the kernel says so. */
static ssize_t bare_receive(int fd, char *buf, size_t n)
{
    struct iovec iov = {buf, n};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
    ssize_t r = recvmsg(fd, &m, 0);
    need(r < SEGMENT + 1 ||
             (m.msg_flags == MSG_CTRUNC && m.msg_controllen == 0),
         "what recvmsg says");
    return r;
}

static ssize_t (*receive_once)(int fd, char *buf, size_t n);

static void joined(int fd)
{
    static char buf[8 * SEGMENT];
    const ssize_t all = 2 * (4 * SEGMENT - 300) + 4 * 200;
    int joins = 0;
    for (ssize_t done = 0, n; done < all; done += n) {
        n = receive_once(fd, buf, sizeof(buf));
        need(n > 0, "receive");
        joins += n > SEGMENT;
        got(buf[(n - 1) / 100 * 100]);
    }
    need(joins > 0, "nothing was joined");
}

static void join(ssize_t (*receive)(int, char *, size_t), const char *how)
{
    int port = 0, fd = udp(INADDR_LOOPBACK, &port), one = 1;
    receive_once = receive;
    need(setsockopt(fd, IPPROTO_UDP, UDP_GRO, &one, sizeof(one)) == 0,
         "UDP_GRO");
    receiver(fd, joined);
    release(1);
    send_segments(port, how);
}

/* ---- one datagram, several receivers ---- */

static void of_group(int fd)
{
    char buf[SEGMENT];
    for (int i = 0; i < 6; i++) {
        need(recv(fd, buf, sizeof(buf), 0) > 0, "recv");
        got(i + 1); /* they are alike, and none is lost */
    }
}

/* Two sockets get all of it while a third one's comes to itself alone; the
 * messages are alike. */
static void group(bool broadcast)
{
    int port = 0, one = 1, fd[3];
    const uint32_t to = broadcast ? 0x7fffffffu : GROUP;
    for (int i = 0; i < 3; i++) {
        fd[i] = udp(INADDR_ANY, &port);
        struct ip_mreqn join = {.imr_ifindex = 1};
        join.imr_multiaddr.s_addr = htonl(GROUP);
        if (!broadcast)
            need(setsockopt(fd[i], IPPROTO_IP, IP_ADD_MEMBERSHIP, &join,
                            sizeof(join)) == 0,
                 "IP_ADD_MEMBERSHIP");
        receiver(fd[i], of_group);
    }
    int out = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in from = at(INADDR_LOOPBACK, 0), a = at(to, port);
    struct ip_mreqn by = {.imr_ifindex = 1};
    need(bind(out, (struct sockaddr *)&from, sizeof(from)) == 0, "bind");
    if (broadcast)
        setsockopt(out, SOL_SOCKET, SO_BROADCAST, &one, sizeof(one));
    else
        setsockopt(out, IPPROTO_IP, IP_MULTICAST_IF, &by, sizeof(by));
    for (int i = 0; i < 6; i++)
        need(sendto(out, "heartbeat", 9, 0, (struct sockaddr *)&a, sizeof(a)) ==
                 9,
             "sendto");
    release(3);
}

/* ---- a buffer too short ---- */

static size_t room;

static void cut(int fd)
{
    static char buf[2 * SEGMENT];
    for (int i = 0; i < 4; i++) {
        ssize_t n =
            i < 3 ? recv(fd, buf, room, 0) : recv(fd, buf, room, MSG_TRUNC);
        need(n == (i < 3 ? (ssize_t)room : 2 * SEGMENT), "recv");
        got(buf[0]);
    }
    need(recv(fd, buf, sizeof(buf), 0) == 200, "recv");
    got(buf[0]);
}

static void cuts(int domain)
{
    int port = 0, fd[2] = {-1, -1};
    if (domain == AF_UNIX) {
        need(socketpair(AF_UNIX, SOCK_DGRAM, 0, fd) == 0, "socketpair");
    } else {
        fd[0] = udp(INADDR_LOOPBACK, &port);
        struct sockaddr_in to = at(INADDR_LOOPBACK, port);
        fd[1] = socket(AF_INET, SOCK_DGRAM, 0);
        need(connect(fd[1], (struct sockaddr *)&to, sizeof(to)) == 0,
             "connect");
    }
    receiver(fd[0], cut);
    release(1);
    static char buf[2 * SEGMENT];
    for (int i = 0; i < 5; i++) {
        size_t n = i < 4 ? sizeof(buf) : 200;
        fill(buf, n, ++sends);
        need(send(fd[1], buf, n, 0) == (ssize_t)n, "send");
    }
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    need(pipe(go) == 0, "pipe");
    if (!strcmp(what, "option") || !strcmp(what, "number") ||
        !strcmp(what, "message") || !strcmp(what, "messages"))
        segments(what, false);
    else if (!strcmp(what, "there"))
        segments("option", true);
    else if (!strcmp(what, "join"))
        join(message_receive, "option");
    else if (!strcmp(what, "join-plain"))
        join(plain_receive, "message");
    else if (!strcmp(what, "join-from"))
        join(from_receive, "messages");
    else if (!strcmp(what, "join-bare"))
        join(bare_receive, "option");
    else if (!strcmp(what, "multicast") || !strcmp(what, "broadcast"))
        group(what[0] == 'b');
    else if (!strcmp(what, "cut") || !strcmp(what, "cut-short"))
        room = what[3] ? 10 : 400, cuts(AF_INET);
    else if (!strcmp(what, "cut-unix"))
        room = 10, cuts(AF_UNIX);
    else
        return 2;
    end();
}
