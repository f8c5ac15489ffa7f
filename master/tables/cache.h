/*
 * A cache of the tables of the last run that was asked about, as its slaves
 * sent them, and of the rows made from them (tables.h). A question about the
 * same run uses the cached tables if the run is closed and unchanged, so it
 * asks the slaves only for data that the tables do not have. Several questions
 * can share the tables, each with machine shares of its own. Replaced tables
 * are released after the last question that uses them.
 *
 * The cache is not used if one of the run's slaves is not connected, because
 * then the answer must say so. Thread: the event loop's.
 */
#ifndef IPS_MASTER_TABLES_CACHE_H
#define IPS_MASTER_TABLES_CACHE_H

#include "master/query/query.h"

/* limit for the packed size of the tables */
#define KEPT_BYTES_MOST (64u << 20)

struct tables;

/* Gives the question the cached tables, as if it had gathered them with `want`
 * (gather.h). Returns false if the cache has none that match. */
bool table_cache_lend_if_current(struct query *q, unsigned want);
/* Like gather_start. If the tables are cached, `after` is called at once, but
 * q->from_cache stays unset, because the question asks the slaves for more. */
void table_cache_lend_or_gather(struct query *q, unsigned want,
                                void (*after)(struct query *q));
/* Moves the question's gathered tables, with the messages that hold them, to
 * the cache, if allowed. The question's machine shares then borrow them. */
void table_cache_store_if_cacheable(struct query *q);
/* Returns the object for the rows of the question's tables: that of the cache,
 * or a new, empty one. Give it back with
 * table_cache_free_tables_unless_cached(). NULL: no memory. */
struct tables *table_cache_get_cached_or_new_tables(struct query *q);
void table_cache_free_tables_unless_cached(struct query *q, struct tables *t);

void table_cache_release(struct master *m);

#endif
