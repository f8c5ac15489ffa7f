/* Makes the nodes of sends, receives and waits, by the table in
 * docs/design/build.md, and lists sends and receives for pass `match`. */
#include <errno.h>

#include "slave/build/node.h"
#include "slave/build/plain.h"

static inline __attribute__((always_inline)) void
decode_io_interval(struct maker *m, const struct ips_rec_io *r, bool send,
                   struct interval *v)
{
    b_decode_interval_and_count_sleep(m, r->h.word, r->h.t, r->t_ret, r->cpu,
                                      r->cpu_ret, v);
    v->chan = b_find_chan(m->b, m->s->image, r->h.a);
    if (v->chan)
        v->end = send ? v->chan->end_send : v->chan->end_recv;
}

/* ---- traffic ---- */

static inline int count_traffic(struct maker *m, const struct interval *v,
                                uint64_t len, enum b_dir dir)
{
    struct traffic_tally *y = &m->tally[dir];
    if (!y->messages || y->end != v->end) {
        int rc = b_flush_and_restart_tally(m, v->end, dir);
        if (rc < 0)
            return rc;
    }
    y->messages++;
    y->bytes += len;
    y->t = ips_min_u64(y->t, v->t);
    y->t_ret = v->t_ret; /* returns of one thread are in order */
    if (m->b->in->traffic)
        b_add_message_to_window_traffic(m->b->in->traffic, y->row, v, len,
                                        dir == B_SEND);
    return 0;
}

static inline void widen_time_span_of_channel_end(struct maker *m,
                                                  const struct interval *v)
{
    struct ips_end *end = &m->b->out->ends[v->end];
    end->first_ns = ips_min_u64(end->first_ns, v->t);
    end->last_ns = ips_max_u64(end->last_ns, v->t_ret);
}

/* ---- pending waits ---- */

void b_end_pending_wait_as_idle(struct maker *m)
{
    b_end_wait_at_poll_node(m);
    if (!m->wait.pending)
        return;
    m->wait.pending = false;
    if (!m->wait.blocked_ns) /* the thread did not sleep in the poll, it only
                                spun */
        return;
    m->b->out->counts.idle++;
    b_add_wait_to_sums(m, IPS_WAIT_IDLE, m->wait.blocked_ns);
    b_add_wait_without_waker(m, m->wait.arc, m->wait.blocked_ns, false);
    if (m->b->notes)
        b_waits_add_row_of_pending_poll(m, IPS_WAIT_IDLE, m->wait.blocked_ns,
                                        false);
}

/* Whether the pending poll waited for this receive. m->wait.ready, if known, is
 * the channel that the poll reported; before an accept it is the listening
 * socket. */
static inline bool is_receive_of_pending_poll(const struct maker *m,
                                              const struct ips_rec_io *r,
                                              const struct interval *v)
{
    uint32_t ready = m->wait.ready;
    if (!m->wait.pending)
        return false;
    if (ready == 0 || ready == r->h.a)
        return true;
    const struct b_chan *c = b_find_chan(m->b, m->s->image, ready);
    if (!c)
        return false;
    if (r->op == IPS_OP_ACCEPT)
        return c->end_recv != IPS_NONE && m->b->ends[c->end_recv].listen;
    return c->end_recv != IPS_NONE && c->end_recv == v->end;
}

/* ---- adding sends and receives ---- */

/* A pipe in packet mode splits a write into packets of at most this many bytes.
 */
#define PIPE_PACKET_BYTES 4096u
/* A connect that slept for less than this (ns) may have waited for a CPU. */
#define CONNECT_WAIT_NS 5000000u
static uint64_t count_packets_of_pipe_write_or_one(const struct build *b,
                                                   uint32_t end, uint64_t bytes)
{
    bool pipe = b->out->ends[end].kind == IPS_CHAN_PIPE;
    return pipe ? (bytes + PIPE_PACKET_BYTES - 1) / PIPE_PACKET_BYTES : 1;
}

