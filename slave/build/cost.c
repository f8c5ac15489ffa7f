/* Recording overhead: the CPU time that recording cost the program. Each
 * record counts with the cost of its kind, which was measured before the run
 * (control.probe_cost_ps). Readings of the CPU clock leave no record: they are
 * counted by the rule that the agent follows (agent/record/cpu.h,
 * agent/record/cpu.c).
 *
 * A node marks its call, and the record is written after the call. So the cost
 * of a record lies in the arc that follows its node, together with the costs
 * of records without a node up to the next node (graph.h: probe). The cost in
 * an arc is limited to the arc's weight. The rest, and the cost of starting a
 * chain's first image, is counted only in the sum (overhead_ns). */
#include "slave/build/internal.h"

/* Limit, in ns, of the cost of one reading of the run delay: a longer reading
 * was interrupted. */
#define DELAY_NS_MAX 20000u
/* The rule by which the agent reads the CPU clock (agent/record/cpu.c): after
 * B_READ_NS of CPU time; after READ_BLOCKS calls that blocked, or after
 * B_READ_BLOCKS_MIN if these used READ_BLOCKS_NS of CPU time; and after a call
 * that moved data, blocked and took READ_LONG_NS. If its guesses are bad
 * (agent/record/cpu_guess.h), the agent reads more often; those readings are
 * not counted. */
#define READ_BLOCKS 64u
#define READ_BLOCKS_NS 100000u
#define READ_LONG_NS 25000u

static uint64_t probe_cost_of_record_ps(const struct ips_control *c,
                                        uint32_t type, const uint8_t *p)
{
    switch (type) {
    case IPS_REC_SEND:
    case IPS_REC_RECV:
    case IPS_REC_RECVCALL:
    case IPS_REC_BLOCK:
    case IPS_REC_JOIN:
        return ips_probe_cost_ps(c, IPS_PROBE_CALL);
    case IPS_REC_FORK: {
        struct ips_rec_fork r;
        memcpy(&r, p, sizeof(r));
        bool spawns = r.kind == IPS_FORK_VFORK || r.kind == IPS_FORK_SPAWN ||
                      r.kind == IPS_FORK_POPEN || r.kind == IPS_FORK_SYSTEM;
        return ips_add_sat(ips_probe_cost_ps(c, IPS_PROBE_CALL),
                           spawns ? ips_probe_cost_ps(c, IPS_PROBE_SPAWN) : 0);
    }
    case IPS_REC_ACQUIRE:
    case IPS_REC_RELEASE:
        return ips_probe_cost_ps(c, IPS_PROBE_SYNC);
    case IPS_REC_SAMPLE:
        return ips_probe_cost_ps(c, IPS_PROBE_SAMPLE);
    case IPS_REC_STACK:
        return ips_probe_cost_ps(c, IPS_PROBE_STACK);
    case IPS_REC_START: {
        struct ips_rec_head h;
        memcpy(&h, p, sizeof(h));
        bool spare = h.word >> 16 & IPS_REC_F_SPARE;
        if (h.a == IPS_START_KNOWN)
            return ips_probe_cost_ps(c, IPS_PROBE_CALL);
        if (h.a == IPS_START_IMAGE)
            return ips_probe_cost_ps(c, spare ? IPS_PROBE_SPARE_IMAGE
                                              : IPS_PROBE_IMAGE);
        return ips_probe_cost_ps(c, h.a != IPS_START_FORK ? IPS_PROBE_THREAD
                                    : spare               ? IPS_PROBE_SPARE_FORK
                                                          : IPS_PROBE_FORK);
    }
    case IPS_REC_ENTER:
    case IPS_REC_EXIT:
        return ips_probe_cost_ps(c, IPS_PROBE_PROC) / 2;
    case IPS_REC_RUNDELAY: { /* the record says how long the reading took, ns */
        struct ips_rec_head h;
        memcpy(&h, p, sizeof(h));
        return ips_min_u64(h.a, DELAY_NS_MAX) * 1000;
    }
    case IPS_REC_CALLS: {
        struct ips_rec_calls r;
        memcpy(&r, p, sizeof(r));
        return ips_add_sat(
            (uint64_t)r.h.a * 1000,
            ips_min_u64(r.calls, UINT32_MAX) *
                ips_min_u64(ips_probe_cost_ps(c, IPS_PROBE_FILE), UINT32_MAX));
    }
    case IPS_REC_COUNT: {
        struct ips_rec_count r;
        memcpy(&r, p, sizeof(r));
        return ips_min_u64(r.calls, UINT32_MAX) *
               ips_min_u64(ips_probe_cost_ps(c, IPS_PROBE_COUNT), UINT32_MAX);
    }
    default:
        return ips_probe_cost_ps(c, IPS_PROBE_EVENT);
    }
}

