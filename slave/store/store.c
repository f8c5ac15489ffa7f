/* Cursors, streams and runs in SQLite; store.h has the invariants. */
#include "slave/store/store.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "slave/store/db.h"

static const char schema[] =
    "CREATE TABLE IF NOT EXISTS meta(key TEXT PRIMARY KEY, value);"
    "CREATE TABLE IF NOT EXISTS run(id INTEGER PRIMARY KEY,"
    " name TEXT NOT NULL UNIQUE, state INTEGER NOT NULL, command TEXT,"
    " created_real_ns INTEGER, closed_real_ns INTEGER, control BLOB NOT NULL,"
    " archive_bytes INTEGER NOT NULL, graph_bytes INTEGER NOT NULL,"
    " events INTEGER, torn INTEGER, given_up INTEGER, lost TEXT,"
    " processes INTEGER, threads INTEGER, untraced INTEGER);"
    "CREATE TABLE IF NOT EXISTS stream(run INTEGER, number INTEGER,"
    " pid INTEGER, tid INTEGER, head BLOB NOT NULL, next_seq INTEGER,"
    " records INTEGER, bytes INTEGER, dead INTEGER, dead_t_ns INTEGER,"
    " lost TEXT, PRIMARY KEY(run, number)) WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS segment(run INTEGER, file TEXT,"
    " stream INTEGER, seq INTEGER, at INTEGER, done INTEGER,"
    " given_up INTEGER, lost TEXT, PRIMARY KEY(run, file)) WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS process(run INTEGER, idx INTEGER,"
    " pid INTEGER, parent INTEGER, name TEXT, command TEXT, start_ns INTEGER,"
    " end_ns INTEGER, open INTEGER, root INTEGER, end TEXT, cpu_ns INTEGER,"
    " rusage_cpu_ns INTEGER, unattributed_ns INTEGER, events INTEGER,"
    " elapsed_ns INTEGER, messages_out INTEGER, bytes_out INTEGER,"
    " messages_in INTEGER, bytes_in INTEGER, PRIMARY KEY(run, idx))"
    " WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS thread(run INTEGER, chain INTEGER,"
    " process INTEGER, tid INTEGER, name TEXT, start_ns INTEGER,"
    " end_ns INTEGER, open INTEGER, cpu_ns INTEGER, wait_ns INTEGER,"
    " messages_out INTEGER, bytes_out INTEGER, messages_in INTEGER,"
    " bytes_in INTEGER, elapsed_ns INTEGER, delay_ns INTEGER,"
    " woken_ns INTEGER, unknown_ns INTEGER, PRIMARY KEY(run, chain))"
    " WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS wait(run INTEGER, chain INTEGER, cause TEXT,"
    " ns INTEGER, count INTEGER, PRIMARY KEY(run, chain, cause))"
    " WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS irt(run INTEGER PRIMARY KEY,"
    " key INTEGER NOT NULL, procedures INTEGER NOT NULL, first_ns INTEGER,"
    " last_ns INTEGER);"
    "CREATE TABLE IF NOT EXISTS channel(run INTEGER, idx INTEGER,"
    " kind INTEGER, name TEXT, peer INTEGER, peer_end INTEGER,"
    " sent_messages INTEGER, sent_bytes INTEGER, recv_messages INTEGER,"
    " recv_bytes INTEGER, closed INTEGER, PRIMARY KEY(run, idx))"
    " WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS traffic(run INTEGER, end INTEGER,"
    " process INTEGER, sent_messages INTEGER, sent_bytes INTEGER,"
    " recv_messages INTEGER, recv_bytes INTEGER,"
    " PRIMARY KEY(run, end, process)) WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS procedure(run INTEGER, process INTEGER,"
    " number INTEGER, process_name TEXT, name TEXT, module TEXT, file TEXT,"
    " line INTEGER, self_ns INTEGER, total_ns INTEGER, samples INTEGER,"
    " calls INTEGER, exact INTEGER, PRIMARY KEY(run, process, number))"
    " WITHOUT ROWID;"
    /* indexes for the procedures with the greatest self time, and for sums by
     * procedure, which need no table rows */
    "CREATE INDEX IF NOT EXISTS procedure_self ON procedure(run, self_ns);"
    "CREATE INDEX IF NOT EXISTS procedure_name ON"
    " procedure(run, name, self_ns);"
    "CREATE TABLE IF NOT EXISTS symbol(id INTEGER PRIMARY KEY,"
    " module TEXT NOT NULL, address INTEGER NOT NULL, grade INTEGER NOT NULL,"
    " text TEXT NOT NULL, UNIQUE(module, address));"
    "CREATE TABLE IF NOT EXISTS load(run INTEGER PRIMARY KEY,"
    " samples INTEGER, us INTEGER, runnable_us INTEGER, average_us INTEGER);"
    "CREATE TABLE IF NOT EXISTS unseen(run INTEGER, kind INTEGER,"
    " pid INTEGER, dev INTEGER, ino INTEGER, writes INTEGER, path TEXT,"
    " PRIMARY KEY(run, kind, pid, dev, ino, writes)) WITHOUT ROWID;";

