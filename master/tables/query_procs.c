/*
 * The CPU time of procedures, from the slaves, which have the samples and the
 * binaries. The master merges the rows over machines and, unless the client
 * wants them by process, over processes. Category 2 of IPS-9.
 *
 * The interval of a sampled share is Wilson's 95% interval of p = self/sampled.
 * The sample size is Kish's effective number of samples, (sum of weights)^2 /
 * sum of their squares. The result is scaled to the sampled CPU time. For equal
 * weights this is the usual interval of n out of N; it is wider if few samples
 * have large weights.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/types.h"
#include "master/base/top_n.h"
#include "master/query/certificate.h"
#include "master/query/gather.h"
#include "master/query/machine_share.h"
#include "master/tables/cache.h"
#include "master/tables/procs.h"

#define ROWS_A_REPLY 2048

struct procedures_data {
    size_t count;
    Ips__ProcedureTotals totals;
};

struct machine_procedures { /* the procedures of one machine */
    /* point into messages kept by query_keep_message() */
    Ips__ProcedureRow **rows;
    uint32_t count;
    const Ips__ProcedureTotals *totals;
};

static void release_procs(struct query *q)
{
    for (uint32_t i = 0; i < q->machine_count; i++) {
        struct machine_procedures *t = q->machines[i].own;
        if (t)
            free(t->rows);
        free(t);
        q->machines[i].own = NULL;
    }
    free(q->data);
    q->data = NULL;
    gather_release(q);
}

static void fail_no_memory(struct query *q)
{
    struct ips_err err = {0};
    ips_err_set(&err, IPS_E_NO_MEMORY, "no memory");
    query_fail(q, &err);
}

/* ---- the answer ---- */

static void add_sample_notes(const struct query *q, struct arena *a,
                             struct certificate *c)
{
    const Ips__ProcedureTotals *t =
        &((struct procedures_data *)q->data)->totals;
    if (t->samples > 0)
        certificate_add_detail(
            a, c,
            arena_printf(
                a,
                "%" PRIu64
                " samples, one every %.2f ms of CPU (requested: %.2f ms)",
                t->samples,
                (double)ips_sub_sat(t->sampled_ns, t->exact_ns) / 1e6 /
                    (double)t->samples,
                (double)t->asked_ns / 1e6 / (double)t->samples));
    if (t->unsampled_ns > 0 && t->cpu_ns > 0)
        certificate_add_detail(
            a, c,
            arena_printf(a, "%.1f%% of the CPU time has no sample: [unsampled]",
                         100.0 * (double)t->unsampled_ns / (double)t->cpu_ns));
}

/* Sends one reply if everything fits in a frame. Else sends several with only
 * rows; the last also has certificate and totals. */
static void send_procedures_answer(struct query *q, struct arena *arena,
                                   Ips__ProcedureRow **rows, size_t count)
{
    struct procedures_data *a = q->data;
    struct certificate c;
    Ips__ProceduresAnswer answer = IPS__PROCEDURES_ANSWER__INIT;
    certificate_fill(q, arena, &c);
    add_sample_notes(q, arena, &c);
    certificate_set_category_and_source(q, arena, &c, 2,
                                        "the slaves' procedures");
    answer.certificate = &c.msg;
    answer.totals = &a->totals;
    answer.rows = rows;
    answer.n_rows = count;
    while (answer.n_rows > ROWS_A_REPLY &&
           ips__procedures_answer__get_packed_size(&answer) >
               QUERY_REPLY_BYTES) {
        Ips__ProceduresAnswer piece = IPS__PROCEDURES_ANSWER__INIT;
        Ips__Reply reply = IPS__REPLY__INIT;
        piece.rows = answer.rows;
        piece.n_rows = ROWS_A_REPLY;
        answer.rows += ROWS_A_REPLY;
        answer.n_rows -= ROWS_A_REPLY;
        reply.answer_case = IPS__REPLY__ANSWER_PROCEDURES;
        reply.procedures = &piece;
        query_send_partial_reply(q, &reply);
    }
    Ips__Reply reply = IPS__REPLY__INIT;
    reply.answer_case = IPS__REPLY__ANSWER_PROCEDURES;
    reply.procedures = &answer;
    query_answer(q, &reply);
}

