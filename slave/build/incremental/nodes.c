/* The passes `scan` and `node` of an incremental build
 * (build/incremental/grow.h). */
#include "slave/build/incremental/state.h"

/* Whether the chain's last stream starts with the chunks that were read before.
 * Only their number and total length are compared. */
static bool has_same_chunks_so_far(const struct b_incremental *k,
                                   const struct g_chain *x)
{
    const struct ips_stream_in *in =
        k->b.streams[k->b.chains[x->m.chain].last_stream].in;
    if (in->chunk_count < x->walk.chunk || x->walk.at)
        return false;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < x->walk.chunk; i++)
        bytes += in->chunks[i].len;
    return bytes == x->bytes;
}

static void sum_read_chunk_bytes(struct g_chain *x)
{
    x->bytes = 0;
    for (uint32_t i = 0; i < x->walk.chunk; i++)
        x->bytes += x->walk.in->chunks[i].len;
}

/* ---- saving and restoring rows ---- */

static int save_thread_process_and_end_rows(struct b_incremental *k)
{
    struct ips_built *o = &k->built;
    g_memcpy(k->rows, o->threads, o->g.chain_count * sizeof(*k->rows));
    g_memcpy(k->procs, o->procs, o->proc_count * sizeof(*k->procs));
    g_memcpy(k->end_rows, o->ends, o->end_count * sizeof(*k->end_rows));
    if (k->traffic_count != o->traffic_count) {
        ips_free_large(k->traffic);
        ips_free_large(k->traffic_last);
        ips_free_large(k->let_go);
        size_t n = k->traffic_count = o->traffic_count;
        k->traffic = b_calloc(n, sizeof(*k->traffic), k->b.err);
        k->traffic_last = b_calloc(n, sizeof(*k->traffic_last), k->b.err);
        k->let_go = b_calloc(n, 1, k->b.err);
        if (!k->traffic || !k->traffic_last || !k->let_go)
            return IPS_E_NO_MEMORY;
    }
    if (k->traffic_count) {
        g_memcpy(k->traffic, o->traffic,
                 k->traffic_count * sizeof(*k->traffic));
        g_memcpy(k->traffic_last, k->b.traffic_last.v,
                 k->traffic_count * sizeof(*k->traffic_last));
    }
    k->counts = o->counts;
    return 0;
}

void g_restore_saved_rows_and_counts(struct b_incremental *k)
{
    struct ips_built *o = &k->built;
    g_memcpy(o->threads, k->rows, o->g.chain_count * sizeof(*k->rows));
    g_memcpy(o->procs, k->procs, o->proc_count * sizeof(*k->procs));
    g_memcpy(o->ends, k->end_rows, o->end_count * sizeof(*k->end_rows));
    if (k->traffic_count) {
        g_memcpy(o->traffic, k->traffic,
                 k->traffic_count * sizeof(*k->traffic));
        g_memcpy(k->b.traffic_last.v, k->traffic_last,
                 k->traffic_count * sizeof(*k->traffic_last));
    }
    o->counts = k->counts;
    ips_free_large(o->spun);
    ips_free_large(o->unended);
    o->spun = NULL;
    o->unended = NULL;
    o->spun_count = o->unended_count = 0;
}

/* ---- pass `node` ---- */

static bool may_chain_grow(const struct build *b, uint32_t c)
{
    const struct b_stream *s = &b->streams[b->chains[c].last_stream];
    return b->out->procs[b->out->g.chains[c].process].open && !s->end_kind &&
           !s->exec_last && !s->in->dead;
}

/* Saves the state after the records of a chain. */
static void save_chain_state(struct b_incremental *k, uint32_t c)
{
    struct g_chain *x = &k->chains[c];
    x->nodes = k->b.nodes - k->built.g.chains[c].first;
    x->off_ns = k->b.off_ns;
    x->probe_ps = k->b.probe_ps;
    sum_read_chunk_bytes(x);
}

static int add_chain_end_node(struct b_incremental *k, uint32_t c)
{
    struct g_chain *x = &k->chains[c];
    /* a copy: a later record may still take over the pending wait of x->m */
    struct maker m = x->m;
    k->b.nodes = g_node_after_chain(k, c);
    k->b.off_ns = x->off_ns;
    k->b.probe_ps = x->probe_ps;
    return b_make_chain_end(&m);
}

static int save_rows_and_add_end_to_unended_chains(struct b_incremental *k)
{
    int rc = save_thread_process_and_end_rows(k);
    /* Making the ENDs adds unended waits. The next call drops them. */
    k->unended_count = k->b.unended.n;
    for (uint32_t c = 0; c < k->built.g.chain_count && rc == 0; c++)
        rc = k->chains[c].goes_on ? add_chain_end_node(k, c) : 0;
    return rc;
}

static int make_and_save_chain_nodes(struct b_incremental *k, uint32_t c)
{
    struct g_chain *x = &k->chains[c];
    b_init_chain_maker(&k->b, c, &x->m);
    int rc = b_make_chain_nodes_except_end(&x->m, &x->walk);
    save_chain_state(k, c);
    x->goes_on = may_chain_grow(&k->b, c);
    if (rc == 0 && !x->goes_on) {
        rc = b_make_chain_end(&x->m);
        x->nodes = k->built.g.chains[c].count;
    }
    return rc;
}

