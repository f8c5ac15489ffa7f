/* Answers ReduceAsk and SubgraphAsk (send a graph), FinishAsk (computes its
 * longest path from the values of remote receives), SplitAsk (sums of times
 * over pieces of chains) and ExpandAsk (sends the path between two nodes). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "slave/graphs/calibrate_map.h"
#include "slave/graphs/graph_lay.h"
#include "slave/serve/graph.h"

/* maximum number of bytes of joins in one reply */
#define PIECE_BYTES ((size_t)1 << 20)

struct ips_scenario slave_scenario_from_wire(const Ips__Lane *l)
{
    struct ips_scenario scenario = {
        .message_time = {.scale_num = 1, .scale_den = 1}};
    if (!l)
        return scenario;
    scenario.message_time.base_ns = l->message_time_base_ns;
    scenario.message_time.per_byte_q32 = l->message_time_per_byte_q32;
    scenario.message_time.scale_num = l->scale_den ? l->scale_num : 1;
    scenario.message_time.scale_den = l->scale_den ? l->scale_den : 1;
    scenario.external = l->external <= IPS_EXTERNAL_OFF
                            ? (enum ips_external)l->external
                            : IPS_EXTERNAL_REPLY;
    scenario.calibrated = l->calibrated;
    scenario.order_dependent_off = l->any_off;
    scenario.probe_off = l->probe_off;
    scenario.unended = l->unended;
    scenario.weighting = l->weighting <= IPS_WEIGH_LAST
                             ? (enum ips_weighting)l->weighting
                             : IPS_WEIGH_CPU;
    int64_t drift = l->clock_drift_q40;
    if (drift > IPS_DRIFT_MAX_Q40 || drift < -IPS_DRIFT_MAX_Q40)
        drift = 0;
    scenario.clock =
        (struct ips_clock_map){l->clock_from_ns, drift, l->clock_shift_ns};
    scenario.has_goal = l->goal > 0;
    scenario.goal = l->goal > 1 && l->goal - 2 < IPS_NO_NODE
                        ? (uint32_t)(l->goal - 2)
                        : IPS_NO_NODE;
    return scenario;
}

/* ---- reduce and subgraph ---- */

void slave_graph_wire_release(struct slave_graph_ask *j)
{
    slave_graph_to_wire_release(&j->wire);
    ips_wire_piece_release(&j->piece);
}

static int prepare_wire_graph(struct slave_graph_ask *j,
                              const struct ips_graph *g, bool detail,
                              bool probe)
{
    struct ips_wire_graph *w = &j->wire;
    j->begun = true;
    int rc = slave_graph_to_wire(w, g, &j->job.err);
    if (rc < 0)
        return rc;
    w->t_ns = detail ? g->t_ns : NULL;
    w->bytes = detail ? g->bytes : NULL;
    w->site = detail ? g->site : NULL;
    w->at = g->at;
    w->wait = g->at ? g->wait : NULL;
    w->delay = g->at && detail ? g->delay : NULL;
    w->probe = probe ? g->probe : NULL;
    w->unended = j->unended;
    w->end_count = j->graph->b.end_count;
    return 0;
}

static void fill_reply_with_next_subgraph_piece(struct slave_graph_ask *j)
{
    bool last = false;
    if (ips_wire_fill_next_piece(&j->wire, &j->cursor, &j->piece, &last,
                                 &j->job.err) < 0) {
        slave_job_fail(&j->job);
        return;
    }
    j->job.reply.answer_case = IPS__REPLY__ANSWER_SUBGRAPH;
    j->job.reply.subgraph = &j->piece.msg;
    j->job.finished = last;
}

/* Returns the sum of the weights of all chain arcs (with CPU weights the total
 * CPU time). */
static uint64_t sum_chain_arc_weights(const struct ips_graph *g)
{
    uint64_t sum = 0;
    for (uint32_t c = 0; c < g->chain_count; c++)
        for (uint32_t i = 1; i < g->chains[c].count; i++)
            sum = ips_add_sat(sum, g->w[g->chains[c].first + i]);
    return sum;
}

