/*
 * The first descriptor that a poll, select or epoll found ready: `ready` and
 * `a` of its BLOCK (agent/pool/format.h). A wait for children has in `ready`
 * the one that was asked for, as a pidfd, 0 any.
 */
#ifndef IPS_AGENT_POOL_READY_H
#define IPS_AGENT_POOL_READY_H

/* BLOCK of POLL, SELECT, EPOLL: why `ready` was ready, as its `a`; 0 unknown.
 */
enum ips_ready_why {
    IPS_READY_IN = 1,  /* bytes, a connection, or end-of-file */
    IPS_READY_OUT = 2, /* room */
    IPS_READY_HUP = 4, /* the other end is closed */
    IPS_READY_ERR = 8,
};

enum ips_ready_kind {
    IPS_READY_CHANNEL = 0, /* channel id */
    IPS_READY_PIDFD = 1,   /* the process that ended */
    IPS_READY_EVENTFD = 2, /* as `ino` of its ACQUIRE; 0 unknown */
    IPS_READY_OTHER = 3,   /* a kind that no record names */
};
#define IPS_READY_KIND_SHIFT 30u
#define IPS_READY(kind, number)                                                \
    ((uint32_t)(kind) << IPS_READY_KIND_SHIFT | (uint32_t)(number))
#define IPS_READY_KIND(ready) ((ready) >> IPS_READY_KIND_SHIFT)
#define IPS_READY_TIMERFD IPS_READY(IPS_READY_OTHER, 1)
/* An epoll within the epoll: the next poll says what was ready there. */
#define IPS_READY_EPOLL IPS_READY(IPS_READY_OTHER, 2)
#define IPS_READY_NUMBER(ready) ((ready) & ((1u << IPS_READY_KIND_SHIFT) - 1))

/* RECV of a datagram: how much of it the program got. */
enum ips_cut {
    IPS_CUT_NOT = 0,
    IPS_CUT_MAYBE = 1, /* as much as there was room for: it may be longer */
    IPS_CUT_KNOWN = 2, /* `result` is its length (MSG_TRUNC), there was room for
                          less: the hash is of that */
};

#endif
