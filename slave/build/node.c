/* Second reading of every record, chain by chain. Makes the nodes with their
 * coordinates and waits, and the sends and receives that build/match.c turns
 * into cross arcs, by the table in docs/design/build.md. This file handles
 * processes, signals and closes; build/io.c handles records that move bytes or
 * wait for them. */
#include <signal.h>

#include "slave/build/node.h"
#include "slave/build/plain.h"

/* If a signal came while call `v` slept, the signal ended that sleep: gives the
 * signal's node the coordinate of the call. Keeps the signals that came before
 * the call: `v` may be a call of the handler of such a signal, and the record
 * of the interrupted call follows later. */
void b_attribute_sleep_if_signal_ended_it(struct maker *m, struct interval *v)
{
    struct ips_graph *g = &m->b->out->g;
    uint32_t first = 0;
    while (first < m->taken_count && m->taken_signal[first].t < v->t)
        first++;
    if (first == m->taken_count)
        return;
    for (uint32_t i = first; i < m->taken_count && v->blocked; i++) {
        const struct taken_signal *s = &m->taken_signal[i];
        if (s->t > v->t_ret)
            continue;
        if (s->node != IPS_NO_NODE) {
            g->w[s->node] = ips_min_u64(g->w[s->node], v->cpu);
            m->b->out->g.wait[s->node] =
                ips_min_u64(v->blocked_ns, ips_sub_sat(s->t, v->t));
            v->by_signal = true;
            m->signal_node = s->node;
        }
        v->by_timer_or_outside = s->no_arc;
        break;
    }
    m->taken_count = first;
}

/* ---- closes, processes ---- */

static int append_hold_event_of_close_or_exec(struct maker *m,
                                              enum b_hold_kind kind, uint64_t t,
                                              uint32_t arg, uint32_t node,
                                              uint32_t how)
{
    struct build *b = m->b;
    int rc = B_MORE(b->holds, b->err);
    if (rc < 0)
        return rc;
    b->holds.v[b->holds.n] = (struct b_hold_event){.t = t,
                                                   .proc = m->proc,
                                                   .arg = arg,
                                                   .node = node,
                                                   .seq = b->holds.n,
                                                   .kind = (uint8_t)kind,
                                                   .how = (uint8_t)how};
    b->holds.n++;
    return 0;
}

static int on_close(struct maker *m, const uint8_t *p)
{
    struct ips_rec_close r;
    memcpy(&r, p, sizeof(r));
    struct build *b = m->b;
    uint64_t t = b_stamp_to_ns(&m->s->clock, r.h.word, r.h.t);
    const struct b_chan *c = b_find_chan(b, m->s->image, r.h.a);
    if (!c || r.how < IPS_CLOSE_FD || r.how > IPS_CLOSE_SHUT_RDWR)
        return 0;
    uint32_t end = c->end_send != IPS_NONE ? c->end_send : c->end_recv;
    if (end == IPS_NONE || b->ends[end].datagram || b->ends[end].listen)
        return 0;
    uint32_t node = b_add_node(b, IPS_NODE_AUX, r.cpu, t, r.cpu, end);
    return append_hold_event_of_close_or_exec(
        m, B_HOLD_CLOSE, t, (uint32_t)(c - b->chans.v), node, r.how);
}

static int on_exec(struct maker *m, const uint8_t *p)
{
    struct ips_rec_exec r;
    memcpy(&r, p, sizeof(r));
    uint64_t t = b_stamp_to_ns(&m->s->clock, r.h.word, r.h.t);
    if (!m->s->exec_last || t != m->s->exec_ns)
        return 0; /* the exec failed */
    uint32_t node = b_add_node(m->b, IPS_NODE_AUX, r.cpu, t, r.cpu, IPS_NONE);
    return append_hold_event_of_close_or_exec(m, B_HOLD_EXEC, t, m->s->image,
                                              node, 0);
}

/* Whether the parent sleeps in a fork of this kind until the child executes its
 * program. */
