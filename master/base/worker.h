/*
 * One thread for long computations (merging and solving 10^7 nodes), so that
 * the event loop keeps answering. The worker's thread calls `run`, which
 * touches only data that the job owns. The loop calls `done` afterwards, even
 * if no question waits for the result any more, because `done` frees the job.
 */
#ifndef IPS_MASTER_BASE_WORKER_H
#define IPS_MASTER_BASE_WORKER_H

#include "common/err.h"

struct event_base;
struct worker;

int worker_new(struct event_base *base, struct worker **out,
               struct ips_err *err) IPS_MUST_USE;
/* Queues a job; jobs run one at a time, in the order of submission. */
int worker_submit(struct worker *w, void (*run)(void *arg),
                  void (*done)(void *arg), void *arg,
                  struct ips_err *err) IPS_MUST_USE;
/* Waits for the running job, then calls `done` for all jobs left in the queues,
 * including those whose `run` was never called. */
void worker_free(struct worker *w);

#endif
