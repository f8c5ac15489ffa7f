/* Cuts arcs to a window; see window.h. */
#include "slave/profile/window.h"

#include <string.h>

int slave_arc_clip_init(struct slave_arc_clip *c, const struct slave_arcs *arcs,
                        const struct ips_built *b,
                        const struct ips_scenario *scenario, uint64_t from_ns,
                        uint64_t to_ns, struct ips_err *err)
{
    memset(c, 0, sizeof(*c));
    c->arcs = arcs;
    c->g = &b->g;
    c->scenario = *scenario;
    c->local = c->axis = SLAVE_WINDOW_ALL;
    if (scenario->weighting == IPS_WEIGH_WALL) {
        if (from_ns) {
            c->axis.from_ns = from_ns;
            c->local.from_ns = ips_clock_unmap_ns(&scenario->clock, from_ns);
        }
        if (to_ns) {
            c->axis.to_ns = to_ns;
            c->local.to_ns = ips_clock_unmap_ns(&scenario->clock, to_ns);
        }
        return ips_graph_make_view(&b->g, scenario, &c->view, err);
    }
    if (from_ns)
        c->local.from_ns = ips_add_sat(b->first_ns, from_ns);
    if (to_ns)
        c->local.to_ns = ips_add_sat(b->first_ns, to_ns);
    c->axis = c->local;
    return 0;
}

void slave_arc_clip_release(struct slave_arc_clip *c)
{
    ips_view_release(&c->view);
}

/* Returns the time at which the node was passed, on the window's axis. */
static uint64_t time_of_node(const struct slave_arc_clip *c, uint32_t node)
{
    if (c->scenario.weighting == IPS_WEIGH_WALL)
        return c->view.own_at[node];
    return c->g->at ? c->g->at[node] : c->g->t_ns[node];
}

/* Returns the length of the part of [begin, begin + ns] that is in the
 * window. */
static uint64_t overlap_ns(uint64_t begin, uint64_t ns, struct slave_window w)
{
    return ips_sub_sat(ips_min_u64(ns, ips_sub_sat(w.to_ns, begin)),
                       ips_min_u64(ns, ips_sub_sat(w.from_ns, begin)));
}

/* Spreads `ns` evenly over [begin, end], and returns the part before t. */
static uint64_t ns_spread_before(uint64_t ns, uint64_t begin, uint64_t end,
                                 uint64_t t)
{
    if (t >= end)
        return ns;
    if (t <= begin)
        return 0;
    return (uint64_t)((ips_u128)ns * (t - begin) / (end - begin));
}

uint64_t slave_arc_clip_run_delay_ns(const struct slave_arc_clip *c,
                                     uint32_t node)
{
    const struct ips_graph *g = c->g;
    if (!g->delay)
        return 0;
    uint64_t begin = g->at[node - 1];
    uint64_t end = ips_max_u64(begin, ips_sub_sat(g->at[node], g->wait[node]));
    return ips_sub_sat(
        ns_spread_before(g->delay[node], begin, end, c->local.to_ns),
        ns_spread_before(g->delay[node], begin, end, c->local.from_ns));
}

uint64_t slave_arc_clip_chain_arc_ns(const struct slave_arc_clip *c,
                                     uint32_t chain, uint32_t node)
{
    const struct ips_graph *g = c->g;
    if (c->scenario.weighting == IPS_WEIGH_WALL)
        return overlap_ns(c->view.own_at[node - 1], c->view.own_w[node],
                          c->axis);
    uint64_t ns = slave_arc_cpu_ns_in_window(c->arcs, g, chain, node, c->local);
    return c->scenario.weighting == IPS_WEIGH_CPU
               ? ns
               : ips_add_sat(ns, slave_arc_clip_run_delay_ns(c, node));
}

void slave_arc_clip_get_node_ns_past_edges(const struct slave_arc_clip *c,
                                           uint32_t node, uint64_t *past,
                                           uint64_t *since)
{
    uint64_t end = time_of_node(c, node);
    *past = ips_sub_sat(end, c->axis.to_ns);
    /* Without a start, the window also contains the time before the clock's
     * zero. */
    *since = c->axis.from_ns ? ips_sub_sat(end, c->axis.from_ns) : UINT64_MAX;
}

uint64_t slave_arc_clip_cross_arc_ns(const struct slave_arc_clip *c,
                                     uint32_t node, uint64_t ns)
{
    uint64_t past, since;
    slave_arc_clip_get_node_ns_past_edges(c, node, &past, &since);
    return ips_sub_sat(ns, past) - ips_sub_sat(ns, since);
}

bool slave_arc_clip_contains_node(const struct slave_arc_clip *c, uint32_t node)
{
    if (c->local.from_ns == 0 && c->local.to_ns == UINT64_MAX)
        return true;
    uint64_t at = c->g->at ? c->g->at[node] : c->g->t_ns[node];
    return at > c->local.from_ns && at <= c->local.to_ns;
}
