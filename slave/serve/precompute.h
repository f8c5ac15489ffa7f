/*
 * Prepares data for likely questions while no request waits:
 *
 *  - updates the tables of the open run asked about last (the live tables,
 *    graphs/live_tables.h), from records that the drain hands over
 *  - unpacks new records of open runs asked about recently (graphs/records.h),
 *    and continues the build of one of them (graphs/incremental.h)
 *  - builds the graph of a large run that has just been closed
 *  - writes the files of graphs that questions left unwritten (graphs/graphs.h)
 *
 * Only one such job runs at a time, and none starts while a request is in
 * progress. A request that comes while a job runs waits until the job's step
 * has ended. A private slave does not precompute: it serves one run and ends
 * soon.
 *
 * Runs on the event loop's thread; the steps run on the worker.
 */
#ifndef IPS_SLAVE_SERVE_PRECOMPUTE_H
#define IPS_SLAVE_SERVE_PRECOMPUTE_H

#include "slave/serve/private.h"

/* Graphs of runs with fewer events are built fast enough on demand. */
#define SLAVE_PRECOMPUTE_EVENTS 100000u
/* A job for a run starts when the run's archive has grown by this number of
 * (packed) bytes. With less growth it starts when, after the end of the last
 * job, SLAVE_PRECOMPUTE_NS and SLAVE_PRECOMPUTE_SHARE times that job's duration
 * have passed. */
#define SLAVE_PRECOMPUTE_BYTES (256u << 10)
#define SLAVE_PRECOMPUTE_NS 1000000000ull
#define SLAVE_PRECOMPUTE_SHARE 20u
/* The graph of an open run is kept up to date for this time after a question.
 */
#define SLAVE_PRECOMPUTE_GRAPH_NS (30 * 1000000000ull)
/* Graphs are written to files this time after the last request: a question
 * consists of several requests, with pauses between them. */
#define SLAVE_PRECOMPUTE_WRITE_NS (3 * 1000000000ull)

/* Whether the run was asked about, and has enough new data for a precompute
 * job. */
bool slave_precompute_is_due(const struct slave_run *run, uint64_t now_ns);
/* Starts a job if there is one to do. Call after every turn of the drain, the
 * loop that reads the pool. */
void slave_precompute_start_next_job(struct slave_serve *v);
/* If `job` is the precompute job, whose step has ended, gives it to the worker
 * for release and returns true. */
bool slave_release_job_if_precompute(struct slave_serve *v,
                                     struct slave_job *job);

#endif
