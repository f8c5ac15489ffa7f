/* A build that goes on: one call (build_grow.h). */
#include "slave/build_grow_state.h"

void g_counts(struct ips_build_counts *a, const struct ips_build_counts *b,
              bool minus)
{
    uint64_t *x = (uint64_t *)(void *)a;
    const uint64_t *y = (const uint64_t *)(const void *)b;
    for (size_t i = 0; i < sizeof(*a) / sizeof(*x); i++)
        x[i] = minus ? x[i] - y[i] : x[i] + y[i];
}

void ips_build_forget(struct b_grow *k)
{
    if (!k)
        return;
    for (uint32_t c = 0; k->chains && c < k->built.g.chain_count; c++) {
        ips_free_large(k->chains[c].raw.v);
        ips_free_large(k->chains[c].windows.v);
    }
    for (uint32_t i = 0; k->ends && i < k->built.end_count; i++)
        ips_free_large(k->ends[i].reads.v);
    ips_free_large(k->chains);
    ips_free_large(k->ends);
    ips_free_large(k->streams);
    ips_free_large(k->rows);
    ips_free_large(k->procs);
    ips_free_large(k->end_rows);
    ips_free_large(k->traffic);
    ips_free_large(k->traffic_last);
    ips_free_large(k->let_go);
    ips_free_large(k->used);
    ips_free_large(k->names);
    ips_free_large(k->spun.v);
    ips_free_large(k->roomless.v);
    ips_free_large(k->bent.v);
    b_release(&k->b);
    ips_built_release(&k->built);
    ips_free_large(k);
}

/* ---- what the passes tell ---- */

void b_grow_window(struct build *b, uint32_t c, const struct b_window *w)
{
    struct g_chain *x = &b->grow->chains[c];
    if (w->node < x->raw_from) /* before what is kept of it */
        return;
    if (B_MORE(x->windows, NULL) < 0)
        b->broken = true;
    else
        x->windows.v[x->windows.n++] = *w;
}

void b_grow_bent(struct build *b, uint32_t node, uint32_t by)
{
    struct b_grow *k = b->grow;
    if (k->bent.n >= G_BENT_MOST || B_MORE(k->bent, NULL) < 0)
        b->broken = true;
    else
        k->bent.v[k->bent.n++] = (struct g_bent){node, by};
}

void b_grow_let_go(struct build *b, uint32_t traffic)
{
    struct b_grow *k = b->grow;
    if (k->let_go && traffic < k->traffic_count)
        k->let_go[traffic] = 1;
}

void b_grow_roomless(struct build *b, const struct b_op *send, uint64_t slept)
{
    struct b_grow *k = b->grow;
    if (B_MORE(k->roomless, NULL) < 0)
        b->broken = true;
    else
        k->roomless.v[k->roomless.n++] = (struct g_roomless){
            .node = send->node, .chain = send->chain, .slept = slept};
}

int b_grow_read(struct build *b, uint32_t end, const struct b_read *r)
{
    struct g_end *e = &b->grow->ends[end];
    int rc = B_MORE(e->reads, b->err);
    if (rc == 0)
        e->reads.v[e->reads.n++] = *r;
    return rc;
}

bool b_grow_traffic(const struct build *b, uint32_t end, uint32_t proc,
                    uint32_t *row)
{
    for (uint32_t i = 0; i < b->out->traffic_count; i++)
        if (b->out->traffic[i].end == end &&
            b->out->traffic[i].process == proc) {
            *row = i;
            return true;
        }
    return false;
}

const struct ips_spun *b_grow_spun(const struct build *b, uint32_t *count)
{
    *count = b->grow ? b->grow->spun.n : 0;
    return *count ? b->grow->spun.v : NULL;
}

/* ---- the same run, further ---- */

static bool same_control(const struct ips_control *a,
                         const struct ips_control *b)
{
    struct ips_control x = *a, y = *b;
    memset(x.lost, 0, sizeof(x.lost));
    memset(y.lost, 0, sizeof(y.lost));
    return memcmp(&x, &y, sizeof(x)) == 0;
}

static bool same_stream(const struct ips_stream_in *a,
                        const struct ips_stream_in *b)
{
    return memcmp(&a->head, &b->head, sizeof(a->head)) == 0 &&
           a->dead == b->dead && a->dead_status == b->dead_status &&
           a->dead_t_ns == b->dead_t_ns;
}

