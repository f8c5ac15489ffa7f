/* Decides which nodes are final, that is, moves the border of each chain
 * (build/incremental/grow.h). `limit` of a chain is its next border. */
#include "slave/build/incremental/state.h"

/* ---- after the first call ---- */

static bool is_end_not_continuable(const struct b_end *e)
{
    return e->datagram || e->listen || e->send_many || e->read_many;
}

static int init_end_state(struct b_incremental *k, uint32_t i)
{
    struct build *b = &k->b;
    const struct b_end *e = &b->ends[i];
    struct g_end *x = &k->ends[i];
    uint32_t peer = k->built.ends[i].peer_end;
    const struct b_end *from = e->local ? &b->ends[peer] : NULL;
    x->shut =
        is_end_not_continuable(e) || (from && is_end_not_continuable(from));
    x->at = x->first = (struct g_send_position){.block = IPS_NONE};
    x->read = x->got = x->ext_pos = e->recv_before;
    x->first_sent = e->sent_before;
    x->sent = from ? from->sent_before : 0;
    x->got_last = IPS_NO_NODE;
    k->end_rows[i].closed = k->built.ends[i].closed;
    if (x->shut || !from || !e->listed)
        return 0;
    x->reads.v = b_calloc(e->read_count, sizeof(*x->reads.v), b->err);
    if (!x->reads.v)
        return IPS_E_NO_MEMORY;
    x->reads.n = x->reads.capacity = e->read_count;
    memcpy(x->reads.v, b->reads + e->first_read,
           e->read_count * sizeof(*x->reads.v));
    return 0;
}

/* Returns how many of the receives from reads.v[open] on are unmatched and
 * pending, as counts that are not added to those of the build. Also sets
 * x->waits to the first receive whose send may still come. */
static struct ips_build_counts
count_unmatched_and_pending_receives(struct b_incremental *k, uint32_t to)
{
    struct build *b = &k->b;
    struct g_end *x = &k->ends[to];
    struct ips_build_counts was = k->built.counts, n;
    struct match_cursor f = g_resume_match_cursor(b, x, to);
    x->waits = x->reads.n;
    for (uint32_t i = x->open; i < x->reads.n; i++)
        if (!advance_to_send_or_count_unmatched(b, &f, x->reads.v[i].len) &&
            !f.whole && i < x->waits)
            x->waits = i;
    n = k->built.counts;
    k->built.counts = was;
    g_add_or_subtract_counts(&n, &was, true);
    return n;
}

/* Copies the names of streams, which point into records: those may be freed
 * before the next call. */
static int copy_stream_names(struct b_incremental *k)
{
    struct build *b = &k->b;
    size_t bytes = 1;
    for (uint32_t i = 0; i < k->in.stream_count; i++)
        bytes += b->streams[i].name ? b->streams[i].name_len + 1u : 0;
    k->names = b_calloc(bytes, 1, b->err);
    if (!k->names)
        return IPS_E_NO_MEMORY;
    uint8_t *at = k->names;
    for (uint32_t i = 0; i < k->in.stream_count; i++) {
        struct b_stream *s = &b->streams[i];
        s->exec = NULL;
        if (!s->name)
            continue;
        memcpy(at, s->name, s->name_len);
        s->name = at;
        at += s->name_len + 1u;
    }
    return 0;
}

/* Whether fork `f` waited for a child that is still running and has no node for
 * the start of its program. A later whole build may make an arc from the
 * child's END to the return of the fork, so the state cannot be kept. */
static bool fork_may_get_spawn_arc_later(const struct build *b,
                                         const struct b_fork *f)
{
    return f->child != IPS_NONE && f->child_proc != IPS_NONE &&
           b->chains[f->child].image_aux == IPS_NO_NODE &&
           b->out->procs[f->child_proc].open &&
           (f->kind == IPS_FORK_VFORK || f->kind == IPS_FORK_SPAWN ||
            f->kind == IPS_FORK_POPEN);
}

