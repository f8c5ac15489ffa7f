/* The echo: a detached thread that ends after it has served one peer with the
 * right key, or when its time limit is over. */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/types.h"
#include "slave/calibrate/net.h"
#include "slave/calibrate/wire.h"

#define BATCH_MAX 4096u
#define KEY_MS 10000

static atomic_uint echoes;

struct echo {
    int listener;
    uint8_t key[SLAVE_ECHO_KEY_BYTES];
    uint64_t until_ns;
    /* never set; the wire functions need it. An echo ends by its time limits */
    atomic_bool stopping;
};

/* ---- one connection ----------------------------------------------------- */

static int echo_messages_and_send_cpu_times(int fd, uint32_t rounds,
                                            uint64_t bytes, uint8_t *buffer,
                                            uint8_t *cpu,
                                            const atomic_bool *stop)
{
    const uint8_t yes = SLAVE_WIRE_YES;
    uint64_t price = slave_wire_measure_clock_cost(),
             delay = slave_wire_run_delay_ns();
    int rc = slave_wire_send(fd, &yes, 1, stop, NULL);
    for (uint32_t i = 0; i < rounds && rc == 0; i++) {
        uint64_t before = slave_wire_calling_thread_cpu_ns();
        rc = slave_wire_recv(fd, buffer, bytes, stop, NULL);
        if (rc == 0)
            rc = slave_wire_send(fd, buffer, bytes, stop, NULL);
        uint64_t took = slave_wire_calling_thread_cpu_ns() - before;
        slave_wire_encode_number(cpu + (size_t)i * 8, ips_sub_sat(took, price),
                                 8);
    }
    slave_wire_encode_number(cpu + (size_t)rounds * 8,
                             slave_wire_run_delay_ns() - delay, 8);
    if (rc == 0)
        rc = slave_wire_send(fd, cpu, ((size_t)rounds + 1) * 8, stop, NULL);
    return rc;
}

/* Serves one connection until the peer closes it. Returns true if the peer sent
 * the right key. */
static bool serve_peer(struct echo *e, int fd)
{
    uint8_t key[SLAVE_ECHO_KEY_BYTES], head[SLAVE_WIRE_HEAD];
    const uint8_t yes = SLAVE_WIRE_YES;
    uint8_t *buffer = NULL, *cpu = malloc(((size_t)BATCH_MAX + 1) * 8);
    struct pollfd p = {.fd = fd, .events = POLLIN};
    slave_wire_set_socket_options(fd);
    /* Wait KEY_MS at most for the key: a client without it must not block other
     * clients for long. */
    bool ours =
        cpu && poll(&p, 1, KEY_MS) == 1 &&
        slave_wire_recv(fd, key, sizeof(key), &e->stopping, NULL) == 0 &&
        memcmp(key, e->key, sizeof(key)) == 0;
    if (ours && slave_wire_send(fd, &yes, 1, &e->stopping, NULL) == 0) {
        while (slave_wire_recv(fd, head, sizeof(head), &e->stopping, NULL) ==
               0) {
            uint64_t rounds = slave_wire_decode_number(head, 4);
            uint64_t bytes = slave_wire_decode_number(head + 4, 8);
            if (rounds > BATCH_MAX || bytes == 0 ||
                bytes > SLAVE_TRIP_BYTES_MAX)
                break;
            uint8_t *more = realloc(buffer, bytes);
            if (!more)
                break;
            buffer = more;
            memset(buffer, 0, bytes);
            if (echo_messages_and_send_cpu_times(fd, (uint32_t)rounds, bytes,
                                                 buffer, cpu, &e->stopping) < 0)
                break;
        }
    }
    free(buffer);
    free(cpu);
    return ours;
}

static void *run_echo(void *arg)
{
    struct echo *e = arg;
    bool over = false;
    while (!over) {
        struct pollfd p = {.fd = e->listener, .events = POLLIN};
        uint64_t now = slave_wire_now_ns();
        if (now >= e->until_ns)
            break;
        int ms = (int)((e->until_ns - now) / 1000000u) + 1;
        if (poll(&p, 1, ms) != 1)
            continue;
        int fd = accept4(e->listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
            continue;
        over = serve_peer(e, fd);
        close(fd);
    }
    close(e->listener);
    free(e);
    atomic_fetch_sub(&echoes, 1);
    return NULL;
}

/* ---- listening ---------------------------------------------------------- */

static void add_address(struct slave_echo_at *at, const struct sockaddr *a,
                        uint16_t port)
{
    char host[INET6_ADDRSTRLEN];
    const struct sockaddr_in *v4 = (const void *)a;
    const struct sockaddr_in6 *v6 = (const void *)a;
    if (at->count == SLAVE_ECHO_ADDRESSES)
        return;
    char *to = at->address[at->count];
    if (a->sa_family == AF_INET &&
        inet_ntop(AF_INET, &v4->sin_addr, host, sizeof(host)))
        snprintf(to, SLAVE_ECHO_ADDRESS_BYTES, "tcp:%s:%u", host, port);
    else if (a->sa_family == AF_INET6 &&
             !IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr) &&
             inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof(host)))
        snprintf(to, SLAVE_ECHO_ADDRESS_BYTES, "tcp:[%s]:%u", host, port);
    else
        return;
    at->count++;
}

