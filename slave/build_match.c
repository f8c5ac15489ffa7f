/* Operations of the two ends of a stream -> cross arcs; forks and joins. */
#include "slave/build_internal.h"

/* ---- order of operations ---- */

static uint64_t call_of(const struct build *b, const struct b_op *op)
{
    return op->key & 1 ? op->other : b->out->g.t_ns[op->node];
}

static uint64_t return_of(const struct build *b, const struct b_op *op)
{
    return op->key & 1 ? b->out->g.t_ns[op->node] : op->other;
}

static int cmp_op(const void *va, const void *vb, void *arg)
{
    const struct b_op *x = va, *y = vb;
    CMP3(return_of(arg, x), return_of(arg, y));
    CMP3(call_of(arg, x), call_of(arg, y));
    CMP3(x->node, y->node);
    return 0;
}

static bool in_order(const struct build *b, const struct b_op *v, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++)
        if (return_of(b, &v[i - 1]) > return_of(b, &v[i]))
            return false;
    return true;
}

/* Moves the operations of each end and direction together, in order of return:
 * by end, in the order they were met, which is that of returns where they are
 * one chain's. They are moved, not indexed: what follows reads them end by end,
 * and through an index nearly each would be a cache miss. */
static int order_ops(struct build *b)
{
    uint32_t keys = b->out->end_count * 2, first = 0;
    uint32_t *at = b_calloc((size_t)keys + 1, sizeof(*at), b->err);
    struct b_op *sorted =
        ips_calloc_large((size_t)b->ops.n + 1, sizeof(*sorted));
    if (!at || !sorted) {
        ips_free_large(at);
        ips_free_large(sorted);
        return ips_err_set(b->err, IPS_E_NO_MEMORY, "%u operations", b->ops.n);
    }
    for (uint32_t k = 0; k < keys; k++) {
        at[k] = b->ends[k / 2].first_op[k & 1] = first;
        first += b->ends[k / 2].op_count[k & 1];
    }
    for (uint32_t i = 0; i < b->ops.n; i++)
        sorted[at[b->ops.v[i].key]++] = b->ops.v[i];
    ips_free_large(at);
    ips_free_large(b->ops.v);
    b->ops.v = sorted;
    b->ops.room = b->ops.n;
    for (uint32_t k = 0; k < keys; k++) {
        const struct b_end *e = &b->ends[k / 2];
        struct b_op *v = sorted + e->first_op[k & 1];
        uint32_t n = e->op_count[k & 1];
        if (e->op_many[k & 1] && !in_order(b, v, n))
            qsort_r(v, n, sizeof(*v), cmp_op, b);
    }
    return 0;
}

static struct b_op *op_at(const struct build *b, uint32_t end, int dir,
                          uint32_t i)
{
    return &b->ops.v[b->ends[end].first_op[dir] + i];
}

/* Writes of different threads that overlap: which of them came first is a
 * guess. */
static void count_ambiguous(struct build *b, uint32_t end)
{
    const struct b_end *e = &b->ends[end];
    for (uint32_t i = 1; i < e->op_count[B_SEND] && e->op_many[B_SEND]; i++) {
        const struct b_op *before = op_at(b, end, B_SEND, i - 1);
        const struct b_op *op = op_at(b, end, B_SEND, i);
        if (before->chain != op->chain && return_of(b, before) > call_of(b, op))
            b->out->counts.ambiguous++;
    }
}

/* The positions of receives whose sender may be elsewhere. */
static void position_exts(struct build *b, uint32_t end)
{
    const struct b_end *e = &b->ends[end];
    uint64_t pos = e->recv_before;
    for (uint32_t i = 0; i < e->op_count[B_RECV] && !e->local; i++) {
        const struct b_op *op = op_at(b, end, B_RECV, i);
        pos = ips_add_sat(pos, op->len);
        if (op->ext != IPS_NONE)
            b->exts.v[op->ext].pos = b_pos(pos);
    }
}

/* ---- tokens ---- */

/* Processes that moved bytes through an end in direction `dir` (at most `max`,
 * each once); 0 where an operation was not of one byte. */
static uint32_t one_byte_users(const struct build *b, uint32_t end, int dir,
                               uint32_t *procs, uint32_t max)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < b->ends[end].op_count[dir]; i++) {
        const struct b_op *op = op_at(b, end, dir, i);
        uint32_t p = b->out->g.chains[op->chain].process, k = 0;
        if (op->len != 1)
            return 0;
        while (k < n && procs[k] != p)
            k++;
        if (k == n && n < max)
            procs[n++] = p;
    }
    return n;
}

