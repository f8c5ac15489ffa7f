/*
 * The contracting engine. A lane is four steps:
 *
 *   ReduceAsk   every slave's local partial longest paths
 *   solve       merged and run in the worker; the path walked back
 *   FinishAsk   every slave gets the values of its remote receives, and says
 *               the greatest END it has now: the greatest of all must be t_max
 *   ExpandAsk   the path's first piece, where it was folded away, comes back
 *               from the slave it lies in
 *
 * Between kept nodes a reduced chain is a straight piece of one thread
 * (analysis/contract.h), so only the folded beginning needs a slave to tell.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "master/weighting.h"

static void begin_lane(struct query *q, enum lane_id id);

static void lane_made(struct query *q)
{
    struct path_data *d = path_of(q);
    if (d->now == LANE_MAIN)
        engine_traffic(q, false);
    if (d->err.code) {
        engine_failed(q);
        return;
    }
    engine_drop_graphs(q);
    enum lane_id next = engine_next_lane(d, d->now);
    if (next == LANES)
        path_done(q);
    else
        begin_lane(q, next);
}

static void make_lane(struct query *q)
{
    struct path_data *d = path_of(q);
    (void)engine_lane_done(d, d->now); /* says why not in d->err */
}

/* The path of this lane is whole: its shares are summed in the worker. */
static void lane_over(struct query *q)
{
    struct ips_err err = {0};
    if (query_work(q, make_lane, lane_made, &err) < 0)
        query_fail(q, &err);
}

/* ---- the first piece ---------------------------------------------------- */

static bool expansion_fits(const struct part *p, const Ips__ExpandAnswer *a)
{
    size_t n = a->n_kind;
    if (a->n_xkind != n || a->n_chain != n || a->n_from != n || a->n_to != n ||
        a->n_ns != n || a->n_part != n)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (a->kind[i] > IPS_SEG_EXTERNAL || a->xkind[i] > IPS_X_LAST ||
            a->chain[i] >= p->t.thread_count || a->part[i] != 0)
            return false;
    }
    return true;
}

static int take_expansion(struct query *q, struct part *p,
                          const Ips__Reply *reply, struct ips_err *err)
{
    struct path_data *d = path_of(q);
    uint64_t base = engine_part_of(p)->base;
    if (reply->answer_case != IPS__REPLY__ANSWER_EXPAND ||
        !expansion_fits(p, reply->expand))
        return ips_err_set(err, IPS_E_PROTOCOL, "no answer to ExpandAsk");
    const Ips__ExpandAnswer *a = reply->expand;
    if (d->work_count + a->n_kind > p->sync->nodes * 2 + 2)
        return ips_err_set(err, IPS_E_PROTOCOL,
                           "its piece of the path is longer than its graph");
    for (size_t i = 0; i < a->n_kind; i++) {
        const Ips__ThreadRow *t = p->t.threads[a->chain[i]];
        struct path_piece piece = {
            .kind = (uint8_t)a->kind[i],
            .xkind = (uint8_t)a->xkind[i],
            .at = {.part = p->number, .process = t->process, .tid = t->tid},
            .from =
                a->from[i] == IPS_NO_NODE ? IPS_UNMEASURED : base + a->from[i],
            .to = base + a->to[i],
            .ns = a->ns[i]};
        piece.came = piece.at;
        if (piece.kind != IPS_SEG_COMPUTE && d->work_count > 0)
            piece.came = d->work[d->work_count - 1].at;
        if (!engine_push(d, &piece))
            return ips_err_set(err, IPS_E_NO_MEMORY, "%s", d->err.msg);
    }
    return 0;
}

static void expanded(struct query *q)
{
    struct path_data *d = path_of(q);
    struct part *p = q->gather.active[d->expand_part];
    uint64_t sum = 0;
    for (uint64_t i = 0; i < d->work_count; i++)
        sum = ips_add_sat(sum, d->work[i].ns);
    uint64_t to = engine_part_of(p)->base + d->expand_to;
    if (sum != d->expand_ns || d->work_count == 0 ||
        d->work[d->work_count - 1].to != to) {
        ips_err_set(&d->err, IPS_E_PROTOCOL,
                    "its piece of the path has %" PRIu64 " ns, not %" PRIu64,
                    sum, d->expand_ns);
        d->blame = p;
        engine_failed(q);
        return;
    }
    for (uint64_t i = 0; i < d->tail_count; i++) {
        if (!engine_push(d, &d->tail[i])) {
            engine_failed(q);
            return;
        }
    }
    free(d->tail);
    d->tail = NULL;
    d->tail_count = 0;
    lane_over(q);
}

