/*
 * Answers an SQL question about one run's intermediate results (docs/metrics.md
 * lists the views). Any client that may ask this slave may send one, so it is
 * not trusted:
 *
 *  - it runs on its own in-memory connection, to which the slave's database is
 *    attached read-only under a random name. It can name only temporary views
 *    of that one run. An authorizer refuses everything but SELECT through these
 *    views: no other run, no table of the slave, no ATTACH, no PRAGMA, no
 *    extension, no write.
 *  - rows, time, memory (SQL_MEMORY_BYTES in addition to the memory in use when
 *    the question was opened), bytes of a value and of the text are limited. A
 *    truncated answer says so.
 *  - another thread can stop it (`stop`). SQLite checks no limit inside one
 *    call of an SQL function, so the question runs in a process of its own that
 *    a timer kills (serve/sql.c).
 *
 * An error in the question returns IPS_E_USAGE with SQLite's message. Thread:
 * one at a time. Source: IPS-9 (category 2).
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
    uint64_t time_ns; /* time limit for all slave_sql_step calls together */
};

/* Opens a connection for one question about a run. `db`: path of the slave's
 * database; `run`: the run's id in it. `stop` is borrowed: any thread may set
 * it to stop the question. */
int slave_sql_open(const char *db, int64_t run,
                   const struct slave_sql_limits *limits, atomic_bool *stop,
                   struct slave_sql **out, struct ips_err *err) IPS_MUST_USE;
void slave_sql_close(struct slave_sql *q);

/* Prepares `text`, one SELECT statement. IPS_E_USAGE: it is invalid or not
 * allowed. May be called again after the tables changed. */
int slave_sql_prepare(struct slave_sql *q, const char *text,
                      struct ips_err *err) IPS_MUST_USE;
/* Returns true if the prepared statement reads the view `procedures`, whose
 * rows the caller must then make. */
bool slave_sql_wants_procedures(const struct slave_sql *q);
/* Returns the statement, for reading the columns and values of the current
 * row. */
struct sqlite3_stmt *slave_sql_stmt(const struct slave_sql *q);

/* Returns 1: a row; 0: no more rows; IPS_E_USAGE: the question cannot be
 * answered; IPS_E_LIMIT: a limit stopped it (`err` says which). */
int slave_sql_step(struct slave_sql *q, struct ips_err *err) IPS_MUST_USE;

#endif
