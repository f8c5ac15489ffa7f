/* Finds the event that ended each poll, select or epoll that waited for an end
 * of a stream.
 *
 * The return of such a poll gets a node, at the coordinate of its call, with
 * an arc from the event that made the first descriptor ready. There is one
 * exception: if the receive that the poll waited for follows at once, one node
 * is enough for both. Then the receive takes over the wait (slave/build/io.c),
 * and the node of the poll is removed.
 *
 * The nodes are made in pass `node`. Their arcs are made after pass `match`,
 * because the bytes that were read before the poll determine which send ended
 * it. */
#include <errno.h>

#include "slave/build/match.h"
#include "slave/build/node.h"

/* If the thread used more CPU (ns) than this between a poll's return and the
 * receive, both have nodes. In a common node this CPU counts as spent after all
 * received bytes arrived, although some may have been sent meanwhile. */
#define MERGE_CPU_NS 20000u

/* ---- nodes ---- */

static bool is_end_whose_polls_get_nodes(const struct build *b, uint32_t end)
{
    return end != IPS_NONE && !b->ends[end].datagram && !b->ends[end].listen &&
           b->out->ends[end].kind != IPS_CHAN_USER;
}

/* Makes the node of poll `w`, and sets w->node, w->end and w->why. Makes none,
 * and sets w->node to IPS_NO_NODE, if the poll did not report an end of a
 * stream. `why`: enum ips_ready_why; 0: an older agent did not record it. */
static void make_poll_node_if_of_stream_end(struct maker *m, struct pending *w,
                                            uint32_t why)
{
    struct build *b = m->b;
    bool channel = w->ready && IPS_READY_KIND(w->ready) == IPS_READY_CHANNEL;
    const struct b_chan *c =
        channel ? b_find_chan(b, m->s->image, w->ready) : NULL;
    w->node = IPS_NO_NODE;
    if (!c)
        return;
    w->why = why ? why : IPS_READY_IN;
    bool reads = w->why != IPS_READY_OUT && c->end_recv != IPS_NONE;
    w->end = reads ? c->end_recv : c->end_send;
    if (!is_end_whose_polls_get_nodes(b, w->end))
        return;
    w->off_ns = b->off_ns;
    w->gaps = b->gaps;
    w->node =
        b_add_node(b, IPS_NODE_POLL, w->cpu, w->t_ret, w->cpu_ret, w->end);
    b->out->g.wait[w->node] = ips_add_sat(w->blocked_ns, w->spin.elapsed_ns);
}

void b_make_pending_poll_node_if_of_stream(struct maker *m,
                                           const struct ips_rec_io *r)
{
    make_poll_node_if_of_stream_end(m, &m->wait, r->h.a);
}

bool b_merge_poll_into_receive_if_adjacent(struct maker *m,
                                           const struct interval *v)
{
    struct build *b = m->b;
    struct pending *w = &m->wait;
    uint32_t node = w->node;
    if (node == IPS_NO_NODE)
        return true;
    if (node + 1 != b->nodes ||
        ips_sub_sat(v->cpu, w->cpu_ret) > MERGE_CPU_NS) {
        b_end_wait_at_poll_node(m);
        return false;
    }
    b->broken |= b_is_final_node(b, node);
    b->nodes = node;
    b->gaps = w->gaps;
    b->off_ns = ips_add_sat(w->off_ns, b->off_ns);
    b->probe_ps =
        ips_add_sat(b->probe_ps, (uint64_t)b->out->g.probe[node] * 1000);
    w->node = IPS_NO_NODE;
    w->merged = true;
    return true;
}

static int append_poll(struct maker *m, const struct pending *w)
{
    struct build *b = m->b;
    const struct b_end *e = &b->ends[w->end];
    bool asked = e->send_chain == m->chain && !b->out->ends[w->end].accepted;
    if (b->tables || (b->incremental && b_incremental_makes_only_tables(b)))
        return 0; /* an incremental build of tables makes no arcs */
    int rc = B_MORE(b->polls, b->err);
    if (rc == 0)
        b->polls.v[b->polls.n++] = (struct b_poll){
            .t = w->t,
            .t_ret = w->t_ret,
            .slept = w->blocked_ns,
            .reply_ns = asked ? ips_sub_sat(w->t_ret, e->send_t) : 0,
            .node = w->node,
            .end = w->end,
            .last_send = asked ? e->send_node : IPS_NO_NODE,
            .why = (uint8_t)w->why};
    return rc;
}

