/* How processes ended, and END's coordinate: what the last record did not see
 * of a thread's CPU. Then coordinates become weights. */
#include <stdio.h>

#include "slave/build_match.h"

/* ---- states ---- */

struct ended {
    bool final, dead;
    uint32_t dead_status;
    uint8_t kind;
    uint64_t end_ns, status, dead_ns;
};

static struct ended look_at_end(const struct build *b, const struct b_proc *p)
{
    struct ended e = {0};
    const struct b_image *im = &b->images[p->first_image + p->image_count - 1];
    for (uint32_t k = 0; k < im->stream_count; k++) {
        const struct b_stream *s = &b->streams[im->first_stream + k];
        e.dead |= s->in->dead;
        e.dead_status |= s->in->dead_status;
        e.dead_ns = ips_max_u64(e.dead_ns, s->in->dead_t_ns);
        if (s->end_kind != IPS_END_EXIT && s->end_kind != IPS_END_ABORT &&
            s->end_kind != IPS_END_PROVISIONAL)
            continue;
        e.final |= s->end_kind != IPS_END_PROVISIONAL;
        if (s->end_ns >= e.end_ns) {
            e.kind = s->end_kind;
            e.end_ns = s->end_ns;
            e.status = s->end_status;
        }
    }
    return e;
}

static void end_text(struct ips_proc *row, const struct ended *e,
                     const struct b_join *j)
{
    const char *what = "exit";
    unsigned number = (unsigned)(e->status & 0xff);
    if (j || e->dead_status) {
        unsigned status = j ? j->status : e->dead_status & 0xffffu;
        unsigned sig = status & 0x7fu;
        what = sig ? "signal" : "exit";
        number = sig ? sig : status >> 8 & 0xffu;
    } else if (e->kind == IPS_END_ABORT) {
        what = "signal";
        number = 6;
    } else if (!e->kind) {
        snprintf(row->end, sizeof(row->end), "%s",
                 row->open ? "running" : "unknown");
        return;
    }
    if (row->open)
        snprintf(row->end, sizeof(row->end), "running");
    else
        snprintf(row->end, sizeof(row->end), "%s %u", what, number);
}

/* Its pid belongs to somebody else since. */
static bool pid_reused(const struct build *b, const struct b_proc *p)
{
    uint32_t next = p->first_image + p->image_count;
    if (next >= b->image_count)
        return false;
    const struct ips_segment_header *x =
        &b->streams[b->images[next - 1].first_stream].in->head;
    const struct ips_segment_header *y =
        &b->streams[b->images[next].first_stream].in->head;
    return x->pid == y->pid && x->pidns == y->pidns;
}

void b_states(struct build *b)
{
    for (uint32_t i = 0; i < b->out->proc_count; i++) {
        const struct b_proc *p = &b->procs[i];
        struct ips_proc *row = &b->out->procs[i];
        const struct b_join *j =
            p->join == IPS_NONE ? NULL : &b->joins.v[p->join];
        struct ended e = look_at_end(b, p);
        row->open = !e.final && !e.dead && !j && !pid_reused(b, p);
        end_text(row, &e, j);
        b->out->open |= row->open;
        if (row->open)
            continue;
        row->end_ns = p->last_ns;
        if (!e.kind && j) /* killed: nobody wrote when */
            row->end_ns = ips_max_u64(row->end_ns, j->t_ret);
        else if (!e.kind)
            row->end_ns = ips_max_u64(row->end_ns, e.dead_ns);
    }
}

/* ---- CPU read by others ---- */

static int cmp_tid(const void *va, const void *vb, void *arg)
{
    const struct build *b = arg;
    const struct b_stream *x = &b->streams[*(const uint32_t *)va];
    const struct b_stream *y = &b->streams[*(const uint32_t *)vb];
    CMP3(x->image, y->image);
    CMP3(x->in->head.tid, y->in->head.tid);
    CMP3(x->stream_ns, y->stream_ns);
    return 0;
}