static const char *const statements[SLAVE_STMT_COUNT] = {
    [SLAVE_STMT_BEGIN] = "BEGIN IMMEDIATE",
    [SLAVE_STMT_COMMIT] = "COMMIT",
    [SLAVE_STMT_ROLLBACK] = "ROLLBACK",
    [SLAVE_STMT_PUT_RUN] =
        "INSERT INTO run VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
        " ON CONFLICT(name) DO UPDATE SET state=excluded.state,"
        " command=excluded.command, created_real_ns=excluded.created_real_ns,"
        " closed_real_ns=excluded.closed_real_ns, control=excluded.control,"
        " archive_bytes=excluded.archive_bytes,"
        " graph_bytes=excluded.graph_bytes, events=excluded.events,"
        " torn=excluded.torn, given_up=excluded.given_up, lost=excluded.lost,"
        " processes=excluded.processes, threads=excluded.threads,"
        " untraced=excluded.untraced",
    [SLAVE_STMT_PUT_STREAM] =
        "INSERT OR REPLACE INTO stream VALUES(?,?,?,?,?,?,?,?,?,?,?)",
    [SLAVE_STMT_PUT_SEGMENT] =
        "INSERT OR REPLACE INTO segment VALUES(?,?,?,?,?,?,?,?)",
    [SLAVE_STMT_DROP_SEGMENT] = "DELETE FROM segment WHERE run=? AND file=?",
    [SLAVE_STMT_RUNS] =
        "SELECT id, name, state, control, archive_bytes, graph_bytes, events,"
        " torn, given_up, lost, processes, threads, untraced, closed_real_ns"
        " FROM run ORDER BY id",
    [SLAVE_STMT_STREAMS] =
        "SELECT number, head, next_seq, records, bytes, dead, dead_t_ns, lost"
        " FROM stream WHERE run=? ORDER BY number",
    [SLAVE_STMT_SEGMENTS] =
        "SELECT file, stream, seq, at, done, given_up, lost FROM segment"
        " WHERE run=? ORDER BY file",
    [SLAVE_STMT_PUT_PROCESS] =
        "INSERT INTO process VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
    [SLAVE_STMT_PUT_THREAD] =
        "INSERT INTO thread VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
    [SLAVE_STMT_PUT_WAIT] = "INSERT INTO wait VALUES(?,?,?,?,?)",
    [SLAVE_STMT_PUT_CHANNEL] =
        "INSERT INTO channel VALUES(?,?,?,?,?,?,?,?,?,?,?)",
    [SLAVE_STMT_PUT_TRAFFIC] = "INSERT INTO traffic VALUES(?,?,?,?,?,?,?)",
    [SLAVE_STMT_PUT_PROCEDURE] =
        "INSERT INTO procedure VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?)",
    [SLAVE_STMT_PUT_IRT] = "INSERT OR REPLACE INTO irt VALUES(?,?,0,?,?)",
    [SLAVE_STMT_HAS_PROCEDURES] =
        "UPDATE irt SET procedures=1 WHERE run=? AND key=?",
    [SLAVE_STMT_GET_IRT] = "SELECT key, procedures FROM irt WHERE run=?",
    [SLAVE_STMT_GET_SYMBOL] =
        "SELECT text, grade FROM symbol WHERE module=? AND address=?",
    [SLAVE_STMT_PUT_SYMBOL] =
        "INSERT OR REPLACE INTO symbol(module, address, grade, text)"
        " VALUES(?,?,?,?)",
    [SLAVE_STMT_TRIM_SYMBOL] = "DELETE FROM symbol WHERE id<=?",
    [SLAVE_STMT_PUT_UNSEEN] =
        "INSERT OR IGNORE INTO unseen VALUES(?,?,?,?,?,?,?)",
    [SLAVE_STMT_UNSEEN] = "SELECT kind, pid, dev, ino, writes, path FROM unseen"
                          " WHERE run=? ORDER BY kind, dev, ino, pid"
                          " LIMIT 4096",
    [SLAVE_STMT_ADD_LOAD] =
        "INSERT INTO load VALUES(?,?,?,?,?) ON CONFLICT(run) DO UPDATE SET"
        " samples=samples+excluded.samples, us=us+excluded.us,"
        " runnable_us=runnable_us+excluded.runnable_us,"
        " average_us=average_us+excluded.average_us",
    [SLAVE_STMT_LOAD] =
        "SELECT samples, us, runnable_us, average_us FROM load WHERE run=?",
};

