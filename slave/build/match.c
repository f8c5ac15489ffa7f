/* Makes cross arcs at the two ends of a stream: from sends to receives, and to
 * the sends that waited for space. */
#include "slave/build/match.h"

/* ---- order of sends ---- */

static int compare_sends_by_return(const void *va, const void *vb)
{
    const struct b_send *x = va, *y = vb;
    CMP3(x->t_ret, y->t_ret);
    CMP3(x->t, y->t);
    CMP3(x->node, y->node);
    return 0;
}

void b_move_to_next_send_block(const struct build *b, struct b_send_cursor *s)
{
    s->op = s->end = NULL;
    if (s->block == IPS_NONE)
        return;
    const struct b_block *k = &b->blocks.v[s->block];
    s->now = s->block;
    s->position = k->at;
    s->op = b_send_at(b, k->at);
    s->end = s->op + k->n;
    s->block = k->next;
    if (k->next != IPS_NONE)
        __builtin_prefetch(b_send_at(b, b->blocks.v[k->next].at), 1);
}

static int allocate_send_slab(struct build *b)
{
    int rc = B_MORE(b->slabs, b->err);
    if (rc < 0)
        return rc;
    /* a small run has only one slab, and that is small */
    uint64_t most = b->send_capacity * 2 + B_BLOCK_OPS;
    if (b->slabs.n)
        most = B_SLAB_OPS;
    b->slab_ops = (uint32_t)ips_min_u64(most, B_SLAB_OPS);
    b->slab_used = 0;
    if ((b->slabs.n + 1) * (uint64_t)B_SLAB_OPS > IPS_NO_NODE)
        return ips_err_set(b->err, IPS_E_LIMIT, "more than 2^32 sends");
    struct b_send *v = ips_alloc_large(b->slab_ops, sizeof(*v));
    if (!v)
        return ips_err_set(b->err, IPS_E_NO_MEMORY, "%u sends", b->slab_ops);
    b->slabs.v[b->slabs.n++] = v;
    return 0;
}

int b_add_send_block(struct build *b, struct b_end *e)
{
    struct b_sends *s = &e->sends;
    uint32_t ops = s->n < 4 ? 4 : s->n < B_BLOCK_OPS ? s->n : B_BLOCK_OPS;
    int rc = B_MORE(b->blocks, b->err);
    if (rc == 0 && (!b->slabs.n || b->slab_ops - b->slab_used < ops))
        rc = allocate_send_slab(b);
    if (rc < 0)
        return rc;
    uint32_t k = b->blocks.n++;
    b->blocks.v[k] = (struct b_block){
        .at = (b->slabs.n - 1) * B_SLAB_OPS + b->slab_used, .next = IPS_NONE};
    b->slab_used += ops;
    if (s->n)
        b->blocks.v[s->last].next = k;
    else
        s->first = k;
    s->last = k;
    s->capacity = ops;
    return 0;
}

static int sort_sends(struct build *b, struct b_end *e)
{
    struct b_send *v = b_calloc(e->sends.n, sizeof(*v), b->err);
    struct b_send_cursor s = b_init_send_cursor(b, e);
    if (!v)
        return IPS_E_NO_MEMORY;
    for (uint32_t i = 0; s.op; i++, b_advance_send_cursor(b, &s))
        v[i] = *s.op;
    qsort(v, e->sends.n, sizeof(*v), compare_sends_by_return);
    s = b_init_send_cursor(b, e);
    for (uint32_t i = 0; s.op; i++, b_advance_send_cursor(b, &s))
        *s.op = v[i];
    ips_free_large(v);
    return 0;
}

/* Puts the sends of an end in order of return. Sends of one chain are in that
 * order already. If sends of different threads overlap in time, their order is
 * a guess and counts as ambiguous. */
static int sort_sends_and_count_ambiguous_order(struct build *b,
                                                struct b_end *e)
{
    bool ordered = true;
    uint64_t last = 0;
    if (!e->send_many)
        return 0;
    struct b_send_cursor s = b_init_send_cursor(b, e);
    for (; s.op && ordered; b_advance_send_cursor(b, &s)) {
        ordered = last <= s.op->t_ret;
        last = s.op->t_ret;
    }
    int rc = ordered ? 0 : sort_sends(b, e);
    const struct b_send *before = NULL;
    s = b_init_send_cursor(b, e);
    for (; s.op && rc == 0; before = s.op, b_advance_send_cursor(b, &s))
        if (before && before->chain != s.op->chain && before->t_ret > s.op->t)
            b->out->counts.ambiguous++;
    return rc;
}

