#include "analysis/replay/graph.h"

#include <stdlib.h>
#include <string.h>

#include "common/types.h"

enum kept_mark { MERGED = 0, KEPT = 1 };

void ips_replay_graph_release(struct ips_replay_graph *r)
{
    ips_graph_release(&r->g);
    free(r->of);
    free(r->to);
    free(r->made);
    memset(r, 0, sizeof(*r));
}

static bool has_cross_arc(const struct ips_graph *g, uint32_t i)
{
    return g->xpred[i] != IPS_NO_NODE && g->xkind[i] != IPS_X_NONE;
}

/* Marks in `to` the nodes that the reduced graph keeps. Returns the number of
 * nodes that the reduced graph will have, with those added. */
static uint64_t mark_and_count_nodes_of_reduced_graph(const struct ips_graph *g,
                                                      const uint64_t *idle,
                                                      size_t cuts, uint32_t *to)
{
    uint64_t count = cuts;
    memset(to, 0, ((size_t)g->node_count + 1) * sizeof(*to));
    for (uint32_t i = 0; i < g->node_count; i++) {
        if (!has_cross_arc(g, i))
            continue;
        to[i] = KEPT;
        to[g->xpred[i]] = KEPT;
    }
    for (uint32_t c = 0; c < g->chain_count; c++) {
        uint32_t first = g->chains[c].first, end = first + g->chains[c].count;
        to[first] = to[end - 1] = KEPT;
        for (uint32_t i = first; i < end; i++) {
            bool rests = idle && i > first && idle[i];
            if (rests)
                to[i] = KEPT;
            count += to[i] == KEPT;
            if (rests)
                count += has_cross_arc(g, i) ? 2 : 1;
        }
    }
    return count;
}

struct making {
    const struct ips_graph *g;
    struct ips_replay_graph *out;
    /* the next cut to be made, and the end of all cuts */
    struct ips_replay_cut *cut, *cut_end;
    uint32_t next;
};

static uint32_t append_node(struct making *m, uint32_t of, uint8_t kind,
                            uint64_t w)
{
    struct ips_graph *to = &m->out->g;
    uint32_t k = m->next++;
    to->kind[k] = kind;
    to->w[k] = w;
    to->t_ns[k] = m->g->t_ns ? m->g->t_ns[of] : 0;
    m->out->of[k] = of;
    return k;
}

static void set_idle_arc_from_previous_node(struct making *m, uint32_t k,
                                            uint64_t ns)
{
    struct ips_graph *to = &m->out->g;
    to->xkind[k] = IPS_X_IDLE;
    to->xpred[k] = k - 1;
    to->xlen[k] = ns;
    m->out->made[k] = 1;
}

/* Appends node i, with w ns of work since the last node appended, after the
 * extra nodes for `idle` ns. set_cross_predecessors() sets xpred later. */
static void append_node_with_idle_time(struct making *m, uint32_t i, uint64_t w,
                                       uint64_t idle)
{
    const struct ips_graph *g = m->g;
    struct ips_graph *to = &m->out->g;
    bool arc = has_cross_arc(g, i);
    if (idle) {
        append_node(m, i, IPS_NODE_AUX, w);
        if (arc)
            set_idle_arc_from_previous_node(
                m, append_node(m, i, IPS_NODE_AUX, 0), idle);
        w = 0;
    }
    uint32_t k = append_node(m, i, g->kind[i], w);
    if (idle && !arc)
        set_idle_arc_from_previous_node(m, k, idle);
    if (arc) {
        to->xkind[k] = g->xkind[i];
        to->xlen[k] = g->xlen[i];
    }
    m->out->to[i] = k;
}

