/*
 * Requests that the program itself marked (slave/graphs/marked_spans.h). They
 * are fetched from the slaves with the graph and converted to requests of the
 * merged graph. The service of such a request has the machine and the mark as
 * its name ("/m1 mark order"). Each thread that set the mark counts as a
 * connection of the service.
 */
#ifndef IPS_MASTER_REQUESTS_REPORTED_H
#define IPS_MASTER_REQUESTS_REPORTED_H

#include "master/requests/requests.h"

/* Parses the value of --by into d->reported_by and related fields.
 * IPS_E_USAGE: unknown value. */
int requests_parse_by_option(struct requests_data *d, const char *by,
                             struct ips_err *err) IPS_MUST_USE;
/* Asks all slaves for their marked requests, then calls `after`. */
void requests_fetch_marked_spans(struct query *q,
                                 void (*after)(struct query *q));
/* In the worker, instead of ips_requests_find: sets d->ends and d->result from
 * the marked requests. */
int requests_compute_marked_requests(struct query *q,
                                     const struct ips_scenario *scenario,
                                     struct ips_err *err) IPS_MUST_USE;
void requests_release_reported(struct requests_data *d);

#endif