static uint32_t node_capacity_of_chain(const struct build *b, uint32_t c)
{
    uint64_t room = 0;
    for (uint32_t i = b->chains[c].first_stream; i != IPS_NONE;
         i = b->streams[i].next)
        room += b->streams[i].node_capacity;
    return (uint32_t)(room + room / 2 + B_GROW_ROOM - 1);
}

/* Returns the first node whose columns are saved as raw: the saved nodes are
 * the last eighth of the chain, at least 8192. The border cannot be before this
 * node. */
static uint32_t first_raw_node(const struct b_incremental *k, uint32_t c)
{
    uint32_t n = k->chains[c].nodes, most = n / 8 > 8192 ? n / 8 : 8192;
    return k->built.g.chains[c].first + (n > most ? n - most : 0);
}

/* Calls DO(column in g_raw, column of nodes) for each column. */
#define RAW_COLUMNS(DO, r, k)                                                  \
    DO((r)->w, (k)->built.g.w)                                                 \
    DO((r)->off, (k)->b.off)                                                   \
    DO((r)->wait, (k)->built.g.wait)                                           \
    DO((r)->xlen, (k)->built.g.xlen)                                           \
    DO((r)->probe, (k)->built.g.probe)                                         \
    DO((r)->xpred, (k)->built.g.xpred)                                         \
    DO((r)->xkind, (k)->built.g.xkind)

static int reserve_raw_columns(struct b_incremental *k, struct g_raw *r,
                               uint32_t n)
{
    size_t bytes = 0;
    if (n <= r->capacity)
        return 0;
    ips_free_large(r->memory);
    r->capacity = (n + n / 4 + 63) & ~63u;
#define SIZE(raw, of) bytes += r->capacity * sizeof(*(raw));
    RAW_COLUMNS(SIZE, r, k)
    uint8_t *at = r->memory = b_calloc(bytes, 1, k->b.err);
    if (!at) {
        r->n = r->capacity = 0;
        return IPS_E_NO_MEMORY;
    }
#define PLACE(raw, of)                                                         \
    (raw) = (void *)at;                                                        \
    at += r->capacity * sizeof(*(raw));
    RAW_COLUMNS(PLACE, r, k)
    return 0;
}

static int save_raw_columns(struct b_incremental *k, uint32_t c, uint32_t from)
{
    struct g_raw *r = &k->chains[c].raw;
    uint32_t end = g_node_after_chain(k, c), n = end > from ? end - from : 0;
    int rc = reserve_raw_columns(k, r, n);
    if (rc < 0)
        return rc;
    r->from = from;
    r->n = n;
#define SAVE(raw, of) g_memcpy(raw, (of) + from, n * sizeof(*(raw)));
    RAW_COLUMNS(SAVE, r, k)
    return 0;
}

void g_drop_first_raw_nodes(struct g_raw *r, uint32_t n)
{
    n = ips_min_u32(n, r->n);
    r->n -= n;
    if (!n || !r->n)
        return;
#define DROP(raw, of) memmove(raw, (raw) + n, r->n * sizeof(*(raw)));
    RAW_COLUMNS(DROP, r, k)
}

int b_incremental_make_nodes(struct build *b)
{
    struct b_incremental *k = b->incremental;
    uint32_t n = b->out->g.chain_count, first = 0;
    k->chains = b_calloc(n, sizeof(*k->chains), b->err);
    k->ends = b_calloc(b->out->end_count, sizeof(*k->ends), b->err);
    k->rows = b_calloc(n, sizeof(*k->rows), b->err);
    k->procs = b_calloc(b->out->proc_count, sizeof(*k->procs), b->err);
    k->end_rows = b_calloc(b->out->end_count, sizeof(*k->end_rows), b->err);
    b->coord = ips_alloc_large(b->node_capacity + 1, sizeof(*b->coord));
    if (!k->chains || !k->ends || !k->rows || !k->procs || !k->end_rows ||
        !b->coord)
        return ips_err_set(b->err, IPS_E_NO_MEMORY, "%u chains", n);
    for (uint32_t c = 0; c < n; c++) {
        b->nodes = first;
        k->chains[c].space = node_capacity_of_chain(b, c);
        int rc = make_and_save_chain_nodes(k, c);
        if (rc < 0)
            return rc;
        first += k->chains[c].space;
    }
    int rc = save_rows_and_add_end_to_unended_chains(k);
    for (uint32_t c = 0; c < n && rc == 0; c++) {
        uint32_t end = b->out->g.chains[c].first + b->out->g.chains[c].count;
        /* the first spare number after the chain: a pass that looks one node
         * ahead must not read garbage */
        b->out->g.xpred[end] = IPS_NO_NODE;
        rc = save_raw_columns(k, c, first_raw_node(k, c));
    }
    return rc;
}

/* Called before (`done` false) and after (true) the passes that make arcs:
 * saves the counts, whose difference is what these passes counted. When done,
 * also saves in g_raw the cross arcs that no later record changes. */
