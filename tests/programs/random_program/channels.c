/* Channels: made, connected, used, closed; see random_program.c. Their
 * descriptors have fixed numbers, so that an image need not be told. */
#include "program.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int channel_count, channel_kind[MAX_CHANNELS];
static char data[1 << 20];

int fd_of(long channel, long side)
{
    return FIRST_FD + 2 * (int)channel + (int)side;
}

static void place(int fd, long channel, long side)
{
    if (fd < 0 || dup2(fd, fd_of(channel, side)) < 0)
        die("channel", errno);
    close(fd);
}

static struct sockaddr_un unix_name(long channel)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    snprintf(to.sun_path, sizeof(to.sun_path), "%.80s/c%ld", log_path, channel);
    return to;
}

/* A socket with a name that waits for connections or datagrams. */
static int named(long channel, int family, int type)
{
    struct sockaddr_in in = {.sin_family = AF_INET};
    struct sockaddr_un un = unix_name(channel);
    int fd = socket(family, type, 0);
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int r = family == AF_INET ? bind(fd, (struct sockaddr *)&in, sizeof(in))
                              : bind(fd, (struct sockaddr *)&un, sizeof(un));
    if (r < 0 || (type == SOCK_STREAM && listen(fd, 8) < 0))
        die("bind", errno);
    return fd;
}

void make_channel(long c)
{
    int fd[2];
    switch (channel_kind[c]) {
    case PIPE:
    case UNIX_PAIR:
        if (channel_kind[c] == PIPE ? pipe(fd)
                                    : socketpair(AF_UNIX, SOCK_STREAM, 0, fd))
            die("pipe", errno);
        place(fd[0], c, 0);
        place(fd[1], c, 1);
        break;
    case UNIX_STREAM:
        place(named(c, AF_UNIX, SOCK_STREAM), c, 0);
        break;
    case TCP:
        place(named(c, AF_INET, SOCK_STREAM), c, 0);
        break;
    case UDP:
        place(named(c, AF_INET, SOCK_DGRAM), c, 0);
        place(socket(AF_INET, SOCK_DGRAM, 0), c, 1);
        break;
    case UNIX_DGRAM:
        place(named(c, AF_UNIX, SOCK_DGRAM), c, 0);
        place(socket(AF_UNIX, SOCK_DGRAM, 0), c, 1);
        break;
    case EVENTFD:
        place(eventfd(0, 0), c, 0);
        break;
    default:
        die("channel kind", channel_kind[c]);
    }
}

static socklen_t address(long c, struct sockaddr_storage *to)
{
    socklen_t size = sizeof(*to);
    memset(to, 0, sizeof(*to));
    if (getsockname(fd_of(c, 0), (struct sockaddr *)to, &size) < 0)
        die("getsockname", errno);
    return size;
}

void do_connect(long c)
{
    struct sockaddr_storage to;
    socklen_t size = address(c, &to);
    int fd = socket(to.ss_family, SOCK_STREAM, 0);
    struct entry *e = begin(CALL_OP);
    finish(e, connect(fd, (struct sockaddr *)&to, size), "connect");
    place(fd, c, 1);
}

void do_accept(long c)
{
    struct entry *e = begin(CALL_OP);
    int fd = (int)finish(e, accept(fd_of(c, 0), NULL, NULL), "accept");
    place(fd, c, 0); /* the listening socket goes with it */
}

void look(int fd, long how)
{
    struct entry *e;
    long r = 1;
    if (how == 1) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        e = begin(CALL_POLL);
        r = poll(&p, 1, -1);
    } else if (how == 2) {
        struct epoll_event ev = {.events = EPOLLIN};
        int ep = epoll_create1(EPOLL_CLOEXEC);
        if (epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev) < 0)
            die("epoll_ctl", errno);
        e = begin(CALL_POLL);
        r = epoll_wait(ep, &ev, 1, -1);
        finish(e, r, "epoll_wait");
        close(ep);
        return;
    } else if (how == 3) {
        fd_set set;
        FD_ZERO(&set);
        FD_SET(fd, &set);
        e = begin(CALL_POLL);
        r = select(fd + 1, &set, NULL, NULL, NULL);
    } else {
        return;
    }
    finish(e, r, "poll");
}

