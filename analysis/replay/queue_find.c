/* Finds the work queues of a graph: see queue.h. */
#include <stdlib.h>
#include <string.h>

#include "analysis/replay/queue.h"
#include "common/large.h"

#define NONE IPS_QUEUE_NONE

struct finding {
    const struct ips_graph *g;
    const bool *order_dependent;
    uint32_t *chain_of; /* [nodes] chain of each node */
    uint32_t *sent_to;  /* [nodes] the first chain that received from the node,
                           or NONE */
    /* [nodes] for a worker's node that sends to the dispatcher: 1 + its block;
     * for a dispatcher's node: 1 + its turn; else 0 */
    uint32_t *mark;
    uint8_t *role; /* [chains] enum role */
    struct ips_queues *out;
    size_t blocks_cap, turns_cap, workers_cap, queues_cap;
    bool no_memory;
};
enum role { FREE = 0, PEER, NO_PEER, USED };

void ips_queues_release(struct ips_queues *q)
{
    free(q->queue);
    free(q->worker);
    free(q->block);
    free(q->turn);
    ips_lock_queues_release(&q->lock_queues);
    memset(q, 0, sizeof(*q));
}

/* Makes room for one more entry of `size` bytes in an array of `count` entries.
 * Returns false if out of memory. */
static bool reserve_one_array_entry(struct finding *f, void *array, size_t *cap,
                                    uint32_t count, size_t size)
{
    void **at = array;
    if (count < *cap)
        return true;
    size_t more = *cap ? *cap * 2 : 64;
    void *p = realloc(*at, more * size);
    if (!p) {
        f->no_memory = true;
        return false;
    }
    *at = p;
    *cap = more;
    return true;
}

/* Returns the chain at which the cross arc into node i begins, if that is
 * another chain and the arc is a message, the end of a connection, or the start
 * or end of a thread; else NONE. */
static uint32_t source_chain_of(const struct finding *f, uint32_t i)
{
    uint8_t kind = f->g->xkind[i];
    if (f->g->xpred[i] == IPS_NO_NODE ||
        (kind != IPS_X_DATA && kind != IPS_X_LIFETIME))
        return NONE;
    uint32_t c = f->chain_of[f->g->xpred[i]];
    return c == f->chain_of[i] ? NONE : c;
}

static uint32_t first_node_after_chain(const struct ips_graph *g, uint32_t c)
{
    return g->chains[c].first + g->chains[c].count;
}

static void index_chain_and_receiver_of_nodes(struct finding *f)
{
    const struct ips_graph *g = f->g;
    for (uint32_t c = 0; c < g->chain_count; c++)
        for (uint32_t i = g->chains[c].first; i < first_node_after_chain(g, c);
             i++)
            f->chain_of[i] = c;
    for (uint32_t i = 0; i < g->node_count; i++)
        f->sent_to[i] = NONE;
    for (uint32_t i = g->node_count; i-- > 0;)
        if (source_chain_of(f, i) != NONE)
            f->sent_to[g->xpred[i]] = f->chain_of[i];
}

static bool append_empty_block(struct finding *f, uint32_t worker,
                               uint32_t first)
{
    struct ips_queues *o = f->out;
    if (!reserve_one_array_entry(f, &o->block, &f->blocks_cap, o->block_count,
                                 sizeof(*o->block)))
        return false;
    o->block[o->block_count++] = (struct ips_queue_block){
        .first = first, .end = first, .worker = worker, .turn = NONE};
    return true;
}

/* Adds chain c as a worker of dispatcher d, cut into blocks. Returns false if c
 * is no worker of d. */
static bool add_worker_if_valid(struct finding *f, uint32_t d, uint32_t c)
{
    const struct ips_graph *g = f->g;
    struct ips_queues *o = f->out;
    uint32_t first = o->block_count, worker = o->worker_count;
    bool met = false, asked = false;
    if (!reserve_one_array_entry(f, &o->worker, &f->workers_cap, worker,
                                 sizeof(*o->worker)) ||
        !append_empty_block(f, worker, g->chains[c].first))
        return false;
    for (uint32_t i = g->chains[c].first; i < first_node_after_chain(g, c);
         i++) {
        bool gets = source_chain_of(f, i) == d;
        if (!gets && f->sent_to[i] == d && !met)
            break; /* c sends to d before receiving from d: no worker
                    */
        met = met || (gets && g->xkind[i] == IPS_X_DATA);
        if (gets && asked) {
            o->block[o->block_count - 1].end = i;
            if (!append_empty_block(f, worker, i))
                return false;
            asked = false;
        }
        if (f->sent_to[i] == d) {
            asked = true;
            f->mark[i] = o->block_count;
        }
    }
    if (!met || o->block_count < first + 2) {
        for (uint32_t i = g->chains[c].first; i < first_node_after_chain(g, c);
             i++)
            f->mark[i] = 0;
        o->block_count = first;
        return false;
    }
    o->block[o->block_count - 1].end = first_node_after_chain(g, c);
    o->worker[o->worker_count++] =
        (struct ips_queue_worker){c, o->queue_count, first, o->block_count};
    return true;
}

