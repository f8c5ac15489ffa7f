/* Assigns samples, entries and exits to arcs, and pools similar arcs; rules in
 * arc_procs.h. */
#include "slave/symbols/arc_procs.h"

#include "slave/base/wordhash.h"
#include "slave/build/internal.h"

/* number of levels of similarity between arcs; at level 0 they are most
 * similar */
#define LEVELS 3u
#define NOWHERE UINT32_MAX

/* ---- along a chain ---- */

static void move_walk_to_arc_of_node(struct slave_arc_walk *w, uint32_t node)
{
    const struct ips_built *b = w->b;
    w->node = node;
    w->came = w->begin_ns = w->end_ns;
    for (; w->spun < b->spun_count && b->spun[w->spun].node <= node; w->spun++)
        if (b->spun[w->spun].node == node)
            w->begin_ns = ips_add_sat(w->begin_ns, b->spun[w->spun].ns);
    w->end_ns = ips_add_sat(w->begin_ns, b->g.w[node]);
}

void slave_arc_walk_init_at_chain(struct slave_arc_walk *w,
                                  const struct ips_built *b, uint32_t chain)
{
    const struct ips_chain *c = &b->g.chains[chain];
    uint32_t low = 0, high = b->spun_count;
    /* find the first entry of b->spun (time spent spinning) in this chain or a
     * later one */
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (b->spun[mid].node < c->first)
            low = mid + 1;
        else
            high = mid;
    }
    *w = (struct slave_arc_walk){.b = b,
                                 .chain = chain,
                                 .node = c->first,
                                 .end = c->first + c->count,
                                 .spun = low,
                                 .end_ns = b->threads[chain].base_cpu_ns};
    w->came = w->begin_ns = w->end_ns;
    if (c->count > 1)
        move_walk_to_arc_of_node(w, c->first + 1);
}

/* Moves to the arc in which the thread's CPU clock showed `cpu`; `cpu` must not
 * decrease between calls. */
static void move_walk_to_arc_of_cpu_time(struct slave_arc_walk *w, uint64_t cpu)
{
    while (cpu > w->end_ns && w->node + 1 < w->end)
        move_walk_to_arc_of_node(w, w->node + 1);
}

int slave_arc_add_sample(struct slave_arcs *a, struct slave_arc_walk *w,
                         uint64_t cpu, uint64_t t_ns, uint32_t stack,
                         uint64_t ns, struct ips_err *err)
{
    move_walk_to_arc_of_cpu_time(w, cpu);
    if (cpu <= w->begin_ns || cpu > w->end_ns)
        return 0; /* the thread spun when the sample was taken, or the sample is
                     after the chain's last node */
    if (a->sample_count == a->sample_capacity) {
        int rc = b_array_reserve((void **)&a->samples, a->sample_count,
                                 &a->sample_capacity, sizeof(*a->samples), err);
        if (rc < 0)
            return rc;
    }
    a->samples[a->sample_count++] =
        (struct slave_arc_sample){.node = w->node,
                                  .stack = stack,
                                  .ns = ips_max_u64(ns, 1),
                                  .cpu_ns = cpu - w->begin_ns,
                                  .t_ns = t_ns};
    return 0;
}

static int add_exact_time_to_arc(struct slave_arcs *a, uint32_t node,
                                 uint32_t place, uint64_t ns, uint32_t *last,
                                 struct ips_err *err)
{
    struct slave_arc_exact *e = *last ? &a->exacts[*last - 1] : NULL;
    if (e && e->node == node && e->code_location == place) {
        e->ns += ns;
        return 0;
    }
    if (a->exact_count == a->exact_capacity) {
        int rc = b_array_reserve((void **)&a->exacts, a->exact_count,
                                 &a->exact_capacity, sizeof(*a->exacts), err);
        if (rc < 0)
            return rc;
    }
    a->exacts[a->exact_count++] = (struct slave_arc_exact){
        .node = node, .code_location = place, .ns = ns};
    *last = a->exact_count;
    return 0;
}

int slave_arc_add_exact_interval_to_arcs(struct slave_arcs *a,
                                         struct slave_arc_walk *w,
                                         uint64_t from, uint64_t to,
                                         uint32_t place, uint32_t *last,
                                         struct ips_err *err)
{
    move_walk_to_arc_of_cpu_time(w, from);
    for (;;) {
        uint64_t low = ips_max_u64(from, w->begin_ns);
        uint64_t high = ips_min_u64(to, w->end_ns);
        int rc = low < high ? add_exact_time_to_arc(a, w->node, place,
                                                    high - low, last, err)
                            : 0;
        if (rc < 0)
            return rc;
        if (to <= w->end_ns || w->node + 1 >= w->end)
            return 0;
        move_walk_to_arc_of_node(w, w->node + 1);
    }
}

