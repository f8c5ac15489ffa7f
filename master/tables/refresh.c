#include "master/tables/refresh.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/types.h"
#include "master/query/answer_cache.h"
#include "master/query/gather.h"
#include "master/tables/cache.h"
#include "master/tables/summary.h"
#include "master/tables/tables.h"

struct refresh {
    struct refresh *next;
    char run[QUERY_RUN_BYTES];
    bool busy;
    bool was_open; /* the run was open at the last refresh */
    uint64_t events;
    uint64_t begun_ns, next_ns;
};

static struct refresh *find_refresh(struct master *m, const char *run)
{
    struct refresh *r = m->refreshes;
    while (r && strcmp(r->run, run) != 0)
        r = r->next;
    return r;
}

static void add_refresh(struct master *m, const char *run)
{
    uint32_t count = 0;
    for (struct refresh *r = m->refreshes; r; r = r->next)
        count++;
    struct refresh *r = NULL;
    if (count < REFRESH_RUNS_MOST && strlen(run) < QUERY_RUN_BYTES)
        r = calloc(1, sizeof(*r));
    if (!r)
        /* no memory, or too many runs: the rows are computed when a question
         * asks for them */
        return;
    snprintf(r->run, sizeof(r->run), "%s", run);
    r->events = UINT64_MAX;
    r->next = m->refreshes;
    m->refreshes = r;
}

void refresh_add_open_runs_of_report(struct master *m,
                                     const Ips__Report *report)
{
    for (size_t i = 0; m->refresh_ns && i < report->n_runs; i++) {
        const Ips__RunState *s = report->runs[i];
        if (s->open && ips_is_valid_run_name(s->run) &&
            !find_refresh(m, s->run))
            add_refresh(m, s->run);
    }
}

/* ---- one refresh ------------------------------------------------------ */

/* For a closed run: caches the tables and makes their rows, so that the first
 * question need not. */
static void cache_tables_and_rows(struct query *q)
{
    struct ips_err err = {0};
    table_cache_store_if_cacheable(q);
    if (!q->table_cache || !tables_have_few_enough_objects(q))
        return;
    struct tables *t = table_cache_get_cached_or_new_tables(q);
    if (t && (tables_make_objects(t, q, &err) < 0 ||
              tables_make_metrics(t, q, &err) < 0))
        ips_log_info("run %s: cannot make table rows: %s", q->run, err.msg);
    table_cache_free_tables_unless_cached(q, t);
}

static void store_summary_and_put_tables_in_cache(struct query *q)
{
    struct ips_err err = {0};
    struct summary s;
    struct refresh *r = find_refresh(q->m, q->run);
    int rc = summary_make(q, &s, &err);
    if (rc == 0)
        rc = summary_store_unless_machines_missing(q, &s, &err);
    if (rc < 0)
        ips_log_info("run %s: cannot refresh its tables: %s", q->run, err.msg);
    if (rc == 0 && r) {
        r->events = s.certificate.msg.events;
        r->was_open = certificate_run_is_open(q);
    }
    summary_release(&s);
    cache_tables_and_rows(q);
    Ips__Reply reply = IPS__REPLY__INIT;
    query_answer(q, &reply); /* ends the question, which has no client */
}

static void start_refresh(struct query *q)
{
    struct refresh *r = find_refresh(q->m, q->run);
    if (r)
        r->begun_ns = master_now_ns();
    gather_start(q, GATHER_TABLE | GATHER_PEERS,
                 store_summary_and_put_tables_in_cache);
}

static void release_refresh_and_schedule_next(struct query *q)
{
    struct refresh *r = find_refresh(q->m, q->run);
    uint64_t now = master_now_ns();
    if (r && q->over) {
        r->busy = false;
        r->next_ns = ips_add_sat(
            now, ips_max_u64(q->m->refresh_ns,
                             REFRESH_TIMES * ips_sub_sat(now, r->begun_ns)));
    }
    gather_release(q);
}

static const struct query_kind query_refresh = {
    .name = "refresh",
    .exclusive = true,
    .start = start_refresh,
    .release = release_refresh_and_schedule_next};

/* ---- choosing the run to refresh -------------------------------------- */

static bool is_run_asked_about(const struct master *m, const char *run)
{
    for (const struct query *q = m->queries; q; q = q->next)
        if (!q->over && strcmp(q->run, run) == 0)
            return true;
    return false;
}

static bool is_refresh_running(const struct master *m)
{
    for (const struct refresh *r = m->refreshes; r; r = r->next)
        if (r->busy)
            return true;
    return false;
}

void refresh_start_due_or_precompute_closed_run(struct master *m)
{
    uint64_t now = master_now_ns();
    struct refresh **at = &m->refreshes;
    bool free_now = m->refresh_ns && !m->stopping && !is_refresh_running(m);
    while (*at && free_now) {
        struct refresh *r = *at;
        struct catalogue_run_sum k = {0};
        struct ips_err err = {0};
        if (r->next_ns > now || is_run_asked_about(m, r->run) ||
            catalogue_sum_run(m->catalogue, r->run, &k, &err) < 0) {
            at = &r->next;
            continue;
        }
        bool large = k.events > REFRESH_EVENTS_MOST;
        bool done = r->events == k.events && r->was_open == k.open;
        if ((done || large) && !k.open) {
            *at = r->next;
            answer_cache_start_path_precomputation(m, r->run);
            free(r);
            return;
        }
        at = &r->next;
        if (!done && !large) {
            Ips__Request request = IPS__REQUEST__INIT;
            request.run = r->run;
            r->busy = query_start_internal(m, &query_refresh, &request);
            free_now = false;
        }
    }
}

void refresh_release(struct master *m)
{
    while (m->refreshes) {
        struct refresh *r = m->refreshes;
        m->refreshes = r->next;
        free(r);
    }
}
