/*
 * The machines' clocks on one scale, from the messages between them: every
 * slave says the moments of its remote sends and receives; pairs of them bound
 * pairs of clocks (analysis/graph/clock_align.h), and a spanning tree joins the
 * machines to the one on which the run began. Source: ALGORITHMS 6.
 */
#ifndef IPS_MASTER_PATH_CLOCKS_H
#define IPS_MASTER_PATH_CLOCKS_H

#include "master/path/engine.h"

/* Sets the clock of every part but `root`, whose is set, and d->clock_text;
 * then `after`. One round of questions, and work in the worker. */
void clocks_align(struct query *q, uint32_t root,
                  void (*after)(struct query *q));

#endif
