/*
 * Answers why a run takes as long as it does. Gathers the same data as a
 * what-if, in the weighting `wall`. The worker computes facts from it
 * (why/solve.c), to which the rules of why.h are applied. Category 3 of IPS-9.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/types.h"
#include "master/path/weighting.h"
#include "master/query/certificate.h"
#include "master/query/gather.h"
#include "master/query/machine_share.h"
#include "master/query/self_check.h"
#include "master/tables/procs.h"
#include "master/why/facts.h"

/* ---- facts from the tables -------------------------------------------- */

static void set_connection_and_sampling_facts(const struct query *q,
                                              struct why_facts *f)
{
    for (uint32_t i = 0; i < q->gather.count; i++) {
        const Ips__SyncAnswer *s = q->gather.active[i]->sync;
        f->accepted += s->accepted;
    }
    f->sample_ns = gather_max_sample_period_ns(q);
}

/* Sets the facts about the accepted connections and their clients. */
static void set_request_counts_from_channel_tables(const struct query *q,
                                                   struct why_facts *f)
{
    for (uint32_t i = 0; i < q->gather.count; i++) {
        const struct machine_share *p = q->gather.active[i];
        for (uint32_t k = 0; k < p->t.channel_count; k++) {
            const Ips__ChannelRow *c = p->t.channels[k];
            if (!c->serves)
                continue;
            f->asked = ips_add_sat(f->asked, c->recv_messages);
            bool elsewhere = c->end < p->peer_count &&
                             p->peer[c->end].machine < q->gather.count;
            if (c->peer_process < 0 && !c->peer_shared && !elsewhere)
                f->asked_outside =
                    ips_add_sat(f->asked_outside, c->recv_messages);
        }
    }
}

static void compute_why_facts_on_worker_thread(struct query *q)
{
    set_connection_and_sampling_facts(q, &why_data_of(q)->facts);
    why_compute_facts(q);
}

/* ---- making the answer -------------------------------------------------- */

struct filling {
    struct query *q;
    struct why_data *d;
    struct certificate c;
    struct why_findings result;
    Ips__WhyAnswer answer;
};

static void set_facts_from_certificate(struct filling *x)
{
    struct why_facts *f = &x->d->facts;
    const Ips__Certificate *c = &x->c.msg;
    for (size_t i = 0; i < c->n_lost; i++) {
        f->lost = ips_add_sat(f->lost, c->lost[i]->count);
        if (certificate_is_cause_lack_of_space(c->lost[i]->name))
            f->lost_for_space =
                ips_add_sat(f->lost_for_space, c->lost[i]->count);
    }
    f->events = c->events;
    f->untraced = c->untraced_processes;
    f->clock_bound_ns = x->d->w.path.clock_bound_ns;
    f->delay_unknown_ns = weighting_unattributed_delay_ns(x->q);
    f->open = certificate_has_live_process(x->q);
    f->missing_machines = query_is_missing_a_machine(x->q);
    f->elapsed_ns = path_command_elapsed_ns(x->q);
    f->sampled = x->d->w.procedures;
    f->exact = f->sampled && f->sample_ns == 0;
    f->run = x->q->run;
    f->from_ns = x->q->request->why->from_ns;
    f->to_ns = x->q->request->why->to_ns;
    f->window_phase = x->q->request->why->phase;
}

/* Sets the amount HANG. The gain is at most the hang's part of the path; in an
 * open run the path extends to the last event. */
static void find_hang_and_set_amount(struct filling *x)
{
    struct why_facts *f = &x->d->facts;
    if (f->windowed)
        return;
    why_find_hang(x->q);
    uint64_t ns = ips_min_u64(f->hang.ns, f->t_max_wall_ns);
    f->amount[WHY_HANG] = (struct why_amount){.ns = ns,
                                              .gain_ns = ns,
                                              .bound_ns = ns,
                                              .location = f->hang.location,
                                              .other = f->hang.other};
}

static char *text_or_empty(const char *t)
{
    return ips_unconst_text(t ? t : "");
}

static void fill_row(const struct why_finding *from, Ips__WhyRow *to)
{
    ips__why_row__init(to);
    to->kind = text_or_empty(from->kind == WHY_LATE && from->awaits_space
                                 ? WHY_LATE_RECEIVER
                                 : why_kind_name(from->kind));
    to->says = text_or_empty(from->text);
    to->evidence = text_or_empty(from->evidence);
    to->supposes = text_or_empty(from->supposes);
    to->command = text_or_empty(from->command);
    to->path_ns = from->ns;
    to->gain_ns = from->gain_ns;
    to->bound_ns = from->bound_ns;
    to->gain_ppm = from->gain_ppm;
    to->sure = text_or_empty(why_confidence_name(from->sure));
    to->sure_why = text_or_empty(from->sure_why);
    to->object = text_or_empty(from->location.object);
    to->procedure = text_or_empty(from->location.procedure);
    to->module = text_or_empty(from->location.module);
    to->file = text_or_empty(from->location.file);
    to->line = from->location.source_line;
    to->other = text_or_empty(from->other);
    to->wait_procedure = text_or_empty(from->wait_at.procedure);
    to->wait_file = text_or_empty(from->wait_at.file);
    to->wait_line = from->wait_at.source_line;
    to->phase = from->phase;
    to->from_ns = from->from_ns;
    to->to_ns = from->to_ns;
}

