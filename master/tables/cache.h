/*
 * The tables of the run that was last asked about, as they came from its
 * slaves, and the rows made of them (tables.h): a question about the same run,
 * closed and with nothing new since, takes them, and asks nobody what it needs
 * no more than them for. Questions share them, each with parts of its own; what
 * is replaced goes when the last has answered.
 *
 * Not used where one of the run's slaves is not connected: then the answer has
 * to say so. Thread: the loop's.
 */
#ifndef IPS_MASTER_TABLES_CACHE_H
#define IPS_MASTER_TABLES_CACHE_H

#include "master/query/query.h"

#define KEPT_BYTES_MOST (64u << 20) /* packed */

struct tables;

/* Gives the question the kept tables as if it had gathered them with `want`
 * (gather.h). False: there are none for it. */
bool table_cache_use(struct query *q, unsigned want);
/* As gather_start; from what is kept, `after` comes at once and q->from_cache
 * is not set, for the slaves are asked more. */
void table_cache_or_gather(struct query *q, unsigned want,
                           void (*after)(struct query *q));
/* Keeps what the question has gathered (all of it), if that may be kept: it
 * has parts that borrow from it afterwards. */
void table_cache_give(struct query *q);
/* The rows of the question's tables: those kept with them, or its own, to be
 * given back. NULL: no memory. */
struct tables *table_cache_tables(struct query *q);
void table_cache_tables_done(struct query *q, struct tables *t);

void table_cache_release(struct master *m);

#endif
