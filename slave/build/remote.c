/* Handles ends without a peer on this machine: the peer is remote, untraced or
 * not known yet. ips_built_set_peers_and_remake_arcs() makes the arcs of
 * receives on them, anew at each call. */
#include "slave/build/internal.h"

/* ---- data kept for ips_built_set_peers_and_remake_arcs ---- */

static int append_outgoing_event(struct build *b, uint32_t node, uint32_t end,
                                 uint64_t pos, uint64_t len)
{
    if (node == IPS_NO_NODE)
        return 0;
    int rc = B_MORE(b->outs, b->err);
    if (rc < 0)
        return rc;
    b->outs.v[b->outs.n++] =
        (struct ips_remote_out){.node = node,
                                .end = end,
                                .pos = pos,
                                .len = (uint32_t)ips_min_u64(len, UINT32_MAX)};
    return 0;
}

static uint32_t find_shutdown_or_last_close_node(const struct build *b,
                                                 uint32_t end)
{
    const struct b_end *e = &b->ends[end];
    if (e->shut_node != IPS_NO_NODE)
        return e->shut_node;
    if (!b->out->ends[end].closed || e->release_count == 0)
        return IPS_NO_NODE;
    return b->releases.v[e->first_release + e->release_count - 1].node;
}

static int add_outgoing_events_of_end(struct build *b, uint32_t end)
{
    const struct b_end *e = &b->ends[end];
    int rc = append_outgoing_event(b, e->connect_node, end, IPS_POS_SYN, 0);
    uint64_t pos = e->sent_before;
    struct b_send_cursor s = b_init_send_cursor(b, e);
    for (; s.op && rc == 0; b_advance_send_cursor(b, &s)) {
        pos = ips_add_sat(pos, s.op->len);
        rc = append_outgoing_event(b, s.op->node, end, b_clamp_pos(pos),
                                   s.op->len);
    }
    return rc < 0
               ? rc
               : append_outgoing_event(b,
                                       find_shutdown_or_last_close_node(b, end),
                                       end, IPS_POS_EOF, 0);
}

static int cmp_out(const void *va, const void *vb)
{
    const struct ips_remote_out *a = va, *b = vb;
    CMP3(a->end, b->end);
    CMP3(a->pos, b->pos);
    CMP3(a->node, b->node);
    return 0;
}

static int add_all_outgoing_events(struct build *b)
{
    int rc = 0;
    bool datagrams = false;
    for (uint32_t i = 0; i < b->out->end_count && rc == 0; i++)
        if (b->out->ends[i].peer == IPS_PEER_UNKNOWN && !b->ends[i].datagram)
            rc = add_outgoing_events_of_end(b, i);
    for (uint32_t i = 0; i < b->dgrams.n && rc == 0; i++) {
        const struct b_dgram *d = &b->dgrams.v[i];
        if (d->dir != B_SEND || b->out->ends[d->end].peer != IPS_PEER_UNKNOWN)
            continue;
        datagrams = true;
        rc = append_outgoing_event(b, d->node, d->end, d->pos, d->len);
    }
    if (rc == 0 && datagrams)
        qsort(b->outs.v, b->outs.n, sizeof(*b->outs.v), cmp_out);
    return rc;
}

/* Returns the array *v, and sets *v to NULL; in an incremental build, which
 * needs the array itself, returns a copy. NULL: out of memory, or no array. */
static void *move_or_copy_array(const struct build *b, void **v, uint32_t n,
                                size_t size)
{
    void *to = *v;
    if (!b->incremental)
        *v = NULL;
    else if ((to = b_calloc(n, size, b->err)) != NULL && n)
        memcpy(to, *v, n * size);
    return to;
}

int b_store_remote_data(struct build *b, struct ips_built *out)
{
    struct ips_built_peer_data *m = b_calloc(1, sizeof(*m), b->err);
    out->more = m;
    if (!m)
        return IPS_E_NO_MEMORY;
    m->base_peer = b_calloc(out->end_count, sizeof(*m->base_peer), b->err);
    if (!m->base_peer)
        return IPS_E_NO_MEMORY;
    for (uint32_t i = 0; i < out->end_count; i++)
        m->base_peer[i] = (uint8_t)out->ends[i].peer;
    int rc = add_all_outgoing_events(b);
    if (rc < 0)
        return rc;
    m->ext_count = b->exts.n;
    m->out_count = b->outs.n;
    m->base = out->counts;
    m->exts =
        move_or_copy_array(b, (void **)&b->exts.v, b->exts.n, sizeof(*m->exts));
    m->outs =
        move_or_copy_array(b, (void **)&b->outs.v, b->outs.n, sizeof(*m->outs));
    return b->incremental && (!m->exts || !m->outs) ? IPS_E_NO_MEMORY : 0;
}

/* ---- peers ---- */

struct peer { /* the peer of a REMOTE end */
    uint64_t sent_bytes;
    bool closed;
};

static bool has_peer_sent_position(const struct b_external *x,
                                   const struct peer *p)
{
    if (p->closed || x->pos == IPS_POS_SYN)
        return true; /* the master decides whether the send exists, when it
                        joins the machines */
    if (x->pos & IPS_POS_EXACT)
        /* For datagrams, the master decides whether the send exists. */
        return x->pos != IPS_POS_EOF;
    return x->pos <= p->sent_bytes;
}

