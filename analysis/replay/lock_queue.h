/*
 * Work queues without a dispatcher: threads that take the next piece of work
 * from one place under a lock. Who had it first took the piece; elsewhere a
 * quicker thread does more of them.
 *
 * A worker's chain is what it does before it takes the lock for the first time,
 * a piece from each taking to the next one, and from the last taking on, when
 * it found nothing left, its tail. Settled anew is who does which piece: the
 * next one, in the order in which they were taken as recorded, goes to whoever
 * has the lock next. What a chain does behind a piece until it asks for the
 * lock again is done behind it wherever it goes (as in queue.h).
 *
 * A graph does not tell such a thread from one whose turns are its own, so it
 * is a crew only if (else the order stays as recorded):
 *   - every taking of the lock is known, and when it was;
 *   - the workers, all chains that took it more than once, are threads that one
 *     chain made, which is none of them;
 *   - each took it for the last time when all pieces were taken: they stop
 *     together, because nothing is left;
 *   - none does much then: a tail has a fourth of a piece's work at most;
 *   - they did not divide the work evenly: some two differ by two pieces, and
 * by two takings of all locks together. (Who has turns of his own has as many
 *     as the others, or one more or less, whichever locks he takes in them.)
 *   - no number but 1 divides how many each has: else the lock may be taken
 *     twice or more for a piece;
 *   - a piece gives the lock back, and exchanges nothing with others but
 *     locks.
 * Of two locks that would do, the one that was taken more often; at most 16
 * that look like it are tried.
 *
 * Pure. Source: DPM-14; DPM-6.
 */
#ifndef IPS_ANALYSIS_REPLAY_LOCK_QUEUE_H
#define IPS_ANALYSIS_REPLAY_LOCK_QUEUE_H

#include "analysis/graph/graph.h"

struct ips_replay_locks;

struct ips_lock_queue_piece { /* in the order in which they were taken */
    uint32_t first, end;      /* nodes; the first takes the lock */
    uint32_t worker;          /* that did it, as recorded */
};
struct ips_lock_queue_worker {
    uint32_t chain, lock_queue;
    uint32_t begin; /* node: its first taking */
    uint32_t tail;  /* ... its last one */
};
struct ips_lock_queue {
    uint32_t lock;
    uint32_t first_piece, end_piece;
    uint32_t first_worker, end_worker; /* by chain */
};
struct ips_lock_queues {
    struct ips_lock_queue *lock_queue;
    uint32_t lock_queue_count;
    struct ips_lock_queue_worker *worker;
    uint32_t worker_count;
    struct ips_lock_queue_piece *piece;
    uint32_t piece_count;
};

/* Those of a checked graph without remote references. `when` [node_count]: of a
 * node that takes a lock, when it had it. `busy` [chain_count]: chains that are
 * of a queue already, or NULL. O(nodes + events log(events)). */
int ips_lock_queues_find(const struct ips_graph *g,
                         const struct ips_replay_locks *locks,
                         const uint64_t *when, const bool *busy,
                         struct ips_lock_queues *out,
                         struct ips_err *err) IPS_MUST_USE;
void ips_lock_queues_release(struct ips_lock_queues *p);

#endif
