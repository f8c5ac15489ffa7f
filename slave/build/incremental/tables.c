/* Faster versions of passes for a build of tables alone
 * (build/incremental/grow.h): they do not compute columns that only a graph
 * needs. Also decides which records an incremental build can add. */
#include "slave/build/incremental/state.h"
#include "slave/build/match.h"

#include <errno.h>

/* ---- scan ---- */

/* Scans one record that moves bytes or waits: nearly all records do. False: the
 * record is of another kind, or an incremental build may not accept it; then
 * b_scan_new_records() handles it. */
bool b_scan_if_common_call(struct b_stream *s, uint32_t type, const uint8_t *p)
{
    const struct ips_rec_io *r = (const struct ips_rec_io *)(const void *)p;
    bool send = type == IPS_REC_SEND, block = type == IPS_REC_BLOCK;
    if (!send && !block && type != IPS_REC_RECV && type != IPS_REC_RECVCALL)
        return false;
    if (!block && (r->op == IPS_OP_CONNECT || r->op == IPS_OP_ACCEPT ||
                   r->err || (type == IPS_REC_RECV && !r->result)))
        return false; /* rare records: b_scan_new_records() handles
                         them */
    if (block && (b_is_poll_left_to_whole_build(r->ready) ||
                  b_is_retry_record(r->op) || (s->try_count && !r->result)))
        return false;
    if (s->napped_count || s->naps.count || (block && r->op == IPS_OP_SLEEP))
        return false;
    s->try_count = 0;
    uint64_t t = b_stamp_to_ns(&s->clock, r->h.word, r->h.t),
             t_ret = b_stamp_to_ns(&s->clock, r->h.word, r->t_ret);
    if (s->empty || s->first_cpu == IPS_CPU_UNKNOWN || t < s->first_ns)
        return false;
    s->last_ns = ips_max_u64(s->last_ns, t_ret);
    s->last_cpu = ips_max_u64(s->last_cpu, r->cpu_ret);
    s->node_capacity += send || block ? 2 : 1;
    s->exec_last = false;
    return true;
}

bool b_can_add_incrementally(uint32_t type, const uint8_t *p, uint32_t len)
{
    struct ips_rec_io r;
    struct ips_rec_sync sync;
    switch (type) {
    case IPS_REC_SEND:
    case IPS_REC_RECV:
    case IPS_REC_RECVCALL:
        memcpy(&r, p, sizeof(r));
        return r.op != IPS_OP_CONNECT && r.op != IPS_OP_ACCEPT &&
               r.err != EPIPE && r.err != ECONNRESET &&
               (type != IPS_REC_RECV || r.result || r.err);
    case IPS_REC_BLOCK:
        memcpy(&r, p, sizeof(r));
        return !b_is_poll_left_to_whole_build(r.ready) &&
               r.op != IPS_OP_RETRY && r.op != IPS_OP_FOUND;
    case IPS_REC_SAMPLE:
    case IPS_REC_STACK:
    case IPS_REC_COUNT:
    case IPS_REC_ENTER:
    case IPS_REC_EXIT:
    case IPS_REC_MARK:
    case IPS_REC_LOST:
    case IPS_REC_RUNDELAY:
    case IPS_REC_GUESSED:
    case IPS_REC_CALLS:
        return true;
    case IPS_REC_MODULE:
        return !b_runtime_of_module(p, len);
    case IPS_REC_RELEASE:
        memcpy(&sync, p, sizeof(sync));
        return b_is_release_mostly_without_waiter(sync.h.a);
    default:
        return false;
    }
}

/* ---- weights ---- */

/* Sums over the nodes so far, and values of the last of them. */
struct weight_sums {
    uint64_t at, t, cpu, unknown, probe;
    ips_u128 xlen;
    bool forwards;
};

/* Processes nodes [from, to) of a chain whose first node is `first`. */
static inline __attribute__((always_inline)) void
make_table_weights_of_nodes(struct build *b, uint32_t first, uint32_t from,
                            uint32_t to, struct weight_sums *sums)
{
    struct ips_graph *g = &b->out->g;
    struct weight_sums s = *sums;
    for (uint32_t i = from; i < to; i++) {
        uint64_t t_ns = g->t_ns[i], cpu_at = b->cpu_at[i], own = g->w[i];
        uint64_t off = i == first ? UINT64_MAX : b->off[i];
        if (g->xkind[i] == B_X_SENT) {
            const struct b_send *send = b_send_at(b, g->xpred[i]);
            own = b_limit_receive_coord(send, own, t_ns, cpu_at);
            g->xkind[i] = IPS_X_DATA;
            g->xpred[i] = send->node;
            b->backwards |= send->t >= t_ns;
        }
        uint64_t coord = ips_max_u64(own, s.at);
        b->coord[i] = own;
        g->w[i] = coord - s.at;
        s.xlen += g->xlen[i];
        s.probe += g->probe[i];
        s.unknown = ips_add_sat(s.unknown, b_off_cpu_between_calls_ns(
                                               t_ns, s.t, cpu_at, s.cpu, off));
        s.forwards &= t_ns >= s.t;
        s.at = coord;
        s.t = t_ns;
        s.cpu = cpu_at;
    }
    *sums = s;
}

/* Like make_chain_weights() in build/weights.c, but does not compute g.at, and
 * does not clamp the recording cost of each arc. Returns the CPU time of the
 * chain, ns. */
static uint64_t make_chain_weights_for_tables(struct b_incremental *k,
                                              uint32_t c, ips_u128 *sum)
{
    struct build *b = &k->b;
    struct ips_graph *g = &b->out->g;
    struct g_chain *x = &k->chains[c];
    const struct b_resume_point *before = &b->from[c];
    uint32_t first = g->chains[c].first, end = first + g->chains[c].count;
    uint32_t from = before->node, last = from > first ? from - 1 : first;
    uint64_t base = b->chains[c].base;
    struct weight_sums s = {.at = base,
                            .t = g->t_ns[last],
                            .cpu = b->cpu_at[last],
                            .forwards = true};
    if (from > first) {
        s.at = before->at;
        s.unknown = before->unknown_ns;
        s.probe = before->probe_ns;
        s.xlen = before->xlen;
    }
    uint64_t start = from > first ? s.at - before->cpu_ns : base;
    make_table_weights_of_nodes(b, first, from, x->old, &s);
    x->sums = (struct g_sums){.node = b->spins.n ? 0 : x->old,
                              .at = s.at,
                              .cpu_ns = s.at - start,
                              .probe_ns = s.probe,
                              .unknown_ns = s.unknown,
                              .xlen = s.xlen};
    make_table_weights_of_nodes(b, first, x->old, end, &s);
    b->chains[c].unknown_ns = s.unknown;
    b->backwards |= !s.forwards;
    *sum += s.xlen;
    return s.at - start;
}

int g_make_table_weights(struct b_incremental *k)
{
    struct build *b = &k->b;
    struct ips_built *o = &k->built;
    ips_u128 sum = 0;
    for (uint32_t c = 0; c < o->g.chain_count; c++) {
        o->threads[c].base_cpu_ns = b->chains[c].base;
        o->threads[c].cpu_ns = make_chain_weights_for_tables(k, c, &sum);
        sum += o->threads[c].cpu_ns;
    }
    int rc = b_subtract_spin_cpu(b);
    if (rc == 0)
        b_bound_weights_and_sum_cpu(b, sum);
    return rc;
}
