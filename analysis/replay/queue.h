/*
 * Work queues with a dispatcher: a thread that gives pieces of work to others
 * and takes their results in the order in which they come, and whoever brought
 * one gets the next piece. Who did which piece was chance (DPM-14); elsewhere
 * the faster worker does more of them. Here they are found in a graph, and a
 * graph is made of another order.
 *
 * A dispatcher's chain is cut into what it did before the first result, and for
 * each of its `turns` the taking of a result (`ask` of a block) and what
 * follows up to the next one (the turn's own nodes, maybe none), then its end.
 * A worker's chain is cut into `blocks`, each from the first receive of a piece
 * to the next one's: a block has one result, but for the last. So a turn takes
 * one block's result and may give another block to whom that was of. Settled
 * anew is which result each turn takes; the blocks that are given go with it.
 * The first block of a worker is its own, and those that were given before the
 * first result, and what comes after its last piece (`tail`).
 *
 * It is a queue only if (else the order stays as recorded):
 *   - the dispatcher's order was free: `any[chain]`;
 *   - it wrote to each worker before that wrote to it. Of who asks first a
 *     graph does not tell work that is handed out from clients that are served,
 *     whose work is their own;
 *   - until the last result, each turn wrote to none of the workers but that
 *     whose result it took, and gave it one block at most;
 *   - all that a block received of the dispatcher is of one turn;
 *   - each worker's last block begins with what the dispatcher sent after the
 *     last result, or of each worker with what it got for a result, and then it
 *     has no result (it is told to stop);
 *   - there are two workers, no chain is of two queues, and some block is
 *     given in a turn.
 * What else a block exchanges with others keeps its arcs.
 *
 * Pure. Source: DPM-14; DPM-6.
 */
#ifndef IPS_ANALYSIS_REPLAY_QUEUE_H
#define IPS_ANALYSIS_REPLAY_QUEUE_H

#include "analysis/replay/lock_queue.h"

#define IPS_QUEUE_NONE UINT32_MAX

/* Nodes of the recorded graph; `end` is one past the last. */
struct ips_queue_block {
    uint32_t first, end;
    uint32_t worker;       /* that had it as recorded */
    uint32_t ask, ask_end; /* receives of its result; equal: it has none */
    uint32_t turn;         /* that gave it, or IPS_QUEUE_NONE */
};
struct ips_queue_turn {
    uint32_t first, end;  /* without the receives of the result */
    uint32_t gives;       /* block, or IPS_QUEUE_NONE */
    uint32_t taken_block; /* block, as recorded */
};
struct ips_queue_worker {
    uint32_t chain, queue;
    uint32_t first_block, end_block; /* as recorded; the last is its tail */
};
struct ips_queue {
    uint32_t chain; /* the dispatcher's */
    uint32_t first_turn, end_turn;
    uint32_t first_worker, end_worker;
    uint32_t rest; /* node: what it does after the last turn */
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
    struct ips_lock_queues
        lock_queues; /* those without a dispatcher; may be empty */
};

/* Those of a checked graph without remote references; `any`: [chain_count].
 * `crews` is empty. O(nodes). */
int ips_queues_find(const struct ips_graph *g, const bool *any,
                    struct ips_queues *out, struct ips_err *err) IPS_MUST_USE;
void ips_queues_release(struct ips_queues *q);

/* The graph in another order: `took`: [turn_count] the block whose result each
 * turn takes; `had`: [crews.piece_count] the worker that does each. The nodes
 * are the same, each with its cross arc; those of blocks, turns and pieces
 * stand elsewhere, and the arc into the first node of one weighs what followed
 * the one that is now before it: what a thread does after a piece belongs to
 * that. */
struct ips_queued_graph {
    struct ips_graph g; /* owned; what a replay needs of a graph */
    uint32_t *of;       /* [node_count] node of the recorded graph */
    uint32_t *to;       /* [node_count] the other way */
};
int ips_queued_graph_make(const struct ips_graph *g, const struct ips_queues *q,
                          const uint32_t *took, const uint32_t *had,
                          struct ips_queued_graph *out,
                          struct ips_err *err) IPS_MUST_USE;
void ips_queued_graph_release(struct ips_queued_graph *q);

#endif