/* The chain that had `tid` in the image of stream `s` at t, or IPS_NONE. */
static uint32_t chain_of_tid(const struct build *b, const uint32_t *v,
                             uint32_t n, const struct b_cpu *c)
{
    uint32_t image = b->streams[c->stream].image, low = 0, high = n;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        const struct b_stream *s = &b->streams[v[mid]];
        uint32_t tid = s->in->head.tid;
        bool before = s->image != image ? s->image < image
                      : tid != c->tid
                          ? tid < c->tid
                          : ips_min_u64(s->stream_ns, s->first_ns) <= c->t;
        if (before)
            low = mid + 1;
        else
            high = mid;
    }
    if (low == 0)
        return IPS_NONE;
    const struct b_stream *s = &b->streams[v[low - 1]];
    return s->image == image && s->in->head.tid == c->tid ? s->chain : IPS_NONE;
}

static void take_threadcpu(struct build *b)
{
    uint32_t n = 0;
    uint32_t *v =
        b->cpus.n ? b_calloc(b->in->stream_count, sizeof(*v), NULL) : NULL;
    if (!v)
        return;
    for (uint32_t i = 0; i < b->in->stream_count; i++)
        if (!b->streams[i].task)
            v[n++] = i;
    qsort_r(v, n, sizeof(*v), cmp_tid, b);
    for (uint32_t i = 0; i < b->cpus.n; i++) {
        uint32_t c = chain_of_tid(b, v, n, &b->cpus.v[i]);
        if (c == IPS_NONE)
            continue;
        b->chains[c].settled =
            ips_max_u64(b->chains[c].settled, b->cpus.v[i].cpu);
        /* In a call until its process ended: it was there to be read. */
        if (!b->streams[b->chains[c].last_stream].end_kind)
            b->out->threads[c].end_ns =
                ips_max_u64(b->out->threads[c].end_ns, b->cpus.v[i].t);
    }
    ips_free_large(v);
}

/* ---- rusage ---- */

/* rusage_cpu_ns of a process: what its parent's wait said, less what its own
 * waits said of its children (each with all their descendants). */
static void own_rusage(struct build *b)
{
    for (uint32_t i = 0; i < b->out->proc_count; i++) {
        uint32_t j = b->procs[i].join;
        if (j != IPS_NONE)
            b->out->procs[i].rusage_cpu_ns = b->joins.v[j].child_cpu;
    }
    for (uint32_t k = 0; k < b->joins.n; k++) {
        const struct b_join *j = &b->joins.v[k];
        struct ips_proc *row =
            &b->out->procs[b->images[b->streams[j->stream].image].proc];
        if ((j->kind != IPS_JOIN_WAIT && j->kind != IPS_JOIN_SYSTEM) ||
            !j->ended || row->rusage_cpu_ns == IPS_CPU_UNKNOWN)
            continue;
        if (j->child_cpu == IPS_CPU_UNKNOWN)
            row->rusage_cpu_ns = IPS_CPU_UNKNOWN; /* not to be told apart */
        else
            row->rusage_cpu_ns = ips_sub_sat(row->rusage_cpu_ns, j->child_cpu);
    }
}

/* What no thread's records have of it goes to the end of the main thread, as
 * far as there was time for it. */
static void settle_process(struct build *b, uint32_t p)
{
    const struct b_proc *proc = &b->procs[p];
    struct ips_proc *row = &b->out->procs[p];
    if (row->rusage_cpu_ns == IPS_CPU_UNKNOWN || proc->main_chain == IPS_NONE)
        return;
    uint64_t rest = row->rusage_cpu_ns, last_ns = 0;
    struct b_chain *main = &b->chains[proc->main_chain];
    for (uint32_t c = row->first_chain; c < row->first_chain + row->chain_count;
         c++)
        if (c != proc->main_chain &&
            !b->streams[b->chains[c].first_stream].task)
            rest = ips_sub_sat(rest, b->chains[c].settled);
    last_ns = b->out->g.t_ns[b_end_node(b, proc->main_chain)];
    uint64_t add = ips_sub_sat(rest, main->settled);
    uint64_t room = ips_sub_sat(b->joins.v[proc->join].t_ret, last_ns);
    uint64_t charged = ips_min_u64(add, room);
    main->settled += charged;
    row->unattributed_ns = add - charged;
    b->out->counts.unattributed_ns =
        ips_add_sat(b->out->counts.unattributed_ns, row->unattributed_ns);
}

