/*
 * A chain's nodes are ordered until one has a cross arc from a node that is not
 * ordered yet (DONE); then the chain waits on that node. In order_all_chains()
 * the array `slot` serves as list heads: slot[i] is the first chain that waits
 * on node i, and `next` links the others.
 */
#include "analysis/whatif/order.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/graph/kernel.h"

#define DONE (UINT32_MAX - 1)
#define NO_CHAIN UINT32_MAX

struct maker {
    const struct ips_graph *g;
    struct ips_cross_arc_weighting arcs;
    struct ips_computation_order *out;
    uint64_t run_cap;
    uint32_t *pos;   /* [chain_count] next node to order */
    uint32_t *next;  /* [chain_count] next chain that waits on the same node */
    uint32_t *ready; /* stack of chains that can continue, each at most once */
    uint32_t ready_count;
};

void ips_computation_order_release(struct ips_computation_order *o)
{
    free(o->run);
    free(o->slot);
    memset(o, 0, sizeof(*o));
}

static int append_chain_run_to_order(struct maker *m, uint32_t chain,
                                     uint32_t first, uint32_t end,
                                     struct ips_err *err)
{
    struct ips_computation_order *o = m->out;
    if (first == end)
        return 0;
    if (o->run_count == m->run_cap) {
        uint64_t cap = m->run_cap * 2 + 64;
        struct ips_chain_run *more = realloc(o->run, cap * sizeof(*more));
        if (!more)
            return ips_err_set(err, IPS_E_NO_MEMORY, "order of %u nodes",
                               m->g->node_count);
        o->run = more;
        m->run_cap = cap;
    }
    o->run[o->run_count++] = (struct ips_chain_run){chain, first, end - first};
    return 0;
}

static int order_chain_and_ready_waiting_chains(struct maker *m, uint32_t c,
                                                struct ips_err *err)
{
    const struct ips_graph *g = m->g;
    uint32_t *head = m->out->slot;
    uint32_t begun = m->pos[c], i = begun;
    uint32_t end = g->chains[c].first + g->chains[c].count;
    for (; i < end; i++) {
        if (ips_has_local_cross_arc(g, &m->arcs, i) &&
            head[g->xpred[i]] != DONE) {
            m->next[c] = head[g->xpred[i]];
            head[g->xpred[i]] = c;
            break;
        }
        for (uint32_t w = head[i]; w != NO_CHAIN; w = m->next[w])
            m->ready[m->ready_count++] = w;
        head[i] = DONE;
    }
    m->pos[c] = i;
    return append_chain_run_to_order(m, c, begun, i, err);
}

static int order_all_chains(struct maker *m, struct ips_err *err)
{
    const struct ips_graph *g = m->g;
    uint64_t done = 0;
    int rc = 0;
    for (uint32_t c = 0; c < g->chain_count; c++)
        m->pos[c] = g->chains[c].first;
    for (uint32_t c = 0; c < g->chain_count && rc == 0; c++) {
        rc = order_chain_and_ready_waiting_chains(m, c, err);
        while (m->ready_count && rc == 0)
            rc = order_chain_and_ready_waiting_chains(
                m, m->ready[--m->ready_count], err);
    }
    for (uint64_t r = 0; r < m->out->run_count; r++)
        done += m->out->run[r].count;
    if (rc == 0 && done != g->node_count)
        rc = ips_err_set(
            err, IPS_E_STALLED, "a cycle holds up %llu of %u nodes",
            (unsigned long long)(g->node_count - done), g->node_count);
    return rc;
}

/* Assigns a slot to each node that a cross arc leaves, in the order in which
 * the nodes are computed. */
static int assign_value_slots(struct maker *m, struct ips_err *err)
{
    const struct ips_graph *g = m->g;
    struct ips_computation_order *o = m->out;
    uint32_t *left = calloc((size_t)g->node_count + 1, sizeof(*left));
    uint32_t *spare = malloc(((size_t)g->node_count + 1) * sizeof(*spare));
    uint32_t spare_count = 0;
    if (!left || !spare) {
        free(left);
        free(spare);
        return ips_err_set(err, IPS_E_NO_MEMORY, "order of %u nodes",
                           g->node_count);
    }
    memset(o->slot, 0xff, (size_t)g->node_count * sizeof(*o->slot));
    for (uint32_t i = 0; i < g->node_count; i++) {
        if (ips_has_local_cross_arc(g, &m->arcs, i))
            left[g->xpred[i]]++;
    }
    for (uint64_t r = 0; r < o->run_count; r++) {
        uint32_t first = o->run[r].first, end = first + o->run[r].count;
        for (uint32_t i = first; i < end; i++) {
            if (ips_has_local_cross_arc(g, &m->arcs, i) &&
                --left[g->xpred[i]] == 0)
                spare[spare_count++] = o->slot[g->xpred[i]];
            if (left[i])
                o->slot[i] =
                    spare_count ? spare[--spare_count] : o->slot_count++;
        }
    }
    free(left);
    free(spare);
    return 0;
}

int ips_computation_order_make(const struct ips_graph *g,
                               const struct ips_scenario *scenario,
                               struct ips_computation_order *out,
                               struct ips_err *err)
{
    struct maker m = {.g = g, .out = out};
    int rc = 0;
    memset(out, 0, sizeof(*out));
    if (g->in_count)
        return ips_err_set(err, IPS_E_USAGE,
                           "%u remote references without values", g->in_count);
    if (g->chain_count >= DONE)
        return ips_err_set(err, IPS_E_LIMIT, "%u chains", g->chain_count);
    ips_cross_arc_weighting_init(&m.arcs, scenario);
    size_t chains = (size_t)g->chain_count + 1;
    m.pos = malloc(chains * sizeof(*m.pos));
    m.next = malloc(chains * sizeof(*m.next));
    m.ready = malloc(chains * sizeof(*m.ready));
    out->slot = malloc(((size_t)g->node_count + 1) * sizeof(*out->slot));
    if (m.pos && m.next && m.ready && out->slot) {
        memset(out->slot, 0xff, (size_t)g->node_count * sizeof(*out->slot));
        rc = order_all_chains(&m, err);
        if (rc == 0)
            rc = assign_value_slots(&m, err);
    } else {
        rc = ips_err_set(err, IPS_E_NO_MEMORY, "order of %u nodes",
                         g->node_count);
    }
    free(m.pos);
    free(m.next);
    free(m.ready);
    if (rc < 0)
        ips_computation_order_release(out);
    return rc;
}
