/*
 * Where a machine's time went while a run was measured: cores times elapsed
 * time, accounted for to the ns.
 *
 * At every moment of [from, to) some threads are active (between their waits)
 * and some wait. An active thread computes, is runnable or is off its core in
 * the proportions of its arc, spread evenly over it. Then, of the cores:
 *
 *   running    threads of the program computed. What is more than there are
 *              cores (figures are of arcs, not of moments) counts as soon as
 *              there is room; what never finds any is `over`, in no sum
 *   others     idle cores while threads were runnable: somebody else had them
 *   unknown    idle cores while threads were off theirs, nobody knows why
 *   cause[c]   what is left, split equally over the threads that wait at that
 *              moment, by the causes of their waits
 *   nobody     what is left while no thread waits: too few threads
 *   before, after  what is left before the machine's first thread, after its
 *              last one
 *
 * So the sum of all but `over` is cores * (to - from), exactly. A thread that
 * waits by spinning (`spinning` names the causes) takes a core: `spun`.
 * Pure. Source: IPS-15.
 */
#ifndef IPS_ANALYSIS_EXPLAIN_IDLE_H
#define IPS_ANALYSIS_EXPLAIN_IDLE_H

#include "analysis/explain/waits.h"

#define IPS_IDLE_CAUSES 32u
/* Waits whose cause nobody named, or none below IPS_IDLE_CAUSES. */
#define IPS_IDLE_NO_CAUSE (IPS_IDLE_CAUSES - 1)

struct ips_idle {
    uint64_t running, spun, others, unknown, nobody, before, after;
    uint64_t cause[IPS_IDLE_CAUSES];
    uint64_t over;
};

/* Of the chains of machine `machine`. `spinning`: bits of causes. Cost:
 * O((nodes + waits) log chains). IPS_E_LIMIT where cores times elapsed time
 * does not fit. */
int ips_idle_make(const struct ips_waits *w, uint32_t machine, uint32_t cores,
                  uint64_t from, uint64_t to, uint32_t spinning,
                  struct ips_idle *out, struct ips_err *err) IPS_MUST_USE;

#endif
