#include "master/predict.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/path.h"
#include "common/types.h"

void predict_answer_release(struct predict_answer *a)
{
    free(a->use);
    free(a->row);
    memset(a, 0, sizeof(*a));
}

void predict_run_release(struct predict_run *run)
{
    ips_replay_graph_release(&run->replay);
    free(run->own);
    free(run->thread);
    memset(run, 0, sizeof(*run));
}

static struct ips_ratio or_else(struct ips_ratio r, uint32_t otherwise)
{
    return r.den ? r : (struct ips_ratio){otherwise, 1};
}

/* num / den with parts that a replay takes; rounded where they are too many. */
static struct ips_ratio ratio_of(uint64_t num, uint64_t den)
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

struct ips_replay_machine predict_replayed(const struct predict_machine *m)
{
    struct ips_replay_machine is = m->is;
    struct ips_ratio speed = or_else(m->is.speed, 1);
    struct ips_ratio taken = or_else(m->taken, 0);
    if (taken.num)
        is.speed = ratio_of((uint64_t)speed.num * (taken.den - taken.num),
                            (uint64_t)speed.den * taken.den);
    return is;
}

static double quotient(uint64_t a, uint64_t b)
{
    return b ? (double)a / (double)b : IPS_UNMEASURED_REAL;
}

/* CPU time of `work` ns at speed 1. */
static uint64_t at_speed(const struct predict_machine *m, uint64_t work)
{
    struct ips_ratio s = or_else(m->is.speed, 1);
    return (uint64_t)((ips_u128)work * s.den / s.num);
}

static void add_chains(const struct predict_run *run,
                       const struct predict_setup *setup,
                       const struct ips_replay *r, struct predict_answer *out)
{
    const struct ips_graph *g = &run->replay.g;
    for (uint32_t c = 0; c < g->chain_count; c++) {
        const struct ips_replay_chain *of = &r->chain[c];
        struct predict_use *use = &out->use[setup->map[c]];
        uint64_t work = 0, first = g->chains[c].first;
        for (uint32_t i = 1; i < g->chains[c].count; i++)
            work += g->w[first + i];
        uint64_t active = of->run_ns + of->queued_ns;
        uint64_t cpu =
            ips_min_u64(at_speed(&setup->machine[setup->map[c]], work), active);
        use->threads++;
        use->cpu_ns += cpu;
        use->queued_ns += active - cpu;
    }
    for (uint32_t m = 0; m < setup->machine_count; m++) {
        out->use[m].idle_ns = r->idle_ns[m];
        out->cpu_ns += out->use[m].cpu_ns;
        out->queued_ns += out->use[m].queued_ns;
        if (out->use[m].threads)
            out->cores += setup->machine[m].is.cores;
    }
}

/* The longest path on these machines with a core for each thread. */
static int path_alone(const struct predict_run *run,
                      const struct ips_replay_ask *ask,
                      const struct predict_setup *setup,
                      struct predict_answer *out, struct ips_err *err)
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
    int rc = ips_replay(&run->replay.g, &run->lane, &alone, &r, err);
    if (rc == 0) {
        out->t_max_ns = r.makespan_ns;
        out->p_path = quotient(out->cpu_ns, r.makespan_ns);
    }
    ips_replay_release(&r);
    free(many);
    return rc;
}

static int allocate(const struct predict_setup *setup,
                    struct ips_replay_machine **machine,
                    struct predict_answer *out, struct ips_err *err)
{
    *machine = calloc(setup->machine_count, sizeof(**machine));
    out->use = calloc(setup->machine_count, sizeof(*out->use));
    if (!*machine || !out->use)
        return ips_err_set(err, IPS_E_NO_MEMORY, "no memory for machines");
    for (uint32_t m = 0; m < setup->machine_count; m++)
        (*machine)[m] = predict_replayed(&setup->machine[m]);
    return 0;
}

int predict_replay(const struct predict_run *run,
                   const struct predict_setup *setup,
                   struct predict_answer *out, struct ips_err *err)
{
    struct ips_replay_machine *machine = NULL;
    struct ips_replay r = {0};
    memset(out, 0, sizeof(*out));
    int rc = allocate(setup, &machine, out, err);
    struct ips_replay_ask ask = {.machine_count = setup->machine_count,
                                 .machine = machine,
                                 .map = setup->map,
                                 .mtime = setup->mtime,
                                 .relabel = setup->path};
    if (rc == 0)
        rc = ips_replay(&run->replay.g, &run->lane_then, &ask, &r, err);
    if (rc == 0) {
        add_chains(run, setup, &r, out);
        out->makespan_ns = r.makespan_ns;
        out->command_ns = run->command == IPS_NO_NODE ? IPS_UNMEASURED
                                                      : r.reach[run->command];
        out->events = r.events;
        out->resources = r.resources;
        out->p = quotient(out->cpu_ns, out->makespan_ns);
        out->rho = out->cores ? out->p / out->cores : IPS_UNMEASURED_REAL;
    }
    if (rc == 0 && setup->path)
        rc = path_alone(run, &ask, setup, out, err);
    if (rc == 0 && setup->path)
        rc = predict_path(run, setup, &r, out, err);
    ips_replay_release(&r);
    free(machine);
    if (rc < 0)
        predict_answer_release(out);
    return rc;
}
