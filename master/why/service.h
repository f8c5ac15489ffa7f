/*
 * `why --for latency|throughput`: what the requests of a service wait for, and
 * what bounds their rate, in words; from the answer about requests. Pure. Of
 * the service that had most requests. A finding's gain is of a mean request:
 * what it would take less, did that part take no time; its share is of the mean
 * time. Of a bound: none. Thresholds: docs/why.md. Source: ALGORITHMS 4
 * (requests, throughput); IPS-17.
 */
#ifndef IPS_MASTER_WHY_SERVICE_H
#define IPS_MASTER_WHY_SERVICE_H

#include "master/base/arena.h"
#include "proto/message.h"

/* Parts below that share of a mean request are not said. */
#define WHY_SERVICE_PART_PPM 50000u
/* The slowest 1% are said where they take so many times the median. */
#define WHY_SERVICE_TAIL 3u
/* So many requests before anything is said of the slowest 1% of them. */
#define WHY_SERVICE_MANY 100u

/* Fills answers, shape_text, sure and findings of `to`; all texts are the
 * arena's or `from`'s. `run` is for the commands that show more. `asked` is
 * latency, throughput, or requests: both, the findings of latency first. */
void why_service(const Ips__RequestsAnswer *from, const char *run,
                 const char *asked, struct arena *a, Ips__WhyAnswer *to);

#endif
