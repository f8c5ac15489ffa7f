/*
 * Drops final nodes of a build for tables alone (build/incremental/grow.h). A
 * final node stays only if a node that is not final may still refer to it. The
 * remaining nodes are moved together, and the spare space after each chain is
 * as large as the new records need. So the memory does not grow with the
 * length of the run.
 *
 * These nodes of each chain stay, in their order: its first node, final nodes
 * to which a send, a receive or a cross arc refers ("pins"), the last final
 * node, and all nodes that are not final. g_make_nodes_of_new_records() calls
 * this after it restored the raw columns and before it makes new nodes. So the
 * columns are as the records made them, and no arc refers to a send by its
 * slot.
 */
#include "slave/build/incremental/state.h"

/* ---- which nodes are kept ---- */

struct slide {
    struct b_incremental *k;
    B_ARRAY(uint32_t)
    pins;    /* final nodes that stay; sorted once all are found */
    struct { /* one element for each chain */
        /* node numbers before the move. first: first node of the chain;
         * first_open: its first node that is not final; end: after its last
         * node */
        uint32_t first, first_open, end;
        /* pin: index of the chain's first pin; to: new number of the chain's
         * first node */
        uint32_t pin, to;
    } * at;
    uint32_t chain; /* the chain that find_chain_of_node() found last */
};

typedef int seen(struct slide *s, uint32_t *node);

static uint32_t find_chain_of_node(struct slide *s, uint32_t node)
{
    uint32_t c = s->chain;
    if (node < s->at[c].first || node > s->at[c].end)
        s->chain = c = ips_chain_of(&s->k->built.g, node);
    return c;
}

static int pin_node_if_final(struct slide *s, uint32_t *node)
{
    uint32_t c = *node == IPS_NO_NODE ? 0 : find_chain_of_node(s, *node);
    if (*node == IPS_NO_NODE || *node >= s->at[c].first_open ||
        *node == s->at[c].first)
        return 0;
    int rc = B_MORE(s->pins, s->k->b.err);
    if (rc == 0)
        s->pins.v[s->pins.n++] = *node;
    return rc;
}

/* Replaces *node, the number of a node that stays, by its new number. */
static int renumber_node(struct slide *s, uint32_t *node)
{
    if (*node == IPS_NO_NODE)
        return 0;
    uint32_t c = find_chain_of_node(s, *node), next = s->at[c].pin, high;
    if (*node == s->at[c].first) {
        *node = s->at[c].to;
        return 0;
    }
    high = c + 1 < s->k->built.g.chain_count ? s->at[c + 1].pin : s->pins.n;
    if (*node >= s->at[c].first_open) {
        uint32_t kept = high - next + (s->at[c].first_open > s->at[c].first);
        *node = s->at[c].to + kept + (*node - s->at[c].first_open);
        return 0;
    }
    while (next < high) {
        uint32_t mid = next + (high - next) / 2;
        if (s->pins.v[mid] < *node)
            next = mid + 1;
        else
            high = mid;
    }
    *node = s->at[c].to + 1 + next - s->at[c].pin;
    return 0;
}

static int visit_send_nodes(struct slide *s, const struct b_end *e, seen *see)
{
    int rc = 0;
    for (struct b_send_cursor i = b_init_send_cursor(&s->k->b, e);
         i.op && rc == 0; b_advance_send_cursor(&s->k->b, &i)) {
        /* the node of the return, if the send blocked */
        uint32_t behind = i.op->node + 1;
        rc = see(s, &i.op->node);
        if (i.op->blocked && rc == 0)
            rc = see(s, &behind);
    }
    return rc;
}

static int visit_channel_end_nodes(struct slide *s, seen *see)
{
    struct b_incremental *k = s->k;
    int rc = 0;
    for (uint32_t i = 0; i < k->built.end_count && rc == 0; i++) {
        struct g_end *x = &k->ends[i];
        rc = visit_send_nodes(s, &k->b.ends[i], see);
        for (uint32_t n = 0; n < x->reads.n && rc == 0; n++)
            rc = see(s, &x->reads.v[n].node);
        if (rc == 0)
            rc = see(s, &x->got_last);
    }
    return rc;
}

