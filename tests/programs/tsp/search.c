/* Bounds and the search below a low node. See tsp.h. */
#include "tsp.h"

#include <stdlib.h>
#include <string.h>

/* Nodes with at most this many cities left are cached. */
#define CACHED_CITIES 7
#define CACHE_SLOTS (1u << 16)

/* The best way on from a city through a set of cities and home: it does not
 * depend on how one came there. One slot a hash; a newer entry replaces. */
struct slot {
    uint32_t key; /* set << 5 | city, + 1; 0 empty */
    uint32_t cost;
    uint8_t next; /* first city of the completion */
};
struct tsp_cache {
    struct slot slot[CACHE_SLOTS];
};

struct search {
    const struct tsp_problem *p;
    struct tsp_cache *cache;
    struct tsp_tour *best;
    struct tsp_work *work;
    uint8_t path[TSP_MAX_CITIES];
};

struct tsp_cache *tsp_cache_new(void)
{
    return calloc(1, sizeof(struct tsp_cache));
}

void tsp_cache_free(struct tsp_cache *cache)
{
    free(cache);
}

static uint32_t cities_left(const struct tsp_problem *p, const uint8_t *path,
                            unsigned len)
{
    uint32_t left = (1u << p->cities) - 1;
    for (unsigned i = 0; i < len; i++)
        left &= ~(1u << path[i]);
    return left;
}

uint32_t tsp_travelled(const struct tsp_problem *p, const uint8_t *path,
                       unsigned len)
{
    uint32_t sum = 0;
    for (unsigned i = 1; i < len; i++)
        sum += p->cost[path[i - 1]][path[i]];
    return sum;
}

/* Every city that is left to leave (the last of the path, and those not
 * visited) needs a way out, and every one left to enter (those, and city 0) a
 * way in: the sum of the row minima, then of the column minima of what
 * remains. */
uint32_t tsp_bound(const struct tsp_problem *p, const uint8_t *path,
                   unsigned len, struct tsp_work *work)
{
    uint32_t left = cities_left(p, path, len);
    uint32_t sum = tsp_travelled(p, path, len);
    uint32_t rest[TSP_MAX_CITIES][TSP_MAX_CITIES];
    uint8_t row[TSP_MAX_CITIES], col[TSP_MAX_CITIES];
    unsigned n = 0;

    work->bounds++;
    if (!left)
        return sum + p->cost[path[len - 1]][0];
    row[n] = path[len - 1];
    col[n++] = 0;
    for (uint32_t set = left; set; set &= set - 1) {
        row[n] = (uint8_t)__builtin_ctz(set);
        col[n] = row[n];
        n++;
    }
    for (unsigned i = 0; i < n; i++) {
        uint32_t least = UINT32_MAX;
        for (unsigned j = 0; j < n; j++) {
            /* not to itself, and not home before all are visited */
            bool barred = row[i] == col[j] || (i == 0 && j == 0);
            rest[i][j] = barred ? UINT32_MAX : p->cost[row[i]][col[j]];
            if (rest[i][j] < least)
                least = rest[i][j];
        }
        sum += least;
        for (unsigned j = 0; j < n; j++)
            if (rest[i][j] != UINT32_MAX)
                rest[i][j] -= least;
    }
    for (unsigned j = 0; j < n; j++) {
        uint32_t least = UINT32_MAX;
        for (unsigned i = 0; i < n; i++)
            if (rest[i][j] < least)
                least = rest[i][j];
        sum += least;
    }
    return sum;
}

bool tsp_promising(const struct tsp_tour *best, const uint8_t *path,
                   unsigned len, uint32_t bound)
{
    if (best->length == TSP_NO_TOUR || bound != best->length)
        return bound < best->length;
    return memcmp(path, best->city, len) <= 0;
}

bool tsp_before(const struct tsp_tour *a, const struct tsp_tour *b,
                unsigned cities)
{
    if (a->length != b->length)
        return a->length < b->length;
    return a->length != TSP_NO_TOUR && memcmp(a->city, b->city, cities) < 0;
}

/* The completion from `city` through `set`: its cost, and its first city in
 * *next. Depth is at most CACHED_CITIES. */
static uint32_t complete(struct search *s, unsigned city, uint32_t set,
                         uint8_t *next)
{
    *next = 0;
    if (!set)
        return s->p->cost[city][0];
    uint32_t key = (set << 5 | city) + 1;
    struct slot *slot = &s->cache->slot[key * 2654435761u >> 16];
    if (slot->key == key) {
        s->work->reused++;
        *next = slot->next;
        return slot->cost;
    }
    s->work->nodes++;
    uint32_t least = UINT32_MAX;
    for (uint32_t each = set; each; each &= each - 1) {
        unsigned to = (unsigned)__builtin_ctz(each);
        uint8_t ignored;
        uint32_t cost =
            s->p->cost[city][to] + complete(s, to, set & ~(1u << to), &ignored);
        if (cost < least) { /* the first of equals: cities rise */
            least = cost;
            *next = (uint8_t)to;
        }
    }
    *slot = (struct slot){.key = key, .cost = least, .next = *next};
    return least;
}

static void take(struct search *s, uint32_t length)
{
    struct tsp_tour found = {.length = length};
    memcpy(found.city, s->path, s->p->cities);
    if (tsp_before(&found, s->best, s->p->cities))
        *s->best = found;
}

static void finish_from_cache(struct search *s, unsigned len, uint32_t set)
{
    uint32_t sum = tsp_travelled(s->p, s->path, len);
    uint8_t next;
    sum += complete(s, s->path[len - 1], set, &next);
    if (!tsp_promising(s->best, s->path, len, sum))
        return;
    while (set) {
        s->path[len++] = next;
        set &= ~(1u << next);
        (void)complete(s, next, set, &next);
    }
    take(s, sum);
}

struct choice {
    uint32_t bound;
    uint8_t city;
};

static int by_bound(const void *a, const void *b)
{
    const struct choice *x = a, *y = b;
    if (x->bound != y->bound)
        return x->bound < y->bound ? -1 : 1;
    return x->city - y->city;
}

/* Depth is at most TSP_MAX_CITIES. */
static void search_below(struct search *s, unsigned len)
{
    const struct tsp_problem *p = s->p;
    uint32_t left = cities_left(p, s->path, len);
    s->work->nodes++;
    if (!left) {
        take(s, tsp_travelled(p, s->path, len) + p->cost[s->path[len - 1]][0]);
        return;
    }
    if (s->cache && p->cities - len <= CACHED_CITIES) {
        finish_from_cache(s, len, left);
        return;
    }
    struct choice choice[TSP_MAX_CITIES];
    unsigned count = 0;
    for (uint32_t set = left; set; set &= set - 1) {
        s->path[len] = (uint8_t)__builtin_ctz(set);
        choice[count].city = s->path[len];
        choice[count++].bound = tsp_bound(p, s->path, len + 1, s->work);
    }
    qsort(choice, count, sizeof(*choice), by_bound);
    for (unsigned i = 0; i < count; i++) {
        s->path[len] = choice[i].city;
        if (tsp_promising(s->best, s->path, len + 1, choice[i].bound))
            search_below(s, len + 1);
    }
}

void tsp_solve(const struct tsp_problem *p, struct tsp_cache *cache,
               const uint8_t *path, unsigned len, struct tsp_tour *best,
               struct tsp_work *work)
{
    struct search s = {.p = p, .cache = cache, .best = best, .work = work};
    memcpy(s.path, path, len);
    if (tsp_promising(best, path, len, tsp_bound(p, path, len, work)))
        search_below(&s, len);
}
