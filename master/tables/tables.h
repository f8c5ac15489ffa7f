/*
 * Rows of all objects of a run, made once from its gathered tables; every
 * question takes of them what it selects. The rows of `ls`, and those of
 * `metrics` with its matrices (metrics.h). Kept beside the tables that they are
 * of (tables/cache.h). Pure.
 */
#ifndef IPS_MASTER_TABLES_TABLES_H
#define IPS_MASTER_TABLES_TABLES_H

#include "master/base/arena.h"
#include "master/query/query.h"

/* Processes and threads: of runs with more, a question makes its own rows. */
#define TABLES_OBJECTS_MOST 131072u

struct tables {
    struct arena a;
    Ips__ObjectRow **objects; /* a machine, its processes, each one's threads */
    size_t object_count;
    bool has_metrics;
    Ips__MetricsAnswer metrics; /* of everything at every level */
    size_t *first_wait;         /* [metrics.n_rows + 1] of metrics.waits */
};

/* NULL: no memory. */
struct tables *tables_new(void);
void tables_free(struct tables *t);

/* Are the gathered tables small enough to be kept with their rows? */
bool tables_fit(const struct query *q);
/* Makes t->objects; once. The rows borrow texts of the gathered tables. */
int tables_objects(struct tables *t, const struct query *q,
                   struct ips_err *err) IPS_MUST_USE;
/* Makes t->metrics; once. */
int tables_metrics(struct tables *t, const struct query *q,
                   struct ips_err *err) IPS_MUST_USE;

/* What of t->metrics is asked for, in `out`: lists in `a`, rows of t. As
 * metrics_make, but nothing is cut off, and with `waits` of all rows. */
int tables_metrics_of(const struct tables *t, const char *object,
                      const char *level, struct arena *a,
                      Ips__MetricsAnswer *out,
                      struct ips_err *err) IPS_MUST_USE;

/* Of an answer with `waits` what a client with --top shows: lists in `a`, what
 * was left out in *left, which becomes the answer's. Where the client has to
 * choose, all rows stay, without `waits`. */
void tables_metrics_select(const Ips__Select *ask, struct arena *a,
                           Ips__MetricsAnswer *answer, Ips__LeftOut *left);
/* Rows and cells beyond METRICS_MAX_ROWS and _CELLS go; how many. */
uint64_t tables_metrics_cut(struct arena *a, Ips__MetricsAnswer *answer);

#endif