/* Calls `see` for every node number that is stored outside of columns, or in
 * xpred of a node that is not final. */
static int visit_all_stored_node_numbers(struct slide *s, seen *see)
{
    struct b_incremental *k = s->k;
    struct build *b = &k->b;
    int rc = visit_channel_end_nodes(s, see);
    for (uint32_t c = 0; c < k->built.g.chain_count && rc == 0; c++) {
        struct maker *m = &k->chains[c].m;
        for (uint32_t i = s->at[c].first_open; i < s->at[c].end && rc == 0; i++)
            rc = see(s, &k->built.g.xpred[i]);
        for (uint32_t i = 0; i < m->taken_count && rc == 0; i++)
            rc = see(s, &m->taken_signal[i].node);
        if (rc == 0)
            rc = see(s, &b->from[c].window.node);
    }
    for (uint32_t i = 0; i < b->spins.n && rc == 0; i++)
        rc = see(s, &b->spins.v[i].node);
    for (uint32_t i = 0; i < b->joins.n && rc == 0; i++)
        rc = see(s, &b->joins.v[i].node);
    for (uint32_t i = 0; i < b->exts.n && rc == 0; i++)
        rc = see(s, &b->exts.v[i].node);
    return rc;
}

static int compare_pins_by_number(const void *va, const void *vb)
{
    CMP3(*(const uint32_t *)va, *(const uint32_t *)vb);
    return 0;
}

static void sort_and_deduplicate_pins(struct slide *s)
{
    uint32_t n = 0, *v = s->pins.v;
    if (s->pins.n)
        qsort(v, s->pins.n, sizeof(*v), compare_pins_by_number);
    for (uint32_t i = 0; i < s->pins.n; i++)
        if (n == 0 || v[i] != v[n - 1])
            v[n++] = v[i];
    s->pins.n = n;
}

static int find_pins(struct slide *s)
{
    const struct ips_graph *g = &s->k->built.g;
    int rc = visit_all_stored_node_numbers(s, pin_node_if_final);
    for (uint32_t c = 0; c < g->chain_count && rc == 0; c++) {
        uint32_t last = s->at[c].first_open - 1;
        if (s->at[c].first_open > s->at[c].first)
            rc = pin_node_if_final(s, &last);
    }
    if (rc < 0)
        return rc;
    sort_and_deduplicate_pins(s);
    for (uint32_t c = 0, i = 0; c < g->chain_count; c++) {
        s->at[c].pin = i;
        while (i < s->pins.n && s->pins.v[i] < s->at[c].end)
            i++;
    }
    return 0;
}

/* ---- columns ---- */

/* Calls X for every column of nodes, in the graph and in the build. */
#define COLUMNS(X)                                                             \
    X(built.g.kind)                                                            \
    X(built.g.w)                                                               \
    X(built.g.xpred)                                                           \
    X(built.g.xkind)                                                           \
    X(built.g.xlen)                                                            \
    X(built.g.t_ns)                                                            \
    X(built.g.site)                                                            \
    X(built.g.at)                                                              \
    X(built.g.wait)                                                            \
    X(built.g.delay) X(built.g.probe) X(b.cpu_at) X(b.off) X(b.coord)

/* Returns the size of one node in all columns together, bytes. */
static size_t node_bytes(void)
{
    const struct b_incremental *k = NULL;
    size_t bytes = 0;
#define ADD(c) bytes += sizeof(*k->c);
    COLUMNS(ADD)
#undef ADD
    return bytes;
}

/* Makes the spare set large enough for `nodes`. Two sets of columns are used in
 * turn, so that a call needs no fresh memory pages. Each set is one array with
 * the columns one after the other. At first each column is an array of its own,
 * made by the build. */
static int reserve_spare_columns(struct b_incremental *k, size_t nodes)
{
    if (k->spare_capacity >= nodes)
        return 0;
    size_t room = nodes + nodes / 4;
    ips_free_large(k->spare_set);
    k->spare_capacity = 0;
    k->spare_set = ips_alloc_large(room, node_bytes());
    if (!k->spare_set)
        return ips_err_set(k->b.err, IPS_E_NO_MEMORY, "%zu nodes", room);
    k->spare_capacity = room;
    return 0;
}

