/*
 * The call that a thread is in: in the header of the segment that it writes
 * (agent/pool/format.h). A record is written at the end of a call, so of one
 * that never ends this is all there is: a thread of a program that hangs, or
 * that was killed while it waited.
 *
 * Invariants:
 *  - of calls within calls (a signal handler's) the outermost;
 *  - `t` is stored last, and 0 again when the call is over; what was stored
 *    before belongs to it. A reader of a live segment looks again: an equal `t`
 *    says that nothing was mixed.
 */
#ifndef IPS_AGENT_POOL_BEGUN_H
#define IPS_AGENT_POOL_BEGUN_H

#include <stdatomic.h>
#include <stdint.h>

struct ips_begun {      /* 48 bytes */
    _Atomic uint64_t t; /* stamp of the call; 0: in none */
    uint64_t cpu;       /* thread CPU ns at the call */
    uint64_t site;      /* return address of the call, 0 unknown */
    uint64_t what;      /* IPS_BEGUN_*, below */
    uint64_t object;    /* ACQUIRE: address or number; JOIN: of the FORK */
    uint64_t holder;    /* ACQUIRE: thread id of who has it, 0 not known */
};

/* `type`: enum ips_rec_type of the record to come (SEND or RECV of what moves
 * bytes); `op`: enum ips_op; `number`: channel id, enum ips_sync, or pid of a
 * child; 0 any. */
#define IPS_BEGUN(type, op, number)                                            \
    ((uint64_t)(number) | (uint64_t)(op) << 32 | (uint64_t)(type) << 48)
#define IPS_BEGUN_TYPE(what) ((uint32_t)((what) >> 48))
#define IPS_BEGUN_OP(what) ((uint32_t)((what) >> 32) & 0xffffu)
#define IPS_BEGUN_NUMBER(what) ((uint32_t)(what))

#endif
