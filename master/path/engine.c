#include "master/path/weighting.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/large.h"
#include "common/types.h"
#include "master/query/gather.h"

/* Number of pieces that are added to the shares in one batch, in scenarios
 * whose pieces are not kept. */
#define COUNTED_TOGETHER ((uint64_t)1 << 14)

enum scenario_id engine_find_next_wanted_scenario(const struct path_data *d,
                                                  enum scenario_id at)
{
    for (int i = (int)at + 1; i < SCENARIOS; i++) {
        if (d->scenarios[i].wanted)
            return (enum scenario_id)i;
    }
    return SCENARIOS;
}

void engine_mark_or_count_traffic(struct query *q, bool mark)
{
    struct path_data *d = path_data_of(q);
    struct ips_traffic_count all = {0, 0};
    for (uint32_t i = 0; i < q->gather.count; i++) {
        const struct slave *s = q->gather.active[i]->slave;
        if (!s || !s->peer)
            continue;
        struct ips_traffic_count one = ips_peer_traffic(s->peer);
        all.frames += one.frames;
        all.bytes += one.bytes;
    }
    if (mark) {
        d->mark = all;
        return;
    }
    d->cost.messages = ips_sub_sat(all.frames, d->mark.frames);
    d->cost.bytes = ips_sub_sat(all.bytes, d->mark.bytes);
}

/* ---- numbering the nodes of all machines ------------------------------- */

static int set_nothing_recorded_error(const struct query *q, const char *what,
                                      struct ips_err *err)
{
    char missing[400];
    gather_write_missing_machines(q, missing, sizeof(missing));
    for (uint32_t i = 0; i < q->gather.count; i++) {
        const struct machine_share *p = q->gather.active[i];
        const char *trouble = p->sync->state->trouble;
        size_t at = strlen(missing);
        if (*trouble)
            snprintf(missing + at, sizeof(missing) - at, "%smachine %s %.200s",
                     at ? "; " : "", p->machine, trouble);
    }
    return ips_err_set(err, IPS_E_INCOMPLETE,
                       "run %s has recorded nothing yet: no %s%s%s", q->run,
                       what, *missing ? "; " : "", missing);
}

int engine_init_machines_and_number_nodes(struct query *q, const char *what,
                                          struct ips_err *err)
{
    struct path_data *d = path_data_of(q);
    d->nodes = 0;
    for (uint32_t i = 0; i < q->gather.count; i++) {
        struct machine_share *p = q->gather.active[i];
        struct engine_machine *e = p->own = calloc(1, sizeof(*e));
        if (!e)
            return ips_err_set(err, IPS_E_NO_MEMORY, "no memory");
        e->base = d->nodes;
        d->nodes = ips_add_sat(d->nodes, p->sync->nodes);
    }
    if (d->nodes == 0)
        return set_nothing_recorded_error(q, what, err);
    return d->nodes < IPS_NO_NODE
               ? 0
               : ips_err_set(err, IPS_E_LIMIT,
                             "run %s has more nodes than one graph may have",
                             q->run);
}

/* ---- receiving subgraphs ----------------------------------------------- */

static void free_machine_graph(struct engine_machine *e)
{
    ips_wire_receiver_release(&e->taker);
    ips_graph_release(&e->g);
    ips_free_large(e->joins.data);
    free(e->reported.pair);
    memset(&e->joins, 0, sizeof(e->joins));
    /* Keep the buffer for the pieces: the next scenario has about as many of
     * them. */
    e->reported = (struct engine_reported_pieces){.piece = e->reported.piece,
                                                  .cap = e->reported.cap};
}

void engine_release_path_piece_buffers(struct query *q)
{
    for (uint32_t i = 0; i < q->machine_count; i++) {
        struct engine_machine *e = q->machines[i].own;
        if (!e)
            continue;
        free(e->reported.piece);
        e->reported.piece = NULL;
        e->reported.cap = 0;
    }
}

static void reset_machine_and_init_graph_receiver(struct machine_share *p,
                                                  bool detail)
{
    struct engine_machine *e = engine_data_of_machine(p);
    free_machine_graph(e);
    ips_wire_receiver_init(&e->taker, ENGINE_MAX_NODES, detail);
}

/* Receives one message with nodes of a subgraph, and lets the slave send one
 * more. */
static int append_subgraph_and_allow_next_reply(struct query *q,
                                                struct machine_share *p,
                                                const Ips__Reply *reply,
                                                struct ips_err *err)
{
    if (reply->answer_case != IPS__REPLY__ANSWER_SUBGRAPH)
        return ips_err_set(err, IPS_E_PROTOCOL, "no subgraph in its answer");
    int rc = ips_wire_append_received_piece(&engine_data_of_machine(p)->taker,
                                            reply->subgraph, err);
    if (rc == 0 && !reply->last)
        query_widen_reply_window(q, p);
    return rc;
}

