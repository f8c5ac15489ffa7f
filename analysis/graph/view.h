/*
 * A graph as one weighting sees it. Engines know nothing of weightings: they
 * are given a view, an ordinary graph whose chain arcs and cross arcs weigh
 * what ALGORITHMS 1 says:
 *
 *   cpu    the graph itself
 *   sched  chain arcs: w + delay. A wait for outside (EXTERNAL, IDLE) loses
 *          the delay after its wake-up, which is in the arc that follows
 *   wall   chain arcs: elapsed, less `wait` where a cross arc brought its end.
 *          Cross arcs: `xlen` is their weight (kernel.h): how long it took from
 *          the one node to the other where the receiver waited, else MTIME, but
 *          no more than that. Idle and untraced waits stay in the chain's arc.
 *          A chain that nobody began has what came before it in its first
 *          node's w.
 *
 * In `wall` EST(v) is `at` of v since the run's origin, for every node of one
 * machine and exactly (no arc is longer than its two ends are apart, and one of
 * the two comes up to it): the path to a node is as long as the time up to it.
 *
 * A scenario may leave out what recording cost: chain arcs of `cpu` and `sched`
 * weigh their `probe` less. Not in `wall`: there the weights are differences of
 * clock readings, so with an arc made shorter alone the waits of others would
 * stay as long as they were for it, and a path would be no run's elapsed time;
 * what a run without recording would have taken is a replay's to say.
 *
 * A scenario with `unended` counts waits whose end has no arc as work for their
 * whole length: its longest path is an upper bound, whatever ended them.
 *
 * A scenario that is `calibrated` has its messages' times from the graph's map
 * (analysis/graph/mtime.h), before all that: its view has ns where the graph
 * has bytes, and the scenario's own message time is 1 ns a ns.
 *
 * A view depends on the scenario's weighting, probe_off, unended, calibrated,
 * clock and external mode, and in `wall` on its message times (not their
 * scale); other scenarios of the same may share it. It borrows the graph's
 * other arrays. Source: ALGORITHMS 1, IPS-14.
 */
#ifndef IPS_ANALYSIS_GRAPH_VIEW_H
#define IPS_ANALYSIS_GRAPH_VIEW_H

#include "analysis/graph/graph.h"

struct ips_view {
    struct ips_graph g; /* never ips_graph_release'd */
    uint64_t *own_w, *own_xlen, *own_at, *own_out_ns;
};

/* IPS_E_USAGE where the graph has no times or no `probe` and the scenario needs
 * them, and for `wall` with probe_off. O(nodes) but for `cpu` with them. */
int ips_graph_view(const struct ips_graph *g,
                   const struct ips_scenario *scenario, struct ips_view *out,
                   struct ips_err *err) IPS_MUST_USE;
/* A graph that is a view of its weighting already (merged of such): probe_off
 * and `unended`, where the scenario says so. */
int ips_graph_view_changed(const struct ips_graph *g,
                           const struct ips_scenario *scenario,
                           struct ips_view *out,
                           struct ips_err *err) IPS_MUST_USE;
void ips_view_release(struct ips_view *v);

/* Weight in `wall` of an arc from a node passed at `from` to one passed at `to`
 * that waited so long for it; `len` bytes where it is DATA. */
uint64_t ips_wall_xweight(uint64_t from, uint64_t to, uint64_t wait,
                          uint8_t xkind, uint64_t len,
                          const struct ips_scenario *scenario);

#endif
