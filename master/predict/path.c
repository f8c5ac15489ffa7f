/* Finds where the predicted time would go: the longest path of the graph with
 * the times of the replay, summed by machine, process, procedure, messages and
 * waits for something not recorded. */
#include <stdlib.h>
#include <string.h>

#include "analysis/graph/kernel.h"
#include "analysis/graph/path.h"
#include "common/types.h"
#include "master/predict/predict.h"

struct sums {
    uint64_t ns, queued_ns, count;
    uint32_t machine;
};
struct path_summing {
    const struct predict_run *run;
    const struct predict_setup *setup;
    const struct ips_replay *r;
    /* [nodes] the machine of the arc into each node; NULL: threads do not move,
     * see setup->map */
    const uint32_t *placement;
    struct ips_est e;
    uint32_t *xpred; /* made by make_graph_with_replayed_lock_order(); NULL: use
                        the graph's own */
    uint8_t *xkind;
    struct sums *machine;   /* [machine_count] sum per machine */
    struct sums *feature;   /* [features] sum per process or message class */
    struct sums *idle;      /* [features] sum of idle time per process */
    struct sums *procedure; /* [procedures] sum per procedure */
};

/* Sets *out to the graph as it was replayed: each unit of a lock comes from the
 * thread that released it. */
static int make_graph_with_replayed_lock_order(struct path_summing *s,
                                               struct ips_graph *out,
                                               struct ips_err *err)
{
    const struct ips_graph *g = &s->run->replay.g;
    const struct ips_replay_locks *locks = predict_locks_to_replay(s->run);
    size_t n = (size_t)g->node_count + 1;
    *out = *g;
    if (!s->r->giver)
        return 0;
    s->xpred = malloc(n * sizeof(*s->xpred));
    s->xkind = malloc(n);
    if (!s->xpred || !s->xkind)
        return ips_err_set(err, IPS_E_NO_MEMORY, "path of %zu nodes", n);
    memcpy(s->xpred, g->xpred, (n - 1) * sizeof(*s->xpred));
    memcpy(s->xkind, g->xkind, n - 1);
    out->xpred = s->xpred;
    out->xkind = s->xkind;
    for (uint32_t k = 0; k < locks->event_count; k++) {
        uint32_t i = locks->event[k].node, from = s->r->giver[i];
        if (from == IPS_NO_NODE)
            continue; /* the lock was free, or the recorded arc stays */
        out->xpred[i] = from;
        out->xkind[i] = IPS_X_RESOURCE;
    }
    return 0;
}

/* Determines for each node which of its arcs decided its time in the replay. */
static int mark_nodes_decided_by_cross_arc(struct path_summing *s,
                                           struct ips_err *err)
{
    const struct ips_graph *g = &s->run->replay.g;
    const struct ips_replay *r = s->r;
    s->e.crossed = calloc((size_t)g->node_count + 1, 1);
    if (!s->e.crossed)
        return ips_err_set(err, IPS_E_NO_MEMORY, "path of %u nodes",
                           g->node_count);
    s->e.est = r->reach;
    s->e.end = r->end;
    s->e.t_max = r->makespan_ns;
    for (uint32_t c = 0; c < g->chain_count; c++) {
        uint32_t first = g->chains[c].first, end = first + g->chains[c].count;
        s->e.crossed[first] = r->reach[first] > 0;
        for (uint32_t i = first + 1; i < end; i++)
            s->e.crossed[i] = r->reach[i] > r->reach[i - 1] + r->weight[i];
    }
    return 0;
}

static void add_times_to_sums(struct sums *to, uint64_t ns, uint64_t queued,
                              uint32_t machine)
{
    to->machine =
        to->ns == 0 || to->machine == machine ? machine : PREDICT_NOWHERE;
    to->ns += ns;
    to->queued_ns += queued;
}

/* Distributes an arc's time over procedures in proportion to their CPU time in
 * it. If the arc begins at a cut, it is a part of a recorded arc; the
 * proportions are then those of the whole recorded arc. */
