/* Tries of one condition with naps between. Where a recorded thread did what
 * let the last one succeed, the naps are no sleeps of the thread's own: they
 * are idle, and the arc of the successful try has what they were for.
 *
 * Tries are found in the first reading: BLOCK op RETRY has those of a connect
 * or a wait for a child, and an ACQUIRE those for a lock. Of receives, which
 * leave a record each time that they find nothing (RECVCALL), they are put
 * together here: a nap counts where it follows on such a record at once. In the
 * second reading each sleep is asked for (b_is_nap). */
#include <errno.h>

#include "slave/build/node.h"

/* ---- first reading ---- */

/* Tries from (t, cpu) to (to, cpu_to); *made, where they are kept, is to be
 * told what the last one was. A thread that computes for more than half of that
 * time works between its tries: it does not nap for them. */
static int add_retry(struct build *b, const struct b_stream *s, uint64_t t,
                     uint64_t to, uint64_t cpu, uint64_t cpu_to,
                     struct b_retry **made)
{
    *made = NULL;
    if (b_blocked_ns(t, to, cpu, cpu_to) < ips_sub_sat(cpu_to, cpu))
        return 0;
    int rc = B_MORE(b->retries, b->err);
    if (rc < 0)
        return rc;
    *made = &b->retries.v[b->retries.n++];
    **made = (struct b_retry){.from = t,
                              .to = to,
                              .stream = (uint32_t)(s - b->streams),
                              .sync = IPS_NONE,
                              .join = IPS_NONE,
                              .chan = IPS_NONE};
    return 0;
}

static bool is_tried(const struct b_tries *v, uint32_t n, uint32_t chan,
                     uint32_t *at)
{
    for (*at = 0; *at < n && v[*at].chan != chan; ++*at)
        ;
    return *at < n;
}

static void add_tries(struct b_tries *v, uint32_t *n, const struct b_tries *y)
{
    uint32_t at;
    if (*n < B_TRIES_KEPT && !is_tried(v, *n, y->chan, &at))
        v[(*n)++] = *y;
}

/* A sleep, or a wait that ran out of time. */
static bool may_be_nap(uint32_t type, const struct ips_rec_io *r)
{
    return type == IPS_REC_BLOCK && !r->err && r->result == 0 &&
           r->op >= IPS_OP_POLL && r->op <= IPS_OP_SLEEP;
}

int b_scan_tries(struct build *b, struct b_stream *s, uint32_t type,
                 const struct ips_rec_io *r, uint64_t t, uint64_t t_ret)
{
    struct b_retry *made = NULL;
    struct b_tries y = {r->op == IPS_OP_ACCEPT ? 0 : r->h.a, t, r->cpu};
    uint32_t at;
    int rc = 0;
    if (type == IPS_REC_BLOCK && r->op == IPS_OP_RETRY)
        return add_retry(b, s, t, t_ret, r->cpu, r->cpu_ret, &made);
    if (type == IPS_REC_RECVCALL && r->err == EAGAIN) {
        add_tries(s->tries, &s->try_count, &y);
        return 0;
    }
    if (may_be_nap(type, r))
        for (at = 0; at < s->try_count; at++)
            add_tries(s->napped, &s->napped_count, &s->tries[at]);
    s->try_count = 0;
    if (type == IPS_REC_RECV && !r->err && r->result >= 0 &&
        is_tried(s->napped, s->napped_count, y.chan, &at)) {
        const struct b_tries *first = &s->napped[at];
        rc = add_retry(b, s, first->t, t, first->cpu, r->cpu, &made);
        s->napped[at] = s->napped[--s->napped_count];
    }
    if (made)
        made->chan = r->h.a;
    return rc;
}

/* The last RETRY of the stream, if its successful try was called then. */
static struct b_retry *retry_of(const struct build *b, const struct b_stream *s,
                                uint64_t t)
{
    uint32_t n = b->retries.n;
    return n > s->first_retry && b->retries.v[n - 1].to == t
               ? &b->retries.v[n - 1]
               : NULL;
}

void b_scan_tried_join(struct build *b, const struct b_stream *s, uint64_t t)
{
    struct b_retry *made = retry_of(b, s, t);
    if (made)
        made->join = b->joins.n;
}

int b_scan_tried(struct build *b, const struct b_stream *s,
                 const struct ips_rec_sync *r, uint64_t t, uint64_t t_ret)
{
    struct b_retry *made = NULL;
    int rc = 0;
    if (r->h.a == IPS_SYNC_LISTEN)
        made = retry_of(b, s, t_ret);
    else if (r->value == B_SYNC_TRIED && !r->err)
        rc = add_retry(b, s, t, t_ret, r->cpu, r->cpu_ret, &made);
    if (made) {
        made->sync = b->syncs.n;
        made->whole = r->h.a != IPS_SYNC_LISTEN;
    }
    return rc;
}

/* ---- second reading ---- */

/* Was it a recorded thread that let the last try succeed? */
static bool has_cause(const struct build *b, const struct b_retry *y)
{
    if (y->sync != IPS_NONE)
        return b->syncs.v[y->sync].cause != IPS_NONE;
    if (y->join != IPS_NONE)
        return b->joins.v[y->join].child_proc != IPS_NONE;
    const struct b_chan *c =
        b_chan_find(b, b->streams[y->stream].image, y->chan);
    return c && c->end_recv != IPS_NONE && b->ends[c->end_recv].local;
}

/* Tries of several conditions may take turns. */
#define TURNS 8u

bool b_is_nap(struct maker *m, const struct interval *v)
{
    struct build *b = m->b;
    uint32_t stream = (uint32_t)(m->s - b->streams), at = m->next_retry;
    while (at < b->retries.n && b->retries.v[at].stream == stream &&
           b->retries.v[at].to <= v->t)
        at++;
    m->next_retry = at;
    for (uint32_t n = 0; n < TURNS && at + n < b->retries.n; n++) {
        const struct b_retry *y = &b->retries.v[at + n];
        if (y->stream != stream)
            break;
        if (y->from > v->t || v->t_ret > y->to || !has_cause(b, y))
            continue;
        if (y->whole) /* and what was slept in it */
            b->off_ns = ips_sub_sat(b->off_ns, v->blocked_ns);
        else
            b_count_wait(m, IPS_WAIT_SPIN, v->blocked_ns);
        b->out->counts.idle += !y->whole;
        return true;
    }
    return false;
}
