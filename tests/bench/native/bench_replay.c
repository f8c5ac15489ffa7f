/*
 * Replay with processor sharing over synthetic runs: what the loop costs.
 *
 * Usage: bench_replay [NODES [THREADS [REPEAT]]]   (10^7, 64, 3)
 * One line a pattern and set of machines: pattern=, machines=, nodes=, events=,
 * ns_per_node=, ns_per_event=, events_per_s=, kernel_ns_per_node= (the longest
 * path of the same graph), makespan=; thread CPU times, the least of REPEAT
 * runs, each beside a run of the kernel.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "analysis/graph/path.h"
#include "analysis/replay/replay.h"
#include "tests/bench/native/synth.h"

static const struct ips_scenario lane = {
    .message_time = {2000, 1ULL << 30, 1, 1}};

static void die(const char *what)
{
    fprintf(stderr, "bench_replay: %s\n", what);
    exit(1);
}

static double cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double kernel(const struct ips_graph *g, uint64_t *t_max)
{
    struct ips_est e;
    struct ips_err err;
    double from = cpu_s();
    if (ips_longest_path_compute_ests(g, &lane, NULL, &e, &err) < 0)
        die(err.msg);
    from = cpu_s() - from;
    *t_max = e.t_max;
    ips_est_release(&e);
    return from;
}

static void measure(const char *pattern, const char *machines,
                    const struct ips_graph *g, const struct ips_replay_ask *ask,
                    int repeat)
{
    double best = 1e9, best_kernel = 1e9;
    struct ips_replay r;
    struct ips_err err;
    uint64_t t_max = 0, makespan = 0, events = 0;
    for (int k = 0; k < repeat; k++) {
        double s = kernel(g, &t_max);
        best_kernel = s < best_kernel ? s : best_kernel;
        s = cpu_s();
        if (ips_replay(g, &lane, ask, &r, &err) < 0)
            die(err.msg);
        s = cpu_s() - s;
        best = s < best ? s : best;
        makespan = r.makespan_ns;
        events = r.events;
        ips_replay_release(&r);
    }
    if (makespan < t_max && !ask->machine[0].speed.den && !ask->queues)
        die("the replay is shorter than the longest path");
    printf("pattern=%s machines=%s nodes=%u events=%" PRIu64
           " ns_per_node=%.1f ns_per_event=%.1f events_per_s=%.1fM "
           "kernel_ns_per_node=%.1f makespan=%" PRIu64 "\n",
           pattern, machines, g->node_count, events, best * 1e9 / g->node_count,
           best * 1e9 / (double)events, (double)events / best / 1e6,
           best_kernel * 1e9 / g->node_count, makespan);
    fflush(stdout);
}

/* A dispatcher and its workers, whose pieces were done in turn. */
static void make_farm(uint32_t nodes, uint32_t workers, struct ips_graph *g)
{
    uint32_t rounds = (nodes / workers - 4) / 4 + 2;
    uint32_t pieces = rounds * workers, own = 2 * rounds + 3;
    uint32_t d = 2 * pieces + workers + 2;
    ips_graph_init(g);
    if (ips_graph_alloc(g, d + workers * own, workers + 1, NULL) < 0)
        die("no memory");
    g->chains[0] = (struct ips_chain){.count = d};
    for (uint32_t i = 1; i + 1 < d; i++) {
        g->kind[i] = IPS_NODE_AUX;
        g->w[i] = 1000 + i * 7919ULL % 1000;
    }
    g->kind[d - 1] = IPS_NODE_END;
    for (uint32_t v = 0; v < workers; v++) {
        uint32_t first = d + v * own;
        g->chains[1 + v] = (struct ips_chain){.first = first, .count = own};
        for (uint32_t k = 0; k <= rounds; k++) {
            uint32_t get = first + 1 + 2 * k, turn = k * workers + v;
            bool last = k == rounds;
            /* sends of the first pieces, then a result and a piece a turn, then
             * the last results and the ends of the connections */
            uint32_t from = k == 0 ? 1 + v : workers + 2 * (turn - workers) + 2;
            uint32_t to = workers + 2 * turn + 1;
            if (turn >= pieces - workers) {
                to = workers + 2 * (pieces - workers) + 1 +
                     (turn - (pieces - workers));
                from = last ? to : from;
            }
            g->kind[get] = IPS_NODE_RECV;
            g->xkind[get] = last ? IPS_X_LIFETIME : IPS_X_DATA;
            g->xpred[get] = from;
            g->kind[get + 1] = last ? IPS_NODE_END : IPS_NODE_SEND;
            g->w[get + 1] = 20000 + turn * 104729ULL % 60000;
            if (last)
                continue;
            g->kind[to] = IPS_NODE_RECV;
            g->xkind[to] = IPS_X_DATA;
            g->xpred[to] = get + 1;
        }
    }
}

