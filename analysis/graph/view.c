#include "analysis/graph/view.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/graph/message_time.h"
#include "common/large.h"

void ips_view_release(struct ips_view *v)
{
    ips_free_large(v->own_w);
    ips_free_large(v->own_xlen);
    ips_free_large(v->own_at);
    ips_free_large(v->own_out_ns);
    memset(v, 0, sizeof(*v));
}

uint64_t ips_wall_cross_arc_weight(uint64_t from, uint64_t to, uint64_t wait,
                                   uint8_t xkind, uint64_t len,
                                   const struct ips_scenario *scenario)
{
    uint64_t apart = ips_sub_sat(to, from);
    if (wait || xkind == IPS_X_EXTERNAL)
        return apart;
    if (xkind != IPS_X_DATA)
        return 0;
    struct ips_message_time once = scenario->message_time;
    /* the scale is applied later, in path.c */
    once.scale_num = once.scale_den = 1;
    return ips_min_u64(apart, ips_message_time_compute_message_ns(&once, len));
}

/* ---- the weighting sched ---- */

static void compute_sched_weights_of_node(const struct ips_graph *g, uint32_t i,
                                          uint32_t first, struct ips_view *v)
{
    uint32_t x = g->xpred[i];
    bool outside = g->xkind[i] == IPS_X_EXTERNAL || g->xkind[i] == IPS_X_IDLE;
    v->own_w[i] = i == first ? g->w[i] : ips_add_sat(g->w[i], g->delay[i]);
    v->own_xlen[i] = g->xlen[i];
    if (!outside || x == IPS_NO_NODE)
        return;
    /* If the cross predecessor is the chain predecessor, the chain arc between
     * the same two nodes already contains the work done in that time. */
    uint64_t apart = ips_sub_sat(g->at[i], g->at[x]);
    if (x + 1 == i && i != first)
        apart = ips_sub_sat(apart, v->own_w[i]);
    v->own_xlen[i] = ips_min_u64(g->xlen[i], apart);
}

/* ---- the weighting wall ---- */

/* Whether node i's sleep is not part of its chain arc: it belongs to the node's
 * cross arc or, with external off, to no arc. */
static bool is_sleep_outside_chain_arc(const struct ips_graph *g, uint32_t i,
                                       const struct ips_scenario *scenario)
{
    switch ((enum ips_xkind)g->xkind[i]) {
    case IPS_X_NONE:
        return false;
    case IPS_X_IDLE:
        return scenario->external == IPS_EXTERNAL_OFF;
    case IPS_X_DATA:
    case IPS_X_LIFETIME:
    case IPS_X_ROOM:
    case IPS_X_SIGNAL:
    case IPS_X_RESOURCE:
    case IPS_X_EXTERNAL:
        break;
    }
    return true;
}

static void compute_wall_weights_of_node(const struct ips_graph *g, uint32_t i,
                                         uint32_t first,
                                         const struct ips_scenario *scenario,
                                         struct ips_view *v)
{
    uint64_t wait = is_sleep_outside_chain_arc(g, i, scenario) ? g->wait[i] : 0;
    uint64_t asked =
        ips_clock_map_ns(&scenario->clock, ips_sub_sat(g->at[i], wait));
    bool linked = g->xkind[i] != IPS_X_NONE && g->xkind[i] != IPS_X_IDLE;
    if (i == first)
        v->own_w[i] = linked ? 0 : v->own_at[i];
    else
        v->own_w[i] = ips_sub_sat(asked, v->own_at[i - 1]);
    uint32_t x = g->xpred[i];
    v->own_xlen[i] = x == IPS_NO_NODE
                         ? g->xlen[i]
                         : ips_wall_cross_arc_weight(
                               v->own_at[x], v->own_at[i], g->wait[i],
                               i == first ? IPS_X_EXTERNAL : g->xkind[i],
                               g->xlen[i], scenario);
}

/* ---- message times ---- */

/* Converts the lengths of all messages of `g` from bytes to ns. `out` owns
 * the new arrays; *timed, which the caller made a copy of `g`, borrows them. */
static int convert_message_bytes_to_ns(const struct ips_graph *g,
                                       struct ips_view *out,
                                       struct ips_graph *timed,
                                       struct ips_err *err)
{
    const struct ips_message_time_map *map = g->message_times;
    out->own_xlen = ips_calloc_large(g->node_count, sizeof(*g->xlen));
    if (!out->own_xlen)
        return ips_err_set(err, IPS_E_NO_MEMORY, "message times of %u nodes",
                           g->node_count);
    for (uint32_t i = 0; i < g->node_count; i++)
        out->own_xlen[i] =
            g->xkind[i] == IPS_X_DATA
                ? ips_message_time_of_bytes_at_end(
                      map, g->site ? g->site[i] : IPS_NO_CURVE, g->xlen[i])
                : g->xlen[i];
    int rc =
        ips_compute_message_times_of_remote_sends(g, &out->own_out_ns, err);
    timed->xlen = out->own_xlen;
    timed->out_ns = out->own_out_ns;
    timed->bytes = g->xlen;
    return rc;
}

/* ---- making a view ---- */

