#include "master/predict/predict.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/graph/path.h"
#include "common/types.h"

void predict_answer_release(struct predict_answer *a)
{
    free(a->use);
    free(a->shared_ns);
    free(a->row);
    memset(a, 0, sizeof(*a));
}

void predict_run_release(struct predict_run *run)
{
    ips_replay_graph_release(&run->replay);
    free(run->own);
    free(run->thread);
    free(run->cut);
    free(run->lock_units);
    free(run->lock_event);
    free(run->slept);
    free(run->lock_at_ns);
    ips_queues_release(&run->queues);
    memset(run, 0, sizeof(*run));
}

static struct ips_ratio ratio_or_default(struct ips_ratio r, uint32_t otherwise)
{
    return r.den ? r : (struct ips_ratio){otherwise, 1};
}

/* Returns num / den with numbers small enough for a replay, rounded if
 * necessary. */
static struct ips_ratio reduce_ratio_for_replay(uint64_t num, uint64_t den)
{
    uint64_t a = num, b = den;
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    if (a > 1) {
        num /= a;
        den /= a;
    }
    while (num > IPS_REPLAY_RATIO_MAX || den > IPS_REPLAY_RATIO_MAX) {
        num = (num + 1) / 2;
        den = (den + 1) / 2;
    }
    return (struct ips_ratio){(uint32_t)(num ? num : 1), (uint32_t)den};
}

struct ips_replay_machine
predict_make_machine_slowed_by_load(const struct predict_machine *m)
{
    struct ips_replay_machine is = m->is;
    struct ips_ratio speed = ratio_or_default(m->is.speed, 1);
    struct ips_ratio taken = ratio_or_default(m->load, 0);
    if (taken.num)
        is.speed = reduce_ratio_for_replay((uint64_t)speed.num *
                                               (taken.den - taken.num),
                                           (uint64_t)speed.den * taken.den);
    return is;
}

static double ratio_of_ns(uint64_t a, uint64_t b)
{
    return b ? (double)a / (double)b : IPS_UNMEASURED_REAL;
}

uint64_t predict_cpu_ns_at_speed(const struct predict_machine *m, uint64_t work)
{
    struct ips_ratio s = ratio_or_default(m->is.speed, 1);
    return (uint64_t)((ips_u128)work * s.den / s.num);
}

/* Adds a thread's use of machine m: `work` ns of CPU time at speed 1. The
 * thread was ready or running for `active` ns; the rest of this time is
 * queueing. */
static void add_thread_use_to_machine(const struct predict_setup *setup,
                                      uint32_t m, uint64_t work,
                                      uint64_t active,
                                      struct predict_answer *out)
{
    uint64_t cpu =
        ips_min_u64(predict_cpu_ns_at_speed(&setup->machine[m], work), active);
    out->use[m].cpu_ns += cpu;
    out->use[m].queued_ns += active - cpu;
}

static void add_use_of_threads_to_machines(const struct predict_run *run,
                                           const struct predict_setup *setup,
                                           const struct ips_replay *r,
                                           const uint32_t *place,
                                           struct predict_answer *out)
{
    const struct ips_graph *g = &run->replay.g;
    for (uint32_t c = 0; c < g->chain_count; c++) {
        const struct ips_replay_chain *of = &r->chain[c];
        uint32_t first = g->chains[c].first, m = setup->map[c];
        uint64_t work = 0;
        out->use[place ? place[first] : m].threads++;
        for (uint32_t i = first + 1; i < first + g->chains[c].count; i++) {
            if (place)
                add_thread_use_to_machine(setup, place[i], g->w[i],
                                          r->weight[i], out);
            work += g->w[i];
        }
        if (!place)
            add_thread_use_to_machine(setup, m, work,
                                      of->run_ns + of->queued_ns, out);
    }
}

/* Sums the use of the machines and media, and the cores of the machines that
 * are used: a thread started there or moved there. */
