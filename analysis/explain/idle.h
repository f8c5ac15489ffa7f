/*
 * Divides the core time of a machine during a run (number of cores times
 * elapsed time) into categories that add up to the ns.
 *
 * At every moment of [from, to) some threads are active (between their waits)
 * and some wait. An active thread computes, is runnable or is off the CPU in
 * the proportions of its arc, spread evenly over the arc. The cores are then
 * assigned in this order:
 *  - running: threads of the program computed. CPU time is known per arc and
 *    not per moment, so at some moments it exceeds the cores; the excess counts
 *    as soon as a core is free. Excess for which no core becomes free is
 *    `over`, which is not part of the sum.
 *  - spun: threads of the program waited by spinning, which uses a core. The
 *    argument `spinning` has a bit for each cause of such waits.
 *  - others: cores without a thread of the program while some were runnable, so
 *    other programs used those cores
 *  - unknown: cores without a thread of the program while some were off the CPU
 *    for an unknown reason
 *  - cause[c]: the rest, split equally over the threads that wait at that
 *    moment, by the causes of their waits
 *  - nobody: the rest while no thread waits: too few threads
 *  - before, after: the rest before the machine's first thread began and after
 *    its last thread ended
 *
 * So the sum of all but `over` is exactly cores * (to - from). Pure. Source:
 * IPS-15.
 */
#ifndef IPS_ANALYSIS_EXPLAIN_IDLE_H
#define IPS_ANALYSIS_EXPLAIN_IDLE_H

#include "analysis/explain/waits.h"

#define IPS_IDLE_CAUSES 32u
/* Index in `cause` of waits of unknown cause, and of causes whose number is not
 * below IPS_IDLE_CAUSES. */
#define IPS_IDLE_NO_CAUSE (IPS_IDLE_CAUSES - 1)

struct ips_idle {
    uint64_t running, spun, others, unknown, nobody, before, after;
    uint64_t cause[IPS_IDLE_CAUSES];
    uint64_t over;
};

/* Accounts for the core time of machine `machine`, from the chains that ran on
 * it. `spinning` is a bit set of causes. Takes O((nodes + waits) log chains).
 * IPS_E_LIMIT if cores times elapsed time overflows. */
int ips_idle_account_core_time(const struct ips_waits *w, uint32_t machine,
                               uint32_t cores, uint64_t from, uint64_t to,
                               uint32_t spinning, struct ips_idle *out,
                               struct ips_err *err) IPS_MUST_USE;

#endif
