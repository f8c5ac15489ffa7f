/*
 * Nodes per second of the longest-path kernel and of the deque engine, against
 * a bare loop that reads and writes the same arrays (what memory allows).
 * Shapes: `ring` - 64 chains that exchange with their neighbours each step;
 * `pairs` - 32 request loops, where every message switches the chain; `local` -
 * one arc in 100 nodes. Prints one line each: name, nodes, M nodes/s.
 *
 * Usage: bench_path [NODES [ROUNDS]]   default: 10^5, 10^6 and 10^7, best of 5
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "analysis/path.h"

enum { CHAINS = 64 };
enum shape { RING, PAIRS, LOCAL, SHAPES };
static const char *const shape_names[] = {"ring", "pairs", "local"};

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void arc(struct ips_graph *g, uint32_t from, uint32_t to)
{
    g->kind[to] = IPS_NODE_RECV;
    g->xkind[to] = IPS_X_DATA;
    g->xpred[to] = from;
}

static int make(struct ips_graph *g, uint32_t nodes, enum shape shape)
{
    uint32_t n = nodes / CHAINS;
    int rc = ips_graph_alloc(g, n * CHAINS, CHAINS, NULL);
    if (rc < 0)
        return rc;
    for (uint32_t c = 0; c < CHAINS; c++) {
        uint32_t first = c * n;
        g->chains[c] = (struct ips_chain){.first = first, .count = n};
        for (uint32_t i = 0; i < n; i++) {
            g->kind[first + i] = IPS_NODE_SEND;
            g->w[first + i] = i ? 100 + (i * 2654435761u >> 24) : 0;
            uint32_t right = (c + 1) % CHAINS * n, other = (c ^ 1) * n;
            if (i == 0)
                continue;
            if (shape == RING && i % 2 == 0)
                arc(g, right + i - 1, first + i);
            else if (shape == PAIRS && i % 2 == c % 2 && i > 1)
                arc(g, other + i - 1, first + i);
            else if (shape == LOCAL && i % 100 == 0)
                arc(g, right + i - 1, first + i);
        }
        g->kind[first] = IPS_NODE_START;
        g->kind[first + n - 1] = IPS_NODE_END;
    }
    return 0;
}

/* What the machine's memory allows: w, xpred read, est and won written. */
static double bare(const struct ips_graph *g)
{
    uint64_t *est = malloc(g->node_count * sizeof(*est)), e = 0;
    uint8_t *won = malloc(g->node_count);
    if (!est || !won)
        abort();
    double begin = now_s();
    for (uint32_t i = 0; i < g->node_count; i++) {
        e += g->w[i];
        est[i] = e;
        won[i] = g->xpred[i] == IPS_NO_NODE;
    }
    double took = now_s() - begin;
    if (est[g->node_count / 2] == 1 && won[0] == 7)
        puts("never");
    free(est);
    free(won);
    return took;
}

static double engine(const struct ips_graph *g, int deque)
{
    static const struct ips_lane lane = {.mtime = {0, 0, 1, 1},
                                         .external = IPS_EXTERNAL_REPLY,
                                         .any_off = false};
    struct ips_est e;
    struct ips_err err;
    double begin = now_s();
    int rc = deque ? ips_longest_path_pdm(g, &lane, &e, &err)
                   : ips_longest_path(g, &lane, NULL, &e, &err);
    double took = now_s() - begin;
    if (rc < 0) {
        fprintf(stderr, "%s\n", err.msg);
        return -1;
    }
    ips_est_release(&e);
    return took;
}

static void show(const char *shape, const char *what, uint32_t nodes,
                 double best)
{
    if (best > 0)
        printf("%s %s %u %.1f\n", shape, what, nodes,
               (double)nodes / best / 1e6);
    else
        printf("%s %s %u gave up\n", shape, what, nodes);
}

static void bench(uint32_t nodes, int rounds)
{
    for (int shape = 0; shape < SHAPES; shape++) {
        struct ips_graph g;
        double best[3] = {1e9, 1e9, 1e9};
        if (make(&g, nodes, (enum shape)shape) < 0)
            abort();
        for (int r = 0; r < rounds; r++) {
            double took[3] = {bare(&g), engine(&g, 0),
                              nodes <= 1000000 ? engine(&g, 1) : -1};
            for (int k = 0; k < 3; k++)
                best[k] = took[k] < best[k] ? took[k] : best[k];
        }
        show(shape_names[shape], "bare", g.node_count, best[0]);
        show(shape_names[shape], "kernel", g.node_count, best[1]);
        if (nodes <= 1000000)
            show(shape_names[shape], "deque", g.node_count, best[2]);
        ips_graph_release(&g);
    }
}

int main(int argc, char **argv)
{
    int rounds = argc > 2 ? atoi(argv[2]) : 5;
    if (argc > 1) {
        bench((uint32_t)strtoul(argv[1], NULL, 10), rounds);
        return 0;
    }
    for (uint32_t nodes = 100000; nodes <= 10000000; nodes *= 10)
        bench(nodes, rounds);
    return 0;
}
