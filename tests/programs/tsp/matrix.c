/* The problem: made from a seed, the same everywhere. See tsp.h. */
#include "tsp.h"

/* A fixed generator: rand() differs between C libraries. */
static uint32_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
    return (uint32_t)(*state >> 33);
}

static uint32_t square_root(uint32_t x)
{
    uint32_t root = 0;
    for (uint32_t bit = 1u << 15; bit; bit >>= 1)
        if ((root | bit) * (root | bit) <= x)
            root |= bit;
    return root;
}

void tsp_make(struct tsp_problem *p, unsigned cities, uint32_t seed)
{
    uint64_t state = seed * 2654435761ULL + cities;
    uint32_t x[TSP_MAX_CITIES], y[TSP_MAX_CITIES];
    for (int i = 0; i < 8; i++)
        (void)next_random(&state);
    p->cities = cities;
    for (unsigned i = 0; i < cities; i++) {
        x[i] = next_random(&state) % 1000;
        y[i] = next_random(&state) % 1000;
    }
    for (unsigned i = 0; i < cities; i++)
        for (unsigned j = 0; j < cities; j++) {
            uint32_t dx = x[i] > x[j] ? x[i] - x[j] : x[j] - x[i];
            uint32_t dy = y[i] > y[j] ? y[i] - y[j] : y[j] - y[i];
            uint32_t extra = next_random(&state) % 100;
            p->cost[i][j] = square_root(dx * dx + dy * dy) + extra;
        }
}
