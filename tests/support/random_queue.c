#include "tests/support/random_queue.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/random_graph.h"

#define NODES 2048u
#define NOBODY UINT32_MAX

/* A node of a chain that is being written: what it awaits is a send's mark. */
struct node {
    uint64_t w, bytes;
    uint32_t from; /* mark of the send, or NOBODY */
    uint8_t kind, xkind;
};
struct writing {
    struct rq *q;
    uint64_t s;
    struct node node[RQ_WORKERS + 1][NODES];
    uint32_t count[RQ_WORKERS + 1];
    uint32_t mark_chain[4 * NODES], mark_node[4 * NODES], marks;
    uint32_t line[RQ_WORKERS][RQ_PIECES]; /* pieces that a worker has */
    uint32_t have[RQ_WORKERS];
    uint32_t asked[RQ_PIECES], sent[RQ_PIECES]; /* marks */
    uint64_t before[RQ_WORKERS + 1];            /* work of the next node */
};

static uint64_t work(struct writing *w, uint32_t max)
{
    return rg_below(&w->s, 8) ? rg_below(&w->s, max + 1) : 0;
}

/* Chain c's next node; its mark. */
static uint32_t put(struct writing *w, uint32_t c, uint8_t kind, uint64_t more)
{
    uint32_t k = w->count[c]++;
    if (k >= NODES || w->marks >= 4 * NODES)
        abort();
    w->node[c][k] =
        (struct node){.w = w->before[c] + more, .from = NOBODY, .kind = kind};
    w->before[c] = 0;
    w->mark_chain[w->marks] = c;
    w->mark_node[w->marks] = k;
    return w->marks++;
}

static uint32_t receive(struct writing *w, uint32_t c, uint32_t of,
                        uint8_t xkind, uint64_t bytes)
{
    uint32_t mark = put(w, c, IPS_NODE_RECV, 0);
    struct node *n = &w->node[c][w->count[c] - 1];
    n->from = of;
    n->xkind = xkind;
    n->bytes = bytes;
    return mark;
}

static uint32_t chain_of(const struct rq *q, uint32_t worker)
{
    return q->last ? worker : worker + 1;
}

static void draw(struct writing *w, uint32_t max)
{
    struct rq *q = w->q;
    uint64_t *s = &w->s;
    q->workers = 2 + rg_below(s, RQ_WORKERS - 1);
    q->stops = rg_below(s, 2);
    q->last = rg_below(s, 2);
    q->window = q->stops ? 1 : 1 + rg_below(s, 3);
    q->pieces = q->workers * q->window + 1;
    q->pieces += rg_below(s, RQ_PIECES - q->pieces + 1);
    q->dispatcher = q->last ? q->workers : 0;
    q->ready = work(w, max / 8);
    q->end = work(w, max);
    q->stop_bytes = rg_below(s, 100);
    for (uint32_t c = 0; c <= q->workers; c++)
        q->connect[c] = work(w, max);
    for (uint32_t p = 0; p < q->pieces; p++)
        q->piece[p] =
            (struct rq_piece){.work = work(w, rg_below(s, 4) ? max : 8 * max),
                              .behind = work(w, max / 16),
                              .taking = work(w, max / 16),
                              .taken = work(w, max / 8),
                              .receives = 1 + rg_below(s, 2),
                              .bytes = rg_below(s, 1000),
                              .result_bytes = rg_below(s, 1000)};
    for (uint32_t t = 0; t < q->pieces; t++)
        q->turn[t] = (struct rq_turn){work(w, max / 8), work(w, max / 16)};
}

static void give(struct writing *w, uint32_t v, uint32_t p)
{
    struct rq *q = w->q;
    uint32_t sent = put(w, q->dispatcher, IPS_NODE_SEND, 0);
    uint32_t c = chain_of(q, v);
    receive(w, c, sent, IPS_X_DATA, q->piece[p].bytes);
    w->sent[p] = put(w, c, IPS_NODE_SEND, q->piece[p].work);
    w->before[c] = q->piece[p].behind;
    w->line[v][w->have[v]++] = p;
}