void engine_fetch_subgraphs(struct query *q, bool detail,
                            void (*after)(struct query *q))
{
    query_open_round(q, append_subgraph_and_allow_next_reply, after);
    for (uint32_t i = 0; i < q->gather.count; i++) {
        struct machine_share *p = q->gather.active[i];
        Ips__SubgraphAsk ask = IPS__SUBGRAPH_ASK__INIT;
        Ips__Request request = IPS__REQUEST__INIT;
        Ips__Lane scenario;
        weighting_write_scenario(
            q, p, &path_data_of(q)->scenarios[SCENARIO_MAIN].scenario,
            &scenario);
        ask.lane = &scenario;
        ask.generation = p->sync->generation;
        ask.detail = detail;
        ask.probe =
            detail || path_data_of(q)->scenarios[SCENARIO_NO_PROBE].wanted;
        ask.unended = path_data_of(q)->scenarios[SCENARIO_UNENDED].wanted;
        ask.window = ENGINE_WINDOW;
        request.ask_case = IPS__REQUEST__ASK_SUBGRAPH;
        request.subgraph = &ask;
        reset_machine_and_init_graph_receiver(p, detail);
        query_send_request_to_slave(q, p, &request, true);
        p->window = ENGINE_WINDOW;
    }
    query_close_round(q);
}

/* ---- receiving joins ----------------------------------------------------- */

static int append_joins_reply(struct query *q, struct machine_share *p,
                              const Ips__Reply *reply, struct ips_err *err)
{
    struct engine_joins_buffer *b = &engine_data_of_machine(p)->joins;
    (void)q;
    if (reply->answer_case != IPS__REPLY__ANSWER_JOINS)
        return ips_err_set(err, IPS_E_PROTOCOL, "no joins in its answer");
    size_t n = reply->joins->data.len, need = b->len + n + IPS_JOINS_PAD;
    if (need > ENGINE_MAX_JOINS_BYTES)
        return ips_err_set(err, IPS_E_LIMIT, "joins of more than %zu bytes",
                           ENGINE_MAX_JOINS_BYTES);
    if (need > b->cap) {
        size_t cap = need + b->cap;
        uint8_t *bigger = ips_resize_large(b->data, b->len, cap);
        if (!bigger)
            return ips_err_set(err, IPS_E_NO_MEMORY, "no memory for joins");
        b->data = bigger;
        b->cap = cap;
    }
    if (n)
        memcpy(b->data + b->len, reply->joins->data.data, n);
    b->len += n;
    memset(b->data + b->len, 0, IPS_JOINS_PAD);
    return 0;
}

void engine_fetch_joins(struct query *q, const struct ips_scenario *scenario,
                        bool moments, void (*after)(struct query *q))
{
    query_open_round(q, append_joins_reply, after);
    for (uint32_t i = 0; i < q->gather.count; i++) {
        struct machine_share *p = q->gather.active[i];
        Ips__ReduceAsk ask = IPS__REDUCE_ASK__INIT;
        Ips__Request request = IPS__REQUEST__INIT;
        Ips__Lane to;
        weighting_write_scenario(q, p, scenario, &to);
        ask.generation = p->sync->generation;
        ask.lane = &to;
        ask.detail = moments;
        request.ask_case = IPS__REQUEST__ASK_REDUCE;
        request.reduce = &ask;
        free_machine_graph(engine_data_of_machine(p));
        query_send_request_to_slave(q, p, &request, true);
    }
    query_close_round(q);
}

struct ips_machine_joins *engine_list_received_joins(struct query *q)
{
    uint32_t n = q->gather.count;
    struct ips_machine_joins *parts = calloc((size_t)n + 1, sizeof(*parts));
    if (!parts)
        ips_err_set(&path_data_of(q)->err, IPS_E_NO_MEMORY, "no memory");
    for (uint32_t i = 0; i < n && parts; i++) {
        const struct machine_share *p = q->gather.active[i];
        const struct engine_joins_buffer *b = &engine_data_of_machine(p)->joins;
        parts[i] = (struct ips_machine_joins){.data = b->data,
                                              .len = b->len,
                                              .nodes = p->sync->nodes,
                                              .peer = p->peer,
                                              .end_count = p->peer_count};
    }
    return parts;
}

/* ---- making graphs, in the worker -------------------------------------- */

/* Moves the received arrays into a graph. The chains, remote receives (in) and
 * remote sends (out) are converted. */
