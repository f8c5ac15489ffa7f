/*
 * Message times: measures them (calibrate/measure.c), and shows, imports,
 * exports and removes entries of their table (message_times.h). Category 1 of
 * IPS-9, except for measuring.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "master/base/arena.h"
#include "master/calibrate/calibrate.h"
#include "master/query/machine_share.h"

static void fail_calibrate(struct query *q, int code, const char *why)
{
    struct ips_err err = {0};
    ips_err_set(&err, code, "%s", why);
    query_fail(q, &err);
}

/* ---- sending the answer ------------------------------------------------- */

static void fill_message_time_row(struct arena *a,
                                  const struct message_time_pair *p,
                                  Ips__MessageTimeRow *row)
{
    ips__message_time_row__init(row);
    row->from = arena_printf(a, "%s", p->from);
    row->to = arena_printf(a, "%s", p->to);
    row->over = ips_unconst_text(message_time_transport_name(p->over));
    row->measured = arena_printf(a, "%s", p->measured);
    row->by = arena_printf(a, "%s", p->by);
    row->doubt = arena_printf(a, "%s", p->doubt);
    row->alpha_ns = p->curve.alpha_ns;
    row->beta_ns = (double)p->curve.beta_q32 / 4294967296.0;
    Ips__MessageTimePoint *points = arena_alloc(a, p->count * sizeof(*points));
    row->points = arena_alloc(a, p->count * sizeof(*row->points));
    for (uint32_t i = 0; i < p->count && points && row->points; i++) {
        ips__message_time_point__init(&points[i]);
        points[i].bytes = p->point[i].bytes;
        points[i].ns = p->point[i].ns;
        points[i].low_ns = p->point[i].low_ns;
        points[i].high_ns = p->point[i].high_ns;
        points[i].rounds = p->point[i].rounds;
        points[i].cpu_ns = p->point[i].cpu_ns;
        points[i].curve_ns =
            ips_curve_compute_message_ns(&p->curve, p->point[i].bytes);
        row->points[row->n_points++] = &points[i];
    }
}

void calibrate_send_answer(struct query *q, bool with_rows, char *text)
{
    const struct message_times *t = &q->m->message_times;
    struct arena a = {0};
    Ips__CalibrateAnswer out = IPS__CALIBRATE_ANSWER__INIT;
    Ips__MessageTimeRow *rows = arena_alloc(&a, t->count * sizeof(*rows) + 1);
    out.rows = arena_alloc(&a, t->count * sizeof(*out.rows) + 1);
    for (uint32_t i = 0; with_rows && i < t->count && rows && out.rows; i++) {
        fill_message_time_row(&a, t->pair[i], &rows[i]);
        out.rows[out.n_rows++] = &rows[i];
    }
    Ips__WakeRow *wakes = arena_alloc(&a, t->wake_count * sizeof(*wakes) + 1);
    out.wakes = arena_alloc(&a, t->wake_count * sizeof(*out.wakes) + 1);
    for (uint32_t i = 0; with_rows && i < t->wake_count && wakes && out.wakes;
         i++) {
        ips__wake_row__init(&wakes[i]);
        wakes[i].machine = arena_printf(&a, "%s", t->wake[i].machine);
        wakes[i].ns = t->wake[i].ns;
        wakes[i].measured = arena_printf(&a, "%s", t->wake[i].measured);
        wakes[i].by = arena_printf(&a, "%s", t->wake[i].by);
        out.wakes[out.n_wakes++] = &wakes[i];
    }
    if (text)
        out.text = text;
    out.file = arena_printf(&a, "%s", t->path);
    calibrate_fill_failures_and_progress(q, &out);
    if (a.failed) {
        fail_calibrate(q, IPS_E_NO_MEMORY, "no memory for the answer");
    } else {
        Ips__Reply reply = IPS__REPLY__INIT;
        reply.answer_case = IPS__REPLY__ANSWER_CALIBRATE;
        reply.calibrate = &out;
        query_answer(q, &reply);
    }
    arena_release(&a);
}

