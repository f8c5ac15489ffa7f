/* What recording itself cost the program: each record by the cost of its kind,
 * as measured before the run (control.probe_cost_ps), and the readings of the
 * CPU clock by the agent's own rule (agent/cpu.h, core_cpu.c). */
#include "slave/build_internal.h"

/* A reading of the run delay that took longer was disturbed. */
#define DELAY_NS_MAX 20000u
#define READ_NS 100000u
#define READ_BLOCKS 16u

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
        return c->probe_cost_ps[IPS_PROBE_CALL];
    case IPS_REC_ACQUIRE:
    case IPS_REC_RELEASE:
        return c->probe_cost_ps[IPS_PROBE_SYNC];
    case IPS_REC_SAMPLE:
        return c->probe_cost_ps[IPS_PROBE_SAMPLE];
    case IPS_REC_ENTER:
    case IPS_REC_EXIT:
        return c->probe_cost_ps[IPS_PROBE_PROC] / 2;
    case IPS_REC_RUNDELAY: { /* it says what it took itself */
        struct ips_rec_head h;
        memcpy(&h, p, sizeof(h));
        return ips_min_u64(h.a, DELAY_NS_MAX) * 1000;
    }
    case IPS_REC_COUNT: {
        struct ips_rec_count r;
        memcpy(&r, p, sizeof(r));
        return ips_min_u64(r.calls, UINT32_MAX) *
               ips_min_u64(c->probe_cost_ps[IPS_PROBE_COUNT], UINT32_MAX);
    }
    default:
        return c->probe_cost_ps[IPS_PROBE_EVENT];
    }
}

/* Was the thread switched out in this record's call? */
static bool blocked(const struct b_stream *s, uint32_t type, uint32_t word,
                    uint64_t t, const uint8_t *p)
{
    struct {
        struct ips_rec_head h;
        uint64_t t_ret, cpu, cpu_ret; /* so in all of them */
    } r;
    if (type != IPS_REC_SEND && type != IPS_REC_RECV &&
        type != IPS_REC_RECVCALL && type != IPS_REC_BLOCK &&
        type != IPS_REC_FORK && type != IPS_REC_JOIN && type != IPS_REC_ACQUIRE)
        return false;
    memcpy(&r, p, sizeof(r));
    return b_blocked_ns(t, b_time(&s->clock, word, r.t_ret), r.cpu,
                        r.cpu_ret) >= 2000;
}

void b_cost(struct build *b, struct b_stream *s, uint32_t type, uint32_t word,
            uint64_t t, const uint8_t *p)
{
    const struct ips_control *c = b->in->control;
    if (!c || s->task)
        return;
    uint64_t ps = kind_ps(c, type, p);
    bool out = blocked(s, type, word, t, p);
    s->blocks_unread += out;
    if (ips_sub_sat(t, s->read_ns) >= READ_NS ||
        s->blocks_unread >= (c->cpu_mode == IPS_CPU_FAST ? READ_BLOCKS : 1)) {
        ps = ips_add_sat(ps, c->probe_cost_ps[IPS_PROBE_BLOCK]);
        s->read_ns = t;
        s->blocks_unread = 0;
    }
    b->cost_ps = ips_add_sat(b->cost_ps, ps);
    b->out->counts.overhead_ns = b->cost_ps / 1000;
}
