/* Progress messages to a client whose answer takes long. */
#ifndef IPS_MASTER_QUERY_PROGRESS_H
#define IPS_MASTER_QUERY_PROGRESS_H

#include "master/query/query.h"

/* Sends Progress if the client asked for it, at most once a second, until the
 * answer has started. */
void progress_send(struct query *q, uint64_t now_ns);

#endif