/* Lists the addresses at which others may reach this machine: those of every
 * interface that is up, IPv4 first; then loopback, for slaves on the same
 * machine. `inside`: only loopback. */
static void list_addresses(bool inside, uint16_t port, struct slave_echo_at *at)
{
    struct ifaddrs *all = NULL;
    if (inside || getifaddrs(&all) < 0)
        all = NULL;
    static const int families[] = {AF_INET, AF_INET6};
    for (int k = 0; k < 2; k++) {
        for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
            if (i->ifa_addr && i->ifa_addr->sa_family == families[k] &&
                (i->ifa_flags & IFF_UP) && !(i->ifa_flags & IFF_LOOPBACK) &&
                at->count + 1 < SLAVE_ECHO_ADDRESSES)
                add_address(at, i->ifa_addr, port);
        }
    }
    if (all)
        freeifaddrs(all);
    snprintf(at->address[at->count++], SLAVE_ECHO_ADDRESS_BYTES,
             "tcp:127.0.0.1:%u", port);
}

static int listen_tcp(bool inside, int *out, struct slave_echo_at *at,
                      struct ips_err *err)
{
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    socklen_t len = sizeof(v6);
    const int off = 0;
    int fd = inside ? -1 : socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool fine =
        fd >= 0 &&
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) == 0 &&
        bind(fd, (struct sockaddr *)&v6, sizeof(v6)) == 0;
    if (!fine) {
        if (fd >= 0)
            close(fd);
        v4.sin_addr.s_addr = htonl(inside ? INADDR_LOOPBACK : INADDR_ANY);
        fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        fine = fd >= 0 && bind(fd, (struct sockaddr *)&v4, sizeof(v4)) == 0;
    }
    if (!fine || listen(fd, 4) < 0 ||
        getsockname(fd, (struct sockaddr *)&v6, &len) < 0) {
        int rc = ips_err_errno(err, "listening for measurements");
        if (fd >= 0)
            close(fd);
        return rc;
    }
    /* The port is at the same offset in sockaddr_in and sockaddr_in6. */
    list_addresses(inside, ntohs(v6.sin6_port), at);
    *out = fd;
    return 0;
}

static int listen_unix(int *out, struct slave_echo_at *at, struct ips_err *err)
{
    struct sockaddr_un u = {.sun_family = AF_UNIX};
    /* no path: the kernel chooses an abstract name */
    socklen_t len = sizeof(u.sun_family);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool fine = fd >= 0 && bind(fd, (struct sockaddr *)&u, len) == 0 &&
                listen(fd, 4) == 0;
    len = sizeof(u);
    if (!fine || getsockname(fd, (struct sockaddr *)&u, &len) < 0) {
        int rc = ips_err_errno(err, "listening for measurements");
        if (fd >= 0)
            close(fd);
        return rc;
    }
    size_t n = len - offsetof(struct sockaddr_un, sun_path);
    snprintf(at->address[at->count++], SLAVE_ECHO_ADDRESS_BYTES, "unix:@%.*s",
             (int)(n ? n - 1 : 0), u.sun_path + 1);
    *out = fd;
    return 0;
}

int slave_echo_start(const uint8_t *key, bool by_unix, bool inside,
                     uint32_t seconds, struct slave_echo_at *at,
                     struct ips_err *err)
{
    pthread_t thread;
    pthread_attr_t attr;
    sigset_t all, old;
    int fd = -1;
    memset(at, 0, sizeof(*at));
    int rc =
        by_unix ? listen_unix(&fd, at, err) : listen_tcp(inside, &fd, at, err);
    if (rc < 0)
        return rc;
    struct echo *e = calloc(1, sizeof(*e));
    if (atomic_fetch_add(&echoes, 1) >= SLAVE_ECHO_MOST)
        rc = ips_err_set(err, IPS_E_BUSY, "%u measurements go on here already",
                         SLAVE_ECHO_MOST);
    else if (!e)
        rc = ips_err_set(err, IPS_E_NO_MEMORY, "out of memory");
    if (rc < 0)
        goto out;
    e->listener = fd;
    memcpy(e->key, key, sizeof(e->key));
    e->until_ns = slave_wire_now_ns() + seconds * 1000000000ULL;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    int failed = pthread_create(&thread, &attr, run_echo, e);
    pthread_attr_destroy(&attr);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (failed)
        rc = ips_err_set(err, IPS_E_NO_MEMORY, "no thread: %s",
                         strerror(failed));
out:
    if (rc < 0) {
        free(e);
        close(fd);
        atomic_fetch_sub(&echoes, 1);
    }
    return rc;
}
