/* Prepares data before questions come; see serve/precompute.h. */
#include "slave/serve/precompute.h"

#include <stdlib.h>

#include "common/log.h"

struct precompute {
    struct slave_job
        job; /* must be the first member: see get_precompute_of_job */
    struct slave_snapshot *snap;
    /* queue of new records, if the run's tables are to be updated; else NULL */
    struct slave_record_queue *record_queue;
    /* true: unpack new records and continue the build of the graph */
    bool graph;
    uint64_t given_ns;
};

static struct precompute *get_precompute_of_job(struct slave_job *job)
{
    return (struct precompute *)(void *)job;
}

static void free_snapshot_of_precompute_job(struct slave_job *job,
                                            struct slave_graphs *gs)
{
    (void)gs;
    slave_snapshot_free(get_precompute_of_job(job)->snap);
}

/* ---- steps ---- */

static void update_live_tables_and_precompute(struct slave_job *job,
                                              struct slave_graphs *gs)
{
    const struct precompute *a = get_precompute_of_job(job);
    const struct slave_snapshot *s = a->snap;
    struct ips_err err = {0};
    if (a->record_queue && slave_live_tables_update_and_store_if_due(
                               gs, s, a->record_queue, &err) < 0)
        ips_log_debug("run %s: not followed: %s", s->run, err.msg);
    if (a->record_queue &&
        /* there are no tables, so nothing will read the queue */
        !gs->live_tables.tables)
        slave_record_queue_clear(a->record_queue);
    if (!a->graph)
        return;
    if (slave_graphs_advance_incremental_build(gs, s, &err) < 0)
        ips_log_debug("run %s: not unpacked yet: %s", s->run, err.msg);
    else
        ips_log_debug("run %s: unpacked up to byte %llu", s->run,
                      (unsigned long long)s->archive_bytes);
}

static void build_graph_of_closed_run(struct slave_job *job,
                                      struct slave_graphs *gs)
{
    struct slave_snapshot *s = get_precompute_of_job(job)->snap;
    struct slave_graph *g;
    struct ips_err err = {0};
    /* slave_graphs_get_or_build takes ownership of the snapshot */
    get_precompute_of_job(job)->snap = NULL;
    if (slave_graphs_get_or_build(gs, s, &g, &err) < 0) {
        /* only logged: a question will report the error */
        ips_log_debug("not built yet: %s", err.msg);
    } else {
        ips_log_debug("run %s: its graph is there before it was asked for",
                      g->snap->run);
        slave_graphs_release_graph_and_evict(gs, g);
    }
}

static void write_graph_files_in_job(struct slave_job *job,
                                     struct slave_graphs *gs)
{
    (void)job;
    slave_graphs_write_pending_files(gs);
}

/* ---- functions of the event loop ---- */

static bool was_asked_about_recently(const struct slave_run *run,
                                     uint64_t now_ns)
{
    return now_ns - run->asked_ns < SLAVE_PRECOMPUTE_GRAPH_NS;
}

static bool start_precompute_job(struct slave_serve *v, struct slave_run *run,
                                 void (*step)(struct slave_job *,
                                              struct slave_graphs *))
{
    struct ips_err err = {0};
    struct precompute *a = calloc(1, sizeof(*a));
    if (a && run)
        a->snap = slave_serve_copy_or_read_snapshot(v->s, run, &err);
    if (!a || (run && !a->snap)) {
        free(a);
        return false;
    }
    a->given_ns = slave_now_ns();
    if (run && run->record_queue) {
        a->record_queue = run->record_queue;
        slave_record_queue_seal_last_batch(a->record_queue);
    }
    a->graph = run && was_asked_about_recently(run, a->given_ns);
    a->job.step = step;
    a->job.release = free_snapshot_of_precompute_job;
    a->job.run = run;
    if (run)
        run->pins++;
    v->precompute = &a->job;
    slave_work_enqueue(v->s->work, &a->job);
    return true;
}

static bool start_precompute_job_if_due(struct slave_serve *v,
                                        struct slave_run *run)
{
    if (!run->row.id)
        return false;
    if (run->in_pool) {
        uint64_t now = slave_now_ns();
        run->was_open = true;
        if (!slave_precompute_is_due(run, now) ||
            (!run->record_queue && !was_asked_about_recently(run, now)))
            return false;
        run->precomputed_bytes = run->row.archive_bytes;
        return start_precompute_job(v, run, update_live_tables_and_precompute);
    }
    if (!run->was_open || !run->row.closed)
        return false;
    run->was_open = false;
    return run->row.events >= SLAVE_PRECOMPUTE_EVENTS &&
           start_precompute_job(v, run, build_graph_of_closed_run);
}

bool slave_precompute_is_due(const struct slave_run *run, uint64_t now_ns)
{
    uint64_t news = run->row.archive_bytes - run->precomputed_bytes;
    return run->asked_ns && (news >= SLAVE_PRECOMPUTE_BYTES ||
                             (news > 0 && now_ns >= run->precompute_ns));
}

/* Selects the open run asked about last for the live tables: the drain then
 * puts only that run's new records into the queue.
 */
static void choose_live_tables_run(struct slave_serve *v)
{
    struct slave_run *best = NULL;
    for (struct slave_run *r = v->s->drain.runs; r; r = r->next)
        if (r->in_pool && r->asked_ns && r->row.id &&
            (!best || r->asked_ns > best->asked_ns))
            best = r;
    if (!v->s->record_queue && best)
        v->s->record_queue = slave_record_queue_new(SLAVE_HANDOVER_ROOMS);
    int64_t id = best ? best->row.id : 0;
    if (v->s->record_queue && id != v->live_run)
        slave_record_queue_clear(v->s->record_queue);
    v->live_run = id;
    for (struct slave_run *r = v->s->drain.runs; r; r = r->next)
        r->record_queue = r == best ? v->s->record_queue : NULL;
}

void slave_precompute_start_next_job(struct slave_serve *v)
{
    if (!v->s->opt.is_private)
        choose_live_tables_run(v);
    if (v->s->opt.is_private || v->precompute || v->tasks || v->syncs)
        return;
    for (struct slave_run *r = v->s->drain.runs; r && !v->precompute;
         r = r->next)
        if (start_precompute_job_if_due(v, r))
            return;
    if (v->needs_write &&
        slave_now_ns() - v->s->busy_ns >= SLAVE_PRECOMPUTE_WRITE_NS) {
        v->needs_write = false;
        (void)start_precompute_job(v, NULL, write_graph_files_in_job);
    }
}

bool slave_release_job_if_precompute(struct slave_serve *v,
                                     struct slave_job *job)
{
    if (job != v->precompute)
        return false;
    v->precompute = NULL;
    if (job->run) {
        uint64_t now = slave_now_ns(),
                 took = now - get_precompute_of_job(job)->given_ns;
        job->run->pins--;
        job->run->precompute_ns =
            now +
            ips_max_u64(SLAVE_PRECOMPUTE_NS, took * SLAVE_PRECOMPUTE_SHARE);
    }
    slave_work_enqueue_job_for_release(v->s->work, job);
    return true;
}
