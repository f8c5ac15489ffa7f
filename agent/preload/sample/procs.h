/*
 * Procedures of code built with -finstrument-functions: the compiler calls
 * __cyg_profile_func_enter and _exit, which are here.
 *
 *  --procedures=sample   every call is counted (IPS-7)
 *  --procedures=exact    ENTER and EXIT for every call, until a procedure costs
 *                        more than the budget: from then on, which a COUNT of 0
 *                        calls says, its calls are counted too
 *
 * Counters stand in a table of the thread (mapped, grown by the thread, never
 * unmapped: another thread writes what it holds when the process ends) and are
 * written as COUNT, the calls since the COUNT before: at the end of the thread
 * and of the process, before an exec, and at a sample where the last time is
 * 100 ms ago - what a SIGKILL loses.
 *
 * Invariants:
 *  - ENTERs plus counted calls is the number of calls, from the library's
 *    constructor to the thread's END. A call whose ENTER is lost is counted.
 *  - an EXIT is written only for a call whose ENTER was written by this thread
 *    in this process. A call that longjmp left has no EXIT.
 *  - all but a step of a counter is done with all signals blocked; a handler
 *    that grows the table below an interrupted hook is noticed by the hook.
 *  - nothing is recorded or counted in a vfork child.
 *
 * Budget: in each thread, pairs x measured cost of one against the CPU time
 * passed: a procedure that takes the budget alone, or a sixteenth of all pairs
 * where all together take it. Looked at every 64th pair of a procedure.
 */
#ifndef IPS_AGENT_PRELOAD_SAMPLE_PROCS_H
#define IPS_AGENT_PRELOAD_SAMPLE_PROCS_H

#include <stdint.h>

#include "agent/pool/format.h"

/* A stream begins (all signals blocked), or the thread's is about to end. */
void ips_procs_begin(enum ips_start_kind kind);
void ips_procs_end(void);
/* At a sample, all signals blocked. */
void ips_procs_sampled(uint64_t t);
/* COUNT of all that was counted, by all threads. */
void ips_procs_flush_all(void);

#endif
