/* How an ask of the master becomes a job for the worker. */
#ifndef IPS_SLAVE_SERVE_JOB_H
#define IPS_SLAVE_SERVE_JOB_H

#include "analysis/graph/graph.h"
#include "proto/frame.h"
#include "slave/base/work.h"
#include "slave/graphs/graphs.h"

/* serve/graph.c, serve/events.c: the steps of each ask (on the worker).
 * `snap` is taken. NULL: out of memory or not an ask of ours. */
struct slave_job *slave_graph_job(const Ips__Request *request,
                                  struct slave_snapshot *snap,
                                  const Ips__RunState *state);
/* Is it an ask for slave_graph_job? */
bool slave_graph_knows(const Ips__Request *request);
/* The request that such a job answers. */
const Ips__Request *slave_graph_ask_of(const struct slave_job *job);
struct slave_job *slave_events_job(const Ips__Request *request,
                                   struct slave_snapshot *snap,
                                   const char *machine);

/* serve/sql.c: main of the helper that answers a question in SQL. Returns its
 * exit status. */
int slave_sql_main(FILE *in, FILE *out);

struct ips_scenario slave_scenario_of(const Ips__Lane *l);

#endif
