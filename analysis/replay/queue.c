/*
 * Work queues of a replay: decides which result a dispatcher takes next
 * (queue.h has the terms, replay.h the rule). The replay runs the chains of a
 * dispatcher and its workers piece by piece. The first node of each piece (and
 * the node after the last) is `bound`: a chain that comes to a bound node has
 * finished a piece and may have to continue at another one than recorded.
 *
 * As with locks, a result is not taken in the middle of an event: a dispatcher
 * that may take one is counted in queue_due, and rp_run_event_loop() calls
 * rp_queue_let_dispatchers_take_results() when nothing else is left to do at
 * that time.
 */
#include <stdlib.h>
#include <string.h>

#include "analysis/replay/run.h"
#include "common/large.h"

#define NONE IPS_QUEUE_NONE

struct worker {
    uint32_t first, last; /* first and last of the blocks that the worker was
                             given and has not begun, or NONE */
    bool waits, has_stopped;
    uint32_t sent;   /* number of results sent */
    uint64_t come_t; /* when the latest result that the worker sent arrives;
                        results of a worker arrive in order */
};
struct dispatcher {
    uint32_t turn;        /* index of the dispatcher's next turn (queue.h) */
    uint32_t first, last; /* first and last of the blocks whose results have
                             arrived and are not taken yet, or NONE */
    /* takes_result: the dispatcher is receiving a result. waits: the dispatcher
     * waits for a result. */
    bool takes_result, waits;
};
struct rp_queues {
    const struct ips_queues *is;
    uint32_t *at; /* [nodes] 1: bound (see the top of this file); 2 + block: the
                     node sends that block's result; 0: neither */
    uint32_t *role; /* [chains] 0: in no queue; dispatcher: 2 * queue + 1;
                       worker: 2 * worker + 2 */
    struct worker *worker;
    struct dispatcher *queue;
    /* [blocks] next block in the worker's or the dispatcher's list */
    uint32_t *next;
    uint32_t *holder; /* [blocks] worker to which the block was given */
    uint64_t *come_t; /* [blocks] when the block's result arrived */
    uint32_t *number; /* [blocks] ordinal of the block's result among its
                         worker's results */
    uint32_t *piece;  /* [lock_queues] the queue's next piece to be taken */
    uint32_t *works;  /* [chains] 1 + number of the worker of a lock-protected
                         queue; 0: the chain is none */
};

int rp_queues_alloc(struct rp *r, struct ips_err *err)
{
    const struct ips_queues *is = r->ask->queues;
    struct rp_queues *s = r->queues = calloc(1, sizeof(*s));
    size_t blocks = (size_t)is->block_count + 1;
    r->out->taken_block =
        calloc((size_t)is->turn_count + 1, sizeof(*r->out->taken_block));
    r->out->piece_worker = calloc((size_t)is->lock_queues.piece_count + 1,
                                  sizeof(*r->out->piece_worker));
    if (s) {
        s->is = is;
        s->at = ips_calloc_large((size_t)r->g->node_count + 1, sizeof(*s->at));
        s->role = calloc((size_t)r->chains + 1, sizeof(*s->role));
        s->worker = calloc((size_t)is->worker_count + 1, sizeof(*s->worker));
        s->queue = calloc((size_t)is->queue_count + 1, sizeof(*s->queue));
        s->next = calloc(blocks, sizeof(*s->next));
        s->holder = calloc(blocks, sizeof(*s->holder));
        s->come_t = calloc(blocks, sizeof(*s->come_t));
        s->number = calloc(blocks, sizeof(*s->number));
        s->piece = calloc((size_t)is->lock_queues.lock_queue_count + 1,
                          sizeof(*s->piece));
        s->works = calloc((size_t)r->chains + 1, sizeof(*s->works));
    }
    if (!s || !r->out->taken_block || !r->out->piece_worker || !s->at ||
        !s->role || !s->worker || !s->queue || !s->next || !s->holder ||
        !s->come_t || !s->number || !s->piece || !s->works)
        return ips_err_set(err, IPS_E_NO_MEMORY, "%u queues", is->queue_count);
    return 0;
}

