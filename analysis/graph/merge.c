#include <stdlib.h>
#include <string.h>

#include "analysis/graph/contract.h"
#include "analysis/graph/kernel.h"
#include "analysis/graph/view.h"

const struct ips_remote_out *
ips_graph_find_send_of_position(const struct ips_graph *g, uint32_t end,
                                uint64_t pos)
{
    uint32_t low = 0, high = g->out_count;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        const struct ips_remote_out *o = &g->out[mid];
        if (o->end < end || (o->end == end && o->pos < pos))
            low = mid + 1;
        else
            high = mid;
    }
    if (low == g->out_count || g->out[low].end != end)
        return NULL;
    const struct ips_remote_out *o = &g->out[low];
    if (o->pos == pos)
        return o;
    /* A stream position in the middle of a message was written by that message.
     * The special positions SYN and EOF are not bytes of a message. */
    if (pos == IPS_POS_SYN || o->pos == IPS_POS_EOF || o->pos - pos >= o->len)
        return NULL;
    return o;
}

static int count_nodes_and_chains(const struct ips_machine_graph *parts,
                                  uint32_t part_count, uint64_t *nodes,
                                  uint64_t *chains, struct ips_err *err)
{
    *nodes = *chains = 0;
    for (uint32_t p = 0; p < part_count; p++) {
        *nodes += parts[p].g->node_count;
        *chains += parts[p].g->chain_count;
    }
    if (*nodes >= IPS_NO_NODE)
        return ips_err_set(err, IPS_E_LIMIT, "%llu nodes in one graph",
                           (unsigned long long)*nodes);
    return 0;
}

static void copy_machine_graph(const struct ips_graph *g, uint32_t part,
                               uint32_t base, struct ips_chain *chains,
                               struct ips_graph *out)
{
    size_t n = g->node_count;
    if (n == 0)
        return;
    memcpy(out->kind + base, g->kind, n * sizeof(*g->kind));
    memcpy(out->w + base, g->w, n * sizeof(*g->w));
    memcpy(out->xkind + base, g->xkind, n * sizeof(*g->xkind));
    memcpy(out->xlen + base, g->xlen, n * sizeof(*g->xlen));
    if (g->t_ns)
        memcpy(out->t_ns + base, g->t_ns, n * sizeof(*g->t_ns));
    if (g->site)
        memcpy(out->site + base, g->site, n * sizeof(*g->site));
    if (out->at) {
        memcpy(out->at + base, g->at, n * sizeof(*g->at));
        memcpy(out->wait + base, g->wait, n * sizeof(*g->wait));
        memcpy(out->delay + base, g->delay, n * sizeof(*g->delay));
    }
    if (out->probe)
        memcpy(out->probe + base, g->probe, n * sizeof(*g->probe));
    if (out->unended)
        memcpy(out->unended + base, g->unended, n * sizeof(*g->unended));
    for (uint32_t i = 0; i < g->node_count; i++) {
        if (g->xpred[i] != IPS_NO_NODE)
            out->xpred[base + i] = base + g->xpred[i];
    }
    for (uint32_t c = 0; c < g->chain_count; c++) {
        chains[c] = g->chains[c];
        chains[c].first += base;
        chains[c].machine = part;
    }
}

/* Returns the arc's weight in `wall`, computed from the aligned clocks of the
 * two machines. If alignment errors place the send after its receive, the
 * weight is 0. */
static uint64_t wall_weight_of_remote_arc(const struct ips_machine_graph *from,
                                          const struct ips_remote_out *o,
                                          const struct ips_machine_graph *to,
                                          const struct ips_remote_in *in,
                                          const struct ips_scenario *scenario)
{
    const struct ips_graph *a = from->g, *b = to->g;
    if (!a->at || !b->at || !b->wait)
        return 0;
    return ips_wall_cross_arc_weight(
        a->at[o->node], b->at[in->node], b->wait[in->node], b->xkind[in->node],
        ips_remote_send_bytes_or_ns(a, (uint32_t)(o - a->out)), scenario);
}

/* Sets in `out` the cross predecessors of machine p's remote receives. Counts
 * in *unmatched the receives whose awaited position no node wrote. */
static void link_remote_receives_to_sends(const struct ips_machine_graph *parts,
                                          uint32_t part_count, uint32_t p,
                                          const uint32_t *node_base,
                                          const struct ips_scenario *scenario,
                                          struct ips_graph *out,
                                          uint64_t *unmatched)
{
    const struct ips_machine_graph *part = &parts[p];
    for (uint32_t k = 0; k < part->g->in_count; k++) {
        const struct ips_remote_in *in = &part->g->in[k];
        uint32_t i = node_base[p] + in->node;
        const struct ips_remote_out *o = NULL;
        if (in->end < part->end_count) {
            struct ips_peer_end peer = part->peer[in->end];
            if (peer.machine < part_count)
                o = ips_graph_find_send_of_position(parts[peer.machine].g,
                                                    peer.end, in->pos);
            if (o) {
                const struct ips_graph *from = parts[peer.machine].g;
                out->xpred[i] = node_base[peer.machine] + o->node;
                out->xlen[i] =
                    scenario->weighting == IPS_WEIGH_WALL
                        ? wall_weight_of_remote_arc(&parts[peer.machine], o,
                                                    part, in, scenario)
                        : ips_remote_send_bytes_or_ns(
                              from, (uint32_t)(o - from->out));
            }
        }
        if (!o) {
            out->xkind[i] = IPS_X_NONE;
            out->xlen[i] = 0;
            ++*unmatched;
        }
    }
}

int ips_graph_merge(const struct ips_machine_graph *parts, uint32_t part_count,
                    const struct ips_scenario *scenario, struct ips_graph *out,
                    uint32_t *node_base, uint64_t *unmatched,
                    struct ips_err *err)
{
    uint64_t nodes, chains;
    *unmatched = 0;
    ips_graph_init(out);
    int rc = count_nodes_and_chains(parts, part_count, &nodes, &chains, err);
    if (rc == 0)
        rc = ips_graph_alloc(out, (uint32_t)nodes, (uint32_t)chains, err);
    if (rc < 0)
        return rc;
    bool times = true, probe = nodes > 0, unended = nodes > 0;
    for (uint32_t p = 0; p < part_count; p++) {
        times = times && (parts[p].g->delay || parts[p].g->node_count == 0);
        probe = probe && (parts[p].g->probe || parts[p].g->node_count == 0);
        unended =
            unended && (parts[p].g->unended || parts[p].g->node_count == 0);
    }
    if (times)
        rc = ips_graph_alloc_times(out, err);
    if (rc == 0 && probe)
        rc = ips_graph_alloc_probe_column(out, err);
    if (rc == 0 && unended)
        rc = ips_graph_alloc_unended_wait_column(out, err);
    if (rc < 0) {
        ips_graph_release(out);
        return rc;
    }
    uint32_t base = 0, chain = 0;
    for (uint32_t p = 0; p < part_count; p++) {
        node_base[p] = base;
        copy_machine_graph(parts[p].g, p, base, out->chains + chain, out);
        base += parts[p].g->node_count;
        chain += parts[p].g->chain_count;
    }
    for (uint32_t p = 0; p < part_count; p++)
        link_remote_receives_to_sends(parts, part_count, p, node_base, scenario,
                                      out, unmatched);
    return 0;
}
