/*
 * Fast path for plain records: sends and receives of bytes that succeeded,
 * which are nearly all records of a run. Both readings of the records process
 * them in tight loops of their own (build/plain/scan.c, build/plain/plain.c).
 * Every other record takes the general path (build/scan.c, build/node.c), and
 * so does a plain record that may end a pending wait; afterwards the fast loop
 * continues. The result is bit for bit that of a build with only the general
 * path (ips_build_input.general, test_build_plain.c).
 */
#ifndef IPS_SLAVE_BUILD_PLAIN_H
#define IPS_SLAVE_BUILD_PLAIN_H

#include "slave/build/internal.h"

/* A plain record, with times in ns, and the CPU baseline that short records
 * refer to (slave/build/proc_line.h). */
struct b_plain {
    bool send;
    uint32_t id, bytes;         /* channel id; size of the record itself */
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

/* Bit set of the operations whose records are not plain. */
#define B_OPS_APART (1ull << IPS_OP_CONNECT | 1ull << IPS_OP_ACCEPT)

/* Records are prefetched this many bytes ahead. */
#define B_PLAIN_AHEAD 2048u

/* Decodes the record at `p`, with `left` bytes in the chunk, into *r. Returns
 * false if it is not plain. */
static inline __attribute__((always_inline)) bool
b_decode_record_if_plain(struct b_plain *r, const uint8_t *p, size_t left,
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
        r->cpu =
            slave_thread_cpu_at_stamp(clock, r->baseline_t, r->baseline_cpu, t);
        r->cpu_ret = slave_thread_cpu_at_stamp(clock, r->baseline_t,
                                               r->baseline_cpu, t_ret);
        r->bytes = sizeof(struct ips_rec_io_short);
        word = 0;
    } else {
        return false;
    }
    r->t = b_stamp_to_ns(clock, word, t);
    r->t_ret = b_stamp_to_ns(clock, word, t_ret);
    return r->t <= r->t_ret;
}

/* Like b_blocked_ns(), for a plain record, in which neither clock runs
 * backwards. */
static inline uint64_t b_get_plain_blocked_ns(const struct b_plain *r)
{
    return ips_sub_sat(r->t_ret - r->t, r->cpu_ret - r->cpu);
}

/* Notes that the stream sends to, or receives from, channel `id`
 * (build/plain/early.c). */
static inline __attribute__((always_inline)) void
b_plain_mark_used(uint8_t *used, uint32_t *top, uint32_t id, bool receive)
{
    id = ips_min_u32(id, B_USED_IDS - 1);
    used[2 * id + receive] = 1;
    *top = *top < id ? id : *top;
}

/* Scans the plain records from `walk` to the end of its chunk or to the first
 * other record. Sets `received` if one of them is a receive. Returns false if
 * there was no plain record. */
bool b_scan_plain_records(struct build *b, struct b_stream *s,
                          struct b_walk *walk, bool *received);

/* Traffic of one thread on one end in one direction while one stream is read.
 * The slot's sums are added to the tables once, when the slot is freed, and not
 * at every record. Slots are found by the channel of the record. An end has one
 * slot per direction, however many channels name it. */
struct b_plain_slot {
    /* channel id; in a free slot an id that maps to another slot */
    uint32_t id;
    /* end: IPS_NONE in a free slot; row: index in out->traffic */
    uint32_t end, row;
    /* `put`: how many of the slot's sends are counted in the end's blocks
     * already */
    uint32_t messages, put;
    bool local, noted; /* `noted`: the slot is in `used` */
    uint64_t bytes, t, t_ret;
    /* For sends: where the next struct b_send is written, and the end of the
     * free space there. For receives that are matched at once (`flow`): the
     * peer's next send, whose first byte is the next one to be received, and
     * the end of that send's block. */
    struct b_send *op, *last;
    struct match_cursor *flow; /* matching state of the end before the slot's
                                  receives; NULL: pass `match` matches them */
    uint64_t read; /* bytes received on the end before the slot's receives */
};
#define B_PLAIN_SLOTS 128u
struct b_plain_slots {
    struct b_plain_slot v[2][B_PLAIN_SLOTS]; /* by enum b_dir and channel */
    /* By end number modulo B_PLAIN_SLOTS: the slot that an end with this
     * remainder uses; or NULL. */
    struct b_plain_slot *of_end[2][B_PLAIN_SLOTS];
    /* indexes of the slots that are in use */
    uint32_t used[2 * B_PLAIN_SLOTS], n;
};

struct maker;
/* Allocates b->plain if this build may use the fast path. */
int b_init_plain_slots(struct build *b) IPS_MUST_USE;
/* Makes the nodes of the plain records from `walk` to the end of its chunk or
 * to the first other record. */
int b_make_nodes_of_plain_records(struct maker *m,
                                  struct b_walk *walk) IPS_MUST_USE;
/* Counts the sends that a slot wrote for `end` in the end's blocks, so that the
 * general path may add another send there. */
void b_flush_plain_sends_of_end(struct maker *m, uint32_t end);
/* Called when a receive of `end` takes the general path: from then on, pass
 * `match` matches the receives of that end. */
void b_plain_stop_early_match_of_end(struct maker *m, uint32_t end);
/* Adds the sums of all slots to the tables and frees the slots. */
void b_plain_add_all_slot_sums_and_free_slots(struct maker *m);

#endif
