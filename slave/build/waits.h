/*
 * Rows of single waits: each wait that wait_ns of struct ips_thread_row
 * contains, with its arc in the graph, call site and cause. Also rows of the
 * acquires and releases of locks. A build makes these rows only on request,
 * because struct ips_thread_row has the sums by cause already.
 */
#ifndef IPS_SLAVE_BUILD_WAITS_H
#define IPS_SLAVE_BUILD_WAITS_H

#include "slave/build/build.h"

/* most frames of one stack; callers further out are left out */
#define IPS_WAIT_FRAMES 32u

/* Value of `site` for a wait for pages, which has no call site. No code is at
 * address 1. */
#define B_SITE_PAGE_FAULTS ((uint64_t)1)
struct ips_wait_row {
    uint64_t end_ns, ns; /* return, ns of CLOCK_MONOTONIC_RAW; length of the
                            wait */
    /* the wait is within the arc into this node of the graph */
    uint32_t arc;
    /* the node that the waiting call made; if it made none, the same as `arc`
     */
    uint32_t call;
    uint32_t stream; /* index in the streams of the build's input */
    /* index in `stack`; IPS_NONE: only the call site is known */
    uint32_t stack;
    uint64_t site; /* return address; 0: unknown; B_SITE_PAGE_FAULTS: no call */
    uint8_t cause; /* enum ips_wait_cause */
    /* the node of `arc` is the end of the wait; if it has a cross arc, that
     * arc's source ended the wait */
    bool of_node;
};
struct ips_wait_stack {
    uint32_t first, count; /* range in `frame` */
    uint32_t stream;
    uint64_t t_ns;
};
/* value of `w` in struct ips_lock_row: the acquire or release is at the node
 * itself */
#define IPS_LOCK_AT_NODE UINT64_MAX
/* A point at which a chain asks for a lock, or releases it. A replay decides
 * anew which chain gets the lock next (build/locks.c). */
struct ips_lock_row { /* ordered by node, w, t, seq */
    uint32_t lock;    /* number of the lock object */
    uint32_t units; /* units of the lock that are free at the start of the run:
                       1 for a mutex; 0: the lock is a semaphore whose units are
                       not known */
    uint32_t node;
    uint32_t seq; /* order among the rows of one chain and object */
    uint64_t t;   /* recorded time of the acquire or release */
    /* position: IPS_LOCK_AT_NODE: at `node`; else within the arc into `node`,
     * after this much CPU time (ns) */
    uint64_t w;
    bool gives;
};
/* A thread in a call that has not returned, or that ended only because its
 * process ended. */
struct ips_blocked_row {
    struct ips_current_call begun;
    uint64_t since_ns; /* start of the call, ns of CLOCK_MONOTONIC_RAW */
    /* index in the streams of the build's input; chain of the graph */
    uint32_t stream, chain;
    /* chain that the thread waits for: it holds the lock, or the thread joins
     * it; IPS_NONE: not known */
    uint32_t by;
    /* index in `ends`: the channel end that the call works on; IPS_NONE: the
     * call moves no bytes, or its channel is not known */
    uint32_t end;
};
/* The call site at which a thread released a lock that another thread waited
 * for. */
struct ips_release_row {
    uint64_t site, t_ns; /* return address; ns of CLOCK_MONOTONIC_RAW */
    uint32_t node, stream;
};
struct ips_wait_rows {
    struct ips_wait_row *row; /* ordered by arc, then by end_ns */
    uint32_t count, capacity;
    struct ips_wait_stack *stack;
    uint32_t stack_count, stack_capacity;
    uint64_t *frame; /* return addresses, innermost first */
    uint32_t frame_count, frame_capacity;
    /* [dropped_count] return nodes of sends that did not wait for space, but
     * were preempted; their waits are dropped */
    uint32_t *dropped;
    uint32_t dropped_count, dropped_capacity;
    struct ips_release_row *release; /* ordered by node */
    uint32_t release_count, release_capacity;
    struct ips_lock_row *lock; /* ordered by node, w, t, seq */
    uint32_t lock_count, lock_capacity;
    struct ips_blocked_row *blocked; /* ordered by chain */
    uint32_t blocked_count, blocked_capacity;
};
void ips_wait_rows_release(struct ips_wait_rows *w);

#endif
