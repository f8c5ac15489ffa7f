/*
 * Estimates the CPU time that contended locks cost, from samples in the C
 * library's procedures that take and release locks (slave/profile/lock_code.h).
 * They are grouped by lock site: the procedure that takes or releases the lock.
 * A site counts if its samples prove that other threads wanted the lock, for
 * example by waking one. All time that the site spends on the lock then counts,
 * because taking a contended lock is slow even without a wait: its cache line
 * comes from another core. Sites whose locks are not contended do not count.
 *
 * This assumes that contended locks have the same share in a procedure's time
 * on the path as in all of its samples.
 */
#include <stdlib.h>
#include <string.h>

#include "common/types.h"
#include "master/why/facts.h"

#define CONTENDED 1u /* bits of `how` in arc_lock_time (PortionsAnswer) */
#define GIVEN 2u
#define OF_LIBRARY 4u
#define YIELDS 8u
#define READS_MEMORY 16u

struct lock_time {
    const struct entity_symbol *site, *caller;
    /* leaf: innermost procedure of the samples; how: bits CONTENDED to
     * YIELDS */
    uint32_t leaf, how;
    uint64_t ns; /* ns in all samples, also off the path */
    double path_ns;
    bool counts; /* the site has contended locks */
};
struct lock_times {
    struct lock_time *v;
    size_t count;
};

static int set_why_no_memory_error(const struct why_solving *y)
{
    return ips_err_set(y->s.err, IPS_E_NO_MEMORY, "no memory to find out why");
}

static int compare_symbols(const struct entity_symbol *p,
                           const struct entity_symbol *q)
{
    int c = strcmp(p->name, q->name);
    c = c ? c : strcmp(p->module, q->module);
    return c ? c : strcmp(p->file, q->file);
}

static int compare_lock_times_by_site(const void *a, const void *b)
{
    const struct lock_time *p = a, *q = b;
    int c = compare_symbols(p->site, q->site);
    return c ? c : compare_symbols(p->caller, q->caller);
}

static int compare_lock_times_by_caller(const void *a, const void *b)
{
    const struct lock_time *p = a, *q = b;
    return compare_symbols(p->caller, q->caller);
}

/* Lists the lock times of all machines, sorted by site and caller. Leaves out
 * those whose innermost procedure occurs in no arc. Adds the times in loops
 * that read memory to y->spins instead. */
static int list_lock_times_and_sum_spins(struct why_solving *y,
                                         struct lock_times *u)
{
    const struct entities *t = &y->d->w.t;
    size_t n = 0;
    for (uint32_t p = 0; p < t->machine_count; p++)
        n += y->d->w.arc_profile[p].locks;
    u->v = calloc(n + 1, sizeof(*u->v));
    if (!u->v)
        return set_why_no_memory_error(y);
    for (uint32_t p = 0; p < t->machine_count; p++) {
        const struct arc_profile *w = &y->d->w.arc_profile[p];
        for (uint64_t i = 0; i < w->locks; i++) {
            const struct arc_lock_time *x = &w->lock[i];
            uint32_t leaf = entities_find_procedure(t, &w->symbol[x->leaf]);
            if (leaf == ENTITY_NONE)
                continue;
            if (x->how & READS_MEMORY) {
                y->spins[leaf] = ips_add_sat(y->spins[leaf], x->ns);
                continue;
            }
            u->v[u->count++] =
                (struct lock_time){.site = &w->symbol[x->site],
                                   .caller = &w->symbol[x->caller],
                                   .leaf = leaf,
                                   .how = x->how,
                                   .ns = x->ns};
        }
    }
    if (u->count)
        qsort(u->v, u->count, sizeof(*u->v), compare_lock_times_by_site);
    return 0;
}

/* Sets seen[procedure] to the ns of all samples with that procedure as the
 * innermost. */
