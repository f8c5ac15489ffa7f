/*
 * Converts a graph to the form in which it is sent (proto/graph_wire.h). The
 * arrays of nodes are borrowed. Chains, remote receives (`in`) and remote sends
 * (`out`) are copied to arrays of their own. This module belongs to the slave
 * because proto/ and analysis/ do not know each other's structures.
 */
#ifndef IPS_SLAVE_GRAPHS_GRAPH_LAY_H
#define IPS_SLAVE_GRAPHS_GRAPH_LAY_H

#include "analysis/graph/graph.h"
#include "proto/graph_wire.h"

/* Fills the zeroed `w` from `g`, which must outlive it. The caller sets the
 * optional parts: t_ns, site, at, wait, delay, probe, origin, end_count and
 * total_cpu_ns. Returns 0 or IPS_E_NO_MEMORY; release `w` in any case. */
int slave_graph_to_wire(struct ips_wire_graph *w, const struct ips_graph *g,
                        struct ips_err *err) IPS_MUST_USE;
void slave_graph_to_wire_release(struct ips_wire_graph *w);

#endif
