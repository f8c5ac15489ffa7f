/*
 * Which end on one machine is the other side of which end on another. Pure.
 *
 * Every slave gives the ends that have no peer on its own machine. Two ends
 * join where their endpoints are each other's, swapped; a reused pair of
 * endpoints is told apart by its ordinal, k-th with k-th. User channels have
 * one key on both sides. Checks: one side connected and the other accepted;
 * where both are closed, what one sent is what the other received. Where the
 * ordinals contradict that, the pairing that agrees is taken and counted
 * ambiguous.
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
    uint32_t machine;              /* machine, in order of name */
    uint32_t index;                /* the slave's number of the end */
    uint32_t kind;                 /* enum ips_chan_kind */
    const uint8_t *local, *remote; /* borrowed */
    uint32_t local_len, remote_len;
    uint32_t ordinal;
    uint64_t sent_bytes, recv_bytes;
    bool closed, connected, accepted;
    bool named; /* user channel: joined by `local` alone */
    /* out: position in the array of the other side, or JOIN_NONE */
    uint32_t peer;
};

/* Sets `peer` of all; *ambiguous counts joins that another order explains as
 * well. O(n log n), and n^2 within one key. */
int join_ends(struct join_end *ends, uint32_t count, uint64_t *ambiguous,
              struct ips_err *err) IPS_MUST_USE;

#endif
