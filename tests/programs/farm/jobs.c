/* A work queue: jobs of very different amounts of work, drawn with a seed. */
#include "farm.h"

#include <inttypes.h>
#include <stdio.h>

#define JOB_BYTES 12

static uint32_t work(const uint8_t *piece, uint32_t bytes, uint8_t *result)
{
    uint64_t seed;
    uint32_t units;
    if (bytes != JOB_BYTES)
        net_die("a job of %u bytes", bytes);
    net_get_u32(net_get_u64(piece, &seed), &units);
    net_put_u64(result, net_work(seed, units));
    return 8;
}

struct queue {
    uint32_t jobs, work;
    uint64_t state, sum;
};

static uint32_t piece(void *context, uint32_t id, uint8_t *out)
{
    struct queue *q = context;
    if (id >= q->jobs)
        return 0;
    uint64_t seed = net_random(&q->state);
    /* every eighth is eight times the others' work */
    uint32_t units = net_random(&q->state) % (2 * q->work) + 1;
    if (net_random(&q->state) % 8 == 0)
        units *= 8;
    net_put_u32(net_put_u64(out, seed), units);
    return JOB_BYTES;
}

static void take(void *context, uint32_t id, const uint8_t *result,
                 uint32_t bytes)
{
    struct queue *q = context;
    uint64_t value;
    if (bytes != 8)
        net_die("a result of %u bytes", bytes);
    net_get_u64(result, &value);
    q->sum += value * (id + 1);
}

static const struct farm farm = {.name = "jobs",
                                 .max_piece = JOB_BYTES,
                                 .max_result = 8,
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
    "usage: jobs-master [--workers ADDR:PORT,...] [options]\n"
    "Has jobs done; without workers all by itself.\n"
    "  --jobs N    (100)\n"
    "  --work N    of a usual job, in microseconds or so (1000)\n"
    "  --seed N    of the jobs (1)\n"
    "  --window N  jobs with a worker at a time (1)\n";

int main(int argc, char **argv)
{
    struct queue q = {.jobs = 100, .work = 1000};
    char *workers = NULL;
    uint32_t window = 1, seed = 1;
    const struct net_option options[] = {
        {.name = "--workers", .text = &workers},
        {.name = "--jobs", .number = &q.jobs, .min = 1, .max = 1000000},
        {.name = "--work", .number = &q.work, .min = 1, .max = 10000000},
        {.name = "--seed", .number = &seed, .max = UINT32_MAX},
        {.name = "--window", .number = &window, .min = 1, .max = 16},
        {0}};
    net_options(usage, options, argc, argv);
    q.state = seed;
    farm_master(&farm, &q, workers, window);
    printf("jobs %u sum %016" PRIx64 "\n", q.jobs, q.sum);
    return 0;
}
#endif
