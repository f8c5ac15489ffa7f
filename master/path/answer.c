/* Makes the answer to a path question: shares, segments, the certificate. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/types.h"
#include "master/path/engine.h"
#include "master/path/query_profile.h"
#include "master/path/top_segments.h"
#include "master/path/weighting.h"
#include "master/query/certificate.h"
#include "master/query/machine_share.h"
#include "master/query/self_check.h"

#define SEGMENTS_A_REPLY 4096
#define MAX_SHARES 10000 /* maximum number of rows in one list of shares */

static const struct machine_share *machine_at(const struct query *q,
                                              uint32_t number)
{
    return q->gather.active[number];
}

static const char *format_share_row_name(const struct query *q, struct arena *a,
                                         const struct share_row *row,
                                         enum share_list list)
{
    const struct machine_share *p = machine_at(q, (uint32_t)(row->a >> 32));
    const char *name = machine_share_process_name(p, (uint32_t)row->a);
    if (list == SHARE_MACHINE)
        return arena_printf(a, "/%s", p->machine);
    if (list == SHARE_PROCESS)
        return arena_printf(a, "/%s/%s", p->machine, name);
    if (list == SHARE_THREAD)
        return arena_printf(a, "/%s/%s/%" PRIu64, p->machine, name, row->b);
    if (list == SHARE_OUTSIDE)
        return arena_printf(a, "%s/%s -> %s", p->machine, name,
                            row->b == SHARE_EXTERNAL ? "external" : "idle");
    const struct machine_share *o = machine_at(q, (uint32_t)(row->b >> 32));
    return arena_printf(a, "%s/%s -> %s/%s", p->machine, name, o->machine,
                        machine_share_process_name(o, (uint32_t)row->b));
}

static Ips__Share **fill_shares(const struct query *q, struct arena *a,
                                const struct shares *s, enum share_list list,
                                size_t *count, struct certificate *c)
{
    static const char *const names[] = {"machine", "process", "thread",
                                        "message", "outside cause"};
    size_t n = s->count[list] < MAX_SHARES ? s->count[list] : MAX_SHARES;
    Ips__Share **out = arena_alloc(a, (n + 1) * sizeof(*out));
    if (n < s->count[list])
        certificate_add_detail(
            a, c,
            arena_printf(a, "%zu smaller shares by %s are left out",
                         s->count[list] - n, names[list]));
    *count = 0;
    for (size_t i = 0; i < n && out; i++) {
        const struct share_row *row = &s->row[list][i];
        Ips__Share *share = arena_alloc(a, sizeof(*share));
        if (!share)
            break;
        ips__share__init(share);
        share->object =
            ips_unconst_text(format_share_row_name(q, a, row, list));
        share->ns = row->ns;
        share->count = row->count;
        share->stable = row->stable;
        share->ns_low = row->ns_low;
        share->ns_high = row->ns_high;
        out[(*count)++] = share;
    }
    return out;
}

/* Compares the shares with those of the other scenarios, and lists the
 * scenarios in the certificate. A scenario that was not computed has the same
 * path as the main one. */
static void compare_and_report_scenarios(struct path_data *d, struct arena *a,
                                         struct certificate *c)
{
    for (int id = SCENARIO_HALF; id < SCENARIOS; id++) {
        struct scenario_result *r = &d->scenarios[id];
        bool same = true;
        if ((id == SCENARIO_NO_ANY || id == SCENARIO_NO_PROBE) && !r->wanted)
            /* not computed, mostly because the run has no order-dependent arcs
             * or no probe cost: not listed */
            continue;
        if (id == SCENARIO_NO_EXTERNAL &&
            r->scenario.weighting == IPS_WEIGH_WALL)
            continue;
        if (r->wanted) {
            struct shares *scenario = &r->shares;
            shares_update_stability_by_scenarios(
                &d->scenarios[SCENARIO_MAIN].shares, &scenario, 1, &same);
        }
        Ips__LaneResult *row = arena_alloc(a, sizeof(*row));
        if (!row ||
            !arena_reserve_array_slot(a, &c->msg.lanes, c->msg.n_lanes,
                                      &c->scenario_cap, sizeof(*c->msg.lanes)))
            return;
        ips__lane_result__init(row);
        row->lane = ips_unconst_text(r->name);
        row->t_max_ns =
            r->wanted ? r->t_max : d->scenarios[SCENARIO_MAIN].t_max;
        row->same_order = same;
        c->msg.lanes[c->msg.n_lanes++] = row;
    }
}