static bool is_parent_blocked_in_fork(uint8_t kind)
{
    return kind == IPS_FORK_VFORK || kind == IPS_FORK_SPAWN ||
           kind == IPS_FORK_POPEN;
}

static void on_fork(struct maker *m)
{
    struct build *b = m->b;
    struct b_fork *f = &b->forks.v[m->next_fork++];
    if (f->failed)
        return;
    if (is_parent_blocked_in_fork(f->kind)) {
        uint64_t slept = b_blocked_ns(f->t, f->t_ret, f->cpu, f->cpu_ret);
        if (slept >= B_BLOCKED_NS)
            b_add_wait_to_sums_and_rows(m, IPS_WAIT_CHILD, slept);
        f->node = b_add_node(b, IPS_NODE_FORK, f->cpu, f->t, f->cpu, IPS_NONE);
        b->off_ns = slept;
        uint32_t z = b_add_node(b, IPS_NODE_AUX, f->cpu_ret, f->t_ret,
                                f->cpu_ret, IPS_NONE);
        b->out->g.wait[z] = slept;
        return;
    }
    uint64_t coord = f->cpu_ret;
    if (f->child != IPS_NONE) {
        const struct b_stream *s =
            &b->streams[b->chains[f->child].first_stream];
        uint64_t start = s->start_kind ? s->start_ns : s->first_ns;
        coord =
            ips_min_u64(coord, ips_add_sat(f->cpu, ips_sub_sat(start, f->t)));
    }
    f->node = b_add_node(b, IPS_NODE_FORK, coord, f->t, f->cpu, IPS_NONE);
}

static void on_join(struct maker *m, const uint8_t *p)
{
    struct ips_rec_join r;
    memcpy(&r, p, sizeof(r));
    struct interval v;
    b_decode_interval_and_count_sleep(m, r.h.word, r.h.t, r.t_ret, r.cpu,
                                      r.cpu_ret, &v);
    struct b_join *j = &m->b->joins.v[m->next_join++];
    if (j->kind == IPS_JOIN_GONE) {
        j->node =
            b_add_node(m->b, IPS_NODE_AUX, v.cpu, v.t_ret, v.cpu_ret, IPS_NONE);
        return;
    }
    if (v.blocked)
        b_add_wait_to_sums_and_rows(m, IPS_WAIT_CHILD, v.blocked_ns);
    j->node =
        b_add_node(m->b, IPS_NODE_JOIN, v.cpu, v.t_ret, v.cpu_ret, IPS_NONE);
    m->b->out->g.wait[j->node] = v.blocked ? v.blocked_ns : 0;
}

/* ---- signals ---- */

static void on_kill(struct maker *m)
{
    struct b_kill *k = &m->b->kills.v[m->next_kill++];
    if (k->is_taken)
        k->node =
            b_add_node(m->b, IPS_NODE_AUX, k->cpu, k->t, k->cpu, IPS_NONE);
}

static bool is_timer_signal(const struct b_signal_taken *y)
{
    bool often = y->sig == SIGALRM || y->sig == SIGVTALRM || y->sig == SIGPROF;
    return y->code == SI_TIMER || (y->code == SI_KERNEL && often);
}

/* Whether a wait that signal `y` ended needs no arc: a timer or a process
 * outside of the run sent the signal, so the thread waited for no recorded
 * thread. */
static bool is_signal_from_timer_or_outside_run(const struct build *b,
                                                const struct b_signal_taken *y)
{
    return is_timer_signal(y) || (y->outside && !b->careful);
}

/* If `y` is the signal of mq_notify: advances m->next_sync past its b_sync, and
 * returns that b_sync if the RELEASE of its message is known. Else NULL. */
static struct b_sync *pop_matched_mq_notify_sync(struct maker *m,
                                                 const struct b_signal_taken *y)
{
    if (!b_is_mq_notify_signal(y->code, y->value))
        return NULL;
    struct b_sync *s = &m->b->syncs.v[m->next_sync++];
    return s->cause != IPS_NONE ? s : NULL;
}