/* A pipe through which at least two processes both take and give single bytes
 * carries tokens - make's jobserver -, not data: which of them one gets is
 * incidental. */
static bool carries_tokens(const struct build *b, uint32_t from, uint32_t to)
{
    enum { MAX = 64 };
    uint32_t give[MAX], take[MAX], both = 0;
    if (b->out->ends[to].kind != IPS_CHAN_PIPE)
        return false;
    uint32_t givers = one_byte_users(b, from, B_SEND, give, MAX);
    uint32_t takers = givers > 1 ? one_byte_users(b, to, B_RECV, take, MAX) : 0;
    for (uint32_t i = 0; i < givers; i++)
        for (uint32_t k = 0; k < takers; k++)
            both += give[i] == take[k];
    return both > 1;
}

/* ---- one direction of a local channel ---- */

static void match_data(struct build *b, uint32_t from, uint32_t to)
{
    uint32_t sends = b->ends[from].op_count[B_SEND];
    uint32_t recvs = b->ends[to].op_count[B_RECV];
    const struct b_op *send = op_at(b, from, B_SEND, 0), *end = send + sends;
    const struct b_op *recv = op_at(b, to, B_RECV, 0);
    const struct b_op *before = NULL, *before_send = NULL;
    uint64_t read = b->ends[to].recv_before, sent = b->ends[from].sent_before;
    bool tokens = carries_tokens(b, from, to);
    bool many = b->ends[to].op_many[B_RECV];
    sent = send < end ? ips_add_sat(sent, send->len) : sent;
    for (uint32_t r = 0; r < recvs; r++, recv++) {
        read = ips_add_sat(read, recv->len);
        while (send < end && b_pos(sent) < b_pos(read))
            sent = ++send < end ? ips_add_sat(sent, send->len) : sent;
        if (send == end || b_pos(read) <= ips_sub_sat(b_pos(sent), send->len)) {
            if (b->out->ends[from].closed)
                b->out->counts.unmatched++;
            else
                b->out->counts.pending++;
            continue;
        }
        if (tokens) {
            if (recv->ext)
                b_cross(b, recv->node, send->node, IPS_X_RESOURCE,
                        IPS_THING_TOKEN);
            b->out->counts.any += recv->ext;
            continue;
        }
        /* Two readers at once: which was first matters where their bytes came
         * from different sends. */
        if (many && before && before->chain != recv->chain &&
            return_of(b, before) > call_of(b, recv) && before_send != send)
            b->out->counts.ambiguous++;
        before_send = send;
        before = recv;
        b_cross(b, recv->node, send->node, IPS_X_DATA, recv->len);
    }
}

/* What a pipe holds at the least. A send that leaves no more than this unread
 * did not wait for room: it slept because somebody else had the CPU. */
#define ROOM_ALWAYS_BYTES 4096u

/* A send that was only preempted sits where one that did not block does. */
static void not_for_room(struct build *b, const struct b_op *send)
{
    struct ips_graph *g = &b->out->g;
    struct ips_thread_row *row = &b->out->threads[send->chain];
    uint64_t slept = b_blocked_ns(call_of(b, send), return_of(b, send),
                                  g->w[send->node], g->w[send->node + 1]);
    row->wait_ns[IPS_WAIT_PEER] =
        ips_sub_sat(row->wait_ns[IPS_WAIT_PEER], slept);
    row->wait_count[IPS_WAIT_PEER] -= row->wait_count[IPS_WAIT_PEER] > 0;
    if (b->notes)
        b_waits_drop(b, send->node + 1);
    g->w[send->node] = g->w[send->node + 1];
}

/* A send that blocked for room returned when the last receive before its return
 * made some. */
static void match_room(struct build *b, uint32_t from, uint32_t to)
{
    uint32_t sends = b->ends[from].op_count[B_SEND];
    uint32_t recvs = b->ends[to].op_count[B_RECV], r = 0, got = 0;
    uint64_t read = b->ends[to].recv_before, sent = b->ends[from].sent_before;
    for (uint32_t s = 0; s < sends && b->ends[from].send_blocked; s++) {
        const struct b_op *send = op_at(b, from, B_SEND, s), *recv;
        sent = ips_add_sat(sent, send->len);
        for (; got < recvs; got++) {
            recv = op_at(b, to, B_RECV, got);
            if (return_of(b, recv) > call_of(b, send))
                break;
            read = ips_add_sat(read, recv->len);
        }
        while (r < recvs &&
               return_of(b, op_at(b, to, B_RECV, r)) <= return_of(b, send))
            r++;
        if (send->ext != 1)
            continue;
        if (ips_sub_sat(b_pos(sent), b_pos(read)) <= ROOM_ALWAYS_BYTES)
            not_for_room(b, send);
        else if (r > 0)
            b_cross(b, send->node + 1, op_at(b, to, B_RECV, r - 1)->node,
                    IPS_X_ROOM, 0);
    }
}

