/*
 * The traffic of a graph's processes on their channel ends within a window of
 * time. The graph is built again for this, because it does not store the bytes
 * of each message.
 */
#ifndef IPS_SLAVE_GRAPHS_TRAFFIC_WINDOW_H
#define IPS_SLAVE_GRAPHS_TRAFFIC_WINDOW_H

#include "slave/graphs/graphs.h"

/* Makes one row for each traffic row of g. The window is from <= t < to, in ns
 * of this machine's CLOCK_MONOTONIC_RAW. The rows of adjacent windows that
 * cover the run add up to the run's traffic. */
int slave_traffic_window_make_by_rebuild(struct slave_graphs *gs,
                                         const struct slave_graph *g,
                                         uint64_t from_ns, uint64_t to_ns,
                                         struct ips_traffic_window *out,
                                         struct ips_err *err) IPS_MUST_USE;
void slave_traffic_window_release(struct ips_traffic_window *w);

#endif
