/*
 * Matches one direction of a stream in which an unrecorded process wrote or
 * read as well. Positions do not show the send of a receive there: a receive
 * may contain bytes without a known send, and an unrecorded reader may have
 * received bytes of a known send.
 *
 * Times are used instead. A receive or a poll that slept found nothing to
 * read: at that moment, everything that had been sent was read. Between two
 * such moments, the known sends and receives must move equally many bytes. If
 * they do, no unrecorded process took part, and the receives between get their
 * sends by position, counted from the first moment. If they do not, these
 * receives get no arcs, because an unrecorded process may have ended their
 * waits. Sends that began after the last receive before the second moment do
 * not count: another reader got them. A receive that slept gets no arc either
 * if the send after its own may have woken it. The return of the last receive
 * ends the last interval.
 *
 * A send that is under way at such a moment is counted before or after the
 * moment, whichever makes the sums equal. If neither does, the moment is
 * ignored.
 */
#include "agent/pool/ready.h"
#include "slave/build/match.h"

struct shared_stream {
    struct build *b;
    uint32_t to;
    const struct b_read *read; /* in order of return */
    uint32_t reads;
    struct b_send_cursor *send; /* in order of return */
    uint32_t sends;
    /* more bytes were sent than read, perhaps because there is another reader
     */
    bool taken;
    /* times at which everything that had been sent was read */
    B_ARRAY(uint64_t) empty;
};

/* Returns the time from which on the thread slept for a receive: in the receive
 * itself, or in the poll before it; UINT64_MAX: it did not sleep. For a poll,
 * the result may be later than the poll's call. */
static uint64_t sleep_start_of_receive(const struct build *b,
                                       const struct b_read *r)
{
    uint64_t wait = b->out->g.wait[r->node];
    uint64_t took = ips_sub_sat(r->t_ret, r->t);
    if (!wait)
        return UINT64_MAX;
    return wait <= took ? r->t : ips_sub_sat(r->t, wait);
}

enum doubt { DOUBT_NONE, DOUBT_WRITER, DOUBT_READER };

/* Returns whether the clock contradicts that `send` wrote the last byte of `r`,
 * because an unrecorded process wrote (DOUBT_WRITER) or read (DOUBT_READER) as
 * well. `send` NULL: no known send did; `whole`: none can come later. */
static enum doubt
classify_clock_contradiction_of_match(const struct build *b,
                                      const struct b_read *r,
                                      const struct b_send *send, bool whole)
{
    if (!send)
        return whole ? DOUBT_WRITER : DOUBT_NONE;
    if (send->t > r->t_ret)
        return DOUBT_WRITER;
    uint64_t since = sleep_start_of_receive(b, r);
    return since != UINT64_MAX && send->t < since ? DOUBT_READER : DOUBT_NONE;
}

bool b_does_clock_contradict_match(const struct build *b,
                                   const struct b_read *r,
                                   const struct b_send *send, bool whole)
{
    return b->careful && classify_clock_contradiction_of_match(
                             b, r, send, whole) != DOUBT_NONE;
}

bool b_has_unrecorded_user(struct build *b, uint32_t to)
{
    const struct b_end *e = &b->ends[to];
    const uint32_t from = b->out->ends[to].peer_end;
    struct match_cursor f = b_init_match_cursor(b, to);
    uint64_t sent = b->ends[from].sent_before;
    bool taken = false;
    for (uint32_t i = 0; i < e->read_count; i++) {
        const struct b_read *r = &b->reads[e->first_read + i];
        const struct b_send *send = b_advance_to_send_of_receive(b, &f, r->len);
        enum doubt doubt = classify_clock_contradiction_of_match(
            b, r, send, b->out->ends[from].closed);
        if (doubt == DOUBT_WRITER)
            return true;
        taken |= doubt == DOUBT_READER;
    }
    /* sends that come later may show that another reader received bytes */
    b->doubtful |= taken;
    struct b_send_cursor s = b_init_send_cursor(b, &b->ends[from]);
    for (; taken && s.op; b_advance_send_cursor(b, &s))
        sent = ips_add_sat(sent, s.op->len);
    return taken && sent > f.read;
}

