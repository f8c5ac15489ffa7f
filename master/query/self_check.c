#include "master/query/self_check.h"

#include <inttypes.h>
#include <string.h>

#include "common/types.h"

struct checking {
    struct arena *a;
    struct certificate *c;
};

static void report_contradiction(const struct checking *k, const char *rule,
                                 uint64_t is, uint64_t limit)
{
    certificate_add_gap_and_mark_incomplete(
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
        report_contradiction(k, rule, is, wanted);
}

static void check_at_most(const struct checking *k, const char *rule,
                          uint64_t is, uint64_t limit)
{
    if (is > limit)
        report_contradiction(k, rule, is, limit);
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

/* A condition that two figures of an answer must satisfy. */
struct rule {
    const char *broken; /* the text that reports a violation */
    uint64_t is, limit;
    bool equal; /* `is` must equal `limit`; else `is` must be at most `limit` */
};

/* Skips the rules with a figure that was not measured. */
static void check_rules_between_figures(const struct checking *k,
                                        const struct rule *rules, size_t count)
{
    for (const struct rule *r = rules; r < rules + count; r++) {
        if (r->is == IPS_UNMEASURED || r->limit == IPS_UNMEASURED)
            continue;
        if (r->equal)
            check_equal(k, r->broken, r->is, r->limit);
        else
            check_at_most(k, r->broken, r->is, r->limit);
    }
}
#define CHECK_RULES(k, rules)                                                  \
    check_rules_between_figures(k, rules, sizeof(rules) / sizeof(*(rules)))

static void check_finding(const struct checking *k, const Ips__WhyRow *f,
                          uint64_t wall_ns)
{
    if (f->path_ns == 0)
        report_contradiction(k, "a finding rests on nothing of the path", 0,
                             wall_ns);
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
    if (w->wall_ns == IPS_UNMEASURED)
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

static void check_procedure_confidence_intervals(const struct checking *k,
                                                 const Ips__PathAnswer *p)
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
    check_procedure_confidence_intervals(&k, p);
}

void self_check_path_not_above_run(struct arena *a, struct certificate *c,
                                   const Ips__PathAnswer *p,
                                   uint64_t computed_ns)
{
    const struct checking k = {a, c};
    if (computed_ns == IPS_UNMEASURED || p->lasted_ns == IPS_UNMEASURED)
        return;
    uint64_t limit = ips_add_sat(p->lasted_ns, p->lasted_ns / 100 + 1000000);
    limit = ips_add_sat(limit, c->msg.guess_off_ns);
    check_at_most(&k, "the path is longer than the run", computed_ns, limit);
}

void self_check_predicted_not_below_bound(struct arena *a,
                                          struct certificate *c,
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

/* Checks one station (see the glossary). A client or a thread serves one
 * request at a time, so it is not busy for longer than the window. The
 * tolerance is for its CPU time at the ends of the window, which is known only
 * to about an arc. And no station of the service needs more time for a request
 * than the rate that all of them allow. */
static void check_station(const struct checking *k, const Ips__StationRow *s,
                          const Ips__ServiceRow *of)
{
    bool client = strcmp(s->kind, "client") == 0;
    bool thread = strcmp(s->kind, "thread") == 0;
    uint64_t window = ips_sub_sat(of->to_ns, of->from_ns);
    uint64_t limit = ips_add_sat(window, window / 20 + 10000000);
    limit = ips_add_sat(limit, k->c->msg.guess_off_ns);
    bool bound = !client && of->bound > 0 && of->bound < 1e9;
    const struct rule rules[] = {
        {"a thread serves requests for longer than there were any", s->busy_ns,
         client || thread ? limit : IPS_UNMEASURED, false},
        {"requests come faster than a station allows", (uint64_t)s->demand_ns,
         bound ? (uint64_t)(1e9 / of->bound) + 1 : IPS_UNMEASURED, false},
    };
    if (strcmp(s->service, of->service) == 0)
        CHECK_RULES(k, rules);
}

static void check_request_parts(const struct checking *k,
                                const Ips__RequestParts *p)
{
    if (!p)
        return;
    const uint64_t parts[] = {p->queued_ns,    p->untaken_ns, p->own_ns,
                              p->elsewhere_ns, p->message_ns, p->external_ns};
    check_equal(k, "the parts of requests are not the requests",
                sum_ns(parts, sizeof(parts) / sizeof(*parts)), p->ns);
}

void self_check_requests_answer(struct arena *a, struct certificate *c,
                                const Ips__RequestsAnswer *r)
{
    const struct checking k = {a, c};
    for (size_t i = 0; i < r->n_services; i++) {
        const Ips__ServiceRow *s = r->services[i];
        for (size_t j = 0; j < r->n_stations; j++)
            check_station(&k, r->stations[j], s);
        check_request_parts(&k, s->all);
        check_request_parts(&k, s->median);
        check_request_parts(&k, s->slowest);
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

static uint64_t sum_causes(Ips__WaitCause *const *v, size_t count)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++)
        sum = ips_add_sat(sum, v[i]->ns);
    return sum;
}

void self_check_wait_group(struct arena *a, struct certificate *c,
                           const Ips__WaitGroup *g)
{
    const struct checking k = {a, c};
    uint64_t blamed = 0;
    for (size_t i = 0; i < g->n_blame; i++)
        blamed = ips_add_sat(blamed, g->blame[i]->ns);
    const struct rule rules[] = {
        {"what happened during the waits of a group is not the group", blamed,
         g->total_ns, true},
        {"a wait is longer than all waits of its group", g->longest_ns,
         g->total_ns, false},
    };
    CHECK_RULES(&k, rules);
}

static void check_core_time_adds_up(const struct checking *k,
                                    const Ips__IdleRow *r)
{
    const uint64_t parts[] = {
        r->running_ns, r->spun_ns,
        r->others_ns,  r->unknown_ns,
        r->nobody_ns,  r->before_ns,
        r->after_ns,   sum_causes(r->waiting, r->n_waiting)};
    ips_u128 whole = (ips_u128)r->cores * r->elapsed_ns;
    const struct rule rules[] = {
        {"the parts of a machine's core time are not the core time",
         sum_ns(parts, sizeof(parts) / sizeof(*parts)),
         whole < IPS_UNMEASURED ? (uint64_t)whole : IPS_UNMEASURED, true},
    };
    CHECK_RULES(k, rules);
}

void self_check_waits(struct arena *a, struct certificate *c,
                      const Ips__WaitsAnswer *w)
{
    const struct checking k = {a, c};
    const struct rule rules[] = {
        {"the causes of the waits are not the waits",
         sum_causes(w->causes, w->n_causes), w->total_ns, true},
        {"late senders and receivers are more than the waits",
         ips_add_sat(w->late_sender_ns, w->late_receiver_ns), w->total_ns,
         false},
        {"the groups left out are more than all groups", w->left_out_ns,
         w->total_ns, false},
        {"the waits that were not followed are more than the waits", w->cut_ns,
         w->total_ns, false},
    };
    CHECK_RULES(&k, rules);
    for (size_t i = 0; i < w->n_idle; i++)
        check_core_time_adds_up(&k, w->idle[i]);
}

static void check_whatif_row(const struct checking *k, const Ips__WhatifRow *r,
                             uint64_t t_max_ns)
{
    const struct rule rules[] = {
        {"an edit gains more than its part of the path", r->gain_ns,
         r->bound_ns, false},
        {"an edit gains more than the path", r->gain_ns, t_max_ns, false},
        {"the path with an edit and its gain are not the path",
         ips_add_sat(r->t_max_ns, r->gain_ns), t_max_ns, true},
    };
    CHECK_RULES(k, rules);
}

void self_check_whatif(struct arena *a, struct certificate *c,
                       const Ips__WhatifAnswer *w)
{
    const struct checking k = {a, c};
    for (size_t i = 0; i < w->n_edits; i++)
        check_whatif_row(&k, w->edits[i], w->t_max_ns);
    if (w->all)
        check_whatif_row(&k, w->all, w->t_max_ns);
    for (size_t i = 0; i < w->n_ranking; i++)
        check_whatif_row(&k, w->ranking[i], w->t_max_ns);
    for (size_t i = 0; i < w->n_next; i++)
        check_at_most(&k, "a next path is longer than the path", w->next[i]->ns,
                      w->t_max_ns);
}

static void check_metrics_row(const struct checking *k,
                              const Ips__MetricsRow *r)
{
    uint64_t queued = r->wait_cpu_ns == IPS_UNMEASURED ? 0 : r->wait_cpu_ns;
    const uint64_t known[] = {r->cpu_ns, r->blocked_ns, queued};
    uint64_t parts = sum_ns(known, sizeof(known) / sizeof(*known));
    if (parts != IPS_UNMEASURED)
        /* other_ns is signed and may be negative */
        parts += (uint64_t)r->other_ns;
    const struct rule rules[] = {
        {"the parts of the threads' lives are not their lives", parts,
         r->lifetimes_ns, true},
        {"the causes of the waits are not the waits",
         sum_causes(r->waits, r->n_waits), r->wait_ns, true},
        {"threads are blocked for longer than they wait", r->blocked_ns,
         r->wait_ns, false},
    };
    CHECK_RULES(k, rules);
}

static void check_matrix_totals(const struct checking *k,
                                Ips__MatrixTotal *const *totals, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const Ips__MatrixTotal *t = totals[i];
        if (*t->object)
            continue;
        check_equal(k, "more bytes are received than are sent, or fewer",
                    t->bytes_in, t->bytes_out);
        check_equal(k, "more messages are received than are sent, or fewer",
                    t->messages_in, t->messages_out);
    }
}

void self_check_metrics(struct arena *a, struct certificate *c,
                        const Ips__MetricsAnswer *m)
{
    const struct checking k = {a, c};
    for (size_t i = 0; i < m->n_rows; i++)
        check_metrics_row(&k, m->rows[i]);
    check_matrix_totals(&k, m->machine_totals, m->n_machine_totals);
    check_matrix_totals(&k, m->process_totals, m->n_process_totals);
}
