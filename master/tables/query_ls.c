/* The tree of machines, processes and threads, from the slaves' tables.
 * Category 2 of IPS-9. */
#include <stdlib.h>
#include <string.h>

#include "common/object.h"
#include "master/base/top_n.h"
#include "master/query/certificate.h"
#include "master/query/gather.h"
#include "master/query/machine_share.h"
#include "master/tables/cache.h"
#include "master/tables/tables.h"

#define ROWS_A_REPLY 8192

/* Sends one reply if everything fits in a frame. Else sends several; only the
 * last has the certificate. */
static void send_object_rows(struct query *q, struct arena *a,
                             Ips__LsAnswer answer)
{
    struct certificate c;
    certificate_fill(q, a, &c);
    certificate_set_category_and_source(q, a, &c, 2, "the slaves' tables");
    if (query_wants_windowed_tables(q))
        certificate_set_category_and_source(q, a, &c, 3,
                                            "the slaves' graphs, in a window");
    answer.certificate = &c.msg;
    while (answer.n_rows > ROWS_A_REPLY &&
           ips__ls_answer__get_packed_size(&answer) > QUERY_REPLY_BYTES) {
        Ips__LsAnswer piece = IPS__LS_ANSWER__INIT;
        Ips__Reply reply = IPS__REPLY__INIT;
        piece.n_rows = ROWS_A_REPLY;
        piece.rows = answer.rows;
        answer.n_rows -= ROWS_A_REPLY;
        answer.rows += ROWS_A_REPLY;
        reply.answer_case = IPS__REPLY__ANSWER_LS;
        reply.ls = &piece;
        query_send_partial_reply(q, &reply);
    }
    Ips__Reply reply = IPS__REPLY__INIT;
    reply.answer_case = IPS__REPLY__ANSWER_LS;
    reply.ls = &answer;
    query_answer(q, &reply);
}

/* Fields for which the client displays a different value at some levels, so the
 * master cannot sort by them. */
static const char *const shown_otherwise[] = {"name", "pid", "tid",
                                              "parent_pid", NULL};

static int choose_object_rows(const Ips__LsAsk *ask, const struct tables *t,
                              struct arena *a, Ips__LsAnswer *answer,
                              Ips__LeftOut *left)
{
    uint64_t *count = arena_alloc(a, SELECT_LEVELS * sizeof(*count));
    void **rows = arena_alloc(a, (t->object_count + 1) * sizeof(*rows));
    struct top_n s;
    size_t n = 0;
    for (size_t i = 0; rows && i < t->object_count; i++)
        if (ips_object_matches_pattern(ask->object, t->objects[i]->object))
            rows[n++] = t->objects[i];
    if (rows && count &&
        top_n_init(&s, ask->select, &ips__object_row__descriptor,
                   shown_otherwise, "cpu_ns")) {
        n = top_n_select_rows(&s, a, rows, n, &rows, count);
        ips__left_out__init(left);
        left->rows = count;
        left->n_rows = SELECT_LEVELS;
        answer->left_out = left;
    }
    answer->rows = (Ips__ObjectRow **)rows;
    answer->n_rows = n;
    return a->failed ? IPS_E_NO_MEMORY : 0;
}

static void make_and_send_object_rows(struct query *q)
{
    const Ips__LsAsk *ask = q->request->ls;
    Ips__LsAnswer answer = IPS__LS_ANSWER__INIT;
    Ips__LeftOut left;
    struct arena a = {0};
    struct ips_err err = {0};
    table_cache_store_if_cacheable(q);
    struct tables *t = table_cache_get_cached_or_new_tables(q);
    int rc = t ? tables_make_objects(t, q, &err) : IPS_E_NO_MEMORY;
    if (rc == 0)
        rc = choose_object_rows(ask, t, &a, &answer, &left);
    if (rc < 0 && !err.code)
        ips_err_set(&err, rc, "no memory");
    else if (rc == 0 && answer.n_rows == 0)
        gather_set_no_object_error(q, ask->object, &err);
    if (err.code)
        query_fail(q, &err);
    else
        send_object_rows(q, &a, answer);
    arena_release(&a);
    table_cache_free_tables_unless_cached(q, t);
}

static bool ls_answer_from_cache(struct query *q)
{
    if (!table_cache_lend_if_current(q, GATHER_TABLE))
        return false;
    make_and_send_object_rows(q);
    return true;
}

static void ls_start(struct query *q)
{
    gather_start(q, GATHER_TABLE, make_and_send_object_rows);
}

const struct query_kind query_ls = {.name = "ls",
                                    .exclusive = true,
                                    .at_once = ls_answer_from_cache,
                                    .start = ls_start,
                                    .release = gather_release};
