/* Makes nodes of plain records (build/plain.h). */
#include "slave/build/plain.h"

#include "slave/build/match.h"
#include "slave/build/node.h"

#define NODES_AHEAD 64u

/* ---- slots of ends ---- */

/* Adds the sends that the slot wrote into the end's blocks to the counts of the
 * end. */
static void add_slot_sends_to_counts_of_end(struct maker *m,
                                            struct b_plain_slot *x)
{
    struct build *b = m->b;
    struct b_end *e = &b->ends[x->end];
    uint32_t n = x->messages - x->put;
    if (!n)
        return;
    if (e->sends.n == 0)
        e->send_op_chain = m->chain;
    e->send_many |= e->send_op_chain != m->chain;
    b->blocks.v[e->sends.last].n += n;
    e->sends.n += n;
    e->sends.capacity -= n;
    x->put = x->messages;
}

/* Moves the matching state of the slot's end (x->flow) to the send of the
 * slot's last receive. */
static void advance_match_cursor_past_slot_receives(struct b_plain_slot *x)
{
    struct match_cursor *f = x->flow;
    if (!x->op)
        return;
    f->send.position += (uint32_t)(x->op - 1 - f->send.op);
    f->send.op = x->op - 1;
    f->read = f->sent = x->read + x->bytes;
    x->op = x->last = NULL;
}

/* Adds the slot's sums to the tables and frees the slot. */
static void add_slot_sums_to_tables_and_free_slot(struct maker *m,
                                                  enum b_dir dir,
                                                  struct b_plain_slot *x)
{
    struct build *b = m->b;
    if (!x || x->end == IPS_NONE)
        return;
    struct b_end *e = &b->ends[x->end];
    bool send = dir == B_SEND;
    if (send)
        add_slot_sends_to_counts_of_end(m, x);
    if (!send)
        advance_match_cursor_past_slot_receives(x);
    if (!send && x->messages) {
        if (e->read_count == 0)
            e->read_chain = m->chain;
        e->read_many |= e->read_chain != m->chain;
        e->read_count += x->messages;
    }
    b_add_tally_to_traffic_sums(m,
                                &(struct traffic_tally){.end = x->end,
                                                        .row = x->row,
                                                        .messages = x->messages,
                                                        .bytes = x->bytes,
                                                        .t = x->t,
                                                        .t_ret = x->t_ret},
                                dir);
    b->plain->of_end[dir][x->end % B_PLAIN_SLOTS] = NULL;
    x->end = IPS_NONE;
    x->id++;
}

/* Flushes slot `x` and assigns it to channel `id`. Returns 0, or a negative
 * error; 1: the record has to take the general path. */
static int __attribute__((noinline))
assign_slot(struct maker *m, enum b_dir dir, uint32_t id,
            struct b_plain_slot *x)
{
    struct build *b = m->b;
    const struct b_image *im = &b->images[m->s->image];
    if (id - 1 >= im->chan_count)
        return 1;
    const struct b_chan *c = &b->chans.v[im->first_chan + id - 1];
    if (c->id != id)
        return 1;
    uint32_t end = dir == B_SEND ? c->end_send : c->end_recv;
    if (end == IPS_NONE || b->ends[end].datagram || b->ends[end].listen ||
        b->ends[end].packets)
        return 1;
    struct b_plain_slots *s = b->plain;
    struct b_plain_slot **of_end = &s->of_end[dir][end % B_PLAIN_SLOTS];
    add_slot_sums_to_tables_and_free_slot(m, dir, x);
    add_slot_sums_to_tables_and_free_slot(m, dir, *of_end);
    if (!x->noted)
        s->used[s->n++] = (uint32_t)dir * B_PLAIN_SLOTS + id % B_PLAIN_SLOTS;
    *x = (struct b_plain_slot){.id = id,
                               .end = end,
                               .noted = true,
                               .t = UINT64_MAX,
                               .local = b->ends[end].local};
    if (dir == B_RECV)
        x->flow = b_get_early_match_cursor(b, end, m->chain);
    *of_end = x;
    return b_find_or_add_traffic_row(m, end, &x->row);
}