void b_settle(struct build *b)
{
    take_threadcpu(b);
    own_rusage(b);
    for (uint32_t p = 0; p < b->out->proc_count; p++)
        settle_process(b, p);
    for (uint32_t c = 0; c < b->out->g.chain_count; c++)
        if (b_end_node(b, c) >= b_first(b, c))
            b->out->g.w[b_end_node(b, c)] = b->chains[c].settled;
}

/* ---- weights ---- */

#define AHEAD 16u /* nodes whose sends are asked for ahead */

struct weigher {
    struct build *b;
    struct ips_graph g; /* its columns */
    uint64_t *cpu_at;   /* may be g.at: read before it is written */
    const uint64_t *off;
    const uint8_t *far; /* [end_count], or NULL: no end is */
    uint64_t *coord;
    bool fits;      /* waits are put right on the way */
    ips_u128 xlen;  /* sum of all */
    uint64_t probe; /* sum of what is left of g.probe */
};

/* What a chain's nodes have been added to, one after the other. */
struct weighed {
    uint64_t at, t, cpu; /* of the node before: coordinate, g.t_ns, cpu_at */
    uint64_t passed;     /* ... g.at */
    uint64_t probe, unknown;
    ips_u128 xlen;
    bool forwards, bends;
};

/* Node i slept so long, was passed then, and what it waited for, where that is
 * known (else UINT64_MAX), when that was sent: build_wall.c. */
static int fit_wait(struct build *b, uint32_t i, uint64_t apart,
                    uint64_t passed, uint64_t sent)
{
    struct ips_graph *g = &b->out->g;
    uint64_t wait = ips_min_u64(g->wait[i], apart);
    const struct b_slept *s = b->slept.v;
    uint32_t n = b->slept.n, k = b->slept_done;
    while (k < n && s[k].node < i)
        k++;
    if (k < n && s[k].node == i)
        sent = ips_min_u64(s[k].sent, B_LATEST);
    b->slept_done = k;
    if (sent <= passed - wait && b_by_memory(b, g->site[i]))
        wait = 0;
    if (wait == g->wait[i])
        return 0;
    int rc = B_MORE(b->fitted, b->err);
    if (rc < 0)
        return rc;
    b->fitted.v[b->fitted.n++] = (struct b_fitted){i, g->wait[i]};
    g->wait[i] = wait;
    return 0;
}

/* Coordinates -> weights of the nodes from `i` to `end`, all but a chain's
 * first and last in one go; and in the same reading of the columns what else
 * follows from one node and the one before: when it was passed, what of its arc
 * recording took, the time off the core that nothing explains, and whether the
 * clock ran backwards.
 *
 * A receive that knows its send, which has given way, does the same now
 * (build_causal.c), and its arc is finished. `k` by value: so nothing that is
 * stored can change it, and what is NULL in all of a run costs nothing. */