/* Makes the columns of `to` point into `set`; the widest elements come first,
 * so all columns are aligned. */
static void set_column_pointers(struct b_incremental *to, void *set,
                                size_t room)
{
    uint8_t *p = set;
    for (size_t width = 8; width; width /= 2) {
#define PLACE(c)                                                               \
    if (sizeof(*to->c) == width) {                                             \
        to->c = (void *)p;                                                     \
        p += room * width;                                                     \
    }
        COLUMNS(PLACE)
#undef PLACE
    }
}

static void copy_nodes(const struct b_incremental *k, struct b_incremental *to,
                       uint32_t at, uint32_t from, uint32_t n)
{
#define COPY(c) g_memcpy(to->c + at, k->c + from, n * sizeof(*k->c));
    COLUMNS(COPY)
#undef COPY
}

static void copy_kept_nodes_of_chain(const struct slide *s,
                                     struct b_incremental *to, uint32_t c)
{
    uint32_t at = s->at[c].to, first = s->at[c].first, i = s->at[c].pin;
    if (s->at[c].first_open > first) {
        copy_nodes(s->k, to, at, first, 1);
        to->built.g.xpred[at++] = IPS_NO_NODE;
    }
    for (; i < s->pins.n && s->pins.v[i] < s->at[c].end; i++) {
        copy_nodes(s->k, to, at, s->pins.v[i], 1);
        /* the arc of a final node is not needed again */
        to->built.g.xpred[at++] = IPS_NO_NODE;
    }
    copy_nodes(s->k, to, at, s->at[c].first_open,
               s->at[c].end - s->at[c].first_open);
}

void g_free_columns(struct b_incremental *k)
{
    ips_free_large(k->spare_set);
    ips_free_large(k->set);
    if (!k->set)
        return;
#define CLEAR(c) k->c = NULL;
    COLUMNS(CLEAR)
#undef CLEAR
}

/* Makes `k` use the columns of `to`, which are in the spare set; the previous
 * set becomes the spare one. The first time there is no previous set: the
 * columns that the build allocated one by one are freed. */
static void switch_to_new_columns(struct b_incremental *k,
                                  const struct b_incremental *to)
{
    void *set = k->set;
    size_t room = k->set_capacity;
#define TAKE(c)                                                                \
    if (!set)                                                                  \
        ips_free_large(k->c);                                                  \
    k->c = to->c;
    COLUMNS(TAKE)
#undef TAKE
    k->set = k->spare_set;
    k->set_capacity = k->spare_capacity;
    k->spare_set = set;
    k->spare_capacity = room;
}

/* Computes the new first node number and the space of every chain, with room
 * for the new records. Returns the total number of node numbers. */
static uint64_t assign_new_node_ranges_to_chains(struct slide *s)
{
    struct b_incremental *k = s->k;
    uint64_t first = 0;
    for (uint32_t c = 0; c < k->built.g.chain_count; c++) {
        uint32_t node = s->at[c].end, had = s->at[c].end - s->at[c].first;
        s->at[c].to = (uint32_t)first;
        /* the new number after the chain's last node */
        (void)renumber_node(s, &node);
        uint32_t stay = node - (uint32_t)first;
        struct g_chain *x = &k->chains[c];
        uint64_t more = x->goes_on ? 2 * (uint64_t)x->need + B_GROW_ROOM : 1;
        x->nodes -= had - stay;
        x->space = (uint32_t)ips_min_u64(stay + more, UINT32_MAX);
        first += stay + more;
    }
    return first;
}