static void ask_expand(struct query *q)
{
    struct path_data *d = path_of(q);
    struct part *p = q->gather.active[d->expand_part];
    uint32_t from = IPS_NO_NODE, to = d->expand_to;
    /* What follows waits until the beginning is there. */
    free(d->tail);
    d->tail = d->work;
    d->tail_count = d->work_count;
    d->work = NULL;
    d->work_count = d->work_cap = 0;
    Ips__ExpandAsk ask = IPS__EXPAND_ASK__INIT;
    Ips__Request request = IPS__REQUEST__INIT;
    ask.generation = p->sync->generation;
    ask.n_from = ask.n_to = 1;
    ask.from = &from;
    ask.to = &to;
    request.ask_case = IPS__REQUEST__ASK_EXPAND;
    request.expand = &ask;
    d->cost.rounds += d->now == LANE_MAIN;
    query_round(q, take_expansion, expanded);
    query_ask(q, p, &request, true);
    query_await(q);
}

/* ---- values back to the slaves ------------------------------------------ */

static int take_finish(struct query *q, struct part *p, const Ips__Reply *reply,
                       struct ips_err *err)
{
    (void)q;
    if (reply->answer_case != IPS__REPLY__ANSWER_FINISH)
        return ips_err_set(err, IPS_E_PROTOCOL, "no answer to FinishAsk");
    engine_part_of(p)->finished_t_max = reply->finish->t_max_ns;
    return 0;
}

static void finished(struct query *q)
{
    struct path_data *d = path_of(q);
    uint64_t greatest = 0;
    for (uint32_t i = 0; i < q->gather.count; i++)
        greatest = ips_max_u64(
            greatest, engine_part_of(q->gather.active[i])->finished_t_max);
    if (greatest != d->lanes[d->now].t_max) {
        ips_err_set(&d->err, IPS_E_CORRUPT,
                    "the slaves' longest path has %" PRIu64
                    " ns, the master's %" PRIu64
                    ": a bug of IPS, no answer is given",
                    greatest, d->lanes[d->now].t_max);
        engine_failed(q);
        return;
    }
    if (d->expand)
        ask_expand(q);
    else
        lane_over(q);
}

/* Value of remote in k of part p, plus 1; 0 where nobody wrote it. */
static uint64_t in_value(const struct path_data *d, const struct part *p,
                         uint32_t k)
{
    const struct ips_graph *own = &engine_part_of(p)->g;
    uint32_t i = d->node_base[p->number] + own->in[k].node;
    uint32_t from = d->merged.xpred[i];
    bool present;
    if (from == IPS_NO_NODE)
        return 0;
    uint64_t w = ips_xweight(&d->merged, i, &d->lanes[d->now].lane, &present);
    return d->est.est[from] + w + 1;
}

static int ask_finish(struct query *q, struct part *p, struct ips_err *err)
{
    struct path_data *d = path_of(q);
    uint32_t total = engine_part_of(p)->g.in_count, done = 0;
    uint64_t *values = malloc(IPS_PIECE_ITEMS * sizeof(*values));
    Ips__Lane lane;
    bool first = true;
    if (!values)
        return ips_err_set(err, IPS_E_NO_MEMORY, "no memory");
    weighting_lane(q, p, &d->lanes[d->now].lane, &lane);
    do {
        uint32_t n = 0;
        for (; n < IPS_PIECE_ITEMS && done < total; n++, done++)
            values[n] = in_value(d, p, done);
        Ips__FinishAsk ask = IPS__FINISH_ASK__INIT;
        Ips__Request request = IPS__REQUEST__INIT;
        ask.generation = p->sync->generation;
        ask.lane = &lane;
        ask.n_in_value = n;
        ask.in_value = values;
        ask.more = done < total;
        request.ask_case = IPS__REQUEST__ASK_FINISH;
        request.finish = &ask;
        query_ask(q, p, &request, first);
        first = false;
    } while (done < total);
    free(values);
    return 0;
}

static void solved(struct query *q)
{
    struct path_data *d = path_of(q);
    struct ips_err err = {0};
    int rc = 0;
    if (d->err.code) {
        engine_failed(q);
        return;
    }
    if (!d->lanes[d->now].with_shares) {
        lane_over(q);
        return;
    }
    query_round(q, take_finish, finished);
    for (uint32_t i = 0; i < q->gather.count && rc == 0; i++) {
        if (d->now == LANE_MAIN)
            d->cost.values += engine_part_of(q->gather.active[i])->g.in_count;
        rc = ask_finish(q, q->gather.active[i], &err);
    }
    if (rc < 0)
        query_fail(q, &err);
    else
        query_await(q);
}

