/*
 * The call that a thread is in now, kept in the header of the segment that the
 * thread writes (agent/pool/format.h). The record of a call is written when the
 * call returns. So this note is the only trace of a call that never returns,
 * because the program hangs or was killed while it waited.
 *
 * Invariants:
 *  - if calls are nested (a signal handler calls within another call), this is
 *    the outermost one;
 *  - `t` is stored last, and is set to 0 when the call ends; the fields stored
 *    before it belong to it. A reader of a live segment reads `t` again
 *    afterwards: if it is unchanged, the fields belong together.
 */
#ifndef IPS_AGENT_POOL_BEGUN_H
#define IPS_AGENT_POOL_BEGUN_H

#include <stdatomic.h>
#include <stdint.h>

struct ips_current_call { /* 48 bytes */
    _Atomic uint64_t t;   /* stamp of the call; 0: no call */
    uint64_t cpu;         /* thread CPU ns at the call */
    uint64_t site;        /* return address of the call, 0 unknown */
    uint64_t what;        /* which call; packed by IPS_BEGUN(), below */
    uint64_t object; /* ACQUIRE: address or number of the object; JOIN: fork_seq
                        of the FORK */
    uint64_t holder; /* ACQUIRE: thread id of the holder, 0 not known */
};

/* Packs `what`. `type`: enum ips_rec_type of the record that the call will
 * write (SEND or RECV if it moves bytes); `op`: enum ips_op; `number`: channel
 * id, enum ips_sync, or pid of a child (0: any child). */
#define IPS_BEGUN(type, op, number)                                            \
    ((uint64_t)(number) | (uint64_t)(op) << 32 | (uint64_t)(type) << 48)
#define IPS_BEGUN_TYPE(what) ((uint32_t)((what) >> 48))
#define IPS_BEGUN_OP(what) ((uint32_t)((what) >> 32) & 0xffffu)
#define IPS_BEGUN_NUMBER(what) ((uint32_t)(what))

#endif
