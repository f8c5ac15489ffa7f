/*
 * The rounds that most questions begin with:
 *
 *   SyncAsk    ingest what is published, build the graph; who has the run
 *   TableAsk   processes, threads, channels
 *   EndsAsk    ends without a peer on their machine; joined here (join.h)
 *   PeersAsk   tells every slave what its ends are joined to
 *
 * An end that nobody else has is untraced only where all machines of the run
 * answered; else it stays pending, and the answer is incomplete.
 */
#ifndef IPS_MASTER_QUERY_GATHER_H
#define IPS_MASTER_QUERY_GATHER_H

#include "master/query/query.h"

enum {
    GATHER_TABLE = 1,
    GATHER_PEERS = 2,
    GATHER_WAITS = 4, /* WaitRowsAsk will follow */
};

/* `after` is called with q->gather.active filled; where no machine can answer,
 * the question has been refused instead. */
void gather_start(struct query *q, unsigned want,
                  void (*after)(struct query *q));
/* For a kind's release. */
void gather_release(struct query *q);

/* "m1 (not connected), m2 (why)" of what is missing; "" where nothing is. */
void gather_missing_text(const struct query *q, char *out, size_t cap);
/* CPU time between two samples; 0: no machine that answered took any. */
uint64_t gather_sample_ns(const struct query *q);
/* Does `object` (a pattern, common/object.h) select a machine that answered, or
 * a process or thread of its table? A thread is selected by its number or its
 * name. Wants GATHER_TABLE where the pattern has more than one part. */
bool gather_has_object(const struct query *q, const char *object);
/* Sets that no machine that was asked has the object, who was not asked, and
 * the nearest name of those that the question gathered. */
void gather_no_object(const struct query *q, const char *object,
                      struct ips_err *err);

#endif