/* Makes and returns the node at which the thread took signal `y`, if that
 * depends on another node; else IPS_NO_NODE. */
static uint32_t
make_signal_node_if_cause_is_recorded(struct maker *m,
                                      const struct b_signal_taken *y,
                                      uint64_t coord, uint64_t slept)
{
    struct build *b = m->b;
    struct b_sync *notice = pop_matched_mq_notify_sync(m, y);
    if (b_was_signal_sent_for_ready_descriptor(y))
        return b_make_node_of_descriptor_ready_signal(m, y, coord, slept);
    if (y->kill == IPS_NONE && y->child == IPS_NONE && !notice)
        return IPS_NO_NODE;
    uint32_t node = b_add_node(b, IPS_NODE_AUX, coord, y->t, y->cpu, IPS_NONE);
    b->out->g.wait[node] = slept;
    if (notice)
        notice->node = node;
    return node;
}

/* If sigwait() or a read of a signalfd returned the signal, the thread waited
 * for it since that call began. */
static void on_signal(struct maker *m)
{
    struct b_signal_taken *y = &m->b->takings.v[m->next_taking++];
    const bool waited = y->t == m->sigwait_ret;
    const uint64_t coord =
        waited ? ips_min_u64(y->cpu, m->sigwait_cpu) : y->cpu;
    y->node = make_signal_node_if_cause_is_recorded(
        m, y, coord, waited ? m->sigwait_slept : 0);
    if (y->node != IPS_NO_NODE) {
        /* nothing to add: the cross arc of y->node says what the thread waited
         * for */
    } else if (y->t == m->sigwait_ret &&
               !is_signal_from_timer_or_outside_run(m->b, y)) {
        b_add_wait_without_waker(m, m->b->nodes, m->sigwait_slept, false);
    }
    if (m->taken_count == TAKEN_KEPT) /* drop the oldest */
        memmove(m->taken_signal, m->taken_signal + 1,
                --m->taken_count * sizeof(*m->taken_signal));
    m->taken_signal[m->taken_count++] = (struct taken_signal){
        .t = y->t,
        .node = y->node,
        .no_arc = is_signal_from_timer_or_outside_run(m->b, y)};
}

/* If `r` is a poll of a signalfd that no read followed, returns its entry of
 * takings[], and advances m->next_taking past it; else NULL. */
struct b_signal_taken *b_pop_signal_of_signalfd_poll(struct maker *m,
                                                     const struct ips_rec_io *r)
{
    const struct build *b = m->b;
    struct b_signal_taken *y = &b->takings.v[m->next_taking];
    uint64_t t = b_stamp_to_ns(&m->s->clock, r->h.word, r->h.t);
    uint64_t t_ret = b_stamp_to_ns(&m->s->clock, r->h.word, r->t_ret);
    if (!ips_ready_is_signalfd(r->ready) || m->next_taking >= b->takings.n ||
        !y->polled || y->stream != m->s - b->streams ||
        y->t != ips_max_u64(t, t_ret))
        return NULL;
    m->next_taking++;
    return y;
}

void b_add_wait_and_node_of_polled_signal(struct maker *m,
                                          const struct interval *v,
                                          struct b_signal_taken *y)
{
    struct build *b = m->b;
    b_add_wait_to_sums_and_rows(m, IPS_WAIT_SIGNAL, v->blocked_ns);
    if (y->kill == IPS_NONE && y->child == IPS_NONE) {
        b_add_wait_without_waker(m, b->nodes, v->blocked_ns, false);
        return;
    }
    y->node =
        b_add_node(b, IPS_NODE_AUX, v->cpu, v->t_ret, v->cpu_ret, IPS_NONE);
    b->out->g.wait[y->node] = v->blocked_ns;
}

/* ---- chains ---- */

/* Whether a record of this type, after a poll, shows that the thread did
 * something else before any receive that the poll waited for. */
