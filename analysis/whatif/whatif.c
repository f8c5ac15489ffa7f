/*
 * The scenarios of a node are adjacent in memory, so the additions and maxima
 * of a node are the same few operations on IPS_WHATIF_SCENARIOS values (SIMD).
 * A feature that no scenario edits costs one test of its mask.
 */
#include "analysis/whatif/whatif.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/graph/kernel.h"

#define LANES IPS_WHATIF_SCENARIOS

struct scenarios {
    uint64_t v[LANES];
};

struct pass {
    const struct ips_whatif_base *b;
    struct ips_cross_arc_weighting arcs;
    /* [features] bit set of the scenarios that edit the feature */
    uint8_t *mask;
    uint32_t (*ppm)[LANES]; /* [features] share of the feature's time that each
                               scenario removes, ppm */
    struct scenarios *slot; /* [order->slot_count] values of nodes that later
                               cross arcs need */
    /* [chains] value of the last computed node of each chain */
    struct scenarios *carry;
    /* [nodes] bit set of the scenarios in which the cross arc won */
    uint8_t *won;
};

uint64_t ips_scale_by_ppm(uint64_t ns, uint32_t ppm)
{
    return ns / 1000000u * ppm + ns % 1000000u * ppm / 1000000u;
}

/* Subtracts from the value of each scenario what its edits save of `ns` ns of a
 * feature. */
static void subtract_savings(const struct pass *p, uint32_t feature,
                             uint64_t ns, struct scenarios *a)
{
    uint32_t mask = p->mask[feature];
    for (int l = 0; mask; l++, mask >>= 1) {
        if (mask & 1u)
            a->v[l] -= ips_scale_by_ppm(ns, p->ppm[feature][l]);
    }
}

static void subtract_savings_of_chain_arc(const struct pass *p,
                                          uint32_t chain_feature, uint32_t node,
                                          struct scenarios *a)
{
    uint64_t count, rest = p->b->g->w[node];
    const struct ips_arc_share *portion =
        ips_feature_shares_of_chain_arc(p->b->f, node, &count);
    for (uint64_t k = 0; k < count; k++) {
        subtract_savings(p, portion[k].feature, portion[k].ns, a);
        rest -= portion[k].ns;
    }
    if (chain_feature != IPS_NO_FEATURE)
        subtract_savings(p, chain_feature, rest, a);
}

/* Applies the cross arc of node i in the scenarios in which it wins; returns
 * the bit set of these scenarios. */
static uint8_t apply_cross_arc_where_it_wins(const struct pass *p, uint32_t i,
                                             struct scenarios *a)
{
    const struct ips_graph *g = p->b->g;
    const uint32_t *cross = p->b->f->cross;
    uint64_t xw = ips_cross_arc_weight_by_mode(
        &p->arcs, p->arcs.mode[g->xkind[i]], g->xlen, i);
    struct scenarios from = p->slot[p->b->order->slot[g->xpred[i]]];
    unsigned won = 0;
    for (int l = 0; l < LANES; l++)
        from.v[l] += xw;
    if (cross && cross[i] != IPS_NO_FEATURE)
        subtract_savings(p, cross[i],
                         ips_feature_ns_of_cross_arc(p->b->f, i, xw), &from);
    for (int l = 0; l < LANES; l++) {
        bool better = from.v[l] > a->v[l]; /* at a tie the chain arc wins */
        won |= (unsigned)better << l;
        a->v[l] = better ? from.v[l] : a->v[l];
    }
    return (uint8_t)won;
}

static void compute_path_lengths_of_scenarios(struct pass *p)
{
    const struct ips_graph *g = p->b->g;
    const struct ips_computation_order *order = p->b->order;
    const struct ips_features *f = p->b->f;
    memset(p->carry, 0, (size_t)g->chain_count * sizeof(*p->carry));
    for (uint64_t r = 0; r < order->run_count; r++) {
        const struct ips_chain_run *run = &order->run[r];
        struct scenarios a = p->carry[run->chain];
        uint32_t feature = f->chain[run->chain];
        bool plain =
            !f->first && (feature == IPS_NO_FEATURE || p->mask[feature] == 0);
        for (uint32_t i = run->first; i < run->first + run->count; i++) {
            uint64_t w = g->w[i];
            uint8_t won = 0;
            for (int l = 0; l < LANES; l++)
                a.v[l] += w;
            if (!plain && i != g->chains[run->chain].first)
                subtract_savings_of_chain_arc(p, feature, i, &a);
            if (ips_has_local_cross_arc(g, &p->arcs, i))
                won = apply_cross_arc_where_it_wins(p, i, &a);
            p->won[i] = won;
            if (order->slot[i] != IPS_NO_NODE)
                p->slot[order->slot[i]] = a;
        }
        p->carry[run->chain] = a;
    }
}

/* Returns the number of RESOURCE arcs on the longest path of scenario l, which
 * ends at node i. */
