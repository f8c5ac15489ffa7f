/* Progress messages to a client whose answer takes long. */
#ifndef IPS_MASTER_QUERY_PROGRESS_H
#define IPS_MASTER_QUERY_PROGRESS_H

#include "master/query/query.h"

/* Sends a Progress message if the client asked for them: at most one a second,
 * and none once the answer has started. */
void progress_send_if_due(struct query *q, uint64_t now_ns);

#endif
