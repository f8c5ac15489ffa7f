/* Adds the call that a thread was in when its process ended or executed another
 * program. The call has no record, but the header of the segment has its start
 * (agent/pool/begun.h). The process's end or exec ended the call, so its time
 * counts as a wait. Only a send makes a node, since a peer may have received
 * its bytes; every call delays the thread's END. If the process is still
 * running, the call is not in the graph; it is only listed with the waits
 * (struct ips_blocked_row). */
#include "slave/build/node.h"
#include "slave/build/waits.h"

static enum ips_wait_cause wait_cause_of_begun_call(uint64_t what)
{
    const uint32_t number = IPS_BEGUN_NUMBER(what);
    const uint32_t op = IPS_BEGUN_OP(what);
    switch (IPS_BEGUN_TYPE(what)) {
    case IPS_REC_ACQUIRE:
        return b_get_wait_cause_of_sync(number);
    case IPS_REC_JOIN:
        return IPS_WAIT_CHILD;
    case IPS_REC_BLOCK:
        return op == IPS_OP_SLEEP  ? IPS_WAIT_TIMER
               : op == IPS_OP_DISK ? IPS_WAIT_DISK
               : op >= IPS_OP_POLL && op <= IPS_OP_EPOLL
                   ? IPS_WAIT_IDLE
                   : b_get_wait_cause_of_op(op);
    default:
        return IPS_WAIT_PEER;
    }
}

/* Returns when the image that wrote the stream ended, ns; 0: it has not ended.
 */
static uint64_t image_end_ns_of_stream(const struct build *b,
                                       const struct b_stream *s)
{
    const uint32_t p = b->images[s->image].proc;
    const struct b_proc *proc = &b->procs[p];
    const uint32_t next = s->image + 1;
    if (next < proc->first_image + proc->image_count) {
        const uint32_t main = b->images[next].main;
        return main == IPS_NONE ? 0 : b->streams[main].start_ns;
    }
    return b->out->procs[p].open ? 0 : b->out->procs[p].end_ns;
}

/* Returns the chain of the running thread with this tid in the image of `s`, or
 * IPS_NONE. */
static uint32_t find_running_chain_of_tid(const struct build *b,
                                          const struct b_stream *s,
                                          uint64_t tid)
{
    const struct b_image *im = &b->images[s->image];
    for (uint32_t k = im->first_stream; k < im->first_stream + im->stream_count;
         k++)
        if (b->streams[k].in->head.tid == tid && !b->streams[k].task &&
            !b->streams[k].end_kind)
            return b->streams[k].chain;
    return IPS_NONE;
}

/* Returns the chain whose end the unfinished JOIN waits for, or IPS_NONE. */
static uint32_t find_joined_chain(const struct build *b,
                                  const struct b_stream *s,
                                  const struct ips_current_call *begun)
{
    const uint32_t pid = IPS_BEGUN_NUMBER(begun->what);
    for (uint32_t i = b->forks.n; i-- > 0;) {
        const struct b_fork *f = &b->forks.v[i];
        if (b->streams[f->stream].image != s->image || f->child == IPS_NONE)
            continue;
        if (f->kind == IPS_FORK_THREAD ? f->seq == begun->object && !pid
                                       : pid && f->pid == pid)
            return f->child;
    }
    return IPS_NONE;
}