static inline int add_send(struct maker *m, const struct ips_rec_io *r,
                           const struct interval *v, uint32_t node)
{
    struct build *b = m->b;
    struct b_end *e = &b->ends[v->end];
    struct b_send *op;
    int rc = b_append_empty_send_slot(b, e, &op);
    if (rc < 0)
        return rc;
    if (e->sends.n == 1)
        e->send_op_chain = m->chain;
    e->send_many |= e->send_op_chain != m->chain;
    e->send_blocked |= v->blocked;
    *op = (struct b_send){
        .t = v->t,
        .t_ret = v->t_ret,
        .len = e->packets ? count_packets_of_pipe_write_or_one(
                                b, v->end, (uint64_t)r->result)
                          : (uint64_t)r->result,
        .past_cpu_ns = v->blocked ? 0 : v->cpu_ret - v->cpu,
        .node = node,
        .chain = m->chain & INT32_MAX,
        .blocked = v->blocked,
    };
    return 0;
}

static inline int add_byte_receive(struct maker *m, const struct ips_rec_io *r,
                                   const struct interval *v, uint32_t node)
{
    struct build *b = m->b;
    struct ips_graph *g = &b->out->g;
    struct b_end *e = &b->ends[v->end];
    uint64_t took = v->t_ret - v->t;
    /* a listening socket carries no bytes, so no send matches */
    if (!e->local && e->listen)
        return 0;
    if (e->read_count++ == 0)
        e->read_chain = m->chain;
    e->read_many |= e->read_chain != m->chain;
    if (!e->local)
        return 0;
    b_plain_stop_early_match_of_end(m, v->end);
    uint64_t len = (uint64_t)r->result;
    if (e->packets) {
        int rc = B_MORE(b->packets, b->err);
        if (rc < 0)
            return rc;
        /* Only a whole build runs b_restore_packet_bytes(), so the run has to
         * be built again. */
        b->broken |= b->from != NULL;
        b->packets.v[b->packets.n++] = (struct b_packet){node, len};
        len = 1;
    }
    g->xlen[node] = len;
    if (b->from) {
        struct b_read *read = b_incremental_append_receive_slot(b, v->end);
        if (!read)
            return IPS_E_NO_MEMORY;
        *read = (struct b_read){.t = v->t,
                                .t_ret = v->t_ret,
                                .len = len,
                                .node = node,
                                .chain = m->chain,
                                .ext = IPS_NONE};
        return 0;
    }
    if (took < IPS_NO_NODE) {
        g->xpred[node] = (uint32_t)took;
        return 0;
    }
    int rc = B_MORE(b->long_reads, b->err);
    if (rc == 0)
        b->long_reads.v[b->long_reads.n++] =
            (struct b_long_read){.t = v->t, .node = node};
    return rc;
}

static int add_eof_accept_or_broken_event(struct maker *m,
                                          const struct interval *v,
                                          uint32_t node, enum b_event_kind kind,
                                          uint32_t ext)
{
    struct build *b = m->b;
    int rc = B_MORE(b->events, b->err);
    if (rc < 0)
        return rc;
    b->events.v[b->events.n++] = (struct b_event){.t_ret = v->t_ret,
                                                  .node = node,
                                                  .end = v->end,
                                                  .ext = ext,
                                                  .kind = (uint8_t)kind};
    return 0;
}

/* If the sender of a receive may be on another machine: adds a struct
 * b_external and stores its index in *ext; else stores IPS_NONE. */
static inline __attribute__((always_inline)) int
append_external(struct maker *m, const struct interval *v, uint32_t node,
                uint64_t pos, uint64_t len, uint64_t slept, uint32_t *ext)
{
    struct build *b = m->b;
    const struct b_end *e = &b->ends[v->end];
    *ext = IPS_NONE;
    if ((e->local && !e->datagram) || e->listen)
        return 0;
    int rc = B_MORE(b->exts, b->err);
    if (rc < 0)
        return rc;
    *ext = b->exts.n;
    /* `asked`: the received bytes answer the thread's own last send on this
     * end. On an accepted connection the thread is a server: the bytes are a
     * new request, and its last send answered the previous one. */
    bool asked = e->send_chain == m->chain && !b->out->ends[v->end].accepted;
    b->exts.v[b->exts.n++] = (struct b_external){
        .pos = pos,
        .len = len,
        .reply_ns = asked ? ips_sub_sat(v->t_ret, e->send_t) : 0,
        .blocked_ns = slept,
        .node = node,
        .end = v->end,
        .last_send = asked ? e->send_node : IPS_NO_NODE,
        .blocked = slept > 0,
    };
    return 0;
}