static int __attribute__((noinline))
reserve_sends_for_slot(struct maker *m, struct b_plain_slot *x)
{
    struct build *b = m->b;
    struct b_end *e = &b->ends[x->end];
    add_slot_sends_to_counts_of_end(m, x);
    int rc = e->sends.capacity ? 0 : b_add_send_block(b, e);
    if (rc < 0)
        return rc;
    const struct b_block *k = &b->blocks.v[e->sends.last];
    x->op = b_send_at(b, k->at + k->n);
    x->last = x->op + e->sends.capacity;
    return 0;
}

void b_flush_plain_sends_of_end(struct maker *m, uint32_t end)
{
    struct b_plain_slots *s = m->b->plain;
    struct b_plain_slot *x = s ? s->of_end[B_SEND][end % B_PLAIN_SLOTS] : NULL;
    if (x && x->end == end) {
        add_slot_sends_to_counts_of_end(m, x);
        x->op = x->last = NULL;
    }
}

void b_plain_stop_early_match_of_end(struct maker *m, uint32_t end)
{
    struct b_plain_slots *s = m->b->plain;
    struct b_plain_slot *x = s ? s->of_end[B_RECV][end % B_PLAIN_SLOTS] : NULL;
    if (x && x->end == end) {
        advance_match_cursor_past_slot_receives(x);
        x->flow = NULL;
    }
    b_stop_early_match_of_end(m->b, end);
}

void b_plain_add_all_slot_sums_and_free_slots(struct maker *m)
{
    struct b_plain_slots *s = m->b->plain;
    if (!s)
        return;
    while (s->n) {
        uint32_t k = s->used[--s->n];
        struct b_plain_slot *x = &s->v[k / B_PLAIN_SLOTS][k % B_PLAIN_SLOTS];
        add_slot_sums_to_tables_and_free_slot(m, k / B_PLAIN_SLOTS, x);
        x->noted = false;
    }
}

int b_init_plain_slots(struct build *b)
{
    if (b->in->general || b->notes || b->in->traffic)
        return 0;
    b->plain = b_calloc(1, sizeof(*b->plain), b->err);
    if (!b->plain)
        return IPS_E_NO_MEMORY;
    for (uint32_t k = 0; k < 2 * B_PLAIN_SLOTS; k++)
        b->plain->v[k / B_PLAIN_SLOTS][k % B_PLAIN_SLOTS] =
            (struct b_plain_slot){.id = k + 1, .end = IPS_NONE};
    return 0;
}

/* ---- nodes ---- */

static int __attribute__((noinline))
add_far_receive(struct maker *m, uint64_t t, uint64_t t_ret, uint32_t end,
                uint32_t node, uint64_t len, uint64_t slept)
{
    struct interval v = {.t = t, .t_ret = t_ret, .end = end};
    return b_add_receive_if_sender_may_be_remote(m, &v, node, len, slept);
}

/* Adds a receive to the list of its end, for an incremental build
 * (build/incremental/grow.h). */
static int append_plain_receive_to_end_list(struct maker *m,
                                            const struct b_plain *r,
                                            uint32_t end, uint32_t node)
{
    struct b_read *to = b_incremental_append_receive_slot(m->b, end);
    if (!to)
        return IPS_E_NO_MEMORY;
    *to = (struct b_read){.t = r->t,
                          .t_ret = r->t_ret,
                          .len = r->len,
                          .node = node,
                          .chain = m->chain,
                          .ext = IPS_NONE};
    return 0;
}

/* The state of the loop over plain records. No pointer to it escapes, so the
 * compiler can hold it in registers. store_plain_loop_state() writes it back
 * into the build.
 */
struct run {
    struct maker *m;
    struct b_plain_slots *slots;
    uint64_t *w, *t_ns, *cpu_at, *off, *wait, *xlen;
    uint32_t *xpred, *site, *probe;
    uint8_t *kind, *xkind;
    uint32_t node, chain;
    /* no_signal_after: calls that begin at this time or later were not ended by
     * a signal */
    uint64_t last_ret, no_signal_after;
    uint64_t off_ns, probe_ps, cost_ps, call_ps, cold_ps;
    uint64_t wait_ns, waits; /* time and number of waits for peers */
    struct b_gaps gaps;
    bool with_costs, goes_on;
};

static bool is_recording_cost_counted(const struct maker *m)
{
    return m->b->in->control && !m->s->task && !m->b->tables;
}