char *path_message_times_text(const struct query *q, struct arena *a,
                              const struct ips_scenario *scenario)
{
    const struct ips_message_time *m = &scenario->message_time;
    if (scenario->calibrated)
        return arena_printf(a, "%s", q->gather.message_times_text);
    if (scenario->weighting == IPS_WEIGH_WALL && !m->base_ns &&
        !m->per_byte_q32)
        return ips_unconst_text("as measured; 0 if the receiver did not wait");
    if (m->base_ns == 0 && m->per_byte_q32 == 0)
        return ips_unconst_text("0 (not calibrated)");
    return arena_printf(
        a, "%" PRIu64 " ns + %.6f ns a byte, times %u/%u (given)", m->base_ns,
        (double)m->per_byte_q32 / 4294967296.0, m->scale_num, m->scale_den);
}

/* Adds a note if messages cross machines on the path and take no time there
 * only because none was measured. */
static void add_note_if_messages_not_measured(const struct query *q,
                                              const struct path_data *d,
                                              struct arena *a,
                                              struct certificate *c)
{
    const struct scenario_result *main = &d->scenarios[SCENARIO_MAIN];
    if (q->gather.count > 1 && q->calibrate && !main->scenario.calibrated &&
        main->shares.messages > 0 && main->scenario.weighting != IPS_WEIGH_WALL)
        certificate_add_note(a, c,
                             "messages take no time in this answer, because "
                             "none was measured: `ipsq calibrate` measures "
                             "them, --mtime gives a time");
}

static void fill_completeness_certificate(const struct query *q,
                                          struct path_data *d, struct arena *a,
                                          struct certificate *c)
{
    certificate_fill(q, a, c);
    c->msg.unmatched += d->unmatched;
    c->msg.any_on_path = d->scenarios[SCENARIO_MAIN].shares.resources;
    certificate_set_category_and_source(q, a, c, 3, "the slaves' graphs");
    c->msg.engine = ips_unconst_text(d->engine_text);
    c->msg.message_times =
        path_message_times_text(q, a, &d->scenarios[SCENARIO_MAIN].scenario);
    if (weighting_clock_alignment_text(d))
        c->msg.clock = ips_unconst_text(weighting_clock_alignment_text(d));
    if (d->scenarios[SCENARIO_MAIN].scenario.weighting != IPS_WEIGH_CPU)
        c->msg.run_delay_unknown_ns = weighting_unattributed_delay_ns(q);
    const struct scenario_result *longest = &d->scenarios[SCENARIO_UNENDED];
    uint64_t t_max = d->scenarios[SCENARIO_MAIN].t_max;
    bool wall =
        d->scenarios[SCENARIO_MAIN].scenario.weighting == IPS_WEIGH_WALL;
    uint64_t more = longest->wanted ? ips_sub_sat(longest->t_max, t_max) : 0;
    certificate_report_waits_with_unknown_waker(
        a, c, wall ? d->unended_ns : more, t_max, wall);
    add_note_if_messages_not_measured(q, d, a, c);
    if (*d->pdm_note)
        certificate_add_note(a, c, d->pdm_note);
    if (*d->relay_note)
        certificate_add_note(a, c, d->relay_note);
    if (q->restarts > 0)
        certificate_add_detail(
            a, c,
            "a slave or its data changed, and the answer was computed again");
    compare_and_report_scenarios(d, a, c);
}

/* Returns the elapsed time of the run's command; IPS_UNMEASURED: not known. */
uint64_t path_command_elapsed_ns(const struct query *q)
{
    for (uint32_t i = 0; i < q->gather.count; i++) {
        const Ips__SyncAnswer *s = q->gather.active[i]->sync;
        if (s->state->has_root && s->goal_elapsed_ns)
            return s->goal_elapsed_ns;
    }
    return IPS_UNMEASURED;
}

/* Returns the time from the start of the run's command to the last record, for
 * a run on one machine; else IPS_UNMEASURED. */
static uint64_t run_length_if_on_one_machine_ns(const struct query *q)
{
    const Ips__SyncAnswer *s =
        q->gather.count == 1 ? q->gather.active[0]->sync : NULL;
    return s && s->root_start_ns && s->last_ns
               ? ips_sub_sat(s->last_ns, s->root_start_ns)
               : IPS_UNMEASURED;
}

/* Returns the rho of DPM-10: parallelism per core. It uses the actual number of
 * cores; the papers assume one core per machine. */
static double compute_parallelism_per_core(const struct query *q,
                                           double parallelism)
{
    uint64_t cores = 0;
    for (uint32_t i = 0; i < q->gather.count; i++)
        cores += q->gather.active[i]->sync->cores;
    return cores && parallelism != IPS_UNMEASURED_REAL
               ? parallelism / (double)cores
               : IPS_UNMEASURED_REAL;
}

