/*
 * Answers `whatif`: how close each entity is to the critical path, and how much
 * a change would shorten the path. Checks the question and gathers tables,
 * peers, whole subgraphs and arc profiles; the worker computes the answer.
 * Category 3 of IPS-9.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/types.h"
#include "master/path/weighting.h"
#include "master/query/gather.h"
#include "master/query/machine_share.h"
#include "master/query/message_times_plan.h"
#include "master/whatif/whatif.h"

static void fail_no_memory(struct query *q)
{
    struct ips_err err = {0};
    ips_err_set(&err, IPS_E_NO_MEMORY, "no memory");
    query_fail(q, &err);
}

/* ---- checking the question ---------------------------------------------- */

static int check_edit(const Ips__WhatifEdit *e, struct ips_err *err)
{
    if (e->ppm == 0 || e->ppm > IPS_WHATIF_GONE)
        return ips_err_set(err, IPS_E_USAGE,
                           "faster by %u millionths: 1 to 1000000", e->ppm);
    if (!*e->procedure && !*e->process && !*e->message && !*e->object)
        return ips_err_set(err, IPS_E_USAGE,
                           "what should be faster? Name a procedure, a "
                           "process, messages or an object");
    if (*e->message && *e->procedure)
        return ips_err_set(
            err, IPS_E_USAGE,
            "messages '%.80s' do not belong to a procedure: make them "
            "two edits",
            e->message);
    return 0;
}

static int check_and_read_whatif_ask(const Ips__WhatifAsk *a,
                                     struct whatif_data *d, struct ips_err *err)
{
    enum ips_weighting weighting;
    int rc = weighting_parse(a->weighting, &weighting, err);
    if (rc == 0)
        rc = path_convert_scenario(
            a->lane, &d->path.scenarios[SCENARIO_MAIN].scenario, err);
    if (rc == 0)
        d->path.scenarios[SCENARIO_MAIN].scenario.weighting = weighting;
    if (rc == 0 && a->n_edits > WHATIF_EDITS_MAX)
        rc = ips_err_set(err, IPS_E_USAGE, "%zu edits: at most %u", a->n_edits,
                         WHATIF_EDITS_MAX);
    for (size_t i = 0; i < a->n_edits && rc == 0; i++)
        rc = check_edit(a->edits[i], err);
    if (rc == 0 && a->next > WHATIF_NEXT_MAX)
        rc = ips_err_set(err, IPS_E_USAGE, "%u next paths: at most %u", a->next,
                         WHATIF_NEXT_MAX);
    if (rc == 0 && a->rank &&
        (a->rank_ppm == 0 || a->rank_ppm > IPS_WHATIF_GONE))
        rc = ips_err_set(err, IPS_E_USAGE,
                         "faster by %u millionths: 1 to 1000000", a->rank_ppm);
    if (rc == 0 && a->near_ppm > IPS_WHATIF_GONE)
        rc = ips_err_set(err, IPS_E_USAGE, "near: %u millionths of the path",
                         a->near_ppm);
    if (rc == 0 && !a->rank && !a->slack && !a->next && a->n_edits == 0)
        rc = ips_err_set(err, IPS_E_USAGE, "nothing was asked");
    if (rc == 0 && a->to_ns && a->from_ns >= a->to_ns)
        rc = ips_err_set(err, IPS_E_USAGE, "the window is empty");
    if (rc == 0 && (a->from_ns || a->to_ns) && (a->slack || a->next))
        rc = ips_err_set(err, IPS_E_USAGE,
                         "slack and next paths are of whole runs: ask for them "
                         "without a window");
    return rc;
}

/* ---- arc profiles ----------------------------------------------------- */

static int receive_arc_profile_of_machine(struct query *q,
                                          struct machine_share *p,
                                          const Ips__Reply *reply,
                                          struct ips_err *err)
{
    return arc_profile_append_reply(
        q, p, &whatif_data_of(q)->arc_profile[p->number], reply, err);
}

static void free_arc_profiles(struct query *q)
{
    struct whatif_data *d = whatif_data_of(q);
    for (uint32_t i = 0; d->arc_profile && i < q->gather.count; i++)
        arc_profile_release(&d->arc_profile[i]);
    free(d->arc_profile);
    d->arc_profile = NULL;
}

/* ---- rounds of requests ------------------------------------------------- */

static void send_whatif_answer_or_error(struct query *q)
{
    if (path_data_of(q)->err.code)
        engine_exclude_blamed_machine_or_fail(q);
    else
        whatif_data_of(q)->answer(q);
}

