/* Ends of channels and what goes through them. */
#include "fields.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stddef.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>

#define NO_NAMES "local=0::0 remote=0::0"

static char buf[1000], text[400];

/* The part of CHAN that a socket has. */
static const char *socket_rest(int fd, unsigned long peer_ino,
                               unsigned long netns, unsigned long received,
                               uint64_t name_hash, int peer_pid,
                               const char *names)
{
    uint64_t cookie = 0;
    socklen_t len = sizeof(cookie);
    must(getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &len) == 0 && cookie);
    snprintf(text, sizeof(text),
             "peer_ino=%lu cookie=%lu netns=%lu sent_before=0 recv_before=%lu "
             "name_hash=%lu peer_pid=%d %s",
             peer_ino, (unsigned long)cookie, netns, received,
             (unsigned long)name_hash, peer_pid, names);
    return text;
}

static unsigned long inode(int fd)
{
    struct stat st;
    must(fstat(fd, &st) == 0);
    return (unsigned long)st.st_ino;
}

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif
static unsigned long netns(int fd)
{
    struct stat st;
    uint64_t cookie = 0;
    socklen_t len = sizeof(cookie);
    if (getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &len) == 0)
        return (unsigned long)cookie;
    must(stat("/proc/self/ns/net", &st) == 0);
    return (unsigned long)st.st_ino;
}

void use_pipe(void)
{
    int p[2];
    must(pipe2(p, O_CLOEXEC) == 0);
    want_chan(p[0], 1, 1, 4, PIPE);
    want_chan(p[1], 1, 2, 4, PIPE);
    unsigned chan = next_chan;
    must(write(p[1], buf, 5) == 5 && read(p[0], buf, 9) == 5);
    want_io("SEND", chan, 5, 0, "use_pipe");
    want_io("RECV", chan - 1, 5, 0, "use_pipe");
    int copy = fcntl(p[1], F_DUPFD, 50);
    want_chan(copy, 1, 2, 0, PIPE);
    close(copy);
    want_close(copy, chan + 1, 1, NO_TOTALS, "use_pipe");
    close(p[1]);
    want_close(p[1], chan, 1, NO_TOTALS, "use_pipe");
    must(read(p[0], buf, 9) == 0);
    want_io("RECV", chan - 1, 0, 0, "use_pipe");
    close(p[0]);
    want_close(p[0], chan - 1, 1, NO_TOTALS, "use_pipe");
}

void use_pair(void)
{
    int s[2];
    must(socketpair(AF_UNIX, SOCK_STREAM, 0, s) == 0);
    for (int i = 0; i < 2; i++)
        want_chan(
            s[i], 2, 3, 0,
            socket_rest(s[i], inode(s[!i]), 0, 0, 0, (int)getpid(), NO_NAMES));
    unsigned chan = next_chan;
    must(send(s[0], buf, 12, 0) == 12 && recv(s[1], buf, 100, 0) == 12);
    want_io("SEND", chan - 1, 12, 0, "use_pair");
    want_io("RECV", chan, 12, 0, "use_pair");
    static const int hows[] = {SHUT_RD, SHUT_WR, SHUT_RDWR};
    for (int i = 0; i < 3; i++) {
        must(shutdown(s[0], hows[i]) == 0);
        want_close(s[0], chan - 1, 2 + (unsigned)i, NO_TOTALS, "use_pair");
    }
    for (int i = 0; i < 2; i++) {
        close(s[i]);
        want_close(s[i], chan - 1 + (unsigned)i, 1, NO_TOTALS, "use_pair");
    }
}

static struct sockaddr_in bound(int fd)
{
    struct sockaddr_in in = {.sin_family = AF_INET};
    socklen_t len = sizeof(in);
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    must(bind(fd, (struct sockaddr *)&in, sizeof(in)) == 0);
    must(getsockname(fd, (struct sockaddr *)&in, &len) == 0);
    return in;
}

/* "local=10:00..7f000001:PORT remote=..." */
static const char *names(int fd)
{
    static char out[200];
    struct sockaddr_in a = {0}, b = {0};
    socklen_t len = sizeof(a);
    must(getsockname(fd, (struct sockaddr *)&a, &len) == 0);
    len = sizeof(b);
    bool has = getpeername(fd, (struct sockaddr *)&b, &len) == 0;
    const char *loop = "10:00000000000000000000ffff7f000001";
    snprintf(out, sizeof(out), "local=%s:%d remote=%s:%d", loop,
             ntohs(a.sin_port), has ? loop : "0:", has ? ntohs(b.sin_port) : 0);
    return out;
}

