/*
 * The critical path: checks the question, gathers tables and peers, lets an
 * engine compute every lane, and makes the answer with its certificate. What
 * cannot be answered is refused with the reason. Category 3 of IPS-9.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/types.h"
#include "master/certificate.h"
#include "master/engine.h"
#include "master/engine_auto.h"
#include "master/gather.h"
#include "master/longest.h"
#include "master/mtimes_plan.h"
#include "master/part.h"
#include "master/query_path_profile.h"
#include "master/weighting.h"

#define SEGMENTS_A_REPLY 4096
#define MAX_SHARES 10000 /* of one list */
#define SCALE_MAX 1000000u

/* ---- the question ------------------------------------------------------- */

int path_check_lane(const Ips__Lane *in, struct ips_lane *out,
                    struct ips_err *err)
{
    memset(out, 0, sizeof(*out));
    out->mtime.scale_num = out->mtime.scale_den = 1;
    if (!in)
        return 0;
    if (in->external > IPS_EXTERNAL_OFF)
        return ips_err_set(err, IPS_E_USAGE, "external %u: 0, 1 or 2",
                           in->external);
    if (in->scale_num > SCALE_MAX || in->scale_den > SCALE_MAX)
        return ips_err_set(err, IPS_E_USAGE,
                           "message times scaled by %u/%u: at most %u",
                           in->scale_num, in->scale_den, SCALE_MAX);
    out->mtime.base_ns = in->mtime_base_ns;
    out->mtime.per_byte_q32 = in->mtime_per_byte_q32;
    if (in->scale_den) {
        out->mtime.scale_num = in->scale_num;
        out->mtime.scale_den = in->scale_den;
    }
    out->external = (enum ips_external)in->external;
    out->calibrated = in->calibrated;
    out->any_off = in->any_off;
    return 0;
}

static int check_ask(const Ips__PathAsk *ask, struct path_data *d,
                     struct ips_err *err)
{
    static const char *const engines[] = {"",        "auto",     "contract",
                                          "central", "cm-async", "cm-sync"};
    bool known = false;
    enum ips_weighting weighting;
    int rc = weighting_of(ask->weighting, &weighting, err);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < sizeof(engines) / sizeof(*engines); i++)
        known = known || strcmp(ask->engine, engines[i]) == 0;
    if (!known)
        return ips_err_set(err, IPS_E_USAGE,
                           "engine %s: auto, contract, central, cm-async or "
                           "cm-sync",
                           ask->engine);
    if (ask->to_ns && ask->from_ns >= ask->to_ns)
        return ips_err_set(err, IPS_E_USAGE, "the window is empty");
    rc = path_profile_check(ask, err);
    if (rc == 0)
        rc = path_check_lane(ask->lane, &d->lanes[LANE_MAIN].lane, err);
    d->lanes[LANE_MAIN].lane.weighting = weighting;
    return rc;
}

static void scale(struct path_data *d, enum lane_id id, const char *name,
                  uint32_t num, uint32_t den)
{
    struct lane_result *r = &d->lanes[id];
    const struct ips_mtime *m = &d->lanes[LANE_MAIN].lane.mtime;
    r->name = name;
    r->lane = d->lanes[LANE_MAIN].lane;
    r->lane.mtime.scale_num *= num;
    r->lane.mtime.scale_den *= den;
    /* Nothing times anything is nothing: the same graph again. */
    r->wanted = (m->base_ns || m->per_byte_q32 ||
                 r->lane.weighting == IPS_WEIGH_WALL) &&
                m->scale_num;
    r->with_shares = id != LANE_FREE;
}