int b_add_receive_if_sender_may_be_remote(struct maker *m,
                                          const struct interval *v,
                                          uint32_t node, uint64_t len,
                                          uint64_t slept)
{
    uint32_t ext;
    return append_external(m, v, node, 0, len, slept, &ext);
}

static inline void set_last_send_of_end(struct maker *m,
                                        const struct interval *v, uint32_t node)
{
    struct b_end *e = &m->b->ends[v->end];
    e->send_chain = m->chain;
    e->send_node = node;
    e->send_t = v->t;
}

static int on_connect(struct maker *m, const struct ips_rec_io *r,
                      const struct interval *v)
{
    if ((r->err && r->err != EINPROGRESS) || v->end == IPS_NONE ||
        m->b->ends[v->end].datagram || m->b->ends[v->end].listen)
        return 0;
    widen_time_span_of_channel_end(m, v);
    uint32_t node = b_add_call_node(m->b, IPS_NODE_SEND, v->cpu, v->t,
                                    v->blocked ? v->blocked_ns : 0, v->end);
    if (m->b->ends[v->end].connect_node == IPS_NO_NODE)
        m->b->ends[v->end].connect_node = node;
    set_last_send_of_end(m, v, node);
    /* the connect waited for space in the queue of the listening socket */
    if (v->blocked_ns >= CONNECT_WAIT_NS && !v->by_signal &&
        m->b->out->ends[v->end].kind == IPS_CHAN_UNIX)
        b_add_wait_without_waker(m, m->b->nodes, v->blocked_ns, false);
    return 0;
}

int b_add_broken_channel_node(struct maker *m, const struct interval *v)
{
    if (v->end == IPS_NONE || m->b->ends[v->end].datagram)
        return 0;
    uint32_t node = b_add_node(m->b, IPS_NODE_AUX, v->cpu, v->t_ret, v->cpu_ret,
                               v->end),
             ext;
    int rc = append_external(m, v, node, IPS_POS_EOF, 0, 0, &ext);
    return rc < 0 ? rc
                  : add_eof_accept_or_broken_event(m, v, node, B_BROKEN, ext);
}

int b_on_send(struct maker *m, const uint8_t *p)
{
    struct ips_rec_io r;
    memcpy(&r, p, sizeof(r));
    struct interval v;
    decode_io_interval(m, &r, true, &v);
    struct build *b = m->b;
    if (v.blocked)
        b_add_wait_to_sums_and_rows(
            m, r.err == EINTR ? IPS_WAIT_SIGNAL : IPS_WAIT_PEER, v.blocked_ns);
    if (r.op == IPS_OP_CONNECT)
        return on_connect(m, &r, &v);
    if (r.err || r.result < 0)
        b_add_sleep_of_call_if_unexplained(m, &v, r.err);
    if (r.err == EPIPE || r.err == ECONNRESET)
        return b_add_broken_channel_node(m, &v);
    bool datagram = v.end != IPS_NONE && b->ends[v.end].datagram;
    if (r.err || r.result < 0 || (r.result == 0 && !datagram))
        return 0;
    int rc = 0;
    if (datagram && m->have_dgram && m->dgram.h.a == r.h.a)
        rc = b_find_or_add_flow(b, v.end, &m->dgram.remote, &v.end);
    if (rc < 0)
        return rc;
    uint32_t node;
    if (v.blocked) {
        node =
            b_add_call_node(b, IPS_NODE_SEND, v.cpu, v.t, v.blocked_ns, v.end);
        uint32_t z =
            b_add_node(b, IPS_NODE_AUX, v.cpu_ret, v.t_ret, v.cpu_ret, v.end);
        b->out->g.wait[z] = v.blocked_ns;
    } else {
        node = b_add_node(b, IPS_NODE_SEND, v.cpu_ret, v.t, v.cpu, v.end);
    }
    if (v.end == IPS_NONE)
        return 0;
    b_flush_plain_sends_of_end(m, v.end);
    set_last_send_of_end(m, &v, node);
    rc = count_traffic(m, &v, (uint64_t)r.result, B_SEND);
    if (rc < 0)
        return rc;
    if (datagram)
        return b_append_datagrams_of_call(m, &r, &v, node, B_SEND, IPS_NONE);
    return add_send(m, &r, &v, node);
}

