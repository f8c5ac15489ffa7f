/*
 * Who sent how much to whom, process by process, from the channel rows of all
 * machines. Pure.
 */
#ifndef IPS_MASTER_TABLES_MATRIX_H
#define IPS_MASTER_TABLES_MATRIX_H

#include "master/query/query.h"

/* A process: part number << 32 | process index. */
#define MATRIX_EXTERNAL UINT64_MAX
#define MATRIX_PENDING (UINT64_MAX - 1)

struct matrix_cell {
    uint64_t from, to;
    uint64_t messages, bytes;
};
struct matrix {
    struct matrix_cell *cells; /* sorted by from, to; no two alike */
    size_t count, cap;
};

static inline uint64_t matrix_process(uint32_t part, uint32_t process)
{
    return (uint64_t)part << 32 | process;
}

int matrix_make(struct machine_share *const *parts, uint32_t count,
                bool pending, struct matrix *out,
                struct ips_err *err) IPS_MUST_USE;
/* The same with machines for processes (part number << 32). */
int matrix_by_machine(const struct matrix *m, struct matrix *out,
                      struct ips_err *err) IPS_MUST_USE;
/* The same cells sorted by `to`, then `from`. */
int matrix_turn(const struct matrix *m, struct matrix *out,
                struct ips_err *err) IPS_MUST_USE;
/* First cell whose `from` (`to` where turned) is not below `who`. */
size_t matrix_find(const struct matrix *m, uint64_t who, bool turned);
void matrix_release(struct matrix *m);

#endif
