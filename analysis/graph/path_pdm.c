/*
 * Computes the longest path by label correcting with a deque. From IPS-11: a
 * node that was never in the queue is appended at the tail; a node that was in
 * it before is put at the head. With a cycle the labels would grow for ever, so
 * the graph is first checked for cycles: nodes without in-arcs are removed,
 * with their out-arcs, until none is left.
 */
#include <stdlib.h>
#include <string.h>

#include "analysis/graph/kernel.h"

enum queued { NEVER = 0, WAS = 1, IS = 2 };

struct pdm {
    const struct ips_graph *g;
    struct ips_cross_arc_weighting arcs;
    uint64_t *label;  /* [n] length of the longest path to each node found so
                         far, ns */
    uint8_t *reached; /* [n] 1: the node has a label (a path to it was found) */
    /* [n] whether each node is or was in the queue (enum queued) */
    uint8_t *queued;
    uint8_t *first;      /* [n] 1: first node of its chain */
    uint32_t *out_start; /* [n + 1] index of each node's first cross successor
                            in `out` */
    uint32_t *out;
    uint32_t *ring; /* [n + 1] ring buffer; a node is in it at most once */
    uint32_t head, tail;
    bool overflow;
};

static void pdm_release(struct pdm *p)
{
    free(p->reached);
    free(p->queued);
    free(p->first);
    free(p->out_start);
    free(p->out);
    free(p->ring);
}

static int pdm_init(struct pdm *p, const struct ips_graph *g,
                    const struct ips_scenario *scenario, uint64_t *label,
                    struct ips_err *err)
{
    size_t n = (size_t)g->node_count + 1;
    memset(p, 0, sizeof(*p));
    p->g = g;
    p->label = label;
    ips_cross_arc_weighting_init(&p->arcs, scenario);
    p->reached = calloc(n, 1);
    p->queued = calloc(n, 1);
    p->first = calloc(n, 1);
    p->out_start = calloc(n + 1, sizeof(*p->out_start));
    p->out = malloc(n * sizeof(*p->out));
    p->ring = malloc(n * sizeof(*p->ring));
    if (!p->reached || !p->queued || !p->first || !p->out_start || !p->out ||
        !p->ring)
        return ips_err_set(err, IPS_E_NO_MEMORY, "queue of %u nodes",
                           g->node_count);
    for (uint32_t c = 0; c < g->chain_count; c++)
        p->first[g->chains[c].first] = 1;
    p->first[g->node_count] = 1; /* sentinel: the last node has no chain
                                    successor */
    for (uint32_t i = 0; i < g->node_count; i++) {
        if (ips_has_local_cross_arc(g, &p->arcs, i))
            p->out_start[g->xpred[i] + 2]++;
    }
    for (uint32_t i = 0; i < g->node_count; i++)
        p->out_start[i + 1] += p->out_start[i];
    for (uint32_t i = 0; i < g->node_count; i++) {
        if (ips_has_local_cross_arc(g, &p->arcs, i))
            p->out[p->out_start[g->xpred[i] + 1]++] = i;
    }
    return 0;
}

static int check_graph_is_acyclic(struct pdm *p, struct ips_err *err)
{
    const struct ips_graph *g = p->g;
    uint32_t done = 0, ready = 0;
    uint8_t *open =
        p->queued; /* [n] number of each node's in-arcs that are not removed
                      yet; the array is reset to NEVER below */
    for (uint32_t i = 0; i < g->node_count; i++) {
        open[i] =
            (uint8_t)(!p->first[i] + ips_has_local_cross_arc(g, &p->arcs, i));
        if (open[i] == 0)
            p->ring[ready++] = i;
    }
    while (done < ready) {
        uint32_t i = p->ring[done++];
        if (!p->first[i + 1] && --open[i + 1] == 0)
            p->ring[ready++] = i + 1;
        for (uint32_t k = p->out_start[i]; k < p->out_start[i + 1]; k++) {
            if (--open[p->out[k]] == 0)
                p->ring[ready++] = p->out[k];
        }
    }
    if (done < g->node_count)
        return ips_err_set(err, IPS_E_STALLED,
                           "a cycle or a missing send holds up %u of %u nodes",
                           g->node_count - done, g->node_count);
    memset(p->queued, NEVER, g->node_count);
    return 0;
}

