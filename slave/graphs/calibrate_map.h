/*
 * Message times of a kept graph: PeersAsk brings the curves that leave this
 * machine, here they are laid to its channel ends, and asks whose scenario is
 * `calibrated` see the graph by them.
 *
 * Thread: the worker's. Source: DPM-3.
 */
#ifndef IPS_SLAVE_GRAPHS_CALIBRATE_MAP_H
#define IPS_SLAVE_GRAPHS_CALIBRATE_MAP_H

#include "proto/message.h"
#include "slave/graphs/graphs.h"

/* After g->joined is set: g->mtimes as the ask says, none where it has no
 * curves. IPS_E_PROTOCOL for a curve that is none. */
int slave_graph_set_mtimes(struct slave_graph *g, const Ips__PeersAsk *ask,
                           struct ips_err *err) IPS_MUST_USE;

/* As the scenario sees it; IPS_E_PROTOCOL where that needs message times and no
 * PeersAsk brought any. */
int slave_graph_apply(const struct slave_graph *g,
                      const struct ips_scenario *scenario, struct ips_view *out,
                      struct ips_err *err) IPS_MUST_USE;

#endif
