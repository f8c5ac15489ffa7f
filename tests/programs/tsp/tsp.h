/*
 * A travelling-salesman solver made of one controller and p servers: the
 * program of DPM's first study, to be measured. It knows nothing of IPS.
 *
 * Source: DPM-11. The paper gives the structure (a controller that divides the
 * work, servers that hold the cost matrix and compute parts of it, three
 * versions) and not the details; these are ours:
 *
 *  - The search tree's nodes are partial tours from city 0. A node's choices
 *    are the cities it may visit next; the bound of a choice is what has been
 *    travelled plus the row and column reduction of what is left.
 *  - High nodes (more than `low` cities left to visit) belong to the
 *    controller. It asks the servers for the bounds of all choices of the
 *    node it stands at, each choice a request, waits for them all, and goes
 *    down the best; if that turns out not to be the best it backtracks.
 *  - Low nodes (at most `low` cities left) are solved outright by a server,
 *    one choice a request; the answer is the best tour below it, if it beats
 *    the one the controller knew when it came to the node.
 *
 *   version   controller, on backtracking to a node   server, low nodes
 *   plain     asks for the bounds again               searches to the leaves
 *   cache     has kept them                           keeps the completions
 *                                                     of few cities and reuses
 *                                                     them
 *   overlap   as cache, and several requests are under way to each server
 *             instead of one
 *
 * The tour printed is the first in lexicographic order among the shortest, so
 * it depends neither on timing nor on the number of servers: a branch is cut
 * only if it cannot hold a tour that is shorter, or as long and earlier.
 */
#ifndef TSP_H
#define TSP_H

#include "net.h"

#define TSP_MIN_CITIES 3
#define TSP_MAX_CITIES 20
#define TSP_NO_TOUR UINT32_MAX

enum tsp_version { TSP_PLAIN, TSP_CACHE, TSP_OVERLAP };

struct tsp_problem {
    unsigned cities;
    uint32_t cost[TSP_MAX_CITIES][TSP_MAX_CITIES]; /* [from][to] */
};

/* `city[0]` is 0; length TSP_NO_TOUR = none known yet. */
struct tsp_tour {
    uint32_t length;
    uint8_t city[TSP_MAX_CITIES];
};

/* What was done, for people who compare versions. */
struct tsp_work {
    uint64_t requests; /* controller: sent; server: served */
    uint64_t bounds;   /* reductions computed */
    uint64_t nodes;    /* nodes visited in low searches */
    uint64_t reused;   /* completions found in the cache */
};

/* matrix.c: cities on a plane with one-way surcharges; the same on every
 * machine for the same arguments. */
void tsp_make(struct tsp_problem *p, unsigned cities, uint32_t seed);

/* search.c */
struct tsp_cache;
struct tsp_cache *tsp_cache_new(void); /* NULL: no memory */
void tsp_cache_free(struct tsp_cache *cache);

uint32_t tsp_travelled(const struct tsp_problem *p, const uint8_t *path,
                       unsigned len);
/* No tour that begins with `path` is shorter. O(cities^2). */
uint32_t tsp_bound(const struct tsp_problem *p, const uint8_t *path,
                   unsigned len, struct tsp_work *work);
/* May a tour beginning with `path`, of at least `bound`, come before `best`? */
bool tsp_promising(const struct tsp_tour *best, const uint8_t *path,
                   unsigned len, uint32_t bound);
/* Length first, then lexicographic. */
bool tsp_before(const struct tsp_tour *a, const struct tsp_tour *b,
                unsigned cities);
/* Replaces *best by the best tour below `path` if that comes before it.
 * `cache` may be NULL. */
void tsp_solve(const struct tsp_problem *p, struct tsp_cache *cache,
               const uint8_t *path, unsigned len, struct tsp_tour *best,
               struct tsp_work *work);

/* wire.c: messages of one size per direction, integers in network order.
 * Functions that talk return 0, or -1 with errno (0: the peer closed). */
enum tsp_ask { TSP_ASK_BOUND = 1, TSP_ASK_SOLVE, TSP_ASK_WORK, TSP_ASK_END };

struct tsp_request {
    enum tsp_ask ask;
    uint32_t id;
    unsigned len; /* of the partial tour */
    uint8_t path[TSP_MAX_CITIES];
    struct tsp_tour best; /* SOLVE: the tour to beat */
};
struct tsp_answer {
    uint32_t id;
    uint32_t bound;       /* BOUND */
    struct tsp_tour tour; /* SOLVE: unchanged if none beats it */
    struct tsp_work work; /* WORK */
};

int tsp_send_problem(int fd, const struct tsp_problem *p, bool cache);
int tsp_recv_problem(int fd, struct tsp_problem *p, bool *cache);
int tsp_send_request(int fd, const struct tsp_request *r);
int tsp_recv_request(int fd, unsigned cities, struct tsp_request *r);
int tsp_send_answer(int fd, const struct tsp_answer *a);
int tsp_recv_answer(int fd, unsigned cities, struct tsp_answer *a);

void tsp_print_work(const char *who, const struct tsp_work *work);

#endif