static inline __attribute__((always_inline)) int
weigh_nodes(const struct weigher k, struct weighed *to, uint32_t i,
            uint32_t end, bool first, bool last)
{
    struct weighed s = *to;
    int rc = 0;
    for (; i < end; i++) {
        uint64_t t_ns = k.g.t_ns[i], cpu_at = k.cpu_at[i], own = k.g.w[i];
        uint64_t sent = 0;
        uint32_t next = i + AHEAD;
        if (next < end && k.g.xkind[next] == B_X_SENT)
            __builtin_prefetch(b_op_at(k.b, k.g.xpred[next]));
        uint8_t xkind = k.g.xkind[i];
        bool match = xkind == B_X_SENT;
        if (match) {
            const struct b_op *send = b_op_at(k.b, k.g.xpred[i]);
            own = b_gives_way(send, own, t_ns, cpu_at);
            k.g.xpred[i] = send->node;
            k.b->backwards |= send->t >= t_ns;
            sent = b_moved(send->t, (int64_t)send->past);
        }
        k.g.xkind[i] = xkind & B_X_MATCHED ? IPS_X_DATA : xkind;
        if (k.coord)
            k.coord[i] = own;
        uint64_t coord = ips_max_u64(own, s.at), w = coord - s.at;
        bool stands =
            (last && k.g.kind[i] == IPS_NODE_END) ||
            (k.far && k.g.site[i] != UINT32_MAX && k.far[k.g.site[i]]);
        uint64_t passed = b_moved(t_ns, stands ? 0 : (int64_t)(coord - cpu_at));
        uint64_t apart = first ? 0 : passed - s.passed;
        uint32_t probe = k.g.probe[i];
        if (probe > w)
            k.g.probe[i] = probe = (uint32_t)w;
        s.probe += probe;
        s.xlen += k.g.xlen[i];
        if (k.off && !first)
            s.unknown = ips_add_sat(
                s.unknown, b_free_ns(t_ns, s.t, cpu_at, s.cpu, k.off[i]));
        s.forwards &= t_ns >= s.t;
        s.bends |= (sent > passed) | (s.passed > passed);
        if (coord != own) /* its receives have been told otherwise */
            s.bends |= k.g.kind[i] == IPS_NODE_SEND;
        s.at = coord;
        s.t = t_ns;
        s.cpu = cpu_at;
        s.passed = passed;
        k.g.w[i] = w;
        k.g.at[i] = passed;
        /* Without a branch for whether it slept, which nobody can foretell. */
        uint64_t wait = k.g.wait[i];
        bool look = match | (coord != own) | (xkind & B_X_THERE);
        if (k.fits && (wait > apart || (look && wait)))
            rc = fit_wait(k.b, i, apart, passed, match ? sent : UINT64_MAX);
        if (rc < 0)
            break;
    }
    *to = s;
    return rc;
}

/* One chain's coordinates -> weights. *cpu: the CPU of the chain. */
static int chain_weights(struct weigher *k, uint32_t c, uint64_t *cpu)
{
    struct build *b = k->b;
    struct ips_graph *g = &b->out->g;
    uint32_t first = g->chains[c].first, end = first + g->chains[c].count;
    uint32_t from = b_first(b, c), last = from > first ? from - 1 : first;
    uint64_t base = b->chains[c].base;
    struct weighed s = {.at = base,
                        .t = g->t_ns[last],
                        .cpu = k->cpu_at[last],
                        .forwards = true};
    bool begins = from == first;
    int rc = 0;
    if (!begins) {
        s.at = b->from[c].at;
        s.probe = b->from[c].probe_ns;
        s.unknown = b->from[c].unknown_ns;
        s.xlen = b->from[c].xlen;
        s.passed = g->at[last];
    } else {
        g->probe[first] = 0;
        rc = weigh_nodes(*k, &s, from, from + 1, true, end - first == 1);
        from++;
    }
    struct weigher plain = *k; /* nearly all that there are */
    plain.off = NULL, plain.far = NULL, plain.coord = NULL, plain.fits = true;
    if (rc == 0 && from < end)
        rc = k->off || k->far || k->coord || !k->fits
                 ? weigh_nodes(*k, &s, from, end - 1, false, false)
                 : weigh_nodes(plain, &s, from, end - 1, false, false);
    if (rc == 0 && from < end)
        rc = weigh_nodes(*k, &s, end - 1, end, false, true);
    b->chains[c].end_shift = (int64_t)(s.at - s.cpu);
    if (k->off)
        b->chains[c].unknown_ns = s.unknown;
    b->backwards |= !s.forwards;
    b->bends |= s.bends;
    k->xlen += s.xlen;
    k->probe += s.probe;
    /* What was burnt by spinning before is taken out already. */
    *cpu = begins ? s.at - base : s.at - b->from[c].at + b->from[c].cpu_ns;
    return rc;
}

#define WEIGHTS_MOST (1ull << 58)

/* Clamps *v to cap; returns what is left of it. */
static uint64_t clamp(uint64_t *v, uint64_t cap, uint64_t *clamped)
{
    if (*v > cap) {
        *v = cap;
        ++*clamped;
    }
    return *v;
}