static int add_blocked_row(struct build *b, const struct b_stream *s,
                           uint64_t t)
{
    struct ips_wait_rows *o = b->in->waits;
    const struct ips_current_call *begun = &s->in->begun;
    const uint32_t type = IPS_BEGUN_TYPE(begun->what);
    const uint32_t number = IPS_BEGUN_NUMBER(begun->what);
    struct ips_blocked_row r = {.begun = *begun,
                                .since_ns = t,
                                .stream = (uint32_t)(s->in - b->in->streams),
                                .chain = s->chain,
                                .by = IPS_NONE,
                                .end = IPS_NONE};
    if (type == IPS_REC_ACQUIRE && begun->holder)
        r.by = find_running_chain_of_tid(b, s, begun->holder);
    if (type == IPS_REC_JOIN)
        r.by = find_joined_chain(b, s, begun);
    const struct b_chan *c = type == IPS_REC_RECV || type == IPS_REC_SEND
                                 ? b_find_chan(b, s->image, number)
                                 : NULL;
    if (c)
        r.end = type == IPS_REC_RECV ? c->end_recv : c->end_send;
    int rc = 0;
    if (o->blocked_count == o->blocked_capacity)
        rc = b_array_reserve((void **)&o->blocked, o->blocked_count,
                             &o->blocked_capacity, sizeof(*o->blocked), b->err);
    if (rc == 0)
        o->blocked[o->blocked_count++] = r;
    return rc;
}

/* Makes a node (AUX) for a send that did not end.
 * b_append_unfinished_sends_that_arrived() turns the node into a SEND if bytes
 * of the send arrived. */
static int make_node_of_unfinished_send(struct maker *m, uint64_t t,
                                        uint64_t t_ret)
{
    struct build *b = m->b;
    const struct ips_current_call *begun = &m->s->in->begun;
    const struct b_chan *c =
        b_find_chan(b, m->s->image, IPS_BEGUN_NUMBER(begun->what));
    if (IPS_BEGUN_OP(begun->what) != IPS_OP_DATA || !c ||
        c->end_send == IPS_NONE || !b->ends[c->end_send].local ||
        b->ends[c->end_send].datagram)
        return 0;
    /* An incremental build cannot make such a node: the whole run has to be
     * built again. */
    b->broken |= b->from != NULL;
    int rc = B_MORE(b->unfinished_sends, b->err);
    if (rc < 0)
        return rc;
    b->unfinished_sends.v[b->unfinished_sends.n++] = (struct b_unfinished_send){
        .t = t,
        .t_ret = t_ret,
        .node =
            b_add_node(b, IPS_NODE_AUX, begun->cpu, t, begun->cpu, c->end_send),
        .end = c->end_send,
        .chain = m->chain};
    return 0;
}

static bool is_only_unfinished_send_of_end(const struct build *b,
                                           const struct b_unfinished_send *u)
{
    for (uint32_t i = 0; i < b->unfinished_sends.n; i++)
        if (&b->unfinished_sends.v[i] != u &&
            b->unfinished_sends.v[i].end == u->end)
            return false;
    return true;
}

/* Returns how many bytes (in packet mode: messages) the peer of `end` received
 * beyond those of the recorded sends. */
static uint64_t count_received_beyond_recorded_sends(const struct build *b,
                                                     uint32_t end)
{
    const struct ips_end *from = &b->out->ends[end],
                         *to = &b->out->ends[from->peer_end];
    if (b->ends[end].packets) /* a write to a pipe may be several packets */
        return from->kind == IPS_CHAN_PIPE
                   ? 0
                   : ips_sub_sat(to->recv_messages, from->sent_messages);
    return ips_sub_sat(
        ips_add_sat(to->recv_bytes, b->ends[from->peer_end].recv_before),
        ips_add_sat(from->sent_bytes, b->ends[end].sent_before));
}

static bool has_any_stream_lost_records(const struct build *b)
{
    for (uint32_t k = 0; k < b->in->stream_count; k++)
        for (int i = 0; i < IPS_LOST_COUNT; i++)
            if (b->streams[k].in->lost[i])
                return true;
    return false;
}

/* Turns the node of each unfinished send into a SEND of what its peer received
 * beyond the recorded sends. Does nothing for an end with several unfinished
 * sends, if some process is not recorded, or if records were lost, since
 * another send may have moved the bytes. To be called between b_make_nodes()
 * and b_match_streams(). */