static int compact_nodes(struct slide *s)
{
    struct b_incremental *k = s->k;
    struct ips_graph *g = &k->built.g;
    struct b_incremental to = {.slid = true};
    int rc = find_pins(s);
    uint64_t room = rc < 0 ? 0 : assign_new_node_ranges_to_chains(s);
    if (rc == 0 && room >= IPS_NO_NODE)
        rc = ips_err_set(k->b.err, IPS_E_LIMIT, "2^32 nodes");
    if (rc == 0)
        rc = reserve_spare_columns(k, (size_t)room + 1);
    if (rc < 0)
        return rc;
    set_column_pointers(&to, k->spare_set, k->spare_capacity);
    rc = visit_all_stored_node_numbers(s, renumber_node);
    for (uint32_t c = 0; c < g->chain_count; c++) {
        uint32_t live = s->at[c].first_open;
        copy_kept_nodes_of_chain(s, &to, c);
        (void)renumber_node(s, &live);
        k->b.from[c].node = live;
    }
    switch_to_new_columns(k, &to);
    for (uint32_t c = 0; c < g->chain_count; c++) {
        struct g_chain *x = &k->chains[c];
        g->chains[c].first = s->at[c].to;
        g->chains[c].count = x->nodes + x->goes_on;
        x->limit = x->raw.from = k->b.from[c].node;
        x->raw.n = x->windows.n = 0;
    }
    g->node_count = (uint32_t)room;
    return rc;
}

/* ---- other arrays that grow ---- */

/* Returns the index of the send at *at, counted from the first send of `e`. */
static uint32_t send_index_in_end(const struct build *b, const struct b_end *e,
                                  const struct g_send_position *at)
{
    uint32_t n = 0;
    if (at->block == IPS_NONE)
        return 0;
    for (uint32_t i = e->sends.first; i != at->block; i = b->blocks.v[i].next)
        n += b->blocks.v[i].n;
    return n + at->i;
}

static struct g_send_position send_position_of_index(const struct build *b,
                                                     const struct b_end *e,
                                                     uint32_t number)
{
    struct g_send_position at = {.block = e->sends.first};
    if (!e->sends.n)
        return (struct g_send_position){.block = IPS_NONE};
    while (number > b->blocks.v[at.block].n ||
           (number == b->blocks.v[at.block].n &&
            b->blocks.v[at.block].next != IPS_NONE)) {
        number -= b->blocks.v[at.block].n;
        at.block = b->blocks.v[at.block].next;
    }
    at.i = number;
    return at;
}

/* Copies the sends of end `i` that may still be read or are not final, at least
 * one, into the new arrays. `was` has the old arrays. */
static int copy_remaining_sends(struct b_incremental *k,
                                const struct build *was, uint32_t i)
{
    struct b_end *e = &k->b.ends[i];
    const struct b_end old = *e;
    struct g_end *x = &k->ends[i];
    struct g_end *to = e->local ? &k->ends[k->built.ends[i].peer_end] : NULL;
    uint32_t from = send_index_in_end(was, &old, &x->first);
    uint32_t read = to ? send_index_in_end(was, &old, &to->at) : from;
    uint32_t drop =
        ips_min_u32(ips_min_u32(from, read), old.sends.n ? old.sends.n - 1 : 0);
    struct b_send_cursor s = b_init_send_cursor(was, &old);
    e->sends = (struct b_sends){.first = IPS_NONE, .last = IPS_NONE};
    x->sends = 0;
    if (x->shut) /* a new send on this end forces a whole build */
        return 0;
    for (uint32_t n = 0; s.op; n++, b_advance_send_cursor(was, &s)) {
        struct b_send *op;
        if (n < drop)
            continue;
        int rc = b_append_empty_send_slot(&k->b, e, &op);
        if (rc < 0)
            return rc;
        *op = *s.op;
    }
    x->sends = e->sends.n;
    if (x->first.block != IPS_NONE)
        x->first = send_position_of_index(&k->b, e, from - drop);
    if (to && to->at.block != IPS_NONE)
        to->at = send_position_of_index(&k->b, e, read - drop);
    return 0;
}

static int compact_sends(struct b_incremental *k)
{
    struct build *b = &k->b, was = {.slabs = {b->slabs.v, b->slabs.n, 0},
                                    .blocks = {b->blocks.v, b->blocks.n, 0}};
    int rc = 0;
    memset(&b->slabs, 0, sizeof(b->slabs));
    memset(&b->blocks, 0, sizeof(b->blocks));
    b->slab_ops = b->slab_used = 0;
    for (uint32_t i = 0; i < k->built.end_count && rc == 0; i++)
        rc = copy_remaining_sends(k, &was, i);
    for (uint32_t i = 0; i < was.slabs.n; i++)
        ips_free_large(was.slabs.v[i]);
    ips_free_large(was.slabs.v);
    ips_free_large(was.blocks.v);
    return rc;
}

