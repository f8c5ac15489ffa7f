/*
 * Prints random activity graphs as `ipsq graph --format jsonl` does, each
 * followed by a line with the C engines' answers, for the oracle in Python to
 * check: {"seed", "kernel": A, "deque": A, "contract": A} where A has t_max_ns,
 * total_cpu_ns, end, segments [[kind, from, to, ns], ...]; and slack_chain,
 * slack_cross [by node, null: no such arc], gone, third [t_max with each chain
 * faster by all and by 30%], next [t_max of the five longest paths by set of
 * processes].
 *
 * Usage: random_graph FIRST COUNT
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "analysis/whatif/next.h"
#include "analysis/whatif/tail.h"
#include "analysis/whatif/whatif.h"
#include "tests/support/random_graph.h"

static const char *const kind_names[] = {
#define X(name, number) [number] = #name,
    IPS_NODE_KINDS(X)
#undef X
};
static const char *const xkind_names[] = {
#define X(name, number, text) [number] = text,
    IPS_XKINDS(X)
#undef X
};
static const char *const segment_names[] = {"compute", "message", "external"};

static void print_node(const struct ips_graph *g, const struct ips_chain *c,
                       uint32_t i, const struct ips_scenario *lane)
{
    bool present;
    uint64_t xw = ips_cross_arc_weight(g, i, lane, &present);
    printf("{\"id\": %u, \"machine\": \"m%u\", \"pid\": %u, \"tid\": %u, "
           "\"kind\": \"%s\", ",
           i, c->machine + 1, c->pid, c->tid, kind_names[g->kind[i]]);
    if (i == c->first)
        printf("\"pred\": null, \"arc_cpu_ns\": null, ");
    else
        printf("\"pred\": %u, \"arc_cpu_ns\": %" PRIu64 ", ", i - 1, g->w[i]);
    printf("\"arc_sched_ns\": null, \"arc_wall_ns\": null, ");
    if (present && g->xpred[i] != IPS_NO_NODE)
        printf("\"xpred\": %u, \"xarc_cpu_ns\": %" PRIu64
               ", \"xkind\": \"%s\", ",
               g->xpred[i], xw, xkind_names[g->xkind[i]]);
    else
        printf("\"xpred\": null, \"xarc_cpu_ns\": null, \"xkind\": null, ");
    printf("\"xarc_sched_ns\": null, \"xarc_wall_ns\": null}\n");
}

static void print_answer(const char *name, uint64_t t_max, uint64_t total,
                         uint32_t end, const struct ips_path *p)
{
    printf(", \"%s\": {\"t_max_ns\": %" PRIu64 ", \"total_cpu_ns\": %" PRIu64
           ", \"end\": %u, \"segments\": [",
           name, t_max, total, end);
    for (uint64_t k = 0; k < p->count; k++)
        printf("%s[\"%s\", %u, %u, %" PRIu64 "]", k ? ", " : "",
               segment_names[p->seg[k].kind], p->seg[k].from, p->seg[k].to,
               p->seg[k].ns);
    printf("]}");
}

static int engine(const char *name, const struct ips_graph *g,
                  const struct ips_scenario *lane, bool deque,
                  struct ips_err *err)
{
    struct ips_est e;
    struct ips_path p;
    uint32_t stop;
    int rc = deque ? ips_longest_path_by_label_correcting(g, lane, &e, err)
                   : ips_longest_path_compute_ests(g, lane, NULL, &e, err);
    if (rc < 0)
        return rc;
    rc = ips_path_walk_back_and_store(g, lane, &e, e.end, &p, &stop, err);
    if (rc == 0)
        print_answer(name, e.t_max, e.total, e.end, &p);
    ips_path_release(&p);
    ips_est_release(&e);
    return rc;
}

#define NEXT 5
#define PART_PPM 300000

static void print_slacks(const char *name, const struct ips_graph *g,
                         const struct ips_scenario *lane,
                         const struct ips_est *e, const uint64_t *tail,
                         bool cross)
{
    printf(", \"%s\": [", name);
    for (uint32_t c = 0; c < g->chain_count; c++) {
        for (uint32_t k = 0; k < g->chains[c].count; k++) {
            uint32_t i = g->chains[c].first + k;
            uint64_t slack =
                cross ? ips_slack_of_cross_arc(g, lane, e, tail, i)
                      : ips_slack_of_chain_arc(g, e, tail, i, k == 0);
            if (slack == IPS_NO_SLACK)
                printf("%snull", i ? ", " : "");
            else
                printf("%s%" PRIu64, i ? ", " : "", slack);
        }
    }
    printf("]");
}

/* Every chain faster by `ppm`, alone. `own` has the numbers of the chains. */
static int print_faster(const char *name, const struct ips_whatif_base *base,
                        const uint32_t *own, uint32_t ppm, struct ips_err *err)
{
    uint32_t n = base->g->chain_count;
    struct ips_edit *edit = calloc((size_t)n + 1, sizeof(*edit));
    struct ips_change *change = calloc((size_t)n + 1, sizeof(*change));
    struct ips_whatif *out = calloc((size_t)n + 1, sizeof(*out));
    if (!edit || !change || !out)
        abort();
    for (uint32_t c = 0; c < n; c++) {
        edit[c] = (struct ips_edit){own[c], ppm};
        change[c] = (struct ips_change){&edit[c], 1};
    }
    int rc = ips_whatif(base, change, n, out, err);
    printf(", \"%s\": [", name);
    for (uint32_t c = 0; c < n && rc == 0; c++)
        printf("%s%" PRIu64, c ? ", " : "", out[c].t_max);
    printf("]");
    free(edit);
    free(change);
    free(out);
    return rc;
}