/* Takes the caller's records in place of those of the last call. */
static bool take_input(struct b_grow *k, const struct ips_build_input *in)
{
    bool same = in->control && in->stream_count == k->in.stream_count &&
                in->machine == k->in.machine && !in->waits &&
                same_control(&k->control, in->control);
    for (uint32_t i = 0; same && i < in->stream_count; i++) {
        const struct b_stream *s = &k->b.streams[i];
        const struct ips_stream_in *now = in->streams + (s->in - k->streams);
        bool open = k->chains[s->chain].goes_on && s->next == IPS_NONE;
        same = same_stream(s->in, now) &&
               (open || now->chunk_count == s->in->chunk_count);
    }
    if (!same)
        return false;
    k->control = *in->control;
    memcpy(k->streams, in->streams, in->stream_count * sizeof(*in->streams));
    return true;
}

/* Does the stream begin with the chunks that were read? */
static bool goes_on(const struct b_grow *k, const struct g_chain *x)
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

static void note_bytes(struct g_chain *x)
{
    x->bytes = 0;
    for (uint32_t i = 0; i < x->walk.chunk; i++)
        x->bytes += x->walk.in->chunks[i].len;
}

/* ---- snapshots ---- */

static int keep_rows(struct b_grow *k)
{
    struct ips_built *o = &k->built;
    memcpy(k->rows, o->threads, o->g.chain_count * sizeof(*k->rows));
    memcpy(k->procs, o->procs, o->proc_count * sizeof(*k->procs));
    memcpy(k->end_rows, o->ends, o->end_count * sizeof(*k->end_rows));
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
        memcpy(k->traffic, o->traffic, k->traffic_count * sizeof(*k->traffic));
        memcpy(k->traffic_last, k->b.traffic_last.v,
               k->traffic_count * sizeof(*k->traffic_last));
    }
    k->counts = o->counts;
    return 0;
}

static void take_rows_back(struct b_grow *k)
{
    struct ips_built *o = &k->built;
    memcpy(o->threads, k->rows, o->g.chain_count * sizeof(*k->rows));
    memcpy(o->procs, k->procs, o->proc_count * sizeof(*k->procs));
    memcpy(o->ends, k->end_rows, o->end_count * sizeof(*k->end_rows));
    if (k->traffic_count) {
        memcpy(o->traffic, k->traffic, k->traffic_count * sizeof(*k->traffic));
        memcpy(k->b.traffic_last.v, k->traffic_last,
               k->traffic_count * sizeof(*k->traffic_last));
    }
    o->counts = k->counts;
    ips_free_large(o->spun);
    o->spun = NULL;
    o->spun_count = 0;
}

/* ---- pass `node` ---- */

static bool may_go_on(const struct build *b, uint32_t c)
{
    const struct b_stream *s = &b->streams[b->chains[c].last_stream];
    return b->out->procs[b->out->g.chains[c].process].open && !s->end_kind &&
           !s->exec_last && !s->in->dead;
}

/* Behind the records of a chain: as it stands. */
static void stands(struct b_grow *k, uint32_t c)
{
    struct g_chain *x = &k->chains[c];
    x->nodes = k->b.nodes - k->built.g.chains[c].first;
    x->off_ns = k->b.off_ns;
    x->probe_ps = k->b.probe_ps;
    note_bytes(x);
}

static int add_end(struct b_grow *k, uint32_t c)
{
    struct g_chain *x = &k->chains[c];
    struct maker m = x->m; /* what it waits for may come yet */
    k->b.nodes = g_end_of(k, c);
    k->b.off_ns = x->off_ns;
    k->b.probe_ps = x->probe_ps;
    return b_chain_end(&m);
}

static int add_ends(struct b_grow *k)
{
    int rc = keep_rows(k);
    for (uint32_t c = 0; c < k->built.g.chain_count && rc == 0; c++)
        rc = k->chains[c].goes_on ? add_end(k, c) : 0;
    return rc;
}

static int chain_nodes(struct b_grow *k, uint32_t c)
{
    struct g_chain *x = &k->chains[c];
    b_chain_maker(&k->b, c, &x->m);
    int rc = b_chain_nodes(&x->m, &x->walk);
    stands(k, c);
    x->goes_on = may_go_on(&k->b, c);
    if (rc == 0 && !x->goes_on) {
        rc = b_chain_end(&x->m);
        x->nodes = k->built.g.chains[c].count;
    }
    return rc;
}

static uint32_t room_of(const struct build *b, uint32_t c)
{
    uint64_t room = 0;
    for (uint32_t i = b->chains[c].first_stream; i != IPS_NONE;
         i = b->streams[i].next)
        room += b->streams[i].node_room;
    return (uint32_t)(room + room / 2 + B_GROW_ROOM - 1);
}

