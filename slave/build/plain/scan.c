/* Scans plain records (build/plain.h). */
#include "slave/build/plain.h"

/* The values that the scan collects from plain records. */
struct plain_scan_sums {
    uint64_t first_ns, last_ns, first_cpu, last_cpu;
    uint64_t before; /* latest return of a call so far, ns */
    uint64_t n, sends, one_node;
    uint8_t *used;
    uint32_t used_top;
};

/* The values that the scan collects from records with stamps of the stream's
 * clock. The order of stamps is that of their times in ns, so only the results
 * are converted to ns. */
struct stamped {
    /* stamps of the earliest call and of the latest return */
    uint64_t first, last;
    uint64_t last_cpu, n, sends, one_node;
    uint32_t used_top;
};

/* Scans short records from `p` on, which all refer to the baseline of `r`.
 * Their elapsed time equals their CPU time, so no send slept, and each needs
 * one node. Returns the address after the last one. */
static inline __attribute__((always_inline)) const uint8_t *
scan_short_records(const struct b_plain *r, const struct ips_clock *clock,
                   const uint8_t *p, const uint8_t *end, uint8_t *used,
                   struct stamped *to)
{
    const size_t bytes = sizeof(struct ips_rec_io_short);
    uint64_t first = to->first, last = to->last, sends = 0, one_node = 0;
    uint64_t here = 0; /* latest return among the records of this call */
    uint32_t used_top = to->used_top;
    const uint8_t *from = p;
    for (; (size_t)(end - p) >= bytes; p += bytes) {
        uint32_t word = b_load32(p),
                 op = word >> 16 >> IPS_REC_F_OP & IPS_REC_OP_MAX;
        uint32_t what =
            (word & 0xffffu) - B_IO_WORD(SEND_SHORT, ips_rec_io_short);
        uint64_t t = b_load64(p + offsetof(struct ips_rec_head, t));
        if (what > 1 || t < r->baseline_t || B_OPS_APART >> op & 1 ||
            !b_load32(p + offsetof(struct ips_rec_io_short, result)))
            break;
        __builtin_prefetch(p + B_PLAIN_AHEAD);
        uint64_t t_ret = ips_add_sat(
            t, b_load32(p + offsetof(struct ips_rec_io_short, took)));
        first = ips_min_u64(first, t);
        sends += 1 - what;
        one_node += (1 - what) & (t_ret >= last);
        last = ips_max_u64(last, t_ret);
        here = ips_max_u64(here, t_ret);
        b_plain_mark_used(used, &used_top,
                          b_load32(p + offsetof(struct ips_rec_head, a)), what);
    }
    if (p == from)
        return p;
    to->first = first;
    to->last = last;
    to->last_cpu = ips_max_u64(
        to->last_cpu,
        slave_thread_cpu_at_stamp(clock, r->baseline_t, r->baseline_cpu, here));
    to->n += (uint64_t)(p - from) / bytes;
    to->sends += sends;
    to->one_node += one_node;
    to->used_top = used_top;
    return p;
}

/* Scans long records from `p` on; afterwards `r` has the baseline of the last
 * one. Here the time that a send slept is known with an error of 1 ns. So a
 * send that may have slept for B_BLOCKED_NS counts with two nodes. Returns the
 * address after the last one. */
static inline __attribute__((always_inline)) const uint8_t *
scan_long_records(struct b_plain *r, const struct ips_clock *clock,
                  const uint8_t *p, const uint8_t *end, uint8_t *used,
                  struct stamped *to)
{
    const size_t bytes = sizeof(struct ips_rec_io);
    const uint64_t mult =
        clock->kind == IPS_CLOCK_RAW ? 1ULL << 32 : clock->mult_q32;
    for (; (size_t)(end - p) >= bytes; p += bytes) {
        uint32_t word = b_load32(p);
        uint32_t what = (word & 0xffffu) - B_IO_WORD(SEND, ips_rec_io);
        uint32_t op_err = b_load32(p + offsetof(struct ips_rec_io, op));
        uint64_t len = b_load64(p + offsetof(struct ips_rec_io, result));
        uint64_t t = b_load64(p + offsetof(struct ips_rec_head, t));
        uint64_t t_ret = b_load64(p + offsetof(struct ips_rec_io, t_ret));
        uint64_t cpu = b_load64(p + offsetof(struct ips_rec_io, cpu));
        uint64_t cpu_ret = b_load64(p + offsetof(struct ips_rec_io, cpu_ret));
        if (what > 1 || word >> 16 & IPS_REC_F_NS || op_err > UINT16_MAX ||
            op_err == IPS_OP_CONNECT || op_err == IPS_OP_ACCEPT ||
            len - 1 >= INT64_MAX || cpu > cpu_ret || t > t_ret)
            break;
        __builtin_prefetch(p + B_PLAIN_AHEAD);
        uint64_t most = ips_add_sat(ips_mul_q32(t_ret - t, mult), 1);
        bool slept = ips_sub_sat(most, cpu_ret - cpu) >= B_BLOCKED_NS;
        to->first = ips_min_u64(to->first, t);
        to->sends += 1 - what;
        to->one_node += (1 - what) & (t_ret >= to->last) & !slept;
        to->last = ips_max_u64(to->last, t_ret);
        to->last_cpu = ips_max_u64(to->last_cpu, cpu_ret);
        to->n++;
        b_plain_mark_used(used, &to->used_top,
                          b_load32(p + offsetof(struct ips_rec_head, a)), what);
        r->baseline_t = t_ret;
        r->baseline_cpu = cpu_ret;
        r->baseline_known = true;
    }
    return p;
}

