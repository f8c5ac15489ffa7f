/* Messages and sockets. See tsp.h. */
#include "tsp.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MAGIC 0x54535031u /* "TSP1" */
#define TOUR_BYTES (4 + TSP_MAX_CITIES)
#define REQUEST_BYTES (12 + TSP_MAX_CITIES + TOUR_BYTES)
#define ANSWER_BYTES (8 + TOUR_BYTES + 4 * 8)
#define PROBLEM_BYTES (12 + 4 * TSP_MAX_CITIES * TSP_MAX_CITIES)

static int send_all(int fd, const uint8_t *data, size_t len)
{
    while (len > 0) {
        ssize_t n = send(fd, data, len, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        data += n;
        len -= (size_t)n;
    }
    return 0;
}

static int recv_all(int fd, uint8_t *data, size_t len)
{
    while (len > 0) {
        ssize_t n = recv(fd, data, len, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0)
            errno = 0;
        if (n <= 0)
            return -1;
        data += n;
        len -= (size_t)n;
    }
    return 0;
}

const char *tsp_reason(void)
{
    return errno ? strerror(errno) : "the connection was closed";
}

static uint8_t *put_u32(uint8_t *at, uint32_t value)
{
    value = htonl(value);
    memcpy(at, &value, 4);
    return at + 4;
}

static const uint8_t *get_u32(const uint8_t *at, uint32_t *value)
{
    memcpy(value, at, 4);
    *value = ntohl(*value);
    return at + 4;
}

static uint8_t *put_u64(uint8_t *at, uint64_t value)
{
    return put_u32(put_u32(at, (uint32_t)(value >> 32)), (uint32_t)value);
}

static const uint8_t *get_u64(const uint8_t *at, uint64_t *value)
{
    uint32_t high, low;
    at = get_u32(get_u32(at, &high), &low);
    *value = (uint64_t)high << 32 | low;
    return at;
}

static uint8_t *put_tour(uint8_t *at, const struct tsp_tour *t)
{
    at = put_u32(at, t->length);
    memcpy(at, t->city, TSP_MAX_CITIES);
    return at + TSP_MAX_CITIES;
}

static const uint8_t *get_tour(const uint8_t *at, struct tsp_tour *t)
{
    at = get_u32(at, &t->length);
    memcpy(t->city, at, TSP_MAX_CITIES);
    return at + TSP_MAX_CITIES;
}

/* A partial tour: from city 0, no city twice. */
static bool is_path(const uint8_t *path, unsigned len, unsigned cities)
{
    uint32_t seen = 0;
    if (len < 1 || len > cities || path[0] != 0)
        return false;
    for (unsigned i = 0; i < len; i++) {
        if (path[i] >= cities || seen & 1u << path[i])
            return false;
        seen |= 1u << path[i];
    }
    return true;
}

static int malformed(void)
{
    errno = EBADMSG;
    return -1;
}

int tsp_send_problem(int fd, const struct tsp_problem *p, bool cache)
{
    uint8_t data[PROBLEM_BYTES] = {0}, *at = data;
    at = put_u32(at, MAGIC);
    at = put_u32(at, p->cities);
    at = put_u32(at, cache);
    for (unsigned i = 0; i < p->cities; i++)
        for (unsigned j = 0; j < p->cities; j++)
            at = put_u32(at, p->cost[i][j]);
    return send_all(fd, data, sizeof(data));
}

int tsp_recv_problem(int fd, struct tsp_problem *p, bool *cache)
{
    uint8_t data[PROBLEM_BYTES];
    uint32_t magic, cities, flag;
    if (recv_all(fd, data, sizeof(data)) < 0)
        return -1;
    const uint8_t *at = get_u32(data, &magic);
    at = get_u32(get_u32(at, &cities), &flag);
    if (magic != MAGIC || cities < TSP_MIN_CITIES || cities > TSP_MAX_CITIES)
        return malformed();
    p->cities = cities;
    *cache = flag != 0;
    for (unsigned i = 0; i < cities; i++)
        for (unsigned j = 0; j < cities; j++) {
            at = get_u32(at, &p->cost[i][j]);
            if (p->cost[i][j] > 1u << 24) /* sums stay below 2^32 */
                return malformed();
        }
    return 0;
}

int tsp_send_request(int fd, const struct tsp_request *r)
{
    uint8_t data[REQUEST_BYTES] = {0}, *at = data;
    at = put_u32(at, (uint32_t)r->ask);
    at = put_u32(at, r->id);
    at = put_u32(at, r->len);
    memcpy(at, r->path, r->len);
    put_tour(at + TSP_MAX_CITIES, &r->best);
    return send_all(fd, data, sizeof(data));
}

int tsp_recv_request(int fd, unsigned cities, struct tsp_request *r)
{
    uint8_t data[REQUEST_BYTES];
    uint32_t ask, len;
    if (recv_all(fd, data, sizeof(data)) < 0)
        return -1;
    const uint8_t *at = get_u32(data, &ask);
    at = get_u32(get_u32(at, &r->id), &len);
    memcpy(r->path, at, TSP_MAX_CITIES);
    get_tour(at + TSP_MAX_CITIES, &r->best);
    if (ask < TSP_ASK_BOUND || ask > TSP_ASK_END)
        return malformed();
    r->ask = (enum tsp_ask)ask;
    r->len = len;
    bool has_path = r->ask == TSP_ASK_BOUND || r->ask == TSP_ASK_SOLVE;
    if (has_path && !is_path(r->path, len, cities))
        return malformed();
    return 0;
}

int tsp_send_answer(int fd, const struct tsp_answer *a)
{
    uint8_t data[ANSWER_BYTES], *at = data;
    at = put_u32(at, a->id);
    at = put_u32(at, a->bound);
    at = put_tour(at, &a->tour);
    at = put_u64(at, a->work.requests);
    at = put_u64(at, a->work.bounds);
    at = put_u64(at, a->work.nodes);
    put_u64(at, a->work.reused);
    return send_all(fd, data, sizeof(data));
}

int tsp_recv_answer(int fd, unsigned cities, struct tsp_answer *a)
{
    uint8_t data[ANSWER_BYTES];
    if (recv_all(fd, data, sizeof(data)) < 0)
        return -1;
    const uint8_t *at = get_u32(data, &a->id);
    at = get_u32(at, &a->bound);
    at = get_tour(at, &a->tour);
    at = get_u64(at, &a->work.requests);
    at = get_u64(at, &a->work.bounds);
    at = get_u64(at, &a->work.nodes);
    get_u64(at, &a->work.reused);
    if (a->tour.length != TSP_NO_TOUR && !is_path(a->tour.city, cities, cities))
        return malformed();
    return 0;
}

static bool parse_address(const char *text, struct sockaddr_in *out)
{
    char host[64];
    const char *colon = strrchr(text, ':');
    uint32_t port;
    if (!colon || (size_t)(colon - text) >= sizeof(host) ||
        !tsp_number(colon + 1, 0, 65535, &port))
        return false;
    memcpy(host, text, (size_t)(colon - text));
    host[colon - text] = '\0';
    *out = (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)port)};
    return inet_pton(AF_INET, host, &out->sin_addr) == 1;
}

