/*
 * A run of one machine that is asked about while it goes on (slave/
 * slave/build/incremental/grow.h): the records of a synthetic run
 * (tests/bench/native/synth.h), asked about in TURNS turns, once with a whole
 * build each time, once with a build that goes on. Per turn: records there, ns
 * of CPU of both builds per record there, and how many records and nodes the
 * second one read and made.
 *
 * Usage: bench_grow [EVENTS [TURNS [PATTERN]]]    default: 3000000, 6, ring
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/large.h"
#include "slave/build/incremental/grow.h"
#include "tests/bench/native/synth_streams.h"

#define SEGMENT_BYTES (256u << 10)

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void must(bool fine, const char *what)
{
    if (!fine) {
        fprintf(stderr, "bench_grow: %s\n", what);
        exit(1);
    }
}

int main(int argc, char **argv)
{
    uint32_t turns = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 6;
    struct synth_options o = synth_default(SYNTH_RING);
    uint32_t chunks[SYNTH_THREADS_MAX];
    struct ips_control control = {.probe_ns = 0};
    struct b_incremental *kept = NULL;
    struct ips_err err;
    for (int p = 0; p < SYNTH_PATTERN_COUNT && argc > 3; p++)
        if (strcmp(argv[3], synth_pattern_names[p]) == 0)
            o.pattern = (enum synth_pattern)p;
    o.nodes = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 3000000;
    struct synth_streams *c = synth_streams(&o, 0, SEGMENT_BYTES, &err);
    must(c && turns, c ? "no turns" : err.msg);
    for (uint32_t i = 0; i < c->count; i++)
        chunks[i] = c->in[i].chunk_count;
    struct ips_build_input in = {
        .control = &control, .streams = c->in, .stream_count = c->count};
    for (uint32_t k = 1; k <= turns; k++) {
        struct ips_built a, b;
        struct ips_build_effort took;
        for (uint32_t i = 0; i < c->count; i++)
            c->in[i].chunk_count =
                (uint32_t)((uint64_t)(chunks[i] - 1) * k / turns);
        double t0 = now_s();
        must(ips_build(&in, &a, &err) == 0, err.msg);
        double t1 = now_s();
        double all = (double)a.counts.events;
        ips_built_release(&a);
        double t2 = now_s();
        must(ips_build_new_records_or_whole_run(&kept, &in, IPS_BUILD_LAG_NS,
                                                &b, &took, &err) == 0,
             err.msg);
        double t3 = now_s();
        struct ips_large_use use = ips_large_get_use();
        printf("turn %u records %.0f whole_ns %.1f on_ns %.1f %s read %llu "
               "nodes %llu of %u memory_MB %llu\n",
               k, all, (t1 - t0) / all * 1e9, (t3 - t2) / all * 1e9,
               took.whole ? "whole" : "further",
               (unsigned long long)took.records, (unsigned long long)took.nodes,
               b.g.node_count, (unsigned long long)(use.memory >> 20));
        ips_built_release(&b);
    }
    ips_build_incremental_free(kept);
    for (uint32_t i = 0; i < c->count; i++)
        c->in[i].chunk_count = chunks[i];
    synth_streams_free(c);
    return 0;
}