static void fill_path_totals(const struct query *q, const struct path_data *d,
                             Ips__PathAnswer *out)
{
    const struct scenario_result *main = &d->scenarios[SCENARIO_MAIN];
    const struct scenario_result *free_scenario = &d->scenarios[SCENARIO_FREE];
    uint64_t least = free_scenario->wanted ? free_scenario->t_max : main->t_max;
    out->weighting = ips_unconst_text(weighting_name(main->scenario.weighting));
    out->goal = ips_unconst_text(d->goal_text);
    path_profile_fill_cpu_time_split(q, out);
    out->engine = ips_unconst_text(d->engine);
    out->t_max_ns = main->t_max;
    out->total_cpu_ns = d->total_cpu_ns;
    out->parallelism = main->t_max
                           ? (double)d->total_cpu_ns / (double)main->t_max
                           : IPS_UNMEASURED_REAL;
    out->p_max =
        least ? (double)d->total_cpu_ns / (double)least : IPS_UNMEASURED_REAL;
    out->rho = main->scenario.weighting == IPS_WEIGH_CPU
                   ? compute_parallelism_per_core(q, out->parallelism)
                   : IPS_UNMEASURED_REAL;
    uint64_t window_ns;
    (void)path_profile_pieces(q, &out->segment_count);
    out->messages = path_profile_shares(q, &window_ns)->messages;
    out->elapsed_ns = path_command_elapsed_ns(q);
    out->lasted_ns = run_length_if_on_one_machine_ns(q);
    out->category = ips_unconst_text("3");
    out->took_ns = master_now_ns() - q->begun_ns;
    out->open = certificate_run_is_open(q);
}

static void fill_cost(const struct path_data *d, Ips__EngineCost *out)
{
    out->rounds = d->cost.rounds;
    out->values = d->cost.values;
    out->messages = d->cost.messages;
    out->bytes = d->cost.bytes;
    out->relayed = d->cost.relayed;
}

/* Returns true if the path must be as long as the command's elapsed time: it
 * covers the run from its start to the end of the command, on one machine, with
 * everything recorded. */
static bool must_path_equal_command_time(const struct query *q,
                                         const struct path_data *d,
                                         const struct certificate *c)
{
    const Ips__PathAsk *ask = q->request->path;
    const struct ips_scenario *scenario = &d->scenarios[SCENARIO_MAIN].scenario;
    return c->msg.complete && q->gather.count == 1 && !*ask->goal &&
           scenario->weighting == IPS_WEIGH_WALL &&
           !scenario->order_dependent_off && !scenario->probe_off &&
           scenario->external == IPS_EXTERNAL_REPLY;
}

/* Returns the length of the path if messages take no time, which cannot exceed
 * the elapsed time of the run. IPS_UNMEASURED: not computed. */
static uint64_t path_length_if_messages_take_no_time(const struct query *q,
                                                     const struct path_data *d)
{
    const struct scenario_result *main = &d->scenarios[SCENARIO_MAIN];
    const struct scenario_result *without = &d->scenarios[SCENARIO_FREE];
    if (main->scenario.weighting != IPS_WEIGH_CPU ||
        main->scenario.external == IPS_EXTERNAL_ALL)
        return IPS_UNMEASURED;
    for (uint32_t i = 0; i < q->gather.count; i++)
        if (q->gather.active[i]->sync->tasks)
            /* a program that marks tasks gives their CPU times itself, and
             * these need not agree with the run's */
            return IPS_UNMEASURED;
    return without->wanted ? without->t_max : main->t_max;
}

static void send_last_path_reply(struct query *q)
{
    struct path_data *d = path_data_of(q);
    uint64_t window_ns;
    const struct shares *s = path_profile_shares(q, &window_ns);
    struct arena a = {0};
    struct certificate c;
    struct ips_err err = {0};
    Ips__PathAnswer answer = IPS__PATH_ANSWER__INIT;
    fill_completeness_certificate(q, d, &a, &c);
    fill_path_totals(q, d, &answer);
    answer.by_machine =
        fill_shares(q, &a, s, SHARE_MACHINE, &answer.n_by_machine, &c);
    answer.by_process =
        fill_shares(q, &a, s, SHARE_PROCESS, &answer.n_by_process, &c);
    answer.by_message =
        fill_shares(q, &a, s, SHARE_MESSAGE, &answer.n_by_message, &c);
    Ips__EngineCost cost = IPS__ENGINE_COST__INIT;
    fill_cost(d, &cost);
    answer.cost = &cost;
    answer.by_external =
        fill_shares(q, &a, s, SHARE_OUTSIDE, &answer.n_by_external, &c);
    if (path_profile_asks_shares_by(q->request->path, "thread"))
        answer.by_thread =
            fill_shares(q, &a, s, SHARE_THREAD, &answer.n_by_thread, &c);
    answer.window_ns = window_ns;
    path_profile_fill_last_reply(q, &a, &c, &answer);
    self_check_path(&a, &c, &answer, must_path_equal_command_time(q, d, &c));
    self_check_path_not_above_run(&a, &c, &answer,
                                  path_length_if_messages_take_no_time(q, d));
    answer.certificate = &c.msg;
    if (a.failed) {
        ips_err_set(&err, IPS_E_NO_MEMORY, "no memory for the answer");
        query_fail(q, &err);
    } else {
        Ips__Reply reply = IPS__REPLY__INIT;
        reply.answer_case = IPS__REPLY__ANSWER_PATH;
        reply.path = &answer;
        query_answer(q, &reply);
    }
    arena_release(&a);
}

