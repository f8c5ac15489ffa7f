/*
 * Table 2 of the paper from the slaves' tables. Pure: takes tables, gives
 * rows. Source: IPS-3 (the definitions in the project's requirements), IPS-8.
 *
 * - T of a thread is its lifetime; above the thread it is elapsed time: of a
 *   process its own, of a machine from its first start to its last end, of the
 *   run what passed on the goal's machine. The others are sums over threads.
 * - R = T/T_cpu of a thread, S/T_cpu above (S: sum of thread lifetimes).
 *   P = T_cpu/T of the run alone. rho = T_cpu / (usable cores x T), of the run
 *   with the sum over its machines; rho_dpm is the papers' (P/N_m; one core).
 * - Messages are counted where they are sent, and where the sender is not
 *   traced, where they are received; so rows and columns of the matrices add
 *   up to messages_out and messages_in.
 * - What was not measured (T_wait_cpu, L, what needs two machines' clocks) is
 *   absent, never 0.
 */
#ifndef IPS_MASTER_TABLES_METRICS_H
#define IPS_MASTER_TABLES_METRICS_H

#include "master/base/arena.h"
#include "master/query/query.h"

/* Cells and rows beyond these are left out, and said. */
#define METRICS_MAX_ROWS 20000
#define METRICS_MAX_CELLS 20000

#define METRICS_LEVELS 4

/* Rows of `level` ("run", "machine", "process", "thread") within `object`
 * ("", "/", "/m", "/m/p", "/m/p/t"); level "": the object itself and what is
 * directly below; NULL: everything within it. `pending`: a machine is missing,
 * so an end without a peer is not known to be external. IPS_E_NOT_FOUND,
 * IPS_E_USAGE. *cut: rows or cells left out; NULL: none are. */
int metrics_make(struct machine_share *const *parts, uint32_t count,
                 bool pending, const char *object, const char *level,
                 struct arena *a, Ips__MetricsAnswer *out, uint64_t *cut,
                 struct ips_err *err) IPS_MUST_USE;

/* Which levels are meant, by place: run, machine, process, thread; `object`
 * "" is everything. IPS_E_USAGE. */
int metrics_levels(const char *object, const char *level,
                   bool at_level[METRICS_LEVELS],
                   struct ips_err *err) IPS_MUST_USE;
/* Is a cell of the processes' matrix the object's ("": any)? */
bool metrics_cell_in(const char *object, const Ips__MatrixCell *c);

#endif