static void distribute_arc_over_procedures(struct path_summing *s, uint32_t k,
                                           uint64_t ns, uint64_t queued,
                                           uint32_t machine)
{
    const struct entities *t = s->run->t;
    const struct predict_run *run = s->run;
    const struct ips_replay_graph *r = &run->replay;
    /* use the arc that followed node k - 1 in the recorded run */
    if (run->recorded) {
        k = run->recorded_of[k - 1] + 1;
        r = &run->recorded->replay;
    }
    uint32_t before = r->of[k - 1];
    uint32_t from = r->to[before] == k - 1 ? before + 1 : before;
    uint64_t w = 0, count;
    for (uint32_t i = from; i <= r->of[k]; i++)
        w += s->run->whole->w[i];
    for (uint32_t i = from; w && i <= r->of[k]; i++) {
        const struct ips_arc_share *p =
            ips_feature_shares_of_chain_arc(&t->f, i, &count);
        for (uint64_t n = 0; n < count; n++) {
            const struct entity_feature *f = &t->feature[p[n].feature];
            if (f->kind == ENTITY_PROCEDURE)
                add_times_to_sums(&s->procedure[f->procedure],
                                  (uint64_t)((ips_u128)ns * p[n].ns / w),
                                  (uint64_t)((ips_u128)queued * p[n].ns / w),
                                  machine);
        }
    }
}

/* Adds the time of the chain arc into node k of the replayed graph to the sums
 * of its machine, process and procedures. */
static void add_chain_arc_time_to_sums(struct path_summing *s, uint32_t chain,
                                       uint32_t k)
{
    uint32_t m = s->placement ? s->placement[k] : s->setup->map[chain];
    const struct ips_ratio speed = s->setup->machine[m].is.speed;
    uint64_t ns = s->r->weight[k], w = s->run->replay.g.w[k];
    uint64_t cpu =
        speed.den ? (uint64_t)((ips_u128)w * speed.den / speed.num) : w;
    uint64_t queued = ips_sub_sat(ns, cpu);
    if (ns == 0 && w == 0)
        return;
    add_times_to_sums(&s->machine[m], ns, queued, m);
    uint32_t process = s->run->t->f.chain[chain];
    if (process != IPS_NO_FEATURE)
        add_times_to_sums(&s->feature[process], ns, queued, m);
    distribute_arc_over_procedures(s, k, ns, queued, m);
}

/* Returns a node whose message goes between the same two threads as that of
 * node k. With reordered queues it is a message that the worker had in the
 * recorded run, so that its feature is known. */
static uint32_t find_recorded_node_of_like_message(const struct path_summing *s,
                                                   uint32_t k)
{
    const struct ips_graph *g = &s->run->replay.g;
    if (!s->run->recorded || g->xkind[k] != IPS_X_DATA)
        return k;
    const struct ips_queues *q = &s->run->recorded->queues;
    uint32_t to = ips_chain_of(g, k), from = ips_chain_of(g, g->xpred[k]);
    for (uint32_t w = 0; w < q->worker_count; w++) {
        const struct ips_queue_worker *is = &q->worker[w];
        uint32_t d = q->queue[is->queue].chain;
        const struct ips_queue_block *first = &q->block[is->first_block];
        if (is->chain == to && d == from && k > g->chains[to].first)
            return s->run->recorded_to[first[1].first];
        if (is->chain == from && d == to)
            return s->run->recorded_to[first->ask];
    }
    return k;
}

static void add_cross_arc_time_to_sums(struct path_summing *s,
                                       const struct ips_path_segment *seg)
{
    const struct entities *t = s->run->t;
    const struct ips_replay_graph *r = &s->run->replay;
    bool idle = r->made[seg->to];
    if (s->r->giver && s->r->giver[seg->to] != IPS_NO_NODE)
        /* the arc of a lock has no weight, and the entities have no feature for
         * it */
        return;
    uint32_t f = t->f.chain[seg->chain];
    if (!idle)
        f = t->f.cross ? t->f.cross[r->of[find_recorded_node_of_like_message(
                             s, seg->to)]]
                       : IPS_NO_FEATURE;
    if (f == IPS_NO_FEATURE)
        return; /* an arc without a feature has no weight */
    struct sums *to = idle ? &s->idle[f] : &s->feature[f];
    add_times_to_sums(to, seg->ns, 0, PREDICT_NOWHERE);
    to->count++;
}

static void add_path_segments_to_sums(struct path_summing *s,
                                      const struct ips_path *path)
{
    for (uint64_t n = 0; n < path->count; n++) {
        const struct ips_path_segment *seg = &path->seg[n];
        if (seg->kind != IPS_SEG_COMPUTE)
            add_cross_arc_time_to_sums(s, seg);
        else
            for (uint32_t k = seg->from + 1; k <= seg->to; k++)
                add_chain_arc_time_to_sums(s, seg->chain, k);
    }
}

