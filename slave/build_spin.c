/* Spinning as a wait. The agent tells (BLOCK op SPIN) of a thread that tried at
 * least three times, in a row and without work between, for what then came:
 * from the first fruitless attempt to the success it waited. The coordinate of
 * what came is the first attempt's, and the CPU burnt until the success is in
 * neither T nor t_max (b_sync_spins takes it out). */
#include "slave/build_node.h"

int b_add_spin(struct maker *m, uint32_t node, uint64_t ns)
{
    struct build *b = m->b;
    int rc = B_MORE(b->spins, b->err);
    if (rc < 0)
        return rc;
    b->spins.v[b->spins.n++] = (struct b_spin){node, ns};
    return 0;
}

void b_on_spin(struct maker *m, const struct interval *v)
{
    m->spin = (struct spin){.ended = v->t_ret,
                            .elapsed_ns = v->t_ret - v->t,
                            .cpu = v->cpu,
                            .burnt = v->cpu_ret - v->cpu,
                            .awake_ns = b_awake_ns(v)};
}

struct spin b_spin_before(struct maker *m, struct interval *v)
{
    struct spin s = m->spin;
    m->spin = (struct spin){0};
    if (!s.elapsed_ns || s.ended != v->t)
        return (struct spin){0};
    m->row->empty_polls++;
    b_add_wait(m, IPS_WAIT_SPIN, s.elapsed_ns);
    if (m->b->notes)
        b_waits_count(m, IPS_WAIT_SPIN, s.elapsed_ns, s.ended);
    v->cpu = ips_min_u64(v->cpu, s.cpu);
    /* A wait as a whole: no part of it is time that nothing explains. */
    m->b->off_ns = ips_add_sat(m->b->off_ns, s.awake_ns);
    return s;
}

void b_take_wait(struct maker *m, struct interval *v, enum ips_wait_cause cause,
                 struct spin *spin)
{
    struct wait *w = &m->wait;
    v->cpu = ips_min_u64(v->cpu, w->cpu);
    if (w->blocked_ns)
        b_add_wait(m, cause, w->blocked_ns);
    if (m->b->notes)
        b_waits_pending(m, cause, w->blocked_ns, true);
    spin->burnt = ips_add_sat(spin->burnt, w->spin.burnt);
    spin->elapsed_ns = ips_add_sat(spin->elapsed_ns, w->spin.elapsed_ns);
    w->pending = false;
}

int b_spun_until(struct maker *m, uint32_t node, const struct spin *s)
{
    if (!s->burnt)
        return 0;
    uint64_t *at = &m->b->cpu_at[node];
    *at = ips_sub_sat(*at, s->burnt);
    return b_add_spin(m, node, s->burnt);
}
