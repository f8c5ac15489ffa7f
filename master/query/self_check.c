#include "master/query/self_check.h"

#include <inttypes.h>

#include "common/types.h"

struct checking {
    struct arena *a;
    struct certificate *c;
};

static void report_broken(const struct checking *k, const char *rule,
                          uint64_t is, uint64_t limit)
{
    certificate_gap(
        k->a, k->c,
        arena_printf(k->a,
                     "this answer contradicts itself, please report "
                     "it: %s (%" PRIu64 " ns against %" PRIu64 " ns)",
                     rule, is, limit));
}

static void check_equal(const struct checking *k, const char *rule, uint64_t is,
                        uint64_t wanted)
{
    if (is != wanted)
        report_broken(k, rule, is, wanted);
}

static void check_at_most(const struct checking *k, const char *rule,
                          uint64_t is, uint64_t limit)
{
    if (is > limit)
        report_broken(k, rule, is, limit);
}

/* Returns the sum, or IPS_UNMEASURED if one of the values is not known. */
static uint64_t sum_ns(const uint64_t *ns, size_t count)
{
    uint64_t all = 0;
    for (size_t i = 0; i < count; i++) {
        if (ns[i] == IPS_UNMEASURED)
            return IPS_UNMEASURED;
        all = ips_add_sat(all, ns[i]);
    }
    return all;
}

static void check_finding(const struct checking *k, const Ips__WhyRow *f,
                          uint64_t wall_ns)
{
    if (f->path_ns == 0)
        report_broken(k, "a finding rests on nothing of the path", 0, wall_ns);
    check_at_most(k, "a finding rests on more than the path", f->path_ns,
                  wall_ns);
    check_at_most(k, "a finding gains more than it rests on", f->gain_ns,
                  f->path_ns);
    uint64_t ppm =
        wall_ns ? (uint64_t)((ips_u128)f->gain_ns * 1000000 / wall_ns) : 0;
    check_equal(k, "a gain is not its share of the elapsed time, in millionths",
                f->gain_ppm, ppm);
}

void self_check_why(struct arena *a, struct certificate *c,
                    const Ips__WhyAnswer *w)
{
    const struct checking k = {a, c};
    const uint64_t parts[] = {w->on_cpu_ns, w->run_delay_ns, w->outside_ns,
                              w->crossing_ns, w->other_ns};
    uint64_t all = sum_ns(parts, sizeof(parts) / sizeof(*parts));
    if (w->wall_ns == IPS_UNMEASURED || w->from_ns || w->to_ns)
        return;
    if (all != IPS_UNMEASURED)
        check_equal(&k, "the parts of the path are not the path", all,
                    w->wall_ns);
    if (w->quiet_ns != IPS_UNMEASURED)
        check_at_most(&k, "with a core for each thread it takes longer",
                      w->quiet_ns, w->own_ns);
    if (w->own_ns != IPS_UNMEASURED)
        check_at_most(&k, "alone it takes longer than it took", w->own_ns,
                      w->wall_ns);
    for (size_t i = 0; i < w->n_findings; i++)
        check_finding(&k, w->findings[i], w->wall_ns);
}

static void check_rows(const struct checking *k, const Ips__PathAnswer *p)
{
    for (size_t i = 0; i < p->n_by_procedure; i++) {
        const Ips__ProcedureRow *r = p->by_procedure[i];
        if (r->self_low_ns == IPS_UNMEASURED || r->self_ns == IPS_UNMEASURED)
            continue;
        check_at_most(k, "an interval begins above its figure", r->self_low_ns,
                      r->self_ns);
        check_at_most(k, "an interval ends below its figure", r->self_ns,
                      r->self_high_ns);
    }
}

void self_check_path(struct arena *a, struct certificate *c,
                     const Ips__PathAnswer *p, bool command)
{
    const struct checking k = {a, c};
    const uint64_t computing[] = {p->on_cpu_ns, p->run_delay_ns, p->other_ns};
    uint64_t all = sum_ns(computing, sizeof(computing) / sizeof(*computing));
    if (all != IPS_UNMEASURED)
        check_at_most(&k, "what is computed is more than the path", all,
                      p->t_max_ns);
    if (command && p->elapsed_ns != IPS_UNMEASURED)
        check_equal(&k, "the path to the command's end is not what it took",
                    p->t_max_ns, p->elapsed_ns);
    check_rows(&k, p);
}

void self_check_computed(struct arena *a, struct certificate *c,
                         const Ips__PathAnswer *p, uint64_t computed_ns)
{
    const struct checking k = {a, c};
    if (computed_ns == IPS_UNMEASURED || p->lasted_ns == IPS_UNMEASURED)
        return;
    uint64_t limit = ips_add_sat(p->lasted_ns, p->lasted_ns / 100 + 1000000);
    limit = ips_add_sat(limit, c->msg.guess_off_ns);
    check_at_most(&k, "the path is longer than the run", computed_ns, limit);
}

void self_check_predicted(struct arena *a, struct certificate *c,
                          uint64_t last_ns, uint64_t least_ns)
{
    const struct checking k = {a, c};
    check_at_most(&k, "predicted shorter than its longest thread or lock",
                  least_ns, ips_add_sat(last_ns, last_ns / 1000000 + 1000));
}

void self_check_search(struct arena *a, struct certificate *c,
                       const Ips__PredictAnswer *p)
{
    const struct checking k = {a, c};
    const Ips__PredictFound *f = p->found;
    for (size_t i = 0; f && i < f->n_maps; i++)
        check_at_most(&k, "a placement is better than any can be", f->bound_ns,
                      f->maps[i]->makespan_ns);
}

void self_check_requests(struct arena *a, struct certificate *c,
                         const Ips__RequestsAnswer *r)
{
    const struct checking k = {a, c};
    for (size_t i = 0; i < r->n_services; i++) {
        const Ips__ServiceRow *s = r->services[i];
        if (s->mean_ns == IPS_UNMEASURED)
            continue;
        check_at_most(&k,
                      "half of the requests took longer than nine tenths did",
                      s->p50_ns, s->p90_ns);
        check_at_most(&k,
                      "nine tenths of the requests took longer than 99% did",
                      s->p90_ns, s->p99_ns);
        check_at_most(&k, "99% of the requests took longer than all did",
                      s->p99_ns, s->max_ns);
        check_at_most(&k, "requests took longer on average than the longest",
                      s->mean_ns, s->max_ns);
    }
}
