/*
 * Procedures by sampling: every thread of a measured image is sampled once in
 * each period of its CPU time, at a random moment; each sample writes a SAMPLE
 * with the call stack. Waits over 50 us have theirs written as a STACK.
 *
 * Two timers of the kernel's (timer_create, to the thread itself) say when:
 * pace.h. They are made when the thread's stream begins (write_start), in a
 * fork child anew, and deleted at the thread's end; exec deletes them, and with
 * them a signal that is pending.
 *
 * The signal is 33, the C library's own SIGSETXID. The program cannot see it:
 * the C library takes it out of every set that is blocked, waited for or
 * filled, refuses handlers for it, and Go's and other runtimes leave it to the
 * C library. So it is not blocked where "all" signals are, no signalfd or
 * sigwait takes it, and none of these calls needs a wrapper. What the C library
 * itself does with it - setuid() and the like in every thread, si_code SI_TKILL
 * - is passed on to its handler, which is installed at the first
 * pthread_create; ours goes over it again then, and remembers it. (Theirs
 * ignores ours: it wants SI_TKILL.) glibc's 32 is worse: pthread_cancel
 * installs its handler late, at any time.
 *
 * EINTR. The exact timer never runs in a call that we wrap. Linux since 5.9
 * (x86-64; arm64 later) queues the signal of the watch when the thread returns
 * to user code, never inside a system call: a call that blocks is not
 * interrupted by it. Elsewhere it may come inside, on the way to sleep, and so
 * it may where a stop and SIGCONT, say, ended the sleep. SA_RESTART does for
 * most calls; for those that are never restarted (signal(7)) the rule is:
 *   - the handler runs with all signals blocked. It notes the stack pointer in
 *     `ips_me.sample_eintr` if the interrupted pc is right behind a system call
 *     instruction with the result -EINTR - then the sample was the first signal
 *     that this call met: signals are taken lowest number first, and a second
 *     one finds the first one's handler as its pc - and no other signal is
 *     deliverable.
 *   - a wrapper clears it before the call and, on EINTR with a stack pointer
 *     there that is right below its own frame (a handler of the program's that
 *     ran meanwhile, and was disturbed itself, lies deeper by a signal frame),
 *     calls again with what is left of the time.
 * So an EINTR that a signal of the program's own made is passed on always. A
 * signal that comes after the handler looked meets the thread between two
 * calls, as a signal just before the first would have; with a mask of the
 * call's own (ppoll) it stays pending and ends the second. Not covered, on
 * kernels before 5.9: sockets with SO_RCVTIMEO or SO_SNDTIMEO, io_getevents,
 * and the C library's own calls.
 *
 * Stack: the handler takes less than 3 KiB beside the kernel's frame
 * (SA_ONSTACK: on the alternate stack if there is one). A thread with less than
 * 64 KiB of stack, or of unknown stack (not made through pthread_create or
 * thrd_create), is not sampled. Stacks are read between sp and the end known
 * for the thread (main: __libc_stack_end; others: their thread control block,
 * which lies at the top), or of the alternate stack; on any other stack
 * (coroutines) a sample has its program counter only.
 *
 * A thread whose alternate stack leaves less than 4 KiB beside the kernel's
 * frame is not sampled from then on (sigaltstack is wrapped), and while a
 * handler of the program's runs on an alternate stack samples wait (our signal
 * is added to its sa_mask, and taken out of what sigaction gives back).
 *
 * A handler that is not called any more (a program that made one by a raw
 * system call) means no samples, nothing else.
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

/* The C library's SIGSETXID, which its headers do not name. */
#define IPS_SAMPLE_SIGNAL 33

/* Before ips_core_init: makes it call us where a stream begins and ends. */
void ips_sample_init(void);

/* After the first pthread_create: the handler again. */
void ips_sample_threads(void);

/* First thing in a new thread: bytes of its stack. */
void ips_sample_stack(uint64_t bytes);

/* Adds our signal to a handler's mask, or takes it out. */
static inline void ips_sample_mask(sigset_t *set, bool add)
{
    uint64_t mask, bit = (uint64_t)1 << (IPS_SAMPLE_SIGNAL - 1);
    memcpy(&mask, set, sizeof(mask));
    mask = add ? mask | bit : mask & ~bit;
    memcpy(set, &mask, sizeof(mask));
}

/* The calling thread is not sampled any more. */
void ips_sample_off(void);

/* No timer is made from here on and the calling thread has none: before a
 * seccomp filter, which may kill for what timers need. */
void ips_sample_stop(void);

/* --- calls that are never restarted --------------------------------------- */

/* Less than any signal frame, more than the C library's own frames. */
#define IPS_SAMPLE_NEAR 1024u
#define IPS_SAMPLE_ALONE(handlers)                                             \
    (ips_me.handlers_run == (handlers) &&                                      \
     (uint64_t)(uintptr_t)__builtin_frame_address(0) - ips_me.sample_eintr <   \
         IPS_SAMPLE_NEAR)

/* `r = call` and again where a sample alone made it EINTR; `adjust` is done
 * before. `errno_of` is the error number where `failed`. */
#define IPS_UNDISTURBED(r, call, failed, errno_of, adjust)                     \
    for (;;) {                                                                 \
        const uint32_t handlers_ = ips_me.handlers_run;                        \
        ips_me.sample_eintr = 0;                                               \
        r = call;                                                              \
        if (__builtin_expect(!ips_me.sample_eintr, 1) || !(failed) ||          \
            (errno_of) != EINTR || !IPS_SAMPLE_ALONE(handlers_))               \
            break;                                                             \
        adjust;                                                                \
    }

/* --- stacks of waits -------------------------------------------------------
 */

static inline struct ips_stack_recent *ips_stack_recent(struct ips_extra *extra,
                                                        uint64_t site)
{
    return &extra->stacks[(site ^ site >> 7) % IPS_STACKS_RECENT];
}
void ips_stack_write(uint64_t t, uint64_t site, uint64_t sp)
    __attribute__((cold));

/* The place outside of this library and the C library that what runs now was
 * called from, 0 unknown: of calls that the C library makes for the program
 * (stdio). Some 5 ns a frame that was met before. */
uint64_t ips_site_behind_libc(void);
/* Stands for it where it is worth finding only if the call turns out to be
 * slow: ips_site_now before it is written. */
#define IPS_SITE_LATER ((uint64_t)1)
static inline uint64_t ips_site_now(uint64_t site)
{
    return site == IPS_SITE_LATER ? ips_site_behind_libc() : site;
}

/* Right after the record of a call from `site` that lasted from `t` to `t_ret`
 * (stamps); site 0: the stack begins where it leaves this library. Written
 * again only if another one of the same site was in between, or the stack was
 * of another depth: a loop of waits costs a comparison. */
static inline void ips_stack_note(uint64_t t, uint64_t t_ret, uint64_t site)
{
    if (__builtin_expect(t_ret - t > ips_core.long_call && t_ret > t, 0)) {
        struct ips_extra *extra = ips_me.extra;
        const struct ips_stack_recent *last =
            extra ? ips_stack_recent(extra, site) : NULL;
        uint64_t sp = ips_sp();
        if (!last || last->site != site || last->sp != sp)
            ips_stack_write(t, site, sp);
    }
}

#endif
