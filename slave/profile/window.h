/*
 * What of an arc lies in a window of time, in each weighting. Pure.
 *
 * An arc lies where its two nodes lie on the clock:
 *
 *   cpu    its CPU time is spent between them as the samples say (arc_sum.h)
 *   sched  that, and its run delay evenly over the time between them less what
 *          was slept
 *   wall   it begins when the node before was passed and takes its weight
 *
 * and an arc between two threads (or from outside) in the time just before the
 * node it reaches. So windows side by side have all of a path, each ns in one;
 * and of a path in `wall`, whose nodes stand where the clock stood, a window
 * has as much as it is long.
 *
 * A window is from < t <= to. In `cpu` and `sched` it is told in ns since this
 * machine's first event, for no clocks are compared there; in `wall`, whose
 * scenario maps the clocks on each other, in ns since the run's origin.
 * Source: ALGORITHMS 1, 6; IPS-13.
 */
#ifndef IPS_SLAVE_PROFILE_WINDOW_H
#define IPS_SLAVE_PROFILE_WINDOW_H

#include "analysis/graph/view.h"
#include "slave/profile/arc_sum.h"

struct slave_cut {
    const struct slave_arcs *arcs; /* borrowed */
    const struct ips_graph *g;     /* borrowed */
    struct ips_scenario scenario;
    struct ips_view view;
    struct slave_window local; /* local raw ns */
    struct slave_window axis;  /* wall: since the origin; else as local */
};

/* from_ns 0: from the very beginning; to_ns 0: no end. Release always. */
int slave_cut_init(struct slave_cut *c, const struct slave_arcs *arcs,
                   const struct ips_built *b,
                   const struct ips_scenario *scenario, uint64_t from_ns,
                   uint64_t to_ns, struct ips_err *err) IPS_MUST_USE;
void slave_cut_release(struct slave_cut *c);

/* ns of the chain arc into `node`, not the chain's first. */
uint64_t slave_cut_arc(const struct slave_cut *c, uint32_t chain,
                       uint32_t node);
/* The run delay of it; 0 where it is not known. */
uint64_t slave_cut_delay(const struct slave_cut *c, uint32_t node);
/* Of the `ns` that end where `node` is: a cross arc, or in `wall` what came
 * before a chain that nobody began. */
uint64_t slave_cut_before(const struct slave_cut *c, uint32_t node,
                          uint64_t ns);
/* The same for whoever knows the ns later: they have
 * max(ns - past, 0) - max(ns - since, 0) in it. */
void slave_cut_offsets(const struct slave_cut *c, uint32_t node, uint64_t *past,
                       uint64_t *since);
/* Was the node passed in it? */
bool slave_cut_holds(const struct slave_cut *c, uint32_t node);

#endif