/* Piece p's result is taken. */
static void take(struct writing *w, uint32_t p)
{
    struct rq *q = w->q;
    uint32_t d = q->dispatcher;
    for (uint32_t k = 0; k < q->piece[p].receives; k++) {
        uint32_t mark =
            receive(w, d, w->sent[p], IPS_X_DATA, q->piece[p].result_bytes);
        if (k == 0)
            w->asked[p] = mark;
        w->before[d] = k + 1 < q->piece[p].receives ? q->piece[p].taking
                                                    : q->piece[p].taken;
    }
}

static uint32_t somebody(struct writing *w)
{
    uint32_t v = rg_below(&w->s, w->q->workers);
    while (w->have[v] == 0)
        v = (v + 1) % w->q->workers;
    return v;
}

static void run(struct writing *w)
{
    struct rq *q = w->q;
    uint32_t d = q->dispatcher, next = 0, ended[RQ_WORKERS];
    for (uint32_t c = 0; c <= q->workers; c++) {
        put(w, c, IPS_NODE_START, 0);
        w->before[c] = q->connect[c];
    }
    for (uint32_t k = 0; k < q->window * q->workers; k++)
        give(w, k % q->workers, next++);
    w->before[d] = q->ready;
    for (uint32_t t = 0; t < q->pieces; t++) {
        uint32_t v = somebody(w), p = w->line[v][0];
        memmove(w->line[v], w->line[v] + 1, --w->have[v] * sizeof(uint32_t));
        q->took[q->turns++] = p;
        take(w, p);
        if (next < q->pieces) {
            give(w, v, next++);
        } else if (q->stops) {
            uint32_t sent = put(w, d, IPS_NODE_SEND, 0);
            receive(w, chain_of(q, v), sent, IPS_X_DATA, q->stop_bytes);
        } else {
            continue;
        }
        w->before[d] = q->turn[t].after;
        put(w, d, IPS_NODE_AUX, 0);
        w->before[d] = q->turn[t].rest;
    }
    for (uint32_t v = 0; v < q->workers && !q->stops; v++)
        ended[v] = put(w, d, IPS_NODE_AUX, 0);
    for (uint32_t v = 0; v < q->workers && !q->stops; v++)
        receive(w, chain_of(q, v), ended[v], IPS_X_LIFETIME, 0);
    for (uint32_t c = 0; c <= q->workers; c++)
        put(w, c, IPS_NODE_END, c == d ? 0 : q->end);
}

static void lay(struct writing *w)
{
    struct rq *q = w->q;
    uint32_t first[RQ_WORKERS + 1], n = 0;
    for (uint32_t c = 0; c <= q->workers; c++) {
        first[c] = n;
        n += w->count[c];
    }
    ips_graph_init(&q->g);
    if (ips_graph_alloc(&q->g, n, q->workers + 1, NULL) < 0)
        abort();
    for (uint32_t c = 0; c <= q->workers; c++) {
        q->g.chains[c] = (struct ips_chain){.first = first[c],
                                            .count = w->count[c],
                                            .process = c,
                                            .pid = c + 1,
                                            .tid = c + 1};
        for (uint32_t k = 0; k < w->count[c]; k++) {
            const struct node *from = &w->node[c][k];
            uint32_t i = first[c] + k;
            q->g.kind[i] = from->kind;
            q->g.w[i] = from->w;
            q->g.xkind[i] = from->xkind;
            q->g.xlen[i] = from->bytes;
            if (from->from != NOBODY)
                q->g.xpred[i] =
                    first[w->mark_chain[from->from]] + w->mark_node[from->from];
        }
    }
    for (uint32_t p = 0; p < q->pieces; p++) {
        q->sent[p] =
            first[w->mark_chain[w->sent[p]]] + w->mark_node[w->sent[p]];
        q->asked[p] = first[q->dispatcher] + w->mark_node[w->asked[p]];
    }
}

void rq_make(uint64_t seed, uint32_t weight_max, struct rq *out)
{
    struct writing *w = calloc(1, sizeof(*w));
    if (!w)
        abort();
    memset(out, 0, sizeof(*out));
    w->q = out;
    w->s = seed;
    draw(w, weight_max);
    run(w);
    lay(w);
    out->any[out->dispatcher] = true;
    free(w);
}

void rq_release(struct rq *q)
{
    ips_graph_release(&q->g);
}

uint32_t rq_piece_of(const struct rq *q, const struct ips_queue_block *b)
{
    for (uint32_t p = 0; p < q->pieces; p++)
        if (q->asked[p] == b->ask)
            return p;
    return IPS_QUEUE_NONE;
}
