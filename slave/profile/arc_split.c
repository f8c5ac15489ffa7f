/* Divides the CPU time of single arcs among procedures; see
 * slave/symbols/arc_procs.h. */
#include "slave/build/internal.h"
#include "slave/profile/proc_names.h"

static uint32_t procedure_of_sample(const struct slave_profile_cache *c,
                                    const struct slave_proc_names *n,
                                    uint32_t sample)
{
    const struct ips_stack *s = &c->p.stacks[c->p.arcs.samples[sample].stack];
    return s->count ? slave_proc_of_sampled_location(n, c->p.frames[s->first])
                    : IPS_NONE;
}

int slave_arc_pool_profiles_make(const struct slave_profile_cache *costs,
                                 const struct slave_proc_names *names,
                                 struct slave_arc_pool_profiles *out,
                                 struct ips_err *err)
{
    const struct slave_arcs *a = &costs->p.arcs;
    int rc = 0;
    memset(out, 0, sizeof(*out));
    out->first = b_calloc((size_t)a->pool_count + 1, sizeof(*out->first), err);
    /* [symbols + 1] index + 1 in out->entries of each symbol's entry for the
     * current pool; the last element is for samples without a symbol */
    uint32_t *part =
        b_calloc((size_t)names->symbol_count + 1, sizeof(*part), err);
    if (!out->first || !part)
        rc = IPS_E_NO_MEMORY;
    for (uint32_t p = 0; rc == 0 && p < a->pool_count; p++) {
        out->first[p] = out->entry_count;
        for (uint32_t i = 0; rc == 0 && i < a->pools[p].count; i++) {
            uint32_t sample = a->pooled[a->pools[p].first + i];
            uint32_t symbol = procedure_of_sample(costs, names, sample);
            uint32_t *at =
                &part[symbol == IPS_NONE ? names->symbol_count : symbol];
            if (*at <= out->first[p]) {
                if (out->entry_count == out->entry_capacity)
                    rc = b_array_reserve((void **)&out->entries,
                                         out->entry_count, &out->entry_capacity,
                                         sizeof(*out->entries), err);
                if (rc < 0)
                    break;
                out->entries[out->entry_count++] =
                    (struct slave_arc_part){.symbol = symbol};
                *at = out->entry_count;
            }
            struct slave_arc_part *q = &out->entries[*at - 1];
            q->ns = ips_add_sat(q->ns, a->samples[sample].ns);
        }
    }
    if (out->first)
        out->first[a->pool_count] = out->entry_count;
    ips_free_large(part);
    if (rc < 0)
        slave_arc_pool_profiles_release(out);
    return rc;
}

void slave_arc_pool_profiles_release(struct slave_arc_pool_profiles *m)
{
    ips_free_large(m->first);
    ips_free_large(m->entries);
    memset(m, 0, sizeof(*m));
}

uint64_t slave_arc_sample_ns_in_window(const struct slave_arcs *a,
                                       const struct ips_graph *g,
                                       const struct slave_arc_source_range *v,
                                       uint32_t node, uint32_t k,
                                       struct slave_window window)
{
    const struct slave_arc_sample *s = &a->samples[v->first + k];
    if (window.from_ns == 0 && window.to_ns == UINT64_MAX)
        return s->ns;
    uint64_t from = k ? s[-1].t_ns : g->t_ns[node - 1];
    uint64_t to = k + 1 < v->count ? s->t_ns : g->t_ns[node];
    uint64_t in = ips_sub_sat(ips_min_u64(to, window.to_ns),
                              ips_max_u64(from, window.from_ns));
    if (to <= from)
        return to > window.from_ns && to <= window.to_ns ? s->ns : 0;
    return (uint64_t)((ips_u128)s->ns * in / (to - from));
}

uint64_t
slave_arc_total_sample_ns_in_window(const struct slave_arcs *a,
                                    const struct ips_graph *g,
                                    const struct slave_arc_source_range *v,
                                    uint32_t node, struct slave_window w)
{
    uint64_t in = 0;
    for (uint32_t k = 0; k < v->count; k++)
        in =
            ips_add_sat(in, slave_arc_sample_ns_in_window(a, g, v, node, k, w));
    return in;
}

