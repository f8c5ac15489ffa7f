/* An image of the set of all c for which z -> z^2 + c stays bounded, computed
 * in lines (DRO-6: experiments 3). Fixed-point numbers: the same everywhere. */
#include "farm.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ONE ((int64_t)1 << 28)
#define MAX_SIDE 2000
#define HEAD 16

/* Iterations of the point at (column, line), `limit` if it stays bounded. */
static uint32_t iterations(uint32_t column, uint32_t line, uint32_t side,
                           uint32_t limit)
{
    const int64_t a = 4 * ONE * column / side - 2 * ONE;
    const int64_t b = 4 * ONE * line / side - 2 * ONE;
    int64_t x = 0, y = 0;
    for (uint32_t i = 0; i < limit; i++) {
        int64_t xx = x * x / ONE, yy = y * y / ONE;
        if (xx + yy > 4 * ONE)
            return i;
        y = 2 * x * y / ONE + b;
        x = xx - yy + a;
    }
    return limit;
}

static uint32_t work(const uint8_t *piece, uint32_t bytes, uint8_t *result)
{
    uint32_t first, lines, side, limit;
    if (bytes != HEAD)
        net_die("a piece of %u bytes", bytes);
    net_get_u32(
        net_get_u32(net_get_u32(net_get_u32(piece, &first), &lines), &side),
        &limit);
    if (side > MAX_SIDE || lines > side || first > side - lines)
        net_die("lines %u to %u of %u", first, first + lines, side);
    for (uint32_t line = 0; line < lines; line++)
        for (uint32_t column = 0; column < side; column++)
            *result++ = (uint8_t)iterations(column, first + line, side, limit);
    return lines * side;
}

struct image {
    uint32_t side, lines, limit; /* lines of a piece */
    uint8_t *point;
};

static uint32_t piece(void *context, uint32_t id, uint8_t *out)
{
    const struct image *m = context;
    uint32_t first = id * m->lines, lines = m->lines;
    if (first >= m->side)
        return 0;
    if (lines > m->side - first)
        lines = m->side - first;
    net_put_u32(
        net_put_u32(net_put_u32(net_put_u32(out, first), lines), m->side),
        m->limit);
    return HEAD;
}

static void take(void *context, uint32_t id, const uint8_t *result,
                 uint32_t bytes)
{
    const struct image *m = context;
    size_t at = (size_t)id * m->lines * m->side;
    if (at + bytes > (size_t)m->side * m->side)
        net_die("lines that were not asked for");
    memcpy(m->point + at, result, bytes);
}

static const struct farm farm = {.name = "julia",
                                 .max_piece = HEAD,
                                 .max_result = MAX_SIDE * MAX_SIDE,
                                 .piece = piece,
                                 .take = take,
                                 .work = work};

#ifdef WORKER
int main(int argc, char **argv)
{
    return farm_worker_main(&farm, argc, argv);
}
#else
static const char usage[] =
    "usage: julia-master [--workers ADDR:PORT,...] [options]\n"
    "Computes an image, in lines; without workers all by itself.\n"
    "  --side N    lines and columns, at most 2000 (400)\n"
    "  --lines N   in a piece (10)\n"
    "  --limit N   iterations (200)\n"
    "  --window N  pieces with a worker at a time (1)\n"
    "  --out FILE  the image (PGM)\n";

int main(int argc, char **argv)
{
    struct image m = {.side = 400, .lines = 10, .limit = 200};
    char *workers = NULL, *out = NULL;
    uint32_t window = 1;
    const struct net_option options[] = {
        {.name = "--workers", .text = &workers},
        {.name = "--side", .number = &m.side, .min = 1, .max = MAX_SIDE},
        {.name = "--lines", .number = &m.lines, .min = 1, .max = MAX_SIDE},
        {.name = "--limit", .number = &m.limit, .min = 1, .max = 1000000},
        {.name = "--window", .number = &window, .min = 1, .max = 16},
        {.name = "--out", .text = &out},
        {0}};
    net_options(usage, options, argc, argv);
    size_t points = (size_t)m.side * m.side;
    m.point = net_memory(points);
    farm_master(&farm, &m, workers, window);
    printf("%ux%u hash %016" PRIx64 "\n", m.side, m.side,
           net_hash(NET_HASH, m.point, points));
    FILE *f = out ? fopen(out, "w") : NULL;
    if (out && (!f || fprintf(f, "P5 %u %u 255\n", m.side, m.side) < 0 ||
                fwrite(m.point, 1, points, f) != points || fclose(f)))
        net_die("%s: cannot be written", out);
    free(m.point);
    return 0;
}
#endif
