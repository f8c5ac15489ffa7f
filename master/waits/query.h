/* Shared by waits/query.c, which gathers the data and computes the groups, and
 * waits/answer.c, which sends them. */
#ifndef IPS_MASTER_WAITS_QUERY_H
#define IPS_MASTER_WAITS_QUERY_H

#include "master/waits/waits.h"

struct waits_data {        /* stored in query.data */
    struct path_data path; /* must be first: the engine's helpers work on it */
    struct waits w;
    enum waits_by by;
    struct waits_groups groups;
    /* [groups.count] indices of the groups, in the requested order */
    uint32_t *order;
    struct ips_idle *idle; /* [machines] idle time of each machine */
};
static inline struct waits_data *waits_data_of(struct query *q)
{
    return q->data;
}

/* Sends the replies. Runs in the event loop's thread. */
void waits_send_answer(struct query *q);

#endif
