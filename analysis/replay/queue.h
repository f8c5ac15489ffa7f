/*
 * Work queues with a dispatcher: a thread that gives pieces of work to other
 * threads and takes their results in the order in which they arrive; the thread
 * that brought a result gets the next piece. In the recorded run it was chance
 * which thread did which piece (DPM-14); on other machines a faster worker does
 * more pieces. This file finds such queues in a graph, and makes the graph that
 * another order would have given.
 *
 * A dispatcher's chain consists of the part before the first result, its
 * `turns`, and its end. A turn takes a result (at the nodes `ask` to `ask_end`
 * of a block) and continues up to the next result; it may be empty. A worker's
 * chain is cut into `blocks`, each from the first receive of a piece to the
 * first receive of the next piece. Every block of a worker but the last has one
 * result. So a turn takes one block's result and may give another block to the
 * worker of that result. A replay decides anew which result each turn takes.
 * The worker of that result gets the block that the turn gives. A worker always
 * keeps its first block, blocks that it was given before the first result, and
 * the `tail`, the part after its last piece.
 *
 * Threads form a queue only if all of this holds (else the order stays as
 * recorded):
 *  - The dispatcher could have taken results in another order: `any[chain]`.
 *  - The dispatcher wrote to each worker before that worker wrote to it. If the
 *    other side writes first, a graph cannot distinguish workers that fetch
 *    work from clients that send requests of their own.
 *  - Until the last result, each turn wrote to no worker but the one whose
 *    result it took, and gave that worker at most one block.
 *  - Everything that a block received from the dispatcher was sent in one turn.
 *  - Each worker's last block begins with what the dispatcher sent after the
 *    last result; or each worker's last block was given in return for a result,
 *    and has no result itself (the worker is told to stop).
 *  - There are at least two workers, no chain is in two queues, and some block
 *    is given in a turn.
 *
 * All other communication of a block keeps its arcs as recorded.
 * Pure. Source: DPM-14; DPM-6.
 */
#ifndef IPS_ANALYSIS_REPLAY_QUEUE_H
#define IPS_ANALYSIS_REPLAY_QUEUE_H

#include "analysis/replay/lock_queue.h"

#define IPS_QUEUE_NONE UINT32_MAX

/* All node numbers are of the recorded graph. `end` and `ask_end` are one past
 * the last node. */
struct ips_queue_block {
    uint32_t first, end;
    uint32_t worker;       /* the worker that did the block as recorded */
    uint32_t ask, ask_end; /* nodes at which the dispatcher receives the block's
                              result; equal: the block has no result */
    uint32_t turn;         /* the turn that gave the block, or IPS_QUEUE_NONE */
};
struct ips_queue_turn {
    /* nodes of the turn, without the receives of the result */
    uint32_t first, end;
    uint32_t gives; /* the block that the turn gives, or IPS_QUEUE_NONE */
    /* the block whose result the turn takes, as recorded */
    uint32_t taken_block;
};
struct ips_queue_worker {
    uint32_t chain, queue;
    uint32_t first_block, end_block; /* the worker's blocks as recorded; the
                                        last one is the tail */
};
struct ips_queue {
    uint32_t chain; /* the dispatcher */
    uint32_t first_turn, end_turn;
    uint32_t first_worker, end_worker;
    uint32_t rest; /* first node after the last turn */
};
struct ips_queues {
    struct ips_queue *queue;
    uint32_t queue_count;
    struct ips_queue_worker *worker;
    uint32_t worker_count;
    struct ips_queue_block *block;
    uint32_t block_count;
    struct ips_queue_turn *turn;
    uint32_t turn_count;
    /* work queues without a dispatcher (lock_queue.h); may be empty */
    struct ips_lock_queues lock_queues;
};

/* Finds the queues of a checked graph without remote references. `any`
 * [chain_count]: the chain could have received in another order. `lock_queues`
 * is left empty. O(nodes). */
int ips_queues_find(const struct ips_graph *g, const bool *any,
                    struct ips_queues *out, struct ips_err *err) IPS_MUST_USE;
void ips_queues_release(struct ips_queues *q);

/* A graph whose pieces of work are in another order than recorded. */
struct ips_queued_graph {
    struct ips_graph g; /* owned; has the columns that a replay needs */
    /* [node_count] the corresponding node of the recorded graph */
    uint32_t *of;
    uint32_t *to; /* [node_count] the inverse of `of` */
};
/* Makes the graph with pieces in another order. `took` [turn_count]: the block
 * whose result each turn takes. `piece_worker` [lock_queues.piece_count]: the
 * worker that does each piece. The nodes and their cross arcs are the same, but
 * the nodes of blocks, turns and pieces have other positions. Work that
 * followed a block, turn or piece as recorded still follows it. So the arc into
 * the first node after each of them gets the weight of that work. */
int ips_queued_graph_make_reordered(const struct ips_graph *g,
                                    const struct ips_queues *q,
                                    const uint32_t *took,
                                    const uint32_t *piece_worker,
                                    struct ips_queued_graph *out,
                                    struct ips_err *err) IPS_MUST_USE;
void ips_queued_graph_release(struct ips_queued_graph *q);

#endif
