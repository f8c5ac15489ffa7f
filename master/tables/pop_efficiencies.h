/*
 * The efficiencies of the POP methodology, for users who know them. They are
 * defined for a run whose threads compute during all of its time. Pure.
 *
 *   parallel       = sum of CPU / (n x T)   = load balance x communication
 *   load balance   = mean CPU / greatest CPU of a thread
 *   communication  = greatest CPU / T       = serialisation x transfer
 *   serialisation  = greatest CPU / T_ideal
 *   transfer       = T_ideal / T
 *
 * T_ideal is the time on an ideal network: the critical path in CPU time with
 * message times 0.
 *
 * n is the number of threads that lived for at least half of T. The
 * efficiencies are not defined (pop_threads is 0) if n < 2, or if all other
 * threads together have more than a tenth of the CPU time (a build, a shell
 * script, threads made for each request). Serialisation and transfer need the
 * critical path, for which the client asks separately
 * (client/commands/metrics.c).
 */
#ifndef IPS_MASTER_TABLES_POP_EFFICIENCIES_H
#define IPS_MASTER_TABLES_POP_EFFICIENCIES_H

#include "master/query/query.h"

/* Fills the row's pop_ fields. elapsed_ns: T in the formulas above;
 * IPS_UNMEASURED: not known. */
void pop_fill_efficiencies(struct machine_share *const *parts, uint32_t count,
                           uint64_t elapsed_ns, Ips__MetricsRow *row);

#endif
