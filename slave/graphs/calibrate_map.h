/*
 * Message times of a graph. A PeersAsk request brings a curve (time by message
 * length) for each link of this machine. This module assigns the curves to
 * channel ends; requests whose scenario is `calibrated` then use them.
 *
 * Runs on the worker thread. Source: DPM-3.
 */
#ifndef IPS_SLAVE_GRAPHS_CALIBRATE_MAP_H
#define IPS_SLAVE_GRAPHS_CALIBRATE_MAP_H

#include "proto/message.h"
#include "slave/graphs/graphs.h"

/* Sets g->message_times from the request, or removes g->message_times if the
 * request has no curves. Call after g->joined was set. IPS_E_PROTOCOL: a
 * malformed curve. */
int slave_graph_set_message_time_curves(struct slave_graph *g,
                                        const Ips__PeersAsk *ask,
                                        struct ips_err *err) IPS_MUST_USE;

/* Makes *out, a view of the graph in which every arc has its length under the
 * scenario; free it with ips_view_release(). IPS_E_PROTOCOL: the scenario needs
 * message times, but no PeersAsk brought any. */
int slave_graph_make_scenario_view(const struct slave_graph *g,
                                   const struct ips_scenario *scenario,
                                   struct ips_view *out,
                                   struct ips_err *err) IPS_MUST_USE;

#endif
