/* Sums up the CPU time of selected arcs by procedure; see arc_sum.h. */
#include "slave/profile/arc_sum.h"

#include "slave/base/wordhash.h"
#include "slave/build/internal.h"

int slave_arc_sum_init(struct slave_arc_sum *s,
                       const struct slave_profile_cache *costs,
                       const struct ips_built *b, struct ips_err *err)
{
    const struct slave_arcs *a = &costs->p.arcs;
    *s = (struct slave_arc_sum){.profile_cache = costs, .b = b};
    s->stood = b_calloc(a->sample_count, sizeof(*s->stood), err);
    s->need = b_calloc(a->pool_count, sizeof(*s->need), err);
    s->exact = b_calloc(a->exact_count, sizeof(*s->exact), err);
    if (s->stood && s->need && s->exact)
        return 0;
    slave_arc_sum_release(s);
    return IPS_E_NO_MEMORY;
}

void slave_arc_sum_release(struct slave_arc_sum *s)
{
    ips_free_large(s->stood);
    ips_free_large(s->need);
    ips_free_large(s->exact);
    *s = (struct slave_arc_sum){0};
}

/* ---- windows ---- */

struct point {
    uint64_t t, cpu;
};

/* Returns the thread's CPU time, in ns, at time t, by linear interpolation
 * between the points a and b. */
static uint64_t interpolate_cpu(struct point a, struct point b, uint64_t t)
{
    if (b.t <= a.t || b.cpu <= a.cpu)
        return a.cpu;
    return a.cpu + (uint64_t)((ips_u128)(b.cpu - a.cpu) *
                              (ips_min_u64(t, b.t) - a.t) / (b.t - a.t));
}

/* Returns the CPU time, in ns, of the arc into `node` from the arc's start to
 * time t. */
static uint64_t cpu_of_arc_until(const struct slave_arcs *a,
                                 const struct ips_graph *g,
                                 const struct slave_arc_source_range *v,
                                 uint32_t node, uint64_t t)
{
    const struct point end = {g->t_ns[node], g->w[node]};
    struct point last = {g->t_ns[node - 1], 0};
    if (t >= end.t)
        return end.cpu;
    if (t <= last.t)
        return 0;
    for (uint32_t i = 0; v->source == SLAVE_ARC_OWN && i < v->count; i++) {
        const struct slave_arc_sample *s = &a->samples[v->first + i];
        const struct point next = {ips_min_u64(s->t_ns, end.t), s->cpu_ns};
        if (next.t < last.t || next.cpu < last.cpu)
            continue; /* ignore a sample whose time or CPU runs backwards */
        if (t <= next.t)
            return interpolate_cpu(last, next, t);
        last = next;
    }
    return interpolate_cpu(last, end, t);
}

static uint64_t cpu_of_arc_in_window(const struct slave_arcs *a,
                                     const struct ips_graph *g,
                                     const struct slave_arc_source_range *v,
                                     uint32_t node, struct slave_window window)
{
    if (window.from_ns == 0 && window.to_ns == UINT64_MAX)
        return g->w[node];
    return ips_sub_sat(cpu_of_arc_until(a, g, v, node, window.to_ns),
                       cpu_of_arc_until(a, g, v, node, window.from_ns));
}

uint64_t slave_arc_cpu_ns_in_window(const struct slave_arcs *a,
                                    const struct ips_graph *g, uint32_t chain,
                                    uint32_t node, struct slave_window window)
{
    struct slave_arc_source_range v =
        slave_arc_find_cpu_split_source(a, g, chain, node);
    return cpu_of_arc_in_window(a, g, &v, node, window);
}

/* ---- adding ---- */

/* Divides `ns` among the arc's own samples, in proportion to the parts of their
 * weights that are in the window. */
static void divide_among_own_samples(struct slave_arc_sum *s,
                                     const struct slave_arc_source_range *v,
                                     uint32_t node, uint64_t ns,
                                     struct slave_window window)
{
    const struct slave_arcs *a = &s->profile_cache->p.arcs;
    const struct ips_graph *g = &s->b->g;
    uint64_t in = slave_arc_total_sample_ns_in_window(a, g, v, node, window);
    struct slave_proportional_split share;
    slave_proportional_split_init(&share, ns, in ? in : v->ns, node);
    for (uint32_t i = 0; i < v->count; i++)
        s->stood[v->first + i] += slave_proportional_split_compute_share(
            &share, in ? slave_arc_sample_ns_in_window(a, g, v, node, i, window)
                       : a->samples[v->first + i].ns);
}

