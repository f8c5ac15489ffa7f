#include "slave/calibrate/net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "common/types.h"
#include "slave/calibrate/wire.h"

#define CONNECT_MS 3000
/* number of warm-up rounds of each message length, which are not counted */
#define WARM_UP 3u
#define LEAST 3u /* minimum number of counted rounds */
#define BATCH 50u

/* ---- connecting --------------------------------------------------------- */

static int parse_unix(const char *text, struct sockaddr_storage *to,
                      socklen_t *len)
{
    struct sockaddr_un *u = (struct sockaddr_un *)to;
    size_t n = strlen(text);
    if (*text != '@' || n >= sizeof(u->sun_path))
        return IPS_E_USAGE;
    u->sun_family = AF_UNIX;
    memcpy(u->sun_path + 1, text + 1, n - 1);
    *len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
    return 0;
}

/* Parses HOST:PORT, both numeric; IPv6 in brackets. */
static int parse_numeric_tcp_address(const char *text,
                                     struct sockaddr_storage *to,
                                     socklen_t *len)
{
    char host[INET6_ADDRSTRLEN + 2];
    const char *colon = strrchr(text, ':');
    char *end;
    if (!colon || (size_t)(colon - text) >= sizeof(host))
        return IPS_E_USAGE;
    unsigned long port = strtoul(colon + 1, &end, 10);
    size_t n = (size_t)(colon - text);
    memcpy(host, text, n);
    host[n] = '\0';
    if (*end || port == 0 || port > 65535)
        return IPS_E_USAGE;
    struct sockaddr_in *v4 = (struct sockaddr_in *)to;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)to;
    if (n > 2 && host[0] == '[' && host[n - 1] == ']') {
        host[n - 1] = '\0';
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons((uint16_t)port);
        *len = sizeof(*v6);
        return inet_pton(AF_INET6, host + 1, &v6->sin6_addr) == 1 ? 0
                                                                  : IPS_E_USAGE;
    }
    v4->sin_family = AF_INET;
    v4->sin_port = htons((uint16_t)port);
    *len = sizeof(*v4);
    return inet_pton(AF_INET, host, &v4->sin_addr) == 1 ? 0 : IPS_E_USAGE;
}

static int parse_address(const char *text, struct sockaddr_storage *to,
                         socklen_t *len)
{
    memset(to, 0, sizeof(*to));
    if (strncmp(text, "unix:", 5) == 0)
        return parse_unix(text + 5, to, len);
    if (strncmp(text, "tcp:", 4) == 0)
        return parse_numeric_tcp_address(text + 4, to, len);
    return IPS_E_USAGE;
}

/* Connects within CONNECT_MS, because an address may be unreachable. Returns 0
 * or an errno. */
static int connect_with_timeout(int fd, const struct sockaddr_storage *to,
                                socklen_t len)
{
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    int flags = fcntl(fd, F_GETFL), failed = 0;
    socklen_t room = sizeof(failed);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
        return errno;
    if (connect(fd, (const struct sockaddr *)to, len) < 0) {
        if (errno != EINPROGRESS)
            return errno;
        if (poll(&p, 1, CONNECT_MS) != 1)
            return ETIMEDOUT;
        if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &room) < 0)
            return errno;
    }
    if (failed == 0 && fcntl(fd, F_SETFL, flags) < 0)
        return errno;
    return failed;
}

static int send_key_and_check_reply(struct slave_trip *t, const uint8_t *key,
                                    struct ips_err *err)
{
    uint8_t yes = 0;
    int rc =
        slave_wire_send(t->fd, key, SLAVE_ECHO_KEY_BYTES, t->stopping, err);
    if (rc == 0)
        rc = slave_wire_recv(t->fd, &yes, 1, t->stopping, err);
    if (rc == 0 && yes != SLAVE_WIRE_YES)
        rc = ips_err_set(err, IPS_E_PROTOCOL, "another program answers there");
    return rc;
}