static void fill_rows(struct filling *x)
{
    uint64_t top = x->q->request->why->top;
    size_t n = x->result.count;
    x->answer.left_out = x->result.left_out;
    if (top && top < n) {
        x->answer.left_out += n - top;
        n = (size_t)top;
    }
    Ips__WhyRow *rows = arena_alloc(&x->d->a, (n + 1) * sizeof(*rows));
    x->answer.findings =
        arena_alloc(&x->d->a, (n + 1) * sizeof(*x->answer.findings));
    if (!rows || !x->answer.findings)
        return;
    for (size_t i = 0; i < n; i++) {
        fill_row(&x->result.finding[i], &rows[i]);
        x->answer.findings[x->answer.n_findings++] = &rows[i];
    }
    if (x->result.has_nearest) {
        fill_row(&x->result.nearest, &rows[n]);
        x->answer.nearest = &rows[n];
    }
}

static void fill_certificate(struct filling *x)
{
    const struct path_data *d = &x->d->w.path;
    certificate_fill(x->q, &x->d->a, &x->c);
    x->c.msg.unmatched += d->unmatched;
    x->c.msg.any_on_path = x->d->w.resources;
    x->c.msg.run_delay_unknown_ns = weighting_unattributed_delay_ns(x->q);
    certificate_report_waits_with_unknown_waker(
        &x->d->a, &x->c, x->d->facts.unended_ns, x->d->facts.t_max_wall_ns,
        true);
    x->c.msg.engine =
        ips_unconst_text("central (why: all events at the master)");
    x->c.msg.message_times = path_message_times_text(
        x->q, &x->d->a, &d->scenarios[SCENARIO_MAIN].scenario);
    if (weighting_clock_alignment_text(d))
        x->c.msg.clock = ips_unconst_text(weighting_clock_alignment_text(d));
    if (!x->d->w.procedures) {
        char none[PROCS_NONE_BYTES];
        procs_explain_missing_procedures(x->d->facts.sample_ns, none);
        certificate_add_note(&x->d->a, &x->c, none);
    }
}

static void fill_common_caller(struct filling *x)
{
    const struct why_common *c = &x->d->facts.common;
    Ips__WhyCommon *to = arena_alloc(&x->d->a, sizeof(*to));
    if (c->ns == 0 || !to)
        return;
    ips__why_common__init(to);
    to->procedure = text_or_empty(c->location.procedure);
    to->module = text_or_empty(c->location.module);
    to->file = text_or_empty(c->location.file);
    to->line = c->location.source_line;
    to->ns = c->ns;
    to->low_ns = c->low_ns;
    to->high_ns = c->high_ns;
    to->of_ns = c->of_ns;
    x->answer.common = to;
}

/* Lowers the confidence of all findings if the answer contradicts itself. */
static void lower_confidence_if_inconsistent(struct filling *x)
{
    static char low[] = "low", why[] = "the answer contradicts itself";
    size_t gaps = x->c.msg.n_gaps;
    self_check_why(&x->d->a, &x->c, &x->answer);
    if (x->c.msg.n_gaps == gaps)
        return;
    x->answer.sure = low;
    x->answer.sure_why = why;
    for (size_t i = 0; i < x->answer.n_findings; i++) {
        x->answer.findings[i]->sure = low;
        x->answer.findings[i]->sure_why = why;
    }
}

static void fill_answer_fields_and_check_consistency(struct filling *x)
{
    const struct why_facts *f = &x->d->facts;
    Ips__WhyAnswer *a = &x->answer;
    a->answers = ips_unconst_text("turnaround");
    a->shape = ips_unconst_text(x->result.service ? "service" : "batch");
    a->shape_says = text_or_empty(x->result.shape_text);
    a->sure = text_or_empty(why_confidence_name(x->result.sure));
    a->sure_why = text_or_empty(x->result.sure_why);
    a->elapsed_ns = f->elapsed_ns;
    a->wall_ns = f->t_max_wall_ns;
    a->own_ns = why_time_without_other_programs_ns(f);
    a->quiet_ns = f->quiet_ns;
    a->sched_ns = f->t_max_sched_ns;
    a->cpu_ns = f->t_max_cpu_ns;
    a->total_cpu_ns = f->total_cpu_ns;
    a->on_cpu_ns = f->path_cpu_ns;
    a->run_delay_ns = f->path_delay_ns;
    a->outside_ns = f->path_outside_ns + f->path_before_ns;
    a->crossing_ns = f->path_message_ns;
    a->other_ns = f->path_other_ns;
    a->open = f->open;
    fill_common_caller(x);
    a->from_ns = f->from_ns;
    a->to_ns = f->to_ns;
    a->goal = ips_unconst_text(x->d->w.path.goal_text);
    a->category = ips_unconst_text("3");
    a->certificate = &x->c.msg;
    certificate_set_category_and_source(x->q, &x->d->a, &x->c, 3,
                                        "the slaves' graphs");
    a->took_ns = x->c.msg.took_ns;
    lower_confidence_if_inconsistent(x);
}

