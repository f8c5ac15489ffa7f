/*
 * Graphs of random programs whose threads take pieces of work under a lock
 * (analysis/replay/lock_queue.h), as they would be recorded if chance decided
 * who comes next. The same seed gives the same program and graph.
 *
 * The program: chain 0 makes the workers, chains 1 and up, and waits for their
 * ends. A worker takes lock 0, is `inside`, gives it back, does the piece's
 * `work`, of some pieces something under lock 1, and what is `behind`; until no
 * piece is left: then it is inside for `none`, and does its `end`.
 */
#ifndef IPS_TESTS_RANDOM_CREW_H
#define IPS_TESTS_RANDOM_CREW_H

#include "analysis/replay/replay.h"

#define RCREW_WORKERS 6u
#define RCREW_PIECES 60u

/* What keeps it from being one that can be told. */
enum rcrew_flaw {
    RCREW_GOOD,
    RCREW_EVEN,    /* the workers take turns */
    RCREW_TWICE,   /* what is under lock 1 is under lock 0, of every piece */
    RCREW_EARLY,   /* one worker ends before the last pieces are taken */
    RCREW_MESSAGE, /* a piece sends something to another */
    RCREW_MAKER,   /* one worker made another */
};
struct rcrew_piece {
    uint64_t inside, work, shared, behind;
    bool shares; /* `shared` under lock 1 */
};
struct rcrew {
    uint32_t workers, pieces;
    uint64_t fork[RCREW_WORKERS], connect[RCREW_WORKERS], end[RCREW_WORKERS];
    uint64_t none;
    struct rcrew_piece piece[RCREW_PIECES];
    uint32_t had[RCREW_PIECES]; /* worker, as recorded */
    struct ips_graph g;
    uint32_t taking[RCREW_PIECES]; /* node */
    uint64_t *when;                /* [g.node_count] */
    uint32_t units[2];
    struct ips_replay_lock_event *event;
    struct ips_replay_locks locks;
};

/* Aborts the test program where memory is short. */
void rcrew_make(uint64_t seed, uint32_t weight_max, enum rcrew_flaw flaw,
                struct rcrew *out);
void rcrew_release(struct rcrew *p);

#endif
