/*
 * ENTER_SHORT and EXIT_SHORT as the ENTER and EXIT that they stand for
 * (agent/format.h): what reads a stream's records one after the other keeps one
 * of these, zeroed at the stream's begin.
 */
#ifndef IPS_SLAVE_PROC_LINE_H
#define IPS_SLAVE_PROC_LINE_H

#include <stdbool.h>
#include <string.h>

#include "agent/format.h"
#include "common/types.h"

struct slave_proc_line {
    bool known;
    struct ips_rec_proc last;  /* the last long one */
    struct ips_rec_proc whole; /* the short one at hand */
};

/* `record` itself, or what it stands for (until the next call) with its type
 * and length; NULL where it refers to nothing. */
static inline const uint8_t *slave_proc_whole(struct slave_proc_line *line,
                                              const struct ips_clock *clock,
                                              const uint8_t *record,
                                              uint32_t *type, uint32_t *len)
{
    if (*type == IPS_REC_ENTER || *type == IPS_REC_EXIT) {
        memcpy(&line->last, record, sizeof(line->last));
        line->known = true;
        return record;
    }
    if (*type != IPS_REC_ENTER_SHORT && *type != IPS_REC_EXIT_SHORT)
        return record;
    struct ips_rec_head h;
    memcpy(&h, record, sizeof(h));
    if (!line->known || h.t < line->last.h.t)
        return NULL;
    *type = *type == IPS_REC_ENTER_SHORT ? IPS_REC_ENTER : IPS_REC_EXIT;
    *len = sizeof(line->whole);
    uint64_t since = h.t - line->last.h.t;
    if (clock->kind != IPS_CLOCK_RAW)
        since = ips_mul_q32(since, clock->mult_q32);
    line->whole = (struct ips_rec_proc){
        .h = {.word = *type | *len / 8 << 8, .t = h.t},
        .cpu = ips_add_sat(line->last.cpu, since),
        .procedure = (line->last.procedure >> 32 << 32) | h.a};
    return (const uint8_t *)&line->whole;
}

#endif