static void send_answer(struct filling *x)
{
    Ips__Reply reply = IPS__REPLY__INIT;
    reply.answer_case = IPS__REPLY__ANSWER_WHY;
    reply.why = &x->answer;
    /* the reply's strings must outlive the question's data */
    struct arena a = x->d->a;
    x->d->a = (struct arena){0};
    query_answer(x->q, &reply);
    arena_release(&a);
}

static void answer_why(struct query *q)
{
    struct filling x = {
        .q = q, .d = why_data_of(q), .answer = IPS__WHY_ANSWER__INIT};
    struct ips_err err = {0};
    fill_certificate(&x);
    set_facts_from_certificate(&x);
    find_hang_and_set_amount(&x);
    bool fine = why_apply_rules(&x.d->facts, &x.d->a, &x.result);
    fill_rows(&x);
    fill_answer_fields_and_check_consistency(&x);
    if (!fine || x.d->a.failed) {
        ips_err_set(&err, IPS_E_NO_MEMORY, "no memory for the answer");
        query_fail(q, &err);
        return;
    }
    send_answer(&x);
}

/* ---- handling the question ---------------------------------------------- */

/* If the run is a service and the question does not say which kind of answer it
 * wants, replies at once that the run is a service, and returns true. The
 * client then asks `requests` (requests/query.c). */
static bool answer_at_once_if_service(struct query *q)
{
    struct filling x = {
        .q = q, .d = why_data_of(q), .answer = IPS__WHY_ANSWER__INIT};
    set_request_counts_from_channel_tables(q, &x.d->facts);
    if (*q->request->why->answer || *q->request->why->goal ||
        !why_is_service(&x.d->facts))
        return false;
    certificate_fill(q, &x.d->a, &x.c);
    certificate_set_category_and_source(q, &x.d->a, &x.c, 2,
                                        "the slaves' tables");
    x.answer.shape = ips_unconst_text("service");
    x.answer.certificate = &x.c.msg;
    x.answer.took_ns = x.c.msg.took_ns;
    send_answer(&x);
    return true;
}

static int check_ask(const Ips__WhyAsk *ask, struct ips_err *err)
{
    if (!*ask->answer || strcmp(ask->answer, "turnaround") == 0)
        return 0;
    return ips_err_set(err, IPS_E_USAGE,
                       "--for %.40s: turnaround, latency or throughput",
                       ask->answer);
}

static void start_why(struct query *q)
{
    struct ips_err err = {0};
    const Ips__WhyAsk *from = q->request->why;
    int rc = check_ask(from, &err);
    struct why_data *d = rc == 0 ? calloc(1, sizeof(*d)) : NULL;
    if (rc == 0 && !d)
        rc = ips_err_set(&err, IPS_E_NO_MEMORY, "no memory");
    if (rc < 0) {
        query_fail(q, &err);
        return;
    }
    q->data = d;
    ips__whatif_ask__init(&d->ask);
    ips__lane__init(&d->scenario);
    d->scenario.scale_num = d->scenario.scale_den = 1;
    d->scenario.calibrated = !from->uncalibrated;
    d->ask.lane = &d->scenario;
    d->ask.weighting = ips_unconst_text("wall");
    d->ask.goal = from->goal;
    d->ask.from_ns = from->from_ns;
    d->ask.to_ns = from->to_ns;
    d->waits.cut = d->waits.callers = true;
    d->ask.rank = true;
    d->ask.rank_ppm = WHY_HALF_PPM;
    d->w.ask = &d->ask;
    d->w.raw = true;
    d->w.waits = &d->waits;
    d->w.node_bytes = WHY_NODE_BYTES;
    d->w.gathered = answer_at_once_if_service;
    d->w.solve = compute_why_facts_on_worker_thread;
    d->w.answer = answer_why;
    whatif_check_ask_and_gather(q);
}

static void release_why(struct query *q)
{
    if (q->data) {
        arena_release(&why_data_of(q)->a);
        waits_release(&why_data_of(q)->waits);
    }
    whatif_release(q);
}

const struct query_kind query_why = {.name = "why",
                                     .exclusive = true,
                                     .start = start_why,
                                     .release = release_why,
                                     .keeps = true};