static void plan_lanes(struct query *q)
{
    struct path_data *d = path_of(q);
    mtimes_plan_lane(q, &d->lanes[LANE_MAIN].lane);
    uint64_t external = 0, resources = 0, probe = 0;
    for (uint32_t i = 0; i < q->gather.count; i++) {
        resources = ips_add_sat(resources, q->gather.active[i]->sync->any);
        probe = ips_add_sat(probe, q->gather.active[i]->sync->probe_arc_ns);
        const Ips__PeersAnswer *s = q->gather.active[i]->settled;
        external += s ? s->external + s->idle : 1;
    }
    d->lanes[LANE_MAIN].wanted = true;
    d->lanes[LANE_MAIN].with_shares = true;
    scale(d, LANE_FREE, NULL, 0, 1);
    scale(d, LANE_HALF, "message times x0.5", 1, 2);
    scale(d, LANE_DOUBLE, "message times x2", 2, 1);
    struct lane_result *off = &d->lanes[LANE_NO_EXTERNAL];
    off->name = "external off";
    off->lane = d->lanes[LANE_MAIN].lane;
    /* In `wall` what was waited for outside is time like any other. */
    off->wanted = off->lane.external != IPS_EXTERNAL_OFF && external > 0 &&
                  off->lane.weighting != IPS_WEIGH_WALL;
    off->lane.external = IPS_EXTERNAL_OFF;
    off->with_shares = true;
    struct lane_result *any = &d->lanes[LANE_NO_ANY];
    any->name = "resource arcs off";
    any->lane = d->lanes[LANE_MAIN].lane;
    any->wanted = !any->lane.any_off && resources > 0;
    any->lane.any_off = true;
    any->with_shares = true;
    struct lane_result *bare = &d->lanes[LANE_NO_PROBE];
    bare->name = "probe cost subtracted";
    bare->lane = d->lanes[LANE_MAIN].lane;
    bare->wanted = probe > 0 && bare->lane.weighting != IPS_WEIGH_WALL;
    bare->lane.probe_off = true;
    bare->with_shares = true;
}

static struct auto_facts facts_of(const struct query *q)
{
    const struct path_data *d = q->data;
    struct auto_facts f = {.machines = q->gather.count,
                           .nodes = d->nodes,
                           .memory_bytes = engine_auto_memory()};
    for (uint32_t i = 0; i < q->gather.count; i++) {
        const struct part *p = q->gather.active[i];
        f.threads += p->t.thread_count;
        f.round_trip_ns = ips_max_u64(f.round_trip_ns, p->round_trip_ns);
        if (p->settled) {
            f.kept = ips_add_sat(f.kept, p->settled->kept);
            f.crossing = ips_add_sat(f.crossing, p->settled->remote_in);
            f.crossing_out =
                ips_add_sat(f.crossing_out, p->settled->remote_out);
        }
    }
    return f;
}

static void choose_engine(struct query *q)
{
    struct path_data *d = path_of(q);
    const char *asked = q->request->path->engine;
    if (*asked && strcmp(asked, "auto") != 0) {
        d->engine = asked;
        snprintf(d->engine_text, sizeof(d->engine_text), "%s (as asked)",
                 d->engine);
        return;
    }
    char why[sizeof(d->engine_text) - 32];
    const struct auto_facts f = facts_of(q);
    d->engine = engine_auto(&f, why, sizeof(why));
    snprintf(d->engine_text, sizeof(d->engine_text), "%s (auto: %s)", d->engine,
             why);
}

/* Whatever names a window of the question becomes d->window here. */
static void make_window(struct query *q)
{
    struct path_data *d = path_of(q);
    const Ips__PathAsk *ask = q->request->path;
    d->window = (struct path_window){.given = ask->from_ns || ask->to_ns,
                                     .from_ns = ask->from_ns,
                                     .to_ns = ask->to_ns};
    if (d->lanes[LANE_MAIN].lane.weighting != IPS_WEIGH_WALL ||
        !d->window.given)
        return;
    /* The origin is that machine's command, not its first event. */
    const Ips__SyncAnswer *s = q->gather.active[d->origin_part]->sync;
    uint64_t late =
        s->root_start_ns ? ips_sub_sat(s->root_start_ns, s->first_ns) : 0;
    d->window.from_ns = ips_sub_sat(ask->from_ns, late);
    if (ask->to_ns) /* 0 is no end; nothing lies before 1 ns */
        d->window.to_ns = ips_max_u64(ips_sub_sat(ask->to_ns, late), 1);
}

static void run_engine(struct query *q)
{
    struct path_data *d = path_of(q);
    make_window(q);
    if (strcmp(d->engine, "central") == 0)
        engine_central(q);
    else if (strncmp(d->engine, "cm-", 3) == 0)
        engine_cm(q, strcmp(d->engine, "cm-async") == 0);
    else
        engine_contract(q);
}

static void profile_then_stream(struct query *q)
{
    path_profile_start(q, query_stream);
}