static inline __attribute__((always_inline)) struct run
load_plain_loop_state(struct maker *m)
{
    struct build *b = m->b;
    const struct ips_graph *g = &b->out->g;
    struct run k = {.m = m,
                    .slots = b->plain,
                    .w = g->w,
                    .t_ns = g->t_ns,
                    .cpu_at = b->cpu_at,
                    .off = b->off,
                    .wait = g->wait,
                    .xlen = g->xlen,
                    .xpred = g->xpred,
                    .site = g->site,
                    .probe = g->probe,
                    .kind = g->kind,
                    .xkind = g->xkind,
                    .node = b->nodes,
                    .chain = m->chain,
                    .last_ret = m->last_ret,
                    .off_ns = b->off_ns,
                    .gaps = b->gaps,
                    .probe_ps = b->probe_ps,
                    .cost_ps = b->cost_ps,
                    .with_costs = is_recording_cost_counted(m),
                    .goes_on = b->from != NULL};
    if (k.with_costs) {
        k.call_ps = ips_probe_cost_ps(b->in->control, IPS_PROBE_CALL);
        k.cold_ps = ips_probe_cost_ps(b->in->control, IPS_PROBE_COLD);
    }
    for (uint32_t i = 0; i < m->taken_count; i++)
        k.no_signal_after = ips_max_u64(k.no_signal_after,
                                        ips_add_sat(m->taken_signal[i].t, 1));
    return k;
}

static inline __attribute__((always_inline)) void
store_plain_loop_state(const struct run *k)
{
    struct build *b = k->m->b;
    b->nodes = k->node;
    b->off_ns = k->off_ns;
    b->gaps = k->gaps;
    b->probe_ps = k->probe_ps;
    b->cost_ps = k->cost_ps;
    if (k->with_costs)
        b->out->counts.overhead_ns = b->cost_ps / 1000;
    k->m->last_ret = k->last_ret;
    k->m->row->wait_ns[IPS_WAIT_PEER] += k->wait_ns;
    k->m->row->wait_count[IPS_WAIT_PEER] += (uint32_t)k->waits;
}

/* Prefetches the next cache lines of the columns: the loop writes more columns
 * at a time than the hardware prefetcher can follow. */
static inline __attribute__((always_inline)) void
prefetch_columns(const struct run *k, uint32_t i)
{
    if (i % 8)
        return;
    i += NODES_AHEAD;
    __builtin_prefetch(k->w + i, 1);
    __builtin_prefetch(k->t_ns + i, 1);
    __builtin_prefetch(k->cpu_at + i, 1);
    __builtin_prefetch(k->wait + i, 1);
    __builtin_prefetch(k->xlen + i, 1);
    if (i % 16)
        return;
    __builtin_prefetch(k->probe + i, 1);
    __builtin_prefetch(k->site + i, 1);
    __builtin_prefetch(k->xpred + i, 1);
}

static inline __attribute__((always_inline)) void
append_plain_node(struct run *k, enum ips_node_kind kind, uint64_t coord,
                  uint64_t t_ns, uint64_t cpu_at, uint32_t end, uint64_t slept,
                  uint64_t len, uint32_t xpred, uint8_t xkind)
{
    uint32_t i = k->node++, probe = 0;
    prefetch_columns(k, i);
    if (k->probe_ps >= 1000) {
        probe = (uint32_t)ips_min_u64(k->probe_ps / 1000, UINT32_MAX);
        k->probe_ps %= 1000;
    }
    k->w[i] = coord;
    k->t_ns[i] = t_ns;
    k->cpu_at[i] = cpu_at;
    uint64_t off = ips_add_sat(k->off_ns, slept);
    if (k->off)
        k->off[i] = off;
    else
        b_add_unknown_gap(&k->gaps, t_ns, cpu_at, off);
    k->wait[i] = slept;
    k->xlen[i] = len;
    k->probe[i] = probe;
    k->site[i] = end;
    k->xpred[i] = xpred;
    k->kind[i] = (uint8_t)kind;
    k->xkind[i] = xkind;
    k->off_ns = 0;
}

static inline __attribute__((always_inline)) void
add_record_to_slot(struct b_plain_slot *x, const struct b_plain *r)
{
    x->messages++;
    x->bytes += r->len;
    x->t = ips_min_u64(x->t, r->t);
    x->t_ret = r->t_ret;
}

/* make_plain_send_node() and make_plain_receive_node() make the node of a
 * record. They return 0, or a negative error; 1: the record has to take the
 * general path. */
