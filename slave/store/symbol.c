/* Stores the names of code addresses, and the procedure rows of the IRT
 * (intermediate results). */
#include <stdlib.h>
#include <string.h>

#include "slave/store/db.h"

int slave_store_get_symbol(struct slave_store *s, const char *module,
                           uint64_t address, char **text, int *grade,
                           struct ips_err *err)
{
    sqlite3_stmt *q = s->stmt[SLAVE_STMT_GET_SYMBOL];
    int rc = 0;
    *text = NULL;
    *grade = 0;
    slave_bind_text(q, 1, module);
    slave_bind_u64(q, 2, address);
    int step = sqlite3_step(q);
    if (step == SQLITE_ROW) {
        const unsigned char *found = sqlite3_column_text(q, 0);
        *text = found ? strdup((const char *)found) : NULL;
        *grade = *text ? sqlite3_column_int(q, 1) : 0;
    } else if (step != SQLITE_DONE) {
        rc = slave_store_set_error(s, err, "symbol");
    }
    (void)sqlite3_reset(q);
    return rc;
}

int slave_store_put_symbol_and_trim_oldest(struct slave_store *s,
                                           const char *module, uint64_t address,
                                           const char *text, int grade,
                                           struct ips_err *err)
{
    sqlite3_stmt *q = s->stmt[SLAVE_STMT_PUT_SYMBOL];
    slave_bind_text(q, 1, module);
    slave_bind_u64(q, 2, address);
    (void)sqlite3_bind_int(q, 3, grade);
    slave_bind_text(q, 4, text);
    int rc = slave_store_execute(s, SLAVE_STMT_PUT_SYMBOL, err);
    int64_t id = sqlite3_last_insert_rowid(s->db);
    if (rc == 0 && id > SLAVE_SYMBOLS_KEPT && id % 1024 == 0) {
        (void)sqlite3_bind_int64(s->stmt[SLAVE_STMT_TRIM_SYMBOL], 1,
                                 id - SLAVE_SYMBOLS_KEPT);
        rc = slave_store_execute(s, SLAVE_STMT_TRIM_SYMBOL, err);
    }
    return rc;
}

static void bind_text_with_length(sqlite3_stmt *q, int at, const char *text,
                                  uint32_t len)
{
    (void)sqlite3_bind_text(q, at, text, (int)len, SQLITE_TRANSIENT);
}

int slave_store_replace_procedures(struct slave_store *s, int64_t run,
                                   uint64_t key,
                                   const struct slave_procedure_row *rows,
                                   size_t count, struct ips_err *err)
{
    static const char *const tables[] = {"procedure", NULL};
    sqlite3_stmt *q = s->stmt[SLAVE_STMT_PUT_PROCEDURE];
    int rc = slave_store_begin(s, err);
    if (rc == 0)
        rc = slave_store_delete_rows_of_run(s, run, tables, err);
    for (size_t i = 0; rc == 0 && i < count; i++) {
        const struct slave_procedure_row *r = &rows[i];
        (void)sqlite3_bind_int64(q, 1, run);
        slave_bind_u64(q, 2, r->process);
        slave_bind_u64(q, 3, i);
        slave_bind_text(q, 4, r->process_name);
        bind_text_with_length(q, 5, r->name, r->name_len);
        slave_bind_text(q, 6, r->module);
        bind_text_with_length(q, 7, r->file, r->file_len);
        slave_bind_u64(q, 8, r->source_line);
        slave_bind_u64(q, 9, r->self_ns);
        slave_bind_u64(q, 10, r->total_ns);
        slave_bind_u64(q, 11, r->samples);
        slave_bind_u64(q, 12, r->calls);
        slave_bind_u64(q, 13, r->exact);
        rc = slave_store_execute(s, SLAVE_STMT_PUT_PROCEDURE, err);
    }
    q = s->stmt[SLAVE_STMT_HAS_PROCEDURES];
    if (rc == 0) {
        (void)sqlite3_bind_int64(q, 1, run);
        slave_bind_u64(q, 2, key);
        rc = slave_store_execute(s, SLAVE_STMT_HAS_PROCEDURES, err);
    }
    if (rc == 0)
        rc = slave_store_commit(s, err);
    if (rc < 0)
        slave_store_rollback(s);
    return rc;
}
