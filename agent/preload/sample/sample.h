/*
 * Sampling: every thread of a recorded image is sampled once in each period of
 * its CPU time, at a random moment. Each sample is a SAMPLE record with the
 * call stack. The call stack of a wait over 50 us is written as a STACK record.
 *
 * Two kernel timers (timer_create, signalling the thread itself) decide when,
 * the exact timer and the watch: see pace.h. They are created when the thread's
 * stream starts (ips_pace_create_and_start_timers), again in a fork child, and
 * deleted at the thread's end. exec deletes them together with a pending
 * signal.
 *
 * The signal is 33, the C library's own SIGSETXID, which the program cannot
 * see. The C library removes it from every signal set that a program fills,
 * blocks or waits for, and refuses handlers for it. Go's runtime and others
 * leave it to the C library. So code that blocks "all" signals does not block
 * it, no signalfd or sigwait takes it, and none of these calls needs a wrapper.
 * The C library uses it to run setuid() and the like in every thread (si_code
 * SI_TKILL): our handler passes such signals to the C library's handler. The C
 * library installs its handler at the first pthread_create; we then install
 * ours again and store the address of theirs. (Theirs ignores our signals,
 * because their si_code is not SI_TKILL.) Signal 32, glibc's other internal
 * signal, is less suitable: pthread_cancel may install a handler for it at any
 * time.
 *
 * EINTR. The exact timer never runs in a call that we wrap. Linux since 5.9
 * (x86-64; arm64 later) queues the signal of the watch when the thread returns
 * to user code, never inside a system call, so it does not interrupt a blocking
 * call. On other kernels the signal may come inside a system call: on the way
 * to sleep, or after something else (such as SIGSTOP and SIGCONT) ended the
 * sleep. SA_RESTART handles most calls. For those that are never restarted
 * (signal(7)) the rule is:
 * - The handler runs with all signals blocked. It notes the stack pointer in
 *   `ips_me.sample_eintr` if (1) the interrupted pc is just after a system call
 *   instruction with the result -EINTR, and (2) no other signal is pending and
 *   unblocked. (1) shows that the sampling signal was the first to interrupt
 *   this call: a second one would find the pc in the first one's handler.
 * - A wrapper clears the note before the call. If the call ends with EINTR and
 *   the noted stack pointer is just below the wrapper's own frame, the wrapper
 *   repeats the call with the rest of the time. (If a handler of the program
 *   ran meanwhile and a sample interrupted that, the noted stack pointer is
 *   lower by a signal frame.) So an EINTR caused by a signal of the program
 *   always reaches the program. A signal of the program that comes after our
 *   handler's check arrives between the two calls, as if it had come just
 *   before the first one. If the call has a signal mask of its own (ppoll),
 *   that signal stays pending and ends the second call. Not covered on kernels
 *   before 5.9: sockets with SO_RCVTIMEO or SO_SNDTIMEO, io_getevents, and the
 *   C library's own calls.
 *
 * Stack: the handler takes less than 3 KiB in addition to the kernel's frame
 * (SA_ONSTACK: on the alternate stack if there is one). A thread is not sampled
 * if its stack is smaller than 64 KiB or unknown (the thread was not created by
 * pthread_create or thrd_create). Stacks are read from sp up to the known end
 * of the thread's stack (main: __libc_stack_end; others: their thread control
 * block, which is at the top), or of the alternate stack. On any other stack
 * (coroutines), a sample has the program counter only.
 *
 * A thread whose alternate stack has less than 4 KiB besides the kernel's frame
 * is not sampled from then on (sigaltstack is wrapped). While a handler of the
 * program runs on an alternate stack, samples wait: our signal is added to the
 * handler's sa_mask, and removed from the old action that sigaction returns.
 *
 * If a program replaces our handler by a raw system call, it has no samples;
 * nothing else changes.
 */
#ifndef IPS_AGENT_PRELOAD_SAMPLE_SAMPLE_H
#define IPS_AGENT_PRELOAD_SAMPLE_SAMPLE_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "agent/record/extra.h"
#include "agent/record/stream.h"
#include "agent/unwind/unwind.h"

/* The signal of our sampling timers: the C library's SIGSETXID, which its
 * headers do not name. */
#define IPS_SAMPLE_SIGNAL 33

/* Registers the functions that agent/record/core.c calls at the start and end
 * of each thread's stream of records. To be called before ips_core_init. */
void ips_sample_register_stream_hooks(void);

/* Installs our signal handler again, because the first pthread_create installs
 * the C library's. */
void ips_sample_reinstall_handler_once(void);

/* Stores the size of the calling thread's stack in bytes. Called first in a new
 * thread. */
