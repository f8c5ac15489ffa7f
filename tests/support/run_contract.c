/* `contract` as the master and the slaves do it, in one process. */
#include "tests/support/random_graph.h"

#include <stdlib.h>
#include <string.h>

void rg_answer_release(struct rg_answer *a)
{
    ips_path_release(&a->path);
    free(a->est);
    free(a->crossed);
    memset(a, 0, sizeof(*a));
}

/* What the master keeps between the steps. */
struct run {
    const struct rg *r;
    const struct ips_lane *lane;
    struct ips_reduced red[RG_MACHINES];
    struct ips_graph merged;
    uint32_t base[RG_MACHINES];
    struct ips_est solved;
    struct ips_est full[RG_MACHINES];
};

static int merge_parts(struct run *run, struct rg_answer *out,
                       struct ips_err *err)
{
    struct ips_part parts[RG_MACHINES];
    for (uint32_t m = 0; m < run->r->machines; m++) {
        int rc = ips_contract(&run->r->part[m], run->lane, &run->red[m], err);
        if (rc == 0)
            rc = ips_graph_check(&run->red[m].g, err);
        if (rc < 0)
            return rc;
        parts[m] = (struct ips_part){&run->red[m].g, run->r->peer[m],
                                     run->r->end_count[m]};
        out->total += run->red[m].total;
        out->kept += run->red[m].g.node_count;
    }
    return ips_graph_merge(parts, run->r->machines, run->lane, &run->merged,
                           run->base, &out->unmatched, err);
}

/* FinishAsk: each machine gets the values of its remote ins and solves. */
static int finish_part(struct run *run, uint32_t m, struct rg_answer *out,
                       struct ips_err *err)
{
    const struct ips_graph *red = &run->red[m].g, *full = &run->r->part[m];
    uint64_t *value = calloc((size_t)red->in_count + 1, sizeof(*value));
    if (!value)
        abort();
    for (uint32_t k = 0; k < red->in_count; k++) {
        uint32_t i = run->base[m] + red->in[k].node;
        bool present;
        uint64_t xw = ips_xweight(&run->merged, i, run->lane, &present);
        value[k] = run->merged.xpred[i] == IPS_NO_NODE
                       ? IPS_IN_ABSENT
                       : run->solved.est[run->merged.xpred[i]] + xw;
    }
    int rc = ips_longest_path(full, run->lane, value, &run->full[m], err);
    free(value);
    if (rc < 0)
        return rc;
    memcpy(out->est + run->r->base[m], run->full[m].est,
           full->node_count * sizeof(*out->est));
    memcpy(out->crossed + run->r->base[m], run->full[m].crossed,
           full->node_count);
    return 0;
}

static uint32_t machine_of(const struct run *run, uint32_t merged_node)
{
    uint32_t m = run->r->machines - 1;
    while (run->base[m] > merged_node || run->red[m].g.node_count == 0)
        m--;
    return m;
}

static uint32_t whole_node(const struct run *run, uint32_t merged_node)
{
    uint32_t m = machine_of(run, merged_node);
    return run->r->base[m] + run->red[m].origin[merged_node - run->base[m]];
}

static uint32_t whole_chain(const struct ips_graph *g, uint32_t node)
{
    uint32_t c = 0;
    while (node >= g->chains[c].first + g->chains[c].count)
        c++;
    return c;
}

/* ExpandAsk: a piece of the reduced path on the machine it lies on. */
static int expand(struct run *run, const struct ips_path_segment *seg,
                  struct rg_answer *out, struct ips_err *err)
{
    const struct ips_graph *whole = &run->r->whole;
    struct ips_path_segment s = *seg;
    if (seg->kind != IPS_SEG_COMPUTE) {
        s.from = whole_node(run, seg->from);
        s.to = whole_node(run, seg->to);
        s.chain = whole_chain(whole, s.to);
        return ips_path_push(&out->path, &s, err);
    }
    uint32_t m = machine_of(run, seg->to), base = run->r->base[m];
    uint32_t from = seg->from == IPS_NO_NODE
                        ? IPS_NO_NODE
                        : whole_node(run, seg->from) - base;
    struct ips_path piece;
    int rc = ips_path_between(&run->r->part[m], run->lane, &run->full[m], from,
                              whole_node(run, seg->to) - base, &piece, err);
    for (uint64_t k = 0; rc == 0 && k < piece.count; k++) {
        s = piece.seg[k];
        s.from += base;
        s.to += base;
        s.chain = whole_chain(whole, s.to);
        rc = ips_path_push(&out->path, &s, err);
    }
    ips_path_release(&piece);
    return rc;
}

static int solve(struct run *run, struct rg_answer *out, struct ips_err *err)
{
    struct ips_path reduced = {0};
    uint32_t stop;
    int rc = ips_longest_path(&run->merged, run->lane, NULL, &run->solved, err);
    for (uint32_t m = 0; rc == 0 && m < run->r->machines; m++)
        rc = finish_part(run, m, out, err);
    if (rc < 0)
        return rc;
    out->t_max = run->solved.t_max;
    out->end = whole_node(run, run->solved.end);
    rc = ips_path_walk(&run->merged, run->lane, &run->solved, run->solved.end,
                       &reduced, &stop, err);
    for (uint64_t k = 0; rc == 0 && k < reduced.count; k++)
        rc = expand(run, &reduced.seg[k], out, err);
    ips_path_release(&reduced);
    return rc;
}

int rg_contract(const struct rg *r, const struct ips_lane *lane,
                struct rg_answer *out, struct ips_err *err)
{
    struct run run = {.r = r, .lane = lane};
    memset(out, 0, sizeof(*out));
    out->est = calloc((size_t)r->whole.node_count + 1, sizeof(*out->est));
    out->crossed = calloc((size_t)r->whole.node_count + 1, 1);
    if (!out->est || !out->crossed)
        abort();
    int rc = merge_parts(&run, out, err);
    if (rc == 0)
        rc = solve(&run, out, err);
    for (uint32_t m = 0; m < r->machines; m++) {
        ips_reduced_release(&run.red[m]);
        ips_est_release(&run.full[m]);
    }
    ips_graph_release(&run.merged);
    ips_est_release(&run.solved);
    if (rc < 0)
        rg_answer_release(out);
    return rc;
}
