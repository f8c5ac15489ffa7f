/*
 * The run that is followed: its tables - processes, threads with their waits,
 * channels, traffic - kept up to date in SQLite while it goes on, from what the
 * ingest hands over (archive/record_queue.h), in the memory of what is not
 * final (build/incremental/grow.h). One run: the open one that was asked about
 * last.
 *
 * What came since is read from the archive where it was not handed over, and
 * all of the archive where the tables cannot go on with it: something began,
 * ended or was named (build/incremental/grow.h has the list). Then they are not
 * begun again before the archive is twice as large; so all of that together
 * reads each record three times at the most, and until then a question alone
 * brings the tables up to date, as it does for any run.
 *
 * Invariant: the rows are those of the whole build of the same snapshot, whose
 * key is stored with them.
 * Thread: the worker's.
 */
#ifndef IPS_SLAVE_GRAPHS_LIVE_TABLES_H
#define IPS_SLAVE_GRAPHS_LIVE_TABLES_H

#include "slave/archive/record_queue.h"
#include "slave/build/incremental/grow.h"

struct slave_graphs;
struct slave_snapshot;

/* Rows are stored that often, and in a twentieth of the time at most. */
#define SLAVE_FOLLOW_STORE_NS 1000000000ull
#define SLAVE_FOLLOW_STORE_SHARE 20u

struct slave_live_tables {
    struct b_incremental *tables; /* NULL: none */
    char run[64];
    int64_t run_id;
    uint64_t dev, ino; /* of its archive */
    uint64_t at;       /* bytes of it that the tables have */
    uint64_t tried;    /* its bytes when they were last begun */
    uint64_t key;      /* of the snapshot that they are of */
    uint64_t stored, store_due_ns;
    /* Since it is this run: */
    uint64_t begun, unpacked, queued; /* turns by where records came from */
};

/* The tables have all that the snapshot of an open run has, if they can; then
 * they are stored when it is time. `h` may be NULL. */
int slave_live_tables_turn(struct slave_graphs *gs,
                           const struct slave_snapshot *s,
                           struct slave_record_queue *h,
                           struct ips_err *err) IPS_MUST_USE;
/* Stored whether it is time or not. */
int slave_live_tables_store(struct slave_graphs *gs,
                            struct ips_err *err) IPS_MUST_USE;
void slave_live_tables_free(struct slave_live_tables *f);

#endif
