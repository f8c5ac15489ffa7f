/* What the slaves of cluster.h say about their graphs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/distributed/joins.h"
#include "proto/graph_wire.h"
#include "tests/support/fake_slave.h"

static uint32_t *column(uint32_t n)
{
    uint32_t *c = calloc((size_t)n + 1, sizeof(*c));
    assert_non_null(c);
    return c;
}

static uint64_t *wide_column(uint32_t n)
{
    uint64_t *c = calloc((size_t)n + 1, sizeof(*c));
    assert_non_null(c);
    return c;
}

static void lay_out(const struct ips_graph *g, struct ips_wire_graph *w)
{
    memset(w, 0, sizeof(*w));
    w->chain_count = g->chain_count;
    w->chain_nodes = column(g->chain_count);
    w->chain_process = column(g->chain_count);
    w->chain_pid = column(g->chain_count);
    w->chain_tid = column(g->chain_count);
    w->chain_thread = column(g->chain_count);
    for (uint32_t i = 0; i < g->chain_count; i++) {
        w->chain_nodes[i] = g->chains[i].count;
        w->chain_process[i] = g->chains[i].process;
        w->chain_pid[i] = g->chains[i].pid;
        w->chain_tid[i] = g->chains[i].tid;
        w->chain_thread[i] = g->chains[i].thread;
    }
    w->node_count = g->node_count;
    w->kind = g->kind;
    w->xkind = g->xkind;
    w->w = g->w;
    w->xlen = g->xlen;
    w->xpred = g->xpred;
    w->in_count = g->in_count;
    w->in_node = column(g->in_count);
    w->in_end = column(g->in_count);
    w->in_pos = wide_column(g->in_count);
    for (uint32_t i = 0; i < g->in_count; i++) {
        w->in_node[i] = g->in[i].node;
        w->in_end[i] = g->in[i].end;
        w->in_pos[i] = g->in[i].pos;
    }
    w->out_count = g->out_count;
    w->out_node = column(g->out_count);
    w->out_end = column(g->out_count);
    w->out_len = column(g->out_count);
    w->out_pos = wide_column(g->out_count);
    for (uint32_t i = 0; i < g->out_count; i++) {
        w->out_node[i] = g->out[i].node;
        w->out_end[i] = g->out[i].end;
        w->out_len[i] = g->out[i].len;
        w->out_pos[i] = g->out[i].pos;
    }
    w->out_ns = g->out_ns; /* lent */
}

static void free_layout(struct ips_wire_graph *w)
{
    free(w->chain_nodes);
    free(w->chain_process);
    free(w->chain_pid);
    free(w->chain_tid);
    free(w->chain_thread);
    free(w->in_node);
    free(w->in_end);
    free(w->in_pos);
    free(w->out_node);
    free(w->out_end);
    free(w->out_len);
    free(w->out_pos);
}

static void send_graph(struct fake_slave *s, uint64_t id,
                       struct ips_wire_graph *w, bool corrupt)
{
    struct ips_wire_cursor at = {0};
    struct ips_wire_piece piece = {0};
    bool last = false;
    while (!last) {
        Ips__Reply reply = IPS__REPLY__INIT;
        assert_int_equal(ips_wire_fill_next_piece(w, &at, &piece, &last, NULL),
                         0);
        if (corrupt && piece.msg.n_xpred > 0)
            piece.xpred[piece.msg.n_xpred - 1] = 0xfffffff0u;
        reply.answer_case = IPS__REPLY__ANSWER_SUBGRAPH;
        reply.subgraph = &piece.msg;
        fake_slave_answer(s, id, &reply, last);
    }
    ips_wire_piece_release(&piece);
}

static struct ips_scenario lane_of(const Ips__Lane *l)
{
    struct ips_scenario lane = {.external = (enum ips_external)l->external,
                                .calibrated = l->calibrated};
    lane.message_time.base_ns = l->message_time_base_ns;
    lane.message_time.per_byte_q32 = l->message_time_per_byte_q32;
    lane.message_time.scale_num = l->scale_num;
    lane.message_time.scale_den = l->scale_den;
    return lane;
}

void fake_slave_view(const struct fake_slave *s,
                     const struct ips_scenario *lane, struct ips_view *out)
{
    struct ips_graph g = *s->g; /* lent */
    g.message_times = s->message_times.curve_count ? &s->message_times : NULL;
    assert_true(g.message_times || !lane->calibrated);
    assert_int_equal(ips_graph_make_view(&g, lane, out, NULL), 0);
}

