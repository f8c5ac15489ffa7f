/*
 * A graph laid out for the wire (proto/graph_wire.h): the arrays of nodes are
 * lent, chains, ins and outs are copied into arrays of their own. Neither
 * proto/ nor analysis/ knows the other's form, so this stands here.
 */
#ifndef IPS_SLAVE_GRAPHS_GRAPH_LAY_H
#define IPS_SLAVE_GRAPHS_GRAPH_LAY_H

#include "analysis/graph/graph.h"
#include "proto/graph_wire.h"

/* Lays `g` out in a zeroed `w`; `g` must outlive it. Left to the caller are
 * what not everybody sends: t_ns, site, at, wait, delay, probe, origin,
 * end_count and total_cpu_ns. IPS_E_NO_MEMORY; release `w` in any case. */
int slave_graph_lay(struct ips_wire_graph *w, const struct ips_graph *g,
                    struct ips_err *err) IPS_MUST_USE;
void slave_graph_lay_release(struct ips_wire_graph *w);

#endif
