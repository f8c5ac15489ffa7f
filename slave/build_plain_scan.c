/* Plain records -> what the scan keeps of them (build_plain.h). */
#include "slave/build_plain.h"

/* What the scan keeps of plain records, one after the other. */
struct seen {
    uint64_t first_ns, last_ns, first_cpu, last_cpu;
    uint64_t before; /* latest return */
    uint64_t n, sends, one_node;
    uint8_t *used;
    uint32_t used_top;
};

/* Short records from `p` on, all on the line of `r`: what is kept of them are
 * the least and the greatest of stamps, and these keep their order when they
 * become ns. One is no longer than its CPU, so its sends are of one node. Where
 * stamps are not as a writer's are, sends have the room of two. Returns behind
 * the last. */
static inline __attribute__((always_inline)) const uint8_t *
scan_short(const struct b_plain *r, const struct ips_clock *clock,
           const uint8_t *p, const uint8_t *end, struct seen *s)
{
    const size_t bytes = sizeof(struct ips_rec_io_short);
    uint64_t first = UINT64_MAX, last = 0, sends = 0, one_node = 0;
    uint8_t *used = s->used;
    uint32_t used_top = s->used_top;
    const uint8_t *from = p;
    for (; (size_t)(end - p) >= bytes; p += bytes) {
        uint32_t word = b_load32(p),
                 op = word >> 16 >> IPS_REC_F_OP & IPS_REC_OP_MAX;
        uint32_t what =
            (word & 0xffffu) - B_IO_WORD(SEND_SHORT, ips_rec_io_short);
        uint64_t t = b_load64(p + offsetof(struct ips_rec_head, t));
        if (what > 1 || t < r->line_t || B_OPS_APART >> op & 1 ||
            !b_load32(p + offsetof(struct ips_rec_io_short, result)))
            break;
        __builtin_prefetch(p + B_PLAIN_AHEAD);
        uint64_t t_ret = ips_add_sat(
            t, b_load32(p + offsetof(struct ips_rec_io_short, took)));
        first = ips_min_u64(first, t);
        sends += 1 - what;
        one_node += (1 - what) & (t_ret >= last);
        last = ips_max_u64(last, t_ret);
        b_plain_used(used, &used_top,
                     b_load32(p + offsetof(struct ips_rec_head, a)), what);
    }
    if (p == from)
        return p;
    s->used_top = used_top;
    uint64_t begin = b_clock_ns(clock, first);
    uint64_t cpu = slave_line_cpu(clock, r->line_t, r->line_cpu, last);
    s->first_ns = ips_min_u64(s->first_ns, begin);
    s->last_ns = ips_max_u64(s->last_ns, b_clock_ns(clock, last));
    s->last_cpu = ips_max_u64(s->last_cpu, cpu);
    s->n += (uint64_t)(p - from) / bytes;
    s->sends += sends;
    if (begin >= s->before && cpu < UINT64_MAX)
        s->one_node += one_node;
    s->before = ips_max_u64(s->before, s->last_ns);
    return p;
}

static inline __attribute__((always_inline)) void
scan_one(const struct b_plain *r, struct seen *s)
{
    s->first_ns = ips_min_u64(s->first_ns, r->t);
    s->last_ns = ips_max_u64(s->last_ns, r->t_ret);
    s->last_cpu = ips_max_u64(s->last_cpu, r->cpu_ret);
    if (s->first_cpu == IPS_CPU_UNKNOWN)
        s->first_cpu = r->cpu;
    s->sends += r->send;
    s->one_node +=
        r->send & (r->t_ret >= s->before) & (b_plain_slept(r) < B_BLOCKED_NS);
    s->before = ips_max_u64(s->before, r->t_ret);
    s->n++;
    b_plain_used(s->used, &s->used_top, r->id, !r->send);
}

bool b_plain_scan(struct build *b, struct b_stream *s, struct b_walk *walk,
                  bool *received)
{
    if (walk->chunk >= walk->in->chunk_count)
        return false;
    const struct ips_chunk *c = &walk->in->chunks[walk->chunk];
    const uint8_t *p = c->data + walk->at, *end = c->data + c->len;
    const struct ips_clock clock = s->clock;
    struct b_plain r = {.line_known = walk->line.io_known,
                        .line_t = walk->line.io_t,
                        .line_cpu = walk->line.io_cpu};
    struct seen k = {.first_ns = UINT64_MAX,
                     .first_cpu = s->first_cpu,
                     .before = s->empty ? 0 : s->last_ns,
                     .used = b->used,
                     .used_top = b->used_top};
    while (b_plain_read(&r, p, (size_t)(end - p), &clock)) {
        __builtin_prefetch(p + B_PLAIN_AHEAD);
        scan_one(&r, &k);
        p += r.bytes;
        if (r.line_known && (size_t)(end - p) >= 2 &&
            (p[0] & ~1u) == IPS_REC_SEND_SHORT)
            p = scan_short(&r, &clock, p, end, &k);
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
    if (b->grow) /* its room is for what will come */
        k.one_node = 0;
    s->node_room += k.n + k.sends - k.one_node;
    s->one_node += k.one_node;
    b->send_room += k.sends;
    b->used_top = k.used_top;
    *received = k.n > k.sends;
    walk->line.io_known = r.line_known;
    walk->line.io_t = r.line_t;
    walk->line.io_cpu = r.line_cpu;
    walk->at = (size_t)(p - c->data);
    return true;
}
