/*
 * Of a table of procedures the rows that will be shown, in the master's order
 * (procs_merge): greatest self first, then total, then the texts; with `sort`
 * first by that column, as common/rank.h has it. Exact: what stays is the begin
 * of the whole table in that order. Pure.
 */
#ifndef IPS_SLAVE_PROC_TOP_H
#define IPS_SLAVE_PROC_TOP_H

#include "slave/proc_table.h"

struct slave_proc_top {
    uint64_t top;
    const char *sort; /* field of ProcedureRow; "": self_ns */
    bool back;        /* least first */
    bool by_process;  /* rows of equal cost: by the process's name, then */
};

/* Rows beyond the `top` first are dropped. A column that cannot be sorted by
 * here leaves all of them. O(rows log top). */
int slave_proc_table_top(struct slave_proc_table *t, const struct ips_built *b,
                         const struct slave_proc_top *how,
                         struct ips_err *err) IPS_MUST_USE;

#endif