/* ---- rows of the path ------------------------------------------------- */

static enum predict_row_kind row_kind_of_feature(const struct entity_feature *f)
{
    if (f->kind == ENTITY_PROCESS)
        return PREDICT_PROCESS;
    return f->to == ENTITY_EXTERNAL || f->to == ENTITY_IDLE ? PREDICT_EXTERNAL
                                                            : PREDICT_MESSAGE;
}

static int compare_path_rows_by_kind_and_ns(const void *a, const void *b)
{
    const struct predict_row *p = a, *q = b;
    if (p->kind != q->kind)
        return p->kind < q->kind ? -1 : 1;
    if (p->ns != q->ns)
        return p->ns > q->ns ? -1 : 1;
    if (p->count != q->count)
        return p->count > q->count ? -1 : 1;
    return (p->id > q->id) - (p->id < q->id);
}

static void append_row_if_used(struct predict_answer *out,
                               enum predict_row_kind kind, uint32_t id,
                               const struct sums *from)
{
    if (from->ns || from->count)
        out->row[out->row_count++] = (struct predict_row){
            kind, id, from->machine, from->ns, from->queued_ns, from->count};
}

static int make_path_rows(const struct path_summing *s,
                          struct predict_answer *out, struct ips_err *err)
{
    const struct entities *t = s->run->t;
    size_t n =
        (size_t)s->setup->machine_count + t->f.count + t->procedure_count + 1;
    out->row = calloc(n, sizeof(*out->row));
    if (!out->row)
        return ips_err_set(err, IPS_E_NO_MEMORY, "path of %zu rows", n);
    for (uint32_t m = 0; m < s->setup->machine_count; m++)
        append_row_if_used(out, PREDICT_MACHINE, m, &s->machine[m]);
    for (uint32_t f = 0; f < t->f.count; f++)
        if (t->feature[f].kind != ENTITY_PROCEDURE)
            append_row_if_used(out, row_kind_of_feature(&t->feature[f]), f,
                               &s->feature[f]);
    for (uint32_t f = 0; f < t->f.count; f++)
        append_row_if_used(out, PREDICT_IDLE, f, &s->idle[f]);
    for (uint32_t p = 0; p < t->procedure_count; p++)
        append_row_if_used(out, PREDICT_PROCEDURE, p, &s->procedure[p]);
    qsort(out->row, out->row_count, sizeof(*out->row),
          compare_path_rows_by_kind_and_ns);
    return 0;
}

int predict_compute_path(const struct predict_run *run,
                         const struct predict_setup *setup,
                         const struct ips_replay *replay, const uint32_t *place,
                         struct predict_answer *out, struct ips_err *err)
{
    const struct entities *t = run->t;
    struct path_summing s = {
        .run = run, .setup = setup, .r = replay, .placement = place};
    struct ips_path path = {0};
    struct ips_graph given;
    uint32_t stop;
    int rc = make_graph_with_replayed_lock_order(&s, &given, err);
    s.machine = calloc(setup->machine_count, sizeof(*s.machine));
    s.feature = calloc((size_t)t->f.count + 1, sizeof(*s.feature));
    s.idle = calloc((size_t)t->f.count + 1, sizeof(*s.idle));
    s.procedure = calloc((size_t)t->procedure_count + 1, sizeof(*s.procedure));
    if (rc == 0 && (!s.machine || !s.feature || !s.idle || !s.procedure))
        rc = ips_err_set(err, IPS_E_NO_MEMORY, "no memory for a path");
    if (rc == 0)
        rc = mark_nodes_decided_by_cross_arc(&s, err);
    if (rc == 0 && replay->end != IPS_NO_NODE)
        rc = ips_path_walk_back_and_store(&given, &run->scenario_then, &s.e,
                                          replay->end, &path, &stop, err);
    if (rc == 0) {
        add_path_segments_to_sums(&s, &path);
        rc = make_path_rows(&s, out, err);
    }
    ips_path_release(&path);
    free(s.xpred);
    free(s.xkind);
    free(s.e.crossed);
    free(s.machine);
    free(s.feature);
    free(s.idle);
    free(s.procedure);
    return rc;
}