void use_tcp(void)
{
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in in = bound(listener);
    must(listen(listener, 5) == 0);
    want_chan(
        listener, 8, 3, 0,
        socket_rest(listener, 0, netns(listener), 0, 0, 0, names(listener)));
    want("RELEASE a=14 dev=%lu ino=%u object=2 value=-1 err=0 in=use_tcp",
         (unsigned long)netns(listener), ntohs(in.sin_port));
    int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    must(connect(client, (struct sockaddr *)&in, sizeof(in)) == 0);
    want_chan(client, 4, 3, 5,
              socket_rest(client, 0, netns(client), 0, 0, 0, names(client)));
    unsigned chan = next_chan;
    want_io("SEND", chan, 0, 1, "use_tcp");
    int server = accept(listener, NULL, NULL);
    want_chan(server, 4, 3, 2,
              socket_rest(server, 0, netns(server), 0, 0, 0, names(server)));
    want_io("RECV", chan + 1, 0, 2, "use_tcp");
    must(send(client, buf, 100, 0) == 100);
    want_io("SEND", chan, 100, 0, "use_tcp");
    must(recv(server, buf, 60, MSG_WAITALL) == 60);
    want_io("RECV", chan + 1, 60, 0, "use_tcp");
    /* Named when it is made: 60 of 100 are read. */
    int copy = dup(server);
    want_chan(copy, 4, 3, 0,
              socket_rest(copy, 0, netns(copy), 60, 0, 0, names(copy)));
    must(recv(copy, buf, 100, 0) == 40);
    want_io("RECV", chan + 2, 40, 0, "use_tcp");
    must(send(copy, buf, 7, 0) == 7 && recv(client, buf, 100, 0) == 7);
    want_io("SEND", chan + 2, 7, 0, "use_tcp");
    want_io("RECV", chan, 7, 0, "use_tcp");
    close(copy);
    want_close(copy, chan + 2, 1, "sent=7 recv=100", "use_tcp");
    close(client);
    want_close(client, chan, 1, "sent=100 recv=7", "use_tcp");
    must(recv(server, buf, 100, 0) == 0);
    want_io("RECV", chan + 1, 0, 0, "use_tcp");
    close(server);
    want_close(server, chan + 1, 1, "sent=7 recv=100", "use_tcp");
    close(listener);
    want_close(listener, chan - 1, 1, NO_TOTALS, "use_tcp");
}

/* The payload's first 256 bytes, then its length in 8. */
static uint64_t payload(size_t n)
{
    uint64_t len = n;
    return fnv(fnv(FNV, buf, n < 256 ? n : 256), &len, sizeof(len));
}

void use_udp(void)
{
    static const size_t sizes[] = {300, 256, 1, 0};
    int a = socket(AF_INET, SOCK_DGRAM, 0), b = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in from = bound(a), to = bound(b);
    const char *loop = "10:00000000000000000000ffff7f000001";
    for (int i = 0; i < 4; i++) {
        for (size_t k = 0; k < sizes[i]; k++)
            buf[k] = (char)(k * 7 + (size_t)i);
        must(sendto(a, buf, sizes[i], 0, (struct sockaddr *)&to, sizeof(to)) ==
             (ssize_t)sizes[i]);
        if (i == 0)
            want_chan(a, 5, 3, 0,
                      socket_rest(a, 0, netns(a), 0, 0, 0, names(a)));
        unsigned chan = i == 0 ? next_chan : next_chan - 1;
        want("DGRAM a=%u hash=%lu path_hash=0 local=%s:%d remote=%s:%d", chan,
             (unsigned long)payload(sizes[i]), loop, ntohs(from.sin_port), loop,
             ntohs(to.sin_port));
        want_io("SEND", chan, (long)sizes[i], 0, "use_udp");
        must(recv(b, buf, sizeof(buf), 0) == (ssize_t)sizes[i]);
        if (i == 0)
            want_chan(b, 5, 3, 0,
                      socket_rest(b, 0, netns(b), 0, 0, 0, names(b)));
        want("DGRAM a=%u hash=%lu path_hash=0 local=%s:%d remote=%s:%d",
             next_chan, (unsigned long)payload(sizes[i]), loop,
             ntohs(to.sin_port), loop, ntohs(from.sin_port));
        want_io("RECV", next_chan, (long)sizes[i], 0, "use_udp");
    }
}