/* ---- collecting sends, receives and empty moments ---- */

static int compare_empty_moments(const void *va, const void *vb)
{
    CMP3(*(const uint64_t *)va, *(const uint64_t *)vb);
    return 0;
}

static int add_moment_when_stream_was_empty(struct shared_stream *k, uint64_t t)
{
    int rc = B_MORE(k->empty, k->b->err);
    if (rc == 0)
        k->empty.v[k->empty.n++] = t;
    return rc;
}

static int collect_moments_when_stream_was_empty(struct shared_stream *k)
{
    const struct build *b = k->b;
    int rc = 0;
    for (uint32_t i = 0; i < k->reads && rc == 0; i++) {
        uint64_t since = sleep_start_of_receive(b, &k->read[i]);
        rc = since == UINT64_MAX ? 0
                                 : add_moment_when_stream_was_empty(k, since);
    }
    for (uint32_t i = 0; i < b->polls.n && rc == 0; i++) {
        const struct b_poll *p = &b->polls.v[i];
        if (p->end == k->to && p->slept && p->why & IPS_READY_IN)
            rc = add_moment_when_stream_was_empty(k, p->t);
    }
    if (k->empty.n)
        qsort(k->empty.v, k->empty.n, sizeof(*k->empty.v),
              compare_empty_moments);
    return rc;
}

static int collect_sends_and_empty_moments(struct shared_stream *k)
{
    const struct build *b = k->b;
    const struct b_end *from = &b->ends[b->out->ends[k->to].peer_end];
    uint64_t sent = from->sent_before, read = b->ends[k->to].recv_before;
    k->send = b_calloc(from->sends.n, sizeof(*k->send), b->err);
    if (!k->send)
        return IPS_E_NO_MEMORY;
    struct b_send_cursor s = b_init_send_cursor(b, from);
    for (; s.op && k->sends < from->sends.n; b_advance_send_cursor(b, &s)) {
        k->send[k->sends++] = s;
        sent = ips_add_sat(sent, s.op->len);
    }
    for (uint32_t i = 0; i < k->reads; i++)
        read = ips_add_sat(read, k->read[i].len);
    k->taken = sent > read;
    return collect_moments_when_stream_was_empty(k);
}

/* ---- matching what is certain ---- */

static void mark_receive_unmatched(struct shared_stream *k,
                                   const struct b_read *r)
{
    struct build *b = k->b;
    clear_send_of_receive(b, r->node);
    /* only the length of the receive is known */
    b->out->g.xlen[r->node] = r->len;
    if (b->out->ends[b->out->ends[k->to].peer_end].closed)
        b->out->counts.unmatched++;
    else
        b->out->counts.pending++;
}

/* If there may be another reader: returns whether `r` slept until the send that
 * follows `send` had begun. Then the following send woke it, and another reader
 * received the bytes of `send`. */
static bool was_woken_by_next_send(const struct shared_stream *k,
                                   const struct b_read *r, uint32_t send)
{
    if (!k->taken || send + 1 >= k->sends ||
        sleep_start_of_receive(k->b, r) == UINT64_MAX)
        return false;
    uint64_t next = k->send[send + 1].op->t;
    return next >= k->send[send].op->t_ret && next < r->t_ret;
}

/* Matches receives [r, r_end), which together have the bytes of sends [s,
 * s_end). */
static void match_receives_in_range(struct shared_stream *k, uint32_t r,
                                    uint32_t r_end, uint32_t s, uint32_t s_end)
{
    uint64_t read = 0, sent = s < s_end ? k->send[s].op->len : 0;
    for (; r < r_end; r++) {
        const struct b_read *one = &k->read[r];
        read = ips_add_sat(read, one->len);
        while (s < s_end && sent < read)
            if (++s < s_end)
                sent = ips_add_sat(sent, k->send[s].op->len);
        if (s >= s_end || k->send[s].op->t > one->t_ret ||
            was_woken_by_next_send(k, one, s)) {
            mark_receive_unmatched(k, one);
            continue;
        }
        struct match_cursor f = {.send = k->send[s]};
        link_receive_and_limit_send_coord(k->b, &f, k->send[s].op, one->node);
    }
}

