/*
 * A *moment* is a stamp together with the thread's CPU time at that stamp. It
 * is usually taken without a system call.
 *
 * The kernel clears the pointer `rseq_cs` in a thread's rseq area (glibc
 * registers one for every thread) whenever it switches the thread out, moves it
 * to another core or delivers a signal to it. We store a pointer of our own
 * there, the *mark*. While the mark is there, the thread has been on its core
 * all the time, so CPU = cpu0 + (stamp - t0). If the mark is gone, or another
 * library (tcmalloc, librseq) has replaced it by its own pointer, the thread's
 * CPU clock is read or the CPU time is guessed (record/cpu.c).
 *
 * Invariants:
 *  - the mark is set *before* the clock is read, and a moment checks the mark
 *    *after* reading its stamp: a switch in between is never missed.
 *  - each mark points at a slot of its own thread, and the slot holds the
 *    baseline (t0, cpu0) that is valid with this mark. A signal handler that
 *    reads the clock takes another slot, so the code that it interrupted never
 *    mixes two baselines, and no lock or blocked signal is needed. Slots are
 *    reused, so equal pointers do not prove that the mark is the same; the
 *    number of slots taken so far (`taken`) must be the same, too.
 *  - reported CPU time never decreases in one thread.
 *  - the rseq critical section that a slot describes is one byte that is never
 *    executed, the slot's own first byte. Its abort handler is never executed
 *    either. So all that the kernel ever does is clear the mark. At each switch
 *    the kernel reads the slot and the signature before the abort handler; both
 *    are in one cache line.
 *  - slots are in the thread's own TLS, and only programs with the preload
 *    library, which is never unloaded, use marks. So the memory to which the
 *    kernel follows the pointer is always mapped.
 *
 * Marks are not used without rseq, if the kernel does not clear them when a
 * thread blocks (ipsrun tests this), if stamps are not counter values, or with
 * the test clock. Then `ips_core.cpu_marks` is false, and every moment reads
 * the clock.
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
    /* The mark at `t`. With IPS_MARK_NOT, t and cpu cannot serve as a baseline.
     * If marks are not used: the stamp after `cpu` was read. */
    uint64_t mark;
    uint32_t mark_number; /* value of ips_me.cpu_next while `mark` is the newest
                             mark */
};
#define IPS_MARK_NOT 1u /* OR-ed into a mark: it then equals no real mark */

static inline volatile uint64_t *ips_cpu_mark_address(void)
{
    char *tp = (char *)__builtin_thread_pointer();
    return (volatile uint64_t *)(void *)(tp + ips_core.mark_offset);
}

/* Does `mark` point at one of a thread's slots? The parameter is the slots and
 * not the thread because of sanitizers: they test whether &ips_me is NULL by
 * the flags of an addition, and the linker replaces that addition by an
 * instruction that sets no flags. */
static inline bool ips_cpu_mark_points_at_slot(const struct ips_cpu_slot *slots,
                                               uint64_t mark)
{
    uint64_t base = (uint64_t)(uintptr_t)slots;
    return __builtin_expect(mark - base < IPS_CPU_SLOTS * sizeof(*slots), 1);
}
static inline struct ips_cpu_slot *
ips_cpu_slot_of_array_at_mark(const struct ips_cpu_slot *slots, uint64_t mark)
{
    return ips_cpu_mark_points_at_slot(slots, mark)
               ? (struct ips_cpu_slot *)(uintptr_t)mark
               : NULL;
}
/* Returns the slot that `mark` points at, or NULL. */
static inline struct ips_cpu_slot *
ips_cpu_slot_at_mark(const struct ips_thread *me, uint64_t mark)
{
    return ips_cpu_slot_of_array_at_mark(me->slot, mark);
}
static inline struct ips_cpu_slot *ips_cpu_own_slot_at_mark(uint64_t mark)
{
    return ips_cpu_slot_of_array_at_mark(ips_me.slot, mark);
}

static inline uint64_t ips_stamps_to_ns(uint64_t stamps)
{
    return (uint64_t)((ips_u128)stamps * ips_core.mult >> 32);
}

