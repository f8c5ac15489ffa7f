#include "master/base/catalogue.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/paths.h"
#include "common/types.h"

#define SCHEMA_VERSION 1
#define SEEN_SLOTS 4096

static const char schema[] =
    "CREATE TABLE IF NOT EXISTS run_machine ("
    " run TEXT NOT NULL, machine TEXT NOT NULL, command TEXT NOT NULL,"
    " tags TEXT NOT NULL, created_real_ns INTEGER NOT NULL,"
    " open INTEGER NOT NULL, has_root INTEGER NOT NULL,"
    " processes INTEGER NOT NULL, threads INTEGER NOT NULL,"
    " events INTEGER NOT NULL, lost INTEGER NOT NULL,"
    " untraced INTEGER NOT NULL, torn INTEGER NOT NULL,"
    " PRIMARY KEY (run, machine));"
    "CREATE TABLE IF NOT EXISTS irt ("
    " run TEXT PRIMARY KEY, events INTEGER NOT NULL, answer BLOB NOT NULL);";

static const char sql_put[] =
    "INSERT OR REPLACE INTO run_machine VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)";

/* Deletes the stored results of run ?1 if machine ?2 now reports another run of
 * the same name, created at another time (?3). */
static const char sql_drop_irt[] =
    "DELETE FROM irt WHERE run = ?1 AND EXISTS (SELECT 1 FROM run_machine"
    " WHERE run = ?1 AND machine = ?2 AND created_real_ns <> ?3)";

/* Newest run first, then by machine. A run's creation time is the earliest
 * created_real_ns of its rows. */
static const char sql_each[] =
    "SELECT r.run, r.machine, r.command, r.tags, r.created_real_ns, r.open,"
    " r.has_root, r.processes, r.threads, r.events, r.lost, r.untraced, r.torn"
    " FROM run_machine r JOIN (SELECT run AS name,"
    "   MIN(created_real_ns) AS made FROM run_machine GROUP BY run) m"
    " ON m.name = r.run WHERE ?1 IS NULL OR r.run = ?1"
    " ORDER BY m.made DESC, r.run, r.machine";

struct catalogue {
    sqlite3 *db;
    sqlite3_stmt *put, *each, *put_irt, *get_irt, *drop_irt;
    /* Hash of the row that was last written for a run and machine, so that a
     * heartbeat without news writes nothing. Several runs may share a slot.
     * That costs a needless write but never loses data, because the hash covers
     * the names of the run and the machine too. */
    uint64_t seen[SEEN_SLOTS];
};

static int set_database_error(struct catalogue *c, const char *what,
                              struct ips_err *err)
{
    int code = c->db ? sqlite3_errcode(c->db) : SQLITE_NOMEM;
    bool damaged = code == SQLITE_NOTADB || code == SQLITE_CORRUPT;
    return ips_err_set(
        err, IPS_E_DB, "catalogue: %s: %s%s", what,
        c->db ? sqlite3_errmsg(c->db) : "no memory",
        damaged ? ": master.db is damaged. Stop the master, remove the file "
                  "and start it again: the slaves then report their runs again"
                : "");
}

static int run_sql(struct catalogue *c, const char *sql, struct ips_err *err)
{
    if (sqlite3_exec(c->db, sql, NULL, NULL, NULL) != SQLITE_OK)
        return set_database_error(c, sql, err);
    return 0;
}

static int check_version_and_make_tables(struct catalogue *c,
                                         struct ips_err *err)
{
    sqlite3_stmt *st = NULL;
    char text[64];
    int version = -1;
    if (sqlite3_prepare_v2(c->db, "PRAGMA user_version", -1, &st, NULL) ==
            SQLITE_OK &&
        sqlite3_step(st) == SQLITE_ROW)
        version = sqlite3_column_int(st, 0);
    sqlite3_finalize(st);
    if (version < 0)
        return set_database_error(c, "read its version", err);
    if (version != 0 && version != SCHEMA_VERSION)
        return ips_err_set(
            err, IPS_E_VERSION,
            "the catalogue has version %d, this program writes %d: use "
            "the newer program, or another --state",
            version, SCHEMA_VERSION);
    int rc = run_sql(c, schema, err);
    snprintf(text, sizeof(text), "PRAGMA user_version = %d", SCHEMA_VERSION);
    return rc < 0 ? rc : run_sql(c, text, err);
}

static int prepare_statement(struct catalogue *c, const char *sql,
                             sqlite3_stmt **out, struct ips_err *err)
{
    if (sqlite3_prepare_v2(c->db, sql, -1, out, NULL) != SQLITE_OK)
        return set_database_error(c, sql, err);
    return 0;
}