static inline int add_data_receive(struct maker *m, const struct ips_rec_io *r,
                                   const struct interval *v, uint32_t node,
                                   uint64_t slept)
{
    struct build *b = m->b;
    bool datagram = b->ends[v->end].datagram;
    uint32_t ext = IPS_NONE;
    int rc = count_traffic(m, v, (uint64_t)r->result, B_RECV);
    if (rc == 0)
        rc = append_external(m, v, node, 0, (uint64_t)r->result, slept, &ext);
    if (rc < 0)
        return rc;
    if (datagram)
        return b_append_datagrams_of_call(m, r, v, node, B_RECV, ext);
    return add_byte_receive(m, r, v, node);
}

static int add_receive_of_eof_or_accept(struct maker *m,
                                        const struct ips_rec_io *r,
                                        const struct interval *v, uint32_t node,
                                        uint64_t slept)
{
    bool accept = r->op == IPS_OP_ACCEPT;
    uint32_t ext;
    int rc = append_external(m, v, node, accept ? IPS_POS_SYN : IPS_POS_EOF, 0,
                             slept, &ext);
    if (rc < 0 || m->b->out->ends[v->end].kind == IPS_CHAN_USER)
        return rc;
    return add_eof_accept_or_broken_event(m, v, node, accept ? B_ACCEPT : B_EOF,
                                          ext);
}

int b_on_recv(struct maker *m, const uint8_t *p)
{
    struct ips_rec_io r;
    memcpy(&r, p, sizeof(r));
    struct interval v;
    decode_io_interval(m, &r, false, &v);
    struct build *b = m->b;
    bool datagram = v.end != IPS_NONE && b->ends[v.end].datagram;
    uint64_t slept = v.blocked ? v.blocked_ns : 0;
    if (v.blocked)
        b_add_wait_to_sums_and_rows(m, IPS_WAIT_PEER, v.blocked_ns);
    if (r.result < 0 || r.err) {
        b_add_sleep_of_call_if_unexplained(m, &v, r.err);
        return 0;
    }
    struct spin spin = {0};
    if (m->spin.elapsed_ns)
        spin = b_pop_and_count_spin_before_call(m, &v);
    if (!is_receive_of_pending_poll(m, &r, &v)) {
        b_end_wait_at_poll_node(m);
    } else if (b_merge_poll_into_receive_if_adjacent(m, &v)) {
        slept += m->wait.blocked_ns;
        b_count_pending_wait_as_wait_of_call(m, &v, IPS_WAIT_PEER, &spin);
    }
    slept += spin.elapsed_ns;
    int rc = 0;
    if (datagram && m->have_dgram && m->dgram.h.a == r.h.a)
        rc = b_find_or_add_flow(b, v.end, &m->dgram.remote, &v.end);
    if (rc < 0)
        return rc;
    uint32_t node =
        b_add_node(b, IPS_NODE_RECV, v.cpu, v.t_ret, v.cpu_ret, v.end);
    b->out->g.wait[node] = slept;
    rc = spin.burnt ? b_append_spin_and_lower_node_cpu(m, node, &spin) : 0;
    if (rc < 0)
        return rc;
    if (v.end == IPS_NONE) {
        b->out->counts.unmatched++;
        return 0;
    }
    if ((r.result > 0 && r.op != IPS_OP_ACCEPT) || datagram)
        return add_data_receive(m, &r, &v, node, slept);
    widen_time_span_of_channel_end(m, &v);
    return add_receive_of_eof_or_accept(m, &r, &v, node, slept);
}

int b_add_wait_of_failed_receive(struct maker *m, const uint8_t *p)
{
    struct ips_rec_io r;
    memcpy(&r, p, sizeof(r));
    struct interval v;
    decode_io_interval(m, &r, false, &v);
    if (v.blocked) /* if a signal handler ended the wait, it was not idle */
        b_add_wait_to_sums_and_rows(
            m, r.err == EINTR ? IPS_WAIT_SIGNAL : IPS_WAIT_IDLE, v.blocked_ns);
    b_add_sleep_of_call_if_unexplained(m, &v, r.err);
    b_end_pending_wait_as_idle(m);
    return r.err == ECONNRESET || r.err == EPIPE
               ? b_add_broken_channel_node(m, &v)
               : 0;
}

/* ---- waits without bytes ---- */

/* Makes the nodes of a wait that no recorded thread ends (timer, disk): the
 * call and the return, with an external arc between them. */
