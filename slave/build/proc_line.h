/*
 * Expands ENTER_SHORT, EXIT_SHORT, MARK_SHORT, SEND_SHORT and RECV_SHORT to
 * the long records that they abbreviate (agent/pool/format.h). Each reader of
 * a stream's records has one struct slave_record_expander, zeroed at the start
 * of the stream.
 */
#ifndef IPS_SLAVE_BUILD_PROC_LINE_H
#define IPS_SLAVE_BUILD_PROC_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "agent/pool/format.h"
#include "common/types.h"

struct slave_mark_text {
    /* length of the text with its NUL and padding; 0: no text */
    uint32_t bytes;
    char text[IPS_MARK_PLACE_BYTES];
};

struct slave_record_expander {
    bool known, mark_known, io_known;
    struct ips_rec_proc last;  /* the last ENTER or EXIT */
    struct ips_rec_proc whole; /* expansion of the current short record */
    /* stamp and CPU time of the last long MARK whose text got a slot number, by
     * which MARK_SHORT refers to the text */
    uint64_t mark_t, mark_cpu;
    uint64_t io_t, io_cpu; /* return of the last long SEND or RECV, as a stamp
                              and as CPU ns */
    struct ips_rec_io io;  /* expansion of the current short record */
    struct slave_mark_text mark_text[IPS_MARK_PLACES];
    struct { /* expansion of the current short record */
        struct ips_rec_head h;
        uint64_t cpu;
        char text[IPS_MARK_PLACE_BYTES];
    } mark;
};

/* Forgets the long records of the previous stream. Call it at the start of each
 * stream. */
static inline void slave_reset_expander(struct slave_record_expander *line)
{
    line->known = line->mark_known = line->io_known = false;
    for (uint32_t i = 0; i < IPS_MARK_PLACES; i++)
        line->mark_text[i].bytes = 0;
}

/* Returns the CPU time, ns, at stamp `t` of a thread that ran without a pause
 * since stamp t0, when its CPU time was cpu0. */
static inline uint64_t slave_thread_cpu_at_stamp(const struct ips_clock *clock,
                                                 uint64_t t0, uint64_t cpu0,
                                                 uint64_t t)
{
    uint64_t since = t - t0;
    if (clock->kind != IPS_CLOCK_RAW)
        since = ips_mul_q32(since, clock->mult_q32);
    return ips_add_sat(cpu0, since);
}

static inline void slave_store_mark_text(struct slave_record_expander *line,
                                         const uint8_t *record, uint32_t len)
{
    struct ips_rec_text r;
    memcpy(&r, record, sizeof(r));
    uint32_t place = r.h.word >> 16 >> IPS_REC_F_PLACE & 0x3f;
    uint32_t bytes = len - (uint32_t)sizeof(r);
    if (place == 0 || place > IPS_MARK_PLACES)
        return;
    struct slave_mark_text *p = &line->mark_text[place - 1];
    p->bytes = 0;
    line->mark_known = !(r.h.word >> 16 & IPS_REC_F_NS);
    line->mark_t = r.h.t;
    line->mark_cpu = r.cpu;
    if (bytes == 0 || bytes > sizeof(p->text) ||
        record[len - 1] != '\0') /* damaged: no agent writes such a text */
        return;
    p->bytes = bytes;
    memcpy(p->text, record + sizeof(r), bytes);
}

static inline const uint8_t *slave_expand_short_mark(
    struct slave_record_expander *line, const struct ips_clock *clock,
    const struct ips_rec_head *h, uint32_t *type, uint32_t *len)
{
    if (!line->mark_known || h->t < line->mark_t || h->a == 0 ||
        h->a > IPS_MARK_PLACES || line->mark_text[h->a - 1].bytes == 0)
        return NULL;
    const struct slave_mark_text *p = &line->mark_text[h->a - 1];
    *type = IPS_REC_MARK;
    *len = (uint32_t)sizeof(struct ips_rec_text) + p->bytes;
    memcpy(line->mark.text, p->text, p->bytes);
    line->mark.h.word = *type | *len / 8 << 8;
    line->mark.h.a = (uint32_t)strlen(p->text);
    line->mark.h.t = h->t;
    line->mark.cpu =
        slave_thread_cpu_at_stamp(clock, line->mark_t, line->mark_cpu, h->t);
    return (const uint8_t *)&line->mark;
}

