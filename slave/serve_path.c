/* Reduce and Subgraph send a graph, Finish fixes its winners, Expand tells the
 * path between two nodes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "slave/calibrate_map.h"
#include "slave/graph_lay.h"
#include "slave/serve_graph.h"

struct ips_lane slave_lane_of(const Ips__Lane *l)
{
    struct ips_lane lane = {.mtime = {.scale_num = 1, .scale_den = 1}};
    if (!l)
        return lane;
    lane.mtime.base_ns = l->mtime_base_ns;
    lane.mtime.per_byte_q32 = l->mtime_per_byte_q32;
    lane.mtime.scale_num = l->scale_den ? l->scale_num : 1;
    lane.mtime.scale_den = l->scale_den ? l->scale_den : 1;
    lane.external = l->external <= IPS_EXTERNAL_OFF
                        ? (enum ips_external)l->external
                        : IPS_EXTERNAL_REPLY;
    lane.calibrated = l->calibrated;
    lane.any_off = l->any_off;
    lane.probe_off = l->probe_off;
    lane.weighting = l->weighting <= IPS_WEIGH_LAST
                         ? (enum ips_weighting)l->weighting
                         : IPS_WEIGH_CPU;
    int64_t drift = l->clock_drift_q40;
    if (drift > IPS_DRIFT_MAX_Q40 || drift < -IPS_DRIFT_MAX_Q40)
        drift = 0;
    lane.clock =
        (struct ips_clock_map){l->clock_from_ns, drift, l->clock_shift_ns};
    lane.has_goal = l->goal > 0;
    lane.goal = l->goal > 1 && l->goal - 2 < IPS_NO_NODE
                    ? (uint32_t)(l->goal - 2)
                    : IPS_NO_NODE;
    return lane;
}

/* ---- reduce and subgraph ---- */

void slave_graph_wire_release(struct slave_graph_ask *j)
{
    slave_graph_lay_release(&j->wire);
    ips_wire_piece_release(&j->piece);
}

static int wire_make(struct slave_graph_ask *j, const struct ips_graph *g,
                     bool detail, bool probe)
{
    struct ips_wire_graph *w = &j->wire;
    j->begun = true;
    int rc = slave_graph_lay(w, g, &j->job.err);
    if (rc < 0)
        return rc;
    w->t_ns = detail ? g->t_ns : NULL;
    w->site = detail ? g->site : NULL;
    w->at = g->at;
    w->wait = g->at ? g->wait : NULL;
    w->delay = g->at && detail ? g->delay : NULL;
    w->probe = probe ? g->probe : NULL;
    w->end_count = j->graph->b.end_count;
    w->origin = j->has_reduced ? j->reduced.origin : NULL;
    return 0;
}

static void send_piece(struct slave_graph_ask *j)
{
    bool last = false;
    if (ips_wire_next(&j->wire, &j->cursor, &j->piece, &last, &j->job.err) <
        0) {
        slave_job_fail(&j->job);
        return;
    }
    j->job.reply.answer_case = IPS__REPLY__ANSWER_SUBGRAPH;
    j->job.reply.subgraph = &j->piece.msg;
    j->job.finished = last;
}

/* T without the arrays' help: the sum of all chain arcs. */
static uint64_t total_cpu(const struct ips_graph *g)
{
    uint64_t sum = 0;
    for (uint32_t c = 0; c < g->chain_count; c++)
        for (uint32_t i = 1; i < g->chains[c].count; i++)
            sum = ips_add_sat(sum, g->w[g->chains[c].first + i]);
    return sum;
}

void slave_step_subgraph(struct slave_job *job, struct slave_graphs *gs)
{
    struct slave_graph_ask *j = slave_graph_of(job);
    const Ips__SubgraphAsk *ask = slave_graph_request(j)->subgraph;
    int rc = slave_graph_same(j, gs, ask->generation);
    if (rc == 0 && !j->begun) {
        struct ips_lane lane = slave_lane_of(ask->lane);
        rc = slave_graph_view(j->graph, &lane, &j->view, &job->err);
        if (rc == 0 && ask->detail && lane.weighting != IPS_WEIGH_WALL) {
            j->view.g.at = j->graph->b.g.at;
            j->view.g.wait = j->graph->b.g.wait;
            j->view.g.delay = j->graph->b.g.delay;
        }
        if (rc == 0)
            rc = wire_make(j, &j->view.g, ask->detail, ask->probe);
        j->wire.total_cpu_ns = rc == 0 ? total_cpu(&j->view.g) : 0;
    }
    if (rc < 0)
        slave_job_fail(job);
    else
        send_piece(j);
}