/* ---- pipes that carry tokens ---- */

/* The processes that moved bytes through an end (each once, at most `max`).
 * not_one: some operation moved more than one byte, or none. */
struct pipe_users {
    uint32_t *procs, n, max;
    bool not_one;
};

static void add_token_pipe_user(const struct build *b, struct pipe_users *u,
                                uint32_t chain, uint64_t len)
{
    uint32_t p = b->out->g.chains[chain].process, k = 0;
    u->not_one |= len != 1;
    while (k < u->n && u->procs[k] != p)
        k++;
    if (k == u->n && u->n < u->max)
        u->procs[u->n++] = p;
}

#define USERS_MAX 64u

/* Returns the number of processes that write single bytes to `from`, and stores
 * them in procs[]; 0: some write was longer. Only the first write may have any
 * length: the process that makes the pipe may write all tokens at once (cargo
 * does). */
static uint32_t find_token_writers(const struct build *b, uint32_t from,
                                   uint32_t *procs)
{
    const struct b_end *e = &b->ends[from];
    struct pipe_users u = {.procs = procs, .max = USERS_MAX};
    struct b_send_cursor s = b_init_send_cursor(b, e);
    for (bool first = true; s.op && !u.not_one; first = false) {
        add_token_pipe_user(b, &u, s.op->chain, first ? 1 : s.op->len);
        b_advance_send_cursor(b, &s);
    }
    return u.not_one ? 0 : u.n;
}

static bool may_carry_tokens(const struct build *b, uint32_t from, uint32_t to)
{
    uint32_t give[USERS_MAX];
    return b->out->ends[to].kind == IPS_CHAN_PIPE && b->ends[from].send_many &&
           find_token_writers(b, from, give) > 1;
}

bool b_does_pipe_carry_tokens(const struct build *b, uint32_t from, uint32_t to)
{
    const struct b_end *e = &b->ends[to];
    uint32_t give[USERS_MAX], take[USERS_MAX] = {0}, both = 0;
    struct pipe_users u = {.procs = take, .max = USERS_MAX};
    if (b->out->ends[to].kind != IPS_CHAN_PIPE)
        return false;
    uint32_t givers = find_token_writers(b, from, give);
    for (uint32_t i = 0; i < e->read_count && givers > 1 && !u.not_one; i++) {
        const struct b_read *r = &b->reads[e->first_read + i];
        add_token_pipe_user(b, &u, r->chain, r->len);
    }
    for (uint32_t i = 0; i < givers && !u.not_one; i++)
        for (uint32_t k = 0; k < u.n; k++)
            both += give[i] == take[k];
    return both > 1;
}

/* ---- receives listed by end ---- */

/* Whether end `i` needs a list of its receives in order of return. Most ends
 * are read by one thread, in the order of its nodes, and need none. The list is
 * needed if several threads read, if a send of the peer blocked, for a pipe
 * that may carry tokens, if some processes are not recorded, and in an
 * incremental build. */
static bool needs_receive_list(const struct build *b, uint32_t i)
{
    const struct b_end *e = &b->ends[i];
    if (e->datagram || !e->read_count)
        return false;
    uint32_t from = b->out->ends[i].peer_end;
    return b->incremental || e->read_many ||
           (e->local && (b->careful || b->ends[from].send_blocked ||
                         may_carry_tokens(b, from, i)));
}

struct receive_lister {
    struct build *b;
    /* [end_count] where the end's next receive is added in b->reads */
    uint32_t *at;
    uint32_t ext, long_read;
};

static void append_receive_of_node(struct receive_lister *l, uint32_t i,
                                   uint32_t chain)
{
    struct build *b = l->b;
    const struct ips_graph *g = &b->out->g;
    struct b_read r = {
        .t_ret = g->t_ns[i], .node = i, .chain = chain, .ext = IPS_NONE};
    uint32_t end = g->site[i];
    if (b->ends[end].local) {
        r.len = g->xlen[i];
        r.t = r.t_ret - g->xpred[i];
        if (r.len && g->xpred[i] == IPS_NO_NODE) {
            while (b->long_reads.v[l->long_read].node != i)
                l->long_read++;
            r.t = b->long_reads.v[l->long_read].t;
        }
    } else { /* the peer is not local: the time of the call is not needed */
        while (l->ext < b->exts.n && b->exts.v[l->ext].node < i)
            l->ext++;
        if (l->ext < b->exts.n && b->exts.v[l->ext].node == i) {
            r.len = b->exts.v[l->ext].len;
            r.ext = l->ext;
        }
    }
    if (r.len)
        b->reads[l->at[end]++] = r;
}

