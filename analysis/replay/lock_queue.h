/*
 * Finds work queues without a dispatcher: threads that take the next piece of
 * work from shared memory under a lock. The thread that gets the lock first
 * takes the piece; on other machines a faster thread does more of them.
 *
 * A worker's chain consists of the part before it first takes the lock; a piece
 * from each time it takes the lock to the next time; and the `tail` from the
 * last time on, when no work was left. A replay decides anew who does which
 * piece: the worker that gets the lock next does the next piece, in the order
 * in which the pieces were taken as recorded. What a chain did after a piece,
 * until it waited for the lock again, belongs to the piece (as in queue.h).
 *
 * A graph does not distinguish such threads from threads that take the lock for
 * work of their own. So threads form a queue only if all of this holds (else
 * the order stays as recorded):
 *  - Every time that a thread took the lock is known.
 *  - The workers, which are all chains that took the lock more than once, are
 *    threads created by one chain that is not one of them.
 *  - Each worker took the lock for the last time after all pieces were taken:
 *    they stop together, because no work is left.
 *  - No worker does much after that: a tail has at most a fourth of the mean
 *    work of a piece.
 *  - They did not divide the work evenly: two of them differ by at least two
 *    pieces, and by at least two in how often they took any lock. (Threads with
 *    work of their own take locks equally often, give or take one.)
 *  - The numbers of pieces of the workers have no common divisor but 1: with
 *    another, workers may take the lock several times for one piece.
 *  - Each piece releases the lock, and has no cross arcs to or from other
 *    pieces or threads but those of locks.
 *
 * If two locks qualify, the one taken more often is used. At most 16 candidate
 * locks are tried.
 * Pure. Source: DPM-14; DPM-6.
 */
#ifndef IPS_ANALYSIS_REPLAY_LOCK_QUEUE_H
#define IPS_ANALYSIS_REPLAY_LOCK_QUEUE_H

#include "analysis/graph/graph.h"

struct ips_replay_locks;

struct ips_lock_queue_piece { /* a piece of work; sorted by when the pieces were
                                 taken */
    uint32_t first, end;      /* nodes; the first takes the lock */
    uint32_t worker;          /* the worker that did the piece as recorded */
};
struct ips_lock_queue_worker {
    uint32_t chain, lock_queue;
    uint32_t begin; /* node at which the worker first takes the lock */
    uint32_t tail;  /* node at which the worker last takes the lock */
};
struct ips_lock_queue {
    uint32_t lock;
    uint32_t first_piece, end_piece;
    uint32_t first_worker, end_worker; /* sorted by chain */
};
struct ips_lock_queues {
    struct ips_lock_queue *lock_queue;
    uint32_t lock_queue_count;
    struct ips_lock_queue_worker *worker;
    uint32_t worker_count;
    struct ips_lock_queue_piece *piece;
    uint32_t piece_count;
};

/* Finds the queues of a checked graph without remote references. `when`
 * [node_count]: time at which a node that takes a lock got it, in any unit
 * (used only for the order). `busy` [chain_count]: chains that are in another
 * queue already, or NULL. O(nodes + events log(events)). */
int ips_lock_queues_find(const struct ips_graph *g,
                         const struct ips_replay_locks *locks,
                         const uint64_t *when, const bool *busy,
                         struct ips_lock_queues *out,
                         struct ips_err *err) IPS_MUST_USE;
void ips_lock_queues_release(struct ips_lock_queues *p);

#endif
