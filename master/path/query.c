/*
 * The question about the critical path: checks the question, gathers tables
 * and peers, and runs an engine for every scenario. path/answer.c makes the
 * answer. A question that cannot be answered is refused with the reason.
 * Category 3 of IPS-9.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/types.h"
#include "master/base/message_times_wire.h"
#include "master/path/engine.h"
#include "master/path/engine_auto.h"
#include "master/path/query_profile.h"
#include "master/path/weighting.h"
#include "master/query/certificate.h"
#include "master/query/gather.h"
#include "master/query/machine_share.h"
#include "master/query/message_times_plan.h"

#define SCALE_MAX 1000000u

/* ---- from the question to the engine ------------------------------------ */

int path_convert_scenario(const Ips__Lane *in, struct ips_scenario *out,
                          struct ips_err *err)
{
    memset(out, 0, sizeof(*out));
    out->message_time.scale_num = out->message_time.scale_den = 1;
    if (!in)
        return 0;
    if (in->external > IPS_EXTERNAL_OFF)
        return ips_err_set(err, IPS_E_USAGE, "external %u: 0, 1 or 2",
                           in->external);
    if (in->scale_num > SCALE_MAX || in->scale_den > SCALE_MAX)
        return ips_err_set(err, IPS_E_USAGE,
                           "message times scaled by %u/%u: at most %u",
                           in->scale_num, in->scale_den, SCALE_MAX);
    out->message_time.base_ns = in->message_time_base_ns;
    out->message_time.per_byte_q32 = in->message_time_per_byte_q32;
    if (in->scale_den) {
        out->message_time.scale_num = in->scale_num;
        out->message_time.scale_den = in->scale_den;
    }
    out->external = (enum ips_external)in->external;
    out->calibrated = in->calibrated;
    out->order_dependent_off = in->any_off;
    return 0;
}

static int check_path_ask_and_set_scenario(const Ips__PathAsk *ask,
                                           struct path_data *d,
                                           struct ips_err *err)
{
    static const char *const engines[] = {"",        "auto",     "contract",
                                          "central", "cm-async", "cm-sync"};
    bool known = false;
    enum ips_weighting weighting;
    int rc = weighting_parse(ask->weighting, &weighting, err);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < sizeof(engines) / sizeof(*engines); i++)
        known = known || strcmp(ask->engine, engines[i]) == 0;
    if (!known)
        return ips_err_set(err, IPS_E_USAGE,
                           "engine %s: auto, contract, central, cm-async or "
                           "cm-sync",
                           ask->engine);
    if (ask->to_ns && ask->from_ns >= ask->to_ns)
        return ips_err_set(err, IPS_E_USAGE, "the window is empty");
    rc = path_profile_check_by_words(ask, err);
    if (rc == 0)
        rc = path_convert_scenario(ask->lane,
                                   &d->scenarios[SCENARIO_MAIN].scenario, err);
    d->scenarios[SCENARIO_MAIN].scenario.weighting = weighting;
    return rc;
}

static void add_scaled_scenario(struct path_data *d, enum scenario_id id,
                                const char *name, uint32_t num, uint32_t den)
{
    struct scenario_result *r = &d->scenarios[id];
    const struct ips_message_time *m =
        &d->scenarios[SCENARIO_MAIN].scenario.message_time;
    r->name = name;
    r->scenario = d->scenarios[SCENARIO_MAIN].scenario;
    r->scenario.message_time.scale_num *= num;
    r->scenario.message_time.scale_den *= den;
    /* If messages take no time in the main scenario, a multiple of that time
     * gives the same path: do not compute it again. */
    r->wanted = (m->base_ns || m->per_byte_q32 ||
                 r->scenario.weighting == IPS_WEIGH_WALL) &&
                m->scale_num;
    r->with_shares = id != SCENARIO_FREE;
}