/* Everything that may become a weight, none above `cap`. */
static ips_u128 sum_weights(struct build *b, uint64_t cap)
{
    struct ips_graph *g = &b->out->g;
    ips_u128 sum = 0;
    uint64_t *clamped = &b->out->counts.ambiguous;
    for (uint32_t i = 0; i < g->node_count; i++) {
        sum += clamp(&g->w[i], cap, clamped);
        sum += clamp(&g->xlen[i], cap, clamped);
    }
    for (uint32_t i = 0; i < b->exts.n; i++) {
        struct b_ext *x = &b->exts.v[i];
        sum += clamp(&x->len, cap, clamped);
        sum += clamp(&x->reply_ns, cap, clamped);
        sum += clamp(&x->blocked_ns, cap, clamped);
    }
    return sum;
}

/* No path may be longer than the kernels can add (2^62 ns). Only damaged
 * records come near: then single values above half a year are cut first, and
 * less absurd ones only if that is not enough. */
static void bound_weights(struct build *b)
{
    uint64_t cap = UINT64_MAX;
    while (sum_weights(b, cap) >= WEIGHTS_MOST)
        cap = cap == UINT64_MAX ? 1ull << 54 : cap / 16;
}

/* Damaged records: everything again, with what is left of the weights. */
static void weigh_again(struct build *b)
{
    struct ips_graph *g = &b->out->g;
    bound_weights(b);
    b_cost_limit(b);
    for (uint32_t c = 0; c < g->chain_count; c++) {
        const struct ips_chain *chain = &g->chains[c];
        uint64_t *sum = &b->out->threads[c].cpu_ns;
        *sum = 0;
        for (uint32_t i = chain->first; i < chain->first + chain->count; i++)
            *sum += g->w[i];
    }
}

/* `sum`: of CPU and cross arcs. */
void b_sum_up(struct build *b, ips_u128 sum)
{
    struct ips_graph *g = &b->out->g;
    sum += b->gone;
    sum -= b->out->counts.spin_ns;
    uint32_t n = 0;
    const struct ips_spun *cut = b_grow_spun(b, &n);
    for (uint32_t i = 0; i < n; i++) /* taken out before */
        sum += cut[i].ns;
    for (uint32_t i = 0; i < b->exts.n; i++) {
        const struct b_ext *x = &b->exts.v[i];
        sum += (ips_u128)x->len + x->reply_ns + x->blocked_ns;
    }
    b->broken |= sum >= WEIGHTS_MOST;
    if (sum >= WEIGHTS_MOST && !b->grow)
        weigh_again(b);
    for (uint32_t c = 0; c < g->chain_count; c++)
        b->out->procs[g->chains[c].process].cpu_ns += b->out->threads[c].cpu_ns;
}

int b_weights(struct build *b)
{
    struct ips_graph *g = &b->out->g;
    struct weigher k = {.b = b,
                        .cpu_at = b->cpu_at,
                        .off = b->off,
                        .far = b->far,
                        .coord = b->coord,
                        .fits = b_fits(b)};
    ips_u128 sum = 0;
    int rc = 0;
    if (k.fits) { /* nobody asks for cpu_at any more */
        g->at = b->cpu_at;
        b->cpu_at = NULL;
    } else if (!b->from) {
        g->at = ips_alloc_large((size_t)g->node_count + 1, sizeof(*g->at));
    }
    if (!g->at)
        return ips_err_set(b->err, IPS_E_NO_MEMORY, "%u nodes", g->node_count);
    k.g = *g;
    for (uint32_t c = 0; c < g->chain_count && rc == 0; c++) {
        struct ips_thread_row *row = &b->out->threads[c];
        row->base_cpu_ns = b->chains[c].base;
        rc = chain_weights(&k, c, &row->cpu_ns);
        sum += row->cpu_ns;
    }
    b->out->counts.probe_arc_ns = k.probe;
    rc = rc < 0 ? rc : b_sync_spins(b);
    if (rc == 0)
        b_sum_up(b, sum + k.xlen);
    return rc;
}
