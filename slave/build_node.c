/* Second reading of every record, chain by chain: nodes with their coordinates,
 * waits, and the operations that build_match.c turns into cross arcs. The
 * table in docs/HACKING.md, row by row. */
#include <errno.h>

#include "slave/build_internal.h"

struct wait { /* a blocked poll, select or epoll whose cause is not known yet */
    bool pending;
    uint64_t cpu, blocked_ns;
    uint32_t ready; /* channel id, 0 any */
};

struct maker {
    struct build *b;
    struct b_stream *s;
    struct ips_thread_row *row;
    uint32_t chain, proc;
    uint64_t last_ret; /* returns are in order */
    struct wait wait;
    uint32_t next_fork, next_join;
    bool have_dgram;
    struct ips_rec_dgram dgram;
};

/* An interval record with its times put right. */
struct interval {
    uint64_t t, t_ret, cpu, cpu_ret, blocked_ns;
    bool blocked;
    struct b_chan *chan;
    uint32_t end;
};

uint32_t b_node(struct build *b, enum ips_node_kind kind, uint64_t coord,
                uint64_t t_ns, uint64_t cpu_at, uint32_t site)
{
    struct ips_graph *g = &b->out->g;
    uint32_t i = b->nodes++;
    g->kind[i] = (uint8_t)kind;
    g->w[i] = coord;
    g->t_ns[i] = t_ns;
    b->cpu_at[i] = cpu_at;
    g->site[i] = site;
    return i;
}

static void count_wait(struct maker *m, enum ips_wait_cause cause, uint64_t ns)
{
    m->row->wait_ns[cause] += ns;
    m->row->wait_count[cause]++;
}

static struct interval interval_of(struct maker *m, uint32_t word, uint64_t t,
                                   uint64_t t_ret, uint64_t cpu,
                                   uint64_t cpu_ret)
{
    struct interval v = {.cpu = cpu, .end = IPS_NONE};
    v.t_ret = ips_max_u64(b_time(&m->s->clock, word, t_ret), m->last_ret);
    v.t = ips_min_u64(b_time(&m->s->clock, word, t), v.t_ret);
    v.cpu_ret = ips_max_u64(cpu_ret, cpu);
    v.blocked_ns = b_blocked_ns(v.t, v.t_ret, v.cpu, v.cpu_ret);
    v.blocked = v.blocked_ns >= B_BLOCKED_NS;
    m->last_ret = v.t_ret;
    return v;
}

static struct interval io_interval(struct maker *m, const struct ips_rec_io *r,
                                   bool send)
{
    struct interval v =
        interval_of(m, r->h.word, r->h.t, r->t_ret, r->cpu, r->cpu_ret);
    v.chan = b_chan_find(m->b, m->s->image, r->h.a);
    if (v.chan)
        v.end = send ? v.chan->end_send : v.chan->end_recv;
    return v;
}

/* ---- traffic ---- */

static int traffic_row(struct maker *m, uint32_t end, uint32_t *index)
{
    struct build *b = m->b;
    struct b_end *e = &b->ends[end];
    if (e->traffic_proc == m->proc) {
        *index = e->traffic;
        return 0;
    }
    /* Chains come process by process, so each pair comes once. */
    uint32_t n = b->out->traffic_count;
    int rc = n < b->traffic_room
                 ? 0
                 : b_grow((void **)&b->out->traffic, n, &b->traffic_room,
                          sizeof(*b->out->traffic), b->err);
    if (rc == 0)
        rc = B_MORE(b->traffic_last, b->err);
    if (rc < 0)
        return rc;
    b->out->traffic[n] = (struct ips_traffic){.end = end, .process = m->proc};
    b->out->traffic_count = n + 1;
    b->traffic_last.v[b->traffic_last.n++] = 0;
    e->traffic_proc = m->proc;
    e->traffic = n;
    *index = n;
    return 0;
}