static void plan_scenarios(struct query *q)
{
    struct path_data *d = path_data_of(q);
    message_times_plan_replace_formula_if_measured(
        q, &d->scenarios[SCENARIO_MAIN].scenario);
    uint64_t external = 0, resources = 0, probe = 0, unended = 0;
    for (uint32_t i = 0; i < q->gather.count; i++) {
        resources = ips_add_sat(resources, q->gather.active[i]->sync->any);
        probe = ips_add_sat(probe, q->gather.active[i]->sync->probe_arc_ns);
        unended = ips_add_sat(unended, q->gather.active[i]->sync->unended_ns);
        const Ips__PeersAnswer *s = q->gather.active[i]->peers;
        external += s ? s->external + s->idle : 1;
    }
    d->scenarios[SCENARIO_MAIN].wanted = true;
    d->scenarios[SCENARIO_MAIN].with_shares = true;
    add_scaled_scenario(d, SCENARIO_FREE, NULL, 0, 1);
    struct scenario_result *longest = &d->scenarios[SCENARIO_UNENDED];
    longest->scenario = d->scenarios[SCENARIO_MAIN].scenario;
    longest->wanted =
        unended > 0 && longest->scenario.weighting != IPS_WEIGH_WALL;
    longest->scenario.unended = true;
    add_scaled_scenario(d, SCENARIO_HALF, "message times x0.5", 1, 2);
    add_scaled_scenario(d, SCENARIO_DOUBLE, "message times x2", 2, 1);
    struct scenario_result *off = &d->scenarios[SCENARIO_NO_EXTERNAL];
    off->name = "external off";
    off->scenario = d->scenarios[SCENARIO_MAIN].scenario;
    /* In `wall`, a wait for something not recorded takes time like any other
     * arc, so there is no scenario without such waits. */
    off->wanted = off->scenario.external != IPS_EXTERNAL_OFF && external > 0 &&
                  off->scenario.weighting != IPS_WEIGH_WALL;
    off->scenario.external = IPS_EXTERNAL_OFF;
    off->with_shares = true;
    struct scenario_result *any = &d->scenarios[SCENARIO_NO_ANY];
    any->name = "resource arcs off";
    any->scenario = d->scenarios[SCENARIO_MAIN].scenario;
    any->wanted = !any->scenario.order_dependent_off && resources > 0;
    any->scenario.order_dependent_off = true;
    any->with_shares = true;
    struct scenario_result *bare = &d->scenarios[SCENARIO_NO_PROBE];
    bare->name = "probe cost subtracted";
    bare->scenario = d->scenarios[SCENARIO_MAIN].scenario;
    bare->wanted = probe > 0 && bare->scenario.weighting != IPS_WEIGH_WALL;
    bare->scenario.probe_off = true;
    bare->with_shares = true;
}

/* Returns the rate of the slowest calibrated link between the run's machines,
 * in bytes per us; 0: not known. */
static uint64_t slowest_link_rate(const struct query *q)
{
    const struct gather *g = &q->gather;
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < g->count; i++) {
        for (uint32_t k = 0; k < g->count; k++) {
            uint64_t rate =
                i == k ? 0
                       : message_time_wire_bytes_per_us(message_times_find_pair(
                             &q->m->message_times, g->active[i]->machine,
                             g->active[k]->machine, MTIME_TCP));
            least = rate ? ips_min_u64(least, rate) : least;
        }
    }
    return least == UINT64_MAX ? 0 : least;
}

static struct auto_facts collect_auto_facts(const struct query *q)
{
    const struct path_data *d = q->data;
    struct auto_facts f = {.machines = q->gather.count,
                           .nodes = d->nodes,
                           .memory_bytes = engine_auto_usable_memory(),
                           .link_bytes_per_us = slowest_link_rate(q)};
    for (uint32_t i = 0; i < q->gather.count; i++) {
        const struct machine_share *p = q->gather.active[i];
        f.threads += p->t.thread_count;
        f.round_trip_ns = ips_max_u64(f.round_trip_ns, p->round_trip_ns);
        if (p->peers) {
            f.join_bound = ips_add_sat(f.join_bound, p->peers->kept);
            f.crossing = ips_add_sat(f.crossing, p->peers->remote_in);
            f.crossing_out = ips_add_sat(f.crossing_out, p->peers->remote_out);
        }
    }
    return f;
}

