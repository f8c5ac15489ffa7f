/*
 * Short records of events without duration: ENTER, EXIT, and the API's MARK. A
 * long record contains the CPU time. A short record of 16 bytes takes its CPU
 * time from the last long record, its *baseline* (pool/format.h).
 *
 * Invariants:
 *  - a short record is written only if the baseline's record precedes it in the
 *    same segment, and the mark of that time is still there
 *    (agent/record/cpu.h), so the thread was on its core all the time. All this
 *    is checked after the space is reserved: a signal handler that ran before
 *    the reservation is noticed, and a later one changes nothing. The baseline
 *    must also be the same as when the stamp was compared with it.
 *  - `era` of the baseline is stored last: if a signal handler sets another
 *    baseline in between, neither baseline is valid.
 *  - a short record is published with one store. Until then it has no head, and
 *    a signal handler that records writes one, as for any reservation without a
 *    head.
 */
#ifndef IPS_AGENT_RECORD_PROC_EVENT_H
#define IPS_AGENT_RECORD_PROC_EVENT_H

#include "agent/record/cpu.h"
#include "agent/record/fast.h"

/* Sets the baseline `line` for short records after `m`, whose record is
 * published. `era` is the thread's era before that record was begun. */
void ips_set_short_record_baseline(struct ips_cpu_baseline *line,
                                   const struct ips_moment *m, uint32_t era);
static inline void
ips_set_short_record_baseline_inline(struct ips_thread *me,
                                     struct ips_cpu_baseline *line,
                                     const struct ips_moment *m, uint32_t era)
{
    /* If IPS_MARK_NOT is set, reported CPU time does not advance until the
     * clock has caught up, so there is no baseline. */
    const struct ips_cpu_slot *slot =
        m->mark & IPS_MARK_NOT ? NULL : ips_cpu_slot_at_mark(me, m->mark);
    line->span = 0;
    line->t = m->t;
    /* If a signal handler has set marks since `m`, `era` may belong to one of
     * those. */
    if (__builtin_expect(m->mark_number != me->cpu_next ||
                             !ips_core.cpu_marks || !slot ||
                             m->t - slot->t0 >= ips_core.cpu_limit,
                         0))
        return;
    line->cpu = m->cpu;
    line->mark = m->mark;
    line->span = ips_core.cpu_limit - (m->t - slot->t0);
    atomic_signal_fence(memory_order_seq_cst);
    line->era = era;
}

/* Gives back an unused reservation of `bytes` at `at`. */
void ips_reservation_give_back_or_fill(uint64_t at, uint64_t bytes)
    __attribute__((cold));

/* Results of writing a short record. 0: written. IPS_SHORT_NOT: nothing was
 * reserved. Else: the address of a reservation, with IPS_SHORT_TAKEN, that the
 * caller must give back by ips_short_record_give_back. So the hooks need to
 * call functions only at their end. */
#define IPS_SHORT_NOT 1u
#define IPS_SHORT_TAKEN 2u
static inline void ips_short_record_give_back_if_reserved(uint64_t left,
                                                          uint64_t bytes)
{
    if (left & IPS_SHORT_TAKEN)
        ips_reservation_give_back_or_fill(left & ~(uint64_t)7, bytes);
}

/* May this image write a record into the reserved `bytes` at `at`? */
static inline bool
ips_short_record_reservation_is_usable(const struct ips_thread *me, uint64_t at,
                                       uint64_t bytes)
{
    const struct ips_stream *s = &me->stream;
    return at == s->tail && at + bytes <= s->limit &&
           *ips_core.alive == IPS_ALIVE;
}

/* May the short record at `at` be written with the baseline `of`, whose era and
 * t were `era` and `from`? If so, the caller's checks in that era still hold.
 */
static inline bool ips_short_record_may_be_written(struct ips_thread *me,
                                                   struct ips_cpu_baseline *of,
                                                   uint32_t era, uint64_t from,
                                                   uint64_t at, uint64_t bytes)
{
    const volatile struct ips_cpu_baseline *line = of;
    return ips_short_record_reservation_is_usable(me, at, bytes) &&
           line->t == from && era == me->era;
}

/* Publishes a filled short record: stores its head word and `a` with one store.
 */
static inline void ips_short_record_publish(struct ips_thread *me, uint64_t at,
                                            uint64_t bytes,
                                            uint32_t type_and_flags, uint32_t a)
{
    typedef uint64_t __attribute__((may_alias)) two_words;
    /* Partner: the acquire fence in copy_bytes() of
     * slave/drain/segment_reader.c. */
    __atomic_store_n((two_words *)at,
                     (uint64_t)a << 32 | (bytes / 8) << 8 | type_and_flags,
                     __ATOMIC_RELEASE);
    atomic_signal_fence(memory_order_seq_cst);
    me->stream.tail = at + bytes;
    me->recs_open--;
}

/* Writes a short record that is a head only, with the baseline `of`, whose era
 * was `era`. `high` and `a` are the upper and lower half of the procedure's
 * address; for a MARK, 0 and the slot. If the record is written, the caller's
 * checks in that era still hold. Returns 0, IPS_SHORT_NOT, or a reservation
 * with IPS_SHORT_TAKEN. */
static inline uint64_t ips_try_write_short_event(struct ips_thread *me,
                                                 struct ips_cpu_baseline *of,
                                                 uint32_t era,
                                                 enum ips_rec_type type,
                                                 uint32_t high, uint32_t a)
{
#if IPS_HAVE_COUNTER
    const volatile struct ips_cpu_baseline *line = of;
    const uint64_t bytes = sizeof(struct ips_rec_head);
    uint64_t from = line->t, cpu = line->cpu;
    uint64_t t = ips_counter_read(), since = t - from;
    /* If `high` is a constant, all records of the baseline have the same
     * `high`. */
    bool other_half = !__builtin_constant_p(high) && high != line->high;
    if (unlikely(since >= line->span || other_half))
        return IPS_SHORT_NOT;
    me->recs_open++; /* before the xadd: keeps the segment mapped */
    uint64_t at = ips_reserve_bytes(&me->stream.cur, bytes);
    if (unlikely(
            !ips_short_record_may_be_written(me, of, era, from, at, bytes) ||
            line->mark != *ips_cpu_mark_address()))
        return at | IPS_SHORT_TAKEN;
    ((struct ips_rec_head *)at)->t = t;
    me->cpu_last = cpu + (since * ips_core.mult >> 32);
    ips_short_record_publish(me, at, bytes, type, a);
    return 0;
#else
    (void)me;
    (void)of;
    (void)era;
    (void)type;
    (void)high;
    (void)a;
    return IPS_SHORT_NOT;
#endif
}

/* Writes ENTER or EXIT (`type`) in the long form. Stores its moment in *m and
 * sets the baseline for short records. Returns false if the record is lost. */
bool ips_write_long_procedure_event(enum ips_rec_type type, uint64_t procedure,
                                    struct ips_moment *m);

/* Writes ENTER_SHORT or EXIT_SHORT. Returns the same as ips_write_short_event.
 */
static inline uint64_t
ips_try_write_short_procedure_event(enum ips_rec_type type, uint64_t procedure)
{
    struct ips_thread *me = ips_this_thread();
    uint32_t era = *(volatile uint32_t *)&me->proc_baseline.era;
    return ips_try_write_short_event(me, &me->proc_baseline, era, type,
                                     (uint32_t)(procedure >> 32),
                                     (uint32_t)procedure);
}

#endif
