/* Spinning as a wait. The agent records a BLOCK with op SPIN if a thread made
 * at least three attempts in a row, without work between, until one succeeded.
 * The thread waited from the first failed attempt to the success. The node of
 * the success gets the coordinate of the first attempt. The CPU burnt up to
 * the success does not count as work: b_subtract_spin_cpu() subtracts it from
 * the weights.
 *
 * Also lists the waits that ended without an arc from their cause (build.h,
 * struct ips_unended). */
#include <errno.h>

#include "slave/build/node.h"

int b_append_spin_cpu_of_node(struct maker *m, uint32_t node, uint64_t ns)
{
    struct build *b = m->b;
    int rc = B_MORE(b->spins, b->err);
    if (rc < 0)
        return rc;
    b->spins.v[b->spins.n++] = (struct b_spin){node, ns};
    return 0;
}

void b_store_pending_spin(struct maker *m, const struct interval *v)
{
    m->spin = (struct spin){.ended = v->t_ret,
                            .elapsed_ns = v->t_ret - v->t,
                            .cpu = v->cpu,
                            .burnt = v->cpu_ret - v->cpu,
                            .awake_ns = b_get_not_blocked_ns_of_call(v)};
}

struct spin b_pop_and_count_spin_before_call(struct maker *m,
                                             struct interval *v)
{
    struct spin s = m->spin;
    m->spin = (struct spin){0};
    if (!s.elapsed_ns || s.ended != v->t)
        return (struct spin){0};
    m->row->empty_polls++;
    b_add_wait_to_sums(m, IPS_WAIT_SPIN, s.elapsed_ns);
    if (m->b->notes)
        b_waits_add_row(m, IPS_WAIT_SPIN, s.elapsed_ns, s.ended);
    v->cpu = ips_min_u64(v->cpu, s.cpu);
    /* the whole spin is a wait, so no part of it may count as unexplained time
     * off the CPU */
    m->b->off_ns = ips_add_sat(m->b->off_ns, s.awake_ns);
    return s;
}

void b_count_pending_wait_as_wait_of_call(struct maker *m, struct interval *v,
                                          enum ips_wait_cause cause,
                                          struct spin *spin)
{
    struct pending *w = &m->wait;
    v->cpu = ips_min_u64(v->cpu, w->cpu);
    if (w->blocked_ns && !v->empty_t)
        v->empty_t = w->t;
    if (w->blocked_ns)
        b_add_wait_to_sums(m, cause, w->blocked_ns);
    if (m->b->notes)
        b_waits_add_row_of_pending_poll(m, cause, w->blocked_ns, true);
    spin->burnt = ips_add_sat(spin->burnt, w->spin.burnt);
    spin->elapsed_ns = ips_add_sat(spin->elapsed_ns, w->spin.elapsed_ns);
    w->pending = false;
}

int b_append_spin_and_lower_node_cpu(struct maker *m, uint32_t node,
                                     const struct spin *s)
{
    if (!s->burnt)
        return 0;
    uint64_t *at = &m->b->cpu_at[node];
    *at = ips_sub_sat(*at, s->burnt);
    return b_append_spin_cpu_of_node(m, node, s->burnt);
}

/* ---- waits whose end left no arc ---- */

void b_add_wait_without_waker(struct maker *m, uint32_t arc, uint64_t ns,
                              bool by_node)
{
    struct build *b = m->b;
    if (ns == 0 || b->tables || b->unended_failed)
        return;
    b->unended_failed = B_MORE(b->unended, b->err) < 0;
    if (!b->unended_failed)
        b->unended.v[b->unended.n++] = (struct ips_unended){ns, arc, by_node};
}

void b_add_sleep_of_call_if_unexplained(struct maker *m,
                                        const struct interval *v, uint32_t err)
{
    bool limit = err == EAGAIN || err == ETIMEDOUT || err == ETIME;
    bool broken = err == EPIPE || err == ECONNRESET;
    bool explained = v->by_signal || v->by_timer_or_outside || limit;
    if (v->blocked && !explained)
        b_add_wait_without_waker(m, m->b->nodes, v->blocked_ns, broken);
}

static int compare_unended_by_node(const void *va, const void *vb)
{
    const struct ips_unended *x = va, *y = vb;
    return (x->node > y->node) - (x->node < y->node);
}

/* Whether node i is the return of a send that did not wait for space but was
 * preempted. On local streams, and for small messages to other machines,
 * build/match.c has decided this (mark_send_preempted). UDP sends count as
 * preempted, too, because the network has queues of its own. */