static void choose_engine(struct query *q)
{
    struct path_data *d = path_data_of(q);
    const char *asked = q->request->path->engine;
    if (*asked && strcmp(asked, "auto") != 0) {
        d->engine = asked;
        snprintf(d->engine_text, sizeof(d->engine_text), "%s (as asked)",
                 d->engine);
        return;
    }
    char why[sizeof(d->engine_text) - 32];
    const struct auto_facts f = collect_auto_facts(q);
    d->engine = engine_auto_choose(&f, why, sizeof(why));
    snprintf(d->engine_text, sizeof(d->engine_text), "%s (auto: %s)", d->engine,
             why);
}

static void set_window_and_start_engine(struct query *q)
{
    struct path_data *d = path_data_of(q);
    weighting_set_window(q, q->request->path->from_ns, q->request->path->to_ns);
    if (strcmp(d->engine, "central") == 0)
        engine_start_central(q);
    else if (strncmp(d->engine, "cm-", 3) == 0)
        engine_start_cm(q, strcmp(d->engine, "cm-async") == 0);
    else
        engine_start_contraction(q);
}

static void start_profile_then_stream(struct query *q)
{
    path_profile_start(q, query_start_streaming);
}

static void plan_path_computation_and_align_clocks(struct query *q)
{
    struct ips_err err = {0};
    if (engine_init_machines_and_number_nodes(q, "path", &err) < 0) {
        query_fail(q, &err);
        return;
    }
    plan_scenarios(q);
    choose_engine(q);
    if (weighting_set_goal(q, q->request->path->goal, &err) < 0)
        query_fail(q, &err);
    else
        weighting_align_clocks_if_needed(q, set_window_and_start_engine);
}

static void check_path_ask_and_gather(struct query *q)
{
    struct ips_err err = {0};
    struct path_data *d = calloc(1, sizeof(*d));
    if (!d) {
        ips_err_set(&err, IPS_E_NO_MEMORY, "no memory");
        query_fail(q, &err);
        return;
    }
    q->data = d;
    int rc = check_path_ask_and_set_scenario(q->request->path, d, &err);
    q->calibrate = d->scenarios[SCENARIO_MAIN].scenario.calibrated;
    if (rc < 0)
        query_fail(q, &err);
    else
        gather_start(q, GATHER_TABLE | GATHER_PEERS,
                     plan_path_computation_and_align_clocks);
}

/* ---- after the engine -------------------------------------------------- */

void path_start_answer(struct query *q)
{
    struct path_data *d = path_data_of(q);
    struct ips_err err = {0};
    if (d->piece_count == 0 || d->scenarios[SCENARIO_MAIN].t_max == 0) {
        ips_err_set(&err, IPS_E_INCOMPLETE,
                    "run %s: its longest path is 0 ns: nothing to show",
                    q->run);
        query_fail(q, &err);
        return;
    }
    if (!q->request->path->segments)
        d->sent = d->piece_count;
    weighting_fetch_computing_split(q, path_profile_wanted(q)
                                           ? start_profile_then_stream
                                           : query_start_streaming);
}

static void path_release(struct query *q)
{
    if (q->data) {
        path_profile_release(q);
        free(path_data_of(q)->top_segments);
    }
    engine_release_path_data(q);
    gather_release(q);
}

const struct query_kind query_path = {.name = "path",
                                      .exclusive = true,
                                      .start = check_path_ask_and_gather,
                                      .release = path_release,
                                      .pump = path_send_answer_until_backlog,
                                      .keeps = true};
