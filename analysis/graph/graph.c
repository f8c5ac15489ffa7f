#include "analysis/graph/graph.h"

#include <stdlib.h>
#include <string.h>

#include "common/large.h"

void ips_graph_init(struct ips_graph *g)
{
    memset(g, 0, sizeof(*g));
}

void ips_graph_release(struct ips_graph *g)
{
    free(g->chains);
    ips_free_large(g->kind);
    ips_free_large(g->w);
    ips_free_large(g->xpred);
    ips_free_large(g->xkind);
    ips_free_large(g->xlen);
    ips_free_large(g->t_ns);
    ips_free_large(g->site);
    ips_free_large(g->at);
    ips_free_large(g->wait);
    ips_free_large(g->delay);
    ips_free_large(g->probe);
    ips_free_large(g->unended);
    ips_free_large(g->in);
    ips_free_large(g->out);
    ips_free_large(g->out_ns);
    ips_free_large(g->bytes);
    ips_graph_init(g);
}

static int allocate_columns(struct ips_graph *g, uint32_t nodes,
                            uint32_t chains, void *(*column)(size_t, size_t),
                            struct ips_err *err)
{
    if (nodes == IPS_NO_NODE)
        return ips_err_set(err, IPS_E_LIMIT, "a graph of %u nodes", nodes);
    ips_graph_init(g);
    /* + 1: calloc(0) may return NULL, which would look like a failure. */
    size_t n = (size_t)nodes + 1;
    g->chains = calloc((size_t)chains + 1, sizeof(*g->chains));
    g->kind = column(n, sizeof(*g->kind));
    g->w = column(n, sizeof(*g->w));
    g->xpred = column(n, sizeof(*g->xpred));
    g->xkind = column(n, sizeof(*g->xkind));
    g->xlen = column(n, sizeof(*g->xlen));
    g->t_ns = column(n, sizeof(*g->t_ns));
    g->site = column(n, sizeof(*g->site));
    if (!g->chains || !g->kind || !g->w || !g->xpred || !g->xkind || !g->xlen ||
        !g->t_ns || !g->site) {
        ips_graph_release(g);
        return ips_err_set(err, IPS_E_NO_MEMORY, "graph of %u nodes", nodes);
    }
    g->node_count = nodes;
    g->chain_count = chains;
    return 0;
}

int ips_graph_alloc_uncleared(struct ips_graph *g, uint32_t nodes,
                              uint32_t chains, struct ips_err *err)
{
    return allocate_columns(g, nodes, chains, ips_alloc_large, err);
}

int ips_graph_alloc(struct ips_graph *g, uint32_t nodes, uint32_t chains,
                    struct ips_err *err)
{
    int rc = allocate_columns(g, nodes, chains, ips_calloc_large, err);
    if (rc < 0)
        return rc;
    size_t n = (size_t)nodes + 1;
    memset(g->xpred, 0xff, n * sizeof(*g->xpred)); /* 0xffffffff is
                                                      IPS_NO_NODE */
    memset(g->site, 0xff, n * sizeof(*g->site));
    return 0;
}

void ips_graph_shrink(struct ips_graph *g, uint32_t nodes)
{
    size_t n = (size_t)nodes + 1;
    ips_trim_large_array(g->kind, n * sizeof(*g->kind));
    ips_trim_large_array(g->w, n * sizeof(*g->w));
    ips_trim_large_array(g->xpred, n * sizeof(*g->xpred));
    ips_trim_large_array(g->xkind, n * sizeof(*g->xkind));
    ips_trim_large_array(g->xlen, n * sizeof(*g->xlen));
    ips_trim_large_array(g->t_ns, n * sizeof(*g->t_ns));
    ips_trim_large_array(g->site, n * sizeof(*g->site));
    ips_trim_large_array(g->at, n * sizeof(*g->at));
    ips_trim_large_array(g->wait, n * sizeof(*g->wait));
    ips_trim_large_array(g->delay, n * sizeof(*g->delay));
    ips_trim_large_array(g->probe, n * sizeof(*g->probe));
    g->node_count = nodes;
}