static void divide_among_exact_rows(struct slave_arc_sum *s,
                                    const struct slave_arc_source_range *v,
                                    uint32_t node, uint64_t ns)
{
    const struct slave_arc_exact *row =
        &s->profile_cache->p.arcs.exacts[v->first];
    uint64_t whole = ips_max_u64(v->ns, s->b->g.w[node]);
    struct slave_proportional_split share;
    slave_proportional_split_init(&share, ns, whole, node);
    for (uint32_t i = 0; i < v->count; i++) {
        uint64_t part =
            slave_proportional_split_compute_share(&share, row[i].ns);
        s->exact[v->first + i] += part;
        s->exact_ns += part;
    }
}

static void add_arc_time_and_divide_among_samples(
    struct slave_arc_sum *s, struct slave_arc_source_range v, uint32_t node,
    uint64_t ns, struct slave_window window)
{
    if (ns == 0)
        return;
    s->ns += ns;
    s->by[v.source] += ns;
    if (v.source == SLAVE_ARC_OWN)
        divide_among_own_samples(s, &v, node, ns, window);
    else if (v.source == SLAVE_ARC_EXACT)
        divide_among_exact_rows(s, &v, node, ns);
    else if (v.source == SLAVE_ARC_SIMILAR)
        s->need[v.pool] += ns;
}

uint64_t slave_arc_sum_add_window_cpu_of_arc(struct slave_arc_sum *s,
                                             uint32_t chain, uint32_t node,
                                             struct slave_window window)
{
    const struct slave_arcs *a = &s->profile_cache->p.arcs;
    struct slave_arc_source_range v =
        slave_arc_find_cpu_split_source(a, &s->b->g, chain, node);
    uint64_t ns = cpu_of_arc_in_window(a, &s->b->g, &v, node, window);
    add_arc_time_and_divide_among_samples(s, v, node, ns, window);
    return ns;
}

void slave_arc_sum_add_given_ns(struct slave_arc_sum *s, uint32_t chain,
                                uint32_t node, uint64_t ns,
                                struct slave_window window)
{
    add_arc_time_and_divide_among_samples(
        s,
        slave_arc_find_cpu_split_source(&s->profile_cache->p.arcs, &s->b->g,
                                        chain, node),
        node, ns, window);
}

/* ---- costs ---- */

/* Divides the time of arcs that have no samples of their own among the samples
 * of similar arcs (their pool). */
static void divide_pool_time_among_samples(struct slave_arc_sum *s)
{
    const struct slave_arcs *a = &s->profile_cache->p.arcs;
    for (uint32_t p = 0; p < a->pool_count; p++) {
        struct slave_proportional_split share;
        if (s->need[p] == 0)
            continue;
        slave_proportional_split_init(&share, s->need[p], a->pools[p].ns, p);
        for (uint32_t i = 0; i < a->pools[p].count; i++) {
            uint32_t sample = a->pooled[a->pools[p].first + i];
            s->stood[sample] += slave_proportional_split_compute_share(
                &share, a->samples[sample].ns);
        }
        s->need[p] = 0;
    }
}

struct profile_builder {
    struct ips_procs *p;
    struct slave_intern sampled_index, exact_index;
    struct ips_err *err;
};
struct chain_code_key {
    const struct ips_procs *p;
    uint32_t chain, what;
};

static bool has_sampled_row_key(const void *arg, uint32_t number)
{
    const struct chain_code_key *k = arg;
    const struct ips_sampled *row = &k->p->sampled[number];
    return row->chain == k->chain && row->stack == k->what;
}

static bool has_exact_row_key(const void *arg, uint32_t number)
{
    const struct chain_code_key *k = arg;
    const struct ips_exact *row = &k->p->exact[number];
    return row->chain == k->chain && row->code_location == k->what;
}

static uint64_t pair_hash(uint32_t a, uint32_t b)
{
    const uint64_t word = (uint64_t)a << 32 | b;
    return slave_hash_bytes(7, &word, sizeof(word));
}

static int add_ns_to_sampled_row(struct profile_builder *m, uint32_t chain,
                                 const struct slave_arc_sample *from,
                                 uint64_t ns)
{
    struct ips_procs *p = m->p;
    const struct chain_code_key key = {p, chain, from->stack};
    bool fresh;
    int rc = 0;
    if (p->sampled_count == p->sampled_capacity)
        rc = b_array_reserve((void **)&p->sampled, p->sampled_count,
                             &p->sampled_capacity, sizeof(*p->sampled), m->err);
    if (rc < 0)
        return rc;
    uint32_t n = slave_intern_find_or_add(&m->sampled_index,
                                          pair_hash(chain, from->stack),
                                          has_sampled_row_key, &key, &fresh);
    if (n == UINT32_MAX)
        return ips_err_set(m->err, IPS_E_NO_MEMORY, "procedures");
    if (fresh)
        p->sampled[p->sampled_count++] =
            (struct ips_sampled){.chain = chain, .stack = from->stack};
    p->sampled[n].ns += ns;
    p->sampled[n].samples++;
    p->sampled[n].squares += (double)ns * (double)ns;
    return 0;
}

