/* What a client is told while its answer is late. */
#ifndef IPS_MASTER_QUERY_PROGRESS_H
#define IPS_MASTER_QUERY_PROGRESS_H

#include "master/query/query.h"

/* Sends Progress where the client asked for it, at most once a second, until
 * the answer has begun. */
void progress_send(struct query *q, uint64_t now_ns);

#endif