static int connect_to_echo_and_check_key(struct slave_trip *t,
                                         const uint8_t *key,
                                         const char *address,
                                         struct ips_err *err)
{
    struct sockaddr_storage to;
    socklen_t len = 0;
    if (parse_address(address, &to, &len) < 0)
        return ips_err_set(err, IPS_E_USAGE, "%.120s is not an address",
                           address);
    t->fd = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int failed = t->fd < 0 ? errno : connect_with_timeout(t->fd, &to, len);
    int rc = 0;
    if (failed)
        rc = ips_err_set(err, IPS_E_UNREACHABLE, "%s", strerror(failed));
    if (rc == 0)
        slave_wire_set_socket_options(t->fd);
    if (rc == 0)
        rc = send_key_and_check_reply(t, key, err);
    if (rc == 0)
        return 0;
    slave_trip_close(t);
    return ips_err_wrap(err, rc, "%.120s", address);
}

int slave_trip_connect(struct slave_trip *t, const uint8_t *key,
                       const char *const *addresses, size_t count,
                       const atomic_bool *stop, struct ips_err *err)
{
    int rc = ips_err_set(err, IPS_E_USAGE, "no address to measure at");
    memset(t, 0, sizeof(*t));
    t->fd = -1;
    t->stopping = stop;
    for (size_t i = 0; i < count && rc < 0 && !atomic_load(stop); i++) {
        struct ips_err one = {0};
        rc = connect_to_echo_and_check_key(t, key, addresses[i], &one);
        if (rc < 0 && err)
            *err = one;
    }
    if (rc < 0 && count > 1)
        ips_err_wrap(err, rc,
                     "none of %zu addresses can be reached; the last one",
                     count);
    return rc;
}

void slave_trip_close(struct slave_trip *t)
{
    if (t->fd >= 0)
        close(t->fd);
    free(t->buffer);
    t->buffer = NULL;
    t->capacity = 0;
    t->fd = -1;
}

/* ---- rounds ------------------------------------------------------------- */

struct rounds {
    uint64_t *trip, *near, *far;
    uint32_t count;
    uint64_t delay_ns;
};

/* Measures one batch of `count` round trips and appends it to *r. The echo
 * sends its CPU times after the batch, all at once. */
static int measure_trip_batch(struct slave_trip *t, uint64_t bytes,
                              uint32_t count, struct rounds *r,
                              struct ips_err *err)
{
    uint8_t head[SLAVE_WIRE_HEAD], cpu[(BATCH + 1) * 8];
    slave_wire_encode_number(head, count, 4);
    slave_wire_encode_number(head + 4, bytes, 8);
    int rc = slave_wire_send(t->fd, head, sizeof(head), t->stopping, err);
    /* wait until the echo has read the header, so that the header does not
     * disturb the first round */
    if (rc == 0)
        rc = slave_wire_recv(t->fd, head, 1, t->stopping, err);
    uint64_t delay = slave_wire_run_delay_ns();
    for (uint32_t i = 0; i < count && rc == 0; i++) {
        uint64_t cpu_ns = slave_wire_calling_thread_cpu_ns(),
                 at = slave_wire_now_ns();
        rc = slave_wire_send(t->fd, t->buffer, bytes, t->stopping, err);
        if (rc == 0)
            rc = slave_wire_recv(t->fd, t->buffer, bytes, t->stopping, err);
        r->trip[r->count + i] = slave_wire_now_ns() - at;
        r->near[r->count + i] = slave_wire_calling_thread_cpu_ns() - cpu_ns;
    }
    r->delay_ns += slave_wire_run_delay_ns() - delay;
    if (rc == 0)
        rc = slave_wire_recv(t->fd, cpu, ((size_t)count + 1) * 8, t->stopping,
                             err);
    if (rc == 0)
        r->delay_ns += slave_wire_decode_number(cpu + (size_t)count * 8, 8);
    for (uint32_t i = 0; i < count && rc == 0; i++)
        r->far[r->count + i] = slave_wire_decode_number(cpu + (size_t)i * 8, 8);
    r->count += rc == 0 ? count : 0;
    return rc;
}