uint32_t ips_chain_of(const struct ips_graph *g, uint32_t i)
{
    uint32_t low = 0, high = g->chain_count;
    while (high - low > 1) {
        uint32_t mid = low + (high - low) / 2;
        if (g->chains[mid].first <= i)
            low = mid;
        else
            high = mid;
    }
    return low;
}

int ips_graph_alloc_times(struct ips_graph *g, struct ips_err *err)
{
    size_t n = (size_t)g->node_count + 1;
    g->at = ips_calloc_large(n, sizeof(*g->at));
    g->wait = ips_calloc_large(n, sizeof(*g->wait));
    g->delay = ips_calloc_large(n, sizeof(*g->delay));
    if (!g->at || !g->wait || !g->delay)
        return ips_err_set(err, IPS_E_NO_MEMORY, "times of %u nodes",
                           g->node_count);
    return 0;
}

int ips_graph_alloc_probe_column(struct ips_graph *g, struct ips_err *err)
{
    g->probe = ips_calloc_large((size_t)g->node_count + 1, sizeof(*g->probe));
    if (!g->probe)
        return ips_err_set(err, IPS_E_NO_MEMORY, "probes of %u nodes",
                           g->node_count);
    return 0;
}

int ips_graph_alloc_unended_wait_column(struct ips_graph *g,
                                        struct ips_err *err)
{
    g->unended =
        ips_calloc_large((size_t)g->node_count + 1, sizeof(*g->unended));
    if (!g->unended)
        return ips_err_set(err, IPS_E_NO_MEMORY, "waits of %u nodes",
                           g->node_count);
    return 0;
}

static int check_chains(const struct ips_graph *g, struct ips_err *err)
{
    uint64_t next = 0;
    for (uint32_t c = 0; c < g->chain_count; c++) {
        const struct ips_chain *ch = &g->chains[c];
        if (ch->first != next || ch->count == 0)
            return ips_err_set(err, IPS_E_CORRUPT,
                               "chain %u begins at node %u with %u nodes, "
                               "expected at %llu with at least 1",
                               c, ch->first, ch->count,
                               (unsigned long long)next);
        next += ch->count;
        if (next > g->node_count)
            break;
        for (uint32_t i = ch->first; i < next; i++) {
            if (g->kind[i] == IPS_NODE_START && i != ch->first)
                return ips_err_set(err, IPS_E_CORRUPT,
                                   "chain %u: START in the middle (node %u)", c,
                                   i);
            if (g->kind[i] == IPS_NODE_END && i + 1 != next)
                return ips_err_set(err, IPS_E_CORRUPT,
                                   "chain %u: END in the middle (node %u)", c,
                                   i);
        }
    }
    if (next != g->node_count)
        return ips_err_set(err, IPS_E_CORRUPT, "chains hold %llu nodes of %u",
                           (unsigned long long)next, g->node_count);
    return 0;
}

static int check_nodes(const struct ips_graph *g, struct ips_err *err)
{
    for (uint32_t i = 0; i < g->node_count; i++) {
        if (g->kind[i] > IPS_NODE_POLL || g->xkind[i] > IPS_X_LAST)
            return ips_err_set(err, IPS_E_CORRUPT,
                               "node %u: kind %u, cross arc kind %u", i,
                               g->kind[i], g->xkind[i]);
        uint32_t x = g->xpred[i];
        if (x == IPS_NO_NODE)
            continue;
        if (x >= g->node_count || x == i || g->xkind[i] == IPS_X_NONE)
            return ips_err_set(err, IPS_E_CORRUPT,
                               "node %u: cross predecessor %u of kind %u "
                               "among %u nodes",
                               i, x, g->xkind[i], g->node_count);
    }
    return 0;
}

