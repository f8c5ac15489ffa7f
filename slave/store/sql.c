#include "slave/store/sql.h"

#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/paths.h"

/* The limits are checked after each such number of operations of SQLite's
 * virtual machine: about every 20 us. */
#define PROGRESS_OPS 1000

/* SQL text of the view `threads`: joins each thread with its process */
#define THREAD_OF                                                              \
    "FROM %2$s.thread t JOIN %2$s.process p ON p.run=t.run AND"                \
    " p.idx=t.process"
/* X(view, columns for error messages, select). %1$lld is the run's id, %2$s the
 * name of the attached database. Texts that are "" and numbers that are all
 * ones mean "unknown" and become NULL. Times count from the run's first event
 * on this machine. */
#define SQL_VIEWS(X)                                                           \
    X(run_info, "run, command, closed, events, first_ns, last_ns",             \
      "SELECT r.name AS run, r.command AS command, r.state AS closed,"         \
      " r.events AS events, 0 AS first_ns, i.last_ns-i.first_ns AS last_ns"    \
      " FROM %2$s.run r JOIN %2$s.irt i ON i.run=r.id WHERE r.id=%1$lld")      \
    X(processes,                                                               \
      "process, pid, parent, command, start_ns, end_ns, elapsed_ns, open, "    \
      "root, ended, cpu_ns, rusage_cpu_ns, unattributed_ns, events, "          \
      "messages_out, bytes_out, messages_in, bytes_in",                        \
      "SELECT p.name AS process, p.pid AS pid,"                                \
      " (SELECT c.name FROM %2$s.process c WHERE c.run=p.run AND"              \
      " c.idx=p.parent) AS parent, nullif(p.command, '') AS command,"          \
      " p.start_ns-i.first_ns AS start_ns,"                                    \
      " nullif(p.end_ns, 0)-i.first_ns AS end_ns,"                             \
      " p.elapsed_ns AS elapsed_ns, p.open AS open, p.root AS root,"           \
      " p.end AS ended, p.cpu_ns AS cpu_ns,"                                   \
      " nullif(p.rusage_cpu_ns, -1) AS rusage_cpu_ns,"                         \
      " p.unattributed_ns AS unattributed_ns, p.events AS events,"             \
      " p.messages_out AS messages_out, p.bytes_out AS bytes_out,"             \
      " p.messages_in AS messages_in, p.bytes_in AS bytes_in"                  \
      " FROM %2$s.process p JOIN %2$s.irt i ON i.run=p.run"                    \
      " WHERE p.run=%1$lld")                                                   \
    X(threads,                                                                 \
      "process, tid, name, start_ns, end_ns, elapsed_ns, open, cpu_ns, "       \
      "wait_ns, blocked_ns, queued_ns, woken_ns, unknown_ns, messages_out, "   \
      "bytes_out, messages_in, bytes_in",                                      \
      "SELECT p.name AS process, t.tid AS tid, nullif(t.name, '') AS name,"    \
      " t.start_ns-i.first_ns AS start_ns,"                                    \
      " nullif(t.end_ns, 0)-i.first_ns AS end_ns,"                             \
      " t.elapsed_ns AS elapsed_ns, t.open AS open, t.cpu_ns AS cpu_ns,"       \
      " t.wait_ns AS wait_ns, max(t.wait_ns-t.woken_ns, 0) AS blocked_ns,"     \
      " iif(t.delay_ns=0 AND t.unknown_ns>0, NULL, t.delay_ns) AS queued_ns,"  \
      " t.woken_ns AS woken_ns, t.unknown_ns AS unknown_ns,"                   \
      " t.messages_out AS messages_out, t.bytes_out AS bytes_out,"             \
      " t.messages_in AS messages_in, t.bytes_in AS bytes_in " THREAD_OF       \
      " JOIN %2$s.irt i ON i.run=t.run WHERE t.run=%1$lld")                    \
    X(waits, "process, tid, cause, ns, count",                                 \
      "SELECT p.name AS process, t.tid AS tid, w.cause AS cause, w.ns AS ns,"  \
      " w.count AS count FROM %2$s.wait w JOIN %2$s.thread t ON"               \
      " t.run=w.run AND t.chain=w.chain JOIN %2$s.process p ON p.run=w.run"    \
      " AND p.idx=t.process WHERE w.run=%1$lld")                               \
    X(channels,                                                                \
      "channel, name, kind, peer, peer_channel, sent_messages, sent_bytes, "   \
      "recv_messages, recv_bytes, closed",                                     \
      "SELECT idx AS channel, name AS name, kind AS kind,"                     \
      " CASE peer WHEN 0 THEN 'local' ELSE 'elsewhere' END AS peer,"           \
      " nullif(peer_end, -1) AS peer_channel,"                                 \
      " sent_messages AS sent_messages, sent_bytes AS sent_bytes,"             \
      " recv_messages AS recv_messages, recv_bytes AS recv_bytes,"             \
      " closed AS closed FROM %2$s.channel WHERE run=%1$lld")                  \
    X(traffics,                                                                \
      "channel, process, sent_messages, sent_bytes, recv_messages, "           \
      "recv_bytes",                                                            \
      "SELECT t.end AS channel, p.name AS process,"                            \
      " t.sent_messages AS sent_messages, t.sent_bytes AS sent_bytes,"         \
      " t.recv_messages AS recv_messages, t.recv_bytes AS recv_bytes"          \
      " FROM %2$s.traffic t JOIN %2$s.process p ON p.run=t.run AND"            \
      " p.idx=t.process WHERE t.run=%1$lld")                                   \
    X(procedures,                                                              \
      "process, procedure, module, file, line, self_ns, total_ns, samples, "   \
      "calls, exact",                                                          \
      "SELECT q.process_name AS process, q.name AS procedure,"                 \
      " nullif(q.module, '') AS module, nullif(q.file, '') AS file,"           \
      " nullif(q.line, 0) AS line, q.self_ns AS self_ns,"                      \
      " q.total_ns AS total_ns, q.samples AS samples,"                         \
      " nullif(q.calls, -1) AS calls, q.exact AS exact"                        \
      " FROM %2$s.procedure q WHERE q.run=%1$lld")

