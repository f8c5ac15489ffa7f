/*
 * The first descriptor that a poll, select or epoll found ready: `ready` and
 * `a` of its BLOCK (agent/pool/format.h). In the BLOCK of a wait for children,
 * `ready` is the child that the program waited for, as kind PIDFD; 0: any
 * child.
 */
#ifndef IPS_AGENT_POOL_READY_H
#define IPS_AGENT_POOL_READY_H

#include <stdbool.h>
#include <stdint.h>

/* `a` of the BLOCK of a POLL, SELECT or EPOLL: why the descriptor `ready` was
 * ready; 0 unknown. */
enum ips_ready_why {
    IPS_READY_IN = 1,  /* bytes, a connection, or end-of-file */
    IPS_READY_OUT = 2, /* space to write */
    IPS_READY_HUP = 4, /* the other end is closed */
    IPS_READY_ERR = 8,
};

enum ips_ready_kind {
    IPS_READY_CHANNEL = 0, /* the number is a channel id */
    IPS_READY_PIDFD = 1,   /* the number is the pid of the process that ended */
    IPS_READY_EVENTFD = 2, /* the `ino` of the eventfd's ACQUIRE; 0: unknown */
    IPS_READY_OTHER = 3,   /* a kind of descriptor that no record describes */
};
#define IPS_READY_KIND_SHIFT 30u
#define IPS_READY(kind, number)                                                \
    ((uint32_t)(kind) << IPS_READY_KIND_SHIFT | (uint32_t)(number))
#define IPS_READY_KIND(ready) ((ready) >> IPS_READY_KIND_SHIFT)
#define IPS_READY_TIMERFD IPS_READY(IPS_READY_OTHER, 1)
/* The ready descriptor is itself an epoll descriptor; the program's next poll,
 * on it, reports which of its descriptors was ready. */
#define IPS_READY_EPOLL IPS_READY(IPS_READY_OTHER, 2)
/* A signalfd, and the signals that it accepts: bits 1 to 27 stand for the
 * signals with these numbers, bit 0 for all others; no bit: unknown. */
#define IPS_READY_SIGNALFD_BIT (1u << 28)
#define IPS_READY_SIGNALFD(signals)                                            \
    IPS_READY(IPS_READY_OTHER, IPS_READY_SIGNALFD_BIT | (signals))
/* A POSIX message queue, identified by the low bits of the `ino` of its
 * ACQUIREs. */
#define IPS_READY_QUEUE_BIT (1u << 29)
#define IPS_READY_QUEUE(ino)                                                   \
    IPS_READY(IPS_READY_OTHER,                                                 \
              IPS_READY_QUEUE_BIT |                                            \
                  ((uint32_t)(ino) & (IPS_READY_QUEUE_BIT - 1)))
/* In ACQUIREs and RELEASEs of a message queue, `object` is 0 for a message, or
 * this value for free space in the queue. */
#define IPS_SYNC_OF_SPACE (1ull << 32)
#define IPS_READY_NUMBER(ready) ((ready) & ((1u << IPS_READY_KIND_SHIFT) - 1))

/* Does `ready` mean that the poll found an eventfd ready? */
static inline bool ips_ready_is_eventfd(uint32_t ready)
{
    return IPS_READY_KIND(ready) == IPS_READY_EVENTFD &&
           IPS_READY_NUMBER(ready);
}
/* Does `ready` mean that the poll found a message queue ready? */
static inline bool ips_ready_is_message_queue(uint32_t ready)
{
    return IPS_READY_KIND(ready) == IPS_READY_OTHER &&
           (ready & IPS_READY_QUEUE_BIT);
}
/* Does `ready` mean that the poll found a signalfd ready? */
static inline bool ips_ready_is_signalfd(uint32_t ready)
{
    return IPS_READY_KIND(ready) == IPS_READY_OTHER &&
           (ready & IPS_READY_SIGNALFD_BIT) &&
           !ips_ready_is_message_queue(ready);
}

/* `ready` of the RECV of a datagram: did the program receive the whole
 * datagram? */
enum ips_cut {
    IPS_CUT_NOT = 0,
    IPS_CUT_MAYBE = 1, /* the datagram filled the buffer: it may be longer */
    /* `result` is the datagram's length (MSG_TRUNC) but the buffer was shorter;
       the hash covers the bytes in the buffer. */
    IPS_CUT_KNOWN = 2,
};

#endif
