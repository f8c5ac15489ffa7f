/*
 * Predicts the run on other machines. Gathers what a what-if gathers (whole
 * subgraphs, tables, arc profiles). The worker replays it on the requested
 * machines, and once on its own machines, which shows the error of the model.
 * Category 3 of IPS-9.
 */
#include <stdlib.h>
#include <string.h>

#include "analysis/graph/path.h"
#include "master/predict/query.h"

/* ---- replays, in the worker ------------------------------------------- */

static int compute_path_length_with_free_messages(struct whatif_solving *s,
                                                  struct predict_query *d)
{
    struct ips_scenario scenario = s->scenario;
    struct ips_est e = {0};
    scenario.message_time = (struct ips_message_time){.scale_den = 1};
    int rc = ips_longest_path_compute_ests(s->g, &scenario, NULL, &e, s->err);
    d->t_max_free_ns = e.t_max;
    ips_est_release(&e);
    return rc;
}

static bool wants_recorded_loads(const Ips__PredictAsk *ask)
{
    bool wants = false;
    for (size_t i = 0; i < ask->n_machines; i++)
        wants = wants || ask->machines[i]->load_recorded;
    return wants;
}

/* Replays the run on its own machines: without other programs, and with the
 * load that explains its delays. */
static int replay_own_machines_and_fit_loads_if_cheap(struct query *q,
                                                      struct predict_setup *own,
                                                      struct ips_err *err)
{
    struct predict_query *d = predict_query_of(q);
    struct predict_answer loaded;
    d->own_loaded_ns = IPS_UNMEASURED;
    d->own_load = IPS_UNMEASURED_REAL;
    int rc = predict_make_own_setup(&d->run, own, err);
    if (rc == 0)
        rc = predict_replay(&d->run, own, &d->own, err);
    if (rc < 0 || (d->own.events > PREDICT_FIT_EVENTS &&
                   !wants_recorded_loads(q->request->predict)))
        return rc;
    rc = predict_fit_loads(&d->run, own, err);
    if (rc == 0)
        rc = predict_replay(&d->run, own, &loaded, err);
    if (rc < 0)
        return rc;
    d->own_loaded_ns = loaded.command_ns;
    d->own_load = 0;
    for (uint32_t m = 0; m < own->machine_count; m++) {
        const struct ips_ratio *b = &own->machine[m].is.load;
        double load = (double)b->num / (double)b->den;
        d->own_load = load > d->own_load ? load : d->own_load;
    }
    predict_answer_release(&loaded);
    return 0;
}

static void solve_predict(struct query *q)
{
    struct predict_query *d = predict_query_of(q);
    struct whatif_solving s;
    struct predict_setup own = {0};
    d->said.a = &d->a;
    int rc = whatif_prepare_graph_and_shares(q, &s);
    if (rc == 0)
        rc = predict_run_make(q, &s, &d->run);
    d->run.times = d->times.count ? &d->times : NULL;
    if (rc == 0)
        rc = predict_find_order_dependence(q, s.err);
    if (rc == 0)
        rc = predict_find_queues(&d->run, d->order.of_chain, s.err);
    if (rc == 0)
        rc = replay_own_machines_and_fit_loads_if_cheap(q, &own, s.err);
    if (rc == 0)
        rc = predict_setup_make(&d->run, &own, q->request->predict, &d->said,
                                &d->setup, s.err);
    if (rc == 0 && q->request->predict->search)
        rc = predict_search(q, s.err);
    if (rc == 0)
        predict_adapt_message_cpu_unless_kept(
            &d->run, &d->setup, q->request->predict->search != NULL, &d->said);
    d->setup.path = true;
    if (rc == 0)
        rc = predict_replay(&d->run, &d->setup, &d->then, s.err);
    if (rc == 0)
        rc = compute_path_length_with_free_messages(&s, d);
    predict_setup_release(&own);
    whatif_release_solving(&s);
    (void)rc; /* on failure s.err has the reason */
}

/* ---- start of the question -------------------------------------------- */

/* Copies the measured message times for the worker, since the loop owns the
 * original. The graph keeps message lengths instead of times, because the times
 * depend on the setup's machines. */
static int copy_scenario_and_measured_times(struct query *q,
                                            struct predict_query *d,
                                            struct ips_err *err)
{
    struct message_times *all = &q->m->message_times;
    const Ips__Lane *scenario = q->request->predict->lane;
    if (scenario)
        d->scenario = *scenario;
    d->scenario.calibrated = false;
    if (!scenario || !scenario->calibrated)
        return 0;
    int rc = message_times_reload_if_changed(all, err);
    for (uint32_t i = 0; i < all->count && rc == 0; i++)
        rc = message_times_insert_or_replace_pair(&d->times, all->pair[i], err);
    return rc;
}

static void start_predict(struct query *q)
{
    struct ips_err err = {0};
    const Ips__PredictAsk *from = q->request->predict;
    struct predict_query *d = calloc(1, sizeof(*d));
    if (!d) {
        ips_err_set(&err, IPS_E_NO_MEMORY, "no memory");
        query_fail(q, &err);
        return;
    }
    q->data = d;
    ips__whatif_ask__init(&d->ask);
    ips__lane__init(&d->scenario);
    d->scenario.scale_num = d->scenario.scale_den = 1;
    if (copy_scenario_and_measured_times(q, d, &err) < 0) {
        query_fail(q, &err);
        return;
    }
    d->ask.lane = &d->scenario;
    d->ask.goal = from->goal;
    d->ask.slack = true; /* a what-if must ask for something */
    d->w.ask = &d->ask;
    d->w.raw = true;
    d->w.waits = &d->waits;
    d->w.node_bytes = PREDICT_NODE_BYTES;
    d->w.solve = solve_predict;
    d->w.answer = predict_send_answer;
    q->on_work = from->search ? predict_send_search_progress : NULL;
    whatif_check_ask_and_gather(q);
}

static void release_predict(struct query *q)
{
    struct predict_query *d = predict_query_of(q);
    if (d) {
        predict_answer_release(&d->own);
        predict_answer_release(&d->then);
        predict_setup_release(&d->setup);
        predict_run_release(&d->run);
        ips_order_dependence_release(&d->order);
        predict_search_release(&d->search_result);
        waits_release(&d->waits);
        message_times_release(&d->times);
        arena_release(&d->a);
    }
    whatif_release(q);
}

const struct query_kind query_predict = {.name = "predict",
                                         .exclusive = true,
                                         .start = start_predict,
                                         .release = release_predict};
