#include "slave/profile/callers.h"

#include <stdlib.h>
#include <string.h>

#include "common/types.h"
#include "slave/profile/lock_code.h"

/* maximum number of innermost frames that are searched for a lock function */
#define LOCK_FRAMES 64u

struct pair {
    uint32_t leaf, caller;
    uint64_t ns, steps;
};
struct callers_builder {
    const struct slave_profile_cache *profile_cache;
    const struct slave_proc_names *names;
    struct pair *pair;
    size_t count, capacity;
    /* `seen` [symbols]: `serial` of the last stack that has the symbol, so that
     * recursion counts once. */
    uint32_t *seen, serial;
    struct slave_lock_time *lock;
    size_t locks, lock_capacity;
};

static int compare_pairs_by_leaf_and_caller(const void *a, const void *b)
{
    const struct pair *p = a, *q = b;
    if (p->leaf != q->leaf)
        return p->leaf < q->leaf ? -1 : 1;
    return (p->caller > q->caller) - (p->caller < q->caller);
}

static size_t sort_and_merge_caller_pairs(struct pair *pair, size_t count)
{
    size_t kept = 0;
    if (count)
        qsort(pair, count, sizeof(*pair), compare_pairs_by_leaf_and_caller);
    for (size_t i = 0; i < count; i++) {
        if (kept &&
            compare_pairs_by_leaf_and_caller(&pair[kept - 1], &pair[i]) == 0) {
            pair[kept - 1].ns = ips_add_sat(pair[kept - 1].ns, pair[i].ns);
            pair[kept - 1].steps =
                ips_add_sat(pair[kept - 1].steps, pair[i].steps);
        } else {
            pair[kept++] = pair[i];
        }
    }
    return kept;
}

/* Makes room for one more pair. Returns false if the limit is reached or memory
 * is short. */
static bool merge_or_grow_caller_pairs(struct callers_builder *m)
{
    if (m->count < m->capacity)
        return true;
    m->count = sort_and_merge_caller_pairs(m->pair, m->count);
    if (m->count * 2 < m->capacity)
        return true;
    size_t room = m->capacity * 2 + 1024;
    struct pair *more = room > SLAVE_CALLERS_MOST
                            ? NULL
                            : realloc(m->pair, room * sizeof(*more));
    if (!more)
        return m->count < m->capacity;
    m->pair = more;
    m->capacity = room;
    return true;
}

static int compare_lock_times_by_key(const void *a, const void *b)
{
    const struct slave_lock_time *p = a, *q = b;
    if (p->leaf != q->leaf)
        return p->leaf < q->leaf ? -1 : 1;
    if (p->site != q->site)
        return p->site < q->site ? -1 : 1;
    if (p->caller != q->caller)
        return p->caller < q->caller ? -1 : 1;
    return (p->how > q->how) - (p->how < q->how);
}

static size_t sort_and_merge_lock_times(struct slave_lock_time *lock,
                                        size_t count)
{
    size_t kept = 0;
    if (count)
        qsort(lock, count, sizeof(*lock), compare_lock_times_by_key);
    for (size_t i = 0; i < count; i++) {
        if (kept && compare_lock_times_by_key(&lock[kept - 1], &lock[i]) == 0)
            lock[kept - 1].ns = ips_add_sat(lock[kept - 1].ns, lock[i].ns);
        else
            lock[kept++] = lock[i];
    }
    return kept;
}

static bool ensure_room_for_lock_time(struct callers_builder *m)
{
    if (m->locks < m->lock_capacity)
        return true;
    m->locks = sort_and_merge_lock_times(m->lock, m->locks);
    if (m->locks * 2 < m->lock_capacity)
        return true;
    size_t room = m->lock_capacity * 2 + 256;
    struct slave_lock_time *more = room > SLAVE_CALLERS_MOST
                                       ? NULL
                                       : realloc(m->lock, room * sizeof(*more));
    if (!more)
        return m->locks < m->lock_capacity;
    m->lock = more;
    m->lock_capacity = room;
    return true;
}

/* Adds the sample to the lock times if its stack takes or releases a lock,
 * yields the CPU, or loops until memory changes. */
