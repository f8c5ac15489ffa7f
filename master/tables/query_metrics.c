/*
 * Table 2 of the paper. The rows of the run and its machines come from the
 * master's own table (category 1 of IPS-9) in three cases: the run is closed
 * and has not changed since that table was made; it is open and so large that
 * computing would take long (refresh.h keeps the table up to date, and the
 * answer gives its age); or no slave of the run is connected any more.
 * Otherwise they come from the slaves' tables (category 2).
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/log.h"
#include "common/types.h"
#include "master/query/certificate.h"
#include "master/query/gather.h"
#include "master/query/machine_share.h"
#include "master/query/self_check.h"
#include "master/tables/cache.h"
#include "master/tables/metrics.h"
#include "master/tables/refresh.h"
#include "master/tables/summary.h"
#include "master/tables/tables.h"

#define ROWS_A_REPLY 4096
/* An open run with at least so many events is answered from the master's own
 * table, however old that is; for a smaller one the rows are computed. */
#define OPEN_EVENTS 200000u

/* Sends one reply if everything fits in a frame. Else sends several with only
 * rows; the last one also has everything else. */
static void send_answer(struct query *q, const Ips__MetricsAnswer *answer)
{
    Ips__MetricsAnswer rest = *answer;
    while (rest.n_rows > ROWS_A_REPLY &&
           ips__metrics_answer__get_packed_size(&rest) > QUERY_REPLY_BYTES) {
        Ips__MetricsAnswer piece = IPS__METRICS_ANSWER__INIT;
        Ips__Reply reply = IPS__REPLY__INIT;
        piece.rows = rest.rows;
        piece.n_rows = ROWS_A_REPLY;
        rest.rows += ROWS_A_REPLY;
        rest.n_rows -= ROWS_A_REPLY;
        reply.answer_case = IPS__REPLY__ANSWER_METRICS;
        reply.metrics = &piece;
        query_send_partial_reply(q, &reply);
    }
    Ips__Reply reply = IPS__REPLY__INIT;
    reply.answer_case = IPS__REPLY__ANSWER_METRICS;
    reply.metrics = &rest;
    query_answer(q, &reply);
}

/* Whether only the run and its machines are requested: the rows of the master's
 * own table. */
static bool asks_for_summary(const struct query *q)
{
    const Ips__MetricsAsk *ask = q->request->metrics;
    return !query_wants_windowed_tables(q) &&
           (*ask->object == '\0' || strcmp(ask->object, "/") == 0) &&
           *ask->level == '\0';
}

static void answer_and_store_summary(struct query *q)
{
    struct ips_err err = {0}, db = {0};
    struct summary s;
    int rc = summary_make(q, &s, &err);
    if (rc == 0)
        self_check_metrics(&s.a, &s.certificate, &s.answer);
    if (rc == 0 && summary_store_unless_machines_missing(q, &s, &db) < 0)
        ips_log_warn("%s", db.msg);
    if (rc == 0) {
        certificate_set_category_and_source(q, &s.a, &s.certificate, 2,
                                            "the slaves' tables");
        send_answer(q, &s.answer);
    } else {
        query_fail(q, &err);
    }
    summary_release(&s);
}

/* If the rows of all objects can be cached, makes them all and selects the
 * requested ones. For a run with too many objects makes only the requested
 * rows. */
static int make_metrics_answer_rows(struct query *q, struct tables *t,
                                    struct arena *a, Ips__MetricsAnswer *answer,
                                    Ips__LeftOut *left, uint64_t *cut,
                                    struct ips_err *err)
{
    const Ips__MetricsAsk *ask = q->request->metrics;
    const struct gather *g = &q->gather;
    if (!tables_have_few_enough_objects(q) && !query_wants_windowed_tables(q))
        return metrics_make_rows_and_matrices(
            g->active, g->count, query_is_missing_a_machine(q), ask->object,
            ask->level, a, answer, cut, err);
    int rc = tables_make_metrics(t, q, err);
    if (rc == 0)
        rc = tables_copy_requested_metrics(t, ask->object, ask->level, a,
                                           answer, err);
    if (rc < 0)
        return rc;
    tables_cut_metrics_to_top(ask->select, a, answer, left);
    *cut = tables_cut_metrics_to_limits(a, answer);
    return a->failed ? ips_err_set(err, IPS_E_NO_MEMORY, "no memory") : 0;
}