static void append_reduced_chain(struct making *m, uint32_t c,
                                 const uint64_t *idle)
{
    const struct ips_graph *g = m->g;
    uint32_t first = g->chains[c].first, end = first + g->chains[c].count;
    uint64_t w = 0; /* work since the last node appended, ns */
    struct ips_chain *to = &m->out->g.chains[c];
    *to = g->chains[c];
    to->first = m->next;
    for (uint32_t i = first; i < end; i++) {
        /* work of the arc into i that lies before cuts already made, ns */
        uint64_t done = 0;
        for (; m->cut < m->cut_end && m->cut->node == i; m->cut++) {
            uint64_t part = ips_min_u64(m->cut->w, g->w[i]) - done;
            m->cut->at = append_node(m, i, IPS_NODE_AUX, w + part) + 1;
            done += part;
            w = 0;
        }
        w += g->w[i] - done;
        if (m->out->to[i] == MERGED) {
            m->out->to[i] = IPS_NO_NODE;
            continue;
        }
        append_node_with_idle_time(m, i, w, idle && i > first ? idle[i] : 0);
        w = 0;
    }
    to->count = m->next - to->first;
}

/* Sets the cross predecessors of the reduced graph. Runs after all nodes are
 * appended, because an arc may come from a node with a higher number. */
static void set_cross_predecessors(struct making *m)
{
    struct ips_graph *to = &m->out->g;
    for (uint32_t k = 0; k < to->node_count; k++) {
        uint32_t i = m->out->of[k];
        if (m->out->to[i] == k && has_cross_arc(m->g, i))
            to->xpred[k] = m->out->to[m->g->xpred[i]];
    }
}

int ips_replay_graph_make_reduced(const struct ips_graph *whole,
                                  const uint64_t *idle,
                                  struct ips_replay_cut *cut, size_t cuts,
                                  struct ips_replay_graph *out,
                                  struct ips_err *err)
{
    struct making m = {
        .g = whole, .out = out, .cut = cut, .cut_end = cut + cuts};
    memset(out, 0, sizeof(*out));
    ips_graph_init(&out->g);
    out->to = malloc(((size_t)whole->node_count + 1) * sizeof(*out->to));
    if (!out->to)
        return ips_err_set(err, IPS_E_NO_MEMORY, "replay of %u nodes",
                           whole->node_count);
    uint64_t count =
        mark_and_count_nodes_of_reduced_graph(whole, idle, cuts, out->to);
    int rc = 0;
    if (count >= IPS_NO_NODE)
        rc = ips_err_set(err, IPS_E_LIMIT, "a replay of %llu nodes",
                         (unsigned long long)count);
    if (rc == 0)
        rc = ips_graph_alloc(&out->g, (uint32_t)count, whole->chain_count, err);
    out->of = calloc((size_t)count + 1, sizeof(*out->of));
    out->made = calloc((size_t)count + 1, 1);
    if (rc == 0 && (!out->of || !out->made))
        rc = ips_err_set(err, IPS_E_NO_MEMORY, "replay of %u nodes",
                         whole->node_count);
    if (rc < 0) {
        ips_replay_graph_release(out);
        return rc;
    }
    for (uint32_t c = 0; c < whole->chain_count; c++)
        append_reduced_chain(&m, c, idle);
    set_cross_predecessors(&m);
    return 0;
}

bool ips_replay_find_cut_of_chain_at_time(const struct ips_graph *g,
                                          const struct ips_chain *c, uint64_t t,
                                          struct ips_replay_cut *cut)
{
    uint32_t low = c->first, high = c->first + c->count;
    while (low < high) { /* `low` becomes the first node passed after t */
        uint32_t mid = low + (high - low) / 2;
        if (g->at[mid] > t)
            high = mid;
        else
            low = mid + 1;
    }
    *cut = (struct ips_replay_cut){.node = low};
    if (low == c->first || low == c->first + c->count)
        return low == c->first;
    uint64_t from = g->at[low - 1];
    uint64_t until = ips_sub_sat(g->at[low], g->wait[low]);
    uint64_t span = ips_sub_sat(until, from), done = t - from;
    cut->w = done >= span ? g->w[low]
                          : (uint64_t)((ips_u128)g->w[low] * done / span);
    return true;
}