static int make_external_wait_nodes(struct maker *m, const struct interval *v,
                                    enum ips_wait_cause cause)
{
    uint32_t a = b_add_call_node(m->b, IPS_NODE_AUX, v->cpu, v->t,
                                 v->blocked_ns, IPS_NONE);
    uint64_t asleep = b_get_sleep_ns_incl_stop_if_call_went_on(m, v);
    int rc = b_make_node_of_stop_within_call(m);
    if (rc < 0)
        return rc;
    uint32_t z = b_add_node(m->b, IPS_NODE_AUX, v->cpu_ret, v->t_ret,
                            v->cpu_ret, IPS_NONE);
    m->b->out->g.wait[z] = v->blocked_ns;
    b_set_cross(m->b, z, a, IPS_X_EXTERNAL, asleep);
    m->b->out->counts.external++;
    b_add_wait_to_sums_and_rows(m, cause, v->blocked_ns);
    return 0;
}

static int on_sleep(struct maker *m, const struct ips_rec_io *r,
                    const struct interval *v)
{
    if (!v->blocked)
        return 0;
    /* A signal ended the sleep: sleep() returns the rest of the time, other
     * calls fail with EINTR. */
    if (v->by_signal && (r->err == EINTR || r->result > 0)) {
        b_add_wait_to_sums_and_rows(m, IPS_WAIT_SIGNAL, v->blocked_ns);
        return 0;
    }
    return b_count_if_nap(m, v)
               ? 0
               : make_external_wait_nodes(m, v, IPS_WAIT_TIMER);
}

static int add_disk_wait_if_blocked(struct maker *m, const struct interval *v)
{
    if (!v->blocked)
        return 0;
    return make_external_wait_nodes(m, v, IPS_WAIT_DISK);
}

enum ips_wait_cause b_get_wait_cause_of_op(uint32_t op)
{
    switch (op) {
    case IPS_OP_SIGWAIT:
    case IPS_OP_SIGNALFD:
        return IPS_WAIT_SIGNAL;
    case IPS_OP_EVENTFD:
        return IPS_WAIT_EVENT;
    case IPS_OP_TIMERFD:
        return IPS_WAIT_TIMER;
    case IPS_OP_CHILD:
        return IPS_WAIT_CHILD;
    case IPS_OP_RESOLVE:
        return IPS_WAIT_RESOLVE;
    case IPS_OP_TERMINAL:
        return IPS_WAIT_TERMINAL;
    default:
        return IPS_WAIT_OTHER;
    }
}

/* Handles a read of a descriptor that is not a channel (signalfd, timerfd,
 * terminal): counts its wait, and takes over the pending wait of a poll for it.
 */
static void count_wait_of_non_channel_read(struct maker *m,
                                           const struct ips_rec_io *r,
                                           struct interval *v,
                                           enum ips_wait_cause cause)
{
    struct spin spin = b_pop_and_count_spin_before_call(m, v);
    uint64_t slept = v->blocked ? v->blocked_ns : 0;
    if (v->blocked)
        b_add_wait_to_sums_and_rows(m, cause, v->blocked_ns);
    if (r->err || r->result < 0) {
        b_add_sleep_of_call_if_unexplained(m, v, r->err);
        b_end_pending_wait_as_idle(m);
    } else if (m->wait.pending && (!m->wait.ready || m->wait.ready == r->h.a ||
                                   (ips_ready_is_signalfd(m->wait.ready) &&
                                    r->op == IPS_OP_SIGNALFD))) {
        slept = ips_add_sat(slept, m->wait.blocked_ns);
        b_count_pending_wait_as_wait_of_call(m, v, cause, &spin);
    }
    m->sigwait_ret = v->t_ret;
    m->sigwait_cpu = v->cpu;
    m->sigwait_slept = slept;
}

/* Handles a wait for children that failed. If SIGCHLD is ignored, wait() blocks
 * until the last child has ended and then fails with ECHILD; that wait gets a
 * node. */