static bool does_record_type_end_pending_poll(uint32_t type)
{
    return type == IPS_REC_SEND || type == IPS_REC_CLOSE ||
           type == IPS_REC_FORK || type == IPS_REC_JOIN ||
           type == IPS_REC_EXEC || type == IPS_REC_KILL ||
           type == IPS_REC_ACQUIRE || type == IPS_REC_RELEASE;
}

static void keep_dgram_record_for_next_call(struct maker *m, const uint8_t *p,
                                            uint32_t len)
{
    struct ips_rec_dgram d;
    memcpy(&d, p, sizeof(d));
    bool more = m->have_dgram && m->dgram.h.a == d.h.a &&
                m->dgram_count < B_DGRAMS_OF_CALL;
    if (!more) {
        m->dgram = d;
        m->dgram_count = 0;
    }
    m->dgrams[m->dgram_count] = p;
    m->dgram_bytes[m->dgram_count++] = len;
    m->have_dgram = true;
}

static void store_time_of_lost_records(struct maker *m, const uint8_t *p)
{
    struct ips_rec_head h;
    memcpy(&h, p, sizeof(h));
    m->lost_ns = b_stamp_to_ns(&m->s->clock, h.word, h.t);
}

/* Longest plausible average time to read one page from the disk, ns. If the
 * thread slept longer, it also waited for something else, and how much it
 * waited for pages is not known. */
#define PAGE_NS_MAX 10000000u

/* Consumes and returns up to `most` ns of the run delay that the kernel counted
 * from the last reading before `from` to the first after `t`. The thread was
 * ready to run during that time, and did not wait for a page. */
static uint64_t consume_run_delay_of_interval(struct maker *m, uint64_t from,
                                              uint64_t t, uint64_t most)
{
    const struct b_stream *s = m->s;
    const struct b_delay *d = m->b->delays.v + s->first_delay;
    struct run_delay *y = &m->run_delay;
    if (y->stream != s)
        *y = (struct run_delay){.stream = s};
    const struct b_chain *c = &m->b->chains[m->chain];
    const bool is_new =
        s == &m->b->streams[c->first_stream] &&
        (c->fork != IPS_NONE || s->start_kind == IPS_START_FORK ||
         s->start_kind == IPS_START_THREAD);
    for (; y->next < s->delay_count && (!y->next || d[y->next - 1].t < t);
         y->next++) {
        uint64_t ns = y->next  ? ips_sub_sat(d[y->next].ns, d[y->next - 1].ns)
                      : is_new ? d[0].ns
                               : 0;
        const uint64_t end = d[y->next].t,
                       begin = y->next ? d[y->next - 1].t : s->first_ns;
        if (end <= from)
            ns = y->left_ns = 0;
        else if (begin < from && end < t) /* count only the share after `from`:
                                             the rest may belong to a call */
            ns = (uint64_t)((ips_u128)ns * (end - from) / (end - begin));
        y->left_ns = ips_add_sat(y->left_ns, ns);
    }
    if (!y->next || d[y->next - 1].t < t)
        return 0; /* no reading after `t` */
    uint64_t taken = ips_min_u64(y->left_ns, most);
    y->left_ns -= taken;
    return taken;
}

/* Handles a PAGEFAULT: since its previous node, the thread slept outside of
 * calls while pages were read from the disk. The sleep is placed at the end of
 * that time; how the thread's sleeps and its computing alternated is not
 * known. */