void slave_answer_subgraph_request(struct slave_job *job,
                                   struct slave_graphs *gs)
{
    struct slave_graph_ask *j = slave_graph_ask_of_job(job);
    const Ips__SubgraphAsk *ask = slave_graph_get_request(j)->subgraph;
    int rc = slave_graph_use_generation_and_verify(j, gs, ask->generation);
    if (rc == 0 && !j->begun) {
        struct ips_scenario scenario = slave_scenario_from_wire(ask->lane);
        rc = slave_graph_make_scenario_view(j->graph, &scenario, &j->view,
                                            &job->err);
        if (rc == 0 && ask->detail && scenario.weighting != IPS_WEIGH_WALL) {
            j->view.g.at = j->graph->b.g.at;
            j->view.g.wait = j->graph->b.g.wait;
            j->view.g.delay = j->graph->b.g.delay;
        }
        if (rc == 0 && ask->unended) {
            j->unended =
                ips_make_ns_without_waker_by_node(&j->graph->b, &job->err);
            rc = j->unended ? 0 : IPS_E_NO_MEMORY;
        }
        if (rc == 0)
            rc = prepare_wire_graph(j, &j->view.g, ask->detail, ask->probe);
        j->wire.total_cpu_ns = rc == 0 ? sum_chain_arc_weights(&j->view.g) : 0;
    }
    if (rc < 0)
        slave_job_fail(job);
    else
        fill_reply_with_next_subgraph_piece(j);
}

static int get_joins_or_encode_message_times(struct slave_graph_ask *j,
                                             const Ips__ReduceAsk *ask)
{
    struct ips_scenario scenario = slave_scenario_from_wire(ask->lane);
    j->reduced_joins = &j->joins;
    if (ask->detail)
        return ips_joins_encode_send_receive_times(&j->graph->b.g, &j->joins,
                                                   &j->job.err);
    return slave_joins_get_or_compute(j->graph, &scenario, &j->joins,
                                      &j->reduced_joins, &j->shared,
                                      &j->job.err);
}

void slave_answer_reduce_request(struct slave_job *job, struct slave_graphs *gs)
{
    struct slave_graph_ask *j = slave_graph_ask_of_job(job);
    const Ips__ReduceAsk *ask = slave_graph_get_request(j)->reduce;
    int rc = slave_graph_use_generation_and_verify(j, gs, ask->generation);
    if (rc == 0 && !j->reduced_joins)
        rc = get_joins_or_encode_message_times(j, ask);
    if (rc < 0) {
        slave_job_fail(job);
        return;
    }
    bool arcs = j->joins_at >= j->reduced_joins->head.len;
    const struct ips_joins_bytes *b =
        arcs ? &j->reduced_joins->arcs : &j->reduced_joins->head;
    size_t at = j->joins_at - (arcs ? j->reduced_joins->head.len : 0),
           n = b->len - at;
    Ips__Joins *a = &j->answer.joins;
    n = n < PIECE_BYTES ? n : PIECE_BYTES;
    ips__joins__init(a);
    a->data = (ProtobufCBinaryData){.len = n, .data = n ? b->data + at : NULL};
    j->joins_at += n;
    job->reply.answer_case = IPS__REPLY__ANSWER_JOINS;
    job->reply.joins = a;
    job->finished =
        j->joins_at == j->reduced_joins->head.len + j->reduced_joins->arcs.len;
}

/* ---- finish and expand ---- */

