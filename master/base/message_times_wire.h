/*
 * How long a message occupies a shared link, computed from the round trips that
 * `ipsq calibrate` measured over that link.
 *
 * The message time of the table (half a round trip without CPU time) does not
 * show this, for three reasons. It leaves out the CPU time of the ends, which
 * work at the same time as the link. A rate limiter (token bucket) lets data
 * pass at once after a pause. A single short message never reaches the limit of
 * the link. Therefore:
 *
 *  - The time per byte is the slope of half the round trip, including the CPU
 *    time, from MTIME_WIRE_LONG bytes to the longest message: at these lengths
 *    the link works without a pause. If no time remains after the CPU time is
 *    subtracted (ns 0), the CPU is the limit and the link counts as free.
 *  - A message crosses the link as packets of at most 1448 bytes of data and 66
 *    bytes of headers: TCP with timestamps, IPv4, Ethernet with its usual MTU.
 *  - The burst is the link time that a message saves because the bucket is
 *    full: the link time of its packets minus half the measured round trip. It
 *    is computed from the shortest message that needs several packets and takes
 *    longer than the burst, because then the bucket is full again in each
 *    round.
 *
 * Pure. Source: DPM-3, DRO-2.
 */
#ifndef IPS_MASTER_BASE_MTIMES_WIRE_H
#define IPS_MASTER_BASE_MTIMES_WIRE_H

#include "master/base/message_times.h"

/* bytes of the shortest message from which the time per byte is computed */
#define MTIME_WIRE_LONG 16384u
#define MTIME_WIRE_DATA 1448u /* bytes of data per packet */
#define MTIME_WIRE_HEAD 66u

struct message_time_wire {
    struct ips_curve curve; /* link time by message length */
    /* link time that a message saves after a pause of the link; 0: none */
    uint64_t burst_ns;
};
/* Sets *out to how long messages occupy the pair's link. Returns false, and
 * leaves *out unchanged, if the measurements of the pair do not show how fast
 * the link is. */
bool message_time_wire_compute(const struct message_time_pair *p,
                               struct message_time_wire *out);

/* Returns the throughput of the pair's link in bytes of messages per us, at
 * least 1; 0 if it is not known or `p` is NULL. */
uint64_t message_time_wire_bytes_per_us(const struct message_time_pair *p);

#endif
