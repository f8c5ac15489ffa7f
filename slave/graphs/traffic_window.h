/*
 * The traffic of a graph's processes on their ends, cut to a window of time:
 * the graph is built once more, since it does not keep each message's bytes.
 */
#ifndef IPS_SLAVE_GRAPHS_TRAFFIC_WINDOW_H
#define IPS_SLAVE_GRAPHS_TRAFFIC_WINDOW_H

#include "slave/graphs/graphs.h"

/* Rows as those of g's traffic; from <= t < to, local raw. Of windows side by
 * side that cover the run the rows add up to the traffic. */
int slave_traffic_window_make(struct slave_graphs *gs,
                              const struct slave_graph *g, uint64_t from_ns,
                              uint64_t to_ns, struct ips_traffic_window *out,
                              struct ips_err *err) IPS_MUST_USE;
void slave_traffic_window_release(struct ips_traffic_window *w);

#endif