static const char *segment_kind_text(const struct path_piece *p)
{
    if (p->kind == IPS_SEG_COMPUTE)
        return "compute";
    return p->kind == IPS_SEG_EXTERNAL ? "external" : "message";
}

static const char *cross_arc_kind_name(const struct path_piece *p)
{
    static const char *const names[] = {
#define X(name, number, text) [number] = (text),
        IPS_XKINDS(X)
#undef X
    };
    return p->kind == IPS_SEG_COMPUTE ? "" : names[p->xkind];
}

static void fill_segment(const struct query *q, struct arena *a,
                         const struct path_piece *p, Ips__Segment *s)
{
    const struct machine_share *part = machine_at(q, p->at.machine);
    ips__segment__init(s);
    s->kind = ips_unconst_text(segment_kind_text(p));
    s->arc = ips_unconst_text(cross_arc_kind_name(p));
    s->machine = ips_unconst_text(part->machine);
    s->process =
        ips_unconst_text(machine_share_process_name(part, p->at.process));
    s->thread = arena_printf(a, "%u", p->at.tid);
    s->from_node = p->from == IPS_NO_NODE ? IPS_UNMEASURED : p->from;
    s->to_node = p->to;
    s->ns = p->ns;
}

/* Returns the pieces to be sent to the client, and sets *count to their number.
 */
static const struct path_piece *get_pieces_to_send(const struct query *q,
                                                   uint64_t *count)
{
    const struct path_data *d = q->data;
    if (!d->top_segments)
        return path_profile_pieces(q, count);
    *count = q->request->path->top;
    return d->top_segments;
}

/* Selects the longest pieces if the client wants only these. Returns false if
 * there was no memory, which ended the question. */
static bool select_top_segments(struct query *q)
{
    struct path_data *d = path_data_of(q);
    uint64_t count, top = q->request->path->top;
    const struct path_piece *pieces = path_profile_pieces(q, &count);
    struct ips_err err = {0};
    if (d->top_segments || top == 0 || top >= count)
        return true;
    d->top_segments = calloc(top, sizeof(*d->top_segments));
    if (d->top_segments &&
        select_longest_pieces(pieces, count, top, d->top_segments))
        return true;
    ips_err_set(&err, IPS_E_NO_MEMORY, "no memory for the answer");
    query_fail(q, &err);
    return false;
}

static void send_segments(struct query *q, uint64_t count)
{
    struct path_data *d = path_data_of(q);
    uint64_t all;
    const struct path_piece *pieces = get_pieces_to_send(q, &all);
    struct arena a = {0};
    Ips__Segment *rows = arena_alloc(&a, count * sizeof(*rows));
    Ips__Segment **list = arena_alloc(&a, count * sizeof(*list));
    if (rows && list) {
        for (uint64_t i = 0; i < count; i++) {
            fill_segment(q, &a, &pieces[d->sent + i], &rows[i]);
            list[i] = &rows[i];
        }
        Ips__PathAnswer answer = IPS__PATH_ANSWER__INIT;
        Ips__Reply reply = IPS__REPLY__INIT;
        answer.n_segments = count;
        answer.segments = list;
        reply.answer_case = IPS__REPLY__ANSWER_PATH;
        reply.path = &answer;
        query_send_partial_reply(q, &reply);
        d->sent += count;
    } else {
        struct ips_err err = {0};
        ips_err_set(&err, IPS_E_NO_MEMORY, "no memory for the answer");
        query_fail(q, &err);
    }
    arena_release(&a);
}

void path_send_answer_until_backlog(struct query *q)
{
    struct path_data *d = path_data_of(q);
    uint64_t count;
    if (!select_top_segments(q))
        return;
    (void)get_pieces_to_send(q, &count);
    while (!q->over && d->sent < count && q->request->path->segments) {
        if (query_is_client_backlogged(q))
            return;
        uint64_t left = count - d->sent;
        send_segments(q, left < SEGMENTS_A_REPLY ? left : SEGMENTS_A_REPLY);
    }
    if (!q->over && path_profile_send_rows_until_backlog(q))
        send_last_path_reply(q);
}