/* The call that a record describes. */
struct span {
    bool is, blocked, waits; /* is: the record has a call and a return; waits: a
                                poll, sleep or sigwait */
    uint64_t cpu, cost, t, t_ret;
    uint64_t tries; /* of a spin: failed attempts, which have no records of
                       their own */
};

static struct span decode_call_span(const struct b_stream *s, uint32_t type,
                                    const uint8_t *p)
{
    struct {
        struct ips_rec_head h;
        uint64_t t_ret, cpu, cpu_ret; /* all these types of records have these
                                         members at the same offsets */
    } r;
    struct ips_rec_io io;
    struct ips_rec_sync sync;
    if (type != IPS_REC_SEND && type != IPS_REC_RECV &&
        type != IPS_REC_RECVCALL && type != IPS_REC_BLOCK &&
        type != IPS_REC_FORK && type != IPS_REC_JOIN && type != IPS_REC_ACQUIRE)
        return (struct span){0};
    memcpy(&r, p, sizeof(r));
    if (type == IPS_REC_BLOCK)
        memcpy(&io, p, sizeof(io));
    if (type == IPS_REC_ACQUIRE)
        memcpy(&sync, p, sizeof(sync));
    /* A record of tries covers several calls, which have records of their own:
     * their cost is counted there. */
    if ((type == IPS_REC_BLOCK && b_is_retry_record(io.op)) ||
        (type == IPS_REC_ACQUIRE &&
         b_is_connect_or_file_test_after_tries(sync.h.a, sync.value)))
        return (struct span){0};
    uint64_t t = b_stamp_to_ns(&s->clock, r.h.word, r.h.t);
    uint64_t t_ret = b_stamp_to_ns(&s->clock, r.h.word, r.t_ret);
    struct span v = {.is = true,
                     .cpu = r.cpu,
                     .cost = ips_sub_sat(r.cpu_ret, r.cpu),
                     .t = t,
                     .t_ret = t_ret,
                     .blocked = b_blocked_ns(t, t_ret, r.cpu, r.cpu_ret) >=
                                B_BLOCKED_NS};
    if (type == IPS_REC_BLOCK) {
        v.waits = io.op == IPS_OP_POLL || io.op == IPS_OP_SELECT ||
                  io.op == IPS_OP_EPOLL || io.op == IPS_OP_SLEEP ||
                  io.op == IPS_OP_SIGWAIT;
        if (io.op == IPS_OP_SPIN && io.result > 0)
            v.tries = ips_min_u64((uint64_t)io.result, UINT32_MAX);
    }
    return v;
}

/* Whether, by its rule, the agent read the CPU clock at this call. Updates the
 * state of the rule in `s`, so it must see every call once, in order. */
static bool simulate_decision_to_read_cpu_clock(const struct build *b,
                                                struct b_stream *s,
                                                const struct span *v)
{
    uint32_t most =
        s->blocks_unread_ns < READ_BLOCKS_NS ? READ_BLOCKS : B_READ_BLOCKS_MIN;
    if (b->in->control->cpu_mode != IPS_CPU_FAST)
        most = 1;
    s->blocks_unread += v->blocked;
    bool due = s->blocks_unread >= most;
    if (v->blocked)
        s->blocks_unread_ns = ips_add_sat(s->blocks_unread_ns, v->cost);
    bool is = ips_sub_sat(v->cpu, s->read_cpu_ns) >= B_READ_NS || due ||
              (v->blocked && !v->waits &&
               ips_sub_sat(v->t_ret, v->t) >= READ_LONG_NS);
    if (is) {
        s->read_cpu_ns = v->cpu;
        s->blocks_unread = 0;
        s->blocks_unread_ns = 0;
    }
    return is;
}

static uint64_t add_call_costs_ps(const struct build *b, struct b_stream *s,
                                  const struct span *v, uint64_t ps)
{
    const struct ips_control *c = b->in->control;
    if (v->blocked)
        ps = ips_add_sat(ps, ips_probe_cost_ps(c, IPS_PROBE_BLOCK));
    if (v->is && b_check_cold_caches_and_note_call(s, v->t, v->t_ret))
        ps = ips_add_sat(ps, ips_probe_cost_ps(c, IPS_PROBE_COLD));
    if (v->is && simulate_decision_to_read_cpu_clock(b, s, v))
        ps = ips_add_sat(ps, ips_probe_cost_ps(c, IPS_PROBE_READ));
    return ps;
}

