/*
 * Moments: a stamp and the thread's CPU time at it, without a system call.
 *
 * The kernel clears the pointer `rseq_cs` in a thread's rseq area (glibc
 * registers one for every thread) whenever it switches the thread out, moves
 * it to another core or delivers a signal to it. We leave a pointer of our own
 * there, the *mark*: while it stands the thread has been on its core all the
 * time, so CPU = cpu0 + (stamp - t0). Where it is gone, or somebody else's
 * stands there (tcmalloc, librseq), the clock is read again (record/cpu.c).
 *
 * Invariants:
 *  - the mark is left *before* the clock is read, and a moment looks at it
 *    *after* its stamp: a switch in between is never missed.
 *  - each mark points at a slot of its own thread, and the slot has the line
 *    (t0, cpu0) that this mark vouches for. A signal handler that reads the
 *    clock takes another slot, so what it interrupted never mixes two lines:
 *    no lock, no signals blocked. Slots come round again: a mark is the same
 *    one only if no slot was taken since (`taken`), not if it is equal.
 *  - CPU time as handed out never runs backwards in one thread.
 *  - the critical section that a slot describes is one byte that nobody ever
 *    executes, the slot's own first, and so is its abort handler: the kernel
 *    only ever clears the mark. Before that it reads the slot and the signature
 *    before the handler, at each switch: they are in one line.
 *  - slots lie in the thread's own TLS and the mark is used in programs that
 *    have the preload library only (it is never unloaded): what the kernel
 *    follows is always there.
 *
 * Where no marks can be used (no rseq, the kernel keeps them over a block -
 * ipsrun tries it -, stamps that are not the counter, the test clock) every
 * moment reads the clock: `ips_core.cpu_marks` false.
 *
 * Units: t in stamps, CPU in ns. Async-signal-safe, errno untouched.
 */
#ifndef IPS_AGENT_RECORD_CPU_H
#define IPS_AGENT_RECORD_CPU_H

#include "agent/pool/counter.h"
#include "agent/record/stream.h"
#include "common/types.h"

struct ips_moment {
    uint64_t t, cpu;
    uint64_t mark; /* that stood then. IPS_MARK_NOT: vouches for nothing.
                      Without marks: the stamp when `cpu` had been read. */
    uint32_t
        mark_number; /* ips_me.cpu_next when that mark was the last one left */
};
#define IPS_MARK_NOT 1u /* or'ed: no mark equals it */

static inline volatile uint64_t *ips_cpu_mark(void)
{
    char *tp = (char *)__builtin_thread_pointer();
    return (volatile uint64_t *)(void *)(tp + ips_core.mark_offset);
}

/* Does a mark point at one of a thread's slots? These are passed on, and not
 * the thread: where a sanitizer looks whether &ips_me is NULL, the linker makes
 * the addition that it looks at one that sets no flags. */
static inline bool ips_cpu_is_slot(const struct ips_cpu_slot *slots,
                                   uint64_t mark)
{
    uint64_t base = (uint64_t)(uintptr_t)slots;
    return __builtin_expect(mark - base < IPS_CPU_SLOTS * sizeof(*slots), 1);
}
static inline struct ips_cpu_slot *
ips_cpu_slot_among(const struct ips_cpu_slot *slots, uint64_t mark)
{
    return ips_cpu_is_slot(slots, mark) ? (struct ips_cpu_slot *)(uintptr_t)mark
                                        : NULL;
}
/* That slot, or NULL. */
static inline struct ips_cpu_slot *ips_cpu_slot_of(const struct ips_thread *me,
                                                   uint64_t mark)
{
    return ips_cpu_slot_among(me->slot, mark);
}
static inline struct ips_cpu_slot *ips_cpu_slot(uint64_t mark)
{
    return ips_cpu_slot_among(ips_me.slot, mark);
}

static inline uint64_t ips_cpu_ns(uint64_t stamps)
{
    return (uint64_t)((ips_u128)stamps * ips_core.mult >> 32);
}

#if IPS_HAVE_COUNTER
#define IPS_STAMP() ips_counter()
#else
#define IPS_STAMP() ips_core_now() /* never: no marks there */
#endif

struct ips_moment ips_moment_slow(void);
struct ips_moment ips_return_slow(const struct ips_moment *call, uint64_t t);
/* The mark is gone, and there is no stamp yet. `waits`: the call itself does
 * nothing but wait. */
struct ips_moment ips_return_gone(const struct ips_moment *call, bool waits);

/* The moment of the stamp `t`, into `out`: field by field, since a struct that
 * goes through the stack as a whole is loaded again before its parts have
 * arrived there. `taken`: cpu_next before it; `mark` stood after it. */