void slave_answer_longest_path_request(struct slave_job *job,
                                       struct slave_graphs *gs)
{
    struct slave_graph_ask *j = slave_graph_ask_of_job(job);
    const Ips__FinishAsk *ask = slave_graph_get_request(j)->finish;
    uint64_t *in = NULL;
    int rc = slave_graph_use_generation_and_verify(j, gs, ask->generation);
    if (rc == 0 && ask->value_count != j->graph->b.g.in_count)
        rc = ips_err_set(&job->err, IPS_E_PROTOCOL,
                         "%u values for %u remote receives", ask->value_count,
                         j->graph->b.g.in_count);
    if (rc == 0)
        rc = ips_joins_decode_receive_values(ask->values.data, ask->values.len,
                                             ask->value_count, &in, &job->err);
    if (rc == 0) {
        struct slave_graph *g = j->graph;
        if (g->has_est)
            ips_est_release(&g->est);
        g->has_est = false;
        ips_view_release(&g->view);
        g->scenario = slave_scenario_from_wire(ask->lane);
        rc = slave_graph_make_scenario_view(g, &g->scenario, &g->view,
                                            &job->err);
        if (rc == 0)
            rc = ips_longest_path_compute_ests(&g->view.g, &g->scenario,
                                               g->b.g.in_count ? in : NULL,
                                               &g->est, &job->err);
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

/* Adds to *sum the CPU time, run delay and unended time (waits whose end is not
 * known) of the chain arcs from node `from` to node `to` of one chain. */
static void add_times_of_chain_piece(const struct ips_built *b, uint32_t from,
                                     uint32_t to, Ips__SplitAnswer *sum)
{
    const struct ips_graph *g = &b->g;
    sum->unended_ns = ips_add_sat(
        sum->unended_ns, ips_sum_ns_without_recorded_waker(b, from, to));
    for (uint32_t i = from + 1; i <= to; i++) {
        sum->cpu_ns = ips_add_sat(sum->cpu_ns, g->w[i]);
        if (g->delay)
            sum->delay_ns = ips_add_sat(sum->delay_ns, g->delay[i]);
    }
}

void slave_answer_piece_time_sums_request(struct slave_job *job,
                                          struct slave_graphs *gs)
{
    struct slave_graph_ask *j = slave_graph_ask_of_job(job);
    const Ips__SplitAsk *ask = slave_graph_get_request(j)->split;
    Ips__SplitAnswer *a = &j->answer.split;
    int rc = slave_graph_use_generation_and_verify(j, gs, ask->generation);
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
            add_times_of_chain_piece(&j->graph->b, ask->from[i], ask->to[i], a);
    }
    if (rc < 0) {
        slave_job_fail(job);
        return;
    }
    job->reply.answer_case = IPS__REPLY__ANSWER_SPLIT;
    job->reply.split = a;
    job->finished = true;
}

/* Allocates the memory of one page of the reply: ten columns of 32-bit numbers
 * and one of 64-bit numbers. */
static int allocate_expand_page(struct slave_graph_ask *j)
{
    if (!j->columns)
        j->columns = calloc((size_t)IPS_PIECE_ITEMS * 10, sizeof(uint32_t));
    if (!j->ns)
        j->ns = calloc(IPS_PIECE_ITEMS, sizeof(*j->ns));
    if (!j->columns || !j->ns)
        return ips_err_set(&j->job.err, IPS_E_NO_MEMORY, "out of memory");
    return 0;
}

/* Finds the two nodes of pair number j->at of the request, which may name them
 * by a remote receive and a remote send. */
static int resolve_pair_nodes(const struct slave_graph_ask *j,
                              const Ips__ExpandAsk *ask, uint32_t *from,
                              uint32_t *to, struct ips_err *err)
{
    const struct ips_graph *g = &j->graph->b.g;
    uint32_t in = ask->n_in ? ask->in[j->at] : 0;
    uint32_t out = ask->n_out ? ask->out[j->at] : 0;
    *from = ask->from[j->at];
    *to = ask->to[j->at];
    if (in > g->in_count || out > g->out_count)
        return ips_err_set(err, IPS_E_PROTOCOL,
                           "there is no remote receive %u or send %u", in, out);
    if (in)
        *from = g->in[in - 1].node;
    if (out)
        *to = g->out[out - 1].node;
    if (*to >= g->node_count ||
        (*from != IPS_NO_NODE && *from >= g->node_count))
        return ips_err_set(err, IPS_E_PROTOCOL, "there is no node %u or %u",
                           *from, *to);
    return 0;
}

/* Writes the nodes of pair number j->at, and their chains, into row `n` of the
 * reply's pairs. */
static int write_pair_row(struct slave_graph_ask *j, const Ips__ExpandAsk *ask,
                          size_t n, uint32_t *pair_from, uint32_t *pair_to)
{
    const struct slave_graph *g = j->graph;
    uint32_t from, to, *c = j->columns + 6 * IPS_PIECE_ITEMS + n;
    int rc = resolve_pair_nodes(j, ask, &from, &to, &j->job.err);
    if (rc < 0)
        return rc;
    c[0] = from;
    c[IPS_PIECE_ITEMS] = from == IPS_NO_NODE ? 0 : ips_chain_of(&g->b.g, from);
    c[2 * IPS_PIECE_ITEMS] = to;
    c[3 * IPS_PIECE_ITEMS] = ips_chain_of(&g->b.g, to);
    *pair_from = from;
    *pair_to = to;
    return 0;
}

static int write_pair_row_and_find_its_path(struct slave_graph_ask *j,
                                            const Ips__ExpandAsk *ask, size_t n)
{
    const struct slave_graph *g = j->graph;
    uint32_t from, to;
    int rc = write_pair_row(j, ask, n, &from, &to);
    if (rc == 0)
        rc = ips_path_find_between(&g->view.g, &g->scenario, &g->est, from, to,
                                   &j->path, &j->job.err);
    j->has_path = rc == 0;
    j->path_at = 0;
    return rc;
}

/* Fills the next page of the reply: with pairs until all were sent, then with
 * the sums over the paths of all pairs. */
static int fill_expand_pairs_and_sums(struct slave_graph_ask *j,
                                      const Ips__ExpandAsk *ask, size_t *count,
                                      size_t *pairs)
{
    const struct slave_graph *g = j->graph;
    uint32_t *const c = j->columns, from, to;
    for (; *pairs < IPS_PIECE_ITEMS && j->at < ask->n_to; j->at++) {
        int rc = write_pair_row(j, ask, (*pairs)++, &from, &to);
        if (rc == 0)
            rc = slave_path_sums_add_path(&j->sums, &g->view.g, &g->est, from,
                                          to, &j->job.err);
        if (rc < 0)
            return rc;
    }
    while (j->at == ask->n_to && *count < IPS_PIECE_ITEMS &&
           j->sums_sent < j->sums.sum.n) {
        const struct slave_path_sum *s = &j->sums.sum.v[j->sums_sent++];
        size_t n = (*count)++;
        c[n] = s->kind;
        c[IPS_PIECE_ITEMS + n] = s->xkind;
        c[2 * IPS_PIECE_ITEMS + n] = s->chain;
        c[3 * IPS_PIECE_ITEMS + n] = s->before;
        c[4 * IPS_PIECE_ITEMS + n] = s->count;
        j->ns[n] = s->ns;
    }
    return 0;
}

static int fill_expand_pairs_and_segments(struct slave_graph_ask *j,
                                          const Ips__ExpandAsk *ask,
                                          size_t *count, size_t *pairs)
{
    uint32_t *const c = j->columns;
    size_t n = 0;
    while (n < IPS_PIECE_ITEMS && *pairs < IPS_PIECE_ITEMS &&
           j->at < ask->n_to) {
        if (!j->has_path) {
            int rc = write_pair_row_and_find_its_path(j, ask, (*pairs)++);
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

static void point_expand_answer_to_columns(struct slave_graph_ask *j, bool sums,
                                           size_t n, size_t pairs)
{
    Ips__ExpandAnswer *a = &j->answer.expand;
    ips__expand_answer__init(a);
    uint32_t **const column[] = {&a->kind,
                                 &a->xkind,
                                 &a->chain,
                                 sums ? &a->before : &a->from,
                                 sums ? &a->count : &a->to,
                                 &a->part,
                                 &a->pair_from,
                                 &a->pair_from_chain,
                                 &a->pair_to,
                                 &a->pair_to_chain};
    size_t *const counts[] = {&a->n_kind,
                              &a->n_xkind,
                              &a->n_chain,
                              sums ? &a->n_before : &a->n_from,
                              sums ? &a->n_count : &a->n_to,
                              &a->n_part,
                              &a->n_pair_from,
                              &a->n_pair_from_chain,
                              &a->n_pair_to,
                              &a->n_pair_to_chain};
    for (size_t i = 0; i < 10; i++) {
        *column[i] = j->columns + i * IPS_PIECE_ITEMS;
        *counts[i] = i >= 6 ? pairs : i == 5 && sums ? 0 : n;
    }
    a->ns = j->ns;
    a->n_ns = n;
}

void slave_answer_path_expansion_request(struct slave_job *job,
                                         struct slave_graphs *gs)
{
    struct slave_graph_ask *j = slave_graph_ask_of_job(job);
    const Ips__ExpandAsk *ask = slave_graph_get_request(j)->expand;
    size_t n = 0, pairs = 0;
    int rc = slave_graph_use_generation_and_verify(j, gs, ask->generation);
    if (rc == 0 &&
        (!j->graph->has_est || ask->n_from != ask->n_to ||
         (ask->n_in && ask->n_in != ask->n_to) || ask->n_out != ask->n_in))
        rc = ips_err_set(&job->err, IPS_E_PROTOCOL,
                         "nothing to expand: FinishAsk comes first");
    if (rc == 0)
        rc = allocate_expand_page(j);
    if (rc == 0)
        rc = ask->sums ? fill_expand_pairs_and_sums(j, ask, &n, &pairs)
                       : fill_expand_pairs_and_segments(j, ask, &n, &pairs);
    if (rc < 0) {
        slave_job_fail(job);
        return;
    }
    point_expand_answer_to_columns(j, ask->sums, n, pairs);
    job->reply.answer_case = IPS__REPLY__ANSWER_EXPAND;
    job->reply.expand = &j->answer.expand;
    job->finished = j->at >= ask->n_to && j->sums_sent == j->sums.sum.n;
}