static void path_gathered(struct query *q)
{
    struct path_data *d = path_of(q);
    struct ips_err err = {0};
    d->nodes = 0;
    for (uint32_t i = 0; i < q->gather.count; i++) {
        struct part *p = q->gather.active[i];
        struct engine_part *e = calloc(1, sizeof(*e));
        if (!e) {
            ips_err_set(&err, IPS_E_NO_MEMORY, "no memory");
            query_fail(q, &err);
            return;
        }
        p->own = e;
        e->base = d->nodes;
        d->nodes = ips_add_sat(d->nodes, p->sync->nodes);
    }
    if (d->nodes == 0 || d->nodes >= IPS_NO_NODE) {
        ips_err_set(&err, d->nodes ? IPS_E_LIMIT : IPS_E_INCOMPLETE,
                    d->nodes ? "run %s has more nodes than one graph may have"
                             : "run %s has recorded nothing yet: no path",
                    q->run);
        query_fail(q, &err);
        return;
    }
    plan_lanes(q);
    choose_engine(q);
    if (weighting_goal(q, q->request->path->goal, &err) < 0)
        query_fail(q, &err);
    else
        weighting_clocks(q, run_engine);
}

static void path_start(struct query *q)
{
    struct ips_err err = {0};
    struct path_data *d = calloc(1, sizeof(*d));
    if (!d) {
        ips_err_set(&err, IPS_E_NO_MEMORY, "no memory");
        query_fail(q, &err);
        return;
    }
    q->data = d;
    int rc = check_ask(q->request->path, d, &err);
    q->calibrate = d->lanes[LANE_MAIN].lane.calibrated;
    if (rc < 0)
        query_fail(q, &err);
    else
        gather_start(q, GATHER_TABLE | GATHER_PEERS, path_gathered);
}

/* ---- the answer --------------------------------------------------------- */

static const struct part *part_at(const struct query *q, uint32_t number)
{
    return q->gather.active[number];
}

static const char *share_name(const struct query *q, struct arena *a,
                              const struct share_row *row, enum share_list list)
{
    const struct part *p = part_at(q, (uint32_t)(row->a >> 32));
    const char *name = part_process_name(p, (uint32_t)row->a);
    if (list == SHARE_MACHINE)
        return arena_printf(a, "/%s", p->machine);
    if (list == SHARE_PROCESS)
        return arena_printf(a, "/%s/%s", p->machine, name);
    if (list == SHARE_THREAD)
        return arena_printf(a, "/%s/%s/%" PRIu64, p->machine, name, row->b);
    if (list == SHARE_OUTSIDE)
        return arena_printf(a, "%s/%s -> %s", p->machine, name,
                            row->b == SHARE_EXTERNAL ? "external" : "idle");
    const struct part *o = part_at(q, (uint32_t)(row->b >> 32));
    return arena_printf(a, "%s/%s -> %s/%s", p->machine, name, o->machine,
                        part_process_name(o, (uint32_t)row->b));
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
        certificate_note(a, c,
                         arena_printf(a,
                                      "%zu smaller shares by %s are left out",
                                      s->count[list] - n, names[list]));
    *count = 0;
    for (size_t i = 0; i < n && out; i++) {
        const struct share_row *row = &s->row[list][i];
        Ips__Share *share = arena_alloc(a, sizeof(*share));
        if (!share)
            break;
        ips__share__init(share);
        share->object = ips_wire_text(share_name(q, a, row, list));
        share->ns = row->ns;
        share->count = row->count;
        share->stable = row->stable;
        share->ns_low = row->ns_low;
        share->ns_high = row->ns_high;
        out[(*count)++] = share;
    }
    return out;
}

/* Stability over the lanes; a lane equal to the main one changes nothing. */
static void fill_lanes(struct path_data *d, struct arena *a,
                       struct certificate *c)
{
    for (int id = LANE_HALF; id < LANES; id++) {
        struct lane_result *r = &d->lanes[id];
        bool same = true;
        if ((id == LANE_NO_ANY || id == LANE_NO_PROBE) && !r->wanted)
            continue; /* most programs have no such arc; nothing is known */
        if (id == LANE_NO_EXTERNAL && r->lane.weighting == IPS_WEIGH_WALL)
            continue;
        if (r->wanted) {
            struct shares *lane = &r->shares;
            shares_compare(&d->lanes[LANE_MAIN].shares, &lane, 1, &same);
        }
        Ips__LaneResult *row = arena_alloc(a, sizeof(*row));
        if (!row || !arena_grow(a, &c->msg.lanes, c->msg.n_lanes, &c->lane_cap,
                                sizeof(*c->msg.lanes)))
            return;
        ips__lane_result__init(row);
        row->lane = ips_wire_text(r->name);
        row->t_max_ns = r->wanted ? r->t_max : d->lanes[LANE_MAIN].t_max;
        row->same_order = same;
        c->msg.lanes[c->msg.n_lanes++] = row;
    }
}

