/* Makes jobs for the worker from the master's requests. */
#ifndef IPS_SLAVE_SERVE_JOB_H
#define IPS_SLAVE_SERVE_JOB_H

#include "analysis/graph/graph.h"
#include "proto/frame.h"
#include "slave/base/work.h"
#include "slave/graphs/graphs.h"

/* slave_graph_make_job() (serve/graph.c) and slave_events_make_job()
 * (serve/events.c) make the job that answers a request; its steps run on the
 * worker. They take ownership of `snap`, also on failure. They return NULL if
 * out of memory, or for a request that they do not handle. */
struct slave_job *slave_graph_make_job(const Ips__Request *request,
                                       struct slave_snapshot *snap,
                                       const Ips__RunState *state);
/* Whether slave_graph_make_job handles requests of this kind. */
bool slave_graph_handles_request(const Ips__Request *request);
/* Returns the request that a job from slave_graph_make_job answers. */
const Ips__Request *slave_graph_get_request_of_job(const struct slave_job *job);
struct slave_job *slave_events_make_job(const Ips__Request *request,
                                        struct slave_snapshot *snap,
                                        const char *machine);

/* serve/sql.c: main of the helper that answers an SQL question. Returns its
 * exit status. */
int slave_sql_main(FILE *in, FILE *out);

/* Converts a scenario from its wire form, in which NULL is the default
 * scenario. Invalid values become defaults. */
struct ips_scenario slave_scenario_from_wire(const Ips__Lane *l);

#endif
