/*
 * Requests that the program told of itself (slave/graphs/marked_spans.h):
 * fetched from the slaves with the graph, and made requests of the merged one.
 * A service of theirs is a name on a machine ("/m1 mark order"), an end of it a
 * thread.
 */
#ifndef IPS_MASTER_REQUESTS_REPORTED_H
#define IPS_MASTER_REQUESTS_REPORTED_H

#include "master/requests/requests.h"

/* What --by says, into d->told and what belongs to it. IPS_E_USAGE: nothing
 * that is known. */
int requests_set_by(struct requests_data *d, const char *by,
                    struct ips_err *err) IPS_MUST_USE;
/* Asks all parts, then `after`. */
void requests_fetch_reported(struct query *q, void (*after)(struct query *q));
/* In the worker, instead of ips_requests_find. */
int requests_solve_reported(struct query *q,
                            const struct ips_scenario *scenario,
                            struct ips_err *err) IPS_MUST_USE;
void requests_release_reported(struct requests_data *d);

#endif
