/* SqlAsk: a question in SQL over the run's IRT, in pieces. An error of the
 * question is an answer, not a failure of this slave. */
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "slave/serve_graph.h"
#include "slave/sql.h"

#define PIECE_SQL_ROWS 1024u
#define PIECE_SQL_BYTES (1u << 20)

struct sql_ask {
    struct slave_sql *q;
    int64_t run;
    uint64_t rows; /* told so far */
    Ips__SqlRow *row;
    Ips__SqlRow **row_ptr;
    Ips__SqlValue *value;
    Ips__SqlValue **value_ptr;
    char **columns;
    char *texts; /* of the piece */
    size_t texts_len, texts_room;
    uint32_t column_count;
    struct ips_err error; /* of the question */
};

/* What was opened stays for the next question about that run. */
static int open_sql(struct slave_graph_ask *j, struct slave_graphs *gs)
{
    const Ips__SqlAsk *ask = slave_graph_request(j)->sql;
    const struct slave_sql_limits limits = {.time_ns = ask->time_ns};
    struct sql_ask *a = j->sql;
    if (gs->sql && gs->sql_run == a->run) {
        a->q = gs->sql;
        gs->sql = NULL;
        slave_sql_again(a->q, &limits, &j->job.stop);
        return 0;
    }
    return slave_sql_open(gs->db, a->run, &limits, &j->job.stop, &a->q,
                          &j->job.err);
}

void slave_sql_release(struct slave_graph_ask *j, struct slave_graphs *gs)
{
    struct sql_ask *a = j->sql;
    if (!a)
        return;
    if (a->q) {
        slave_sql_rest(a->q);
        slave_sql_close(gs->sql);
        gs->sql = a->q;
        gs->sql_run = a->run;
    }
    free(a->row);
    free(a->row_ptr);
    free(a->value);
    free(a->value_ptr);
    free(a->columns);
    free(a->texts);
    free(a);
}

static int no_memory(struct slave_graph_ask *j)
{
    return ips_err_set(&j->job.err, IPS_E_NO_MEMORY, "out of memory");
}

/* The procedures of the graph that the IRT are of, made where they are not. */
static int have_procedures(struct slave_graph_ask *j, struct slave_graphs *gs)
{
    struct slave_irt_row irt;
    struct slave_store *store = slave_graphs_store(gs, &j->job.err);
    if (!store)
        return j->job.err.code;
    if (slave_store_get_irt(store, j->sql->run, &irt) && irt.procedures)
        return 0;
    int rc = slave_graph_newest(j, gs);
    return rc < 0 ? rc : slave_graph_costs(gs, j->graph, &j->job.err);
}

/* Asked without a SyncAsk before it, the tables may be of another build: those
 * of a closed run are made anew then, of an open one where there are none. */
static int have_tables(struct slave_graph_ask *j, struct slave_graphs *gs)
{
    struct slave_irt_row irt;
    struct slave_store *store = slave_graphs_store(gs, &j->job.err);
    if (!store)
        return j->job.err.code;
    if (slave_store_get_irt(store, j->sql->run, &irt) &&
        (!j->snap->closed || irt.key == j->snap->key))
        return 0;
    return slave_graph_newest(j, gs);
}

static int make_room(struct slave_graph_ask *j, struct sql_ask *a)
{
    size_t n = a->column_count, cells = n * PIECE_SQL_ROWS;
    a->row = calloc(PIECE_SQL_ROWS, sizeof(*a->row));
    a->row_ptr = calloc(PIECE_SQL_ROWS, sizeof(*a->row_ptr));
    a->value = calloc(cells, sizeof(*a->value));
    a->value_ptr = calloc(cells, sizeof(*a->value_ptr));
    a->columns = calloc(n, sizeof(*a->columns));
    if (!a->row || !a->row_ptr || !a->value || !a->value_ptr || !a->columns)
        return no_memory(j);
    for (size_t i = 0; i < PIECE_SQL_ROWS; i++)
        a->row_ptr[i] = &a->row[i];
    for (size_t i = 0; i < cells; i++)
        a->value_ptr[i] = &a->value[i];
    return 0;
}

/* 0 with a->error set where the question is wrong. */
static int begin(struct slave_graph_ask *j, struct slave_graphs *gs)
{
    const Ips__SqlAsk *ask = slave_graph_request(j)->sql;
    struct sql_ask *a = j->sql = calloc(1, sizeof(*a));
    if (!a)
        return no_memory(j);
    a->run = j->snap->run_id; /* which a build takes */
    int rc = have_tables(j, gs);
    if (rc == 0)
        rc = open_sql(j, gs);
    if (rc < 0)
        return rc;
    rc = slave_sql_prepare(a->q, ask->text, &a->error);
    if (rc == 0 && slave_sql_wants_procedures(a->q)) {
        rc = have_procedures(j, gs);
        if (rc < 0)
            return rc;
        rc = slave_sql_prepare(a->q, ask->text, &a->error);
    }
    if (rc < 0)
        return 0;
    a->column_count = (uint32_t)sqlite3_column_count(slave_sql_stmt(a->q));
    return make_room(j, a);
}

