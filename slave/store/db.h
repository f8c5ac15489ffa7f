/* The prepared statements and helper functions that the files of store/ and
 * graphs/irt.c share. */
#ifndef IPS_SLAVE_STORE_DB_H
#define IPS_SLAVE_STORE_DB_H

#include <sqlite3.h>

#include "slave/store/store.h"

enum slave_stmt {
    SLAVE_STMT_BEGIN,
    SLAVE_STMT_COMMIT,
    SLAVE_STMT_ROLLBACK,
    SLAVE_STMT_PUT_RUN,
    SLAVE_STMT_PUT_STREAM,
    SLAVE_STMT_PUT_SEGMENT,
    SLAVE_STMT_DROP_SEGMENT,
    SLAVE_STMT_RUNS,
    SLAVE_STMT_STREAMS,
    SLAVE_STMT_SEGMENTS,
    SLAVE_STMT_PUT_PROCESS,
    SLAVE_STMT_PUT_THREAD,
    SLAVE_STMT_PUT_WAIT,
    SLAVE_STMT_PUT_CHANNEL,
    SLAVE_STMT_PUT_TRAFFIC,
    SLAVE_STMT_PUT_PROCEDURE,
    SLAVE_STMT_PUT_IRT,
    SLAVE_STMT_HAS_PROCEDURES,
    SLAVE_STMT_GET_IRT,
    SLAVE_STMT_GET_SYMBOL,
    SLAVE_STMT_PUT_SYMBOL,
    SLAVE_STMT_TRIM_SYMBOL,
    SLAVE_STMT_PUT_UNSEEN,
    SLAVE_STMT_UNSEEN,
    SLAVE_STMT_ADD_LOAD,
    SLAVE_STMT_LOAD,
    SLAVE_STMT_COUNT
};

struct slave_store {
    sqlite3 *db;
    sqlite3_stmt *stmt[SLAVE_STMT_COUNT];
};

/* Sets *err to IPS_E_DB with SQLite's message. Returns IPS_E_DB. */
int slave_store_set_error(struct slave_store *s, struct ips_err *err,
                          const char *what) IPS_MUST_USE;
/* Runs a prepared statement whose parameters are bound and that returns no
 * rows, then resets it. */
int slave_store_execute(struct slave_store *s, enum slave_stmt which,
                        struct ips_err *err) IPS_MUST_USE;
/* Deletes the run's rows from the named tables (a NULL-terminated list). */
int slave_store_delete_rows_of_run(struct slave_store *s, int64_t run,
                                   const char *const *tables,
                                   struct ips_err *err) IPS_MUST_USE;

static inline void slave_bind_u64(sqlite3_stmt *q, int at, uint64_t v)
{
    (void)sqlite3_bind_int64(q, at, (sqlite3_int64)v);
}
static inline uint64_t slave_column_u64(sqlite3_stmt *q, int at)
{
    return (uint64_t)sqlite3_column_int64(q, at);
}
/* Binds `text`; SQLite makes a copy of it. */
static inline void slave_bind_text(sqlite3_stmt *q, int at, const char *text)
{
    (void)sqlite3_bind_text(q, at, text, -1, SQLITE_TRANSIENT);
}

#endif