static void enqueue_node_at_tail_or_head(struct pdm *p, uint32_t i)
{
    uint32_t size = p->g->node_count + 1;
    if (p->queued[i] == IS)
        return;
    if (p->queued[i] == NEVER) {
        p->ring[p->tail] = i;
        p->tail = p->tail + 1 == size ? 0 : p->tail + 1;
    } else {
        p->head = p->head ? p->head - 1 : size - 1;
        p->ring[p->head] = i;
    }
    p->queued[i] = IS;
}

static void improve_node(struct pdm *p, uint32_t i, uint64_t value)
{
    if (p->reached[i] && p->label[i] >= value)
        return;
    if (value >= IPS_TIME_LIMIT) {
        p->overflow = true;
        return;
    }
    p->reached[i] = 1;
    p->label[i] = value;
    enqueue_node_at_tail_or_head(p, i);
}

static int correct_labels_until_stable(struct pdm *p, struct ips_err *err)
{
    const struct ips_graph *g = p->g;
    uint64_t scans = 0;
    uint64_t most = (uint64_t)g->node_count * IPS_PDM_MAX_SCANS + 1000000;
    for (uint32_t c = 0; c < g->chain_count; c++)
        improve_node(p, g->chains[c].first, g->w[g->chains[c].first]);
    while (p->head != p->tail && !p->overflow) {
        uint32_t i = p->ring[p->head];
        p->head = p->head == g->node_count ? 0 : p->head + 1;
        p->queued[i] = WAS;
        if (++scans > most)
            return ips_err_set(err, IPS_E_LIMIT,
                               "label correcting gave up after %llu scans",
                               (unsigned long long)scans);
        uint64_t at = p->label[i];
        if (!p->first[i + 1])
            improve_node(p, i + 1,
                         at + ips_min_u64(g->w[i + 1], IPS_TIME_LIMIT));
        for (uint32_t k = p->out_start[i]; k < p->out_start[i + 1]; k++) {
            uint32_t v = p->out[k];
            improve_node(
                p, v,
                at + ips_cross_arc_weight_by_mode(
                         &p->arcs, p->arcs.mode[g->xkind[v]], g->xlen, v));
        }
    }
    if (p->overflow)
        return ips_err_set(err, IPS_E_LIMIT,
                           "times add up to more than 2^62 ns: damaged "
                           "weights");
    return 0;
}

int ips_longest_path_by_label_correcting(const struct ips_graph *g,
                                         const struct ips_scenario *scenario,
                                         struct ips_est *out,
                                         struct ips_err *err)
{
    struct pdm p;
    if (g->in_count)
        return ips_err_set(err, IPS_E_USAGE, "%u remote references left",
                           g->in_count);
    int rc = ips_est_alloc(out, g->node_count, err);
    if (rc < 0)
        return rc;
    rc = pdm_init(&p, g, scenario, out->est, err);
    if (rc == 0)
        rc = check_graph_is_acyclic(&p, err);
    if (rc == 0)
        rc = correct_labels_until_stable(&p, err);
    for (uint32_t i = 0; i < g->node_count && rc == 0; i++) {
        uint64_t chain = g->w[i] + (p.first[i] ? 0 : out->est[i - 1]);
        if (ips_has_local_cross_arc(g, &p.arcs, i))
            out->crossed[i] =
                out->est[g->xpred[i]] +
                    ips_cross_arc_weight_by_mode(
                        &p.arcs, p.arcs.mode[g->xkind[i]], g->xlen, i) >
                chain;
    }
    for (uint32_t c = 0; c < g->chain_count && rc == 0; c++)
        ips_est_update_path_end_from_chain(out, g, scenario, c);
    pdm_release(&p);
    if (rc == 0)
        out->total = ips_graph_sum_chain_arcs(g);
    else
        ips_est_release(out);
    return rc;
}
