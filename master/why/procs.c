/* Procedures on the quiet path: which of them gain most if they get faster, and
 * how the CPU time is spread over them. */
#include <stdlib.h>

#include "common/types.h"
#include "master/why/facts.h"

#define PROCEDURES_KEPT 16u

static int set_why_no_memory_error(struct why_solving *y)
{
    return ips_err_set(y->s.err, IPS_E_NO_MEMORY, "no memory to find out why");
}

/* Fills the amount of a procedure: its time on the path, summed over all
 * processes. The location is the process with most of this time. */
static void fill_procedure_amount(struct why_solving *y,
                                  const struct entity *thing,
                                  struct why_amount *a)
{
    const struct entities *t = &y->d->w.t;
    uint64_t most_ns = 0;
    for (uint32_t k = thing->first; k < thing->first + thing->count; k++) {
        uint32_t f = t->member[k];
        a->ns = ips_add_sat(a->ns, y->s.share[f]);
        if (y->s.share[f] <= most_ns)
            continue;
        most_ns = y->s.share[f];
        a->location.object = why_process_name(y, t->feature[f].process);
    }
    uint32_t number = t->feature[t->member[thing->first]].procedure;
    why_set_procedure_location(y, number, a->ns, &a->location);
    for (size_t i = 0; i < y->d->facts.phases; i++)
        a->phase_ns[i] = y->phase[i].procedure[number];
    for (int k = WHY_F_LOCK; k <= WHY_F_OTHER; k++)
        a->named_ns = ips_add_sat(a->named_ns, y->votes[k].procedure[number]);
}

static int compare_ns_descending(const void *a, const void *b)
{
    uint64_t p = *(const uint64_t *)a, q = *(const uint64_t *)b;
    return (p < q) - (p > q);
}

/* Sets the facts about how the path's CPU time is spread over procedures. */
static int set_facts_of_cpu_spread_over_procedures(struct why_solving *y)
{
    const struct entities *t = &y->d->w.t;
    struct why_facts *f = &y->d->facts;
    uint64_t sum = 0;
    size_t n = y->procedures;
    uint64_t *ns = calloc(n + 1, sizeof(*ns));
    if (!ns)
        return set_why_no_memory_error(y);
    for (uint32_t k = 0; k < t->f.count; k++) {
        const struct entity_feature *x = &t->feature[k];
        if (x->kind == ENTITY_PROCEDURE)
            ns[x->procedure] += y->s.share[k];
    }
    qsort(ns, n, sizeof(*ns), compare_ns_descending);
    for (size_t i = 0; i < n; i++) {
        f->sampled_ns += ns[i];
        f->top_ns += i < WHY_SPREAD_TOP ? ns[i] : 0;
    }
    for (size_t i = 0; i < n && sum * 2 < f->sampled_ns; i++) {
        sum += ns[i];
        f->half_count++;
    }
    f->amount[WHY_SPREAD].ns = f->sampled_ns;
    f->amount[WHY_SPREAD].samples =
        f->sample_ns ? f->sampled_ns / f->sample_ns : 0;
    free(ns);
    return 0;
}

static uint32_t procedure_of_entity(const struct why_solving *y, uint32_t thing)
{
    const struct entities *t = &y->d->w.t;
    return t->feature[t->member[t->entity[thing].first]].procedure;
}

/* Whether threads spin in this procedure, by reading memory or by calling
 * sched_yield(). */
static bool is_procedure_spinning(const struct why_solving *y, uint32_t thing)
{
    uint32_t procedure = procedure_of_entity(y, thing);
    return (y->reads_memory && y->reads_memory[procedure]) ||
           (y->yields && y->yields[procedure]);
}

static bool is_on_path(const struct why_solving *y, uint32_t thing)
{
    const struct entities *t = &y->d->w.t;
    const struct entity *x = &t->entity[thing];
    for (uint32_t k = x->first; k < x->first + x->count; k++)
        if (y->s.share[t->member[k]])
            return true;
    return false;
}

/* Adds to order[*kept] the procedures on the path in which threads spin, if
 * they are missing. They are missing because removing the spin alone gains
 * nothing: the work for which they wait runs at the same time. */
static void add_missing_spinning_procedures(const struct why_solving *y,
                                            const uint32_t *thing, size_t n,
                                            uint32_t *order, size_t *kept)
{
    size_t last = *kept;
    for (size_t i = 0; i < n; i++) {
        size_t at = 0;
        if (!is_procedure_spinning(y, thing[i]) || !is_on_path(y, thing[i]))
            continue;
        while (at < *kept && order[at] != i)
            at++;
        if (at < *kept)
            continue;
        if (*kept < PROCEDURES_KEPT) {
            order[(*kept)++] = (uint32_t)i;
            continue;
        }
        while (last > 0 && is_procedure_spinning(y, thing[order[last - 1]]))
            last--;
        if (last > 0)
            order[--last] = (uint32_t)i;
    }
}

/* Notes in `a`, whose location is this procedure, whether threads spin there.
 * If they call sched_yield(), its caller becomes the location instead of the C
 * library. */
static void note_spinning(const struct why_solving *y, uint32_t procedure,
                          struct why_amount *a)
{
    a->reads_memory = y->reads_memory && y->reads_memory[procedure];
    const struct entity_symbol *by = y->yields ? y->yields[procedure] : NULL;
    if (!by)
        return;
    a->yields = true;
    a->location.procedure = by->name;
    a->location.module = by->module;
    a->location.file = by->file;
    a->location.source_line = by->source_line;
}