static inline __attribute__((always_inline)) int
make_plain_send_node(struct run *k, const struct b_plain *r)
{
    struct b_plain_slot *x = &k->slots->v[B_SEND][r->id % B_PLAIN_SLOTS];
    int rc = x->id == r->id ? 0 : assign_slot(k->m, B_SEND, r->id, x);
    if (rc == 0 && x->op == x->last)
        rc = reserve_sends_for_slot(k->m, x);
    if (rc)
        return rc;
    struct b_send *op = x->op++;
    *op = (struct b_send){.t = r->t,
                          .t_ret = r->t_ret,
                          .len = r->len,
                          .past_cpu_ns = r->cpu_ret - r->cpu,
                          .node = k->node,
                          .chain = k->chain & INT32_MAX};
    __builtin_prefetch(op + 4, 1);
    add_record_to_slot(x, r);
    if (!x->local) {
        struct b_end *e = &k->m->b->ends[x->end];
        e->send_chain = k->chain;
        e->send_node = k->node;
        e->send_t = r->t;
    }
    append_plain_node(k, IPS_NODE_SEND, r->cpu_ret, r->t, r->cpu, x->end, 0, 0,
                      IPS_NO_NODE, IPS_X_NONE);
    return 0;
}

/* Finds the send of a receive on a channel whose sends all have nodes
 * (build/plain/early.c), and returns the columns of the receive. If it finds
 * none, returns `to`, and pass `match` matches the receives from this one on.
 */
static struct b_matched __attribute__((noinline))
match_receive_by_search(struct build *b, struct b_plain_slot *x,
                        const struct b_plain r, uint64_t slept,
                        struct b_matched to)
{
    struct match_cursor *f = x->flow;
    advance_match_cursor_past_slot_receives(x);
    uint64_t read = f->read;
    struct b_send *send = b_advance_to_send_of_receive(b, f, r.len);
    if (!send) {
        f->read = read;
        f->late = true;
        x->flow = NULL;
        return to;
    }
    to = b_link_receive_and_limit_both_coords(b, f, send, r.t_ret, r.cpu_ret,
                                              r.cpu, slept, r.len);
    if (f->read == f->sent && send + 1 != f->send.end) {
        x->op = send + 1;
        x->last = f->send.end;
        x->read = f->read - x->bytes - r.len;
    }
    return to;
}

static inline __attribute__((always_inline)) struct b_matched
match_plain_receive(const struct run *k, struct b_plain_slot *x,
                    const struct b_plain *r, uint64_t slept,
                    struct b_matched to)
{
    const struct b_send *send = x->op;
    uint8_t xkind = 0;
    if (send != x->last && send->len == r->len)
        xkind = b_compute_xkind_if_whole_message(
            send, r->t_ret, r->cpu_ret - r->cpu, slept,
            x->read + x->bytes + r->len, x->flow->memory);
    if (!xkind)
        return match_receive_by_search(k->m->b, x, *r, slept, to);
    __builtin_prefetch(send + 4, 1);
    x->op++;
    return (struct b_matched){r->cpu, send->node, xkind};
}

static inline __attribute__((always_inline)) int
make_plain_receive_node(struct run *k, const struct b_plain *r, uint64_t slept)
{
    struct b_plain_slot *x = &k->slots->v[B_RECV][r->id % B_PLAIN_SLOTS];
    int rc = x->id == r->id ? 0 : assign_slot(k->m, B_RECV, r->id, x);
    uint64_t took = r->t_ret - r->t, len = r->len;
    if (rc)
        return rc;
    if (!x->local)
        took = IPS_NO_NODE, len = 0;
    else if (k->goes_on)
        took = IPS_NO_NODE,
        rc = append_plain_receive_to_end_list(k->m, r, x->end, k->node);
    else if (took >= IPS_NO_NODE)
        return 1;
    if (rc < 0)
        return rc;
    k->wait_ns += slept;
    k->waits += slept > 0;
    struct b_matched to = {r->cpu, (uint32_t)took, IPS_X_NONE};
    if (x->flow)
        to = match_plain_receive(k, x, r, slept, to);
    add_record_to_slot(x, r);
    append_plain_node(k, IPS_NODE_RECV, to.coord, r->t_ret, r->cpu_ret, x->end,
                      slept, len, to.xpred, to.xkind);
    return x->local ? 0
                    : add_far_receive(k->m, r->t, r->t_ret, x->end, k->node - 1,
                                      r->len, slept);
}