/* ---- solving (worker) --------------------------------------------------- */

/* A node of the merged reduced graph in the numbering through all machines. */
static uint64_t full_node(struct query *q, uint32_t part, uint32_t node)
{
    struct path_data *d = path_of(q);
    const struct engine_part *e = engine_part_of(q->gather.active[part]);
    return e->base + e->origin[node - d->node_base[part]];
}

static bool walk_reduced(struct query *q)
{
    struct path_data *d = path_of(q);
    const struct ips_graph *g = &d->merged;
    struct ips_path path = {0};
    uint32_t stop;
    bool ok = true;
    d->expand = false;
    if (ips_path_walk(g, &d->lanes[d->now].lane, &d->est, d->est.end, &path,
                      &stop, &d->err) < 0)
        return false;
    for (uint64_t i = 0; i < path.count && ok; i++) {
        const struct ips_path_segment *s = &path.seg[i];
        struct path_piece piece = {.kind = (uint8_t)s->kind,
                                   .xkind = s->xkind,
                                   .at = engine_place(g, s->to),
                                   .ns = s->ns};
        piece.to = full_node(q, piece.at.part, s->to);
        if (s->from == IPS_NO_NODE) {
            d->expand = true;
            d->expand_part = piece.at.part;
            d->expand_to =
                (uint32_t)(piece.to -
                           engine_part_of(q->gather.active[piece.at.part])
                               ->base);
            d->expand_ns = s->ns;
            continue;
        }
        piece.came = engine_place(g, s->from);
        piece.from = full_node(q, piece.came.part, s->from);
        ok = engine_push(d, &piece);
    }
    ips_path_release(&path);
    return ok;
}

static bool check_origins(struct query *q)
{
    struct path_data *d = path_of(q);
    for (uint32_t i = 0; i < q->gather.count; i++) {
        struct part *p = q->gather.active[i];
        const struct engine_part *e = engine_part_of(p);
        for (uint32_t k = 0; k < e->g.node_count; k++) {
            if (e->origin[k] < p->sync->nodes)
                continue;
            ips_err_set(&d->err, IPS_E_PROTOCOL,
                        "node %u of its reduced graph is none of its %" PRIu64,
                        e->origin[k], p->sync->nodes);
            d->blame = p;
            return false;
        }
    }
    return true;
}

static void solve(struct query *q)
{
    struct path_data *d = path_of(q);
    struct lane_result *r = &d->lanes[d->now];
    if (!engine_make_graphs(q) || !check_origins(q) || !engine_merge(q))
        return;
    struct ips_lane lane = weighting_merged(q, &r->lane, true);
    if (ips_longest_path(&d->merged, &lane, NULL, &d->est, &d->err) < 0)
        return;
    r->t_max = d->est.t_max;
    if (d->est.end == IPS_NO_NODE) {
        ips_err_set(&d->err, IPS_E_INCOMPLETE,
                    "no thread of this run has an end yet: nothing to show");
        return;
    }
    if (r->with_shares && !walk_reduced(q) && !d->err.code)
        ips_err_set(&d->err, IPS_E_NO_MEMORY, "no memory for the path");
}

static void reduced(struct query *q)
{
    struct ips_err err = {0};
    if (query_work(q, solve, solved, &err) < 0)
        query_fail(q, &err);
}

static void begin_lane(struct query *q, enum lane_id id)
{
    struct path_data *d = path_of(q);
    Ips__Lane lane;
    d->now = id;
    d->work_count = 0;
    query_round(q, engine_take_subgraph, reduced);
    for (uint32_t i = 0; i < q->gather.count; i++) {
        struct part *p = q->gather.active[i];
        Ips__ReduceAsk ask = IPS__REDUCE_ASK__INIT;
        Ips__Request request = IPS__REQUEST__INIT;
        weighting_lane(q, p, &d->lanes[id].lane, &lane);
        ask.generation = p->sync->generation;
        ask.lane = &lane;
        request.ask_case = IPS__REQUEST__ASK_REDUCE;
        request.reduce = &ask;
        engine_begin_subgraph(p, false, true);
        query_ask(q, p, &request, true);
    }
    query_await(q);
}

void engine_contract(struct query *q)
{
    engine_traffic(q, true);
    path_of(q)->cost.rounds = 2;
    begin_lane(q, LANE_MAIN);
}