static int compare_receives_by_return(const void *va, const void *vb)
{
    const struct b_read *x = va, *y = vb;
    CMP3(x->t_ret, y->t_ret);
    CMP3(x->t, y->t);
    CMP3(x->node, y->node);
    return 0;
}

static void sort_receives_if_needed(struct build *b, const struct b_end *e)
{
    struct b_read *v = b->reads + e->first_read;
    for (uint32_t i = 1; i < e->read_count; i++)
        if (v[i - 1].t_ret > v[i].t_ret) {
            qsort(v, e->read_count, sizeof(*v), compare_receives_by_return);
            return;
        }
}

static int list_receives_of_ends_that_need_it(struct build *b)
{
    const struct ips_graph *g = &b->out->g;
    uint32_t ends = b->out->end_count, n = 0;
    struct receive_lister l = {.b = b,
                               .at = b_calloc(ends, sizeof(*l.at), b->err)};
    if (!l.at)
        return IPS_E_NO_MEMORY;
    for (uint32_t i = 0; i < ends; i++) {
        b->ends[i].listed = needs_receive_list(b, i);
        l.at[i] = b->ends[i].first_read = n;
        n += b->ends[i].listed ? b->ends[i].read_count : 0;
    }
    b->reads = n ? b_calloc(n, sizeof(*b->reads), b->err) : NULL;
    for (uint32_t c = 0; b->reads && c < g->chain_count; c++) {
        uint32_t i = g->chains[c].first, end = i + g->chains[c].count;
        for (; i < end; i++)
            if (g->kind[i] == IPS_NODE_RECV && g->site[i] != IPS_NONE &&
                b->ends[g->site[i]].listed)
                append_receive_of_node(&l, i, c);
    }
    for (uint32_t i = 0; b->reads && i < ends; i++)
        if (b->ends[i].listed && b->ends[i].read_many)
            sort_receives_if_needed(b, &b->ends[i]);
    ips_free_large(l.at);
    return n && !b->reads ? IPS_E_NO_MEMORY : 0;
}

/* Sets the positions of receives whose sender may be on another machine. */
static int set_positions_of_maybe_remote_receives(struct build *b)
{
    uint64_t *pos = b_calloc(b->out->end_count, sizeof(*pos), b->err);
    if (!pos)
        return IPS_E_NO_MEMORY;
    for (uint32_t i = 0; i < b->out->end_count; i++) {
        const struct b_end *e = &b->ends[i];
        pos[i] = e->recv_before;
        for (uint32_t k = 0; e->listed && !e->local && k < e->read_count; k++) {
            const struct b_read *r = &b->reads[e->first_read + k];
            pos[i] = ips_add_sat(pos[i], r->len);
            if (r->ext != IPS_NONE)
                b->exts.v[r->ext].pos = b_clamp_pos(pos[i]);
        }
    }
    for (uint32_t i = 0; i < b->exts.n; i++) {
        struct b_external *x = &b->exts.v[i];
        const struct b_end *e = &b->ends[x->end];
        if (!x->len || e->datagram || e->local || e->listed)
            continue;
        pos[x->end] = ips_add_sat(pos[x->end], x->len);
        x->pos = b_clamp_pos(pos[x->end]);
    }
    ips_free_large(pos);
    return 0;
}

/* ---- one direction of a local channel ---- */

static struct match_cursor
early_or_new_match_cursor_of_end(const struct build *b, uint32_t to)
{
    struct match_cursor f = b_init_match_cursor(b, to);
    if (to < b->early_count && b->early[to].early)
        f = b->early[to];
    f.whole = b->out->ends[b->out->ends[to].peer_end].closed;
    f.open = !b->ends[to].listed;
    return f;
}

