/*
 * What a message takes of a link that is shared, from the round trips that
 * `ipsq calibrate` measured of it.
 *
 * MTIME is no measure of that: it leaves out the CPU of the ends, which works
 * while the link does; a limit by a token bucket lets what comes after a pause
 * pass at once; and a short message alone never meets the limit. So:
 *
 *  - A byte's time is the slope of the half round trips with their CPU, from
 *    MTIME_WIRE_LONG bytes to the longest: there the link is at work without a
 *    pause. Where nothing is left beside the CPU (ns 0) the CPU is what limits,
 *    and the link takes nothing.
 *  - What goes over it are packets of at most 1448 bytes of data and 66 around
 *    them: TCP with time stamps, IPv4, Ethernet's header and its usual MTU.
 *  - The burst is what half a round trip is shorter than its packets, of the
 *    shortest length of several packets that takes longer than the burst, which
 *    then is there anew each round.
 *
 * Pure. Source: DPM-3, DRO-2.
 */
#ifndef IPS_MASTER_BASE_MTIMES_WIRE_H
#define IPS_MASTER_BASE_MTIMES_WIRE_H

#include "master/base/mtimes.h"

#define MTIME_WIRE_LONG 16384u /* bytes */
#define MTIME_WIRE_DATA 1448u  /* of a packet */
#define MTIME_WIRE_HEAD 66u

struct mtime_wire {
    struct ips_curve curve; /* the time that a message takes the link for */
    uint64_t burst_ns;      /* what an idle link saves; 0: nothing */
};
/* False: the pair does not tell; *out is as it was. */
bool mtime_wire_of(const struct mtime_pair *p, struct mtime_wire *out);

/* Bytes of messages that the pair's link lets pass in a us, at least 1; 0: it
 * does not tell, or `p` is NULL. */
uint64_t mtime_wire_rate(const struct mtime_pair *p);

#endif