#define LOST_TEXT_BYTES (21 * IPS_LOST_COUNT + 1)

static void format_lost_counts(const uint64_t *lost, char out[LOST_TEXT_BYTES])
{
    size_t at = 0;
    for (int i = 0; i < IPS_LOST_COUNT; i++) {
        if (i)
            out[at++] = ' ';
        /* fast path: nearly every count is below 10, and this runs for each
         * stream in each turn */
        if (lost[i] < 10)
            out[at++] = (char)('0' + lost[i]);
        else
            at += (size_t)snprintf(out + at, LOST_TEXT_BYTES - at, "%" PRIu64,
                                   lost[i]);
    }
    out[at] = '\0';
}

static void parse_lost_counts(const unsigned char *text, uint64_t *lost)
{
    const char *p = text ? (const char *)text : "";
    for (int i = 0; i < IPS_LOST_COUNT; i++) {
        char *end;
        lost[i] = strtoull(p, &end, 10);
        p = end;
    }
}

int slave_store_set_error(struct slave_store *s, struct ips_err *err,
                          const char *what)
{
    int code = s->db ? sqlite3_errcode(s->db) : SQLITE_NOMEM;
    bool damaged = code == SQLITE_NOTADB || code == SQLITE_CORRUPT;
    return ips_err_set(
        err, IPS_E_DB, "%s: %s%s", what,
        s->db ? sqlite3_errmsg(s->db) : "out of memory",
        damaged ? ": slave.db is damaged. Copy its directory back from a "
                  "backup, or move it away, with the runs in it, and start "
                  "the slave again"
                : "");
}

int slave_store_execute(struct slave_store *s, enum slave_stmt which,
                        struct ips_err *err)
{
    sqlite3_stmt *q = s->stmt[which];
    int rc = sqlite3_step(q) == SQLITE_DONE
                 ? 0
                 : slave_store_set_error(s, err, statements[which]);
    (void)sqlite3_reset(q);
    return rc;
}

static int check_or_store_version(struct slave_store *s, struct ips_err *err)
{
    sqlite3_stmt *q = NULL;
    int rc = 0;
    if (sqlite3_prepare_v2(s->db, "SELECT value FROM meta WHERE key='schema'",
                           -1, &q, NULL) != SQLITE_OK)
        return slave_store_set_error(s, err, "schema version");
    int step = sqlite3_step(q);
    int version = step == SQLITE_ROW ? sqlite3_column_int(q, 0) : 0;
    (void)sqlite3_finalize(q);
    if (step == SQLITE_DONE) {
        char sql[80];
        snprintf(sql, sizeof(sql), "INSERT INTO meta VALUES('schema', %d)",
                 SLAVE_SCHEMA_VERSION);
        if (sqlite3_exec(s->db, sql, NULL, NULL, NULL) != SQLITE_OK)
            rc = slave_store_set_error(s, err, "schema version");
    } else if (step != SQLITE_ROW) {
        rc = slave_store_set_error(s, err, "schema version");
    } else if (version != SLAVE_SCHEMA_VERSION) {
        rc = ips_err_set(
            err, IPS_E_VERSION,
            "the archive was written by another version of IPS (format "
            "%d; this one has %d): use that version, or name another "
            "directory with --state",
            version, SLAVE_SCHEMA_VERSION);
    }
    return rc;
}

