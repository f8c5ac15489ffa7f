#include "slave/graphs/calibrate_map.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/graph/contract.h"
#include "common/large.h"

/* Indexes of the message-time curves for channels within this machine: TCP, and
 * pipes or Unix sockets (`local`). */
struct local_curves {
    uint32_t tcp, local;
};

static int build_checked_curve_of_message(const Ips__MessageTimeCurve *from,
                                          struct ips_curve *to,
                                          struct ips_err *err)
{
    int rc = 0;
    if (from->n_bytes != from->n_ns || from->n_bytes > IPS_CURVE_POINTS)
        return ips_err_set(err, IPS_E_PROTOCOL,
                           "a curve of %zu lengths and %zu times",
                           from->n_bytes, from->n_ns);
    rc = ips_curve_build_from_points(from->bytes, from->ns,
                                     (uint32_t)from->n_bytes, to, err);
    if (rc < 0)
        return ips_err_set(err, IPS_E_PROTOCOL, "message times are damaged");
    return 0;
}

static bool is_local_transport(const struct ips_end *e)
{
    return e->kind == IPS_CHAN_PIPE || e->kind == IPS_CHAN_UNIX ||
           e->kind == IPS_CHAN_UNIX_DGRAM;
}

/* Assigns a curve to every channel end. An end joined to another machine gets
 * that machine's curve; any other end gets one of this machine's own. */
static int assign_curves_to_ends(struct slave_graph *g,
                                 const Ips__PeersAsk *ask,
                                 struct local_curves own, struct ips_err *err)
{
    struct ips_message_time_map *m = &g->message_times;
    m->which = malloc(((size_t)g->b.end_count + 1) * sizeof(*m->which));
    if (!m->which)
        return ips_err_set(err, IPS_E_NO_MEMORY, "out of memory");
    m->end_count = g->b.end_count;
    m->other = own.tcp;
    for (uint32_t i = 0; i < m->end_count; i++) {
        uint32_t part = g->joined ? g->joined[i].machine : UINT32_MAX;
        m->which[i] = is_local_transport(&g->b.ends[i]) ? own.local : own.tcp;
        if (part == UINT32_MAX)
            continue;
        m->which[i] = IPS_NO_CURVE;
        for (size_t k = 0; k < ask->n_message_times; k++) {
            if (!ask->message_times[k]->inside &&
                ask->message_times[k]->part == part)
                m->which[i] = (uint32_t)k;
        }
    }
    return 0;
}

int slave_graph_set_message_time_curves(struct slave_graph *g,
                                        const Ips__PeersAsk *ask,
                                        struct ips_err *err)
{
    struct ips_message_time_map *m = &g->message_times;
    struct local_curves own = {IPS_NO_CURVE, IPS_NO_CURVE};
    ips_message_time_map_release(m);
    g->b.g.message_times = NULL;
    if (ask->n_message_times == 0)
        return 0;
    m->curve = calloc(ask->n_message_times, sizeof(*m->curve));
    if (!m->curve)
        return ips_err_set(err, IPS_E_NO_MEMORY, "out of memory");
    for (size_t k = 0; k < ask->n_message_times; k++) {
        int rc = build_checked_curve_of_message(ask->message_times[k],
                                                &m->curve[k], err);
        if (rc < 0)
            return rc;
        m->curve_count++;
        if (ask->message_times[k]->inside && ask->message_times[k]->local)
            own.local = (uint32_t)k;
        else if (ask->message_times[k]->inside)
            own.tcp = (uint32_t)k;
    }
    if (own.local == IPS_NO_CURVE)
        own.local = own.tcp;
    else if (own.tcp == IPS_NO_CURVE)
        own.tcp = own.local;
    int rc = assign_curves_to_ends(g, ask, own, err);
    if (rc == 0)
        g->b.g.message_times = m;
    return rc;
}

int slave_graph_make_scenario_view(const struct slave_graph *g,
                                   const struct ips_scenario *scenario,
                                   struct ips_view *out, struct ips_err *err)
{
    if (scenario->calibrated && !g->b.g.message_times) {
        memset(out, 0, sizeof(*out));
        return ips_err_set(err, IPS_E_PROTOCOL,
                           "message times are asked for that PeersAsk did not "
                           "bring");
    }
    if (!scenario->unended)
        return ips_graph_make_view(&g->b.g, scenario, out, err);
    struct ips_graph with = g->b.g;
    with.unended = ips_make_ns_without_waker_by_node(&g->b, err);
    int rc = with.unended ? ips_graph_make_view(&with, scenario, out, err)
                          : IPS_E_NO_MEMORY;
    ips_free_large(with.unended);
    out->g.unended = NULL;
    return rc;
}
