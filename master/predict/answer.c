/* Makes the answer to `predict`, with its assumptions in words. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/types.h"
#include "master/path/weighting.h"
#include "master/predict/query.h"
#include "master/query/certificate.h"
#include "master/query/self_check.h"

/* predict_run.off_ns is reported if it is more than 1/OFF_PARTS of the CPU time
 */
#define OFF_PARTS 50u

struct filling {
    struct query *q;
    struct predict_query *d;
    struct arena *a;
    struct certificate *c;
    Ips__PredictAnswer *out;
};

static const char *const kinds[PREDICT_ROW_KINDS] = {
    "machine", "process", "procedure", "message", "external", "external"};

static double ratio_to_double(struct ips_ratio r, double otherwise)
{
    return r.den ? (double)r.num / (double)r.den : otherwise;
}

static void append_rows_of_used_machines(const struct filling *f)
{
    const struct predict_setup *s = &f->d->setup;
    size_t n = s->machine_count;
    Ips__PredictUse *rows = arena_alloc(f->a, (n + 1) * sizeof(*rows));
    f->out->machines = arena_alloc(f->a, (n + 1) * sizeof(*f->out->machines));
    for (uint32_t m = 0; rows && f->out->machines && m < n; m++) {
        const struct predict_use *use = &f->d->then.use[m];
        Ips__PredictUse *to = &rows[m];
        if (use->threads == 0 && use->cpu_ns == 0)
            continue;
        ips__predict_use__init(to);
        to->machine = arena_printf(f->a, "%s", s->machine[m].name);
        to->cores = s->machine[m].is.cores;
        to->speed = ratio_to_double(s->machine[m].is.speed, 1);
        to->load = ratio_to_double(s->machine[m].is.load, 0);
        to->taken = ratio_to_double(s->machine[m].load, 0);
        to->recorded = s->machine[m].recorded;
        to->threads = use->threads;
        to->cpu_ns = use->cpu_ns;
        to->queued_ns = use->queued_ns;
        to->idle_ns = use->idle_ns;
        f->out->machines[f->out->n_machines++] = to;
    }
}

static void fill_network_media(const struct filling *f)
{
    const struct predict_setup *s = &f->d->setup;
    size_t n = s->medium_count;
    Ips__PredictMedium *rows = arena_alloc(f->a, (n + 1) * sizeof(*rows));
    f->out->media = arena_alloc(f->a, (n + 1) * sizeof(*f->out->media));
    for (uint32_t k = 0; rows && f->out->media && k < n; k++) {
        ips__predict_medium__init(&rows[k]);
        rows[k].medium = arena_printf(f->a, "%s", s->medium_name[k]);
        rows[k].busy_ns = f->d->then.shared_ns[k];
        f->out->media[f->out->n_media++] = &rows[k];
    }
}

static void fill_predicted_path_row(const struct filling *f,
                                    const struct predict_row *from,
                                    Ips__PredictRow *to)
{
    const struct entities *t = &f->d->w.t;
    const struct predict_setup *s = &f->d->setup;
    char name[ENTITY_NAME_BYTES];
    ips__predict_row__init(to);
    to->kind = ips_unconst_text(kinds[from->kind]);
    to->ns = from->ns;
    to->queued_ns = from->queued_ns;
    to->count = from->count;
    if (from->kind == PREDICT_MACHINE) {
        to->object = arena_printf(f->a, "%s", s->machine[from->id].name);
    } else if (from->kind == PREDICT_PROCEDURE) {
        to->object = arena_printf(f->a, "%s", t->procedure[from->id].name);
        to->place = ips_unconst_text(t->procedure[from->id].module);
    } else if (from->kind == PREDICT_IDLE) {
        to->object =
            arena_printf(f->a, "%s -> idle",
                         entities_write_feature_name(t, from->id, name) + 1);
    } else {
        to->object = arena_printf(
            f->a, "%s", entities_write_feature_name(t, from->id, name));
    }
    if (from->kind != PREDICT_MACHINE && from->machine != PREDICT_NOWHERE)
        to->machine = arena_printf(f->a, "%s", s->machine[from->machine].name);
}

/* Adds the path's largest rows of each kind, as many as the question asks
 * for. */
static void fill_path(const struct filling *f)
{
    const struct predict_answer *then = &f->d->then;
    uint64_t top = f->q->request->predict->top, of_kind = 0;
    size_t n = then->row_count, left = 0;
    Ips__PredictRow *rows = arena_alloc(f->a, (n + 1) * sizeof(*rows));
    f->out->path = arena_alloc(f->a, (n + 1) * sizeof(*f->out->path));
    if (top == 0 || top > WHATIF_ROWS_MAX)
        top = WHATIF_ROWS_MAX;
    for (size_t i = 0; rows && f->out->path && i < n; i++) {
        bool same = i && then->row[i].kind == then->row[i - 1].kind;
        of_kind = same ? of_kind + 1 : 1;
        if (of_kind > top) {
            left++;
            continue;
        }
        fill_predicted_path_row(f, &then->row[i], &rows[i]);
        f->out->path[f->out->n_path++] = &rows[i];
    }
    if (left)
        certificate_add_detail(
            f->a, f->c,
            arena_printf(f->a, "%zu smaller rows of the path are left out",
                         left));
}

