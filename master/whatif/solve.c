/* Computes the answer to a what-if question, in the worker's thread. */
#include "master/whatif/whatif.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/nearest.h"
#include "common/types.h"
#include "master/path/weighting.h"
#include "master/query/gather.h"
#include "master/query/machine_share.h"
#include "master/tables/procs.h"

static int set_err_no_memory(struct whatif_solving *s)
{
    return ips_err_set(s->err, IPS_E_NO_MEMORY, "no memory for a what-if");
}

/* ---- graph, entities and shares ----------------------------------------- */

static int merge_graph_and_find_path(struct whatif_solving *s)
{
    struct query *q = s->q;
    struct path_data *d = &s->d->path;
    if (!engine_make_graphs(q))
        return s->err->code;
    for (uint32_t i = 0; i < q->gather.count; i++) {
        struct machine_share *p = q->gather.active[i];
        uint32_t sent = engine_data_of_machine(p)->g.node_count;
        if (sent == p->sync->nodes)
            continue;
        d->blame = p;
        return ips_err_set(s->err, IPS_E_PROTOCOL,
                           "promised %" PRIu64 " nodes and sent %u",
                           p->sync->nodes, sent);
    }
    if (s->d->raw && weighting_switch_and_merge_views(q, s->d->weighting) < 0)
        return s->err->code;
    if (!s->d->raw && !engine_merge_graphs(q))
        return s->err->code;
    s->scenario = weighting_scenario_with_merged_goal(
        q, &d->scenarios[SCENARIO_MAIN].scenario);
    int rc = s->d->remake ? s->d->remake(s) : 0;
    if (rc == 0)
        rc = ips_longest_path_compute_ests(&d->merged, &s->scenario, NULL,
                                           &d->est, s->err);
    if (rc == 0 && (d->est.end == IPS_NO_NODE || d->est.t_max == 0))
        rc = ips_err_set(s->err, IPS_E_INCOMPLETE,
                         d->window.is_set
                             ? "run %s: nothing recorded computes or waits on "
                               "the path in that window: choose a longer one"
                             : "run %s: its longest path is 0 ns: nothing to "
                               "compute",
                         q->run);
    if (rc == 0)
        rc = ips_computation_order_make(&d->merged, &s->scenario, &s->order,
                                        s->err);
    return rc;
}

static int make_entities(struct whatif_solving *s)
{
    struct query *q = s->q;
    struct whatif_data *d = s->d;
    uint32_t n = q->gather.count, blame;
    d->machine = calloc((size_t)n + 1, sizeof(*d->machine));
    if (!d->machine)
        return set_err_no_memory(s);
    for (uint32_t i = 0; i < n; i++) {
        const struct machine_share *p = q->gather.active[i];
        const struct arc_profile *w = &d->arc_profile[i];
        const char **name = calloc((size_t)p->t.proc_count + 1, sizeof(*name));
        if (!name)
            return set_err_no_memory(s);
        for (uint32_t k = 0; k < p->t.proc_count; k++)
            name[k] = machine_share_process_name(p, k);
        d->machine[i] = (struct machine_entities){
            .machine = p->machine,
            .process = name,
            .process_count = p->t.proc_count,
            .node_base = d->path.node_base[i],
            .node_count = engine_data_of_machine(p)->g.node_count,
            .symbol = w->symbol,
            .symbol_count = w->symbol_count,
            .node = w->node,
            .of = w->of,
            .ns = w->ns,
            .arc_share_count = w->count};
        d->procedures =
            d->procedures ||
            (d->path.window.is_set ? w->symbol_count : w->count) > 0;
    }
    /* If the weight of an arc is not its CPU time, limit the procedures' shares
     * to the weight. */
    bool clip = s->scenario.weighting != IPS_WEIGH_CPU || s->d->remake ||
                d->path.window.is_set;
    int rc = entities_make(s->g, d->machine, n, clip, &d->t, &blame, s->err);
    if (rc < 0 && blame != ENTITY_NONE)
        d->path.blame = q->gather.active[blame];
    /* d->remake has already cut its graph to the window. */
    bool cut = d->path.window.is_set && !d->remake;
    return rc == 0 && cut ? whatif_limit_to_window(s) : rc;
}