void rp_queues_release(struct rp *r)
{
    struct rp_queues *s = r->queues;
    if (!s)
        return;
    ips_free_large(s->at);
    free(s->role);
    free(s->worker);
    free(s->queue);
    free(s->next);
    free(s->holder);
    free(s->come_t);
    free(s->number);
    free(s->piece);
    free(s->works);
    free(s);
    r->queues = NULL;
}

static void append_block_to_worker(struct rp_queues *s, uint32_t w, uint32_t b)
{
    struct worker *to = &s->worker[w];
    s->holder[b] = w;
    s->next[b] = NONE;
    if (to->last == NONE)
        to->first = b;
    else
        s->next[to->last] = b;
    to->last = b;
}

static void init_blocks_of_queue_worker(struct rp *r, uint32_t w)
{
    struct rp_queues *s = r->queues;
    const struct ips_queue_worker *is = &s->is->worker[w];
    s->worker[w] = (struct worker){.first = NONE, .last = NONE};
    s->role[is->chain] = 2 * w + 2;
    for (uint32_t b = is->first_block; b < is->end_block; b++) {
        const struct ips_queue_block *block = &s->is->block[b];
        s->holder[b] = w;
        if (b > is->first_block)
            s->at[block->first] = 1;
        if (b > is->first_block && b + 1 < is->end_block && block->turn == NONE)
            append_block_to_worker(s, w, b);
        if (block->ask < block->ask_end) {
            s->at[block->ask] = 1;
            s->at[r->g->xpred[block->ask]] = 2 + b;
        }
    }
}

static void init_lock_queues(struct rp *r)
{
    struct rp_queues *s = r->queues;
    const struct ips_lock_queues *is = &s->is->lock_queues;
    for (uint32_t k = 0; k < is->lock_queue_count; k++)
        s->piece[k] = is->lock_queue[k].first_piece;
    for (uint32_t w = 0; w < is->worker_count; w++)
        s->works[is->worker[w].chain] = w + 1;
    for (uint32_t p = 0; p < is->piece_count; p++)
        r->out->piece_worker[p] = is->piece[p].worker;
}

void rp_queues_init_state(struct rp *r)
{
    struct rp_queues *s = r->queues;
    init_lock_queues(r);
    for (uint32_t w = 0; w < s->is->worker_count; w++)
        init_blocks_of_queue_worker(r, w);
    for (uint32_t k = 0; k < s->is->queue_count; k++) {
        const struct ips_queue *is = &s->is->queue[k];
        s->queue[k] = (struct dispatcher){
            .turn = is->first_turn, .first = NONE, .last = NONE};
        s->role[is->chain] = 2 * k + 1;
        s->at[is->rest] = 1;
        for (uint32_t t = is->first_turn; t < is->end_turn; t++)
            if (s->is->turn[t].first < s->is->turn[t].end)
                s->at[s->is->turn[t].first] = 1;
    }
}

bool rp_queue_is_piece_start(const struct rp *r, uint32_t i)
{
    return r->queues->at[i] == 1;
}

static uint32_t first_node_of_last_block(const struct rp_queues *s, uint32_t w)
{
    return s->is->block[s->is->worker[w].end_block - 1].first;
}

/* Returns the node where worker w continues, or NONE if it has to wait for
 * work. */
static uint32_t next_node_of_worker_or_wait(struct rp *r, uint32_t w)
{
    struct rp_queues *s = r->queues;
    struct worker *is = &s->worker[w];
    uint32_t b = is->first, queue = s->is->worker[w].queue;
    if (b != NONE) {
        is->first = s->next[b];
        if (is->first == NONE)
            is->last = NONE;
        is->has_stopped = s->is->block[b].ask == s->is->block[b].ask_end;
        return s->is->block[b].first;
    }
    if (is->has_stopped || s->queue[queue].turn == s->is->queue[queue].end_turn)
        return first_node_of_last_block(s, w);
    is->waits = true;
    return NONE;
}

