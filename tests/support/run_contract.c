/* `contract` as the master and the slaves do it, in one process. */
#include "tests/support/random_graph.h"

#include "analysis/distributed/joins.h"

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
    const struct ips_scenario *lane;
    uint8_t *data[RG_MACHINES];
    struct ips_joined joined;
    struct ips_est full[RG_MACHINES];
};

/* The bytes of machine m's joins, as they come to the master. */
static int make_part(struct run *run, uint32_t m,
                     struct ips_machine_joins *part, struct rg_answer *out,
                     struct ips_err *err)
{
    struct ips_joins j;
    int rc = ips_joins_compute_and_encode(&run->r->part[m], run->lane, &j, err);
    if (rc < 0)
        return rc;
    size_t len = j.head.len + j.arcs.len;
    run->data[m] = calloc(len + IPS_JOINS_PAD, 1);
    if (!run->data[m])
        abort();
    memcpy(run->data[m], j.head.data, j.head.len);
    if (j.arcs.len)
        memcpy(run->data[m] + j.head.len, j.arcs.data, j.arcs.len);
    *part = (struct ips_machine_joins){.data = run->data[m],
                                       .len = len,
                                       .nodes = run->r->part[m].node_count,
                                       .peer = run->r->peer[m],
                                       .end_count = run->r->end_count[m]};
    out->kept += j.count;
    ips_joins_release(&j);
    return 0;
}

static int merge_parts(struct run *run, struct rg_answer *out,
                       struct ips_err *err)
{
    struct ips_machine_joins parts[RG_MACHINES];
    uint32_t blame;
    for (uint32_t m = 0; m < run->r->machines; m++) {
        int rc = make_part(run, m, &parts[m], out, err);
        if (rc < 0)
            return rc;
    }
    int rc = ips_joined_decode_and_solve(parts, run->r->machines, run->lane,
                                         &run->joined, &blame, err);
    out->unmatched = run->joined.unmatched;
    out->total = run->joined.total;
    return rc;
}

/* FinishAsk: each machine gets the values of its remote ins and solves. */
static int finish_part(struct run *run, uint32_t m, struct rg_answer *out,
                       struct ips_err *err)
{
    const struct ips_graph *full = &run->r->part[m];
    uint64_t *value = calloc((size_t)full->in_count + 1, sizeof(*value));
    if (!value)
        abort();
    for (uint32_t k = 0; k < full->in_count; k++)
        value[k] = ips_joined_get_value_of_receive(&run->joined, m, k);
    int rc = ips_longest_path_compute_ests(full, run->lane, value,
                                           &run->full[m], err);
    free(value);
    if (rc < 0)
        return rc;
    memcpy(out->est + run->r->base[m], run->full[m].est,
           full->node_count * sizeof(*out->est));
    memcpy(out->crossed + run->r->base[m], run->full[m].crossed,
           full->node_count);
    return 0;
}

static uint32_t whole_chain(const struct ips_graph *g, uint32_t node)
{
    uint32_t c = 0;
    while (node >= g->chains[c].first + g->chains[c].count)
        c++;
    return c;
}

/* ExpandAsk: what of the path lies on a machine. The message it goes on by is
 * put behind it by the visit that it comes to. */
static int expand(struct run *run, const struct ips_path_section *v,
                  uint32_t before, uint64_t before_ns, uint32_t *to_node,
                  struct rg_answer *out, struct ips_err *err)
{
    const struct ips_graph *whole = &run->r->whole;
    const struct ips_graph *g = &run->r->part[v->machine];
    uint32_t base = run->r->base[v->machine], from = IPS_NO_NODE;
    uint32_t to =
        v->out == IPS_NO_NODE ? run->joined.end_node : g->out[v->out].node;
    struct ips_path piece;
    int rc = 0;
    if (v->in != IPS_NO_NODE) {
        from = g->in[v->in].node;
        rc = ips_path_append_or_merge_segment(
            &out->path,
            &(struct ips_path_segment){IPS_SEG_MESSAGE, v->xkind,
                                       whole_chain(whole, base + from), before,
                                       base + from, v->from_ns - before_ns},
            err);
    }
    *to_node = base + to;
    if (rc == 0)
        rc = ips_path_find_between(g, run->lane, &run->full[v->machine], from,
                                   to, &piece, err);
    if (rc < 0)
        return rc;
    for (uint64_t k = 0; rc == 0 && k < piece.count; k++) {
        struct ips_path_segment s = piece.seg[k];
        s.from += base;
        s.to += base;
        s.chain = whole_chain(whole, s.to);
        rc = ips_path_append_or_merge_segment(&out->path, &s, err);
    }
    ips_path_release(&piece);
    return rc;
}

static int solve(struct run *run, struct rg_answer *out, struct ips_err *err)
{
    struct ips_path_section *visit = NULL;
    uint64_t count = 0;
    uint32_t node = 0;
    int rc = 0;
    for (uint32_t m = 0; rc == 0 && m < run->r->machines; m++)
        rc = finish_part(run, m, out, err);
    if (rc < 0)
        return rc;
    out->t_max = run->joined.t_max;
    out->end = run->r->base[run->joined.end_machine] + run->joined.end_node;
    rc = ips_joined_list_path_sections(&run->joined, &visit, &count, err);
    for (uint64_t k = 0; rc == 0 && k < count; k++)
        rc = expand(run, &visit[k], node, k ? visit[k - 1].to_ns : 0, &node,
                    out, err);
    free(visit);
    return rc;
}

int rg_contract(const struct rg *r, const struct ips_scenario *lane,
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
        free(run.data[m]);
        ips_est_release(&run.full[m]);
    }
    ips_joined_release(&run.joined);
    if (rc < 0)
        rg_answer_release(out);
    return rc;
}
