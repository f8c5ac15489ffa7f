/*
 * The rounds with which most questions start:
 *  - SyncAsk: the slave reads the published events and builds its graph; the
 *    master learns which machines have the run.
 *  - TableAsk: processes, threads, channels.
 *  - EndsAsk: channel ends without a peer on their machine; the master joins
 *    them (join.h).
 *  - PeersAsk: sends every slave the peers of its ends.
 * An end without a peer on any machine is untraced only if all machines of the
 * run answered. Otherwise it stays pending, and the answer is incomplete.
 */
#ifndef IPS_MASTER_QUERY_GATHER_H
#define IPS_MASTER_QUERY_GATHER_H

#include "master/query/query.h"

enum {
    GATHER_TABLE = 1,
    GATHER_PEERS = 2,
    GATHER_WAITS = 4, /* the question will send WaitRowsAsk too */
};

/* Starts the rounds that `want` needs, then calls `after` with q->gather.active
 * filled. If no machine can answer, the question is refused and `after` is not
 * called. */
void gather_start(struct query *q, unsigned want,
                  void (*after)(struct query *q));
/* To be called by the `release` function of a question kind. */
void gather_release(struct query *q);

/* Lists the missing machines with the reason: "m1 (not connected), m2 (why)";
 * "" if none is missing. */
void gather_write_missing_machines(const struct query *q, char *out,
                                   size_t cap);
/* Returns the CPU time between two samples, in ns, the longest of all machines;
 * 0: no machine that answered took samples. */
uint64_t gather_max_sample_period_ns(const struct query *q);
/* Whether `object` (a pattern, common/object.h) matches a machine that
 * answered, or a process or thread of its tables. A thread matches by its
 * number or its name. A pattern with more than one component needs
 * GATHER_TABLE. */
bool gather_has_object(const struct query *q, const char *object);
/* Sets `err` to say that no machine that was asked has the object, and returns
 * its code. The text names the machines that were not asked and the most
 * similar name that was gathered. */
int gather_set_no_object_error(const struct query *q, const char *object,
                               struct ips_err *err);

#endif