int g_init_state(struct b_incremental *k)
{
    struct build *b = &k->b;
    int rc = copy_stream_names(k);
    for (uint32_t i = 0; i < b->forks.n; i++)
        b->broken |= fork_may_get_spawn_arc_later(b, &b->forks.v[i]);
    for (uint32_t i = 0; i < k->built.end_count && rc == 0; i++)
        rc = init_end_state(k, i);
    ips_free_large(b->reads);
    b->reads = NULL;
    if (rc < 0)
        return rc;
    k->matched = k->behind_match;
    g_add_or_subtract_counts(&k->matched, &k->before_match, true);
    for (uint32_t i = 0; i < k->built.end_count; i++) {
        const struct b_end *e = &b->ends[i];
        if (k->ends[i].shut || !e->local)
            continue;
        struct ips_build_counts n = count_unmatched_and_pending_receives(k, i);
        g_add_or_subtract_counts(&k->matched, &n, true);
    }
    for (uint32_t i = 0; i < b->exts.n; i++) {
        const struct b_external *x = &b->exts.v[i];
        uint64_t *pos = &k->ends[x->end].ext_pos;
        if (x->len && !b->ends[x->end].local)
            *pos = ips_add_sat(*pos, x->len);
    }
    k->event_count = b->events.n;
    k->dgram_count = b->dgrams.n;
    k->used = b_calloc(k->traffic_count, sizeof(*k->used), b->err);
    return k->used ? 0 : IPS_E_NO_MEMORY;
}

/* ---- moving the borders ---- */

/* The chain that was looked up last: a cache, because most arcs of a chain come
 * from few other chains. */
struct chain_cache {
    uint32_t chain, first, end; /* end is 0 while the cache is empty */
};

static inline uint32_t find_chain_cached(const struct b_incremental *k,
                                         struct chain_cache *n, uint32_t node)
{
    const struct ips_graph *g = &k->built.g;
    if (node < n->first || node >= n->end) {
        n->chain = ips_chain_of(g, node);
        n->first = g->chains[n->chain].first;
        n->end = n->chain + 1 < g->chain_count ? g->chains[n->chain + 1].first
                                               : UINT32_MAX;
    }
    return n->chain;
}

static uint32_t border_of_node_chain(const struct b_incremental *k,
                                     uint32_t node)
{
    return k->chains[ips_chain_of(&k->built.g, node)].limit;
}

static void move_border_back_to_node(struct b_incremental *k, uint32_t c,
                                     uint32_t node)
{
    k->chains[c].limit = ips_min_u32(k->chains[c].limit, node);
}

uint64_t g_newest_record_ns(const struct b_incremental *k)
{
    uint64_t newest = 0;
    for (uint32_t i = 0; i < k->in.stream_count; i++)
        newest = ips_max_u64(newest, k->b.streams[i].last_ns);
    return newest;
}

uint32_t g_first_young_node(const struct b_incremental *k, uint32_t c,
                            uint64_t newest)
{
    const struct ips_graph *g = &k->built.g;
    uint32_t end = g_node_after_chain(k, c), i = b_first_open_node(&k->b, c),
             high = end;
    if (!k->chains[c].goes_on)
        return end;
    while (i < high) { /* nodes of a chain are in order of time */
        uint32_t mid = i + (high - i) / 2;
        if (ips_add_sat(g->t_ns[mid], k->lag_ns) <= newest)
            i = mid + 1;
        else
            high = mid;
    }
    return i;
}

/* Sets the first estimate of the border: after the nodes that are old enough
 * and that no signal can still change. */
static void estimate_border(struct b_incremental *k, uint32_t c,
                            uint64_t newest)
{
    struct g_chain *x = &k->chains[c];
    x->limit = g_first_young_node(k, c, newest);
    for (uint32_t n = 0; n < x->m.taken_count; n++)
        if (x->goes_on && x->m.taken_signal[n].node != IPS_NO_NODE)
            move_border_back_to_node(k, c, x->m.taken_signal[n].node);
}

/* If the run delay of the chain was read, moves its border back to the start of
 * a window between two readings. */
static void move_border_back_to_window(struct b_incremental *k, uint32_t c)
{
    const struct g_chain *x = &k->chains[c];
    uint32_t best = b_first_open_node(&k->b, c), end = g_node_after_chain(k, c);
    if (!k->b.chains[c].read_delays)
        return;
    for (uint32_t i = 0; i < x->windows.n; i++) {
        uint32_t node = x->windows.v[i].node;
        /* If the chain may get more records, a window without a node does not
         * count: a later node may still be before the first reading of that
         * window. */
        if (node > best && node <= x->limit && (!x->goes_on || node < end))
            best = node;
    }
    move_border_back_to_node(k, c, best);
}

/* Moves the border back if it is between a send that blocked and the node of
 * the send's return. */
