/*
 * Nodes per second of CPU time of the longest-path kernel, on synthetic runs
 * (tests/bench/native/synth.h), beside a bare loop that allocates, reads and
 * writes the same arrays (what memory allows) and the deque engine. One line
 * each: pattern, what, nodes, M nodes/s; best of ROUNDS.
 *
 * Usage: bench_path [NODES [ROUNDS [PATTERN]]]
 *            default: 10^5, 10^6 and 10^7, best of 5, all patterns
 *        bench_path --dump FILE PATTERN NODES
 *            the graph for a peer: u32 nodes, then of each node u64 w and u32
 *            xpred; w 0 and xpred ~0 where there is none; u8 1 where a chain
 *            begins
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "analysis/graph/path.h"
#include "tests/bench/native/synth.h"

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* What the machine's memory allows: w, xpred read, est and won written. */
static double bare(const struct ips_graph *g)
{
    double begin = now_s();
    uint64_t *est = malloc(g->node_count * sizeof(*est)), e = 0;
    uint8_t *won = malloc(g->node_count);
    if (!est || !won)
        abort();
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

static double engine(const struct synth *s, int deque)
{
    static const struct ips_scenario lane = {.message_time = {0, 0, 1, 1},
                                             .external = IPS_EXTERNAL_REPLY,
                                             .order_dependent_off = false};
    const struct ips_graph *g = &s->part[0];
    struct ips_est e;
    struct ips_err err;
    double begin = now_s();
    int rc = deque ? ips_longest_path_by_label_correcting(g, &lane, &e, &err)
                   : ips_longest_path_compute_ests(g, &lane, NULL, &e, &err);
    double took = now_s() - begin;
    if (rc < 0) {
        fprintf(stderr, "%s\n", err.msg);
        return -1;
    }
    if (e.t_max != s->t_max) {
        fprintf(stderr, "%llu is not %llu\n", (unsigned long long)e.t_max,
                (unsigned long long)s->t_max);
        exit(1);
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

static void make(enum synth_pattern pattern, uint32_t nodes, struct synth *s)
{
    struct synth_options o = synth_default(pattern);
    struct ips_err err;
    o.nodes = nodes;
    if (synth_graphs(&o, false, s, &err) < 0) {
        fprintf(stderr, "%s\n", err.msg);
        exit(1);
    }
}

static void bench(uint32_t nodes, int rounds, enum synth_pattern pattern)
{
    struct synth s;
    double best[3] = {1e9, 1e9, 1e9};
    bool deque = nodes <= 1000000;
    make(pattern, nodes, &s);
    for (int r = 0; r < rounds; r++) {
        double took[3] = {bare(&s.part[0]), engine(&s, 0),
                          deque ? engine(&s, 1) : -1};
        for (int k = 0; k < 3; k++)
            best[k] = took[k] < best[k] ? took[k] : best[k];
    }
    const char *name = synth_pattern_names[pattern];
    show(name, "bare", s.part[0].node_count, best[0]);
    show(name, "kernel", s.part[0].node_count, best[1]);
    if (deque)
        show(name, "deque", s.part[0].node_count, best[2]);
    fflush(stdout);
    synth_release(&s);
}

static int pattern_of(const char *word)
{
    for (int p = 0; p < SYNTH_PATTERN_COUNT; p++)
        if (strcmp(word, synth_pattern_names[p]) == 0)
            return p;
    fprintf(stderr, "bench_path: no pattern \"%s\"\n", word);
    exit(2);
}

static int dump(const char *path, const char *pattern, uint32_t nodes)
{
    struct synth s;
    make((enum synth_pattern)pattern_of(pattern), nodes, &s);
    const struct ips_graph *g = &s.part[0];
    FILE *f = fopen(path, "wb");
    if (!f)
        return 1;
    fwrite(&g->node_count, sizeof(g->node_count), 1, f);
    for (uint32_t i = 0; i < g->node_count; i++) {
        uint8_t first = g->kind[i] == IPS_NODE_START;
        fwrite(&g->w[i], sizeof(g->w[i]), 1, f);
        fwrite(&g->xpred[i], sizeof(g->xpred[i]), 1, f);
        fwrite(&first, 1, 1, f);
    }
    return fclose(f) != 0;
}

int main(int argc, char **argv)
{
    if (argc == 5 && strcmp(argv[1], "--dump") == 0)
        return dump(argv[2], argv[3], (uint32_t)strtoul(argv[4], NULL, 10));
    uint32_t only = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;
    int rounds = argc > 2 ? atoi(argv[2]) : 5;
    int pattern = argc > 3 ? pattern_of(argv[3]) : -1;
    for (uint32_t nodes = only ? only : 100000;
         nodes <= (only ? only : 10000000); nodes *= 10)
        for (int p = 0; p < SYNTH_PATTERN_COUNT; p++)
            if (pattern < 0 || p == pattern)
                bench(nodes, rounds, (enum synth_pattern)p);
    return 0;
}