static int open_database_and_prepare(struct catalogue *c, const char *path,
                                     struct ips_err *err)
{
    if (sqlite3_open_v2(path, &c->db,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE |
                            SQLITE_OPEN_NOMUTEX,
                        NULL) != SQLITE_OK)
        return set_database_error(c, path, err);
    sqlite3_busy_timeout(c->db, 2000);
    int rc = run_sql(c,
                     "PRAGMA journal_mode = WAL;"
                     "PRAGMA synchronous = NORMAL;",
                     err);
    if (rc == 0)
        rc = check_version_and_make_tables(c, err);
    if (rc == 0)
        rc = prepare_statement(c, sql_put, &c->put, err);
    if (rc == 0)
        rc = prepare_statement(c, sql_each, &c->each, err);
    if (rc == 0)
        rc = prepare_statement(c, sql_drop_irt, &c->drop_irt, err);
    if (rc == 0)
        rc = prepare_statement(c, "INSERT OR REPLACE INTO irt VALUES (?,?,?)",
                               &c->put_irt, err);
    if (rc == 0)
        rc =
            prepare_statement(c, "SELECT events, answer FROM irt WHERE run = ?",
                              &c->get_irt, err);
    return rc;
}

int catalogue_open(const char *dir, struct catalogue **out, struct ips_err *err)
{
    char path[IPS_PATH_BYTES + 16];
    int rc = ips_path_make_directories(dir, 0700, err);
    if (rc < 0)
        return rc;
    struct catalogue *c = calloc(1, sizeof(*c));
    if (!c)
        return ips_err_set(err, IPS_E_NO_MEMORY, "no memory");
    snprintf(path, sizeof(path), "%s/master.db", dir);
    rc = open_database_and_prepare(c, path, err);
    if (rc < 0) {
        ips_err_wrap(err, rc, "%s", path);
        catalogue_close(c);
        return rc;
    }
    *out = c;
    return 0;
}

void catalogue_close(struct catalogue *c)
{
    if (!c)
        return;
    sqlite3_finalize(c->put);
    sqlite3_finalize(c->each);
    sqlite3_finalize(c->put_irt);
    sqlite3_finalize(c->get_irt);
    sqlite3_finalize(c->drop_irt);
    sqlite3_close(c->db);
    free(c);
}

static void bind_text(sqlite3_stmt *st, int at, const char *text)
{
    sqlite3_bind_text(st, at, text, -1, SQLITE_TRANSIENT);
}

/* SQLite's integers are signed; no real count exceeds 2^63. */
static void bind_count(sqlite3_stmt *st, int at, uint64_t value)
{
    sqlite3_bind_int64(st, at, (sqlite3_int64)ips_min_u64(value, INT64_MAX));
}

static int write_run_row_and_drop_old_metrics(struct catalogue *c,
                                              const char *machine,
                                              const Ips__RunState *run,
                                              struct ips_err *err)
{
    char tags[1024] = "";
    size_t at = 0;
    for (size_t i = 0; i < run->n_tags && at < sizeof(tags); i++)
        at += (size_t)snprintf(tags + at, sizeof(tags) - at, "%.255s\n",
                               run->tags[i]);
    uint64_t lost = 0;
    for (size_t i = 0; i < run->n_lost; i++)
        lost = ips_add_sat(lost, run->lost[i]);
    sqlite3_stmt *st = c->drop_irt;
    sqlite3_reset(st);
    bind_text(st, 1, run->run);
    bind_text(st, 2, machine);
    bind_count(st, 3, run->created_real_ns);
    int step = sqlite3_step(st);
    sqlite3_reset(st);
    if (step != SQLITE_DONE)
        return set_database_error(c, "remove results of an older run", err);
    st = c->put;
    sqlite3_reset(st);
    bind_text(st, 1, run->run);
    bind_text(st, 2, machine);
    bind_text(st, 3, run->command);
    bind_text(st, 4, tags);
    const uint64_t counts[] = {run->created_real_ns,
                               run->open ? 1 : 0,
                               run->has_root ? 1 : 0,
                               run->processes,
                               run->threads,
                               run->events,
                               lost,
                               run->untraced,
                               run->torn};
    for (int i = 0; i < 9; i++)
        bind_count(st, 5 + i, counts[i]);
    if (sqlite3_step(st) != SQLITE_DONE)
        return set_database_error(c, "write a run", err);
    sqlite3_reset(st);
    return 0;
}

static uint64_t hash_run_report(const char *machine, const Ips__RunState *run,
                                uint64_t *key)
{
    *key = ips_fnv1a(IPS_FNV_SEED, machine, strlen(machine) + 1);
    *key = ips_fnv1a(*key, run->run, strlen(run->run));
    size_t len = ips__run_state__get_packed_size(run);
    uint8_t *packed = malloc(len + 1);
    if (!packed)
        return 0; /* equals no stored hash, so the row will be written */
    ips__run_state__pack(run, packed);
    uint64_t hash = ips_fnv1a(*key, packed, len);
    free(packed);
    return hash ? hash : 1;
}

