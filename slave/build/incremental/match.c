/* Pass `match` of an incremental build, for sends and receives that are not
 * final (build/incremental/grow.h). */
#include "slave/build/incremental/state.h"

struct b_send *g_get_send_at_position(const struct build *b,
                                      const struct b_end *e,
                                      struct g_send_position *at)
{
    if (!e->sends.n)
        return NULL;
    if (at->block == IPS_NONE)
        *at = (struct g_send_position){.block = e->sends.first};
    const struct b_block *k = &b->blocks.v[at->block];
    if (at->i == k->n) {
        if (k->next == IPS_NONE)
            return NULL;
        *at = (struct g_send_position){.block = k->next};
        k = &b->blocks.v[at->block];
    }
    return b_send_at(b, k->at + at->i);
}

static struct b_send_cursor make_send_cursor_at(const struct build *b,
                                                const struct b_end *e,
                                                struct g_send_position at)
{
    struct b_send_cursor s = {.op = g_get_send_at_position(b, e, &at),
                              .block = IPS_NONE};
    if (!s.op)
        return s;
    const struct b_block *k = &b->blocks.v[at.block];
    s.position = k->at + at.i;
    s.end = s.op - at.i + k->n;
    s.block = k->next;
    s.now = at.block;
    return s;
}

struct match_cursor g_resume_match_cursor(const struct build *b,
                                          const struct g_end *x, uint32_t to)
{
    uint32_t from = b->out->ends[to].peer_end;
    struct match_cursor f = {.send =
                                 make_send_cursor_at(b, &b->ends[from], x->at),
                             .read = x->read,
                             .sent = x->sent,
                             .whole = b->out->ends[from].closed};
    if (!x->at_send && f.send.op)
        f.sent = ips_add_sat(f.sent, f.send.op->len);
    return f;
}

/* Resets past_cpu_ns of the sends that are not final, because their coordinates
 * (g.w) are again as the records made them. */
static void reset_cpu_after_send_calls(struct b_incremental *k, uint32_t end)
{
    struct build *b = &k->b;
    struct b_send_cursor s =
        make_send_cursor_at(b, &b->ends[end], k->ends[end].first);
    for (; s.op; b_advance_send_cursor(b, &s))
        s.op->past_cpu_ns =
            ips_sub_sat(k->built.g.w[s.op->node], b->cpu_at[s.op->node]);
}

static void match_open_blocked_sends(struct b_incremental *k, uint32_t from,
                                     uint32_t to)
{
    struct build *b = &k->b;
    const struct g_end *x = &k->ends[to], *y = &k->ends[from];
    struct b_full_sends room = {
        .send = make_send_cursor_at(b, &b->ends[from], y->first),
        .sent = y->first_sent,
        .read = x->got,
        .reads = x->reads.v,
        .count = x->reads.n,
        .last = x->got_last,
        .to = IPS_NONE,
        .pipe = b->out->ends[to].kind == IPS_CHAN_PIPE,
        .always = B_ROOM_ALWAYS_BYTES};
    b_link_blocked_sends_or_mark_preempted(b, &room);
    for (uint32_t i = x->seen; i < x->reads.n; i++)
        b->broken |= x->reads.v[i].t_ret <= y->room_ns;
}

/* Matches the receives x->reads.v[i] and later whose nodes are before `node`.
 * Returns the index of the first one after these. */
static uint32_t match_receives_before_node(struct build *b, struct g_end *x,
                                           struct match_cursor *f, uint32_t i,
                                           uint32_t node)
{
    for (; i < x->reads.n && x->reads.v[i].node < node; i++) {
        const struct b_read *r = &x->reads.v[i];
        struct b_send *send = advance_to_send_or_count_unmatched(b, f, r->len);
        b->broken |= b_does_clock_contradict_match(b, r, send, f->whole);
        if (send) {
            link_receive_and_limit_send_coord(b, f, send, r->node);
            continue;
        }
        clear_send_of_receive(b, r->node);
        if (!f->whole && i < x->waits)
            x->waits = i;
    }
    return i;
}

static void match_open_receives_of_end(struct b_incremental *k, uint32_t to)
{
    struct build *b = &k->b;
    struct g_end *x = &k->ends[to];
    struct match_cursor f = g_resume_match_cursor(b, x, to);
    const struct ips_build_counts *n = &b->out->counts;
    uint64_t unmatched = n->unmatched, pending = n->pending;
    uint32_t i = x->open;
    x->waits = x->reads.n;
    if (i == x->waits)
        return;
    /* All receives of the end are of one thread. Nearly all that are old enough
     * will become final. Then g_finalize_nodes_before_borders() continues after
     * them, from x->mark, and need not match them again. */
    i = match_receives_before_node(b, x, &f, i,
                                   k->chains[x->reads.v[i].chain].old);
    x->mark = (struct g_mark){.made = true,
                              .i = i,
                              .f = f,
                              .unmatched = n->unmatched - unmatched,
                              .pending = n->pending - pending};
    (void)match_receives_before_node(b, x, &f, i, UINT32_MAX);
}

/* Sets the positions of receives whose sender may be on another machine, and
 * sorts these receives by node. */
static int set_positions_and_sort_external_receives(struct b_incremental *k)
{
    struct build *b = &k->b;
    uint32_t n = b->exts.n, old = k->ext_count;
    for (uint32_t i = old; i < n; i++) {
        struct b_external *x = &b->exts.v[i];
        if (!x->len || b->ends[x->end].local)
            continue;
        uint64_t *pos = &k->ends[x->end].ext_pos;
        *pos = ips_add_sat(*pos, x->len);
        x->pos = b_clamp_pos(*pos);
    }
    if (old == n || old == 0 || b->exts.v[old - 1].node < b->exts.v[old].node)
        return 0;
    struct b_external *v = b_calloc(n, sizeof(*v), b->err);
    if (!v)
        return IPS_E_NO_MEMORY;
    uint32_t i = 0, j = old, to = 0;
    while (to < n) {
        bool first =
            j == n || (i < old && b->exts.v[i].node < b->exts.v[j].node);
        v[to++] = b->exts.v[first ? i++ : j++];
    }
    ips_free_large(b->exts.v);
    b->exts.v = v;
    b->exts.capacity = n;
    return 0;
}

int g_match_open_sends_and_receives(struct b_incremental *k)
{
    struct build *b = &k->b;
    struct ips_end *rows = k->built.ends;
    uint32_t n = k->built.end_count;
    int rc = set_positions_and_sort_external_receives(k);
    for (uint32_t i = 0; i < n && rc == 0; i++)
        if (!k->ends[i].shut)
            reset_cpu_after_send_calls(k, i);
    for (uint32_t i = 0; i < n && rc == 0; i++) {
        if (k->ends[i].shut)
            continue;
        if (b->ends[i].local && b->ends[rows[i].peer_end].send_blocked)
            match_open_blocked_sends(k, rows[i].peer_end, i);
        if (!b->ends[i].local && b->ends[i].send_blocked)
            b_mark_small_blocked_remote_sends_preempted(
                b, make_send_cursor_at(b, &b->ends[i], k->ends[i].first));
    }
    for (uint32_t i = 0; i < n && rc == 0; i++)
        if (!k->ends[i].shut && b->ends[i].local)
            match_open_receives_of_end(k, i);
    for (uint32_t i = 0; i < n; i++) {
        rows[i].sent_bytes =
            ips_add_sat(rows[i].sent_bytes, b->ends[i].sent_before);
        rows[i].recv_bytes =
            ips_add_sat(rows[i].recv_bytes, b->ends[i].recv_before);
    }
    return rc;
}