/* If there is nothing to show, fails the question with the reason and what to
 * do, and returns true. Returns false if there are rows. */
static bool fail_if_no_procedures(struct query *q)
{
    const struct procedures_data *a = q->data;
    const Ips__ProceduresAsk *ask = q->request->procedures;
    const char *object = ask->object;
    bool windowed = ask->from_ns || ask->to_ns;
    char missing[800], none[PROCS_NONE_BYTES];
    bool whole = *object == '\0' || strcmp(object, "/") == 0;
    struct ips_err err = {0};
    gather_write_missing_machines(q, missing, sizeof(missing));
    procs_explain_missing_procedures(gather_max_sample_period_ns(q), none);
    if (a->totals.threads == 0)
        gather_set_no_object_error(q, object, &err);
    else if (a->count == 0)
        ips_err_set(&err, *missing ? IPS_E_INCOMPLETE : IPS_E_NOT_FOUND,
                    "no procedures in run %s%s%s%s: %s%s%s", q->run,
                    whole ? "" : ", ", whole ? "" : object,
                    windowed ? ", in that window" : "", none,
                    *missing ? "; not asked: " : "", missing);
    if (err.code)
        query_fail(q, &err);
    return err.code != 0;
}

/* Reduces the sorted rows to those that the client shows; returns their number.
 */
static size_t select_shown_rows(const Ips__ProceduresAsk *ask,
                                struct arena *arena, Ips__ProcedureRow ***rows,
                                size_t count)
{
    uint64_t left_out[SELECT_LEVELS] = {0};
    struct top_n s;
    void **list;
    if (!top_n_init(&s, ask->select, &ips__procedure_row__descriptor, NULL,
                    "self_ns"))
        return ask->top && ask->top < count ? (size_t)ask->top : count;
    count = top_n_select_rows(&s, arena, (void *const *)*rows, count, &list,
                              left_out);
    *rows = (Ips__ProcedureRow **)(void *)list;
    return count;
}

static void merge_and_send_procedure_rows(struct query *q)
{
    struct procedures_data *a = q->data;
    const Ips__ProceduresAsk *ask = q->request->procedures;
    struct arena arena = {0};
    size_t count = 0;
    bool by_process = strcmp(ask->by, "process") == 0;
    bool by_machine = strcmp(ask->by, "machine") == 0;
    if (fail_if_no_procedures(q))
        return;
    Ips__ProcedureRow **rows =
        arena_alloc(&arena, (a->count + 1) * sizeof(*rows));
    for (uint32_t p = 0; rows && p < q->gather.count; p++) {
        const struct machine_procedures *t = q->gather.active[p]->own;
        for (uint32_t i = 0; t && i < t->count; i++) {
            char object[OBJECT_BYTES];
            Ips__ProcedureRow *r = arena_alloc(&arena, sizeof(*r));
            if (!r)
                break;
            *r = *t->rows[i];
            r->object = ips_unconst_text("");
            if (by_process) {
                machine_share_write_process_object_name(q->gather.active[p],
                                                        r->process, object);
                r->object = arena_printf(&arena, "%s", object);
            } else if (by_machine) {
                r->object =
                    arena_printf(&arena, "/%s", q->gather.active[p]->machine);
            }
            rows[count++] = r;
        }
    }
    if (arena.failed || !rows) {
        fail_no_memory(q);
    } else {
        count = procs_merge(rows, count);
        procs_compute_intervals(rows, count, &a->totals);
        a->totals.rows = count;
        count = select_shown_rows(ask, &arena, &rows, count);
        if (arena.failed)
            fail_no_memory(q);
        else
            send_procedures_answer(q, &arena, rows, count);
    }
    arena_release(&arena);
}

