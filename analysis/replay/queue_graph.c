/* Makes a graph in which the pieces of the queues have another order: see
 * queue.h. */
#include <stdlib.h>
#include <string.h>

#include "analysis/replay/queue.h"
#include "common/large.h"

#define NONE IPS_QUEUE_NONE

struct making {
    const struct ips_graph *g;
    const struct ips_queues *q;
    const uint32_t *taken_block, *piece_worker;
    struct ips_queued_graph *out;
    uint32_t next;
    uint32_t after;   /* node of the recorded graph after the node that was
                         appended last */
    uint32_t *holder; /* [blocks] worker that does the block */
    uint32_t *behind; /* [blocks] next block of the same worker, or NONE */
    uint32_t *last;   /* [workers] last block of each worker so far */
    uint32_t *role;   /* [chains] 0: in no queue; dispatcher: 2 * queue + 1;
                         worker: 2 * worker + 2 */
    uint32_t *works;  /* [chains] 1 + number of the worker of a lock queue; 0:
                         the chain is none */
    uint32_t *piece;  /* [workers of lock queues] first piece in the new order,
                         or NONE */
    uint32_t *then;   /* [pieces] next piece of the same worker, or NONE */
};

void ips_queued_graph_release(struct ips_queued_graph *q)
{
    ips_graph_release(&q->g);
    ips_free_large(q->of);
    ips_free_large(q->to);
    memset(q, 0, sizeof(*q));
}

static void append_block_to_worker_list(struct making *m, uint32_t worker,
                                        uint32_t block)
{
    m->holder[block] = worker;
    m->behind[m->last[worker]] = block;
    m->last[worker] = block;
}

/* Lists each worker's blocks in their new order, linked by `behind`. */
static void list_blocks_of_workers(struct making *m)
{
    const struct ips_queues *q = m->q;
    for (uint32_t b = 0; b < q->block_count; b++)
        m->behind[b] = NONE;
    for (uint32_t w = 0; w < q->worker_count; w++) {
        const struct ips_queue_worker *is = &q->worker[w];
        m->last[w] = is->first_block;
        m->holder[is->first_block] = w;
        for (uint32_t b = is->first_block + 1; b + 1 < is->end_block; b++)
            if (q->block[b].turn == NONE)
                append_block_to_worker_list(m, w, b);
    }
    for (uint32_t t = 0; t < q->turn_count; t++)
        if (q->turn[t].gives != NONE)
            append_block_to_worker_list(m, m->holder[m->taken_block[t]],
                                        q->turn[t].gives);
    for (uint32_t w = 0; w < q->worker_count; w++)
        append_block_to_worker_list(m, w, q->worker[w].end_block - 1);
}

static void append_node_range(struct making *m, uint32_t first, uint32_t end)
{
    struct ips_queued_graph *o = m->out;
    for (uint32_t i = first; i < end; i++, m->next++) {
        o->of[m->next] = i;
        o->to[i] = m->next;
        o->g.w[m->next] = m->g->w[i];
    }
    if (first < end) {
        o->g.w[m->next - (end - first)] = m->g->w[m->after];
        m->after = end;
    }
}

static void append_nodes_of_dispatcher(struct making *m,
                                       const struct ips_queue *is)
{
    const struct ips_queues *q = m->q;
    const struct ips_chain *c = &m->g->chains[is->chain];
    append_node_range(m, c->first,
                      q->block[q->turn[is->first_turn].taken_block].ask);
    for (uint32_t t = is->first_turn; t < is->end_turn; t++) {
        const struct ips_queue_block *b = &q->block[m->taken_block[t]];
        append_node_range(m, b->ask, b->ask_end);
        append_node_range(m, q->turn[t].first, q->turn[t].end);
    }
    append_node_range(m, is->rest, c->first + c->count);
}

/* Lists the pieces of each lock queue's worker in order, linked by `then`. */
static void list_pieces_of_workers(struct making *m)
{
    const struct ips_lock_queues *p = &m->q->lock_queues;
    for (uint32_t w = 0; w < p->worker_count; w++) {
        m->works[p->worker[w].chain] = w + 1;
        m->piece[w] = NONE;
    }
    for (uint32_t k = p->piece_count; k-- > 0;) {
        m->then[k] = m->piece[m->piece_worker[k]];
        m->piece[m->piece_worker[k]] = k;
    }
}

