/* Adds the call that a thread was in when its process ended or executed another
 * program. The call has no record, but the header of the segment has its start
 * (agent/pool/begun.h). The process's end or exec ended the call, so its time
 * counts as a wait. It makes no node, but delays the thread's END. If the
 * process is still running, the call is not in the graph; it is only listed
 * with the waits (struct ips_blocked_row). */
#include "slave/build/node.h"
#include "slave/build/waits.h"

static enum ips_wait_cause cause_of_begun(uint64_t what)
{
    const uint32_t number = IPS_BEGUN_NUMBER(what);
    const uint32_t op = IPS_BEGUN_OP(what);
    switch (IPS_BEGUN_TYPE(what)) {
    case IPS_REC_ACQUIRE:
        return b_cause_of_sync(number);
    case IPS_REC_JOIN:
        return IPS_WAIT_CHILD;
    case IPS_REC_BLOCK:
        return op == IPS_OP_SLEEP                        ? IPS_WAIT_TIMER
               : op == IPS_OP_DISK                       ? IPS_WAIT_DISK
               : op >= IPS_OP_POLL && op <= IPS_OP_EPOLL ? IPS_WAIT_IDLE
                                                         : b_cause_of_op(op);
    default:
        return IPS_WAIT_PEER;
    }
}

/* When the image that wrote the stream ended, ns; 0: it has not ended. */
static uint64_t stream_end_ns(const struct build *b, const struct b_stream *s)
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
static uint32_t chain_of_thread(const struct build *b, const struct b_stream *s,
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
                                  const struct ips_begun *begun)
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

static int add_blocked(struct build *b, const struct b_stream *s, uint64_t t)
{
    struct ips_wait_rows *o = b->in->waits;
    const struct ips_begun *begun = &s->in->begun;
    const uint32_t type = IPS_BEGUN_TYPE(begun->what);
    const uint32_t number = IPS_BEGUN_NUMBER(begun->what);
    struct ips_blocked_row r = {.begun = *begun,
                                .since_ns = t,
                                .stream = (uint32_t)(s->in - b->in->streams),
                                .chain = s->chain,
                                .by = IPS_NONE,
                                .end = IPS_NONE};
    if (type == IPS_REC_ACQUIRE && begun->holder)
        r.by = chain_of_thread(b, s, begun->holder);
    if (type == IPS_REC_JOIN)
        r.by = find_joined_chain(b, s, begun);
    const struct b_chan *c = type == IPS_REC_RECV || type == IPS_REC_SEND
                                 ? b_chan_find(b, s->image, number)
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

int b_unfinished_call(struct maker *m, uint32_t stream)
{
    struct build *b = m->b;
    struct b_stream *s = &b->streams[stream];
    const struct ips_begun *begun = &s->in->begun;
    if (!begun->t || s->end_kind || s->task)
        return 0;
    const uint64_t t =
        ips_max_u64(b_stamp_to_ns(&s->clock, 0, begun->t), s->last_ns);
    const uint64_t end = stream_end_ns(b, s);
    int rc = b->notes && s->next == IPS_NONE ? add_blocked(b, s, t) : 0;
    if (rc < 0)
        return rc;
    if (end <= t || end - t < B_BLOCKED_NS)
        return 0;
    const struct ips_rec_io r = {.site = begun->site};
    const uint32_t before = b->nodes;
    m->s = s;
    m->last_ret = ips_max_u64(m->last_ret, end);
    b->off_ns = ips_add_sat(b->off_ns, end - t);
    b_count_wait(m, cause_of_begun(begun->what), end - t);
    s->last_ns = end;
    s->last_cpu = ips_max_u64(s->last_cpu, begun->cpu);
    return b->notes
               ? b_waits_finish_record(m, IPS_REC_BLOCK, (const uint8_t *)&r,
                                       sizeof(r), before)
               : 0;
}
