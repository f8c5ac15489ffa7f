/*
 * One thread for what takes long (merging and solving 10^7 nodes), so that the
 * loop goes on answering. A job's `run` is called in the worker's thread and
 * touches only what the job owns; `done` is called by the loop afterwards, also
 * when nobody waits for the result any more: it frees.
 */
#ifndef IPS_MASTER_BASE_WORKER_H
#define IPS_MASTER_BASE_WORKER_H

#include "common/err.h"

struct event_base;
struct worker;

int worker_new(struct event_base *base, struct worker **out,
               struct ips_err *err) IPS_MUST_USE;
/* Jobs run one after the other, in order. */
int worker_submit(struct worker *w, void (*run)(void *arg),
                  void (*done)(void *arg), void *arg,
                  struct ips_err *err) IPS_MUST_USE;
/* Waits for the job that runs; calls `done` of all that are left. */
void worker_free(struct worker *w);

#endif