static void append_reordered_nodes_of_worker(struct making *m, uint32_t w)
{
    const struct ips_lock_queues *p = &m->q->lock_queues;
    const struct ips_lock_queue_worker *is = &p->worker[w];
    const struct ips_chain *c = &m->g->chains[is->chain];
    append_node_range(m, c->first, is->begin);
    for (uint32_t k = m->piece[w]; k != NONE; k = m->then[k])
        append_node_range(m, p->piece[k].first, p->piece[k].end);
    append_node_range(m, is->tail, c->first + c->count);
}

static void append_reordered_chain(struct making *m, uint32_t c)
{
    const struct ips_queues *q = m->q;
    const struct ips_chain *from = &m->g->chains[c];
    struct ips_chain *to = &m->out->g.chains[c];
    *to = *from;
    to->first = m->next;
    m->after = from->first;
    if (m->works[c]) {
        append_reordered_nodes_of_worker(m, m->works[c] - 1);
    } else if (m->role[c] == 0) {
        append_node_range(m, from->first, from->first + from->count);
    } else if (m->role[c] & 1) {
        append_nodes_of_dispatcher(m, &q->queue[m->role[c] / 2]);
    } else {
        uint32_t b = q->worker[m->role[c] / 2 - 1].first_block;
        for (; b != NONE; b = m->behind[b])
            append_node_range(m, q->block[b].first, q->block[b].end);
    }
    to->count = m->next - to->first;
}

static void copy_columns_of_reordered_nodes(struct making *m)
{
    const struct ips_graph *g = m->g;
    struct ips_queued_graph *o = m->out;
    for (uint32_t k = 0; k < g->node_count; k++) {
        uint32_t i = o->of[k];
        o->g.kind[k] = g->kind[i];
        o->g.xkind[k] = g->xkind[i];
        o->g.xlen[k] = g->xlen[i];
        o->g.t_ns[k] = g->t_ns[i];
        o->g.site[k] = g->site[i];
        o->g.xpred[k] =
            g->xpred[i] == IPS_NO_NODE ? IPS_NO_NODE : o->to[g->xpred[i]];
    }
}

static int alloc_queued_graph(struct making *m, struct ips_err *err)
{
    const struct ips_queues *q = m->q;
    size_t nodes = (size_t)m->g->node_count + 1;
    int rc =
        ips_graph_alloc(&m->out->g, m->g->node_count, m->g->chain_count, err);
    m->out->of = ips_alloc_large(nodes, sizeof(uint32_t));
    m->out->to = ips_alloc_large(nodes, sizeof(uint32_t));
    m->holder = calloc((size_t)q->block_count + 1, sizeof(*m->holder));
    m->behind = calloc((size_t)q->block_count + 1, sizeof(*m->behind));
    m->last = calloc((size_t)q->worker_count + 1, sizeof(*m->last));
    m->role = calloc((size_t)m->g->chain_count + 1, sizeof(*m->role));
    m->works = calloc((size_t)m->g->chain_count + 1, sizeof(*m->works));
    m->piece =
        calloc((size_t)q->lock_queues.worker_count + 1, sizeof(*m->piece));
    m->then = calloc((size_t)q->lock_queues.piece_count + 1, sizeof(*m->then));
    if (rc == 0 && (!m->out->of || !m->out->to || !m->holder || !m->behind ||
                    !m->last || !m->role || !m->works || !m->piece || !m->then))
        rc = ips_err_set(err, IPS_E_NO_MEMORY, "queues of %u nodes",
                         m->g->node_count);
    return rc;
}

int ips_queued_graph_make_reordered(const struct ips_graph *g,
                                    const struct ips_queues *q,
                                    const uint32_t *took,
                                    const uint32_t *piece_worker,
                                    struct ips_queued_graph *out,
                                    struct ips_err *err)
{
    struct making m = {.g = g,
                       .q = q,
                       .taken_block = took,
                       .piece_worker = piece_worker,
                       .out = out};
    memset(out, 0, sizeof(*out));
    ips_graph_init(&out->g);
    int rc = alloc_queued_graph(&m, err);
    if (rc == 0) {
        for (uint32_t k = 0; k < q->queue_count; k++)
            m.role[q->queue[k].chain] = 2 * k + 1;
        for (uint32_t w = 0; w < q->worker_count; w++)
            m.role[q->worker[w].chain] = 2 * w + 2;
        list_blocks_of_workers(&m);
        list_pieces_of_workers(&m);
        for (uint32_t c = 0; c < g->chain_count; c++)
            append_reordered_chain(&m, c);
        copy_columns_of_reordered_nodes(&m);
    }
    free(m.holder);
    free(m.behind);
    free(m.last);
    free(m.role);
    free(m.works);
    free(m.piece);
    free(m.then);
    if (rc < 0)
        ips_queued_graph_release(out);
    return rc;
}