static const struct sql_view {
    const char *name, *columns, *query;
} views[] = {
#define X(name, columns, query) {#name, columns, query},
    SQL_VIEWS(X)
#undef X
};
#define VIEWS (sizeof(views) / sizeof(*views))

struct slave_sql {
    sqlite3 *db;
    sqlite3_stmt *stmt;
    struct slave_sql_limits limits;
    atomic_bool *stop;
    /* Random name of the attached schema, and prefix of the inner views that
     * read it. A question cannot guess this name, so it cannot use the schema
     * or the inner views. */
    char secret[24];
    char **hidden; /* tables and modules that questions must not read */
    size_t hidden_count;
    /* the statement being prepared reads the procedures view */
    bool procedures;
    char refused[200]; /* what the authorizer refused */
    /* time in ns that the earlier slave_sql_step() calls took */
    uint64_t used_ns;
    uint64_t began_ns; /* start time of the current step */
    /* memory that SQLite used when the question was opened */
    int64_t memory;
    const char *limit; /* the limit that was reached, in words; NULL: none */
};

static uint64_t now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static int set_sqlite_error(struct slave_sql *q, int code, struct ips_err *err)
{
    return ips_err_set(err, code, "%s",
                       q->db ? sqlite3_errmsg(q->db) : "out of memory");
}

/* ---- which statements are allowed ------------------------------------- */

static bool is_documented_view(const char *name)
{
    for (size_t i = 0; name && i < VIEWS; i++)
        if (strcmp(name, views[i].name) == 0)
            return true;
    return false;
}

static int store_refused_action_and_deny(struct slave_sql *q, const char *what,
                                         const char *name)
{
    if (!q->refused[0])
        snprintf(q->refused, sizeof(q->refused), "%s%s%.80s", what,
                 name && *name ? " " : "", name ? name : "");
    return SQLITE_DENY;
}

static bool is_hidden_table(const struct slave_sql *q, const char *name)
{
    for (size_t i = 0; i < q->hidden_count; i++)
        if (sqlite3_stricmp(name, q->hidden[i]) == 0)
            return true;
    return sqlite3_strnicmp(name, "sqlite_", 7) == 0;
}