void b_end_wait_at_poll_node(struct maker *m)
{
    struct pending *w = &m->wait;
    if (!w->pending || w->node == IPS_NO_NODE)
        return;
    w->pending = false;
    if (w->blocked_ns)
        b_add_wait_to_sums(m, IPS_WAIT_PEER, w->blocked_ns);
    if (m->b->notes)
        b_waits_add_row_of_pending_poll(m, IPS_WAIT_PEER, w->blocked_ns, false);
    m->b->poll_failed |=
        b_append_spin_and_lower_node_cpu(m, w->node, &w->spin) < 0 ||
        append_poll(m, &m->wait) < 0;
}

uint32_t b_make_node_of_descriptor_ready_signal(struct maker *m,
                                                const struct b_signal_taken *y,
                                                uint64_t coord, uint64_t slept)
{
    struct pending w = {.ready = (uint32_t)y->value,
                        .cpu = coord,
                        .cpu_ret = y->cpu,
                        .t = ips_min_u64(m->last_ret, ips_sub_sat(y->t, slept)),
                        .t_ret = y->t,
                        .blocked_ns = slept};
    make_poll_node_if_of_stream_end(m, &w, (uint32_t)(y->value >> 32));
    if (w.node != IPS_NO_NODE)
        m->b->poll_failed |= append_poll(m, &w) < 0;
    return w.node;
}

void b_count_poll_if_channels_vary(struct maker *m, const struct ips_rec_io *r)
{
    struct last_poll_choice *c = NULL;
    if (r->result <= 0 || r->err || r->ready == 0)
        return;
    for (uint32_t k = 0; k < CHOSEN_KEPT && !c; k++)
        if (m->chosen[k].ready && m->chosen[k].site == r->site)
            c = &m->chosen[k];
    bool other = c && c->ready != r->ready;
    if (!c)
        c = &m->chosen[m->chosen_next++ % CHOSEN_KEPT];
    *c = (struct last_poll_choice){r->site, r->ready};
    m->row->choices += other || r->result > 1;
}

int b_on_poll(struct maker *m, const struct ips_rec_io *r, struct interval *v)
{
    struct b_signal_taken *y;
    struct spin spin = b_pop_and_count_spin_before_call(m, v);
    b_count_poll_if_channels_vary(m, r);
    /* The outer epoll reported that an inner epoll is ready; this poll of the
     * inner epoll shows which channel is ready. */
    if (b_is_nested_epoll_pending(m) && r->result > 0) {
        struct pending *w = &m->wait;
        if ((y = b_pop_signal_of_signalfd_poll(m, r))) {
            w->pending = false;
            v->cpu = ips_min_u64(v->cpu, w->cpu);
            v->blocked_ns = ips_add_sat(v->blocked_ns, w->blocked_ns);
            b_add_wait_and_node_of_polled_signal(m, v, y);
            return 0;
        }
        if (v->blocked)
            b_add_wait_to_sums_and_rows(m, IPS_WAIT_PEER, v->blocked_ns);
        w->ready = r->ready;
        w->t_ret = v->t_ret;
        w->cpu_ret = v->cpu_ret;
        b_make_pending_poll_node_if_of_stream(m, r);
        return 0;
    }
    /* The next wait ends a pending wait. But if the event that ended the
     * pending wait is known, a poll that returns something at once is not a
     * wait: the program only asks again what is ready. */
    if (!v->blocked && r->result > 0 && m->wait.pending && m->wait.ready)
        return 0;
    b_end_pending_wait_as_idle(m);
    if (!v->blocked && !spin.elapsed_ns)
        return 0;
    if (r->err == ECONNRESET) { /* only a receive with MSG_PEEK, recorded as a
                                   poll, fails with this error */
        b_add_wait_to_sums_and_rows(m, IPS_WAIT_PEER, v->blocked_ns);
        v->chan = b_find_chan(m->b, m->s->image, r->ready);
        v->end = v->chan ? v->chan->end_recv : IPS_NONE;
        b_add_sleep_of_call_if_unexplained(m, v, r->err);
        return b_add_broken_channel_node(m, v);
    }
    if (r->err || r->result < 0) {
        b_add_wait_to_sums_and_rows(m, IPS_WAIT_SIGNAL, v->blocked_ns);
        b_add_sleep_of_call_if_unexplained(m, v, r->err);
    } else if (r->result == 0) {
        m->row->empty_polls++;
        if (v->blocked && b_count_if_nap(m, v))
            return 0;
        m->b->out->counts.idle++;
        b_add_wait_to_sums_and_rows(m, IPS_WAIT_TIMER, v->blocked_ns);
    } else if ((y = b_pop_signal_of_signalfd_poll(m, r))) {
        b_add_wait_and_node_of_polled_signal(m, v, y);
    } else if (r->ready == IPS_READY_TIMERFD) {
        b_add_wait_to_sums_and_rows(m, IPS_WAIT_TIMER, v->blocked_ns);
    } else if (IPS_READY_KIND(r->ready) == IPS_READY_PIDFD) {
        /* The node of the SIGNAL record that follows gets this sleep. */
        m->sigwait_ret = v->t_ret;
        m->sigwait_cpu = v->cpu;
        m->sigwait_slept = v->blocked ? v->blocked_ns : 0;
        if (v->blocked)
            b_add_wait_to_sums_and_rows(m, IPS_WAIT_CHILD, v->blocked_ns);
    } else {
        m->wait = (struct pending){.pending = true,
                                   .fresh = true,
                                   .cpu = v->cpu,
                                   .cpu_ret = v->cpu_ret,
                                   .t = v->t,
                                   .t_ret = v->t_ret,
                                   .blocked_ns = v->blocked ? v->blocked_ns : 0,
                                   .ready = r->ready,
                                   .arc = m->b->nodes,
                                   .spin = spin};
        b_make_pending_poll_node_if_of_stream(m, r);
    }
    return 0;
}