/* All calls that move one datagram say the same. */
static void want_dgram(const char *type, unsigned chan, size_t n, int from,
                       int to)
{
    const char *loop = "10:00000000000000000000ffff7f000001";
    want("DGRAM a=%u hash=%lu path_hash=0 local=%s:%d remote=%s:%d", chan,
         (unsigned long)payload(n), loop, from, loop, to);
    want_io(type, chan, (long)n, 0, "use_dgrams");
}

void use_dgrams(void)
{
    int a = socket(AF_INET, SOCK_DGRAM, 0), b = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in from = bound(a), to = bound(b), other;
    socklen_t len = sizeof(other);
    const int port[] = {ntohs(from.sin_port), ntohs(to.sin_port)};
    struct iovec iov[] = {{buf, 3}, {buf + 3, 5}};
    struct msghdr m = {.msg_iov = iov, .msg_iovlen = 2}, named = m;
    struct mmsghdr two[] = {{.msg_hdr = m}, {.msg_hdr = m}};
    must(connect(a, (struct sockaddr *)&to, sizeof(to)) == 0);
    want_chan(a, 5, 3, 1, socket_rest(a, 0, netns(a), 0, 0, 0, names(a)));
    const unsigned chan = next_chan;
    for (int i = 0; i < 6; i++) {
        int sent = i == 0   ? (int)send(a, buf, 8, 0)
                   : i == 1 ? (int)write(a, buf, 8)
                   : i == 2 ? (int)writev(a, iov, 2)
                   : i == 3 ? (int)sendmsg(a, &m, 0)
                   : i == 4 ? (int)sendto(a, buf, 8, 0, NULL, 0)
                            : 8 * sendmmsg(a, two, 2, 0);
        must(sent == (i == 5 ? 16 : 8));
        for (int k = 0; k < sent; k += 8)
            want_dgram("SEND", chan, 8, port[0], port[1]);
    }
    named.msg_name = &other;
    named.msg_namelen = sizeof(other);
    for (int i = 0; i < 6; i++) {
        int got = i == 0   ? (int)recv(b, buf, 100, 0)
                  : i == 1 ? (int)read(b, buf, 100)
                  : i == 2 ? (int)recvfrom(b, buf, 100, 0,
                                           (struct sockaddr *)&other, &len)
                  : i == 3 ? (int)recvmsg(b, &m, 0)
                  : i == 4 ? (int)recvmsg(b, &named, 0)
                           : 8 * recvmmsg(b, two, 2, 0, NULL);
        if (i == 0)
            want_chan(b, 5, 3, 0,
                      socket_rest(b, 0, netns(b), 0, 0, 0, names(b)));
        must(got == (i == 5 ? 16 : 8));
        for (int k = 0; k < got; k += 8)
            want_dgram("RECV", chan + 1, 8, port[1], port[0]);
    }
    must(other.sin_port == from.sin_port &&
         named.msg_namelen == sizeof(other) && m.msg_namelen == 0);
    /* Raw packets of the same protocol are no channel's (root's alone). */
    int raw = socket(AF_INET, SOCK_RAW, IPPROTO_UDP);
    must(raw < 0 || recv(raw, buf, 100, MSG_DONTWAIT) != 0);
    close(raw);
    must(send(a, buf, 0, 0) == 0 && recvmsg(b, &m, 0) == 0);
    want_dgram("SEND", chan, 0, port[0], port[1]);
    want_dgram("RECV", chan + 1, 0, port[1], port[0]);
    close(a);
    want_close(a, chan, 1, NO_TOTALS, "use_dgrams");
    close(b);
    want_close(b, chan + 1, 1, NO_TOTALS, "use_dgrams");
}

