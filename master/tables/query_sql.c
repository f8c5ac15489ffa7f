/*
 * A question in SQL. Every machine answers it from its own tables of the run,
 * and the answer has the rows machine by machine. Category 2 of IPS-9. The
 * slave checks and limits the SELECT (slave/store/sql.h); the master only
 * collects the rows.
 *
 * An error in the question is the same on all machines, so the first one is
 * reported. A machine that stopped at a limit makes the answer incomplete.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/types.h"
#include "master/query/certificate.h"
#include "master/query/gather.h"
#include "master/query/machine_share.h"
#include "master/tables/cache.h"

#define SQL_ROWS 100000u
#define SQL_ROWS_MOST 1000000u
#define SQL_TIME_NS 10000000000ULL
#define SQL_TIME_MOST_NS 600000000000ULL
#define SQL_TEXT_BYTES 65536u

struct machine_rows { /* the rows of one machine */
    /* points into messages kept by query_keep_message() */
    const Ips__SqlAnswer **piece;
    uint32_t count;
};

static void fail_no_memory(struct query *q)
{
    struct ips_err err = {0};
    ips_err_set(&err, IPS_E_NO_MEMORY, "no memory");
    query_fail(q, &err);
}

static int check_and_append_sql_reply(struct query *q, struct machine_share *p,
                                      const Ips__Reply *reply,
                                      struct ips_err *err)
{
    struct machine_rows *a = p->own;
    if (reply->answer_case != IPS__REPLY__ANSWER_SQL)
        return ips_err_set(err, IPS_E_PROTOCOL, "no answer to SqlAsk");
    const Ips__SqlAnswer *s = reply->sql;
    size_t columns = a->count ? a->piece[0]->n_columns : s->n_columns;
    for (size_t i = 0; i < s->n_rows; i++)
        if (s->rows[i]->n_values != columns)
            return ips_err_set(err, IPS_E_PROTOCOL,
                               "a row has %zu values for %zu columns",
                               s->rows[i]->n_values, columns);
    if (!query_keep_message(q, p) ||
        !machine_share_append_rows(&a->piece, &a->count,
                                   (void *const *)&reply->sql, 1))
        return ips_err_set(err, IPS_E_LIMIT, "its rows are too many");
    return 0;
}

static bool same_columns(const Ips__SqlAnswer *a, const Ips__SqlAnswer *b)
{
    if (a->n_columns != b->n_columns)
        return false;
    for (size_t i = 0; i < a->n_columns; i++)
        if (strcmp(a->columns[i], b->columns[i]) != 0)
            return false;
    return true;
}

/* Fails the question, and returns true, if a machine reports an error in the
 * question itself, or if the machines answer with different columns. */
static bool fail_on_sql_error(struct query *q)
{
    struct ips_err err = {0};
    const Ips__SqlAnswer *first = NULL;
    for (uint32_t i = 0; i < q->gather.count && !err.code; i++) {
        const struct machine_rows *a = q->gather.active[i]->own;
        for (uint32_t k = 0; k < a->count; k++)
            if (*a->piece[k]->error && !err.code)
                ips_err_set(&err, IPS_E_USAGE, "%s", a->piece[k]->error);
        if (a->count == 0 || a->piece[0]->n_columns == 0)
            continue;
        if (first && !same_columns(first, a->piece[0]))
            ips_err_set(&err, IPS_E_PROTOCOL,
                        "machines answer with different columns: do their "
                        "slaves have the same version?");
        first = a->piece[0];
    }
    if (err.code)
        query_fail(q, &err);
    return err.code != 0;
}

static void send_rows_of_machine(struct query *q, const struct machine_share *p)
{
    const struct machine_rows *a = p->own;
    for (uint32_t k = 0; k < a->count; k++) {
        Ips__SqlAnswer piece = *a->piece[k];
        Ips__Reply reply = IPS__REPLY__INIT;
        piece.machine = ips_unconst_text(p->machine);
        piece.certificate = NULL;
        reply.answer_case = IPS__REPLY__ANSWER_SQL;
        reply.sql = &piece;
        query_send_partial_reply(q, &reply);
    }
}

static void send_sql_answer(struct query *q)
{
    struct arena arena = {0};
    struct certificate c;
    Ips__SqlAnswer answer = IPS__SQL_ANSWER__INIT;
    Ips__Reply reply = IPS__REPLY__INIT;
    if (fail_on_sql_error(q))
        return;
    certificate_fill(q, &arena, &c);
    for (uint32_t i = 0; i < q->gather.count; i++) {
        const struct machine_share *p = q->gather.active[i];
        const struct machine_rows *a = p->own;
        send_rows_of_machine(q, p);
        if (a->count == 0 || !*a->piece[a->count - 1]->cut)
            continue;
        certificate_add_gap_and_mark_incomplete(
            &arena, &c,
            arena_printf(&arena, "machine %s: rows are missing: %s", p->machine,
                         a->piece[a->count - 1]->cut));
    }
    certificate_set_category_and_source(q, &arena, &c, 2,
                                        "the slaves' tables, in SQL");
    answer.certificate = &c.msg;
    reply.answer_case = IPS__REPLY__ANSWER_SQL;
    reply.sql = &answer;
    if (arena.failed)
        fail_no_memory(q);
    else
        query_answer(q, &reply);
    arena_release(&arena);
}

static void ask_all_machines_for_sql_rows(struct query *q)
{
    const Ips__SqlAsk *asked = q->request->sql;
    Ips__SqlAsk ask = IPS__SQL_ASK__INIT;
    Ips__Request request = IPS__REQUEST__INIT;
    ask.text = asked->text;
    ask.rows = asked->rows ? ips_min_u64(asked->rows, SQL_ROWS_MOST) : SQL_ROWS;
    ask.time_ns = asked->time_ns ? ips_min_u64(asked->time_ns, SQL_TIME_MOST_NS)
                                 : SQL_TIME_NS;
    request.ask_case = IPS__REQUEST__ASK_SQL;
    request.sql = &ask;
    /* From here on the question needs only the slaves' tables, which other
     * questions may update. So no question waits for this one, and it does not
     * restart. */
    q->in_graph = false;
    q->released_run = true;
    query_open_round(q, check_and_append_sql_reply, send_sql_answer);
    for (uint32_t i = 0; i < q->gather.count; i++) {
        struct machine_share *p = q->gather.active[i];
        p->own = calloc(1, sizeof(struct machine_rows));
        if (!p->own) {
            fail_no_memory(q);
            return;
        }
        query_send_request_to_slave(q, p, &request, true);
    }
    query_close_round(q);
}

static void start_sql(struct query *q)
{
    struct ips_err err = {0};
    if (strlen(q->request->sql->text) >= SQL_TEXT_BYTES) {
        ips_err_set(&err, IPS_E_LIMIT, "the query is longer than %u bytes",
                    SQL_TEXT_BYTES);
        query_fail(q, &err);
        return;
    }
    table_cache_lend_or_gather(q, 0, ask_all_machines_for_sql_rows);
}

static void release_sql(struct query *q)
{
    for (uint32_t i = 0; i < q->machine_count; i++) {
        struct machine_rows *a = q->machines[i].own;
        if (a)
            free(a->piece);
        free(a);
        q->machines[i].own = NULL;
    }
    gather_release(q);
}

const struct query_kind query_sql = {.name = "sql",
                                     .exclusive = true,
                                     .start = start_sql,
                                     .release = release_sql};