static void sum_samples_by_procedure(const struct why_solving *y,
                                     uint64_t *seen)
{
    const struct entities *t = &y->d->w.t;
    for (uint32_t p = 0; p < t->machine_count; p++) {
        const struct arc_profile *w = &y->d->w.arc_profile[p];
        for (uint64_t i = 0; i < w->callers; i++) {
            if (w->leaf[i] != w->caller[i])
                continue;
            uint32_t leaf = entities_find_procedure(t, &w->symbol[w->leaf[i]]);
            if (leaf != ENTITY_NONE)
                seen[leaf] = ips_add_sat(seen[leaf], w->caller_ns[i]);
        }
    }
}

static size_t find_end_of_lock_site(const struct lock_times *u, size_t at)
{
    size_t end = at;
    while (end < u->count &&
           compare_symbols(u->v[at].site, u->v[end].site) == 0)
        end++;
    return end;
}

/* Sets y->yields: for each procedure that yields the CPU, the site that calls
 * it most. The site of a sample whose caller is unknown is the procedure
 * itself; it is set only if no caller is known. */
static int find_callers_of_yields(struct why_solving *y,
                                  const struct lock_times *u)
{
    uint64_t *most = NULL;
    for (size_t i = 0; i < u->count; i++) {
        const struct lock_time *x = &u->v[i];
        if (!(x->how & YIELDS))
            continue;
        if (!most) {
            size_t n = (size_t)y->procedures + 1;
            most = calloc(n, sizeof(*most));
            y->yields = calloc(n, sizeof(*y->yields));
        }
        if (!most || !y->yields) {
            free(most);
            return set_why_no_memory_error(y);
        }
        const struct entity_symbol *own = &y->d->w.t.procedure[x->leaf];
        bool known = compare_symbols(x->site, own) != 0;
        if (y->yields[x->leaf] && (!known || x->ns <= most[x->leaf]))
            continue;
        most[x->leaf] = known ? x->ns : 0;
        y->yields[x->leaf] = x->site;
    }
    free(most);
    return 0;
}

/* Sets y->reads_memory: the procedures that spend at least half of their
 * samples in a loop which reads memory until it changes. */
static int find_memory_polling_procedures(struct why_solving *y,
                                          const uint64_t *seen)
{
    y->reads_memory = calloc((size_t)y->procedures + 1, sizeof(bool));
    if (!y->reads_memory)
        return set_why_no_memory_error(y);
    /* if the run has only one thread, it waits for no other thread */
    for (uint32_t p = 0; p < y->procedures && y->s.g->chain_count > 1; p++)
        y->reads_memory[p] =
            y->spins[p] && why_share_ppm(y->spins[p], seen[p]) >= WHY_HALF_PPM;
    return 0;
}

/* Marks the sites that have contended locks; adds their ns to counted
 * [procedures], by innermost procedure. */
static void mark_contended_sites_and_sum_samples(const struct why_solving *y,
                                                 struct lock_times *u,
                                                 uint64_t *counted)
{
    const uint64_t every = y->d->facts.sample_ns;
    for (size_t i = 0, end; i < u->count; i = end) {
        uint64_t all = 0, contended = 0;
        end = find_end_of_lock_site(u, i);
        for (size_t k = i; k < end; k++) {
            if (u->v[k].how & YIELDS)
                continue;
            all = ips_add_sat(all, u->v[k].ns);
            if (u->v[k].how & CONTENDED)
                contended = ips_add_sat(contended, u->v[k].ns);
        }
        if (contended == 0 || contended < every * WHY_LOCK_PROOF ||
            why_share_ppm(contended, all) < WHY_LOCK_PROOF_PPM)
            continue;
        for (size_t k = i; k < end; k++) {
            if (u->v[k].how & YIELDS)
                continue;
            u->v[k].counts = true;
            counted[u->v[k].leaf] =
                ips_add_sat(counted[u->v[k].leaf], u->v[k].ns);
        }
    }
}

/* Sets *out to the symbol. `ns` is a sum of times from a slave's answer, so it
 * may be too large for an integer. */
static void set_location_to_symbol(const struct entity_symbol *s, double ns,
                                   struct why_location *out)
{
    out->procedure = s->name;
    out->module = s->module;
    out->file = s->file;
    out->source_line = s->source_line;
    out->procedure_ns =
        ns < 1e18 ? (uint64_t)ns : UINT64_C(1000000000000000000);
}