/* ---- assumptions ------------------------------------------------------ */

static bool used_new_machine_lacks_speed(const struct predict_setup *s,
                                         uint32_t m)
{
    bool used = false;
    for (uint32_t c = 0; c < s->chain_count && !used; c++)
        used = s->map[c] == m;
    return used && !s->machine[m].recorded && s->machine[m].is.speed.den == 0;
}

/* Whether some process has several threads, which might have shared a lock. */
static bool has_multithreaded_process(const struct ips_graph *g)
{
    for (uint32_t c = 1; c < g->chain_count; c++)
        if (g->chains[c].machine == g->chains[c - 1].machine &&
            g->chains[c].process == g->chains[c - 1].process)
            return true;
    return false;
}

static void fill_lock_mode_and_add_assumptions(const struct filling *f)
{
    const struct predict_query *d = f->d;
    struct predict_assumptions *said = &f->d->said;
    bool all = d->run.all_locks;
    f->out->locks = ips_unconst_text(all ? "all" : "contended");
    if (d->then.units_taken)
        predict_add_assumption(
            said,
            "the replay decides again which thread gets a lock next, %" PRIu64
            " times: first come, first served",
            d->then.units_taken);
    if (!all &&
        (d->then.units_taken || has_multithreaded_process(d->run.whole)))
        predict_add_assumption(
            said, "only contended locks were recorded: with more cores "
                  "threads may wait for other locks, too (ipsrun --locks=all "
                  "records all)");
    if (d->then.kept_count)
        predict_add_assumption(
            said,
            "%u locks keep the recorded order: a new order would make "
            "threads wait for each other forever",
            d->then.kept_count);
}

static void fill_queue_results_and_add_assumption(const struct filling *f)
{
    const struct predict_query *d = f->d;
    const struct predict_answer *then = &d->then;
    bool some = predict_has_queues(&d->run);
    f->out->queues = ips_unconst_text(then->is_stable ? "settled"
                                      : some          ? "recorded"
                                                      : "none");
    f->out->pieces = then->pieces;
    f->out->pieces_anew = then->anew;
    if (then->is_stable)
        predict_add_assumption(
            &f->d->said,
            "the replay decides again which worker takes each of %" PRIu64
            " pieces of work, first come, first served: %" PRIu64
            " go to another worker than in the recording",
            then->pieces, then->anew);
    else if (some)
        predict_add_assumption(
            &f->d->said,
            "pieces of work go to the same workers as in the recording "
            "(with a real work queue a faster worker would take more)");
}

/* Reports threads that are started, or whose end is awaited, from another
 * machine, although they were on the same machine when recorded. */
static void add_remote_start_and_end_assumption(const struct filling *f)
{
    const struct predict_query *d = f->d;
    const struct ips_graph *g = &d->run.replay.g;
    uint64_t apart = 0;
    for (uint32_t c = 0; c < g->chain_count; c++) {
        const struct ips_chain *is = &g->chains[c];
        for (uint32_t i = is->first; i < is->first + is->count; i++) {
            if (g->xkind[i] != IPS_X_LIFETIME || g->xpred[i] == IPS_NO_NODE)
                continue;
            uint32_t from = ips_chain_of(g, g->xpred[i]);
            apart += g->chains[from].machine == is->machine &&
                     d->setup.map[from] != d->setup.map[c];
        }
    }
    if (apart)
        predict_add_assumption(
            &f->d->said,
            "%" PRIu64 " begins and ends (of threads, processes, connections) "
            "take no time between machines: how they travel is not "
            "known",
            apart);
}