int tsp_listen(const char *address, const char **why)
{
    struct sockaddr_in sa;
    int one = 1;
    *why = "not an address A.B.C.D:PORT";
    if (!parse_address(address, &sa))
        return -1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 &&
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) == 0 &&
        bind(fd, (struct sockaddr *)&sa, sizeof(sa)) == 0 && listen(fd, 1) == 0)
        return fd;
    *why = strerror(errno);
    if (fd >= 0)
        close(fd);
    return -1;
}

int tsp_connect(const char *address, unsigned wait_s, const char **why)
{
    const struct timespec pause = {.tv_nsec = 50000000};
    struct sockaddr_in sa;
    int one = 1;
    *why = "not an address A.B.C.D:PORT";
    if (!parse_address(address, &sa))
        return -1;
    for (unsigned tries = 0; tries <= wait_s * 20; tries++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd >= 0 && connect(fd, (struct sockaddr *)&sa, sizeof(sa)) == 0) {
            /* requests are small and answered at once */
            (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
            return fd;
        }
        int error = errno;
        *why = strerror(error);
        if (fd >= 0)
            close(fd);
        if (error != ECONNREFUSED && error != EINTR)
            return -1; /* only a server that is not up yet is waited for */
        nanosleep(&pause, NULL);
    }
    return -1;
}

void tsp_print_work(const char *who, const struct tsp_work *w)
{
    printf("work %s: requests %" PRIu64 ", bounds %" PRIu64 ", nodes %" PRIu64
           ", reused %" PRIu64 "\n",
           who, w->requests, w->bounds, w->nodes, w->reused);
}

bool tsp_number(const char *text, uint32_t min, uint32_t max, uint32_t *out)
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
