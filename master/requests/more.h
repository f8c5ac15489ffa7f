/*
 * What the slowest of a service's requests have that those about the median
 * have not: of both, what the time on the way back from their ends was spent on
 * - CPU time by procedure, waits by cause and place - and of what the
 * difference is greatest; and where those about the median have most. Of at
 * most REQUESTS_LOOKED of each, evenly chosen.
 */
#ifndef IPS_MASTER_REQUESTS_MORE_H
#define IPS_MASTER_REQUESTS_MORE_H

#include "master/requests/requests.h"

#define REQUESTS_LOOKED 2000u

/* In the worker, when requests are sorted: d->more, d->typical. What cannot be
 * told (nothing is known of procedures, no wait) is not there. */
int requests_more_solve(struct query *q, struct ips_err *err) IPS_MUST_USE;

#endif
