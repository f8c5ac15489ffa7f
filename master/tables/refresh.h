/*
 * Keeps the intermediate results tables up to date while programs run (IPS-8).
 * When a run has new events, the master asks its machines for their tables as
 * a question would, so the slaves update theirs too. It then stores the rows
 * of the run and its machines in the catalogue. So the master alone can answer
 * a question about them (category 1 of IPS-9).
 *
 * To spare the measured machines, the master refreshes one run at a time and
 * never during a question about that run. Between two refreshes of a run it
 * waits at least REFRESH_NS, and at least REFRESH_TIMES times as long as the
 * last one took. It refreshes only runs of at most REFRESH_EVENTS_MOST events,
 * because tables are made from all events. For larger runs, and for runs that
 * this master has not seen open, the tables are as new as the last question.
 * Thread: the event loop's.
 */
#ifndef IPS_MASTER_TABLES_REFRESH_H
#define IPS_MASTER_TABLES_REFRESH_H

#include "master/query/query.h"

#define REFRESH_NS 2000000000ULL
#define REFRESH_TIMES 20u
#define REFRESH_EVENTS_MOST 5000000u
#define REFRESH_RUNS_MOST 1024u

/* To be called when a slave has sent a report: the open runs that it names are
 * refreshed from now on. */
void refresh_add_open_runs_of_report(struct master *m,
                                     const Ips__Report *report);
/* Called every second: starts a refresh that is due. A closed run whose tables
 * are up to date, or that is too large to refresh, is removed from the list,
 * and its path is precomputed (query/answer_cache.h). */
void refresh_start_due_or_precompute_closed_run(struct master *m);
void refresh_release(struct master *m);

#endif
