/* Data shared by predict/query.c (gathers it), its job in the worker and
 * predict/answer.c (sends the result). */
#ifndef IPS_MASTER_PREDICT_QUERY_H
#define IPS_MASTER_PREDICT_QUERY_H

#include "analysis/explain/order_dependent.h"
#include "analysis/replay/search.h"
#include "master/predict/predict.h"
#include "master/query/certificate.h"
#include "master/whatif/whatif.h"

/* Memory per node: for a what-if, the received graphs and two replays. */
#define PREDICT_NODE_BYTES (WHATIF_NODE_BYTES + 160u)

/* Result of --search. The items are the processes that --map does not place,
 * plus one item per machine with all processes that --map does place there. */
struct predict_search_result {
    struct ips_placement_search s;
    struct ips_search_compute_bound bound;
    uint32_t *item; /* [chains] the item of each chain */
    /* number of items; number of those that the search may move (they come
     * first) */
    uint32_t item_count, free_count;
    uint64_t tries_most;
};

struct predict_query {
    struct whatif_data w; /* must be first: the what-if works on it */
    Ips__WhatifAsk ask;
    Ips__Lane scenario;
    /* the waits as fetched; waits_place_on_graph() was not called */
    struct waits waits;
    struct message_times times; /* copies of the measured times that are used */
    struct arena a;             /* owns the texts of `said` */
    struct predict_assumptions said;
    struct predict_run run;
    struct predict_setup setup;
    struct predict_answer own, then;
    struct ips_order_dependence order;
    struct predict_search_result search_result;
    atomic_uint_least64_t tries, best_ns; /* progress of the search */
    /* time of the command on the run's own machines with their load;
     * IPS_UNMEASURED: not computed */
    uint64_t own_loaded_ns;
    double own_load; /* the largest load of the run's own machines */
    /* path length if messages take no time, for P_max */
    uint64_t t_max_free_ns;
};

static inline struct predict_query *predict_query_of(struct query *q)
{
    return q->data;
}

/* predict/run.c, in the worker: makes the run that is replayed from the
 * gathered data. */
int predict_run_make(struct query *q, const struct whatif_solving *s,
                     struct predict_run *run) IPS_MUST_USE;
/* predict/delayed_messages.c: adds the delay of messages that TCP held back to
 * `idle` [nodes of the whole graph]; sets the run's held_back_ fields. The
 * graphs must have times. */
int predict_add_held_back_delays(struct query *q,
                                 const struct whatif_solving *s,
                                 struct predict_run *run,
                                 uint64_t *idle) IPS_MUST_USE;
/* predict/locks.c: the lock operations, ordered as in the whole graph. If an
 * operation has no node of its own, the caller must cut the arc there and fill
 * in `at`. Invalid rows are left out. */
struct predict_lock_row {
    /* CPU time of the arc into `node` before the operation, plus 1; 0: the
     * operation is at `node` itself */
    uint64_t after;
    uint64_t at_ns; /* time by its machine's clock */
    uint32_t node;  /* node in the whole graph */
    uint32_t lock;
    uint32_t at; /* node in the replay's graph */
    bool gives;
};
struct predict_lock_rows {
    struct predict_lock_row *row; /* release with free() */
    size_t count;
    /* [lock_count] units of each lock: how many threads can have it at once;
     * the run takes ownership */
    uint32_t *units;
    uint32_t lock_count;
};
int predict_lock_rows_make(struct query *q, const struct whatif_solving *s,
                           struct predict_lock_rows *out) IPS_MUST_USE;
/* Fills run->locks from `rows`. Its events refer to nodes of run->replay. */
int predict_make_replay_lock_events(struct predict_lock_rows *rows,
                                    struct predict_run *run,
                                    struct ips_err *err) IPS_MUST_USE;
/* predict/order.c: finds where the run's behaviour depended on order.
 * predict_find_order_dependence runs in the worker;
 * predict_fill_answer_with_order_dependence fills the answer in the loop. */
int predict_find_order_dependence(struct query *q,
                                  struct ips_err *err) IPS_MUST_USE;
void predict_fill_answer_with_order_dependence(struct query *q, struct arena *a,
                                               struct certificate *c,
                                               Ips__PredictAnswer *out);
/* predict/search.c: predict_search runs in the worker and puts the best map
 * into d->setup. The others run in the loop: each second during the search,
 * and to fill the answer. */
int predict_search(struct query *q, struct ips_err *err) IPS_MUST_USE;
void predict_search_release(struct predict_search_result *f);
void predict_send_search_progress(struct query *q);
void predict_fill_answer_with_search(struct query *q, struct arena *a,
                                     Ips__PredictAnswer *out);
/* In the loop: sends the reply. */
void predict_send_answer(struct query *q);

#endif