/* ---- requests to the slaves ---- */

static int append_received_procedure_rows(struct query *q,
                                          struct machine_share *p,
                                          const Ips__Reply *reply,
                                          struct ips_err *err)
{
    struct machine_procedures *t = p->own;
    if (reply->answer_case != IPS__REPLY__ANSWER_PROCEDURES ||
        (reply->last && !reply->procedures->totals))
        return ips_err_set(err, IPS_E_PROTOCOL, "no answer to ProceduresAsk");
    const Ips__ProceduresAnswer *r = reply->procedures;
    for (size_t i = 0; i < r->n_rows; i++)
        if (r->rows[i]->process >= p->t.proc_count)
            return ips_err_set(err, IPS_E_PROTOCOL,
                               "procedure row %zu names no process", i);
    if (!query_keep_message(q, p) ||
        !machine_share_append_rows(&t->rows, &t->count, (void *const *)r->rows,
                                   r->n_rows))
        return ips_err_set(err, IPS_E_LIMIT, "its tables are too large");
    if (reply->last)
        t->totals = r->totals;
    return 0;
}

/* Adds up the totals in the order of machines, because sums of fractions depend
 * on the order; then answers. */
static void sum_procedure_totals_and_answer(struct query *q)
{
    struct procedures_data *a = q->data;
    for (uint32_t i = 0; i < q->gather.count; i++) {
        const struct machine_procedures *t = q->gather.active[i]->own;
        if (!t)
            continue;
        a->count += t->count;
        if (t->totals)
            procs_add_up_totals(&a->totals, t->totals);
    }
    merge_and_send_procedure_rows(q);
}

static void ask_procedures_of_machine(struct query *q, struct machine_share *p)
{
    const Ips__ProceduresAsk *asked = q->request->procedures;
    Ips__ProceduresAsk ask = IPS__PROCEDURES_ASK__INIT;
    Ips__Request request = IPS__REQUEST__INIT;
    ask.object = asked->object;
    ask.by = asked->by;
    ask.machine = p->machine;
    ask.from_ns = asked->from_ns;
    ask.to_ns = asked->to_ns;
    query_get_machine_window(q, p, &ask.from_ns, &ask.to_ns);
    ask.generation = p->sync->generation;
    request.ask_case = IPS__REQUEST__ASK_PROCEDURES;
    request.procedures = &ask;
    query_send_request_to_slave(q, p, &request, true);
}

static void ask_matching_machines_for_procedures(struct query *q)
{
    query_open_round(q, append_received_procedure_rows,
                     sum_procedure_totals_and_answer);
    for (uint32_t i = 0; i < q->gather.count; i++) {
        struct machine_share *p = q->gather.active[i];
        if (!machine_share_machine_matches_object(
                p->machine, q->request->procedures->object))
            continue;
        p->own = calloc(1, sizeof(struct machine_procedures));
        if (!p->own) {
            fail_no_memory(q);
            return;
        }
        ask_procedures_of_machine(q, p);
    }
    query_close_round(q);
}

static void start_procs(struct query *q)
{
    struct procedures_data *a = calloc(1, sizeof(*a));
    const Ips__ProceduresAsk *ask = q->request->procedures;
    struct ips_err err = {0};
    if (!a) {
        fail_no_memory(q);
        return;
    }
    if (ask->to_ns && ask->from_ns >= ask->to_ns) {
        free(a);
        ips_err_set(&err, IPS_E_USAGE, "the window is empty");
        query_fail(q, &err);
        return;
    }
    ips__procedure_totals__init(&a->totals);
    q->data = a;
    table_cache_lend_or_gather(q, GATHER_TABLE,
                               ask_matching_machines_for_procedures);
}

const struct query_kind query_procedures = {.name = "procedures",
                                            .exclusive = true,
                                            .start = start_procs,
                                            .release = release_procs};