/* Adds all chains that sent to d and can be workers of d as its workers. */
static void add_workers_of_dispatcher(struct finding *f, uint32_t d)
{
    const struct ips_graph *g = f->g;
    for (uint32_t i = g->chains[d].first; i < first_node_after_chain(g, d);
         i++) {
        uint32_t c = source_chain_of(f, i);
        if (c == NONE || f->role[c] != FREE)
            continue;
        f->role[c] = NO_PEER;
        if (add_worker_if_valid(f, d, c))
            f->role[c] = PEER;
    }
}

static bool is_last_block_of_worker(const struct ips_queues *o, uint32_t b)
{
    return b + 1 == o->worker[o->block[b].worker].end_block;
}

/* Returns the block whose result (or a part of that result) node i receives, or
 * NONE. */
static uint32_t block_received_at_node(const struct finding *f, uint32_t i)
{
    uint32_t c = source_chain_of(f, i);
    if (c == NONE || f->role[c] != PEER)
        return NONE;
    uint32_t b = f->mark[f->g->xpred[i]];
    return b == 0 || is_last_block_of_worker(f->out, b - 1) ? NONE : b - 1;
}

/* Cuts the chain of d into turns. The last turn has the rest of the chain;
 * set_end_of_last_turn() shortens it. Returns false if d is no dispatcher. */
static bool cut_dispatcher_into_turns(struct finding *f, uint32_t d,
                                      struct ips_queue *q)
{
    const struct ips_graph *g = f->g;
    struct ips_queues *o = f->out;
    uint32_t now = NONE;
    for (uint32_t i = g->chains[d].first; i < first_node_after_chain(g, d);
         i++) {
        uint32_t b = block_received_at_node(f, i);
        if (b != NONE && b != now) {
            if (o->block[b].ask_end)
                return false; /* another block's result came between two
                                 receives of this block's result */
            if (now != NONE)
                o->turn[o->turn_count - 1].end = i;
            if (!reserve_one_array_entry(f, &o->turn, &f->turns_cap,
                                         o->turn_count, sizeof(*o->turn)))
                return false;
            o->turn[o->turn_count++] =
                (struct ips_queue_turn){i + 1, i + 1, NONE, b};
            o->block[b].ask = i;
            now = b;
        }
        if (b != NONE) {
            o->block[b].ask_end = i + 1;
            o->turn[o->turn_count - 1].first = i + 1;
        }
        f->mark[i] = now == NONE ? 0 : o->turn_count;
    }
    q->end_turn = o->turn_count;
    if (now == NONE)
        return false;
    o->turn[o->turn_count - 1].end = first_node_after_chain(g, d);
    for (uint32_t t = q->first_turn; t < q->end_turn; t++) {
        struct ips_queue_block *b = &o->block[o->turn[t].taken_block];
        for (uint32_t i = b->ask; i < b->ask_end; i++)
            if (f->sent_to[i] != NONE)
                return false;
    }
    return true;
}

/* Whether each turn, except the last, sent only to the worker whose result it
 * took (or to chains that are no workers). */
static bool turns_send_only_to_their_worker(const struct finding *f,
                                            const struct ips_queue *q)
{
    const struct ips_queues *o = f->out;
    for (uint32_t t = q->first_turn; t + 1 < q->end_turn; t++) {
        const struct ips_queue_turn *is = &o->turn[t];
        uint32_t c = o->worker[o->block[is->taken_block].worker].chain;
        for (uint32_t i = is->first; i < is->end; i++) {
            uint32_t to = f->sent_to[i];
            if (to != NONE && to != c && f->role[to] == PEER)
                return false;
        }
    }
    return true;
}

/* Sets *turn to 1 + the turn that gave block b to its worker, or to 0 if it was
 * given before the first turn. Returns false if b came from several turns. */
static bool find_turn_that_gave_block(const struct finding *f, uint32_t d,
                                      const struct ips_queue_block *b,
                                      uint32_t *turn)
{
    bool known = false;
    *turn = 0;
    for (uint32_t i = b->first; i < b->end; i++) {
        if (source_chain_of(f, i) != d)
            continue;
        uint32_t by = f->mark[f->g->xpred[i]];
        if (known && by != *turn)
            return false;
        *turn = by;
        known = true;
    }
    return true;
}

/* Returns how many receives of a worker's last block were sent in the same turn
 * as the first one. */