/* Adds `ns` to the row of this chain and code location. The row's total time
 * and number of calls stay unknown: they cannot be derived for single arcs. */
static int add_ns_to_exact_row(struct profile_builder *m, uint32_t chain,
                               uint32_t place, uint64_t ns)
{
    struct ips_procs *p = m->p;
    const struct chain_code_key key = {p, chain, place};
    bool fresh;
    int rc = 0;
    if (p->exact_count == p->exact_capacity)
        rc = b_array_reserve((void **)&p->exact, p->exact_count,
                             &p->exact_capacity, sizeof(*p->exact), m->err);
    if (rc < 0)
        return rc;
    uint32_t n =
        slave_intern_find_or_add(&m->exact_index, pair_hash(chain, place),
                                 has_exact_row_key, &key, &fresh);
    if (n == UINT32_MAX)
        return ips_err_set(m->err, IPS_E_NO_MEMORY, "procedures");
    if (fresh)
        p->exact[p->exact_count++] =
            (struct ips_exact){.chain = chain,
                               .code_location = place,
                               .total_ns = IPS_CPU_UNKNOWN,
                               .calls = IPS_CPU_UNKNOWN,
                               .timed = true};
    p->exact[n].self_ns += ns;
    return 0;
}

/* Returns the chain that contains `node`. The search starts at `chain`, which
 * must not be a later one. */
static uint32_t find_chain_of_node_from_chain(const struct ips_graph *g,
                                              uint32_t chain, uint32_t node)
{
    while (node - g->chains[chain].first >= g->chains[chain].count)
        chain++;
    return chain;
}

int slave_arc_sum_make_profile(struct slave_arc_sum *s,
                               struct slave_profile_cache *out,
                               struct ips_err *err)
{
    const struct slave_arcs *a = &s->profile_cache->p.arcs;
    struct profile_builder m = {.p = &out->p, .err = err};
    uint32_t chain = 0;
    int rc = 0;
    divide_pool_time_among_samples(s);
    *out = *s->profile_cache;
    memset(&out->p.arcs, 0, sizeof(out->p.arcs));
    out->p.sampled = NULL;
    out->p.exact = NULL;
    out->p.sampled_count = out->p.sampled_capacity = 0;
    out->p.exact_count = out->p.exact_capacity = 0;
    out->p.threads =
        b_calloc(out->p.thread_count, sizeof(*out->p.threads), err);
    if (!out->p.threads)
        rc = IPS_E_NO_MEMORY;
    for (uint32_t i = 0; rc == 0 && i < a->sample_count; i++)
        if (s->stood[i]) {
            chain = find_chain_of_node_from_chain(&s->b->g, chain,
                                                  a->samples[i].node);
            rc = add_ns_to_sampled_row(&m, chain, &a->samples[i], s->stood[i]);
        }
    chain = 0;
    for (uint32_t i = 0; rc == 0 && i < a->exact_count; i++)
        if (s->exact[i]) {
            chain = find_chain_of_node_from_chain(&s->b->g, chain,
                                                  a->exacts[i].node);
            rc = add_ns_to_exact_row(&m, chain, a->exacts[i].code_location,
                                     s->exact[i]);
        }
    slave_intern_release(&m.sampled_index);
    slave_intern_release(&m.exact_index);
    if (rc < 0)
        slave_arc_profile_free(out);
    return rc;
}

void slave_arc_profile_free(struct slave_profile_cache *c)
{
    ips_free_large(c->p.sampled);
    ips_free_large(c->p.exact);
    ips_free_large(c->p.threads);
    memset(c, 0, sizeof(*c));
}

void slave_arc_sum_compute_totals(const struct slave_arc_sum *s,
                                  struct slave_arc_totals *out)
{
    *out = (struct slave_arc_totals){.ns = s->ns,
                                     .exact_ns = s->exact_ns,
                                     .alike_ns = s->by[SLAVE_ARC_SIMILAR]};
    for (uint32_t i = 0; i < s->profile_cache->p.arcs.sample_count; i++) {
        uint64_t ns = s->stood[i];
        out->sampled_ns += ns;
        out->samples += ns > 0;
        out->squares += (double)ns * (double)ns;
    }
    out->unsampled_ns =
        ips_sub_sat(s->ns, ips_add_sat(out->sampled_ns, out->exact_ns));
}