/* Copies of the row's texts, since the statement's own go with its next step:
 * one behind the other, each up to its first zero byte. */
static bool put_text(struct sql_ask *a, const char *text, size_t bytes)
{
    size_t len = text ? strnlen(text, bytes) : 0;
    if (a->texts_room - a->texts_len <= len) {
        size_t more = (a->texts_room + len + 1) * 2;
        char *fresh = realloc(a->texts, more);
        if (!fresh)
            return false;
        a->texts = fresh;
        a->texts_room = more;
    }
    if (len)
        memcpy(a->texts + a->texts_len, text, len);
    a->texts[a->texts_len + len] = '\0';
    a->texts_len += len + 1;
    return true;
}

static bool put_row(struct sql_ask *a, size_t at)
{
    sqlite3_stmt *s = slave_sql_stmt(a->q);
    Ips__SqlRow *row = &a->row[at];
    ips__sql_row__init(row);
    row->values = &a->value_ptr[at * a->column_count];
    row->n_values = a->column_count;
    for (uint32_t c = 0; c < a->column_count; c++) {
        Ips__SqlValue *v = row->values[c];
        int i = (int)c;
        ips__sql_value__init(v);
        switch (sqlite3_column_type(s, i)) {
        case SQLITE_INTEGER:
            v->value_case = IPS__SQL_VALUE__VALUE_INTEGER;
            v->integer = sqlite3_column_int64(s, i);
            break;
        case SQLITE_FLOAT:
            v->value_case = IPS__SQL_VALUE__VALUE_REAL;
            v->real = sqlite3_column_double(s, i);
            break;
        case SQLITE_NULL:
            break;
        default: /* texts; a blob's bytes are one */
            v->value_case = IPS__SQL_VALUE__VALUE_TEXT;
            v->text = NULL;
            if (!put_text(a, sqlite3_column_blob(s, i),
                          (size_t)sqlite3_column_bytes(s, i)))
                return false;
        }
    }
    return true;
}

/* The room moves while it grows: so at the end. */
static void point_to_texts(struct sql_ask *a, size_t rows)
{
    char *text = a->texts;
    for (size_t i = 0; i < rows * a->column_count; i++)
        if (a->value[i].value_case == IPS__SQL_VALUE__VALUE_TEXT) {
            a->value[i].text = text;
            text += strlen(text) + 1;
        }
}

static void answer_error(struct slave_graph_ask *j)
{
    Ips__SqlAnswer *r = &j->answer.sql;
    struct sql_ask *a = j->sql;
    if (a->error.code == IPS_E_LIMIT)
        r->cut = a->error.msg;
    else
        r->error = a->error.msg;
    j->job.finished = true;
}

static int fill(struct slave_graph_ask *j)
{
    const Ips__SqlAsk *ask = slave_graph_request(j)->sql;
    struct sql_ask *a = j->sql;
    Ips__SqlAnswer *r = &j->answer.sql;
    int rc = 1;
    r->columns = a->columns;
    r->n_columns = a->column_count;
    for (uint32_t c = 0; c < a->column_count; c++)
        a->columns[c] =
            ips_wire_text(sqlite3_column_name(slave_sql_stmt(a->q), (int)c));
    a->texts_len = 0;
    r->rows = a->row_ptr;
    while (r->n_rows < PIECE_SQL_ROWS && a->texts_len < PIECE_SQL_BYTES) {
        rc = slave_sql_step(a->q, &a->error);
        if (rc != 1)
            break;
        if (a->rows == ask->rows) {
            rc = ips_err_set(&a->error, IPS_E_LIMIT,
                             "it has more than %llu rows",
                             (unsigned long long)ask->rows);
            break;
        }
        if (!put_row(a, r->n_rows))
            return no_memory(j);
        r->n_rows++;
        a->rows++;
    }
    point_to_texts(a, r->n_rows);
    if (rc < 0)
        answer_error(j);
    j->job.finished |= rc == 0;
    return 0;
}

void slave_step_sql(struct slave_job *job, struct slave_graphs *gs)
{
    struct slave_graph_ask *j = slave_graph_of(job);
    int rc = 0;
    ips__sql_answer__init(&j->answer.sql);
    if (!j->sql)
        rc = begin(j, gs);
    if (rc == 0 && j->sql->error.code)
        answer_error(j);
    else if (rc == 0)
        rc = fill(j);
    if (rc < 0) {
        slave_job_fail(job);
        return;
    }
    job->reply.answer_case = IPS__REPLY__ANSWER_SQL;
    job->reply.sql = &j->answer.sql;
}
