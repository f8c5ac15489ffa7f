/*
 * Counts and records the calls of procedures in code built with
 * -finstrument-functions: the compiler inserts calls of
 * __cyg_profile_func_enter and _exit, which procs.c defines.
 *
 * --procedures=sample: every call is counted.
 *
 * --procedures=exact: each call leaves an ENTER and an EXIT record, until these
 * cost more for a procedure than the budget. A COUNT of 0 calls marks that
 * moment; from then on the calls of that procedure are only counted.
 *
 * Each thread has a table of counters. Only that thread enlarges the table. It
 * is never unmapped, because another thread may write it out when the process
 * ends. The counters are written as COUNT records, each with the calls since
 * the previous COUNT: at the end of the thread and of the process, before an
 * exec, and at a sample if the last COUNT is 100 ms old. So a SIGKILL loses the
 * counts of about 100 ms.
 *
 * Invariants:
 * - The number of ENTERs plus the counted calls is the number of calls, from
 *   the library's constructor to the thread's END. A call whose ENTER is lost
 *   is counted.
 * - An EXIT is written only for a call whose ENTER this thread wrote in this
 *   process. A call that longjmp abandoned has no EXIT.
 * - Slots are added, moved and written out with all signals blocked. If a
 *   signal handler interrupts a hook and enlarges the table, the hook notices.
 * - In a vfork child nothing is recorded or counted.
 *
 * Budget: in each thread, the number of ENTER/EXIT pairs times the measured
 * cost of one is compared with the CPU time used. A procedure is switched to
 * counting if it exceeds the budget alone, or if all procedures together exceed
 * it and this one has a sixteenth of all pairs. This is checked at every 64th
 * pair of a procedure.
 */
#ifndef IPS_AGENT_PRELOAD_SAMPLE_PROCS_H
#define IPS_AGENT_PRELOAD_SAMPLE_PROCS_H

#include <stdint.h>

#include "agent/pool/format.h"

/* To be called at the start of a thread's stream of records (`kind`: of an
 * image, a fork child or a thread) and before the stream's end, both with all
 * signals blocked. */
void ips_procs_read_options_or_reset_at_start(enum ips_start_kind kind);
void ips_procs_flush_and_release_own_table(void);
/* To be called at a sample, with all signals blocked: writes this thread's
 * COUNT records if the last ones are 100 ms old. `t` is the sample's stamp. */
void ips_procs_flush_if_old(uint64_t t);
/* Writes COUNT records of all threads. */
void ips_procs_flush_all(void);

#endif
