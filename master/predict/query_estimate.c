/*
 * Estimates the execution time on a dedicated system: the longest path of CPU
 * arcs and message arcs f(bytes), where `ipsq calibrate` measured f. If the
 * operating system took a share S of the CPU that was charged to no thread, a
 * chain arc takes 1/(1-S) of its CPU time. Category 3 of IPS-9.
 *
 * With a shared medium (DRO-5), simultaneous transfers between machines divide
 * its bandwidth: analysis/replay/shared.h.
 *
 * The master fetches the whole graph, because stretching the arcs may change
 * which path is the longest. Each arc is stretched separately and rounded
 * down. Source: DRO-1, DRO-4, DRO-5.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/replay/shared.h"
#include "common/types.h"
#include "master/path/arc_profile.h"
#include "master/path/engine.h"
#include "master/path/weighting.h"
#include "master/query/certificate.h"
#include "master/query/gather.h"
#include "master/query/message_times_plan.h"

#define MILLION 1000000u
/* memory per node, including values and the slaves' graphs */
#define NODE_BYTES 150u
#define SHARED_BYTES 60u /* more bytes per node for a replay with a medium */

struct estimate { /* stored in query.data; `path` must be first for
                     path_data_of() */
    struct path_data path;
    uint64_t t_max_ns, estimate_ns;
    uint64_t compute_ns, message_ns, external_ns, messages;
    /* [machines^2] measured time of a message of 0 bytes between two machines;
     * NULL: not needed */
    uint64_t *least_ns;
    uint64_t unshared_ns, busy_ns;
};

static struct estimate *estimate_data_of(struct query *q)
{
    return q->data;
}

static void fail_no_memory(struct query *q)
{
    struct ips_err err = {0};
    ips_err_set(&err, IPS_E_NO_MEMORY, "no memory");
    query_fail(q, &err);
}

/* ---- computing the estimate, in the worker ---------------------------- */

static uint64_t scale_up_ns(uint64_t ns, uint32_t ppm)
{
    return (uint64_t)((ips_u128)ns * MILLION / (MILLION - ppm));
}

static void scale_up_local_arcs_by_system_share(struct ips_graph *g,
                                                uint32_t ppm)
{
    for (uint32_t c = 0; c < g->chain_count; c++) {
        const struct ips_chain *chain = &g->chains[c];
        for (uint32_t i = 1; i < chain->count; i++)
            g->w[chain->first + i] = scale_up_ns(g->w[chain->first + i], ppm);
    }
}

static int sum_path_ns_by_kind(struct estimate *e,
                               const struct ips_scenario *scenario)
{
    struct ips_path path = {0};
    uint32_t stop;
    int rc = ips_path_walk_back_and_store(&e->path.merged, scenario,
                                          &e->path.est, e->path.est.end, &path,
                                          &stop, &e->path.err);
    for (uint64_t i = 0; rc == 0 && i < path.count; i++) {
        const struct ips_path_segment *s = &path.seg[i];
        uint64_t *sum = s->kind == IPS_SEG_COMPUTE    ? &e->compute_ns
                        : s->kind == IPS_SEG_EXTERNAL ? &e->external_ns
                                                      : &e->message_ns;
        *sum = ips_add_sat(*sum, s->ns);
        e->messages += s->kind == IPS_SEG_MESSAGE && s->xkind == IPS_X_DATA;
    }
    ips_path_release(&path);
    return rc;
}

/* Replaces the estimate by that of a replay in which the run's machines share
 * one medium. */