/* Adds the recording cost of the record: that of a call, more if the agent may
 * have read a clock or its code had left the cache. */
static inline __attribute__((always_inline)) void
add_plain_recording_cost(struct run *k, const struct b_plain *r, bool blocked)
{
    struct b_stream *s = k->m->s;
    uint64_t ps = k->call_ps;
    if (blocked || ips_sub_sat(r->cpu, s->read_cpu_ns) >= B_READ_NS ||
        s->blocks_unread >= B_READ_BLOCKS_MIN)
        ps = b_simulate_io_cost_ps(k->m->b, s, r->t, r->t_ret, r->cpu,
                                   r->cpu_ret);
    else if (b_check_cold_caches_and_note_call(s, r->t, r->t_ret))
        ps = ips_add_sat(ps, k->cold_ps);
    k->cost_ps = ips_add_sat(k->cost_ps, ps);
    k->probe_ps = ips_add_sat(k->probe_ps, ps);
}

static inline __attribute__((always_inline)) int
make_plain_node_and_add_cost(struct run *k, const struct b_plain *r)
{
    if (r->t_ret < k->last_ret || r->t < k->no_signal_after)
        return 1;
    uint64_t slept = b_get_plain_blocked_ns(r);
    bool blocked = slept >= B_BLOCKED_NS;
    slept &= -(uint64_t)blocked;
    if (r->send && blocked) /* a send that slept needs two nodes */
        return 1;
    int rc = r->send ? make_plain_send_node(k, r)
                     : make_plain_receive_node(k, r, slept);
    if (rc)
        return rc;
    k->last_ret = r->t_ret;
    if (k->with_costs)
        add_plain_recording_cost(k, r, blocked);
    return 0;
}

/* The CPU baseline that short records refer to, prepared so that one
 * multiplication gives both the time and the CPU time of a stamp. Within the
 * limits below no sum overflows. */
struct cpu_baseline {
    /* the baseline's stamp; the same in whole ns, and the fraction in units of
     * 2^-32 ns */
    uint64_t t, ns, frac;
    uint64_t cpu;
    uint64_t mult; /* length of one tick, in units of 2^-32 ns */
};
/* Limits. LINE_BITS: of a stamp less the baseline's stamp, in bits; LINE_NS: of
 * the baseline's time and CPU time, ns. */
#define LINE_BITS 30
#define LINE_NS (1ull << 62)

/* Computes *l for the records after `r`. False: the limits do not hold, so
 * b_decode_record_if_plain() has to compute their times. */
static inline __attribute__((always_inline)) bool
compute_baseline(const struct b_plain *r, const struct ips_clock *c,
                 struct cpu_baseline *l)
{
    bool raw = c->kind == IPS_CLOCK_RAW;
    *l = (struct cpu_baseline){.t = r->baseline_t,
                               .cpu = r->baseline_cpu,
                               .mult = raw ? 1ull << 32 : c->mult_q32};
    if (!r->baseline_known || (!raw && l->t < c->counter0))
        return false;
    ips_u128 wide = (ips_u128)(raw ? l->t : l->t - c->counter0) * l->mult;
    uint64_t ns = ips_add_sat(wide >> 96 ? UINT64_MAX : (uint64_t)(wide >> 32),
                              raw ? 0 : c->raw0_ns);
    l->ns = ns;
    l->frac = (uint32_t)wide;
    return ns < LINE_NS && l->cpu < LINE_NS && l->mult <= 1ull << 32;
}

/* Makes the nodes of the short records from `p` on, which all refer to baseline
 * `l`. None of them slept: the agent writes short records only if the elapsed
 * time equals the CPU time. Returns the address after the last one; sets *rc to
 * the result of make_plain_send_node() or make_plain_receive_node(). */
