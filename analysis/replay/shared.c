#include "analysis/replay/shared.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/graph/kernel.h"
#include "analysis/replay/replay.h"
#include "common/types.h"

struct tables {
    struct ips_replay_machine *machine;
    struct ips_message_time
        *message_time; /* NULL: the scenario's message time */
    uint32_t *medium;
};

static void release_tables(struct tables *t)
{
    free(t->machine);
    free(t->message_time);
    free(t->medium);
}

static int
make_machine_and_medium_tables(const struct ips_graph *g,
                               const struct ips_shared_medium_ask *ask,
                               struct tables *t, struct ips_err *err)
{
    size_t n = ask->machine_count, pairs = n * n;
    t->machine = calloc(n + 1, sizeof(*t->machine));
    t->medium = calloc(pairs + 1, sizeof(*t->medium));
    t->message_time =
        ask->least_ns ? calloc(pairs + 1, sizeof(*t->message_time)) : NULL;
    if (!t->machine || !t->medium || (ask->least_ns && !t->message_time))
        return ips_err_set(err, IPS_E_NO_MEMORY, "%zu machines", n);
    for (size_t m = 0; m < n; m++) {
        /* There are more cores than chains, so no chain waits for a core. */
        t->machine[m].cores =
            ips_min_u32(g->chain_count + 1, IPS_REPLAY_CORES_MAX);
        t->medium[m * n + m] = IPS_REPLAY_NO_MEDIUM;
    }
    for (size_t p = 0; p < pairs && t->message_time; p++)
        t->message_time[p] =
            (struct ips_message_time){ask->least_ns[p], 1ULL << 32, 1, 1};
    return 0;
}

/* Subtracts least_ns (the time of an empty message) from the message times in
 * the graph, because the replay adds it from the table `message_time`. */
static void
subtract_empty_message_times(struct ips_graph *g,
                             const struct ips_cross_arc_weighting *arcs,
                             const struct ips_shared_medium_ask *ask)
{
    for (uint32_t c = 0; c < g->chain_count; c++) {
        const struct ips_chain *chain = &g->chains[c];
        for (uint32_t i = chain->first; i < chain->first + chain->count; i++) {
            if (!ips_has_local_cross_arc(g, arcs, i) ||
                arcs->mode[g->xkind[i]] != IPS_ARC_MTIME)
                continue;
            size_t from = ask->map[ips_chain_of(g, g->xpred[i])];
            size_t pair = from * ask->machine_count + ask->map[c];
            g->xlen[i] = ips_sub_sat(g->xlen[i], ask->least_ns[pair]);
        }
    }
}

/* Adds up the time of the path by kind (computation, message, external). Walks
 * back from the replay's end; at each node it follows the arc that arrived
 * later. */
static void sum_path_by_kind(const struct ips_graph *g,
                             const struct ips_cross_arc_weighting *arcs,
                             const struct ips_replay *r,
                             struct ips_shared_medium_path *out)
{
    uint32_t i = r->end;
    while (i != IPS_NO_NODE) {
        uint32_t first = g->chains[ips_chain_of(g, i)].first;
        uint64_t before = i > first ? r->reach[i - 1] : 0;
        uint64_t own = i > first ? ips_add_sat(before, g->w[i]) : 0;
        /* Each time is rounded up, so sums of them may differ by less than 2
         * ns. */
        if (ips_has_local_cross_arc(g, arcs, i) &&
            (i == first || r->reach[i] > ips_add_sat(own, 1))) {
            uint32_t x = g->xpred[i];
            uint64_t took = ips_sub_sat(r->reach[i], r->reach[x]);
            if (arcs->mode[g->xkind[i]] == IPS_ARC_XLEN)
                out->external_ns += took;
            else
                out->message_ns += took;
            out->messages += g->xkind[i] == IPS_X_DATA;
            i = x;
        } else {
            out->compute_ns += i > first ? r->reach[i] - before : 0;
            i = i > first ? i - 1 : IPS_NO_NODE;
        }
    }
}

int ips_compute_shared_medium_path(struct ips_graph *g,
                                   const struct ips_scenario *scenario,
                                   const struct ips_shared_medium_ask *ask,
                                   struct ips_shared_medium_path *out,
                                   struct ips_err *err)
{
    struct tables t = {0};
    struct ips_replay r = {0};
    struct ips_cross_arc_weighting arcs;
    memset(out, 0, sizeof(*out));
    ips_cross_arc_weighting_init(&arcs, scenario);
    int rc = make_machine_and_medium_tables(g, ask, &t, err);
    if (rc == 0 && ask->least_ns)
        subtract_empty_message_times(g, &arcs, ask);
    const struct ips_replay_ask replay = {.machine_count = ask->machine_count,
                                          .machine = t.machine,
                                          .map = ask->map,
                                          .message_time = t.message_time,
                                          .medium_count = 1,
                                          .medium = t.medium};
    if (rc == 0)
        rc = ips_replay(g, scenario, &replay, &r, err);
    if (rc == 0) {
        out->end_ns = r.makespan_ns;
        out->busy_ns = ips_sub_sat(r.last_ns, r.idle_ns[ask->machine_count]);
        sum_path_by_kind(g, &arcs, &r, out);
        ips_replay_release(&r);
    }
    release_tables(&t);
    return rc;
}
