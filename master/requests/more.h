/* Finds how the slowest requests of a service differ from those around the
 * median. For both it walks back from the end of each request along the path
 * that determined its time, and sums how that time was spent: CPU time by
 * procedure, waits by cause and call site. The result is where the difference
 * is largest, and where the requests around the median spend most. It examines
 * at most REQUESTS_LOOKED of the slowest requests, and as many around the
 * median, evenly selected. */
#ifndef IPS_MASTER_REQUESTS_MORE_H
#define IPS_MASTER_REQUESTS_MORE_H

#include "master/requests/requests.h"

#define REQUESTS_LOOKED 2000u

/* In the worker, after the requests are sorted: sets d->more and d->typical.
 * Procedures and waits that were not recorded are left out. */
int requests_compare_slowest_with_median(struct query *q,
                                         struct ips_err *err) IPS_MUST_USE;

#endif
