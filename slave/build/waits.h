/*
 * Every wait that a build counts (struct ips_thread_row's wait_ns), one by one:
 * where in the graph it lies, from where it was called, what its cause is. Made
 * where a build is asked for them, and for that alone; sums by thread and cause
 * are the rows' own. And who asked for locks, and gave them back. Source:
 * IPS-15.
 */
#ifndef IPS_SLAVE_BUILD_WAITS_H
#define IPS_SLAVE_BUILD_WAITS_H

#include "slave/build/build.h"

#define IPS_WAIT_FRAMES 32u /* of a stack; outer ones are left out */

struct ips_wait_row {
    uint64_t end_ns, ns; /* local raw: returned; how long */
    uint32_t arc;        /* it lies in the arc into this node of the graph */
    uint32_t call;       /* node that its own call made; or as arc */
    uint32_t stream;     /* of the build's input */
    uint32_t stack;      /* of `stacks`, or IPS_NONE: the site alone */
    uint64_t site;       /* return address, 0 unknown */
    uint8_t cause;       /* enum ips_wait_cause */
    bool of_node;        /* that node is what was waited for, if anything */
};
struct ips_wait_stack {
    uint32_t first, count; /* of `frames` */
    uint32_t stream;
    uint64_t t_ns;
};
/* A moment of a chain at which it asks for a lock, or gives one back, for a
 * replay that settles anew who is next (build/locks.c). */
#define IPS_LOCK_AT_NODE UINT64_MAX
struct ips_lock_row { /* by node, w, t, seq */
    uint32_t lock;    /* number of the object */
    uint32_t units;   /* of it that are free at the begin: 1 of a mutex */
    uint32_t node;
    uint32_t seq; /* of one chain and object: in order */
    uint64_t t;   /* when it was done, as recorded */
    uint64_t w;   /* IPS_LOCK_AT_NODE: that node; else after so much of the work
                   of the arc into it */
    bool gives;
};
/* A thread in a call that has not ended, or ended with its process. */
struct ips_blocked_row {
    struct ips_begun begun;
    uint64_t since_ns;      /* local raw: of the call */
    uint32_t stream, chain; /* of the build's input; of the graph */
    uint32_t by;  /* chain of who has it, or whose end it waits for; or
                     IPS_NONE */
    uint32_t end; /* of `ends`: of what moves bytes; or IPS_NONE */
};
/* From where a lock was given back that another thread waited for. */
struct ips_release_row {
    uint64_t site, t_ns; /* return address; local raw */
    uint32_t node, stream;
};
struct ips_wait_rows {
    struct ips_wait_row *row; /* by arc, within it as they were */
    uint32_t count, capacity;
    struct ips_wait_stack *stack;
    uint32_t stack_count, stack_capacity;
    uint64_t *frame; /* return addresses, innermost first */
    uint32_t frame_count, frame_capacity;
    uint32_t *dropped; /* arcs: a send that was only preempted */
    uint32_t dropped_count, dropped_capacity;
    struct ips_release_row *release; /* by node */
    uint32_t release_count, release_capacity;
    struct ips_lock_row *lock; /* in order */
    uint32_t lock_count, lock_capacity;
    struct ips_blocked_row *blocked; /* by chain */
    uint32_t blocked_count, blocked_capacity;
};
void ips_wait_rows_release(struct ips_wait_rows *w);

#endif