static int make_graph_from_wire(struct engine_machine *e, uint32_t part,
                                struct ips_err *err)
{
    struct ips_wire_graph *w = &e->taker.g;
    struct ips_graph *g = &e->g;
    uint64_t first = 0;
    ips_graph_init(g);
    g->chains = calloc((size_t)w->chain_count + 1, sizeof(*g->chains));
    g->in = calloc((size_t)w->in_count + 1, sizeof(*g->in));
    g->out = calloc((size_t)w->out_count + 1, sizeof(*g->out));
    if (!g->chains || !g->in || !g->out)
        return ips_err_set(err, IPS_E_NO_MEMORY, "no memory for a subgraph");
    for (uint32_t i = 0; i < w->chain_count; i++) {
        g->chains[i] = (struct ips_chain){.first = (uint32_t)first,
                                          .count = w->chain_nodes[i],
                                          .machine = part,
                                          .process = w->chain_process[i],
                                          .pid = w->chain_pid[i],
                                          .tid = w->chain_tid[i],
                                          .thread = w->chain_thread[i]};
        first += w->chain_nodes[i];
        if (first > w->node_count)
            return ips_err_set(err, IPS_E_CORRUPT,
                               "its chains have more nodes than it sent");
    }
    for (uint32_t i = 0; i < w->in_count; i++)
        g->in[i] = (struct ips_remote_in){
            .node = w->in_node[i], .end = w->in_end[i], .pos = w->in_pos[i]};
    for (uint32_t i = 0; i < w->out_count; i++)
        g->out[i] = (struct ips_remote_out){.node = w->out_node[i],
                                            .end = w->out_end[i],
                                            .pos = w->out_pos[i],
                                            .len = w->out_len[i]};
    g->chain_count = w->chain_count;
    g->node_count = w->node_count;
    g->in_count = w->in_count;
    g->out_count = w->out_count;
    g->kind = w->kind;
    g->xkind = w->xkind;
    g->w = w->w;
    g->xlen = w->xlen;
    g->xpred = w->xpred;
    g->t_ns = w->t_ns;
    g->site = w->site;
    g->at = w->at;
    g->wait = w->wait;
    g->delay = w->delay;
    g->probe = w->probe;
    g->unended = w->unended;
    g->out_ns = w->out_ns;
    g->bytes = w->bytes;
    w->kind = w->xkind = NULL;
    w->w = w->xlen = w->t_ns = w->at = w->wait = w->delay = NULL;
    w->xpred = w->site = w->probe = NULL;
    w->out_ns = w->bytes = w->unended = NULL;
    return ips_graph_check_invariants(g, err);
}

bool engine_make_graphs(struct query *q)
{
    struct path_data *d = path_data_of(q);
    uint64_t total = 0;
    for (uint32_t i = 0; i < q->gather.count; i++) {
        struct machine_share *p = q->gather.active[i];
        struct engine_machine *e = engine_data_of_machine(p);
        total = ips_add_sat(total, e->taker.g.total_cpu_ns);
        if (make_graph_from_wire(e, i, &d->err) < 0) {
            d->blame = p;
            return false;
        }
        ips_wire_receiver_release(&e->taker);
    }
    if (d->now == SCENARIO_MAIN)
        d->total_cpu_ns = total;
    return true;
}

bool engine_merge_graphs(struct query *q)
{
    struct path_data *d = path_data_of(q);
    uint32_t n = q->gather.count;
    struct ips_machine_graph *parts = calloc(n, sizeof(*parts));
    free(d->node_base);
    d->node_base = calloc(n, sizeof(*d->node_base));
    int rc = 0;
    if (!parts || !d->node_base) {
        rc = ips_err_set(&d->err, IPS_E_NO_MEMORY, "no memory");
    } else {
        for (uint32_t i = 0; i < n; i++) {
            const struct machine_share *p = q->gather.active[i];
            parts[i] =
                (struct ips_machine_graph){.g = &engine_data_of_machine(p)->g,
                                           .peer = p->peer,
                                           .end_count = p->peer_count};
        }
        rc = ips_graph_merge(parts, n, &d->scenarios[d->now].scenario,
                             &d->merged, d->node_base, &d->unmatched, &d->err);
    }
    free(parts);
    return rc == 0;
}

void engine_release_graphs(struct query *q)
{
    struct path_data *d = path_data_of(q);
    for (uint32_t i = 0; i < q->machine_count; i++) {
        if (q->machines[i].own)
            free_machine_graph(engine_data_of_machine(&q->machines[i]));
    }
    ips_graph_release(&d->merged);
    ips_est_release(&d->est);
    ips_joined_release(&d->joined);
    free(d->visit);
    d->visit = NULL;
    d->visit_count = 0;
    free(d->node_base);
    d->node_base = NULL;
}