#if IPS_HAVE_COUNTER
#define IPS_STAMP() ips_counter_read()
#else
#define IPS_STAMP() ips_core_stamp_now() /* not used: marks need a counter */
#endif

struct ips_moment ips_moment_now_slow(void);
/* Like ips_moment_now_slow, for the beginning of a call that moves bytes or
 * waits; called after ips_push_open_call. Also looks for page faults before the
 * call (record/page_faults.c). */
struct ips_moment ips_moment_of_call_slow(void);
struct ips_moment ips_moment_of_return_slow(const struct ips_moment *call,
                                            uint64_t t);
/* Returns the moment of the return of a call during which the mark was cleared.
 * `waits`: the call does nothing but wait. */
struct ips_moment
ips_moment_of_return_without_mark(const struct ips_moment *call, bool waits);

/* Stores the moment of the stamp `t` in `out`. `taken`: cpu_next before the
 * stamp; `mark`: the mark after it. Stores field by field: copying the whole
 * struct would load it from the stack before the stores of its fields have
 * completed, a stall. */
static inline __attribute__((always_inline)) void
ips_moment_at_stamp(struct ips_thread *me, uint64_t mark, uint32_t taken,
                    uint64_t t, bool of_call, struct ips_moment *out)
{
    if (__builtin_expect(ips_cpu_mark_points_at_slot(me->slot, mark), 1)) {
        const volatile struct ips_cpu_slot *s =
            (const volatile struct ips_cpu_slot *)(uintptr_t)mark;
        uint64_t since = t - s->t0, cpu0 = s->cpu0;
        /* `since` is below cpu_limit, so the product fits into 64 bits. */
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
    *out = of_call ? ips_moment_of_call_slow() : ips_moment_now_slow();
}
/* Stores the current moment in `out`. On the fast path, no slot was taken
 * between the reading of cpu_next, before the stamp, and the check of the mark,
 * after the stamp. So the mark was there all the time. `of_call`: see
 * ips_moment_of_call_slow. */
static inline __attribute__((always_inline)) void
ips_moment_store_now(struct ips_thread *me, bool of_call,
                     struct ips_moment *out)
{
    uint32_t taken = me->cpu_next;
    uint64_t t = IPS_STAMP();
    ips_moment_at_stamp(me, *ips_cpu_mark_address(), taken, t, of_call, out);
}
static inline struct ips_moment ips_moment_now(void)
{
    struct ips_moment m;
    ips_moment_store_now(&ips_me, false, &m);
    return m;
}

/* Returns the moment at which a call begins; called after IPS_CALL_MARK or
 * ips_push_open_call. May also look for page faults before the call. */
static inline struct ips_moment ips_moment_of_call(void)
{
    struct ips_moment m;
    ips_moment_store_now(&ips_me, true, &m);
    return m;
}

/* Returns the moment of the return of a call that began at `call`. If the mark
 * is still there, the thread was not switched out, so all of the call was CPU
 * time. For a call longer than cpu_limit the clock is read all the same: a
 * hypervisor's pause does not clear the mark, but is not our CPU time. */
static inline struct ips_moment
ips_moment_of_call_return(const struct ips_moment *call, bool waits)
{
    if (__builtin_expect(!ips_core.cpu_marks, 0))
        return ips_moment_of_return_slow(call, ips_core_stamp_now());
    if (__builtin_expect(*ips_cpu_mark_address() != call->mark, 0))
        return ips_moment_of_return_without_mark(call, waits);
    uint64_t t = IPS_STAMP();
    if (__builtin_expect(*ips_cpu_mark_address() != call->mark ||
                             ips_me.cpu_next != call->mark_number ||
                             t - call->t >= ips_core.cpu_limit,
                         0))
        return ips_moment_of_return_slow(call, t);
    uint64_t cpu = call->cpu + ips_stamps_to_ns(t - call->t);
    ips_me.cpu_last = cpu;
    return (struct ips_moment){t, cpu, call->mark, call->mark_number};
}
static inline struct ips_moment
ips_moment_of_return(const struct ips_moment *call)
{
    return ips_moment_of_call_return(call, false);
}
/* Like ips_moment_of_return, for a call that moves no bytes (a poll, a sleep):
 * even if it was long, its only CPU time is that of going to sleep and waking
 * up. */
static inline struct ips_moment
ips_moment_of_wait_return(const struct ips_moment *call)
{
    return ips_moment_of_call_return(call, true);
}

/* Reads the thread's CPU clock, where CPU time must be exact, as at END.
 * Returns ns, never less than the CPU time reported before. */
uint64_t ips_cpu_read_clock_and_end_guesses(void);

/* record/run_delay.c. ips_run_delay_write_if_due writes a RUNDELAY if one is
 * due; call it when the clock was just read and the thread was off its core.
 * ips_run_delay_write_last_if_due writes the last one, at END. */
void ips_run_delay_write_if_due(uint64_t t, uint64_t cpu);
void ips_run_delay_write_last_if_due(uint64_t cpu);
/* record/page_faults.c. ips_page_faults_write_if_any writes a PAGEFAULT if the
 * kernel counted major faults of the thread since the last check. It makes a
 * system call. Call it only where the thread is in no call, or just begins one.
 * ips_page_faults_skip_earlier excludes the faults up to now,
 * ips_page_faults_store_seen_counts those up to `ru`.
 * ips_page_faults_write_if_new_in_counts is like write_if_any, with counts just
 * read into `ru`. */
struct rusage;
void ips_page_faults_skip_earlier(void);
void ips_page_faults_store_seen_counts(const struct rusage *ru);
void ips_page_faults_write_if_new_in_counts(const struct rusage *ru, uint64_t t,
                                            uint64_t cpu);
void ips_page_faults_write_if_any(uint64_t t, uint64_t cpu);
/* record/guessed_cpu.c. ips_write_guessed_cpu_record writes a GUESSED now;
 * ips_write_unreported_guessed_cpu writes one before END, if there is anything
 * new. */
void ips_write_guessed_cpu_record(uint64_t t);
void ips_write_unreported_guessed_cpu(void);
/* Writes CALLS if there were at least `least` calls on files, or
 * IPS_BEYOND_LEAST_NS of unreported overhead. */
void ips_write_calls_record_if_enough(uint32_t least);
/* Returns the ns of agent work that a CALLS written now would report in `a`. */
uint64_t ips_unreported_agent_ns(void);

/* Measures a piece of agent work whose probe cost is `priced_ps`, or 0 if it
 * has none. CALLS (struct ips_rec_calls) reports the time beyond that. Nested
 * work counts once. */
struct ips_agent_work {
    uint64_t t, mark;
    uint32_t mark_number;        /* ips_me.cpu_next at the start */
    uint32_t beyond_ns, said_ns; /* these counters of ips_me at the start */
};
static inline struct ips_agent_work ips_agent_work_begin(void)
{
    return (struct ips_agent_work){ips_core_stamp_now(),
                                   *ips_cpu_mark_address(), ips_me.cpu_next,
                                   ips_me.beyond_ns, ips_me.said_ns};
}
void ips_agent_work_add_to_overhead(const struct ips_agent_work *apart,
                                    uint64_t priced_ps);
/* IPS_APART measures the rest of the scope that contains it as agent work. */
static inline void
ips_agent_work_end_of_scope(const struct ips_agent_work *apart)
{
    ips_agent_work_add_to_overhead(apart, 0);
}
#define IPS_APART                                                              \
    const struct ips_agent_work apart_                                         \
        __attribute__((cleanup(ips_agent_work_end_of_scope))) =                \
            ips_agent_work_begin()
/* Zeroes the counts that CALLS reports. Called when they are reported, and
 * after the start of an image, thread or fork child: the cost of the start is
 * accounted for separately. */
void ips_reset_overhead_counts(void);

/* Determines whether marks in the rseq area can be used. Call it after the run
 * is attached. */
void ips_cpu_init(void);
/* Call it in a fork child: discards marks and readings, since CPU time starts
 * at 0. */
void ips_cpu_reset(void);

#endif
