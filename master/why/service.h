/*
 * `why --for latency|throughput`: says in words for what the requests of a
 * service wait and what limits their rate. The input is the answer about
 * requests. Pure. Covers the service with the most requests. A finding is about
 * one part of a request's time. Its gain is the time that a mean request would
 * save without that part, also as a percentage of the mean time. A finding
 * about the rate limit has no gain. Thresholds: docs/why.md. Source: ALGORITHMS
 * 4 (requests, throughput); IPS-17.
 */
#ifndef IPS_MASTER_WHY_SERVICE_H
#define IPS_MASTER_WHY_SERVICE_H

#include "master/base/arena.h"
#include "proto/message.h"

/* Parts below this share of a mean request are not reported. */
#define WHY_SERVICE_PART_PPM 50000u
/* The slowest 1% are reported if they take this many times the median. */
#define WHY_SERVICE_TAIL 3u
/* Number of requests needed before the slowest 1% are reported. */
#define WHY_SERVICE_MANY 100u

/* Fills answers, shape, shape_says, sure, sure_why, wall_ns and findings of
 * `to`; all strings belong to the arena or to `from`. `run` is used in commands
 * that show more. `asked` is latency, throughput, or requests (both, findings
 * about latency first). */
void why_explain_service(const Ips__RequestsAnswer *from, const char *run,
                         const char *asked, struct arena *a,
                         Ips__WhyAnswer *to);

#endif
