/*
 * Rows of procedures of several machines and processes as one list. Pure.
 * Source: IPS-2, IPS-7; Wilson 1927; Kish 1965 (effective sample size).
 */
#ifndef IPS_MASTER_TABLES_PROCS_H
#define IPS_MASTER_TABLES_PROCS_H

#include "proto/message.h"

/* Adds up rows of equal (object, procedure, module, file, line); greatest self
 * first, then total, then name. Returns how many are left. The rows are
 * changed and moved. */
size_t procs_merge(Ips__ProcedureRow **rows, size_t count);

/* self_low_ns and self_high_ns: of rows with samples the 95% interval, of exact
 * ones self_ns itself, else IPS_UNMEASURED. The same of total_ns, which samples
 * of what it called tell, too. */
void procs_intervals(Ips__ProcedureRow **rows, size_t count,
                     const Ips__ProcedureTotals *totals);

void procs_add_totals(Ips__ProcedureTotals *sum,
                      const Ips__ProcedureTotals *more);

/* path_ns of each row: self_ns of the row of `path` with equal key, or 0. Both
 * lists are merged; their order stays. False: no memory. */
bool procs_attach_path(Ips__ProcedureRow **rows, size_t count,
                       Ips__ProcedureRow *const *path, size_t path_count);

/* Wilson's 95% interval of a share p seen in n samples (n need not be whole).
 */
void procs_wilson(double p, double n, double *low, double *high);

/* Why no procedure is known, and what helps. sample_ns: CPU time between two
 * samples, 0: none were taken. */
#define PROCS_NONE_BYTES 160
void procs_none_text(uint64_t sample_ns, char out[PROCS_NONE_BYTES]);

#endif