static void add_all_assumptions(const struct filling *f)
{
    char names[PREDICT_NAMES_BYTES];
    struct predict_query *d = f->d;
    struct predict_assumptions *said = &d->said;
    const struct ips_scenario *scenario = &d->run.scenario_then;
    if (!scenario->message_time.base_ns &&
        !scenario->message_time.per_byte_q32 && !d->setup.message_time)
        predict_add_assumption(
            said, "messages take no time except the CPU time of their ends: "
                  "they are neither calibrated nor given (--mtime)");
    if (scenario->external == IPS_EXTERNAL_ALL && d->run.outside)
        predict_add_assumption(
            said, "waits for something not recorded (replies, disks, timers) "
                  "take as long as in the recording");
    if (d->run.held_back_count)
        predict_add_assumption(
            said,
            "%" PRIu64 " messages were in transit %.1f ms longer than their "
            "length explains, as when TCP delays data after an "
            "unacknowledged message: the replay repeats this delay",
            d->run.held_back_count, (double)d->run.held_back_ns / 1e6);
    if (d->run.off_ns > d->w.path.est.total / OFF_PARTS)
        predict_add_assumption(
            said,
            "%.1f ms in which threads were off the CPU are left out: "
            "polls that timed out, page faults, stolen time",
            (double)d->run.off_ns / 1e6);
    fill_lock_mode_and_add_assumptions(f);
    fill_queue_results_and_add_assumption(f);
    add_remote_start_and_end_assumption(f);
    if (d->then.resources)
        predict_add_assumption(
            said,
            "%" PRIu64
            " waits for conditions, read locks, semaphores and similar "
            "keep the recorded order",
            d->then.resources);
    if (predict_write_machine_names(&d->setup, used_new_machine_lacks_speed,
                                    names))
        predict_add_assumption(
            said,
            "no speed= was given for %s: assumed 1, the speed of the "
            "recorded cores",
            names);
    f->out->n_assumed = said->count;
    f->out->assumed = said->text;
}

static void fill_predicted_totals(const struct filling *f)
{
    const struct predict_query *d = f->d;
    Ips__PredictAnswer *out = f->out;
    out->makespan_ns = d->then.makespan_ns;
    out->command_ns = d->then.command_ns;
    out->t_max_ns = d->then.t_max_ns;
    out->total_cpu_ns = d->then.cpu_ns;
    out->p = d->then.p;
    out->p_path = d->then.p_path;
    out->recorded_cpu_ns = d->w.path.est.total;
    out->p_max = d->t_max_free_ns
                     ? (double)d->w.path.est.total / (double)d->t_max_free_ns
                     : IPS_UNMEASURED_REAL;
    out->rho = d->then.rho;
    out->own_makespan_ns = d->own.makespan_ns;
    out->own_command_ns = d->own.command_ns;
    out->own_loaded_ns = d->own_loaded_ns;
    out->own_load = d->own_load;
    out->elapsed_ns = path_command_elapsed_ns(f->q);
    out->events = d->then.events;
    out->open = certificate_run_is_open(f->q);
    out->goal = ips_unconst_text(d->w.path.goal_text);
    out->category = ips_unconst_text("3");
}

void predict_send_answer(struct query *q)
{
    struct predict_query *d = predict_query_of(q);
    struct arena a = {0};
    struct certificate c;
    struct ips_err err = {0};
    Ips__PredictAnswer answer = IPS__PREDICT_ANSWER__INIT;
    struct filling f = {q, d, &a, &c, &answer};
    certificate_fill(q, &a, &c);
    c.msg.unmatched += d->w.path.unmatched;
    c.msg.any_on_path = d->w.resources;
    certificate_set_category_and_source(q, &a, &c, 3,
                                        "the slaves' graphs, replayed");
    c.msg.engine = ips_unconst_text(
        "central (replay with processor sharing at the master)");
    c.msg.message_times =
        d->times.count ? ips_unconst_text(
                             "as measured by ipsq calibrate, each pair's curve")
                       : path_message_times_text(q, &a, &d->run.scenario_then);
    fill_predicted_totals(&f);
    append_rows_of_used_machines(&f);
    fill_network_media(&f);
    fill_path(&f);
    predict_fill_answer_with_order_dependence(q, &a, &c, &answer);
    if (q->request->predict->search)
        predict_fill_answer_with_search(q, &a, &answer);
    self_check_predicted_not_below_bound(&a, &c, d->own.last_ns,
                                         d->own.least_ns);
    self_check_predicted_not_below_bound(&a, &c, d->then.last_ns,
                                         d->then.least_ns);
    self_check_search(&a, &c, &answer);
    add_all_assumptions(&f);
    answer.certificate = &c.msg;
    answer.took_ns = master_now_ns() - q->begun_ns;
    if (a.failed || d->a.failed) {
        ips_err_set(&err, IPS_E_NO_MEMORY, "no memory for the answer");
        query_fail(q, &err);
    } else if (ips__predict_answer__get_packed_size(&answer) >
               QUERY_REPLY_BYTES) {
        ips_err_set(&err, IPS_E_LIMIT,
                    "the answer does not fit a message: ask for less (--top)");
        query_fail(q, &err);
    } else {
        /* the reply's strings must outlive the question's data */
        struct arena texts = d->a;
        d->a = (struct arena){0};
        Ips__Reply reply = IPS__REPLY__INIT;
        reply.answer_case = IPS__REPLY__ANSWER_PREDICT;
        reply.predict = &answer;
        query_answer(q, &reply);
        arena_release(&texts);
    }
    arena_release(&a);
}