/* ---- similar arcs ---- */

static void make_arc_pool_key_at_level(const struct ips_graph *g,
                                       uint32_t chain, uint32_t node,
                                       uint32_t level, uint32_t key[5])
{
    key[0] = level;
    key[1] = level < 2 ? chain : g->chains[chain].process;
    key[2] = (uint32_t)g->kind[node - 1] << 8 | g->kind[node];
    key[3] = level == 0 ? g->site[node - 1] : 0;
    key[4] = level == 0 ? g->site[node] : 0;
}

struct pool_probe {
    const struct slave_arc_pool *pools;
    const uint32_t *key;
};

static bool has_pool_given_key(const void *arg, uint32_t number)
{
    const struct pool_probe *p = arg;
    return memcmp(p->pools[number].key, p->key, sizeof(p->pools->key)) == 0;
}

/* Returns the number of the pool with this key; NOWHERE: there is none.
 * (slave_intern_find_or_add() would add an entry.) */
static uint32_t find_arc_pool_with_key(const struct slave_arcs *a,
                                       const uint32_t key[5])
{
    const struct slave_intern *t = &a->pool_index;
    uint64_t hash = slave_hash_bytes(6, key, 5 * sizeof(*key));
    const struct pool_probe p = {a->pools, key};
    for (uint32_t at = (uint32_t)hash & (t->capacity - 1);
         t->capacity && t->slot[at]; at = (at + 1) & (t->capacity - 1))
        if (t->hash[t->slot[at] - 1] == hash &&
            has_pool_given_key(&p, t->slot[at] - 1))
            return t->slot[at] - 1;
    return NOWHERE;
}

static int find_or_add_arc_pool(struct slave_arcs *a, const uint32_t key[5],
                                uint32_t chain, uint32_t *number,
                                struct ips_err *err)
{
    bool fresh;
    if (a->pool_count == a->pool_capacity) {
        int rc = b_array_reserve((void **)&a->pools, a->pool_count,
                                 &a->pool_capacity, sizeof(*a->pools), err);
        if (rc < 0)
            return rc;
    }
    const struct pool_probe p = {a->pools, key};
    *number = slave_intern_find_or_add(
        &a->pool_index, slave_hash_bytes(6, key, 5 * sizeof(*key)),
        has_pool_given_key, &p, &fresh);
    if (*number == UINT32_MAX)
        return ips_err_set(err, IPS_E_NO_MEMORY, "arcs alike");
    if (fresh) {
        struct slave_arc_pool *pool = &a->pools[a->pool_count++];
        *pool = (struct slave_arc_pool){.chain = chain};
        memcpy(pool->key, key, sizeof(pool->key));
    }
    return 0;
}

/* Makes the pools of similar arcs. Sets of[LEVELS * sample + level] to the
 * number of the sample's pool at that level of similarity. */
static int sum_samples_into_pools(struct slave_arcs *a,
                                  const struct ips_graph *g, uint32_t *of,
                                  struct ips_err *err)
{
    uint32_t chain = 0;
    for (uint32_t i = 0; i < a->sample_count; i++) {
        const struct slave_arc_sample *s = &a->samples[i];
        const struct ips_chain *c = &g->chains[chain];
        if (s->node < c->first || s->node - c->first >= c->count)
            chain = ips_chain_of(g, s->node);
        for (uint32_t level = 0; level < LEVELS; level++) {
            uint32_t key[5], number;
            make_arc_pool_key_at_level(g, chain, s->node, level, key);
            int rc = find_or_add_arc_pool(a, key, chain, &number, err);
            if (rc < 0)
                return rc;
            of[(size_t)i * LEVELS + level] = number;
            a->pools[number].count++;
            a->pools[number].ns = ips_add_sat(a->pools[number].ns, s->ns);
        }
    }
    return 0;
}

static void group_samples_by_pool(struct slave_arcs *a, const uint32_t *of)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < a->pool_count; i++) {
        a->pools[i].first = at;
        at += a->pools[i].count;
        a->pools[i].count = 0;
    }
    for (uint32_t i = 0; i < a->sample_count; i++)
        for (uint32_t level = 0; level < LEVELS; level++) {
            struct slave_arc_pool *p =
                &a->pools[of[(size_t)i * LEVELS + level]];
            a->pooled[p->first + p->count++] = i;
        }
}

static int compare_samples_by_node(const void *va, const void *vb)
{
    const struct slave_arc_sample *x = va, *y = vb;
    CMP3(x->node, y->node);
    CMP3(x->cpu_ns, y->cpu_ns);
    CMP3(x->t_ns, y->t_ns);
    CMP3(x->stack, y->stack);
    return 0;
}

