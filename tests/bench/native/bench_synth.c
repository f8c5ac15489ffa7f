/*
 * Makes a synthetic run (tests/bench/native/synth.h) and says what it is.
 *
 * Usage: bench_synth PATTERN [--nodes N] [--slaves N] [--threads N] [--cyclic]
 *                    [--seed N] [--len MIN:MAX] [--work MIN:MAX]
 *                    [--pool DIR [--run NAME]] [--jsonl]
 * --pool writes slave k's segments to DIR/k/NAME, to be drained by a slave
 * whose pool is DIR/k. --jsonl prints the merged graph as `ipsq graph` does
 * (MTIME 0), for tests/oracle/path_oracle.py.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "analysis/graph/path.h"
#include "tests/bench/native/synth.h"

static void die(const char *what)
{
    fprintf(stderr, "bench_synth: %s\n", what);
    exit(2);
}

static enum synth_pattern pattern_of(const char *word)
{
    for (int p = 0; p < SYNTH_PATTERN_COUNT; p++)
        if (strcmp(word, synth_pattern_names[p]) == 0)
            return (enum synth_pattern)p;
    fprintf(stderr, "patterns:\n");
#define X(name, w, text) fprintf(stderr, "  %-9s %s\n", w, text);
    SYNTH_PATTERNS(X)
#undef X
    exit(2);
}

static uint32_t number(const char *text)
{
    char *end;
    unsigned long v = strtoul(text, &end, 10);
    if (end == text || *end || v > UINT32_MAX)
        die("a number was expected");
    return (uint32_t)v;
}

static void range(const char *text, uint32_t *low, uint32_t *high)
{
    if (sscanf(text, "%" SCNu32 ":%" SCNu32, low, high) != 2)
        die("a range MIN:MAX was expected");
}

/* ---- the graph in words, as `ipsq graph --format jsonl` ---------------- */

static const char *const kinds[] = {
#define X(name, number) #name,
    IPS_NODE_KINDS(X)
#undef X
};
static const char *const xkinds[] = {
#define X(name, number, text) text,
    IPS_XKINDS(X)
#undef X
};

static void print_jsonl(const struct ips_graph *g)
{
    for (uint32_t c = 0; c < g->chain_count; c++) {
        const struct ips_chain *ch = &g->chains[c];
        for (uint32_t i = ch->first; i < ch->first + ch->count; i++) {
            char x[16] = "null", pred[16] = "null";
            if (g->xpred[i] != IPS_NO_NODE)
                snprintf(x, sizeof(x), "%u", g->xpred[i]);
            if (i > ch->first)
                snprintf(pred, sizeof(pred), "%u", i - 1);
            printf("{\"id\":%u,\"machine\":\"m%u\",\"pid\":%u,\"tid\":%u,"
                   "\"kind\":\"%s\",\"pred\":%s,\"arc_cpu_ns\":%" PRIu64
                   ",\"arc_sched_ns\":0,\"arc_wall_ns\":0,\"xpred\":%s,"
                   "\"xarc_cpu_ns\":0,\"xarc_sched_ns\":0,\"xarc_wall_ns\":0,"
                   "\"xkind\":\"%s\"}\n",
                   i, ch->machine, ch->pid, ch->tid, kinds[g->kind[i]], pred,
                   g->w[i], x, xkinds[g->xkind[i]]);
        }
    }
}

struct told {
    uint64_t t_max, operations;
};
static void tell(void *arg, const struct synth_op *op)
{
    struct told *told = arg;
    told->operations += op->kind == SYNTH_SEND || op->kind == SYNTH_RECV;
    if (op->kind == SYNTH_END && op->est > told->t_max)
        told->t_max = op->est;
}

static void write_pools(const struct synth_options *o, const char *pool,
                        const char *run)
{
    char dir[3000];
    struct ips_err err;
    (void)mkdir(pool, 0700);
    for (uint32_t m = 0; m < o->slaves; m++) {
        snprintf(dir, sizeof(dir), "%s/%u", pool, m);
        (void)mkdir(dir, 0700);
        if (synth_pool(o, m, dir, run, &err) < 0)
            die(err.msg);
    }
    struct told told = {0};
    if (synth_walk(o, tell, &told, &err) < 0)
        die(err.msg);
    printf("operations=%" PRIu64 " t_max=%" PRIu64 "\n", told.operations,
           told.t_max);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"nodes", 1, 0, 'n'},
                                            {"slaves", 1, 0, 's'},
                                            {"threads", 1, 0, 't'},
                                            {"cyclic", 0, 0, 'c'},
                                            {"seed", 1, 0, 'S'},
                                            {"len", 1, 0, 'l'},
                                            {"work", 1, 0, 'w'},
                                            {"pool", 1, 0, 'p'},
                                            {"run", 1, 0, 'r'},
                                            {"jsonl", 0, 0, 'j'},
                                            {0}};
    if (argc < 2)
        pattern_of("");
    struct synth_options o = synth_default(pattern_of(argv[1]));
    const char *pool = NULL, *run = "synth";
    bool jsonl = false;
    optind = 2;
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (c) {
        case 'n':
            o.nodes = number(optarg);
            break;
        case 's':
            o.slaves = number(optarg);
            break;
        case 't':
            o.threads = number(optarg);
            break;
        case 'c':
            o.cyclic = true;
            break;
        case 'S':
            o.seed = number(optarg);
            break;
        case 'l':
            range(optarg, &o.len_min, &o.len_max);
            break;
        case 'w':
            range(optarg, &o.work_min, &o.work_max);
            break;
        case 'p':
            pool = optarg;
            break;
        case 'r':
            run = optarg;
            break;
        case 'j':
            jsonl = true;
            break;
        default:
            return 2;
        }
    }
    struct ips_err err;
    if (pool) {
        write_pools(&o, pool, run);
        return 0;
    }
    struct synth s;
    struct ips_est e;
    static const struct ips_scenario lane = {.message_time = {0, 0, 1, 1}};
    if (synth_graphs(&o, true, &s, &err) < 0 ||
        ips_graph_check_invariants(&s.whole, &err) < 0 ||
        ips_longest_path_compute_ests(&s.whole, &lane, NULL, &e, &err) < 0)
        die(err.msg);
    if (jsonl)
        print_jsonl(&s.whole);
    else
        printf("pattern=%s nodes=%u chains=%u messages=%u crossing=%u "
               "t_max=%" PRIu64 " total=%" PRIu64 " kernel=%" PRIu64 "\n",
               argv[1], s.whole.node_count, s.whole.chain_count, s.messages,
               s.crossing, s.t_max, e.total, e.t_max);
    ips_est_release(&e);
    synth_release(&s);
    return 0;
}
