/*
 * Coordinates become weights (b_weights), and what follows from one node and
 * the one before is found in the same reading of the columns.
 *
 * Nearly all nodes come in runs where nothing is to be decided: coordinates and
 * clocks that go forwards, sleeps as long as there was time for, sends that are
 * done with. EVEN of them are taken at a time, without a branch, in a form that
 * a compiler makes vectors of; whether they are such is found on the way, and
 * nothing is stored before it is known. All others are taken one by one.
 */
#include "slave/build/match.h"

#define AHEAD 16u /* nodes whose sends are asked for ahead */
#define EVEN 64u
#define EACH 0x0101010101010101ULL /* byte of eight */

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
struct weight_sums {
    uint64_t at, t, cpu; /* of the node before: coordinate, g.t_ns, cpu_at */
    uint64_t passed;     /* ... g.at */
    uint64_t probe, unknown;
    ips_u128 xlen;
    uint32_t end; /* of the chain */
    bool forwards, bends;
};

/* When the send of a receive was made that pass `match` found: the sends of a
 * channel are walked along with its receives, whose order is theirs. Few ask.
 */
static int found_sent(struct build *b, uint32_t i, uint64_t *sent)
{
    const struct ips_graph *g = &b->out->g;
    uint32_t from = b->out->ends[g->site[i]].peer_end;
    if (!b->asked)
        b->asked = b_calloc(b->out->end_count, sizeof(*b->asked), b->err);
    if (!b->asked)
        return IPS_E_NO_MEMORY;
    struct b_sending *s = &b->asked[from];
    if (!s->op)
        *s = b_first_send(b, &b->ends[from]);
    while (s->op && s->op->node != g->xpred[i])
        b_next_send(b, s);
    if (s->op)
        *sent = ips_min_u64(ips_add_sat(s->op->t, s->op->past_bytes), B_LATEST);
    return 0;
}

/* Node i slept so long, was passed then, and what it waited for, where that is
 * known (else UINT64_MAX), when that was sent: build/wall.c. */