static uint32_t next_node_of_dispatcher_or_wait(struct rp *r, uint32_t k)
{
    struct rp_queues *s = r->queues;
    struct dispatcher *is = &s->queue[k];
    const struct ips_queue *q = &s->is->queue[k];
    if (is->takes_result) {
        const struct ips_queue_turn *turn = &s->is->turn[is->turn - 1];
        is->takes_result = false;
        if (turn->first < turn->end)
            return turn->first;
    }
    if (is->turn == q->end_turn)
        return q->rest;
    is->waits = true;
    r->queue_due += is->first != NONE;
    return NONE;
}

uint32_t rp_queue_choose_next_node_or_wait(struct rp *r, uint32_t c)
{
    uint32_t role = r->queues->role[c];
    return role & 1 ? next_node_of_dispatcher_or_wait(r, role / 2)
                    : next_node_of_worker_or_wait(r, role / 2 - 1);
}

uint32_t rp_queue_find_chain_that_runs_node(const struct rp *r, uint32_t i)
{
    uint32_t c = ips_chain_of(r->g, i);
    const struct rp_queues *s = r->queues;
    uint32_t role = s ? s->role[c] : 0;
    if (role == 0 || (role & 1))
        return c;
    const struct ips_queue_worker *w = &s->is->worker[role / 2 - 1];
    uint32_t low = w->first_block, high = w->end_block;
    /* `low` becomes the last block of the worker that begins at i or before */
    while (high - low > 1) {
        uint32_t mid = low + (high - low) / 2;
        if (s->is->block[mid].first <= i)
            low = mid;
        else
            high = mid;
    }
    return s->is->worker[s->holder[low]].chain;
}

/* Returns the block whose result begins to arrive with the message that node i
 * sends, or NONE. */
uint32_t rp_queue_block_whose_result_node_sends(const struct rp *r, uint32_t i)
{
    uint32_t at = r->queues->at[i];
    return at < 2 ? NONE : at - 2;
}

void rp_schedule_result_if_node_sends_it(struct rp *r, uint32_t i, uint64_t now)
{
    struct rp_queues *s = r->queues;
    uint32_t b = rp_queue_block_whose_result_node_sends(r, i);
    if (b == NONE)
        return;
    uint32_t ask = s->is->block[b].ask;
    s->number[b] = s->worker[s->holder[b]].sent++;
    uint32_t d =
        s->is->queue[s->is->worker[s->is->block[b].worker].queue].chain;
    if (rp_arrives_through_medium(r, ask)) {
        if (r->arrive[ask] < RP_UNKNOWN) /* the medium had saved up enough time
                                            for the whole transfer */
            rp_schedule_arrival_of_result(r, b, rp_medium_arrival_time(r, ask));
        else
            r->arrive[ask] |= 1; /* tells rp_schedule_arrival_after_transfer()
                                    that a dispatcher waits */
        return;
    }
    uint64_t bytes = r->g->xlen[ask];
    uint64_t way =
        r->arcs.mode[IPS_X_DATA] == IPS_ARC_MTIME
            ? rp_compute_message_ns(r, rp_machine_pair_index(r, i, d), bytes)
            : 0;
    rp_schedule_arrival_of_result(r, b, now + (way << r->bits));
}

void rp_schedule_arrival_of_result(struct rp *r, uint32_t b, uint64_t t)
{
    struct rp_queues *s = r->queues;
    struct worker *from = &s->worker[s->holder[b]];
    from->come_t = ips_max_u64(from->come_t, t);
    rp_schedule_arrival_at_chain(r, r->chains + b, from->come_t);
}