static bool is_final(const struct b_incremental *k, uint32_t node)
{
    return node != IPS_NO_NODE && b_is_final_node(&k->b, node);
}

/* Drops the entries of final nodes: joins, receives from other machines, spins.
 * Spins become one sum for each chain. */
static void drop_entries_of_final_nodes(struct b_incremental *k)
{
    struct build *b = &k->b;
    uint32_t n = 0;
    for (uint32_t i = 0; i < b->joins.n; i++)
        if (is_final(k, b->joins.v[i].node))
            b->joins.v[i].node = IPS_NO_NODE;
    for (uint32_t i = 0; i < b->exts.n; i++) {
        const struct b_external *x = &b->exts.v[i];
        if (is_final(k, x->node))
            b->gone += (ips_u128)x->len + x->reply_ns + x->blocked_ns;
        else
            b->exts.v[n++] = *x;
    }
    k->ext_count = b->exts.n = n;
    n = 0;
    for (uint32_t i = 0; i < k->spun.n; i++) {
        struct ips_spun s = k->spun.v[i];
        uint32_t c = ips_chain_of(&k->built.g, (uint32_t)s.node);
        s.node = c; /* the chain's number, until all nodes have moved */
        if (n && k->spun.v[n - 1].node == c)
            k->spun.v[n - 1].ns = ips_add_sat(k->spun.v[n - 1].ns, s.ns);
        else
            k->spun.v[n++] = s;
    }
    k->spun.n = n;
}

/* Drops the readings of the run delay before the first window that is not
 * final. */
static void drop_old_delay_readings(struct b_incremental *k)
{
    struct build *b = &k->b;
    uint32_t to = 0;
    for (uint32_t c = 0; c < k->built.g.chain_count; c++) {
        struct b_delay_span *w = &b->from[c].window;
        uint32_t i = b->chains[c].first_stream;
        for (; i != w->stream && i != IPS_NONE; i = b->streams[i].next)
            b->streams[i].delay_count = 0;
        struct b_stream *s = &b->streams[w->stream];
        s->first_delay += w->next;
        s->delay_count -= w->next;
        w->next = 0;
    }
    /* b->delays is ordered by stream. */
    for (uint32_t i = 0; i < b->in->stream_count; i++) {
        struct b_stream *s = &b->streams[i];
        if (s->delay_count)
            memmove(b->delays.v + to, b->delays.v + s->first_delay,
                    s->delay_count * sizeof(*b->delays.v));
        s->first_delay = to;
        to += s->delay_count;
    }
    b->delays.n = to;
}

static bool has_space_for_new_records(const struct b_incremental *k)
{
    for (uint32_t c = 0; c < k->built.g.chain_count; c++) {
        const struct g_chain *x = &k->chains[c];
        if (x->goes_on && (uint64_t)x->nodes + x->need > x->space)
            return false;
    }
    return true;
}

int g_drop_final_nodes_if_full(struct b_incremental *k)
{
    const struct ips_graph *g = &k->built.g;
    struct slide s = {.k = k};
    if (k->slid && has_space_for_new_records(k))
        return 0;
    s.at = b_calloc(g->chain_count, sizeof(*s.at), k->b.err);
    if (!s.at)
        return IPS_E_NO_MEMORY;
    for (uint32_t c = 0; c < g->chain_count; c++) {
        s.at[c].first = g->chains[c].first;
        s.at[c].first_open = k->b.from[c].node;
        s.at[c].end = g_node_after_chain(k, c);
    }
    drop_entries_of_final_nodes(k);
    drop_old_delay_readings(k);
    int rc = compact_sends(k);
    if (rc == 0)
        rc = compact_nodes(&s);
    for (uint32_t i = 0; i < k->spun.n; i++)
        k->spun.v[i].node = g->chains[k->spun.v[i].node].first;
    k->slid = true;
    ips_free_large(s.at);
    ips_free_large(s.pins.v);
    return rc;
}
