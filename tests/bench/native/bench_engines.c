/*
 * The engines over a simulated cluster in one process: what each exchanges and
 * what it costs whom, by pattern.
 *
 *   bench_engines [NODES [SLAVES [THREADS [PATTERN]]]]   20000 256 256, all
 *
 * rounds    for contract and central those of questions and answers; for cm of
 *           a network in which every message takes one round
 * values, messages, bytes   between machines; of contract the reduced graphs
 *           up and the values down at the sizes of their wire form (estimated:
 *           see GRAPH_BYTES), of central the events up
 * slaves    CPU of all of them, the greatest share of one is about 1/SLAVES
 * master    CPU of the master: merging, solving, walking; of cm the root's
 *           messages alone, so only their number is shown
 * 1G, 100M  time over links of that speed with 100 us of round trip and a core
 *           for each slave: rounds x trip + the bytes through the busiest
 *           place (the master's link; for cm a slave's) + CPU. A model, so
 *           that patterns can be compared, not a measurement.
 * Every engine's t_max is compared; a difference ends the program.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "analysis/distributed/joins.h"
#include "analysis/graph/contract.h"
#include "tests/bench/native/synth.h"
#include "tests/support/run_cm.h"

#define TRIP_S 100e-6
#define GRAPH_BYTES 12 /* a node of a reduced or whole graph on the wire */
#define VALUE_BYTES 5

static double cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static const struct ips_scenario lane = {
    .message_time = {.scale_num = 1, .scale_den = 1}};

struct row {
    const char *engine;
    uint64_t rounds, values, messages, bytes, root;
    double slaves_s, master_s;
    bool through_master;
};

static void print_row(const char *pattern, const struct row *r, uint32_t slaves)
{
    double busiest = (double)r->bytes / (r->through_master ? 1 : slaves);
    double cpu = r->slaves_s / slaves + r->master_s;
    double g1 = (double)r->rounds * TRIP_S + busiest * 8 / 1e9 + cpu;
    double m100 = (double)r->rounds * TRIP_S + busiest * 8 / 1e8 + cpu;
    printf("%-9s %-9s %8llu %10llu %10llu %12llu %8llu %10.3f %9.3f %9.2f "
           "%9.2f\n",
           pattern, r->engine, (unsigned long long)r->rounds,
           (unsigned long long)r->values, (unsigned long long)r->messages,
           (unsigned long long)r->bytes, (unsigned long long)r->root,
           r->slaves_s * 1e3, r->master_s * 1e3, g1 * 1e3, m100 * 1e3);
}

static void must(int rc, const struct ips_err *err, const char *what)
{
    if (rc >= 0)
        return;
    fprintf(stderr, "bench_engines: %s: %s\n", what, err->msg);
    exit(1);
}

static void same(const char *engine, uint64_t t_max, const struct synth *s)
{
    if (t_max == s->t_max)
        return;
    fprintf(stderr, "bench_engines: %s says %llu ns, the walk %llu\n", engine,
            (unsigned long long)t_max, (unsigned long long)s->t_max);
    exit(1);
}

static struct row run_cm(const struct ips_machine_graph *parts,
                         const struct synth *s, bool async)
{
    struct ips_err err = {0};
    struct cm_answer a;
    const struct cm_options o = {.seed = 1, .async = async, .lockstep = true};
    double begun = cpu_s();
    must(cm_cluster_run(parts, s->slaves, &lane, &o, &a, &err), &err, "cm");
    struct row r = {.engine = async ? "cm-async" : "cm-sync",
                    .rounds = a.rounds + a.hops,
                    .values = a.counts.values,
                    .messages = a.counts.batches + a.counts.acks,
                    .bytes = a.counts.bytes + a.match_bytes,
                    .root = a.root_messages + 2 * a.hops,
                    .slaves_s = cpu_s() - begun};
    same(r.engine, a.t_max, s);
    cm_answer_release(&a);
    return r;
}