char *path_mtime_text(const struct query *q, struct arena *a,
                      const struct ips_lane *lane)
{
    const struct ips_mtime *m = &lane->mtime;
    if (lane->calibrated)
        return arena_printf(a, "%s", q->gather.mtimes_text);
    if (lane->weighting == IPS_WEIGH_WALL && !m->base_ns && !m->per_byte_q32)
        return ips_wire_text("as measured, 0 where nobody waited");
    if (m->base_ns == 0 && m->per_byte_q32 == 0)
        return ips_wire_text("0 (not calibrated)");
    return arena_printf(
        a, "%" PRIu64 " ns + %.6f ns a byte, times %u/%u (given)", m->base_ns,
        (double)m->per_byte_q32 / 4294967296.0, m->scale_num, m->scale_den);
}

static void fill_certificate(const struct query *q, struct path_data *d,
                             struct arena *a, struct certificate *c)
{
    certificate_fill(q, a, c);
    c->msg.unmatched += d->unmatched;
    c->msg.any_on_path = d->lanes[LANE_MAIN].shares.resources;
    certificate_plan(q, a, c, 3, "the slaves' graphs");
    c->msg.engine = ips_wire_text(d->engine_text);
    c->msg.message_times = path_mtime_text(q, a, &d->lanes[LANE_MAIN].lane);
    if (weighting_clock_text(d))
        c->msg.clock = ips_wire_text(weighting_clock_text(d));
    if (d->lanes[LANE_MAIN].lane.weighting != IPS_WEIGH_CPU)
        c->msg.run_delay_unknown_ns = weighting_unknown(q);
    if (*d->pdm_note)
        certificate_note(a, c, d->pdm_note);
    if (*d->relay_note)
        certificate_note(a, c, d->relay_note);
    if (q->restarts > 0)
        certificate_note(a, c,
                         "a slave or its data changed on the way; the "
                         "answer was computed again from the beginning");
    fill_lanes(d, a, c);
}

/* Of the run's command. */
uint64_t path_goal_elapsed(const struct query *q)
{
    for (uint32_t i = 0; i < q->gather.count; i++) {
        const Ips__SyncAnswer *s = q->gather.active[i]->sync;
        if (s->state->has_root && s->goal_elapsed_ns)
            return s->goal_elapsed_ns;
    }
    return IPS_UNMEASURED;
}

static void fill_sums(const struct query *q, const struct path_data *d,
                      Ips__PathAnswer *out)
{
    const struct lane_result *main = &d->lanes[LANE_MAIN];
    const struct lane_result *free_lane = &d->lanes[LANE_FREE];
    uint64_t least = free_lane->wanted ? free_lane->t_max : main->t_max;
    out->weighting = ips_wire_text(weighting_name(main->lane.weighting));
    out->goal = ips_wire_text(d->goal_text);
    out->on_cpu_ns = d->on_cpu_ns;
    out->run_delay_ns = d->run_delay_ns;
    out->other_ns = d->other_ns;
    out->engine = ips_wire_text(d->engine);
    out->t_max_ns = main->t_max;
    out->total_cpu_ns = d->total_cpu_ns;
    out->parallelism = main->t_max
                           ? (double)d->total_cpu_ns / (double)main->t_max
                           : IPS_UNMEASURED_REAL;
    out->p_max =
        least ? (double)d->total_cpu_ns / (double)least : IPS_UNMEASURED_REAL;
    uint64_t window_ns;
    (void)path_profile_pieces(q, &out->segment_count);
    out->messages = path_profile_shares(q, &window_ns)->messages;
    out->elapsed_ns = path_goal_elapsed(q);
    out->category = ips_wire_text("3");
    out->took_ns = master_now_ns() - q->begun_ns;
    out->open = certificate_open(q);
}

static void fill_cost(const struct path_data *d, Ips__EngineCost *out)
{
    out->rounds = d->cost.rounds;
    out->values = d->cost.values;
    out->messages = d->cost.messages;
    out->bytes = d->cost.bytes;
    out->relayed = d->cost.relayed;
}

