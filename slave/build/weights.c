/*
 * Turns coordinates into weights (b_make_weights). The same pass over the
 * columns computes everything else that follows from a node and the one before
 * it.
 *
 * Most nodes come in long sequences that need no decision: coordinates and
 * clocks go forwards, sleeps are no longer than the time for them, the times
 * of sends are fixed. Such nodes are processed EVEN at a time, without a
 * branch, in a form that the compiler vectorises. Whether a group qualifies is
 * computed on the way, and nothing is stored before that is known. All other
 * nodes are processed one by one.
 */
#include "slave/build/match.h"

/* the sends of receives are prefetched this many nodes ahead */
#define AHEAD 16u
#define EVEN 64u
#define EACH 0x0101010101010101ULL /* a 1 in each of eight bytes */

struct weight_columns {
    struct build *b;
    struct ips_graph g; /* copy of the graph's struct */
    uint64_t *cpu_at; /* may be the same memory as g.at, so each element is read
                         before g.at is written */
    const uint64_t *off;
    /* [end_count]; NULL: no peer may be on another machine */
    const uint8_t *far;
    uint64_t *coord;
    bool fits;      /* waits (g.wait) are corrected in this pass */
    ips_u128 xlen;  /* sum of g.xlen over all nodes */
    uint64_t probe; /* sum of g.probe after clamping */
};

/* Running sums over the nodes of a chain. */
struct weight_sums {
    uint64_t at, t, cpu; /* coordinate, g.t_ns and cpu_at of the node before */
    uint64_t passed;     /* g.at of the node before */
    uint64_t probe, unknown;
    ips_u128 xlen;
    uint32_t end; /* number after the last node of the chain */
    bool forwards, bends;
};

/* Stores in *sent the time, as for g.at, of the send that pass `match` found
 * for receive i. Sends of a channel are walked in step with its receives, which
 * have the same order. Few receives need this. */
static int find_send_time(struct build *b, uint32_t i, uint64_t *sent)
{
    const struct ips_graph *g = &b->out->g;
    uint32_t from = b->out->ends[g->site[i]].peer_end;
    if (!b->asked)
        b->asked = b_calloc(b->out->end_count, sizeof(*b->asked), b->err);
    if (!b->asked)
        return IPS_E_NO_MEMORY;
    struct b_send_cursor *s = &b->asked[from];
    if (!s->op)
        *s = b_init_send_cursor(b, &b->ends[from]);
    while (s->op && s->op->node != g->xpred[i])
        b_advance_send_cursor(b, s);
    if (s->op)
        *sent =
            ips_min_u64(ips_add_sat(s->op->t, s->op->past_cpu_ns), B_LATEST);
    return 0;
}

/* Corrects the wait of node i (see build/wall.c): it cannot be longer than
 * `apart`, the time since the node before, and it is 0 if the bytes were there
 * before the sleep. `passed`, `sent`: times, as for g.at, of node i and of its
 * send; `sent` is UINT64_MAX if not known; `found`: find_send_time() can
 * compute `sent`. */
static int limit_wait_of_node(struct build *b, uint32_t i, uint64_t apart,
                              uint64_t passed, uint64_t sent, bool found)
{
    struct ips_graph *g = &b->out->g;
    uint64_t wait = ips_min_u64(g->wait[i], apart);
    bool memory = b_is_end_in_memory(b, g->site[i]);
    int rc = found && memory ? find_send_time(b, i, &sent) : 0;
    if (sent <= passed - wait && memory)
        wait = 0;
    if (wait == g->wait[i] || rc < 0)
        return rc;
    rc = B_MORE(b->fitted, b->err);
    if (rc < 0)
        return rc;
    b->fitted.v[b->fitted.n++] = (struct b_corrected_wait){i, g->wait[i]};
    g->wait[i] = wait;
    return 0;
}

/* Makes weights of the coordinates of nodes [i, end). `first`, `last`: the
 * range is one node, the first (last) of the chain. The same pass computes
 * everything else that follows from a node and the node before it: the node's
 * time (g.at), the recording cost in its arc, the unexplained time off the CPU,
 * and whether the clock ran backwards.
 *
 * A receive that pass `match` matched gets its limited coordinate here
 * (build/causal.c), and its arc is finished. `k` is passed by value, so that
 * the compiler knows that no store changes it, and tests for members that are
 * NULL cost nothing. */