static void on_page_faults(struct maker *m, const uint8_t *p)
{
    struct ips_rec_cpu r;
    memcpy(&r, p, sizeof(r));
    struct build *b = m->b;
    /* the next record may take over a pending wait that has no node yet: add no
     * node before that */
    if (m->spin.elapsed_ns || (m->wait.pending && m->wait.node == IPS_NO_NODE))
        return;
    const uint32_t before = b->nodes - 1; /* a chain has at least START */
    const uint64_t t = b_stamp_to_ns(&m->s->clock, r.h.word, r.h.t);
    uint64_t slept = b_off_cpu_between_calls_ns(
        t, b->out->g.t_ns[before], r.cpu, b->cpu_at[before], b->off_ns);
    /* leave out the time of calls, of an earlier image and of lost records */
    uint64_t since = ips_max_u64(m->last_ret, m->s->first_ns);
    since = ips_max_u64(since, m->lost_ns);
    slept = ips_min_u64(slept, ips_sub_sat(t, since));
    since = ips_max_u64(since, b->out->g.t_ns[before]);
    slept -= consume_run_delay_of_interval(m, since, t, slept);
    if (slept > (uint64_t)r.h.a * PAGE_NS_MAX)
        slept = 0;
    uint32_t call =
        b_add_node(b, IPS_NODE_AUX, r.cpu, t - slept, r.cpu, IPS_NONE);
    if (slept < B_BLOCKED_NS)
        return; /* too short for a wait: `call` only marks where the time of the
                   next PAGEFAULT begins */
    b->off_ns = slept;
    uint32_t ret = b_add_node(b, IPS_NODE_AUX, r.cpu, t, r.cpu, IPS_NONE);
    b->out->g.wait[ret] = slept;
    b_set_cross(b, ret, call, IPS_X_EXTERNAL, slept);
    b->out->counts.external++;
    b_add_wait_to_sums(m, IPS_WAIT_DISK, slept);
    if (b->notes)
        b_waits_add_row(m, IPS_WAIT_DISK, slept, t);
}

static int make_nodes_and_waits_of_record(struct maker *m, uint32_t type,
                                          const uint8_t *p, uint32_t len)
{
    int rc = 0;
    if (m->wait.pending && does_record_type_end_pending_poll(type))
        b_end_wait_at_poll_node(m);
    switch (type) {
    case IPS_REC_SEND:
        rc = b_on_send(m, p);
        break;
    case IPS_REC_RECV:
        rc = b_on_recv(m, p);
        break;
    case IPS_REC_RECVCALL:
        rc = b_add_wait_of_failed_receive(m, p);
        break;
    case IPS_REC_BLOCK:
        rc = b_make_nodes_of_blocking_call(m, p);
        break;
    case IPS_REC_CLOSE:
        rc = on_close(m, p);
        break;
    case IPS_REC_FORK:
        on_fork(m);
        break;
    case IPS_REC_JOIN:
        on_join(m, p);
        break;
    case IPS_REC_EXEC:
        rc = on_exec(m, p);
        break;
    case IPS_REC_KILL:
        on_kill(m);
        break;
    case IPS_REC_SIGNAL:
        on_signal(m);
        return 0; /* keep m->dgram: a SIGNAL may come between a DGRAM and its
                     call */
    case IPS_REC_ACQUIRE:
    case IPS_REC_RELEASE:
        rc = b_make_sync_nodes(m, p);
        break;
    case IPS_REC_ACQUIRE_SHORT:
    case IPS_REC_RELEASE_SHORT:
        b_make_short_lock_node_if_used(m, p);
        return 0;
    case IPS_REC_LOST:
        store_time_of_lost_records(m, p);
        return 0;
    case IPS_REC_PAGEFAULT:
        on_page_faults(m, p);
        return 0;
    case IPS_REC_DGRAM:
        keep_dgram_record_for_next_call(m, p, len);
        return 0;
    default:
        return 0;
    }
    m->have_dgram = false;
    return rc;
}

/* Makes the START node and, for a spawned child, the node at which its image
 * started. */
