/*
 * Keeps the intermediate results tables up to date while programs run (IPS-8):
 * when a run has news, its machines are asked for their tables as for a
 * question, which makes them bring theirs up to date too, and the rows of the
 * run and its machines are put into the catalogue. So a question about them is
 * answered by the master alone (category 1 of IPS-9).
 *
 * Measured machines have better to do: one run at a time, never beside a
 * question about it, not again before REFRESH_TIMES as long as the last time
 * took has passed (and REFRESH_NS), and only runs of up to REFRESH_EVENTS_MOST,
 * since tables are made from all events. Beyond, and of runs that this master
 * has not seen open, tables are as new as the last question. Thread: the
 * loop's.
 */
#ifndef IPS_MASTER_TABLES_REFRESH_H
#define IPS_MASTER_TABLES_REFRESH_H

#include "master/query/query.h"

#define REFRESH_NS 2000000000ULL
#define REFRESH_TIMES 20u
#define REFRESH_EVENTS_MOST 5000000u
#define REFRESH_RUNS_MOST 1024u

/* A slave has reported. */
void refresh_heard(struct master *m, const Ips__Report *report);
/* Begins what is due; every second. */
void refresh_tick(struct master *m);
void refresh_release(struct master *m);

#endif
