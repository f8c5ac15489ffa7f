/*
 * Contraction. A partial run of the kernel computes all that depends on no
 * remote in: per chain, the nodes before reached[c]. Of these only remote outs,
 * sources of arcs into the rest, and the best END matter to others, and all
 * they need is the value. Behind reached[c] a node without a cross arc is only
 * passed through: its weight goes to the next kept one.
 *
 * Why ties survive: every kept node has the same two candidates as in the full
 * graph (a sum of chain arcs does not depend on where it is cut), kept nodes
 * keep their order, and an END left out has a lesser value, or an equal one and
 * a higher index, than the END kept.
 */
#include "analysis/contract.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/kernel.h"
#include "common/large.h"

struct contraction {
    const struct ips_graph *full;
    const struct ips_lane *lane;
    struct ips_arcs arcs;
    struct ips_est e;  /* of what is folded */
    uint32_t *reached; /* [chain_count] */
    uint32_t *map;     /* [node_count] kept: reduced node; else IPS_NO_NODE */
    uint32_t nodes, chains;
};

void ips_reduced_release(struct ips_reduced *r)
{
    ips_graph_release(&r->g);
    ips_free_large(r->origin);
    memset(r, 0, sizeof(*r));
}

/* Marks what is kept: map[i] = 0. */
static void mark_kept(struct contraction *c)
{
    const struct ips_graph *g = c->full;
    struct ips_est best = {.est = c->e.est, .end = IPS_NO_NODE};
    for (uint32_t k = 0; k < g->in_count; k++)
        c->map[g->in[k].node] = 0;
    for (uint32_t k = 0; k < g->out_count; k++)
        c->map[g->out[k].node] = 0;
    for (uint32_t t = 0; t < g->chain_count; t++) {
        uint32_t end = g->chains[t].first + g->chains[t].count;
        if (c->reached[t] == end) {
            ips_est_offer(&best, g, c->lane, t);
            continue;
        }
        for (uint32_t i = c->reached[t]; i < end; i++) {
            if (ips_arc_present(g, &c->arcs, i))
                c->map[i] = c->map[g->xpred[i]] = 0;
        }
        if (g->kind[end - 1] == IPS_NODE_END)
            c->map[end - 1] = 0;
    }
    if (best.end != IPS_NO_NODE)
        c->map[best.end] = 0;
}

/* Numbers the kept nodes; a folded one is a chain of its own. */
static void number_kept(struct contraction *c)
{
    const struct ips_graph *g = c->full;
    for (uint32_t t = 0; t < g->chain_count; t++) {
        uint32_t i = g->chains[t].first, end = i + g->chains[t].count;
        for (; i < c->reached[t]; i++) {
            if (c->map[i] != IPS_NO_NODE) {
                c->map[i] = c->nodes++;
                c->chains++;
            }
        }
        uint32_t before = c->nodes;
        for (; i < end; i++) {
            if (c->map[i] != IPS_NO_NODE)
                c->map[i] = c->nodes++;
        }
        c->chains += c->nodes > before;
    }
}

static void copy_node(const struct contraction *c, uint32_t i, uint64_t w,
                      struct ips_reduced *out)
{
    const struct ips_graph *g = c->full;
    uint32_t to = c->map[i];
    out->origin[to] = i;
    out->g.kind[to] = g->kind[i];
    out->g.w[to] = w;
    out->g.t_ns[to] = g->t_ns ? g->t_ns[i] : 0;
    if (g->site)
        out->g.site[to] = g->site[i];
    if (out->g.at) {
        out->g.at[to] = g->at[i];
        out->g.wait[to] = g->wait[i];
    }
}

static void new_chain(const struct ips_chain *from, uint32_t first,
                      uint32_t count, struct ips_chain *to)
{
    *to = *from;
    to->first = first;
    to->count = count;
}

static int fill_chains(const struct contraction *c, struct ips_reduced *out,
                       struct ips_err *err)
{
    const struct ips_graph *g = c->full;
    struct ips_chain *next = out->g.chains;
    for (uint32_t t = 0; t < g->chain_count; t++) {
        uint32_t i = g->chains[t].first, end = i + g->chains[t].count;
        uint64_t w = 0;
        for (; i < c->reached[t]; i++) {
            if (c->map[i] == IPS_NO_NODE)
                continue;
            copy_node(c, i, c->e.est[i], out);
            new_chain(&g->chains[t], c->map[i], 1, next++);
        }
        if (i > g->chains[t].first)
            w = c->e.est[i - 1];
        uint32_t first = IPS_NO_NODE, count = 0;
        for (; i < end; i++) {
            if (g->w[i] >= IPS_TIME_LIMIT || w + g->w[i] >= IPS_TIME_LIMIT)
                return ips_err_set(err, IPS_E_LIMIT,
                                   "times add up to more than 2^62 ns: "
                                   "damaged weights");
            w += g->w[i];
            if (c->map[i] == IPS_NO_NODE)
                continue;
            copy_node(c, i, w, out);
            if (ips_arc_present(g, &c->arcs, i)) {
                out->g.xpred[c->map[i]] = c->map[g->xpred[i]];
                out->g.xkind[c->map[i]] = g->xkind[i];
                out->g.xlen[c->map[i]] = g->xlen[i];
            }
            first = count++ ? first : c->map[i];
            w = 0;
        }
        if (count)
            new_chain(&g->chains[t], first, count, next++);
    }
    return 0;
}