static bool has_secret_prefix(const struct slave_sql *q, const char *name)
{
    return name && strncmp(name, q->secret, strlen(q->secret)) == 0;
}

/* Decides whether a question may read a column of a table. `inner`: name of the
 * view or common table expression from which the table is read. A question can
 * choose that name, so the name counts only if it begins with the secret. If a
 * statement reads no column of a table, SQLite passes the column "" and the
 * schema as written in the statement: only our views can write the secret
 * schema. */
static int authorize_table_column_read(struct slave_sql *q, const char *table,
                                       const char *column, const char *schema,
                                       const char *inner)
{
    bool own = has_secret_prefix(q, table) || has_secret_prefix(q, inner);
    const char *from = has_secret_prefix(q, inner) ? inner : table;
    if (own && strcmp(from + strlen(q->secret), "_procedures") == 0)
        q->procedures = true;
    if (own ||
        (is_documented_view(table) && (!schema || strcmp(schema, "temp") == 0)))
        return SQLITE_OK;
    if (column && !*column &&
        (schema ? has_secret_prefix(q, schema) : !is_hidden_table(q, table)))
        return SQLITE_OK;
    return store_refused_action_and_deny(q, "reading the table", table);
}

static int authorize_access(void *arg, int action, const char *a, const char *b,
                            const char *schema, const char *inner)
{
    struct slave_sql *q = arg;
    switch (action) {
    case SQLITE_SELECT:
    case SQLITE_RECURSIVE:
        return SQLITE_OK;
    case SQLITE_READ:
        return authorize_table_column_read(q, a ? a : "", b, schema, inner);
    case SQLITE_FUNCTION:
        if (b && sqlite3_stricmp(b, "load_extension") != 0 &&
            sqlite3_strnicmp(b, "fts", 3) != 0)
            return SQLITE_OK;
        return store_refused_action_and_deny(q, "the function", b);
    default:
        return store_refused_action_and_deny(q, "anything but SELECT", "");
    }
}

/* SQLite's progress handler: a non-zero result ends the step. */
static int check_sql_limits(void *arg)
{
    struct slave_sql *q = arg;
    if (atomic_load_explicit(q->stop, memory_order_relaxed))
        q->limit = "it was cancelled";
    else if (q->used_ns + (now_ns() - q->began_ns) > q->limits.time_ns)
        q->limit = "its time was used up";
    else if (sqlite3_memory_used() - q->memory > (int64_t)SQL_MEMORY_BYTES)
        q->limit = "it needs more than 64 MB of memory";
    return q->limit != NULL;
}

/* ---- opening ---------------------------------------------------------- */

/* Creates two views for each entry of `views`: an inner one with a secret name,
 * which reads the tables, and the documented one, which selects from the inner
 * one. */
static int create_sql_views(struct slave_sql *q, int64_t run,
                            struct ips_err *err)
{
    for (size_t i = 0; i < VIEWS; i++) {
        char select[2048], sql[2400];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(select, sizeof(select), views[i].query, (long long)run,
                 q->secret);
#pragma GCC diagnostic pop
        snprintf(sql, sizeof(sql),
                 "CREATE TEMP VIEW %s_%s AS %s;"
                 "CREATE TEMP VIEW %s AS SELECT * FROM temp.%s_%s",
                 q->secret, views[i].name, select, views[i].name, q->secret,
                 views[i].name);
        if (sqlite3_exec(q->db, sql, NULL, NULL, NULL) != SQLITE_OK)
            return set_sqlite_error(q, IPS_E_DB, err);
    }
    return 0;
}