static int compute_shares_and_slack(struct whatif_solving *s)
{
    struct whatif_data *d = s->d;
    size_t n = (size_t)d->t.f.count + 1;
    uint64_t t_max = d->path.est.t_max;
    s->share = malloc(n * sizeof(*s->share));
    s->slack = malloc(n * sizeof(*s->slack));
    if (!s->share || !s->slack)
        return set_err_no_memory(s);
    d->t_max_ns = t_max;
    d->near_ns = ips_scale_by_ppm(t_max, s->ask->near_ppm);
    d->resources = ips_sum_path_time_by_feature(
        s->g, &s->scenario, &d->path.est, &d->t.f, s->share);
    s->base = (struct ips_whatif_base){s->g,         &s->scenario, &s->order,
                                       &d->path.est, &d->t.f,      s->share};
    int rc = ips_compute_tails(s->g, &s->scenario, &s->order, &s->tail, s->err);
    if (rc == 0)
        rc = ips_compute_slacks_of_features(s->g, &s->scenario, &d->path.est,
                                            s->tail, &d->t.f, d->near_ns,
                                            s->slack, s->err);
    return rc;
}

/* ---- gains of edits ----------------------------------------------------- */

static int set_no_match_error(struct whatif_solving *s,
                              const Ips__WhatifEdit *e)
{
    const char *run = s->q->run;
    char none[PROCS_NONE_BYTES];
    struct ips_nearest near;
    procs_explain_missing_procedures(gather_max_sample_period_ns(s->q), none);
    if (*e->procedure && !s->d->procedures)
        return ips_err_set(s->err, IPS_E_NOT_FOUND,
                           "no procedures in run %s: %s", run, none);
    ips_nearest_start_search(&near, e->procedure);
    entities_offer_procedure_names(&s->d->t, &near);
    if (!*ips_nearest_format_suggestion(&near)) {
        ips_nearest_start_search(&near, e->process);
        entities_offer_process_names(&s->d->t, e->process, &near);
    }
    return ips_err_set(
        s->err, IPS_E_NOT_FOUND,
        "nothing in run %s matches%s%.60s%s%.60s%s%.100s%s%.60s%s; "
        "`ipsq %s %s` lists what there is",
        run, *e->procedure ? " procedure " : "", e->procedure,
        *e->process ? " process " : "", e->process,
        *e->message ? " messages " : "", e->message,
        *e->object ? " object " : "", e->object,
        ips_nearest_format_suggestion(&near),
        *e->procedure ? "procedures"
        : *e->message ? "metrics"
                      : "ls",
        run);
}

static int make_edits_of_matching_features(struct whatif_solving *s,
                                           const Ips__WhatifEdit *e,
                                           struct ips_edit **edits,
                                           uint32_t *count)
{
    struct entity_selector sel = {e->procedure, e->process, e->message,
                                  e->object};
    uint32_t *feature = NULL;
    int rc = entities_select_features(&s->d->t, &sel, &feature, count, s->err);
    if (rc == 0 && *count == 0)
        rc = set_no_match_error(s, e);
    if (rc == 0) {
        *edits = malloc(*count * sizeof(**edits));
        if (!*edits)
            rc = set_err_no_memory(s);
    }
    for (uint32_t i = 0; rc == 0 && i < *count; i++)
        (*edits)[i] = (struct ips_edit){feature[i], e->ppm};
    free(feature);
    return rc;
}

static int compare_edits_by_feature(const void *a, const void *b)
{
    const struct ips_edit *p = a, *q = b;
    return (p->feature > q->feature) - (p->feature < q->feature);
}

/* Sums the shares and times of an edit's features in `row`, each feature once.
 * Sorts the edit by feature. */
static void sum_features_of_edit(const struct whatif_solving *s,
                                 struct ips_edit *edit, uint32_t count,
                                 struct whatif_row *row)
{
    if (count)
        qsort(edit, count, sizeof(*edit), compare_edits_by_feature);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t f = edit[i].feature;
        if (i && edit[i - 1].feature == f)
            continue;
        row->share_ns = ips_add_sat(row->share_ns, s->share[f]);
        row->total_ns = ips_add_sat(row->total_ns, s->slack[f].total_ns);
        row->features++;
    }
}

/* Computes the gain of each edit alone, and last the gain of all edits
 * together. */
static int compute_gains_of_edits(struct whatif_solving *s)
{
    struct whatif_data *d = s->d;
    size_t n = s->ask->n_edits, total = 0;
    struct ips_change *change = calloc(n + 1, sizeof(*change));
    struct ips_edit **edits = calloc(n + 1, sizeof(*edits));
    struct ips_whatif *out = calloc(n + 1, sizeof(*out));
    d->edits = calloc(n + 1, sizeof(*d->edits));
    int rc = change && edits && out && d->edits ? 0 : set_err_no_memory(s);
    for (size_t i = 0; i < n && rc == 0; i++) {
        rc = make_edits_of_matching_features(s, s->ask->edits[i], &edits[i],
                                             &change[i].count);
        change[i].edit = edits[i];
        total += change[i].count;
    }
    if (rc == 0) {
        edits[n] = malloc((total + 1) * sizeof(**edits));
        rc = edits[n] ? 0 : set_err_no_memory(s);
    }
    for (size_t i = 0; i < n && rc == 0; i++) {
        memcpy(edits[n] + change[n].count, edits[i],
               change[i].count * sizeof(**edits));
        change[n].count += change[i].count;
    }
    if (rc == 0) {
        change[n].edit = edits[n];
        rc = ips_whatif(&s->base, change, n + 1, out, s->err);
    }
    for (size_t i = 0; i <= n && rc == 0; i++) {
        struct whatif_row *row = i < n ? &d->edits[i] : &d->all;
        row->entity = (uint32_t)i;
        row->r = out[i];
        sum_features_of_edit(s, edits[i], change[i].count, row);
    }
    for (size_t i = 0; i <= n && edits; i++)
        free(edits[i]);
    free(edits);
    free(change);
    free(out);
    return rc;
}