static uint64_t count_resource_arcs_on_path(const struct pass *p, int l,
                                            uint32_t i)
{
    const struct ips_graph *g = p->b->g;
    uint64_t resources = 0;
    uint32_t first = g->chains[ips_chain_of(g, i)].first;
    for (;;) {
        if ((unsigned)p->won[i] >> l & 1u) {
            resources += g->xkind[i] == IPS_X_RESOURCE;
            i = g->xpred[i];
            first = g->chains[ips_chain_of(g, i)].first;
        } else if (i == first) {
            return resources;
        } else {
            i--;
        }
    }
}

static void compute_result_of_scenario(const struct pass *p, int l,
                                       struct ips_whatif *out)
{
    const struct ips_graph *g = p->b->g;
    out->end = IPS_NO_NODE;
    out->t_max = 0;
    for (uint32_t c = 0; c < g->chain_count; c++) {
        uint32_t last = g->chains[c].first + g->chains[c].count - 1;
        if (ips_may_end_path(g, p->b->scenario, last) &&
            (out->end == IPS_NO_NODE || p->carry[c].v[l] > out->t_max)) {
            out->end = last;
            out->t_max = p->carry[c].v[l];
        }
    }
    out->gain = p->b->est->t_max - out->t_max;
    out->computed = true;
    out->resources = out->end == IPS_NO_NODE
                         ? 0
                         : count_resource_arcs_on_path(p, l, out->end);
}

/* Returns the share (ppm) that two edits of one feature save together. The
 * second edit applies to the time that the first leaves. Rounded down, as all
 * savings are. */
static uint32_t combine_savings(uint32_t a, uint32_t b)
{
    uint64_t left = (uint64_t)(IPS_WHATIF_GONE - a) * (IPS_WHATIF_GONE - b);
    return (uint32_t)(IPS_WHATIF_GONE -
                      (left + IPS_WHATIF_GONE - 1) / IPS_WHATIF_GONE);
}

static int add_edits_to_scenario(struct pass *p, int l,
                                 const struct ips_change *change,
                                 struct ips_err *err)
{
    for (uint32_t k = 0; k < change->count; k++) {
        struct ips_edit edit = change->edit[k];
        if (edit.feature >= p->b->f->count || edit.ppm > IPS_WHATIF_GONE)
            return ips_err_set(err, IPS_E_USAGE,
                               "feature %u of %u faster by %u ppm",
                               edit.feature, p->b->f->count, edit.ppm);
        uint32_t *ppm = &p->ppm[edit.feature][l];
        *ppm = combine_savings(*ppm, edit.ppm);
        p->mask[edit.feature] |= (uint8_t)(1u << l);
    }
    return 0;
}

/* Returns the upper bound of the gain of scenario l's edits, and removes the
 * edits. */
static uint64_t remove_edits_and_get_bound(struct pass *p, int l,
                                           const struct ips_change *change)
{
    uint64_t bound = 0;
    for (uint32_t k = 0; k < change->count; k++) {
        uint32_t feature = change->edit[k].feature;
        bound = ips_add_sat(
            bound, ips_scale_by_ppm(p->b->share[feature], p->ppm[feature][l]));
        p->ppm[feature][l] = 0;
        p->mask[feature] &= (uint8_t) ~(1u << l);
    }
    return bound;
}

static void pass_release(struct pass *p)
{
    free(p->mask);
    free(p->ppm);
    free(p->slot);
    free(p->carry);
    free(p->won);
}

static int pass_init(struct pass *p, const struct ips_whatif_base *b,
                     struct ips_err *err)
{
    memset(p, 0, sizeof(*p));
    p->b = b;
    ips_cross_arc_weighting_init(&p->arcs, b->scenario);
    p->mask = calloc((size_t)b->f->count + 1, sizeof(*p->mask));
    p->ppm = calloc((size_t)b->f->count + 1, sizeof(*p->ppm));
    p->slot = malloc(((size_t)b->order->slot_count + 1) * sizeof(*p->slot));
    p->carry = malloc(((size_t)b->g->chain_count + 1) * sizeof(*p->carry));
    p->won = malloc((size_t)b->g->node_count + 1);
    if (p->mask && p->ppm && p->slot && p->carry && p->won)
        return 0;
    pass_release(p);
    return ips_err_set(err, IPS_E_NO_MEMORY, "what-if over %u nodes",
                       b->g->node_count);
}

/* Computes at most LANES changes in one pass; `which` has their indices in
 * `change` and `out`. */