static int match_listed_receives(struct build *b, uint32_t to)
{
    struct match_cursor f = early_or_new_match_cursor_of_end(b, to);
    const struct b_end *e = &b->ends[to];
    const struct b_read *before = NULL;
    const struct b_send *before_send = NULL;
    bool tokens = b_does_pipe_carry_tokens(b, b->out->ends[to].peer_end, to);
    if (b->careful && !tokens && b_has_unrecorded_user(b, to))
        return b_match_receives_of_shared_stream(b, to);
    for (uint32_t i = 0; i < e->read_count; i++) {
        const struct b_read *r = &b->reads[e->first_read + i];
        struct b_send *send = advance_to_send_or_count_unmatched(b, &f, r->len);
        if (!send || tokens)
            clear_send_of_receive(b, r->node);
        if (!send)
            continue;
        if (tokens) {
            bool waited = b->out->g.wait[r->node] > 0;
            if (waited)
                b_set_cross(b, r->node, send->node, IPS_X_RESOURCE,
                            IPS_THING_TOKEN);
            b->out->counts.order_dependent += waited;
            continue;
        }
        /* Two threads read at once: if their bytes came from different sends,
         * it is not certain which thread got which. */
        if (e->read_many && before && before->chain != r->chain &&
            before->t_ret > r->t && before_send != send)
            b->out->counts.ambiguous++;
        before_send = send;
        before = r;
        link_receive_and_limit_send_coord(b, &f, send, r->node);
    }
    return 0;
}

/* Matches receive `v` of `len` bytes in the common case of
 * b_compute_xkind_if_whole_message(). False: it is another case, and nothing
 * was changed.
 */
static inline bool
match_receive_if_it_got_whole_next_send(struct build *b, struct match_cursor *f,
                                        uint32_t v, uint64_t len)
{
    const struct ips_graph *g = &b->out->g;
    const struct b_send *send = f->send.op;
    if (f->read != f->sent || !send || ++send == f->send.end ||
        send->len != len)
        return false;
    uint64_t read = f->read + len;
    uint8_t xkind = b_compute_xkind_if_whole_message(
        send, g->t_ns[v], b->cpu_at[v] - g->w[v], g->wait[v], read, f->memory);
    if (!xkind)
        return false;
    __builtin_prefetch(send + 4, 1);
    g->xpred[v] = send->node;
    g->xkind[v] = xkind;
    f->send.op++;
    f->send.position++;
    f->read = f->sent = read;
    return true;
}

/* Returns a bit set: bit k is set if node k (of n, at most 64) is a receive
 * without a known send. */
static uint64_t find_unmatched_receives_as_bit_set(const uint8_t *kind,
                                                   const uint8_t *xkind,
                                                   uint32_t n)
{
    const uint64_t each = 0x0101010101010101ULL;
    uint64_t bits = 0;
    uint32_t k = 0;
    for (; k + 8 <= n; k += 8) {
        uint64_t eight, known;
        memcpy(&eight, kind + k, 8);
        memcpy(&known, xkind + k, 8);
        /* makes the byte of each receive without a known send 0, then sets one
         * bit for each byte that is 0 */
        eight = (eight ^ each * IPS_NODE_RECV) | known;
        eight = ~(((eight & each * 0x7f) + each * 0x7f) | eight) >> 7 & each;
        bits |= (eight * 0x0102040810204080ULL >> 56) << k;
    }
    for (; k < n; k++)
        bits |= (uint64_t)(kind[k] == IPS_NODE_RECV && !xkind[k]) << k;
    return bits;
}

/* Matches all receives that are not listed, in the order of their nodes. */
static void match_unlisted_receives(struct build *b, struct match_cursor *flows)
{
    const struct ips_graph *g = &b->out->g;
    const bool general = b->in->general;
    for (uint32_t from = 0; from < g->node_count; from += 64) {
        uint64_t left = find_unmatched_receives_as_bit_set(
            g->kind + from, g->xkind + from,
            ips_min_u32(g->node_count - from, 64));
        for (; left; left &= left - 1) {
            uint32_t i = from + (uint32_t)__builtin_ctzll(left);
            uint64_t len = g->xlen[i];
            if (!len || g->site[i] == IPS_NONE || !flows[g->site[i]].open)
                continue;
            struct match_cursor *f = &flows[g->site[i]];
            if (!general &&
                match_receive_if_it_got_whole_next_send(b, f, i, len))
                continue;
            struct b_send *send = advance_to_send_or_count_unmatched(b, f, len);
            if (!send) {
                clear_send_of_receive(b, i);
                continue;
            }
            struct b_matched x = b_link_receive_and_limit_both_coords(
                b, f, send, g->t_ns[i], b->cpu_at[i], g->w[i], g->wait[i], len);
            g->w[i] = x.coord;
            g->xpred[i] = x.xpred;
            g->xkind[i] = x.xkind;
        }
    }
}