/* Its order is settled: the first of the two replays of `ipsq predict`. */
static void measure_farm(uint32_t nodes, uint32_t threads,
                         struct ips_replay_ask ask, int repeat)
{
    struct ips_graph g;
    struct ips_queues found = {0};
    struct ips_err err = {0};
    bool *any = calloc((size_t)threads + 1, sizeof(*any));
    uint32_t *map = calloc((size_t)threads + 1, sizeof(*map));
    if (!any || !map)
        die("no memory");
    make_farm(nodes, threads, &g);
    for (uint32_t c = 0; c <= threads; c++)
        map[c] = c % ask.machine_count;
    any[0] = true;
    ask.map = map;
    ask.queues = &found;
    if (ips_graph_check_invariants(&g, &err) < 0 ||
        ips_queues_find(&g, any, &found, &err) < 0)
        die(err.msg);
    if (found.queue_count != 1)
        die("no queue was found");
    measure("farm", "queue", &g, &ask, repeat);
    ips_queues_release(&found);
    ips_graph_release(&g);
    free(any);
    free(map);
}

static uint32_t number(int argc, char **argv, int at, uint32_t otherwise)
{
    return argc > at ? (uint32_t)strtoul(argv[at], NULL, 10) : otherwise;
}

int main(int argc, char **argv)
{
    static const struct ips_replay_machine one = {.cores = 1},
                                           four[] = {{.cores = 4},
                                                     {.cores = 4},
                                                     {.cores = 4},
                                                     {.cores = 4}};
    static const struct ips_replay_machine odd[] = {
        {.cores = 3, .speed = {7, 10}, .load = {327, 100}},
        {.cores = 2, .speed = {3, 2}, .load = {2, 3}}};
    static const struct ips_replay_machine turns[] = {
        {.cores = 2, .load = {1, 1}, .turn_ns = 2600000},
        {.cores = 2, .load = {2, 1}, .turn_ns = 2600000}};
    int repeat = (int)number(argc, argv, 3, 3);
    for (int p = 0; p < SYNTH_PATTERN_COUNT; p++) {
        struct synth_options o = synth_default((enum synth_pattern)p);
        struct synth s;
        struct ips_err err;
        o.nodes = number(argc, argv, 1, 10000000);
        o.threads = number(argc, argv, 2, 64);
        if (synth_graphs(&o, true, &s, &err) < 0)
            die(err.msg);
        uint32_t *map = calloc(s.whole.chain_count, sizeof(*map));
        if (!map)
            die("no memory");
        const char *name = synth_pattern_names[p];
        struct ips_replay_ask ask = {.machine_count = 1, .machine = &one};
        measure(name, "one-core", &s.whole, &ask, repeat);
        for (uint32_t c = 0; c < s.whole.chain_count; c++)
            map[c] = c % 4;
        ask = (struct ips_replay_ask){
            .machine_count = 4, .machine = four, .map = map};
        measure(name, "4x4", &s.whole, &ask, repeat);
        for (uint32_t c = 0; c < s.whole.chain_count; c++)
            map[c] = c % 2;
        ask.machine_count = 2;
        ask.machine = odd;
        measure(name, "odd", &s.whole, &ask, repeat);
        ask.machine = turns;
        measure(name, "turns", &s.whole, &ask, repeat);
        free(map);
        synth_release(&s);
    }
    measure_farm(number(argc, argv, 1, 10000000), number(argc, argv, 2, 64),
                 (struct ips_replay_ask){.machine_count = 4, .machine = four},
                 repeat);
    return 0;
}
