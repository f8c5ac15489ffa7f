/* Messages and sockets. See tsp.h. */
#include "tsp.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MAGIC 0x54535031u /* "TSP1" */
#define TOUR_BYTES (4 + TSP_MAX_CITIES)
#define REQUEST_BYTES (12 + TSP_MAX_CITIES + TOUR_BYTES)
#define ANSWER_BYTES (8 + TOUR_BYTES + 4 * 8)
#define PROBLEM_BYTES (12 + 4 * TSP_MAX_CITIES * TSP_MAX_CITIES)

static uint8_t *put_tour(uint8_t *at, const struct tsp_tour *t)
{
    at = net_put_u32(at, t->length);
    memcpy(at, t->city, TSP_MAX_CITIES);
    return at + TSP_MAX_CITIES;
}

static const uint8_t *get_tour(const uint8_t *at, struct tsp_tour *t)
{
    at = net_get_u32(at, &t->length);
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
    at = net_put_u32(at, MAGIC);
    at = net_put_u32(at, p->cities);
    at = net_put_u32(at, cache);
    for (unsigned i = 0; i < p->cities; i++)
        for (unsigned j = 0; j < p->cities; j++)
            at = net_put_u32(at, p->cost[i][j]);
    return net_send_all(fd, data, sizeof(data));
}

int tsp_recv_problem(int fd, struct tsp_problem *p, bool *cache)
{
    uint8_t data[PROBLEM_BYTES];
    uint32_t magic, cities, flag;
    if (net_recv_all(fd, data, sizeof(data)) < 0)
        return -1;
    const uint8_t *at = net_get_u32(data, &magic);
    at = net_get_u32(net_get_u32(at, &cities), &flag);
    if (magic != MAGIC || cities < TSP_MIN_CITIES || cities > TSP_MAX_CITIES)
        return malformed();
    p->cities = cities;
    *cache = flag != 0;
    for (unsigned i = 0; i < cities; i++)
        for (unsigned j = 0; j < cities; j++) {
            at = net_get_u32(at, &p->cost[i][j]);
            if (p->cost[i][j] > 1u << 24) /* sums stay below 2^32 */
                return malformed();
        }
    return 0;
}

int tsp_send_request(int fd, const struct tsp_request *r)
{
    uint8_t data[REQUEST_BYTES] = {0}, *at = data;
    at = net_put_u32(at, (uint32_t)r->ask);
    at = net_put_u32(at, r->id);
    at = net_put_u32(at, r->len);
    memcpy(at, r->path, r->len);
    put_tour(at + TSP_MAX_CITIES, &r->best);
    return net_send_all(fd, data, sizeof(data));
}

int tsp_recv_request(int fd, unsigned cities, struct tsp_request *r)
{
    uint8_t data[REQUEST_BYTES];
    uint32_t ask, len;
    if (net_recv_all(fd, data, sizeof(data)) < 0)
        return -1;
    const uint8_t *at = net_get_u32(data, &ask);
    at = net_get_u32(net_get_u32(at, &r->id), &len);
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
    at = net_put_u32(at, a->id);
    at = net_put_u32(at, a->bound);
    at = put_tour(at, &a->tour);
    at = net_put_u64(at, a->work.requests);
    at = net_put_u64(at, a->work.bounds);
    at = net_put_u64(at, a->work.nodes);
    net_put_u64(at, a->work.reused);
    return net_send_all(fd, data, sizeof(data));
}

int tsp_recv_answer(int fd, unsigned cities, struct tsp_answer *a)
{
    uint8_t data[ANSWER_BYTES];
    if (net_recv_all(fd, data, sizeof(data)) < 0)
        return -1;
    const uint8_t *at = net_get_u32(data, &a->id);
    at = net_get_u32(at, &a->bound);
    at = get_tour(at, &a->tour);
    at = net_get_u64(at, &a->work.requests);
    at = net_get_u64(at, &a->work.bounds);
    at = net_get_u64(at, &a->work.nodes);
    net_get_u64(at, &a->work.reused);
    if (a->tour.length != TSP_NO_TOUR && !is_path(a->tour.city, cities, cities))
        return malformed();
    return 0;
}

void tsp_print_work(const char *who, const struct tsp_work *w)
{
    printf("work %s: requests %" PRIu64 ", bounds %" PRIu64 ", nodes %" PRIu64
           ", reused %" PRIu64 "\n",
           who, w->requests, w->bounds, w->nodes, w->reused);
}