/* What of a chain's end may be behind the border. */
static uint32_t raw_from(const struct b_grow *k, uint32_t c)
{
    uint32_t n = k->chains[c].nodes, most = n / 8 > 8192 ? n / 8 : 8192;
    return k->built.g.chains[c].first + (n > most ? n - most : 0);
}

int b_grow_nodes(struct build *b)
{
    struct b_grow *k = b->grow;
    uint32_t n = b->out->g.chain_count, first = 0;
    k->chains = b_calloc(n, sizeof(*k->chains), b->err);
    k->ends = b_calloc(b->out->end_count, sizeof(*k->ends), b->err);
    k->rows = b_calloc(n, sizeof(*k->rows), b->err);
    k->procs = b_calloc(b->out->proc_count, sizeof(*k->procs), b->err);
    k->end_rows = b_calloc(b->out->end_count, sizeof(*k->end_rows), b->err);
    b->coord = ips_alloc_large(b->node_room + 1, sizeof(*b->coord));
    if (!k->chains || !k->ends || !k->rows || !k->procs || !k->end_rows ||
        !b->coord)
        return ips_err_set(b->err, IPS_E_NO_MEMORY, "%u chains", n);
    for (uint32_t c = 0; c < n; c++) {
        b->nodes = first;
        k->chains[c].space = room_of(b, c);
        int rc = chain_nodes(k, c);
        if (rc < 0)
            return rc;
        first += k->chains[c].space;
    }
    int rc = add_ends(k);
    for (uint32_t c = 0; c < n && rc == 0; c++) {
        uint32_t end = b->out->g.chains[c].first + b->out->g.chains[c].count;
        /* Behind it is room; ahead of it nobody may read what is not there. */
        b->out->g.xpred[end] = IPS_NO_NODE;
        rc = g_save_raw(k, c, raw_from(k, c));
    }
    return rc;
}

/* Receives and datagrams were matched as they stand: what counts from here on
 * is not of those. And cross arcs that no later record changes are raw. */
void b_grow_arcs(struct build *b, bool done)
{
    struct b_grow *k = b->grow;
    const struct ips_graph *g = &b->out->g;
    struct ips_build_counts *n = done ? &k->behind_match : &k->before_match;
    *n = b->out->counts;
    if (!done)
        return;
    for (uint32_t c = 0; c < g->chain_count; c++) {
        struct g_chain *x = &k->chains[c];
        for (uint32_t i = 0; i < x->raw.n; i++) {
            uint32_t v = x->raw_from + i;
            uint8_t kind = g->xkind[v];
            if (kind == IPS_X_NONE || kind == B_X_SENT || kind == IPS_X_ROOM)
                continue;
            x->raw.v[i].xkind = kind;
            x->raw.v[i].xpred = g->xpred[v];
            x->raw.v[i].xlen = g->xlen[v];
        }
    }
}

/* ---- more records ---- */

/* b->delays stream by stream again. */
static int regroup(struct build *b)
{
    uint32_t n = 0, before = b->delays.n;
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
        memcpy(v + n, b->delays.v + s->first_delay, old * sizeof(*v));
        memcpy(v + n + old, b->delays.v + s->first_fresh,
               s->fresh * sizeof(*v));
        s->first_delay = n;
        s->fresh = 0;
        n += s->delay_count;
    }
    (void)before;
    ips_free_large(b->delays.v);
    b->delays.v = v;
    b->delays.n = b->delays.room = n;
    return 0;
}

static int scan_chain(struct b_grow *k, uint32_t c, struct b_walk *scratch)
{
    struct build *b = &k->b;
    struct g_chain *x = &k->chains[c];
    uint32_t p = k->built.g.chains[c].process;
    struct b_stream *s = &b->streams[b->chains[c].last_stream];
    uint64_t events = s->events, room = s->node_room;
    uint32_t readings = s->delay_count;
    x->had = x->nodes;
    if (!x->goes_on) {
        return 0;
    }
    if (!goes_on(k, x)) {
        b->broken = true;
        return 0;
    }
    *scratch = x->walk;
    int rc = b_scan_more(b, b->chains[c].last_stream, scratch);
    s->fresh = s->delay_count - readings;
    k->built.procs[p].events += s->events - events;
    b->procs[p].last_ns = ips_max_u64(b->procs[p].last_ns, s->last_ns);
    /* END has its place. */
    b->broken |= x->nodes + (s->node_room - room) + 2 > x->space;
    return rc;
}

