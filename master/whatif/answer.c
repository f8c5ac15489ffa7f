/* Answers a what-if question, with its assumptions in words. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/types.h"
#include "master/path/weighting.h"
#include "master/query/certificate.h"
#include "master/query/gather.h"
#include "master/query/self_check.h"
#include "master/tables/procs.h"
#include "master/whatif/whatif.h"

/* oversubscription is reported if it takes at least 1/CROWD_PARTS of the path's
 * time */
#define CROWD_PARTS 1000u

struct filling {
    const struct query *q;
    struct whatif_data *d;
    struct arena *a;
    struct certificate *c;
};

static char *copy_name(const struct filling *f, const char *name)
{
    return arena_printf(f->a, "%s", name);
}

static char *describe_edit(const struct filling *f, const Ips__WhatifEdit *e)
{
    const char *const part[] = {e->procedure, e->process, e->message,
                                e->object};
    static const char *const what[] = {"procedure", "process", "messages",
                                       "object"};
    char text[1024] = "";
    for (size_t i = 0; i < sizeof(part) / sizeof(*part); i++) {
        size_t at = strlen(text);
        if (*part[i])
            snprintf(text + at, sizeof(text) - at, "%s%s %.200s",
                     at ? ", " : "", what[i], part[i]);
    }
    return copy_name(f, text);
}

static void fill_row(const struct filling *f, const struct whatif_row *from,
                     Ips__WhatifRow *to)
{
    ips__whatif_row__init(to);
    to->kind = ips_unconst_text("edit");
    to->features = from->features;
    to->share_ns = from->share_ns;
    to->bound_ns = from->r.bound;
    to->gain_ns = from->r.gain;
    to->t_max_ns = from->r.t_max;
    to->any = from->r.resources;
    to->total_ns = from->total_ns;
    (void)f;
}

static char *copy_entity_name_kind_and_module(const struct filling *f,
                                              uint32_t number, char **kind,
                                              char **place)
{
    char name[ENTITY_NAME_BYTES];
    const struct entity *thing = &f->d->t.entity[number];
    const struct entity_symbol *symbol =
        entities_procedure_symbol(&f->d->t, thing);
    *kind = ips_unconst_text(entity_kind_names[thing->kind]);
    if (symbol)
        *place = ips_unconst_text(symbol->module);
    return copy_name(f, entities_write_name(&f->d->t, thing, name));
}

static void fill_edits(const struct filling *f, Ips__WhatifAnswer *out)
{
    const Ips__WhatifAsk *ask = f->d->ask;
    size_t n = ask->n_edits;
    if (n == 0)
        return;
    Ips__WhatifRow *rows = arena_alloc(f->a, (n + 1) * sizeof(*rows));
    out->edits = arena_alloc(f->a, (n + 1) * sizeof(*out->edits));
    if (!rows || !out->edits)
        return;
    for (size_t i = 0; i < n; i++) {
        fill_row(f, &f->d->edits[i], &rows[i]);
        rows[i].object = describe_edit(f, ask->edits[i]);
        rows[i].ppm = ask->edits[i]->ppm;
        out->edits[out->n_edits++] = &rows[i];
    }
    fill_row(f, &f->d->all, &rows[n]);
    rows[n].object = ips_unconst_text("all edits");
    if (n == 1)
        rows[n].ppm = ask->edits[0]->ppm;
    out->all = &rows[n];
}

static void fill_ranking(const struct filling *f, Ips__WhatifAnswer *out)
{
    const struct whatif_data *d = f->d;
    size_t n = d->ranking_count;
    Ips__WhatifRow *rows = arena_alloc(f->a, (n + 1) * sizeof(*rows));
    out->ranking = arena_alloc(f->a, (n + 1) * sizeof(*out->ranking));
    for (size_t i = 0; rows && out->ranking && i < n; i++) {
        fill_row(f, &d->ranking[i], &rows[i]);
        rows[i].object = copy_entity_name_kind_and_module(
            f, d->ranking[i].entity, &rows[i].kind, &rows[i].place);
        rows[i].ppm = f->d->ask->rank_ppm;
        out->ranking[out->n_ranking++] = &rows[i];
    }
    out->candidates = d->candidates;
    out->computed = d->computed;
}

