/*
 * Short records. Events of one moment - ENTER, EXIT, and the API's MARK -: the
 * long record where CPU time has to be said, else a short one of 16 bytes that
 * refers to the last long one, its *line* (format.h).
 *
 * Invariants:
 *  - a short record is written only where the line's record stands in the same
 *    segment, before it, and the mark of then is still there
 *    (agent/record/cpu.h): the thread was on its core all the time. All of it
 *    is looked at after the record has its place, so a handler that comes
 *    before is seen, and one that comes after it changes nothing; and the line
 *    is still the one that the stamp was held against.
 *  - `era` of the line is stored last: a handler that draws another one in
 *    between leaves none that counts.
 *  - a short record is published with one store; before it there is no head,
 *    which a handler mends as it does a reservation without one.
 */
#ifndef IPS_AGENT_RECORD_PROC_EVENT_H
#define IPS_AGENT_RECORD_PROC_EVENT_H

#include "agent/record/cpu.h"
#include "agent/record/fast.h"

/* A line for short records from `m` on, whose record is published. `era` is
 * that of before the record was begun. */
void ips_baseline_draw(struct ips_cpu_baseline *line,
                       const struct ips_moment *m, uint32_t era);
static inline void ips_baseline_draw_inline(struct ips_thread *me,
                                            struct ips_cpu_baseline *line,
                                            const struct ips_moment *m,
                                            uint32_t era)
{
    /* Where CPU stands still until the clock has caught up there is no line. */
    const struct ips_cpu_slot *slot =
        m->mark & IPS_MARK_NOT ? NULL : ips_cpu_slot_of(me, m->mark);
    line->span = 0;
    line->t = m->t;
    /* A handler has left marks since: `era` may be one of them. */
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

/* The `bytes` at `at` will not be used. */
void ips_baseline_give_back(uint64_t at, uint64_t bytes) __attribute__((cold));

/* What a short record did not come to: 0 it was written, IPS_SHORT_NOT it was
 * not begun, else it has a place that is to be given back (ips_short_undo). So
 * the hooks have no call but at their end. */
#define IPS_SHORT_NOT 1u
#define IPS_SHORT_TAKEN 2u
static inline void ips_short_undo(uint64_t left, uint64_t bytes)
{
    if (left & IPS_SHORT_TAKEN)
        ips_baseline_give_back(left & ~(uint64_t)7, bytes);
}

/* Is there a place for a record at `at`, of this image? */
static inline bool ips_short_fits(const struct ips_thread *me, uint64_t at,
                                  uint64_t bytes)
{
    const struct ips_stream *s = &me->stream;
    return at == s->tail && at + bytes <= s->limit &&
           *ips_core.alive == IPS_ALIVE;
}

/* Is the place `at` of a short record good, on the line `of`, whose era and t
 * were `era` and `from`? What the caller found out in that era holds. */
static inline bool ips_short_good(struct ips_thread *me,
                                  struct ips_cpu_baseline *of, uint32_t era,
                                  uint64_t from, uint64_t at, uint64_t bytes)
{
    const volatile struct ips_cpu_baseline *line = of;
    return ips_short_fits(me, at, bytes) && line->t == from && era == me->era;
}

/* It is filled: its head and `a`, whole at once. */
static inline void ips_short_publish(struct ips_thread *me, uint64_t at,
                                     uint64_t bytes, uint32_t type_and_flags,
                                     uint32_t a)
{
    typedef uint64_t __attribute__((may_alias)) two_words;
    /* Partner: the acquire fence in copy() of slave/drain/segment_reader.c. */
    __atomic_store_n((two_words *)at,
                     (uint64_t)a << 32 | (bytes / 8) << 8 | type_and_flags,
                     __ATOMIC_RELEASE);
    atomic_signal_fence(memory_order_seq_cst);
    me->stream.tail = at + bytes;
    me->recs_open--;
}

/* The head alone, on the line `of`, whose era was `era`; `high`:`a` is its
 * procedure. What the caller found out in that era holds when it was written.
 * Returns what it did not come to. */
static inline uint64_t ips_event_short(struct ips_thread *me,
                                       struct ips_cpu_baseline *of,
                                       uint32_t era, enum ips_rec_type type,
                                       uint32_t high, uint32_t a)
{
#if IPS_HAVE_COUNTER
    const volatile struct ips_cpu_baseline *line = of;
    const uint64_t bytes = sizeof(struct ips_rec_head);
    uint64_t from = line->t, cpu = line->cpu;
    uint64_t t = ips_counter(), since = t - from;
    /* One that is constant is that of all its line's. */
    bool other_half = !__builtin_constant_p(high) && high != line->high;
    if (unlikely(since >= line->span || other_half))
        return IPS_SHORT_NOT;
    me->recs_open++; /* before the xadd: see segment_drop */
    uint64_t at = ips_reserve_bytes(&me->stream.cur, bytes);
    if (unlikely(!ips_short_good(me, of, era, from, at, bytes) ||
                 line->mark != *ips_cpu_mark()))
        return at | IPS_SHORT_TAKEN;
    ((struct ips_rec_head *)at)->t = t;
    me->cpu_last = cpu + (since * ips_core.mult >> 32);
    ips_short_publish(me, at, bytes, type, a);
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

/* The long form; and for what the short one leaves undone. false: lost. */
bool ips_proc_event_long(enum ips_rec_type type, uint64_t procedure,
                         struct ips_moment *m);

/* ENTER_SHORT or EXIT_SHORT. Returns what it did not come to. */
static inline uint64_t ips_proc_event_short(enum ips_rec_type type,
                                            uint64_t procedure)
{
    struct ips_thread *me = ips_here();
    uint32_t era = *(volatile uint32_t *)&me->proc_baseline.era;
    return ips_event_short(me, &me->proc_baseline, era, type,
                           (uint32_t)(procedure >> 32), (uint32_t)procedure);
}

#endif