static void move_border_back_to_blocked_send(struct b_incremental *k,
                                             uint32_t c)
{
    const struct ips_graph *g = &k->built.g;
    uint32_t v = k->chains[c].limit;
    if (v > b_first_open_node(&k->b, c) && v < g_node_after_chain(k, c) &&
        g->kind[v] == IPS_NODE_AUX && g->kind[v - 1] == IPS_NODE_SEND &&
        g->site[v] == g->site[v - 1])
        move_border_back_to_node(k, c, v - 1);
}

/* Returns the earliest time of all nodes that are not final, ns. */
static uint64_t earliest_open_node_ns(const struct b_incremental *k)
{
    uint64_t t = UINT64_MAX;
    for (uint32_t c = 0; c < k->built.g.chain_count; c++)
        if (k->chains[c].limit < g_node_after_chain(k, c))
            t = ips_min_u64(t, k->built.g.t_ns[k->chains[c].limit]);
    return t;
}

/* Moves the border back until no final node of the chain has a cross arc from a
 * node that is not final. All arcs lead forwards in time (otherwise no state is
 * kept). So nodes before t, the earliest time of a node that is not final, need
 * no check. */
static void move_border_back_for_arcs(struct b_incremental *k, uint32_t c,
                                      uint64_t t)
{
    const struct ips_graph *g = &k->built.g;
    struct g_chain *x = &k->chains[c];
    struct chain_cache near = {0};
    uint32_t first = b_first_open_node(&k->b, c);
    for (uint32_t i = x->limit; i > first && g->t_ns[i - 1] >= t; i--) {
        uint32_t from = g->xpred[i - 1];
        if (from == IPS_NO_NODE ||
            (from >= g->chains[c].first && from < x->limit))
            continue; /* the source is in the same chain */
        if (from >= k->chains[find_chain_cached(k, &near, from)].limit)
            x->limit = i - 1;
    }
}

static void move_borders_back_for_joins(struct b_incremental *k)
{
    const struct build *b = &k->b;
    for (uint32_t i = 0; i < b->joins.n; i++) {
        const struct b_join *j = &b->joins.v[i];
        if (j->node == IPS_NO_NODE || j->child == IPS_NONE ||
            j->node < border_of_node_chain(k, j->node))
            continue;
        move_border_back_to_node(k, j->child,
                                 ips_max_u32(b_get_end_node(b, j->child),
                                             b_first_open_node(b, j->child)));
    }
}

static void move_borders_back_for_lowered_nodes(struct b_incremental *k)
{
    for (uint32_t i = 0; i < k->bent.n; i++)
        if (k->bent.v[i].by >= border_of_node_chain(k, k->bent.v[i].by))
            move_border_back_to_node(
                k, ips_chain_of(&k->built.g, k->bent.v[i].node),
                k->bent.v[i].node);
}

static uint64_t sum_borders(const struct b_incremental *k)
{
    uint64_t sum = 0;
    for (uint32_t c = 0; c < k->built.g.chain_count; c++)
        sum += k->chains[c].limit;
    return sum;
}

static void find_borders(struct b_incremental *k)
{
    struct build *b = &k->b;
    uint32_t n = k->built.g.chain_count;
    uint64_t newest = g_newest_record_ns(k), before;
    for (uint32_t c = 0; c < n; c++)
        estimate_border(k, c, newest);
    for (uint32_t i = 0; i < k->built.end_count; i++) {
        const struct g_end *x = &k->ends[i];
        if (!x->shut && b->ends[i].local && x->waits < x->reads.n)
            move_border_back_to_node(k, x->reads.v[x->waits].chain,
                                     x->reads.v[x->waits].node);
    }
    do {
        before = sum_borders(k);
        uint64_t t = earliest_open_node_ns(k);
        for (uint32_t c = 0; c < n; c++) {
            move_border_back_for_arcs(k, c, t);
            move_border_back_to_window(k, c);
            move_border_back_to_blocked_send(k, c);
        }
        move_borders_back_for_joins(k);
        move_borders_back_for_lowered_nodes(k);
    } while (sum_borders(k) != before);
}

/* Whether the nodes after the border can be made again from the saved columns.
 * They cannot if an operation there is on an end that is `shut`, or if an arc
 * comes from the END of a chain that may get more records. */
