/*
 * What a run would do on other machines: gathers what a what-if gathers (whole
 * subgraphs, tables, what arcs were spent on), and has it replayed in the
 * worker, once on the machines that were asked about and once on its own, which
 * says how far the model is from the measured run. Category 3 of IPS-9.
 */
#include <stdlib.h>
#include <string.h>

#include "analysis/path.h"
#include "master/part.h"
#include "master/predict_query.h"

/* ---- the run -------------------------------------------------------------
 */

static uint32_t command_end(const struct query *q, const struct path_data *d)
{
    for (uint32_t i = 0; i < q->gather.count; i++) {
        const Ips__SyncAnswer *s = q->gather.active[i]->sync;
        if (s->goal_node && s->goal_node <= s->nodes)
            return d->node_base[i] + (uint32_t)s->goal_node - 1;
    }
    return IPS_NO_NODE;
}

static void fill_thread(const struct part *p, uint32_t chain,
                        const struct ips_chain *c, struct predict_thread *t)
{
    t->own = c->machine;
    t->pid = c->pid;
    t->tid = c->tid;
    t->process = part_process_name(p, c->process);
    t->name = chain < p->t.thread_count ? p->t.threads[chain]->name : "";
}

static int make_run(struct query *q, const struct whatif_solving *s,
                    struct predict_run *run)
{
    struct predict_query *d = predict_of(q);
    uint32_t n = q->gather.count;
    *run = (struct predict_run){.g = s->g,
                                .t = &d->w.t,
                                .lane = s->lane,
                                .lane_then = s->lane,
                                .own_count = n,
                                .command = command_end(q, &d->w.path)};
    if (!q->request->predict->external)
        run->lane_then.external = IPS_EXTERNAL_ALL;
    run->own = calloc((size_t)n + 1, sizeof(*run->own));
    run->thread = calloc((size_t)s->g->chain_count + 1, sizeof(*run->thread));
    if (!run->own || !run->thread)
        return ips_err_set(s->err, IPS_E_NO_MEMORY, "%u threads",
                           s->g->chain_count);
    for (uint32_t i = 0; i < n; i++) {
        const struct part *p = q->gather.active[i];
        run->own[i] = (struct predict_own){
            p->machine,
            (uint32_t)ips_min_u64(p->sync->cores, IPS_REPLAY_CORES_MAX)};
    }
    uint32_t own = 0, chain = 0;
    for (uint32_t c = 0; c < s->g->chain_count; c++, chain++) {
        const struct ips_chain *of = &s->g->chains[c];
        if (of->machine != own)
            chain = 0;
        own = of->machine;
        fill_thread(q->gather.active[own], chain, of, &run->thread[c]);
    }
    return 0;
}

/* ---- the replays ---------------------------------------------------------
 */

static int solve_free(struct whatif_solving *s, struct predict_query *d)
{
    struct ips_lane lane = d->run.lane;
    struct ips_est e = {0};
    lane.mtime = (struct ips_mtime){.scale_den = 1};
    int rc = ips_longest_path(s->g, &lane, NULL, &e, s->err);
    d->t_max_free_ns = e.t_max;
    ips_est_release(&e);
    return rc;
}

static void solve(struct query *q)
{
    struct predict_query *d = predict_of(q);
    struct whatif_solving s;
    struct predict_setup own = {0};
    d->said.a = &d->a;
    int rc = whatif_prepare(q, &s);
    if (rc == 0)
        rc = make_run(q, &s, &d->run);
    if (rc == 0)
        rc = predict_setup_make(&d->run, q->request->predict, &d->said,
                                &d->setup, s.err);
    if (rc == 0)
        rc = predict_setup_own(&d->run, &own, s.err);
    d->setup.path = true;
    if (rc == 0)
        rc = predict_replay(&d->run, &own, &d->own, s.err);
    if (rc == 0)
        rc = predict_replay(&d->run, &d->setup, &d->then, s.err);
    if (rc == 0)
        rc = solve_free(&s, d);
    predict_setup_release(&own);
    whatif_finish(&s);
    (void)rc; /* said in s.err */
}

/* ---- the question --------------------------------------------------------
 */

static void start(struct query *q)
{
    struct ips_err err = {0};
    const Ips__PredictAsk *from = q->request->predict;
    struct predict_query *d = calloc(1, sizeof(*d));
    if (!d) {
        ips_err_set(&err, IPS_E_NO_MEMORY, "no memory");
        query_fail(q, &err);
        return;
    }
    q->data = d;
    ips__whatif_ask__init(&d->ask);
    ips__lane__init(&d->lane);
    d->lane.scale_num = d->lane.scale_den = 1;
    d->ask.lane = from->lane ? from->lane : &d->lane;
    d->ask.goal = from->goal;
    d->ask.slack = true; /* something must be asked */
    d->w.ask = &d->ask;
    d->w.node_bytes = PREDICT_NODE_BYTES;
    d->w.solve = solve;
    d->w.answer = predict_tell;
    whatif_begin(q);
}

static void release(struct query *q)
{
    struct predict_query *d = predict_of(q);
    if (d) {
        predict_answer_release(&d->own);
        predict_answer_release(&d->then);
        predict_setup_release(&d->setup);
        free(d->run.own);
        free(d->run.thread);
        arena_release(&d->a);
    }
    whatif_release(q);
}

const struct query_kind query_predict = {
    .name = "predict", .exclusive = true, .start = start, .release = release};