static void start_solving_whatif(struct query *q)
{
    struct ips_err err = {0};
    uint64_t portions = 0;
    for (uint32_t i = 0; i < q->gather.count; i++)
        portions += whatif_data_of(q)->arc_profile[i].count;
    int rc = path_check_master_memory(q, portions * WHATIF_PORTION_BYTES, &err);
    if (rc == 0)
        rc = query_submit_work(q, whatif_data_of(q)->solve,
                               send_whatif_answer_or_error, &err);
    if (rc < 0)
        query_fail(q, &err);
}

static void ask_arc_profile(struct query *q)
{
    const struct whatif_data *d = whatif_data_of(q);
    bool windowed = d->path.window.is_set;
    query_open_round(q, receive_arc_profile_of_machine, start_solving_whatif);
    for (uint32_t i = 0; i < q->gather.count; i++)
        arc_profile_ask(q, q->gather.active[i],
                        windowed ? &d->path.window : NULL);
    query_close_round(q);
}

static void use_fetched_waits_and_start_solving(struct query *q)
{
    struct whatif_data *d = whatif_data_of(q);
    free(d->arc_profile); /* the arc profiles are empty so far */
    d->arc_profile = d->waits->arc_profile;
    d->waits->arc_profile = NULL;
    start_solving_whatif(q);
}

/* Fetches the waits; the arc profiles come with them. */
static void ask_waits(struct query *q)
{
    waits_fetch_rows_and_arc_profiles(q, whatif_data_of(q)->waits,
                                      use_fetched_waits_and_start_solving);
}

static void set_window_and_fetch_graphs(struct query *q)
{
    struct whatif_data *d = whatif_data_of(q);
    weighting_set_window(q, d->ask->from_ns, d->ask->to_ns);
    d->weighting = d->path.scenarios[SCENARIO_MAIN].scenario.weighting;
    if (d->raw)
        d->path.scenarios[SCENARIO_MAIN].scenario.weighting = IPS_WEIGH_CPU;
    engine_fetch_subgraphs(q, d->raw, d->waits ? ask_waits : ask_arc_profile);
}

static void set_goal_and_align_clocks(struct query *q)
{
    struct whatif_data *d = whatif_data_of(q);
    struct ips_err err = {0};
    if (d->gathered && d->gathered(q))
        return;
    message_times_plan_replace_formula_if_measured(
        q, &d->path.scenarios[SCENARIO_MAIN].scenario);
    d->arc_profile =
        calloc((size_t)q->gather.count + 1, sizeof(*d->arc_profile));
    if (d->ask->from_ns || d->ask->to_ns)
        d->node_bytes += WHATIF_WINDOW_BYTES;
    if (!d->arc_profile) {
        fail_no_memory(q);
        return;
    }
    int rc = engine_init_machines_and_number_nodes(q, "path", &err);
    if (rc == 0)
        rc = path_check_master_memory(q, d->path.nodes * d->node_bytes, &err);
    if (rc == 0)
        rc = weighting_set_goal(q, d->ask->goal, &err);
    if (rc < 0)
        query_fail(q, &err);
    else
        weighting_align_clocks_if_needed(q, set_window_and_fetch_graphs);
}

void whatif_check_ask_and_gather(struct query *q)
{
    struct whatif_data *d = whatif_data_of(q);
    struct ips_err err = {0};
    int rc = check_and_read_whatif_ask(d->ask, d, &err);
    q->calibrate = d->path.scenarios[SCENARIO_MAIN].scenario.calibrated;
    if (rc < 0)
        query_fail(q, &err);
    else
        gather_start(
            q, GATHER_TABLE | GATHER_PEERS | (d->waits ? GATHER_WAITS : 0u),
            set_goal_and_align_clocks);
}

static void start_whatif(struct query *q)
{
    struct whatif_data *d = calloc(1, sizeof(*d));
    if (!d) {
        fail_no_memory(q);
        return;
    }
    q->data = d;
    d->ask = q->request->whatif;
    d->node_bytes = WHATIF_NODE_BYTES;
    d->solve = whatif_solve;
    d->answer = whatif_send_answer;
    whatif_check_ask_and_gather(q);
}

void whatif_release(struct query *q)
{
    struct whatif_data *d = whatif_data_of(q);
    if (d) {
        free_arc_profiles(q);
        for (uint32_t i = 0; d->machine && i < q->gather.count; i++)
            free(d->machine[i].process);
        free(d->machine);
        entities_release(&d->t);
        free(d->edits);
        free(d->ranking);
        free(d->slacks);
        free(d->cross_ns);
        free(d->oversubscription);
        ips_next_paths_release(&d->next);
    }
    engine_release_path_data(q);
    gather_release(q);
}

const struct query_kind query_whatif = {.name = "whatif",
                                        .exclusive = true,
                                        .start = start_whatif,
                                        .release = whatif_release,
                                        .keeps = true};