static int compare_exacts_by_node(const void *va, const void *vb)
{
    const struct slave_arc_exact *x = va, *y = vb;
    CMP3(x->node, y->node);
    return 0;
}

/* Sorts the samples and the exact rows by node, unless they are sorted. Only
 * the rows of one stream were added in order. */
static void sort_samples_and_exact_rows(struct slave_arcs *a)
{
    bool samples = true, exacts = true;
    for (uint32_t i = 1; i < a->sample_count; i++)
        samples = samples && compare_samples_by_node(&a->samples[i - 1],
                                                     &a->samples[i]) <= 0;
    for (uint32_t i = 1; i < a->exact_count; i++)
        exacts = exacts && a->exacts[i - 1].node <= a->exacts[i].node;
    if (!samples)
        qsort(a->samples, a->sample_count, sizeof(*a->samples),
              compare_samples_by_node);
    if (!exacts)
        qsort(a->exacts, a->exact_count, sizeof(*a->exacts),
              compare_exacts_by_node);
}

int slave_arcs_sort_samples_and_make_pools(struct slave_arcs *a,
                                           const struct ips_built *b,
                                           const bool *exact,
                                           struct ips_err *err)
{
    const struct ips_graph *g = &b->g;
    int rc = 0;
    if (a->sample_count >= UINT32_MAX / LEVELS)
        return ips_err_set(err, IPS_E_LIMIT, "%u samples", a->sample_count);
    sort_samples_and_exact_rows(a);
    uint32_t *of = b_calloc((size_t)a->sample_count * LEVELS, sizeof(*of), err);
    a->pooled =
        b_calloc((size_t)a->sample_count * LEVELS, sizeof(*a->pooled), err);
    a->exact_chain = b_calloc(g->chain_count, sizeof(*a->exact_chain), err);
    if (!of || !a->pooled || !a->exact_chain)
        rc = IPS_E_NO_MEMORY;
    if (rc == 0) {
        memcpy(a->exact_chain, exact, g->chain_count * sizeof(*exact));
        rc = sum_samples_into_pools(a, g, of, err);
    }
    if (rc == 0)
        group_samples_by_pool(a, of);
    ips_free_large(of);
    return rc;
}

void slave_arcs_release(struct slave_arcs *a)
{
    ips_free_large(a->samples);
    ips_free_large(a->exacts);
    ips_free_large(a->pools);
    ips_free_large(a->pooled);
    ips_free_large(a->exact_chain);
    slave_intern_release(&a->pool_index);
    memset(a, 0, sizeof(*a));
}

/* ---- one arc ---- */

/* Returns the index of the first row whose node is at least `node`, by binary
 * search in `n` rows sorted by node. The rows are samples or exact rows; the
 * first member of both is the node. */
static uint32_t lower_bound(const void *rows, size_t size, uint32_t n,
                            uint32_t node)
{
    uint32_t low = 0, high = n;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2, at;
        memcpy(&at, (const char *)rows + mid * size, sizeof(at));
        if (at < node)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

struct slave_arc_source_range
slave_arc_find_cpu_split_source(const struct slave_arcs *a,
                                const struct ips_graph *g, uint32_t chain,
                                uint32_t node)
{
    struct slave_arc_source_range v = {.source = SLAVE_ARC_NO_SOURCE};
    if (a->exact_chain && a->exact_chain[chain]) {
        v.source = SLAVE_ARC_EXACT;
        v.first =
            lower_bound(a->exacts, sizeof(*a->exacts), a->exact_count, node);
        for (uint32_t i = v.first;
             i < a->exact_count && a->exacts[i].node == node; i++) {
            v.ns += a->exacts[i].ns;
            v.count++;
        }
        return v;
    }
    v.first =
        lower_bound(a->samples, sizeof(*a->samples), a->sample_count, node);
    for (uint32_t i = v.first;
         i < a->sample_count && a->samples[i].node == node; i++) {
        v.source = SLAVE_ARC_OWN;
        v.ns = ips_add_sat(v.ns, a->samples[i].ns);
        v.count++;
    }
    /* without pools, the time is unsampled */
    uint32_t levels = a->pool_count ? LEVELS : 0;
    for (uint32_t level = 0; v.source == SLAVE_ARC_NO_SOURCE && level < levels;
         level++) {
        uint32_t key[5];
        make_arc_pool_key_at_level(g, chain, node, level, key);
        v.pool = find_arc_pool_with_key(a, key);
        if (v.pool != NOWHERE)
            v.source = SLAVE_ARC_SIMILAR;
    }
    return v;
}
