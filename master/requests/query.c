/*
 * The requests of a run's services. Checks the question and gathers tables,
 * peers and whole subgraphs in the weighting `wall`; the worker computes the
 * requests. Category 3 of IPS-9.
 */
#include <stdlib.h>
#include <string.h>

#include "common/types.h"
#include "master/path/arc_profile.h"
#include "master/path/weighting.h"
#include "master/query/gather.h"
#include "master/query/message_times_plan.h"
#include "master/requests/reported.h"

static void fail_no_memory(struct query *q)
{
    struct ips_err err = {0};
    ips_err_set(&err, IPS_E_NO_MEMORY, "no memory");
    query_fail(q, &err);
}

static void send_requests_answer_or_error(struct query *q)
{
    if (path_data_of(q)->err.code)
        engine_exclude_blamed_machine_or_fail(q);
    else
        requests_send_requests_or_why_answer(q);
}

static void start_solving_requests(struct query *q)
{
    struct ips_err err = {0};
    if (query_submit_work(q, requests_solve, send_requests_answer_or_error,
                          &err) < 0)
        query_fail(q, &err);
}

static void fetch_waits(struct query *q)
{
    waits_fetch_rows_and_arc_profiles(q, &requests_data_of(q)->waits,
                                      start_solving_requests);
}

/* If no connection was accepted, fetch the requests that the program marked. */
static void fetch_marked_requests_if_needed_then_waits(struct query *q)
{
    struct requests_data *d = requests_data_of(q);
    if (!*d->by && d->end_count == 0)
        d->reported_by = REQUESTS_BY_MARK;
    if (d->reported_by == REQUESTS_BY_CONNECTION)
        fetch_waits(q);
    else
        requests_fetch_marked_spans(q, fetch_waits);
}

static void convert_window_and_fetch_graphs(struct query *q)
{
    weighting_shift_window_to_run_start(q, &path_data_of(q)->window);
    path_data_of(q)->scenarios[SCENARIO_MAIN].scenario.weighting =
        /* the slaves send their graphs with CPU times; the worker computes the
         * `wall` lengths from them */
        IPS_WEIGH_CPU;
    engine_fetch_subgraphs(q, true, fetch_marked_requests_if_needed_then_waits);
}

static void find_services_and_align_clocks(struct query *q)
{
    struct requests_data *d = requests_data_of(q);
    struct ips_err err = {0};
    message_times_plan_replace_formula_if_measured(
        q, &d->path.scenarios[SCENARIO_MAIN].scenario);
    if (engine_init_machines_and_number_nodes(q, "requests", &err) < 0 ||
        path_check_master_memory(q, d->path.nodes * REQUESTS_NODE_BYTES, &err) <
            0) {
        query_fail(q, &err);
        return;
    }
    bool fine = requests_find_services_and_ends(q);
    if (d->reported_by != REQUESTS_BY_CONNECTION)
        d->service_count = d->end_count = 0;
    if (!fine)
        fail_no_memory(q);
    else
        weighting_align_clocks_if_needed(q, convert_window_and_fetch_graphs);
}

static void start_requests(struct query *q)
{
    Ips__Lane plain = IPS__LANE__INIT;
    Ips__RequestsAsk none = IPS__REQUESTS_ASK__INIT;
    bool why = query_is_why_about_requests(q->request);
    const Ips__RequestsAsk *ask = why ? &none : q->request->requests;
    struct ips_err err = {0};
    if (why) {
        none.from_ns = q->request->why->from_ns;
        none.to_ns = q->request->why->to_ns;
    }
    struct requests_data *d = calloc(1, sizeof(*d));
    if (!d) {
        fail_no_memory(q);
        return;
    }
    q->data = d;
    struct ips_scenario *scenario = &d->path.scenarios[SCENARIO_MAIN].scenario;
    plain.calibrated = why && !q->request->why->uncalibrated;
    int rc = path_convert_scenario(why ? &plain : ask->lane, scenario, &err);
    if (rc == 0 && ask->to_ns && ask->to_ns <= ask->from_ns)
        rc = ips_err_set(&err, IPS_E_USAGE, "the window is empty");
    d->path.window = (struct path_window){.is_set = ask->from_ns || ask->to_ns,
                                          .from_ns = ask->from_ns,
                                          .to_ns = ask->to_ns};
    q->calibrate = scenario->calibrated;
    scenario->weighting = IPS_WEIGH_WALL;
    if (rc == 0)
        rc = requests_parse_by_option(d, ask->by, &err);
    if (rc == 0 && ask->top > REQUESTS_TOP_MAX)
        rc = ips_err_set(&err, IPS_E_USAGE, "%u requests: at most %u", ask->top,
                         REQUESTS_TOP_MAX);
    if (rc < 0)
        query_fail(q, &err);
    else
        gather_start(q, GATHER_TABLE | GATHER_PEERS | GATHER_WAITS,
                     find_services_and_align_clocks);
}

static void release_requests(struct query *q)
{
    if (requests_data_of(q))
        requests_release(q);
    engine_release_path_data(q);
    gather_release(q);
}

const struct query_kind query_requests = {.name = "requests",
                                          .exclusive = true,
                                          .start = start_requests,
                                          .release = release_requests,
                                          .keeps = true};
