/* The central engine: the master fetches all subgraphs. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "analysis/graph/view.h"
#include "master/path/weighting.h"

/* Walks the longest path of the merged graph back from its end and collects its
 * pieces. */
static bool walk_path_back_and_push_pieces(struct path_data *d,
                                           const struct ips_graph *g)
{
    struct ips_path path = {0};
    uint32_t stop;
    bool ok = true;
    if (ips_path_walk_back_and_store(g, &d->scenarios[d->now].scenario, &d->est,
                                     d->est.end, &path, &stop, &d->err) < 0)
        return false;
    for (uint64_t i = 0; i < path.count && ok; i++) {
        const struct ips_path_segment *s = &path.seg[i];
        const struct path_piece piece = {.kind = (uint8_t)s->kind,
                                         .xkind = s->xkind,
                                         .at = engine_thread_of_node(g, s->to),
                                         .from = s->from,
                                         .to = s->to,
                                         .ns = s->ns};
        ok = engine_append_or_merge_piece(
            d,
            s->from == IPS_NO_NODE ? piece.at
                                   : engine_thread_of_node(g, s->from),
            &piece);
    }
    ips_path_release(&path);
    return ok;
}

/* Checks that the label-correcting algorithm of the paper (PDM) gives the same
 * result. If not, returns false, and d->err has the reason. Returns true with a
 * note if there is not enough memory for the check. */
static bool check_against_label_correcting(struct path_data *d,
                                           const struct ips_scenario *scenario)
{
    struct ips_est other = {0};
    struct ips_err err = {0};
    int rc = ips_longest_path_by_label_correcting(&d->merged, scenario, &other,
                                                  &err);
    bool same =
        rc == 0 && other.t_max == d->est.t_max && other.end == d->est.end;
    uint64_t theirs = other.t_max;
    if (same && d->merged.node_count > 0)
        same = memcmp(other.est, d->est.est,
                      d->merged.node_count * sizeof(*other.est)) == 0;
    ips_est_release(&other);
    if (rc == IPS_E_LIMIT || rc == IPS_E_NO_MEMORY) {
        snprintf(d->pdm_note, sizeof(d->pdm_note),
                 "not checked by label correcting: %.180s", err.msg);
        return true;
    }
    if (rc < 0)
        ips_err_set(&d->err, rc, "label correcting: %s", err.msg);
    else if (!same)
        ips_err_set(
            &d->err, IPS_E_CORRUPT,
            "the two algorithms of the central engine disagree (%" PRIu64
            " and %" PRIu64 " ns): a bug in IPS, so no answer is given",
            d->est.t_max, theirs);
    return same;
}

static bool compute_path_of_view(struct query *q, const struct ips_graph *g)
{
    struct path_data *d = path_data_of(q);
    struct scenario_result *r = &d->scenarios[d->now];
    struct ips_scenario scenario =
        weighting_scenario_with_merged_goal(q, &r->scenario);
    ips_est_release(&d->est);
    if (ips_longest_path_compute_ests(g, &scenario, NULL, &d->est, &d->err) < 0)
        return false;
    r->t_max = d->est.t_max;
    if (d->now == SCENARIO_MAIN)
        d->total_cpu_ns = d->est.total;
    if (d->now == SCENARIO_MAIN &&
        !check_against_label_correcting(d, &scenario))
        return false;
    if (d->est.end == IPS_NO_NODE) {
        ips_err_set(&d->err, IPS_E_INCOMPLETE,
                    "no thread of this run has ended yet: nothing to show");
        return false;
    }
    if (r->with_shares && !walk_path_back_and_push_pieces(d, g))
        return false;
    return engine_finish_shares_and_pieces(d);
}

static bool solve_scenario(struct query *q, enum scenario_id id)
{
    struct path_data *d = path_data_of(q);
    /* a view of d->merged, whose weights are already in the wanted weighting */
    struct ips_view view;
    d->now = id;
    bool ok = ips_graph_make_view_of_weighted_graph(&d->merged,
                                                    &d->scenarios[id].scenario,
                                                    &view, &d->err) == 0 &&
              compute_path_of_view(q, &view.g);
    ips_view_release(&view);
    return ok;
}

static void compute_all_scenarios(struct query *q)
{
    struct path_data *d = path_data_of(q);
    if (!engine_make_graphs(q))
        return;
    for (uint32_t i = 0; i < q->gather.count; i++) {
        struct machine_share *p = q->gather.active[i];
        if (engine_data_of_machine(p)->g.node_count != p->sync->nodes) {
            ips_err_set(&d->err, IPS_E_PROTOCOL,
                        "promised %" PRIu64 " nodes and sent %u",
                        p->sync->nodes,
                        engine_data_of_machine(p)->g.node_count);
            d->blame = p;
            return;
        }
    }
    if (!engine_merge_graphs(q))
        return;
    for (int id = SCENARIO_MAIN; id < SCENARIOS; id++) {
        if (d->scenarios[id].wanted && !solve_scenario(q, (enum scenario_id)id))
            return;
    }
}

static void start_answer_or_handle_failure(struct query *q)
{
    struct path_data *d = path_data_of(q);
    engine_release_graphs(q);
    if (d->err.code)
        engine_exclude_blamed_machine_or_fail(q);
    else
        path_start_answer(q);
}

static void submit_all_scenarios_to_worker(struct query *q)
{
    struct ips_err err = {0};
    engine_mark_or_count_traffic(q, false);
    path_data_of(q)->cost.rounds = 1;
    if (query_submit_work(q, compute_all_scenarios,
                          start_answer_or_handle_failure, &err) < 0)
        query_fail(q, &err);
}

void engine_start_central(struct query *q)
{
    engine_mark_or_count_traffic(q, true);
    engine_fetch_subgraphs(q, false, submit_all_scenarios_to_worker);
}