static void make_untraced_peer_arc(struct ips_built *b,
                                   const struct b_external *x)
{
    struct ips_graph *g = &b->g;
    if (!x->blocked)
        return;
    bool reply = x->last_send != IPS_NO_NODE;
    g->xpred[x->node] = reply ? x->last_send : x->node - 1;
    g->xkind[x->node] = reply ? IPS_X_EXTERNAL : IPS_X_IDLE;
    g->xlen[x->node] = reply ? x->reply_ns : x->blocked_ns;
    if (reply) {
        b->counts.external++;
        b->counts.external_decided++;
    } else {
        b->counts.idle++;
        b->counts.idle_decided++;
    }
}

static void make_arc_of_receive_by_peer_kind(struct ips_built *b,
                                             const struct b_external *x,
                                             const struct peer *peers)
{
    struct ips_graph *g = &b->g;
    if (x->is_decided)
        return;
    g->xpred[x->node] = IPS_NO_NODE;
    g->xkind[x->node] = IPS_X_NONE;
    g->xlen[x->node] = 0;
    switch (b->ends[x->end].peer) {
    case IPS_PEER_LOCAL:
        return;
    case IPS_PEER_UNKNOWN:
        b->counts.pending += !x->polled;
        return;
    case IPS_PEER_UNTRACED:
        make_untraced_peer_arc(b, x);
        return;
    case IPS_PEER_REMOTE:
        break;
    }
    const struct peer *peer = &peers[x->end];
    uint64_t pos = x->pos;
    if (x->polled && peer->closed && pos > peer->sent_bytes)
        pos = IPS_POS_EOF;
    if (!has_peer_sent_position(x, peer)) {
        b->counts.pending += !x->polled;
        return;
    }
    g->xkind[x->node] = pos == IPS_POS_EOF ? IPS_X_LIFETIME : IPS_X_DATA;
    g->xlen[x->node] = pos == IPS_POS_EOF ? 0 : x->len;
    g->in[g->in_count++] =
        (struct ips_remote_in){.node = x->node, .end = x->end, .pos = pos};
}

static int decide_peers_of_unknown_ends(struct ips_built *b,
                                        const struct ips_peer_row *rows,
                                        uint32_t count, struct peer *peers,
                                        struct ips_err *err)
{
    for (uint32_t i = 0; i < b->end_count; i++)
        b->ends[i].peer = (enum ips_end_peer)b->more->base_peer[i];
    for (uint32_t i = 0; i < count; i++) {
        if (rows[i].end >= b->end_count)
            return ips_err_set(err, IPS_E_USAGE, "peer of end %u of %u",
                               rows[i].end, b->end_count);
        if (b->more->base_peer[rows[i].end] != IPS_PEER_UNKNOWN)
            continue; /* this machine has decided, whatever other machines
                         report */
        b->ends[rows[i].end].peer =
            rows[i].traced ? IPS_PEER_REMOTE : IPS_PEER_UNTRACED;
        peers[rows[i].end] =
            (struct peer){.sent_bytes = rows[i].peer_sent_bytes,
                          .closed = rows[i].peer_closed};
    }
    return 0;
}

int ips_built_set_peers_and_remake_arcs(struct ips_built *b,
                                        const struct ips_peer_row *rows,
                                        uint32_t count, struct ips_err *err)
{
    struct ips_built_peer_data *m = b->more;
    struct ips_graph *g = &b->g;
    struct peer *peers = b_calloc(b->end_count, sizeof(*peers), err);
    struct ips_remote_in *in = b_calloc(m->ext_count, sizeof(*in), err);
    struct ips_remote_out *out = b_calloc(m->out_count, sizeof(*out), err);
    int rc = IPS_E_NO_MEMORY;
    if (!peers || !in || !out)
        goto out;
    rc = decide_peers_of_unknown_ends(b, rows, count, peers, err);
    if (rc < 0)
        goto out;
    ips_free_large(g->in);
    ips_free_large(g->out);
    g->in = in;
    g->out = out;
    in = NULL;
    out = NULL;
    g->in_count = g->out_count = 0;
    b->counts = m->base;
    for (uint32_t i = 0; i < m->ext_count; i++)
        make_arc_of_receive_by_peer_kind(b, &m->exts[i], peers);
    for (uint32_t i = 0; i < m->out_count; i++)
        if (b->ends[m->outs[i].end].peer == IPS_PEER_REMOTE)
            g->out[g->out_count++] = m->outs[i];
    b->counts.unended_ns = 0;
    for (uint32_t c = 0; c < g->chain_count; c++) {
        uint32_t first = g->chains[c].first;
        b->counts.unended_ns =
            ips_add_sat(b->counts.unended_ns,
                        ips_sum_ns_without_recorded_waker(
                            b, first, first + g->chains[c].count - 1));
    }
out:
    ips_free_large(peers);
    ips_free_large(in);
    ips_free_large(out);
    return rc;
}