static int scan_more(struct b_grow *k)
{
    struct b_walk *scratch = b_calloc(1, sizeof(*scratch), k->b.err);
    int rc = scratch ? 0 : IPS_E_NO_MEMORY;
    for (uint32_t c = 0; c < k->built.g.chain_count && rc == 0; c++)
        rc = scan_chain(k, c, scratch);
    ips_free_large(scratch);
    if (rc == 0)
        rc = regroup(&k->b);
    b_scan_sums(&k->b);
    return rc;
}

static void take_raw_back(struct b_grow *k, uint32_t c)
{
    struct ips_graph *g = &k->built.g;
    const struct g_chain *x = &k->chains[c];
    for (uint32_t i = 0; i < x->raw.n; i++) {
        const struct g_raw *r = &x->raw.v[i];
        uint32_t v = x->raw_from + i;
        g->w[v] = r->w;
        k->b.off[v] = r->off;
        g->wait[v] = r->wait;
        g->xlen[v] = r->xlen;
        g->probe[v] = r->probe;
        g->xpred[v] = r->xpred;
        g->xkind[v] = r->xkind;
    }
}

int g_save_raw(struct b_grow *k, uint32_t c, uint32_t from)
{
    const struct ips_graph *g = &k->built.g;
    struct g_chain *x = &k->chains[c];
    uint32_t end = g_end_of(k, c);
    x->raw_from = from;
    x->raw.n = 0;
    for (uint32_t v = from; v < end; v++) {
        int rc = B_MORE(x->raw, k->b.err);
        if (rc < 0)
            return rc;
        x->raw.v[x->raw.n++] = (struct g_raw){.w = g->w[v],
                                              .off = k->b.off[v],
                                              .wait = g->wait[v],
                                              .xlen = g->xlen[v],
                                              .probe = g->probe[v],
                                              .xpred = g->xpred[v],
                                              .xkind = g->xkind[v]};
    }
    return 0;
}

static int more_nodes(struct b_grow *k)
{
    struct build *b = &k->b;
    int rc = 0;
    for (uint32_t c = 0; c < k->built.g.chain_count; c++)
        take_raw_back(k, c);
    for (uint32_t c = 0; c < k->built.g.chain_count && rc == 0; c++) {
        struct g_chain *x = &k->chains[c];
        if (!x->goes_on)
            continue;
        b->nodes = g_end_of(k, c);
        b->off_ns = x->off_ns;
        b->probe_ps = x->probe_ps;
        rc = b_stream_nodes(&x->m, &x->walk);
        stands(k, c);
    }
    if (rc == 0)
        rc = add_ends(k);
    for (uint32_t c = 0; c < k->built.g.chain_count && rc == 0; c++)
        rc = g_save_raw(k, c, k->b.from[c].node);
    return rc;
}

/* Has a thread begun to use an end that only another one of its process used?
 * Then their row of the traffic may have a place before others. */
static bool new_user(const struct b_end *e, const struct g_end *x)
{
    bool sends = !x->sends && e->sends.n,
         reads = !x->read_count && e->read_count;
    return (sends || reads) && e->send_op_chain != e->read_chain;
}

/* Has anything come that was not to? */
static bool as_expected(const struct b_grow *k)
{
    const struct build *b = &k->b;
    if (b->events.n != k->event_count || b->dgrams.n != k->dgram_count ||
        b->holds.n != k->hold_count)
        return false;
    for (uint32_t i = 0; i < k->built.end_count; i++) {
        const struct b_end *e = &b->ends[i];
        const struct g_end *x = &k->ends[i];
        if (x->shut ? e->sends.n != x->sends || e->read_count != x->read_count
                    : e->send_many || e->read_many || new_user(e, x))
            return false;
    }
    for (uint32_t i = 0; i < k->traffic_count; i++)
        if (k->let_go[i] && b->traffic_last.v[i] != k->used[i])
            return false;
    return true;
}

/* The passes behind `node`, for what is behind the borders. */
static int other_passes(struct b_grow *k)
{
    struct build *b = &k->b;
    struct ips_graph *g = &k->built.g;
    int rc = g_match(k);
    g_counts(&k->built.counts, &k->matched, false);
    if (rc < 0 || b->broken)
        return rc;
    b_settle(b);
    b_causal(b);
    rc = b_far_ends(b);
    if (rc == 0)
        rc = b_weights(b);
    b->broken |= b->backwards;
    for (uint32_t c = 0; c < g->chain_count; c++) {
        uint32_t from = b_first(b, c),
                 end = g->chains[c].first + g->chains[c].count;
        memset(g->delay + from, 0, (end - from) * sizeof(*g->delay));
        k->chains[c].windows.n = 0;
    }
    if (rc == 0 && !b->broken)
        rc = b_wall(b);
    if (rc == 0 && !b->broken)
        rc = b_tables(b);
    return rc;
}