/* ---- collecting the pieces of the path --------------------------------- */

struct path_thread engine_thread_of_node(const struct ips_graph *g,
                                         uint32_t node)
{
    uint32_t low = 0, high = g->chain_count;
    while (high - low > 1) {
        uint32_t mid = low + (high - low) / 2;
        if (g->chains[mid].first <= node)
            low = mid;
        else
            high = mid;
    }
    const struct ips_chain *c = &g->chains[low];
    return (struct path_thread){
        .machine = c->machine, .process = c->process, .tid = c->tid};
}

static bool is_same_thread(struct path_thread a, struct path_thread b)
{
    return a.machine == b.machine && a.process == b.process && a.tid == b.tid;
}

/* Adds the pieces in d->work, except the last `left`, to the shares. */
static bool add_pieces_to_shares(struct path_data *d, uint64_t left)
{
    struct shares *s = &d->scenarios[d->now].shares;
    for (uint64_t i = 0; i + left < d->work_count; i++)
        if (shares_add_next_piece(s, &d->work[i], &d->err) < 0)
            return false;
    return true;
}

/* Makes room for one more piece. In scenarios other than the main one, a full
 * batch is added to the shares and dropped, except its last piece. The cm
 * engines walk backwards, so they must keep all pieces until the end. */
static bool flush_or_grow_piece_buffer(struct path_data *d)
{
    if (d->now != SCENARIO_MAIN && !d->cm &&
        d->work_count == COUNTED_TOGETHER) {
        bool fine = add_pieces_to_shares(d, 1);
        d->work[0] = d->work[d->work_count - 1];
        d->work_count = 1;
        return fine;
    }
    if (d->work_count < d->work_cap)
        return true;
    uint64_t cap = ips_max_u64(d->work_cap * 2, COUNTED_TOGETHER);
    struct path_piece *more = realloc(d->work, cap * sizeof(*more));
    if (!more) {
        ips_err_set(&d->err, IPS_E_NO_MEMORY, "no memory for the path");
        return false;
    }
    d->work = more;
    d->work_cap = cap;
    return true;
}

bool engine_append_or_merge_piece(struct path_data *d, struct path_thread came,
                                  const struct path_piece *piece)
{
    struct scenario_result *r = &d->scenarios[d->now];
    struct path_piece *last =
        d->work_count ? &d->work[d->work_count - 1] : NULL;
    /* The cm engines walk backwards: the last piece pushed is the first of the
     * path. */
    if (d->cm || !last)
        r->begin = r->shares.at = came;
    if (last && last->kind == IPS_SEG_COMPUTE &&
        piece->kind == IPS_SEG_COMPUTE && last->to == piece->from &&
        /* `last` starts at a node, not before its chain */
        last->from != IPS_NO_NODE && is_same_thread(last->at, piece->at)) {
        last->to = piece->to;
        last->ns += piece->ns;
        return true;
    }
    if (!flush_or_grow_piece_buffer(d))
        return false;
    d->work[d->work_count++] = *piece;
    return true;
}

bool engine_finish_shares_and_pieces(struct path_data *d)
{
    struct scenario_result *r = &d->scenarios[d->now];
    if (r->with_shares &&
        (!add_pieces_to_shares(d, 0) ||
         shares_rank_and_check_sum(&r->shares, r->t_max, &d->err) < 0))
        return false;
    if (d->now == SCENARIO_MAIN) {
        d->pieces = d->work;
        d->piece_count = d->work_count;
        d->work = NULL;
        d->work_cap = 0;
    }
    d->work_count = 0;
    return true;
}

void engine_exclude_blamed_machine_or_fail(struct query *q)
{
    struct path_data *d = path_data_of(q);
    if (d->blame) {
        /* query_close_round() ends the round now, and then the question
         * restarts without the machine. */
        struct machine_share *p = d->blame;
        d->blame = NULL;
        query_mark_machine_failed(q, p, &d->err);
        query_close_round(q);
        return;
    }
    query_fail(q, &d->err);
}

void engine_release_path_data(struct query *q)
{
    struct path_data *d = path_data_of(q);
    if (!d)
        return;
    engine_release_graphs(q);
    engine_release_path_piece_buffers(q);
    for (uint32_t i = 0; i < q->machine_count; i++) {
        free(q->machines[i].own);
        q->machines[i].own = NULL;
    }
    for (int i = 0; i < SCENARIOS; i++)
        shares_release(&d->scenarios[i].shares);
    free(d->pieces);
    free(d->work);
    free(d->cm);
    free(d);
    q->data = NULL;
}