static int fit_wait(struct build *b, uint32_t i, uint64_t apart,
                    uint64_t passed, uint64_t sent, bool found)
{
    struct ips_graph *g = &b->out->g;
    uint64_t wait = ips_min_u64(g->wait[i], apart);
    bool memory = b_by_memory(b, g->site[i]);
    int rc = found && memory ? found_sent(b, i, &sent) : 0;
    if (sent <= passed - wait && memory)
        wait = 0;
    if (wait == g->wait[i] || rc < 0)
        return rc;
    rc = B_MORE(b->fitted, b->err);
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
 * (build/causal.c), and its arc is finished. `k` by value: so nothing that is
 * stored can change it, and what is NULL in all of a run costs nothing. */
static inline __attribute__((always_inline)) int
weight_nodes(const struct weigher k, struct weight_sums *to, uint32_t i,
             uint32_t end, bool first, bool last)
{
    struct weight_sums s = *to;
    int rc = 0;
    for (; i < end; i++) {
        uint64_t t_ns = k.g.t_ns[i], cpu_at = k.cpu_at[i], own = k.g.w[i];
        uint64_t sent = 0;
        uint32_t next = i + AHEAD;
        if (next < s.end && k.g.xkind[next] == B_X_SENT)
            __builtin_prefetch(b_op_at(k.b, k.g.xpred[next]));
        uint8_t xkind = k.g.xkind[i];
        bool match = xkind == B_X_SENT;
        if (match) {
            const struct b_op *send = b_op_at(k.b, k.g.xpred[i]);
            own = b_gives_way(send, own, t_ns, cpu_at);
            k.g.xpred[i] = send->node;
            k.b->backwards |= send->t >= t_ns;
            sent = b_moved(send->t, (int64_t)send->past_bytes);
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
            rc = fit_wait(k.b, i, apart, passed, match ? sent : UINT64_MAX,
                          xkind & B_X_FOUND);
        if (rc < 0)
            break;
    }
    *to = s;
    return rc;
}

/* What has bits above this is not even: negative, or damaged. */
#define EVEN_BITS 56

/* EVEN nodes from `i` on, none of them its chain's first, by the rule of
 * weight_nodes(); `k` has no `off`, `far` or `coord`, and fits. False:
 * something is to be decided, and nothing was done. */
static bool weight_even(const struct weigher *k, struct weight_sums *s,
                        uint32_t i)
{
    uint64_t own[EVEN + 1], at[EVEN + 1], eight[EVEN / 8];
    uint64_t *w = k->g.w + i, *passed = k->g.at + i;
    const uint64_t *t = k->g.t_ns + i, *before = t - 1, *cpu_at = k->cpu_at + i;
    const uint64_t *wait = k->g.wait + i, *xlen = k->g.xlen + i;
    const uint32_t *probe = k->g.probe + i;
    uint64_t odd = 0, probes = 0, xlens = 0, xkinds = 0;
    memcpy(eight, k->g.xkind + i, EVEN);
    for (uint32_t j = 0; j < EVEN / 8; j++)
        xkinds |= eight[j];
    if (xkinds & EACH * (B_X_SENT | B_X_THERE))
        return false;
    own[0] = s->at;
    at[0] = s->passed;
    for (uint32_t j = 0; j < EVEN; j++) {
        own[j + 1] = w[j];
        at[j + 1] = t[j] + w[j] - cpu_at[j];
        odd |= w[j] | cpu_at[j] | t[j] | (t[j] - before[j]);
    }
    for (uint32_t j = 0; j < EVEN; j++) {
        uint64_t weight = own[j + 1] - own[j], apart = at[j + 1] - at[j];
        odd |= at[j + 1] | wait[j] | (apart - wait[j]);
        odd |= (weight - probe[j]) | xlen[j];
        probes += probe[j];
        xlens += xlen[j];
    }
    if (odd >> EVEN_BITS)
        return false;
    s->at = own[EVEN];
    s->t = t[EVEN - 1];
    s->cpu = cpu_at[EVEN - 1];
    s->passed = at[EVEN];
    s->probe += probes;
    s->xlen += xlens;
    for (uint32_t j = 0; j < EVEN; j++)
        w[j] = own[j + 1] - own[j];
    memcpy(passed, at + 1, EVEN * sizeof(*passed));
    for (uint32_t j = 0; j < EVEN / 8; j++) {
        uint64_t found = eight[j] & EACH * B_X_FOUND;
        eight[j] ^= found | found / B_X_FOUND * IPS_X_DATA;
    }
    memcpy(k->g.xkind + i, eight, EVEN);
    return true;
}

/* A chain's nodes but the first and the last, of what most builds need. */
static int weight_runs(const struct weigher *k, struct weight_sums *s,
                       uint32_t i, uint32_t end)
{
    struct weigher plain = *k;
    int rc = 0;
    plain.off = NULL, plain.far = NULL, plain.coord = NULL, plain.fits = true;
    for (uint32_t next; i < end && rc == 0; i = next) {
        next = ips_min_u32(end - i, EVEN) + i;
        if (next - i < EVEN || !weight_even(k, s, i))
            rc = weight_nodes(plain, s, i, next, false, false);
    }
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
    struct weight_sums s = {.at = base,
                            .t = g->t_ns[last],
                            .cpu = k->cpu_at[last],
                            .end = end,
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
        rc = weight_nodes(*k, &s, from, from + 1, true, end - first == 1);
        from++;
    }
    if (rc == 0 && from < end)
        rc = k->off || k->far || k->coord || !k->fits
                 ? weight_nodes(*k, &s, from, end - 1, false, false)
                 : weight_runs(k, &s, from, end - 1);
    if (rc == 0 && from < end)
        rc = weight_nodes(*k, &s, end - 1, end, false, true);
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
static uint64_t clamp_value(uint64_t *v, uint64_t cap, uint64_t *clamped)
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
        sum += clamp_value(&g->w[i], cap, clamped);
        sum += clamp_value(&g->xlen[i], cap, clamped);
    }
    for (uint32_t i = 0; i < b->exts.n; i++) {
        struct b_ext *x = &b->exts.v[i];
        sum += clamp_value(&x->len, cap, clamped);
        sum += clamp_value(&x->reply_ns, cap, clamped);
        sum += clamp_value(&x->blocked_ns, cap, clamped);
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
static void weight_again(struct build *b)
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
    const struct ips_spun *cut = b_incremental_spun(b, &n);
    for (uint32_t i = 0; i < n; i++) /* taken out before */
        sum += cut[i].ns;
    for (uint32_t i = 0; i < b->exts.n; i++) {
        const struct b_ext *x = &b->exts.v[i];
        sum += (ips_u128)x->len + x->reply_ns + x->blocked_ns;
    }
    b->broken |= sum >= WEIGHTS_MOST;
    if (sum >= WEIGHTS_MOST && !b->incremental)
        weight_again(b);
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