void slave_arc_split_by_procedure(
    const struct slave_profile_cache *costs,
    const struct slave_proc_names *names,
    const struct slave_arc_pool_profiles *mixes, const struct ips_graph *g,
    uint32_t chain, uint32_t node, uint64_t ns, struct slave_window window,
    void (*put)(void *arg, uint32_t symbol, uint64_t ns), void *arg)
{
    const struct slave_arcs *a = &costs->p.arcs;
    struct slave_arc_source_range v =
        slave_arc_find_cpu_split_source(a, g, chain, node);
    bool exact = v.source == SLAVE_ARC_EXACT, own = v.source == SLAVE_ARC_OWN;
    uint32_t first = v.first, end = v.first + v.count;
    /* If the thread has entries and exits, its time outside instrumented code
     * belongs to no procedure; so the procedures are shares of the arc's whole
     * weight. */
    uint64_t whole = exact ? ips_max_u64(v.ns, g->w[node]) : v.ns;
    struct slave_proportional_split share;
    uint64_t in =
        own ? slave_arc_total_sample_ns_in_window(a, g, &v, node, window) : 0;
    whole = in ? in : whole;
    if (v.source == SLAVE_ARC_SIMILAR) {
        first = mixes->first[v.pool];
        end = mixes->first[v.pool + 1];
        whole = a->pools[v.pool].ns;
    }
    if (ns == 0)
        return;
    uint64_t rest = ns;
    if (v.source != SLAVE_ARC_NO_SOURCE && whole > 0) {
        slave_proportional_split_init(&share, ns, whole, node);
        for (uint32_t i = first; i < end; i++) {
            uint32_t symbol = exact ? slave_proc_of_entered_location(
                                          names, a->exacts[i].code_location)
                              : own ? procedure_of_sample(costs, names, i)
                                    : mixes->entries[i].symbol;
            uint64_t part = slave_proportional_split_compute_share(
                &share, exact ? a->exacts[i].ns
                        : in  ? slave_arc_sample_ns_in_window(a, g, &v, node,
                                                              i - first, window)
                        : own ? a->samples[i].ns
                              : mixes->entries[i].ns);
            rest -= part;
            if (part)
                put(arg, symbol, part);
        }
    }
    if (rest)
        put(arg, IPS_NONE, rest);
}

/* maximum number of procedures that slave_arc_find_main_procedure() compares in
 * one arc; it ignores further ones */
#define MAIN_PROCEDURES_MAX 64u

uint32_t
slave_arc_find_main_procedure(const struct slave_profile_cache *costs,
                              const struct slave_proc_names *names,
                              const struct slave_arc_pool_profiles *mixes,
                              const struct ips_graph *g, uint32_t chain,
                              uint32_t node)
{
    const struct slave_arcs *a = &costs->p.arcs;
    struct slave_arc_source_range v =
        slave_arc_find_cpu_split_source(a, g, chain, node);
    struct slave_arc_part part[MAIN_PROCEDURES_MAX], best = {IPS_NONE, 0};
    uint32_t n = 0, first = v.first, end = v.first + v.count;
    if (v.source == SLAVE_ARC_EXACT)
        best.ns = ips_sub_sat(g->w[node], v.ns);
    if (v.source == SLAVE_ARC_SIMILAR) {
        first = mixes->first[v.pool];
        end = mixes->first[v.pool + 1];
    }
    for (uint32_t i = first; i < end; i++) {
        struct slave_arc_part one =
            v.source == SLAVE_ARC_SIMILAR ? mixes->entries[i]
            : v.source == SLAVE_ARC_OWN
                ? (struct slave_arc_part){procedure_of_sample(costs, names, i),
                                          a->samples[i].ns}
                : (struct slave_arc_part){
                      slave_proc_of_entered_location(
                          names, a->exacts[i].code_location),
                      a->exacts[i].ns};
        uint32_t k = 0;
        while (v.source != SLAVE_ARC_SIMILAR && k < n &&
               part[k].symbol != one.symbol)
            k++;
        if (v.source != SLAVE_ARC_SIMILAR) {
            if (k == n && n == MAIN_PROCEDURES_MAX)
                continue;
            if (k == n)
                part[n++] = (struct slave_arc_part){one.symbol, 0};
            part[k].ns = ips_add_sat(part[k].ns, one.ns);
            one = part[k];
        }
        if (one.ns > best.ns)
            best = one;
    }
    return best.symbol;
}
