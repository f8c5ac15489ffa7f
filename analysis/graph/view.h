/*
 * A graph as one weighting sees it. Engines do not know weightings: they get a
 * view, an ordinary graph whose chain arcs and cross arcs have the weights of
 * ALGORITHMS 1:
 *  - cpu: the graph itself
 *  - sched: chain arcs weigh w + delay. A wait for something external
 *    (EXTERNAL, IDLE) is shortened by the delay after its wake-up, because the
 *    chain arc already contains that delay.
 *  - wall: chain arcs weigh the elapsed time, less `wait` if a cross arc ended
 *    the wait. `xlen` is the weight of a cross arc (kernel.h): if the receiver
 *    waited, the time between the arc's two nodes; else the message time MTIME,
 *    but at most the time between the nodes. Idle and unrecorded waits stay in
 *    the chain's arc. If no recorded thread started a chain, its first node's w
 *    is the time before it.
 *
 * In `wall` EST(v) is exactly `at` of v since the run's origin, for every node
 * of one machine: no arc is longer than the time between its two nodes, and one
 * of a node's two in-arcs is exactly that long. So the path to a node is as
 * long as the time up to it.
 *
 * A scenario may leave out the cost of recording: `probe` is then subtracted
 * from the chain arcs of `cpu` and `sched`. This is refused in `wall`: its
 * weights are differences of clock readings, so if one arc became shorter, the
 * waits of other threads for it would not, and no run could have a path of that
 * length. A replay computes how long a run without recording would have taken.
 *
 * A scenario with `unended` counts waits whose end has no arc as work for their
 * whole length. Its longest path is an upper bound, whatever ended those waits.
 *
 * A scenario with `calibrated` takes message times from the graph's map
 * (analysis/graph/message_time.h), before all of the above: its view has ns
 * where the graph has bytes, and the scenario's own message time is 1 ns for
 * each ns.
 *
 * A view depends on the scenario's weighting, probe_off, unended, calibrated,
 * clock and external mode, and in `wall` on its message times (but not their
 * scale). Scenarios that agree in these may share a view. It borrows the
 * graph's other arrays.
 * Source: ALGORITHMS 1, IPS-14.
 */
#ifndef IPS_ANALYSIS_GRAPH_VIEW_H
#define IPS_ANALYSIS_GRAPH_VIEW_H

#include "analysis/graph/graph.h"

struct ips_view {
    struct ips_graph g; /* borrows arrays: never call ips_graph_release() on
                           it */
    uint64_t *own_w, *own_xlen, *own_at, *own_out_ns;
};

/* Makes the view of `g` for a scenario. IPS_E_USAGE if the scenario needs
 * times, `probe` or `unended` and the graph has none, and for `wall` with
 * probe_off or `unended`. O(nodes), but O(1) for a plain `cpu`. */
int ips_graph_make_view(const struct ips_graph *g,
                        const struct ips_scenario *scenario,
                        struct ips_view *out, struct ips_err *err) IPS_MUST_USE;
/* Makes a view of a graph that is already a view of the scenario's weighting
 * (for example merged from views): applies only probe_off and `unended`. */
int ips_graph_make_view_of_weighted_graph(const struct ips_graph *g,
                                          const struct ips_scenario *scenario,
                                          struct ips_view *out,
                                          struct ips_err *err) IPS_MUST_USE;
void ips_view_release(struct ips_view *v);

/* Returns the weight in `wall` of a cross arc from a node that was passed at
 * time `from` to a node that was passed at time `to`, after the receiver slept
 * `wait` ns for this arc. `len` is the length of a DATA arc in bytes. */
uint64_t ips_wall_cross_arc_weight(uint64_t from, uint64_t to, uint64_t wait,
                                   uint8_t xkind, uint64_t len,
                                   const struct ips_scenario *scenario);

#endif