void slave_step_reduce(struct slave_job *job, struct slave_graphs *gs)
{
    struct slave_graph_ask *j = slave_graph_of(job);
    const Ips__ReduceAsk *ask = slave_graph_request(j)->reduce;
    int rc = slave_graph_same(j, gs, ask->generation);
    if (rc == 0 && !j->begun) {
        struct ips_lane lane = slave_lane_of(ask->lane);
        rc = slave_graph_view(j->graph, &lane, &j->view, &job->err);
        if (rc == 0)
            rc = ips_contract(&j->view.g, &lane, &j->reduced, &job->err);
        ips_view_release(&j->view);
        j->has_reduced = rc == 0;
        if (rc == 0)
            rc = wire_make(j, &j->reduced.g, ask->detail, false);
        j->wire.total_cpu_ns = j->has_reduced ? j->reduced.total : 0;
    }
    if (rc < 0)
        slave_job_fail(job);
    else
        send_piece(j);
}

/* ---- finish and expand ---- */

void slave_step_finish(struct slave_job *job, struct slave_graphs *gs)
{
    struct slave_graph_ask *j = slave_graph_of(job);
    const Ips__FinishAsk *ask = slave_graph_request(j)->finish;
    uint64_t *in = NULL;
    int rc = slave_graph_same(j, gs, ask->generation);
    if (rc == 0 && ask->n_in_value != j->graph->b.g.in_count)
        rc = ips_err_set(&job->err, IPS_E_PROTOCOL,
                         "%zu values for %u remote receives", ask->n_in_value,
                         j->graph->b.g.in_count);
    if (rc == 0) {
        in = calloc(ask->n_in_value + 1, sizeof(*in));
        if (!in)
            rc = ips_err_set(&job->err, IPS_E_NO_MEMORY, "out of memory");
    }
    for (size_t i = 0; rc == 0 && i < ask->n_in_value; i++)
        in[i] = ask->in_value[i] ? ask->in_value[i] - 1 : IPS_IN_ABSENT;
    if (rc == 0) {
        struct slave_graph *g = j->graph;
        if (g->has_est)
            ips_est_release(&g->est);
        g->has_est = false;
        ips_view_release(&g->view);
        g->lane = slave_lane_of(ask->lane);
        rc = slave_graph_view(g, &g->lane, &g->view, &job->err);
        if (rc == 0)
            rc = ips_longest_path(&g->view.g, &g->lane,
                                  g->b.g.in_count ? in : NULL, &g->est,
                                  &job->err);
        g->has_est = rc == 0;
    }
    free(in);
    if (rc < 0) {
        slave_job_fail(job);
        return;
    }
    Ips__FinishAnswer *a = &j->answer.finish;
    ips__finish_answer__init(a);
    a->t_max_ns = j->graph->est.t_max;
    job->reply.answer_case = IPS__REPLY__ANSWER_FINISH;
    job->reply.finish = a;
    job->finished = true;
}

/* ---- split ---- */

/* What the chain arcs of a piece are made of; both its nodes are of one chain,
 * or it has none that is known here. */
static void split_piece(const struct ips_graph *g, uint32_t from, uint32_t to,
                        Ips__SplitAnswer *sum)
{
    for (uint32_t i = from + 1; i <= to; i++) {
        sum->cpu_ns = ips_add_sat(sum->cpu_ns, g->w[i]);
        if (g->delay)
            sum->delay_ns = ips_add_sat(sum->delay_ns, g->delay[i]);
    }
}

void slave_step_split(struct slave_job *job, struct slave_graphs *gs)
{
    struct slave_graph_ask *j = slave_graph_of(job);
    const Ips__SplitAsk *ask = slave_graph_request(j)->split;
    Ips__SplitAnswer *a = &j->answer.split;
    int rc = slave_graph_same(j, gs, ask->generation);
    ips__split_answer__init(a);
    if (rc == 0 && ask->n_from != ask->n_to)
        rc =
            ips_err_set(&job->err, IPS_E_PROTOCOL,
                        "%zu beginnings of %zu pieces", ask->n_from, ask->n_to);
    for (size_t i = 0; rc == 0 && i < ask->n_from; i++) {
        const struct ips_graph *g = &j->graph->b.g;
        if (ask->from[i] > ask->to[i] || ask->to[i] >= g->node_count)
            rc = ips_err_set(&job->err, IPS_E_PROTOCOL,
                             "there is no piece from node %u to %u",
                             ask->from[i], ask->to[i]);
        else
            split_piece(g, ask->from[i], ask->to[i], a);
    }
    if (rc < 0) {
        slave_job_fail(job);
        return;
    }
    job->reply.answer_case = IPS__REPLY__ANSWER_SPLIT;
    job->reply.split = a;
    job->finished = true;
}