static void fill_slacks(const struct filling *f, Ips__WhatifAnswer *out)
{
    const struct whatif_data *d = f->d;
    size_t n = d->slack_count;
    Ips__SlackRow *rows = arena_alloc(f->a, (n + 1) * sizeof(*rows));
    out->slacks = arena_alloc(f->a, (n + 1) * sizeof(*out->slacks));
    for (size_t i = 0; rows && out->slacks && i < n; i++) {
        const struct whatif_slack *from = &d->slacks[i];
        ips__slack_row__init(&rows[i]);
        rows[i].object = copy_entity_name_kind_and_module(
            f, from->entity, &rows[i].kind, &rows[i].place);
        rows[i].slack_ns = from->s.least;
        rows[i].path_ns = from->s.path_ns;
        rows[i].near_ns = from->s.near_ns;
        rows[i].total_ns = from->s.total_ns;
        out->slacks[out->n_slacks++] = &rows[i];
    }
    out->near_ns = d->near_ns;
    if (d->slack_left)
        certificate_add_detail(
            f->a, f->c,
            arena_printf(f->a,
                         "%zu objects with more slack are left "
                         "out",
                         d->slack_left));
}

static void fill_next_paths(const struct filling *f, Ips__WhatifAnswer *out)
{
    const struct ips_next_paths *next = &f->d->next;
    Ips__NextPath *rows =
        arena_alloc(f->a, ((size_t)next->count + 1) * sizeof(*rows));
    out->next =
        arena_alloc(f->a, ((size_t)next->count + 1) * sizeof(*out->next));
    for (uint32_t i = 0; rows && out->next && i < next->count; i++) {
        const struct ips_next_path *p = &next->path[i];
        Ips__NextPath *to = &rows[i];
        char name[ENTITY_NAME_BYTES];
        ips__next_path__init(to);
        to->ns = p->ns;
        to->segments = p->path.count;
        to->objects =
            arena_alloc(f->a, ((size_t)p->label_count + 1) * sizeof(char *));
        for (uint32_t k = 0; to->objects && k < p->label_count; k++)
            to->objects[to->n_objects++] = copy_name(
                f, entities_write_feature_name(&f->d->t, p->label[k], name));
        for (uint64_t k = 0; k < p->path.count; k++) {
            to->messages += p->path.seg[k].xkind == IPS_X_DATA;
            to->any += p->path.seg[k].xkind == IPS_X_RESOURCE;
        }
        out->next[out->n_next++] = to;
    }
    out->next_complete = next->complete;
    if (!next->complete)
        certificate_add_note(
            f->a, f->c,
            arena_printf(
                f->a,
                "the search for next paths reached its limit of %llu MB: "
                "the paths shown are exact, but there may be more",
                IPS_NEXT_LIMIT_BYTES >> 20));
}

/* Adds notes about assumptions of the gains that do not hold in this run. */
static void note_caveats(const struct filling *f)
{
    const struct whatif_data *d = f->d;
    uint64_t any = d->resources;
    for (size_t i = 0; i < f->d->ask->n_edits; i++)
        any = ips_max_u64(any, d->edits[i].r.resources);
    for (size_t i = 0; i < d->ranking_count; i++)
        any = ips_max_u64(any, d->ranking[i].r.resources);
    if (any > 0)
        certificate_add_note(
            f->a, f->c,
            arena_printf(f->a,
                         "gains assume that locks are taken in the recorded "
                         "order (up to %" PRIu64 " waits on these paths)",
                         any));
    for (uint32_t i = 0; d->oversubscription && i < f->q->gather.count; i++) {
        const struct machine_share *p = f->q->gather.active[i];
        if (d->oversubscription[i].beyond_ns < d->t_max_ns / CROWD_PARTS ||
            d->oversubscription[i].beyond_ns == 0)
            continue;
        certificate_add_note(
            f->a, f->c,
            arena_printf(
                f->a,
                "gains assume a core for each thread: /%s has %" PRIu64
                ", and up to %u threads would run at once (more than cores for "
                "%.1f%% of the path's time)",
                p->machine, p->sync->cores, d->oversubscription[i].peak,
                100.0 * (double)d->oversubscription[i].beyond_ns /
                    (double)d->t_max_ns));
    }
}