static inline __attribute__((always_inline)) void
ips_moment_of(struct ips_thread *me, uint64_t mark, uint32_t taken, uint64_t t,
              struct ips_moment *out)
{
    if (__builtin_expect(ips_cpu_is_slot(me->slot, mark), 1)) {
        const volatile struct ips_cpu_slot *s =
            (const volatile struct ips_cpu_slot *)(uintptr_t)mark;
        uint64_t since = t - s->t0, cpu0 = s->cpu0;
        /* Below cpu_limit, so the product has 64 bits. */
        if (__builtin_expect(
                since < ips_core.cpu_limit && me->cpu_next == taken, 1)) {
            uint64_t cpu = cpu0 + (since * ips_core.mult >> 32);
            me->cpu_last = cpu;
            out->t = t;
            out->cpu = cpu;
            out->mark = mark;
            out->mark_number = taken;
            return;
        }
    }
    *out = ips_moment_slow();
}
/* Now. No slot was taken from before the stamp to after the mark was looked at,
 * so it stood all the time. */
static inline __attribute__((always_inline)) void
ips_moment_take(struct ips_thread *me, struct ips_moment *out)
{
    uint32_t taken = me->cpu_next;
    uint64_t t = IPS_STAMP();
    ips_moment_of(me, *ips_cpu_mark(), taken, t, out);
}
static inline struct ips_moment ips_moment_now(void)
{
    struct ips_moment m;
    ips_moment_take(&ips_me, &m);
    return m;
}

/* The return of a call that began at `call`. Where the mark still stands there
 * was no switch: all of it was CPU time - but of a call longer than a line is
 * used: a hypervisor's pause is no switch, and is none of our time either. */
static inline struct ips_moment ips_moment_return(const struct ips_moment *call,
                                                  bool waits)
{
    if (__builtin_expect(!ips_core.cpu_marks, 0))
        return ips_return_slow(call, ips_core_now());
    if (__builtin_expect(*ips_cpu_mark() != call->mark, 0))
        return ips_return_gone(call, waits);
    uint64_t t = IPS_STAMP();
    if (__builtin_expect(*ips_cpu_mark() != call->mark ||
                             ips_me.cpu_next != call->mark_number ||
                             t - call->t >= ips_core.cpu_limit,
                         0))
        return ips_return_slow(call, t);
    uint64_t cpu = call->cpu + ips_cpu_ns(t - call->t);
    ips_me.cpu_last = cpu;
    return (struct ips_moment){t, cpu, call->mark, call->mark_number};
}
static inline struct ips_moment ips_moment_after(const struct ips_moment *call)
{
    return ips_moment_return(call, false);
}
/* The same of a call that moves nothing (a poll, a sleep): however long it
 * was, its CPU is that of going to sleep and waking up. */
static inline struct ips_moment ips_moment_waited(const struct ips_moment *call)
{
    return ips_moment_return(call, true);
}

/* The clock itself, for moments that must be settled: END. Never less than
 * what was handed out. */
uint64_t ips_cpu_read(void);

/* record/run_delay.c: RUNDELAY, where it is time for one: the clock was just
 * read, and the thread was off its core. At END: the last. */
void ips_delay_due(uint64_t t, uint64_t cpu);
void ips_delay_end(uint64_t cpu);
/* record/guessed_cpu.c: GUESSED, now; before END, if there is anything new. */
void ips_guessed_due(uint64_t t);
void ips_guessed_end(void);
/* CALLS, if there were any worth it. */
void ips_calls_due(uint32_t least);
/* ... with what would be said beyond the calls, ns. */
uint64_t ips_beyond_due(void);

/* What the agent does that has no price of its own is measured where it
 * happens: what it took beyond `priced_ps` is said with the calls (struct
 * ips_rec_calls). One within another counts once. */
struct ips_apart {
    uint64_t t, mark;
    uint32_t mark_number;        /* ips_me.cpu_next */
    uint32_t beyond_ns, said_ns; /* before */
};
static inline struct ips_apart ips_apart_begin(void)
{
    return (struct ips_apart){ips_core_now(), *ips_cpu_mark(), ips_me.cpu_next,
                              ips_me.beyond_ns, ips_me.said_ns};
}
void ips_apart_end(const struct ips_apart *apart, uint64_t priced_ps);
/* Until the scope ends. */
static inline void ips_apart_free(const struct ips_apart *apart)
{
    ips_apart_end(apart, 0);
}
#define IPS_APART                                                              \
    const struct ips_apart apart_ __attribute__((cleanup(ips_apart_free))) =   \
        ips_apart_begin()
/* In a fork child: nothing yet. Its beginning has a price. */
void ips_beyond_reset(void);

/* Once the run is attached: can marks be used here? */
void ips_cpu_init(void);
/* In a fork child: its CPU time starts anew. */
void ips_cpu_reset(void);

#endif
