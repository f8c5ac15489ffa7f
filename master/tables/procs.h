/*
 * Merges the procedure rows of several machines and processes into one list.
 * Pure. Source: IPS-2, IPS-7; Wilson 1927; Kish 1965 (effective sample size).
 */
#ifndef IPS_MASTER_TABLES_PROCS_H
#define IPS_MASTER_TABLES_PROCS_H

#include "proto/message.h"

/* Adds up rows with equal (object, procedure, module, file, line), and sorts
 * them by self time, total time (both descending), and name. Returns the
 * number of remaining rows. The rows are modified and moved. */
size_t procs_merge(Ips__ProcedureRow **rows, size_t count);

/* Sets self_low_ns and self_high_ns: the 95% interval for rows with samples,
 * self_ns itself for exact rows, else IPS_UNMEASURED. Does the same for
 * total_ns, which samples in called procedures determine too. */
void procs_compute_intervals(Ips__ProcedureRow **rows, size_t count,
                             const Ips__ProcedureTotals *totals);

void procs_add_up_totals(Ips__ProcedureTotals *sum,
                         const Ips__ProcedureTotals *more);

/* Sets path_ns of each row to self_ns of the row of `path` with the same key,
 * or 0. Both lists must be merged; their order is kept. Returns false if there
 * is no memory. */
bool procs_set_path_ns(Ips__ProcedureRow **rows, size_t count,
                       Ips__ProcedureRow *const *path, size_t path_count);

/* Wilson's 95% interval of a proportion p in n samples (n may be fractional).
 */
void procs_wilson_interval(double p, double n, double *low, double *high);

#define PROCS_NONE_BYTES 160
/* Writes why no procedure is known, and what helps. sample_ns: CPU time between
 * two samples; 0: no samples were taken. */
void procs_explain_missing_procedures(uint64_t sample_ns,
                                      char out[PROCS_NONE_BYTES]);

#endif