static inline __attribute__((always_inline)) const uint8_t *
make_short_record_nodes(struct run *k, const struct cpu_baseline l,
                        const uint8_t *p, const uint8_t *end, int *rc)
{
    const size_t bytes = sizeof(struct ips_rec_io_short);
    for (; (size_t)(end - p) >= bytes; p += bytes) {
        uint32_t word = b_load32(p),
                 op = word >> 16 >> IPS_REC_F_OP & IPS_REC_OP_MAX;
        uint32_t what =
            (word & 0xffffu) - B_IO_WORD(SEND_SHORT, ips_rec_io_short);
        uint64_t since = b_load64(p + offsetof(struct ips_rec_head, t)) - l.t;
        uint64_t took = b_load32(p + offsetof(struct ips_rec_io_short, took));
        uint64_t len = b_load32(p + offsetof(struct ips_rec_io_short, result));
        if (what > 1 || (since | took) >> LINE_BITS || !len ||
            B_OPS_APART >> op & 1)
            break;
        __builtin_prefetch(p + B_PLAIN_AHEAD);
        uint64_t ran = since * l.mult, ran_ret = ran + took * l.mult;
        struct b_plain r = {.id =
                                b_load32(p + offsetof(struct ips_rec_head, a)),
                            .t = l.ns + ((l.frac + ran) >> 32),
                            .t_ret = l.ns + ((l.frac + ran_ret) >> 32),
                            .cpu = l.cpu + (ran >> 32),
                            .cpu_ret = l.cpu + (ran_ret >> 32),
                            .len = len};
        if (r.t_ret < k->last_ret || r.t < k->no_signal_after)
            break;
        *rc = what ? make_plain_receive_node(k, &r, 0)
                   : make_plain_send_node(k, &r);
        if (*rc)
            break;
        k->last_ret = r.t_ret;
        if (k->with_costs)
            add_plain_recording_cost(k, &r, false);
    }
    return p;
}

/* Makes the nodes of plain records; see b_make_nodes_of_plain_records().
 * `lean`: for builds without the column `off` that are not incremental;
 * `uncosted`: does not count the cost of recording. Both are compile-time
 * constants, so these parts cost nothing. */
static inline __attribute__((always_inline)) int
make_plain_nodes(struct maker *m, struct b_walk *walk, bool lean, bool uncosted)
{
    const struct ips_chunk *c = &walk->in->chunks[walk->chunk];
    const uint8_t *p = c->data + walk->at, *end = c->data + c->len;
    const struct ips_clock clock = m->s->clock;
    struct b_plain r = {.baseline_known = walk->proc_line.io_known,
                        .baseline_t = walk->proc_line.io_t,
                        .baseline_cpu = walk->proc_line.io_cpu};
    int rc = 0;
    if (!b_decode_record_if_plain(&r, p, (size_t)(end - p), &clock))
        return 0;
    struct run k = load_plain_loop_state(m);
    if (lean)
        k.off = NULL, k.goes_on = false;
    if (uncosted)
        k.with_costs = false, k.probe_ps = 0;
    do {
        __builtin_prefetch(p + B_PLAIN_AHEAD);
        rc = make_plain_node_and_add_cost(&k, &r);
        if (rc)
            break;
        p += r.bytes;
        struct cpu_baseline line;
        if ((size_t)(end - p) >= 2 && (p[0] & ~1u) == IPS_REC_SEND_SHORT &&
            compute_baseline(&r, &clock, &line))
            p = make_short_record_nodes(&k, line, p, end, &rc);
        if (rc)
            break;
    } while (b_decode_record_if_plain(&r, p, (size_t)(end - p), &clock));
    if (uncosted)
        k.probe_ps = m->b->probe_ps;
    store_plain_loop_state(&k);
    /* Store the position after the last record that got a node, and the
     * baseline after the last record that was read. If the latter is a long
     * record for the general path, b_next_record() reads it again and sets the
     * same baseline. */
    walk->proc_line.io_known = r.baseline_known;
    walk->proc_line.io_t = r.baseline_t;
    walk->proc_line.io_cpu = r.baseline_cpu;
    walk->at = (size_t)(p - c->data);
    return rc < 0 ? rc : 0;
}

int b_make_nodes_of_plain_records(struct maker *m, struct b_walk *walk)
{
    const struct build *b = m->b;
    if (walk->chunk >= walk->in->chunk_count || m->have_dgram ||
        m->wait.pending || m->spin.elapsed_ns)
        return 0;
    if (b->off || b->from)
        return make_plain_nodes(m, walk, false, false);
    return is_recording_cost_counted(m) || b->probe_ps >= 1000
               ? make_plain_nodes(m, walk, true, false)
               : make_plain_nodes(m, walk, true, true);
}
