/*
 * SEND and RECV records in a short form of 32 bytes instead of 64
 * (pool/format.h). The short form is possible if the thread stayed on its core
 * from the return of the last long record to the return of this call, and if
 * there is nothing to record but bytes and times. The CPU baseline
 * (proc_event.h) starts at the long record's return.
 */
#ifndef IPS_AGENT_RECORD_IO_EVENT_H
#define IPS_AGENT_RECORD_IO_EVENT_H

#include "agent/record/proc_event.h"

/* Fills and publishes the short record at `at`; the caller has checked that it
 * can be written there. */
static inline void ips_io_fill_and_publish_short(
    struct ips_thread *me, uint64_t at, enum ips_rec_type type, uint32_t chan,
    enum ips_op op, uint64_t t, uint64_t took, int64_t result, uint64_t site)
{
    struct ips_rec_io_short *r = (struct ips_rec_io_short *)at;
    r->h.t = t;
    r->took = (uint32_t)took;
    r->result = (uint32_t)result;
    r->site = site;
    ips_short_record_publish(
        me, at, sizeof(*r),
        (type == IPS_REC_SEND ? IPS_REC_SEND_SHORT : IPS_REC_RECV_SHORT) |
            (uint32_t)op << (16 + IPS_REC_F_OP),
        chan);
}

/* Writes a short record. Returns false if a long one is needed. */
static inline bool ips_io_try_write_short_record(enum ips_rec_type type,
                                                 uint32_t chan, enum ips_op op,
                                                 const struct ips_moment *call,
                                                 const struct ips_moment *ret,
                                                 int64_t result, uint64_t site)
{
    const volatile struct ips_cpu_baseline *line = &ips_me.io_baseline;
    const uint64_t bytes = sizeof(struct ips_rec_io_short);
    uint32_t era = line->era;
    uint64_t from = line->t, mark = line->mark;
    uint64_t took = ret->t - call->t;
    /* Each moment has the mark (cpu.h) that was read after its stamp. If both
     * are the baseline's mark, the thread was never switched out. The test of
     * 32 bits also excludes a negative result (failure). */
    if (unlikely(call->t - from >= line->span || call->mark != mark ||
                 ret->mark != mark || (took | (uint64_t)result) >> 32))
        return false;
    ips_me.recs_open++; /* before the xadd: keeps the segment mapped */
    uint64_t at = ips_reserve_bytes(&ips_me.stream.cur, bytes);
    if (unlikely(!ips_short_record_may_be_written(&ips_me, &ips_me.io_baseline,
                                                  era, from, at, bytes))) {
        ips_reservation_give_back_or_fill(at, bytes);
        return false;
    }
    ips_io_fill_and_publish_short(&ips_me, at, type, chan, op, call->t, took,
                                  result, site);
    return true;
}

static inline __attribute__((always_inline)) bool
ips_io_write_long(struct ips_thread *me, enum ips_rec_type type, uint32_t chan,
                  enum ips_op op, const struct ips_moment *call,
                  const struct ips_moment *ret, int64_t result, int err,
                  uint64_t site, uint32_t ready)
{
    uint32_t era = me->era;
    struct ips_rec_io *rec = (struct ips_rec_io *)ips_rec_begin_in_thread(
        me, type, sizeof(*rec), call->t);
    if (unlikely(!rec))
        return false;
    rec->h.a = chan;
    rec->t_ret = ret->t;
    rec->cpu = call->cpu;
    rec->cpu_ret = ret->cpu;
    rec->result = result;
    rec->site = site;
    rec->op = (uint16_t)op;
    rec->err = (uint16_t)err;
    rec->ready = ready;
    ips_rec_publish_in_thread(me, rec);
    bool moves = type == IPS_REC_SEND || type == IPS_REC_RECV;
    /* With a ring, set no baseline, so that no short records are written:
     * ring.c can condense only long records into a digest. */
    if (moves && likely(!ips_ring_on())) {
        ips_set_short_record_baseline_inline(me, &me->io_baseline, ret, era);
        /* The baseline must end at the stamp from which returns of calls have
         * to check for a sample (preload/sample). */
        uint64_t left = ips_sub_sat(~me->sample_off, ret->t);
        if (unlikely(left < me->io_baseline.span))
            me->io_baseline.span = left;
    }
    return true;
}

/* Writes a record of struct ips_rec_io, in short form if possible. Returns
 * false if the record is lost. */
static inline __attribute__((always_inline)) bool
ips_io_write_record(enum ips_rec_type type, uint32_t chan, enum ips_op op,
                    const struct ips_moment *call, const struct ips_moment *ret,
                    int64_t result, int err, uint64_t site, uint32_t ready)
{
    bool moves = type == IPS_REC_SEND || type == IPS_REC_RECV;
    if (moves && likely(!err && !ready && !ips_me.in_vfork) &&
        ips_io_try_write_short_record(type, chan, op, call, ret, result, site))
        return true;
    return ips_io_write_long(&ips_me, type, chan, op, call, ret, result, err,
                             site, ready);
}

#endif