static inline __attribute__((always_inline)) int
make_weights_and_times_of_nodes(const struct weight_columns k,
                                struct weight_sums *to, uint32_t i,
                                uint32_t end, bool first, bool last)
{
    struct weight_sums s = *to;
    int rc = 0;
    for (; i < end; i++) {
        uint64_t t_ns = k.g.t_ns[i], cpu_at = k.cpu_at[i], own = k.g.w[i];
        uint64_t sent = 0;
        uint32_t next = i + AHEAD;
        if (next < s.end && k.g.xkind[next] == B_X_SENT)
            __builtin_prefetch(b_send_at(k.b, k.g.xpred[next]));
        uint8_t xkind = k.g.xkind[i];
        bool match = xkind == B_X_SENT;
        if (match) {
            const struct b_send *send = b_send_at(k.b, k.g.xpred[i]);
            own = b_limit_receive_coord(send, own, t_ns, cpu_at);
            k.g.xpred[i] = send->node;
            k.b->backwards |= send->t >= t_ns;
            sent = b_shift_time(send->t, (int64_t)send->past_cpu_ns);
        }
        k.g.xkind[i] = xkind & B_X_MATCHED ? IPS_X_DATA : xkind;
        if (k.coord)
            k.coord[i] = own;
        uint64_t coord = ips_max_u64(own, s.at), w = coord - s.at;
        bool stands =
            (last && k.g.kind[i] == IPS_NODE_END) ||
            (k.far && k.g.site[i] != UINT32_MAX && k.far[k.g.site[i]]);
        uint64_t passed =
            b_shift_time(t_ns, stands ? 0 : (int64_t)(coord - cpu_at));
        uint64_t apart = first ? 0 : passed - s.passed;
        uint32_t probe = k.g.probe[i];
        if (probe > w)
            k.g.probe[i] = probe = (uint32_t)w;
        s.probe += probe;
        s.xlen += k.g.xlen[i];
        if (k.off && !first)
            s.unknown = ips_add_sat(
                s.unknown,
                b_off_cpu_between_calls_ns(t_ns, s.t, cpu_at, s.cpu, k.off[i]));
        s.forwards &= t_ns >= s.t;
        s.bends |= (sent > passed) | (s.passed > passed);
        /* the receives of a send assumed `own` as its coordinate */
        if (coord != own)
            s.bends |= k.g.kind[i] == IPS_NODE_SEND;
        s.at = coord;
        s.t = t_ns;
        s.cpu = cpu_at;
        s.passed = passed;
        k.g.w[i] = w;
        k.g.at[i] = passed;
        /* Whether the thread slept is unpredictable, so there is no branch on
         * it alone. */
        uint64_t wait = k.g.wait[i];
        bool look = match | (coord != own) | (xkind & B_X_THERE);
        if (k.fits && (wait > apart || (look && wait)))
            rc = limit_wait_of_node(k.b, i, apart, passed,
                                    match ? sent : UINT64_MAX,
                                    xkind & B_X_FOUND);
        if (rc < 0)
            break;
    }
    *to = s;
    return rc;
}

/* A value with a bit set at this position or above is negative or damaged: then
 * the group is not processed by make_weights_if_group_is_regular(). */
#define EVEN_BITS 56

/* Processes nodes [i, i + EVEN), none of which is the first of the chain, by
 * the rules of make_weights_and_times_of_nodes(). In `k`, off, far and coord
 * are NULL, and fits is true. False: some node needs a decision, and nothing
 * was changed. */
static bool make_weights_if_group_is_regular(const struct weight_columns *k,
                                             struct weight_sums *s, uint32_t i)
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

/* Processes the nodes of a chain between the first and the last, for builds
 * without the columns off, far and coord. */
static int make_weights_of_middle_nodes(const struct weight_columns *k,
                                        struct weight_sums *s, uint32_t i,
                                        uint32_t end)
{
    struct weight_columns plain = *k;
    int rc = 0;
    plain.off = NULL, plain.far = NULL, plain.coord = NULL, plain.fits = true;
    for (uint32_t next; i < end && rc == 0; i = next) {
        next = ips_min_u32(end - i, EVEN) + i;
        if (next - i < EVEN || !make_weights_if_group_is_regular(k, s, i))
            rc = make_weights_and_times_of_nodes(plain, s, i, next, false,
                                                 false);
    }
    return rc;
}

/* Makes the weights of one chain. Sets *cpu to the CPU time of the chain, ns.
 */
static int make_weights_of_chain(struct weight_columns *k, uint32_t c,
                                 uint64_t *cpu)
{
    struct build *b = k->b;
    struct ips_graph *g = &b->out->g;
    uint32_t first = g->chains[c].first, end = first + g->chains[c].count;
    uint32_t from = b_first_open_node(b, c),
             last = from > first ? from - 1 : first;
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
        rc = make_weights_and_times_of_nodes(*k, &s, from, from + 1, true,
                                             end - first == 1);
        from++;
    }
    if (rc == 0 && from < end)
        rc = k->off || k->far || k->coord || !k->fits
                 ? make_weights_and_times_of_nodes(*k, &s, from, end - 1, false,
                                                   false)
                 : make_weights_of_middle_nodes(k, &s, from, end - 1);
    if (rc == 0 && from < end)
        rc = make_weights_and_times_of_nodes(*k, &s, end - 1, end, false, true);
    b->chains[c].end_shift = (int64_t)(s.at - s.cpu);
    if (k->off)
        b->chains[c].unknown_ns = s.unknown;
    b->backwards |= !s.forwards;
    b->bends |= s.bends;
    k->xlen += s.xlen;
    k->probe += s.probe;
    /* from[c].cpu_ns: without the CPU burnt by spinning in final nodes, which
     * is subtracted already */
    *cpu = begins ? s.at - base : s.at - b->from[c].at + b->from[c].cpu_ns;
    return rc;
}