/* Drops IRT tables of another version: a build fills them again from the
 * records. */
static int drop_outdated_summary_tables(struct slave_store *s)
{
    sqlite3_stmt *q = NULL;
    int version = 0;
    if (sqlite3_prepare_v2(s->db, "PRAGMA user_version", -1, &q, NULL) ==
            SQLITE_OK &&
        sqlite3_step(q) == SQLITE_ROW)
        version = sqlite3_column_int(q, 0);
    (void)sqlite3_finalize(q);
    if (version == SLAVE_IRT_VERSION)
        return SQLITE_OK;
    return sqlite3_exec(s->db,
                        "DROP TABLE IF EXISTS process;"
                        "DROP TABLE IF EXISTS thread;"
                        "DROP TABLE IF EXISTS wait;"
                        "DROP TABLE IF EXISTS channel;"
                        "DROP TABLE IF EXISTS traffic;"
                        "DROP TABLE IF EXISTS procedure;"
                        "DROP TABLE IF EXISTS irt;"
                        "PRAGMA user_version=" SLAVE_IRT_VERSION_TEXT,
                        NULL, NULL, NULL);
}

int slave_store_open(const char *path, struct slave_store **out,
                     struct ips_err *err)
{
    struct slave_store *s = calloc(1, sizeof(*s));
    if (!s)
        return ips_err_set(err, IPS_E_NO_MEMORY, "out of memory");
    int rc = 0;
    if (sqlite3_open_v2(path, &s->db,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE |
                            SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_FULLMUTEX,
                        NULL) != SQLITE_OK)
        rc = slave_store_set_error(s, err, "open");
    if (rc == 0) {
        (void)sqlite3_busy_timeout(s->db, 5000);
        if (sqlite3_exec(s->db,
                         "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL",
                         NULL, NULL, NULL) != SQLITE_OK ||
            drop_outdated_summary_tables(s) != SQLITE_OK ||
            sqlite3_exec(s->db, schema, NULL, NULL, NULL) != SQLITE_OK)
            rc = slave_store_set_error(s, err, "schema");
    }
    if (rc == 0)
        rc = check_or_store_version(s, err);
    for (int i = 0; rc == 0 && i < SLAVE_STMT_COUNT; i++) {
        if (sqlite3_prepare_v3(s->db, statements[i], -1,
                               SQLITE_PREPARE_PERSISTENT, &s->stmt[i],
                               NULL) != SQLITE_OK)
            rc = slave_store_set_error(s, err, statements[i]);
    }
    if (rc < 0) {
        slave_store_close(s);
        return ips_err_wrap(err, rc, "database %s", path);
    }
    *out = s;
    return 0;
}

void slave_store_close(struct slave_store *s)
{
    if (!s)
        return;
    for (int i = 0; i < SLAVE_STMT_COUNT; i++)
        (void)sqlite3_finalize(s->stmt[i]);
    (void)sqlite3_close(s->db);
    free(s);
}

int slave_store_begin(struct slave_store *s, struct ips_err *err)
{
    return slave_store_execute(s, SLAVE_STMT_BEGIN, err);
}

int slave_store_commit(struct slave_store *s, struct ips_err *err)
{
    return slave_store_execute(s, SLAVE_STMT_COMMIT, err);
}

void slave_store_rollback(struct slave_store *s)
{
    /* After some errors SQLite has rolled back already; then there is nothing
     * to do. */
    if (!sqlite3_get_autocommit(s->db) &&
        slave_store_execute(s, SLAVE_STMT_ROLLBACK, NULL) < 0)
        return;
}