/* ---- ranking of improvements ------------------------------------------ */

static int store_ranking(struct whatif_solving *s, struct ips_edit *edit,
                         const struct ips_whatif *out, const uint32_t *order,
                         size_t kept)
{
    struct whatif_data *d = s->d;
    d->ranking = calloc(kept + 1, sizeof(*d->ranking));
    if (!d->ranking)
        return set_err_no_memory(s);
    for (size_t i = 0; i < kept; i++) {
        d->ranking[i].entity = order[i];
        d->ranking[i].r = out[order[i]];
        const struct entity *thing = &d->t.entity[order[i]];
        sum_features_of_edit(s, edit + thing->first, thing->count,
                             &d->ranking[i]);
    }
    d->ranking_count = kept;
    for (size_t i = 0; i < d->candidates; i++)
        d->computed += out[i].computed;
    return 0;
}

static int rank_entities(struct whatif_solving *s)
{
    struct whatif_data *d = s->d;
    const struct entities *t = &d->t;
    size_t n = t->entity_count, kept = 0, members = 0;
    for (size_t i = 0; i < n; i++)
        members += t->entity[i].count;
    struct ips_edit *edit = calloc(members + 1, sizeof(*edit));
    struct ips_change *change = calloc(n + 1, sizeof(*change));
    struct ips_whatif *out = calloc(n + 1, sizeof(*out));
    uint32_t *order = calloc(n + 1, sizeof(*order));
    int rc = edit && change && out && order ? 0 : set_err_no_memory(s);
    for (size_t i = 0; i < n && rc == 0; i++) {
        const struct entity *thing = &t->entity[i];
        for (uint32_t k = thing->first; k < thing->first + thing->count; k++)
            edit[k] = (struct ips_edit){t->member[k], s->ask->rank_ppm};
        change[i] = (struct ips_change){edit + thing->first, thing->count};
        if (thing->kind == ENTITY_MACHINE && t->machine_count == 1)
            /* not ranked: everything runs on this machine */
            change[i].count = 0;
    }
    uint64_t top = s->ask->top && s->ask->top < WHATIF_ROWS_MAX
                       ? s->ask->top
                       : WHATIF_ROWS_MAX;
    d->candidates = n;
    if (rc == 0)
        rc = ips_whatif_rank_changes(&s->base, change, n, top, out, order,
                                     &kept, s->err);
    if (rc == 0)
        rc = store_ranking(s, edit, out, order, kept);
    free(edit);
    free(change);
    free(out);
    free(order);
    return rc;
}

/* ---- slack -------------------------------------------------------------- */

/* Orders by slack, least first. make_slacks() sorts the entities of each kind
 * separately. */
static int compare_slacks_by_least(const void *a, const void *b)
{
    const struct whatif_slack *p = a, *q = b;
    if (p->s.least != q->s.least)
        return p->s.least < q->s.least ? -1 : 1;
    if (p->s.path_ns != q->s.path_ns)
        return p->s.path_ns > q->s.path_ns ? -1 : 1;
    if (p->s.near_ns != q->s.near_ns)
        return p->s.near_ns > q->s.near_ns ? -1 : 1;
    return (p->entity > q->entity) - (p->entity < q->entity);
}

static struct ips_slack sum_slack_of_entity(const struct whatif_solving *s,
                                            const struct entity *thing)
{
    struct ips_slack sum = {.least = IPS_NO_SLACK};
    for (uint32_t k = thing->first; k < thing->first + thing->count; k++) {
        const struct ips_slack *one = &s->slack[s->d->t.member[k]];
        sum.least = ips_min_u64(sum.least, one->least);
        sum.total_ns = ips_add_sat(sum.total_ns, one->total_ns);
        sum.near_ns = ips_add_sat(sum.near_ns, one->near_ns);
        sum.path_ns = ips_add_sat(sum.path_ns, one->path_ns);
        sum.arcs += one->arcs;
    }
    return sum;
}

