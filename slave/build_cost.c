/* What recording itself cost the program: each record by the cost of its kind,
 * as measured before the run (control.probe_cost_ps), and the readings of the
 * CPU clock by the agent's own rule (agent/cpu.h, core_cpu.c). */
#include "slave/build_internal.h"

/* core_cpu.c's, of the thread's CPU, of calls, of a call that moves data */
#define READ_NS 500000u
/* A reading of the run delay that took longer was disturbed. */
#define DELAY_NS_MAX 20000u
#define READ_BLOCKS 16u
#define READ_LONG_NS 25000u

static uint64_t kind_ps(const struct ips_control *c, uint32_t type,
                        const uint8_t *p)
{
    switch (type) {
    case IPS_REC_SEND:
    case IPS_REC_RECV:
    case IPS_REC_RECVCALL:
    case IPS_REC_BLOCK:
    case IPS_REC_FORK:
    case IPS_REC_JOIN:
        return ips_probe_ps(c, IPS_PROBE_CALL);
    case IPS_REC_ACQUIRE:
    case IPS_REC_RELEASE:
        return ips_probe_ps(c, IPS_PROBE_SYNC);
    case IPS_REC_SAMPLE:
        return ips_probe_ps(c, IPS_PROBE_SAMPLE);
    case IPS_REC_STACK:
        return ips_probe_ps(c, IPS_PROBE_STACK);
    case IPS_REC_START: {
        struct ips_rec_head h;
        memcpy(&h, p, sizeof(h));
        return ips_probe_ps(c, h.a == IPS_START_IMAGE  ? IPS_PROBE_IMAGE
                               : h.a == IPS_START_FORK ? IPS_PROBE_FORK
                                                       : IPS_PROBE_EVENT);
    }
    case IPS_REC_ENTER:
    case IPS_REC_EXIT:
        return ips_probe_ps(c, IPS_PROBE_PROC) / 2;
    case IPS_REC_RUNDELAY: { /* it says what it took itself */
        struct ips_rec_head h;
        memcpy(&h, p, sizeof(h));
        return ips_min_u64(h.a, DELAY_NS_MAX) * 1000;
    }
    case IPS_REC_COUNT: {
        struct ips_rec_count r;
        memcpy(&r, p, sizeof(r));
        return ips_min_u64(r.calls, UINT32_MAX) *
               ips_min_u64(ips_probe_ps(c, IPS_PROBE_COUNT), UINT32_MAX);
    }
    default:
        return ips_probe_ps(c, IPS_PROBE_EVENT);
    }
}

/* Of a record that has call and return. */
struct span {
    bool is, blocked, waits;
    uint64_t cpu, elapsed_ns;
};

static struct span span_of(const struct b_stream *s, uint32_t type,
                           uint32_t word, uint64_t t, const uint8_t *p)
{
    struct {
        struct ips_rec_head h;
        uint64_t t_ret, cpu, cpu_ret; /* so in all of them */
    } r;
    struct ips_rec_io io;
    if (type != IPS_REC_SEND && type != IPS_REC_RECV &&
        type != IPS_REC_RECVCALL && type != IPS_REC_BLOCK &&
        type != IPS_REC_FORK && type != IPS_REC_JOIN && type != IPS_REC_ACQUIRE)
        return (struct span){0};
    memcpy(&r, p, sizeof(r));
    uint64_t t_ret = b_time(&s->clock, word, r.t_ret);
    struct span v = {.is = true,
                     .cpu = r.cpu,
                     .elapsed_ns = ips_sub_sat(t_ret, t),
                     .blocked =
                         b_blocked_ns(t, t_ret, r.cpu, r.cpu_ret) >= 2000};
    if (type == IPS_REC_BLOCK) {
        memcpy(&io, p, sizeof(io));
        v.waits = io.op == IPS_OP_POLL || io.op == IPS_OP_SELECT ||
                  io.op == IPS_OP_EPOLL || io.op == IPS_OP_SLEEP ||
                  io.op == IPS_OP_SIGWAIT;
    }
    return v;
}

/* Was the clock read at this record? By the agent's own rule. */
static bool reads(const struct build *b, struct b_stream *s,
                  const struct span *v)
{
    s->blocks_unread += v->blocked;
    bool guesses = b->in->control->cpu_mode == IPS_CPU_FAST;
    bool is = ips_sub_sat(v->cpu, s->read_cpu_ns) >= READ_NS ||
              s->blocks_unread >= (guesses ? READ_BLOCKS : 1) ||
              (v->blocked && !v->waits && v->elapsed_ns >= READ_LONG_NS);
    if (is) {
        s->read_cpu_ns = v->cpu;
        s->blocks_unread = 0;
    }
    return is;
}

void b_cost(struct build *b, struct b_stream *s, uint32_t type, uint32_t word,
            uint64_t t, const uint8_t *p)
{
    const struct ips_control *c = b->in->control;
    if (!c || s->task)
        return;
    uint64_t ps = kind_ps(c, type, p);
    struct span v = span_of(s, type, word, t, p);
    if (v.blocked)
        ps = ips_add_sat(ps, ips_probe_ps(c, IPS_PROBE_BLOCK));
    if (v.is && reads(b, s, &v))
        ps = ips_add_sat(ps, ips_probe_ps(c, IPS_PROBE_READ));
    b->cost_ps = ips_add_sat(b->cost_ps, ps);
    b->out->counts.overhead_ns = b->cost_ps / 1000;
}
