/*
 * Defines the fields of a channel end for code that joins ends of different
 * machines: slave/build makes the ends, the master joins them.
 *
 * Keys. `key_local` and `key_remote` of TCP and UDP ends have IPS_KEY_INET
 * bytes: family (u16 LE), port (u16 LE), address (16 bytes, v4 mapped). If
 * either address is loopback, both keys have IPS_KEY_LOOPBACK bytes: the hash
 * of the boot id and the network namespace follow, 8 bytes each. Two ends
 * belong to one connection if the key_local of each is the key_remote of the
 * other, and their ordinals are equal. Both keys of a USER end are the hash of
 * its name (8 bytes, LE), so the two ends of a name on two machines are joined;
 * `side` tells whether the end was written (IPS_SIDE_WRITE), read, or both. A
 * UDP end is one flow: a socket and one remote address. If the local address is
 * a wildcard (a socket bound to 0.0.0.0), its bytes are zero and a join must
 * compare only the port.
 *
 * Positions in one direction of a stream: IPS_POS_SYN is the connect, 1..n are
 * bytes, IPS_POS_EOF is the last close. Positions are absolute: they also count
 * bytes sent before the end was first named. So do `sent_bytes` and
 * `recv_bytes` of struct ips_end, and therefore `peer_sent_bytes` of one
 * end can be compared with positions of the other.
 *
 * Positions of datagrams have IPS_POS_EXACT set and are not ordered. Such a
 * position is a hash of the length, the payload hash and the number of earlier
 * equal datagrams of the flow. Both ends compute the same position, so a
 * receive depends on the out of EQUAL position, or on none (lost or unknown).
 * No stream reaches IPS_POS_EXACT, and IPS_POS_EOF obeys the same rule: "a
 * position with the top bit set matches by equality". In a sorted list these
 * positions sort like all others.
 */
#ifndef IPS_SLAVE_BUILD_CHANNEL_H
#define IPS_SLAVE_BUILD_CHANNEL_H

#include <stdint.h>

#include "analysis/graph/graph.h"
#include "common/types.h"

#define IPS_KEY_INET 20u
#define IPS_KEY_LOOPBACK 36u
#define IPS_KEY_USER 8u
#define IPS_POS_EXACT (1ull << 63)

/* Returns the position of the `nth` (from 0) datagram of this length and
 * hash. */
static inline uint64_t
ips_compute_datagram_position_hash(uint64_t len, uint64_t hash, uint64_t nth)
{
    uint64_t parts[3] = {len, hash, nth};
    uint64_t pos = ips_fnv1a(IPS_FNV_SEED, parts, sizeof(parts));
    pos |= IPS_POS_EXACT;
    return pos == IPS_POS_EOF ? pos - 1 : pos;
}

#endif
