/*
 * Takes the moment of the return of a call during which the kernel cleared the
 * mark (agent/record/cpu.h), because the thread was switched out. Inline, since
 * most blocking calls need it. Unless a reading of the clock is due, the CPU
 * time of the call is guessed from earlier blocking calls of this thread;
 * record/cpu.c handles all other cases.
 */
#ifndef IPS_AGENT_RECORD_CPU_GONE_H
#define IPS_AGENT_RECORD_CPU_GONE_H

#include "agent/record/cpu.h"
#include "agent/record/cpu_mark.h"

/* IPS_CPU_FAST: the clock is read at the first blocking call after the thread
 * used this many ns of CPU time, or after as many blocking calls as
 * agent/record/cpu_guess.h says. A reading takes up to 1 us, including its
 * effects on the caches. */
#define IPS_GUESS_NS 500000u
/* A call that moves data may use CPU time before it sleeps. For a call of this
 * length or more, the clock is read. */
#define IPS_GUESS_BLOCK_NS 25000u
#define ips_barrier() __asm__ volatile("" ::: "memory")

/* Is this process the child of a fork that the agent did not see, so that its
 * state is still the parent's? Also true before the run is attached. */
static inline bool ips_is_unannounced_fork(void)
{
    return *ips_core.alive == 0;
}

/* Returns the moment of the return, at stamp `t`, of a call during which the
 * mark was cleared. Reads the clock now to find the CPU time of the call. */
struct ips_moment
ips_moment_of_return_by_cpu_clock(const struct ips_moment *call, uint64_t t);

/* Returns the number of the next slot and increments the counter. One
 * instruction is atomic enough: only the thread's own signal handlers take
 * numbers, too. */
static inline uint32_t ips_take_next_cpu_slot(struct ips_thread *me)
{
    uint32_t one = 1;
#if defined(__x86_64__)
    __asm__ volatile("xaddl %0, %1"
                     : "+r"(one), "+m"(me->cpu_next)
                     :
                     : "memory", "cc");
    return one;
#else
    return __atomic_fetch_add(&me->cpu_next, one, __ATOMIC_RELAXED);
#endif
}

/* Sets a new mark and returns its slot; stores its number in *taken. Returns
 * NULL if marks are not used or the kernel knows no rseq area of this thread.
 */
static inline __attribute__((always_inline)) struct ips_cpu_slot *
ips_set_cpu_mark(struct ips_thread *me, uint32_t *taken)
{
    volatile uint64_t *at = ips_cpu_mark_address();
    if (__builtin_expect(!ips_core.cpu_marks || !ips_rseq_is_registered(at), 0))
        return NULL;
    uint32_t n = ips_take_next_cpu_slot(me);
    struct ips_cpu_slot *s = &me->slot[n % IPS_CPU_SLOTS];
    *taken = n + 1;
    s->start_ip = (uint64_t)(uintptr_t)s;
    s->post_commit_offset = 1;
    s->abort_ip = (uint64_t)(uintptr_t)(&s->signature + 1);
    s->signature = IPS_RSEQ_SIGNATURE;
    me->era++;
    ips_barrier();
    *at = (uint64_t)(uintptr_t)s;
    ips_barrier();
    return s;
}

/* Stores the baseline of the mark in slot `s`. If signal handlers have reused
 * the slot meanwhile, the baseline was stored for another mark, so the mark is
 * removed. */
static inline void ips_set_baseline_or_remove_cpu_mark(struct ips_thread *me,
                                                       struct ips_cpu_slot *s,
                                                       uint32_t taken,
                                                       uint64_t t0,
                                                       uint64_t cpu0)
{
    s->t0 = t0;
    s->cpu0 = cpu0;
    ips_barrier();
    if (me->cpu_next != taken &&
        *ips_cpu_mark_address() == (uint64_t)(uintptr_t)s)
        *ips_cpu_mark_address() = 0;
}

static inline bool ips_may_guess_block_cpu(struct ips_thread *me,
                                           const struct ips_moment *call)
{
    const struct ips_cpu *c = &me->cpu;
    return __builtin_expect(
        !ips_is_unannounced_fork() && ips_core.guesses && c->guess.block_ns &&
            !(call->mark &
              IPS_MARK_NOT) && /* IPS_MARK_NOT: reported CPU time is too high */
            !ips_guess_reading_is_due(&c->guess) &&
            (int64_t)(call->cpu - c->read_cpu) < (int64_t)IPS_GUESS_NS &&
            !ips_cpu_slot_at_mark(me, *ips_cpu_mark_address()),
        1);
}

/* Stores the moment of the return of a call in which the thread was switched
 * out. Sets the new mark before taking the stamp, so the next moment notices a
 * switch between the two. */
static inline __attribute__((always_inline)) void
ips_moment_of_return_if_switched_out(struct ips_thread *me,
                                     const struct ips_moment *call, bool waits,
                                     struct ips_moment *ret)
{
    uint32_t taken = 0;
    struct ips_cpu_slot *s =
        ips_may_guess_block_cpu(me, call) ? ips_set_cpu_mark(me, &taken) : NULL;
    uint64_t t = IPS_STAMP(), elapsed = ips_stamps_to_ns(t - call->t);
    if (__builtin_expect(!s, 0)) {
        *ret = ips_moment_of_return_slow(call, t);
        return;
    }
    if (__builtin_expect(t < call->t, 0)) {
        *ips_cpu_mark_address() = 0; /* the new mark has no baseline */
        *ret = ips_moment_of_return_slow(call, t);
        return;
    }
    if (__builtin_expect(elapsed >= IPS_GUESS_BLOCK_NS && !waits, 0)) {
        *ret = ips_moment_of_return_by_cpu_clock(call, t);
        return;
    }
    uint64_t cpu =
        call->cpu + ips_guess_and_account_cpu_of_block(&me->cpu.guess, elapsed);
    ips_set_baseline_or_remove_cpu_mark(me, s, taken, t, cpu);
    me->cpu_last = cpu;
    ret->t = t;
    ret->cpu = cpu;
    ret->mark = (uint64_t)(uintptr_t)s;
    ret->mark_number = taken;
}

#endif
