/*
 * A question in SQL about one run's intermediate results (docs/metrics.md has
 * the views), which may come from anybody who may ask this machine's slave:
 *
 *  - it runs on a connection of its own, in memory, to which the slave's
 *    database is attached read-only under a random name; what a question can
 *    name are temporary views of that one run. An authorizer refuses all but
 *    SELECT and what reads through these views: no other run, no table of the
 *    slave's own, no ATTACH, no PRAGMA, no extension, no write.
 *  - bounded: rows, time, memory (SQL_MEMORY_BYTES above what the process had),
 *    bytes of a value and of the text. What is cut is said, never left out
 *    silently.
 *  - can be stopped from another thread (`stop`). SQLite looks at no limit
 *    within one function of one row: so it runs in a process that a timer ends
 *    (serve/sql.c).
 *
 * Errors in the question are SQLite's own sentence, IPS_E_USAGE.
 * Thread: one at a time. Source: IPS-9 (category 2).
 */
#ifndef IPS_SLAVE_STORE_SQL_H
#define IPS_SLAVE_STORE_SQL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"

#define SQL_TEXT_BYTES 65536u
#define SQL_VALUE_BYTES (1u << 20)
#define SQL_COLUMNS 200u
#define SQL_MEMORY_BYTES (64u << 20)

struct sqlite3_stmt;
struct slave_sql;

struct slave_sql_limits {
    uint64_t time_ns; /* in slave_sql_step, all together */
};

/* `db`: path of the slave's database; `run`: id in it. `stop` is borrowed. */
int slave_sql_open(const char *db, int64_t run,
                   const struct slave_sql_limits *limits, atomic_bool *stop,
                   struct slave_sql **out, struct ips_err *err) IPS_MUST_USE;
void slave_sql_close(struct slave_sql *q);

/* One statement, a SELECT. May be called again (the tables have changed). */
int slave_sql_prepare(struct slave_sql *q, const char *text,
                      struct ips_err *err) IPS_MUST_USE;
/* Does what was prepared look at procedures? */
bool slave_sql_wants_procedures(const struct slave_sql *q);
/* To read columns and values of the row at hand. */
struct sqlite3_stmt *slave_sql_stmt(const struct slave_sql *q);

/* 1 a row, 0 no more, IPS_E_USAGE the question cannot be answered, IPS_E_LIMIT
 * it was stopped at a limit: `err` says which. */
int slave_sql_step(struct slave_sql *q, struct ips_err *err) IPS_MUST_USE;

#endif