static uint32_t
count_receives_from_turn_of_first_receive(const struct finding *f, uint32_t d,
                                          const struct ips_queue_block *b)
{
    uint32_t count = 0, turn = f->mark[f->g->xpred[b->first]];
    for (uint32_t i = b->first; i < b->end; i++)
        count += source_chain_of(f, i) == d && f->mark[f->g->xpred[i]] == turn;
    return count;
}

/* Returns the node after the `receives`-th receive from chain d in block b. */
static uint32_t find_node_after_receives(const struct finding *f, uint32_t d,
                                         const struct ips_queue_block *b,
                                         uint32_t receives)
{
    uint32_t i = b->first;
    for (; receives; i++)
        receives -= source_chain_of(f, i) == d;
    return i;
}

static bool link_block_to_turn_if_free(struct finding *f, uint32_t b,
                                       uint32_t turn)
{
    struct ips_queues *o = f->out;
    if (o->turn[turn].gives != NONE)
        return false;
    o->turn[turn].gives = b;
    o->block[b].turn = turn;
    return true;
}

/* Links blocks to the turns that give them, and counts these blocks in *gives.
 * Counts in *stops the workers whose last block was given in a turn before the
 * last turn. */
static bool link_blocks_to_turns_until_invalid(struct finding *f,
                                               const struct ips_queue *q,
                                               uint32_t *stops, uint32_t *gives)
{
    struct ips_queues *o = f->out;
    for (uint32_t w = q->first_worker; w < q->end_worker; w++) {
        const struct ips_queue_worker *is = &o->worker[w];
        for (uint32_t b = is->first_block; b < is->end_block; b++) {
            uint32_t turn;
            bool last = b + 1 == is->end_block;
            if (last) { /* the last block may receive from several turns; its
                           first receive decides */
                turn = f->mark[f->g->xpred[o->block[b].first]];
                if (turn == 0)
                    return false;
                *stops += turn != q->end_turn;
                continue;
            }
            if (o->block[b].ask == o->block[b].ask_end)
                return false;
            if (b == is->first_block)
                continue;
            if (!find_turn_that_gave_block(f, q->chain, &o->block[b], &turn) ||
                (turn && !link_block_to_turn_if_free(f, b, turn - 1)))
                return false;
            *gives += turn != 0;
        }
    }
    return true;
}

/* Whether a worker still sends data after it received its last block. (Closing
 * the connection is allowed.) */
static bool any_worker_sends_after_last_block(const struct finding *f,
                                              uint32_t d)
{
    const struct ips_graph *g = f->g;
    for (uint32_t i = g->chains[d].first; i < first_node_after_chain(g, d);
         i++) {
        uint32_t c = source_chain_of(f, i);
        if (c == NONE || f->role[c] != PEER || g->xlen[i] == 0)
            continue;
        uint32_t b = f->mark[g->xpred[i]];
        if (b && is_last_block_of_worker(f->out, b - 1))
            return true;
    }
    return false;
}

/* Cuts worker w's last block in two after its first `receives` receives from
 * the dispatcher, and moves the worker's blocks `by` entries up in the array,
 * where the caller has made room. */
static bool split_last_block_of_worker(struct finding *f,
                                       const struct ips_queue *q, uint32_t w,
                                       uint32_t by, uint32_t receives)
{
    struct ips_queues *o = f->out;
    struct ips_queue_worker *is = &o->worker[w];
    struct ips_queue_block *tail = &o->block[is->end_block - 1];
    uint32_t from = is->first_block, turn = f->mark[f->g->xpred[tail->first]];
    uint32_t end = find_node_after_receives(f, q->chain, tail, receives);
    struct ips_queue_block rest = *tail;
    if (end >= tail->end)
        return false;
    tail->end = rest.first = end;
    memmove(&o->block[from + by], &o->block[from],
            (is->end_block - from) * sizeof(*o->block));
    is->first_block += by;
    is->end_block += by + 1;
    o->block[is->end_block - 1] = rest;
    for (uint32_t b = is->first_block; b < is->end_block; b++) {
        if (o->block[b].ask_end)
            o->turn[f->mark[o->block[b].ask] - 1].taken_block = b;
        if (o->block[b].turn != NONE)
            o->turn[o->block[b].turn].gives = b;
    }
    return link_block_to_turn_if_free(f, is->end_block - 2, turn - 1);
}

/* For queues in which the dispatcher answers a result with a stop message:
 * makes the receives of that message a block of their own. */
static bool split_last_blocks_of_all_workers(struct finding *f,
                                             struct ips_queue *q)
{
    struct ips_queues *o = f->out;
    uint32_t receives = UINT32_MAX;
    if (any_worker_sends_after_last_block(f, q->chain))
        return false;
    for (uint32_t w = q->first_worker; w < q->end_worker; w++)
        receives = ips_min_u32(
            receives, count_receives_from_turn_of_first_receive(
                          f, q->chain, &o->block[o->worker[w].end_block - 1]));
    for (uint32_t w = q->first_worker; w < q->end_worker; w++)
        if (!append_empty_block(f, 0, 0))
            return false;
    for (uint32_t w = q->end_worker; w-- > q->first_worker;)
        if (!split_last_block_of_worker(f, q, w, w - q->first_worker, receives))
            return false;
    return true;
}

