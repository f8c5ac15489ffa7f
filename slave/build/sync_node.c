/* Makes nodes of the ACQUIREs and RELEASEs that build/sync.c matched, and
 * subtracts the CPU burnt by spinning from the weights. */
#include <errno.h>

#include "slave/build/node.h"

/* Whether the thread spun for the lock. The CPU of a wait that spun is not
 * work. If the thread slept instead, the CPU of the call belongs to the work
 * after the sleep. */
static bool has_spun(const struct b_sync *s)
{
    bool tries = s->kind <= IPS_SYNC_SEMAPHORE || s->kind == IPS_SYNC_FLOCK ||
                 s->kind == IPS_SYNC_RECORD_LOCK;
    return s->kind == IPS_SYNC_SPIN ||
           (s->value == B_SYNC_TRIED && !s->err && tries &&
            s->kind != IPS_SYNC_BARRIER && s->kind != IPS_SYNC_COND);
}

enum ips_wait_cause b_get_wait_cause_of_sync(uint32_t kind)
{
    bool file = kind == IPS_SYNC_FLOCK || kind == IPS_SYNC_RECORD_LOCK;
    return file                        ? IPS_WAIT_FILE_LOCK
           : kind == IPS_SYNC_FIFO     ? IPS_WAIT_PEER
           : kind == IPS_SYNC_TERMINAL ? IPS_WAIT_TERMINAL
           : b_is_event_object(kind)   ? IPS_WAIT_EVENT
                                       : IPS_WAIT_LOCK;
}

/* Handles a read of an eventfd, of inotify or of a pseudo terminal, or a poll
 * that an eventfd or a message queue ended. The call takes over the wait of an
 * earlier poll, or of failed attempts. A wait for terminal input does not count
 * as unended, because a person may have typed the input. */
int b_count_event_wait_and_make_node(struct maker *m, struct b_sync *s,
                                     struct interval *v)
{
    struct spin spin = b_pop_and_count_spin_before_call(m, v);
    uint64_t slept = v->blocked ? v->blocked_ns : 0;
    bool terminal = s->kind == IPS_SYNC_TERMINAL;
    enum ips_wait_cause cause = terminal ? IPS_WAIT_TERMINAL : IPS_WAIT_EVENT;
    if (v->blocked)
        b_add_wait_to_sums_and_rows(m, cause, v->blocked_ns);
    if (m->wait.pending && (!m->wait.ready || b_is_nested_epoll_pending(m))) {
        slept = ips_add_sat(slept, m->wait.blocked_ns);
        b_count_pending_wait_as_wait_of_call(m, v, cause, &spin);
    }
    if (s->cause == IPS_NONE) {
        if (!terminal || !b_is_terminal_input(s->ino))
            b_add_wait_without_waker(m, m->b->nodes, slept, false);
        return 0;
    }
    s->node =
        b_add_node(m->b, IPS_NODE_AUX, v->cpu, v->t_ret, v->cpu_ret, IPS_NONE);
    m->b->out->g.wait[s->node] = ips_add_sat(slept, spin.elapsed_ns);
    return b_append_spin_and_lower_node_cpu(m, s->node, &spin);
}

static int on_acquire(struct maker *m, struct b_sync *s,
                      const struct interval *v)
{
    struct build *b = m->b;
    /* `second`: the record of the mutex after a wait for a condition; the wait
     * was counted with the record of the condition */
    bool second = s->kind == IPS_SYNC_MUTEX && s->value == 1;
    uint64_t waited = has_spun(s) ? v->t_ret - v->t : v->blocked_ns;
    bool got = s->err == 0 || s->err == EOWNERDEAD || s->cause != IPS_NONE;
    if (!got && s->err == ETIMEDOUT && v->blocked && b_count_if_nap(m, v))
        return 0;
    if (waited >= B_BLOCKED_NS && !second)
        b_add_wait_to_sums_and_rows(m,
                                    got ? b_get_wait_cause_of_sync(s->kind)
                                    : s->err == EINTR ? IPS_WAIT_SIGNAL
                                                      : IPS_WAIT_TIMER,
                                    waited);
    if (!got && !second && s->cause == IPS_NONE)
        b->out->counts.idle++;
    if (s->kind == IPS_SYNC_BARRIER) {
        s->node = b_add_call_node(b, IPS_NODE_AUX, v->cpu, v->t,
                                  v->blocked ? v->blocked_ns : 0, IPS_NONE);
        uint32_t z =
            b_add_node(b, IPS_NODE_AUX, v->cpu, v->t_ret, v->cpu_ret, IPS_NONE);
        /* The last thread to arrive waits for no other: if it was off the CPU,
         * it was preempted. */
        bool last = s->cause == IPS_NONE && s->arrived_before != IPS_NONE;
        b->out->g.wait[z] = v->blocked && !last ? v->blocked_ns : 0;
        return 0;
    }
    if (s->cause == IPS_NONE && s->dead_owner == IPS_NONE && !has_spun(s)) {
        if (!second)
            b_add_sleep_of_call_if_unexplained(
                m, v, s->err == EOWNERDEAD ? 0 : s->err);
        return 0;
    }
    if (has_spun(s) && waited >= B_BLOCKED_NS)
        b->off_ns = ips_add_sat(b->off_ns, b_get_not_blocked_ns_of_call(v));
    s->node = b_add_node(b, IPS_NODE_AUX, v->cpu, v->t_ret,
                         has_spun(s) ? v->cpu : v->cpu_ret, IPS_NONE);
    b->out->g.wait[s->node] = waited >= B_BLOCKED_NS ? waited : 0;
    return has_spun(s)
               ? b_append_spin_cpu_of_node(m, s->node, v->cpu_ret - v->cpu)
               : 0;
}

