/*
 * What questions would need, made before they come, while nobody waits:
 *
 *   unpack  of an open run that somebody asked about, what its archive has
 *           grown by (records.h); and its build goes on with that (growing.h)
 *   build   of a large run that was closed while we looked, its graph
 *   keep    graphs that a question left to be written to their files (graphs.h)
 *
 * One job at a time, and none while a question is in hand; a question that
 * comes meanwhile waits for that one step. A private slave does none of it: it
 * is there for one run, and leaves soon.
 *
 * Thread: the loop's, but for the steps, which are the worker's.
 */
#ifndef IPS_SLAVE_AHEAD_H
#define IPS_SLAVE_AHEAD_H

#include "slave/serve_private.h"

/* Fewer events are built faster than anybody waits. */
#define SLAVE_AHEAD_EVENTS 100000u
/* News of an archive, packed, that are worth a turn of the worker. */
#define SLAVE_AHEAD_BYTES (256u << 10)

/* After every turn of the drain. */
void slave_ahead_turn(struct slave_serve *v);
/* `job` may be one of ours, whose step is over: true, and it is gone. */
bool slave_ahead_done(struct slave_serve *v, struct slave_job *job);

#endif