/* Scans the stamped records from `p` on, long or short. The baseline of `r`
 * must be known. If a call starts before an earlier record's return (no agent
 * writes this), all their sends count with two nodes. Returns the address after
 * the last one. */
static inline __attribute__((always_inline)) const uint8_t *
scan_stamped(struct b_plain *r, const struct ips_clock *clock, const uint8_t *p,
             const uint8_t *end, struct plain_scan_sums *s)
{
    struct stamped k = {.first = UINT64_MAX, .used_top = s->used_top};
    const uint8_t *from;
    do {
        from = p;
        p = scan_short_records(r, clock, p, end, s->used, &k);
        p = scan_long_records(r, clock, p, end, s->used, &k);
    } while (p != from);
    if (!k.n)
        return p;
    uint64_t begin = b_ticks_to_ns(clock, k.first);
    s->used_top = k.used_top;
    s->first_ns = ips_min_u64(s->first_ns, begin);
    s->last_ns = ips_max_u64(s->last_ns, b_ticks_to_ns(clock, k.last));
    s->last_cpu = ips_max_u64(s->last_cpu, k.last_cpu);
    s->n += k.n;
    s->sends += k.sends;
    if (begin >= s->before && k.last_cpu < UINT64_MAX)
        s->one_node += k.one_node;
    s->before = ips_max_u64(s->before, s->last_ns);
    return p;
}

static inline __attribute__((always_inline)) void
scan_one_plain_record(const struct b_plain *r, struct plain_scan_sums *s)
{
    s->first_ns = ips_min_u64(s->first_ns, r->t);
    s->last_ns = ips_max_u64(s->last_ns, r->t_ret);
    s->last_cpu = ips_max_u64(s->last_cpu, r->cpu_ret);
    if (s->first_cpu == IPS_CPU_UNKNOWN)
        s->first_cpu = r->cpu;
    s->sends += r->send;
    s->one_node += r->send & (r->t_ret >= s->before) &
                   (b_get_plain_blocked_ns(r) < B_BLOCKED_NS);
    s->before = ips_max_u64(s->before, r->t_ret);
    s->n++;
    b_plain_mark_used(s->used, &s->used_top, r->id, !r->send);
}

bool b_scan_plain_records(struct build *b, struct b_stream *s,
                          struct b_walk *walk, bool *received)
{
    if (walk->chunk >= walk->in->chunk_count)
        return false;
    const struct ips_chunk *c = &walk->in->chunks[walk->chunk];
    const uint8_t *p = c->data + walk->at, *end = c->data + c->len;
    const struct ips_clock clock = s->clock;
    struct b_plain r = {.baseline_known = walk->proc_line.io_known,
                        .baseline_t = walk->proc_line.io_t,
                        .baseline_cpu = walk->proc_line.io_cpu};
    struct plain_scan_sums k = {.first_ns = UINT64_MAX,
                                .first_cpu = s->first_cpu,
                                .before = s->empty ? 0 : s->last_ns,
                                .used = b->used,
                                .used_top = b->used_top};
    while (b_decode_record_if_plain(&r, p, (size_t)(end - p), &clock)) {
        __builtin_prefetch(p + B_PLAIN_AHEAD);
        scan_one_plain_record(&r, &k);
        p += r.bytes;
        if (r.baseline_known)
            p = scan_stamped(&r, &clock, p, end, &k);
    }
    if (!k.n)
        return false;
    if (s->empty) {
        s->empty = false;
        s->first_ns = k.first_ns;
        s->last_ns = k.last_ns;
    }
    s->first_ns = ips_min_u64(s->first_ns, k.first_ns);
    s->last_ns = ips_max_u64(s->last_ns, k.last_ns);
    s->first_cpu = k.first_cpu;
    s->last_cpu = ips_max_u64(s->last_cpu, k.last_cpu);
    s->events += k.n;
    if (b->incremental) /* an incremental build counts two nodes for each send:
                           the excess is space for later records */
        k.one_node = 0;
    s->node_capacity += k.n + k.sends - k.one_node;
    s->one_node += k.one_node;
    b->send_capacity += k.sends;
    b->used_top = k.used_top;
    *received = k.n > k.sends;
    walk->proc_line.io_known = r.baseline_known;
    walk->proc_line.io_t = r.baseline_t;
    walk->proc_line.io_cpu = r.baseline_cpu;
    walk->at = (size_t)(p - c->data);
    return true;
}