/* Sets the node at which the last turn ends and the rest of the dispatcher's
 * chain begins. */
static void set_end_of_last_turn(struct finding *f, struct ips_queue *q)
{
    struct ips_queues *o = f->out;
    struct ips_queue_turn *last = &o->turn[q->end_turn - 1];
    uint32_t end = last->first;
    if (last->gives != NONE) {
        const struct ips_queue_block *b = &o->block[last->gives];
        for (uint32_t i = b->first; i < b->end; i++)
            if (source_chain_of(f, i) == q->chain && f->g->xpred[i] >= end)
                end = f->g->xpred[i] + 1;
    }
    last->end = q->rest = end;
}

static bool fill_queue_and_check_pattern(struct finding *f, struct ips_queue *q)
{
    uint32_t stops = 0, gives = 0;
    q->end_worker = f->out->worker_count;
    uint32_t workers = q->end_worker - q->first_worker;
    if (workers < 2 || !cut_dispatcher_into_turns(f, q->chain, q) ||
        !turns_send_only_to_their_worker(f, q) ||
        !link_blocks_to_turns_until_invalid(f, q, &stops, &gives) || gives == 0)
        return false;
    if (stops && !split_last_blocks_of_all_workers(f, q))
        return false;
    set_end_of_last_turn(f, q);
    return q->rest < first_node_after_chain(f->g, q->chain);
}

static void clear_marks_and_worker_roles(struct finding *f, uint32_t d)
{
    const struct ips_graph *g = f->g;
    for (uint32_t i = g->chains[d].first; i < first_node_after_chain(g, d);
         i++) {
        uint32_t c = source_chain_of(f, i);
        f->mark[i] = 0;
        if (c == NONE || (f->role[c] != PEER && f->role[c] != NO_PEER))
            continue;
        for (uint32_t k = g->chains[c].first;
             f->role[c] == PEER && k < first_node_after_chain(g, c); k++)
            f->mark[k] = 0;
        f->role[c] = FREE;
    }
}

static void add_queue_of_dispatcher_if_valid(struct finding *f, uint32_t d)
{
    struct ips_queues *o = f->out;
    struct ips_queues was = *o;
    struct ips_queue q = {.chain = d,
                          .first_turn = o->turn_count,
                          .first_worker = o->worker_count};
    if (!reserve_one_array_entry(f, &o->queue, &f->queues_cap, o->queue_count,
                                 sizeof(*o->queue)))
        return;
    f->role[d] = USED;
    add_workers_of_dispatcher(f, d);
    if (!f->no_memory && fill_queue_and_check_pattern(f, &q)) {
        for (uint32_t w = q.first_worker; w < q.end_worker; w++)
            f->role[o->worker[w].chain] = USED;
        o->queue[o->queue_count++] = q;
        clear_marks_and_worker_roles(f, d);
        return;
    }
    o->turn_count = was.turn_count;
    o->worker_count = was.worker_count;
    o->block_count = was.block_count;
    clear_marks_and_worker_roles(f, d);
    f->role[d] = FREE;
}

int ips_queues_find(const struct ips_graph *g, const bool *any,
                    struct ips_queues *out, struct ips_err *err)
{
    size_t nodes = (size_t)g->node_count + 1;
    struct finding f = {.g = g, .order_dependent = any, .out = out};
    uint32_t some = 0;
    memset(out, 0, sizeof(*out));
    for (uint32_t c = 0; c < g->chain_count; c++)
        some += any[c];
    if (some == 0)
        return 0;
    f.chain_of = ips_alloc_large(nodes, sizeof(*f.chain_of));
    f.sent_to = ips_alloc_large(nodes, sizeof(*f.sent_to));
    f.mark = ips_calloc_large(nodes, sizeof(*f.mark));
    f.role = calloc((size_t)g->chain_count + 1, 1);
    f.no_memory = !f.chain_of || !f.sent_to || !f.mark || !f.role;
    if (!f.no_memory)
        index_chain_and_receiver_of_nodes(&f);
    for (uint32_t d = 0; d < g->chain_count && !f.no_memory; d++)
        if (any[d] && f.role[d] == FREE)
            add_queue_of_dispatcher_if_valid(&f, d);
    ips_free_large(f.chain_of);
    ips_free_large(f.sent_to);
    ips_free_large(f.mark);
    free(f.role);
    if (!f.no_memory)
        return 0;
    ips_queues_release(out);
    return ips_err_set(err, IPS_E_NO_MEMORY, "queues of %u nodes",
                       g->node_count);
}