static void add_lock_time_if_sample_uses_lock(struct callers_builder *m,
                                              const struct ips_sampled *s)
{
    const struct ips_stack *stack = &m->profile_cache->p.stacks[s->stack];
    const struct slave_proc_names *n = m->names;
    uint32_t symbol[LOCK_FRAMES], count = 0;
    struct slave_lock_use use = {0};
    for (uint32_t i = 0; i < stack->count && count < LOCK_FRAMES; i++) {
        uint32_t place = m->profile_cache->p.frames[stack->first + i];
        for (uint32_t k = n->first[place];
             k < n->first[place + 1] && count < LOCK_FRAMES; k++)
            symbol[count++] = n->of[k];
    }
    bool lock = slave_lock_find_use_in_stack(n, symbol, count, &use);
    bool loop = stack->spins && count && !(lock && use.contended);
    if (loop)
        use = (struct slave_lock_use){.site = symbol[0], .caller = symbol[0]};
    if ((!lock && !loop) || !ensure_room_for_lock_time(m))
        return;
    m->lock[m->locks++] = (struct slave_lock_time){
        .leaf = symbol[0],
        .site = use.site,
        .caller = use.caller,
        .how = (use.contended ? SLAVE_LOCK_IS_CONTENDED : 0) |
               (use.gives ? SLAVE_LOCK_IS_RELEASED : 0) |
               (use.library ? SLAVE_LOCK_OF_LIBRARY : 0) |
               (use.yields ? SLAVE_LOCK_IS_YIELD : 0) |
               (loop ? SLAVE_LOCK_IS_MEMORY_LOOP : 0),
        .ns = s->ns};
}

static void add_caller_pairs_of_sample(struct callers_builder *m,
                                       const struct ips_sampled *s)
{
    const struct ips_stack *stack = &m->profile_cache->p.stacks[s->stack];
    const struct slave_proc_names *n = m->names;
    uint32_t leaf = IPS_NONE;
    uint64_t step = 0;
    m->serial++;
    for (uint32_t i = 0; i < stack->count; i++) {
        uint32_t place = m->profile_cache->p.frames[stack->first + i];
        for (uint32_t k = n->first[place]; k < n->first[place + 1]; k++) {
            uint32_t symbol = n->of[k];
            leaf = leaf == IPS_NONE ? symbol : leaf;
            if (m->seen[symbol] != m->serial && merge_or_grow_caller_pairs(m))
                m->pair[m->count++] =
                    (struct pair){leaf, symbol, s->ns, s->ns * step};
            m->seen[symbol] = m->serial;
            step++;
        }
    }
}

static int fill_caller_columns(const struct callers_builder *m,
                               struct slave_callers *out, struct ips_err *err)
{
    size_t n = m->count + 1;
    out->leaf = malloc(n * sizeof(*out->leaf));
    out->caller = malloc(n * sizeof(*out->caller));
    out->ns = malloc(n * sizeof(*out->ns));
    out->steps = malloc(n * sizeof(*out->steps));
    if (!out->leaf || !out->caller || !out->ns || !out->steps)
        return ips_err_set(err, IPS_E_NO_MEMORY, "out of memory");
    for (size_t i = 0; i < m->count; i++) {
        out->leaf[i] = m->pair[i].leaf;
        out->caller[i] = m->pair[i].caller;
        out->ns[i] = m->pair[i].ns;
        out->steps[i] = m->pair[i].steps;
    }
    out->count = (uint32_t)m->count;
    return 0;
}

int slave_callers_make_pairs_and_lock_times(
    const struct slave_profile_cache *costs,
    const struct slave_proc_names *names, struct slave_callers *out,
    struct ips_err *err)
{
    struct callers_builder m = {.profile_cache = costs, .names = names};
    memset(out, 0, sizeof(*out));
    m.seen = calloc((size_t)names->symbol_count + 1, sizeof(*m.seen));
    if (!m.seen)
        return ips_err_set(err, IPS_E_NO_MEMORY, "out of memory");
    for (uint32_t i = 0; i < costs->p.sampled_count; i++) {
        add_caller_pairs_of_sample(&m, &costs->p.sampled[i]);
        add_lock_time_if_sample_uses_lock(&m, &costs->p.sampled[i]);
    }
    m.count = sort_and_merge_caller_pairs(m.pair, m.count);
    out->lock = m.lock;
    out->lock_count = (uint32_t)sort_and_merge_lock_times(m.lock, m.locks);
    int rc = fill_caller_columns(&m, out, err);
    free(m.pair);
    free(m.seen);
    return rc;
}

void slave_callers_release(struct slave_callers *c)
{
    free(c->leaf);
    free(c->caller);
    free(c->ns);
    free(c->steps);
    free(c->lock);
    memset(c, 0, sizeof(*c));
}