static struct row run_contract(const struct ips_machine_graph *parts,
                               const struct synth *s)
{
    struct ips_err err = {0};
    struct ips_machine_joins *part = calloc(s->slaves, sizeof(*part));
    struct row r = {.engine = "contract", .rounds = 3, .through_master = true};
    struct ips_joined all;
    struct ips_path_section *visit;
    uint64_t visits;
    uint32_t blame;
    if (!part)
        abort();
    double begun = cpu_s();
    for (uint32_t i = 0; i < s->slaves; i++) {
        struct ips_joins j;
        must(ips_joins_compute_and_encode(parts[i].g, &lane, &j, &err), &err,
             "joins");
        size_t len = j.head.len + j.arcs.len;
        uint8_t *data = calloc(len + IPS_JOINS_PAD, 1);
        if (!data)
            abort();
        memcpy(data, j.head.data, j.head.len);
        if (j.arcs.len)
            memcpy(data + j.head.len, j.arcs.data, j.arcs.len);
        part[i] = (struct ips_machine_joins){data, len, parts[i].g->node_count,
                                             parts[i].peer, parts[i].end_count};
        r.bytes += len + (uint64_t)parts[i].g->in_count * VALUE_BYTES;
        r.values += parts[i].g->in_count;
        ips_joins_release(&j);
    }
    r.slaves_s = 2 * (cpu_s() - begun); /* FinishAsk computes it again */
    begun = cpu_s();
    must(
        ips_joined_decode_and_solve(part, s->slaves, &lane, &all, &blame, &err),
        &err, "solve");
    must(ips_joined_list_path_sections(&all, &visit, &visits, &err), &err,
         "walk");
    r.master_s = cpu_s() - begun;
    r.messages = r.root = 4ull * s->slaves;
    same(r.engine, all.t_max, s);
    for (uint32_t i = 0; i < s->slaves; i++)
        free((void *)(uintptr_t)part[i].data);
    free(visit);
    ips_joined_release(&all);
    free(part);
    return r;
}

static struct row run_central(const struct synth *s, bool pdm)
{
    struct ips_err err = {0};
    struct ips_est e;
    struct row r = {.engine = pdm ? "pdm" : "central",
                    .rounds = 1,
                    .messages = 2ull * s->slaves,
                    .root = 2ull * s->slaves,
                    .bytes = (uint64_t)s->whole.node_count * GRAPH_BYTES,
                    .through_master = true};
    double begun = cpu_s();
    int rc =
        pdm ? ips_longest_path_by_label_correcting(&s->whole, &lane, &e, &err)
            : ips_longest_path_compute_ests(&s->whole, &lane, NULL, &e, &err);
    r.master_s = cpu_s() - begun;
    if (rc == IPS_E_LIMIT) { /* its worst case is exponential */
        r.engine = "pdm (gave up)";
        return r;
    }
    must(rc, &err, r.engine);
    same(r.engine, e.t_max, s);
    ips_est_release(&e);
    return r;
}

static void run_pattern(const struct synth_options *o)
{
    struct ips_err err = {0};
    struct synth s;
    const char *name = synth_pattern_names[o->pattern];
    must(synth_graphs(o, true, &s, &err), &err, name);
    struct ips_machine_graph *parts = calloc(s.slaves, sizeof(*parts));
    if (!parts)
        abort();
    for (uint32_t i = 0; i < s.slaves; i++)
        parts[i] =
            (struct ips_machine_graph){&s.part[i], s.peer[i], s.end_count[i]};
    printf("# %s: %u nodes, %u messages, %u between machines\n", name,
           s.whole.node_count, s.messages, s.crossing);
    const struct row rows[] = {run_cm(parts, &s, false),
                               run_cm(parts, &s, true), run_contract(parts, &s),
                               run_central(&s, false), run_central(&s, true)};
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        print_row(name, &rows[i], s.slaves);
    free(parts);
    synth_release(&s);
}

int main(int argc, char **argv)
{
    uint32_t nodes = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 20000;
    uint32_t slaves = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 256;
    uint32_t threads = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : slaves;
    printf("%-9s %-9s %8s %10s %10s %12s %8s %10s %9s %9s %9s\n", "pattern",
           "engine", "rounds", "values", "messages", "bytes", "root",
           "slaves ms", "master ms", "1G ms", "100M ms");
    for (int p = 0; p < SYNTH_PATTERN_COUNT; p++) {
        struct synth_options o = synth_default((enum synth_pattern)p);
        if (argc > 4 && strcmp(argv[4], synth_pattern_names[p]) != 0)
            continue;
        o.nodes = nodes;
        o.slaves = slaves;
        o.threads = threads > slaves ? threads : slaves;
        o.cyclic = true; /* neighbours are on different machines */
        run_pattern(&o);
    }
    return 0;
}
