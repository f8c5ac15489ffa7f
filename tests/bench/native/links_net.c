/* Frames over TCP between all hosts of bench_links. */
#include "tests/bench/native/links.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define PORT 9000
#define OUT_HIGH (4u << 20) /* more is not made before some is gone */

void links_die(const char *what)
{
    fprintf(stderr, "bench_links: %s: %s\n", what, strerror(errno));
    _exit(1);
}

/* ---- connecting ---------------------------------------------------------- */

static struct sockaddr_in address(uint32_t host)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(PORT)};
    a.sin_addr.s_addr = htonl(10u << 24 | 99u << 16 | (host + 1));
    return a;
}

static void keep(struct links_net *n, uint32_t host, int fd)
{
    int one = 1;
    if (host >= n->count || n->conn[host].fd >= 0)
        links_die("a stranger connects");
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
        links_die("fcntl");
    n->conn[host].fd = fd;
}

static int connect_to(uint32_t host)
{
    const struct sockaddr_in a = address(host);
    const struct timespec pause = {0, 5000000};
    for (int left = 2000; left > 0; left--) { /* it may not listen yet */
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0)
            links_die("socket");
        if (connect(fd, (const struct sockaddr *)&a, sizeof(a)) == 0)
            return fd;
        close(fd);
        nanosleep(&pause, NULL);
    }
    links_die("connect");
    return -1;
}

void links_join(struct links_net *n, uint32_t self, uint32_t count)
{
    const struct sockaddr_in a = address(self);
    int one = 1, l = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    memset(n, 0, sizeof(*n));
    n->self = self;
    n->count = count;
    for (uint32_t i = 0; i < LINKS_HOSTS; i++)
        n->conn[i].fd = -1;
    (void)setsockopt(l, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (l < 0 || bind(l, (const struct sockaddr *)&a, sizeof(a)) < 0 ||
        listen(l, LINKS_HOSTS) < 0)
        links_die("listen");
    for (uint32_t i = 0; i < self; i++) {
        int fd = connect_to(i);
        if (write(fd, &self, sizeof(self)) != sizeof(self))
            links_die("write");
        keep(n, i, fd);
    }
    for (uint32_t i = self + 1; i < count; i++) {
        uint32_t who = UINT32_MAX;
        int fd = accept(l, NULL, NULL);
        if (fd < 0 || read(fd, &who, sizeof(who)) != sizeof(who))
            links_die("accept");
        keep(n, who, fd);
    }
    close(l);
}

void links_leave(struct links_net *n)
{
    for (uint32_t i = 0; i < n->count; i++) {
        if (n->conn[i].fd >= 0)
            close(n->conn[i].fd);
        free(n->conn[i].in);
        free(n->conn[i].out);
    }
}

/* ---- bytes --------------------------------------------------------------- */

static void room(uint8_t **b, size_t *cap, size_t need)
{
    if (need <= *cap)
        return;
    *cap = need * 2 + 65536;
    *b = realloc(*b, *cap);
    if (!*b)
        links_die("memory");
}

static void write_some(struct links_conn *c)
{
    while (c->out_at < c->out_len) {
        ssize_t got = write(c->fd, c->out + c->out_at, c->out_len - c->out_at);
        if (got < 0 && errno == EAGAIN)
            return;
        if (got <= 0)
            links_die("write");
        c->out_at += (size_t)got;
    }
    c->out_at = c->out_len = 0;
}

static void read_some(struct links_conn *c)
{
    if (c->in_at == c->in_len)
        c->in_at = c->in_len = 0;
    room(&c->in, &c->in_cap, c->in_len + 262144);
    ssize_t got = read(c->fd, c->in + c->in_len, c->in_cap - c->in_len);
    if (got == 0 || (got < 0 && errno != EAGAIN)) {
        close(c->fd); /* it was told to leave earlier than we */
        c->fd = -1;
        c->out_at = c->out_len = 0;
        return;
    }
    c->in_len += got > 0 ? (size_t)got : 0;
}

static void turn(struct links_net *n, int timeout_ms)
{
    struct pollfd p[LINKS_HOSTS];
    if (n->self + 1 < n->count && n->conn[n->count - 1].fd < 0)
        links_die("the master is gone");
    for (uint32_t i = 0; i < n->count; i++) {
        const struct links_conn *c = &n->conn[i];
        p[i] = (struct pollfd){c->fd, POLLIN, 0};
        if (c->out_at < c->out_len)
            p[i].events |= POLLOUT;
    }
    if (poll(p, n->count, timeout_ms) < 0 && errno != EINTR)
        links_die("poll");
    for (uint32_t i = 0; i < n->count; i++) {
        if (p[i].revents & POLLOUT)
            write_some(&n->conn[i]);
        if (p[i].revents & (POLLIN | POLLHUP | POLLERR))
            read_some(&n->conn[i]);
    }
}

void links_send(struct links_net *n, uint32_t to, enum links_kind kind,
                uint64_t a, const void *data, size_t len)
{
    struct links_conn *c = &n->conn[to];
    while (c->out_len - c->out_at > OUT_HIGH)
        turn(n, -1);
    if (c->out_at == c->out_len)
        c->out_at = c->out_len = 0;
    room(&c->out, &c->out_cap, c->out_len + LINKS_HEAD + len);
    uint8_t *at = c->out + c->out_len;
    const uint32_t size = (uint32_t)len;
    memcpy(at, &size, 4);
    at[4] = (uint8_t)kind;
    memcpy(at + 5, &a, 8);
    if (len)
        memcpy(at + LINKS_HEAD, data, len);
    c->out_len += LINKS_HEAD + len;
    n->messages++;
    n->bytes += LINKS_HEAD + len;
    write_some(c);
}

void links_flush(struct links_net *n)
{
    for (uint32_t i = 0; i < n->count; i++)
        while (n->conn[i].out_at < n->conn[i].out_len)
            turn(n, -1);
}

static bool frame_of(struct links_conn *c, struct links_frame *out)
{
    uint32_t len;
    if (c->in_len - c->in_at < LINKS_HEAD)
        return false;
    memcpy(&len, c->in + c->in_at, 4);
    if (c->in_len - c->in_at < LINKS_HEAD + (size_t)len) {
        if (c->in_at > c->in_cap / 2) { /* what is read was used */
            memmove(c->in, c->in + c->in_at, c->in_len - c->in_at);
            c->in_len -= c->in_at;
            c->in_at = 0;
        }
        return false;
    }
    out->kind = (enum links_kind)c->in[c->in_at + 4];
    memcpy(&out->a, c->in + c->in_at + 5, 8);
    out->data = c->in + c->in_at + LINKS_HEAD;
    out->len = len;
    c->in_at += LINKS_HEAD + len;
    return true;
}

bool links_next(struct links_net *n, bool wait, struct links_frame *out)
{
    for (int looked = 0;; looked++) {
        for (uint32_t i = 0; i < n->count; i++)
            if (frame_of(&n->conn[i], out)) {
                out->from = i;
                return true;
            }
        if (!wait && looked)
            return false;
        turn(n, wait ? -1 : 0);
    }
}