static int run_changes_in_one_pass(struct pass *p,
                                   const struct ips_change *change,
                                   const uint32_t *which, int count,
                                   struct ips_whatif *out, struct ips_err *err)
{
    int rc = 0, set = 0;
    for (; set < count && rc == 0; set++)
        rc = add_edits_to_scenario(p, set, &change[which[set]], err);
    if (rc < 0)
        return rc;
    compute_path_lengths_of_scenarios(p);
    for (int l = 0; l < count; l++)
        compute_result_of_scenario(p, l, &out[which[l]]);
    for (int l = 0; l < count; l++)
        out[which[l]].bound =
            remove_edits_and_get_bound(p, l, &change[which[l]]);
    return 0;
}

int ips_whatif(const struct ips_whatif_base *b, const struct ips_change *change,
               size_t count, struct ips_whatif *out, struct ips_err *err)
{
    struct pass p;
    int rc = pass_init(&p, b, err);
    if (rc < 0)
        return rc;
    for (size_t done = 0; done < count && rc == 0;) {
        uint32_t which[LANES];
        int n = 0;
        while (n < LANES && done < count)
            which[n++] = (uint32_t)done++;
        rc = run_changes_in_one_pass(&p, change, which, n, out, err);
    }
    pass_release(&p);
    return rc;
}

/* ---- ranking ------------------------------------------------------------ */

struct by_value {
    uint64_t value;
    uint32_t index;
};

static int compare_by_value_descending(const void *a, const void *b)
{
    const struct by_value *p = a, *q = b;
    if (p->value != q->value)
        return p->value < q->value ? 1 : -1;
    return (p->index > q->index) - (p->index < q->index);
}

/* Computes the upper bound of each change's gain, as run_changes_in_one_pass()
 * does but without a pass over the graph. Sorts them into `by`, greatest
 * first. */
static int compute_and_sort_bounds(struct pass *p,
                                   const struct ips_change *change,
                                   size_t count, struct ips_whatif *out,
                                   struct by_value *by, struct ips_err *err)
{
    for (size_t i = 0; i < count; i++) {
        int rc = add_edits_to_scenario(p, 0, &change[i], err);
        if (rc < 0)
            return rc;
        memset(&out[i], 0, sizeof(out[i]));
        out[i].end = IPS_NO_NODE;
        out[i].t_max = p->b->est->t_max;
        out[i].bound = remove_edits_and_get_bound(p, 0, &change[i]);
        by[i] = (struct by_value){out[i].bound, (uint32_t)i};
    }
    qsort(by, count, sizeof(*by), compare_by_value_descending);
    return 0;
}

/* Inserts a gain above 0 into the sorted list of the `keep` greatest gains. */
static void insert_gain_if_among_best(struct by_value *best, size_t *kept,
                                      size_t keep, struct by_value one)
{
    size_t at = *kept;
    if (one.value == 0)
        return;
    while (at > 0 && compare_by_value_descending(&best[at - 1], &one) > 0)
        at--;
    if (at == keep)
        return;
    size_t moved = (*kept < keep ? *kept : keep - 1) - at;
    memmove(&best[at + 1], &best[at], moved * sizeof(*best));
    best[at] = one;
    if (*kept < keep)
        (*kept)++;
}

static int rank_changes(struct pass *p, const struct ips_change *change,
                        size_t count, size_t keep, struct ips_whatif *out,
                        struct by_value *by, struct by_value *best,
                        size_t *kept, struct ips_err *err)
{
    int rc = compute_and_sort_bounds(p, change, count, out, by, err);
    for (size_t at = 0; at < count && rc == 0;) {
        uint32_t which[LANES];
        uint64_t least = *kept == keep && keep ? best[keep - 1].value : 0;
        int n = 0;
        while (n < LANES && at < count && by[at].value > 0 &&
               by[at].value >= least)
            which[n++] = by[at++].index;
        if (n == 0)
            break;
        rc = run_changes_in_one_pass(p, change, which, n, out, err);
        for (int l = 0; l < n && rc == 0; l++)
            insert_gain_if_among_best(
                best, kept, keep,
                (struct by_value){out[which[l]].gain, which[l]});
    }
    return rc;
}

int ips_whatif_rank_changes(const struct ips_whatif_base *b,
                            const struct ips_change *change, size_t count,
                            size_t keep, struct ips_whatif *out,
                            uint32_t *order, size_t *kept, struct ips_err *err)
{
    struct pass p;
    size_t found = 0;
    *kept = 0;
    keep = keep < count ? keep : count;
    int rc = pass_init(&p, b, err);
    if (rc < 0)
        return rc;
    struct by_value *by = malloc((count + 1) * sizeof(*by));
    struct by_value *best = malloc((keep + 1) * sizeof(*best));
    if (by && best)
        rc = rank_changes(&p, change, count, keep, out, by, best, &found, err);
    else
        rc = ips_err_set(err, IPS_E_NO_MEMORY, "%zu what-ifs", count);
    for (size_t i = 0; i < found && rc == 0; i++)
        order[i] = best[i].index;
    *kept = rc == 0 ? found : 0;
    free(by);
    free(best);
    pass_release(&p);
    return rc;
}