int b_append_unfinished_sends_that_arrived(struct build *b)
{
    int rc = 0;
    for (uint32_t i = 0; i < b->unfinished_sends.n && rc == 0; i++) {
        const struct b_unfinished_send *u = &b->unfinished_sends.v[i];
        const uint64_t len = count_received_beyond_recorded_sends(b, u->end);
        struct b_end *e = &b->ends[u->end];
        struct b_send *op;
        const uint32_t peer = b->out->ends[u->end].peer_end;
        if (!len || b->careful || !is_only_unfinished_send_of_end(b, u) ||
            b->out->ends[peer].last_ns < u->t || has_any_stream_lost_records(b))
            continue;
        rc = b_append_empty_send_slot(b, e, &op);
        if (rc < 0)
            break;
        if (e->sends.n == 1)
            e->send_op_chain = u->chain;
        /* A later image of the process may have sent after `u`, so have the
         * sends sorted. */
        e->send_many |= e->sends.n > 1;
        *op = (struct b_send){.t = u->t,
                              .t_ret = u->t_ret,
                              .len = len,
                              .node = u->node,
                              .chain = u->chain & INT32_MAX};
        b->out->g.kind[u->node] = IPS_NODE_SEND;
    }
    return rc;
}

/* Counts `slept` ns as the wait of the unfinished call of stream `s`, which
 * ended at time `end` with the process or its exec. If the KILL that ended the
 * process is known, the thread waited for that signal: then makes the node of
 * the signal. */
static int count_unfinished_wait_and_make_kill_node(struct maker *m,
                                                    const struct b_stream *s,
                                                    uint64_t end,
                                                    uint64_t slept)
{
    struct build *b = m->b;
    const struct ips_current_call *begun = &s->in->begun;
    const uint32_t killer = b_find_kill_that_ended_thread(b, s);
    if (killer == IPS_NONE || !b->procs[m->proc].died_at_kill) {
        b_add_wait_to_sums_and_rows(m, wait_cause_of_begun_call(begun->what),
                                    slept);
        if (b_may_unrecorded_process_have_killed(b, s))
            b_add_wait_without_waker(m, b->nodes, slept, false);
        return 0;
    }
    b_add_wait_to_sums_and_rows(m, IPS_WAIT_SIGNAL, slept);
    uint32_t node =
        b_add_node(b, IPS_NODE_AUX, begun->cpu, end, begun->cpu, IPS_NONE);
    b->out->g.wait[node] = slept;
    m->killed = true;
    return b_store_kill_arc_for_later(b, node, killer);
}

int b_add_wait_and_node_of_unfinished_call(struct maker *m, uint32_t stream)
{
    struct build *b = m->b;
    struct b_stream *s = &b->streams[stream];
    const struct ips_current_call *begun = &s->in->begun;
    if (!begun->t || s->end_kind || s->task)
        return 0;
    const uint64_t t =
        ips_max_u64(b_stamp_to_ns(&s->clock, 0, begun->t), s->last_ns);
    const uint64_t end = image_end_ns_of_stream(b, s);
    int rc = b->notes && s->next == IPS_NONE ? add_blocked_row(b, s, t) : 0;
    if (rc < 0 || end <= t)
        return rc;
    m->s = s;
    if (IPS_BEGUN_TYPE(begun->what) == IPS_REC_SEND)
        rc = make_node_of_unfinished_send(m, t, end);
    if (rc < 0 || end - t < B_BLOCKED_NS)
        return rc;
    const struct ips_rec_io r = {.site = begun->site};
    const uint32_t before = b->nodes;
    m->last_ret = ips_max_u64(m->last_ret, end);
    b->off_ns = ips_add_sat(b->off_ns, end - t);
    rc = count_unfinished_wait_and_make_kill_node(m, s, end, end - t);
    if (rc < 0)
        return rc;
    s->last_ns = end;
    s->last_cpu = ips_max_u64(s->last_cpu, begun->cpu);
    return b->notes ? b_complete_wait_rows_after_record(m, IPS_REC_BLOCK,
                                                        (const uint8_t *)&r,
                                                        sizeof(r), before)
                    : 0;
}
