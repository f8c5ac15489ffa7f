/* Shared by metrics.c and metrics_matrix.c. */
#ifndef IPS_MASTER_TABLES_METRICS_PRIVATE_H
#define IPS_MASTER_TABLES_METRICS_PRIVATE_H

#include "master/tables/matrix.h"
#include "master/tables/metrics.h"

/* The same matrix twice: sorted by sender, and by receiver. */
struct metrics_traffic {
    struct matrix by_from, by_to;
};

struct metrics_maker {
    struct machine_share *const *shares;
    uint32_t count;
    struct arena *a;
    Ips__MetricsAnswer *out;
    size_t row_cap;
    struct metrics_traffic processes, machines;
    const char *object; /* pattern of the requested object */
    bool at_level[METRICS_LEVELS];
    bool is_found;
    bool all; /* never leave out rows or cells */
    uint64_t cut;
    char ***names; /* names by machine number and process; made on first use */
};

/* Returns "/m1/redis.812", allocated in the arena and shared by many rows and
 * cells. */
char *metrics_process_name(struct metrics_maker *k,
                           const struct machine_share *p, uint32_t i);

/* Adds the cells of `m` to *list. `machine`: `m` is the matrix of machines. Of
 * the matrix of processes only the cells that involve the requested object are
 * added. */
void metrics_add_matrix(struct metrics_maker *k, const struct matrix *m,
                        bool machine, Ips__MatrixCell ***list, size_t *count);
/* Adds the sum of each row and column of a matrix, including "external" and
 * "pending", and the total as the last entry. */
void metrics_add_matrix_totals(struct metrics_maker *k,
                               const struct metrics_traffic *m, bool machine,
                               Ips__MatrixTotal ***list, size_t *count);

#endif