static uint64_t sum_sent_bytes(const struct shared_stream *k, uint32_t s,
                               uint32_t end)
{
    uint64_t sum = 0;
    for (; s < end; s++)
        sum = ips_add_sat(sum, k->send[s].op->len);
    return sum;
}

/* the next receive and the next send to process */
struct position {
    uint32_t read, send;
};

/* At time `t` everything that had been sent was read: processes the receives
 * before `t`. Bytes sent after the return of the last of these went to another
 * reader. */
static void match_receives_until_stream_was_empty(struct shared_stream *k,
                                                  struct position *p,
                                                  uint64_t t)
{
    uint32_t r = p->read, s = p->send, own;
    uint64_t read = 0, sent = 0, last = 0;
    for (; r < k->reads && k->read[r].t_ret <= t; r++) {
        read = ips_add_sat(read, k->read[r].len);
        last = k->read[r].t_ret;
    }
    for (; s < k->sends && k->send[s].op->t_ret <= t; s++)
        if (k->send[s].op->t <= last)
            sent = ips_add_sat(sent, k->send[s].op->len);
    bool under_way = s < k->sends && k->send[s].op->t < t;
    for (; sent < read && s < k->sends && k->send[s].op->t < t &&
           k->send[s].op->t <= last;
         s++)
        sent = ips_add_sat(sent, k->send[s].op->len);
    for (own = p->send; own < s && k->send[own].op->t <= last; own++)
        sent -= ips_min_u64(sent, k->send[own].op->len);
    /* sends from `own` on may all have gone to other readers */
    if (sent == 0 && read == sum_sent_bytes(k, p->send, own))
        match_receives_in_range(k, p->read, r, p->send, own);
    else if (under_way)
        return;
    else
        for (uint32_t i = p->read; i < r; i++)
            mark_receive_unmatched(k, &k->read[i]);
    *p = (struct position){r, s};
}

int b_match_receives_of_shared_stream(struct build *b, uint32_t to)
{
    struct b_end *e = &b->ends[to];
    struct shared_stream k = {.b = b,
                              .to = to,
                              .read = b->reads + e->first_read,
                              .reads = e->read_count};
    struct position p = {0, 0};
    e->shared = true;
    /* Only a whole build matches shared streams, so the run has to be built
     * again. */
    b->broken |= b->incremental != NULL;
    int rc = collect_sends_and_empty_moments(&k);
    for (uint32_t i = 0; i < k.empty.n && rc == 0; i++)
        match_receives_until_stream_was_empty(&k, &p, k.empty.v[i]);
    if (rc == 0 && k.reads)
        match_receives_until_stream_was_empty(&k, &p,
                                              k.read[k.reads - 1].t_ret);
    for (; rc == 0 && p.read < k.reads; p.read++)
        mark_receive_unmatched(&k, &k.read[p.read]);
    ips_free_large(k.send);
    ips_free_large(k.empty.v);
    return rc;
}

void b_link_poll_of_stream_with_unrecorded_user(struct build *b,
                                                const struct b_poll *p)
{
    const struct b_end *e = &b->ends[p->end];
    const struct b_read *v = b->reads + e->first_read;
    uint32_t low = 0, high = e->read_count;
    /* finds the first receive that returned after the poll */
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (v[mid].t_ret <= p->t_ret)
            low = mid + 1;
        else
            high = mid;
    }
    if (low == e->read_count || b->out->g.xkind[v[low].node] != B_X_SENT)
        return;
    struct match_cursor f = {.send.position = b->out->g.xpred[v[low].node]};
    struct b_send *send = b_send_at(b, f.send.position);
    if (send->t > p->t_ret || send->t_ret <= p->t)
        return;
    /* the poll waited for the first byte of the send */
    b->out->g.xlen[p->node] = 1;
    link_receive_and_limit_send_coord(b, &f, send, p->node);
}
