/*
 * Computes how much of an arc of the graph is in a window of time, for each
 * weighting. Pure.
 *
 * Position of a chain arc on the time axis:
 *   cpu    its CPU time is spread between its two nodes as its samples show
 *          (arc_sum.h)
 *   sched  the same, plus its run delay, spread evenly over the time between
 *          the two nodes minus the time blocked
 *   wall   it starts when the preceding node was passed, and is as long as its
 *          weight
 * An arc between two threads, or an external wait, is placed directly before
 * the node that it reaches. So adjacent windows together contain each ns of a
 * path once. In `wall` each node is at its clock time, so a window of N ns
 * contains N ns of the path.
 *
 * A window is from < t <= to. In `cpu` and `sched` it is given in ns since this
 * machine's first event, because clocks are not compared there; in `wall`,
 * whose scenario maps the clocks onto each other, in ns since the run's origin.
 * Source: ALGORITHMS 1, 6; IPS-13.
 */
#ifndef IPS_SLAVE_PROFILE_WINDOW_H
#define IPS_SLAVE_PROFILE_WINDOW_H

#include "analysis/graph/view.h"
#include "slave/profile/arc_sum.h"

struct slave_arc_clip {
    const struct slave_arcs *arcs; /* samples of arcs; borrowed */
    const struct ips_graph *g;     /* the graph; borrowed */
    struct ips_scenario scenario;
    struct ips_view view;
    /* the window in ns of this machine's CLOCK_MONOTONIC_RAW */
    struct slave_window local;
    /* the window on the weighting's time axis: for wall, ns since the run's
     * origin; else as `local` */
    struct slave_window axis;
};

/* Prepares *c for the window. from_ns 0: no start; to_ns 0: no end. Call
 * slave_arc_clip_release also on failure. */
int slave_arc_clip_init(struct slave_arc_clip *c, const struct slave_arcs *arcs,
                        const struct ips_built *b,
                        const struct ips_scenario *scenario, uint64_t from_ns,
                        uint64_t to_ns, struct ips_err *err) IPS_MUST_USE;
void slave_arc_clip_release(struct slave_arc_clip *c);

/* Returns the length in ns of the part of the chain arc into `node` that is in
 * the window. `node` must not be the chain's first. */
uint64_t slave_arc_clip_chain_arc_ns(const struct slave_arc_clip *c,
                                     uint32_t chain, uint32_t node);
/* Returns the run delay in ns, within the window, of the chain arc into `node`;
 * 0 if unknown. */
uint64_t slave_arc_clip_run_delay_ns(const struct slave_arc_clip *c,
                                     uint32_t node);
/* Returns the length in ns of the part that is in the window, of an interval of
 * `ns` that ends at `node`. The interval is a cross arc or, in `wall`, the time
 * before a chain that no recorded thread started. */
uint64_t slave_arc_clip_cross_arc_ns(const struct slave_arc_clip *c,
                                     uint32_t node, uint64_t ns);
/* For a caller that learns the length of an interval later: sets *past and
 * *since to the ns from the window's end and start to the node's time. An
 * interval of `ns` that ends at the node has max(ns - *past, 0) - max(ns -
 * *since, 0) ns in the window. */
void slave_arc_clip_get_node_ns_past_edges(const struct slave_arc_clip *c,
                                           uint32_t node, uint64_t *past,
                                           uint64_t *since);
/* Whether the node's time is in the window. */
bool slave_arc_clip_contains_node(const struct slave_arc_clip *c,
                                  uint32_t node);

#endif
