/*
 * The efficiencies of the POP methodology, for users who know them, of a run
 * whose threads compute all the time it lasts. Pure.
 *
 *   parallel       = sum of CPU / (n x T)   = load balance x communication
 *   load balance   = mean CPU / greatest CPU of a thread
 *   communication  = greatest CPU / T       = serialisation x transfer
 *   serialisation  = greatest CPU / T_ideal, T_ideal: on an ideal network, that
 *                    is the critical path in CPU time with message times 0
 *   transfer       = T_ideal / T
 *
 * n are the threads that lived for at least half of T. Where all others
 * together have more than a tenth of the CPU (a build, a shell script, threads
 * made for each request), or n < 2, the run is none that these are defined of:
 * pop_threads is 0. The last two need the path: the client asks it
 * (client/commands/metrics.c).
 */
#ifndef IPS_MASTER_TABLES_POP_EFFICIENCIES_H
#define IPS_MASTER_TABLES_POP_EFFICIENCIES_H

#include "master/query/query.h"

/* Fills the row's pop_ fields. elapsed_ns is T; ~0: not known. */
void pop_fill(struct machine_share *const *parts, uint32_t count,
              uint64_t elapsed_ns, Ips__MetricsRow *row);

#endif
