/*
 * Graphs of random programs with a work queue (analysis/replay/queue.h), as
 * they would be recorded if a dispatcher took results in a random order. The
 * same seed gives the same program and graph.
 *
 * The program: the dispatcher has `pieces` pieces of work, gives the first
 * `window` to each worker, takes results, and gives the next piece to whose
 * result it took. A worker does what it has in the order in which it came. With
 * none left the dispatcher tells a worker to stop (`stops`; window 1), or ends
 * all connections at the end. Chain 0 is the dispatcher's unless `last`: then
 * it is the last one.
 */
#ifndef IPS_TESTS_RANDOM_QUEUE_H
#define IPS_TESTS_RANDOM_QUEUE_H

#include "analysis/replay/queue.h"

#define RQ_WORKERS 6u
#define RQ_PIECES 160u /* lists of what is found grow twice */

struct rq_piece {
    uint64_t work;     /* ... and until its result is sent */
    uint64_t behind;   /* ... and then, before it receives again */
    uint64_t taking;   /* of the dispatcher between the result's receives */
    uint64_t taken;    /* ... and behind them */
    uint32_t receives; /* of the result */
    uint32_t bytes, result_bytes;
};
struct rq_turn {
    uint64_t after; /* work behind a piece that is given */
    uint64_t rest;  /* ... and before the next result */
};
struct rq {
    uint32_t workers, pieces, window;
    bool stops, last;
    uint64_t connect[RQ_WORKERS + 1]; /* work before the first send of each */
    uint64_t ready;                   /* ... and behind them all */
    uint64_t end;                     /* of each worker, at its end */
    struct rq_piece piece[RQ_PIECES];
    struct rq_turn turn[RQ_PIECES];
    uint32_t stop_bytes;
    struct ips_graph g;
    bool any[RQ_WORKERS + 1];
    uint32_t turns, dispatcher; /* chain */
    uint32_t took[RQ_PIECES];   /* piece, as recorded */
    uint32_t sent[RQ_PIECES];   /* node of each piece's result */
    uint32_t asked[RQ_PIECES];  /* ... where it is received first */
};

/* Aborts the test program where memory is short. */
void rq_make(uint64_t seed, uint32_t weight_max, struct rq *out);
void rq_release(struct rq *q);
/* The piece whose block (of g's queues) it is. */
uint32_t rq_piece_of(const struct rq *q, const struct ips_queue_block *b);

#endif