static int fill_remote(const struct contraction *c, struct ips_reduced *out,
                       struct ips_err *err)
{
    const struct ips_graph *g = c->full;
    out->g.in = ips_calloc_large((size_t)g->in_count + 1, sizeof(*out->g.in));
    out->g.out =
        ips_calloc_large((size_t)g->out_count + 1, sizeof(*out->g.out));
    if (!out->g.in || !out->g.out)
        return ips_err_set(err, IPS_E_NO_MEMORY, "%u remote arcs", g->in_count);
    for (uint32_t k = 0; k < g->in_count; k++) {
        uint32_t i = g->in[k].node, to = c->map[i];
        out->g.in[k] = g->in[k];
        out->g.in[k].node = to;
        out->g.xkind[to] = g->xkind[i];
        out->g.xlen[to] = g->xlen[i];
    }
    for (uint32_t k = 0; k < g->out_count; k++) {
        out->g.out[k] = g->out[k];
        out->g.out[k].node = c->map[g->out[k].node];
    }
    if (g->out_ns) {
        size_t n = g->out_count;
        out->g.out_ns = ips_calloc_large(n + 1, sizeof(*out->g.out_ns));
        if (!out->g.out_ns)
            return ips_err_set(err, IPS_E_NO_MEMORY, "%zu remote arcs", n);
        memcpy(out->g.out_ns, g->out_ns, n * sizeof(*g->out_ns));
    }
    out->g.in_count = g->in_count;
    out->g.out_count = g->out_count;
    return 0;
}

int ips_contract(const struct ips_graph *full, const struct ips_lane *lane,
                 struct ips_reduced *out, struct ips_err *err)
{
    struct contraction c = {.full = full, .lane = lane};
    int rc = 0;
    memset(out, 0, sizeof(*out));
    ips_arcs_init(&c.arcs, lane);
    c.reached = malloc(((size_t)full->chain_count + 1) * sizeof(*c.reached));
    c.map = ips_alloc_large((size_t)full->node_count + 1, sizeof(*c.map));
    if (!c.reached || !c.map) {
        rc = ips_err_set(err, IPS_E_NO_MEMORY, "contraction of %u nodes",
                         full->node_count);
        goto out;
    }
    memset(c.map, 0xff, (size_t)full->node_count * sizeof(*c.map));
    rc = ips_kernel_partial(full, lane, &c.e, c.reached, err);
    if (rc < 0)
        goto out;
    mark_kept(&c);
    number_kept(&c);
    rc = ips_graph_alloc(&out->g, c.nodes, c.chains, err);
    if (rc < 0)
        goto out;
    out->origin = ips_calloc_large((size_t)c.nodes + 1, sizeof(*out->origin));
    if (!out->origin) {
        rc = ips_err_set(err, IPS_E_NO_MEMORY, "%u nodes", c.nodes);
        goto out;
    }
    if (lane->weighting == IPS_WEIGH_WALL)
        rc = ips_graph_alloc_times(&out->g, err);
    if (rc == 0)
        rc = fill_chains(&c, out, err);
    if (rc == 0)
        rc = fill_remote(&c, out, err);
    out->total = ips_graph_total(full);
out:
    free(c.reached);
    ips_free_large(c.map);
    ips_est_release(&c.e);
    if (rc < 0)
        ips_reduced_release(out);
    return rc;
}

int ips_contract_most(const struct ips_graph *g, uint64_t *most,
                      struct ips_err *err)
{
    uint8_t *kept = calloc((size_t)g->node_count + 1, 1);
    *most = 0;
    if (!kept)
        return ips_err_set(err, IPS_E_NO_MEMORY, "%u nodes", g->node_count);
    for (uint32_t k = 0; k < g->in_count; k++)
        kept[g->in[k].node] = 1;
    for (uint32_t k = 0; k < g->out_count; k++)
        kept[g->out[k].node] = 1;
    for (uint32_t i = 0; i < g->node_count; i++)
        if (g->xpred[i] != IPS_NO_NODE)
            kept[i] = kept[g->xpred[i]] = 1;
    for (uint32_t c = 0; c < g->chain_count; c++)
        if (g->chains[c].count)
            kept[g->chains[c].first + g->chains[c].count - 1] = 1;
    for (uint32_t i = 0; i < g->node_count; i++)
        *most += kept[i];
    free(kept);
    return 0;
}