void b_incremental_save_counts_and_arcs(struct build *b, bool done)
{
    struct b_incremental *k = b->incremental;
    const struct ips_graph *g = &b->out->g;
    struct ips_build_counts *n = done ? &k->behind_match : &k->before_match;
    *n = b->out->counts;
    if (!done)
        return;
    for (uint32_t c = 0; c < g->chain_count; c++) {
        struct g_raw *r = &k->chains[c].raw;
        for (uint32_t i = 0; i < r->n; i++) {
            uint32_t v = r->from + i;
            uint8_t kind = g->xkind[v];
            if (kind == IPS_X_NONE || kind == B_X_SENT || kind == IPS_X_ROOM)
                continue;
            r->xkind[i] = kind;
            r->xpred[i] = g->xpred[v];
            r->xlen[i] = g->xlen[v];
        }
    }
}

/* ---- new records ---- */

/* Sorts b->delays by stream again, after new readings were added at its end. */
static int regroup_delays_by_stream(struct build *b)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < b->in->stream_count; i++)
        n += b->streams[i].delay_count;
    if (!n)
        return 0;
    struct b_delay *v = b_calloc(n, sizeof(*v), b->err);
    if (!v)
        return IPS_E_NO_MEMORY;
    n = 0;
    for (uint32_t i = 0; i < b->in->stream_count; i++) {
        struct b_stream *s = &b->streams[i];
        uint32_t old = s->delay_count - s->fresh;
        g_memcpy(v + n, b->delays.v + s->first_delay, old * sizeof(*v));
        g_memcpy(v + n + old, b->delays.v + s->first_fresh,
                 s->fresh * sizeof(*v));
        s->first_delay = n;
        s->fresh = 0;
        n += s->delay_count;
    }
    ips_free_large(b->delays.v);
    b->delays.v = v;
    b->delays.n = b->delays.capacity = n;
    return 0;
}

static int scan_new_records_of_chain(struct b_incremental *k, uint32_t c,
                                     struct b_walk *scratch)
{
    struct build *b = &k->b;
    struct g_chain *x = &k->chains[c];
    uint32_t p = k->built.g.chains[c].process;
    struct b_stream *s = &b->streams[b->chains[c].last_stream];
    uint64_t events = s->events, room = s->node_capacity;
    uint32_t readings = s->delay_count;
    x->had = x->nodes;
    if (!x->goes_on) {
        return 0;
    }
    if (!has_same_chunks_so_far(k, x)) {
        b->broken = true;
        return 0;
    }
    *scratch = x->walk;
    int rc = b_scan_new_records(b, b->chains[c].last_stream, scratch);
    s->fresh = s->delay_count - readings;
    k->built.procs[p].events += s->events - events;
    b->procs[p].last_ns = ips_max_u64(b->procs[p].last_ns, s->last_ns);
    /* 2 more: one for END, which both capacities include, so that the
     * difference lacks it, and one spare number */
    uint64_t need = s->node_capacity - room + 2;
    x->need = (uint32_t)ips_min_u64(need, UINT32_MAX);
    b->broken |= !k->tables && x->nodes + need > x->space;
    return rc;
}

int g_scan_new_records(struct b_incremental *k)
{
    struct b_walk *scratch = b_calloc(1, sizeof(*scratch), k->b.err);
    int rc = scratch ? 0 : IPS_E_NO_MEMORY;
    for (uint32_t c = 0; c < k->built.g.chain_count && rc == 0; c++)
        rc = scan_new_records_of_chain(k, c, scratch);
    ips_free_large(scratch);
    if (rc == 0)
        rc = regroup_delays_by_stream(&k->b);
    b_sum_guesses_and_lost_records(&k->b);
    return rc;
}

static void restore_raw_columns(struct b_incremental *k, uint32_t c)
{
    const struct g_raw *r = &k->chains[c].raw;
#define BACK(raw, of) g_memcpy((of) + r->from, raw, r->n * sizeof(*(raw)));
    RAW_COLUMNS(BACK, r, k)
}

int g_make_nodes_of_new_records(struct b_incremental *k)
{
    struct build *b = &k->b;
    int rc = 0;
    for (uint32_t c = 0; c < k->built.g.chain_count; c++)
        restore_raw_columns(k, c);
    b->unended.n = k->unended_count;
    if (k->tables)
        rc = g_drop_final_nodes_if_full(k);
    for (uint32_t c = 0; c < k->built.g.chain_count && rc == 0; c++) {
        struct g_chain *x = &k->chains[c];
        if (!x->goes_on)
            continue;
        b->nodes = g_node_after_chain(k, c);
        b->off_ns = x->off_ns;
        b->probe_ps = x->probe_ps;
        rc = b_make_stream_nodes(&x->m, &x->walk);
        save_chain_state(k, c);
    }
    if (rc == 0)
        rc = save_rows_and_add_end_to_unended_chains(k);
    for (uint32_t c = 0; c < k->built.g.chain_count && rc == 0; c++)
        rc = save_raw_columns(k, c, k->b.from[c].node);
    return rc;
}