static bool can_nodes_after_border_be_remade(const struct b_incremental *k,
                                             uint32_t c)
{
    const struct ips_graph *g = &k->built.g;
    const struct g_chain *x = &k->chains[c];
    uint32_t end = g_node_after_chain(k, c);
    if (x->limit < b_first_open_node(&k->b, c) ||
        (x->limit < end && x->limit < x->raw.from))
        return false;
    struct chain_cache near = {0};
    for (uint32_t i = x->limit; i < end; i++) {
        uint32_t from = g->xpred[i], site = g->site[i];
        bool op = g->kind[i] == IPS_NODE_SEND || g->kind[i] == IPS_NODE_RECV;
        if (op && site != UINT32_MAX && k->ends[site].shut)
            return false;
        uint32_t of =
            from == IPS_NO_NODE ? 0 : find_chain_cached(k, &near, from);
        if (from != IPS_NO_NODE && k->chains[of].goes_on &&
            from == g_node_after_chain(k, of))
            return false; /* the source is an END that will move */
    }
    return true;
}

/* ---- making nodes final ---- */

static void finalize_chain(struct b_incremental *k, uint32_t c)
{
    struct build *b = &k->b;
    const struct ips_graph *g = &k->built.g;
    struct g_chain *x = &k->chains[c];
    struct b_resume_point *from = &b->from[c];
    uint32_t first = g->chains[c].first, i = from->node;
    if (i == first)
        from->at = b->chains[c].base;
    if (x->sums.node > i && x->sums.node <= x->limit) {
        i = x->sums.node;
        from->at = x->sums.at;
        from->cpu_ns = x->sums.cpu_ns;
        from->probe_ns = x->sums.probe_ns;
        from->xlen = x->sums.xlen;
        if (!b->chains[c].read_delays)
            from->unknown_ns = x->sums.unknown_ns;
    }
    x->sums.node = 0;
    for (; i < x->limit; i++) {
        from->at = ips_max_u64(from->at, b->coord[i]);
        from->cpu_ns += g->w[i];
        from->probe_ns += g->probe[i];
        from->xlen += g->xlen[i];
        if (i > first && !b->chains[c].read_delays)
            from->unknown_ns = ips_add_sat(
                from->unknown_ns, b_off_cpu_between_calls_ns(
                                      g->t_ns[i], g->t_ns[i - 1], b->cpu_at[i],
                                      b->cpu_at[i - 1], b->off[i]));
    }
    for (i = 0; i < x->windows.n; i++)
        if (x->windows.v[i].node == x->limit)
            from->window = x->windows.v[i];
    g_drop_first_raw_nodes(&x->raw,
                           x->limit > x->raw.from ? x->limit - x->raw.from : 0);
    x->raw.from = x->limit;
    from->node = x->limit;
}

static void advance_past_final_sends_of_end(struct b_incremental *k,
                                            uint32_t end)
{
    struct build *b = &k->b;
    struct g_end *x = &k->ends[end];
    struct b_send *op;
    while ((op = g_get_send_at_position(b, &b->ends[end], &x->first)) != NULL &&
           op->node < k->chains[op->chain].limit) {
        x->first_sent = ips_add_sat(x->first_sent, op->len);
        if (op->blocked)
            x->room_ns = ips_max_u64(x->room_ns, op->t_ret);
        x->first.i++;
    }
}

/* Returns a lower bound, ns, of the times at which sends of `end` begin that
 * are not final or still to come. */
static uint64_t earliest_nonfinal_send_ns(const struct b_incremental *k,
                                          uint32_t end)
{
    const struct b_end *e = &k->b.ends[end];
    struct g_send_position at = k->ends[end].first;
    const struct b_send *op = g_get_send_at_position(&k->b, e, &at);
    if (op)
        return op->t;
    return e->sends.n
               ? k->built.g.t_ns[g_node_after_chain(k, e->send_op_chain) - 1]
               : 0;
}