static int
replace_estimate_by_shared_medium(struct query *q,
                                  const struct ips_scenario *scenario)
{
    struct estimate *e = estimate_data_of(q);
    struct path_data *d = &e->path;
    struct ips_shared_medium_path got;
    uint32_t part = 0;
    uint32_t *map = calloc((size_t)d->merged.chain_count + 1, sizeof(*map));
    if (!map)
        return ips_err_set(&d->err, IPS_E_NO_MEMORY, "no memory");
    for (uint32_t c = 0; c < d->merged.chain_count; c++) {
        while (part + 1 < q->gather.count &&
               d->merged.chains[c].first >= d->node_base[part + 1])
            part++;
        map[c] = part;
    }
    const struct ips_shared_medium_ask ask = {q->gather.count, map,
                                              e->least_ns};
    int rc = ips_compute_shared_medium_path(&d->merged, scenario, &ask, &got,
                                            &d->err);
    free(map);
    if (rc < 0)
        return rc;
    e->unshared_ns = e->estimate_ns;
    e->estimate_ns = got.end_ns;
    e->busy_ns = got.busy_ns;
    e->compute_ns = got.compute_ns;
    e->message_ns = got.message_ns;
    e->external_ns = got.external_ns;
    e->messages = got.messages;
    return 0;
}

static void solve_estimate(struct query *q)
{
    struct estimate *e = estimate_data_of(q);
    struct path_data *d = &e->path;
    uint32_t ppm = q->request->estimate->system_ppm;
    if (!engine_make_graphs(q) || !engine_merge_graphs(q))
        return;
    struct ips_scenario scenario = weighting_scenario_with_merged_goal(
        q, &d->scenarios[SCENARIO_MAIN].scenario);
    if (ips_longest_path_compute_ests(&d->merged, &scenario, NULL, &d->est,
                                      &d->err) < 0)
        return;
    e->t_max_ns = d->est.t_max;
    d->total_cpu_ns = d->est.total;
    if (ppm) {
        scale_up_local_arcs_by_system_share(&d->merged, ppm);
        ips_est_release(&d->est);
        if (ips_longest_path_compute_ests(&d->merged, &scenario, NULL, &d->est,
                                          &d->err) < 0)
            return;
    }
    e->estimate_ns = d->est.t_max;
    if (d->est.end == IPS_NO_NODE || d->est.t_max == 0)
        ips_err_set(&d->err, IPS_E_INCOMPLETE,
                    "run %s: its longest path is 0 ns: nothing to estimate",
                    q->run);
    else if (q->request->estimate->shared_medium)
        (void)replace_estimate_by_shared_medium(
            q, &scenario); /* errors are in d->err */
    else
        (void)sum_path_ns_by_kind(e, &scenario);
}

/* ---- the answer ---------------------------------------------------------- */

static void answer_estimate(struct query *q)
{
    struct estimate *e = estimate_data_of(q);
    struct arena a = {0};
    struct certificate c;
    Ips__EstimateAnswer out = IPS__ESTIMATE_ANSWER__INIT;
    Ips__Reply reply = IPS__REPLY__INIT;
    certificate_fill(q, &a, &c);
    c.msg.unmatched += e->path.unmatched;
    c.msg.engine =
        ips_unconst_text("central (estimate: all events at the master)");
    c.msg.message_times = path_message_times_text(
        q, &a, &e->path.scenarios[SCENARIO_MAIN].scenario);
    if (!e->path.scenarios[SCENARIO_MAIN].scenario.calibrated)
        certificate_add_note(&a, &c,
                             "message times were not measured: run `ipsq "
                             "calibrate` on the idle machines");
    certificate_add_note(
        &a, &c, "assumes a core for each thread; `ipsq predict` takes fewer");
    out.estimate_ns = e->estimate_ns;
    out.t_max_ns = e->t_max_ns;
    out.wall_ns = path_command_elapsed_ns(q);
    out.compute_ns = e->compute_ns;
    out.message_ns = e->message_ns;
    out.external_ns = e->external_ns;
    out.messages = e->messages;
    out.total_cpu_ns = e->path.total_cpu_ns;
    out.system_ppm = q->request->estimate->system_ppm;
    out.unshared_ns = e->unshared_ns;
    out.medium_busy_ns = e->busy_ns;
    if (q->request->estimate->shared_medium)
        certificate_add_note(
            &a, &c,
            "messages between machines that overlap in time share one medium");
    out.open = certificate_run_is_open(q);
    out.goal = ips_unconst_text(e->path.goal_text);
    out.category = ips_unconst_text("3");
    out.certificate = &c.msg;
    certificate_set_category_and_source(q, &a, &c, 3, "the slaves' graphs");
    out.took_ns = c.msg.took_ns;
    reply.answer_case = IPS__REPLY__ANSWER_ESTIMATE;
    reply.estimate = &out;
    if (a.failed)
        fail_no_memory(q);
    else
        query_answer(q, &reply);
    arena_release(&a);
}