static void sum_machine_and_medium_use(const struct predict_setup *setup,
                                       const struct ips_replay *r,
                                       struct predict_answer *out)
{
    out->last_ns = r->last_ns;
    for (uint32_t m = 0; m < setup->machine_count; m++) {
        out->use[m].idle_ns = r->idle_ns[m];
        out->cpu_ns += out->use[m].cpu_ns;
        out->queued_ns += out->use[m].queued_ns;
        if (out->use[m].threads || out->use[m].cpu_ns)
            out->cores += setup->machine[m].is.cores;
    }
    for (uint32_t k = 0; k < setup->medium_count; k++)
        out->shared_ns[k] =
            ips_sub_sat(r->last_ns, r->idle_ns[setup->machine_count + k]);
}

/* If threads move, sets *place to an array: for each node, the machine of the
 * arc into it. Otherwise sets it to NULL. */
static int
list_machines_of_arcs_if_threads_move(const struct predict_run *run,
                                      const struct predict_setup *setup,
                                      uint32_t **place, struct ips_err *err)
{
    const struct ips_graph *g = &run->replay.g;
    uint32_t k = 0;
    *place = NULL;
    if (setup->move_count == 0)
        return 0;
    *place = calloc((size_t)g->node_count + 1, sizeof(**place));
    if (!*place)
        return ips_err_set(err, IPS_E_NO_MEMORY, "replay of %u nodes",
                           g->node_count);
    for (uint32_t c = 0; c < g->chain_count; c++) {
        uint32_t m = setup->map[c], first = g->chains[c].first;
        for (uint32_t i = first; i < first + g->chains[c].count; i++) {
            if (k < setup->move_count && setup->move[k].node == i)
                m = setup->move[k++].machine;
            (*place)[i] = m;
        }
    }
    return 0;
}

/* Computes the longest path on the setup's machines with a core for each
 * thread. */
static int replay_with_core_for_each_thread(const struct predict_run *run,
                                            const struct ips_replay_ask *ask,
                                            const struct predict_setup *setup,
                                            struct predict_answer *out,
                                            struct ips_err *err)
{
    struct ips_replay_machine *many =
        calloc(setup->machine_count, sizeof(*many));
    struct ips_replay_ask alone = *ask;
    struct ips_replay r = {0};
    if (!many)
        return ips_err_set(err, IPS_E_NO_MEMORY, "no memory for machines");
    for (uint32_t m = 0; m < setup->machine_count; m++)
        many[m] = (struct ips_replay_machine){
            .cores = IPS_REPLAY_CORES_MAX, .speed = setup->machine[m].is.speed};
    alone.machine = many;
    alone.relabel = false;
    int rc = ips_replay(&run->replay.g, &run->scenario, &alone, &r, err);
    if (rc == 0) {
        out->t_max_ns = r.makespan_ns;
        out->p_path = ratio_of_ns(out->cpu_ns, r.makespan_ns);
    }
    ips_replay_release(&r);
    free(many);
    return rc;
}

static int make_replay_machines_and_allocate_use(
    const struct predict_setup *setup, struct ips_replay_machine **machine,
    struct predict_answer *out, struct ips_err *err)
{
    *machine = calloc(setup->machine_count, sizeof(**machine));
    out->use = calloc(setup->machine_count, sizeof(*out->use));
    out->shared_ns =
        calloc((size_t)setup->medium_count + 1, sizeof(*out->shared_ns));
    if (!*machine || !out->use || !out->shared_ns)
        return ips_err_set(err, IPS_E_NO_MEMORY, "no memory for machines");
    for (uint32_t m = 0; m < setup->machine_count; m++)
        (*machine)[m] = predict_make_machine_slowed_by_load(&setup->machine[m]);
    return 0;
}

/* Fills the answer from the replay `r`. */
static void fill_answer_from_replay(const struct predict_run *run,
                                    const struct predict_setup *setup,
                                    const struct ips_replay *r,
                                    const uint32_t *place,
                                    struct predict_answer *out)
{
    add_use_of_threads_to_machines(run, setup, r, place, out);
    sum_machine_and_medium_use(setup, r, out);
    out->makespan_ns = r->makespan_ns;
    out->command_ns =
        run->command == IPS_NO_NODE ? IPS_UNMEASURED : r->reach[run->command];
    out->events = r->events;
    out->resources = r->resources;
    out->units_taken = r->units_taken;
    out->kept_count = r->kept_count;
    out->p = ratio_of_ns(out->cpu_ns, out->makespan_ns);
    out->rho = out->cores ? out->p / out->cores : IPS_UNMEASURED_REAL;
}