static void finalize_reads(struct b_incremental *k, uint32_t to)
{
    struct build *b = &k->b;
    struct g_end *x = &k->ends[to];
    struct ips_build_counts was = k->built.counts, n;
    struct match_cursor f = g_resume_match_cursor(b, x, to);
    uint32_t from = k->built.ends[to].peer_end, drop = 0, open = x->open;
    const struct g_mark *m = &x->mark;
    if (m->made && m->i > open &&
        x->reads.v[m->i - 1].node < k->chains[x->reads.v[open].chain].limit) {
        f = m->f;
        x->open = m->i;
        k->built.counts.unmatched += m->unmatched;
        k->built.counts.pending += m->pending;
    }
    x->mark.made = false;
    for (; x->open < x->reads.n; x->open++) {
        const struct b_read *r = &x->reads.v[x->open];
        if (r->node >= k->chains[r->chain].limit)
            break;
        (void)advance_to_send_or_count_unmatched(b, &f, r->len);
    }
    n = k->built.counts;
    k->built.counts = was;
    g_add_or_subtract_counts(&n, &was, true);
    g_add_or_subtract_counts(&k->matched, &n, false);
    if (x->open > open) {
        const struct b_sends *s = &b->ends[from].sends;
        x->read = f.read;
        x->sent = f.sent;
        x->at_send = f.send.op != NULL;
        if (f.send.op)
            x->at = (struct g_send_position){
                f.send.now, f.send.position - b->blocks.v[f.send.now].at};
        else if (s->n)
            x->at = (struct g_send_position){s->last, b->blocks.v[s->last].n};
    }
    uint64_t t = earliest_nonfinal_send_ns(k, from);
    for (; drop < x->open && x->reads.v[drop].t_ret <= t; drop++) {
        x->got = ips_add_sat(x->got, x->reads.v[drop].len);
        x->got_last = x->reads.v[drop].node;
    }
    if (drop)
        memmove(x->reads.v, x->reads.v + drop,
                (x->reads.n -= drop) * sizeof(*x->reads.v));
    x->open -= drop;
}

static void subtract_waits_of_final_preempted_sends(struct b_incremental *k)
{
    for (uint32_t i = 0; i < k->roomless.n; i++) {
        const struct g_preempted_send *r = &k->roomless.v[i];
        struct ips_thread_row *row = &k->rows[r->chain];
        if (r->node >= k->chains[r->chain].limit)
            continue;
        row->wait_ns[IPS_WAIT_PEER] =
            ips_sub_sat(row->wait_ns[IPS_WAIT_PEER], r->slept);
        row->wait_count[IPS_WAIT_PEER] -= row->wait_count[IPS_WAIT_PEER] > 0;
    }
}

static int collect_spins_of_final_nodes(struct b_incremental *k)
{
    struct build *b = &k->b;
    uint32_t n = 0;
    k->spun.n = 0;
    for (uint32_t i = 0; i < k->built.spun_count; i++) {
        const struct ips_spun *s = &k->built.spun[i];
        if (s->node >= border_of_node_chain(k, (uint32_t)s->node))
            continue;
        int rc = B_MORE(k->spun, b->err);
        if (rc < 0)
            return rc;
        k->spun.v[k->spun.n++] = *s;
    }
    for (uint32_t i = 0; i < b->spins.n; i++)
        if (b->spins.v[i].node + 1 >=
            border_of_node_chain(k, b->spins.v[i].node))
            b->spins.v[n++] = b->spins.v[i];
    b->spins.n = n;
    return 0;
}

/* Saves the counts that the next call compares with its own. */
static void save_counts_for_next_call(struct b_incremental *k)
{
    const struct build *b = &k->b;
    for (uint32_t i = 0; i < k->built.end_count; i++) {
        struct g_end *x = &k->ends[i];
        x->sends = b->ends[i].sends.n;
        x->read_count = b->ends[i].read_count;
        x->seen = x->reads.n;
    }
    k->hold_count = b->holds.n;
    k->ext_count = b->exts.n;
    if (k->traffic_count)
        memcpy(k->used, b->traffic_last.v, k->traffic_count * sizeof(*k->used));
}

int g_finalize_nodes_before_borders(struct b_incremental *k)
{
    struct build *b = &k->b;
    struct ips_graph *g = &k->built.g;
    find_borders(k);
    for (uint32_t c = 0; c < g->chain_count; c++)
        if (!can_nodes_after_border_be_remade(k, c))
            k->b.broken = true;
    if (k->b.broken)
        return 0;
    if (!b->from) {
        b->from = b_calloc(g->chain_count, sizeof(*b->from), b->err);
        if (!b->from)
            return IPS_E_NO_MEMORY;
        for (uint32_t c = 0; c < g->chain_count; c++)
            b->from[c] = (struct b_resume_point){
                .node = g->chains[c].first,
                .window = b_make_first_delay_window_of_chain(b, c)};
    }
    int rc = collect_spins_of_final_nodes(k);
    subtract_waits_of_final_preempted_sends(k);
    for (uint32_t i = 0; i < k->built.end_count; i++)
        if (!k->ends[i].shut)
            advance_past_final_sends_of_end(k, i);
    for (uint32_t i = 0; i < k->built.end_count; i++)
        if (!k->ends[i].shut && b->ends[i].local)
            finalize_reads(k, i);
    for (uint32_t c = 0; c < g->chain_count; c++)
        finalize_chain(k, c);
    save_counts_for_next_call(k);
    return rc;
}