/* Room for one piece: six columns of 32 bits and one of 64. */
static int expand_room(struct slave_graph_ask *j)
{
    if (!j->columns)
        j->columns = calloc((size_t)IPS_PIECE_ITEMS * 6, sizeof(uint32_t));
    if (!j->ns)
        j->ns = calloc(IPS_PIECE_ITEMS, sizeof(*j->ns));
    if (!j->columns || !j->ns)
        return ips_err_set(&j->job.err, IPS_E_NO_MEMORY, "out of memory");
    return 0;
}

static int next_pair(struct slave_graph_ask *j, const Ips__ExpandAsk *ask)
{
    const struct slave_graph *g = j->graph;
    uint32_t from = ask->from[j->at], to = ask->to[j->at];
    if (j->has_path)
        ips_path_release(&j->path);
    j->has_path = false;
    if (to >= g->b.g.node_count ||
        (from != IPS_NO_NODE && from >= g->b.g.node_count))
        return ips_err_set(&j->job.err, IPS_E_PROTOCOL,
                           "there is no node %u or %u", from, to);
    int rc = ips_path_between(&g->view.g, &g->lane, &g->est, from, to, &j->path,
                              &j->job.err);
    j->has_path = rc == 0;
    j->path_at = 0;
    return rc;
}

static int fill_expand(struct slave_graph_ask *j, const Ips__ExpandAsk *ask,
                       size_t *count)
{
    uint32_t *const c = j->columns;
    size_t n = 0;
    while (n < IPS_PIECE_ITEMS && j->at < ask->n_to) {
        if (!j->has_path) {
            int rc = next_pair(j, ask);
            if (rc < 0)
                return rc;
        }
        for (; n < IPS_PIECE_ITEMS && j->path_at < j->path.count; n++) {
            const struct ips_path_segment *s = &j->path.seg[j->path_at++];
            c[n] = s->kind;
            c[IPS_PIECE_ITEMS + n] = s->xkind;
            c[2 * IPS_PIECE_ITEMS + n] = s->chain;
            c[3 * IPS_PIECE_ITEMS + n] = s->from;
            c[4 * IPS_PIECE_ITEMS + n] = s->to;
            c[5 * IPS_PIECE_ITEMS + n] = j->at;
            j->ns[n] = s->ns;
        }
        if (j->path_at < j->path.count)
            break;
        ips_path_release(&j->path);
        j->has_path = false;
        j->at++;
    }
    *count = n;
    return 0;
}

void slave_step_expand(struct slave_job *job, struct slave_graphs *gs)
{
    struct slave_graph_ask *j = slave_graph_of(job);
    const Ips__ExpandAsk *ask = slave_graph_request(j)->expand;
    size_t n = 0;
    int rc = slave_graph_same(j, gs, ask->generation);
    if (rc == 0 && (!j->graph->has_est || ask->n_from != ask->n_to))
        rc = ips_err_set(&job->err, IPS_E_PROTOCOL,
                         "nothing to expand: FinishAsk comes first");
    if (rc == 0)
        rc = expand_room(j);
    if (rc == 0)
        rc = fill_expand(j, ask, &n);
    if (rc < 0) {
        slave_job_fail(job);
        return;
    }
    Ips__ExpandAnswer *a = &j->answer.expand;
    ips__expand_answer__init(a);
    uint32_t **const column[] = {&a->kind, &a->xkind, &a->chain,
                                 &a->from, &a->to,    &a->part};
    size_t *const counts[] = {&a->n_kind, &a->n_xkind, &a->n_chain,
                              &a->n_from, &a->n_to,    &a->n_part};
    for (size_t i = 0; i < 6; i++) {
        *column[i] = j->columns + i * IPS_PIECE_ITEMS;
        *counts[i] = n;
    }
    a->ns = j->ns;
    a->n_ns = n;
    job->reply.answer_case = IPS__REPLY__ANSWER_EXPAND;
    job->reply.expand = a;
    job->finished = j->at >= ask->n_to;
}
