/* Computes the length of the run's path in the weightings `cpu` and `sched`. */
#include <stdlib.h>

#include "analysis/graph/view.h"
#include "master/query/machine_share.h"
#include "master/why/facts.h"

static int set_why_no_memory_error(struct why_solving *y)
{
    return ips_err_set(y->s.err, IPS_E_NO_MEMORY, "no memory to find out why");
}

int why_compute_lengths_in_other_weightings(struct why_solving *y)
{
    struct query *q = y->s.q;
    /* for a window the lengths in other weightings are not computed */
    if (y->d->facts.windowed)
        return 0;
    uint32_t n = q->gather.count;
    struct ips_machine_graph *parts = calloc((size_t)n + 1, sizeof(*parts));
    uint32_t *base = calloc((size_t)n + 1, sizeof(*base));
    const struct ips_scenario *main =
        &y->d->w.path.scenarios[SCENARIO_MAIN].scenario;
    struct ips_scenario scenario = {.weighting = IPS_WEIGH_CPU,
                                    .message_time = main->message_time,
                                    .calibrated = main->calibrated};
    struct ips_graph g;
    struct ips_view sched = {0};
    struct ips_est est = {0};
    uint64_t unmatched;
    int rc = parts && base ? 0 : set_why_no_memory_error(y);
    ips_graph_init(&g);
    for (uint32_t i = 0; rc == 0 && i < n; i++) {
        const struct machine_share *p = q->gather.active[i];
        parts[i] =
            (struct ips_machine_graph){.g = &engine_data_of_machine(p)->g,
                                       .peer = p->peer,
                                       .end_count = p->peer_count};
    }
    if (rc == 0)
        rc = ips_graph_merge(parts, n, &scenario, &g, base, &unmatched,
                             y->s.err);
    if (rc == 0)
        rc = ips_longest_path_compute_ests(&g, &scenario, NULL, &est, y->s.err);
    y->d->facts.t_max_cpu_ns = est.t_max;
    y->d->facts.total_cpu_ns = est.total;
    ips_est_release(&est);
    scenario.weighting = IPS_WEIGH_SCHED;
    if (rc == 0)
        rc = ips_graph_make_view(&g, &scenario, &sched, y->s.err);
    if (rc == 0)
        rc = ips_longest_path_compute_ests(&sched.g, &scenario, NULL, &est,
                                           y->s.err);
    y->d->facts.t_max_sched_ns = est.t_max;
    ips_est_release(&est);
    ips_view_release(&sched);
    ips_graph_release(&g);
    free(parts);
    free(base);
    return rc;
}