static int print_next(const struct ips_graph *g,
                      const struct ips_scenario *lane, const struct ips_est *e,
                      struct ips_err *err)
{
    struct ips_next_paths next;
    uint32_t *label = calloc((size_t)g->chain_count + 1, sizeof(*label));
    if (!label)
        abort();
    for (uint32_t c = 0; c < g->chain_count; c++) /* of a process one */
        label[c] = g->chains[c].machine << 16 | g->chains[c].process;
    struct ips_next_ask ask = {
        .group = IPS_NEXT_SET, .k = NEXT, .chain_label = label};
    int rc = ips_find_longest_paths(g, lane, e, &ask, &next, err);
    printf(", \"next\": [");
    for (uint32_t i = 0; i < next.count; i++)
        printf("%s%" PRIu64, i ? ", " : "", next.path[i].ns);
    printf("]");
    ips_next_paths_release(&next);
    free(label);
    return rc;
}

static int print_more(const struct ips_graph *g,
                      const struct ips_scenario *lane, struct ips_err *err)
{
    struct ips_est e = {0};
    struct ips_computation_order order = {0};
    uint64_t *tail = NULL;
    uint32_t *own = calloc((size_t)g->chain_count + 1, sizeof(*own));
    uint64_t *share = calloc((size_t)g->chain_count + 1, sizeof(*share));
    if (!own || !share)
        abort();
    for (uint32_t c = 0; c < g->chain_count; c++)
        own[c] = c;
    struct ips_features f = {.count = g->chain_count, .chain = own};
    struct ips_whatif_base base = {g, lane, &order, &e, &f, share};
    int rc = ips_longest_path_compute_ests(g, lane, NULL, &e, err);
    if (rc == 0)
        rc = ips_computation_order_make(g, lane, &order, err);
    if (rc == 0)
        rc = ips_compute_tails(g, lane, &order, &tail, err);
    if (rc == 0) {
        print_slacks("slack_chain", g, lane, &e, tail, false);
        print_slacks("slack_cross", g, lane, &e, tail, true);
        (void)ips_sum_path_time_by_feature(g, lane, &e, &f, share);
        rc = print_faster("gone", &base, own, IPS_WHATIF_GONE, err);
    }
    if (rc == 0)
        rc = print_faster("third", &base, own, PART_PPM, err);
    if (rc == 0)
        rc = print_next(g, lane, &e, err);
    ips_est_release(&e);
    ips_computation_order_release(&order);
    free(tail);
    free(own);
    free(share);
    return rc;
}

static int print_graph(uint64_t seed, struct ips_err *err)
{
    struct rg r;
    struct rg_answer a = {0};
    struct rg_options opt = rg_options_of(seed);
    uint64_t s = seed;
    struct ips_scenario lane = {
        .message_time = {rg_below(&s, 3) * rg_below(&s, 20),
                         (uint64_t)rg_below(&s, 2) << 31, 1, 1},
        .external = (enum ips_external)rg_below(&s, 3),
        .order_dependent_off = rg_below(&s, 2)};
    rg_make(&opt, &r);
    const struct ips_graph *g = &r.whole;
    for (uint32_t c = 0; c < g->chain_count; c++) {
        for (uint32_t i = 0; i < g->chains[c].count; i++)
            print_node(g, &g->chains[c], g->chains[c].first + i, &lane);
    }
    printf("{\"seed\": %" PRIu64, seed);
    int rc = engine("kernel", g, &lane, false, err);
    if (rc == 0)
        rc = engine("deque", g, &lane, true, err);
    if (rc == 0)
        rc = rg_contract(&r, &lane, &a, err);
    if (rc == 0)
        print_answer("contract", a.t_max, a.total, a.end, &a.path);
    if (rc == 0)
        rc = print_more(g, &lane, err);
    puts("}");
    rg_answer_release(&a);
    rg_release(&r);
    return rc;
}

int main(int argc, char **argv)
{
    return rg_main(argc, argv, "random_graph", print_graph);
}