int catalogue_store_changed_runs(struct catalogue *c, const char *machine,
                                 Ips__RunState *const *runs, size_t count,
                                 struct ips_err *err)
{
    bool begun = false;
    int rc = 0;
    for (size_t i = 0; i < count && rc == 0; i++) {
        if (!ips_is_valid_run_name(runs[i]->run)) {
            ips_log_debug("machine %s: a run with an invalid name", machine);
            continue;
        }
        uint64_t key, hash = hash_run_report(machine, runs[i], &key);
        uint64_t *slot = &c->seen[key % SEEN_SLOTS];
        if (hash && *slot == hash)
            continue;
        if (!begun)
            rc = run_sql(c, "BEGIN", err);
        begun = begun || rc == 0;
        if (rc == 0)
            rc = write_run_row_and_drop_old_metrics(c, machine, runs[i], err);
        *slot = rc == 0 ? hash : 0;
    }
    if (begun && rc == 0)
        rc = run_sql(c, "COMMIT", err);
    if (rc < 0) {
        sqlite3_reset(c->put);
        if (begun && run_sql(c, "ROLLBACK", NULL) < 0)
            ips_log_warn("catalogue: rollback failed");
        memset(c->seen, 0, sizeof(c->seen));
    }
    return rc;
}

static const char *column_text(sqlite3_stmt *st, int at)
{
    const unsigned char *text = sqlite3_column_text(st, at);
    return text ? (const char *)text : "";
}

static uint64_t column_u64(sqlite3_stmt *st, int at)
{
    return (uint64_t)sqlite3_column_int64(st, at);
}

int catalogue_for_each_row(struct catalogue *c, const char *run,
                           void (*row)(const struct catalogue_row *row,
                                       void *arg),
                           void *arg, struct ips_err *err)
{
    sqlite3_stmt *st = c->each;
    int step;
    sqlite3_reset(st);
    if (run)
        bind_text(st, 1, run);
    else
        sqlite3_bind_null(st, 1);
    while ((step = sqlite3_step(st)) == SQLITE_ROW) {
        struct catalogue_row r = {
            .run = column_text(st, 0),
            .machine = column_text(st, 1),
            .command = column_text(st, 2),
            .tags = column_text(st, 3),
            .created_real_ns = column_u64(st, 4),
            .open = column_u64(st, 5) != 0,
            .has_root = column_u64(st, 6) != 0,
            .processes = column_u64(st, 7),
            .threads = column_u64(st, 8),
            .events = column_u64(st, 9),
            .lost = column_u64(st, 10),
            .untraced = column_u64(st, 11),
            .torn = column_u64(st, 12),
        };
        row(&r, arg);
    }
    sqlite3_reset(st);
    return step == SQLITE_DONE ? 0
                               : set_database_error(c, "read the runs", err);
}

static void add_row_to_sum(const struct catalogue_row *row, void *arg)
{
    struct catalogue_run_sum *k = arg;
    k->events = ips_add_sat(k->events, row->events);
    k->created_real_ns = ips_max_u64(k->created_real_ns, row->created_real_ns);
    k->open = k->open || row->open;
}

int catalogue_sum_run(struct catalogue *c, const char *run,
                      struct catalogue_run_sum *out, struct ips_err *err)
{
    *out = (struct catalogue_run_sum){0};
    return catalogue_for_each_row(c, run, add_row_to_sum, out, err);
}

int catalogue_store_metrics_answer(struct catalogue *c, const char *run,
                                   uint64_t events,
                                   const Ips__MetricsAnswer *answer,
                                   struct ips_err *err)
{
    size_t len = ips__metrics_answer__get_packed_size(answer);
    uint8_t *packed = malloc(len + 1);
    if (!packed)
        return ips_err_set(err, IPS_E_NO_MEMORY, "no memory");
    ips__metrics_answer__pack(answer, packed);
    sqlite3_stmt *st = c->put_irt;
    sqlite3_reset(st);
    bind_text(st, 1, run);
    bind_count(st, 2, events);
    sqlite3_bind_blob64(st, 3, packed, len, free);
    int step = sqlite3_step(st);
    sqlite3_reset(st);
    sqlite3_clear_bindings(st);
    return step == SQLITE_DONE ? 0
                               : set_database_error(c, "write results", err);
}

Ips__MetricsAnswer *catalogue_load_metrics_answer(struct catalogue *c,
                                                  const char *run,
                                                  uint64_t *events)
{
    Ips__MetricsAnswer *answer = NULL;
    sqlite3_stmt *st = c->get_irt;
    sqlite3_reset(st);
    bind_text(st, 1, run);
    if (sqlite3_step(st) == SQLITE_ROW) {
        *events = column_u64(st, 0);
        answer = ips__metrics_answer__unpack(
            NULL, (size_t)sqlite3_column_bytes(st, 1),
            sqlite3_column_blob(st, 1));
    }
    sqlite3_reset(st);
    return answer;
}