static int on_failed_child_wait(struct maker *m, const struct ips_rec_io *r,
                                const struct interval *v)
{
    struct build *b = m->b;
    if (v->blocked)
        b_add_wait_to_sums_and_rows(
            m, r->err == ECHILD ? IPS_WAIT_CHILD : IPS_WAIT_SIGNAL,
            v->blocked_ns);
    if (r->err != ECHILD)
        b_add_sleep_of_call_if_unexplained(m, v, r->err);
    if (!v->blocked || r->err != ECHILD)
        return 0;
    /* Only a whole build makes the arcs of such failed waits, so the run has to
     * be built again. */
    b->broken |= b->from != NULL;
    int rc = B_MORE(b->vains, b->err);
    if (rc < 0)
        return rc;
    uint32_t node =
        b_add_node(b, IPS_NODE_AUX, v->cpu, v->t_ret, v->cpu_ret, IPS_NONE);
    b->out->g.wait[node] = v->blocked_ns;
    b->vains.v[b->vains.n++] =
        (struct b_failed_child_wait){.t_ret = v->t_ret,
                                     .node = node,
                                     .proc = m->proc,
                                     .pid = IPS_READY_NUMBER(r->ready)};
    return 0;
}

/* If an eventfd or a message queue ended this poll: returns the b_sync that the
 * scan made for it, and advances m->next_sync past it. Otherwise NULL. */
static struct b_sync *
pop_sync_of_poll_ended_by_object(struct maker *m, const struct ips_rec_io *r)
{
    const struct build *b = m->b;
    struct b_sync *s = &b->syncs.v[m->next_sync];
    uint64_t t = b_stamp_to_ns(&m->s->clock, r->h.word, r->h.t);
    uint64_t t_ret = b_stamp_to_ns(&m->s->clock, r->h.word, r->t_ret);
    if (!b_is_poll_ended_by_object(r) || m->next_sync >= b->syncs.n ||
        !s->polled || s->stream != m->s - b->streams ||
        s->t_ret != ips_max_u64(t, t_ret))
        return NULL;
    m->next_sync++;
    return s;
}

int b_make_nodes_of_blocking_call(struct maker *m, const uint8_t *p)
{
    struct ips_rec_io r;
    memcpy(&r, p, sizeof(r));
    struct interval v;
    if (b_is_retry_record(r.op)) {
        b_make_file_event_node_if_needed(m, &r);
        return 0;
    }
    b_decode_interval_and_count_sleep(m, r.h.word, r.h.t, r.t_ret, r.cpu,
                                      r.cpu_ret, &v);
    struct b_sync *object = pop_sync_of_poll_ended_by_object(m, &r);
    if (object) {
        b_count_poll_if_channels_vary(m, &r);
        if (v.blocked && !b_is_nested_epoll_pending(m))
            /* not after a nested epoll: this poll shows why the outer epoll
             * returned, so the pending wait continues */
            b_end_pending_wait_as_idle(m);
        return b_count_event_wait_and_make_node(m, object, &v);
    }
    enum ips_wait_cause cause = b_get_wait_cause_of_op(r.op);
    switch (r.op) {
    case IPS_OP_SLEEP:
        return on_sleep(m, &r, &v);
    case IPS_OP_POLL:
    case IPS_OP_SELECT:
    case IPS_OP_EPOLL:
        return b_on_poll(m, &r, &v);
    case IPS_OP_DISK:
        return add_disk_wait_if_blocked(m, &v);
    case IPS_OP_SPIN:
        b_store_pending_spin(m, &v);
        return 0;
    case IPS_OP_EVENTFD:
    case IPS_OP_TIMERFD:
    case IPS_OP_SIGNALFD:
    case IPS_OP_TERMINAL:
        count_wait_of_non_channel_read(m, &r, &v, cause);
        return 0;
    case IPS_OP_SIGWAIT:
        m->sigwait_ret = v.t_ret;
        m->sigwait_cpu = v.cpu;
        m->sigwait_slept = v.blocked ? v.blocked_ns : 0;
        /* after a success, the SIGNAL record that follows has the sender */
        if (r.result < 0)
            b_add_sleep_of_call_if_unexplained(m, &v, r.err);
        break;
    case IPS_OP_CHILD:
        return on_failed_child_wait(m, &r, &v);
    case IPS_OP_CONNECT: /* the network refused it */
    case IPS_OP_RESOLVE: /* waits for servers that are not traced */
    case IPS_OP_SYSLOG:
        break;
    default:
        if (r.result > 0 && !m->wait.ready) /* the poll waited for what this
                                               call read, not for a channel */
            b_end_pending_wait_as_idle(m);
        b_add_sleep_of_call_if_unexplained(m, &v, r.err);
        break;
    }
    if (v.blocked)
        b_add_wait_to_sums_and_rows(m, cause, v.blocked_ns);
    return 0;
}
