/*
 * Keeps the tables of one open run, the run asked about last, up to date in
 * SQLite while the run goes on: processes, threads with their waits, channels,
 * traffic. The drain passes the new records on in memory
 * (archive/record_queue.h). Only data that may still change is kept in memory
 * (build/incremental/grow.h).
 *
 * New records that are not in that queue are read from the archive. Some
 * records, such as those that start, end or name something, cannot be added to
 * existing tables (build/incremental/grow.h has the list). Then the whole
 * archive is read again, but only when it is twice as large; so each record is
 * read at most three times in all. Until then only a question updates the
 * tables, as for any run.
 *
 * Invariant: the rows equal those of a whole build of the same snapshot; its
 * key is stored with them. Runs on the worker thread.
 */
#ifndef IPS_SLAVE_GRAPHS_LIVE_TABLES_H
#define IPS_SLAVE_GRAPHS_LIVE_TABLES_H

#include "slave/archive/record_queue.h"
#include "slave/build/incremental/grow.h"

struct slave_graphs;
struct slave_snapshot;

/* Rows are stored at most once in this interval, and storing takes at most
 * 1/SLAVE_LIVE_TABLES_STORE_SHARE of the time. */
#define SLAVE_LIVE_TABLES_STORE_NS 1000000000ull
#define SLAVE_LIVE_TABLES_STORE_SHARE 20u

struct slave_live_tables {
    /* state of the incremental tables; NULL: none */
    struct b_incremental *tables;
    char run[64];
    int64_t run_id;
    uint64_t dev, ino; /* device and inode of the run's archive */
    /* archive offset up to which the tables contain the records */
    uint64_t at;
    uint64_t tried; /* size of the archive when the tables were last started */
    uint64_t key;   /* key of the snapshot that the tables correspond to */
    uint64_t stored, store_due_ns;
    /* Counters since the tables belong to this run: */
    /* number of updates that read the whole archive to start the tables
     * (begun), that read new records from the archive (unpacked), and that got
     * them from the queue (queued) */
    uint64_t begun, unpacked, queued;
};

/* Brings the tables up to date with the snapshot of an open run, if possible,
 * and stores them in the database if SLAVE_LIVE_TABLES_STORE_NS and _SHARE
 * allow it. `h`: queue of the new records, or NULL. */
int slave_live_tables_update_and_store_if_due(struct slave_graphs *gs,
                                              const struct slave_snapshot *s,
                                              struct slave_record_queue *h,
                                              struct ips_err *err) IPS_MUST_USE;
/* Stores the tables in the database now, unless the stored ones are up to
 * date. */
int slave_live_tables_store_if_changed(struct slave_graphs *gs,
                                       struct ips_err *err) IPS_MUST_USE;
void slave_live_tables_free(struct slave_live_tables *f);

#endif