/* ---- actions that the question can ask for ------------------------------ */

/* Answers a request that changed the table of message times. `rc` 0: the change
 * was saved, so sends the rows. Else reports the error, and makes the next use
 * of the table read its file again. */
static void answer_table_change(struct query *q, int rc,
                                const struct ips_err *err)
{
    if (rc == 0) {
        calibrate_send_answer(q, true, NULL);
        return;
    }
    q->m->message_times.seen_inode = 0;
    query_fail(q, err);
}

static void import_table(struct query *q)
{
    const Ips__CalibrateAsk *ask = q->request->calibrate;
    struct message_times *t = &q->m->message_times, fresh = {0};
    struct ips_err err = {0};
    int rc = ask->replace ? 0 : message_times_reload_if_changed(t, &err);
    /* parse the text once into a scratch table, so that an error leaves the
     * real one unchanged */
    if (rc == 0)
        rc = message_times_parse(&fresh, "what is imported", ask->text, &err);
    if (rc == 0 && ask->replace)
        (void)message_times_remove_rows_of_machine_or_all(t, NULL);
    if (rc == 0)
        rc = message_times_parse(t, "what is imported", ask->text, &err);
    if (rc == 0)
        rc = message_times_save(t, &err);
    message_times_release(&fresh);
    answer_table_change(q, rc, &err);
}

static void remove_machine_times(struct query *q)
{
    const Ips__CalibrateAsk *ask = q->request->calibrate;
    struct message_times *t = &q->m->message_times;
    struct ips_err err = {0};
    int rc = 0;
    if (ask->n_machines == 0) {
        /* Removing everything also repairs a damaged file. */
        (void)message_times_remove_rows_of_machine_or_all(t, NULL);
    } else {
        rc = message_times_reload_if_changed(t, &err);
    }
    for (size_t i = 0; rc == 0 && i < ask->n_machines; i++) {
        if (message_times_remove_rows_of_machine_or_all(t, ask->machines[i]) ==
            0)
            rc = ips_err_set(&err, IPS_E_NOT_FOUND,
                             "machine %.80s: no times are known",
                             ask->machines[i]);
    }
    if (rc == 0)
        rc = message_times_save(t, &err);
    answer_table_change(q, rc, &err);
}

static void load_and_answer_with_table(struct query *q, bool as_text)
{
    struct ips_err err = {0};
    char *text = NULL;
    int rc = message_times_reload_if_changed(&q->m->message_times, &err);
    if (rc == 0 && as_text &&
        !(text = message_times_format_text(&q->m->message_times)))
        rc = ips_err_set(&err, IPS_E_NO_MEMORY, "no memory");
    if (rc < 0)
        query_fail(q, &err);
    else
        calibrate_send_answer(q, !as_text, text);
    free(text);
}

static void dispatch_calibrate_request(struct query *q)
{
    switch (q->request->calibrate->what) {
    case IPS__CALIBRATE_ASK__WHAT__SHOW:
        load_and_answer_with_table(q, false);
        return;
    case IPS__CALIBRATE_ASK__WHAT__EXPORT:
        load_and_answer_with_table(q, true);
        return;
    case IPS__CALIBRATE_ASK__WHAT__MEASURE:
        calibrate_measure(q);
        return;
    case IPS__CALIBRATE_ASK__WHAT__IMPORT:
        import_table(q);
        return;
    case IPS__CALIBRATE_ASK__WHAT__FORGET:
        remove_machine_times(q);
        return;
    case _IPS__CALIBRATE_ASK__WHAT_IS_INT_SIZE:
        break;
    }
    fail_calibrate(q, IPS_E_USAGE, "calibrate: unknown request");
}

const struct query_kind query_calibrate = {.name = "calibrate",
                                           .exclusive = true,
                                           .start = dispatch_calibrate_request,
                                           .release = calibrate_release};