static void send_last(struct query *q)
{
    struct path_data *d = path_of(q);
    uint64_t window_ns;
    const struct shares *s = path_profile_shares(q, &window_ns);
    struct arena a = {0};
    struct certificate c;
    struct ips_err err = {0};
    Ips__PathAnswer answer = IPS__PATH_ANSWER__INIT;
    fill_certificate(q, d, &a, &c);
    fill_sums(q, d, &answer);
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
    if (path_profile_by(q->request->path, "thread"))
        answer.by_thread =
            fill_shares(q, &a, s, SHARE_THREAD, &answer.n_by_thread, &c);
    answer.window_ns = window_ns;
    path_profile_fill(q, &a, &c, &answer);
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

static const char *segment_kind(const struct path_piece *p)
{
    if (p->kind == IPS_SEG_COMPUTE)
        return "compute";
    return p->kind == IPS_SEG_EXTERNAL ? "external" : "message";
}

static const char *arc_name(const struct path_piece *p)
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
    const struct part *part = part_at(q, p->at.part);
    ips__segment__init(s);
    s->kind = ips_wire_text(segment_kind(p));
    s->arc = ips_wire_text(arc_name(p));
    s->machine = ips_wire_text(part->machine);
    s->process = ips_wire_text(part_process_name(part, p->at.process));
    s->thread = arena_printf(a, "%u", p->at.tid);
    s->from_node = p->from;
    s->to_node = p->to;
    s->ns = p->ns;
}

/* The pieces that the client gets. */
static const struct path_piece *shown(const struct query *q, uint64_t *count)
{
    const struct path_data *d = q->data;
    if (!d->longest)
        return path_profile_pieces(q, count);
    *count = q->request->path->top;
    return d->longest;
}

/* False: the question ended. */
static bool pick_longest(struct query *q)
{
    struct path_data *d = path_of(q);
    uint64_t count, top = q->request->path->top;
    const struct path_piece *pieces = path_profile_pieces(q, &count);
    struct ips_err err = {0};
    if (d->longest || top == 0 || top >= count)
        return true;
    d->longest = calloc(top, sizeof(*d->longest));
    if (d->longest && longest_pieces(pieces, count, top, d->longest))
        return true;
    ips_err_set(&err, IPS_E_NO_MEMORY, "no memory for the answer");
    query_fail(q, &err);
    return false;
}

static void send_segments(struct query *q, uint64_t count)
{
    struct path_data *d = path_of(q);
    uint64_t all;
    const struct path_piece *pieces = shown(q, &all);
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
        query_send(q, &reply);
        d->sent += count;
    } else {
        struct ips_err err = {0};
        ips_err_set(&err, IPS_E_NO_MEMORY, "no memory for the answer");
        query_fail(q, &err);
    }
    arena_release(&a);
}

static void path_pump(struct query *q)
{
    struct path_data *d = path_of(q);
    uint64_t count;
    if (!pick_longest(q))
        return;
    (void)shown(q, &count);
    while (!q->over && d->sent < count && q->request->path->segments) {
        if (query_client_full(q))
            return;
        uint64_t left = count - d->sent;
        send_segments(q, left < SEGMENTS_A_REPLY ? left : SEGMENTS_A_REPLY);
    }
    if (!q->over && path_profile_pump(q))
        send_last(q);
}

void path_done(struct query *q)
{
    struct path_data *d = path_of(q);
    struct ips_err err = {0};
    if (d->piece_count == 0 || d->lanes[LANE_MAIN].t_max == 0) {
        ips_err_set(&err, IPS_E_INCOMPLETE,
                    "run %s: what was recorded has no path longer than 0 ns: "
                    "nothing to show",
                    q->run);
        query_fail(q, &err);
        return;
    }
    if (!q->request->path->segments)
        d->sent = d->piece_count;
    weighting_split(q, path_profile_wanted(q) ? profile_then_stream
                                              : query_stream);
}

static void path_release(struct query *q)
{
    if (q->data) {
        path_profile_release(q);
        free(path_of(q)->longest);
    }
    engine_release(q);
    gather_release(q);
}

const struct query_kind query_path = {.name = "path",
                                      .exclusive = true,
                                      .start = path_start,
                                      .release = path_release,
                                      .pump = path_pump,
                                      .keeps = true};
