/* Stores and reads the table `load`: the load of the machine during each run,
 * which drain/load.c measures. */
#include <string.h>

#include "slave/store/db.h"

int slave_store_add_load(struct slave_store *s, int64_t run,
                         const struct slave_load_row *row, struct ips_err *err)
{
    sqlite3_stmt *q = s->stmt[SLAVE_STMT_ADD_LOAD];
    (void)sqlite3_bind_int64(q, 1, run);
    slave_bind_u64(q, 2, row->samples);
    slave_bind_u64(q, 3, row->us);
    slave_bind_u64(q, 4, row->runnable_us);
    slave_bind_u64(q, 5, row->average_us);
    return slave_store_execute(s, SLAVE_STMT_ADD_LOAD, err);
}

int slave_store_get_load(struct slave_store *s, int64_t run,
                         struct slave_load_row *out, struct ips_err *err)
{
    sqlite3_stmt *q = s->stmt[SLAVE_STMT_LOAD];
    memset(out, 0, sizeof(*out));
    (void)sqlite3_bind_int64(q, 1, run);
    int step = sqlite3_step(q), rc = 0;
    if (step == SQLITE_ROW)
        *out = (struct slave_load_row){
            slave_column_u64(q, 0), slave_column_u64(q, 1),
            slave_column_u64(q, 2), slave_column_u64(q, 3)};
    else if (step != SQLITE_DONE)
        rc = slave_store_set_error(s, err, "load");
    (void)sqlite3_reset(q);
    return rc;
}