#define WEIGHTS_MOST (1ull << 58)

/* Clamps *v to cap; returns the clamped value. */
static uint64_t clamp_value(uint64_t *v, uint64_t cap, uint64_t *clamped)
{
    if (*v > cap) {
        *v = cap;
        ++*clamped;
    }
    return *v;
}

/* Clamps every value that may become a weight to `cap`; returns their sum. */
static ips_u128 clamp_and_sum_weights(struct build *b, uint64_t cap)
{
    struct ips_graph *g = &b->out->g;
    ips_u128 sum = 0;
    uint64_t *clamped = &b->out->counts.ambiguous;
    for (uint32_t i = 0; i < g->node_count; i++) {
        sum += clamp_value(&g->w[i], cap, clamped);
        sum += clamp_value(&g->xlen[i], cap, clamped);
    }
    for (uint32_t i = 0; i < b->exts.n; i++) {
        struct b_external *x = &b->exts.v[i];
        sum += clamp_value(&x->len, cap, clamped);
        sum += clamp_value(&x->reply_ns, cap, clamped);
        sum += clamp_value(&x->blocked_ns, cap, clamped);
    }
    return sum;
}

/* Limits the sum of all weights, because the path algorithms can add only up to
 * 2^62 ns. Only damaged records come near. Then values above half a year are
 * clamped first, and smaller ones only if that is not enough. */
static void clamp_weights_until_sum_fits(struct build *b)
{
    uint64_t cap = UINT64_MAX;
    while (clamp_and_sum_weights(b, cap) >= WEIGHTS_MOST)
        cap = cap == UINT64_MAX ? 1ull << 54 : cap / 16;
}

/* For damaged records: clamps the weights, and computes all sums again. */
static void clamp_weights_and_recompute_thread_cpu(struct build *b)
{
    struct ips_graph *g = &b->out->g;
    clamp_weights_until_sum_fits(b);
    b_limit_probe_costs_to_arc_weights(b);
    for (uint32_t c = 0; c < g->chain_count; c++) {
        const struct ips_chain *chain = &g->chains[c];
        uint64_t *sum = &b->out->threads[c].cpu_ns;
        *sum = 0;
        for (uint32_t i = chain->first; i < chain->first + chain->count; i++)
            *sum += g->w[i];
    }
}

/* Described in build/internal.h. `sum`: the CPU times and the lengths of cross
 * arcs, added up over all nodes. */
void b_bound_weights_and_sum_cpu(struct build *b, ips_u128 sum)
{
    struct ips_graph *g = &b->out->g;
    sum += b->gone;
    sum -= b->out->counts.spin_ns;
    uint32_t n = 0;
    const struct ips_spun *cut = b_incremental_get_final_spins(b, &n);
    /* spin_ns includes spinning that earlier calls subtracted; `sum` does not
     * contain that part */
    for (uint32_t i = 0; i < n; i++)
        sum += cut[i].ns;
    for (uint32_t i = 0; i < b->exts.n; i++) {
        const struct b_external *x = &b->exts.v[i];
        sum += (ips_u128)x->len + x->reply_ns + x->blocked_ns;
    }
    b->broken |= sum >= WEIGHTS_MOST;
    if (sum >= WEIGHTS_MOST && !b->incremental)
        clamp_weights_and_recompute_thread_cpu(b);
    for (uint32_t c = 0; c < g->chain_count; c++)
        b->out->procs[g->chains[c].process].cpu_ns += b->out->threads[c].cpu_ns;
}

int b_make_weights(struct build *b)
{
    struct ips_graph *g = &b->out->g;
    struct weight_columns k = {.b = b,
                               .cpu_at = b->cpu_at,
                               .off = b->off,
                               .far = b->far,
                               .coord = b->coord,
                               .fits = b_weights_pass_corrects_waits(b)};
    ips_u128 sum = 0;
    int rc = 0;
    if (k.fits) { /* cpu_at is not needed any more: reuse its memory */
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
        rc = make_weights_of_chain(&k, c, &row->cpu_ns);
        sum += row->cpu_ns;
    }
    b->out->counts.probe_arc_ns = k.probe;
    rc = rc < 0 ? rc : b_subtract_spin_cpu(b);
    if (rc == 0)
        b_bound_weights_and_sum_cpu(b, sum + k.xlen);
    return rc;
}
