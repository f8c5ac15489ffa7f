/*
 * What the arcs of one machine were spent on, as PortionsAsk brings it, and
 * whether there is memory for questions that need every node here.
 */
#ifndef IPS_MASTER_PATH_ARC_PROFILE_H
#define IPS_MASTER_PATH_ARC_PROFILE_H

#include "master/path/entities.h"
#include "master/query/query.h"

struct portions {                /* of a part, as they come; by node */
    struct thing_symbol *symbol; /* texts in kept messages */
    uint32_t symbol_count, symbol_cap;
    uint32_t *node, *of;
    uint64_t *ns;
    uint64_t count, cap;
    /* Of a window: where nodes stand (PortionsAnswer), by node. */
    uint32_t *stands;
    uint64_t *past, *since;
    uint64_t stands_count, stands_cap;
    uint32_t *leaf, *caller; /* [callers] symbols (PortionsAnswer) */
    uint64_t *caller_ns, *caller_steps;
    uint64_t callers, callers_cap;
};

struct path_window;

/* Within a round that takes them; `window`: of that alone, as the main lane of
 * the question, whose data begins with path_data, weighs it; NULL: all. */
void portions_ask(struct query *q, struct part *p,
                  const struct path_window *window);
/* All, and from where procedures were called. */
void portions_ask_callers(struct query *q, struct part *p);
/* ... and CPU time alone of what lies in `window` as `wall` has it, whatever
 * the main lane weighs. */
void portions_ask_cpu(struct query *q, struct part *p,
                      const struct path_window *window);
int portions_take(struct query *q, struct part *p, struct portions *w,
                  const Ips__Reply *reply, struct ips_err *err) IPS_MUST_USE;
void portions_release(struct portions *w);

/* IPS_E_LIMIT where the machine has not so many bytes available. */
int query_check_memory(const struct query *q, uint64_t bytes,
                       struct ips_err *err) IPS_MUST_USE;

#endif