/* ---- arcs ---- */

/* A receive of bytes at an end that is polled, or at the peer of such an end;
 * `t`: approximate time of the call. */
struct poll_read {
    uint64_t t, t_ret, len;
    uint32_t end, node;
};

struct pollings {
    struct build *b;
    uint8_t *wanted; /* [end_count] 1: the reads of the end are needed */
    B_ARRAY(struct poll_read) reads;
};

static int cmp_poll(const void *va, const void *vb)
{
    const struct b_poll *x = va, *y = vb;
    CMP3(x->end, y->end);
    CMP3(x->t, y->t);
    CMP3(x->node, y->node);
    return 0;
}

static int cmp_poll_read(const void *va, const void *vb)
{
    const struct poll_read *x = va, *y = vb;
    CMP3(x->end, y->end);
    CMP3(x->t_ret, y->t_ret);
    CMP3(x->node, y->node);
    return 0;
}

static int append_receive_of_polled_end(struct pollings *p, uint32_t node,
                                        uint64_t len)
{
    const struct ips_graph *g = &p->b->out->g;
    uint64_t ran = ips_sub_sat(p->b->cpu_at[node], g->w[node]);
    uint64_t took = ips_add_sat(g->wait[node], ran);
    int rc = B_MORE(p->reads, p->b->err);
    if (rc == 0)
        p->reads.v[p->reads.n++] =
            (struct poll_read){.t = ips_sub_sat(g->t_ns[node], took),
                               .t_ret = g->t_ns[node],
                               .len = len,
                               .end = g->site[node],
                               .node = node};
    return rc;
}

static int collect_receives_of_polled_ends(struct pollings *p)
{
    const struct build *b = p->b;
    const struct ips_graph *g = &b->out->g;
    int rc = 0;
    for (uint32_t i = 0; i < b->polls.n; i++) {
        uint32_t end = b->polls.v[i].end;
        p->wanted[end] = 1;
        if (b->ends[end].local)
            p->wanted[b->out->ends[end].peer_end] = 1;
    }
    for (uint32_t c = 0; c < g->chain_count && rc == 0; c++) {
        uint32_t i = g->chains[c].first, end = i + g->chains[c].count;
        for (; i < end && rc == 0; i++)
            if (g->kind[i] == IPS_NODE_RECV && g->site[i] != IPS_NONE &&
                p->wanted[g->site[i]] && g->xlen[i])
                rc = append_receive_of_polled_end(p, i, g->xlen[i]);
    }
    for (uint32_t i = 0; i < b->exts.n && rc == 0; i++)
        if (b->exts.v[i].len && p->wanted[b->exts.v[i].end] &&
            !b->ends[b->exts.v[i].end].local)
            rc = append_receive_of_polled_end(p, b->exts.v[i].node,
                                              b->exts.v[i].len);
    if (p->reads.n)
        qsort(p->reads.v, p->reads.n, sizeof(*p->reads.v), cmp_poll_read);
    return rc;
}

/* Finds the reads of `end`: they are reads.v[*from, returned value). */
static uint32_t find_reads_of_end(const struct pollings *p, uint32_t end,
                                  uint32_t *from)
{
    uint32_t low = 0, high = p->reads.n;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (p->reads.v[mid].end < end)
            low = mid + 1;
        else
            high = mid;
    }
    *from = low;
    while (low < p->reads.n && p->reads.v[low].end == end)
        low++;
    return low;
}