static inline const uint8_t *
slave_expand_short_io(struct slave_record_expander *line,
                      const struct ips_clock *clock, const uint8_t *record,
                      uint32_t *type, uint32_t *len)
{
    struct ips_rec_io_short r;
    memcpy(&r, record, sizeof(r));
    if (!line->io_known || r.h.t < line->io_t)
        return NULL;
    uint64_t t_ret = ips_add_sat(r.h.t, r.took);
    *type = *type == IPS_REC_SEND_SHORT ? IPS_REC_SEND : IPS_REC_RECV;
    *len = sizeof(line->io);
    line->io = (struct ips_rec_io){
        .h = {.word = *type | *len / 8 << 8, .a = r.h.a, .t = r.h.t},
        .t_ret = t_ret,
        .cpu =
            slave_thread_cpu_at_stamp(clock, line->io_t, line->io_cpu, r.h.t),
        .cpu_ret =
            slave_thread_cpu_at_stamp(clock, line->io_t, line->io_cpu, t_ret),
        .result = r.result,
        .site = r.site,
        .op = r.h.word >> 16 >> IPS_REC_F_OP & IPS_REC_OP_MAX};
    return (const uint8_t *)&line->io;
}

/* Returns `record` itself, or the long record that it abbreviates (valid until
 * the next call); then sets *type and *len to those of the long record. NULL:
 * `record` is short, and the long record that it refers to is missing. */
static inline const uint8_t *slave_expand_record_if_short(
    struct slave_record_expander *line, const struct ips_clock *clock,
    const uint8_t *record, uint32_t *type, uint32_t *len)
{
    switch (*type) {
    case IPS_REC_ENTER:
    case IPS_REC_EXIT:
        memcpy(&line->last, record, sizeof(line->last));
        line->known = true;
        return record;
    case IPS_REC_MARK:
        slave_store_mark_text(line, record, *len);
        return record;
    case IPS_REC_SEND:
    case IPS_REC_RECV: {
        struct ips_rec_io r;
        memcpy(&r, record, sizeof(r));
        line->io_known = !(r.h.word >> 16 & IPS_REC_F_NS);
        line->io_t = r.t_ret;
        line->io_cpu = r.cpu_ret;
        return record;
    }
    case IPS_REC_SEND_SHORT:
    case IPS_REC_RECV_SHORT:
        return slave_expand_short_io(line, clock, record, type, len);
    case IPS_REC_ENTER_SHORT:
    case IPS_REC_EXIT_SHORT:
    case IPS_REC_MARK_SHORT:
        break;
    default: /* not all values are in the enum: later versions may have more
                types */
        return record;
    }
    struct ips_rec_head h;
    memcpy(&h, record, sizeof(h));
    if (*type == IPS_REC_MARK_SHORT)
        return slave_expand_short_mark(line, clock, &h, type, len);
    if (!line->known || h.t < line->last.h.t)
        return NULL;
    *type = *type == IPS_REC_ENTER_SHORT ? IPS_REC_ENTER : IPS_REC_EXIT;
    *len = sizeof(line->whole);
    line->whole = (struct ips_rec_proc){
        .h = {.word = *type | *len / 8 << 8, .t = h.t},
        .cpu = slave_thread_cpu_at_stamp(clock, line->last.h.t, line->last.cpu,
                                         h.t),
        .procedure = (line->last.procedure >> 32 << 32) | h.a};
    return (const uint8_t *)&line->whole;
}

#endif