/* Replays `run` with its queues in the order that its graph has. */
static int replay_in_graph_order_and_fill_answer(
    const struct predict_run *run, const struct predict_setup *setup,
    struct ips_replay_ask *ask, struct predict_answer *out, struct ips_err *err)
{
    struct ips_replay r = {0};
    uint32_t *place = NULL;
    ask->locks = predict_locks_to_replay(run);
    ask->relabel = setup->path || setup->move_count;
    int rc = list_machines_of_arcs_if_threads_move(run, setup, &place, err);
    if (rc == 0)
        rc = ips_replay(&run->replay.g, &run->scenario_then, ask, &r, err);
    if (rc == 0)
        fill_answer_from_replay(run, setup, &r, place, out);
    if (rc == 0)
        rc = predict_compute_makespan_lower_bound(run, setup, place, ask->locks,
                                                  &out->least_ns, err);
    if (rc == 0 && setup->path)
        rc = replay_with_core_for_each_thread(run, ask, setup, out, err);
    if (rc == 0 && setup->path)
        rc = predict_compute_path(run, setup, &r, place, out, err);
    ips_replay_release(&r);
    free(place);
    return rc;
}

int predict_replay(const struct predict_run *run,
                   const struct predict_setup *setup,
                   struct predict_answer *out, struct ips_err *err)
{
    struct ips_replay_machine *machine = NULL;
    struct predict_queued queued = {0};
    memset(out, 0, sizeof(*out));
    int rc = make_replay_machines_and_allocate_use(setup, &machine, out, err);
    struct ips_replay_ask ask = {.machine_count = setup->machine_count,
                                 .machine = machine,
                                 .map = setup->map,
                                 .message_time = setup->message_time,
                                 .curve = setup->curve,
                                 .move_count = setup->move_count,
                                 .move = setup->move,
                                 .medium_count = setup->medium_count,
                                 .medium = setup->medium,
                                 .wire = setup->wire,
                                 .burst_ns = setup->burst_ns,
                                 .locks = predict_locks_to_replay(run)};
    if (rc == 0 && !setup->as_recorded)
        rc = predict_reorder_queues_by_replay(run, &ask, &queued, err);
    if (rc == 0) {
        out->is_stable = queued.is_stable;
        out->pieces = queued.pieces;
        out->anew = queued.anew;
        rc = replay_in_graph_order_and_fill_answer(
            queued.is_stable ? &queued.run : run, setup, &ask, out, err);
    }
    predict_queued_graph_release(&queued);
    free(machine);
    if (rc < 0)
        predict_answer_release(out);
    return rc;
}

/* ---- load of other programs ------------------------------------------- */

#define FIT_PARTS 100u
#define FIT_MOST 1600u /* in hundredths: a load of 16 */

int predict_fit_loads(const struct predict_run *run, struct predict_setup *own,
                      struct ips_err *err)
{
    uint32_t n = own->machine_count;
    uint32_t *low = calloc((size_t)n + 1, sizeof(*low));
    uint32_t *high = calloc((size_t)n + 1, sizeof(*high));
    int rc = low && high
                 ? 0
                 : ips_err_set(err, IPS_E_NO_MEMORY, "no memory for loads");
    for (uint32_t m = 0; rc == 0 && m < n; m++)
        high[m] = FIT_MOST;
    for (uint32_t width = FIT_MOST; width > 0 && rc == 0; width /= 2) {
        struct predict_answer a;
        for (uint32_t m = 0; m < n; m++)
            own->machine[m].is.load =
                (struct ips_ratio){(low[m] + high[m]) / 2, FIT_PARTS};
        rc = predict_replay(run, own, &a, err);
        for (uint32_t m = 0; m < n && rc == 0; m++) {
            uint32_t mid = (low[m] + high[m]) / 2;
            if (a.use[m].queued_ns > run->own[m].delay_ns)
                high[m] = mid;
            else
                low[m] = mid;
        }
        predict_answer_release(&a);
    }
    for (uint32_t m = 0; rc == 0 && m < n; m++)
        own->machine[m].is.load = (struct ips_ratio){low[m], FIT_PARTS};
    free(low);
    free(high);
    return rc;
}