/* Makes the arc to the poll from the send of the first byte that `f` has not
 * read. False: that byte was not sent in time, so the poll ended for another
 * reason. Through memory, bytes sent before the poll cannot have ended it,
 * because the thread slept; a network may have delayed them. */
static bool link_send_to_poll_if_in_time(struct build *b,
                                         struct match_cursor *f,
                                         const struct b_poll *p, bool tokens)
{
    struct match_cursor next = *f;
    struct b_send *send = b_advance_to_send_of_receive(b, &next, 1);
    if (!send)
        return false;
    f->send = next.send; /* all earlier sends were read */
    f->sent = next.sent;
    /* bytes that arrived before the poll went to another reader */
    while (b->ends[p->end].read_many && send && send->t_ret <= p->t) {
        b_advance_send_cursor(b, &next.send);
        send = next.send.op;
    }
    if (!send)
        return true;
    bool before = send->t_ret <= p->t && b_is_end_in_memory(b, p->end);
    if (send->t > p->t_ret || before)
        return before;
    if (tokens) {
        b_set_cross(b, p->node, send->node, IPS_X_RESOURCE, IPS_THING_TOKEN);
        b->out->counts.order_dependent++;
        return true;
    }
    /* The arc carries 1 byte: the poll waited for one unread byte only, not for
     * the whole message. */
    b->out->g.xlen[p->node] = 1;
    link_receive_and_limit_send_coord(b, &next, send, p->node);
    return true;
}

/* Whether the stream had ended at time t: it was shut down, or no process held
 * its write end any more. */
static bool had_stream_ended(const struct build *b, uint32_t from, uint64_t t)
{
    const struct b_end *e = &b->ends[from];
    if (e->shut_ns <= t)
        return true;
    const struct b_release_event *last =
        &b->releases.v[e->first_release + e->release_count];
    return b->out->ends[from].closed && e->release_count && last[-1].t <= t;
}

static void link_close_or_shutdown_to_poll(struct build *b,
                                           const struct b_poll *p)
{
    uint32_t from = b->out->ends[p->end].peer_end, node = IPS_NO_NODE;
    bool local = b->ends[p->end].local;
    bool hung_up = p->why & (IPS_READY_HUP | IPS_READY_ERR);
    if (local && (hung_up || had_stream_ended(b, from, p->t_ret)))
        node = b_find_close_of_end_before(
            b, from, p->t_ret, ips_chain_of(&b->out->g, p->node), true);
    /* The stream was open at the call, so a close stamped before the call did
     * not end the poll. But an exec or the end of a process may have ended it,
     * because they close descriptors some time after their record. */
    if (node != IPS_NO_NODE && b->out->g.kind[node] == IPS_NODE_AUX &&
        b->out->g.site[node] != IPS_NONE && b->out->g.t_ns[node] < p->t)
        node = IPS_NO_NODE;
    if (!b_link_own_shutdown(b, p->node, p->end, p->t_ret, node))
        b_set_cross(b, p->node, node, IPS_X_LIFETIME, 0);
}

/* For polls that waited for space: the bytes that the polled end had sent, and
 * that the other end had read, when the current poll was called. */
struct poll_room {
    struct b_send_cursor send;
    uint64_t sent, read;
    /* reads.v[at, last): the reads that are not counted yet */
    uint32_t at, last;
};

static struct poll_room init_send_space_cursor_of_end(const struct pollings *k,
                                                      uint32_t end)
{
    const struct build *b = k->b;
    const uint32_t to = b->out->ends[end].peer_end;
    struct poll_room r = {.send = b_init_send_cursor(b, &b->ends[end]),
                          .sent = b->ends[end].sent_before,
                          .read = b->ends[to].recv_before};
    r.last = find_reads_of_end(k, to, &r.at);
    return r;
}

/* Makes the arc to a poll that waited for space, from the receive that made the
 * space: the last one at the other end that returned during the poll, or else
 * one that was called before the poll returned. Over TCP, if nothing was unread
 * at the poll's call, the network was slow: then there is no arc. */