int slave_store_insert_or_update_run(struct slave_store *s,
                                     struct slave_run_row *row,
                                     struct ips_err *err)
{
    char lost[LOST_TEXT_BYTES];
    sqlite3_stmt *q = s->stmt[SLAVE_STMT_PUT_RUN];
    format_lost_counts(row->lost, lost);
    if (row->id)
        (void)sqlite3_bind_int64(q, 1, row->id);
    else
        (void)sqlite3_bind_null(q, 1);
    slave_bind_text(q, 2, row->name);
    slave_bind_u64(q, 3, row->closed);
    slave_bind_text(q, 4, row->control.command);
    slave_bind_u64(q, 5, row->control.created_real_ns);
    slave_bind_u64(q, 6, row->closed_real_ns);
    (void)sqlite3_bind_blob(q, 7, &row->control, sizeof(row->control),
                            SQLITE_TRANSIENT);
    slave_bind_u64(q, 8, row->archive_bytes);
    slave_bind_u64(q, 9, row->graph_bytes);
    slave_bind_u64(q, 10, row->events);
    slave_bind_u64(q, 11, row->torn);
    slave_bind_u64(q, 12, row->given_up);
    slave_bind_text(q, 13, lost);
    slave_bind_u64(q, 14, row->processes);
    slave_bind_u64(q, 15, row->threads);
    slave_bind_u64(q, 16, row->untraced);
    int rc = slave_store_execute(s, SLAVE_STMT_PUT_RUN, err);
    if (rc == 0 && row->id == 0)
        row->id = sqlite3_last_insert_rowid(s->db);
    return rc;
}

int slave_store_insert_or_replace_stream(struct slave_store *s, int64_t run,
                                         const struct slave_stream_row *row,
                                         struct ips_err *err)
{
    char lost[LOST_TEXT_BYTES];
    sqlite3_stmt *q = s->stmt[SLAVE_STMT_PUT_STREAM];
    format_lost_counts(row->lost, lost);
    (void)sqlite3_bind_int64(q, 1, run);
    slave_bind_u64(q, 2, row->number);
    slave_bind_u64(q, 3, row->head.pid);
    slave_bind_u64(q, 4, row->head.tid);
    (void)sqlite3_bind_blob(q, 5, &row->head, sizeof(row->head),
                            SQLITE_TRANSIENT);
    slave_bind_u64(q, 6, row->next_seq);
    slave_bind_u64(q, 7, row->records);
    slave_bind_u64(q, 8, row->bytes);
    /* column `dead`: 0: alive; else 1 + the exit status */
    slave_bind_u64(q, 9, row->dead ? 1 + row->dead_status : 0);
    slave_bind_u64(q, 10, row->dead_t_ns);
    slave_bind_text(q, 11, lost);
    return slave_store_execute(s, SLAVE_STMT_PUT_STREAM, err);
}

int slave_store_insert_or_replace_segment(struct slave_store *s, int64_t run,
                                          const struct slave_segment_row *row,
                                          struct ips_err *err)
{
    char lost[LOST_TEXT_BYTES];
    sqlite3_stmt *q = s->stmt[SLAVE_STMT_PUT_SEGMENT];
    format_lost_counts(row->lost, lost);
    (void)sqlite3_bind_int64(q, 1, run);
    slave_bind_text(q, 2, row->file);
    slave_bind_u64(q, 3, row->stream);
    slave_bind_u64(q, 4, row->seq);
    slave_bind_u64(q, 5, row->at);
    slave_bind_u64(q, 6, row->done);
    slave_bind_u64(q, 7, (row->given_up ? 1 : 0) | (row->skipped ? 2 : 0));
    slave_bind_text(q, 8, lost);
    return slave_store_execute(s, SLAVE_STMT_PUT_SEGMENT, err);
}

int slave_store_drop_segment(struct slave_store *s, int64_t run,
                             const char *file, struct ips_err *err)
{
    sqlite3_stmt *q = s->stmt[SLAVE_STMT_DROP_SEGMENT];
    (void)sqlite3_bind_int64(q, 1, run);
    slave_bind_text(q, 2, file);
    return slave_store_execute(s, SLAVE_STMT_DROP_SEGMENT, err);
}