static int count_traffic(struct maker *m, const struct interval *v,
                         uint64_t len, bool send)
{
    struct build *b = m->b;
    uint32_t k;
    int rc = traffic_row(m, v->end, &k);
    if (rc < 0)
        return rc;
    struct ips_traffic *row = &b->out->traffic[k];
    struct ips_end *end = &b->out->ends[v->end];
    b->traffic_last.v[k] = ips_max_u64(b->traffic_last.v[k], v->t_ret);
    *(send ? &row->sent_bytes : &row->recv_bytes) += len;
    *(send ? &row->sent_messages : &row->recv_messages) += 1;
    *(send ? &end->sent_bytes : &end->recv_bytes) += len;
    *(send ? &end->sent_messages : &end->recv_messages) += 1;
    *(send ? &m->row->bytes_out : &m->row->bytes_in) += len;
    *(send ? &m->row->messages_out : &m->row->messages_in) += 1;
    return 0;
}

static void end_seen(struct maker *m, const struct interval *v)
{
    struct ips_end *end = &m->b->out->ends[v->end];
    end->first_ns = ips_min_u64(end->first_ns, v->t);
    end->last_ns = ips_max_u64(end->last_ns, v->t_ret);
}

/* ---- pending waits ---- */

static void wait_idle(struct maker *m)
{
    if (!m->wait.pending)
        return;
    m->wait.pending = false;
    m->b->out->counts.idle++;
    count_wait(m, IPS_WAIT_IDLE, m->wait.blocked_ns);
}

/* Is the pending wait one for this receive? `ready`, where it is known, is its
 * channel: that of the listening socket for an accept. */
static bool wait_fits(const struct maker *m, const struct ips_rec_io *r,
                      const struct interval *v)
{
    uint32_t ready = m->wait.ready;
    if (!m->wait.pending)
        return false;
    if (ready == 0 || ready == r->h.a)
        return true;
    const struct b_chan *c = b_chan_find(m->b, m->s->image, ready);
    if (!c)
        return false;
    if (r->op == IPS_OP_ACCEPT)
        return c->end_recv != IPS_NONE && m->b->ends[c->end_recv].listen;
    return c->end_recv != IPS_NONE && c->end_recv == v->end;
}

/* ---- operations ---- */

static int add_dgram(struct maker *m, const struct ips_rec_io *r,
                     const struct interval *v, uint32_t node, uint8_t dir,
                     uint32_t ext)
{
    struct build *b = m->b;
    int rc = B_MORE(b->dgrams, b->err);
    if (rc < 0)
        return rc;
    struct b_dgram *d = &b->dgrams.v[b->dgrams.n++];
    *d = (struct b_dgram){.t = v->t,
                          .t_ret = v->t_ret,
                          .len = (uint64_t)r->result,
                          .node = node,
                          .end = v->end,
                          .ext = ext,
                          .twin = IPS_NONE,
                          .local = b->ends[v->end].laddr,
                          .remote = b->ends[v->end].raddr,
                          .dir = dir};
    if (m->have_dgram && m->dgram.h.a == r->h.a) {
        d->hash = m->dgram.hash;
        d->path_hash = m->dgram.path_hash;
        if (m->dgram.local.port)
            d->local = m->dgram.local;
        if (m->dgram.remote.port)
            d->remote = m->dgram.remote;
    }
    return 0;
}

static int add_op(struct maker *m, const struct ips_rec_io *r,
                  const struct interval *v, uint32_t node, uint8_t dir,
                  uint32_t ext)
{
    struct build *b = m->b;
    int rc = B_MORE(b->ops, b->err);
    if (rc < 0)
        return rc;
    b->ops.v[b->ops.n++] = (struct b_op){
        .t = v->t,
        .t_ret = v->t_ret,
        .len = (uint64_t)r->result,
        .node = node,
        .chain = m->chain,
        .end = v->end,
        .ext = ext,
        .dir = dir,
    };
    return 0;
}

static int add_event(struct maker *m, const struct interval *v, uint32_t node,
                     enum b_event_kind kind, uint32_t ext)
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