static bool result_is_taken_before_other(const struct rp_queues *s, uint32_t a,
                                         uint32_t b)
{
    uint32_t v = s->holder[a], w = s->holder[b];
    if (s->come_t[a] != s->come_t[b])
        return s->come_t[a] < s->come_t[b];
    if (v != w)
        return s->is->worker[v].chain < s->is->worker[w].chain;
    return s->number[a] < s->number[b];
}

/* Inserts the result into the dispatcher's list, ordered by arrival, then by
 * the worker's chain, then by the order of sending. */
void rp_insert_arrived_result(struct rp *r, uint32_t b, uint64_t now)
{
    struct rp_queues *s = r->queues;
    struct dispatcher *to =
        &s->queue[s->is->worker[s->is->block[b].worker].queue];
    uint32_t *link = &to->first;
    s->come_t[b] = now;
    while (*link != NONE && result_is_taken_before_other(s, *link, b))
        link = &s->next[*link];
    r->queue_due += to->waits && to->first == NONE;
    s->next[b] = *link;
    *link = b;
}

/* Lets chain c continue at node i. */
static void continue_chain_at_node_or_wait(struct rp *r, uint32_t c, uint32_t i)
{
    r->chain[c].pos = i;
    if (!rp_cross_arc_arrived_or_wait(r, c, r->now))
        return;
    rp_continue_chain(r, c, r->now);
    rp_continue_ready_chains(r, r->now);
}

static void resume_worker_if_waiting(struct rp *r, uint32_t w)
{
    struct rp_queues *s = r->queues;
    if (!s->worker[w].waits)
        return;
    s->worker[w].waits = false;
    uint32_t i = next_node_of_worker_or_wait(r, w);
    if (i != NONE)
        continue_chain_at_node_or_wait(r, s->is->worker[w].chain, i);
}

static void let_dispatcher_take_result_and_give_block(struct rp *r, uint32_t k)
{
    struct rp_queues *s = r->queues;
    struct dispatcher *is = &s->queue[k];
    const struct ips_queue *q = &s->is->queue[k];
    uint32_t b = is->first, t = is->turn++, w = s->holder[b];
    is->first = s->next[b];
    is->waits = false;
    is->takes_result = true;
    r->out->taken_block[t] = b;
    r->out->events++;
    if (s->is->turn[t].gives != NONE)
        append_block_to_worker(s, w, s->is->turn[t].gives);
    continue_chain_at_node_or_wait(r, q->chain, s->is->block[b].ask);
    resume_worker_if_waiting(r, w);
    if (is->turn != q->end_turn)
        return;
    for (uint32_t v = q->first_worker; v < q->end_worker; v++)
        resume_worker_if_waiting(r, v);
}

void rp_queue_let_dispatchers_take_results(struct rp *r)
{
    struct rp_queues *s = r->queues;
    r->queue_due = 0;
    for (uint32_t k = 0; k < s->is->queue_count; k++)
        if (s->queue[k].waits && s->queue[k].first != NONE)
            let_dispatcher_take_result_and_give_block(r, k);
}

/* ---- lock-protected work queues ----------------------------------------- */

void rp_lock_queue_assign_piece_if_worker(struct rp *r, uint32_t c,
                                          uint32_t lock)
{
    struct rp_queues *s = r->queues;
    const struct ips_lock_queues *is = &s->is->lock_queues;
    if (!s->works[c])
        return;
    uint32_t w = s->works[c] - 1;
    const struct ips_lock_queue *crew =
        &is->lock_queue[is->worker[w].lock_queue];
    uint32_t *next = &s->piece[is->worker[w].lock_queue];
    if (crew->lock != lock)
        return;
    r->chain[c].pos = is->worker[w].tail;
    if (*next == crew->end_piece)
        return;
    r->out->piece_worker[*next] = w;
    r->chain[c].pos = is->piece[(*next)++].first;
}