static void link_space_making_receive_to_poll(const struct pollings *k,
                                              const struct b_poll *p,
                                              struct poll_room *r)
{
    struct build *b = k->b;
    const struct poll_read *v = k->reads.v;
    uint32_t node = IPS_NO_NODE;
    for (; r->send.op && r->send.op->t_ret <= p->t;
         b_advance_send_cursor(b, &r->send))
        r->sent = ips_add_sat(r->sent, r->send.op->len);
    for (; r->at < r->last && v[r->at].t_ret <= p->t; r->at++)
        r->read = ips_add_sat(r->read, v[r->at].len);
    uint64_t read = r->read;
    for (uint32_t i = r->at; i < r->last && v[i].t <= p->t_ret; i++) {
        read = ips_add_sat(read, v[i].len);
        if (v[i].t_ret <= p->t_ret)
            node = v[i].node;
        else if (node == IPS_NO_NODE)
            node = b_find_node_that_made_space(b, v[i].node, read, r->sent);
    }
    if (r->sent > r->read || b_is_end_in_memory(b, p->end))
        b_set_cross(b, p->node, node, IPS_X_ROOM, 0);
}

/* For a poll whose peer is not on this machine: adds a struct
 * b_external, as for a receive of the next byte, or of an end-of-file
 * after a hang-up. `more`: bytes were read later. */
static int add_poll_of_far_peer(struct build *b, const struct b_poll *p,
                                uint64_t read, bool more)
{
    bool ended = (p->why & IPS_READY_HUP) && !more;
    if (p->why == IPS_READY_OUT)
        return 0;
    int rc = B_MORE(b->exts, b->err);
    if (rc == 0)
        b->exts.v[b->exts.n++] = (struct b_external){
            .pos = ended ? IPS_POS_EOF : b_clamp_pos(ips_add_sat(read, 1)),
            .len = !ended,
            .reply_ns = p->reply_ns,
            .blocked_ns = p->slept,
            .node = p->node,
            .end = p->end,
            .last_send = p->last_send,
            .blocked = true,
            .polled = true};
    return rc;
}

/* Makes the arcs of polls.v[i, returned value), which are all polls of one end.
 * *rc: 0 or an error. */
static uint32_t make_poll_arcs_of_end(const struct pollings *k, uint32_t i,
                                      int *rc)
{
    struct build *b = k->b;
    const uint32_t end = b->polls.v[i].end;
    const bool local = b->ends[end].local;
    struct match_cursor f = {.read = b->ends[end].recv_before};
    uint32_t at, last = find_reads_of_end(k, end, &at);
    bool tokens = false;
    struct poll_room room = {0};
    if (local) {
        f = b_init_match_cursor(b, end);
        room = init_send_space_cursor_of_end(k, end);
        tokens = b->ends[end].listed &&
                 b_does_pipe_carry_tokens(b, b->out->ends[end].peer_end, end);
    }
    for (; i < b->polls.n && b->polls.v[i].end == end && *rc == 0; i++) {
        const struct b_poll *p = &b->polls.v[i];
        for (; at < last && k->reads.v[at].t_ret <= p->t; at++)
            f.read = ips_add_sat(f.read, k->reads.v[at].len);
        if (!local) {
            link_close_or_shutdown_to_poll(b, p);
            if (b->out->g.xkind[p->node] == IPS_X_NONE)
                *rc = add_poll_of_far_peer(b, p, f.read, at < last);
            continue;
        }
        if (b->ends[end].shared && p->why & IPS_READY_IN)
            b_link_poll_of_stream_with_unrecorded_user(b, p);
        bool read = p->why & IPS_READY_IN &&
                    (b->ends[end].shared ||
                     link_send_to_poll_if_in_time(b, &f, p, tokens));
        if (!read && p->why != IPS_READY_OUT)
            link_close_or_shutdown_to_poll(b, p);
        if (p->why & IPS_READY_OUT && b->out->g.xkind[p->node] == IPS_X_NONE)
            link_space_making_receive_to_poll(k, p, &room);
    }
    return i;
}

static int compare_external_receives_by_node(const void *va, const void *vb)
{
    const struct b_external *x = va, *y = vb;
    CMP3(x->node, y->node);
    return 0;
}

int b_make_poll_arcs(struct build *b)
{
    struct pollings k = {.b = b};
    int rc = 0;
    if (b->poll_failed)
        return IPS_E_NO_MEMORY;
    if (!b->polls.n)
        return 0;
    k.wanted = b_calloc(b->out->end_count, sizeof(*k.wanted), b->err);
    if (!k.wanted)
        return IPS_E_NO_MEMORY;
    qsort(b->polls.v, b->polls.n, sizeof(*b->polls.v), cmp_poll);
    rc = collect_receives_of_polled_ends(&k);
    for (uint32_t i = 0; i < b->polls.n && rc == 0;)
        i = make_poll_arcs_of_end(&k, i, &rc);
    if (b->exts.n)
        qsort(b->exts.v, b->exts.n, sizeof(*b->exts.v),
              compare_external_receives_by_node);
    ips_free_large(k.wanted);
    ips_free_large(k.reads.v);
    return rc;
}