/* What DPM-4 needs of a receive whose sender may not be here. */
static int add_ext(struct maker *m, const struct interval *v, uint32_t node,
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
    bool asked = e->send_chain == m->chain;
    b->exts.v[b->exts.n++] = (struct b_ext){
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

static void sent_here(struct maker *m, const struct interval *v, uint32_t node)
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
    end_seen(m, v);
    uint32_t node = b_node(m->b, IPS_NODE_SEND, v->cpu, v->t, v->cpu, v->end);
    if (m->b->ends[v->end].connect_node == IPS_NO_NODE)
        m->b->ends[v->end].connect_node = node;
    sent_here(m, v, node);
    return 0;
}

static int on_broken(struct maker *m, const struct interval *v)
{
    if (v->end == IPS_NONE || m->b->ends[v->end].datagram)
        return 0;
    uint32_t node = b_node(m->b, IPS_NODE_AUX, v->cpu, v->t_ret, v->cpu_ret, v->end), ext;
    int rc = add_ext(m, v, node, IPS_POS_EOF, 0, 0, &ext);
    return rc < 0 ? rc : add_event(m, v, node, B_BROKEN, ext);
}

static int on_send(struct maker *m, const uint8_t *p)
{
    struct ips_rec_io r;
    memcpy(&r, p, sizeof(r));
    struct interval v = io_interval(m, &r, true);
    struct build *b = m->b;
    if (v.blocked)
        count_wait(m, IPS_WAIT_PEER, v.blocked_ns);
    if (r.op == IPS_OP_CONNECT)
        return on_connect(m, &r, &v);
    if (r.err == EPIPE || r.err == ECONNRESET)
        return on_broken(m, &v);
    bool datagram = v.end != IPS_NONE && b->ends[v.end].datagram;
    if (r.err || r.result < 0 || (r.result == 0 && !datagram))
        return 0;
    int rc = 0;
    if (datagram && m->have_dgram && m->dgram.h.a == r.h.a)
        rc = b_flow(b, v.end, &m->dgram.remote, &v.end);
    if (rc < 0)
        return rc;
    uint32_t node =
        b_node(b, IPS_NODE_SEND, v.blocked ? v.cpu : v.cpu_ret, v.t,
                           v.cpu, v.end);
    if (v.blocked)
        b_node(b, IPS_NODE_AUX, v.cpu_ret, v.t_ret, v.cpu_ret, v.end);
    if (v.end == IPS_NONE)
        return 0;
    end_seen(m, &v);
    sent_here(m, &v, node);
    rc = count_traffic(m, &v, (uint64_t)r.result, true);
    if (rc < 0)
        return rc;
    return datagram ? add_dgram(m, &r, &v, node, B_SEND, IPS_NONE)
                    : add_op(m, &r, &v, node, B_SEND, v.blocked);
}

static int recv_bytes(struct maker *m, const struct ips_rec_io *r,
                      const struct interval *v, uint32_t node, uint64_t slept)
{
    struct build *b = m->b;
    bool datagram = b->ends[v->end].datagram;
    uint32_t ext;
    int rc = count_traffic(m, v, (uint64_t)r->result, false);
    if (rc == 0)
        rc = add_ext(m, v, node, 0, (uint64_t)r->result, slept, &ext);
    if (rc < 0)
        return rc;
    return datagram ? add_dgram(m, r, v, node, B_RECV, ext)
                    : add_op(m, r, v, node, B_RECV, ext);
}

static int recv_nothing(struct maker *m, const struct ips_rec_io *r,
                        const struct interval *v, uint32_t node, uint64_t slept)
{
    bool accept = r->op == IPS_OP_ACCEPT;
    uint32_t ext;
    int rc =
        add_ext(m, v, node, accept ? IPS_POS_SYN : IPS_POS_EOF, 0, slept, &ext);
    if (rc < 0 || m->b->out->ends[v->end].kind == IPS_CHAN_USER)
        return rc;
    return add_event(m, v, node, accept ? B_ACCEPT : B_EOF, ext);
}

static int on_recv(struct maker *m, const uint8_t *p)
{
    struct ips_rec_io r;
    memcpy(&r, p, sizeof(r));
    struct interval v = io_interval(m, &r, false);
    struct build *b = m->b;
    bool datagram = v.end != IPS_NONE && b->ends[v.end].datagram;
    uint64_t coord = v.cpu, slept = v.blocked ? v.blocked_ns : 0;
    if (v.blocked)
        count_wait(m, IPS_WAIT_PEER, v.blocked_ns);
    if (r.result < 0 || r.err)
        return 0;
    if (wait_fits(m, &r, &v)) {
        coord = ips_min_u64(coord, m->wait.cpu);
        slept += m->wait.blocked_ns;
        count_wait(m, IPS_WAIT_PEER, m->wait.blocked_ns);
        m->wait.pending = false;
    }
    int rc = 0;
    if (datagram && m->have_dgram && m->dgram.h.a == r.h.a)
        rc = b_flow(b, v.end, &m->dgram.remote, &v.end);
    if (rc < 0)
        return rc;
    uint32_t node = b_node(b, IPS_NODE_RECV, coord, v.t_ret, v.cpu_ret, v.end);
    if (v.end == IPS_NONE) {
        b->out->counts.unmatched++;
        return 0;
    }
    end_seen(m, &v);
    return (r.result > 0 && r.op != IPS_OP_ACCEPT) || datagram
               ? recv_bytes(m, &r, &v, node, slept)
               : recv_nothing(m, &r, &v, node, slept);
}

static int on_recvcall(struct maker *m, const uint8_t *p)
{
    struct ips_rec_io r;
    memcpy(&r, p, sizeof(r));
    struct interval v = io_interval(m, &r, false);
    if (v.blocked)
        count_wait(m, IPS_WAIT_IDLE, v.blocked_ns);
    wait_idle(m);
    return r.err == ECONNRESET || r.err == EPIPE ? on_broken(m, &v) : 0;
}

/* ---- waits without bytes ---- */

static void on_sleep(struct maker *m, const struct interval *v)
{
    if (!v->blocked)
        return;
    count_wait(m, IPS_WAIT_TIMER, v->blocked_ns);
    uint32_t a = b_node(m->b, IPS_NODE_AUX, v->cpu, v->t, v->cpu, IPS_NONE);
    uint32_t z = b_node(m->b, IPS_NODE_AUX, v->cpu_ret, v->t_ret, v->cpu_ret,
                        IPS_NONE);
    b_cross(m->b, z, a, IPS_X_EXTERNAL, v->blocked_ns);
    m->b->out->counts.external++;
}

static void on_poll(struct maker *m, const struct ips_rec_io *r,
                    const struct interval *v)
{
    wait_idle(m); /* no sleep is carried past the next wait */
    if (!v->blocked)
        return;
    if (r->err || r->result < 0) {
        count_wait(m, IPS_WAIT_SIGNAL, v->blocked_ns);
    } else if (r->result == 0) {
        m->b->out->counts.idle++;
        count_wait(m, IPS_WAIT_TIMER, v->blocked_ns);
    } else {
        m->wait = (struct wait){.pending = true,
                                .cpu = v->cpu,
                                .blocked_ns = v->blocked_ns,
                                .ready = r->ready};
    }
}

static enum ips_wait_cause wait_cause(uint16_t op)
{
    switch (op) {
    case IPS_OP_SIGWAIT:
    case IPS_OP_SIGNALFD:
        return IPS_WAIT_SIGNAL;
    case IPS_OP_EVENTFD:
        return IPS_WAIT_EVENT;
    case IPS_OP_TIMERFD:
        return IPS_WAIT_TIMER;
    case IPS_OP_RESOLVE:
        return IPS_WAIT_RESOLVE;
    default:
        return IPS_WAIT_OTHER;
    }
}

static void on_block(struct maker *m, const uint8_t *p)
{
    struct ips_rec_io r;
    memcpy(&r, p, sizeof(r));
    struct interval v =
        interval_of(m, r.h.word, r.h.t, r.t_ret, r.cpu, r.cpu_ret);
    enum ips_wait_cause cause = wait_cause(r.op);
    switch (r.op) {
    case IPS_OP_SLEEP:
        on_sleep(m, &v);
        return;
    case IPS_OP_POLL:
    case IPS_OP_SELECT:
    case IPS_OP_EPOLL:
        on_poll(m, &r, &v);
        return;
    case IPS_OP_EVENTFD:
    case IPS_OP_TIMERFD:
    case IPS_OP_SIGNALFD:
        if (r.err || r.result < 0) {
            wait_idle(m);
        } else if (m->wait.pending &&
                   (!m->wait.ready || m->wait.ready == r.h.a)) {
            count_wait(m, cause, m->wait.blocked_ns);
            m->wait.pending = false;
        }
        break;
    default:
        break;
    }
    if (v.blocked)
        count_wait(m, cause, v.blocked_ns);
}

/* ---- closes, processes ---- */

static int add_hold(struct maker *m, enum b_hold_kind kind, uint64_t t,
                    uint32_t arg, uint32_t node, uint32_t how)
{
    struct build *b = m->b;
    int rc = B_MORE(b->holds, b->err);
    if (rc < 0)
        return rc;
    b->holds.v[b->holds.n] = (struct b_hold){.t = t,
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
    uint64_t t = b_time(&m->s->clock, r.h.word, r.h.t);
    const struct b_chan *c = b_chan_find(b, m->s->image, r.h.a);
    if (!c || r.how < IPS_CLOSE_FD || r.how > IPS_CLOSE_SHUT_RDWR)
        return 0;
    uint32_t end = c->end_send != IPS_NONE ? c->end_send : c->end_recv;
    if (end == IPS_NONE || b->ends[end].datagram || b->ends[end].listen)
        return 0;
    uint32_t node = b_node(b, IPS_NODE_AUX, r.cpu, t, r.cpu, end);
    return add_hold(m, B_HOLD_CLOSE, t, (uint32_t)(c - b->chans.v), node,
                    r.how);
}

static int on_exec(struct maker *m, const uint8_t *p)
{
    struct ips_rec_exec r;
    memcpy(&r, p, sizeof(r));
    uint64_t t = b_time(&m->s->clock, r.h.word, r.h.t);
    if (!m->s->exec_last || t != m->s->exec_ns)
        return 0; /* it failed */
    uint32_t node = b_node(m->b, IPS_NODE_AUX, r.cpu, t, r.cpu, IPS_NONE);
    return add_hold(m, B_HOLD_EXEC, t, m->s->image, node, 0);
}

/* Does the parent sleep in the call until the child has its own image? */
static bool fork_waits(uint8_t kind)
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
    if (fork_waits(f->kind)) {
        uint64_t slept = b_blocked_ns(f->t, f->t_ret, f->cpu, f->cpu_ret);
        if (slept >= B_BLOCKED_NS)
            count_wait(m, IPS_WAIT_CHILD, slept);
        f->node = b_node(b, IPS_NODE_FORK, f->cpu, f->t, f->cpu, IPS_NONE);
        b_node(b, IPS_NODE_AUX, f->cpu_ret, f->t_ret, f->cpu_ret, IPS_NONE);
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
    f->node = b_node(b, IPS_NODE_FORK, coord, f->t, f->cpu, IPS_NONE);
}

static void on_join(struct maker *m, const uint8_t *p)
{
    struct ips_rec_join r;
    memcpy(&r, p, sizeof(r));
    struct interval v =
        interval_of(m, r.h.word, r.h.t, r.t_ret, r.cpu, r.cpu_ret);
    struct b_join *j = &m->b->joins.v[m->next_join++];
    if (v.blocked)
        count_wait(m, IPS_WAIT_CHILD, v.blocked_ns);
    j->node = b_node(m->b, IPS_NODE_JOIN, v.cpu, v.t_ret, v.cpu_ret, IPS_NONE);
}

/* ---- chains ---- */

static int make_node(struct maker *m, uint32_t type, const uint8_t *p)
{
    int rc = 0;
    switch (type) {
    case IPS_REC_SEND:
        rc = on_send(m, p);
        break;
    case IPS_REC_RECV:
        rc = on_recv(m, p);
        break;
    case IPS_REC_RECVCALL:
        rc = on_recvcall(m, p);
        break;
    case IPS_REC_BLOCK:
        on_block(m, p);
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
    case IPS_REC_DGRAM:
        memcpy(&m->dgram, p, sizeof(m->dgram));
        m->have_dgram = true;
        return 0;
    default:
        return 0;
    }
    m->have_dgram = false;
    return rc;
}

/* START, and for a spawned child the moment its image began. */
static void begin_chain(struct maker *m)
{
    struct build *b = m->b;
    struct b_chain *c = &b->chains[m->chain];
    const struct b_stream *s = &b->streams[c->first_stream];
    uint64_t start = s->start_kind ? s->start_ns : s->first_ns;
    bool known = c->fork != IPS_NONE || s->start_kind == IPS_START_FORK ||
                 s->start_kind == IPS_START_THREAD;
    c->base = known ? 0 : s->start_kind ? s->start_cpu : s->first_cpu;
    b_node(b, IPS_NODE_START, c->base, start, c->base, IPS_NONE);
    if (c->fork == IPS_NONE || s->start_kind != IPS_START_IMAGE)
        return;
    const struct b_fork *f = &b->forks.v[c->fork];
    if (fork_waits(f->kind))
        c->image_aux =
            b_node(b, IPS_NODE_AUX,
                   ips_min_u64(s->start_cpu, ips_sub_sat(f->t_ret, f->t)),
                   start, s->start_cpu, IPS_NONE);
}

static int make_chain(struct maker *m)
{
    struct build *b = m->b;
    struct ips_chain *chain = &b->out->g.chains[m->chain];
    struct b_chain *c = &b->chains[m->chain];
    uint64_t last_ns = 0, last_cpu = 0;
    chain->first = b->nodes;
    begin_chain(m);
    for (uint32_t i = c->first_stream; i != IPS_NONE; i = b->streams[i].next) {
        struct b_walk walk = {.in = b->streams[i].in};
        uint32_t type, len;
        const uint8_t *p;
        m->s = &b->streams[i];
        m->next_fork = m->s->first_fork;
        m->next_join = m->s->first_join;
        m->have_dgram = false;
        while ((p = b_next(&walk, &type, &len))) {
            int rc = make_node(m, type, p);
            if (rc < 0)
                return rc;
        }
        wait_idle(m);
        last_ns = ips_max_u64(last_ns, m->s->last_ns);
        last_cpu = ips_max_u64(last_cpu, m->s->last_cpu);
    }
    m->row->start_ns = b->out->g.t_ns[chain->first];
    m->row->end_ns = last_ns;
    c->settled = last_cpu;
    b_node(b, IPS_NODE_END, last_cpu, last_ns, last_cpu, IPS_NONE);
    chain->count = b->nodes - chain->first;
    return 0;
}

int b_nodes(struct build *b)
{
    struct ips_graph *g = &b->out->g;
    b->cpu_at = b_calloc(b->node_room, sizeof(*b->cpu_at), b->err);
    if (!b->cpu_at)
        return IPS_E_NO_MEMORY;
    for (uint32_t c = 0; c < g->chain_count; c++) {
        struct maker m = {.b = b,
                          .row = &b->out->threads[c],
                          .chain = c,
                          .proc = g->chains[c].process};
        m.row->process = m.proc;
        m.row->tid = g->chains[c].tid;
        m.row->chain = c;
        int rc = make_chain(&m);
        if (rc < 0)
            return rc;
    }
    g->node_count = b->nodes;
    return 0;
}