static void count_work(const struct b_grow *k, uint64_t events,
                       struct ips_build_took *took)
{
    const struct ips_graph *g = &k->built.g;
    took->records = k->built.counts.events - events;
    took->nodes = 0;
    for (uint32_t c = 0; c < g->chain_count; c++)
        took->nodes +=
            g->chains[c].first + g->chains[c].count - b_first(&k->b, c);
}

/* True: *out is there. */
static int go_on(struct b_grow *k, struct ips_built *out,
                 struct ips_build_took *took)
{
    struct build *b = &k->b;
    uint64_t events = k->counts.events;
    take_rows_back(k);
    k->roomless.n = k->bent.n = 0;
    int rc = scan_more(k);
    if (rc == 0 && !b->broken)
        rc = more_nodes(k);
    if (rc < 0 || b->broken || !as_expected(k)) {
        b->broken = true;
        return rc;
    }
    rc = other_passes(k);
    if (rc < 0 || b->broken)
        return rc;
    count_work(k, events, took);
    return out ? g_copy(k, out) : 0;
}

/* ---- a call ---- */

static int start(struct b_grow **kept, const struct ips_build_input *in,
                 uint64_t lag_ns, struct ips_err *err)
{
    struct b_grow *k = b_calloc(1, sizeof(*k), err);
    if (!k)
        return IPS_E_NO_MEMORY;
    *kept = k;
    k->lag_ns = lag_ns;
    k->in = *in;
    k->control = *in->control;
    k->streams = b_calloc(in->stream_count, sizeof(*k->streams), err);
    if (!k->streams)
        return IPS_E_NO_MEMORY;
    if (in->stream_count)
        memcpy(k->streams, in->streams, in->stream_count * sizeof(*k->streams));
    k->in.control = &k->control;
    k->in.streams = k->streams;
    ips_graph_init(&k->built.g);
    k->b =
        (struct build){.in = &k->in, .out = &k->built, .err = err, .grow = k};
    return b_run_passes(&k->b);
}

static int plain(const struct ips_build_input *in, struct ips_built *out,
                 struct ips_build_took *took, struct ips_err *err)
{
    int rc = out ? ips_build(in, out, err) : 0;
    took->records = rc < 0 || !out ? 0 : out->counts.events;
    took->nodes = rc < 0 || !out ? 0 : out->g.node_count;
    return rc;
}

/* Records that cannot go on are built without. */
static int whole(struct b_grow **kept, const struct ips_build_input *in,
                 uint64_t lag_ns, struct ips_built *out,
                 struct ips_build_took *took, struct ips_err *err)
{
    if (!in->control || in->waits)
        return plain(in, out, took, err);
    struct ips_err ignored;
    int rc = start(kept, in, lag_ns, &ignored);
    struct b_grow *k = *kept;
    bool fine = rc == 0 && !k->b.broken && !k->b.backwards;
    if (fine) {
        count_work(k, 0, took);
        rc = out ? g_copy(k, out) : 0;
        fine = rc == 0;
    }
    if (fine && k->built.open && g_begin(k) == 0 && !k->b.broken &&
        g_settle(k) == 0 && !k->b.broken)
        return 0;
    ips_build_forget(k);
    *kept = NULL;
    return fine ? 0 : plain(in, out, took, err);
}

int ips_build_further(struct b_grow **kept, const struct ips_build_input *in,
                      struct ips_built *out, struct ips_build_took *took,
                      bool *done, struct ips_err *err)
{
    struct b_grow *k = *kept;
    int rc = 0;
    *took = (struct ips_build_took){0};
    *done = false;
    if (k && take_input(k, in)) {
        k->b.err = err;
        rc = go_on(k, out, took);
        *done = rc == 0 && !k->b.broken;
    }
    if (!*done || g_settle(k) < 0 || k->b.broken) {
        ips_build_forget(k);
        *kept = NULL;
    }
    return rc;
}

int ips_build_on(struct b_grow **kept, const struct ips_build_input *in,
                 uint64_t lag_ns, struct ips_built *out,
                 struct ips_build_took *took, struct ips_err *err)
{
    struct ips_err ignored;
    bool done;
    int rc = ips_build_further(kept, in, out, took, &done, &ignored);
    if (rc == 0 && done)
        return 0;
    rc = whole(kept, in, lag_ns, out, took, err);
    took->whole = true;
    return rc;
}
