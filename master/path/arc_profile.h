/*
 * Fetches the arc profile of a machine (PortionsAsk): which procedures spent
 * the CPU time of its arcs. Also checks that the master has enough memory for
 * queries that need every node.
 */
#ifndef IPS_MASTER_PATH_ARC_PROFILE_H
#define IPS_MASTER_PATH_ARC_PROFILE_H

#include "master/path/entities.h"
#include "master/query/query.h"

/* Arc profile of one machine: which procedures spent the time of each arc.
 * Ordered by node, as received. */
struct arc_profile {
    /* the procedures; their texts belong to messages kept by
     * query_keep_message() */
    struct entity_symbol *symbol;
    uint32_t symbol_count, symbol_cap;
    /* [count] parallel arrays: `node` is the node at which an arc ends; the
     * procedure with index `of` in `symbol` spent `ns` of that arc */
    uint32_t *node, *of;
    uint64_t *ns;
    uint64_t count, cap;
    /* [window_node_count] if a window was requested: the nodes after its start,
     * and the ns from the window's end and from its start to each of them
     * (PortionsAnswer) */
    uint32_t *window_node;
    uint64_t *ns_after_window_end, *ns_after_window_start;
    uint64_t window_node_count, window_node_cap;
    /* [callers] pairs of symbol indexes: a procedure (leaf) and a caller on its
     * stack (PortionsAnswer) */
    uint32_t *leaf, *caller;
    uint64_t *caller_ns, *caller_steps;
    uint64_t callers, callers_cap;
    /* CPU time in the C library's lock functions (PortionsAnswer): symbol
     * indexes, and in `how` the bits SLAVE_LOCK_* (slave/profile/callers.h) */
    struct arc_lock_time {
        uint32_t leaf, site, caller, how;
        uint64_t ns;
    } * lock;
    uint64_t locks;
};

struct path_window;

/* Sends PortionsAsk to the slave of `p`; the reply handler of the current round
 * must call arc_profile_append_reply(). `window`: only the part of the arcs
 * inside the window, with the weighting of the main scenario (q->data must
 * start with path_data); NULL: all arcs. */
void arc_profile_ask(struct query *q, struct machine_share *p,
                     const struct path_window *window);
/* Like arc_profile_ask for all arcs, but also fetches the callers of
 * procedures. */
void arc_profile_ask_callers(struct query *q, struct machine_share *p);
/* Like arc_profile_ask_callers, but only for CPU time within `window`, and with
 * the weighting `wall`, whatever that of the main scenario is. */
void arc_profile_ask_cpu_and_callers(struct query *q, struct machine_share *p,
                                     const struct path_window *window);
int arc_profile_append_reply(struct query *q, struct machine_share *p,
                             struct arc_profile *w, const Ips__Reply *reply,
                             struct ips_err *err) IPS_MUST_USE;
void arc_profile_release(struct arc_profile *w);

/* Returns IPS_E_LIMIT if the master's machine has less than `bytes` of memory
 * available. */
int path_check_master_memory(const struct query *q, uint64_t bytes,
                             struct ips_err *err) IPS_MUST_USE;

#endif