static void send_estimate_or_error(struct query *q)
{
    engine_release_graphs(q);
    if (path_data_of(q)->err.code)
        engine_exclude_blamed_machine_or_fail(q);
    else
        answer_estimate(q);
}

/* ---- gathering the data -------------------------------------------------- */

static void start_computing_estimate(struct query *q)
{
    struct ips_err err = {0};
    if (query_submit_work(q, solve_estimate, send_estimate_or_error, &err) < 0)
        query_fail(q, &err);
}

/* Sets e->least_ns, but only for a shared medium and measured message times. */
static int set_zero_byte_times_for_shared_medium(struct query *q,
                                                 struct ips_err *err)
{
    struct estimate *e = estimate_data_of(q);
    const struct gather *g = &q->gather;
    if (!q->request->estimate->shared_medium ||
        !e->path.scenarios[SCENARIO_MAIN].scenario.calibrated)
        return 0;
    e->least_ns = calloc((size_t)g->count * g->count + 1, sizeof(*e->least_ns));
    if (!e->least_ns)
        return ips_err_set(err, IPS_E_NO_MEMORY, "no memory");
    for (uint32_t f = 0; f < g->count; f++) {
        for (uint32_t t = 0; t < g->count; t++) {
            const struct message_time_pair *p =
                f == t ? NULL
                       : message_times_find_pair_or_substitute(
                             &q->m->message_times, g->active[f]->machine,
                             g->active[t]->machine, MTIME_TCP);
            if (p)
                e->least_ns[(size_t)f * g->count + t] =
                    ips_curve_compute_message_ns(&p->curve, 0);
        }
    }
    return 0;
}

static void set_goal_and_fetch_graphs(struct query *q)
{
    struct path_data *d = path_data_of(q);
    struct ips_err err = {0};
    message_times_plan_replace_formula_if_measured(
        q, &d->scenarios[SCENARIO_MAIN].scenario);
    int rc = engine_init_machines_and_number_nodes(q, "estimate", &err);
    if (rc == 0)
        rc = path_check_master_memory(
            q,
            d->nodes *
                (NODE_BYTES +
                 (q->request->estimate->shared_medium ? SHARED_BYTES : 0)),
            &err);
    if (rc == 0)
        rc = set_zero_byte_times_for_shared_medium(q, &err);
    if (rc == 0)
        rc = weighting_set_goal(q, q->request->estimate->goal, &err);
    if (rc < 0)
        query_fail(q, &err);
    else
        engine_fetch_subgraphs(q, false, start_computing_estimate);
}

static void start_estimate(struct query *q)
{
    const Ips__EstimateAsk *ask = q->request->estimate;
    struct ips_err err = {0};
    struct estimate *e = calloc(1, sizeof(*e));
    if (!e) {
        fail_no_memory(q);
        return;
    }
    q->data = e;
    struct ips_scenario *scenario = &e->path.scenarios[SCENARIO_MAIN].scenario;
    int rc = path_convert_scenario(ask->lane, scenario, &err);
    q->calibrate = scenario->calibrated;
    if (rc == 0 && ask->system_ppm >= MILLION)
        rc = ips_err_set(
            &err, IPS_E_USAGE,
            "a system share of %u millionths: must be below 1000000",
            ask->system_ppm);
    if (rc < 0)
        query_fail(q, &err);
    else
        gather_start(q, GATHER_TABLE | GATHER_PEERS, set_goal_and_fetch_graphs);
}

static void release_estimate(struct query *q)
{
    struct estimate *e = estimate_data_of(q);
    if (e)
        free(e->least_ns);
    engine_release_path_data(q);
    gather_release(q);
}

const struct query_kind query_estimate = {.name = "estimate",
                                          .exclusive = true,
                                          .start = start_estimate,
                                          .release = release_estimate};