int slave_store_delete_rows_of_run(struct slave_store *s, int64_t run,
                                   const char *const *tables,
                                   struct ips_err *err)
{
    for (; *tables; tables++) {
        char sql[96];
        snprintf(sql, sizeof(sql), "DELETE FROM %s WHERE %s=%" PRId64, *tables,
                 strcmp(*tables, "run") == 0 ? "id" : "run", run);
        if (sqlite3_exec(s->db, sql, NULL, NULL, NULL) != SQLITE_OK)
            return slave_store_set_error(s, err, sql);
    }
    return 0;
}

int slave_store_drop_run(struct slave_store *s, int64_t run,
                         struct ips_err *err)
{
    static const char *const tables[] = {
        "process", "thread", "wait",   "channel", "traffic", "procedure", "irt",
        "segment", "stream", "unseen", "load",    "run",     NULL};
    int rc = slave_store_begin(s, err);
    if (rc == 0)
        rc = slave_store_delete_rows_of_run(s, run, tables, err);
    if (rc == 0)
        rc = slave_store_commit(s, err);
    if (rc < 0)
        slave_store_rollback(s);
    return rc;
}

/* Ends an iteration. `step` is what sqlite3_step returned last; SQLITE_DONE:
 * success. `rc` non-zero: the callback ended the iteration. */
static int finish_row_iteration(struct slave_store *s, enum slave_stmt which,
                                int step, int rc, struct ips_err *err)
{
    if (rc == 0 && step != SQLITE_DONE)
        rc = slave_store_set_error(s, err, statements[which]);
    (void)sqlite3_reset(s->stmt[which]);
    return rc;
}

/* Copies a blob of exactly `len` bytes. Another blob is ignored, and *out stays
 * zeroed: its magic number then shows that the row is old or damaged. */
static void copy_blob_column(sqlite3_stmt *q, int at, void *out, size_t len)
{
    const void *p = sqlite3_column_blob(q, at);
    if (p && (size_t)sqlite3_column_bytes(q, at) == len)
        memcpy(out, p, len);
}

/* Copies the control file's blob. Fields that an earlier version did not store
 * stay 0. */
static void copy_control_column(sqlite3_stmt *q, int at,
                                struct ips_control *out)
{
    const void *p = sqlite3_column_blob(q, at);
    size_t bytes = (size_t)sqlite3_column_bytes(q, at);
    if (p && bytes >= IPS_CONTROL_LEAST && bytes <= sizeof(*out))
        memcpy(out, p, bytes);
}

int slave_store_for_each_run(struct slave_store *s,
                             int (*each)(const struct slave_run_row *row,
                                         void *arg),
                             void *arg, struct ips_err *err)
{
    sqlite3_stmt *q = s->stmt[SLAVE_STMT_RUNS];
    int rc = 0, step;
    while (rc == 0 && (step = sqlite3_step(q)) == SQLITE_ROW) {
        struct slave_run_row row = {.id = sqlite3_column_int64(q, 0)};
        const unsigned char *name = sqlite3_column_text(q, 1);
        snprintf(row.name, sizeof(row.name), "%s",
                 name ? (const char *)name : "");
        row.closed = sqlite3_column_int(q, 2) != 0;
        copy_control_column(q, 3, &row.control);
        row.archive_bytes = slave_column_u64(q, 4);
        row.graph_bytes = slave_column_u64(q, 5);
        row.events = slave_column_u64(q, 6);
        row.torn = slave_column_u64(q, 7);
        row.given_up = slave_column_u64(q, 8);
        parse_lost_counts(sqlite3_column_text(q, 9), row.lost);
        row.processes = slave_column_u64(q, 10);
        row.threads = slave_column_u64(q, 11);
        row.untraced = slave_column_u64(q, 12);
        row.closed_real_ns = slave_column_u64(q, 13);
        rc = each(&row, arg);
    }
    return finish_row_iteration(s, SLAVE_STMT_RUNS, rc ? SQLITE_DONE : step, rc,
                                err);
}