/* Makes the node of a connect, or of a test of a name, that succeeded after
 * several tries. The naps between count as waits when their own records come
 * (b_count_if_nap). */
static void make_node_after_tries(struct maker *m, struct b_sync *s)
{
    m->last_ret = ips_max_u64(s->t_ret, m->last_ret);
    if (s->cause != IPS_NONE)
        s->node = b_add_node(m->b, IPS_NODE_AUX, s->cpu, m->last_ret, s->cpu,
                             IPS_NONE);
    s->next = m->b->nodes;
}

/* Counts the wait of a write to a terminal that slept until the other side
 * read. */
static void count_blocked_terminal_write_wait(struct maker *m,
                                              const struct ips_rec_sync *r,
                                              const struct interval *v)
{
    if (v->blocked && r->h.a == IPS_SYNC_TERMINAL)
        b_add_wait_to_sums_and_rows(m, IPS_WAIT_TERMINAL, v->blocked_ns);
}

int b_make_sync_nodes(struct maker *m, const uint8_t *p)
{
    struct ips_rec_sync r;
    struct build *b = m->b;
    memcpy(&r, p, sizeof(r));
    struct b_sync *s = &b->syncs.v[m->next_sync];
    struct interval v;
    int rc = 0;
    if (m->next_sync >= b->syncs.n || s->stream != m->s - b->streams) {
        /* There is no b_sync: the scan of an incremental build makes none for
         * such a record (scan_sync). */
        b_decode_interval_and_count_sleep(m, r.h.word, r.h.t, r.t_ret, r.cpu,
                                          r.cpu_ret, &v);
        count_blocked_terminal_write_wait(m, &r, &v);
        return 0;
    }
    m->next_sync++;
    if (!s->release &&
        b_is_connect_or_file_test_after_tries(s->kind, s->value)) {
        make_node_after_tries(m, s);
        return 0;
    }
    b_decode_interval_and_count_sleep(m, r.h.word, r.h.t, r.t_ret, r.cpu,
                                      r.cpu_ret, &v);
    if (!s->release)
        rc = b_is_event_object(s->kind) && !s->err
                 ? b_count_event_wait_and_make_node(m, s, &v)
                 : on_acquire(m, s, &v);
    else if (s->used)
        s->node =
            v.blocked && s->kind == IPS_SYNC_TERMINAL
                ? b_add_call_node(b, IPS_NODE_AUX, v.cpu, v.t, v.blocked_ns,
                                  IPS_NONE)
                : b_add_node(b, IPS_NODE_AUX, v.cpu_ret, v.t, v.cpu, IPS_NONE);
    if (s->release)
        count_blocked_terminal_write_wait(m, &r, &v);
    if (s->release && s->used && r.site && b->notes)
        b_add_lock_release_row(m, s->node, r.site, v.t);
    s->next = b->nodes;
    return rc;
}

void b_make_short_lock_node_if_used(struct maker *m, const uint8_t *p)
{
    struct ips_rec_lock r;
    memcpy(&r, p, sizeof(r));
    struct b_sync *s = &m->b->syncs.v[m->next_sync++];
    struct interval v;
    if (s->used) {
        b_decode_interval_and_count_sleep(m, r.h.word, r.h.t, r.h.t, r.cpu,
                                          r.cpu, &v);
        s->node =
            b_add_node(m->b, IPS_NODE_AUX, v.cpu_ret, v.t, v.cpu, IPS_NONE);
    }
    s->next = m->b->nodes;
}

static int compare_spun_by_node(const void *va, const void *vb)
{
    const struct ips_spun *x = va, *y = vb;
    CMP3(x->node, y->node);
    return 0;
}

/* Runs after the weights are made. Subtracts the CPU burnt by spinning from
 * them, so that it does not count as work, and lists it in out->spun. */
int b_subtract_spin_cpu(struct build *b)
{
    struct ips_graph *g = &b->out->g;
    uint32_t n = 0;
    const struct ips_spun *before = b_incremental_get_final_spins(b, &n);
    if (!b->spins.n && !n)
        return 0;
    b->out->spun = b_calloc(b->spins.n + n, sizeof(*b->out->spun), b->err);
    if (!b->out->spun)
        return IPS_E_NO_MEMORY;
    for (uint32_t i = 0; i < n; i++) {
        b->out->spun[i] = before[i];
        b->out->counts.spin_ns += before[i].ns;
    }
    for (uint32_t i = 0; i < b->spins.n; i++) {
        const struct b_spin *s = &b->spins.v[i];
        /* the next node exists: every chain has an END */
        uint64_t *w = &g->w[s->node + 1];
        uint64_t cut = ips_min_u64(*w, s->ns);
        *w -= cut;
        uint32_t *probe = &g->probe[s->node + 1], had = *probe;
        *probe = (uint32_t)ips_min_u64(had, *w);
        b->out->counts.probe_arc_ns -= had - *probe;
        b->out->threads[ips_chain_of(g, s->node)].cpu_ns -= cut;
        b->out->counts.spin_ns = ips_add_sat(b->out->counts.spin_ns, cut);
        b->out->spun[n + i] = (struct ips_spun){.node = s->node + 1, .ns = cut};
    }
    b->out->spun_count = n + b->spins.n;
    qsort(b->out->spun, b->out->spun_count, sizeof(*b->out->spun),
          compare_spun_by_node);
    return 0;
}
