/*
 * The rows of all objects of a run, made once from its gathered tables; every
 * question selects from them. They are the rows of `ls`, and those of
 * `metrics` with its matrices (metrics.h). They are cached together with their
 * tables (tables/cache.h). Pure.
 */
#ifndef IPS_MASTER_TABLES_TABLES_H
#define IPS_MASTER_TABLES_TABLES_H

#include "master/base/arena.h"
#include "master/query/query.h"

/* Limit for processes and threads; for larger runs a question makes its own
 * rows. */
#define TABLES_OBJECTS_MOST 131072u

struct tables {
    struct arena a;
    /* the run, then each machine, its processes, and the threads of each
     * process */
    Ips__ObjectRow **objects;
    size_t object_count;
    bool has_metrics;
    Ips__MetricsAnswer metrics; /* rows of every object, at every level */
    /* [metrics.n_rows + 1] index in metrics.waits of each row's first wait */
    size_t *first_wait;
};

/* Returns NULL if there is no memory. */
struct tables *tables_new(void);
void tables_free(struct tables *t);

/* Whether the gathered tables are small enough to be cached with their rows. */
bool tables_have_few_enough_objects(const struct query *q);
/* Makes t->objects, unless they exist already. The rows borrow strings of the
 * gathered tables. */
int tables_make_objects(struct tables *t, const struct query *q,
                        struct ips_err *err) IPS_MUST_USE;
/* Makes t->metrics, unless they exist already. */
int tables_make_metrics(struct tables *t, const struct query *q,
                        struct ips_err *err) IPS_MUST_USE;

/* Puts the requested part of t->metrics into `out`: its lists are allocated in
 * `a`, its rows belong to t. Like metrics_make_rows_and_matrices, but nothing
 * is cut off, and out->waits lists the waits of all selected rows. */
int tables_copy_requested_metrics(const struct tables *t, const char *object,
                                  const char *level, struct arena *a,
                                  Ips__MetricsAnswer *out,
                                  struct ips_err *err) IPS_MUST_USE;

/* Reduces an answer with `waits` to what a client with --top shows. The lists
 * are allocated in `a`; *left receives the numbers of omitted rows and becomes
 * part of the answer. If only the client can select the rows, all of them stay,
 * but `waits` is emptied. */
void tables_cut_metrics_to_top(const Ips__Select *ask, struct arena *a,
                               Ips__MetricsAnswer *answer, Ips__LeftOut *left);
/* Removes rows and cells beyond METRICS_MAX_ROWS and METRICS_MAX_CELLS;
 * returns how many. */
uint64_t tables_cut_metrics_to_limits(struct arena *a,
                                      Ips__MetricsAnswer *answer);

#endif