static int match_all_receives(struct build *b)
{
    struct match_cursor *flows =
        b_calloc(b->out->end_count, sizeof(*flows), b->err);
    bool any = false;
    int rc = 0;
    if (!flows)
        return IPS_E_NO_MEMORY;
    for (uint32_t to = 0; to < b->out->end_count && rc == 0; to++) {
        if (!b->ends[to].local || b->ends[to].datagram)
            continue;
        if (b->ends[to].listed)
            rc = match_listed_receives(b, to);
        else if (b->ends[to].read_count)
            flows[to] = early_or_new_match_cursor_of_end(b, to);
        any |= flows[to].open;
    }
    if (any && rc == 0)
        match_unlisted_receives(b, flows);
    ips_free_large(flows);
    return rc;
}

/* The send did not wait but was preempted: gives it the coordinate of a send
 * that did not block, subtracts its wait from the thread's row, and makes its
 * sleep time off the CPU between calls, which is run delay before any other
 * (build/delay.c). */
static void mark_send_preempted(struct build *b, struct b_send *send)
{
    struct ips_graph *g = &b->out->g;
    struct ips_thread_row *row = &b->out->threads[send->chain];
    uint64_t slept = b_blocked_ns(send->t, send->t_ret, g->w[send->node],
                                  g->w[send->node + 1]);
    row->wait_ns[IPS_WAIT_PEER] =
        ips_sub_sat(row->wait_ns[IPS_WAIT_PEER], slept);
    row->wait_count[IPS_WAIT_PEER] -= row->wait_count[IPS_WAIT_PEER] > 0;
    if (b->notes)
        b_store_node_of_dropped_wait_rows(b, send->node + 1);
    if (b->incremental)
        b_incremental_add_preempted(b, send, slept);
    if (b->off)
        b->off[send->node + 1] =
            ips_sub_sat(b->off[send->node + 1], g->wait[send->node + 1]);
    else
        b->chains[send->chain].unknown_ns =
            ips_add_sat(b->chains[send->chain].unknown_ns, slept);
    g->wait[send->node + 1] = 0;
    g->w[send->node] = g->w[send->node + 1];
    send->past_cpu_ns = ips_sub_sat(g->w[send->node], b->cpu_at[send->node]);
}

/* A pipe or socket of usual size may be full if this many bytes are unread. */
#define FULL_BYTES 32768u

/* Returns the node that closed the other end while the send waited, and so cut
 * it short; or IPS_NO_NODE. */
static uint32_t find_close_during_send(const struct build *b, uint32_t to,
                                       const struct b_send *send)
{
    if (to == IPS_NONE || !b->out->ends[to].closed ||
        !b->ends[to].release_count)
        return IPS_NO_NODE;
    const struct b_release_event *last = b->releases.v +
                                         b->ends[to].first_release +
                                         b->ends[to].release_count - 1;
    return last->t >= send->t && last->t <= send->t_ret &&
                   ips_chain_of(&b->out->g, last->node) != send->chain
               ? last->node
               : IPS_NO_NODE;
}

uint32_t b_find_node_that_made_space(const struct build *b, uint32_t node,
                                     uint64_t read, uint64_t sent)
{
    const struct ips_graph *g = &b->out->g;
    uint32_t c = ips_chain_of(g, node);
    if (read <= sent)
        return node;
    return node > g->chains[c].first ? node - 1 : IPS_NO_NODE;
}

/* Makes the arc to each send that blocked for space, from the last receive that
 * returned before the send did: that receive made the space. If there was space
 * all the time, marks the send as preempted instead. */