void fake_slave_subgraph(struct fake_slave *s, const Ips__Request *r,
                         bool corrupt)
{
    const struct ips_graph *g = s->g;
    struct ips_scenario lane = lane_of(r->subgraph->lane);
    struct ips_view view;
    struct ips_wire_graph w;
    fake_slave_view(s, &lane, &view);
    lay_out(&view.g, &w);
    if (r->subgraph->detail) {
        w.t_ns = g->t_ns;
        w.site = g->site;
    }
    for (uint32_t c = 0; c < g->chain_count; c++)
        for (uint32_t i = 1; i < g->chains[c].count; i++)
            w.total_cpu_ns += g->w[g->chains[c].first + i];
    w.end_count = s->end_count;
    send_graph(s, r->id, &w, corrupt);
    free_layout(&w);
    ips_view_release(&view);
}

/* When its remote sends and receives were: all clocks agree, and messages take
 * 100 ns. */
static void lay_moments(const struct ips_graph *g, struct ips_joins *out)
{
    struct ips_graph timed = *g; /* lent */
    timed.t_ns = wide_column(g->node_count);
    for (uint32_t i = 0; i < g->node_count; i++)
        timed.t_ns[i] = g->kind[i] == IPS_NODE_SEND ? 1000000 : 1000100;
    assert_int_equal(ips_joins_encode_send_receive_times(&timed, out, NULL), 0);
    free(timed.t_ns);
}

void fake_slave_reduce(struct fake_slave *s, const Ips__Request *r,
                       bool corrupt)
{
    struct ips_scenario lane = lane_of(r->reduce->lane);
    struct ips_joins j;
    struct ips_view view;
    fake_slave_view(s, &lane, &view);
    if (r->reduce->detail)
        lay_moments(&view.g, &j);
    else
        assert_int_equal(ips_joins_compute_and_encode(&view.g, &lane, &j, NULL),
                         0);
    ips_view_release(&view);
    if (corrupt)
        j.head.data[j.head.len - 1] ^= 0x80; /* a number goes on */
    const struct ips_joins_bytes *const part[] = {&j.head, &j.arcs};
    for (int k = 0; k < 2; k++) {
        Ips__Joins a = IPS__JOINS__INIT;
        Ips__Reply reply = IPS__REPLY__INIT;
        a.data.data = part[k]->data;
        a.data.len = part[k]->len;
        reply.answer_case = IPS__REPLY__ANSWER_JOINS;
        reply.joins = &a;
        fake_slave_answer(s, r->id, &reply, k == 1);
    }
    ips_joins_release(&j);
}

void fake_slave_finish(struct fake_slave *s, const Ips__Request *r,
                       bool corrupt)
{
    const Ips__FinishAsk *f = r->finish;
    uint64_t *values;
    uint8_t *more = realloc(s->values, s->value_bytes + f->values.len + 1);
    assert_non_null(more);
    s->values = more;
    if (f->values.len)
        memcpy(more + s->value_bytes, f->values.data, f->values.len);
    s->value_bytes += f->values.len;
    if (f->more)
        return;
    assert_int_equal(f->value_count, s->g->in_count);
    assert_int_equal(ips_joins_decode_receive_values(s->values, s->value_bytes,
                                                     f->value_count, &values,
                                                     NULL),
                     0);
    s->lane = lane_of(f->lane);
    ips_est_release(&s->est);
    ips_view_release(&s->view);
    fake_slave_view(s, &s->lane, &s->view);
    assert_int_equal(ips_longest_path_compute_ests(&s->view.g, &s->lane, values,
                                                   &s->est, NULL),
                     0);
    free(values);
    s->value_bytes = 0;
    Ips__FinishAnswer a = IPS__FINISH_ANSWER__INIT;
    Ips__Reply reply = IPS__REPLY__INIT;
    a.t_max_ns = corrupt ? UINT64_MAX - 7 : s->est.t_max;
    reply.answer_case = IPS__REPLY__ANSWER_FINISH;
    reply.finish = &a;
    fake_slave_answer(s, r->id, &reply, true);
}

