/* Describes how the threads' states change over time, for the files that
 * implement concurrent_activity.h. */
#ifndef IPS_ANALYSIS_EXPLAIN_CONCURRENT_CHANGES_H
#define IPS_ANALYSIS_EXPLAIN_CONCURRENT_CHANGES_H

#include "analysis/explain/concurrent_activity.h"

#define NO_CHAIN UINT32_MAX

/* The state of a chain. GONE: it has not started, or has ended. OUTSIDE: its
 * thread waits for something that is not recorded or not counted here. */
enum state {
    GONE,
    BUSY,
    OUTSIDE,
    WAIT_LOCK,
    WAIT_PEER,  /* waits for a message from a thread of its own role */
    WAIT_ASKED, /* waits for a message from a thread of another role */
    WAIT_OTHER,
    STATES
};
/* Changes of a chain's queue length instead of its state. QUEUE_MORE: a message
 * for the busy chain arrived on another connection. QUEUE_LESS: the chain is
 * about to receive such a message. */
enum { QUEUE_MORE = STATES, QUEUE_LESS };

struct change {         /* a chain has this state from EST `t` on */
    uint64_t t, number; /* `number`: order in which the changes were added */
    uint32_t chain;
    uint32_t from; /* chain that sent the queued message or that ends the wait;
                      NO_CHAIN: none */
    uint32_t node; /* the node at which the wait ends; IPS_NO_NODE: none */
    uint8_t state;
    bool awaits_space; /* the chain waits for buffer space to send */
};
/* Sets take_turns[r] for each role r whose threads hardly ever work at the same
 * time. `change`: all changes, in order of time; works [chains]: the work of
 * each chain, ns. */
int ips_find_roles_whose_threads_take_turns(
    const struct ips_concurrent_ask *ask, const struct change *change,
    size_t changes, const uint64_t *works, bool *take_turns,
    struct ips_err *err) IPS_MUST_USE;

#endif
