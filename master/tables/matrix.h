/*
 * The message matrix: how much each process sent to each other process, from
 * the channel rows of all machines. Pure.
 */
#ifndef IPS_MASTER_TABLES_MATRIX_H
#define IPS_MASTER_TABLES_MATRIX_H

#include "master/query/query.h"

/* A row or column of the matrix is a process (machine_share.number << 32 |
 * process index) or one of these: a process that is not recorded, or one that
 * is not known yet. */
#define MATRIX_EXTERNAL UINT64_MAX
#define MATRIX_PENDING (UINT64_MAX - 1)

struct matrix_cell {
    uint64_t from, to;
    uint64_t messages, bytes;
};
struct matrix {
    /* unique; sorted by from, then to, except in the result of
     * matrix_copy_sorted_by_receiver() */
    struct matrix_cell *cells;
    size_t count, cap;
};

static inline uint64_t matrix_process_key(uint32_t part, uint32_t process)
{
    return (uint64_t)part << 32 | process;
}

int matrix_make(struct machine_share *const *parts, uint32_t count,
                bool pending, struct matrix *out,
                struct ips_err *err) IPS_MUST_USE;
/* Sums the matrix of processes to a matrix of machines (machine_share.number <<
 * 32). */
int matrix_sum_by_machine(const struct matrix *m, struct matrix *out,
                          struct ips_err *err) IPS_MUST_USE;
/* Copies the cells and sorts them by `to`, then `from`. */
int matrix_copy_sorted_by_receiver(const struct matrix *m, struct matrix *out,
                                   struct ips_err *err) IPS_MUST_USE;
/* Returns the index of the first cell whose sender (`from`) is not less than
 * `who`. With `turned`, the matrix must be sorted by receiver, and `to` is
 * compared instead of `from`. */
size_t matrix_find_first_cell(const struct matrix *m, uint64_t who,
                              bool turned);
void matrix_release(struct matrix *m);

#endif
