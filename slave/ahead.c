/* Work before the question; see ahead.h. */
#include "slave/ahead.h"

#include <stdlib.h>

#include "common/log.h"

struct ahead {
    struct slave_job job; /* first */
    struct slave_snapshot *snap;
};

static struct ahead *ahead_of(struct slave_job *job)
{
    return (struct ahead *)(void *)job;
}

static void release(struct slave_job *job, struct slave_graphs *gs)
{
    (void)gs;
    slave_snapshot_free(ahead_of(job)->snap);
}

/* ---- steps ---- */

static void step_unpack(struct slave_job *job, struct slave_graphs *gs)
{
    const struct slave_snapshot *s = ahead_of(job)->snap;
    struct ips_err err = {0};
    if (slave_graphs_ahead(gs, s, &err) < 0)
        ips_log_debug("run %s: not unpacked yet: %s", s->run, err.msg);
    else
        ips_log_debug("run %s: unpacked up to byte %llu", s->run,
                      (unsigned long long)s->archive_bytes);
}

static void step_build(struct slave_job *job, struct slave_graphs *gs)
{
    struct slave_snapshot *s = ahead_of(job)->snap;
    struct slave_graph *g;
    struct ips_err err = {0};
    ahead_of(job)->snap = NULL; /* taken */
    if (slave_graphs_get(gs, s, &g, &err) < 0) {
        ips_log_debug("not built yet: %s", err.msg); /* who asks is told */
    } else {
        ips_log_debug("run %s: its graph is there before it was asked for",
                      g->snap->run);
        slave_graphs_put(gs, g);
    }
}

static void step_keep(struct slave_job *job, struct slave_graphs *gs)
{
    (void)job;
    slave_graphs_keep(gs);
}

/* ---- the loop's side ---- */

static bool give(struct slave_serve *v, struct slave_run *run,
                 void (*step)(struct slave_job *, struct slave_graphs *))
{
    struct ips_err err = {0};
    struct ahead *a = calloc(1, sizeof(*a));
    if (a && run)
        a->snap = slave_serve_snapshot(v->s, run, &err);
    if (!a || (run && !a->snap)) {
        free(a);
        return false;
    }
    a->job.step = step;
    a->job.release = release;
    a->job.run = run;
    if (run)
        run->pins++;
    v->ahead = &a->job;
    slave_work_give(v->s->work, &a->job);
    return true;
}

static bool of_run(struct slave_serve *v, struct slave_run *run)
{
    if (!run->row.id)
        return false;
    if (run->in_pool) {
        run->was_open = true;
        if (!run->asked ||
            run->row.archive_bytes - run->ahead_bytes < SLAVE_AHEAD_BYTES)
            return false;
        run->ahead_bytes = run->row.archive_bytes;
        return give(v, run, step_unpack);
    }
    if (!run->was_open || !run->row.closed)
        return false;
    run->was_open = false;
    return run->row.events >= SLAVE_AHEAD_EVENTS && give(v, run, step_build);
}

void slave_ahead_turn(struct slave_serve *v)
{
    if (v->s->opt.is_private || v->ahead || v->tasks || v->syncs)
        return;
    for (struct slave_run *r = v->s->drain.runs; r && !v->ahead; r = r->next)
        if (of_run(v, r))
            return;
    if (v->unkept) {
        v->unkept = false;
        (void)give(v, NULL, step_keep);
    }
}

bool slave_ahead_done(struct slave_serve *v, struct slave_job *job)
{
    if (job != v->ahead)
        return false;
    v->ahead = NULL;
    if (job->run)
        job->run->pins--;
    slave_work_drop(v->s->work, job);
    return true;
}
