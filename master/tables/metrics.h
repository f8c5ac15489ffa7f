/*
 * Computes Table 2 of the paper from the slaves' tables. Pure: takes tables,
 * returns rows. Source: IPS-3 (the definitions in the project's requirements),
 * IPS-8.
 *
 *  - T of a thread is its lifetime. Above the thread it is elapsed time: a
 *    process's own; a machine's from its first start to its last end; for the
 *    run, the time that passed on the goal's machine. All other values are sums
 *    over threads.
 *  - R (response) = T/T_cpu for a thread, S/T_cpu above it (S: sum of thread
 *    lifetimes). P (parallelism) = T_cpu/T, for the run only. rho = T_cpu /
 *    (usable cores x T), for the run with the sum over its machines. rho_dpm is
 *    the papers' value (P/N_m, one core per machine).
 *  - Messages are counted at the sender or, if the sender is not recorded, at
 *    the receiver. So rows and columns of the matrices add up to messages_out
 *    and messages_in.
 *  - A value that was not measured is absent, never 0: T_wait_cpu, L, and
 *    anything that needs two machines' clocks.
 */
#ifndef IPS_MASTER_TABLES_METRICS_H
#define IPS_MASTER_TABLES_METRICS_H

#include "master/base/arena.h"
#include "master/query/query.h"

/* Rows and cells beyond these limits are left out, and the answer says so. */
#define METRICS_MAX_ROWS 20000
#define METRICS_MAX_CELLS 20000

#define METRICS_LEVELS 4

/* Makes the rows of `level` ("run", "machine", "process", "thread") within
 * `object` ("", "/", "/m", "/m/p", "/m/p/t"). level "": the object itself and
 * its direct children; NULL: everything within it. `pending`: a machine is
 * missing, so an end without a peer counts as pending, not as external. Sets
 * *cut to the number of rows and cells left out; if `cut` is NULL, none are
 * left out. Errors: IPS_E_NOT_FOUND, IPS_E_USAGE. */
int metrics_make_rows_and_matrices(struct machine_share *const *parts,
                                   uint32_t count, bool pending,
                                   const char *object, const char *level,
                                   struct arena *a, Ips__MetricsAnswer *out,
                                   uint64_t *cut,
                                   struct ips_err *err) IPS_MUST_USE;

/* Sets at_level[l] to whether rows of level l (run, machine, process, thread)
 * are wanted: those of the named `level`, or for "" that of `object` and the
 * next lower one. `object` "" is everything. IPS_E_USAGE: invalid level. */
int metrics_parse_levels(const char *object, const char *level,
                         bool at_level[METRICS_LEVELS],
                         struct ips_err *err) IPS_MUST_USE;
/* Whether a cell of the processes' matrix involves the object ("": any). */
bool metrics_cell_involves(const char *object, const Ips__MatrixCell *c);

#endif
