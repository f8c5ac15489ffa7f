/*
 * Joins channel ends of different machines: finds for each end the other side
 * of its connection. Pure.
 *
 * Every slave sends the ends that have no peer on its own machine. Two ends
 * join if the local endpoint of each is the remote endpoint of the other. If a
 * pair of endpoints was used several times, the ordinal decides: the k-th end
 * joins the k-th. Both ends of a channel that the program named through the API
 * (a user channel) have the same key. Checks: one side connected and the other
 * accepted; if both are closed, one received what the other sent. If the
 * ordinals contradict these checks, a pairing that satisfies them is used and
 * counted as ambiguous.
 *
 * Source: ALGORITHMS 1 "Matching closes channel by channel", DESIGN "Events".
 */
#ifndef IPS_MASTER_QUERY_JOIN_H
#define IPS_MASTER_QUERY_JOIN_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"

#define JOIN_NONE UINT32_MAX

struct join_end {
    uint32_t machine;              /* index of the machine in order of names */
    uint32_t index;                /* the slave's number for the end */
    uint32_t kind;                 /* values of enum ips_chan_kind */
    const uint8_t *local, *remote; /* the endpoints; borrowed */
    uint32_t local_len, remote_len;
    uint32_t ordinal;
    uint64_t sent_bytes, recv_bytes;
    bool closed, connected, accepted;
    bool named; /* a user channel, which is joined by `local` alone */
    /* result: index of the other side in the array, or JOIN_NONE */
    uint32_t peer;
};

/* Sets `peer` of all ends, and *ambiguous to the number of joins for which a
 * different pairing is equally possible. O(n log n), but O(n^2) within one key.
 */
int join_ends(struct join_end *ends, uint32_t count, uint64_t *ambiguous,
              struct ips_err *err) IPS_MUST_USE;

#endif