static void make_start_nodes(struct maker *m)
{
    struct build *b = m->b;
    struct b_chain *c = &b->chains[m->chain];
    const struct b_stream *s = &b->streams[c->first_stream];
    uint64_t start = s->start_kind ? s->start_ns : s->first_ns;
    bool known = c->fork != IPS_NONE || s->start_kind == IPS_START_FORK ||
                 s->start_kind == IPS_START_THREAD;
    c->base = known ? 0 : s->start_kind ? s->start_cpu : s->first_cpu;
    b_add_node(b, IPS_NODE_START, c->base, start, c->base, IPS_NONE);
    if (c->fork == IPS_NONE || s->start_kind != IPS_START_IMAGE)
        return;
    const struct b_fork *f = &b->forks.v[c->fork];
    if (is_parent_blocked_in_fork(f->kind))
        c->image_aux =
            b_add_node(b, IPS_NODE_AUX,
                       ips_min_u64(s->start_cpu, ips_sub_sat(f->t_ret, f->t)),
                       start, s->start_cpu, IPS_NONE);
}

int b_make_stream_nodes(struct maker *m, struct b_walk *walk)
{
    struct build *b = m->b;
    uint32_t type, len;
    const uint8_t *p;
    bool stops = m->job_stop.next < m->job_stop.end;
    bool plain = b->plain && !stops;
    for (;;) {
        int plainly = plain ? b_make_nodes_of_plain_records(m, walk) : 0;
        if (plainly < 0)
            return plainly;
        p = b_next_record(walk, &type, &len);
        if (!p)
            break;
        int rc = stops ? b_make_stop_nodes_before_record(m, type, p) : 0;
        uint32_t before = b->nodes;
        m->wait.merged = false;
        if (rc == 0)
            rc = make_nodes_and_waits_of_record(m, type, p, len);
        before -= m->wait.merged; /* the receive replaced the poll's node */
        if (rc == 0 && stops)
            rc = b_make_stop_node_at_return_if_pending(m, type, p);
        if (!b->tables)
            b_add_record_cost(b, m->chain, m->s, type, p);
        if (rc == 0 && b->notes)
            rc = b_complete_wait_rows_after_record(m, type, p, len, before);
        if (rc < 0)
            return rc;
    }
    b_plain_add_all_slot_sums_and_free_slots(m);
    return 0;
}

static int begin_stream_and_make_nodes(struct maker *m, uint32_t stream,
                                       struct b_walk *walk)
{
    struct b_stream *s = &m->b->streams[stream];
    walk->in = s->in;
    m->s = s;
    m->next_fork = s->first_fork;
    m->next_join = s->first_join;
    m->next_kill = s->first_kill;
    m->next_taking = s->first_taking;
    m->next_sync = s->first_sync;
    m->next_retry = s->first_retry;
    m->next_made = s->first_made;
    m->next_nap_run = s->first_nap_run;
    m->job_stop.t = 0;
    m->have_dgram = false;
    if (m->b->notes)
        b_reset_wait_notes_for_stream(m);
    return b_make_stream_nodes(m, walk);
}

static int end_pending_wait_and_complete_rows(struct maker *m)
{
    b_end_pending_wait_as_idle(m);
    return m->b->notes
               ? b_complete_wait_rows_after_record(m, 0, NULL, 0, m->b->nodes)
               : 0;
}

int b_make_chain_nodes_except_end(struct maker *m, struct b_walk *walk)
{
    struct build *b = m->b;
    const struct b_chain *c = &b->chains[m->chain];
    b->out->g.chains[m->chain].first = b->nodes;
    b->off_ns = b->probe_ps = 0;
    b->gaps = (struct b_gaps){.t = UINT64_MAX}; /* no gap before START */
    make_start_nodes(m);
    for (uint32_t i = c->first_stream; i != IPS_NONE; i = b->streams[i].next) {
        memset(walk, 0, sizeof(*walk));
        int rc = begin_stream_and_make_nodes(m, i, walk);
        if (rc == 0 && b->streams[i].next != IPS_NONE)
            rc = end_pending_wait_and_complete_rows(m);
        if (rc == 0 && b->streams[i].next != IPS_NONE)
            rc = b_add_wait_and_node_of_unfinished_call(m, i);
        if (rc < 0)
            return rc;
    }
    return 0;
}

