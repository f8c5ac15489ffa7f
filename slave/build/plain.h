/*
 * Plain records: sends and receives of bytes that went well, nearly all that a
 * run has. The two readings of the records (build/scan.c, build/node.c) take
 * them in tight loops of their own (build/plain/plain.c); what is not plain, or
 * comes where something is open that a record may settle, goes the general way,
 * one record, and then on. The result is the same, bit for bit
 * (ips_build_input.general, test_build_plain.c).
 */
#ifndef IPS_SLAVE_BUILD_PLAIN_H
#define IPS_SLAVE_BUILD_PLAIN_H

#include "slave/build/internal.h"

/* A plain record, its times put right; and the line that short records stand
 * on (slave/build/proc_line.h). */
struct b_plain {
    bool send;
    uint32_t id, bytes;         /* channel; of the record itself */
    uint64_t t, t_ret;          /* t <= t_ret */
    uint64_t cpu, cpu_ret, len; /* cpu <= cpu_ret; len > 0 */
    bool baseline_known;
    uint64_t baseline_t, baseline_cpu;
};

static inline uint64_t b_load64(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof(v));
    return v;
}
static inline uint32_t b_load32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof(v));
    return v;
}

#define B_IO_WORD(type, record)                                                \
    ((uint32_t)IPS_REC_##type | (uint32_t)sizeof(struct record) / 8 << 8)

/* Bits of the operations that are not plain. */
#define B_OPS_APART (1ull << IPS_OP_CONNECT | 1ull << IPS_OP_ACCEPT)

/* Records are asked for so far ahead. */
#define B_PLAIN_AHEAD 2048u

/* Is the record at `p`, of `left` bytes, plain? */
static inline __attribute__((always_inline)) bool
b_plain_read(struct b_plain *r, const uint8_t *p, size_t left,
             const struct ips_clock *clock)
{
    if (left < sizeof(struct ips_rec_io))
        return false;
    uint32_t word = b_load32(p), what = word & 0xffffu;
    uint64_t t = b_load64(p + offsetof(struct ips_rec_head, t)), t_ret;
    r->id = b_load32(p + offsetof(struct ips_rec_head, a));
    if (what == B_IO_WORD(SEND, ips_rec_io) ||
        what == B_IO_WORD(RECV, ips_rec_io)) {
        t_ret = b_load64(p + offsetof(struct ips_rec_io, t_ret));
        r->send = what == B_IO_WORD(SEND, ips_rec_io);
        r->cpu = b_load64(p + offsetof(struct ips_rec_io, cpu));
        r->cpu_ret = b_load64(p + offsetof(struct ips_rec_io, cpu_ret));
        r->len = b_load64(p + offsetof(struct ips_rec_io, result));
        uint32_t op_err = b_load32(p + offsetof(struct ips_rec_io, op));
        if (op_err == IPS_OP_CONNECT || op_err == IPS_OP_ACCEPT ||
            op_err > UINT16_MAX || r->len - 1 >= INT64_MAX ||
            r->cpu > r->cpu_ret)
            return false;
        r->bytes = sizeof(struct ips_rec_io);
        r->baseline_known = !(word >> 16 & IPS_REC_F_NS);
        r->baseline_t = t_ret;
        r->baseline_cpu = r->cpu_ret;
    } else if (what == B_IO_WORD(SEND_SHORT, ips_rec_io_short) ||
               what == B_IO_WORD(RECV_SHORT, ips_rec_io_short)) {
        uint32_t op = word >> 16 >> IPS_REC_F_OP & IPS_REC_OP_MAX;
        r->len = b_load32(p + offsetof(struct ips_rec_io_short, result));
        if (!r->baseline_known || t < r->baseline_t || op == IPS_OP_CONNECT ||
            op == IPS_OP_ACCEPT || r->len == 0)
            return false;
        t_ret = ips_add_sat(
            t, b_load32(p + offsetof(struct ips_rec_io_short, took)));
        r->send = what == B_IO_WORD(SEND_SHORT, ips_rec_io_short);
        r->cpu = slave_line_cpu(clock, r->baseline_t, r->baseline_cpu, t);
        r->cpu_ret =
            slave_line_cpu(clock, r->baseline_t, r->baseline_cpu, t_ret);
        r->bytes = sizeof(struct ips_rec_io_short);
        word = 0;
    } else {
        return false;
    }
    r->t = b_time(clock, word, t);
    r->t_ret = b_time(clock, word, t_ret);
    return r->t <= r->t_ret;
}

/* b_blocked_ns of it: neither clock runs backwards in it. */
static inline uint64_t b_plain_slept(const struct b_plain *r)
{
    return ips_sub_sat(r->t_ret - r->t, r->cpu_ret - r->cpu);
}

/* A send or receive of channel `id` (build/plain/early.c). */
static inline __attribute__((always_inline)) void
b_plain_used(uint8_t *used, uint32_t *top, uint32_t id, bool receive)
{
    id = ips_min_u32(id, B_USED_IDS - 1);
    used[2 * id + receive] = 1;
    *top = *top < id ? id : *top;
}

/* The plain records at `walk` and behind, of its chunk. `received`: there was a
 * receive among them. False: there were none. */
bool b_plain_scan(struct build *b, struct b_stream *s, struct b_walk *walk,
                  bool *received);

/* An end as one thread sends to it, or receives from it, while one stream is
 * read: what else goes to tables with every record is added to them once. It is
 * found by the channel of the record; an end has one slot a direction, whatever
 * number of channels it is known by. */
struct b_plain_slot {
    uint32_t id;            /* channel; of a free slot one that has another */
    uint32_t end, row;      /* IPS_NONE: free; in out->traffic */
    uint32_t messages, put; /* of them the sends that are in its blocks */
    bool local, noted;      /* in `used` */
    uint64_t bytes, t, t_ret;
    /* Next send's place, behind the last one. Of receives that are matched as
     * they are made (`flow`): the next send, whose bytes begin where those of
     * the receives before end, and behind the last one of its block. */
    struct b_op *op, *last;
    struct inflow *flow; /* as it is at `op`, but for its receives */
    uint64_t read;       /* before the slot's receives */
};
#define B_PLAIN_SLOTS 128u
struct b_plain_slots {
    struct b_plain_slot v[2][B_PLAIN_SLOTS]; /* by enum b_dir, channel */
    /* By end: that slot, if any, is in use by it. */
    struct b_plain_slot *of_end[2][B_PLAIN_SLOTS];
    uint32_t used[2 * B_PLAIN_SLOTS], n; /* numbers of those that were taken */
};

struct maker;
/* b->plain, where this build's records may be read so. */
int b_plain_begin(struct build *b) IPS_MUST_USE;
/* The nodes of the plain records at `walk` and behind, of its chunk. */
int b_plain_nodes(struct maker *m, struct b_walk *walk) IPS_MUST_USE;
/* The sends of `end` are in its blocks: the general way may add one. */
void b_plain_put(struct maker *m, uint32_t end);
/* A receive of `end` goes the general way: no other is matched early. */
void b_plain_late(struct maker *m, uint32_t end);
/* What is kept of all ends is in the tables. */
void b_plain_put_all(struct maker *m);

#endif
