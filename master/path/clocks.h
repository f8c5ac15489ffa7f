/*
 * Converts the machines' clocks to one scale, using the messages between the
 * machines. Every slave reports the times of its remote sends and receives.
 * Matching pairs bound the offset between two clocks
 * (analysis/graph/clock_align.h). A spanning tree connects all machines to the
 * one on which the run started. Source: ALGORITHMS 6.
 */
#ifndef IPS_MASTER_PATH_CLOCKS_H
#define IPS_MASTER_PATH_CLOCKS_H

#include "master/path/engine.h"

/* Sets the clock of every machine except `root` (whose clock must be set),
 * d->clock_text and d->clock_bound_ns; then calls `after`. Asks all slaves once
 * and computes in the worker. */
void clocks_align(struct query *q, uint32_t root,
                  void (*after)(struct query *q));

#endif
