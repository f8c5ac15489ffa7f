/*
 * Decides when a thread is sampled. Its CPU time is divided into periods, and
 * in each period it is sampled at one moment, drawn at random. So every
 * nanosecond of CPU time has the same chance of being sampled, even if the
 * program is synchronous with the clock, and every sample stands for one
 * period.
 *
 * The kernel checks a timer on CPU time only in its clock tick, so such a timer
 * would never sample a thread that runs only between two ticks. A timer on
 * CLOCK_MONOTONIC, the *exact timer*, is exact, but its signal would wake a
 * sleeping thread. So:
 *
 * - The exact timer runs only while the thread runs. A wrapper stops it before
 *   the real call (REAL, ips_sample_stop_timer_before_call). From then on it
 * sends no signal, so it interrupts no sleep and wakes no thread. If it is
 * stopped already, this costs one comparison.
 * - If the thread was off the CPU before the signal, the CPU clock shows that,
 *   and the timer is set again for the time that is left. So a sample is always
 *   taken when the CPU clock shows the drawn moment.
 * - After a sample the exact timer is set for the next one. If that is
 *   impossible, the timer on CPU time, the *watch*, expires in the last tick
 *   before the moment and sets it.
 * - In a thread that makes wrapped calls, each return of a call in a window
 *   before the moment sets the exact timer again, up to a few times per sample.
 *   The window is at most a period, shorter the more calls there are, but not
 *   shorter than the gaps between them. A call that stops the timer moves the
 *   moment by the CPU time that this takes.
 *   In a loop of calls setting it would cost too much, so the moment is allowed
 *   to pass. If it fell into a call, the sample is taken at the call's return.
 *   Otherwise it was N ns after the return of the previous call, and the exact
 *   timer is set to N ns after the return of one of the next calls, chosen at
 *   random. This is repeated until a gap between two calls is longer than N ns.
 *   All gaps that are long enough have the same chance, as they had for the
 *   drawn moment.
 * - A moment missed for another reason gives a late sample (IPS_REC_F_LATE) at
 *   the next tick or return.
 *
 * The exact timer is never set within a call: not by a handler that interrupted
 * one (`nested`), nor by the watch (its signal may come between the wrapper's
 * test and the system call). A thread that sleeps in a call that we do not wrap
 * can be interrupted once; from then on only the watch samples the process, and
 * its samples are late.
 */
#ifndef IPS_AGENT_PRELOAD_SAMPLE_PACE_H
#define IPS_AGENT_PRELOAD_SAMPLE_PACE_H

#include <ucontext.h>

#include "agent/preload/wrap.h"

/* Values of si_value that identify the signals of the two timers. */
#define IPS_PACE_WATCH 0x53706d61u
#define IPS_PACE_EXACT 0x53706d62u

/* Reads the lengths of a tick and of a sampling period. To be called at the
 * start of an image. */
void ips_pace_set_tick_and_period(void);
/* Create and delete the timers of the calling thread. */
void ips_pace_create_and_start_timers(void);
void ips_pace_delete_timers(void);

/* Takes a sample or sets a timer again, at the signal of the timer `cookie`
 * (IPS_PACE_WATCH or IPS_PACE_EXACT), which interrupted the thread at `uc`.
 * `in_call` must return whether `uc` is in a wrapper, or in a function that a
 * wrapper called. */
void ips_pace_sample_or_rearm_on_signal(uint32_t cookie, const ucontext_t *uc,
                                        bool (*in_call)(const ucontext_t *uc));

/* sample.c: writes a sample of the code at `uc`, taken when the thread's CPU
 * clock showed `cpu` (ns). */
void ips_sample_write(const ucontext_t *uc, uint64_t cpu, bool late);
/* sample.c: writes a sample for the call that is returning. `real`: the real
 * function that it called, or 0. */
void ips_sample_write_at_return(uint64_t real, bool late);
/* sample.c: writes a SAMPLE without frames, which shows that the thread is
 * sampled from now on. */
void ips_sample_write_empty_start_sample(uint64_t cpu);
/* jump.c: whether `uc` is at a system call: just before it, or just after it
 * failed. */
bool ips_context_is_at_syscall(const ucontext_t *uc);

#endif