/* Sets the locations in `cost`: the site with the most time on the path, its
 * most frequent caller, and the site with the most time releasing contended
 * locks. */
static void set_locations_of_cost(struct lock_times *u,
                                  struct why_lock_cost *cost)
{
    size_t best = 0, best_end = 0;
    double most = 0, most_given = 0, most_caller = 0;
    for (size_t i = 0, end; i < u->count; i = end) {
        double ns = 0, given = 0;
        end = find_end_of_lock_site(u, i);
        for (size_t k = i; k < end; k++) {
            if (!u->v[k].counts)
                continue;
            ns += u->v[k].path_ns;
            if (u->v[k].how & GIVEN && !(u->v[k].how & OF_LIBRARY))
                given += u->v[k].path_ns;
        }
        if (given > most_given) {
            most_given = given;
            set_location_to_symbol(u->v[i].site, given, &cost->giver);
        }
        if (ns <= most)
            continue;
        most = ns;
        best = i;
        best_end = end;
        cost->library = u->v[i].how & OF_LIBRARY;
        set_location_to_symbol(u->v[i].site, ns, &cost->site);
    }
    for (size_t i = best, end; i < best_end; i = end) {
        double ns = 0;
        for (end = i; end < best_end &&
                      compare_lock_times_by_caller(&u->v[i], &u->v[end]) == 0;
             end++)
            ns += u->v[end].counts ? u->v[end].path_ns : 0;
        if (ns > most_caller) {
            most_caller = ns;
            set_location_to_symbol(u->v[i].caller, ns, &cost->caller);
        }
    }
}

/* Whether the arc into `node` spends at least WHY_LOCK_ARC_PPM of its CPU time
 * on contended locks. */
static bool arc_has_contended_lock(const struct why_solving *y, uint32_t node)
{
    return y->lock_cpu[node] &&
           why_share_ppm(y->lock_cpu[node], y->s.g->w[node]) >=
               WHY_LOCK_ARC_PPM;
}

/* Sets cost->unknown_ns. Waits for a lock inside the C library are not
 * recorded. So sleep for an unknown reason in an arc with such a lock counts as
 * a wait for the lock. It counts only up to the time for which other threads of
 * the process may have held such a lock: the CPU time of their arcs with such
 * locks. The rest of the sleep has another reason. */
static int estimate_library_lock_waits(const struct why_solving *y,
                                       struct why_lock_cost *cost)
{
    const struct ips_graph *g = y->s.g;
    uint64_t *cpu = calloc((size_t)g->chain_count + 1, sizeof(*cpu));
    uint64_t *of_process = calloc((size_t)y->processes + 1, sizeof(*cpu));
    int rc = cpu && of_process ? 0 : set_why_no_memory_error(y);
    for (uint32_t c = 0; rc == 0 && c < g->chain_count; c++) {
        uint32_t end = g->chains[c].first + g->chains[c].count;
        for (uint32_t i = g->chains[c].first; i < end; i++)
            cpu[c] = ips_add_sat(cpu[c],
                                 arc_has_contended_lock(y, i) ? y->cpu[i] : 0);
        uint64_t *sum = &of_process[y->process_of[c]];
        *sum = ips_add_sat(*sum, cpu[c]);
    }
    for (uint32_t c = 0; rc == 0 && c < g->chain_count; c++) {
        uint32_t end = g->chains[c].first + g->chains[c].count;
        uint64_t slept = 0;
        for (uint32_t i = g->chains[c].first; i < end; i++)
            slept = ips_add_sat(
                slept, arc_has_contended_lock(y, i) ? y->unknown[i] : 0);
        uint64_t others = ips_sub_sat(of_process[y->process_of[c]], cpu[c]);
        cost->unknown_ns =
            ips_add_sat(cost->unknown_ns, ips_min_u64(slept, others));
    }
    free(cpu);
    free(of_process);
    return rc;
}

