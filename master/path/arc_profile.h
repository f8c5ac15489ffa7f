/*
 * Fetches with PortionsAsk what the arcs of one machine were spent on, and
 * checks that the master has memory for queries that need every node.
 */
#ifndef IPS_MASTER_PATH_ARC_PROFILE_H
#define IPS_MASTER_PATH_ARC_PROFILE_H

#include "master/path/entities.h"
#include "master/query/query.h"

/* Arc profile of one machine, in the order received, which is by node. */
struct arc_profile {
    struct entity_symbol *symbol; /* its texts lie in kept messages */
    uint32_t symbol_count, symbol_cap;
    uint32_t *node, *of; /* [count] arc's end; symbol that spent `ns` of it */
    uint64_t *ns;
    uint64_t count, cap;
    /* If a window was asked for: position of nodes relative to it, by node
     * (PortionsAnswer). */
    uint32_t *window_node;
    uint64_t *ns_after_window_end, *ns_after_window_start;
    uint64_t window_node_count, window_node_cap;
    uint32_t *leaf, *caller; /* [callers] symbol indexes (PortionsAnswer) */
    uint64_t *caller_ns, *caller_steps;
    uint64_t callers, callers_cap;
    struct arc_lock_time { /* symbol indexes; `how`: bits (PortionsAnswer) */
        uint32_t leaf, site, caller, how;
        uint64_t ns;
    } * lock;
    uint64_t locks;
};

struct path_window;

/* Sends PortionsAsk; the caller's round must pass the replies to
 * arc_profile_receive(). `window`: only the part of the arcs in the window,
 * with the weighting of the query's main scenario (the query's data must start
 * with path_data); NULL: all. */
void arc_profile_ask(struct query *q, struct machine_share *p,
                     const struct path_window *window);
/* The same for all arcs, and with the callers of procedures. */
void arc_profile_ask_callers(struct query *q, struct machine_share *p);
/* The same with callers, but only CPU time within `window`, with the weighting
 * `wall`, whatever that of the main scenario is. */
void arc_profile_ask_cpu(struct query *q, struct machine_share *p,
                         const struct path_window *window);
int arc_profile_receive(struct query *q, struct machine_share *p,
                        struct arc_profile *w, const Ips__Reply *reply,
                        struct ips_err *err) IPS_MUST_USE;
void arc_profile_release(struct arc_profile *w);

/* IPS_E_LIMIT if less than `bytes` of memory is available on this machine. */
int query_check_memory(const struct query *q, uint64_t bytes,
                       struct ips_err *err) IPS_MUST_USE;

#endif