/* An abstract name, and what names it by: the whole of it, and where. */
static socklen_t abstract(struct sockaddr_un *un, const char *what, int fd,
                          uint64_t *hash)
{
    memset(un, 0, sizeof(*un));
    un->sun_family = AF_UNIX;
    int n = snprintf(un->sun_path + 1, sizeof(un->sun_path) - 1, "ips-%d-%s",
                     (int)getpid(), what);
    const unsigned long space = netns(fd);
    *hash = fnv(fnv(FNV, un->sun_path, (size_t)n + 1), &space, sizeof(space));
    return (socklen_t)offsetof(struct sockaddr_un, sun_path) +
           (socklen_t)(n + 1);
}

void use_names(void)
{
    struct sockaddr_un un;
    uint64_t hash;
    int a = socket(AF_UNIX, SOCK_DGRAM, 0), b = socket(AF_UNIX, SOCK_DGRAM, 0);
    socklen_t len = abstract(&un, "d", a, &hash);
    must(bind(b, (struct sockaddr *)&un, len) == 0);
    must(sendto(a, buf, 9, 0, (struct sockaddr *)&un, len) == 9);
    want_chan(a, 3, 3, 0, socket_rest(a, 0, 0, 0, 0, 0, NO_NAMES));
    want("DGRAM a=%u hash=%lu path_hash=%lu " NO_NAMES, next_chan,
         (unsigned long)payload(9), (unsigned long)hash);
    want_io("SEND", next_chan, 9, 0, "use_names");
    must(read(b, buf, sizeof(buf)) == 9);
    want_chan(b, 3, 3, 0, socket_rest(b, 0, 0, 0, hash, 0, NO_NAMES));
    want("DGRAM a=%u hash=%lu path_hash=0 " NO_NAMES, next_chan,
         (unsigned long)payload(9));
    want_io("RECV", next_chan, 9, 0, "use_names");

    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    int client = socket(AF_UNIX, SOCK_STREAM, 0);
    len = abstract(&un, "s", listener, &hash);
    must(bind(listener, (struct sockaddr *)&un, len) == 0 &&
         listen(listener, 5) == 0);
    want_chan(listener, 7, 3, 0,
              socket_rest(listener, 0, 0, 0, hash, 0, NO_NAMES));
    want("RELEASE a=14 dev=%lu ino=%lu object=1 value=-1 err=0 in=use_names",
         (unsigned long)netns(listener), (unsigned long)hash);
    must(connect(client, (struct sockaddr *)&un, len) == 0);
    want_chan(client, 2, 3, 1,
              socket_rest(client, 0, 0, 0, hash, (int)getpid(), NO_NAMES));
    want_io("SEND", next_chan, 0, 1, "use_names");
    int server = accept(listener, NULL, NULL);
    want_chan(server, 2, 3, 2,
              socket_rest(server, inode(client), 0, 0, hash, (int)getpid(),
                          NO_NAMES));
    want_io("RECV", next_chan, 0, 2, "use_names");
}

void use_poll(void)
{
    int p[2];
    must(pipe(p) == 0);
    want_chan(p[0], 1, 1, 0, PIPE);
    want_chan(p[1], 1, 2, 0, PIPE);
    must(write(p[1], buf, 1) == 1);
    want_io("SEND", next_chan, 1, 0, "use_poll");
    struct pollfd f[] = {{.fd = -1, .events = POLLIN},
                         {.fd = p[0], .events = POLLIN},
                         {.fd = p[1], .events = POLLOUT}};
    must(poll(f, 3, -1) == 2);
    want("BLOCK a=1 result=2 op=16 err=0 ready=%u in=use_poll", next_chan - 1);

    int fd = eventfd(0, 0);
    unsigned long id = 0;
    char path[60], line[100];
    snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
    FILE *info = fopen(path, "r");
    while (info && fgets(line, sizeof(line), info))
        if (sscanf(line, "eventfd-id: %lu", &id) == 1)
            break;
    must(info && fclose(info) == 0);
    const uint64_t five = 5;
    must(write(fd, &five, 8) == 8 && read(fd, buf, 8) == 8);
    id++;
    want("RELEASE a=9 dev=0 ino=%lu object=0 value=1 err=0 in=use_poll", id);
    want("ACQUIRE a=9 dev=0 ino=%lu object=0 value=1 err=0 in=use_poll", id);
}