int b_make_chain_end(struct maker *m)
{
    struct build *b = m->b;
    struct ips_chain *chain = &b->out->g.chains[m->chain];
    struct b_chain *c = &b->chains[m->chain];
    uint64_t last_ns = 0, last_cpu = 0;
    int rc = end_pending_wait_and_complete_rows(m);
    if (rc == 0)
        rc = b_add_wait_and_node_of_unfinished_call(m, c->last_stream);
    if (rc < 0)
        return rc;
    for (uint32_t i = c->first_stream; i != IPS_NONE; i = b->streams[i].next) {
        last_ns = ips_max_u64(last_ns, b->streams[i].last_ns);
        last_cpu = ips_max_u64(last_cpu, b->streams[i].last_cpu);
    }
    const struct b_stream *last = &b->streams[c->last_stream];
    const uint32_t killer = b_find_kill_that_ended_thread(b, last);
    if (killer != IPS_NONE && b->procs[m->proc].died_at_kill)
        last_ns = ips_max_u64(last_ns, b->out->procs[m->proc].end_ns);
    b_flush_tallies(m);
    m->row->start_ns = b->out->g.t_ns[chain->first];
    m->row->end_ns = last_ns;
    m->row->ended = last->end_kind != 0;
    c->cpu_known = last_cpu;
    uint32_t end =
        b_add_node(b, IPS_NODE_END, last_cpu, last_ns, last_cpu, IPS_NONE);
    chain->count = b->nodes - chain->first;
    c->unknown_ns = b->gaps.unknown_ns;
    /* no arc if the thread's last record is older than the KILL: the thread may
     * have ended before the KILL */
    if (killer == IPS_NONE || m->killed || b->kills.v[killer].t >= last_ns)
        return 0;
    return b_store_kill_arc_for_later(b, end, killer);
}

void b_init_chain_maker(struct build *b, uint32_t c, struct maker *m)
{
    *m = (struct maker){.b = b,
                        .row = &b->out->threads[c],
                        .chain = c,
                        .proc = b->out->g.chains[c].process};
    m->job_stop.next = b->procs[m->proc].first_stop;
    m->job_stop.end = m->job_stop.next + b->procs[m->proc].stop_count;
    m->row->process = m->proc;
    m->row->tid = b->out->g.chains[c].tid;
    m->row->chain = c;
}

int b_make_nodes(struct build *b)
{
    struct ips_graph *g = &b->out->g;
    size_t room = b->node_capacity + 1;
    b->cpu_at = ips_alloc_large(room, sizeof(*b->cpu_at));
    g->wait = ips_alloc_large(room, sizeof(*g->wait));
    bool offs = b->delays.n || b->spun || b->incremental;
    b->off = offs ? ips_alloc_large(room, sizeof(*b->off)) : NULL;
    g->probe = ips_alloc_large(room, sizeof(*g->probe));
    if (!b->cpu_at || !g->wait || (offs && !b->off) || !g->probe)
        return ips_err_set(b->err, IPS_E_NO_MEMORY, "%llu nodes",
                           (unsigned long long)b->node_capacity);
    int rc = b_init_plain_slots(b);
    rc = rc < 0 ? rc : b_init_early_match(b);
    if (rc < 0)
        return rc;
    if (b->incremental)
        return b_incremental_make_nodes(b);
    for (uint32_t c = 0; c < g->chain_count; c++) {
        struct maker m;
        struct b_walk walk;
        b_init_chain_maker(b, c, &m);
        rc = b_make_chain_nodes_except_end(&m, &walk);
        if (rc == 0)
            rc = b_make_chain_end(&m);
        if (rc < 0)
            return rc;
        b_set_progress(b, B_BUILT_READ +
                              (unsigned)((B_BUILT_NODES - B_BUILT_READ) *
                                         (uint64_t)b->nodes / room));
    }
    size_t n = (size_t)b->nodes + 1;
    ips_graph_shrink(g, b->nodes);
    ips_trim_large_array(b->cpu_at, n * sizeof(*b->cpu_at));
    ips_trim_large_array(b->off, n * sizeof(*b->off));
    return 0;
}