/* Receives `bytes`, at most `chunk` a call; of end-of-file and datagrams,
 * one call. */
void do_receive(long c, long bytes, long chunk, long how)
{
    static _Thread_local char to[1 << 16];
    int fd = fd_of(c, 0);
    int whole = bytes == 0;
    do {
        look(fd, how);
        long ask = whole || bytes > chunk ? chunk : bytes;
        struct entry *e = begin(CALL_READ);
        long n = how & 1 || channel_kind[c] == PIPE
                     ? read(fd, to, (size_t)ask)
                     : recv(fd, to, (size_t)ask, 0);
        e->extra = c;
        finish(e, n, "read");
        if (!whole && !n)
            die("early end of file", c);
        bytes -= n;
    } while (bytes > 0);
}

/* From two channels, in the order in which they become readable. */
void do_receive_both(const struct op *o)
{
    static _Thread_local char to[1 << 16];
    long channel[2] = {o->a, o->c}, left[2] = {o->b, o->d};
    while (left[0] > 0 || left[1] > 0) {
        struct pollfd p[2];
        for (int i = 0; i < 2; i++) {
            p[i].fd = left[i] > 0 ? fd_of(channel[i], 0) : -1;
            p[i].events = POLLIN;
        }
        struct entry *e = begin(CALL_POLL);
        finish(e, poll(p, 2, -1), "poll");
        for (int i = 0; i < 2; i++) {
            if (left[i] <= 0 || !(p[i].revents & POLLIN))
                continue;
            e = begin(CALL_READ);
            e->extra = channel[i];
            left[i] -= finish(e, read(p[i].fd, to, (size_t)left[i]), "read");
        }
    }
}

/* Writes until that fails with EPIPE: a process that was just forked may still
 * hold the other end. */
void do_send_broken(long c)
{
    for (;; hidden_sleep(500)) {
        struct entry *e = begin(CALL_WRITE);
        long n = finish(e, write(fd_of(c, 1), data, 1), NULL);
        if (n < 0)
            return;
    }
}

void do_send(long c, long bytes, long how)
{
    int fd = fd_of(c, 1);
    while (bytes > 0) {
        struct entry *e = begin(CALL_WRITE);
        long n = how && channel_kind[c] != PIPE
                     ? send(fd, data, (size_t)bytes, MSG_NOSIGNAL)
                     : write(fd, data, (size_t)bytes);
        bytes -= finish(e, n, "write");
    }
}

void do_send_datagram(long c, long bytes)
{
    static _Thread_local char text[2000];
    struct sockaddr_storage to;
    socklen_t size = address(c, &to);
    memset(text, my_thread, sizeof(text));
    memcpy(text, &my_op, sizeof(my_op));
    struct entry *e = begin(CALL_WRITE);
    finish(e,
           sendto(fd_of(c, 1), text, (size_t)bytes, 0, (struct sockaddr *)&to,
                  size),
           "sendto");
}

void do_close(long c, long side)
{
    struct entry *e = begin(CALL_CLOSE);
    e->extra = 2 * c + side;
    finish(e, close(fd_of(c, side)), NULL);
}

/* A new process lets go of what is not its own. keep: a bit an end. */
void do_trim(unsigned long low, unsigned long high)
{
    for (long c = 0; c < channel_count; c++)
        for (long side = 0; side < 2; side++) {
            long bit = 2 * c + side;
            unsigned long word = bit < 48 ? low : high;
            if (!(word >> (bit % 48) & 1))
                do_close(c, side);
        }
    struct entry *e = begin(CALL_RANGE);
    finish(e, close_range(3, FIRST_FD - 1, 0), NULL);
}