static bool is_return_of_preempted_send(const struct ips_built *b, uint32_t i)
{
    const struct ips_graph *g = &b->g;
    if (g->kind[i] != IPS_NODE_AUX || g->kind[i - 1] != IPS_NODE_SEND ||
        g->site[i] == IPS_NONE || g->site[i] != g->site[i - 1])
        return false;
    const struct ips_end *e = &b->ends[g->site[i]];
    /* a datagram to a Unix socket waits for space in the receiver's queue */
    if (e->kind == IPS_CHAN_UNIX_DGRAM)
        return false;
    return e->kind == IPS_CHAN_UDP || e->peer == IPS_PEER_LOCAL || g->w[i] == 0;
}

/* Whether the thread slept in the call that node i ends, and the node has no
 * cross arc. ips_built_set_peers_and_remake_arcs() may make an arc later, so
 * get_ns_still_without_recorded_waker() tests this again. */
static bool slept_without_arc(const struct ips_built *b, uint32_t i)
{
    return b->g.wait[i] && b->g.xkind[i] == IPS_X_NONE &&
           !is_return_of_preempted_send(b, i);
}

static uint32_t count_sleeps_without_arc(const struct ips_built *b)
{
    uint32_t n = 0;
    for (uint32_t c = 0; c < b->g.chain_count; c++) {
        uint32_t first = b->g.chains[c].first;
        for (uint32_t i = first + 1; i < first + b->g.chains[c].count; i++)
            n += slept_without_arc(b, i);
    }
    return n;
}

int b_list_waits_without_waker(struct build *b)
{
    struct ips_built *o = b->out;
    uint32_t n = b->unended.n, room = n + count_sleeps_without_arc(o);
    if (b->unended_failed)
        return IPS_E_NO_MEMORY;
    if (room == 0)
        return 0;
    o->unended = b_calloc(room, sizeof(*o->unended), b->err);
    if (!o->unended)
        return IPS_E_NO_MEMORY;
    if (n)
        memcpy(o->unended, b->unended.v, n * sizeof(*o->unended));
    for (uint32_t c = 0; c < o->g.chain_count; c++) {
        uint32_t first = o->g.chains[c].first;
        for (uint32_t i = first + 1; i < first + o->g.chains[c].count; i++)
            if (slept_without_arc(o, i))
                o->unended[n++] = (struct ips_unended){o->g.wait[i], i, true};
    }
    o->unended_count = n;
    qsort(o->unended, n, sizeof(*o->unended), compare_unended_by_node);
    return 0;
}

static uint64_t get_ns_still_without_recorded_waker(const struct ips_built *b,
                                                    const struct ips_unended *u)
{
    return u->by_node && b->g.xkind[u->node] != IPS_X_NONE ? 0 : u->ns;
}

uint64_t ips_sum_ns_without_recorded_waker(const struct ips_built *b,
                                           uint32_t from, uint32_t to)
{
    uint32_t low = 0, high = b->unended_count;
    uint64_t ns = 0;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (b->unended[mid].node <= from)
            low = mid + 1;
        else
            high = mid;
    }
    for (; low < b->unended_count && b->unended[low].node <= to; low++)
        ns = ips_add_sat(
            ns, get_ns_still_without_recorded_waker(b, &b->unended[low]));
    return ns;
}

/* For damaged records: limits the values so that the path algorithms can add
 * them, as in build/weights.c. */
static void clamp_sums_without_recorded_waker(uint64_t *ns, uint32_t n)
{
    uint64_t cap = UINT64_MAX;
    for (ips_u128 sum = (ips_u128)1 << 127; sum >= (ips_u128)1 << 58;
         cap = cap == UINT64_MAX ? 1ull << 54 : cap / 16) {
        sum = 0;
        for (uint32_t i = 0; i < n; i++)
            sum += ns[i] = ips_min_u64(ns[i], cap);
    }
}

uint64_t *ips_make_ns_without_waker_by_node(const struct ips_built *b,
                                            struct ips_err *err)
{
    const struct ips_graph *g = &b->g;
    uint64_t *out = b_calloc((size_t)g->node_count + 1, sizeof(*out), err);
    if (!out)
        return out;
    for (uint32_t k = 0; k < b->unended_count; k++) {
        uint64_t *to = &out[b->unended[k].node];
        *to = ips_add_sat(
            *to, get_ns_still_without_recorded_waker(b, &b->unended[k]));
    }
    clamp_sums_without_recorded_waker(out, g->node_count);
    return out;
}