static void answer_with_metrics_rows(struct query *q, struct tables *t)
{
    struct arena a = {0};
    struct ips_err err = {0};
    struct certificate c;
    uint64_t cut = 0;
    Ips__LeftOut left;
    Ips__MetricsAnswer answer = IPS__METRICS_ANSWER__INIT;
    int rc = make_metrics_answer_rows(q, t, &a, &answer, &left, &cut, &err);
    if (rc == IPS_E_NOT_FOUND)
        gather_set_no_object_error(q, q->request->metrics->object, &err);
    if (rc < 0) {
        query_fail(q, &err);
        arena_release(&a);
        return;
    }
    certificate_fill(q, &a, &c);
    certificate_set_category_and_source(q, &a, &c, 2, "the slaves' tables");
    if (query_wants_windowed_tables(q))
        certificate_set_category_and_source(q, &a, &c, 3,
                                            "the slaves' graphs, in a window");
    else
        self_check_metrics(&a, &c, &answer);
    answer.certificate = &c.msg;
    if (cut > 0) {
        certificate_add_gap_and_mark_incomplete(
            &a, &c,
            arena_printf(&a,
                         "%" PRIu64 " rows were left out: ask "
                         "about one machine or process",
                         cut));
    }
    send_answer(q, &answer);
    arena_release(&a);
}

static void cache_tables_and_answer_metrics(struct query *q)
{
    struct ips_err err = {0};
    if (asks_for_summary(q)) {
        answer_and_store_summary(q);
        table_cache_store_if_cacheable(q);
        return;
    }
    table_cache_store_if_cacheable(q);
    struct tables *t = table_cache_get_cached_or_new_tables(q);
    if (t) {
        answer_with_metrics_rows(q, t);
    } else {
        ips_err_set(&err, IPS_E_NO_MEMORY, "no memory");
        query_fail(q, &err);
    }
    table_cache_free_tables_unless_cached(q, t);
}

static void send_stored_results(struct query *q, const Ips__MetricsAnswer *kept,
                                const struct catalogue_run_sum *k,
                                uint64_t events, bool nobody)
{
    struct arena a = {0};
    struct certificate c = {.msg = *kept->certificate};
    Ips__MetricsAnswer answer = *kept;
    /* These lists move to the arena, because there they can grow. */
    c.msg.notes = c.msg.details = c.msg.gaps = NULL;
    c.msg.n_notes = c.msg.n_details = c.msg.n_gaps = 0;
    for (size_t i = 0; i < kept->certificate->n_gaps; i++)
        certificate_add_gap_and_mark_incomplete(&a, &c,
                                                kept->certificate->gaps[i]);
    for (size_t i = 0; i < kept->certificate->n_notes; i++)
        certificate_add_note(&a, &c, kept->certificate->notes[i]);
    for (size_t i = 0; i < kept->certificate->n_details; i++)
        certificate_add_detail(&a, &c, kept->certificate->details[i]);
    certificate_set_category_and_source(q, &a, &c, 1, "the master's own table");
    if (nobody) {
        certificate_add_gap_and_mark_incomplete(
            &a, &c,
            "no slave of this run is connected, and more was "
            "recorded since this was computed");
    } else if (k->open) {
        certificate_add_note(&a, &c,
                             arena_printf(&a,
                                          "the run goes on: as of %" PRIu64
                                          " of %" PRIu64 " events",
                                          events, k->events));
    }
    answer.certificate = &c.msg;
    send_answer(q, &answer);
    arena_release(&a);
}

/* Answers from the master's own table if that is up to date. `nobody`: no slave
 * of the run is connected, so any table is better than none. Returns whether it
 * has answered. */
static bool answer_from_stored_results_if_usable(struct query *q, bool nobody)
{
    struct catalogue_run_sum k = {0};
    uint64_t events = 0;
    struct ips_err err = {0};
    if (!asks_for_summary(q) ||
        catalogue_sum_run(q->m->catalogue, q->run, &k, &err) < 0)
        return false;
    Ips__MetricsAnswer *kept =
        catalogue_load_metrics_answer(q->m->catalogue, q->run, &events);
    if (!kept)
        return false;
    bool usable = kept->certificate != NULL;
    bool current =
        k.open ? q->m->refresh_ns && k.events >= OPEN_EVENTS &&
                     k.events <= REFRESH_EVENTS_MOST
               : events == k.events && usable && kept->certificate->complete;
    if (usable && (current || nobody))
        send_stored_results(q, kept, &k, events, !current);
    ips__metrics_answer__free_unpacked(kept, NULL);
    return usable && (current || nobody);
}

static bool metrics_answer_from_cache(struct query *q)
{
    if (answer_from_stored_results_if_usable(q, false))
        return true;
    if (!table_cache_lend_if_current(q, GATHER_TABLE | GATHER_PEERS))
        return false;
    cache_tables_and_answer_metrics(q);
    return true;
}

static void metrics_start(struct query *q)
{
    if (query_count_active_machines(q) > 0 ||
        !answer_from_stored_results_if_usable(q, true))
        gather_start(q, GATHER_TABLE | GATHER_PEERS,
                     cache_tables_and_answer_metrics);
}

const struct query_kind query_metrics = {.name = "metrics",
                                         .exclusive = true,
                                         .at_once = metrics_answer_from_cache,
                                         .start = metrics_start,
                                         .release = gather_release};