/* The other end is elsewhere: what it has read is not known here. */
static void room_of_far_end(struct build *b, uint32_t from)
{
    uint32_t sends = b->ends[from].op_count[B_SEND];
    for (uint32_t s = 0; s < sends && b->ends[from].send_blocked; s++) {
        const struct b_op *send = op_at(b, from, B_SEND, s);
        if (send->ext == 1 && send->len <= ROOM_ALWAYS_BYTES)
            not_for_room(b, send);
    }
}

int b_match(struct build *b)
{
    int rc = order_ops(b);
    if (rc < 0)
        return rc;
    for (uint32_t i = 0; i < b->out->end_count; i++) {
        count_ambiguous(b, i);
        position_exts(b, i);
    }
    for (uint32_t to = 0; to < b->out->end_count; to++) {
        uint32_t from = b->out->ends[to].peer_end;
        if (!b->ends[to].local || b->ends[to].datagram)
            continue;
        match_data(b, from, to);
        match_room(b, from, to);
    }
    for (uint32_t i = 0; i < b->out->end_count; i++)
        if (!b->ends[i].local && !b->ends[i].datagram)
            room_of_far_end(b, i);
    for (uint32_t i = 0; i < b->out->end_count; i++) {
        b->out->ends[i].sent_bytes =
            ips_add_sat(b->out->ends[i].sent_bytes, b->ends[i].sent_before);
        b->out->ends[i].recv_bytes =
            ips_add_sat(b->out->ends[i].recv_bytes, b->ends[i].recv_before);
    }
    return 0;
}

/* ---- receives of no bytes ---- */

static void match_event(struct build *b, const struct b_event *e)
{
    uint32_t from = b->out->ends[e->end].peer_end, node = IPS_NO_NODE;
    if (!b->ends[e->end].local)
        return; /* its b_ext says the rest */
    switch ((enum b_event_kind)e->kind) {
    case B_ACCEPT:
        node = b->ends[from].connect_node;
        b_cross(b, e->node, node, IPS_X_DATA, 0);
        break;
    case B_EOF:
    case B_BROKEN:
        node = b_release_before(b, from, e->t_ret, e->kind == B_EOF);
        if (node == IPS_NO_NODE && b->ends[from].release_count) {
            /* By the clock nobody had closed yet: it stepped. */
            node = b->releases.v[b->ends[from].first_release].node;
            b->out->counts.ambiguous++;
        }
        b_cross(b, e->node, node, IPS_X_LIFETIME, 0);
        break;
    }
    if (node == IPS_NO_NODE) {
        if (b->out->ends[from].closed)
            b->out->counts.unmatched++;
        else
            b->out->counts.pending++;
    }
}

void b_events(struct build *b)
{
    for (uint32_t i = 0; i < b->events.n; i++)
        match_event(b, &b->events.v[i]);
}

/* ---- processes and threads ---- */

static void match_fork(struct build *b, const struct b_fork *f)
{
    if (f->child == IPS_NONE || f->node == IPS_NO_NODE)
        return;
    const struct b_chain *c = &b->chains[f->child];
    b_cross(b, b->out->g.chains[f->child].first, f->node, IPS_X_LIFETIME, 0);
    if (f->kind != IPS_FORK_VFORK && f->kind != IPS_FORK_SPAWN &&
        f->kind != IPS_FORK_POPEN)
        return;
    if (c->image_aux != IPS_NO_NODE)
        b_cross(b, f->node + 1, c->image_aux, IPS_X_LIFETIME, 0);
    else if (b->procs[f->child_proc].last_ns <= f->t_ret)
        b_cross(b, f->node + 1,
                b_end_node(b, b->procs[f->child_proc].end_chain),
                IPS_X_LIFETIME, 0);
}

void b_lifetimes(struct build *b)
{
    for (uint32_t i = 0; i < b->forks.n; i++)
        match_fork(b, &b->forks.v[i]);
    for (uint32_t i = 0; i < b->joins.n; i++) {
        const struct b_join *j = &b->joins.v[i];
        if (j->child != IPS_NONE && j->ended)
            b_cross(b, j->node, b_end_node(b, j->child), IPS_X_LIFETIME, 0);
    }
}