void ips_sample_store_own_stack_bound(uint64_t bytes);

/* Adds the sampling signal to the signal mask of a handler or, if not `add`,
 * removes it. */
static inline void ips_sample_set_signal_in_mask(sigset_t *set, bool add)
{
    uint64_t mask, bit = (uint64_t)1 << (IPS_SAMPLE_SIGNAL - 1);
    memcpy(&mask, set, sizeof(mask));
    mask = add ? mask | bit : mask & ~bit;
    memcpy(set, &mask, sizeof(mask));
}

/* Whether `bytes` bytes at `at` are in the part of the thread's own stack that
 * is in use, so that they can be read and written. False also if the bounds of
 * the stack are unknown. */
bool ips_sample_is_in_used_stack(const void *at, size_t bytes);

/* Stops the sampling of the calling thread. */
void ips_sample_stop_own_thread(void);

/* Stops sampling the calling thread and creates no timers from now on. To be
 * called before a seccomp filter is installed, which may kill the process for
 * the system calls that timers need. */
void ips_sample_stop_for_good(void);

/* --- calls that the kernel never restarts --------------------------------- */

/* IPS_ONLY_SAMPLE_INTERRUPTED: whether only a sample interrupted the call that
 * failed with EINTR: no handler of the program ran (`handlers`: handlers_run
 * before the call), and the noted stack pointer is just below this frame.
 * IPS_SAMPLE_NEAR is in bytes: less than any signal frame, more than the frames
 * of the C library's functions. */
#define IPS_SAMPLE_NEAR 1024u
#define IPS_ONLY_SAMPLE_INTERRUPTED(handlers)                                  \
    (ips_me.handlers_run == (handlers) &&                                      \
     (uint64_t)(uintptr_t)__builtin_frame_address(0) - ips_me.sample_eintr <   \
         IPS_SAMPLE_NEAR)

/* Executes `r = call`. If only a sample made the call fail with EINTR, executes
 * `adjust` and repeats the call. `failed`, `errno_of`: expressions for whether
 * `r` is a failure, and for its error number. */
#define IPS_REPEAT_AFTER_SAMPLE(r, call, failed, errno_of, adjust)             \
    for (;;) {                                                                 \
        const uint32_t handlers_ = ips_me.handlers_run;                        \
        ips_me.sample_eintr = 0;                                               \
        r = call;                                                              \
        if (__builtin_expect(!ips_me.sample_eintr, 1) || !(failed) ||          \
            (errno_of) != EINTR || !IPS_ONLY_SAMPLE_INTERRUPTED(handlers_))    \
            break;                                                             \
        adjust;                                                                \
    }

/* --- call stacks of waits ------------------------------------------------- */

static inline struct ips_recent_stack_slot_of_site *
ips_recent_stack_slot_of_site(struct ips_extra *extra, uint64_t site)
{
    return &extra->stacks[(site ^ site >> 7) % IPS_STACKS_RECENT];
}
void ips_stack_write_current(uint64_t t, uint64_t site, uint64_t sp)
    __attribute__((cold));

/* Returns the innermost call site outside this library and the C library; 0:
 * unknown. It serves calls that the C library makes for the program (stdio).
 * Costs about 5 ns for each frame whose unwind rule is cached. */
uint64_t ips_call_site_outside_libc(void);
/* Placeholder for a call site that is looked up only if the call turns out to
 * be slow; ips_site_look_up_if_deferred replaces it before the record is
 * written. */
#define IPS_SITE_LATER ((uint64_t)1)
static inline uint64_t ips_site_look_up_if_deferred(uint64_t site)
{
    return site == IPS_SITE_LATER ? ips_call_site_outside_libc() : site;
}

/* Writes a STACK record for a call from `site` that took from `t` to `t_ret`
 * (stamps), if the call was long. To be called right after the record of the
 * call is written. `site` 0: the stack starts at the first frame outside this
 * library. The stack is not written again if the last one in its slot had the
 * same site and depth, so a loop of waits costs one comparison. */
static inline void ips_stack_write_if_long_call(uint64_t t, uint64_t t_ret,
                                                uint64_t site)
{
    if (__builtin_expect(t_ret - t > ips_core.long_call && t_ret > t, 0)) {
        struct ips_extra *extra = ips_me.extra;
        const struct ips_recent_stack_slot_of_site *last =
            extra ? ips_recent_stack_slot_of_site(extra, site) : NULL;
        uint64_t sp = ips_stack_pointer();
        if (!last || last->site != site || last->sp != sp)
            ips_stack_write_current(t, site, sp);
    }
}

#endif
