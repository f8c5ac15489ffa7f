/*
 * A what-if of a window: an edit changes only what is inside the window. A
 * feature has the share of an arc that, by the slaves' data, is inside the
 * window; the rest belongs to no feature. So every gain is at most the part of
 * the path inside the window, which is the figure that `path` shows for the
 * same window.
 */
#include <stdlib.h>

#include "common/types.h"
#include "master/query/machine_share.h"
#include "master/whatif/whatif.h"

struct cutting {
    const struct whatif_solving *s;
    /* [nodes] time inside the window of the chain arc into each node */
    uint64_t *in;
    /* [nodes] how long after the window's end, and after its start, the node
     * is; ns_after_window_start 0: it is before the window */
    uint64_t *ns_after_window_end;
    uint64_t *ns_after_window_start;
};

/* Returns how much of the last `ns` before a node is inside the window. */
static uint64_t ns_inside_window(const struct cutting *c, uint32_t node,
                                 uint64_t ns)
{
    uint64_t past = ips_min_u64(c->ns_after_window_end[node],
                                c->ns_after_window_start[node]);
    return ips_sub_sat(ns, past) -
           ips_sub_sat(ns, c->ns_after_window_start[node]);
}

static int copy_window_times_of_machine(const struct cutting *c, uint32_t i,
                                        struct ips_err *err)
{
    const struct whatif_data *d = c->s->d;
    const struct arc_profile *w = &d->arc_profile[i];
    uint32_t base = d->machine[i].node_base, count = d->machine[i].node_count;
    /* entities_make() has checked the profile */
    for (uint64_t k = 0; k < w->count; k++)
        c->in[base + w->node[k]] =
            ips_add_sat(c->in[base + w->node[k]], w->ns[k]);
    for (uint64_t k = 0; k < w->window_node_count; k++) {
        if (w->window_node[k] >= count)
            return ips_err_set(err, IPS_E_PROTOCOL, "there is no node %u of %u",
                               w->window_node[k], count);
        c->ns_after_window_end[base + w->window_node[k]] =
            w->ns_after_window_end[k];
        c->ns_after_window_start[base + w->window_node[k]] =
            w->ns_after_window_start[k];
    }
    return 0;
}

static uint64_t cross_ns_inside_window(const struct cutting *c, uint32_t node)
{
    bool present;
    uint64_t ns =
        ips_cross_arc_weight(c->s->g, node, &c->s->scenario, &present);
    return ns_inside_window(c, node, ns);
}

/* Returns the path's time in the window, computed piece by piece as `path`
 * does. */
static uint64_t path_ns_inside_window(const struct cutting *c)
{
    const struct ips_graph *g = c->s->g;
    const struct ips_est *e = &c->s->d->path.est;
    uint32_t i = e->end, first = g->chains[ips_chain_of(g, i)].first;
    /* sum: the total; in, ns: the current piece's time inside the window, and
     * all of its time */
    uint64_t sum = 0, in = 0, ns = 0;
    while (e->crossed[i] || i != first) {
        if (e->crossed[i]) {
            sum = ips_add_sat(sum, ips_min_u64(in, ns) +
                                       cross_ns_inside_window(c, i));
            in = ns = 0;
            i = g->xpred[i];
            first = g->chains[ips_chain_of(g, i)].first;
        } else {
            in = ips_add_sat(in, c->in[i]);
            ns += g->w[i];
            i--;
        }
    }
    return ips_add_sat(sum,
                       ips_min_u64(in, ns) + ns_inside_window(c, i, g->w[i]));
}

int whatif_limit_to_window(struct whatif_solving *s)
{
    struct whatif_data *d = s->d;
    struct entities *t = &d->t;
    size_t n = (size_t)s->g->node_count + 1;
    struct cutting c = {
        .s = s,
        .in = calloc(n, sizeof(*c.in)),
        .ns_after_window_end = calloc(n, sizeof(*c.ns_after_window_end)),
        .ns_after_window_start = calloc(n, sizeof(*c.ns_after_window_start))};
    d->cross_ns = calloc(n, sizeof(*d->cross_ns));
    int rc = 0;
    if (!c.in || !c.ns_after_window_end || !c.ns_after_window_start ||
        !d->cross_ns)
        rc = ips_err_set(s->err, IPS_E_NO_MEMORY, "no memory for a window");
    for (uint32_t i = 0; rc == 0 && i < t->machine_count; i++) {
        rc = copy_window_times_of_machine(&c, i, s->err);
        if (rc < 0)
            d->path.blame = s->q->gather.active[i];
    }
    for (uint32_t i = 0; rc == 0 && i < s->g->node_count; i++)
        if (t->cross[i] != IPS_NO_FEATURE)
            d->cross_ns[i] = cross_ns_inside_window(&c, i);
    if (rc == 0) {
        d->window_ns = path_ns_inside_window(&c);
        t->f.cross_ns = d->cross_ns;
        for (uint32_t k = 0; k < s->g->chain_count; k++)
            t->chain[k] = IPS_NO_FEATURE;
    }
    free(c.in);
    free(c.ns_after_window_end);
    free(c.ns_after_window_start);
    return rc;
}
