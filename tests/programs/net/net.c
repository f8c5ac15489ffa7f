/* Sockets, messages, work and options. See net.h. */
#include "net.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define HEAD_BYTES 12

void net_die(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    fprintf(stderr, "%s: ", program_invocation_short_name);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    va_end(list);
    exit(1);
}

void *net_memory(size_t bytes)
{
    void *memory = calloc(1, bytes ? bytes : 1);
    if (!memory)
        net_die("out of memory");
    return memory;
}

/* --- sockets --------------------------------------------------------------*/

static bool parse_address(const char *text, struct sockaddr_in *out)
{
    char host[64];
    const char *colon = strrchr(text, ':');
    uint32_t port;
    if (!colon || (size_t)(colon - text) >= sizeof(host) ||
        !net_number(colon + 1, 0, 65535, &port))
        return false;
    memcpy(host, text, (size_t)(colon - text));
    host[colon - text] = '\0';
    *out = (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)port)};
    return inet_pton(AF_INET, host, &out->sin_addr) == 1;
}

int net_try_listen(const char *address, const char **why)
{
    struct sockaddr_in sa;
    int one = 1;
    *why = "not an address A.B.C.D:PORT";
    if (!parse_address(address, &sa))
        return -1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 &&
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) == 0 &&
        bind(fd, (struct sockaddr *)&sa, sizeof(sa)) == 0 &&
        listen(fd, 64) == 0)
        return fd;
    *why = strerror(errno);
    if (fd >= 0)
        close(fd);
    return -1;
}

int net_listen(const char *address)
{
    const char *why;
    int fd = net_try_listen(address, &why);
    if (fd < 0)
        net_die("%s: %s", address, why);
    return fd;
}

void net_announce(int listener)
{
    struct sockaddr_in sa;
    socklen_t len = sizeof(sa);
    char host[INET_ADDRSTRLEN];
    if (getsockname(listener, (struct sockaddr *)&sa, &len) < 0)
        net_die("getsockname: %s", strerror(errno));
    inet_ntop(AF_INET, &sa.sin_addr, host, sizeof(host));
    printf("listening %s:%u\n", host, (unsigned)ntohs(sa.sin_port));
    fflush(stdout);
}

static void at_once(int fd)
{
    int one = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

int net_accept(int listener)
{
    int fd;
    while ((fd = accept(listener, NULL, NULL)) < 0)
        if (errno != EINTR)
            net_die("accept: %s", strerror(errno));
    at_once(fd);
    return fd;
}

int net_try_connect(const char *address, unsigned wait_s, const char **why)
{
    const struct timespec pause = {.tv_nsec = 50000000};
    struct sockaddr_in sa;
    *why = "not an address A.B.C.D:PORT";
    if (!parse_address(address, &sa))
        return -1;
    for (unsigned tries = 0; tries <= wait_s * 20; tries++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd >= 0 && connect(fd, (struct sockaddr *)&sa, sizeof(sa)) == 0) {
            at_once(fd);
            return fd;
        }
        int error = errno;
        *why = strerror(error);
        if (fd >= 0)
            close(fd);
        if (error != ECONNREFUSED && error != EINTR)
            return -1; /* only a peer that is not up yet is waited for */
        nanosleep(&pause, NULL);
    }
    return -1;
}

int net_connect(const char *address)
{
    const char *why;
    int fd = net_try_connect(address, NET_WAIT_S, &why);
    if (fd < 0)
        net_die("%s: %s", address, why);
    return fd;
}

unsigned net_addresses(char *list, const char *address[], unsigned max)
{
    unsigned count = 0;
    char *save = NULL;
    for (char *one = strtok_r(list, ",", &save); one;
         one = strtok_r(NULL, ",", &save)) {
        if (count == max)
            net_die("more than %u addresses", max);
        address[count++] = one;
    }
    return count;
}

/* --- messages -------------------------------------------------------------*/

