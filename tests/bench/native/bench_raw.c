/*
 * Raw segments -> EST in memory: the records of a synthetic run
 * (tests/bench/native/synth.h) of one machine, built into the graph (matching
 * included) and solved. Events per second of CPU time of one core, best of
 * ROUNDS, beside a bare loop that reads every record's words once. Each pattern
 * twice: as an agent writes it (records have the short form where the thread
 * was on its core since the last long one), and of long records alone; the
 * bytes an event say how many are short. Both must have the same longest path.
 *
 * Usage: bench_raw [EVENTS [ROUNDS [PATTERN [short|long]]]]
 *            default: 10^6, 3, all, both
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "analysis/graph/path.h"
#include "tests/bench/native/synth_streams.h"

#define SEGMENT_BYTES (4u << 20)

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void must(bool fine, const char *what)
{
    if (!fine) {
        fprintf(stderr, "bench_raw: %s\n", what);
        exit(1);
    }
}

static double bare(const struct synth_streams *c)
{
    uint64_t sum = 0;
    double begin = now_s();
    for (uint32_t i = 0; i < c->count; i++)
        for (uint32_t k = 0; k < c->in[i].chunk_count; k++) {
            const struct ips_chunk *ch = &c->chunk[i][k];
            for (size_t at = 0; at + 8 <= ch->len; at += 8) {
                uint64_t word;
                memcpy(&word, ch->data + at, sizeof(word));
                sum += word;
            }
        }
    double took = now_s() - begin;
    must(sum != 1, "never");
    return took;
}

static size_t bytes_of(const struct synth_streams *c)
{
    size_t sum = 0;
    for (uint32_t i = 0; i < c->count; i++)
        for (uint32_t k = 0; k < c->in[i].chunk_count; k++)
            sum += c->chunk[i][k].len;
    return sum;
}

/* The longest path. */
static uint64_t bench(enum synth_pattern pattern, uint32_t events, int rounds,
                      bool forms)
{
    static const struct ips_scenario lane = {.message_time = {0, 0, 1, 1}};
    struct synth_options o = synth_default(pattern);
    struct ips_err err;
    double best[3] = {1e9, 1e9, 1e9};
    uint32_t nodes = 0;
    uint64_t t_max = 0;
    o.nodes = events;
    o.forms = forms;
    struct synth_streams *c = synth_streams(&o, 0, SEGMENT_BYTES, &err);
    must(c != NULL, c ? "" : err.msg);
    for (int r = 0; r < rounds; r++) {
        struct ips_build_input in = {.streams = c->in,
                                     .stream_count = c->count};
        struct ips_built b;
        struct ips_est e;
        double t[3];
        t[0] = bare(c);
        t[1] = now_s();
        must(ips_build(&in, &b, &err) == 0, err.msg);
        t[2] = now_s();
        t[1] = t[2] - t[1];
        must(ips_longest_path_compute_ests(&b.g, &lane, NULL, &e, &err) == 0,
             err.msg);
        t[2] = now_s() - t[2];
        must(b.counts.unmatched == 0, "unmatched messages");
        nodes = b.g.node_count;
        t_max = e.t_max;
        ips_est_release(&e);
        ips_built_release(&b);
        for (int k = 0; k < 3; k++)
            best[k] = t[k] < best[k] ? t[k] : best[k];
    }
    printf("%s %s %u bytes %.1f bare %.1f build %.1f kernel %.1f raw-to-est "
           "%.1f\n",
           synth_pattern_names[pattern], forms ? "short" : "long", nodes,
           (double)bytes_of(c) / nodes, nodes / best[0] / 1e6,
           nodes / best[1] / 1e6, nodes / best[2] / 1e6,
           nodes / (best[1] + best[2]) / 1e6);
    fflush(stdout);
    synth_streams_free(c);
    return t_max;
}

int main(int argc, char **argv)
{
    uint32_t events = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 1000000;
    int rounds = argc > 2 ? atoi(argv[2]) : 3;
    for (int p = 0; p < SYNTH_PATTERN_COUNT; p++) {
        uint64_t t_max[2] = {0, 0};
        if (argc >= 4 && strcmp(argv[3], synth_pattern_names[p]) != 0)
            continue;
        for (int k = 0; k < 2; k++)
            if (argc < 5 || strcmp(argv[4], k ? "long" : "short") == 0)
                t_max[k] = bench((enum synth_pattern)p, events, rounds, !k);
        must(argc >= 5 || t_max[0] == t_max[1],
             "short and long records differ");
    }
    return 0;
}
