/*
 * The same question answered by dynamic programming over sets of cities (Held
 * and Karp 1962), with nothing in common with the search but the matrix: what
 * the solver is checked against. Memory 4 * cities * 2^(cities-1) bytes.
 */
#include "tsp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* cost[set * n + last]: the shortest way from `last` through `set` (bit i is
 * city i + 1) and home. Filled for growing sets. */
static uint32_t *completions(const struct tsp_problem *p)
{
    unsigned n = p->cities;
    size_t sets = (size_t)1 << (n - 1);
    uint32_t *cost = malloc(sets * n * sizeof(*cost));
    if (!cost)
        return NULL;
    for (unsigned last = 0; last < n; last++)
        cost[last] = p->cost[last][0];
    for (size_t set = 1; set < sets; set++)
        for (unsigned last = 0; last < n; last++) {
            uint32_t least = TSP_NO_TOUR;
            for (unsigned to = 1; to < n; to++) {
                size_t bit = (size_t)1 << (to - 1);
                if (!(set & bit) || to == last)
                    continue;
                uint32_t sum = p->cost[last][to] + cost[(set & ~bit) * n + to];
                least = sum < least ? sum : least;
            }
            cost[set * n + last] = least;
        }
    return cost;
}

int main(int argc, char **argv)
{
    uint32_t n = 0, seed = 1;
    for (int i = 1; i + 1 < argc; i += 2) {
        bool ok =
            strcmp(argv[i], "--cities") == 0
                ? net_number(argv[i + 1], TSP_MIN_CITIES, TSP_MAX_CITIES, &n)
                : strcmp(argv[i], "--seed") == 0 &&
                      net_number(argv[i + 1], 0, UINT32_MAX, &seed);
        if (!ok)
            n = 0;
    }
    if (n == 0 || argc % 2 == 0) {
        fprintf(stderr, "usage: tsp-exact --cities N [--seed S]\n");
        return 2;
    }
    struct tsp_problem p;
    tsp_make(&p, n, seed);
    uint32_t *cost = completions(&p);
    if (!cost) {
        fprintf(stderr, "tsp-exact: out of memory\n");
        return 1;
    }
    size_t set = ((size_t)1 << (n - 1)) - 1;
    unsigned last = 0;
    printf("length %u\ntour 0", cost[set * n]);
    while (set) {
        unsigned to = 1; /* the first city of a shortest completion */
        for (;; to++) {
            size_t bit = (size_t)1 << (to - 1);
            if (set & bit && cost[set * n + last] ==
                                 p.cost[last][to] + cost[(set & ~bit) * n + to])
                break;
        }
        printf(" %u", to);
        set &= ~((size_t)1 << (to - 1));
        last = to;
    }
    printf("\n");
    free(cost);
    return 0;
}