static void restrict_sqlite_connection(struct slave_sql *q)
{
    static const int limits[][2] = {
        {SQLITE_LIMIT_LENGTH, SQL_VALUE_BYTES},
        {SQLITE_LIMIT_SQL_LENGTH, SQL_TEXT_BYTES},
        {SQLITE_LIMIT_COLUMN, SQL_COLUMNS},
        {SQLITE_LIMIT_EXPR_DEPTH, 200},
        {SQLITE_LIMIT_COMPOUND_SELECT, 50},
        {SQLITE_LIMIT_VDBE_OP, 100000},
        {SQLITE_LIMIT_FUNCTION_ARG, 32},
        {SQLITE_LIMIT_ATTACHED, 0},
        {SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 200},
        {SQLITE_LIMIT_VARIABLE_NUMBER, 0},
        {SQLITE_LIMIT_WORKER_THREADS, 0},
    };
    for (size_t i = 0; i < sizeof(limits) / sizeof(*limits); i++)
        (void)sqlite3_limit(q->db, limits[i][0], limits[i][1]);
    (void)sqlite3_db_config(q->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    (void)sqlite3_db_config(q->db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
    (void)sqlite3_db_config(q->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    /* "x" is always a name: a misspelt column is an error, not a string. */
    (void)sqlite3_db_config(q->db, SQLITE_DBCONFIG_DQS_DML, 0, NULL);
}

/* Attaches the database read-only, under a name that ends in random digits. */
static int attach_database(struct slave_sql *q, const char *db,
                           struct ips_err *err)
{
    uint64_t secret;
    char uri[2 * IPS_PATH_BYTES + 32] = "file:";
    size_t at = strlen(uri);
    sqlite3_randomness(sizeof(secret), &secret);
    snprintf(q->secret, sizeof(q->secret), "ips%016" PRIx64, secret);
    for (const char *p = db; *p && at + 16 < sizeof(uri); p++)
        at += (size_t)snprintf(uri + at, sizeof(uri) - at,
                               strchr("%?#", *p) ? "%%%02x" : "%c",
                               (unsigned char)*p);
    snprintf(uri + at, sizeof(uri) - at, "?mode=ro");
    char *sql = sqlite3_mprintf("PRAGMA temp_store=MEMORY;"
                                "ATTACH %Q AS %s",
                                uri, q->secret);
    int rc = 0;
    (void)sqlite3_busy_timeout(q->db, 2000);
    if (!sql || sqlite3_exec(q->db, sql, NULL, NULL, NULL) != SQLITE_OK)
        rc = set_sqlite_error(q, IPS_E_DB, err);
    sqlite3_free(sql);
    return rc;
}

/* Adds the names that the query `format` returns to q->hidden, so that
 * questions cannot read such tables. %s in the query stands for the secret
 * schema. */
static int add_hidden_table_names(struct slave_sql *q, const char *format,
                                  struct ips_err *err)
{
    char sql[100];
    sqlite3_stmt *s = NULL;
    const char *at = strstr(format, "%s");
    snprintf(sql, sizeof(sql), "%.*s%s%s",
             (int)(at ? (size_t)(at - format) : strlen(format)), format,
             at ? q->secret : "", at ? at + 2 : "");
    if (sqlite3_prepare_v2(q->db, sql, -1, &s, NULL) != SQLITE_OK)
        return set_sqlite_error(q, IPS_E_DB, err);
    while (sqlite3_step(s) == SQLITE_ROW) {
        const unsigned char *name = sqlite3_column_text(s, 0);
        char **more = realloc(q->hidden, (q->hidden_count + 1) * sizeof(*more));
        if (more)
            q->hidden = more;
        char *copy = more && name ? strdup((const char *)name) : NULL;
        if (!copy) {
            (void)sqlite3_finalize(s);
            return ips_err_set(err, IPS_E_NO_MEMORY, "out of memory");
        }
        q->hidden[q->hidden_count++] = copy;
    }
    return sqlite3_finalize(s) == SQLITE_OK
               ? 0
               : set_sqlite_error(q, IPS_E_DB, err);
}

int slave_sql_open(const char *db, int64_t run,
                   const struct slave_sql_limits *limits, atomic_bool *stop,
                   struct slave_sql **out, struct ips_err *err)
{
    struct slave_sql *q = calloc(1, sizeof(*q));
    if (!q)
        return ips_err_set(err, IPS_E_NO_MEMORY, "out of memory");
    int rc = 0;
    q->limits = *limits;
    q->stop = stop;
    q->memory = sqlite3_memory_used();
    if (sqlite3_open_v2(":memory:", &q->db,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_URI |
                            SQLITE_OPEN_NOMUTEX,
                        NULL) != SQLITE_OK)
        rc = set_sqlite_error(q, IPS_E_DB, err);
    if (rc == 0)
        rc = attach_database(q, db, err);
    if (rc == 0)
        rc = add_hidden_table_names(q, "SELECT name FROM pragma_module_list",
                                    err);
    if (rc == 0)
        rc =
            add_hidden_table_names(q, "SELECT name FROM %s.sqlite_master", err);
    if (rc == 0)
        rc = create_sql_views(q, run, err);
    if (rc == 0) {
        restrict_sqlite_connection(q);
        (void)sqlite3_set_authorizer(q->db, authorize_access, q);
        sqlite3_progress_handler(q->db, PROGRESS_OPS, check_sql_limits, q);
    }
    if (rc < 0) {
        slave_sql_close(q);
        return ips_err_wrap(err, rc, "database %s", db);
    }
    *out = q;
    return 0;
}

void slave_sql_close(struct slave_sql *q)
{
    if (!q)
        return;
    (void)sqlite3_finalize(q->stmt);
    (void)sqlite3_close(q->db);
    for (size_t i = 0; i < q->hidden_count; i++)
        free(q->hidden[i]);
    free(q->hidden);
    free(q);
}

/* ---- the question ----------------------------------------------------- */

static int set_missing_select_error(struct ips_err *err)
{
    char text[1500];
    size_t at = 0;
    for (size_t i = 0; i < VIEWS && at < sizeof(text); i++)
        at += (size_t)snprintf(text + at, sizeof(text) - at, "\n  %s(%s)",
                               views[i].name, views[i].columns);
    return ips_err_set(err, IPS_E_USAGE, "expected a SELECT; the views are:%s",
                       text);
}

int slave_sql_prepare(struct slave_sql *q, const char *text,
                      struct ips_err *err)
{
    const char *tail = "";
    (void)sqlite3_finalize(q->stmt);
    q->stmt = NULL;
    q->procedures = false;
    q->refused[0] = '\0';
    q->limit = NULL;
    q->began_ns = now_ns();
    int rc = sqlite3_prepare_v2(q->db, text, -1, &q->stmt, &tail);
    if (rc != SQLITE_OK && q->refused[0])
        return ips_err_set(
            err, IPS_E_USAGE,
            "%s is not allowed: only SELECT from the documented views",
            q->refused);
    if (rc != SQLITE_OK)
        return set_sqlite_error(q, IPS_E_USAGE, err);
    if (!q->stmt)
        return set_missing_select_error(err);
    if (!sqlite3_stmt_readonly(q->stmt) || sqlite3_stmt_isexplain(q->stmt) ||
        sqlite3_column_count(q->stmt) == 0)
        return ips_err_set(err, IPS_E_USAGE,
                           "only SELECT from the documented views is allowed");
    sqlite3_stmt *more = NULL;
    if (sqlite3_prepare_v2(q->db, tail, -1, &more, NULL) != SQLITE_OK || more) {
        (void)sqlite3_finalize(more);
        return ips_err_set(err, IPS_E_USAGE, "one statement at a time");
    }
    return 0;
}

bool slave_sql_wants_procedures(const struct slave_sql *q)
{
    return q->procedures;
}

struct sqlite3_stmt *slave_sql_stmt(const struct slave_sql *q)
{
    return q->stmt;
}

int slave_sql_step(struct slave_sql *q, struct ips_err *err)
{
    q->began_ns = now_ns();
    int rc = check_sql_limits(q) ? SQLITE_INTERRUPT : sqlite3_step(q->stmt);
    q->used_ns += now_ns() - q->began_ns;
    if (rc == SQLITE_ROW)
        return 1;
    if (rc == SQLITE_DONE)
        return 0;
    if (q->limit)
        return ips_err_set(err, IPS_E_LIMIT, "%s", q->limit);
    return set_sqlite_error(q, rc == SQLITE_NOMEM ? IPS_E_LIMIT : IPS_E_USAGE,
                            err);
}