/* Pair k of those asked for, as one answer. */
static void expand_pair(struct fake_slave *s, const Ips__Request *r, uint32_t k,
                        bool corrupt, bool last)
{
    const struct ips_graph *g = s->g;
    const uint32_t *pair = s->pairs + 4 * k;
    uint32_t from = pair[2] ? g->in[pair[2] - 1].node : pair[0];
    uint32_t to = pair[3] ? g->out[pair[3] - 1].node : pair[1];
    uint32_t from_chain = from == IPS_NO_NODE ? 0 : ips_chain_of(g, from);
    uint32_t to_chain = ips_chain_of(g, to);
    struct ips_path path;
    assert_int_equal(ips_path_find_between(&s->view.g, &s->lane, &s->est, from,
                                           to, &path, NULL),
                     0);
    uint32_t n = (uint32_t)path.count;
    uint32_t *col[6];
    uint64_t *ns = wide_column(n);
    for (int i = 0; i < 6; i++)
        col[i] = column(n);
    bool sums = r->expand->sums; /* of one piece each */
    uint32_t before = from == IPS_NO_NODE && n ? path.seg[0].chain : from_chain;
    for (uint32_t i = 0; i < n; i++) {
        col[0][i] = (uint32_t)path.seg[i].kind;
        col[1][i] = path.seg[i].xkind;
        col[2][i] = path.seg[i].chain;
        col[3][i] = sums ? before : path.seg[i].from;
        col[4][i] = sums ? 1 : path.seg[i].to;
        before = path.seg[i].chain;
        col[5][i] = k;
        ns[i] = path.seg[i].ns + (corrupt && i == 0);
    }
    /* In two pieces: they concatenate. */
    const uint32_t cut[] = {0, n / 2, n};
    for (int h = 0; h < 2; h++) {
        uint32_t at = cut[h];
        Ips__ExpandAnswer a = IPS__EXPAND_ANSWER__INIT;
        Ips__Reply reply = IPS__REPLY__INIT;
        a.n_kind = a.n_xkind = a.n_chain = a.n_ns = cut[h + 1] - at;
        a.n_from = a.n_to = a.n_part = sums ? 0 : a.n_kind;
        a.n_before = a.n_count = sums ? a.n_kind : 0;
        a.kind = col[0] + at;
        a.xkind = col[1] + at;
        a.chain = col[2] + at;
        a.from = a.before = col[3] + at;
        a.to = a.count = col[4] + at;
        a.part = col[5] + at;
        a.ns = ns + at;
        a.n_pair_from = a.n_pair_from_chain = a.n_pair_to = a.n_pair_to_chain =
            h == 0;
        a.pair_from = &from;
        a.pair_from_chain = &from_chain;
        a.pair_to = &to;
        a.pair_to_chain = &to_chain;
        reply.answer_case = IPS__REPLY__ANSWER_EXPAND;
        reply.expand = &a;
        fake_slave_answer(s, r->id, &reply, last && h == 1);
    }
    for (int i = 0; i < 6; i++)
        free(col[i]);
    free(ns);
    ips_path_release(&path);
}

void fake_slave_expand(struct fake_slave *s, const Ips__Request *r,
                       bool corrupt)
{
    const Ips__ExpandAsk *e = r->expand;
    assert_true(e->n_from == e->n_to && e->n_in == e->n_to &&
                e->n_out == e->n_to);
    uint32_t *more =
        realloc(s->pairs, (s->pair_count + e->n_to + 1) * 4 * sizeof(*more));
    assert_non_null(more);
    s->pairs = more;
    for (size_t k = 0; k < e->n_to; k++) {
        uint32_t *pair = more + 4 * s->pair_count++;
        pair[0] = e->from[k];
        pair[1] = e->to[k];
        pair[2] = e->in[k];
        pair[3] = e->out[k];
    }
    if (e->more)
        return;
    for (uint32_t k = 0; k < s->pair_count; k++)
        expand_pair(s, r, k, corrupt, k + 1 == s->pair_count);
    s->pair_count = 0;
}

void fake_slave_portions(struct fake_slave *s, const Ips__Request *r,
                         bool corrupt)
{
    Ips__PortionSymbol symbol[2], *list[2] = {&symbol[0], &symbol[1]};
    Ips__PortionsAnswer a = IPS__PORTIONS_ANSWER__INIT;
    Ips__Reply reply = IPS__REPLY__INIT;
    const struct ips_graph *g = s->g;
    for (int i = 0; i < 2; i++) {
        ips__portion_symbol__init(&symbol[i]);
        symbol[i].name = ips_unconst_text(i ? "odd" : "even");
        symbol[i].module = ips_unconst_text("/bin/fake");
    }
    a.node = calloc((size_t)g->node_count + 1, sizeof(*a.node));
    a.symbol = calloc((size_t)g->node_count + 1, sizeof(*a.symbol));
    a.ns = calloc((size_t)g->node_count + 1, sizeof(*a.ns));
    assert_true(a.node && a.symbol && a.ns);
    for (uint32_t i = 0; i < g->node_count; i++) {
        if (i % 3 == 2 || g->w[i] < 2)
            continue;
        a.node[a.n_node] = i;
        a.symbol[a.n_node] = i % 3;
        a.ns[a.n_node++] = g->w[i] - 1;
    }
    if (corrupt) {
        a.node[a.n_node] = g->node_count;
        a.ns[a.n_node++] = 1;
    }
    a.n_symbol = a.n_ns = a.n_node;
    a.n_symbols = 2;
    a.symbols = list;
    reply.answer_case = IPS__REPLY__ANSWER_PORTIONS;
    reply.portions = &a;
    fake_slave_answer(s, r->id, &reply, true);
    free(a.node);
    free(a.symbol);
    free(a.ns);
}
