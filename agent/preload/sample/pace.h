/*
 * When a thread is sampled. Its CPU time is cut into periods, and each period
 * has one moment, drawn anew, at which the thread is sampled. So every
 * nanosecond of CPU time has the same chance whatever the program does by the
 * clock, and every sample stands for one period.
 *
 * The kernel looks at a timer on CPU time only in its tick, so a thread that
 * runs between two ticks would never be met. A timer on CLOCK_MONOTONIC, the
 * *exact timer*, is exact, but its signal would wake a thread that sleeps. So:
 *
 *  - The exact timer runs only while the thread does. A wrapper stops it before
 *    the real call (REAL, ips_sample_before): afterwards no signal of it can
 *    come, so it interrupts no sleep and wakes no thread. While it is stopped
 *    that test is one comparison.
 *  - Where the thread was off its core meanwhile, the CPU clock says so at the
 *    signal, and the timer is set to what is left: a sample is always taken
 *    when the CPU clock shows the drawn moment.
 *  - A sample sets the exact timer for the next one. Where that cannot be, the
 *    timer on CPU time, the *watch*, expires in the last tick before the moment
 *    and sets it.
 *  - A thread that makes calls: each return of a call within a period before
 *    the moment sets it again, up to a few times a sample. In loops that
 *    would be too dear, so the moment is let pass. If it was in the call
 *    itself, the call's return is the sample. Else it was so many ns after the
 *    return of the call before. The exact timer is set to as many ns after the
 *    return of one of the next calls, chosen at random, and again until a
 *    stretch between two calls is long enough: of stretches that are long
 *    enough each has the same chance, as the moment had.
 *  - A moment that was missed otherwise gives a late sample (IPS_REC_F_LATE) in
 *    the next tick or return.
 *
 * The exact timer is not set within a call: neither by a handler that
 * interrupted one (`nested`), nor by the watch (its signal comes between the
 * wrapper's test and the system call). A thread that sleeps in a call that we
 * do not wrap can be met once; then the process is sampled by the watch alone,
 * and its samples are late.
 */
#ifndef IPS_AGENT_PRELOAD_SAMPLE_PACE_H
#define IPS_AGENT_PRELOAD_SAMPLE_PACE_H

#include <ucontext.h>

#include "agent/preload/wrap.h"

/* si_value of the two timers. */
#define IPS_PACE_WATCH 0x53706d61u
#define IPS_PACE_EXACT 0x53706d62u

/* When an image begins. */
void ips_pace_init(void);
/* The calling thread's timers are made, and deleted. */
void ips_pace_begin(void);
void ips_pace_end(void);

/* A timer's signal interrupted `uc`. `in_call`: is that in a wrapper, or in
 * what one has called? */
void ips_pace_signal(uint32_t cookie, const ucontext_t *uc,
                     bool (*in_call)(const ucontext_t *uc));

/* sample.c: the sample of what `uc` interrupted, when the CPU clock showed
 * `cpu`. */
void ips_sample_write(const ucontext_t *uc, uint64_t cpu, bool late);
/* ... of the call that returns now; `real`: its real function, or 0. */
void ips_sample_write_here(uint64_t real, bool late);
/* From here on the thread has samples: a SAMPLE without frames. */
void ips_sample_begins(uint64_t cpu);
/* jump.c: is that in a system call, before it or behind it? */
bool ips_context_in_call(const ucontext_t *uc);

#endif