static int make_slacks(struct whatif_solving *s)
{
    struct whatif_data *d = s->d;
    const struct entities *t = &d->t;
    uint64_t top = s->ask->top && s->ask->top < WHATIF_ROWS_MAX
                       ? s->ask->top
                       : WHATIF_ROWS_MAX;
    d->slacks = calloc((size_t)t->entity_count + 1, sizeof(*d->slacks));
    if (!d->slacks)
        return set_err_no_memory(s);
    for (uint32_t i = 0; i < t->entity_count;) {
        enum entity_kind kind = t->entity[i].kind;
        struct whatif_slack *begin = d->slacks + d->slack_count;
        size_t n = 0;
        for (; i < t->entity_count && t->entity[i].kind == kind; i++) {
            begin[n] =
                (struct whatif_slack){i, sum_slack_of_entity(s, &t->entity[i])};
            n += begin[n].s.least != IPS_NO_SLACK;
        }
        qsort(begin, n, sizeof(*begin), compare_slacks_by_least);
        d->slack_left += n > top ? n - top : 0;
        d->slack_count += n > top ? top : n;
    }
    return 0;
}

/* ---- next paths --------------------------------------------------------- */

/* Labels each node with the procedure that has the largest share of the arc
 * into it. IPS_NO_LABEL: not known. NULL: no memory. */
static uint32_t *label_nodes_by_main_procedure(const struct whatif_solving *s)
{
    uint32_t *label = malloc(((size_t)s->g->node_count + 1) * sizeof(*label));
    for (uint32_t i = 0; label && i < s->g->node_count; i++) {
        uint64_t count, most = 0;
        const struct ips_arc_share *p =
            ips_feature_shares_of_chain_arc(&s->d->t.f, i, &count);
        label[i] = IPS_NO_LABEL;
        for (uint64_t k = 0; k < count; k++) {
            if (p[k].ns > most) {
                most = p[k].ns;
                label[i] = p[k].feature;
            }
        }
    }
    return label;
}

static int find_next_paths(struct whatif_solving *s)
{
    struct whatif_data *d = s->d;
    uint32_t *label = NULL;
    struct ips_next_ask ask = {
        .group = IPS_NEXT_SET, .k = s->ask->next, .chain_label = d->t.chain};
    if (s->ask->by_procedure) {
        label = label_nodes_by_main_procedure(s);
        if (!label)
            return set_err_no_memory(s);
        ask.node_label = label;
    }
    int rc = ips_find_longest_paths(s->g, &s->scenario, &d->path.est, &ask,
                                    &d->next, s->err);
    free(label);
    return rc;
}

static int measure_oversubscription_of_machines(struct whatif_solving *s)
{
    struct query *q = s->q;
    int rc = 0;
    s->d->oversubscription =
        calloc((size_t)q->gather.count + 1, sizeof(*s->d->oversubscription));
    if (!s->d->oversubscription)
        return set_err_no_memory(s);
    for (uint32_t i = 0; i < q->gather.count && rc == 0; i++) {
        uint64_t cores = q->gather.active[i]->sync->cores;
        rc = ips_measure_oversubscription_of_machine(
            s->g, &s->d->path.est, i,
            cores && cores < UINT32_MAX ? (uint32_t)cores : UINT32_MAX,
            &s->d->oversubscription[i], s->err);
    }
    return rc;
}

int whatif_prepare_graph_and_shares(struct query *q, struct whatif_solving *s)
{
    struct whatif_data *d = whatif_data_of(q);
    *s = (struct whatif_solving){.q = q,
                                 .d = d,
                                 .ask = d->ask,
                                 .g = &d->path.merged,
                                 .err = &d->path.err};
    int rc = merge_graph_and_find_path(s);
    if (rc == 0)
        rc = make_entities(s);
    return rc == 0 ? compute_shares_and_slack(s) : rc;
}

void whatif_release_solving(struct whatif_solving *s)
{
    ips_computation_order_release(&s->order);
    free(s->tail);
    free(s->share);
    free(s->slack);
}

void whatif_solve(struct query *q)
{
    struct whatif_solving s;
    int rc = whatif_prepare_graph_and_shares(q, &s);
    if (rc == 0 && s.ask->n_edits)
        rc = compute_gains_of_edits(&s);
    if (rc == 0 && s.ask->rank)
        rc = rank_entities(&s);
    if (rc == 0 && s.ask->slack)
        rc = make_slacks(&s);
    if (rc == 0 && s.ask->next)
        rc = find_next_paths(&s);
    if (rc == 0 && (s.ask->rank || s.ask->n_edits))
        rc = measure_oversubscription_of_machines(&s);
    whatif_release_solving(&s);
    (void)rc; /* on failure s.err has the reason */
}
