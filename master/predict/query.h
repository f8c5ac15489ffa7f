/* What predict/query.c gathers, its worker computes, and predict/answer.c
 * tells. */
#ifndef IPS_MASTER_PREDICT_QUERY_H
#define IPS_MASTER_PREDICT_QUERY_H

#include "analysis/explain/order_dependent.h"
#include "analysis/replay/search.h"
#include "master/predict/predict.h"
#include "master/query/certificate.h"
#include "master/whatif/whatif.h"

/* A node: what a what-if takes, the graph as it came, and two replays. */
#define PREDICT_NODE_BYTES (WHATIF_NODE_BYTES + 160u)

/* Of --search: items are the processes that --map does not name, and one for
 * each machine with all that it does put there. */
struct predict_search_result {
    struct ips_search s;
    struct ips_search_bound bound;
    uint32_t *item;                  /* [chains] */
    uint32_t item_count, free_count; /* the free ones come first */
    uint64_t tries_most;
};

struct predict_query {
    struct whatif_data w; /* first */
    Ips__WhatifAsk ask;
    Ips__Lane scenario;
    struct waits waits;  /* fetched, not laid */
    struct mtimes times; /* copies of what was measured, where that is used */
    struct arena a;      /* texts of `said` */
    struct predict_said said;
    struct predict_run run;
    struct predict_setup setup;
    struct predict_answer own, then;
    struct ips_order_dependent order;
    struct predict_search_result search_result;
    atomic_uint_least64_t tries, best_ns; /* so far */
    uint64_t own_loaded_ns; /* the command, IPS_UNMEASURED: not computed */
    double own_load;        /* the greatest */
    uint64_t t_max_free_ns; /* messages cost nothing: P_max */
};

static inline struct predict_query *predict_of(struct query *q)
{
    return q->data;
}

/* predict/run.c, in the worker: of what was gathered. */
int predict_run_make(struct query *q, const struct whatif_solving *s,
                     struct predict_run *run) IPS_MUST_USE;
/* predict/lock_holds.c: adds to `idle` [nodes of the whole graph] what TCP held
 * messages back; sets run's `held_`. Graphs have times. */
int predict_lock_holds(struct query *q, const struct whatif_solving *s,
                       struct predict_run *run, uint64_t *idle) IPS_MUST_USE;
/* predict/locks.c: what was done with locks, in order of the whole graph. Where
 * it has no node of its own an arc is to be cut for it: the caller does that,
 * and fills `at`. Rows that are no good are left out. */
struct predict_lock_row {
    uint64_t after; /* of the work of the arc + 1; 0: at `node` itself */
    uint64_t at_ns; /* by its machine's clock */
    uint32_t node;  /* of the whole graph */
    uint32_t lock;
    uint32_t at; /* node of the replay's graph */
    bool gives;
};
struct predict_lock_rows {
    struct predict_lock_row *row; /* free() */
    size_t count;
    uint32_t *units; /* [lock_count]; goes to the run */
    uint32_t lock_count;
};
int predict_lock_rows_make(struct query *q, const struct whatif_solving *s,
                           struct predict_lock_rows *out) IPS_MUST_USE;
/* run->locks, of run->replay. */
int predict_locks_make(struct predict_lock_rows *rows, struct predict_run *run,
                       struct ips_err *err) IPS_MUST_USE;
/* predict/order.c: where the run's behaviour depended on order. In the worker;
 * and in the loop, into the answer. */
int predict_order_make(struct query *q, struct ips_err *err) IPS_MUST_USE;
void predict_fill_order(struct query *q, struct arena *a, struct certificate *c,
                        Ips__PredictAnswer *out);
/* predict/search.c: puts the best map into d->setup. In the worker; each second
 * meanwhile, and into the answer, in the loop. */
int predict_search(struct query *q, struct ips_err *err) IPS_MUST_USE;
void predict_search_release(struct predict_search_result *f);
void predict_search_progress(struct query *q);
void predict_fill_search(struct query *q, struct arena *a,
                         Ips__PredictAnswer *out);
/* In the loop: the reply. */
void predict_fill_answer(struct query *q);

#endif