static uint64_t recording_cost_of_record_ps(const struct build *b,
                                            struct b_stream *s, uint32_t type,
                                            const uint8_t *p)
{
    struct span v = decode_call_span(s, type, p);
    uint64_t ps = probe_cost_of_record_ps(b->in->control, type, p);
    if (type == IPS_REC_BLOCK && !v.blocked)
        ps = ips_probe_cost_ps(b->in->control, IPS_PROBE_POLL);
    ps = ips_add_sat(ps, v.tries * ips_min_u64(ps, UINT32_MAX));
    return add_call_costs_ps(b, s, &v, ps);
}

uint64_t b_simulate_io_cost_ps(const struct build *b, struct b_stream *s,
                               uint64_t t, uint64_t t_ret, uint64_t cpu,
                               uint64_t cpu_ret)
{
    struct span v = {.is = true,
                     .cpu = cpu,
                     .cost = ips_sub_sat(cpu_ret, cpu),
                     .t = t,
                     .t_ret = t_ret,
                     .blocked =
                         b_blocked_ns(t, t_ret, cpu, cpu_ret) >= B_BLOCKED_NS};
    return add_call_costs_ps(b, s, &v,
                             ips_probe_cost_ps(b->in->control, IPS_PROBE_CALL));
}

/* Whether the record is the START of an image that starts a chain. The agent
 * spent the cost of its own start before it wrote that record. So this cost is
 * in the arc into the node of the image's start; without such a node it is
 * before the chain, where the graph has no arc. */
static bool is_first_image_start(const struct b_chain *c, const struct build *b,
                                 const struct b_stream *s, uint32_t type)
{
    return type == IPS_REC_START && s == &b->streams[c->first_stream] &&
           s->start_kind == IPS_START_IMAGE;
}

void b_add_record_cost(struct build *b, uint32_t chain, struct b_stream *s,
                       uint32_t type, const uint8_t *p)
{
    const struct b_chain *c = &b->chains[chain];
    if (!b->in->control || s->task)
        return;
    uint64_t ps = recording_cost_of_record_ps(b, s, type, p);
    b->cost_ps = ips_add_sat(b->cost_ps, ps);
    b->out->counts.overhead_ns = b->cost_ps / 1000;
    if (!is_first_image_start(c, b, s, type))
        b->probe_ps = ips_add_sat(b->probe_ps, ps);
    else if (c->image_aux != IPS_NO_NODE)
        b->out->g.probe[c->image_aux] =
            (uint32_t)ips_min_u64(ps / 1000, UINT32_MAX);
}

void b_limit_probe_costs_to_arc_weights(struct build *b)
{
    struct ips_graph *g = &b->out->g;
    uint64_t *sum = &b->out->counts.probe_arc_ns;
    *sum = 0;
    for (uint32_t c = 0; c < g->chain_count; c++) {
        uint32_t first = g->chains[c].first;
        g->probe[first] = 0;
        for (uint32_t i = first + 1; i < first + g->chains[c].count; i++) {
            g->probe[i] = (uint32_t)ips_min_u64(g->probe[i], g->w[i]);
            *sum += g->probe[i];
        }
    }
}

/* ---- guessed CPU ---- */

static void add_guess_record_to_counts(struct ips_build_counts *sum,
                                       const struct ips_rec_guessed *r)
{
    sum->guessed_ns = ips_add_sat(sum->guessed_ns, r->guessed_ns);
    sum->guess_corrected = ips_add_sat(sum->guess_corrected, r->h.a);
    sum->guess_off_ns = ips_add_sat(sum->guess_off_ns, r->off_ns);
    sum->guess_off_max_ns = ips_max_u64(sum->guess_off_max_ns, r->off_max_ns);
}

/* Adds up the totals of all streams: guessed CPU time, lost records. */
void b_sum_guesses_and_lost_records(struct build *b)
{
    struct ips_build_counts *n = &b->out->counts;
    n->guessed_ns = n->guess_corrected = n->guess_off_ns = 0;
    n->guess_off_max_ns = 0;
    for (int i = 0; i < IPS_LOST_COUNT; i++)
        n->lost[i] = b->in->control ? b->in->control->lost[i] : 0;
    for (uint32_t s = 0; s < b->in->stream_count; s++) {
        add_guess_record_to_counts(n, &b->streams[s].guessed);
        for (int i = 0; i < IPS_LOST_COUNT; i++)
            n->lost[i] = ips_add_sat(n->lost[i], b->streams[s].in->lost[i]);
    }
}