static int apply_sched_or_wall_weighting(const struct ips_graph *g,
                                         const struct ips_scenario *scenario,
                                         struct ips_view *out,
                                         struct ips_err *err)
{
    if (!g->at || !g->wait || !g->delay)
        return ips_err_set(err, IPS_E_USAGE,
                           "a graph without times has the weighting cpu alone");
    bool wall = scenario->weighting == IPS_WEIGH_WALL;
    size_t bytes = (size_t)g->node_count * sizeof(*g->w);
    out->own_w = ips_alloc_large(1, bytes);
    if (!out->own_xlen) /* else g->xlen is own_xlen already, and each entry is
                           read before it is overwritten */
        out->own_xlen = ips_alloc_large(1, bytes);
    out->own_at = wall ? ips_alloc_large(1, bytes) : NULL;
    if (!out->own_w || !out->own_xlen || (wall && !out->own_at))
        return ips_err_set(err, IPS_E_NO_MEMORY, "weights of %u nodes",
                           g->node_count);
    for (uint32_t i = 0; wall && i < g->node_count; i++)
        out->own_at[i] = ips_clock_map_ns(&scenario->clock, g->at[i]);
    for (uint32_t c = 0; c < g->chain_count; c++) {
        uint32_t first = g->chains[c].first, end = first + g->chains[c].count;
        for (uint32_t i = first; i < end; i++) {
            if (wall)
                compute_wall_weights_of_node(g, i, first, scenario, out);
            else
                compute_sched_weights_of_node(g, i, first, out);
        }
    }
    out->g.w = out->own_w;
    out->g.xlen = out->own_xlen;
    if (wall) {
        out->g.at = out->own_at;
        out->g.wait = g->wait;
    }
    return 0;
}

/* Allocates the view's own weights unless it has them already. */
static bool alloc_own_weights_if_missing(struct ips_view *v,
                                         struct ips_err *err)
{
    if (!v->own_w)
        v->own_w = ips_alloc_large(v->g.node_count, sizeof(*v->own_w));
    if (!v->own_w)
        ips_err_set(err, IPS_E_NO_MEMORY, "weights of %u nodes",
                    v->g.node_count);
    return v->own_w != NULL;
}

/* Subtracts the cost of recording from the chain arcs. This comes after the
 * weighting, which shortens the cross arc of an external wait by the chain arc
 * that overlaps with it: if the chain arc were reduced first, the cross arc
 * would become longer than it was with recording. */
static int subtract_probe_costs_from_arcs(struct ips_view *v,
                                          const struct ips_scenario *scenario,
                                          struct ips_err *err)
{
    const struct ips_graph *g = &v->g;
    if (scenario->weighting == IPS_WEIGH_WALL)
        return ips_err_set(err, IPS_E_USAGE,
                           "weighting wall cannot leave out recording");
    if (!g->probe)
        return ips_err_set(err, IPS_E_USAGE,
                           "a graph that does not say what recording cost");
    if (!alloc_own_weights_if_missing(v, err))
        return IPS_E_NO_MEMORY;
    for (uint32_t i = 0; i < g->node_count; i++)
        v->own_w[i] = ips_sub_sat(g->w[i], g->probe[i]);
    v->g.w = v->own_w;
    return 0;
}

/* Adds each wait whose end has no arc to its chain arc, as if the unknown waker
 * had worked during the whole wait. */
static int
add_waits_without_waker_to_chain_arcs(struct ips_view *v,
                                      const struct ips_scenario *scenario,
                                      struct ips_err *err)
{
    const struct ips_graph *g = &v->g;
    if (scenario->weighting == IPS_WEIGH_WALL || !g->unended)
        return ips_err_set(err, IPS_E_USAGE,
                           "a graph or a weighting without waits of unknown "
                           "end");
    if (!alloc_own_weights_if_missing(v, err))
        return IPS_E_NO_MEMORY;
    for (uint32_t i = 0; i < g->node_count; i++)
        v->own_w[i] = ips_add_sat(g->w[i], g->unended[i]);
    v->g.w = v->own_w;
    return 0;
}

int ips_graph_make_view_of_weighted_graph(const struct ips_graph *g,
                                          const struct ips_scenario *scenario,
                                          struct ips_view *out,
                                          struct ips_err *err)
{
    int rc = 0;
    memset(out, 0, sizeof(*out));
    out->g = *g;
    if (scenario->probe_off && g->node_count)
        rc = subtract_probe_costs_from_arcs(out, scenario, err);
    if (rc == 0 && scenario->unended && g->node_count)
        rc = add_waits_without_waker_to_chain_arcs(out, scenario, err);
    return rc;
}

static int make_view(const struct ips_graph *g,
                     const struct ips_scenario *scenario, struct ips_view *out,
                     struct ips_err *err)
{
    struct ips_graph timed = *g;
    int rc = 0;
    if (scenario->calibrated && g->message_times)
        rc = convert_message_bytes_to_ns(g, out, &timed, err);
    timed.message_times = NULL;
    out->g = timed;
    if (rc == 0 && scenario->weighting != IPS_WEIGH_CPU) {
        out->g.at = out->g.wait = NULL;
        rc = apply_sched_or_wall_weighting(&timed, scenario, out, err);
    }
    if (rc == 0 && scenario->probe_off)
        rc = subtract_probe_costs_from_arcs(out, scenario, err);
    if (rc == 0 && scenario->unended)
        rc = add_waits_without_waker_to_chain_arcs(out, scenario, err);
    if (scenario->weighting == IPS_WEIGH_CPU)
        out->g.at = out->g.wait = NULL;
    out->g.delay = NULL;
    return rc;
}

int ips_graph_make_view(const struct ips_graph *g,
                        const struct ips_scenario *scenario,
                        struct ips_view *out, struct ips_err *err)
{
    memset(out, 0, sizeof(*out));
    int rc = 0;
    if (g->node_count > 0) {
        rc = make_view(g, scenario, out, err);
    } else {
        out->g = *g;
        out->g.at = out->g.wait = out->g.delay = NULL;
    }
    if (rc < 0)
        ips_view_release(out);
    return rc;
}
