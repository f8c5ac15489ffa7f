/*
 * What the fields of a channel end mean, for those who join ends of different
 * machines (slave/build/build.h makes them, the master joins them).
 *
 * Keys. `key_local` and `key_remote` of TCP and UDP ends are IPS_KEY_INET
 * bytes: family (u16 LE), port (u16 LE), address (16 bytes, v4 mapped); where
 * either address is loopback, IPS_KEY_LOOPBACK: 8 bytes each of the boot id's
 * hash and the network namespace follow in both. Two ends are one connection
 * when each one's key_local is the other's key_remote, ordinal to ordinal.
 * Those of USER ends are the 8 bytes (LE) of the name's
 * hash, both alike: the two ends of a name on two machines are joined; `side`
 * says whether this one was written (IPS_SIDE_WRITE), read, or both. A UDP end
 * is one flow: a socket and one remote address. Where the local address is a
 * wildcard (a socket bound to 0.0.0.0) its bytes are zero, and a join must
 * compare the port alone.
 *
 * Positions in one direction of a stream: IPS_POS_SYN the connect, 1..n bytes,
 * IPS_POS_EOF the last close. They are absolute: what was sent before the end
 * was first named counts, in `sent_bytes` and `recv_bytes` of struct ips_end
 * too, so that `peer_sent_bytes` of the one compares with positions of the
 * other.
 *
 * Positions of datagrams have IPS_POS_EXACT set and are no order: a key folded
 * from (length, payload hash, how many of the same went before on this flow).
 * Both ends compute the same key, so a receive depends on the out of EQUAL
 * position or on none (lost or unknown). No stream reaches IPS_POS_EXACT, and
 * IPS_POS_EOF obeys the same rule: "a position with the top bit set matches by
 * equality". In a sorted list they stand like any other.
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

/* Position of the `nth` (from 0) datagram of this length and hash. */
static inline uint64_t ips_pos_datagram(uint64_t len, uint64_t hash,
                                        uint64_t nth)
{
    uint64_t parts[3] = {len, hash, nth};
    uint64_t pos = ips_fnv1a(IPS_FNV_SEED, parts, sizeof(parts));
    pos |= IPS_POS_EXACT;
    return pos == IPS_POS_EOF ? pos - 1 : pos;
}

#endif