static int compare_ns(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void compute_trip_result(struct rounds *r, struct slave_trip_result *out)
{
    uint64_t *as_was = r->trip;
    uint64_t price = slave_wire_measure_clock_cost(), cpu = 0;
    memset(out, 0, sizeof(*out));
    for (uint32_t i = 0; i < r->count; i++) {
        r->near[i] = ips_sub_sat(r->near[i], price);
        cpu = ips_add_sat(cpu, ips_add_sat(r->near[i], r->far[i]));
        out->all_ns = ips_add_sat(out->all_ns, r->trip[i]);
    }
    out->delay_ns = ips_sub_sat(r->delay_ns, cpu);
    uint64_t *sorted = calloc((size_t)r->count + 1, sizeof(*sorted));
    out->trip_ns = UINT64_MAX;
    if (sorted && r->count) {
        memcpy(sorted, as_was, r->count * sizeof(*sorted));
        qsort(sorted, r->count, sizeof(*sorted), compare_ns);
        out->trip_ns = sorted[(r->count - 1) / 2];
        for (uint32_t i = 0; i < r->count; i++)
            sorted[i] = ips_add_sat(r->near[i], r->far[i]);
        qsort(sorted, r->count, sizeof(*sorted), compare_ns);
        out->cpu_ns = sorted[(r->count - 1) / 2] / 2;
    }
    free(sorted);
    out->half = ips_compute_half_round_trip_statistics(r->trip, r->near, r->far,
                                                       r->count);
}

static int grow_trip_buffer(struct slave_trip *t, uint64_t bytes,
                            struct ips_err *err)
{
    if (bytes <= t->capacity)
        return 0;
    uint8_t *more = realloc(t->buffer, bytes);
    if (!more)
        return ips_err_set(err, IPS_E_NO_MEMORY, "out of memory");
    memset(more, 0, bytes);
    t->buffer = more;
    t->capacity = bytes;
    return 0;
}

int slave_trip_measure(struct slave_trip *t, uint64_t bytes, uint32_t rounds,
                       uint64_t length_ns, struct slave_trip_result *out,
                       struct ips_err *err)
{
    struct rounds r = {0};
    int rc = 0;
    if (bytes == 0 || bytes > SLAVE_TRIP_BYTES_MAX || rounds == 0 ||
        rounds > SLAVE_TRIP_ROUNDS_MAX)
        return ips_err_set(err, IPS_E_USAGE, "%u rounds of %llu bytes", rounds,
                           (unsigned long long)bytes);
    size_t most = (size_t)rounds + LEAST + WARM_UP;
    r.trip = calloc(most, sizeof(*r.trip));
    r.near = calloc(most, sizeof(*r.near));
    r.far = calloc(most, sizeof(*r.far));
    if (!r.trip || !r.near || !r.far)
        rc = ips_err_set(err, IPS_E_NO_MEMORY, "out of memory");
    if (rc == 0)
        rc = grow_trip_buffer(t, bytes, err);
    if (rc == 0)
        rc = measure_trip_batch(t, bytes, WARM_UP, &r, err);
    uint64_t until = slave_wire_now_ns() + length_ns;
    uint64_t one = r.count ? ips_max_u64(r.trip[r.count - 1], 1) : 1;
    r.count = 0;
    r.delay_ns = 0;
    if (rc == 0)
        rc = measure_trip_batch(t, bytes, LEAST, &r, err);
    while (rc == 0 && r.count < rounds) {
        uint64_t left = ips_sub_sat(until, slave_wire_now_ns()) / one;
        uint32_t n = ips_min_u32(rounds - r.count, BATCH);
        n = ips_min_u32(n, (uint32_t)ips_min_u64(left, BATCH));
        if (n == 0)
            break;
        rc = measure_trip_batch(t, bytes, n, &r, err);
    }
    if (rc == 0)
        compute_trip_result(&r, out);
    free(r.trip);
    free(r.near);
    free(r.far);
    return rc;
}
