/*
 * The slave's database, STATE/slave-MACHINE/slave.db (SQLite, WAL, synchronous
 * NORMAL). Look at it with sqlite3 at any time:
 *
 *  meta(key, value)         schema version
 *  run(id, name, state, ...) one row a run; state 0 open, 1 closed
 *  stream(run, number, ...) one row a stream: its first segment's header, how
 *                           much of it was read, what it lost
 *  segment(run, file, ...)  cursors: file, seq and the offset ingested so far
 *  load(run, samples, ...)  the machine's load while the run went on
 *                           (drain/load.h): sums over `us`; no row if the run
 *                           was recorded without a slave
 *  unseen(run, kind, ...)   activity that leaves no record
 *                           (drain/unrecorded.h)
 *  irt(run, key, procedures, ...) which build (key: slave_snapshot_compute_key)
 * made the run's rows in the tables below, and whether it filled `procedure`
 *  process(run, idx, ...)   \
 *  thread(run, chain, ...)   |
 *  wait(run, chain, cause, ...) | IRT of that build
 *  channel(run, idx, ...)    |
 *  traffic(run, end, process, ...) /
 *  procedure(run, process, ...) CPU time of each process by procedure
 *  symbol(module, address, grade, text) names of code addresses (symbols.h),
 *                           shared by all runs; `module` is a build id in hex.
 *                           Of more than SLAVE_SYMBOLS_KEPT rows the oldest
 *                           are deleted
 *
 * Invariants:
 *  - run.archive_bytes, stream and segment rows of one turn commit together
 *    (exactly once); the archive's bytes are written before the commit.
 *  - unsigned 64-bit values are stored as SQLite's signed ones, bit for bit.
 *  - IRT tables (intermediate results) of another version (PRAGMA user_version)
 *    are dropped at open; the next build fills them again.
 *  - a `lost` column holds eight numbers, one a cause, separated by spaces.
 *  - segment.given_up is a bit mask: 1: the rest of the segment was given up;
 *    2: space that a writer had reserved was skipped.
 *
 * Statements are prepared once, at open. Thread: the event loop's (one at a
 * time; the loop may move from thread to thread).
 */
#ifndef IPS_SLAVE_STORE_STORE_H
#define IPS_SLAVE_STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/pool/format.h"
#include "common/err.h"

#define SLAVE_SCHEMA_VERSION 1
#define SLAVE_IRT_VERSION 3
#define SLAVE_IRT_VERSION_TEXT "3"

struct slave_store;

struct slave_run_row {
    int64_t id; /* row id in the database; 0: not stored yet */
    char name[64];
    bool closed;
    struct ips_control control;
    uint64_t archive_bytes;
    uint64_t graph_bytes;
    uint64_t events;
    /* number of reserved places for records that their writers never filled */
    uint64_t torn;
    uint64_t given_up; /* number of segments given up as damaged */
    /* number of lost events by cause: those of the run's streams, and those
     * counted in its control file; control.lost is the part from the control
     * file */
    uint64_t lost[IPS_LOST_COUNT];
    uint64_t processes, threads, untraced;
    uint64_t closed_real_ns;
};

struct slave_stream_row {
    uint32_t number;
    struct ips_segment_header head; /* header of the stream's first segment */
    uint32_t next_seq;
    uint64_t records;
    uint64_t bytes;
    bool dead;
    /* exit status of the stream's process, coded as in struct ips_stream_in */
    uint32_t dead_status;
    uint64_t dead_t_ns;
    uint64_t lost[IPS_LOST_COUNT];
};

struct slave_segment_row {
    char file[96];
    uint32_t stream;
    uint32_t seq;
    uint32_t at; /* offset of the first byte not yet read */
    bool done;   /* the whole segment was read */
    bool given_up;
    /* The slave skipped space that a writer had reserved for a record. The
     * writer may still store into it, so the segment is never handed back to be
     * reused. */
    bool skipped;
    /* lost events of this segment by cause, also counted in the stream's */
    uint64_t lost[IPS_LOST_COUNT];
};

enum slave_unrecorded_kind {
    SLAVE_UNSEEN_URING = 1,
    SLAVE_UNSEEN_AIO = 2,
    /* memory shared by processes: dev, ino, path and writes are set */
    SLAVE_UNSEEN_SHARED = 3,
    /* system calls made without libc; `path` names the runtime */
    SLAVE_UNSEEN_OWN = 4,
    /* the process executed a program without an EXEC record; `ino` is the stamp
     * of the image before, `path` the program */
    SLAVE_UNSEEN_PROGRAM = 5,
};
/* an activity of a process that leaves no records, see drain/unrecorded.h */
struct slave_unrecorded_row {
    uint8_t kind; /* kind of activity, an enum slave_unrecorded_kind */
    bool writes;
    uint32_t pid;
    uint64_t dev, ino;
    char path[104];
};

struct slave_load_row { /* the machine's load during a run, see drain/load.h */
    uint64_t samples;
    /* sum over the samples of the time that each covers, in us */
    uint64_t us;
    uint64_t runnable_us; /* sum over the samples of (runnable threads * us of
                             the sample) */
    uint64_t average_us;  /* sum over the samples of (one-minute load average *
                             us of the sample) */
};

int slave_store_open(const char *path, struct slave_store **out,
                     struct ips_err *err) IPS_MUST_USE;