int net_send_all(int fd, const void *data, size_t len)
{
    const uint8_t *at = data;
    while (len > 0) {
        ssize_t n = send(fd, at, len, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        at += n;
        len -= (size_t)n;
    }
    return 0;
}

int net_recv_all(int fd, void *data, size_t len)
{
    uint8_t *at = data;
    while (len > 0) {
        ssize_t n = recv(fd, at, len, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0)
            errno = 0;
        if (n <= 0)
            return -1;
        at += n;
        len -= (size_t)n;
    }
    return 0;
}

const char *net_reason(void)
{
    return errno ? strerror(errno) : "the connection was closed";
}

uint8_t *net_put_u32(uint8_t *at, uint32_t value)
{
    value = htonl(value);
    memcpy(at, &value, 4);
    return at + 4;
}

const uint8_t *net_get_u32(const uint8_t *at, uint32_t *value)
{
    memcpy(value, at, 4);
    *value = ntohl(*value);
    return at + 4;
}

uint8_t *net_put_u64(uint8_t *at, uint64_t value)
{
    return net_put_u32(net_put_u32(at, (uint32_t)(value >> 32)),
                       (uint32_t)value);
}

const uint8_t *net_get_u64(const uint8_t *at, uint64_t *value)
{
    uint32_t high, low;
    at = net_get_u32(net_get_u32(at, &high), &low);
    *value = (uint64_t)high << 32 | low;
    return at;
}

void net_put(int fd, uint32_t kind, uint32_t id, const void *body,
             uint32_t bytes)
{
    uint8_t head[HEAD_BYTES];
    net_put_u32(net_put_u32(net_put_u32(head, kind), id), bytes);
    union {
        const void *from;
        void *base;
    } data = {.from = body}; /* sendmsg does not write there */
    struct iovec part[2] = {{.iov_base = head, .iov_len = sizeof(head)},
                            {.iov_base = data.base, .iov_len = bytes}};
    struct msghdr message = {.msg_iov = part, .msg_iovlen = bytes ? 2 : 1};
    ssize_t n;
    while ((n = sendmsg(fd, &message, MSG_NOSIGNAL)) < 0)
        if (errno != EINTR)
            net_die("sending: %s", strerror(errno));
    size_t sent = (size_t)n;
    if (sent < sizeof(head)) {
        if (net_send_all(fd, head + sent, sizeof(head) - sent) < 0)
            net_die("sending: %s", net_reason());
        sent = sizeof(head);
    }
    sent -= sizeof(head);
    if (sent < bytes &&
        net_send_all(fd, (const uint8_t *)body + sent, bytes - sent) < 0)
        net_die("sending: %s", net_reason());
}

bool net_get(int fd, struct net_head *head, void *body, uint32_t max)
{
    uint8_t data[HEAD_BYTES];
    if (net_recv_all(fd, data, sizeof(data)) < 0) {
        if (errno)
            net_die("receiving: %s", net_reason());
        return false;
    }
    net_get_u32(net_get_u32(net_get_u32(data, &head->kind), &head->id),
                &head->bytes);
    if (head->bytes > max)
        net_die("a message of %u bytes, %u at most are known here", head->bytes,
                max);
    if (head->bytes && net_recv_all(fd, body, head->bytes) < 0)
        net_die("receiving: %s", net_reason());
    return true;
}

void net_want(int fd, uint32_t kind, struct net_head *head, void *body,
              uint32_t max)
{
    if (!net_get(fd, head, body, max))
        net_die("receiving: the connection was closed");
    if (head->kind != kind)
        net_die("a message of kind %u instead of %u", head->kind, kind);
}

/* --- work -----------------------------------------------------------------*/

uint64_t net_work(uint64_t seed, uint32_t units)
{
    uint64_t x = seed | 1;
    for (uint32_t i = 0; i < units; i++)
        for (unsigned j = 0; j < 1000; j++)
            x = x * 6364136223846793005u + 1442695040888963407u;
    return x;
}

uint32_t net_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

uint64_t net_hash(uint64_t hash, const void *data, size_t len)
{
    const uint8_t *at = data;
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ at[i]) * 1099511628211u;
    return hash;
}

/* --- the command line -----------------------------------------------------*/

bool net_number(const char *text, uint32_t min, uint32_t max, uint32_t *out)
{
    char *end;
    if (!isdigit((unsigned char)text[0]))
        return false;
    errno = 0;
    unsigned long value = strtoul(text, &end, 10);
    if (errno || *end || value < min || value > max)
        return false;
    *out = (uint32_t)value;
    return true;
}

static _Noreturn void wrong(const char *usage, const char *name,
                            const char *value)
{
    fprintf(stderr, "%s: wrong: %s %s\n%s", program_invocation_short_name, name,
            value, usage);
    exit(2);
}

void net_options(const char *usage, const struct net_option *options, int argc,
                 char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        fputs(usage, stdout);
        exit(0);
    }
    for (int i = 1; i < argc; i++) {
        const struct net_option *o = options;
        while (o->name && strcmp(o->name, argv[i]) != 0)
            o++;
        if (!o->name)
            wrong(usage, argv[i], "");
        if (o->flag) {
            *o->flag = true;
            continue;
        }
        if (i + 1 == argc)
            wrong(usage, argv[i], "(value missing)");
        const char *name = argv[i++];
        if (o->text)
            *o->text = argv[i];
        else if (!net_number(argv[i], o->min, o->max, o->number))
            wrong(usage, name, argv[i]);
    }
}