void b_link_blocked_sends_or_mark_preempted(struct build *b,
                                            struct b_full_sends *k)
{
    const struct b_read *reads = k->reads;
    uint32_t r = 0, got = 0;
    uint64_t read = k->read, sent = k->sent, returned = read;
    struct b_send_cursor s = k->send;
    for (; s.op; b_advance_send_cursor(b, &s)) {
        struct b_send *send = s.op;
        sent = ips_add_sat(sent, send->len);
        for (; got < k->count && reads[got].t_ret <= send->t; got++)
            read = ips_add_sat(read, reads[got].len);
        for (; r < k->count && reads[r].t_ret <= send->t_ret; r++)
            returned = ips_add_sat(returned, reads[r].len);
        if (!send->blocked)
            continue;
        uint32_t last = r > 0 ? reads[r - 1].node : k->last;
        /* A reader that was preempted in its call returns later than it made
         * the space. */
        bool during = r > 0 && reads[r - 1].t_ret >= send->t;
        /* A reader of a pipe takes all bytes in the pipe at once. If it also
         * took the last byte of this send, that byte was in the pipe before the
         * read, so the send did not wait for the read. */
        bool took_it = false;
        if (!during && r < k->count && reads[r].t <= send->t_ret) {
            uint64_t got_all = ips_add_sat(returned, reads[r].len);
            last = b_find_node_that_made_space(b, reads[r].node, got_all, sent);
            took_it = got_all >= sent && k->pipe;
            during = true;
        }
        uint64_t unread = ips_sub_sat(b_clamp_pos(sent), b_clamp_pos(read));
        uint32_t closed = during || unread < FULL_BYTES
                              ? IPS_NO_NODE
                              : find_close_during_send(b, k->to, send);
        if (unread <= k->always || took_it)
            mark_send_preempted(b, send);
        else if (closed != IPS_NO_NODE)
            b_set_cross(b, send->node + 1, closed, IPS_X_LIFETIME, 0);
        else if (last != IPS_NO_NODE)
            b_set_cross(b, send->node + 1, last, IPS_X_ROOM, 0);
    }
}

void b_mark_small_blocked_remote_sends_preempted(struct build *b,
                                                 struct b_send_cursor s)
{
    for (; s.op; b_advance_send_cursor(b, &s))
        if (s.op->blocked && s.op->len <= B_ROOM_ALWAYS_BYTES)
            mark_send_preempted(b, s.op);
}

static void match_blocked_sends_of_end(struct build *b, uint32_t from,
                                       uint32_t to)
{
    const struct b_end *e = &b->ends[to];
    struct b_full_sends k = {
        .send = b_init_send_cursor(b, &b->ends[from]),
        .sent = b->ends[from].sent_before,
        .read = e->recv_before,
        .reads = e->listed ? b->reads + e->first_read : NULL,
        .count = e->listed ? e->read_count : 0,
        .last = IPS_NO_NODE,
        .to = to,
        .pipe = b->out->ends[to].kind == IPS_CHAN_PIPE,
        .always = b->ends[from].packets ? 0 : B_ROOM_ALWAYS_BYTES};
    b_link_blocked_sends_or_mark_preempted(b, &k);
}

static void match_blocked_sends(struct build *b)
{
    for (uint32_t i = 0; i < b->out->end_count; i++) {
        uint32_t peer = b->out->ends[i].peer_end;
        if (b->ends[i].datagram)
            continue;
        if (b->ends[i].local && b->ends[peer].send_blocked)
            match_blocked_sends_of_end(b, peer, i);
        if (!b->ends[i].local && b->ends[i].send_blocked)
            b_mark_small_blocked_remote_sends_preempted(
                b, b_init_send_cursor(b, &b->ends[i]));
    }
}

int b_match_streams(struct build *b)
{
    int rc = 0;
    for (uint32_t i = 0; i < b->out->end_count && rc == 0; i++)
        rc = sort_sends_and_count_ambiguous_order(b, &b->ends[i]);
    if (rc == 0)
        rc = list_receives_of_ends_that_need_it(b);
    if (rc == 0)
        rc = set_positions_of_maybe_remote_receives(b);
    if (rc < 0)
        return rc;
    /* must run before match_all_receives(): it sets coordinates of sends, which
     * arcs may lower further */
    match_blocked_sends(b);
    rc = match_all_receives(b);
    for (uint32_t i = 0; i < b->out->end_count && rc == 0; i++) {
        b->out->ends[i].sent_bytes =
            ips_add_sat(b->out->ends[i].sent_bytes, b->ends[i].sent_before);
        b->out->ends[i].recv_bytes =
            ips_add_sat(b->out->ends[i].recv_bytes, b->ends[i].recv_before);
    }
    return rc;
}

/* For ends in packet mode, g.xlen counted messages, because positions do. Sets
 * it to the number of bytes, now that all sends are found. */
void b_restore_packet_bytes(struct build *b)
{
    for (uint32_t i = 0; i < b->packets.n; i++) {
        uint64_t *len = &b->out->g.xlen[b->packets.v[i].node];
        *len = *len ? b->packets.v[i].bytes : 0;
    }
}