static void add_note_if_no_procedures(const struct filling *f)
{
    const Ips__WhatifAsk *ask = f->d->ask;
    if (f->d->procedures || (!ask->rank && !ask->slack && !ask->by_procedure))
        return;
    char none[PROCS_NONE_BYTES];
    procs_explain_missing_procedures(gather_max_sample_period_ns(f->q), none);
    certificate_add_note(f->a, f->c, none);
}

void whatif_send_answer(struct query *q)
{
    struct whatif_data *d = whatif_data_of(q);
    const Ips__WhatifAsk *ask = d->ask;
    struct arena a = {0};
    struct certificate c;
    struct ips_err err = {0};
    struct filling f = {q, d, &a, &c};
    Ips__WhatifAnswer answer = IPS__WHATIF_ANSWER__INIT;
    certificate_fill(q, &a, &c);
    c.msg.unmatched += d->path.unmatched;
    c.msg.any_on_path = d->resources;
    certificate_set_category_and_source(q, &a, &c, 3, "the slaves' graphs");
    c.msg.engine =
        ips_unconst_text("central (what-if: all events at the master)");
    c.msg.message_times = path_message_times_text(
        q, &a, &d->path.scenarios[SCENARIO_MAIN].scenario);
    if (weighting_clock_alignment_text(&d->path))
        c.msg.clock =
            ips_unconst_text(weighting_clock_alignment_text(&d->path));
    answer.weighting = ips_unconst_text(
        weighting_name(d->path.scenarios[SCENARIO_MAIN].scenario.weighting));
    answer.goal = ips_unconst_text(d->path.goal_text);
    answer.category = ips_unconst_text("3");
    answer.t_max_ns = d->t_max_ns;
    answer.window_ns = d->window_ns;
    answer.total_cpu_ns = d->path.est.total;
    answer.elapsed_ns = path_command_elapsed_ns(q);
    answer.open = certificate_run_is_open(q);
    fill_edits(&f, &answer);
    if (ask->rank)
        fill_ranking(&f, &answer);
    if (ask->slack)
        fill_slacks(&f, &answer);
    if (ask->next)
        fill_next_paths(&f, &answer);
    if (d->path.window.is_set)
        certificate_add_note(
            &a, &c,
            "only what is in the window is edited; gains are of the "
            "whole run's path");
    add_note_if_no_procedures(&f);
    note_caveats(&f);
    if (!a.failed)
        self_check_whatif(&a, &c, &answer);
    answer.certificate = &c.msg;
    answer.took_ns = master_now_ns() - q->begun_ns;
    if (a.failed) {
        ips_err_set(&err, IPS_E_NO_MEMORY, "no memory for the answer");
        query_fail(q, &err);
    } else if (ips__whatif_answer__get_packed_size(&answer) >
               QUERY_REPLY_BYTES) {
        ips_err_set(&err, IPS_E_LIMIT,
                    "the answer does not fit a message: ask for less (--top)");
        query_fail(q, &err);
    } else {
        Ips__Reply reply = IPS__REPLY__INIT;
        reply.answer_case = IPS__REPLY__ANSWER_WHATIF;
        reply.whatif = &answer;
        query_answer(q, &reply);
    }
    arena_release(&a);
}