void slave_store_close(struct slave_store *s);

int slave_store_begin(struct slave_store *s, struct ips_err *err) IPS_MUST_USE;
int slave_store_commit(struct slave_store *s, struct ips_err *err) IPS_MUST_USE;
void slave_store_rollback(struct slave_store *s);

/* The slave_store_put_... functions insert or replace a row.
 * slave_store_insert_or_update_run sets row->id of a new run. */
int slave_store_insert_or_update_run(struct slave_store *s,
                                     struct slave_run_row *row,
                                     struct ips_err *err) IPS_MUST_USE;
int slave_store_insert_or_replace_stream(struct slave_store *s, int64_t run,
                                         const struct slave_stream_row *row,
                                         struct ips_err *err) IPS_MUST_USE;
int slave_store_insert_or_replace_segment(struct slave_store *s, int64_t run,
                                          const struct slave_segment_row *row,
                                          struct ips_err *err) IPS_MUST_USE;
int slave_store_drop_segment(struct slave_store *s, int64_t run,
                             const char *file,
                             struct ips_err *err) IPS_MUST_USE;
/* Deletes all rows of a run, in a transaction of its own. */
int slave_store_drop_run(struct slave_store *s, int64_t run,
                         struct ips_err *err) IPS_MUST_USE;

/* slave_store_for_each_run(), _streams() and _segments() call `each` for every
 * row, which is borrowed during the call. A callback that returns non-zero ends
 * the iteration, which returns that value. */
int slave_store_for_each_run(struct slave_store *s,
                             int (*each)(const struct slave_run_row *row,
                                         void *arg),
                             void *arg, struct ips_err *err) IPS_MUST_USE;
int slave_store_for_each_stream(struct slave_store *s, int64_t run,
                                int (*each)(const struct slave_stream_row *row,
                                            void *arg),
                                void *arg, struct ips_err *err) IPS_MUST_USE;
int slave_store_for_each_segment(
    struct slave_store *s, int64_t run,
    int (*each)(const struct slave_segment_row *row, void *arg), void *arg,
    struct ips_err *err) IPS_MUST_USE;

#define SLAVE_SYMBOLS_KEPT 2000000

/* slave_store_get_symbol() gets the stored name of (module, address). *text is
 * malloc'd, or NULL if no name is stored.
 * slave_store_put_symbol_and_trim_oldest() stores a name, and deletes the
 * oldest names beyond SLAVE_SYMBOLS_KEPT. Defined in store/symbol.c. */
int slave_store_get_symbol(struct slave_store *s, const char *module,
                           uint64_t address, char **text, int *grade,
                           struct ips_err *err) IPS_MUST_USE;
int slave_store_put_symbol_and_trim_oldest(struct slave_store *s,
                                           const char *module, uint64_t address,
                                           const char *text, int grade,
                                           struct ips_err *err) IPS_MUST_USE;

/* one procedure of one process; texts with a length need no final NUL */
struct slave_procedure_row {
    uint32_t process;
    const char *process_name, *name, *module, *file;
    uint32_t name_len, file_len;
    uint32_t source_line;
    uint64_t self_ns, total_ns, samples, calls;
    bool exact;
};
/* Replaces the run's procedure rows, in a transaction of its own. `key`: the
 * build that they come from. */
int slave_store_replace_procedures(struct slave_store *s, int64_t run,
                                   uint64_t key,
                                   const struct slave_procedure_row *rows,
                                   size_t count,
                                   struct ips_err *err) IPS_MUST_USE;
/* Inserts the row, unless the table has the same row, in a transaction of its
 * own. */
int slave_store_insert_unrecorded_if_new(struct slave_store *s, int64_t run,
                                         const struct slave_unrecorded_row *row,
                                         struct ips_err *err) IPS_MUST_USE;
int slave_store_for_each_unrecorded(
    struct slave_store *s, int64_t run,
    int (*each)(const struct slave_unrecorded_row *row, void *arg), void *arg,
    struct ips_err *err) IPS_MUST_USE;

/* slave_store_add_load adds to the run's sums, in a transaction of its own.
 * slave_store_get_load reads the sums; all are 0 if nothing was added. Defined
 * in store/load.c. */
int slave_store_add_load(struct slave_store *s, int64_t run,
                         const struct slave_load_row *row,
                         struct ips_err *err) IPS_MUST_USE;
int slave_store_get_load(struct slave_store *s, int64_t run,
                         struct slave_load_row *out,
                         struct ips_err *err) IPS_MUST_USE;

struct ips_built;
/* Replaces the run's IRT rows by those of build `b`, in a transaction of its
 * own, and deletes its procedure rows. `b` must not change meanwhile. O(rows).
 * graphs/irt.c */
int slave_store_replace_summary_tables(struct slave_store *s, int64_t run,
                                       uint64_t key, const struct ips_built *b,
                                       struct ips_err *err) IPS_MUST_USE;
/* Tells from which build the run's IRT rows come.
 * slave_store_get_summary_tables_state returns false if the run has no IRT
 * rows. */
struct slave_irt_row {
    uint64_t key;
    bool procedures;
};
bool slave_store_get_summary_tables_state(struct slave_store *s, int64_t run,
                                          struct slave_irt_row *out);

#endif
