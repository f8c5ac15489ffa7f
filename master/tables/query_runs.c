/* The runs in the catalogue, newest first, and the missing machines. Category
 * 1 of IPS-9: the slaves are not asked. The only exception: if the question
 * may mean a run that has just started, the slaves look at their pools first.
 */
#include <stdio.h>
#include <string.h>

#include "common/types.h"
#include "master/base/arena.h"
#include "master/query/machine_share.h"
#include "master/query/query.h"

#define MAX_ROWS 10000

struct listing {
    struct query *q;
    struct arena a;
    Ips__RunsAnswer answer;
    size_t cap, machine_cap, missing_cap;
    /* the last run that was left out, because there were too many */
    char left_out[QUERY_RUN_BYTES];
};

static void append_text_to_array(struct arena *a, char ***list, size_t *count,
                                 size_t *cap, const char *text)
{
    if (arena_reserve_array_slot(a, list, *count, cap, sizeof(char *)))
        (*list)[(*count)++] = arena_printf(a, "%s", text);
}

static void add_tags(struct listing *l, Ips__RunRow *row, const char *tags)
{
    size_t cap = 0;
    while (*tags) {
        const char *end = strchr(tags, '\n');
        size_t len = end ? (size_t)(end - tags) : strlen(tags);
        if (len > 0)
            append_text_to_array(&l->a, &row->tags, &row->n_tags, &cap,
                                 arena_printf(&l->a, "%.*s", (int)len, tags));
        tags += len + (end != NULL);
    }
}

static Ips__RunRow *add_run_row(struct listing *l, const char *run)
{
    Ips__RunsAnswer *m = &l->answer;
    if (m->n_runs == MAX_ROWS ||
        !arena_reserve_array_slot(&l->a, &m->runs, m->n_runs, &l->cap,
                                  sizeof(*m->runs)))
        return NULL;
    Ips__RunRow *row = arena_alloc(&l->a, sizeof(*row));
    if (!row)
        return NULL;
    ips__run_row__init(row);
    row->run = arena_printf(&l->a, "%s", run);
    l->machine_cap = l->missing_cap = 0;
    m->runs[m->n_runs++] = row;
    return row;
}

static void merge_catalogue_row_into_runs(const struct catalogue_row *r,
                                          void *arg)
{
    struct listing *l = arg;
    Ips__RunsAnswer *m = &l->answer;
    Ips__RunRow *row = m->n_runs ? m->runs[m->n_runs - 1] : NULL;
    if (!row || strcmp(row->run, r->run) != 0)
        row = add_run_row(l, r->run);
    if (!row) {
        m->left_out += strcmp(l->left_out, r->run) != 0;
        snprintf(l->left_out, sizeof(l->left_out), "%s", r->run);
        return;
    }
    append_text_to_array(&l->a, &row->machines, &row->n_machines,
                         &l->machine_cap, r->machine);
    const struct slave *s = roster_find(&l->q->m->roster, r->machine);
    if (!s || !s->peer)
        append_text_to_array(&l->a, &row->missing, &row->n_missing,
                             &l->missing_cap, r->machine);
    /* The row of the machine on which the run's command started describes the
     * run; if there is none, the first row. */
    if (r->has_root || row->n_machines == 1)
        row->command = arena_printf(&l->a, "%s", r->command);
    if (r->has_root || row->n_tags == 0) {
        row->n_tags = 0;
        row->tags = NULL;
        add_tags(l, row, r->tags);
    }
    if (row->n_machines == 1 || r->created_real_ns < row->created_real_ns)
        row->created_real_ns = r->created_real_ns;
    row->open = row->open || r->open;
    row->processes += r->processes;
    row->threads += r->threads;
    row->events += r->events;
    row->lost += ips_add_sat(r->lost, r->torn);
}

static void answer_runs(struct query *q)
{
    struct listing l = {.q = q};
    struct ips_err err = {0};
    ips__runs_answer__init(&l.answer);
    int rc = catalogue_for_each_row(q->m->catalogue, *q->run ? q->run : NULL,
                                    merge_catalogue_row_into_runs, &l, &err);
    if (rc == 0 && l.a.failed)
        rc = ips_err_set(&err, IPS_E_NO_MEMORY, "no memory");
    if (rc < 0) {
        query_fail(q, &err);
    } else {
        Ips__Reply reply = IPS__REPLY__INIT;
        reply.answer_case = IPS__REPLY__ANSWER_RUNS;
        reply.runs = &l.answer;
        query_answer(q, &reply);
    }
    arena_release(&l.a);
}

/* The reply has nothing to store: the slave's report came before it, and the
 * catalogue has the report. */
static int ignore_look_reply(struct query *q, struct machine_share *p,
                             const Ips__Reply *reply, struct ips_err *err)
{
    (void)q;
    (void)p;
    (void)reply;
    (void)err;
    return 0;
}

static void runs_start(struct query *q)
{
    struct ips_err err = {0};
    if (!q->request->runs->look) {
        answer_runs(q);
        return;
    }
    if (machine_shares_list_connected_machines(q, &err) < 0) {
        query_fail(q, &err);
        return;
    }
    query_open_round(q, ignore_look_reply, answer_runs);
    for (uint32_t i = 0; i < q->machine_count; i++) {
        Ips__Request request = IPS__REQUEST__INIT;
        Ips__LookAsk look = IPS__LOOK_ASK__INIT;
        request.ask_case = IPS__REQUEST__ASK_LOOK;
        request.look = &look;
        query_send_request_to_slave(q, &q->machines[i], &request, true);
    }
    query_close_round(q);
}

const struct query_kind query_runs = {.name = "runs", .start = runs_start};