static int check_remote_references(const struct ips_graph *g,
                                   struct ips_err *err)
{
    for (uint32_t k = 0; k < g->in_count; k++) {
        uint32_t i = g->in[k].node;
        if (i >= g->node_count || (k && g->in[k - 1].node >= i) ||
            g->xpred[i] != IPS_NO_NODE || g->xkind[i] == IPS_X_NONE)
            return ips_err_set(err, IPS_E_CORRUPT,
                               "remote in %u: node %u is not in order, or has "
                               "no place for a cross arc",
                               k, i);
    }
    for (uint32_t k = 0; k < g->out_count; k++) {
        const struct ips_remote_out *o = &g->out[k];
        bool after =
            k == 0 || g->out[k - 1].end < o->end ||
            (g->out[k - 1].end == o->end && g->out[k - 1].pos <= o->pos);
        if (o->node >= g->node_count || !after)
            return ips_err_set(err, IPS_E_CORRUPT,
                               "remote out %u: node %u is not in order or not "
                               "in the graph",
                               k, o->node);
    }
    return 0;
}

int ips_graph_check_invariants(const struct ips_graph *g, struct ips_err *err)
{
    if (g->node_count == IPS_NO_NODE || g->chain_count > g->node_count ||
        g->in_count > g->node_count)
        return ips_err_set(err, IPS_E_CORRUPT,
                           "%u chains and %u remote ins with %u nodes",
                           g->chain_count, g->in_count, g->node_count);
    if (g->node_count &&
        (!g->chains || !g->kind || !g->w || !g->xpred || !g->xkind || !g->xlen))
        return ips_err_set(err, IPS_E_CORRUPT, "a graph without its arrays");
    if ((g->in_count && !g->in) || (g->out_count && !g->out))
        return ips_err_set(err, IPS_E_CORRUPT, "a graph without its remotes");
    int rc = check_chains(g, err);
    if (rc == 0)
        rc = check_nodes(g, err);
    if (rc == 0)
        rc = check_remote_references(g, err);
    return rc;
}

uint64_t ips_message_time_compute_message_ns(const struct ips_message_time *m,
                                             uint64_t len)
{
    uint64_t one = ips_add_sat(m->base_ns, ips_mul_q32(len, m->per_byte_q32));
    if (m->scale_den == 0 || m->scale_num == m->scale_den)
        return one;
    ips_u128 scaled = (ips_u128)one * m->scale_num / m->scale_den;
    return scaled > UINT64_MAX ? UINT64_MAX : (uint64_t)scaled;
}

static uint64_t wall_weight_of_cross_arc(const struct ips_graph *g, uint32_t i,
                                         const struct ips_scenario *scenario,
                                         bool *present)
{
    struct ips_message_time scale =
        ips_message_time_model_of_wall_weighting(scenario);
    uint8_t kind = g->xkind[i];
    *present =
        kind != IPS_X_NONE && kind != IPS_X_IDLE &&
        !(kind == IPS_X_RESOURCE && scenario->order_dependent_off) &&
        !(kind == IPS_X_EXTERNAL && scenario->external == IPS_EXTERNAL_OFF);
    if (!*present)
        return 0;
    return kind == IPS_X_DATA
               ? ips_message_time_compute_message_ns(&scale, g->xlen[i])
               : g->xlen[i];
}

uint64_t ips_cross_arc_weight(const struct ips_graph *g, uint32_t i,
                              const struct ips_scenario *scenario,
                              bool *present)
{
    if (scenario->weighting == IPS_WEIGH_WALL)
        return wall_weight_of_cross_arc(g, i, scenario, present);
    *present = true;
    switch ((enum ips_xkind)g->xkind[i]) {
    case IPS_X_NONE:
        *present = false;
        return 0;
    case IPS_X_DATA:
        return ips_message_time_compute_message_ns(&scenario->message_time,
                                                   g->xlen[i]);
    case IPS_X_LIFETIME:
    case IPS_X_ROOM:
    case IPS_X_SIGNAL:
        return 0;
    case IPS_X_RESOURCE:
        *present = !scenario->order_dependent_off;
        return 0;
    case IPS_X_EXTERNAL:
        *present = scenario->external != IPS_EXTERNAL_OFF;
        return *present ? g->xlen[i] : 0;
    case IPS_X_IDLE:
        *present = scenario->external == IPS_EXTERNAL_ALL;
        return *present ? g->xlen[i] : 0;
    }
    *present = false; /* not reached: ips_graph_check_invariants() refuses other
                         kinds */
    return 0;
}