int slave_store_for_each_stream(struct slave_store *s, int64_t run,
                                int (*each)(const struct slave_stream_row *row,
                                            void *arg),
                                void *arg, struct ips_err *err)
{
    sqlite3_stmt *q = s->stmt[SLAVE_STMT_STREAMS];
    int rc = 0, step;
    (void)sqlite3_bind_int64(q, 1, run);
    while (rc == 0 && (step = sqlite3_step(q)) == SQLITE_ROW) {
        struct slave_stream_row row = {
            .number = (uint32_t)sqlite3_column_int64(q, 0)};
        copy_blob_column(q, 1, &row.head, sizeof(row.head));
        row.next_seq = (uint32_t)sqlite3_column_int64(q, 2);
        row.records = slave_column_u64(q, 3);
        row.bytes = slave_column_u64(q, 4);
        uint64_t dead = slave_column_u64(q, 5);
        row.dead = dead != 0;
        row.dead_status = dead > 1 ? (uint32_t)dead - 1 : 0;
        row.dead_t_ns = slave_column_u64(q, 6);
        parse_lost_counts(sqlite3_column_text(q, 7), row.lost);
        rc = each(&row, arg);
    }
    return finish_row_iteration(s, SLAVE_STMT_STREAMS, rc ? SQLITE_DONE : step,
                                rc, err);
}

int slave_store_for_each_segment(
    struct slave_store *s, int64_t run,
    int (*each)(const struct slave_segment_row *row, void *arg), void *arg,
    struct ips_err *err)
{
    sqlite3_stmt *q = s->stmt[SLAVE_STMT_SEGMENTS];
    int rc = 0, step;
    (void)sqlite3_bind_int64(q, 1, run);
    while (rc == 0 && (step = sqlite3_step(q)) == SQLITE_ROW) {
        struct slave_segment_row row = {
            .stream = (uint32_t)sqlite3_column_int64(q, 1)};
        const unsigned char *file = sqlite3_column_text(q, 0);
        snprintf(row.file, sizeof(row.file), "%s",
                 file ? (const char *)file : "");
        row.seq = (uint32_t)sqlite3_column_int64(q, 2);
        row.at = (uint32_t)sqlite3_column_int64(q, 3);
        row.done = sqlite3_column_int(q, 4) != 0;
        row.given_up = sqlite3_column_int(q, 5) & 1;
        row.skipped = sqlite3_column_int(q, 5) & 2;
        parse_lost_counts(sqlite3_column_text(q, 6), row.lost);
        rc = each(&row, arg);
    }
    return finish_row_iteration(s, SLAVE_STMT_SEGMENTS, rc ? SQLITE_DONE : step,
                                rc, err);
}

int slave_store_insert_unrecorded_if_new(struct slave_store *s, int64_t run,
                                         const struct slave_unrecorded_row *row,
                                         struct ips_err *err)
{
    sqlite3_stmt *q = s->stmt[SLAVE_STMT_PUT_UNSEEN];
    (void)sqlite3_bind_int64(q, 1, run);
    slave_bind_u64(q, 2, row->kind);
    slave_bind_u64(q, 3, row->pid);
    slave_bind_u64(q, 4, row->dev);
    slave_bind_u64(q, 5, row->ino);
    slave_bind_u64(q, 6, row->writes);
    slave_bind_text(q, 7, row->path);
    return slave_store_execute(s, SLAVE_STMT_PUT_UNSEEN, err);
}

int slave_store_for_each_unrecorded(
    struct slave_store *s, int64_t run,
    int (*each)(const struct slave_unrecorded_row *row, void *arg), void *arg,
    struct ips_err *err)
{
    sqlite3_stmt *q = s->stmt[SLAVE_STMT_UNSEEN];
    int rc = 0, step;
    (void)sqlite3_bind_int64(q, 1, run);
    while (rc == 0 && (step = sqlite3_step(q)) == SQLITE_ROW) {
        struct slave_unrecorded_row row = {
            .kind = (uint8_t)sqlite3_column_int(q, 0),
            .pid = (uint32_t)sqlite3_column_int64(q, 1),
            .dev = slave_column_u64(q, 2),
            .ino = slave_column_u64(q, 3),
            .writes = sqlite3_column_int(q, 4) != 0};
        const unsigned char *path = sqlite3_column_text(q, 5);
        snprintf(row.path, sizeof(row.path), "%s",
                 path ? (const char *)path : "");
        rc = each(&row, arg);
    }
    return finish_row_iteration(s, SLAVE_STMT_UNSEEN, rc ? SQLITE_DONE : step,
                                rc, err);
}
