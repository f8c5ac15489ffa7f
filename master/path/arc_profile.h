/*
 * What the arcs of one machine were spent on, as PortionsAsk brings it, and
 * whether there is memory for questions that need every node here.
 */
#ifndef IPS_MASTER_PATH_ARC_PROFILE_H
#define IPS_MASTER_PATH_ARC_PROFILE_H

#include "master/path/entities.h"
#include "master/query/query.h"

struct arc_profile {              /* of a part, as they come; by node */
    struct entity_symbol *symbol; /* texts in kept messages */
    uint32_t symbol_count, symbol_cap;
    uint32_t *node, *of;
    uint64_t *ns;
    uint64_t count, cap;
    /* Of a window: where nodes stand (PortionsAnswer), by node. */
    uint32_t *window_node;
    uint64_t *ns_after_window_end, *ns_after_window_start;
    uint64_t window_node_count, window_node_cap;
    uint32_t *leaf, *caller; /* [callers] symbols (PortionsAnswer) */
    uint64_t *caller_ns, *caller_steps;
    uint64_t callers, callers_cap;
    struct arc_lock_time { /* symbols, bits (PortionsAnswer) */
        uint32_t leaf, site, caller, how;
        uint64_t ns;
    } * lock;
    uint64_t locks;
};

struct path_window;

/* Within a round that takes them; `window`: of that alone, as the main scenario
 * of the question, whose data begins with path_data, weighs it; NULL: all. */
void arc_profile_ask(struct query *q, struct machine_share *p,
                     const struct path_window *window);
/* All, and from where procedures were called. */
void arc_profile_ask_callers(struct query *q, struct machine_share *p);
/* ... and CPU time alone of what lies in `window` as `wall` has it, whatever
 * the main scenario weighs. */
void arc_profile_ask_cpu(struct query *q, struct machine_share *p,
                         const struct path_window *window);
int arc_profile_receive(struct query *q, struct machine_share *p,
                        struct arc_profile *w, const Ips__Reply *reply,
                        struct ips_err *err) IPS_MUST_USE;
void arc_profile_release(struct arc_profile *w);

/* IPS_E_LIMIT where the machine has not so many bytes available. */
int query_check_memory(const struct query *q, uint64_t bytes,
                       struct ips_err *err) IPS_MUST_USE;

#endif