/* Sets lock_cpu of each arc, its CPU time for contended locks. */
static int set_lock_cpu_of_arcs(struct why_solving *y)
{
    const struct entities *t = &y->d->w.t;
    const struct ips_graph *g = y->s.g;
    y->lock_cpu = calloc((size_t)g->node_count + 1, sizeof(*y->lock_cpu));
    if (!y->lock_cpu)
        return set_why_no_memory_error(y);
    for (uint32_t i = 0; i < g->node_count; i++) {
        uint64_t count, ns = 0;
        const struct ips_arc_share *p =
            ips_feature_shares_of_chain_arc(&t->f, i, &count);
        for (uint64_t k = 0; k < count; k++) {
            const struct entity_feature *x = &t->feature[p[k].feature];
            if (x->kind == ENTITY_PROCEDURE)
                ns = ips_add_sat(
                    ns, ips_scale_by_ppm(p[k].ns, y->lock_ppm[x->procedure]));
        }
        y->lock_cpu[i] = ips_min_u64(ns, g->w[i]);
    }
    return 0;
}

static int compute_lock_cost_and_set_arc_lock_cpu(struct why_solving *y,
                                                  struct lock_times *u,
                                                  uint64_t *path,
                                                  uint64_t *seen,
                                                  uint64_t *counted)
{
    const struct entities *t = &y->d->w.t;
    struct why_lock_cost *cost = arena_alloc(&y->d->a, sizeof(*cost));
    y->lock_ppm = calloc((size_t)y->procedures + 1, sizeof(*y->lock_ppm));
    if (!cost || !y->lock_ppm)
        return set_why_no_memory_error(y);
    memset(cost, 0, sizeof(*cost));
    for (uint32_t k = 0; k < t->f.count; k++) {
        const struct entity_feature *x = &t->feature[k];
        if (x->kind == ENTITY_PROCEDURE)
            path[x->procedure] = ips_add_sat(path[x->procedure], y->s.share[k]);
    }
    for (uint32_t p = 0; p < y->procedures; p++) {
        y->lock_ppm[p] = why_share_ppm(counted[p], seen[p]);
        cost->ns =
            ips_add_sat(cost->ns, ips_scale_by_ppm(path[p], y->lock_ppm[p]));
    }
    for (size_t i = 0; i < u->count; i++) {
        uint32_t leaf = u->v[i].leaf;
        u->v[i].path_ns = seen[leaf] ? (double)path[leaf] * (double)u->v[i].ns /
                                           (double)seen[leaf]
                                     : 0;
    }
    set_locations_of_cost(u, cost);
    uint64_t every = y->d->facts.sample_ns;
    cost->samples = every ? (cost->ns + every / 2) / every : 0;
    y->d->facts.amount[WHY_LOCK].lock = cost;
    int rc = set_lock_cpu_of_arcs(y);
    return rc == 0 && cost->library ? estimate_library_lock_waits(y, cost) : rc;
}

int why_estimate_lock_cost_and_spinning(struct why_solving *y)
{
    struct lock_times u = {0};
    size_t n = (size_t)y->procedures + 1;
    uint64_t *path = calloc(n, sizeof(*path));
    uint64_t *seen = calloc(n, sizeof(*seen));
    uint64_t *counted = calloc(n, sizeof(*counted));
    y->spins = calloc(n, sizeof(*y->spins));
    int rc = path && seen && counted && y->spins
                 ? list_lock_times_and_sum_spins(y, &u)
                 : set_why_no_memory_error(y);
    if (rc == 0) {
        sum_samples_by_procedure(y, seen);
        rc = find_callers_of_yields(y, &u);
    }
    if (rc == 0)
        rc = find_memory_polling_procedures(y, seen);
    if (rc == 0 && u.count) {
        bool any = false;
        mark_contended_sites_and_sum_samples(y, &u, counted);
        for (size_t i = 0; i < u.count; i++)
            any = any || u.v[i].counts;
        if (any)
            rc = compute_lock_cost_and_set_arc_lock_cpu(y, &u, path, seen,
                                                        counted);
    }
    free(u.v);
    free(path);
    free(seen);
    free(counted);
    return rc;
}
