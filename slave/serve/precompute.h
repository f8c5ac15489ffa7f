/*
 * What questions would need, made before they come, while nobody waits:
 *
 *   follow  the tables of the open run that was asked about last
 *           (graphs/live_tables.h), with the records that the ingest hands over
 *   unpack  the new records of open runs that were asked about lately
 *           (graphs/records.h); the build of one continues
 *           (graphs/incremental.h)
 *   build   the graph of a large run that was closed while we looked
 *   keep    graphs that a question left to be written to their files
 *           (graphs/graphs.h)
 *
 * One job at a time, and none while a question is in hand; a question that
 * comes meanwhile waits for that one step. A private slave does none of it: it
 * is there for one run, and leaves soon.
 *
 * Thread: the loop's, but for the steps, which are the worker's.
 */
#ifndef IPS_SLAVE_SERVE_PRECOMPUTE_H
#define IPS_SLAVE_SERVE_PRECOMPUTE_H

#include "slave/serve/private.h"

/* Fewer events are built faster than anybody waits. */
#define SLAVE_AHEAD_EVENTS 100000u
/* News of an archive, packed, that are worth a turn of the worker; fewer are
 * after so long, and after so many times what the last turn took. */
#define SLAVE_AHEAD_BYTES (256u << 10)
#define SLAVE_AHEAD_NS 1000000000ull
#define SLAVE_AHEAD_SHARE 20u
/* So long after a question the next one finds the graph made. */
#define SLAVE_AHEAD_GRAPH_NS (30 * 1000000000ull)
/* A question has steps, and between them nothing is in hand here: graphs are
 * written so long after the last one. */
#define SLAVE_AHEAD_KEEP_NS (3 * 1000000000ull)

/* Is there enough news of a run that was asked about? */
bool slave_precompute_due(const struct slave_run *run, uint64_t now_ns);
/* After every turn of the drain. */
void slave_precompute_turn(struct slave_serve *v);
/* `job` may be one of ours, whose step is over: true, and it is gone. */
bool slave_precompute_done(struct slave_serve *v, struct slave_job *job);

#endif