/* Calls note_spinning() for the findings whose location was found from what
 * other threads did at the same time. */
static void mark_spinning_in_other_findings(struct why_solving *y)
{
    static const enum why_kind kinds[] = {WHY_IMBALANCE, WHY_SERIAL, WHY_LATE,
                                          WHY_QUEUE};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        struct why_amount *a = &y->d->facts.amount[kinds[i]];
        const struct entity_symbol *s = y->d->w.t.procedure;
        uint32_t p = 0;
        while (p < y->procedures && (s[p].name != a->location.procedure ||
                                     s[p].module != a->location.module))
            p++;
        if (a->location.procedure && p < y->procedures)
            note_spinning(y, p, a);
    }
}

static int store_procedure_amounts(struct why_solving *y, const uint32_t *thing,
                                   const struct ips_whatif *out,
                                   const uint32_t *order, size_t kept)
{
    struct why_facts *f = &y->d->facts;
    struct why_amount *a = arena_alloc(&y->d->a, (kept + 1) * sizeof(*a));
    if (!a)
        return set_why_no_memory_error(y);
    for (size_t i = 0; i < kept; i++) {
        a[i].gain_ns = out[order[i]].gain;
        a[i].bound_ns = out[order[i]].bound;
        fill_procedure_amount(y, &y->d->w.t.entity[thing[order[i]]], &a[i]);
        a[i].samples = f->sample_ns ? a[i].ns / f->sample_ns : 0;
        uint32_t number = procedure_of_entity(y, thing[order[i]]);
        if (is_procedure_spinning(y, thing[order[i]]))
            a[i].gain_ns = a[i].bound_ns = a[i].ns / 2;
        a[i].lock_code = y->lock_ppm && y->lock_ppm[number] >= WHY_NAMED_PPM;
        note_spinning(y, number, &a[i]);
        a[i].call = why_is_io_function(a[i].location.procedure);
    }
    f->procedure = a;
    f->procedures = kept;
    return 0;
}

static int rank_procedures_and_store_amounts(struct why_solving *y)
{
    const struct entities *t = &y->d->w.t;
    size_t n = 0, members = 0, kept = 0;
    for (uint32_t i = 0; i < t->entity_count; i++)
        members += t->entity[i].count;
    struct ips_edit *edit = calloc(members + 1, sizeof(*edit));
    struct ips_change *change =
        calloc((size_t)t->entity_count + 1, sizeof(*change));
    struct ips_whatif *out = calloc((size_t)t->entity_count + 1, sizeof(*out));
    uint32_t *order = calloc((size_t)t->entity_count + 1, sizeof(*order));
    uint32_t *thing = calloc((size_t)t->entity_count + 1, sizeof(*thing));
    int rc = edit && change && out && order && thing
                 ? 0
                 : set_why_no_memory_error(y);
    for (uint32_t i = 0; rc == 0 && i < t->entity_count; i++) {
        const struct entity *x = &t->entity[i];
        if (x->kind != ENTITY_PROCEDURE ||
            why_is_recording_library(y,
                                     t->feature[t->member[x->first]].procedure))
            continue;
        for (uint32_t k = x->first; k < x->first + x->count; k++)
            edit[k] = (struct ips_edit){t->member[k], WHY_HALF_PPM};
        change[n] = (struct ips_change){edit + x->first, x->count};
        thing[n++] = i;
    }
    if (rc == 0 && n)
        rc = ips_whatif_rank_changes(&y->s.base, change, n, PROCEDURES_KEPT,
                                     out, order, &kept, y->s.err);
    if (rc == 0 && n)
        add_missing_spinning_procedures(y, thing, n, order, &kept);
    if (rc == 0)
        rc = store_procedure_amounts(y, thing, out, order, kept);
    free(edit);
    free(change);
    free(out);
    free(order);
    free(thing);
    return rc;
}

/* Finds the procedure in which threads spin most, on the path or not. Finds
 * none for a window, because the samples here are those of the whole run, and
 * none if several threads spin in the procedure, as idle workers do. */
static void set_fact_of_most_spinning_procedure(struct why_solving *y)
{
    struct why_facts *f = &y->d->facts;
    uint32_t most = 0;
    uint64_t ns = 0;
    for (uint32_t p = 0; p < y->procedures; p++)
        if (y->reads_memory[p] && y->spins[p] > ns) {
            ns = y->spins[p];
            most = p;
        }
    uint64_t limit = ips_add_sat(f->t_max_wall_ns, f->t_max_wall_ns / 10);
    if (!ns || f->windowed || ns > limit)
        return;
    f->spinning.ns = ips_min_u64(ns, f->t_max_wall_ns);
    f->spinning.gain_ns = f->spinning.bound_ns = f->spinning.ns / 2;
    f->spinning.reads_memory = true;
    f->spinning.samples = f->sample_ns ? ns / f->sample_ns : 0;
    why_set_procedure_location(y, most, f->spinning.ns, &f->spinning.location);
}

int why_find_procedures(struct why_solving *y)
{
    int rc = rank_procedures_and_store_amounts(y);
    if (rc == 0) {
        set_fact_of_most_spinning_procedure(y);
        mark_spinning_in_other_findings(y);
    }
    return rc == 0 ? set_facts_of_cpu_spread_over_procedures(y) : rc;
}
